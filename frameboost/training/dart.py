"""Dropout of trees, ``booster="dart"`` (Rashmi & Gilad-Bachrach 2015).

Each round drops some earlier trees: their leaf values are subtracted from the margins before the new trees are grown.
Then the new and the dropped trees are scaled so that together they weigh as much as the dropped ones did. Example with
``normalize_type="tree"``, learning rate η = ½, one new tree and one dropped tree of weight 1: the new one weighs 1 / (1
+ η) = ⅔, the dropped one 1 · 1 / (1 + η) = ⅔.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from frameboost.engines.contract import Engine
from frameboost.expressions.draws import draw_key, hash32
from frameboost.parameters.parameters import Parameters
from frameboost.training.boosting import Growth
from frameboost.training.grower import GrownTree

__all__ = ["Dropout"]

_SKIP, _DROP, _ONE = 10, 11, 12  # first part of a draw's key; `frameboost.training.growths` has other numbers


class Dropout:
    """A growth with dropout around another growth: chooses the trees to drop, and keeps the weight of each tree.

    Parameters
    ----------
    growth
        The inner growth.
    engines
        All engines with margins to add the trees to.
    parameters
        The parameters, with ``rate_drop`` and the others of dart.
    """

    def __init__(self, growth: Growth, engines: Sequence[Engine], parameters: Parameters) -> None:
        self._growth = growth
        self._engines = tuple(engines)
        self._parameters = parameters
        self._weights: list[float] = []
        self._grown: list[GrownTree] = []  # to repeat their moves
        self._dropped: list[int] = []

    def start_round(self, round_: int) -> None:
        """Choose the trees to drop in a round, and subtract them from the margins."""
        self._growth.start_round(round_)
        self._dropped = self._chosen(round_)
        for number in self._dropped:
            self._grown[number].add_to_margins(self._engines, -self._weights[number])

    def trees(self, round_: int) -> Iterable[GrownTree]:
        """Grow the trees of the round without the dropped ones."""
        return self._growth.trees(round_)

    def end_round(self, grown: Sequence[GrownTree]) -> None:
        """Scale the trees of the round and the dropped ones, and add the latter to the margins again.

        ``grown`` are the new trees; the margins contain them at full weight.
        """
        self._growth.end_round(grown)
        first = len(self._grown)
        self._grown += grown
        self._weights += [1.0] * len(grown)
        n_dropped, rate = len(self._dropped), self._parameters.learning_rate / len(grown)
        if not n_dropped:
            return
        if self._parameters.normalize_type == "forest":
            factor = new = 1.0 / (1.0 + rate)
        else:
            share = 1.0 / len(grown) if self._parameters.normalize_type == "dart" else rate
            factor, new = n_dropped / (n_dropped + share), 1.0 / (n_dropped + share)
        for number in range(first, len(self._grown)):
            self._weights[number] = new
            self._grown[number].add_to_margins(self._engines, new - 1.0)
        for number in self._dropped:
            self._weights[number] *= factor
            self._grown[number].add_to_margins(self._engines, self._weights[number])

    def weights(self) -> tuple[float, ...]:
        """Return the current weights of the trees so far."""
        return tuple(self._weights)

    def _chosen(self, round_: int) -> list[int]:
        p, n = self._parameters, len(self._weights)
        if not n or _uniform(p.seed, _SKIP, round_) < p.skip_drop:
            return []
        mean = sum(self._weights) / n
        rates = [p.rate_drop * (w / mean if p.sample_type == "weighted" else 1.0) for w in self._weights]
        chosen = [i for i, rate in enumerate(rates) if _uniform(p.seed, _DROP, round_, i) < rate]
        if not chosen and p.one_drop:
            draws = [_uniform(p.seed, _ONE, round_, i) for i in range(n)]
            weights = self._weights if p.sample_type == "weighted" else [1.0] * n
            # The smallest of exponential variates with rates w_i is the i-th with probability w_i / Σw.
            chosen = [min(range(n), key=lambda i: (1.0 - draws[i]) ** (-1.0 / weights[i]))]
        return chosen


def _uniform(seed: int, *path: int) -> float:
    """Return a number in [0, 1) drawn by a hash of the seed and a path of numbers."""
    return hash32(0, draw_key(seed, *path)) / 2.0**32
