"""Trees whose CASEs nest deeper than a database allows (T-SQL 10 levels): cut into pieces that stages walk one by one.

A stage computes which node each row has reached at the lower end of a piece, a column called the route. The next stage
continues from there. For example, where CASE may nest twice, the complete tree of three levels over ``x < 1``, ...,
``x < 7`` takes two stages. Nodes are numbered in preorder: 2 and 5 are the grandchildren on the left, 9 and 12 those on
the right. The first stage has the upper two levels::

    CASE WHEN x < 4 THEN CASE WHEN x < 2 THEN 2 ELSE 5 END WHEN x < 6 THEN 9 ELSE 12 END AS v_1

and the second the lowest::

    CASE v_1 WHEN 2 THEN CASE WHEN x < 1 THEN 0 ELSE 1 END WHEN 5 THEN CASE WHEN x < 3 THEN 2 ELSE 3 END ... END AS v_2
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frameboost.compile.sql.case import case_depth, chained_sql, n_terms, tree_sql
from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.compile.sql.stages import Stages
from frameboost.dialects.dialect import Dialect
from frameboost.trees.tree import Tree

__all__ = ["by_terms", "tree_texts"]


def tree_texts(trees: Sequence[Tree], columns: Sequence[FeatureColumn], dialect: Dialect, stages: Stages) -> list[str]:
    """Return the trees as expressions over the columns, and over routes in stages that are added where they must be."""
    most = dialect.limits.case_depth
    if most is None:
        return [tree_sql(tree, columns, dialect) for tree in trees]
    if any(column.feature.zero_is_missing for column in columns):
        most -= 1  # the column itself is written as a CASE
    walks = {i: _Walk(tree, columns, dialect) for i, tree in enumerate(trees) if case_depth(tree, dialect) > most}
    while going := [i for i, walk in walks.items() if walk.is_deeper_than(most)]:
        steps = {str(i): walks[i].step(most) for i in going}
        names: dict[str, str] = {}
        for some in by_terms(going, trees, dialect):
            names |= stages.name({str(i): steps[str(i)] for i in some})
        for i in going:
            walks[i].route = names[str(i)]
    return [walks[i].rest() if i in walks else tree_sql(tree, columns, dialect) for i, tree in enumerate(trees)]


class _Walk:
    """A tree that is walked in steps.

    Attributes
    ----------
    route
        The column with the node that a row has reached; None for the root.
    """

    def __init__(self, tree: Tree, columns: Sequence[FeatureColumn], dialect: Dialect) -> None:
        self._tree, self._columns, self._dialect = tree, columns, dialect
        self._nested = tree.nestings()
        self._front = [0]  # nodes that rows may have reached
        self.route: str | None = None

    def _room(self, most: int) -> int:
        return most if self.route is None else most - 1  # the CASE over the route is one more

    def is_deeper_than(self, most: int) -> bool:
        """Whether some piece below the front still nests too deep for one expression."""
        return any(self._nested[node] > self._room(most) for node in self._front)

    def step(self, most: int) -> str:
        """Return the expression of the node that a row reaches next, and move the front there."""
        room = self._room(most)
        fronts = {node: self._ends(node, max(self._nested[node] - room, most - 1)) for node in self._front}
        further = [end for ends in fronts.values() for end in ends]
        ways = chained_sql(self._tree, self._columns, self._dialect, self._front, {end: str(end) for end in further})
        self._front = further
        return self._by_route(ways)

    def rest(self) -> str:
        """Return the expression of the leaf value below the front."""
        return self._by_route(chained_sql(self._tree, self._columns, self._dialect, self._front))

    def _ends(self, node: int, most: int) -> list[int]:
        """Return the first nodes on each path from ``node`` below which CASEs nest at most ``most`` deep."""
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


def by_terms(numbers: Sequence[int], trees: Sequence[Tree], dialect: Dialect) -> list[list[int]]:
    """Return groups of trees, each with no more names and values than a SELECT may have."""
    groups: list[list[int]] = [[]]
    terms, most = 0, dialect.limits.terms
    for i in numbers:
        terms += n_terms(trees[i], dialect)
        if most is not None and groups[-1] and terms > most:
            groups, terms = [*groups, []], n_terms(trees[i], dialect)
        groups[-1].append(i)
    return groups
