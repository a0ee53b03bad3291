"""Contributions of features as SQL (Saabas 2014), an expression a feature.

A tree's contribution to one feature is itself a tree. At each split on that feature the mean of the leaves below
changes by a step, and a leaf of the contribution holds the sum of these steps on its path. Subtrees with equal leaves
are pruned. So contributions are compiled like a model. For ``x < 3 ? (y < 5 ? 0 : 2) : 5`` with equal covers of the
leaves the means are 7/3 at the root and 1 below 3: x contributes ``x < 3 ? -4/3 : 8/3``, y ``x < 3 ? (y < 5 ? -1 : 1) :
0``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from frameboost.compile.sql.case import margin_sql
from frameboost.compile.sql.conditions import FeatureColumn, renamed
from frameboost.compile.sql.forms import filled_columns
from frameboost.compile.sql.stages import ROW, Stages, grouped
from frameboost.dialects.dialect import Dialect
from frameboost.trees.node_means import LeafSlopes, means_on_grid
from frameboost.trees.tree import LEAF, LinearLeaf, Tree

__all__ = ["contribution_trees", "contributions_query", "reasons_query"]

_FEATURE = "feature_of_model"  # an alias like that of a row, `ROW`


def contribution_trees(n_features: int, base_margin: float, trees: Sequence[Tree]) -> tuple[list[list[Tree]], float]:
    """Return for each feature the trees whose sum is its contribution, and the bias."""
    bias, means, slopes = means_on_grid(base_margin, trees)
    steps: list[list[Tree]] = [[] for _ in range(n_features)]
    for tree, of_nodes, of_leaves in zip(trees, means, slopes, strict=True):
        for number in tree.used_features():
            steps[number].append(_steps(tree, of_nodes, of_leaves, number))
    return steps, bias


def contributions_query(
    stages: Stages,
    bias_name: str,
    bias: str,
    steps: Sequence[Sequence[Tree]],
    columns: Sequence[FeatureColumn],
    dialect: Dialect,
) -> str:
    """Return a SELECT with a column a feature, and one for the bias, given as SQL (`DatabaseModel.explain_query`)."""
    columns = filled_columns(chain.from_iterable(steps), columns, stages, integers=False)
    # The steps are on a grid, so neither the order of additions nor the 0 in front changes a bit.
    values = {
        column.feature.name: margin_sql(0.0, own, columns, dialect) for column, own in zip(columns, steps, strict=True)
    }
    return stages.select({**values, bias_name: bias})


def reasons_query(
    stages: Stages, top: int, steps: Sequence[Sequence[Tree]], columns: Sequence[FeatureColumn], dialect: Dialect
) -> str:
    """Return a SELECT with the ``top`` largest contributions and their features (see `DatabaseModel.explain_query`).

    Each row becomes one row a feature; a window ranks these, and the first ones are pivoted back into columns. Up to
    the window, which no optimizer merges, each contribution is named once. If later SELECTs compared the contributions
    with each other instead, a database that substitutes expressions for names would multiply them.
    """
    columns = renamed(columns, stages.rename_lost())
    columns = filled_columns(chain.from_iterable(steps), columns, stages, integers=False)
    asked = {i: margin_sql(0.0, own, columns, dialect) for i, own in enumerate(steps) if own}
    kept = stages.keep or []
    row, place, feature, contribution, rank = stages.reserve(5)
    values = dict(zip(asked, stages.reserve(len(asked)), strict=True))
    worked_out = [*(f"{asked[i]} AS {name}" for i, name in values.items()), f"{dialect.statements.row_number} AS {row}"]
    stages.check(len(kept) + len(worked_out))
    stages.reduce(f"SELECT {', '.join([*kept, *worked_out])}\n{stages.source()}", kept, [*values.values(), row])
    names = [[str(i), dialect.string(column.feature.name)] for i, column in enumerate(columns)]
    listed = dialect.constant_rows(names, [place, feature])
    own = dialect.number(0.0)
    if values:
        whens = " ".join(f"WHEN {i} THEN {ROW}.{name}" for i, name in values.items())
        own = f"CASE {_FEATURE}.{place} {whens} ELSE {own} END"
    selected = [
        *(f"{ROW}.{name} AS {name}" for name in [*kept, row]),
        *(f"{_FEATURE}.{name} AS {name}" for name in (place, feature)),
    ]
    stages.replace(
        f"SELECT {', '.join(selected)}, {own} AS {contribution}\n{stages.source(ROW)}\n"
        f"CROSS JOIN (\n{listed}\n) {dialect.statements.alias}{_FEATURE}",
        [row, place, feature, contribution],
    )
    size = dialect.call("ABS", [contribution])
    stages.replace(
        f"SELECT {', '.join([*kept, row, feature, contribution])}, "
        f"ROW_NUMBER() OVER (PARTITION BY {row} ORDER BY {size} DESC, {place} ASC) AS {rank}\n{stages.source()}",
        [row, feature, contribution, rank],
    )
    found = [
        f"MAX(CASE WHEN {rank} = {k} THEN {value} END) AS {dialect.quote(f'{name}_{k}')}"
        for k in range(1, top + 1)
        for name, value in (("reason", feature), ("contribution", contribution))
    ]
    stages.check(len(kept) + len(found))
    by, of_row = grouped(kept, f"{rank} = 1", dialect)
    order = f"\nORDER BY {row} ASC" if dialect.statements.keeps_order else ""
    return stages.finish(
        f"SELECT {', '.join([*stages.kept(of_row), *found])}\n{stages.source()}\nWHERE {rank} <= {top}\n"
        f"GROUP BY {', '.join([row, *by])}{order}"
    )


def _steps(tree: Tree, means: Sequence[float], slopes: LeafSlopes, number: int) -> Tree:
    """Return the tree of a feature's contribution: its leaves hold the sums of steps, and the feature's slopes."""
    feature, value = list(tree.feature), [0.0] * len(tree)
    for node in range(len(tree)):
        if not tree.is_leaf(node):
            for child in (tree.left[node], tree.right[node]):
                step = means[child] - means[node] if tree.feature[node] == number else 0.0
                value[child] = value[node] + step
    linear = {node: own for node, leaf in slopes.items() if (own := _own_slope(leaf, value[node], number)) is not None}
    for node in reversed(range(len(tree))):  # children come after their parent
        left, right = tree.left[node], tree.right[node]
        is_same = not tree.is_leaf(node) and value[left] == value[right] and not linear.keys() & {left, right}
        if is_same and feature[left] == feature[right] == LEAF:
            feature[node], value[node] = LEAF, value[left]
    of_nodes = tuple([linear.get(node) for node in range(len(tree))]) if linear else ()
    return replace(tree, feature=tuple(feature), value=tuple(value), linear=of_nodes)


def _own_slope(leaf: LinearLeaf, value: float, number: int) -> LinearLeaf | None:
    """Return the part of a leaf's slopes that belongs to a feature, added to a value; None if it has none.

    The other terms stay, with slopes of 0, as a row that lacks one of their numbers gets no slopes at all.
    """
    if all(term.feature != number for term in leaf.terms):
        return None
    constant = value + (leaf.constant if leaf.terms[0].feature == number else 0.0)
    return LinearLeaf(
        constant, tuple(term if term.feature == number else term._replace(slope=0.0) for term in leaf.terms)
    )
