"""Arrow batches, frames and arrays are scored where they are, with any layout and any missing values."""

from itertools import pairwise

import numpy as np
import pandas as pd
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


@given(
    st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 8, 63]), st.sampled_from([0, 1, 7, 300, 600]),
    st.sampled_from(["i1", "u4", "i8", "f4", "f8"]), st.sampled_from([1, 1, 3, 20]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_code_buffers(seed, offset, n_rows, kind, step):
    """Some rows of columns in memory, of an Arrow array (``step`` 1) or of a matrix, are coded as by counting cuts."""
    rng = np.random.default_rng(seed)
    offset = offset if step == 1 else 0
    first, last = sorted(rng.integers(0, n_rows + 1, 2))
    values = rng.integers(0, 90, (offset + n_rows) * step).astype(kind)
    if kind[0] == "f":
        values[rng.random(len(values)) < 0.2] = np.nan
    present = rng.random(offset + n_rows) < rng.choice([0.5, 0.99])
    bitmap = np.packbits(present, bitorder="little")
    all_cuts = [np.unique(rng.integers(0, 90, size)).astype(kind) for size in (0, 5, 300, 31)]
    edges = [padded(cuts.tolist(), np.dtype(kind)) for cuts in all_cuts]
    buffers = [[values.ctypes.data, validity, offset] for validity in (0, bitmap.ctypes.data, bitmap.ctypes.data, 0)]
    codes, target = np.full((5, n_rows + 5), 77, dtype=np.uint8), np.array([2, 0, 4, 3])
    code_buffers(
        np.array(buffers), step, int(first), int(last), np.concatenate(edges), np.cumsum([0, *map(len, edges)]),
        np.array(list(map(len, all_cuts))), target, 255, 4, codes,
    )  # fmt: skip
    written = slice(4, 4 + last - first)
    own = values[(offset + first) * step : (offset + last) * step : step].tolist()
    for row, cuts, (_, validity, _) in zip(target, all_cuts, buffers, strict=True):
        here = present[offset + first : offset + last].tolist() if validity else [True] * len(own)
        assert codes[row, written].tolist() == naive_code_buffers(own, here, cuts.tolist(), 255)
    codes[target, written] = 77
    assert (codes == 77).all()


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


def _chunked(column, *lengths):
    parts = [column[a:b] for a, b in pairwise([0, *lengths, len(column)])]
    return pl.concat(parts, rechunk=False)


LAYOUTS = {
    "chunks": lambda frame: _chunked(frame, 1, 9, 1100),
    "rows of chunks": lambda frame: _chunked(frame, 1, 9, 1100)[3:1200],
    "chunks of one row": lambda frame: _chunked(frame[:90], *range(1, 90)),
    "large chunks": lambda frame: pl.concat([frame, frame[:1200]], rechunk=False),
    "rows of large chunks": lambda frame: pl.concat([frame, frame], rechunk=False)[200:2500],
    "large chunks of some columns": lambda frame: pl.concat([frame, frame], rechunk=False).with_columns(
        pl.Series("c", range(2600), pl.Float64), _chunked(pl.concat([frame["d"]] * 2, rechunk=True), 7).alias("d")
    ),
    "chunks of each column": lambda frame: pl.DataFrame([_chunked(c, i + 1) for i, c in enumerate(frame)]),
    "NULL": lambda frame: frame.fill_nan(None)[11:],
    "no row": lambda frame: frame[:0],
    "other types": lambda frame: frame.fill_nan(None).with_columns(
        pl.col("a").cast(pl.Int8), pl.col("b").cast(pl.Int128), pl.col("c").cast(pl.Float32)
    ),
    "more columns": lambda frame: frame.select("d", "c", pl.lit("x").alias("s"), "b", "a"),
}


@pytest.fixture(scope="module")
def of_numbers():
    """Return whole numbers, some missing, a model of them, and an estimator of the same trees."""
    rng = np.random.default_rng(1)
    x = rng.integers(-40, 40, (1300, 4)).astype(float)
    y = x.sum(1) + rng.normal(size=len(x))
    x[rng.random(x.shape) < 0.1] = np.nan
    frame = pl.DataFrame(x, schema=list("abcd"))
    settings = {"n_estimators": 20, "max_depth": 4}
    estimator = fb.FrameBoostRegressor(**settings).fit(x, y)
    return frame, fb.fit(frame.with_columns(y=y), "y", **settings), x, estimator


@pytest.mark.parametrize("layout", LAYOUTS)
def test_frames_of_any_layout(of_numbers, layout):
    frame, model, _, _ = of_numbers
    rows = LAYOUTS[layout](frame)
    expected = rows.lazy().select(model.expr()).collect().to_series()
    assert model.predict(rows).to_list() == expected.to_list()


ARRAYS = {
    "by rows": lambda x: x,
    "by columns": np.asfortranarray,
    "backwards": lambda x: x[::-1],
    "columns backwards": lambda x: np.ascontiguousarray(x[:, ::-1])[:, ::-1],
    "every third row": lambda x: x[::3],
    "one row again": lambda x: np.broadcast_to(x[0], (50, 4)),
    "17 rows": lambda x: x[:17],
    "a row": lambda x: x[3:4],
    "float32": lambda x: x.astype("f4"),
    "the other order of bytes": lambda x: x.astype(">f8"),
    "integers": lambda x: np.nan_to_num(x).astype("i2"),
    "truth": lambda x: x > 0,
    "not aligned": lambda x: np.array([(0, row) for row in x], dtype=[("a", "u1"), ("x", "f8", 4)])["x"],
}


@pytest.mark.parametrize("layout", ARRAYS)
def test_arrays_of_any_layout(of_numbers, layout):
    _, model, x, estimator = of_numbers
    rows = ARRAYS[layout](x)
    frame = pl.DataFrame(np.ascontiguousarray(rows, "f8"), schema=list("abcd"))
    expected = frame.lazy().select(model.expr()).collect().to_series().to_list()
    assert estimator.predict(rows).tolist() == expected
    if layout not in ("truth", "the other order of bytes"):  # other types in a frame
        assert model.predict(pd.DataFrame(rows, columns=list("abcd"))).to_list() == expected
