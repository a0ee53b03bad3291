"""The declaration of a parameter, the check of a value against it, and its range in words."""

from __future__ import annotations

import math
import numbers
import typing
from collections.abc import Callable, Mapping
from dataclasses import Field, field
from decimal import Decimal
from typing import Any, Literal

import numpy as np

from frameboost.checks.arguments import is_iterable
from frameboost.checks.messages import did_you_mean, listed, shown
from frameboost.errors import ParameterError

__all__ = ["checked", "declared", "interaction_sets", "monotone_directions", "quantiles", "values_text"]


def declared(default: Any, doc: str, *, low: float | None = None, above: float | None = None,
               high: float | None = None, below: float | None = None, symbol: str = "", engines: str = "all",
               shapes_model: bool = True, kind: str = "",
               read: Callable[[object], Any] | None = None) -> Any:  # fmt: skip
    """Declare a parameter: its default, its documentation, its range (``above`` and ``below`` are exclusive).

    For a parameter that is no scalar, ``kind`` describes its values, and ``read`` checks a value and returns it as in
    the model file, of dicts and lists.
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
    kind = int if int in options else float
    number = _as_number(value, kind)
    low, above, high, below = (item.metadata[key] for key in ("low", "above", "high", "below"))
    outside = number is None or (
        (low is not None and number < low)
        or (above is not None and number <= above)
        or (high is not None and number > high)
        or (below is not None and number >= below)
    )
    if outside:
        what = "an integer" if kind is int else "a finite number"
        raise ParameterError(f"{item.name} must be {what}{_range_text(item)}, not {shown(value)}")
    return number


def _as_number(value: Any, kind: type) -> int | float | None:
    """Return ``value`` (numpy's scalars too) as an int or a finite float, or None if it isn't one."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal):
        return None
    try:
        if kind is int:
            whole = int(typing.cast("float", value))
            return whole if whole == value else None
        number = float(value) + 0.0  # turns -0.0 into 0.0, so that equal models have equal files
    except (ValueError, OverflowError):  # NaN and infinities, and integers beyond any float
        return None
    return number if math.isfinite(number) else None


def _range_text(item: Field[Any]) -> str:
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
    number = f"{options[0].__name__}{_range_text(item)}"
    return f"{number}{',' if _range_text(item) else ''} or None" if type(None) in options else number


# --- parameters that are no scalars -----------------------------------------------------------------------------------

# Whether the data has the columns that constraints name is checked in `frameboost.training.constraints`.


def monotone_directions(value: object) -> dict[str, int] | None:
    """Return the directions other than 0 by column name, sorted by name; None if there are none.

    Raises
    ------
    ParameterError
        If ``value`` is no dict of column name to -1, 0 or 1.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ParameterError(
            "monotone_constraints must be a dict of column name to -1, 0 or 1, such as {'age': 1}, "
            f"not {shown(value)}"
        )
    directions = {}
    for name, direction in value.items():
        if not isinstance(name, str):
            raise ParameterError(f"monotone_constraints must name columns, not {shown(name)}")
        is_number = isinstance(direction, numbers.Real) and not isinstance(direction, bool)
        if not is_number or direction not in (-1, 0, 1):
            raise ParameterError(f"monotone_constraints[{shown(name)}] must be -1, 0 or 1, not {shown(direction)}")
        if direction:
            directions[str(name)] = int(direction)
    return dict(sorted(directions.items())) or None


def interaction_sets(value: object) -> list[list[str]] | None:
    """Return the sets sorted, without duplicates; with an empty list every column is alone on its path.

    Raises
    ------
    ParameterError
        If ``value`` is no list of lists of column names.
    """
    if value is None:
        return None
    sets = set()
    for members in _members(value, value):
        names = set()
        for name in _members(value, members):
            if not isinstance(name, str):
                raise ParameterError(f"interaction_constraints must name columns, not {shown(name)}")
            names.add(str(name))
        if not names:
            raise ParameterError("interaction_constraints holds an empty set; each must name at least one column")
        sets.add(tuple(sorted(names)))
    return [list(names) for names in sorted(sets)]


def quantiles(value: object) -> tuple[float, ...]:
    """Return the quantiles of ``quantile_alpha``, one or several."""
    values = list(value) if is_iterable(value) and not isinstance(value, str | bytes) else [value]
    alphas = [_as_number(alpha, float) for alpha in values]
    inside = [float(alpha) for alpha in alphas if alpha is not None and 0 < alpha < 1]
    if not values or len(inside) < len(values) or inside != sorted(set(inside)):
        raise ParameterError(
            f"quantile_alpha must be a number between 0 and 1, or several in ascending order, not {shown(value)}"
        )
    return tuple(inside)


def _members(sets: object, value: object) -> list[object]:
    """Return the items of a list, tuple or set within ``sets``, the user's argument."""
    if isinstance(value, str | bytes | Mapping) or not is_iterable(value):
        raise ParameterError(
            "interaction_constraints must be a list of lists of column names, such as [['a', 'b'], ['c', 'd']], "
            f"not {shown(sets)}"
        )
    return list(value)
