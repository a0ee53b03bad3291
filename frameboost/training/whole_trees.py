"""Trees that the engine grows in one call each, where it can: the same trees as `frameboost.training.grower` grows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import numpy as np
import numpy.typing as npt

from frameboost.binning.bins import Bins
from frameboost.engines.contract import Engine, GrownNodes, TreeEngine, TreeShape
from frameboost.parameters.parameters import Parameters
from frameboost.schema.types import Physical
from frameboost.splits.split import IntArray, Penalties, Stats
from frameboost.training.constraints import Constraints
from frameboost.training.gradients import Renewal
from frameboost.training.grower import GrownTree
from frameboost.training.sampling import FeatureSampler
from frameboost.training.splitter import SplitSearch
from frameboost.trees.tree import Tree

__all__ = ["WholeTreeGrower", "are_grown_whole"]

_INVERTED = bytes([1, 0, *range(2, 256)])  # True and False, as bytes


def are_grown_whole(engine: Engine, parameters: Parameters, constraints: Constraints) -> bool:
    """Whether an engine grows the trees of a fit: without constraints."""
    return (
        parameters.tree_method == "hist" and not constraints.is_monotone and constraints.sets is None
        and isinstance(engine, TreeEngine) and engine.grows_trees()
    )  # fmt: skip


def _thresholds_of(bins: Sequence[Bins]) -> tuple[IntArray, npt.NDArray[np.object_]]:
    """Return the thresholds of all splits in one array, and where those of each feature start, by `Split.bin`.

    There is None for categories and past the last cut, and at 0.
    """
    firsts, thresholds = np.zeros(len(bins), np.int64), list[Physical | None]([None])
    for number, each in enumerate(bins):
        firsts[number] = len(thresholds) - 1  # bins are counted from 1 on
        cuts = () if each.feature.type.is_categorical else each.cuts
        thresholds += [*cuts, *[None] * (each.count + 1 - len(cuts))]
    found = np.empty(len(thresholds), np.object_)
    found[:] = thresholds
    return firsts, found


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
        self._counts = [b.count for b in search.bins]
        self._is_categorical = np.array([b.feature.type.is_categorical for b in search.bins])
        self._has_categories = bool(self._is_categorical.any())
        self._firsts, self._thresholds = _thresholds_of(search.bins)
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
        is_inner = grown.feature >= 0
        slots = np.where(is_inner, self._firsts[grown.feature] + grown.bin, 0)
        categories: list[tuple[int, ...] | None] = [None] * len(is_inner)
        if self._has_categories:
            of_table: dict[int, tuple[int, ...]] = {}  # the nodes of a level of a symmetric tree have one
            for node in np.flatnonzero(is_inner & self._is_categorical[grown.feature]).tolist():
                table = int(grown.table[node])
                if table not in of_table:
                    of_table[table] = self._categories(grown, node, table)
                categories[node] = of_table[table]
        return Tree(
            feature=tuple(grown.feature.tolist()),
            threshold=tuple(self._thresholds[slots].tolist()),
            categories=tuple(categories),
            missing_left=tuple((grown.missing_left == 1).tolist()),
            left=tuple(grown.left.tolist()),
            right=tuple((grown.left + is_inner).tolist()),  # `LEAF` stays what it is
            gain=tuple(grown.gain.tolist()),
            cover=tuple(grown.cover.tolist()),
            value=tuple(grown.value.tolist()),
            output=output,
        )

    def _categories(self, grown: GrownNodes, node: int, table: int) -> tuple[int, ...]:
        """Return the categories that a split names: those on the side that missing values do not go to."""
        count = self._counts[int(grown.feature[node])]
        is_named = grown.goes_left[table : table + count].tobytes()
        return tuple(compress(range(count), is_named.translate(_INVERTED) if grown.missing_left[node] else is_named))
