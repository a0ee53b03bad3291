"""Splits of categorical columns: by hand, against all subsets and XGBoost's scan, and with many categories."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frameboost as fb
from frameboost.binning.bins import Bins, SlotLayout
from frameboost.parameters.parameters import Parameters
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature, FeatureType
from frameboost.splits.search import leaf_score, leaf_weight
from frameboost.splits.split import Penalties, Split, Stats
from frameboost.training.open_nodes import Constraints, FeatureSampler, OpenNode
from frameboost.training.splitter import HistogramSplitter, SplitSettings

SEEDS = st.integers(0, 2**32 - 1)
ENGINES = ["numba", "polars", "duckdb"]
METHODS = pytest.mark.parametrize("tree_method", ["hist", "exact"])
BY_HAND = {
    "n_estimators": 1, "learning_rate": 1.0, "reg_lambda": 0.0, "min_child_weight": 0.0, "base_score": 0.0,
    "cat_smooth": 0.0,
}  # fmt: skip
FREE = {"reg_lambda": 0.0, "reg_alpha": 0.0, "max_delta_step": 0.0, "min_child_weight": 0.0}


class OneHistogram:
    """A stand-in for an engine that has one node and one feature."""

    def __init__(self, histogram: np.ndarray) -> None:
        self.histogram = histogram

    def histograms(self, nodes: list[int], out: np.ndarray, places: np.ndarray) -> None:
        out[places] = self.histogram


def best_split(histogram: np.ndarray, penalties: Penalties) -> Split | None:
    """Return the split of a node with that histogram of one string feature, the missing bin last."""
    feature = Feature("s", FeatureType("string"), tuple(f"{code:06}" for code in range(len(histogram) - 1)))
    constraints, features = Constraints.of(Parameters(), [feature]), FeatureSampler(1, Parameters())
    settings = SplitSettings(penalties, constraints, features, gamma=0.0, workers=Workers(1))
    splitter = HistogramSplitter(OneHistogram(histogram), SlotLayout([Bins(feature)]), settings)
    (split,) = splitter.best_splits([OpenNode(0, 0, Stats(*histogram.sum(axis=0).tolist()))], 1e-6)
    return split


def score(part: np.ndarray, p: Penalties) -> float:
    return leaf_score(*part.sum(axis=0), p.reg_lambda, p.reg_alpha, p.max_delta_step)


def gain_of(histogram: np.ndarray, left: np.ndarray, p: Penalties) -> float:
    """Return the gain of sending left the categories, and missing, for which ``left`` is true; 0 if it is no split."""
    parts = histogram[left], histogram[~left]
    if min(part[:, 1].sum() for part in parts) <= 0 or min(part[:, 1].sum() for part in parts) < p.min_child_weight:
        return 0.0
    return score(parts[0], p) + score(parts[1], p) - score(histogram, p)


def random_histogram(seed: int, n_categories: int, missing: bool) -> np.ndarray:
    """Return sums of dyadic fractions, so that they are exact and ties are ties; some categories have no rows."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_categories + missing, 30)
    pairs = np.stack([rng.integers(-20, 21, 30) / 4, rng.integers(1, 9, 30) / 8], axis=1)
    histogram = np.zeros((n_categories + 1, 2))
    np.add.at(histogram, codes, pairs)
    return histogram


@pytest.mark.slow
@given(seed=SEEDS, n_categories=st.integers(1, 8), missing=st.booleans(), one_hot=st.booleans())
@settings(max_examples=60, deadline=None)
def test_no_set_of_categories_gains_more_than_the_one_taken(seed, n_categories, missing, one_hot):
    histogram = random_histogram(seed, n_categories, missing)
    if one_hot:  # of up to three categories, one against the rest is all there is, whatever the penalties
        histogram = histogram[-min(4, n_categories + 1) :]
        penalties = Penalties(20.0, 2.0, 0.5, 0.0)
    else:
        penalties = Penalties(**FREE, max_cat_to_onehot=1)
    split = best_split(histogram, penalties)
    best = 0.0
    present = np.flatnonzero(histogram[:, 1])  # the missing code, too, may go either way
    for size in range(1, len(present)):
        for chosen in combinations(present.tolist(), size):
            best = max(best, gain_of(histogram, np.isin(np.arange(len(histogram)), chosen), penalties))
    if split is None:
        assert best <= 1e-9
        return
    left = split.goes_left(len(histogram))
    assert split.gain == pytest.approx(best, rel=1e-9, abs=1e-9)
    assert split.left == Stats(*histogram[left].sum(axis=0).tolist())
    assert split.right == Stats(*histogram[~left].sum(axis=0).tolist())
    # The categories named are on the side that missing, and whatever else comes, does not go to.
    assert split.categories
    assert set(split.categories) <= set(present.tolist()) - {len(histogram) - 1}


def scanned(histogram: np.ndarray, p: Penalties) -> float:
    """Return the best gain of XGBoost's scan, in its words (EnumerateOneHot, EnumeratePart)."""
    n, best = len(histogram) - 1, 0.0
    present = [c for c in range(n) if histogram[c].any()]
    everything = np.arange(n + 1)
    if n < p.max_cat_to_onehot:
        for c in present:
            for right in ([c], [c, n]):
                best = max(best, gain_of(histogram, ~np.isin(everything, right), p))
        return max(best, gain_of(histogram, everything < n, p))  # which XGBoost has where a category is absent

    smoothing = min(p.cat_smooth, sum(histogram[:, 1]) / 20)

    def weight(c: int) -> float:
        G, H = histogram[c]
        if p.min_child_weight > H:
            return 0.0
        return leaf_weight(G, H + smoothing, p.reg_lambda, p.reg_alpha, p.max_delta_step)

    order = sorted((c for c in present if histogram[c, 1] >= smoothing), key=weight)
    for size in range(1, min(p.max_cat_threshold - 1, len(order)) + 1):
        best = max(best, gain_of(histogram, ~np.isin(everything, order[:size]), p))  # missing left
        best = max(best, gain_of(histogram, np.isin(everything, order[-size:]), p))  # missing right
    return best


@pytest.mark.slow
@given(
    seed=SEEDS,
    n_categories=st.sampled_from([1, 2, 3, 4, 7, 30]),
    missing=st.booleans(),
    reg_lambda=st.sampled_from([0.0, 1.0, 20.0]), reg_alpha=st.sampled_from([0.0, 2.0]),
    max_delta_step=st.sampled_from([0.0, 0.5]), min_child_weight=st.sampled_from([0.0, 0.75]),
    max_cat_to_onehot=st.sampled_from([1, 4, 8]), max_cat_threshold=st.sampled_from([1, 2, 3, 5, 64]),
    cat_smooth=st.sampled_from([0.0, 0.5, 1.5]),
)  # fmt: skip
@settings(max_examples=80, deadline=None)
def test_the_gain_is_that_of_xgboosts_scan(seed, n_categories, missing, **options):
    histogram = random_histogram(seed, n_categories, missing)
    penalties = Penalties(**options)
    split = best_split(histogram, penalties)
    best = scanned(histogram, penalties)
    if split is None:
        assert best <= 1e-9
        return
    assert split.gain == pytest.approx(best, rel=1e-9)
    assert split.gain == pytest.approx(gain_of(histogram, split.goes_left(len(histogram)), penalties), rel=1e-9)
    if n_categories >= penalties.max_cat_to_onehot:
        assert len(split.categories) < penalties.max_cat_threshold
        smoothing = min(penalties.cat_smooth, histogram[:, 1].sum() / 20)
        assert all(histogram[code, 1] >= smoothing * (1 - 1e-9) for code in split.categories)


@pytest.mark.parametrize("max_cat_threshold", [2, 17, 400])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_ends_of_many_categories_are_those_of_a_full_sort(max_cat_threshold, sign):
    rng = np.random.default_rng(3)
    histogram = np.zeros((2001, 2))
    G = rng.integers(-8, 9, 2000) / 4  # many ties
    histogram[:2000] = np.stack([sign * np.maximum(G, G / 4), rng.integers(1, 5, 2000)], axis=1)
    penalties = Penalties(1.0, 0.0, 0.0, 1.0, max_cat_threshold=max_cat_threshold)
    split = best_split(histogram, penalties)
    assert split.gain == pytest.approx(scanned(histogram, penalties), rel=1e-9)
    weight = -histogram[:2000, 0] / (histogram[:2000, 1] + 1)
    order = np.argsort(weight, kind="stable")
    k = len(split.categories)
    assert split.missing_left == (sign == 1), "the other end gains more"
    assert set(split.categories) == set((order[:k] if split.missing_left else order[-k:]).tolist())


@pytest.mark.parametrize("scale", [2.0**-4, 2.0**-12])
def test_sets_of_categories_are_the_same_whatever_the_size_of_hessians(scale):
    # G and H are sums of p - y and p(1 - p), which vanish alike where a rule is almost learnt.
    penalties = Penalties(**FREE, max_cat_to_onehot=1, cat_smooth=3.0)
    for seed in range(20):
        histogram = random_histogram(seed, 7, missing=seed % 2 == 1)
        assert histogram[:, 1].sum() < 20 * penalties.cat_smooth
        of_all, of_little = best_split(histogram, penalties), best_split(histogram * scale, penalties)
        assert of_all is not None
        assert of_little is not None
        assert of_little.categories == of_all.categories
        assert of_little.gain == of_all.gain * scale


def root_of(frame: pl.DataFrame, **options) -> dict:
    return fb.fit(frame, "y", max_depth=1, verbose=False, **BY_HAND, **options).trees.row(0, named=True)


@METHODS
def test_few_categories_are_split_one_against_the_rest(tree_method):
    # b is far off, a and c are alike: b goes right, whichever way it is off.
    for off in (9.0, -9.0):
        frame = pl.DataFrame({"s": ["a", "b", "c"] * 4, "y": [1.0, off, 2.0] * 4})
        root = root_of(frame, tree_method=tree_method)
        assert (root["categories"], root["missing"]) == (["b"], "left")
    # Two and two can't be parted that way, but can be by sorting.
    frame = pl.DataFrame({"s": ["a", "b", "c", "d"] * 4, "y": [1.0, 9.0, 1.0, 9.0] * 4})
    assert root_of(frame, tree_method=tree_method)["categories"] == ["a", "c"]
    assert len(root_of(frame, tree_method=tree_method, max_cat_to_onehot=5)["categories"]) == 1


@METHODS
def test_a_set_holds_fewer_categories_than_max_cat_threshold(tree_method):
    names = [f"{i:02}" for i in range(20)]
    frame = pl.DataFrame({"s": names * 2, "y": [float(i >= 8) for i in range(20)] * 2})
    assert root_of(frame, tree_method=tree_method, max_cat_threshold=9)["categories"] == names[:8]
    assert len(root_of(frame, tree_method=tree_method, max_cat_threshold=8)["categories"]) == 7
    assert root_of(frame, tree_method=tree_method, max_cat_threshold=1)["feature"] is None


@METHODS
def test_rare_categories_go_with_missing(tree_method):
    # x and y are extreme but have two rows each, which is less than a twentieth of each node that splits.
    s = ["a", "b", "c", "d"] * 40 + ["x", "x", "y", "y"]
    y = [1.0, 1.0, 2.0, 2.0] * 40 + [50.0, 50.0, -50.0, -50.0]
    frame = pl.DataFrame({"s": s, "y": y})
    assert root_of(frame, tree_method=tree_method)["categories"] in (["x"], ["y"])
    model = fb.fit(frame, "y", tree_method=tree_method, verbose=False, max_depth=2, **BY_HAND | {"cat_smooth": 3})
    named = {name for names in model.trees["categories"].drop_nulls() for name in names}
    assert named
    assert named <= set("abcd")
    missing, *rare = model.predict(pl.DataFrame({"s": [None, "x", "y", "never seen"]}, schema={"s": pl.String}))
    assert rare == [missing] * 3


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"cat_smooth": 4.0}, {"max_cat_threshold": 10_000}], ids=str)
def test_many_categories_give_one_model_in_all_engines(options):
    rng = np.random.default_rng(5)
    n, m = 3_000, 800
    codes = rng.integers(0, m, n)
    effect = rng.normal(size=m)
    frame = pl.DataFrame({
        "s": pl.Series([f"it's {code}" for code in codes]), "t": pl.Series(codes % 700).cast(pl.String),
        "x": rng.normal(size=n).round(2), "y": np.round(effect[codes] * 2 + rng.normal(size=n), 3),
    }).with_columns(pl.when(pl.col("x") > 1.5).then(None).otherwise("s").alias("s"))  # fmt: skip
    settings = {"n_estimators": 2, "max_depth": 4, "verbose": False} | options
    models = [fb.fit(frame, "y", engine=engine, **settings) for engine in ENGINES]
    assert models[0].to_json() == models[1].to_json() == models[2].to_json()
    lengths = models[0].trees["categories"].drop_nulls().list.len()
    assert len(lengths) > 10
    assert (lengths.max() < 64) == ("max_cat_threshold" not in options)
