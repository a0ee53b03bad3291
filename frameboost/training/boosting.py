"""The boosting loop: rounds of gradients and trees, on any engine.

F_t(x) = F_{t−1}(x) + η·f_t(x), f_t grown on the gradients of the loss at F_{t−1} (Chen & Guestrin 2016, section 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic

from frameboost.binning.bins import Bins
from frameboost.checks.messages import shown
from frameboost.engines.contract import Engine
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import DataError
from frameboost.expressions.expression import Expression
from frameboost.losses.exact_sums import Aggregate
from frameboost.losses.loss import Loss
from frameboost.metrics.terms import define_predictions
from frameboost.parameters.parameters import Parameters
from frameboost.runtime.workers import Workers
from frameboost.splits.split import Penalties, SplitLimits, Stats
from frameboost.training.base_margins import base_margins
from frameboost.training.constraints import Constraints
from frameboost.training.dart import Dropout
from frameboost.training.evaluation_log import EvaluationLog
from frameboost.training.gradients import compute_gradients, renewals_of
from frameboost.training.grower import GrownTree, TreeGrower
from frameboost.training.node import OpenNode
from frameboost.training.sampling import FeatureSampler, sample_rows
from frameboost.training.splitter import SplitSettings
from frameboost.training.tree_methods import Binning, HeldOutT, TrainingT, TreeMethod
from frameboost.trees.tree import Tree

__all__ = ["FitEngines", "boost"]


@dataclass(frozen=True)
class FitEngines(Generic[TrainingT, HeldOutT]):
    """The engines of a fit, over data that has been checked.

    Attributes
    ----------
    training
        The engine over the rows that the trees are grown on.
    held_out
        Engines over other rows, to evaluate on.
    is_weighted
        Whether there is a column of weights.
    has_base_margins
        Whether the rows have margins to start from: roles ``base_margin``, or ``base_margin_0`` and so on.
    """

    training: TrainingT
    held_out: Sequence[HeldOutT] = ()
    is_weighted: bool = False
    has_base_margins: bool = False

    def all(self) -> tuple[Engine, ...]:
        """Return all engines, that of the training rows first."""
        return (self.training, *self.held_out)


def boost(
    engines: FitEngines[TrainingT, HeldOutT],
    method: TreeMethod[TrainingT, HeldOutT],
    loss: Loss,
    parameters: Parameters,
    given_bins: Mapping[int, Bins],
    log: EvaluationLog,
    workers: Workers,
    on_round: Callable[[int], None] = lambda _: None,
) -> Ensemble:
    """Fit an ensemble; its leaf values are not yet on the grid of `frameboost.trees.leaf_grid`.

    Parameters
    ----------
    engines
        The rows to train on and to evaluate on.
    method
        The tree method, which opened the engines.
    loss
        The loss.
    parameters
        All other settings.
    given_bins
        Bins from the user's ``cuts``, by feature number.
    log
        Evaluates metrics after each round, and stops early.
    workers
        Threads of the split search.
    on_round
        Called with the number of rounds after each one.
    """
    engine = engines.training
    constraints = Constraints.of(parameters, engine.features)
    features = FeatureSampler(len(engine.features), parameters)
    settings = SplitSettings(_penalties(parameters), _limits(constraints, features), parameters.gamma, workers)
    search = method.prepare(engine, engines.held_out, Binning(parameters.max_bin, given_bins), settings)
    base = _start_margins(engines, loss, parameters)
    grower = TreeGrower(engine, search, parameters, constraints, engines.held_out)
    renewals = renewals_of(engine, loss, is_weighted=engines.is_weighted)
    dropout = Dropout(engines.all(), parameters) if parameters.booster == "dart" else None
    trees: list[Tree] = []
    best: tuple[Tree, ...] | None = None
    for round_ in range(log.rounds_before, log.rounds_before + parameters.n_estimators):
        if dropout is not None:
            dropout.drop(round_)
        _check_hessians(engine, loss, round_)
        compute_gradients(engine, loss)
        grown: list[GrownTree] = []
        for output, margin in enumerate(loss.margins):
            for _ in range(parameters.num_parallel_tree):
                number = round_ * loss.n_outputs * parameters.num_parallel_tree + len(grown)  # part of each draw's key
                features.start_tree(number)
                totals = engine.start_tree(output, sample_rows(engine, output, parameters, number))
                _check_finite(totals, loss, round_)
                grown.append(grower.grow(totals, output, margin, renewals.get(output)))
        trees += [each.tree for each in grown]
        if dropout is not None:
            dropout.restore(grown)
        stop = log.end_round()
        if log.best_round == round_ + 1:
            best = _weighted(trees, dropout)
        on_round(round_ + 1 - log.rounds_before)
        if stop:
            break
    kept = _weighted(trees, dropout) if best is None else best
    return Ensemble(loss, parameters.shaping(), tuple(b.feature for b in search.bins), base, kept)


def _start_margins(engines: FitEngines[TrainingT, HeldOutT], loss: Loss, parameters: Parameters) -> tuple[float, ...]:
    """Set the margins and predictions of all rows before the first tree; return the base margins."""
    base = base_margins(engines.training, loss, parameters.base_score, is_weighted=engines.is_weighted)
    if engines.has_base_margins:
        first = {name: Expression(f"base_{name}", (f"base_{name}",)) for name in loss.margins}
    else:
        first = {name: Expression(repr(value), ()) for name, value in zip(loss.margins, base, strict=True)}
    for engine in engines.all():
        engine.start_margins(first)
        define_predictions(engine, loss)
    return base


def _weighted(trees: Sequence[Tree], dropout: Dropout | None) -> tuple[Tree, ...]:
    """Return the trees as the model has them: with dropout, times their weights."""
    return tuple(trees) if dropout is None else dropout.weighted(trees)


def _penalties(p: Parameters) -> Penalties:
    return Penalties(
        p.reg_lambda, p.reg_alpha, p.max_delta_step or 0.0, p.min_child_weight,
        p.max_cat_to_onehot, p.max_cat_threshold, p.cat_smooth,
    )  # fmt: skip


def _limits(constraints: Constraints, features: FeatureSampler) -> Callable[[Sequence[OpenNode]], SplitLimits]:
    """Return the function that gives the limits of open nodes: the constraints, and the features drawn for them."""

    def limits_of(nodes: Sequence[OpenNode]) -> SplitLimits:
        return constraints.limits(nodes, features.allowed(nodes))

    return limits_of


def _check_hessians(engine: Engine, loss: Loss, round_: int) -> None:
    """Check that the hessian of a user's own loss is positive: otherwise a leaf −G/(H+λ) may increase the loss."""
    if loss.definition is None:
        return
    for derivatives in loss.outputs:
        lowest = engine.aggregate({"h": Aggregate("min", derivatives.hessian)})["h"]
        if lowest is None or not lowest > 0:
            raise DataError(
                f"the hessian {shown(derivatives.hessian.text)} of the objective is {shown(lowest)} in some row of "
                f"round {round_ + 1}; it must be greater than 0 everywhere"
            )


def _check_finite(totals: Stats, loss: Loss, round_: int) -> None:
    if not (math.isfinite(totals.G) and math.isfinite(totals.H)):
        raise DataError(
            f"the gradients of {shown(loss.name)} are not finite in round {round_ + 1}; "
            "a smaller learning_rate, a max_delta_step or a base_score may help"
        )
