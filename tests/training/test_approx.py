"""``tree_method="approx"``: cuts weighted by hessians, for each tree or in each node, the same in every engine."""

import math
from collections import Counter
from contextlib import closing
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frameboost as fb
from frameboost.expressions.expression import Expression
from frameboost.parameters.parameters import Parameters
from frameboost.schema.types import Feature, FeatureType
from tests.support.cases import cases
from tests.support.engines import open_engine
from tests.support.examples import examples
from tests.support.frames import FEATURES_BY_TYPE, LABELS, every_type
from tests.support.xgboost_trees import compare_models, random_case, share_equal

ENGINES = ["numba", "polars", "duckdb"]
PROPOSALS = pytest.mark.parametrize("proposal", ["global", "local"])
# Two trees: the hessians of the second are the first that depend on a tree.
SHAPE = {"n_estimators": 2, "max_depth": 3, "learning_rate": 0.5, "verbose": False, "tree_method": "approx"}
STRUCTURE = ["tree", "node", "feature", "categories", "missing", "left", "right", "gain", "cover", "value"]


def naive_cuts(values: list[float], h: list[float], max_bin: int) -> list[float]:
    """Return the first value of each part of the ranks but the first, by the definition (equations 8 and 9)."""
    distinct = sorted(set(values))
    if len(distinct) <= max_bin:
        return distinct[1:]
    total, cuts, last = math.fsum(h), [], 0
    for value in distinct if total > 0 else ():
        below = math.fsum(w for v, w in zip(values, h, strict=True) if v < value)
        part = min(math.floor(below * max_bin / total), max_bin - 1)
        if part > last:
            cuts.append(value)
        last = part
    return cuts


def opened(frame: pl.DataFrame, h: list[float], proposal: str, engine: str):
    """Return an engine of the frame's features that has started a tree with these hessians (dyadic fractions)."""
    features = [Feature(name, FeatureType.from_polars(dtype)) for name, dtype in frame.schema.items()]
    frame = frame.with_columns(h=pl.Series(h, dtype=pl.Float64), y=0.0)
    parameters = Parameters(tree_method="approx", proposal=proposal)
    made = open_engine(engine, frame, features, {"label": "y", "weight": "h"}, parameters)
    made.load_columns()
    made.start_margins({"margin": Expression("0.0", ())})
    made.compute_gradients({"g_0": Expression("weight * 2", ("weight",)), "h_0": Expression("weight", ("weight",))}, {})
    made.start_tree(0)
    return made


def proposed(frame: pl.DataFrame, h: list[float], max_bin: int, proposal: str, engine: str) -> list[list]:
    """Return the cuts of each feature."""
    with closing(opened(frame, h, proposal, engine)) as made:
        if proposal == "global":
            return [list(bins.cuts) for bins in made.rebin(max_bin)]
        return [list(bins.cuts[0]) for bins in made.node_bins([0], max_bin)]


@pytest.mark.slow
@PROPOSALS
@pytest.mark.parametrize("engine", ENGINES)
@cases(
    ("values", "h", "max_bin", "expected"),
    [
        # Of 8: below 1 nothing, below 2 a half, below 3 nine sixteenths, below 4 five eighths, below 5 three quarters.
        ([5, 1, 2, 3, 4], [2, 4, 0.5, 0.5, 1], 2, ["2.0"]),
        ([5, 1, 2, 3, 4], [2, 4, 0.5, 0.5, 1], 4, ["2.0", "5.0"]),
        ([5, 1, 2, 3, 4], [2, 4, 0.5, 0.5, 1], 5, ["2.0", "3.0", "4.0", "5.0"]),  # a bin for each
        ([5, 1, 2, 3, 4], [1] * 5, 2, ["4.0"]),
        ([5, 1, 2, 3, 4, None], [2, 4, 0.5, 0.5, 1, 8], 3, ["2.0"]),
        # rows without weight make no further bin
        ([0, 1, 2, 3, 4], [1, 1, 0, 0, 0], 2, ["1.0"]),
        ([0, 1, 2, 3, 4], [0] * 5, 2, []),
        ([-0.0, 0.0, -1, 1], [1] * 4, 3, ["0.0", "1.0"]),
    ],
)
def test_cuts_by_hand(engine, proposal, values, h, max_bin, expected):
    frame = pl.DataFrame({"x": pl.Series(values, dtype=pl.Float64, strict=False)})
    assert [str(cut) for cut in proposed(frame, h, max_bin, proposal, engine)[0]] == expected


@pytest.mark.slow
@PROPOSALS
def test_columns_of_every_type_are_cut_alike(proposal):
    frame = every_type(300, seed=2)
    first, *others = (
        proposed(frame.select(list(FEATURES_BY_TYPE)), frame["w"].to_list(), 8, proposal, engine) for engine in ENGINES
    )
    for name, cuts in zip(FEATURES_BY_TYPE, first, strict=True):
        assert 1 <= len(cuts) <= 7 or name in ("string", "enum", "categorical")
    assert others == [first] * 2


_ROWS = st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 8), st.integers(0, 9)), min_size=1, max_size=60)


@pytest.mark.slow
@PROPOSALS
@pytest.mark.parametrize(("engine", "number"), [("numba", 30), ("polars", 6), ("duckdb", 3)])
def test_cuts_are_the_naive_twins(engine, number, proposal):
    @given(_ROWS, st.integers(2, 12))
    @settings(deadline=None, max_examples=examples(number))
    def check(rows, max_bin):
        values = [None if gap == 0 else x / 4 for x, _, gap in rows]
        weights = [w / 8 for _, w, _ in rows]
        present = [(v, w) for v, w in zip(values, weights, strict=True) if v is not None]
        if not present:
            return
        expected = naive_cuts(*map(list, zip(*present, strict=True)), max_bin - (None in values))
        frame = pl.DataFrame({"x": pl.Series(values, dtype=pl.Float64)})
        assert proposed(frame, weights, max_bin, proposal, engine) == [expected]

    check()


@pytest.mark.parametrize("engine", ENGINES)
def test_every_node_is_cut_by_its_own_rows(engine):
    rng = np.random.default_rng(1)
    x, h = rng.integers(0, 40, 200).astype(float), rng.integers(0, 9, 200) / 4
    x[:20] = np.nan
    none = fb.engines.contract.Stats(0.0, 0.0)
    split = fb.engines.contract.Split(0, 1.0, none, none, missing_left=True, threshold=13.0)
    with closing(opened(pl.DataFrame({"x": x}), h.tolist(), "local", engine)) as made:
        made.apply_splits({0: (split, 1, 2)})
        (found,) = made.node_bins([2, 1], 6)
    for place, rows in enumerate((x >= 13.0, ~(x >= 13.0))):
        present = rows & ~np.isnan(x)
        cuts = naive_cuts(x[present].tolist(), h[present].tolist(), 5)
        assert list(found.cuts[place]) == cuts
        sums = np.bincount(np.digitize(x[present], cuts), h[present], minlength=found.histogram.shape[1] - 1)
        counts = np.bincount(np.digitize(x[present], cuts), h[present] > 0, minlength=len(sums))
        np.testing.assert_array_equal(found.histogram[place, :-1, 1:], np.column_stack([sums, counts]))
        missing = h[rows & ~present]
        np.testing.assert_array_equal(
            found.histogram[place, -1], [2 * missing.sum(), missing.sum(), (missing > 0).sum()]
        )
        np.testing.assert_array_equal(found.histogram[place, :, 0], 2 * found.histogram[place, :, 1])


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "proposal"), list(zip(ENGINES, ["local", "global", "local"], strict=True)))
def test_validation_follows(engine, proposal):
    frame = every_type(300, seed=4).select("float64", "string", "date", "late")
    training, held_out = frame.head(200), frame.tail(100)
    options = {**SHAPE, "objective": "binary:logistic", "proposal": proposal, "max_bin": 6, "engine": engine}
    model = fb.fit(training, "late", valid=held_out, train_metrics=True, **options)
    for part, rows in (("train", training), ("valid", held_out)):
        p = model.predict(rows).to_numpy()
        loss = -np.where(rows["late"], np.log(p), np.log1p(-p)).mean()
        assert model.history[f"{part}_logloss"][-1] == pytest.approx(loss, rel=1e-9)


@pytest.mark.parametrize("objective", LABELS)
def test_with_a_bin_for_each_value_all_methods_part_rows_alike(objective):
    frame, target = every_type(200, seed=5), LABELS[objective]
    features = [name for name in FEATURES_BY_TYPE if name not in ("string", "enum", "categorical")][::3]
    options = {**SHAPE, "objective": objective, "features": features}
    ways = [{"tree_method": "hist"}, {}, {"proposal": "local"}, {"tree_method": "exact"}]
    first, *others = (fb.fit(frame, target, **{**options, **way}).trees.select(STRUCTURE) for way in ways)
    for other in others:
        assert other.equals(first)


def test_with_equal_hessians_it_is_hist_whatever_the_bins():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 3))
    frame = pl.DataFrame(x, schema=list("abc")).with_columns(y=pl.Series(np.sin(x[:, 0]) * x[:, 1]))
    for max_bin in (2, 7, 64):
        hist = fb.fit(frame, "y", **{**SHAPE, "tree_method": "hist", "max_bin": max_bin})
        assert fb.fit(frame, "y", **SHAPE, max_bin=max_bin).trees.equals(hist.trees)


def test_the_hessians_of_logistic_loss_move_cuts_to_where_it_is_undecided():
    rng = np.random.default_rng(0)
    x = rng.uniform(-8, 8, 2000)
    frame = pl.DataFrame({"x": x, "y": rng.random(2000) < 1 / (1 + np.exp(-x))})
    options = {**SHAPE, "objective": "binary:logistic", "n_estimators": 12, "max_bin": 8, "reg_lambda": 0.0}
    thresholds: dict[str, dict[int, set[float]]] = {}
    for method in ("hist", "approx"):
        trees = fb.fit(frame, "y", **{**options, "tree_method": method}).trees
        thresholds[method] = {tree: set(rows["threshold"].drop_nulls()) for (tree,), rows in trees.group_by("tree")}
    assert thresholds["approx"][0] == thresholds["hist"][0], "at first all rows count alike"
    assert len(set().union(*thresholds["hist"].values())) <= 7
    # Where the model is sure h is small, so cuts move to where it is not: about 0.
    near = [t for tree in range(6, 12) for t in thresholds["approx"][tree] if abs(t) < 2]
    assert len(near) > len([t for tree in range(6, 12) for t in thresholds["hist"][tree] if abs(t) < 2])


@pytest.mark.slow
def test_random_trees_of_few_values_are_xgboosts():
    counts = Counter()
    for seed in range(8):
        case = random_case(seed)
        few = np.round(case.x * 4 / np.nanstd(case.x, axis=0).clip(1e-6)).clip(-60, 60).astype(np.float32)
        cuts = {f"x{i}": np.unique(column[~np.isnan(column)]) for i, column in enumerate(few.T)}
        # XGBoost's sketch has no place for values of rows without weight.
        weight = None if case.weight is None or (case.weight == 0).any() else case.weight
        case = replace(case, x=few, weight=weight, cuts=cuts, settings=case.settings | {"max_bin": 256})
        counts += compare_models(case, "approx")
    assert counts["splits"] > 50
    assert share_equal(counts) > 0.95, counts


@cases(
    ("options", "message"),
    [
        ({"proposal": "local"}, "proposal='local' is for tree_method='approx'; tree_method='hist' proposes splits"),
        ({"proposal": "local", "tree_method": "exact"}, "tree_method='exact' proposes splits once"),
        (
            {"tree_method": "approx", "proposal": "locale"},
            "must be one of 'global', 'local', not 'locale'; did you mean",
        ),
        (
            {"tree_method": "approx", "cuts": {"x": [1]}},
            "cuts can't be combined with tree_method='approx', which finds",
        ),
    ],
)
def test_what_does_not_go_together_is_an_error(options, message):
    with pytest.raises(fb.ParameterError, match=message):
        fb.fit(pl.DataFrame({"x": [1.0, 2.0], "y": [1.0, 2.0]}), "y", **options)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_feature_may_be_missing_in_all_nodes_that_are_open(engine):
    # x parts its missing values, on the right, from the others; below them x has no bin at all, and z parts them.
    x = [0.0] * 10 + [None] * 10
    z = [0.0] * 10 + [0.0] * 5 + [1.0] * 5
    frame = pl.DataFrame({"x": x, "z": z, "y": [0.0] * 10 + [20.0] * 5 + [30.0] * 5})
    model = fb.fit(frame, "y", n_estimators=1, learning_rate=1, reg_lambda=0, engine=engine, tree_method="approx",
                   proposal="local", grow_policy="lossguide", max_leaves=5, max_depth=0)  # fmt: skip
    assert model.predict(frame).to_list() == frame["y"].to_list()
