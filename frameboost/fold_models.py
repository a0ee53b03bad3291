"""A model for each fold, trained on the others: `cv` says what they are worth, `fit(folds=...)` takes their mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from frameboost.data.held_out import fold_parts
from frameboost.data.sources import LocalSource
from frameboost.ensemble.averaging import average
from frameboost.ensemble.metadata import Metadata
from frameboost.errors import DataError, ParameterError
from frameboost.joins.star_sources import recorded_joins
from frameboost.model.model import Model
from frameboost.parameters.parameters import under_our_names
from frameboost.planning import FitPlan, read_once

__all__ = ["fold_models", "for_several_fits", "mean_of_folds", "refuse_with_folds"]

_REFUSED = {
    "valid": "it holds out each fold in turn",
    "time": "a fold is predicted from later rows too",
    "init_model": "their mean is not a continuation of it",
    "callbacks": "there are several fits",
    "checkpoint": "there are several fits",
    "max_sql": "the models of folds are no rounds of one; auto(fits=...) keeps as many as fit",
}


def fold_models(
    train: Callable[[FitPlan], Model], plan: FitPlan, time: str | None = None, groups: str | None = None
) -> Iterator[Model]:
    """Yield the model of each fold of a plan, trained on the other folds.

    Parameters
    ----------
    train
        Trains a plan.
    plan
        The plan of all rows, and of the folds.
    time
        A column in whose order the rows are split; each part but the first is then predicted from those before it.
    groups
        A column whose rows of one value stay together.

    Raises
    ------
    ParameterError, DataError
        As `frameboost.fit`; if there are fewer than 2 folds, or a fold has no rows.
    """
    assert plan.folds is not None
    parts = fold_parts(cast("LocalSource", plan.source), plan.folds, time, plan.settings.seed, groups)
    for number, (training, held_out) in enumerate(parts, 1):
        try:
            yield train(plan.of_part(training, held_out))
        except DataError as error:  # what is wrong with the rows that one is trained on may not be so of all rows
            raise DataError(f"without fold {number}, {error}") from error


def for_several_fits(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of `fit` under the names here, which are read several times (see `read_once`)."""
    return {name: read_once(value) for name, value in under_our_names(options).items()}


def refuse_with_folds(options: Mapping[str, Any]) -> None:
    """Raise `ParameterError` if an argument of `fit` does not go with ``folds``."""
    for name, why in _REFUSED.items():
        value = options.get(name)
        if value is not None and not (isinstance(value, tuple) and not value):
            raise ParameterError(f"folds does not go with {name}: {why}")


def mean_of_folds(train: Callable[[FitPlan], Model], plan: FitPlan) -> Model:
    """Return one model whose margins are the mean of those of the folds' models.

    Each stops early on the fold that it was not trained on, if the parameters say so. Queries of ranking stay together.

    Raises
    ------
    ParameterError, DataError
        As `fold_models`.
    """
    groups = plan.roles.get("qid") if isinstance(plan.folds, int) else None
    ensembles = [model.ensemble for model in fold_models(train, plan, None, groups)]
    ensemble = average(ensembles, [1.0] * len(ensembles))
    # The folds of a star are joined rows where its dimensions have the labels or the folds.
    metadata = Metadata.of_training(cast("LocalSource", plan.source).count_rows())
    joins = recorded_joins(plan.data, ensemble.read_names)
    return Model(replace(ensemble, labels=plan.labels, joins=joins, metadata=metadata))
