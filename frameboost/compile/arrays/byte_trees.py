"""Trees over bytes: every inner node of a tree is compared with a whole block of rows (SIMD).

A walk down a tree branches differently for each row, which defeats branch prediction and SIMD. Here codes and node
numbers are bytes. All inner nodes are visited in preorder, and at each one its rows move to a child, 32 or 64 rows per
instruction. That takes many more comparisons than a walk, but a tenth of its time; it pays off for up to about a
hundred leaves per tree. In larger trees only the top is visited this way, and rows walk from there (see `PackedTrees`).

For example the tree ``x < 3 ? (y < 5 ? a : b) : c`` has in preorder node 0 (x), 1 (y), 2 (a), 3 (b), 4 (c), and two
inner nodes: node 0 with children 1 and 4, node 1 with children 2 and 3. Three rows (x, y) = (1, 9), (7, 0), (2, 4) move

    start       0 0 0
    node 0      1 4 1
    node 1      3 4 2    so their leaves are b, c, a.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.arrays import Codes, padded
from frameboost.binning.codes import code_expr
from frameboost.compile.arrays.flat_trees import FloatArray, IntArray, TreeArrays, first_margins
from frameboost.compile.arrays.score_kernels import (
    BOUND,
    BYTES,
    CHILD,
    COLUMN,
    LEAF,
    MISSING,
    NO_TABLE,
    ROTATED,
    ROUND,
    add_deep_leaves,
    add_leaves,
    arrow_buffers,
    code_buffers,
)
from frameboost.data.arrow_batches import CHILDREN, LENGTH, arrow_batches
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature, FeatureType, column

__all__ = ["NUMPY_TYPES", "BatchScorer", "ByteScorer", "ByteTrees"]

# A column of bytes has the codes 0 to 253 for 253 edges. No row has the code 254; missing values have 255.
_MAX_EDGES, _NO_CODE = 253, 254
_MAX_NODES = 255
# What a tree beyond that may take, on average: columns, each of which is coded, and tables of 256 bytes.
_MAX_COLUMNS, _MAX_TABLES = 4, 512
_NO_NODE = -1
# Levels of a larger tree that are compared as bytes: more nodes have no number in a byte.
_TOP_LEVELS = 7
# The bound of a leaf, which no code reaches, so that every row steps to the left child: the leaf itself.
_NEVER = 256
# Rows and values that are coded and scored together: they stay in a cache, and their memory is not allocated by the
# operating system each time.
_CHUNK, _VALUES = 1 << 14, 1 << 21
# The comparisons of a thread, each of 64 rows at a node, which takes 190 ns; to code as many values of a column takes
# half as long. With fewer, waking the thread takes longer than it saves.
_AT_ONCE, _OF_COLUMN, _SMALLEST = 64, 2, 3 << 15
# The types of columns that numpy has, too.
NUMPY_TYPES: Mapping[Any, np.dtype[Any]] = {
    getattr(pl, name): np.dtype(name.lower())
    for name in ("Float32", "Float64", *(f"{sign}{bits}" for sign in ("Int", "UInt") for bits in (8, 16, 32, 64)))
}
_T = TypeVar("_T", bound=np.generic)
_Write = Callable[[int, int, Codes], None]  # of the codes of the rows from one on to another


# --- the trees --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _InnerNodes:
    """The inner nodes of the trees of some outputs, the arguments of `score_kernels.add_leaves`.

    For deep trees, the inner nodes of the top; ``walk`` has the additional arguments of `add_deep_leaves`.
    """

    outputs: slice
    starts: IntArray
    number: npt.NDArray[np.uint8]
    column: IntArray
    bound: npt.NDArray[np.uint8]
    also: npt.NDArray[np.uint8]
    right: npt.NDArray[np.uint8]
    table: IntArray
    value: FloatArray
    walk: tuple[npt.NDArray[Any] | None, ...] = ()

    def add_leaves(
        self, codes: Codes, tables: npt.NDArray[np.bool_], margins: FloatArray, first: int, n_rows: int
    ) -> None:
        """Add the leaf values of ``n_rows`` rows, by their codes, to margins from row ``first`` on."""
        inner_nodes = self.starts, self.number, self.column, self.bound, self.also, self.right, self.table, tables
        if self.walk:
            walk = *self.walk, self.value
            add_deep_leaves(codes, *inner_nodes, *walk, margins[self.outputs], first, n_rows)  # type: ignore[call-arg]
        else:
            add_leaves(codes, *inner_nodes, self.value, margins[self.outputs], first, n_rows)


@dataclass(frozen=True)
class ByteTrees:
    """An ensemble over columns of bytes.

    Attributes
    ----------
    arrays
        The ensemble.
    columns
        For each column of bytes the index of its feature in ``arrays``, and its first edge: a feature with more than
        253 edges has several columns.
    tables
        bool (categorical splits, 256): which codes go left.
    outputs
        The trees of each output, or those of all.
    """

    arrays: TreeArrays
    columns: tuple[tuple[int, int], ...]
    tables: npt.NDArray[np.bool_]
    outputs: tuple[_InnerNodes, ...]

    @classmethod
    def compile(cls, arrays: TreeArrays) -> ByteTrees | None:
        """Return the ensemble over bytes; None if a feature has too many categories, or deep trees too many nodes."""
        sizes = arrays.sizes
        is_categorical = [feature.type.is_categorical for feature in arrays.features]
        many = (len(e) > _MAX_EDGES for e, known in zip(arrays.edges, is_categorical, strict=True) if known)
        if any(many):
            return None
        columns = [(i, at) for i, edges in enumerate(arrays.edges) for at in range(0, max(len(edges), 1), _MAX_EDGES)]
        categorical = np.flatnonzero(arrays.table_at != NO_TABLE)
        is_deep = bool(max(sizes, default=0) > _MAX_NODES)
        more_columns = len(columns) - len(arrays.features)
        if is_deep and (
            more_columns > _MAX_COLUMNS * len(sizes)
            or len(categorical) > _MAX_TABLES * len(sizes)
            or not PackedTrees.can_number(max(sizes))
        ):
            return None
        table_of = np.full(len(arrays.feature), NO_TABLE)
        table_of[categorical] = np.arange(len(categorical))
        tables = _tables_of_bytes(arrays, categorical)
        builder = _Builder(arrays, columns, table_of, is_deep=is_deep)
        outputs = tuple(builder.inner_nodes(outputs, trees) for outputs, trees in arrays.trees_of_outputs())
        return cls(arrays, tuple(columns), tables, outputs)

    def empty_codes(self, n_rows: int) -> Codes:
        """Return an uninitialised array of codes, uint8 (columns, rows), padded with rows as the kernels require."""
        return np.empty((len(self.columns), -(-n_rows // BYTES) * BYTES), dtype=np.uint8)

    def add_leaves(self, codes: Codes, margins: FloatArray, first: int, n_rows: int) -> None:
        """Add the leaf values of ``n_rows`` rows, by their codes (see `empty_codes`), to margins.

        ``margins`` is float64 (outputs, any rows), added to from row ``first`` on.
        """
        for nodes in self.outputs:
            nodes.add_leaves(codes, self.tables, margins, first, n_rows)


class _Builder:
    """Puts the inner nodes of trees in preorder; for deep trees those of the top, and packs the others."""

    def __init__(
        self, arrays: TreeArrays, columns: Sequence[tuple[int, int]], table_of: IntArray, *, is_deep: bool
    ) -> None:
        self._arrays = arrays
        self._conditions = _in_bytes(arrays, columns, table_of)
        self._packed = PackedTrees.compile(arrays, *self._conditions) if is_deep else None
        self._levels = _TOP_LEVELS if is_deep else _MAX_NODES

    def inner_nodes(self, outputs: slice, trees: IntArray) -> _InnerNodes:
        """Return the inner nodes of these trees of some outputs."""
        arrays = self._arrays
        node, number, right, starts, ends = _in_preorder(arrays, trees, self._levels)
        column, bound, also, table = self._conditions[:, node]
        value = arrays.value
        walk: tuple[npt.NDArray[Any] | None, ...] = ()
        if self._packed is None:
            value = np.ascontiguousarray(np.where(ends[..., np.newaxis] == _NO_NODE, 0.0, value.T[ends]))
        else:
            value = self._packed.value
            walk = self._packed.from_nodes(arrays.roots[trees], ends)
        return _InnerNodes(
            outputs, starts, number.astype(np.uint8), column, bound.astype(np.uint8), also.astype(np.uint8),
            right.astype(np.uint8), table, value, walk
        )  # fmt: skip


def _in_preorder(arrays: TreeArrays, trees: IntArray, n_levels: int) -> tuple[IntArray, ...]:
    """Return the inner nodes of trees in preorder, so that the left child of node k is node k + 1.

    These are their nodes, their numbers in the tree, and the numbers of their right children; then where those of each
    tree start, and for each tree and number the node that ends the tree there, `_NO_NODE` in inner nodes.
    All nodes of a level, of all trees, are numbered at once.
    """
    feature, left, right = arrays.feature, arrays.left, arrays.right
    level, index = arrays.roots[trees], np.arange(len(trees))
    inner: list[IntArray] = []
    other: list[IntArray] = []
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
    inner_nodes, end_nodes = (np.concatenate([np.empty(0, np.int64), *of]) for of in (inner, other))
    inner_nodes = inner_nodes[np.lexsort((number[inner_nodes], tree_of[inner_nodes]))]
    ends = np.full((len(trees), _MAX_NODES + 1), _NO_NODE)
    ends[tree_of[end_nodes], number[end_nodes]] = end_nodes
    starts = np.append(0, np.cumsum(np.bincount(tree_of[inner_nodes], minlength=len(trees))))
    return inner_nodes, number[inner_nodes], number[right[inner_nodes]], starts, ends


def _tables_of_bytes(arrays: TreeArrays, nodes: IntArray) -> npt.NDArray[np.bool_]:
    """Return the tables of categorical splits with an entry for each byte; missing values have the code `MISSING`."""
    missing, rows, indices = arrays.missing[arrays.feature[nodes]], np.arange(len(nodes)), np.arange(256 // 8)
    is_inside = indices < (missing[:, None] + 9) // 8
    packed = np.append(arrays.tables, np.uint8(0))  # the last one is read past the end of a table
    table_bytes = packed[np.where(is_inside, arrays.table_at[nodes][:, None] + indices, len(packed) - 1)]
    tables = np.unpackbits(table_bytes, axis=1, bitorder="little").astype(np.bool_)
    tables[:, MISSING], tables[rows, missing] = tables[rows, missing], False
    return tables


def _in_bytes(arrays: TreeArrays, columns: Sequence[tuple[int, int]], table_of: IntArray) -> IntArray:
    """Return int64 (4, nodes): ``column``, ``bound``, ``also`` and ``table`` of `add_leaves` for each node."""
    first_column = np.array([index for index, (_, edge) in enumerate(columns) if edge == 0], dtype=np.int64)
    is_leaf, is_table = arrays.feature == LEAF, table_of != NO_TABLE
    feature = np.where(is_leaf, 0, arrays.feature)
    if not len(first_column):  # every tree is a single leaf
        return np.zeros((4, len(feature)), dtype=np.int64)
    is_any = arrays.bound > arrays.missing[feature]  # every present value goes left
    rank = np.where(is_leaf | is_table | is_any, 0, arrays.bound - 1)
    bound = np.where(is_table, 0, np.where(is_any, _NO_CODE, rank % _MAX_EDGES + 1))
    also = np.where(arrays.missing_left & ~is_table, MISSING, _NO_CODE)
    return np.stack([first_column[feature] + rank // _MAX_EDGES, bound, also, table_of])


# --- deep trees -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PackedTrees:
    """Trees of more than 255 nodes, packed for rows that walk them in parallel.

    Byte numbers suffice only for the top levels. Below the top, rows walk, one level at a time for a whole block of
    rows. A node is a 64-bit word, siblings are adjacent, and the left child of a leaf is the leaf itself, so a step is
    the same arithmetic for each row, ``node = left + (code >= bound)``, and compiles to SIMD instructions. Every five
    steps, rows in a leaf are removed. A missing code is 255 and goes right; if it should go left, 1 is added to all
    codes modulo 256, and to the bound.

    For example the tree ``x < 3 ? (y < 5 ? a : b) : c`` is packed as 0 (x), 1 (y), 2 (c), 3 (a), 4 (b), with the left
    children 1, 3, 2, 3, 4. The row (1, 9) steps 0, 1, 4, and the row (7, 0) steps 0, 2, 2.

    Attributes
    ----------
    index
        int64 (nodes,): the index of each node of `TreeArrays` among those of its tree here.
    height
        int64 (nodes,): the maximum number of steps from each node of `TreeArrays` to a leaf, at most `ROUND` + 1.
    words, table_of, value
        See `add_deep_leaves`.
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
        """Pack all trees, by the condition of each node (see `add_leaves`)."""
        inner = np.flatnonzero(arrays.feature != LEAF)
        index, child = arrays.in_pairs()
        limit = np.full(len(index), _NEVER)
        limit[inner] = bound[inner]
        rotated = also == MISSING
        rotated[arrays.feature == LEAF] = False
        limit += rotated
        word = child | limit << int(BOUND) | rotated.astype(np.int64) << int(ROTATED) | column << int(COLUMN)
        there = np.repeat(arrays.roots, arrays.sizes) + index
        return cls(
            index, _heights(arrays, inner), _moved(word, there).astype(np.uint64),
            _moved(table_of, there) if (table_of != NO_TABLE).any() else None,
            _moved(np.where((arrays.feature == LEAF)[:, np.newaxis], arrays.value.T, -0.0), there),
        )  # fmt: skip

    def from_nodes(self, roots: IntArray, ends: IntArray) -> tuple[npt.NDArray[np.generic] | None, ...]:
        """Return the arguments ``entry`` to ``table_of`` of `add_deep_leaves`, by the ends of the trees' tops."""
        height = np.where(ends < 0, 0, self.height[ends]).max(axis=1, initial=0)
        return self.index[ends].astype(np.uint32), roots, height, self.words, self.table_of

    @staticmethod
    def can_number(size: int) -> bool:
        """Whether the words can number the nodes of a tree of this size."""
        return size <= int(CHILD)


def _moved(values: npt.NDArray[_T], there: IntArray) -> npt.NDArray[_T]:
    out = np.empty(values.shape, values.dtype)
    out[there] = values
    return out


def _heights(arrays: TreeArrays, inner: IntArray) -> IntArray:
    """Return the maximum number of steps from each node to a leaf, `ROUND` + 1 if there are more than `ROUND`."""
    height = np.zeros(len(arrays.feature), dtype=np.int64)
    for _ in range(ROUND + 1):  # in each round one step more
        height[inner] = np.maximum(height[arrays.left[inner]], height[arrays.right[inner]]) + 1
    return height


# --- scores of frames -------------------------------------------------------------------------------------------------


class _Numbers(NamedTuple):
    """Numeric columns of one type: feature, edges and row of codes of each coded column (see `code_buffers`)."""

    feature: IntArray
    edges: npt.NDArray[Any]
    starts: IntArray
    n_cuts: IntArray
    target: IntArray

    def write(self, buffers: IntArray, rows: tuple[int, int], codes: Codes, at: int = 0, step: int = 1) -> None:
        """Write the codes of some rows; ``buffers`` has the buffers of each feature."""
        code_buffers(buffers[self.feature], step, *rows, *self[1:], MISSING, at, codes)


class ByteScorer:
    """An ensemble over columns of known types; work that depends only on the types is done once.

    A few thousand rows are scored at a time. Numeric columns of one type are coded in place by one kernel call: for
    hundreds of columns and few rows, one call per column would dominate.

    Parameters
    ----------
    trees
        The ensemble.
    types
        The types of the columns, by name.
    only
        The indices of the features to code; None for all.
    """

    def __init__(self, trees: ByteTrees, types: Mapping[str, FeatureType], only: Sequence[int] | None = None) -> None:
        features = trees.arrays.features
        self._trees = trees
        self._n_inner = int(np.count_nonzero(trees.arrays.feature != LEAF))
        self._indices = list(range(len(features))) if only is None else list(only)
        self._types = [types[features[i].name] for i in self._indices]
        self._exprs = [trees.arrays.value_expr(i, kind) for i, kind in zip(self._indices, self._types, strict=True)]
        self._edges = [trees.arrays.edges_in(i, kind) for i, kind in zip(self._indices, self._types, strict=True)]
        self._is_categorical = [features[i].type.is_categorical for i in self._indices]
        self._columns: list[list[tuple[int, int]]] = [[] for _ in features]  # of each feature: row of the codes, edge
        for row, (i, first) in enumerate(trees.columns):
            self._columns[i].append((row, first))
        self._others: list[int] = []
        of_types: dict[np.dtype[Any], list[int]] = {}
        for k, kind in enumerate(self._types):
            dtype = None if self._is_categorical[k] else NUMPY_TYPES.get(type(kind.physical_dtype))
            (self._others if dtype is None else of_types.setdefault(dtype, [])).append(k)
        self._numbers = [self._as_numbers(dtype, indices) for dtype, indices in of_types.items()]
        # Whether columns of these types store the values that splits compare.
        self.is_plain = all(_is_plain(features[i], kind) for i, kind in zip(self._indices, self._types, strict=True))

    def _as_numbers(self, dtype: np.dtype[Any], features: list[int]) -> _Numbers:
        parts = [
            (k, self._edges[k][first : first + _MAX_EDGES], row)
            for k in features
            for row, first in self._columns[self._indices[k]]
        ]
        edges = [padded(values, dtype) for _, values, _ in parts]
        return _Numbers(
            np.array([k for k, _, _ in parts]), np.concatenate(edges),
            np.cumsum([0, *map(len, edges)]), np.array([len(values) for _, values, _ in parts]),
            np.array([row for _, _, row in parts]),
        )  # fmt: skip

    def margins(
        self, frame: pl.LazyFrame, base_margins: Sequence[float | FloatArray], workers: Workers
    ) -> list[FloatArray]:
        """Return float64 (rows,) for each output: its base plus each row's leaf values, added in tree order.

        Parameters
        ----------
        frame
            The rows.
        base_margins
            One number per output, or for each output the numbers of the rows.
        workers
            The threads.
        """
        # Where every tree is a single leaf there is no column to take the number of rows from.
        values = frame.select(self._exprs or pl.repeat(0, pl.len(), dtype=pl.UInt8)).collect()
        return self.margins_of_plain(self._as_typed(values), base_margins, workers)

    def margins_of_plain(
        self, values: pl.DataFrame, base_margins: Sequence[float | FloatArray], workers: Workers
    ) -> list[FloatArray]:
        """Return `margins` of a frame of columns that can be read in place (see `is_plain`), without a query.

        ``values`` has the features' columns, or any where there are none.
        """
        with self._coding(values) as write:
            return self._margins(len(values), write, base_margins, workers)

    def margins_of_array(
        self, rows: npt.NDArray[Any], columns: IntArray, base_margins: Sequence[float | FloatArray], workers: Workers
    ) -> list[FloatArray]:
        """Return `margins` of a readable array, (rows, any) (see `reads`); the features are its columns."""
        if rows.strides[0] < 0 or rows.strides[0] % rows.itemsize or not rows.flags.aligned:
            rows = np.ascontiguousarray(rows)
        buffers = np.zeros((len(columns), 3), np.int64)
        buffers[:, 0] = rows.ctypes.data + columns * rows.strides[1]
        step = rows.strides[0] // rows.itemsize

        def write(start: int, stop: int, codes: Codes) -> None:
            for numbers in self._numbers:
                numbers.write(buffers, (start, stop), codes, step=step)

        return self._margins(len(rows), write, base_margins, workers)

    def _margins(
        self, n_rows: int, write: _Write, base_margins: Sequence[float | FloatArray], workers: Workers
    ) -> list[FloatArray]:
        margins = first_margins(base_margins, n_rows)

        def score(rows: tuple[int, int]) -> None:
            start, stop = rows
            codes = self._trees.empty_codes(stop - start)
            write(start, stop, codes)
            self._trees.add_leaves(codes, margins, start, stop - start)

        width = len(self._trees.columns) + len(self._trees.arrays.roots)
        most = max(min(_CHUNK, _VALUES // width), 1)
        work = len(self._trees.columns) // _OF_COLUMN + self._n_inner // _AT_ONCE
        count = max(-(-n_rows // most), workers.count(n_rows * work, _SMALLEST))
        workers.each([(n_rows * k // count, n_rows * (k + 1) // count) for k in range(count)], score)
        return list(margins)

    def reads(self, dtype: np.dtype[Any]) -> bool:
        """Whether an array of this dtype stores the values that splits compare."""
        return self.is_plain and all(numbers.edges.dtype == dtype for numbers in self._numbers)

    def write_buffers(self, buffers: IntArray, n_rows: int, codes: Codes) -> None:
        """Write the codes of rows, all of plain numbers (see `code_buffers`)."""
        for numbers in self._numbers:
            numbers.write(buffers, (0, n_rows), codes)

    def write_codes(self, frame: pl.DataFrame, codes: Codes) -> None:
        """Write the codes of the rows of ``frame`` to ``codes`` of `ByteTrees.empty_codes`."""
        with self._coding(self._as_typed(frame.select(self._exprs))) as write:
            write(0, len(frame), codes)

    def _as_typed(self, values: pl.DataFrame) -> pl.DataFrame:
        """Return the values; assert their types, as kernels read raw memory by them."""
        known = zip(self._types, values.dtypes, self._is_categorical, strict=False)
        assert all(type(kind.physical_dtype) is type(dtype) for kind, dtype, is_code in known if not is_code)
        return values

    @contextmanager
    def _coding(self, values: pl.DataFrame) -> Iterator[_Write]:
        """Return a function that writes the codes of rows of a frame with a column for each feature."""
        with arrow_batches(values) as exported:
            batches, end = [], 0
            for batch in exported:
                buffers = np.empty((len(self._types), 3), np.int64)
                arrow_buffers(batch[CHILDREN], buffers)
                batches.append((end, end + int(batch[LENGTH]), buffers))
                end = batches[-1][1]

            def write(start: int, stop: int, codes: Codes) -> None:
                for first, last, buffers in batches:
                    low, high = max(start, first), min(stop, last)
                    for numbers in self._numbers if low < high else ():
                        numbers.write(buffers, (low - first, high - first), codes, low - start)
                if self._others:
                    self._write_others(values[start:stop], codes)

            yield write

    def _write_others(self, values: pl.DataFrame, codes: Codes) -> None:
        """Write the codes of categories, and of numbers that no kernel reads."""
        columns = values.get_columns()
        coded = {k: columns[k] for k in self._others if self._is_categorical[k]}
        if to_code := [k for k in self._others if k not in coded]:
            frame = values.select([self._code(k, column(columns[k].name)).alias(str(k)) for k in to_code])
            coded |= dict(zip(to_code, frame.get_columns(), strict=True))
        for k, series in coded.items():
            self._write_column(k, series.to_numpy().astype(np.int64), codes)

    def _code(self, k: int, values: pl.Expr) -> pl.Expr:
        """Return the codes of a feature's values."""
        return code_expr(values, self._types[k], self._edges[k], int(self._trees.arrays.missing[self._indices[k]]))

    def _write_column(self, k: int, numbers: IntArray, codes: Codes) -> None:
        index = self._indices[k]
        most = _NO_CODE if self._is_categorical[k] else _MAX_EDGES
        for row, first in self._columns[index]:
            is_missing = numbers == self._trees.arrays.missing[index]
            codes[row, : len(numbers)] = np.where(is_missing, MISSING, np.clip(numbers - first, 0, most))


def _is_plain(feature: Feature, kind: FeatureType) -> bool:
    """Whether a feature's column of this type stores the numbers that splits compare."""
    return (kind.is_float or kind.is_integer) and not feature.type.is_categorical and not feature.zero_is_missing


# --- scores of Arrow batches ------------------------------------------------------------------------------------------


class BatchScorer:
    """An ensemble over the Arrow batches of a DuckDB UDF, a few thousand rows each, of columns of known types.

    A kernel reads the buffers of the batches without a copy: making a frame takes longer than scoring. Only columns
    other than plain numeric arrays, such as strings and dates, go through a frame. It is thread-safe.

    Parameters
    ----------
    trees
        The ensemble.
    types
        The types of the columns, by name, in the order of the batches.
    base_margins
        One number per output.
    """

    def __init__(self, trees: ByteTrees, types: Mapping[str, FeatureType], base_margins: Sequence[float]) -> None:
        self._trees = trees
        self._base_margins = base_margins
        order, features = list(types), trees.arrays.features
        self._at = [order.index(feature.name) for feature in features]
        is_read = [_is_plain(f, types[f.name]) and type(types[f.name].physical_dtype) in NUMPY_TYPES for f in features]
        self._read = [i for i, is_plain in enumerate(is_read) if is_plain]
        self._in_frames = [i for i, is_plain in enumerate(is_read) if not is_plain]
        self._in_place, self._scorer = (ByteScorer(trees, types, only) for only in (self._read, self._in_frames))

    def margins(self, batches: Sequence[Any]) -> list[FloatArray]:
        """Return float64 (rows,) for each output: its base plus each row's leaf values, added in tree order.

        Parameters
        ----------
        batches
            One pyarrow.ChunkedArray per column.
        """
        n_rows = len(batches[0])
        codes = self._trees.empty_codes(n_rows)
        columns = [batches[self._at[i]] for i in self._read]
        # Alive until the kernel is done.
        arrays = [column.chunk(0) if column.num_chunks == 1 else column.combine_chunks() for column in columns]
        self._in_place.write_buffers(np.array([*map(_addresses, arrays)], np.int64).reshape(-1, 3), n_rows, codes)
        if self._in_frames:
            names = [self._trees.arrays.features[i].name for i in self._in_frames]
            pairs = zip(names, self._in_frames, strict=True)
            frame = pl.DataFrame([pl.Series(name, pl.from_arrow(batches[self._at[i]])) for name, i in pairs])
            self._scorer.write_codes(frame, codes)
        margins = first_margins(self._base_margins, n_rows)
        self._trees.add_leaves(codes, margins, 0, n_rows)
        return list(margins)


def _addresses(array: Any) -> tuple[int, int, int]:
    """Return the addresses of the values and of the validity bitmap (0 without one), and the first row's offset."""
    validity, values = array.buffers()
    # No rows may mean no buffer.
    return 0 if values is None else values.address, 0 if validity is None else validity.address, array.offset
