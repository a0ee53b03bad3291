"""Trees that the engine grows in one call each, where it can: the same trees as `frameboost.training.grower` grows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from frameboost.engines.contract import Engine, GrownNodes, TreeEngine, TreeShape
from frameboost.parameters.parameters import Parameters
from frameboost.schema.types import Physical
from frameboost.splits.split import Penalties, Stats
from frameboost.training.constraints import Constraints
from frameboost.training.gradients import Renewal
from frameboost.training.grower import GrownTree
from frameboost.training.sampling import FeatureSampler
from frameboost.training.splitter import SplitSearch
from frameboost.trees.tree import LEAF, Tree

__all__ = ["WholeTreeGrower", "are_grown_whole"]


def are_grown_whole(engine: Engine, parameters: Parameters, constraints: Constraints) -> bool:
    """Whether an engine grows the trees of a fit: without constraints."""
    return (
        parameters.tree_method == "hist" and not constraints.is_monotone and constraints.sets is None
        and isinstance(engine, TreeEngine) and engine.grows_trees()
    )  # fmt: skip


class WholeTreeGrower:
    """Does what `frameboost.training.grower.TreeGrower` does, by an engine that grows trees.

    Parameters
    ----------
    engine
        The engine over the training rows.
    search
        The split search over its columns, for their bins.
    parameters, penalties
        Shape and regularisation of the trees.
    features
        Says how the features of each tree are drawn.
    followers
        Engines over held-out rows.
    """

    def __init__(
        self,
        engine: Engine,
        search: SplitSearch,
        parameters: Parameters,
        penalties: Penalties,
        features: FeatureSampler,
        followers: Sequence[Engine] = (),
    ) -> None:
        assert isinstance(engine, TreeEngine)
        p = parameters
        self._trees, self._engine, self._penalties, self._features = engine, engine, penalties, features
        shrinkage = p.learning_rate / p.num_parallel_tree
        self._shape = TreeShape(p.max_depth, p.max_leaves, p.gamma, p.grow_policy, shrinkage)
        self._walking = [each for each in followers if isinstance(each, TreeEngine) and each.grows_trees()]
        self._moving = [each for each in followers if each not in self._walking]
        self._cuts = [None if b.feature.type.is_categorical else b.cuts for b in search.bins]
        self._counts = [b.count for b in search.bins]
        self._bin_of = search.splitter.bin_of

    def grow(self, root_stats: Stats, output: int, margin: str, renewal: Renewal | None = None) -> GrownTree:
        """See `TreeGrower.grow`."""
        grown = self._trees.grow_tree(self._shape, self._penalties, self._features.draws())
        if renewal is not None:
            quantiles = self._engine.node_quantiles(renewal.residual, renewal.weight, renewal.alpha)
            for leaf, value in quantiles.items():
                grown.value[leaf] = value * self._shape.shrinkage + 0.0
        for engine in (self._trees, *self._walking):
            engine.add_grown(grown, margin)
        tree = self._frozen(grown, output)
        repeated = GrownTree.of(tree, margin, self._bin_of)
        if self._moving:
            repeated.add_to_margins(self._moving)
        return repeated

    def _frozen(self, grown: GrownNodes, output: int) -> Tree:
        feature, bins, left = grown.feature.tolist(), grown.bin.tolist(), grown.left.tolist()
        missing_left = [side == 1 for side in grown.missing_left.tolist()]
        thresholds: list[Physical | None] = [None] * len(feature)
        categories: list[tuple[int, ...] | None] = [None] * len(feature)
        for node, number in enumerate(feature):
            if number != LEAF:
                cuts = self._cuts[number]
                if cuts is None:
                    categories[node] = self._categories(grown, node, number)
                elif bins[node] <= len(cuts):
                    thresholds[node] = cuts[bins[node] - 1]
        return Tree(
            feature=tuple(feature),
            threshold=tuple(thresholds),
            categories=tuple(categories),
            missing_left=tuple(missing_left),
            left=tuple(left),
            right=tuple([LEAF if child == LEAF else child + 1 for child in left]),
            gain=tuple(grown.gain.tolist()),
            cover=tuple(grown.cover.tolist()),
            value=tuple(grown.value.tolist()),
            output=output,
        )

    def _categories(self, grown: GrownNodes, node: int, feature: int) -> tuple[int, ...]:
        """Return the categories that a split names: those on the side that missing values do not go to."""
        start = int(grown.table[node])
        goes_left = grown.goes_left[start : start + self._counts[feature]]
        return tuple(np.flatnonzero(goes_left != bool(grown.missing_left[node])).tolist())
