"""Column types in a dialect: which SQL type holds each feature type, and how a value is cast to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from frameboost.schema.types import FeatureType

__all__ = ["SIGNED_INTEGERS", "ColumnTypes", "wide"]

# Of a database without unsigned integers: the next larger type holds them.
SIGNED_INTEGERS = {
    "int8": "SMALLINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT", "uint8": "SMALLINT",
    "uint16": "INTEGER", "uint32": "BIGINT", "codes": "BIGINT",
}  # fmt: skip


def wide(type_name: str) -> dict[str, str]:
    """Return the type for each of the integers that do not fit into 64 bits with a sign."""
    return dict.fromkeys(("uint64", "int128", "uint128"), type_name)


@dataclass(frozen=True)
class ColumnTypes:
    """The column types of a database.

    Attributes
    ----------
    columns
        The SQL type by the name of a feature type, or by its family; a feature type that is not listed has none.
        ``decimal`` has places for ``{p}`` (precision) and ``{s}`` (scale). Without ``duration``, durations are 64-bit
        integers in the units of the feature's type.
    casts
        Types that have another name in CAST.
    exact_string
        A type for strings of up to ``{n}`` bytes that compares, and is indexed, as what `Expressions.text` makes of a
        column; None where that is to be done with a column of strings as well.
    compared
        The type of a column of thresholds, by family, where it is another one than that of the features.
    nullable
        A column type ``{t}`` that takes NULL.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    casts: Mapping[str, str] = field(default_factory=dict)
    exact_string: str | None = None
    compared: Mapping[str, str] = field(default_factory=dict)
    nullable: str = "{t}"

    def type_of(self, kind: FeatureType) -> str | None:
        """Return the type of a column that holds a feature, or None if the database has none."""
        kind = kind.values
        if kind.precision_and_scale:
            template = self.columns.get("decimal")
            return template and template.format(p=kind.precision_and_scale[0], s=kind.precision_and_scale[1])
        known = self.columns.get(kind.name) or self.columns.get(kind.family)
        return self.columns.get("int64") if known is None and kind.family == "duration" else known

    def cast(self, value: str, type_name: str) -> str:
        """Return a value cast to a feature type."""
        return f"CAST({value} AS {self.casts.get(type_name) or self.columns[type_name]})"
