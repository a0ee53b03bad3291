"""Features and column types: the table of supported types, in polars, in DuckDB and in a model file.

Values of features are handled in *physical* form, one of three Python types. Order and equality of physical values are
those of the column, so that all code above the engines works on them:

=============================================  ==========================================================
type                                           physical form
=============================================  ==========================================================
``float32 float64``                            ``float``
``int8 ... int128``, ``uint8 ... uint128``     ``int``
``decimal(p,s)``                               ``int``, the value times 10**s
``boolean``                                    ``int``, 0 or 1
``date``                                       ``int``, days since 1970-01-01
``timestamp[u]``, ``timestamptz[u]``           ``int``, units u (ms, us, ns) since 1970-01-01 (in UTC)
``duration[u]``                                ``int``, units u
``string``                                     ``str``; polars' Enum and Categorical and DuckDB's ENUM too
``codes``                                      ``int`` that is a name, not an amount; only in other libraries' models
``category(t)``                                as type ``t``, any but strings, whose values are names of categories
=============================================  ==========================================================

A new type of an existing family (a wider integer, another unit of time) is one row of `_TYPES` below, and in
`frameboost.dialects` the name of the type in each database that has it. The row defines the type in polars and in
DuckDB, its physical dtype, its bounds and its scale. A new *family* also needs a branch in the functions that convert
physical values:

- `FeatureType.shown` here: for people;
- `frameboost.schema.types.physical_expr`, `frameboost.expressions.duckdb_sql.physical_sql`: from the column;
- `frameboost.expressions.duckdb_sql.literal`, `frameboost.dialects.dialect.Dialect.literal` and
  `frameboost.compile.polars`: as a literal;
- `frameboost.binning.given_cuts`: from a user's cut in Python.

`tests/compile/test_every_type.py` runs over every row: a type that lacks a branch fails there.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import polars.selectors as cs

from frameboost.checks.messages import shown

__all__ = [
    "DUCKDB_TYPES",
    "TYPE_NAMES",
    "ZERO",
    "Feature",
    "FeatureType",
    "Physical",
    "category_column",
    "category_expr",
    "column",
    "contiguous_array",
    "float32_at_least",
    "free_name",
    "in_utc",
    "known_expr",
    "not_zero",
    "physical_expr",
    "physical_values",
    "text_expr",
    "typed_column",
    "with_values",
]

Physical = float | int | str


# --- the table --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Row:
    """The definition of a type.

    Attributes
    ----------
    family
        The family; its types are interchangeable when scoring.
    polars
        The polars type whose values have this physical form.
    physical
        The polars type of the physical values.
    duckdb
        The type's name in DuckDB's SQL.
    reads_duckdb
        The names of DuckDB types that are read as this one; None for ``duckdb`` alone.
    reads_polars
        Further polars types that are read as this one.
    bounds
        The smallest and the largest physical value, None for floats and strings.
    scale
        The value of one physical unit.
    unit
        For times: ``"ms"``, ``"us"`` or ``"ns"``.
    widened
        The type that holds all values of this one and of narrower ones, if different.
    is_categorical
        Whether splits are by set membership.
    """

    family: str
    polars: pl.DataType
    physical: pl.DataType
    duckdb: str
    reads_duckdb: tuple[str, ...] | None = None
    reads_polars: tuple[Any, ...] = ()
    bounds: tuple[int, int] | None = None
    scale: Fraction = Fraction(1)
    unit: str | None = None
    widened: str | None = None
    is_categorical: bool = False


_MOST_DIGITS = 38  # of a decimal
_INT64 = (-(2**63), 2**63 - 1)
_UNITS_PER_SECOND = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def _integer(dtype: pl.DataType, duckdb: str, bits: int, *, signed: bool = True) -> _Row:
    bounds = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return _Row("number", dtype, dtype, duckdb, bounds=bounds, widened="int64" if bits <= 32 else None)


def _time(family: str, unit: str, dtype: pl.DataType, duckdb: str, *reads_duckdb: str) -> _Row:
    scale = Fraction(1, _UNITS_PER_SECOND[unit])
    return _Row(family, dtype, pl.Int64(), duckdb, reads_duckdb, bounds=_INT64, scale=scale, unit=unit)


# DuckDB has durations of microseconds only, and zoned times of microseconds and nanoseconds: the types that it lacks
# are written as the next wider one, and no column is read as them.
_TYPES: Mapping[str, _Row] = {
    "float32": _Row("number", pl.Float32(), pl.Float32(), "FLOAT", widened="float64",
                    reads_polars=(pl.Float16,)),  # every Float16 is a Float32
    "float64": _Row("number", pl.Float64(), pl.Float64(), "DOUBLE"),
    "int8": _integer(pl.Int8(), "TINYINT", 8),
    "int16": _integer(pl.Int16(), "SMALLINT", 16),
    "int32": _integer(pl.Int32(), "INTEGER", 32),
    "int64": _integer(pl.Int64(), "BIGINT", 64),
    "int128": _integer(pl.Int128(), "HUGEINT", 128),
    "uint8": _integer(pl.UInt8(), "UTINYINT", 8, signed=False),
    "uint16": _integer(pl.UInt16(), "USMALLINT", 16, signed=False),
    "uint32": _integer(pl.UInt32(), "UINTEGER", 32, signed=False),
    "uint64": _integer(pl.UInt64(), "UBIGINT", 64, signed=False),
    "uint128": _integer(pl.UInt128(), "UHUGEINT", 128, signed=False),
    "boolean": _Row("boolean", pl.Boolean(), pl.UInt8(), "BOOLEAN", bounds=(0, 1)),
    "date": _Row("date", pl.Date(), pl.Int32(), "DATE", bounds=(-(2**31), 2**31 - 1)),
    "string": _Row("string", pl.String(), pl.String(), "VARCHAR", reads_polars=(pl.Enum, pl.Categorical),
                   is_categorical=True),
    "codes": _Row("number", pl.Int64(), pl.Int64(), "BIGINT", reads_duckdb=(), bounds=_INT64, is_categorical=True),
    "timestamp[ms]": _time("timestamp", "ms", pl.Datetime("ms"), "TIMESTAMP_MS", "TIMESTAMP_MS", "TIMESTAMP_S"),
    "timestamp[us]": _time("timestamp", "us", pl.Datetime("us"), "TIMESTAMP", "TIMESTAMP"),
    "timestamp[ns]": _time("timestamp", "ns", pl.Datetime("ns"), "TIMESTAMP_NS", "TIMESTAMP_NS"),
    "timestamptz[ms]": _time("timestamptz", "ms", pl.Datetime("ms", "UTC"), "TIMESTAMPTZ"),
    "timestamptz[us]": _time("timestamptz", "us", pl.Datetime("us", "UTC"), "TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE"),
    "timestamptz[ns]": _time("timestamptz", "ns", pl.Datetime("ns", "UTC"), "TIMESTAMPTZ_NS", "TIMESTAMPTZ_NS"),
    "duration[ms]": _time("duration", "ms", pl.Duration("ms"), "INTERVAL"),
    "duration[us]": _time("duration", "us", pl.Duration("us"), "INTERVAL", "INTERVAL"),
    "duration[ns]": _time("duration", "ns", pl.Duration("ns"), "INTERVAL"),
}  # fmt: skip

TYPE_NAMES = tuple(_TYPES)
"""All types but the decimals, of which there is one for each precision and scale."""

DUCKDB_TYPES: Mapping[str, str] = {name: row.duckdb for name, row in _TYPES.items()} | {"decimal": "DECIMAL({p}, {s})"}
"""The names of the types in DuckDB's SQL."""

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_CATEGORY = re.compile(r"category\((.*)\)", re.DOTALL)
# `codes` are read from no column.
_OF_POLARS = {
    dtype: name
    for name, row in _TYPES.items()
    if name != "codes"
    for dtype in (row.polars.base_type(), *row.reads_polars)
}
_OF_DUCKDB = {
    type_name: name
    for name, row in _TYPES.items()
    for type_name in ((row.duckdb,) if row.reads_duckdb is None else row.reads_duckdb)
}


@cache
def _row(name: str) -> _Row:
    """Return the row of a type, or raise `ValueError`."""
    if name in _TYPES:
        return _TYPES[name]
    if (inner := _CATEGORY.fullmatch(name)) and not _row(inner[1]).is_categorical:
        return replace(_row(inner[1]), widened=None, is_categorical=True)
    match = _DECIMAL.fullmatch(name)
    precision, scale = (int(match[1]), int(match[2])) if match else (0, 0)
    if not (1 <= precision <= 38 and scale <= precision):
        raise ValueError(f"{shown(name)} is not a feature type")
    largest = 10**precision - 1
    physical = pl.Int64() if precision <= 18 else pl.Int128()
    return _Row(
        "number", pl.Decimal(precision, scale), physical, f"DECIMAL({precision}, {scale})",
        bounds=(-largest, largest), scale=Fraction(1, 10**scale),
    )  # fmt: skip


# --- a type -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FeatureType:
    """The type of a feature's column, identified by its ``name`` (see the table at the top of this module)."""

    name: str

    def __post_init__(self) -> None:
        _row(self.name)

    @classmethod
    def from_polars(cls, dtype: pl.DataType) -> FeatureType | None:
        """Return the type of a polars column, or None if such a column can't be a feature."""
        if isinstance(dtype, pl.Decimal):
            precision = dtype.precision or _MOST_DIGITS
            return (
                cls(f"decimal({precision},{dtype.scale})") if precision <= _MOST_DIGITS else None
            )  # of other libraries
        if isinstance(dtype, pl.Datetime):
            return cls(f"timestamp{'tz' if dtype.time_zone else ''}[{dtype.time_unit}]")
        if isinstance(dtype, pl.Duration):
            return cls(f"duration[{dtype.time_unit}]")
        name = _OF_POLARS.get(dtype.base_type())
        return None if name is None else cls(name)

    @classmethod
    def from_duckdb(cls, type_name: str) -> FeatureType | None:
        """Return the type of a DuckDB column, or None if such a column can't be a feature."""
        if match := re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", type_name):
            return cls(f"decimal({match[1]},{match[2]})")
        if re.match(r"ENUM\(.*\)$", type_name, re.DOTALL):
            return cls("string")
        name = _OF_DUCKDB.get(type_name)
        return None if name is None else cls(name)

    def to_polars(self) -> pl.DataType:
        """Return the polars type with this type's physical form."""
        return _row(self.name).polars

    @property
    def duckdb_name(self) -> str:
        """The name of the type in DuckDB's SQL."""
        return _row(self.name).duckdb

    @property
    def physical_dtype(self) -> pl.DataType:
        """The polars type of the physical values."""
        return _row(self.name).physical

    @property
    def family(self) -> str:
        """One of ``number boolean date timestamp timestamptz duration string``, whose types are interchangeable."""
        return _row(self.name).family

    @property
    def is_categorical(self) -> bool:
        """Whether splits are by set membership rather than by a threshold."""
        return _row(self.name).is_categorical

    @property
    def values(self) -> FeatureType:
        """The type of the column's values: dates for ``category(date)``, int64 for codes, else the type itself."""
        if self.name == "codes":
            return FeatureType("int64")
        match = _CATEGORY.fullmatch(self.name)
        return FeatureType(match[1]) if match else self

    @property
    def as_category(self) -> FeatureType:
        """The type of a categorical column with values of this type."""
        return self if self.is_categorical else FeatureType(f"category({self.name})")

    @property
    def is_float(self) -> bool:
        """Whether the column may hold NaN, infinities and fractions."""
        return self.name.startswith(("float", "category(float"))

    @property
    def is_integer(self) -> bool:
        """Whether the column holds integers as numbers, not as categories."""
        return self.name.startswith(("int", "uint"))

    @property
    def widened(self) -> FeatureType:
        """The type that holds all values of this one and of narrower ones: float64, int64, or the type itself."""
        return FeatureType(_row(self.name).widened or self.name)

    @property
    def unit(self) -> str | None:
        """The unit of a timestamp or a duration: ``"ms"``, ``"us"`` or ``"ns"``."""
        return _row(self.name).unit

    @property
    def precision_and_scale(self) -> tuple[int, int] | None:
        """(p, s) of a ``decimal(p,s)``."""
        match = _DECIMAL.fullmatch(self.values.name)
        return (int(match[1]), int(match[2])) if match else None

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The smallest and largest physical value that the type holds; None for floats and strings."""
        return _row(self.name).bounds

    @property
    def scale(self) -> Fraction:
        """The factor from physical values to numbers: 10**-s for decimals, seconds per unit for times, else 1."""
        return _row(self.name).scale

    def accepts(self, value: object) -> bool:
        """Whether ``value`` is a physical value of this type."""
        if self.name == "string":
            return isinstance(value, str)
        if self.is_float:
            return isinstance(value, float) and value == value
        bounds = self.bounds
        if not isinstance(value, int) or isinstance(value, bool) or bounds is None:
            return False
        return bounds[0] <= value <= bounds[1]

    def holds(self, value: float) -> bool:
        """Whether a finite float is exact in this float type.

        >>> FeatureType("float32").holds(0.5), FeatureType("float32").holds(0.1), FeatureType("float64").holds(0.1)
        (True, False, True)
        """
        if self.values.name != "float32":
            return True
        try:
            return bool(struct.unpack("f", struct.pack("f", value))[0] == value)
        except OverflowError:
            return False

    def as_fraction(self, value: Physical) -> Fraction:
        """Return a finite physical value times `scale`, exactly; not for strings."""
        return Fraction(value) * self.scale

    def scaled(self, value: Physical) -> float:
        """Return the number of a decimal, and the physical value of other types, as a float."""
        return float(self.as_fraction(value)) if self.precision_and_scale else float(value)

    def shown(self, value: Physical) -> str:
        """Return a physical value as text for people."""
        if self.precision_and_scale:
            return f"{self.decimal(int(value)):f}"
        if self.family == "boolean":
            return "true" if value else "false"
        if self.family in ("date", "timestamp", "timestamptz"):
            seconds = self.as_fraction(value) * (86_400 if self.family == "date" else 1)
            try:
                moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=float(seconds * 10**6))
            except OverflowError:
                return str(value)
            return moment.date().isoformat() if self.family == "date" else moment.isoformat(sep=" ")
        return str(value)

    def holding(self, kind: FeatureType, value: Physical) -> Physical | None:
        """Return the physical value equal to a value of another type, or None; not for strings.

        >>> FeatureType("float32").holding(FeatureType("int8"), 2)
        2.0
        >>> FeatureType("int8").holding(FeatureType("float64"), 0.5) is None
        True
        """
        if self.values == kind.values:
            return value
        if isinstance(value, float) and math.isinf(value):
            return value if self.is_float else None
        number = kind.as_fraction(value)
        nearest = self.at_least(number)
        return nearest if nearest not in (None, math.inf, -math.inf) and self.as_fraction(nearest) == number else None

    def decimal(self, value: int) -> Decimal:
        """Return the number of a decimal's physical value, with all digits."""
        assert self.precision_and_scale is not None
        # Built from digits, as arithmetic on a Decimal rounds to the 28 digits of the default context.
        return Decimal((int(value < 0), tuple(map(int, str(abs(value)))), -self.precision_and_scale[1]))

    def at_least(self, number: Fraction) -> Physical | None:
        """Return ``number`` rounded up to a physical value of this type; None if all values are below it.

        ``x < at_least(number)`` holds for the same values x of this type as ``x < number``, so that thresholds can be
        converted between types without changing decisions. None means that it holds for all x.

        >>> FeatureType("int8").at_least(Fraction(5, 2)), FeatureType("decimal(9,2)").at_least(Fraction(1, 3))
        (3, 34)
        """
        if self.is_float:
            return _float_at_least(number, single=self.values.name == "float32")
        assert self.bounds is not None, "strings have no order here"
        lowest, highest = self.bounds
        value = max(lowest, math.ceil(number / self.scale))
        return value if value <= highest else None

    def edges(self, thresholds: Sequence[Physical]) -> Sequence[Physical]:
        """Return values of this type that divide its values like ``thresholds``, which may lie between them."""
        return float32_at_least(thresholds).tolist() if self.name == "float32" else thresholds

    def __str__(self) -> str:
        return self.name


def float32_at_least(numbers: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Return the smallest float32 that is at least each number: ``x < t`` holds for the same float32 x.

    >>> float32_at_least([0.7, 3.25, 1e300]).tolist()
    [0.7000000476837158, 3.25, inf]
    """
    exact = np.asarray(numbers, np.float64)
    with np.errstate(over="ignore"):
        nearest = exact.astype(np.float32)
        return np.where(nearest < exact, np.nextafter(nearest, np.float32(np.inf)), nearest)


def _float_at_least(number: Fraction, *, single: bool) -> float:
    """Return the smallest float32 (if ``single``) or float64 that is at least ``number``."""
    kind = np.float32 if single else np.float64
    try:
        nearest = float(number)
    except OverflowError:
        nearest = math.inf if number > 0 else -math.inf
    with np.errstate(over="ignore"):
        value = kind(nearest)
    if np.isinf(value):
        largest = float(np.finfo(kind).max)
        return -largest if value < 0 else (largest if number <= Fraction(largest) else math.inf)
    if Fraction(float(value)) < number:
        value = np.nextafter(value, kind(np.inf))
    return float(value)


# --- features ---------------------------------------------------------------------------------------------------------

# Numbers of this magnitude or less count as zero: LightGBM's kZeroThreshold, a float32.
ZERO = 1.0000000180025095e-35


@dataclass(frozen=True, slots=True)
class Feature:
    """A column that a model reads.

    Attributes
    ----------
    name
        The column's name in the frame or table.
    type
        The column's type in training.
    categories
        The distinct physical values in training, sorted; a category's *code* is its index here. Empty for types that
        are not categorical.
    zero_is_missing
        Whether numbers within `ZERO` of zero are missing values too (LightGBM's ``zero_as_missing``).
    """

    name: str
    type: FeatureType
    categories: tuple[Physical, ...] = ()
    zero_is_missing: bool = False


# --- columns of polars frames: by name, and as physical values --------------------------------------------------------


def column(name: str) -> pl.Expr:
    """Return the column of that name; ``pl.col`` would interpret ``*`` and ``^...$`` as patterns.

    >>> pl.DataFrame({"*": [1], "x": [2]}).select(column("*")).columns
    ['*']
    """
    is_pattern = name == "*" or (name.startswith("^") and name.endswith("$"))
    return cs.by_name(name).as_expr() if is_pattern else pl.col(name)


def free_name(name: str, names: Iterable[str]) -> str:
    """Return the name, with underscores appended until it is unused, ignoring case.

    >>> free_name("Day", ["DAY", "day_"])
    'Day__'
    """
    taken = {other.lower() for other in names}
    while name.lower() in taken:
        name += "_"
    return name


def physical_expr(name: str, kind: FeatureType) -> pl.Expr:
    """Return the column's physical values; NaN becomes NULL, as both are missing values."""
    values = column(name)
    if kind.is_float:
        return values.cast(kind.physical_dtype).fill_nan(None)
    if kind.precision_and_scale or kind.unit or kind.family == "date":
        values = values.to_physical()
    return values.cast(kind.physical_dtype)


def typed_column(name: str, kind: FeatureType, values: Sequence[Physical | None]) -> pl.Series:
    """Return physical values as a column of the type."""
    if kind.precision_and_scale:
        numbers = [None if value is None else kind.decimal(int(value)) for value in values]
        return pl.Series(name, numbers, dtype=kind.to_polars())
    return pl.Series(name, values, dtype=kind.physical_dtype).cast(kind.to_polars())


def category_column(feature: Feature, codes: Sequence[int] | None = None) -> pl.Series:
    """Return categories, by default all, as a column of the feature's type."""
    values = feature.categories if codes is None else [feature.categories[code] for code in codes]
    return typed_column(feature.name, feature.type, values)


def category_expr(feature: Feature) -> pl.Expr:
    """Return a column cast to the type of its categories, null if the type does not hold a value; not for codes."""
    values, kind = column(feature.name), feature.type
    if kind.name == "string":
        return values.cast(pl.String)  # Enum and Categorical refuse to be compared with values that they don't have
    if kind.family == "timestamptz":
        values = in_utc(values, kind)
    same = values.cast(kind.to_polars(), strict=False)
    return same if kind.family == "boolean" else pl.when(same == values).then(same)


def in_utc(values: pl.Expr, kind: FeatureType) -> pl.Expr:
    """Return a column of timestamps of any time zone in UTC; untyped NULL is accepted, numbers are not.

    ``dt.convert_time_zone`` refuses untyped NULL, and a cast alone takes numbers.
    """
    nothing = pl.coalesce(values - values, pl.lit(None, pl.Duration(kind.unit)))  # type: ignore[arg-type]
    return values.cast(kind.to_polars()) + nothing.dt.cast_time_unit(kind.unit)  # type: ignore[arg-type]


def known_expr(feature: Feature) -> pl.Expr:
    """Return a categorical column with unknown categories as null."""
    values = category_expr(feature)
    return pl.when(values.is_in(category_column(feature).implode())).then(values)


def text_expr(values: pl.Expr, kind: FeatureType) -> pl.Expr:
    """Return a categorical column as readable text; NaN is null."""
    if kind.family == "duration":
        return values.dt.to_string("polars")
    if kind.family == "number":
        # A column with missing integers is often one of floats.
        values = values.cast(pl.Float64).fill_nan(None) if kind.is_float or kind.name == "codes" else values
        values = values.cast(kind.to_polars(), strict=False)
    return values.cast(pl.String)


def physical_values(values: pl.Series, kind: FeatureType) -> pl.Series:
    """Return the physical values of a column, without a copy if possible (see `physical_expr`)."""
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
    """Return the names of the columns with at least one value other than NULL and NaN."""
    missing = frame.select(cs.float().fill_nan(None).null_count(), (~cs.float()).null_count()).row(0, named=True)
    return [name for name in frame.columns if missing[name] < frame.height]


def not_zero(values: pl.Expr) -> pl.Expr:
    """Whether a number is further than `ZERO` from zero (see `Feature.zero_is_missing`)."""
    return (values > ZERO) | (values < -ZERO)  # abs() would overflow on the smallest integer of a type


def contiguous_array(values: pl.Series) -> npt.NDArray[np.float64] | None:
    """Return float64 values as a contiguous array without a copy; None for other types or NULL."""
    if values.dtype != pl.Float64 or values.null_count():
        return None
    array = values.to_numpy()
    return array if array.flags.c_contiguous else None
