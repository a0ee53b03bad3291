"""The order of the tests, which worker runs which, and what the summary tells besides."""

import re

import pytest

try:
    from xdist.scheduler import LoadScopeScheduling
except ImportError:  # without xdist there is one process
    LoadScopeScheduling = object


class OneWorkerForEachServer(LoadScopeScheduling):
    """Gives a test to whichever worker is free, but all tests of a database's server to one.

    xdist's own ``loadgroup`` does nothing with pytest 9: it writes groups to ``item._nodeid``, which is not read.
    """

    def _split_scope(self, nodeid):
        server = re.search(r"(\w+)@server\b", nodeid)  # see `tests.support.warehouses.databases`
        return server[1] if server else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return OneWorkerForEachServer(config, log)


def pytest_collection_modifyitems(items):
    # Slow tests run first, so that no worker waits for another's last one.
    items.sort(key=lambda item: "slow" not in item.keywords)


def pytest_terminal_summary(terminalreporter):
    # The seeds and numbers of the fuzzed cases, also when all passed.
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    lines = [value for report in reports for name, value in report.user_properties if name == "fuzz"]
    if lines:
        terminalreporter.section("fuzzing")
        for line in lines:
            terminalreporter.write_line(line)
