"""The shards of a Spark job, each in the task that holds its rows."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import accumulate

from frameboost.engines.dask.cluster import check_versions
from frameboost.engines.dask.pool import DaskShard, DaskShards
from frameboost.engines.dask.worker import ShardPlan, versions
from frameboost.engines.description import EngineDescription
from frameboost.engines.spark.job import SparkJob
from frameboost.engines.spark.task import Content
from frameboost.errors import ClusterError
from frameboost.expressions.draws import RowPositions

__all__ = ["SparkShards", "difference"]

# How long Spark may take to try a task again, which reads its rows once more.
_SECONDS_WITHOUT_TASK, _SECONDS_BETWEEN_LOOKS = 600, 0.05


class SparkShards(DaskShards):
    """`ShardPool` of actors in the tasks of a job, which hold a partition each.

    Parameters
    ----------
    job
        The job, which is ended with the shards.
    engine
        The engine of every shard.
    plan
        The plan of every shard.
    timeout
        How many seconds Spark may take to try a task again; None for `_SECONDS_WITHOUT_TASK`.
    in_order
        Whether the model depends on the order of the rows.
    """

    def __init__(
        self, job: SparkJob, engine: EngineDescription, plan: ShardPlan, timeout: float | None, *, in_order: bool
    ) -> None:  # fmt: skip
        self._job = job
        self._in_order = in_order
        try:
            self._contents = job.wait()
            check_versions(versions(), job.client.run(versions, on_error="return"))
        except BaseException:
            job.close()
            raise
        super().__init__(job.client, engine, _SECONDS_WITHOUT_TASK if timeout is None else timeout)
        self.open([plan] * len(self._contents))

    def positions(self, counts: Sequence[int]) -> list[RowPositions]:
        """See `ShardPool.places`; Spark may give a task partitions of the DataFrame that do not follow each other."""
        sizes = dict(sorted(part for content in self._contents for part in content.parts))
        starts = dict(zip(sizes, accumulate(sizes.values(), initial=0), strict=False))
        return [_positions(self._contents[shard.number].parts, starts) for shard in self._shards]

    def _worker_for(self, shard: DaskShard, besides: str | None) -> str:
        """Return the worker that holds the shard's rows; wait until Spark has tried a lost task again."""
        deadline = time.monotonic() + self._timeout
        while time.monotonic() < deadline:
            self._check_client()
            address = self._job.addresses().get(shard.number)
            if address is not None and address != besides:
                self._check_content(shard, address)
                return address
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        raise ClusterError(
            f"the task of partition {shard.number + 1} of {len(self._contents)} was lost, and Spark did not try it "
            f"again within {self._timeout:g} seconds (task_timeout)"
        )

    def _check_content(self, shard: DaskShard, address: str) -> None:
        """Raise `ClusterError` if a task that was tried again has read other rows."""
        before, now = self._contents[shard.number], self._job.content(address)
        is_binned = any(call.method == "bin_columns" for call in shard.log.calls())
        found = "" if now is None else difference(before, now, in_order=self._in_order or not is_binned)
        if found:
            raise ClusterError(
                f"partition {shard.number + 1} of {len(self._contents)} was read again, after its task was lost, and "
                f"had {found}; write the DataFrame to a table first"
            )

    def _check_client(self) -> None:
        self._job.check()
        super()._check_client()

    def close(self) -> None:
        """See `ShardPool.close`."""
        try:
            super().close()
        finally:
            self._job.close()


def difference(before: Content, now: Content, *, in_order: bool) -> str:
    """Return what rows have that were read again, if they are not those that were there; ``in_order``, also if moved.

    >>> first = Content(n_rows=2, rows=11, order=17, parts=((0, 2),))
    >>> moved = Content(n_rows=2, rows=11, order=16, parts=((0, 2),))
    >>> difference(first, moved, in_order=False), difference(first, moved, in_order=True)
    ('', 'its rows in another order, by which they are drawn')
    >>> difference(first, moved._replace(rows=12), in_order=False)
    'other rows'
    >>> difference(first, Content(3, 20, 30, ((0, 3),)), in_order=False)
    '3 rows where it had 2'
    """
    if now.n_rows != before.n_rows:
        return f"{now.n_rows:,} rows where it had {before.n_rows:,}"
    if now.rows != before.rows:
        return "other rows"
    return "its rows in another order, by which they are drawn" if in_order and now != before else ""


def _positions(parts: Sequence[tuple[int, int]], starts: Mapping[int, int]) -> RowPositions:
    """Return the positions of rows, given the partitions that they are of and where each begins among all rows.

    >>> _places([(0, 3), (1, 2), (7, 4)], {0: 0, 1: 3, 5: 5, 7: 25})
    RowPositions(runs=((0, 0), (5, 25)))
    """
    runs: list[tuple[int, int]] = []
    row = 0
    for partition, count in parts:
        start = starts[partition]
        if not runs or start - row != runs[-1][1] - runs[-1][0]:
            runs.append((row, start))
        row += count
    return RowPositions(tuple(runs))
