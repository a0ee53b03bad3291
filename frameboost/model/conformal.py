"""Conformal prediction: intervals with a guaranteed coverage, from the scores of rows that the trees have not seen.

The interval reaches as far as the ⌈(n + 1) · coverage⌉-th smallest of n scores (Vovk, Gammerman & Shafer 2005; Lei,
G'Sell, Rinaldo, Tibshirani & Wasserman 2018, section 2.2; of quantiles Romano, Patterson & Candès 2019). If the n rows
and a new one are exchangeable, its label is within its interval with a probability of at least ``coverage``, and of at
most ``coverage`` + 1 / (n + 1) if no scores are equal. By group (Mondrian, Vovk 2005) that holds within each group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.checks.messages import counted, did_you_mean, listed, shown
from frameboost.data.opening import open_rows
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import DataError, ParameterError
from frameboost.evaluation.scored_rows import score_rows
from frameboost.losses.loss import Loss
from frameboost.losses.outputs import (
    DISTANCE,
    Ends,
    Interval,
    Lookup,
    interval_ends,
    kind_of,
    score_of,
)
from frameboost.prediction.predictor import Predictor
from frameboost.schema.types import FeatureType
from frameboost.training.data_checks import labelled_columns

__all__ = [
    "MAX_GROUPS", "chosen_quantiles", "conformal_distance", "conformal_interval", "conformed_ensemble",
    "conformity_scores", "group_type", "rows_needed",
]  # fmt: skip

Floats = npt.NDArray[np.float64]

# Groups with a distance each, which is a WHEN in SQL.
MAX_GROUPS = 1_000
# How often a score is raised, by twice as much each time: enough from its last bit to all of it.
_MAX_STEPS = 60


def conformed_ensemble(predictor: Predictor, data: Any, target: str, coverage: float, groups: str | None) -> Ensemble:
    """Return the ensemble with an interval learnt from rows with labels, as `Model.conform` describes it.

    Raises
    ------
    ParameterError
        If the ensemble is of no regression of one target, or the coverage is not between 0 and 1.
    DataError
        If a column is not there, a label is not one of the loss, or the rows are too few.
    """
    ensemble = predictor.ensemble
    kind_of(ensemble.loss)
    rows_needed(coverage)
    source = open_rows(data, labelled_columns(ensemble, target))
    names = source.names()
    if groups is not None and groups not in names:
        near = did_you_mean(groups, names) or f", which has {listed(names)}"
        raise DataError(f"groups column {shown(groups)} is not in the data{near}")
    needed = dict.fromkeys([*ensemble.read_names, target, *([] if groups is None else [groups])])
    # Once, so that all columns have the same row order; a column that is not there is named below.
    frame = source.to_frame([name for name in needed if name in names]).collect()
    if groups is not None:
        group_type(groups, frame.schema[groups])
    rows = score_rows(predictor, frame, target, None, "margin")
    _check_labels(ensemble.loss, pl.Series("label", rows.labels), target)
    predictions = rows.predictions.reshape(len(rows.labels), -1).T
    scores = conformity_scores(ensemble.loss, list(predictions), rows.labels, coverage)
    by = None if groups is None else frame[groups]
    return replace(ensemble, interval=conformal_interval(ensemble.loss, scores, coverage, by))


def _check_labels(loss: Loss, labels: pl.Series, target: str) -> None:
    """Raise `DataError` if a label is none of the loss."""
    if loss.label_condition is None:
        return
    wrong = labels.filter(~labels.to_frame().select(loss.label_condition.to_polars()).to_series())
    if len(wrong):
        raise DataError(
            f"objective {shown(loss.name)} takes {loss.label_requirement}; target {shown(target)} holds others in "
            f"{len(wrong):,} of {len(labels):,} rows, such as {wrong[0]:g}"
        )


def conformity_scores(loss: Loss, margins: Sequence[Floats], labels: Floats, coverage: float) -> Floats:
    """Return the score of each row: the distance from which on the row's interval holds its label.

    Parameters
    ----------
    loss
        The model's.
    margins
        Float64 (outputs, rows): margins of trees that have not seen the row.
    labels
        Float64 (rows,).
    coverage
        The coverage, by which two of several quantiles are chosen.

    Returns
    -------
    Floats
        Float64 (rows,); infinite where no interval holds the label.

    Raises
    ------
    ParameterError
        If the loss has no intervals.
    """
    kind, quantiles = kind_of(loss), chosen_quantiles(loss, coverage)
    rows = pl.DataFrame({"label": labels, **dict(zip(loss.margins, margins, strict=True))})
    scores = rows.select(score_of(loss, kind, quantiles).to_polars()).to_series().to_numpy().copy()
    scores[np.isnan(scores)] = math.inf  # of a prediction that is infinite
    # p + abs(y - p) may round to less than y, and a row at the end of its interval would be outside.
    ends = interval_ends(loss, kind, quantiles, narrows=True)
    steps = np.spacing(np.abs(scores))
    for _ in range(_MAX_STEPS):
        outside = np.flatnonzero(np.isfinite(scores) & ~_holds(ends, rows, scores))
        if not len(outside):
            return scores
        scores[outside] += steps[outside]
        steps[outside] *= 2.0
    scores[outside] = math.inf
    return scores


def _holds(ends: Ends, rows: pl.DataFrame, distances: Floats) -> npt.NDArray[np.bool_]:
    """Return whether each row's label is in its interval of that distance."""
    columns = rows.with_columns(pl.Series(DISTANCE, distances))
    for stage in ends.stages:
        columns = columns.with_columns(value.to_polars().alias(name) for name, value in stage.items())
    holds = (ends.lower.to_polars() <= pl.col("label")) & (pl.col("label") <= ends.upper.to_polars())
    return columns.select(holds.alias("held")).to_series().to_numpy()


def chosen_quantiles(loss: Loss, coverage: float) -> tuple[int, ...]:
    """Return the numbers of the two quantiles that the interval is made of: nearest to its ends; none if not of them.

    >>> from frameboost.losses.built_in import get_loss
    >>> chosen_quantiles(get_loss("reg:quantileerror", {"quantile_alpha": (0.05, 0.25, 0.5, 0.75, 0.95)}), 0.5)
    (1, 3)
    """
    if not loss.has_quantiles:
        return ()
    alphas = [Fraction(repr(alpha)) for alpha in loss.renewal]
    tail = (1 - _exact(coverage)) / 2
    first = min(range(len(alphas)), key=lambda k: abs(alphas[k] - tail))
    last = max(range(len(alphas)), key=lambda k: (-abs(alphas[k] - (1 - tail)), k))
    return (first, last) if first < last else (0, len(alphas) - 1)


def conformal_interval(loss: Loss, scores: Floats, coverage: float, groups: pl.Series | None = None) -> Interval:
    """Return the intervals of a model, from scores of rows that its trees have not seen.

    Parameters
    ----------
    loss
        The model's.
    scores
        Float64 (rows,), of `conformity_scores`; those of several models, each of rows that it has not seen, may be
        joined (cross-conformal, Vovk 2015), for which the coverage is observed in practice, but not guaranteed.
    coverage
        Between 0 and 1.
    groups
        A column (rows,) of strings, integers or Booleans, named as in the data to predict: a distance for each value.
        Those of too few rows, missing and other values have the distance of all rows.

    Raises
    ------
    ParameterError
        If the loss has no intervals, or the coverage is not between 0 and 1.
    DataError
        If there are too few rows for the coverage, or too many scores are infinite; if the groups are too many, all
        too small, or of another type.
    """
    kind = kind_of(loss)
    needed = rows_needed(coverage)
    if len(scores) < needed:
        raise DataError(
            f"coverage={coverage:g} takes at least {counted(needed, 'row')} to conform on, and there "
            f"{'is' if len(scores) == 1 else 'are'} {len(scores):,}; with fewer rows only infinite intervals reach it"
        )
    distance = conformal_distance(scores, coverage)
    lookup = None if groups is None else _by_group(scores, coverage, groups, distance)
    return Interval(float(coverage), len(scores), kind, distance, chosen_quantiles(loss, coverage), lookup)


def _by_group(scores: Floats, coverage: float, groups: pl.Series, otherwise: float) -> Lookup:
    """Return the distance of each group that has rows enough."""
    kind = group_type(groups.name, groups.dtype)
    needed = rows_needed(coverage)
    values = groups.cast(kind.to_polars())
    rows = pl.DataFrame({"group": values, "score": scores}).drop_nulls("group")
    group_rows = rows.group_by("group").agg("score").filter(pl.col("score").list.len() >= needed).sort("group")
    if group_rows.is_empty():
        raise DataError(
            f"no value of groups column {shown(groups.name)} has the {counted(needed, 'row')} that coverage="
            f"{coverage:g} takes"
        )
    if len(group_rows) > MAX_GROUPS:
        raise DataError(
            f"groups column {shown(groups.name)} has {len(group_rows):,} values; pass one with at most {MAX_GROUPS:,}"
        )
    known = group_rows["group"].to_list()
    numbers = tuple(conformal_distance(group_scores.to_numpy(), coverage) for group_scores in group_rows["score"])
    labels = tuple(map(int, known)) if kind.family == "boolean" else tuple(known)
    return Lookup(DISTANCE, groups.name, kind, labels, numbers, otherwise)


def group_type(name: str, dtype: pl.DataType) -> FeatureType:
    """Return the type of a column of groups.

    Raises
    ------
    DataError
        If it is not of strings, integers or Booleans.
    """
    kind = FeatureType.from_polars(dtype)
    if kind is not None and kind.is_integer and kind.bounds is not None and kind.bounds[1] < 2**63:
        return FeatureType("codes")
    if kind is None or kind.name not in ("string", "boolean"):
        raise DataError(f"groups column {shown(name)} has type {dtype}; it must be of strings, integers or Booleans")
    return kind


def conformal_distance(scores: Floats, coverage: float) -> float:
    """Return the ⌈(n + 1) · coverage⌉-th smallest of n scores.

    >>> conformal_distance(np.arange(1.0, 20.0), 0.9)
    18.0

    Raises
    ------
    DataError
        If it is infinite.
    """
    index = math.ceil((len(scores) + 1) * _exact(coverage)) - 1
    distance = float(np.partition(scores, index)[index])
    if math.isinf(distance):
        raise DataError(
            f"coverage={coverage:g} would take infinite intervals: the model's predictions overflow, or labels are out "
            "of its range"
        )
    return distance


def rows_needed(coverage: float) -> int:
    """Return the number of rows from which on a coverage can be guaranteed: coverage / (1 - coverage), rounded up.

    >>> rows_needed(0.9), rows_needed(0.95), rows_needed(0.5)
    (9, 19, 1)

    Raises
    ------
    ParameterError
        If the coverage is not between 0 and 1.
    """
    share = _exact(coverage)
    return math.ceil(share / (1 - share))


def _exact(coverage: float) -> Fraction:
    """Return the decimal number that a user writes: 0.55 times 20 is 11, and not more."""
    if not 0.0 < coverage < 1.0:
        raise ParameterError(f"coverage must be between 0 and 1, both exclusive, not {shown(coverage)}")
    return Fraction(repr(float(coverage)))
