"""Estimate the errors of a fit to transformed labels, for smearing (see `frameboost.losses.transforms`)."""

from __future__ import annotations

import math
from dataclasses import replace

from frameboost.checks.messages import shown, warn
from frameboost.engines.contract import Rows
from frameboost.ensemble.ensemble import Ensemble
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import exact_sum, weighted
from frameboost.losses.loss import Loss
from frameboost.losses.transforms import smearing_terms, with_smearing
from frameboost.training.evaluation_log import AtBestRound, EvaluationLog

__all__ = ["Smearing"]

_WEIGHT = Expression("weight", ("weight",))


class Smearing(AtBestRound):
    """Takes the mean errors at the best round.

    Parameters
    ----------
    loss
        The loss, with a transform.
    rows
        The rows to take errors on: held-out rows, which the trees have not seen, or else training rows.
    log
        The log, which knows the best round.
    """

    def __init__(self, loss: Loss, rows: Rows, log: EvaluationLog) -> None:
        super().__init__(self._means, log)
        self._loss, self._rows = loss, rows

    def of(self, ensemble: Ensemble) -> Ensemble:
        """Return the trained ensemble with a smeared link, after the last round."""
        numbers = self.value()
        parameters = {**ensemble.parameters, "smearing": list(numbers)}
        return replace(ensemble, loss=with_smearing(ensemble.loss, numbers), parameters=parameters)

    def _means(self) -> tuple[float, ...]:
        self._rows.add_columns(self._loss.fitted)
        terms = {str(k): weighted(term) for k, term in enumerate(smearing_terms(self._loss))}
        sums = exact_sum(self._rows, {**terms, "weight": _WEIGHT})
        means = tuple(sums[name] / sums["weight"] for name in terms)
        if all(map(math.isfinite, means)):
            return means
        transform = self._loss.transform
        assert transform is not None
        name = shown(transform.name)
        warn(f"the errors of target_transform={name} are too large for smearing; predictions are not smeared")
        return transform.neutral * len(self._loss.labels)
