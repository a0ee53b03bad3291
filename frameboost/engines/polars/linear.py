"""Linear leaves as polars expressions: the terms of each row's leaf are looked up by its node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.engines.contract import linear_role, sum_indices
from frameboost.splits.split import FloatArray, IntArray
from frameboost.trees.linear_leaves import LinearColumns
from frameboost.trees.tree import LEAF

__all__ = ["leaf_ranges", "leaf_sums", "linear_value"]


def leaf_ranges(rows: pl.LazyFrame, leaves: IntArray, features: IntArray) -> FloatArray:
    """Return `LinearEngine.leaf_ranges` of rows with ``node``, ``g``, ``h`` and the roles of numbers."""
    x = _numbers(leaves, features)
    aggregates = [pl.len().cast(pl.Float64), pl.col("g").abs().max(), pl.col("h").max()]
    aggregates += [each for k in range(len(x)) for each in (pl.col(f"u{k}").min(), pl.col(f"u{k}").max())]
    ranges = np.zeros((len(leaves), 3 + 2 * features.shape[1]))
    ranges[:, : len(aggregates)] = _by_leaf(rows, leaves, x, aggregates)
    return ranges


def leaf_sums(rows: pl.LazyFrame, grids: LinearColumns, offsets: FloatArray) -> FloatArray:
    """Return `LinearEngine.leaf_sums` of such rows."""
    u = _on_grids(grids)
    factors = [pl.lit(1.0), *(pl.col(f"u{k}") for k in range(len(u)))]
    for name, of_leaves in zip("gh", offsets.T, strict=True):
        offset = _lookup(grids.node, of_leaves)
        rows = rows.with_columns((pl.col(name) + offset) - offset)
    indices = sum_indices(len(u))
    products = [pl.col("g") * factors[k] if j == 0 else pl.col("h") * factors[j - 1] * factors[k] for j, k in indices]
    sums = np.zeros((len(grids), grids.feature.shape[1] + 2, grids.feature.shape[1] + 1))
    sums[:, *np.transpose(indices)] = _by_leaf(rows, grids.node, u, [each.sum() for each in products])
    return sums


def linear_value(values: Mapping[int, float], linear: LinearColumns) -> pl.Expr:
    """Return the leaf value of each row, over ``node`` and the roles of numbers."""
    plain = np.array(list(values.values()))
    leaves = linear.among(np.array(list(values)), plain)
    slopes = (_lookup(leaves.node, of_slot) for of_slot in leaves.terms[..., 0].T)
    terms = (slope * u for slope, u in zip(slopes, _on_grids(leaves), strict=False))
    total = reduce(pl.Expr.add, terms, _lookup(leaves.node, leaves.constant))
    return pl.coalesce(total, _lookup(leaves.node, plain))


def _by_leaf(
    rows: pl.LazyFrame, leaves: IntArray, numbers: Sequence[pl.Expr], aggregates: Sequence[pl.Expr]
) -> FloatArray:
    """Return aggregates over the rows of each leaf, (leaves, aggregates), and over the ``numbers`` u0, u1, ..."""
    names = [f"u{k}" for k in range(len(numbers))]
    rows = rows.filter(pl.col("node").is_in(leaves.tolist()), pl.col("h") > 0)
    rows = rows.with_columns(**dict(zip(names, numbers, strict=True))).drop_nulls(names)
    named = [each.alias(f"aggregate {k}") for k, each in enumerate(aggregates)]
    table = rows.group_by("node").agg(named).collect()
    out = np.zeros((len(leaves), len(aggregates)))
    out[np.searchsorted(leaves, table["node"].to_numpy())] = table.drop("node").to_numpy()
    return out


def _numbers(leaves: IntArray, features: IntArray) -> list[pl.Expr]:
    """Return the first feature's number of each row's leaf, the second's, ...; 0 past the last one."""
    of_terms = []
    for of_slot in features[:, (features != LEAF).any(axis=0)].T:
        feature, numbers = _lookup(leaves, of_slot), pl.lit(0.0)
        for number in sorted(set(of_slot.tolist()) - {LEAF}):
            numbers = pl.when(feature == number).then(pl.col(linear_role(number))).otherwise(numbers)
        of_terms.append(numbers)
    return of_terms


def _on_grids(leaves: LinearColumns) -> list[pl.Expr]:
    """Return u of the first term of each row's leaf, of the second, ...; null where the number is missing."""
    terms = []
    slots = leaves.read_terms().transpose(1, 2, 0)
    for x, of_slot in zip(_numbers(leaves.node, leaves.feature), slots, strict=False):
        _, offset, shift, low, high = (_lookup(leaves.node, each) for each in of_slot)
        u = (x + offset) - shift
        terms.append(pl.when(u < low).then(low).when(u > high).then(high).otherwise(u))
    return terms


def _lookup(leaves: IntArray, values: npt.NDArray[Any]) -> pl.Expr:
    """Return a number by the row's leaf; null in other nodes."""
    table = np.zeros(leaves.max() + 1, values.dtype)
    table[leaves] = values
    return pl.lit(pl.Series(table)).gather(pl.col("node").cast(pl.UInt32), null_on_oob=True)
