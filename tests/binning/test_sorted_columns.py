"""Presorted columns: distinct values, ranks and rows of numbers of any type."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from frameboost.binning.arrays import sort_column
from frameboost.schema.types import Feature, FeatureType

INTEGERS = [pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64]


def sorted_column(values, dtype):
    """Return the distinct values and ranks of a column, and the ranks of its sorted rows."""
    column = pl.Series("x", values, dtype)
    ranks, rows = np.empty((2, len(column)), np.uint32)
    _, distinct = sort_column(Feature("x", FeatureType.from_polars(dtype)), column, ranks, rows)
    assert sorted(rows.tolist()) == list(range(len(column)))
    return distinct.to_list(), ranks.tolist(), ranks[rows].tolist()


def expected(values):
    """Return the same in plain Python."""
    distinct = sorted({value + 0 for value in values if value is not None})
    ranks = [len(distinct) if value is None else distinct.index(value) for value in values]
    return distinct, ranks, sorted(ranks, key=lambda rank: (rank != len(distinct), rank))  # missing values first


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers(dtype):
    low, high = pl.select(low=dtype.min(), high=dtype.max()).row(0)
    values = [3, high, low, 0, 3, high - 1, low + 1, high]
    assert sorted_column(values, dtype) == expected(values)


@pytest.mark.parametrize("dtype", [pl.Float32, pl.Float64])
def test_floats(dtype):
    tiny = 2.0**-149 if dtype == pl.Float32 else 2.0**-1074
    values = [2.5, None, -math.inf, tiny, 0.0, -tiny, math.inf, -2.5, None, 1e30, -1e-30, 2.5]
    values = pl.Series(values, dtype=dtype).to_list()
    assert sorted_column(values, dtype) == expected(values)
    distinct, ranks, _ = sorted_column([1.0, -0.0, 0.0, -1.0], dtype)
    assert distinct == [-1.0, 0.0, 1.0]
    assert math.copysign(1.0, distinct[1]) == 1.0
    assert ranks == [2, 1, 1, 0]
