"""Trees whose CASEs nest deeper than a database lets them: earlier stages find the way through their upper parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frameboost.compile.sql.case import case_depth, chained_sql, n_terms, tree_sql
from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.compile.sql.stages import Stages
from frameboost.dialects.dialect import Dialect
from frameboost.trees.tree import Tree

__all__ = ["tree_texts"]


def tree_texts(trees: Sequence[Tree], columns: Sequence[FeatureColumn], dialect: Dialect, stages: Stages) -> list[str]:
    """Return the trees as expressions over the columns and what the stages, which grow, have named.

    A tree that nests too deep is walked in steps: a stage says which node a row has come to, the next goes on from
    there.
    """
    most = dialect.limits.case_depth
    if most is None:
        return [tree_sql(tree, columns, dialect) for tree in trees]
    if any(column.feature.zero_is_missing for column in columns):
        most -= 1  # such a column is a CASE itself
    walks = {i: _Walk(tree, columns, dialect) for i, tree in enumerate(trees) if case_depth(tree, dialect) > most}
    while going := [i for i, walk in walks.items() if walk.is_deeper_than(most)]:
        steps = {str(i): walks[i].step(most) for i in going}
        names: dict[str, str] = {}
        for some in _by_terms(going, trees, dialect):
            names |= stages.name({str(i): steps[str(i)] for i in some})
        for i in going:
            walks[i].route = names[str(i)]
    return [walks[i].rest() if i in walks else tree_sql(tree, columns, dialect) for i, tree in enumerate(trees)]


class _Walk:
    """A tree on the way through it.

    Attributes
    ----------
    route
        The column that says which node a row has come to; None for the root.
    """

    def __init__(self, tree: Tree, columns: Sequence[FeatureColumn], dialect: Dialect) -> None:
        self._tree, self._columns, self._dialect = tree, columns, dialect
        self._nested = tree.nestings()
        self._front = [0]  # the nodes that a row may have come to
        self.route: str | None = None

    def _room(self, most: int) -> int:
        return most if self.route is None else most - 1  # the route is asked by a CASE

    def is_deeper_than(self, most: int) -> bool:
        """Whether what is left takes another step."""
        return any(self._nested[node] > self._room(most) for node in self._front)

    def step(self, most: int) -> str:
        """Return the number of the node that a row comes to next, and go there."""
        room = self._room(most)
        fronts = {node: self._ends(node, max(self._nested[node] - room, most - 1)) for node in self._front}
        further = [end for ends in fronts.values() for end in ends]
        ways = chained_sql(self._tree, self._columns, self._dialect, self._front, further)
        self._front = further
        return self._by_route(ways)

    def rest(self) -> str:
        """Return the leaf value below the node that a row has come to."""
        return self._by_route(chained_sql(self._tree, self._columns, self._dialect, self._front))

    def _ends(self, node: int, most: int) -> list[int]:
        """Return the first nodes on each path from ``node`` below which CASEs nest no deeper than that."""
        found, open_nodes = [], [node]
        while open_nodes:
            node = open_nodes.pop()
            if self._nested[node] <= most:
                found.append(node)
            else:
                open_nodes += (self._tree.right[node], self._tree.left[node])
        return found

    def _by_route(self, by_node: Mapping[int, str]) -> str:
        if self.route is None:
            return by_node[0]
        return f"CASE {self.route} {' '.join(f'WHEN {node} THEN {value}' for node, value in by_node.items())} END"


def _by_terms(numbers: Sequence[int], trees: Sequence[Tree], dialect: Dialect) -> list[list[int]]:
    """Return groups of trees that do not have more names and values than a SELECT may."""
    groups: list[list[int]] = [[]]
    terms, most = 0, dialect.limits.terms
    for i in numbers:
        terms += n_terms(trees[i], dialect)
        if most is not None and groups[-1] and terms > most:
            groups, terms = [*groups, []], n_terms(trees[i], dialect)
        groups[-1].append(i)
    return groups
