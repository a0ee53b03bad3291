"""Trees as scalar SQL expressions: a tree is a CASE in CASE, an ensemble a sum of them.

The tree ``x < 3 ? -1 : (y < 5 ? 0 : 1)`` is ``CASE WHEN x < 3 THEN -1 ELSE CASE WHEN y < 5 THEN 0 ELSE 1 END END``, or
(in DuckDB, and where it is deep) ``CASE WHEN x < 3 THEN -1 WHEN y < 5 THEN 0 ELSE 1 END``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.compile.sql.linear import TERMS_A_SLOPE, leaf_sql
from frameboost.dialects.dialect import Dialect
from frameboost.trees.tree import Tree

__all__ = ["case_depth", "chained_sql", "index_sql", "lookup_sql", "margin_sql", "n_terms", "tree_sql"]

# Levels from which on a lookup in a list is faster than a CASE, for symmetric trees.
_SHALLOWEST_TABLE = 3
# Levels of CASE in CASE. SQLite's parser overflows its stack at 19; most trees have no more levels than these.
_DEEPEST_NESTED = 8


# --- margins ----------------------------------------------------------------------------------------------------------


def margin_sql(
    base_margin: float | str, trees: Sequence[Tree], columns: Sequence[FeatureColumn], dialect: Dialect
) -> str:
    """Return the margin as one expression over the feature columns: the base, a number or SQL, plus the trees.

    Leaf values are on a grid (see `frameboost.trees.leaf_grid`), so the order of additions does not change the sum.
    """
    if isinstance(base_margin, str):
        return f"({margin_sql(0.0, trees, columns, dialect)}\n + {base_margin})"
    return dialect.sum([dialect.number(base_margin), *(tree_sql(tree, columns, dialect) for tree in trees)])


def tree_sql(tree: Tree, columns: Sequence[FeatureColumn], dialect: Dialect) -> str:
    """Return a tree as a CASE expression."""
    levels = tree.levels() if dialect.expressions.element is not None and not tree.is_linear else None
    if levels is not None and len(levels) >= _SHALLOWEST_TABLE:
        return _table_sql(tree, columns, dialect, levels)
    if is_chained(tree, dialect):
        return chained_sql(tree, columns, dialect)[0]
    return _nested_sql(tree, columns, dialect, 0)


def _nested_sql(tree: Tree, columns: Sequence[FeatureColumn], dialect: Dialect, node: int) -> str:
    """Return the subtree at ``node`` with CASE in CASE, one a level."""
    if tree.is_leaf(node):
        return leaf_sql(tree, node, columns, dialect)
    condition, holds_left = columns[tree.feature[node]].test(tree, node)
    yes, no = (tree.left, tree.right) if holds_left else (tree.right, tree.left)
    return branch(dialect, condition, *(_nested_sql(tree, columns, dialect, child[node]) for child in (yes, no)))


def branch(dialect: Dialect, condition: str, then: str, otherwise: str) -> str:
    """Return one of two values by a condition; the second where it is NULL."""
    return dialect.expressions.branch.format(c=condition, t=then, e=otherwise)


# --- chains of WHENs --------------------------------------------------------------------------------------------------


def is_chained(tree: Tree, dialect: Dialect) -> bool:
    """Whether the tree is written by `chained_sql`: where that is faster, or CASE in CASE has too many levels."""
    if dialect.expressions.case_skips_unmet_whens:
        return True
    most = dialect.limits.case_depth
    nested = _DEEPEST_NESTED if most is None else min(_DEEPEST_NESTED, most - 1)
    return max(tree.depths()) > nested


def case_depth(tree: Tree, dialect: Dialect) -> int:
    """Return how deep CASEs nest in the tree's expression."""
    deepest = tree.nestings()[0] if is_chained(tree, dialect) else max(tree.depths())
    return deepest + 1 if tree.is_linear else deepest


def chained_sql(
    tree: Tree,
    columns: Sequence[FeatureColumn],
    dialect: Dialect,
    roots: Sequence[int] = (0,),
    ends: Mapping[int, str] = MappingProxyType({}),
) -> dict[int, str]:
    """Return the subtrees at ``roots``, with a WHEN for each split on a path in one CASE.

    ELSE continues to the child whose own CASEs nest deeper, and the other child is behind THEN. So the depth of CASEs
    is the tree's Horton-Strahler number, at most log2 of the number of leaves. A chain of splits ``x < 1``, ``x < 2``,
    ``x < 3`` is ``CASE WHEN x < 1 THEN a WHEN x < 2 THEN b WHEN x < 3 THEN c ELSE d END``. ``ends`` are nodes that end
    the tree, with their values.

    A database that evaluates CASE by vectors of rows copies the values of an inner CASE to those of the outer one. So
    there every tree is written so, and of two children that nest equally deep ELSE continues to the one with the
    larger cover, whose values are copied once less: half the time of CASE in CASE.
    """
    nested = tree.nestings(ends)
    cover = tree.cover if dialect.expressions.case_skips_unmet_whens else [0.0] * len(tree)

    def below(node: int) -> str:
        cases = []
        while node not in ends and not tree.is_leaf(node):
            column = columns[tree.feature[node]]
            condition, holds_left = column.test(tree, node)
            yes, no = (tree.left[node], tree.right[node]) if holds_left else (tree.right[node], tree.left[node])
            if (nested[yes], cover[yes]) > (nested[no], cover[no]):
                condition, yes, no = column.negated(condition, tree, node), no, yes
            cases.append(f"WHEN {condition} THEN {below(yes)}")
            node = no
        last = ends[node] if node in ends else leaf_sql(tree, node, columns, dialect)
        return f"CASE {' '.join(cases)} ELSE {last} END" if cases else last

    return {root: below(root) for root in roots}


def n_terms(tree: Tree, dialect: Dialect) -> int:
    """Return an upper bound of the names and values in the tree's expression."""
    inner = [node for node in range(len(tree)) if not tree.is_leaf(node)]
    a_split = 5 if is_chained(tree, dialect) else 3  # conditions that are negated ask for NULL besides
    linear = sum(2 + TERMS_A_SLOPE * len(leaf.terms) for leaf in tree.linear_leaves().values())
    return len(inner) + 1 + sum(a_split + 2 * len(tree.categories[node] or ()) for node in inner) + linear


def _table_sql(tree: Tree, columns: Sequence[FeatureColumn], dialect: Dialect, levels: Sequence[int]) -> str:
    """Return a symmetric tree as a list of its leaves, indexed by a number with one bit a level.

    Two levels: ``[a, b, c, d][1 + CASE WHEN x < 3 THEN 0 ELSE 2 END + CASE WHEN y < 5 THEN 0 ELSE 1 END]``.
    """
    return lookup_sql(tree, _bits(tree, columns, dialect, levels), dialect)


def _bits(tree: Tree, columns: Sequence[FeatureColumn], dialect: Dialect, levels: Sequence[int]) -> str:
    """Return the place of a row's leaf in a symmetric tree, as a sum of bits."""
    bits = []
    for depth, node in enumerate(levels):
        condition, holds_left = columns[tree.feature[node]].test(tree, node)
        bit = 1 << (len(levels) - 1 - depth)
        bits.append(branch(dialect, condition, *map(str, (0, bit) if holds_left else (bit, 0))))
    return " + ".join(bits)


def index_sql(tree: Tree, columns: Sequence[FeatureColumn], dialect: Dialect, first: int = 0) -> str:
    """Return the place of a row's leaf among the leaves from left to right, an integer counted from ``first``."""
    levels = tree.levels() if dialect.expressions.element is not None else None
    if levels is not None and len(levels) >= _SHALLOWEST_TABLE:
        return f"{first} + {_bits(tree, columns, dialect, levels)}"
    indices = {leaf: str(index) for index, leaf in enumerate(tree.leaves_in_order(), first)}
    return chained_sql(tree, columns, dialect, ends=indices)[0]


def lookup_sql(tree: Tree, index: str, dialect: Dialect) -> str:
    """Return the value of the leaf at a place (see `index_sql`)."""
    array, element = dialect.expressions.array, dialect.expressions.element
    values = [dialect.number(tree.value[leaf]) for leaf in tree.leaves_in_order()]
    if array is not None and element is not None:
        return element.format(x=array.format(v=", ".join(values)), i=index)
    cases = [f"WHEN {k} THEN {value}" for k, value in enumerate(values[:-1])]
    return f"CASE {index} {' '.join(cases)} ELSE {values[-1]} END" if cases else values[0]
