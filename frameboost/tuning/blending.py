"""Choose the weights of recipes in a mean of margins on held-out rows, and fit the intervals.

Forward selection with replacement (Caruana, Niculescu-Mizil, Crew & Ksikes, "Ensemble selection from libraries of
models", ICML 2004): start with the best recipe, and add the recipe that reduces the error most as long as any does. A
recipe selected twice out of three times has the weight 2/3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from frameboost.losses.outputs import Interval, has_intervals
from frameboost.metrics.metric import Metric
from frameboost.model.conformal import conformal_interval, conformity_scores, rows_needed
from frameboost.model.model import Model
from frameboost.schema.types import Feature, FeatureType, column, free_name
from frameboost.trees.tree import LEAF, Tree
from frameboost.tuning.trials import MOST_READ, Fold, Trial, deciding_metric

__all__ = ["HeldOutMargins", "blend"]

_MAX_STEPS = 6
# An addition must make the error smaller by this share, or it isn't worth its trees.
_WORTH = 1e-4


class HeldOutMargins:
    """The margins of several trials on their held-out rows.

    Parameters
    ----------
    folds
        The held-out folds.
    trials
        The trials, with a model for each fold.
    target, roles
        The target, and the other columns of `Model.evaluate` by its argument.
    metric
        The metric to minimise or maximise, None for that of the objective.
    others
        Other columns to keep.
    """

    def __init__(
        self,
        folds: Sequence[Fold],
        trials: Sequence[Trial],
        target: str | Sequence[str],
        metric: str | Metric | None,
        roles: Mapping[str, Any],
        others: Sequence[str] = (),
    ) -> None:
        targets = [target] if isinstance(target, str) else list(target)
        self._others, self._columns = others, list(dict.fromkeys([*targets, *roles.values(), *others]))
        self._fold = free_name("fold", self._columns)
        self._target, self._roles, self._folds, self._trials = target, roles, folds, trials
        self._ensemble = trials[0].any_model.ensemble
        self._metric, self.maximize = deciding_metric(metric, self._ensemble.loss)

    @cached_property
    def _rows(self) -> pl.DataFrame:
        """The target, the other columns and the margins of each trial, for all held-out rows."""
        known = self._trials[0].models.keys()
        return pl.concat([self._of_fold(fold) for fold in self._folds if fold.number in known])

    def _of_fold(self, fold: Fold) -> pl.DataFrame:
        rows = fold.rows()
        columns = [
            pl.Series(self._name(number, output), margin)
            for number, trial in enumerate(self._trials)
            for output, margin in enumerate(trial.margins[fold.number])
        ]
        kept = rows.select([column(name) for name in self._columns])
        return kept.with_columns(columns).with_columns(pl.lit(fold.number, pl.Int64).alias(self._fold))

    def _name(self, trial: int, output: int) -> str:
        return free_name(f"trial_{trial}_{output}", self._columns)

    @property
    def are_cut(self) -> bool:
        """Whether some held-out rows have not been read."""
        return bool(self._rows[self._fold].value_counts()["count"].max() == MOST_READ)

    @cached_property
    def alone(self) -> list[float]:
        """The error of each trial: its mean metric over folds, negated if more is better."""
        errors = [trial.score(trial.models) for trial in self._trials]
        return [-error if self.maximize else error for error in errors]

    def error(self, weights: Sequence[float]) -> float:
        """Return the mean over folds of the metric of the weighted mean of margins; less is better."""
        margins = self._means(weights)
        names = [margin.name for margin in margins]
        model = self._of_base_margins(labels=())  # the rows of folds have class indices
        evaluation = model.evaluate(
            self._rows.with_columns(margins), self._target, by=self._fold, base_margin=names, eval_metric=self._metric,
            **self._roles,
        )  # fmt: skip
        values = evaluation.metrics["value"]
        mean = values.filter(values.is_finite()).mean()
        if not isinstance(mean, float):
            return math.nan
        return -mean if self.maximize else mean

    def shown_error(self, weights: Sequence[float]) -> float:
        """Return the metric of the weighted mean with its original sign; for one trial the mean over folds."""
        several = sum(weight > 0 for weight in weights) > 1
        error = self.error(weights) if several else self.alone[max(range(len(weights)), key=weights.__getitem__)]
        return -error if self.maximize else error

    def interval(self, weights: Sequence[float], coverage: float) -> Interval | None:
        """Return the interval of the weighted mean of margins (cross-conformal).

        None if the loss has no intervals, there are too few rows for the coverage, or too many predictions overflow.

        Each row is scored by trees that have not seen it. The model averages more trees than any of these, so intervals
        are slightly too wide.
        """
        loss = self._ensemble.loss
        if not has_intervals(loss) or len(self._rows) < rows_needed(coverage):
            return None
        assert isinstance(self._target, str)
        labels = self._rows.select(column(self._target).cast(pl.Float64)).to_series().to_numpy()
        margins = [margin.to_numpy() for margin in self._means(weights)]
        scores = conformity_scores(loss, margins, labels, coverage)
        if int(np.isfinite(scores).sum()) < (len(scores) + 1) * coverage:
            return None
        return conformal_interval(loss, scores, coverage)

    def predictions(self, weights: Sequence[float]) -> pl.DataFrame:
        """Return the predictions of the weighted mean of margins, ``fold``, and the other columns."""
        margins = self._means(weights)
        names = [margin.name for margin in margins]
        predictions = self._of_base_margins().predict(self._rows.with_columns(margins), base_margin=names)
        return self._rows.select([column(name) for name in self._others]).with_columns(
            predictions.alias("prediction"), self._rows[self._fold].alias("fold")
        )

    def _means(self, weights: Sequence[float]) -> list[pl.Series]:
        """Return the weighted mean of margins, of each output."""
        total = sum(weights)
        means = [
            pl.sum_horizontal(
                column(self._name(trial, output)) * (weight / total) for trial, weight in enumerate(weights) if weight
            ).alias(free_name(f"margin_{output}", self._columns))
            for output in range(self._ensemble.n_outputs)
        ]
        return self._rows.select(means).get_columns()

    def _of_base_margins(self, **changes: Any) -> Model:
        """Return a model that predicts from its base margins: its trees are leaves of 0."""
        ensemble = replace(self._ensemble, **changes)
        leaf = Tree((LEAF,), (None,), (None,), (False,), (LEAF,), (LEAF,), (0.0,), (0.0,), (0.0,))
        outputs = [output for output in range(ensemble.n_outputs) for _ in range(ensemble.parallel_trees)]
        trees = tuple(replace(leaf, output=output) for output in outputs)
        return Model(replace(ensemble, trees=trees, features=(Feature(self._fold, FeatureType("int64")),), offset=None))


def blend(margins: HeldOutMargins) -> list[float]:
    """Return the weight of each trial; weights sum to 1."""
    alone = margins.alone
    best = min(range(len(alone)), key=alone.__getitem__)
    counts, error = [int(number == best) for number in range(len(alone))], alone[best]
    for _ in range(_MAX_STEPS if len(alone) > 1 else 0):
        tried = {k: margins.error([n + (i == k) for i, n in enumerate(counts)]) for k in range(len(alone))}
        number = min(tried, key=tried.__getitem__)
        if not tried[number] < error - _WORTH * abs(error):
            break
        counts[number] += 1
        error = tried[number]
    return [count / sum(counts) for count in counts]
