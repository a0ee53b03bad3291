"""The last step of every reader: an `Ensemble` of checked feature names, categories, losses and margins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from frameboost.checks.json_fields import is_finite
from frameboost.checks.messages import listed, shown
from frameboost.ensemble.ensemble import Ensemble, Labels
from frameboost.errors import ModelFileError, ParameterError
from frameboost.losses.built_in import get_loss
from frameboost.losses.loss import Loss
from frameboost.parameters.parameters import Parameters
from frameboost.schema.feature import Feature
from frameboost.schema.types import FeatureType
from frameboost.trees.leaf_grid import on_leaf_grid
from frameboost.trees.tree import Tree

__all__ = ["category_codes", "checked_ensemble", "checked_names", "class_labels", "native_loss"]


def native_loss(name: str, parameters: dict[str, Any]) -> tuple[Loss, dict[str, Any]]:
    """Return frameboost's own loss of that name, and its parameters as a model file holds them.

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
    trees: Sequence[Tree], labels: Any = None,
) -> Ensemble:  # fmt: skip
    """Return the ensemble, with leaf values rounded to their grid; ``labels`` are as in `class_labels`.

    Rounding moves a margin by less than its last bit (see `frameboost.trees.leaf_grid`).

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
    return Ensemble(loss, parameters, tuple(features), bases, on_grid, labels=class_labels(labels, loss))


def class_labels(given: Any, loss: Loss) -> Labels:
    """Return another library's labels of the classes if they are strings, or False and True; none if they are numbers.

    Raises
    ------
    ModelFileError
        If there are not as many different strings as classes.
    """
    found = [] if given is None else list(getattr(given, "tolist", lambda: given)())
    if not loss.classes or not found:
        return ()
    if found == [False, True] and all(isinstance(label, bool) for label in found):
        return (False, True)
    if not all(isinstance(label, str) and _is_text(label) for label in found):
        return ()
    if len(found) == 1 < loss.classes:  # other libraries train two classes of one label, the second has no name
        return ()
    if len(found) != loss.classes or len(set(found)) < len(found):
        raise ModelFileError(f"damaged model: it has {loss.classes} classes, and the labels {listed(found)}")
    return tuple(found)


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
    """Return a feature of categories, and the position of each of ``values`` among its categories.

    Whole numbers are codes, which a column may have as integers or floats; Booleans are categories of their type.
    ``what`` is what messages call the feature.

    Raises
    ------
    ParameterError
        If the values are neither all strings, all whole numbers nor all Booleans.
    """
    given, kind = [int(v) if isinstance(v, float) and v.is_integer() else v for v in values], "codes"
    if all(isinstance(v, str) and _is_text(v) for v in given):
        kind = "string"
    elif all(isinstance(v, bool) for v in given):
        given, kind = list(map(int, given)), "category(boolean)"
    elif not all(isinstance(v, int) and not isinstance(v, bool) and abs(v) < 2**63 for v in given):
        raise ParameterError(
            f"the categories of {what} {shown(name)} must be all strings or all whole numbers, or else all Booleans"
        )
    ordered = tuple(sorted(set(given)))
    if len(ordered) < len(given):
        raise ModelFileError(f"damaged model: {what} {shown(name)} has a category twice")
    indices = {category: index for index, category in enumerate(ordered)}
    return Feature(name, FeatureType(kind), ordered), tuple(indices[v] for v in given)
