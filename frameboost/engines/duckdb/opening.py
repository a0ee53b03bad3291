"""The DuckDB engine over the user's relation, or over a frame in a new database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TypeVar

import duckdb
import polars as pl

from frameboost.data.duckdb_session import DuckDBSession, OwnDatabaseSession
from frameboost.data.sources import FrameSource, RelationSource
from frameboost.engines.contract import EngineRequest
from frameboost.engines.duckdb.binning import MAX_AT_ONCE, SqlColumn
from frameboost.engines.duckdb.engine import DuckDBEngine
from frameboost.engines.duckdb.memory import DuckDBMemoryEngine
from frameboost.engines.duckdb.star.keys import StarTables
from frameboost.engines.duckdb.star.tables import StarPlan, copy_star, plan_star
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.joins.star_sources import StarRelation
from frameboost.schema.types import Feature, FeatureType, column

__all__ = ["open_engine", "open_histogram_engine", "open_rows"]

# A table larger than this part of what the database may take is not copied if it may be read in place.
_SHARE_COPIED = 1 / 4
# Arrow has no 128-bit integers.
_WIDE = {"int128": "HUGEINT", "uint128": "UHUGEINT"}
EngineClass = TypeVar("EngineClass", bound=DuckDBEngine)


def open_engine(kind: Callable[..., EngineClass], request: EngineRequest) -> EngineClass:
    """Open an engine of this kind over the rows of the request."""
    if isinstance(request.source, RelationSource):
        return _in_place(kind, request, request.source)
    assert isinstance(request.source, FrameSource)
    return _in_own_database(kind, request, request.source)


def open_histogram_engine(request: EngineRequest) -> DuckDBEngine:
    """Open an engine that bins columns once; over a star without the join if that pays off."""
    plan = plan_star(request) if isinstance(request.source, StarRelation) else None
    if plan is not None:
        return _over_star(request, plan)
    return open_engine(partial(DuckDBMemoryEngine, workers=request.workers), request)


def open_rows(source: RelationSource, roles: Collection[str]) -> DuckDBEngine:
    """Open an engine over columns of a relation that are named by role, without features."""
    names = {role: quote_identifier(role) for role in roles if role != "qid"}
    queries = None
    if "qid" in roles:
        kind = source.types()["qid"]
        assert kind is not None
        queries = SqlColumn(quote_identifier("qid"), kind)
    return DuckDBEngine(DuckDBSession(source.relation), (), (), names, queries)


def _over_star(request: EngineRequest, plan: StarPlan) -> DuckDBMemoryEngine:
    """Open an engine over copies of the tables of a star."""
    apart = {number for branch in plan.branches for number in branch.features}
    of_facts = {number: f.name for number, f in enumerate(request.features) if number not in apart}
    query = _query_column(request)
    in_order = _in_order(request)
    session = DuckDBSession(plan.facts)
    try:
        facts, branches = copy_star(session, plan, of_facts, request.roles, in_order=in_order or query is not None)
    except BaseException:
        session.close()
        raise
    columns = [SqlColumn(f"value_{i}", feature.type) for i, feature in enumerate(request.features)]
    return DuckDBMemoryEngine(
        session, request.features, columns, {role: f"role_{role}" for role in _numeric_roles(request)},
        None if query is None else SqlColumn("role_qid", query.type), in_order=in_order,
        tables=StarTables(session, columns, facts, branches), workers=request.workers,
    )  # fmt: skip


def _in_place(kind: Callable[..., EngineClass], request: EngineRequest, source: RelationSource) -> EngineClass:
    """Open an engine over a relation, in its database."""
    columns = [SqlColumn(quote_identifier(f.name), f.type) for f in request.features]
    quoted = {role: quote_identifier(name) for role, name in _numeric_roles(request).items()}
    query = _query_column(request)
    queries = None if query is None else SqlColumn(quote_identifier(query.name), query.type)
    session = DuckDBSession(source.relation, is_table=source.is_table)
    _copy_wide(session, [*(c.name for c in columns), *quoted.values(), *([] if queries is None else [queries.name])])
    return kind(session, request.features, columns, quoted, queries, in_order=_in_order(request))


def _in_own_database(kind: Callable[..., EngineClass], request: EngineRequest, source: FrameSource) -> EngineClass:
    """Copy a frame to a new in-memory database, and open an engine over it.

    Names in DuckDB are case-insensitive, so columns are renamed: features to ``f0``, ``f1``, ..., others to their
    roles.
    """
    sent = [_sent(f).alias(f"f{i}") for i, f in enumerate(request.features)]
    received = [_received(f.type, f"f{i}") for i, f in enumerate(request.features)]
    numbers = _numeric_roles(request)
    sent += [column(name).cast(pl.Float64).alias(role) for role, name in numbers.items()]
    received += numbers
    queries, query = None, _query_column(request)
    if query is not None:
        sent.append(_sent(query).alias("qid"))
        received.append("qid")
        queries = SqlColumn("qid", FeatureType("string") if query.type.name in _WIDE else _carried(query.type))
    connection = duckdb.connect()
    connection.register("frame", _ArrowStream(source.frame.select(sent).collect()))
    session = OwnDatabaseSession(connection, f"SELECT {', '.join(received)} FROM frame")
    columns = [SqlColumn(f"f{i}", _carried(feature.type)) for i, feature in enumerate(request.features)]
    roles = {role: role for role in numbers}
    _copy_wide(session, [*(c.name for c in columns), *roles, *([] if queries is None else [queries.name])])
    return kind(session, request.features, columns, roles, queries, in_order=_in_order(request))


def _copy_wide(session: DuckDBSession, names: Sequence[str]) -> None:
    """Copy a wide source to a table that the session reads from then on.

    Columns are binned in groups, by statements that need the rows in one order, and binding each statement takes time
    in proportion to the columns of the source. For a large table that is faster than a copy.
    """
    if len(names) <= MAX_AT_ONCE:
        return
    try:
        may_stay = session.is_table and session.setting("preserve_insertion_order") and not session.owns_database
        n_bytes = 8 * len(names) * (session.estimated_rows() or 0) if may_stay else 0
        if may_stay and n_bytes > session.memory_limit * _SHARE_COPIED:
            return
        table = session.table("rows")
        session.run(f"CREATE TEMP TABLE {table} AS SELECT {', '.join(dict.fromkeys(names))} FROM {session.source}")
        session.read_table(table)
    except BaseException:
        session.close()
        raise


def _in_order(request: EngineRequest) -> bool:
    """Whether rows must keep their order, because functions read them or a sample is drawn by position."""
    return request.in_order or request.parameters.subsample < 1.0


def _numeric_roles(request: EngineRequest) -> dict[str, str]:
    return {role: name for role, name in request.roles.items() if role != "qid"}


def _query_column(request: EngineRequest) -> Feature | None:
    """Return the query column of the rows, in the form of a feature."""
    if "qid" not in request.roles:
        return None
    kind = request.source.types()[request.roles["qid"]]
    assert kind is not None
    return Feature(request.roles["qid"], kind)


class _ArrowStream:
    """A frame's Arrow stream, which DuckDB reads directly; for a polars frame it would import pyarrow."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


def _carried(kind: FeatureType) -> FeatureType:
    """Return the type of a polars column in DuckDB, with the same physical values."""
    if not kind.unit and kind.family != "date":
        return kind
    return FeatureType("int64").as_category if kind.is_categorical else FeatureType("int64")


def _sent(feature: Feature) -> pl.Expr:
    """Return the column as transferred to DuckDB; 128-bit integers are transferred as text."""
    values, kind = column(feature.name), feature.type
    if _carried(kind) != kind:
        return values.to_physical().cast(pl.Int64)
    return values.cast(pl.String if kind.values.name in _WIDE else kind.to_polars())


def _received(kind: FeatureType, name: str) -> str:
    wide = _WIDE.get(kind.values.name)
    return name if wide is None else f"CAST({name} AS {wide}) AS {name}"
