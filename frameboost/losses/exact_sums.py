"""Aggregates over all rows, and sums that are exact: of expressions rounded to a grid (see `expressions.grid`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Protocol, runtime_checkable

import polars as pl

from frameboost.expressions.expression import Expression, float_literal
from frameboost.expressions.grid import grid_offset, offset_step

__all__ = [
    "Aggregate",
    "Aggregator",
    "Rounded",
    "Scalar",
    "SumsAtOnce",
    "exact_sum",
    "exact_sum_in_two",
    "largest_magnitudes",
    "rounded",
    "rounded_on",
    "weighted",
]


class Scalar(Protocol):
    """An expression with a number for every row, in SQL and in polars."""

    def to_sql(self, columns: Mapping[str, str]) -> str:
        """See `Expression.to_sql`."""

    def to_polars(self, columns: Mapping[str, pl.Expr] | None = None) -> pl.Expr:
        """See `Expression.to_polars`."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One number over all rows: ``function(expression)``. The terms of a sum are not NULL; over no rows it is 0."""

    function: str  # "sum", "min" or "max"
    expression: Scalar


class Aggregator(Protocol):
    """Rows that can be aggregated, such as an engine's."""

    @property
    def n_rows(self) -> int:
        """The number of rows, or an upper bound of it."""

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """Return aggregates over all rows."""


@runtime_checkable
class SumsAtOnce(Protocol):
    """What rows have besides if they find the grids and take the sums on them in one call."""

    def exact_sums(self, terms: Mapping[str, Expression]) -> dict[str, float]:
        """Return `exact_sum` of themselves."""


@dataclass(frozen=True, slots=True)
class Rounded:
    """An expression rounded to a grid, as ``(x + C) - C``; ``largest`` is an upper bound of its magnitude."""

    expression: Scalar
    offset: float
    largest: float = math.inf

    @property
    def step(self) -> float:
        """The step of the grid."""
        return offset_step(self.offset)

    def to_sql(self, columns: Mapping[str, str]) -> str:
        """See `Expression.to_sql`."""
        offset = float_literal(self.offset)
        return f"(({self.expression.to_sql(columns)} + {offset}) - {offset})"

    def to_polars(self, columns: Mapping[str, pl.Expr] | None = None) -> pl.Expr:
        """See `Expression.to_polars`."""
        return (self.expression.to_polars(columns) + self.offset) - self.offset


@cache
def weighted(expression: Expression) -> Expression:
    """Return the expression times the row's weight."""
    return Expression(f"({expression.text}) * weight", tuple(dict.fromkeys((*expression.columns, "weight"))))


@cache
def _magnitude(expression: Expression) -> Expression:
    return Expression(f"ABS({expression.text})", expression.columns)


def largest_magnitudes(rows: Aggregator, terms: Mapping[str, Expression]) -> dict[str, float]:
    """Return the largest magnitude of each expression over all rows; 0 over no rows."""
    found = rows.aggregate({name: Aggregate("max", _magnitude(term)) for name, term in terms.items()})
    return {name: value or 0.0 for name, value in found.items()}


def rounded_on(offsets: Mapping[str, float], terms: Mapping[str, Expression]) -> dict[str, Rounded]:
    """Return expressions on the grids of these offsets."""
    return {name: Rounded(term, offsets[name]) for name, term in terms.items()}


def rounded(rows: Aggregator, terms: Mapping[str, Expression]) -> dict[str, Rounded]:
    """Return expressions on grids on which their sums over all rows are exact."""
    largest, n_rows = largest_magnitudes(rows, terms), rows.n_rows
    return {n: Rounded(term, grid_offset(largest[n], n_rows), largest[n]) for n, term in terms.items()}


def exact_sum(rows: Aggregator, terms: Mapping[str, Expression]) -> dict[str, float]:
    """Return sums over all rows, the same in any order."""
    sums = getattr(rows, "exact_sums", None)  # a tenth of the time that `isinstance` takes with a protocol
    return exact_sum_in_two(rows, terms) if sums is None else sums(terms)


def exact_sum_in_two(rows: Aggregator, terms: Mapping[str, Expression]) -> dict[str, float]:
    """Return `exact_sum` by two aggregations: of the largest magnitudes, and of the terms on the grids for these."""
    sums = rows.aggregate({name: Aggregate("sum", term) for name, term in rounded(rows, terms).items()})
    return {name: value or 0.0 for name, value in sums.items()}
