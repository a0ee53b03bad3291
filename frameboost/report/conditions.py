"""The rows of a leaf as a condition: in words, with one part per feature, and as SQL.

A leaf below ``x < 9`` (yes), ``kind in (a, b)`` (no) and ``x < 3`` (no) is "x from 3 to below 9 and kind is not a or
b", in SQL ``"x" < 9 AND NOT ("kind" IN ('a', 'b')) AND NOT ("x" < 3)`` plus conditions for missing values.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from frameboost.checks.messages import shortened
from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.dialects.dialect import Dialect
from frameboost.schema.types import Feature, Physical
from frameboost.trees.tree import Tree

__all__ = ["Step", "in_sql", "in_words", "path_to"]

_MAX_CATEGORIES = 5
_LONGEST_NAME = 60


@dataclass(frozen=True)
class Step:
    """A node on the path, and the branch that the path takes."""

    node: int
    left: bool


def path_to(tree: Tree, leaf: int) -> list[Step]:
    """Return the steps from the root to a leaf."""
    above = {}
    for node in range(len(tree)):
        if not tree.is_leaf(node):
            above[tree.left[node]], above[tree.right[node]] = Step(node, left=True), Step(node, left=False)
    steps: list[Step] = []
    while leaf in above:
        steps.append(above[leaf])
        leaf = above[leaf].node
    return steps[::-1]


@dataclass
class _Allowed:
    """The remaining values of a feature on a path."""

    feature: Feature
    low: Physical | None = None
    high: Physical | None = None
    named: set[int] | None = None
    excluded: set[int] = field(default_factory=set)
    present: bool = True
    missing: bool = True

    def follow(self, tree: Tree, step: Step) -> None:
        """Restrict the values by one more step."""
        node, left = step.node, step.left
        threshold, codes = tree.threshold[node], tree.categories[node]
        if codes is not None:
            if tree.named_left(node) == left:
                self.named = set(codes) if self.named is None else self.named & set(codes)
            else:
                self.excluded |= set(codes)
        elif threshold is None:
            self.present &= left
        elif left:
            self.high = threshold if self.high is None else min(self.high, threshold)
        else:
            self.low = threshold if self.low is None else max(self.low, threshold)
        self.missing &= tree.missing_left[node] == left

    def words(self, *, mention_missing: bool) -> str:
        """Return the values in words."""
        name = shortened(self.feature.name, _LONGEST_NAME)
        if not self.present:
            return f"{name} is missing"
        parts = [part for part in (self._range(), self._categories()) if part] or ["is present"]
        return f"{name} {' and '.join(parts)}" + (" or missing" if self.missing and mention_missing else "")

    def _range(self) -> str:
        kind = self.feature.type
        if self.low is None and self.high is None:
            return ""
        if kind.family == "boolean":
            return "is false" if self.low is None else "is true"
        low, high = (None if value is None else _text(value, self.feature) for value in (self.low, self.high))
        if low is None:
            return f"below {high}"
        return f"at least {low}" if high is None else f"from {low} to below {high}"

    def _categories(self) -> str:
        if self.named is not None:
            return f"is {self._listed(self.named - self.excluded)}"
        return f"is not {self._listed(self.excluded)}" if self.excluded else ""

    def _listed(self, codes: set[int]) -> str:
        names = [shortened(_text(self.feature.categories[code], self.feature), 40) for code in sorted(codes)]
        more = len(names) - _MAX_CATEGORIES
        return " or ".join(names[:_MAX_CATEGORIES]) + (f" or {more} more" if more > 0 else "")


def _text(value: Physical, feature: Feature) -> str:
    return f"{value:.6g}" if isinstance(value, float) else feature.type.shown(value)


def in_words(tree: Tree, steps: Sequence[Step], features: Sequence[Feature], with_missing: Container[str]) -> str:
    """Return the condition of a path in words; "all rows" for the root.

    Missing directions are mentioned for ``with_missing``, the features with missing values.
    """
    allowed: dict[int, _Allowed] = {}
    for step in steps:
        number = tree.feature[step.node]
        allowed.setdefault(number, _Allowed(features[number])).follow(tree, step)
    parts = [one.words(mention_missing=one.feature.name in with_missing) for one in allowed.values()]
    return " and ".join(parts) or "all rows"


def in_sql(tree: Tree, steps: Sequence[Step], features: Sequence[Feature], dialect: Dialect) -> str:
    """Return the condition of a path in a dialect's SQL, true for missing values if they take the path."""
    parts = []
    for step in steps:
        feature = features[tree.feature[step.node]]
        column = FeatureColumn(feature, dialect, dialect.quote(feature.name))
        condition, is_left = column.test(tree, step.node)
        text = condition if is_left == step.left else column.negated(condition, tree, step.node)
        parts.append(f"({text})" if " OR " in text else text)
    return " AND ".join(parts)
