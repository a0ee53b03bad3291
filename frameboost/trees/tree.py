"""A regression tree as parallel arrays, in which it is stored, scored and compiled.

A tree that asks ``x < 2``, and right of it whether a category is code 0 or 3 (missing goes right):

====  =======  =========  ==========  ============  ====  =====  =====
node  feature  threshold  categories  missing_left  left  right  value
====  =======  =========  ==========  ============  ====  =====  =====
0     0        2          None        True          1     2      0.1
1     -1       None       None        False         -1    -1     -0.5
2     1        None       (0, 3)      False         3     4      0.2
3     -1       None       None        False         -1    -1     0.7
4     -1       None       None        False         -1    -1     0.0
====  =======  =========  ==========  ============  ====  =====  =====
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

from frameboost.schema.types import Physical
from frameboost.trees.linear_leaf import LinearLeaf

__all__ = ["LEAF", "Tree"]

LEAF = -1


@dataclass(frozen=True, slots=True)
class Tree:
    """One tree. Entry i of every tuple is node i's; node 0 is the root, and children come after their parent.

    A split has one of three forms. A row whose value is missing (NULL or NaN) goes where ``missing_left`` says; others:

    - ``threshold[i]`` is a value: left if the feature is less than it, else right.
    - ``categories[i]`` are codes: to the side that missing values do *not* go to if the feature's category is one of
      them, else with missing values. So a category that training has not seen goes with missing values. In an imported
      XGBoost model it may be the other way round, ``with_missing[i]``: the named categories go with missing values.
    - neither: left if the feature is present. Missing values go right.

    Attributes
    ----------
    feature
        Index of the feature that the node splits on; ``LEAF`` in a leaf.
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
        The leaf value, shrunk by the learning rate; in an inner node what it would be if it were a leaf.
    output
        Index of the margin that the leaves add to; 0 if the model has one.
    with_missing
        Whether the named categories go with missing values; ``()`` stands for nowhere.
    linear
        The linear values of leaves that have slopes, None in all other nodes; ``()`` if no leaf has any.
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
        """Whether some leaf has slopes."""
        return bool(self.linear)

    def linear_leaves(self) -> dict[int, LinearLeaf]:
        """Return the leaves that have slopes, by node."""
        return {node: leaf for node, leaf in enumerate(self.linear) if leaf is not None}

    def used_features(self) -> set[int]:
        """Return the features that splits ask about, or slopes are of."""
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

        It is 0 of a leaf (``ends`` count as leaves), otherwise the larger of the children's numbers, plus 1 if the two
        are equal.

        So deep do CASEs nest if the child that nests deeper is written as further WHENs of the same CASE, and
        only the other one as a CASE within it. It is at most log2 of the number of leaves, however long a chain of
        splits is: 1 for a chain.
        """
        nested = [0] * len(self)
        for node in reversed(range(len(self))):  # children come after their parent
            if not self.is_leaf(node) and node not in ends:
                less, more = sorted((nested[self.left[node]], nested[self.right[node]]))
                nested[node] = max(less + 1, more)
        return nested

    def leaves(self) -> Iterator[int]:
        """Yield the leaves' indices in ascending order."""
        return (node for node in range(len(self)) if self.is_leaf(node))

    def levels(self) -> list[int] | None:
        """Return a node of each level if the tree is symmetric (complete, with one split for each level), else None."""
        levels, level = [], [0]
        while not self.is_leaf(level[0]):
            if any(self._question(node) != self._question(level[0]) for node in level):
                return None
            levels.append(level[0])
            level = [child for node in level for child in (self.left[node], self.right[node])]
        return levels if all(self.is_leaf(node) for node in level) else None

    def _question(self, node: int) -> tuple[object, ...]:
        return (
            self.feature[node], self.threshold[node], self.categories[node], self.missing_left[node],
            self.with_missing[node],
        )  # fmt: skip

    def leaves_in_order(self) -> list[int]:
        """Return the leaves from left to right."""
        found, open_nodes = [], [0]
        while open_nodes:
            node = open_nodes.pop()
            if self.is_leaf(node):
                found.append(node)
            else:
                open_nodes += (self.right[node], self.left[node])
        return found
