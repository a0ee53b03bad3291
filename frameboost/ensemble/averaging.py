"""Average ensembles: one ensemble with the weighted mean of their margins.

A margin is a sum of leaf values, so the mean is the sum of all trees with leaves times the weight of their ensemble.
The result is an ordinary ensemble, which scores, explains and compiles like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from frameboost.ensemble.ensemble import Ensemble, TrainingRecord
from frameboost.ensemble.metadata import Metadata
from frameboost.losses.classes import with_class_weights, with_threshold
from frameboost.losses.transforms import with_smearing
from frameboost.schema.types import Feature
from frameboost.trees.tree import ColumnTrees, TreeColumns, trees_on_grid

__all__ = ["average", "over_the_same_categories", "scaled"]

_DIGITS = 12  # of a mean of thresholds, which have few
# What leaves were times, beside their weights in the mean.
_OF_LEAVES = ("learning_rate", "max_learning_rate", "learning_rates")
# The parameters of a round's trees, and those by which metrics and margins are read.
_KEPT = ("num_parallel_tree", "num_class")


def average(ensembles: Sequence[Ensemble], weights: Sequence[float], *, is_short: bool = False) -> Ensemble:
    """Return the ensemble with the weighted mean of the ensembles' margins and other numbers.

    Parameters
    ----------
    ensembles
        At least one, with the same loss and the same columns in the same order.
    weights
        The weights, above 0; they are normalised.
    is_short
        Whether to round leaf values to few digits, for shorter SQL (see `frameboost.trees.tree.trees_on_grid`).

    Returns
    -------
    Ensemble
        The trees of the first, then those of the second, and so on, with the common parameters except the learning
        rate, as leaves are scaled by weights.

    Examples
    --------
    >>> import polars as pl, frameboost as fb
    >>> df = pl.DataFrame({"x": [1, 2], "y": [0.0, 8.0]})
    >>> full, half = (fb.fit(df, "y", n_estimators=1, learning_rate=rate, reg_lambda=0).ensemble for rate in (1, 0.5))
    >>> average([full, half], [1, 1]).base_margins, [tree.value[1:] for tree in average([full, half], [1, 1]).trees]
    ((4.0,), [(-2.0, 2.0), (-1.0, 1.0)])
    """
    shares = np.array(weights, dtype=np.float64) / sum(weights)
    same = over_the_same_categories(ensembles)
    first = same[0]
    bases = [float(np.dot(shares, margins)) for margins in zip(*(part.base_margins for part in same), strict=True)]
    parts = [TreeColumns.of(part.trees).times(float(share)) for part, share in zip(same, shares, strict=True)]
    parameters, loss = _common(same), first.loss
    if loss.smearing is not None:
        numbers = np.dot(shares, [part.loss.smearing or () for part in same]).tolist()
        parameters["smearing"], loss = numbers, with_smearing(loss, numbers)
    if first.parameters.get("threshold") is not None:
        number = round(float(np.dot(shares, [part.loss.threshold for part in same])), _DIGITS)
        parameters["threshold"], loss = number, with_threshold(loss, number)
    if "class_weight" not in parameters:  # class weights differ between models
        loss = with_class_weights(loss, ())
    base_margins, trees = trees_on_grid(bases, TreeColumns.joined(parts), is_short=is_short)
    return replace(
        first,
        loss=loss,
        parameters=parameters,
        base_margins=base_margins,
        trees=trees,
        interval=None,
        training=TrainingRecord(),
        metadata=Metadata(),
        baseline=None,
    )


def scaled(ensemble: Ensemble, factor: float) -> Ensemble:
    """Return the ensemble with its margins times a factor."""
    if factor == 1:
        return ensemble
    bases = [factor * margin for margin in ensemble.base_margins]
    base_margins, trees = trees_on_grid(bases, TreeColumns.of(ensemble.trees).times(factor))
    return replace(ensemble, base_margins=base_margins, trees=trees)


def _common(ensembles: Sequence[Ensemble]) -> dict[str, object]:
    """Return the parameters that are the same in all ensembles."""
    first, others = ensembles[0].parameters, ensembles[1:]
    return {
        name: value
        for name, value in first.items()
        if name in _KEPT or (name not in _OF_LEAVES and all(other.parameters.get(name) == value for other in others))
    }


def over_the_same_categories(ensembles: Sequence[Ensemble]) -> list[Ensemble]:
    """Return the ensembles, with the same columns in order, over the union of their categories.

    Categories are numbered in sorted order, so adding one renumbers later ones: for ``("b",)`` and ``("a", "b")``, code
    0 of the first becomes 1.
    """
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
