"""The kernel that runs `programs` over columns of float64, block by block: an interpreter of vector instructions."""

from __future__ import annotations

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from frameboost.runtime.intrinsics import as_pointer
from frameboost.runtime.kernel import kernel
from frameboost.runtime.team_intrinsics import outlined
from frameboost.runtime.team_kernels import share_out

__all__ = ["INSTRUCTIONS", "compute_pairs", "compute_shares"]

# What an instruction may be, by number. Truth is 1.0, all else that a comparison says is 0.0.
INSTRUCTIONS = (
    "COLUMN", "NUMBER", "NEG", "NOT", "SIGN", "EXP", "LN", "ABS", "SQRT", "FLOOR", "+", "-", "*", "/",
    "GREATEST", "LEAST", "<", "<=", ">", ">=", "=", "<>", "AND", "OR", "CASE",
)  # fmt: skip
# Rows whose registers are in the cache together.
_BLOCK = 512
_MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)  # all bits of a float64 but its sign


@kernel(error_model="numpy")
def _unary(operation, a, out, size):  # type: ignore[no-untyped-def]
    """Write what an operation on one register says."""
    if operation == 2:  # NEG
        for i in range(size):
            out[i] = -a[i]
    elif operation == 3:  # NOT
        for i in range(size):
            out[i] = 1.0 - a[i]
    elif operation == 4:  # SIGN
        for i in range(size):
            out[i] = (a[i] > 0.0) * 1.0 - (a[i] < 0.0) * 1.0
    elif operation == 5:  # EXP
        for i in range(size):
            out[i] = np.exp(a[i])
    elif operation == 6:  # LN
        for i in range(size):
            out[i] = np.log(a[i])
    elif operation == 7:  # ABS
        for i in range(size):
            out[i] = abs(a[i])
    elif operation == 8:  # SQRT
        for i in range(size):
            out[i] = np.sqrt(a[i])
    elif operation == 9:  # FLOOR
        for i in range(size):
            out[i] = np.floor(a[i])


@kernel(error_model="numpy")
def _arithmetic(operation, a, b, out, size):  # type: ignore[no-untyped-def]
    """Write what an operation on two registers says."""
    if operation == 10:  # +
        for i in range(size):
            out[i] = a[i] + b[i]
    elif operation == 11:  # -
        for i in range(size):
            out[i] = a[i] - b[i]
    elif operation == 12:  # *
        for i in range(size):
            out[i] = a[i] * b[i]
    elif operation == 13:  # /
        for i in range(size):
            out[i] = a[i] / b[i]
    elif operation == 14:  # GREATEST
        for i in range(size):
            out[i] = a[i] if a[i] >= b[i] else b[i]
    elif operation == 15:  # LEAST
        for i in range(size):
            out[i] = a[i] if a[i] <= b[i] else b[i]


@kernel(error_model="numpy")
def _compare(operation, a, b, out, size):  # type: ignore[no-untyped-def]
    """Write whether something holds of two registers."""
    if operation == 16:  # <
        for i in range(size):
            out[i] = a[i] < b[i]
    elif operation == 17:  # <=
        for i in range(size):
            out[i] = a[i] <= b[i]
    elif operation == 18:  # >
        for i in range(size):
            out[i] = a[i] > b[i]
    elif operation == 19:  # >=
        for i in range(size):
            out[i] = a[i] >= b[i]
    elif operation == 20:  # =
        for i in range(size):
            out[i] = a[i] == b[i]
    elif operation == 21:  # <>
        for i in range(size):
            out[i] = a[i] != b[i]
    elif operation == 22:  # AND
        for i in range(size):
            out[i] = a[i] * b[i]
    elif operation == 23:  # OR
        for i in range(size):
            out[i] = a[i] if a[i] >= b[i] else b[i]


@kernel(error_model="numpy")
def _run(instructions, addresses, n_rows, start, size, registers):  # type: ignore[no-untyped-def]
    """Fill the registers, float64 (instructions, block), with what they are for the rows from ``start`` on.

    Those of constants hold them already.
    """
    for k in range(len(instructions)):
        operation, first, second, third = instructions[k]
        out = registers[k]
        if operation == 0:
            column = carray(as_pointer(addresses[first]), (n_rows,), np.float64)
            out[:size] = column[start : start + size]
        elif operation == 1:
            continue
        elif operation < 10:
            _unary(operation, registers[first], out, size)
        elif operation < 16:
            _arithmetic(operation, registers[first], registers[second], out, size)
        elif operation < 24:
            _compare(operation, registers[first], registers[second], out, size)
        else:  # CASE
            condition, then, otherwise = registers[first], registers[second], registers[third]
            for i in range(size):
                out[i] = then[i] if condition[i] != 0.0 else otherwise[i]


@kernel
def _largest(values, size, most):  # type: ignore[no-untyped-def]
    """Return the largest magnitude, as the bits of a float64: those are in order, and integers many at a time."""
    bits = values.view(np.int64)
    for i in range(size):
        most = max(most, bits[i] & _MAGNITUDE)
    return most


@kernel
def _put_on_grids(gradients, hessians, offset_g, offset_h, size, pairs):  # type: ignore[no-untyped-def]
    """Write g and h side by side; return their sums."""
    total_g = total_h = 0.0
    for i in range(size):
        g = (gradients[i] + offset_g) - offset_g
        h = (hessians[i] + offset_h) - offset_h
        pairs[i, 0], pairs[i, 1] = g, h
        total_g += g
        total_h += h
    return total_g, total_h


@kernel
def compute_pairs(  # type: ignore[no-untyped-def]
    instructions, constants, addresses, results, first, last, offsets, pairs
):
    """Compute g and h of the rows ``first`` to ``last - 1``, on their grids.

    Parameters
    ----------
    instructions, constants, results
        The program: results are g and h of the first output, then those of the next.
    addresses
        int64: where the columns that it reads are, each float64 (rows,).
    offsets
        float64 (results,): the offset of each result's grid (see `frameboost.expressions.grid`).
    pairs
        float64 (outputs, rows, 2), written.

    Returns
    -------
    float64 array (results,)
        The largest magnitude of each before it was rounded, NaN if one is.
    float64 array (results,)
        The sum of each, exact on its grid.
    """
    n_rows = pairs.shape[1]
    registers = np.empty((len(instructions), _BLOCK))
    for k in range(len(instructions)):
        if instructions[k, 0] == 1:  # NUMBER
            registers[k] = constants[k]
    largest, totals = np.zeros(len(results), dtype=np.int64), np.zeros(len(results))
    for start in range(first, last, _BLOCK):
        size = min(_BLOCK, last - start)
        _run(instructions, addresses, n_rows, start, size, registers)
        for k in range(len(results)):
            largest[k] = _largest(registers[results[k]], size, largest[k])
        for k in range(0, len(results), 2):
            g, h = registers[results[k]], registers[results[k + 1]]
            sums = _put_on_grids(g, h, offsets[k], offsets[k + 1], size, pairs[k >> 1, start:])
            totals[k] += sums[0]
            totals[k + 1] += sums[1]
    return largest.view(np.float64), totals


@kernel
def _compute_share(  # type: ignore[no-untyped-def]
    instructions, constants, addresses, results, offsets, pairs, largest, totals, share
):
    n_rows, count = pairs.shape[1], len(largest)
    first, last = n_rows * share // count, n_rows * (share + 1) // count
    found = compute_pairs(instructions, constants, addresses, results, first, last, offsets, pairs)
    largest[share], totals[share] = found


_computing = outlined(_compute_share)


@kernel
def compute_shares(  # type: ignore[no-untyped-def]
    team, instructions, constants, addresses, results, offsets, pairs, largest, totals
):
    """Do as `compute_pairs` for all rows, a team in shares (see `frameboost.runtime.team_kernels`).

    ``largest`` and ``totals``, float64 (shares, results), are written: what it returns of each share.
    """
    values = (instructions, constants, addresses, results, offsets, pairs, largest, totals)
    share_out(team, _computing(values), len(largest))
