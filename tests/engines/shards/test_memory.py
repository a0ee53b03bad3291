"""Shards over files that do not fit in memory give the model of one engine that holds all rows."""

import sys
from pathlib import Path

import polars as pl
import pytest

import frameboost as fb
from frameboost.data.opening import open_source
from frameboost.engines.contract import EngineRequest
from frameboost.engines.memory import engine as memory
from frameboost.engines.memory.engine import MemoryEngine
from frameboost.engines.shards import memory_plan
from frameboost.engines.shards.memory_plan import check_folder, row_size, storage_of
from frameboost.engines.shards.shard import Call, LocalShards
from frameboost.parameters.parameters import Parameters
from frameboost.runtime import storage
from frameboost.runtime.storage import IN_MEMORY, FileStorage, Storage
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature, FeatureType
from tests.support.cases import cases
from tests.support.frames import every_type
from tests.support.mapped_files import mapped_files

FEATURES = ["int8", "int128", "float64", "date", "string"]
SHAPE = {"features": FEATURES, "n_estimators": 3, "max_depth": 4, "learning_rate": 0.5, "verbose": False}


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return every_type(500, seed=5).with_columns(day=pl.int_range(500) // 25, rank=pl.col("amount").rank() * 4 // 501)


@pytest.fixture(scope="module")
def files(frame, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for number, part in enumerate(frame.select(*FEATURES, "amount", "late", "w", "day", "rank").iter_slices(125)):
        part.write_parquet(folder / f"{number}.parquet")
    return folder / "*.parquet"


@pytest.fixture
def limit(monkeypatch):
    """Return a function that sets how much memory a fit believes to be available."""
    monkeypatch.setattr(memory, "MIN_SORTED", 1)
    return lambda size: monkeypatch.setattr(storage, "available_memory", lambda: size)


needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="tells temporary files by /proc")


@pytest.mark.slow
@needs_proc
# Of 500 rows, columns take 32 kB and arrays 25 to 40 kB: all in memory; columns one by one; arrays in files, too.
@cases(("target", "more", "sizes"), [
    ("amount", {"objective": "reg:absoluteerror", "weight": "w", "subsample": 0.6}, [1 << 20, 1 << 16, 10_000]),
    ("late", {"objective": "binary:logistic", "eval_metric": ["auc", "logloss"], "valid": "w > 1.4"}, [0]),
    ("rank", {"objective": "rank:ndcg", "group": "day"}, [1 << 16, 0]),
])  # fmt: skip
def test_the_model_is_that_of_rows_in_memory(frame, files, limit, target, more, sizes):
    options = {**SHAPE, **more}
    whole = fb.fit(frame, target, engine="numba", **options)
    seen = []

    def see(_: int, __: object) -> None:
        seen.append(mapped_files())

    for size in sizes:
        limit(size)
        model = fb.fit(files, target, engine="numba", shards=4, callbacks=[see], **options)
        assert model.to_json() == whole.to_json()
        assert model.history.equals(whole.history)
        assert all((count > 0) == (size < 1 << 16) for count in seen)
        assert len(seen) == 3
        seen.clear()
    del model
    assert mapped_files() == 0


def request(data: object, **parameters: object) -> EngineRequest:
    source = open_source(data)
    features = tuple(Feature(name, kind) for name, kind in source.types().items() if name in FEATURES)
    settings = Parameters.from_keywords(parameters)
    return EngineRequest(source, features, {"label": "amount", "weight": "w"}, settings, Workers(1))


def test_the_size_of_a_row(frame):
    # int8 1, int128 16, float64 8, date 4 or 8 as it is stored; text 24. Codes twice, of one byte but two of text.
    date = FeatureType("date").physical_dtype
    columns = 1 + 16 + 8 + pl.Series([0], dtype=date).estimated_size() + 24
    codes, roles, row_numbers, margin, pair = 2 * (4 + 2), 2 * 8, 2 * 4, 8, 16
    arrays = codes + roles + row_numbers + margin + pair
    assert row_size(request(frame)) == (columns, arrays, 1 + margin + pair)
    assert row_size(request(frame, max_bin=1000)).arrays == 2 * 4 + arrays
    classes = row_size(request(frame, num_class=3, subsample=0.5))
    assert classes.arrays == arrays + 2 * (margin + pair) + pair + 4
    assert classes.rewritten == 1 + 3 * (margin + pair) + pair


def test_the_plan(frame, files, limit, tmp_path):
    frame.select(*FEATURES, "amount", "w").write_csv(tmp_path / "rows.csv")
    size = row_size(request(files))
    columns, arrays = (500 * each * 4 // 3 + 2 for each in size[:2])

    def plan(data: object, left: int | None) -> Storage:
        limit(left)
        return storage_of(request(data))

    assert plan(files, None) is plan(files, columns + arrays) is IN_MEMORY
    assert plan(frame, 0) is plan(tmp_path / "rows.csv", 0) is IN_MEMORY
    one_by_one = plan(files, columns + arrays - 10)
    assert (type(one_by_one), one_by_one.holds_columns) == (Storage, False)
    assert isinstance(plan(files, arrays - 10), FileStorage)
    # Engines of one fit share the memory: the second finds less.
    limit(500 * size.arrays * 3 // 2)
    first = request(files)
    assert not isinstance(storage_of(first), FileStorage)
    assert isinstance(storage_of(first), FileStorage)


def test_temporary_files_in_memory_are_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(memory_plan.tempfile, "gettempdir", lambda: "/tmp/a b")
    mounts = tmp_path / "mounts"
    mounts.write_text("/dev/sda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/sdb /tmp/a\\040b xfs rw 0 0\n")
    check_folder(mounts)
    mounts.write_text("/dev/sda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n")
    with pytest.raises(fb.DataError, match=r"'/tmp/a b' would be in memory, too, as that is a tmpfs; set .* TMPDIR"):
        check_folder(mounts)


def test_files_that_change_while_they_are_read_are_refused(frame, tmp_path):
    path = tmp_path / "rows.parquet"
    frame.write_parquet(path)
    features = (Feature("int8", FeatureType("int8")),)
    engine = MemoryEngine(
        pl.scan_parquet(path), features, {"label": "amount"}, Workers(1), Storage(holds_columns=False)
    )
    assert engine.count_missing() == [frame["int8"].null_count()]
    frame[:200].write_parquet(path)
    with pytest.raises(fb.DataError, match=r"column 'int8' can't be read again: .*; files must not change"):
        engine.count_missing()
    engine.columns.frame = pl.scan_parquet(path)
    with pytest.raises(fb.DataError, match="column 'int8' has 200 rows, where there were 500 before; files must not"):
        engine.count_missing()


class Recorder:
    """Takes the place of a shard, and writes down that it was asked."""

    def __init__(self, name: str, asked: list[str]) -> None:
        self._name, self._asked = name, asked

    def run(self, calls: list[Call]) -> str:
        self._asked.append(self._name)
        return self._name

    def close(self) -> None:
        pass


def test_shards_are_asked_to_and_fro():
    asked: list[str] = []
    pool = LocalShards([Recorder(name, asked) for name in "abc"], 1)
    assert [pool.run([[]] * 3) for _ in range(3)] == [["a", "b", "c"]] * 3
    assert asked == list("abccbaabc")
    pool.close()


@needs_proc
def test_arrays_in_files_hold_no_descriptors():
    descriptors, mapped = len(list(Path("/proc/self/fd").iterdir())), mapped_files()
    storage = FileStorage()
    arrays = [storage.empty((3, 500), "float64") for _ in range(50)]
    for number, array in enumerate(arrays):
        array[...] = number
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    assert mapped_files() == mapped + 50
    assert [array[2, 499] for array in arrays] == list(range(50))
    last = arrays.pop()[1:]
    arrays.clear()
    assert mapped_files() == mapped + 1
    del array
    assert (last == 49).all()
    del last
    assert mapped_files() == mapped
