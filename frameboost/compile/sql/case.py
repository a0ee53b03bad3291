"""From trees to one scalar SQL expression.

A tree is a CASE, an ensemble a sum of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from frameboost.compile.sql.columns import Column
from frameboost.dialects.dialect import Dialect
from frameboost.dialects.duckdb import DUCKDB
from frameboost.errors import ParameterError
from frameboost.expressions.duckdb_sql import literal, membership, quote_identifier
from frameboost.losses.outputs import Output
from frameboost.schema.feature import Feature
from frameboost.trees.tree import Tree

__all__ = [
    "branch", "case_depth", "chained_sql", "condition_sql", "each_once", "is_deep", "margin_sql", "n_terms",
    "output_sql", "shaped", "tree_sql",
]  # fmt: skip


# A symmetric tree of fewer levels is as fast as a CASE.
_SHALLOWEST_TABLE = 3
# Levels of CASE in CASE. Parsers run out of their stacks with some levels more (SQLite's with 19), and these are what
# most trees have.
_DEEPEST_NESTED = 8


# --- outputs ----------------------------------------------------------------------------------------------------------


def each_once(output: Output) -> bool:
    """Whether each margin is in one value only, and there once."""
    uses = [sum(value.uses(margin) for value in output.values) for margin in output.margins]
    return not output.stages and max(uses) <= 1


def output_sql(output: Output, margins: Sequence[str], dialect: Dialect) -> str:
    """Return what the output says of rows with those margins: a number, an integer class, or a list of numbers.

    Raises
    ------
    ParameterError
        If that takes more than one expression in the dialect.
    """
    named, array = dict(zip(output.margins, margins, strict=True)), dialect.expressions.array
    in_passing = dialect.expressions.lambda_
    if len(output.values) == 1 and each_once(output):
        return shaped(output, [value.to_sql(named, dialect) for value in output.values], dialect)[0]
    if in_passing is None:
        if not output.stages and array is not None and all(v.uses(m) <= 1 for v in output.values for m in named):
            return array.format(v=", ".join(value.to_sql(named, dialect) for value in output.values))
        what = "several values" if len(output.values) > 1 else "a value that uses the margin several times"
        raise ParameterError(f"the output is {what}, which is no single expression in {dialect.name}; take model.query")
    # A lambda's parameter is computed once, however often it is used; each stage hands a longer list to the next.
    names, steps = list(output.margins), []
    for stage in output.stages:
        known = {name: f"m[{i + 1}]" for i, name in enumerate(names)}
        steps.append([*known.values(), *(e.to_sql(known, dialect) for e in stage.values())])
        names += stage
    last = {name: f"m[{i + 1}]" for i, name in enumerate(names)}
    sql = f"[{', '.join(margins)}]"
    for step in steps:
        sql = in_passing.format(x=f"[{sql}]", value=f"[{', '.join(step)}]")
    values = shaped(output, [v.to_sql(last, dialect) for v in output.values], dialect)
    return in_passing.format(x=f"[{sql}]", value=values[0] if len(values) == 1 else f"[{', '.join(values)}]")


def shaped(output: Output, values: Sequence[str], dialect: Dialect) -> list[str]:
    """Return the values as they are given to the user: a class as an integer."""
    return [dialect.cast(value, "int64") for value in values] if output.is_class else list(values)


# --- margins ----------------------------------------------------------------------------------------------------------


def margin_sql(base_margin: float | str, trees: Sequence[Tree], columns: Sequence[Column], dialect: Dialect) -> str:
    """Return the margin as one expression over the feature columns: the base plus the trees.

    Leaf values are on a grid (see `frameboost.trees.leaf_grid`), so the order of additions does not change the sum. A
    base margin that is SQL, of a column, is not on the grid, and is added last.
    """
    if isinstance(base_margin, str):
        return f"({margin_sql(0.0, trees, columns, dialect)}\n + {base_margin})"
    return dialect.sum([dialect.number(base_margin), *(tree_sql(tree, columns, dialect) for tree in trees)])


def tree_sql(tree: Tree, columns: Sequence[Column], dialect: Dialect) -> str:
    """Return a tree as a CASE expression."""
    levels = tree.levels() if dialect.expressions.element is not None else None
    if levels is not None and len(levels) >= _SHALLOWEST_TABLE:
        return _table_sql(tree, columns, dialect, levels)
    if is_deep(tree, dialect):
        return chained_sql(tree, columns, dialect)[0]
    return _nested_sql(tree, columns, dialect, 0)


def _nested_sql(tree: Tree, columns: Sequence[Column], dialect: Dialect, node: int) -> str:
    """Return the subtree at ``node`` with CASE in CASE, one a level."""
    if tree.is_leaf(node):
        return dialect.number(tree.value[node])
    condition, holds_left = columns[tree.feature[node]].test(tree, node)
    yes, no = (tree.left, tree.right) if holds_left else (tree.right, tree.left)
    return branch(dialect, condition, *(_nested_sql(tree, columns, dialect, child[node]) for child in (yes, no)))


def branch(dialect: Dialect, condition: str, then: str, otherwise: str) -> str:
    """Return one of two values by a condition; where it is NULL, the second."""
    return dialect.expressions.branch.format(c=condition, t=then, e=otherwise)


# --- deep trees -------------------------------------------------------------------------------------------------------


def is_deep(tree: Tree, dialect: Dialect) -> bool:
    """Whether the tree has too many levels for CASE in CASE, so that it is written by `chained_sql`."""
    most = dialect.limits.case_depth
    nested = _DEEPEST_NESTED if most is None else min(_DEEPEST_NESTED, most - 1)
    return max(tree.depths()) > nested


def case_depth(tree: Tree, dialect: Dialect) -> int:
    """Return how deep CASEs nest in the tree's expression."""
    return tree.nestings()[0] if is_deep(tree, dialect) else max(tree.depths())


def chained_sql(
    tree: Tree, columns: Sequence[Column], dialect: Dialect, roots: Sequence[int] = (0,), ends: Sequence[int] = ()
) -> dict[int, str]:
    """Return the subtrees at ``roots`` with as many WHENs in a CASE as there are splits on a path.

    The path goes on, after ELSE, to the child whose own CASEs nest deeper; the other child is behind THEN. So CASEs
    nest no deeper than log2 of the number of leaves. ``ends`` are nodes that end the tree; their value is their number.
    """
    last_nodes = frozenset(ends)
    nested = tree.nestings(last_nodes)

    def below(node: int) -> str:
        cases = []
        while node not in last_nodes and not tree.is_leaf(node):
            column = columns[tree.feature[node]]
            condition, holds_left = column.test(tree, node)
            yes, no = (tree.left[node], tree.right[node]) if holds_left else (tree.right[node], tree.left[node])
            if nested[yes] > nested[no]:
                condition, yes, no = column.negated(condition, tree, node), no, yes
            cases.append(f"WHEN {condition} THEN {below(yes)}")
            node = no
        last = str(node) if node in last_nodes else dialect.number(tree.value[node])
        return f"CASE {' '.join(cases)} ELSE {last} END" if cases else last

    return {root: below(root) for root in roots}


def n_terms(tree: Tree, dialect: Dialect) -> int:
    """Return how many names and values the tree's expression has, at most."""
    inner = [node for node in range(len(tree)) if not tree.is_leaf(node)]
    a_split = 5 if is_deep(tree, dialect) else 3  # conditions that are negated ask for NULL besides
    return len(inner) + 1 + sum(a_split + 2 * len(tree.categories[node] or ()) for node in inner)


def _table_sql(tree: Tree, columns: Sequence[Column], dialect: Dialect, levels: Sequence[int]) -> str:
    """Return a symmetric tree as a list of its leaves, looked up by a number with a bit a level."""
    array, element = dialect.expressions.array, dialect.expressions.element
    assert array is not None and element is not None
    bits = []
    for depth, node in enumerate(levels):
        condition, holds_left = columns[tree.feature[node]].test(tree, node)
        bit = 1 << (len(levels) - 1 - depth)
        bits.append(branch(dialect, condition, *map(str, (0, bit) if holds_left else (bit, 0))))
    leaves = array.format(v=", ".join(dialect.number(tree.value[leaf]) for leaf in tree.leaves_in_order()))
    return element.format(x=leaves, i=" + ".join(bits))


def condition_sql(tree: Tree, node: int, features: Sequence[Feature]) -> str:
    """Return the condition under which a present value goes left, for people to read."""
    feature = features[tree.feature[node]]
    column, threshold, categories = quote_identifier(feature.name), tree.threshold[node], tree.categories[node]
    if categories is not None:
        names = [str(DUCKDB.literal(feature.type, feature.categories[code])) for code in categories]
        return f"{'' if tree.named_left(node) else 'NOT '}{membership(column, names)}"
    if threshold is None:
        return f"{column} IS NOT NULL"
    return f"{column} < {literal(feature.type, threshold)}"
