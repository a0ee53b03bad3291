"""Sparse features: few codes are stored, and everything is as of the dense columns."""

from contextlib import closing

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frameboost as fb
from frameboost.binning.arrays import bin_column, rare_values
from frameboost.binning.codes import propose_bins
from frameboost.engines.memory import columns, engine, sparse
from frameboost.engines.memory.columns import BinnedColumns
from frameboost.engines.memory.limits import MAX_COMBINATIONS
from frameboost.engines.memory.partition import RowPartition
from frameboost.engines.memory.sparse import bundle_exclusive, coded
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature, FeatureType
from frameboost.splits.split import Split, Stats

SEEDS = st.integers(0, 2**32 - 1)
NONE = Stats(0.0, 0.0)


@pytest.fixture
def any_size(monkeypatch):
    """Let columns of few rows be sparse."""
    monkeypatch.setattr(columns, "MIN_SPARSE_VALUES", 0)
    monkeypatch.setattr(columns, "MIN_SPARSE_COLUMNS", 1)
    for name in ("CODES_PER_TREE", "CODES_OF_ANY_ROWS"):  # small data has no sparse columns
        monkeypatch.setattr(columns, name, 0)


@pytest.fixture
def seen(monkeypatch):
    """Return a list to which the sparse codes of each `MemoryEngine.histograms` are added."""
    found = []
    histograms = engine.MemoryEngine.histograms

    def look(self, nodes, out, indices):
        found.append(self.binned.sparse)
        return histograms(self, nodes, out, indices)

    monkeypatch.setattr(engine.MemoryEngine, "histograms", look)
    return found


def binned(frame, common, workers):
    bins = [propose_bins(Feature(each.name, FeatureType.from_polars(each.dtype)), each, 256) for each in frame]
    found = BinnedColumns(bins, len(frame), common)
    found.fill(
        lambda feature, bins, codes: bin_column(bins, frame.to_series(feature), codes),
        workers,
        lambda feature, bins: (None, coded(bins, frame.to_series(feature))),
    )
    return found


def parted(rng, workers, split, plain, *others):
    """Return a partition by one split of rows, which are in another order every other time."""
    if rng.integers(2):
        order = rng.permutation(plain.n_rows).astype(np.uint32)
        for each in (plain, *others):
            each.sort(order, np.empty(plain.n_rows), workers)
    partition = RowPartition(plain.n_rows, workers)
    partition.start_tree()
    partition.apply_splits({0: (split, 1, 2)}, plain)
    return partition


def check_sums(rng, plain, found, partition, nodes, workers):
    """Hold the sums of nodes to those of dense codes."""
    pairs = np.stack([rng.integers(-40, 40, plain.n_rows) / 8, rng.integers(0, 9, plain.n_rows) / 8], axis=1)
    out, expected = np.full((2, 4, found.layout.n_slots, 2), 0.5)
    for codes, sums in ((found, out), (plain, expected)):
        codes.sum_by_bin(partition, nodes, [pairs], sums, [np.array([3, 0])[: len(nodes)]], workers)
    np.testing.assert_array_equal(out, expected)


def sparse_frame(rng, n, features):
    """Return columns of which most values are 0, at most 9 others, and some NULL."""
    columns = {}
    for i in range(features):
        values = np.where(rng.random(n) < 0.9, 0.0, rng.integers(-4, 6, n))
        columns[f"x{i}"] = pl.Series(values).set(pl.Series(rng.random(n) < 0.03), None)
    return pl.DataFrame(columns)


@pytest.mark.slow
@given(SEEDS, st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_histograms_are_those_of_dense_codes(seed, n_jobs):
    rng = np.random.default_rng(seed)
    n = int(rng.choice([40, 5000]))
    frame = sparse_frame(rng, n, 5)
    dense_ones = rng.permutation(5)[: rng.integers(0, 5)]
    with closing(Workers(n_jobs)) as workers:
        plain = binned(frame, None, workers)
        common = {i: int(np.bincount(plain.columns[i]).argmax()) for i in range(5) if i not in dense_ones}
        found = binned(frame, common, workers)
        partition = parted(rng, workers, Split(1, 1.0, NONE, NONE, missing_left=True, bin=2), plain, found)
        check_sums(rng, plain, found, partition, [2, 1], workers)


def test_rows_of_equally_many_entries_are_added_one_by_one():
    kinds = np.random.default_rng(0).integers(0, 5, (400, 4))
    frame = pl.DataFrame({f"x{i}": (kinds[:, i // 4] == i % 4 + 1).astype(int) for i in range(16)})
    with closing(Workers(1)) as workers:
        assert binned(frame, dict.fromkeys(range(16), 0), workers).sparse.steps is not None  # 5 kinds, 4 columns
        frame = frame.with_columns(pl.Series(f"y{i}", (kinds[:, i] == 0).astype(int)) for i in range(4))
        one_hot = binned(frame, dict.fromkeys(range(20), 0), workers).sparse
    assert one_hot.steps is None
    assert np.diff(one_hot.starts.astype(int)).tolist() == [4] * 400


@pytest.fixture
def bundled(monkeypatch):
    """Let features of few rows and entries be bundled."""
    monkeypatch.setattr(sparse, "MIN_BUNDLED_ENTRIES", 1)
    monkeypatch.setattr(sparse, "MIN_BUNDLED_ROWS", 0)


def one_hot_frame(rng, n, sizes):
    """Return columns of 0 and 1 of which one is 1 among the first, the next, ... of ``sizes``, with some NULL and 2."""
    kinds = {f"k{k}": rng.integers(0, size, n) for k, size in enumerate(sizes)}
    of_size = zip(kinds.items(), sizes, strict=True)
    columns = {f"{k}_{i}": (kind == i).astype(float) for (k, kind), size in of_size for i in range(size)}
    frame = pl.DataFrame(columns)
    return frame.with_columns(
        pl.when(pl.int_range(n) % 97 > 0).then(pl.col("k0_1")), pl.col("k1_2") + (pl.int_range(n) % 31 == 0)
    )


def test_a_bundle_has_no_more_combinations_than_it_may():
    rng = np.random.default_rng(1)
    kinds = rng.integers(0, 11, (5000, 4))  # 11 * 11 combinations and one of none fit, with a third feature they don't
    columns = [(np.flatnonzero(kind == i).astype(np.uint32), np.ones((kind == i).sum(), np.uint8))
               for kind in kinds.T for i in range(11)]  # fmt: skip
    firsts = np.arange(0, 88, 2)
    with closing(Workers(1)) as workers:
        assert bundle_exclusive(columns, firsts, firsts + 2, firsts, 5000, 1, workers) is None
        found = bundle_exclusive(columns, firsts, firsts + 2, firsts, 5000, 4, workers)
    assert np.diff(found.offsets).max() <= MAX_COMBINATIONS
    assert found.codes.shape[1] < 4
    sums = np.bincount(found.sources, minlength=found.offsets[-1])
    assert sums.max() <= 1 + 11


@pytest.mark.slow
@given(SEEDS, st.integers(1, 3))
@settings(max_examples=15, deadline=None)
def test_histograms_of_bundles_are_those_of_dense_codes(seed, n_jobs):
    rng = np.random.default_rng(seed)
    n = int(rng.choice([60, 3000]))
    frame = one_hot_frame(rng, n, [5, 6, 9, 5])
    with closing(Workers(n_jobs)) as workers, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse, "MIN_BUNDLED_ENTRIES", 1)
        patch.setattr(sparse, "MIN_BUNDLED_ROWS", 0)
        workers.smallest = lambda size: 7  # several shares
        plain = binned(frame, None, workers)
        common = {i: int(np.bincount(plain.columns[i]).argmax()) for i in range(24)}
        found = binned(frame, common, workers)
        assert found.sparse.bundles is not None
        assert found.sparse.additions_per_row == found.sparse.bundles.codes.shape[1]
        partition = parted(rng, workers, Split(2, 1.0, NONE, NONE, missing_left=True, bin=0), plain, found)
        check_sums(rng, plain, found, partition, [2, 1], workers)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.2])
def test_histograms_of_all_rows_are_those_of_dense_codes(share):
    n = 5000
    rng = np.random.default_rng(4)
    frame = pl.DataFrame({f"x{i}": np.where(rng.random(n) < share, rng.integers(1, 4, n), 0) for i in range(2)})
    with closing(Workers(2)) as workers:
        workers.smallest = lambda size: 100  # several shares
        plain, found = binned(frame, None, workers), binned(frame, {0: 0, 1: 0}, workers)
        partition = RowPartition(n, workers)
        partition.start_tree()
        assert len(partition.shares([0], 100)[1]) == 3
        check_sums(rng, plain, found, partition, [0], workers)
    assert found.sparse.steps.dtype == (np.uint16 if share == 0.001 else np.uint8)


def test_which_columns_are_sparse(any_size):
    n = 4000
    frame = pl.DataFrame({
        "zeros": np.arange(n) % 10 == 3, "half": np.arange(n) % 2, "nulls": [None] * 3200 + [1.5] * 800,
        "strings": ["a"] * 3900 + ["b"] * 100, "distinct": np.arange(n), "constant": np.ones(n),
    })  # fmt: skip
    frame = frame.with_columns(pl.col("zeros").cast(pl.UInt8))
    with closing(Workers(1)) as workers:
        bins = binned(frame, None, workers).layout.bins
        features = [each.feature for each in bins]
        rare = [rare_values(feature, frame[feature.name]) for feature in features]
        assert [each is not None for each in rare] == [True, False, False, False, False, True]
        assert rare[0].rows.tolist() == list(range(3, n, 10))
        of_frame = columns.FrameColumns(frame.lazy(), features, workers)
        of_frame.load([])
        assert of_frame.find_sparse(bins, range(6)) == {0: 0, 2: 1, 3: 0, 5: 0}


SETTINGS = {
    "deep": {"max_depth": 8, "subsample": 0.7},
    "leaf by leaf": {"grow_policy": "lossguide", "max_leaves": 40, "max_depth": 0, "colsample_bynode": 0.5},
    "forest": {"num_parallel_tree": 3, "subsample": 0.5, "booster": "dart", "rate_drop": 0.5},
    "shards": {"shards": 3},
    "symmetric": {"grow_policy": "symmetric"},
    "absolute error": {"objective": "reg:absoluteerror"},
    "rows counted": {"min_child_samples": 30, "subsample": 0.7, "sampling_method": "gradient_based"},
}


@pytest.mark.parametrize(
    ("name", "is_one_hot"), [*((name, False) for name in SETTINGS), *((name, True) for name in [*SETTINGS][:4])]
)
def test_models_are_those_of_dense_columns(any_size, bundled, seen, monkeypatch, name, is_one_hot):
    rng, n = np.random.default_rng(3), 3000
    if is_one_hot:
        frame = one_hot_frame(rng, n, [5, 6, 9, 5])
    else:
        frame = sparse_frame(rng, n, 12).with_columns(text=pl.Series(rng.choice([*"abcdef"], n, p=[0.9] + [0.02] * 5)))
        monkeypatch.setattr(sparse, "MAX_DENSE_BYTES", 2 * n)
        monkeypatch.setattr(sparse, "MIN_DENSE_COLUMNS", 1)
    frame = frame.with_columns(dense=pl.Series(rng.normal(size=n)))
    target = pl.sum_horizontal(pl.col(pl.Float64).fill_null(3))
    frame = frame.with_columns(y=target + pl.Series(rng.normal(size=n)))
    monkeypatch.setattr(engine, "MIN_SORTED", 1 << 10)
    arguments = {"target": "y", "valid": 0.2, "n_estimators": 2} | SETTINGS[name]
    found = fb.fit(frame, **arguments)
    assert seen
    assert all(each is not None and (each.bundles is not None) == is_one_hot for each in seen)
    monkeypatch.setattr(columns.FrameColumns, "find_sparse", lambda *_: {})
    expected = fb.fit(frame, **arguments)
    assert found == expected
    assert found.history.equals(expected.history)
