"""Splits ahead of their turn: which they are, how they are undone, and that the tree is the same without."""

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.engines.memory import columns
from frameboost.engines.memory.engine import MemoryEngine
from frameboost.engines.polars.engine import PolarsEngine
from frameboost.splits.split import Split, Stats
from frameboost.training.look_ahead import nodes_ahead
from frameboost.training.open_nodes import Lossguide, OpenNode, Ranked
from tests.support.cases import cases


def node(id_: int, gain: float = 0.0) -> OpenNode:
    half = Stats(1.0, 1.0)
    return OpenNode(id_, 1, Stats(2.0, 2.0), split=Split(0, gain, half, half, False, 1, 1.5) if gain else None)


def divided(parent: OpenNode, first: int, *gains: float) -> OpenNode:
    parent.left, parent.right = (node(first + i, gain) for i, gain in enumerate(gains))
    parent.left.sibling, parent.right.sibling = parent.right, parent.left
    return parent


def heap(*nodes: OpenNode) -> list[Ranked]:
    order = Lossguide()
    for each in nodes:
        order.add(each)
    return order.waiting


def test_nodes_ahead_are_those_of_a_tree_that_grows_on():
    wide = divided(node(1, 9.0), 5, 4.0, 0.0)
    weak, strong = node(2, 3.0), node(3, 5.0)
    # In turn 9 (which is split), 5, 4 (a child of the first) and 3: a third of the splits left, rounded up.
    for budget, expected in ((3, []), (6, [3]), (9, [3, 5]), (10, [3, 5, 2]), (90, [3, 5, 2])):
        assert [n.id for n in nodes_ahead(heap(wide, weak, strong), budget)] == expected
    assert nodes_ahead([], 4) == []


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rng = np.random.default_rng(5)
    frame = pl.DataFrame(rng.normal(size=(500, 4)).round(1), schema=list("abcd"))
    y = pl.col("a") * pl.col("b") + (pl.col("c") > 0.5) * 2 + pl.Series(rng.normal(size=500))
    return frame.with_columns(y=y, w=pl.Series(rng.integers(0, 3, 500)), late=pl.int_range(500) % 4 == 0)


@pytest.mark.slow
@cases("more", [{}, {"max_depth": 4}, {"weight": "w", "monotone_constraints": {"c": 1}}, {"colsample_bynode": 0.5},
                {"objective": "reg:absoluteerror"}, {"booster": "dart", "rate_drop": 0.5, "gamma": 2.0}])  # fmt: skip
def test_the_tree_is_the_same(frame, monkeypatch, more):
    options = {"grow_policy": "lossguide", "max_leaves": 24, "max_depth": 0, "n_estimators": 2, "valid": "late"} | more
    expected = fb.fit(frame, "y", engine="numba", **options)  # so few rows are grown tree by tree
    monkeypatch.setattr(columns, "CODES_PER_TREE", 0)
    for name, engine in (("polars", PolarsEngine), ("numba", MemoryEngine)):
        batches = []

        def apply_splits(self, splits, original=engine.apply_splits, batches=batches):
            batches.append(len(splits))
            original(self, splits)

        monkeypatch.setattr(engine, "apply_splits", apply_splits)
        found = fb.fit(frame, "y", engine=name, **options)
        is_ahead = "colsample_bynode" not in more and "objective" not in more
        assert (max(batches) > 1) == is_ahead
        assert found.to_json() == expected.to_json()
