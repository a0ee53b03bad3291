"""A dimension of a star while trees grow: its keys, their codes, and whether sums by key pay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frameboost.engines.duckdb.nodes import narrowest_integer
from frameboost.engines.duckdb.session import DuckDBSession
from frameboost.expressions.sql_files import render
from frameboost.splits.split import FloatArray, Split

__all__ = ["StarDimension", "expected_sums", "sums_by_key_pay"]

# What takes time, as multiples of the time to sum a row by the bins of one attribute: to sum a fact by node and key, in
# a hash table, and to read the codes of a key beside its sums.
SUM_BY_KEY, READ_CODES = 4.0, 4.0
# Keys with more facts than this have few sums for their facts in any node of a tree: the facts need no codes.
_MANY_FACTS = 32.0
# Without codes a split on an attribute is a text of a bit for each key, in each statement that moves rows.
_MOST_BITS = 1 << 15


def expected_sums(n_keys: int, n_rows: FloatArray) -> float:
    """Return how many sums by node and key there are if each node's rows are drawn evenly from the keys.

    >>> round(expected_sums(100, np.array([100.0, 1e6])))
    163
    """
    return float(n_keys * -np.expm1(-n_rows / n_keys).sum())


def sums_by_key_pay(n_keys: int, n_attributes: int, n_rows: FloatArray) -> bool:
    """Whether the rows of some nodes are summed faster by key, and then by the codes of the keys, than by the codes.

    >>> sums_by_key_pay(200, 10, np.array([1e6])), sums_by_key_pay(10**6, 10, np.array([1e6]))
    (True, False)
    """
    total = float(n_rows.sum())
    by_key = SUM_BY_KEY * total + (READ_CODES + n_attributes) * expected_sums(n_keys, n_rows)
    return bool(by_key < n_attributes * total)


@dataclass(frozen=True)
class StarDimension:
    """A dimension, of which the facts have the key, or the codes of the attributes, or both.

    Attributes
    ----------
    table
        Its keys: ``key``, ``bin_3``, ... and ``row_ids``; without keys its rows: ``row_id``, ``bin_3``, ...
    column
        The column of the facts' bins with the key.
    features
        The numbers of its features.
    n_keys
        How many keys there are, 0 without.
    has_codes
        Whether the facts have the codes.
    codes
        The codes of the keys by feature, if the facts lack them.
    """

    table: str
    column: str
    features: tuple[int, ...]
    n_keys: int
    has_codes: bool
    codes: Mapping[int, npt.NDArray[np.integer]]

    @classmethod
    def of_codes(
        cls, session: DuckDBSession, column: str, codes: str, features: tuple[int, ...], n_facts: int
    ) -> StarDimension:
        """Return a dimension of which ``codes`` has the codes of each row; that table is dropped unless it is kept."""
        names = [f"bin_{f}" for f in features]
        joined = ", ".join(names)
        # Rows with the same codes in all attributes are one key. The count is an estimate, and so is what pays.
        n_distinct = int(session.rows(f"SELECT approx_count_distinct(hash({joined})) FROM {codes}")[0][0])
        if not sums_by_key_pay(n_distinct, len(features), np.array([float(n_facts)])):
            return cls(codes, column, features, 0, True, {})
        keys = session.table("keys")
        session.run(render("number_keys", keys=keys, codes=codes, columns=joined))
        session.drop(codes)
        n_keys = int(session.rows(f"SELECT COUNT(*) FROM {keys}")[0][0])
        found: Mapping[str, npt.NDArray[np.integer]] = {}
        if n_keys <= min(n_facts / _MANY_FACTS, _MOST_BITS):
            found = session.columns(f"SELECT {joined} FROM {keys} ORDER BY key ASC")
        by_feature = {f: np.asarray(found[name]) for f, name in zip(features, names, strict=True) if found}
        return cls(keys, column, features, n_keys, not by_feature, by_feature)

    @property
    def has_keys(self) -> bool:
        """Whether the facts have the key."""
        return self.n_keys > 0

    @property
    def columns(self) -> list[str]:
        """The columns that the facts get."""
        return [
            *([self.column] if self.has_keys else []),
            *([f"bin_{f}" for f in self.features] if self.has_codes else []),
        ]

    @property
    def read_by_row(self) -> str:
        """A table, or a query in parentheses, with ``row_id`` and `columns`."""
        if not self.has_keys:
            return self.table
        key = f"CAST(key AS {narrowest_integer(self.n_keys - 1)}) AS {self.column}"
        return f"(SELECT unnest(row_ids) AS row_id, {', '.join([key, *self.columns[1:]])} FROM {self.table})"

    def sums_by_key(self, n_rows: FloatArray) -> bool:
        """Whether to sum the rows of some nodes, of which these are about the numbers, by key."""
        return not self.has_codes or sums_by_key_pay(self.n_keys, len(self.features), n_rows)

    def goes_left(self, split: Split, missing: int) -> str:
        """Return the condition that a fact goes left by the code of its key; ``missing`` is the last code."""
        is_left = split.goes_left(missing + 1)[self.codes[split.feature]]
        bits = (is_left.astype(np.uint8) + ord("0")).tobytes().decode()
        return f"get_bit(CAST('{bits}' AS BIT), {self.column}) = 1"
