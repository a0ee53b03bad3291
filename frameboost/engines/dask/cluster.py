"""``fit(engine=fb.Dask(client))``: shards on the workers of the user's Dask cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from frameboost.checks.messages import reason, shown
from frameboost.data.partitions import PartitionedSource, PartitionReader
from frameboost.data.sources import FrameSource
from frameboost.engines.contract import HistogramEngine
from frameboost.engines.description import DataKind, EngineDescription, EngineRequest
from frameboost.engines.shards.engine import ShardedEngine
from frameboost.engines.shards.opening import divided, evenly, name_of
from frameboost.errors import ClusterError, ParameterError

if TYPE_CHECKING:
    import polars as pl
    from dask.delayed import Delayed
    from distributed import Client

__all__ = ["Dask", "check_versions"]


@dataclass(frozen=True)
class Dask:
    """A Dask cluster as an engine: each worker trains on some of the rows, to the model of one machine.

    Shards are actors that hold codes and margins in the workers' memory; only histograms, counts and splits travel. A
    shard whose worker is lost is read, binned and replayed on another one, and the model is the same.

    Parameters
    ----------
    client
        A client of ``dask.distributed`` (extra ``dask``).
    engine
        The engine of each shard: ``numba`` (as ``auto`` is too), ``polars`` or ``duckdb``.
    shards
        The number of shards, by default one for each worker.

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

    def __deepcopy__(self, memo: object) -> Dask:
        """Return itself: copies of an estimator, which scikit-learn makes, train on the same cluster."""
        return self

    def __reduce__(self) -> tuple[type[Dask], tuple[None, str, int | None]]:
        """Leave the client out of a pickle: a trained estimator can be loaded where there is no cluster."""
        return Dask, (None, self.engine, self.shards)

    @classmethod
    def of_default_client(cls) -> Dask:
        """Return the engine of the client that Dask itself would use.

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
        """Return the description of the cluster as an engine, given that of each shard.

        Raises
        ------
        ParameterError
            If an argument is not what it must be, or ``distributed`` is not installed.
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
        openers = {HistogramEngine: partial(self._open, engine)}
        data: tuple[DataKind, ...] = ("frame", "relation", "partitions")
        return EngineDescription("dask", openers, data, threads_set_by="the workers' nthreads")

    def _open(self, engine: EngineDescription, request: EngineRequest) -> ShardedEngine:
        from frameboost.engines.dask.pool import DaskShards
        from frameboost.engines.dask.worker import ShardPlan

        self._check_client()
        n_shards = self.shards or len(self.client.nthreads()) or 1  # type: ignore[no-untyped-call]
        opener, roles = engine.openers[HistogramEngine], dict(request.roles)
        partitions: list[list[Delayed]] | None = None
        rows: Sequence[pl.LazyFrame | PartitionReader]
        if isinstance(request.source, PartitionedSource):
            delayed, reader = request.source.read_by(request.columns())
            bounds = evenly(len(delayed), min(n_shards, len(delayed)))
            partitions = [delayed[a:b] for a, b in bounds]
            rows = [replace(reader, first=a + 1) for a, _ in bounds]
            names = [name_of([f"partition {number + 1}" for number in range(a, b)]) for a, b in bounds]
        else:
            rows, names = divided(request, n_shards)
        fits_files = engine.uses_storage and isinstance(request.source, FrameSource) and request.source.are_columnar
        plans = [ShardPlan(opener, own, request.features, roles, request.parameters, fits_files) for own in rows]
        return ShardedEngine(DaskShards(self.client, plans, partitions), request.features, request.roles, names)

    def _check_client(self) -> None:
        from frameboost.engines.dask.worker import versions

        if self.client.status != "running":
            raise ClusterError(f"the Dask client is {self.client.status}; give one that is connected to its scheduler")
        check_versions(versions(), self.client.run(versions, on_error="return"))


def check_versions(own: Mapping[str, str], of_workers: Mapping[str, Mapping[str, str] | Exception]) -> None:
    """Raise `ClusterError` if a worker has another version of something that the model depends on, or lacks it."""
    for address, found in of_workers.items():
        if isinstance(found, ImportError):
            raise ClusterError(f"worker {address} can't import what it needs ({reason(found)}); install it there")
        if isinstance(found, Exception):  # the worker has gone meanwhile
            continue
        for name, version in own.items():
            if found[name] != version:
                raise ClusterError(
                    f"worker {address} has {name} {found[name]}, but here it is {version}; install the same version"
                )
