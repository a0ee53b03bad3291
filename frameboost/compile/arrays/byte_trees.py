"""Trees over bytes: every inner node of a tree is compared with a whole block of rows (SIMD).

A walk down a tree branches differently for each row, so the processor can neither predict nor vectorise it. Here codes
and node numbers are bytes. All inner nodes are visited in preorder, and at each one the rows that are there move to a
child, 32 or 64 rows an instruction. That is many more comparisons than a walk makes, and takes a tenth of its time;
it pays up to about a hundred leaves a tree.

For example the tree ``x < 3 ? (y < 5 ? a : b) : c`` has in preorder node 0 (x), 1 (y), 2 (a), 3 (b), 4 (c), and two
questions: node 0 with children 1 and 4, node 1 with children 2 and 3. Three rows (x, y) = (1, 9), (7, 0), (2, 4) move

    start       0 0 0
    question 0  1 4 1
    question 1  3 4 2    so their leaves are b, c, a.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.arrays import Codes, is_in_numpy, padded
from frameboost.binning.codes import code_expr
from frameboost.binning.kernels import bin_values
from frameboost.compile.arrays.byte_kernels import NO_TABLE, add_leaves
from frameboost.compile.arrays.flat_trees import FloatArray, TreeArrays
from frameboost.compile.arrays.predict_kernels import LEAF
from frameboost.runtime.workers import Workers
from frameboost.schema.types import FeatureType

__all__ = ["MISSING", "MOST_EDGES", "ByteScorer", "ByteTrees"]

# A column of bytes has the codes 0 to 253 for 253 edges. No row has the code 254; missing values have 255.
MOST_EDGES, _NO_CODE, MISSING = 253, 254, 255
_MOST_NODES = 255
# Rows that are coded and scored together: their codes stay in the cache.
_CHUNK = 1 << 14
# Where the right child is in a question, which is known only once the left subtree is numbered.
_RIGHT = 4


@dataclass(frozen=True)
class _Questions:
    """The inner nodes of one output's trees, the arguments of `frameboost.compile.arrays.byte_kernels.add_leaves`."""

    starts: npt.NDArray[np.int64]
    number: npt.NDArray[np.uint8]
    column: npt.NDArray[np.int64]
    bound: npt.NDArray[np.uint8]
    also: npt.NDArray[np.uint8]
    right: npt.NDArray[np.uint8]
    table: npt.NDArray[np.int64]
    value: FloatArray


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
        """Return the ensemble over bytes; None if a tree has too many nodes, or a feature too many categories."""
        sizes = np.diff([*arrays.roots, len(arrays.feature)])
        is_categorical = [feature.type.is_categorical for feature in arrays.features]
        many = (len(e) > MOST_EDGES for e, known in zip(arrays.edges, is_categorical, strict=True) if known)
        if max(sizes, default=0) > _MOST_NODES or any(many):
            return None
        columns = [(i, at) for i, edges in enumerate(arrays.edges) for at in range(0, max(len(edges), 1), MOST_EDGES)]
        place = {column: number for number, column in enumerate(columns)}
        asked = np.flatnonzero(arrays.table_at != NO_TABLE)
        tables = np.zeros((len(asked), 256), dtype=np.bool_)
        table_of = np.full(len(arrays.feature), NO_TABLE)
        table_of[asked] = np.arange(len(asked))
        for table, node in zip(tables, asked.tolist(), strict=True):
            missing = int(arrays.missing[arrays.feature[node]])
            at = arrays.table_at[node]
            named = np.unpackbits(arrays.tables[at : at + (missing + 9) // 8], bitorder="little").astype(np.bool_)
            table[: missing + 2] = named[: missing + 2]
            table[MISSING], table[missing] = named[missing], False
        builder = _Builder(arrays, place, table_of)
        outputs = [builder.questions(np.flatnonzero(arrays.outputs == k).tolist()) for k in range(n_outputs)]
        return cls(arrays, tuple(columns), tables, tuple(outputs))

    def add_leaves(self, codes: Codes, margins: Sequence[FloatArray]) -> None:
        """Add the leaf values of rows, given by their codes (uint8 (columns, rows)), to the margins of each output."""
        for q, sums in zip(self.outputs, margins, strict=True):
            add_leaves(
                codes, q.starts, q.number, q.column, q.bound, q.also, q.right, q.table, self.tables, q.value, sums
            )

    def over(self, types: Mapping[str, FeatureType]) -> ByteScorer:
        """Return the ensemble over columns of those types."""
        return ByteScorer(self, [types[feature.name] for feature in self.arrays.features])


class ByteScorer:
    """An ensemble over columns of given types; what depends on the types only is prepared once."""

    def __init__(self, trees: ByteTrees, types: Sequence[FeatureType]) -> None:
        self._trees = trees
        self._types = types
        arrays = trees.arrays
        self._exprs = [arrays.value_expr(i, kind) for i, kind in enumerate(types)]
        self._edges = [arrays.edges_in(i, kind) for i, kind in enumerate(types)]
        self._padded: dict[tuple[int, int, np.dtype[Any]], npt.NDArray[Any]] = {}

    def margins(
        self, frame: pl.LazyFrame, base_margins: Sequence[float | FloatArray], workers: Workers
    ) -> list[FloatArray]:
        """Return float64 (rows,) for each output: its base plus each row's leaf values, added in tree order.

        Parameters
        ----------
        frame
            The rows.
        base_margins
            A number an output, or for each output the numbers of the rows.
        workers
            Threads that share the rows.
        """
        # Where every tree is a single leaf there is no column to take the number of rows from.
        values = frame.select(self._exprs or pl.repeat(0, pl.len(), dtype=pl.UInt8)).collect()
        n_rows = len(values)
        read = [self._reader(i, column) for i, column in enumerate(values)] if self._exprs else []
        margins = [np.full(n_rows, base) for base in base_margins]

        def score(start: int) -> None:
            stop = min(start + _CHUNK, n_rows)
            codes = np.empty((len(self._trees.columns), stop - start), dtype=np.uint8)
            for (i, first_edge), out in zip(self._trees.columns, codes, strict=True):
                read[i](start, stop, first_edge, out)
            self._trees.add_leaves(codes, [sums[start:stop] for sums in margins])

        workers.each(range(0, n_rows, _CHUNK), score)
        return margins

    def write_codes(self, frame: pl.DataFrame, features: Sequence[int], codes: Codes) -> None:
        """Write the codes of the rows of ``frame``, for some features only.

        Parameters
        ----------
        frame
            The rows.
        features
            Places among those of the ensemble.
        codes
            uint8 (columns, rows).
        """
        values = frame.select([self._exprs[i] for i in features])
        read = {i: self._reader(i, column) for i, column in zip(features, values, strict=True)}
        for (i, first_edge), out in zip(self._trees.columns, codes, strict=True):
            if i in read:
                read[i](0, len(frame), first_edge, out)

    def _reader(self, i: int, values: pl.Series) -> _Reader:
        """Return the function that writes one column of a feature's codes for a range of rows."""
        feature = self._trees.arrays.features[i]
        is_categorical = feature.type.is_categorical
        if is_in_numpy(feature, values):
            array = values.to_numpy()

            def from_values(start: int, stop: int, first: int, out: Codes) -> None:
                n_edges = len(self._edges[i][first : first + MOST_EDGES])
                bin_values(array, self._padded_edges(i, first, array.dtype), n_edges, MISSING, start, stop, out)

            return from_values
        missing = int(self._trees.arrays.missing[i])
        if not is_categorical:
            coded = code_expr(pl.col(values.name), self._types[i], self._edges[i], missing)
            values = values.to_frame().select(coded).to_series()
        codes = values.to_numpy().astype(np.int64)

        def from_codes(start: int, stop: int, first: int, out: Codes) -> None:
            own = codes[start:stop]
            most = _NO_CODE if is_categorical else MOST_EDGES
            out[:] = np.where(own == missing, MISSING, np.clip(own - first, 0, most))

        return from_codes

    def _padded_edges(self, i: int, first: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        key = i, first, dtype
        if key not in self._padded:
            self._padded[key] = padded(self._edges[i][first : first + MOST_EDGES], dtype)
        return self._padded[key]


_Reader = Callable[[int, int, int, Codes], None]


class _Builder:
    """Puts the inner nodes of trees in preorder."""

    def __init__(
        self, arrays: TreeArrays, place: Mapping[tuple[int, int], int], table_of: npt.NDArray[np.int64]
    ) -> None:
        self._arrays = arrays
        self._place = place
        self._lists = {name: getattr(arrays, name).tolist() for name in _NODE_ARRAYS}
        self._table_of = table_of.tolist()

    def questions(self, trees: Sequence[int]) -> _Questions:
        """Return the inner nodes of those trees."""
        value = np.zeros((len(trees), _MOST_NODES + 1))
        starts, asked = [0], []
        for tree, values in zip(trees, value, strict=True):
            asked += self._in_preorder(int(self._arrays.roots[tree]), values)
            starts.append(len(asked))
        number, column, bound, also, right, table = np.array(asked, dtype=np.int64).reshape(-1, 6).T
        return _Questions(
            np.array(starts), number.astype(np.uint8), column.copy(), bound.astype(np.uint8), also.astype(np.uint8),
            right.astype(np.uint8), table.copy(), value,
        )  # fmt: skip

    def _in_preorder(self, root: int, values: FloatArray) -> list[tuple[int, ...]]:
        """Return a tree's questions in preorder, so that a left child has the next number; write the leaf values."""
        nodes = self._lists
        asked: list[list[int]] = []
        # Nodes to visit, each with the question whose right child it is, if any.
        open_: list[tuple[int, list[int] | None]] = [(root, None)]
        number = 0
        while open_:
            node, parent = open_.pop()
            if parent is not None:
                parent[_RIGHT] = number
            if nodes["feature"][node] == LEAF:
                values[number] = nodes["value"][node]
            else:
                question = [number, *self._question(node)]
                asked.append(question)
                open_ += [(nodes["right"][node], question), (nodes["left"][node], None)]
            number += 1
        return [tuple(question) for question in asked]

    def _question(self, node: int) -> tuple[int, int, int, int, int]:
        """Return ``column``, ``bound``, ``also``, a place for ``right``, and ``table`` of `add_leaves`."""
        feature, bound = self._lists["feature"][node], self._lists["bound"][node]
        if self._table_of[node] != NO_TABLE:
            return self._place[feature, 0], 0, _NO_CODE, 0, self._table_of[node]
        also = MISSING if self._lists["missing_left"][node] else _NO_CODE
        if bound == self._arrays.missing[feature]:  # every present value goes left
            return self._place[feature, 0], _NO_CODE, also, 0, NO_TABLE
        rank = bound - 1
        first = rank // MOST_EDGES * MOST_EDGES
        return self._place[feature, first], rank - first + 1, also, 0, NO_TABLE


_NODE_ARRAYS = ("feature", "bound", "missing_left", "left", "right", "value")
