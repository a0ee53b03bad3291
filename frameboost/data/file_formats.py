"""The formats of tables in files (`FORMATS`): detection by suffix or first bytes, and scanning.

`FORMATS` holds everything about a format; readers, writers and messages look it up there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

__all__ = [
    "DATABASE", "DATABASE_TABLE", "FORMATS", "SEPARATORS", "SUFFIXES", "TEXTS", "format_of_bytes", "format_of_path",
    "is_columnar", "is_compressed", "is_table", "scan_text", "table_in_database",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Format:
    """A format of tables.

    Attributes
    ----------
    label
        The name in messages.
    suffixes
        The suffixes of file names.
    is_text
        Whether column types must be inferred.
    separator
        The separator of the values in a line.
    is_columnar
        Whether one column of a file can be read without the others.
    magic
        The first bytes of a file or stream.
    """

    label: str
    suffixes: tuple[str, ...]
    is_text: bool = False
    separator: str | None = None
    is_columnar: bool = False
    magic: tuple[bytes, ...] = ()


# By the name that users write.
FORMATS: Mapping[str, Format] = {
    "csv": Format("CSV", (".csv",), is_text=True, separator=","),
    "tsv": Format("TSV", (".tsv",), is_text=True, separator="\t"),
    "ndjson": Format("NDJSON", (".ndjson", ".jsonl"), is_text=True),
    "parquet": Format("Parquet", (".parquet", ".pq"), is_columnar=True, magic=(b"PAR1",)),
    "arrow": Format("Arrow", (".arrow", ".ipc", ".feather"), is_columnar=True, magic=(b"ARROW1", b"\xff\xff\xff\xff")),
}
TEXTS = frozenset(name for name, kind in FORMATS.items() if kind.is_text)
SEPARATORS = {name: kind.separator for name, kind in FORMATS.items() if kind.separator is not None}
DATABASE = "database"  # a DuckDB file, which has several tables
DATABASE_TABLE = re.compile(r"(.+)::([^:]+)", re.DOTALL)
SUFFIXES = {suffix: name for name in ("parquet", "csv", "tsv", "ndjson", "arrow") for suffix in FORMATS[name].suffixes}
SUFFIXES |= dict.fromkeys((".duckdb", ".ddb", ".db"), DATABASE)
_COMPRESSED = (".gz", ".zst")
_LONGEST_LINE = 1 << 20


def format_of_path(path: str) -> str | None:
    """Return the format of a path's suffix; None if it is not a table. Text may be compressed.

    >>> [format_of_path(path) for path in ("a.PQ", "a.csv.gz", "a.jsonl.zst", "a.parquet.gz", "a.gz", "a")]
    ['parquet', 'csv', 'ndjson', None, None, None]
    """
    name = Path(path.lower())
    if not is_compressed(path):
        return SUFFIXES.get(name.suffix)
    inner = SUFFIXES.get(Path(name.stem).suffix)
    return inner if inner in TEXTS else None


def is_compressed(path: str) -> bool:
    """Whether a path has a suffix of gzip or zstd."""
    return path.lower().endswith(_COMPRESSED)


def is_table(text: str) -> bool:
    """Whether a text is the path of a table, by its suffix, rather than a column or a condition.

    >>> [is_table(text) for text in ("new.parquet", "flights.duckdb::new", "day > 80", "late", "day::INT > 80")]
    [True, True, False, False, False]
    """
    return format_of_path(text) is not None or table_in_database(text) is not None


def table_in_database(path: str) -> tuple[str, str] | None:
    """Return the file and the table of a path such as ``flights.duckdb::late``; None for other paths.

    >>> table_in_database("flights.duckdb::late"), table_in_database("late.csv")
    (('flights.duckdb', 'late'), None)
    """
    inside = DATABASE_TABLE.fullmatch(path)
    if inside is None or format_of_path(inside[1]) != DATABASE:
        return None
    return inside[1], inside[2]


def is_columnar(path: str) -> bool:
    """Whether one column of a file can be read without the others."""
    kind = format_of_path(path)
    return kind is not None and kind in FORMATS and FORMATS[kind].is_columnar


def format_of_bytes(content: bytes) -> str | None:
    r"""Return the format from the first bytes, for text from the first line; None if unknown.

    Text is NDJSON if its first line is a JSON object, otherwise CSV, or TSV if the line has tabs and no commas.

    >>> [format_of_bytes(c) for c in (b"PAR1...", b'{"x": 1}\n', b"x,y\n1,2\n", b"x\ty\n1\t2\n", b"\x80\x04K", b"")]
    ['parquet', 'ndjson', 'csv', 'tsv', None, None]
    """
    for name, kind in FORMATS.items():
        if kind.magic and content.startswith(kind.magic):
            return name
    line = content[:_LONGEST_LINE].removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0].rstrip(b"\r")
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return None
    if not text or not text.replace("\t", "").isprintable():
        return None
    if text.startswith("{"):
        try:
            json.loads(text)
        except ValueError:
            return None
        return "ndjson"
    return "tsv" if "\t" in text and "," not in text else "csv"


def scan_text(
    kind: str, source: str | bytes, types: Mapping[str, pl.DataType], null_values: Sequence[str], n_inferred: int | None
) -> pl.LazyFrame:
    """Scan a text table with ``types`` of some columns; others are inferred from the first rows."""
    if kind == "ndjson":
        return pl.scan_ndjson(source, infer_schema_length=n_inferred, schema_overrides=dict(types))
    frame = pl.scan_csv(
        source, separator=SEPARATORS[kind], infer_schema_length=n_inferred, try_parse_dates=True,
        schema_overrides={name.replace('"', '""'): dtype for name, dtype in types.items()},
        null_values=["", *null_values] if null_values else None,
    )  # fmt: skip
    # Polars leaves quotes doubled in the header, where a name has some.
    doubled = [name for name in frame.collect_schema().names() if '""' in name]
    return frame.rename({name: name.replace('""', '"') for name in doubled}) if doubled else frame
