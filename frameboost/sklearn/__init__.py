"""scikit-learn estimators over `frameboost.fit`, with ``fit(X, y)`` and ``predict(X)``.

They need scikit-learn (``pip install 'frameboost[sklearn]'``), so this module is imported on first use.

- `regressor`, `classifier`, `ranker`: the estimators
- `estimator`: their base class
- `constructors`: parameters by any name
- `tables`: X as a frame, of tables, arrays and sparse matrices
- `targets`: checks of y and of weights
- `rows`: the frame that is trained on
"""

from __future__ import annotations

try:
    import sklearn

    if tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9):  # which can't read the names of polars 2's columns
        raise ImportError(f"scikit-learn {sklearn.__version__} is too old")
except ImportError as error:
    raise ImportError(
        "frameboost's estimators need scikit-learn 1.9 or newer: pip install 'frameboost[sklearn]'"
    ) from error

from frameboost.sklearn.classifier import FrameBoostClassifier
from frameboost.sklearn.ranker import FrameBoostRanker
from frameboost.sklearn.regressor import FrameBoostRegressor

__all__ = ["FrameBoostClassifier", "FrameBoostRanker", "FrameBoostRegressor"]
