"""Whether the columns of trees obey all rules of the model file, looked at by numpy, all nodes at once.

`frameboost.ensemble.tree_file` has the same rules node by node, and says which node breaks one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from frameboost.ensemble.tree_columns import TreeColumns
from frameboost.schema.types import Feature
from frameboost.trees.tree import LEAF

__all__ = ["are_plain"]

BoolArray = npt.NDArray[np.bool_]


def are_plain(trees: TreeColumns, features: Sequence[Feature], n_outputs: int) -> bool:
    """Whether all trees obey all rules. If not, one may still be right by the look at each node."""
    feature = trees.nodes["feature"]
    if not len(feature) or feature.min() < LEAF or feature.max() >= len(features):
        return False
    return bool(
        ((trees.output >= 0) & (trees.output < n_outputs)).all()
        and all(np.isfinite(trees.nodes[field]).all() for field in ("gain", "cover", "value"))
        and _are_trees(trees)
        and _are_splits(trees)
        and _have_thresholds_of_types(trees, features)
        and _have_categories(trees, features)
    )


def _are_trees(trees: TreeColumns) -> bool:
    """Whether each node but the root has one parent, which comes before it, and leaves have no children."""
    left, right, is_leaf = trees.nodes["left"], trees.nodes["right"], trees.nodes["feature"] == LEAF
    root = np.repeat(trees.roots, trees.sizes)
    node, size = np.arange(len(left)) - root, np.repeat(trees.sizes, trees.sizes)
    is_above = (node < np.minimum(left, right)) & (np.maximum(left, right) < size)
    if not np.where(is_leaf, (left == LEAF) & (right == LEAF), is_above).all():
        return False
    parents = np.bincount(np.concatenate([(left + root)[~is_leaf], (right + root)[~is_leaf]]), minlength=len(left))
    return bool((parents == (node != 0)).all())


def _are_splits(trees: TreeColumns) -> bool:
    """Whether leaves ask nothing, and flags are set where they may be."""
    is_leaf, missing_left = trees.nodes["feature"] == LEAF, trees.nodes["missing_left"]
    by_categories = _marked(trees, trees.categories_at)
    asks = ~np.isnan(trees.nodes["threshold"]) | _marked(trees, trees.integer_at) | by_categories
    return not (
        (asks & is_leaf).any()
        or (trees.nodes["gain"] != 0)[is_leaf].any()
        or (missing_left & ~asks).any()  # a split on whether the value is present sends missing right
        or ("with_missing" in trees.nodes and (trees.nodes["with_missing"] & ~by_categories).any())
    )


def _have_thresholds_of_types(trees: TreeColumns, features: Sequence[Feature]) -> bool:
    """Whether the types of the features hold the thresholds."""
    has_float = ~np.isnan(trees.nodes["threshold"])
    feature = trees.nodes["feature"][has_float]
    kinds = [each.type for each in features]
    if not np.array([kind.is_float and not kind.is_categorical for kind in kinds])[feature].all():
        return False
    of_integers = trees.nodes["feature"][trees.integer_at].tolist()
    bounds = [(1, 0) if kind.bounds is None or kind.is_categorical else kind.bounds for kind in kinds]
    return not has_float[trees.integer_at].any() and all(
        bounds[asked][0] <= value <= bounds[asked][1] for asked, value in zip(of_integers, trees.integers, strict=True)
    )


def _have_categories(trees: TreeColumns, features: Sequence[Feature]) -> bool:
    """Whether splits on features with categories name sorted, distinct ones of them, and no other splits do."""
    is_inner = trees.nodes["feature"] != LEAF
    by_categories = _marked(trees, trees.categories_at)
    is_categorical = np.array([each.type.is_categorical for each in features])[trees.nodes["feature"]] & is_inner
    if not np.array_equal(by_categories, is_categorical) or (trees.categories_size < 1).any():
        return False
    if not len(trees.categories):
        return True
    ends = np.cumsum(trees.categories_size)
    starts = ends - trees.categories_size
    n_known = np.array([len(each.categories) for each in features])[trees.nodes["feature"][trees.categories_at]]
    ascends = np.diff(trees.categories, prepend=-1) > 0
    ascends[starts] = trees.categories[starts] >= 0
    return bool(ascends.all() and (trees.categories[ends - 1] < n_known).all())


def _marked(trees: TreeColumns, nodes: npt.NDArray[np.int64]) -> BoolArray:
    found = np.zeros(len(trees.nodes["feature"]), dtype=np.bool_)
    found[nodes] = True
    return found
