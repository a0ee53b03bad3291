"""Metrics after each round, on training rows and held-out rows; early stopping and callbacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from frameboost.checks.messages import shown, warn
from frameboost.engines.contract import Rows
from frameboost.errors import ParameterError
from frameboost.metrics.metric import AnyMetric, evaluate, title_of, why_not_finite

__all__ = ["AtBestRound", "Callback", "EarlyStopping", "EvaluationLog"]

Callback = Callable[[int, Mapping[str, float]], Any]


@dataclass
class EarlyStopping:
    """Tracks the best round, and stops after ``patience`` rounds without improvement: the rule of fits and of `cv`.

    A round improves if its score is finite and better than the best so far by more than ``min_delta``. Rounds with a
    score that is not finite are ignored, and do not count towards ``patience``.

    Attributes
    ----------
    patience
        Number of rounds without improvement before stopping; None to never stop.
    min_delta
        The minimum improvement.
    maximize
        Whether larger scores are better.
    best_round, best_score
        The best round so far and its score, or None.
    """

    patience: int | None = None
    min_delta: float = 0.0
    maximize: bool = False
    best_round: int | None = None
    best_score: float | None = None
    _since_best: int = 0

    def is_over(self, round_: int, score: float) -> bool:
        """Add the score of the next round; return whether to stop."""
        if not math.isfinite(score):
            return False
        if self.best_score is None or self._improvement(score, self.best_score) > self.min_delta:
            self.best_round, self.best_score, self._since_best = round_, score, 0
        else:
            self._since_best += 1
        return self.patience is not None and self._since_best >= self.patience

    def _improvement(self, score: float, best: float) -> float:
        return score - best if self.maximize else best - score


class EvaluationLog:
    """Evaluates metrics after each round, records their history, and stops early (see `EarlyStopping`).

    Metrics that are not finite raise a warning.

    Parameters
    ----------
    rows
        The rows to evaluate, by the name of their set. Early stopping watches the last set.
    metrics
        The metrics. Early stopping watches the last one.
    patience
        Number of rounds without improvement before stopping; None to never stop.
    callbacks
        Functions to call after each round with its number, from 1, and its metrics by name; one that returns True
        stops.
    rounds_before
        Number of rounds of ``init_model``, which rounds are counted from.
    min_delta
        The minimum improvement.
    """

    def __init__(
        self,
        rows: Mapping[str, Rows],
        metrics: Sequence[AnyMetric],
        patience: int | None = None,
        callbacks: Sequence[Callback] = (),
        rounds_before: int = 0,
        min_delta: float = 0.0,
    ) -> None:
        _refuse_same_columns(rows, metrics)
        self._rows = dict(rows)
        self._metrics = list(metrics)
        self._stopping = EarlyStopping(patience, min_delta)
        self._callbacks = list(callbacks)
        self.rounds_before = rounds_before
        self._history: list[dict[str, float]] = []
        self._not_finite: set[str] = set()  # columns that have been warned about
        self.stopped_by_callback = False

    @property
    def columns(self) -> dict[str, AnyMetric]:
        """The metrics by their column of the history."""
        return {f"{set_name}_{title_of(metric)}": metric for set_name in self._rows for metric in self._metrics}

    @property
    def best_round(self) -> int | None:
        """The best round so far, None if there is none."""
        return self._stopping.best_round

    @property
    def best_score(self) -> float | None:
        """The value of the metric of early stopping in that round."""
        return self._stopping.best_score

    @property
    def n_rounds(self) -> int:
        """The number of rounds so far, including those of ``init_model``."""
        return self.rounds_before + len(self._history)

    @property
    def last(self) -> Mapping[str, float]:
        """The metrics of the last round."""
        return self._history[-1]

    def evaluate(self) -> dict[str, float]:
        """Return the metrics at the current margins."""
        values = {}
        for set_name, rows in self._rows.items():
            for metric in self._metrics:
                value = evaluate(metric, rows)  # a function tells its name then
                values[f"{set_name}_{title_of(metric)}"] = value
        if len(values) < len(self._rows) * len(self._metrics):
            _refuse_same_columns(self._rows, self._metrics)
        return values

    def end_round(self) -> bool:
        """Evaluate; return whether to stop."""
        values = self.evaluate()
        stop = self.restore_round(values)
        callback_results = [callback(self.n_rounds, dict(values)) is True for callback in self._callbacks]
        self.stopped_by_callback = any(callback_results)
        return stop or self.stopped_by_callback

    def restore_round(self, values: Mapping[str, float]) -> bool:
        """Add the metrics of a saved round without callbacks; return whether to stop early."""
        self._history.append(dict(values))
        self._warn(values)
        if set(self._rows) <= {"train"}:
            return False
        self._stopping.maximize = self._metrics[-1].maximize  # a function says so when it is called
        return self._stopping.is_over(self.n_rounds, list(values.values())[-1])

    def _warn(self, values: Mapping[str, float]) -> None:
        """Warn about each metric that has no finite value for the first time."""
        stopping_columns = list(values)[-1:] if self._stopping.patience is not None else []
        for (column, value), metric in zip(values.items(), self.columns.values(), strict=True):
            if math.isfinite(value) or column in self._not_finite:
                continue
            self._not_finite.add(column)
            name = title_of(metric)
            warn(
                f"eval_metric {shown(name)} is {value} on {shown(column.removesuffix(f'_{name}'))} in round "
                f"{self.n_rounds}{why_not_finite(name)}"
                + ("; early stopping ignores such rounds" if column in stopping_columns else "")
            )

    @property
    def kept_round(self) -> int | None:
        """The round up to which early stopping keeps trees; None for all."""
        return None if self._stopping.patience is None else self.best_round

    def frame(self) -> pl.DataFrame:
        """Return the history, one row for each round."""
        numbers = range(self.rounds_before + 1, self.rounds_before + len(self._history) + 1)
        rounds = pl.DataFrame({"round": numbers}, schema={"round": pl.Int64})
        if not self._history or not self._history[0]:
            return rounds
        schema = dict.fromkeys(self._history[0], pl.Float64)
        return pl.concat([rounds, pl.DataFrame(self._history, schema=schema)], how="horizontal")


class AtBestRound:
    """Takes a measure of the rows at the best round.

    Parameters
    ----------
    measure
        A function that returns the measure at the current margins.
    log
        The log, which knows the best round.
    """

    def __init__(self, measure: Callable[[], tuple[float, ...]], log: EvaluationLog) -> None:
        self._measure, self._log = measure, log
        self._best: tuple[float, ...] | None = None

    def end_round(self, _: int) -> None:
        """Take the measure if the round is the best so far."""
        if self._log.kept_round == self._log.n_rounds:
            self._best = self._measure()

    def value(self) -> tuple[float, ...]:
        """Return the measure, after the last round."""
        return self._best or self._measure()


def _refuse_same_columns(rows: Iterable[str], metrics: Sequence[AnyMetric]) -> None:
    """Raise `ParameterError` if two columns of the history would have the same name."""
    first: dict[str, tuple[str, str]] = {}
    for set_name in rows:
        for metric in metrics:
            name = title_of(metric)
            column = f"{set_name}_{name}"
            if column in first:
                raise ParameterError(
                    f"the history would have two columns {shown(column)}: metric {shown(name)} of "
                    f"{shown(set_name)} and metric {shown(first[column][1])} of {shown(first[column][0])}; rename one"
                )
            first[column] = (set_name, name)
