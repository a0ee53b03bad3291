"""The order of the tests, and what their summary tells besides."""


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
