"""Ensembles of other rows over one set of categories: each feature gets the categories that any of them knows.

Categories are numbered in sorted order, so one that only another ensemble knows renumbers those after it: of ``("b",)``
and ``("a", "b")``, code 0 of the first becomes 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from frameboost.ensemble.ensemble import Ensemble
from frameboost.schema.feature import Feature
from frameboost.trees.tree import Tree

__all__ = ["over_the_same_categories"]


def over_the_same_categories(ensembles: Sequence[Ensemble]) -> list[Ensemble]:
    """Return the ensembles, which have the same columns in the same order, over the categories of all of them."""
    features = tuple(
        replace(same[0], categories=tuple(sorted({name for feature in same for name in feature.categories})))
        for same in zip(*(ensemble.features for ensemble in ensembles), strict=True)
    )
    return [_over(ensemble, features) for ensemble in ensembles]


def _over(ensemble: Ensemble, features: tuple[Feature, ...]) -> Ensemble:
    places: dict[int, list[int]] = {}
    for number, (before, after) in enumerate(zip(ensemble.features, features, strict=True)):
        if before.categories != after.categories:
            place = {category: code for code, category in enumerate(after.categories)}
            places[number] = [place[category] for category in before.categories]
    trees = tuple(_renumbered(tree, places) for tree in ensemble.trees) if places else ensemble.trees
    return replace(ensemble, features=features, trees=trees)


def _renumbered(tree: Tree, places: dict[int, list[int]]) -> Tree:
    if places.keys().isdisjoint(tree.feature):
        return tree
    renumbered: list[tuple[int, ...] | None] = list(tree.categories)
    for node, codes in enumerate(tree.categories):
        if codes is not None and (place := places.get(tree.feature[node])) is not None:
            renumbered[node] = tuple(sorted([place[code] for code in codes]))
    return replace(tree, categories=tuple(renumbered))
