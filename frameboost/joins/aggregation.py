"""What is aggregated of a table with many rows a key: the description that fits, models and queries share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from frameboost.schema.types import FeatureType

__all__ = ["COUNT", "FUNCTIONS", "Aggregation", "Value"]

COUNT = "count"
FUNCTIONS = (COUNT, "sum", "mean", "min", "max", "last")


@dataclass(frozen=True, slots=True)
class Value:
    """A function of `FUNCTIONS`, and the column that it is applied to, which is empty for the number of rows."""

    function: str
    column: str


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Aggregates of the rows of each key.

    NULLs and NaN in a column are left out of its aggregates, but for ``last``, which is that of the latest row; an
    aggregate of no value is NULL. Rows with a NULL in the key belong to no key.

    Attributes
    ----------
    by
        The columns of the key.
    values
        What is aggregated, by the name of the result.
    time
        The column of times by which a row is the last; rows without a time are then left out. None where no rows are
        told apart by time. Of several rows at the latest time, ``last`` is the largest value.
    is_before
        Whether only the rows before the time of each fact count. The key then ends in that time.
    types
        The types of the columns that are aggregated, by name; files of older versions have none. Databases differ in
        where they sort NaN and text, so both are aggregated in a form that tells.
    """

    by: tuple[str, ...]
    values: Mapping[str, Value]
    time: str | None = None
    is_before: bool = False
    types: Mapping[str, FeatureType] = field(default_factory=dict)

    @property
    def floats(self) -> list[str]:
        """The columns that may have NaN."""
        return [name for name, kind in self.types.items() if kind.is_float]

    @property
    def columns(self) -> list[str]:
        """The columns that are aggregated, each once."""
        return list(dict.fromkeys(value.column for value in self.values.values() if value.column))

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the result's key: the time stands for that of the fact."""
        return (*self.by, self.time) if self.is_before and self.time is not None else self.by
