"""The model that commands write: to a file, or to standard output."""

from __future__ import annotations

from frameboost.data.table_files import STDOUT, check_writable, write_text
from frameboost.model.model import Model

__all__ = ["write_model"]


def write_model(model: Model, path: str) -> None:
    """Write a model as its name asks (see `Model.save`), or as JSON to standard output."""
    if path == STDOUT:
        write_text(path, model.to_json())
    else:
        check_writable(path)
        model.save(path)
