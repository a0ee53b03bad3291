"""The boosting loop: rounds of gradients and trees, on any engine.

F_t(x) = F_{t−1}(x) + η·f_t(x), f_t grown on the gradients of the loss at F_{t−1} (Chen & Guestrin 2016, section 2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from frameboost.binning import Bins, SlotLayout
from frameboost.constraints import Constraints
from frameboost.engines.contract import Aggregate, ColumnBlockEngine, Engine, HistogramEngine, Penalties
from frameboost.expressions import Expression
from frameboost.gradients import exact_sum, weighted
from frameboost.growing import TreeGrower
from frameboost.objectives import Metric, Objective
from frameboost.parameters import Parameters
from frameboost.schema import Feature
from frameboost.splitting import ExactSplitter, HistogramSplitter, Splitter
from frameboost.tree import Tree

__all__ = ["Ensemble", "boost", "evaluate"]


@dataclass(frozen=True)
class Ensemble:
    """What training yields: the trees, the margin they start from, and the features with their categories."""

    base_margin: float
    trees: tuple[Tree, ...]
    features: tuple[Feature, ...]


def boost(
    engine: Engine,
    objective: Objective,
    parameters: Parameters,
    given_bins: Mapping[int, Bins],
    on_round: Callable[[int], None] = lambda _: None,
) -> Ensemble:
    """Fit an ensemble.

    Parameters
    ----------
    engine
        Rows whose labels and weights have been checked.
    objective
        The loss.
    parameters
        All other settings.
    given_bins
        Bins that the user brought, by feature number (``hist`` only).
    on_round
        Called with the number of trees after each one.
    """
    base_margin = objective.margin_of(_base_score(engine, parameters))
    constraints = Constraints.of(parameters, engine.features)
    splitter, bins = _prepare(engine, parameters, given_bins, constraints)
    grower = TreeGrower(engine, splitter, parameters, constraints)
    engine.start_margins(base_margin)
    trees = []
    for round_ in range(parameters.n_estimators):
        totals = engine.compute_gradients(objective.gradient, objective.hessian)
        trees.append(grower.grow(totals))
        on_round(round_ + 1)
    return Ensemble(base_margin, tuple(trees), tuple(b.feature for b in bins))


def evaluate(engine: Engine, metric: Metric) -> float:
    """Return the metric over the engine's rows at their current margins."""
    sums = engine.aggregate(
        {
            "loss": Aggregate("sum", weighted(metric.loss)),
            "weight": Aggregate("sum", Expression("weight")),
        }
    )
    return metric.of_mean((sums["loss"] or 0.0) / (sums["weight"] or 1.0))


def _base_score(engine: Engine, parameters: Parameters) -> float:
    """Return the weighted mean label, which is where XGBoost starts squared error and logistic loss."""
    if parameters.base_score is not None:
        return parameters.base_score
    sums = exact_sum(engine, {"label": weighted(Expression("label")), "weight": Expression("weight")})
    return sums["label"] / sums["weight"]


def _prepare(
    engine: Engine, parameters: Parameters, given_bins: Mapping[int, Bins], constraints: Constraints
) -> tuple[Splitter, list[Bins]]:
    """Let the engine bin or sort its columns; return how splits are found in them."""
    penalties = Penalties(
        parameters.reg_lambda, parameters.reg_alpha, parameters.max_delta_step, parameters.min_child_weight
    )
    if parameters.tree_method == "exact":
        blocks = cast("ColumnBlockEngine", engine)
        bins = blocks.presort()
        return ExactSplitter(blocks, penalties, constraints), bins
    binned = cast("HistogramEngine", engine)
    bins = binned.propose_bins(parameters.max_bin, given_bins)
    binned.bin_columns(bins)
    return HistogramSplitter(binned, SlotLayout(bins), penalties, constraints), bins
