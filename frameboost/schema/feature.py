"""Features: the columns that a model reads, by name, type and, for strings, the categories seen in training."""

from __future__ import annotations

from dataclasses import dataclass

from frameboost.schema.types import FeatureType

__all__ = ["ZERO", "Feature"]

# LightGBM's kZeroThreshold, a float32.
ZERO = 1.0000000180025095e-35


@dataclass(frozen=True, slots=True)
class Feature:
    """A column that a model reads.

    Attributes
    ----------
    name
        The column's name, as it stands in the frame or table.
    type
        The column's type in training.
    categories
        For strings, the distinct values seen in training, sorted by code point; a category's *code* is its
        place in this tuple. For codes of other libraries, the distinct numbers, sorted. Empty for every other type.
    zero_is_missing
        Whether numbers within `ZERO` of zero count as missing too (LightGBM's ``zero_as_missing``).
    """

    name: str
    type: FeatureType
    categories: tuple[str | int, ...] = ()
    zero_is_missing: bool = False
