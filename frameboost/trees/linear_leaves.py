"""Linear leaves: a constant plus slopes times features of the row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from frameboost.errors import ParameterError
from frameboost.expressions.grid import OFFSET_STEPS, on_steps
from frameboost.schema.types import Feature

__all__ = ["MAX_STEPS", "MAX_TERMS", "LinearColumns", "LinearLeaf", "LinearTerm", "may_have_slope", "refuse_linear"]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

# The most features of a leaf.
MAX_TERMS = 6
# The most steps from the centre of a grid to its ends.
MAX_STEPS = 1 << 21
_SMALLEST_NORMAL = 2.0**-1022
_NO_FEATURE = -1


class LinearTerm(NamedTuple):
    """A slope times a feature of the row.

    Attributes
    ----------
    feature
        The feature's number.
    slope
        The change of the value when the feature grows by 1.
    step
        The step of the grid that the feature is rounded to, a power of two.
    centre, low, high
        Multiples of the step: the zero of the grid, and the range of u.
    """

    feature: int
    slope: float
    step: float
    centre: float
    low: float
    high: float

    @property
    def offset(self) -> float:
        """The number to add to round to the grid (see `frameboost.expressions.grid`)."""
        return OFFSET_STEPS * self.step

    @property
    def shift(self) -> float:
        """The number to subtract then: the offset plus the centre."""
        return self.offset + self.centre

    def on_grid(self, x: float) -> float:
        """Return u for a number."""
        return min(max((x + self.offset) - self.shift, self.low), self.high)

    @property
    def largest(self) -> float:
        """The largest magnitude of slope times u."""
        return abs(self.slope) * max(abs(self.low), abs(self.high))


class LinearLeaf(NamedTuple):
    """The value of a leaf for rows without missing values in its terms; other rows get the leaf's plain value.

    Every sum of constants and terms is exact. A leaf reads a number x on a separate grid, u = clip(round(x − centre, to
    a multiple of step), low, high). Let G be the step of leaf values: if a slope b is a multiple of G / step, the
    product b·u is a multiple of G. Such products have at most 53 bits, so float64 holds them and their sums exactly, in
    any order, with or without fused multiply-add, and no back end needs rounding. The clip limits extrapolation.

    x = 2.3 on a grid of quarters around 2, from −1 to 0.5, is 0.25; with slope 4 and constant 1 the value is 2:

    >>> leaf = LinearLeaf(1.0, (LinearTerm(feature=0, slope=4.0, step=0.25, centre=2.0, low=-1.0, high=0.5),))
    >>> [leaf.terms[0].on_grid(x) for x in (2.3, 2.4, 7.0, -7.0)]
    [0.25, 0.5, 0.5, -1.0]
    >>> leaf.value([2.3]), leaf.largest()
    (2.0, 5.0)

    Attributes
    ----------
    constant
        The constant.
    terms
        The slopes, at least one, of distinct features.
    """

    constant: float
    terms: tuple[LinearTerm, ...]

    def value(self, row: Sequence[float]) -> float:
        """Return the value of a row, from its features."""
        return self.constant + sum(term.slope * term.on_grid(row[term.feature]) for term in self.terms)

    def largest(self) -> float:
        """Return an upper bound of the magnitude of any partial sum of the constant and terms."""
        return abs(self.constant) + sum(term.largest for term in self.terms)


@dataclass(frozen=True, eq=False)
class LinearColumns:
    """Linear leaves as arrays.

    Attributes
    ----------
    node
        int64 (leaves,): the indices.
    constant
        float64 (leaves,).
    feature
        int64 (leaves, `MAX_TERMS`): the feature of each term, -1 past the last one.
    terms
        float64 (leaves, `MAX_TERMS`, 5): slope, step, centre, low and high; 0 with a step of 1 past the last term.
    """

    node: IntArray
    constant: FloatArray
    feature: IntArray
    terms: FloatArray

    def __len__(self) -> int:
        return len(self.node)

    @classmethod
    def of(cls, leaves: Mapping[int, LinearLeaf]) -> LinearColumns:
        """Return the arrays of leaves by index."""
        terms = [term for leaf in leaves.values() for term in leaf.terms]
        node, sizes, feature = (np.array(list(each), np.int64) for each in (
            leaves, (len(leaf.terms) for leaf in leaves.values()), (term.feature for term in terms)
        ))  # fmt: skip
        constant = np.array([leaf.constant for leaf in leaves.values()], np.float64)
        return cls.of_sizes(node, constant, sizes, feature, np.array([term[1:] for term in terms]).reshape(-1, 5))

    @classmethod
    def of_sizes(
        cls, node: IntArray, constant: FloatArray, sizes: IntArray, feature: IntArray, terms: FloatArray
    ) -> LinearColumns:
        """Return leaves with consecutive terms, ``sizes`` of them each."""
        padded = (
            np.full((len(node), MAX_TERMS), _NO_FEATURE),
            np.tile([0.0, 1.0, 0.0, 0.0, 0.0], (len(node), MAX_TERMS, 1)),
        )
        for all_terms, values in zip(padded, (feature, terms), strict=True):
            all_terms[np.arange(MAX_TERMS) < sizes[:, None]] = values
        return cls(node, constant, *padded)

    @classmethod
    def joined(cls, parts: Sequence[LinearColumns | None], starts: Sequence[int]) -> LinearColumns | None:
        """Return the leaves of all parts, with indices counted from ``starts``; None if no part has any."""
        some = [(part, start) for part, start in zip(parts, starts, strict=False) if part]
        if not some:
            return None
        if len(some) == 1 and some[0][1] == 0:
            return some[0][0]
        node, others = np.concatenate([part.node + start for part, start in some]), fields(cls)[1:]
        return cls(node, *(np.concatenate([getattr(part, each.name) for part, _ in some]) for each in others))

    def leaves(self) -> dict[int, LinearLeaf]:
        """Return the leaves by index."""
        of_leaves = zip(self.sizes().tolist(), self.feature.tolist(), self.terms.tolist(), strict=True)
        terms = [tuple([LinearTerm(feature, *each) for feature, each in zip(features[:size], numbers, strict=False)])
                 for size, features, numbers in of_leaves]  # fmt: skip
        return dict(zip(self.node.tolist(), map(LinearLeaf, self.constant.tolist(), terms), strict=True))

    def among(self, node: IntArray, value: FloatArray) -> LinearColumns:
        """Return all leaves of a tree from their numbers, ascending, and plain values; others have no terms."""
        constant, feature = value.copy(), np.full((len(node), MAX_TERMS), _NO_FEATURE)
        terms = np.zeros((len(node), *self.terms.shape[1:]))
        at = np.searchsorted(node, self.node)
        constant[at], feature[at], terms[at] = self.constant, self.feature, self.terms
        return LinearColumns(node, constant, feature, terms)

    def sizes(self) -> IntArray:
        """Return the number of terms of each leaf, int64 (leaves,)."""
        sizes: IntArray = np.count_nonzero(self.feature != _NO_FEATURE, axis=1)
        return sizes

    def read_terms(self) -> FloatArray:
        """Return float64 (leaves, `MAX_TERMS`, 5): slope, offset, shift, low and high (see `LinearTerm`)."""
        read = self.terms.copy()
        read[..., 1] *= OFFSET_STEPS
        read[..., 2] += read[..., 1]
        return read

    def largest(self) -> FloatArray:
        """Return `LinearLeaf.largest` of each leaf, float64 (leaves,)."""
        slope, _, _, low, high = np.moveaxis(self.terms, -1, 0)
        with np.errstate(over="ignore"):
            of_terms = np.abs(slope) * np.maximum(np.abs(low), np.abs(high))
            sums: FloatArray = np.abs(self.constant) + sum(of_terms.T)  # in one order everywhere, unlike `numpy.sum`
        return sums

    def is_same(self, other: LinearColumns) -> bool:
        """Whether the same nodes have the same leaves."""
        return all(np.array_equal(getattr(self, each.name), getattr(other, each.name)) for each in fields(self))

    def times(self, factor: float) -> LinearColumns:
        """Return the leaves with their values times a factor."""
        return replace(
            self, constant=self.constant * factor + 0.0, terms=self._with_slopes(self.terms[..., 0] * factor)
        )

    def rounded(self, step: FloatArray | float) -> LinearColumns:
        """Return the leaves with values that are multiples of ``step``, (leaves,) or one."""
        step = np.broadcast_to(step, len(self))
        with np.errstate(over="ignore"):
            of_slopes = np.maximum(step[:, None] / self.terms[..., 1], _SMALLEST_NORMAL)
        terms = self._with_slopes(on_steps(self.terms[..., 0], of_slopes))
        return replace(self, constant=on_steps(self.constant, step), terms=terms)

    def _with_slopes(self, slopes: FloatArray) -> FloatArray:
        return np.concatenate([slopes[..., None] + 0.0, self.terms[..., 1:]], axis=-1)


def refuse_linear(what: str, *, is_linear: bool) -> None:
    """Raise `ParameterError` if trees have linear leaves, which ``what`` does not support."""
    if is_linear:
        raise ParameterError(f"{what} needs constant leaves; this model has linear leaves (linear_tree=True)")


def may_have_slope(feature: Feature) -> bool:
    """Whether linear leaves may read the feature: floats, or integers that are exact in float64."""
    kind = feature.type
    is_number = kind.is_float or (kind.is_integer and kind.name not in ("int128", "uint128"))
    return is_number and not kind.is_categorical and not feature.zero_is_missing
