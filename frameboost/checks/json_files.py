"""Parse JSON and UBJSON files of models, and check their fields with precise messages."""

from __future__ import annotations

import json
import math
import re
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from frameboost.checks.messages import reason, shown
from frameboost.errors import ModelFileError

__all__ = [
    "check_keys",
    "fail",
    "is_finite",
    "is_integer",
    "other_form",
    "parse_json",
    "read_list",
    "read_ubjson",
    "shown_json",
    "to_text",
    "to_ubjson",
]


_LONGEST = 80

_AS_THE_LIBRARY = "save the model as its library does"
_SAVE_XGBOOST = "save the model with booster.save_model('model.json') or '.ubj'"
_NOT_OPENED = f"which is not opened, as that would run what is in it; {_AS_THE_LIBRARY}"
# How formats that are not read begin, and what the user can do.
_OTHER_FORMS = tuple(
    (re.compile(start, re.DOTALL), what)
    for start, what in (
        (rb"\Z", "it is empty"),
        (rb"CBM1", "it is in CatBoost's binary format; save it with model.save_model(path, format='json')"),
        (rb"\x80|c[A-Za-z_][\w.]*\n\w+\n|\([dli][p.\n(]|[\]}]q\x00", f"it is a pickle, {_NOT_OPENED}"),
        (rb"x[\x01\x5e\x9c\xda]", f"it is compressed by zlib, as joblib writes pickles, {_NOT_OPENED}"),
        (rb"ZF0x", f"it is a joblib file, {_NOT_OPENED}"),
        (rb"PK", "it is a zip archive; a model is a JSON, UBJSON or text file"),
        (rb"\x1f\x8b", "it is compressed by gzip; unpack it first"),
        (rb"BZh", "it is compressed by bzip2; unpack it first"),
        (rb"\xfd7zXZ\x00|\]\x00\x00", "it is compressed by xz; unpack it first"),
        (rb"\x28\xb5\x2f\xfd", "it is compressed by Zstandard; unpack it first"),
        (rb"\x04\x22\x4d\x18", "it is compressed by LZ4; unpack it first"),
        (rb"\xef\xbb\xbf", "it starts with a byte order mark; save it as UTF-8 without one"),
        (rb"\xff\xfe|\xfe\xff", "it is UTF-16; save it as UTF-8"),
        (rb"\x89HDF\r\n", f"it is an HDF5 file, such as Keras writes; {_AS_THE_LIBRARY}"),
        (rb".{8}DUCK", "it is a database of DuckDB, which has tables; pass a model file"),
        (rb"SQLite format 3\0", "it is a database of SQLite, which has tables; pass a model file"),
        (rb"PAR1|ARROW1", "it is a table in a file, not a model; pass a model file"),
        (rb"\x93NUMPY", f"it is a NumPy array; {_AS_THE_LIBRARY}"),
        (rb"\s*<", f"it is XML, such as PMML; {_AS_THE_LIBRARY}"),
        (rb"\x08[\x01-\x20][\x12:B]", f"it is ONNX; {_AS_THE_LIBRARY}, before it is converted"),
        (rb"booster\[\d+\]:", f"it is the text of XGBoost's dump_model, which has no objective; {_SAVE_XGBOOST}"),
        (
            rb'\s*\[\s*\{\s*"(?:nodeid|leaf)"',
            f"it is the JSON of XGBoost's dump_model, which has no objective; {_SAVE_XGBOOST}",
        ),
        (rb"\s*digraph\b", f"it is a drawing of a tree for Graphviz; {_AS_THE_LIBRARY}"),
        (
            rb".{100,200}?[\x01-\x60]\0{7}(?:reg|binary|multi|rank|count|survival):\w+",
            f"it is in XGBoost's old binary format; load it with an XGBoost before 3.1, and {_SAVE_XGBOOST}",
        ),
        (
            rb'\s*\{\s*"name"\s*:\s*"tree"',
            "it is the JSON of LightGBM's dump_model; save the model with booster.save_model('model.txt')",
        ),
    )
)  # fmt: skip


def other_form(data: bytes) -> str | None:
    """Return what an unsupported file is and what to do, from its first bytes; None if unknown."""
    return next((what for start, what in _OTHER_FORMS if start.match(data)), None)


def parse_json(data: bytes, what: str, damaged: str, *, strict: bool = False) -> Any:
    """Return the content of JSON in UTF-8, or raise `ModelFileError`.

    Parameters
    ----------
    data
        The whole file.
    what
        The message for a file that is not JSON.
    damaged
        The message for an object that has a field twice.
    strict
        Whether NaN, infinities and lone surrogates, which Python's parser accepts, are errors.
    """
    if form := other_form(data):
        raise ModelFileError(f"{what} ({form})")

    def refuse_constant(name: str) -> NoReturn:
        raise ModelFileError(f"{damaged}: it holds {name}, and every number must be finite")

    def refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        item = dict(pairs)
        if len(item) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            raise ModelFileError(f"{damaged}: an object has {shown_json(counts.most_common(1)[0][0])} twice")
        return item

    try:
        text = data.decode("utf-8")
        document = json.loads(
            text,
            parse_constant=refuse_constant if strict else None,
            object_pairs_hook=refuse_duplicates,
        )
        if strict and "\\u" in text:  # UTF-8 itself has no surrogates
            json.dumps(document, ensure_ascii=False).encode("utf-8")
    except ModelFileError:
        raise
    except RecursionError as error:
        raise ModelFileError(f"{what} (nested too deeply)") from error
    except ValueError as error:  # also for bad UTF-8 and for numbers of absurd length
        raise ModelFileError(f"{what} ({reason(error)})") from error
    return document


def check_keys(item: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    """Raise `ModelFileError` if an object has an unknown field."""
    for key in item:
        if key not in known:
            raise ModelFileError(f"{where}: unknown field {shown_json(key)}")


def fail(where: str, key: str, expected: str, value: object) -> NoReturn:
    """Raise `ModelFileError`: the field must be ``expected``."""
    raise ModelFileError(f'{where}: "{key}" must be {expected}, not {shown_json(value)}')


def shown_json(value: object) -> str:
    """Return a value as JSON, cut to the length of a message, in time independent of its size."""
    if isinstance(value, str):
        text = json.dumps(value[:_LONGEST], ensure_ascii=not value.isprintable())
    elif isinstance(value, list | dict) and len(value) > _LONGEST:
        return f"a list of {len(value):,} entries" if isinstance(value, list) else f"an object of {len(value):,} fields"
    elif isinstance(value, int) and abs(value) >= 10**_LONGEST:
        return f"a number of more than {_LONGEST} digits"
    else:
        try:
            text = json.dumps(value, ensure_ascii=False)  # may be infinite: 1e999 is read as infinity
        except RecursionError:
            return "lists nested too deeply"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def read_list(item: Mapping[str, Any], key: str, where: str = "damaged model") -> list[Any]:
    """Return a field that must be a list."""
    value = item.get(key)
    if not isinstance(value, list):
        fail(where, key, "a list", value)
    return value


def is_integer(value: object) -> bool:
    """Whether a value is an int and not a Boolean."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_finite(value: object) -> bool:
    """Whether a value is a number within the range of float64."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def to_text(value: object, separators: tuple[str, str] | None = None) -> str:
    """Return a value as JSON, without NaN and infinities, which the standard excludes."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=separators)


# --- Universal Binary JSON (https://ubjson.org) -----------------------------------------------------------------------

# The part of it that model files have: XGBoost's, and those written here. Every length that is read is checked against
# the bytes that are left before memory is allocated for it. There is no maintained library for the format: the last
# release of py-ubjson is of 2020.

_DEEPEST = 64
_INTEGERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8"}
_NUMBERS = _INTEGERS | {"d": ">f4", "D": ">f8"}
_CONSTANTS = {"Z": None, "T": True, "F": False}
_SIZES = {marker: np.dtype(code).itemsize for marker, code in _NUMBERS.items()}
_MARKERS = {np.dtype(code): marker for marker, code in _NUMBERS.items()}
_STRUCTS = {"i": ">b", "U": ">B", "I": ">h", "l": ">i", "L": ">q", "d": ">f", "D": ">d"}


def to_ubjson(value: Mapping[str, Any] | Sequence[Any] | str | float | npt.NDArray[Any] | None) -> bytes:
    r"""Return a JSON value as a UBJSON document; arrays of numbers may be numpy arrays.

    >>> to_ubjson({"a": np.array([1, 2], dtype=np.uint8), "b": "x"})
    b'{L\x00\x00\x00\x00\x00\x00\x00\x01a[$U#L\x00\x00\x00\x00\x00\x00\x00\x02\x01\x02L\x00\x00\x00\x00\x00\x00\x00\x01bSL\x00\x00\x00\x00\x00\x00\x00\x01x}'
    """
    if isinstance(value, str):
        return b"S" + _counted(value)
    if value is None or isinstance(value, bool):
        return {None: b"Z", True: b"T", False: b"F"}[value]
    if isinstance(value, int | float):
        return struct.pack(">cq", b"L", value) if isinstance(value, int) else struct.pack(">cd", b"D", value)
    if isinstance(value, np.ndarray):
        big_endian = value.astype(value.dtype.newbyteorder(">"), copy=False)
        marker = _MARKERS[big_endian.dtype].encode()
        return b"[$" + marker + b"#" + _size(len(value)) + big_endian.tobytes()
    if not isinstance(value, Mapping):
        return b"[" + b"".join(map(to_ubjson, value)) + b"]"
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
        Whether typed lists of numbers become numpy arrays.

    Raises
    ------
    ModelFileError
        If it is truncated, has trailing bytes, or is not UBJSON.

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
            self.fail("lists nested too deeply")
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
        fields: dict[str, Any] = {}
        count = self.count() if self.follows("#") else None
        while (count is None and not self.follows("}")) or (count is not None and len(fields) < count):
            key = self.string()
            if key in fields:
                self.fail("an object has a field twice")
            fields[key] = self.value(depth + 1)
        return fields

    def array(self, depth: int) -> list[Any] | npt.NDArray[Any]:
        if self.follows("$"):
            marker = self.marker()
            if marker not in _NUMBERS or not self.follows("#"):
                self.fail("an array of an unknown type")
            numbers = np.frombuffer(self.take(self.count() * _SIZES[marker]), dtype=_NUMBERS[marker])
            return numbers if self.arrays else numbers.tolist()
        if self.follows("#"):
            return [self.value(depth + 1) for _ in range(self.count())]
        items = []
        while not self.follows("]"):
            items.append(self.value(depth + 1))
        return items

    def string(self) -> str:
        try:
            return self.take(self.count()).decode("utf-8")
        except UnicodeDecodeError:
            self.fail("a string that is not UTF-8")

    def count(self) -> int:
        """Read a length, and check that as many bytes are left."""
        marker = self.marker()
        if marker not in _INTEGERS:
            self.fail("a length that is not an integer")
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
        is_next = self.data[self.at : self.at + 1] == marker.encode()
        self.at += is_next
        return is_next

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            self.fail("it ends too early")
        self.at += size
        return self.data[self.at - size : self.at]
