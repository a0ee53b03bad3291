"""The columns that a model reads, found by name in the data to score, and checked against those of training."""

from __future__ import annotations

from collections.abc import Sequence

from frameboost.checks.messages import listed, shown
from frameboost.data.several_files import text_among_numbers
from frameboost.data.sources import FrameSource, Source, check_numeric
from frameboost.errors import DataError
from frameboost.schema.types import Feature, FeatureType

__all__ = ["example_of_text", "find_features", "find_numbers"]


def find_features(source: Source, features: Sequence[Feature]) -> dict[str, FeatureType]:
    """Return the types in the data of a model's features.

    Raises
    ------
    DataError
        If a feature is not in the data, or has a type of another family than in training.
    """
    given = source.types()
    missing = [feature.name for feature in features if feature.name not in given]
    if missing:
        raise DataError(
            f"the data lacks {len(missing):,} feature{'s' if len(missing) > 1 else ''} of the model: "
            f"{listed(missing)}; it has {listed(given)}"
        )
    types = {}
    for feature in features:
        kind = given[feature.name]
        if kind is None or (kind.family != feature.type.family and not _are_codes_of_booleans(feature, kind)):
            raise DataError(
                f"feature {shown(feature.name)} has type {source.type_names()[feature.name]}"
                f"{example_of_text(source, feature)}, but the model was trained on {feature.type}; give it as a "
                f"{feature.type.family}"
            )
        types[feature.name] = kind
    return types


def _are_codes_of_booleans(feature: Feature, kind: FeatureType) -> bool:
    """Whether Booleans are the codes 0 and 1 that a library has made of them."""
    return kind.family == "boolean" and feature.type.name == "codes" and set(feature.categories) <= {0, 1}


def example_of_text(source: Source, feature: Feature) -> str:
    """Return what messages say of a numeric feature that is a column of strings in a frame: one that is no number."""
    if not isinstance(source, FrameSource) or feature.type.family != "number":
        return ""
    return text_among_numbers(source.frame, feature.name)


def find_numbers(source: Source, names: Sequence[str], role: str) -> None:
    """Check the columns of a role that a model reads beside its features, such as its ``exposure``.

    Raises
    ------
    DataError
        If a column is not in the data, or is not numeric.
    """
    known = source.names()
    for name in names:
        if name not in known:
            raise DataError(
                f"{role} column {shown(name)} is not in the data, and the model adds it to its margins; the data has "
                f"{listed(known)}"
            )
        check_numeric(source, name, f"{role} column")
