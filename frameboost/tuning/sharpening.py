"""Multiply the margins of classes by a number that held-out rows choose (temperature scaling).

Guo, Pleiss, Sun & Weinberger, "On calibration of modern neural networks" (ICML 2017). Early stopping ends with margins
that are too small where a rule determines the classes: the gradients of rows that are classified correctly vanish, and
further trees learn the few others. A model of all rows makes fewer mistakes still than the model of a fold, by which
the number is chosen; so it is at least 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["sharpness"]

_Array = npt.NDArray[np.float64]

# A coarse grid: the order of summation does not decide between two.
_FACTORS = [2 ** (step / 8) for step in range(25)]
# Without a mistake on held-out rows no number would be large enough: as many rows more are misclassified, as Jeffreys'
# prior has it for a share.
_PRIOR = 0.5


def sharpness(margins: Sequence[_Array], labels: _Array, weights: _Array | None = None) -> float:
    """Return the factor of margins, from 1 to 8, with the smallest logloss on held-out rows and half a wrong one.

    Parameters
    ----------
    margins
        The margin of the second of two classes, or of each class: (rows,) each.
    labels
        The number of the class of each row.
    weights
        The weights of the rows, by default 1.

    Examples
    --------
    >>> labels = np.array([0, 1] * 50)
    >>> sharpness([np.where(labels, 3.0, -3.0)], labels).__round__(2), sharpness([np.ones(100)], labels)
    (1.83, 1.0)
    """
    each = np.stack([np.zeros(len(labels)), *margins] if len(margins) == 1 else margins)
    weights = np.ones(len(labels)) if weights is None else weights
    second, largest = np.sort(each, axis=0)[-2:]
    behind = each - largest
    of_label = behind[labels.astype(np.int64), np.arange(len(labels))]
    lead = float(np.median(largest - second))  # of which the half row has the negative

    def loss(factor: float) -> float:
        each_row = np.log(np.exp(factor * behind).sum(axis=0)) - factor * of_label
        return float(np.average(each_row, weights=weights) * len(labels) + _PRIOR * np.logaddexp(0.0, factor * lead))

    return min(_FACTORS, key=loss)
