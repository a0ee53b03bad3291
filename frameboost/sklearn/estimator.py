"""The base class of the scikit-learn estimators: parameters, training, and what a fitted one knows."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any, ClassVar, Literal, Self, TypeVar, cast

import numpy as np
from sklearn.base import BaseEstimator, _clone_parametrized, clone
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from frameboost.api import fit
from frameboost.checks.messages import shown
from frameboost.data.sources import FrameSource
from frameboost.data.sparse_matrix import SparseFrame
from frameboost.errors import ParameterError
from frameboost.losses.outputs import OutputName
from frameboost.model.model import Model
from frameboost.parameters.parameters import Parameters, parameter_table
from frameboost.schema.polars_columns import with_values
from frameboost.sklearn.constructors import by_any_name, seed_of, under_names_of, with_inherited
from frameboost.sklearn.rows import Rows, role_columns, with_roles, with_types_of
from frameboost.sklearn.tables import names_in, read, read_parts, read_whole
from frameboost.sklearn.targets import Array, FloatArray

__all__ = ["FROM_THE_DATA", "OWN", "Estimator", "documented"]

# Parameters of `frameboost.fit` that the estimators derive from the data.
FROM_THE_DATA = frozenset({"num_class"})

# Parameters of the estimators that are none of `Parameters`.
OWN = ("objective", "engine", "eval_metric", "random_state", "class_weight")

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

    # scikit-learn reads parameters from this signature, so it lists them all; a test compares it with `Parameters`.
    @by_any_name()
    def __init__(
        self,
        *,
        objective: str | None = None,
        engine: str = "auto",
        eval_metric: Any = None,
        random_state: Any = None,
        n_estimators: int = 100,
        learning_rate: float = 0.3,
        max_learning_rate: float | None = None,
        max_depth: int = 6,
        max_leaves: int = 0,
        grow_policy: str = "depthwise",
        min_child_weight: float = 1.0,
        gamma: float = 0.0,
        reg_lambda: float = 1.0,
        reg_alpha: float = 0.0,
        max_delta_step: float | None = None,
        max_bin: int = 256,
        tree_method: str = "auto",
        proposal: str = "global",
        base_score: float | None = None,
        monotone_constraints: Any = None,
        interaction_constraints: Any = None,
        max_cat_to_onehot: int = 4,
        max_cat_threshold: int = 64,
        cat_smooth: float = 3.0,
        linear_tree: bool = False,
        linear_lambda: float = 10.0,
        multi_strategy: Literal["one_output_per_tree", "multi_output_tree"] = "one_output_per_tree",
        subsample: float = 1.0,
        sampling_method: str = "uniform",
        colsample_bytree: float = 1.0,
        colsample_bylevel: float = 1.0,
        colsample_bynode: float = 1.0,
        booster: str = "gbtree",
        rate_drop: float = 0.0,
        one_drop: bool = False,
        skip_drop: float = 0.0,
        sample_type: str = "uniform",
        normalize_type: str = "tree",
        num_parallel_tree: int = 1,
        seed: int = 0,
        scale_pos_weight: float = 1.0,
        quantile_alpha: Any = (0.5,),
        expectile_alpha: float = 0.5,
        huber_slope: float = 1.0,
        tweedie_variance_power: float = 1.5,
        aft_loss_distribution: str = "normal",
        aft_loss_distribution_scale: float = 1.0,
        lambdarank_pair_method: str = "topk",
        lambdarank_num_pair_per_sample: int | None = None,
        lambdarank_normalization: bool = True,
        lambdarank_score_normalization: bool = True,
        ndcg_exp_gain: bool = True,
        early_stopping_rounds: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.objective = objective
        self.engine = engine
        self.eval_metric = eval_metric
        self.random_state = random_state
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_learning_rate = max_learning_rate
        self.max_depth = max_depth
        self.max_leaves = max_leaves
        self.grow_policy = grow_policy
        self.min_child_weight = min_child_weight
        self.gamma = gamma
        self.reg_lambda = reg_lambda
        self.reg_alpha = reg_alpha
        self.max_delta_step = max_delta_step
        self.max_bin = max_bin
        self.tree_method = tree_method
        self.proposal = proposal
        self.base_score = base_score
        self.monotone_constraints = monotone_constraints
        self.interaction_constraints = interaction_constraints
        self.max_cat_to_onehot = max_cat_to_onehot
        self.max_cat_threshold = max_cat_threshold
        self.cat_smooth = cat_smooth
        self.linear_tree = linear_tree
        self.linear_lambda = linear_lambda
        self.multi_strategy = multi_strategy
        self.subsample = subsample
        self.sampling_method = sampling_method
        self.colsample_bytree = colsample_bytree
        self.colsample_bylevel = colsample_bylevel
        self.colsample_bynode = colsample_bynode
        self.booster = booster
        self.rate_drop = rate_drop
        self.one_drop = one_drop
        self.skip_drop = skip_drop
        self.sample_type = sample_type
        self.normalize_type = normalize_type
        self.num_parallel_tree = num_parallel_tree
        self.seed = seed
        self.scale_pos_weight = scale_pos_weight
        self.quantile_alpha = quantile_alpha
        self.expectile_alpha = expectile_alpha
        self.huber_slope = huber_slope
        self.tweedie_variance_power = tweedie_variance_power
        self.aft_loss_distribution = aft_loss_distribution
        self.aft_loss_distribution_scale = aft_loss_distribution_scale
        self.lambdarank_pair_method = lambdarank_pair_method
        self.lambdarank_num_pair_per_sample = lambdarank_num_pair_per_sample
        self.lambdarank_normalization = lambdarank_normalization
        self.lambdarank_score_normalization = lambdarank_score_normalization
        self.ndcg_exp_gain = ndcg_exp_gain
        self.early_stopping_rounds = early_stopping_rounds
        self.n_jobs = n_jobs

    model_: Model

    _categorical: frozenset[str]

    # What the constructor names itself, where a subclass passes on all other parameters; None if it names all.
    _named: ClassVar[tuple[str, ...] | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let scikit-learn see the parameters that a subclass's constructor passes on as ``**parameters``."""
        super().__init_subclass__(**kwargs)
        if "__init__" in cls.__dict__:
            cls._named = with_inherited(cls.__dict__["__init__"], super(cls, cls).__init__)

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
        return super().set_params(**under_names_of(self._own_names(), kept | params))  # type: ignore[no-any-return]

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
    ) -> Any:
        """Return the contribution of each feature to the margin of each row.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            The rows.
        approx, interactions, output, form
            As for `Model.explain`; ``form="shap"`` returns the ``Explanation`` that SHAP's plots take.

        Returns
        -------
        polars.DataFrame or shap.Explanation
            As `Model.explain`.
        """
        check_is_fitted(self)
        explain: Callable[..., Any] = self.model_.explain
        rows = read_whole(self, X)
        return explain(rows, approx=approx, interactions=interactions, output=output, form=form)

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
        # By the names here: a subclass may have parameters of its own, and fix some of these.
        own = {name: getattr(self, name) for name in Estimator._get_param_names()}
        own["seed"] = seed_of(own.pop("random_state"), own["seed"])
        if isinstance(own["n_jobs"], int | np.integer) and own["n_jobs"] == -1:  # scikit-learn: all
            own["n_jobs"] = None
        roles = {role: names[0] if len(names) == 1 else names for role, names in columns.items()}
        data: Any = with_roles(rows, columns)
        if self._categorical:
            data = FrameSource(data.lazy(), categorical=self._categorical)
        self.model_ = fit(
            data, features=features, valid=valid or None, verbose=False,
            **own | more | roles | {"objective": objective},
        )  # fmt: skip


def _set_and_metric(column: str) -> tuple[str, str]:
    """Return what a column of the history is of.

    >>> _set_and_metric("validation_10_logloss"), _set_and_metric("train_my_metric")
    (('validation_10', 'logloss'), ('train', 'my_metric'))
    """
    parts = column.split("_", 2 if column.startswith("validation_") else 1)
    return "_".join(parts[:-1]), parts[-1]


def _is_pair(given: object) -> bool:
    return isinstance(given, list | tuple) and len(given) == 2
