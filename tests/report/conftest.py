"""A report of names and categories that would be markup, for the tests of its text and of the browser."""

import pytest

from tests.support.hostile import SCRIPT, hostile


@pytest.fixture(scope="session")
def hostile_page() -> str:
    """Return the page."""
    from frameboost.report import ReportOptions, report_html

    of = hostile()
    target = of.targets[1]
    return report_html(
        of.models[1],
        of.rows,
        ReportOptions(target, training=of.rows[:100], title=f"</title>{SCRIPT}", time=of.time, by=of.kind),
    )
