"""Outputs of up to a few thousand rows, for which setting up a polars query takes longer than computing them.

A few rows are computed number by number, more by numpy; for larger data polars is as fast
(`frameboost.compile.polars.output_expr`). All three return the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.expressions.expression import value_of
from frameboost.losses.outputs import Output

if TYPE_CHECKING:
    from frameboost.engines.programs import Program

__all__ = ["ArrayOutput", "few_outputs"]

# Rows that are computed number by number, and those of classes, which numpy does not compute here.
_MAX_ROWS, _MAX_CLASSES = 3, 8
# Rows times values that are computed by numpy.
_MAX_ARRAY = 1 << 13


def few_outputs(output: Output, margins: Sequence[Sequence[float]]) -> pl.Series | None:
    """Return the output for rows with these margins; None if it must be computed by columns.

    Bitwise equal to `frameboost.compile.polars.output_expr`.

    Parameters
    ----------
    margins
        float64 (outputs, rows): the margins, without NaN.
    """
    if not 0 < len(margins[0]) <= (_MAX_CLASSES if output.is_class else _MAX_ROWS) or output.names:
        return None
    rows = [_values(output, row) for row in zip(*margins, strict=True)]
    shape = len(output.values)
    kind = _dtype(output)
    if shape == 1:
        return pl.Series("prediction", [value for (value,) in rows], kind)
    return pl.Series("prediction", rows, pl.Array(kind, shape))


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


class ArrayOutput:
    """An output with numeric values, compiled once.

    Parameters
    ----------
    output
        The output.
    """

    def __init__(self, output: Output) -> None:
        from frameboost.engines.programs import compile_program, evaluate  # which need numba

        self._margins, self._evaluate = output.margins, evaluate
        self._program: Program | None = None
        if not output.is_class and not output.names:  # these are numbers
            terms = {name: value for stage in output.stages for name, value in stage.items()}
            self._program = compile_program(output.values, terms, {})

    def values(self, margins: Sequence[npt.NDArray[np.float64]]) -> pl.Series | None:
        """Return the values of rows with these margins, float64 (outputs, rows).

        None if polars must compute them: for many rows, or expressions that may be NULL or round differently.
        """
        program, n_rows = self._program, len(margins[0])
        if program is None or n_rows * len(program.results) > _MAX_ARRAY:
            return None
        by_name = dict(zip(self._margins, margins, strict=True))
        results = self._evaluate(program, [by_name[name] for name in program.columns])
        if len(results) == 1:
            values = results[0]
            return pl.Series("prediction", values if np.shape(values) == (n_rows,) else np.full(n_rows, values))
        table = np.empty((n_rows, len(results)))
        for k, column in enumerate(results):
            table[:, k] = column
        return pl.Series("prediction", table)
