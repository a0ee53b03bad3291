"""The shards of a Spark job, each in the task that holds its rows."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import accumulate

from frameboost.engines.dask.cluster import check_versions
from frameboost.engines.dask.pool import DaskShard, DaskShards
from frameboost.engines.dask.worker import ShardPlan, versions
from frameboost.engines.spark.job import SparkJob
from frameboost.errors import ClusterError
from frameboost.expressions.places import Places

__all__ = ["SparkShards"]

# How long Spark may take to try a task again, which reads its rows once more.
_SECONDS_WITHOUT_TASK, _SECONDS_BETWEEN_LOOKS = 600, 0.05


class SparkShards(DaskShards):
    """`ShardPool` of actors in the tasks of a job, which hold a partition each.

    Parameters
    ----------
    job
        The job, which is ended with the shards.
    plan
        The plan of every shard.
    in_order
        Whether the model depends on the order of the rows.
    """

    def __init__(self, job: SparkJob, plan: ShardPlan, *, in_order: bool) -> None:
        self._job = job
        self._in_order = in_order
        try:
            self._contents = job.wait()
            check_versions(versions(), job.client.run(versions, on_error="return"))
        except BaseException:
            job.close()
            raise
        super().__init__(job.client, [plan] * len(self._contents))

    def places(self, counts: Sequence[int]) -> list[Places]:
        """See `ShardPool.places`; Spark may give a task partitions of the DataFrame that do not follow each other."""
        sizes = dict(sorted(part for content in self._contents for part in content.parts))
        starts = dict(zip(sizes, accumulate(sizes.values(), initial=0), strict=False))
        return [_places(self._contents[shard.number].parts, starts) for shard in self._shards]

    def _worker_for(self, shard: DaskShard, besides: str | None) -> str:
        """Return the worker that holds the shard's rows; wait until Spark has tried a lost task again."""
        deadline = time.monotonic() + _SECONDS_WITHOUT_TASK
        while time.monotonic() < deadline:
            self._check_client()
            address = self._job.addresses().get(shard.number)
            if address is not None and address != besides:
                self._check_content(shard, address)
                return address
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        raise ClusterError(
            f"the task of partition {shard.number + 1} of {len(self._contents)} was lost, and Spark did not try it "
            f"again within {_SECONDS_WITHOUT_TASK} seconds"
        )

    def _check_content(self, shard: DaskShard, address: str) -> None:
        """Raise `ClusterError` if a task that was tried again has read other rows."""
        before, now = self._contents[shard.number], self._job.content(address)
        if now is None or now == before:
            return
        which = f"partition {shard.number + 1} of {len(self._contents)} was read again, after its task was lost, and"
        if now.n_rows != before.n_rows:
            raise ClusterError(
                f"{which} had {now.n_rows:,} rows where it had {before.n_rows:,}; write the DataFrame to a table first"
            )
        if now.rows != before.rows:
            raise ClusterError(f"{which} had other rows; write the DataFrame to a table first")
        is_binned = any(call.method == "bin_columns" for call in shard.log.calls())
        if self._in_order or not is_binned:
            raise ClusterError(
                f"{which} had its rows in another order, by which they are drawn; write the DataFrame to a table first"
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


def _places(parts: Sequence[tuple[int, int]], starts: Mapping[int, int]) -> Places:
    """Return the positions of rows, given the partitions that they are of and where each begins among all rows.

    >>> _places([(0, 3), (1, 2), (7, 4)], {0: 0, 1: 3, 5: 5, 7: 25})
    Places(runs=((0, 0), (5, 25)))
    """
    runs: list[tuple[int, int]] = []
    row = 0
    for partition, count in parts:
        start = starts[partition]
        if not runs or start - row != runs[-1][1] - runs[-1][0]:
            runs.append((row, start))
        row += count
    return Places(tuple(runs))
