"""Columns of few rows, and sparse ones of few entries, are binned together as each is alone."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameboost.binning.arrays import bin_array, bin_entries, bin_together, propose_column
from frameboost.binning.bins import with_thresholds
from frameboost.schema.types import Feature, FeatureType


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(seed=st.integers(0, 2**32 - 1), n_rows=st.integers(1, 60), max_bin=st.integers(2, 20))
def test_columns_have_the_bins_and_codes_of_each_alone(dtype, seed, n_rows, max_bin):
    random = np.random.default_rng(seed)
    digits = random.integers(0, 4, (5, 1))  # few values, and many
    values = np.round(random.normal(size=(5, n_rows)) * 10.0**digits)
    for special in (np.nan, np.inf, -np.inf, -0.0, 0.0):
        values[random.random(values.shape) < random.choice([0.0, 0.1, 0.5])] = special
    values[0] = np.nan
    feature = Feature("x", FeatureType(np.dtype(dtype).name))
    together = bin_together([feature] * 5, values.astype(dtype), max_bin)
    for column, binned in zip(values.astype(dtype), together, strict=True):
        check_as_alone(feature, column, binned, max_bin)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(seed=st.integers(0, 2**32 - 1), n_rows=st.integers(1, 60))
def test_sparse_columns_have_the_bins_and_codes_of_each_alone(dtype, seed, n_rows):
    random = np.random.default_rng(seed)
    values = np.round(random.normal(size=(6, n_rows)) * 10.0 ** random.integers(0, 4, (6, 1))).astype(dtype)
    for special in (np.nan, np.inf, -np.inf, -0.0, 0.0):
        values[random.random(values.shape) < random.choice([0.0, 0.1, 0.5])] = special
    values[0] = np.nan
    are_entries = (values != 0) | (random.random(values.shape) < 0.1)  # a zero may be an entry
    are_entries[-1] = values[-1] = 0
    feature = Feature("x", FeatureType(np.dtype(dtype).name))
    together = bin_entries(
        [feature] * 6, [row[is_entry] for row, is_entry in zip(values, are_entries, strict=True)], n_rows
    )
    for column, is_entry, binned in zip(values, are_entries, together, strict=True):
        check_as_alone(feature, column, binned, n_rows + 2, is_entry)


def check_as_alone(feature, column, binned, max_bin, is_coded=slice(None)):
    bins, codes = binned
    (alone,) = with_thresholds([propose_column(feature, pl.Series("x", column).fill_nan(None), max_bin)])
    coded = np.empty(len(column), np.uint16)
    bin_array(alone, column, coded)
    assert bins == alone
    assert codes.tolist() == coded[is_coded].tolist()
