"""A regression tree as parallel arrays, in which it is stored, scored and compiled.

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

A leaf may have slopes as well (`LinearLeaf`): its value is then a constant plus slopes times numbers of the row.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from frameboost.errors import ParameterError
from frameboost.schema.types import Feature, Physical

__all__ = [
    "LEAF", "MAX_STEPS", "MAX_TERMS", "LinearLeaf", "LinearTerm", "Tree", "may_have_slope", "refuse_linear",
    "shared_splits",
]  # fmt: skip


LEAF = -1
# The most features of a leaf.
MAX_TERMS = 5
# The most steps from the centre of a grid to its ends.
MAX_STEPS = 1 << 21
_OFFSET_STEPS = 1.5 * 2.0**52
_SMALLEST_NORMAL = 2.0**-1022


@dataclass(frozen=True, slots=True)
class Tree:
    """One tree. Entry i of every tuple is node i's; node 0 is the root, and children come after their parent.

    A split has one of three forms. A row whose value is missing (NULL or NaN) goes by ``missing_left``; others:

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
        Whether the named categories go with missing values; ``()`` if they do nowhere.
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


def shared_splits(trees: Sequence[Tree]) -> list[list[int]]:
    """Return the numbers of trees of several outputs with equal splits, group by group.

    A tree of one leaf has no split, and the value of a linear leaf is computed from the row: both are in no group. Nor
    are trees of one output only: few of a model are equal by chance.

    >>> splits = {"feature": (0, -1, -1), "categories": (None,) * 3, "missing_left": (False,) * 3, "left": (1, -1, -1),
    ...           "right": (2, -1, -1), "gain": (1.0, 0.0, 0.0), "cover": (2.0, 1.0, 1.0)}
    >>> def stump(threshold, value, output):
    ...     return Tree(**splits, threshold=(threshold, None, None), value=(0.0, -value, value), output=output)
    >>> shared_splits([stump(2.5, 1.0, 0), stump(3.0, 1.0, 0), stump(2.5, 4.0, 1), stump(3.0, 2.0, 0)])
    [[0, 2]]
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    for number, tree in enumerate(trees):
        if not tree.is_leaf(0) and not tree.is_linear:
            groups.setdefault(
                (tree.feature, tree.threshold, tree.categories, tree.missing_left, tree.left, tree.right,
                 tree.with_missing), []
            ).append(number)  # fmt: skip
    return [group for group in groups.values() if len({trees[number].output for number in group}) > 1]


# --- linear leaves ----------------------------------------------------------------------------------------------------


class LinearTerm(NamedTuple):
    """A slope times a feature of the row.

    Attributes
    ----------
    feature
        The feature's number.
    slope
        What the value grows by where the feature grows by 1.
    step
        The step of the grid that the feature is rounded to, a power of two.
    centre, low, high
        Multiples of the step: where the grid has its zero, and the ends of u.
    """

    feature: int
    slope: float
    step: float
    centre: float
    low: float
    high: float

    @property
    def offset(self) -> float:
        """What is added to a number to round it to the grid (see `frameboost.expressions.grid`)."""
        return _OFFSET_STEPS * self.step

    @property
    def shift(self) -> float:
        """What is then subtracted: the offset and the centre."""
        return self.offset + self.centre

    def on_grid(self, x: float) -> float:
        """Return u of a number."""
        return min(max((x + self.offset) - self.shift, self.low), self.high)

    @property
    def largest(self) -> float:
        """The largest magnitude of slope times u."""
        return abs(self.slope) * max(abs(self.low), abs(self.high))


class LinearLeaf(NamedTuple):
    """The value of a leaf for rows in which none of some features is missing; other rows get the leaf's plain value.

    Every sum of constants and terms is exact. A leaf reads a number x on a separate grid, u = clip(round(x − centre,
    to a multiple of step), low, high). Say G is the step of the leaf values: where a slope is a multiple of G / step,
    the product b·u is a multiple of G. Such products have no more than 53 bits, so a float64 holds them, and sums of
    them, exactly: in any order, and whether or not a processor fuses multiplication and addition. No back end needs to
    round the value. The clip bounds what a row may get that lies outside of what the leaf was trained on.

    x = 2.3 on a grid of quarters around 2, from −1 to 0.5, is 0.25; with slope 4 and constant 1 the value is 2:

    >>> leaf = LinearLeaf(1.0, (LinearTerm(feature=0, slope=4.0, step=0.25, centre=2.0, low=-1.0, high=0.5),))
    >>> [leaf.terms[0].on_grid(x) for x in (2.3, 2.4, 7.0, -7.0)]
    [0.25, 0.5, 0.5, -1.0]
    >>> leaf.value([2.3]), leaf.largest()
    (2.0, 5.0)

    Attributes
    ----------
    constant
        What the slopes add to.
    terms
        The slopes, at least one, each of another feature.
    """

    constant: float
    terms: tuple[LinearTerm, ...]

    def value(self, row: Sequence[float]) -> float:
        """Return the value of a row, by the features' numbers."""
        return self.constant + sum(term.slope * term.on_grid(row[term.feature]) for term in self.terms)

    def largest(self) -> float:
        """Return an upper bound of the magnitude of any sum of the constant and terms."""
        return abs(self.constant) + sum(term.largest for term in self.terms)

    def times(self, factor: float) -> LinearLeaf:
        """Return the leaf with its values times a factor."""
        return LinearLeaf(
            self.constant * factor + 0.0,
            tuple(term._replace(slope=term.slope * factor + 0.0) for term in self.terms),
        )

    def rounded(self, step: float) -> LinearLeaf:
        """Return the leaf with a constant and slopes that make all of its values multiples of ``step``."""
        terms = [
            LinearTerm(term.feature, _nearest(term.slope, max(step / term.step, _SMALLEST_NORMAL)), *term[2:])
            for term in self.terms
        ]
        return LinearLeaf(_nearest(self.constant, step), tuple(terms))


def refuse_linear(what: str, *, is_linear: bool) -> None:
    """Raise `ParameterError` if trees have linear leaves, with which something does not go."""
    if is_linear:
        raise ParameterError(
            f"{what} needs leaves with one value each; this model has slopes in them, as it was trained with "
            "linear_tree=True"
        )


def may_have_slope(feature: Feature) -> bool:
    """Whether leaves may have slopes of the feature: one of floats or of integers that are exact in float64."""
    kind = feature.type
    is_number = kind.is_float or (kind.is_integer and kind.name not in ("int128", "uint128"))
    return is_number and not kind.is_categorical and not feature.zero_is_missing


def _nearest(value: float, step: float) -> float:
    """Return the multiple of ``step``, a power of two, that is nearest to ``value``."""
    return round(value / step) * step + 0.0
