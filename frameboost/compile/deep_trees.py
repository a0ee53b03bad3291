"""Trees deeper than a database lets CASEs nest: earlier stages find the way through their upper levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frameboost.compile.sql import branch, n_terms, tree_sql
from frameboost.compile.sql_columns import Column
from frameboost.compile.stages import Stages
from frameboost.dialects.dialect import Dialect
from frameboost.tree import Tree

__all__ = ["tree_texts"]


def tree_texts(trees: Sequence[Tree], columns: Sequence[Column], dialect: Dialect, stages: Stages) -> list[str]:
    """Return the trees as expressions over the columns and what the stages, which grow, have named.

    A tree that is too deep is walked in steps: a stage says which node a row has come to, the next goes on from there.
    """
    most = dialect.limits.case_depth
    if most is not None and any(column.feature.zero_is_missing for column in columns):
        most -= 1  # such a column is a CASE itself
    fronts: list[list[int]] = [[0] for _ in trees]  # the nodes that a row may have come to
    routes: list[str | None] = [None] * len(trees)  # the column that says to which
    while most is not None:
        rooms = [most if route is None else most - 1 for route in routes]
        deep = [
            i
            for i, (tree, front, room) in enumerate(zip(trees, fronts, rooms, strict=True))
            if any(_height(tree, node) > room for node in front)
        ]
        if not deep:
            break
        steps, further = {}, {}
        for i in deep:
            ends = {node: _below(trees[i], node, rooms[i]) for node in fronts[i]}
            ways = {node: _way(trees[i], node, set(ends[node]), columns, dialect) for node in fronts[i]}
            steps[str(i)] = _by_route(routes[i], ways)
            further[i] = [end for of_node in ends.values() for end in of_node]
        names: dict[str, str] = {}
        for some in _by_terms(deep, trees, dialect.limits.terms):
            names |= stages.name({str(i): steps[str(i)] for i in some})
        for i in deep:
            fronts[i], routes[i] = further[i], names[str(i)]
    return [
        _by_route(route, {node: tree_sql(tree, columns, dialect, node) for node in front})
        for tree, front, route in zip(trees, fronts, routes, strict=True)
    ]


def _by_terms(numbers: Sequence[int], trees: Sequence[Tree], most: int | None) -> list[list[int]]:
    """Return groups of trees that do not have more names and values than a SELECT may."""
    groups: list[list[int]] = [[]]
    terms = 0
    for i in numbers:
        terms += n_terms(trees[i])
        if most is not None and groups[-1] and terms > most:
            groups, terms = [*groups, []], n_terms(trees[i])
        groups[-1].append(i)
    return groups


def _by_route(route: str | None, by_node: Mapping[int, str]) -> str:
    if route is None:
        return by_node[0]
    return f"CASE {route} {' '.join(f'WHEN {node} THEN {value}' for node, value in by_node.items())} END"


def _way(tree: Tree, node: int, ends: set[int], columns: Sequence[Column], dialect: Dialect) -> str:
    """Return the number of the node among ``ends`` that a row comes to from ``node``."""
    if node in ends:
        return str(node)
    condition, holds_left = columns[tree.feature[node]].test(tree, node)
    yes, no = (tree.left, tree.right) if holds_left else (tree.right, tree.left)
    return branch(dialect, condition, *(_way(tree, child[node], ends, columns, dialect) for child in (yes, no)))


def _below(tree: Tree, node: int, levels: int) -> list[int]:
    """Return the nodes so many levels below, and the leaves above them."""
    if levels == 0 or tree.is_leaf(node):
        return [node]
    return [end for child in (tree.left[node], tree.right[node]) for end in _below(tree, child, levels - 1)]


def _height(tree: Tree, node: int) -> int:
    return 0 if tree.is_leaf(node) else 1 + max(_height(tree, tree.left[node]), _height(tree, tree.right[node]))
