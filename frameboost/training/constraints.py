"""Constraints on what trees may look like: directions along columns, and which columns may interact.

Both as in XGBoost (src/tree/split_evaluator.h and src/tree/constraints.cc):

- *Monotone.* A split on a constrained column is made only if its children's weights do not run against the direction,
  and from then on the middle between the two weights bounds all that grows below them, from above on one side and from
  below on the other. Bounds are inherited, whatever a node is split on. So no leaf that a larger value leads to is
  worth less (or more) than one that a smaller value leads to. A missing value has no place in the order.
- *Interaction.* The columns on a path from the root are all of one of the sets. The root may be split on any column;
  one that is in no set is alone on its path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from frameboost.checks.messages import did_you_mean, shown
from frameboost.errors import ParameterError
from frameboost.parameters.parameters import Parameters
from frameboost.schema.feature import Feature
from frameboost.splits.split import FloatArray, Split, SplitLimits
from frameboost.training.node import OpenNode

__all__ = ["Constraints"]


@dataclass(frozen=True, slots=True)
class Constraints:
    """The constraints of a fit, by feature number.

    Attributes
    ----------
    monotone
        int8 (features,): 1 where the margin must not fall with the feature, -1 where it must not rise, else 0.
    sets
        The sets of features that may interact; None if all may.
    is_monotone
        Whether there is a direction along any feature.
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
            If they name a column that is no feature, or a direction along one that has no order.
        """
        number_of = {feature.name: i for i, feature in enumerate(features)}
        monotone = np.zeros(len(features), dtype=np.int8)
        for name, direction in (parameters.monotone_constraints or {}).items():
            number = _number("monotone_constraints", name, number_of)
            if features[number].type.is_categorical:
                raise ParameterError(
                    f"monotone_constraints names {shown(name)}, which holds strings; only columns with an order have a "
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
        """Return what the splits of open nodes must keep to; ``allowed``, bool (nodes, features), what they may be."""
        if self.sets is not None:
            interacting = np.ones_like(allowed)
            for row, node in zip(interacting, nodes, strict=True):
                if node.path:
                    row[:] = False
                    row[list(self._companions(node.path))] = True
            allowed = allowed & interacting
        return SplitLimits(allowed, self.monotone, self.bounds(nodes))

    def bounds(self, nodes: Sequence[OpenNode]) -> FloatArray:
        """Return the least and the largest weight that each node may have: float64 (nodes, 2)."""
        if self.is_monotone:
            return np.array([(node.lower, node.upper) for node in nodes])
        return _unbounded(len(nodes))

    def _companions(self, path: frozenset[int]) -> frozenset[int]:
        """Return the features that may follow on those of ``path``: themselves, and all sets that they are all in."""
        return path.union(*(members for members in self.sets or () if path <= members))

    def narrow(self, node: OpenNode, left_weight: float, right_weight: float) -> None:
        """Part the bounds of the two children of a node that was split on a constrained feature.

        Parameters
        ----------
        node
            A node whose children have its own bounds.
        left_weight, right_weight
            Their weights within those bounds.
        """
        split, left, right = node.split, node.left, node.right
        assert split is not None and left is not None and right is not None
        direction = self.monotone[split.feature]
        if direction == 0:
            return
        middle = (left_weight + right_weight) / 2
        rises = left_weight <= right_weight if _asks_for_presence(split) else direction > 0
        if rises:
            left.upper = right.lower = middle
        else:
            left.lower = right.upper = middle


@lru_cache(maxsize=256)
def _unbounded(count: int) -> FloatArray:
    return np.tile([-np.inf, np.inf], (count, 1))


def _asks_for_presence(split: Split) -> bool:
    """Whether the split tells missing values from all others, and so runs in no direction.

    XGBoost makes it either way round, and bounds its children all the same.
    """
    return split.threshold is None and split.categories is None


def _number(parameter: str, name: str, number_of: dict[str, int]) -> int:
    if name not in number_of:
        raise ParameterError(f"{parameter} names {shown(name)}, which is not a feature{did_you_mean(name, number_of)}")
    return number_of[name]
