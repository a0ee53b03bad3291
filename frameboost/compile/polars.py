"""From trees to one polars expression."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from frameboost.expressions import Expression
from frameboost.polars_names import column
from frameboost.schema import Feature
from frameboost.tree import Tree
from frameboost.types import FeatureType, Physical

__all__ = ["margin_expr", "prediction_expr"]


def prediction_expr(
    link: Expression, base_margin: float, trees: Sequence[Tree], features: Sequence[Feature]
) -> pl.Expr:
    """Return the prediction on the scale of the target."""
    return link.to_polars({"margin": margin_expr(base_margin, trees, features)})


def margin_expr(base_margin: float, trees: Sequence[Tree], features: Sequence[Feature]) -> pl.Expr:
    """Return the margin; leaf values are on a grid, so the order in which polars adds them does not matter."""
    if all(len(tree) == 1 for tree in trees):  # no column to take the number of rows from
        return pl.repeat(base_margin + sum(tree.value[0] for tree in trees), pl.len(), dtype=pl.Float64)
    columns = [_column(feature) for feature in features]
    terms = [_tree_expr(tree, columns, features, 0) for tree in trees]
    return pl.sum_horizontal(pl.lit(base_margin), *terms)


def _tree_expr(tree: Tree, columns: Sequence[pl.Expr], features: Sequence[Feature], node: int) -> pl.Expr:
    if tree.is_leaf(node):
        return pl.lit(tree.value[node], dtype=pl.Float64)
    number = tree.feature[node]
    condition, holds_left = _test(tree, node, columns[number], features[number])
    yes, no = (tree.left, tree.right) if holds_left else (tree.right, tree.left)
    then, otherwise = (_tree_expr(tree, columns, features, child[node]) for child in (yes, no))
    return pl.when(condition).then(then).otherwise(otherwise)


def _column(feature: Feature) -> pl.Expr:
    """Return the column in the form in which it is compared."""
    values, kind = column(feature.name), feature.type
    if kind.is_categorical:
        return values.cast(pl.String)  # Enum and Categorical refuse to be compared with values that they don't have
    if kind.family == "timestamptz":
        values = values.dt.convert_time_zone("UTC")
    return values.dt.cast_time_unit(kind.unit) if kind.unit else values  # type: ignore[arg-type]


def _test(tree: Tree, node: int, values: pl.Expr, feature: Feature) -> tuple[pl.Expr, bool]:
    """Return a condition that is never true of a missing value unless missing is meant, and whether it leads left."""
    kind, threshold, categories = feature.type, tree.threshold[node], tree.categories[node]
    missing_left = tree.missing_left[node]
    if categories is not None:
        return values.is_in([feature.categories[code] for code in categories]), not missing_left
    if threshold is None:
        return (values.is_not_null() & values.is_not_nan() if kind.is_float else values.is_not_null()), True
    if not missing_left:
        return values < _literal(kind, threshold), True  # NaN is above every number, null is not true
    above = values >= _literal(kind, threshold)
    return (above & values.is_not_nan() if kind.is_float else above), False


def _literal(kind: FeatureType, value: Physical) -> pl.Expr:
    dtype = kind.to_polars()
    if kind.precision_and_scale:
        return pl.lit(kind.decimal(int(value)), dtype=dtype)
    if kind.family == "boolean":
        return pl.lit(bool(value))
    if kind.family == "date":
        return pl.lit(int(value), dtype=pl.Int32).cast(dtype)
    if kind.unit:
        return pl.lit(int(value), dtype=pl.Int64).cast(dtype)
    return pl.lit(value, dtype=dtype)
