"""The table of engines, and the choice of one by name, data and tree method.

To add an engine to the package, write its classes (see `frameboost.engines.contract`) and add it to ``BUILT_IN``.
Another package registers an engine as an entry point in the group ``frameboost.engines``, by name, with an
`EngineDescription` as the object. Entry points are looked up only for names outside the table.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, overload

import duckdb
import polars as pl

from frameboost.checks.messages import advice, listed, reason, shown
from frameboost.data.database_table import DatabaseTable
from frameboost.data.sources import RelationSource, Source
from frameboost.data.sparse_matrix import SparseSource
from frameboost.engines.contract import (
    ColumnBlockEngine,
    EngineDescription,
    EngineRequest,
    FixedRows,
    FollowerEngine,
    HistogramEngine,
    LinearEngine,
    LinearVectorEngine,
    NodeBinningEngine,
    RebinningEngine,
    RefitEngine,
    RowsInMemory,
    VectorEngine,
    check_engine,
    data_kind,
)
from frameboost.engines.dask.cluster import Dask
from frameboost.engines.duckdb.approx import DuckDBApproxEngine
from frameboost.engines.duckdb.engine import DuckDBEngine
from frameboost.engines.duckdb.opening import open_engine as open_in_duckdb
from frameboost.engines.duckdb.opening import open_histogram_engine, open_rows
from frameboost.engines.polars.approx import PolarsApproxEngine
from frameboost.engines.polars.engine import PolarsEngine
from frameboost.engines.query_costs import read_few
from frameboost.engines.shards.opening import in_shards
from frameboost.engines.spark.cluster import Spark
from frameboost.engines.sql.engine import SqlEngine
from frameboost.errors import ParameterError
from frameboost.joins.star_sources import StarFrame
from frameboost.runtime.storage import IN_MEMORY

if TYPE_CHECKING:
    from frameboost.engines.memory.columns import FeatureColumns

__all__ = ["BUILT_IN", "ENGINES", "choose_engine", "open_engine", "rows_of"]


# --- how the built-in engines are opened ------------------------------------------------------------------------------
# The classes in memory are imported when one is opened, because `import frameboost` must not import numba.


def _numba(request: EngineRequest) -> HistogramEngine:
    p, features, roles, workers = request.parameters, request.features, request.roles, request.workers
    frame, columns = _rows_in_memory(request)
    if request.storage.in_files:
        from frameboost.engines.external_memory import ExternalMemoryEngine

        stores = p.num_parallel_tree > 1 or p.sampling_method == "gradient_based"
        return ExternalMemoryEngine(
            frame, features, roles, workers, request.storage, columns=columns, stores_gradients=stores
        )
    from frameboost.engines.memory.engine import MemoryEngine

    if isinstance(request.source, StarFrame) and columns is not None:
        from frameboost.engines.memory.star.columns import RecordedGradients

        gradients = partial(RecordedGradients, stored=p.subsample < 1)
        return MemoryEngine(
            frame, features, roles, workers, columns=columns, gradients=gradients, in_order=request.in_order
        )
    return MemoryEngine(frame, features, roles, workers, request.storage, columns=columns, in_order=request.in_order)


def _rows_in_memory(request: EngineRequest) -> tuple[pl.LazyFrame, FeatureColumns | None]:
    """Return the frame of features and roles, or the frame of roles and the feature columns.

    Raises
    ------
    ParameterError
        If database rows have no order and the fit depends on one.
    """
    source, features, workers = request.source, request.features, request.workers
    if isinstance(source, DatabaseTable):
        from frameboost.engines.memory.database import DatabaseColumns

        _check_order(request, source)
        of_table = DatabaseColumns(source, features, workers, list(request.roles.values()))
        return of_table.roles.lazy(), of_table
    if isinstance(source, SparseSource):
        from frameboost.engines.memory.sparse_matrix import SparseMatrixColumns

        return source.frame, SparseMatrixColumns(source, features, workers)
    if isinstance(source, StarFrame) and request.storage is IN_MEMORY:
        from frameboost.engines.memory.star.columns import StarColumns

        return source.to_frame(list(dict.fromkeys(request.roles.values()))), StarColumns(source, features, workers)
    return request.frame(), None


def _check_order(request: EngineRequest, source: DatabaseTable) -> None:
    """Raise an error if database rows have no order, or no distinct queries, and the fit needs them."""
    subsample = request.parameters.subsample
    if "qid" in request.roles:
        source.check_apart("group", request.roles["qid"])
        source.check_positions("a ranking objective puts rows of equal margins in order by their positions")
    elif subsample < 1:
        source.check_positions(f"subsample={subsample} draws rows by their positions")


def _numba_linear(request: EngineRequest) -> HistogramEngine:
    if isinstance(request.source, SparseSource):
        raise ParameterError("linear_tree=True can't be combined with a sparse matrix; pass a frame of its columns")
    if request.storage.in_files:
        raise ParameterError("linear_tree=True needs rows that fit in memory, or engine='duckdb'")
    return _numba(request)


def _numba_vector(request: EngineRequest) -> HistogramEngine:
    if request.storage.in_files:
        raise ParameterError("multi_strategy='multi_output_tree' needs rows that fit in memory, or engine='duckdb'")
    return _numba(request)


def _numba_exact(request: EngineRequest) -> ColumnBlockEngine:
    from frameboost.engines.memory.exact import ExactEngine

    return ExactEngine(request.frame(), request.features, request.roles, request.workers)


def _numba_approx_global(request: EngineRequest) -> RebinningEngine:
    from frameboost.engines.memory.approx import GlobalApproxEngine

    return GlobalApproxEngine(request.frame(), request.features, request.roles, request.workers)


def _numba_approx_local(request: EngineRequest) -> NodeBinningEngine:
    from frameboost.engines.memory.approx import LocalApproxEngine

    return LocalApproxEngine(request.frame(), request.features, request.roles, request.workers)


def _in_memory_follower(request: EngineRequest) -> RefitEngine:
    from frameboost.engines.memory.held_out import HeldOutEngine

    return HeldOutEngine(request.frame(), request.features, request.roles, request.workers)


def _sql(request: EngineRequest) -> HistogramEngine:
    if isinstance(request.source, DatabaseTable):
        _check_order(request, request.source)
        return SqlEngine(request, request.source)
    engine: HistogramEngine = BUILT_IN[0].openers[HistogramEngine](request)  # held-out rows that are here
    return engine


def _polars(request: EngineRequest) -> HistogramEngine:
    return PolarsEngine(request.frame(), request.features, request.roles)


def _polars_approx(request: EngineRequest) -> PolarsApproxEngine:
    return PolarsApproxEngine(request.frame(), request.features, request.roles)


def _duckdb_vector(request: EngineRequest) -> DuckDBEngine:
    return open_in_duckdb(DuckDBEngine, request)


def _duckdb_approx(request: EngineRequest) -> DuckDBApproxEngine:
    return open_in_duckdb(partial(DuckDBApproxEngine, workers=request.workers), request)


# "auto" is the first that reads the data in place and supports the tree method, or else the first that supports it.
BUILT_IN = (
    EngineDescription(
        "numba",
        {
            HistogramEngine: _numba,
            LinearEngine: _numba_linear,
            LinearVectorEngine: _numba_linear,
            VectorEngine: _numba_vector,
            ColumnBlockEngine: _numba_exact,
            RebinningEngine: _numba_approx_global,
            NodeBinningEngine: _numba_approx_local,
            RefitEngine: _in_memory_follower,
        },
        data=("frame", "relation", "database"),
        uses_storage=True,
        summary="kernels over columns in memory",
        has_arrays=True,
    ),
    EngineDescription(
        "polars",
        {
            HistogramEngine: _polars,
            LinearEngine: _polars,
            LinearVectorEngine: _polars,
            VectorEngine: _polars,
            RebinningEngine: _polars_approx,
            NodeBinningEngine: _polars_approx,
        },
        threads_set_by="the environment variable POLARS_MAX_THREADS",
        runs_queries=True,
        summary="group-bys of polars",
        has_arrays=True,
    ),
    EngineDescription(
        "duckdb",
        {
            HistogramEngine: open_histogram_engine,
            LinearEngine: open_histogram_engine,
            LinearVectorEngine: _duckdb_vector,
            VectorEngine: _duckdb_vector,
            RebinningEngine: _duckdb_approx,
            NodeBinningEngine: _duckdb_approx,
            FollowerEngine: _duckdb_approx,
        },
        data=("relation", "frame"),
        threads_set_by="SET threads",
        runs_queries=True,
        summary="queries of DuckDB",
        has_arrays=True,
    ),
    EngineDescription(
        "sql",
        {HistogramEngine: _sql, VectorEngine: _sql},
        data=("database",),
        threads_set_by="the database",
        summary="queries of the database",
    ),
)
ENGINES = ("auto", *(engine.name for engine in BUILT_IN))
_GROUP = "frameboost.engines"  # of entry points


# --- the choice -------------------------------------------------------------------------------------------------------


def choose_engine(
    name: object, source: Source, contract: type[Any], setting: str, n_jobs: int | None = None,
    shards: int | None = None,
) -> EngineDescription:  # fmt: skip
    """Return the description of the engine to use.

    Parameters
    ----------
    name
        The user's ``engine``: ``auto``, a built-in engine, or one that another package registers.
    source
        The user's data.
    contract
        The contract of the tree method.
    setting
        The parameters that select this tree method, for error messages: ``tree_method='exact'``.
    n_jobs
        The user's number of threads.
    shards
        The user's number of shards.

    Raises
    ------
    ParameterError
        If the engine is unknown, or does not support the data or a parameter.
    """
    kind = data_kind(source)
    if isinstance(name, str) and name == "auto":
        name = _automatic(source, contract)
    if isinstance(name, Dask | Spark):
        if shards is not None:
            cluster = type(name).__name__
            raise ParameterError(
                f"shards={shards} divides rows of this process; set engine=fb.{cluster}(..., shards={shards})"
            )
        engine = name.describe(BUILT_IN[0] if name.engine == "auto" else _named(name.engine))
    else:
        engine = _named(name)
    if shards is not None:
        engine = in_shards(engine, shards)
    if contract not in engine.openers:
        openers = [each for each in BUILT_IN if contract in each.openers]
        able = [each.name for each in openers if kind in each.data] or [each.name for each in openers]
        needed = f"engine={listed(able)}" if len(able) == 1 else f"one of the engines {listed(able)}"
        raise ParameterError(f"{setting} needs {needed}, not {shown(engine.name)}")
    if kind not in engine.data:
        if kind == "partitions":
            raise ParameterError(f"a Dask DataFrame needs engine=fb.Dask(client), not {shown(engine.name)}")
        takes = {
            "frame": "frames", "relation": "DuckDB relations", "spark": "Spark DataFrames",
            "database": "tables of databases",
        }  # fmt: skip
        first = engine.data[0]
        read = advice("; fb.cv, fb.auto and fb.join read the rows of tables into memory") if first == "database" else ""
        raise ParameterError(f"engine {shown(engine.name)} trains on {takes[first]}, not on {takes[kind]}{read}")
    if n_jobs is not None and engine.threads_set_by:
        able = [each.name for each in BUILT_IN if not each.threads_set_by]
        raise ParameterError(
            f"n_jobs is for engine={listed(able)}; {engine.name} takes its number of threads from "
            f"{engine.threads_set_by}"
        )
    return engine


def open_engine(description: EngineDescription, contract: type[Any], request: EngineRequest) -> Any:
    """Open an engine that satisfies the contract over the rows of a request.

    Without an opener for held-out rows (`FollowerEngine`) these are read into memory; so is small data for engines that
    run queries.

    Raises
    ------
    ParameterError
        If the engine lacks a method of the contract, or one has other parameters.
    """
    openers = description.openers
    if description.runs_queries and (few := read_few(request)) is not None:
        openers, request = BUILT_IN[0].openers, few
    engine = openers.get(contract, _in_memory_follower)(request)
    check_engine(engine, contract, description.name)
    return engine


@overload
def rows_of(table: pl.DataFrame, roles: Collection[str]) -> RowsInMemory: ...


@overload
def rows_of(table: duckdb.DuckDBPyRelation, roles: Collection[str]) -> FixedRows: ...


def rows_of(table: pl.DataFrame | duckdb.DuckDBPyRelation, roles: Collection[str]) -> FixedRows:
    """Return the rows of a table for metrics, without moving them.

    ``roles`` are the columns available to expressions: roles, margins, predictions. There are no other names.
    """
    if isinstance(table, pl.DataFrame):
        return PolarsEngine(table.lazy(), (), {role: role for role in roles})
    return open_rows(RelationSource(table), roles)


def _automatic(source: Source, contract: type[Any]) -> str | Dask | Spark:
    """Return the engine for ``engine="auto"``."""
    able = [engine for engine in BUILT_IN if contract in engine.openers]
    kind = data_kind(source)
    if kind == "database":  # columns are binned in the database
        return BUILT_IN[0].name
    if kind == "partitions":
        return Dask.of_default_client()
    return Spark() if kind == "spark" else next((each for each in able if each.data[0] == kind), able[0]).name


def _named(name: object) -> EngineDescription:
    built_in = {engine.name: engine for engine in BUILT_IN}
    if isinstance(name, str) and name in built_in:
        return built_in[name]
    registered = sorted(entry_points(group=_GROUP).names)  # reading names imports none of them
    if isinstance(name, str) and name in registered:
        return _load_registered(name)
    others = [other for other in registered if other not in built_in]
    raise ParameterError(f"engine must be one of {listed((*ENGINES, *others))}, not {shown(name)}")


def _load_registered(name: str) -> EngineDescription:
    """Import a registered engine and return its description.

    Raises
    ------
    ParameterError
        If several packages register the name, or the entry point can't be imported or is not a description of an engine
        of that name.
    """
    entries = sorted(entry_points(group=_GROUP, name=name), key=_package)
    if len(entries) > 1:
        packages = listed(_package(entry) for entry in entries)
        raise ParameterError(f"engine {shown(name)} is registered by several packages, {packages}; keep one of them")
    (entry,) = entries
    where = f"engine {shown(name)} of the package {shown(_package(entry))}"
    try:
        description = entry.load()
    except Exception as error:
        raise ParameterError(
            f"{where} can't be imported from {shown(entry.value)}: {type(error).__name__}: {reason(error)}"
        ) from error
    if not isinstance(description, EngineDescription):
        raise ParameterError(
            f"{where} must register a frameboost.engines.contract.EngineDescription, but {shown(entry.value)} is "
            f"{shown(description)}"
        )
    if description.name != name:
        raise ParameterError(f"{where} describes itself as {shown(description.name)}; both names must be the same")
    return description


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.module
