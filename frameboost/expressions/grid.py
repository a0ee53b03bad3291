"""Sums that come out the same in any order.

Float addition is not associative: two engines, two thread counts or two row orders would give sums that differ in
the last bits, and now and then another tree. So every number is put on a grid before it is summed. With n numbers of
magnitude at most M, the grid's step is s = 2^(⌈log2 M⌉ + ⌈log2 n⌉ − 52); each partial sum is then a multiple of s
no larger than 2^52·s, which float64 holds exactly. Sibling = parent − child is exact for the same reason.

Rounding to the grid needs no rounding function, only ``(x + C) − C`` with C = 1.5·2^52·s: x + C lies where neighbouring
float64 are s apart, so the addition itself rounds x to a multiple of s, half to even, in every engine alike.
"""

from __future__ import annotations

import math

__all__ = ["ceil_log2", "grid_offset", "grid_step", "offset_step"]

# Below this exponent the grid would fall among the subnormals, where float64 keeps no relative precision.
_SMALLEST_EXPONENT = -1022
_OFFSET_STEPS = 1.5 * 2.0**52


def ceil_log2(value: float) -> int:
    """Return ⌈log2 value⌉ for a positive finite value, exactly (``math.log2`` may round across a power of two)."""
    mantissa, exponent = math.frexp(value)
    return exponent - 1 if mantissa == 0.5 else exponent


def grid_step(largest: float, count: int) -> float:
    """Return s, the step on which ``count`` numbers of magnitude at most ``largest`` sum exactly in float64.

    ``count`` is taken as at least 4, so that ``x + C`` can't leave the binade of C (see ``grid_offset``).
    """
    if largest == 0.0:
        return 2.0**_SMALLEST_EXPONENT
    exponent = ceil_log2(largest) + ceil_log2(max(count, 4)) - 52
    return 2.0 ** max(exponent, _SMALLEST_EXPONENT)


def grid_offset(largest: float, count: int) -> float:
    """Return C such that ``(x + C) - C`` is x rounded to the nearest multiple of ``grid_step(largest, count)``."""
    return _OFFSET_STEPS * grid_step(largest, count)


def offset_step(offset: float) -> float:
    """Return the step that ``(x + C) - C`` rounds to multiples of."""
    return offset / _OFFSET_STEPS
