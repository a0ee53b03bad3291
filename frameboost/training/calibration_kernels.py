"""The kernel of isotonic regression: pool adjacent violators."""

from __future__ import annotations

import numpy as np

from frameboost.runtime.kernel import kernel

__all__ = ["pool_adjacent_violators"]


@kernel
def pool_adjacent_violators(values, weights):  # type: ignore[no-untyped-def]
    """Return the non-decreasing sequence with the least weighted squared distance to ``values``, as blocks.

    Example: values 1, 3, 2, 4 with weights 1. The pair 3, 2 decreases, so it is pooled into a block of mean 2.5; the
    blocks start at 0, 1 and 3 and have values 1, 2.5 and 4.

    Parameters
    ----------
    values, weights
        float64 (n,); weights greater than 0.

    Returns
    -------
    tuple of arrays
        int64 (blocks + 1,): the start of each block, then n; float64 (blocks,): the weighted mean of each (Ayer et al.
        1955, "An empirical distribution function for sampling with incomplete information").
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
