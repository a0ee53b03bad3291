"""Tree growth: the order of nodes, stopping, tie-breaks and limits."""

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.engines.memory import columns
from frameboost.engines.memory.engine import MemoryEngine
from tests.support.cases import cases

HAND = {"n_estimators": 1, "learning_rate": 1.0, "reg_lambda": 0.0, "min_child_weight": 0.0, "base_score": 0.0}
METHODS = pytest.mark.parametrize("tree_method", ["hist", "exact"])


@METHODS
def test_a_column_that_never_was_missing_sends_missing_right(tree_method):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"x": rng.normal(size=200), "y": rng.normal(size=200)})
    assert set(fb.fit(frame, "y", tree_method=tree_method).trees["missing"].drop_nulls()) == {"right"}


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


def test_each_round_learns_from_what_is_left():
    # η = ½ and a perfect split: the error halves each round.
    frame = pl.DataFrame({"x": [1, 2], "y": [0.0, 8.0]})
    options = HAND | {"base_score": None, "learning_rate": 0.5}
    for rounds, expected in ((1, 2.0), (2, 1.0), (3, 0.5)):
        model = fb.fit(frame, "y", **options | {"n_estimators": rounds})
        assert model.predict(frame).to_list() == [expected, 8.0 - expected]


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
