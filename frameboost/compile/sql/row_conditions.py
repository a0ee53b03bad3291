"""Row conditions as data, ``where={"region": "EU", "age": (18, None)}``: as SQL, and as facts about features.

Branches that no such row reaches are pruned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from frameboost.binning.given_cuts import at_least, exact_number
from frameboost.checks.messages import did_you_mean, shown
from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.compile.sql.simplified_trees import Known
from frameboost.errors import ParameterError
from frameboost.schema.types import FeatureType, Physical

__all__ = ["row_condition"]

_NEVER = "1 = 0"


def row_condition(where: Mapping[str, Any], columns: Sequence[FeatureColumn]) -> tuple[str, dict[int, Known]]:
    """Return a row condition as SQL, and the facts about features of such rows, by index.

    Raises
    ------
    ParameterError
        If a name is not a feature, or a value has another type than the feature.
    """
    number_of = {column.feature.name: i for i, column in enumerate(columns)}
    parts, known = [], {}
    for name, value in where.items():
        if name not in number_of:
            raise ParameterError(
                f"where names {shown(name)}, which is not a feature of the model{did_you_mean(str(name), number_of)}; "
                'write other conditions as SQL, where="..."'
            )
        number = number_of[name]
        sql, known[number] = _of_feature(columns[number], value)
        parts.append(f"({sql})")
    return " AND ".join(parts), known


def _of_feature(column: FeatureColumn, value: Any) -> tuple[str, Known]:
    feature = column.feature
    if feature.zero_is_missing:
        raise ParameterError(
            f"where names {shown(feature.name)}, whose zeros are missing values to the model; write the condition as "
            'SQL, where="..."'
        )
    if value is None:
        return column.is_missing(), Known(may_be_present=False)
    values = list(value) if isinstance(value, list | set | frozenset) else [value]
    if not values:
        return _NEVER, Known(may_be_missing=False)
    if feature.type.is_categorical:
        return _of_categories(column, [_category(column, each) for each in values])
    ranges = [each for each in (_range(column, value) for value in values) if each is not None]
    if not ranges:
        return _NEVER, Known(may_be_missing=False)
    lows, highs = [low for low, _ in ranges], [high for _, high in ranges]
    low = None if None in lows else min(lows)  # type: ignore[type-var]
    high = None if None in highs else max(highs)  # type: ignore[type-var]
    parts = [[part for part in (column.is_at_least(low), column.is_below(high)) if part] for low, high in ranges]
    if len(parts) > 1 and all(parts):
        either = " OR ".join(f"({' AND '.join(part)})" for part in parts)
        parts = [[f"({either})"]]
    inside = parts[0] if all(parts) else []
    return " AND ".join([column.is_present(), *inside]), Known(low, high, may_be_missing=False)


def _of_categories(column: FeatureColumn, values: Sequence[Physical]) -> tuple[str, Known]:
    categories = column.feature.categories
    codes = frozenset(code for code, category in enumerate(categories) if category in values)
    # One that training has not seen is none of the others.
    are_seen = all(value in categories for value in values)
    others = frozenset(range(len(categories))) - codes
    known = Known(may_be_missing=False, codes=codes if are_seen else others, are_excluded=not are_seen)
    return column.is_one_of(values), known


def _category(column: FeatureColumn, value: Any) -> Physical:
    kind = column.feature.type.values
    if kind.name == "string":
        if isinstance(value, str):
            return value
        raise _wrong(column, value)
    of_value = None if isinstance(value, tuple) else _range(column, value)
    if of_value is None or of_value[0] is None:
        raise _wrong(column, value)
    return of_value[0]


def _range(column: FeatureColumn, value: Any) -> tuple[Physical | None, Physical | None] | None:
    """Return the smallest physical value of a pair (low, high) or of one value, and the smallest above all.

    None within is no bound; None alone means that no value of the type is between them.
    """
    kind, is_pair = column.feature.type.values, isinstance(value, tuple)
    if is_pair and len(value) != 2:
        raise _wrong(column, value)
    first, last = value if is_pair else (value, value)
    low = high = None
    if first is not None and (number := _exact(column, first)) != -math.inf:
        low = at_least(kind, number)
        if low is None:
            return None
    if last is not None and (number := _exact(column, last)) != math.inf:
        if number == -math.inf:
            return None
        high = _more_than(kind, number)
    return None if low is not None and high is not None and low >= high else (low, high)  # type: ignore[operator]


def _exact(column: FeatureColumn, value: Any) -> Fraction | float:
    number = exact_number(column.feature.type.values, value)
    if number is None:
        raise _wrong(column, value)
    return number


def _more_than(kind: FeatureType, number: Fraction | float) -> Physical | None:
    """Return the smallest physical value above a finite number; None if there is none."""
    if not kind.is_float:
        return kind.at_least((math.floor(number / kind.scale) + 1) * kind.scale)
    value = at_least(kind, number)
    assert isinstance(value, float)
    if value > number:
        return value
    if kind.name == "float32":
        return float(np.nextafter(np.float32(value), np.float32(np.inf)))
    return math.nextafter(value, math.inf)


def _wrong(column: FeatureColumn, value: Any) -> ParameterError:
    return ParameterError(
        f"where[{shown(column.feature.name)}] holds {shown(value)}; it must be a value of type "
        f"{column.feature.type.values}, a pair (low, high) of such with None for no bound, a list of values, or None "
        "for missing ones"
    )
