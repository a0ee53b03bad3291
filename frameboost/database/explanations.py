"""Queries that explain predictions: a contribution of each feature as an expression (Saabas 2014), or reason codes.

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

from frameboost.checks.messages import shown
from frameboost.compile.sql.case import TreeWriter
from frameboost.compile.sql.conditions import FeatureColumn, renamed
from frameboost.compile.sql.forms import exceeded_limit, filled_columns
from frameboost.compile.sql.sql_model import OffsetColumn
from frameboost.compile.sql.stages import ROW, Stages, TableSource, grouped
from frameboost.dialects.dialect import Dialect
from frameboost.errors import ParameterError
from frameboost.prediction.contributions import BIAS, check_bias
from frameboost.trees.node_means import LeafSlopes, means_on_grid
from frameboost.trees.tree import LEAF, LinearLeaf, Tree

__all__ = ["explanation_query"]

_FEATURE = "feature_of_model"  # an alias like that of a row, `ROW`


def explanation_query(
    source: TableSource, keep: Sequence[str], top: int | None, base_margin: float, trees: Sequence[Tree],
    columns: Sequence[FeatureColumn], dialect: Dialect, offset: OffsetColumn | None = None,
) -> str:  # fmt: skip
    """Return the SELECT that `DatabaseModel.explain_query` describes, over the trees of one output and its offset."""
    features = [column.feature for column in columns]
    used = sorted({feature for tree in trees for feature in tree.used_features()})
    read = [*(columns[f].name for f in used), *([] if offset is None or top is not None else [offset.name])]
    stages = Stages(dialect, source, keep, read, None)
    steps, bias = _contribution_trees(len(features), base_margin, trees)
    if top is None:
        check_bias(features, ignore_case=True)
        _check_distinct([*keep, *(feature.name for feature in features), BIAS])
        mean = dialect.number(bias) if offset is None else f"({dialect.number(bias)} + {offset.value})"
        return _fitting(_contributions_query(stages, mean, steps, columns, dialect), steps, dialect)
    if not isinstance(top, int) or isinstance(top, bool) or not 1 <= top <= len(features):
        raise ParameterError(
            f"top must be an integer from 1 to {len(features)}, the number of features, not {shown(top)}"
        )
    _check_distinct([*keep, *(f"{name}_{k}" for k in range(1, top + 1) for name in ("reason", "contribution"))])
    return _fitting(_reasons_query(stages, top, steps, columns, dialect), steps, dialect)


def _fitting(text: str, steps: Sequence[Sequence[Tree]], dialect: Dialect) -> str:
    """Return the query, or raise `ParameterError` if it is larger than the database takes."""
    if reason := exceeded_limit(text, steps, dialect, in_one=True):
        raise ParameterError(f"the explanations do not fit into one query: {reason}; explain a slice of the model")
    return text


def _check_distinct(names: Sequence[str]) -> None:
    lowered = [name.lower() for name in names]
    for name in names:
        if lowered.count(name.lower()) > 1:
            raise ParameterError(f"the query would have column {shown(name)} twice; leave it out of keep")


# --- the trees of contributions ---------------------------------------------------------------------------------------


def _contribution_trees(n_features: int, base_margin: float, trees: Sequence[Tree]) -> tuple[list[list[Tree]], float]:
    """Return for each feature the trees whose sum is its contribution, and the bias."""
    bias, means, slopes = means_on_grid(base_margin, trees)
    steps: list[list[Tree]] = [[] for _ in range(n_features)]
    for tree, of_nodes, of_leaves in zip(trees, means, slopes, strict=True):
        for number in tree.used_features():
            steps[number].append(_steps(tree, of_nodes, of_leaves, number))
    return steps, bias


def _steps(tree: Tree, means: Sequence[float], slopes: LeafSlopes, number: int) -> Tree:
    """Return the tree of a feature's contribution: its leaves hold the sums of steps, and the feature's slopes."""
    feature, value = list(tree.feature), [0.0] * len(tree)
    for node in range(len(tree)):
        if not tree.is_leaf(node):
            for child in (tree.left[node], tree.right[node]):
                step = means[child] - means[node] if tree.feature[node] == number else 0.0
                value[child] = value[node] + step
    linear = {node: part for node, leaf in slopes.items() if (part := _slope_of(leaf, value[node], number)) is not None}
    for node in reversed(range(len(tree))):  # children come after their parent
        left, right = tree.left[node], tree.right[node]
        is_same = not tree.is_leaf(node) and value[left] == value[right] and not linear.keys() & {left, right}
        if is_same and feature[left] == feature[right] == LEAF:
            feature[node], value[node] = LEAF, value[left]
    of_nodes = tuple([linear.get(node) for node in range(len(tree))]) if linear else ()
    return replace(tree, feature=tuple(feature), value=tuple(value), linear=of_nodes)


def _slope_of(leaf: LinearLeaf, value: float, number: int) -> LinearLeaf | None:
    """Return the part of a leaf's slopes that belongs to a feature, added to a value; None if it has none.

    The other terms stay, with slopes of 0, as a row that lacks one of their numbers gets no slopes at all.
    """
    if all(term.feature != number for term in leaf.terms):
        return None
    constant = value + (leaf.constant if leaf.terms[0].feature == number else 0.0)
    return LinearLeaf(
        constant, tuple(term if term.feature == number else term._replace(slope=0.0) for term in leaf.terms)
    )


# --- the queries ------------------------------------------------------------------------------------------------------


def _contributions_query(
    stages: Stages,
    bias: str,
    steps: Sequence[Sequence[Tree]],
    columns: Sequence[FeatureColumn],
    dialect: Dialect,
) -> str:
    """Return a SELECT with a column a feature, and one for the bias, which is SQL."""
    writer = TreeWriter(filled_columns(chain.from_iterable(steps), columns, stages, integers=False), dialect)
    # The steps are on a grid, so neither the order of additions nor the 0 in front changes a bit.
    values = {column.feature.name: writer.margin(0.0, trees) for column, trees in zip(columns, steps, strict=True)}
    return stages.select({**values, BIAS: bias})


def _reasons_query(
    stages: Stages, top: int, steps: Sequence[Sequence[Tree]], columns: Sequence[FeatureColumn], dialect: Dialect
) -> str:
    """Return a SELECT with the ``top`` largest contributions and their features.

    Each row becomes one row a feature; a window ranks these, and the first ones are pivoted back into columns. Up to
    the window, which no optimizer merges, each contribution is named once. If later SELECTs compared the contributions
    with each other instead, a database that substitutes expressions for names would multiply them.
    """
    columns = renamed(columns, stages.rename_lost())
    writer = TreeWriter(filled_columns(chain.from_iterable(steps), columns, stages, integers=False), dialect)
    sums = {i: writer.margin(0.0, trees) for i, trees in enumerate(steps) if trees}
    keep = stages.keep or []
    row, number, feature, contribution, rank = stages.reserve(5)
    values = dict(zip(sums, stages.reserve(len(sums)), strict=True))
    worked_out = [*(f"{sums[i]} AS {name}" for i, name in values.items()), f"{dialect.statements.row_number} AS {row}"]
    stages.check(len(keep) + len(worked_out))
    stages.reduce(f"SELECT {', '.join([*keep, *worked_out])}\n{stages.source()}", keep, [*values.values(), row])
    names = [[str(i), dialect.string(column.feature.name)] for i, column in enumerate(columns)]
    listed = dialect.constant_rows(names, [number, feature])
    value = dialect.number(0.0)
    if values:
        whens = " ".join(f"WHEN {i} THEN {ROW}.{name}" for i, name in values.items())
        value = f"CASE {_FEATURE}.{number} {whens} ELSE {value} END"
    selected = [
        *(f"{ROW}.{name} AS {name}" for name in [*keep, row]),
        *(f"{_FEATURE}.{name} AS {name}" for name in (number, feature)),
    ]
    stages.replace(
        f"SELECT {', '.join(selected)}, {value} AS {contribution}\n{stages.source(ROW)}\n"
        f"CROSS JOIN (\n{listed}\n) {dialect.statements.alias}{_FEATURE}",
        [row, number, feature, contribution],
    )
    size = dialect.call("ABS", [contribution])
    stages.replace(
        f"SELECT {', '.join([*keep, row, feature, contribution])}, "
        f"ROW_NUMBER() OVER (PARTITION BY {row} ORDER BY {size} DESC, {number} ASC) AS {rank}\n{stages.source()}",
        [row, feature, contribution, rank],
    )
    reasons = [
        f"MAX(CASE WHEN {rank} = {k} THEN {value} END) AS {dialect.quote(f'{name}_{k}')}"
        for k in range(1, top + 1)
        for name, value in (("reason", feature), ("contribution", contribution))
    ]
    stages.check(len(keep) + len(reasons))
    by, of_row = grouped(keep, f"{rank} = 1", dialect)
    order = f"\nORDER BY {row} ASC" if dialect.statements.keeps_order else ""
    return stages.finish(
        f"SELECT {', '.join([*stages.kept_columns(of_row), *reasons])}\n{stages.source()}\nWHERE {rank} <= {top}\n"
        f"GROUP BY {', '.join([row, *by])}{order}"
    )
