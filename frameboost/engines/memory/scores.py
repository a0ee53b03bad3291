"""The distinct scores of rows as arrays, for areas under curves: rows sorted by score, with sums by score.

Example: the scores 0.2, 0.7, 0.2, 0.9 of the labels 1, 1, 0, 0 are 0.9, 0.7, 0.2 in descending order. They have 0, 1, 1
positive rows and 1, 0, 1 negative rows, and 0, 0, 1 positive rows have higher scores.

Nonnegative floats are ordered as their bits, and those below 2 leave one bit free for the class of the row. These
integers are sorted by their leading bits first, into buckets of few rows. That takes a third of the time of a
comparison sort and a tenth of that of an `argsort` of the scores, without a gather afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.engines.contract import Cumulative, QueryWindow
from frameboost.engines.frame import ScoreTable
from frameboost.engines.memory.terms import ExactSums
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Aggregate, Scalar, exact_sum_in_two
from frameboost.runtime.kernel import CompileLater, kernel
from frameboost.runtime.workers import Workers
from frameboost.splits.split import FloatArray

__all__ = ["MAX_CROWDED", "ScoreArrays", "ScoreSums", "distinct_scores", "group_keys", "pack_scores", "sum_by_step"]


ScoreSums = dict[tuple[float, float], ExactSums]


class ScoreArrays:
    """The result of `Engine.by_score`, over arrays.

    Parameters
    ----------
    steps, score
        The result of `distinct_scores`, and the scores.
    n_rows
        The number of rows.
    workers
        The threads.
    sums
        The state of sums between rounds, by the totals of both sides.
    """

    def __init__(
        self, steps: Sequence[FloatArray], score: FloatArray, n_rows: int, workers: Workers, sums: ScoreSums
    ) -> None:  # fmt: skip
        self.n_rows, self._score = n_rows, score
        self.terms: dict[str, Scalar | Cumulative | QueryWindow] = {}
        names = ("positive_above", "negative_above", "positive", "negative")
        self._columns: dict[str, FloatArray] = dict(zip(names, steps, strict=True))
        totals = [float(steps[k][-1] + steps[k + 2][-1]) if n_rows else 0.0 for k in (0, 1)]
        known = {"positive_total": totals[0], "negative_total": totals[1]}
        self._sums = sums.setdefault((totals[0], totals[1]), ExactSums(self.n_rows, workers, known))

    def array(self, name: str) -> FloatArray | None:
        """Return a column; totals are constants, not columns."""
        return self._columns.get(name)

    fixed_version = 0

    def fixed_key(self, _: Scalar) -> None:
        """Return None: no expression over scores is constant over rounds."""

    def exact_sums(self, terms: Mapping[str, Expression]) -> dict[str, float]:
        """See `SumsAtOnce.exact_sums`."""
        sums = self._sums.of(terms, self)
        return exact_sum_in_two(self, terms) if sums is None else sums

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """Return aggregates over the distinct scores."""
        columns = {side: self._columns[side] for side in ("positive", "negative")}
        columns["score"] = np.unique(self._score)[::-1]
        return ScoreTable(pl.DataFrame(columns), self.n_rows).aggregate(aggregates)


def distinct_scores(score: FloatArray, positive: FloatArray, negative: FloatArray) -> Sequence[FloatArray] | None:
    """Return sums of both sides above, then at, each distinct score, in descending order; None if a score is NaN.

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


# --- kernels ----------------------------------------------------------------------------------------------------------


_BUCKET_BITS = 17
# The maximum rows of a bucket for an insertion sort; many of them are equal.
_FEW = 64
# How many crowded buckets there is room for.
MAX_CROWDED = 256
# Powers of two of the odds beyond which scores are in the first or the last bucket.
_FURTHEST = np.int64(40) << 52


@kernel(error_model="numpy")
def pack_scores(scores, positive, negative, keys):  # type: ignore[no-untyped-def]
    """Write an integer for each row, the lowest for the highest score, with the class of the row in the last bit.

    Parameters
    ----------
    scores, positive, negative
        float64 (rows,).
    keys
        int64 (rows,), written.

    Returns
    -------
    bool
        Whether all scores are at least 0 and below 2, and each row is 1 on one side and 0 on the other.
    """
    bits = scores.view(np.int64)
    others = np.int64(0)
    for row in range(len(keys)):
        is_of_one = ((positive[row] == 1.0) & (negative[row] == 0.0)) | (
            (positive[row] == 0.0) & (negative[row] == 1.0)
        )
        others |= (bits[row] >> 62) | np.int64(not is_of_one)
        keys[row] = ~((bits[row] << 1) | np.int64(positive[row] == 1.0))
    return others == 0


# By argsort a row takes 70 ns longer, and the kernels a second to compile.
_compiling_later = CompileLater(pack_scores, most=1 << 22)


@kernel(inline="always")
def _odds(bits, score, rest):  # type: ignore[no-untyped-def]
    """Return about 2^52 times the binary logarithm of the odds of a score, computed from the bits of it and of 1 - it.

    The bits of a float are approximately its logarithm. Buckets of equal width in log odds hold about equally many
    rows, also for rare classes. The result is monotone in the score under any rounding.
    """
    rest[0] = max(1.0 - score, 0.0)
    return min(max(bits - rest.view(np.int64)[0], -_FURTHEST), _FURTHEST)


@kernel
def group_keys(scores, keys, grouped, crowded):  # type: ignore[no-untyped-def]
    """Write the keys in ascending order, except in buckets with many rows of different scores.

    Example: the scores 0.1, 0.9, 0.6 and 0.89 have odds of about 2^-3.2, 2^3.2, 2^0.6 and 2^3. Of four buckets over
    this range, the first (highest scores) has the second and fourth row, the next the third, the last the first.

    Parameters
    ----------
    scores
        float64 (rows,): at least 0 and below 2.
    keys
        int64 (rows,): what `pack_scores` writes.
    grouped
        int64 (rows,), written.
    crowded
        int64 (256, 2), written: the start and end of each bucket still to be sorted.

    Returns
    -------
    int64
        The number of these buckets; -1 if there are too many.
    """
    bits, rest = scores.view(np.int64), np.empty(1)
    lowest, highest = _FURTHEST, -_FURTHEST
    for row in range(len(keys)):
        odds = _odds(bits[row], scores[row], rest)
        lowest, highest = min(lowest, odds), max(highest, odds)
    shift = np.int64(0)
    while (highest - lowest) >> shift >= 1 << _BUCKET_BITS:
        shift += 1
    ends = np.zeros((1 << _BUCKET_BITS) + 1, np.int64)
    for row in range(len(keys)):
        ends[((highest - _odds(bits[row], scores[row], rest)) >> shift) + 1] += 1
    for bucket in range(1 << _BUCKET_BITS):
        ends[bucket + 1] += ends[bucket]
    for row in range(len(keys)):  # the start of each bucket moves to its end
        bucket = (highest - _odds(bits[row], scores[row], rest)) >> shift
        grouped[ends[bucket]] = keys[row]
        ends[bucket] += 1
    return _sort_buckets(grouped, ends, crowded)


@kernel
def _sort_buckets(grouped, ends, crowded):  # type: ignore[no-untyped-def]
    """Sort the buckets of few rows, and write the ranges of the others; return their number, -1 for too many."""
    n_crowded, start = 0, np.int64(0)
    for bucket in range(1 << _BUCKET_BITS):
        end = ends[bucket]
        if end - start <= _FEW:
            for at in range(start + 1, end):
                key, to = grouped[at], at
                while to > start and grouped[to - 1] > key:
                    grouped[to] = grouped[to - 1]
                    to -= 1
                grouped[to] = key
        else:
            others = np.int64(0)
            for at in range(start, end):
                others |= (grouped[at] ^ grouped[start]) >> 1
            if others:  # the order of rows of one score does not matter
                if n_crowded == len(crowded):
                    return -1
                crowded[n_crowded, 0], crowded[n_crowded, 1] = start, end
                n_crowded += 1
        start = end
    return n_crowded


@kernel
def sum_by_step(keys, steps):  # type: ignore[no-untyped-def]
    """Write the class counts above and at each distinct score, in descending order.

    Parameters
    ----------
    keys
        int64 (rows,): what `pack_scores` writes, in ascending order of the scores.
    steps
        float64 (4, rows + 1), written: positive and negative rows above each score, positive and negative rows at it.

    Returns
    -------
    int64
        The number of distinct scores.
    """
    count = positives = np.int64(0)
    last = np.int64(1)  # which no key is
    for row in range(len(keys)):
        key = keys[row]
        if key >> 1 != last:
            last = key >> 1
            steps[0, count], steps[1, count] = positives, row - positives
            count += 1
        positives += ~key & 1
    steps[0, count], steps[1, count] = positives, len(keys) - positives
    for step in range(count):
        steps[2, step] = steps[0, step + 1] - steps[0, step]
        steps[3, step] = steps[1, step + 1] - steps[1, step]
    return count
