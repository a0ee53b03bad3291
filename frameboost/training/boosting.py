"""The boosting loop: rounds of gradients and trees, on any engine.

F_t(x) = F_{t−1}(x) + η·f_t(x), f_t grown on the gradients of the loss at F_{t−1} (Chen & Guestrin 2016, section 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from frameboost.binning.bins import Bins, SlotLayout
from frameboost.checks.messages import shown
from frameboost.engines.contract import ColumnBlockEngine, Engine, HistogramEngine
from frameboost.engines.memory.held_out import HeldOutEngine
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import DataError
from frameboost.expressions.expression import Expression
from frameboost.losses.exact_sums import Aggregate
from frameboost.losses.loss import Loss
from frameboost.metrics.terms import define_predictions
from frameboost.parameters.parameters import Parameters
from frameboost.runtime.workers import Workers
from frameboost.splits.split import Penalties, SplitLimits, Stats
from frameboost.training.approx_splitters import propose_anew
from frameboost.training.base_margins import base_margins
from frameboost.training.constraints import Constraints
from frameboost.training.dart import Dropout
from frameboost.training.evaluation_log import EvaluationLog
from frameboost.training.gradients import compute_gradients, renewals_of
from frameboost.training.grower import TreeGrower
from frameboost.training.node import OpenNode
from frameboost.training.sampling import FeatureSampler, sample_rows
from frameboost.training.splitter import ExactSplitter, HistogramSplitter, LimitsOf, Splitter
from frameboost.training.symmetric_splitter import SymmetricSplitter
from frameboost.trees.tree import Tree

__all__ = ["Rows", "boost"]


@dataclass(frozen=True)
class Rows:
    """Rows to train on, and rows that follow.

    Attributes
    ----------
    training
        The engine whose rows the trees are grown on; its labels and weights have been checked.
    held_out
        Engines over other rows, to evaluate on.
    is_weighted
        Whether there is a column of weights.
    has_base_margins
        Whether the rows bring margins to start from, ``base_margin`` or ``base_margin_0`` and so on.
    """

    training: Engine
    held_out: Sequence[Engine] = ()
    is_weighted: bool = False
    has_base_margins: bool = False


def boost(
    rows: Rows,
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
    rows
        What to train on and what to evaluate on.
    loss
        The loss.
    parameters
        All other settings.
    given_bins
        Bins that the user brought, by feature number (``hist`` only).
    log
        What is measured after each round.
    workers
        Threads for what is done besides the engine's own work; an engine in memory has the same.
    on_round
        Called with the number of rounds after each one.
    """
    engine = rows.training
    constraints = Constraints.of(parameters, engine.features)
    features = FeatureSampler(len(engine.features), parameters)
    splitter, bins = _prepare(rows, parameters, given_bins, _limits(constraints, features), workers)
    base = base_margins(engine, loss, parameters.base_score, is_weighted=rows.is_weighted)
    for each in (engine, *rows.held_out):
        each.start_margins(_first_margins(loss, base, given=rows.has_base_margins))
        define_predictions(each, loss)
    grower = TreeGrower(engine, splitter, parameters, constraints, rows.held_out)
    renewals = renewals_of(engine, loss, is_weighted=rows.is_weighted)
    dropout = Dropout((engine, *rows.held_out), parameters)
    per_round = loss.n_outputs * parameters.num_parallel_tree
    best: tuple[Tree, ...] | None = None
    for round_ in range(log.rounds_before, log.rounds_before + parameters.n_estimators):
        dropout.start_round(round_)
        if loss.definition is not None:
            _check_hessians(engine, loss, round_)
        compute_gradients(engine, loss)
        for output, margin in enumerate(loss.margins):
            for _ in range(parameters.num_parallel_tree):
                number = log.rounds_before * per_round + len(dropout)  # which all draws depend on
                features.start_tree(number)
                totals = engine.start_tree(output, sample_rows(engine, output, parameters, number))
                _check_finite(totals, loss, round_)
                dropout.add(grower.grow(totals, output, margin, renewals.get(output)))
        dropout.end_round(per_round)
        stop = log.end_round()
        if log.best_round == round_ + 1:
            best = dropout.trees()
        on_round(round_ + 1 - log.rounds_before)
        if stop:
            break
    trees = dropout.trees() if best is None else best
    return Ensemble(loss, parameters.shaping(), tuple(b.feature for b in bins), base, trees)


def _first_margins(loss: Loss, base: Sequence[float], *, given: bool) -> dict[str, Expression]:
    if not given:
        return {name: Expression(repr(value), ()) for name, value in zip(loss.margins, base, strict=True)}
    return {name: Expression(f"base_{name}", (f"base_{name}",)) for name in loss.margins}


def _check_hessians(engine: Engine, loss: Loss, round_: int) -> None:
    """Make sure that a user's own hessian is positive, without which a leaf −G/(H+λ) may lead uphill."""
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


def _limits(constraints: Constraints, features: FeatureSampler) -> LimitsOf:
    """Return what says of open nodes what their splits must keep to: the constraints, and the features drawn."""

    def limits_of(nodes: Sequence[OpenNode]) -> SplitLimits:
        return constraints.limits(nodes, features.allowed(nodes))

    return limits_of


def _prepare(
    rows: Rows, parameters: Parameters, given_bins: Mapping[int, Bins], limits_of: LimitsOf, workers: Workers
) -> tuple[Splitter, list[Bins]]:
    """Let the engines bin or sort their columns; return how splits are found in them."""
    penalties = Penalties(
        parameters.reg_lambda, parameters.reg_alpha, parameters.max_delta_step or 0.0, parameters.min_child_weight,
        parameters.max_cat_to_onehot, parameters.max_cat_threshold, parameters.cat_smooth,
    )  # fmt: skip
    if parameters.tree_method == "exact":
        blocks = cast("ColumnBlockEngine", rows.training)
        bins = blocks.presort()
        for engine in rows.held_out:
            cast("HeldOutEngine", engine).keep_columns(bins)
        return ExactSplitter(blocks, penalties, limits_of), bins
    if parameters.tree_method == "approx":
        splitter, bins = propose_anew(
            rows.training, parameters.proposal, parameters.max_bin, penalties, limits_of, workers
        )
        for engine in rows.held_out:
            cast("HeldOutEngine", engine).keep_columns(bins)
        return splitter, bins
    binned = cast("HistogramEngine", rows.training)
    bins = binned.propose_bins(parameters.max_bin, given_bins)
    binned.bin_columns(bins)
    for engine in rows.held_out:
        # Held-out rows may lack what no training row did.
        cast("HistogramEngine", engine).bin_columns([replace(b, has_missing=True) for b in bins])
    if parameters.grow_policy == "symmetric":
        return SymmetricSplitter(binned, SlotLayout(bins), penalties, limits_of, workers, parameters.gamma), bins
    return HistogramSplitter(binned, SlotLayout(bins), penalties, limits_of, workers), bins
