"""Atomic writing of files: a file is replaced once its successor is complete."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["atomic_path", "write_text"]


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path to write to, and then rename it to ``path``.

    If writing fails, the temporary file is removed, and whatever was at ``path`` stays as it was. The temporary file is
    in a folder of its own: a writer's thread that opens it only after the failure finds no folder, and leaves no file.
    """
    path = Path(path).resolve()  # replaces the target of a link, not the link
    folder = path.parent / f".{secrets.token_hex(8)}.partial"
    folder.mkdir()
    try:
        partial = folder / "file"
        yield partial
        partial.replace(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file in UTF-8, atomically."""
    with atomic_path(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")
