"""Which lazy frames only read files, row by row, so that slices of them can be read by themselves.

A slice of such a frame has the same rows each time, and reading it takes about as long as it has rows: polars passes it
down to the files. Of a sort, a join or a function in Python neither is certain.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

__all__ = ["scanned_formats"]

_OF_POLARS = (pl.exceptions.PolarsError, pl.exceptions.PanicException)  # a panic is not even an Exception
_PLANS = ("Scan", "SimpleProjection", "Select", "HStack", "Filter")
_OPERANDS = {
    "Column": (),
    "Literal": (),
    "Cast": ("expr",),
    "BinaryExpr": ("left", "right"),
    "Ternary": ("predicate", "truthy", "falsy"),
    "Function": ("input",),
}
_FUNCTIONS = frozenset([
    "abs", "arccos", "arcsin", "arctan", "arctan2", "as_struct", "cbrt", "ceil", "clip", "coalesce", "cos", "exp",
    "expm1", "fill_null", "floor", "hash", "log", "log1p", "max_horizontal", "min_horizontal", "negate", "pow",
    "replace", "replace_strict", "round", "round_sig_figs", "sign", "sin", "sqrt", "sum_horizontal", "tan", "tanh",
    "to_physical",
])  # fmt: skip
# Functions of these families, by the names that polars gives them: all but some.
_BUT_OF_FAMILY = {
    "BooleanFunction": ("Any", "All", "IsFirstDistinct", "IsLastDistinct", "IsUnique", "IsDuplicated", "HasNulls"),
    # Strptime without a format takes that of the first value that it is given.
    "StringFunction": ("ConcatVertical", "Strptime"),
    "TemporalFunction": ("DatetimeFunction", "Duration"),
}


def scanned_formats(frame: pl.LazyFrame) -> frozenset[str] | None:
    """Return the formats of the files that a frame reads; None if it does more than to compute rows from their rows.

    It is told from polars' plan, of which only what is known here is accepted. Polars shows no plan that has a
    function in Python, a plugin, a source of another package, or an Arrow file.

    >>> scanned_formats(pl.LazyFrame({"x": [1]})) is None
    True
    """
    try:
        plan = frame._ldf.visit()  # of the optimised plan; no rows are read
        return frozenset(_formats(plan))
    except (AttributeError, NotImplementedError, OSError, *_OF_POLARS, _OtherStepError):
        # One that can't be shown, or not be run: who reads the frame will say why.
        return None


class _OtherStepError(Exception):
    """A plan has a step that is not known to take rows one by one."""


def _formats(plan: Any) -> Iterator[str]:
    """Yield the format of each scan of a plan."""
    waiting = [plan.get_node()]
    while waiting:
        plan.set_node(waiting.pop())
        node = plan.view_current_node()
        if type(node).__name__ not in _PLANS:
            raise _OtherStepError
        for expression in plan.get_exprs():
            _check_by_row(plan, expression.node)
        if type(node).__name__ == "Scan":
            yield str(node.scan_type[0])
        waiting += plan.get_inputs()


def _check_by_row(plan: Any, root: int) -> None:
    """Raise `_OtherStepError` if an expression is not known to be computed row by row."""
    waiting = [root]
    while waiting:
        expression = plan.view_expression(waiting.pop())
        kind = type(expression).__name__
        if kind not in _OPERANDS:
            raise _OtherStepError
        if kind == "Literal" and type(expression.value).__name__ == "PySeries":
            raise _OtherStepError
        if kind == "Function" and not _is_by_row(expression.function_data[0]):
            raise _OtherStepError
        for name in _OPERANDS[kind]:
            operands = getattr(expression, name)
            waiting += operands if isinstance(operands, list) else [operands]


def _is_by_row(function: object) -> bool:
    if isinstance(function, str):
        return function in _FUNCTIONS
    family, _, name = str(function).partition(".")
    return family in _BUT_OF_FAMILY and name not in _BUT_OF_FAMILY[family]
