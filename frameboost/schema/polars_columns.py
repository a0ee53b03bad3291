"""Columns of polars frames: by name, and as physical values (see `frameboost.schema.types`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
import polars.selectors as cs

from frameboost.schema.types import ZERO, Feature, FeatureType

__all__ = [
    "category_column", "category_expr", "column", "contiguous_array", "in_utc", "known_expr", "not_zero",
    "physical_expr", "physical_values", "text_expr", "with_values",
]  # fmt: skip


def column(name: str) -> pl.Expr:
    """Return the column of that name; ``pl.col`` would take ``*`` and ``^...$`` for patterns.

    >>> pl.DataFrame({"*": [1], "x": [2]}).select(column("*")).columns
    ['*']
    """
    is_pattern = name == "*" or (name.startswith("^") and name.endswith("$"))
    return cs.by_name(name).as_expr() if is_pattern else pl.col(name)


def physical_expr(name: str, kind: FeatureType) -> pl.Expr:
    """Return the column's physical values; NaN becomes NULL, as both are missing values."""
    values = column(name)
    if kind.is_float:
        return values.cast(kind.physical_dtype).fill_nan(None)
    if kind.precision_and_scale or kind.unit or kind.family == "date":
        values = values.to_physical()
    return values.cast(kind.physical_dtype)


def category_column(feature: Feature, codes: Sequence[int] | None = None) -> pl.Series:
    """Return categories, by default all, as a column of the feature's type has them."""
    kind = feature.type
    values = feature.categories if codes is None else [feature.categories[code] for code in codes]
    if kind.precision_and_scale:
        return pl.Series(feature.name, [kind.decimal(int(value)) for value in values], dtype=kind.to_polars())
    return pl.Series(feature.name, values, dtype=kind.physical_dtype).cast(kind.to_polars())


def category_expr(feature: Feature) -> pl.Expr:
    """Return a column in the type of its categories, null where the type does not hold the value; not of codes."""
    values, kind = column(feature.name), feature.type
    if kind.name == "string":
        return values.cast(pl.String)  # Enum and Categorical refuse to be compared with values that they don't have
    if kind.family == "timestamptz":
        values = in_utc(values, kind)
    same = values.cast(kind.to_polars(), strict=False)
    return same if kind.family == "boolean" else pl.when(same == values).then(same)


def in_utc(values: pl.Expr, kind: FeatureType) -> pl.Expr:
    """Return a column of moments of any time zone in a type of UTC; untyped NULL is one, and numbers are none.

    ``dt.convert_time_zone`` refuses untyped NULL, and a cast alone takes numbers.
    """
    nothing = pl.coalesce(values - values, pl.lit(None, pl.Duration(kind.unit)))  # type: ignore[arg-type]
    return values.cast(kind.to_polars()) + nothing.dt.cast_time_unit(kind.unit)  # type: ignore[arg-type]


def known_expr(feature: Feature) -> pl.Expr:
    """Return a column of categories, null where it has none of the feature's."""
    values = category_expr(feature)
    return pl.when(values.is_in(category_column(feature).implode())).then(values)


def text_expr(values: pl.Expr, kind: FeatureType) -> pl.Expr:
    """Return a column of categories as text for people; NaN is null."""
    if kind.family == "duration":
        return values.dt.to_string("polars")
    if kind.family == "number":
        # A column with missing integers is often one of floats.
        values = values.cast(pl.Float64).fill_nan(None) if kind.is_float or kind.name == "codes" else values
        values = values.cast(kind.to_polars(), strict=False)
    return values.cast(pl.String)


def physical_values(values: pl.Series, kind: FeatureType) -> pl.Series:
    """Return the physical values of a column, without a copy where it holds them already (see `physical_expr`)."""
    if values.dtype == kind.physical_dtype and not kind.is_categorical:
        if not kind.is_float:
            return values
        if not values.null_count():
            if values.n_chunks() > 1:
                values = values.rechunk()  # first, as an array of several chunks is a copy
            array = values.to_numpy()
            if len(array) and not np.isnan(array.min()):  # the minimum is NaN if any value is
                return values
    return values.to_frame().select(physical_expr(values.name, kind).alias(values.name)).to_series()


def with_values(frame: pl.DataFrame) -> list[str]:
    """Return the names of the columns with at least one value that is neither NULL nor NaN."""
    missing = frame.select(cs.float().fill_nan(None).null_count(), (~cs.float()).null_count()).row(0, named=True)
    return [name for name in frame.columns if missing[name] < frame.height]


def not_zero(values: pl.Expr) -> pl.Expr:
    """Return whether a number is further than `ZERO` from zero (see `Feature.zero_is_missing`)."""
    return (values > ZERO) | (values < -ZERO)  # abs() would overflow on the smallest integer of a type


def contiguous_array(values: pl.Series) -> npt.NDArray[np.float64] | None:
    """Return float64 values as a contiguous array without copying them; None if they are others, or NULL."""
    if values.dtype != pl.Float64 or values.null_count():
        return None
    array = values.to_numpy()
    return array if array.flags.c_contiguous else None
