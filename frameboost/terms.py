"""A loss's and a metric's terms, given to an engine: running sums are put on a grid first, so that they are exact."""

from __future__ import annotations

from collections.abc import Mapping

from frameboost.engines.contract import Cumulative, Engine
from frameboost.expressions import Expression
from frameboost.gradients import rounded
from frameboost.loss import Loss, RunningSum, prediction_names

__all__ = ["define_predictions", "define_terms"]


def define_terms(rows: Engine, terms: Mapping[str, Expression | RunningSum]) -> None:
    """Define the terms over the rows as they are now; the grid of a running sum depends on their margins."""
    for name, term in terms.items():
        if isinstance(term, RunningSum):
            value = rounded(rows, {name: term.value})[name]
            rows.define({name: Cumulative(value, term.order, descending=term.descending)})
        else:
            rows.define({name: term})


def define_predictions(rows: Engine, loss: Loss) -> None:
    """Define what metrics look at: ``prediction``, or ``prediction_0`` and so on."""
    for stage in loss.link_terms:
        rows.define(stage)
    links = loss.evaluated or loss.links
    rows.define(dict(zip(prediction_names(len(links)), links, strict=True)))
