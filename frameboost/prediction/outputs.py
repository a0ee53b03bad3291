"""Outputs of rows from their margins, compiled once for all calls.

Setting up a polars query takes longer than computing a few thousand rows, so these are computed by a program
(`frameboost.engines.programs`), and more by `frameboost.compile.polars.output_expr`. Both return the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.compile.polars import output_column, output_expr
from frameboost.losses.outputs import Output
from frameboost.runtime.workers import has_numba

if TYPE_CHECKING:
    from frameboost.engines.programs import Program

__all__ = ["RowOutput"]

# Rows times values that a program computes; of labels, which Python looks up, fewer.
_MOST, _MOST_LABELS = 1 << 13, 1 << 10
# The inputs of an output that one expression of polars computes, which is kept.
_MAX_AT_ONCE = 16


class RowOutput:
    """An output, compiled on first use.

    Parameters
    ----------
    output
        The output.
    may_be_null
        Whether margins may be null, as offsets may be.
    """

    def __init__(self, output: Output, *, may_be_null: bool) -> None:
        self.output = output
        self._may_be_null = may_be_null
        self._is_margin = output.is_margin and not may_be_null
        self._labels = list(output.labels.values())
        self._most = _MOST_LABELS if self._has_texts else _MOST

    @property
    def _has_texts(self) -> bool:
        return any(isinstance(label, str) for label in self._labels)

    def values(self, margins: Sequence[Any] | npt.NDArray[np.float64]) -> npt.NDArray[Any] | pl.Series:
        """Return the output of rows with these margins, as a new array if it is of numbers or truth values.

        Parameters
        ----------
        margins
            The margins of each output, float64 (rows,), without NaN; polars series if they may be null. The last one is
            the result of the lookup, if any.

        Returns
        -------
        array or polars.Series
            (rows,), or (rows, values); a series for other types, and for many rows.
        """
        if self._is_margin:
            return margins[0]  # type: ignore[no-any-return]
        program = self._program
        if program is None or len(margins[0]) * len(program.results) > self._most:
            return self._by_polars(margins)
        values = program.of_rows(np.asarray(margins))
        return self._by_polars(margins) if values is None else self._shaped(values)

    @cached_property
    def _program(self) -> Program | None:
        """The program over all margins; None if polars must compute the output."""
        output = self.output
        if not has_numba() or self._may_be_null or output.lookup or (self._has_texts and len(output.values) > 1):
            return None
        from frameboost.engines.programs import OPCODES, compile_program

        terms = {name: value for stage in output.stages for name, value in stage.items()}
        known = {name: float(number) for number, name in enumerate(output.labels)}
        program = compile_program(output.values, terms, known)
        if program is None:
            return None
        instructions, order = program.instructions.copy(), [output.margins.index(name) for name in program.columns]
        is_column = instructions[:, 0] == OPCODES["COLUMN"]
        instructions[is_column, 1] = np.array(order, np.int64)[instructions[is_column, 1]]
        return replace(program, columns=output.margins, instructions=instructions)

    def _shaped(self, values: npt.NDArray[np.float64]) -> npt.NDArray[Any] | pl.Series:
        """Return the values, (rows, values), in the output's type."""
        if self.output.names:
            return pl.DataFrame(values, schema=list(self.output.names)).to_struct("prediction")
        shaped: npt.NDArray[Any] = values if values.shape[1] > 1 else values[:, 0]
        if not self.output.is_class:
            return shaped
        if self._has_texts:
            return pl.Series("prediction", [self._labels[int(number)] for number in shaped], pl.String)
        return shaped == 1.0 if self._labels else shaped.astype(np.int64)

    def _by_polars(self, margins: Sequence[Any] | npt.NDArray[np.float64]) -> pl.Series:
        output = self.output
        rows = pl.DataFrame([pl.Series(name, sums) for name, sums in zip(output.inputs, margins, strict=True)])
        if rows.width > _MAX_AT_ONCE:
            return output_column(output, rows, may_be_null=self._may_be_null).alias("prediction")
        return rows.select(self._expr).to_series()

    @cached_property
    def _expr(self) -> pl.Expr:
        named = [pl.col(name) for name in self.output.inputs]
        return output_expr(self.output, named, named if self._may_be_null else ()).alias("prediction")
