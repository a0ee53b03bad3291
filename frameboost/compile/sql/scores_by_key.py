"""Trees that ask about one dimension of a star only, scored once a row of the dimension and joined as their sum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from frameboost.compile.sql.case import margin_sql
from frameboost.compile.sql.conditions import renamed
from frameboost.compile.sql.size import check_size
from frameboost.compile.sql.sql_model import SqlModel
from frameboost.joins.star_sources import TableJoin
from frameboost.trees.tree import Tree

__all__ = ["Scores", "score_by_key"]

# SQL over the columns of a dimension, by the name of its column in the join; by the dimension's number.
Scores = Mapping[int, Mapping[str, str]]

_SCORE = "frameboost_score_{}_{}"


def score_by_key(model: SqlModel, joins: Sequence[TableJoin], names: Mapping[str, str]) -> tuple[SqlModel, Scores]:
    """Return the model without the trees that ask about one dimension only, and the sums of those, by dimension.

    A margin starts from its base and these sums, of which each is a column of the join. Leaf values are on a grid (see
    `frameboost.trees.leaf_grid`), so the margin has the same bits. Where a fact has no row in a dimension, all
    attributes are missing, and the sum is a constant.

    Say trees 1 and 3 ask about planes, tree 2 about planes and weather. Then ``planes`` becomes ``(SELECT *, tree 1 +
    tree 3 AS frameboost_score_1_1 FROM planes)``, and the margin ``base + COALESCE(frameboost_score_1_1, c) + tree 2``.

    Parameters
    ----------
    model
        The model over the columns of the join.
    joins
        The dimensions, in order. Aggregates are left alone.
    names
        The columns' names in the tables where they are not those of training, by name in the join.

    Raises
    ------
    ParameterError
        If the sum of one dimension's trees exceeds a limit of the database.
    """
    if model.is_of_leaves:
        return model, {}
    dialect, scores = model.dialect, dict[int, dict[str, str]]()
    bases, trees = list(model.bases), list(model.trees)
    table_of = {name: number for number, join in enumerate(joins) if join.aggregation is None for name in join.columns}
    for k, of_margin in enumerate(model.trees):
        by_table: dict[int | None, list[Tree]] = {None: []}
        for tree in of_margin:
            by_table.setdefault(_only_table(tree, model, table_of), []).append(tree)
        trees[k] = by_table.pop(None)
        terms = []
        for number, pushed in by_table.items():
            assert number is not None
            score, name = _sum_over(joins[number], pushed, model, names), _SCORE.format(number + 1, k + 1)
            scores.setdefault(number, {})[name] = score
            without = math.fsum(_value_of_missing(tree) for tree in pushed)
            terms.append(f"COALESCE({dialect.quote(name)}, {dialect.number(without)})")
        if terms:
            base = bases[k]
            assert not isinstance(base, str), "only a number that is looked up has SQL for its base"
            bases[k] = dialect.sum([dialect.number(base), *terms])
    columns = [dialect.quote(name) for of_table in scores.values() for name in of_table]
    return replace(model, bases=bases, trees=trees, score_columns=columns), scores


def _sum_over(join: TableJoin, trees: Sequence[Tree], model: SqlModel, names: Mapping[str, str]) -> str:
    """Return the sum of trees as SQL over the columns of a dimension."""
    own = {
        column.name: model.dialect.quote(names.get(column.feature.name, join.columns[column.feature.name]))
        for column in model.columns
        if column.feature.name in join.columns
    }
    text = margin_sql(0.0, trees, renamed(model.columns, own), model.dialect)
    check_size(text, [trees], model.dialect)
    return text


def _only_table(tree: Tree, model: SqlModel, table_of: Mapping[str, int]) -> int | None:
    """Return the dimension that has all features of a tree; None if there is none."""
    if tree.is_linear or tree.is_leaf(0):
        return None
    tables = {table_of.get(model.columns[feature].feature.name) for feature in tree.feature if feature >= 0}
    return tables.pop() if len(tables) == 1 else None


def _value_of_missing(tree: Tree) -> float:
    """Return the leaf value of a row in which every feature is missing."""
    node = 0
    while not tree.is_leaf(node):
        node = (tree.left if tree.missing_left[node] else tree.right)[node]
    return tree.value[node]
