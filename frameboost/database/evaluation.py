"""How good a model is on the labelled rows of a table, computed by one SELECT of the database.

The rows are scored once, by the stages of the scoring query. What comes after them are stages over the margins: the
model's predictions, the terms of its metrics (`frameboost.metrics.metric`, the expressions that Python evaluates too),
windows for what depends on an order of the rows, aggregates by group, and a table of a row for each metric.

A query can't raise an error as `Model.evaluate` does. Rows without a label are counted and left out, and a metric is
NULL where a row has a label, a weight or an offset that it is not defined for.

Running sums are over rows, as ranges of values are no frames in Redshift: the sum above a row's rank is the least of
those before its rows. Windows are parted by ranks, as BigQuery parts them by no floats.
https://docs.aws.amazon.com/redshift/latest/dg/r_Window_function_synopsis.html
https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/data-types#floating_point_types
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from frameboost.checks.messages import listed, shown
from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.compile.sql.stages import Stages
from frameboost.dialects.dialect import Dialect
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import ParameterError
from frameboost.expressions.expression import Expression, InSql
from frameboost.losses.loss import Loss, Ratio, RunningSum, Term, prediction_names
from frameboost.losses.outputs import output_of
from frameboost.metrics.metric import (
    METRICS,
    AnyMetric,
    CurveMetric,
    Metric,
    evaluation_metrics,
    is_ranking,
    r_squared,
)
from frameboost.schema.types import Feature, FeatureType

__all__ = [
    "KINDS", "TENTHS", "End", "LabelledTable", "Measure", "Rows", "check_by", "comparison_query", "evaluation_query",
    "long_rows", "long_stage",
]  # fmt: skip

KINDS = ("metrics", "calibration", "gain", "confusion", "thresholds")
TENTHS = tuple(k / 10 for k in range(1, 10))
# Beyond it labels and weights are none, as in training.
_LARGEST = 1e150
_COUNTS = ("rows", "unlabelled", "invalid")
# The end of a query over its stages and the margins by name.
End = Callable[[Stages, Mapping[str, str]], str]
# Of a two-sided interval of 95 % of the normal distribution: its quantile 0.975.
_OF_95_PERCENT = 1.959963984540054


@dataclass(frozen=True)
class LabelledTable:
    """The rows of a table with labels, and the model that is judged on them.

    Attributes
    ----------
    ensemble, dialect
        The model and the database.
    scored
        Returns the query that scores the rows with margins, keeps columns of these names, and has such an end.
    roles
        The columns by their roles: ``label``, or ``label_0`` and so on, ``weight``, ``upper``; none without labels.
    by
        The columns of groups.
    names
        The names of columns that differ from the feature's name, by feature.
    """

    ensemble: Ensemble
    dialect: Dialect
    scored: Callable[[Sequence[str], End], str]
    roles: Mapping[str, str]
    by: Sequence[str] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.roles:
            return
        loss, n_targets = self.loss, sum(role.startswith("label") for role in self.roles)
        if n_targets != len(loss.labels):
            raise ParameterError(f"the model predicts {len(loss.labels)} targets, and target names {n_targets}")
        if ("upper" in loss.roles) != ("upper" in self.roles):
            how = "needs" if "upper" in loss.roles else "takes no"
            raise ParameterError(f"objective {shown(loss.name)} {how} label_upper_bound")

    @property
    def loss(self) -> Loss:
        """The loss, whose links are those of the predictions that metrics read."""
        loss, calibration = self.ensemble.loss, self.ensemble.calibration
        return loss if calibration is None else replace(loss, links=(calibration,), evaluated=None, link_terms=())

    @property
    def scores(self) -> tuple[str, ...]:
        """The names in expressions of the numbers that tell how likely each class is, of one or two of class 1."""
        if self.loss.classes and not self.loss.has_probabilities:
            return self.loss.margins
        return prediction_names(len(self.loss.evaluated or self.loss.links))

    @property
    def kept(self) -> list[str]:
        """The columns that the scoring query keeps."""
        return list(dict.fromkeys([*self.roles.values(), *self.by]))

    def query(self, then: Callable[[Rows], str]) -> str:
        """Return the query that goes on with labelled and scored rows."""

        def end(stages: Stages, values: Mapping[str, str]) -> str:
            return then(Rows.of(self, stages, *stages.rename_all(values)))

        return self.scored(self.kept, end)

    def metrics(self, eval_metric: object) -> list[AnyMetric]:
        """Return the metrics that are named, by default all that fit the objective.

        Raises
        ------
        ParameterError
            If SQL has no such metric: the message names those of the objective that it has.
        """
        metrics = evaluation_metrics(self.ensemble.loss, self.ensemble.parameters, eval_metric)
        if eval_metric is None and any(metric.name == "rmse" for metric in metrics) and len(self.loss.labels) == 1:
            metrics.append(r_squared())
        ranking = [metric.name for metric in metrics if is_ranking(metric)]
        if ranking:
            others = [name for name in METRICS if self._has(name)]
            raise ParameterError(
                f"a query has no metric {shown(ranking[0])}, as it ranks rows of equal scores by their order, and the "
                f"rows of a table have none; it has {listed(others, None)} and fb.Metric for this objective"
            )
        return metrics

    def _has(self, name: str) -> bool:
        try:
            evaluation_metrics(self.ensemble.loss, self.ensemble.parameters, name)
        except ParameterError:
            return False
        return True


class _Careful(InSql):
    """Writes expressions that are NULL, not an error of the database, where they are not defined."""

    def __init__(self, columns: Mapping[str, str], dialect: Dialect) -> None:
        super().__init__(columns, dialect)
        self._dialect = dialect
        self._zero, self._literals = dialect.number(0.0), set[str]()
        self.may_be_null = False

    def number(self, value: float) -> str:
        """Return a literal, by which can be divided."""
        text = super().number(value)
        if value:
            self._literals.add(text)
        return text

    def apply(self, function: str, *arguments: str) -> str:
        """Return a call or an operation."""
        if function == "/" and arguments[1] not in self._literals:
            self.may_be_null = True
            return f"({arguments[0]} / NULLIF({arguments[1]}, {self._zero}))"
        if function in ("LN", "SQRT"):
            self.may_be_null = True
            operator = ">" if function == "LN" else ">="
            call = super().apply(function, *arguments)
            return f"CASE WHEN {arguments[0]} {operator} {self._zero} THEN {call} END"
        return super().apply(function, *arguments)


@dataclass
class Rows:
    """Scored rows as the last of some stages, with columns by what expressions call them.

    Attributes
    ----------
    loss
        The loss of the model.
    dialect
        Whose SQL.
    stages
        The stages.
    known
        The columns, or literals, by name: labels, weight, margins, and what has been defined since.
    by
        The columns of groups, quoted.
    is_known, is_valid
        The conditions that a row has a label, and that metrics are defined for it.
    """

    loss: Loss
    dialect: Dialect
    stages: Stages
    known: dict[str, str]
    by: list[str]
    is_known: str = ""
    is_valid: str = ""

    @staticmethod
    def of(table: LabelledTable, stages: Stages, kept: Mapping[str, str], margins: Mapping[str, str]) -> Rows:
        """Return the rows with their labels and predictions as columns."""
        loss, dialect = table.loss, table.dialect
        known = dict(zip(loss.margins, margins.values(), strict=True))
        values = {role: _number(kept[name], dialect) for role, name in table.roles.items()}
        if table.ensemble.labels and values:
            values["label"] = _code(kept[table.roles["label"]], table.roles["label"], table.ensemble, dialect)
        known |= {"weight": dialect.number(1.0)} | (stages.name(values) if values else {})
        rows = Rows(loss, dialect, stages, known, [kept[name] for name in table.by])
        rows._mark(table)
        for stage in loss.link_terms:
            rows.define(stage, often=True)
        links = loss.evaluated or loss.links
        rows.define(dict(zip(prediction_names(len(links)), links, strict=True)))
        return rows

    def _mark(self, table: LabelledTable) -> None:
        """Add the stage that says which rows count, and has no labels of others: a square of them may be an error."""
        labels = self.loss.labels if table.roles else ()
        is_known = " AND ".join(f"{self.known[label]} IS NOT NULL" for label in labels) or "1 = 0"
        is_valid = " AND ".join(self._conditions(table)) if labels else "1 = 1"
        values = {"known": f"CASE WHEN {is_known} THEN 1 ELSE 0 END"}
        values["valid"] = f"CASE WHEN {is_known} AND {is_valid} THEN 1 ELSE 0 END"
        values |= {label: f"CASE WHEN {is_known} AND {is_valid} THEN {self.known[label]} END" for label in labels}
        marked = self.stages.name(values)
        self.is_known, self.is_valid = f"{marked['known']} = 1", f"{marked['valid']} = 1"
        self.known |= {label: marked[label] for label in labels}

    def _conditions(self, table: LabelledTable) -> list[str]:
        """Return the conditions under which `Model.evaluate` takes a row that has a label."""
        conditions = []
        for label in self.loss.labels:
            conditions.append(self.sql(Expression(f"ABS(label) <= {_LARGEST!r}", ("label",)).renamed({"label": label})))
            if self.loss.label_condition is not None:
                conditions.append(self.sql(self.loss.label_condition.renamed({"label": label})))
        if "weight" in table.roles:
            weight, columns = f"weight >= 0 AND weight <= {_LARGEST!r}", ("weight",)
            conditions.append(self.sql(Expression(weight, columns)))
        if table.ensemble.offset is not None:
            conditions += [f"{self.known[margin]} IS NOT NULL" for margin in self.loss.margins]
        return conditions

    def sql(self, expression: Expression) -> str:
        """Return an expression over the columns."""
        return expression.fold(_Careful(self.known, self.dialect))

    def if_valid(self, value: str) -> str:
        """Return a value that is NULL in rows that metrics are not of."""
        return f"CASE WHEN {self.is_valid} THEN {value} END"

    def columns_of(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Add a stage of expressions, each once, unless there is none; return their columns.

        Aggregates are of columns: DataFusion takes those of two expressions for one that differ in parentheses only.
        """
        new = {text: str(number) for number, text in enumerate(dict.fromkeys(texts.values()))}
        names = self.stages.name({key: text for text, key in new.items()}) if new else {}
        return {name: names[new[text]] for name, text in texts.items()}

    def define(self, expressions: Mapping[str, Expression], *, often: bool = False) -> None:
        """Add a stage of expressions, which those after it may name."""
        texts = {name: self.sql(expression) for name, expression in expressions.items()}
        new = {name: text for name, text in texts.items() if text not in self.known.values()}
        self.known |= texts | (self.stages.name(new, often=often) if new else {})

    def aggregated(self, aggregates: Mapping[str, str]) -> dict[str, str]:
        """Add the stage of aggregates by group, each text once, and return their columns by name."""
        once = {text: str(number) for number, text in enumerate(dict.fromkeys(aggregates.values()))}
        columns = self.stages.aggregate({key: text for text, key in once.items()}, self.by)
        return {name: columns[once[text]] for name, text in aggregates.items()}

    # --- windows ------------------------------------------------------------------------------------------------------

    def over(self, value: str, *columns: str, order: str = "", frame: str = "") -> str:
        """Return an aggregate over the rows of a row's group that have its values of columns."""
        return over(value, [*self.by, *columns], order, frame)

    def running(self, orders: Sequence[tuple[str, Mapping[str, str]]]) -> list[dict[str, str]]:
        """Add stages of sums by rank; return the columns for each of the orders, in which values are summed.

        An order ends in ASC or DESC. For each value, a column, there is ``<name>_above``, the sum over rows that come
        before all rows of the same rank, ``<name>`` over the rows of the rank, ``<name>_total`` over all, and ``ties``,
        the number of rows of the rank that have the last value.
        """
        before = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
        zero, first, second = self.dialect.number(0.0), dict[str, str](), dict[str, str]()
        for number, (order, values) in enumerate(orders):
            first[f"{number} rank"] = self.over("RANK()", order=order)
            for name, value in values.items():
                summed = self.over(f"SUM({value})", order=order, frame=before)
                first[f"{number} {name}"] = f"COALESCE({summed}, {zero})"
        named = self.columns_of(first)
        for number, (_, values) in enumerate(orders):
            rank = named[f"{number} rank"]
            for name, value in values.items():
                second |= {
                    f"{number} {name}_above": self.over(f"MIN({named[f'{number} {name}']})", rank),
                    f"{number} {name}": f"COALESCE({self.over(f'SUM({value})', rank)}, {zero})",
                    f"{number} {name}_total": f"COALESCE({self.over(f'SUM({value})')}, {zero})",
                    f"{number} ties": self.over(f"COUNT({value})", rank),
                }
        found: list[dict[str, str]] = [{} for _ in orders]
        for key, column in self.columns_of(second).items():
            index, _, name = key.partition(" ")
            found[int(index)][name] = column
        return found

    # --- metrics ------------------------------------------------------------------------------------------------------

    def define_terms(self, terms: Mapping[str, Term]) -> None:
        """Add stages of the terms of a metric."""
        for name, term in terms.items():
            if isinstance(term, Expression):
                self.define({name: term})
            elif isinstance(term, Ratio):
                texts = {
                    "above": self.if_valid(self.sql(term.numerator)),
                    "below": self.if_valid(self.sql(term.denominator)),
                }
                above, below = (self.over(f"SUM({column})") for column in self.columns_of(texts).values())
                self.known |= self.stages.name({name: f"{above} / NULLIF({below}, {self.dialect.number(0.0)})"})
            elif isinstance(term, RunningSum):
                texts = {"value": self.if_valid(self.sql(term.value)), "order": self.sql(term.order)}
                columns = self.columns_of(texts)
                order = f"{columns['order']} {'DESC' if term.descending else 'ASC'}"
                [sums] = self.running([(order, {"value": columns["value"]})])
                self.known |= self.stages.name({name: f"{sums['value_above']} + {sums['value']}"})
            else:
                raise ParameterError(f"a query has no such term of a metric as {shown(name)}")

    def counts(self) -> dict[str, str]:
        """Return the aggregates that count rows with and without a label, and those that metrics are not defined of."""
        count = self.dialect.statements.count[1]
        texts = {
            "rows": self.is_known,
            "unlabelled": f"NOT ({self.is_known})",
            "invalid": f"{self.is_known} AND NOT ({self.is_valid})",
        }
        return {name: f"COALESCE({count.format(c=text)}, 0)" for name, text in texts.items()}

    def measures(self, metrics: Sequence[AnyMetric]) -> list[Measure]:
        """Add stages of what the metrics aggregate; return these, and their values over them."""
        drafts = {each.name: self._sums(each) for each in metrics if isinstance(each, Metric)}
        texts = {f"{name} {key}": text for name, draft in drafts.items() for key, text in draft.of_rows.items()}
        columns = self.columns_of(texts)
        curves = self._curves([each for each in metrics if isinstance(each, CurveMetric)])
        made = {
            name: draft.measure({key: columns[f"{name} {key}"] for key in draft.of_rows})
            for name, draft in drafts.items()
        }  # fmt: skip
        return [(made | curves)[metric.name] for metric in metrics]

    def _sums(self, metric: Metric) -> _Draft:
        known = dict(self.known)
        self.define_terms(metric.terms)
        aggregates, outer = metric.parts
        of_rows, checked = {}, list[str]()
        for name, (function, expression) in aggregates.items():
            writer = _Careful(self.known, self.dialect)
            of_rows[name] = self.if_valid("1" if function == "count" else expression.fold(writer))
            if writer.may_be_null:
                checked.append(name)
        self.known = known  # the terms of one metric may have names of another's
        functions = {name: function for name, (function, _) in aggregates.items()}
        return _Draft(metric.name, of_rows, functions, checked, outer, self.dialect)

    def _curves(self, metrics: Sequence[CurveMetric]) -> dict[str, Measure]:
        """Return the areas under curves: each row has its part of what its rank adds."""
        sides, zero = ("positive", "negative"), self.dialect.number(0.0)
        scores = {score: of_score for metric in metrics for score, *of_score in metric.scores}
        if not scores:
            return {}
        texts = {
            f"{side} {score.text}": self.if_valid(self.sql(part))
            for score, parts in scores.items()
            for side, part in zip(sides, parts, strict=True)
        }
        columns = self.columns_of(texts)
        of_score = {score: {side: columns[f"{side} {score.text}"] for side in sides} for score in scores}
        orders = [(f"{self.sql(score)} DESC", values) for score, values in of_score.items()]
        sums = dict(zip(scores, self.running(orders), strict=True))
        areas = self.columns_of({
            f"{metric.name} {score.text}": self.if_valid(
                f"{metric.area.fold(_Careful(sums[score], self.dialect))} / NULLIF({sums[score]['ties']}, 0)"
            )
            for metric in metrics
            for score, *_ in metric.scores
        })  # fmt: skip

        def measure(metric: CurveMetric) -> Measure:
            aggregates = {}
            for k, (score, *_) in enumerate(metric.scores):
                aggregates[f"area_{k}"] = f"SUM({areas[f'{metric.name} {score.text}']})"
                aggregates |= {f"{side}_{k}": f"SUM({of_score[score][side]})" for side in sides}

            def value(columns: Mapping[str, str], rows: str) -> str:
                parts, shares = [], []
                for k in range(len(metric.scores)):
                    totals = {f"{side}_total": columns[f"{side}_{k}"] for side in sides}
                    total = metric.total.fold(_Careful(totals, self.dialect))
                    by_share = metric.by_share and len(metric.scores) > 1
                    shares.append(columns[f"positive_{k}"] if by_share else self.dialect.number(1.0))
                    parts.append(f"{shares[-1]} * {columns[f'area_{k}']} / NULLIF({total}, {zero})")
                return f"({' + '.join(parts)}) / NULLIF({' + '.join(shares)}, {zero})"

            return Measure(metric.name, aggregates, value)

        return {metric.name: measure(metric) for metric in metrics}


@dataclass(frozen=True)
class _Draft:
    """A metric of aggregates, with what is aggregated as expressions over rows, by the aggregates' names.

    Those of ``checked`` may be NULL in rows that the metric is not defined for.
    """

    name: str
    of_rows: Mapping[str, str]
    functions: Mapping[str, str]
    checked: Sequence[str]
    outer: Expression
    dialect: Dialect

    def measure(self, columns: Mapping[str, str]) -> Measure:
        """Return the measure over the columns of these expressions."""
        called = {"avg": "SUM", "count": "COUNT"}
        texts = {name: f"{called.get(f, f.upper())}({columns[name]})" for name, f in self.functions.items()}
        counts = {name for name, function in self.functions.items() if function == "count"}
        aggregates = {
            name: self.dialect.cast(text, "float64") if name in counts else text for name, text in texts.items()
        }
        aggregates |= {f"{name}_known": f"COUNT({columns[name]})" for name in self.checked}
        return Measure(self.name, aggregates, self._value)

    def _value(self, columns: Mapping[str, str], rows: str) -> str:
        zero, known = self.dialect.number(0.0), dict(columns)
        for name, function in self.functions.items():
            if function == "avg":
                known[name] = f"({columns[name]} / NULLIF({columns[f'{name}_count']}, {zero}))"
        text = self.outer.fold(_Careful(known, self.dialect))
        complete = " AND ".join(f"{columns[f'{name}_known']} = {rows}" for name in self.checked)
        return f"CASE WHEN {complete} THEN {text} END" if complete else text


@dataclass(frozen=True)
class Measure:
    """A number of a group: aggregates by name, and the value over their columns and the column of the rows' number."""

    name: str
    aggregates: Mapping[str, str]
    value: Callable[[Mapping[str, str], str], str]


def over(value: str, partition: Sequence[str], order: str = "", frame: str = "") -> str:
    """Return a window function."""
    parts = [
        f"PARTITION BY {', '.join(partition)}" if partition else "",
        f"ORDER BY {order}" if order else "",
        frame,
    ]
    return f"{value} OVER ({' '.join(filter(None, parts))})"


def _number(column: str, dialect: Dialect) -> str:
    """Return a column as a float64, NULL where it is NaN."""
    number, is_number = dialect.cast(column, "float64"), dialect.expressions.is_number
    return number if is_number is None else f"CASE WHEN {is_number.format(x=number)} THEN {number} END"


def _code(column: str, name: str, ensemble: Ensemble, dialect: Dialect) -> str:
    """Return the number of a label, -1 of a string that is none of the labels."""
    labels = [label for label in ensemble.labels if isinstance(label, str)]
    if labels:
        target = FeatureColumn(Feature(name, FeatureType("string"), tuple(labels)), dialect, column)
        return dialect.cast(target.code(range(len(labels))), "float64")
    is_true, is_false = (test.format(x=column) for test in (dialect.expressions.is_true, dialect.expressions.is_false))
    return f"CASE WHEN {is_true} THEN {dialect.number(1.0)} WHEN {is_false} THEN {dialect.number(0.0)} END"


# --- metrics ----------------------------------------------------------------------------------------------------------


def evaluation_query(
    table: LabelledTable, kind: str, eval_metric: object, bins: int, thresholds: Sequence[float]
) -> str:
    """Return the SELECT that `DatabaseModel.evaluate_query` describes."""
    if kind == "metrics":
        check_by(table.by, (*_COUNTS, "metric", "value"), table.dialect)
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
    elif len(scores) > 1 and not table.loss.classes:
        raise ParameterError("kind='calibration' is for models of one output or of classes")
    check_by(table.by, columns if len(scores) == 1 else ("class", *columns), table.dialect)
    return table.query(lambda rows: _OF_SCORES[kind](_scores(table, rows, scores), columns, bins, thresholds))


def check_by(by: Sequence[str], taken: Sequence[str], dialect: Dialect) -> None:
    """Raise `ParameterError` if the result would have two columns of one name."""
    names: list[str] = list(taken)
    for name in by:
        known = [other.lower() if dialect.names.any_case else other for other in names]
        if (name.lower() if dialect.names.any_case else name) in known:
            raise ParameterError(
                f"by column {shown(name)} has the name of another column of the result, which has "
                f"{listed(taken, None)} besides; leave it out, or rename it in a view"
            )
        names.append(name)


def _metrics(table: LabelledTable, rows: Rows, metrics: Sequence[AnyMetric]) -> str:
    """Return the query that ends in a row for each group and metric."""
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
    counts = {name: rows.dialect.cast(columns[name], "int64") for name in _COUNTS}
    return long_rows(rows, table.by, counts, ["metric"], described, {"value": list(named.values())})


def long_rows(
    rows: Rows, by: Sequence[str], counts: Mapping[str, str], names: Sequence[str],
    described: Sequence[Sequence[str]], values: Mapping[str, Sequence[str]],
) -> str:  # fmt: skip
    """Return the query that makes a row for each of ``described`` of each row of the last stage, in order.

    Parameters
    ----------
    by
        The names of the columns of groups in the result.
    counts
        Further columns by name, the same in each row of a group.
    names, described
        The names of columns of literals, and the literals of each row.
    values
        By name, columns of the last stage, one for each row.
    """
    texts, source, place = _long(rows, counts, names, described, values)
    quoted = map(rows.dialect.quote, [*by, *counts, *names, *values])
    columns = ", ".join(f"{text} AS {name}" for text, name in zip(texts, quoted, strict=True))
    order = ", ".join(f"{column} ASC" for column in [*rows.by, place])
    return rows.stages.finish(f"SELECT {columns}\n{source}\nORDER BY {order}")


def long_stage(
    rows: Rows, names: Sequence[str], described: Sequence[Sequence[str]], values: Mapping[str, Sequence[str]]
) -> list[str]:
    """Add a stage of the rows of `long_rows`, and return the columns of groups, of literals and of values."""
    texts, source, _ = _long(rows, {}, names, described, values)
    new = rows.stages.reserve(len(texts))
    columns = ", ".join(f"{text} AS {name}" for text, name in zip(texts, new, strict=True))
    rows.stages.reduce(f"SELECT {columns}\n{source}", new, [])
    return new


def _long(
    rows: Rows, counts: Mapping[str, str], names: Sequence[str], described: Sequence[Sequence[str]],
    values: Mapping[str, Sequence[str]],
) -> tuple[list[str], str, str]:  # fmt: skip
    """Return the columns of long rows, what they are read from, and the number of a row within its group."""
    dialect = rows.dialect
    place, *literals = rows.stages.reserve(1 + len(names))
    constants = dialect.constant_rows([[str(number), *row] for number, row in enumerate(described)], [place, *literals])
    columns = [*rows.by, *counts.values(), *(f"b.{name}" for name in literals)]
    for of_rows in values.values():
        whens = " ".join(f"WHEN {number} THEN {column}" for number, column in enumerate(of_rows))
        columns.append(f"CASE b.{place} {whens} END")
    source = f"{rows.stages.source('a')}\nCROSS JOIN (\n{constants}\n) {dialect.statements.alias}b"
    return columns, source, f"b.{place}"


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
        raise ParameterError(f"kind={kind!r} is for models of classes, and this one predicts numbers")


@dataclass(frozen=True)
class _Scores:
    """Rows with a label and a weight above 0, once for each class if there are more than two.

    Attributes
    ----------
    rows
        The rows; their groups have the class as the last column where there are several.
    label, score, weight
        Columns; of classes the label is 1 or 0.
    keys
        The columns of groups, and of the class, by their names in the result.
    """

    rows: Rows
    label: str
    score: str
    weight: str
    keys: Mapping[str, str]

    def select(self, columns: Mapping[str, str], order: str) -> str:
        """Return the query that ends in these columns behind the keys."""
        quote, stages = self.rows.dialect.quote, self.rows.stages
        listed = [f"{column} AS {quote(name)}" for name, column in {**self.keys, **columns}.items()]
        ordered = ", ".join(f"{column} ASC" for column in [*self.rows.by, order])
        return stages.finish(f"SELECT {', '.join(listed)}\n{stages.source()}\nORDER BY {ordered}")


def _counted(rows: Rows) -> str:
    """Return the condition on rows that tables are of."""
    return f"{rows.is_valid} AND {rows.known['weight']} > {rows.dialect.number(0.0)}"


def _scores(table: LabelledTable, rows: Rows, scores: Sequence[str]) -> _Scores:
    """Add the stage of the rows by class."""
    dialect, stages, known = rows.dialect, rows.stages, rows.known
    label, score, weight, number, name = stages.reserve(5)
    if len(scores) == 1:
        columns = [f"{known['label']} AS {label}", f"{known[scores[0]]} AS {score}", f"{known['weight']} AS {weight}"]
        query = f"SELECT {', '.join([*rows.by, *columns])}\n{stages.source()}\nWHERE {_counted(rows)}"
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
    query = f"SELECT {', '.join([*rows.by, *columns])}\n{stages.source('a')}\n"
    query += f"CROSS JOIN (\n{classes}\n) {dialect.statements.alias}b\nWHERE {_counted(rows)}"
    stages.reduce(query, [*rows.by, number, name], [label, score, weight])
    keys = {**dict(zip(table.by, rows.by, strict=True)), "class": name}
    return _Scores(replace(rows, by=[*rows.by, number, name]), label, score, weight, keys)


def _bins(of: _Scores, bins: int, direction: str) -> str:
    """Add stages of the number of a row's bin, from 0, of as equal weights as equal scores allow; return its column.

    The middle of each score on the axis of the cumulative weight decides, as in `calibration_curve`.
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
    """Return the query of the weights by actual and predicted class."""
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
    query = f"SELECT {', '.join([*rows.by, *columns])}\n{stages.source()}\n"
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
    return stages.finish(f"SELECT {', '.join(listed)}\n{stages.source()}\nORDER BY {order}")


# --- two models on the same rows --------------------------------------------------------------------------------------

# A metric that is a function of a mean, as an expression over the sums of losses and of weights: its value over the
# mean {m}, and the derivative there.
_OF_MEANS = {
    "aggregate_0 / aggregate_1": ("{m}", "{one}"),
    "2 * aggregate_0 / aggregate_1": ("({two} * {m})", "{two}"),
    "SQRT(aggregate_0 / aggregate_1)": ("SQRT({m})", "({one} / NULLIF({two} * SQRT({m}), {zero}))"),
}
_COMPARED = ("champion", "challenger", "difference", "standard_error", "low", "high")


def comparison_query(
    first: LabelledTable, second: Callable[[Mapping[str, str], Sequence[str], Stages, End], str],
    others: Sequence[str], challenger: LabelledTable, eval_metric: object,
) -> str:  # fmt: skip
    """Return the SELECT that `DatabaseModel.compare_query` describes.

    Parameters
    ----------
    first
        The table with its champion.
    second
        Returns the query that goes on with the rows scored by the challenger as well, of the columns of the stages
        before by their names in the table, the names of those to keep, and the stages.
    others
        The columns that the challenger reads.
    challenger
        The same table with the challenger.
    """
    check_by(first.by, (*_COUNTS, "metric", *_COMPARED), first.dialect)
    if {type(label) for label in first.ensemble.labels} != {type(label) for label in challenger.ensemble.labels}:
        raise ParameterError("the models have classes of different kinds (numbers, strings or Booleans)")
    pairs = _pairs(first, challenger, eval_metric)
    keep = list(dict.fromkeys([*first.kept, *others]))

    def end(stages: Stages, values: Mapping[str, str]) -> str:
        kept, margins = stages.rename_all(values)
        # By their names in the stages, without quotes.
        roles = {name: kept[name][1:-1] for name in first.kept}
        scores = {name: column[1:-1] for name, column in margins.items()}

        def end_of_both(stages: Stages, values: Mapping[str, str]) -> str:
            columns, of_second = stages.rename_all(values)
            still, of_first = ({name: columns[old] for name, old in olds.items()} for olds in (roles, scores))
            one, two = Rows.of(first, stages, still, of_first), Rows.of(challenger, stages, still, of_second)
            return _compared(one, two, first.by, pairs)

        return second(kept, [*roles.values(), *scores.values()], stages, end_of_both)

    return first.scored(keep, end)


def _pairs(first: LabelledTable, second: LabelledTable, eval_metric: object) -> list[tuple[Metric, Metric]]:
    """Return the metrics that both models have and that are functions of means.

    Raises
    ------
    ParameterError
        If one that is named is none, or there is none.
    """
    of_first, of_second = (
        {each.name: each for each in table.metrics(eval_metric) if _is_of_mean(each)} for table in (first, second)
    )
    both = [name for name in of_first if name in of_second]
    named = [] if eval_metric is None else [each.name for each in first.metrics(eval_metric)]
    wrong = next((name for name in named if name not in both), None)
    if wrong is not None or not both:
        known = [name for name in METRICS if all(_is_comparable(name, table) for table in (first, second))]
        raise ParameterError(
            f"the models can't be compared by {shown(wrong or of_first or 'a metric of both')}, which is no mean over "
            f"rows; a query has the differences of {listed(known, None) or 'none'}"
        )
    return [(of_first[name], of_second[name]) for name in both]  # type: ignore[misc]


def _is_of_mean(metric: AnyMetric) -> bool:
    return isinstance(metric, Metric) and metric.name != "r2" and metric.parts[1].text in _OF_MEANS


def _is_comparable(name: str, table: LabelledTable) -> bool:
    try:
        return all(map(_is_of_mean, table.metrics(name)))
    except ParameterError:
        return False


def _compared(first: Rows, second: Rows, by: Sequence[str], pairs: Sequence[tuple[Metric, Metric]]) -> str:
    """Return the query that ends in a row for each group and metric.

    The difference of two metrics is, up to terms of higher order, the mean of u = f'(m₂) (l₂ − m₂) − f'(m₁) (l₁ − m₁),
    l the losses of a row, m their means, and f the function of the mean. So its variance is Σ (w u)² / (Σ w)², times
    n / (n − 1) of n rows, for weights w.
    """
    dialect, stages = first.dialect, first.stages
    numbers = {name: dialect.number(value) for name, value in {"zero": 0.0, "one": 1.0, "two": 2.0}.items()}
    zero, weight = numbers["zero"], first.known["weight"]
    first.is_valid = second.is_valid = f"{first.is_valid} AND {second.is_valid}"
    total = first.over(f"SUM({first.if_valid(weight)})")
    aggregates = {**first.counts(), "n": f"COUNT({first.if_valid(f'NULLIF({weight}, {zero})')})",
                  "weight": f"SUM({first.if_valid(weight)})"}  # fmt: skip
    for number, pair in enumerate(pairs):
        terms = {}
        for key, rows, metric in zip("ab", (first, second), pair, strict=True):
            before = dict(rows.known)
            rows.define_terms(metric.terms)
            terms[key] = rows.if_valid(rows.sql(metric.parts[0]["aggregate_0"][1]))
            rows.known = before
        losses = stages.name(terms)
        means = stages.name({
            key: f"{first.over(f'SUM({loss})')} / NULLIF({total}, {zero})" for key, loss in losses.items()
        })  # fmt: skip
        parts = []
        for key, metric in zip("ab", pair, strict=True):
            slope = _OF_MEANS[metric.parts[1].text][1].format(m=means[key], **numbers)
            parts.append(f"{slope} * ({losses[key]} - {weight} * {means[key]})")
        change = stages.name({"change": f"{parts[1]} - {parts[0]}"})["change"]
        aggregates |= {f"{number} {key}": f"SUM({loss})" for key, loss in losses.items()}
        aggregates |= {f"{number} values": f"COUNT({change})", f"{number} squares": f"SUM({change} * {change})"}
        aggregates |= {f"{number} {key} values": f"COUNT({loss})" for key, loss in losses.items()}
    columns = first.aggregated(aggregates)
    values: dict[str, list[str]] = {name: [] for name in _COMPARED}
    for number, pair in enumerate(pairs):
        of_pair = {key: columns[f"{number} {key}"] for key in ("a", "b", "values", "squares", "a values", "b values")}
        weights, n, defined = columns["weight"], columns["n"], f"{columns['invalid']} = 0"
        named = {}
        for key, metric in zip("ab", pair, strict=True):
            template, mean = _OF_MEANS[metric.parts[1].text][0], f"({of_pair[key]} / NULLIF({weights}, {zero}))"
            complete = f"{defined} AND {of_pair[f'{key} values']} = {columns['rows']}"
            named[key] = f"CASE WHEN {complete} THEN {template.format(m=mean, **numbers)} END"
        variance = f"{of_pair['squares']} / NULLIF({weights} * {weights}, {zero})"
        variance = f"{variance} * ({numbers['one']} * {n} / NULLIF({n} - 1, 0))"
        named["error"] = f"CASE WHEN {defined} AND {of_pair['values']} = {columns['rows']} THEN SQRT({variance}) END"
        got = stages.name(named)
        difference, reach = f"{got['b']} - {got['a']}", f"{dialect.number(_OF_95_PERCENT)} * {got['error']}"
        texts = [got["a"], got["b"], difference, got["error"], f"{difference} - {reach}", f"{difference} + {reach}"]
        for name, text in zip(_COMPARED, texts, strict=True):
            values[name].append(text)
    described = [[dialect.string(metric.name)] for metric, _ in pairs]
    counts = {name: dialect.cast(columns[name], "int64") for name in _COUNTS}
    return long_rows(first, by, counts, ["metric"], described, values)
