"""The order of the tests, which worker runs which, and what the summary tells besides."""

import gc
import os
import re
import signal
from importlib.util import find_spec

import pytest

# Before XGBoost or LightGBM is imported: with a thread a core in each of two workers, theirs spin while they wait.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A hundred tests start Python, which would compile the package's modules each time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts processes in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
if find_spec("hypothesis"):  # `.ci/pythons` has none
    import tests.support.examples  # noqa: F401  # registers a profile, which hypothesis looks for before it collects
try:
    from xdist.scheduler import LoadScopeScheduling
except ImportError:  # without xdist there is one process
    LoadScopeScheduling = object


# The cores that tests may use, of which a worker of xdist takes one.
_CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []


def pytest_configure(config):
    # Two workers with two threads each wait for each other on two cores: with a core each they take 0.6 of the time.
    worker = getattr(config, "workerinput", None)
    if worker is not None and _CORES:
        os.sched_setaffinity(0, {_CORES[int(worker["workerid"].removeprefix("gw")) % len(_CORES)]})


@pytest.fixture
def all_cores():
    """Let the threads that a test starts run on all cores, as those of a user do."""
    if not _CORES:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, _CORES)
    yield
    os.sched_setaffinity(0, before)


@pytest.fixture(scope="session", autouse=True)
def _kernels_at_once():
    """Have kernels compiled when they are first called, so that what a test runs doesn't depend on those before."""
    from frameboost.runtime.kernel import compile_at_once

    with compile_at_once():
        yield


class OneWorkerForEachServer(LoadScopeScheduling):
    """Gives a test to whichever worker is free, but all tests of a database's server or of a cluster to one.

    xdist's own ``loadgroup`` does nothing with pytest 9: it writes groups to ``item._nodeid``, which is not read.
    """

    def _split_scope(self, nodeid):
        server = re.search(r"(\w+)@server\b", nodeid)  # see `tests.support.warehouses.databases`
        cluster = re.match(r"tests/engines/(dask|spark)/test_(dask|limits|partitions|spark)\.py", nodeid)
        if _BESIDE_OPENING in nodeid or _OPENED in nodeid:
            return _OPENED
        if _WITHOUT_KERNELS.search(nodeid) or _BESIDE_SPARK.match(nodeid):
            return "cluster of spark"
        return server[1] if server else f"cluster of {cluster[1]}" if cluster else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    config.option.loadscopereorder = False  # the order below
    return OneWorkerForEachServer(config, log)


# A fresh clone has no compiled kernels, and two workers that begin with the same ones would both compile them. So the
# first begins with a server, and the second with tests that train nothing in its own process.
_FIRST = "postgres@server"
_WITHOUT_KERNELS = re.compile(r"interop/test_(counts.*\[(xgboost|lightgbm|catboost)|from_(lightgbm|catboost))")
# Spark takes a minute, most of which is waiting. So what its tests do is started in its process with the first of these
# tests, which the same worker runs meanwhile.
_BESIDE_SPARK = re.compile(r"tests/(training/test_(ranking|approx)|compile/test_dialects)\.py")
_IN_SPARK = "tests/engines/spark/test_spark.py"
# The other Spark, in which models score, opens in ten seconds, during tests of another server.
_BESIDE_OPENING, _OPENED = "clickhouse@server", "spark@server"
_started_with: dict[str, list] = {}  # the jobs in Spark, or the name of a warehouse, to start with a test


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    # Half a million objects are made that stay. To look for garbage among them takes a third of the time, and half a
    # second each time that tests make some; what these make is looked for more rarely than by default.
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 20, 20)
        gc.enable()


def pytest_collection_modifyitems(items):
    # Slow tests run first, so that no worker waits for another's last one.
    def place(item):
        if "slow" not in item.keywords:
            return 5
        places = (_FIRST in item.nodeid, _WITHOUT_KERNELS.search(item.nodeid), _BESIDE_SPARK.match(item.nodeid),
                  _OPENED not in item.nodeid)  # fmt: skip
        return next((i for i, is_there in enumerate(places) if is_there), 4)

    items.sort(key=place)
    jobs = [item.callspec.params["found"] for item in items if item.nodeid.startswith(_IN_SPARK)]
    names = ["spark"] if any(_OPENED in item.nodeid for item in items) else []
    for marked, started in ((_BESIDE_SPARK.match, jobs), (re.compile(_BESIDE_OPENING).search, names)):
        beside = [item.nodeid for item in items if place(item) < 4 and marked(item.nodeid)]
        _started_with.update(dict.fromkeys(beside[:1], started))


@pytest.fixture(autouse=True)
def small_for_large(monkeypatch):
    """Have small tables trained on by queries, as large ones are."""
    from frameboost.engines import query_costs

    monkeypatch.setattr(query_costs, "MAX_VALUES", -1)


def pytest_runtest_setup(item):
    for started in _started_with.get(item.nodeid, ()):
        if isinstance(started, str):
            from tests.support.warehouses import start_warehouse

            start_warehouse(started)
            continue
        from tests.engines.spark import session

        if session.is_there():
            session.start(started)


def pytest_terminal_summary(terminalreporter):
    # The seeds and numbers of the fuzzed cases, also when all passed.
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    lines = [value for report in reports for name, value in report.user_properties if name == "fuzz"]
    if lines:
        terminalreporter.section("fuzzing")
        for line in lines:
            terminalreporter.write_line(line)
