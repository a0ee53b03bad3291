"""Checks of what a JSON file holds, each of which says what was found where."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from frameboost.errors import ModelFileError

__all__ = ["check_keys", "fail", "is_finite", "is_integer", "read_list", "shown_json", "to_text"]


def check_keys(item: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    """Refuse fields that are not known."""
    for key in item:
        if key not in known:
            raise ModelFileError(f"{where}: unknown field {shown_json(key)}")


def fail(where: str, key: str, wanted: str, found: object) -> NoReturn:
    """Raise `ModelFileError`: the field must be what is wanted."""
    raise ModelFileError(f'{where}: "{key}" must be {wanted}, not {shown_json(found)}')


def shown_json(found: object) -> str:
    """Return what was found, short enough for a sentence."""
    try:
        text = json.dumps(found, ensure_ascii=False)  # 1e999 is read as an infinity
    except RecursionError:
        return "lists in lists without end"
    return text if len(text) <= 60 else text[:57] + "..."


def read_list(item: Mapping[str, Any], key: str, where: str = "damaged model") -> list[Any]:
    """Return a field that must be a list."""
    value = item.get(key)
    if not isinstance(value, list):
        fail(where, key, "a list", value)
    return value


def is_integer(value: object) -> bool:
    """Whether it is an int, and no Boolean."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_finite(value: object) -> bool:
    """Whether it is a number that a float64 can hold."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def to_text(value: object) -> str:
    """Return JSON, with no number that JSON has not."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False)
