"""The one place that knows which engines there are."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import polars as pl

from frameboost.engines.contract import Engine
from frameboost.engines.exact import ExactEngine
from frameboost.engines.numba import NumbaEngine
from frameboost.engines.polars import PolarsEngine
from frameboost.engines.session import DuckDBSession
from frameboost.engines.sql import SqlEngine
from frameboost.engines.sql_binning import SqlColumn
from frameboost.errors import ParameterError
from frameboost.parameters import Parameters
from frameboost.polars_names import column
from frameboost.schema import Feature
from frameboost.sources import FrameSource, RelationSource, Source
from frameboost.sql_text import quote_identifier
from frameboost.types import FeatureType

__all__ = ["ENGINES", "check_engine", "make_engine"]

ENGINES = ("auto", "numba", "polars", "duckdb")


def check_engine(name: str, source: Source, parameters: Parameters) -> str:
    """Return the engine to use.

    ``auto`` is ``duckdb`` for a relation, so that the rows stay where they are, and ``numba`` for a frame.

    Raises
    ------
    ParameterError
        If there is no such engine, or it does not honour one of the parameters.
    """
    if name not in ENGINES:
        raise ParameterError(f"engine must be one of {', '.join(map(repr, ENGINES))}, not {name!r}")
    if name == "auto":
        name = "duckdb" if isinstance(source, RelationSource) and parameters.tree_method == "hist" else "numba"
    if parameters.tree_method == "exact" and name != "numba":
        raise ParameterError(f"tree_method='exact' needs engine='numba', not {name!r}")
    if parameters.n_jobs is not None and name != "numba":
        own = "SET threads" if name == "duckdb" else "the environment variable POLARS_MAX_THREADS"
        raise ParameterError(f"n_jobs is for engine='numba'; {name} takes its number of threads from {own}")
    return name


def make_engine(
    name: str,
    source: Source,
    features: Sequence[Feature],
    target: str,
    weight: str | None,
    parameters: Parameters,
) -> Engine:
    """Return the engine of that name (not ``auto``) over the source."""
    if name == "duckdb":
        return _sql_engine(source, features, target, weight)
    used = [*(f.name for f in features), target, *([weight] if weight else [])]
    frame = source.to_frame(used)
    if name == "polars":
        return PolarsEngine(frame, tuple(features), target, weight)
    in_memory: type[ExactEngine | NumbaEngine] = ExactEngine if parameters.tree_method == "exact" else NumbaEngine
    return in_memory(frame, tuple(features), target, weight, parameters.n_jobs)


def _sql_engine(source: Source, features: Sequence[Feature], target: str, weight: str | None) -> SqlEngine:
    if isinstance(source, RelationSource):
        columns = [SqlColumn(quote_identifier(f.name), f.type) for f in features]
        label, weights = quote_identifier(target), None if weight is None else quote_identifier(weight)
        return SqlEngine(DuckDBSession(source.relation), features, columns, label, weights)
    # A frame goes to a database of its own, under names that can't clash there (DuckDB ignores case).
    carried = [_carried(feature.type) for feature in features]
    selected = [
        (column(f.name).to_physical() if kind.name == "int64" else column(f.name)).cast(kind.to_polars()).alias(f"f{i}")
        for i, (f, kind) in enumerate(zip(features, carried, strict=True))
    ]
    selected.append(column(target).cast(pl.Float64).alias("label"))
    if weight is not None:
        selected.append(column(weight).cast(pl.Float64).alias("weight"))
    assert isinstance(source, FrameSource)
    connection = duckdb.connect()
    connection.register("frame", source.frame.select(selected).collect())
    columns = [SqlColumn(f'"f{i}"', kind) for i, kind in enumerate(carried)]
    label, weights = '"label"', None if weight is None else '"weight"'
    return SqlEngine(DuckDBSession(connection.table("frame")), features, columns, label, weights)


def _carried(kind: FeatureType) -> FeatureType:
    """Return the type in which a polars column goes to DuckDB: one that both have, with the same physical values."""
    if kind.unit or kind.family == "date":
        return FeatureType("int64")
    if kind.name in ("int128", "uint128"):
        return FeatureType("decimal(38,0)")
    return kind
