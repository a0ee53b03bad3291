"""The base class of the scikit-learn estimators: parameters, training, and what a fitted one knows.

The parameters are those of `Parameters`. scikit-learn reads them from the signature of the constructor, and ``clone``
gives them to another one. So the signature keeps to the names here, and XGBoost's and LightGBM's names are translated
before they are stored: ``FrameBoostRegressor(eta=0.1)`` is ``FrameBoostRegressor(learning_rate=0.1)``, and
``get_params`` says so.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import fields
from typing import Any, ClassVar, Literal, Self, TypeVar, cast

import numpy as np
from sklearn.base import BaseEstimator, _clone_parametrized, clone
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from frameboost.api import fit
from frameboost.checks.messages import did_you_mean, shown
from frameboost.data.sources import FrameSource
from frameboost.data.sparse_matrix import SparseFrame
from frameboost.errors import ParameterError
from frameboost.losses.outputs import OutputName
from frameboost.model.model import Model
from frameboost.parameters.parameters import ALIASES, Parameters, parameter_table, under_our_names
from frameboost.schema.types import with_values
from frameboost.sklearn.data import (
    Array,
    FloatArray,
    Rows,
    names_in,
    read,
    read_parts,
    read_whole,
    role_columns,
    with_roles,
    with_types_of,
)

__all__ = ["FROM_THE_DATA", "Estimator", "documented"]

# Parameters of `frameboost.fit` that the estimators derive from the data.
FROM_THE_DATA = frozenset({"num_class"})

# All others, and their defaults.
_DEFAULTS: dict[str, Any] = {"objective": None, "engine": "auto", "eval_metric": None, "random_state": None}
_DEFAULTS |= {item.name: item.default for item in fields(Parameters) if item.name not in FROM_THE_DATA}

_ELSEWHERE = {
    "num_class": "is the number of labels in y",
    "sample_weight": "is an argument of fit",
    "eval_set": "is an argument of fit",
    "qid": "is an argument of the ranker's fit",
    "group": "is of XGBoost's ranker; here fit takes the query of each row, as qid",
    "verbosity": "is not needed: the estimators print nothing",
    "verbose": "is not needed: the estimators print nothing",
    "silent": "is not needed: the estimators print nothing",
    "missing": "is NULL and NaN; replace another value by one of them",
    "importance_type": "is a choice of model_.importance(kind); feature_importances_ is its mean gain",
    "device": "is always the CPU",
    "use_label_encoder": "is not needed: y may hold labels of any kind",
    "warm_start": "is not there; fb.fit(..., init_model=estimator.model_) grows more trees",
}
"""Where to find what estimators of other libraries take in their constructors."""

_Class = TypeVar("_Class", bound=type)

_PARAMETERS = """\
engine : {'auto', 'numba', 'polars', 'duckdb'}, default 'auto'
    As for `frameboost.fit`.
eval_metric : str, Metric or list of them, optional
    The metrics of `evals_result_`, of which early stopping watches the last; by default the objective's own.
random_state : int, RandomState or Generator, optional
    The seed of all random draws, in place of ``seed``; of a generator of numpy's the next number, so that another fit
    draws otherwise. None is ``seed``, so that a fit can be repeated.
"""
_ATTRIBUTES = """\
model_ : Model
    The trained model, to be scored as SQL, saved or looked at.
feature_importances_ : ndarray of shape (n_features_in_,)
    The mean gain of the splits on each feature, as shares of 1 (XGBoost's ``importance_type="gain"``).
best_iteration_ : int or None
    The round, from 1, with the best last metric on the last rows of ``eval_set``; None without any.
best_score_ : float or None
    That metric.
evals_result_ : dict of str to dict of str to list of float
    The metrics of each round, by set of rows (``'validation_0'``, ...) and metric; empty without an
    ``eval_set`` or ``eval_metric``.
n_features_in_ : int
    The number of columns of X.
feature_names_in_ : ndarray of shape (n_features_in_,)
    Their names, if X had any; the model calls columns without a name ``x0``, ``x1``, ..."""


def documented(cls: _Class) -> _Class:
    """Fill the placeholders ``<parameters>`` and ``<attributes>`` of an estimator's docstring.

    The text of the parameters is that of `frameboost.parameters.parameters`.
    """
    if cls.__doc__ is not None:  # as it is under python -OO
        parameters = _PARAMETERS + parameter_table(without=FROM_THE_DATA)
        for place, text in (("<parameters>", parameters), ("<attributes>", _ATTRIBUTES)):
            cls.__doc__ = cls.__doc__.replace(f"    {place}", textwrap.indent(text, "    "))
    return cls


class Estimator(BaseEstimator):
    """The base class; ``objective=None`` is the default objective of each kind of estimator."""

    def __init__(self, **parameters: Any) -> None:
        chosen = _DEFAULTS | _under_names_of(_DEFAULTS, parameters, self._own_names())
        for name, value in chosen.items():
            setattr(self, name, value)

    # scikit-learn reads the parameters from the signature, and ``clone`` gives them to another estimator.
    __init__.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        + [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=its) for name, its in _DEFAULTS.items()]
    )

    model_: Model

    _categorical: frozenset[str]

    # What the constructor names itself, where a subclass passes on all other parameters; None if it names all.
    _named: ClassVar[tuple[str, ...] | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let scikit-learn see the parameters that a subclass's constructor passes on as ``**parameters``."""
        super().__init_subclass__(**kwargs)
        if "__init__" in cls.__dict__:
            cls._named = _with_inherited(cls.__dict__["__init__"], super(cls, cls).__init__)

    def __sklearn_clone__(self) -> Self:
        """Return an estimator with the same parameters that is not fitted."""
        if self._named is None:
            return cast("Self", _clone_parametrized(self))
        # What the constructor does not name is set afterwards, as it may pass a value of its own choice for it.
        copies = {name: clone(value, safe=False) for name, value in self.get_params(deep=False).items()}
        copy = type(self)(**{name: copies.pop(name) for name in self._named})
        for name, value in copies.items():
            setattr(copy, name, value)
        for name in ("_metadata_request", "_sklearn_output_config"):  # of set_fit_request and set_output
            if hasattr(self, name):
                setattr(copy, name, deepcopy(getattr(self, name)))
        return copy

    def set_params(self, **params: Any) -> Self:
        """Set parameters, by XGBoost's and LightGBM's names too.

        Parameters
        ----------
        **params : Any
            The parameters by name.
        """
        if self._own_names().issuperset(params):
            return super().set_params(**params)  # type: ignore[no-any-return]
        # A depth that was chosen stays where num_leaves would lift the limit.
        defaults = Parameters()
        chosen = {name: getattr(self, name) for name in ("max_depth", "grow_policy")}
        kept = {name: value for name, value in chosen.items() if value != getattr(defaults, name)}
        return super().set_params(**_under_names_of(self._own_names(), kept | params))  # type: ignore[no-any-return]

    def _own_names(self) -> set[str]:
        return set(self._get_param_names())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    # --- what a fitted one knows --------------------------------------------------------------------------------------

    @property
    def feature_importances_(self) -> FloatArray:
        """The mean gain of the splits on each feature, as shares of 1 (all 0 if there is no split)."""
        check_is_fitted(self)
        gains: dict[str, float] = dict(self.model_.importance("gain").rows())
        importances = np.array([gains.get(name, 0.0) for name in names_in(self)])
        return importances / (importances.sum() or 1.0)

    @property
    def best_iteration_(self) -> int | None:
        """The round, from 1, with the best last metric on the last rows of ``eval_set``; None without any."""
        check_is_fitted(self)
        return self.model_.best_iteration

    @property
    def best_score_(self) -> float | None:
        """The last metric at `best_iteration_`, on the last rows of ``eval_set``; None without any."""
        check_is_fitted(self)
        return self.model_.best_score

    @property
    def evals_result_(self) -> dict[str, dict[str, list[float]]]:
        """The metrics of each round, by set of rows and metric."""
        check_is_fitted(self)
        found: dict[str, dict[str, list[float]]] = {}
        for column in self.model_.history.drop("round"):
            name, metric = _set_and_metric(column.name)
            found.setdefault(name, {})[metric] = column.to_list()
        return found

    def evals_result(self) -> dict[str, dict[str, list[float]]]:
        """Return `evals_result_`, as XGBoost's estimators do."""
        return self.evals_result_

    def apply(self, X: Any) -> Array:
        """Return the leaf of each row in each tree.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_samples, n_trees)
            The number of the leaf's node in ``model_.trees``, where the nodes of each tree count from 0, the root. A
            round has a tree for each output (of several classes for each class), in their order.
        """
        return self._output(X, "leaf")

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
    ) -> Any:
        """Return the contribution of each feature to the margin of each row.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            The rows.
        approx, interactions, output, form, top, sign, texts
            As for `Model.explain`; ``form="shap"`` returns the ``Explanation`` that SHAP's plots take.

        Returns
        -------
        polars.DataFrame or shap.Explanation
            As `Model.explain`.
        """
        check_is_fitted(self)
        explain: Callable[..., Any] = self.model_.explain
        how = {"interactions": interactions, "output": output, "form": form, "top": top, "sign": sign, "texts": texts}
        return explain(read_whole(self, X), approx=approx, **how)

    def _score(self, X: Any, output: Literal["mean", "margin"] = "mean") -> FloatArray:
        """Return the model's output for X's rows, as an array that the caller may write to."""
        return self._output(X, output)

    def _output(self, X: Any, output: Literal["mean", "margin", "probability", "leaf"]) -> Array:
        check_is_fitted(self)
        predictor = self.model_._predictor
        if output == "probability":  # else probabilities of classes with labels are a struct
            predictor = predictor.of_numbers()
        parts = [predictor.predict(frame, output).to_numpy(writable=True) for frame in read_parts(self, X)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _staged(self, X: Any, output: OutputName = "mean") -> Iterator[FloatArray]:
        """Yield the output for X's rows after each round."""
        check_is_fitted(self)
        for scores in self.model_._predictor.of_numbers().staged(read_whole(self, X), output):
            yield scores.to_numpy(writable=True)

    # --- training -----------------------------------------------------------------------------------------------------

    def _held_out(
        self, eval_set: Any, encode: Callable[[Any, str], Array], **others: tuple[str, Any, Callable[[Any, str], Array]]
    ) -> list[Rows]:
        """Return the rows of ``eval_set``, a list of (X, y); ``encode`` checks a target.

        ``others`` are lists of further columns by role, each with the name of its argument and a check of a column.
        """
        if eval_set is None:
            if self.early_stopping_rounds is not None:
                raise ParameterError("early_stopping_rounds needs rows to validate on; give fit eval_set=[(X, y)]")
            for name, values, _ in others.values():
                if values is not None:
                    raise ParameterError(f"{name} is for the rows of eval_set, which is not given")
            return []
        if not isinstance(eval_set, list | tuple) or not all(map(_is_pair, eval_set)):
            raise ParameterError("eval_set must be a list of pairs (X, y)")
        for name, values, _ in others.values():
            if values is not None and (not isinstance(values, list | tuple) or len(values) != len(eval_set)):
                raise ParameterError(
                    f"{name} must be a list with an item for each pair of eval_set, not {shown(values)}"
                )
        found = []
        for i, (X, y) in enumerate(eval_set):
            frame, roles = read(self, X, reset=False), {"target": encode(y, f"y of eval_set[{i}]")}
            for role, (name, values, check) in others.items():
                if values is not None and values[i] is not None:
                    roles[role] = check(values[i], f"{name}[{i}]")
            check_consistent_length(frame, *roles.values())
            found.append(Rows(frame, roles))
        return found

    def _objective(self, default: str) -> Any:
        """Return the objective, or the default; `frameboost.fit` checks it."""
        return default if self.objective is None else self.objective

    def _train(self, rows: Rows, objective: str, held_out: Sequence[Rows] = (), **more: Any) -> None:
        """Fit and set ``model_``. Held-out rows have weight 1 where they are given none."""
        # In a fold of a cross-validation a column may have no value.
        frame = rows.frame
        features = (frame.with_values() if isinstance(frame, SparseFrame) else with_values(frame)) or frame.columns
        held_out = with_types_of(rows.frame, features, held_out)
        columns = role_columns(rows)
        valid = {f"validation_{i}": with_roles(part, columns) for i, part in enumerate(held_out)}
        # A subclass may have parameters of its own, and fix some of these.
        parameters = {name: getattr(self, name) for name in _DEFAULTS}
        parameters["seed"] = _seed_of(parameters.pop("random_state"), parameters["seed"])
        n_jobs = parameters["n_jobs"]
        if isinstance(n_jobs, int | np.integer) and n_jobs == -1:  # scikit-learn: all
            parameters["n_jobs"] = None
        roles = {role: names[0] if len(names) == 1 else names for role, names in columns.items()}
        data: Any = with_roles(rows, columns)
        if self._categorical:
            data = FrameSource(data.lazy(), categorical=self._categorical)
        self.model_ = fit(
            data, features=features, valid=valid or None, verbose=False,
            **parameters | more | roles | {"objective": objective},
        )  # fmt: skip


def _set_and_metric(column: str) -> tuple[str, str]:
    """Return what a column of the history is of.

    >>> _set_and_metric("validation_10_logloss"), _set_and_metric("train_my_metric")
    (('validation_10', 'logloss'), ('train', 'my_metric'))
    """
    parts = column.split("_", 2 if column.startswith("validation_") else 1)
    return "_".join(parts[:-1]), parts[-1]


def _is_pair(item: object) -> bool:
    return isinstance(item, list | tuple) and len(item) == 2


# --- parameters by any name -------------------------------------------------------------------------------------------


def _under_names_of(
    names: Collection[str], parameters: Mapping[str, Any], suggested: Collection[str] = ()
) -> dict[str, Any]:
    """Return parameters under the names that an estimator has for them.

    Raises
    ------
    ParameterError
        If a name is of no parameter, or two are of one.

    Examples
    --------
    >>> _under_names_of(["learning_rate", "n_jobs"], {"eta": 0.1, "n_jobs": 2})
    {'learning_rate': 0.1, 'n_jobs': 2}
    """
    known = set(names)
    if known.issuperset(parameters):  # as clone gives them, who wants the same objects back
        return dict(parameters)
    # An estimator's own names, of which some are aliases in `frameboost.fit`, as `random_state` is.
    own = {name: value for name, value in parameters.items() if name in known and name in ALIASES}
    ours = own | under_our_names({name: value for name, value in parameters.items() if name not in own})
    for name in ours:
        if name in _ELSEWHERE and name not in known:
            raise ParameterError(f"{name} is no parameter of the estimators: it {_ELSEWHERE[name]}")
        if name not in known:
            raise ParameterError(f"unknown parameter {shown(name)}{did_you_mean(name, {*known, *suggested})}")
    return ours


def _with_inherited(init: Callable[..., None], inherited: Callable[..., None]) -> tuple[str, ...] | None:
    """Give a constructor with ``**parameters`` the signature that has the ``inherited`` ones, for scikit-learn.

    Returns the names that it has itself; None where it passes nothing on.
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
    """Return the seed that ``random_state`` stands for; `frameboost.fit` checks it."""
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
