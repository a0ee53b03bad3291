"""A report of names and categories that would be markup, for the tests of its text and of the browser."""

import numpy as np
import polars as pl
import pytest

import frameboost as fb

SCRIPT = "</script><script>alert(1)</script>"
QUOTES = "a\"b'c`d`<!--${x}"
RNG = np.random.default_rng(4)
ROWS = pl.DataFrame({
    SCRIPT: RNG.normal(size=240), QUOTES: RNG.integers(0, 9, 240),
    "kind": RNG.choice(["<img src=x onerror=alert(2)>", SCRIPT, "c"], 240),
})  # fmt: skip
ROWS = ROWS.with_columns(
    (pl.col(SCRIPT) + (pl.col("kind") == "c") > pl.Series(RNG.normal(size=240))).alias("<b>late</b>")
)


@pytest.fixture(scope="session")
def hostile() -> str:
    """Return the page."""
    from frameboost.report import Wanted, report_html

    model = fb.fit(ROWS, "<b>late</b>", features=[SCRIPT, QUOTES, "kind"], n_estimators=3, max_depth=3, valid=0.2)
    return report_html(model, ROWS, Wanted("<b>late</b>", training=ROWS[:100], title=f"</title>{SCRIPT}", time="kind"))
