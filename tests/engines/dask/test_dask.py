"""A fit on a Dask cluster of real processes gives the model of one machine, also if workers are killed."""

import os
import pickle
import random
import signal
import sqlite3
import threading
import time
from contextlib import closing
from functools import partial

import polars as pl
import pytest

import frameboost as fb
from frameboost.engines.dask import pool as dask_pool
from frameboost.engines.dask.cluster import check_versions
from frameboost.engines.shards import engine as sharded
from frameboost.runtime import storage
from tests.support.cases import cases
from tests.support.frames import every_type
from tests.support.mapped_files import mapped_files

distributed = pytest.importorskip("distributed")

SHAPE = {"n_estimators": 3, "max_depth": 3, "learning_rate": 0.5, "verbose": False}
FEATURES = ["float64", "int16", "decimal", "date", "string"]
OPTIONS = {"features": FEATURES, **SHAPE}


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return every_type(600, seed=4)


@pytest.mark.slow
@cases(("target", "engine", "more"), [
    ("amount", {"shards": 5}, {"objective": "reg:absoluteerror", "subsample": 0.7, "target_transform": "asinh"}),
    ("late", {"engine": "polars"},
     {"objective": "binary:logistic", "eval_metric": ["logloss", "auc"], "valid": "w > 1.4", "min_child_samples": 30,
      "class_weight": "balanced", "threshold": "f1"}),
])  # fmt: skip
def test_the_model_is_that_of_one_machine(client, frame, target, engine, more):
    options = {"features": FEATURES, **SHAPE, **more}
    whole = fb.fit(frame, target, **options)
    model = fb.fit(frame, target, engine=fb.Dask(client, **engine), **options)
    assert model.to_json() == whole.to_json()
    assert model.history.equals(whole.history)


def set_available_memory(size: int | None) -> None:
    """Have a worker believe that so much is available, or (None) look again."""
    original = vars(storage).setdefault("_original", storage.available_memory)
    storage.available_memory = original if size is None else lambda: size


@pytest.mark.slow
def test_workers_read_ranges_of_a_table_in_a_database(client, killer, tmp_path):
    rng = random.Random(5)
    rows = [(number, rng.gauss(0, 1), rng.choice(["a", "B", None]), rng.randint(1, 3)) for number in range(500)]
    rows = [(*row, row[1] * 2 + rng.gauss(0, 1)) for row in rows]
    connect = partial(sqlite3.connect, tmp_path / "orders.db")
    with closing(connect()) as con:
        con.execute("CREATE TABLE orders (id, x, kind, w, y)")
        con.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", rng.sample(rows, len(rows)))
        con.commit()
    frame = pl.DataFrame(rows, schema=["id", "x", "kind", "w", "y"], orient="row")
    options = {"features": ["x", "kind"], "weight": "w", "subsample": 0.8, "valid": "w > 2", **SHAPE}
    whole = fb.fit(frame, "y", **options)
    kill = killer(2)
    model = fb.fit(
        fb.table(connect, "orders", key="id"), "y", engine=fb.Dask(client, shards=3), callbacks=[kill], **options
    )
    assert kill.killed
    assert model.to_json() == whole.to_json()
    assert model.history.equals(whole.history)
    with (
        closing(connect()) as con,
        pytest.raises(fb.ParameterError, match=r"^the workers of a Dask cluster open connections of their own; pass "),
    ):
        fb.fit(fb.table(con, "orders", key="id"), "y", engine=fb.Dask(client), **options)


@pytest.mark.slow
def test_rows_that_do_not_fit_into_the_memory_of_workers(client, frame, tmp_path):
    for number, part in enumerate(frame.iter_slices(150)):
        part.select(*FEATURES, "amount", "w").write_parquet(tmp_path / f"{number}.parquet")
    options = {"objective": "reg:absoluteerror", "subsample": 0.7, "valid": "w > 1.4", **OPTIONS}
    whole = fb.fit(frame, "amount", **options)
    before, seen = client.run(mapped_files), []
    client.run(set_available_memory, 0)
    try:
        callbacks = [lambda *_: seen.append(client.run(mapped_files))]
        scan = pl.scan_parquet(tmp_path / "*.parquet")
        model = fb.fit(scan, "amount", engine=fb.Dask(client, shards=3), callbacks=callbacks, **options)
        assert model.to_json() == whole.to_json()
    finally:
        client.run(set_available_memory, None)
    assert len(seen) == 3
    assert all(counts[worker] > before[worker] for counts in seen for worker in before)


@pytest.mark.slow
def test_tables_of_scores_and_queries_are_merged_on_the_workers(monkeypatch, killer, client):
    monkeypatch.setattr(sharded, "_SUMMARY", 8)  # tables that are longer stay where they are
    frame = every_type(600, seed=7).with_columns(day=pl.int_range(600) // 12, rank=pl.col("amount").rank() * 4 // 601)
    kill = killer(2)
    shares = {"features": ["float64", "int16"], "base_margin": "amount", "min_child_weight": 0.0, **SHAPE}

    for target, more in (
        ("late", {"objective": "binary:logistic", "eval_metric": ["auc", "aucpr"], "train_metrics": True}),
        ("rank", {"objective": "rank:ndcg", "group": "day"}),
    ):
        options = {**shares, **more}
        model = fb.fit(frame, target, engine=fb.Dask(client, shards=3), callbacks=[kill], **options)
        whole = fb.fit(frame, target, **options)
        assert model.to_json() == whole.to_json()
        assert model.history.equals(whole.history)
    assert kill.killed
    with pytest.raises(
        fb.DataError, match=r"rows of '0' in group 'day' lie in several shards; keep the rows of a query"
    ):
        fb.fit(frame.sort("day", pl.col("float64")).with_columns(day=pl.int_range(600) % 50), target,
               engine=fb.Dask(client, shards=3), **options)  # fmt: skip


@pytest.mark.slow
def test_workers_that_are_killed_change_nothing(monkeypatch, cluster, killer, client, frame):
    monkeypatch.setattr(dask_pool, "_MAX_MESSAGES", 1)  # the other worker relays
    options = {"features": FEATURES, "objective": "reg:absoluteerror", "subsample": 0.8, **SHAPE, "n_estimators": 6}
    whole = fb.fit(frame, "amount", **options)
    stop, killed, rng = threading.Event(), [], random.Random()

    def kill() -> None:
        while not killed and not stop.wait(rng.uniform(0.5, 2.5)):
            running = [worker.pid for worker in cluster.workers.values() if worker.pid]
            if len(running) == len(cluster.scheduler_info["workers"]) == 2:  # starting takes longer on a busy machine
                os.kill(rng.choice(running), signal.SIGKILL)
                killed.append(True)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        model = fb.fit(frame, "amount", engine=fb.Dask(client, shards=3), callbacks=[killer(3)], **options)
    finally:
        stop.set()
        thread.join()
    assert model.to_json() == whole.to_json()


def held_by(dask_worker) -> int:
    return len(dask_worker.state.actors)


def assert_nothing_is_held(client) -> None:
    deadline = time.monotonic() + 20  # the scheduler passes on what a client has released
    while any(client.run(held_by).values()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert set(client.run(held_by).values()) == {0}


@pytest.mark.slow
def test_nothing_is_left_on_the_cluster(client, frame):
    def interrupt(number: int, _: object) -> None:
        if number == 2:
            signal.raise_signal(signal.SIGINT)

    nothing = frame.with_columns(amount=pl.lit(None, pl.Float64))
    with pytest.raises(fb.ParameterError, match=r"shards=2 divides rows of this process; set engine=fb.Dask\(...,"):
        fb.fit(frame, "amount", engine=fb.Dask(client), shards=2, **OPTIONS)
    with pytest.raises(fb.DataError, match="target 'amount' has no label in any row"):
        fb.fit(nothing, "amount", engine=fb.Dask(client), **OPTIONS)
    with pytest.raises(ZeroDivisionError):
        fb.fit(frame, "amount", engine=fb.Dask(client), callbacks=[lambda *_: 1 / 0], **OPTIONS)
    with pytest.raises(KeyboardInterrupt):
        fb.fit(frame, "amount", engine=fb.Dask(client), callbacks=[interrupt], **OPTIONS)
    assert_nothing_is_held(client)


@pytest.mark.slow
def test_estimators_are_cloned_and_pickled(client, frame):
    pytest.importorskip("sklearn")
    from sklearn.base import clone

    from frameboost.sklearn import FrameBoostRegressor

    features, target = frame.select("float64", "int16"), frame["amount"]
    estimator = FrameBoostRegressor(n_estimators=2, engine=fb.Dask(client))
    trained = clone(estimator).fit(features, target)
    expected = FrameBoostRegressor(n_estimators=2).fit(features, target).predict(features)
    assert (pickle.loads(pickle.dumps(trained)).predict(features) == expected).all()
    with pytest.raises(fb.ParameterError, match=r"the client of fb.Dask must be a distributed.Client, not None"):
        pickle.loads(pickle.dumps(estimator)).fit(features, target)


def test_other_versions_are_refused():
    own = {"frameboost": "0.1.0", "polars": "2.0"}
    check_versions(own, {"tcp://x": own, "tcp://y": OSError("connection lost")})
    with pytest.raises(fb.ClusterError, match=r"worker tcp://x has polars 1.0, but here it is 2.0; install the same"):
        check_versions(own, {"tcp://y": own, "tcp://x": own | {"polars": "1.0"}})
    with pytest.raises(fb.ClusterError, match=r"worker tcp://x can't import .*No module named 'frameboost'"):
        check_versions(own, {"tcp://x": ModuleNotFoundError("No module named 'frameboost'")})


@pytest.mark.slow
def test_a_cluster_without_workers_is_refused(frame):
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=50) as empty,
        distributed.Client(empty) as client,
        pytest.raises(fb.ClusterError, match="the Dask cluster has no worker, and none came within 1 seconds"),
    ):
        fb.fit(frame, "amount", engine=fb.Dask(client, worker_timeout="1s"), **OPTIONS)


@cases(("engine", "says"), [
    (fb.Dask("tcp://127.0.0.1:8786"), "the client of fb.Dask must be a distributed.Client, not 'tcp://127.0.0.1:8786'"),
    (fb.Dask, "engine must be one of"),
    (fb.Dask(None, engine="sqlite"), "engine must be one of"),
])  # fmt: skip
def test_what_is_no_client_is_refused(frame, engine, says):
    with pytest.raises(fb.ParameterError) as error:
        fb.fit(frame, "amount", engine=engine, **SHAPE)
    assert says in str(error.value)


@pytest.mark.slow
def test_a_client_that_is_not_the_default_one(cluster, client, frame):
    with distributed.Client(cluster, set_as_default=False) as other:
        model = fb.fit(frame, "amount", engine=fb.Dask(other, engine="auto"), **OPTIONS)
        assert model == fb.fit(frame, "amount", **OPTIONS)
        for callbacks in ([lambda *_: other.close()], []):  # in mid-fit, and before
            with pytest.raises(fb.ClusterError, match="the Dask client is closed"):
                fb.fit(frame, "amount", engine=fb.Dask(other), callbacks=callbacks, **OPTIONS)


@pytest.mark.slow
def test_a_file_that_is_gone_when_it_must_be_read_again(killer, client, frame, tmp_path):
    path = tmp_path / "rows.parquet"
    frame.select(*FEATURES, "amount").write_parquet(path)
    callbacks = [lambda *_: path.unlink(missing_ok=True), killer(1)]
    with pytest.raises(fb.DataError, match=r"the rows of a shard can't be read: No such file .*rows.parquet"):
        fb.fit(path, "amount", engine=fb.Dask(client), callbacks=callbacks, **OPTIONS)
    client.wait_for_workers(2)
