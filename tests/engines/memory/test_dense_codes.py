"""Codes by row alone, with copies of a few columns: models are those of codes that are kept by column too."""

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.engines.memory.columns import DenseCodes

SETTINGS = {
    "plain": {},
    "deep": {"max_depth": 8, "subsample": 0.7},
    "leaf by leaf": {"grow_policy": "lossguide", "max_leaves": 40, "max_depth": 0, "colsample_bynode": 0.5},
    "symmetric": {"grow_policy": "symmetric"},
    "forest": {"num_parallel_tree": 3, "subsample": 0.5, "booster": "dart", "rate_drop": 0.5},
    "absolute error": {"objective": "reg:absoluteerror"},
    "several outputs": {"multi_strategy": "multi_output_tree", "objective": "multi:softprob", "target": "k"},
    "approx": {"tree_method": "approx"},
    "linear": {"linear_tree": True},
    "shards": {"shards": 3},
    "monotone": {"monotone_constraints": {"x0": 1}},
}


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    """Return rows of 20 numbers, strings of few and of 300 values, and columns of few values, which are bundled."""
    rng = np.random.default_rng(4)
    n = 2000
    frame = pl.DataFrame(rng.normal(size=(n, 20)).round(2), schema=[f"x{i}" for i in range(20)]).with_columns(
        pl.Series("text", rng.integers(0, 9, n)).cast(pl.String),
        pl.Series("wide", rng.integers(0, 300, n)).cast(pl.String),
        *(pl.Series(f"few{i}", rng.integers(0, 3, n)) for i in range(9)),
        x1=pl.when(pl.Series(rng.random(n) < 0.2)).then(None).otherwise(pl.Series(rng.normal(size=n))),
    )
    noise = pl.Series(rng.normal(size=n))
    y = frame.select(pl.col("x0") * pl.col("x2") + pl.col("wide").cast(pl.Int64) / 100 + pl.col("few1")).to_series()
    return frame.with_columns(y=y + noise, k=((y + noise) * 2).cast(pl.Int64).abs() % 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_models_are_the_same(rows, monkeypatch, name):
    how = {"target": "y", "valid": 0.2, "n_estimators": 2} | SETTINGS[name]
    frame = rows.drop("k" if how["target"] == "y" else "y")
    monkeypatch.setattr("frameboost.engines.memory.columns.CODES_PER_TREE", 0)  # no tree in one call
    monkeypatch.setattr("frameboost.engines.memory.engine.MIN_SORTED", 1 << 10)
    monkeypatch.setattr("frameboost.engines.memory.sparse.MIN_BUNDLED_ROWS", 0)
    expected = fb.fit(frame, **how)
    monkeypatch.setattr("frameboost.engines.memory.columns.MAX_TWICE", 0)
    found = fb.fit(frame, **how)
    assert found == expected
    assert found.history.equals(expected.history)


def test_columns_are_copied_while_there_is_room(monkeypatch):
    monkeypatch.setattr("frameboost.engines.memory.columns.MAX_TWICE", 0)
    codes = DenseCodes(np.arange(12), np.uint8, 100)  # room for two copies
    codes.rows[:] = np.arange(1200).reshape(100, 12) % 251
    many = np.arange(5)  # no first splits
    assert [places.tolist() for _, places in codes.compared(many)] == [[-1] * 5, [0, 1, 2, 3, 4]]
    assert [places.tolist() for _, places in codes.compared(np.array([7]))] == [[0], [-1]]
    assert [places.tolist() for _, places in codes.compared(np.array([4]))] == [[1], [-1]]
    assert [places.tolist() for _, places in codes.compared(np.array([4, 7, 5]))] == [[1, 0, -1], [-1, -1, 5]]


@pytest.mark.parametrize("by_row", [True, False])
@pytest.mark.parametrize("was_by_row", [True, False])
def test_codes_have_rows_if_wanted_whatever_the_codes_had_whose_memory_they_take(by_row, was_by_row):
    # Bundled features have no codes by row: as many others of their type had none either, and no split, in `approx`.
    places = np.array([0, 1])
    before = DenseCodes(places, np.uint8, 300, by_row=was_by_row)
    codes = DenseCodes(places, np.uint8, 300, by_row=by_row, room=before)
    assert (codes.rows is not None) == by_row
    assert (codes.columns is before.columns) == (by_row == was_by_row)
