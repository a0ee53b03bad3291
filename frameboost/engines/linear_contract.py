"""The contract of an engine whose leaves may have slopes (``linear_tree=True``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from frameboost.engines.contract import HistogramEngine
from frameboost.splits.split import FloatArray
from frameboost.trees.tree import LinearLeaf, LinearTerm

__all__ = ["LeafGrid", "LinearEngine", "linear_role", "sums_of_terms"]


@dataclass(frozen=True, slots=True)
class LeafGrid:
    """The grids on which the sums of a leaf's products are exact.

    Attributes
    ----------
    g_offset, h_offset
        Of g and of h (see `frameboost.expressions.grid`).
    terms
        The features, on grids of their own: ``u`` of each is `LinearTerm.on_grid` of a row's number.
    """

    g_offset: float
    h_offset: float
    terms: tuple[LinearTerm, ...]


class LinearEngine(HistogramEngine, Protocol):
    """A `HistogramEngine` with the roles ``x_0``, ``x_1``, ... (see `linear_role`): leaves may have slopes of these.

    A leaf's rows are here those with h > 0 in which none of its features is missing.
    """

    def leaf_ranges(self, features: Mapping[int, Sequence[int]]) -> dict[int, FloatArray]:
        """Return for each leaf: its number of rows, the largest |g| and h, then the least and largest of each feature.

        ``features`` are those of each leaf; a leaf without rows may be left out.
        """

    def leaf_sums(self, grids: Mapping[int, LeafGrid]) -> dict[int, FloatArray]:
        """Return sums of each leaf: g, h, then g·u and h·u of each term, then h·u·u of each pair of terms.

        The pairs are (0, 0), (0, 1), (1, 1), (0, 2), ...; all numbers are on their grids, and so no sum rounds.
        """

    def add_linear_leaves(self, values: Mapping[int, float], linear: Mapping[int, LinearLeaf], margin: str) -> None:
        """Do what `add_leaf_values` does; rows of linear leaves that lack no number get the linear value."""


def linear_role(feature: int | str) -> str:
    """Return the role of a feature that leaves may have slopes of; of ``""`` what these roles begin with."""
    return f"x_{feature}"


def sums_of_terms(values: FloatArray, most: int, n_terms: int) -> FloatArray:
    """Return the sums of a leaf's first ``n_terms`` terms out of those of ``most`` (see `LinearEngine.leaf_sums`).

    >>> import numpy as np
    >>> sums_of_terms(np.array([0, 1, 20, 21, 30, 31, 400, 410, 411]), 2, 1).tolist()
    [0, 1, 20, 30, 400]
    """
    of_terms = [2 + side * most + k for side in (0, 1) for k in range(n_terms)]
    products = range(2 + 2 * most, 2 + 2 * most + n_terms * (n_terms + 1) // 2)
    return values[[0, 1, *of_terms, *products]]
