"""The part of Universal Binary JSON (https://ubjson.org) that model files have: XGBoost's, and those written here.

Every length that is read is checked against the bytes that are left before memory is allocated for it. There is no
maintained library for the format: the last release of py-ubjson is of 2020.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from frameboost.checks.messages import shown
from frameboost.errors import ModelFileError

__all__ = ["read_ubjson", "to_ubjson"]

_DEEPEST = 64
_INTEGERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8"}
_NUMBERS = _INTEGERS | {"d": ">f4", "D": ">f8"}
_CONSTANTS = {"Z": None, "T": True, "F": False}
_SIZES = {marker: np.dtype(code).itemsize for marker, code in _NUMBERS.items()}
_MARKERS = {np.dtype(code): marker for marker, code in _NUMBERS.items()}
_STRUCTS = {"i": ">b", "U": ">B", "I": ">h", "l": ">i", "L": ">q", "d": ">f", "D": ">d"}


def to_ubjson(value: Mapping[str, Any] | str | npt.NDArray[Any]) -> bytes:
    r"""Return an object as a UBJSON document; its fields are strings, arrays of numbers, and objects of these.

    >>> to_ubjson({"a": np.array([1, 2], dtype=np.uint8), "b": "x"})
    b'{L\x00\x00\x00\x00\x00\x00\x00\x01a[$U#L\x00\x00\x00\x00\x00\x00\x00\x02\x01\x02L\x00\x00\x00\x00\x00\x00\x00\x01bSL\x00\x00\x00\x00\x00\x00\x00\x01x}'
    """
    if isinstance(value, str):
        return b"S" + _counted(value)
    if isinstance(value, np.ndarray):
        big_endian = value.astype(value.dtype.newbyteorder(">"), copy=False)
        marker = _MARKERS[big_endian.dtype].encode()
        return b"[$" + marker + b"#" + _size(len(value)) + big_endian.tobytes()
    return b"{" + b"".join(_counted(key) + to_ubjson(item) for key, item in value.items()) + b"}"


def _counted(text: str) -> bytes:
    encoded = text.encode("utf-8")
    return _size(len(encoded)) + encoded


def _size(count: int) -> bytes:
    return b"L" + struct.pack(">q", count)


def read_ubjson(data: bytes, what: str, *, arrays: bool = False) -> Any:
    r"""Return the content of a UBJSON document as dicts, lists, strings, ints, floats, bools and None.

    Parameters
    ----------
    data
        The whole document; numbers in it are big-endian.
    what
        The message for a document that is not UBJSON.
    arrays
        Whether lists of numbers of one type are arrays of numpy.

    Raises
    ------
    ModelFileError
        If it ends too early or too late, or is not UBJSON.

    Examples
    --------
    >>> read_ubjson(b"{i\x01a[$d#i\x02\x3f\x80\0\0\x40\0\0\0}", "not a model")
    {'a': [1.0, 2.0]}
    """
    reader = _Reader(data, what, arrays=arrays)
    value = reader.value(0)
    if reader.at != len(data):
        reader.fail("bytes after the end of the document")
    return value


class _Reader:
    """A cursor over the bytes; ``at`` is the index of the next one."""

    def __init__(self, data: bytes, what: str, *, arrays: bool) -> None:
        self.data, self.at = data, 0
        self.what, self.arrays = what, arrays

    def fail(self, what: str) -> NoReturn:
        raise ModelFileError(f"{self.what} ({what}, at byte {self.at})")

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

    def array(self, depth: int) -> list[Any] | npt.NDArray[Any]:
        if self.follows("$"):
            marker = self.marker()
            if marker not in _NUMBERS or not self.follows("#"):
                self.fail("an array of an unknown type")
            numbers = np.frombuffer(self.take(self.count() * _SIZES[marker]), dtype=_NUMBERS[marker])
            return numbers if self.arrays else numbers.tolist()
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
