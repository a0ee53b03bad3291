"""Kernels that find the best split of a numeric feature: prefix sums over its histogram, and the gain at each cut.

A histogram of four bins and the missing one, whose rows sum to G = −4 and H = 7; λ = 1:

=====  =====  =====  =====  =====  =======
bin        0      1      2      3  missing
=====  =====  =====  =====  =====  =======
G         -4     -2      0      3       -1
H          2      1      0      3        1
=====  =====  =====  =====  =====  =======

The prefix sums are the left children where missing goes right. With the missing bin added they are the left children
where missing goes left; right is the node's sums less left. Bin 2 is empty, so to split behind it parts the rows as to
split behind bin 1 does, and there is no entry for it. The gain is GL²/(HL+λ) + GR²/(HR+λ) − G²/(H+λ), where
G²/(H+λ) = 2:

========  ========  =====================================  ========================================
position  (GL, HL)  gain with missing right                gain with missing left
========  ========  =====================================  ========================================
1         (-4, 2)   16/3 + 0/6 - 2 = 3.33                  25/4 + 1/5 - 2 = 4.45
2         (-6, 3)   36/4 + 4/5 - 2 = 7.8                   49/5 + 9/4 - 2 = **10.05**
4         (-3, 6)   9/7 + 1/2 - 2 = -0.21                  0 (no row is left for the right child)
========  ========  =====================================  ========================================

The split is at position 2, so bins 0 and 1 go left, and missing goes left, too. Position 4, past the last bin, asks
whether there is a value at all.
"""

from __future__ import annotations

import numpy as np

from frameboost.runtime.kernel import kernel
from frameboost.splits.gain import best_score, leaf_score, split_score

__all__ = ["gain_of_two", "scan_bounded_numbers", "scan_numbers"]

_ONE = np.uint64(1)  # indices are unsigned: for a signed one numba checks whether it counts from the end


@kernel(no_cpython_wrapper=True)
def _prefix_sums(histogram, left, positions):  # type: ignore[no-untyped-def]
    """Write the prefix sums of G and H, (2, slots), at the ends of the bins that have rows, and the next positions.

    Returns
    -------
    uint64
        How many there are. The entry behind them has the sums over all bins, and the position past the last bin.
    """
    count = len(histogram) - 1
    n, G, H = np.uint64(0), 0.0, 0.0
    for i in range(count):
        g, h = histogram[i, 0], histogram[i, 1]
        G += g
        H += h
        left[0, n], left[1, n], positions[n] = G, H, i + 1
        n += np.uint64(abs(g) + abs(h) > 0.0)  # the next bin overwrites the entry of an empty one: no branch
    left[0, n], left[1, n], positions[n] = G, H, count
    return n


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _unbounded_gains(  # type: ignore[no-untyped-def]
    left, n, added_G, added_H, G, H, parent, reg_lambda, reg_alpha, min_child_weight, gains
):
    """Write the gains of the first ``n`` left sums, ``added_G`` and ``added_H`` added; 0 where a child is too light.

    The loop has no branch, so that it compiles to vector instructions.
    """
    for i in range(n):
        GL, HL = left[0, i] + added_G, left[1, i] + added_H
        GR, HR = G - GL, H - HL
        gain = best_score(GL, HL, reg_lambda, reg_alpha) + best_score(GR, HR, reg_lambda, reg_alpha) - parent
        is_heavy = (HL > 0.0) & (HR > 0.0) & (min_child_weight <= HL) & (min_child_weight <= HR)
        gains[i] = gain if is_heavy else 0.0


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _may_score(left, n, added_G, added_H, G, H, least, reg_lambda, min_child_weight):  # type: ignore[no-untyped-def]
    """Return whether one of the same left sums may score ``least`` or more.

    With a = HL+λ and b = HR+λ, GL²/a + GR²/b ≥ s only where GL²·b + GR²·a ≥ s·a·b: to compare these takes no division,
    which is most of the time that a gain takes. A penalty α makes scores less. What both sides are rounded by is less
    than 2⁻⁴⁸ of them, and what is lost below the smallest float less than 1e-290.
    """
    found, least = False, least * (1.0 - 2.0**-48)
    for i in range(n):
        GL, HL = left[0, i] + added_G, left[1, i] + added_H
        GR, HR = G - GL, H - HL
        a, b = HL + reg_lambda, HR + reg_lambda
        is_heavy = (min_child_weight <= HL) & (min_child_weight <= HR)
        found |= is_heavy & (GL * GL * b + GR * GR * a + 1e-290 >= least * a * b)
    return found


@kernel(error_model="numpy")
def gain_of_two(histogram, G, H, parent, reg_lambda, reg_alpha, min_child_weight):  # type: ignore[no-untyped-def]
    """Return the gain of the only split of two bins where no row is missing, 0 where a child is too light.

    `scan_numbers` finds the same split, but takes longer to start than that one gain takes to compute.
    """
    GL, HL = histogram[0, 0], histogram[0, 1]
    GR, HR = G - GL, H - HL
    gain = best_score(GL, HL, reg_lambda, reg_alpha) + best_score(GR, HR, reg_lambda, reg_alpha) - parent
    is_heavy = (HL > 0.0) & (HR > 0.0) & (min_child_weight <= HL) & (min_child_weight <= HR)
    return gain if is_heavy else 0.0


@kernel
def _bounded_gains(  # type: ignore[no-untyped-def]
    left, first, n, added_G, added_H, G, H, parent, direction, lower, upper,
    reg_lambda, reg_alpha, max_delta_step, min_child_weight, gains,
):  # fmt: skip
    """Write the same from ``first`` on where weights are bounded, by ``max_delta_step`` or a monotone constraint."""
    is_bounded = direction != 0 or lower > -np.inf or upper < np.inf
    for i in range(first, n):
        GL, HL = left[0, i] + added_G, left[1, i] + added_H
        GR, HR = G - GL, H - HL
        gains[i] = 0.0
        if HL > 0.0 and HR > 0.0 and min_child_weight <= HL and min_child_weight <= HR:
            if is_bounded:
                score = split_score(GL, HL, GR, HR, reg_lambda, reg_alpha, max_delta_step, direction, lower, upper)
            else:
                left_score = leaf_score(GL, HL, reg_lambda, reg_alpha, max_delta_step)
                score = left_score + leaf_score(GR, HR, reg_lambda, reg_alpha, max_delta_step)
            gains[i] = score - parent


@kernel(no_cpython_wrapper=True)
def _keep_largest(gains, n, side, found):  # type: ignore[no-untyped-def]
    """Return the largest of the gains of a side, its number from 1 on and the side, or what was ``found`` before.

    Equal gains are tied to the lowest number, then to what was found before.
    """
    most, number, best_side = found
    for i in range(n):
        if gains[i] > most or (gains[i] == most and i + _ONE < number):
            most, number, best_side = gains[i], i + _ONE, side
    return most, number, best_side


@kernel
def scan_numbers(  # type: ignore[no-untyped-def]
    histogram, G, H, parent, reg_lambda, reg_alpha, min_child_weight, least, left, gains, positions
):
    """Find a node's best split on one numeric feature, where no weight is bounded.

    Ties go to the lowest position, then to missing going right.

    Parameters
    ----------
    histogram
        float64 (bins + 1, 2), the missing bin last.
    G, H, parent
        The sums over the node, and its score unsplit.
    reg_lambda, reg_alpha, min_child_weight
        The parameters of those names.
    least
        0 or more; a split must gain more.
    left, gains, positions
        Scratch space: float64 (2, slots), float64 (slots,) and int64 (slots,), of no fewer slots than the histogram.

    Returns
    -------
    tuple
        Whether there is such a split; then, as in `scan_histograms`, its position, whether missing goes left, its gain,
        and G and H of the left child.
    """
    n = _prefix_sums(histogram, left, positions)
    found = least, np.uint64(0), np.int64(0)
    for side in range(_sides(histogram)):
        added_G, added_H = side * histogram[-1, 0], side * histogram[-1, 1]
        if _may_score(left, n, added_G, added_H, G, H, parent + found[0], reg_lambda, min_child_weight):
            _unbounded_gains(left, n, added_G, added_H, G, H, parent, reg_lambda, reg_alpha, min_child_weight, gains)
            found = _keep_largest(gains, n, side, found)
    return _candidate(histogram, left, positions, found)


@kernel
def scan_bounded_numbers(  # type: ignore[no-untyped-def]
    histogram, G, H, parent, direction, lower, upper, reg_lambda, reg_alpha, max_delta_step, min_child_weight, least,
    left, gains, positions,
):  # fmt: skip
    """Do the same as `scan_numbers` where weights are bounded.

    Parameters
    ----------
    direction
        int8: 1 where weights must not fall from left to right, -1 where they must not rise, else 0.
    lower, upper
        The least and the largest weight in the node.
    max_delta_step
        The parameter of that name.
    """
    n = _prefix_sums(histogram, left, positions)
    found = least, np.uint64(0), np.int64(0)
    for side in range(_sides(histogram)):
        _bounded_gains(
            left, np.uint64(0), n, side * histogram[-1, 0], side * histogram[-1, 1], G, H, parent, direction, lower,
            upper, reg_lambda, reg_alpha, max_delta_step, min_child_weight, gains,
        )  # fmt: skip
        found = _keep_largest(gains, n, side, found)
    if direction != 0:
        # One more candidate, which no direction holds for: present values left, missing ones right.
        _bounded_gains(
            left, n, n + _ONE, 0.0, 0.0, G, H, parent, np.int8(0), lower, upper,
            reg_lambda, reg_alpha, max_delta_step, min_child_weight, gains,
        )  # fmt: skip
        if gains[n] > found[0]:
            found = gains[n], n + _ONE, np.int64(0)
    return _candidate(histogram, left, positions, found)


@kernel(inline="always")
def _sides(histogram):  # type: ignore[no-untyped-def]
    """Return to how many sides missing values can go: 1 if there are none."""
    return 1 + (histogram[-1, 1] != 0.0 or histogram[-1, 0] != 0.0)


@kernel(inline="always")
def _candidate(histogram, left, positions, found):  # type: ignore[no-untyped-def]
    """Return the candidate that `_keep_largest` has found, as `scan_numbers` does."""
    gain, number, missing_left = found
    if number == 0:
        return False, 0, 0, 0.0, 0.0, 0.0
    best = number - _ONE
    GL, HL = left[0, best] + missing_left * histogram[-1, 0], left[1, best] + missing_left * histogram[-1, 1]
    return True, positions[best], missing_left, gain, GL, HL
