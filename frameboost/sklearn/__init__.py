"""scikit-learn estimators over `frameboost.fit`, with ``fit(X, y)`` and ``predict(X)``.

They need scikit-learn (``pip install 'frameboost[sklearn]'``), so this module is imported on first use.

- `estimators`: the regressor, the classifier and the ranker
- `estimator`: their base class
- `arguments`: names and values of other libraries' estimators
- `data`: X, y and weights as the frame that is trained on
- `peer_callbacks`: callbacks in the form of other libraries's
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

from frameboost.sklearn.estimators import FrameBoostClassifier, FrameBoostRanker, FrameBoostRegressor

__all__ = ["FrameBoostClassifier", "FrameBoostRanker", "FrameBoostRegressor"]
