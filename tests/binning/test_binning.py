"""Cuts: quantiles of the data without interpolation, alike in numpy, polars and SQL."""

import datetime as dt
import math
from decimal import Decimal
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frameboost as fb
from frameboost.binning import bins as binning
from frameboost.binning.arrays import (
    _gaps_of_counts,
    bin_values,
    cut_starts,
    frequent_value,
    padded,
    propose_column,
    take_codes,
)
from frameboost.binning.bins import cut_positions, sample_condition
from frameboost.binning.codes import propose_bins, sample_of
from frameboost.schema.types import Feature, FeatureType
from tests.support.cases import cases

FLOAT = Feature("x", FeatureType("float64"))


def starts_of_cuts(ordered, max_bin):
    """Return the ranks where bins begin, except the first bin: the ranks are split evenly into ``max_bin`` parts."""
    distinct = sorted(set(ordered))
    if len(distinct) <= max_bin:
        return [ordered.index(value) for value in distinct[1:]]
    part = {value: ordered.index(value) * max_bin // len(ordered) for value in distinct}
    return [ordered.index(b) for a, b in pairwise(distinct) if part[b] > part[a]]


@given(st.lists(st.integers(-30, 30).map(float), min_size=1, max_size=200), st.integers(2, 20), st.booleans())
@settings(deadline=None)
def test_cuts_are_quantiles_without_interpolation(values, max_bin, has_missing):
    series = pl.Series("x", [*values, *([None] if has_missing else [])])
    bins = propose_bins(FLOAT, series, max_bin)
    ordered = sorted(values)
    starts = starts_of_cuts(ordered, max_bin - has_missing)
    assert list(bins.cuts) == [ordered[i] for i in starts]
    assert list(bins.below) == [ordered[i - 1] for i in starts]
    assert set(bins.cuts) <= set(values)
    assert bins.count + has_missing <= max_bin or bins.count == 1
    assert bins.has_missing == has_missing


@given(st.lists(st.integers(-30, 30).map(float), min_size=1, max_size=200).map(sorted), st.integers(1, 20))
@settings(deadline=None)
def test_cut_starts(ordered, max_bin):
    assert cut_starts(np.array(ordered), max_bin).tolist() == starts_of_cuts(ordered, max_bin)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64])
def test_kernels_code_and_take_many_rows(kind):
    """A code is the number of cuts up to the value; few rows are coded by numpy itself."""
    rng = np.random.default_rng(0)
    values = rng.integers(-90, 90, (6, 700)).astype(kind)
    if kind != np.int64:
        values[rng.random(values.shape) < 0.2] = np.nan
    found = np.zeros((7, 700), dtype=np.uint8)
    for column, size, codes in zip(values, (0, 1, 5, 31, 32, 200), found, strict=False):
        cuts = np.unique(rng.integers(-90, 90, size)).astype(kind)
        bin_values(column, padded(cuts.tolist(), np.dtype(kind)), len(cuts), 255, 150, 650, codes[150:650])
        expected = np.where(np.isnan(column), 255, np.searchsorted(cuts, column, side="right"))
        np.testing.assert_array_equal(codes[150:650], expected[150:650])
    rows, order = np.ascontiguousarray(found.T), rng.permutation(700).astype(np.uint32)
    taken = np.full((700, 2), 78, dtype=np.uint8)
    take_codes(rows, order, 1, taken, 20, 640)
    np.testing.assert_array_equal(taken[20:640], rows[order[20:640], 1:3])
    assert (taken[:20] == 78).all()
    assert (taken[640:] == 78).all()


@pytest.mark.slow
@given(
    st.sampled_from(["i1", "u1", "i2", "i4", "i8", "u8"]), st.integers(0, 4000), st.integers(0, 2**32 - 1),
    st.integers(2, 40),
)  # fmt: skip
@settings(deadline=None)
def test_integers_that_lie_close_together_are_counted(kind, spread, seed, max_bin):
    limits, rng = np.iinfo(kind), np.random.default_rng(seed)
    n, spread = max(300, spread), min(spread, int(limits.max) - int(limits.min))
    lowest = int(rng.choice(np.array([limits.min, limits.max - spread], kind)))  # at either end of the type
    values = np.array([lowest + int(k) for k in rng.integers(0, spread + 1, n)], kind)
    counted, ordered = _gaps_of_counts(values, max_bin), sorted(values.tolist())
    assert counted.dtype == values.dtype
    starts = starts_of_cuts(ordered, max_bin)
    assert counted.tolist() == [[ordered[i - 1] for i in starts], [ordered[i] for i in starts]]


def test_integers_far_apart_are_not_counted():
    assert _gaps_of_counts(np.array([0, 1 << 40] * 500), 256) is None
    assert _gaps_of_counts(np.array([], np.int64), 256) is None
    assert _gaps_of_counts(np.array([0.0, 1.0]), 256) is None


def test_few_values_are_a_bin_each_and_many_are_spread_evenly():
    assert propose_bins(FLOAT, pl.Series("x", [3.0, 1.0, 2.0, 1.0]), 256).cuts == (2.0, 3.0)
    bins = propose_bins(FLOAT, pl.Series("x", np.arange(1000.0)), 10)
    assert bins.cuts == tuple(np.arange(100.0, 1000.0, 100.0))


def test_a_frequent_value_fills_several_quantiles_with_one_cut():
    before = np.array([0, 1, 91, 92])  # ranks of 4 distinct values among 100, the second 90 times
    assert cut_positions(before, 100, 2).tolist() == [2]


def test_minus_zero_is_zero():
    bins = propose_bins(FLOAT, pl.Series("x", [-1.0, -0.0, 0.0, 1.0]), 256)
    assert bins.cuts == (0.0, 1.0)
    assert math.copysign(1, bins.cuts[0]) == 1


def test_a_sample_is_even_and_of_the_size_asked_for(monkeypatch):
    monkeypatch.setattr(binning, "SAMPLE_LIMIT", 10_000)
    assert sample_condition(10_000) is None
    assert sample_of(10_000) is None
    sample = sample_of(1_000_000)
    assert sample.sum() == pytest.approx(10_000, rel=0.01)
    per_part = sample.to_numpy().reshape(100, -1).sum(axis=1)
    assert per_part.min() >= 95
    assert per_part.max() <= 105


@pytest.mark.slow
@cases(
    ("column", "cuts", "expected"),
    [
        ([1.0, 2.0, 3.0], [2.5, 1.5, 2.5], [1.5, 2.5]),
        ([1, 2, 3], [1.5, 2.0], [2.0]),  # x < 1.5 is x < 2
        ([1, 2, 3], [1.5, 2.5, 1e30, math.inf], [2.0, 3.0]),
        ([Decimal("1.00"), Decimal("2.00")], [Decimal("1.005"), 1.5], [1.01, 1.5]),
        ([dt.date(2013, 1, 1), dt.date(2013, 1, 3)], [dt.date(2013, 1, 2)], [15_707.0]),
        ([dt.datetime(1970, 1, 1), dt.datetime(1970, 1, 3)], [dt.datetime(1970, 1, 2)], [86_400e6]),
        ([dt.timedelta(0), dt.timedelta(2)], [dt.timedelta(1)], [86_400e6]),
        ([False, True], [True], [1.0]),
    ],
)
def test_given_cuts_are_the_only_thresholds(column, cuts, expected):
    frame = pl.DataFrame({"x": column * 4}).with_columns(y=pl.int_range(pl.len()) * 1.0 % len(column))
    model = fb.fit(frame, "y", cuts={"x": cuts}, n_estimators=3, min_child_weight=0)
    used = set(model.trees["threshold"].drop_nulls())
    assert used
    assert used <= set(expected)
    engine = "duckdb" if len(column) == 2 else "polars"
    assert fb.fit(frame, "y", cuts={"x": cuts}, n_estimators=3, min_child_weight=0, engine=engine) == model


def test_no_cuts_is_one_bin():
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0], "y": [0.0, 1.0, 2.0]})
    assert len(fb.fit(frame, "y", cuts={"x": []}, n_estimators=1).trees) == 1


@pytest.mark.parametrize("dtype", [pl.Float32, pl.Float64, pl.Int8, pl.Int64])
@pytest.mark.parametrize("common", [0, 7, -3])
@pytest.mark.parametrize("max_bin", [2, 5, 256])
def test_a_column_of_mostly_one_value_has_the_cuts_of_all_its_values(dtype, common, max_bin):
    rng = np.random.default_rng(0)
    others = rng.integers(-100, 100, 4000) if max_bin != 5 else np.full(4000, 9)
    values = pl.Series("x", np.where(rng.random(4000) < 0.9, common, others)).cast(dtype)
    if dtype.is_float():
        values = values.scatter(list(range(3, 4000, 50)), None) * 0.5
    feature = Feature("x", FeatureType.from_polars(dtype))
    assert frequent_value(values.to_numpy()) is not None
    assert propose_column(feature, values, max_bin) == propose_bins(feature, values, max_bin)
