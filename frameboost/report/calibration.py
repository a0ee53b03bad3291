"""Calibration: whether classes are as frequent as predicted, and as many labels below a quantile as it says."""

from __future__ import annotations

import numpy as np
import polars as pl

from frameboost import plots
from frameboost.report.markup import Chart, Section, number, paragraph, percent, table
from frameboost.report.material import Material
from frameboost.schema.polars_columns import column

__all__ = ["calibration"]


def calibration(material: Material) -> Section | None:
    """Return the section, None without labels and where predictions are neither probabilities nor on their scale."""
    loss = material.ensemble.loss
    if not material.one_target or loss.name == "binary:hinge":
        return None
    if loss.name == "reg:quantileerror":
        return _of_quantiles(material)
    if not loss.classes and not material.predicts_labels:
        return None
    chart = plots.calibration(material.model, material.predictions, material.target)
    caption = "Bars are two standard errors. Below is the distribution of the predictions."
    text = (
        "On the diagonal a class is as frequent as its probability says."
        if loss.classes
        else "On the diagonal rows of similar predictions have these as mean label."
    )
    return Section("calibration", "Calibration", [paragraph(text), Chart(chart, caption)])


def _of_quantiles(material: Material) -> Section:
    """Return the share of labels at or below each predicted quantile."""
    levels = material.ensemble.loss.renewal
    found = material.predictor.predict(material.rows, "mean")
    several = [found] if len(levels) == 1 else [found.arr.get(k) for k in range(len(levels))]
    label = material.rows.select(column(material.target).cast(pl.Float64)).to_series()
    weight = material.roles.get("weight")
    weights = None if weight is None else material.rows[weight].cast(pl.Float64).to_numpy()
    rows = []
    for level, prediction in zip(levels, several, strict=True):
        below = float(np.average((label <= prediction).to_numpy(), weights=weights))
        rows.append((number(level), percent(level), percent(below), f"{100 * (below - level):+.1f} points"))
    text = "A quantile is calibrated if that share of the labels is at or below its prediction."
    header = ("quantile", "expected below", "found below", "difference")
    return Section("calibration", "Calibration", [paragraph(text), table(header, rows, numbers=(0, 1, 2, 3))])
