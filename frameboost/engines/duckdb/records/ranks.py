"""Columns as ranks in memory, from which each tree's cuts and codes follow without a statement (``approx``).

Each column is ranked once, by the database if its values are not numbers. For each tree, h is summed by rank, cuts are
found by prefix sums of it, and a table of rank -> code gives every row its code. So say a column is 7, NULL, 5, 7: its
distinct values are 5 and 7, and its ranks 1, 2, 0, 1. If 7 is a cut, the codes of ranks 0, 1 and 2 are 0, 1 and 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from frameboost.binning.bins import Bins, codes_by_rank, gaps_at, weighted_cuts_of
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.duckdb.binning import SqlColumn, bins_between
from frameboost.engines.duckdb.cells import NUMBERS
from frameboost.engines.duckdb.records.layout import Records
from frameboost.expressions.duckdb_sql import physical_sql, render
from frameboost.runtime.workers import Workers
from frameboost.splits.split import FloatArray, IntArray

__all__ = ["BYTES_PER_RANK", "RankedColumns"]

# A rank, and at most one distinct value for each row.
BYTES_PER_RANK = 4 + 8


class RankedColumns:
    """The ranks of all columns of a table that `frameboost.engines.duckdb.codes.store_columns` made.

    Parameters
    ----------
    session, table, columns
        Where they are.
    bins
        The bins of the features, still without cuts. The codes of a categorical feature are ranks already.
    n_rows
        The number of rows.
    workers
        The threads.
    """

    def __init__(
        self, session: DuckDBSession, table: str, columns: Sequence[SqlColumn], bins: Sequence[Bins], n_rows: int,
        workers: Workers,
    ) -> None:  # fmt: skip
        self._session = session
        self._table = table
        self._columns = columns
        self._bins = bins
        self._workers = workers
        self._ranks = np.empty((len(bins), n_rows), np.uint32)
        numbers = [i for i, column in enumerate(columns) if column.type.name in NUMBERS]
        read = [session.columns(f"SELECT value_{i} AS value FROM {table}")["value"] for i in numbers]
        ranked = self._workers.each(range(len(numbers)), lambda k: self._rank_in_memory(numbers[k], read[k]))
        by_feature = dict(zip(numbers, ranked, strict=True))
        self._distinct = [by_feature[i] if i in by_feature else self._rank_there(i) for i in range(len(bins))]

    def _rank_in_memory(self, feature: int, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Rank a column of numbers, in a quarter of the time that the database takes; return what is distinct.

        An array with missing values is masked.
        """
        distinct, ranks = np.unique(np.ma.compressed(values), return_inverse=True)
        self._ranks[feature] = len(distinct)
        self._ranks[feature][~np.ma.getmaskarray(values)] = ranks
        return distinct

    def _rank_there(self, feature: int) -> npt.NDArray[Any]:
        """Have the database rank a column; return what is distinct. The codes of categories are ranks already."""
        kind, value = self._columns[feature].type, f"value_{feature}"
        is_categorical = kind.is_categorical
        rank = f"bin_{feature}" if is_categorical else f"DENSE_RANK() OVER (ORDER BY {value} ASC NULLS LAST) - 1"
        found = self._session.columns(render("rank_values", rank=rank, bins=self._table))
        self._ranks[feature, found["position"]] = found["rank"]
        if is_categorical:
            return np.empty(self._bins[feature].count)
        statement = render("distinct_values", value=value, physical=physical_sql(kind, value), bins=self._table)
        return np.asarray(self._session.columns(statement)["value"])

    def positions(self, h: FloatArray, max_bin: int) -> list[IntArray]:
        """Return which distinct values of each feature are cuts, given h of each row; none of a categorical feature."""

        def propose(feature: int) -> IntArray:
            own, n_distinct = self._bins[feature], len(self._distinct[feature])
            if own.feature.type.is_categorical:
                return np.empty(0, np.int64)
            by_rank = np.bincount(self._ranks[feature], h, n_distinct + 1)[:-1]
            return weighted_cuts_of(by_rank, max_bin - own.has_missing)

        return self._workers.each(range(len(self._bins)), propose)

    def bins(self, positions: Sequence[IntArray]) -> list[Bins]:
        """Return the bins, given which distinct values are cuts."""
        return [
            bins_between(own.feature, column.type, *gaps_at(distinct, at).tolist(), missing=own.has_missing)
            for own, column, distinct, at in zip(self._bins, self._columns, self._distinct, positions, strict=True)
        ]

    def words(self, records: Records, bins: Sequence[Bins], positions: Sequence[IntArray]) -> list[npt.NDArray[Any]]:
        """Return the words of all rows, uint64 (rows,), in which they have the codes of these bins."""

        def packed(word: int) -> npt.NDArray[Any]:
            found = np.zeros(self._ranks.shape[1], np.uint64)
            room = np.empty_like(found)
            for feature, (own, at) in enumerate(zip(bins, positions, strict=True)):
                field = records.fields[f"bin_{feature}"]
                if field.word == word:
                    codes = self._codes(feature, own, at).astype(np.uint64) << np.uint64(field.shift)
                    found |= np.take(codes, self._ranks[feature], out=room, mode="clip")
            return found

        return self._workers.each(range(len(records.names)), packed)

    def _codes(self, feature: int, own: Bins, at: IntArray) -> npt.NDArray[np.unsignedinteger]:
        """Return the code of each rank."""
        if own.feature.type.is_categorical:
            return np.arange(own.missing + 1, dtype=np.uint64)
        return codes_by_rank(at, len(self._distinct[feature]), own.missing)
