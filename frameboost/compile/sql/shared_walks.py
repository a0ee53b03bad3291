"""Trees with the same splits, as SQL: a stage finds the place of a row's leaf once, and each tree looks its value up.

Two trees over ``x < 1``, with the leaves 0.1 and 0.2, and 0.3 and 0.4::

    WITH stage_1 AS (SELECT id, CASE WHEN x < 1 THEN 0 ELSE 1 END AS v_1 FROM t)
    SELECT id, CASE v_1 WHEN 0 THEN 0.1 ELSE 0.2 END AS a, CASE v_1 WHEN 0 THEN 0.3 ELSE 0.4 END AS b FROM stage_1

A database where lists are fast has ``[0.1, 0.2][1 + v_1]`` for the CASEs. DuckDB takes long to plan many lists, and has
one for all first trees and one for all second trees, in a stage before: ``v_1[v_3]``.
"""

from __future__ import annotations

from collections.abc import Sequence

from frameboost.compile.sql.case import case_depth, index_sql, lookup_sql
from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.compile.sql.deep_trees import by_terms
from frameboost.compile.sql.stages import Stages
from frameboost.dialects.dialect import Dialect
from frameboost.trees.tree import Tree, shared_splits

__all__ = ["lookup_terms", "shared_texts", "walks_of"]


def walks_of(trees: Sequence[Tree], dialect: Dialect) -> list[list[int]]:
    """Return the numbers of the trees, group by group, that a query in stages walks once for each group."""
    depth, columns = dialect.limits.case_depth, dialect.limits.columns
    groups = shared_splits(trees)
    if depth is not None:  # others are walked in several steps
        groups = [group for group in groups if case_depth(trees[group[0]], dialect) < depth]
    return groups if columns is None else groups[: columns // 2]  # which leaves room for all other columns


def shared_texts(
    trees: Sequence[Tree], columns: Sequence[FeatureColumn], dialect: Dialect, stages: Stages
) -> dict[int, str]:
    """Return the trees with splits that others have as well, by number, as expressions over stages that are added."""
    groups = {group[0]: group for group in walks_of(trees, dialect)}
    if groups and dialect.expressions.lambda_ is not None:
        return _texts_over_lists(list(groups.values()), trees, columns, dialect, stages)
    texts: dict[int, str] = {}
    for some in by_terms(list(groups), trees, dialect) if groups else ():
        indices = stages.name({str(i): index_sql(trees[i], columns, dialect) for i in some}, often=True)
        for i in some:
            texts |= {k: lookup_sql(trees[k], indices[str(i)], dialect) for k in groups[i]}
    return texts


def _texts_over_lists(
    groups: Sequence[Sequence[int]],
    trees: Sequence[Tree],
    columns: Sequence[FeatureColumn],
    dialect: Dialect,
    stages: Stages,
) -> dict[int, str]:
    """Return `shared_texts` where list i has the leaves of tree i of each group, one group after the other."""
    values: list[list[float]] = [[] for _ in range(max(map(len, groups)))]
    indices = {}
    for group in groups:
        leaves = trees[group[0]].leaves_in_order()
        indices[str(group[0])] = index_sql(trees[group[0]], columns, dialect, 1 + len(values[0]))
        for i, own in enumerate(values):
            own += [trees[group[i]].value[leaf] for leaf in leaves] if i < len(group) else [0.0] * len(leaves)
    lists = stages.name({str(i): f"CAST('[{','.join(map(repr, own))}]' AS DOUBLE[])" for i, own in enumerate(values)})
    names = stages.name(indices, often=True)
    return {
        number: f"{lists[str(i)]}[{names[str(group[0])]}]" for group in groups for i, number in enumerate(group)
    }  # fmt: skip


def lookup_terms(tree: Tree) -> int:
    """Return an upper bound of the names and values in a lookup."""
    return len(tree) + 2
