"""The radix sort of presorted columns: the order of any numbers is that of Python's stable sort."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frameboost.binning import arrays
from frameboost.binning.arrays import sort_column
from frameboost.binning.kernels import sort_rows
from frameboost.schema.types import Feature, FeatureType

INTEGERS = [pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64]


@given(st.lists(st.integers(0, 2**64 - 1), max_size=60), st.sampled_from([32, 64]))
@settings(max_examples=100, deadline=None)
def test_rows_are_in_the_order_of_their_keys(keys, n_bits):
    keys = [key % 2**n_bits for key in keys] + [5, 5, 0]
    array = np.array(keys, f"u{n_bits // 8}")
    rows = np.empty((2, len(keys)), np.uint32)
    found = sort_rows(array.copy(), n_bits, np.empty_like(array), *rows)
    assert found.tolist() == sorted(range(len(keys)), key=keys.__getitem__)


def sorted_column(values, dtype):
    """Return the distinct values, ranks and sorted rows of a column, as the radix sort has them."""
    column = pl.Series("x", values, dtype)
    ranks, rows = np.empty((2, len(column)), np.uint32)
    _, distinct = sort_column(Feature("x", FeatureType.from_polars(dtype)), column, ranks, rows)
    return distinct.to_list(), ranks.tolist(), rows.tolist()


def expected(values):
    """Return the same in plain Python."""
    distinct = sorted({value + 0 for value in values if value is not None})
    ranks = [len(distinct) if value is None else distinct.index(value) for value in values]
    rows = sorted(range(len(values)), key=lambda row: (values[row] is not None, values[row] or 0))
    return distinct, ranks, rows


@pytest.fixture(autouse=True)
def few_values(monkeypatch):
    """Let the kernel sort columns of few values."""
    monkeypatch.setattr(arrays, "MAX_IN_NUMPY", 0)


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
