"""A dimension of a star while trees grow: the codes of its keys, and the columns that the facts get for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.duckdb.nodes import narrowest_integer
from frameboost.expressions.duckdb_sql import render
from frameboost.splits.split import Split

__all__ = ["StarDimension"]

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
        found = session.columns(f"SELECT {number} AS key, {joined} FROM {table}")
        kind = np.uint8 if all(found[name].dtype == np.uint8 for name in names) else np.uint32
        by_key = np.zeros((len(found["key"]) if unknown is None else unknown + 1, len(names)), kind)
        for index, name in enumerate(names):
            by_key[found["key"], index] = found[name]
        has_codes = may_have_codes and len(by_key) > min(n_facts / _MANY_FACTS, _MAX_BITS)
        return cls(table, column, features, by_key, has_codes, is_merged, unknown)

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
        own = [f"{key} AS {name}" if name == self.column else name for name in self.columns]
        read = f"(SELECT {number} AS row_id, {', '.join(own)} FROM {self.table})"
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
