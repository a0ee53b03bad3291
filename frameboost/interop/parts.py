"""What the readers of other libraries' models share: trees built node by node, and the last checks of a model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from frameboost.checks.json_fields import is_finite
from frameboost.checks.messages import shown
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import ModelFileError, ParameterError
from frameboost.interop.xgboost.float32 import float64_thresholds
from frameboost.losses.known import get_loss
from frameboost.losses.loss import Loss
from frameboost.parameters.parameters import Parameters
from frameboost.schema.feature import Feature
from frameboost.schema.types import Physical
from frameboost.trees.leaf_grid import on_leaf_grid
from frameboost.trees.tree import LEAF, Tree

__all__ = [
    "Leaf", "Split", "above_float32", "at_most", "build_tree", "category_codes", "checked_ensemble",
    "checked_names", "own_loss",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf; ``cover`` is what the training rows in it weigh, 1.0 where the library does not say."""

    value: float
    cover: float = 1.0


@dataclass(frozen=True, slots=True)
class Split:
    """A question, in the terms of `frameboost.trees.tree.Tree`; ``left`` and ``right`` are the library's own nodes."""

    feature: int
    left: Any
    right: Any
    threshold: Physical | None = None
    categories: tuple[int, ...] | None = None
    missing_left: bool = False
    with_missing: bool = False
    gain: float = 0.0
    cover: float = 1.0
    value: float = 0.0


def build_tree(root: Any, look_up: Callable[[Any], Split | Leaf], output: int = 0) -> Tree:
    """Return the tree below ``root``, numbered so that children come after their parents.

    Parameters
    ----------
    root
        Whatever the library calls its nodes by.
    look_up
        Says what a node is. Where all rows would go to one side, it may return that side's node instead.
    output
        Which margin the leaves add to.
    """
    nodes: list[Split | Leaf] = []
    places: dict[tuple[int, bool], int] = {}
    waiting: list[tuple[Any, int, bool]] = [(root, -1, False)]
    while waiting:
        name, parent, is_left = waiting.pop()
        node = look_up(name)
        places[parent, is_left] = len(nodes)
        if isinstance(node, Split):
            waiting += ((node.right, len(nodes), False), (node.left, len(nodes), True))
        nodes.append(node)

    def of_splits(name: str, in_leaf: Any) -> tuple[Any, ...]:
        return tuple(getattr(node, name) if isinstance(node, Split) else in_leaf for node in nodes)

    return Tree(
        feature=of_splits("feature", LEAF),
        threshold=of_splits("threshold", None),
        categories=of_splits("categories", None),
        missing_left=of_splits("missing_left", False),
        left=tuple(places.get((i, True), LEAF) for i in range(len(nodes))),
        right=tuple(places.get((i, False), LEAF) for i in range(len(nodes))),
        gain=of_splits("gain", 0.0),
        cover=tuple(node.cover for node in nodes),
        value=tuple(node.value for node in nodes),
        output=output,
        with_missing=of_splits("with_missing", False),
    )


def at_most(threshold: float, *, missing_left: bool) -> dict[str, Any] | bool:
    """Return what of a `Split` asks ``x <= threshold``, or whether all rows go left where they all go to one side.

    >>> at_most(0.5, missing_left=False)
    {'threshold': 0.5000000000000001, 'missing_left': False}
    """
    if threshold == math.inf:  # everything that is present
        return True if missing_left else {}
    return {"threshold": math.nextafter(threshold, math.inf), "missing_left": missing_left}


def above_float32(thresholds: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return T for each threshold t such that ``float32(x) <= t`` for the same float64 x as ``x < T``.

    >>> above_float32(np.array([0.5])).tolist()
    [0.5000000298023225]
    """
    with np.errstate(over="ignore"):
        below = thresholds.astype(np.float32)
        below = np.where(below > thresholds, np.nextafter(below, np.float32(-np.inf)), below)
        return float64_thresholds(np.nextafter(below, np.float32(np.inf)))


def own_loss(name: str, parameters: dict[str, Any]) -> tuple[Loss, dict[str, Any]]:
    """Return the loss of frameboost's of that name, and its parameters as a model file holds them.

    Raises
    ------
    ParameterError
        If a parameter is out of range.
    """
    checked = Parameters.from_keywords(parameters)
    shaping = checked.shaping()
    return get_loss(name, checked.as_dict()), {given: shaping[given] for given in parameters}


def checked_ensemble(
    loss: Loss, parameters: Mapping[str, Any], features: Sequence[Feature], base_margins: Sequence[float],
    trees: Sequence[Tree],
) -> Ensemble:  # fmt: skip
    """Return the ensemble, with leaf values rounded to their grid, which moves a margin by less than its last bit.

    Raises
    ------
    ModelFileError
        If there are no trees, or the margins may leave the range of a float64.
    """
    if not trees:
        raise ModelFileError("the model has no trees")
    largest = [max(abs(tree.value[leaf]) for leaf in tree.leaves()) for tree in trees]
    if not is_finite(sum(largest) + sum(map(abs, base_margins))):
        raise ModelFileError("damaged model: its margins are not finite")
    if not all(map(is_finite, (number for tree in trees for number in (*tree.gain, *tree.cover, *tree.value)))):
        raise ModelFileError("damaged model: a gain, a cover or a value is not finite")
    try:
        bases, on_grid = on_leaf_grid(base_margins, trees)
    except OverflowError as error:  # of an inner node, whose value is the mean of leaves
        raise ModelFileError("damaged model: an inner node's value is beyond all leaves") from error
    return Ensemble(loss, parameters, tuple(features), bases, on_grid)


def checked_names(names: Sequence[Any]) -> tuple[str, ...]:
    """Return the names of the features.

    Raises
    ------
    ModelFileError
        If there are none, two are the same, or one is no text.
    """
    if not names:
        raise ModelFileError("the model has no features")
    for name in names:
        if not isinstance(name, str) or not _is_text(name):
            raise ModelFileError(f"damaged model: a feature's name must be text, not {shown(name)}")
    if len(set(names)) < len(names):
        raise ModelFileError("damaged model: two features have the same name")
    return tuple(names)


def _is_text(name: str) -> bool:
    """Whether it is free of halves of characters, which JSON may spell."""
    try:
        return bool(name.encode("utf-8")) or name == ""
    except UnicodeEncodeError:
        return False


def category_codes(values: Sequence[Any], what: str) -> tuple[tuple[str | int, ...], tuple[int, ...]]:
    """Return the categories, sorted, and for each of ``values`` its place among them.

    Raises
    ------
    ParameterError
        If the values are neither all strings nor all whole numbers.
    """
    given = [int(v) if isinstance(v, float) and v.is_integer() else v for v in values]
    strings = all(isinstance(v, str) and _is_text(v) for v in given)
    if not strings and not all(isinstance(v, int) and not isinstance(v, bool) and abs(v) < 2**63 for v in given):
        raise ParameterError(f"the categories of {what} must be all strings or all whole numbers")
    ordered = tuple(sorted(set(given)))
    if len(ordered) < len(given):
        raise ModelFileError(f"damaged model: {what} has a category twice")
    places = {category: place for place, category in enumerate(ordered)}
    return ordered, tuple(places[v] for v in given)
