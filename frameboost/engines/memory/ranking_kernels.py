"""The kernel of ranking: sums over the pairs of each query's rows."""

from __future__ import annotations

import numpy as np

from frameboost.runtime.kernel import kernel

__all__ = ["sum_pairs"]


@kernel
def sum_pairs(  # type: ignore[no-untyped-def]
    order, starts, labels, margins, change, first_of_row, second_of_row, relevant, truncation, by_difference, offset,
    first, last, out,
):  # fmt: skip
    """Write the sums over their pairs of the rows of the queries ``first`` to ``last - 1`` (see `Pairs`).

    Parameters
    ----------
    order
        int64 (rows,): row numbers by query, within a query by descending margin.
    starts
        int64 (queries + 1,): where each query starts in ``order``; last, the number of rows.
    labels, margins
        float64 (rows,).
    change
        The weight of a pair: 0 for 1, 1 for the change of NDCG if the two were swapped, 2 for that of MAP.
    first_of_row, second_of_row
        float64 (rows,): for NDCG ``gain_share`` and ``discount``, for MAP ``hits`` and ``credit``.
    relevant
        float64 (rows,): for MAP, how many rows of the query are.
    truncation
        The number of rows at the top of a query that are paired with all rows behind them.
    by_difference
        Whether to divide a weight by the difference of the margins.
    offset
        Rounds sizes and curvatures to a grid: ``(x + offset) - offset``.
    out
        float64 (rows, 3), zero at first, written: ``pair_g``, ``pair_h`` and ``pair_size``.
    """
    for query in range(first, last):
        start = starts[query]
        stop = starts[query + 1]
        divides = by_difference and margins[order[start]] > margins[order[stop - 1]]
        for place_i in range(min(stop - start, truncation)):
            i = order[start + place_i]
            for place_j in range(place_i + 1, stop - start):
                j = order[start + place_j]
                if labels[i] == labels[j]:
                    continue
                weight = 1.0
                if change == 1:
                    weight = abs((first_of_row[i] - first_of_row[j]) * (second_of_row[i] - second_of_row[j]))
                elif change == 2:
                    before_j = second_of_row[j] - labels[j] / (place_j + 1)
                    between = before_j - second_of_row[i]
                    if labels[i] < labels[j]:
                        weight = first_of_row[j] / (place_j + 1) - (first_of_row[i] + 1) / (place_i + 1) - between
                    else:
                        weight = first_of_row[i] / (place_i + 1) - first_of_row[j] / (place_j + 1) + between
                    weight = abs(weight / relevant[i])
                if divides:
                    weight /= abs(margins[i] - margins[j]) + 0.01
                upper, lower = (i, j) if labels[i] > labels[j] else (j, i)
                chance = 1.0 / (1.0 + np.exp(margins[upper] - margins[lower]))
                size = ((chance * weight) + offset) - offset
                curvature = ((2.0 * max(chance * (1.0 - chance), 1e-16) * weight) + offset) - offset
                out[upper, 0] -= size
                out[lower, 0] += size
                out[i, 1] += curvature
                out[j, 1] += curvature
                out[i, 2] += size
                out[j, 2] += size
