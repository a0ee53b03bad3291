"""The estimators: a regressor, a classifier and a ranker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import polars as pl
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import check_consistent_length
from sklearn.utils.class_weight import compute_sample_weight

from frameboost.checks.arguments import not_negative
from frameboost.checks.messages import listed, shown
from frameboost.engines.choose import rows_of
from frameboost.errors import ParameterError
from frameboost.interop.ensembles import class_labels
from frameboost.losses.custom import with_function
from frameboost.losses.loss import family_of
from frameboost.metrics.metric import evaluate, ranking_metric
from frameboost.model.model import Model
from frameboost.sklearn.arguments import is_pairs, of_classes, of_predict
from frameboost.sklearn.data import (
    Array,
    FloatArray,
    Rows,
    check_labels,
    check_numbers,
    check_queries,
    check_weights,
    has_queries,
    has_queries_beside,
    queries_in,
    queries_of_sizes,
    read,
    read_parts,
    read_whole,
    role_columns,
    with_roles,
)
from frameboost.sklearn.estimator import Estimator, Initial, documented

__all__ = ["FrameBoostClassifier", "FrameBoostRanker", "FrameBoostRegressor"]


class _Pointwise(Estimator):
    """The base class of estimators that predict each row independently: all except the ranker."""

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, base_margin: Any = None, eval_set: Any = None,
        sample_weight_eval_set: Any = None, base_margin_eval_set: Any = None, eval_metric: Any = None,
        callbacks: Any = None, init_model: Any = None, eval_names: Any = None, verbose: Any = None, X_val: Any = None,
        y_val: Any = None, sample_weight_val: Any = None, **others: Any,
    ) -> Self:  # fmt: skip
        """Train on X and y.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            The features.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            The target of a regressor (finite numbers), or the labels of a classifier; if all labels are equal, it warns
            and predicts that label. Several columns are several targets, or labels of 0 and 1 (multilabel); each has
            separate trees.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights, 0 or more.
        base_margin : array-like of shape (n_samples,) or (n_samples, n_margins), optional
            An offset, added to the margins of each row; `predict` then requires it too. The base score is estimated
            given the offset. (LightGBM's ``init_score``.)
        eval_set : list of (X, y), optional
            Evaluation sets, ``validation_0`` and so on in `evals_result_`; early stopping watches the last.
        sample_weight_eval_set, base_margin_eval_set : list of array-like, optional
            Weights and base margins of each pair; by default 1 and none.
        eval_metric : str, Metric, function or list of them, optional
            Metrics that override those of the constructor.
        callbacks : list of functions, optional
            Functions to call after each round with its number and metrics, as in `frameboost.fit`; training stops if
            one returns True. Early stopping callbacks of XGBoost and LightGBM set the parameters of early stopping.
        init_model : Model, estimator or path, optional
            A model with the same objective and features to continue from, by ``n_estimators`` rounds (XGBoost's
            ``xgb_model``).
        eval_names : list of str, optional
            Names of the evaluation sets, by default ``validation_0`` and so on.
        verbose : bool, optional
            Whether to show a progress bar.
        X_val, y_val, sample_weight_val : optional
            scikit-learn's names for one pair of ``eval_set`` with its weights, which pipelines can transform
            (``transform_input=["X_val"]``).
        **others
            Names of XGBoost and LightGBM (``xgb_model``, ``init_score``, ``eval_X``, ...), and ``categorical_feature``
            or ``cat_features``, which override ``categorical_features`` of the constructor.
        """
        given = {
            "sample_weight": sample_weight, "base_margin": base_margin, "eval_set": eval_set,
            "sample_weight_eval_set": sample_weight_eval_set, "base_margin_eval_set": base_margin_eval_set,
            "eval_names": eval_names, "eval_metric": eval_metric, "callbacks": callbacks, "init_model": init_model,
            "verbose": verbose,
        }  # fmt: skip
        validation = {"X_val": X_val, "y_val": y_val, "sample_weight_val": sample_weight_val}
        return self._fit(X, y, given, validation | others)


@documented
class FrameBoostRegressor(RegressorMixin, _Pointwise):
    """Gradient boosted regressor for scikit-learn.

    X may be a polars or pandas frame or an Arrow table, which keep their column types (strings are categories, dates
    are dates), a numeric array-like, or a SciPy sparse matrix, in which implicit entries are 0. NULL and NaN are
    missing; an entirely missing column gets no splits. Rows of weight 0 are ignored. y may have several columns, which
    are predicted as an array.

    Parameters
    ----------
    objective : str, Objective or function, optional
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

    _default_objective, _kind = "reg:squarederror", "regressor"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _target(self, y: Any, name: str) -> FloatArray:
        return check_numbers(y, self, name, several=True)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, base_margin: Any = None) -> float:
        """Return R², as scikit-learn's regressors do.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            The features.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            The target.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows.
        base_margin : array-like, optional
            As for `predict`.
        """
        predicted = self.predict(X, base_margin=base_margin)
        return float(r2_score(y, predicted, sample_weight=sample_weight))

    def conform(self, X: Any, y: Any, *, coverage: float = 0.9, base_margin: Any = None) -> FrameBoostRegressor:
        """Fit prediction intervals to rows that the regressor was not trained on, for `predict_interval`.

        The intervals become part of ``model_`` (`Model.conform`). The regressor must be fitted; ``fit`` discards them.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            The features.
        y : array-like of shape (n_samples,)
            The target.
        coverage : float, default 0.9
            The probability that an interval contains the label.
        base_margin : array-like, optional
            As for `predict`; required if fit had some.

        Returns
        -------
        FrameBoostRegressor
            The regressor itself.
        """
        self._check_is_fitted()
        rows = Rows(read(self, X, reset=False), {"target": check_numbers(y, self, "y", several=False)})
        check_consistent_length(rows.frame, rows.roles["target"])
        columns = role_columns(rows)
        _, (frame,) = self._with_margins(self.model_, [read_whole(self, X)], base_margin)
        labelled = with_roles(Rows(frame, rows.roles), columns)
        self.model_ = self.model_.conform(labelled, columns["target"][0], coverage=coverage)
        return self

    def predict_interval(self, X: Any, *, base_margin: Any = None) -> FloatArray:
        """Return the prediction intervals of X's rows, shape (n_samples, 2), after `conform`.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> X, y = pl.DataFrame({"x": [1, 2, 3, 4] * 5}), [0.0, 0.0, 8.0, 8.0] * 5
        >>> regressor = fb.FrameBoostRegressor(n_estimators=1, learning_rate=1, reg_lambda=0).fit(X, y)
        >>> regressor.conform(X, [label + 1 for label in y]).predict_interval(X[1:3])
        array([[-1.,  1.],
               [ 7.,  9.]])
        """
        self._check_is_fitted()
        model, frames = self._with_margins(self.model_, read_parts(self, X), base_margin)
        ends = [model.predict(frame, output="interval").struct.unnest() for frame in frames]
        return pl.concat(ends).to_numpy(writable=True)

    def staged_predict(self, X: Any, base_margin: Any = None) -> Iterator[FloatArray]:
        """Yield the predictions for X's rows after each round."""
        return self._staged(X, "mean", base_margin)


@documented
class FrameBoostClassifier(ClassifierMixin, _Pointwise):
    """Gradient boosted classifier for scikit-learn.

    X is as in `FrameBoostRegressor`; y may hold labels of any kind.

    Parameters
    ----------
    objective : str, Objective or function, optional
        As for `frameboost.fit`; by default ``'binary:logistic'`` for two classes and ``'multi:softprob'`` for more.
        With more than two classes ``'binary:logistic'`` means ``'multi:softprob'``, as in XGBoost.
    class_weight : dict or 'balanced', optional
        Weights of the classes by label, 1 by default. ``'balanced'`` is ``n_samples / (n_classes * np.bincount(y))``,
        which gives all classes the same total weight. They multiply ``sample_weight``, but not the weights of
        ``eval_set``.
    <parameters>

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The sorted labels. The model stores strings and Booleans, and numbers other labels from 0. For a multilabel y a
        list with the labels of each column.
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

    _kind = "classifier"

    def __init__(self, *, class_weight: Any = None, **parameters: Any) -> None:
        super().__init__(**parameters)
        self.class_weight = class_weight

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _target(self, y: Any, name: str) -> Array:
        return check_labels(y, self, name)

    def _prepared(self, rows: Rows, initial: Initial) -> tuple[Rows, Any, dict[str, Any]]:
        target = rows.roles["target"]
        roles = dict(rows.roles)
        _weigh_classes(roles, self.class_weight, target, "class_weight")
        if target.ndim == 2:
            self.classes_: Any = [np.unique(column) for column in target.T]
            objective = with_function(self._objective("binary:logistic"), 2)
            if family_of(objective) != "binary":
                raise ParameterError(f"objective {shown(objective)} is not for a multilabel y; set 'binary:...'")
            return Rows(rows.frame, roles | {"target": target.astype(np.float64)}), objective, {}
        self.classes_ = self._classes_to_train_on(target, initial)
        roles["target"] = self._numbered(target, "y")
        objective = self._objective_for(len(self.classes_))
        of_classes = {"num_class": len(self.classes_)} if family_of(objective) == "multi" else {}
        return Rows(rows.frame, roles), objective, of_classes

    def _metrics(self, metric: Any, objective: Any) -> Any:
        return of_classes(metric, several=family_of(objective) == "multi")

    def _classes_to_train_on(self, target: Array, initial: Initial) -> Array:
        """Return the classes of y, or those of the model to continue from, which may include absent ones.

        Raises
        ------
        ParameterError
            If y has a class that is unknown to that model.
        """
        classes: Array = np.unique(target)
        if initial.model is None:
            return classes
        known = initial.classes if initial.classes is not None else np.array(initial.model.classes)
        if np.isin(classes, known).all():
            return known
        if initial.classes is None and not initial.model.ensemble.labels and len(classes) == len(known):
            return classes  # which the model knows as 0, 1, ...
        raise ParameterError(
            f"init_model was trained on the classes {listed(known.tolist())}, and y has {listed(classes.tolist())}"
        )

    def _train(self, *arguments: Any, **more: Any) -> None:
        super()._train(*arguments, **more)
        if not self._is_multilabel:
            self.model_ = _labelled(self.model_, self.classes_)

    @property
    def _is_multilabel(self) -> bool:
        return isinstance(self.classes_, list)

    @property
    def n_classes_(self) -> int:
        """The number of classes, or for a multilabel y the number of labels."""
        self._check_is_fitted()
        return len(self.classes_)

    def _facts(self) -> dict[str, Any]:
        facts = super()._facts()
        if self._is_multilabel:
            return facts | {"labels": len(self.classes_)}
        classes = self.classes_.tolist()
        return facts | {"classes": None if classes == list(self.model_.classes) else classes}

    def _take(self, model: Model, facts: Mapping[str, Any]) -> None:
        loss = model.ensemble.loss
        if "kind" not in facts and not loss.has_probabilities and loss.family not in ("binary", "multi"):
            raise ParameterError(f"the model has objective {shown(loss.name)}, which is not for a classifier")
        super()._take(model, facts)
        n_labels, classes = facts.get("labels"), facts.get("classes") or model.classes or [0, 1]
        self.classes_ = [np.array([0, 1])] * n_labels if n_labels else np.array(classes)

    def _objective_for(self, n_classes: int) -> Any:
        """Return the objective, checked against the number of classes."""
        objective = self._objective("binary:logistic" if n_classes == 2 else "multi:softprob")
        objective = with_function(objective, n_classes)
        # XGBoost's default, which is of more classes there too.
        if n_classes > 2 and isinstance(objective, str) and objective == "binary:logistic":
            objective = "multi:softprob"
        family = family_of(objective)
        if family not in ("binary", "multi"):
            raise ParameterError(
                f"objective {shown(objective)} is not for a classifier; set 'binary:...' or 'multi:...'"
            )
        if family == "binary" and n_classes > 2:
            raise ParameterError(f"objective {shown(objective)} is for two classes; y has {n_classes:,} classes")
        if n_classes == 1:
            return "multi:softprob"  # of which the second class need not be known
        return objective

    def _arguments(self, X: Any, given: dict[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of `fit`, with LightGBM's class weights of evaluation sets."""
        others = dict(others)
        weights = others.pop("eval_class_weight", None)
        return super()._arguments(X, given, others) | {"eval_class_weight": weights}

    def _held_out(self, arguments: Mapping[str, Any], rows: Rows) -> list[Rows]:
        held_out, weights = super()._held_out(arguments, rows), arguments["eval_class_weight"]
        if weights is None:
            return held_out
        if not isinstance(weights, list | tuple) or len(weights) != len(held_out):
            raise ParameterError(
                f"eval_class_weight must be a list with an item for each pair of eval_set, not {shown(weights)}"
            )
        for i, (part, weight) in enumerate(zip(held_out, weights, strict=True)):
            labels = part.roles["target"] if self._is_multilabel else self.classes_[part.roles["target"]]
            _weigh_classes(part.roles, weight, labels, f"eval_class_weight[{i}]")
        return held_out

    def _encoded(self, y: Any, name: str) -> Array:
        """Return the class indices of an evaluation set's labels."""
        labels = self._target(y, name)
        if self._is_multilabel or labels.ndim == 2:
            return labels.astype(np.float64)
        return self._numbered(labels, name)

    def _numbered(self, labels: Array, name: str) -> Array:
        unknown = ~np.isin(labels, self.classes_)
        if unknown.any():
            raise ValueError(
                f"{name} has the label {shown(labels[unknown].tolist()[0])}, which is not among the classes of y"
            )
        return np.searchsorted(self.classes_, labels)

    @property
    def _probability(self) -> Literal["mean", "probability"]:
        """The output with probabilities; the plain prediction may be margins or class indices."""
        return "probability" if self.model_.ensemble.loss.has_probabilities else "mean"  # of a hinge: 0 and 1

    def predict_proba(
        self, X: Any, *, base_margin: Any = None, iteration_range: Any = None, **others: Any
    ) -> FloatArray:
        """Return class probabilities for X's rows, in the order of ``classes_``, or of each label.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            The features.
        base_margin, iteration_range, **others
            As for `predict`.
        """
        self._check_is_fitted()
        base_margin, output, rounds = of_predict(base_margin, False, iteration_range, others)
        if output != "mean":
            found: FloatArray = self._predicted(X, base_margin, False, iteration_range, others)
            return found
        return self._probabilities(X, base_margin, rounds)

    def _probabilities(self, X: Any, base_margin: Any, rounds: Any) -> FloatArray:
        return self._of_each_class(self._output(X, self._probability, base_margin, rounds))

    def decision_function(self, X: Any, *, base_margin: Any = None) -> FloatArray:
        """Return the margins for X's rows: of the second of two classes, or of each class or label."""
        self._check_is_fitted()
        margins = self._output(X, "margin", base_margin)
        return margins if self._is_multilabel else _of_second_class(margins)

    def _of_mean(self, X: Any, base_margin: Any, rounds: Any) -> Array:
        return self._chosen(self._probabilities(X, base_margin, rounds))

    def _chosen(self, probabilities: FloatArray) -> Array:
        """Return the most probable classes, by the model's threshold if there are two."""
        threshold = self.model_.ensemble.loss.threshold
        if self._is_multilabel:
            return (probabilities > threshold).astype(self.classes_[0].dtype)
        best = probabilities.argmax(axis=1) if probabilities.shape[1] != 2 else (probabilities[:, 1] > threshold) * 1
        labels: Array = self.classes_[best]
        return labels

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, base_margin: Any = None) -> float:
        """Return the accuracy, for a multilabel y the subset accuracy.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            The features.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            The labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows.
        base_margin : array-like, optional
            As for `predict`.
        """
        return float(accuracy_score(y, self.predict(X, base_margin=base_margin), sample_weight=sample_weight))

    def staged_predict_proba(self, X: Any, base_margin: Any = None) -> Iterator[FloatArray]:
        """Yield the probabilities for X's rows after each round."""
        self._check_is_fitted()
        for scores in self._staged(X, self._probability, base_margin):
            yield self._of_each_class(scores)

    def staged_decision_function(self, X: Any, base_margin: Any = None) -> Iterator[FloatArray]:
        """Yield the margins for X's rows after each round."""
        for margins in self._staged(X, "margin", base_margin):
            yield margins if self._is_multilabel else _of_second_class(margins)

    def staged_predict(self, X: Any, base_margin: Any = None) -> Iterator[Array]:
        """Yield the most probable classes for X's rows after each round."""
        return map(self._chosen, self.staged_predict_proba(X, base_margin))

    def _of_each_class(self, scores: FloatArray) -> FloatArray:
        """Return the probabilities of all classes; two classes are given by that of the second."""
        if scores.ndim == 2:
            return scores
        if len(self.classes_) == 1:
            return scores[:, None]
        probabilities = np.empty((len(scores), 2))
        probabilities[:, 0], probabilities[:, 1] = 1.0 - scores, scores
        return probabilities


def _weigh_classes(roles: dict[str, Array], class_weight: Any, labels: Array, name: str) -> None:
    """Multiply row weights by class weights; ``name`` is that of the parameter."""
    if class_weight is None:
        return
    if isinstance(class_weight, Mapping):
        for label, factor in class_weight.items():
            not_negative(f"{name} of {shown(label)}", factor)
    elif not isinstance(class_weight, str) or class_weight != "balanced":
        raise ParameterError(f"{name} must be a dict of label to factor, 'balanced' or None, not {shown(class_weight)}")
    factors = compute_sample_weight(class_weight, labels)
    if not factors.any():
        raise ParameterError(f"{name} is zero for every class of y; at least one must be positive")
    roles["weight"] = roles.get("weight", 1.0) * factors


def _of_second_class(margins: FloatArray) -> FloatArray:
    """Return the margins of the classes, for two the margin of the second minus that of the first."""
    return margins[:, 1] - margins[:, 0] if margins.ndim == 2 and margins.shape[1] == 2 else margins


def _labelled(model: Model, classes: Array) -> Model:
    """Return the model with class labels, if they are strings or Booleans."""
    ensemble = replace(model.ensemble, labels=class_labels(classes, model.ensemble.loss))
    return Model(ensemble)


@documented
class FrameBoostRanker(Estimator):
    """Gradient boosted ranker for scikit-learn: orders the rows of each query.

    X is as in `FrameBoostRegressor`.

    Parameters
    ----------
    objective : str, Objective or function, optional
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

    _default_objective, _kind = "rank:ndcg", "ranker"
    _columns: ClassVar[Mapping[str, tuple[str, str]]] = {**Estimator._columns, "group": ("qid", "eval_qid")}
    _has_query_column = False  # whether the queries in fit were a column of X

    def fit(
        self, X: Any, y: Any, *, qid: Any = None, group: Any = None, sample_weight: Any = None, base_margin: Any = None,
        eval_set: Any = None, eval_qid: Any = None, eval_group: Any = None, sample_weight_eval_set: Any = None,
        base_margin_eval_set: Any = None, eval_metric: Any = None, callbacks: Any = None, init_model: Any = None,
        eval_names: Any = None, verbose: Any = None, **others: Any,
    ) -> FrameBoostRanker:  # fmt: skip
        """Train on X and y.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            The features.
        y : array-like of shape (n_samples,)
            Relevance of each row to its query: 0, 1, 2, ...
        sample_weight : array-like of shape (n_queries,) or (n_samples,), optional
            Query weights, in order of first appearance, as in XGBoost; or row weights, equal within a query.
        qid : array-like of shape (n_samples,), optional
            Query ids, numbers or strings, in any order. Without ``qid`` and ``group``, the column ``qid`` of X, as in
            XGBoost; without that, all rows form one query.
        group : array-like of shape (n_queries,), optional
            The number of rows of each query, for contiguous queries, instead of ``qid``.
        base_margin : array-like of shape (n_samples,) or (n_samples, n_margins), optional
            An offset, added to the margins of each row; `predict` then requires it too. The base score is estimated
            given the offset. (LightGBM's ``init_score``.)
        eval_set : list of (X, y), optional
            Evaluation sets, ``validation_0`` and so on in `evals_result_`; early stopping watches the last.
        sample_weight_eval_set, base_margin_eval_set : list of array-like, optional
            Weights and base margins of each pair; by default 1 and none.
        eval_qid, eval_group : list of array-like, optional
            The queries of each pair, as ``qid`` or ``group``; required if fit has queries, unless X has a column
            ``qid``.
        eval_metric : str, Metric, function or list of them, optional
            Metrics that override those of the constructor.
        callbacks : list of functions, optional
            Functions to call after each round with its number and metrics, as in `frameboost.fit`; training stops if
            one returns True. Early stopping callbacks of XGBoost and LightGBM set the parameters of early stopping.
        init_model : Model, estimator or path, optional
            A model with the same objective and features to continue from, by ``n_estimators`` rounds (XGBoost's
            ``xgb_model``).
        eval_names : list of str, optional
            Names of the evaluation sets, by default ``validation_0`` and so on.
        verbose : bool, optional
            Whether to show a progress bar.
        **others
            Names of XGBoost, LightGBM and scikit-learn (``X_val``, ``y_val``).
        """
        given = {
            "qid": qid, "group": group, "eval_qid": eval_qid, "eval_group": eval_group,
            "sample_weight": sample_weight, "base_margin": base_margin, "eval_set": eval_set,
            "sample_weight_eval_set": sample_weight_eval_set, "base_margin_eval_set": base_margin_eval_set,
            "eval_names": eval_names, "eval_metric": eval_metric, "callbacks": callbacks, "init_model": init_model,
            "verbose": verbose,
        }  # fmt: skip
        return self._fit(X, y, given, others)

    def _arguments(self, X: Any, given: dict[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of `fit` with the queries of all rows, and with metrics at LightGBM's ``eval_at``."""
        others = dict(others)
        positions = others.pop("eval_at", None)
        arguments = super()._arguments(X, given, others)
        qid, group = arguments["qid"], arguments["group"]
        self._has_query_column = qid is None and group is None and has_queries(X)
        arguments["qid"] = self._queries(X, qid, group)
        if arguments["eval_set"] is not None:
            is_one = arguments["qid"] is None
            arguments["eval_qid"] = self._queries_of_pairs(*map(arguments.get, _OF_PAIRS), is_one=is_one)
        if positions is not None:
            metric = "ndcg" if arguments["eval_metric"] is None else arguments["eval_metric"]
            arguments["eval_metric"] = [f"{metric}@{number}" for number in positions]
        return arguments

    def _target(self, y: Any, name: str) -> FloatArray:
        return check_numbers(y, self, name)

    def _queries(self, X: Any, qid: Any, group: Any, of: str = "") -> Any:
        """Return the query of each row: as passed, or from X; None for a single query."""
        if group is not None and qid is not None:
            raise ParameterError(f"qid and group{of} both name the queries; pass one of them")
        if group is not None:
            return queries_of_sizes(group, X, f"group{of}")
        return queries_in(X) if qid is None and self._has_query_column and has_queries(X) else qid

    def _queries_of_pairs(self, eval_set: Any, eval_qid: Any, eval_group: Any, *, is_one: bool) -> Any:
        """Return the queries of each pair; ``is_one`` if the training rows form one query.

        Raises
        ------
        ParameterError
            If queries are missing, or their number differs from that of pairs.
        """
        if not is_pairs(eval_set):
            return eval_qid  # which will be refused
        qids, sizes = ([None] * len(eval_set) if each is None else each for each in (eval_qid, eval_group))
        if any(not isinstance(each, list | tuple) or len(each) != len(eval_set) for each in (qids, sizes)):
            raise ParameterError("eval_qid and eval_group must be lists with an item for each pair of eval_set")
        pairs = zip(eval_set, qids, sizes, strict=True)
        queries = [self._queries(X, qid, size, " of eval_set") for (X, _), qid, size in pairs]
        if not is_one and any(each is None for each in queries):
            raise ParameterError("eval_set needs the queries of its rows, as fit has queries: eval_qid or eval_group")
        return queries

    def _roles(self, given: Mapping[str, tuple[str, Any]], n_rows: int) -> dict[str, Array]:
        (name, qid), (of_weight, weight) = given["group"], given["weight"]
        queries = np.zeros(n_rows, np.int64) if qid is None else check_queries(qid, name)
        check_consistent_length(np.empty(n_rows), queries)
        if weight is not None:
            weight = _of_rows(check_weights(weight, of_weight), queries)
        others = {role: each for role, each in given.items() if role != "group"}
        return {"group": queries} | super()._roles({**others, "weight": (of_weight, weight)}, n_rows)

    def staged_predict(self, X: Any, base_margin: Any = None) -> Iterator[FloatArray]:
        """Yield the scores for X's rows after each round."""
        return self._staged(X, "mean", base_margin)

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, qid: Any = None, group: Any = None, base_margin: Any = None
    ) -> float:
        """Return the mean NDCG over queries, equal to the metric ``ndcg`` of `frameboost.fit`.

        Parameters
        ----------
        X : frame or array-like of shape (n_samples, n_features)
            The features.
        y : array-like of shape (n_samples,)
            Relevance of each row to its query.
        sample_weight : array-like of shape (n_queries,) or (n_samples,), optional
            As in `fit`.
        qid, group : array-like, optional
            The queries of the rows, as in `fit`; by default the column ``qid`` of X, unless it is a feature, or else
            one query.
        base_margin : array-like, optional
            As for `predict`.
        """
        target, prediction = check_numbers(y, self), self.predict(X, base_margin=base_margin)
        is_in_X = qid is None and group is None and has_queries_beside(self, X)
        queries = queries_in(X) if is_in_X else self._queries(X, qid, group)
        given = {"group": ("qid", queries), "weight": ("sample_weight", sample_weight)}
        roles = self._roles(given, len(prediction))
        check_consistent_length(target, prediction)
        table = pl.DataFrame({"label": target, "qid": roles["group"], "prediction": prediction})
        if "weight" in roles:
            table = table.with_columns(pl.Series("weight", roles["weight"]))
        metric = ranking_metric("ndcg", self.model_.parameters)
        assert metric is not None
        return evaluate(metric.over(("label", "weight", "prediction", *metric.terms)), rows_of(table, table.columns))


# The arguments of fit about evaluation sets.
_OF_PAIRS = ("eval_set", "eval_qid", "eval_group")


def _of_rows(weight: FloatArray, queries: Array) -> FloatArray:
    """Return row weights, expanded from query weights in order of first appearance."""
    _, first, numbers = np.unique(queries, return_index=True, return_inverse=True)
    if len(weight) == len(queries) or len(weight) != len(first):
        return weight
    return weight[np.argsort(np.argsort(first))][numbers]
