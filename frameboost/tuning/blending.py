"""The weights of recipes in a mean of their margins, chosen on held-out rows, and the intervals that follow.

Forward selection with replacement (Caruana, Niculescu-Mizil, Crew & Ksikes, "Ensemble selection from libraries of
models", ICML 2004): start with the best recipe, and as long as the error gets smaller, add the one whose addition makes
it smallest. A recipe that was taken twice among three has the weight 2/3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from frameboost.ensemble.ensemble import Ensemble
from frameboost.losses.intervals import Interval, has_intervals
from frameboost.metrics.metric import Metric
from frameboost.model.model import Model
from frameboost.schema.feature import Feature
from frameboost.schema.polars_columns import column
from frameboost.schema.types import FeatureType
from frameboost.training.conformal import conformal_interval, conformity_scores, rows_needed
from frameboost.trees.tree import LEAF, Tree
from frameboost.tuning.trials import Fold, Trial, deciding_metric

__all__ = ["HeldOutMargins", "blend"]

_MOST_STEPS = 6
_FOLD = "frameboost_fold"
# An addition must make the error smaller by this share, or it isn't worth its trees.
_WORTH = 1e-4


class HeldOutMargins:
    """The margins of several trials on the rows that their fits held out.

    Parameters
    ----------
    folds
        The folds that have been held out.
    trials
        The trials, with a model for each fold.
    target, roles
        The target, and the other columns of `Model.evaluate` by its argument.
    metric
        The metric that decides, None for that of the objective.
    """

    def __init__(
        self,
        folds: Sequence[Fold],
        trials: Sequence[Trial],
        target: str | Sequence[str],
        metric: str | Metric | None,
        roles: Mapping[str, Any],
    ) -> None:
        self._target, self._roles = target, roles
        self._ensemble, first = trials[0].any_model.ensemble, trials[0].models
        self._metric, self.maximize = deciding_metric(metric, self._ensemble.loss)
        self._rows = pl.concat([self._of_fold(fold, trials) for fold in folds if fold.number in first])

    def _of_fold(self, fold: Fold, trials: Sequence[Trial]) -> pl.DataFrame:
        rows = fold.rows()
        columns = [
            margin
            for number, trial in enumerate(trials)
            for margin in _columns(trial.models[fold.number].predict(rows, output="margin"), number)
        ]
        targets = [self._target] if isinstance(self._target, str) else list(self._target)
        kept = rows.select([column(name) for name in dict.fromkeys([*targets, *self._roles.values()])])
        return kept.with_columns(columns).with_columns(pl.lit(fold.number, pl.Int64).alias(_FOLD))

    def error(self, weights: Sequence[float]) -> float:
        """Return the mean over folds of the metric of the weighted mean of margins; less is better."""
        margins = self._means(weights)
        found = _of_base_margins(self._ensemble).evaluate(
            self._rows.with_columns(margins), self._target, by=_FOLD, base_margin=[margin.name for margin in margins],
            eval_metric=self._metric, **self._roles,
        )  # fmt: skip
        mean = float(found.metrics["value"].mean())  # type: ignore[arg-type]
        return -mean if self.maximize else mean

    def interval(self, weights: Sequence[float], coverage: float) -> Interval | None:
        """Return the interval of the weighted mean of margins (cross-conformal).

        None if the loss has none, or the rows are too few for the coverage.

        Each row's score is by trees that have not seen it. The model is the mean of more trees than any of these, so
        intervals are rather too wide.
        """
        loss = self._ensemble.loss
        if not has_intervals(loss) or len(self._rows) < rows_needed(coverage):
            return None
        assert isinstance(self._target, str)
        labels = self._rows.select(column(self._target).cast(pl.Float64)).to_series().to_numpy()
        margins = [margin.to_numpy() for margin in self._means(weights)]
        return conformal_interval(loss, conformity_scores(loss, margins, labels, coverage), coverage)

    def _means(self, weights: Sequence[float]) -> list[pl.Series]:
        """Return the weighted mean of margins, of each output."""
        total = sum(weights)
        means = [
            pl.sum_horizontal(
                pl.col(_name(trial, output)) * (weight / total) for trial, weight in enumerate(weights) if weight
            ).alias(f"frameboost_margin_{output}")
            for output in range(self._ensemble.n_outputs)
        ]
        return self._rows.select(means).get_columns()


def blend(margins: HeldOutMargins, n_trials: int) -> tuple[list[float], list[float]]:
    """Return the weight of each trial, with the sum 1, and the error of each trial alone."""
    alone = [margins.error([float(i == number) for i in range(n_trials)]) for number in range(n_trials)]
    best = min(range(n_trials), key=alone.__getitem__)
    counts, error = [int(i == best) for i in range(n_trials)], alone[best]
    for _ in range(_MOST_STEPS if n_trials > 1 else 0):
        tried = {number: margins.error([n + (i == number) for i, n in enumerate(counts)]) for number in range(n_trials)}
        number = min(tried, key=tried.__getitem__)
        if not tried[number] < error - _WORTH * abs(error):
            break
        counts[number] += 1
        error = tried[number]
    return [count / sum(counts) for count in counts], alone


def _of_base_margins(ensemble: Ensemble) -> Model:
    """Return a model that predicts what its base margins say: its trees are leaves of 0."""
    leaf = Tree((LEAF,), (None,), (None,), (False,), (LEAF,), (LEAF,), (0.0,), (0.0,), (0.0,))
    outputs = [output for output in range(ensemble.n_outputs) for _ in range(ensemble.parallel_trees)]
    trees = tuple(replace(leaf, output=output) for output in outputs)
    return Model(replace(ensemble, trees=trees, features=(Feature(_FOLD, FeatureType("int64")),)))


def _columns(margins: pl.Series, trial: int) -> list[pl.Series]:
    """Return a column for each output of a trial's margins."""
    if isinstance(margins.dtype, pl.Array):
        width = margins.dtype.shape[0]
        return [margins.arr.get(output).alias(_name(trial, output)) for output in range(width)]
    return [margins.alias(_name(trial, 0))]


def _name(trial: int, output: int) -> str:
    return f"frameboost_trial_{trial}_{output}"
