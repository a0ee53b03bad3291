"""Formats of tables in files and streams: told by a path's suffix, or by the first bytes."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = [
    "DATABASE",
    "FORMATS",
    "SEPARATORS",
    "SUFFIXES",
    "TEXTS",
    "format_of_bytes",
    "format_of_path",
    "is_compressed",
]

# By the name that a user gives, what messages call it.
FORMATS = {"csv": "CSV", "tsv": "TSV", "ndjson": "NDJSON", "parquet": "Parquet", "arrow": "Arrow"}
# Formats of text, whose columns have no types of their own.
TEXTS = frozenset(["csv", "tsv", "ndjson"])
SEPARATORS = {"csv": ",", "tsv": "\t"}
DATABASE = "database"  # a DuckDB file, which has several tables
SUFFIXES = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "tsv", ".ndjson": "ndjson", ".jsonl": "ndjson",
    ".arrow": "arrow", ".ipc": "arrow", ".feather": "arrow", ".duckdb": DATABASE, ".ddb": DATABASE, ".db": DATABASE,
}  # fmt: skip
_COMPRESSED = (".gz", ".zst")
_MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "arrow"}  # the last begins a stream of Arrow
_MAX_OF_A_LINE = 1 << 20


def format_of_path(path: str) -> str | None:
    """Return the format that a path's suffix tells; None if it is of no table. Text may be compressed.

    >>> [format_of_path(path) for path in ("a.PQ", "a.csv.gz", "a.jsonl.zst", "a.parquet.gz", "a.gz", "a")]
    ['parquet', 'csv', 'ndjson', None, None, None]
    """
    name = Path(path.lower())
    if not is_compressed(path):
        return SUFFIXES.get(name.suffix)
    inner = SUFFIXES.get(Path(name.stem).suffix)
    return inner if inner in TEXTS else None


def is_compressed(path: str) -> bool:
    """Whether a path ends as that of a file compressed by gzip or zstd does."""
    return path.lower().endswith(_COMPRESSED)


def format_of_bytes(content: bytes) -> str | None:
    r"""Return the format that the first bytes tell, of text the first line; None if they do not.

    Text is NDJSON if its first line is a JSON object, otherwise CSV, or TSV if the line has tabs and no commas.

    >>> [format_of_bytes(c) for c in (b"PAR1...", b'{"x": 1}\n', b"x,y\n1,2\n", b"x\ty\n1\t2\n", b"\x80\x04K", b"")]
    ['parquet', 'ndjson', 'csv', 'tsv', None, None]
    """
    for magic, kind in _MAGIC.items():
        if content.startswith(magic):
            return kind
    line = content[:_MAX_OF_A_LINE].removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0].rstrip(b"\r")
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
