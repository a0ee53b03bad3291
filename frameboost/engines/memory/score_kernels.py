"""Kernels of areas under curves: probabilities and classes as integers, which numpy sorts fastest, and sums by score.

The bits of floats of 0 or more are ordered as the floats are, and those below 2 leave room for one more bit: whether
the row is positive. A sort of such integers takes a third of an `argsort` of the scores, and nothing is gathered after
it.
"""

from __future__ import annotations

import numpy as np

from frameboost.runtime.kernel import kernel

__all__ = ["pack_scores", "sum_by_step"]


@kernel(error_model="numpy")
def pack_scores(scores, positive, negative, keys):  # type: ignore[no-untyped-def]
    """Write an integer for each row, the lowest for the highest score, with the row's class in its last bit.

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


@kernel
def sum_by_step(keys, steps):  # type: ignore[no-untyped-def]
    """Write the rows of each distinct score, the highest first: those above it and its own, by class.

    Parameters
    ----------
    keys
        int64 (rows,): what `pack_scores` writes, in ascending order.
    steps
        float64 (4, rows + 1), written: positive and negative rows above each score, positive and negative ones of it.

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
