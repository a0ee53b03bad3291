"""Terms of ranking as arrays: computed when they are defined, and those of roles alone once a fit."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol

import numpy as np
import polars as pl

from frameboost.engines.contract import Cumulative, QueryWindow
from frameboost.engines.fixed_terms import fixed_key
from frameboost.engines.memory.queries import Queries
from frameboost.expressions.expression import Expression
from frameboost.losses.exact_sums import Scalar
from frameboost.runtime.storage import Storage
from frameboost.splits.split import FloatArray

__all__ = ["TermArrays", "TermRows"]

Term = Scalar | Cumulative | QueryWindow


class TermRows(Protocol):
    """Rows whose terms are computed."""

    rows: pl.DataFrame | None
    row_names: list[str]
    terms: dict[str, Term]
    storage: Storage

    def values_of(self, expressions: Sequence[Scalar]) -> list[FloatArray] | None:
        """Return the values of expressions in every row, None if there is no program for them."""

    def by_row(self, values: Mapping[str, Scalar]) -> pl.DataFrame:
        """Evaluate expressions row by row by polars."""
        ...


class TermArrays:
    """Terms of some rows.

    Attributes
    ----------
    arrays
        The terms that are kept, by name.
    version
        How often terms have been defined here, on which keys depend.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, FloatArray] = {}
        self.version = 0
        self._keys: dict[str, Hashable] = {}  # of fixed terms, by name
        self._fixed: dict[Hashable, FloatArray] = {}
        self._queries: Queries | None = None

    def queries_of(self, rows: TermRows) -> Queries:
        """Return the rows by query, always the same ones."""
        if self._queries is None:
            assert rows.rows is not None
            self._queries = Queries(rows.rows["qid"].to_numpy())
        return self._queries

    def define(self, name: str, term: Term, rows: TermRows) -> bool:
        """Compute a term that looks at queries, or is fixed; return whether it is kept."""
        self.version += 1
        self.arrays.pop(name, None)
        self._keys.pop(name, None)
        key = self.key(term, rows)
        found = None if key is None else self._fixed.get(key)
        if found is None:
            found = self._computed(term, rows, is_fixed=key is not None)
        if key is not None:
            self._keys[name] = key
        if found is None:
            return False
        if key is not None:
            self._fixed[key] = found
        self.arrays[name] = found
        return True

    def key(self, term: Term, rows: TermRows) -> Hashable | None:
        """Return what a fixed term, or expression, is recognised by; None if it is not fixed."""
        return fixed_key(term, lambda name: self._key_of_name(name, rows))

    def _key_of_name(self, name: str, rows: TermRows) -> Hashable | None:
        if name in self._keys:
            return self._keys[name]
        is_role = name in (*rows.row_names, "weight") and name not in rows.terms and name not in self.arrays
        return name if is_role else None

    def _computed(self, term: Term, rows: TermRows, *, is_fixed: bool) -> FloatArray | None:
        if isinstance(term, QueryWindow):
            values = self._values(term.value, rows, is_fixed=is_fixed)
            order = None if term.order is None else self._values(term.order, rows, is_fixed=is_fixed)
            if values is None or (order is None) != (term.order is None):
                return None
            return rows.storage.kept(self.queries_of(rows).window(term.function, values, order))
        if isinstance(term, Expression) and is_fixed:
            values = self._values(term, rows, is_fixed=True)
            return None if values is None else rows.storage.kept(np.ascontiguousarray(values))
        return None

    @staticmethod
    def _values(value: Scalar, rows: TermRows, *, is_fixed: bool) -> FloatArray | None:
        found = rows.values_of([value])
        if found is not None:
            return None if np.isnan(found[0]).any() else found[0]
        if not is_fixed:
            return None
        values = rows.by_row({"value": value})["value"]
        return None if values.null_count() or values.is_nan().any() else values.to_numpy()
