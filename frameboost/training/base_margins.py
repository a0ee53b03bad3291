"""Where the margins start: the base score of each output, as XGBoost estimates it (its ``fit_intercept``)."""

from __future__ import annotations

import math

import polars as pl

from frameboost.checks.messages import shown
from frameboost.engines.contract import Engine
from frameboost.errors import DataError
from frameboost.expressions.expression import Expression
from frameboost.losses.exact_sums import exact_sum, rounded, weighted
from frameboost.losses.loss import Loss
from frameboost.metrics.terms import define_terms

__all__ = ["base_margins"]

_WEIGHT = Expression("weight", ("weight",))
_ONE = Expression("1", ())
_SMALLEST_SHARE = 1e-6  # XGBoost's kRtEps, which keeps a logarithm finite


def base_margins(rows: Engine, loss: Loss, base_score: float | None, *, is_weighted: bool) -> tuple[float, ...]:
    """Return the margin before the first tree, for each output.

    Parameters
    ----------
    rows
        Binned rows, whose margins are not in use yet.
    loss
        Which says how to start where no base score is given.
    base_score
        The user's, on the scale of the target.
    is_weighted
        Whether the rows have weights; quantiles are taken differently then.
    """
    n, start = loss.n_outputs, loss.start
    if base_score is not None:
        return (loss.margin_of(base_score),) * n
    if start.kind == "value":
        return (loss.margin_of(start.value),) * n
    if start.kind == "mean":
        labels = {name: weighted(Expression(name, (name,))) for name in loss.labels}
        sums = exact_sum(rows, {**labels, "weight": _WEIGHT})
        return tuple(loss.margin_of(sums[loss.label_of(output)] / sums["weight"]) for output in range(n))
    if start.kind == "frequencies":
        return _centred_frequencies(rows, loss)
    if start.kind == "quantiles":
        return _quantiles(rows, loss, is_weighted=is_weighted)
    return _newton_step(rows, loss)


def _centred_frequencies(rows: Engine, loss: Loss) -> tuple[float, ...]:
    counted = {
        str(k): Expression(f"CASE WHEN label = {k} THEN weight ELSE 0 END", ("label", "weight"))
        for k in range(loss.classes)
    }
    sums = exact_sum(rows, counted)
    total = math.fsum(sums.values())
    logs = [math.log(max(sums[str(k)] / total, _SMALLEST_SHARE)) for k in range(loss.classes)]
    mean = math.fsum(logs) / len(logs)
    return tuple(value - mean for value in logs)


def _quantiles(rows: Engine, loss: Loss, *, is_weighted: bool) -> tuple[float, ...]:
    rows.compute_gradients({"g_0": Expression("0", ()), "h_0": _ONE}, {})
    rows.start_tree(0)
    weight = rounded(rows, {"weight": _WEIGHT})["weight"] if is_weighted else None
    labels = [loss.label_of(output) for output in range(loss.n_outputs)]
    return tuple(
        rows.node_quantiles(Expression(label, (label,)), weight, alpha)[0]
        for label, alpha in zip(labels, loss.renewal, strict=True)
    )


def _newton_step(rows: Engine, loss: Loss) -> tuple[float, ...]:
    """Return the margin of the prediction at −G/H, as XGBoost does, the derivatives being taken at margin 0."""
    rows.start_margins(dict.fromkeys(loss.margins, Expression("0", ())))
    define_terms(rows, loss.terms)
    margins = []
    for output, derivatives in enumerate(loss.outputs):
        sums = exact_sum(rows, {"G": weighted(derivatives.gradient), "H": weighted(derivatives.hessian)})
        step = -sums["G"] / sums["H"] if sums["H"] > 0 else 0.0
        if not math.isfinite(step):
            raise DataError(f"the derivatives of {shown(loss.name)} are not finite at margin 0; give a base_score")
        if loss.definition is not None:  # of a user's own link the inverse is not known, nor needed
            margins.append(step)
            continue
        names = dict.fromkeys(loss.margins, pl.lit(step))
        prediction = float(pl.select(loss.links[output].to_polars(names)).item())
        margins.append(loss.margin_of(prediction))
    return tuple(margins)
