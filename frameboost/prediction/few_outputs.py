"""Outputs of a few rows, number by number: to set up a query of polars takes longer than some ten rows' arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from frameboost.expressions.expression import value_of
from frameboost.losses.outputs import Output

__all__ = ["MAX_VALUES", "few_outputs"]

# Rows times expressions; more are faster by columns.
MAX_VALUES = 16


def few_outputs(output: Output, margins: Sequence[Sequence[float]]) -> pl.Series | None:
    """Return what the output says of rows with these margins; None if they must be computed by columns.

    The bits are those of `frameboost.compile.polars.output_expr`.

    Parameters
    ----------
    margins
        float64 (outputs, rows): the margins, all known.
    """
    if not 0 < len(margins[0]) * _size(output) <= MAX_VALUES or output.names:
        return None
    rows = [_values(output, row) for row in zip(*margins, strict=True)]
    shape = len(output.values)
    kind = _dtype(output)
    if shape == 1:
        return pl.Series([value for (value,) in rows], dtype=kind)
    return pl.Series(rows, dtype=pl.Array(kind, shape))


def _size(output: Output) -> int:
    """Return the number of expressions of a row."""
    return len(output.values) + sum(map(len, output.stages))


def _values(output: Output, margins: Sequence[float]) -> list[Any]:
    """Return one row's values."""
    numbers: dict[str, Any] = {name: float(k) for k, name in enumerate(output.labels)}
    numbers |= dict(zip(output.inputs, map(float, margins), strict=True))
    for stage in output.stages:
        numbers |= {name: value_of(expression, numbers) for name, expression in stage.items()}
    values: list[Any] = [value_of(expression, numbers) for expression in output.values]
    if not output.is_class:
        return values
    labels = list(output.labels.values())
    return [labels[int(value)] if labels else int(value) for value in values]


def _dtype(output: Output) -> type[pl.DataType]:
    """Return the type of a value."""
    if not output.is_class:
        return pl.Float64
    labels = list(output.labels.values())
    return pl.Int64 if not labels else pl.Boolean if isinstance(labels[0], bool) else pl.String
