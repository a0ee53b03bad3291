"""Windows over the rows of each query, on arrays: rows are grouped by query once, and ranked within queries.

Rows 0 to 4 of the queries 7, 5, 7, 7, 5 are grouped as 1, 4 (query 5) and 0, 2, 3 (query 7). Queries of similar lengths
are the rows of one matrix, so that numpy sorts all of them in one call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from frameboost.runtime.workers import VALUES_PER_TASK, Workers
from frameboost.splits.split import FloatArray, IntArray

__all__ = ["Queries"]


# The lines of a matrix are at most this much longer than the shortest query in it.
_PADDING = 1.25


class Queries:
    """The rows by query.

    Attributes
    ----------
    rows
        Row numbers, contiguous by query, ascending within a query.
    starts
        The start of each query in ``rows``; last, the number of rows.

    Parameters
    ----------
    query_of
        The query of each row.
    workers
        The threads.
    """

    def __init__(self, query_of: npt.NDArray[Any], workers: Workers) -> None:
        self._workers = workers
        self.rows: IntArray = np.argsort(query_of, kind="stable").astype(np.int64, copy=False)
        ordered = query_of[self.rows]
        first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(ordered) else np.empty(0, np.int64)
        self.starts: IntArray = np.append(first, len(ordered)).astype(np.int64, copy=False)
        self._lengths = np.diff(self.starts)
        self._are_in_order = bool(np.array_equal(self.rows, np.arange(len(self.rows))))
        self._first = self.starts[:-1]
        self._matrices = list(self._in_matrices())
        self._last_ranked: list[tuple[FloatArray, IntArray]] = []  # ranks, and the rows by rank

    def _in_matrices(self) -> Iterator[tuple[IntArray, int]]:
        """Yield queries of similar lengths, with the largest of these, as the rows of one matrix."""
        by_length = np.argsort(self._lengths, kind="stable")
        lengths, at = self._lengths[by_length], 0
        while at < len(lengths):
            until = int(np.searchsorted(lengths, lengths[at] * _PADDING, side="right"))
            yield by_length[at:until], int(lengths[until - 1])
            at = until

    def window(self, function: str, values: FloatArray, order: FloatArray | None) -> FloatArray:
        """Return a `QueryWindow` of every row; sums are of values on a grid."""
        if function == "rank":
            ranked, ranks = self._rank(values)
            self._last_ranked = [*self._last_ranked[-1:], (ranks, ranked)]
            return ranks
        if function == "running":
            assert order is not None
            ranked = self.ranked(-order)
            total = np.cumsum(values[ranked])
            before = np.append(0.0, total)[self._first]
            return self._by_row(ranked, total - np.repeat(before, self._lengths))
        return self.of_row(self.reduced(function, values))

    def reduced(self, function: str, values: FloatArray) -> FloatArray:
        """Return the ``sum``, ``min`` or ``max`` of each query."""
        reduction = {"sum": np.add, "min": np.minimum, "max": np.maximum}[function]
        return reduction.reduceat(self._side_by_side(values), self._first)

    def of_row(self, values: FloatArray) -> FloatArray:
        """Return for each row the value of its query."""
        of_row = np.repeat(values, self._lengths)
        return of_row if self._are_in_order else self._by_row(self.rows, of_row)

    @property
    def longest(self) -> int:
        """The number of rows of the longest query."""
        return int(self._lengths.max(initial=0))

    def _side_by_side(self, values: FloatArray) -> FloatArray:
        return values if self._are_in_order else values[self.rows]

    def ranked(self, values: FloatArray) -> IntArray:
        """Return the row numbers by query, within it by descending value, ties in row order."""
        return self._rank(values)[0]

    def _rank(self, values: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return `ranked`, and the rank of each row in its query."""
        from frameboost.engines.ranking.rank_kernels import take_order, write_keys

        falling = 0.0 - self._side_by_side(values)  # never -0.0
        bits, order, rank_of = falling.view(np.int64), np.empty(len(self.rows), np.int64), np.empty(len(self.rows))

        def rank(queries: IntArray, width: int) -> None:
            starts, lengths = self._first[queries], self._lengths[queries]
            rank_bits, keys = (1 << (width - 1).bit_length()) - 1, np.empty((len(queries), width), np.int64)
            write_keys(bits, starts, lengths, rank_bits, keys)
            keys.sort(axis=1)
            if take_order(falling, starts, lengths, rank_bits, keys, order, rank_of):
                for start, length in zip(starts[keys[:, 0] == 0], lengths[keys[:, 0] == 0], strict=True):
                    of_query = slice(start, start + length)
                    order[of_query] = start + np.argsort(falling[of_query], kind="stable")
                    rank_of[order[of_query]] = range(length)

        for queries, width in self._matrices:
            self._workers.over(
                len(queries),
                lambda first, last: rank(queries[first:last], width),  # noqa: B023
                smallest=-(-VALUES_PER_TASK // width),
            )
        return (order, rank_of) if self._are_in_order else (self.rows[order], self._by_row(self.rows, rank_of))

    def by_rank(self, rank: FloatArray) -> IntArray:
        """Return the row numbers by query, within it by their rank, from 0."""
        for ranks, ranked in self._last_ranked:
            if rank is ranks:
                return ranked
        order = np.empty(len(self.rows), np.int64)
        order[np.repeat(self._first, self._lengths) + rank[self.rows].astype(np.int64)] = self.rows
        return order

    @staticmethod
    def _by_row(rows: IntArray, values: npt.NDArray[Any]) -> FloatArray:
        by_row = np.empty(len(rows))
        by_row[rows] = values
        return by_row
