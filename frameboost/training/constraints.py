"""Monotone constraints along columns, and interaction constraints between them.

Both as in XGBoost (src/tree/split_evaluator.h and src/tree/constraints.cc):

- *Monotone.* A split on a constrained column is refused if its children's weights run against the direction. Otherwise
  the mean of the two weights bounds all nodes below them: from above on the side that must be lower, from below on the
  other. All descendants inherit the bounds. Example, x increasing, children with weights 1 and 3: the mean is 2, so no
  leaf on the left predicts more than 2, and none on the right less. Missing values are outside the order.
- *Interaction.* The columns on a path from the root are all in one set. The root may be split on any column; a column
  in no set is alone on its path.
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
from frameboost.schema.types import Feature
from frameboost.splits.split import FloatArray, Split, SplitLimits
from frameboost.training.open_nodes import OpenNode

__all__ = ["Constraints"]


@dataclass(frozen=True, slots=True)
class Constraints:
    """The constraints of a fit, by feature number.

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
            If they name a column that is no feature, or a direction along one that has no order.
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
        """Return the limits on the splits of open nodes; ``allowed``: bool (nodes, features), the features drawn."""
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
        """Return the features that may follow those of ``path``: they, and the sets that contain all of them."""
        return path.union(*(members for members in self.sets or () if path <= members))

    def narrow(self, node: OpenNode, left_weight: float, right_weight: float) -> None:
        """Set the bounds of the two children of a node that was split on a constrained feature.

        Parameters
        ----------
        node
            A node whose children have the node's bounds.
        left_weight, right_weight
            Their weights: within those bounds, or that of a node above.
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


@lru_cache(maxsize=256)
def _unbounded(count: int) -> FloatArray:
    return np.tile([-np.inf, np.inf], (count, 1))


def _asks_for_presence(split: Split) -> bool:
    """Whether the split separates missing values from all others, which has no direction.

    As in XGBoost such a split is made in either direction, and its children are bounded as those of any other.
    """
    return split.threshold is None and split.categories is None


def _number(parameter: str, name: str, number_of: dict[str, int]) -> int:
    if name not in number_of:
        raise ParameterError(f"{parameter} names {shown(name)}, which is not a feature{did_you_mean(name, number_of)}")
    return number_of[name]
