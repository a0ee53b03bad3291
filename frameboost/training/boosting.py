"""The boosting loop: rounds of gradients and trees, on any engine.

F_t(x) = F_{t−1}(x) + η·f_t(x), f_t grown on the gradients of the loss at F_{t−1} (Chen & Guestrin 2016, section 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Generic, cast

import numpy as np

from frameboost.binning.bins import Bins
from frameboost.checks.messages import shown
from frameboost.engines.contract import Engine, Sample
from frameboost.engines.vector_contract import VectorEngine
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import DataError
from frameboost.expressions.expression import Expression
from frameboost.losses.exact_sums import Aggregate
from frameboost.losses.loss import Loss
from frameboost.metrics.terms import define_predictions, define_terms
from frameboost.parameters.learning_rates import shrinkage_of
from frameboost.parameters.parameters import Parameters
from frameboost.runtime.workers import Workers
from frameboost.splits.gain import MIN_GAIN
from frameboost.splits.split import Penalties, SplitLimits, Stats
from frameboost.training.base_margins import base_margins, plus
from frameboost.training.checkpoint import Checkpoint, SavedRound, repeated
from frameboost.training.checkpoint_facts import data_facts
from frameboost.training.constraints import Constraints
from frameboost.training.dart import Dropout, weighted
from frameboost.training.evaluation_log import EvaluationLog
from frameboost.training.gradients import compute_gradients, renewals_of
from frameboost.training.grower import GrownTree, TreeGrower
from frameboost.training.grown_arrays import GrownArrays, as_tree, as_trees
from frameboost.training.linear_leaves import LinearLeaves
from frameboost.training.node import OpenNode
from frameboost.training.result_checks import check_result
from frameboost.training.sampling import FeatureSampler, sample_rows
from frameboost.training.splitter import SplitSearch, SplitSettings
from frameboost.training.tree_methods import Binning, HeldOutT, TrainingT, TreeMethod
from frameboost.training.vector_trees import VectorTreeGrower, is_for_all_outputs
from frameboost.training.whole_trees import WholeTreeGrower, are_grown_whole
from frameboost.trees.tree import Tree

__all__ = ["FitEngines", "boost"]

# Gradients within this share of what one of a step to margin 0 would be are rounding.
_ROUNDING = 2.0**-40
# Squares below have lost digits.
_SMALLEST_SQUARE = 1e-290
# Expressions of more characters take long to evaluate several times, as those of the likelihood of censored times do.
_LONGEST = 1000


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
    offsets
        What is added to the margins of a row, by their names, over its roles.
    continues
        Whether the rows start from the margins of a model, over the roles ``init_margin`` and so on.
    """

    training: TrainingT
    held_out: Sequence[HeldOutT] = ()
    is_weighted: bool = False
    offsets: Mapping[str, Expression] = field(default_factory=dict)
    continues: bool = False

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
    checkpoint: Checkpoint | None = None,
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
    checkpoint
        Where rounds are saved, and those that are there are taken from.
    """
    engine = engines.training
    constraints = Constraints.of(parameters, engine.features)
    features = FeatureSampler(len(engine.features), parameters)
    penalties = _penalties(parameters)
    settings = SplitSettings(penalties, _limits(constraints, features), parameters.gamma, workers, loss.n_outputs)
    search = method.prepare(engine, engines.held_out, Binning(parameters.max_bin, given_bins), settings)
    base = _start_margins(engines, loss, parameters)
    settings.min_gains = _min_gains(engine, loss)
    linear = LinearLeaves(search.bins, parameters) if parameters.linear_tree else None
    grower: TreeGrower | WholeTreeGrower | VectorTreeGrower
    if is_for_all_outputs(parameters, loss):
        settings.output = int(np.argmax(settings.min_gains))
        grower = VectorTreeGrower(engine, search, parameters, penalties, constraints, engines.held_out)
    elif are_grown_whole(engine, parameters, constraints, loss.n_outputs):
        grower = WholeTreeGrower(engine, search, parameters, settings, features, engines.held_out, linear)
    else:
        grower = TreeGrower(engine, search, parameters, constraints, engines.held_out, linear)
    rounds = _Rounds(engines, loss, parameters, settings, features, grower)
    first, n_rounds = log.rounds_before, parameters.n_estimators
    if checkpoint is not None:
        n_rounds = _resume(checkpoint, rounds, search, base, log)
    for round_ in range(log.n_rounds, first + n_rounds):
        rounds.grow(round_)
        stop = log.end_round()
        if log.kept_round == round_ + 1:
            rounds.keep_best()
        if checkpoint is not None:
            stopped_at = parameters.n_estimators if log.stopped_by_callback else None
            saved = SavedRound(rounds.last, log.last, stopped_at)
            checkpoint.end_round(saved, loss.n_outputs, is_last=stop or round_ + 1 == first + n_rounds)
        on_round(round_ + 1 - first)
        if stop:
            break
    kept = rounds.kept()
    if not engines.continues:
        check_result(engine, loss, parameters, kept, search.bins, settings.min_gains)
    return Ensemble(loss, parameters.shaping(), tuple(b.feature for b in search.bins), base, kept)


def _resume(
    checkpoint: Checkpoint, rounds: _Rounds, search: SplitSearch, base: Sequence[float], log: EvaluationLog
) -> int:
    """Repeat the rounds of a checkpoint; return how many rounds there are to be in all.

    Unless the fit is finished, the last one is grown again and compared, to find other data.
    """
    loss, parameters, engines = rounds.loss, rounds.parameters, rounds.engines
    named = {f"validation rows {i}" if i else "training rows": engine for i, engine in enumerate(engines.all())}
    more = ["weight"] * engines.is_weighted + [f"init_{name}" for name in loss.margins] * engines.continues
    more += dict.fromkeys(role for offset in engines.offsets.values() for role in offset.columns)
    checkpoint.check_data(data_facts(named, loss, more, search.bins, base))
    features, n_rounds = [b.feature for b in search.bins], parameters.n_estimators
    saved = checkpoint.saved_rounds(n_rounds, features, loss.n_outputs, parameters.num_parallel_tree, [*log.columns])
    best = set()
    for number, each in enumerate(saved, 1):
        stop = log.restore_round(each.metrics)
        if log.kept_round == log.n_rounds:
            best.add(number)
        if stop or (each.stopped_at or 0) >= parameters.n_estimators:
            n_rounds, saved = number, saved[:number]
            break
    if len(saved) == n_rounds:
        rounds.keep_margins()
    for number, each in enumerate(saved, 1):
        try:
            trees = [repeated(tree, loss.margins[tree.output], search.splitter.bin_of) for tree in each.trees]
        except ValueError as error:
            raise checkpoint.damaged(f"round {number}: {error}") from error
        if number == len(saved) < n_rounds:
            rounds.grow(log.n_rounds - 1)
            checkpoint.check_grown(each, rounds.last, log.evaluate())
        else:
            rounds.repeat(log.rounds_before + number - 1, trees)
        if number in best:
            rounds.keep_best()
    return n_rounds


class _Rounds:
    """Grows the trees of each round, or repeats saved ones, and keeps them all."""

    def __init__(
        self,
        engines: FitEngines[TrainingT, HeldOutT],
        loss: Loss,
        parameters: Parameters,
        settings: SplitSettings,
        features: FeatureSampler,
        grower: TreeGrower | WholeTreeGrower | VectorTreeGrower,
    ) -> None:
        self.engines = engines
        self.loss = loss
        self.parameters = parameters
        self._settings = settings
        self._features = features
        self._grower = grower
        self._renewals = renewals_of(engines.training, loss, is_weighted=engines.is_weighted)
        self._moved = engines.all()  # the engines whose margins saved trees are added to
        self._dropout = self._new_dropout()
        self._trees: list[Tree | GrownArrays] = []
        self._rates = parameters.as_dict()
        self._n_last = 0  # of the last round
        self._n_best: int | None = None  # None keeps all
        self._best_weights: Sequence[float] = ()

    def _new_dropout(self) -> Dropout | None:
        return Dropout(self._moved, self.parameters) if self.parameters.booster == "dart" else None

    @property
    def last(self) -> list[Tree]:
        """The trees of the last round."""
        return list(map(as_tree, self._trees[-self._n_last :]))

    def keep_margins(self) -> None:
        """Leave all margins as they are, before rounds that are the last ones are repeated."""
        self._moved = ()
        self._dropout = self._new_dropout()

    def grow(self, round_: int) -> None:
        """Grow the trees of a round, which are added to the margins."""
        if self._dropout is not None:
            self._dropout.drop(round_)
        _check_hessians(self.engines.training, self.loss, round_)
        compute_gradients(self.engines.training, self.loss)
        self._grower.shrinkage = shrinkage_of(self._rates, round_)
        self._end(list(self._grown(round_)))

    def _grown(self, round_: int) -> Iterator[GrownTree]:
        """Yield the trees of a round, output by output."""
        parallel = self.parameters.num_parallel_tree
        if isinstance(self._grower, VectorTreeGrower):
            of_growths = [self._grown_at_once(self._grower, round_, index) for index in range(parallel)]
            yield from chain.from_iterable(zip(*of_growths, strict=True))
            return
        for output, margin in enumerate(self.loss.margins):
            self._settings.output = output
            for index in range(output * parallel, (output + 1) * parallel):
                totals = self._start_tree(round_, index, output)
                yield self._grower.grow(totals, output, margin, self._renewals.get(output))

    def repeat(self, round_: int, grown: Sequence[GrownTree]) -> None:
        """Add saved trees to the margins, as they were added in that round."""
        if self._dropout is not None:
            self._dropout.drop(round_)
        for tree in grown:
            tree.add_to_margins(self._moved)
        self._end(grown)

    def _end(self, grown: Sequence[GrownTree]) -> None:
        self._trees += [each.kept for each in grown]
        self._n_last = len(grown)
        if self._dropout is not None:
            self._dropout.restore(grown)

    def keep_best(self) -> None:
        """Take the trees so far for those of the model, until there are better ones."""
        # Not the trees: most rounds are the best so far, and their copies would grow with the square of the rounds.
        self._n_best = len(self._trees)
        if self._dropout is not None:
            self._best_weights = self._dropout.weights()

    def kept(self) -> Sequence[Tree]:
        """Return the trees of the model, up to the best round if there is one: with dropout, times their weights."""
        trees = as_trees(self._trees[: self._n_best])
        if self._dropout is None:
            return trees
        return weighted(trees, self._dropout.weights() if self._n_best is None else self._best_weights)

    def _start_tree(self, round_: int, index: int, output: int) -> Stats:
        """Start the tree at that place in its round; return G and H of all rows."""
        totals = self.engines.training.start_tree(output, self._sample(round_, index, output))
        _check_finite(totals, self.loss, round_)
        return totals

    def _grown_at_once(self, grower: VectorTreeGrower, round_: int, index: int) -> list[GrownTree]:
        """Grow the trees of all outputs at that place in the round."""
        rows = cast(VectorEngine, self.engines.training)
        totals = rows.start_vector_tree(self._sample(round_, index, 0))
        for of_output in totals:
            _check_finite(of_output, self.loss, round_)
        return grower.grow(totals, self.loss.margins, self._renewals)

    def _sample(self, round_: int, index: int, output: int) -> Sample | None:
        """Draw the features of the tree at that place, and return the sample of its rows."""
        number = round_ * self.loss.n_outputs * self.parameters.num_parallel_tree + index  # part of each draw's key
        self._features.start_tree(number)
        return sample_rows(self.engines.training, output, self.parameters, number)


def _start_margins(engines: FitEngines[TrainingT, HeldOutT], loss: Loss, parameters: Parameters) -> tuple[float, ...]:
    """Set the margins and predictions of all rows before the first tree; return the base margins."""
    if engines.continues:
        base, firsts = (0.0,) * loss.n_outputs, [f"init_{name}" for name in loss.margins]
        starts = {name: Expression(first, (first,)) for name, first in zip(loss.margins, firsts, strict=True)}
    else:
        base = base_margins(
            engines.training, loss, parameters.base_score, engines.offsets, is_weighted=engines.is_weighted
        )
        starts = {name: Expression(repr(value), ()) for name, value in zip(loss.margins, base, strict=True)}
    for engine in engines.all():
        engine.start_margins({name: plus(start, engines.offsets.get(name)) for name, start in starts.items()})
        define_predictions(engine, loss)
    return base


def _min_gains(engine: Engine, loss: Loss) -> tuple[float, ...]:
    """Return for each output the gain that is no more than rounding: 10⁻⁶, or less where no row could gain 1.

    A row gains g²/h in a leaf of its own, which says how large targets and weights are. Gradients that are rounding, as
    those of a fitted model, don't. Where the squares are too small for floats, no gain is enough. Losses whose terms
    are sums over other rows, as those of queries, have gradients of a size of their own.
    """
    by_default = (MIN_GAIN,) * loss.n_outputs
    if not all(isinstance(term, Expression) for term in loss.terms.values()):
        return by_default
    define_terms(engine, loss.terms)
    gains = {}
    for margin, each in zip(loss.margins, loss.outputs[: 1 if loss.classes else None], strict=False):
        g, h = f"({each.gradient.text})", f"({each.hessian.text})"
        if len(g) + len(h) > _LONGEST:
            return by_default
        names = dict.fromkeys((*each.gradient.columns, *each.hessian.columns, margin, "weight"))
        is_known = f"{h} > 0 AND ABS{g} > {_ROUNDING!r} * {h} * ABS({margin})"
        gains[margin] = Aggregate(
            "max", Expression(f"CASE WHEN {is_known} THEN weight * {g} * {g} / {h} END", tuple(names))
        )
    found = engine.aggregate(gains)
    most = [1.0 if (value := found.get(margin)) is None else value for margin in loss.margins]
    if loss.classes:  # of which the first stands for all
        most = most[:1] * loss.n_outputs
    return tuple(MIN_GAIN * min(each, 1.0) if each > _SMALLEST_SQUARE else math.inf for each in most)


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
