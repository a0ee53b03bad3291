"""Row-wise computations, such as gradients and the terms of metrics: SQL expressions compiled to instructions.

On a few thousand rows polars takes longer to plan a query than to run it; a program is planned once per fit. It does
the same float64 operations as polars and SQL, in the same order, so the results agree to the last bit. Functions whose
last bit may differ (powers) and expressions that may be NULL have no program.

The gradient of the logistic loss, ``1 / (1 + EXP(-margin)) - label``, becomes (instruction k writes register k;
operands are registers)::

    0  NUMBER 1.0
    1  COLUMN margin
    2  NEG    1
    3  EXP    2
    4  +      0 3
    5  /      0 4
    6  COLUMN label
    7  -      5 6

The hessian ``p * (1 - p)`` then starts from register 5: equal subexpressions share a register.

`compile_program` writes the instructions. The interpreter, `compute_gh`, is a register machine over blocks of rows.
`evaluate` does the same in numpy, for few rows, because compilation is deferred for small fits (see
`frameboost.runtime.kernel.CompileLater`); a compiled kernel takes a fifth of the time on few rows too. Results are
bitwise equal: both use EXP and LN of the C library, as numpy's SIMD versions differ in the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import carray  # type: ignore[attr-defined]

from frameboost.engines.contract import Cumulative, QueryWindow
from frameboost.engines.elementary import exponentials, has_exact_exponentials, has_exact_logarithms, logarithms
from frameboost.expressions.expression import Expression, case_parts
from frameboost.expressions.grid import Scalar
from frameboost.runtime.intrinsics import as_pointer
from frameboost.runtime.kernel import CompileLater, kernel
from frameboost.runtime.team import outlined, share_out
from frameboost.runtime.workers import ROWS_PER_TASK, Workers
from frameboost.splits.split import FloatArray, IntArray

__all__ = [
    "OPCODES",
    "Addresses",
    "Program",
    "Programs",
    "compile_program",
    "compute_all",
    "compute_block",
    "compute_few",
    "compute_gh",
    "compute_rows",
    "compute_shares",
    "compute_to",
    "evaluate",
    "is_for_numpy",
]


@dataclass(frozen=True)
class Program:
    """Instructions; instruction k writes register k.

    Attributes
    ----------
    columns
        The columns that it reads.
    instructions
        int64 (instructions, 4): one of `OPCODES`, and up to three registers, or the index of a column.
    constants
        float64 (instructions,): the value of each constant.
    results
        int64: the registers of the expressions.
    """

    columns: tuple[str, ...]
    instructions: npt.NDArray[np.int64]
    constants: npt.NDArray[np.float64]
    results: npt.NDArray[np.int64]

    def constant(self, result: int) -> float | None:
        """Return a result that is constant over rows; None for others."""
        register = int(self.results[result])
        is_constant = self.instructions[register, 0] == OPCODES["NUMBER"]
        return float(self.constants[register]) if is_constant else None

    def of_rows(self, columns: FloatArray) -> FloatArray | None:
        """Return the results of a few rows, (rows, results), by the values of the columns, (columns, rows).

        None as long as queries cost less than compiling the kernel.
        """
        if _rows_later.spend(1):
            return None
        results = np.empty((columns.shape[1], len(self.results)))
        compute_rows(self.instructions, self.constants, self.results, columns, results)
        return results

    @cached_property
    def for_kernels(self) -> npt.NDArray[np.int64]:
        """The instructions, with SIMD kernels for EXP and LN if these agree with the C library."""
        instructions = self.instructions.copy()
        for name, are_exact in (("EXP", has_exact_exponentials), ("LN", has_exact_logarithms)):
            is_it = instructions[:, 0] == OPCODES[name]
            if is_it.any() and are_exact():
                instructions[is_it, 0] = OPCODES[f"{name}_AT_ONCE"]
        return instructions


def compile_program(
    expressions: Sequence[Scalar], terms: Mapping[str, Scalar | Cumulative | QueryWindow], known: Mapping[str, float]
) -> Program | None:
    """Compile expressions, or return None if one reads other rows or may be NULL.

    Parameters
    ----------
    expressions
        The expressions.
    terms
        Definitions of the names that are not columns.
    known
        Columns with one value in all rows.
    """
    assembler = _Assembler(terms, known)
    try:
        results = [assembler.value_of(each) for each in expressions]
    except _NotAProgramError:
        return None
    return Program(
        tuple(assembler.columns),
        np.array([instruction for instruction, _ in assembler.registers], dtype=np.int64).reshape(-1, 4),
        np.array([constant for _, constant in assembler.registers], dtype=np.float64),
        np.array(results, dtype=np.int64),
    )


_MAX_PROGRAMS = 256  # of one engine


class Programs:
    """Programs of the expressions of each round, recompiled only if the terms have changed."""

    def __init__(self) -> None:
        self._compiled: dict[tuple[Scalar, ...], tuple[Mapping[str, object], Program | None]] = {}

    def of(
        self, expressions: Sequence[Scalar], terms: Mapping[str, Scalar | Cumulative | QueryWindow],
        known: Mapping[str, float],
    ) -> Program | None:  # fmt: skip
        """Return `compile_program`; ``known`` must be the same in every call."""
        key = tuple(expressions)
        compiled = self._compiled.get(key)
        if compiled is None or compiled[0] != terms:
            if len(self._compiled) == _MAX_PROGRAMS:  # samples have expressions of their own in each round
                del self._compiled[next(iter(self._compiled))]
            compiled = self._compiled[key] = dict(terms), compile_program(expressions, terms, known)
        return compiled[1]


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


# --- the interpreter --------------------------------------------------------------------------------------------------


# By number of operands: `_run` tells the groups apart by their last opcodes. True is 1.0, false 0.0.
_NAMES = (
    "COLUMN", "NUMBER",
    "NEG", "NOT", "SIGN", "EXP", "EXP_AT_ONCE", "LN", "LN_AT_ONCE", "ABS", "SQRT", "FLOOR",
    "+", "-", "*", "/", "GREATEST", "LEAST",
    "<", "<=", ">", ">=", "=", "<>", "AND", "OR",
    "CASE",
)  # fmt: skip
OPCODES = {name: number for number, name in enumerate(_NAMES)}
# The same as constants, which numba compiles into the kernels.
(
    _COLUMN, _NUMBER,
    _NEG, _NOT, _SIGN, _EXP, _EXP_AT_ONCE, _LN, _LN_AT_ONCE, _ABS, _SQRT, _FLOOR,
    _ADD, _SUBTRACT, _MULTIPLY, _DIVIDE, _GREATEST, _LEAST,
    _LESS, _AT_MOST, _MORE, _AT_LEAST, _EQUAL, _UNEQUAL, _AND, _OR,
    _CASE,
) = range(len(_NAMES))  # fmt: skip
_LAST_UNARY, _LAST_ARITHMETIC, _LAST_COMPARISON = _FLOOR, _LEAST, _OR
# Rows in a block: the registers of a program stay in the processor's cache.
_BLOCK = 512
_BYTES = 8  # of a float64
_MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)  # all bits of a float64 but its sign


@kernel(error_model="numpy")
def _unary(operation, a, out, size):  # type: ignore[no-untyped-def]
    """Write the result of an operation on one register."""
    if operation == _NEG:
        for i in range(size):
            out[i] = -a[i]
    elif operation == _NOT:
        for i in range(size):
            out[i] = 1.0 - a[i]
    elif operation == _SIGN:
        for i in range(size):
            out[i] = (a[i] > 0.0) * 1.0 - (a[i] < 0.0) * 1.0
    elif operation == _EXP:
        for i in range(size):
            out[i] = np.exp(a[i])
    elif operation == _EXP_AT_ONCE:
        exponentials(a, out, size)
    elif operation == _LN:
        for i in range(size):
            out[i] = np.log(a[i])
    elif operation == _LN_AT_ONCE:
        logarithms(a, out, size)
    elif operation == _ABS:
        for i in range(size):
            out[i] = abs(a[i])
    elif operation == _SQRT:
        for i in range(size):
            out[i] = np.sqrt(a[i])
    elif operation == _FLOOR:
        for i in range(size):
            out[i] = np.floor(a[i])


@kernel(error_model="numpy")
def _arithmetic(operation, a, b, out, size):  # type: ignore[no-untyped-def]
    """Write the result of an arithmetic operation on two registers."""
    if operation == _ADD:
        for i in range(size):
            out[i] = a[i] + b[i]
    elif operation == _SUBTRACT:
        for i in range(size):
            out[i] = a[i] - b[i]
    elif operation == _MULTIPLY:
        for i in range(size):
            out[i] = a[i] * b[i]
    elif operation == _DIVIDE:
        for i in range(size):
            out[i] = a[i] / b[i]
    elif operation == _GREATEST:
        for i in range(size):
            out[i] = a[i] if (a[i] >= b[i]) | (b[i] != b[i]) else b[i]
    elif operation == _LEAST:
        for i in range(size):
            out[i] = a[i] if (a[i] <= b[i]) | (b[i] != b[i]) else b[i]


@kernel(error_model="numpy")
def _compare(operation, a, b, out, size):  # type: ignore[no-untyped-def]
    """Write the result of a comparison of two registers.

    NaN, such as infinity minus infinity, is equal to itself and larger than any number, as in polars and DuckDB.
    """
    if operation == _LESS:
        for i in range(size):
            out[i] = (a[i] < b[i]) | ((b[i] != b[i]) & (a[i] == a[i]))
    elif operation == _AT_MOST:
        for i in range(size):
            out[i] = (a[i] <= b[i]) | (b[i] != b[i])
    elif operation == _MORE:
        for i in range(size):
            out[i] = (a[i] > b[i]) | ((a[i] != a[i]) & (b[i] == b[i]))
    elif operation == _AT_LEAST:
        for i in range(size):
            out[i] = (a[i] >= b[i]) | (a[i] != a[i])
    elif operation == _EQUAL:
        for i in range(size):
            out[i] = (a[i] == b[i]) | ((a[i] != a[i]) & (b[i] != b[i]))
    elif operation == _UNEQUAL:
        for i in range(size):
            out[i] = (a[i] != b[i]) & ((a[i] == a[i]) | (b[i] == b[i]))
    elif operation == _AND:
        for i in range(size):
            out[i] = a[i] * b[i]
    elif operation == _OR:
        for i in range(size):
            out[i] = a[i] if a[i] >= b[i] else b[i]


@kernel(error_model="numpy")
def _run(instructions, addresses, start, size, registers):  # type: ignore[no-untyped-def]
    """Execute the program for ``size`` rows from ``start``: instruction k writes register k.

    ``registers`` is float64 (instructions, block). The caller fills the registers of constants.
    """
    for k in range(len(instructions)):
        operation, first, second, third = instructions[k]
        out = registers[k]
        if operation == _COLUMN:
            column = carray(as_pointer(addresses[first] + _BYTES * start), (size,), np.float64)
            for i in range(size):
                out[i] = column[i]
        elif operation == _NUMBER:
            continue
        elif operation <= _LAST_UNARY:
            _unary(operation, registers[first], out, size)
        elif operation <= _LAST_ARITHMETIC:
            _arithmetic(operation, registers[first], registers[second], out, size)
        elif operation <= _LAST_COMPARISON:
            _compare(operation, registers[first], registers[second], out, size)
        else:
            condition, then, otherwise = registers[first], registers[second], registers[third]
            for i in range(size):
                out[i] = then[i] if condition[i] != 0.0 else otherwise[i]


@kernel
def _largest(values, size, most):  # type: ignore[no-untyped-def]
    """Return the largest magnitude as the bits of a float64, ordered as integers: the loop compiles to SIMD."""
    bits = values.view(np.int64)
    for i in range(size):
        most = max(most, bits[i] & _MAGNITUDE)
    return most


@kernel
def _round(values, offset, size, out):  # type: ignore[no-untyped-def]
    """Round to the grid of an offset (see `frameboost.expressions.grid`)."""
    for i in range(size):
        out[i] = (values[i] + offset) - offset


@kernel(fastmath={"reassoc"})
def _total(values, size):  # type: ignore[no-untyped-def]
    """Return the sum of values on a grid, which is exact in any order, so the compiler may use SIMD instructions."""
    total = 0.0
    for i in range(size):
        total += values[i]
    return total


@kernel
def _put_side_by_side(gradients, hessians, size, gh):  # type: ignore[no-untyped-def]
    """Write g and h as pairs, float64 (2 rows,). Indices are unsigned: numba checks signed ones at each access."""
    for i in range(np.uint64(size)):
        at = i << np.uint64(1)
        gh[at], gh[at + np.uint64(1)] = gradients[i], hessians[i]


@kernel
def compute_to(  # type: ignore[no-untyped-def]
    instructions, constants, addresses, results, first, last, offsets, gh, at
):
    """Do the work of `compute_gh`, but write the pairs of row ``first`` to row ``at``, and so on."""
    n_rows, flat = gh.shape[1], gh.reshape(-1)
    registers, rounded = np.empty((len(instructions), _BLOCK)), np.empty((2, _BLOCK))
    for k in range(len(instructions)):
        if instructions[k, 0] == _NUMBER:
            registers[k] = constants[k]
    largest, totals = np.zeros(len(results), dtype=np.int64), np.zeros(len(results))
    for start in range(first, last, _BLOCK):
        size = min(_BLOCK, last - start)
        _run(instructions, addresses, start, size, registers)
        for k in range(len(results)):
            largest[k] = _largest(registers[results[k]], size, largest[k])
            _round(registers[results[k]], offsets[k], size, rounded[k & 1])
            totals[k] += _total(rounded[k & 1], size)
            if k & 1:
                written = flat[2 * ((k >> 1) * n_rows + at + start - first) :]
                _put_side_by_side(rounded[0], rounded[1], size, written)
    return largest.view(np.float64), totals


@kernel
def compute_gh(  # type: ignore[no-untyped-def]
    instructions, constants, addresses, results, first, last, offsets, gh
):
    """Compute g and h of the rows ``first`` to ``last - 1``, rounded to their grids.

    Parameters
    ----------
    instructions, constants, results
        The program; its results are g and h of the first output, then of the next, and so on.
    addresses
        int64: the addresses of the columns that it reads, each float64 (rows,).
    offsets
        float64 (results,): the offset of each result's grid (see `frameboost.expressions.grid`).
    gh
        float64 (outputs, rows, 2), written.

    Returns
    -------
    float64 array (results,)
        The largest magnitude of each result before rounding, NaN if one is NaN.
    float64 array (results,)
        The exact sum of each result.
    """
    return compute_to(instructions, constants, addresses, results, first, last, offsets, gh, first)


@kernel
def _compute_share(  # type: ignore[no-untyped-def]
    instructions, constants, addresses, results, offsets, gh, largest, totals, share
):
    n_rows, count = gh.shape[1], len(largest)
    first, last = n_rows * share // count, n_rows * (share + 1) // count
    of_share = compute_gh(instructions, constants, addresses, results, first, last, offsets, gh)
    for k in range(len(results)):  # slices that are assigned to take numba a second to compile, for their messages
        largest[share, k], totals[share, k] = of_share[0][k], of_share[1][k]


_computing = outlined(_compute_share)


@kernel
def compute_shares(  # type: ignore[no-untyped-def]
    team, instructions, constants, addresses, results, offsets, gh, largest, totals
):
    """Call `compute_gh` on shares of all rows, in a team (see `frameboost.runtime.team`).

    ``largest`` and ``totals``, float64 (shares, results), are written: the results of each share.
    """
    values = (instructions, constants, addresses, results, offsets, gh, largest, totals)
    share_out(team, _computing(values), len(largest))


@kernel(error_model="numpy")
def compute_rows(instructions, constants, results, columns, out):  # type: ignore[no-untyped-def]
    """Compute a program row by row: for few rows, a twentieth of the time to compile `compute_gh`.

    Parameters
    ----------
    instructions, constants, results
        The program.
    columns
        float64 (columns, rows): what it reads.
    out
        float64 (rows, results), written.
    """
    registers = np.empty(len(instructions))
    for row in range(columns.shape[1]):
        for k in range(len(instructions)):
            operation, first, second, third = instructions[k]
            value = constants[k]
            if operation == _COLUMN:
                value = columns[first, row]
            elif operation != _NUMBER:
                a, b = registers[first], registers[second]
                if operation == _NEG:
                    value = -a
                elif operation == _NOT:
                    value = 1.0 - a
                elif operation == _SIGN:
                    value = (a > 0.0) * 1.0 - (a < 0.0) * 1.0
                elif operation == _EXP:
                    value = np.exp(a)
                elif operation == _LN:
                    value = np.log(a)
                elif operation == _ABS:
                    value = abs(a)
                elif operation == _SQRT:
                    value = np.sqrt(a)
                elif operation == _FLOOR:
                    value = np.floor(a)
                elif operation == _ADD:
                    value = a + b
                elif operation == _SUBTRACT:
                    value = a - b
                elif operation in (_MULTIPLY, _AND):
                    value = a * b
                elif operation == _DIVIDE:
                    value = a / b
                # NaN is equal to itself and larger than any number (see `_compare`).
                elif operation in (_GREATEST, _OR):
                    value = a if a >= b or b != b else b
                elif operation == _LEAST:
                    value = a if a <= b or b != b else b
                elif operation == _LESS:
                    value = (a < b or (b != b and a == a)) * 1.0
                elif operation == _AT_MOST:
                    value = (a <= b or b != b) * 1.0
                elif operation == _MORE:
                    value = (a > b or (a != a and b == b)) * 1.0
                elif operation == _AT_LEAST:
                    value = (a >= b or a != a) * 1.0
                elif operation == _EQUAL:
                    value = (a == b or (a != a and b != b)) * 1.0
                elif operation == _UNEQUAL:
                    value = (a != b and (a == a or b == b)) * 1.0
                else:
                    value = b if a != 0.0 else registers[third]
            registers[k] = value
        for k in range(len(results)):
            out[row, k] = registers[results[k]]


@kernel
def exp_of(values):  # type: ignore[no-untyped-def]
    """Return e to the power of each value, float64 (values,), by the C library as `compute_gh` does."""
    results = np.empty(len(values))
    for i in range(len(values)):
        results[i] = np.exp(values[i])
    return results


@kernel(error_model="numpy")
def log_of(values):  # type: ignore[no-untyped-def]
    """Return the natural logarithm of each value, float64 (values,), by the C library as `compute_gh` does."""
    results = np.empty(len(values))
    for i in range(len(values)):
        results[i] = np.log(values[i])
    return results


# --- programs on few rows, by numpy -----------------------------------------------------------------------------------


# A call for more rows compiles the kernel at once.
_MAX_ROWS = 1 << 18
# In numpy a row takes about 40 ns longer, and the kernel takes five seconds to compile.
_compiling_later = CompileLater(compute_gh, most=1 << 24)
# A query takes some 0.1 ms, and the kernel half a second to compile.
_rows_later = CompileLater(compute_rows, most=1 << 11)


def is_for_numpy(n_rows: int) -> bool:
    """Whether to compute that many rows in numpy."""
    return n_rows <= _MAX_ROWS and _compiling_later.spend(n_rows)


class Addresses:
    """A cache of array addresses, as reading them from numpy is slow."""

    def __init__(self) -> None:
        self._arrays: list[FloatArray] = []  # held, so that no other array is at their addresses
        self._addresses: IntArray = np.empty(0, np.int64)

    def of(self, arrays: Sequence[FloatArray]) -> IntArray:
        """Return the addresses: int64 (arrays,)."""
        if list(map(id, arrays)) != list(map(id, self._arrays)):
            self._arrays = list(arrays)
            self._addresses = np.array([array.ctypes.data for array in arrays], dtype=np.int64)
        return self._addresses


def compute_block(
    program: Program,
    columns: Sequence[FloatArray],
    n_rows: int,
    offsets: FloatArray,
    gh: FloatArray,
    addresses: Addresses,
) -> tuple[FloatArray, FloatArray]:
    """Do the work of `compute_gh` for the first rows of ``gh``; ``columns`` are the arrays."""
    if is_for_numpy(n_rows):
        return compute_few(program, columns, offsets, gh[:, :n_rows])
    largest_and_sums: tuple[FloatArray, FloatArray] = compute_gh(
        program.for_kernels, program.constants, addresses.of(columns), program.results, 0, n_rows, offsets, gh
    )
    return largest_and_sums


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
    """Do the work of `compute_gh` for the first rows of ``gh``, on threads if that pays off.

    ``results`` are the results of the program to compute.
    """
    count = workers.count(n_rows, ROWS_PER_TASK) if n_rows == gh.shape[1] else 1  # shares are those of all rows
    if count == 1:
        largest_and_sums: tuple[FloatArray, FloatArray] = compute_gh(
            program.for_kernels, program.constants, addresses.of(columns), results, 0, n_rows, offsets, gh
        )
        return largest_and_sums
    largest, totals = np.empty((2, count, len(results)))
    compute_shares(
        workers.team(count), program.for_kernels, program.constants, addresses.of(columns), results, offsets, gh,
        largest, totals,
    )  # fmt: skip
    return largest.max(axis=0), totals.sum(axis=0)  # exact


def compute_few(
    program: Program, columns: Sequence[FloatArray], offsets: FloatArray, gh: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Do the work of `compute_gh` for all rows of ``columns``, which are arrays here."""
    results = evaluate(program, columns)
    with np.errstate(all="ignore"):
        for k, result in enumerate(results):
            gh[k >> 1, :, k & 1] = (result + offsets[k]) - offsets[k]
        largest = np.array([np.max(np.abs(result), initial=0.0) for result in results])
        return largest, gh.sum(axis=1).ravel()


def evaluate(program: Program, columns: Sequence[FloatArray]) -> list[Any]:
    """Return the program's results: arrays, or numbers for results that are constant over rows."""
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
    """Return where a < b; NaN is equal to itself and larger than any number, as in polars and DuckDB."""
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
