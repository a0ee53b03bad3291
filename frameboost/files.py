"""Files that are whole or not there."""

from __future__ import annotations

import secrets
from pathlib import Path

__all__ = ["write_text"]


def write_text(path: str | Path, text: str) -> None:
    """Write a text file in UTF-8; a file of that name is replaced once all is written."""
    path = Path(path).resolve()  # what a link points to is replaced, not the link
    partial = path.parent / f".{secrets.token_hex(8)}.partial"
    try:
        partial.write_text(text, encoding="utf-8", newline="\n")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
