"""Arrow batches are scored like frames, with any buffer offset and any missing values."""

from itertools import pairwise

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frameboost as fb
from frameboost.binning.arrays import padded
from frameboost.compile.arrays.byte_trees import BatchScorer
from frameboost.compile.arrays.score_kernels import code_buffers
from frameboost.prediction.predictor import Predictor
from tests.support.naive_kernels import naive_code_buffers


@given(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 8, 63]), st.sampled_from([0, 1, 7, 300]), st.booleans())
@settings(max_examples=60, deadline=None)
def test_code_buffers(seed, offset, n_rows, is_integer):
    rng = np.random.default_rng(seed)
    kind = np.int64 if is_integer else np.float64
    values = rng.integers(-9, 9, offset + n_rows).astype(kind)
    if not is_integer:
        values[rng.random(len(values)) < 0.2] = np.nan
    present = rng.random(len(values)) < rng.choice([0.5, 0.99])
    bitmap = np.packbits(present, bitorder="little")
    cuts = np.unique(rng.integers(-9, 9, 5)).astype(kind)
    edges, codes = padded(cuts.tolist(), np.dtype(kind)), np.full((3, n_rows + 5), 77, dtype=np.uint8)
    buffers = [[values.ctypes.data, validity, offset, is_integer] for validity in (bitmap.ctypes.data, 0)]
    places = [[edges.ctypes.data, len(edges), len(cuts), row] for row in (2, 0)]
    code_buffers(np.array(buffers, dtype=np.int64), np.array(places), n_rows, 255, codes)
    assert (codes[:, n_rows:] == 77).all()
    codes = codes[:, :n_rows]
    own = values[offset:].tolist()
    assert codes[0].tolist() == naive_code_buffers(own, [True] * n_rows, cuts.tolist(), 255)
    assert codes[1].tolist() == [77] * n_rows
    assert codes[2].tolist() == naive_code_buffers(own, present[offset:].tolist(), cuts.tolist(), 255)


@pytest.fixture(scope="module")
def scored():
    rng = np.random.default_rng(3)
    n = 4000
    frame = pl.DataFrame({
        "f": rng.normal(size=n), "i": rng.integers(-400, 400, n), "s": rng.choice(["a", "b", "c"], n),
        "b": rng.random(n) < 0.5, "y": rng.integers(0, 3, n),
    })  # fmt: skip
    missing = [pl.when(pl.int_range(n) % k > 0).then(c).alias(c) for k, c in ((7, "f"), (5, "i"), (11, "s"), (6, "b"))]
    frame = frame.with_columns(missing).with_columns(f=pl.when(pl.int_range(n) % 9 > 0).then("f").otherwise(np.nan))
    model = fb.fit(frame, "y", objective="multi:softprob", n_estimators=30, max_bin=900, min_child_weight=0)
    predictor = Predictor(model.ensemble)
    assert len(predictor.byte_trees.columns) > 4  # some feature has more edges than a byte tells apart
    types = {feature.name: feature.type for feature in model.ensemble.features}
    codes = predictor.arrays.codes(frame.lazy(), types)
    return model, frame, np.array(predictor.arrays.margins(codes, model.ensemble.base_margins))


@pytest.mark.parametrize("cuts", [(0, 4000), (13, 2000), (5, 6), (8, 8), (1, 64, 65, 700, 3999)])
def test_batches_in_chunks(scored, cuts):
    model, frame, walked = scored
    types = {feature.name: feature.type.widened for feature in model.ensemble.features}
    scorer = BatchScorer(Predictor(model.ensemble).byte_trees, types, model.ensemble.base_margins)
    batches = []
    for name in types:
        whole = frame[name].to_arrow()
        whole = whole.cast(pa.string()) if name == "s" else whole
        batches.append(pa.chunked_array([whole[a:b] for a, b in pairwise(cuts)]))  # slices, which have offsets
    found = np.array(scorer.margins(batches))
    assert found.tolist() == walked[:, cuts[0] : cuts[-1]].tolist()
    assert len(cuts) == 2 or batches[0].num_chunks == 4


def test_types_may_change_from_call_to_call():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({name: rng.integers(-9, 9, 500) for name in "abcd"})
    trained = frame.with_columns(y=pl.col("a") * 2 + pl.col("c"))
    model = fb.fit(trained, "y", n_estimators=3, max_depth=2)
    expected = model.predict(frame)
    halves = frame.with_columns(pl.col("a") + 0.5)
    expected_of_halves = halves.lazy().select(model.expr()).collect().to_series()
    for rows, scores in [
        (frame.select("d", "c", "b", "a"), expected),
        (frame.with_columns(pl.col("a").cast(pl.Int8), pl.col("c").cast(pl.Float32)), expected),
        (halves, expected_of_halves),
        (frame.with_columns(pl.col("b").cast(pl.Float64)), expected),
        (frame.with_columns(e=pl.lit("x")).select("e", *"abcd"), expected),
        (frame.with_columns(pl.col("c").cast(pl.Decimal(5, 1))), expected),
        (frame, expected),
    ]:
        for _ in range(2):
            assert model.predict(rows).to_list() == scores.to_list()
    with pytest.raises(fb.DataError, match="'a'"):
        model.predict(frame.with_columns(pl.lit("x").alias("a")))
