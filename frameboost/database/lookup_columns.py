"""The columns of a table that are read beside those of the features: of the offset, and to look a number up by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frameboost.compile.sql.conditions import FeatureColumn, find_columns
from frameboost.dialects.dialect import Dialect
from frameboost.ensemble.ensemble import Ensemble
from frameboost.losses.outputs import Lookup, Output

__all__ = ["lookup_column", "names_of_features", "offset_columns", "read_columns"]


def names_of_features(ensemble: Ensemble, names: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Return the names of columns by feature, without those of columns that are no features and are read besides."""
    lookup = None if ensemble.interval is None else ensemble.interval.groups
    besides = {*([] if lookup is None else [lookup.column]), *ensemble.read_names} - {*ensemble.feature_names}
    if not isinstance(names, Mapping) or not besides:
        return names
    return {feature: name for feature, name in names.items() if feature not in besides}


def offset_columns(
    ensemble: Ensemble, names: Mapping[str, str], dialect: Dialect
) -> dict[str, FeatureColumn]:  # fmt: skip
    """Return the columns of the offset by their names in training.

    Raises
    ------
    ParameterError
        If the database can't have such a column, or can't tell it from a feature's.
    """
    own = {} if ensemble.offset is None else {feature.name: feature for feature in ensemble.offset.features}
    others = [feature for feature in ensemble.features if feature.name not in own]
    known = {name: names[name] for name in [*(other.name for other in others), *own] if name in names}
    found = find_columns([*others, *own.values()], dialect, known)
    return dict(zip(own, found[len(others) :], strict=True))


def lookup_column(
    ensemble: Ensemble, lookup: Lookup, names: Mapping[str, str], dialect: Dialect
) -> FeatureColumn:  # fmt: skip
    """Return the column that a number is looked up by, which may be a feature's too.

    Raises
    ------
    ParameterError
        If the database can't have such a column, or can't tell it from a feature's.
    """
    others = [feature for feature in ensemble.features if feature.name != lookup.column]
    known = {name: names[name] for name in [*(other.name for other in others), lookup.column] if name in names}
    return find_columns([*others, lookup.feature], dialect, known)[-1]


def read_columns(
    ensemble: Ensemble, columns: Sequence[FeatureColumn], names: Mapping[str, str], dialect: Dialect, output: Output
) -> list[FeatureColumn]:  # fmt: skip
    """Return the columns that an output reads: of all features, of the offset, and the one to look a number up by."""
    read = {column.feature.name: column for column in columns}
    read = {**offset_columns(ensemble, names, dialect), **read}
    if output.lookup is not None and output.lookup.column not in read:
        read[output.lookup.column] = lookup_column(ensemble, output.lookup, names, dialect)
    in_order = dict.fromkeys([*ensemble.read_names, *read])
    return [read[name] for name in in_order]
