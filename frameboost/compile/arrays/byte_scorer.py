"""Predictions of byte trees: columns of given types are coded and scored, some thousand rows at a time.

Columns of one type of numbers are copied to a matrix and coded by one call of a kernel: where there are hundreds of
columns and few rows, a call for each column takes longer than all else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.arrays import Codes, padded
from frameboost.binning.codes import code_expr
from frameboost.binning.kernels import bin_columns
from frameboost.compile.arrays.byte_trees import MAX_EDGES, MISSING, NO_CODE, ByteTrees
from frameboost.compile.arrays.flat_trees import FloatArray
from frameboost.runtime.workers import Workers
from frameboost.schema.polars_columns import column
from frameboost.schema.types import FeatureType

__all__ = ["ByteScorer"]

# Rows and values that are coded and scored together: they stay in a cache, and memory for them is not asked of the
# operating system each time. With fewer values and trees to ask, waking a thread takes longer than it saves.
_CHUNK, _VALUES, _SMALLEST = 1 << 14, 1 << 21, 1 << 18
_NUMPY: Mapping[Any, np.dtype[Any]] = {
    getattr(pl, name): np.dtype(name.lower())
    for name in ("Float32", "Float64", *(f"{sign}{bits}" for sign in ("Int", "UInt") for bits in (8, 16, 32, 64)))
}


class _Numbers(NamedTuple):
    """Features of one type of numbers, by their places, and further arguments of `bin_columns`."""

    dtype: np.dtype[Any]
    features: list[int]
    source: npt.NDArray[np.int64]
    edges: npt.NDArray[Any]
    starts: npt.NDArray[np.int64]
    n_cuts: npt.NDArray[np.int64]
    target: npt.NDArray[np.int64]


class ByteScorer:
    """An ensemble over columns of given types; what depends on the types only is prepared once.

    Parameters
    ----------
    trees
        The ensemble.
    types
        The types of the columns, by name.
    only
        The places of the features that are coded here; None for all.
    """

    def __init__(self, trees: ByteTrees, types: Mapping[str, FeatureType], only: Sequence[int] | None = None) -> None:
        features = trees.arrays.features
        self._trees = trees
        self._indices = list(range(len(features))) if only is None else list(only)
        self._types = [types[features[i].name] for i in self._indices]
        self._names = [features[i].name for i in self._indices]
        self._exprs = [trees.arrays.value_expr(i, kind) for i, kind in zip(self._indices, self._types, strict=True)]
        self._edges = [trees.arrays.edges_in(i, kind) for i, kind in zip(self._indices, self._types, strict=True)]
        self._is_categorical = [features[i].type.is_categorical for i in self._indices]
        self._columns: list[list[tuple[int, int]]] = [[] for _ in features]  # of each feature: row of the codes, edge
        for row, (i, first) in enumerate(trees.columns):
            self._columns[i].append((row, first))
        self._others: list[int] = []
        of_types: dict[np.dtype[Any], list[int]] = {}
        for k, kind in enumerate(self._types):
            dtype = None if self._is_categorical[k] else _NUMPY.get(type(kind.physical_dtype))
            (self._others if dtype is None else of_types.setdefault(dtype, [])).append(k)
        self._numbers = [self._as_numbers(dtype, own) for dtype, own in of_types.items()]

    def _as_numbers(self, dtype: np.dtype[Any], features: list[int]) -> _Numbers:
        parts = [
            (source, self._edges[k][first : first + MAX_EDGES], row)
            for source, k in enumerate(features)
            for row, first in self._columns[self._indices[k]]
        ]
        edges = [padded(own, dtype) for _, own, _ in parts]
        return _Numbers(
            dtype, features, np.array([source for source, _, _ in parts]), np.concatenate(edges),
            np.cumsum([0, *map(len, edges)]), np.array([len(own) for _, own, _ in parts]),
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
            A number an output, or for each output the numbers of the rows.
        workers
            Threads that share the rows.
        """
        # Where every tree is a single leaf there is no column to take the number of rows from.
        values = frame.select(self._exprs or pl.repeat(0, pl.len(), dtype=pl.UInt8)).collect()
        return self._margins(values, base_margins, workers)

    def margins_of_plain(
        self, frame: pl.DataFrame, base_margins: Sequence[float | FloatArray], workers: Workers
    ) -> list[FloatArray]:
        """Return `margins` of a frame whose columns can be read as they are (see `is_plain`), without a query.

        ``frame`` has the columns of `names`, or any where there are none.
        """
        return self._margins(frame, base_margins, workers)

    @property
    def names(self) -> list[str]:
        """The features that the trees ask about."""
        return self._names

    @property
    def is_plain(self) -> bool:
        """Whether columns of these types hold the values that are compared."""
        pairs = zip(self._trees.arrays.features, self._types, strict=True)
        return all(
            (kind.is_float or kind.is_integer) and not feature.type.is_categorical and not feature.zero_is_missing
            for feature, kind in pairs
        )

    def write_codes(self, frame: pl.DataFrame, codes: Codes) -> None:
        """Write the codes of the rows of ``frame``, of what is coded here, to ``codes`` of `ByteTrees.empty_codes`."""
        self._write(frame.select(self._exprs), codes)

    def _margins(
        self, values: pl.DataFrame, base_margins: Sequence[float | FloatArray], workers: Workers
    ) -> list[FloatArray]:
        n_rows = len(values)
        margins = [np.full(n_rows, base) for base in base_margins]

        def score(rows: tuple[int, int]) -> None:
            start, stop = rows
            codes = self._trees.empty_codes(stop - start)
            self._write(values if stop - start == n_rows else values[start:stop], codes)
            self._trees.add_leaves(codes, [sums[start:stop] for sums in margins])

        width = len(self._trees.columns) + len(self._trees.arrays.roots)
        most = max(min(_CHUNK, _VALUES // width), 1)
        count = max(-(-n_rows // most), workers.count(n_rows * width, _SMALLEST))
        workers.each([(n_rows * k // count, n_rows * (k + 1) // count) for k in range(count)], score)
        return margins

    def _write(self, values: pl.DataFrame, codes: Codes) -> None:
        """Write the codes of rows of which ``values`` has a column for each feature."""
        others = list(self._others)
        for numbers in self._numbers:
            # In their order; to ask for thousands of names takes as long as to read the values of 100 rows.
            is_all = len(numbers.features) == values.width
            matrix = (values if is_all else values[:, numbers.features]).to_numpy().T
            if matrix.dtype == numbers.dtype and matrix.flags.c_contiguous:
                matrix.flags.writeable = False  # as it may be anyway: one type for the compiler
                bin_columns(matrix, *numbers[2:], MISSING, codes)
            else:  # integers with NULL, of which numpy makes floats
                others += numbers.features
        if not others:
            return
        names = values.columns
        coded = values.select([self._code(k, column(names[k])).alias(str(k)) for k in others])
        for k, own in zip(others, coded.get_columns(), strict=True):
            self._write_column(k, own.to_numpy().astype(np.int64), codes)

    def _code(self, k: int, values: pl.Expr) -> pl.Expr:
        """Return the codes of a feature's values; of categories the values are the codes."""
        missing = int(self._trees.arrays.missing[self._indices[k]])
        return values if self._is_categorical[k] else code_expr(values, self._types[k], self._edges[k], missing)

    def _write_column(self, k: int, own: npt.NDArray[np.int64], codes: Codes) -> None:
        index = self._indices[k]
        most = NO_CODE if self._is_categorical[k] else MAX_EDGES
        for row, first in self._columns[index]:
            is_missing = own == self._trees.arrays.missing[index]
            codes[row, : len(own)] = np.where(is_missing, MISSING, np.clip(own - first, 0, most))
