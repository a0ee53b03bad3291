"""The order of rows in which CASE skips most: by steps of the features that most rows of most trees are asked about.

DuckDB evaluates CASE by vectors of 2,048 rows, and skips a WHEN that none of them satisfies. So rows that agree on many
conditions should stand together. The weight of a condition is the share of the rows that come to it, added up over
all trees. The four features of the largest weights are cut into five steps each: a number's at thresholds with equal
weights between them, a category's by its four heaviest conditions. That makes 625 cells, some two vectors each for a
million rows. For a model that asks ``x < 1`` of all rows, ``x < 2`` of a half, and ``y < 5`` of a half it is ``ORDER BY
CASE WHEN x < 1 THEN 0 WHEN x < 2 THEN 1 ELSE 2 END, CASE WHEN y < 5 THEN 0 ELSE 1 END``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.schema.types import Physical
from frameboost.trees.tree import Tree

__all__ = ["sort_key"]

_FEATURES, _STEPS = 4, 5

# A threshold, the codes of categories, or None for whether there is a value; with its weight and a split that asks it.
_Condition = Physical | tuple[int, ...] | None
_Conditions = dict[_Condition, tuple[float, Tree, int]]


def sort_key(trees: Sequence[Tree], columns: Sequence[FeatureColumn]) -> str:
    """Return the expressions to sort by, separated by commas; nothing if no tree splits."""
    asked = _weighed(trees)
    heaviest = sorted(asked, key=lambda feature: (-sum(each[0] for each in asked[feature].values()), feature))
    return ", ".join(_step(columns[feature], asked[feature]) for feature in heaviest[:_FEATURES])


def _weighed(trees: Sequence[Tree]) -> dict[int, _Conditions]:
    """Return the conditions of each feature with their weights."""
    asked: dict[int, _Conditions] = defaultdict(dict)
    for tree in trees:
        for node, share in _shares(tree):
            condition: _Condition = tree.categories[node] or tree.threshold[node]
            of_feature = asked[tree.feature[node]]
            of_feature[condition] = (of_feature.get(condition, (0.0,))[0] + share, tree, node)
    return asked


def _shares(tree: Tree) -> Iterator[tuple[int, float]]:
    """Yield each split with the share of rows that come to it; halves where the model has no covers."""
    shares = [1.0] * len(tree)
    for node in range(len(tree)):  # children come after their parent
        if tree.is_leaf(node):
            continue
        yield node, shares[node]
        for child in (tree.left[node], tree.right[node]):
            shares[child] = shares[node] * (tree.cover[child] / tree.cover[node] if tree.cover[node] > 0 else 0.5)


def _step(column: FeatureColumn, conditions: _Conditions) -> str:
    """Return the number of the step that a row's value is in."""
    ordered = [(key, weight) for key, (weight, *_) in conditions.items() if not (key is None or isinstance(key, tuple))]
    if ordered:
        tests = [column.is_below(threshold) for threshold in _quantiles(sorted(ordered))]
    else:
        heaviest = sorted(conditions.values(), key=lambda each: -each[0])[: _STEPS - 1]
        # The one that names most categories comes last, for it may have the categories of all others.
        heaviest.sort(key=lambda each: len(each[1].categories[each[2]] or ()))
        tests = [column.test(tree, node)[0] for _, tree, node in heaviest]
    whens = " ".join(f"WHEN {test} THEN {step}" for step, test in enumerate(filter(None, tests)))
    return f"CASE {whens} ELSE {len(tests)} END"


def _quantiles(weighed: Sequence[tuple[Physical, float]]) -> list[Physical]:
    """Return up to four of the sorted thresholds that divide their weight into equal parts."""
    total, before = sum(weight for _, weight in weighed), 0.0
    found: list[Physical] = []
    for threshold, weight in weighed:
        before += weight
        if len(found) < _STEPS - 1 and before >= total * (len(found) + 1) / _STEPS:
            found.append(threshold)
    return found
