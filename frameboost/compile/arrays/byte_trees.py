"""Trees over bytes: every inner node of a tree is compared with a whole block of rows (SIMD).

A walk down a tree branches differently for each row, so the processor can neither predict nor vectorise it. Here codes
and node numbers are bytes. All inner nodes are visited in preorder, and at each one the rows that are there move to a
child, 32 or 64 rows an instruction. That is many more comparisons than a walk makes, and takes a tenth of its time;
it pays up to about a hundred leaves a tree. Of larger trees only the top is visited so, and rows walk from there (see
`frameboost.compile.arrays.deep_trees`).

For example the tree ``x < 3 ? (y < 5 ? a : b) : c`` has in preorder node 0 (x), 1 (y), 2 (a), 3 (b), 4 (c), and two
questions: node 0 with children 1 and 4, node 1 with children 2 and 3. Three rows (x, y) = (1, 9), (7, 0), (2, 4) move

    start       0 0 0
    question 0  1 4 1
    question 1  3 4 2    so their leaves are b, c, a.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from frameboost.binning.arrays import Codes
from frameboost.compile.arrays.byte_kernels import BYTES, MISSING, NO_TABLE, add_deep_leaves, add_leaves
from frameboost.compile.arrays.deep_trees import TOP_LEVELS, PackedTrees
from frameboost.compile.arrays.flat_trees import FloatArray, TreeArrays
from frameboost.compile.arrays.predict_kernels import LEAF

__all__ = ["MAX_EDGES", "MISSING", "NO_CODE", "ByteTrees"]

# A column of bytes has the codes 0 to 253 for 253 edges. No row has the code 254; missing values have 255.
MAX_EDGES, NO_CODE = 253, 254
_MAX_NODES = 255
# What a tree beyond that may take, on average: columns, each of which is coded, and tables of 256 bytes.
_MAX_COLUMNS, _MAX_TABLES = 4, 512
_NO_NODE = -1


@dataclass(frozen=True)
class _Questions:
    """The inner nodes of one output's trees, the arguments of `frameboost.compile.arrays.byte_kernels.add_leaves`.

    Of deep trees they are those of the top; ``walk`` has the further arguments of `add_deep_leaves`.
    """

    starts: npt.NDArray[np.int64]
    number: npt.NDArray[np.uint8]
    column: npt.NDArray[np.int64]
    bound: npt.NDArray[np.uint8]
    also: npt.NDArray[np.uint8]
    right: npt.NDArray[np.uint8]
    table: npt.NDArray[np.int64]
    value: FloatArray
    walk: tuple[npt.NDArray[Any] | None, ...] = ()

    def add_leaves(self, codes: Codes, tables: npt.NDArray[np.bool_], margins: FloatArray) -> None:
        """Add the leaf values of rows, given by their codes."""
        asked = self.starts, self.number, self.column, self.bound, self.also, self.right, self.table, tables
        if self.walk:
            add_deep_leaves(codes, *asked, *self.walk, self.value, margins)  # type: ignore[call-arg]
        else:
            add_leaves(codes, *asked, self.value, margins)


@dataclass(frozen=True)
class ByteTrees:
    """An ensemble over columns of bytes.

    Attributes
    ----------
    arrays
        The ensemble.
    columns
        For each column of bytes the place of its feature in ``arrays``, and the first of its edges: a feature with more
        than 253 edges has several columns.
    tables
        bool (categorical splits, 256): which codes go left.
    outputs
        The trees of each output.
    """

    arrays: TreeArrays
    columns: tuple[tuple[int, int], ...]
    tables: npt.NDArray[np.bool_]
    outputs: tuple[_Questions, ...]

    @classmethod
    def compile(cls, arrays: TreeArrays, n_outputs: int) -> ByteTrees | None:
        """Return the ensemble over bytes; None if a feature has too many categories, or deep trees ask too much."""
        sizes = np.diff([*arrays.roots, len(arrays.feature)])
        is_categorical = [feature.type.is_categorical for feature in arrays.features]
        many = (len(e) > MAX_EDGES for e, known in zip(arrays.edges, is_categorical, strict=True) if known)
        if any(many):
            return None
        columns = [(i, at) for i, edges in enumerate(arrays.edges) for at in range(0, max(len(edges), 1), MAX_EDGES)]
        asked = np.flatnonzero(arrays.table_at != NO_TABLE)
        is_deep = bool(max(sizes, default=0) > _MAX_NODES)
        more_columns = len(columns) - len(arrays.features)
        if is_deep and (
            more_columns > _MAX_COLUMNS * len(sizes)
            or len(asked) > _MAX_TABLES * len(sizes)
            or not PackedTrees.can_number(max(sizes))
        ):
            return None
        table_of = np.full(len(arrays.feature), NO_TABLE)
        table_of[asked] = np.arange(len(asked))
        tables = _tables_of_bytes(arrays, asked)
        builder = _Builder(arrays, columns, table_of, is_deep=is_deep)
        outputs = [builder.questions(np.flatnonzero(arrays.outputs == k)) for k in range(n_outputs)]
        return cls(arrays, tuple(columns), tables, tuple(outputs))

    def empty_codes(self, n_rows: int) -> Codes:
        """Return uint8 (columns, rows) to write codes to: with more rows than asked for, as the kernels take them."""
        return np.empty((len(self.columns), -(-n_rows // BYTES) * BYTES), dtype=np.uint8)

    def add_leaves(self, codes: Codes, margins: Sequence[FloatArray]) -> None:
        """Add the leaf values of rows, given by their codes (see `empty_codes`), to the margins of each output."""
        for q, sums in zip(self.outputs, margins, strict=True):
            q.add_leaves(codes, self.tables, sums)


class _Builder:
    """Puts the inner nodes of trees in preorder; of deep trees those of the top, and packs the others."""

    def __init__(
        self, arrays: TreeArrays, columns: Sequence[tuple[int, int]], table_of: npt.NDArray[np.int64], *, is_deep: bool
    ) -> None:
        self._arrays = arrays
        self._asked = _in_bytes(arrays, columns, table_of)
        self._packed = PackedTrees.compile(arrays, *self._asked) if is_deep else None
        self._levels = TOP_LEVELS if is_deep else _MAX_NODES

    def questions(self, trees: npt.NDArray[np.int64]) -> _Questions:
        """Return the inner nodes of those trees."""
        arrays = self._arrays
        node, number, right, starts, ends = _in_preorder(arrays, trees, self._levels)
        column, bound, also, table = self._asked[:, node]
        value = arrays.value
        walk: tuple[npt.NDArray[Any] | None, ...] = ()
        if self._packed is None:
            value = np.where(ends == _NO_NODE, 0, value[ends])
        else:
            value = self._packed.value
            walk = self._packed.from_nodes(arrays.roots[trees], ends)
        return _Questions(
            starts, number.astype(np.uint8), column, bound.astype(np.uint8), also.astype(np.uint8),
            right.astype(np.uint8), table, value, walk
        )  # fmt: skip


def _in_preorder(arrays: TreeArrays, trees: npt.NDArray[np.int64], n_levels: int) -> tuple[npt.NDArray[np.int64], ...]:
    """Return the questions of trees in preorder, so that a left child has the next number.

    These are for each question its node, its number in the tree, and the number of its right child; then where each
    tree's questions start, and for each tree and number the node that ends the tree there, `_NO_NODE` in questions.
    All nodes of a level, of all trees, are numbered at once.
    """
    feature, left, right = arrays.feature, arrays.left, arrays.right
    level, index = arrays.roots[trees], np.arange(len(trees))
    inner: list[npt.NDArray[np.int64]] = []
    other: list[npt.NDArray[np.int64]] = []
    tree_of = np.zeros(len(feature), np.int64)
    while len(level):
        tree_of[level] = index
        is_inner = (feature[level] != LEAF) & (len(inner) < n_levels)
        other.append(level[~is_inner])
        inner.append(level[is_inner])
        level, index = np.concatenate([left[inner[-1]], right[inner[-1]]]), np.tile(index[is_inner], 2)
    size, number = np.ones(len(feature), np.int64), np.zeros(len(feature), np.int64)
    for nodes in reversed(inner):
        size[nodes] = 1 + size[left[nodes]] + size[right[nodes]]
    for nodes in inner:
        number[left[nodes]] = number[nodes] + 1
        number[right[nodes]] = number[nodes] + 1 + size[left[nodes]]
    asked, ending = (np.concatenate([np.empty(0, np.int64), *of]) for of in (inner, other))
    asked = asked[np.lexsort((number[asked], tree_of[asked]))]
    ends = np.full((len(trees), _MAX_NODES + 1), _NO_NODE)
    ends[tree_of[ending], number[ending]] = ending
    starts = np.append(0, np.cumsum(np.bincount(tree_of[asked], minlength=len(trees))))
    return asked, number[asked], number[right[asked]], starts, ends


def _tables_of_bytes(arrays: TreeArrays, asked: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return the tables of categorical splits with an entry for each byte; missing values have the code `MISSING`."""
    missing, rows, indices = arrays.missing[arrays.feature[asked]], np.arange(len(asked)), np.arange(256 // 8)
    is_own = indices < (missing[:, None] + 9) // 8
    packed = np.append(arrays.tables, np.uint8(0))  # the last one is of places past a table's own
    found = packed[np.where(is_own, arrays.table_at[asked][:, None] + indices, len(packed) - 1)]
    tables = np.unpackbits(found, axis=1, bitorder="little").astype(np.bool_)
    tables[:, MISSING], tables[rows, missing] = tables[rows, missing], False
    return tables


def _in_bytes(
    arrays: TreeArrays, columns: Sequence[tuple[int, int]], table_of: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return int64 (4, nodes): ``column``, ``bound``, ``also`` and ``table`` of `add_leaves` for each node."""
    first_column = np.array([index for index, (_, edge) in enumerate(columns) if edge == 0], dtype=np.int64)
    is_leaf, is_table = arrays.feature == LEAF, table_of != NO_TABLE
    feature = np.where(is_leaf, 0, arrays.feature)
    if not len(first_column):  # every tree is a single leaf
        return np.zeros((4, len(feature)), dtype=np.int64)
    is_any = arrays.bound > arrays.missing[feature]  # every present value goes left
    rank = np.where(is_leaf | is_table | is_any, 0, arrays.bound - 1)
    bound = np.where(is_table, 0, np.where(is_any, NO_CODE, rank % MAX_EDGES + 1))
    also = np.where(arrays.missing_left & ~is_table, MISSING, NO_CODE)
    return np.stack([first_column[feature] + rank // MAX_EDGES, bound, also, table_of])
