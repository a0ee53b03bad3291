"""Sums over the pairs of each query's rows by a kernel, queries shared between threads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from frameboost.engines.exact_functions import has_exact_exponentials
from frameboost.engines.pairs.pair_kernels import sum_pairs
from frameboost.engines.pairs.queries import Queries
from frameboost.losses.loss import RankingPairs
from frameboost.runtime.task_sizes import VALUES_PER_TASK
from frameboost.runtime.workers import Workers
from frameboost.splits.split import FloatArray

__all__ = ["columns_read", "pair_sums"]

# The kernel's number of the measure that a swap changes, and the columns that it reads for it (``label``: none).
_CHANGES = {
    "pairwise": (0, ("label", "label", "label")),
    "ndcg": (1, ("gain_share", "discount", "label")),
    "map": (2, ("hits", "credit", "relevant")),
}


def columns_read(pairs: RankingPairs) -> tuple[str, ...]:
    """Return the columns that `pair_sums` reads."""
    return ("label", "margin", "rank", *_CHANGES[pairs.change][1])


def pair_sums(
    queries: Queries, columns: Mapping[str, FloatArray], pairs: RankingPairs, offset: float, workers: Workers
) -> FloatArray:
    """Return ``pair_g``, ``pair_h`` and ``pair_size`` of every row, (3, rows) (see `Engine.sum_pairs`)."""
    change, names = _CHANGES[pairs.change]
    first_of_row, second_of_row, relevant = (columns[name] for name in names)
    order, starts, n_rows = queries.by_rank(columns["rank"]), queries.starts, len(queries.rows)
    out = np.empty((3, n_rows))

    def add(first: int, last: int) -> None:
        sum_pairs(
            order, starts, columns["label"], columns["margin"], change, first_of_row, second_of_row, relevant,
            pairs.truncation, pairs.by_difference, has_exact_exponentials(), offset, first, last, out,
        )  # fmt: skip

    n_queries = len(starts) - 1
    n_pairs = n_rows * min(pairs.truncation, int(np.diff(starts).max()))
    workers.over(n_queries, add, smallest=n_queries * VALUES_PER_TASK // n_pairs)
    return out
