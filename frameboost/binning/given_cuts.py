"""The user's cuts: ``fit(..., cuts={"age": [18, 65]})``."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from frameboost.binning.bins import Bins
from frameboost.checks.arguments import is_iterable
from frameboost.checks.messages import shown
from frameboost.errors import ParameterError
from frameboost.schema.types import Feature, FeatureType, Physical

__all__ = ["at_least", "bins_from_cuts", "exact_number"]

# In seconds; months and years are missing, as they vary.
_NUMPY_UNITS = {
    "W": Fraction(604_800),
    "D": Fraction(86_400),
    "h": Fraction(3_600),
    "m": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 10**3),
    "us": Fraction(1, 10**6),
    "ns": Fraction(1, 10**9),
}


def bins_from_cuts(
    cuts: Mapping[str, Iterable[Any]], features: Sequence[Feature], missing: Sequence[int]
) -> dict[int, Bins]:
    """Return the bins of the features in ``cuts``, by feature index.

    Parameters
    ----------
    cuts
        For each column the starts of bins, as Python values in any order. Numbers and times that the column's type
        can't hold are rounded up, which splits the values alike: x < 2.5 is x < 3 for integers.
    features
        All features.
    missing
        The number of missing values of each feature.

    Raises
    ------
    ParameterError
        If a name is not a feature or a categorical one, or a value has the wrong type.
    """
    number_of = {feature.name: i for i, feature in enumerate(features)}
    bins = {}
    for name, values in cuts.items():
        if name not in number_of:
            raise ParameterError(f"cuts names {shown(name)}, which is not a feature")
        number = number_of[name]
        feature = features[number]
        if feature.type.is_categorical:
            raise ParameterError(
                f"cuts names {shown(name)}, which holds categories; only columns with an order have cuts"
            )
        if isinstance(values, str | bytes) or not is_iterable(values):
            raise ParameterError(f"cuts[{shown(name)}] must be a list of values, not {shown(values)}")
        edges = {edge for value in values if (edge := _physical(name, feature.type, value)) is not None}
        bins[number] = Bins(feature, tuple(sorted(edges)), has_missing=missing[number] > 0)
    return bins


def _physical(name: str, kind: FeatureType, value: Any) -> Physical | None:
    """Return ``value`` rounded up to a physical value of the type; None if all values of the type are below it."""
    number = exact_number(kind, value)
    if number is None:
        raise ParameterError(f"cuts[{shown(name)}] holds {shown(value)}, which is not a value of type {kind}")
    return at_least(kind, number)


def at_least(kind: FeatureType, number: Fraction | float) -> Physical | None:
    """Return an `exact_number` rounded up to a physical value of the type.

    None if all values of the type are below it, and for −∞ if there is none below.
    """
    if isinstance(number, float):
        return number if kind.is_float else None
    edge = kind.at_least(number)
    return edge + 0.0 if isinstance(edge, float) else edge


def exact_number(kind: FeatureType, value: Any) -> Fraction | float | None:
    """Return ``value`` as an exact number, ±inf as a float; None if its kind differs from the column's.

    Dates are in days, times and durations in seconds, like physical values times the type's ``scale``.
    """
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64 | np.timedelta64):
        value = value.item()
    if kind.family == "number":
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or value != value:
            return None
        return float(value) if value in (math.inf, -math.inf) else Fraction(value)
    if kind.family == "boolean":
        return Fraction(value) if isinstance(value, bool) else None
    if kind.family == "duration":
        return _seconds(value)
    since_epoch = _since_epoch(value, zoned=kind.family == "timestamptz")
    return since_epoch / 86_400 if since_epoch is not None and kind.family == "date" else since_epoch


def _since_epoch(value: Any, *, zoned: bool) -> Fraction | None:
    """Return the seconds since 1970 of a date or time, which must have a time zone if and only if ``zoned``."""
    if isinstance(value, np.datetime64):
        return None if zoned else _seconds(value - np.datetime64(0, "s"))
    if not isinstance(value, dt.date) or value != value:  # pandas' NaT is a datetime
        return None
    if not isinstance(value, dt.datetime):
        value = dt.datetime.combine(value, dt.time())
    if (value.tzinfo is not None) != zoned:
        return None
    return _seconds(value - dt.datetime(1970, 1, 1, tzinfo=dt.UTC if zoned else None))


def _seconds(value: Any) -> Fraction | None:
    """Return a duration in seconds."""
    if isinstance(value, np.timedelta64):
        unit, times = np.datetime_data(value.dtype)
        known = unit in _NUMPY_UNITS and not np.isnat(value)
        return int(value.astype(np.int64)) * times * _NUMPY_UNITS[unit] if known else None
    if not isinstance(value, dt.timedelta) or value != value:
        return None
    nanoseconds = getattr(value, "nanoseconds", 0)  # of pandas
    return (value.days * 86_400 + value.seconds) + Fraction(value.microseconds * 1_000 + nanoseconds, 10**9)
