"""A fit from the engines over checked data to an ensemble: columns, base margins, the growth, rounds, warnings."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from frameboost.binning.bins import Bins
from frameboost.ensemble.ensemble import Ensemble
from frameboost.losses.loss import Loss
from frameboost.parameters.parameters import Parameters
from frameboost.runtime.workers import Workers
from frameboost.splits.split import Penalties
from frameboost.training.base_margins import min_gains, start_margins
from frameboost.training.boosting import Observer, Progress, boost
from frameboost.training.checkpoint import Checkpoint, SavedRound
from frameboost.training.constraints import Constraints
from frameboost.training.evaluation_log import EvaluationLog
from frameboost.training.growths import FitEngines, choose_growth
from frameboost.training.result_checks import check_result
from frameboost.training.sampling import FeatureSampler
from frameboost.training.splitter import SplitSettings
from frameboost.training.tree_methods import Binning, TreeMethod

__all__ = ["train"]


def train(
    engines: FitEngines, method: TreeMethod, loss: Loss, parameters: Parameters, given_bins: Mapping[int, Bins],
    log: EvaluationLog, workers: Workers, on_round: Callable[[int], None], checkpoint: Checkpoint | None = None,
) -> Ensemble:  # fmt: skip
    """Fit an ensemble; its leaf values are not yet on the grid of `frameboost.trees.leaf_grid`.

    Parameters
    ----------
    engines
        The rows to train on and to evaluate on.
    method
        The tree method, which opened the engines.
    loss, parameters
        The loss, and all other settings.
    given_bins
        Bins from the user's ``cuts``, by feature number.
    log
        Evaluates metrics after each round, and stops early.
    workers
        Threads of the split search.
    on_round
        Called with the number of rounds after each one.
    checkpoint
        Where rounds are saved, and those that are there are taken from.
    """
    training, p = engines.training, parameters
    penalties = Penalties(
        p.reg_lambda, p.reg_alpha, p.max_delta_step or 0.0, p.min_child_weight,
        p.max_cat_to_onehot, p.max_cat_threshold, p.cat_smooth,
    )  # fmt: skip
    constraints, features = Constraints.of(p, training.features), FeatureSampler(len(training.features), p)
    settings = SplitSettings(penalties, constraints, features, p.gamma, workers, loss.n_outputs)
    search = method.prepare(training, engines.held_out, Binning(p.max_bin, given_bins), settings)
    base = start_margins(
        engines.all(), loss, p.base_score, engines.offsets,
        is_weighted=engines.is_weighted, continues=engines.continues,
    )  # fmt: skip
    least_gains, first = min_gains(training, loss), log.rounds_before
    replay = None if checkpoint is None else checkpoint.resume(engines, loss, p, search.bins, base, log)
    is_finished = replay is not None and replay.is_finished
    moved = () if is_finished else engines.all()
    growth = choose_growth(engines, search, settings, p, loss, least_gains, moved)
    progress, last_round = Progress(), first + p.n_estimators
    observers: list[Observer] = []
    if checkpoint is not None and replay is not None:
        last_round = first + replay.n_rounds
        checkpoint.repeat(replay, growth, loss, search.splitter.bin_of, moved, log, progress)

        def save(_: int, is_last: bool) -> None:
            stopped_at = p.n_estimators if log.stopped_by_callback else None
            checkpoint.end_round(SavedRound(progress.last_round(), log.last, stopped_at), loss.n_outputs, is_last)

        observers.append(save)
    observers.append(lambda round_, _: on_round(round_ + 1 - first))
    boost(training, growth, loss, log, last_round, progress, observers)
    trees = progress.model_trees(growth.weights())
    if not engines.continues:
        check_result(training, loss, p, trees, search.bins, least_gains)
    return Ensemble(loss, p.shaping(), tuple(b.feature for b in search.bins), base, trees)
