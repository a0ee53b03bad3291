"""How the model responds: partial dependence on the features that matter most."""

from __future__ import annotations

import polars as pl

from frameboost import plots
from frameboost.checks.messages import shortened
from frameboost.plots.theme import MAX_CLASSES
from frameboost.report.markup import Chart, Raw, Section, paragraph
from frameboost.report.material import Material
from frameboost.schema.polars_columns import column, known_expr

__all__ = ["response"]

_TOP = 6
_ROWS = 500


def response(material: Material) -> Section | None:
    """Return the section, None of a model without splits."""
    model, rows = material.model, material.rows
    # By the number of splits where another library's model has no gains.
    kinds = [model.importance(kind).filter(pl.col("importance") > 0)["feature"] for kind in ("total_gain", "weight")]
    names = kinds[0] if len(kinds[0]) else kinds[1]
    present = [name for name in names if _has_value(material, name)][:_TOP]
    if not present:
        return None
    charts = [
        Chart(plots.partial_dependence(model, rows, name, rows=_ROWS), title=shortened(name, 60)) for name in present
    ]
    text = (
        "The mean prediction if every row had this value of the feature (partial dependence), beside the feature's "
        "distribution in these rows. The most important comes first; look at the numbers on the axes, which differ."
    )
    return Section("response", "How it responds", [paragraph(text), *_outputs(material), *charts])


def _outputs(material: Material) -> list[Raw]:
    """Say what the numbers of the outputs in the charts stand for."""
    ensemble = material.ensemble
    names: list[str] = []
    if ensemble.loss.name == "reg:quantileerror" and ensemble.n_outputs > 1:
        names = [f"the quantile {level:g}" for level in ensemble.loss.renewal]
    if ensemble.loss.is_distribution:
        names = ["the mean", "the logarithm of the spread"]
    shown = "; ".join(f"{number} is {name}" for number, name in enumerate(names[:MAX_CLASSES]))
    return [paragraph(f"Outputs: {shown}.", kind="note")] if shown else []


def _has_value(material: Material, name: str) -> bool:
    """Whether some row has a finite value of the feature, and of categories one that training had."""
    rows, value = material.rows, column(name)
    feature = material.ensemble.features[material.ensemble.feature_names.index(name)]
    has = value.is_finite() if rows.schema[name].is_float() else value.is_not_null()
    if feature.type.is_categorical and feature.type.name != "codes":
        has = known_expr(feature).is_not_null()
    return bool(rows.select(has.any()).item())
