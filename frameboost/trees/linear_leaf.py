"""Linear leaves: a leaf's value is a constant plus slopes times numbers of the row, and every sum of them is exact.

A leaf reads a number x on a grid of its own, u = clip(round(x − centre, to a multiple of step), low, high). Say G is
the step of the leaf values: where a slope is a multiple of G / step, the product b·u is a multiple of G. Such products
have no more than 53 bits, so a float64 holds them, and sums of them, exactly: in any order, and whether or not a
processor fuses multiplication and addition. No back end needs to round the value.

The clip bounds what a row may get that lies outside of what the leaf was trained on.

Example: x = 2.3 on a grid of quarters around 2, from −1 to 0.5, is 0.25; with slope 4 and constant 1 the value is 2.

>>> leaf = LinearLeaf(1.0, (LinearTerm(feature=0, slope=4.0, step=0.25, centre=2.0, low=-1.0, high=0.5),))
>>> [leaf.terms[0].on_grid(x) for x in (2.3, 2.4, 7.0, -7.0)]
[0.25, 0.5, 0.5, -1.0]
>>> leaf.value([2.3]), leaf.largest()
(2.0, 5.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from frameboost.errors import ParameterError
from frameboost.schema.types import Feature

__all__ = ["MAX_STEPS", "MAX_TERMS", "LinearLeaf", "LinearTerm", "may_have_slope", "refuse_linear"]

# The most features of a leaf.
MAX_TERMS = 5
# The most steps from the centre of a grid to its ends.
MAX_STEPS = 1 << 21
_OFFSET_STEPS = 1.5 * 2.0**52
_SMALLEST_NORMAL = 2.0**-1022


class LinearTerm(NamedTuple):
    """A slope times a feature of the row.

    Attributes
    ----------
    feature
        The feature's number.
    slope
        What the value grows by where the feature grows by 1.
    step
        The step of the grid that the feature is rounded to, a power of two.
    centre, low, high
        Multiples of the step: where the grid has its zero, and the ends of u.
    """

    feature: int
    slope: float
    step: float
    centre: float
    low: float
    high: float

    @property
    def offset(self) -> float:
        """What is added to a number to round it to the grid (see `frameboost.expressions.grid`)."""
        return _OFFSET_STEPS * self.step

    @property
    def shift(self) -> float:
        """What is then subtracted: the offset and the centre."""
        return self.offset + self.centre

    def on_grid(self, x: float) -> float:
        """Return u of a number."""
        return min(max((x + self.offset) - self.shift, self.low), self.high)

    @property
    def largest(self) -> float:
        """The largest magnitude of slope times u."""
        return abs(self.slope) * max(abs(self.low), abs(self.high))


class LinearLeaf(NamedTuple):
    """The value of a leaf for rows in which none of some features is missing; other rows get the leaf's own value.

    Attributes
    ----------
    constant
        What the slopes add to.
    terms
        The slopes, at least one, each of another feature.
    """

    constant: float
    terms: tuple[LinearTerm, ...]

    def value(self, row: Sequence[float]) -> float:
        """Return the value of a row, by the features' numbers."""
        return self.constant + sum(term.slope * term.on_grid(row[term.feature]) for term in self.terms)

    def largest(self) -> float:
        """Return an upper bound of the magnitude of any sum of the constant and terms."""
        return abs(self.constant) + sum(term.largest for term in self.terms)

    def times(self, factor: float) -> LinearLeaf:
        """Return the leaf with its values times a factor."""
        return LinearLeaf(
            self.constant * factor + 0.0,
            tuple(term._replace(slope=term.slope * factor + 0.0) for term in self.terms),
        )

    def rounded(self, step: float) -> LinearLeaf:
        """Return the leaf with a constant and slopes that make all of its values multiples of ``step``."""
        terms = [
            LinearTerm(each.feature, _nearest(each.slope, max(step / each.step, _SMALLEST_NORMAL)), *each[2:])
            for each in self.terms
        ]
        return LinearLeaf(_nearest(self.constant, step), tuple(terms))


def refuse_linear(what: str, *, is_linear: bool) -> None:
    """Raise `ParameterError` if trees have linear leaves, with which something does not go."""
    if is_linear:
        raise ParameterError(
            f"{what} needs leaves with one value each; this model has slopes in them, as it was trained with "
            "linear_tree=True"
        )


def may_have_slope(feature: Feature) -> bool:
    """Whether leaves may have slopes of the feature: one of floats or of integers that a float64 can tell apart."""
    kind = feature.type
    is_number = kind.is_float or (kind.is_integer and kind.name not in ("int128", "uint128"))
    return is_number and not kind.is_categorical and not feature.zero_is_missing


def _nearest(value: float, step: float) -> float:
    """Return the multiple of ``step``, a power of two, that is nearest to ``value``."""
    return round(value / step) * step + 0.0
