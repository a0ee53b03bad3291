"""The outputs of a model, as expressions over its margins: `OUTPUTS`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from frameboost.checks.messages import listed, shown
from frameboost.errors import ParameterError
from frameboost.expressions.expression import Expression
from frameboost.losses.intervals import ENDS, Interval, has_quantiles, interval_ends
from frameboost.losses.lookups import Lookup
from frameboost.losses.loss import Loss, argmax_class, largest_margin, margin_names

__all__ = ["MOMENTS", "OUTPUTS", "Output", "leaf_output", "output_of"]

OUTPUTS = ("mean", "margin", "class", "probability", "quantiles", "distribution", "interval")
# What the two values of the output ``distribution`` are called.
MOMENTS = ("mean", "std")


@dataclass(frozen=True)
class Output:
    """An output of a model: expressions over its margins, and over a number that is looked up by a column.

    Attributes
    ----------
    margins
        The names of the margins.
    stages
        Subexpressions of the values, in stages; each may use the margins and earlier stages.
    values
        One expression, or several for a list of numbers.
    is_class
        Whether each value is the number of a class, or its label.
    labels
        The labels by the names that they have in the values; none where classes are numbered.
    names
        What each value is called where the values are columns; none where they are numbered.
    lookup
        The number that is looked up.
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
        """The names of what is known of a row before the stages: the margins, then the number that is looked up."""
        return self.margins if self.lookup is None else (*self.margins, self.lookup.name)

    @property
    def is_margin(self) -> bool:
        """Whether the output is the only margin as it is."""
        return (
            [value.text for value in self.values] == list(self.margins) and len(self.margins) == 1 and not self.is_class
        )

    def margins_behind(self) -> list[list[int]]:
        """Return, for each value, the numbers of the margins that it depends on, directly or through stages.

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
        """Return the numbers of the margins that some value depends on."""
        return {number for numbers in self.margins_behind() for number in numbers}


def leaf_output(n_trees: int) -> Output:
    """Return the output ``leaf``: the numbers of the leaves that a row reaches, each tree's in place of a margin."""
    margins = margin_names(n_trees)
    return Output(margins, (), tuple(Expression(margin, (margin,)) for margin in margins), is_class=True)


def output_of(
    loss: Loss, name: str, calibration: Expression | None = None, labels: Sequence[str | bool] = (),
    interval: Interval | None = None,
) -> Output:  # fmt: skip
    """Return the output of that name of a model with that loss.

    Parameters
    ----------
    calibration
        A link from the margin to the prediction that replaces the loss's own.
    labels
        The labels of the classes; none where they are numbered.
    interval
        What the model knows of its prediction intervals.

    Raises
    ------
    ParameterError
        If the loss has no such output; the message lists those that it has.
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
    if name == "probability" and loss.classes and loss.name != "binary:hinge":
        shares = loss.evaluated or links if calibration is None else links
        texts = tuple(label for label in labels if isinstance(label, str))
        if len(texts) == 2 and len(shares) == 1:
            first = Expression(f"1 - ({shares[0].text})", shares[0].columns)
            return Output(margins, loss.link_terms, (first, *shares), names=texts)
        return Output(margins, loss.link_terms, shares, names=texts)
    if name == "quantiles" and has_quantiles(loss):
        return _sorted_quantiles(loss)
    if name == "distribution" and loss.is_distribution:
        assert loss.spread is not None
        return Output(margins, loss.link_terms, (*links, loss.spread), names=MOMENTS)
    if name == "interval" and interval is not None:
        return _interval(loss, interval)
    if name == "interval" and not loss.classes:
        raise ParameterError("the model has no prediction interval; make one with model.conform(data, target)")
    raise ParameterError(f"output must be one of {listed(_outputs_of(loss, interval))}, not {shown(name)}")


def _outputs_of(loss: Loss, interval: Interval | None) -> tuple[str, ...]:
    """Return the names of the outputs that there are."""
    names: tuple[str, ...] = OUTPUTS[:2]
    if loss.classes:
        names = OUTPUTS[:3] if loss.name == "binary:hinge" else OUTPUTS[:4]
    more = {"quantiles": has_quantiles(loss), "distribution": loss.is_distribution, "interval": interval is not None}
    return (*names, *(name for name, is_there in more.items() if is_there))


def _interval(loss: Loss, interval: Interval) -> Output:
    """Return the two ends of the prediction interval."""
    groups = interval.groups
    distances = (interval.distance, *(groups.numbers if groups else ()))
    distance = None if groups else interval.distance
    ends = interval_ends(loss, interval.kind, interval.quantiles, distance, narrows=min(distances) < 0)
    return Output(loss.margins, ends.stages, (ends.lower, ends.upper), names=ENDS, lookup=groups)


def _sorted_quantiles(loss: Loss) -> Output:
    """Return the quantiles in ascending order, which the margins need not be in.

    Quantiles that cross are rearranged, which never takes them further from the true ones (Chernozhukov,
    Fernández-Val & Galichon 2010, "Quantile and probability curves without crossing").
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
    return Output(loss.margins, tuple(stages), tuple(last.get(name, Expression(name, (name,))) for name in names))


def _sorting_network(n: int) -> Iterator[list[tuple[int, int]]]:
    """Yield the layers of Batcher's sorting network (Knuth, volume 3, algorithm 5.2.2M): places to compare and swap.

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
    """Return the most probable class, of several targets one for each."""
    by_name = {f"class_{k}": label for k, label in enumerate(labels)}
    if loss.has_margin_of_each_class:
        best = argmax_class(loss.classes, tuple(by_name))
        return Output(loss.margins, _largest(loss, best), (best,), is_class=True, labels=by_name)
    no, yes = by_name or ("0", "1")
    half = 0 if loss.name == "binary:logitraw" else 0.5
    values = tuple(
        Expression(f"CASE WHEN ({link.text}) > {half} THEN {yes} ELSE {no} END", (*loss.margins, *by_name))
        for link in links
    )
    return Output(loss.margins, (), values, is_class=True, labels=by_name)


def _largest(loss: Loss, best: Expression) -> tuple[Mapping[str, Expression], ...]:
    """Return the stage with the largest margin, if `argmax_class` reads it."""
    return ({"largest": largest_margin(loss.n_outputs)},) if "largest" in best.columns else ()
