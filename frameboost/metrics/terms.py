"""The terms of losses and metrics as columns of an engine, and the evaluation of a metric.

What is summed is put on a grid first, so that the sums are exact.
"""

from __future__ import annotations

from collections.abc import Mapping

from frameboost.engines.contract import Cumulative, Engine, QueryWindow
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import grid_offset
from frameboost.expressions.ranking_terms import OverQuery, RankingPairs, Ratio
from frameboost.losses.exact_sums import Aggregate, Scalar, exact_sum, rounded
from frameboost.losses.loss import Loss, RunningSum, Term, prediction_names
from frameboost.metrics.metric import CurveMetric, Metric

__all__ = ["define_predictions", "define_terms", "evaluate"]


def define_terms(rows: Engine, terms: Mapping[str, Term]) -> None:
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


def _window(rows: Engine, term: OverQuery) -> QueryWindow:
    value: Scalar = term.value
    if term.function in ("sum", "running") and not term.on_grid:
        value = rounded(rows, {"value": term.value})["value"]
    return QueryWindow(term.function, value, term.order)


def _pair_offset(rows: Engine, pairs: RankingPairs) -> float:
    """Return the grid on which sums over all pairs of a query are exact."""
    # The largest place by label is that by margin, and the same in every round.
    place = Expression("label_place", ("label_place",))
    last = rows.aggregate({"place": Aggregate("max", place)})["place"] or 0.0
    largest = int(last) + 1
    return grid_offset(pairs.bound, 2 * largest * min(largest, pairs.truncation))


def define_predictions(rows: Engine, loss: Loss) -> None:
    """Define the predictions that metrics use: ``prediction``, or ``prediction_0`` and so on."""
    for stage in loss.link_terms:
        rows.add_columns(stage)
    links = loss.evaluated or loss.links
    rows.add_columns(dict(zip(prediction_names(len(links)), links, strict=True)))


def evaluate(metric: Metric | CurveMetric, rows: Engine) -> float:
    """Return the metric over the rows at their current margins."""
    define_terms(rows, metric.terms)
    return metric.evaluate(rows)
