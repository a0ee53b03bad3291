"""The kernel of EXP in vector instructions, with the results of the C library to the last bit.

The C library takes one number at a time. The method is that of the GNU, musl and Android libraries (Szabolcs Nagy,
Arm Optimized Routines, math/exp.c, 2018; Tang 1989): x = k·ln 2/128 + r with an integer k and |r| ≤ ln 2/256, so that
exp(x) = 2^(k/128)·exp(r), the first factor by a table of 128 values and the exponent of a float, the second by a
polynomial. For x = 1, k is 185 = 128 + 57, r is -0.0018, and 2·2^(57/128)·exp(r) is 2·1.3616·0.9982 = 2.718.

Other libraries, and processors without fused multiplication and addition, round otherwise; their own function is called
then (see `frameboost.engines.exact_functions`).
"""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np

from frameboost.runtime.intrinsics import fused
from frameboost.runtime.kernel import kernel

__all__ = ["exponentials"]

_BITS = 7
_COUNT = 1 << _BITS
_SHIFT = float.fromhex("0x1.8p52")  # added to a number, leaves it as an integer in the lower bits
_PER_LN_2 = float.fromhex("0x1.71547652b82fep0") * _COUNT
_HIGH, _LOW = float.fromhex("-0x1.62e42fefa0000p-8"), float.fromhex("-0x1.cf79abc9e3b39p-47")  # -ln 2/128
_C2, _C3 = float.fromhex("0x1.ffffffffffdbdp-2"), float.fromhex("0x1.555555555543cp-3")
_C4, _C5 = float.fromhex("0x1.55555cf172b91p-5"), float.fromhex("0x1.1111167a4d017p-7")
_MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)  # all bits of a float64 but its sign
_TOO_LARGE = np.float64(512.0).view(np.int64)
_PLACE, _EXPONENT = np.uint64(_COUNT - 1), np.uint64(52 - _BITS)


def _table() -> tuple[np.ndarray, np.ndarray]:
    """Return the bits of 2^(i/128), without i in the place where k is added, and what they lack of it."""
    bits, tails = np.empty(_COUNT, np.uint64), np.empty(_COUNT)
    with localcontext() as context:
        context.prec = 50
        for i in range(_COUNT):
            power = Decimal(2) ** (Decimal(i) / _COUNT)
            bits[i] = np.float64(power).view(np.uint64) - (np.uint64(i) << _EXPONENT)
            tails[i] = power / Decimal(float(power)) - 1
    return bits, tails


_POWERS, _TAILS = _table()


@kernel(error_model="numpy")
def exponentials(values, out, size):  # type: ignore[no-untyped-def]
    """Write the exponentials of the first ``size`` values, at most 512 (float64), to ``out``."""
    most = np.int64(0)
    bits = values.view(np.int64)
    for i in range(size):
        most = max(most, bits[i] & _MAGNITUDE)
    if most >= _TOO_LARGE:  # too large for the table, or NaN
        for i in range(size):
            out[i] = np.exp(values[i])
        return
    scales = np.empty(512)
    steps = scales.view(np.uint64)
    for i in range(size):
        scales[i] = fused(_PER_LN_2, values[i], _SHIFT)
    for i in range(size):
        step = steps[i]
        nearest = scales[i] - _SHIFT
        r = fused(nearest, _LOW, fused(nearest, _HIGH, values[i]))
        square, index = r * r, step & _PLACE
        near = fused(square, fused(r, _C3, _C2), _TAILS[index] + r)
        out[i] = fused(square * square, fused(r, _C5, _C4), near)
        steps[i] = _POWERS[index] + (step << _EXPONENT)
    for i in range(size):
        out[i] = fused(scales[i], out[i], scales[i])
