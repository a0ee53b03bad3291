"""The compiler of gradient programs: expressions become instructions for the interpreter in `kernels`.

On a few thousand rows polars takes longer to plan a query than to run it; a program is planned once per fit. It does
the same float64 operations as polars and SQL, in the same order, so the results agree to the last bit. Functions whose
last bit may differ (powers) and expressions that may be NULL have no program.

The gradient of the logistic loss, ``1 / (1 + EXP(-margin)) - label``, becomes (each instruction writes the register of
its own number; operands are registers)::

    0  NUMBER 1.0
    1  COLUMN margin
    2  NEG    1
    3  EXP    2
    4  +      0 3
    5  /      0 4
    6  COLUMN label
    7  -      5 6

The hessian ``p * (1 - p)`` then starts from register 5: equal subexpressions share a register.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import numpy.typing as npt

from frameboost.engines.contract import Cumulative, QueryWindow
from frameboost.engines.exact_functions import has_exact_exponentials, has_exact_logarithms
from frameboost.engines.memory.programs.kernels import OPCODES
from frameboost.expressions.expression import Expression, case_parts
from frameboost.expressions.grid import Scalar

__all__ = ["Program", "Programs", "compile_program"]


@dataclass(frozen=True)
class Program:
    """Instructions; instruction k writes register k.

    Attributes
    ----------
    columns
        The columns that it reads.
    instructions
        int64 (instructions, 4): one of `OPCODES`, and up to three registers, or the number of a column.
    constants
        float64 (instructions,): the value of each constant.
    results
        int64: the registers of the wanted expressions.
    """

    columns: tuple[str, ...]
    instructions: npt.NDArray[np.int64]
    constants: npt.NDArray[np.float64]
    results: npt.NDArray[np.int64]

    def constant(self, result: int) -> float | None:
        """Return a result that is the same in every row; None for others."""
        register = int(self.results[result])
        is_constant = self.instructions[register, 0] == OPCODES["NUMBER"]
        return float(self.constants[register]) if is_constant else None

    @cached_property
    def for_kernels(self) -> npt.NDArray[np.int64]:
        """The instructions with kernels for EXP and LN where their results are those of the C library."""
        found = self.instructions.copy()
        for name, are_exact in (("EXP", has_exact_exponentials), ("LN", has_exact_logarithms)):
            is_it = found[:, 0] == OPCODES[name]
            if is_it.any() and are_exact():
                found[is_it, 0] = OPCODES[f"{name}_AT_ONCE"]
        return found


def compile_program(
    wanted: Sequence[Scalar], terms: Mapping[str, Scalar | Cumulative | QueryWindow], known: Mapping[str, float]
) -> Program | None:
    """Compile expressions, or return None where one reads other rows or may be NULL.

    Parameters
    ----------
    wanted
        The expressions.
    terms
        Definitions of the names that are not columns.
    known
        Columns with one value in all rows.
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


class Programs:
    """Programs of the expressions of each round, compiled anew only when the terms have changed."""

    def __init__(self) -> None:
        self._compiled: dict[tuple[Scalar, ...], tuple[Mapping[str, object], Program | None]] = {}

    def of(
        self, wanted: Sequence[Scalar], terms: Mapping[str, Scalar | Cumulative | QueryWindow],
        known: Mapping[str, float],
    ) -> Program | None:  # fmt: skip
        """Return `compile_program`; ``known`` is the same in every call."""
        key = tuple(wanted)
        found = self._compiled.get(key)
        if found is None or found[0] != terms:
            found = self._compiled[key] = dict(terms), compile_program(wanted, terms, known)
        return found[1]


class _NotAProgramError(Exception):
    pass


class _Assembler:
    """Assigns a register to every subexpression; equal ones share it (common subexpression elimination)."""

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
        if function not in OPCODES:
            raise _NotAProgramError
        if function == "CASE":
            branches, value = case_parts(arguments)
            if value is None:
                raise _NotAProgramError
            return reduce(lambda otherwise, b: self._register("CASE", *b, otherwise), reversed(branches), value)
        if function in ("GREATEST", "LEAST"):
            return reduce(lambda a, b: self._register(function, a, b), arguments)
        if function == "*":
            one = self.registers.get(((OPCODES["NUMBER"], 0, 0, 0), 1.0))
            if one in arguments:  # such as a weight of 1
                return arguments[0] if arguments[1] == one else arguments[1]
        return self._register(function, *arguments)

    def _register(self, name: str, *arguments: int, constant: float = 0.0) -> int:
        first, second, third = (*arguments, 0, 0, 0)[:3]
        return self.registers.setdefault(((OPCODES[name], first, second, third), constant), len(self.registers))
