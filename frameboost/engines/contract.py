"""What the booster asks of the place where the rows are.

Only small tables cross this boundary: cuts, histograms, splits, leaf values, aggregates. A new engine is one class with
these methods; nothing above it changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from frameboost.binning import Bins
from frameboost.expressions import Expression
from frameboost.schema import Feature

__all__ = [
    "Aggregate",
    "ColumnBlockEngine",
    "Engine",
    "FloatArray",
    "HistogramEngine",
    "Penalties",
    "Split",
    "SplitLimits",
    "Stats",
]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Stats:
    """G and H, the sums of gradients and hessians of some rows."""

    G: float
    H: float

    def __sub__(self, other: Stats) -> Stats:
        return Stats(self.G - other.G, self.H - other.H)


@dataclass(frozen=True, slots=True)
class Penalties:
    """The regularisation that scoring a split needs (the parameters of the same names)."""

    reg_lambda: float
    reg_alpha: float
    max_delta_step: float
    min_child_weight: float


@dataclass(frozen=True, slots=True)
class SplitLimits:
    """What a split of each open node must keep to, besides `Penalties`.

    Attributes
    ----------
    allowed
        bool (open nodes, features): the features that a node may be split on.
    monotone
        int8 (features,): 1 where weights must not fall from left to right, -1 where they must not rise, else 0.
    bounds
        float64 (open nodes, 2): the least and the largest weight in each node, infinite without constraints.
    """

    allowed: npt.NDArray[np.bool_]
    monotone: npt.NDArray[np.int8]
    bounds: FloatArray


@dataclass(frozen=True, slots=True)
class Split:
    """The best split of an open node.

    A row goes left where its bin's code is less than ``bin``, or, for a categorical feature, where its code is in
    ``categories`` if missing goes right and not in it if missing goes left (see `frameboost.tree.Tree`).

    ``threshold`` says the same in the feature's own values; None where ``bin`` is past the last bin (is it present?).
    """

    feature: int
    gain: float
    left: Stats
    right: Stats
    missing_left: bool
    bin: int = 0
    threshold: float | int | str | None = None
    categories: tuple[int, ...] | None = None

    def goes_left(self, n_codes: int) -> npt.NDArray[np.bool_]:
        """Return, for each code of the feature (the missing one, last, too), whether its rows go left."""
        left = np.zeros(n_codes, dtype=np.bool_)
        if self.categories is None:
            left[: self.bin] = True
            left[-1] = self.missing_left
        else:
            left[:] = self.missing_left
            left[list(self.categories)] = not self.missing_left
        return left


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One number over all rows: ``function(expression)``; a sum is NULL-free and 0 over no rows."""

    function: Literal["sum", "min", "max"]
    expression: Expression


class Engine(Protocol):
    """Rows with a label, a weight and features; one tree is grown at a time.

    From `compute_gradients` on, the calls repeat with each tree; `apply_splits` alternates with whatever finds the
    splits.
    """

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features, in order."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """Return aggregates over the columns label, weight and (after `start_margins`) margin, in one pass.

        A NULL or NaN label or weight is NULL; without a weight column, weight is 1. None for an aggregate of no values.
        """

    def count_missing(self) -> list[int]:
        """Return for each feature in how many rows it is missing."""

    def start_margins(self, margin: float) -> None:
        """Set every row's margin."""

    def compute_gradients(self, gradient: Expression, hessian: Expression) -> Stats:
        """Compute g and h of every row from label, margin and weight; return their sums.

        Starts a tree: every row is in node 0.
        """

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """Move the rows of each node to its left or right child: node -> (split, left child, right child)."""

    def add_leaf_values(self, values: Mapping[int, float]) -> None:
        """Add to every row's margin the value of the leaf that it is in."""

    def close(self) -> None:
        """Drop whatever the engine has made; safe to call at any time and more than once."""


class HistogramEngine(Engine, Protocol):
    """An engine that sums gradients by bin (``tree_method="hist"``)."""

    def propose_bins(self, max_bin: int, given: Mapping[int, Bins]) -> list[Bins]:
        """Return the bins of every feature, in order; those of the features in ``given`` as they are."""

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """Store every feature's codes, once."""

    def histograms(self, nodes: Sequence[int]) -> FloatArray:
        """Return the sums of g and h by bin: float64 array (nodes, slots of the `SlotLayout`, 2)."""


class ColumnBlockEngine(Engine, Protocol):
    """An engine that keeps presorted columns, and so can propose a split at every value (``tree_method="exact"``)."""

    def presort(self) -> list[Bins]:
        """Sort every column once; return the features' bins (without cuts: every value is its own bin)."""

    def best_splits(
        self, nodes: Sequence[int], totals: Sequence[Stats], penalties: Penalties, limits: SplitLimits
    ) -> list[Split | None]:
        """Return each node's best split over its allowed features and all values, by one sorted scan of each column."""
