"""The value of a linear leaf as a polars expression: constants and slopes, looked up by the place of a row's leaf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from frameboost.schema.polars_columns import column
from frameboost.schema.types import Feature
from frameboost.trees.tree import LinearTerm, Tree

__all__ = ["linear_expr"]

_NO_TERM = LinearTerm(0, 0.0, 0.0, 0.0, 0.0, 0.0)


def linear_expr(tree: Tree, leaves: Sequence[int], index: pl.Expr, features: Sequence[Feature]) -> pl.Expr:
    """Return the value of a row's leaf, whose ``index`` is that in ``leaves``.

    All products and sums are exact (see `frameboost.trees.tree`), so their order does not matter.
    """
    linear = [tree.linear[leaf] for leaf in leaves]
    terms: list[Mapping[int, LinearTerm]] = [
        {} if leaf is None else {term.feature: term for term in leaf.terms} for leaf in linear
    ]
    asked = sorted({feature for own in terms for feature in own})
    # Fields of a struct are computed once, however often they are used.
    row = pl.struct(index.cast(pl.UInt32).alias("leaf"), *(_number(features[each]).alias(f"x{each}") for each in asked))
    total = _looked_up([tree.value[leaf] if own is None else own.constant
                        for leaf, own in zip(leaves, linear, strict=True)])  # fmt: skip
    for each in asked:
        total = total + _term(each, [own.get(each, _NO_TERM) for own in terms], [each in own for own in terms])
    value = pl.coalesce(total, _looked_up([tree.value[leaf] for leaf in leaves]))
    return row.struct.with_fields(value.alias("value")).struct.field("value")


def _term(feature: int, terms: Sequence[LinearTerm], has_term: Sequence[bool]) -> pl.Expr:
    """Return slope times u, 0 in leaves without the term; null where the number is missing in a leaf with it."""
    x = pl.when(_looked_up(has_term)).then(pl.field(f"x{feature}")).otherwise(0.0)
    slope, offset, shift, low, high = (
        _looked_up([getattr(term, name) for term in terms]) for name in ("slope", "offset", "shift", "low", "high")
    )
    u = (x + offset) - shift
    return slope * pl.when(u < low).then(low).when(u > high).then(high).otherwise(u)


def _number(feature: Feature) -> pl.Expr:
    return column(feature.name).cast(pl.Float64).fill_nan(None)


def _looked_up(values: Sequence[float] | Sequence[bool]) -> pl.Expr:
    return pl.lit(pl.Series(values)).gather(pl.field("leaf"))
