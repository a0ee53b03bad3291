"""Frames and files whose rows follow each other: read with one type a column, and checked for the same columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import polars as pl

from frameboost.checks.arguments import EXPLAINERS
from frameboost.checks.messages import listed, reason, shortened, shown, shown_path, warn
from frameboost.data.file_formats import SEPARATORS, TEXTS, format_of_path
from frameboost.data.scans import scanned_formats
from frameboost.data.table_files import (
    dictionaries_in,
    files_of,
    is_columnar,
    is_table,
    mixed_types,
    problem_of_text,
    read_table,
    short_row,
)
from frameboost.errors import DataError
from frameboost.schema.polars_columns import column

__all__ = ["Part", "TableFiles", "frame_part", "name_file", "parts_of_files", "same_columns", "text_among_numbers"]

# Tokens that are no numbers, in a column that is otherwise of numbers: at most so many, with so many times as many
# numbers, or some of those by which a missing value is known.
_FEW_TOKENS = 5
_FIRST_ROWS = 1000
_MISSING = frozenset(["", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "\\n", "?", "-", "--", ".", "missing"])


@dataclass(frozen=True)
class TableFiles:
    """Files that are one table.

    Attributes
    ----------
    paths
        Paths and globs.
    table
        The table of a DuckDB file.
    kind
        The format of the files (`file_formats.FORMATS`), by default what their suffixes tell.
    content
        The bytes of the only file, such as those of standard input.
    types
        Types of columns of text, in place of the inferred ones.
    fill_missing
        Whether columns that only some files have are NULL in the others.
    read_only
        Whether a DuckDB file is opened so that it can't be written to.
    null_values
        What stands for NULL in files of text, besides nothing.
    are_typed
        Whether the types of training, or of a model, decide on those of columns of text.
    """

    paths: tuple[str, ...]
    table: str | None = None
    kind: str | None = None
    content: bytes | None = None
    types: Mapping[str, pl.DataType] = field(default_factory=dict)
    fill_missing: bool = False
    read_only: bool = True
    null_values: tuple[str, ...] = ()
    are_typed: bool = False

    @staticmethod
    def of(data: object) -> TableFiles | None:
        """Return the files that a path or a list of paths means; None if it is something else."""
        if isinstance(data, TableFiles):
            return data
        if isinstance(data, str | Path):
            return TableFiles((str(data),)) if is_table(str(data)) else None
        if isinstance(data, list | tuple) and data and all(isinstance(path, str | Path) for path in data):
            return TableFiles(tuple(map(str, data)))
        return None


class Part(NamedTuple):
    """A frame whose rows follow those of others.

    ``name`` is what messages call it, ``is_file`` whether it only reads files (see `scanned_formats`), and
    ``is_columnar`` whether these are files of which one column can be read without the others. ``categorical`` are
    columns that a file says are dictionaries, of any type.
    """

    frame: pl.LazyFrame
    name: str
    is_file: bool
    is_columnar: bool
    categorical: frozenset[str] = frozenset()


def frame_part(frame: pl.LazyFrame, name: str) -> Part:
    """Return a lazy frame as a part."""
    formats = scanned_formats(frame)
    return Part(frame, name, formats is not None, formats == frozenset(["parquet"]))


def parts_of_files(files: TableFiles, argument: str) -> list[Part] | duckdb.DuckDBPyRelation:
    """Return each file as a part, or the relation of the only one; ``argument`` is its name in messages.

    A column of files of text whose types were inferred differently has one type: numbers are floats if those of a file
    are, and a file without a value follows the others.

    Raises
    ------
    DataError
        If a file can't be read, or is a DuckDB file among others.
    """
    options = {"table": files.table, "content": files.content, "read_only": files.read_only, "kind": files.kind,
               "null_values": files.null_values}  # fmt: skip
    paths = _all_paths(files, argument)
    tables = {path: read_table(path, types=files.types, **options) for path in dict.fromkeys(paths)}  # type: ignore[arg-type]
    if len(tables) == 1 and isinstance(first := next(iter(tables.values())), duckdb.DuckDBPyRelation):
        return first
    frames = {path: table for path, table in tables.items() if isinstance(table, pl.LazyFrame)}
    if others := [path for path in tables if path not in frames]:
        raise DataError(
            f"{argument} has {shown_path(others[0])}, a table of DuckDB, whose rows can't follow those of other files; "
            "give a relation with all rows"
        )
    texts = {path: frame for path, frame in frames.items() if (files.kind or format_of_path(path)) in TEXTS}
    if types := _common_types(texts):
        frames |= {path: read_table(path, types={**types, **files.types}, **options) for path in texts}  # type: ignore
    frames |= {path: _without_type(frame, texts, files.types) for path, frame in frames.items() if path in texts}
    if not files.types:  # else they have been opened before, to know which
        _warn_of_repeated(paths)
        _warn_of_short_rows(files, frames)
    if not files.are_typed:
        _warn_of_tokens({path: frames[path] for path in texts}, _warn_of_mixed_types(files, texts))
    found = {
        path: Part(
            frame, shown_path(path), files.content is None, is_columnar(path),
            dictionaries_in(path) if files.content is None else frozenset(),
        )
        for path, frame in frames.items()
    }  # fmt: skip
    parts = [found[path] for path in paths]
    return _filled(parts) if files.fill_missing else parts


def _without_type(
    frame: pl.LazyFrame, texts: Iterable[str], types: Mapping[str, pl.DataType]
) -> pl.LazyFrame:  # fmt: skip
    """Return a file's table with columns of no type where CSV has no value, which polars takes for strings.

    Not one of several files: there the others tell.
    """
    schema = frame.collect_schema()
    strings = [name for name, dtype in schema.items() if dtype == pl.String and name not in types]
    if len(list(texts)) > 1 or not strings:
        return frame
    for rows in (frame.head(_FIRST_ROWS), frame):  # most columns have a value in the first rows
        is_empty = rows.select(column(name).is_null().all() for name in strings).collect(engine="streaming")
        strings = [name for name in strings if is_empty[name].item()]
        if not strings:
            return frame
    return frame.with_columns(pl.lit(None, pl.Null).alias(name) for name in strings)


def _all_paths(files: TableFiles, argument: str) -> list[str]:
    """Return the path of each file, in order; one that is named twice is there twice."""
    if files.content is not None:
        return list(files.paths)
    return [path for given in files.paths for path in files_of(given, argument)]


def _warn_of_repeated(paths: Sequence[str]) -> None:
    counts = Counter(path if "://" in path else str(Path(path).resolve()) for path in paths)
    path, count = max(counts.items(), key=itemgetter(1))
    if count > 1:
        warn(f"{shown_path(path)} is {count} times among the files of the data, so each of its rows is there as often")


def _warn_of_short_rows(files: TableFiles, frames: Mapping[str, pl.LazyFrame]) -> None:
    for path, frame in frames.items():
        kind = files.kind or format_of_path(path)
        if kind not in SEPARATORS or "://" in path:  # where it would be read once more
            continue
        if where := short_row(frame, path, kind, files.content):
            warn(f"{shown_path(path)} has a row that is too short: {where}; what such rows lack is read as NULL")


def _warn_of_mixed_types(files: TableFiles, texts: Mapping[str, pl.LazyFrame]) -> set[str]:
    """Give a warning of each column of NDJSON with strings and other values, and return these columns."""
    warned: set[str] = set()
    for path, frame in texts.items():
        if (files.kind or format_of_path(path)) != "ndjson" or "://" in path:
            continue
        for name, (value, text) in mixed_types(frame, path, files.content).items():
            if name not in warned:
                way = "; if that means that a value is missing, on the command line give --null-values with it"
                warn(
                    f"column {shown(name)} of {shown_path(path)} is read as strings, of which each is a category: it "
                    f"has strings, such as {shown(text)}, and others, such as {shown(value)}; write values of one type"
                    f"{way if text.strip().lower() in _MISSING else ''}"
                )
            warned.add(name)
    return warned


def _common_types(frames: Mapping[str, pl.LazyFrame]) -> dict[str, pl.DataType]:
    """Return the one type of each column whose inferred types differ between files, where there is one."""
    schemas = [frame.collect_schema() for frame in frames.values()]
    found: dict[str, pl.DataType] = {}
    for name in dict.fromkeys(name for schema in schemas for name in schema):
        inferred = {schema[name] for schema in schemas if name in schema}
        types = {dtype for dtype in inferred if dtype != pl.Null}  # as NDJSON has a column without values
        if len(types) > 1 and pl.String in types:
            texts = [frame for frame in frames.values() if frame.collect_schema().get(name) == pl.String]
            if all(frame.select(column(name).is_null().all()).collect().item() for frame in texts):
                types.remove(pl.String())
        if len(types) == 1 and len(inferred) > 1:
            found[name] = types.pop()
        elif len(types) > 1 and all(dtype.is_numeric() for dtype in types):
            found[name] = pl.Float64()
    return found


def _filled(parts: Sequence[Part]) -> list[Part]:
    """Return the parts with the columns of all, which are NULL where a part lacks them."""
    schema: dict[str, Any] = {}
    for part in parts:
        for name, dtype in part.frame.collect_schema().items():
            schema.setdefault(name, dtype)
    found = []
    for part in parts:
        own = part.frame.collect_schema()
        lacking = [pl.lit(None, dtype).alias(name) for name, dtype in schema.items() if name not in own]
        found.append(part._replace(frame=part.frame.with_columns(lacking).select(map(column, schema))))
    return found


def same_columns(parts: Sequence[Part]) -> list[pl.LazyFrame]:
    """Return the frames of several parts with the columns of the first.

    Raises
    ------
    DataError
        If a frame lacks a column of the first, or has another type there; if a file has a column that the first lacks.
    """
    schema = parts[0].frame.collect_schema()
    for part in parts[1:]:
        own = part.frame.collect_schema()
        if part.is_file and (more := [name for name in own if name not in schema]):
            raise _lacks(parts[0], more[0], part)
        for name, dtype in schema.items():
            if name not in own:
                raise _lacks(part, name, parts[0])
            if own[name] != dtype:
                first, other = (_described(a, name, b) for a, b in ((parts[0], own[name]), (part, dtype)))
                raise DataError(f"column {shown(name)} has type {first} and {other}; give it one type")
    return [part.frame.select(map(column, schema)) for part in parts]


def _lacks(part: Part, name: str, other: Part) -> DataError:
    return DataError(
        f"column {shown(name)} is in {other.name} but not in {part.name}; add it there, or join the rows by "
        "pl.concat(frames, how='diagonal'), on the command line by --fill-missing, which has NULL in its place"
    )


def _described(part: Part, name: str, other: pl.DataType) -> str:
    """Return a column's type in a part; of strings where others have numbers with the first that is no number."""
    dtype = part.frame.collect_schema()[name]
    example = text_among_numbers(part.frame, name) if other.is_numeric() else ""
    return f"{shortened(str(dtype))} in {part.name}{example}"


def text_among_numbers(frame: pl.LazyFrame, name: str) -> str:
    """Return what messages say of a column of strings: the first that is no number, if there is one.

    >>> text_among_numbers(pl.LazyFrame({"x": ["1", None, "n/a"]}), "x")
    " (such as 'n/a')"
    """
    if frame.collect_schema()[name] != pl.String:
        return ""
    is_text = column(name).is_not_null() & column(name).cast(pl.Float64, strict=False).is_null()
    example = frame.select(column(name).filter(is_text).first()).collect().item()
    return "" if example is None else f" (such as {shown(example)})"


def _warn_of_tokens(texts: Mapping[str, pl.LazyFrame], warned: Container[str]) -> None:
    """Give a warning of each column of files of text that has numbers and a few tokens, such as NA, which are none.

    One such token makes a column of numbers one of strings, whose every number is a category. Columns of which another
    warning has told (``warned``) are left out.
    """
    schemas = {path: frame.collect_schema() for path, frame in texts.items()}
    for name in dict.fromkeys(name for own in schemas.values() for name, dtype in own.items() if dtype == pl.String):
        if name in warned:
            continue
        several = [texts[path].select(column(name)) for path, own in schemas.items() if own.get(name) == pl.String]
        text = column(name).str.strip_chars()
        kind = pl.when(_is_number(text)).then(1).when(_is_number(text.str.replace_all(",", ""))).then(2).otherwise(0)
        distinct = column(name).n_unique().alias("distinct")
        tokens = column(name).unique(maintain_order=True).head(_FEW_TOKENS).alias("tokens")
        counted = pl.concat(several).drop_nulls().group_by(kind.alias("kind")).agg(distinct, tokens)
        found = {row["kind"]: row for row in counted.collect(engine="streaming").iter_rows(named=True)}
        numbers, others, commas = (found.get(key, {"distinct": 0, "tokens": []}) for key in (1, 0, 2))
        path = next(path for path, own in schemas.items() if own.get(name) == pl.String)
        what = f"column {shown(name)} of {shown_path(path)} is read as strings, of which each is a category"
        if commas["distinct"] > _FEW_TOKENS and not others["distinct"]:
            warn(
                f"{what}: its values are numbers with commas, such as {shown(commas['tokens'][0])}; if that is a "
                "decimal comma, give a frame of it, as pl.scan_csv(path, decimal_comma=True)"
            )
        elif 0 < others["distinct"] <= _FEW_TOKENS and (
            numbers["distinct"] > _FEW_TOKENS * others["distinct"]
            or (numbers["distinct"] > 1 and all(token.strip().lower() in _MISSING for token in others["tokens"]))
        ):
            frame = f"a frame of it, as pl.scan_csv(path, null_values={shown(others['tokens'])}), or "
            warn(
                f"{what}: all but {listed(others['tokens'])} are numbers; if that means that a value is missing, give "
                f"{frame if format_of_path(path) in SEPARATORS else ''}on the command line --null-values "
                f"{','.join(others['tokens'])}"
            )


def _is_number(text: pl.Expr) -> pl.Expr:
    return text.cast(pl.Float64, strict=False).is_finite().fill_null(value=False)


def name_file(error: BaseException, arguments: Iterable[object]) -> None:
    """Raise `DataError` with the name of the file that polars can't read; return if no argument is a file of text.

    Polars reads lazily, so that its errors come long after a file was opened, and do not say which it is.
    """
    if isinstance(error, OSError):  # maybe of a file that is written
        return
    for argument in arguments:
        several = argument.values() if isinstance(argument, Mapping) else [argument]
        for files in filter(None, map(TableFiles.of, several)):
            paths = _all_paths(files, "data")
            for path in paths:
                kind = files.kind or format_of_path(path)
                if kind not in TEXTS:
                    continue
                why = problem_of_text(path, kind, files.content)
                if why or len(paths) == 1:
                    raise DataError(f"{path} can't be read: {why or reason(error)}") from error


def _say_unreachable(error: BaseException, _: Iterable[object]) -> None:
    """Raise `DataError` for a file of a lazy frame that polars can't open, such as of an address that is wrong."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    is_of_polars = last is not None and Path(pl.__file__).parent in Path(last.tb_frame.f_code.co_filename).parents
    if is_of_polars and (isinstance(error, OSError) or "object-store" in str(error)):
        says = f"a file of the data can't be read: {reason(error)}"
        raise DataError(f"{says}; check its address and your rights") from error


EXPLAINERS += [name_file, _say_unreachable]
