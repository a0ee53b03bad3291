"""XGBoost's trees: read from the document's arrays, and translated to `frameboost.trees.tree.Tree`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from frameboost.interop.float32 import float64_thresholds
from frameboost.interop.xgboost.document import fail_damaged, floats, integers, read_count, read_object
from frameboost.schema.feature import Feature
from frameboost.trees.tree import LEAF, Tree

__all__ = ["MAX_CATEGORIES", "XGBoostTree", "read_xgboost_tree", "translate_tree"]

# A float32 holds all integers below this exactly; XGBoost treats a larger category as an unknown one.
MAX_CATEGORIES = 2**24


@dataclass(frozen=True)
class XGBoostTree:
    """An XGBoost tree as arrays without unreachable nodes: entry i of each belongs to node i.

    Attributes
    ----------
    left, right
        int64: children, which come after their parent; ``LEAF`` in a leaf.
    feature
        int64: the feature that is split on.
    threshold
        float32: ``x < threshold`` goes left, in float32.
    chosen
        By node, for categorical splits: the codes that go right.
    missing_left
        bool.
    gain, cover
        float32.
    values
        float32 (nodes, outputs): leaf values.
    """

    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    feature: npt.NDArray[np.int64]
    threshold: npt.NDArray[np.float32]
    chosen: Mapping[int, tuple[int, ...]]
    missing_left: npt.NDArray[np.bool_]
    gain: npt.NDArray[np.float32]
    cover: npt.NDArray[np.float32]
    values: npt.NDArray[np.float32]

    @property
    def inner(self) -> npt.NDArray[np.int64]:
        """The inner nodes."""
        return np.flatnonzero(self.left != LEAF)

    @property
    def numeric(self) -> npt.NDArray[np.int64]:
        """The nodes that are split at a threshold."""
        return np.array([node for node in self.inner.tolist() if node not in self.chosen], dtype=np.int64)


# --- reading ----------------------------------------------------------------------------------------------------------


def read_xgboost_tree(item: object, number: int, n_features: int, n_outputs: int) -> XGBoostTree:
    """Return the tree of that number.

    Raises
    ------
    ModelFileError
        If it is damaged.
    """
    where = f"tree {number}"
    if not isinstance(item, dict):
        fail_damaged("it must be an object", where)
    of_tree = read_object(item, "tree_param", where)
    size = read_count(of_tree, "num_nodes", where=where)
    vector = max(1, read_count(of_tree, "size_leaf_vector", 1, where=where))
    if vector > 1 and vector != n_outputs:
        fail_damaged(f"its leaves have {vector} values, for {n_outputs} outputs", where)
    left, right = (integers(item, f"{side}_children", size, where) for side in ("left", "right"))
    kept = _in_order(left, right, where)
    index = np.full(size + 1, LEAF)  # the last entry is for the children of leaves, -1
    index[kept] = np.arange(len(kept))
    is_leaf = left[kept] == LEAF
    feature = np.where(is_leaf, LEAF, integers(item, "split_indices", size, where)[kept])
    if (feature >= n_features).any() or (feature[~is_leaf] < 0).any():
        fail_damaged(f"it asks about a feature that is none of the {n_features}", where)
    # Before XGBoost 3.2, trees with leaf vectors had neither of these.
    gain, cover = (
        floats(item, key, size, where)[kept] if key in item or vector == 1 else np.zeros(len(kept), np.float32)
        for key in ("loss_changes", "sum_hessian")
    )
    threshold = floats(item, "split_conditions", size, where)
    values = _vectors(item, vector, left, right, where) if vector > 1 else threshold[:, None]
    if not all(np.isfinite(a).all() for a in (gain, cover, values[kept][is_leaf])):
        fail_damaged("its leaves, gains and covers must be finite", where)
    chosen = _categories(item, size, where)
    return XGBoostTree(
        left=index[left[kept]],
        right=np.where(is_leaf, LEAF, index[np.where(is_leaf, LEAF, right[kept])]),
        feature=feature,
        threshold=threshold[kept],
        chosen={int(index[node]): codes for node, codes in chosen.items() if index[node] >= 0 and left[node] != LEAF},
        missing_left=integers(item, "default_left", size, where)[kept].astype(np.bool_) & ~is_leaf,
        gain=np.where(is_leaf, np.float32(0), gain),
        cover=cover,
        values=values[kept],
    )


def _in_order(left: npt.NDArray[np.int64], right: npt.NDArray[np.int64], where: str) -> list[int]:
    """Return the reachable nodes, parents before children; pruning leaves unreachable ones in the arrays."""
    lefts, rights = left.tolist(), right.tolist()
    if not lefts:
        fail_damaged("it has no nodes", where)
    found, seen, ascending = [0], {0}, True
    for node in found:
        if lefts[node] == LEAF:
            continue
        for child in (lefts[node], rights[node]):
            if not 0 <= child < len(lefts) or child in seen:
                fail_damaged(f"node {node} has the child {child}, which is no node or has a parent already", where)
            ascending &= child > node
            seen.add(child)
            found.append(child)
    return sorted(found) if ascending else found


def _vectors(
    item: Mapping[str, Any], width: int, left: npt.NDArray[np.int64], right: npt.NDArray[np.int64], where: str
) -> npt.NDArray[np.float32]:
    """Return the leaf vectors of a tree for several outputs, float32 (nodes, outputs)."""
    if "leaf_weights" not in item:  # before XGBoost 3.2
        return floats(item, "base_weights", len(left) * width, where).reshape(-1, width)
    is_leaf = left == LEAF
    weights = floats(item, "leaf_weights", int(is_leaf.sum()) * width, where).reshape(-1, width)
    at = np.where(is_leaf, right, 0)  # in a leaf the right child is the index of its vector
    if (at < 0).any() or (at >= len(weights)).any():
        fail_damaged("a leaf has no values", where)
    return weights[at]


def _categories(item: Mapping[str, Any], size: int, where: str) -> dict[int, tuple[int, ...]]:
    """Return the codes that go right, by node; before XGBoost 1.3 there were no categories."""
    if "split_type" not in item:
        return {}
    is_categorical = integers(item, "split_type", size, where) == 1
    codes = integers(item, "categories", None, where)
    nodes = integers(item, "categories_nodes", None, where)
    starts, sizes = (integers(item, f"categories_{key}", len(nodes), where) for key in ("segments", "sizes"))
    if sorted(set(nodes.tolist())) != np.flatnonzero(is_categorical).tolist() or len(set(nodes.tolist())) < len(nodes):
        fail_damaged('"categories_nodes" must name the nodes that are split by categories', where)
    found = {}
    for node, start, n in zip(nodes.tolist(), starts.tolist(), sizes.tolist(), strict=True):
        named = set(codes[start : start + n].tolist())
        if start < 0 or n <= 0 or start + n > len(codes) or min(named) < 0 or max(named) >= MAX_CATEGORIES:
            fail_damaged(f"node {node} is split by no categories, or by such as can't be", where)
        found[node] = tuple(sorted(named))
    return found


# --- translating ------------------------------------------------------------------------------------------------------


def translate_tree(
    tree: XGBoostTree, features: Sequence[Feature], indices: Mapping[int, Mapping[int, int]], output: int, weight: float
) -> Tree:
    """Return the tree of one output, as frameboost has it.

    Parameters
    ----------
    tree
        The tree that was read.
    features
        The model's features.
    indices
        By categorical feature: the position of each code in `Feature.categories`.
    output
        The margin that the tree adds to; also the entry of leaf vectors that it takes.
    weight
        A factor for leaf values, from dart.
    """
    n_outputs = tree.values.shape[1]
    of_output = tree.values[:, output if n_outputs > 1 else 0].astype(np.float64) * weight
    thresholds = float64_thresholds(tree.threshold).tolist()
    asked: list[Any] = [None] * len(tree.left)
    for node in tree.numeric.tolist():
        is_boolean = features[tree.feature[node]].type.name == "boolean"
        asked[node] = _of_boolean(float(tree.threshold[node])) if is_boolean else thresholds[node]
    named: list[Any] = [None] * len(tree.left)
    for node, codes in tree.chosen.items():
        index = indices[int(tree.feature[node])]
        named[node] = tuple(sorted(index[code] for code in codes))
    missing_left = tree.missing_left.tolist()
    return Tree(
        feature=tuple(tree.feature.tolist()),
        threshold=tuple(asked),
        categories=tuple(named),
        missing_left=tuple(missing_left),
        left=tuple(tree.left.tolist()),
        right=tuple(tree.right.tolist()),
        # A tree for all outputs becomes one tree for each, whose gains and covers add up to its own.
        gain=tuple((tree.gain.astype(np.float64) / n_outputs).tolist()),
        cover=tuple((tree.cover.astype(np.float64) / n_outputs).tolist()),
        value=tuple(_means(tree, of_output.tolist())),
        output=output,
        # The chosen codes go right, whichever way missing goes.
        with_missing=tuple(names is not None and not left for names, left in zip(named, missing_left, strict=True)),
    )


def _of_boolean(threshold: float) -> int | None:
    """Return the threshold of a Boolean feature: 1 separates false from true, None present from missing values."""
    return None if threshold > 1 else int(threshold > 0)


def _means(tree: XGBoostTree, values: list[float]) -> list[float]:
    """Return the node values; an inner node's is the mean of the leaves below it, weighted by cover.

    XGBoost keeps an inner node's leaf weight before shrinkage, but not the learning rate to shrink it by.
    """
    lefts, rights, covers = tree.left.tolist(), tree.right.tolist(), tree.cover.tolist()
    for node in reversed(tree.inner.tolist()):
        left, right = lefts[node], rights[node]
        total = covers[left] + covers[right]
        share = covers[left] / total if min(covers[left], covers[right]) >= 0 and total > 0 else 0.5
        values[node] = share * values[left] + (1 - share) * values[right]
    return values
