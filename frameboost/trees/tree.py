"""A regression tree as parallel arrays, the form in which it is stored, scored and compiled.

A tree that splits on ``x < 2``, and right of it on whether a category is code 0 or 3 (missing goes right):

====  =======  =========  ==========  ============  ====  =====  =====
node  feature  threshold  categories  missing_left  left  right  value
====  =======  =========  ==========  ============  ====  =====  =====
0     0        2          None        True          1     2      0.1
1     -1       None       None        False         -1    -1     -0.5
2     1        None       (0, 3)      False         3     4      0.2
3     -1       None       None        False         -1    -1     0.7
4     -1       None       None        False         -1    -1     0.0
====  =======  =========  ==========  ============  ====  =====  =====

A leaf may be linear (`LinearLeaf`): its value is then a constant plus slopes times features of the row.

Leaf values are on a grid, so that scores are bitwise equal in every order of addition.

A polars expression adds leaves in sequence, a SQL query as a balanced tree of additions, a warehouse as an aggregate.
As for gradients (see `frameboost.expressions.grid`), every leaf is rounded to a multiple of the step 2^(⌈log2 B⌉ − 53)
with B = |base| + Σ over trees of the largest |leaf|. Any sum of leaves is then at most 2^53 steps, exact in float64.
The rounding is below the last bit of B.

Base margin 0.5 and two stumps with leaves ±0.1 and ±0.3: B = 0.9, so the step is 2^-53, of which 0.1 is not a multiple.

>>> from frameboost.trees.tree import Tree
>>> def stump(value):
...     return Tree((0, -1, -1), (2, None, None), (None,) * 3, (False,) * 3, (1, -1, -1), (2, -1, -1), (1.0, 0.0, 0.0),
...                 (2.0, 1.0, 1.0), (0.0, -value, value))
>>> _, (first, second) = on_leaf_grid([0.5], [stump(0.1), stump(0.3)])
>>> [leaf * 2**53 for leaf in (0.1, 0.3, first.value[2], second.value[2])]
[900719925474099.2, 2702159776422297.5, 900719925474099.0, 2702159776422298.0]

Training and binary files hold trees as arrays, one per field over the nodes of all trees. Trees of 3 and 1 nodes have
``sizes`` 3 and 1, and entries 0 to 2 of ``feature`` belong to the first. Reading and checking arrays by numpy takes two
milliseconds for a hundred trees, ten times less than JSON.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, chain, compress
from operator import ge
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from frameboost.expressions.grid import bit_step, on_steps
from frameboost.schema.types import Physical
from frameboost.trees.linear_leaves import LinearColumns, LinearLeaf

__all__ = [
    "FLAGS",
    "LEAF",
    "NODE_TYPES",
    "ColumnTrees",
    "NodeValues",
    "Tree",
    "TreeColumns",
    "are_linear",
    "are_on_leaf_grid",
    "count_leaves",
    "largest_values",
    "linear_columns",
    "on_leaf_grid",
    "shared_splits",
    "split_features",
    "trees_on_grid",
]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

LEAF = -1
_BITS_OF_SHORT = 26


@dataclass(frozen=True, slots=True)
class Tree:
    """One tree. Entry i of every tuple belongs to node i; node 0 is the root, and children follow their parent.

    A split has one of three forms. Missing values (NULL or NaN) go by ``missing_left``; others:

    - ``threshold[i]`` is a value: left if the feature is less, else right.
    - ``categories[i]`` are codes: opposite to the missing direction if the category is one of them, else in the missing
      direction, as unknown categories are. In an imported XGBoost model it may be reversed, ``with_missing[i]``: the
      listed categories go in the missing direction.
    - neither: left if the feature is not missing. Missing values go right.

    Attributes
    ----------
    feature
        Index of the split's feature; ``LEAF`` in a leaf.
    threshold
        In the physical form of the feature's type, or None.
    categories
        Sorted category codes, or None.
    missing_left
        Whether missing goes left; False in a leaf.
    left, right
        Indices of the children; ``LEAF`` in a leaf.
    gain
        The gain of the split, without the ½ as in XGBoost; 0 in a leaf.
    cover
        H, the sum of hessians of the training rows in the node.
    value
        The leaf value, shrunk by the learning rate; in an inner node its value as a leaf.
    output
        Index of the margin that the leaves add to; 0 if the model has one.
    with_missing
        Whether the listed categories go in the missing direction; ``()`` if they never do.
    linear
        The linear leaves, None in all other nodes; ``()`` if there are none.
    """

    feature: tuple[int, ...]
    threshold: tuple[Physical | None, ...]
    categories: tuple[tuple[int, ...] | None, ...]
    missing_left: tuple[bool, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    gain: tuple[float, ...]
    cover: tuple[float, ...]
    value: tuple[float, ...]
    output: int = 0
    with_missing: tuple[bool, ...] = ()
    linear: tuple[LinearLeaf | None, ...] = ()

    def __post_init__(self) -> None:
        if not self.with_missing:
            object.__setattr__(self, "with_missing", (False,) * len(self.feature))

    def __len__(self) -> int:
        return len(self.feature)

    def is_leaf(self, node: int) -> bool:
        """Whether the node has no children."""
        return self.feature[node] == LEAF

    @property
    def is_linear(self) -> bool:
        """Whether some leaf is linear."""
        return bool(self.linear)

    def linear_leaves(self) -> dict[int, LinearLeaf]:
        """Return the linear leaves, by node."""
        return {node: leaf for node, leaf in enumerate(self.linear) if leaf is not None}

    def used_features(self) -> set[int]:
        """Return the features that splits or slopes read."""
        slopes = (term.feature for leaf in self.linear_leaves().values() for term in leaf.terms)
        return {*self.feature, *slopes} - {LEAF}

    def named_left(self, node: int) -> bool:
        """Whether the node's ``categories`` go left."""
        return self.missing_left[node] == self.with_missing[node]

    def depths(self) -> list[int]:
        """Return the depth of every node; the root has 0."""
        depth = [0] * len(self)
        for node in range(len(self)):
            if not self.is_leaf(node):
                depth[self.left[node]] = depth[self.right[node]] = depth[node] + 1
        return depth

    def nestings(self, ends: Container[int] = ()) -> list[int]:
        """Return the Horton-Strahler number of every node.

        It is 0 for a leaf (``ends`` count as leaves), otherwise the larger of the children's numbers, plus 1 if they
        are equal.

        It is the nesting depth of CASEs if the deeper child is written as further WHENs of the same CASE, and the other
        as a nested CASE. It is at most log2 of the number of leaves, and 1 for a chain of splits of any length.
        """
        nested = [0] * len(self)
        for node in reversed(range(len(self))):  # children come after their parent
            if not self.is_leaf(node) and node not in ends:
                less, more = sorted((nested[self.left[node]], nested[self.right[node]]))
                nested[node] = max(less + 1, more)
        return nested

    @property
    def n_leaves(self) -> int:
        """The number of leaves."""
        return self.feature.count(LEAF)

    def leaves(self) -> Iterator[int]:
        """Yield the node indices of leaves in ascending order."""
        return (node for node in range(len(self)) if self.is_leaf(node))

    def levels(self) -> list[int] | None:
        """Return a node of each level if the tree is symmetric (complete, with one split per level), else None."""
        levels, level = [], [0]
        while not self.is_leaf(level[0]):
            if any(self._condition(node) != self._condition(level[0]) for node in level):
                return None
            levels.append(level[0])
            level = [child for node in level for child in (self.left[node], self.right[node])]
        return levels if all(self.is_leaf(node) for node in level) else None

    def _condition(self, node: int) -> tuple[object, ...]:
        return (
            self.feature[node], self.threshold[node], self.categories[node], self.missing_left[node],
            self.with_missing[node],
        )  # fmt: skip

    def leaves_in_order(self) -> list[int]:
        """Return the leaves from left to right."""
        leaves, open_nodes = [], [0]
        while open_nodes:
            node = open_nodes.pop()
            if self.is_leaf(node):
                leaves.append(node)
            else:
                open_nodes += (self.right[node], self.left[node])
        return leaves


def split_features(trees: Iterable[Tree]) -> list[int]:
    """Return the indices of the features of all splits, ascending."""
    return sorted({feature for tree in trees for feature in tree.feature if feature != LEAF})


def shared_splits(trees: Sequence[Tree]) -> list[list[int]]:
    """Return the indices of trees of several outputs with equal splits, group by group.

    Trees with a single leaf, or of only one output, are in no group. All trees of a group have linear leaves, or none.

    >>> splits = {"feature": (0, -1, -1), "categories": (None,) * 3, "missing_left": (False,) * 3, "left": (1, -1, -1),
    ...           "right": (2, -1, -1), "gain": (1.0, 0.0, 0.0), "cover": (2.0, 1.0, 1.0)}
    >>> def stump(threshold, value, output):
    ...     return Tree(**splits, threshold=(threshold, None, None), value=(0.0, -value, value), output=output)
    >>> shared_splits([stump(2.5, 1.0, 0), stump(3.0, 1.0, 0), stump(2.5, 4.0, 1), stump(3.0, 2.0, 0)])
    [[0, 2]]
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    for number, tree in enumerate(trees):
        if not tree.is_leaf(0):
            groups.setdefault(
                (tree.feature, tree.threshold, tree.categories, tree.missing_left, tree.left, tree.right,
                 tree.with_missing, tree.is_linear), []
            ).append(number)  # fmt: skip
    return [group for group in groups.values() if len({trees[number].output for number in group}) > 1]


# --- leaf values on a grid --------------------------------------------------------------------------------------------


class NodeValues(NamedTuple):
    """The values of the nodes of all trees, for fast passes over thousands of trees.

    Attributes
    ----------
    sizes, output
        int64 (trees,): the number of nodes of each tree, and the margin that it adds to.
    is_leaf
        bool (nodes,).
    value
        float64 (nodes,).
    linear
        The linear leaves, or None.
    """

    sizes: IntArray
    output: IntArray
    is_leaf: npt.NDArray[np.bool_]
    value: FloatArray
    linear: LinearColumns | None

    @classmethod
    def of(cls, trees: Sequence[Tree]) -> NodeValues:
        """Return the values of trees."""
        sizes, output = ([of(tree) for tree in trees] for of in (len, lambda tree: tree.output))
        feature = np.fromiter(chain.from_iterable([tree.feature for tree in trees]), np.int64, sum(sizes))
        value = np.fromiter(chain.from_iterable([tree.value for tree in trees]), np.float64, sum(sizes))
        return cls(np.array(sizes, np.int64), np.array(output, np.int64), feature == LEAF, value, linear_columns(trees))


def on_leaf_grid(base_margins: Sequence[float], trees: Sequence[Tree]) -> tuple[tuple[float, ...], tuple[Tree, ...]]:
    """Return base margins and trees with rounded values; each output has a separate grid."""
    bases, on_grid = trees_on_grid(base_margins, TreeColumns.of(trees))
    return bases, tuple(on_grid)


def _on_steps(
    base_margins: Sequence[float], nodes: NodeValues, steps: Sequence[float]
) -> tuple[tuple[float, ...], FloatArray, LinearColumns | None]:
    """Return base margins, values and linear leaves on the grid of each output."""
    of_nodes = np.repeat(np.array(steps)[nodes.output], nodes.sizes)
    bases = tuple(_steps(base, step) * step for base, step in zip(base_margins, steps, strict=True))
    linear = nodes.linear and nodes.linear.rounded(of_nodes[nodes.linear.node])
    return bases, on_steps(nodes.value, of_nodes), linear


def are_on_leaf_grid(base_margins: Sequence[float], nodes: NodeValues, largest: Sequence[float]) -> bool:
    """Whether `on_leaf_grid` changes nothing; ``largest`` is the result of `largest_values`."""
    bases, values, linear = _on_steps(base_margins, nodes, _steps_of_outputs(base_margins, nodes, largest))
    is_linear_same = linear is None or nodes.linear is None or linear.is_same(nodes.linear)
    return bases == tuple(base_margins) and np.array_equal(values, nodes.value) and is_linear_same


def largest_values(nodes: NodeValues) -> list[float]:
    """Return the largest magnitude that each tree may add to a margin, an upper bound for linear leaves."""
    if not len(nodes.sizes):
        return []
    of_nodes = np.where(nodes.is_leaf, np.abs(nodes.value), 0.0)
    if nodes.linear:
        of_nodes[nodes.linear.node] = np.maximum(of_nodes[nodes.linear.node], nodes.linear.largest())
    magnitudes: list[float] = np.maximum.reduceat(of_nodes, np.cumsum(nodes.sizes) - nodes.sizes).tolist()
    return magnitudes


def _steps_of_outputs(base_margins: Sequence[float], nodes: NodeValues, largest: Sequence[float]) -> list[float]:
    """Return the step of each output's grid."""
    magnitudes = [[abs(base)] for base in base_margins]
    for output, value in zip(nodes.output.tolist(), largest, strict=True):
        magnitudes[output].append(value)
    return list(map(_step, magnitudes))


def _step(largest: Sequence[float]) -> float:
    """Return the step for which sums of numbers up to these magnitudes are exact."""
    if not any(largest):
        return 1.0
    step = bit_step(sum(largest), 53)
    # Rounding up may carry the sum past 2^53 steps; then the step is doubled.
    while sum(_steps(value, step) for value in largest) > 2**53:
        step *= 2
    return step


def _steps(value: float, step: float) -> int:
    """Return the multiple of ``step``, a power of two, that is nearest to ``value``."""
    return round(value / step)


# --- trees as columns -------------------------------------------------------------------------------------------------


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
_RESULTS = {"gain", "cover", "value"}
_TREE_ARRAYS = "sizes", "output", "integer_at", "integers", "categories_at", "categories_size", "categories"


@dataclass(frozen=True)
class TreeColumns:
    """The nodes of all trees.

    Attributes
    ----------
    sizes, output
        int64 (trees,): the number of nodes of each tree, and the margin that it adds to.
    nodes
        Arrays (nodes,) by field, as in `frameboost.trees.tree.Tree`. Thresholds that are None or integers are NaN.
    integer_at, integers
        The nodes with integer thresholds, ascending, and these thresholds.
    categories_at, categories_size, categories
        int64: the nodes that split by categories, ascending; the number of codes of each; the concatenated codes.
    linear
        The linear leaves, by index among all nodes, or None.
    """

    sizes: IntArray
    output: IntArray
    nodes: Mapping[str, npt.NDArray[Any]]
    integer_at: IntArray
    integers: Sequence[int]
    categories_at: IntArray
    categories_size: IntArray
    categories: IntArray
    linear: LinearColumns | None = None

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
            _integers([code for _, codes in named for code in codes]), linear_columns(trees),
        )  # fmt: skip

    def trees(self) -> tuple[Tree, ...]:
        """Return the trees, which must obey all rules (see `frameboost.ensemble.tree_file`)."""
        flags = {field: self.nodes[field].astype(np.bool_) for field in FLAGS & self.nodes.keys()}
        columns = {**self.nodes, **flags, "threshold": self.thresholds(), "categories": self.node_categories()}
        # Tuples, as the garbage collector would go through lists of numbers again and again.
        of_all = {field: tuple(values.tolist()) for field, values in columns.items()}
        trees, start, leaves = [], 0, self.linear.leaves() if self.linear else {}
        for end, output in zip(np.cumsum(self.sizes).tolist(), self.output.tolist(), strict=True):
            linear = tuple(map(leaves.get, range(start, end))) if leaves else ()
            linear = linear if any(linear) else ()
            trees.append(
                Tree(**{field: values[start:end] for field, values in of_all.items()}, output=output, linear=linear)
            )
            start = end
        return tuple(trees)

    def are_equal(self, other: TreeColumns) -> bool:
        """Whether all trees are equal, without creating them."""
        if not all(np.array_equal(getattr(self, each), getattr(other, each)) for each in _TREE_ARRAYS):
            return False
        zeros = np.zeros(int(self.sizes.sum()))  # of a field that is missing, as it is 0 everywhere
        for field in self.nodes.keys() | other.nodes.keys():
            both = self.nodes.get(field, zeros), other.nodes.get(field, zeros)
            if not np.array_equal(*both, equal_nan=field == "threshold"):
                return False
        if not self.linear or not other.linear:
            return not self.linear and not other.linear
        return self.linear.is_same(other.linear)

    def _take(self, trees: IntArray) -> TreeColumns:
        """Return some of the trees, without linear leaves, by their numbers, ascending."""
        is_taken = np.zeros(len(self), np.bool_)
        is_taken[trees] = True
        kept = np.repeat(is_taken, self.sizes)
        new = np.cumsum(kept) - 1  # of each node that is kept
        has_integer, has_categories = kept[self.integer_at], kept[self.categories_at]
        return TreeColumns(
            self.sizes[trees], self.output[trees], {field: values[kept] for field, values in self.nodes.items()},
            new[self.integer_at[has_integer]], list(compress(self.integers, has_integer)),
            new[self.categories_at[has_categories]], self.categories_size[has_categories],
            self.categories[np.repeat(has_categories, self.categories_size)],
        )  # fmt: skip

    def with_vector_leaves(self) -> tuple[TreeColumns, npt.NDArray[np.float64], IntArray] | None:
        """Return one tree in place of those of all outputs, if these share their splits; None if they do not.

        Returns
        -------
        tuple
            The trees of the first output, without linear leaves; the values of their nodes in each output, float64
            (outputs, nodes); and the number of each tree of the ensemble among them.
        """
        n_outputs, of_node = int(max(self.output, default=0)) + 1, np.repeat(self.output, self.sizes)
        if n_outputs < 2:
            return None

        def by_output(output: IntArray) -> IntArray | None:
            """Return which are those of each output, (outputs, any), or None if there are more of some outputs."""
            counts = np.bincount(output, minlength=n_outputs)
            # Numbers of up to 16 bits are sorted by radix.
            in_order = np.argsort(output.astype(np.min_scalar_type(n_outputs)), kind="stable")
            return in_order.reshape(n_outputs, -1) if (counts == counts[0]).all() else None

        nodes, integer, named = by_output(of_node), self.integer_at, self.categories_at
        if nodes is None:
            return None
        index = np.empty(len(of_node), np.int64)  # of each node among those of its output
        index[nodes] = np.arange(nodes.shape[1])
        splits = [
            (self.output, [self.sizes]),
            (of_node, [values for field, values in self.nodes.items() if field not in _RESULTS]),
            (of_node[integer], [index[integer], np.array(self.integers, object)]),
            (of_node[named], [index[named], self.categories_size]),
            (np.repeat(of_node[named], self.categories_size), [self.categories]),
        ]
        for output, arrays in splits:
            rows = nodes if output is of_node else by_output(output)
            for values in arrays:
                bits = values.view(np.int64) if values.dtype == np.float64 else values  # NaN is equal to itself
                if rows is None or (bits[rows[1:]] != bits[rows[0]]).any():
                    return None
        number_of = np.empty(len(self), np.int64)
        for k in range(n_outputs):
            number_of[self.output == k] = np.arange(len(self) // n_outputs)
        return self._take(np.flatnonzero(self.output == 0)), self.nodes["value"][nodes], number_of

    @property
    def roots(self) -> IntArray:
        """int64 (trees,): the index of each tree's first node."""
        starts: IntArray = np.cumsum(self.sizes) - self.sizes
        return starts

    def children(self) -> IntArray:
        """Return the left and the right child of each node, by index among all nodes: int64 (nodes, 2).

        Entries of leaves are undefined.
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
        """Return the depth of each tree, 0 for a single leaf."""
        tree, depths = np.repeat(np.arange(len(self)), self.sizes), np.zeros(len(self), dtype=np.int64)
        for depth, level in enumerate(self.levels(self.children())):
            depths[tree[level]] = depth
        return list(map(int, depths))

    def node_values(self) -> NodeValues:
        """Return the values of the nodes."""
        return NodeValues(self.sizes, self.output, self.nodes["feature"] == LEAF, self.nodes["value"], self.linear)

    def with_values(self, values: npt.NDArray[np.float64]) -> TreeColumns:
        """Return the trees with other node values."""
        return replace(self, nodes={**self.nodes, "value": values})

    # --- other trees --------------------------------------------------------------------------------------------------

    @classmethod
    def joined(cls, parts: Sequence[TreeColumns]) -> TreeColumns:
        """Concatenate the trees of all parts.

        Two parts of 3 and 5 nodes, each with an integer threshold in node 1, have ``integer_at`` 1 and 4.
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
        return cls(
            of_all("sizes"), of_all("output"), nodes, indices("integer_at"),
            [*chain.from_iterable(part.integers for part in parts)], indices("categories_at"),
            of_all("categories_size"), of_all("categories"), LinearColumns.joined([p.linear for p in parts], starts),
        )  # fmt: skip

    def times(self, factor: float) -> TreeColumns:
        """Return the trees with all of their values times a factor."""
        return replace(self.with_values(self.nodes["value"] * factor), linear=self.linear and self.linear.times(factor))

    def renumbered(self, codes: Mapping[int, IntArray]) -> TreeColumns:
        """Return the trees with renumbered categories: ``codes`` maps old to new codes, by feature."""
        categories, sizes = self.categories.copy(), self.categories_size
        feature = np.repeat(self.nodes["feature"][self.categories_at], sizes)
        for number, new in codes.items():
            is_of_feature = feature == number
            categories[is_of_feature] = new[categories[is_of_feature]]
        in_order = np.lexsort((categories, np.repeat(np.arange(len(sizes)), sizes)))  # of each node ascending
        return replace(self, categories=categories[in_order])

    # --- trees one by one ---------------------------------------------------------------------------------------------

    def thresholds(self) -> npt.NDArray[np.object_]:
        """Return the threshold of each node, (nodes,)."""
        thresholds = self.nodes["threshold"].astype(object)
        thresholds[np.isnan(self.nodes["threshold"])] = None
        thresholds[self.integer_at] = self.integers
        return thresholds

    def node_categories(self) -> npt.NDArray[np.object_]:
        """Return the category codes of each node, (nodes,)."""
        categories = np.full(len(self.nodes["feature"]), None)
        ends = np.cumsum(self.categories_size).tolist()
        for node, start, end in zip(self.categories_at.tolist(), [0, *ends], ends, strict=False):
            categories[node] = tuple(self.categories[start:end].tolist())
        return categories


class ColumnTrees(Sequence[Tree]):
    """The trees of validated columns, created when first read, as files and scoring need columns only.

    It equals a tuple of the trees.
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
        if isinstance(other, ColumnTrees):
            return self.columns.are_equal(other.columns)
        return self._trees == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._trees)

    def __repr__(self) -> str:
        return repr(self._trees)


def trees_on_grid(
    base_margins: Sequence[float], columns: TreeColumns, *, is_short: bool = False
) -> tuple[tuple[float, ...], Sequence[Tree]]:
    """Return base margins and trees with rounded values (see `frameboost.trees.tree.on_leaf_grid`).

    ``is_short`` rounds to a coarser grid with few digits. Its step is 2^-26 of D, the mean magnitude over training rows
    that the trees of an output add. For n trees the error of a margin is about 0.3 √n steps, less than that of a sum of
    n float32. Trees with linear leaves are excluded, as slopes need all bits.
    """
    nodes = columns.node_values()
    steps = _steps_of_outputs(base_margins, nodes, largest_values(nodes))
    if is_short and not nodes.linear:
        means = _mean_leaves(nodes, columns.nodes["cover"])
        added = [float(means[nodes.output == output].sum()) for output in range(len(base_margins))]
        steps = [max(step, bit_step(of_trees, _BITS_OF_SHORT)) for step, of_trees in zip(steps, added, strict=True)]
    while True:
        bases, values, linear = _on_steps(base_margins, nodes, steps)
        on_grid = nodes._replace(linear=linear)
        # Linear leaves, once their slopes are rounded, may sum to more than 2^53 steps.
        needed = _steps_of_outputs(base_margins, nodes, largest_values(on_grid)) if linear else steps
        if all(map(ge, steps, needed)):
            return bases, ColumnTrees(replace(columns.with_values(values), linear=linear))
        steps = [2 * step if least > step else step for step, least in zip(steps, needed, strict=True)]


def _mean_leaves(nodes: NodeValues, cover: FloatArray) -> FloatArray:
    """Return the mean leaf magnitude of each tree, weighted by cover: (trees,)."""
    if not len(nodes.sizes):
        return np.zeros(0)
    starts, weights = np.cumsum(nodes.sizes) - nodes.sizes, np.where(nodes.is_leaf, cover, 0.0)
    totals = np.add.reduceat(weights, starts)
    means: FloatArray = np.add.reduceat(weights * np.abs(nodes.value), starts) / np.where(totals > 0.0, totals, 1.0)
    return means


def linear_columns(trees: Sequence[Tree]) -> LinearColumns | None:
    """Return the linear leaves of trees, by index among all nodes, or None."""
    if isinstance(trees, ColumnTrees):
        return trees.columns.linear
    of_trees = zip(accumulate(map(len, trees), initial=0), trees, strict=False)
    leaves = {root + node: leaf for root, tree in of_trees for node, leaf in tree.linear_leaves().items()}
    return LinearColumns.of(leaves) if leaves else None


def count_leaves(trees: Sequence[Tree]) -> int:
    """Return the number of leaves of trees."""
    if isinstance(trees, ColumnTrees):
        return int(np.count_nonzero(trees.columns.nodes["feature"] == LEAF))
    return sum(tree.n_leaves for tree in trees)


def are_linear(trees: Sequence[Tree]) -> bool:
    """Whether some tree has linear leaves."""
    return bool(trees.columns.linear) if isinstance(trees, ColumnTrees) else any(tree.is_linear for tree in trees)


def _split_thresholds(
    thresholds: Iterator[Any], is_inner: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.float64], IntArray, list[int]]:
    """Return the float thresholds of nodes, NaN elsewhere; the indices of the others, and their values."""
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


def _integers(values: Sequence[int]) -> IntArray:
    return np.array(values, dtype=np.int64)
