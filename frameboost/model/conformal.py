"""Prediction intervals of a trained model: its margins on labelled rows, and the interval learnt from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from frameboost.checks.messages import did_you_mean, listed, shown
from frameboost.data.rows_to_score import open_rows
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import DataError
from frameboost.evaluation.scored_rows import score_rows
from frameboost.losses.loss import Loss
from frameboost.losses.outputs import kind_of
from frameboost.prediction.predictor import Predictor
from frameboost.training.class_labels import labelled_columns
from frameboost.training.conformal import conformal_interval, conformity_scores, group_type, rows_needed

__all__ = ["conformed_ensemble"]


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
    of_each = rows.predictions.reshape(len(rows.labels), -1).T
    scores = conformity_scores(ensemble.loss, list(of_each), rows.labels, coverage)
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
