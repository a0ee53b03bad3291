"""Training continuation (``init_model``): new trees on top of those of a trained ensemble.

The ensemble's margins become columns of the data, which training starts from. Afterwards the new trees are appended to
those of the ensemble. Its offset (see `frameboost.losses.loss`) is added in training as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from frameboost.checks.messages import listed, shown
from frameboost.compile.polars import margin_expr
from frameboost.compile.sql.case import TreeWriter
from frameboost.compile.sql.conditions import find_columns
from frameboost.data.feature_columns import find_features
from frameboost.data.sources import FrameSource, RelationSource, Source
from frameboost.dialects.duckdb import DUCKDB
from frameboost.ensemble.averaging import over_the_same_categories
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.losses.classes import with_threshold
from frameboost.losses.loss import Loss
from frameboost.losses.transforms import with_smearing
from frameboost.parameters.parameters import Parameters, rate_of
from frameboost.schema.types import Feature, free_name

# What the values of leaves were computed with.
_OF_LEAVES = ("reg_lambda", "reg_alpha", "max_delta_step", "min_child_weight", "min_child_samples")
# What predictions are of; trees for another one can't be added.
_OF_PREDICTIONS = (
    "target_transform", "quantile_alpha", "expectile_alpha", "huber_slope", "fair_c", "tweedie_variance_power",
    "aft_loss_distribution", "aft_loss_distribution_scale",
)  # fmt: skip
_RATES = ("learning_rate", "max_learning_rate", "learning_rates")

__all__ = ["check_continues", "join_ensembles", "with_margins"]


def with_margins(source: Source, initial: Ensemble) -> tuple[Source, list[str]]:
    """Return the data with a column for each of the ensemble's margins without offset, and the columns' names.

    Raises
    ------
    ParameterError
        If the ensemble is another library's and has splits that fit does not make.
    DataError
        If a feature of the ensemble is not in the data, or has another type than in training.
    """
    foreign = any(f.zero_is_missing or f.type.name == "codes" for f in initial.features)
    if foreign or any(any(tree.with_missing) for tree in initial.trees):
        raise ParameterError(
            "init_model comes from another library, and treats missing values or codes as fit does not"
        )
    types = find_features(source, initial.features)
    if isinstance(source, FrameSource):  # numbers of another container are the categories that they were
        categorical = {feature.name for feature in initial.features if feature.type != feature.type.values}
        source = replace(source, categorical=source.categorical | categorical)
    for feature in initial.features:
        if types[feature.name] != feature.type.values:
            raise DataError(
                f"feature {shown(feature.name)} has type {source.type_names()[feature.name]}, but {feature.type} in "
                "init_model; cast it to the same type"
            )
    names = [free_name(f"margin_of_init_model_{i}", source.names()) for i in range(initial.n_outputs)]
    trees_of = initial.trees_by_output()
    parts = [(base, trees, initial.features) for base, trees in zip(initial.base_margins, trees_of, strict=True)]
    if isinstance(source, FrameSource):
        columns = [margin_expr(*part).alias(name) for part, name in zip(parts, names, strict=True)]
        return source.map(lambda frame: frame.with_columns(columns)), names
    dialect = DUCKDB if isinstance(source, RelationSource) else source.dialect
    writer = TreeWriter(find_columns(initial.features, dialect), dialect)
    margins = [writer.margin(base, trees) for base, trees, _ in parts]
    if not isinstance(source, RelationSource):
        return source.with_columns(dict(zip(names, margins, strict=True))), names
    more = ", ".join(f"{margin} AS {quote_identifier(name)}" for margin, name in zip(margins, names, strict=True))
    return source.derived(source.relation.project(f"*, {more}")), names


def check_continues(initial: Ensemble, loss: Loss, parameters: Parameters, features: Sequence[Feature]) -> None:
    """Raise `ParameterError` if what is about to be trained can't be joined to the initial."""
    before = initial.loss if initial.loss.smearing is None else with_smearing(initial.loss, loss.smearing)
    known = parameters.shaping()
    for name in _OF_PREDICTIONS:
        was = initial.parameters.get(name, known[name])
        if before.name == loss.name and was != known[name]:
            raise ParameterError(
                f"init_model was trained with {name}={shown(was)}, not {shown(known[name])}; pass the same"
            )
    if (before.name, before.links, before.definition) != (loss.name, loss.links, loss.definition):
        raise ParameterError(
            f"init_model was trained with objective {shown(initial.loss.name)} and its parameters, not with "
            f"{shown(loss.name)}"
        )
    if [f.name for f in features] != initial.feature_names:
        raise ParameterError(
            f"init_model has the features {listed(initial.feature_names)}; continue with the same, in that order"
        )
    if initial.parallel_trees != parameters.num_parallel_tree:
        raise ParameterError(
            f"init_model has num_parallel_tree={initial.parallel_trees}, not {parameters.num_parallel_tree}"
        )
    if initial.calibration is not None:
        raise ParameterError(
            "init_model is calibrated; continue from the model before calibration, and calibrate the result"
        )


def join_ensembles(initial: Ensemble, added: Ensemble) -> Ensemble:
    """Return an ensemble of the initial trees and then the added ones, over the categories of both.

    The classification threshold is the initial one's unless the added ensemble was given one.
    """
    first, second = over_the_same_categories([initial, added])
    if second.parameters.get("threshold") is None and first.loss.threshold != second.loss.threshold:
        known = {**second.parameters, "threshold": first.loss.threshold}
        second = replace(second, loss=with_threshold(second.loss, first.loss.threshold), parameters=known)
    return replace(
        second, base_margins=initial.base_margins, trees=(*first.trees, *second.trees),
        parameters=_of_both(initial.parameters, second.parameters, initial.n_rounds),
    )  # fmt: skip


def _of_both(first: Mapping[str, Any], second: Mapping[str, Any], n_first: int) -> dict[str, Any]:
    """Return the parameters of the second trees, without those of leaves and constraints that the first do not have.

    Of the first there are ``n_first`` rounds.
    """
    both = dict(second)
    if second.get("learning_rates") is None:
        have_rates = all(first.get(name) == second.get(name) for name in _RATES)
    else:
        have_rates = all(rate_of(first, round_) == rate_of(second, round_) for round_ in range(n_first))
    if not have_rates or any(first.get(name) != second.get(name) for name in _OF_LEAVES):
        of_no_loss = {*_RATES, *_OF_LEAVES} - {"max_delta_step"}  # which the loss of count:poisson reads
        both = {name: value for name, value in both.items() if name not in of_no_loss}
    monotone = first.get("monotone_constraints") or {}
    monotone_in_both = {
        name: value for name, value in (second.get("monotone_constraints") or {}).items() if monotone.get(name) == value
    }
    both["monotone_constraints"] = monotone_in_both or None
    if first.get("interaction_constraints") != second.get("interaction_constraints"):
        both["interaction_constraints"] = None
    return both
