"""The options of a scoring query, which queries, views, tables and SQL files share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import duckdb

from frameboost.checks.messages import shown
from frameboost.compile.sql.outputs import output_columns
from frameboost.compile.sql.scoring_query import Destination, scoring_query
from frameboost.compile.sql.sql_model import SqlModel
from frameboost.compile.sql.stages import Stages, TableSource
from frameboost.data.query_plans import estimated_rows
from frameboost.errors import ParameterError
from frameboost.runtime.duckdb_errors import when_free

__all__ = ["Form", "Rows", "ScoringOptions", "SqlOutput", "scoring_statement"]

SqlOutput = Literal["mean", "margin", "class", "probability", "quantiles", "distribution", "interval", "leaf"]
Form = Literal["auto", "by_key", "case", "lists", "sorted", "staged", "table"]
Rows = int | duckdb.DuckDBPyConnection


@dataclass(frozen=True)
class ScoringOptions:
    """What `DatabaseModel.query` takes besides the table; its docstring describes the fields."""

    keep: Sequence[str] | None = None
    where: str | None = None
    output: SqlOutput = "mean"
    name: str = "prediction"
    form: Form = "auto"
    trees: str | None = None
    rows: Rows | None = None


def scoring_statement(model: SqlModel, source: TableSource, options: ScoringOptions, destination: Destination) -> str:
    """Return the query that scores a source of rows, or the statement that makes a view or a table of it.

    Raises
    ------
    ParameterError
        If two columns would have one name, or the query does not fit.
    """
    _check_distinct(options.keep, output_columns(model.output, options.name), any_case=model.dialect.names.any_case)
    read = [*model.used(), *model.read_besides]

    def stages() -> Stages:
        return Stages(model.dialect, source, options.keep, read, options.where)

    rows = options.rows
    if isinstance(rows, duckdb.DuckDBPyConnection):
        sql = rows.sql
        rows = when_free(lambda: estimated_rows(sql, source.sql)) if options.where is None else None
    return scoring_query(model, stages, options.form, options.trees, options.name, destination, rows)


def _check_distinct(keep: Sequence[str] | None, predictions: Sequence[str], *, any_case: bool) -> None:
    """Raise `ParameterError` if two columns of the query would have one name; of ``SELECT *`` nothing is known."""
    if keep is None:
        return
    kept: set[str] = set()
    for number, name in enumerate((*keep, *predictions)):
        known = name.lower() if any_case else name
        if known in kept:
            raise ParameterError(
                f"the query would have column {shown(name)} twice; leave it out of keep, or change name"
            )
        if number < len(keep):  # of labels that are one name the outputs tell more
            kept.add(known)
