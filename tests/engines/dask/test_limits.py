"""Workers of little memory: limits that a nanny enforces, plans by what a process has, and errors before work."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.data.opening import open_source
from frameboost.engines.contract import EngineRequest
from frameboost.engines.dask.pool import DaskShards
from frameboost.engines.dask.worker import Room, _WorkerMemory, no_room
from frameboost.engines.shards.memory_plan import fewest_shards, need_of, storage_within
from frameboost.parameters.parameters import Parameters
from frameboost.runtime.storage import IN_MEMORY, FileStorage, MemoryBudget, Storage
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature, FeatureType
from tests.support.mapped_files import mapped_files

distributed = pytest.importorskip("distributed")

N_FEATURES, N_ROWS = 28, 400_000
ROOM = 40_000_000  # of a worker until it pauses, less than the rows need
PAUSES = 0.8


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    for number in range(4):
        values = np.random.default_rng(number).normal(size=(N_FEATURES, N_ROWS // 4)).astype(np.float32)
        rows = pl.DataFrame({f"x{k}": each for k, each in enumerate(values)})
        rows.with_columns(y=(pl.col("x0") * pl.col("x1") > 0).cast(pl.Int8)).write_parquet(folder / f"{number}.parquet")
    return folder / "*.parquet"


def memory(kind: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{kind}:"))


def cluster_of(limit: int) -> distributed.LocalCluster:
    return distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, memory_limit=limit, dashboard_address=":0", silence_logs=50
    )


@pytest.mark.slow
def test_a_worker_that_cannot_hold_its_rows_keeps_them_in_files(files):
    options = {"objective": "binary:logistic", "n_estimators": 1, "max_depth": 3, "verbose": False}
    # A process with all libraries takes another share of the same memory on each machine.
    with cluster_of(4_000_000_000) as cluster, distributed.Client(cluster) as client:
        fb.fit(pl.read_parquet(files, n_rows=1_000), "y", engine=fb.Dask(client), **options)
        limit = int((max(client.run(memory, "VmRSS").values()) + ROOM) / PAUSES)
    with cluster_of(limit) as cluster, distributed.Client(cluster) as client:
        before, seen = client.run(mapped_files), []
        model = fb.fit(
            files, "y", engine=fb.Dask(client), callbacks=[lambda *_: seen.append(client.run(mapped_files))], **options
        )
        peaks = client.run(memory, "VmHWM")
        # Of ten times the rows, one shard needs more than there is, which is told before a row is read.
        with pytest.raises(fb.ClusterError) as error:
            fb.fit([pl.scan_parquet(files)] * 10, "y", engine=fb.Dask(client, shards=1), **options)
        assert client.run(memory, "VmHWM") == peaks
    assert before.keys() == peaks.keys()  # it is the process that it was
    assert all(counts[worker] > before[worker] for counts in seen for worker in before)
    assert max(peaks.values()) < 0.95 * limit
    assert model == fb.fit(files, "y", **options)
    says = str(error.value)
    assert says.startswith(
        f"a worker of the Dask cluster has memory_limit={limit / 1e6:.0f} MB, of which its process takes "
    )
    assert "; 4,000,000 rows of 28 features need " in says
    assert " more, and Dask ends a worker at 95% of its limit; set memory_limit='" in says


def request(left: int | None = None) -> EngineRequest:
    features = tuple(Feature(f"x{k}", FeatureType("float32")) for k in range(N_FEATURES))
    source = open_source(pl.LazyFrame(schema={f"x{k}": pl.Float32 for k in range(N_FEATURES)} | {"y": pl.Int8}))
    return EngineRequest(
        source, features, {"label": "y"}, Parameters(), Workers(1), budget=MemoryBudget(left, n_processes=1)
    )


def test_what_a_shard_needs_grows_with_its_rows_and_those_of_the_worker():
    one, two = need_of(request(), [10**6], 10**6, 1), need_of(request(), [500_000] * 2, 10**6, 1)
    assert one.in_files < one.by_column < one.in_memory
    assert two.in_files < one.in_files  # they take turns
    columns = 28 * 4 * 10**6
    assert one.in_memory - one.by_column == two.in_memory - two.by_column == columns
    assert need_of(request(), [10**6], 10**6, 8).in_files > one.in_files


def test_more_shards_where_one_at_a_time_fits():
    in_memory, by_column, in_files = need_of(request(), [10**6], 2 * 10**6, 1)
    ways = [(in_memory, True), (by_column, True), (in_files, True), (in_files // 2, True), (in_memory, False)]
    found = [fewest_shards(request(), 2 * 10**6, [(room, 1)] * 2, fits_files=files) for room, files in ways]
    assert found[0] == found[1] == found[4] == 2
    assert found[2] > 2  # smaller shards, with their arrays in memory, before one in files
    assert found[3] > 2
    assert fewest_shards(request(), 2 * 10**6, [(10**6, 1)], fits_files=True) is None
    assert fewest_shards(request(), 2 * 10**6, [(in_memory // 2, 1)] * 2, fits_files=False) is None


def test_arrays_are_where_there_is_room(monkeypatch):
    counts = [500_000] * 2
    in_memory, by_column, in_files = need_of(request(), counts, 10**6, 1)

    def storage(left: int, **how: bool) -> Storage:
        return storage_within(request(left), counts, 10**6, 1, **how)

    assert storage(in_memory) is IN_MEMORY
    assert (type(storage(by_column)), storage(by_column).holds_columns) == (Storage, False)
    assert isinstance(storage(in_files), FileStorage)
    assert isinstance(storage(in_memory, in_files=True), FileStorage)  # such as after workers that were lost


def test_a_worker_without_room_is_told_in_figures():
    memory = _WorkerMemory("worker", 520 * 10**6, 310 * 10**6, pauses_at=0.8, ends_at=0.95)
    room = Room(memory, memory.left(0.8), 1)
    assert (room.left, room.most()) == pytest.approx((106 * 10**6, 184 * 10**6))
    need = need_of(request(), [2 * 10**6], 2 * 10**6, 1)
    says = no_room(room, need, [2 * 10**6], request(), fits_files=True, remedy=", or shards=8")
    wanted = int(says.partition("memory_limit='")[2].partition(" MB")[0]) * 10**6
    assert says.startswith(
        "a worker of the Dask cluster has memory_limit=520 MB, of which its process takes 310 MB before it reads a "
        "row; 2,000,000 rows of 28 features need "
    )
    assert says.endswith(" MB' or more, or shards=8")
    enough = Room(memory._replace(limit=wanted), memory._replace(limit=wanted).left(0.8), 1)
    assert no_room(enough, need, [2 * 10**6], request(), fits_files=True) == ""
    assert no_room(Room(memory._replace(limit=None), None, 1), need, [2 * 10**6], request(), fits_files=True) == ""


@pytest.mark.slow
@pytest.mark.parametrize("reachable", [True, False])
def test_sums_go_past_the_scheduler_where_workers_can_be_reached(cluster, client, monkeypatch, reachable):
    frame = pl.DataFrame({"x": np.random.default_rng(0).normal(size=500)}).with_columns(y=pl.col("x") ** 2)
    options = {"n_estimators": 3, "max_depth": 3, "verbose": False}
    proxied, proxy = [], cluster.scheduler.handlers["proxy"]

    async def counted(**given):
        proxied.append(given)
        return await proxy(**given)

    monkeypatch.setitem(cluster.scheduler.handlers, "proxy", counted)
    if not reachable:
        monkeypatch.setattr(DaskShards, "_can_reach", lambda *_: False)
    model = fb.fit(frame, "y", engine=fb.Dask(client, shards=4), **options)
    assert model == fb.fit(frame, "y", **options)
    assert bool(proxied) is not reachable


@pytest.mark.parametrize("timeout", [0, -1, "soon", True, None, float("nan")])
def test_the_worker_timeout_is_a_time(timeout):
    from frameboost.engines.dask.cluster import seconds

    assert [seconds(given, "worker_timeout") for given in (5, "2 minutes", "500ms")] == [5.0, 120.0, 0.5]
    with pytest.raises(fb.ParameterError, match="must be a number of seconds above 0, or such as"):
        seconds(timeout, "worker_timeout")
