"""Terms of ranking as arrays: computed when they are defined, and those of roles alone once a fit."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol

import numpy as np
import polars as pl

from frameboost.engines.contract import Cumulative, QueryWindow
from frameboost.engines.fixed_terms import fixed_key
from frameboost.engines.ranking.queries import Queries
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Scalar
from frameboost.runtime.storage import Storage
from frameboost.runtime.workers import Workers
from frameboost.splits.split import FloatArray

__all__ = ["TermArrays"]


Term = Scalar | Cumulative | QueryWindow


class TermRows(Protocol):
    """Rows whose terms are computed."""

    rows: pl.DataFrame | None
    row_names: list[str]
    terms: dict[str, Term]
    storage: Storage
    workers: Workers

    def values_of(self, expressions: Sequence[Scalar]) -> list[FloatArray] | None:
        """Return the values of expressions in every row, None if there is no program for them."""

    def values_at(self, expression: Expression, columns: Mapping[str, FloatArray]) -> FloatArray | None:
        """Return the values of an expression at those of other ``columns``; None if it reads more than these."""

    def by_row(self, values: Mapping[str, Scalar]) -> pl.DataFrame:
        """Evaluate expressions row by row by polars."""
        ...


class TermArrays:
    """Terms of some rows.

    A query of 100 rows has one maximum, and 3,000 of them have ranks from 0 to 99. So what depends on such terms alone
    is computed once for each query, or each rank.

    Attributes
    ----------
    version
        How often terms have been defined here, on which keys depend.
    """

    def __init__(self) -> None:
        self.version = 0
        self._arrays: dict[str, FloatArray] = {}  # by row
        self._of_queries: dict[str, FloatArray] = {}  # by query; in `_arrays` too once they have been read
        self._ranks: dict[str, FloatArray] = {}  # terms that are ranks: all values
        self._keys: dict[str, Hashable] = {}  # of fixed terms, by name
        self._fixed: dict[Hashable, FloatArray] = {}
        self._queries: Queries | None = None

    def array(self, name: str) -> FloatArray | None:
        """Return a term that is kept, None if there is none of that name."""
        if name not in self._arrays and name in self._of_queries:
            assert self._queries is not None
            self._arrays[name] = self._queries.of_row(self._of_queries[name])
        return self._arrays.get(name)

    def all_arrays(self) -> dict[str, FloatArray]:
        """Return all terms that are kept."""
        for name in self._of_queries:
            self.array(name)
        return self._arrays

    def keep(self, terms: Mapping[str, FloatArray]) -> None:
        """Keep terms that were computed elsewhere."""
        self._arrays |= terms

    def queries_of(self, rows: TermRows) -> Queries:
        """Return the rows by query, always the same ones."""
        if self._queries is None:
            assert rows.rows is not None
            self._queries = Queries(rows.rows["qid"].to_numpy(), rows.workers)
        return self._queries

    def define(self, name: str, term: Term, rows: TermRows) -> bool:
        """Compute a term that looks at queries, or is fixed; return whether it is kept."""
        self.version += 1
        for known in (self._arrays, self._of_queries, self._ranks, self._keys):
            known.pop(name, None)
        key = self.key(term, rows)
        if key is not None:
            self._keys[name] = key
        if isinstance(term, Expression) and not term.columns:
            return False  # a number is part of each program
        if key is None:
            return self._define_by_query(name, term, rows) or self._define_by_row(name, term, rows)
        values = self._fixed.get(key)
        if values is None:
            values = self._computed(term, rows, is_fixed=True)
        if values is None:
            return False
        self._fixed[key] = self._arrays[name] = values
        return True

    def _define_by_query(self, name: str, term: Term, rows: TermRows) -> bool:
        """Compute a term that has one value in each query, or at each rank; return whether it is such a term."""
        by_query: FloatArray | None = None
        if isinstance(term, QueryWindow) and term.function in ("sum", "min", "max"):
            values = self._values(term.value, rows, is_fixed=False)
            by_query = None if values is None else self.queries_of(rows).reduced(term.function, values)
        elif isinstance(term, Expression):
            by_query = rows.values_at(term, self._of_queries)
            for rank, all_ranks in self._ranks.items():
                at_ranks = rows.values_at(term, {rank: all_ranks})
                if at_ranks is not None:
                    self._arrays[name] = rows.storage.kept(at_ranks[self._arrays[rank].astype(np.int64)])
                    return True
        if by_query is None:
            return False
        self._of_queries[name] = by_query
        return True

    def _define_by_row(self, name: str, term: Term, rows: TermRows) -> bool:
        values = self._computed(term, rows, is_fixed=False)
        if values is None:
            return False
        self._arrays[name] = values
        if isinstance(term, QueryWindow) and term.function == "rank":
            self._ranks[name] = np.arange(float(self.queries_of(rows).longest))
        return True

    def key(self, term: Term, rows: TermRows) -> Hashable | None:
        """Return what a fixed term, or expression, is recognised by; None if it is not fixed."""
        return fixed_key(term, lambda name: self._key_of_name(name, rows))

    def _key_of_name(self, name: str, rows: TermRows) -> Hashable | None:
        if name in self._keys:
            return self._keys[name]
        is_role = (
            name in (*rows.row_names, "weight")
            and name not in rows.terms
            and name not in (*self._arrays, *self._of_queries)
        )
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
        computed = rows.values_of([value])
        if computed is not None:
            return None if np.isnan(computed[0]).any() else computed[0]
        if not is_fixed:
            return None
        values = rows.by_row({"value": value})["value"]
        return None if values.null_count() or values.is_nan().any() else values.to_numpy()
