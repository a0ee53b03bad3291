"""The kernel of isotonic regression."""

from __future__ import annotations

import numpy as np

from frameboost.runtime.kernel import kernel

__all__ = ["pool_adjacent_violators"]


@kernel
def pool_adjacent_violators(values, weights):  # type: ignore[no-untyped-def]
    """Return the non-decreasing sequence nearest to ``values`` in weighted squares, as blocks.

    Parameters
    ----------
    values, weights
        float64 (n,); weights greater than 0.

    Returns
    -------
    tuple of arrays
        int64 (blocks + 1,): where blocks start, then n; float64 (blocks,): the weighted mean of each (Ayer et al. 1955,
        "An empirical distribution function for sampling with incomplete information").
    """
    n = len(values)
    start = np.empty(n + 1, dtype=np.int64)
    total = np.empty(n)
    weight = np.empty(n)
    count = 0
    for i in range(n):
        start[count], total[count], weight[count] = i, values[i] * weights[i], weights[i]
        count += 1
        while count > 1 and total[count - 2] * weight[count - 1] >= total[count - 1] * weight[count - 2]:
            total[count - 2] += total[count - 1]
            weight[count - 2] += weight[count - 1]
            count -= 1
    start[count] = n
    return start[: count + 1].copy(), total[:count] / weight[:count]
