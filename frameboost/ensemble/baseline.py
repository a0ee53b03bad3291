"""The baseline: shares of training rows in bins of each feature and of the predictions, to measure drift."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from frameboost.checks.json_files import check_keys, fail, is_finite, is_integer, read_list
from frameboost.checks.messages import shown
from frameboost.errors import ModelFileError, ParameterError
from frameboost.schema.types import Feature, FeatureType, Physical

__all__ = ["MISSING", "SCHEMA", "Baseline", "DriftBin", "baseline_fields", "bins_of", "read_baseline", "score_features"]

# The number of the bin of missing values.
MISSING = -1

SCHEMA: dict[str, Any] = {
    "feature": pl.String, "bin": pl.Int32, "lower": pl.String, "upper": pl.String, "category": pl.String,
    "share": pl.Float64,
}  # fmt: skip

_AT_FAULT = "damaged model, baseline"


@dataclass(frozen=True, eq=False)
class Baseline:
    """The shares of rows in bins; made by `frameboost.Model.with_baseline`.

    Attributes
    ----------
    features
        One row per bin of each feature, as `frameboost.DatabaseModel.baseline` returns them.
    scores
        The same for the predictions: ``feature`` is ``"prediction"``, or ``"prediction_0"`` and so on.
    rows
        The number of rows.
    """

    features: pl.DataFrame
    scores: pl.DataFrame
    rows: int


@dataclass(frozen=True)
class DriftBin:
    """A bin: missing values, a range from ``lower`` to below ``upper``, a category, or all other categories."""

    number: int
    lower: Physical | None
    upper: Physical | None
    category: Physical | None
    share: float


def score_features(n_predictions: int) -> tuple[Feature, ...]:
    """Return the predictions of a row as features, for their bins."""
    names = ["prediction"] if n_predictions == 1 else [f"prediction_{number}" for number in range(n_predictions)]
    return tuple(Feature(name, FeatureType("float64")) for name in names)


def bins_of(frame: pl.DataFrame, features: Sequence[Feature]) -> dict[int, list[DriftBin]]:
    """Return the bins of a baseline frame, by feature index.

    Raises
    ------
    ParameterError
        If it is not a result of `frameboost.DatabaseModel.baseline`.
    """
    if not isinstance(frame, pl.DataFrame) or dict(frame.schema) != SCHEMA:
        raise ParameterError("baseline must be a frame that DatabaseModel.baseline returned")
    keys = frame.select("feature", "bin")
    whole = keys.null_count().sum_horizontal().item() == 0 and keys.is_duplicated().sum() == 0
    if not frame.height or not whole or not frame["share"].is_between(0, 1).fill_null(False).all():
        raise ParameterError(
            "baseline has no rows, a bin twice, or a bin without a share; compute it again with DatabaseModel.baseline"
        )
    number = {feature.name: i for i, feature in enumerate(features)}
    bins: dict[int, list[DriftBin]] = {}
    for name, bin_, lower, upper, category, share in frame.rows():
        if name not in number:
            raise ParameterError(f"baseline has feature {shown(name)}, which is not one of the model's")
        feature = features[number[name]]
        edges = [_physical(feature, text) for text in (lower, upper, category)]
        bins.setdefault(number[name], []).append(DriftBin(bin_, edges[0], edges[1], edges[2], share))
    return bins


def _physical(feature: Feature, text: str | None) -> Physical | None:
    try:
        value = None if text is None else json.loads(text)
    except ValueError:
        value = text
    if text is not None and not feature.type.accepts(value):
        raise ParameterError(
            f"baseline has {shown(text)}, which is not a value of feature {shown(feature.name)}, {feature.type}"
        )
    return value


# --- in a file --------------------------------------------------------------------------------------------------------


def baseline_fields(baseline: Baseline) -> dict[str, Any]:
    """Return the baseline as a JSON object."""
    frames = {"features": baseline.features, "scores": baseline.scores}
    return {"rows": baseline.rows, **{name: frame.to_dict(as_series=False) for name, frame in frames.items()}}


def read_baseline(item: object, features: Sequence[Feature], n_predictions: int) -> Baseline:
    """Return the baseline in a file, or raise `ModelFileError`."""
    if not isinstance(item, dict):
        fail("damaged model", "baseline", "an object", item)
    check_keys(item, ("rows", "features", "scores"), _AT_FAULT)
    rows = item.get("rows")
    if not isinstance(rows, int) or isinstance(rows, bool) or not 0 < rows < 2**63:
        fail(_AT_FAULT, "rows", "a number of rows", rows)
    return Baseline(_frame(item, "features", features), _frame(item, "scores", score_features(n_predictions)), rows)


def _frame(item: Mapping[str, Any], key: str, features: Sequence[Feature]) -> pl.DataFrame:
    where, columns = f"{_AT_FAULT}, {key}", item.get(key)
    if not isinstance(columns, dict):
        fail(_AT_FAULT, key, "an object of lists", columns)
    check_keys(columns, tuple(SCHEMA), where)
    read = {name: read_list(columns, name, where) for name in SCHEMA}
    if len(set(map(len, read.values()))) > 1:
        fail(_AT_FAULT, key, "columns of the same length", {name: len(values) for name, values in read.items()})
    for name, values in read.items():
        for value in values:
            if not _may_be(name, value):
                fail(where, name, f"a list of values of type {SCHEMA[name]}", value)
    frame = pl.DataFrame(read, schema=SCHEMA)
    try:
        numbers = bins_of(frame, features)
    except ParameterError as error:
        raise ModelFileError(f"{where}: {error}") from error
    if len(numbers) < len(features):
        raise ModelFileError(f"{where}: it has bins of {len(numbers)} columns, not of {len(features)}")
    return frame


def _may_be(name: str, value: object) -> bool:
    """Whether a column of a frame of bins may have a value."""
    if name == "bin":
        return is_integer(value) and MISSING <= value < 2**31  # type: ignore[operator]
    if name == "share":
        return is_finite(value)
    return isinstance(value, str) or (value is None and name != "feature")
