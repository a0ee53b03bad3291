"""A regression tree as parallel arrays, the form in which it is stored, scored and compiled."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

from frameboost.schema.types import Physical

__all__ = ["LEAF", "Tree"]

LEAF = -1


@dataclass(frozen=True, slots=True)
class Tree:
    """One tree: entry i of every tuple belongs to node i; node 0 is the root, children come after their parent.

    An inner node asks one of three questions of its feature; *yes* goes left, *no* goes right, and a row whose value is
    missing (NULL or NaN) goes where ``missing_left`` says:

    - ``threshold[i]`` is a value: is the feature less than it?
    - ``categories[i]`` are codes: is the feature's category one of them, or not one of them? They are those that go
      to the side that missing does *not* go to, so that an unseen category goes with missing. (In a model of XGBoost's
      they may go where missing goes, and all others, unseen ones too, to the other side: ``with_missing[i]``.)
    - neither: is the feature present at all? Then missing goes right.

    Attributes
    ----------
    feature
        Index of the feature that the node asks about; ``LEAF`` in a leaf.
    threshold
        In the physical form of the feature's type, or None.
    categories
        Sorted category codes, or None.
    missing_left
        Whether missing goes left; False in a leaf.
    left, right
        Indices of the children; ``LEAF`` in a leaf.
    gain
        What the split gained, in XGBoost's measure (no ½); 0 in a leaf.
    cover
        H, the sum of hessians of the training rows in the node.
    value
        The leaf value, shrunk by the learning rate; in an inner node what it would be if it were a leaf.
    output
        Which of the model's margins the leaves add to; 0 where there is but one.
    with_missing
        Whether the categories named go where missing goes; given as ``()`` where that is nowhere so.
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

    def __post_init__(self) -> None:
        if not self.with_missing:
            object.__setattr__(self, "with_missing", (False,) * len(self.feature))

    def __len__(self) -> int:
        return len(self.feature)

    def is_leaf(self, node: int) -> bool:
        """Whether the node has no children."""
        return self.feature[node] == LEAF

    def named_left(self, node: int) -> bool:
        """Whether the categories that the node names go left."""
        return self.missing_left[node] == self.with_missing[node]

    def depths(self) -> list[int]:
        """Return the depth of every node, the root's being 0."""
        depth = [0] * len(self)
        for node in range(len(self)):
            if not self.is_leaf(node):
                depth[self.left[node]] = depth[self.right[node]] = depth[node] + 1
        return depth

    def nestings(self, ends: Container[int] = ()) -> list[int]:
        """Return the Horton-Strahler number of every node, a leaf's being 0; ``ends`` count as leaves.

        So deep do choices nest if each path goes on with the child below which they nest deeper, as the rest of one
        list of choices: at most log2 of the number of leaves, however long a chain of splits is.
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
        """Return a node of each level if the tree is symmetric: complete, and each level split by one question."""
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
