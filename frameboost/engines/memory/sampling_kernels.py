"""Kernels of samples: draws by hashing, the rows that are in a sample before the others, and features of a tree."""

from __future__ import annotations

import numpy as np

from frameboost.runtime.kernel import kernel
from frameboost.runtime.team_intrinsics import outlined
from frameboost.runtime.team_kernels import share_out
from frameboost.splits.category_kernels import sort_codes

__all__ = ["draw_gh", "hash_of", "keep_drawn", "part_drawn"]

# The hash of `frameboost.expressions.draws.hash32`, in numbers of 32 bits that wrap around by themselves.
_FIRST, _SECOND, _THIRD = np.uint32(0x45D9F3B), np.uint32(0x7FEB352D), np.uint32(0x2C1B3C6D)
_15, _16 = np.uint32(15), np.uint32(16)


@kernel(inline="always")
def hash_of(value, key):  # type: ignore[no-untyped-def]
    """Return the hash, uint32, of a value and a key."""
    x = np.uint32(np.uint32(np.uint32(value) * _FIRST) + np.uint32(key))
    x = np.uint32((x ^ (x >> _16)) * _SECOND)
    x = np.uint32((x ^ (x >> _15)) * _THIRD)
    return np.uint32(x ^ (x >> _16))


@kernel(fastmath={"reassoc"})
def _draw_share(gh, positions, key, limit, out, totals, share):  # type: ignore[no-untyped-def]
    n_rows, count = len(gh), len(totals)
    total_g = total_h = 0.0  # on grids, and so exact in any order
    for i in range(np.uint64(n_rows * share // count), np.uint64(n_rows * (share + 1) // count)):
        x = hash_of(positions[i], key)
        g, h = gh[i, 0], gh[i, 1]
        if x >= limit:
            g = h = 0.0
        out[i, 0], out[i, 1] = g, h
        total_g += g
        total_h += h
    totals[share, 0], totals[share, 1] = total_g, total_h


_drawing = outlined(_draw_share)


@kernel
def draw_gh(team, gh, positions, key, limit, out, totals):  # type: ignore[no-untyped-def]
    """Write g and h of the rows whose hash is below ``limit``, zero for the others, to ``out``.

    Parameters
    ----------
    team
        The threads (see `frameboost.runtime.team_kernels`).
    gh
        float64 (rows, 2): g and h.
    positions
        uint32 (rows,): what is hashed with the ``key``.
    out
        float64 (rows, 2), written.
    totals
        float64 (shares, 2), written: the sums of each of so many shares of the rows.
    """
    share_out(team, _drawing((gh, positions, key, limit, out, totals)), len(totals))


@kernel
def part_drawn(gh, rows):  # type: ignore[no-untyped-def]
    """Write the numbers of the rows with a g or h but zero to the front of ``rows``, the others to the back.

    ``gh`` is float64 (rows, 2), ``rows`` uint32 (rows,). Say only rows 1 and 2 of four have gradients: ``rows`` is
    1, 2, 3, 0. Returns their number.
    """
    front, back = np.uint64(0), np.uint64(len(rows) - 1)
    for row in range(np.uint64(len(gh))):
        # One store and two counters in place of a branch, as in `part_rows`.
        flag = np.uint64((gh[row, 0] != 0.0) | (gh[row, 1] != 0.0))
        rows[front if flag else back] = row
        front += flag
        back -= np.uint64(1) - flag
    return np.int64(front)


@kernel
def keep_drawn(features, share, key):  # type: ignore[no-untyped-def]
    """Leave, of the ``features`` that are True, a share with the lowest hashes, and at least one: bool (features,).

    `frameboost.training.sampling.FeatureSampler` draws the same.
    """
    if share == 1.0:
        return
    hashes, numbers, n = np.empty(len(features)), np.empty(len(features), dtype=np.int64), 0
    for feature in range(len(features)):
        if features[feature]:
            features[feature] = False
            hashes[n], numbers[n] = hash_of(feature, key), feature
            n += 1
    sort_codes(hashes, numbers, n)
    for i in range(max(1, int(share * n))):
        features[numbers[i]] = True
