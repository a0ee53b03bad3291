"""Trees that the engine grows in one call each: those of `frameboost.training.grower` and of `vector_trees`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any, cast

import numpy as np

from frameboost.engines.contract import Engine, GrownNodes, TreeEngine, TreeShape, capabilities_of
from frameboost.parameters.parameters import Parameters
from frameboost.splits.split import Stats
from frameboost.training.grower import BinThresholds, GrownArrays, GrownTree, TreeTarget
from frameboost.training.linear_leaves import LinearLeaves
from frameboost.training.splitter import SplitSearch, SplitSettings
from frameboost.trees.linear_leaves import LinearColumns

__all__ = ["WholeTreeGrower"]

_INVERTED = bytes([1, 0, *range(2, 256)])  # True and False, as bytes


class WholeTreeGrower:
    """Replaces `TreeGrower` and `VectorTreeGrower` for engines that grow whole trees.

    Parameters
    ----------
    engine
        The engine over the training rows, a `TreeEngine`.
    followers
        Engines over held-out rows.
    search
        The split search over its columns, for the bins.
    settings, parameters
        Shape and regularisation of the trees, and feature sampling.
    linear
        Fits slopes of linear leaves, or None; the engines are then `LinearEngine`.
    """

    def __init__(
        self, engine: Engine, followers: Sequence[Engine], search: SplitSearch, settings: SplitSettings,
        parameters: Parameters, linear: LinearLeaves | None = None,
    ) -> None:  # fmt: skip
        self._engine, self._trees, self._linear = engine, cast(TreeEngine, engine), linear
        self._parameters, self._settings = parameters, settings
        self._walking: list[Any] = [each for each in followers if capabilities_of(each).takes_trees]
        self._moving = [each for each in followers if each not in self._walking]
        self._counts = [b.count for b in search.bins]
        self._is_categorical = np.array([b.feature.type.is_categorical for b in search.bins])
        self._has_categories = bool(self._is_categorical.any())
        self._thresholds = BinThresholds(search.bins)
        self._bin_of = search.splitter.bin_of

    def grow(self, root_stats: Sequence[Stats], targets: Sequence[TreeTarget], shrinkage: float) -> list[GrownTree]:
        """See `TreeGrower.grow` and `VectorTreeGrower.grow`."""
        p, min_gain = self._parameters, max(target.min_gain for target in targets)
        shape = TreeShape(p.max_depth, p.max_leaves, self._settings.least_gain(min_gain), p.grow_policy)
        grown = self._trees.grow_tree(shape, self._settings.penalties, shrinkage, self._settings.features.draws())
        for k, target in enumerate(targets):
            if target.renewal is not None:
                for leaf, value in target.renewal.leaf_values(self._engine, shrinkage).items():
                    grown.value[k, leaf] = value
        categories = self._named(grown) if self._has_categories else {}
        linear: list[LinearColumns | None] = [None] * len(targets)
        if self._linear is not None:
            number = np.arange(len(grown.feature))
            linear = self._linear.fitted(self._engine, number, grown.feature, grown.left, grown.value, shrinkage)
        for each in (self._trees, *self._walking):
            each.add_grown(grown, [target.margin for target in targets], linear)
        splits = grown.feature.copy(), grown.bin.copy(), grown.missing_left.copy(), grown.left.copy()
        repeated = []
        for k, target in enumerate(targets):
            results = grown.gain[k].copy(), grown.cover[k].copy(), grown.value[k].copy()
            arrays = GrownArrays(splits, results, self._thresholds, categories, target.output, linear[k])
            repeated.append(GrownTree.of(arrays, target.margin, self._bin_of))
        if self._moving:
            for tree in repeated:
                tree.add_to_margins(self._moving)
        return repeated

    def _named(self, grown: GrownNodes) -> dict[int, tuple[int, ...]]:
        """Return the categories in splits, by node."""
        of_table: dict[int, tuple[int, ...]] = {}  # the nodes of a level of a symmetric tree have one
        named = {}
        for node in np.flatnonzero((grown.feature >= 0) & self._is_categorical[grown.feature]).tolist():
            table = int(grown.table[node])
            if table not in of_table:
                of_table[table] = self._categories(grown, node, table)
            named[node] = of_table[table]
        return named

    def _categories(self, grown: GrownNodes, node: int, table: int) -> tuple[int, ...]:
        """Return the categories of a split: those opposite to the missing direction."""
        count = self._counts[int(grown.feature[node])]
        is_named = grown.goes_left[table : table + count].tobytes()
        return tuple(compress(range(count), is_named.translate(_INVERTED) if grown.missing_left[node] else is_named))
