"""Clean-up that never hides what went wrong before it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from frameboost.checks.messages import cut

__all__ = ["LeftBehindError", "closed_after"]

Resource = TypeVar("Resource", bound=Any)


class LeftBehindError(Exception):
    """What a clean-up had to leave behind; the work itself is done."""


@contextmanager
def closed_after(resource: Resource) -> Iterator[Resource]:
    """Close a resource in the end, as `contextlib.closing` does, but raise what was raised first.

    What the clean-up raises is then a note on it. If only the clean-up leaves something behind, it is a warning: the
    work is not lost for that.
    """
    try:
        yield resource
    except BaseException as first:
        try:
            resource.close()
        except LeftBehindError as left:
            first.add_note(str(left))
        except Exception as error:
            first.add_note(f"then the clean-up failed: {type(error).__name__}: {cut(str(error), 200)}")
        raise
    try:
        resource.close()
    except LeftBehindError as left:
        warnings.warn(str(left), RuntimeWarning, stacklevel=6)  # who called `fit`
