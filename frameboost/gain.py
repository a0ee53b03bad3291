"""The score of a leaf: the formulas of Chen & Guestrin 2016, section 2.2, as kernels.

With an L1 penalty α besides, the paper's −G/(H+λ) becomes −T(G)/(H+λ), T(G) = sign(G)·max(|G| − α, 0).
"""

from __future__ import annotations

import numba

__all__ = ["MIN_GAIN", "leaf_score", "leaf_weight"]

# XGBoost's kRtEps: a split that gains no more is rounding noise.
MIN_GAIN = 1e-6


@numba.njit(nogil=True, cache=True, inline="always")
def _soft_threshold(G: float, reg_alpha: float) -> float:
    """Return T(G)."""
    if reg_alpha < G:
        return G - reg_alpha
    if -reg_alpha > G:
        return G + reg_alpha
    return 0.0


@numba.njit(nogil=True, cache=True, inline="always")
def leaf_weight(G: float, H: float, reg_lambda: float, reg_alpha: float, max_delta_step: float) -> float:
    """Return w* = −T(G)/(H+λ) (equation 5), no larger in magnitude than ``max_delta_step`` unless that is 0."""
    if H <= 0.0:
        return 0.0
    weight = -_soft_threshold(G, reg_alpha) / (H + reg_lambda)
    if max_delta_step != 0.0 and abs(weight) > max_delta_step:
        return max_delta_step if weight > 0.0 else -max_delta_step
    return weight


@numba.njit(nogil=True, cache=True, inline="always")
def leaf_score(G: float, H: float, reg_lambda: float, reg_alpha: float, max_delta_step: float) -> float:
    """Return twice what the leaf takes off the objective: T(G)²/(H+λ) at w* (equation 6 without its ½).

    Where ``max_delta_step`` keeps the weight from w*: −(2Gw + (H+λ)w² + 2α|w|), the objective at that weight.
    """
    if H <= 0.0:
        return 0.0
    if max_delta_step == 0.0:
        T = _soft_threshold(G, reg_alpha)
        return T * T / (H + reg_lambda)
    w = leaf_weight(G, H, reg_lambda, reg_alpha, max_delta_step)
    return -(2.0 * G * w + (H + reg_lambda) * w * w + 2.0 * reg_alpha * abs(w))
