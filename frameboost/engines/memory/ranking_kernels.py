"""The kernel of ranking: sums over the pairs of each query's rows."""

from __future__ import annotations

import numpy as np

from frameboost.engines.memory.exponential_kernels import exponentials
from frameboost.runtime.kernel import kernel

__all__ = ["sum_pairs"]


# Each step is a loop over all partners of one row, so that it becomes vector instructions. ``rows`` has
# labels, margins and the two columns of the change, by place.


@kernel(error_model="numpy")
def _pair(place, count, rows, paired, signs, powers, room, at_once):  # type: ignore[no-untyped-def]
    """Write the places behind that have another label, 1 or -1 for pairs in or out of order, and EXP of the margins.

    ``room`` is overwritten.

    Returns
    -------
    int64
        Their number.
    """
    label, margin, size = rows[0, place], rows[1, place], 0
    for other in range(place + 1, count):
        paired[size] = other
        size += rows[0, other] != label
    for k in range(size):
        signs[k] = 1.0 if label > rows[0, paired[k]] else -1.0
    for k in range(size):
        room[k] = (margin - rows[1, paired[k]]) * signs[k]
    if at_once:
        for k in range(0, size, 512):
            exponentials(room[k:], powers[k:], min(512, size - k))
    else:
        for k in range(size):
            powers[k] = np.exp(room[k])
    return size


@kernel(error_model="numpy")
def _weigh(place, size, rows, paired, change, relevant, divides, weights):  # type: ignore[no-untyped-def]
    """Write the weight of each pair."""
    label, margin, first, second = rows[0, place], rows[1, place], rows[2, place], rows[3, place]
    if change == 0:
        weights[:size] = 1.0
    elif change == 1:
        for k in range(size):
            weights[k] = abs((first - rows[2, paired[k]]) * (second - rows[3, paired[k]]))
    else:
        for k in range(size):
            other = paired[k]
            hits, at, at_other = rows[2, other], place + 1, other + 1
            between = (rows[3, other] - rows[0, other] / at_other) - second
            if label < rows[0, other]:
                weight = hits / at_other - (first + 1) / at - between
            else:
                weight = first / at - hits / at_other + between
            weights[k] = abs(weight / relevant)
    if divides:
        for k in range(size):
            weights[k] /= abs(margin - rows[1, paired[k]]) + 0.01


@kernel(error_model="numpy")
def _add(place, size, paired, signs, powers, weights, offset, sums):  # type: ignore[no-untyped-def]
    """Add each pair's numbers to the sums of both of its rows."""
    g = h = total = 0.0
    for k in range(size):
        chance, weight, other = 1.0 / (1.0 + powers[k]), weights[k], paired[k]
        pull = ((chance * weight) + offset) - offset
        curvature = ((2.0 * max(chance * (1.0 - chance), 1e-16) * weight) + offset) - offset
        g += signs[k] * pull
        h += curvature
        total += pull
        sums[0, other] += signs[k] * pull
        sums[1, other] += curvature
        sums[2, other] += pull
    sums[0, place] -= g
    sums[1, place] += h
    sums[2, place] += total


@kernel
def sum_pairs(  # type: ignore[no-untyped-def]
    order, starts, labels, margins, change, first_of_row, second_of_row, relevant, truncation, by_difference, at_once,
    offset, first, last, out,
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
    at_once
        Whether `exponentials` takes the place of EXP.
    offset
        Rounds sizes and curvatures to a grid: ``(x + offset) - offset``.
    out
        float64 (rows, 3), written: ``pair_g``, ``pair_h`` and ``pair_size``.
    """
    longest = 0
    for query in range(first, last):
        longest = max(longest, starts[query + 1] - starts[query])
    rows, sums = np.empty((4, longest)), np.empty((3, longest))
    paired = np.empty(longest, dtype=np.int64)
    signs, powers, weights = np.empty(longest), np.empty(longest), np.empty(longest)
    for query in range(first, last):
        start, count = starts[query], starts[query + 1] - starts[query]
        for place in range(count):
            row = order[start + place]
            rows[0, place], rows[1, place] = labels[row], margins[row]
            rows[2, place], rows[3, place] = first_of_row[row], second_of_row[row]
            sums[0, place] = sums[1, place] = sums[2, place] = 0.0
        divides = by_difference and rows[1, 0] > rows[1, count - 1]
        for place in range(min(count, truncation)):
            size = _pair(place, count, rows, paired, signs, powers, weights, at_once)
            _weigh(place, size, rows, paired, change, relevant[order[start + place]], divides, weights)
            _add(place, size, paired, signs, powers, weights, offset, sums)
        for place in range(count):
            row = order[start + place]
            out[row, 0], out[row, 1], out[row, 2] = sums[0, place], sums[1, place], sums[2, place]
