"""The boosting loop: rounds of gradients and trees, on any engine.

F_t(x) = F_{t−1}(x) + η·f_t(x), f_t grown on the gradients of the loss at F_{t−1} (Chen & Guestrin 2016, section 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from frameboost.checks.messages import shown
from frameboost.engines.contract import Engine, Rows
from frameboost.errors import DataError
from frameboost.expressions.grid import Aggregate
from frameboost.losses.loss import Loss
from frameboost.metrics.metric import define_terms
from frameboost.training.evaluation_log import EvaluationLog
from frameboost.training.grower import GrownArrays, GrownTree, as_tree, as_trees
from frameboost.trees.tree import Tree

__all__ = ["Growth", "Observer", "Progress", "boost", "compute_gradients", "grow_round"]

Observer = Callable[[int, bool], None]  # called after each round with its number, from 0, and whether it is the last


class Growth(Protocol):
    """Grows the trees of a round from its gradients; `frameboost.training.growths` chooses one."""

    def start_round(self, round_: int) -> None:
        """Set the margins at which the gradients of the round are computed."""

    def trees(self, round_: int) -> Iterable[GrownTree]:
        """Grow the trees of the round, and add them to the margins of all rows."""

    def end_round(self, grown: Sequence[GrownTree]) -> None:
        """Scale the trees of the round, and those before them."""

    def weights(self) -> Sequence[float] | None:
        """Return the weight of each tree so far; None if all are 1."""


@dataclass
class Progress:
    """The trees so far, and how many of them, with which weights, form the best model.

    The best trees are counted, not copied: most rounds are the best so far, and copying would be quadratic.
    """

    trees: list[Tree | GrownArrays] = field(default_factory=list)
    n_of_round: int = 0
    n_best: int | None = None
    best_weights: Sequence[float] | None = None

    def add(self, grown: Sequence[GrownTree]) -> None:
        """Append the trees of a round."""
        self.trees += [each.tree for each in grown]
        self.n_of_round = len(grown)

    def keep_best(self, weights: Sequence[float] | None) -> None:
        """Mark the trees so far, with these weights, as the best model."""
        self.n_best, self.best_weights = len(self.trees), weights

    def last_round(self) -> list[Tree]:
        """Return the trees of the last round."""
        return list(map(as_tree, self.trees[-self.n_of_round :]))

    def model_trees(self, weights: Sequence[float] | None) -> Sequence[Tree]:
        """Return the trees of the model up to the best round, or all with ``weights`` if there is none."""
        trees, weights = as_trees(self.trees[: self.n_best]), weights if self.n_best is None else self.best_weights
        if weights is None:
            return trees
        return tuple(
            tree if weight == 1.0 else replace(tree, value=tuple([value * weight for value in tree.value]))
            for tree, weight in zip(trees, weights, strict=True)
        )


def boost(
    training: Engine, growth: Growth, loss: Loss, log: EvaluationLog, last_round: int, progress: Progress,
    observers: Sequence[Observer] = (),
) -> None:  # fmt: skip
    """Grow rounds of trees up to ``last_round``, or until the log stops."""
    for round_ in range(log.n_rounds, last_round):
        grow_round(training, growth, loss, round_, progress)
        stop = log.end_round()
        if log.kept_round == round_ + 1:
            progress.keep_best(growth.weights())
        for observe in observers:
            observe(round_, stop or round_ + 1 == last_round)
        if stop:
            break


def grow_round(training: Engine, growth: Growth, loss: Loss, round_: int, progress: Progress) -> None:
    """Grow the trees of one round."""
    growth.start_round(round_)
    _check_hessians(training, loss, round_)
    compute_gradients(training, loss)
    grown = list(growth.trees(round_))
    growth.end_round(grown)
    progress.add(grown)


def compute_gradients(rows: Engine, loss: Loss) -> None:
    """Compute g and h of every output, weighted and on their grids, and residuals for leaf renewal, in the engine."""
    define_terms(rows, loss.terms)
    rows.compute_gradients(loss.gradients, loss.residuals)


def _check_hessians(rows: Rows, loss: Loss, round_: int) -> None:
    """Check that the hessian of a custom loss is positive, as otherwise a leaf −G/(H+λ) may increase the loss."""
    if loss.definition is None or loss.is_of_arrays:  # which are checked as they are computed
        return
    for derivatives in loss.outputs:
        lowest = rows.aggregate({"h": Aggregate("min", derivatives.hessian)})["h"]
        if lowest is None or not lowest > 0:
            raise DataError(
                f"the hessian {shown(derivatives.hessian.text)} of the objective is {shown(lowest)} in some row of "
                f"round {round_ + 1}; it must be greater than 0 everywhere"
            )
