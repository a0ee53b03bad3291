"""Trees that engines have grown whole become those of the model all at once."""

import numpy as np

from frameboost.binning.bins import Bins
from frameboost.engines.contract import GrownNodes
from frameboost.schema.types import Feature, FeatureType
from frameboost.training.grower import BinThresholds, GrownArrays, as_tree, as_trees
from frameboost.trees.tree import ColumnTrees, Tree

BINS = [
    Bins(Feature("whole", FeatureType("int64")), (10, 20, 30)),
    Bins(Feature("word", FeatureType("string"), ("a", "b", "c")), ()),
    Bins(Feature("real", FeatureType("float64")), (0.25, 0.5)),
]


def grown(feature, bin_, missing_left, left, value):
    count = len(feature)
    return GrownNodes(
        *map(np.array, (feature, bin_, missing_left, left)), np.zeros(count, np.int64), np.ones(9, np.bool_),
        np.arange(count) * 1.0, np.arange(count) + 10.0, np.array(value),
    )  # fmt: skip


def test_bins_become_thresholds_and_types_stay():
    """Bins of a feature count from 1; a node at the bin past the last cut asks whether the value is present."""
    thresholds = BinThresholds(BINS)
    nodes = [
        grown([0, 2, -1, -1, -1], [3, 1, 0, 0, 0], [1, 0, 0, 0, 0], [1, 3, -1, -1, -1], [0.0, 0.5, 1.0, 2.0, 3.0]),
        grown([-1], [0], [0], [-1], [7.0]),
        grown([1, -1, -1], [0, 0, 0], [0, 0, 0], [1, -1, -1], [0.0, -1.0, 1.0]),
        grown([2, -1, -1], [3, 0, 0], [0, 0, 0], [1, -1, -1], [0.0, -1.0, 1.0]),
    ]
    arrays = [GrownArrays(each, thresholds, {0: (0, 2)} if k == 2 else {}, k) for k, each in enumerate(nodes)]
    wanted = (
        Tree(
            (0, 2, -1, -1, -1), (30, 0.25, None, None, None), (None,) * 5, (True, False, False, False, False),
            (1, 3, -1, -1, -1), (2, 4, -1, -1, -1), (0.0, 1.0, 2.0, 3.0, 4.0), (10.0, 11.0, 12.0, 13.0, 14.0),
            (0.0, 0.5, 1.0, 2.0, 3.0), 0,
        ),
        Tree((-1,), (None,), (None,), (False,), (-1,), (-1,), (0.0,), (10.0,), (7.0,), 1),
        Tree(
            (1, -1, -1), (None,) * 3, ((0, 2), None, None), (False,) * 3, (1, -1, -1), (2, -1, -1), (0.0, 1.0, 2.0),
            (10.0, 11.0, 12.0), (0.0, -1.0, 1.0), 2,
        ),
        Tree(
            (2, -1, -1), (None,) * 3, (None,) * 3, (False,) * 3, (1, -1, -1), (2, -1, -1), (0.0, 1.0, 2.0),
            (10.0, 11.0, 12.0), (0.0, -1.0, 1.0), 3,
        ),
    )  # fmt: skip
    found = as_trees(arrays)
    assert isinstance(found, ColumnTrees)
    assert repr(tuple(found)) == repr(wanted)
    assert tuple(map(as_tree, arrays)) == wanted
    assert as_trees([wanted[0], *arrays[1:]]) == wanted  # after the rounds of a checkpoint
    assert as_trees([]) == ()


def test_the_next_tree_does_not_change_the_one_before():
    nodes = grown([-1], [0], [0], [-1], [7.0])
    kept = GrownArrays(nodes, BinThresholds(BINS), {}, 0)
    nodes.value[0] = 8.0
    assert as_tree(kept).value == (7.0,)
