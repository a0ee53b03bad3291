"""The model that commands write: to a file, or to standard output."""

from __future__ import annotations

from frameboost.data.table_files import STDOUT, check_writable, write_text
from frameboost.ensemble.model_file import with_training
from frameboost.model.model import Model

__all__ = ["size_of", "write_model"]


def write_model(model: Model, path: str) -> None:
    """Write a model as its name asks (see `Model.save`), or as JSON to standard output."""
    if path == STDOUT:
        write_text(path, with_training(model.to_json(), model.ensemble.training))
    else:
        check_writable(path)
        model.save(path)


def size_of(size: int) -> str:
    """Return a number of bytes as text.

    >>> size_of(999), size_of(1500), size_of(12_000_000)
    ('999 bytes', '1.5 kB', '12.0 MB')
    """
    if size < 1000:
        return f"{size} bytes"
    return f"{size / 1e3:.1f} kB" if size < 1e6 else f"{size / 1e6:.1f} MB"
