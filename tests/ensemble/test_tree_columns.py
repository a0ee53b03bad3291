"""Trees as arrays: joined, times a factor and with other codes, as by hand."""

import numpy as np

from frameboost.trees.linear_leaves import LinearLeaf, LinearTerm
from frameboost.trees.tree import LEAF, ColumnTrees, Tree, TreeColumns, count_leaves


def split(feature: int, threshold=None, categories=None, values=(-1.0, 2.0), **more) -> Tree:
    return Tree(
        (feature, LEAF, LEAF), (threshold, None, None), (categories, None, None), (False, True, False),
        (1, LEAF, LEAF), (2, LEAF, LEAF), (3.0, 0.0, 0.0), (4.0, 2.0, 2.0), (0.0, *values), **more,
    )  # fmt: skip


LEAVES = Tree((LEAF,), (None,), (None,), (False,), (LEAF,), (LEAF,), (0.0,), (1.0,), (0.5,), output=1)
FIRST = (split(0, threshold=2.5), LEAVES)
SECOND = (
    split(1, threshold=7),
    split(2, categories=(0, 1, 3)),
    split(3, categories=(1,), with_missing=(True, False, False)),
)


def test_joined_trees_are_those_of_all_parts():
    joined = TreeColumns.joined([TreeColumns.of(FIRST), TreeColumns.of(SECOND), TreeColumns.of((LEAVES,))])
    assert joined.trees() == (*FIRST, *SECOND, LEAVES)
    assert joined.integer_at.tolist() == [4]
    assert joined.categories_at.tolist() == [7, 10]
    assert TreeColumns.joined([TreeColumns.of(SECOND)]).trees() == SECOND


def test_values_are_times_a_factor_and_slopes_too():
    leaf = LinearLeaf(1.5, (LinearTerm(0, 2.0, 0.25, 1.0, 0.0, 5.0),))
    linear = split(0, threshold=2.5, linear=(None, leaf, None))
    found = TreeColumns.of((linear, *FIRST)).times(-0.5).trees()
    assert [tree.value for tree in found] == [(-0.0, 0.5, -1.0), (-0.0, 0.5, -1.0), (-0.25,)]
    assert found[0].linear == (None, LinearLeaf(-0.75, (LinearTerm(0, -1.0, 0.25, 1.0, 0.0, 5.0),)), None)
    assert found[1].gain == FIRST[0].gain


def test_codes_are_renumbered_and_stay_ascending():
    columns = TreeColumns.of((*FIRST, *SECOND))
    found = ColumnTrees(columns.renumbered({2: np.array([5, 0, 9, 2])}))
    assert [tree.categories[0] for tree in found] == [None, None, None, (0, 2, 5), (1,)]
    assert columns.renumbered({}).trees() == columns.trees()


def test_depths():
    chain = Tree(
        (0, LEAF, 0, LEAF, LEAF), (1.0, None, 2.0, None, None), (None,) * 5, (False,) * 5, (1, LEAF, 3, LEAF, LEAF),
        (2, LEAF, 4, LEAF, LEAF), (0.0,) * 5, (0.0,) * 5, (0.0,) * 5,
    )  # fmt: skip
    assert TreeColumns.of((*FIRST, chain, *SECOND)).depths() == [1, 0, 2, 1, 1, 1]


def test_leaves_are_counted_alike_in_columns_and_in_trees():
    trees = (*FIRST, *SECOND)
    assert count_leaves(trees) == count_leaves(ColumnTrees(TreeColumns.of(trees))) == 2 + 1 + 3 * 2


def test_columns_are_equal_where_trees_are():
    leaf = LinearLeaf(1.5, (LinearTerm(0, 2.0, 0.25, 1.0, 0.0, 5.0),))
    steeper = leaf._replace(terms=(leaf.terms[0]._replace(slope=3.0),))
    trees = [
        split(0, threshold=2.5), split(1, threshold=2.5), split(0, threshold=2.25),
        split(0, threshold=2), split(0), split(0, categories=(0, 1)), LEAVES,
        split(0, categories=(0, 2)), split(0, threshold=2.5, output=1), split(0, threshold=2.5, values=(1.0, 2.0)),
        split(0, threshold=2.5, with_missing=(True, False, False)), split(0, threshold=2.5, linear=(None, leaf, None)),
        split(0, threshold=2.5, linear=(None, steeper, None)), split(0, threshold=2.5, linear=(None, None, leaf)),
    ]  # fmt: skip
    columns = [ColumnTrees(TreeColumns.of((FIRST[1], tree))) for tree in trees]
    again = [ColumnTrees(TreeColumns.of((FIRST[1], tree))) for tree in trees]
    for i, first in enumerate(columns):
        assert [first == other for other in again] == [trees[i] == tree for tree in trees]
    unset = columns[0].columns
    stored = TreeColumns(**vars(unset) | {"nodes": {**unset.nodes, "with_missing": np.zeros(4, np.uint8)}})
    assert ColumnTrees(stored) == columns[0]
    assert columns[0] != ColumnTrees(TreeColumns.of(trees[:1]))
