r"""Trees without redundant branches: those that no row reaches, and those that are equal.

Symmetric trees split all nodes of a level alike, including those with few rows, where leaves have the parent's value;
and any tree may repeat what a split above has decided. Such splits cost space and time in a database. In the tree ::

                x < 5                             x < 5
             /         \                       /       \
          x < 7         y < 2       becomes    1        y < 2
         /     \       /    \                         /    \
        1       2   x < 3    4                          3    4
                    /   \
                   3     3

no row reaches the right child of ``x < 7``, and both children of ``x < 3`` are 3. Trees with the same splits, such as
those of vector leaves, are simplified alike, by comparing their leaves together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from frameboost.compile.sql.case import lookup_levels
from frameboost.dialects.dialect import Dialect
from frameboost.schema.types import Physical
from frameboost.trees.tree import LEAF, Tree, shared_splits

__all__ = ["Known", "simplified"]


class Known(NamedTuple):
    """The facts about a feature in a node, from the splits above.

    Attributes
    ----------
    low, high
        Non-missing numbers are at least ``low`` and less than ``high``; None for no bound.
    may_be_missing, may_be_present
        Whether the value may be missing, and may be non-missing.
    codes
        The possible categories, or with ``are_excluded`` the impossible ones; all others, including unknown ones, are
        then possible.
    are_excluded
        Which of the two ``codes`` are.
    """

    low: Physical | None = None
    high: Physical | None = None
    may_be_missing: bool = True
    may_be_present: bool = True
    codes: frozenset[int] = frozenset()
    are_excluded: bool = True

    @property
    def is_possible(self) -> bool:
        """Whether any value is possible."""
        return self.may_be_missing or self.may_be_present

    def divided(self, tree: Tree, node: int) -> tuple[Known, Known]:
        """Return the facts in the left and in the right child of a split."""
        threshold, categories, missing_left = tree.threshold[node], tree.categories[node], tree.missing_left[node]
        left = self._replace(may_be_missing=self.may_be_missing and missing_left)
        right = self._replace(may_be_missing=self.may_be_missing and not missing_left)
        if categories is not None:
            codes, is_left = frozenset(categories), tree.named_left(node)
            named, others = (left, right) if is_left else (right, left)
            named = named._of(self.possible(codes), are_excluded=False)
            rest = self.codes | codes if self.are_excluded else self.codes - codes
            others = others._of(rest, are_excluded=self.are_excluded)
            return (named, others) if is_left else (others, named)
        if threshold is None:  # is there a value?
            return self._replace(may_be_missing=False), self._replace(may_be_present=False)
        # Thresholds of one feature are of one type, so they compare.
        if self.high is None or threshold < self.high:  # type: ignore[operator]
            left = left._replace(high=threshold)
        else:
            right = right._replace(may_be_present=False)
        if self.low is None or threshold > self.low:  # type: ignore[operator]
            right = right._replace(low=threshold)
        else:
            left = left._replace(may_be_present=False)
        return left, right

    def possible(self, named: frozenset[int]) -> frozenset[int]:
        """Return the possible ones of some categories."""
        return named - self.codes if self.are_excluded else named & self.codes

    def _of(self, codes: frozenset[int], *, are_excluded: bool) -> Known:
        may_be_present = self.may_be_present and (are_excluded or bool(codes))
        return self._replace(codes=codes, are_excluded=are_excluded, may_be_present=may_be_present)


def simplified(
    trees: Sequence[Tree], dialect: Dialect, known: Mapping[int, Known] = MappingProxyType({})
) -> list[Tree]:
    """Return trees with the same value for every row and fewer CASEs in a dialect.

    ``known`` are facts about the rows' features. Symmetric trees that the dialect looks up in a list only lose levels
    that these facts decide.
    """
    done = {number: tree for number, tree in enumerate(trees) if lookup_levels(tree, dialect) is not None}
    if known:
        fewer = {n: _simplified([tree], dialect, known, keeps_levels=True)[0] for n, tree in done.items()}
        done = {number: tree for number, tree in fewer.items() if lookup_levels(tree, dialect) is not None}
    for group in shared_splits(trees):
        if group[0] not in done:
            done |= zip(group, _simplified([trees[number] for number in group], dialect, known), strict=True)
    return [done[n] if n in done else _simplified([tree], dialect, known)[0] for n, tree in enumerate(trees)]


def _simplified(
    trees: Sequence[Tree], dialect: Dialect, of_rows: Mapping[int, Known], *, keeps_levels: bool = False
) -> list[Tree]:
    """Return trees with the same splits, simplified alike; ``keeps_levels`` keeps symmetric trees symmetric."""
    tree = trees[0]
    known: dict[int, Mapping[int, Known]] = {0: of_rows}  # of each node that rows reach: what is known of features
    splits: dict[int, _Split] = {}
    for node in range(len(tree)):  # children come after their parent
        if node not in known or tree.is_leaf(node):
            continue
        of_node, feature = known[node], tree.feature[node]
        of_feature = of_node.get(feature, Known())
        left, right = of_feature.divided(tree, node)
        known |= {
            child: of_rows if keeps_levels else {**of_node, feature: side}
            for child, side in ((tree.left[node], left), (tree.right[node], right))
            if side.is_possible
        }
        if left.is_possible and right.is_possible:
            splits[node] = _Split.of(tree, node) if keeps_levels else _split(tree, node, of_feature, dialect)
    # From the leaves up: a number for each subtree, the same for equal ones, and the node that its root is copied from.
    numbers: dict[object, int] = {}
    number_of, copied = dict[int, int](), dict[int, int]()
    for node in sorted(known, reverse=True):
        children = [child for child in (tree.left[node], tree.right[node]) if child in known]
        if tree.is_leaf(node):
            key: object = tuple([(each.value[node], each.linear[node] if each.linear else None) for each in trees])
        else:
            below = [number_of[child] for child in children]
            if len(below) == 1 or (below[0] == below[1] and not keeps_levels):
                number_of[node], copied[node] = below[0], copied[children[0]]
                continue
            key = (splits[node], *below)
        number_of[node], copied[node] = numbers.setdefault(key, len(numbers)), node
    if len(copied) == len(tree) and all(copied[node] == node for node in copied) and _are_same(splits, tree):
        return list(trees)
    return _copies(trees, copied, splits)


class _Split(NamedTuple):
    """The fields of a split, without its children."""

    feature: int
    threshold: Physical | None
    categories: tuple[int, ...] | None
    missing_left: bool
    with_missing: bool

    @classmethod
    def of(cls, tree: Tree, node: int) -> _Split:
        """Return those of a node."""
        return cls(
            tree.feature[node], tree.threshold[node], tree.categories[node], tree.missing_left[node],
            tree.with_missing[node],
        )  # fmt: skip


def _split(tree: Tree, node: int, known: Known, dialect: Dialect) -> _Split:
    """Return a split with its possible categories, and without a NaN test if NaN is impossible."""
    split = _Split.of(tree, node)
    if split.categories is not None:
        possible = known.possible(frozenset(split.categories))
        return split._replace(categories=tuple(sorted(possible))) if possible else split
    # Where columns without missing values are named in a stage, it would take one more.
    is_plain = split.threshold is not None and not dialect.expressions.case_skips_unmet_whens
    return split._replace(missing_left=False) if is_plain and not known.may_be_missing else split


def _are_same(splits: Mapping[int, _Split], tree: Tree) -> bool:
    return all(split == _Split.of(tree, node) for node, split in splits.items())


def _copies(trees: Sequence[Tree], copied: Mapping[int, int], splits: Mapping[int, _Split]) -> list[Tree]:
    """Return the trees of the nodes that are copied, level by level."""
    tree, order = trees[0], [0]  # a node as it was reached, whose cover counts
    left, right = list[int](), list[int]()
    for node in order:
        root = copied[node]
        if tree.is_leaf(root):
            left.append(LEAF)
            right.append(LEAF)
        else:
            left.append(len(order))
            right.append(len(order) + 1)
            order += (tree.left[root], tree.right[root])
    roots = [copied[node] for node in order]
    fields = [splits.get(root) for root in roots]
    return [
        replace(
            each,
            feature=tuple([LEAF if split is None else split.feature for split in fields]),
            threshold=tuple([None if split is None else split.threshold for split in fields]),
            categories=tuple([None if split is None else split.categories for split in fields]),
            missing_left=tuple([split is not None and split.missing_left for split in fields]),
            with_missing=tuple([split is not None and split.with_missing for split in fields]),
            left=tuple(left), right=tuple(right),
            gain=tuple([each.gain[root] for root in roots]),
            cover=tuple([each.cover[node] for node in order]),
            value=tuple([each.value[root] for root in roots]),
            linear=tuple([each.linear[root] for root in roots]) if each.linear else (),
        )
        for each in trees
    ]  # fmt: skip
