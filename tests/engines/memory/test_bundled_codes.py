"""Features of few bins that share a code: histograms and trees are those of the features one by one."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.binning.bins import Bins
from frameboost.engines.memory import sparse
from frameboost.engines.memory.engine import MemoryEngine
from frameboost.engines.memory.sparse import find_bundles
from frameboost.schema.types import Feature, FeatureType


def bins_of(counts: list[int]) -> list[Bins]:
    features = [Feature(f"x{i}", FeatureType("float64")) for i in range(len(counts))]
    return [Bins(each, tuple(range(1, n)), has_missing=False) for each, n in zip(features, counts, strict=True)]


def test_bundles_have_as_many_codes_as_a_byte(monkeypatch):
    monkeypatch.setattr(sparse, "MIN_SAVED", 1)
    counts = [10, 10, 2, 300, 2, 16, 17, 2, 2, 2, 2, 2, 2, 2, 2, 2]
    n_rows = sparse.MIN_BUNDLED_ROWS
    assert find_bundles(bins_of(counts), n_rows) == [[0, 1, 2], [4, 5, 7, 8, 9], [10, 11, 12, 13, 14, 15]]
    assert find_bundles(bins_of(counts), n_rows, without={0, 1, *range(4, 16)}) == []
    assert find_bundles(bins_of(counts), n_rows - 1) == []


@pytest.mark.parametrize("more", [{}, {"subsample": 0.7, "colsample_bytree": 0.6}, {"tree_method": "approx"}])
def test_trees_are_those_of_the_other_engine(monkeypatch, more):
    rng = np.random.default_rng(0)
    n = 600
    frame = pl.DataFrame(
        {f"few{i}": rng.integers(0, 2 + i, n) for i in range(10)}
        | {"many": rng.normal(size=n), "word": rng.choice(["a", "b", "c"], n)}
    )
    # Missing values have a code of their own.
    frame = frame.with_columns(pl.when(pl.int_range(n) % 7 > 0).then(pl.col("few2", "few5", "word")))
    frame = frame.with_columns(y=pl.col("few9") * pl.col("few3") + pl.col("many") + pl.col("few2").fill_null(3))
    options = {"n_estimators": 3, "max_depth": 4, "verbose": False} | more
    monkeypatch.setattr(sparse, "MIN_BUNDLED_ROWS", 1)
    seen = []
    histograms = MemoryEngine.histograms

    def recording(self, nodes, out, indices):
        seen.append(self.binned.bundled)
        histograms(self, nodes, out, indices)

    monkeypatch.setattr(MemoryEngine, "histograms", recording)
    in_memory = fb.fit(frame, "y", engine="numba", **options)
    assert seen
    assert None not in seen
    assert in_memory.to_json() == fb.fit(frame, "y", engine="polars", **options).to_json()
