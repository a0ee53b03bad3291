"""EXP and LN in SIMD instructions, bitwise equal to the C library, which SQL and polars use.

The C library computes one number per call. The algorithms are those of the GNU, musl and Android libraries (Szabolcs
Nagy, Arm Optimized Routines, math/exp.c and math/log.c, 2018; Tang 1989).

EXP: x = k·ln 2/128 + r with an integer k and |r| ≤ ln 2/256, so that exp(x) = 2^(k/128)·exp(r), the first factor by a
table of 128 values and the exponent of a float, the second by a polynomial. For x = 1, k is 185 = 128 + 57, r is
-0.0018, and 2·2^(57/128)·exp(r) is 2·1.3616·0.9982 = 2.718.

LN: x = 2^k·z with z from 0.6875 to 1.375, in one of 128 intervals; with c near its middle, ln x = k·ln 2 + ln c +
ln(1 + r), where r = z/c − 1, the last by a polynomial. Near 1, where these terms would cancel, it is a longer
polynomial in x − 1, whose first two terms are added up in two parts. For x = 3, k is 2 and z is 0.75:
2·0.6931 − 0.2877 = 1.0986.

Other libraries, and processors without fused multiply-add, round differently; there, the C library is called (see
`has_exact_exponentials`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import cache
from typing import Any

import numpy as np

from frameboost.runtime.intrinsics import fused
from frameboost.runtime.kernel import kernel
from frameboost.splits.split import FloatArray

__all__ = ["exponentials", "has_exact_exponentials", "has_exact_logarithms", "logarithms"]


# --- EXP --------------------------------------------------------------------------------------------------------------


_EXP_BITS = 7
_EXP_COUNT = 1 << _EXP_BITS
_SHIFT = float.fromhex("0x1.8p52")  # added to a number, leaves it as an integer in the lower bits
_PER_LN_2 = float.fromhex("0x1.71547652b82fep0") * _EXP_COUNT
_EXP_HIGH, _EXP_LOW = float.fromhex("-0x1.62e42fefa0000p-8"), float.fromhex("-0x1.cf79abc9e3b39p-47")  # -ln 2/128
_C2, _C3 = float.fromhex("0x1.ffffffffffdbdp-2"), float.fromhex("0x1.555555555543cp-3")
_C4, _C5 = float.fromhex("0x1.55555cf172b91p-5"), float.fromhex("0x1.1111167a4d017p-7")
_MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)  # all bits of a float64 but its sign
_TOO_LARGE = np.float64(512.0).view(np.int64)
_EXP_PLACE, _EXP_EXPONENT = np.uint64(_EXP_COUNT - 1), np.uint64(52 - _EXP_BITS)


def _exp_table() -> tuple[np.ndarray, np.ndarray]:
    """Return the bits of 2^(i/128), without i in the place where k is added, and what they lack of it."""
    bits, tails = np.empty(_EXP_COUNT, np.uint64), np.empty(_EXP_COUNT)
    with localcontext() as context:
        context.prec = 50
        for i in range(_EXP_COUNT):
            power = Decimal(2) ** (Decimal(i) / _EXP_COUNT)
            bits[i] = np.float64(power).view(np.uint64) - (np.uint64(i) << _EXP_EXPONENT)
            tails[i] = power / Decimal(float(power)) - 1
    return bits, tails


_POWERS, _TAILS = _exp_table()


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
        r = fused(nearest, _EXP_LOW, fused(nearest, _EXP_HIGH, values[i]))
        square, index = r * r, step & _EXP_PLACE
        near = fused(square, fused(r, _C3, _C2), _TAILS[index] + r)
        out[i] = fused(square * square, fused(r, _C5, _C4), near)
        steps[i] = _POWERS[index] + (step << _EXP_EXPONENT)
    for i in range(size):
        out[i] = fused(scales[i], out[i], scales[i])


# --- LN ---------------------------------------------------------------------------------------------------------------


_LN_COUNT = 128
_WIDTH = np.int64(1 << 45)  # of an interval, in bits of a float64
_START = np.int64(0x3FE6000000000000)  # the bits of 0.6875
_NEAR, _NEAR_WIDTH = np.int64(0x3FEE000000000000), np.int64(0x308FFFFFFFFFF)  # of 1 − 2⁻⁴, and from there to 1 + 0.0647
_MIN_NORMAL, _INFINITY = np.int64(1 << 52), np.int64(0x7FF0000000000000)  # bits of these
_LN_PLACE, _LN_EXPONENT = np.int64(_LN_COUNT - 1), np.int64(-1 << 52)
_LN_HIGH, _LN_LOW = float.fromhex("0x1.62e42fefa3800p-1"), float.fromhex("0x1.ef35793c76730p-45")  # ln 2
_A0, _A1 = float.fromhex("-0x1.0000000000001p-1"), float.fromhex("0x1.555555551305bp-2")
_A2, _A3 = float.fromhex("-0x1.fffffffeb4590p-3"), float.fromhex("0x1.999b324f10111p-3")
_A4 = float.fromhex("-0x1.55575e506c89fp-3")
_B0, _B1 = float.fromhex("-0x1p-1"), float.fromhex("0x1.5555555555577p-2")
_B2, _B3 = float.fromhex("-0x1.ffffffffffdcbp-3"), float.fromhex("0x1.999999995dd0cp-3")
_B4, _B5 = float.fromhex("-0x1.55555556745a7p-3"), float.fromhex("0x1.24924a344de30p-3")
_B6, _B7 = float.fromhex("-0x1.fffffa4423d65p-4"), float.fromhex("0x1.c7184282ad6cap-4")
_B8, _B9 = float.fromhex("-0x1.999eb43b068ffp-4"), float.fromhex("0x1.78182f7afd085p-4")
_B10 = float.fromhex("-0x1.5521375d145cdp-4")
_SPLIT = float(1 << 27)
# How many floats 1/c is above the inverse of the middle of each interval: there ln c is almost exactly a multiple of
# 2⁻⁴³, as which it is stored.
_STEPS = (
    -23142382, -57643754, -234334839, -124664804, 19045012, -123323398, -501163255, 342479926, -234593306, 57421184,
    513617488, -240891478, 85169741, 28659150, 284053799, 342563057, -68420459, -346144712, -90113766, -464022980,
    285342708, -489548825, 376054848, 47397812, -423637851, -260988534, 336107021, 448241578, 154177355, 447893384,
    241227555, -420636714, -218426730, -96876684, -205835218, -368178198, -345128710, -510284502, 481763731,
    209336112, 429336310, 15489329, 442353177, -417834330, 73183371, 515232680, 507984536, 83787275, 330409952,
    151596684, 377744204, 198302857, 214798271, -345957716, 356163107, 215510022, -229897960, -131709726, 215213618,
    -464519207, -332821996, 385780520, -400344786, 256208139, 478356527, 345720337, 128466877, 217515751,
    -162048343, 295127580, -235892775, -69369347, 93666841, -272860130, 91915174, 29018059, 258893229, 386009280,
    -241633007, 68399381, 386341370, 408940642, 65060217, -120872168, 189498853, -32395328, -49955913, 154042178,
    -346113480, 148348366, -396488327, -427431396, 107119491, -500798201, 212184347, 305888811, -330297730,
    -91422864, 6707636, 273897542, -512931067, -500150233, 485589437, -280752730, 106848032, 30953893, -291342514,
    -408884927, 149302919, -107851081, 225432558, 460497078, -452391632, -490679353, 508304210, 493208081,
    336502878, 526975298, -457361038, -312310462, -365194252, -421357131, 362015322, 310793228, -441535439,
    -69145545, -528727990, 433364383,
)  # fmt: skip


def _ln_table() -> tuple[np.ndarray, np.ndarray]:
    """Return 1/c and ln c of each interval."""
    edges = (_START + _WIDTH * np.arange(_LN_COUNT + 1)).view(np.float64)
    inverses = ((1.0 / ((edges[:-1] + edges[1:]) / 2.0)).view(np.int64) + np.array(_STEPS)).view(np.float64)
    logarithms = np.empty(_LN_COUNT)
    with localcontext() as context:
        context.prec = 50
        for i in range(_LN_COUNT):
            logarithms[i] = round(-Decimal(float(inverses[i])).ln() * 2**43) / 2**43
    return inverses, logarithms


_INVERSES, _LOGARITHMS = _ln_table()


@kernel(error_model="numpy")
def logarithms(values, out, size):  # type: ignore[no-untyped-def]
    """Write the natural logarithms of the first ``size`` values, at most 512 (float64), to ``out``."""
    bits, least, most = values.view(np.int64), _MIN_NORMAL, np.int64(0)
    for i in range(size):
        least, most = min(least, bits[i]), max(most, bits[i])
    if least < _MIN_NORMAL or most >= _INFINITY:  # not positive, not finite, or too small for a whole exponent
        for i in range(size):
            out[i] = np.log(values[i])
        return
    scaled = np.empty(512)
    scaled_bits = scaled.view(np.int64)
    for i in range(size):
        scaled_bits[i] = bits[i] - ((bits[i] - _START) & _LN_EXPONENT)
    for i in range(size):
        from_start = bits[i] - _START
        index, k = np.uint64((from_start >> 45) & _LN_PLACE), np.float64(np.int32(from_start >> 52))
        r = fused(scaled[i], _INVERSES[index], -1.0)
        high = fused(k, _LN_HIGH, _LOGARITHMS[index])
        most_of_it = high + r
        square = r * r
        rest = fused(square, _A0, fused(k, _LN_LOW, high - most_of_it + r))
        out[i] = fused(r * square, fused(fused(r, _A4, _A3), square, fused(r, _A2, _A1)), rest) + most_of_it
    for i in range(size):
        r = values[i] - 1.0
        square = r * r
        cube = r * square
        tail = fused(cube, _B10, fused(square, _B9, fused(r, _B8, _B7)))
        tail = fused(tail, cube, fused(square, _B6, fused(r, _B5, _B4)))
        tail = fused(tail, cube, fused(square, _B3, fused(r, _B2, _B1)))
        front = fused(-_SPLIT, r, fused(r, _SPLIT, r))  # r rounded to 26 bits, so that its square is exact
        half = front * front
        most_of_it = fused(half, _B0, r)
        rest = fused(_B0 * (r - front), r + front, fused(half, _B0, r - most_of_it))
        near = most_of_it + fused(tail, cube, rest)
        is_near = (bits[i] >= _NEAR) & (bits[i] - _NEAR <= _NEAR_WIDTH)
        out[i] = near if is_near else out[i]


# --- whether these are the C library's --------------------------------------------------------------------------------


@cache
def has_exact_exponentials() -> bool:
    """Whether `exponentials` agrees with the C library on 16,384 numbers, on some of which others differ."""
    return _agree(exponentials, math.exp, np.linspace(-40.0, 40.0, 32 * 512))


@cache
def has_exact_logarithms() -> bool:
    """Whether `logarithms` agrees with the C library on as many numbers, of all magnitudes and near 1."""
    return _agree(logarithms, math.log, np.append(np.geomspace(1e-40, 1e40, 16 * 512), np.linspace(0.5, 1.5, 16 * 512)))


def _agree(kernel: Callable[..., Any], function: Callable[[float], float], values: FloatArray) -> bool:
    out = np.empty(512)
    for block in values.reshape(-1, 512):
        kernel(block, out, 512)
        if out.tolist() != [function(x) for x in block.tolist()]:
            return False
    return True
