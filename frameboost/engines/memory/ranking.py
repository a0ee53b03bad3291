"""Ranking by a kernel: the sums over the pairs of each query's rows, queries shared between threads."""

from __future__ import annotations

import numpy as np
import polars as pl

from frameboost.engines.frame.ranking import PAIR_SUMS
from frameboost.engines.memory import ranking_kernels
from frameboost.engines.memory.task_sizes import VALUES_PER_TASK
from frameboost.expressions.ranking_terms import Pairs
from frameboost.runtime.workers import Workers

__all__ = ["pair_sums"]

# The kernel's number of the measure that a swap changes, and the columns that it reads for it (``label``: none).
_CHANGES = {
    "pairwise": (0, ("label", "label", "label")),
    "ndcg": (1, ("gain_share", "discount", "label")),
    "map": (2, ("hits", "credit", "relevant")),
}


def pair_sums(rows: pl.LazyFrame, pairs: Pairs, offset: float, workers: Workers) -> pl.DataFrame:
    """Return ``pair_g``, ``pair_h`` and ``pair_size`` of every row (see `Engine.sum_pairs`)."""
    table = rows.select("qid", *pairs.columns).with_row_index("position").collect()
    ranked = table.select("qid", "place", "position").sort("qid", "place")
    starts = np.append(np.flatnonzero(ranked["qid"].rle_id().diff().fill_null(1).to_numpy()), len(table))
    change, names = _CHANGES[pairs.change]
    labels, margins = table["label"].to_numpy(), table["margin"].to_numpy()
    first_of_row, second_of_row, relevant = (table[name].to_numpy() for name in names)
    order, out = ranked["position"].cast(pl.Int64).to_numpy(), np.zeros((len(table), 3))

    def add(first: int, last: int) -> None:
        ranking_kernels.sum_pairs(
            order, starts, labels, margins, change, first_of_row, second_of_row, relevant,
            pairs.truncation, pairs.by_difference, offset, first, last, out,
        )  # fmt: skip

    n_queries = len(starts) - 1
    n_pairs = len(table) * min(pairs.truncation, int(np.diff(starts).max()))
    workers.over(n_queries, add, smallest=n_queries * VALUES_PER_TASK // n_pairs)
    return pl.DataFrame(out + 0.0, schema=PAIR_SUMS)
