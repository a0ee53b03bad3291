"""Train a model for each fold on the others: `cv` evaluates them, `fit(folds=...)` returns their mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, cast

import polars as pl

from frameboost.data.held_out import fold_parts, is_splitter, split_by_splitter, with_positions
from frameboost.data.opening import open_source
from frameboost.data.sources import LocalSource, RelationSource
from frameboost.ensemble.averaging import average
from frameboost.ensemble.metadata import Metadata
from frameboost.errors import DataError, ParameterError
from frameboost.joins.star_sources import recorded_joins
from frameboost.metrics.metric import as_function, metrics_of
from frameboost.model.model import Model
from frameboost.model.threshold import chosen_threshold, decided, scores_of
from frameboost.parameters.parameters import under_our_names
from frameboost.planning import FitPlan, read_once
from frameboost.schema.types import free_name

__all__ = [
    "FoldModel",
    "OutOfFold",
    "errors_without_fold",
    "fold_models",
    "for_several_fits",
    "mean_of_folds",
    "refuse_with_folds",
]

_REFUSED = {
    "valid": "it holds out each fold in turn",
    "time": "a fold is predicted from later rows too",
    "init_model": "their mean is not a continuation of it",
    "callbacks": "there are several fits",
    "checkpoint": "there are several fits",
    "max_sql": "the models of folds are no rounds of one; auto(fits=...) keeps as many as fit",
}


# Out-of-fold predictions are in memory, beside the model.
_MOST_ROWS = 2**26


class FoldModel(NamedTuple):
    """The index of a fold, from 0, the model trained without it, and its rows."""

    number: int
    model: Model
    held_out: LocalSource


class OutOfFold:
    """Collects out-of-fold predictions.

    Parameters
    ----------
    source
        The rows.

    Attributes
    ----------
    rows
        The rows, with a column of positions if predictions can be ordered by it.
    position
        The name of this column.
    """

    def __init__(self, source: LocalSource) -> None:
        self.rows, self.position = source, free_name("position", source.names())
        self._parts: list[pl.DataFrame] = []
        self._why_not, facts = "", source.fact_rows()
        self._n_rows = facts.count_rows()
        if self._n_rows > _MOST_ROWS:
            self._why_not = f"they are kept for at most {_MOST_ROWS:,} rows, and the data has {self._n_rows:,}"
            return
        if isinstance(facts, RelationSource) and facts.is_drawn:
            self._why_not = "the query draws rows or values anew each time; store its rows first, and pass the table"
            return
        try:
            self.rows = source.with_fact_rows(with_positions(facts, self.position))
        except DataError as error:  # a query without a defined row order
            self._why_not = str(error)

    @property
    def columns(self) -> list[str]:
        """The position column; empty if predictions are impossible."""
        return [] if self._why_not else [self.position]

    def add(self, fold: FoldModel) -> None:
        """Predict the rows of a fold."""
        if not self._why_not:
            positions = fold.held_out.to_frame([self.position]).collect().to_series()
            self.add_predictions(fold.number, positions, fold.model.predict(fold.held_out))

    def add_predictions(self, fold: int | pl.Series, positions: pl.Series, predictions: pl.Series) -> None:
        """Add predictions for the rows of one or several folds."""
        of_fold = pl.DataFrame([positions.alias("position"), predictions.alias("prediction")])
        self._parts.append(of_fold.with_columns(fold=pl.lit(fold).cast(pl.Int32)))

    def give_up(self, why_not: str) -> None:
        """Drop all predictions, for a reason that `frame` returns."""
        self._why_not = why_not

    def frame(self) -> pl.DataFrame | str:
        """Return ``fold`` and ``prediction`` of all rows, NULL for rows in no fold; or the reason for none."""
        if self._why_not:
            return self._why_not
        predictions = pl.concat(self._parts).sort("position")
        if predictions["position"].is_duplicated().any():
            return "the folds hold out some rows several times"
        if len(predictions) < self._n_rows:
            every = pl.DataFrame({"position": pl.int_range(self._n_rows, eager=True)})
            predictions = every.join(predictions, "position", "left", maintain_order="left")
        return predictions.select("fold", "prediction")


def fold_models(
    train: Callable[[FitPlan], Model], plan: FitPlan, time: str | None = None, groups: str | None = None,
    plan_of_part: Callable[[Any, Any], FitPlan] | None = None,
) -> Iterator[FoldModel]:  # fmt: skip
    """Yield the model of each fold of a plan, trained on the other folds.

    Parameters
    ----------
    train
        A function that trains a plan.
    plan
        The plan of all rows, and of the folds.
    time
        A column to order the rows by; each part except the first is held out from a fit on those before it.
    groups
        A column of groups to keep together, by default the plan's.

    plan_of_part
        Returns the plan of a fold by the rows to train on and those that it holds out; by default `FitPlan.of_part`.

    Raises
    ------
    ParameterError, DataError
        As `frameboost.fit`; if there are fewer than 2 folds, or a fold has no rows.
    """
    assert plan.folds is not None
    folds, source = plan.folds, cast("LocalSource", plan.source)
    if groups is None and time is None and not isinstance(folds, str):
        groups = plan.groups
    if is_splitter(folds):
        labels = [name for role, name in plan.roles.items() if role == "label" or role.startswith("label_")]
        folds = split_by_splitter(source, folds, labels, groups)
    strata = plan.roles["label"] if plan.stratified else None
    parts = fold_parts(source, folds, time, plan.settings.seed, groups, strata)
    for number, (training, held_out) in enumerate(parts):
        with errors_without_fold(number, train, plan):
            model = train((plan_of_part or plan.of_part)(training, held_out))
        yield FoldModel(number, model, open_source(held_out))


@contextmanager
def errors_without_fold(number: int, train: Callable[[FitPlan], Model], plan: FitPlan) -> Iterator[None]:
    """Say in errors that they are of the rows without a fold, unless all rows have what is wrong with these.

    ``train`` and ``plan`` are of the fit; all rows are tried by a fit of one round.
    """
    try:
        yield
    except DataError as error:
        of_these = DataError(f"without fold {number + 1}, {error}")
    else:
        return
    train(plan.of_part(plan.source, None, {"n_estimators": 1, "early_stopping_rounds": None}))
    raise of_these


def for_several_fits(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of `fit` under frameboost's names, readable several times (see `read_once`).

    Function metrics are the same objects in all fits, as a fit may learn about them.
    """
    arguments = {name: read_once(value) for name, value in under_our_names(options).items()}
    if (metrics := arguments.get("eval_metric")) is not None:
        arguments["eval_metric"] = [as_function(item) or item for item in metrics_of(metrics)]
    return arguments


def refuse_with_folds(options: Mapping[str, Any]) -> None:
    """Raise `ParameterError` if an argument of `fit` conflicts with ``folds``."""
    for name, why in _REFUSED.items():
        value = options.get(name)
        if value is not None and not (isinstance(value, tuple) and not value):
            raise ParameterError(f"folds can't be combined with {name}: {why}")


def mean_of_folds(train: Callable[[FitPlan], Model], plan: FitPlan) -> Model:
    """Return one model with the mean of the margins of the folds' models.

    Each stops early on its held-out fold, if early stopping is set. Queries stay together. A threshold rule is applied
    to the predictions of all folds.

    Raises
    ------
    ParameterError, DataError
        As `fold_models`.
    """
    out_of_fold, ensembles, rule = OutOfFold(cast("LocalSource", plan.source)), [], plan.settings.threshold
    scored: list[pl.DataFrame] = []
    if chooses := plan.chooses_threshold:
        plan = replace(plan, settings=replace(plan.settings, threshold=None))
    for fold in fold_models(train, replace(plan, source=out_of_fold.rows)):
        ensembles.append(fold.model.ensemble)
        out_of_fold.add(fold)
        if chooses:
            scored.append(scores_of(fold.model.ensemble, fold.held_out, plan.roles))
    ensemble = average(ensembles, [1.0] * len(ensembles))
    if scored:
        ensemble = decided(ensemble, chosen_threshold(rule, pl.concat(scored)))
    # The folds of a star are joined rows where its dimensions have the labels or the folds.
    metadata = Metadata.of_training(cast("LocalSource", plan.source).count_rows())
    joins = recorded_joins(plan.data, ensemble.read_names)
    ensemble = replace(ensemble, labels=plan.labels, joins=joins, metadata=metadata)
    return Model(ensemble, out_of_fold=out_of_fold.frame())
