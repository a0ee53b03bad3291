"""A parser of the part of Universal Binary JSON (https://ubjson.org) that XGBoost writes.

Every length is checked against the bytes that are left before memory is allocated for it. There is no maintained
library for the format: the last release of py-ubjson is of 2020.
"""

from __future__ import annotations

import struct
from typing import Any, NoReturn

import numpy as np

from frameboost.checks.messages import shown
from frameboost.errors import ModelFileError

__all__ = ["read_ubjson"]

_DEEPEST = 64
_INTEGERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8"}
_NUMBERS = _INTEGERS | {"d": ">f4", "D": ">f8"}
_CONSTANTS = {"Z": None, "T": True, "F": False}
_SIZES = {marker: np.dtype(code).itemsize for marker, code in _NUMBERS.items()}
_STRUCTS = {"i": ">b", "U": ">B", "I": ">h", "l": ">i", "L": ">q", "d": ">f", "D": ">d"}


def read_ubjson(data: bytes) -> Any:
    r"""Return the content of a UBJSON document as dicts, lists, strings, ints, floats, bools and None.

    Parameters
    ----------
    data
        The whole document; numbers in it are big-endian.

    Raises
    ------
    ModelFileError
        If it ends too early or too late, or is not UBJSON.

    Examples
    --------
    >>> read_ubjson(b"{i\x01a[$d#i\x02\x3f\x80\0\0\x40\0\0\0}")
    {'a': [1.0, 2.0]}
    """
    reader = _Reader(data)
    value = reader.value(0)
    if reader.at != len(data):
        reader.fail("bytes after the end of the document")
    return value


class _Reader:
    """A cursor over the bytes; ``at`` is the index of the next one."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def fail(self, what: str) -> NoReturn:
        raise ModelFileError(f"not an XGBoost model: the file is not UBJSON ({what}, at byte {self.at})")

    def value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            self.fail("lists in lists without end")
        marker = self.marker()
        if marker == "{":
            return self.object(depth)
        if marker == "[":
            return self.array(depth)
        if marker in _CONSTANTS:
            return _CONSTANTS[marker]
        if marker == "S":
            return self.string()
        return self.number(marker)

    def object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        count = self.count() if self.follows("#") else None
        while (count is None and not self.follows("}")) or (count is not None and len(found) < count):
            key = self.string()
            if key in found:
                self.fail("an object has a field twice")
            found[key] = self.value(depth + 1)
        return found

    def array(self, depth: int) -> list[Any]:
        if self.follows("$"):
            marker = self.marker()
            if marker not in _NUMBERS or not self.follows("#"):
                self.fail("an array of an unknown type")
            size = self.count() * _SIZES[marker]
            return np.frombuffer(self.take(size), dtype=_NUMBERS[marker]).tolist()  # type: ignore[no-any-return]
        if self.follows("#"):
            return [self.value(depth + 1) for _ in range(self.count())]
        found = []
        while not self.follows("]"):
            found.append(self.value(depth + 1))
        return found

    def string(self) -> str:
        try:
            return self.take(self.count()).decode("utf-8")
        except UnicodeDecodeError:
            self.fail("a string that is not UTF-8")

    def count(self) -> int:
        """Read a length, and check that as many bytes are left."""
        marker = self.marker()
        if marker not in _INTEGERS:
            self.fail("a length that is no integer")
        size = int(self.number(marker))
        if not 0 <= size <= len(self.data) - self.at:
            self.fail("a length beyond the end of the file")
        return size

    def number(self, marker: str) -> int | float:
        if marker not in _STRUCTS:
            self.fail(f"an unknown marker {shown(marker)}")
        value: int | float = struct.unpack(_STRUCTS[marker], self.take(_SIZES[marker]))[0]
        return value

    def marker(self) -> str:
        return chr(self.take(1)[0])

    def follows(self, marker: str) -> bool:
        """Skip a marker if it is next; return whether it was."""
        found = self.data[self.at : self.at + 1] == marker.encode()
        self.at += found
        return found

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            self.fail("it ends too early")
        self.at += size
        return self.data[self.at - size : self.at]
