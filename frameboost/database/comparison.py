"""Compare two models on the same rows of a table: metrics, and differences with intervals, as one SELECT.

Both models score the rows, one after the other. Intervals are normal approximations for differences of means over rows,
and for smooth functions of means by the delta method.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from frameboost.checks.messages import listed, shown
from frameboost.compile.sql.stages import Stages
from frameboost.database.labelled_rows import COUNTS, End, LabelledTable, Rows, check_by, long_rows
from frameboost.errors import ParameterError
from frameboost.metrics.metric import METRICS, AnyMetric, Metric

__all__ = ["comparison_query"]

# Of a two-sided interval of 95 % of the normal distribution: its quantile 0.975.
_OF_95_PERCENT = 1.959963984540054
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
    """Return the SELECT of `DatabaseModel.compare_query`.

    Parameters
    ----------
    first
        The table with its champion.
    second
        A function that continues a query with the challenger's scores; its arguments are the columns of the stages so
        far by their names in the table, the names to keep, and the stages.
    others
        The columns that the challenger reads.
    challenger
        The same table with the challenger.
    """
    check_by(first.by, (*COUNTS, "metric", *_COMPARED), first.dialect)
    kinds = [set(map(type, table.ensemble.labels)) for table in (first, challenger)]
    one_column_is_both = first.dialect.expressions.number is not None and str not in kinds[0] | kinds[1]
    if kinds[0] != kinds[1] and not one_column_is_both:
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
    """Return the metrics that fit both models and are functions of means.

    Raises
    ------
    ParameterError
        If a named metric is not one of them, or none is.
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
            f"the models can't be compared by {shown(wrong or of_first or 'a metric of both')}, which is not a mean "
            f"over rows; a query has the differences of {listed(known, None) or 'none'}"
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
    """Return the query that ends in one row per group and metric.

    The difference of two metrics is, up to terms of higher order, the mean of u = f'(m₂) (l₂ − m₂) − f'(m₁) (l₁ − m₁),
    l the losses of a row, m their means, and f the function of the mean. So its variance is Σ (w u)² / (Σ w)², times
    n / (n − 1) of n rows, for weights w.
    """
    dialect, stages = first.dialect, first.stages
    numbers = {name: dialect.number(value) for name, value in {"zero": 0.0, "one": 1.0, "two": 2.0}.items()}
    zero, weight = numbers["zero"], first.known["weight"]
    first.is_valid = second.is_valid = f"{first.is_valid} AND {second.is_valid}"
    total = first.over(f"SUM({first.if_valid(weight)})")
    aggregates = {**first.counts(), "n": dialect.call("COUNT", [first.if_valid(f"NULLIF({weight}, {zero})")]),
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
        aggregates |= {
            f"{number} values": dialect.call("COUNT", [change]),
            f"{number} squares": f"SUM({change} * {change})",
        }
        aggregates |= {f"{number} {key} values": dialect.call("COUNT", [loss]) for key, loss in losses.items()}
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
    counts = {name: dialect.cast(columns[name], "int64") for name in COUNTS}
    return long_rows(first, by, counts, ["metric"], described, values)
