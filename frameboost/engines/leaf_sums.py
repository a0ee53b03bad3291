"""Sums of linear leaves that have fewer terms than others, out of a row with room for the most."""

from __future__ import annotations

from frameboost.splits.split import FloatArray

__all__ = ["own_sums"]


def own_sums(values: FloatArray, most: int, n_terms: int) -> FloatArray:
    """Return the sums of a leaf's first ``n_terms`` terms out of those of ``most`` (see `LinearEngine.leaf_sums`).

    >>> import numpy as np
    >>> own_sums(np.array([0, 1, 20, 21, 30, 31, 400, 410, 411]), 2, 1).tolist()
    [0, 1, 20, 30, 400]
    """
    of_terms = [2 + side * most + k for side in (0, 1) for k in range(n_terms)]
    pairs = range(2 + 2 * most, 2 + 2 * most + n_terms * (n_terms + 1) // 2)
    return values[[0, 1, *of_terms, *pairs]]
