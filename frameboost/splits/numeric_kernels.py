"""Kernels that find the best split of a numeric feature: prefix sums over its histogram, and the gain at each cut."""

from __future__ import annotations

import numpy as np

from frameboost.runtime.kernel import kernel
from frameboost.splits.gain import best_score, leaf_score, split_score

__all__ = ["scan_numbers"]


@kernel
def _add_up(histogram, left, positions):  # type: ignore[no-untyped-def]
    """Write the running sums of G and H, (2, slots), over the bins that have rows, and the positions behind those bins.

    Returns
    -------
    int
        How many there are. A bin without rows parts them as the bin before it does. Behind them are the sums over all
        bins, and the last position.
    """
    count = len(histogram) - 1
    n, G, H = np.uint64(0), 0.0, 0.0
    for i in range(count):
        g, h = histogram[i, 0], histogram[i, 1]
        G += g
        H += h
        left[0, n], left[1, n], positions[n] = G, H, i + 1
        n += np.uint64((g != 0.0) | (h != 0.0))  # what an empty bin has left is written over: cheaper than a branch
    left[0, n], left[1, n], positions[n] = G, H, count
    return np.int64(n)


@kernel(error_model="numpy")
def _free_gains(  # type: ignore[no-untyped-def]
    left, n, more_G, more_H, G, H, parent, reg_lambda, reg_alpha, min_child_weight, gains
):
    """Write the gains of the first ``n`` left sums, each with something more, 0 where a child is too light.

    There is no branch in it, so it is compiled to vector instructions.
    """
    for i in range(n):
        GL, HL = left[0, i] + more_G, left[1, i] + more_H
        GR, HR = G - GL, H - HL
        gain = best_score(GL, HL, reg_lambda, reg_alpha) + best_score(GR, HR, reg_lambda, reg_alpha) - parent
        is_heavy = (HL > 0.0) & (HR > 0.0) & (min_child_weight <= HL) & (min_child_weight <= HR)
        gains[i] = gain if is_heavy else 0.0


@kernel
def _bounded_gains(  # type: ignore[no-untyped-def]
    left, n, more_G, more_H, G, H, parent, direction, lower, upper,
    reg_lambda, reg_alpha, max_delta_step, min_child_weight, gains,
):  # fmt: skip
    """Do the same where weights are limited, or must keep to a direction."""
    is_bounded = direction != 0 or lower > -np.inf or upper < np.inf
    for i in range(n):
        GL, HL = left[0, i] + more_G, left[1, i] + more_H
        GR, HR = G - GL, H - HL
        gains[i] = 0.0
        if HL > 0.0 and HR > 0.0 and min_child_weight <= HL and min_child_weight <= HR:
            if is_bounded:
                score = split_score(GL, HL, GR, HR, reg_lambda, reg_alpha, max_delta_step, direction, lower, upper)
            else:
                left_score = leaf_score(GL, HL, reg_lambda, reg_alpha, max_delta_step)
                score = left_score + leaf_score(GR, HR, reg_lambda, reg_alpha, max_delta_step)
            gains[i] = score - parent


@kernel
def _first_of_largest(gains, sides, n, least):  # type: ignore[no-untyped-def]
    """Return the place and the side of the first of the largest gains, -1 if none is more than ``least`` (0 or more).

    Numbers above 0 are in order by their bits, and integers are compared many at a time.
    """
    bits, most = gains.view(np.int64), np.float64(least).view(np.int64)
    found = most
    for side in range(sides):
        for i in range(n):
            found = max(found, bits[side, i])
    if found > most:
        for i in range(n):
            for side in range(sides):
                if bits[side, i] == found:
                    return i, side
    return -1, 0


@kernel
def scan_numbers(  # type: ignore[no-untyped-def]
    histogram, G, H, parent, direction, lower, upper, reg_lambda, reg_alpha, max_delta_step, min_child_weight, least,
    left, gains, positions,
):  # fmt: skip
    """Return whether a split of a numeric feature gains more than ``least``, and that split (see `scan_histograms`).

    ``left`` and ``gains``, float64 (2, slots), and ``positions``, int64 (slots,), are room to work in.
    """
    n = _add_up(histogram, left, positions)
    missing_G, missing_H = histogram[-1, 0], histogram[-1, 1]
    sides = 1 + (missing_H != 0.0 or missing_G != 0.0)
    is_free = direction == 0 and max_delta_step == 0.0 and lower == -np.inf and upper == np.inf
    for side in range(sides):
        more_G, more_H = side * missing_G, side * missing_H
        if is_free:
            _free_gains(left, n, more_G, more_H, G, H, parent, reg_lambda, reg_alpha, min_child_weight, gains[side])
        else:
            _bounded_gains(
                left, n, more_G, more_H, G, H, parent, direction, lower, upper,
                reg_lambda, reg_alpha, max_delta_step, min_child_weight, gains[side],
            )  # fmt: skip
    if direction != 0:  # whether a value is present at all goes by no order
        _bounded_gains(
            left[:, n:], 1, 0.0, 0.0, G, H, parent, 0, lower, upper,
            reg_lambda, reg_alpha, max_delta_step, min_child_weight, gains[0, n:],
        )  # fmt: skip
        gains[1, n] = 0.0
        n += 1
    best, missing_left = _first_of_largest(gains, sides, n, least)
    if best < 0:
        return False, 0, 0, 0.0, 0.0, 0.0
    GL, HL = left[0, best] + missing_left * missing_G, left[1, best] + missing_left * missing_H
    return True, positions[best], missing_left, gains[missing_left, best], GL, HL
