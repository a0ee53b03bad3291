"""Cuts that the user brings: ``fit(..., cuts={"age": [18, 65]})``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import polars as pl

from frameboost.binning import Bins
from frameboost.errors import ParameterError
from frameboost.schema import Feature
from frameboost.types import FeatureType, Physical

__all__ = ["bins_from_cuts"]


def bins_from_cuts(
    cuts: Mapping[str, Iterable[Any]], features: Sequence[Feature], missing: Sequence[int]
) -> dict[int, Bins]:
    """Return the bins of the features that ``cuts`` names, by feature number.

    Parameters
    ----------
    cuts
        For a column, the values at which bins start, in the column's own terms and any order. A number that the
        column's type can't hold is replaced by the next larger one that it can, which parts the values alike.
    features
        All features.
    missing
        For each feature in how many rows it is missing.

    Raises
    ------
    ParameterError
        If a name is no feature or a categorical one, or a value has the wrong type.
    """
    number_of = {feature.name: i for i, feature in enumerate(features)}
    bins = {}
    for name, values in cuts.items():
        if name not in number_of:
            raise ParameterError(f"cuts names {name!r}, which is not a feature")
        number = number_of[name]
        feature = features[number]
        if feature.type.is_categorical:
            raise ParameterError(f"cuts names {name!r}, which holds categories; only columns with an order have cuts")
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise ParameterError(f"cuts[{name!r}] must be a list of values, not {values!r}")
        edges = {edge for value in values if (edge := _physical(name, feature.type, value)) is not None}
        bins[number] = Bins(feature, tuple(sorted(edges)), has_missing=missing[number] > 0)
    return bins


def _physical(name: str, kind: FeatureType, value: Any) -> Physical | None:
    """Return the value in physical form; None for one that is above all that the type can hold."""
    if hasattr(value, "item"):  # a numpy scalar
        value = value.item()
    error = ParameterError(f"cuts[{name!r}] holds {value!r}, which is not a value of type {kind}")
    if kind.family == "number":
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or value != value:
            raise error
        if math.isinf(value):
            return float(value) if kind.is_float else None
        edge = kind.at_least(Fraction(value))
        return edge + 0.0 if isinstance(edge, float) else edge
    try:
        physical = pl.Series([value], dtype=kind.to_polars(), strict=True).to_physical().cast(pl.Int64).item()
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        raise error from None
    if physical is None:
        raise error
    return int(physical)
