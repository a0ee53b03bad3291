"""``frameboost score``: writes a table with predictions, batch by batch."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import polars as pl
from polars.io.plugins import register_io_source

from frameboost.checks.messages import shown
from frameboost.cli.arguments import Commands, add_command, check_keep, names
from frameboost.cli.inputs import add_data, add_output, check_data, check_output, read_data
from frameboost.data.rows_to_score import open_rows
from frameboost.data.sources import FrameSource
from frameboost.data.table_files import write_table
from frameboost.errors import ParameterError
from frameboost.loading import open_model
from frameboost.model.model import Model
from frameboost.schema.feature import Feature
from frameboost.schema.polars_columns import column

__all__ = ["add_score"]

_ROWS_AT_A_TIME = 250_000
_EXAMPLE = "frameboost score model.json flights.parquet --keep id -o scored.duckdb::flights"


def add_score(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(commands, "score", "Write a table with a model's predictions", _score, _EXAMPLE)
    add = parser.add_argument
    add("model", metavar="MODEL", help="the model's file")
    add_data(parser)
    add_output(parser, "a", required=True)
    add("--output", default="mean", metavar="{mean,margin,class,probability,quantiles,distribution,interval,leaf}",
        help="what to predict; default mean, on the scale of the target")  # fmt: skip
    add("--keep", type=names, action="extend", metavar="COLUMNS",
        help="the columns to write beside the predictions, as id,day; by default all, of '' none")  # fmt: skip
    add("--name", default="prediction", metavar="COLUMN",
        help="the column of predictions; several get numbers or labels behind it; default prediction")  # fmt: skip
    add("--base-margin", type=names, metavar="COLUMNS",
        help="base margins by other names than in training, one for each output")  # fmt: skip


def _score(given: argparse.Namespace) -> None:
    check_data(given)
    check_output(given)
    model = open_model(given.model)
    stream = PredictionStream(model, given.output, given.name, given.keep, given.base_margin)
    write_table(stream.over(_frame(model, given)), given.out, replace=given.replace)


def _frame(model: Model, given: argparse.Namespace) -> pl.LazyFrame:
    source = open_rows(read_data(given, given.out), _read(model, given.output))
    model.ensemble.started_from(given.base_margin).find_in(source)  # here, as batches do not tell which value is wrong
    if isinstance(source, FrameSource):
        return source.frame
    known = source.names()
    check_keep(given.keep or [], known)
    asked = [*(feature.name for feature in _read(model, given.output)), *(given.base_margin or ())]
    needed = known if given.keep is None else [*given.keep, *asked]
    return source.to_frame([name for name in dict.fromkeys(needed) if name in known])


def _read(model: Model, output: str) -> list[Feature]:
    """Return the columns that an output reads, but for base margins that are not those of training."""
    groups = None if model.ensemble.interval is None else model.ensemble.interval.groups
    is_read = groups is not None and output == "interval" and groups.column not in model.features
    return [*model.ensemble.read_features, *([groups.feature] if groups is not None and is_read else [])]


class PredictionStream:
    """Scores a lazy frame batch by batch, as the batches are collected.

    Parameters
    ----------
    model, output, base_margin
        As in `Model.predict`.
    name
        The column of predictions; several are numbered from 0.
    keep
        The columns of the data to keep; None for all.
    """

    def __init__(
        self, model: Model, output: str, name: str, keep: list[str] | None, base_margin: list[str] | None
    ) -> None:
        self._model, self._output, self._name = model, output, name
        self._keep, self._base_margin = keep, base_margin

    def over(self, data: pl.LazyFrame) -> pl.LazyFrame:
        """Return the rows with predictions, as a lazy frame that scores a batch at a time."""
        schema = data.collect_schema()
        check_keep(self._keep or [], schema.names())
        needed = schema.names()
        if self._keep is not None:
            features = {feature.name for feature in _read(self._model, self._output)}
            used = {*self._keep, *features, *(self._base_margin or ())}
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
        predicted = self._model.predict(rows, self._output, base_margin=self._base_margin)  # type: ignore[arg-type]
        columns = _as_columns(predicted.rename(self._name))
        kept = rows if self._keep is None else rows.select(map(column, self._keep))
        for new in columns:
            if new.name in kept.columns:
                raise ParameterError(
                    f"the data has a column {shown(new.name)} already; give the predictions another --name, or "
                    "leave that column out of --keep"
                )
        return kept.with_columns(columns) if kept.columns else pl.DataFrame(columns)


def _as_columns(predicted: pl.Series) -> list[pl.Series]:
    """Return predictions as columns, one for each output."""
    if isinstance(predicted.dtype, pl.Struct):
        return [part.rename(f"{predicted.name}_{part.name}") for part in predicted.struct.unnest().iter_columns()]
    if not isinstance(predicted.dtype, pl.Array):
        return [predicted]
    width = predicted.dtype.size
    several = [predicted.arr.get(i) for i in range(width)]
    return [part.rename(predicted.name if width == 1 else f"{predicted.name}_{i}") for i, part in enumerate(several)]
