"""The code in a Spark task: a Dask worker that holds the rows of a partition."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from frameboost.checks.messages import shown
from frameboost.engines.dask.worker import hold_rows

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Content", "content", "end", "hold", "parse_name", "serve"]

_SECONDS_TO_CONNECT = 60
_SECONDS_BETWEEN_LOOKS = 0.05


class Content(NamedTuple):
    """The fingerprint of rows.

    Attributes
    ----------
    n_rows
        Their number.
    rows
        A sum of hashes, independent of row order.
    order
        A sum of hashes that depends on row order.
    parts
        The partitions of the rows in the DataFrame, in order, with the number of rows of each.
    """

    n_rows: int
    rows: int
    order: int
    parts: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, frame: pl.DataFrame, partitions: pl.Series) -> Content:
        """Return the content of a frame, from the partition of each row."""
        parts = tuple((run["value"], run["len"]) for run in partitions.rle().struct.unnest().iter_rows(named=True))
        hashes = frame.hash_rows(seed=0).to_numpy()
        indices = np.arange(1, 2 * len(hashes), 2, dtype=np.uint64)
        in_order = int((hashes * indices).sum(dtype=np.uint64))
        return cls(len(hashes), int(hashes.sum(dtype=np.uint64)), in_order, parts)


class _Task:
    """The task that this process executes."""

    content: Content | None = None
    is_over = False


def content() -> Content | None:
    """Return the content of this task's rows, for the driver."""
    return _Task.content


def end() -> None:
    """End this task, on request of the driver."""
    _Task.is_over = True


def parse_name(name: str) -> tuple[int, int]:
    """Return the stage and the partition of a worker."""
    stage, _, partition = name.partition("/")
    return int(stage), int(partition)


def hold(batches: Iterator[pa.RecordBatch], schema: pa.Schema, names: Sequence[str], scheduler: str) -> None:
    """Read the rows of this task's partition, and serve as a worker until the driver ends the fit.

    Parameters
    ----------
    batches
        The rows.
    schema
        The types of the columns, in order.
    names
        Their names.
    scheduler
        The address of the driver's scheduler.

    Raises
    ------
    RuntimeError
        If the driver is lost or has given up this worker, so that Spark retries the task.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    frame, partitions = _read(batches, schema, names)
    _Task.content, _Task.is_over = Content.of(frame, partitions), False
    hold_rows(frame.lazy())
    del frame
    try:
        name = f"{context.stageId()}/{context.partitionId()}"
        asyncio.run(serve(scheduler, name, context.cpus(), is_copy=context.attemptNumber() > 0))
    finally:
        hold_rows(None)  # Spark runs other tasks in this process


def _read(batches: Iterator[pa.RecordBatch], schema: pa.Schema, names: Sequence[str]) -> tuple[pl.DataFrame, pl.Series]:
    """Return the rows and, from the last column, their partitions."""
    import pyarrow as pa

    positions = [str(i) for i in range(len(names))]  # names of Spark may be twice there but for their case
    types = pa.schema([*zip(positions, schema.types, strict=True), ("partition", pa.int32())])
    read = [pa.RecordBatch.from_arrays(batch.columns, types.names) for batch in batches]
    table = pa.Table.from_batches(read, read[0].schema if read else types).cast(types)
    for name, kind, values in zip(names, schema.types, table.columns, strict=False):
        if pa.types.is_string(kind):
            try:
                values.validate(full=True)
            except pa.ArrowInvalid as error:  # polars does not look, and crashes later
                raise ValueError(f"column {shown(name)} holds text that is not UTF-8; decode it first") from error
    frame = pl.DataFrame(table)
    return frame.select(pl.col(i).alias(name) for i, name in zip(positions, names, strict=True)), frame["partition"]


async def serve(scheduler: str, name: str, n_threads: int, *, is_copy: bool) -> None:
    """Serve as a Dask worker until the driver ends the fit.

    Spark may start a second task for a partition. A speculative copy of a slow task waits for the end of the other. A
    task of another stage attempt, after shuffle data was lost as well, replaces the other, which fails: Spark retries
    only tasks of the last attempt, and a successful end would count as the partition's result.

    Parameters
    ----------
    scheduler
        The address of the driver's scheduler.
    name
        The name of the partition; each has one worker.
    n_threads
        The threads of the worker.
    is_copy
        Whether this stage attempt already had a task for the partition.
    """
    from distributed import Status, Worker, rpc

    async with rpc(scheduler) as driver:  # type: ignore[no-untyped-call]
        while others := await _serving(driver, name):
            if is_copy:
                await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
                continue
            for address in others:
                await driver.unregister(address=address, stimulus_id=f"{name} again", close=True)
    with tempfile.TemporaryDirectory() as folder:
        async with Worker(
            scheduler, name=name, nthreads=n_threads, memory_limit=0, local_directory=folder,
            death_timeout=_SECONDS_TO_CONNECT, dashboard=False,
        ) as worker:  # fmt: skip
            while not _Task.is_over:
                if worker.status not in (Status.running, Status.paused):
                    raise RuntimeError(f"the worker of frameboost is {worker.status.name}, but the fit goes on")
                await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)


async def _serving(driver: Any, name: str) -> list[str]:
    """Return the addresses of workers that serve a partition."""
    try:
        workers = (await driver.identity(n_workers=-1))["workers"]
    except OSError as error:
        raise RuntimeError(
            f"this executor can't connect to the process that called fit, at {driver.address}; use a network in which "
            "it can"
        ) from error
    return [address for address, worker in workers.items() if worker["name"] == name]
