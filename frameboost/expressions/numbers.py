"""The value of an expression for one number of each name: arithmetic in Python, without a query of polars."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import polars as pl

from frameboost.expressions.expression import Expression
from frameboost.expressions.operators import OPERATORS

__all__ = ["value_of"]

_Program = Callable[[Mapping[str, float]], Any]


def value_of(expression: Expression, numbers: Mapping[str, float]) -> float | None:
    """Return the value, the same to the last bit as polars'; None for NULL.

    >>> value_of(Expression("SQRT(total / n)", ("total", "n")), {"total": 18.0, "n": 2.0})
    3.0
    """
    try:
        return float(_program(expression)(numbers))
    except (ArithmeticError, ValueError, LookupError):  # what Python has no number for, or may round otherwise
        found = pl.select(expression.to_polars({name: pl.lit(value) for name, value in numbers.items()})).item()
        return None if found is None else float(found)


@lru_cache(maxsize=256)
def _program(expression: Expression) -> _Program:
    return expression.fold(_Closures())


class _Closures:
    """Makes functions of the numbers; they raise an exception where there is NaN, or no function of that name."""

    def column(self, name: str) -> _Program:
        return lambda numbers: _number(numbers[name])

    def number(self, value: float) -> _Program:
        return lambda _: value

    def apply(self, function: str, *arguments: _Program) -> _Program:
        return lambda numbers: _number(_FUNCTIONS[function](*[argument(numbers) for argument in arguments]))


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
    **OPERATORS,
    "NOT": operator.not_,
    "ABS": abs,
    "SQRT": math.sqrt,
    "EXP": math.exp,  # the C library's function, as in polars
    "LN": math.log,
    "/": operator.truediv,
    "GREATEST": max,
    "LEAST": min,
    "CASE": _case,
}
