"""scikit-learn estimators over `frameboost.fit`, with ``fit(X, y)`` and ``predict(X)``.

They need scikit-learn (``pip install 'frameboost[sklearn]'``), so this module is imported on first use.

- `estimator`: their base class
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

try:
    import sklearn
    from sklearn.base import ClassifierMixin, RegressorMixin
    from sklearn.utils import check_consistent_length, column_or_1d

    if tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9):  # which can't read the names of polars 2's columns
        raise ImportError(f"scikit-learn {sklearn.__version__} is too old")
except ImportError as error:
    raise ImportError(
        "frameboost's estimators need scikit-learn 1.9 or newer: pip install 'frameboost[sklearn]'"
    ) from error

from frameboost.checks.messages import shown
from frameboost.engines.polars.engine import PolarsEngine
from frameboost.errors import ParameterError
from frameboost.interop.ensemble_checks import class_labels
from frameboost.metrics.ranking import ranking_metric
from frameboost.metrics.terms import evaluate
from frameboost.model.model import Model
from frameboost.sklearn.estimator import Array, Estimator, FloatArray, check_labels, check_numbers, documented, weighted

__all__ = ["FrameBoostClassifier", "FrameBoostRanker", "FrameBoostRegressor"]


@documented
class FrameBoostRegressor(RegressorMixin, Estimator):
    """A regressor for scikit-learn.

    X may be a polars or pandas frame or an Arrow table, whose columns keep their types (strings are categories, dates
    are dates), or anything that scikit-learn takes for an array of numbers. NULL and NaN are missing values; a column
    without any value is not split on. A row of weight 0 is as if it were not there.

    Parameters
    ----------
    objective : str, optional
        As for `frameboost.fit`; by default ``'reg:squarederror'``.
    <parameters>

    Attributes
    ----------
    <attributes>

    Examples
    --------
    >>> import polars as pl, frameboost as fb
    >>> X = pl.DataFrame({"carrier": ["AA", "UA", "B6", "UA"] * 25, "delay": range(100)})
    >>> y = X["delay"] - 9 * (X["carrier"] == "UA").cast(int)
    >>> regressor = fb.FrameBoostRegressor(n_estimators=20).fit(X, y)
    >>> regressor.predict(X[:3]).round(1)
    array([ 0.3, -6.6,  2.1])
    >>> round(regressor.score(X, y), 3)
    1.0
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, eval_set: Any = None) -> FrameBoostRegressor:
        """Train on X and y.

        Parameters
        ----------
        X : frame or array-like of shape (n_samples, n_features)
            The features.
        y : array-like of shape (n_samples,)
            The target: finite numbers.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows, 0 or more.
        eval_set : list of (X, y), optional
            Rows to validate on, as ``validation_0`` and so on in ``model_.history``; early stopping watches the last.
        """
        target = check_numbers(y, self)
        frame = self._read(X, reset=True)
        frame, roles = weighted(frame, target, sample_weight)
        held_out = self._held_out(eval_set, lambda given: check_numbers(given, self))
        self._train(frame, self._objective("reg:squarederror"), roles, held_out)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the predictions for X's rows."""
        return self._score(X)


@documented
class FrameBoostClassifier(ClassifierMixin, Estimator):
    """A classifier for scikit-learn.

    X is as in `FrameBoostRegressor`; y may hold labels of any kind.

    Parameters
    ----------
    objective : str, optional
        As for `frameboost.fit`; by default ``'binary:logistic'`` for two classes, ``'multi:softprob'`` for more.
    <parameters>

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted. The model has them too if they are strings or Booleans; others it knows as 0, 1, ...
    <attributes>

    Examples
    --------
    >>> import polars as pl, frameboost as fb
    >>> X = pl.DataFrame({"carrier": ["AA", "UA", "B6", None] * 25, "delay": range(100)})
    >>> y = pl.Series(["early", "late"] * 50)
    >>> classifier = fb.FrameBoostClassifier(n_estimators=5).fit(X, y)
    >>> classifier.predict(X[:3]).tolist()
    ['early', 'late', 'early']
    >>> classifier.predict_proba(X[:2]).round(2).tolist()
    [[0.88, 0.12], [0.12, 0.88]]
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, eval_set: Any = None) -> FrameBoostClassifier:
        """Train on X and y.

        Parameters
        ----------
        X : frame or array-like of shape (n_samples, n_features)
            The features.
        y : array-like of shape (n_samples,)
            The labels, of at least two classes.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows, 0 or more.
        eval_set : list of (X, y), optional
            Rows to validate on, as ``validation_0`` and so on in ``model_.history``; early stopping watches the last.
        """
        labels = check_labels(y, self)
        frame = self._read(X, reset=True)
        frame, roles = weighted(frame, labels, sample_weight)
        self.classes_, roles["target"] = np.unique(roles["target"], return_inverse=True)
        n_classes = len(self.classes_)
        if n_classes < 2:
            raise ValueError(
                f"y has only one class ({shown(self.classes_.tolist()[0])}); there must be at least two classes"
            )
        objective = self._objective("binary:logistic" if n_classes == 2 else "multi:softprob")
        family = str(objective).partition(":")[0]
        if family not in ("binary", "multi"):
            raise ParameterError(
                f"objective {shown(objective)} is not one of a classifier, 'binary:...' or 'multi:...'"
            )
        if family == "binary" and n_classes > 2:
            raise ParameterError(f"objective {shown(objective)} is for two classes; y has {n_classes:,} classes")
        held_out = self._held_out(eval_set, self._encoded)
        self._train(frame, objective, roles, held_out, **({"num_class": n_classes} if family == "multi" else {}))
        self.model_ = _labelled(self.model_, self.classes_)
        return self

    def _encoded(self, y: Any) -> Array:
        """Return the class numbers of validation labels."""
        labels = check_labels(y, self)
        unknown = ~np.isin(labels, self.classes_)
        if unknown.any():
            raise ValueError(
                f"eval_set has the label {shown(labels[unknown].tolist()[0])}, which is not among the classes of y"
            )
        return np.searchsorted(self.classes_, labels)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the classes, in the order of ``classes_``, for X's rows."""
        scores = self._score(X)
        return scores if scores.ndim == 2 else np.column_stack([1.0 - scores, scores])

    def decision_function(self, X: Any) -> FloatArray:
        """Return the margins for X's rows: of the second of two classes, or a column for each class."""
        return self._score(X, "margin")

    def predict(self, X: Any) -> Array:
        """Return the most probable class for X's rows."""
        probabilities = self.predict_proba(X)
        best: Array = self.classes_[probabilities.argmax(axis=1)]
        return best


def _labelled(model: Model, classes: Array) -> Model:
    """Return the model with the labels of the classes, if they are strings or Booleans."""
    ensemble = replace(model.ensemble, labels=class_labels(classes, model.ensemble.loss))
    return Model(ensemble, history=model.history, best_round=model.best_iteration, best_score=model.best_score)


@documented
class FrameBoostRanker(Estimator):
    """Learning to rank: orders the rows of each query.

    X is as in `FrameBoostRegressor`.

    Parameters
    ----------
    objective : str, optional
        As for `frameboost.fit`; by default ``'rank:ndcg'``.
    <parameters>

    Attributes
    ----------
    <attributes>

    Examples
    --------
    >>> import polars as pl, frameboost as fb
    >>> X = pl.DataFrame({"clicks": [5, 0, 2, 1, 7, 3]})
    >>> ranker = fb.FrameBoostRanker(n_estimators=3)
    >>> ranker.fit(X, y=[2, 0, 1, 0, 2, 1], qid=[1, 1, 1, 2, 2, 2]).predict(X).shape
    (6,)
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "ranker"
        return tags

    def fit(self, X: Any, y: Any, *, qid: Any = None) -> FrameBoostRanker:
        """Train on X and y.

        Parameters
        ----------
        X : frame or array-like of shape (n_samples, n_features)
            The features.
        y : array-like of shape (n_samples,)
            Relevance of each row to its query: 0, 1, 2, ...
        qid : array-like of shape (n_samples,), optional
            The query that each row belongs to: numbers or strings, in any order. Without it all are of one query.
        """
        target = check_numbers(y, self)
        frame = self._read(X, reset=True)
        queries = np.zeros(len(frame)) if qid is None else column_or_1d(qid)
        check_consistent_length(frame, target, queries)
        _, numbers = np.unique(queries, return_inverse=True)
        self._train(frame, self._objective("rank:ndcg"), {"target": target, "group": numbers})
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return scores for X's rows: the higher, the earlier in its query."""
        return self._score(X)

    def score(self, X: Any, y: Any, *, qid: Any = None) -> float:
        """Return the mean NDCG of the queries, as the metric ``ndcg`` of `frameboost.fit` has it.

        Parameters
        ----------
        X : frame or array-like of shape (n_samples, n_features)
            The features.
        y : array-like of shape (n_samples,)
            Relevance of each row to its query.
        qid : array-like of shape (n_samples,), optional
            The query that each row belongs to. Without it all are of one query.
        """
        target, prediction = check_numbers(y, self), self.predict(X)
        queries = np.zeros(len(prediction)) if qid is None else column_or_1d(qid)
        check_consistent_length(target, queries, prediction)
        _, numbers = np.unique(queries, return_inverse=True)
        rows = pl.LazyFrame({"label": target, "qid": numbers, "prediction": prediction})
        engine = PolarsEngine(rows, (), {name: name for name in ("label", "qid", "prediction")})
        metric = ranking_metric("ndcg", self.model_.parameters)
        assert metric is not None
        return evaluate(metric.over(("label", "weight", "prediction", *metric.terms)), engine)
