"""The declaration of a parameter, the check of a value against it, and its range in words."""

from __future__ import annotations

import math
import numbers
import typing
from collections.abc import Callable
from dataclasses import Field, field
from decimal import Decimal
from typing import Any, Literal

import numpy as np

from frameboost.checks.messages import did_you_mean, listed, shown
from frameboost.errors import ParameterError

__all__ = ["as_number", "checked", "declared", "range_text", "values_text"]


def declared(default: Any, doc: str, *, low: float | None = None, above: float | None = None,
               high: float | None = None, below: float | None = None, symbol: str = "", engines: str = "all",
               shapes_model: bool = True, kind: str = "",
               read: Callable[[object], Any] | None = None) -> Any:  # fmt: skip
    """Declare a parameter: its default, its documentation, its range (``above`` and ``below`` are exclusive).

    For a parameter that is no scalar, ``kind`` says what values it takes, and ``read`` checks a value and returns it as
    the model file holds it, of dicts and lists.
    """
    metadata = {
        "doc": doc,
        "low": low,
        "above": above,
        "high": high,
        "below": below,
        "symbol": symbol,
        "engines": engines,
        "shapes_model": shapes_model,
        "kind": kind,
        "read": read,
    }
    return field(default=default, metadata=metadata)


def checked(item: Field[Any], hint: Any, value: Any) -> Any:
    """Return ``value`` in the parameter's type, or raise `ParameterError`."""
    if value is item.default and item.metadata["read"] is None:  # as most are
        return value
    if item.metadata["read"] is not None:
        return item.metadata["read"](value)
    if typing.get_origin(hint) is Literal:
        choices = typing.get_args(hint)
        if not isinstance(value, str) or value not in choices:
            raise ParameterError(
                f"{item.name} must be one of {listed(choices, None)}, not {shown(value)}{did_you_mean(value, choices)}"
            )
        return str(value)
    if hint is bool:
        if not isinstance(value, bool | np.bool_):
            raise ParameterError(f"{item.name} must be True or False, not {shown(value)}")
        return bool(value)
    options = typing.get_args(hint) or (hint,)
    if value is None and type(None) in options:
        return None
    wanted = int if int in options else float
    number = as_number(value, wanted)
    low, above, high, below = (item.metadata[key] for key in ("low", "above", "high", "below"))
    outside = number is None or (
        (low is not None and number < low)
        or (above is not None and number <= above)
        or (high is not None and number > high)
        or (below is not None and number >= below)
    )
    if outside:
        kind = "an integer" if wanted is int else "a finite number"
        raise ParameterError(f"{item.name} must be {kind}{range_text(item)}, not {shown(value)}")
    return number


def as_number(value: Any, wanted: type) -> int | float | None:
    """Return ``value`` (numpy's scalars too) as an int or a finite float, or None if it isn't one."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal):
        return None
    try:
        if wanted is int:
            whole = int(typing.cast("float", value))
            return whole if whole == value else None
        number = float(value) + 0.0  # turns -0.0 into 0.0, so that equal models have equal files
    except (ValueError, OverflowError):  # NaN and infinities, and integers beyond any float
        return None
    return number if math.isfinite(number) else None


def range_text(item: Field[Any]) -> str:
    """Return a parameter's range in words, such as `` of at least 0``."""
    low, above, high, below = (item.metadata[key] for key in ("low", "above", "high", "below"))
    parts = []
    if low is not None:
        parts.append(f" of at least {_number(low)}")
    if above is not None:
        parts.append(f" greater than {_number(above)}")
    if high is not None:
        parts.append(f"{' and' if parts else ' of'} at most {_number(high)}")
    if below is not None:
        parts.append(f"{' and' if parts else ''} less than {_number(below)}")
    return "".join(parts)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) and value >= 1_000_000 else f"{value:g}"


def values_text(item: Field[Any], hint: Any) -> str:
    """Return the values that a parameter takes, in words."""
    if item.metadata["kind"]:
        return str(item.metadata["kind"])
    options = typing.get_args(hint) or (hint,)
    if typing.get_origin(hint) is Literal:
        return "{" + ", ".join(map(repr, options)) + "}"
    number = f"{options[0].__name__}{range_text(item)}"
    return f"{number}{',' if range_text(item) else ''} or None" if type(None) in options else number
