"""The report: a list of sections, and the file that they are written to.

A section is a function of `Material` that returns a `Section`, or None if it is empty. Sections of weak segments, drift
and time are in separate files; the others are here, in the order of the page.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from frameboost import plots
from frameboost.checks.messages import counted, shortened
from frameboost.data.written_files import check_writable, output_path
from frameboost.dialects.built_in import DIALECTS
from frameboost.errors import ParameterError
from frameboost.evaluation.calibration_curve import calibration_curve
from frameboost.evaluation.history import long_history
from frameboost.metrics.metric import larger_is_better
from frameboost.model.model import Model
from frameboost.parameters.parameters import Parameters
from frameboost.plots.inputs import output_name
from frameboost.prediction.contributions import BIAS
from frameboost.report.data_check import data_check
from frameboost.report.drift import drift, over_time
from frameboost.report.groups import by_group
from frameboost.report.material import Material, ReportOptions, gather
from frameboost.report.page import (
    Chart,
    Panel,
    Raw,
    Section,
    bar,
    block_of_code,
    code,
    escaped,
    facts,
    folded,
    interval,
    note,
    number,
    page,
    paragraph,
    percent,
    table,
)
from frameboost.report.segments import weak_segments
from frameboost.report.thresholds import thresholds
from frameboost.schema.types import column, known_expr
from frameboost.trees.tree import split_features

__all__ = ["report_html", "sizes_by_dialect", "write_report"]


def write_report(model: Model, data: Any, path: str | os.PathLike[str], options: ReportOptions) -> None:
    """Write the report of a model to a file, atomically; the arguments are those of `frameboost.Model.report`.

    Raises
    ------
    OSError
        If the file can't be written, before any work starts.
    """
    check_writable(os.fspath(path))
    text = report_html(model, data, options)
    with output_path(os.fspath(path)) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def report_html(model: Model, data: Any, options: ReportOptions) -> str:
    """Return the page."""
    material = gather(model, data, options)
    sections = [section for make in _SECTIONS if (section := make(material)) is not None]
    targets = options.target if isinstance(options.target, str) else ", ".join(options.target or ())
    title = options.title or (f"Model of {shortened(targets, 80)}" if options.target else "Report of a model")
    subtitle = Raw(
        f"{escaped(model.objective)} &middot; {counted(model.n_trees, 'tree')} &middot; "
        f"{counted(len(model.features), 'feature')} &middot; {counted(material.n_rows, 'row')}"
    )
    return page(title, subtitle, sections)


# --- what it is -------------------------------------------------------------------------------------------------------

_MAX_LABELS = 6


def _about(material: Material) -> Section:
    ensemble, model = material.ensemble, material.model
    leaves = ensemble.n_leaves
    used = split_features(ensemble.trees)
    rows: list[tuple[object, object]] = [
        ("objective", code(ensemble.loss.name)),
        ("predicts", _predicts(material)),
        ("rounds", f"{model.n_rounds:,}"),
        ("trees", f"{counted(model.n_trees, 'tree')} of depth {ensemble.depth}, {counted(leaves, 'leaf', 'leaves')}"),
        ("features", f"{len(ensemble.features):,}; {len(used):,} in splits"),
        ("base margin", ", ".join(number(value) for value in ensemble.base_margins[:_MAX_LABELS])),
        ("rows of this report", f"{material.n_rows:,}"),
    ]
    if ensemble.offset is not None:
        added = f"{ensemble.offset.kind} {', '.join(ensemble.offset.names)}"
        rows.append(("offset of the margin", code(shortened(added))))
    if ensemble.calibration is not None:
        rows.append(("calibrated", code(shortened(ensemble.calibration.text))))
    if model.best_iteration is not None:
        best = "" if model.best_score is None else f", {number(model.best_score)}"
        rows.append(("best round in training", f"{model.best_iteration:,}{best}"))
    parts = [facts(rows)]
    if material.evaluation is None:
        text = "Without labels this report has no measures of quality: name their column, "
        parts.append(note(text, code("target="), "."))
    if material.of_sample:
        parts.append(note(f"Metrics are of all rows; charts are {material.of_sample}."))
    return Section("about", "What it is", parts)


def _predicts(material: Material) -> Raw:
    ensemble = material.ensemble
    loss = ensemble.loss
    if ensemble.labels:
        labels = [code(shortened(str(label), 40)) for label in ensemble.labels[:_MAX_LABELS]]
        more = len(ensemble.labels) - len(labels)
        return Raw(f"{len(ensemble.labels):,} classes: {', '.join(labels)}" + (f" and {more:,} more" if more else ""))
    if material.is_ranking:
        return escaped("the order of the rows of a query")
    if len(loss.labels) > 1:
        return escaped(f"{len(loss.labels):,} numbers, of a target each")
    if loss.classes:
        return escaped(f"{loss.classes:,} classes, 0 to {loss.classes - 1:,}")
    if loss.is_distribution:
        return escaped("a mean and a standard deviation")
    return escaped("a number" if loss.n_outputs == 1 else f"{loss.n_outputs:,} numbers")


# --- how good it is ---------------------------------------------------------------------------------------------------

_MAX_CONFUSED = 30  # classes of a confusion matrix
_MAX_SCORES = 4  # metrics in large numbers
_METRICS: Mapping[str, str] = {
    "rmse": "root of the mean squared error",
    "rmsle": "root of the mean squared difference of logarithms",
    "mae": "mean absolute error",
    "mape": "mean absolute error as a share of the label",
    "mphe": "mean pseudo-Huber error",
    "r2": "share of the labels' variance that is explained (R²)",
    "logloss": "mean negative log-likelihood of the label",
    "mlogloss": "mean negative log-likelihood of the label",
    "error": "share of rows taken for the wrong class",
    "merror": "share of rows taken for the wrong class",
    "auc": "area under the ROC curve",
    "aucpr": "area under the curve of precision and recall",
    "poisson-nloglik": "mean negative log-likelihood of Poisson's distribution",
    "gamma-nloglik": "mean negative log-likelihood of the gamma distribution",
    "gamma-deviance": "deviance of the gamma distribution",
    "tweedie-nloglik": "mean negative log-likelihood of Tweedie's distribution",
    "quantile": "mean pinball loss",
    "cox-nloglik": "negative partial log-likelihood",
    "aft-nloglik": "mean negative log-likelihood of the accelerated failure time",
    "interval-regression-accuracy": "share of predictions within the label's interval",
    "ndcg": "normalised discounted cumulative gain",
    "map": "mean average precision",
    "pre": "precision",
}


def _quality(material: Material) -> Section | None:
    """Return the metrics that fit the objective, with intervals, and their charts."""
    if material.evaluation is None:
        return None
    scores = "".join(
        f'<div><div class="name">{escaped(shortened(name, 40))}</div><div class="value">{number(value)}</div>'
        f'<div class="interval">{interval(*material.intervals[name])}</div></div>'
        for name, value in list(material.values.items())[:_MAX_SCORES]
    )
    parts: list[Raw | Chart] = [Raw(f'<div class="scores">{scores}</div>'), _metrics(material)]
    if material.ensemble.interval is not None:
        coverage, held, width = material.evaluation.interval.row(0)
        parts.append(
            paragraph(
                f"The model's intervals promise to hold {100 * coverage:g} % of the labels, and hold {100 * held:.3g} "
                f"% of these; their mean width is {number(width)}."
            )
        )
    return Section("quality", "How good it is", [*parts, *_charts(material)])


def _metrics(material: Material) -> Raw:
    without = material.values_without_trees
    rows = []
    for name, value in material.values.items():
        better = "higher" if larger_is_better(name) else "lower"
        words = _METRICS.get(name.partition("@")[0].removesuffix("-"), "")
        row = [name, number(value), interval(*material.intervals[name])]
        rows.append([*row, *([number(without[name])] if without else []), better, words])
    header = ["metric", "value", "95 % interval", *(["without trees"] if without else []), "better", ""]
    numbers = (1, 2, 3) if without else (1, 2)
    unit = material.options.groups or material.roles.get("qid")
    drawn = "rows" if unit is None else f"the values of {unit}"
    text = f"{counted(material.n_rows, 'row')}. Intervals are by the bootstrap over {drawn}"
    text += "; without trees, every row has the base margin as prediction." if without else "."
    return Raw(table(header, rows, numbers=numbers) + note(text))


def _charts(material: Material) -> list[Chart]:
    loss = material.ensemble.loss
    if not material.one_target or material.is_ranking or not (loss.classes or material.predicts_labels):
        return []
    scored = (material.model, material.predictions, material.target)
    if not loss.classes:
        return [Chart(plots.residuals(*scored), "Residuals")]
    charts = []
    if len(np.unique(material.predictions.labels)) > 1:
        charts = [
            Chart(plots.roc(*scored), "ROC"),
            Chart(plots.precision_recall(*scored), "Precision and recall"),
            Chart(plots.gains(*scored), "Gains"),
        ]
    if 2 <= loss.classes <= _MAX_CONFUSED:
        confusion = plots.confusion(material.model, material.predicted("class"), material.target)
        charts.append(Chart(confusion, "Confusion"))
    return charts


# --- what matters, and how it responds --------------------------------------------------------------------------------

_MAX_IMPORTANT = 15  # features in charts of importance
_MAX_EXPLAINED = 3  # outputs with SHAP values
_EXPLAINED_ROWS, _EXPLAINED_LEAVES = 500, 4_000_000  # fewer rows if these times the leaves are more
_MAX_RESPONSES, _RESPONSE_ROWS = 6, 500  # charts of partial dependence, and their rows


def _importance(material: Material) -> Section:
    """Return the gain of the features' splits, and SHAP values on a sample of the rows."""
    model, ensemble = material.model, material.ensemble
    gain = plots.importance(model, "total_gain", top=_MAX_IMPORTANT)
    parts: list[Raw | Chart] = [Chart(gain, "Gain")]
    if BIAS in model.features:
        text = f"There are no SHAP values, as a feature is named {BIAS}, which is the name of their constant."
        return Section("importance", "What matters", [*parts, note(text)])
    leaves = ensemble.n_leaves
    rows = max(100, min(_EXPLAINED_ROWS, _EXPLAINED_LEAVES // max(1, leaves)))
    for output in range(min(ensemble.n_outputs, _MAX_EXPLAINED)):
        chart = plots.shap_summary(model, material.rows, top=_MAX_IMPORTANT, output=output, rows=rows)
        name = ""
        if ensemble.n_outputs > 1:
            called = output_name(model, output)
            kind = "class " if ensemble.loss.classes else "output "
            name = f" of {kind if called.isdigit() else ''}{shortened(called, 40)}"
        parts.append(Chart(chart, f"SHAP values{name}"))
    if (more := ensemble.n_outputs - _MAX_EXPLAINED) > 0:
        parts.append(note(f"SHAP values of {more:,} more outputs are left out."))
    return Section("importance", "What matters", parts)


def _response(material: Material) -> Section | None:
    """Return partial dependence on the most important features, None for a model without splits."""
    model, rows = material.model, material.rows
    # By the number of splits where another library's model has no gains.
    kinds = [model.importance(kind).filter(pl.col("importance") > 0)["feature"] for kind in ("total_gain", "weight")]
    names = kinds[0] if len(kinds[0]) else kinds[1]
    present = [name for name in names if _has_value(material, name)][:_MAX_RESPONSES]
    if not present:
        return None
    charts = [Chart(plots.partial_dependence(model, rows, name, rows=_RESPONSE_ROWS)) for name in present]
    text = (
        "Partial dependence on the features with the highest gain, the highest first. The axes differ: read their "
        "numbers before you compare charts."
    )
    return Section("response", "How it responds", [paragraph(text), *_outputs(material), *charts])


def _outputs(material: Material) -> list[Raw]:
    """Return the legend of the outputs in charts."""
    if not material.ensemble.loss.is_distribution:
        return []
    return [note("Outputs: 0 is the mean; 1 is the logarithm of the spread.")]


def _has_value(material: Material, name: str) -> bool:
    """Whether a feature has a finite value in some row, or a category known from training."""
    rows, value = material.rows, column(name)
    feature = material.ensemble.features[material.ensemble.feature_names.index(name)]
    has = value.is_finite() if rows.schema[name].is_float() else value.is_not_null()
    if feature.type.is_categorical and feature.type.name != "codes":
        has = known_expr(feature).is_not_null()
    return bool(rows.select(has.any()).item())


# --- calibration ------------------------------------------------------------------------------------------------------


def _calibration(material: Material) -> Section | None:
    """Return the calibration of probabilities, predictions or quantiles.

    None without labels, or if predictions are neither probabilities nor on the scale of labels.
    """
    loss = material.ensemble.loss
    if not material.one_target or (loss.classes and not loss.has_probabilities):
        return None
    if loss.name == "reg:quantileerror":
        return _calibration_of_quantiles(material)
    if not loss.classes and not material.predicts_labels:
        return None
    chart = Chart(plots.calibration(material.model, material.predictions, material.target), "Reliability")
    return Section("calibration", "Calibration", [chart, *_calibration_of_bins(material)])


def _calibration_of_bins(material: Material) -> list[Panel]:
    """Return the numbers of the chart, for a single curve."""
    scored = material.predictions
    if scored.predictions.ndim > 1:
        return []
    curve = calibration_curve(scored.labels, scored.predictions, scored.weights, bins=10)
    header = ("predicted", "actual", "difference", "rows" if "weight" not in material.roles else "weight")
    rows = [
        (number(predicted), number(actual), f"{actual - predicted:+.3g}", number(weight))
        for predicted, actual, weight in curve.select("mean_prediction", "mean_label", "weight").rows()
    ]
    return [Panel(Raw("<h3>Means in bins of the prediction</h3>") + table(header, rows, numbers=(0, 1, 2, 3)))]


def _calibration_of_quantiles(material: Material) -> Section:
    """Return the share of labels at or below each predicted quantile."""
    levels = material.ensemble.loss.renewal
    predicted = material.predictor.predict(material.rows, "mean")
    several = [predicted] if len(levels) == 1 else [predicted.arr.get(k) for k in range(len(levels))]
    label = material.rows.select(column(material.target).cast(pl.Float64)).to_series()
    weight = material.roles.get("weight")
    weights = None if weight is None else material.rows[weight].cast(pl.Float64).to_numpy()
    rows = []
    for level, prediction in zip(levels, several, strict=True):
        below = float(np.average((label <= prediction).to_numpy(), weights=weights))
        rows.append((number(level), percent(level), percent(below), f"{100 * (below - level):+.1f} points"))
    text = "A quantile is calibrated if that share of the labels is at or below its prediction."
    header = ("quantile", "expected below", "actually below", "difference")
    return Section("calibration", "Calibration", [paragraph(text), table(header, rows, numbers=(0, 1, 2, 3))])


# --- training, SQL, parameters ----------------------------------------------------------------------------------------

_TABLE, _TREES = "your_table", "your_trees"
_MAX_SIZED = 20_000  # maximum leaves of models to compute the SQL size in each dialect
_MAX_SQL = 1_000_000  # characters
_MAX_OPEN_SQL = 2_000  # characters of a block that is not folded away
_MAX_FEATURES = 500


def _training(material: Material) -> Section:
    title = "How it was trained"
    if long_history(material.model.history).is_empty():
        text = "There are no learning curves: nothing was evaluated while the model was trained, as it is with "
        return Section("training", title, [note(text, code("valid="), ".")])
    return Section("training", title, [Chart(plots.learning_curves(material.model), "Learning curves")])


def _sql(material: Material) -> Section:
    """Return a query to copy, or instructions if it is too long, and its sizes in all dialects."""
    name = material.dialect.name
    parts: list[Raw | Chart] = []
    try:
        text = material.model.query(_TABLE, name)
    except ParameterError as error:
        parts.append(note(f"The model can't be one query of {name}: {error}."))
    else:
        where = Raw("A query over ") + code(_TABLE) + f", in the SQL of {name}"
        if len(text) > _MAX_SQL:
            how = f'model.query("{_TABLE}", "{name}")'
            size = f": {len(text) / 1e6:.1f} million characters, too many for this page; "
            parts.append(paragraph(where, size, code(how), " returns it."))
        else:
            summary = f"SELECT … FROM {_TABLE} ({len(text):,} characters)"
            parts += [paragraph(where, "."), block_of_code(text, summary, is_open=len(text) <= _MAX_OPEN_SQL)]
    return Section("sql", "The SQL", [*parts, *_sizes(material)])


def _sizes(material: Material) -> list[Raw]:
    """Return the size of the model in each dialect."""
    leaves = material.ensemble.n_leaves
    if leaves > _MAX_SIZED:
        return [note(f"Sizes in other dialects are left out, as the model has {leaves:,} leaves.")]
    sizes = sizes_by_dialect(material.model)
    largest = max((size.bytes for size in sizes if size.statements), default=1)
    rows = [
        (size.dialect, f"{size.statements:,}", f"{size.bytes:,}", bar(size.bytes / largest), size.form)
        if size.statements
        else (size.dialect, "–", "–", "", size.form)
        for size in sizes
    ]
    text = "All statements that score a table, in UTF-8. Where one query is too large, the trees are rows of a table."
    header = ("dialect", "statements", "bytes", "", "form")
    return [Raw("<h3>Sizes by dialect</h3>"), table(header, rows, numbers=(1, 2)), note(text)]


@dataclass(frozen=True)
class Size:
    """The statements that score a table in a dialect, and their bytes; none if impossible, with the reason as form."""

    dialect: str
    form: str
    statements: int = 0
    bytes: int = 0


def sizes_by_dialect(model: Model) -> list[Size]:
    """Return the size of the model in each dialect: as one query, or as a table of its trees and a query."""
    sizes = []
    for name in sorted(DIALECTS):
        try:
            statements, form = [model.query(_TABLE, name)], "one query"
        except ParameterError as too_large:
            try:
                database = model.database(name)
                statements = [*database.table_statements(_TREES), database.query(_TABLE, form="table", trees=_TREES)]
                form = "a table of trees and a query"
            except ParameterError:
                sizes.append(Size(name, str(too_large)))
                continue
        sizes.append(Size(name, form, len(statements), sum(len(each.encode()) for each in statements)))
    return sizes


def _parameters(material: Material) -> Section:
    """Return the identity of the model: its hash, parameters and features."""
    model = material.model
    usual = Parameters().shaping() | {"max_delta_step": 0.0}  # as `fit` fills it in
    changed = {name: value for name, value in model.parameters.items() if value != usual.get(name)}
    rest = {name: value for name, value in model.parameters.items() if name not in changed}
    parts = [
        facts(_metadata(model)),
        Raw("<h3>Parameters other than by default</h3>"),
        _values(changed) if changed else note("None that the model file holds."),
    ]
    if rest:
        parts.append(folded(f"{counted(len(rest), 'parameter')} by default", _values(rest, kind="usual")))
    return Section("parameters", "Parameters and hash", [*parts, *_features(material)])


def _metadata(model: Model) -> list[tuple[Any, Any]]:
    """Return the metadata and the hash of the model."""
    about = model.metadata
    known = {
        "name": about.title, "SHA-256 of the model": code(model.sha256), "trained": about.training,
        "SHA-256 of the query": about.query and code(about.query),
        "SHA-256 of the data": about.data and code(about.data),
        **{f"tag {name}": text for name, text in about.tags.items()},
    }  # fmt: skip
    return [(shortened(name), text) for name, text in known.items() if text]


def _values(values: Mapping[str, Any], kind: str = "") -> Raw:
    return facts([(name, code(shortened(str(value), 200))) for name, value in values.items()], kind=kind)


def _features(material: Material) -> list[Raw]:
    """Return the features with their types and the gain of their splits."""
    gains = material.model.importance("total_gain")
    features = {feature.name: feature for feature in material.ensemble.features}
    largest = max(1e-300, float(gains["importance"].max() or 0.0))  # type: ignore[arg-type]
    rows = []
    for name, gain in gains.head(_MAX_FEATURES).rows():
        categories = features[name].categories
        n_categories = f"{len(categories):,}" if categories else ""
        rows.append((name, features[name].type, n_categories, bar(gain / largest), number(gain)))
    more = len(gains) - len(rows)
    header = ("feature", "type in training", "categories", "gain", "")
    rest = [note(f"{counted(more, 'more feature')}.")] if more > 0 else []
    return [Raw("<h3>Features</h3>"), table(header, rows, numbers=(2, 4)), *rest]


_SECTIONS: tuple[Callable[[Material], Section | None], ...] = (
    _about, _quality, by_group, weak_segments, thresholds, _calibration, _importance, _response, over_time, data_check,
    drift, _training, _sql, _parameters,
)  # fmt: skip
