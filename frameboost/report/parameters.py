"""Parameters, features and the hash of the model file: what tells this model from another."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from frameboost.checks.messages import counted, shortened
from frameboost.parameters.parameters import Parameters
from frameboost.report.markup import Raw, Section, bar, code, facts, number, paragraph, table
from frameboost.report.material import Material

__all__ = ["parameters"]

_MAX_FEATURES = 500


def parameters(material: Material) -> Section:
    """Return the section."""
    model = material.model
    digest = hashlib.sha256(model.to_json().encode("utf-8")).hexdigest()
    usual = Parameters().shaping() | {"max_delta_step": 0.0}  # as `fit` fills it in
    own = {name: value for name, value in model.parameters.items() if value != usual.get(name)}
    rest = {name: value for name, value in model.parameters.items() if name not in own}
    parts = [
        paragraph("SHA-256 of the model file: ", code(digest)),
        Raw("<h3>Parameters other than by default</h3>"),
        _values(own) if own else paragraph("None that the model file holds.", kind="note"),
    ]
    if rest:
        parts += [Raw("<h3>By default</h3>"), _values(rest, kind="usual")]
    return Section("parameters", "Parameters and hash", [*parts, *_features(material)])


def _values(values: Mapping[str, Any], kind: str = "") -> Raw:
    return facts([(name, code(shortened(str(value), 200))) for name, value in values.items()], kind=kind)


def _features(material: Material) -> list[Raw]:
    """Return the features with their types and the gain of their splits."""
    model = material.model
    gains = model.importance("total_gain")
    types = {feature.name: feature for feature in material.ensemble.features}
    largest = max(1e-300, float(gains["importance"].max() or 0.0))  # type: ignore[arg-type]
    rows = [
        (
            name,
            types[name].type,
            f"{len(types[name].categories):,}" if types[name].categories else "",
            bar(gain / largest),
            number(gain),
        )
        for name, gain in gains.head(_MAX_FEATURES).rows()
    ]
    more = len(gains) - len(rows)
    header = ("feature", "type in training", "categories", "gain", "")
    rest = [paragraph(f"{counted(more, 'more feature')}.", kind="note")] if more > 0 else []
    return [Raw("<h3>Features</h3>"), table(header, rows, numbers=(2, 4)), *rest]
