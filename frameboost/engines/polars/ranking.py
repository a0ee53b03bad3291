"""Ranking by positions: the pairs of each query's rows as two arrays of row numbers, computed with polars expressions.

Rows are put in order by query, label and place, so that the partners of a row are a range for each other label. A query
with the labels 1, 0, 0, 1 by place, of which the first two rows are paired with those behind them::

    position   0  1  2  3
    label      0  0  1  1
    place      1  2  0  3

The row at place 0 has the label 1 and the partners 0 to 1; that at place 1 has the label 0, and of the positions 2 to 3
only 3 is behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from frameboost.engines.frame.ranking import PAIR_SUMS
from frameboost.expressions.ranking_terms import Pairs
from frameboost.losses.exact_sums import Rounded
from frameboost.splits.split import FloatArray, IntArray

__all__ = ["pair_sums"]

# About as many pairs are computed at a time: their columns stay in the cache.
_PAIRS_AT_ONCE = 1 << 17
# With fewer rows to a label of a query, partners are all rows behind, and pairs of equal labels count nothing.
_FEWEST_OF_A_LABEL = 4


def pair_sums(rows: pl.LazyFrame, pairs: Pairs, offset: float) -> pl.DataFrame:
    """Return ``pair_g``, ``pair_h`` and ``pair_size`` of every row."""
    table = rows.select("qid", *pairs.columns).collect()
    order, ranked = _in_order(*(table[name].to_numpy() for name in ("qid", "label", "place")))
    columns = {name: table[name].to_numpy()[order] for name in pairs.columns}
    size, curvature = Rounded(pairs.size, offset), Rounded(pairs.curvature, offset)
    wanted = [size.to_polars().alias("size"), curvature.to_polars().alias("curvature")]
    used = [
        f"{name}_{side}" for side in "ij" for name in pairs.columns
        if pairs.size.uses(f"{name}_{side}") or pairs.curvature.uses(f"{name}_{side}")
    ]  # fmt: skip
    sums = np.zeros((len(PAIR_SUMS), len(order)))
    for first, partner, counts in ranked.ranges(pairs.truncation):
        starts = np.cumsum(counts) - counts
        j = np.arange(counts.sum()) + np.repeat(partner - starts, counts)
        # To repeat a row's number takes less time than to look it up for each pair.
        table = pl.DataFrame({
            name: np.repeat(columns[name[:-2]][first], counts) if name.endswith("_i") else columns[name[:-2]][j]
            for name in used
        })  # fmt: skip
        label_i, label_j = (table[name].to_numpy() for name in ("label_i", "label_j"))
        # The streaming engine computes what the two have in common once.
        of_pair = [column.to_numpy() for column in table.lazy().select(wanted).collect(engine="streaming")]
        if not ranked.by_label:
            of_pair = [np.where(label_i == label_j, 0.0, values) for values in of_pair]
        pull = np.where(label_i > label_j, -of_pair[0], of_pair[0])
        lowest = int(j.min())
        for total, of_i, of_j in zip(sums, (pull, *of_pair[::-1]), (-pull, *of_pair[::-1]), strict=True):
            np.add.at(total, first, np.add.reduceat(of_i, starts))
            there = np.bincount(j - lowest, of_j)
            total[lowest : lowest + len(there)] += there
    out = np.empty_like(sums)
    out[:, order] = sums
    # Adding 0.0 turns -0.0 into 0.0: which of the two a sum of zeros is depends on the order of its terms.
    return pl.DataFrame(dict(zip(PAIR_SUMS, out + 0.0, strict=True)))


@dataclass(frozen=True, slots=True)
class _Runs:
    """Rows in the order of their runs: the rows of a query, or those of one label in it, by place.

    Attributes
    ----------
    query, run, place
        Of each row; numbers of queries and runs ascend.
    by_label
        Whether each label of a query is a run.
    """

    query: IntArray
    run: IntArray
    place: IntArray
    by_label: bool

    def ranges(self, truncation: int) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Yield rows of the first places, the first partner of each, and the number of partners, some at a time.

        Partners of a row are the rows behind it in a run of its query, but for its own run of a label. The row is there
        once for each such run.
        """
        numbers, ends = self._numbered()
        n_rows_of, n_runs_of = np.bincount(self.query), np.bincount(self.query[ends - 1])
        first_run_of = np.cumsum(n_runs_of) - n_runs_of
        stride = int(self.place.max()) + 1
        keys = numbers * stride + self.place
        (top,) = np.nonzero(self.place < truncation)
        at_most = np.cumsum(n_rows_of[self.query[top]])
        parts = np.searchsorted(at_most, np.arange(_PAIRS_AT_ONCE, at_most[-1], _PAIRS_AT_ONCE))
        for some in np.split(top, parts):
            query = self.query[some]
            n_runs = n_runs_of[query]
            row = np.repeat(some, n_runs)
            run = np.arange(len(row)) + np.repeat(first_run_of[query] - np.cumsum(n_runs) + n_runs, n_runs)
            if self.by_label:
                is_other = run != numbers[row]
                row, run = row[is_other], run[is_other]
            partner = np.searchsorted(keys, run * stride + self.place[row], side="right")
            counts = ends[run] - partner
            found = counts > 0
            if found.any():
                yield row[found], partner[found], counts[found]

    def _numbered(self) -> tuple[IntArray, IntArray]:
        """Return the number of each row's run, from 0 without gaps, and where each run ends."""
        is_last = np.append(np.diff(self.run) > 0, True)
        return np.cumsum(is_last) - is_last, np.flatnonzero(is_last) + 1


def _in_order(qid: IntArray, label: FloatArray, place: FloatArray) -> tuple[IntArray, _Runs]:
    """Return the order of the rows by query, label and place, or by query and place, and the rows in that order."""
    query, places = qid - qid.min(), place.astype(np.int64)
    n_queries, stride = int(query.max()) + 1, int(places.max()) + 1
    labels, codes = np.unique(label, return_inverse=True)
    by_label = len(labels) * n_queries * _FEWEST_OF_A_LABEL <= len(qid)
    run = query * len(labels) + codes if by_label else query
    order = np.argsort(run * stride + places)
    return order, _Runs(query[order], run[order], places[order], by_label)
