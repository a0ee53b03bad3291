"""``fit(engine=fb.Dask(client))``: shards on the workers of the user's Dask cluster."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from frameboost.checks.messages import reason, shown
from frameboost.data.connections import OpenedConnection
from frameboost.data.dask_source import PartitionedSource, PartitionReader
from frameboost.data.database_table import DatabaseTable
from frameboost.data.sources import FrameSource
from frameboost.engines.contract import DataKind, EngineDescription, EngineRequest, HistogramEngine
from frameboost.engines.shards.engine import ShardedEngine
from frameboost.engines.shards.memory_plan import MAX_SHARDS, fewest_shards, need_of, reads_columns
from frameboost.engines.shards.opening import columns_of, divided, evenly, name_of
from frameboost.errors import ClusterError, ParameterError

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from distributed import Client

    from frameboost.engines.dask.pool import DaskShards
    from frameboost.engines.dask.worker import Room

__all__ = ["Dask", "check_versions", "seconds"]


@dataclass(frozen=True)
class Dask:
    """A Dask cluster as an engine: the workers train on shards of the rows, and the model is that of one machine.

    Shards are actors that keep codes and margins in the memory of the workers; only histograms, counts and splits cross
    the network. If a worker is lost, another one reads, bins and replays its shard, and the model is the same.

    Parameters
    ----------
    client
        A client of ``dask.distributed`` (extra ``dask``).
    engine
        The engine of each shard: ``numba`` (also ``auto``), ``polars`` or ``duckdb``.
    shards
        The number of shards; by default one per worker, or more if a worker can load only part of its rows at a time.
    worker_timeout
        How long to wait for a worker at the start or after all are lost: seconds, or a Dask time such as ``"5
        minutes"``.

    Examples
    --------
    >>> import frameboost as fb, polars as pl
    >>> from distributed import Client
    >>> with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:  # doctest: +SKIP
    ...     model = fb.fit([pl.scan_parquet("2012.parquet"), pl.scan_parquet("2013.parquet")], "delay",
    ...                    engine=fb.Dask(client))
    """

    client: Client
    engine: str = "numba"
    shards: int | None = None
    worker_timeout: float | str = 60.0

    def __deepcopy__(self, memo: object) -> Dask:
        """Return itself, so that copies of an estimator (`sklearn.base.clone`) train on the same cluster."""
        return self

    def __reduce__(self) -> tuple[type[Dask], tuple[None, str, int | None, float | str]]:
        """Drop the client when pickled, so that a trained estimator loads without a cluster."""
        return Dask, (None, self.engine, self.shards, self.worker_timeout)

    @classmethod
    def of_default_client(cls) -> Dask:
        """Return the engine for Dask's default client.

        Raises
        ------
        ParameterError
            If there is none.
        """
        try:
            from distributed import get_client

            return cls(get_client())
        except (ImportError, ValueError) as error:
            raise ParameterError("a Dask DataFrame needs engine=fb.Dask(client), with a distributed.Client") from error

    def describe(self, engine: EngineDescription) -> EngineDescription:
        """Return the engine description of the cluster from that of each shard.

        Raises
        ------
        ParameterError
            If an argument has a wrong type or value, or ``distributed`` is not installed.
        """
        try:
            import distributed
        except ImportError as error:
            raise ParameterError("fb.Dask needs dask.distributed: pip install 'frameboost[dask]'") from error
        if not isinstance(self.client, distributed.Client):
            raise ParameterError(f"the client of fb.Dask must be a distributed.Client, not {shown(self.client)}")
        if self.client.asynchronous:
            raise ParameterError("the client of fb.Dask is asynchronous; make one with asynchronous=False")
        if self.shards is not None and (type(self.shards) is not int or self.shards < 1):
            raise ParameterError(f"the shards of fb.Dask must be an integer of at least 1, not {shown(self.shards)}")
        openers = {
            HistogramEngine: partial(self._open, engine, seconds(self.worker_timeout, "worker_timeout of fb.Dask"))
        }
        in_database: tuple[DataKind, ...] = ("database",) if "database" in engine.data else ()
        data: tuple[DataKind, ...] = ("frame", "relation", "partitions", *in_database)
        return EngineDescription("dask", openers, data, threads_set_by="the workers' nthreads")

    def _open(self, engine: EngineDescription, timeout: float, request: EngineRequest) -> ShardedEngine:
        from frameboost.engines.dask.pool import DaskShards

        self._check_client()
        source = request.source
        if isinstance(source, DatabaseTable) and not isinstance(source.connection, OpenedConnection):
            raise ParameterError(
                "the workers of a Dask cluster open connections of their own; pass fb.table a function that opens one, "
                "such as fb.table(lambda: psycopg.connect(...), ...)"
            )
        pool = DaskShards(self.client, engine, timeout)
        try:
            names = self._fill(pool, engine, request)
        except BaseException:
            pool.close()
            raise
        return ShardedEngine(pool, request.features, request.roles, names, columns_of(request))

    def _fill(self, pool: DaskShards, engine: EngineDescription, request: EngineRequest) -> list[str]:
        """Divide the rows among the workers; return the names of the shards' rows for messages."""
        from frameboost.engines.dask.worker import ShardPlan

        opener, roles = engine.openers[HistogramEngine], dict(request.roles)
        fits_files = engine.uses_storage and reads_columns(request.source)
        n_shards, n_all = self._n_shards(pool.rooms(self.shards), request, fits_files=fits_files)
        partitions: list[list[Delayed]] | None = None
        rows: Sequence[FrameSource | DatabaseTable | PartitionReader]
        if isinstance(request.source, PartitionedSource):
            delayed, reader = request.source.read_by(request.columns())
            bounds = evenly(len(delayed), min(n_shards, len(delayed)))
            partitions = [delayed[a:b] for a, b in bounds]
            rows = [replace(reader, first=a + 1) for a, _ in bounds]
            names = [name_of([f"partition {number + 1}" for number in range(a, b)]) for a, b in bounds]
        else:
            rows, names = divided(request, n_shards)
        shared = request.features, roles, request.parameters, fits_files, n_all
        pool.open([ShardPlan(opener, rows_of_shard, *shared) for rows_of_shard in rows], partitions)
        return names

    def _n_shards(self, rooms: Sequence[Room], request: EngineRequest, *, fits_files: bool) -> tuple[int, int]:
        """Return the number of shards, and the number of rows, 0 if counting them would mean reading them.

        Raises
        ------
        ClusterError
            If the rows do not fit into the workers' memory in any division.
        """
        from frameboost.engines.dask.worker import no_room

        source, n_workers = request.source, len(rooms)
        if not isinstance(source, FrameSource | DatabaseTable) or isinstance(source, PartitionedSource):
            return self.shards or n_workers, 0
        if isinstance(source, FrameSource) and source.are_files and not source.are_columnar:
            return self.shards or n_workers, 0
        n_rows = source.count_rows()
        left = [(1 << 62 if room.left is None else room.left, room.n_threads) for room in rooms]
        fewest = fewest_shards(request, n_rows, left, fits_files=fits_files)
        n_shards = self.shards or fewest or n_workers * MAX_SHARDS
        counts = [-(-n_rows // n_shards)] * -(-n_shards // n_workers)
        tightest = min(rooms, key=lambda room: room.left or 0)
        remedy = f", or shards={fewest}" if fewest and self.shards and fewest > self.shards else ""
        need = need_of(request, counts, n_rows, tightest.n_threads)
        if message := no_room(tightest, need, counts, request, fits_files=fits_files, remedy=remedy):
            raise ClusterError(message)
        return n_shards, n_rows

    def _check_client(self) -> None:
        from frameboost.engines.dask.worker import versions

        if self.client.status != "running":
            raise ClusterError(f"the Dask client is {self.client.status}; pass one that is connected to its scheduler")
        check_versions(versions(), self.client.run(versions, on_error="return"))


def seconds(timeout: float | str, argument: str) -> float:
    """Return a timeout in seconds; ``argument`` is its name in messages."""
    from dask.utils import parse_timedelta

    try:
        number = float(parse_timedelta(timeout))
    except (KeyError, TypeError, ValueError):
        number = math.nan
    if isinstance(timeout, bool) or not number > 0:
        raise ParameterError(
            f"the {argument} must be a number of seconds above 0, or such as '5 minutes', not {shown(timeout)}"
        )
    return number


def check_versions(expected: Mapping[str, str], of_workers: Mapping[str, Mapping[str, str] | Exception]) -> None:
    """Raise `ClusterError` if a worker lacks a package that the model depends on, or has another version of it."""
    for address, versions in of_workers.items():
        if isinstance(versions, ImportError):
            raise ClusterError(f"worker {address} can't import what it needs ({reason(versions)}); install it there")
        if isinstance(versions, Exception):  # the worker has gone meanwhile
            continue
        for name, version in expected.items():
            if versions[name] != version:
                raise ClusterError(
                    f"worker {address} has {name} {versions[name]}, but here it is {version}; install the same version"
                )
