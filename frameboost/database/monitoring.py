"""Monitor a model by a query: rows, missing and unseen values, drift, intervals and metrics, by time window.

Rows are scored once and aggregated by window and group in one stage; each measure is computed from the aggregates, and
is one row of the result. So a scheduled statement can append to the same table even if a later model has other
measures.

In an empty window all shares of bins are 0, so that drift is far above any threshold, and the shares of missing and
unseen values are 1, because NULL would pass every test. Empty windows exist only if the query lists windows, the last
ones before a time; otherwise windows come from the rows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict, get_args

import polars as pl

from frameboost.checks.arguments import is_iterable
from frameboost.checks.messages import listed, shown
from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.compile.sql.forms import Form
from frameboost.compile.sql.stages import Stages
from frameboost.database.drift import SMALLEST_SHARE, bin_condition, drift_of_bin
from frameboost.database.labelled_rows import LabelledTable, Measure, Rows, check_by, long_rows, long_stage
from frameboost.dialects.dialect import Dialect, in_lines
from frameboost.ensemble.baseline import Baseline, DriftBin, bins_of, score_features
from frameboost.errors import ParameterError, TooLargeError
from frameboost.losses.outputs import ENDS
from frameboost.metrics.metric import AnyMetric, Metric
from frameboost.schema.types import FeatureType

__all__ = [
    "MEASURES", "UNITS", "History", "Watch", "WatchArguments", "WatchOptions", "append_statement", "check_labels",
    "check_times", "create_statement", "measures_of", "monitor_query",
]  # fmt: skip

WindowUnit = Literal["hour", "day", "week", "month"]
Measured = Literal["rows", "missing", "unseen", "drift", "score_drift", "coverage", "metric"]
UNITS: tuple[str, ...] = get_args(WindowUnit)
MEASURES: tuple[str, ...] = get_args(Measured)
_TIME = FeatureType("timestamp[us]")
_EPOCH = dt.datetime(1970, 1, 1)
WINDOW = "window_start"
_NAMED = ("measure", "name", "value")
_NO_GROUP = "?"


@dataclass(frozen=True)
class WatchOptions:
    """Options of monitoring beside time windows; see `DatabaseModel.monitor_query`."""

    window: WindowUnit = "day"
    until: dt.datetime | None = None
    by: str | Sequence[str] | None = None
    target: str | Sequence[str] | None = None
    weight: str | None = None
    label_upper_bound: str | None = None
    where: str | Mapping[str, Any] | None = None
    baseline: pl.DataFrame | Baseline | None = None
    measures: Sequence[Measured] | None = None
    eval_metric: str | Metric | Iterable[str | Metric] | None = None
    labelled: float = 0.9
    form: Form = "auto"
    trees: str | None = None


class WatchArguments(TypedDict, total=False):
    """The fields of `WatchOptions` as keyword arguments, for type checkers and editors."""

    window: WindowUnit
    until: dt.datetime | None
    by: str | Sequence[str] | None
    target: str | Sequence[str] | None
    weight: str | None
    label_upper_bound: str | None
    where: str | Mapping[str, Any] | None
    baseline: pl.DataFrame | Baseline | None
    measures: Sequence[Measured] | None
    eval_metric: str | Metric | Iterable[str | Metric] | None
    labelled: float
    form: Form
    trees: str | None


@dataclass(frozen=True)
class Watch:
    """The monitored measures of a table's rows.

    Attributes
    ----------
    table
        The rows and the model; without roles if there are no labels.
    columns
        The columns of the monitored features.
    lookup
        The column for the lookup of interval widths, or None.
    features, scores
        The baseline bins of features and predictions; None for no drift.
    measures
        Names of `MEASURES`.
    metrics
        The metrics; empty without labels.
    least_labelled
        The minimum share of labelled rows for metrics and coverage.
    time, unit, last, until
        The time column, the window unit, the number of windows before ``until``, and that time; None for no windows,
        for all windows, and for the time of the query.
    """

    table: LabelledTable
    columns: Sequence[FeatureColumn]
    lookup: FeatureColumn | None
    features: pl.DataFrame | None
    scores: pl.DataFrame | None
    measures: Sequence[str]
    metrics: Sequence[AnyMetric]
    least_labelled: float
    time: str | None
    unit: str
    last: int | None
    until: dt.datetime | None

    @property
    def dialect(self) -> Dialect:
        """The SQL dialect."""
        return self.table.dialect

    @property
    def keys(self) -> list[str]:
        """The result columns before the measures."""
        return [*([] if self.time is None else [WINDOW]), *self.table.by]

    def start_of_window(self, column: str) -> str:
        """Return the start of the window that contains a time."""
        dialect = self.dialect
        start = dialect.expressions.window_start[self.unit].format(x=_timestamp(column, dialect))
        return _timestamp(start, dialect)

    def first_windows(self, number: int) -> str:
        """Return the start of the window that is ``before`` windows earlier than that of the last time."""
        dialect, now = self.dialect, self.dialect.expressions.now
        if self.until is not None:
            micros = (self.until - _EPOCH) // dt.timedelta(microseconds=1)
            now = str(dialect.literal(_TIME, micros))
        start = self.start_of_window(now)
        if not number:
            return start
        return _timestamp(dialect.expressions.window_before[self.unit].format(x=start, n=number), dialect)

    def condition(self) -> str:
        """Return the condition that a row is in one of the last windows; empty for all windows."""
        if self.time is None or self.last is None:
            return ""
        moment = _timestamp(self.dialect.quote(self.time), self.dialect)
        return f"{moment} >= {self.first_windows(self.last)} AND {moment} < {self.first_windows(0)}"


@dataclass(frozen=True)
class History:
    """A table to append measures to: its quoted name, and the hash of the model."""

    name: str
    model: str


def _timestamp(value: str, dialect: Dialect) -> str:
    return dialect.expressions.moment.format(x=value, t=_nullable(dialect.type_of(_TIME), dialect))


def _nullable(type_: str | None, dialect: Dialect) -> str:
    return dialect.types.nullable.format(t=type_)


# --- statements -------------------------------------------------------------------------------------------------------


def monitor_query(watch: Watch) -> str:
    """Return the SELECT of `DatabaseModel.monitor_query`."""
    return _query(watch, lambda rows, of_all: long_rows(rows, watch.keys, {}, *of_all))


def create_statement(name: str, by: Sequence[str], dialect: Dialect) -> str:
    """Return the statement that creates a history table; its name is quoted.

    Raises
    ------
    ParameterError
        If the database can't create a table by a statement alone.
    """
    columns, template = _columns([WINDOW, *by]), dialect.statements.define_table
    if template is None:
        raise ParameterError(
            f"a table of {dialect.name} is made with a path, so no statement of a model can; make one of the columns "
            f"{listed(columns, None)}"
        )
    check_by(by, [column for column in columns if column not in by], dialect)
    types = dict.fromkeys(columns, dialect.types.columns["string"])
    types |= {WINDOW: str(dialect.type_of(_TIME)), "value": dialect.types.columns["float64"]}
    defined = [f"{dialect.quote(column)} {_nullable(kind, dialect)}" for column, kind in types.items()]
    return template.format(name=name, columns=",\n  ".join(defined))


def append_statement(watch: Watch, history: History) -> str:
    """Return the statement that appends known measures that the history lacks."""
    dialect = watch.dialect
    quote, alias = dialect.quote, dialect.statements.alias
    names = _columns(watch.keys)
    insert = dialect.statements.insert.format(name=history.name, columns=", ".join(map(quote, names)))
    into_final = "" if dialect.statements.insert_before_stages else insert

    def end(rows: Rows, of_all: _OfAll) -> str:
        stages, measured = rows.stages, long_stage(rows, *of_all)
        model = dialect.cast(dialect.string(history.model), "string")
        values = dict(zip([*watch.keys, *_NAMED], (f"m.{column}" for column in measured), strict=True))
        pairs = [(f"h.{quote(name)}", values.get(name, model)) for name in names if name not in (WINDOW, "value")]
        conditions = [f"h.{quote(WINDOW)} = {values[WINDOW]}"]
        conditions += [_same_text(one, two, dialect, dialect.expressions.text) for one, two in pairs]
        listed_values = ", ".join(values.get(name, model) for name in names)
        return stages.finish(
            f"{into_final}SELECT {listed_values}\n{stages.source('m')}\n"
            f"LEFT JOIN {history.name} {alias}h ON {' AND '.join(conditions)}\n"
            f"WHERE h.{quote('measure')} IS NULL AND {values['value']} IS NOT NULL{dialect.statements.joins_to_nulls}"
        )

    query = _query(watch, end)
    return query if into_final else insert + query


def _same_text(one: str, two: str, dialect: Dialect, template: str = "{x}") -> str:
    """Return the condition that two texts are equal or both NULL, without OR, which not every join supports."""
    texts = (template.format(x=f"COALESCE({each}, {dialect.string(_NO_GROUP)})") for each in (one, two))
    is_group = (f"CASE WHEN {each} IS NULL THEN 0 ELSE 1 END" for each in (one, two))
    return f"{' = '.join(texts)} AND {' = '.join(is_group)}"


def _columns(keys: Sequence[str]) -> list[str]:
    """Return the columns of a history table."""
    return ["model_hash", *keys, *_NAMED]


# --- the query --------------------------------------------------------------------------------------------------------

_OfAll = tuple[Sequence[str], Sequence[Sequence[str]], Mapping[str, Sequence[str]]]


def _query(watch: Watch, final: Callable[[Rows, _OfAll], str]) -> str:
    """Return the query that ends in the measures, each a column of one row per window and group.

    ``final`` continues the query, from the arguments of `long_rows`.
    """
    check_by(watch.table.by, ("model_hash", WINDOW, *_NAMED), watch.dialect)
    others = [*(column.feature.name for column in watch.columns)]
    if watch.lookup is not None:
        others.append(watch.lookup.feature.name)
    names = {feature: watch.table.names.get(feature, feature) for feature in others}
    times = [] if watch.time is None else [watch.time]
    keep = list(dict.fromkeys([*watch.table.kept, *names.values(), *times]))

    def end(stages: Stages, values: Mapping[str, str]) -> str:
        kept, margins = stages.rename_all(values)
        rows = Rows.of(watch.table, stages, kept, margins)
        columns = [replace(column, name=kept[names[column.feature.name]]) for column in watch.columns]
        groups = {name: rows.dialect.as_text(kept[name]) for name in watch.table.by}
        if watch.time is not None:
            groups = {WINDOW: watch.start_of_window(kept[watch.time]), **groups}
        rows.by = list(stages.name(groups).values()) if groups else []
        lookup = None if watch.lookup is None else replace(watch.lookup, name=kept[names[watch.lookup.feature.name]])
        measures = _measures(watch, rows, columns, lookup)
        return final(rows, measures)

    try:
        return watch.table.scored(keep, end)
    except TooLargeError as error:
        raise TooLargeError(f"{error}; pass the rows of some features of the baseline, or fewer measures") from error


def _measures(watch: Watch, rows: Rows, columns: Sequence[FeatureColumn], lookup: FeatureColumn | None) -> _OfAll:
    """Add the stages of aggregates and measures; return the arguments of `long_rows`."""
    dialect, stages, measures = rows.dialect, rows.stages, watch.measures
    count, one, zero = dialect.statements.count[1], dialect.number(1.0), dialect.number(0.0)
    everyone = dialect.statements.count[0]
    counts = {"all": everyone, "total": f"NULLIF({one} * {everyone}, {zero})", **rows.counts()}
    is_watched = {name: name in measures for name in MEASURES}
    binned: dict[tuple[str, str], list[tuple[str, DriftBin]]] = {}

    def add_bins(measure: str, columns: Sequence[FeatureColumn], frame: pl.DataFrame) -> None:
        for number, bins in bins_of(frame, [column.feature for column in columns]).items():
            of_feature = binned.setdefault((measure, columns[number].feature.name), [])
            for bin_ in bins:
                key = f"{measure} {number} {bin_.number}"
                counts[key] = count.format(c=bin_condition(columns[number], bin_, bins, dialect))
                of_feature.append((key, bin_))

    if is_watched["drift"] and watch.features is not None:
        add_bins("drift", columns, watch.features)
    if is_watched["score_drift"] and watch.scores is not None:
        add_bins("score_drift", _scores(watch, rows), watch.scores)
    shares: dict[tuple[str, str], str] = {}
    for number, column in enumerate(columns):
        conditions = {"missing": column.is_missing(), "unseen": _is_unseen(column)}
        for measure, condition in conditions.items():
            if is_watched[measure] and condition:
                shares[measure, column.feature.name] = f"{measure} {number}"
                counts[f"{measure} {number}"] = count.format(c=condition)
    measured = _of_labels(watch, rows, lookup)
    for number, (_, of_labels) in enumerate(measured):
        counts |= {f"label {number} {name}": text for name, text in of_labels.aggregates.items()}

    named = rows.aggregated(counts)
    if watch.last is not None:
        named = _with_windows(watch, rows, named)
    # Shares take the place of the counts of bins, which are many.
    bins = {key for of_feature in binned.values() for key, _ in of_feature}
    kept = list(dict.fromkeys(column for name, column in named.items() if name not in bins))
    part = dict(zip(sorted(bins), stages.reserve(len(bins)), strict=True))
    low, columns_read = dialect.number(SMALLEST_SHARE), [*rows.by, *kept]
    for key, name_of_part in part.items():
        share = f"COALESCE({named[key]} / {named['total']}, {zero})"
        columns_read.append(f"{dialect.call('GREATEST', [share, low])} AS {name_of_part}")
    if bins:
        stages.check(len(columns_read))
        stages.reduce(f"SELECT {in_lines(columns_read)}\n{stages.source()}", rows.by, [*kept, *part.values()])
    everyone = f"COALESCE({named['all']}, 0)"
    values: dict[tuple[str, str], str] = {}
    if is_watched["rows"]:
        values["rows", "all"] = dialect.cast(everyone, "float64")
        if watch.table.roles:
            for label, key in {"labelled": "rows", "invalid": "invalid"}.items():
                values["rows", label] = dialect.cast(f"COALESCE({named[key]}, 0)", "float64")
    for name, key in shares.items():
        values[name] = f"COALESCE({named[key]} / {named['total']}, {one})"
    for name, of_feature in binned.items():
        before = (dialect.number(max(bin_.share, SMALLEST_SHARE)) for _, bin_ in of_feature)
        keys = (key for key, _ in of_feature)
        values[name] = dialect.sum([drift_of_bin(part[k], e, dialect) for k, e in zip(keys, before, strict=True)])
    labelled = f"{named['rows']} > 0 AND {one} * {named['rows']} >= {dialect.number(watch.least_labelled)} * {everyone}"
    for number, (name, of_labels) in enumerate(measured):
        of_measure = {key: named[f"label {number} {key}"] for key in of_labels.aggregates}
        value = of_labels.value(of_measure, named["rows"])
        values[name] = f"CASE WHEN {labelled} AND {named['invalid']} = 0 THEN {value} END"
    if not values:
        raise ParameterError("there is nothing to measure: the model has no baseline, and there is no target")
    named = stages.name({f"{measure} {name}": text for (measure, name), text in values.items()})
    described = [[dialect.string(measure), dialect.string(name)] for measure, name in values]
    return ["measure", "name"], described, {"value": list(named.values())}


def _is_unseen(column: FeatureColumn) -> str:
    """Return the condition that a category is unknown from training; None for other features."""
    feature = column.feature
    if not feature.type.is_categorical or feature.type.family == "boolean" or not feature.categories:
        return ""
    return f"{column.is_present()} AND NOT ({column.is_one_of(list(feature.categories))})"


def _scores(watch: Watch, rows: Rows) -> list[FeatureColumn]:
    """Add stages of the predictions, NULL without an offset (see `SqlModel.values`); return their columns."""
    ensemble = watch.table.ensemble
    output = ensemble.output("mean")
    for stage in output.stages:
        rows.define(stage, often=True)
    texts = list(map(rows.sql, output.values))
    if ensemble.offset is not None:
        tests = [f"{rows.known[margin]} IS NOT NULL" for margin in output.margins]
        texts = [
            f"CASE WHEN {' AND '.join(tests[k] for k in behind)} THEN {text} END"
            for text, behind in zip(texts, output.margins_behind(), strict=True)
        ]
    features = score_features(ensemble.loss.n_predictions)
    columns = rows.columns_of({feature.name: text for feature, text in zip(features, texts, strict=True)})
    return [FeatureColumn(feature, rows.dialect, columns[feature.name]) for feature in features]


def _of_labels(
    watch: Watch, rows: Rows, lookup: FeatureColumn | None
) -> list[tuple[tuple[str, str], Measure]]:  # fmt: skip
    """Add stages that need labels; return measures by name."""
    measures: list[tuple[tuple[str, str], Measure]] = []
    if not watch.table.roles:
        return measures
    if "coverage" in watch.measures and watch.table.ensemble.interval is not None:
        output = watch.table.ensemble.output("interval")
        if output.lookup is not None and lookup is not None:
            number = {"distance": lookup.number_of(output.lookup)}
            rows.known[output.lookup.name] = rows.stages.name(number)["distance"]
        for stage in output.stages:
            rows.define(stage, often=True)
        rows.define(dict(zip(ENDS, output.values, strict=True)))
        lower, upper, label, weight = (rows.known[name] for name in (*ENDS, "label", "weight"))
        zero = rows.dialect.number(0.0)
        held = f"CASE WHEN {lower} <= {label} AND {label} <= {upper} THEN {weight} ELSE {zero} END"
        columns = rows.columns_of({"held": rows.if_valid(held), "weight": rows.if_valid(weight)})
        sums = {name: f"SUM({column})" for name, column in columns.items()}
        share = Measure("coverage", sums, lambda named, rows: f"{named['held']} / NULLIF({named['weight']}, {zero})")
        measures.append((("coverage", "interval"), share))
    if "metric" in watch.measures:
        measures += [(("metric", measure.name), measure) for measure in rows.measures(watch.metrics)]
    return measures


def _with_windows(watch: Watch, rows: Rows, named: Mapping[str, str]) -> dict[str, str]:
    """Add a stage with all last windows of each group, including empty ones; return its columns."""
    assert watch.last is not None
    dialect, stages = rows.dialect, rows.stages
    start, group = rows.by[0], rows.by[1:]
    [one, window, *new] = stages.reserve(2 + len(group) + len(set(named.values())))
    groups, columns = new[: len(group)], dict(zip(dict.fromkeys(named.values()), new[len(group) :], strict=True))
    alias, before = dialect.statements.alias, stages.source().removeprefix("FROM ")
    windows = dialect.constant_rows(
        [["1", watch.first_windows(number)] for number in range(watch.last, 0, -1)], [one, window]
    )
    lines, conditions = [f"FROM (\n{windows}\n) {alias}w"], [f"a.{start} = w.{window}"]
    if group:
        every = ", ".join([f"1 AS {one}", *(f"{old} AS {new}" for old, new in zip(group, groups, strict=True))])
        lines.append(f"LEFT JOIN (SELECT DISTINCT {every} FROM {before}) {alias}g ON g.{one} = w.{one}")
        conditions += [_same_text(f"a.{old}", f"g.{new}", dialect) for old, new in zip(group, groups, strict=True)]
    lines.append(f"LEFT JOIN {before} {alias}a ON {' AND '.join(conditions)}")
    listed_columns = [f"w.{window} AS {window}", *(f"g.{name} AS {name}" for name in groups)]
    listed_columns += [f"a.{old} AS {column}" for old, column in columns.items()]
    text = f"SELECT {in_lines(listed_columns)}\n" + "\n".join(lines) + dialect.statements.joins_to_nulls
    stages.check(len(listed_columns))
    rows.by = [window, *groups]
    stages.reduce(text, rows.by, list(columns.values()))
    return {name: columns[old] for name, old in named.items()}


def check_labels(target: object, others: Mapping[str, object]) -> None:
    """Raise `ParameterError` if options that need labels are passed without ``target``."""
    named = next((name for name, value in others.items() if value is not None), None)
    if target is None and named is not None:
        raise ParameterError(f"{named} needs labels: set target, their column")


def check_times(time: str | None, last: int | None, until: object) -> None:
    """Raise `ParameterError` if windows are set without a time column, or their end is not a time."""
    if time is None and (last is not None or until is not None):
        raise ParameterError("last and until count windows of time: set time, a column")
    if until is not None and (not isinstance(until, dt.datetime) or until.tzinfo is not None):
        raise ParameterError(f"until must be a datetime without a time zone, as in the table, not {shown(until)}")
    if until is not None and last is None:
        raise ParameterError("until is the end of the last windows: set last, their number")


def measures_of(measures: Sequence[str] | None) -> list[str]:
    """Return the named measures, by default all.

    Raises
    ------
    ParameterError
        If a name is not a measure.
    """
    if measures is None:
        return list(MEASURES)
    chosen = [] if isinstance(measures, str) or not is_iterable(measures) else list(measures)
    if not chosen or not all(isinstance(name, str) and name in MEASURES for name in chosen):
        raise ParameterError(f"measures must be a list of {listed(MEASURES, None)}, not {shown(measures)}")
    return chosen
