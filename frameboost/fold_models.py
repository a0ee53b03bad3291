"""A model for each fold, trained on the others: `cv` says what they are worth, `fit(folds=...)` takes their mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from frameboost.checks.arguments import BY_NAME
from frameboost.data.feature_columns import chosen_names
from frameboost.data.held_out import fold_parts
from frameboost.data.opening import open_source
from frameboost.data.sources import LocalSource
from frameboost.ensemble.averaging import average
from frameboost.ensemble.ensemble import Labels
from frameboost.errors import DataError, ParameterError
from frameboost.joins.star_sources import recorded_joins
from frameboost.model.model import Model
from frameboost.parameters.aliases import under_our_names
from frameboost.training.class_labels import read_target

__all__ = ["fold_models", "for_several_fits", "mean_of_folds"]

_ROLES = ("weight", "group", "label_upper_bound", "base_margin", "exposure")
_REFUSED = {
    "valid": "it holds out each fold in turn",
    "time": "a fold is predicted from later rows too",
    "init_model": "their mean is not a continuation of it",
    "callbacks": "there are several fits",
    "checkpoint": "there are several fits",
}


def fold_models(
    train: Callable[..., Model], data: Any, target: str | Sequence[str], folds: int | str, time: str | None, seed: int,
    options: Mapping[str, Any], groups: str | None = None,
) -> tuple[Iterator[Model], Labels, LocalSource]:  # fmt: skip
    """Return the models of the folds, each trained when it is asked for, the labels of all rows, and all rows.

    Parameters
    ----------
    train
        `frameboost.fit`. It gets numbered classes: a fold may lack some of the labels.
    data, target, folds, time, seed
        As for `frameboost.cv`.
    options
        The other arguments of ``train``.
    groups
        A column whose rows of one value stay together.

    Raises
    ------
    ParameterError, DataError
        As `frameboost.fit`; if there are fewer than 2 folds, or a fold has no rows.
    """
    options = for_several_fits(options)
    source = open_source(data)
    features = _features(source, target, folds, options)
    if (positive := options.pop("positive", None)) is not None:  # the folds' labels are numbers
        BY_NAME["positive"]("positive", positive)
    goal = read_target(source, {}, target, options.get("objective"), options.get("num_class"), None, positive)
    options |= {"features": features, "objective": goal.objective, "num_class": goal.num_class, "seed": seed}
    parts = fold_parts(cast("LocalSource", goal.source), folds, time, seed, groups)
    return _trained(train, parts, target, options), goal.labels, source


def for_several_fits(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of `fit` under the names here; what can be read only once, such as a generator, as a list."""
    ours = {name: _read_once(value) for name, value in under_our_names(options).items()}
    if isinstance(cuts := ours.get("cuts"), Mapping):
        ours["cuts"] = {name: _read_once(values) for name, values in cuts.items()}
    return ours


def _read_once(value: Any) -> Any:
    return list(value) if isinstance(value, Iterator) else value


def _trained(
    train: Callable[..., Model],
    parts: Iterator[tuple[Any, Any]],
    target: str | Sequence[str],
    options: Mapping[str, Any],
) -> Iterator[Model]:
    """Yield the models; what is wrong with the rows that one is trained on may not be so of all rows."""
    for number, (training, held_out) in enumerate(parts, 1):
        try:
            yield train(training, target, valid=held_out, **options)
        except DataError as error:
            raise DataError(f"without fold {number}, {error}") from error


def mean_of_folds(
    train: Callable[..., Model], *, data: Any, target: str | Sequence[str], folds: int | str,
    parameters: Mapping[str, Any], **options: Any,
) -> Model:  # fmt: skip
    """Return one model whose margins are the mean of those of the folds' models.

    Each stops early on the fold that it was not trained on, if the parameters say so. Queries of ranking stay together.
    The arguments are those of ``train``, and its keywords as ``parameters``.

    Raises
    ------
    ParameterError, DataError
        As `fold_models`; if an option does not go with several fits.
    """
    for name, why in _REFUSED.items():
        value = options.pop(name, None)
        if value is not None and not (isinstance(value, tuple) and not value):
            raise ParameterError(f"folds does not go with {name}: {why}")
    options |= {**parameters, "train_metrics": False}
    groups = options.get("group") if isinstance(folds, int) else None
    seed = options.pop("seed", 0)
    BY_NAME["seed"]("seed", seed)
    models, labels, source = fold_models(train, data, target, folds, None, seed, options, groups)
    ensembles = [model.ensemble for model in models]
    ensemble = average(ensembles, [1.0] * len(ensembles))
    # The folds of a star are joined rows where its dimensions have the labels or the folds.
    return Model(replace(ensemble, labels=labels, joins=recorded_joins(source, ensemble.read_names)))


def _features(source: LocalSource, target: str | Sequence[str], folds: int | str, options: dict[str, Any]) -> list[str]:
    """Return the features: by default all columns without a role; the column of folds has one."""
    roles: set[str] = set()
    for argument in (folds, target, *map(options.get, _ROLES)):
        several = argument if isinstance(argument, list | tuple) else [argument]
        roles |= {name for name in several if isinstance(name, str)}
    return chosen_names(source, options.pop("features", None), options.pop("exclude", None), roles)
