"""A model as lists of its nodes, which short expressions walk level by level (``lists``); in DuckDB.

DuckDB parses and plans every CASE of a tree, which for a few rows takes longer than to score them. Here each field of
the nodes is one string that is cast to a list, so planning takes next to no time for any number of nodes. Nodes of all
trees are numbered from 1, level by level, and the children of a node stand side by side. For the trees
``x < 3 ? -4 : 4`` and ``y < 5 ? -1 : 1``

======  =========  =====  =====
answer  threshold  child  value
======  =========  =====  =====
2       3          3      0
3       5          5      0
1       inf        3      -4
1       inf        4      4
1       inf        5      -1
1       inf        6      1
======  =========  =====  =====

and a row has the answers ``[0, x, y]``. A step leads from node n to ``child[n] + (answers[answer[n]] >=
threshold[n])``, so x = 5 leads from 1 to 3 + 1, whose value is 4. A leaf compares the 0 with
infinity, and so leads to itself.

A missing value is a NaN, which is the greatest number, for splits that send it right, and ``-inf`` for the others: two
answers where a feature has both kinds. A split that is no comparison of numbers that a double holds, as of a category,
is a condition, whose answer is 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.compile.sql.sql_model import SqlModel
from frameboost.trees.tree import Tree

__all__ = ["MOST_LEVELS", "list_expression", "list_margin", "node_lists"]

# Levels of the deepest tree: expressions nest as deep, up to 1,000 of them.
MOST_LEVELS = 100


def node_lists(model: SqlModel) -> dict[str, str]:
    """Return the lists as SQL, by their names: the answers of a row, and the fields of all nodes."""
    number = "FLOAT" if _is_of_singles(model) else "DOUBLE"
    answers = {f"CAST(0 AS {number})": 1}

    @cache
    def as_number(feature: int, missing_left: bool) -> str:
        return model.columns[feature].as_number(missing_left, number)

    nodes = [(tree, 0) for tree in model.every_tree()]
    asked: list[int] = []
    thresholds: list[float] = []
    children: list[int] = []
    values: list[float] = []
    for tree, node in nodes:  # which grows by the children
        if tree.is_leaf(node):
            answer, threshold, child = next(iter(answers)), float("inf"), len(children) + 1
        else:
            child = len(nodes) + 1
            answer, threshold, is_right = _question(model.columns, tree, node, as_number)
            pair = [(tree, tree.left[node]), (tree, tree.right[node])]
            nodes += pair if is_right else reversed(pair)
        asked.append(answers.setdefault(answer, len(answers) + 1))
        thresholds.append(threshold)
        children.append(child)
        values.append(tree.value[node] if tree.is_leaf(node) else 0)
    return {
        "answers": f"[{', '.join(answers)}]", "answer": _list(asked, "BIGINT"), "threshold": _list(thresholds, number),
        "child": _list(children, "BIGINT"), "value": _list(values, "DOUBLE"),
    }  # fmt: skip


def list_margin(model: SqlModel, number: int, names: Mapping[str, str]) -> str:
    """Return a margin over lists of the given names, as one expression.

    For trees of two levels: ``base + list_sum(list_transform(list_transform(range(1, 3), lambda node: step), lambda
    node: value[step]))``, with the step above. Values are on a grid, so their sum is exact in any order.
    """
    trees, base = model.trees[number], model.bases[number]
    if not trees:
        return base if isinstance(base, str) else model.dialect.number(base)
    first = 1 + sum(map(len, model.trees[:number]))
    answers, answer, threshold, child, value = (
        names[name] for name in ("answers", "answer", "threshold", "child", "value")
    )
    step = f"{child}[node] + CAST({answers}[{answer}[node]] >= {threshold}[node] AS BIGINT)"
    walk = f"range({first}, {first + len(trees)})"
    for _ in range(max(max(tree.depths()) for tree in trees) - 1):
        walk = f"list_transform({walk}, lambda node: {step})"
    total = f"list_sum(list_transform({walk}, lambda node: {value}[{step}]))"
    return f"({total} + {base})" if isinstance(base, str) else f"({model.dialect.number(base)} + {total})"


def list_expression(model: SqlModel, values: Callable[[Sequence[str]], str]) -> str:
    """Return an expression over the columns of a table; ``values`` writes it over the margins.

    The parameter of a lambda names the lists: ``list_transform([{'answers': ..., ...}], lambda lists: ...)[1]``. To
    look them up in a struct takes a fifth longer than columns do.
    """
    lists = node_lists(model)
    fields = ", ".join(f"'{name}': {text}" for name, text in lists.items())
    margins = [list_margin(model, k, {name: f"lists['{name}']" for name in lists}) for k in range(len(model.bases))]
    return f"list_transform([{{{fields}}}], lambda lists: {values(margins)})[1]"


def _list(items: Sequence[float], kind: str) -> str:
    return f"CAST('[{','.join(map(repr, items))}]' AS {kind}[])"


def _is_of_singles(model: SqlModel) -> bool:
    """Whether all features that are compared as numbers are single precision floats."""
    asked = {f for tree in model.every_tree() for f in tree.feature if f >= 0}
    kinds = [model.columns[f].feature.type for f in asked]
    return all(kind.name == "float32" for kind in kinds if kind.is_float or kind.is_integer)


def _question(
    columns: Sequence[FeatureColumn], tree: Tree, node: int, as_number: Callable[[int, bool], str]
) -> tuple[str, float, bool]:
    """Return the answer that a split needs, the threshold from which on it is yes, and whether yes leads right."""
    threshold, column = tree.threshold[node], columns[tree.feature[node]]
    if column.compares_numbers(tree, node):
        return as_number(tree.feature[node], tree.missing_left[node]), float(threshold), True  # type: ignore[arg-type]
    condition, holds_left = column.test(tree, node)
    return f"CASE WHEN {condition} THEN 1 ELSE 0 END", 0.5, not holds_left
