"""Calibration of a trained model: its margins on labelled rows, and the link fitted to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.checks.messages import listed, shown
from frameboost.data.sources import FrameSource, Source, open_source
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import DataError, ParameterError
from frameboost.prediction.predictor import Predictor
from frameboost.schema.polars_columns import column
from frameboost.training.calibration import calibrated
from frameboost.training.data_checks import find_column

__all__ = ["calibrated_ensemble"]

Floats = npt.NDArray[np.float64]


def calibrated_ensemble(predictor: Predictor, data: Any, target: str, weight: str | None, method: str) -> Ensemble:
    """Return the ensemble with a calibration fitted to rows with labels, as `Model.calibrate` describes it.

    Raises
    ------
    ParameterError
        If the ensemble is not for two classes, or has more than one margin.
    DataError
        If a column is not there, a label is not 0 or 1, or a weight is not a number of 0 or more.
    """
    ensemble = predictor.ensemble
    if ensemble.loss.classes != 2 or ensemble.n_outputs > 1:
        found = f"{shown(ensemble.loss.name)} with {ensemble.n_outputs}"
        raise ParameterError(f"calibrate is for models of two classes with one margin, not for {found}")
    margins, labels, weights = _labelled_margins(predictor, data, target, weight)
    return replace(ensemble, calibration=calibrated(margins, labels, weights, method))


def _labelled_margins(
    predictor: Predictor, data: Any, target: str, weight: str | None
) -> tuple[Floats, Floats, Floats]:
    """Return margins, labels (0 or 1) and weights of the rows with a weight above 0, float64 (rows,) each.

    Raises
    ------
    DataError
        If a column is not there, a label is not 0 or 1, or a weight is not a number of 0 or more.
    """
    source = open_source(data)
    roles = {"target": target} | ({} if weight is None else {"weight": weight})
    for role, name in roles.items():
        find_column(source, name, role)
    frame = _read_rows(source, [*predictor.ensemble.feature_names, *roles.values()])
    labels = frame.select(column(target).cast(pl.Float64)).to_series()
    wrong = len(labels) - labels.is_in([0.0, 1.0]).sum()
    if not len(labels) or wrong:
        found = f"other values than 0 and 1 in {wrong:,} of {len(labels):,} rows" if wrong else "no rows"
        raise DataError(f"target {shown(target)} holds {found}; the labels to calibrate on are 0 and 1")
    weights = np.ones(len(labels))
    if weight is not None:
        weights = frame.select(column(weight).cast(pl.Float64)).to_series().fill_null(np.nan).to_numpy()
        if not (np.isfinite(weights) & (weights >= 0)).all():
            raise DataError(f"weight {shown(weight)} holds values that are not finite numbers of 0 or more")
    margins = predictor.predict(FrameSource(frame.lazy()).frame, "margin").to_numpy()
    counts = weights > 0
    if not counts.any():
        raise DataError(f"weight {shown(weight)} is 0 in every row; some row must count")
    return margins[counts], labels.to_numpy()[counts], weights[counts]


def _read_rows(source: Source, names: list[str]) -> pl.DataFrame:
    """Return the columns, read once, so that features, labels and weights have the same row order.

    Raises
    ------
    DataError
        If one of them is not there.
    """
    missing = [name for name in names if name not in source.names()]
    if missing:
        raise DataError(f"column {shown(missing[0])} is not in the data, which has {listed(source.names())}")
    return source.to_frame(list(dict.fromkeys(names))).collect()
