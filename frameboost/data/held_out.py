"""Rows to validate on, ``fit(valid=...)``: part of the data, or other data with the same columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frameboost.checks.messages import shown
from frameboost.data.partitions import open_training_data
from frameboost.data.sources import FrameSource, Source, check_numeric, split_held_out
from frameboost.data.spark_source import SparkSource
from frameboost.errors import DataError, ParameterError
from frameboost.schema.feature import Feature

__all__ = ["HeldOut", "held_out_sources"]


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
            if types[feature.name] != feature.type:
                raise DataError(
                    f"feature {shown(feature.name)} has type {self.source.type_names()[feature.name]} in "
                    f"{shown(name)}, the data "
                    f"to validate on, but {training.type_names()[feature.name]} in training; give it the same type"
                )
        if isinstance(self.source, SparkSource):  # a fit in Spark leaves no tasks for others
            return FrameSource(self.source.to_frame(list(dict.fromkeys(columns))))
        return self.source


def held_out_sources(source: Source, valid: Any) -> tuple[Source, dict[str, HeldOut]]:
    """Return the rows to train on, and the sets of rows to validate on by name."""
    if valid is None:
        return source, {}
    if isinstance(valid, str):
        training, part = split_held_out(source, valid)
        return training, {"valid": HeldOut(part)}
    if not isinstance(valid, Mapping):
        return source, {"valid": HeldOut(open_training_data(valid, "valid"))}
    for name in valid:
        if not isinstance(name, str) or name == "train":
            raise ParameterError(f"valid names a set {shown(name)}; a name must be a string other than 'train'")
    if not valid:
        raise ParameterError("valid is an empty dict; give at least one set of rows, or None")
    return source, {name: HeldOut(open_training_data(data, f"valid[{shown(name)}]")) for name, data in valid.items()}
