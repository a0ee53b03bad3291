"""The calibration curve (reliability diagram): the mean label of rows with similar predictions."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.evaluation.weighted import shares_by_range, weights_of

__all__ = ["calibration_curve", "prediction_histogram"]


def calibration_curve(
    labels: npt.ArrayLike, predictions: npt.ArrayLike, weights: npt.ArrayLike | None = None,
    *, bins: int = 10, strategy: Literal["quantile", "uniform"] = "quantile",
) -> pl.DataFrame:  # fmt: skip
    """Return the mean label and the mean prediction in bins of the prediction.

    Parameters
    ----------
    labels
        Labels: 0 or 1 for two classes, any number for a regression.
    predictions
        Probabilities of label 1, or predictions of the label.
    weights
        Row weights, above 0; by default 1.
    bins
        The maximum number of bins; empty bins are dropped.
    strategy
        ``"quantile"``: bins of equal weight; rows with equal predictions stay together. ``"uniform"``: bins of equal
        width, over [0, 1] if it contains all predictions, otherwise from the lowest to the highest prediction.

    Returns
    -------
    polars.DataFrame
        ``lowest`` and ``highest`` prediction of the bin, ``mean_prediction``, ``mean_label``, ``weight`` (the sum), and
        ``standard_error`` of the mean label (null for a single row).

    Examples
    --------
    >>> curve = calibration_curve([0, 1, 1, 1], [0.2, 0.4, 0.6, 1.0], bins=2)
    >>> curve.select("mean_prediction", "mean_label", "weight").rows()
    [(0.30000000000000004, 0.5, 2.0), (0.8, 1.0, 2.0)]
    """
    label, score = np.asarray(labels, dtype=np.float64), np.asarray(predictions, dtype=np.float64)
    weight = weights_of(weights, len(label))
    frame = pl.DataFrame({"label": label, "score": score, "weight": weight}).sort("score", maintain_order=True)
    w, y = pl.col("weight"), pl.col("label")
    mean = (w * y).sum() / w.sum()
    # The variance of a weighted mean, with as many rows as (Σw)² / Σw² says (Kish 1965).
    rows = w.sum() ** 2 / (w**2).sum()
    variance = (w * (y - mean) ** 2).sum() / w.sum() / (rows - 1)
    return (
        frame.with_columns(_bin(frame, bins, strategy).alias("bin"))
        .group_by("bin", maintain_order=True)
        .agg(
            pl.col("score").min().alias("lowest"),
            pl.col("score").max().alias("highest"),
            ((w * pl.col("score")).sum() / w.sum()).alias("mean_prediction"),
            mean.alias("mean_label"),
            w.sum(),
            pl.when(rows > 1 + 1e-9).then(variance.sqrt()).alias("standard_error"),
        )
        .drop("bin")
    )


def prediction_histogram(
    predictions: npt.ArrayLike, weights: npt.ArrayLike | None = None, *, bins: int = 40
) -> pl.DataFrame:
    """Return the shares of the weight in ranges of the prediction of equal width.

    Returns
    -------
    polars.DataFrame
        ``lower`` and ``upper`` bound, over [0, 1] if it contains all predictions, otherwise from the quantile 0.005 to
        0.995, and ``share``; predictions below or above count in the first or last range.

    Examples
    --------
    >>> prediction_histogram([0.25, 0.75, 1.0], bins=2).rows()
    [(0.0, 0.5, 0.3333333333333333), (0.5, 1.0, 0.6666666666666666)]
    """
    score = np.asarray(predictions, dtype=np.float64)
    ends = _range(score)
    return shares_by_range(score, weights_of(weights, len(score)), bins, ends if ends == (0.0, 1.0) else None)


def _range(score: npt.NDArray[np.float64]) -> tuple[float, float]:
    low, high = float(score.min()), float(score.max())
    return (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)


def _bin(frame: pl.DataFrame, bins: int, strategy: str) -> pl.Series:
    """Return the bin of each row of a frame sorted by score."""
    score = frame["score"].to_numpy()
    if strategy == "uniform":
        return pl.Series(np.searchsorted(np.linspace(*_range(score), bins + 1)[1:-1], score))
    # The middle of each distinct score on the axis of cumulative weight decides on its bin.
    along = frame.select("score", "weight", end=pl.col("weight").cum_sum())
    ends = (pl.col("end") - pl.col("weight")).min().over("score") + pl.col("end").max().over("score")
    middle = ends / 2 / pl.col("weight").sum()
    return along.select((middle * bins).floor().clip(0, bins - 1).cast(pl.Int64)).to_series()
