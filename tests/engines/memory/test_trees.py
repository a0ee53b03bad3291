"""Trees that are grown in one call, compared with those that are grown level by level."""

from functools import cache

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.engines.memory import columns, trees
from frameboost.runtime import kernel as kernels
from frameboost.runtime.kernel import CompileLater

pytestmark = pytest.mark.usefixtures("all_cores")
ALL = {"objective": "multi:softprob", "target": "k", "multi_strategy": "multi_output_tree"}
CASES = {
    "plain": {},
    "no limit": {"max_depth": 0, "min_child_weight": 0.0, "reg_lambda": 0.0, "max_cat_to_onehot": 20},
    "few leaves": {"max_leaves": 5},
    "symmetric": {"grow_policy": "symmetric", "max_depth": 5},
    "symmetric, few leaves": {"grow_policy": "symmetric", "max_leaves": 9, "max_delta_step": 0.2},
    "symmetric, gamma": {"grow_policy": "symmetric", "gamma": 2.0, "reg_alpha": 0.3, "subsample": 0.6},
    "symmetric, quantiles": {"grow_policy": "symmetric", "objective": "reg:absoluteerror", "target": "z"},
    "no split": {"gamma": 1e9},
    "numbers": {"features": ["a", "b", "c"], "max_depth": 9, "min_child_weight": 0.0},
    "numbers, lossguide": {"features": ["a", "b"], "grow_policy": "lossguide", "max_leaves": 40, "max_depth": 0,
                           "reg_alpha": 0.1, "subsample": 0.7, "colsample_bynode": 0.8},
    "many categories": {"max_cat_to_onehot": 1, "max_cat_threshold": 3, "cat_smooth": 0.5},
    "sampling": {"subsample": 0.6, "colsample_bytree": 0.5, "num_parallel_tree": 2},
    "by node": {"colsample_bytree": 0.8, "colsample_bynode": 0.5, "max_depth": 4},
    "lossguide, by node": {"grow_policy": "lossguide", "max_leaves": 9, "colsample_bylevel": 0.8,
                           "colsample_bynode": 0.5},
    "symmetric, by node": {"grow_policy": "symmetric", "colsample_bylevel": 0.8, "colsample_bynode": 0.8},
    "by gradient": {"subsample": 0.5, "sampling_method": "gradient_based"},
    "quantiles": {"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.9], "target": "z"},
    "growing rate": {"learning_rate": 0.1, "max_learning_rate": 0.1015, "num_parallel_tree": 2, "subsample": 0.7},
    "dart": {"booster": "dart", "rate_drop": 0.5},
    "classes": {"objective": "multi:softprob", "target": "k"},
    "all classes": ALL | {"max_cat_to_onehot": 1, "max_cat_threshold": 3, "subsample": 0.6, "colsample_bynode": 0.7},
    "all classes, lossguide": ALL | {"grow_policy": "lossguide", "max_leaves": 9, "reg_alpha": 0.1,
                                     "max_delta_step": 0.4, "max_cat_to_onehot": 20, "min_child_weight": 3.0},
    "all classes, symmetric": ALL | {"grow_policy": "symmetric", "max_delta_step": 0.4, "num_parallel_tree": 2,
                                     "subsample": 0.5, "sampling_method": "gradient_based", "min_child_weight": 3.0},
    "all quantiles": ALL | {"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.9], "target": "z"},
}  # fmt: skip


@cache
def rows() -> pl.DataFrame:
    rng = np.random.default_rng(5)
    x, n = rng.normal(size=(700, 3)), 700
    category, other = rng.integers(0, 9, n), rng.integers(0, 3, n)
    z = x[:, 0] * x[:, 1] + np.sin(category) + 0.5 * (other == 1) + rng.normal(size=n)
    frame = pl.DataFrame(x.round(1), schema=["a", "b", "c"]).with_columns(
        pl.when(pl.col("a") > 0.7).then(None).otherwise(pl.col("b")).alias("b"),
        pl.Series("s", [f"s{i}" for i in category]),
        pl.Series("t", [None if i == 2 else f"t{i}" for i in other]),
        pl.Series("z", z),
        pl.Series("y", z > 0.5),
        pl.Series("k", np.digitize(z, [-0.5, 0.5])),
        pl.Series("late", np.arange(n) >= 500),
    )
    return frame.with_columns(
        pl.when(pl.col("late") & (pl.col("s") == "s3")).then(pl.lit("new")).otherwise("s").alias("s")
    )


def fitted(how: dict, table: pl.DataFrame | None = None, **more) -> fb.Model:
    table = rows() if table is None else table
    target = how.get("target", "y")
    options = {"n_estimators": 4, "engine": "numba", "valid": "late", "verbose": False} | how | more
    return fb.fit(table.select("a", "b", "c", "s", "t", "late", target), **options | {"target": target})


@cache
def at_once(name: str) -> fb.Model:
    """Return the model of a case, with one thread, each tree in a call."""
    return fitted(CASES[name], n_jobs=1)


def assert_same(found: fb.Model, expected: fb.Model) -> None:
    assert found == expected
    assert found.history.equals(expected.history)


@pytest.mark.parametrize("name", CASES)
def test_they_are_the_same(monkeypatch, name):
    expected = at_once(name)
    with monkeypatch.context() as patch:
        patch.setattr(trees, "FIRST_NODES", 1)  # and with less room than they need at first
        assert fitted(CASES[name]) == expected
    monkeypatch.setattr(columns, "CODES_PER_TREE", 0)
    assert_same(fitted(CASES[name]), expected)


def share_all_levels(patch: pytest.MonkeyPatch) -> None:
    for name in ("CODES_PER_TEAM", "ADDITIONS_PER_LEVEL", "MOVED_ROWS_PER_LEVEL"):
        patch.setattr(trees, name, 0)


@pytest.mark.parametrize(
    ("name", "n_jobs"), [(name, 2) for name in CASES] + [("plain", 8), ("symmetric", 8), ("by node", 8)]
)  # of eight ranges some would be empty: there are five features
def test_threads_that_share_levels_grow_the_same(monkeypatch, name, n_jobs):
    alone = at_once(name)
    share_all_levels(monkeypatch)
    assert_same(fitted(CASES[name], n_jobs=n_jobs), alone)


@pytest.mark.parametrize("name", [*CASES, "monotone"])
def test_first_fits_have_the_same_trees(monkeypatch, name):
    how = CASES.get(name, {"monotone_constraints": {"a": 1, "b": -1}})
    expected = at_once(name) if name in CASES else fitted(how)
    monkeypatch.setattr(CompileLater, "is_on", True)
    monkeypatch.setattr(kernels, "is_compiled", lambda _: False)
    for module in ("memory.trees", "memory.partition", "programs"):  # other tests may have used up what may be deferred
        for later in vars(__import__(f"frameboost.engines.{module}", fromlist=["_"])).values():
            if isinstance(later, CompileLater):
                monkeypatch.setattr(later, "_left", 1 << 30)
    monkeypatch.setattr("frameboost.engines.memory.engine.TreeKernels", None)  # not used
    assert_same(fitted(how), expected)


def test_held_out_rows_of_more_codes_follow(monkeypatch):
    """Held-out rows that are too many to walk move level by level."""
    expected, table = at_once("plain"), rows()
    monkeypatch.setattr(columns, "CODES_PER_TREE", 5 * 300)
    held_out = table.filter("late")
    training = table.filter(~pl.col("late")).drop("late", "z", "k")[:250]
    small = fb.fit(training, "y", valid=held_out.drop("late", "z", "k"), n_estimators=4, engine="numba", verbose=False)
    many = pl.concat([held_out] * 3).drop("late", "z", "k")
    large = fb.fit(training, "y", valid=many, n_estimators=4, engine="numba", verbose=False)
    assert large == small != expected
    assert large.history["valid_logloss"].to_list() == pytest.approx(small.history["valid_logloss"].to_list())
