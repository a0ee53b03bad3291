"""The code on a Dask worker: an actor that holds its shards."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.bins import SlotLayout
from frameboost.checks.messages import counted
from frameboost.data.dask_source import PartitionReader
from frameboost.data.database_table import DatabaseTable
from frameboost.data.sources import FrameSource
from frameboost.engines.contract import EngineRequest, ShardEngine
from frameboost.engines.shards.engine import ShardedEngine, merged
from frameboost.engines.shards.memory_plan import Need, need_of, storage_within
from frameboost.engines.shards.shard import Call, LocalShards, Shard
from frameboost.errors import ClusterError
from frameboost.expressions.expression import Expression
from frameboost.parameters.parameters import Parameters
from frameboost.runtime.storage import IN_MEMORY, FileStorage, MemoryBudget, Storage
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature, FeatureType
from frameboost.splits.split import FloatArray, Split
from frameboost.version import __version__

__all__ = [
    "LOST", "Order", "Outcome", "Relay", "Room", "ShardActor", "ShardPlan", "Source", "hand_over", "hold_rows",
    "no_room", "packed", "unpacked", "versions",
]  # fmt: skip

_MAX_FULL = 0.75  # of the bins of histograms; above it packing takes longer than it saves


@dataclass(frozen=True)
class ShardPlan:
    """The plan to open a shard.

    Attributes
    ----------
    open
        A function that opens its engine.
    rows
        The rows, or a reader of partitions that the actor receives; None for rows that the process holds (see
        `hold_rows`).
    features, roles, parameters
        As of `EngineRequest`.
    fits_files
        Whether arrays may be in files: the engine supports it, and single columns can be read.
    n_all
        The number of rows of all shards, 0 if unknown.
    """

    open: Callable[[EngineRequest], ShardEngine]
    rows: FrameSource | DatabaseTable | PartitionReader | None
    features: tuple[Feature, ...]
    roles: Mapping[str, str]
    parameters: Parameters
    fits_files: bool = False
    n_all: int = 0


@dataclass(frozen=True)
class Order:
    """Calls of one shard; with a plan, the shard is opened first, ``in_files`` if memory might not suffice."""

    number: int
    calls: Sequence[Call]
    plan: ShardPlan | None = None
    in_files: bool = False


@dataclass(frozen=True)
class Relay:
    """Orders for another worker, and for those that it passes on."""

    actor: Any
    orders: Sequence[Order]
    relays: Sequence[Relay] = ()


@dataclass(frozen=True)
class Source:
    """Another worker, by its actor, and the indices of its shards."""

    actor: Any
    numbers: Sequence[int]


@dataclass(frozen=True)
class Outcome:
    """The outcome of orders.

    Attributes
    ----------
    results
        The result of each shard's last call; sums are merged.
    error
        The error that ended the calls, unless it is one of the cluster.
    lost
        The lost workers, by the first shard's index in their orders.
    """

    results: Sequence[Any] = ()
    error: BaseException | None = None
    lost: Sequence[int] = ()


# Raised by an actor whose worker is gone: by the connection, or by the scheduler that knows of it.
LOST = (OSError, RuntimeError, TimeoutError)


class ShardActor:
    """Holds the shards of one worker between calls.

    Parameters
    ----------
    n_threads
        Threads of the worker.
    n_processes
        The workers on its machine.
    opener
        A function that opens the engine of a shard.
    uses_storage
        Whether its arrays may be in files.
    """

    def __init__(
        self, n_threads: int, n_processes: int, opener: Callable[[EngineRequest], ShardEngine], *, uses_storage: bool
    ) -> None:
        with suppress(Exception):  # which the fit itself would tell
            _load_kernels(opener, n_threads, uses_storage=uses_storage)
        self._n_threads = n_threads
        self._memory = _WorkerMemory.now()
        self._budget = _budgets.setdefault(
            self._memory.worker, MemoryBudget(self._memory.left(self._memory.pauses_at), n_processes)
        )
        self._storages: dict[int, Storage] = {}
        self._shards: dict[int, Shard] = {}
        self._partitions: dict[int, Sequence[Any]] = {}
        self._gathered: dict[int, list[pl.DataFrame]] = {}  # pieces of other workers' tables

    def run(self, orders: Sequence[Order], relays: Sequence[Relay] = ()) -> Outcome:
        """Execute orders, and add the sums that other workers return for theirs.

        The shards take turns, each with all threads.
        """
        answers = [_answer(relay.actor.run, relay.orders, relay.relays) for relay in relays]
        try:
            results = []
            opened = self._open([order for order in orders if order.plan is not None])
            if any(call.method == "divide" for order in orders for call in order.calls):
                self._gathered.clear()
            for order in orders:
                if order.number in opened:
                    self._shards[order.number] = opened[order.number]()
                results.append(self._shards[order.number].run(order.calls))
                self._storages[order.number].release_pages()  # which Dask counts as memory of the process
        except pl.exceptions.PanicException as error:  # no Exception, and can't be sent
            return Outcome(error=pl.exceptions.ComputeError(str(error)))
        except Exception as error:
            return Outcome(error=error)
        lost: list[int] = []
        for relay, answer in zip(relays, answers, strict=True):
            outcome = _received(relay, answer)
            if outcome.error is not None:
                return outcome
            results += map(unpacked, outcome.results)
            lost += outcome.lost
        sums = merged(orders[0].calls[-1].method, results)
        return Outcome([packed(each) if isinstance(each, np.ndarray) else each for each in sums], lost=lost)

    async def pieces(self, numbers: Sequence[int], index: int) -> list[pl.DataFrame]:
        """Return a piece of some shards' tables; runs beside other methods, which may wait for each other."""
        return [self._shards[number].piece(index) for number in numbers]

    def gather(
        self, numbers: Sequence[int], index: int, sources: Sequence[Source], finish: Callable[[list[pl.DataFrame]], Any]
    ) -> Outcome:
        """Return the result of ``finish`` for a piece of all shards' tables; ``numbers`` are the shards on this worker.

        Pieces of other workers are kept until the tables are divided again.
        """
        if index not in self._gathered:
            answers = [_answer(source.actor.pieces, source.numbers, index) for source in sources]
            others: list[pl.DataFrame] = []
            lost = []
            for source, answer in zip(sources, answers, strict=True):
                pieces = _waited(answer)
                if pieces is None:
                    lost.append(source.numbers[0])
                else:
                    others += pieces
            if lost:
                return Outcome(lost=lost)
            self._gathered[index] = others
        pieces_here = [self._shards[number].piece(index) for number in numbers]
        try:
            return Outcome([finish([*pieces_here, *self._gathered[index]])])
        except Exception as error:
            return Outcome(error=error)

    def take(self, number: int, partitions: Sequence[Any]) -> None:
        """Keep the pandas partitions of a shard until it is opened."""
        self._partitions[number] = partitions

    def close(self) -> None:
        """Close the shards."""
        self._partitions.clear()
        self._gathered.clear()
        while self._shards:
            self._shards.popitem()[1].close()

    def room(self) -> Room:
        """Return the room of the process."""
        return Room(self._memory, self._budget.left(), self._n_threads)

    def _open(self, orders: Sequence[Order]) -> dict[int, Callable[[], Shard]]:
        """Return functions that open new shards, by index, after checking that there is room for them.

        Raises
        ------
        ClusterError
            If there is no room.
        """
        sources: dict[int, FrameSource | DatabaseTable] = {}
        for order in orders:
            assert order.plan is not None
            handed, rows = self._partitions.pop(order.number, ()), order.plan.rows
            if rows is None:
                rows = FrameSource(_held.pop())  # which from now on are the shard's, to forget
            sources[order.number] = FrameSource(rows.read(handed)) if isinstance(rows, PartitionReader) else rows
        plan = orders[0].plan if orders else None
        storage = IN_MEMORY
        if plan is not None and (self._memory.limit or plan.fits_files):
            counts = [source.count_rows() for source in sources.values()]
            with closing(Workers(1)) as workers:
                request = self._request(sources[orders[0].number], plan, workers)
                n_all, in_files = max(plan.n_all, sum(counts)), any(order.in_files for order in orders)
                need = need_of(request, counts, n_all, self._n_threads)
                if message := no_room(self.room(), need, counts, request, fits_files=plan.fits_files):
                    raise ClusterError(message)
                if plan.fits_files:
                    storage = storage_within(request, counts, n_all, self._n_threads, in_files=in_files)
        self._storages |= dict.fromkeys(sources, storage)
        return {
            o.number: partial(self._opened, sources[o.number], o.plan, storage) for o in orders if o.plan is not None
        }

    def _request(
        self, source: FrameSource | DatabaseTable, plan: ShardPlan, workers: Workers, storage: Storage = IN_MEMORY
    ) -> EngineRequest:
        return EngineRequest(source, plan.features, plan.roles, plan.parameters, workers, storage, self._budget)

    def _opened(self, source: FrameSource | DatabaseTable, plan: ShardPlan, storage: Storage) -> Shard:
        workers = Workers(self._n_threads)
        return Shard(plan.open(self._request(source, plan, workers, storage)), workers, storage)


# By worker, as a process may have several, for all of its actors, such as those of held-out rows.
_budgets: WeakValueDictionary[str, MemoryBudget] = WeakValueDictionary()


class _WorkerMemory(NamedTuple):
    """The memory of a worker.

    Attributes
    ----------
    worker
        Its name.
    limit
        Its ``memory_limit`` in bytes, None without one.
    has
        The bytes that its process takes before it reads a row.
    pauses_at, ends_at
        The shares of the limit at which Dask pauses and kills it; 1 if it does not.
    """

    worker: str
    limit: int | None
    has: int
    pauses_at: float
    ends_at: float

    @classmethod
    def now(cls) -> _WorkerMemory:
        """Return the current memory of this worker."""
        import dask
        from distributed import get_worker

        worker = get_worker()
        shares = [worker.memory_manager.memory_pause_fraction, dask.config.get("distributed.worker.memory.terminate")]
        pauses_at, ends_at = (min(1.0, float(share or 1.0)) for share in shares)
        has = worker.monitor.get_process_memory()
        return cls(worker.id, worker.memory_manager.memory_limit, has, min(pauses_at, ends_at), ends_at)

    def left(self, share: float) -> int | None:
        """Return the bytes up to a share of the limit, None without one."""
        return None if self.limit is None else max(0, int(self.limit * share) - self.has)


class Room(NamedTuple):
    """The room of a worker: ``left`` are the bytes available to plans, None if unknown."""

    memory: _WorkerMemory
    left: int | None
    n_threads: int

    def most(self) -> int | None:
        """Return the bytes that are necessary to begin, None if there is no limit."""
        memory = self.memory
        if memory.limit is None or self.left is None:
            return None
        return self.left + int(memory.limit * (memory.ends_at - memory.pauses_at))


def no_room(
    room: Room, need: Need, counts: Sequence[int], request: EngineRequest, *, fits_files: bool, remedy: str = ""
) -> str:
    """Return the reason why a worker has no room for shards, or "".

    Parameters
    ----------
    room
        What it has room for.
    need
        The memory that the shards need.
    counts
        The number of rows of each.
    request
        The request of these rows.
    fits_files
        Whether their arrays may be in files.
    remedy
        A remedy other than more memory, for the message.
    """
    most, least = room.most(), min(need) if fits_files else need.in_memory
    if most is None or least <= most:
        return ""
    memory = room.memory
    assert memory.limit is not None
    sufficient = -(-int((memory.has + least) / memory.ends_at) // 10**7) * 10
    rows = counted(counts[0], "row") if len(counts) == 1 else f"shards of up to {counted(max(counts), 'row')}"
    return (
        f"a worker of the Dask cluster has memory_limit={_megabytes(memory.limit)}, of which its process takes "
        f"{_megabytes(memory.has)} before it reads a row; {rows} of {counted(len(request.features), 'feature')} need "
        f"{_megabytes(least)} more, and Dask ends a worker at {memory.ends_at:.0%} of its limit; set "
        f"memory_limit='{sufficient} MB' or more{remedy}"
    )


def _megabytes(size: int) -> str:
    return f"{size / 10**6:,.0f} MB"


# Rows with more codes than small data has, for which other kernels are taken (see `CODES_PER_TREE`).
_LOADING_ROWS, _LOADING_COLUMNS = 140_000, 4


@lru_cache(maxsize=8)
def _load_kernels(opener: Callable[[EngineRequest], ShardEngine], n_threads: int, *, uses_storage: bool) -> None:
    """Import and compile everything that a fit needs in this process, once, by a tree of a few rows.

    The memory measured afterwards is that before reading the user's rows.
    """
    random = np.random.default_rng(0)
    values = random.normal(size=(_LOADING_COLUMNS, _LOADING_ROWS))
    columns = {str(k): column.astype(np.float32 if k % 2 else np.float64) for k, column in enumerate(values)}
    rows = pl.DataFrame({**columns, "y": random.integers(0, 2, _LOADING_ROWS)})
    features = tuple(Feature(name, FeatureType("float32" if int(name) % 2 else "float64")) for name in columns)
    residual = {"g_0": Expression("margin - label", ("margin", "label")), "h_0": Expression("1.0", ())}
    with tempfile.TemporaryDirectory() as folder, closing(Workers(n_threads)) as workers:
        path = Path(folder) / "rows.parquet"
        rows.write_parquet(path)
        source = FrameSource(pl.scan_parquet(path), are_columnar=uses_storage)
        for storage in (IN_MEMORY, FileStorage(releases=True)) if uses_storage else (IN_MEMORY,):
            request = EngineRequest(source, features, {"label": "y"}, Parameters(), workers, storage)
            shards = LocalShards([Shard(opener(request), workers, storage)], 1)
            with closing(ShardedEngine(shards, features, request.roles)) as engine:
                bins = engine.propose_bins(request.parameters.max_bin, {})
                engine.bin_columns(bins)
                engine.start_margins({"margin": Expression("0.0", ())})
                engine.compute_gradients(residual, {})
                total = engine.start_tree(0)
                sums, index = np.empty((1, SlotLayout(bins).n_slots, 2)), np.zeros(1, np.int64)
                engine.histograms([0], sums, index)
                middle = Split(0, 1.0, total, total, False, bin=len(bins[0].cuts) // 2)
                engine.apply_splits({0: (middle, 1, 2)})
                engine.histograms([1], sums, index)
                engine.add_leaf_values({1: 0.5, 2: -0.5}, "margin")
                engine.compute_gradients(residual, {})


_held: list[pl.LazyFrame] = []


def hold_rows(frame: pl.LazyFrame | None) -> None:
    """Keep rows in this process for the next shard opened without any; None drops them."""
    _held[:] = [] if frame is None else [frame]


def hand_over(actor: str, number: int, *partitions: Any) -> list[str]:
    """Pass pandas partitions to the actor of that key on the same worker, as a task.

    Returns a hash of each partition, to check a recomputation of it.
    """
    from dask.base import tokenize
    from distributed import get_worker

    held: Any = get_worker().state.actors[actor]
    held.take(number, partitions)
    return [tokenize(each) for each in partitions]


def _answer(method: Callable[..., Any], *arguments: Any) -> Any:
    """Call a method of an actor; return the answer to wait for, None if its worker is lost."""
    try:
        return method(*arguments)
    except LOST:
        return None


def _waited(answer: Any) -> Any:
    """Wait for an answer; return None if the worker is lost."""
    try:
        return None if answer is None else answer.result()
    except LOST:
        return None


def _received(relay: Relay, answer: Any) -> Outcome:
    """Wait for an answer; if the worker is lost, so are the answers to the orders that it passed on."""
    outcome: Outcome | None = _waited(answer)
    return Outcome(lost=_workers_of(relay)) if outcome is None else outcome


def _workers_of(relay: Relay) -> list[int]:
    return [relay.orders[0].number, *(number for other in relay.relays for number in _workers_of(other))]


def versions() -> dict[str, str]:
    """Return the versions of packages that a model's bytes, or messages between processes, depend on."""
    import duckdb
    import numba

    versions_here = {"frameboost": __version__, "polars": pl.__version__, "numpy": np.__version__}
    versions_here |= {"numba": numba.__version__, "duckdb": duckdb.__version__}
    return versions_here | {"python": ".".join(platform.python_version_tuple()[:2])}


# --- histograms as they travel ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PackedHistograms:
    """The bins of histograms with nonzero sums: deep nodes have far fewer rows than bins.

    If 2 of 8 bins have rows, one byte of flags and 2 pairs of sums are sent, 33 bytes instead of 128.

    >>> sums = np.zeros((1, 8, 2))
    >>> sums[0, 1], sums[0, 6] = (0.5, 1.0), (-2.0, 4.0)
    >>> travelling = packed(sums)
    >>> np.unpackbits(travelling.has_rows).tolist(), travelling.sums.tolist()
    ([0, 1, 0, 0, 0, 0, 1, 0], [[0.5, 1.0], [-2.0, 4.0]])
    >>> (unpacked(travelling) == sums).all()
    np.True_

    Attributes
    ----------
    shape
        Of the histograms.
    has_rows
        A bit for each bin, uint8.
    sums
        G and H of each bin with a bit, float64 (bins, 2).
    """

    shape: tuple[int, ...]
    has_rows: npt.NDArray[np.uint8]
    sums: FloatArray


def packed(histograms: FloatArray) -> PackedHistograms | FloatArray:
    """Return histograms without empty bins, or unchanged if few are empty."""
    bins = histograms.reshape(-1, 2)
    has_rows = (bins[:, 0] != 0) | (bins[:, 1] != 0)
    if np.count_nonzero(has_rows) > _MAX_FULL * len(bins):
        return histograms
    return PackedHistograms(histograms.shape, np.packbits(has_rows), bins[has_rows])


def unpacked(result: Any) -> Any:
    """Return unpacked histograms, or any other result unchanged."""
    if not isinstance(result, PackedHistograms):
        return result
    histograms = np.zeros(result.shape)
    bins = histograms.reshape(-1, 2)
    bins[np.unpackbits(result.has_rows, count=len(bins)).view(np.bool_)] = result.sums
    return histograms
