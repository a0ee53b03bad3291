"""Gradient programs on few rows: the instructions as operations of numpy, which need no compiling.

Once the kernel has been compiled, which is put off for small fits, it takes a fifth of the time on few rows too (see
`frameboost.runtime.compile_later`).

Results are the same to the last bit. EXP and LN are polars', which calls the C library as compiled kernels do; numpy's
own, in vector instructions, differ from it in the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from frameboost.engines.memory.programs.kernels import OPCODES, compute_gh, compute_shares, exp_of, log_of
from frameboost.engines.memory.programs.program import Program
from frameboost.runtime.compile_later import CompileLater
from frameboost.runtime.task_sizes import ROWS_PER_TASK
from frameboost.runtime.workers import Workers
from frameboost.splits.split import FloatArray, IntArray

__all__ = [
    "Addresses", "compute_all", "compute_block", "compute_few", "evaluate", "is_for_numpy",
]  # fmt: skip

# A call for more rows compiles the kernel at once.
_MAX_ROWS = 1 << 18
# By numpy a row takes some 40 ns longer, and the kernel five seconds to compile.
_compiling_later = CompileLater(compute_gh, most=1 << 24)


def is_for_numpy(n_rows: int) -> bool:
    """Whether to compute that many rows by numpy."""
    return n_rows <= _MAX_ROWS and _compiling_later.spend(n_rows)


class Addresses:
    """The addresses of arrays, which numpy takes long to tell: they are kept while the arrays are the same."""

    def __init__(self) -> None:
        self._arrays: list[FloatArray] = []  # held, so that no other array is at their addresses
        self._found: IntArray = np.empty(0, np.int64)

    def of(self, arrays: Sequence[FloatArray]) -> IntArray:
        """Return the addresses: int64 (arrays,)."""
        if list(map(id, arrays)) != list(map(id, self._arrays)):
            self._arrays = list(arrays)
            self._found = np.array([array.ctypes.data for array in arrays], dtype=np.int64)
        return self._found


def compute_block(
    program: Program,
    columns: Sequence[FloatArray],
    n_rows: int,
    offsets: FloatArray,
    gh: FloatArray,
    addresses: Addresses,
) -> tuple[FloatArray, FloatArray]:
    """Do what `kernels.compute_gh` does, for the first rows of ``gh``; ``columns`` are their arrays."""
    if is_for_numpy(n_rows):
        return compute_few(program, columns, offsets, gh[:, :n_rows])
    found: tuple[FloatArray, FloatArray] = compute_gh(
        program.for_kernels, program.constants, addresses.of(columns), program.results, 0, n_rows, offsets, gh
    )
    return found


def compute_all(
    program: Program,
    results: IntArray,
    columns: Sequence[FloatArray],
    n_rows: int,
    offsets: FloatArray,
    gh: FloatArray,
    addresses: Addresses,
    workers: Workers,
) -> tuple[FloatArray, FloatArray]:
    """Do what `kernels.compute_gh` does, for the first rows of ``gh``, on threads where that pays.

    ``results`` are those of the program to take.
    """
    count = workers.count(n_rows, ROWS_PER_TASK) if n_rows == gh.shape[1] else 1  # shares are those of all rows
    if count == 1:
        found: tuple[FloatArray, FloatArray] = compute_gh(
            program.for_kernels, program.constants, addresses.of(columns), results, 0, n_rows, offsets, gh
        )
        return found
    largest, totals = np.empty((2, count, len(results)))
    compute_shares(
        workers.team(count), program.for_kernels, program.constants, addresses.of(columns), results, offsets, gh,
        largest, totals,
    )  # fmt: skip
    return largest.max(axis=0), totals.sum(axis=0)  # exact


def compute_few(
    program: Program, columns: Sequence[FloatArray], offsets: FloatArray, gh: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Do what `kernels.compute_gh` does, for all rows of ``columns``, which are arrays here."""
    results = evaluate(program, columns)
    with np.errstate(all="ignore"):
        for k, result in enumerate(results):
            gh[k >> 1, :, k & 1] = (result + offsets[k]) - offsets[k]
        largest = np.array([np.max(np.abs(result), initial=0.0) for result in results])
        return largest, gh.sum(axis=1).ravel()


def evaluate(program: Program, columns: Sequence[FloatArray]) -> list[Any]:
    """Return the program's results, arrays or, where they are the same in every row, numbers."""
    registers: list[Any] = []
    are_given: list[bool] = []  # columns and constants, which are never NaN
    with np.errstate(all="ignore"):
        for (operation, *operands), constant in zip(program.instructions.tolist(), program.constants, strict=True):
            are_given.append(operation in (_COLUMN, _NUMBER))
            if operation == _COLUMN:
                registers.append(columns[operands[0]])
            elif operation == _NUMBER:
                registers.append(constant)
            else:
                function, arity = _FUNCTIONS[operation]
                read = operands[:arity]
                arguments = [registers[each] for each in read]
                if operation in _ORDERED and any(
                    np.isnan(np.min(registers[each], initial=0.0)) for each in read if not are_given[each]
                ):
                    function = _ORDERED[operation]
                registers.append(function(*arguments))
    return [registers[k] for k in program.results]


def _exp(values: Any) -> Any:
    return exp_of(np.atleast_1d(values))


def _ln(values: Any) -> Any:
    return log_of(np.atleast_1d(values))


def _truth(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: function(a, b) * 1.0


def _greatest(a: Any, b: Any) -> Any:
    return np.where(a >= b, a, b)


def _precedes(a: Any, b: Any) -> Any:
    """Return where a < b, NaN being equal to itself and larger than any number, as in polars and DuckDB."""
    return (a < b) | (np.isnan(b) & ~np.isnan(a))


# Name -> the function, and the number of its operands.
_NAMED: Mapping[str, tuple[Callable[..., Any], int]] = {
    "NEG": (np.negative, 1),
    "NOT": (lambda a: 1.0 - a, 1),
    "SIGN": (lambda a: (a > 0.0) * 1.0 - (a < 0.0) * 1.0, 1),
    "EXP": (_exp, 1),
    "LN": (_ln, 1),
    "ABS": (np.abs, 1),
    "SQRT": (np.sqrt, 1),
    "FLOOR": (np.floor, 1),
    "+": (np.add, 2),
    "-": (np.subtract, 2),
    "*": (np.multiply, 2),
    "/": (np.divide, 2),
    "GREATEST": (_greatest, 2),
    "LEAST": (lambda a, b: np.where(a <= b, a, b), 2),
    "<": (_truth(np.less), 2),
    "<=": (_truth(np.less_equal), 2),
    ">": (_truth(np.greater), 2),
    ">=": (_truth(np.greater_equal), 2),
    "=": (_truth(np.equal), 2),
    "<>": (_truth(np.not_equal), 2),
    "AND": (np.multiply, 2),
    "OR": (_greatest, 2),
    "CASE": (lambda condition, then, otherwise: np.where(condition != 0.0, then, otherwise), 3),
}
_FUNCTIONS = {OPCODES[name]: function for name, function in _NAMED.items()}
_COLUMN, _NUMBER = OPCODES["COLUMN"], OPCODES["NUMBER"]
# What takes the place of the functions above where a value is NaN, such as infinity less infinity.
_WITH_NAN: Mapping[str, Callable[[Any, Any], Any]] = {
    "GREATEST": lambda a, b: np.where((a >= b) | np.isnan(b), a, b),
    "LEAST": lambda a, b: np.where((a <= b) | np.isnan(b), a, b),
    "<": _truth(_precedes),
    "<=": _truth(lambda a, b: ~_precedes(b, a)),
    ">": _truth(lambda a, b: _precedes(b, a)),
    ">=": _truth(lambda a, b: ~_precedes(a, b)),
    "=": _truth(lambda a, b: (a == b) | (np.isnan(a) & np.isnan(b))),
    "<>": _truth(lambda a, b: ~((a == b) | (np.isnan(a) & np.isnan(b)))),
}
_ORDERED = {OPCODES[name]: function for name, function in _WITH_NAN.items()}
