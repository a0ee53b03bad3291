"""Linear leaves as polars expressions: what a leaf's terms are is looked up by the row's node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

import numpy as np
import polars as pl

from frameboost.engines.contract import LeafGrid, linear_role, sums_of_terms
from frameboost.splits.split import FloatArray
from frameboost.trees.tree import LinearLeaf, LinearTerm

__all__ = ["leaf_ranges", "leaf_sums", "linear_value"]

_TERMS = "offset", "shift", "low", "high"


def leaf_ranges(rows: pl.LazyFrame, features: Mapping[int, Sequence[int]]) -> dict[int, FloatArray]:
    """Return `LinearEngine.leaf_ranges` of rows with ``node``, ``g``, ``h`` and the numbers' roles."""
    x = _numbers(features)
    aggregates = [pl.len().cast(pl.Float64), pl.col("g").abs().max(), pl.col("h").max()]
    for k in range(len(x)):
        aggregates += [pl.col(f"x{k}").min().alias(f"min{k}"), pl.col(f"x{k}").max().alias(f"max{k}")]
    rows = _complete(rows, list(features)).with_columns(each.alias(f"x{k}") for k, each in enumerate(x))
    rows = rows.filter(pl.col(f"x{k}").is_not_null() for k in range(len(x)))
    by_node = _by_node(rows, aggregates)
    return {node: values[: 3 + 2 * len(features[node])] for node, values in by_node.items()}


def leaf_sums(rows: pl.LazyFrame, grids: Mapping[int, LeafGrid]) -> dict[int, FloatArray]:
    """Return `LinearEngine.leaf_sums` of such rows."""
    terms = {node: grid.terms for node, grid in grids.items()}
    u = list(_on_grids(terms))
    rows = _complete(rows, list(grids)).with_columns(each.alias(f"u{k}") for k, each in enumerate(u))
    rows = rows.filter(pl.col(f"u{k}").is_not_null() for k in range(len(u)))
    for name in ("g", "h"):
        offset = _lookup({node: getattr(grid, f"{name}_offset") for node, grid in grids.items()})
        rows = rows.with_columns((pl.col(name) + offset) - offset)
    g, h, us = pl.col("g"), pl.col("h"), [pl.col(f"u{k}") for k in range(len(u))]
    products = [g, h, *(g * each for each in us), *(h * each for each in us)]
    products += [h * us[k] * us[j] for k in range(len(us)) for j in range(k + 1)]
    by_node = _by_node(rows, [each.sum().alias(f"sum{k}") for k, each in enumerate(products)])
    return {node: sums_of_terms(values, len(us), len(terms[node])) for node, values in by_node.items()}


def linear_value(values: Mapping[int, float], linear: Mapping[int, LinearLeaf]) -> pl.Expr:
    """Return the value of each row's leaf, over ``node`` and the numbers' roles."""
    terms = {node: leaf.terms for node, leaf in linear.items()}
    constant = _lookup({node: linear[node].constant if node in linear else value for node, value in values.items()})
    slopes = [_lookup(_of_terms(terms, "slope", k)) for k in range(max(map(len, terms.values())))]
    total = reduce(lambda sum_, term: sum_ + term[0] * term[1], zip(slopes, _on_grids(terms), strict=True), constant)
    return pl.coalesce(total, _lookup(values))


def _complete(rows: pl.LazyFrame, nodes: Sequence[int]) -> pl.LazyFrame:
    return rows.filter(pl.col("node").is_in(list(nodes)), pl.col("h") > 0)


def _by_node(rows: pl.LazyFrame, aggregates: Sequence[pl.Expr]) -> dict[int, FloatArray]:
    table = rows.group_by("node").agg(aggregates).collect()
    return dict(zip(table["node"].to_list(), table.drop("node").to_numpy(), strict=True))


def _numbers(features: Mapping[int, Sequence[int]]) -> list[pl.Expr]:
    """Return the first feature's number of each row's leaf, the second's, ...; 0 past the last one."""
    of_terms = []
    for k in range(max(map(len, features.values()))):
        number_of = {node: each[k] if k < len(each) else -1 for node, each in features.items()}
        feature = _lookup(number_of)
        numbers = pl.lit(0.0)
        for number in sorted(set(number_of.values()) - {-1}):
            numbers = pl.when(feature == number).then(pl.col(linear_role(number))).otherwise(numbers)
        of_terms.append(numbers)
    return of_terms


def _on_grids(terms: Mapping[int, Sequence[LinearTerm]]) -> Iterator[pl.Expr]:
    """Yield u of the first term of each row's leaf, of the second, ...; null where the number is missing."""
    features = {node: [term.feature for term in of_leaf] for node, of_leaf in terms.items()}
    for k, x in enumerate(_numbers(features)):
        offset, shift, low, high = (_lookup(_of_terms(terms, name, k)) for name in _TERMS)
        u = (x + offset) - shift
        yield pl.when(u < low).then(low).when(u > high).then(high).otherwise(u)


def _of_terms(terms: Mapping[int, Sequence[LinearTerm]], name: str, k: int) -> dict[int, float]:
    return {node: getattr(of_leaf[k], name) if k < len(of_leaf) else 0.0 for node, of_leaf in terms.items()}


def _lookup(values: Mapping[int, float]) -> pl.Expr:
    """Return a number by the row's node; 0, or -1 for numbers of features, in other nodes."""
    is_feature = all(isinstance(value, int) for value in values.values())
    table = np.full(256 if not values else max(256, max(values) + 1), -1.0 if is_feature else 0.0)
    table[list(values)] = list(values.values())
    return pl.lit(pl.Series(table)).gather(pl.col("node").cast(pl.UInt32))
