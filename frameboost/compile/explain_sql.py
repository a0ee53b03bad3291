"""From trees to the contributions of features as SQL, in DuckDB's dialect: Saabas' steps, an expression a feature.

A tree's contribution to one feature is itself a tree: leaves hold the sum of the steps of the mean at the splits on
that feature, and what does not depend on the row further down is cut off. So it is compiled like a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from frameboost.compile.sql import margin_sql
from frameboost.expectations import means_on_grid
from frameboost.expressions import float_literal
from frameboost.schema import Feature
from frameboost.sql_text import quote_identifier, quote_path, string_literal
from frameboost.tree import LEAF, Tree

__all__ = ["contributions_query", "reasons_query"]


def contributions_query(
    table: str,
    keep: Sequence[str],
    bias_name: str,
    base_margin: float,
    trees: Sequence[Tree],
    features: Sequence[Feature],
) -> str:
    """Return a SELECT with a column a feature, and one for the bias (see `Model.explain_query`)."""
    expressions, bias = _contributions(base_margin, trees, features)
    names = [*(feature.name for feature in features), bias_name]
    columns = [
        *map(quote_identifier, keep),
        *_named([*expressions, float_literal(bias)], names),
    ]
    return f"SELECT {_listed(columns)}\nFROM {quote_path(table)}"


def reasons_query(
    table: str,
    keep: Sequence[str],
    top: int,
    base_margin: float,
    trees: Sequence[Tree],
    features: Sequence[Feature],
) -> str:
    """Return a SELECT with the ``top`` largest contributions and whose they are (see `Model.explain_query`)."""
    expressions, _ = _contributions(base_margin, trees, features)
    kept = list(map(quote_identifier, keep))
    # Each contribution is worked out once, in the innermost SELECT.
    prefix = _unlike(keep)
    aliases = [f"{prefix}{i}" for i in range(len(features))]
    inner = f"SELECT {_listed([*kept, *_named(expressions, aliases)])}\nFROM {quote_path(table)}"
    # Structs are sorted by their first field, then by the next: of equal sizes the first feature in the model's order.
    structs = [
        f"{{'size': -abs({alias}), 'place': {i}, 'contribution': {alias}, 'feature': {string_literal(feature.name)}}}"
        for i, (alias, feature) in enumerate(zip(aliases, features, strict=True))
    ]
    # The user may have set another default order.
    ranking = f"list_sort([{_listed(structs)}], 'ASC') AS {prefix}ranked"
    ranked = f"SELECT {_listed([*kept, ranking])}\nFROM (\n{inner}\n)"
    chosen = [
        f"{prefix}ranked[{k}].{field} AS {name}_{k}"
        for k in range(1, top + 1)
        for field, name in (("feature", "reason"), ("contribution", "contribution"))
    ]
    return f"SELECT {_listed([*kept, *chosen])}\nFROM (\n{ranked}\n)"


def _listed(columns: Sequence[str]) -> str:
    return ",\n  ".join(columns)


def _named(expressions: Sequence[str], names: Sequence[str]) -> list[str]:
    return [f"{sql} AS {quote_identifier(name)}" for sql, name in zip(expressions, names, strict=True)]


def _unlike(names: Sequence[str]) -> str:
    """Return a prefix that none of the names begins with, in any case."""
    prefix = "c_"
    while any(name.lower().startswith(prefix) for name in names):
        prefix = "c" + prefix
    return prefix


def _contributions(base_margin: float, trees: Sequence[Tree], features: Sequence[Feature]) -> tuple[list[str], float]:
    """Return an expression a feature, and the bias."""
    bias, means = means_on_grid(base_margin, trees)
    expressions = []
    for number in range(len(features)):
        steps = [
            _steps(tree, of_tree, number) for tree, of_tree in zip(trees, means, strict=True) if number in tree.feature
        ]
        # The steps are on a grid, so neither the order of additions nor the 0 in front changes a bit.
        expressions.append(margin_sql(0.0, steps, features))
    return expressions, bias


def _steps(tree: Tree, means: Sequence[float], number: int) -> Tree:
    """Return a tree that says what a feature contributes."""
    feature, value = list(tree.feature), [0.0] * len(tree)
    for node in range(len(tree)):
        if not tree.is_leaf(node):
            for child in (tree.left[node], tree.right[node]):
                step = means[child] - means[node] if tree.feature[node] == number else 0.0
                value[child] = value[node] + step
    for node in reversed(range(len(tree))):  # children come after their parent
        left, right = tree.left[node], tree.right[node]
        if not tree.is_leaf(node) and feature[left] == feature[right] == LEAF and value[left] == value[right]:
            feature[node], value[node] = LEAF, value[left]
    return replace(tree, feature=tuple(feature), value=tuple(value))
