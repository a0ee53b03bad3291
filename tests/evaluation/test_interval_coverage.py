"""The share of labels that intervals hold, and their width, of a frame and of a relation."""

import duckdb
import polars as pl
import pytest

import frameboost as fb
from tests.support.cases import cases

LEARNT = pl.DataFrame({"x": [0, 1] * 20, "y": [0.0, 8.0] * 20})
# Predictions are 0 and 8; a distance of 2 holds all but the last two rows, which weigh 3 of 8.
ROWS = pl.DataFrame({
    "x": [0, 0, 1, 1, 0, 1], "y": [0.0, 2.0, 6.0, 9.0, 2.5, 3.0], "w": [1, 1, 1, 2, 1, 2], "g": list("aabbab"),
})  # fmt: skip


@pytest.fixture(scope="module")
def sure() -> fb.Model:
    model = fb.fit(LEARNT, "y", n_estimators=1, learning_rate=1.0, reg_lambda=0.0)
    return model.conform(LEARNT.with_columns(pl.col("y") + 2.0), "y")


def measured(model, of, **how) -> pl.DataFrame:
    if of == "frame":
        return model.evaluate(ROWS, "y", **how).interval
    with duckdb.connect() as con:
        con.register("rows", ROWS)
        return model.evaluate(con.table("rows"), "y", **how).interval


@pytest.mark.slow
@cases("of", ["frame", "relation"])
def test_labels_within_their_intervals_are_counted(sure, of):
    found = measured(sure, of)
    assert found.columns == ["coverage", "held", "mean_width"]
    assert found.row(0) == pytest.approx((0.9, 4 / 6, 4.0))
    assert measured(sure, of, weight="w").row(0) == pytest.approx((0.9, 5 / 8, 4.0))
    assert measured(sure, of, by="g").rows() == [
        ("a", 0.9, pytest.approx(2 / 3), 4.0), ("b", 0.9, pytest.approx(2 / 3), 4.0),
    ]  # fmt: skip


def test_widths_by_group_are_their_own():
    model = fb.fit(LEARNT, "y", n_estimators=1, learning_rate=1.0, reg_lambda=0.0)
    of_group = LEARNT.with_columns(g=pl.Series(["a", "a", "b", "b"] * 10))
    shifted = of_group.with_columns(pl.col("y") + pl.when(pl.col("g") == "a").then(1.0).otherwise(3.0))
    found = measured(model.conform(shifted, "y", groups="g"), "relation", by="g")
    assert found.rows() == [("a", 0.9, pytest.approx(1 / 3), 2.0), ("b", 0.9, pytest.approx(2 / 3), 6.0)]


def test_a_model_without_intervals_says_so(sure):
    with pytest.raises(fb.ParameterError, match="the model has no intervals"):
        _ = sure[:1].evaluate(ROWS, "y").interval
