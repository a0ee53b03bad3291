"""Make values and names safe in messages: on one line, cut to a length, without control characters.

And `warn`, which issues a warning, and `advice`, which differs on the command line.
"""

from __future__ import annotations

import difflib
import reprlib
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice

from frameboost.errors import FrameboostWarning, printable

__all__ = [
    "advice", "counted", "did_you_mean", "listed", "on_command_line", "reason", "shortened", "shown", "shown_path",
    "warn",
]  # fmt: skip

_LONGEST = 80
_MAX_NAMES = 10
_OURS = ("frameboost", "contextlib")  # frames of contextlib may be between ours

_repr = reprlib.Repr()
_repr.maxlist = _repr.maxtuple = _repr.maxset = _repr.maxfrozenset = _repr.maxdict = _repr.maxdeque = 20
_repr.maxarray = 20
_repr.maxlong = _repr.maxother = 4 * _LONGEST
_repr.maxstring = 4 * _LONGEST


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Return the text on one line, as `printable`, cut to at most ``longest`` characters.

    >>> shortened("to be, or not to be", longest=12)
    'to be, or...'
    """
    line = printable(" ".join(text[: 4 * longest].split())) if len(text) > longest or not text.isprintable() else text
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def shown(value: object) -> str:
    """Return the value's repr, cut to 80 characters, in time and memory independent of its size.

    >>> shown("delay"), shown([1, 2])
    ("'delay'", '[1, 2]')
    >>> shown("x" * 10**6)[-5:], len(shown([0.5] * 10**6))
    ('xx...', 80)
    """
    try:
        if isinstance(value, str):
            return shortened(repr(value[:_LONGEST]) if len(value) <= _LONGEST else repr(value[:_LONGEST])[:-1] + "...")
        return shortened(_repr.repr(value))
    except Exception:  # from a __repr__ of the user's; the message is about something else
        return f"a {shortened(type(value).__name__)}"


def shown_path(path: str) -> str:
    """Return a path's repr, cut to 80 characters at the front, which keeps the file name.

    >>> shown_path("2013.parquet")
    "'2013.parquet'"
    >>> path = shown_path("/data" * 20 + "/2013.parquet")
    >>> len(path), path[:8], path[-14:]
    (80, "'...ta/d", "/2013.parquet'")
    """
    return shown(path if len(path) <= _LONGEST - 2 else "..." + path[5 - _LONGEST :])


def listed(names: Iterable[object], most: int | None = _MAX_NAMES) -> str:
    """Return values separated by commas; beyond ``most`` of them (None for all) only how many more there are.

    >>> listed("abc"), listed(range(12)), listed([])
    ("'a', 'b', 'c'", '0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more', '')
    """
    values = list(names)
    text = ", ".join(map(shown, islice(values, most)))
    return text if most is None or len(values) <= most else f"{text} and {len(values) - most:,} more"


def counted(count: int, singular: str, plural: str | None = None) -> str:
    """Return the count and the noun, in the plural unless the count is 1.

    >>> counted(1, "tree"), counted(1000, "tree"), counted(2, "leaf", "leaves")
    ('1 tree', '1,000 trees', '2 leaves')
    """
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def reason(error: BaseException) -> str:
    """Return the first line of another library's error message, cut to the length of a sentence."""
    return shortened(str(error).strip().partition("\n")[0], 2 * _LONGEST)


def did_you_mean(name: object, names: Iterable[str], meanings: Mapping[str, str] | None = None) -> str:
    """Return "; did you mean ...?" with the closest name, ignoring case, or "" if none is close.

    ``meanings`` maps other libraries' names to ours, which are suggested for close matches.

    >>> did_you_mean("delya", ["delay", "day"]), did_you_mean("x", ["delay"])
    ("; did you mean 'delay'?", '')
    """
    if not isinstance(name, str) or len(name) > 4 * _LONGEST:
        return ""
    by_lower = {
        other.lower(): suggestion for other, suggestion in ({n: n for n in names} | dict(meanings or {})).items()
    }
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f"; did you mean {shown(by_lower[near[0]])}?" if near else ""


# Of the process, not of a thread: fits in threads have messages too.
_is_command = False


@contextmanager
def on_command_line() -> Iterator[None]:
    """Make `advice` return the text for the command line within the block."""
    global _is_command
    _is_command = True
    try:
        yield
    finally:
        _is_command = False


def advice(python: str, shell: str = "") -> str:
    """Return the part of a message with advice for Python, or for the command line.

    >>> advice("an fb.Metric or ") + "a name"
    'an fb.Metric or a name'
    >>> with on_command_line():
    ...     advice("an fb.Metric or ") + "a name"
    'a name'
    """
    return shell if _is_command else python


def warn(message: str, category: type[Warning] = FrameboostWarning) -> None:
    """Issue a warning at the line that called the package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _OURS:
        level, frame = level + 1, frame.f_back
    warnings.warn(printable(message), category, stacklevel=level)
