"""Trees as arrays: one for each field, over the nodes of all trees, as training leaves them and binary files hold them.

Trees of 3 and 1 nodes have ``sizes`` 3 and 1, and entries 0 to 2 of ``feature`` are the first one's. Arrays are read,
checked and taken apart by numpy: a hundred trees take two milliseconds, as JSON ten times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as field_of
from functools import cached_property
from itertools import chain, compress
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from frameboost.trees.leaf_grid import NodeValues, on_leaf_grid, values_on_grid
from frameboost.trees.tree import LEAF, LinearLeaf, Tree

__all__ = ["FLAGS", "NODE_TYPES", "ColumnTrees", "TreeColumns", "are_linear", "trees_on_grid"]

IntArray = npt.NDArray[np.int64]
# The types in a binary file of what has an entry for each node.
NODE_TYPES: Mapping[str, npt.DTypeLike] = {
    "feature": np.int32,
    "threshold": np.float64,
    "missing_left": np.uint8,
    "left": np.int32,
    "right": np.int32,
    "gain": np.float64,
    "cover": np.float64,
    "value": np.float64,
    "with_missing": np.uint8,
}
FLAGS = {"missing_left", "with_missing"}


@dataclass(frozen=True)
class TreeColumns:
    """The nodes of all trees.

    Attributes
    ----------
    sizes, output
        int64 (trees,): the number of nodes of each tree, and the margin that it adds to.
    nodes
        Arrays (nodes,) by field, as in `frameboost.trees.tree.Tree`. A threshold that is None or an integer is NaN.
    integer_at, integers
        The nodes whose threshold is an integer, ascending, and their thresholds.
    categories_at, categories_size, categories
        int64: the nodes that split by categories, ascending; how many codes each has; the codes one after the other.
    linear
        The linear leaves, by node.
    """

    sizes: IntArray
    output: IntArray
    nodes: Mapping[str, npt.NDArray[Any]]
    integer_at: IntArray
    integers: Sequence[int]
    categories_at: IntArray
    categories_size: IntArray
    categories: IntArray
    linear: Mapping[int, LinearLeaf] = field_of(default_factory=dict)

    def __len__(self) -> int:
        return len(self.sizes)

    @classmethod
    def of(cls, trees: Sequence[Tree]) -> TreeColumns:
        """Return the columns of trees."""
        if isinstance(trees, ColumnTrees):
            return trees.columns
        sizes = np.array([len(tree) for tree in trees], dtype=np.int64)

        def flat(field: str) -> Iterator[Any]:
            return chain.from_iterable([getattr(tree, field) for tree in trees])

        nodes = {field: np.fromiter(flat(field), kind, int(sizes.sum()))
                 for field, kind in NODE_TYPES.items() if field not in {"threshold", *FLAGS}}  # fmt: skip
        is_inner = nodes["feature"] != LEAF
        nodes["threshold"], integer_at, integers = _split_thresholds(flat("threshold"), is_inner)
        nodes["missing_left"] = _flags([tree.missing_left for tree in trees])
        if any(True in tree.with_missing for tree in trees):
            nodes["with_missing"] = _flags([tree.with_missing for tree in trees])
        by_categories = any(tree.categories.count(None) < len(tree) for tree in trees)
        named = (
            [(at, codes) for at, codes in enumerate(flat("categories")) if codes is not None] if by_categories else []
        )
        return cls(
            sizes, np.array([tree.output for tree in trees], dtype=np.int64),
            {field: nodes[field] for field in NODE_TYPES if field in nodes}, integer_at, integers,
            _integers([at for at, _ in named]), _integers([len(codes) for _, codes in named]),
            _integers([code for _, codes in named for code in codes]), _linear(trees),
        )  # fmt: skip

    def trees(self) -> tuple[Tree, ...]:
        """Return the trees, which must obey all rules (see `frameboost.ensemble.tree_file`)."""
        flags = {field: self.nodes[field].astype(np.bool_) for field in FLAGS & self.nodes.keys()}
        columns = {**self.nodes, **flags, "threshold": self._thresholds(), "categories": self._categories()}
        # Tuples, as the garbage collector would go through lists of numbers again and again.
        of_all = {field: tuple(values.tolist()) for field, values in columns.items()}
        trees, start = [], 0
        for end, output in zip(np.cumsum(self.sizes).tolist(), self.output.tolist(), strict=True):
            linear = tuple([self.linear.get(node) for node in range(start, end)]) if self.linear else ()
            linear = linear if any(linear) else ()
            trees.append(
                Tree(**{field: values[start:end] for field, values in of_all.items()}, output=output, linear=linear)
            )
            start = end
        return tuple(trees)

    @property
    def roots(self) -> IntArray:
        """int64 (trees,): where the nodes of each tree start."""
        starts: IntArray = np.cumsum(self.sizes) - self.sizes
        return starts

    def children(self) -> IntArray:
        """Return the left and the right child of each node, by their indices among all nodes: int64 (nodes, 2).

        Those of leaves are meaningless.
        """
        root = np.repeat(self.roots, self.sizes)
        return np.stack([self.nodes["left"] + root, self.nodes["right"] + root], axis=1)

    def levels(self, children: IntArray) -> Iterator[IntArray]:
        """Yield the nodes of all trees level by level: the roots, then their ``children``, (nodes, 2), and so on."""
        level, is_inner = self.roots, self.nodes["feature"] != LEAF
        while len(level):
            yield level
            level = children[level[is_inner[level]]].ravel()

    def depths(self) -> list[int]:
        """Return the depth of each tree: 0 of one leaf."""
        tree, depths = np.repeat(np.arange(len(self)), self.sizes), np.zeros(len(self), dtype=np.int64)
        for depth, level in enumerate(self.levels(self.children())):
            depths[tree[level]] = depth
        return list(map(int, depths))

    def node_values(self) -> NodeValues:
        """Return the values of the nodes."""
        return NodeValues(self.sizes, self.output, self.nodes["feature"] == LEAF, self.nodes["value"])

    def with_values(self, values: npt.NDArray[np.float64]) -> TreeColumns:
        """Return the same trees with those values of the nodes."""
        return replace(self, nodes={**self.nodes, "value": values})

    # --- other trees --------------------------------------------------------------------------------------------------

    @classmethod
    def joined(cls, parts: Sequence[TreeColumns]) -> TreeColumns:
        """Return the trees of the first, then those of the second, and so on.

        Two parts of 3 and 5 nodes, each with an integer as the threshold of its node 1: ``integer_at`` is 1 and 4.
        """
        n_nodes = [len(part.nodes["feature"]) for part in parts]
        starts = [0, *np.cumsum(n_nodes).tolist()]

        def indices(field: str) -> IntArray:
            return np.concatenate([getattr(part, field) + start for part, start in zip(parts, starts, strict=False)])

        def of_all(field: str) -> IntArray:
            return np.concatenate([getattr(part, field) for part in parts])

        some = [field for field in NODE_TYPES if any(field in part.nodes for part in parts)]
        nodes = {
            field: np.concatenate([part.nodes.get(field, np.zeros(n, np.bool_))
                                   for part, n in zip(parts, n_nodes, strict=True)])
            for field in some
        }  # fmt: skip
        linear = {start + at: leaf for part, start in zip(parts, starts, strict=False)
                  for at, leaf in part.linear.items()}  # fmt: skip
        return cls(
            of_all("sizes"), of_all("output"), nodes, indices("integer_at"),
            [*chain.from_iterable(part.integers for part in parts)], indices("categories_at"),
            of_all("categories_size"), of_all("categories"), linear,
        )  # fmt: skip

    def times(self, factor: float) -> TreeColumns:
        """Return the trees with all of their values times a factor."""
        linear = {node: leaf.times(factor) for node, leaf in self.linear.items()}
        return replace(self.with_values(self.nodes["value"] * factor), linear=linear)

    def renumbered(self, codes: Mapping[int, IntArray]) -> TreeColumns:
        """Return the trees with other codes of categories: ``codes`` has, by feature, the new one of each old one."""
        categories, sizes = self.categories.copy(), self.categories_size
        feature = np.repeat(self.nodes["feature"][self.categories_at], sizes)
        for number, new in codes.items():
            is_of_feature = feature == number
            categories[is_of_feature] = new[categories[is_of_feature]]
        in_order = np.lexsort((categories, np.repeat(np.arange(len(sizes)), sizes)))  # of each node ascending
        return replace(self, categories=categories[in_order])

    # --- trees one by one ---------------------------------------------------------------------------------------------

    def _thresholds(self) -> npt.NDArray[np.object_]:
        thresholds = self.nodes["threshold"].astype(object)
        thresholds[np.isnan(self.nodes["threshold"])] = None
        thresholds[self.integer_at] = self.integers
        return thresholds

    def _categories(self) -> npt.NDArray[np.object_]:
        categories = np.full(len(self.nodes["feature"]), None)
        ends = np.cumsum(self.categories_size).tolist()
        for node, start, end in zip(self.categories_at.tolist(), [0, *ends], ends, strict=False):
            categories[node] = tuple(self.categories[start:end].tolist())
        return categories


class ColumnTrees(Sequence[Tree]):
    """The trees of columns that obey all rules, made when one is first read: files and scoring need columns only.

    It equals a tuple of the same trees.
    """

    def __init__(self, columns: TreeColumns) -> None:
        self.columns = columns

    @cached_property
    def _trees(self) -> tuple[Tree, ...]:
        return self.columns.trees()

    def __len__(self) -> int:
        return len(self.columns)

    @overload
    def __getitem__(self, index: int) -> Tree: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Tree, ...]: ...

    def __getitem__(self, index: int | slice) -> Tree | tuple[Tree, ...]:
        return self._trees[index]

    def __iter__(self) -> Iterator[Tree]:
        return iter(self._trees)

    def __eq__(self, other: object) -> bool:
        return self._trees == tuple(other) if isinstance(other, tuple | ColumnTrees) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._trees)

    def __repr__(self) -> str:
        return repr(self._trees)


def trees_on_grid(base_margins: Sequence[float], columns: TreeColumns) -> tuple[tuple[float, ...], Sequence[Tree]]:
    """Return base margins and trees with their values rounded (see `frameboost.trees.leaf_grid.on_leaf_grid`)."""
    if columns.linear:
        return on_leaf_grid(base_margins, columns.trees())
    base_on_grid, values = values_on_grid(base_margins, columns.node_values())
    return base_on_grid, ColumnTrees(columns.with_values(values))


def are_linear(trees: Sequence[Tree]) -> bool:
    """Whether some leaf of trees has slopes."""
    return bool(trees.columns.linear) if isinstance(trees, ColumnTrees) else any(tree.is_linear for tree in trees)


def _split_thresholds(
    thresholds: Iterator[Any], is_inner: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.float64], IntArray, list[int]]:
    """Return the thresholds of nodes that are floats, NaN elsewhere; the indices of the others, and their values."""
    of_inner, usual = list(compress(thresholds, is_inner.tolist())), {float, type(None)}
    integers: dict[int, int] = {}
    if not set(map(type, of_inner)) <= usual:
        indices = np.flatnonzero(is_inner).tolist()
        integers = {at: value for at, value in zip(indices, of_inner, strict=True) if type(value) not in usual}
        of_inner = [None if at in integers else value for at, value in zip(indices, of_inner, strict=True)]
    floats = np.full(len(is_inner), np.nan)
    floats[is_inner] = np.array(of_inner, dtype=np.float64)  # None becomes NaN
    return floats, _integers(list(integers)), list(integers.values())


def _flags(of_trees: Sequence[tuple[bool, ...]]) -> npt.NDArray[np.uint8]:
    return np.array(bytearray(b"".join(map(bytes, of_trees))), dtype=np.uint8)


def _linear(trees: Sequence[Tree]) -> dict[int, LinearLeaf]:
    leaves: dict[int, LinearLeaf] = {}
    start = 0
    for tree in trees:
        if tree.linear:
            leaves |= {start + node: leaf for node, leaf in tree.linear_leaves().items()}
        start += len(tree)
    return leaves


def _integers(values: Sequence[int]) -> IntArray:
    return np.array(values, dtype=np.int64)
