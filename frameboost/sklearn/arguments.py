"""Translate the arguments of other libraries' estimators, in constructors, `fit` and `predict`.

An argument is translated if its meaning is the same, ignored if its value has no effect here, and an error otherwise. A
name with different meanings in two libraries has XGBoost's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, cast

import numpy as np

from frameboost.checks.arguments import is_among, takes
from frameboost.checks.messages import did_you_mean, listed, shown
from frameboost.errors import ParameterError
from frameboost.losses.built_in import ALPHAS, OTHER_NAMES
from frameboost.metrics.metric import OTHER_NAMES as METRIC_NAMES
from frameboost.parameters.parameters import ALIASES, FIT_ALIASES, under_our_names
from frameboost.sklearn.peer_callbacks import PeerCallback, WatchedNames, peer_callback

__all__ = [
    "ByAnyName",
    "Callbacks",
    "has_no_metric",
    "is_pairs",
    "is_true",
    "measured",
    "of_classes",
    "of_constructor",
    "of_fit",
    "of_predict",
    "watched_last",
]

# --- constructors -----------------------------------------------------------------------------------------------------

_ELSEWHERE = {
    "sample_weight": "is an argument of fit",
    "eval_set": "is an argument of fit",
    "qid": "is an argument of the ranker's fit",
    "group": "is an argument of the ranker's fit",
    "verbosity": "is not needed: the estimators print nothing",
    "silent": "is not needed: the estimators print nothing",
    "missing": "is NULL and NaN; replace another value by one of them",
    "device": "is always the CPU",
    "use_label_encoder": "is not needed: y may hold labels of any kind",
}
"""Where to find what estimators of other libraries take in their constructors."""

_OTHER_NAMES = {
    **dict.fromkeys(("loss", "application", "app", "objective_type"), "objective"),
    "scoring": "eval_metric",
    **FIT_ALIASES,
}
# Values of names that are no parameters here, and change nothing.
_NOTHING: Mapping[str, tuple[object, ...]] = {
    "predictor": (None, "auto", "cpu_predictor"),
    "quantile": (None,),
    "class_weight": (None,),  # of regressors and rankers, as LightGBM's have it
}


def of_constructor(
    names: Collection[str], parameters: Mapping[str, Any], suggested: Collection[str] = ()
) -> dict[str, Any]:
    """Return the parameters of a constructor under frameboost's names.

    Raises
    ------
    ParameterError
        If a name is unknown, or two names mean the same parameter.

    Examples
    --------
    >>> of_constructor(["learning_rate", "n_jobs"], {"eta": 0.1, "n_jobs": 2})
    {'learning_rate': 0.1, 'n_jobs': 2}
    >>> of_constructor(["objective", "quantile_alpha", "early_stopping"], {"loss": "quantile", "quantile": 0.9})
    {'objective': 'reg:quantileerror', 'quantile_alpha': 0.9}
    """
    known = set(names)
    given = {
        name: value
        for name, value in parameters.items()
        if name in known or not is_among(value, _NOTHING.get(name, ()))
    }
    _rename(given, known)
    if known.issuperset(given) and not _has_rounds(given):
        return given  # as clone gives them, who wants the same objects back
    if _has_rounds(given) and "early_stopping" in known:
        given = {"early_stopping_round" if name == "early_stopping" else name: v for name, v in given.items()}
    # Names of estimators; some are aliases in `frameboost.fit`, such as `random_state`.
    own = {name: value for name, value in given.items() if name in known and name in ALIASES}
    ours = own | under_our_names({name: value for name, value in given.items() if name not in own})
    for name in ours:
        if name in _ELSEWHERE and name not in known:
            raise ParameterError(f"{name} is no parameter of the estimators: it {_ELSEWHERE[name]}")
        if name not in known:
            raise ParameterError(f"unknown parameter {shown(name)}{did_you_mean(name, {*known, *suggested})}")
    return ours


def _rename(given: dict[str, Any], known: Collection[str]) -> None:
    """Replace objectives, metrics and the level of a quantile by frameboost's names."""
    for name, ours in _OTHER_NAMES.items():
        if name in given and name not in known and ours in known:
            if ours in given and given[ours] is not None:
                raise ParameterError(f"{name} and {ours} are the same parameter, {ours}; set only that")
            given[ours] = given.pop(name)
    if _is_word(given.get("eval_metric"), "loss"):  # scikit-learn's word for the objective's own
        given["eval_metric"] = None
    objective = given.get("objective")
    if isinstance(objective, str) and objective in ALPHAS:
        for name in {"quantile", "alpha"} & given.keys() - set(known):  # scikit-learn's and LightGBM's
            given[ALPHAS[objective]] = given.pop(name)
    if isinstance(objective, str) and objective in OTHER_NAMES:
        given["objective"] = OTHER_NAMES[objective]
    for name in {"num_class", "num_classes"} - set(known):
        given.pop(name, None)  # always the number of labels in y, as in XGBoost
    if "eval_metric" in given:
        given["eval_metric"] = _metrics(given["eval_metric"])


# Metrics of two classes, and of more.
_OF_CLASSES = {"logloss": "mlogloss", "error": "merror"}


def of_classes(metric: Any, *, several: bool) -> Any:
    """Return metrics with binary ones replaced by multiclass ones, or the other way round, as LightGBM does.

    >>> of_classes(["logloss", "auc"], several=True), of_classes("merror", several=False)
    (['mlogloss', 'auc'], 'error')
    """
    names = _OF_CLASSES if several else {many: two for two, many in _OF_CLASSES.items()}
    if isinstance(metric, list | tuple):
        return [of_classes(each, several=several) for each in metric]
    return names.get(metric, metric) if isinstance(metric, str) else metric


_NO_METRIC = ("None", "none", "null", "na", "custom")  # LightGBM's words


def has_no_metric(metric: Any) -> bool:
    """Whether a metric is LightGBM's name for none.

    >>> has_no_metric("None"), has_no_metric("auc"), has_no_metric(None)
    (True, False, False)
    """
    return isinstance(metric, str) and metric in _NO_METRIC


def _metrics(metric: Any) -> Any:
    """Return metrics under frameboost's names, without LightGBM's name for none."""
    if isinstance(metric, str):
        return METRIC_NAMES.get(metric, metric)
    if isinstance(metric, list | tuple):
        renamed = [_metrics(each) for each in metric if not has_no_metric(each)]
        if metric and not renamed:
            return metric[0]
        return renamed if renamed != list(metric) else metric
    return metric


def _is_word(value: object, word: str) -> bool:
    return isinstance(value, str) and value == word  # of a frame == would not be True or False


def is_true(name: str, value: object) -> bool:
    """Return an argument that must be True, False, 0 or 1 as a bool."""
    if not isinstance(value, bool | int | np.bool_ | np.integer | None):
        raise ParameterError(f"{name} must be True or False, not {shown(value)}")
    return bool(value)


def _is_integer(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _has_rounds(parameters: Mapping[str, Any]) -> bool:
    """Whether ``early_stopping`` is LightGBM's alias of ``early_stopping_rounds``."""
    value: Any = parameters.get("early_stopping")
    return _is_integer(value) and value > 0 and "early_stopping_rounds" not in parameters


# --- fit --------------------------------------------------------------------------------------------------------------

_FIT_NAMES = {
    "init_score": "base_margin",
    "eval_sample_weight": "sample_weight_eval_set",
    "eval_init_score": "base_margin_eval_set",
    "xgb_model": "init_model",
    **dict.fromkeys(("categorical_feature", "cat_features"), "categorical_features"),
}
_FIT_NOTHING: Mapping[str, tuple[object, ...]] = {
    "feature_weights": (None,),
    "feature_name": (None, "auto"),
    "categorical_feature": (None, "auto"),
    "early_stopping_rounds": (None,),
    "feature_types": (None,),
}
_FIT_ELSEWHERE = {
    "feature_weights": "is a parameter of the constructor",
    "feature_name": "are the columns of a frame; pass X as one",
}


def of_fit(estimator: Any, given: dict[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `fit` under frameboost's names.

    Parameters
    ----------
    estimator
        The estimator; its parameters are errors in `fit`.
    given
        The arguments by frameboost's names, None if not passed.
    others
        Those by other names.

    Raises
    ------
    ParameterError
        If an argument is a parameter of the constructor, unknown, or passed twice.
    """
    arguments, kind = dict(given) | {"categorical_features": None}, type(estimator).__name__
    others = _validation_rows(dict(others), arguments)
    for name, value in others.items():
        if is_among(value, _FIT_NOTHING.get(name, ())):
            continue
        ours = _FIT_NAMES.get(name, name)
        if ours in arguments:
            if arguments[ours] is not None:
                raise ParameterError(f"{ours} and {name} are the same argument, {ours}; pass only that")
            arguments[ours] = value
        elif name in _FIT_ELSEWHERE:
            raise ParameterError(f"{name} is not an argument of fit: it {_FIT_ELSEWHERE[name]}")
        elif (parameter := ALIASES.get(name, name)) in estimator._own_names():
            raise ParameterError(
                f"{name} is not an argument of fit, but a parameter of the constructor: "
                f"{kind}({parameter}={shown(value)})"
            )
        else:
            raise ParameterError(
                f"unknown argument of fit: {shown(name)}{did_you_mean(name, [*arguments, *_FIT_NAMES])}"
            )
    metric = arguments["eval_metric"]
    # LightGBM: of an empty list those of the objective.
    arguments["eval_metric"] = None if isinstance(metric, list | tuple) and not metric else _metrics(metric)
    pair = arguments["eval_set"]
    if _is_pair(pair) and not _is_pair(pair[0]):
        arguments["eval_set"] = [pair]  # as LightGBM takes a single one
    return arguments


def is_pairs(eval_set: object) -> bool:
    """Whether an evaluation set is a list of (X, y)."""
    return isinstance(eval_set, list | tuple) and all(map(_is_pair, eval_set))


def _is_pair(item: object) -> bool:
    return isinstance(item, list | tuple) and len(item) == 2


def _validation_rows(others: dict[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with ``X_val`` and ``y_val`` (scikit-learn) or ``eval_X`` and ``eval_y`` (LightGBM) as pairs."""
    for names in (("X_val", "y_val"), ("eval_X", "eval_y")):
        X, y = (others.pop(name, None) for name in names)
        if X is None and y is None:
            continue
        if X is None or y is None:
            raise ParameterError(f"{names[0]} and {names[1]} form an evaluation set; pass both")
        if arguments["eval_set"] is not None or "eval_set" in others:
            raise ParameterError(f"eval_set and {names[0]} are both evaluation sets; pass one of them")
        several = isinstance(X, tuple), isinstance(y, tuple)
        if any(several) and (not all(several) or len(X) != len(y)):
            raise ParameterError(f"{names[0]} and {names[1]} must be tuples of the same length, or one of each")
        others["eval_set"] = list(zip(X, y, strict=True)) if all(several) else [(X, y)]
    if (weight := others.pop("sample_weight_val", None)) is not None:
        others["sample_weight_eval_set"] = [weight]
    return others


class Callbacks:
    """The effects of ``callbacks`` of `fit`: functions for `frameboost.fit`, and objects of other libraries.

    Objects of XGBoost and LightGBM for early stopping and learning rates become parameters, those that print are
    ignored, and the dict of LightGBM's ``record_evaluation`` is filled. All others of these libraries are errors.
    Objects of the user's in their form are called after each round (see `frameboost.sklearn.peer_callbacks`).

    Attributes
    ----------
    functions
        Functions for `frameboost.fit`.
    stopping, parameters
        Parameters of early stopping, and others.
    metric, rows
        The names of the metric and of the evaluation set that early stopping watches; None for the last.
    watches_first
        Whether it watches the first metric, LightGBM's ``first_metric_only``.
    """

    metric: str | None = None
    rows: str | None = None
    watches_first = False

    def __init__(self, *lists: object) -> None:
        for callbacks in lists:
            if callbacks is not None and (not isinstance(callbacks, Iterable) or isinstance(callbacks, str | bytes)):
                raise ParameterError(f"callbacks must be a list of functions, not {shown(callbacks)}")
        self.functions: list[Callable[..., Any]] = []
        self.stopping: dict[str, Any] = {}
        self.parameters: dict[str, Any] = {}
        self._recorders: list[dict[str, Any]] = []
        for callback in chain.from_iterable(cast("Iterable[Any]", each or ()) for each in lists):
            kind, library = type(callback).__name__, type(callback).__module__.partition(".")[0]
            if library not in ("lightgbm", "xgboost"):
                function = callback if callable(callback) and takes(callback, 2) else peer_callback(callback)
                if function is None:
                    raise ParameterError(
                        "callbacks must be functions of a round and its metrics, or in the form of XGBoost's or "
                        f"LightGBM's callbacks, not {shown(callback)}"
                    )
                self.functions.append(function)
            elif kind in ("_EarlyStoppingCallback", "EarlyStopping"):
                self.stopping = _early_stopping(callback)
                self.metric = getattr(callback, "metric_name", None)
                self.rows = getattr(callback, "data", None) or getattr(callback, "data_name", None)
                self.watches_first = bool(getattr(callback, "first_metric_only", False))
            elif kind == "_ResetParameterCallback" and list(callback.kwargs) == ["learning_rate"]:
                self.parameters["learning_rates"] = callback.kwargs["learning_rate"]
            elif kind == "LearningRateScheduler":
                self.parameters["learning_rates"] = callback.learning_rates
            elif kind == "_RecordEvaluationCallback":
                self._recorders.append(callback.eval_result)
            elif kind not in ("_LogEvaluationCallback", "EvaluationMonitor"):
                raise ParameterError(
                    f"callbacks has a {kind} of {library}'s, which is not supported; a callback is a function of a "
                    "round and its metrics, and stops the fit by returning True"
                )

    def begin(self, names: WatchedNames) -> None:
        """Tell callbacks of other libraries' forms what the fit measures."""
        for function in self.functions:
            if isinstance(function, PeerCallback):
                function.begin(names)

    def end(self, metrics: ByAnyName) -> None:
        """Tell callbacks that training has ended; fill the dicts of LightGBM's ``record_evaluation``."""
        for function in self.functions:
            if isinstance(function, PeerCallback):
                function.end()
        for recorder in self._recorders:
            recorder.clear()
            theirs = {id(each): name for name, each in metrics.others.items()}
            recorder.update({theirs.get(id(each), name): each for name, each in metrics.items()})


def _early_stopping(callback: Any) -> dict[str, Any]:
    """Return the parameters of another library's early stopping callback."""
    rounds = getattr(callback, "stopping_rounds", None) or getattr(callback, "rounds", None)
    delta = getattr(callback, "min_delta", None)
    delta = getattr(callback, "_min_delta", 0.0) if delta is None else delta
    if isinstance(delta, Sequence):
        if len(set(delta)) > 1 and not getattr(callback, "first_metric_only", False):
            raise ParameterError(f"min_delta is one number, of the metric that decides, not {listed(delta)}")
        delta = delta[0] if delta else 0.0
    return {"early_stopping_rounds": rounds, "min_delta": float(delta or 0.0)}


def watched_last(metrics: Any, sets: Mapping[str, str], callbacks: Callbacks) -> tuple[Any, list[str]]:
    """Return the metrics and the evaluation sets, each ordered so that early stopping watches the last.

    Parameters
    ----------
    metrics
        One metric, several, or None.
    sets
        The user's names of the sets, by their names in the history.

    Raises
    ------
    ParameterError
        If the metric or the set is unknown.
    """
    ordered = list(sets)
    if callbacks.rows is not None:
        chosen = [name for name, own in sets.items() if callbacks.rows in (own, name)]
        if not chosen:
            raise ParameterError(
                f"a callback watches the rows {shown(callbacks.rows)}; there are {listed(sets.values())}"
            )
        ordered.sort(key=lambda name: name == chosen[-1])
    several = list(metrics) if isinstance(metrics, list | tuple) else [metrics]
    if callbacks.metric is not None:
        names = [_name_of_metric(each) for each in several]
        if (wanted := _metrics(callbacks.metric)) not in names and callbacks.metric not in names:
            if metrics is None:
                return wanted, ordered
            raise ParameterError(
                f"a callback watches the metric {shown(callbacks.metric)}; eval_metric is {listed(names)}"
            )
        several.sort(key=lambda each: _name_of_metric(each) in (callbacks.metric, wanted))
    elif callbacks.watches_first:
        several = [*several[1:], several[0]]
    return several if isinstance(metrics, list | tuple) else metrics, ordered


def _name_of_metric(metric: Any) -> str:
    if isinstance(metric, str):
        return metric
    return str(getattr(metric, "name", None) or getattr(metric, "__name__", type(metric).__name__))


# --- what was measured ------------------------------------------------------------------------------------------------


class ByAnyName(dict[str, Any]):
    """Metrics by evaluation set or by metric: iterates over frameboost's names, finds other libraries' names too.

    Parameters
    ----------
    items
        The values by frameboost's names.
    others
        The same by other names.

    Examples
    --------
    >>> sets = ByAnyName({"validation_0": [0.5]}, {"valid_0": [0.5]})
    >>> sets["valid_0"], "valid_0" in sets, list(sets)
    ([0.5], True, ['validation_0'])
    """

    def __init__(self, items: Mapping[str, Any], others: Mapping[str, Any]) -> None:
        super().__init__(items)
        self.others = dict(others)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self), self.others)

    def __missing__(self, name: str) -> Any:
        return self.others[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.others

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a name, or the default."""
        return super().get(name, self.others.get(name, default))


def measured(metrics: Mapping[str, Mapping[str, list[float]]], others: Mapping[str, str]) -> ByAnyName:
    """Return the metrics by round, with lookup by LightGBM's names too.

    Parameters
    ----------
    metrics
        The values by round, for each evaluation set and metric.
    others
        Frameboost's names of the sets, by LightGBM's.

    Examples
    --------
    >>> metrics = measured({"validation_0": {"logloss": [0.5], "rmse": [0.4]}}, {"valid_0": "validation_0"})
    >>> metrics["valid_0"]["binary_logloss"], metrics["valid_0"]["l2"][0].__round__(2)
    ([0.5], 0.16)
    """
    sets = {}
    for name, values in metrics.items():
        also = {other: values[ours] for other, ours in METRIC_NAMES.items() if ours in values}
        if "rmse" in values:
            also["l2"] = also["mse"] = [value * value for value in values["rmse"]]
        sets[name] = ByAnyName(values, also)
    return ByAnyName(sets, {other: sets[ours] for other, ours in others.items() if ours in sets})


# --- predict ----------------------------------------------------------------------------------------------------------

PredictOutput = Literal["mean", "margin", "leaf", "contributions"]
_PREDICT_NOTHING = ("validate_features", "n_jobs", "predict_disable_shape_check", "verbose", "strict_shape")


def of_predict(
    base_margin: Any, output_margin: bool, iteration_range: Any, others: Mapping[str, Any]
) -> tuple[Any, PredictOutput, tuple[int, int | None] | None]:
    """Return the base margins, the output ("mean", "margin", "leaf" or "contributions"), and the range of rounds.

    Raises
    ------
    ParameterError
        If an argument is unknown or passed twice, or the range of rounds is invalid.
    """
    if not others and output_margin is False and iteration_range is None:
        return base_margin, "mean", None
    others = {name: value for name, value in others.items() if name not in _PREDICT_NOTHING}
    if others.get("pred_early_stop") is False:
        del others["pred_early_stop"]
    outputs: dict[str, PredictOutput] = {
        "raw_score": "margin", "pred_leaf": "leaf", "pred_contrib": "contributions"
    }  # fmt: skip
    asked: list[PredictOutput] = ["margin"] if is_true("output_margin", output_margin) else []
    asked += [output for name, output in outputs.items() if is_true(name, others.pop(name, False))]
    if len(set(asked)) > 1:
        raise ParameterError(f"predict returns one of {listed(asked, None)} at a time")
    score = others.pop("init_score", None)
    if score is not None and base_margin is not None:
        raise ParameterError("base_margin and init_score are the same argument; pass only base_margin")
    start, number = others.pop("start_iteration", 0) or 0, others.pop("num_iteration", None)
    if others:
        name = next(iter(others))
        known = ["base_margin", "output_margin", "iteration_range", "init_score", "num_iteration", *outputs]
        raise ParameterError(f"unknown argument of predict: {shown(name)}{did_you_mean(name, known)}")
    if (start or number is not None) and iteration_range is not None:
        raise ParameterError("iteration_range and num_iteration are the same argument; pass only iteration_range")
    if start or (number is not None and number > 0):
        iteration_range = (start, start + number if number is not None and number > 0 else 0)
    return score if base_margin is None else base_margin, asked[0] if asked else "mean", _range(iteration_range)


def _range(rounds: Any) -> tuple[int, int | None] | None:
    """Return the first round, from 0, and the one after the last; None for all rounds."""
    if rounds is None:
        return None
    if not isinstance(rounds, list | tuple) or len(rounds) != 2 or not all(map(_is_integer, rounds)) or min(rounds) < 0:
        raise ParameterError(f"iteration_range must be a pair of rounds, (first, after the last), not {shown(rounds)}")
    first, end = map(int, rounds)
    return None if (first, end) == (0, 0) else (first, end or None)  # XGBoost: 0 is the end
