"""A number that is looked up by a column of the row: what an output may read besides the margins."""

from __future__ import annotations

from dataclasses import dataclass

from frameboost.schema.feature import Feature
from frameboost.schema.types import FeatureType

__all__ = ["LOOKUP_TYPES", "Lookup"]

# What a column may be by which a number is looked up: its values are names, not amounts.
LOOKUP_TYPES = ("string", "codes", "boolean")


@dataclass(frozen=True)
class Lookup:
    """A number by the value of a column.

    Attributes
    ----------
    name
        What expressions call the number.
    column
        The column's name.
    type
        Its type: ``string``, ``codes`` (integers) or ``boolean``.
    values
        The values that have a number of their own, in ascending order; of a Boolean column 0 and 1.
    numbers
        Their numbers.
    otherwise
        The number where the column has another value or none.
    """

    name: str
    column: str
    type: FeatureType
    values: tuple[str | int, ...]
    numbers: tuple[float, ...]
    otherwise: float

    @property
    def feature(self) -> Feature:
        """The column as a feature."""
        return Feature(self.column, self.type, self.values if self.type.is_categorical else ())

    def by_number(self) -> dict[float, list[str | int]]:
        """Return the values of each number that is not that of the others."""
        found: dict[float, list[str | int]] = {}
        for value, number in zip(self.values, self.numbers, strict=True):
            if number != self.otherwise:
                found.setdefault(number, []).append(value)
        return found
