"""Prediction intervals: conformity scores, and the ends of the interval, as expressions over the margins.

A row's score says how far its label is from what the model says. The interval of a new row has all labels of a score up
to a distance, which is a quantile of the scores of rows that the trees have not seen (`frameboost.training.conformal`):

=============  ========================  ======================================
kind           score                     interval
=============  ========================  ======================================
``absolute``   abs(y - p)                p - d to p + d
``scaled``     abs(y - p) / s            p - d s to p + d s
``quantiles``  max(low - y, y - high)    low - d to high + d
=============  ========================  ======================================

p is the prediction, and s what the loss takes for the standard deviation of labels around it (`Loss.spread`). ``low``
and ``high`` are two quantiles of one model, the lower one first. Ends outside the loss's range are moved to its bounds,
beyond which there are no labels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from frameboost.checks.messages import shown
from frameboost.errors import ParameterError
from frameboost.expressions.expression import Expression
from frameboost.losses.lookups import Lookup
from frameboost.losses.loss import Loss

__all__ = [
    "DISTANCE",
    "ENDS",
    "Ends",
    "Interval",
    "Kind",
    "has_intervals",
    "has_quantiles",
    "interval_ends",
    "kind_of",
    "score_of",
]

Kind = Literal["absolute", "scaled", "quantiles"]

DISTANCE = "distance"
ENDS = ("lower", "upper")


@dataclass(frozen=True)
class Interval:
    """What a model knows of its prediction intervals.

    Attributes
    ----------
    coverage
        The share of labels that intervals are to hold.
    rows
        The number of scores that the distances are quantiles of.
    kind
        ``absolute``, ``scaled`` or ``quantiles``.
    distance
        How far the interval reaches; below 0 where quantiles are too far apart.
    quantiles
        The numbers of the margins of the two quantiles; none of other kinds.
    groups
        The distance by the value of a column, if it differs; all other values have ``distance``.
    """

    coverage: float
    rows: int
    kind: Kind
    distance: float
    quantiles: tuple[int, ...] = ()
    groups: Lookup | None = None


@dataclass(frozen=True)
class Ends:
    """The ends of intervals as expressions, with the terms that they share, in stages as those of an output."""

    stages: tuple[Mapping[str, Expression], ...]
    lower: Expression
    upper: Expression


def has_quantiles(loss: Loss) -> bool:
    """Whether the outputs are several quantiles of one target."""
    return loss.name == "reg:quantileerror" and loss.n_outputs > 1 and len(loss.labels) == 1


def kind_of(loss: Loss) -> Kind:
    """Return the kind of intervals that goes with a loss.

    Raises
    ------
    ParameterError
        If there is none: of classes, of several targets, of survival times and of ranking.
    """
    if reason := _why_not(loss):
        what = f"the model, of objective {shown(loss.name)},"
        raise ParameterError(f"prediction intervals are for a regression of one target; {what} {reason}")
    return "quantiles" if has_quantiles(loss) else "absolute" if loss.spread is None else "scaled"


def has_intervals(loss: Loss) -> bool:
    """Whether a loss has intervals: that of a regression of one target."""
    return not _why_not(loss)


def _why_not(loss: Loss) -> str:
    """Return why a loss has no intervals, or nothing."""
    if has_quantiles(loss) or loss.is_distribution:
        return ""
    if loss.classes:
        return f"has {loss.classes} classes"
    if len(loss.labels) > 1:
        return f"has {len(loss.labels)} targets"
    if loss.name.startswith("survival:"):
        return "is of times, which may be censored"
    if loss.name.startswith("rank:"):
        return "ranks, and its scores are on no scale of labels"
    return f"has {loss.n_outputs} outputs" if loss.n_outputs > 1 else ""


def score_of(loss: Loss, kind: Kind, quantiles: tuple[int, ...] = ()) -> Expression:
    """Return the score of a row, over ``label`` and the margins, or what they are called in `Loss.margins`."""
    if kind == "quantiles":
        low, high = _low_and_high(loss, quantiles)
        return Expression(f"GREATEST(({low}) - label, label - ({high}))", ("label", *loss.margins))
    score = f"ABS(label - ({loss.links[0].text}))"
    if kind == "scaled":
        assert loss.spread is not None
        score = f"{score} / ({loss.spread.text})"
    return Expression(score, ("label", *loss.margins))


def interval_ends(
    loss: Loss, kind: Kind, quantiles: tuple[int, ...] = (), distance: float | None = None, *, narrows: bool = False
) -> Ends:
    """Return the ends of intervals.

    Parameters
    ----------
    distance
        The distance; None where it is called ``distance`` in the expressions.
    narrows
        Whether a distance may be below 0, so that the ends have to be kept from passing each other.
    """
    d = DISTANCE if distance is None else f"({distance!r})" if distance < 0 else repr(distance)
    read: tuple[str, ...] = (*loss.margins, DISTANCE)
    if kind == "quantiles":
        low, high = _low_and_high(loss, quantiles)
        stages: tuple[Mapping[str, Expression], ...] = ()
        lower, upper = f"{low} - {d}", f"{high} + {d}"
        if narrows:
            read = (*read, "low", "high", "middle")
            stages = ({"low": Expression(low, read), "high": Expression(high, read)},
                      {"middle": Expression("low * 0.5 + high * 0.5", read)})  # fmt: skip
            lower, upper = f"LEAST(low - {d}, middle)", f"GREATEST(high + {d}, middle)"
        return Ends(stages, Expression(lower, read), Expression(upper, read))
    centre, reach = loss.links[0].text, d
    read, shared = (*read, "centre", "reach"), dict[str, Expression]()
    if centre != loss.margins[0] or kind == "scaled":
        shared["centre"], centre = Expression(centre, read), "centre"
    if kind == "scaled":
        assert loss.spread is not None
        shared["reach"], reach = Expression(f"{d} * ({loss.spread.text})", read), "reach"
    lowest, highest = loss.score_range
    lower, upper = f"{centre} - {reach}", f"{centre} + {reach}"
    lower = lower if math.isinf(lowest) else f"GREATEST({lower}, {lowest!r})"
    upper = upper if math.isinf(highest) else f"LEAST({upper}, {highest!r})"
    return Ends((shared,) if shared else (), Expression(lower, read), Expression(upper, read))


def _low_and_high(loss: Loss, quantiles: tuple[int, ...]) -> tuple[str, str]:
    """Return the lower and the higher of two quantiles, which may cross."""
    pair = ", ".join(loss.margins[number] for number in quantiles)
    return f"LEAST({pair})", f"GREATEST({pair})"
