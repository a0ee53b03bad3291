"""The interpreter of gradient programs: vector instructions on blocks of 512 rows, in float64."""

from __future__ import annotations

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from frameboost.engines.exponential_kernels import exponentials
from frameboost.engines.logarithm_kernels import logarithms
from frameboost.runtime.intrinsics import as_pointer
from frameboost.runtime.kernel import kernel
from frameboost.runtime.team_intrinsics import outlined
from frameboost.runtime.team_kernels import share_out

__all__ = ["OPCODES", "compute_gh", "compute_shares", "compute_to", "exp_of", "log_of"]

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
    """Write the truth of a comparison of two registers.

    NaN, such as infinity less infinity, is equal to itself and larger than any number, as in polars and DuckDB.
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
    """Execute the program for ``size`` rows from ``start`` on: instruction k writes register k.

    ``registers`` is float64 (instructions, block). Those of constants are filled already.
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
    """Return the largest magnitude as the bits of a float64, whose order is that of integers: those vectorise."""
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
    """Return the sum of values on a grid: exact in any order, so the compiler may add up many at a time."""
    total = 0.0
    for i in range(size):
        total += values[i]
    return total


@kernel
def _put_side_by_side(gradients, hessians, size, gh):  # type: ignore[no-untyped-def]
    """Write g and h as pairs, float64 (2 rows,). Indices are unsigned: others are checked at each access."""
    for i in range(np.uint64(size)):
        at = i << np.uint64(1)
        gh[at], gh[at + np.uint64(1)] = gradients[i], hessians[i]


@kernel
def compute_to(  # type: ignore[no-untyped-def]
    instructions, constants, addresses, results, first, last, offsets, gh, at
):
    """Do what `compute_gh` does, but write the pairs of the row ``first`` to the row ``at``, and so on."""
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
    """Call `compute_gh` on shares of all rows, in a team (see `frameboost.runtime.team_kernels`).

    ``largest`` and ``totals``, float64 (shares, results), are written: what it returns for each share.
    """
    values = (instructions, constants, addresses, results, offsets, gh, largest, totals)
    share_out(team, _computing(values), len(largest))


@kernel
def exp_of(values):  # type: ignore[no-untyped-def]
    """Return e to the power of each value, float64 (values,), by the C library as `compute_gh` does."""
    found = np.empty(len(values))
    for i in range(len(values)):
        found[i] = np.exp(values[i])
    return found


@kernel(error_model="numpy")
def log_of(values):  # type: ignore[no-untyped-def]
    """Return the natural logarithm of each value, float64 (values,), by the C library as `compute_gh` does."""
    found = np.empty(len(values))
    for i in range(len(values)):
        found[i] = np.log(values[i])
    return found
