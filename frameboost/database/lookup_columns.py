"""The column of a table by which an output looks a number up, beside the columns of the features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frameboost.compile.sql.conditions import FeatureColumn, find_columns
from frameboost.dialects.dialect import Dialect
from frameboost.ensemble.ensemble import Ensemble
from frameboost.losses.lookups import Lookup
from frameboost.losses.outputs import Output

__all__ = ["lookup_column", "names_of_features", "read_columns"]


def names_of_features(ensemble: Ensemble, names: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Return the names of columns by feature, without that of a column that is no feature and that one output reads."""
    lookup = None if ensemble.interval is None else ensemble.interval.groups
    if not isinstance(names, Mapping) or lookup is None or lookup.column in ensemble.feature_names:
        return names
    return {feature: name for feature, name in names.items() if feature != lookup.column}


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
    return find_columns([*others, lookup.feature], dialect, names)[-1]


def read_columns(
    ensemble: Ensemble, columns: Sequence[FeatureColumn], names: Mapping[str, str], dialect: Dialect, output: Output
) -> list[FeatureColumn]:  # fmt: skip
    """Return the columns that an output reads: those of all features, and the one to look a number up by."""
    if output.lookup is None or output.lookup.column in ensemble.feature_names:
        return list(columns)
    return [*columns, lookup_column(ensemble, output.lookup, names, dialect)]
