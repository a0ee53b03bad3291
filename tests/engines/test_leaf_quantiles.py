"""Quantiles of a leaf by selection are those that numpy's definitions give."""

import numpy as np
import pytest

from frameboost.engines.frame import interpolated_quantile, weighted_quantile


@pytest.mark.parametrize("n", [1, 2, 3, 10, 999])
@pytest.mark.parametrize("alpha", [0.001, 0.25, 0.5, 0.9, 0.999])
def test_quantiles_are_numpys(n, alpha):
    rng = np.random.default_rng(n)
    values = rng.normal(size=n).round(1)  # with ties
    assert interpolated_quantile(values, alpha) == pytest.approx(np.quantile(values, alpha, method="weibull"))
    weights = rng.integers(1, 4, n).astype(float)
    expected = np.quantile(values, alpha, method="inverted_cdf", weights=weights)
    assert weighted_quantile(values, weights, alpha) == expected
