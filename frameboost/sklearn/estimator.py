"""The base class of the scikit-learn estimators: parameters, and conversion of X and y to frames."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl
import polars.selectors as cs
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from frameboost.api import fit
from frameboost.data.sources import FrameSource, open_source
from frameboost.errors import ParameterError
from frameboost.model.model import Model
from frameboost.parameters.parameters import parameter_table

__all__ = [
    "FROM_THE_DATA",
    "Array",
    "Estimator",
    "FloatArray",
    "check_labels",
    "check_numbers",
    "documented",
    "weighted",
]

# Parameters of `frameboost.fit` that the estimators derive from the data.
FROM_THE_DATA = frozenset({"num_class"})

# The names of the columns of target, weights and queries, which are added to those of X.
_NAMES = {"target": "y", "weight": "sample_weight", "group": "qid"}

Array = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float64]
HeldOut = tuple[pl.DataFrame, Array]
_Class = TypeVar("_Class", bound=type)

_PARAMETERS = """\
engine : {'auto', 'numba', 'polars', 'duckdb'}, default 'auto'
    As for `frameboost.fit`.
"""
_ATTRIBUTES = """\
model_ : Model
    The trained model, to be scored as SQL, saved or looked at.
feature_importances_ : ndarray of shape (n_features_in_,)
    The mean gain of the splits on each feature, as shares of 1 (XGBoost's ``importance_type="gain"``).
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
    def __init__(
        self,
        *,
        objective: str | None = None,
        engine: str = "auto",
        n_estimators: int = 100,
        learning_rate: float = 0.3,
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
        cat_smooth: float = 0.0,
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
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        return tags

    @property
    def feature_importances_(self) -> FloatArray:
        """The mean gain of the splits on each feature, as shares of 1 (all 0 if there is no split)."""
        check_is_fitted(self)
        gains: dict[str, float] = dict(self.model_.importance("gain").rows())
        importances = np.array([gains.get(name, 0.0) for name in self._names()])
        return importances / (importances.sum() or 1.0)

    def _names(self) -> list[str]:
        """Return the names that X's columns have in the model."""
        if hasattr(self, "feature_names_in_"):
            return list(self.feature_names_in_)
        return [f"x{i}" for i in range(self.n_features_in_)]  # as scikit-learn calls columns without a name

    def _read(self, X: Any, *, reset: bool) -> pl.DataFrame:
        """Return X as a frame with the columns of `_names`; ``reset`` sets them, when fitting."""
        if isinstance(X, pl.LazyFrame):
            X = X.collect()
        if _is_table(X):
            validate_data(self, X, skip_check_array=True, reset=reset)
            source = open_source(X)
            if not isinstance(source, FrameSource):
                raise TypeError("the rows of a DuckDB relation have no order, so y can't tell them; use frameboost.fit")
            frame = source.frame.collect()
        else:
            smallest = 2 if reset else 1
            X = validate_data(self, X, reset=reset, ensure_all_finite=False, ensure_min_samples=smallest)
            frame = pl.from_numpy(_plain(X))
        return frame.rename(dict(zip(frame.columns, self._names(), strict=True)))

    def _held_out(self, eval_set: Any, encode: Callable[[Any], Array]) -> list[HeldOut]:
        """Return the frames and targets of ``eval_set``, a list of (X, y); ``encode`` checks a target."""
        if eval_set is None:
            return []
        if not isinstance(eval_set, list | tuple) or not all(map(_is_pair, eval_set)):
            raise ParameterError("eval_set must be a list of pairs (X, y)")
        found = []
        for X, y in eval_set:
            frame, target = self._read(X, reset=False), encode(y)
            check_consistent_length(frame, target)
            found.append((frame, target))
        return found

    def _score(self, X: Any, output: Literal["mean", "margin"] = "mean") -> FloatArray:
        """Return the model's output for X's rows, as an array that the caller may write to."""
        check_is_fitted(self)
        return self.model_.predict(self._read(X, reset=False), output).to_numpy(writable=True)

    def _objective(self, default: str) -> Any:
        """Return the objective, or the default; `frameboost.fit` checks it."""
        return default if self.objective is None else self.objective

    def _train(
        self,
        frame: pl.DataFrame,
        objective: str,
        roles: dict[str, Array],
        held_out: Sequence[HeldOut] = (),
        **more: Any,
    ) -> None:
        """Fit and set ``model_``; ``roles`` are the columns that are not features, by keyword of `frameboost.fit`.

        ``held_out`` has the validation frames and targets; their rows have weight 1.
        """
        features = _with_values(frame) or frame.columns
        valid = {f"validation_{i}": rows for i, (rows, _) in enumerate(held_out)}
        targets = dict(zip(valid, (target for _, target in held_out), strict=True))
        for role, values in roles.items():
            more[role] = _free_name(_NAMES[role], frame.columns)
            frame = frame.with_columns(pl.Series(more[role], values))
            for name, rows in valid.items():
                own = targets[name] if role == "target" else np.ones(len(rows))
                valid[name] = rows.with_columns(pl.Series(more[role], own))
        more["valid"] = valid or None
        parameters = {**self.get_params(deep=False), **more, "objective": objective}
        if isinstance(parameters["n_jobs"], int | np.integer) and parameters["n_jobs"] == -1:  # scikit-learn: all
            parameters["n_jobs"] = None
        self.model_ = fit(frame, features=features, verbose=False, **parameters)


def _is_pair(given: object) -> bool:
    return isinstance(given, list | tuple) and len(given) == 2


def _is_table(X: Any) -> bool:
    """Whether X is a frame of typed columns: a polars or pandas frame or an Arrow table, but not a series."""
    return hasattr(type(X), "__arrow_c_stream__") and len(getattr(X, "shape", ())) == 2


def _plain(array: Array) -> Array:
    """Return the array with a type that polars has, and equal values."""
    if array.dtype.kind == "b":
        return array.astype(np.uint8)  # in an array True is a number, and may come as 1.0 the next time
    if array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8):
        return array.astype(np.float64)
    return array


def check_numbers(y: Any, estimator: Estimator) -> Array:
    """Return a numeric target."""
    values = _target(y, estimator)
    if values.dtype.kind not in "biufO":
        raise ValueError(f"y has type {values.dtype}; a target must be numeric")
    try:
        numbers = values.astype(np.float64)
    except OverflowError as error:  # of Python's integers
        raise ParameterError("y holds a number beyond any float64; a target must be of finite numbers") from error
    assert_all_finite(numbers, input_name="y")
    return numbers


def check_labels(y: Any, estimator: Estimator) -> Array:
    """Return the labels of a classification."""
    labels = _target(y, estimator)
    # None, and pandas' NA; neither has an order among the classes. NaN is found below.
    if labels.dtype.kind == "O" and any(type(label).__name__ in ("NoneType", "NAType") for label in labels):
        raise ValueError("Input y contains missing values.")
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    return labels


def _target(y: Any, estimator: Estimator) -> Array:
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"This {name} estimator requires y to be passed, but the target y is None.")
    values: Array = column_or_1d(y, warn=True)
    return values


def weighted(frame: pl.DataFrame, target: Array, sample_weight: Any) -> tuple[pl.DataFrame, dict[str, Array]]:
    """Return the rows with a positive weight, and their roles.

    scikit-learn requires that a row of weight 0 has no effect. `frameboost.fit` would still propose cuts from its
    values, so it is removed.
    """
    check_consistent_length(frame, target)
    if sample_weight is None:
        return frame, {"target": target}
    weight = column_or_1d(sample_weight, dtype=np.float64)
    check_consistent_length(frame, weight)
    counts = weight != 0
    if not counts.any():
        raise ValueError("sample_weight is zero in every row; some row must count")
    return frame.filter(pl.Series(counts)), {"target": target[counts], "weight": weight[counts]}


def _with_values(frame: pl.DataFrame) -> list[str]:
    """Return the columns with at least one value; in a fold of a cross-validation a column may have none."""
    missing = frame.select(cs.float().fill_nan(None).null_count(), (~cs.float()).null_count()).row(0, named=True)
    return [name for name in frame.columns if missing[name] < frame.height]


def _free_name(name: str, taken: list[str]) -> str:
    """Return the name, with underscores appended until no feature has it."""
    while name in taken:
        name += "_"
    return name
