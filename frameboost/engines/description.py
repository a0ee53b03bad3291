"""How an engine describes itself, so that ``fit(engine=...)`` can choose and open it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

from frameboost.data.dask_source import PartitionedSource
from frameboost.data.sources import RelationSource, Source
from frameboost.data.spark_source import SparkSource
from frameboost.parameters.parameters import Parameters
from frameboost.runtime.storage import IN_MEMORY, MemoryBudget, Storage
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature

__all__ = ["DataKind", "EngineDescription", "EngineRequest", "data_kind"]

DataKind = Literal["frame", "relation", "partitions", "spark"]


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """The rows to open an engine over, and what the fit knows about them.

    Attributes
    ----------
    source
        The user's data: `FrameSource` has a polars LazyFrame, `RelationSource` a DuckDB relation,
        `PartitionedSource` a Dask DataFrame, `SparkSource` one of Spark.
    features
        The columns to split on, in order.
    roles
        The other columns by role: ``label`` (or ``label_0``, ``label_1``, ...), ``weight``, ``qid``, ``upper``,
        ``base_margin``, ...
    parameters
        The parameters of the fit.
    workers
        The threads of the fit, shared by all of its engines.
    storage
        Where to keep arrays as long as the rows.
    budget
        The memory that is left, shared by all engines of the fit.
    """

    source: Source
    features: tuple[Feature, ...]
    roles: Mapping[str, str]
    parameters: Parameters
    workers: Workers
    storage: Storage = IN_MEMORY
    budget: MemoryBudget = field(default_factory=MemoryBudget)

    def columns(self) -> list[str]:
        """Return the names of the columns of the features and roles, each once."""
        return list(dict.fromkeys([*(f.name for f in self.features), *self.roles.values()]))

    def frame(self) -> pl.LazyFrame:
        """Return the columns of the features and roles as a lazy frame; a relation is read into memory."""
        return self.source.to_frame(self.columns())


@dataclass(frozen=True, slots=True)
class EngineDescription:
    """An engine, as the table of built-in engines or the entry point of another package describes it.

    Attributes
    ----------
    name
        The value of ``fit(engine=...)``.
    openers
        The contracts of `frameboost.engines.contract` that the engine satisfies, each with the function that opens such
        an engine over rows. Each tree method asks for one contract, so the keys say which tree methods there are.
    data
        The kinds of data that the engine takes. The first is read in place, without a copy.
    threads_set_by
        The setting for the number of threads, for the error message where the parameter ``n_jobs`` has no effect; empty
        for an engine that runs on `EngineRequest.workers`.
    uses_storage
        Whether its arrays are in `EngineRequest.storage`, and so may be larger than memory.
    summary
        How it computes, in a few words.
    runs_queries
        Whether it sums by queries, so that few values are read into memory (see `frameboost.engines.query_costs`).
    """

    name: str
    openers: Mapping[type[Any], Callable[[EngineRequest], Any]]
    data: tuple[DataKind, ...] = ("frame", "relation")
    threads_set_by: str = ""
    uses_storage: bool = False
    runs_queries: bool = False
    summary: str = ""


def data_kind(source: Source) -> DataKind:
    """Return what kind of data a source has."""
    if isinstance(source, PartitionedSource):
        return "partitions"
    if isinstance(source, SparkSource):
        return "spark"
    return "relation" if isinstance(source, RelationSource) else "frame"
