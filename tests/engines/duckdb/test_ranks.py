"""Columns as ranks in memory (``tree_method="approx"``): bins and codes beside their definition, and equal models."""

from contextlib import closing

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.binning.bins import Bins
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.duckdb import approx
from frameboost.engines.duckdb.approx import RankedColumns
from frameboost.engines.duckdb.binning import SqlColumn
from frameboost.engines.duckdb.records import engine
from frameboost.engines.duckdb.records.engine import WordLayout
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature, FeatureType
from tests.support.engines import assert_same
from tests.support.frames import every_type


def test_bins_and_codes_follow_from_ranks():
    # The values and h of a row; by hand: 6 of h over the values -1, 0, 2 and 5, of which two parts are 3 each.
    values = [5.0, None, -1.0, 0.0, 2.0, -0.0, 5.0, None]
    days = [3, 1, None, 3, 1, 2, 2, 2]
    h = np.array([1.0, 9.0, 2.0, 0.5, 1.0, 0.5, 1.0, 9.0])
    number, day = FeatureType("float64"), FeatureType("date")
    bins = [
        Bins(Feature("number", number)), Bins(Feature("day", day)),
        Bins(Feature("word", FeatureType("string"), ("a", "b")), has_missing=True),
    ]  # fmt: skip
    with duckdb.connect() as con:
        con.register("arrived", pl.DataFrame({"value_0": values, "day": days, "bin_2": [0, 1, 2, 0, 1, 2, 0, 1]}))
        con.execute("CREATE TABLE stored AS SELECT value_0, DATE '1970-01-01' + CAST(day AS INTEGER) AS value_1, bin_2 "
                    "FROM arrived")  # fmt: skip
        with closing(DuckDBSession(con.table("stored"))) as session:
            columns = [SqlColumn(f"x{i}", own.feature.type) for i, own in enumerate(bins)]
            ranked = RankedColumns(session, "stored", columns, bins, len(h), Workers(2))
    positions = ranked.positions(h, 3)  # one bin is for missing values
    made = ranked.bins(positions)
    # Values weigh 2, 1, 1 and 2: the parts begin at -1 and, with 3 of 6 below it, at 2. Days 1, 2, 3 weigh 10, 10.5 and
    # 1.5: the second part of two begins at 11, which is in the day 2, so 3 is its first value.
    assert [own.cuts for own in made] == [(2.0,), (3,), ()]
    records = WordLayout({f"bin_{i}": own.largest_code for i, own in enumerate(made)})
    (word,) = ranked.words(records, made, positions)
    codes = [[1, 2, 0, 0, 1, 0, 1, 2], [1, 0, 2, 1, 0, 0, 0, 0], [0, 1, 2, 0, 1, 2, 0, 1]]
    np.testing.assert_array_equal(
        word, sum(np.array(own, np.uint64) << np.uint64(8 * i) for i, own in enumerate(codes))
    )


SETTINGS = {
    "many bins, 8 levels": {"max_bin": 400, "max_depth": 8, "min_child_weight": 0.0},
    "leaf by leaf": {"grow_policy": "lossguide", "max_leaves": 20, "max_depth": 0},
    "samples": {"subsample": 0.6, "colsample_bytree": 0.7, "weight": "w"},
    "classes": {"target": "int8", "objective": "multi:softprob"},
    "medians": {"objective": "reg:absoluteerror"},
    "dropout": {"booster": "dart", "rate_drop": 0.5, "n_estimators": 3},
    "ranking": {"target": "late", "objective": "rank:ndcg", "group": "query"},
    "early stopping": {"valid": 0.3, "early_stopping_rounds": 2, "eval_metric": "mae", "n_estimators": 5},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_models_are_equal_with_and_without_ranks(monkeypatch, name):
    made, original = [], approx.RankedColumns
    monkeypatch.setattr(approx, "RankedColumns", lambda *args: made.append(args) or original(*args))
    frame = every_type(300, seed=5)
    if name != "samples":  # of columns of all types
        frame = frame.select("int8", "float64", "int128", "boolean", "date", "string", "amount", "late")
    if name == "classes":
        frame = frame.with_columns(int8=pl.int_range(pl.len()) % 3)
    if name == "ranking":
        frame = frame.with_columns(query=pl.int_range(pl.len()) // 20)
    options = {"target": "amount", "tree_method": "approx", "max_bin": 12, "n_estimators": 2, "max_depth": 4}
    options |= SETTINGS[name]
    expected = fb.fit(frame, engine="numba", **options)
    assert_same(options.get("objective", "reg:squarederror"), expected, fb.fit(frame, engine="duckdb", **options))
    assert len(made) == 1
    if name in ("leaf by leaf", "medians", "dropout"):  # which the tables of ranks have nothing to do with
        return
    monkeypatch.setattr(engine, "_SHARE", 0.0)
    assert_same(options.get("objective", "reg:squarederror"), expected, fb.fit(frame, engine="duckdb", **options))
    assert len(made) == 1
