"""XGBoost's model document, JSON or UBJSON: parsing it, and reading checked fields of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from frameboost.checks.json_fields import fail, is_integer, parse_json, read_list
from frameboost.checks.ubjson import read_ubjson
from frameboost.errors import ModelFileError
from frameboost.interop.float32 import as_float32

__all__ = ["fail_damaged", "floats", "integers", "read_count", "read_learner", "read_numbers", "read_object"]

_WHERE = "damaged XGBoost model"
# The first bytes of XGBoost's own binary format, the default before XGBoost 1.6.
_OLD_BINARY = b"binf"


def read_learner(data: bytes) -> dict[str, Any]:
    """Return the ``learner`` of an XGBoost document: all but the version.

    Raises
    ------
    ModelFileError
        If it is neither JSON nor UBJSON, or has no learner.
    """
    document = _parse(data)
    if not isinstance(document, dict) or not isinstance(document.get("learner"), dict):
        raise ModelFileError('not an XGBoost model: the file holds no object with a "learner"')
    learner: dict[str, Any] = document["learner"]
    return learner


def _parse(data: bytes) -> Any:
    if data.startswith(_OLD_BINARY):
        raise ModelFileError(
            "the file is of XGBoost's old binary format; load it in XGBoost 3.0 or before, and save it as .json or .ubj"
        )
    if re.match(rb"\{[iUIlL#]", data):
        return read_ubjson(data, "not an XGBoost model: the file is not UBJSON")
    return parse_json(data, "not an XGBoost model: the file is neither JSON nor UBJSON", _WHERE)


def fail_damaged(what: str, where: str = "") -> NoReturn:
    """Raise `ModelFileError`: the model is damaged."""
    raise ModelFileError(f"{_place(where)}: {what}")


def _place(where: str) -> str:
    return f"{_WHERE}, {where}" if where else _WHERE


def read_object(item: Mapping[str, Any], key: str, where: str = "") -> dict[str, Any]:
    """Return a field that must be an object."""
    value = item.get(key)
    if not isinstance(value, dict):
        fail(_place(where), key, "an object", value)
    return value


def read_count(item: Mapping[str, Any], key: str, default: int | None = None, where: str = "") -> int:
    """Return a field that must be an integer of at least 0, which XGBoost writes as text."""
    value = item.get(key, default)
    if isinstance(value, str) and re.fullmatch(r"\d{1,10}", value, re.ASCII):
        return int(value)
    if not is_integer(value) or value < 0:
        fail(_place(where), key, "a number from 0", value)
    return int(value)


def read_numbers(text: object, what: str) -> npt.NDArray[np.float32]:
    """Return the numbers, float32, of a text such as ``5E-1``, ``[5E-1]`` or ``[1E0,2E0]``."""
    try:
        given = json.loads(re.sub(r"^\((.*)\)$", r"[\1]", text)) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        given = None
    values: list[Any] = given if isinstance(given, list) else [given]
    if not values or not all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        fail(_WHERE, what, "a number or a list of numbers", text)
    try:
        return as_float32(values)
    except OverflowError:
        fail(_WHERE, what, "a number that a float32 can hold", text)


def integers(item: Mapping[str, Any], key: str, size: int | None, where: str) -> npt.NDArray[np.int64]:
    """Return a field that must be a list of that many integers (Booleans are 0 and 1)."""
    return _array(item, key, size, where, "bi", "integers").astype(np.int64)


def floats(item: Mapping[str, Any], key: str, size: int, where: str) -> npt.NDArray[np.float32]:
    """Return a field that must be a list of that many numbers, as float32, perhaps NaN or infinite."""
    return as_float32(_array(item, key, size, where, "if", "numbers"))


def _array(
    item: Mapping[str, Any], key: str, size: int | None, where: str, kinds: str, wanted: str
) -> npt.NDArray[Any]:
    values = read_list(item, key, _place(where))
    if size is not None and len(values) != size:
        raise ModelFileError(f'{_place(where)}: "{key}" must have {size} entries, not {len(values)}')
    try:
        array = np.array(values) if values else np.empty(0, dtype=np.int64)
    except ValueError:  # lists of different lengths
        array = np.empty((0, 0))
    if array.dtype.kind not in kinds or array.ndim != 1:
        fail(_place(where), key, f"a list of {wanted}", values)
    return array
