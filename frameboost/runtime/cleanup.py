"""Clean-up that never hides an earlier error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from frameboost.checks.messages import shortened, warn

__all__ = ["LeftBehindError", "closed_after"]

Resource = TypeVar("Resource", bound=Any)


class LeftBehindError(Exception):
    """A clean-up has left something behind; the work itself is done."""


@contextmanager
def closed_after(resource: Resource) -> Iterator[Resource]:
    """Close a resource at the end like `contextlib.closing`, but raise the first error.

    An error of the clean-up becomes a note on the first error. `LeftBehindError` alone becomes a warning, so that the
    work is not lost.
    """
    try:
        yield resource
    except BaseException as first:
        try:
            resource.close()
        except LeftBehindError as left:
            first.add_note(str(left))
        except Exception as error:
            first.add_note(f"then the clean-up failed: {type(error).__name__}: {shortened(str(error), 200)}")
        raise
    try:
        resource.close()
    except LeftBehindError as left:
        warn(str(left), RuntimeWarning)
