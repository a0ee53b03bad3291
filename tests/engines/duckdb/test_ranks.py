"""Columns as ranks in memory (``tree_method="approx"``): bins and codes beside their definition, and equal models."""

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.engines.duckdb import approx, binning, memory
from frameboost.engines.duckdb.approx import undecided_bins
from tests.support.engines import assert_same
from tests.support.frames import every_type

SETTINGS = {
    "many bins, 8 levels": {"max_bin": 400, "max_depth": 8, "min_child_weight": 0.0},
    "leaf by leaf": {"grow_policy": "lossguide", "max_leaves": 20, "max_depth": 0},
    "samples": {"subsample": 0.6, "colsample_bytree": 0.7, "weight": "w"},
    "classes": {"target": "int8", "objective": "multi:softprob"},
    "medians": {"objective": "reg:absoluteerror"},
    "dropout": {"booster": "dart", "rate_drop": 0.5, "n_estimators": 3},
    "ranking": {"target": "late", "objective": "rank:ndcg", "group": "query"},
    "early stopping": {"valid": 0.3, "early_stopping_rounds": 2, "min_delta": 1e-3, "eval_metric": "mae",
                       "n_estimators": 5},
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
    monkeypatch.setattr(memory, "_SHARE", 0.0)
    assert_same(options.get("objective", "reg:squarederror"), expected, fb.fit(frame, engine="duckdb", **options))
    assert len(made) == 1


def test_bins_without_hessian_have_no_cut():
    assert undecided_bins(np.zeros(20), 4).tolist() == []


@pytest.mark.slow
@pytest.mark.parametrize(("fine", "sampled"), [(3, 400), (11, 400), (11, 30)])
def test_fine_bins_do_not_matter(monkeypatch, fine, sampled):
    monkeypatch.setattr(memory, "_SHARE", 0.0)  # no ranks in memory
    monkeypatch.setattr(approx, "FINE_BINS", fine)
    monkeypatch.setattr(binning, "_MIN_SAMPLED", sampled)
    monkeypatch.setattr(binning, "_SAMPLED_PER_BIN", 0)
    rng = np.random.default_rng(1)
    n = 400
    frame = pl.DataFrame({
        "x": rng.normal(size=n).round(2), "few": rng.integers(0, 4, n), "id": rng.permutation(n),
        "tied": np.where(rng.random(n) < 0.7, 1.5, rng.normal(size=n)), "w": rng.integers(0, 5, n),
    }).with_columns(
        pl.when(pl.col("x") > 0.8).then(None).otherwise(pl.col("id")).alias("null"),
        day=pl.date(2020, 1, 1) + pl.duration(days="id"), price=pl.col("x").cast(pl.Decimal(9, 2)),
        name=pl.col("few").cast(pl.String), y=pl.col("x") * 3 + pl.col("few") + pl.col("id") / 100,
    )  # fmt: skip
    options = {"weight": "w", "tree_method": "approx", "max_bin": 6, "n_estimators": 3, "max_depth": 3}
    models = [fb.fit(frame, "y", engine=name, **options) for name in ("polars", "duckdb")]
    assert_same("reg:squarederror", *models)
