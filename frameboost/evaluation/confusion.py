"""The confusion matrix."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = ["confusion_matrix"]


def confusion_matrix(
    labels: npt.ArrayLike, predictions: npt.ArrayLike, n_classes: int, weights: npt.ArrayLike | None = None
) -> pl.DataFrame:
    """Return the confusion matrix, one row per pair of an actual and a predicted class.

    Parameters
    ----------
    labels, predictions
        Classes: 0, 1, ..., ``n_classes`` - 1.
    n_classes
        The number of classes.
    weights
        Row weights, above 0; by default 1.

    Returns
    -------
    polars.DataFrame
        ``actual`` and ``predicted`` (Int64), ``weight`` (the sum; without weights the number of rows), and ``share``
        within the actual class (null if it has no rows).

    Examples
    --------
    >>> confusion_matrix([0, 0, 0, 1], [0, 0, 1, 1], n_classes=2).rows()
    [(0, 0, 2.0, 0.6666666666666666), (0, 1, 1.0, 0.3333333333333333), (1, 0, 0.0, 0.0), (1, 1, 1.0, 1.0)]
    """
    actual, predicted = np.asarray(labels).astype(np.int64), np.asarray(predictions).astype(np.int64)
    weight = None if weights is None else np.asarray(weights, dtype=np.float64)
    sums = np.bincount(actual * n_classes + predicted, weight, minlength=n_classes**2).astype(np.float64)
    classes = np.arange(n_classes)
    frame = pl.DataFrame(
        {"actual": np.repeat(classes, n_classes), "predicted": np.tile(classes, n_classes), "weight": sums}
    )
    total = pl.col("weight").sum().over("actual")
    return frame.with_columns(pl.when(total > 0).then(pl.col("weight") / total).alias("share"))
