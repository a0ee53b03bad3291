"""The commands that write predictions, SQL and model files: ``frameboost score``, ``sql`` and ``convert``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

from frameboost.checks.messages import shown
from frameboost.cli.files import (
    add_database,
    add_model,
    add_model_and_data,
    add_table_out,
    add_text_out,
    check_data,
    check_keep,
    check_table_out,
    open_database,
    read_data,
    write_model,
)
from frameboost.cli.options import Commands, UsageError, add_command, add_options, arguments
from frameboost.data.opening import open_rows, open_source
from frameboost.data.sources import FrameSource
from frameboost.data.table_files import TableFiles
from frameboost.data.written_files import check_writable, write_output, write_table
from frameboost.database.database_model import DatabaseModel
from frameboost.errors import ParameterError
from frameboost.interop.to_xgboost import to_xgboost
from frameboost.loading import open_model
from frameboost.model.model import Model
from frameboost.schema.types import Feature, column

__all__ = ["add_convert", "add_score", "add_sql", "as_columns"]

_ROWS_AT_A_TIME = 250_000
_KEEP = {"help": "columns to return with the predictions, such as id,day; default all, '' for none"}


# --- score ------------------------------------------------------------------------------------------------------------


def add_score(commands: Commands) -> None:
    """Add the command ``score``."""
    example = "frameboost score model.json flights.parquet --keep id -o scored.duckdb::flights"
    parser = add_command(commands, "score", "Write a table with a model's predictions", _score, example)
    add_model_and_data(parser)
    add_table_out(parser, "a", required=True)
    add_options(parser, Model.predict, "output", "base_margin", "n_jobs")
    add_options(parser, Model.query, "name", keep=_KEEP)


def _score(options: argparse.Namespace) -> None:
    check_data(options)
    check_table_out(options)
    model = open_model(options.model)
    stream = _PredictionStream(model, options.keep, options.name, arguments(options, Model.predict))
    write_table(stream.over(_frame(model, options)), options.out, replace=options.replace)


def _frame(model: Model, options: argparse.Namespace) -> pl.LazyFrame:
    read = _read(model, options.output)
    source = open_rows(read_data(options), read)
    offset = model.ensemble.started_from(options.base_margin)
    offset.find_in(source)  # here, as an error of a batch does not name the wrong value
    if isinstance(source, FrameSource):
        return source.frame
    known = source.names()
    check_keep(options.keep or [], known)
    used = [*(feature.name for feature in read), *_base_margins(options.base_margin)]
    needed = known if options.keep is None else [*options.keep, *used]
    return source.to_frame([name for name in dict.fromkeys(needed) if name in known])


def _base_margins(names: str | list[str] | None) -> list[str]:
    return [names] if isinstance(names, str) else names or []


def _read(model: Model, output: str) -> list[Feature]:
    """Return the columns that an output reads, without base margins that replace those of training."""
    groups = None if model.ensemble.interval is None else model.ensemble.interval.groups
    is_read = groups is not None and output == "interval" and groups.column not in model.features
    return [*model.ensemble.read_features, *([groups.feature] if groups is not None and is_read else [])]


class _PredictionStream:
    """Scores a lazy frame batch by batch during its collection.

    Parameters
    ----------
    model
        The model.
    keep
        The columns of the data to keep; None for all.
    name
        The prediction column; several are numbered from 0.
    how
        The arguments of `Model.predict`.
    """

    def __init__(self, model: Model, keep: list[str] | None, name: str, how: Mapping[str, Any]) -> None:
        self._model, self._keep, self._name, self._how = model, keep, name, how

    def over(self, data: pl.LazyFrame) -> pl.LazyFrame:
        """Return the rows with predictions, as a lazy frame that scores batch by batch."""
        schema = data.collect_schema()
        check_keep(self._keep or [], schema.names())
        needed = schema.names()
        if self._keep is not None:
            features = {feature.name for feature in _read(self._model, self._how["output"])}
            used = {*self._keep, *features, *_base_margins(self._how.get("base_margin"))}
            needed = [name for name in needed if name in used]
        read = data.select(column(name) for name in needed)

        def batches(
            with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
        ) -> Iterator[pl.DataFrame]:
            for batch in read.collect_batches(chunk_size=_ROWS_AT_A_TIME, maintain_order=True):
                scored = self._scored_batch(batch)
                scored = scored if predicate is None else scored.filter(predicate)
                yield scored if with_columns is None else scored.select(map(column, with_columns))

        # Scoring an empty frame first finds errors in the columns before anything is written.
        return register_io_source(batches, schema=self._scored_batch(read.collect_schema().to_frame()).schema)

    def _scored_batch(self, rows: pl.DataFrame) -> pl.DataFrame:
        predicted = self._model.predict(rows, **self._how)
        columns = as_columns(predicted.rename(self._name))
        kept_rows = rows if self._keep is None else rows.select(map(column, self._keep))
        for new in columns:
            if new.name in kept_rows.columns:
                raise ParameterError(
                    f"the data has a column {shown(new.name)} already; set another --name for the predictions, or "
                    "leave that column out of --keep"
                )
        return kept_rows.with_columns(columns) if kept_rows.columns else pl.DataFrame(columns)


def as_columns(predicted: pl.Series) -> list[pl.Series]:
    """Return predictions as columns, one for each output."""
    if isinstance(predicted.dtype, pl.Struct):
        return [part.rename(f"{predicted.name}_{part.name}") for part in predicted.struct.unnest().iter_columns()]
    if not isinstance(predicted.dtype, pl.Array):
        return [predicted]
    width = predicted.dtype.size
    outputs = [predicted.arr.get(i) for i in range(width)]
    return [part.rename(predicted.name if width == 1 else f"{predicted.name}_{i}") for i, part in enumerate(outputs)]


# --- sql --------------------------------------------------------------------------------------------------------------


_QUERY_OPTIONS = ("keep", "where", "name", "form", "rows", "view", "create_table", "update")
_CONFLICTS = {"update": ("keep", "name", "form", "trees", "rows"), "create_table": ("name",)}


def add_sql(commands: Commands) -> None:
    """Add the command ``sql``."""
    example = "frameboost sql model.json --dialect postgres --table flights --view scored -o view.sql"
    notes = (
        "Without --table it is one expression over the columns. Expressions and queries end without a semicolon,\n"
        "statements with one."
    )
    parser = add_command(commands, "sql", "Write a model as SQL", _sql, example, notes)
    add_model(parser)
    add_text_out(parser)
    add_database(parser)
    add_options(parser, Model.predict, "output")
    query = parser.add_argument_group("a query over a table")
    add_options(
        query, Model.query, table={"required": False}, keep=_KEEP, where={"metavar": "CONDITION"},
        name={"default": None},
        form={"default": None,
              "help": "one expression a value, lists of nodes, expressions over sorted rows, common table expressions, "
              "or a query over a table of trees; default auto: the first that fits, DuckDB's fastest"},
        rows={"metavar": "N", "help": "the approximate number of rows to score, by which auto chooses"},
        trees={"metavar": "TABLE", "help": "the table of trees, which --statements creates"},
    )  # fmt: skip
    query.add_argument(
        "--statements", action="store_true", help="write the statements that create and fill the table of trees, first"
    )
    add_options(query, Model.query, "stamp")
    query.add_argument("--replace", action="store_true", help="replace an existing view or table")
    how = query.add_mutually_exclusive_group()
    how.add_argument("--view", metavar="NAME", help="write a statement that creates a view")
    how.add_argument("--create-table", metavar="NAME", help="write a statement that creates a table")
    how.add_argument("--update", metavar="COLUMN", help="write a statement that updates a column with the predictions")


def _sql(options: argparse.Namespace) -> None:
    if options.statements and options.trees is None:
        raise UsageError("--statements needs --trees, the name of the table of trees")
    if options.table is None:
        for name in _QUERY_OPTIONS:
            if getattr(options, name) is not None:
                raise UsageError(f"--{name.replace('_', '-')} needs --table, the table to score")
        if options.trees is not None and not options.statements:
            raise UsageError("--trees needs --table, the table to score, or --statements")
    if options.stamp and options.table is None:
        raise UsageError("--stamp needs --table, the table to score")
    if options.replace and options.view is None and options.create_table is None:
        raise UsageError("--replace needs --view or --create-table, the name of what is replaced")
    for option, others in _CONFLICTS.items():
        for name in others:
            if getattr(options, option) is not None and getattr(options, name) is not None:
                raise UsageError(f"--{name} can't be combined with --{option.replace('_', '-')}")
    check_writable(options.out)
    database = open_database(options)
    statements = database.table_statements(options.trees) if options.statements else []
    text, is_statement = _text(database, options)
    if is_statement or statements:
        text = "".join(f"{statement.rstrip().rstrip(';')};\n" for statement in [*statements, text] if statement)
    write_output(options.out, text if text.endswith("\n") else f"{text}\n")


def _text(database: DatabaseModel, options: argparse.Namespace) -> tuple[str, bool]:
    """Return the expression, the query or the statement, and whether it is a statement."""
    if options.table is None:
        return ("", True) if options.statements else (database.sql(options.output), False)
    if options.update is not None:
        written = {"where": options.where, "output": options.output, "stamp": options.stamp}
        return database.update_sql(options.table, options.update, **written), True
    query = arguments(options, DatabaseModel.query)
    if options.view is not None:
        return database.create_view_sql(options.view, replace=options.replace, **query), True
    if options.create_table is not None:
        return database.create_table_sql(options.create_table, replace=options.replace, **query), True
    return database.query(**query), False


# --- convert ----------------------------------------------------------------------------------------------------------


def add_convert(commands: Commands) -> None:
    """Add the command ``convert``."""
    example = "frameboost convert booster.ubj -o booster.json"
    parser = add_command(commands, "convert", "Write a model in another file format", _convert, example)
    add = parser.add_argument
    add_model(parser)
    add("-o", "--out", required=True, metavar="FILE", help="the file to write ('-': standard output)")
    add("--to", default="frameboost", choices=("frameboost", "xgboost"),
        help="default frameboost: JSON, or binary if it is named .ubj")  # fmt: skip
    add("--categories", metavar="DATA",
        help="for a CatBoost model, which stores only hashes of categories: a table with all of them, such as that "
        "of training")  # fmt: skip


def _convert(options: argparse.Namespace) -> None:
    check_writable(options.out)

    def categories(names: list[str]) -> Mapping[str, list[Any]]:
        data = open_source(TableFiles((options.categories,)))
        check_keep(names, data.names())
        return {name: data.to_frame([name]).unique().collect().to_series().sort().to_list() for name in names}

    model = open_model(options.model, None if options.categories is None else categories)
    if options.to == "xgboost" and str(options.out).endswith(".ubj"):
        model.to_xgboost(options.out)
    elif options.to == "xgboost":
        write_output(options.out, to_xgboost(model.ensemble))
    else:
        write_model(model, options.out)
