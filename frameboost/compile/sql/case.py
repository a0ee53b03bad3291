"""Trees as scalar SQL expressions: a tree is a CASE in CASE, an ensemble a sum of them.

The tree ``x < 3 ? -1 : (y < 5 ? 0 : 1)`` is ``CASE WHEN x < 3 THEN -1 ELSE CASE WHEN y < 5 THEN 0 ELSE 1 END END``, or
(in DuckDB, and where it is deep) ``CASE WHEN x < 3 THEN -1 WHEN y < 5 THEN 0 ELSE 1 END``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.compile.sql.linear_lists import LinearLists, are_listed
from frameboost.compile.sql.symmetric_tables import SymmetricTable, shared_tables
from frameboost.dialects.dialect import Dialect
from frameboost.trees.linear_leaves import LinearTerm
from frameboost.trees.tree import Tree

__all__ = ["Step", "TreeWriter", "case_depth", "lookup_levels", "n_terms"]

# Levels from which on a lookup in a list is faster than a CASE, for symmetric trees.
_SHALLOWEST_TABLE = 3
# Levels of CASE in CASE. SQLite's parser overflows its stack at 19; most trees have no more levels than these.
_DEEPEST_NESTED = 8
# Where `Expressions.branch` is divided into lines.
_LINES = re.compile(r" (?=THEN |ELSE )|(?<=,) ")
# Characters of a line that is not divided.
_LONGEST_LINE = 100
# What a number of steps is rounded up to as a whole number, and integers that have 32 bits.
_MOST_STEPS, _SHORT = 2.0**50, 2.0**31
# Names and values of a term of a linear leaf, with the test whether its column is missing.
_TERMS_A_SLOPE = 8


class Step(NamedTuple):
    """A number that the leaf values of an output are multiples of.

    Attributes
    ----------
    size
        The number.
    is_short
        Whether any sum of the base and leaf values has 32 bits.
    """

    size: float
    is_short: bool


Term = Tree | SymmetricTable | LinearLists


@dataclass(frozen=True)
class TreeWriter:
    """Writes trees as expressions over feature columns, in a dialect.

    Attributes
    ----------
    steps
        The step of each output, to write leaf values as integer multiples; empty to write the values.
    line
        The beginning of lines within a long tree; empty if each tree is one line.
    """

    columns: Sequence[FeatureColumn]
    dialect: Dialect
    steps: Sequence[Step] = ()
    line: str = ""

    def margin(self, base_margin: float, trees: Sequence[Tree], output: int = 0) -> str:
        """Return the margin of an output as one expression: the base plus the trees.

        Leaf values are on a grid (see `frameboost.trees.tree`), so the order of additions does not change the sum.
        """
        return self.dialect.sum([self.literal(base_margin, output), *map(self.term, self.terms(trees))])

    def terms(self, trees: Sequence[Tree]) -> list[Term]:
        """Return the trees of a margin, with tables for the symmetric ones that are lookups, and lists for slopes."""
        terms, tables, listed = list[Term](), list[SymmetricTable](), list[Tree]()
        for tree in trees:
            if are_listed(tree, self.dialect):
                listed.append(tree)
            elif (levels := lookup_levels(tree, self.dialect)) is not None:
                tables.append(SymmetricTable.of(tree, levels, self.columns))
            else:
                terms.append(tree)
        terms += shared_tables(tables, self.dialect.expressions.longest_lookup)
        return [*terms, LinearLists.of(listed)] if listed else terms

    def term(self, term: Term) -> str:
        """Return trees as an expression."""
        if isinstance(term, LinearLists):
            return self._over_lists(term)
        return self._table(term) if isinstance(term, SymmetricTable) else self.tree(term)

    def number(self, value: float, output: int) -> float:
        """Return a base or leaf value in the form to write: a number of steps, if there are steps."""
        return value / self.steps[output].size if self.steps else value

    def literal(self, value: float, output: int) -> str:
        """Return the same as a literal."""
        number = self.number(value, output)
        if not self.steps:
            return self.dialect.number(number)
        return self.dialect.integer(int(number), is_short=self.steps[output].is_short)

    def tree(self, tree: Tree) -> str:
        """Return a tree as a CASE expression, or a symmetric one as a list of its leaves, where that is faster."""
        if not tree.is_linear and (levels := lookup_levels(tree, self.dialect)) is not None:
            return self._table(SymmetricTable.of(tree, levels, self.columns))
        if _is_chained(tree, self.dialect):
            return self.chained(tree, line=self.line)[0]
        return self._nested(tree, 0, self.line)

    def _nested(self, tree: Tree, node: int, line: str = "") -> str:
        """Return the subtree at ``node`` with nested CASEs, one per level. ``line`` begins lines in long ones."""
        if tree.is_leaf(node):
            return self._leaf(tree, node)
        condition, holds_left = self.columns[tree.feature[node]].test(tree, node)
        yes, no = (tree.left, tree.right) if holds_left else (tree.right, tree.left)
        text = self._branch(condition, self._nested(tree, yes[node]), self._nested(tree, no[node]))
        if not line or len(text) <= _LONGEST_LINE:
            return text
        inner = f"{line}  "
        return self._branch(
            condition, self._nested(tree, yes[node], inner), self._nested(tree, no[node], inner), line=inner
        )

    def _branch(self, condition: str, then: str, otherwise: str, line: str = "") -> str:
        """Return one of two values by a condition, each on a line if ``line`` is set; the second for NULL."""
        template = self.dialect.expressions.branch
        if line:
            template = _LINES.sub(line, template)
        return template.format(c=condition, t=then, e=otherwise)

    def _leaf(self, tree: Tree, leaf: int) -> str:
        """Return the value of a leaf: a number, or for a linear leaf a constant plus slopes times columns.

        All products and sums are exact (see `frameboost.trees.tree`).
        """
        value = self.literal(tree.value[leaf], tree.output)
        if not tree.linear or (linear := tree.linear[leaf]) is None:
            return value
        slopes = [self._slope(term, tree.output) for term in linear.terms if term.slope]
        present = " AND ".join(self.columns[term.feature].is_present() for term in linear.terms)
        total = self.dialect.sum([self.literal(linear.constant, tree.output), *slopes])
        return self._branch(present, total, value)

    def _slope(self, term: LinearTerm, output: int) -> str:
        """Return a slope times u: of the column, or of its number of steps, in whole numbers, where a stage has it.

        With g, the column rounded to the grid, u is ``clip(g - centre, low, high)``, which is
        ``clip(g, low + centre, high + centre) - centre``. All of these are exact, but for a g beyond the grid, which is
        clipped.
        """
        dialect, column = self.dialect, self.columns[term.feature]
        ends = [(end + term.centre) / term.step for end in (term.low, term.high, 0.0)]
        if (steps := column.in_steps.get(term.step)) is not None and max(map(abs, ends)) < _MOST_STEPS:
            slope, low, high, centre = map(self._whole, (self.number(term.slope * term.step, output), *ends))
            return f"{slope} * ({dialect.clipped(steps, low, high)} - {centre})"
        slope, offset, shift, low, high = map(
            dialect.number, (self.number(term.slope, output), term.offset, term.shift, term.low, term.high)
        )
        number = dialect.cast(column.name, "float64")
        return f"{slope} * {dialect.clipped(f'(({number} + {offset}) - {shift})', low, high)}"

    def _whole(self, value: float) -> str:
        """Return an integer as a literal beside a float64."""
        return str(int(value)) if abs(value) < _SHORT else self.dialect.number(value)

    # --- chains of WHENs ----------------------------------------------------------------------------------------------

    def chained(
        self, tree: Tree, roots: Sequence[int] = (0,), ends: Mapping[int, str] = MappingProxyType({}), line: str = ""
    ) -> dict[int, str]:
        """Return the subtrees at ``roots``, with a WHEN for each split on a path in one CASE.

        ELSE continues to the child whose CASEs nest deeper, and the other child is behind THEN. So the depth of
        CASEs is the tree's Horton-Strahler number, at most log2 of the number of leaves. A chain of splits ``x < 1``,
        ``x < 2``, ``x < 3`` is ``CASE WHEN x < 1 THEN a WHEN x < 2 THEN b WHEN x < 3 THEN c ELSE d END``. ``ends`` are
        nodes that end the tree, with their values. ``line`` begins a line in long ones.

        A database that evaluates CASE by vectors of rows copies the values of an inner CASE to the outer one. There all
        trees are written this way, and of two equally deep children ELSE continues to the one with the larger cover,
        which saves a copy of its values: half the time of nested CASEs.
        """
        nested = tree.nestings(ends)
        cover = tree.cover if self.dialect.expressions.case_skips_unmet_whens else [0.0] * len(tree)

        def below(node: int, line: str = "") -> str:
            if line and len(text := below(node)) <= _LONGEST_LINE:
                return text
            cases, inner = [], f"{line}  " if line else ""
            while node not in ends and not tree.is_leaf(node):
                column = self.columns[tree.feature[node]]
                condition, holds_left = column.test(tree, node)
                yes, no = (tree.left[node], tree.right[node]) if holds_left else (tree.right[node], tree.left[node])
                if (nested[yes], cover[yes]) > (nested[no], cover[no]):
                    condition, yes, no = column.negated(condition, tree, node), no, yes
                cases.append(f"WHEN {condition} THEN {below(yes, inner)}")
                node = no
            last = ends[node] if node in ends else self._leaf(tree, node)
            return f"{(inner or ' ').join(['CASE', *cases, f'ELSE {last}'])} END" if cases else last

        return {root: below(root, line) for root in roots}

    # --- leaves by their index ----------------------------------------------------------------------------------------

    def index(self, tree: Tree, first: int | None = None) -> tuple[str, list[int]]:
        """Return the index of a row's leaf for `lookup`, or counted from ``first``, and the leaves by their index."""
        first = self._first_index if first is None else first
        if (levels := lookup_levels(tree, self.dialect)) is not None:
            table = SymmetricTable.of(tree, levels, self.columns)
            return self._cell(table, first), table.leaves(0)
        leaves = tree.leaves_in_order()
        return self.chained(tree, ends={leaf: str(number) for number, leaf in enumerate(leaves, first)})[0], leaves

    def lookup(self, values: Sequence[float], index: str, output: int) -> str:
        """Return the value of an index; values are of leaves."""
        literals = [self.literal(value, output) for value in values]
        if self.dialect.expressions.lookup is not None:
            return self.dialect.expressions.lookup.format(v=",".join(literals), i=index)
        cases = [f"WHEN {k} THEN {value}" for k, value in enumerate(literals[:-1])]
        return f"CASE {index} {' '.join(cases)} ELSE {literals[-1]} END" if cases else literals[0]

    @property
    def _first_index(self) -> int:
        expressions = self.dialect.expressions
        return 0 if expressions.lookup is None else expressions.first_index

    def linear(
        self, lists: LinearLists, number: int, leaves: Sequence[int], leaf: str, of_row: Mapping[str, str]
    ) -> str:
        """Return the value of a tree with linear leaves; see `LinearLists.value`."""
        return lists.value(lists.trees[number], leaves, leaf, of_row, self.number, self.dialect)

    def _over_lists(self, lists: LinearLists) -> str:
        """Return the sum of trees with linear leaves, where lambdas name the lists of a row and its leaf."""
        walks = [self.index(tree, 1) for tree in lists.trees]
        row = {**lists.of_row(self.columns), "leaves": f"[{', '.join(index for index, _ in walks)}]"}
        fields = ", ".join(f"'{name}': {text}" for name, text in row.items())
        named = {name: f"row['{name}']" for name in row}
        trees = [
            f"list_transform([CAST({named['leaves']}[{number + 1}] AS BIGINT)], "
            f"lambda leaf: {self.linear(lists, number, leaves, 'leaf', named)})[1]"
            for number, (_, leaves) in enumerate(walks)
        ]
        return f"list_transform([{{{fields}}}], lambda row: {self.dialect.sum(trees)})[1]"

    def _table(self, table: SymmetricTable) -> str:
        """Return the value of a row's cell."""
        values, output = table.values(), table.trees[0].output
        if len(dimensions := table.dimensions()) > 1:
            return self.lookup(values, self._cell(table, self._first_index), output)
        [(conditions, intervals)] = dimensions
        return self._first_of(conditions, [self.literal(values[interval], output) for interval in intervals])

    def _cell(self, table: SymmetricTable, first: int) -> str:
        """Return the index of a row's cell, counted from ``first``."""
        dimensions, terms = table.dimensions(), list[str]()
        stride = table.n_cells()
        for conditions, intervals in dimensions:
            stride //= len(intervals)
            terms.append(self._first_of(conditions, [str(first + stride * interval) for interval in intervals]))
            first = 0
        return " + ".join(terms)

    def _first_of(self, conditions: Sequence[str], values: Sequence[str]) -> str:
        """Return the value of the first condition that holds; the last value if none does."""
        if len(conditions) == 1:
            return self._branch(conditions[0], *values)
        whens = [f"WHEN {condition} THEN {value}" for condition, value in zip(conditions, values, strict=False)]
        return f"CASE {' '.join(whens)} ELSE {values[-1]} END"


def lookup_levels(tree: Tree, dialect: Dialect) -> Sequence[int] | None:
    """Return a node of each level of a symmetric tree written as a list lookup, None for other trees."""
    expressions = dialect.expressions
    has_lookup = expressions.lookup is not None and (not tree.is_linear or are_listed(tree, dialect))
    levels = tree.levels() if has_lookup else None
    if levels is None or len(levels) < _SHALLOWEST_TABLE:
        return None
    most = expressions.longest_lookup
    return levels if most is None or 1 << len(levels) <= most else None


# --- how large a tree's expression is ---------------------------------------------------------------------------------


def _is_chained(tree: Tree, dialect: Dialect) -> bool:
    """Whether a tree is written with chains of WHENs: if that is faster, or nested CASEs have too many levels."""
    if dialect.expressions.case_skips_unmet_whens:
        return True
    most = dialect.limits.case_depth
    nested = _DEEPEST_NESTED if most is None else min(_DEEPEST_NESTED, most - 1)
    return max(tree.depths()) > nested


def case_depth(tree: Tree, dialect: Dialect) -> int:
    """Return the nesting depth of CASEs in the tree's expression."""
    if lookup_levels(tree, dialect) is not None:
        return 1
    deepest = tree.nestings()[0] if _is_chained(tree, dialect) else max(tree.depths())
    return deepest + 1 if tree.is_linear else deepest


def n_terms(tree: Term, dialect: Dialect) -> int:
    """Return an upper bound of the names and values in the expression of trees."""
    if not isinstance(tree, Tree):
        return sum(n_terms(each, dialect) for each in tree.trees)
    if (levels := lookup_levels(tree, dialect)) is not None:
        return (1 << len(levels)) + sum(5 + 2 * len(tree.categories[node] or ()) for node in levels)
    inner = [node for node in range(len(tree)) if not tree.is_leaf(node)]
    a_split = 5 if _is_chained(tree, dialect) else 3  # negated conditions also test for NULL
    linear = sum(2 + _TERMS_A_SLOPE * len(leaf.terms) for leaf in tree.linear_leaves().values())
    return len(inner) + 1 + sum(a_split + 2 * len(tree.categories[node] or ()) for node in inner) + linear
