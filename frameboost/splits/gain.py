"""The weight and the score of a leaf, and so the gain of a split: Chen & Guestrin 2016, section 2.2, as kernels.

=====================  ============================================  ======================
weight of a leaf       w* = −T(G)/(H+λ)                              equation 5
score of a leaf        T(G)²/(H+λ)                                   equation 6, without ½
gain of a split        score(left) + score(right) − score(parent)    equation 7, without ½
=====================  ============================================  ======================

T(G) = sign(G)·max(|G| − α, 0) is G itself unless there is an L1 penalty α. A leaf of weight w takes ½ of its score off
the objective. XGBoost reports and compares gains without the ½, and so does everything here.

`max_delta_step` limits |w|, and `monotone_constraints` bound w from below and above (XGBoost,
src/tree/split_evaluator.h). The weight is then clipped to the nearest allowed one, and scored there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from frameboost.runtime.kernel import kernel

__all__ = [
    "MIN_GAIN",
    "best_score",
    "bounded_gain",
    "bounded_score",
    "bounded_weight",
    "bounded_weights",
    "leaf_score",
    "leaf_weight",
    "split_gain",
    "split_score",
]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

# XGBoost's kRtEps: a split that gains no more is rounding noise.
MIN_GAIN = 1e-6


@kernel(inline="always")
def _soft_threshold(G: float, reg_alpha: float) -> float:
    """Return T(G), as G − clip(G, −α, α): without a branch it compiles to vector instructions."""
    above = G if -reg_alpha < G else -reg_alpha
    return G - (above if above < reg_alpha else reg_alpha)


@kernel(inline="always")
def leaf_weight(G: float, H: float, reg_lambda: float, reg_alpha: float, max_delta_step: float) -> float:
    """Return w* = −T(G)/(H+λ), clipped to ±``max_delta_step`` unless that is 0."""
    if H <= 0.0:
        return 0.0
    weight = -_soft_threshold(G, reg_alpha) / (H + reg_lambda)
    if max_delta_step != 0.0 and abs(weight) > max_delta_step:
        return max_delta_step if weight > 0.0 else -max_delta_step
    return weight


@kernel(inline="always")
def _score_at(w: float, G: float, H: float, reg_lambda: float, reg_alpha: float) -> float:
    """Return −(2Gw + (H+λ)w² + 2α|w|), the score of a leaf of any weight w."""
    return -(2.0 * G * w + (H + reg_lambda) * w * w + 2.0 * reg_alpha * abs(w))


@kernel(inline="always")
def best_score(G: float, H: float, reg_lambda: float, reg_alpha: float) -> float:
    """Return T(G)²/(H+λ), the score at w*."""
    T = _soft_threshold(G, reg_alpha)
    return T * T / (H + reg_lambda)


@kernel(inline="always")
def leaf_score(G: float, H: float, reg_lambda: float, reg_alpha: float, max_delta_step: float) -> float:
    """Return the score of a leaf at its weight: T(G)²/(H+λ), less if ``max_delta_step`` clips the weight."""
    if H <= 0.0:
        return 0.0
    if max_delta_step == 0.0:
        return best_score(G, H, reg_lambda, reg_alpha)
    return _score_at(leaf_weight(G, H, reg_lambda, reg_alpha, max_delta_step), G, H, reg_lambda, reg_alpha)


@kernel(inline="always")
def bounded_weight(
    G: float, H: float, reg_lambda: float, reg_alpha: float, max_delta_step: float, lower: float, upper: float
) -> float:
    """Return `leaf_weight`, clipped to the bounds."""
    weight = leaf_weight(G, H, reg_lambda, reg_alpha, max_delta_step)
    if weight < lower:
        return lower
    if weight > upper:
        return upper
    return weight


@kernel
def bounded_weights(
    G: FloatArray, H: FloatArray, bounds: FloatArray,
    reg_lambda: float, reg_alpha: float, max_delta_step: float, min_child_weight: float,
) -> FloatArray:  # fmt: skip
    """Return each node's weight, 0 of one whose H is below ``min_child_weight``: float64 (nodes,).

    ``G`` and ``H`` are float64 (nodes,), ``bounds`` float64 (nodes, 2): the least and the largest weight.
    """
    weights = np.empty(len(G))
    for i in range(len(G)):
        weights[i] = 0.0
        if min_child_weight <= H[i]:
            lower, upper = bounds[i, 0], bounds[i, 1]
            weights[i] = bounded_weight(G[i], H[i], reg_lambda, reg_alpha, max_delta_step, lower, upper)
    return weights


@kernel(inline="always")
def bounded_score(
    G: float, H: float, reg_lambda: float, reg_alpha: float, max_delta_step: float, lower: float, upper: float
) -> float:
    """Return `leaf_score`, or the score at the bound that the weight is clipped to."""
    weight = leaf_weight(G, H, reg_lambda, reg_alpha, max_delta_step)
    if weight < lower:
        return _score_at(lower, G, H, reg_lambda, reg_alpha)
    if weight > upper:
        return _score_at(upper, G, H, reg_lambda, reg_alpha)
    return leaf_score(G, H, reg_lambda, reg_alpha, max_delta_step)


@kernel
def split_score(
    GL: float, HL: float, GR: float, HR: float,
    reg_lambda: float, reg_alpha: float, max_delta_step: float, direction: np.int8, lower: float, upper: float,
) -> float:  # fmt: skip
    """Return the sum of two children's scores within their parent's bounds; −∞ if their weights break ``direction``.

    ``direction`` is 1 where the right weight must be at least the left one, −1 where it must be at most that, else 0.
    """
    if direction != 0:
        left = bounded_weight(GL, HL, reg_lambda, reg_alpha, max_delta_step, lower, upper)
        right = bounded_weight(GR, HR, reg_lambda, reg_alpha, max_delta_step, lower, upper)
        if (direction > 0 and left > right) or (direction < 0 and left < right):
            return -np.inf
    return bounded_score(GL, HL, reg_lambda, reg_alpha, max_delta_step, lower, upper) + bounded_score(
        GR, HR, reg_lambda, reg_alpha, max_delta_step, lower, upper
    )


@kernel(inline="always")
def split_gain(
    GL: float, HL: float, G: float, H: float, parent: float,
    reg_lambda: float, reg_alpha: float, min_child_weight: float,
) -> float:  # fmt: skip
    """Return the gain of a split where no weight is bounded, 0 where a child is too light.

    ``GL`` and ``HL`` are the sums of the left child, ``G`` and ``H`` those of the node; ``parent`` is its score
    unsplit. There is no branch, so that loops over candidates compile to vector instructions. Kernels that call this
    have the option ``error_model="numpy"``, as what is divided by zero does not count.
    """
    GR, HR = G - GL, H - HL
    gain = best_score(GL, HL, reg_lambda, reg_alpha) + best_score(GR, HR, reg_lambda, reg_alpha) - parent
    is_heavy = (HL > 0.0) & (HR > 0.0) & (min_child_weight <= HL) & (min_child_weight <= HR)
    return gain if is_heavy else 0.0


@kernel
def bounded_gain(
    GL: float, HL: float, G: float, H: float, parent: float, direction: np.int8, lower: float, upper: float,
    reg_lambda: float, reg_alpha: float, max_delta_step: float, min_child_weight: float,
) -> float:  # fmt: skip
    """Return `split_gain` where weights are bounded (see `split_score`), −∞ where they break ``direction``."""
    GR, HR = G - GL, H - HL
    if HL <= 0.0 or HR <= 0.0 or min_child_weight > HL or min_child_weight > HR:
        return 0.0
    if direction == 0 and lower == -np.inf and upper == np.inf:
        left_score = leaf_score(GL, HL, reg_lambda, reg_alpha, max_delta_step)
        return left_score + leaf_score(GR, HR, reg_lambda, reg_alpha, max_delta_step) - parent
    return split_score(GL, HL, GR, HR, reg_lambda, reg_alpha, max_delta_step, direction, lower, upper) - parent
