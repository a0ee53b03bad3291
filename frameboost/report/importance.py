"""Which features matter: the gain of their splits, and SHAP values on a sample of the rows."""

from __future__ import annotations

from frameboost import plots
from frameboost.checks.messages import shortened
from frameboost.prediction.contributions import BIAS
from frameboost.report.markup import Chart, Section, paragraph
from frameboost.report.material import Material

__all__ = ["importance"]

_MAX_OUTPUTS = 3
_TOP = 15
_ROWS, _STEPS = 500, 4_000_000  # rows to explain; fewer if these times the leaves are more steps


def importance(material: Material) -> Section:
    """Return the section."""
    model = material.model
    gain = Chart(
        plots.importance(model, "total_gain", top=_TOP),
        "How much all splits on a feature lower the training loss.", "Gain",
    )  # fmt: skip
    parts: list[Chart] = [gain]
    n_outputs = material.ensemble.n_outputs
    if BIAS in model.features:
        text = f"There are no SHAP values, as a feature is named {BIAS}, which is the name of their constant."
        return Section("importance", "What matters", [gain, paragraph(text, kind="note")])
    leaves = sum(1 for tree in material.ensemble.trees for _ in tree.leaves())
    rows = max(100, min(_ROWS, _STEPS // max(1, leaves)))
    for output in range(min(n_outputs, _MAX_OUTPUTS)):
        chart = plots.shap_summary(model, material.rows, top=_TOP, output=None if n_outputs == 1 else output, rows=rows)
        caption = "A dot is a row: how much the feature moves its margin away from the mean."
        parts.append(Chart(chart, caption, "SHAP values" + _of_output(material, output)))
    more = n_outputs - _MAX_OUTPUTS
    note = [paragraph(f"SHAP values of {more:,} more outputs are left out.", kind="note")] if more > 0 else []
    return Section("importance", "What matters", [*parts, *note])


def _of_output(material: Material, output: int) -> str:
    ensemble = material.ensemble
    if ensemble.n_outputs == 1:
        return ""
    if ensemble.output_labels:
        return f" of {shortened(str(ensemble.output_labels[output]), 40)}"
    return f" of {'class' if ensemble.loss.classes else 'output'} {output}"
