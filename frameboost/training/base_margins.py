"""The base margin of each output, estimated as XGBoost does (its ``fit_intercept``)."""

from __future__ import annotations

import math

import polars as pl

from frameboost.checks.messages import shown
from frameboost.engines.contract import Engine
from frameboost.errors import DataError
from frameboost.expressions.expression import Expression
from frameboost.losses.exact_sums import Aggregate, exact_sum, rounded, weighted
from frameboost.losses.loss import Loss
from frameboost.metrics.terms import define_terms

__all__ = ["base_margins"]

_WEIGHT = Expression("weight", ("weight",))
_ONE = Expression("1", ())
_SMALLEST_SHARE = 1e-6  # XGBoost's kRtEps; keeps the logarithm of an empty class finite


def base_margins(rows: Engine, loss: Loss, base_score: float | None, *, is_weighted: bool) -> tuple[float, ...]:
    """Return the margin before the first tree, for each output.

    Parameters
    ----------
    rows
        Binned rows, before their margins are set.
    loss
        The loss, which says how the base margin is estimated.
    base_score
        The user's value in place of an estimate, on the scale of the target.
    is_weighted
        Whether the rows have weights; weighted quantiles have another definition.
    """
    n, start = loss.n_outputs, loss.start
    if start.kind == "moments":
        return _moments(rows, loss, base_score)
    if base_score is not None:
        return (loss.margin_of(base_score),) * n
    if start.kind == "value":
        return (loss.margin_of(start.value),) * n
    if start.kind == "mean":
        return _means(rows, loss)
    if start.kind.startswith("newton") and (known := _of_constant_labels(rows, loss)) is not None:
        return known
    if start.kind == "newton from mean":
        return _newton_step(rows, loss, _means(rows, loss))
    if start.kind == "frequencies":
        return _centred_frequencies(rows, loss)
    if start.kind == "quantiles":
        return _quantiles(rows, loss, is_weighted=is_weighted)
    return _newton_step(rows, loss, (0.0,) * n)


def _of_constant_labels(rows: Engine, loss: Loss) -> tuple[float, ...] | None:
    """Return the margins of labels that are all equal, which one Newton step may miss by far; None of others."""
    if not loss.name.startswith("reg:") or loss.definition is not None:
        return None
    counted = {name: Expression(f"CASE WHEN weight > 0 THEN {name} END", (name, "weight")) for name in loss.labels}
    wanted = {(f, name): Aggregate(f, label) for name, label in counted.items() for f in ("min", "max")}
    found = rows.aggregate({f"{f}_{name}": aggregate for (f, name), aggregate in wanted.items()})
    if any(found[f"min_{name}"] != found[f"max_{name}"] for name in loss.labels):
        return None
    return tuple(loss.margin_of(found[f"min_{loss.label_of(output)}"] or 0.0) for output in range(loss.n_outputs))


def _means(rows: Engine, loss: Loss) -> tuple[float, ...]:
    labels = {name: weighted(Expression(name, (name,))) for name in loss.labels}
    sums = exact_sum(rows, {**labels, "weight": _WEIGHT})
    return tuple(loss.margin_of(sums[loss.label_of(output)] / sums["weight"]) for output in range(loss.n_outputs))


def _moments(rows: Engine, loss: Loss, base_score: float | None) -> tuple[float, ...]:
    """Return the margins of the mean label and of the variance about it; ``base_score`` is a mean that is given."""
    label, margins_of = loss.start.label, loss.start.margins_of
    assert label is not None
    assert margins_of is not None
    if base_score is None:
        sums = exact_sum(rows, {"label": weighted(label), "weight": _WEIGHT})
        mean = sums["label"] / sums["weight"]
    else:
        mean = float(pl.select(label.to_polars({"label": pl.lit(base_score)})).item())
    residual = f"({label.text} - ({mean!r}))"
    square = weighted(Expression(f"{residual} * {residual}", label.columns))
    sums = exact_sum(rows, {"square": square, "weight": _WEIGHT})
    return margins_of(mean, sums["square"] / sums["weight"])


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


def _newton_step(rows: Engine, loss: Loss, begins: tuple[float, ...]) -> tuple[float, ...]:
    """Return the margin of the prediction at b − G/H, one Newton step from the margin b, as XGBoost does."""
    rows.start_margins({name: Expression(repr(begin), ()) for name, begin in zip(loss.margins, begins, strict=True)})
    define_terms(rows, loss.terms)
    margins = []
    for output, derivatives in enumerate(loss.outputs):
        sums = exact_sum(rows, {"G": weighted(derivatives.gradient), "H": weighted(derivatives.hessian)})
        step = begins[output] - (sums["G"] / sums["H"] if sums["H"] > 0 else 0.0)
        if not math.isfinite(step):
            at = f"{begins[output]:g}"
            raise DataError(f"the derivatives of {shown(loss.name)} are not finite at margin {at}; give a base_score")
        if loss.definition is not None:  # the inverse of a user's own link is unknown
            margins.append(step)
            continue
        names = dict.fromkeys(loss.margins, pl.lit(step))
        prediction = float(pl.select(loss.links[output].to_polars(names)).item())
        margins.append(loss.margin_of(prediction))
    return tuple(margins)
