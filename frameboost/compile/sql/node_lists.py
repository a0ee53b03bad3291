"""A model as lists of its nodes, walked level by level by short expressions (``lists``); in DuckDB.

DuckDB parses and plans every CASE of a tree, which for a few rows takes longer than scoring them. Here each field of
the nodes is one string cast to a list, so that planning takes almost no time for any number of nodes. Nodes of all
trees are numbered from 1, level by level, with adjacent children. For the trees ``x < 3 ? -4 : 4`` and ``y < 5 ? -1 :
1``

======  ======  ======
answer  number  child
======  ======  ======
2       3       3
3       5       5
1       -4      3
1       4       4
1       -1      5
1       1       6
======  ======  ======

and a row has the answers ``[-inf, x, y]``. A step leads from node n to ``child[n] + (answers[answer[n]] >=
number[n])``, so x = 5 leads from 1 to 3 + 1, whose number is 4. The number of an inner node is its threshold, of a leaf
its value: a leaf compares the ``-inf`` with it, and so leads to itself.

A missing value is NaN, the largest number, for splits that send it right, and ``-inf`` for the others: two answers if a
feature has both kinds. Splits that are not comparisons of doubles, such as categorical ones, are conditions with the
answer 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.compile.sql.conditions import compare_numbers
from frameboost.compile.sql.sql_model import SqlModel
from frameboost.trees.tree import LEAF, TreeColumns

__all__ = ["MAX_LEVELS", "NodeLists", "list_expression"]

# Levels of the deepest tree: expressions nest as deep, up to 1,000 of them.
MAX_LEVELS = 100
# Shorter lists are planned in less time as constants.
_MAX_CONSTANT = 2_000

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class NodeLists:
    """The lists of a model.

    Attributes
    ----------
    answers
        The answers of a row, as SQL.
    answer, child
        int64 (nodes,): the index of the answer that a node compares, and its first child, from 1.
    number
        float64 (nodes,): thresholds, and the values of leaves.
    """

    model: SqlModel
    answers: Sequence[str]
    answer: IntArray
    number: FloatArray
    child: IntArray

    @classmethod
    def of(cls, model: SqlModel) -> NodeLists:
        """Return the lists of all trees of a model."""
        trees = model.tree_columns
        conditions = _Conditions.of(model, trees)
        children = trees.children()
        children[conditions.yes_is_left] = children[conditions.yes_is_left, ::-1]
        order = np.concatenate(list(trees.levels(children)))
        is_inner = trees.nodes["feature"][order] != LEAF
        child = np.where(is_inner, len(trees) - 1 + 2 * np.cumsum(is_inner), np.arange(1, len(order) + 1))
        number = np.where(is_inner, conditions.threshold[order], trees.nodes["value"][order])
        answers = ["CAST('-Infinity' AS DOUBLE)", *conditions.answers]
        return cls(model, answers, conditions.answer[order], number, child)

    def sql(self) -> dict[str, str]:
        """Return the lists as SQL, by their names."""
        return {
            "answers": f"[{', '.join(self.answers)}]",
            "answer": _list(self.answer, "BIGINT"),
            "number": _list(self.number, "DOUBLE"),
            "child": _list(self.child, "BIGINT"),
        }

    def margin(self, number: int, names: Mapping[str, str]) -> str:
        """Return a margin over columns that hold the lists, as one expression.

        For trees of two levels: ``base + list_sum(list_transform(list_transform(range(1, 3), lambda node: step),
        lambda node: number[step]))``, with the step above. Values are on a grid, so their sum is exact in any order.
        """
        model = self.model
        trees = model.trees[number]
        if not trees:
            return model.with_offset(number, model.base(number))
        first = 1 + sum(map(len, model.trees[:number]))
        answers, answer, numbers, child = (names[name] for name in ("answers", "answer", "number", "child"))
        step = f"{child}[node] + CAST({answers}[{answer}[node]] >= {numbers}[node] AS BIGINT)"
        walk = f"range({first}, {first + len(trees)})"
        depths = model.depths[first - 1 : first - 1 + len(trees)]
        for _ in range(max(depths) - 1):
            walk = f"list_transform({walk}, lambda node: {step})"
        total = f"list_sum(list_transform({walk}, lambda node: {numbers}[{step}]))"
        return model.with_offset(number, f"({model.base(number)} + {total})")


def list_expression(model: SqlModel, values: Callable[[Sequence[str]], str]) -> str:
    """Return an expression over the columns of a table; ``values`` writes it over the margins.

    The parameter of a lambda names the lists: ``list_transform([{'answers': ..., ...}], lambda lists: ...)[1]``. To
    look them up in a struct takes a fifth longer than columns do.
    """
    lists = NodeLists.of(model)
    sql = lists.sql()
    fields = ", ".join(f"'{name}': {text}" for name, text in sql.items())
    margins = [lists.margin(k, {name: f"lists['{name}']" for name in sql}) for k in range(len(model.bases))]
    return f"list_transform([{{{fields}}}], lambda lists: {values(margins)})[1]"


def _list(values: IntArray | FloatArray, kind: str) -> str:
    """Return a list as SQL; polars writes numbers ten times as fast as Python, and as exactly.

    DuckDB casts a constant as it plans, item by item, and copies it with the plan. A long one is a column of a table.
    """
    text = f"'[{pl.Series(values).cast(pl.String).str.join(',').item()}]'"
    if len(values) <= _MAX_CONSTANT:
        return f"CAST({text} AS {kind}[])"
    return f"(SELECT CAST(items AS {kind}[]) FROM (VALUES ({text})) AS texts(items))"


@dataclass(frozen=True)
class _Conditions:
    """The nodes' conditions, in arrays (nodes,).

    Attributes
    ----------
    answers
        The answers as SQL, from the second on.
    answer
        The index of the answer that a node compares, from 1; 1 for leaves.
    threshold
        The number from which the answer is yes.
    yes_is_left
        Whether yes leads left.
    """

    answers: Sequence[str]
    answer: IntArray
    threshold: FloatArray
    yes_is_left: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, model: SqlModel, trees: TreeColumns) -> _Conditions:
        feature, missing_left = trees.nodes["feature"], trees.nodes["missing_left"].astype(np.bool_)
        threshold = trees.nodes["threshold"].copy()
        threshold[trees.integer_at] = np.array(trees.integers, dtype=np.float64)
        compares = compare_numbers([column.feature.type for column in model.columns], feature, threshold, missing_left)
        sides, which = np.unique(2 * feature[compares] + missing_left[compares], return_inverse=True)
        answers = [model.columns[side // 2].as_number(bool(side % 2), "DOUBLE") for side in sides.tolist()]
        answer = np.ones(len(feature), dtype=np.int64)
        answer[compares] = 2 + which
        yes_is_left = np.zeros(len(feature), dtype=np.bool_)
        conditions: dict[str, int] = {}
        roots = trees.roots
        for at in np.flatnonzero(~compares & (feature != LEAF)).tolist():
            number = int(np.searchsorted(roots, at, side="right")) - 1
            tree, node = model.every_tree()[number], at - int(roots[number])
            condition, yes_is_left[at] = model.columns[feature[at]].test(tree, node)
            answer[at] = 2 + len(answers) + conditions.setdefault(condition, len(conditions))
            threshold[at] = 0.5
        answers += [f"CASE WHEN {condition} THEN 1 ELSE 0 END" for condition in conditions]
        return cls(answers, answer, threshold, yes_is_left)
