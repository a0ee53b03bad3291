"""Labelled and scored rows as stages of a query: the inputs of metrics, their aggregates, and long results.

The stages of the scoring query score the rows once. Later stages work on the margins: the predictions, the terms of
metrics (`frameboost.metrics.metric`, the expressions that Python evaluates too), window functions for what depends on
an order, and aggregates by group.

A query can't raise errors like `Model.evaluate`. Rows without a label are counted and skipped, and a metric is NULL if
a label, a weight or an offset is invalid.

Running sums use ROWS frames, as Redshift has no RANGE frames: the sum above a rank is the minimum over its rows.
Windows are partitioned by ranks, as BigQuery can't partition by floats.
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
from frameboost.metrics.functions import FunctionMetric
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

__all__ = ["COUNTS", "End", "LabelledTable", "Measure", "Rows", "check_by", "long_rows", "long_stage"]

# Beyond it labels and weights are none, as in training, nor are offsets: squares of them would overflow.
_LARGEST = 1e150
COUNTS = ("rows", "unlabelled", "invalid")
# The end of a query over its stages and the margins by name.
End = Callable[[Stages, Mapping[str, str]], str]


@dataclass(frozen=True)
class LabelledTable:
    """Labelled rows of a table, and the model to evaluate on them.

    Attributes
    ----------
    ensemble, dialect
        The model and the database.
    scored
        A function that returns the scoring query with margins, these kept columns, and this end.
    roles
        The columns by role: ``label``, or ``label_0`` and so on, ``weight``, ``upper``; empty without labels.
    by
        The columns of groups.
    names
        The column names that differ from the feature's name, by feature.
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
        """The loss; its links define the predictions that metrics read."""
        loss, calibration = self.ensemble.loss, self.ensemble.calibration
        return loss if calibration is None else replace(loss, links=(calibration,), evaluated=None, link_terms=())

    @property
    def scores(self) -> tuple[str, ...]:
        """The names in expressions of the score of each class, for one or two classes that of class 1."""
        if self.loss.classes and not self.loss.has_probabilities:
            return self.loss.margins
        return prediction_names(len(self.loss.evaluated or self.loss.links))

    @property
    def kept(self) -> list[str]:
        """The columns that the scoring query keeps."""
        return list(dict.fromkeys([*self.roles.values(), *self.by]))

    def query(self, then: Callable[[Rows], str]) -> str:
        """Return the query that continues with labelled and scored rows."""

        def end(stages: Stages, values: Mapping[str, str]) -> str:
            return then(Rows.of(self, stages, *stages.rename_all(values)))

        return self.scored(self.kept, end)

    def metrics(self, eval_metric: object) -> list[AnyMetric]:
        """Return the named metrics, by default all that fit the objective.

        Raises
        ------
        ParameterError
            If a metric is not available in SQL; the message lists those for the objective.
        """
        metrics = evaluation_metrics(self.ensemble.loss, self.ensemble.parameters, eval_metric)
        if eval_metric is None and any(metric.name == "rmse" for metric in metrics) and len(self.loss.labels) == 1:
            metrics.append(r_squared())
        for metric in metrics:
            if isinstance(metric, FunctionMetric):
                raise ParameterError(
                    f"eval_metric {shown(metric.name)} is a Python function, which a query can't call; write it as "
                    "SQL: fb.Metric(name, sql)"
                )
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
    """Writes expressions that are NULL, instead of a database error, where they are undefined."""

    def __init__(self, columns: Mapping[str, str], dialect: Dialect) -> None:
        super().__init__(columns, dialect)
        self._dialect = dialect
        self._zero, self._literals = dialect.number(0.0), set[str]()
        self.may_be_null = False

    def number(self, value: float) -> str:
        """Return a literal that is safe as a divisor."""
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
    """Scored rows as the last of some stages, with named columns.

    Attributes
    ----------
    loss
        The loss of the model.
    dialect
        The SQL dialect.
    stages
        The stages.
    known
        The columns or literals by name: labels, weight, margins, and later definitions.
    by
        The group columns, quoted.
    is_known, is_valid
        The conditions that a row has a label, and that it is valid for metrics.
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
        values = {role: _number(kept[name], role, table) for role, name in table.roles.items()}
        known |= {"weight": dialect.number(1.0)} | (stages.name(values) if values else {})
        rows = Rows(loss, dialect, stages, known, [kept[name] for name in table.by])
        rows._mark(table)
        for stage in loss.link_terms:
            rows.define(stage, often=True)
        links = loss.evaluated or loss.links
        rows.define(dict(zip(prediction_names(len(links)), links, strict=True)))
        return rows

    def _mark(self, table: LabelledTable) -> None:
        """Add the stage that marks valid rows and blanks the labels of others, on which expressions may fail."""
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
        """Return the conditions under which `Model.evaluate` accepts a labelled row."""
        conditions = []
        for label in self.loss.labels:
            conditions.append(self.sql(Expression(f"ABS(label) <= {_LARGEST!r}", ("label",)).renamed({"label": label})))
            if self.loss.label_condition is not None:
                conditions.append(self.sql(self.loss.label_condition.renamed({"label": label})))
        if "weight" in table.roles:
            weight, columns = f"weight >= 0 AND weight <= {_LARGEST!r}", ("weight",)
            conditions.append(self.sql(Expression(weight, columns)))
        if table.ensemble.offset is not None:
            is_finite = f"ABS(margin) <= {_LARGEST!r}"
            conditions += [
                self.sql(Expression(is_finite, ("margin",)).renamed({"margin": margin})) for margin in self.loss.margins
            ]
        return conditions

    def sql(self, expression: Expression) -> str:
        """Return an expression over the columns."""
        return expression.fold(_Careful(self.known, self.dialect))

    def if_valid(self, value: str) -> str:
        """Return a value that is NULL in invalid rows."""
        return f"CASE WHEN {self.is_valid} THEN {value} END"

    def columns_of(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Add a stage of distinct expressions, if there are any; return their columns.

        Aggregates read columns, as DataFusion confuses aggregates of expressions that differ only in parentheses.
        """
        new = {text: str(number) for number, text in enumerate(dict.fromkeys(texts.values()))}
        names = self.stages.name({key: text for text, key in new.items()}) if new else {}
        return {name: names[new[text]] for name, text in texts.items()}

    def define(self, expressions: Mapping[str, Expression], *, often: bool = False) -> None:
        """Add a stage of expressions under names for later stages."""
        texts = {name: self.sql(expression) for name, expression in expressions.items()}
        new = {name: text for name, text in texts.items() if text not in self.known.values()}
        self.known |= texts | (self.stages.name(new, often=often) if new else {})

    def aggregated(self, aggregates: Mapping[str, str]) -> dict[str, str]:
        """Add the stage of distinct aggregates by group, and return their columns by name."""
        once = {text: str(number) for number, text in enumerate(dict.fromkeys(aggregates.values()))}
        columns = self.stages.aggregate({key: text for text, key in once.items()}, self.by)
        return {name: columns[once[text]] for name, text in aggregates.items()}

    # --- windows ------------------------------------------------------------------------------------------------------

    def over(self, value: str, *columns: str, order: str = "", frame: str = "") -> str:
        """Return an aggregate over the rows of the same group with equal values of columns."""
        parts = [self.dialect.expressions.part.format(x=column) for column in self.by]
        return over(value, [*parts, *columns], order, frame)

    def running(self, orders: Sequence[tuple[str, Mapping[str, str]]]) -> list[dict[str, str]]:
        """Add stages of running sums by rank; return the columns for each order.

        An order ends in ASC or DESC. Each value, a column, has ``<name>_above``, the sum over rows before the rank,
        ``<name>``, the sum over the rank, ``<name>_total``, the sum over all rows; ``ties`` is the number of rows of
        the rank with the last value.
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
                    f"{number} ties": self.over(self.dialect.call("COUNT", [value]), rank),
                }
        columns: list[dict[str, str]] = [{} for _ in orders]
        for key, column in self.columns_of(second).items():
            index, _, name = key.partition(" ")
            columns[int(index)][name] = column
        return columns

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
                raise ParameterError(f"a query can't compute the term {shown(name)} of a metric")

    def counts(self) -> dict[str, str]:
        """Return the aggregates that count labelled, unlabelled and invalid rows."""
        count = self.dialect.statements.count[1]
        texts = {
            "rows": self.is_known,
            "unlabelled": f"NOT ({self.is_known})",
            "invalid": f"{self.is_known} AND NOT ({self.is_valid})",
        }
        return {name: f"COALESCE({count.format(c=text)}, 0)" for name, text in texts.items()}

    def measures(self, metrics: Sequence[AnyMetric]) -> list[Measure]:
        """Add stages of the inputs of metrics' aggregates; return the aggregates, and the values over them."""
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
        """Return the areas under curves, from each row's share of its rank's term."""
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
    """A metric of aggregates, with the aggregated expressions over rows by the aggregates' names.

    Those in ``checked`` may be NULL in rows for which the metric is undefined.
    """

    name: str
    of_rows: Mapping[str, str]
    functions: Mapping[str, str]
    checked: Sequence[str]
    outer: Expression
    dialect: Dialect

    def measure(self, columns: Mapping[str, str]) -> Measure:
        """Return the measure over the columns of these expressions."""
        call = self.dialect.call
        texts = {name: call("SUM" if f == "avg" else f.upper(), [columns[name]]) for name, f in self.functions.items()}
        counts = {name for name, function in self.functions.items() if function == "count"}
        aggregates = {
            name: self.dialect.cast(text, "float64") if name in counts else text for name, text in texts.items()
        }
        aggregates |= {f"{name}_known": call("COUNT", [columns[name]]) for name in self.checked}
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
    """A number per group: aggregates by name, and the value over their columns and the row count."""

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


def _number(column: str, role: str, table: LabelledTable) -> str:
    """Return a column of labels or weights as float64: NULL for NaN, and -1 for an unknown string label."""
    dialect, labels, is_label = table.dialect, table.ensemble.labels, role.startswith("label")
    names = tuple(label for label in labels if isinstance(label, str))
    if is_label and names:
        target = FeatureColumn(Feature(table.roles[role], FeatureType("string"), names), dialect, column)
        return dialect.cast(target.code(range(len(names))), "float64")
    number = dialect.number_of(column, was_boolean=is_label and bool(labels))
    is_number = dialect.expressions.is_number
    return number if is_number is None else f"CASE WHEN {is_number.format(x=number)} THEN {number} END"


# --- results ----------------------------------------------------------------------------------------------------------


def check_by(by: Sequence[str], taken: Sequence[str], dialect: Dialect) -> None:
    """Raise `ParameterError` if the result would have two columns of the same name."""
    names: list[str] = list(taken)
    for name in by:
        known = [other.lower() if dialect.names.any_case else other for other in names]
        if (name.lower() if dialect.names.any_case else name) in known:
            raise ParameterError(
                f"by column {shown(name)} has the name of another column of the result, which has "
                f"{listed(taken, None)} besides; leave it out, or rename it in a view"
            )
        names.append(name)


def long_rows(
    rows: Rows, by: Sequence[str], counts: Mapping[str, str], names: Sequence[str],
    described: Sequence[Sequence[str]], values: Mapping[str, Sequence[str]],
) -> str:  # fmt: skip
    """Return the query that unpivots each row of the last stage to one row per item of ``described``, in order.

    Parameters
    ----------
    by
        The names of the group columns in the result.
    counts
        Further columns by name, constant within a group.
    names, described
        The names of literal columns, and the literals of each row.
    values
        Columns of the last stage by name, one for each row.
    """
    texts, source, place = _long(rows, counts, names, described, values)
    quoted = map(rows.dialect.quote, [*by, *counts, *names, *values])
    columns = ", ".join(f"{text} AS {name}" for text, name in zip(texts, quoted, strict=True))
    order = ", ".join(f"{column} ASC" for column in [*rows.by, place])
    return rows.stages.finish(f"SELECT {columns}\n{source}\nORDER BY {order}")


def long_stage(
    rows: Rows, names: Sequence[str], described: Sequence[Sequence[str]], values: Mapping[str, Sequence[str]]
) -> list[str]:
    """Add `long_rows` as a stage, and return its columns of groups, literals and values."""
    texts, source, _ = _long(rows, {}, names, described, values)
    new = rows.stages.reserve(len(texts))
    columns = ", ".join(f"{text} AS {name}" for text, name in zip(texts, new, strict=True))
    rows.stages.reduce(f"SELECT {columns}\n{source}", new, [])
    return new


def _long(
    rows: Rows, counts: Mapping[str, str], names: Sequence[str], described: Sequence[Sequence[str]],
    values: Mapping[str, Sequence[str]],
) -> tuple[list[str], str, str]:  # fmt: skip
    """Return the columns of long rows, their source, and the row number within a group."""
    dialect = rows.dialect
    place, *literals = rows.stages.reserve(1 + len(names))
    constants = dialect.constant_rows([[str(number), *row] for number, row in enumerate(described)], [place, *literals])
    columns = [*rows.by, *counts.values(), *(f"b.{name}" for name in literals)]
    for of_rows in values.values():
        whens = " ".join(f"WHEN {number} THEN {column}" for number, column in enumerate(of_rows))
        columns.append(f"CASE b.{place} {whens} END")
    source = f"{rows.stages.source('a')}\nCROSS JOIN (\n{constants}\n) {dialect.statements.alias}b"
    return columns, source, f"b.{place}"
