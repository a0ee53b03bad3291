"""Models built from their parts."""

from collections.abc import Mapping, Sequence
from typing import Any

import frameboost as fb
from frameboost.ensemble.ensemble import Ensemble
from frameboost.expressions.expression import Expression
from frameboost.losses.loss import Loss
from frameboost.schema.feature import Feature
from frameboost.trees.tree import Tree


def model_of_parts(
    loss: Loss, parameters: Mapping[str, Any], features: Sequence[Feature], base_margins: Sequence[float],
    trees: Sequence[Tree], calibration: Expression | None = None,
) -> fb.Model:  # fmt: skip
    """Return the model of an ensemble with these parts."""
    return fb.Model(Ensemble(loss, parameters, tuple(features), tuple(base_margins), tuple(trees), calibration))
