"""What a task of Spark does besides reading: tell rows apart, and serve once for each partition."""

import asyncio
import re

import polars as pl
import pytest

import frameboost as fb

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
pytest.importorskip("pyspark")

from frameboost.engines.spark import job, task  # noqa: E402


def content(rows, partitions):
    return task.Content.of(
        pl.DataFrame(rows, schema={"x": pl.Int64, "s": pl.String}, orient="row"), pl.Series(partitions)
    )


def test_rows_are_told_apart():
    first = content([(1, "a"), (2, None), (3, "")], [0, 0, 4])
    assert first == content([(1, "a"), (2, None), (3, "")], [0, 0, 4])
    assert (first.n_rows, first.parts) == (3, ((0, 2), (4, 1)))
    moved = content([(2, None), (1, "a"), (3, "")], [0, 0, 4])
    assert (moved.rows, moved.parts) == (first.rows, first.parts)
    assert moved.order != first.order
    for other in ([(1, "a"), (2, ""), (3, "")], [(1, "a"), (2, None)], [(1, "a"), (2, None), (3, ""), (3, "")]):
        assert content(other, [0] * len(other)).rows != first.rows
    assert content([], []).parts == ()


async def two_tasks(*, is_copy):
    """Return the workers that serve a partition after its second task has started, and what became of the first."""
    async with distributed.Scheduler(dashboard_address=":0", port=0, host="127.0.0.1") as scheduler:
        first = asyncio.create_task(task.serve(scheduler.address, "7/0", 1, is_copy=False))
        while not scheduler.workers:
            await asyncio.sleep(0.01)
        [address] = scheduler.workers
        second = asyncio.create_task(task.serve(scheduler.address, "7/0", 1, is_copy=is_copy))
        await asyncio.wait([first, second], timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
        while not scheduler.workers:
            await asyncio.sleep(0.01)
        serving = [(worker.name, worker.address == address) for worker in scheduler.workers.values()]
        task.end()
        return serving, *await asyncio.wait_for(asyncio.gather(first, second, return_exceptions=True), 10)


@pytest.mark.slow
@pytest.mark.parametrize("is_copy", [False, True])
def test_one_task_serves_a_partition(is_copy, monkeypatch):
    monkeypatch.setattr(task._Task, "is_over", False)
    serving, first, second = asyncio.run(two_tasks(is_copy=is_copy))
    assert serving == [("7/0", is_copy)]
    assert second is None
    assert (first is None) == is_copy
    if not is_copy:
        assert re.search("the worker of frameboost is clos.*, but the fit goes on", str(first))


async def given_up():
    async with distributed.Scheduler(dashboard_address=":0", port=0, host="127.0.0.1") as scheduler:
        first = asyncio.create_task(task.serve(scheduler.address, "7/0", 1, is_copy=False))
        while not scheduler.workers:
            await asyncio.sleep(0.01)
        await scheduler.remove_worker(next(iter(scheduler.workers)), stimulus_id="test", close=True)
        await asyncio.wait_for(first, 10)


def test_a_worker_that_is_given_up_is_tried_again(monkeypatch):
    monkeypatch.setattr(task._Task, "is_over", False)
    with pytest.raises(RuntimeError, match=r"the worker of frameboost is clos.*, but the fit goes on"):
        asyncio.run(given_up())


def test_a_driver_that_cannot_be_reached_is_told():
    soon = dask.config.set({"distributed.comm.timeouts.connect": "100ms"})
    with soon, pytest.raises(RuntimeError, match="this executor can't connect to the process that called fit, at tcp:"):
        asyncio.run(task.serve("tcp://127.0.0.1:9", "7/0", 1, is_copy=False))


def test_an_address_of_another_machine_is_told():
    with pytest.raises(fb.ClusterError, match=r"executors would connect to 192\.0\.2\.77, at which this process can't"):
        job._check_host("192.0.2.77")


@pytest.mark.parametrize("shards", [0, "2", True])
def test_shards_are_checked(shards):
    with pytest.raises(fb.ParameterError, match=r"the shards of fb\.Spark must be an integer of at least 1, not"):
        fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 1]}), "y", engine=fb.Spark(shards=shards))
