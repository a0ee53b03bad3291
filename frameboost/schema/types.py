"""Column types: what a feature is made of, one name for the same thing in polars, DuckDB and a model file.

A value of a feature is handled in its *physical* form, one of three Python types:

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
=============================================  ==========================================================

Order and equality of physical values are those of the column, so everything above the engines works on them.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

import numpy as np
import polars as pl

from frameboost.checks.messages import shown

__all__ = ["TYPE_NAMES", "FeatureType", "Physical"]

Physical = float | int | str

_POLARS_TO_NAME: dict[Any, str] = {
    pl.Float32: "float32",
    pl.Float64: "float64",
    pl.Int8: "int8",
    pl.Int16: "int16",
    pl.Int32: "int32",
    pl.Int64: "int64",
    pl.Int128: "int128",
    pl.UInt8: "uint8",
    pl.UInt16: "uint16",
    pl.UInt32: "uint32",
    pl.UInt64: "uint64",
    pl.Boolean: "boolean",
    pl.Date: "date",
    pl.String: "string",
    pl.Enum: "string",
    pl.Categorical: "string",
}
# Newer polars has these; every value of a Float16 is a Float32, so there is nothing to tell apart.
for _name, _as in (("Float16", "float32"), ("UInt128", "uint128")):
    if hasattr(pl, _name):
        _POLARS_TO_NAME[getattr(pl, _name)] = _as

_DUCKDB_TO_NAME = {
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "TINYINT": "int8",
    "SMALLINT": "int16",
    "INTEGER": "int32",
    "BIGINT": "int64",
    "HUGEINT": "int128",
    "UTINYINT": "uint8",
    "USMALLINT": "uint16",
    "UINTEGER": "uint32",
    "UBIGINT": "uint64",
    "UHUGEINT": "uint128",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIMESTAMP": "timestamp[us]",
    "TIMESTAMP_S": "timestamp[ms]",
    "TIMESTAMP_MS": "timestamp[ms]",
    "TIMESTAMP_NS": "timestamp[ns]",
    "TIMESTAMP WITH TIME ZONE": "timestamptz[us]",
    "TIMESTAMPTZ_NS": "timestamptz[ns]",
    "INTERVAL": "duration[us]",
    "VARCHAR": "string",
}

_UNITS_PER_SECOND = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
# All types but the decimals, of which there is one for each precision and scale.
TYPE_NAMES = (
    "float32", "float64", "int8", "int16", "int32", "int64", "int128", "uint8", "uint16", "uint32", "uint64", "uint128",
    "boolean", "date", "string", "codes",
    *(f"{family}[{unit}]" for family in ("timestamp", "timestamptz", "duration") for unit in _UNITS_PER_SECOND),
)  # fmt: skip
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


@dataclass(frozen=True, slots=True)
class FeatureType:
    """The type of a feature's column, known by its ``name`` (see the table at the top of this module)."""

    name: str

    def __post_init__(self) -> None:
        if self.name in TYPE_NAMES:
            return
        match = _DECIMAL.fullmatch(self.name)
        if match is None or not (1 <= int(match[1]) <= 38 and int(match[2]) <= int(match[1])):
            raise ValueError(f"{shown(self.name)} is not a feature type")

    @classmethod
    def from_polars(cls, dtype: pl.DataType) -> FeatureType | None:
        """Return the type of a polars column, or None where such a column can't be a feature."""
        if isinstance(dtype, pl.Decimal):
            return cls(f"decimal({dtype.precision or 38},{dtype.scale})")
        if isinstance(dtype, pl.Datetime):
            return cls(f"timestamp{'tz' if dtype.time_zone else ''}[{dtype.time_unit}]")
        if isinstance(dtype, pl.Duration):
            return cls(f"duration[{dtype.time_unit}]")
        name = _POLARS_TO_NAME.get(dtype.base_type())
        return None if name is None else cls(name)

    @classmethod
    def from_duckdb(cls, type_name: str) -> FeatureType | None:
        """Return the type of a DuckDB column, or None where such a column can't be a feature."""
        if match := re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", type_name):
            return cls(f"decimal({match[1]},{match[2]})")
        if re.match(r"ENUM\(.*\)$", type_name, re.DOTALL):
            return cls("string")
        name = _DUCKDB_TO_NAME.get(type_name)
        return None if name is None else cls(name)

    def to_polars(self) -> pl.DataType:
        """Return the polars type whose values have this type's physical form."""
        if self.precision_and_scale:
            return pl.Decimal(*self.precision_and_scale)
        if self.unit:
            if self.family == "duration":
                return pl.Duration(self.unit)  # type: ignore[arg-type]
            return pl.Datetime(self.unit, "UTC" if self.family == "timestamptz" else None)  # type: ignore[arg-type]
        if self.name == "codes":
            return pl.Int64()
        named = next(dtype for dtype, name in _POLARS_TO_NAME.items() if name == self.name)
        return cast("pl.DataType", named())

    @property
    def family(self) -> str:
        """What may stand in for what when scoring: ``number boolean date timestamp timestamptz duration string``."""
        base = re.split(r"[\[(\d]", self.name)[0]
        return "number" if base in ("float", "int", "uint", "decimal", "codes") else base

    @property
    def is_categorical(self) -> bool:
        """Whether splits are by set membership rather than by a threshold."""
        return self.name in ("string", "codes")

    @property
    def is_float(self) -> bool:
        """Whether the column may hold NaN, infinities and fractions."""
        return self.name.startswith("float")

    @property
    def widened(self) -> FeatureType:
        """The type that holds all values of this one and of narrower ones: float64, int64, or the type itself."""
        if self.is_float:
            return FeatureType("float64")
        is_narrow = self.name in ("int8", "int16", "int32", "uint8", "uint16", "uint32")
        return FeatureType("int64") if is_narrow else self

    @property
    def unit(self) -> str | None:
        """The unit of a timestamp or a duration: ``"ms"``, ``"us"`` or ``"ns"``."""
        match = re.search(r"\[(..)\]", self.name)
        return match[1] if match else None

    @property
    def precision_and_scale(self) -> tuple[int, int] | None:
        """(p, s) of a ``decimal(p,s)``."""
        match = _DECIMAL.fullmatch(self.name)
        return (int(match[1]), int(match[2])) if match else None

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The smallest and largest physical value that the type holds; None for floats and strings."""
        if match := re.fullmatch(r"(u?)int(\d+)", self.name):
            bits = int(match[2])
            return (0, 2**bits - 1) if match[1] else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        if self.precision_and_scale:
            largest = 10 ** self.precision_and_scale[0] - 1
            return -largest, largest
        if self.name == "boolean":
            return 0, 1
        if self.name == "date":
            return -(2**31), 2**31 - 1
        return (-(2**63), 2**63 - 1) if self.unit or self.name == "codes" else None

    @property
    def scale(self) -> Fraction:
        """What one physical unit is worth: 10**-s for a decimal, a second's fraction for a time, otherwise 1."""
        if self.precision_and_scale:
            return Fraction(1, 10 ** self.precision_and_scale[1])
        return Fraction(1, _UNITS_PER_SECOND[self.unit]) if self.unit else Fraction(1)

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

    def worth(self, value: Physical) -> Fraction:
        """Return the exact number that a finite physical value stands for (not for strings)."""
        return Fraction(value) * self.scale

    def scaled(self, value: Physical) -> float:
        """Return the number that a decimal stands for; of every other type the physical value, as a float."""
        return float(self.worth(value)) if self.precision_and_scale else float(value)

    def shown(self, value: Physical) -> str:
        """Return a physical value as people write it."""
        if self.precision_and_scale:
            return f"{self.decimal(int(value)):f}"
        if self.family == "boolean":
            return "true" if value else "false"
        if self.family in ("date", "timestamp", "timestamptz"):
            seconds = self.worth(value) * (86_400 if self.family == "date" else 1)
            try:
                moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=float(seconds * 10**6))
            except OverflowError:
                return str(value)
            return moment.date().isoformat() if self.name == "date" else moment.isoformat(sep=" ")
        return str(value)

    def decimal(self, value: int) -> Decimal:
        """Return the number that a physical value of a decimal type stands for, all of its digits."""
        assert self.precision_and_scale is not None
        # Arithmetic on a Decimal would round to the 28 digits of the default context.
        return Decimal((int(value < 0), tuple(map(int, str(abs(value)))), -self.precision_and_scale[1]))

    def at_least(self, number: Fraction) -> Physical | None:
        """Return the smallest physical value of this type worth at least ``number``; None if there is none.

        ``x < number`` holds for exactly the same values x of this type as ``x < at_least(number)``, so this carries a
        threshold from one type to another without changing any decision. None means that it holds for all x.

        >>> FeatureType("int8").at_least(Fraction(5, 2)), FeatureType("decimal(9,2)").at_least(Fraction(1, 3))
        (3, 34)
        """
        if self.is_float:
            return _float_at_least(number, single=self.name == "float32")
        assert self.bounds is not None, "strings have no order here"
        lowest, highest = self.bounds
        value = max(lowest, math.ceil(number / self.scale))
        return value if value <= highest else None

    def __str__(self) -> str:
        return self.name


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
