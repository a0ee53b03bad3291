"""Calibration of a trained model: its margins on labelled rows, and the link fitted to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from frameboost.checks.messages import shown
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import ParameterError
from frameboost.evaluation.scored_rows import score_rows
from frameboost.prediction.predictor import Predictor
from frameboost.training.calibration import calibrated

__all__ = ["calibrated_ensemble"]


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
    rows = score_rows(predictor, data, target, weight, "margin")
    rows.check_classes(2, target)
    rises = bool(ensemble.parameters.get("monotone_constraints"))
    link = calibrated(rows.predictions, rows.labels, rows.weights, method, rises=rises)
    return replace(ensemble, calibration=link)
