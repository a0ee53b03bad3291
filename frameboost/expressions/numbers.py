"""The value of an expression for one number of each name: arithmetic in Python, without a query of polars."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from frameboost.expressions.expression import Expression

__all__ = ["value_of"]


def value_of(expression: Expression, numbers: Mapping[str, float]) -> float | None:
    """Return the value, the same to the last bit as polars'; None for NULL.

    >>> value_of(Expression("SQRT(total / n)", ("total", "n")), {"total": 18.0, "n": 2.0})
    3.0
    """
    try:
        return float(expression.fold(_OfNumbers(numbers)))
    except (ArithmeticError, ValueError, LookupError):  # what Python has no number for, or may round otherwise
        found = pl.select(expression.to_polars({name: pl.lit(value) for name, value in numbers.items()})).item()
        return None if found is None else float(found)


class _OfNumbers:
    """Computes with numbers; an exception where there is NaN, or a function whose last bit may differ."""

    def __init__(self, numbers: Mapping[str, float]) -> None:
        self._numbers = numbers

    def column(self, name: str) -> Any:
        return _number(self._numbers[name])

    def number(self, value: float) -> Any:
        return value

    def apply(self, function: str, *arguments: Any) -> Any:
        return _number(_FUNCTIONS[function](*arguments))


def _number(value: Any) -> Any:
    if value != value:
        raise ValueError
    return value


def _case(*arguments: Any) -> Any:
    if len(arguments) % 2 == 0:  # no ELSE, which is NULL
        raise ValueError
    branches = zip(arguments[:-1:2], arguments[1::2], strict=True)
    return next((value for condition, value in branches if condition), arguments[-1])


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "NEG": operator.neg,
    "NOT": operator.not_,
    "ABS": abs,
    "SQRT": math.sqrt,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "<>": operator.ne,
    "AND": operator.and_,
    "OR": operator.or_,
    "GREATEST": max,
    "LEAST": min,
    "CASE": _case,
}
