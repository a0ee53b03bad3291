"""The threshold of the second of two classes, chosen by what is gained or lost on rows with labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from frameboost.checks.messages import shown
from frameboost.data.sources import LocalSource
from frameboost.engines.choose import rows_of
from frameboost.engines.contract import Rows
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import DataError, ParameterError
from frameboost.evaluation.evaluation import score_counts
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Aggregate, rounded
from frameboost.losses.classes import check_decides, with_threshold
from frameboost.parameters.parameters import threshold_or_rule
from frameboost.prediction.predictor import Predictor
from frameboost.training.evaluation_log import AtBestRound, EvaluationLog

__all__ = ["ThresholdAtBestRound", "check_rule", "chosen_threshold", "decided", "scores_of"]

_MOST_DIGITS = 17


def decided(
    ensemble: Ensemble, threshold: object, source: LocalSource | None = None, roles: Mapping[str, str] | None = None
) -> Ensemble:
    """Return the ensemble with a threshold, or with one that is chosen on the rows of a source.

    Parameters
    ----------
    ensemble
        Of two classes.
    threshold
        A number, or how to choose it: see `Parameters`.
    source, roles
        The rows, with labels as numbers, and their columns by role.

    Raises
    ------
    ParameterError
        If the threshold is neither, the ensemble has no probability of the second of two classes, or there are no rows.
    DataError
        If no row is of one of the classes.
    """
    chosen = threshold_or_rule(threshold)
    check_decides(ensemble.loss)
    if isinstance(chosen, float | None):
        number = 0.5 if chosen is None else chosen
    elif source is None or roles is None:
        raise ParameterError(f"threshold={shown(threshold)} is chosen on rows with labels; pass data and target")
    else:
        number = chosen_threshold(chosen, scores_of(ensemble, source, roles))
    parameters = {**ensemble.parameters, "threshold": number}
    return replace(ensemble, loss=with_threshold(ensemble.loss, number), parameters=parameters)


def scores_of(ensemble: Ensemble, source: LocalSource, roles: Mapping[str, str]) -> pl.DataFrame:
    """Return ``label``, ``prediction``, the probability of the second class, and ``weight``, of the rows of a source.

    Rows with equal values are merged, with the sum of their weights.
    """
    counts = score_counts(Predictor(ensemble).of_numbers(), source, roles, [], "probability")
    return counts.rename({"score": "prediction"})


class ThresholdAtBestRound(AtBestRound):
    """Chooses a threshold on the rows of an engine, wherever they are, at the round whose trees are the model.

    Parameters
    ----------
    rule
        As `Parameters` has it.
    rows
        The rows, with their predictions.
    log
        Says which round is the best.
    """

    def __init__(self, rule: object, rows: Rows, log: EvaluationLog) -> None:
        super().__init__(lambda: (chosen_threshold(rule, rows),), log)

    def of(self, ensemble: Ensemble) -> Ensemble:
        """Return the ensemble that was trained with the threshold, after the last round."""
        return decided(ensemble, self.value()[0])


def check_rule(rule: object, rows: Rows) -> None:
    """Raise `DataError` if a rule needs a row of the second class, and none of these is."""
    of_second = Expression(_SIDES["positive"], ("label", "weight"))
    if _needs_second(rule) and not rows.aggregate({"weight": Aggregate("max", of_second)})["weight"]:
        raise _without_second(rule)


def chosen_threshold(rule: object, rows: pl.DataFrame | Rows) -> float:
    """Return the threshold that a rule chooses, in few digits, between two probabilities of the rows.

    Of thresholds that are equally good, up to rounding, it is the highest.

    Parameters
    ----------
    rule
        As `Parameters` has it.
    rows
        With ``label``, ``prediction`` and ``weight``.

    Raises
    ------
    DataError
        If no row is of the second class, without which there is neither F1 nor a share of rows to find it in.

    Examples
    --------
    >>> rows = pl.DataFrame({"label": [0.0, 0.0, 1.0, 1.0], "prediction": [0.1, 0.4, 0.3, 0.9], "weight": [1.0] * 4})
    >>> chosen_threshold("f1", rows), chosen_threshold({"share": 0.25}, rows)
    (0.2, 0.7)
    >>> chosen_threshold({"false_positive": 9.0, "false_negative": 1.0}, rows)
    0.7
    """
    rows = rows_of(rows, rows.columns) if isinstance(rows, pl.DataFrame) else rows
    sides = rounded(rows, {name: Expression(text, ("label", "weight")) for name, text in _SIDES.items()})
    by_score = rows.by_score(_PREDICTION, sides["positive"], sides["negative"])
    sums = rows.aggregate({name: Aggregate("sum", side) for name, side in sides.items()})
    loss, of_none = _loss(rule, sums["positive"] or 0.0, sums["negative"] or 0.0)

    def over_scores(**aggregates: tuple[str, str]) -> dict[str, float | None]:
        return by_score.aggregate({k: Aggregate(f, Expression(text, _OF_SCORE)) for k, (f, text) in aggregates.items()})

    least = over_scores(loss=("min", loss))["loss"]
    assert least is not None
    # The last digits of a number depend on the database that it is from.
    most = least + _ROUNDING * max(abs(least), abs(of_none))
    chosen: dict[str, float | None] = {"score": 1.0, "rows": 0.0}  # no row is of the second class
    if of_none > most:
        best = f"CASE WHEN {loss} <= {most!r} THEN"
        chosen = over_scores(score=("max", f"{best} score END"), rows=("min", f"{best} {_TAKEN} END"))
    score, n_taken = (value or 0.0 for value in chosen.values())
    others = f"CASE WHEN {_TAKEN} > {n_taken * (1.0 + _ROUNDING)!r} THEN score END"
    return _between(over_scores(score=("max", others))["score"] or 0.0, min(score, 1.0))


_ROUNDING = 1e-12
_PREDICTION = Expression("prediction", ("prediction",))
_SIDES = {
    "positive": "CASE WHEN label = 1 AND weight > 0 THEN weight ELSE 0 END",
    "negative": "CASE WHEN label <> 1 AND weight > 0 THEN weight ELSE 0 END",
}
# Names over distinct scores, and the rows with a score of at least that: of the second class, of the first, all.
_OF_SCORE = ("score", "positive", "negative", "positive_above", "negative_above")
_TRUE, _FALSE = "(positive_above + positive)", "(negative_above + negative)"
_TAKEN = f"({_TRUE} + {_FALSE})"


def _loss(rule: object, positive: float, negative: float) -> tuple[str, float]:
    """Return what a rule minimises, over the distinct scores, and where no row is taken for one of the second class."""
    if not _needs_second(rule):
        assert isinstance(rule, Mapping)
        false_positive, false_negative = rule["false_positive"], rule["false_negative"]
        missed = f"({positive!r} - {_TRUE})"
        return f"({false_positive!r} * {_FALSE} + {false_negative!r} * {missed})", false_negative * positive
    if not positive:
        raise _without_second(rule)
    if rule == "f1":
        return f"(-2 * {_TRUE} / ({_TAKEN} + {positive!r}))", 0.0
    assert isinstance(rule, Mapping)
    return f"ABS({_TAKEN} / {positive + negative!r} - {rule['share']!r})", rule["share"]


def _needs_second(rule: object) -> bool:
    """Whether a rule needs rows of the second class; costs do not."""
    return not isinstance(rule, Mapping) or "share" in rule


def _without_second(rule: object) -> DataError:
    return DataError(f"threshold={shown(rule)} is chosen on rows of both classes, and none of these is of the second")


def _between(low: float, high: float) -> float:
    """Return a number of few digits that is above or at ``low`` and below ``high``, near their middle."""
    middle = low + (high - low) / 2
    near = float(f"{middle:.12g}")
    for digits in range(1, _MOST_DIGITS):
        number = round(near, digits - 1 - math.floor(math.log10(near))) if near > 0 else 0.0
        if low * (1.0 + _ROUNDING) < number < high * (1.0 - _ROUNDING) and number < 1.0:
            return number
    return min(max(middle, low, 1e-300), math.nextafter(1.0, 0.0))
