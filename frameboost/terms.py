"""A loss's and a metric's terms, given to an engine: running sums are put on a grid first, so that they are exact."""

from __future__ import annotations

from collections.abc import Mapping

from frameboost.engines.contract import Aggregate, Cumulative, Engine, QueryWindow, Scalar
from frameboost.expressions import Expression
from frameboost.gradients import exact_sum, rounded
from frameboost.grid import grid_offset
from frameboost.loss import Loss, RunningSum, Term, prediction_names
from frameboost.metric import CurveMetric, Metric
from frameboost.query_terms import OverQuery, Pairs, Ratio

__all__ = ["define_predictions", "define_terms", "evaluate"]


def define_terms(rows: Engine, terms: Mapping[str, Term]) -> None:
    """Define the terms over the rows as they are now; the grid of a running sum depends on their margins."""
    for name, term in terms.items():
        match term:
            case RunningSum():
                value = rounded(rows, {name: term.value})[name]
                rows.define({name: Cumulative(value, term.order, descending=term.descending)})
            case OverQuery():
                rows.define({name: _window(rows, term)})
            case Ratio():
                sums = exact_sum(rows, {"numerator": term.numerator, "denominator": term.denominator})
                rows.define({name: Expression(repr(sums["numerator"] / sums["denominator"]), ())})
            case Pairs():
                rows.sum_pairs(term, _pair_offset(rows, term))
            case _:
                rows.define({name: term})


def _window(rows: Engine, term: OverQuery) -> QueryWindow:
    value: Scalar = term.value
    if term.function in ("sum", "running") and not term.on_grid:
        value = rounded(rows, {"value": term.value})["value"]
    return QueryWindow(term.function, value, term.order)


def _pair_offset(rows: Engine, pairs: Pairs) -> float:
    """Return the grid on which sums over all pairs of a query are exact."""
    last = rows.aggregate({"place": Aggregate("max", Expression("place", ("place",)))})["place"] or 0.0
    largest = int(last) + 1
    return grid_offset(pairs.bound, 2 * largest * min(largest, pairs.truncation))


def define_predictions(rows: Engine, loss: Loss) -> None:
    """Define what metrics look at: ``prediction``, or ``prediction_0`` and so on."""
    for stage in loss.link_terms:
        rows.define(stage)
    links = loss.evaluated or loss.links
    rows.define(dict(zip(prediction_names(len(links)), links, strict=True)))


def evaluate(metric: Metric | CurveMetric, rows: Engine) -> float:
    """Return the metric over the rows at their current margins."""
    define_terms(rows, metric.terms)
    return metric.evaluate(rows)
