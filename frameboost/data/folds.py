"""Folds of the rows: each part of the data once to validate on, and the rest to train on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from frameboost.checks.messages import did_you_mean, shown
from frameboost.data.opening import open_source
from frameboost.data.shares import draws_of_groups, free_name, with_draws, with_window
from frameboost.data.sources import FrameSource, LocalSource, SparseSource
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.draws import draw_key
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.schema.polars_columns import column

__all__ = ["fold_parts"]

_MAX_FOLDS = 1_000_000
_FOLD = 20  # the purpose of a random key; `frameboost.training.sampling` has others


def fold_parts(
    source: LocalSource, folds: int | str, time: str | None, seed: int, groups: str | None = None
) -> Iterator[tuple[Any, Any]]:
    """Yield rows to train on and rows to validate on.

    Parameters
    ----------
    source
        The rows.
    folds
        A number of folds, or a column, each value of which is a fold.
    time
        A column in whose order the rows are split; each part but the first is then predicted from those before it.
    seed
        The seed of the hash by which rows or groups are dealt to folds.
    groups
        A column whose rows of one value stay together.

    Raises
    ------
    ParameterError, DataError
        If there are fewer than 2 folds, a column won't do, or the rows are those of a sparse matrix.
    """
    if isinstance(source, SparseSource):
        raise DataError("the rows of a sparse matrix can't be dealt to folds; give a frame, or a table of a database")
    rows = source.own_rows()
    if rows is not source and {time, groups, folds if isinstance(folds, str) else None} - {None} <= set(rows.names()):
        for training, held_out in fold_parts(rows, folds, time, seed, groups):  # of the facts alone
            yield source.with_own_rows(open_source(training)), source.with_own_rows(open_source(held_out))
        return
    if isinstance(folds, str):
        if time is not None:
            raise ParameterError("time does not go with a column of folds; give the number of folds")
        yield from _by_column(source, folds)
        return
    if not isinstance(folds, int) or isinstance(folds, bool) or not 2 <= folds <= _MAX_FOLDS:
        raise ParameterError(f"folds must be an integer from 2 to {_MAX_FOLDS:,} or a column name, not {shown(folds)}")
    if time is not None:
        yield from _by_time(source, time, folds)
    elif groups is not None:
        yield from _dealt(_with_folds_of_groups(source, groups, folds, seed), folds)
    else:
        yield from _dealt(_with_folds_of_rows(source, folds, seed), folds)


def _dealt(numbered: tuple[LocalSource, str], folds: int) -> Iterator[tuple[Any, Any]]:
    """Yield the parts of rows that have a column of the numbers of their folds."""
    for fold in range(folds):
        yield _divided(*numbered, fold)


def _divided(source: LocalSource, name: str, number: int, others: str = "<>") -> tuple[Any, Any]:
    """Return the rows whose number is another one, or with ``<`` a smaller one, and those that have this number.

    The column of the numbers is left out.
    """
    if isinstance(source, FrameSource):
        numbers = pl.col(name)
        rest = numbers < number if others == "<" else numbers != number
        parts = (source.frame.filter(part).drop(name) for part in (rest, numbers == number))
        return _rows_of(source, next(parts)), _rows_of(source, next(parts))
    quoted = quote_identifier(name)
    rows = (source.relation.filter(f"{quoted} {sign} {number}") for sign in (others, "="))
    training, held_out = (source.derived(part.project(f"* EXCLUDE ({quoted})")) for part in rows)
    return training, held_out


def _rows_of(source: FrameSource, rows: pl.LazyFrame) -> pl.LazyFrame | FrameSource:
    """Return some rows of a source, with what the frame does not tell of its columns."""
    return FrameSource(rows, categorical=source.categorical) if source.categorical else rows


def _with_folds_of_rows(source: LocalSource, folds: int, seed: int) -> tuple[LocalSource, str]:
    """Return the rows with the number of a fold each, drawn by their position, and that column's name."""
    name = free_name("fold", source.names())
    drawn = with_draws(source, draw_key(seed, _FOLD), name)
    if isinstance(drawn, FrameSource):
        number = (pl.col(name) * folds).floor().cast(pl.Int64)
        return drawn.map(lambda frame: frame.with_columns(number)), name
    quoted = quote_identifier(name)
    replaced = f"* REPLACE (CAST(FLOOR({quoted} * {folds}) AS BIGINT) AS {quoted})"
    return drawn.derived(drawn.relation.project(replaced)), name


def _with_folds_of_groups(source: LocalSource, groups: str, folds: int, seed: int) -> tuple[LocalSource, str]:
    """Return the rows with the fold of their group, and that column's name; groups are dealt in the order of draws."""
    if groups not in source.names():
        raise DataError(f"groups column {shown(groups)} is not in the data{did_you_mean(groups, source.names())}")
    if source.types()[groups] is None:
        raise DataError(
            f"groups column {shown(groups)} has type {source.type_names()[groups]}, which can't tell groups apart; "
            "convert it to an integer or a string"
        )
    name = free_name("fold", source.names())
    drawn, n_groups, n_missing = draws_of_groups(source, groups, draw_key(seed, _FOLD), name)
    if n_missing:
        raise DataError(f"groups column {shown(groups)} is NULL in {n_missing:,} rows; give every row its group")
    if n_groups < folds:
        has = "one value in all rows" if n_groups == 1 else f"{n_groups} distinct values"
        raise DataError(f"groups column {shown(groups)} has {has}; {folds} folds need as many groups")
    if isinstance(drawn, FrameSource):
        number = (pl.col(name).rank("dense").cast(pl.Int64) - 1) % folds
        return FrameSource(drawn.frame.with_columns(number), categorical=drawn.categorical), name
    quoted, place = quote_identifier(name), free_name("number", drawn.names())
    numbered = with_window(drawn, f"(dense_rank() OVER (ORDER BY {quoted} ASC) - 1) % {folds}", place)
    return numbered.derived(numbered.relation.project(f"* EXCLUDE ({quoted})")), place


def _by_column(source: LocalSource, name: str) -> Iterator[tuple[Any, Any]]:
    if name not in source.names():
        raise DataError(f"column {shown(name)}, of folds, is not in the data")
    if isinstance(source, FrameSource):
        values = source.frame.select(column(name)).unique().collect().to_series().sort(nulls_last=True)
        _check_count(len(values), name)
        for value in values:
            is_part = column(name).eq_missing(pl.lit(value, dtype=values.dtype))
            yield _rows_of(source, source.frame.filter(~is_part)), _rows_of(source, source.frame.filter(is_part))
        return
    by, place = quote_identifier(name), free_name("fold", source.names())
    ranked = with_window(source, f"dense_rank() OVER (ORDER BY {by} ASC)", place)
    count = ranked.relation.aggregate(f"MAX({quote_identifier(place)})").fetchall()[0][0] or 0
    _check_count(count, name)
    for number in range(1, count + 1):
        yield _divided(ranked, place, number)


def _by_time(source: LocalSource, name: str, folds: int) -> Iterator[tuple[Any, Any]]:
    if name not in source.names():
        raise DataError(f"time column {shown(name)} is not in the data")
    part = free_name("fold", source.names())
    if isinstance(source, FrameSource):
        rank = column(name).rank("min") - 1  # rows of one time stay together
        frame = source.frame.collect()
        if frame[name].null_count():
            raise DataError(f"time column {shown(name)} is NULL in {frame[name].null_count():,} rows")
        parted = frame.lazy().with_columns((rank.cast(pl.Int64) * (folds + 1) // pl.len()).alias(part))
        for fold in range(1, folds + 1):
            yield _divided(FrameSource(parted, categorical=source.categorical), part, fold, "<")
        return
    by = quote_identifier(name)
    if missing := source.relation.filter(f"{by} IS NULL").aggregate("COUNT(*)").fetchall()[0][0]:
        raise DataError(f"time column {shown(name)} is NULL in {missing:,} rows")
    rank_text = f"(rank() OVER (ORDER BY {by} ASC) - 1) * {folds + 1} // COUNT(*) OVER ()"
    parted_rows = with_window(source, rank_text, part)
    for fold in range(1, folds + 1):
        yield _divided(parted_rows, part, fold, "<")


def _check_count(count: int, name: str) -> None:
    if count < 2:
        raise DataError(f"column {shown(name)}, of folds, has {count} distinct value; it must have at least 2")
