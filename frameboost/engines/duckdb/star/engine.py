"""The DuckDB engine over a star: attributes are binned once a row of their dimension, and facts have its key.

The facts of some nodes are read in batches, and added up by key in memory, then by the codes of the keys. So are the
sums of the joined table computed, which is never made (see `BatchSums`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frameboost.binning.bins import Bins
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.duckdb.binning import CountedRows, SqlColumn, store_bins
from frameboost.engines.duckdb.engine import MAX_CACHED_KEYS, MIN_SORTED, BatchSums, KeyCodes, narrowest_integer
from frameboost.engines.duckdb.records.engine import DuckDBRecordEngine
from frameboost.engines.duckdb.star.tables import BranchTable
from frameboost.expressions.duckdb_sql import is_missing, render
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature
from frameboost.splits.split import FloatArray, IntArray, Split

__all__ = ["DuckDBStarEngine", "StarDimension"]

# The most codes of a dimension to hold in memory; of a larger one the facts get the codes alone.
_MAX_CODES = 1 << 28
# With fewer attributes the facts get the codes alone: to read a key takes as long as to read some codes.
_MIN_ATTRIBUTES = 2
# Rows with the same codes become one key if there are at most so many times as many different ones as rows.
_MERGED = 0.5
# A key is the number of the row if there are fewer rows than this for each that facts refer to.
_ROWS_A_KEY = 2
# Without codes a split on an attribute is a text of a bit for each key, in each statement that moves rows.
_MAX_BITS = 1 << 15
# Keys with more facts than this have few bits for their facts.
_MANY_FACTS = 32.0


class DuckDBStarEngine(DuckDBRecordEngine):
    """`HistogramEngine` over a star of DuckDB relations.

    Parameters
    ----------
    session
        Its source is a copy of the facts (see `frameboost.engines.duckdb.star.tables.copy_star`).
    features, columns, roles, queries, in_order
        As for `TableEngine`; the columns are those of the copies.
    facts
        The facts as cuts are found from them.
    branches
        The dimensions.
    workers
        As for `DuckDBRecordEngine`.
    """

    def __init__(
        self, session: DuckDBSession, features: Sequence[Feature], columns: Sequence[SqlColumn],
        roles: Mapping[str, str], queries: SqlColumn | None = None, *, in_order: bool = False, facts: CountedRows,
        branches: Sequence[BranchTable], workers: Workers,
    ) -> None:  # fmt: skip
        super().__init__(session, features, columns, roles, queries, in_order=in_order, workers=workers)
        self._facts = facts
        self._branches = tuple(branches)
        apart = {number for branch in branches for number in branch.features}
        self._own = [number for number in range(len(self.features)) if number not in apart]
        self._dimensions: list[StarDimension] = []
        self._of_feature: dict[int, StarDimension] = {}

    def _count_rows(self) -> list[int]:
        """See `TableEngine._count_rows`: a row of a dimension counts as often as facts refer to it."""
        if self._counts is None:
            n_missing = dict[int, int]()
            for rows, features in self.tables_of_features():
                counts = "".join(
                    f", {'COUNT(*)' if rows.n is None else 'SUM(source.facts)'} "
                    f'FILTER (WHERE {is_missing(self.columns[i].type, self.columns[i].sql)}) AS "{i}"'
                    for i in features
                )
                statement = render("count_missing", source=rows.source, counts=counts)
                _, *missing = self.session.rows(statement)[0]
                n_missing |= {i: int(n or 0) for i, n in zip(features, missing, strict=True)}
            self._counts = [self._facts.n_rows, *(n_missing[i] for i in range(len(self.features)))]
        return self._counts

    def tables_of_features(self) -> list[tuple[CountedRows, Sequence[int]]]:
        """See `DuckDBEngine.tables_of_features`."""
        branches = [(branch.counted_rows(self.session), branch.features) for branch in self._branches]
        return [(self._facts, self._own), *branches]

    # --- bins ---------------------------------------------------------------------------------------------------------

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `HistogramEngine.bin_columns`."""
        super().bin_columns(bins)
        self._may_sort = self._may_sort and not self._sorted_by()

    @property
    def sums_by_kernel(self) -> bool:
        """See `DuckDBEngine.sums_by_kernel`: sums by key are."""
        return True

    @property
    def own_features(self) -> Sequence[int]:
        """See `DuckDBRecordEngine.own_features`."""
        return self._own

    @property
    def stored_features(self) -> Sequence[int]:
        """See `DuckDBRecordEngine.stored_features`."""
        by_key = {number for each in self.keyed_dimensions for number in each.features}
        return [number for number in range(len(self.features)) if number not in by_key]

    @property
    def keyed_dimensions(self) -> Sequence[KeyCodes]:
        """See `DuckDBRecordEngine.keyed_dimensions`."""
        return [each.keys for each in self._dimensions if each.keys is not None]

    def _sorted_by(self) -> str:
        """Return the key that the facts are sorted by, if any.

        It is that of the dimension with most keys, if its codes do not stay in the cache: then those of a key are read
        once for all of its facts that are in one node.
        """
        largest = max(self._dimensions, key=lambda each: each.n_keys)
        may_sort = not self.in_source_order and self.n_rows >= MIN_SORTED
        return largest.column if may_sort and largest.n_keys > MAX_CACHED_KEYS else ""

    def store_bins(self, bins: Sequence[Bins]) -> str:
        """See `DuckDBEngine.store_bins`: the facts get their own codes, and of each dimension the key or all codes."""
        session, more, joins = self.session, dict[str, str](), list[str]()
        for i, branch in enumerate(self._branches):
            codes = store_bins(
                session, [bins[f] for f in branch.features], [self.columns[f] for f in branch.features],
                {"row_id": "source.row_id"}, in_order=False, table=branch.table, numbers=branch.features,
            )  # fmt: skip
            session.drop(branch.table)
            dimension = StarDimension.of_codes(
                session, f"key_{i}", codes, branch.features, self.n_rows, may_have_codes=not self._is_in_memory
            )
            join, columns = dimension.join(f"branch_{i}", f"source.{branch.row}")
            joins += [join] if join else []
            more |= columns
            self._dimensions.append(dimension)
            self._of_feature |= dict.fromkeys(branch.features, dimension)
        facts = session.source
        largest = {f"bin_{f}": bins[f].largest_code for f in self._own}
        for each in self._dimensions:
            largest |= {f"bin_{f}": bins[f].largest_code for f in each.features if each.has_codes}
            largest |= {each.column: each.n_keys - 1} if each.codes is not None else {}
        stored = store_bins(
            session, [bins[f] for f in self._own], [self.columns[f] for f in self._own], more | self.roles,
            in_order=self.in_source_order, more_joins=joins, numbers=self._own,
            sorted_by=self._sorted_by(), stored=self.words(largest),
        )  # fmt: skip
        for table in [facts, *(each.table for each in self._dimensions)]:
            session.drop(table)
        return stored

    # --- once a tree --------------------------------------------------------------------------------------------------

    @property
    def max_walked_again(self) -> int:
        """See `DuckDBEngine.max_walked_again`; in the order of a key the rows of a chunk are in many nodes."""
        return 0 if self._sorted_by() else super().max_walked_again

    def goes_left(self, split: Split) -> str:
        """See `DuckDBEngine.goes_left`; a split on an attribute whose codes the facts lack has a bit for each key."""
        dimension = self._of_feature.get(split.feature)
        if dimension is None or dimension.has_codes:
            return super().goes_left(split)
        return dimension.goes_left(split, self.layout.bins[split.feature].missing)

    def histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `HistogramEngine.histograms`."""
        if self._is_in_memory:
            super().histograms(nodes, out, indices)
        else:
            sums = BatchSums(self.session, self.layout, self.stored_features, self.keyed_dimensions)
            out[indices] = self.sums_of_batches(nodes, sums, self.rows_in(nodes))


@dataclass(frozen=True)
class StarDimension:
    """A dimension, of which the facts have the key, or the codes of the attributes, or both.

    Attributes
    ----------
    table
        Its rows: ``row_id`` and `columns`; or a query of them in parentheses.
    column
        The column of the facts' bins with the key.
    features
        The numbers of its features.
    codes
        The codes of the keys, (keys, features), of uint8 or uint32; None if the facts have no keys.
    has_codes
        Whether the facts have the codes.
    is_merged
        Whether rows with the same codes are one key, and the table has lists of their numbers, ``row_ids``.
    unknown
        The key of facts whose own finds no row, where the key of others is the number of the row. None if it is not:
        then a key is a row's place in the table.
    """

    table: str
    column: str
    features: tuple[int, ...]
    codes: npt.NDArray[np.unsignedinteger] | None
    has_codes: bool
    is_merged: bool
    unknown: int | None = None

    @classmethod
    def of_codes(
        cls, session: DuckDBSession, column: str, codes: str, features: tuple[int, ...], n_facts: int, *,
        may_have_codes: bool = True,
    ) -> StarDimension:  # fmt: skip
        """Return a dimension of which ``codes`` has the codes of each row; that table is dropped unless it is kept.

        Without ``may_have_codes`` facts have either the key or the codes.
        """
        names = [f"bin_{f}" for f in features]
        joined = ", ".join(names)
        count = f"SELECT COUNT(*), approx_count_distinct(hash({joined})), MAX(row_id) + 1 FROM {codes}"
        n_rows, n_distinct, unknown = session.rows(count)[0]
        if len(features) < _MIN_ATTRIBUTES or n_rows * len(features) > _MAX_CODES:
            return cls(codes, column, features, None, True, False)
        is_merged = n_distinct <= _MERGED * n_rows
        table = codes
        if is_merged:
            table = session.table("keys")
            session.run(render("number_keys", keys=table, codes=codes, columns=joined))
            session.drop(codes)
        if is_merged or unknown >= _ROWS_A_KEY * n_rows:
            unknown = None
        number = "key" if is_merged else "rowid" if unknown is None else _key_of("row_id", unknown)
        # In the order of the key, which the rows may not have as they are read.
        read = session.columns(f"SELECT {number} AS key, {joined} FROM {table}")
        kind = np.uint8 if all(read[name].dtype == np.uint8 for name in names) else np.uint32
        by_key = np.zeros((len(read["key"]) if unknown is None else unknown + 1, len(names)), kind)
        for index, name in enumerate(names):
            by_key[read["key"], index] = read[name]
        has_codes = may_have_codes and len(by_key) > min(n_facts / _MANY_FACTS, _MAX_BITS)
        return cls(table, column, features, by_key, has_codes, is_merged, unknown)

    @property
    def keys(self) -> KeyCodes | None:
        """The codes of the keys, None if the facts have no keys."""
        return None if self.codes is None else KeyCodes(self.column, self.features, self.codes)

    @property
    def n_keys(self) -> int:
        """How many keys there are, 0 if the facts have none."""
        return 0 if self.codes is None else len(self.codes)

    @property
    def columns(self) -> list[str]:
        """The columns that the facts get."""
        return [
            *([self.column] if self.codes is not None else []),
            *([f"bin_{f}" for f in self.features] if self.has_codes else []),
        ]

    def join(self, branch: str, row: str) -> tuple[str, dict[str, str]]:
        """Return the join of the facts with this dimension, and the expressions of `columns` over both.

        ``branch`` is its name in the join, and ``row`` the column of the facts with the number of the row. There is no
        join if that is the key.
        """
        columns = {name: f"{branch}.{name}" for name in self.columns}
        if self.unknown is not None:
            columns[self.column] = self._narrowed(_key_of(row, self.unknown))
            if not self.has_codes:
                return "", columns
        number = "unnest(row_ids)" if self.is_merged else "row_id"
        key = self._narrowed("key" if self.is_merged else "rowid")
        named = [f"{key} AS {name}" if name == self.column else name for name in self.columns]
        read = f"(SELECT {number} AS row_id, {', '.join(named)} FROM {self.table})"
        return f"LEFT JOIN {read} AS {branch} ON {branch}.row_id = {row}", columns

    def _narrowed(self, key: str) -> str:
        return f"CAST({key} AS {narrowest_integer(self.n_keys - 1)})"

    def goes_left(self, split: Split, missing: int) -> str:
        """Return the condition that a fact goes left by the code of its key; ``missing`` is the last code."""
        assert self.codes is not None
        is_left = split.goes_left(missing + 1)[self.codes[:, self.features.index(split.feature)]]
        bits = (is_left.astype(np.uint8) + ord("0")).tobytes().decode()
        return f"get_bit(CAST('{bits}' AS BIT), {self.column}) = 1"


def _key_of(row: str, unknown: int) -> str:
    """Return the key of a row's number, which is -1 where there is none."""
    return f"CASE WHEN {row} < 0 THEN {unknown} ELSE {row} END"
