"""Faults of text tables, CSV, TSV and NDJSON: errors and warnings with the line.

Polars reads some faults silently: one non-number turns a column into strings, and short rows are filled with NULL.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import shlex
import zlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from frameboost.checks.messages import advice, counted, listed, shown, shown_path, warn
from frameboost.data.file_formats import FORMATS, SEPARATORS, format_of_path
from frameboost.errors import DataError
from frameboost.schema.types import column

__all__ = [
    "check_header", "problem_of_text", "short_row", "text_among_numbers", "warn_of_mixed_types", "warn_of_tokens",
]  # fmt: skip

_LINES_TO_PARSE = 1000
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
# Tokens that are no numbers, in a column that is otherwise of numbers: at most so many, with so many times as many
# numbers, or some of those by which a missing value is known.
_FEW_TOKENS = 5
_MISSING = frozenset(["", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "\\n", "?", "-", "--", ".", "missing"])


def check_header(path: str, kind: str, names: Sequence[str], source: str | bytes) -> None:
    """Raise `DataError` for duplicate columns, which polars renames, or text that seems to be in another format."""
    if any("\0" in name for name in names):
        raise DataError(f"{path} can't be read: line 1 is not UTF-8")
    if any("\r" in name.strip("\r") for name in names):
        raise DataError(f"{path} can't be read: its lines end by \\r alone; write it with \\n, or \\r\\n")
    if any("_duplicated_" in name for name in names):
        header = pl.scan_csv(source, separator=SEPARATORS[kind], has_header=False, n_rows=1, infer_schema=False)
        header_names = header.collect().row(0)
        if twice := [name for name in header_names if header_names.count(name) > 1]:
            raise DataError(
                f"{path} has column {shown(twice[0])} {header_names.count(twice[0])} times; column names must be unique"
            )
    if len(names) == 1 and (others := [s for s in (",", ";", "\t", "|") if s != SEPARATORS[kind] and s in names[0]]):
        frame = advice(f"pass it as a frame, pl.scan_csv(path, separator={shown(others[0])}), or ")
        raise DataError(
            f"{path} has one column, {shown(names[0])}, whose values seem to be separated by {shown(others[0])}; "
            f"{frame}write it as {FORMATS[kind].label}"
        )


def problem_of_text(path: str, kind: str, content: bytes | None = None, *, is_short: bool = False) -> str | None:
    r"""Return the fault of a text file and its line, for faults that polars does not report; None without one.

    >>> problem_of_text("-", "csv", b"x,y\n1,2\n1,2,3\n"), problem_of_text("-", "csv", b"x,y\n1,\xff\n")
    ('line 3 has 3 fields, and the header has 2', 'line 2 is not UTF-8')

    ``is_short`` looks for rows with fewer fields than the header, otherwise for rows with more.
    """
    try:
        with Path(path).open("rb") if content is None else io.BytesIO(content) as raw:
            start = raw.read(4)
            raw.seek(0)
            if start.startswith(_ZSTD):
                return None
            lines = _decoded(gzip.GzipFile(fileobj=raw) if start.startswith(_GZIP) else raw)
            return _of_objects(lines) if kind == "ndjson" else _of_fields(lines, SEPARATORS[kind], is_short=is_short)
    except _NotTextError as error:
        return str(error)
    except (csv.Error, OSError, EOFError, zlib.error):  # polars says why
        return None


def _of_objects(lines: Iterable[str]) -> str | None:
    first: dict[str, tuple[str, int]] = {}  # of each column its kind of value, and the line that has it
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict):
            return f"line {number} is not a JSON object"
        for name, value in values.items():
            kind = _KINDS.get(type(value), "")
            before, at = first.setdefault(name, (kind, number)) if kind else ("", 0)
            if kind != before and not {kind, before} <= _AS_STRINGS:
                return f"column {shown(name)} is {kind} in line {number} and {before} in line {at}"
    return None


def _of_fields(lines: Iterable[str], separator: str, *, is_short: bool) -> str | None:
    rows = csv.reader(lines, delimiter=separator)
    width = len(next(rows, []))
    wrong = next((len(row) for row in rows if (len(row) < width if is_short else len(row) > width)), None)
    return None if wrong is None else f"line {rows.line_num} has {counted(wrong, 'field')}, and the header has {width}"


# What messages call the types of JSON; polars reads columns with both of the latter as strings.
_KINDS = {
    int: "a number", float: "a number", bool: "true or false", str: "a string", list: "a list", dict: "an object",
}  # fmt: skip
_AS_STRINGS = frozenset(["a number", "a string"])


class _NotTextError(Exception):
    """A line is not UTF-8."""


def _decoded(lines: Iterable[bytes]) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            raise _NotTextError(f"line {number} is not UTF-8") from error


# --- warnings of values that are read in an unexpected way ------------------------------------------------------------


def _lines(source: str | bytes) -> pl.LazyFrame:
    """Return the lines of a text file as the column ``line``; an empty line is NULL."""
    return pl.scan_csv(
        source, separator="\1", quote_char=None, has_header=False, infer_schema=False, truncate_ragged_lines=True
    ).select(pl.first().alias("line"))


def short_row(frame: pl.LazyFrame, path: str, kind: str, content: bytes | None = None) -> str | None:
    """Return the location of a row with fewer fields than the header in a separated file read by ``frame``.

    None if there is none.
    """
    line, width = pl.col("line"), len(frame.collect_schema())
    n_separators = line.str.count_matches(SEPARATORS[kind], literal=True).fill_null(0)
    is_short = n_separators < width - 1
    row = (
        _lines(path if content is None else content)
        .with_row_index("number", offset=1)
        .select(
            pl.col("number").filter(is_short).first(),
            n_separators.filter(is_short).first().alias("n"),
            line.filter(is_short).first().is_null().alias("is_empty"),
            line.str.contains('"', literal=True).any().alias("has_quotes"),
        )
        .collect(engine="streaming")
        .row(0, named=True)
    )
    if row["number"] is None:
        return None
    if row["has_quotes"]:  # a value may go over several lines
        return problem_of_text(path, kind, content, is_short=True)
    fields = 0 if row["is_empty"] else row["n"] + 1
    return f"line {row['number']} has {counted(fields, 'field')}, and the header has {width}"


def warn_of_mixed_types(
    texts: Mapping[str, pl.LazyFrame], kind: str | None = None, content: bytes | None = None
) -> set[str]:
    """Warn about each NDJSON column with strings and other values, and return these columns."""
    warned: set[str] = set()
    for path, frame in texts.items():
        if (kind or format_of_path(path)) != "ndjson" or "://" in path:
            continue
        for name, (value, text) in _mixed_types(frame, path, content).items():
            if name not in warned:
                way = "; if that stands for a missing value, "
                way += advice("write null in its place", "add it to --null-values")
                warn(
                    f"column {shown(name)} of {shown_path(path)} is read as strings, so each value is a category: it "
                    f"has strings, such as {shown(text)}, and others, such as {shown(value)}; write values of one type"
                    f"{way if text.strip().lower() in _MISSING else ''}"
                )
            warned.add(name)
    return warned


def _mixed_types(frame: pl.LazyFrame, path: str, content: bytes | None = None) -> dict[str, tuple[object, str]]:
    """Return the NDJSON columns that are read as strings but have other values too, with one of each."""
    mixed: dict[str, tuple[object, str]] = {}
    lines = _lines(path if content is None else content).drop_nulls()
    for name, dtype in frame.collect_schema().items():
        if dtype != pl.String:
            continue
        # The names of inner objects and parts of strings look alike, so that a few of the lines are parsed.
        key = re.escape(json.dumps(name, ensure_ascii=False))

        def values(start: str, key: str = key, name: str = name) -> Iterator[object]:
            looks_like = pl.col("line").str.contains(rf"{key}\s*:\s*{start}")
            some = lines.filter(looks_like).head(_LINES_TO_PARSE).collect(engine="streaming")["line"]
            return (_value_in(line, name) for line in some)

        other = next((value for value in values("[-0-9tf]") if isinstance(value, int | float)), None)
        text = None if other is None else next((value for value in values('"') if isinstance(value, str)), None)
        if text is not None:
            mixed[name] = (other, text)
    return mixed


def _value_in(line: str, name: str) -> object:
    try:
        return json.loads(line).get(name)
    except (ValueError, RecursionError):
        return None


def warn_of_tokens(texts: Mapping[str, pl.LazyFrame], warned: Container[str]) -> None:
    """Warn about each text column that is numeric except for a few tokens, such as NA.

    One such token turns a numeric column into strings, with each number as a category. Columns in ``warned`` are
    skipped.
    """
    schemas = {path: frame.collect_schema() for path, frame in texts.items()}
    for name in dict.fromkeys(
        name for schema in schemas.values() for name, dtype in schema.items() if dtype == pl.String
    ):
        if name in warned:
            continue
        frames = [texts[path].select(column(name)) for path, schema in schemas.items() if schema.get(name) == pl.String]
        text = column(name).str.strip_chars()
        kind = pl.when(_is_number(text)).then(1).when(_is_number(text.str.replace_all(",", ""))).then(2).otherwise(0)
        distinct = column(name).n_unique().alias("distinct")
        tokens = column(name).unique(maintain_order=True).head(_FEW_TOKENS).alias("tokens")
        counted = pl.concat(frames).drop_nulls().group_by(kind.alias("kind")).agg(distinct, tokens)
        counts = {row["kind"]: row for row in counted.collect(engine="streaming").iter_rows(named=True)}
        numbers, others, commas = (counts.get(key, {"distinct": 0, "tokens": []}) for key in (1, 0, 2))
        path = next(path for path, schema in schemas.items() if schema.get(name) == pl.String)
        what = f"column {shown(name)} of {shown_path(path)} is read as strings, so each value is a category"
        if commas["distinct"] > _FEW_TOKENS and not others["distinct"]:
            way = advice("pass it as a frame, pl.scan_csv(path, decimal_comma=True)", "write points instead")
            warn(
                f"{what}: its values are numbers with commas, such as {shown(commas['tokens'][0])}; if that is a "
                f"decimal comma, {way}"
            )
        elif 0 < others["distinct"] <= _FEW_TOKENS and (
            numbers["distinct"] > _FEW_TOKENS * others["distinct"]
            or (numbers["distinct"] > 1 and all(token.strip().lower() in _MISSING for token in others["tokens"]))
        ):
            tokens, option = others["tokens"], f"--null-values {shlex.quote(','.join(others['tokens']))}"
            way = advice("a frame with NULL in its place", option)
            if format_of_path(path) in SEPARATORS:
                way = advice(f"a frame of it, as pl.scan_csv(path, null_values={shown(tokens)})", option)
            warn(f"{what}: all but {listed(tokens)} are numbers; if that stands for a missing value, pass {way}")


def _is_number(text: pl.Expr) -> pl.Expr:
    return text.cast(pl.Float64, strict=False).is_finite().fill_null(value=False)


def text_among_numbers(frame: pl.LazyFrame, name: str) -> str:
    """Return the part of a message that shows the first non-number of a string column, if there is one.

    >>> text_among_numbers(pl.LazyFrame({"x": ["1", None, "n/a"]}), "x")
    " (such as 'n/a')"
    """
    if frame.collect_schema()[name] != pl.String:
        return ""
    is_text = column(name).is_not_null() & column(name).cast(pl.Float64, strict=False).is_null()
    example = frame.select(column(name).filter(is_text).first()).collect().item()
    return "" if example is None else f" (such as {shown(example)})"
