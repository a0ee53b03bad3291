"""Trees as bits of 64-bit words: which leaf a row comes to is found by AND, or OR, of one number a feature.

An idea of Lucchese et al., *QuickScorer* (SIGIR 2015): each question that is answered rules out the leaves on its other
side, and what is left of all leaves is the row's. All that one feature has to say about the trees of a word is a single
number, and depends on the feature's code alone. A symmetric tree takes no bit a leaf but one a level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from frameboost.compile.sql.feature_codes import FeatureCode
from frameboost.trees.tree import Tree

__all__ = ["MOST_LEVELS", "Field", "Word", "words_of"]

_BITS = 63  # of a BIGINT, but for its sign
_ALL = 2**64 - 1
# Levels of symmetric trees that are read together as a number of one bit a level, which has a place in a list.
MOST_LEVELS = 12


@dataclass(frozen=True)
class Field:
    """The bits of a tree, or of some of its leaves, in a word.

    Attributes
    ----------
    tree
        The tree.
    leaves
        Its leaves that have bits, in order; of a symmetric tree all.
    bits
        How many bits it takes.
    by_level
        Whether it has a bit a level, not a bit a leaf.
    ends_in_none
        Whether no bit at all may be left: for the last leaf, or if ``is_part``, for all leaves that have no bits here.
    is_part
        Whether the tree has other leaves.
    """

    tree: Tree
    leaves: tuple[int, ...]
    bits: int
    by_level: bool = False
    ends_in_none: bool = False
    is_part: bool = False


@dataclass
class Word:
    """Fields in one 64-bit number, from the lowest bit on, all of the same kind."""

    fields: list[Field] = field(default_factory=list)

    @property
    def by_level(self) -> bool:
        """Whether the fields have bits by level, which are put together by OR."""
        return self.fields[0].by_level

    @property
    def sign(self) -> str:
        """The operator that puts what features say together."""
        return " | " if self.by_level else " & "

    def shifts(self) -> list[int]:
        """Return the place of each field's lowest bit."""
        return [sum(before.bits for before in self.fields[:i]) for i in range(len(self.fields))]

    def has_room_for(self, new: Field) -> bool:
        """Whether another field fits in."""
        if not self.fields:
            return True
        used = sum(one.bits for one in self.fields)
        return not self.fields[-1].ends_in_none and new.by_level == self.by_level and used + new.bits <= _BITS

    def masks(self, codes: dict[int, FeatureCode]) -> dict[int, npt.NDArray[np.uint64]]:
        """Return for each feature that the fields ask about the number for each of its codes."""
        masks: dict[int, npt.NDArray[np.uint64]] = {}
        used = (1 << sum(one.bits for one in self.fields)) - 1
        start = np.uint64(0 if self.by_level else used)
        for one, shift in zip(self.fields, self.shifts(), strict=True):
            for node, if_left, if_right in _answers(one):
                feature = one.tree.feature[node]
                code = codes[feature]
                if feature not in masks:
                    masks[feature] = np.full(code.count, start, dtype=np.uint64)
                left = code.goes_left(one.tree, node)
                if self.by_level:
                    masks[feature] |= np.where(left, np.uint64(0), np.uint64(if_right << shift))
                else:
                    sides = [np.uint64(used & ~(ruled_out << shift)) for ruled_out in (if_left, if_right)]
                    masks[feature] &= np.where(left, *sides)
        return masks


def _answers(one: Field) -> list[tuple[int, int, int]]:
    """Return the nodes that matter, and for left and right the leaves that it rules out, or the level's bit."""
    tree = one.tree
    if one.by_level:
        levels = tree.levels()
        assert levels is not None
        return [(node, 0, 1 << (len(levels) - 1 - depth)) for depth, node in enumerate(levels)]
    below = [0] * len(tree)
    for i, leaf in enumerate(one.leaves[: one.bits]):
        below[leaf] = 1 << i
    found = []
    for node in range(len(tree) - 1, -1, -1):  # children come after their parent
        if not tree.is_leaf(node):
            left, right = below[tree.left[node]], below[tree.right[node]]
            below[node] = left | right
            if left or right:
                found.append((node, right, left))
    return found


def _fields(tree: Tree) -> list[Field]:
    """Return a tree's fields: one, or as many as it takes for its leaves."""
    leaves = tuple(tree.leaves_in_order())
    levels = tree.levels()
    if levels is not None and len(levels) <= MOST_LEVELS:
        return [Field(tree, leaves, len(levels), by_level=True)]
    if len(leaves) <= _BITS:
        return [Field(tree, leaves, len(leaves))]
    if len(leaves) == _BITS + 1:
        return [Field(tree, leaves, _BITS, ends_in_none=True)]
    parts = [leaves[first : first + _BITS] for first in range(0, len(leaves), _BITS)]
    return [Field(tree, part, len(part), ends_in_none=True, is_part=True) for part in parts]


def words_of(trees: Sequence[Tree]) -> list[Word]:
    """Return the words for some trees, none of which is a single leaf.

    Trees that follow one another ask about much the same features, and so share words.
    """
    words: list[Word] = []
    open_words: dict[bool, Word] = {}
    for tree in trees:
        for one in _fields(tree):
            last = open_words.get(one.by_level)
            short = _one_less(one)
            if last is not None and last.has_room_for(one):
                last.fields.append(one)
            elif last is not None and short is not None and last.has_room_for(short):
                last.fields.append(short)
            else:
                words.append(Word([one]))
                open_words[one.by_level] = words[-1]
    return words


def _one_less(one: Field) -> Field | None:
    """Return the field without a bit for its last leaf, which it then is if none is left; if it has one for it now."""
    if one.by_level or one.ends_in_none:
        return None
    return Field(one.tree, one.leaves, one.bits - 1, ends_in_none=True)
