"""Rows drawn by a hash: of their position, the same in every engine, or of the query that they belong to.

A row must have the same position each time that a relation is read, and in each fit. DuckDB promises an order to some
queries only (see `frameboost.data.query_plans`); others are refused.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from itertools import accumulate

import duckdb
import polars as pl

from frameboost.checks.messages import shown
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.data.query_plans import plan_of, plan_steps, step_without_order
from frameboost.data.sources import FrameSource, LocalSource, RelationSource
from frameboost.errors import DataError
from frameboost.expressions.draws import draw_expr, draw_sql
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.schema.polars_columns import column
from frameboost.schema.types import FeatureType

__all__ = [
    "draws_of_groups",
    "free_name",
    "queries_of",
    "split_by_draw",
    "split_by_queries",
    "split_by_query_draw",
    "with_draws",
    "with_window",
]


def split_by_draw(source: LocalSource, share: float, key: int) -> tuple[LocalSource, LocalSource]:
    """Return the rows to train on, and about that share of the rows, drawn by a hash of their position.

    A lazy frame is collected first, unless it only reads files: its rows may come in another order the next time.

    Raises
    ------
    DataError
        If it is a relation whose rows have no certain order.
    """
    name = free_name("draw", source.names())
    drawn = with_draws(source, key, name)
    if isinstance(drawn, FrameSource):
        held = pl.col(name) < share
        return drawn.map(lambda f: f.filter(~held).drop(name)), drawn.map(lambda f: f.filter(held).drop(name))
    quoted = quote_identifier(name)
    training, part = (drawn.relation.filter(f"{quoted} {sign} {share!r}::DOUBLE") for sign in (">=", "<"))
    return drawn.derived(_without(training, quoted)), drawn.derived(_without(part, quoted))


def split_by_query_draw(source: LocalSource, group: str, share: float, key: int) -> tuple[LocalSource, LocalSource]:
    """Return the rows of other queries, and of about that share of the queries, drawn by their rank in order."""
    kind = source.types()[group]
    assert kind is not None
    if isinstance(source, FrameSource):
        queries = queries_of(source, group)
        return split_by_queries(source, group, queries.filter(_draws_by_rank(queries, key) < share))
    name = free_name("draw", source.names())
    ranked, quoted = _with_draws_of_groups(source, group, kind, key, name).relation, quote_identifier(name)
    training, part = (ranked.filter(f"{quoted} {sign} {share!r}::DOUBLE") for sign in (">=", "<"))
    return source.derived(_without(training, quoted)), source.derived(_without(part, quoted))


def draws_of_groups(source: LocalSource, group: str, key: int, name: str) -> tuple[LocalSource, int, int]:
    """Return the rows with a number in [0, 1) for their group, drawn by its rank in order.

    The number of groups and of rows without a group are returned as well.
    """
    kind = source.types()[group]
    assert kind is not None
    if isinstance(source, FrameSource):
        frame = source.frame.collect().lazy()
        groups = queries_of(FrameSource(frame), group)
        n_missing = int(frame.select(column(group).is_null().sum()).collect().item())
        with_draw = _comparable(group, kind).replace_strict(groups, _draws_by_rank(groups, key), default=None)
        drawn = FrameSource(frame.with_columns(with_draw.alias(name)), categorical=source.categorical)
        return drawn, len(groups), n_missing
    text = _comparable_sql(group, kind)
    counts = source.relation.aggregate(f"COUNT(DISTINCT {text}), COUNT(*) - COUNT({text})").fetchall()[0]
    return _with_draws_of_groups(source, group, kind, key, name), *counts


def _with_draws_of_groups(
    source: RelationSource, group: str, kind: FeatureType, key: int, name: str
) -> RelationSource:  # fmt: skip
    rank = f"dense_rank() OVER (ORDER BY {_comparable_sql(group, kind)} ASC NULLS LAST) - 1"
    return with_window(source, draw_sql(rank, key), name)


def with_window(source: RelationSource, sql: str, name: str) -> RelationSource:
    """Return the rows with one more column, of a window function, in their order: windows leave them in another one.

    By their positions samples are drawn, and rows of a query with equal margins are ranked.
    """
    position = quote_identifier(free_name("position", [*source.names(), name]))
    numbered = source.relation.project(f"*, row_number() OVER () AS {position}")
    ordered = numbered.project(f"*, {sql} AS {quote_identifier(name)}").order(position)
    return source.derived(_without(ordered, position))


def queries_of(source: FrameSource, group: str) -> pl.Series:
    """Return the queries of the rows, in order; categories as text."""
    kind = source.types()[group]
    assert kind is not None
    return source.frame.select(_comparable(group, kind).unique()).collect().to_series().drop_nulls().sort()


def split_by_queries(source: FrameSource, group: str, queries: pl.Series) -> tuple[FrameSource, FrameSource]:
    """Return the rows of other queries, and those of the given ones."""
    kind = source.types()[group]
    assert kind is not None
    held = _comparable(group, kind).is_in(queries.implode()).fill_null(False)
    return source.map(lambda f: f.filter(~held)), source.map(lambda f: f.filter(held))


def with_draws(source: LocalSource, key: int, name: str) -> LocalSource:
    """Return the rows with one more column, a number in [0, 1) drawn by the row's position."""
    if isinstance(source, FrameSource):
        parts = source.parts or (source.frame,)
        if not source.are_files:
            parts = tuple(part.collect().lazy() for part in parts)
        counts = [int(part.select(pl.len()).collect().item()) for part in parts[:-1]]
        position = pl.col(name).cast(pl.Int64)
        drawn = tuple(
            part.with_row_index(name, offset).with_columns(draw_expr(position, key).alias(name))
            for part, offset in zip(parts, accumulate(counts, initial=0), strict=True)
        )
        whole = pl.concat(drawn) if len(drawn) > 1 else drawn[0]
        return replace(source, frame=whole, parts=drawn if source.parts else ())
    _check_order(source)
    drawn_sql = draw_sql("row_number() OVER () - 1", key)
    return source.derived(source.relation.project(f"*, {drawn_sql} AS {quote_identifier(name)}"))


def free_name(name: str, taken: list[str]) -> str:
    """Return the name, with underscores appended until no column has it, in whatever case."""
    while name in {other.lower() for other in taken}:
        name += "_"
    return name


def _draws_by_rank(queries: pl.Series, key: int) -> pl.Series:
    """Return a number in [0, 1) for each query, drawn by its place in order."""
    return pl.select(draw_expr(pl.int_range(len(queries), dtype=pl.Int64), key)).to_series()


def _comparable(group: str, kind: FeatureType) -> pl.Expr:
    """Return the queries of the rows; categories are compared as text."""
    return column(group).cast(pl.String) if kind.is_categorical else column(group)


def _comparable_sql(group: str, kind: FeatureType) -> str:
    """Return the same in SQL."""
    by = quote_identifier(group)
    return f"CAST({by} AS VARCHAR)" if kind.is_categorical else by


def _without(relation: duckdb.DuckDBPyRelation, quoted: str) -> duckdb.DuckDBPyRelation:
    return relation.project(f"* EXCLUDE ({quoted})")


# --- the order of a relation ------------------------------------------------------------------------------------------


def _check_order(source: RelationSource) -> None:
    """Raise `DataError` if the rows of a relation may come in another order the next time."""
    with closing(DuckDBSession(source.relation)) as session:
        if not session.setting("preserve_insertion_order"):
            raise DataError(
                "rows have no certain position while preserve_insertion_order is off; SET preserve_insertion_order = "
                "true, or name a column that tells which rows to hold out"
            )
        step = source.unordered
    if step is None:
        step = step_without_order(plan_steps(plan_of(source.relation)))
    if step:
        raise DataError(
            f"the rows of this query have no certain order (its plan has {shown(step)}), so that one may be drawn in "
            "one reading and not in the next; store them first, as relation.create('rows') does, and give "
            "con.table('rows'), or name a column that tells which rows to hold out"
        )
