"""Drift of a model's inputs: a baseline of binned training rows, and the query that compares a table with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import polars as pl

from frameboost.binning.codes import code_expr, propose_bins
from frameboost.binning.thresholds import with_thresholds
from frameboost.checks.messages import shown
from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.compile.sql.drift import MISSING, WatchedBin, drift_query
from frameboost.compile.sql.size import exceeded_limit
from frameboost.compile.sql.stages import Stages, TableSource
from frameboost.data.feature_columns import find_features
from frameboost.data.rows_to_score import open_rows
from frameboost.data.sources import LocalSource
from frameboost.dialects.dialect import Dialect
from frameboost.errors import DataError, ParameterError
from frameboost.schema.polars_columns import column, not_zero, physical_expr
from frameboost.schema.types import Feature, Physical

__all__ = ["baseline_frame", "drift_statement", "feature_values", "open_watched", "read_baseline"]

_SCHEMA: dict[str, Any] = {
    "feature": pl.String, "bin": pl.Int32, "lower": pl.String, "upper": pl.String, "category": pl.String,
    "share": pl.Float64,
}  # fmt: skip


def baseline_frame(data: Any, features: Sequence[Feature], n_bins: int) -> pl.DataFrame:
    """Return a row for each bin of each feature, as `DatabaseModel.baseline` describes them."""
    source = open_watched(data, features)
    frame = source.to_frame([feature.name for feature in features]).collect()
    if not frame.height:
        raise DataError("the data has no rows")
    rows = [(*row, count / frame.height) for f in features for *row, count in _of_feature(frame, f, n_bins)]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def open_watched(data: Any, features: Sequence[Feature]) -> LocalSource:
    """Return rows whose features have the types of training, in whose values bins are.

    Raises
    ------
    DataError
        If a feature is not there, or has another type.
    """
    source = open_rows(data, features, exactly=True)
    types = find_features(source, features)
    for feature in features:
        if types[feature.name] != feature.type.values and feature.type.name != "codes":
            raise DataError(
                f"feature {shown(feature.name)} has type {source.type_names()[feature.name]}, but {feature.type} in "
                "the model; give it the same type"
            )
    return source


def _of_feature(frame: pl.DataFrame, feature: Feature, n_bins: int) -> list[tuple[Any, ...]]:
    """Return (feature, bin, lower, upper, category, count) for each bin, missing values first."""
    kind, name = feature.type, feature.name
    values = feature_values(frame, feature)
    present = values.drop_nulls()
    rows: list[tuple[Any, ...]] = [(name, MISSING, None, None, None, values.null_count())]
    if kind.is_categorical:
        counts = present.value_counts(name="rows").sort(["rows", "value"], descending=[True, False])
        kept = counts.head(n_bins - 1).rows()
        rows += [(name, i, None, None, json.dumps(value), count) for i, (value, count) in enumerate(kept)]
        others = int(counts["rows"].sum()) - sum(count for _, count in kept)
        return [*rows, (name, len(kept), None, None, None, others)]
    (bins,) = with_thresholds([propose_bins(feature, present, n_bins)])
    codes = present.to_frame().select(code_expr(pl.col("value"), kind, bins.cuts, bins.missing).alias("bin"))
    counted = dict(codes.group_by("bin").len().rows())
    edges = [None, *map(json.dumps, bins.cuts), None]
    return rows + [(name, i, edges[i], edges[i + 1], None, counted.get(i, 0)) for i in range(len(edges) - 1)]


def feature_values(frame: pl.DataFrame, feature: Feature) -> pl.Series:
    """Return the physical values of a column, null where they are missing."""
    if feature.type.name == "codes":
        values = column(feature.name).cast(pl.Float64).fill_nan(None).cast(pl.Int64)
    else:
        values = physical_expr(feature.name, feature.type)
    if feature.zero_is_missing:
        values = pl.when(not_zero(values)).then(values)
    return frame.select(values.alias("value")).to_series()


def drift_statement(
    source: TableSource, baseline: pl.DataFrame, where: str | None, columns: Sequence[FeatureColumn], dialect: Dialect
) -> str:
    """Return the SELECT that `DatabaseModel.drift_query` describes.

    Raises
    ------
    ParameterError
        If the baseline is not of this model, or the query is larger than the database takes.
    """
    bins = read_baseline(baseline, [column.feature for column in columns])
    stages = Stages(dialect, source, [], [columns[f].name for f in bins], where)
    text = drift_query(stages, bins, columns, dialect)
    if reason := exceeded_limit(text, [], dialect, in_one=False):
        raise ParameterError(f"the query does not fit: {reason}; give the rows of some features of the baseline")
    return text


def read_baseline(baseline: pl.DataFrame, features: Sequence[Feature]) -> dict[int, list[WatchedBin]]:
    """Return the bins of a baseline, by feature number.

    Raises
    ------
    ParameterError
        If it is not a frame as `baseline_frame` returns it.
    """
    if not isinstance(baseline, pl.DataFrame) or dict(baseline.schema) != _SCHEMA:
        raise ParameterError("baseline must be a frame that DatabaseModel.baseline returned")
    keys = baseline.select("feature", "bin")
    whole = keys.null_count().sum_horizontal().item() == 0 and keys.is_duplicated().sum() == 0
    if not baseline.height or not whole or not baseline["share"].is_between(0, 1).fill_null(False).all():
        raise ParameterError(
            "baseline has no rows, a bin twice, or a bin without a share; take it anew by DatabaseModel.baseline"
        )
    number = {feature.name: i for i, feature in enumerate(features)}
    found: dict[int, list[WatchedBin]] = {}
    for name, bin_, lower, upper, category, share in baseline.rows():
        if name not in number:
            raise ParameterError(f"baseline has feature {shown(name)}, which is none of the model's")
        feature = features[number[name]]
        edges = [_physical(feature, text) for text in (lower, upper, category)]
        found.setdefault(number[name], []).append(WatchedBin(bin_, edges[0], edges[1], edges[2], share))
    return found


def _physical(feature: Feature, text: str | None) -> Physical | None:
    try:
        value = None if text is None else json.loads(text)
    except ValueError:
        value = text
    if text is not None and not feature.type.accepts(value):
        raise ParameterError(
            f"baseline has {shown(text)}, which is no value of feature {shown(feature.name)}, {feature.type}"
        )
    return value
