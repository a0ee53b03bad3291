"""A Dask DataFrame as data: its partitions are read by the workers, to the model of the pandas frame."""

from datetime import date, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest

import frameboost as fb
from frameboost.data.opening import open_source
from tests.support.cases import cases

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")

SHAPE = {"n_estimators": 3, "max_depth": 4, "learning_rate": 0.5, "verbose": False}
N_ROWS = 700


def pandas_frame() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    x = np.where(rng.random(N_ROWS) < 0.1, np.nan, rng.normal(size=N_ROWS))
    frame = pd.DataFrame({
        "x": x,
        "count": pd.array(rng.integers(0, 9, N_ROWS), dtype="Int16"),
        "text": pd.Series(rng.choice(list("abcd"), N_ROWS)).where(np.arange(N_ROWS) > 200),  # none in one partition
        "category": pd.Categorical(np.where(np.arange(N_ROWS) < 40, "rare", rng.choice(["u", "v"], N_ROWS))),
        "time": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 10**6, N_ROWS), unit="s"),
        "weight": rng.random(N_ROWS) + 0.1,
    })  # fmt: skip
    frame["y"] = np.nan_to_num(x) * 2 + frame["count"].astype(float).where(frame["text"] == "a", 1.0)
    return frame


@pytest.mark.slow
def test_the_model_is_that_of_the_pandas_frame(client):
    frame = pandas_frame()
    in_parts = dd.from_pandas(frame, npartitions=5, sort=False)
    options = {"valid": "weight > 0.9 AND time > '2020-01-03'", "subsample": 0.7, **SHAPE}
    whole = fb.fit(frame, "y", **options)
    assert whole.trees["depth"].max() > 2
    model = fb.fit(in_parts, "y", engine=fb.Dask(client, shards=3), **options)
    assert model.to_json() == whole.to_json()
    assert model.history.equals(whole.history)
    options = {"init_model": whole, **SHAPE}
    on_default_client = fb.fit(in_parts, "y", valid=in_parts.partitions[:1], **options)
    assert on_default_client == fb.fit(frame, "y", valid=frame[: N_ROWS // 5], **options)


@pytest.mark.slow
def test_labels_are_those_of_all_partitions(client):
    frame = pandas_frame().rename(columns={"category": "label"})  # one label is in the first partition only
    in_parts, options = dd.from_pandas(frame, npartitions=4, sort=False), {**SHAPE, "features": ["x", "count"]}
    model = fb.fit(in_parts, "label", valid="weight > 0.9", engine=fb.Dask(client, shards=2), **options)
    assert model.to_json() == fb.fit(frame, "label", valid="weight > 0.9", **options).to_json()
    assert model.classes == ["rare", "u", "v"]
    last = in_parts.partitions[3:]
    with pytest.raises(fb.DataError, match=r"^target 'label' has the label 'rare' in 'valid', the held-out data"):
        fb.fit(last, "label", valid=in_parts, engine=fb.Dask(client, shards=1), **options)


@pytest.mark.slow
def test_partitions_are_read_again_if_their_worker_is_killed(killer, client, tmp_path):
    frame = pandas_frame()
    for number in range(4):
        frame[number * 175 : (number + 1) * 175].to_parquet(tmp_path / f"{number}.parquet")
    whole, kill = fb.fit(frame, "y", **SHAPE), killer(2)
    data = dd.read_parquet(tmp_path).persist()
    assert fb.fit(data, "y", engine=fb.Dask(client, shards=3), callbacks=[kill], **SHAPE) == whole
    client.wait_for_workers(2, timeout=60)
    assert kill.killed


def drawn_anew(part: pd.DataFrame) -> pd.DataFrame:
    return part.sample(frac=0.5) if len(part) else part


@pytest.mark.slow
def test_partitions_with_other_rows_when_they_are_computed_again_are_refused(killer, client):
    in_parts = dd.from_pandas(pandas_frame(), npartitions=4, sort=False)
    drawn = in_parts.map_partitions(drawn_anew, meta=in_parts._meta)
    with pytest.raises(fb.DataError, match=r"partition \d of the Dask DataFrame was computed again, .* had other rows"):
        fb.fit(drawn, "y", engine=fb.Dask(client, shards=2), callbacks=[killer(1)], **SHAPE)
    client.wait_for_workers(2, timeout=60)


def fail_in_third(part: pd.DataFrame, partition_info: dict[str, int] | None = None) -> pd.DataFrame:
    if partition_info is not None and partition_info["number"] == 2:
        raise FileNotFoundError("no such bucket")
    return part


@pytest.mark.slow
def test_partitions_that_cannot_be_read_are_named(client):
    in_parts = dd.from_pandas(pandas_frame(), npartitions=5, sort=False)
    meta = in_parts._meta
    for wrong, says in (
        (in_parts.map_partitions(fail_in_third, meta=meta),
         "partition 3 of the Dask DataFrame can't be computed: FileNotFoundError: no such bucket"),
        (in_parts.map_partitions(lambda part: part.assign(x="1"), meta=meta, enforce_metadata=False),
         "column 'x' has type String in partition 1 of the Dask DataFrame, which says Float64; cast it to one"),
        (in_parts.map_partitions(lambda part: part.drop(columns="x"), meta=meta, enforce_metadata=False),
         "partition 1 of the Dask DataFrame has no column 'x'"),
    ):  # fmt: skip
        with pytest.raises(fb.DataError) as error:
            fb.fit(wrong, "y", engine=fb.Dask(client), **SHAPE)
        assert says in str(error.value)


def with_objects() -> pd.DataFrame:
    frame = pandas_frame()
    frame["day"] = [date(2020, 1, 1) + timedelta(int(x)) for x in range(N_ROWS)]
    frame["flag"] = pd.Series([True, None] * (N_ROWS // 2), dtype=object).where(np.arange(N_ROWS) > 300, None)
    frame["nothing"] = pd.Series([None] * N_ROWS, dtype=object)
    return frame


def test_types_are_those_of_the_pandas_frame():
    frame = with_objects()
    with dask.config.set({"dataframe.convert-string": False, "scheduler": "synchronous"}):
        opened = open_source(dd.from_pandas(frame, npartitions=5, sort=False), clusters=True)
        assert opened.types() == open_source(frame, clusters=True).types()
        # Partitions, the first of which have no value, are read as these types.
        delayed, reader = opened.read_by(["flag", "day", "text"])
        found = reader.read([part.compute() for part in delayed]).collect()
    assert found.equals(open_source(frame, clusters=True).frame.select("flag", "day", "text").collect())


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # Dask's with pandas 3
def test_integers_with_null_are_integers_in_every_partition(tmp_path):
    whole = pl.DataFrame({"x": [1, 2, None, 4, 5, 6, None, None], "y": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]})
    for number, part in enumerate(whole.iter_slices(2)):  # one without NULL, two with some, one with nothing else
        part.write_parquet(tmp_path / f"{number}.parquet")
    whole[:0].write_parquet(tmp_path / "4.parquet")
    with dask.config.set(scheduler="synchronous"):
        opened = open_source(dd.read_parquet(tmp_path), clusters=True)
        delayed, reader = opened.read_by(["x", "y"])
        read = reader.read([part.compute() for part in delayed]).collect()
        assert {part.compute()["x"].dtype.kind for part in delayed} == {"i", "f"}  # as pandas reads each
    assert read.equals(whole)
    assert opened.types()["x"].name == "int64"


@pytest.mark.parametrize(("dtype", "own", "expected"), [
    ("int64", [1.0, None], [1, None]),
    ("int8", [1.0, 300.0], None),
    ("int64", [1.5, None], None),
    ("int64", [2.0**53, None], None),  # which may be 2^53 + 1, rounded
    ("float64", [1, 2], [1.0, 2.0]),
    ("float64", [2**53 + 1, 2], None),
    ("string", [1, 2], None),
])  # fmt: skip
def test_numbers_of_another_type_are_taken_if_they_are_the_same(dtype, own, expected):
    meta = pd.DataFrame({"x": pd.array([], dtype=dtype)})
    collection = dd.from_map(lambda _: pd.DataFrame({"x": own}), [0], meta=meta, enforce_metadata=False)
    delayed, reader = open_source(collection, clusters=True).read_by(["x"])
    partition = delayed[0].compute(scheduler="synchronous")
    if expected is not None:
        assert reader.read([partition]).collect()["x"].to_list() == expected
        return
    with pytest.raises(fb.DataError, match=r"column 'x' has type .* in partition 1 of the Dask DataFrame, which says"):
        reader.read([partition])


def test_partitions_without_a_value_keep_their_rows():
    meta = pd.DataFrame({"x": pd.array([], dtype="Int64"), "s": pd.array([], dtype="string")})
    empty, nothing = pd.DataFrame({"x": [], "s": []}), pd.DataFrame({"x": [None] * 3, "s": [None] * 3}, dtype=object)
    collection = dd.from_map(lambda part: part, [empty, nothing], meta=meta, enforce_metadata=False)
    delayed, reader = open_source(collection, clusters=True).read_by(["x", "s"])
    read = reader.read([part.compute(scheduler="synchronous") for part in delayed]).collect()
    assert read.equals(pl.DataFrame({"x": [None] * 3, "s": [None] * 3}, schema={"x": pl.Int64, "s": pl.String}))


def test_objects_of_several_types_are_refused():
    frame = with_objects().assign(mixed=pd.Series([date(2020, 1, 1)] * 350 + ["a"] * 350, dtype=object))
    with (
        dask.config.set({"dataframe.convert-string": False, "scheduler": "synchronous"}),
        pytest.raises(
            fb.DataError, match=r"'mixed' has type Date in partition 1 of the Dask .* String in partition 2;"
        ),
    ):
        open_source(dd.from_pandas(frame, npartitions=2, sort=False), clusters=True)


@cases(("call", "says"), [
    (lambda data: fb.fit(data, "y", engine="polars"), "a Dask DataFrame needs engine=fb.Dask(client), not 'polars'"),
    (lambda data: fb.fit(data, "y", shards=2), "a Dask DataFrame needs engine=fb.Dask(client)"),
    (lambda data: fb.fit(data, "y"), "a Dask DataFrame needs engine=fb.Dask(client)"),
    (lambda data: fb.cv(data, "y"), "data is a Dask DataFrame, which fit trains on with engine=fb.Dask(client)"),
    (lambda data: fb.fit(data.compute(), "y", valid=data), "the rows of a Dask DataFrame are read by its workers"),
])  # fmt: skip
def test_what_takes_no_dask_frames_says_so(call, says):
    with pytest.raises(fb.FrameboostError) as error:
        call(dd.from_pandas(pandas_frame()[["x", "y"]], npartitions=2))
    assert says in str(error.value)
