"""The open nodes of a growing tree: the order of growth, constraints, and feature sampling.

The order is the ``grow_policy``. To add one, write a class here and add it to `GROW_POLICIES` and to the values of the
parameter. Splits are limited by feature sampling (`FeatureSampler`) and constraints, both as in XGBoost
(src/tree/split_evaluator.h and src/tree/constraints.cc):

- *Monotone.* A split on a constrained column is rejected if the weights of its children violate the direction.
  Otherwise the mean of the two weights bounds all descendants: from above on the side that must be lower, from below on
  the other. Example, x increasing, children with weights 1 and 3: the mean is 2, so no leaf on the left predicts more
  than 2, and none on the right less. Missing values have no order.
- *Interaction.* All columns on a path from the root belong to one set. The root may split on any column; a column in no
  set interacts with none.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from frameboost.checks.messages import did_you_mean, shown
from frameboost.engines.contract import FeatureDraws
from frameboost.errors import ParameterError
from frameboost.expressions.draws import draw_key, hash32
from frameboost.parameters.parameters import Parameters
from frameboost.schema.types import Feature
from frameboost.splits.split import FloatArray, Split, SplitLimits, Stats

__all__ = ["GROW_POLICIES", "Constraints", "FeatureSampler", "Lossguide", "OpenNode", "Ranked"]

_BY_TREE, _BY_LEVEL, _BY_NODE = 1, 2, 3  # first part of a draw's key; draws of rows have 0


@dataclass(slots=True, eq=False)
class OpenNode:
    """A node of a growing tree.

    Attributes
    ----------
    id
        The node index, in the order of creation; the root is 0.
    depth
        The depth; the root has 0.
    stats
        G and H of its rows.
    parent
        The index of its parent; -1 for the root.
    sibling
        The other child of its parent.
    is_smaller
        Whether its H is the smaller of the two siblings; ties go to the left.
    split
        Its best split, or None.
    left, right
        Its children, once split.
    value
        Its value as a leaf, also of inner nodes; set once the tree is grown.
    lower, upper
        The bounds of its weight, from monotone constraints.
    path
        The split features of its ancestors, if there are interaction constraints.
    outputs
        G and H of each output in a tree for several, float64 (outputs, 2); ``stats`` are their sums.
    rows
        The number of its rows, in a symmetric tree that counts rows.
    """

    id: int
    depth: int
    stats: Stats
    parent: int = -1
    is_smaller: bool = True
    lower: float = -math.inf
    upper: float = math.inf
    path: frozenset[int] = frozenset()
    sibling: OpenNode | None = field(default=None, repr=False)
    split: Split | None = None
    left: OpenNode | None = field(default=None, repr=False)
    right: OpenNode | None = field(default=None, repr=False)
    value: float = 0.0
    outputs: FloatArray | None = field(default=None, repr=False)
    rows: float = math.inf

    def divide(self, next_id: int) -> tuple[OpenNode, OpenNode]:
        """Create the two children, with indices ``next_id`` and ``next_id + 1`` and the bounds of the node."""
        assert self.split is not None
        split, depth, lower, upper = self.split, self.depth + 1, self.lower, self.upper
        is_left_smaller = split.left.H <= split.right.H
        left = OpenNode(next_id, depth, split.left, self.id, is_left_smaller, lower, upper)
        right = OpenNode(next_id + 1, depth, split.right, self.id, not is_left_smaller, lower, upper)
        if self.outputs is not None and split.left_outputs is not None:
            left.outputs, right.outputs = split.left_outputs, self.outputs - split.left_outputs
        if split.rows is not None:
            left.rows, right.rows = split.rows
        left.sibling, right.sibling = right, left
        self.left, self.right = left, right
        return left, right


# --- the order of splits ----------------------------------------------------------------------------------------------

Ranked = tuple[float, int, OpenNode]  # −gain, a number that is unique, and the node: the least has the first turn


class GrowPolicy(Protocol):
    """The nodes of a tree that have a split and wait for their turn."""

    def add(self, node: OpenNode) -> None:
        """Add a waiting node; nodes are added in the order of creation."""

    def next(self, budget: int) -> list[OpenNode]:
        """Take the nodes to split next, empty to stop; ``budget`` is the number of leaves that may still be added."""


class Depthwise:
    """Splits a whole level, as far as the budget allows, from left to right."""

    def __init__(self) -> None:
        self._level: list[OpenNode] = []

    def add(self, node: OpenNode) -> None:
        """See `GrowPolicy.add`."""
        self._level.append(node)

    def next(self, budget: int) -> list[OpenNode]:
        """See `GrowPolicy.next`."""
        level, self._level = self._level, []
        return level[:budget]


class Symmetric(Depthwise):
    """Splits a whole level, or nothing if the budget does not suffice."""

    def next(self, budget: int) -> list[OpenNode]:
        """See `GrowPolicy.next`."""
        level = super().next(budget + 1)
        return level if len(level) <= budget else []


class Lossguide:
    """Splits the node with the largest gain; ties go to the first created.

    Attributes
    ----------
    waiting
        The waiting nodes, as a heap.
    """

    def __init__(self) -> None:
        self.waiting: list[Ranked] = []
        self._n_added = 0

    def add(self, node: OpenNode) -> None:
        """See `GrowPolicy.add`."""
        assert node.split is not None
        self._n_added += 1
        heapq.heappush(self.waiting, (-node.split.gain, self._n_added, node))

    def next(self, budget: int) -> list[OpenNode]:
        """See `GrowPolicy.next`."""
        return [heapq.heappop(self.waiting)[-1]] if self.waiting else []


GROW_POLICIES: dict[str, type[GrowPolicy]] = {
    "depthwise": Depthwise,
    "lossguide": Lossguide,
    "symmetric": Symmetric,
}


# --- constraints on the splits of nodes and on their values -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Constraints:
    """The constraints of a fit, by feature index.

    Attributes
    ----------
    monotone
        int8 (features,): 1 if the margin must not decrease with the feature, -1 if it must not increase, else 0.
    sets
        The sets of features that may interact; None if all may.
    is_monotone
        Whether any feature has a direction.
    """

    monotone: npt.NDArray[np.int8]
    sets: tuple[frozenset[int], ...] | None
    is_monotone: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_monotone", bool(self.monotone.any()))

    @classmethod
    def of(cls, parameters: Parameters, features: Sequence[Feature]) -> Constraints:
        """Return the constraints among the parameters.

        Raises
        ------
        ParameterError
            If they name a column that is not a feature, or a direction of one without an order.
        """
        number_of = {feature.name: i for i, feature in enumerate(features)}
        monotone = np.zeros(len(features), dtype=np.int8)
        for name, direction in (parameters.monotone_constraints or {}).items():
            number = _number("monotone_constraints", name, number_of)
            if features[number].type.is_categorical:
                what = "strings" if features[number].type.name == "string" else "categories"
                raise ParameterError(
                    f"monotone_constraints names {shown(name)}, which holds {what}; only columns with an order have a "
                    "direction"
                )
            monotone[number] = direction
        if parameters.interaction_constraints is None:
            return cls(monotone, None)
        sets = (
            frozenset(_number("interaction_constraints", name, number_of) for name in names)
            for names in parameters.interaction_constraints
        )
        return cls(monotone, tuple(sets))

    def limits(self, nodes: Sequence[OpenNode], allowed: npt.NDArray[np.bool_]) -> SplitLimits:
        """Return the limits on the splits of open nodes; ``allowed``: bool (nodes, features), the sampled features."""
        if self.sets is not None:
            interacting = np.ones_like(allowed)
            for row, node in zip(interacting, nodes, strict=True):
                if node.path:
                    row[:] = False
                    row[list(self._companions(node.path))] = True
            allowed = allowed & interacting
        return SplitLimits(allowed, self.monotone, self.bounds(nodes))

    def bounds(self, nodes: Sequence[OpenNode]) -> FloatArray:
        """Return the bounds of each node's weight: float64 (nodes, 2)."""
        if self.is_monotone:
            return np.array([(node.lower, node.upper) for node in nodes])
        return _unbounded(len(nodes))

    def _companions(self, path: frozenset[int]) -> frozenset[int]:
        """Return the features that may follow ``path``: those in it, and the sets that contain all of them."""
        return path.union(*(members for members in self.sets or () if path <= members))

    def narrow(self, node: OpenNode, left_weight: float, right_weight: float) -> None:
        """Set the bounds of the children of a node split on a constrained feature.

        Parameters
        ----------
        node
            A node; its children have its bounds.
        left_weight, right_weight
            Their weights, within those bounds, or the weight of an ancestor.
        """
        split, left, right = node.split, node.left, node.right
        assert split is not None and left is not None and right is not None
        direction = self.monotone[split.feature]
        if direction == 0:
            return
        middle = min(max((left_weight + right_weight) / 2, node.lower), node.upper)
        rises = left_weight <= right_weight if _asks_for_presence(split) else direction > 0
        if rises:
            left.upper = right.lower = middle
        else:
            left.lower = right.upper = middle

    def bound_values(self, nodes: Sequence[OpenNode]) -> None:
        """Clip renewed leaf values (quantiles) of a tree to monotone bounds, parents first.

        Bounds are derived as for weights, with the H-weighted mean of its leaves as the value of an inner node. XGBoost
        and scikit-learn renew leaves without bounds, so that predictions may violate the constraints; LightGBM rejects
        the combination.
        """
        means: dict[int, float] = {}
        for node in reversed(nodes):
            means[node.id] = node.value
            if (left := node.left) is not None and (right := node.right) is not None:
                share = left.stats.H / total if (total := left.stats.H + right.stats.H) > 0.0 else 0.5
                means[node.id] = share * means[left.id] + (1.0 - share) * means[right.id]
        nodes[0].lower, nodes[0].upper = -math.inf, math.inf
        for node in nodes:
            if node.left is None or node.right is None:
                node.value = min(max(node.value, node.lower), node.upper)
                continue
            for child in (node.left, node.right):
                child.lower, child.upper = node.lower, node.upper
            self.narrow(node, means[node.left.id], means[node.right.id])


@lru_cache(maxsize=256)
def _unbounded(count: int) -> FloatArray:
    return np.tile([-np.inf, np.inf], (count, 1))


def _asks_for_presence(split: Split) -> bool:
    """Whether the split separates missing values from all others, which has no direction.

    As in XGBoost such a split is allowed in either direction, and its children are bounded like those of any other.
    """
    return split.threshold is None and split.categories is None


def _number(parameter: str, name: str, number_of: dict[str, int]) -> int:
    if name not in number_of:
        raise ParameterError(f"{parameter} names {shown(name)}, which is not a feature{did_you_mean(name, number_of)}")
    return number_of[name]


# --- the features that are drawn for each node, by hashes (see `frameboost.expressions.draws`) ------------------------


class FeatureSampler:
    """Samples features: ``colsample_bytree`` of all, ``colsample_bylevel`` of those, ``colsample_bynode`` of those.

    With ``weights``, one for each feature, the features with the smallest −ln(u) / weight for uniform u are drawn
    (exponential variates; Efraimidis & Spirakis 2006, "Weighted random sampling with a reservoir").
    """

    def __init__(self, n_features: int, parameters: Parameters, weights: Sequence[float] | None = None) -> None:
        self.weights = weights
        self._all = np.arange(n_features)
        self._parameters = parameters
        self._tree = 0
        self._of_tree: npt.NDArray[np.int64] | None = None  # drawn when first used
        self._masks = np.ones((1, n_features), dtype=np.bool_)  # the same features in each row
        self._are_same = parameters.colsample_bylevel == parameters.colsample_bynode == 1.0  # in all nodes of a tree

    def start_tree(self, tree: int) -> None:
        """Sample the features of a tree, by its index."""
        self._tree, self._of_tree = tree, None

    def draws(self) -> FeatureDraws | None:
        """Return how the features of the tree are sampled; None for all features in every node."""
        p = self._parameters
        shares = p.colsample_bytree, p.colsample_bylevel, p.colsample_bynode
        if shares == (1.0, 1.0, 1.0):
            return None
        by_tree, by_level, by_node = (draw_key(p.seed, by, self._tree) for by in (_BY_TREE, _BY_LEVEL, _BY_NODE))
        return FeatureDraws(shares, (by_tree, by_level, by_node))

    def allowed(self, nodes: Sequence[OpenNode]) -> npt.NDArray[np.bool_]:
        """Return the features that each node may split on: bool (nodes, features)."""
        if self._of_tree is None:
            self._of_tree = self._drawn(self._all, self._parameters.colsample_bytree, _BY_TREE)
            if self._parameters.colsample_bytree < 1.0:
                self._masks[:] = False
                self._masks[:, self._of_tree] = True
        if self._are_same:
            if len(self._masks) < len(nodes):
                self._masks = np.repeat(self._masks[:1], 2 * len(nodes), axis=0)
            return self._masks[: len(nodes)]
        p = self._parameters
        mask = np.zeros((len(nodes), len(self._all)), dtype=np.bool_)
        levels = {depth: self._drawn(self._of_tree, p.colsample_bylevel, _BY_LEVEL, depth)
                  for depth in {node.depth for node in nodes}}  # fmt: skip
        for i, node in enumerate(nodes):
            mask[i, self._drawn(levels[node.depth], p.colsample_bynode, _BY_NODE, node.id)] = True
        return mask

    def _drawn(self, features: npt.NDArray[np.int64], share: float, *path: int) -> npt.NDArray[np.int64]:
        if share == 1.0:
            return features
        key = draw_key(self._parameters.seed, path[0], self._tree, *path[1:])
        by_draw = sorted(features.tolist(), key=lambda feature: hash32(feature, key))
        count = max(1, math.floor(share * len(features)))
        if (weights := self.weights) is not None and (drawable := [each for each in by_draw if weights[each] > 0]):
            by_draw = sorted(drawable, key=lambda each: -math.log((hash32(each, key) + 0.5) / 2**32) / weights[each])
        return np.array(sorted(by_draw[:count]))
