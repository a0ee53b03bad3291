"""Suspicious data: constant and unused features, missing values, identifiers, leaks, duplicate rows."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from frameboost.data.sources import FrameSource
from frameboost.errors import DataError
from frameboost.evaluation.drift import MUCH_DRIFT
from frameboost.evaluation.threshold_curves import roc_auc, roc_curve
from frameboost.plots.theme import percentage
from frameboost.report.drift import unseen_categories
from frameboost.report.material import Material
from frameboost.report.page import Raw, Section, bar, code, escaped, facts, note, number, paragraph, percent, table
from frameboost.schema.types import Feature, column
from frameboost.trees.tree import split_features

__all__ = ["FeatureCheck", "check_features", "data_check"]

_MAX_FEATURES = 100  # in the table: those with remarks first
_MAX_TRAINING = 250_000  # rows of training that are read
_MORE_MISSING = 0.1  # share of rows
_MOST_OF_GAIN, _ALONE = 0.8, 0.98  # share of the gain; AUC or correlation of ranks
_LEAST_ROWS = 50  # to tell an identifier or a leak


@dataclass(frozen=True)
class FeatureCheck:
    """The check of a feature on these rows.

    Attributes
    ----------
    name
        The feature.
    missing, missing_in_training
        The shares of missing values; None without training rows.
    distinct
        The number of values.
    gain
        The feature's share of the gain of all splits.
    remarks
        Remarks, a few words each.
    """

    name: str
    missing: float
    missing_in_training: float | None
    distinct: int
    gain: float
    remarks: tuple[str, ...]


def data_check(material: Material) -> Section:
    """Return the section of data checks, suspicious features first."""
    checks = check_features(material)
    odd = [check for check in checks if check.remarks]
    shown = sorted(checks, key=lambda check: not check.remarks)[:_MAX_FEATURES]
    has_training = any(check.missing_in_training is not None for check in checks)
    rows = [
        (check.name, percent(check.missing), *([percent(check.missing_in_training)] if has_training else []),
         f"{check.distinct:,}", bar(check.gain), percent(check.gain),
         Raw(f'<span class="bad">{escaped("; ".join(check.remarks))}</span>') if check.remarks else "")
        for check in shown
    ]  # fmt: skip
    header = ("feature", "missing", *(["in training"] if has_training else []), "values", "gain", "", "")
    numbers = (1, 2, 3, 5) if has_training else (1, 2, 4)
    text = f"{len(odd):,} of {len(checks):,} features have a remark." if odd else "No feature has a remark."
    parts = [paragraph(text), facts(_facts(material)), table(header, rows, numbers=numbers)]
    if (more := len(checks) - len(shown)) > 0:
        parts.append(note(f"{more:,} features without a remark are left out."))
    parts.append(note(
        f"Remarks: a single value; no split; missing in {percentage(_MORE_MISSING)} more of the rows than in training; "
        f"a PSI above {MUCH_DRIFT}; another category in each row; {percentage(_MOST_OF_GAIN)} of the gain or more; an "
        f"AUC or rank correlation with the labels of {_ALONE} or more, as of a value that is known only later."
    ))  # fmt: skip
    if not has_training:
        parts.append(note("To compare with the rows of training, pass ", code("training="), "."))
    return Section("data", "The data", parts)


def _facts(material: Material) -> list[tuple[object, object]]:
    """Return the numbers of rows, of duplicates, and of rows that also occur in training."""
    names = list(dict.fromkeys([*material.ensemble.feature_names, *material.roles.values()]))
    rows = material.rows.select(map(column, names))
    repeated = len(rows) - rows.n_unique()
    found: list[tuple[object, object]] = [
        ("rows", f"{material.n_rows:,}"),
        ("repeated rows", f"{repeated:,} ({percent(repeated / len(rows))})"),
    ]
    training = _training_rows(material, names)
    if training is not None and training.schema == rows.schema:
        known = len(rows.join(training, on=names, how="semi", nulls_equal=True))
        found.append(("rows that training has too", f"{known:,} ({percent(known / len(rows))})"))
    return found


def _training_rows(material: Material, names: list[str]) -> pl.DataFrame | None:
    """Return columns of the training rows, None if a column is missing, they are not passed or too many."""
    source = material.training_rows
    if source is None or not set(names) <= set(source.names()):
        return None
    frame = source.to_frame(names) if isinstance(source, FrameSource) or source.count_rows() <= _MAX_TRAINING else None
    rows = None if frame is None else frame.collect()
    return rows if rows is not None and 0 < len(rows) <= _MAX_TRAINING else None


def check_features(material: Material) -> list[FeatureCheck]:
    """Return the check of each feature, in the order of the model."""
    ensemble, rows = material.ensemble, material.rows
    training = _training_rows(material, list(ensemble.feature_names))
    gains = dict(material.model.importance("total_gain").rows())
    total = sum(gain for gain in gains.values() if gain > 0) or 1.0
    used = split_features(ensemble.trees)
    unseen = dict(unseen_categories(ensemble, rows).select("feature", "share").rows())
    drift = _drift(material)
    checks = []
    for index, feature in enumerate(ensemble.features):
        name = feature.name
        present = _present(rows[name])
        missing = 1 - len(present) / len(rows)
        before = None if training is None else 1 - len(_present(training[name])) / len(training)
        distinct, gain = present.n_unique(), max(0.0, gains[name]) / total
        remarks = []
        if distinct <= 1:
            remarks.append("constant" if distinct and not missing else "no value" if not distinct else "a single value")
        if index not in used:
            remarks.append("in no split")
        if before is not None and missing - before >= _MORE_MISSING:
            remarks.append("missing more often than in training")
        if drift.get(name, 0.0) > MUCH_DRIFT:
            remarks.append(f"drift (PSI {number(drift[name], 2)})")
        if name in unseen:
            remarks.append(f"categories unknown in training in {percent(unseen[name])} of rows")
        if feature.type.is_categorical and distinct == len(present) >= _LEAST_ROWS:
            remarks.append("another category in each row: an identifier?")
        if gain >= _MOST_OF_GAIN and len(ensemble.features) > 1:
            remarks.append(f"{percent(gain)} of the gain")
        if alone := _alone(material, feature):
            remarks.append(f"orders the labels alone ({alone}): known only later?")
        checks.append(FeatureCheck(name, missing, before, distinct, gain, tuple(remarks)))
    return checks


def _present(values: pl.Series) -> pl.Series:
    values = values.drop_nulls()
    return values.drop_nans() if values.dtype.is_float() else values


def _drift(material: Material) -> dict[str, float]:
    """Return the population stability index of features with a known training distribution."""
    try:
        indices = material.stability
    except DataError:  # of features that can't be compared, as the section of drift says
        return {}
    return {} if indices is None else dict(indices.select("feature", "psi").rows())


def _alone(material: Material, feature: Feature) -> str:
    """Return how well a numeric feature alone ranks the labels, if it is almost perfect."""
    loss = material.ensemble.loss
    kind = feature.type
    is_number = not kind.is_categorical and material.rows.schema[feature.name].is_numeric()
    if not material.one_target or not is_number or not (loss.classes == 2 or material.predicts_labels):
        return ""
    pairs = material.coded.frame.select(
        value=column(feature.name).cast(pl.Float64).fill_nan(None), label=column(material.target).cast(pl.Float64)
    ).drop_nulls().collect()  # fmt: skip
    if len(pairs) < _LEAST_ROWS or pairs["label"].n_unique() < 2 or pairs["value"].n_unique() < 2:
        return ""
    if loss.classes == 2:
        area = roc_auc(roc_curve(pairs["label"].to_numpy(), pairs["value"].to_numpy()))
        area = max(area, 1 - area)
        return f"AUC {number(area, 3)}" if area >= _ALONE else ""
    correlation = float(pairs.select(pl.corr("value", "label", method="spearman")).item())
    return f"rank correlation {number(correlation, 3)}" if abs(correlation) >= _ALONE else ""
