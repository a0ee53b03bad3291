"""The score of a leaf is what the objective says, minimised by brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frameboost.splits.search import leaf_score, leaf_weight


def objective(w, G, H, reg_lambda, reg_alpha):
    """Return G·w + ½(H + λ)w² + α|w|, the part of the second-order objective that a leaf contributes."""
    return G * w + (H + reg_lambda) * w * w / 2 + reg_alpha * np.abs(w)


@given(
    st.floats(-50, 50), st.floats(0.1, 50), st.floats(0, 10), st.floats(0, 10), st.sampled_from([0.0, 0.05, 0.7, 3.0])
)
@settings(deadline=None)
def test_the_weight_minimises_the_objective(G, H, reg_lambda, reg_alpha, step):
    bound = step or 600.0
    weights = np.linspace(-bound, bound, 20_001)
    values = objective(weights, G, H, reg_lambda, reg_alpha)
    weight = leaf_weight(G, H, reg_lambda, reg_alpha, step)
    assert abs(weight) <= bound
    assert objective(weight, G, H, reg_lambda, reg_alpha) <= values.min() + 1e-9
    # The score is twice what the leaf takes off.
    score = leaf_score(G, H, reg_lambda, reg_alpha, step)
    assert score == pytest.approx(-2 * objective(weight, G, H, reg_lambda, reg_alpha), rel=1e-9, abs=1e-9)


def test_the_formulas_of_the_paper():
    assert leaf_weight(6.0, 2.0, 1.0, 0.0, 0.0) == -2.0  # -G / (H + λ)
    assert leaf_score(6.0, 2.0, 1.0, 0.0, 0.0) == 12.0  # G² / (H + λ)
    assert leaf_weight(6.0, 2.0, 1.0, 1.5, 0.0) == -1.5  # -(G - α) / (H + λ)
    assert leaf_weight(-1.0, 2.0, 1.0, 1.5, 0.0) == 0.0  # |G| ≤ α
    assert leaf_weight(6.0, 2.0, 1.0, 0.0, 0.5) == -0.5
    assert leaf_weight(6.0, 0.0, 0.0, 0.0, 0.0) == 0.0
    assert leaf_score(6.0, 0.0, 0.0, 0.0, 0.0) == 0.0
