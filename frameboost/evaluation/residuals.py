"""Residuals, label minus prediction: quantiles by prediction, and a histogram."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.evaluation.weighted import shares_by_range, weights_of

__all__ = ["residual_histogram", "residual_quantiles"]

_QUANTILES = (0.1, 0.5, 0.9)


def residual_quantiles(
    labels: npt.ArrayLike, predictions: npt.ArrayLike, weights: npt.ArrayLike | None = None, *, bins: int = 20
) -> pl.DataFrame:
    """Return quantiles of the residuals, label minus prediction, in bins of the prediction.

    Parameters
    ----------
    labels, predictions
        Numbers.
    weights
        Row weights, above 0; by default 1.
    bins
        The maximum number of bins. Each has about the same number of rows; rows with equal predictions stay together.

    Returns
    -------
    polars.DataFrame
        ``prediction`` (the mean), ``mean`` residual, ``p10``, ``p50`` and ``p90`` (without interpolation), ``weight``
        (the sum).

    Examples
    --------
    >>> residual_quantiles([1.0, 3.0, 6.0, 9.0], [2.0, 2.0, 7.0, 7.0], bins=2).rows()
    [(2.0, 0.0, -1.0, -1.0, 1.0, 2.0), (7.0, 0.5, -1.0, -1.0, 2.0, 2.0)]
    """
    label, score = np.asarray(labels, dtype=np.float64), np.asarray(predictions, dtype=np.float64)
    weight = weights_of(weights, len(label))
    order = np.argsort(score, kind="stable")
    label, score, weight = label[order], score[order], weight[order]
    first = np.searchsorted(score, score)  # of the rows with an equal prediction
    bin_ = first * bins // len(score)
    rows = []
    for rows_of in np.split(np.arange(len(score)), np.flatnonzero(np.diff(bin_)) + 1):
        residual, w = label[rows_of] - score[rows_of], weight[rows_of]
        quantiles = np.quantile(residual, _QUANTILES, weights=w, method="inverted_cdf")
        rows.append((np.average(score[rows_of], weights=w), np.average(residual, weights=w), *quantiles, w.sum()))
    names = ("prediction", "mean", "p10", "p50", "p90", "weight")
    return pl.DataFrame([tuple(map(float, row)) for row in rows], schema=dict.fromkeys(names, pl.Float64), orient="row")


def residual_histogram(
    labels: npt.ArrayLike, predictions: npt.ArrayLike, weights: npt.ArrayLike | None = None, *, bins: int = 40
) -> pl.DataFrame:
    """Return the shares of the weight in ranges of the residual of equal width.

    Arguments are as in `residual_quantiles`. Ranges cover the quantiles 0.005 to 0.995; residuals below or above count
    in the first or last range.

    Returns
    -------
    polars.DataFrame
        ``lower`` and ``upper`` bound of the range, ``share`` of the weight.

    Examples
    --------
    >>> residual_histogram([0.0, 1.0, 1.0, 2.0], [0.0, 0.0, 0.0, 0.0], bins=2).rows()
    [(0.0, 1.0, 0.25), (1.0, 2.0, 0.75)]
    """
    residual = np.asarray(labels, dtype=np.float64) - np.asarray(predictions, dtype=np.float64)
    return shares_by_range(residual, weights_of(weights, len(residual)), bins)
