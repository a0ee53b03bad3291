"""Trees as they are grown: their moves and values can be repeated, and all of a fit become those of the model at once.

An engine that grows whole trees names bins. Their thresholds are read from one array of the thresholds of all features,
for all trees of the fit at once: one tree at a time takes as long as growing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from frameboost.binning.bins import Bins
from frameboost.engines.contract import Engine, GrownNodes
from frameboost.engines.linear_contract import LinearEngine
from frameboost.ensemble.tree_columns import ColumnTrees, TreeColumns
from frameboost.schema.types import Physical
from frameboost.splits.split import IntArray, Split, Stats
from frameboost.trees.tree import LinearLeaf, Tree

__all__ = ["BinThresholds", "GrownArrays", "GrownTree", "Moves", "add_values", "as_tree", "as_trees", "moves_of"]

Moves = dict[int, tuple[Split, int, int]]  # node -> its split, left child, right child


@dataclass(frozen=True, slots=True)
class GrownTree:
    """A tree, and the calls of an engine that add its leaf values to the margins: the splits in steps, then values.

    The calls are needed only where a tree is repeated, and so come from a function. The tree may still be as the engine
    has grown it.
    """

    tree: Tree | GrownArrays
    margin: str
    calls: Callable[[], tuple[Sequence[Moves], Mapping[int, float], Mapping[int, LinearLeaf]]]

    @classmethod
    def of(cls, tree: Tree | GrownArrays, margin: str, bin_of: Callable[[int, Physical | None], int]) -> GrownTree:
        """Return a tree whose nodes have the same numbers in the engine (see `moves_of`)."""

        def calls() -> tuple[Sequence[Moves], Mapping[int, float], Mapping[int, LinearLeaf]]:
            t = as_tree(tree)
            return moves_of(t, bin_of), {leaf: t.value[leaf] for leaf in t.leaves()}, t.linear_leaves()

        return cls(tree, margin, calls)

    def add_to_margins(self, engines: Sequence[Engine], weight: float = 1.0) -> None:
        """Add the leaf values times ``weight`` to the margins of all rows of some engines."""
        steps, of_leaves, linear = self.calls()
        values = {node: value * weight for node, value in of_leaves.items()}
        for engine in engines:
            engine.reset_nodes()
            for moves in steps:
                engine.apply_splits(moves)
            add_values(engine, values, linear, self.margin)


def add_values(engine: Engine, values: Mapping[int, float], linear: Mapping[int, LinearLeaf], margin: str) -> None:
    """Add the values of leaves, some of which may be linear, to a margin of all rows of an engine."""
    if linear:
        cast(LinearEngine, engine).add_linear_leaves(values, linear, margin)
    else:
        engine.add_leaf_values(values, margin)


def moves_of(tree: Tree, bin_of: Callable[[int, Physical | None], int]) -> tuple[Moves, ...]:
    """Return the splits of a grown tree level by level, as an engine takes them; nodes have the numbers of the tree.

    ``bin_of`` returns the bin of a numeric split, by feature and threshold, for engines that compare bins.
    """
    steps: list[Moves] = []
    level = [0]
    while inner := [node for node in level if not tree.is_leaf(node)]:
        steps.append({node: (_split(tree, node, bin_of), tree.left[node], tree.right[node]) for node in inner})
        level = [child for node in inner for child in (tree.left[node], tree.right[node])]
    return tuple(steps)


def _split(tree: Tree, node: int, bin_of: Callable[[int, Physical | None], int]) -> Split:
    feature, threshold, categories = tree.feature[node], tree.threshold[node], tree.categories[node]
    left, right = (Stats(0.0, tree.cover[child]) for child in (tree.left[node], tree.right[node]))  # no G: not needed
    bin_ = bin_of(feature, threshold) if categories is None else 0
    return Split(feature, tree.gain[node], left, right, tree.missing_left[node], bin_, threshold, categories)


# --- trees as an engine has grown them --------------------------------------------------------------------------------


class BinThresholds:
    """The thresholds of all splits.

    Attributes
    ----------
    firsts
        int64 (features,): where the thresholds of each feature start, by `Split.bin`.
    of_slots
        All thresholds: None for categories and past the last cut, and at 0.
    floats
        float64: those that are floats, NaN for the others.
    is_integer
        bool: where they are neither floats nor None.
    """

    def __init__(self, bins: Sequence[Bins]) -> None:
        ends = np.cumsum([1, *(each.count + 1 for each in bins)])
        self.firsts: IntArray = ends[:-1] - 1  # bins are counted from 1 on
        self.of_slots: list[Physical | None] = [None] * int(ends[-1])
        self.is_integer, self.floats = np.zeros(ends[-1], np.bool_), np.full(ends[-1], np.nan)
        for start, each in zip(ends.tolist(), bins, strict=False):
            if each.cuts and not each.feature.type.is_categorical:
                of_feature = slice(start, start + len(each.cuts))
                self.of_slots[of_feature] = each.cuts
                if isinstance(each.cuts[0], float):
                    self.floats[of_feature] = each.cuts
                else:
                    self.is_integer[of_feature] = True


class GrownArrays:
    """The nodes of a tree that an engine has grown, copied from where the next tree is going to be.

    Parameters
    ----------
    grown
        The nodes, with the values of their leaves.
    thresholds
        The thresholds of their bins.
    categories
        The categories that nodes name, by node, ascending.
    output
        The output that the tree is for.
    """

    __slots__ = ("categories", "nodes", "output", "thresholds")

    def __init__(
        self, grown: GrownNodes, thresholds: BinThresholds, categories: Mapping[int, tuple[int, ...]], output: int
    ) -> None:
        g = grown
        self.nodes = tuple(
            [each.copy() for each in (g.feature, g.bin, g.missing_left, g.left, g.gain, g.cover, g.value)]
        )
        self.thresholds, self.categories, self.output = thresholds, categories, output


def as_tree(grown: Tree | GrownArrays) -> Tree:
    """Return one tree."""
    return grown if isinstance(grown, Tree) else _columns_of([grown]).trees()[0]


def as_trees(grown: Sequence[Tree | GrownArrays]) -> Sequence[Tree]:
    """Return all trees of a fit."""
    arrays = [each for each in grown if isinstance(each, GrownArrays)]
    if not grown or len(arrays) < len(grown):  # the first rounds may be those of a checkpoint
        return tuple(map(as_tree, grown))
    return ColumnTrees(_columns_of(arrays))


def _columns_of(grown: Sequence[GrownArrays]) -> TreeColumns:
    feature, bin_, missing_left, left, gain, cover, value = (
        np.concatenate(arrays) for arrays in zip(*(each.nodes for each in grown), strict=True)
    )
    sizes, is_inner, thresholds = np.array([len(each.nodes[0]) for each in grown]), feature >= 0, grown[0].thresholds
    slots = np.where(is_inner, thresholds.firsts[feature] + bin_, 0)
    integer_at = np.flatnonzero(thresholds.is_integer[slots])
    starts = np.cumsum(sizes) - sizes
    named = {start + node: codes for start, each in zip(starts.tolist(), grown, strict=True)
             for node, codes in each.categories.items()}  # fmt: skip
    nodes: dict[str, npt.NDArray[Any]] = {
        "feature": feature.astype(np.int32),
        "threshold": thresholds.floats[slots],
        "missing_left": (missing_left == 1).astype(np.uint8),
        "left": left.astype(np.int32),
        "right": (left + is_inner).astype(np.int32),  # `LEAF` of a leaf, which is added 0
        "gain": gain,
        "cover": cover,
        "value": value,
    }
    return TreeColumns(
        sizes, np.array([each.output for each in grown]), nodes,
        integer_at, [thresholds.of_slots[slot] for slot in slots[integer_at].tolist()],
        np.array(list(named), np.int64), np.array(list(map(len, named.values())), np.int64),
        np.array([code for codes in named.values() for code in codes], np.int64),
    )  # fmt: skip
