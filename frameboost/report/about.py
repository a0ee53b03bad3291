"""What the model is: objective, trees, features, and on which rows this report is made."""

from __future__ import annotations

from frameboost.checks.messages import counted, shortened
from frameboost.report.markup import Raw, Section, code, escaped, facts, number, paragraph
from frameboost.report.material import Material

__all__ = ["about"]

_LABELS_SHOWN = 6


def about(material: Material) -> Section:
    """Return the section."""
    ensemble, model = material.ensemble, material.model
    leaves = sum(1 for tree in ensemble.trees for _ in tree.leaves())
    rows: list[tuple[object, object]] = [
        ("objective", code(ensemble.loss.name)),
        ("predicts", _predicts(material)),
        ("rounds", f"{model.n_rounds:,}"),
        ("trees", f"{counted(model.n_trees, 'tree')} of depth {ensemble.depth}, {counted(leaves, 'leaf', 'leaves')}"),
        ("features", f"{len(ensemble.features):,}, of which {_used(material):,} in splits"),
        ("base margin", ", ".join(number(value) for value in ensemble.base_margins[:_LABELS_SHOWN])),
        ("rows of this report", f"{material.n_rows:,}"),
    ]
    if ensemble.offset is not None:
        added = f"{ensemble.offset.kind} {', '.join(ensemble.offset.names)}"
        rows.append(("offset of the margin", code(shortened(added))))
    if ensemble.calibration is not None:
        rows.append(("calibrated", code(shortened(ensemble.calibration.text))))
    if model.best_iteration is not None:
        best = "" if model.best_score is None else f", {number(model.best_score)}"
        rows.append(("best round in training", f"{model.best_iteration:,}{best}"))
    parts = [facts(rows)]
    if material.evaluation is None:
        parts.append(paragraph(
            "No labels were given, so this report says nothing of how good the model is: name their column, ",
            code("target="), ".", kind="note",
        ))  # fmt: skip
    if material.of_sample:
        parts.append(paragraph(f"Metrics are of all rows; charts are {material.of_sample}.", kind="note"))
    return Section("about", "What it is", parts)


def _predicts(material: Material) -> Raw:
    ensemble = material.ensemble
    loss = ensemble.loss
    if ensemble.labels:
        labels = [code(shortened(str(label), 40)) for label in ensemble.labels[:_LABELS_SHOWN]]
        more = len(ensemble.labels) - len(labels)
        return Raw(f"{len(ensemble.labels):,} classes: {', '.join(labels)}" + (f" and {more:,} more" if more else ""))
    if material.is_ranking:
        return escaped("the order of the rows of a query")
    if len(loss.labels) > 1:
        return escaped(f"{len(loss.labels):,} numbers, of a target each")
    if loss.classes:
        return escaped(f"{loss.classes:,} classes, 0 to {loss.classes - 1:,}")
    if loss.is_distribution:
        return escaped("a mean and a standard deviation")
    return escaped("a number" if loss.n_outputs == 1 else f"{loss.n_outputs:,} numbers")


def _used(material: Material) -> int:
    trees = material.ensemble.trees
    return len({tree.feature[node] for tree in trees for node in range(len(tree)) if not tree.is_leaf(node)})
