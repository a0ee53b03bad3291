"""The costs of query forms in DuckDB, planning and scoring, to choose one for a number of rows.

The figures are CPU nanoseconds, measured in DuckDB 2.0 (docs/performance.md). One thread plans, and two at least are
taken to score, a row group of 122,880 rows each at a time. CASE takes 110 to 165 µs a split to write, parse and plan,
the more the more splits there are, and to score a row 0.9 log2(leaves)² + 0.8 leaves ns a tree (26 of depth 4, 96 of
depth 6, 720 of depth 10). Over n sorted rows it is 0.75 log2(leaves)² + 0.2 leaves (200,000 / n): the more rows, the
more alike are those of a chunk (15, 39, 123 and 220 ns of 16, 59, 363 and 1,203 leaves over 200,000 rows; 12, 32, 43
and 74 over 4 million). Staged and sorted queries have bare comparisons (`frameboost.compile.sql.forms.filled_columns`),
which take four fifths of the time to plan and a twentieth less to evaluate. Lists take 1 µs a node, and 16 to 20 ns a
tree and level of the deepest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from frameboost.compile.sql.node_lists import MAX_LEVELS
from frameboost.compile.sql.sql_model import SqlModel
from frameboost.compile.sql.staged_trees import shared_groups
from frameboost.trees.tree import Tree

__all__ = ["fastest_form"]

# Rows of a table whose size is not known.
_ROWS = 200_000
# The rows of a row group, and the threads.
_ROW_GROUP, _THREADS = 122_880, 2
# To plan: a condition, a bare comparison, and a node of a list. Of many conditions each takes half as much again.
_A_CONDITION, _A_COMPARISON, _A_NODE = 110_000, 88_000, 1_000
_FEW, _MANY = 5_000, 15_000
# To score a row: a tree by CASE, by log2(leaves)² and by leaves, and with bare comparisons.
_A_CASE, _A_STAGED_CASE = (0.9, 0.8), (0.86, 0.76)
# The same over sorted rows: by log2(leaves)², and by leaves divided by the rows, up to what it is over few.
_A_SORTED_CASE, _A_SORTED_LEAF, _MAX_SORTED_LEAF = 0.75, 40_000.0, 0.5
# To fill the missing values of a column.
_TO_FILL = 3
# To score a row by lists: a level of a tree; a condition.
_A_LEVEL, _AN_ANSWER = 16, 3
# To look the value of a leaf up in a list, and to plan one that is in it.
_A_LOOKUP, _A_VALUE = 2.4, 3_000
# To number a row, to sort it and to sort it back.
_TO_SORT = 300


def fastest_form(model: SqlModel, rows: int | None) -> str:
    """Return ``lists``, ``staged`` or ``sorted`` if that is the fastest in DuckDB, and ``auto`` for CASE.

    With an unknown number of rows it is never ``sorted``.
    """
    levels, is_linear = max(model.depths, default=0), model.is_linear
    trees = [tree for tree in model.every_tree() if not tree.is_leaf(0)]
    looked_up = [tree for tree in trees if len(tree.levels() or ()) > 2]
    if not trees or model.is_of_leaves or len(looked_up) == len(trees):
        return "staged" if is_linear else "auto"
    table_rows = _ROWS if rows is None else rows
    n_rows = table_rows / min(max(table_rows / _ROW_GROUP, 1.0), _THREADS)  # of one thread
    named = sum(len(codes) for tree in trees for codes in tree.categories if codes)
    leaves = [(len(tree) + 1) / 2 for tree in trees]
    conditions = sum(len(tree) // 2 for tree in trees) + named
    filling = _TO_FILL * len(model.used())
    planned = conditions * (1 + 0.5 * min(max((conditions - _FEW) / (_MANY - _FEW), 0), 1))
    plan = _A_COMPARISON * planned
    costs = {"auto": _A_CONDITION * planned + _a_row(_A_CASE, leaves) * n_rows}
    walks = shared_groups(trees, model.dialect)
    if walks:
        costs["staged"] = _walked_once(trees, walks, n_rows) + filling * n_rows
    elif not named:  # most conditions are comparisons
        costs["staged"] = plan + (_a_row(_A_STAGED_CASE, leaves) + filling) * n_rows
    if levels <= MAX_LEVELS and not is_linear:
        sets = {(f, codes) for tree in (trees if named else ())
                for f, codes in zip(tree.feature, tree.categories, strict=True) if codes}  # fmt: skip
        # Of a number two at most, one for each side of missing values.
        answers = 2 * len(model.used()) + sum(len(codes) for _, codes in sets)
        a_row = _A_LEVEL * levels * len(trees) + _AN_ANSWER * answers
        costs["lists"] = _A_CONDITION * answers + _A_NODE * sum(map(len, trees)) + a_row * n_rows
    if rows is not None:
        a_leaf = min(_A_SORTED_LEAF / max(table_rows, 1), _MAX_SORTED_LEAF)
        costs["sorted"] = plan + (_a_row((_A_SORTED_CASE, a_leaf), leaves) + filling + _TO_SORT) * n_rows
    return min(costs, key=costs.__getitem__)


def _walked_once(trees: Sequence[Tree], walks: Sequence[Sequence[int]], n_rows: float) -> float:
    """Return the cost of a staged query in which trees of equal splits are walked once, and their values looked up."""
    again = {number for walk in walks for number in walk[1:]}
    leaves = [(len(tree) + 1) / 2 for number, tree in enumerate(trees) if number not in again]
    values = sum((len(trees[walk[0]]) + 1) / 2 * len(walk) for walk in walks)
    named = sum(len(codes) for i, tree in enumerate(trees) if i not in again for codes in tree.categories if codes)
    plan = _A_COMPARISON * (sum(n - 1 for n in leaves) + named) + _A_VALUE * values
    return plan + (_a_row(_A_STAGED_CASE, leaves) + _A_LOOKUP * sum(map(len, walks))) * n_rows


def _a_row(cost: tuple[float, float], leaves: Sequence[float]) -> float:
    """Return the cost per row of CASE in all trees, from their numbers of leaves."""
    return sum(cost[0] * math.log2(n) ** 2 + cost[1] * n for n in leaves)
