"""float32 arithmetic of other libraries: thresholds to and from float64, XGBoost's links, shortest decimal texts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from frameboost.schema.types import FeatureType

__all__ = ["as_float32", "float64_thresholds", "log32", "logit32", "nearest_float32", "shortest"]

# The number after the largest float32, if its exponent had one more value: from halfway to it numbers are infinite.
_BEYOND = 2.0**128
_NEAREST_TO_0_AND_1 = np.float32(1e-6)


def float64_thresholds(thresholds: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return T for each threshold t such that ``float32(x) < t`` for the same float64 x as ``x < T``.

    T is the smallest float64 that rounds to t or above. That is the midpoint of t and the float32 before it, if the
    midpoint rounds to t (ties go to the even one); otherwise the float64 after the midpoint. The same holds for
    infinities: 1e300 is infinite as a float32. Nothing is less than NaN, so NaN becomes minus infinity.

    >>> float64_thresholds([0.5, 1.0000001]).tolist()
    [0.4999999850988388, 1.000000059604645]
    """
    t = np.asarray(thresholds, dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        before = np.nextafter(t, np.float32(-np.inf)).astype(np.float64)
    above = np.where(t == np.inf, _BEYOND, t.astype(np.float64))
    midpoint = (np.where(before == -np.inf, -_BEYOND, before) + above) / 2  # exact in float64
    is_even = t.view(np.uint32) % 2 == 0
    found = np.where(is_even, midpoint, np.nextafter(midpoint, np.inf))
    return np.where(np.isnan(t) | (t == -np.inf), -np.inf, found)


def nearest_float32(number: Fraction) -> float:
    """Return the float32 nearest to a number, ties to the greater: the inverse of `float64_thresholds`.

    >>> nearest_float32(Fraction(0.4999999850988388)), nearest_float32(Fraction(10) ** 50)
    (0.5, inf)
    """
    above = FeatureType("float32").at_least(number)
    assert isinstance(above, float)
    with np.errstate(over="ignore"):
        below = float(np.nextafter(np.float32(above), np.float32(-np.inf)))
    middle = (Fraction(max(below, -_BEYOND)) + Fraction(min(above, _BEYOND))) / 2
    return above if number >= middle else below


def as_float32(values: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Return the numbers as float32; those beyond its range become infinite."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(values, dtype=np.float64).astype(np.float32)


def shortest(value: float) -> float:
    """Return the float64 with the shortest text that reads as the float32 nearest to ``value``.

    >>> shortest(0.699999988079071)
    0.7
    """
    return float(str(as_float32(value)[()]))


def logit32(probabilities: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return ln(p / (1 − p)) as XGBoost computes it: p is clipped to a millionth from 0 and from 1."""
    one = np.float32(1)
    kept = np.clip(probabilities, _NEAREST_TO_0_AND_1, one - _NEAREST_TO_0_AND_1)
    return np.asarray(-np.log(one / kept - one), dtype=np.float32)


def log32(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return natural logarithms: minus infinity for 0, NaN for negative numbers."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(values), dtype=np.float32)
