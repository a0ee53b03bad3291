"""Evaluate a model on the labelled rows of a table: metrics, and tables of classes and scores, one SELECT each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from frameboost.checks.messages import shown
from frameboost.database.labelled_rows import COUNTS, LabelledTable, Rows, check_by, long_rows
from frameboost.dialects.dialect import in_lines
from frameboost.errors import ParameterError
from frameboost.losses.outputs import output_of
from frameboost.metrics.metric import AnyMetric

__all__ = ["KINDS", "TENTHS", "evaluation_query"]

KINDS = ("metrics", "calibration", "gain", "confusion", "thresholds")
TENTHS = tuple(k / 10 for k in range(1, 10))


def evaluation_query(
    table: LabelledTable, kind: str, eval_metric: object, bins: int, thresholds: Sequence[float]
) -> str:
    """Return the SELECT of `DatabaseModel.evaluate_query`."""
    if kind == "metrics":
        check_by(table.by, (*COUNTS, "metric", "value"), table.dialect)
        metrics = table.metrics(eval_metric)
        return table.query(lambda rows: _metrics(table, rows, metrics))
    columns = _OF_TABLES[kind]
    if kind == "confusion":
        _require_classes(table, kind)
        check_by(table.by, columns, table.dialect)
        return table.query(lambda rows: _confusion(table, rows))
    scores = table.scores
    if kind != "calibration":
        _require_classes(table, kind)
    elif len(scores) > 1 and not (table.loss.classes and len(table.loss.labels) == 1):
        raise ParameterError("kind='calibration' is for models of one output, or of one target of classes")
    check_by(table.by, columns if len(scores) == 1 else ("class", *columns), table.dialect)
    return table.query(lambda rows: _OF_SCORES[kind](_scores(table, rows, scores), columns, bins, thresholds))


def _metrics(table: LabelledTable, rows: Rows, metrics: Sequence[AnyMetric]) -> str:
    """Return the query that ends in one row per group and metric."""
    measures = rows.measures(metrics)
    aggregates = rows.counts()
    for number, measure in enumerate(measures):
        aggregates |= {f"{number} {name}": text for name, text in measure.aggregates.items()}
    columns = rows.aggregated(aggregates)
    values = {}
    for number, measure in enumerate(measures):
        of_measure = {name: columns[f"{number} {name}"] for name in measure.aggregates}
        value = measure.value(of_measure, columns["rows"])
        values[measure.name] = f"CASE WHEN {columns['invalid']} = 0 THEN {value} END"
    named = rows.stages.name(values)
    described = [[rows.dialect.string(name)] for name in named]
    counts = {name: rows.dialect.cast(columns[name], "int64") for name in COUNTS}
    return long_rows(rows, table.by, counts, ["metric"], described, {"value": list(named.values())})


# --- tables of classes and scores -------------------------------------------------------------------------------------

# name -> its columns behind those of the group and of the class.
_OF_TABLES = {
    "calibration": ("lowest", "highest", "mean_prediction", "mean_label", "weight"),
    "gain": ("bin", "threshold", "weight", "share_of_rows", "share_of_positives", "lift"),
    "confusion": ("actual", "predicted", "weight", "share"),
    "thresholds": (
        "threshold", "true_positives", "false_positives", "false_negatives", "true_negatives", "precision", "recall",
    ),
}  # fmt: skip


def _require_classes(table: LabelledTable, kind: str) -> None:
    if not table.loss.classes or len(table.loss.labels) > 1:
        raise ParameterError(f"kind={shown(kind)} is for models of one target of classes")


@dataclass(frozen=True)
class _Scores:
    """Rows with a label and a weight above 0, repeated for each class if there are more than two.

    Attributes
    ----------
    rows
        The rows; with several classes, the class is the last group column.
    label, score, weight
        Columns; for classes the label is 1 or 0.
    keys
        The group columns, and the class, by their names in the result.
    """

    rows: Rows
    label: str
    score: str
    weight: str
    keys: Mapping[str, str]

    def select(self, columns: Mapping[str, str], order: str) -> str:
        """Return the query that ends in these columns after the keys."""
        quote, stages = self.rows.dialect.quote, self.rows.stages
        listed = [f"{column} AS {quote(name)}" for name, column in {**self.keys, **columns}.items()]
        ordered = ", ".join(f"{column} ASC" for column in [*self.rows.by, order])
        return stages.finish(f"SELECT {in_lines(listed)}\n{stages.source()}\nORDER BY {ordered}")


def _counted(rows: Rows) -> str:
    """Return the condition for rows to count."""
    return f"{rows.is_valid} AND {rows.known['weight']} > {rows.dialect.number(0.0)}"


def _scores(table: LabelledTable, rows: Rows, scores: Sequence[str]) -> _Scores:
    """Add the stage of rows by class."""
    dialect, stages, known = rows.dialect, rows.stages, rows.known
    label, score, weight, number, name = stages.reserve(5)
    if len(scores) == 1:
        columns = [f"{known['label']} AS {label}", f"{known[scores[0]]} AS {score}", f"{known['weight']} AS {weight}"]
        query = f"SELECT {in_lines([*rows.by, *columns])}\n{stages.source()}\nWHERE {_counted(rows)}"
        stages.reduce(query, rows.by, [label, score, weight])
        return _Scores(rows, label, score, weight, dict(zip(table.by, rows.by, strict=True)))
    labels = [dialect.label(each) for each in table.ensemble.labels] or list(map(str, range(len(scores))))
    classes = dialect.constant_rows([[str(k), text] for k, text in enumerate(labels)], [number, name])
    whens = " ".join(f"WHEN {k} THEN {known[each]}" for k, each in enumerate(scores))
    one, zero, of_class = dialect.number(1.0), dialect.number(0.0), f"b.{number}"
    columns = [
        f"{of_class} AS {number}", f"b.{name} AS {name}", f"{known['weight']} AS {weight}",
        f"CASE WHEN {known['label']} = {of_class} THEN {one} ELSE {zero} END AS {label}",
        f"CASE {of_class} {whens} END AS {score}",
    ]  # fmt: skip
    query = f"SELECT {in_lines([*rows.by, *columns])}\n{stages.source('a')}\n"
    query += f"CROSS JOIN (\n{classes}\n) {dialect.statements.alias}b\nWHERE {_counted(rows)}"
    stages.reduce(query, [*rows.by, number, name], [label, score, weight])
    keys = {**dict(zip(table.by, rows.by, strict=True)), "class": name}
    return _Scores(replace(rows, by=[*rows.by, number, name]), label, score, weight, keys)


def _bins(of: _Scores, bins: int, direction: str) -> str:
    """Add stages that assign rows to bins of equal weight, from 0, keeping equal scores together; return the column.

    The midpoint of each score on the axis of cumulative weight decides, as in `calibration_curve`.
    """
    dialect, stages = of.rows.dialect, of.rows.stages
    [sums] = of.rows.running([(f"{of.score} {direction}", {"weight": of.weight})])
    start, size, total = sums["weight_above"], sums["weight"], sums["weight_total"]
    middle = f"({start} + ({start} + {size})) / {dialect.number(2.0)} / {total}"
    number = dialect.call("FLOOR", [f"{middle} * {dialect.number(float(bins))}"])
    return stages.name({"bin": dialect.call("LEAST", [number, dialect.number(bins - 1.0)])})["bin"]


def _calibration(of: _Scores, columns: Sequence[str], bins: int, thresholds: Sequence[float]) -> str:
    number = _bins(of, bins, "ASC")
    score, weight, label = of.score, of.weight, of.label
    texts = [f"MIN({score})", f"MAX({score})", f"SUM({weight} * {score}) / SUM({weight})",
             f"SUM({weight} * {label}) / SUM({weight})", f"SUM({weight})"]  # fmt: skip
    named = of.rows.stages.aggregate(dict(zip(columns, texts, strict=True)), [*of.rows.by, number])
    return of.select(named, number)


def _gain(of: _Scores, columns: Sequence[str], bins: int, thresholds: Sequence[float]) -> str:
    number = _bins(of, bins, "DESC")
    rows, dialect = of.rows, of.rows.dialect
    sums = {
        "threshold": f"MIN({of.score})",
        "weight": f"SUM({of.weight})",
        "positives": f"SUM({of.weight} * {of.label})",
    }
    named = rows.stages.aggregate(sums, [*rows.by, number])
    until = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    shares = rows.stages.name({
        key: f"{rows.over(f'SUM({named[key]})', order=f'{number} ASC', frame=until)}"
        f" / NULLIF({rows.over(f'SUM({named[key]})')}, {dialect.number(0.0)})"
        for key in ("weight", "positives")
    })  # fmt: skip
    lift = f"{shares['positives']} / {shares['weight']}"
    texts = [dialect.cast(f"{number} + {dialect.number(1.0)}", "int64"), named["threshold"], named["weight"],
             shares["weight"], shares["positives"], lift]  # fmt: skip
    return of.select(dict(zip(columns, texts, strict=True)), number)


def _thresholds(of: _Scores, columns: Sequence[str], bins: int, thresholds: Sequence[float]) -> str:
    rows, dialect = of.rows, of.rows.dialect
    zero, sums = dialect.number(0.0), {"weight": f"SUM({of.weight})", "positives": f"SUM({of.weight} * {of.label})"}
    for k, least in enumerate(thresholds):
        is_taken = f"{of.score} >= {dialect.number(least)}"
        sums[f"taken {k}"] = f"SUM(CASE WHEN {is_taken} THEN {of.weight} ELSE {zero} END)"
        sums[f"true {k}"] = f"SUM(CASE WHEN {is_taken} THEN {of.weight} * {of.label} ELSE {zero} END)"
    named = rows.stages.aggregate(sums, rows.by)
    place, taken, true, threshold = rows.stages.reserve(4)
    listed = dialect.constant_rows(
        [[str(k), dialect.number(each)] for k, each in enumerate(thresholds)], [place, threshold]
    )
    numbers = range(len(thresholds))
    chosen = []
    for key, column in {"taken": taken, "true": true}.items():
        whens = " ".join(f"WHEN {k} THEN a.{named[f'{key} {k}']}" for k in numbers)
        chosen.append(f"CASE b.{place} {whens} END AS {column}")
    kept = [named["weight"], named["positives"]]
    select = ", ".join([*rows.by, *kept, f"b.{place} AS {place}", f"b.{threshold} AS {threshold}", *chosen])
    query = f"SELECT {select}\n{rows.stages.source('a')}\nCROSS JOIN (\n{listed}\n) {dialect.statements.alias}b"
    rows.stages.reduce(query, [*rows.by, *kept, place, threshold, taken, true], [])
    weight, positives = kept
    texts = [threshold, true, f"{taken} - {true}", f"{positives} - {true}",
             f"{weight} - {positives} - ({taken} - {true})", f"{true} / NULLIF({taken}, {zero})",
             f"{true} / NULLIF({positives}, {zero})"]  # fmt: skip
    return of.select(dict(zip(columns, texts, strict=True)), place)


_OF_SCORES: dict[str, Callable[[_Scores, Sequence[str], int, Sequence[float]], str]] = {
    "calibration": _calibration,
    "gain": _gain,
    "thresholds": _thresholds,
}


def _confusion(table: LabelledTable, rows: Rows) -> str:
    """Return the query of weights by actual and predicted class."""
    dialect, stages = rows.dialect, rows.stages
    output = output_of(table.ensemble.loss, "class", table.ensemble.calibration)
    for stage in output.stages:
        rows.define(stage, often=True)
    rows.define({"class": output.values[0]})
    actual, predicted, weight = stages.reserve(3)
    # As integers: BigQuery parts windows by no floats.
    actual_class, predicted_class = (dialect.cast(rows.known[name], "int64") for name in ("label", "class"))
    columns = [f"{actual_class} AS {actual}", f"{predicted_class} AS {predicted}"]
    columns.append(f"{rows.known['weight']} AS {weight}")
    query = f"SELECT {in_lines([*rows.by, *columns])}\n{stages.source()}\n"
    stages.reduce(f"{query}WHERE {_counted(rows)}", [*rows.by, actual, predicted, weight], [])
    keys = [*rows.by, actual, predicted]
    summed = stages.aggregate({"weight": f"SUM({weight})"}, keys)["weight"]
    labels = [dialect.label(label) for label in table.ensemble.labels]

    def shown_class(number: str) -> str:
        whens = " ".join(f"WHEN {k} THEN {label}" for k, label in enumerate(labels))
        return f"CASE {number} {whens} END" if labels else number

    share = f"{summed} / {rows.over(f'SUM({summed})', actual)}"
    texts = [shown_class(actual), shown_class(predicted), summed, share]
    quote, names = dialect.quote, [*table.by, *_OF_TABLES["confusion"]]
    listed = [f"{text} AS {quote(name)}" for name, text in zip(names, [*rows.by, *texts], strict=True)]
    order = ", ".join(f"{key} ASC" for key in keys)
    return stages.finish(f"SELECT {in_lines(listed)}\n{stages.source()}\nORDER BY {order}")
