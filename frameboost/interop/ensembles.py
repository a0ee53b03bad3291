"""Build ensembles for all readers: trees from another library's nodes, thresholds, and checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from frameboost.checks.json_files import is_finite
from frameboost.checks.messages import listed, shown
from frameboost.ensemble.ensemble import Ensemble, Labels
from frameboost.ensemble.metadata import Metadata
from frameboost.errors import ModelFileError, ParameterError
from frameboost.losses.built_in import get_loss
from frameboost.losses.loss import Loss
from frameboost.parameters.parameters import Parameters
from frameboost.schema.types import Feature, FeatureType, Physical
from frameboost.trees.linear_leaves import LinearLeaf
from frameboost.trees.tree import LEAF, Tree, on_leaf_grid

__all__ = [
    "LeafNode",
    "SplitNode",
    "above_float32",
    "as_float32",
    "at_most",
    "build_tree",
    "category_codes",
    "checked_ensemble",
    "checked_names",
    "class_labels",
    "float64_thresholds",
    "log32",
    "logit32",
    "native_loss",
    "nearest_float32",
    "shortest",
]


@dataclass(frozen=True, slots=True)
class LeafNode:
    """A leaf; ``cover`` is the weight of its training rows, 1.0 if the library does not store it."""

    value: float
    cover: float = 1.0
    linear: LinearLeaf | None = None


@dataclass(frozen=True, slots=True)
class SplitNode:
    """A split, with the fields of `frameboost.trees.tree.Tree`; ``left`` and ``right`` are the library's node ids."""

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


def build_tree(root: Any, look_up: Callable[[Any], SplitNode | LeafNode], output: int = 0) -> Tree:
    """Return the tree below ``root``, with nodes numbered in preorder, so that children follow their parents.

    Parameters
    ----------
    root
        The library's id of the root node, of any type.
    look_up
        A function that returns the node of an id. For a split that sends all rows to one side, it may return that
        child.
    output
        The index of the margin that the leaves add to.
    """
    nodes: list[SplitNode | LeafNode] = []
    indices: dict[tuple[int, bool], int] = {}
    waiting: list[tuple[Any, int, bool]] = [(root, -1, False)]
    while waiting:
        name, parent, is_left = waiting.pop()
        node = look_up(name)
        indices[parent, is_left] = len(nodes)
        if isinstance(node, SplitNode):
            waiting += ((node.right, len(nodes), False), (node.left, len(nodes), True))
        nodes.append(node)

    def of_splits(name: str, in_leaf: Any) -> tuple[Any, ...]:
        return tuple(getattr(node, name) if isinstance(node, SplitNode) else in_leaf for node in nodes)

    linear = tuple([node.linear if isinstance(node, LeafNode) else None for node in nodes])
    return Tree(
        feature=of_splits("feature", LEAF),
        threshold=of_splits("threshold", None),
        categories=of_splits("categories", None),
        missing_left=of_splits("missing_left", False),
        left=tuple(indices.get((i, True), LEAF) for i in range(len(nodes))),
        right=tuple(indices.get((i, False), LEAF) for i in range(len(nodes))),
        gain=of_splits("gain", 0.0),
        cover=tuple(node.cover for node in nodes),
        value=tuple(node.value for node in nodes),
        output=output,
        with_missing=of_splits("with_missing", False),
        linear=linear if any(linear) else (),
    )


def at_most(threshold: float, *, missing_left: bool) -> dict[str, Any] | bool:
    """Return the fields of a `SplitNode` for ``x <= threshold``; True or False if all rows go left or right.

    >>> at_most(0.5, missing_left=False)
    {'threshold': 0.5000000000000001, 'missing_left': False}
    """
    if threshold == math.inf:  # all values that are not missing go left
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


# --- names, categories, losses and the ensemble -----------------------------------------------------------------------


def native_loss(name: str, parameters: dict[str, Any]) -> tuple[Loss, dict[str, Any]]:
    """Return frameboost's loss of that name, and its parameters as in a model file.

    Raises
    ------
    ParameterError
        If a parameter is out of range.
    """
    checked = Parameters.from_keywords(parameters)
    shaping = checked.shaping()
    return get_loss(name, checked.as_dict()), {key: shaping[key] for key in parameters}


def checked_ensemble(
    loss: Loss, parameters: Mapping[str, Any], features: Sequence[Feature], base_margins: Sequence[float],
    trees: Sequence[Tree], labels: Any = None, *, library: str,
) -> Ensemble:  # fmt: skip
    """Return the ensemble, with leaf values rounded to their grid; ``labels`` are as in `read_target`.

    ``library`` is the library that trained it.

    Rounding moves a margin by less than its last bit (see `frameboost.trees.tree`).

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
    except OverflowError as error:  # the value of an inner node, a mean of leaves
        raise ModelFileError("damaged model: an inner node's value is beyond all leaves") from error
    metadata = Metadata(library=library)
    return Ensemble(
        loss, parameters, tuple(features), bases, on_grid, labels=class_labels(labels, loss), metadata=metadata
    )


def class_labels(labels: Any, loss: Loss) -> Labels:
    """Return another library's class labels if they are strings, or False and True; empty for numbers.

    Raises
    ------
    ModelFileError
        If the number of distinct strings differs from that of classes.
    """
    values = [] if labels is None else list(getattr(labels, "tolist", lambda: labels)())
    if not loss.classes or not values:
        return ()
    if values == [False, True] and all(isinstance(label, bool) for label in values):
        return (False, True)
    if not all(isinstance(label, str) and _is_text(label) for label in values):
        return ()
    if len(values) == 1 < loss.classes:  # other libraries train two classes of one label, the second has no name
        return ()
    if len(values) != loss.classes or len(set(values)) < len(values):
        raise ModelFileError(f"damaged model: it has {loss.classes} classes, and the labels {listed(values)}")
    return tuple(values)


def checked_names(names: Sequence[Any]) -> tuple[str, ...]:
    """Return the names of the features.

    Raises
    ------
    ModelFileError
        If there are none, two are equal, or one is not text.
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
    """Whether a name has no lone surrogates, which JSON may spell and UTF-8 may not."""
    try:
        return bool(name.encode("utf-8")) or name == ""
    except UnicodeEncodeError:
        return False


def category_codes(values: Sequence[Any], name: str, what: str = "feature") -> tuple[Feature, tuple[int, ...]]:
    """Return a categorical feature, and the position of each of ``values`` among its categories.

    Whole numbers are codes, which a column may hold as integers or floats; Booleans are categories of their type.
    ``what`` is the name of the feature in messages.

    Raises
    ------
    ParameterError
        If the values are neither all strings, all whole numbers nor all Booleans.
    """
    known, kind = [int(v) if isinstance(v, float) and v.is_integer() else v for v in values], "codes"
    if all(isinstance(v, str) and _is_text(v) for v in known):
        kind = "string"
    elif all(isinstance(v, bool) for v in known):
        known, kind = list(map(int, known)), "category(boolean)"
    elif not all(isinstance(v, int) and not isinstance(v, bool) and abs(v) < 2**63 for v in known):
        raise ParameterError(
            f"the categories of {what} {shown(name)} must be all strings or all whole numbers, or else all Booleans"
        )
    ordered = tuple(sorted(set(known)))
    if len(ordered) < len(known):
        raise ModelFileError(f"damaged model: {what} {shown(name)} has a category twice")
    indices = {category: index for index, category in enumerate(ordered)}
    return Feature(name, FeatureType(kind), ordered), tuple(indices[v] for v in known)


# --- float32 arithmetic -----------------------------------------------------------------------------------------------

# The number after the largest float32, if its exponent had one more value: from halfway to it numbers are infinite.
_BEYOND = 2.0**128
_NEAREST_TO_0_AND_1 = np.float32(1e-6)


def float64_thresholds(thresholds: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return T for each threshold t such that ``float32(x) < t`` for the same float64 x as ``x < T``.

    T is the smallest float64 that rounds to t or above: the midpoint of t and the preceding float32, if the midpoint
    rounds to t (ties to even), otherwise the float64 after the midpoint. This includes infinities: 1e300 is infinite as
    float32. Nothing is less than NaN, so NaN becomes minus infinity.

    >>> float64_thresholds([0.5, 1.0000001]).tolist()
    [0.4999999850988388, 1.000000059604645]
    """
    t = np.asarray(thresholds, dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        before = np.nextafter(t, np.float32(-np.inf)).astype(np.float64)
    above = np.where(t == np.inf, _BEYOND, t.astype(np.float64))
    midpoint = (np.where(before == -np.inf, -_BEYOND, before) + above) / 2  # exact in float64
    is_even = t.view(np.uint32) % 2 == 0
    nearest = np.where(is_even, midpoint, np.nextafter(midpoint, np.inf))
    return np.where(np.isnan(t) | (t == -np.inf), -np.inf, nearest)


def nearest_float32(number: Fraction) -> float:
    """Return the float32 nearest to a number, ties to the greater: the inverse of `float64_thresholds`.

    >>> nearest_float32(Fraction(0.4999999850988388)), nearest_float32(Fraction(10) ** 50)
    (0.5, inf)
    """
    above = FeatureType("float32").at_least(number)
    assert isinstance(above, float)
    with np.errstate(over="ignore"):
        below = float(np.nextafter(np.float32(above), np.float32(-np.inf)))
    middle = (Fraction(max(below, -_BEYOND)) + Fraction(min(above, _BEYOND))) / 2
    return above if number >= middle else below


def as_float32(values: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Return the numbers as float32; those beyond its range become infinite."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(values, dtype=np.float64).astype(np.float32)


def shortest(value: float) -> float:
    """Return the float64 with the shortest text that parses to the float32 nearest to ``value``.

    >>> shortest(0.699999988079071)
    0.7
    """
    return float(str(as_float32(value)[()]))


def logit32(probabilities: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return ln(p / (1 − p)) as XGBoost computes it: p is clipped to a millionth from 0 and from 1."""
    one = np.float32(1)
    clipped = np.clip(probabilities, _NEAREST_TO_0_AND_1, one - _NEAREST_TO_0_AND_1)
    return np.asarray(-np.log(one / clipped - one), dtype=np.float32)


def log32(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return natural logarithms: minus infinity for 0, NaN for negative numbers."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(values), dtype=np.float32)
