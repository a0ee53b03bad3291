"""Drift of a model's inputs: a baseline of binned training rows, and the query that compares a table with it.

The population stability index of a feature is Σ (a − e) ln(a / e) over its bins, a and e the actual and the expected
share of rows. Below 0.1 the feature has changed little, above 0.25 much.

For an empty table each share is 0, as if all rows were in a bin unknown from training, because NULL would pass every
test of a threshold. With at most 101 bins the index is then above 4.5.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from frameboost.binning.bins import with_thresholds
from frameboost.binning.codes import code_expr, propose_bins
from frameboost.checks.messages import shown
from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.compile.sql.forms import exceeded_limit
from frameboost.compile.sql.stages import Stages, TableSource
from frameboost.data.feature_columns import find_features
from frameboost.data.opening import open_rows
from frameboost.data.sources import LocalSource
from frameboost.dialects.dialect import Dialect
from frameboost.ensemble.baseline import MISSING, SCHEMA, Baseline, DriftBin, bins_of, score_features
from frameboost.errors import DataError, TooLargeError
from frameboost.prediction.predictor import Predictor
from frameboost.schema.types import Feature, column, not_zero, physical_expr

__all__ = [
    "SMALLEST_SHARE", "baseline_frame", "bin_condition", "drift_of_bin", "drift_query", "drift_tests",
    "feature_values", "model_baseline", "open_exactly",
]  # fmt: skip

# The smallest share of a bin: the logarithm of an empty one would be infinite.
SMALLEST_SHARE = 1e-4

# --- the baseline -----------------------------------------------------------------------------------------------------


def baseline_frame(data: Any, features: Sequence[Feature], n_bins: int) -> pl.DataFrame:
    """Return one row per bin of each feature, for `DatabaseModel.baseline`."""
    return _bins_frame(_rows_of(data, features), features, n_bins)


def model_baseline(predictor: Predictor, data: Any, n_bins: int) -> Baseline:
    """Return the bins of the features and of the predictions, for `frameboost.Model.with_baseline`."""
    ensemble = predictor.ensemble
    rows = _rows_of(data, ensemble.read_features)
    predicted, features = predictor.predict(rows, "mean"), score_features(ensemble.loss.n_predictions)
    if isinstance(predicted.dtype, pl.Array):
        scores = pl.DataFrame([predicted.arr.get(i).alias(f.name) for i, f in enumerate(features)])
    else:
        scores = predicted.alias(features[0].name).to_frame()
    return Baseline(_bins_frame(rows, ensemble.features, n_bins), _bins_frame(scores, features, n_bins), rows.height)


def _rows_of(data: Any, features: Sequence[Feature]) -> pl.DataFrame:
    frame = open_exactly(data, features).to_frame([feature.name for feature in features]).collect()
    if not frame.height:
        raise DataError("the data has no rows")
    return frame


def _bins_frame(frame: pl.DataFrame, features: Sequence[Feature], n_bins: int) -> pl.DataFrame:
    rows = [(*row, count / frame.height) for f in features for *row, count in _of_feature(frame, f, n_bins)]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def open_exactly(data: Any, features: Sequence[Feature], argument: str = "data") -> LocalSource:
    """Return rows with features in the types of training, as bin edges are values of these.

    ``argument`` is the name of the rows in messages.

    Raises
    ------
    DataError
        If a feature is missing, or its type differs.
    """
    source = open_rows(data, features, argument, exactly=True)
    types = find_features(source, features, "the data" if argument == "data" else argument)
    for feature in features:
        if types[feature.name] != feature.type.values and feature.type.name != "codes":
            raise DataError(
                f"feature {shown(feature.name)} has type {source.type_names()[feature.name]}, but {feature.type} in "
                "the model; cast it to the same type"
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
        largest = counts.head(n_bins - 1).rows()
        rows += [(name, i, None, None, json.dumps(value), count) for i, (value, count) in enumerate(largest)]
        others = int(counts["rows"].sum()) - sum(count for _, count in largest)
        return [*rows, (name, len(largest), None, None, None, others)]
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


# --- the query --------------------------------------------------------------------------------------------------------


def drift_query(
    source: TableSource, baseline: pl.DataFrame, where: str | None, columns: Sequence[FeatureColumn], dialect: Dialect,
    above: float | None = None,
) -> str:  # fmt: skip
    """Return the SELECT of `DatabaseModel.drift_query`, or one of ``feature`` and ``psi`` above a threshold.

    Raises
    ------
    ParameterError
        If the baseline is not of this model, or the query is larger than the database takes.
    """
    bins = bins_of(baseline, [column.feature for column in columns])
    stages = Stages(dialect, source, [], [columns[f].name for f in bins], where)
    text = _query_over(stages, bins, columns, dialect, above)
    if reason := exceeded_limit(text, [], dialect, in_one=False):
        raise TooLargeError(f"the query does not fit: {reason}; pass the rows of some features of the baseline")
    return text


def drift_tests(
    source: TableSource, baseline: pl.DataFrame, columns: Sequence[FeatureColumn], dialect: Dialect, above: float
) -> list[str]:
    """Return queries for features with an index above a threshold: one, or several for some features each.

    Raises
    ------
    ParameterError
        If the baseline is not of this model, or the query of one feature is larger than the database takes.
    """
    names = list(bins_of(baseline, [column.feature for column in columns]))
    try:
        return [drift_query(source, baseline, None, columns, dialect, above)]
    except TooLargeError:
        if len(names) == 1:
            raise
    first = [columns[number].feature.name for number in names[: len(names) // 2]]
    is_first = pl.col("feature").is_in(first)
    halves = [baseline.filter(is_first), baseline.filter(~is_first)]
    return [query for half in halves for query in drift_tests(source, half, columns, dialect, above)]


def _query_over(
    stages: Stages, bins: Mapping[int, Sequence[DriftBin]], columns: Sequence[FeatureColumn], dialect: Dialect,
    above: float | None,
) -> str:  # fmt: skip
    """Return the query, which reads the rows once."""
    every_bin = [(f, bin_) for f, of_feature in bins.items() for bin_ in of_feature]
    counts = {"all": dialect.statements.count[0]}
    for index, (f, bin_) in enumerate(every_bin):
        condition = bin_condition(columns[f], bin_, bins[f], dialect)
        counts[str(index)] = dialect.statements.count[1].format(c=condition)
    names = stages.aggregate(counts)
    quote, one, zero = dialect.quote, dialect.number(1.0), dialect.number(0.0)
    described = ("place", "feature_number", "feature", "bin", "label", "training_share")
    rows = [
        [str(index), str(f), dialect.string(columns[f].feature.name), str(bin_.number),
         dialect.string(_label(columns[f], bin_)), dialect.number(bin_.share)]
        for index, (f, bin_) in enumerate(every_bin)
    ]  # fmt: skip
    listed = dialect.constant_rows(rows, [quote(name) for name in described])
    whens = " ".join(f"WHEN {key} THEN a.{names[key]}" for key in map(str, range(len(every_bin))))
    share, before = quote("share"), quote("training_share")
    stages.replace(
        f"SELECT {', '.join(f'b.{quote(name)} AS {quote(name)}' for name in described)}, "
        f"COALESCE({one} * CASE b.{quote('place')} {whens} END / NULLIF(a.{names['all']}, 0), {zero}) AS {share}\n"
        f"{stages.source('a')}\nCROSS JOIN (\n{listed}\n) {dialect.statements.alias}b",
        [],
    )
    low = dialect.number(SMALLEST_SHARE)
    a, e = (f"CASE WHEN {x} < {low} THEN {low} ELSE {x} END" for x in (share, before))
    psi = drift_of_bin(a, e, dialect)
    shown = [quote(name) for name in ("feature", "bin", "label", "training_share", "share")]
    number = quote("feature_number")
    if above is not None:  # without ORDER BY, which not every database has in the subquery that a test is
        feature, limit = quote("feature"), dialect.number(above)
        indexes = f"SELECT {number}, {feature}, SUM({psi}) AS {quote('psi')}\n{stages.source()}"
        stages.replace(f"{indexes}\nGROUP BY {number}, {feature}", [])
        return stages.finish(f"SELECT {feature}, {quote('psi')}\n{stages.source()}\nWHERE {quote('psi')} > {limit}")
    return stages.finish(
        f"SELECT {', '.join(shown)}, SUM({psi}) OVER (PARTITION BY {number}) AS {quote('psi')}\n"
        f"{stages.source()}\nORDER BY {quote('psi')} DESC, {number} ASC, {quote('bin')} ASC"
    )


def drift_of_bin(share: str, before: str, dialect: Dialect) -> str:
    """Return the term of a bin in the index, from its share now and before, each at least `SMALLEST_SHARE`."""
    return f"({share} - {before}) * {dialect.call('LN', [f'({share}) / ({before})'])}"


def bin_condition(column: FeatureColumn, bin_: DriftBin, every: Sequence[DriftBin], dialect: Dialect) -> str:
    """Return the condition that a row is in a bin."""
    if bin_.number == MISSING:
        return column.is_missing()
    if column.feature.type.is_categorical:
        named = [b.category for b in every if b.category is not None]
        if bin_.category is not None:
            return column.is_one_of([bin_.category])
        others = f"NOT ({column.is_one_of(named)})" if named else ""
        return " AND ".join(filter(None, [column.is_present(), others]))
    return " AND ".join(
        filter(None, [column.is_at_least(bin_.lower), column.is_below(bin_.upper), column.is_present()])
    )


def _label(column: FeatureColumn, bin_: DriftBin) -> str:
    """Return the label of a bin."""
    if bin_.number == MISSING:
        return "missing"
    if column.feature.type.is_categorical:
        return "other" if bin_.category is None else column.feature.type.shown(bin_.category).replace("\0", "\\0")
    lower, upper = (None if v is None else column.feature.type.shown(v) for v in (bin_.lower, bin_.upper))
    if lower is None and upper is None:
        return "any"
    if lower is None:
        return f"below {upper}"
    return f"from {lower}" if upper is None else f"from {lower} to below {upper}"
