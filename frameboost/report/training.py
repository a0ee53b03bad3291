"""How training went: the learning curves, if the model has its history."""

from __future__ import annotations

from frameboost import plots
from frameboost.evaluation.history import long_history
from frameboost.report.markup import Chart, Section, code, paragraph
from frameboost.report.material import Material

__all__ = ["training"]


def training(material: Material) -> Section:
    """Return the section."""
    model = material.model
    if long_history(model.history).is_empty():
        text = "There are no learning curves: nothing was evaluated while the model was trained, as it is with "
        return Section("training", "How it was trained", [paragraph(text, code("valid="), ".", kind="note")])
    return Section("training", "How it was trained", [Chart(plots.learning_curves(model))])
