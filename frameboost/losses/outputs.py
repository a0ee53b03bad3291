"""The outputs of a model as expressions over its margins: `OUTPUTS`.

Intervals may also read the number of a lookup by a column (`Lookup`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from frameboost.checks.messages import advice, listed, shown
from frameboost.errors import ParameterError
from frameboost.expressions.expression import Expression
from frameboost.losses.loss import Loss, argmax_class, largest_margin, margin_names
from frameboost.schema.types import Feature, FeatureType

__all__ = [
    "DISTANCE",
    "ENDS",
    "LOOKUP_TYPES",
    "MOMENTS",
    "OUTPUTS",
    "Ends",
    "Interval",
    "Kind",
    "Lookup",
    "Output",
    "OutputName",
    "ScoreName",
    "has_intervals",
    "interval_ends",
    "kind_of",
    "leaf_output",
    "output_of",
    "score_of",
    "value_range",
]


OutputName = Literal["mean", "margin", "class", "probability", "quantiles", "distribution", "interval"]
OUTPUTS: tuple[str, ...] = get_args(OutputName)
# What rows can be scored with: outputs, and the leaves that they reach.
ScoreName = Literal[OutputName, "leaf"]
# What the two values of the output ``distribution`` are called.
MOMENTS = ("mean", "std")


@dataclass(frozen=True)
class Output:
    """An output of a model: expressions over its margins, and over the number of a lookup by a column.

    Attributes
    ----------
    margins
        The names of the margins.
    stages
        Subexpressions of the values, in stages; each may use margins and earlier stages.
    values
        One expression, or several for a list of numbers.
    is_class
        Whether the values are class indices or labels.
    labels
        The labels by their names in the values; empty if classes are numbers.
    names
        The names of the values as columns; empty if they are numbered.
    lookup
        The lookup, or None.
    """

    margins: tuple[str, ...]
    stages: tuple[Mapping[str, Expression], ...]
    values: tuple[Expression, ...]
    is_class: bool = False
    labels: Mapping[str, str | bool] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    lookup: Lookup | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        """The inputs before the stages: the margins, then the number of the lookup."""
        return self.margins if self.lookup is None else (*self.margins, self.lookup.name)

    @property
    def is_margin(self) -> bool:
        """Whether the output is the only margin unchanged."""
        return (
            [value.text for value in self.values] == list(self.margins) and len(self.margins) == 1 and not self.is_class
        )

    def margins_behind(self) -> list[list[int]]:
        """Return the indices of the margins that each value depends on, directly or through stages.

        >>> from frameboost.losses.built_in import get_loss
        >>> loss = get_loss("multi:softprob", {"num_class": 2, "scale_pos_weight": 1.0})
        >>> output_of(loss, "mean").margins_behind(), output_of(loss, "margin").margins_behind()
        ([[0, 1], [0, 1]], [[0], [1]])
        """
        behind = {margin: {k} for k, margin in enumerate(self.margins)}

        def of(value: Expression) -> set[int]:
            return set().union(*(numbers for name, numbers in behind.items() if value.uses(name)))

        for stage in self.stages:
            behind |= {name: of(value) for name, value in stage.items()}
        return [sorted(of(value)) for value in self.values]

    def used_margins(self) -> set[int]:
        """Return the indices of the margins that any value depends on."""
        return {number for numbers in self.margins_behind() for number in numbers}


def leaf_output(n_trees: int) -> Output:
    """Return the output ``leaf``: the leaf indices of a row, with each tree's as a margin."""
    margins = margin_names(n_trees)
    return Output(margins, (), tuple(Expression(margin, (margin,)) for margin in margins), is_class=True)


def output_of(
    loss: Loss, name: str, calibration: Expression | None = None, labels: Sequence[str | bool] = (),
    interval: Interval | None = None,
) -> Output:  # fmt: skip
    """Return the output of that name for a loss.

    Parameters
    ----------
    calibration
        A link that replaces that of the loss.
    labels
        The labels of the classes; none where they are numbered.
    interval
        The kind and the distances of the model's prediction intervals.

    Raises
    ------
    ParameterError
        If the loss has no such output; the message lists all.
    """
    margins = loss.margins
    if name == "margin":
        return Output(margins, (), tuple(Expression(m, margins) for m in margins))
    links = loss.links if calibration is None else (calibration,)
    if name == "mean":
        is_softmax = len(links) == 1 < loss.n_outputs
        return Output(margins, _largest(loss, links[0]) if is_softmax else loss.link_terms, links)
    if name == "class" and loss.classes:
        return _class(loss, links, labels)
    if name == "probability" and loss.has_probabilities:
        shares = loss.evaluated or links if calibration is None else links
        texts = tuple(label for label in labels if isinstance(label, str))
        if len(texts) == 2 and len(shares) == 1:
            first = Expression(f"1 - ({shares[0].text})", shares[0].columns)
            return Output(margins, loss.link_terms, (first, *shares), names=texts)
        return Output(margins, loss.link_terms, shares, names=texts)
    if name == "quantiles" and loss.has_quantiles:
        return _sorted_quantiles(loss)
    if name == "distribution" and loss.is_distribution:
        assert loss.spread is not None
        return Output(margins, loss.link_terms, (*links, loss.spread), names=MOMENTS)
    if name == "interval" and interval is not None:
        return _interval(loss, interval)
    if name == "interval" and not loss.classes:
        raise ParameterError(
            "the model has no prediction interval; make one with "
            f"{advice('model.conform(data, target)', 'frameboost conform')}"
        )
    raise ParameterError(f"output must be one of {listed(_outputs_of(loss, interval))}, not {shown(name)}")


def value_range(loss: Loss, name: str) -> tuple[float, float]:
    """Return the inclusive bounds of an output's numbers; infinite if unknown.

    >>> from frameboost.losses.built_in import get_loss
    >>> loss = get_loss("binary:logistic", {"scale_pos_weight": 1.0})
    >>> value_range(loss, "mean"), value_range(loss, "margin")
    ((0.0, 1.0), (-inf, inf))
    """
    shares = name == "mean" and loss.has_probabilities and len(loss.links) == loss.n_outputs > 1
    if name == "probability" or shares:
        return (0.0, 1.0)
    return loss.score_range if name in ("mean", "interval") else (-math.inf, math.inf)


def _outputs_of(loss: Loss, interval: Interval | None) -> tuple[str, ...]:
    """Return the names of the available outputs."""
    names: tuple[str, ...] = OUTPUTS[:2]
    if loss.classes:
        names = OUTPUTS[:4] if loss.has_probabilities else OUTPUTS[:3]
    more = {"quantiles": loss.has_quantiles, "distribution": loss.is_distribution, "interval": interval is not None}
    return (*names, *(name for name, is_there in more.items() if is_there))


def _interval(loss: Loss, interval: Interval) -> Output:
    """Return the ends of the prediction interval."""
    groups = interval.groups
    distances = (interval.distance, *(groups.numbers if groups else ()))
    distance = None if groups else interval.distance
    ends = interval_ends(loss, interval.kind, interval.quantiles, distance, narrows=min(distances) < 0)
    return Output(loss.margins, ends.stages, (ends.lower, ends.upper), names=ENDS, lookup=groups)


def _sorted_quantiles(loss: Loss) -> Output:
    """Return the quantiles in ascending order, as margins may cross.

    Rearranging crossing quantiles never takes them further from the true ones (Chernozhukov, Fernández-Val & Galichon
    2010, "Quantile and probability curves without crossing").
    """
    names = list(loss.margins)
    stages: list[dict[str, Expression]] = []
    for number, layer in enumerate(_sorting_network(len(names))):
        stages.append({})
        for first, second in layer:
            pair = names[first], names[second]
            names[first], names[second] = f"low_{number}_{first}", f"high_{number}_{first}"
            stages[-1][names[first]] = Expression(f"LEAST({pair[0]}, {pair[1]})", pair)
            stages[-1][names[second]] = Expression(f"GREATEST({pair[0]}, {pair[1]})", pair)
    last = stages.pop()
    values = [last.get(name, Expression(name, (name,))) for name in names]
    return Output(loss.margins, tuple(stages), tuple(on_label_scale(loss, value) for value in values))


def on_label_scale(loss: Loss, value: Expression) -> Expression:
    """Return T⁻¹ of a value on the scale of the margin, if the loss has a transform T."""
    if loss.transform is None:
        return value
    margin, columns = f"({value.text})", tuple(dict.fromkeys((*value.columns, "margin")))
    inverse = re.sub(r"\bmargin\b", lambda _: margin, loss.transform.inverse)
    return Expression(inverse, columns)


def _sorting_network(n: int) -> Iterator[list[tuple[int, int]]]:
    """Yield the layers of Batcher's sorting network (Knuth, volume 3, algorithm 5.2.2M): indices to compare and swap.

    >>> list(_sorting_network(3))
    [[(0, 2)], [(0, 1)], [(1, 2)]]
    """
    top = 1 << max(0, (n - 1).bit_length() - 1)
    p = top
    while p > 0:
        q, r, d = top, 0, p
        while True:
            if layer := [(i, i + d) for i in range(n - d) if i & p == r]:
                yield layer
            if q == p:
                break
            d, q, r = q - p, q // 2, p
        p //= 2


def _class(loss: Loss, links: Sequence[Expression], labels: Sequence[str | bool]) -> Output:
    """Return the most probable class, for several targets one each."""
    by_name = {f"class_{k}": label for k, label in enumerate(labels)}
    if loss.has_margin_of_each_class:
        best = argmax_class(loss.classes, tuple(by_name))
        return Output(loss.margins, _largest(loss, best), (best,), is_class=True, labels=by_name)
    no, yes = by_name or ("0", "1")
    least = loss.threshold
    if loss.name == "binary:logitraw" and links == loss.links:  # its predictions are margins
        least = -math.log(1.0 / least - 1.0) + 0.0
    text = repr(least) if least >= 0.0 else f"({least!r})"
    values = tuple(
        Expression(f"CASE WHEN ({link.text}) > {text} THEN {yes} ELSE {no} END", (*loss.margins, *by_name))
        for link in links
    )
    return Output(loss.margins, (), values, is_class=True, labels=by_name)


def _largest(loss: Loss, best: Expression) -> tuple[Mapping[str, Expression], ...]:
    """Return the stage with the largest margin, if `argmax_class` reads it."""
    return ({"largest": largest_margin(loss.n_outputs)},) if "largest" in best.columns else ()


# --- intervals --------------------------------------------------------------------------------------------------------

# Prediction intervals are conformity scores, and the ends of the interval, as expressions over the margins. A row's
# score is how far its label is from the prediction. The interval of a new row has all labels of a score up to a
# distance, which is a quantile of the scores of rows that the trees have not seen (`frameboost.model.conformal`):
#
# =============  ========================  ======================================
# kind           score                     interval
# =============  ========================  ======================================
# ``absolute``   abs(y - p)                p - d to p + d
# ``scaled``     abs(y - p) / s            p - d s to p + d s
# ``quantiles``  max(low - y, y - high)    low - d to high + d
# =============  ========================  ======================================
#
# p is the prediction, and s what the loss takes for the standard deviation of labels around it (`Loss.spread`). ``low``
# and ``high`` are two quantiles of one model, the lower one first. Ends outside the loss's range are moved to its
# bounds, beyond which there are no labels. Of a loss that is fitted to T(y), y is T(y) and p the margin here, and the
# interval is T⁻¹ of both ends.

Kind = Literal["absolute", "scaled", "quantiles"]

DISTANCE = "distance"
ENDS = ("lower", "upper")


@dataclass(frozen=True)
class Interval:
    """The kind and the distances of a model's prediction intervals.

    Attributes
    ----------
    coverage
        The nominal coverage.
    rows
        The number of scores behind the distances.
    kind
        ``absolute``, ``scaled`` or ``quantiles``.
    distance
        The distance; negative if it narrows quantiles that are too far apart.
    quantiles
        The indices of the margins of the two quantiles; empty for other kinds.
    groups
        The distance by group; all other values have ``distance``.
    """

    coverage: float
    rows: int
    kind: Kind
    distance: float
    quantiles: tuple[int, ...] = ()
    groups: Lookup | None = None


@dataclass(frozen=True)
class Ends:
    """The ends of intervals as expressions, with shared terms in stages."""

    stages: tuple[Mapping[str, Expression], ...]
    lower: Expression
    upper: Expression


def kind_of(loss: Loss) -> Kind:
    """Return the kind of intervals for a loss.

    Raises
    ------
    ParameterError
        If there is none: for classes, several targets, survival times and ranking.
    """
    if reason := _why_not(loss):
        what = f"the model, of objective {shown(loss.name)},"
        raise ParameterError(f"prediction intervals are for a regression of one target; {what} {reason}")
    return "quantiles" if loss.has_quantiles else "absolute" if loss.spread is None else "scaled"


def has_intervals(loss: Loss) -> bool:
    """Whether a loss has intervals, as regressions of one target have."""
    return not _why_not(loss)


def _why_not(loss: Loss) -> str:
    """Return the reason why a loss has no intervals, or an empty string."""
    if loss.has_quantiles or loss.is_distribution:
        return ""
    if loss.classes:
        return f"has {loss.classes} classes"
    if len(loss.labels) > 1:
        return f"has {len(loss.labels)} targets"
    if loss.family == "survival":
        return "is of times, which may be censored"
    if loss.family == "rank":
        return "ranks, and its scores are on no scale of labels"
    return f"has {loss.n_outputs} outputs" if loss.n_outputs > 1 else ""


def score_of(loss: Loss, kind: Kind, quantiles: tuple[int, ...] = ()) -> Expression:
    """Return the conformity score of a row, over ``label`` and the margins, or their names in `Loss.margins`."""
    label, centre = "label", loss.links[0].text
    if loss.transform is not None:
        label, centre = f"({loss.transform.of_label})", loss.margins[0]
    if kind == "quantiles":
        low, high = _low_and_high(loss, quantiles)
        return Expression(f"GREATEST(({low}) - {label}, {label} - ({high}))", ("label", *loss.margins))
    score = f"ABS({label} - ({centre}))"
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
        The distance; None to name it ``distance`` in the expressions.
    narrows
        Whether a distance may be negative, so that the ends could cross.
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
        return Ends(stages, *(on_label_scale(loss, Expression(end, read)) for end in (lower, upper)))
    if loss.transform is not None:
        ends = (Expression(f"{loss.margins[0]} {sign} {d}", read) for sign in "-+")
        return Ends((), *(on_label_scale(loss, end) for end in ends))
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
    """Return the lower and the higher of two possibly crossing quantiles."""
    pair = ", ".join(loss.margins[number] for number in quantiles)
    return f"LEAST({pair})", f"GREATEST({pair})"


# --- lookups of a number by a column ----------------------------------------------------------------------------------

# The types of the column of a lookup: its values are names, not amounts.
LOOKUP_TYPES = ("string", "codes", "boolean")


@dataclass(frozen=True)
class Lookup:
    """A number by the value of a column.

    Attributes
    ----------
    name
        The name of the number in expressions.
    column
        The column's name.
    type
        Its type: ``string``, ``codes`` (integers) or ``boolean``.
    values
        The values with a number, in ascending order; 0 and 1 for Booleans.
    numbers
        Their numbers.
    otherwise
        The number for other and missing values.
    """

    name: str
    column: str
    type: FeatureType
    values: tuple[str | int, ...]
    numbers: tuple[float, ...]
    otherwise: float

    @property
    def feature(self) -> Feature:
        """The column as a feature."""
        return Feature(self.column, self.type, self.values if self.type.is_categorical else ())

    def by_number(self) -> dict[float, list[str | int]]:
        """Return the values by number, without ``otherwise``."""
        values_by_number: dict[float, list[str | int]] = {}
        for value, number in zip(self.values, self.numbers, strict=True):
            if number != self.otherwise:
                values_by_number.setdefault(number, []).append(value)
        return values_by_number
