"""A feature: a column that a model reads, by its name, its type and, if it is categorical, its categories."""

from __future__ import annotations

from dataclasses import dataclass

from frameboost.schema.types import FeatureType, Physical

__all__ = ["ZERO", "Feature"]

# Numbers of this magnitude or less count as zero: LightGBM's kZeroThreshold, a float32.
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
        The distinct physical values of training, sorted; a category's *code* is its index in this tuple. Empty for
        types that are not categorical.
    zero_is_missing
        Whether numbers within `ZERO` of zero are missing values too (LightGBM's ``zero_as_missing``).
    """

    name: str
    type: FeatureType
    categories: tuple[Physical, ...] = ()
    zero_is_missing: bool = False
