"""The distinct scores of rows as arrays, for areas under curves: the rows sorted by score, and sums of equal ones.

Scores 0.2, 0.7, 0.2, 0.9 of the labels 1, 1, 0, 0 are in descending order 0.9, 0.7, 0.2. The rows of these that are
positive are 0, 1, 1, those that are negative 1, 0, 1, and above each score are 0, 0, 1 positive ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.engines.contract import Cumulative, QueryWindow
from frameboost.engines.frame import ScoreTable
from frameboost.engines.memory.programs.exact_sums import ExactSums
from frameboost.engines.memory.score_kernels import MAX_CROWDED, group_keys, pack_scores, sum_by_step
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Aggregate, Scalar, exact_sum_in_two
from frameboost.runtime.compile_later import CompileLater
from frameboost.runtime.workers import Workers
from frameboost.splits.split import FloatArray

__all__ = ["ScoreArrays", "ScoreSums", "distinct_scores"]

# By argsort a row takes 70 ns longer, and the kernels a second to compile.
_compiling_later = CompileLater(pack_scores, most=1 << 22)

ScoreSums = dict[tuple[float, float], ExactSums]


class ScoreArrays:
    """What `Engine.by_score` returns, over arrays.

    Parameters
    ----------
    steps
        `distinct_scores`.
    n_rows
        The number of rows.
    workers
        The threads.
    sums
        Where sums keep what they know from round to round, by the totals of both sides.
    """

    def __init__(self, steps: Sequence[FloatArray], n_rows: int, workers: Workers, sums: ScoreSums) -> None:
        self.n_rows = n_rows
        self.terms: dict[str, Scalar | Cumulative | QueryWindow] = {}
        names = ("positive_above", "negative_above", "positive", "negative")
        self._columns: dict[str, FloatArray] = dict(zip(names, steps, strict=True))
        totals = [float(steps[k][-1] + steps[k + 2][-1]) if n_rows else 0.0 for k in (0, 1)]
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
        columns = {side: self._columns[side] for side in ("positive", "negative")}
        columns["score"] = -np.arange(float(len(columns["positive"])))  # in their order, whatever they are
        return ScoreTable(pl.DataFrame(columns), self.n_rows).aggregate(aggregates)


def distinct_scores(score: FloatArray, positive: FloatArray, negative: FloatArray) -> Sequence[FloatArray] | None:
    """Return the sums of both sides above each distinct score, the highest first, then those of it; None if one is NaN.

    Parameters
    ----------
    score, positive, negative
        float64 (rows,), each of the last two on a grid.
    """
    columns = [np.ascontiguousarray(each) for each in (score, positive, negative)]
    if not _compiling_later.spend(len(score)):
        keys = np.empty(len(score), np.int64)
        if pack_scores(columns[0], columns[1], columns[2], keys):
            steps = np.empty((4, len(keys) + 1))
            return list(steps[:, : sum_by_step(_in_order(columns[0], keys), steps)])
    return None if any(np.isnan(each).any() for each in columns) else _by_argsort(*columns)


def _in_order(scores: FloatArray, keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return keys in ascending order of their scores."""
    grouped, crowded = np.empty_like(keys), np.empty((MAX_CROWDED, 2), np.int64)
    n_crowded = group_keys(scores, keys, grouped, crowded)
    if n_crowded < 0:
        keys.sort()
        return keys
    for start, end in crowded[:n_crowded].tolist():
        grouped[start:end].sort()
    return grouped


def _by_argsort(score: FloatArray, positive: FloatArray, negative: FloatArray) -> list[FloatArray]:
    falling = -score
    order = np.argsort(falling)
    falling = falling[order]
    is_last = np.ones(len(order), np.bool_)
    np.not_equal(falling[1:], falling[:-1], out=is_last[:-1])
    last = np.flatnonzero(is_last)
    up_to = [np.cumsum(values[order])[last] for values in (positive, negative)]
    above = [np.append(0.0, total[:-1])[: len(last)] for total in up_to]
    return [*above, *(total - before for total, before in zip(up_to, above, strict=True))]
