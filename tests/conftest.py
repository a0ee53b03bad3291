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
        return server[1] if server else f"cluster of {cluster[1]}" if cluster else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    config.option.loadscopereorder = False  # the order below
    return OneWorkerForEachServer(config, log)


# A fresh clone has no compiled kernels, and two workers that begin with the same ones would both compile them. So the
# first begins with a server, and the second with tests that train nothing in its own process.
_FIRST = "postgres@server"
_WITHOUT_KERNELS = re.compile(r"interop/test_(counts.*\[(xgboost|lightgbm|catboost)|from_(lightgbm|catboost))")


def pytest_collection_modifyitems(items):
    # Slow tests run first, so that no worker waits for another's last one.
    def place(item):
        if "slow" not in item.keywords:
            return 3
        return 0 if _FIRST in item.nodeid else 1 if _WITHOUT_KERNELS.search(item.nodeid) else 2

    items.sort(key=place)


def pytest_terminal_summary(terminalreporter):
    # The seeds and numbers of the fuzzed cases, also when all passed.
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    lines = [value for report in reports for name, value in report.user_properties if name == "fuzz"]
    if lines:
        terminalreporter.section("fuzzing")
        for line in lines:
            terminalreporter.write_line(line)
