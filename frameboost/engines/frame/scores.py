"""The distinct scores of rows as a polars frame, for areas under curves."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import polars as pl

from frameboost.engines.frame.aggregation import aggregated
from frameboost.losses.exact_sums import Aggregate

__all__ = ["ScoreTable"]

_SIDES = ("positive", "negative")


class ScoreTable:
    """What `Engine.by_score` returns, over a frame.

    Parameters
    ----------
    sums
        Each distinct ``score``, and the sums ``positive`` and ``negative`` of its rows, in any order.
    n_rows
        The number of rows.
    above, totals
        The sums of rows with higher scores than all of these, and of all rows, where these are not all scores: by
        ``positive`` and ``negative``.
    """

    def __init__(
        self,
        sums: pl.DataFrame,
        n_rows: int,
        above: Mapping[str, float] | None = None,
        totals: Mapping[str, float] | None = None,
    ) -> None:
        self._sums = sums
        self.n_rows = n_rows
        self._above = above or dict.fromkeys(_SIDES, 0.0)
        self._totals = totals or {side: float(sums[side].sum()) for side in _SIDES}

    @cached_property
    def _steps(self) -> pl.DataFrame:
        """The scores, the highest first, with the sums over the rows above each, and over all."""
        above = [(pl.col(side).cum_sum() - pl.col(side) + self._above[side]).alias(f"{side}_above") for side in _SIDES]
        # As arrays: polars divides by a column that it knows to be constant by way of 1 / constant, which rounds twice.
        totals = [pl.Series(f"{side}_total", np.full(len(self._sums), self._totals[side])) for side in _SIDES]
        return self._sums.sort("score", descending=True).with_columns(*above, *totals)

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """Return aggregates over the distinct scores."""
        return aggregated(self._steps.lazy(), aggregates)
