"""Windows over the rows of each query, on arrays: queries are laid side by side once, and ranked row by row.

Rows 0 to 4 of the queries 7, 5, 7, 7, 5 are laid out as 1, 4 (of query 5) and 0, 2, 3 (of query 7). Queries of similar
lengths are the lines of one matrix, so that numpy sorts all of them in one call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from frameboost.runtime.task_sizes import VALUES_PER_TASK
from frameboost.runtime.workers import Workers
from frameboost.splits.split import FloatArray, IntArray

__all__ = ["Queries"]

# The lines of a matrix are at most this much longer than the shortest query in it.
_PADDING = 1.25
# Numpy's stable order of so few values is as fast.
_SHORT = 32


class Queries:
    """The rows by query.

    Attributes
    ----------
    rows
        Row numbers, those of a query side by side, in ascending order.
    starts
        Where each query starts in ``rows``; last, the number of rows.

    Parameters
    ----------
    query_of
        The query of each row.
    workers
        Threads to rank by.
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
        self._places = np.arange(float(len(self.rows))) - np.repeat(self._first, self._lengths)
        self._last_ranked: tuple[FloatArray | None, IntArray] = None, self.rows

    def _in_matrices(self) -> Iterator[tuple[IntArray, npt.NDArray[np.bool_] | None]]:
        """Return matrices of positions in ``rows``, each line those of a query; shorter ones are padded.

        Beside each matrix is which of its positions are of rows, None if all are.
        """
        n_rows = len(self.rows)
        by_length = np.argsort(self._lengths, kind="stable")
        lengths, at = self._lengths[by_length], 0
        while at < len(lengths):
            until = int(np.searchsorted(lengths, lengths[at] * _PADDING, side="right"))
            within = np.arange(lengths[until - 1])
            lines = self._first[by_length[at:until], None] + within
            is_row = within < lengths[at:until, None]
            yield (lines, None) if is_row.all() else (np.where(is_row, lines, n_rows), is_row)
            at = until

    def window(self, function: str, values: FloatArray, order: FloatArray | None) -> FloatArray:
        """Return a `QueryWindow` of every row; sums are of values on a grid."""
        if function == "rank":
            ranked = self.ranked(values)
            places = self._by_row(ranked, self._places)
            self._last_ranked = places, ranked
            return places
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
        """Return the row numbers by query, within it by value, the highest first, equals in the order of the rows."""
        falling = np.append(-self._side_by_side(values), np.inf)  # what lines are padded with comes last
        order = np.empty(len(self.rows), np.int64)

        def rank(lines: IntArray, is_row: npt.NDArray[np.bool_] | None) -> None:
            by_value = _stable_argsort(falling[lines])
            ranked = np.take_along_axis(lines, by_value, axis=1)
            if is_row is None:
                order[lines] = ranked
            else:
                order[lines[is_row]] = ranked[is_row]

        for lines, is_row in self._matrices:
            self._workers.over(
                len(lines),
                lambda first, last: rank(lines[first:last], None if is_row is None else is_row[first:last]),  # noqa: B023
                smallest=-(-VALUES_PER_TASK // lines.shape[1]),
            )
        return order if self._are_in_order else self.rows[order]

    def by_place(self, place: FloatArray) -> IntArray:
        """Return the row numbers by query, within it by their place, from 0."""
        if place is self._last_ranked[0]:
            return self._last_ranked[1]
        order = np.empty(len(self.rows), np.int64)
        order[np.repeat(self._first, self._lengths) + place[self.rows].astype(np.int64)] = self.rows
        return order

    @staticmethod
    def _by_row(rows: IntArray, values: npt.NDArray[Any]) -> FloatArray:
        found = np.empty(len(rows))
        found[rows] = values
        return found


def _stable_argsort(values: FloatArray) -> IntArray:
    """Return the order of each line, equals as they are.

    Numpy sorts numbers by vector instructions, several times as fast as it finds a stable order. So what is sorted are
    the bits of the values, whose order is that of integers, with the place in the line in the lowest bits: of values
    0.5 and 0.25 in a line of 4, the bits 0x3FE0000000000000 and 0x3FD0000000000001. Few lines have different values
    that differ in the lowest bits alone; these are sorted again.
    """
    width = values.shape[1]
    if width <= _SHORT:
        return np.argsort(values, axis=1, kind="stable")
    values = values + 0.0  # no zero keeps its sign
    bits = values.view(np.int64)
    keys = bits ^ (bits >> 63 & np.iinfo(np.int64).max)  # of negative numbers the larger ones have the smaller bits
    places = (1 << (width - 1).bit_length()) - 1
    keys &= ~places
    keys |= np.arange(width)
    keys.sort(axis=1)
    keys &= places
    found = np.take_along_axis(values, keys, axis=1)
    again = np.flatnonzero((found[:, 1:] < found[:, :-1]).any(axis=1))
    keys[again] = np.argsort(values[again], axis=1, kind="stable")
    return keys
