"""What a fit says of its result: trees without a split, predictions far away; tiny targets are learned as others."""

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.errors import FrameboostWarning
from tests.support.cases import cases

ONE_TREE = {"n_estimators": 1, "learning_rate": 1.0, "reg_lambda": 0.0}


def rows(n: int = 300) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    return pl.DataFrame({"x": x, "y": np.sin(x) + 0.1 * rng.normal(size=n)})


@pytest.mark.slow
@cases(
    ("engine", "exponent"),
    [("numba", -20), ("numba", -300), ("numba", 40), ("polars", -300), ("duckdb", -20), ("duckdb", 40)],
)
def test_the_scale_of_a_target_does_not_matter(engine, exponent):
    frame, scale = rows(150), 2.0**exponent
    options = {"n_estimators": 1, "reg_lambda": 0.0, "engine": engine}
    model = fb.fit(frame, "y", **options)
    scaled = fb.fit(frame.with_columns(pl.col("y") * scale), "y", **options)
    n_more = len(scaled.trees) - len(model.trees)
    assert n_more == 0 if exponent < 0 else n_more >= 0  # the bound is no larger for large targets
    if exponent < 0:
        assert (scaled.predict(frame) == model.predict(frame) * scale).all()


@pytest.mark.slow
@cases("options", [{}, {"tree_method": "exact"}, {"grow_policy": "symmetric"}])
def test_the_scale_of_a_target_does_not_matter_beside_others(options):
    frame, scale, more = rows(150), 2.0**-30, {"n_estimators": 2, **options}
    alone = fb.fit(frame, "y", **more).predict(frame)
    both = frame.with_columns(pl.col("y") * scale, z=pl.col("x") * 2)
    for number, targets in enumerate((["y", "z"], ["z", "y"])):
        of_two = fb.fit(both, targets, features=["x"], **more).predict(frame)
        assert (of_two.arr.get(number) == alone * scale).all()
    normal = [
        fb.fit(data, "y", objective="dist:normal", **more).predict(frame) / factor
        for data, factor in ((frame, 1.0), (frame.with_columns(pl.col("y") * scale), scale))
    ]
    np.testing.assert_allclose(*normal, rtol=1e-9)
    with pytest.warns(FrameboostWarning, match="^no tree of target 2 has a split.*: no split gains more than gamma=5"):
        fb.fit(frame.with_columns(pl.col("y") * 99, z=pl.col("x") / 9), ["y", "z"], gamma=5.0, **more)


@cases("tree_method", ["hist", "exact", "approx"])
def test_tiny_weights_are_learned_from(tree_method):
    frame = rows().with_columns(w=pl.lit(2.0**-30))
    options = {**ONE_TREE, "min_child_weight": 0.0, "tree_method": tree_method}
    model = fb.fit(frame, "y", **options)
    assert len(model.trees) > 20
    assert (fb.fit(frame, "y", weight="w", **options).predict(frame) == model.predict(frame)).all()


@cases(
    ("options", "why"),
    [
        ({"min_child_weight": 1e3}, "sum to 300, and min_child_weight=1000"),
        ({"weight": "w"}, "sum to 0.0003, and min_child_weight=1"),
        ({"gamma": 1e6}, "no split gains more than gamma=1e\\+06"),
        ({"gamma": 1e6, "tree_method": "exact"}, "no split gains more than gamma=1e\\+06"),
        ({"features": ["one"]}, "no feature has two values"),
        ({"target": "tiny"}, "too small for float64"),
        ({"target": "event", "objective": "survival:cox"}, "every row of the target is censored"),
        ({"target": "rank", "objective": "rank:ndcg", "group": "id"}, "no query has two rows"),
    ],
)
def test_trees_without_a_split_are_said_and_why(options, why):
    frame = rows().with_columns(
        w=pl.lit(1e-6), one=pl.lit(2.0), tiny=pl.col("y") * 1e-200, event=-pl.col("y").abs() - 1,
        rank=pl.int_range(pl.len()) % 3, id=pl.int_range(pl.len()),
    )  # fmt: skip
    target = options.get("target", "y")
    rest = {"features": ["x"]} | {key: value for key, value in options.items() if key != "target"}
    with pytest.warns(FrameboostWarning, match=why) as found:
        model = fb.fit(frame, target, n_estimators=3, **rest)
    assert len(found) == 1
    assert model.trees["feature"].null_count() == len(model.trees) == 3
    assert model.predict(frame).n_unique() == 1


@cases(("objective", "helps"), [("reg:squaredlogerror", {}), ("reg:pseudohubererror", {"huber_slope": 1e5})])
def test_predictions_far_from_the_labels_are_said(objective, helps):
    frame = rows().with_columns(y=np.exp(pl.col("y")) * 180_000)
    options = {"objective": objective, "n_estimators": 5, "min_child_weight": 0.0}
    with pytest.warns(FrameboostWarning, match=r"of the labels \d+.*set base_score=") as found:
        fb.fit(frame, "y", **options)
    assert len(found) == 1
    fb.fit(frame, "y", base_score=180_000, **options, **helps)
    fb.fit(frame.with_columns(y=pl.col("x").abs()), "y", **options)
