"""Files that are whole or not there."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["replaced", "write_text"]


@contextmanager
def replaced(path: str | Path) -> Iterator[Path]:
    """Yield a path to write to; once all is written the file is put in the place of that of ``path``.

    If anything goes wrong before, the file of that name stays as it was, or is not there as before.
    """
    path = Path(path).resolve()  # what a link points to is replaced, not the link
    partial = path.parent / f".{secrets.token_hex(8)}.partial"
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file in UTF-8; a file of that name is replaced once all is written."""
    with replaced(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")
