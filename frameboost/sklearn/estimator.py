"""The base class of the scikit-learn estimators: parameters, training, attributes.

Parameters are those of `Parameters`. scikit-learn reads them from the constructor's signature, and ``clone`` passes
them on; so the signature has frameboost's names, and other libraries' names are translated before they are stored
(`arguments`): ``FrameBoostRegressor(eta=0.1).get_params()`` has ``learning_rate``.
"""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import fields, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar, cast

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator, _clone_parametrized, clone, is_classifier
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from frameboost.api import fit
from frameboost.checks.messages import counted, listed, shown
from frameboost.data.feature_columns import categorical_names, weights_by_name
from frameboost.data.matrix import Matrix
from frameboost.data.sources import FrameSource
from frameboost.data.sparse_matrix import SparseFrame
from frameboost.errors import ModelFileError, ParameterError
from frameboost.loading import open_model
from frameboost.losses.outputs import OutputName
from frameboost.model.model import Model
from frameboost.parameters.parameters import (
    ALIASES,
    Parameters,
    category_columns,
    constraints_by_name,
    parameter_table,
    weights_of_features,
)
from frameboost.runtime.workers import available_cores
from frameboost.schema.types import free_name, with_values
from frameboost.sklearn.arguments import (
    ByAnyName,
    Callbacks,
    has_no_metric,
    is_pairs,
    is_true,
    measured,
    of_constructor,
    of_fit,
    of_predict,
    watched_last,
)
from frameboost.sklearn.data import (
    Array,
    FloatArray,
    Rows,
    check_margins,
    check_weights,
    held_out_rows,
    names_in,
    read,
    read_parts,
    read_whole,
    role_columns,
    with_roles,
    with_types_of,
    without_zeros,
)
from frameboost.sklearn.peer_callbacks import WatchedNames, set_and_metric

__all__ = ["FROM_THE_DATA", "Estimator", "Initial", "documented"]

# Parameters of `frameboost.fit` that the estimators derive from the data; weights of classes are a classifier's own.
FROM_THE_DATA = frozenset({"num_class", "class_weight"})

# All others, and their defaults.
_DEFAULTS: dict[str, Any] = {"objective": None, "engine": "auto", "eval_metric": None, "random_state": None}
_OF_ESTIMATORS = {
    "early_stopping": None, "validation_fraction": 0.1, "warm_start": False, "importance_type": None, "verbose": None,
    "callbacks": None,
}  # fmt: skip
_DEFAULTS |= {item.name: item.default for item in fields(Parameters) if item.name not in FROM_THE_DATA}
_DEFAULTS |= _OF_ESTIMATORS

# scikit-learn's defaults: the rounds of early stopping, and the rows above which "auto" stops early.
_PATIENCE, _MANY_ROWS = 10, 10_000
# The kinds of `Model.importance` by XGBoost's and LightGBM's names.
_IMPORTANCES = {
    None: "gain", "gain": "gain", "weight": "weight", "split": "weight", "cover": "cover", "total_gain": "total_gain",
    "total_cover": "total_cover",
}  # fmt: skip

# What `num_leaves` and LightGBM's ways of boosting look at: a depth that was chosen stays, and a forest has trees.
_MEANT_TOGETHER = ("max_depth", "grow_policy", "n_estimators", "subsample", "colsample_bytree", "colsample_bynode")

_Class = TypeVar("_Class", bound=type)
_Output = Literal["mean", "margin", "probability", "leaf"]
_Part = TypeVar("_Part", pl.DataFrame, pl.DataFrame | Matrix)
_Rounds = tuple[int, int | None] | None
# The tags of a model file for what an estimator knows beyond its model, and the most characters of each.
_TAG, _LONGEST = "scikit-learn ", 1000

_PARAMETERS = """\
engine : {'auto', 'numba', 'polars', 'duckdb'}, default 'auto'
    As for `frameboost.fit`.
eval_metric : str, Metric, function or list of them, optional
    The metrics of `evals_result_`; early stopping watches the last; by default the objective's own.
random_state : int, RandomState or Generator, optional
    The seed of all random draws, instead of ``seed``. A generator of numpy gives its next number, so that each fit
    draws differently; None is ``seed``, so that fits repeat.
early_stopping : bool or 'auto', optional
    Whether training stops after ``early_stopping_rounds`` (by default 10) without a better value of the last metric on
    the last rows of ``eval_set``, or without these on a part of the rows that is held out. ``'auto'``, as in
    scikit-learn's HistGradientBoosting, does so if there is an ``eval_set`` or more than 10,000 rows. By default it
    stops if ``early_stopping_rounds`` is set, and needs an ``eval_set``. The model ends at the best round.
validation_fraction : float, int or None, default 0.1
    The share of the rows that ``early_stopping`` holds out without an ``eval_set``, or their number: of a classifier
    the same share of each class, of a ranker whole queries. They keep their weights and base margins. None watches the
    rows that are trained on.
warm_start : bool, default False
    Whether fit continues from the model until it has ``n_estimators`` rounds.
importance_type : {'gain', 'weight', 'cover', 'total_gain', 'total_cover', 'split'}, optional
    The kind of `feature_importances_`, as in XGBoost, by default ``'gain'``; ``'split'`` is LightGBM's word for
    ``'weight'``.
verbose : bool or int, optional
    Whether fit shows a progress bar: True, or above 0. By default it shows nothing.
callbacks : list of functions, optional
    Those of fit, before those that it is given itself.
"""
_ATTRIBUTES = """\
model_ : Model
    The trained model, to score as SQL, save or inspect.
n_iter_ : int
    The number of rounds of the model.
feature_importances_ : ndarray of shape (n_features_in_,)
    The mean gain of the splits on each feature, or what ``importance_type`` says, as shares of 1, as in XGBoost.
best_iteration_ : int or None
    The round, from 1, with the best last metric on the last rows of ``eval_set``; None without any. (``best_iteration``
    is XGBoost's number of it, from 0.)
best_score_ : float or None
    That metric.
evals_result_ : dict of str to dict of str to list of float
    The metrics of each round, by set of rows (``'validation_0'``, ..., or ``eval_names``) and metric; empty without an
    ``eval_set`` or ``eval_metric``. Rows that ``early_stopping`` holds out are ``'validation_0'``. LightGBM's names
    (``'valid_0'``, ``'training'``, ``'binary_logloss'``) find the same.
n_features_in_ : int
    The number of columns of X.
feature_names_in_ : ndarray of shape (n_features_in_,)
    Their names, if X had any; the model calls columns without a name ``x0``, ``x1``, ..."""


def documented(cls: _Class) -> _Class:
    """Fill the placeholders ``<parameters>`` and ``<attributes>`` of an estimator's docstring.

    The parameters' texts come from `frameboost.parameters.parameters`.
    """
    if cls.__doc__ is not None:  # as it is under python -OO
        parameters = _PARAMETERS + parameter_table(without=FROM_THE_DATA)
        for place, text in (("<parameters>", parameters), ("<attributes>", _ATTRIBUTES)):
            cls.__doc__ = cls.__doc__.replace(f"    {place}", textwrap.indent(text, "    "))
    return cls


class Initial(NamedTuple):
    """The model to continue from, if any, with the labels of its classes, if known."""

    model: Model | None
    classes: Array | None


class Estimator(BaseEstimator):
    """The base class; ``objective=None`` is the default objective of each kind of estimator."""

    def __init__(self, **parameters: Any) -> None:
        chosen = _DEFAULTS | of_constructor(_DEFAULTS, parameters, self._own_names())
        for name, value in chosen.items():
            setattr(self, name, value)

    # scikit-learn reads the parameters from the signature, and ``clone`` gives them to another estimator.
    __init__.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        + [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=its) for name, its in _DEFAULTS.items()]
    )

    model_: Model

    _categorical: frozenset[str]
    _sets: dict[str, str]  # the evaluation sets by their names in the history
    _sets_of_lightgbm: dict[str, str]  # those by LightGBM's names

    # What the constructor names itself, where a subclass passes on all other parameters; None if it names all.
    _named: ClassVar[tuple[str, ...] | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Show scikit-learn the parameters that a subclass's constructor passes on as ``**parameters``."""
        super().__init_subclass__(**kwargs)
        if "__init__" in cls.__dict__:
            cls._named = _with_inherited(cls.__dict__["__init__"], super(cls, cls).__init__)

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted estimator with the same parameters."""
        if self._named is None:
            return cast("Self", _clone_parametrized(self))
        # Parameters that the constructor does not name are set afterwards: it may pass a value for them itself.
        copies = {name: clone(value, safe=False) for name, value in self.get_params(deep=False).items()}
        copy = type(self)(**{name: copies.pop(name) for name in self._named})
        for name, value in copies.items():
            setattr(copy, name, value)
        for name in ("_metadata_request", "_sklearn_output_config"):  # of set_fit_request and set_output
            if hasattr(self, name):
                setattr(copy, name, deepcopy(getattr(self, name)))
        return copy

    def set_params(self, **params: Any) -> Self:
        """Set parameters, by frameboost's, XGBoost's or LightGBM's names.

        Parameters
        ----------
        **params : Any
            The parameters by name.
        """
        names, kept = self._own_names(), {}
        if not names.issuperset(params):  # names of other libraries may stand for what depends on these
            defaults, given = Parameters(), {ALIASES.get(name, name) for name in params}
            chosen = {name: getattr(self, name) for name in _MEANT_TOGETHER if name not in given}
            kept = {name: value for name, value in chosen.items() if value != getattr(defaults, name)}
        return super().set_params(**of_constructor(names, kept | params))  # type: ignore[no-any-return]

    def _own_names(self) -> set[str]:
        return set(self._get_param_names())

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is a model; by default scikit-learn looks at the names of all attributes."""
        return hasattr(self, "model_")

    def _check_is_fitted(self) -> None:
        """Raise scikit-learn's error if there is no model; its own check takes a tenth of the prediction of a row."""
        if not hasattr(self, "model_"):
            check_is_fitted(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    # --- what a fitted one knows --------------------------------------------------------------------------------------

    @property
    def feature_importances_(self) -> FloatArray:
        """The mean gain of the splits on each feature, normalised to 1 (all 0 without splits)."""
        self._check_is_fitted()
        kind = self.importance_type
        if not isinstance(kind, str | None) or kind not in _IMPORTANCES:
            raise ParameterError(
                f"importance_type must be one of {listed(filter(None, _IMPORTANCES), None)}, not {shown(kind)}"
            )
        of_features: dict[str, float] = dict(self.model_.importance(_IMPORTANCES[kind]).rows())  # type: ignore[arg-type]
        importances = np.array([of_features.get(name, 0.0) for name in names_in(self)])
        return importances / (importances.sum() or 1.0)

    @property
    def n_iter_(self) -> int:
        """The number of rounds of the model."""
        self._check_is_fitted()
        return self.model_.n_rounds

    @property
    def best_iteration_(self) -> int | None:
        """The round, from 1, with the best last metric on the last evaluation set; None without one."""
        self._check_is_fitted()
        return self.model_.best_iteration

    @property
    def best_score_(self) -> float | None:
        """The last metric at `best_iteration_`, on the last evaluation set; None without one."""
        self._check_is_fitted()
        return self.model_.best_score

    @property
    def best_iteration(self) -> int:
        """The index of the best round, from 0, as in XGBoost.

        Raises
        ------
        AttributeError
            If fit had no evaluation set.
        """
        if self.best_iteration_ is None:
            raise AttributeError("there is no best_iteration without an evaluation set: fit(X, y, eval_set=[(X, y)])")
        return self.best_iteration_ - 1

    @property
    def best_score(self) -> float:
        """The last metric of the best round, as `best_score_`; AttributeError without an evaluation set."""
        if self.best_score_ is None:
            raise AttributeError("there is no best_score without an evaluation set: fit(X, y, eval_set=[(X, y)])")
        return self.best_score_

    @property
    def evals_result_(self) -> ByAnyName:
        """The metrics by round, for each evaluation set and metric."""
        self._check_is_fitted()
        found: dict[str, dict[str, list[float]]] = {}
        for column in self.model_.history.drop("round"):
            name, metric = set_and_metric(column.name)
            found.setdefault(self._sets.get(name, name), {})[metric] = column.to_list()
        return measured(found, self._sets_of_lightgbm)

    def evals_result(self) -> dict[str, dict[str, list[float]]]:
        """Return `evals_result_`, as XGBoost's estimators do."""
        return self.evals_result_

    def get_booster(self) -> Model:
        """Return ``model_`` (XGBoost's name)."""
        self._check_is_fitted()
        return self.model_

    def get_num_boosting_rounds(self) -> int:
        """Return the number of rounds that fit trains (XGBoost's name)."""
        return Parameters().n_estimators if self.n_estimators is None else self.n_estimators

    def get_xgb_params(self) -> dict[str, Any]:
        """Return the training parameters (XGBoost's name)."""
        names = Parameters.__dataclass_fields__.keys() - FROM_THE_DATA | {"objective", "random_state"}
        return {name: value for name, value in self.get_params(deep=False).items() if name in names}

    @property
    def booster_(self) -> Model:
        """``model_`` (LightGBM's name)."""
        return self.get_booster()

    @property
    def n_estimators_(self) -> int:
        """The number of rounds of the model (LightGBM's name)."""
        return self.n_iter_

    @property
    def objective_(self) -> str:
        """The name of the model's objective (LightGBM's name)."""
        return self.get_booster().objective

    @property
    def feature_name_(self) -> list[str]:
        """The names of the features (LightGBM's name)."""
        self._check_is_fitted()
        return names_in(self)

    def save_model(self, path: Any) -> None:
        """Save the model to a file that `load_model`, `frameboost.load` and the command line can read.

        Of the constructor's parameters it stores only those that determine the trees; pickle stores the whole
        estimator.

        Parameters
        ----------
        path : str or path
            The file.
        """
        self._check_is_fitted()
        facts = json.dumps({name: value for name, value in self._facts().items() if value is not None})
        lines = [facts[start : start + _LONGEST] for start in range(0, len(facts), _LONGEST)]
        tags = {name: value for name, value in self.model_.metadata.tags.items() if not name.startswith(_TAG)}
        tags |= {f"{_TAG}{number}": line for number, line in enumerate(lines)}
        self.model_.with_metadata(tags=tags).save(path)

    def load_model(self, path: Any) -> Self:
        """Load a model that `save_model` or `Model.save` wrote, as if fitted.

        Files of XGBoost, LightGBM and CatBoost are supported too.

        Parameters
        ----------
        path : str or path
            The file, or a `Model`.

        Raises
        ------
        ModelFileError
            If it is not a model file.
        ParameterError
            If the model is of another kind than the estimator.
        """
        model = path if isinstance(path, Model) else open_model(path)
        tags = model.metadata.tags
        lines = [tags[f"{_TAG}{number}"] for number in range(len(tags)) if f"{_TAG}{number}" in tags]
        try:
            facts = json.loads("".join(lines) or "{}")
        except ValueError as error:
            raise ModelFileError(f"the tags {_TAG}0, ... of the model are not those that save_model writes") from error
        self._take(model, facts)
        return self

    def _facts(self) -> dict[str, Any]:
        """Return the attributes that can't be derived from the model."""
        names = getattr(self, "feature_names_in_", None)
        columns = names_in(self)
        return {
            "kind": self._kind,
            "columns": None if columns == self.model_.features else columns,
            "named": None if names is not None else False,
            "sets": None if list(self._sets) == list(self._sets.values()) else self._sets,
            "sets_of_lightgbm": self._sets_of_lightgbm or None,
        }

    def _take(self, model: Model, facts: Mapping[str, Any]) -> None:
        """Adopt a model as if fitted."""
        if (kind := facts.get("kind", self._kind)) != self._kind:
            raise ParameterError(f"the model is that of a {kind}, not of a {self._kind}")
        columns = facts.get("columns") or model.features
        # XGBoost, LightGBM and this library number columns without names.
        has_numbers = any(columns == [f"{word}{i}" for i in range(len(columns))] for word in ("f", "Column_", "x"))
        is_named = facts.get("named", not has_numbers)
        self._columns_without_names = None if is_named else columns
        if is_named:
            self.feature_names_in_ = np.array(columns, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.n_features_in_ = len(columns)
        self._sets = facts.get("sets", {})
        self._sets_of_lightgbm = facts.get("sets_of_lightgbm", {})
        self.model_ = model

    def apply(self, X: Any, iteration_range: Any = None) -> Array:
        """Return the leaf index of each row in each tree.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            The rows.
        iteration_range : (int, int), optional
            The first round, from 0, and the one after the last; by default all rounds.

        Returns
        -------
        ndarray of shape (n_samples, n_trees)
            Node indices of the leaves in ``model_.trees``; nodes of each tree are numbered from 0, the root. A round
            has one tree per output (per class, if there are several), in order.
        """
        leaves: Array = self._predicted(X, None, False, iteration_range, {"pred_leaf": True})
        return leaves

    def explain(
        self,
        X: Any,
        *,
        approx: bool = False,
        interactions: bool = False,
        output: int | str | None = None,
        form: Literal["frame", "shap"] = "frame",
        top: int | None = None,
        sign: Literal[-1, 1] | None = None,
        texts: Mapping[str, str] | None = None,
        base_margin: Any = None,
    ) -> Any:
        """Return the contribution of each feature to the margin of each row.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            The rows.
        approx, interactions, output, form, top, sign, texts
            As for `Model.explain`; ``form="shap"`` returns an ``Explanation`` for SHAP's plots.
        base_margin : array-like of shape (n_samples,) or (n_samples, n_margins), optional
            Base margins, if the estimator was fitted with some.

        Returns
        -------
        polars.DataFrame or shap.Explanation
            As `Model.explain`.
        """
        self._check_is_fitted()
        model, (frame,) = self._with_margins(self.model_, [read_whole(self, X)], base_margin)
        explain: Callable[..., Any] = model.explain
        how = {"interactions": interactions, "output": output, "form": form, "top": top, "sign": sign, "texts": texts}
        return explain(frame, approx=approx, **how)

    def predict(
        self,
        X: Any,
        *,
        base_margin: Any = None,
        output_margin: bool = False,
        iteration_range: Any = None,
        **others: Any,
    ) -> Array:
        """Predict X's rows.

        A regressor predicts means or quantiles, a classifier the most probable class (for a multilabel y 0 or 1 for
        each label), a ranker scores, higher for earlier ranks within a query.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            The features.
        base_margin : array-like of shape (n_samples,) or (n_samples, n_margins), optional
            An offset added to the margins, required if fit had one. If fit had none, it replaces the model's base
            score.
        output_margin : bool, default False
            Whether to return margins (LightGBM's ``raw_score``).
        iteration_range : (int, int), optional
            The first round, from 0, and the one after the last, to use; by default all rounds.
        **others
            LightGBM's names: ``init_score``, ``raw_score``, ``num_iteration``, ``start_iteration``, ``pred_leaf``,
            ``pred_contrib``.
        """
        found: Array = self._predicted(X, base_margin, output_margin, iteration_range, others)
        return found

    def _predicted(
        self, X: Any, base_margin: Any, output_margin: bool, iteration_range: Any, others: Mapping[str, Any]
    ) -> Any:
        """Return the result of `predict` for arguments under any name, or None for the plain prediction.

        A classifier derives classes from the plain prediction.
        """
        self._check_is_fitted()
        base_margin, output, rounds = of_predict(base_margin, output_margin, iteration_range, others)
        if output == "contributions":
            model = self._rounds(rounds)
            model, (frame,) = self._with_margins(model, [read_whole(self, X)], base_margin)
            return _contributions(model, frame)
        if output == "mean":
            return self._of_mean(X, base_margin, rounds)
        return self._output(X, output, base_margin, rounds)

    def _of_mean(self, X: Any, base_margin: Any, rounds: _Rounds) -> Array:
        """Return the predictions for X's rows."""
        return self._output(X, "mean", base_margin, rounds)

    def _rounds(self, rounds: _Rounds) -> Model:
        return self.model_ if rounds is None else self.model_[rounds[0] : rounds[1]]

    def _output(self, X: Any, output: _Output, base_margin: Any = None, rounds: _Rounds = None) -> Array:
        """Return an output of the model for X's rows, as a writable array."""
        model = self._rounds(rounds)
        frames: Iterable[pl.DataFrame | Matrix] = read_parts(self, X)
        if output == "leaf":  # which no base margin moves
            model = model if model.ensemble.offset is None else Model(replace(model.ensemble, offset=None))
        else:
            model, frames = self._with_margins(model, frames, base_margin)
        # Probabilities of classes with labels would be a struct.
        predictor = model._predictor.of_numbers() if output == "probability" else model._predictor
        parts = [predictor.values(frame, output, self.n_jobs) for frame in frames]
        arrays = [part.to_numpy(writable=True) if isinstance(part, pl.Series) else part for part in parts]
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

    def _staged(self, X: Any, output: OutputName = "mean", base_margin: Any = None) -> Iterator[FloatArray]:
        """Yield the output for X's rows after each round."""
        self._check_is_fitted()
        model, (frame,) = self._with_margins(self.model_, [read_whole(self, X)], base_margin)
        for scores in model._predictor.of_numbers().staged(frame, output):
            yield scores.to_numpy(writable=True)

    def _with_margins(self, model: Model, frames: Iterable[_Part], base_margin: Any) -> tuple[Model, Iterable[_Part]]:
        """Return the model with columns of base margins, and the frames of X with these columns.

        Raises
        ------
        ParameterError
            If the estimator was fitted with base margins and none are passed.
        """
        names = model.ensemble.offset.names if model.ensemble.offset is not None else []
        if base_margin is None:
            if names:
                raise ParameterError(
                    "the estimator was fitted with base_margin, which is added to its trees; pass base_margin=..., of "
                    "each row, or base_margin=0 for the trees alone"
                )
            return model, frames
        frames = list(frames)
        margins = check_margins(base_margin, sum(map(len, frames)))
        n_margins = len(names) or model.ensemble.n_outputs
        if np.ndim(base_margin) == 0:  # a number is one for all margins
            margins = np.repeat(margins[:, None], n_margins, axis=1)
        columns = margins.reshape(len(margins), -1).T
        if not names:
            names = [free_name(f"base_margin{i}", set(names_in(self))) for i in range(len(columns))]
            model = Model(model.ensemble.started_from(names))
        if len(columns) != len(names):
            n_given, n_needed = counted(len(columns), "column"), counted(len(names), "margin")
            raise ParameterError(f"base_margin has {n_given}, and the model has {n_needed}")
        parts, start = list[_Part](), 0
        for frame in frames:
            of_part = [
                pl.Series(name, each[start : start + len(frame)]) for name, each in zip(names, columns, strict=True)
            ]
            parts.append((frame.frame() if isinstance(frame, Matrix) else frame).with_columns(of_part))
            start += len(frame)
        return model, parts

    # --- training -----------------------------------------------------------------------------------------------------

    # The arguments for columns beside features and target, and those of evaluation sets, by keyword of
    # `frameboost.fit`.
    _columns: ClassVar[Mapping[str, tuple[str, str]]] = {
        "weight": ("sample_weight", "sample_weight_eval_set"),
        "base_margin": ("base_margin", "base_margin_eval_set"),
    }
    _default_objective: ClassVar[str]
    _kind: ClassVar[str]  # of estimator, in the words of scikit-learn

    def _fit(self, X: Any, y: Any, given: dict[str, Any], others: Mapping[str, Any]) -> Self:
        """Train on X and y; ``given`` are the arguments of `fit` by frameboost's names, ``others`` by other names."""
        arguments = self._arguments(X, given, others)
        initial = self._initial(arguments["init_model"])
        target = self._target(y, "y")
        frame = read(self, X, reset=True)
        check_consistent_length(frame, target)
        given = {role: (name, arguments[name]) for role, (name, _) in self._columns.items()}
        rows = without_zeros(Rows(frame, {"target": target} | self._roles(given, len(frame))))
        rows, objective, more = self._prepared(rows, initial)
        held_out = self._held_out(arguments, rows)
        callbacks = Callbacks(self.callbacks, arguments["callbacks"])
        stopping = self._stopping(callbacks.stopping, bool(held_out), len(rows.frame))
        before = initial.model if arguments["init_model"] is None else None
        if before is not None and isinstance(self.random_state, np.random.RandomState | np.random.Generator):
            seed = before.parameters["seed"]  # so that the rows that were held out stay so
        else:
            seed = _seed_of(self.random_state, self.seed)
        if stopping.get("early_stopping_rounds") is not None and not held_out:
            rows, held_out = self._split(rows, seed)
        verbose = self.verbose if arguments["verbose"] is None else arguments["verbose"]
        if not isinstance(verbose, bool | int | np.integer | None):
            raise ParameterError(f"verbose must be True or False, or a number, not {shown(verbose)}")
        more |= {"seed": seed, "callbacks": callbacks.functions, "verbose": (verbose or 0) > 0}
        more |= stopping | callbacks.parameters
        if arguments["categorical_features"] is not None:
            more["categorical_features"] = arguments["categorical_features"]
        metric = self.eval_metric if arguments["eval_metric"] is None else arguments["eval_metric"]
        if has_no_metric(metric):
            if held_out and stopping.get("early_stopping_rounds", self.early_stopping_rounds) is not None:
                raise ParameterError(f"early stopping needs a metric, and eval_metric is {shown(metric)}; name one")
            held_out, metric = [], None
        n_rounds = self.n_estimators
        if before is not None:
            n_rounds = self._rounds_to_add(before)
            if n_rounds == 0:
                return self
        self._sets = self._names_of_sets(arguments, held_out)
        self._sets_of_lightgbm = _lightgbms_names(self._sets, arguments, X, y)
        more["eval_metric"], order = watched_last(self._metrics(metric, objective), self._sets, callbacks)
        by_name = dict(zip(self._sets, held_out, strict=True))
        self._sets, held_out = {name: self._sets[name] for name in order}, [by_name[name] for name in order]
        callbacks.begin(WatchedNames(self._sets, self._sets_of_lightgbm, metric, n_rounds))
        self._train(rows, objective, held_out, initial=initial.model, n_estimators=n_rounds, **more)
        callbacks.end(self.evals_result_)
        return self

    def _arguments(self, X: Any, given: dict[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of `fit` under frameboost's names."""
        return of_fit(self, given, others)

    def _prepared(self, rows: Rows, initial: Initial) -> tuple[Rows, Any, dict[str, Any]]:
        """Return the rows to train on, the objective, and further arguments of `frameboost.fit`."""
        return rows, self._objective(self._default_objective), {}

    def _target(self, y: Any, name: str) -> Array:
        raise NotImplementedError

    def _metrics(self, metric: Any, objective: Any) -> Any:
        """Return the metrics for an objective."""
        return metric

    def _encoded(self, y: Any, name: str) -> Array:
        """Return the target of an evaluation set as numbers."""
        return self._target(y, name)

    def _roles(self, given: Mapping[str, tuple[str, Any]], n_rows: int) -> dict[str, Array]:
        """Return the columns beside the target, and the roles with their names."""
        found = {}
        for role, (name, values) in given.items():
            if values is not None:
                found[role] = check_weights(values, name) if role == "weight" else check_margins(values, n_rows, name)
        check_consistent_length(np.empty(n_rows), *found.values())
        return found

    def _initial(self, init_model: Any) -> Initial:
        """Return the model to continue from: ``init_model``, or with ``warm_start`` the estimator's."""
        if is_true("warm_start", self.warm_start) and init_model is None and hasattr(self, "model_"):
            init_model = self
        if isinstance(init_model, Estimator):
            check_is_fitted(init_model)
            classes = getattr(init_model, "classes_", None)
            return Initial(init_model.model_, classes if isinstance(classes, np.ndarray) else None)
        return Initial(init_model if isinstance(init_model, Model | None) else open_model(init_model), None)

    def _rounds_to_add(self, initial: Model) -> int:
        n_estimators = self.get_num_boosting_rounds()
        if n_estimators < initial.n_rounds:
            raise ParameterError(
                f"n_estimators={n_estimators} is less than the {initial.n_rounds:,} rounds that there are; with "
                "warm_start=True it is the total after the fit"
            )
        return n_estimators - initial.n_rounds

    def _stopping(self, asked: Mapping[str, Any], has_eval_set: bool, n_rows: int) -> dict[str, Any]:
        """Return the parameters of early stopping; ``asked`` are those of another library's callback.

        Raises
        ------
        ParameterError
            If early stopping is set without an evaluation set.
        """
        choice, rounds = self.early_stopping, self.early_stopping_rounds
        if not (
            choice is None or isinstance(choice, bool | np.bool_) or (isinstance(choice, str) and choice == "auto")
        ):
            raise ParameterError(f"early_stopping must be True, False, 'auto' or None, not {shown(choice)}")
        if asked and not has_eval_set:
            raise ParameterError("a callback that stops early needs an evaluation set; pass fit eval_set=[(X, y)]")
        if asked:
            return dict(asked)
        if choice is None:
            if rounds is not None and not has_eval_set:
                raise ParameterError(
                    "early_stopping_rounds needs an evaluation set; pass fit eval_set=[(X, y)], or the constructor "
                    "early_stopping=True, which holds out validation_fraction of the rows"
                )
            return {}
        stops = has_eval_set or n_rows > _MANY_ROWS if isinstance(choice, str) else bool(choice)
        return {"early_stopping_rounds": (_PATIENCE if rounds is None else rounds) if stops else None}

    def _split(self, rows: Rows, seed: int) -> tuple[Rows, list[Rows]]:
        """Return the training rows and the held-out rows."""
        share = self.validation_fraction
        if share is None:
            return rows, [rows]
        is_number = isinstance(share, int | float | np.number) and not isinstance(share, bool)
        if not is_number or not (0 < share < 1 or (share >= 1 and share == int(share))):
            raise ParameterError(
                "validation_fraction must be a share between 0 and 1, a number of rows or None, which watches the "
                f"training rows, not {shown(share)}"
            )
        training, part = held_out_rows(rows, share, seed, by_class=is_classifier(self))
        return training, [part]

    def _held_out(self, arguments: Mapping[str, Any], rows: Rows) -> list[Rows]:
        """Return the rows of ``eval_set``, a list of (X, y), with the columns of the training rows."""
        eval_set = arguments["eval_set"]
        others = {role: (name, arguments[name]) for role, (_, name) in self._columns.items()}
        if eval_set is None:
            for name, values in others.values():
                if values is not None:
                    raise ParameterError(f"{name} is for the rows of eval_set, which is missing")
            return []
        if not is_pairs(eval_set):
            raise ParameterError("eval_set must be a list of pairs (X, y)")
        for name, values in others.values():
            if values is not None and (not isinstance(values, list | tuple) or len(values) != len(eval_set)):
                raise ParameterError(
                    f"{name} must be a list with an item for each pair of eval_set, not {shown(values)}"
                )
        found = []
        for i, (X, y) in enumerate(eval_set):
            frame, target = read(self, X, reset=False), self._encoded(y, f"y of eval_set[{i}]")
            check_consistent_length(frame, target)
            given = {role: (f"{name}[{i}]", values and values[i]) for role, (name, values) in others.items()}
            roles = {"target": target} | self._roles(given, len(frame))
            if roles["target"].shape[1:] != rows.roles["target"].shape[1:]:
                shapes = roles["target"].shape, rows.roles["target"].shape
                raise ValueError(f"y of eval_set[{i}] has shape {shapes[0]}, and y {shapes[1]}")
            if ("base_margin" in roles) != ("base_margin" in rows.roles):
                raise ParameterError(
                    f"base_margin_eval_set has {'a' if 'base_margin' in roles else 'no'} base margin for "
                    f"eval_set[{i}], unlike base_margin of fit; pass both or neither"
                )
            found.append(Rows(frame, roles))
        return found

    def _names_of_sets(self, arguments: Mapping[str, Any], held_out: Sequence[Rows]) -> dict[str, str]:
        ours, names = [f"validation_{i}" for i in range(len(held_out))], arguments["eval_names"]
        if names is None or arguments["eval_set"] is None:
            names = ours
        if isinstance(names, str):
            names = [names]
        if len(set(names)) != len(held_out) or not all(isinstance(name, str) for name in names):
            raise ParameterError(f"eval_names must be a name for each pair of eval_set, not {shown(names)}")
        return dict(zip(ours, names, strict=True))

    def _objective(self, default: str) -> Any:
        """Return the objective, or the default; `frameboost.fit` checks it."""
        chosen: Any = self.objective
        return default if chosen is None else chosen

    def _train(
        self, rows: Rows, objective: str, held_out: Sequence[Rows] = (), *, initial: Model | None = None, **more: Any
    ) -> None:
        """Fit and set ``model_``. Held-out rows have weight 1 by default."""
        # In a fold of a cross-validation a column may have no value.
        frame = rows.frame
        features = (frame.with_values() if isinstance(frame, SparseFrame) else with_values(frame)) or frame.columns
        if initial is not None:
            initial = Model(replace(initial.ensemble, labels=()))  # labels are encoded as numbers in the rows
            features = initial.features
        held_out = with_types_of(rows.frame, features, held_out)
        if "weight" not in rows.roles and any("weight" in part.roles for part in held_out):
            rows = Rows(frame, rows.roles | {"weight": np.ones(len(frame))})  # by which the others have a column
        columns = role_columns(rows)
        valid = {name: with_roles(part, columns) for name, part in zip(self._sets, held_out, strict=True)}
        # A subclass may have additional parameters, and fix some of these.
        names = [name for name in _DEFAULTS if name not in _OF_ESTIMATORS and name != "random_state"]
        parameters = constraints_by_name({name: getattr(self, name) for name in names}, names_in(self))
        n_jobs = parameters["n_jobs"]
        if isinstance(n_jobs, int | np.integer) and not isinstance(n_jobs, bool) and n_jobs < -1:
            parameters["n_jobs"] = max(1, available_cores() + 1 + int(n_jobs))  # scikit-learn: all but some
        _leave_out(parameters, set(names_in(self)) - set(features))
        of_categories = more.pop("categorical_features", parameters["categorical_features"])
        categories = categorical_names(category_columns(of_categories), names_in(self))
        parameters["categorical_features"] = [name for name in categories if name in features] or None
        weights = weights_by_name(weights_of_features(parameters["feature_weights"]), names_in(self)) or {}
        parameters["feature_weights"] = {name: each for name, each in weights.items() if name in features} or None
        roles = {role: names[0] if len(names) == 1 else names for role, names in columns.items()}
        data: Any = with_roles(rows, columns)
        if self._categorical:
            data = FrameSource(data.lazy(), categorical=self._categorical)
        self.model_ = fit(
            data, features=features, valid=valid or None, init_model=initial,
            **parameters | more | roles | {"objective": objective},
        )  # fmt: skip


def _lightgbms_names(sets: Mapping[str, str], arguments: Mapping[str, Any], X: Any, y: Any) -> dict[str, str]:
    """Return the evaluation sets by LightGBM's names for them, unless the user named them."""
    if arguments["eval_names"] is not None:
        return {}
    pairs = arguments["eval_set"] or [(None, None)] * len(sets)
    of_training = [its_X is X and its_y is y for its_X, its_y in pairs]
    named = zip(sets.values(), of_training, strict=False)
    return {"training" if is_training else f"valid_{i}": name for i, (name, is_training) in enumerate(named)}


def _leave_out(parameters: dict[str, Any], columns: Collection[str]) -> None:
    """Remove columns from constraints."""
    monotone, sets = parameters["monotone_constraints"], parameters["interaction_constraints"]
    if columns and isinstance(monotone, Mapping):
        parameters["monotone_constraints"] = {name: each for name, each in monotone.items() if name not in columns}
    if columns and isinstance(sets, list):
        kept = ([name for name in members if name not in columns] for members in sets)
        parameters["interaction_constraints"] = [members for members in kept if members]


def _contributions(model: Model, frame: pl.DataFrame) -> FloatArray:
    """Return contributions and bias as columns, output after output.

    Shape (rows, outputs * (features + 1)), as in LightGBM.
    """
    contributions = model.explain(frame)
    if model.ensemble.n_outputs == 1:
        return contributions.to_numpy(writable=True)
    return contributions["value"].to_numpy().reshape(len(frame), -1)


# --- parameters -------------------------------------------------------------------------------------------------------


def _with_inherited(init: Callable[..., None], inherited: Callable[..., None]) -> tuple[str, ...] | None:
    """Extend the signature of a constructor with ``**parameters`` by the ``inherited`` ones, for scikit-learn.

    Returns the names of its explicit parameters; None if it passes nothing on.
    """
    declared = list(inspect.signature(init).parameters.values())
    named = [p for p in declared if p.kind is not p.VAR_KEYWORD]
    if len(named) == len(declared):
        return None
    known = {p.name for p in named}
    passed = (p for p in inspect.signature(inherited).parameters.values() if p.name not in known)
    more = [p.replace(kind=p.KEYWORD_ONLY) for p in passed]
    init.__signature__ = inspect.Signature([*named, *more])  # type: ignore[attr-defined]
    return tuple(p.name for p in named[1:])


def _seed_of(random_state: Any, seed: Any) -> Any:
    """Return the seed for a ``random_state``; `frameboost.fit` checks it."""
    most = np.iinfo(np.int32).max
    if random_state is None:
        return seed
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(most))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(most))
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0:
        return int(random_state)
    raise ParameterError(
        "random_state must be an integer of at least 0, a RandomState or a Generator of numpy's, or None, not "
        f"{shown(random_state)}"
    )
