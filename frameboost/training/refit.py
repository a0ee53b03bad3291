"""Refit leaf values to other rows, with the same splits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

from frameboost.binning.bins import Bins
from frameboost.checks.messages import shown
from frameboost.data.feature_columns import find_features
from frameboost.data.sources import Source
from frameboost.engines.choose import choose_engine, open_engine
from frameboost.engines.contract import EngineRequest, RefitEngine
from frameboost.ensemble.ensemble import Ensemble
from frameboost.ensemble.metadata import Metadata
from frameboost.errors import ParameterError
from frameboost.expressions.expression import Expression
from frameboost.parameters.parameters import Parameters, shrinkage_of
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature
from frameboost.splits.search import bounded_weight
from frameboost.splits.split import FloatArray, Split, Stats
from frameboost.training.boosting import compute_gradients
from frameboost.training.data_checks import check_held_out, open_labelled
from frameboost.training.grower import moves_of
from frameboost.training.growths import is_for_all_outputs, renewals_of
from frameboost.training.open_nodes import Constraints, OpenNode
from frameboost.training.train import plus
from frameboost.trees.tree import Tree, on_leaf_grid

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
        If the model can't be refitted, or a column is missing or has another type.
    DataError
        If the rows can't be trained on.
    """
    if reason := _why_not(ensemble):
        raise ParameterError(f"the model can't be refitted: it {reason}")
    loss, features = ensemble.loss, ensemble.features
    source, roles = open_labelled(ensemble, data, target, weight, label_upper_bound, group, exactly=True)
    offset = ensemble.offset
    roles |= {} if offset is None else offset.roles(loss.margins)
    if "qid" in loss.roles and group is None:
        raise ParameterError(f"objective {shown(loss.name)} needs group, the column of query ids")
    if "qid" not in loss.roles and group is not None:
        raise ParameterError(f"group is for the rank:* objectives; objective {shown(loss.name)} does not use it")
    _check_types(source, features)
    engine = choose_engine("auto", source, RefitEngine, "refit")
    with ExitStack() as stack:
        workers = stack.enter_context(closing(Workers()))
        request = EngineRequest(source, features, roles, Parameters(), workers)
        rows = stack.enter_context(closing(open_engine(engine, RefitEngine, request)))
        check_held_out(rows, loss, roles, "data")
        rows.keep_columns([Bins(feature) for feature in features])
        added = {} if offset is None else offset.in_training(loss.margins)
        starts = zip(loss.margins, ensemble.base_margins, strict=True)
        rows.start_margins({name: plus(Expression(repr(base), ()), added.get(name)) for name, base in starts})
        trees = _Refitter(rows, ensemble, decay_rate, is_weighted=weight is not None).run()
        trained = Metadata.of_training(rows.n_rows)
    base_margins, on_grid = on_leaf_grid(ensemble.base_margins, trees)
    return replace(
        ensemble, base_margins=base_margins, trees=on_grid, interval=None, training=ensemble.training.without_rounds(),
        metadata=replace(trained, name=ensemble.metadata.name, tags=ensemble.metadata.tags), baseline=None,
    )  # fmt: skip


def _why_not(ensemble: Ensemble) -> str | None:
    if ensemble.calibration is not None:
        return "is calibrated"
    if ensemble.parameters.get("booster") == "dart":
        return "has trees weighted by dropout"
    if ensemble.is_linear:
        return "has slopes in its leaves (linear_tree=True)"
    if ensemble.loss.name.startswith("python:"):
        return "was trained with an objective that is a Python function, which the model does not have"
    if not ensemble.loss.is_trainable or "learning_rate" not in ensemble.parameters:
        return (
            "is an average of models, comes from another library, or was continued with another learning rate or "
            "penalty, so that nothing tells with which each tree was trained"
        )
    return None


def _check_types(source: Source, features: Sequence[Feature]) -> None:
    types = find_features(source, features)
    for feature in features:
        if types[feature.name] != feature.type.values:
            raise ParameterError(
                f"feature {shown(feature.name)} has type {source.type_names()[feature.name]}, but {feature.type} in "
                "the model; cast it to the same type"
            )


class _Refitter:
    """Replays the rounds of training with the splits of a model: gradients, then the leaf values of each tree."""

    def __init__(self, rows: RefitEngine, ensemble: Ensemble, decay_rate: float, *, is_weighted: bool) -> None:
        self._rows = rows
        self._ensemble = ensemble
        self._decay_rate = decay_rate
        self._renewals = renewals_of(rows, ensemble.loss, is_weighted=is_weighted)
        # As files of older releases lack some, with the defaults.
        parameters = Parameters.from_keywords(dict(ensemble.parameters))
        self._penalties = (parameters.reg_lambda, parameters.reg_alpha, parameters.max_delta_step or 0.0)
        self._constraints = Constraints.of(parameters, ensemble.features)
        self._least, self._least_rows = parameters.min_child_weight, parameters.min_child_samples
        self._is_symmetric = parameters.grow_policy == "symmetric"
        self._is_vector = is_for_all_outputs(parameters, ensemble.loss)

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
        sums = self._rows.node_sums(len(tree))
        for node in reversed(range(len(tree))):  # children come after their parent
            if not tree.is_leaf(node):
                sums[:, node] = sums[:, tree.left[node]] + sums[:, tree.right[node]]
        values = self._values(tree, sums, shrinkage)
        leaves = {leaf: values[leaf] for leaf in tree.leaves()}
        self._rows.add_leaf_values(leaves, self._ensemble.loss.margins[tree.output])
        return replace(tree, value=tuple(values), cover=tuple(sums[1].tolist()))

    def _values(self, tree: Tree, sums: FloatArray, shrinkage: float) -> list[float]:
        """Return the values of the nodes; unreached ones keep theirs within the bounds."""
        renewed: dict[int, float] = {}
        if (renewal := self._renewals.get(tree.output)) is not None:
            renewed = self._rows.node_quantiles(renewal.residual, renewal.weight, renewal.alpha)
        share_of_old, fresh = 1.0 - self._decay_rate, [0.0] * len(tree)
        parents = {child: n for n in range(len(tree)) if not tree.is_leaf(n) for child in (tree.left[n], tree.right[n])}
        bounds = self._bounds(tree, sums, shrinkage)
        for node, old in enumerate(tree.value):  # parents come first
            G, H, n_rows = sums[:, node].tolist()
            low, high = (bound * shrinkage for bound in bounds[node])
            if H <= 0.0:
                new = min(max(old, low), high)
            elif node in renewed:
                new = renewed[node] * shrinkage
            elif self._is_symmetric and node in parents and self._is_small(H, n_rows):
                new = min(max(fresh[parents[node]], low), high)
            elif self._least > H and (node not in parents or self._is_vector):
                new = 0.0
            else:
                new = self._weight(G, H, bounds[node]) * shrinkage
            fresh[node] = new
        if renewal is not None and self._constraints.is_monotone:
            nodes = self._nodes(tree, sums)
            for each, value in zip(nodes, fresh, strict=True):
                each.value = value
            self._constraints.bound_values(nodes)
            fresh = [each.value for each in nodes]
        return [
            old if new == old else self._decay_rate * old + share_of_old * new + 0.0
            for old, new in zip(tree.value, fresh, strict=True)
        ]

    def _is_small(self, H: float, n_rows: float) -> bool:
        return self._least > H or self._least_rows > n_rows

    def _weight(self, G: float, H: float, bounds: tuple[float, float]) -> float:
        return float(bounded_weight(G, H, *self._penalties, *bounds))

    def _bounds(self, tree: Tree, sums: FloatArray, shrinkage: float) -> list[tuple[float, float]]:
        """Return the bounds of each node's weight from monotone constraints, as `Constraints.narrow` sets them."""
        bounds = [(-math.inf, math.inf)] * len(tree)
        if not self._constraints.is_monotone or tree.output in self._renewals:
            return bounds
        nodes = self._nodes(tree, sums)

        def weight(child: OpenNode, parent: OpenNode) -> float:
            if self._is_symmetric and self._is_small(child.stats.H, child.rows):
                return parent.value
            if child.stats.H <= 0.0 and not self._is_symmetric:
                return min(max(tree.value[child.id] / shrinkage, child.lower), child.upper)
            return self._weight(child.stats.G, child.stats.H, (child.lower, child.upper))

        nodes[0].value = self._weight(nodes[0].stats.G, nodes[0].stats.H, bounds[0])

        for node in nodes:
            if (left := node.left) is not None and (right := node.right) is not None:
                for child in (left, right):
                    child.lower, child.upper = node.lower, node.upper
                left.value, right.value = weight(left, node), weight(right, node)
                self._constraints.narrow(node, left.value, right.value)
        return [(node.lower, node.upper) for node in nodes]

    def _nodes(self, tree: Tree, sums: FloatArray) -> list[OpenNode]:
        """Return the nodes of a tree as while growing, with their sums over these rows."""
        nodes = [OpenNode(n, 0, Stats(*sums[:2, n].tolist()), rows=float(sums[2, n])) for n in range(len(tree))]
        for number, (split, _, _) in _moves(tree):
            node = nodes[number]
            node.split, node.left, node.right = split, nodes[tree.left[number]], nodes[tree.right[number]]
        return nodes


def _moves(tree: Tree) -> Iterator[tuple[int, tuple[Split, int, int]]]:
    """Yield the moves of all nodes; bins are irrelevant, as the rows are not binned."""
    for level in moves_of(tree, lambda *_: 0):
        yield from level.items()
