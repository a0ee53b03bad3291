"""Class weights, and the threshold above which the second of two classes is predicted.

Both adjust a loss: class weights multiply row weights wherever training sums over rows, and the threshold applies to
the output ``class``, in SQL too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from frameboost.checks.messages import listed, shown
from frameboost.errors import ParameterError
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Aggregator, exact_sum
from frameboost.losses.loss import CLASS_WEIGHT, Loss

__all__ = [
    "check_decides", "class_factors", "class_weighted", "counted_factors", "decided_by", "with_class_weights",
    "with_threshold",
]  # fmt: skip


# --- weights of classes -----------------------------------------------------------------------------------------------


def class_weighted(loss: Loss, parameters: Mapping[str, Any]) -> Loss:
    """Return the loss with class weights, or with ``class_weight`` to resolve later (`counted_factors`).

    Raises
    ------
    ParameterError
        If the loss has no classes, or their number differs.
    """
    _check_weighs_classes(loss)
    factors = parameters["class_weight"]
    return with_class_weights(loss, factors) if isinstance(factors, tuple | list) else loss


def _check_weighs_classes(loss: Loss) -> None:
    if not loss.classes or len(loss.labels) > 1:
        raise ParameterError(
            f"class_weight is for one target of classes, such as 'binary:logistic' and 'multi:softprob' have, not for "
            f"{shown(loss.name)}" + f" of {len(loss.labels)} targets" * (len(loss.labels) > 1)
        )


def counted_factors(
    class_weight: object, loss: Loss, rows: Aggregator, labels: Sequence[str | bool]
) -> tuple[float, ...]:
    """Return the weight of each class, by index, counting only ``rows``.

    Other arguments and errors are those of `class_factors` and `class_weighted`.
    """
    _check_weighs_classes(loss)
    counted = {
        str(k): Expression(f"CASE WHEN label = {k} AND weight > 0 THEN 1 ELSE 0 END", ("label", "weight"))
        for k in range(loss.classes)
    }
    counts = exact_sum(rows, counted)
    return class_factors(class_weight, labels, [counts[str(k)] for k in range(loss.classes)])


def class_factors(class_weight: object, labels: Sequence[str | bool], counts: Sequence[float]) -> tuple[float, ...]:
    """Return the weight of each class, by index.

    Parameters
    ----------
    class_weight
        ``"balanced"`` for equal total weights; a dict of label to weight, by default 1; or the weights.
    labels
        The class labels; empty if classes are numbers.
    counts
        The number of rows of each class.

    Raises
    ------
    ParameterError
        If a key is not a label, or no present class has a positive weight.

    Examples
    --------
    >>> class_factors("balanced", ["no", "yes"], [3, 1]), class_factors({"yes": 5}, ["no", "yes"], [3, 1])
    ((0.6666666666666666, 2.0), (1.0, 5.0))
    """
    if class_weight == "balanced":  # scikit-learn's definition
        present = sum(count > 0 for count in counts)
        return tuple(math.fsum(counts) / (present * count) if count else 1.0 for count in counts)
    if isinstance(class_weight, Mapping):
        names: list[object] = [*labels] or [*range(len(counts))]
        numbers = {str(name): number for number, name in enumerate(names)}
        factors = [1.0] * len(counts)
        for label, factor in class_weight.items():
            key = str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)
            if labels and isinstance(labels[0], bool) and key in ("0", "1"):
                key = str(bool(int(key)))
            if key not in numbers:
                raise ParameterError(
                    f"class_weight names {shown(label)}, which is not a label; they are {listed(names, 8)}"
                )
            factors[numbers[key]] = factor
        class_weight = factors
    assert isinstance(class_weight, tuple | list)
    if len(class_weight) != len(counts):
        raise ParameterError(f"class_weight has {len(class_weight)} factors, and there are {len(counts)} classes")
    if any(counts) and not any(factor * count for factor, count in zip(class_weight, counts, strict=True)):
        raise ParameterError("class_weight is 0 for every label of the target; at least one must be positive")
    return tuple(map(float, class_weight))


def with_class_weights(loss: Loss, factors: Sequence[float]) -> Loss:
    """Return a loss with class weights; without any, rows count by their row weights alone.

    Raises
    ------
    ParameterError
        If the number of weights differs from that of classes.
    """
    terms = {name: term for name, term in loss.terms.items() if name != CLASS_WEIGHT}
    loss = replace(loss, class_weights=(), terms=terms)
    if not factors:
        return loss
    if len(factors) != loss.classes:
        raise ParameterError(f"class_weight has {len(factors)} factors, and there are {loss.classes} classes")
    loss = replace(loss, class_weights=tuple(map(float, factors)))
    return replace(loss, terms={**loss.class_factor, **terms})


# --- the threshold ----------------------------------------------------------------------------------------------------


def decided_by(loss: Loss, parameters: Mapping[str, Any]) -> Loss:
    """Return the loss with its ``threshold``, unless that is a rule to resolve after training.

    Raises
    ------
    ParameterError
        If the loss has no probability of the second of two classes.
    """
    check_decides(loss)
    threshold = parameters["threshold"]
    return with_threshold(loss, threshold) if isinstance(threshold, float) else loss


def check_decides(loss: Loss) -> None:
    """Raise `ParameterError` if a loss has no probability of the second of two classes."""
    if loss.classes != 2 or not loss.has_probabilities or loss.has_margin_of_each_class:
        raise ParameterError(
            "threshold is for objectives with the probability of the second of two classes, such as 'binary:logistic', "
            f"not for {shown(loss.name)}"
        )


def with_threshold(loss: Loss, threshold: float) -> Loss:
    """Return a loss that predicts the second class where its probability is above the threshold."""
    check_decides(loss)
    return replace(loss, threshold=threshold)
