"""The distinct scores of rows as arrays, for areas under curves: the rows sorted by score, and sums of equal ones.

Scores 0.2, 0.7, 0.2, 0.9 of the labels 1, 1, 0, 0 are in descending order 0.9, 0.7, 0.2. The rows of these that are
positive are 0, 1, 1, those that are negative 1, 0, 1, and above each score are 0, 0, 1 positive ones.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from frameboost.engines.contract import Cumulative, QueryWindow
from frameboost.engines.frame.scores import ScoreTable
from frameboost.engines.memory.exact_sums import ExactSums
from frameboost.expressions.expression import Expression
from frameboost.losses.exact_sums import Aggregate, Scalar, exact_sum_in_two
from frameboost.runtime.workers import Workers
from frameboost.splits.split import FloatArray

__all__ = ["ScoreArrays", "ScoreSums"]

ScoreSums = dict[tuple[float, float], ExactSums]


class ScoreArrays:
    """What `Engine.by_score` returns, over arrays.

    Parameters
    ----------
    score, positive, negative
        float64 (rows,), each of the last two on a grid; no score is NaN.
    workers
        The threads.
    sums
        Where sums keep what they know from round to round, by the totals of both sides.
    """

    def __init__(
        self, score: FloatArray, positive: FloatArray, negative: FloatArray, workers: Workers, sums: ScoreSums
    ) -> None:
        self.n_rows = len(score)
        self.terms: dict[str, Scalar | Cumulative | QueryWindow] = {}
        falling = -score
        order = np.argsort(falling)
        falling = falling[order]
        is_last = np.ones(len(order), np.bool_)
        np.not_equal(falling[1:], falling[:-1], out=is_last[:-1])
        last = np.flatnonzero(is_last)
        self._score = -falling[last]
        self._columns: dict[str, FloatArray] = {}
        totals = []
        for side, values in (("positive", positive), ("negative", negative)):
            up_to = np.cumsum(values[order])[last]
            above = np.append(0.0, up_to[:-1])[: len(last)]
            self._columns |= {side: up_to - above, f"{side}_above": above}
            totals.append(float(up_to[-1]) if len(last) else 0.0)
        known = {"positive_total": totals[0], "negative_total": totals[1]}
        self._sums = sums.setdefault((totals[0], totals[1]), ExactSums(self.n_rows, workers, known))

    def array(self, name: str) -> FloatArray | None:
        """Return a column; the totals are none, but constants."""
        return self._columns.get(name)

    fixed_version = 0

    def fixed_key(self, _: Scalar) -> None:
        """Say that no expression over scores is the same in every round."""

    def exact_sums(self, terms: Mapping[str, Expression]) -> dict[str, float]:
        """See `SumsAtOnce.exact_sums`."""
        found = self._sums.of(terms, self)
        return exact_sum_in_two(self, terms) if found is None else found

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """Return aggregates over the distinct scores."""
        columns = {"score": self._score, **{side: self._columns[side] for side in ("positive", "negative")}}
        return ScoreTable(pl.DataFrame(columns), self.n_rows).aggregate(aggregates)
