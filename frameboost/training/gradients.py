"""Gradients and hessians of a round, weighted and on their grids; quantile leaves of losses that need them."""

from __future__ import annotations

from dataclasses import dataclass

from frameboost.engines.contract import Engine
from frameboost.expressions.expression import Expression
from frameboost.losses.exact_sums import Scalar, rounded
from frameboost.losses.loss import Loss
from frameboost.metrics.terms import define_terms

__all__ = ["Renewal", "compute_gradients", "renewals_of"]


@dataclass(frozen=True, slots=True)
class Renewal:
    """Leaf values that are the ``alpha`` quantile of ``residual`` over the rows of the leaf, weighted or not."""

    residual: Scalar
    weight: Scalar | None
    alpha: float


def compute_gradients(rows: Engine, loss: Loss) -> None:
    """Have the engine compute g and h of every output, weighted and on their grids, and residuals for `Renewal`."""
    define_terms(rows, loss.terms)
    rows.compute_gradients(loss.gradients, loss.residuals)


def renewals_of(rows: Engine, loss: Loss, *, is_weighted: bool) -> dict[int, Renewal]:
    """Return the renewal of each output; none unless the loss has quantile leaves (absolute and quantile error)."""
    if not loss.renewal:
        return {}
    weight = rounded(rows, {"weight": Expression("weight", ("weight",))})["weight"] if is_weighted else None
    return {
        output: Renewal(Expression(f"residual_{output}", (f"residual_{output}",)), weight, alpha)
        for output, alpha in enumerate(loss.renewal)
    }
