"""The operators that Python's numbers and polars' expressions have alike, under their names in SQL."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["OPERATORS"]

# Without division: polars has a value for one by zero.
OPERATORS: Mapping[str, Callable[..., Any]] = {
    "NEG": operator.neg,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "<>": operator.ne,
    "AND": operator.and_,
    "OR": operator.or_,
}
