"""The features of a star in DuckDB: attributes are binned once per row of their dimension, and facts have its key.

The facts of some nodes are read in batches, and summed by key in memory, then by the codes of the keys. The sums equal
those of the joined table, which is never materialised (see `BatchSums`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frameboost.binning.bins import Bins
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.duckdb.binning import CountedRows, SqlColumn, store_bins
from frameboost.engines.duckdb.engine import MAX_CACHED_KEYS, MIN_SORTED, KeyCodes, narrowest_integer
from frameboost.engines.duckdb.star.tables import BranchTable
from frameboost.expressions.duckdb_sql import is_missing, render
from frameboost.splits.split import Split

__all__ = ["StarDimension", "StarTables"]

# The most codes of a dimension to hold in memory; of a larger one the facts get the codes alone.
_MAX_CODES = 1 << 28
# With fewer attributes the facts get the codes alone: to read a key takes as long as to read some codes.
_MIN_ATTRIBUTES = 2
# Rows with the same codes become one key if the share of distinct ones is at most this.
_MERGED = 0.5
# A key is the number of the row if there are fewer rows than this for each that facts refer to.
_ROWS_A_KEY = 2
# Without codes a split on an attribute is a text of a bit for each key, in each statement that moves rows.
_MAX_BITS = 1 << 15
# Keys with more facts than this have few bits for their facts.
_MANY_FACTS = 32.0


class StarTables:
    """`FeatureTables` of a star of DuckDB relations.

    Parameters
    ----------
    session
        Its source is a copy of the facts (see `frameboost.engines.duckdb.star.tables.copy_star`).
    columns
        The columns of the copies.
    facts
        The facts, for proposing cuts.
    branches
        The dimensions.
    """

    has_keys = True

    def __init__(
        self, session: DuckDBSession, columns: Sequence[SqlColumn], facts: CountedRows, branches: Sequence[BranchTable]
    ) -> None:
        self._session = session
        self._columns = columns
        self._facts = facts
        self._branches = tuple(branches)
        apart = {number for branch in branches for number in branch.features}
        self._own = [number for number in range(len(columns)) if number not in apart]
        self._dimensions: list[StarDimension] = []
        self._of_feature: dict[int, StarDimension] = {}
        self._counts: list[int] = []
        self.sorted_by = ""

    @property
    def features(self) -> Sequence[int]:
        """See `FeatureTables`; before bins are stored, the features of the facts."""
        if not self._dimensions:
            return self._own
        by_key = {number for each in self.dimensions for number in each.features}
        return [number for number in range(len(self._columns)) if number not in by_key]

    @property
    def dimensions(self) -> Sequence[KeyCodes]:
        """See `FeatureTables`."""
        return [each.keys for each in self._dimensions if each.keys is not None]

    def count_missing(self) -> list[int]:
        """See `FeatureTables.count_missing`: a row of a dimension is weighted by its number of facts."""
        if not self._counts:
            n_missing = dict[int, int]()
            for rows, features in self.counted_rows():
                counts = "".join(
                    f", {'COUNT(*)' if rows.n is None else 'SUM(source.facts)'} "
                    f'FILTER (WHERE {is_missing(self._columns[i].type, self._columns[i].sql)}) AS "{i}"'
                    for i in features
                )
                statement = render("count_missing", source=rows.source, counts=counts)
                _, *missing = self._session.rows(statement)[0]
                n_missing |= {i: int(n or 0) for i, n in zip(features, missing, strict=True)}
            self._counts = [self._facts.n_rows, *(n_missing[i] for i in range(len(self._columns)))]
        return self._counts

    def counted_rows(self) -> list[tuple[CountedRows, Sequence[int]]]:
        """See `FeatureTables.counted_rows`."""
        branches = [(branch.counted_rows(self._session), branch.features) for branch in self._branches]
        return [(self._facts, self._own), *branches]

    def store_bins(self, bins: Sequence[Bins], roles: Mapping[str, str], *, in_order: bool, may_repeat: bool) -> str:
        """See `FeatureTables.store_bins`: stores the codes of the facts, and the key or all codes of each dimension."""
        session, more, joins = self._session, dict[str, str](), list[str]()
        for i, branch in enumerate(self._branches):
            codes = store_bins(
                session, [bins[f] for f in branch.features], [self._columns[f] for f in branch.features],
                {"row_id": "source.row_id"}, in_order=False, table=branch.table, numbers=branch.features,
            )  # fmt: skip
            session.drop(branch.table)
            dimension = StarDimension.of_codes(
                session, f"key_{i}", codes, branch.features, self._facts.n_rows, may_have_codes=may_repeat
            )
            join, columns = dimension.join(f"branch_{i}", f"source.{branch.row}")
            joins += [join] if join else []
            more |= columns
            self._dimensions.append(dimension)
            self._of_feature |= dict.fromkeys(branch.features, dimension)
        facts = session.source
        self.sorted_by = "" if in_order else self._largest_key()
        stored = store_bins(
            session, [bins[f] for f in self._own], [self._columns[f] for f in self._own], {**more, **roles},
            in_order=in_order, more_joins=joins, numbers=self._own, sorted_by=self.sorted_by,
        )  # fmt: skip
        for table in [facts, *(each.table for each in self._dimensions)]:
            session.drop(table)
        return stored

    def _largest_key(self) -> str:
        """Return the key of the dimension with the most keys, if its codes do not fit in the cache.

        With facts in its order, codes are read once for all facts of a key in one node.
        """
        largest = max(self._dimensions, key=lambda each: each.n_keys)
        is_large = self._facts.n_rows >= MIN_SORTED and largest.n_keys > MAX_CACHED_KEYS
        return largest.column if is_large else ""

    def goes_left(self, split: Split, missing: int) -> str | None:
        """See `FeatureTables.goes_left`; a split on an attribute without codes by row has a bit for each key."""
        dimension = self._of_feature.get(split.feature)
        return None if dimension is None or dimension.has_codes else dimension.goes_left(split, missing)


@dataclass(frozen=True)
class StarDimension:
    """A dimension; the facts have its key, or the codes of its attributes, or both.

    Attributes
    ----------
    table
        Its rows: ``row_id`` and `columns`; or a query of them in parentheses.
    column
        The key column in the facts' bins.
    features
        The indices of its features.
    codes
        The codes of the keys, (keys, features), of uint8 or uint32; None if the facts have no keys.
    has_codes
        Whether the facts have the codes.
    is_merged
        Whether rows with the same codes share one key, and the table has lists of their ids, ``row_ids``.
    unknown
        The key of facts without a dimension row, if keys are row ids; None if keys are positions of rows in the table.
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
        """Return a dimension from the codes of its rows in ``codes``; that table is dropped unless it is kept.

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
        """The number of keys, 0 if the facts have none."""
        return 0 if self.codes is None else len(self.codes)

    @property
    def columns(self) -> list[str]:
        """The columns that are added to the facts."""
        return [
            *([self.column] if self.codes is not None else []),
            *([f"bin_{f}" for f in self.features] if self.has_codes else []),
        ]

    def join(self, branch: str, row: str) -> tuple[str, dict[str, str]]:
        """Return the join of the facts with this dimension, and the expressions of `columns` over both.

        ``branch`` is its name in the join, and ``row`` the column of the facts with the row id. There is no join if
        that is the key.
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
        """Return the condition for a fact to go left by the code of its key; ``missing`` is the last code."""
        assert self.codes is not None
        is_left = split.goes_left(missing + 1)[self.codes[:, self.features.index(split.feature)]]
        bits = (is_left.astype(np.uint8) + ord("0")).tobytes().decode()
        return f"get_bit(CAST('{bits}' AS BIT), {self.column}) = 1"


def _key_of(row: str, unknown: int) -> str:
    """Return the key of a row id, -1 without one."""
    return f"CASE WHEN {row} < 0 THEN {unknown} ELSE {row} END"
