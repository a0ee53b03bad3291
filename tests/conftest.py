"""The order of the tests, which worker runs which, and what the summary tells besides."""

import os
import re

import pytest

# Before XGBoost or LightGBM is imported: with a thread a core in each of two workers, theirs spin while they wait.
os.environ.setdefault("OMP_NUM_THREADS", "1")

try:
    from xdist.scheduler import LoadScopeScheduling
except ImportError:  # without xdist there is one process
    LoadScopeScheduling = object


class OneWorkerForEachServer(LoadScopeScheduling):
    """Gives a test to whichever worker is free, but all tests of a database's server or of a cluster to one.

    xdist's own ``loadgroup`` does nothing with pytest 9: it writes groups to ``item._nodeid``, which is not read.
    """

    def _split_scope(self, nodeid):
        server = re.search(r"(\w+)@server\b", nodeid)  # see `tests.support.warehouses.databases`
        cluster = re.match(r"tests/engines/(dask|spark)/test_(dask|partitions|spark)\.py", nodeid)
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
_started_with: dict[str, list] = {}  # the jobs to start with a test


def pytest_collection_modifyitems(items):
    # Slow tests run first, so that no worker waits for another's last one.
    def place(item):
        if "slow" not in item.keywords:
            return 4
        places = (_FIRST in item.nodeid, _WITHOUT_KERNELS.search(item.nodeid), _BESIDE_SPARK.match(item.nodeid), True)
        return next(i for i, is_there in enumerate(places) if is_there)

    items.sort(key=place)
    beside = [item for item in items if place(item) == 2]
    if beside:
        jobs = [item.callspec.params["found"] for item in items if item.nodeid.startswith(_IN_SPARK)]
        _started_with[beside[0].nodeid] = jobs


def pytest_runtest_setup(item):
    for job in _started_with.get(item.nodeid, ()):
        from tests.engines.spark import session

        if session.is_there():
            session.start(job)


def pytest_terminal_summary(terminalreporter):
    # The seeds and numbers of the fuzzed cases, also when all passed.
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    lines = [value for report in reports for name, value in report.user_properties if name == "fuzz"]
    if lines:
        terminalreporter.section("fuzzing")
        for line in lines:
            terminalreporter.write_line(line)
