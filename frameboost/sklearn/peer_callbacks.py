"""Callbacks written for XGBoost or LightGBM, such as those of Optuna that prune trials, called after each round.

A callback has the form of a library, whatever its class: XGBoost's has a method ``after_iteration``, LightGBM's takes
an environment. They read metrics by that library's names, and may stop the fit or raise an error. There is no model to
change before training ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from frameboost.checks.arguments import takes
from frameboost.checks.messages import shown
from frameboost.errors import ParameterError
from frameboost.metrics.metric import OTHER_NAMES, larger_is_better

__all__ = ["PeerCallback", "WatchedNames", "peer_callback", "set_and_metric"]


def set_and_metric(column: str) -> tuple[str, str]:
    """Split the name of a history column into evaluation set and metric.

    >>> set_and_metric("validation_10_logloss"), set_and_metric("train_my_metric")
    (('validation_10', 'logloss'), ('train', 'my_metric'))
    """
    parts = column.split("_", 2 if column.startswith("validation_") else 1)
    return "_".join(parts[:-1]), parts[-1]


@dataclass(frozen=True)
class WatchedNames:
    """The names of what a fit measures.

    Attributes
    ----------
    sets
        The user's names of the evaluation sets, by their names in the history.
    of_lightgbm
        The user's names of the sets by LightGBM's, if the user gave none.
    eval_metric
        The user's metrics.
    n_rounds
        The number of rounds of the fit, without early stopping.
    """

    sets: Mapping[str, str]
    of_lightgbm: Mapping[str, str]
    eval_metric: Any
    n_rounds: int


class _NoModelError(ParameterError, AttributeError):
    """Raised for what a callback asks of a model."""


class _NoModel:
    """A stand-in for the model during training, which callbacks cannot query."""

    def __getattr__(self, name: str) -> NoReturn:
        raise _NoModelError(
            f"a callback reads {shown(name)} of the model, which exists only after training; callbacks receive metrics"
        )


class _Environment(NamedTuple):
    """What LightGBM passes to callbacks, by its names."""

    model: Any
    params: dict[str, Any]
    iteration: int
    begin_iteration: int
    end_iteration: int
    evaluation_result_list: list[tuple[str, str, float, bool]]


@dataclass
class PeerCallback:
    """A callback of another library's form, as a function for `frameboost.fit`."""

    callback: Any
    _names: WatchedNames = field(default_factory=lambda: WatchedNames({}, {}, None, 0))
    _log: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    _n_rounds: int = 0

    def begin(self, names: WatchedNames) -> None:
        """Prepare for a fit."""
        self._names, self._log, self._n_rounds = names, {}, 0

    def __call__(self, number: int, metrics: Mapping[str, float]) -> bool:
        """Call the callback after a round; return whether to stop."""
        for column, value in metrics.items():
            name, metric = set_and_metric(column)
            self._log.setdefault(self._names.sets.get(name, name), {}).setdefault(metric, []).append(value)
        self._n_rounds += 1
        return self._stops(self._n_rounds - 1)

    def end(self) -> None:
        """Tell the callback that training has ended."""

    def _stops(self, iteration: int) -> bool:
        raise NotImplementedError


class _XGBoostCallback(PeerCallback):
    def begin(self, names: WatchedNames) -> None:
        super().begin(names)
        if hasattr(self.callback, "before_training"):
            self.callback.before_training(_NoModel())

    def _stops(self, iteration: int) -> bool:
        return bool(self.callback.after_iteration(_NoModel(), iteration, self._log))

    def end(self) -> None:
        if hasattr(self.callback, "after_training"):
            self.callback.after_training(_NoModel())


class _LightGBMCallback(PeerCallback):
    def _stops(self, iteration: int) -> bool:
        names = {ours: theirs for theirs, ours in self._names.of_lightgbm.items()}
        results = [
            (names.get(rows, rows), name, value, larger_is_better(metric, self._names.eval_metric))
            for rows, metrics in self._log.items()
            for metric, values in metrics.items()
            for name, value in _by_both_names(metric, values[-1])
        ]
        environment = _Environment(_NoModel(), {}, iteration, 0, self._names.n_rounds, results)
        try:
            self.callback(environment)
        except Exception as error:
            if type(error).__name__ == "EarlyStopException":
                return True
            raise
        return False


def _by_both_names(metric: str, value: float) -> list[tuple[str, float]]:
    """Return a metric by LightGBM's name and the one here; beside rmse its square, LightGBM's default.

    >>> _by_both_names("mae", 0.5), _by_both_names("auc", 0.5), _by_both_names("rmse", 0.5)
    ([('l1', 0.5), ('mae', 0.5)], [('auc', 0.5)], [('l2', 0.25), ('rmse', 0.5)])
    """
    if metric == "rmse":
        return [("l2", value * value), (metric, value)]
    theirs = next((name for name, ours in OTHER_NAMES.items() if ours == metric and metric != "l2"), metric)
    return [(name, value) for name in dict.fromkeys([theirs, metric])]


def peer_callback(callback: Any) -> PeerCallback | None:
    """Return a callback of XGBoost's or LightGBM's form as one that `frameboost.fit` calls; None if it is neither."""
    if callable(getattr(callback, "after_iteration", None)):
        return _XGBoostCallback(callback)
    if callable(callback) and takes(callback, 1) and not getattr(callback, "before_iteration", False):
        return _LightGBMCallback(callback)
    return None
