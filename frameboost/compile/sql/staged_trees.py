"""Trees as SQL over stages: those with CASEs deeper than a database allows, and those with the same splits.

**Deep trees** (T-SQL takes 10 levels) are cut into pieces that stages walk one by one. A stage computes which node each
row has reached at the lower end of a piece, a column called the route. The next stage continues from there. For
example, where CASE may nest twice, the complete tree of three levels over ``x < 1``, ..., ``x < 7`` takes two stages.
Nodes are numbered in preorder: 2 and 5 are the grandchildren on the left, 9 and 12 those on the right. The first stage
has the upper two levels::

    CASE WHEN x < 4 THEN CASE WHEN x < 2 THEN 2 ELSE 5 END WHEN x < 6 THEN 9 ELSE 12 END AS v_1

and the second the lowest::

    CASE v_1 WHEN 2 THEN CASE WHEN x < 1 THEN 0 ELSE 1 END WHEN 5 THEN CASE WHEN x < 3 THEN 2 ELSE 3 END ... END AS v_2

**Trees with the same splits** are walked once: a stage computes the index of a row's leaf, and each tree looks its
value up. Two trees over ``x < 1``, with the leaves 0.1 and 0.2, and 0.3 and 0.4::

    WITH stage_1 AS (SELECT id, CASE WHEN x < 1 THEN 0 ELSE 1 END AS v_1 FROM t)
    SELECT id, CASE v_1 WHEN 0 THEN 0.1 ELSE 0.2 END AS a, CASE v_1 WHEN 0 THEN 0.3 ELSE 0.4 END AS b FROM stage_1

A database where lists are fast has ``[0.1, 0.2][v_1]`` for the CASEs, with ``v_1`` from 1. DuckDB takes long to plan
many lists, and has one for all first trees and one for all second trees, in a stage before: ``v_1[v_3]``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frameboost.compile.sql.case import TreeWriter, case_depth, n_terms
from frameboost.compile.sql.linear_lists import LeafGroup, LeafLists, LinearLists, are_listed, list_of
from frameboost.compile.sql.stages import Stages
from frameboost.dialects.dialect import Dialect
from frameboost.trees.tree import Tree, shared_splits

__all__ = ["shared_groups", "staged_trees"]


def staged_trees(
    trees: Sequence[Sequence[Tree]], writer: TreeWriter, stages: Stages
) -> list[list[tuple[str, int]]]:  # fmt: skip
    """Return the trees of each margin as expressions over stages that are added, with their names and values."""
    every = [tree for of_margin in trees for tree in of_margin]
    shared = _shared_trees(every, writer, stages)
    linear = _linear_trees(every, writer, stages)
    deep = _deep_trees([i for i in range(len(every)) if i not in shared], every, writer, stages)
    # A lookup has a WHEN for each leaf.
    walked = {
        **{i: (text, len(every[i]) + 2) for i, text in shared.items()},
        **{i: (text, n_terms(every[i], writer.dialect)) for i, text in {**linear, **deep}.items()},
    }
    numbers = iter(range(len(every)))
    texts: list[list[tuple[str, int]]] = []
    for of_margin in trees:
        numbered = list(zip(of_margin, numbers, strict=False))
        others = writer.terms([tree for tree, i in numbered if i not in walked])
        texts.append([(text, n) for text, n in (walked[i] for _, i in numbered if i in walked) if text is not None])
        texts[-1] += [(writer.term(other), n_terms(other, writer.dialect)) for other in others]
    return texts


def _by_terms(numbers: Sequence[int], trees: Sequence[Tree], dialect: Dialect) -> list[list[int]]:
    """Return groups of trees, each with no more names and values than a SELECT may have."""
    groups: list[list[int]] = [[]]
    terms, most = 0, dialect.limits.terms
    for i in numbers:
        terms += n_terms(trees[i], dialect)
        if most is not None and groups[-1] and terms > most:
            groups, terms = [*groups, []], n_terms(trees[i], dialect)
        groups[-1].append(i)
    return groups


# --- deep trees -------------------------------------------------------------------------------------------------------


def _deep_trees(numbers: Sequence[int], trees: Sequence[Tree], writer: TreeWriter, stages: Stages) -> dict[int, str]:
    """Return those of the numbered trees that are too deep, by index, as expressions over routes in added stages."""
    dialect = writer.dialect
    most = dialect.limits.case_depth
    if most is None:
        return {}
    if any(column.feature.zero_is_missing for column in writer.columns):
        most -= 1  # the column itself is written as a CASE
    walks = {i: _Walk(trees[i], writer) for i in numbers if case_depth(trees[i], dialect) > most}
    while going := [i for i, walk in walks.items() if walk.is_deeper_than(most)]:
        steps = {str(i): walks[i].step(most) for i in going}
        names: dict[str, str] = {}
        for some in _by_terms(going, trees, dialect):
            names |= stages.name({str(i): steps[str(i)] for i in some})
        for i in going:
            walks[i].route = names[str(i)]
    return {i: walk.rest() for i, walk in walks.items()}


class _Walk:
    """A tree walked in steps.

    Attributes
    ----------
    route
        The column with the node reached by a row; None for the root.
    """

    def __init__(self, tree: Tree, writer: TreeWriter) -> None:
        self._tree, self._writer = tree, writer
        self._nested = tree.nestings()
        self._front = [0]  # nodes that rows may have reached
        self.route: str | None = None

    def _room(self, most: int) -> int:
        return most if self.route is None else most - 1  # the CASE over the route is one more

    def is_deeper_than(self, most: int) -> bool:
        """Whether a piece below the front is still too deep for one expression."""
        return any(self._nested[node] > self._room(most) for node in self._front)

    def step(self, most: int) -> str:
        """Return the expression of the node that a row reaches next, and move the front there."""
        room = self._room(most)
        fronts = {node: self._ends(node, max(self._nested[node] - room, most - 1)) for node in self._front}
        further = [end for ends in fronts.values() for end in ends]
        ways = self._writer.chained(self._tree, self._front, {end: str(end) for end in further})
        self._front = further
        return self._by_route(ways)

    def rest(self) -> str:
        """Return the expression of the leaf value below the front."""
        return self._by_route(self._writer.chained(self._tree, self._front))

    def _ends(self, node: int, most: int) -> list[int]:
        """Return the first nodes on each path from ``node`` below which CASEs nest at most ``most`` deep."""
        ends, open_nodes = [], [node]
        while open_nodes:
            node = open_nodes.pop()
            if self._nested[node] <= most:
                ends.append(node)
            else:
                open_nodes += (self._tree.right[node], self._tree.left[node])
        return ends

    def _by_route(self, by_node: Mapping[int, str]) -> str:
        if self.route is None:
            return by_node[0]
        return f"CASE {self.route} {' '.join(f'WHEN {node} THEN {value}' for node, value in by_node.items())} END"


# --- trees with the same splits ---------------------------------------------------------------------------------------


def shared_groups(trees: Sequence[Tree], dialect: Dialect) -> list[list[int]]:
    """Return the indices of trees that a query in stages walks once per group, group by group."""
    depth, columns = dialect.limits.case_depth, dialect.limits.columns
    groups = [group for group in shared_splits(trees) if not trees[group[0]].is_linear]
    if depth is not None:  # others are walked in several steps
        groups = [group for group in groups if case_depth(trees[group[0]], dialect) < depth]
    return groups if columns is None else groups[: columns // 2]  # which leaves room for all other columns


def _shared_trees(trees: Sequence[Tree], writer: TreeWriter, stages: Stages) -> dict[int, str]:
    """Return the trees that share their splits with others, by index, as expressions over added stages."""
    groups = {group[0]: group for group in shared_groups(trees, writer.dialect)}
    if groups and writer.dialect.expressions.lambda_ is not None:
        return _over_lists(list(groups.values()), trees, writer, stages)
    texts: dict[int, str] = {}
    for some in _by_terms(list(groups), trees, writer.dialect) if groups else ():
        walks = {i: writer.index(trees[i]) for i in some}
        indices = stages.name({str(i): index for i, (index, _) in walks.items()}, often=True)
        for i, (_, leaves) in walks.items():
            for k in groups[i]:
                texts[k] = writer.lookup([trees[k].value[leaf] for leaf in leaves], indices[str(i)], trees[k].output)
    return texts


def _over_lists(
    groups: Sequence[Sequence[int]], trees: Sequence[Tree], writer: TreeWriter, stages: Stages
) -> dict[int, str]:
    """Return `_shared_trees` where list i has the leaves of tree i of each group, one group after the other."""
    values: list[list[float]] = [[] for _ in range(max(map(len, groups)))]
    indices = {}
    for group in groups:
        indices[str(group[0])], leaves = writer.index(trees[group[0]], 1 + len(values[0]))
        for i, items in enumerate(values):
            tree = trees[group[i]] if i < len(group) else None
            items += [0.0 if tree is None else writer.number(tree.value[leaf], tree.output) for leaf in leaves]
    lists = stages.name({str(i): list_of(items) for i, items in enumerate(values)})
    names = stages.name(indices, often=True)
    return {
        number: f"{lists[str(i)]}[{names[str(group[0])]}]" for group in groups for i, number in enumerate(group)
    }  # fmt: skip


# --- linear leaves ----------------------------------------------------------------------------------------------------


def _linear_trees(trees: Sequence[Tree], writer: TreeWriter, stages: Stages) -> dict[int, str | None]:
    """Return the trees whose linear leaves are looked up in lists, by index, as expressions over added stages.

    The expression of the first tree of an output may be a sum of trees; it is None for the others.
    """
    listed = {i: tree for i, tree in enumerate(trees) if are_listed(tree, writer.dialect)}
    if not listed:
        return {}
    by_outputs: dict[tuple[int, ...], list[LeafGroup]] = {}
    for group in LeafGroup.of(listed):
        by_outputs.setdefault(tuple(trees[i].output for i in group.numbers), []).append(group)
    lists = LinearLists.of(list(listed.values()))
    of_row = stages.name(lists.of_row(writer.columns))
    texts: dict[int, str | None] = dict.fromkeys(listed)
    for groups in by_outputs.values():
        first, indices, leaves = 1, list[str](), list[list[int]]()
        for group in groups:
            index, nodes = writer.index(trees[group.numbers[0]], first)
            indices.append(index)
            leaves.append(nodes)
            first += len(nodes)
        of_leaves = LeafLists(trees, lists, groups, leaves, writer.number)
        names = of_row | stages.name(of_leaves.of_leaves())
        names |= stages.name({"leaves": f"CAST([{', '.join(indices)}] AS BIGINT[])"}, often=True)
        names |= stages.name(of_leaves.of_rows(names, writer.dialect), often=True)
        texts |= {number: of_leaves.sum(rank, names) for rank, number in enumerate(groups[0].numbers)}
    return texts
