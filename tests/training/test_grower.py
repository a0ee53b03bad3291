"""Tree growth: the order of nodes, stopping, tie-breaks and limits."""

from itertools import combinations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frameboost as fb
from frameboost.engines.memory import columns
from frameboost.engines.memory.engine import MemoryEngine
from frameboost.parameters.parameters import Parameters
from frameboost.splits.gain import leaf_score
from tests.support.cases import cases
from tests.support.examples import examples

HAND = {"n_estimators": 1, "learning_rate": 1.0, "reg_lambda": 0.0, "min_child_weight": 0.0, "base_score": 0.0}
METHODS = pytest.mark.parametrize("tree_method", ["hist", "exact"])


def root(model: fb.Model) -> dict:
    return model.trees.row(0, named=True)


# --- ties -------------------------------------------------------------------------------------------------------------


@METHODS
def test_ties_go_to_the_lowest_feature(tree_method):
    frame = pl.DataFrame({"b": [1.0, 2.0], "a": [1.0, 2.0], "y": [-1.0, 1.0]})
    for features in (["a", "b"], ["b", "a"]):
        assert root(fb.fit(frame, "y", features=features, tree_method=tree_method, **HAND))["feature"] == features[0]


@METHODS
def test_ties_go_to_the_lowest_threshold(tree_method):
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0], "y": [-1.0, 0.0, 1.0]})  # 1 | 2 3 gains as much as 1 2 | 3
    threshold = root(fb.fit(frame, "y", tree_method=tree_method, **HAND))["threshold"]
    assert threshold == 2.0


@METHODS
def test_ties_send_missing_right(tree_method):
    frame = pl.DataFrame({"x": [1.0, 2.0, None], "y": [-1.0, 1.0, 0.0], "w": [1.0, 1.0, 2.0]})
    # The missing row has g = 0 and h = 2: (1 | 2 + missing) gains 1/1 + 1/3, just as (1 + missing | 2) does.
    model = fb.fit(frame, "y", weight="w", tree_method=tree_method, max_depth=1, **HAND)
    assert root(model)["missing"] == "right"


@METHODS
def test_a_column_that_never_was_missing_sends_missing_right(tree_method):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"x": rng.normal(size=200), "y": rng.normal(size=200)})
    assert set(fb.fit(frame, "y", tree_method=tree_method).trees["missing"].drop_nulls()) == {"right"}


def test_exact_splits_integers_half_way_and_hist_at_a_value():
    frame = pl.DataFrame({"x": [1, 4], "y": [0.0, 2.0]})
    assert root(fb.fit(frame, "y", tree_method="exact", **HAND))["threshold"] == 3
    assert root(fb.fit(frame, "y", tree_method="hist", **HAND))["threshold"] == 4


# --- limits -----------------------------------------------------------------------------------------------------------

STEPS = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": [-1.0, 1.0, 9.0, 9.0]})


@METHODS
def test_gamma_is_compared_with_the_gain_without_its_half(tree_method):
    # -1, 1 | 9, 9: 0/2 + 324/2 - 324/4 = 81, then -1 | 1: 1 + 1 - 0 = 2. The papers' gain of it is ½·2 = 1.
    for gamma, leaves in ((0.0, 3), (1.5, 3), (2.0, 3), (2.1, 2), (81.0, 2), (81.1, 1)):
        model = fb.fit(STEPS, "y", gamma=gamma, tree_method=tree_method, **HAND)
        assert model.trees["feature"].null_count() == leaves, gamma


def test_exact_prunes_after_growing_and_hist_refuses_while_growing():
    # Exclusive or: no first split gains anything much, but the second ones do.
    frame = pl.DataFrame({"a": [0, 0, 1, 1], "b": [0, 1, 0, 1], "y": [0.0, 8.0, 8.1, 0.0]}).cast(pl.Float64)
    options = HAND | {"gamma": 1.0, "base_score": 4.0}
    assert len(fb.fit(frame, "y", tree_method="hist", **options).trees) == 1
    exact = fb.fit(frame, "y", tree_method="exact", **options)
    assert len(exact.trees) == 7
    np.testing.assert_allclose(exact.predict(frame), frame["y"], atol=1e-12)


def test_rows_of_pruned_leaves_get_the_renewed_value_of_their_ancestor():
    x = np.random.default_rng(0).normal(size=(300, 3))
    df = pl.DataFrame(x, schema=["a", "b", "c"]).with_columns(y=3 * pl.col("a") + pl.col("b").abs())
    options = {"objective": "reg:absoluteerror", "tree_method": "exact", "n_estimators": 4, "valid": df}
    pruned = fb.fit(df, "y", gamma=8.0, **options)
    assert pruned.trees.height < fb.fit(df, "y", **options).trees.height
    for rounds in range(1, 5):
        error = (df["y"] - pruned[:rounds].predict(df)).abs().mean()
        assert pruned.history.row(rounds - 1) == pytest.approx((rounds, error), rel=1e-12)


@METHODS
def test_min_child_weight_bounds_the_hessian_of_each_child(tree_method):
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": [0.0, 0.0, 0.0, 8.0], "w": [1.0, 1.0, 1.0, 0.5]})
    options = HAND | {"weight": "w", "max_depth": 1, "tree_method": tree_method}
    assert root(fb.fit(frame, "y", **options | {"min_child_weight": 0.5}))["threshold"] in (3.5, 4.0)
    assert root(fb.fit(frame, "y", **options | {"min_child_weight": 0.6}))["threshold"] in (2.5, 3.0)
    assert len(fb.fit(frame, "y", **options | {"min_child_weight": 2.0}).trees) == 1


@METHODS
@cases("depth", [1, 2, 5])
def test_max_depth_is_reached_and_kept(tree_method, depth):
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({"x": rng.normal(size=300), "y": rng.normal(size=300)})
    trees = fb.fit(frame, "y", max_depth=depth, tree_method=tree_method, **HAND).trees
    assert trees["depth"].max() == depth
    assert len(trees) > 2**depth


def test_no_limit_of_depth():
    frame = pl.DataFrame({"x": list(range(40)), "y": [2.0**i for i in range(40)]})
    assert fb.fit(frame, "y", max_depth=0, **HAND).trees["depth"].max() > 20


@cases("most", [2, 3, 5, 8])
@cases("policy", ["depthwise", "lossguide"])
def test_max_leaves_is_reached_and_kept(policy, most):
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({"x": rng.normal(size=300), "z": rng.normal(size=300), "y": rng.normal(size=300)})
    trees = fb.fit(frame, "y", max_leaves=most, grow_policy=policy, max_depth=0, **HAND).trees
    assert trees["feature"].null_count() == most


def test_lossguide_splits_the_largest_gain_first():
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({"x": rng.normal(size=300), "z": rng.normal(size=300), "y": rng.normal(size=300)})
    options = HAND | {"grow_policy": "lossguide", "max_depth": 0}
    full = fb.fit(frame, "y", max_leaves=60, **options).trees
    # Replay: of the open nodes always the one with the largest gain, counted on the full tree.
    gain = dict(full.select("node", "gain").rows())
    children = {node: (left, right) for node, left, right in full.select("node", "left", "right").rows()}
    open_nodes, taken = [0], []
    for _ in range(9):
        node = max(open_nodes, key=lambda n: gain[n])
        open_nodes.remove(node)
        open_nodes += children[node]
        taken.append(gain[node])
    small = fb.fit(frame, "y", max_leaves=10, **options).trees
    assert sorted(small["gain"].to_list())[-9:] == sorted(taken)


def test_the_budget_of_leaves_is_spent_in_order_of_the_level():
    # At depth 1 both nodes can be split, but there is room for one: the first.
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": [0.0, 1.0, 10.0, 15.0]})
    trees = fb.fit(frame, "y", max_leaves=3, **HAND).trees
    assert trees["feature"].to_list() == ["x", "x", None, None, None]
    lossguide = fb.fit(frame, "y", max_leaves=3, grow_policy="lossguide", **HAND).trees
    assert lossguide["feature"].to_list() == ["x", None, "x", None, None]


def test_of_equal_gains_lossguide_splits_the_node_made_first():
    # 0 2 | 10 12: either child gains 0 + 4 - 2 = 100 + 144 - 242 = 2.
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": [0.0, 2.0, 10.0, 12.0]})
    trees = fb.fit(frame, "y", max_leaves=3, grow_policy="lossguide", **HAND).trees
    assert trees["feature"].to_list() == ["x", "x", None, None, None]
    assert trees["gain"].to_list() == [100.0, 2.0, 0.0, 0.0, 0.0]


@METHODS
def test_rows_of_weight_zero_do_not_matter(tree_method):
    rng = np.random.default_rng(2)
    frame = pl.DataFrame({"x": rng.normal(size=200), "y": rng.normal(size=200), "w": rng.integers(0, 2, 200) * 1.0})
    cuts = {} if tree_method == "exact" else {"cuts": {"x": np.linspace(-2, 2, 20).tolist()}}
    all_rows = fb.fit(frame, "y", weight="w", tree_method=tree_method, max_depth=3, **cuts)
    counted = frame.filter(pl.col("w") > 0)
    without = fb.fit(counted, "y", weight="w", tree_method=tree_method, max_depth=3, **cuts)
    np.testing.assert_allclose(all_rows.predict(counted), without.predict(counted), rtol=1e-12)


@METHODS
def test_a_weight_of_two_is_a_row_given_twice(tree_method):
    rng = np.random.default_rng(2)
    frame = pl.DataFrame({"x": rng.integers(0, 30, 100), "y": rng.normal(size=100), "w": rng.integers(1, 4, 100)})
    repeated = frame.select(pl.all().repeat_by("w").explode())
    options = {"features": ["x"], "tree_method": tree_method, "n_estimators": 5}
    weighted = fb.fit(frame, "y", weight="w", **options)
    np.testing.assert_allclose(weighted.predict(frame), fb.fit(repeated, "y", **options).predict(frame), rtol=1e-9)


def test_each_round_learns_from_what_is_left():
    # η = ½ and a perfect split: the error halves each round.
    frame = pl.DataFrame({"x": [1, 2], "y": [0.0, 8.0]})
    options = HAND | {"base_score": None, "learning_rate": 0.5}
    for rounds, expected in ((1, 2.0), (2, 1.0), (3, 0.5)):
        model = fb.fit(frame, "y", **options | {"n_estimators": rounds})
        assert model.predict(frame).to_list() == [expected, 8.0 - expected]


# --- categories -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
@settings(max_examples=examples(25), deadline=None)
def test_the_set_of_categories_is_the_best_of_all(seed, has_missing, exact):
    rng = np.random.default_rng(seed)
    names = list("abcdef")
    codes = rng.integers(0, 7 if has_missing else 6, 50)
    y = rng.integers(-20, 20, 50) / 4
    frame = pl.DataFrame({"s": [None if c == 6 else names[c] for c in codes], "y": y})
    if len(set(codes) - {6}) < 2:
        return
    options = HAND | {"reg_lambda": 1.0, "max_depth": 1, "cat_smooth": 0.0}
    options["tree_method"] = "exact" if exact else "hist"
    split = root(fb.fit(frame, "y", **options))

    def gain(left: np.ndarray) -> float:
        parts = (left, ~left, np.ones(50, dtype=bool))
        scores = [(-y[p]).sum() ** 2 / (p.sum() + 1.0) for p in parts]
        return scores[0] + scores[1] - scores[2]

    best = 0.0
    for size in range(7):
        for chosen in combinations(range(7), size):
            left = np.isin(codes, chosen)
            if 0 < left.sum() < 50:
                best = max(best, gain(left))
    if best <= 1e-6:
        assert split["feature"] is None
        return
    assert split["gain"] == pytest.approx(best, rel=1e-9)
    named = np.array([c < 6 and names[c] in split["categories"] for c in codes])
    assert gain(named) == pytest.approx(best, rel=1e-9)


# --- histograms -------------------------------------------------------------------------------------------------------


def test_only_the_smaller_siblings_histogram_is_built(monkeypatch):
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({"x": rng.normal(size=400), "z": rng.normal(size=400), "y": rng.normal(size=400)})
    histograms, apply_splits, asked, children = MemoryEngine.histograms, MemoryEngine.apply_splits, [], [[0]]

    def recording(self, nodes, out, indices):
        sizes = np.bincount(self.partition.of_rows())
        asked.append((list(nodes), dict(enumerate(sizes.tolist()))))
        return histograms(self, nodes, out, indices)

    def moving(self, splits):
        children.append([child for _, left, right in splits.values() for child in (left, right)])
        return apply_splits(self, splits)

    expected = fb.fit(frame, "y", n_estimators=1, max_depth=4)
    monkeypatch.setattr(columns, "CODES_PER_TREE", 0)  # not the whole tree at once
    monkeypatch.setattr(MemoryEngine, "histograms", recording)
    monkeypatch.setattr(MemoryEngine, "apply_splits", moving)
    assert fb.fit(frame, "y", n_estimators=1, max_depth=4) == expected
    assert [len(nodes) for nodes, _ in asked] == [1] + [len(level) // 2 for level in children[1:-1]]
    for (nodes, sizes), level in zip(asked[1:], children[1:], strict=False):
        for node in nodes:
            assert sizes[node] <= sizes[level[level.index(node) ^ 1]]


# --- the whole algorithm, plainly ------------------------------------------------------------------------------------


def _naive_trees(x, y, candidates, p):
    """Boost squared error by the book: return margins after each tree, splits and all in plain Python."""
    margin = np.full(len(y), y.mean())
    for _ in range(p.n_estimators):
        g, h = margin - y, np.ones(len(y))

        def score(rows, g=g, h=h):
            return leaf_score(g[rows].sum(), h[rows].sum(), p.reg_lambda, p.reg_alpha, p.max_delta_step or 0.0)

        def grow(rows, depth, g=g, h=h, score=score):
            best = (1e-6, None)
            if depth < p.max_depth:
                for feature in range(x.shape[1]):
                    column = x[rows, feature]
                    for threshold in candidates(feature, column):
                        for missing_left in (False, True):
                            left = np.where(np.isnan(column), missing_left, column < threshold)
                            a, b = rows[left], rows[~left]
                            if min(len(a), len(b)) < max(p.min_child_weight, 1):
                                continue
                            gain = score(a) + score(b) - score(rows)
                            if gain > best[0] + 1e-9:
                                best = (gain, (a, b))
            if best[1] is None:
                w = -g[rows].sum() / (h[rows].sum() + p.reg_lambda)
                margin[rows] += p.learning_rate * w
            else:
                for part in best[1]:
                    grow(part, depth + 1)

        grow(np.arange(len(y)), 0)
    return margin


@METHODS
@cases("seed", range(3))
def test_trees_are_those_of_a_plain_implementation(tree_method, seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 12, (70, 3)).astype(float)
    x[rng.random(x.shape) < 0.15] = np.nan
    y = np.round(rng.normal(size=70) * 8 + np.nan_to_num(x[:, 0], nan=20), 2)
    cuts = [2.0, 5.0, 7.5, 11.0]

    def candidates(feature, column):
        if tree_method == "hist":
            return [*cuts, np.inf]
        values = np.unique(column[~np.isnan(column)])
        return [*(values[1:] + values[:-1]) / 2, np.inf]

    settings_ = {"n_estimators": 3, "max_depth": 3, "min_child_weight": 2.0, "reg_lambda": 0.5}
    expected = _naive_trees(x, y, candidates, Parameters(**settings_))
    frame = pl.DataFrame(x, schema=["a", "b", "c"]).with_columns(pl.Series("y", y))
    given_cuts = dict.fromkeys("abc", cuts) if tree_method == "hist" else None
    model = fb.fit(frame, "y", tree_method=tree_method, cuts=given_cuts, **settings_)
    np.testing.assert_allclose(model.predict(frame), expected, rtol=1e-9)
