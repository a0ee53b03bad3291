"""The estimators: a regressor, a classifier and a ranker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import polars as pl
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from frameboost.checks.arguments import not_negative
from frameboost.checks.messages import shown
from frameboost.engines.choose import rows_of
from frameboost.errors import ParameterError
from frameboost.interop.ensembles import class_labels
from frameboost.losses.custom import family_of, with_function
from frameboost.metrics.metric import evaluate, ranking_metric
from frameboost.model.model import Model
from frameboost.sklearn.data import (
    Array,
    FloatArray,
    Rows,
    check_labels,
    check_numbers,
    check_queries,
    check_weights,
    read,
    read_parts,
    role_columns,
    with_roles,
    without_zeros,
)
from frameboost.sklearn.estimator import Estimator, documented

__all__ = ["FrameBoostClassifier", "FrameBoostRanker", "FrameBoostRegressor"]


@documented
class FrameBoostRegressor(RegressorMixin, Estimator):
    """A regressor for scikit-learn.

    X may be a polars or pandas frame or an Arrow table, whose columns keep their types (strings are categories, dates
    are dates), anything that scikit-learn takes for an array of numbers, or a sparse matrix of SciPy's, in which an
    entry that is not stored is 0. NULL and NaN are missing values; a column without any value is not split on. A row of
    weight 0 is as if it were not there. y may have several columns, which are predicted as an array.

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, eval_set: Any = None, sample_weight_eval_set: Any = None
    ) -> FrameBoostRegressor:
        """Train on X and y.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            The features.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            The target: finite numbers. Each of several targets has trees of its own.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows, 0 or more.
        eval_set : list of (X, y), optional
            Rows to validate on, as ``validation_0`` and so on in `evals_result_`; early stopping watches the last.
        sample_weight_eval_set : list of array-like, optional
            Weights of these rows, for each pair; by default 1.
        """
        target = self._target(y)
        frame = read(self, X, reset=True)
        rows = Rows(*without_zeros(frame, target, sample_weight))
        held_out = self._held_out(
            eval_set, self._target, weight=("sample_weight_eval_set", sample_weight_eval_set, check_weights)
        )
        for i, other in enumerate(held_out):
            if other.roles["target"].shape[1:] != target.shape[1:]:
                raise ValueError(f"y of eval_set[{i}] has shape {other.roles['target'].shape}, and y {target.shape}")
        self._train(rows, self._objective("reg:squarederror"), held_out)
        return self

    def _target(self, y: Any, name: str = "y") -> FloatArray:
        return check_numbers(y, self, name, several=True)

    def predict(self, X: Any) -> FloatArray:
        """Return the predictions for X's rows."""
        return self._score(X)

    def conform(self, X: Any, y: Any, *, coverage: float = 0.9) -> FrameBoostRegressor:
        """Learn intervals from rows that the regressor was not trained on, for `predict_interval`.

        ``model_`` is from then on one with intervals (see `Model.conform`, which says what they promise). The
        regressor must be fitted, and ``fit`` forgets them.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            The features.
        y : array-like of shape (n_samples,)
            The target.
        coverage : float, default 0.9
            The share of labels that intervals are to hold.

        Returns
        -------
        FrameBoostRegressor
            The regressor itself.
        """
        check_is_fitted(self)
        rows = Rows(read(self, X, reset=False), {"target": check_numbers(y, self, "y", several=False)})
        check_consistent_length(rows.frame, rows.roles["target"])
        columns = role_columns(rows)
        self.model_ = self.model_.conform(with_roles(rows, columns), columns["target"][0], coverage=coverage)
        return self

    def predict_interval(self, X: Any) -> FloatArray:
        """Return the ends of the intervals of X's rows, an array of shape (n_samples, 2), after `conform`.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> X, y = pl.DataFrame({"x": [1, 2, 3, 4] * 5}), [0.0, 0.0, 8.0, 8.0] * 5
        >>> regressor = fb.FrameBoostRegressor(n_estimators=1, learning_rate=1, reg_lambda=0).fit(X, y)
        >>> regressor.conform(X, [label + 1 for label in y]).predict_interval(X[1:3])
        array([[-1.,  1.],
               [ 7.,  9.]])
        """
        check_is_fitted(self)
        ends = [self.model_.predict(frame, output="interval").struct.unnest() for frame in read_parts(self, X)]
        return pl.concat(ends).to_numpy(writable=True)

    def staged_predict(self, X: Any) -> Iterator[FloatArray]:
        """Yield the predictions for X's rows after the first round, after two, and so on."""
        return self._staged(X)


@documented
class FrameBoostClassifier(ClassifierMixin, Estimator):
    """A classifier for scikit-learn.

    X is as in `FrameBoostRegressor`; y may hold labels of any kind.

    Parameters
    ----------
    objective : str, optional
        As for `frameboost.fit`; by default ``'binary:logistic'`` for two classes, ``'multi:softprob'`` for more.
    class_weight : dict or 'balanced', optional
        Factors of the weights of rows, by label; a label that is not in the dict has 1. ``'balanced'`` is ``n_samples /
        (n_classes * np.bincount(y))``, which gives all classes the same weight. They multiply ``sample_weight``, and
        do not concern ``eval_set``.
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

    def __init__(self, *, class_weight: Any = None, **parameters: Any) -> None:
        super().__init__(**parameters)
        self.class_weight = class_weight

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, eval_set: Any = None, sample_weight_eval_set: Any = None
    ) -> FrameBoostClassifier:
        """Train on X and y.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            The features.
        y : array-like of shape (n_samples,)
            The labels. If all are one, a warning says so, and it is predicted.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows, 0 or more.
        eval_set : list of (X, y), optional
            Rows to validate on, as ``validation_0`` and so on in `evals_result_`; early stopping watches the last.
        sample_weight_eval_set : list of array-like, optional
            Weights of these rows, for each pair; by default 1.
        """
        labels = check_labels(y, self)
        frame = read(self, X, reset=True)
        rows = Rows(*without_zeros(frame, labels, sample_weight))
        self._weigh_classes(rows.roles)
        self.classes_, rows.roles["target"] = np.unique(rows.roles["target"], return_inverse=True)
        objective = self._objective_for(len(self.classes_))
        held_out = self._held_out(
            eval_set, self._encoded, weight=("sample_weight_eval_set", sample_weight_eval_set, check_weights)
        )
        of_classes = {"num_class": len(self.classes_)} if family_of(objective) == "multi" else {}
        self._train(rows, objective, held_out, **of_classes)
        self.model_ = _labelled(self.model_, self.classes_)
        return self

    def _objective_for(self, n_classes: int) -> Any:
        """Return the objective, which must be one for that many classes."""
        objective = self._objective("binary:logistic" if n_classes == 2 else "multi:softprob")
        objective = with_function(objective, n_classes)
        family = family_of(objective)
        if family not in ("binary", "multi"):
            raise ParameterError(
                f"objective {shown(objective)} is not one of a classifier, 'binary:...' or 'multi:...'"
            )
        if family == "binary" and n_classes > 2:
            raise ParameterError(f"objective {shown(objective)} is for two classes; y has {n_classes:,} classes")
        if n_classes == 1:
            return "multi:softprob"  # of which the second class need not be known
        return objective

    def _weigh_classes(self, roles: dict[str, Array]) -> None:
        """Multiply the weights of rows by those of their classes."""
        if self.class_weight is None:
            return
        if isinstance(self.class_weight, Mapping):
            for label, factor in self.class_weight.items():
                not_negative(f"class_weight of {shown(label)}", factor)
        elif not isinstance(self.class_weight, str) or self.class_weight != "balanced":
            raise ParameterError(
                f"class_weight must be a dict of label to factor, 'balanced' or None, not {shown(self.class_weight)}"
            )
        factors = compute_sample_weight(self.class_weight, roles["target"])
        if not factors.any():
            raise ParameterError("class_weight is zero for every class of y; some class must count")
        roles["weight"] = roles.get("weight", 1.0) * factors

    def _encoded(self, y: Any, name: str) -> Array:
        """Return the class numbers of validation labels."""
        labels = check_labels(y, self, name)
        unknown = ~np.isin(labels, self.classes_)
        if unknown.any():
            raise ValueError(
                f"{name} has the label {shown(labels[unknown].tolist()[0])}, which is not among the classes of y"
            )
        return np.searchsorted(self.classes_, labels)

    @property
    def _probability(self) -> Literal["mean", "probability"]:
        """The output that has the probabilities; predictions may be margins or numbers of classes."""
        return "probability" if self.model_.ensemble.loss.has_probabilities else "mean"  # of a hinge: 0 and 1

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the classes, in the order of ``classes_``, for X's rows."""
        check_is_fitted(self)
        return self._of_each_class(self._output(X, self._probability))

    def decision_function(self, X: Any) -> FloatArray:
        """Return the margins for X's rows: of the second of two classes, or a column for each class."""
        return _of_second_class(self._score(X, "margin"))

    def predict(self, X: Any) -> Array:
        """Return the most probable class for X's rows."""
        probabilities = self.predict_proba(X)
        best: Array = self.classes_[probabilities.argmax(axis=1)]
        return best

    def staged_predict_proba(self, X: Any) -> Iterator[FloatArray]:
        """Yield the probabilities for X's rows after the first round, after two, and so on."""
        check_is_fitted(self)
        for scores in self._staged(X, self._probability):
            yield self._of_each_class(scores)

    def staged_decision_function(self, X: Any) -> Iterator[FloatArray]:
        """Yield the margins for X's rows after the first round, after two, and so on."""
        return map(_of_second_class, self._staged(X, "margin"))

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """Yield the most probable class for X's rows after the first round, after two, and so on."""
        for probabilities in self.staged_predict_proba(X):
            yield self.classes_[probabilities.argmax(axis=1)]

    def _of_each_class(self, scores: FloatArray) -> FloatArray:
        """Return the probabilities of the classes, where of two classes there is that of the second."""
        if scores.ndim == 2:
            return scores
        return scores[:, None] if len(self.classes_) == 1 else np.column_stack([1.0 - scores, scores])


def _of_second_class(margins: FloatArray) -> FloatArray:
    """Return the margins of the classes, of two classes how far that of the second is above that of the first."""
    return margins[:, 1] - margins[:, 0] if margins.ndim == 2 and margins.shape[1] == 2 else margins


def _labelled(model: Model, classes: Array) -> Model:
    """Return the model with the labels of the classes, if they are strings or Booleans."""
    ensemble = replace(model.ensemble, labels=class_labels(classes, model.ensemble.loss))
    return Model(ensemble)


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
    >>> ranker = fb.FrameBoostRanker(n_estimators=3, min_child_weight=0)
    >>> ranker.fit(X, y=[2, 0, 1, 0, 2, 1], qid=[1, 1, 1, 2, 2, 2]).predict(X).shape
    (6,)
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "ranker"
        return tags

    def fit(self, X: Any, y: Any, *, qid: Any = None, eval_set: Any = None, eval_qid: Any = None) -> FrameBoostRanker:
        """Train on X and y.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            The features.
        y : array-like of shape (n_samples,)
            Relevance of each row to its query: 0, 1, 2, ...
        qid : array-like of shape (n_samples,), optional
            The query that each row belongs to: numbers or strings, in any order. Without it all are of one query.
        eval_set : list of (X, y), optional
            Rows to validate on, as ``validation_0`` and so on in `evals_result_`; early stopping watches the last.
        eval_qid : list of array-like, optional
            The queries of these rows, for each pair. Without it the rows of a pair are of one query.
        """
        target = check_numbers(y, self)
        frame = read(self, X, reset=True)
        queries = np.zeros(len(frame)) if qid is None else check_queries(qid)
        check_consistent_length(frame, target, queries)
        held_out = self._held_out(
            eval_set, lambda given, name: check_numbers(given, self, name), group=("eval_qid", eval_qid, check_queries)
        )
        self._train(Rows(frame, {"target": target, "group": queries}), self._objective("rank:ndcg"), held_out)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return scores for X's rows: the higher, the earlier in its query."""
        return self._score(X)

    def staged_predict(self, X: Any) -> Iterator[FloatArray]:
        """Yield the scores for X's rows after the first round, after two, and so on."""
        return self._staged(X)

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
        numbers = np.zeros(len(prediction)) if qid is None else check_queries(qid)
        check_consistent_length(target, numbers, prediction)
        table = pl.DataFrame({"label": target, "qid": numbers, "prediction": prediction})
        metric = ranking_metric("ndcg", self.model_.parameters)
        assert metric is not None
        return evaluate(metric.over(("label", "weight", "prediction", *metric.terms)), rows_of(table, table.columns))
