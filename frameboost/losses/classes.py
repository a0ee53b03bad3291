"""What rows of each class count for, and the probability from which on a row is of the second of two classes.

Both are parameters that a loss is made with: the factors are times the row's weight wherever the loss is summed over
rows to train, and the threshold is that of the output ``class``, in SQL too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from frameboost.checks.messages import listed, shown
from frameboost.errors import ParameterError
from frameboost.losses.loss import CLASS_WEIGHT, Loss
from frameboost.losses.transforms import transformed

__all__ = ["adjusted", "check_classes", "class_factors", "with_class_weights", "with_threshold"]


def adjusted(loss: Loss, parameters: Mapping[str, Any]) -> Loss:
    """Return the loss with the transform, the factors of classes and the threshold of parameters.

    Raises
    ------
    ParameterError
        If one of them does not go with the loss.
    """
    loss = transformed(loss, parameters)
    check_classes(loss, parameters)
    factors, threshold = parameters.get("class_weight"), parameters.get("threshold")
    if isinstance(factors, tuple | list):
        loss = with_class_weights(loss, factors)
    return with_threshold(loss, threshold) if isinstance(threshold, float) else loss


def check_classes(loss: Loss, parameters: Mapping[str, Any]) -> None:
    """Raise `ParameterError` if parameters of classes are for none that the loss has."""
    if parameters.get("class_weight") is not None and (not loss.classes or len(loss.labels) > 1):
        raise ParameterError(
            f"class_weight is for one target of classes, such as 'binary:logistic' and 'multi:softprob' have, not for "
            f"{shown(loss.name)}" + f" of {len(loss.labels)} targets" * (len(loss.labels) > 1)
        )
    if parameters.get("threshold") is not None and not (
        loss.classes == 2 and loss.has_probabilities and not loss.has_margin_of_each_class
    ):
        raise ParameterError(
            "threshold is for objectives with the probability of the second of two classes, such as 'binary:logistic', "
            f"not for {shown(loss.name)}"
        )


def class_factors(class_weight: object, labels: Sequence[str | bool], counts: Sequence[float]) -> tuple[float, ...]:
    """Return the factor of each class, by number.

    Parameters
    ----------
    class_weight
        ``"balanced"``, for which all classes weigh the same; a dict of label to factor, 1 of a label that it lacks; or
        the factors.
    labels
        The labels of the classes; none where they are numbered.
    counts
        The number of rows of each class.

    Raises
    ------
    ParameterError
        If a key is no label, or no class that is there counts.

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
                    f"class_weight names {shown(label)}, which is no label; they are {listed(names, 8)}"
                )
            factors[numbers[key]] = factor
        class_weight = factors
    assert isinstance(class_weight, tuple | list)
    if len(class_weight) != len(counts):
        raise ParameterError(f"class_weight has {len(class_weight)} factors, and there are {len(counts)} classes")
    if any(counts) and not any(factor * count for factor, count in zip(class_weight, counts, strict=True)):
        raise ParameterError("class_weight is 0 for every label of the target; some class must count")
    return tuple(map(float, class_weight))


def with_class_weights(loss: Loss, factors: Sequence[float]) -> Loss:
    """Return a loss whose rows count for the factor of their class; without factors for their weight alone.

    Raises
    ------
    ParameterError
        If the factors are not as many as the classes.
    """
    terms = {name: term for name, term in loss.terms.items() if name != CLASS_WEIGHT}
    loss = replace(loss, class_weights=(), terms=terms)
    if not factors:
        return loss
    if len(factors) != loss.classes:
        raise ParameterError(f"class_weight has {len(factors)} factors, and there are {loss.classes} classes")
    loss = replace(loss, class_weights=tuple(map(float, factors)))
    return replace(loss, terms={**loss.class_factor, **terms})


def with_threshold(loss: Loss, threshold: float) -> Loss:
    """Return a loss whose rows are of the second class where its probability is above the threshold."""
    check_classes(loss, {"threshold": threshold})
    return replace(loss, threshold=threshold)
