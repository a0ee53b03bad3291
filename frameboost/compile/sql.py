"""From trees to one scalar SQL expression, in DuckDB's dialect.

A tree is a CASE, an ensemble a sum of them. Each test is written so that NULL and NaN take the branch that the split
has learnt for missing values without a test of their own where that can be had: they fall into ELSE.
"""

from __future__ import annotations

from collections.abc import Sequence

from frameboost.expressions import float_literal
from frameboost.outputs import Output
from frameboost.schema import Feature
from frameboost.sql_text import any_equal, is_present, literal, membership, quote_identifier
from frameboost.tree import Tree
from frameboost.types import FeatureType

__all__ = ["condition_sql", "margin_sql", "output_sql", "tree_sql"]


# A symmetric tree of fewer levels is as fast as a CASE.
_SHALLOWEST_TABLE = 3


def output_sql(output: Output, margins: Sequence[str]) -> str:
    """Return what the output says of rows with those margins: a number, an integer class, or a list of numbers."""
    named = dict(zip(output.margins, margins, strict=True))
    if len(margins) == 1 and not output.stages and all(value.uses("margin") <= 1 for value in output.values):
        return _shaped(output, [value.to_sql(named) for value in output.values])
    # A lambda's parameter is computed once, however often it is used; each stage hands a longer list to the next.
    names, steps = list(output.margins), []
    for stage in output.stages:
        known = {name: f"m[{i + 1}]" for i, name in enumerate(names)}
        steps.append([*known.values(), *(e.to_sql(known) for e in stage.values())])
        names += stage
    last = {name: f"m[{i + 1}]" for i, name in enumerate(names)}
    sql = f"[{', '.join(margins)}]"
    for step in steps:
        sql = f"list_transform([{sql}], lambda m: [{', '.join(step)}])[1]"
    return f"list_transform([{sql}], lambda m: {_shaped(output, [v.to_sql(last) for v in output.values])})[1]"


def _shaped(output: Output, values: Sequence[str]) -> str:
    if len(values) > 1:
        return f"[{', '.join(values)}]"
    return f"CAST({values[0]} AS BIGINT)" if output.is_class else values[0]


def margin_sql(base_margin: float | str, trees: Sequence[Tree], features: Sequence[Feature]) -> str:
    """Return the margin as one expression over the feature columns: the base plus the trees.

    The additions form a balanced tree, as a chain of five hundred would near the depth at which parsers give up; leaf
    values are on a grid (see `frameboost.leaf_grid`), so the order of additions does not change the sum. A base margin
    that is SQL, of a column, is not on the grid, and is added last.
    """
    if isinstance(base_margin, str):
        return f"({margin_sql(0.0, trees, features)}\n + {base_margin})"
    return _balanced_sum([float_literal(base_margin), *(tree_sql(tree, features) for tree in trees)])


def _balanced_sum(terms: Sequence[str]) -> str:
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return f"({_balanced_sum(terms[:middle])}\n + {_balanced_sum(terms[middle:])})"


def tree_sql(tree: Tree, features: Sequence[Feature], node: int = 0) -> str:
    """Return the subtree at ``node`` as a CASE expression."""
    if tree.is_leaf(node):
        return float_literal(tree.value[node])
    if node == 0 and (levels := tree.levels()) is not None and len(levels) >= _SHALLOWEST_TABLE:
        return _table_sql(tree, features, levels)
    condition, holds_left = _test(tree, node, features[tree.feature[node]])
    yes, no = (tree.left, tree.right) if holds_left else (tree.right, tree.left)
    then, otherwise = (tree_sql(tree, features, child[node]) for child in (yes, no))
    return f"CASE WHEN {condition} THEN {then} ELSE {otherwise} END"


def _table_sql(tree: Tree, features: Sequence[Feature], levels: Sequence[int]) -> str:
    """Return a symmetric tree as a list of its leaves, looked up by a number with a bit a level."""
    bits = []
    for depth, node in enumerate(levels):
        condition, holds_left = _test(tree, node, features[tree.feature[node]])
        bit = 1 << (len(levels) - 1 - depth)
        then, otherwise = (0, bit) if holds_left else (bit, 0)
        bits.append(f"CASE WHEN {condition} THEN {then} ELSE {otherwise} END")
    leaves = ", ".join(float_literal(tree.value[leaf]) for leaf in tree.leaves_in_order())
    return f"[{leaves}][1 + {' + '.join(bits)}]"


def condition_sql(tree: Tree, node: int, features: Sequence[Feature]) -> str:
    """Return the condition under which a present value goes left, for people to read."""
    feature = features[tree.feature[node]]
    column, threshold, categories = (
        quote_identifier(feature.name),
        tree.threshold[node],
        tree.categories[node],
    )
    if categories is not None:
        return f"{'' if tree.named_left(node) else 'NOT '}{membership(column, _names(feature, categories))}"
    if threshold is None:
        return f"{column} IS NOT NULL"
    return f"{column} < {literal(feature.type, threshold)}"


def _test(tree: Tree, node: int, feature: Feature) -> tuple[str, bool]:
    """Return a condition that is never true of a missing value unless missing is meant, and whether it leads left."""
    column, kind = quote_identifier(feature.name), feature.type
    threshold, categories, missing_left = tree.threshold[node], tree.categories[node], tree.missing_left[node]
    if categories is not None:
        named = any_equal(column, _names(feature, categories))
        return (f"{column} IS NULL OR {named}" if tree.with_missing[node] else named), tree.named_left(node)
    if threshold is None:
        return is_present(kind, column), True
    if kind.family == "boolean" and threshold == 1:
        return (column, False) if missing_left else (f"NOT {column}", True)
    if not missing_left:
        return f"{column} < {literal(kind, threshold)}", True  # NaN is above every number, NULL is not true
    return f"{column} >= {literal(kind, threshold)}{_and_not_nan(kind, column)}", False


def _names(feature: Feature, categories: Sequence[int]) -> list[str]:
    return [literal(feature.type, feature.categories[code]) for code in categories]


def _and_not_nan(kind: FeatureType, column: str) -> str:
    return f" AND NOT isnan({column})" if kind.is_float else ""
