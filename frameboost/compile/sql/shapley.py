"""Shapley values of trees as SQL: the closed form of `frameboost.compile.arrays.shap_kernels`, over an open row.

Of a leaf with value c, feature i gets c·(o_i − z_i)·Σ_q w_q Π_{j≠i} (z_j (1 − t_q) + o_j t_q) over the points t_q and
weights w_q of a Gauss-Legendre rule. What a row decides are the o_j alone: whether it passes all splits on j above the
leaf. So a first stage has a column u = o·t for each condition and point, a factor is u plus a number, and a tree is a
sum of products for each feature and point. Where z is 0.4 on the left of ``x < 3``, and 0.5 on both sides of ``y < 5``,
whose leaves are 3 and 1, the right child being a leaf of 2, feature x gets, with one point t = 0.5 of weight 1 ::

    SELECT CASE WHEN x < 3 THEN 0.5 ELSE 0 END AS v_1, CASE WHEN y < 5 THEN 0.5 ELSE 0 END AS v_2
    SELECT (v_1 - 0.2) * ((3 + 4 * v_2) - 4)

A factor is placed at the last split of its path on the feature, so that leaves below share it. A symmetric tree needs
no products: its leaf determines the answers of all splits, so a feature's Shapley value is a tree with the same splits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from frameboost.compile.sql.case import TreeWriter
from frameboost.compile.sql.stages import Stages
from frameboost.dialects.dialect import Dialect
from frameboost.errors import TooLargeError
from frameboost.trees.node_means import node_shares
from frameboost.trees.tree import Tree

__all__ = ["shapley_sums"]

# Levels of trees that are written: the text of each further level is more than twice as long.
_DEEPEST = 12
# Levels of symmetric trees whose leaves are listed.
_DEEPEST_LISTED = 8
# Columns of conditions in a stage, and the names and values in one that are left for columns that it passes on.
_MOST_COLUMNS, _ROOM = 800, 5_000
# Bytes of a factor; most have twice as many and more.
_BYTES_A_FACTOR = 30
# Digits of numbers: Python's Shapley values have about 15.
_DIGITS = 15
# Names and values of SQL, about.
_TERM = re.compile(r"[\w.]+")


def shapley_sums(
    trees: Sequence[Tree], writer: TreeWriter, stages: Stages, most_bytes: int
) -> dict[int, list[str]]:  # fmt: skip
    """Add stages, and return for each feature with splits the SQL terms that sum to its Shapley value.

    Slopes of linear leaves are excluded.

    Raises
    ------
    TooLargeError
        If a tree has too many levels, or the text would be too long for any database.
    """
    levels = max((max(tree.depths()) for tree in trees), default=0)
    if levels > _DEEPEST:
        raise TooLargeError(f"a tree has {levels:,} levels, and Shapley values are written of {_DEEPEST} at most")
    most = min(most_bytes, writer.dialect.limits.text or most_bytes)
    if sum(map(_least_bytes, trees)) > most:  # checked before writing them, which is slow
        raise _too_long(most, writer.dialect)
    part, size = _Part(writer.dialect, stages), 0
    for tree in trees:
        n_before = len(part.columns)
        terms = _terms(tree, writer, part.column)
        if part.sums and part.is_full(terms):
            part.forget_columns(n_before)
            part = part.next()
            terms = _terms(tree, writer, part.column)
        part.add(terms)
        size += sum(len(text) for texts in terms.values() for text in texts)
        if size > most:
            raise _too_long(most, writer.dialect)
    return part.ended()


def _too_long(most: int, dialect: Dialect) -> TooLargeError:
    of = f"in {dialect.name}" if most == dialect.limits.text else "of Shapley values"
    return TooLargeError(f"it has more than {most:,} bytes, and a query {of} at most {most:,}")


def _is_listed(tree: Tree) -> bool:
    levels = tree.levels()
    return levels is not None and len(levels) <= _DEEPEST_LISTED


def _least_bytes(tree: Tree) -> int:
    """Return a lower bound of the bytes of a tree's terms: some for each split, feature above it, and point."""
    if _is_listed(tree):
        return 0
    distinct = [len(above) for above in _features_above(tree)]
    splits = (count for node, count in enumerate(distinct) if not tree.is_leaf(node))
    return _BYTES_A_FACTOR * ((max(distinct) + 1) // 2) * sum(count + 1 for count in splits)


def _features_above(tree: Tree) -> list[frozenset[int]]:
    """Return the features of the splits above each node."""
    above = [frozenset[int]()] * len(tree)
    for node in range(len(tree)):
        if not tree.is_leaf(node):
            above[tree.left[node]] = above[tree.right[node]] = above[node] | {tree.feature[node]}
    return above


def _terms(tree: Tree, writer: TreeWriter, column: Callable[[str, float], str]) -> dict[int, list[str]]:
    """Return the terms of a tree by feature; ``column`` names a column that is t if a condition holds, else 0."""
    if _is_listed(tree):
        leaves, values = tree.leaves_in_order(), _values_by_leaf(tree)
        return {f: [writer.tree(_with_leaves(tree, leaves, of_feature))] for f, of_feature in values.items()}
    products = _Products(tree, writer, column)
    return {feature: products.terms(feature) for feature in sorted(products.below[0])}


@dataclass
class _Part:
    """Some of the trees: a stage with the columns of their conditions, and the next with terms over them."""

    dialect: Dialect
    stages: Stages
    sums: dict[int, list[str]] = field(default_factory=dict)
    columns: dict[tuple[str, float], str] = field(default_factory=dict)
    n_terms: int = 0

    def column(self, condition: str, t: float) -> str:
        """Return the name of the column that is t if the condition holds, else 0."""
        if (condition, t) not in self.columns:
            [self.columns[condition, t]] = self.stages.reserve(1)
        return self.columns[condition, t]

    def forget_columns(self, n_before: int) -> None:
        """Keep only the first ``count`` columns."""
        self.columns = dict(list(self.columns.items())[:n_before])

    def is_full(self, terms: Mapping[int, Sequence[str]]) -> bool:
        """Whether a database could not take these terms as well."""
        limits = self.dialect.limits
        most = _MOST_COLUMNS if limits.columns is None else min(_MOST_COLUMNS, limits.columns // 2)
        return len(self.columns) > most or (
            limits.terms is not None and self.n_terms + _n_terms(terms) + 3 * len(self.columns) > limits.terms - _ROOM
        )

    def add(self, terms: Mapping[int, Sequence[str]]) -> None:
        """Add the terms of a tree."""
        self.n_terms += _n_terms(terms)
        for feature, texts in terms.items():
            self.sums.setdefault(feature, []).extend(texts)

    def ended(self) -> dict[int, list[str]]:
        """Add the stage of the columns, and return the terms over it."""
        if self.columns:
            number, branch = self.dialect.number, self.dialect.expressions.branch
            values = {
                name: branch.format(c=condition, t=number(t), e=number(0.0))
                for (condition, t), name in self.columns.items()
            }
            self.stages.add(values, often=True)
        return self.sums

    def next(self) -> _Part:
        """Add a stage of the sums as well, and return a part that continues with these."""
        sums = self.ended()
        names = dict(zip(sums, self.stages.reserve(len(sums)), strict=True))
        used = {*self.columns.values(), *(texts[0] for texts in sums.values())}  # the first may be such a sum
        self.stages.add({names[f]: self.dialect.total(texts) for f, texts in sums.items()}, without=used)
        return _Part(self.dialect, self.stages, {f: [name] for f, name in names.items()})


def _n_terms(terms: Mapping[int, Sequence[str]]) -> int:
    return sum(len(_TERM.findall(text)) for texts in terms.values() for text in texts)


# --- symmetric trees --------------------------------------------------------------------------------------------------


def _with_leaves(tree: Tree, leaves: Sequence[int], values: npt.NDArray[np.float64]) -> Tree:
    value = list(tree.value)
    for leaf, number in zip(leaves, values, strict=True):
        value[leaf] = float(number)
    return replace(tree, value=tuple(value), linear=())


def _values_by_leaf(tree: Tree) -> dict[int, npt.NDArray[np.float64]]:
    """Return the Shapley values by feature of the rows of each leaf of a symmetric tree, from left to right."""
    levels, shares, leaves = tree.levels() or [], node_shares(tree), tree.leaves_in_order()
    n = len(levels)
    side = (np.arange(1 << n)[:, None] >> np.arange(n)[::-1]) & 1  # (leaves, levels), 1 for right
    share = np.ones((1 << n, n))
    for number in range(1 << n):
        node = 0
        for level in range(n):
            node = tree.right[node] if side[number, level] else tree.left[node]
            share[number, level] = shares[node]
    value = np.array([tree.value[leaf] for leaf in leaves])
    features = list(dict.fromkeys(tree.feature[node] for node in levels))
    # For rows of one leaf (first axis) and each leaf of the tree (second): o, and z of the leaf.
    o, z = {}, {}
    for feature in features:
        of_feature = [level for level, node in enumerate(levels) if tree.feature[node] == feature]
        o[feature] = (side[:, None, of_feature] == side[None, :, of_feature]).all(axis=2).astype(float)
        z[feature] = share[:, of_feature].prod(axis=1)[None, :]
    sums = {feature: np.zeros(1 << n) for feature in features}
    for t, weight in _rule(len(features)):
        factors = {feature: z[feature] * (1.0 - t) + o[feature] * t for feature in features}
        for feature in features:
            product = weight * value[None, :] * (o[feature] - z[feature])
            for other in features:
                if other != feature:
                    product = product * factors[other]
            sums[feature] += product.sum(axis=1)
    return sums


def _rule(n_features: int) -> list[tuple[float, float]]:
    """Return points and weights on [0, 1] that exactly integrate products of all but one feature's factors."""
    points, weights = np.polynomial.legendre.leggauss(max(1, (n_features + 1) // 2))
    return [(float(t), float(weight)) for t, weight in zip((points + 1.0) / 2.0, weights / 2.0, strict=True)]


# --- other trees ------------------------------------------------------------------------------------------------------


class _Answer(NamedTuple):
    """A required answer of a row: the condition of a split, and whether it holds."""

    split: int
    holds: bool


class _Factor(NamedTuple):
    """A number plus a number times a column."""

    column: str
    zero: float
    slope: float


class _Term(NamedTuple):
    """A product of factors, and a number or SQL."""

    factors: tuple[_Factor, ...]
    rest: float | str


# Of the features above a node that are split on below it as well: the answers so far, and z.
_Open = dict[int, tuple[tuple[_Answer, ...], float]]


@dataclass(frozen=True)
class _Products:
    """Writes the sums of products of one tree."""

    tree: Tree
    writer: TreeWriter
    column: Callable[[str, float], str]

    @cached_property
    def below(self) -> list[set[int]]:
        """The features of splits in each subtree; empty if all leaves are equal."""
        tree = self.tree
        below: list[set[int]] = [set() for _ in range(len(tree))]
        for node in reversed(range(len(tree))):  # children come after their parent
            if self._constants[node] is None:
                below[node] = {tree.feature[node], *below[tree.left[node]], *below[tree.right[node]]}
        return below

    @cached_property
    def _constants(self) -> list[float | None]:
        """The value of each node with equal leaves below, else None: such a split contributes nothing."""
        tree = self.tree
        constants: list[float | None] = [value if tree.is_leaf(node) else None for node, value in enumerate(tree.value)]
        for node in reversed(range(len(tree))):
            if not tree.is_leaf(node):
                left, right = constants[tree.left[node]], constants[tree.right[node]]
                constants[node] = left if left == right else None
        return constants

    @cached_property
    def _shares(self) -> list[float]:
        return node_shares(self.tree)

    @cached_property
    def _conditions(self) -> list[tuple[str, bool]]:
        tree, columns = self.tree, self.writer.columns
        return [("", True) if tree.is_leaf(node) else columns[tree.feature[node]].test(tree, node)
                for node in range(len(tree))]  # fmt: skip

    @cached_property
    def _points(self) -> list[tuple[float, float]]:
        """Points and weights for the maximum number of features on a path."""
        return _rule(max(map(len, _features_above(self.tree))))

    def terms(self, feature: int) -> list[str]:
        """Return the terms of a feature's Shapley value, one for each point."""
        sums = [self._sum(0, {}, feature, t, weight / t) for t, weight in self._points]
        return [self._text(text) for text in sums if text is not None]

    def _sum(self, node: int, above: _Open, feature: int | None, t: float, weight: float) -> float | str | None:
        """Return the sum over the leaves below a node, as a number or as SQL, None for 0.

        ``feature`` is the feature of the Shapley value, None once its factor is written.
        """
        constant = self._constants[node]
        if constant is not None:
            return weight * constant
        tree, terms = self.tree, []
        holds_left, of_node = self._conditions[node][1], tree.feature[node]
        answers, z = above.get(of_node, ((), 1.0))
        for is_left, child in ((True, tree.left[node]), (False, tree.right[node])):
            answer = _Answer(node, is_left == holds_left)
            opened = {**above, of_node: ((*answers, answer), z * self._shares[child])}
            below = self.below[child]
            if feature is not None and feature not in opened and feature not in below:
                continue  # no split on it is on these paths
            factors = [self._factor(*opened[j], t, is_own=j == feature) for j in opened if j not in below]
            still = {j: state for j, state in opened.items() if j in below}
            rest = self._sum(child, still, feature if feature in below else None, t, weight)
            if rest is not None:
                terms.append(_Term(tuple(factors), rest))
        return self._added(terms)

    def _factor(self, answers: tuple[_Answer, ...], z: float, t: float, *, is_own: bool) -> _Factor:
        """Return t times o − z for the feature itself, z (1 − t) + o t for others; o is 1 if all answers hold."""
        zero = -z * t if is_own else z * (1.0 - t)
        if len(answers) == 1 and not answers[0].holds:
            return _Factor(self.column(self._condition(answers[0]._replace(holds=True)), t), zero + t, -1.0)
        conditions = [self._condition(answer) for answer in answers]
        text = conditions[0] if len(conditions) == 1 else " AND ".join(map(_in_brackets, conditions))
        return _Factor(self.column(text, t), zero, 1.0)

    def _condition(self, answer: _Answer) -> str:
        condition, node = self._conditions[answer.split][0], answer.split
        if answer.holds:
            return condition
        return self.writer.columns[self.tree.feature[node]].negated(condition, self.tree, node)

    def _added(self, terms: Sequence[_Term]) -> float | str | None:
        """Return the sum of up to two terms."""
        if not terms:
            return None
        first, last = terms[0], terms[-1]
        if len(terms) == 1:
            return self._product(first)
        if len(first.factors) == len(last.factors) == 1 and first.factors[0].column == last.factors[0].column:
            [one], [other] = first.factors, last.factors
            if isinstance(first.rest, float) and isinstance(last.rest, float):
                zero = one.zero * first.rest + other.zero * last.rest
                return self._linear(_Factor(one.column, zero, one.slope * first.rest + other.slope * last.rest))
            if one.zero == -other.zero and one.slope == -other.slope:  # of the feature itself
                return f"{self._linear(one)} * ({self._text(first.rest)} - {self._text(last.rest)})"
        return f"({self._product(first)} + {self._product(last)})"

    def _product(self, term: _Term) -> str | float:
        *factors, rest = *term.factors, term.rest
        if isinstance(rest, float) and factors:
            last = factors.pop()
            rest = self._linear(last._replace(zero=last.zero * rest, slope=last.slope * rest))
        return " * ".join([*map(self._linear, factors), self._text(rest)]) if factors else rest

    def _linear(self, factor: _Factor) -> str:
        """Return a number plus another one times the column, in parentheses."""
        column, zero, slope = factor
        number = self._text(zero)
        if abs(slope) == 1.0:
            return f"({number} {'+' if slope > 0.0 else '-'} {column})"
        return f"({number} + {self._text(slope)} * {column})"

    def _text(self, value: float | str) -> str:
        if isinstance(value, str):
            return value
        return self.writer.dialect.sum([self.writer.dialect.number(float(f"{value:.{_DIGITS}g}"))])


def _in_brackets(condition: str) -> str:
    return f"({condition})" if " OR " in condition or " AND " in condition else condition
