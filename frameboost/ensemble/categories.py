"""Ensembles of other rows over one set of categories: each feature gets the categories that any of them knows.

Categories are numbered in sorted order, so one that only another ensemble knows renumbers those after it: of ``("b",)``
and ``("a", "b")``, code 0 of the first becomes 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from frameboost.ensemble.ensemble import Ensemble
from frameboost.ensemble.tree_columns import ColumnTrees, TreeColumns
from frameboost.schema.types import Feature

__all__ = ["over_the_same_categories"]


def over_the_same_categories(ensembles: Sequence[Ensemble]) -> list[Ensemble]:
    """Return the ensembles, which have the same columns in the same order, over the categories of all of them."""
    features = tuple(
        replace(same[0], categories=tuple(sorted({name for feature in same for name in feature.categories})))
        for same in zip(*(ensemble.features for ensemble in ensembles), strict=True)
    )
    return [_over(ensemble, features) for ensemble in ensembles]


def _over(ensemble: Ensemble, features: tuple[Feature, ...]) -> Ensemble:
    codes = {}
    for number, (before, after) in enumerate(zip(ensemble.features, features, strict=True)):
        if before.categories != after.categories:
            code_of = {category: code for code, category in enumerate(after.categories)}
            codes[number] = np.array([code_of[category] for category in before.categories], dtype=np.int64)
    trees = ColumnTrees(TreeColumns.of(ensemble.trees).renumbered(codes)) if codes else ensemble.trees
    return replace(ensemble, features=features, trees=trees)
