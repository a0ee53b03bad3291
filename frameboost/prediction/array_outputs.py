"""Outputs of some thousand rows as arrays: to plan and start a query of polars takes longer than to compute them.

The results are polars' to the last bit (see `frameboost.engines.memory.programs`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from frameboost.compile.arrays.flat_trees import FloatArray
from frameboost.engines.memory.programs import Program, compile_program, evaluate
from frameboost.losses.outputs import Output

__all__ = ["MAX_ROWS", "ArrayOutput"]

# For more, polars is faster.
MAX_ROWS = 1 << 13


class ArrayOutput:
    """An output whose values are numbers, compiled once.

    Parameters
    ----------
    output
        The output.
    """

    def __init__(self, output: Output) -> None:
        self._margins = output.margins
        self._program: Program | None = None
        if not output.is_class and not output.names:  # these are numbers
            terms = {name: value for stage in output.stages for name, value in stage.items()}
            self._program = compile_program(output.values, terms, {})

    def values(self, margins: Sequence[FloatArray]) -> pl.Series | None:
        """Return the values of rows with these margins, float64 (outputs, rows).

        None if they must be computed by polars: many rows, or expressions that may be NULL or round otherwise.
        """
        program, n_rows = self._program, len(margins[0])
        if program is None or n_rows * len(program.results) > MAX_ROWS:
            return None
        by_name = dict(zip(self._margins, margins, strict=True))
        found = evaluate(program, [by_name[name] for name in program.columns])
        if len(found) == 1:
            return pl.Series("prediction", np.broadcast_to(found[0], n_rows))
        table = np.empty((n_rows, len(found)))
        for k, column in enumerate(found):
            table[:, k] = column
        return pl.Series("prediction", table)
