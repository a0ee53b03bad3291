"""Expressions as programs for a small vector machine: a loss is still written once, and no round waits for a planner.

The machine computes what polars and SQL compute: the same operations on float64, in the same order, to the last bit.
Where the last bit is not certain (as of powers), or something may be NULL, there is no program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from frameboost.engines.contract import Cumulative, QueryWindow
from frameboost.engines.memory.program_kernels import INSTRUCTIONS
from frameboost.expressions.expression import Expression
from frameboost.expressions.syntax import case_parts
from frameboost.losses.exact_sums import Scalar

__all__ = ["Program", "compile_program"]

_NUMBERS = {name: number for number, name in enumerate(INSTRUCTIONS)}


@dataclass(frozen=True)
class Program:
    """Instructions, each of which fills one register.

    Attributes
    ----------
    columns
        The columns that it reads.
    instructions
        int64 (instructions, 4): which of `INSTRUCTIONS`, and up to three registers, or the number of a column.
    constants
        float64 (instructions,): the value of each that is a constant.
    results
        int64: the registers asked for.
    """

    columns: tuple[str, ...]
    instructions: npt.NDArray[np.int64]
    constants: npt.NDArray[np.float64]
    results: npt.NDArray[np.int64]


def compile_program(
    wanted: Sequence[Scalar], terms: Mapping[str, Scalar | Cumulative | QueryWindow], known: Mapping[str, float]
) -> Program | None:
    """Return the program of some expressions, None where one needs more than its own row, or may be NULL.

    Parameters
    ----------
    wanted
        The expressions.
    terms
        What they may name beside columns.
    known
        Columns that have one value.
    """
    assembler = _Assembler(terms, known)
    try:
        results = [assembler.value_of(each) for each in wanted]
    except _NotAProgramError:
        return None
    return Program(
        tuple(assembler.columns),
        np.array([instruction for instruction, _ in assembler.registers], dtype=np.int64).reshape(-1, 4),
        np.array([constant for _, constant in assembler.registers], dtype=np.float64),
        np.array(results, dtype=np.int64),
    )


class _NotAProgramError(Exception):
    pass


class _Assembler:
    """Numbers whatever is computed; the same is computed once."""

    def __init__(self, terms: Mapping[str, Scalar | Cumulative | QueryWindow], known: Mapping[str, float]) -> None:
        self._terms = terms
        self._known = known
        self.columns: dict[str, int] = {}
        self.registers: dict[tuple[tuple[int, int, int, int], float], int] = {}
        self._of_terms: dict[str, int] = {}

    def value_of(self, expression: Scalar | Cumulative | QueryWindow) -> int:
        """Return the register of an expression's value."""
        if not isinstance(expression, Expression):
            raise _NotAProgramError
        return expression.fold(self)

    def column(self, name: str) -> int:
        """See `Folder.column`."""
        if name in self._terms:
            if name not in self._of_terms:
                self._of_terms[name] = self.value_of(self._terms[name])
            return self._of_terms[name]
        if name in self._known:
            return self.number(self._known[name])
        return self._register("COLUMN", self.columns.setdefault(name, len(self.columns)))

    def number(self, value: float) -> int:
        """See `Folder.number`."""
        return self._register("NUMBER", constant=value)

    def apply(self, function: str, *arguments: int) -> int:
        """See `Folder.apply`."""
        if function not in _NUMBERS:
            raise _NotAProgramError
        if function == "CASE":
            branches, value = case_parts(arguments)
            if value is None:
                raise _NotAProgramError
            return reduce(lambda otherwise, b: self._register("CASE", *b, otherwise), reversed(branches), value)
        if function in ("GREATEST", "LEAST"):
            return reduce(lambda a, b: self._register(function, a, b), arguments)
        if function == "*":
            one = self.registers.get(((_NUMBERS["NUMBER"], 0, 0, 0), 1.0))
            if one in arguments:  # as a weight of 1 is
                return arguments[0] if arguments[1] == one else arguments[1]
        return self._register(function, *arguments)

    def _register(self, name: str, *arguments: int, constant: float = 0.0) -> int:
        first, second, third = (*arguments, 0, 0, 0)[:3]
        return self.registers.setdefault(((_NUMBERS[name], first, second, third), constant), len(self.registers))
