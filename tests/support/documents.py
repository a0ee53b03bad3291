"""JSON documents with one value changed: for files of models that somebody has damaged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["places", "put"]


def places(item: Any, path: tuple = (), most: int | None = None) -> Iterator[tuple]:
    """Yield the place of every value in the document, of lists only of the first ``most``."""
    if path:
        yield path
    items = item.items() if isinstance(item, dict) else enumerate(item[:most]) if isinstance(item, list) else ()
    for key, value in items:
        yield from places(value, (*path, key), most)


def put(item: Any, path: Sequence, value: Any) -> Any:
    """Return the document with another value in the place, or without it if the value is ``...``."""
    copy = dict(item) if isinstance(item, dict) else list(item)
    if path[1:]:
        copy[path[0]] = put(item[path[0]], path[1:], value)
    elif value is ...:
        del copy[path[0]]
    else:
        copy[path[0]] = value
    return copy
