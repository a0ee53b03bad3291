"""From trees to the contributions of features as SQL: Saabas' steps, an expression a feature.

A tree's contribution to one feature is itself a tree: leaves hold the sum of the steps of the mean at the splits on
that feature, and what does not depend on the row further down is cut off. So it is compiled like a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from frameboost.compile.sql import margin_sql
from frameboost.compile.sql_columns import Column
from frameboost.compile.stages import Stages
from frameboost.dialects.dialect import Dialect
from frameboost.expectations import means_on_grid
from frameboost.tree import LEAF, Tree

__all__ = ["contributions_query", "reasons_query"]

# Some databases take no more arguments than these.
_ARGUMENTS = 50


def contributions_query(
    stages: Stages,
    bias_name: str,
    base_margin: float,
    trees: Sequence[Tree],
    columns: Sequence[Column],
    dialect: Dialect,
) -> str:
    """Return a SELECT with a column a feature, and one for the bias (see `Model.explain_query`)."""
    expressions, bias = _contributions(base_margin, trees, columns, dialect)
    names = [*(column.feature.name for column in columns), bias_name]
    return stages.select(dict(zip(names, [*expressions, dialect.number(bias)], strict=True)))


def reasons_query(
    stages: Stages, top: int, base_margin: float, trees: Sequence[Tree], columns: Sequence[Column], dialect: Dialect
) -> str:
    """Return a SELECT with the ``top`` largest contributions and whose they are (see `Model.explain_query`).

    One reason after the other: the largest contribution of those not taken yet, of equal ones the first in the model's
    order. A contribution that is taken counts as −1.
    """
    expressions, _ = _contributions(base_margin, trees, columns, dialect)
    places = range(len(columns))
    found = stages.name({str(i): expression for i, expression in zip(places, expressions, strict=True)})
    contributions = [found[str(i)] for i in places]
    sizes = [dialect.call("ABS", [contribution]) for contribution in contributions]
    reasons: dict[str, str] = {}
    for k in range(1, top + 1):
        largest = stages.name({"largest": _greatest(sizes, dialect)})["largest"]
        cases = " ".join(f"WHEN {size} = {largest} THEN {i}" for i, size in zip(places, sizes, strict=True))
        place = stages.name({"place": f"CASE {cases} END"})["place"]
        names = [dialect.string(column.feature.name) for column in columns]
        reasons[f"reason_{k}"] = _by_place(place, names)
        reasons[f"contribution_{k}"] = _by_place(place, contributions)
        if k < top:
            taken = dialect.number(-1.0)
            left = {
                str(i): f"CASE WHEN {place} = {i} THEN {taken} ELSE {size} END"
                for i, size in zip(places, sizes, strict=True)
            }
            sizes = list(stages.name(left).values())
    return stages.select(reasons)


def _greatest(values: Sequence[str], dialect: Dialect) -> str:
    if len(values) == 1:
        return values[0]
    size = _ARGUMENTS
    groups = [values[first : first + size] for first in range(0, len(values), size)]
    calls = [dialect.call("GREATEST", group) if len(group) > 1 else group[0] for group in groups]
    return _greatest(calls, dialect)


def _by_place(place: str, values: Sequence[str]) -> str:
    return f"CASE {place} {' '.join(f'WHEN {i} THEN {value}' for i, value in enumerate(values))} END"


def _contributions(
    base_margin: float, trees: Sequence[Tree], columns: Sequence[Column], dialect: Dialect
) -> tuple[list[str], float]:
    """Return an expression a feature, and the bias."""
    bias, means = means_on_grid(base_margin, trees)
    expressions = []
    for number in range(len(columns)):
        steps = [
            _steps(tree, of_tree, number) for tree, of_tree in zip(trees, means, strict=True) if number in tree.feature
        ]
        # The steps are on a grid, so neither the order of additions nor the 0 in front changes a bit.
        expressions.append(margin_sql(0.0, steps, columns, dialect))
    return expressions, bias


def _steps(tree: Tree, means: Sequence[float], number: int) -> Tree:
    """Return a tree that says what a feature contributes."""
    feature, value = list(tree.feature), [0.0] * len(tree)
    for node in range(len(tree)):
        if not tree.is_leaf(node):
            for child in (tree.left[node], tree.right[node]):
                step = means[child] - means[node] if tree.feature[node] == number else 0.0
                value[child] = value[node] + step
    for node in reversed(range(len(tree))):  # children come after their parent
        left, right = tree.left[node], tree.right[node]
        if not tree.is_leaf(node) and feature[left] == feature[right] == LEAF and value[left] == value[right]:
            feature[node], value[node] = LEAF, value[left]
    return replace(tree, feature=tuple(feature), value=tuple(value))
