"""Refitting: new leaf values for old trees from other rows, with the splits as they are."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from frameboost.binning.bins import Bins
from frameboost.checks.messages import shown
from frameboost.data.feature_columns import find_features
from frameboost.data.rows_to_score import open_rows
from frameboost.data.sources import Source
from frameboost.engines.memory.held_out import HeldOutEngine
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import ParameterError
from frameboost.expressions.expression import Expression
from frameboost.parameters.learning_rates import shrinkage_of
from frameboost.runtime.workers import Workers
from frameboost.schema.feature import Feature
from frameboost.splits.gain import leaf_weight
from frameboost.training.base_margins import plus
from frameboost.training.class_labels import labelled_columns, with_label_codes
from frameboost.training.data_checks import check_held_out, find_roles
from frameboost.training.gradients import compute_gradients, renewals_of
from frameboost.training.grower import moves_of
from frameboost.training.ranking_checks import with_group
from frameboost.trees.leaf_grid import on_leaf_grid
from frameboost.trees.tree import Tree

__all__ = ["refitted"]


def refitted(
    ensemble: Ensemble,
    data: Any,
    target: str | Sequence[str],
    weight: str | None,
    label_upper_bound: str | None,
    group: str | None,
    decay_rate: float,
) -> Ensemble:
    """Return the ensemble with leaf values and covers from other rows (see `Model.refit`).

    Raises
    ------
    ParameterError
        If the model does not go with refit, or a column is not there or has another type.
    DataError
        If the rows can't be trained on.
    """
    if reason := _why_not(ensemble):
        raise ParameterError(f"the model {reason}, which does not go with refit")
    loss, features = ensemble.loss, ensemble.features
    opened = open_rows(data, labelled_columns(ensemble, target), exactly=True)
    source = with_label_codes(opened, target, ensemble.labels)
    ensemble.find_in(source)
    offset = ensemble.offset
    more = {} if offset is None else offset.roles(loss.margins)
    roles = with_group(source, find_roles(source, target, weight, None, label_upper_bound) | more, group)
    if "qid" in loss.roles and group is None:
        raise ParameterError(f"objective {shown(loss.name)} needs group, the column that tells queries apart")
    _check_types(source, features)
    names = list(dict.fromkeys([*(f.name for f in features), *roles.values()]))
    with (
        closing(Workers()) as workers,
        closing(HeldOutEngine(source.to_frame(names), features, roles, workers)) as rows,
    ):
        check_held_out(rows, loss, roles, "data")
        rows.keep_columns([Bins(feature) for feature in features])
        added = {} if offset is None else offset.in_training(loss.margins)
        starts = zip(loss.margins, ensemble.base_margins, strict=True)
        rows.start_margins({name: plus(Expression(repr(base), ()), added.get(name)) for name, base in starts})
        trees = _Refitter(rows, ensemble, decay_rate, is_weighted=weight is not None).run()
    base_margins, on_grid = on_leaf_grid(ensemble.base_margins, trees)
    return replace(ensemble, base_margins=base_margins, trees=on_grid, interval=None)


def _why_not(ensemble: Ensemble) -> str | None:
    if ensemble.calibration is not None:
        return "is calibrated"
    if ensemble.parameters.get("booster") == "dart":
        return "has trees weighted by dropout"
    if ensemble.is_linear:
        return "has slopes in its leaves (linear_tree=True)"
    is_own = ensemble.loss.is_trainable and "learning_rate" in ensemble.parameters
    return (
        None
        if is_own
        else (
            "is an average of models or comes from another library, so that the learning rate of its trees is not known"
        )
    )


def _check_types(source: Source, features: Sequence[Feature]) -> None:
    types = find_features(source, features)
    for feature in features:
        if types[feature.name] != feature.type.values:
            raise ParameterError(
                f"feature {shown(feature.name)} has type {source.type_names()[feature.name]}, but {feature.type} in "
                "the model; give it the same type"
            )


class _Refitter:
    """Repeats the rounds of training with given splits: gradients, then the leaf values of each tree."""

    def __init__(self, rows: HeldOutEngine, ensemble: Ensemble, decay_rate: float, *, is_weighted: bool) -> None:
        self._rows = rows
        self._ensemble = ensemble
        self._decay_rate = decay_rate
        self._renewals = renewals_of(rows, ensemble.loss, is_weighted=is_weighted)

    def run(self) -> tuple[Tree, ...]:
        trees, per_round = self._ensemble.trees, self._ensemble.trees_per_round
        refitted = []
        for first in range(0, len(trees), per_round):
            compute_gradients(self._rows, self._ensemble.loss)
            shrinkage = shrinkage_of(self._ensemble.parameters, first // per_round)
            refitted += [self._refit(tree, shrinkage) for tree in trees[first : first + per_round]]
        return tuple(refitted)

    def _refit(self, tree: Tree, shrinkage: float) -> Tree:
        self._rows.start_tree(tree.output)
        for moves in moves_of(tree, lambda *_: 0):  # these rows are not binned
            self._rows.apply_splits(moves)
        sums = np.array(
            [np.bincount(self._rows.node_of, self._rows.gradient_pairs[:, i], minlength=len(tree)) for i in (0, 1)]
        )
        for node in reversed(range(len(tree))):  # children come after their parent
            if not tree.is_leaf(node):
                sums[:, node] = sums[:, tree.left[node]] + sums[:, tree.right[node]]
        values = self._values(tree, sums, shrinkage)
        leaves = {leaf: values[leaf] for leaf in tree.leaves()}
        self._rows.add_leaf_values(leaves, self._ensemble.loss.margins[tree.output])
        return replace(tree, value=tuple(values), cover=tuple(sums[1].tolist()))

    def _values(
        self, tree: Tree, sums: np.ndarray[tuple[int, int], np.dtype[np.float64]], shrinkage: float
    ) -> list[float]:
        p = self._ensemble.parameters
        penalties = (p.get("reg_lambda", 1.0), p.get("reg_alpha", 0.0), p.get("max_delta_step") or 0.0)
        found: dict[int, float] = {}
        if (renewal := self._renewals.get(tree.output)) is not None:
            nodes, h = pl.Series(self._rows.node_of), self._rows.hessians()
            found = self._rows.quantiles_by_node(nodes, h, renewal.residual, renewal.weight, renewal.alpha)
        values = []
        for node, old in enumerate(tree.value):
            G, H = sums[:, node].tolist()
            if H <= 0.0:  # no row reaches it
                values.append(old)
                continue
            new = found.get(node, float(leaf_weight(G, H, *penalties))) * shrinkage
            values.append(self._decay_rate * old + (1.0 - self._decay_rate) * new + 0.0)
        return values
