"""Rows to validate on, ``fit(valid=...)``: part of the data, or other data with the same columns."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from frameboost.checks.arguments import is_text
from frameboost.checks.messages import did_you_mean, shown
from frameboost.data.feature_columns import example_of_text
from frameboost.data.last_rows import LastRows
from frameboost.data.partitions import PartitionedSource, open_training_data
from frameboost.data.shares import split_by_draw, split_by_query_draw
from frameboost.data.sources import FrameSource, Source, check_numeric
from frameboost.data.spark_source import SparkSource
from frameboost.data.table_files import is_table
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.draws import draw_key
from frameboost.schema.types import Feature

__all__ = ["HeldOut", "held_out_sources"]

_HELD_OUT = 21  # the purpose of a random key; `cross_validation` and `training.sampling` have others


@dataclass(frozen=True)
class HeldOut:
    """Rows that are not trained on."""

    source: Source

    def like(self, training: Source, features: Sequence[Feature], roles: Mapping[str, str], name: str) -> Source:
        """Return the rows, after checking that they have the columns of training.

        Raises
        ------
        DataError
            If a column is not there, or has another type.
        """
        if self.source is training:
            return self.source
        types = self.source.types()
        columns = [*(f.name for f in features), *roles.values()]
        for column in columns:
            if column not in types:
                raise DataError(f"column {shown(column)} is not in {shown(name)}, the data to validate on")
        group = roles.get("qid")
        for column in roles.values():
            if column == group and types[column] is None:
                raise DataError(
                    f"group column {shown(group)} has type {self.source.type_names()[group]} in {shown(name)}, the "
                    "data to validate on, which can't tell queries apart; convert it to an integer or a string"
                )
            if column != group:
                check_numeric(self.source, column, "column", f" in {shown(name)}, the data to validate on")
        for feature in features:
            if types[feature.name] != feature.type.values:
                example = example_of_text(self.source, feature)
                raise DataError(
                    f"feature {shown(feature.name)} has type {self.source.type_names()[feature.name]}{example} in "
                    f"{shown(name)}, the data to validate on, but {training.type_names()[feature.name]} in training; "
                    "give it the same type"
                )
        if isinstance(self.source, SparkSource):  # a fit in Spark leaves no tasks for others
            return FrameSource(self.source.to_frame(list(dict.fromkeys(columns))))
        return self.source


def held_out_sources(
    source: Source, valid: Any, time: str | None = None, group: str | None = None, seed: int = 0
) -> tuple[Source, dict[str, HeldOut]]:
    """Return the rows to train on, and the sets of rows to validate on by name."""
    last = _last_rows(source, valid, time)
    if valid is None:
        return source, {}
    if last is not None or _is_number(valid):
        training, part = _split_off(source, valid, last, time, group, seed)
        return training, {"valid": HeldOut(part)}
    if isinstance(valid, str) and (valid in source.names() or not is_table(valid)):
        training, part = _split(source, valid)
        return training, {"valid": HeldOut(part)}
    if not isinstance(valid, Mapping):
        return source, {"valid": _other_rows(valid, "valid", source)}
    for name in valid:
        if not isinstance(name, str) or name == "train":
            raise ParameterError(f"valid names a set {shown(name)}; a name must be a string other than 'train'")
    if not valid:
        raise ParameterError("valid is an empty dict; give at least one set of rows, or None")
    return source, {name: _other_rows(data, f"valid[{shown(name)}]", source) for name, data in valid.items()}


def _split(source: Source, valid: str) -> tuple[Source, Source]:
    """Return the rows to train on, and the rows to validate on: those where a Boolean column or a predicate is true.

    Raises
    ------
    ParameterError
        If ``valid`` is neither, or may split the rows in another way each time that they are read.
    """
    if not is_text(valid):
        raise ParameterError(f"valid holds half of a character, a surrogate: {shown(valid)}")
    types = source.types()
    if valid in types and (types[valid] is None or types[valid].family != "boolean"):  # type: ignore[union-attr]
        raise ParameterError(
            f"valid column {shown(valid)} has type {source.type_names()[valid]}; it must be Boolean, true where a row "
            "is for validation"
        )
    source.check_repeatable(None if valid in types else valid)
    parts = [source.where(valid, is_column=valid in types, negated=negated) for negated in (True, False)]
    return parts[0], parts[1]


def _other_rows(valid: Any, argument: str, training: Source) -> HeldOut:
    """Return other data to validate on; columns of files of text have the types of training.

    Raises
    ------
    ParameterError
        If it is rather a part of the data to train on.
    """
    if isinstance(valid, pl.Expr | pl.Series | np.ndarray | bool):
        raise ParameterError(
            f"{argument} is {shown(type(valid).__name__)}, and must be data; to hold out rows of the data to train on, "
            "add a Boolean column to it and give its name"
        )
    if _is_number(valid) or (isinstance(valid, str) and not is_table(valid)):
        raise ParameterError(
            f"{argument}={shown(valid)} is no data; a share, a column or a condition on the data to train on is given "
            "alone, not in a dict"
        )
    return HeldOut(open_training_data(valid, argument, training.types()))


def _is_number(valid: object) -> bool:
    return isinstance(valid, numbers.Real) and not isinstance(valid, bool)


def _last_rows(source: Source, valid: object, time: str | None) -> LastRows | None:
    """Return what ``valid="last 20%"`` means; None if it is something else, such as a column of that name."""
    last = LastRows.read(valid) if isinstance(valid, str) and valid not in source.names() else None
    if last is None and time is not None:
        raise ParameterError(f"time is for valid='last 20%' or 'last 4 weeks', not for valid={shown(valid)}")
    if last is not None and time is None:
        raise ParameterError(f"valid={shown(valid)} needs time, the column that tells which rows are last: time='day'")
    return last


def _split_off(
    source: Source, valid: Any, last: LastRows | None, time: str | None, group: str | None, seed: int
) -> tuple[Source, Source]:
    """Return the rows to train on, and a share of the rows, or the last ones."""
    if last is None and not 0 < valid < 1:
        raise ParameterError(f"valid={shown(valid)} is no share of the rows: it must lie between 0 and 1, as 0.2 does")
    if isinstance(source, SparkSource | PartitionedSource):
        library, way = "Dask", "id % 5 = 0"
        if isinstance(source, SparkSource):
            library, way = "Spark", "pmod(xxhash64(id), 5) = 0"
        if last is not None:
            way = "day >= '2013-10-01'"
        raise ParameterError(
            f"valid={shown(valid)} looks at all rows in their order, and those of a {library} DataFrame are on its "
            "workers in no certain order; name a Boolean column, or give a condition that each row answers for itself, "
            f"such as valid={shown(way)}"
        )
    if group is not None and group not in source.names():
        nearest = did_you_mean(group, source.names())
        raise DataError(f"group column {shown(group)} is not in the data{nearest}")
    rows = source.own_rows()
    if rows is not source and {time, group} - {None} <= set(rows.names()):  # by the facts alone
        training, part = _split_off(rows, valid, last, time, group, seed)
        assert not isinstance(training, SparkSource) and not isinstance(part, SparkSource)
        return source.with_own_rows(training), source.with_own_rows(part)
    source.check_repeatable(None)
    if last is not None:
        assert time is not None
        return last.split(source, time, group)
    key = draw_key(seed, _HELD_OUT)
    if group is None or source.types()[group] is None:  # which will be refused
        return split_by_draw(source, float(valid), key)
    return split_by_query_draw(source, group, float(valid), key)
