"""The classifier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from frameboost.checks.arguments import not_negative
from frameboost.checks.messages import shown
from frameboost.errors import ParameterError
from frameboost.interop.ensembles import class_labels
from frameboost.model.model import Model
from frameboost.sklearn.constructors import by_any_name
from frameboost.sklearn.estimator import Estimator, documented
from frameboost.sklearn.rows import Rows
from frameboost.sklearn.tables import read
from frameboost.sklearn.targets import Array, FloatArray, check_labels, check_weights, without_zeros

__all__ = ["FrameBoostClassifier"]


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

    @by_any_name(inherited=Estimator.__init__)
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
        of_classes = {"num_class": len(self.classes_)} if str(objective).startswith("multi:") else {}
        self._train(rows, objective, held_out, **of_classes)
        self.model_ = _labelled(self.model_, self.classes_)
        return self

    def _objective_for(self, n_classes: int) -> Any:
        """Return the objective, which must be one for that many classes."""
        objective = self._objective("binary:logistic" if n_classes == 2 else "multi:softprob")
        family = str(objective).partition(":")[0]
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
        return "mean" if self.model_.objective == "binary:hinge" else "probability"  # whose probabilities are 0 and 1

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
