"""The columns that a model reads: selected in training data, and looked up by name in data to score.

They are selected by names, polars selectors and functions of a name (``fit(features=..., exclude=...)``). Columns of
data to score are checked against those of training.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence, Set
from typing import Any

import polars as pl
import polars.selectors as cs

from frameboost.checks.arguments import is_iterable
from frameboost.checks.messages import did_you_mean, listed, reason, shortened, shown
from frameboost.data.sources import FrameSource, RelationSource, Source, check_numeric, read_relation
from frameboost.data.text_files import text_among_numbers
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.schema.types import Feature, FeatureType

__all__ = ["categorical_names", "chosen_names", "example_of_text", "find_features", "find_numbers", "weights_by_name"]


_NOT_FOUND = re.compile(r'"(.+)" not found', re.DOTALL)


def chosen_names(source: Source, features: Any, exclude: Any, other_roles: Collection[str]) -> list[str]:
    """Return the features, by default all columns except ``other_roles``, such as the target.

    Selectors and functions never select a column of another role; a name in a list is kept, so that the caller can
    raise an error.

    Raises
    ------
    ParameterError
        If the type of an argument is not supported.
    DataError
        If a named column is not in the data, or no feature is left.
    """
    if features is None:
        chosen = [name for name in source.names() if name not in other_roles]
        if not chosen:
            raise DataError(f"no usable feature: the data has no column but {listed(source.names())}")
    else:
        if isinstance(features, str):
            raise ParameterError(f"features must be a list of column names, not the string {shown(features)}")
        chosen = _chosen(source, "features", features, other_roles)
        if not chosen:
            if not callable(features) and not isinstance(features, pl.Expr):
                raise ParameterError("features is an empty list; name at least one column")
            raise ParameterError(f"features={_text(features)} selects no column of {listed(source.names())}")
    if exclude is None:
        return chosen
    without = set(_chosen(source, "exclude", [exclude] if isinstance(exclude, str) else exclude, ()))
    remaining = [name for name in chosen if name not in without]
    if not remaining:
        raise ParameterError(f"exclude={_text(exclude)} leaves no feature of {listed(chosen)}")
    return remaining


def categorical_names(
    choice: Sequence[str | int | bool] | None, features: Sequence[str]
) -> list[str]:  # fmt: skip
    """Return the features selected by ``categorical_features``: by name, by position, or by a Boolean for each.

    >>> [categorical_names(choice, ["a", "b", "c"]) for choice in (None, ["b"], [0, -1], [False, True, True])]
    [[], ['b'], ['a', 'c'], ['b', 'c']]

    Raises
    ------
    ParameterError
        If it selects something that is no feature, or the number of Booleans differs from that of features.
    """
    chosen: list[str] = []
    if choice and isinstance(choice[0], bool) and len(choice) != len(features):
        raise ParameterError(
            f"categorical_features has {len(choice):,} Booleans, for {len(features):,} features; pass one for each"
        )
    for number, item in enumerate(choice or ()):
        if isinstance(item, bool):
            chosen += [features[number]] * item
        elif isinstance(item, int):
            if not -len(features) <= item < len(features):
                raise ParameterError(
                    f"categorical_features has the position {item}, but there are {len(features):,} features, from 0 on"
                )
            chosen.append(features[item])
        elif item not in features:
            raise ParameterError(
                f"categorical_features names {shown(item)}, which is not a feature"
                f"{did_you_mean(item, features) or f'; the features are {listed(features)}'}"
            )
        else:
            chosen.append(item)
    return chosen


def weights_by_name(
    weights: Mapping[str, float] | Sequence[float] | None, features: Sequence[str]
) -> dict[str, float] | None:  # fmt: skip
    """Return ``feature_weights`` by feature name.

    >>> weights_by_name([1.0, 0.0], ["a", "b"]), weights_by_name({"b": 2.0}, ["a", "b"])
    ({'a': 1.0, 'b': 0.0}, {'b': 2.0})

    Raises
    ------
    ParameterError
        If the number of weights differs from that of features, or a name is no feature.
    """
    if weights is None or isinstance(weights, Mapping):
        for name in weights or ():
            if name not in features:
                raise ParameterError(
                    f"feature_weights names {shown(name)}, which is not a feature{did_you_mean(name, features)}"
                )
        return None if weights is None else dict(weights)
    if len(weights) != len(features):
        raise ParameterError(
            f"feature_weights has {len(weights):,} numbers, for {len(features):,} features; pass one for each"
        )
    return dict(zip(features, weights, strict=True))


def _chosen(source: Source, argument: str, choice: Any, other_roles: Collection[str]) -> list[str]:
    """Return the columns selected by a selector, a function, or a list of names and selectors, in order."""
    if isinstance(choice, pl.Expr):
        return [name for name in _selected(source, argument, choice) if name not in other_roles]
    if callable(choice) and not isinstance(choice, type):
        return [name for name in source.names() if name not in other_roles and choice(name)]
    if isinstance(choice, Set) or not is_iterable(choice):
        # The order of a set depends on the process, and ties between features go to the first.
        raise ParameterError(
            f"{argument} must be a list of column names, a polars selector or a function of a name, not {shown(choice)}"
        )
    names = source.names()
    known = set(names)
    chosen: list[str] = []
    for item in choice:
        if isinstance(item, pl.Expr):
            chosen += [name for name in _chosen(source, argument, item, other_roles) if name not in chosen]
        elif not isinstance(item, str):
            raise ParameterError(f"{argument} must name columns, not {shown(item)}")
        elif item not in known:
            raise _unknown(argument, item, names)
        else:
            chosen.append(item)
    return chosen


def _selected(source: Source, argument: str, choice: pl.Expr) -> Sequence[str]:
    """Return the columns selected by a selector, or by an expression such as ``pl.col("x", "y")``."""
    if not choice.meta.is_column_selection():
        raise ParameterError(
            f"{argument} takes columns of the data; {_text(choice)} computes one: add it to the data with "
            "with_columns first"
        )
    try:
        return cs.expand_selector(_schema(source).to_frame(), choice, strict=False)
    except pl.exceptions.PolarsError as error:
        missing = _NOT_FOUND.search(str(error))
        if missing is None:
            raise ParameterError(f"{argument}={_text(choice)} can't be applied ({reason(error)})") from error
        raise _unknown(argument, missing[1], source.names()) from error


def _text(choice: object) -> str:
    return shortened(str(choice)) if isinstance(choice, pl.Expr) else shown(choice)


def _unknown(argument: str, name: str, names: Sequence[str]) -> DataError:
    what = "feature column" if argument == "features" else f"{argument} column"
    return DataError(
        f"{what} {shown(name)} is not in the data{did_you_mean(name, names) or f', which has {listed(names)}'}"
    )


def _schema(source: Source) -> pl.Schema:
    """Return the columns' polars types."""
    if isinstance(source, FrameSource):
        return source.frame.collect_schema()
    types = {name: None if kind is None else kind.to_polars() for name, kind in source.types().items()}
    if isinstance(source, RelationSource):
        for name, type_name in source.type_names().items():
            if types[name] is None or type_name.startswith("ENUM"):
                types[name] = _type_in_polars(source, name)
    return pl.Schema({name: pl.Object() if dtype is None else dtype for name, dtype in types.items()})


def _type_in_polars(source: RelationSource, name: str) -> pl.DataType | None:
    """Return the polars type of a relation's column, None if polars lacks it."""
    try:
        return read_relation(source.relation.project(quote_identifier(name)).limit(0)).dtypes[0]
    except (pl.exceptions.PolarsError, ValueError, NotImplementedError):
        return None


def find_features(source: Source, features: Sequence[Feature], argument: str = "the data") -> dict[str, FeatureType]:
    """Return the types in the data of a model's features; ``argument`` is the name of the data in messages.

    Raises
    ------
    DataError
        If a feature is not in the data, or its type belongs to another family than in training.
    """
    data_types = source.types()
    missing = [feature.name for feature in features if feature.name not in data_types]
    if missing:
        raise DataError(
            f"{argument} lacks {len(missing):,} feature{'s' if len(missing) > 1 else ''} of the model: "
            f"{listed(missing)}; it has {listed(data_types)}"
        )
    types = {}
    for feature in features:
        kind = data_types[feature.name]
        if kind is None or (kind.family != feature.type.family and not _are_numbers_as_booleans(feature, kind)):
            raise DataError(
                f"feature {shown(feature.name)} has type {source.type_names()[feature.name]}"
                f"{example_of_text(source, feature)}, but the model was trained on {feature.type}; cast it to a "
                f"{feature.type.family}"
            )
        types[feature.name] = kind
    return types


def _are_numbers_as_booleans(feature: Feature, kind: FeatureType) -> bool:
    """Whether Booleans stand for the numbers 0 and 1, or for the codes that a library has made of them."""
    are_codes = feature.type.name == "codes" and set(feature.categories) <= {0, 1}
    return kind.family == "boolean" and (feature.type.family == "number" or are_codes)


def example_of_text(source: Source, feature: Feature) -> str:
    """Return the part of a message that shows a non-numeric string in a column for a numeric feature."""
    if not isinstance(source, FrameSource) or feature.type.family != "number":
        return ""
    return text_among_numbers(source.frame, feature.name)


def find_numbers(source: Source, names: Sequence[str], role: str) -> None:
    """Check columns of a role that a model reads beside its features, such as ``exposure``.

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
