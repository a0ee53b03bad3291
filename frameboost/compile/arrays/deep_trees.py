"""Trees of more than 255 nodes, packed for rows that walk them side by side.

A byte numbers the nodes of a top of a few levels only (see `frameboost.compile.arrays.byte_trees`). Below it rows walk,
a level at a time for a whole block of rows. A node is a word of 64 bits, siblings are next to each other, and a leaf is
its own child, so a step is the same arithmetic in each row, ``node = left + (code >= bound)``, and compiles to SIMD
instructions. Every five steps, rows that have arrived are left out. A missing code is 255 and goes right; where it
should go left, 1 is added to all codes modulo 256, and to the bound.

For example the tree ``x < 3 ? (y < 5 ? a : b) : c`` is packed as 0 (x), 1 (y), 2 (c), 3 (a), 4 (b), with the left
children 1, 3, 2, 3, 4. The row (1, 9) steps 0, 1, 4, and the row (7, 0) steps 0, 2, 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from frameboost.compile.arrays.byte_kernels import BOUND, CHILD, COLUMN, MISSING, NO_TABLE, ROTATED, ROUND
from frameboost.compile.arrays.flat_trees import FloatArray, TreeArrays
from frameboost.compile.arrays.predict_kernels import LEAF

__all__ = ["TOP_LEVELS", "PackedTrees"]

IntArray = npt.NDArray[np.int64]
_T = TypeVar("_T", bound=np.generic)
# Levels of a tree that are compared as bytes: more nodes have no number in a byte.
TOP_LEVELS = 7
# The bound of a leaf, which no code reaches, so that every row steps to the left child: the leaf itself.
_NEVER = 256


@dataclass(frozen=True)
class PackedTrees:
    """The nodes of an ensemble's trees in the order of the walk; siblings are next to each other.

    Attributes
    ----------
    place
        int64 (nodes,): the place of each node of `TreeArrays` among those of its tree here.
    height
        int64 (nodes,): the most steps from each node of `TreeArrays` to a leaf, at most `ROUND` + 1.
    words, table_of, value
        As `frameboost.compile.arrays.byte_kernels.add_deep_leaves` takes them.
    """

    index: IntArray
    height: IntArray
    words: npt.NDArray[np.uint64]
    table_of: IntArray | None
    value: FloatArray

    @classmethod
    def compile(
        cls, arrays: TreeArrays, column: IntArray, bound: IntArray, also: IntArray, table_of: IntArray
    ) -> PackedTrees:
        """Pack all trees, given what each node asks (see `frameboost.compile.arrays.byte_kernels.add_leaves`)."""
        start = np.repeat(arrays.roots, np.diff([*arrays.roots, len(arrays.feature)]))
        inner = np.flatnonzero(arrays.feature != LEAF)
        left, right, of_tree = arrays.left[inner], arrays.right[inner], start[inner]
        # The k-th inner node of a tree has the children 2k + 1 and 2k + 2.
        before = np.searchsorted(inner, of_tree)  # inner nodes of earlier trees
        first_child = 2 * (np.arange(len(inner)) - before) + 1
        index = np.zeros(len(start), dtype=np.int64)
        index[left], index[right] = first_child, first_child + 1
        child = index.copy()
        child[inner] = first_child
        limit = np.full(len(start), _NEVER)
        limit[inner] = bound[inner]
        rotated = also == MISSING
        rotated[arrays.feature == LEAF] = False
        limit += rotated
        word = child | limit << int(BOUND) | rotated.astype(np.int64) << int(ROTATED) | column << int(COLUMN)
        there = start + index
        return cls(
            index, _heights(inner, left, right, len(start)), _moved(word, there).astype(np.uint64),
            _moved(table_of, there) if (table_of != NO_TABLE).any() else None,
            _moved(np.where(arrays.feature == LEAF, arrays.value, -0.0), there),
        )  # fmt: skip

    def from_nodes(self, roots: IntArray, ends: IntArray) -> tuple[npt.NDArray[np.generic] | None, ...]:
        """Return the arguments ``entry`` to ``table_of`` of `add_deep_leaves`, given the ends of the trees' tops."""
        height = np.where(ends < 0, 0, self.height[ends]).max(axis=1, initial=0)
        return self.index[ends].astype(np.uint32), roots, height, self.words, self.table_of

    @staticmethod
    def can_number(size: int) -> bool:
        """Whether a tree of so many nodes fits the words."""
        return size <= int(CHILD)


def _moved(values: npt.NDArray[_T], there: IntArray) -> npt.NDArray[_T]:
    out = np.empty_like(values)
    out[there] = values
    return out


def _heights(inner: IntArray, left: IntArray, right: IntArray, size: int) -> IntArray:
    """Return the most steps from each node to a leaf, `ROUND` + 1 if there are more than `ROUND`."""
    height = np.zeros(size, dtype=np.int64)
    for _ in range(ROUND + 1):  # in each round one step more
        height[inner] = np.maximum(height[left], height[right]) + 1
    return height
