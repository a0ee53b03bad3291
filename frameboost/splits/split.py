"""A split of a node, with its sums of gradients, penalties and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["BoolArray", "FloatArray", "IntArray", "Penalties", "Split", "SplitLimits", "Stats"]

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class Stats(NamedTuple):
    """G and H, the sums of gradients and hessians over some rows."""

    G: float
    H: float

    def __sub__(self, other: Stats) -> Stats:
        return Stats(self[0] - other[0], self[1] - other[1])  # by index, which is faster: every split does this twice


@dataclass(frozen=True, slots=True)
class Penalties:
    """The parameters that determine the score of a split: regularisation, and categorical splits."""

    reg_lambda: float
    reg_alpha: float
    max_delta_step: float
    min_child_weight: float
    max_cat_to_onehot: int = 4
    max_cat_threshold: int = 64
    cat_smooth: float = 0.0
    min_child_samples: int = 0

    @property
    def least_rows(self) -> float | None:
        """The minimum number of rows of a child, None if rows need not be counted."""
        return float(self.min_child_samples) if self.min_child_samples > 1 else None


@dataclass(frozen=True, slots=True)
class SplitLimits:
    """The limits on the split of each open node: allowed features, monotone constraints, bounds of the weight.

    Attributes
    ----------
    allowed
        bool (open nodes, features): the features that a node may be split on.
    monotone
        int8 (features,): 1 where weights must not fall from left to right, -1 where they must not rise, else 0.
    bounds
        float64 (open nodes, 2): lower and upper bound of the weight in each node, infinite without constraints.
    """

    allowed: npt.NDArray[np.bool_]
    monotone: npt.NDArray[np.int8]
    bounds: FloatArray

    def bounding(self, max_delta_step: float) -> tuple[npt.NDArray[np.int8], FloatArray] | tuple[None, None]:
        """Return ``monotone`` and ``bounds``, or None for both if no weight is bounded.

        For None numba compiles kernels of half the size, in half the time.
        """
        return (self.monotone, self.bounds) if max_delta_step != 0 or self.monotone.any() else (None, None)


class Split(NamedTuple):
    """The best split of an open node.

    For a numeric feature a row goes left if its code is less than ``bin``, equivalently if ``value < threshold``;
    ``threshold`` is None if ``bin`` is past the last bin, and all non-missing values go left. For a categorical feature
    a row goes opposite to the missing direction if its code is in ``categories`` (see `frameboost.trees.tree.Tree`).

    In a tree for several outputs, ``left`` and ``right`` are sums over the outputs, and ``left_outputs``, float64
    (outputs, 2), are G and H of each output in the left child. In a symmetric tree that counts rows, ``rows`` are the
    numbers of rows of both children.
    """

    feature: int
    gain: float
    left: Stats
    right: Stats
    missing_left: bool
    bin: int = 0
    threshold: float | int | str | None = None
    categories: tuple[int, ...] | None = None
    left_outputs: FloatArray | None = None
    rows: tuple[float, float] | None = None

    def goes_left(self, n_codes: int) -> npt.NDArray[np.bool_]:
        """Return, for each code of the feature (last the missing one), whether its rows go left."""
        left = np.zeros(n_codes, dtype=np.bool_)
        if self.categories is None:
            left[: self.bin] = True
            left[-1] = self.missing_left
        else:
            left[:] = self.missing_left
            left[list(self.categories)] = not self.missing_left
        return left
