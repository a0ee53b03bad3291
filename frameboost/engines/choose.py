"""The one place that knows which engines there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import polars as pl

from frameboost.checks.messages import listed, shown
from frameboost.data.sources import FrameSource, RelationSource, Source
from frameboost.engines.contract import Engine
from frameboost.engines.duckdb.approx import DuckDBApproxEngine
from frameboost.engines.duckdb.binning import SqlColumn
from frameboost.engines.duckdb.engine import DuckDBEngine
from frameboost.engines.duckdb.session import DuckDBSession
from frameboost.engines.polars.approx import PolarsApproxEngine
from frameboost.engines.polars.engine import PolarsEngine
from frameboost.errors import ParameterError
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.parameters.parameters import Parameters
from frameboost.runtime.workers import Workers
from frameboost.schema.feature import Feature
from frameboost.schema.polars_columns import column
from frameboost.schema.types import FeatureType

__all__ = ["ENGINES", "check_engine", "make_engine"]

_WIDE = {"int128": "HUGEINT", "uint128": "UHUGEINT"}
ENGINES = ("auto", "numba", "polars", "duckdb")


def check_engine(name: str, source: Source, parameters: Parameters) -> str:
    """Return the engine to use.

    ``auto`` is ``duckdb`` for a relation, so that the rows stay where they are, and ``numba`` for a frame.

    Raises
    ------
    ParameterError
        If there is no such engine, or it does not honour one of the parameters.
    """
    if not isinstance(name, str) or name not in ENGINES:
        raise ParameterError(f"engine must be one of {listed(ENGINES)}, not {shown(name)}")
    if name == "auto":
        name = "duckdb" if isinstance(source, RelationSource) and parameters.tree_method != "exact" else "numba"
    if parameters.tree_method == "exact" and name != "numba":
        raise ParameterError(f"tree_method='exact' needs engine='numba', not {shown(name)}")
    if parameters.n_jobs is not None and name != "numba":
        own = "SET threads" if name == "duckdb" else "the environment variable POLARS_MAX_THREADS"
        raise ParameterError(f"n_jobs is for engine='numba'; {name} takes its number of threads from {own}")
    return name


def make_engine(
    name: str,
    source: Source,
    features: Sequence[Feature],
    roles: Mapping[str, str],
    parameters: Parameters,
    *,
    follows: bool = False,
    workers: Workers | None = None,
) -> Engine:
    """Return the engine of that name (not ``auto``) over the source.

    ``roles`` say what other columns are for; ``follows``, that the rows are held out and only follow the trees. Engines
    that take turns share their ``workers``.
    """
    if name == "duckdb":
        kind = DuckDBApproxEngine if parameters.tree_method == "approx" else DuckDBEngine
        return _sql_engine(source, features, roles, kind, in_order=parameters.subsample < 1.0)
    # Here, as `import frameboost` is to do without numba, which these need.
    from frameboost.engines.memory.approx import GlobalApproxEngine, LocalApproxEngine
    from frameboost.engines.memory.engine import MemoryEngine
    from frameboost.engines.memory.exact import ExactEngine
    from frameboost.engines.memory.held_out import HeldOutEngine
    from frameboost.engines.memory.presorted import PresortedEngine

    workers = workers or Workers(parameters.n_jobs)
    frame = source.to_frame(list(dict.fromkeys([*(f.name for f in features), *roles.values()])))
    if follows and parameters.tree_method != "hist":
        return HeldOutEngine(frame, tuple(features), roles, workers)
    if name == "polars":
        lazy = PolarsApproxEngine if parameters.tree_method == "approx" else PolarsEngine
        return lazy(frame, tuple(features), roles)
    in_memory: type[PresortedEngine | MemoryEngine] = MemoryEngine
    if parameters.tree_method == "exact":
        in_memory = ExactEngine
    elif parameters.tree_method == "approx":
        in_memory = LocalApproxEngine if parameters.proposal == "local" else GlobalApproxEngine
    return in_memory(frame, tuple(features), roles, workers)


class _ArrowStream:
    """A frame that DuckDB knows only by its Arrow stream; to read a polars frame as such it would need pyarrow."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


def _sql_engine(
    source: Source, features: Sequence[Feature], roles: Mapping[str, str], kind: type[DuckDBEngine], *, in_order: bool
) -> DuckDBEngine:
    numbers = {role: name for role, name in roles.items() if role != "qid"}
    query = _query_column(source, roles)
    if isinstance(source, RelationSource):
        columns = [SqlColumn(quote_identifier(f.name), f.type) for f in features]
        quoted = {role: quote_identifier(name) for role, name in numbers.items()}
        queries = None if query is None else SqlColumn(quote_identifier(query.name), query.type)
        return kind(DuckDBSession(source.relation), features, columns, quoted, queries, in_order=in_order)
    # A frame goes to a database of its own, under names that can't clash there (DuckDB ignores case).
    assert isinstance(source, FrameSource)
    sent = [_sent(f).alias(f"f{i}") for i, f in enumerate(features)]
    received = [_received(f.type, f"f{i}") for i, f in enumerate(features)]
    sent += [column(name).cast(pl.Float64).alias(role) for role, name in numbers.items()]
    received += numbers
    queries = None
    if query is not None:
        sent.append(_sent(query).alias("qid"))
        received.append("qid")
        queries = SqlColumn("qid", FeatureType("string") if query.type.name in _WIDE else _carried(query.type))
    connection = duckdb.connect()
    connection.register("frame", _ArrowStream(source.frame.select(sent).collect()))
    relation = connection.sql(f"SELECT {', '.join(received)} FROM frame")
    columns = [SqlColumn(f"f{i}", _carried(feature.type)) for i, feature in enumerate(features)]
    return kind(
        DuckDBSession(relation), features, columns, {role: role for role in numbers}, queries, in_order=in_order
    )


def _query_column(source: Source, roles: Mapping[str, str]) -> Feature | None:
    """Return the column that tells the queries apart, as if it were a feature."""
    if "qid" not in roles:
        return None
    kind = source.types()[roles["qid"]]
    assert kind is not None
    return Feature(roles["qid"], kind)


def _carried(kind: FeatureType) -> FeatureType:
    """Return the type that a polars column has in DuckDB, with the same physical values."""
    return FeatureType("int64") if kind.unit or kind.family == "date" else kind


def _sent(feature: Feature) -> pl.Expr:
    """Return the column as it can go to DuckDB; wide integers go as text, as Arrow has no type for them."""
    values, kind = column(feature.name), feature.type
    if _carried(kind) != kind:
        return values.to_physical().cast(pl.Int64)
    return values.cast(pl.String if kind.name in _WIDE else kind.to_polars())


def _received(kind: FeatureType, name: str) -> str:
    return f"CAST({name} AS {_WIDE[kind.name]}) AS {name}" if kind.name in _WIDE else name
