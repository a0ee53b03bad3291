"""A metric as one SQL aggregate over labels, weights and predictions, which an engine evaluates where its rows are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from frameboost.checks.arguments import flag
from frameboost.checks.messages import shown
from frameboost.engines.contract import Cumulative, QueryWindow, Rows
from frameboost.errors import ParameterError
from frameboost.expressions.expression import Expression, value_of
from frameboost.expressions.grid import Aggregate, Scalar, exact_sum, grid_offset, rounded
from frameboost.losses.loss import Loss, OverQuery, RankingPairs, Ratio, RunningSum, Term, prediction_names

__all__ = ["CurveMetric", "Metric", "define_predictions", "define_terms", "evaluate"]


@dataclass(frozen=True)
class Metric:
    """A measure of how well predictions fit labels, written as one SQL aggregate.

    Parameters
    ----------
    name
        Its name in `Model.history` and in messages.
    sql
        The aggregate: ``SUM``, ``AVG``, ``MIN``, ``MAX`` and ``COUNT(*)`` of scalar expressions over ``label``,
        ``weight``, ``margin`` and ``prediction`` (with several outputs ``prediction_0``, ``prediction_1``, ...), and
        arithmetic around them.
    maximize
        Whether larger values are better.

    Raises
    ------
    ParameterError
        If ``sql`` is no such aggregate.

    Examples
    --------
    >>> import polars as pl, frameboost as fb
    >>> late = fb.Metric("share more than 2 off", "AVG(CASE WHEN ABS(label - prediction) > 2 THEN 1 ELSE 0 END)")
    >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
    >>> fb.fit(df, "y", n_estimators=3, learning_rate=0.5, reg_lambda=0, eval_metric=late).history.rows()
    [(1, 0.0), (2, 0.0), (3, 0.0)]
    """

    name: str
    sql: str
    maximize: bool = False
    columns: tuple[str, ...] = field(default=(), repr=False)
    terms: Mapping[str, Term] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ParameterError(f"a metric's name must be a string, not {shown(self.name)}")
        flag("maximize", self.maximize)
        if not isinstance(self.columns, tuple | list) or not all(isinstance(name, str) for name in self.columns):
            raise ParameterError(f"columns must be a list of names, not {shown(self.columns)}")
        if not isinstance(self.terms, Mapping):
            raise ParameterError(f"terms must be a dict of terms by name, not {shown(self.terms)}")
        if not isinstance(self.sql, str):
            raise ParameterError(f"a metric's sql must be a string, not {shown(self.sql)}")
        self._split  # noqa: B018  # raises if it is no aggregate
        if self.columns:
            self._parts  # noqa: B018  # raises if a name is unknown

    def over(self, columns: tuple[str, ...]) -> Metric:
        """Return the metric over these columns; a name that is none of them is an error."""
        return Metric(self.name, self.sql, self.maximize, columns, self.terms)

    @cached_property
    def _split(self) -> tuple[dict[str, tuple[str, str]], Expression]:
        """The aggregates by generated names, each a function and its argument, and the arithmetic around them."""
        from frameboost.expressions.expression import split_aggregates

        aggregates, outer = split_aggregates(self.sql)
        try:
            whole = Expression(outer, tuple(aggregates))
        except ParameterError as error:
            raise ParameterError(
                f"the metric {shown(self.sql)} is more than arithmetic of SUM, AVG, MIN, MAX and COUNT(*) over all rows"
            ) from error
        if whole.is_condition:
            raise ParameterError(f"metric {shown(self.name)}, {shown(self.sql)}, is true or false, not a number")
        return aggregates, whole

    @cached_property
    def _parts(self) -> tuple[dict[str, tuple[str, Expression]], Expression]:
        """`_split` with the arguments parsed, and with a count beside each average."""
        aggregates, outer = self._split
        inside = f"in metric {shown(self.name)}, what is aggregated,"
        parts = {
            name: (function, Expression(text, self.columns).required_number(inside))
            for name, (function, text) in aggregates.items()
        }
        for name, (function, text) in aggregates.items():
            if function == "avg":  # of the values that there are, as in SQL
                present = Expression(f"CASE WHEN ({text}) IS NULL THEN 0 ELSE 1 END", self.columns)
                parts[f"{name}_count"] = ("sum", present)
        return parts, outer

    def evaluate(self, rows: Rows) -> float:
        """Return the metric over the rows at their current margins; its sums are exact."""
        aggregates, outer = self._parts
        plain = {n: Aggregate(f, e) for n, (f, e) in aggregates.items() if f in ("min", "max")}
        sums = {n: e for n, (f, e) in aggregates.items() if f in ("sum", "avg")}
        values = {n: v if v is not None else math.nan for n, v in rows.aggregate(plain).items()} if plain else {}
        values |= exact_sum(rows, sums) if sums else {}
        for name, (function, _) in aggregates.items():
            if function == "count":
                values[name] = float(rows.n_rows)
            elif function == "avg":
                values[name] = values[name] / values[f"{name}_count"] if values[f"{name}_count"] else math.nan
        value = value_of(outer, values)
        return math.nan if value is None else value  # as of a CASE without ELSE


@dataclass(frozen=True)
class CurveMetric:
    """The area under a curve over the rows in descending order of their scores; the mean of one curve for each class.

    With ``by_share`` classes are weighted by their numbers of rows, otherwise equally.
    """

    name: str
    area: Expression
    total: Expression
    scores: tuple[tuple[Expression, Expression, Expression], ...]
    maximize: bool = True
    terms: Mapping[str, Term] = field(default_factory=dict)
    by_share: bool = True

    def evaluate(self, rows: Rows) -> float:
        """Return the mean of the areas."""
        weighted_sum, weights = 0.0, 0.0
        for score, positive, negative in self.scores:
            sides = rounded(rows, {"positive": positive, "negative": negative})
            sums = rows.aggregate({name: Aggregate("sum", side) for name, side in sides.items()})
            totals = {f"{name}_total": value or 0.0 for name, value in sums.items()}
            by_score = rows.by_score(score, sides["positive"], sides["negative"])
            area = exact_sum(by_score, {"area": self.area})["area"]
            share = totals["positive_total"] if self.by_share and len(self.scores) > 1 else 1.0
            weighted_sum += share * area / (value_of(self.total, totals) or math.nan)
            weights += share
        return weighted_sum / weights


# --- the rows of an engine: terms as columns, and a metric's value ----------------------------------------------------

# What is summed is put on a grid first, so that the sums are exact.


def define_terms(rows: Rows, terms: Mapping[str, Term]) -> None:
    """Define the terms over the rows at their current margins, on which the grid of a running sum depends."""
    for name, term in terms.items():
        match term:
            case RunningSum():
                value = rounded(rows, {name: term.value})[name]
                rows.add_columns({name: Cumulative(value, term.order, descending=term.descending)})
            case OverQuery():
                rows.add_columns({name: _window(rows, term)})
            case Ratio():
                sums = exact_sum(rows, {"numerator": term.numerator, "denominator": term.denominator})
                rows.add_columns({name: Expression(repr(sums["numerator"] / sums["denominator"]), ())})
            case RankingPairs():
                rows.sum_pairs(term, _pair_offset(rows, term))
            case _:
                rows.add_columns({name: term})


def _window(rows: Rows, term: OverQuery) -> QueryWindow:
    value: Scalar = term.value
    if term.function in ("sum", "running") and not term.on_grid:
        value = rounded(rows, {"value": term.value})["value"]
    return QueryWindow(term.function, value, term.order)


def _pair_offset(rows: Rows, pairs: RankingPairs) -> float:
    """Return the grid on which sums over all pairs of a query are exact."""
    # The largest rank by label is that by margin, and the same in every round.
    rank = Expression("label_rank", ("label_rank",))
    last = rows.aggregate({"rank": Aggregate("max", rank)})["rank"] or 0.0
    largest = int(last) + 1
    return grid_offset(pairs.bound, 2 * largest * min(largest, pairs.truncation))


def define_predictions(rows: Rows, loss: Loss) -> None:
    """Define the predictions that metrics use: ``prediction``, or ``prediction_0`` and so on."""
    for stage in loss.link_terms:
        rows.add_columns(stage)
    links = loss.evaluated or loss.links
    rows.add_columns(dict(zip(prediction_names(len(links)), links, strict=True)))


def evaluate(metric: Metric | CurveMetric, rows: Rows) -> float:
    """Return the metric over the rows at their current margins."""
    define_terms(rows, metric.terms)
    return metric.evaluate(rows)
