"""Gradients on the grid: how a loss becomes two numbers a row whose sums are exact (see `frameboost.grid`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from frameboost.engines.contract import Aggregate
from frameboost.expressions import Expression, float_literal
from frameboost.grid import grid_offset

__all__ = ["exact_sum", "gridded_gradients", "weighted"]


class _Rows(Protocol):
    @property
    def n_rows(self) -> int: ...

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]: ...


def weighted(expression: Expression) -> Expression:
    """Return the expression times the row's weight."""
    return Expression(f"({expression.text}) * weight")


def gridded_gradients(rows: _Rows, gradient: Expression, hessian: Expression) -> tuple[Expression, Expression]:
    """Return expressions for g and h, weighted and rounded to the grid of this iteration."""
    terms = {"g": weighted(gradient), "h": weighted(hessian)}
    on_grid = _on_grid(rows, terms)
    return on_grid["g"], on_grid["h"]


def exact_sum(rows: _Rows, terms: Mapping[str, Expression]) -> dict[str, float]:
    """Return sums over all rows that do not depend on their order."""
    sums = rows.aggregate({name: Aggregate("sum", term) for name, term in _on_grid(rows, terms).items()})
    return {name: value or 0.0 for name, value in sums.items()}


def _on_grid(rows: _Rows, terms: Mapping[str, Expression]) -> dict[str, Expression]:
    largest = rows.aggregate({name: Aggregate("max", Expression(f"ABS({term.text})")) for name, term in terms.items()})
    count = rows.n_rows
    return {
        name: Expression(
            "({0} + {1}) - {1}".format(f"({term.text})", float_literal(grid_offset(largest[name] or 0.0, count)))
        )
        for name, term in terms.items()
    }
