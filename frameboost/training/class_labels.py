"""The target of a classification: its labels, their objective, and their numbers.

Strings are replaced by numbers before an engine opens: by a polars expression in a frame, by CASE in a database. So
engines, losses and metrics see the numbers 0, 1, ... of `Ensemble.labels`. Booleans are 0 and 1 everywhere already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from frameboost.checks.messages import did_you_mean, listed, shown
from frameboost.data.held_out import HeldOut
from frameboost.data.sources import FrameSource, RelationSource, Source, check_numeric
from frameboost.ensemble.ensemble import Ensemble, Labels
from frameboost.errors import DataError, ParameterError
from frameboost.losses.custom import Objective
from frameboost.schema.types import Feature, FeatureType

__all__ = ["TrainingTarget", "check_known", "hint_of_classes", "labelled_columns", "read_target", "with_label_codes"]

_REGRESSION, _BINARY, _MULTICLASS = "reg:squarederror", "binary:logistic", "multi:softprob"
_OF_CLASSES = ("binary:", "multi:")
_MAX_LABELS = 10_000  # as many as `num_class` may be
SourceType = TypeVar("SourceType", bound=Source)


@dataclass(frozen=True)
class TrainingTarget:
    """The objective of a target column, and the rows with numbers in it.

    Attributes
    ----------
    source, held_out
        The rows to train on and to validate on.
    objective
        The user's objective, or that of the target's type.
    num_class
        The user's number of classes, or the number of labels, if the objective needs it.
    labels
        The labels of the model.
    """

    source: Source
    held_out: dict[str, HeldOut]
    objective: str | Objective
    num_class: int | None
    labels: Labels


def read_target(
    source: Source, held_out: Mapping[str, HeldOut], target: str | Sequence[str], objective: str | Objective | None,
    num_class: int | None, initial: Ensemble | None = None, positive: str | None = None,
) -> TrainingTarget:  # fmt: skip
    """Return the target with the objective of its type: classification of Booleans and strings, regression of numbers.

    Parameters
    ----------
    objective, num_class
        The user's, None for those that fit the target.
    initial
        The ensemble to train on from, whose labels the target must have.
    positive
        Which of two labels is class 1, whose probability is predicted; by default the second.

    Raises
    ------
    ParameterError
        If the objective, the number of classes or the positive class does not go with the labels.
    DataError
        If the target has no label, or rows to validate on or to train on from a model have others.
    """
    names = [target] if isinstance(target, str) else list(target)
    if len(names) == 1 and _family(source, names[0]) == "string":
        return _of_strings(source, held_out, names[0], objective, num_class, initial, positive)
    if positive is not None:
        _refuse_positive(source, names, positive)
    for name in names:
        if _family(source, name) == "string":
            raise DataError(
                f"target column {shown(name)} has type {source.type_names()[name]}; several targets must be numeric or "
                "Boolean; train a model of its own for a column of labels"
            )
    booleans = [name for name in names if _family(source, name) == "boolean"]
    if objective is None and booleans and len(booleans) < len(names):
        other = next(name for name in names if name not in booleans)
        raise ParameterError(
            f"target {shown(booleans[0])} is Boolean and {shown(other)} is not; give the objective of both, such as "
            f"objective={shown(_REGRESSION)}"
        )
    by_default = _BINARY if booleans else _REGRESSION
    chosen: str | Objective = by_default if objective is None else objective
    labels: Labels = (False, True) if len(booleans) == len(names) and _is_of_classes(chosen) else ()
    if initial is not None:
        check_known(initial.labels, source, names)
        labels = initial.labels
    if labels and num_class not in (None, 2):
        labels = ()
    return TrainingTarget(source, dict(held_out), chosen, num_class, labels)


def _of_strings(
    source: Source, held_out: Mapping[str, HeldOut], target: str, objective: str | Objective | None,
    num_class: int | None, initial: Ensemble | None, positive: str | None,
) -> TrainingTarget:  # fmt: skip
    if objective is not None and not _is_of_classes(objective):
        raise ParameterError(
            f"objective {shown(objective)} needs numbers, but target {shown(target)} has type "
            f"{source.type_names()[target]}, whose values are labels of classes; leave objective out, give "
            f"{shown(_BINARY)} or {shown(_MULTICLASS)}, or convert the column to numbers"
        )
    labels = source.labels(target, _MAX_LABELS + 1)
    if not labels and not _has_rows(source):  # columns of a text file that has only a header are strings
        raise DataError("the data has no rows; training needs at least 2")
    _check_count(labels, target)
    if initial is not None:
        _check_same(initial.labels, labels, target, "init_model")
        labels = [str(label) for label in initial.labels]
    chosen = objective or (_BINARY if len(labels) == 2 and num_class is None else _MULTICLASS)
    if len(labels) == 1 and str(chosen).startswith("binary:"):
        chosen = _MULTICLASS  # as the second label is not known; `check_rows` warns
    if str(chosen).startswith("binary:") and len(labels) > 2:
        raise ParameterError(
            f"objective {shown(chosen)} is for two classes; target {shown(target)} has {len(labels):,}: "
            f"{listed(labels, 4)}; leave objective out, or give {shown(_MULTICLASS)}"
        )
    if positive is not None:
        labels = _with_positive_last(labels, positive, target, str(chosen), initial)
    if num_class not in (None, len(labels)):
        raise ParameterError(f"num_class is {num_class}, but target {shown(target)} has {len(labels):,} labels")
    for name, part in held_out.items():
        if target in part.source.types():
            _check_held_out(part.source, target, labels, name)
    encoded = {
        name: HeldOut(part.source.with_codes(target, labels) if target in part.source.types() else part.source)
        for name, part in held_out.items()
    }
    n_classes = len(labels) if str(chosen).startswith("multi:") else num_class
    return TrainingTarget(source.with_codes(target, labels), encoded, chosen, n_classes, tuple(labels))


def hint_of_classes(source: Source, targets: Sequence[str]) -> str:
    """Say that a target of 0 and 1, if these are integers, may be two classes."""
    kind = source.types().get(targets[0]) if len(targets) == 1 else None
    if kind is None or not kind.is_integer:
        return ""
    return f"target {shown(targets[0])} is 0 or 1: objective={shown(_BINARY)} would predict the probability of 1"


def labelled_columns(ensemble: Ensemble, target: str | Sequence[str]) -> list[Feature]:
    """Return the columns that a model reads, and a target of strings, whose type in text files may be another."""
    is_text = isinstance(target, str) and _are_strings(ensemble.labels)
    return [*ensemble.read_features, *([Feature(str(target), FeatureType("string"))] if is_text else [])]


def with_label_codes(source: SourceType, target: str | Sequence[str], labels: Labels) -> SourceType:
    """Return labelled rows for a trained model: strings in the target are replaced by their numbers in the model.

    Raises
    ------
    DataError
        If a label is none of the model's, or the target has no labels where the model has.
    """
    names = [target] if isinstance(target, str) else list(target)
    check_known(labels, source, names)
    for name in names:
        if _family(source, name) == "string" and not _are_strings(labels):
            check_numeric(source, name, "target column")  # raises
    if len(names) > 1 or _family(source, names[0]) != "string":
        return source
    _check_same(labels, source.labels(names[0], _MAX_LABELS + 1), names[0], "the model")
    return source.with_codes(names[0], [str(label) for label in labels])  # type: ignore[return-value]


def check_known(labels: Labels, source: Source, target: Sequence[str]) -> None:
    """Raise `DataError` if a model has labels and the target has numbers, which could be any of them."""
    family = _family(source, target[0])
    if _are_strings(labels) and family is not None and family != "string":
        raise DataError(
            f"target {shown(target[0])} has type {source.type_names()[target[0]]}, but the model's classes are labels: "
            f"{listed(labels)}"
        )


# --- checks of labels -------------------------------------------------------------------------------------------------


def _family(source: Source, name: object) -> str | None:
    kind = source.types().get(name) if isinstance(name, str) else None
    return None if kind is None else kind.family


def _is_of_classes(objective: str | Objective) -> bool:
    return isinstance(objective, str) and objective.startswith(_OF_CLASSES)


def _are_strings(labels: Labels) -> bool:
    return any(isinstance(label, str) for label in labels)


def _has_rows(source: Source) -> bool:
    if isinstance(source, FrameSource):
        return not source.frame.head(1).collect().is_empty()
    return not isinstance(source, RelationSource) or bool(source.relation.limit(1).fetchall())


def _check_count(labels: Sequence[str], target: str) -> None:
    if not labels:
        raise DataError(f"target {shown(target)} has no label in any row")
    if len(labels) > _MAX_LABELS:
        raise DataError(
            f"target {shown(target)} has more than {_MAX_LABELS:,} labels, which are too many classes; is it the "
            "column to predict?"
        )


def _with_positive_last(
    labels: list[str], positive: str, target: str, objective: str, initial: Ensemble | None
) -> list[str]:
    """Return two labels, the positive one second.

    >>> _with_positive_last(["no", "yes"], "no", "bought", "binary:logistic", None)
    ['yes', 'no']
    """
    if positive not in labels:
        raise ParameterError(
            f"positive={shown(positive)} is no label of target {shown(target)}, which has {listed(labels, 4)}"
            f"{did_you_mean(positive, labels)}"
        )
    if len(labels) == 1:
        return labels
    if not objective.startswith("binary:"):
        raise ParameterError(
            f"positive={shown(positive)} is for two classes and an objective such as {shown(_BINARY)}; with "
            f"{shown(objective)} each of the {len(labels):,} labels has a probability"
        )
    if initial is not None and positive != labels[1]:
        raise ParameterError(
            f"positive={shown(positive)} does not go with init_model, whose positive class is {shown(labels[1])}"
        )
    return [label for label in labels if label != positive] + [positive]


def _refuse_positive(source: Source, target: Sequence[str], positive: str) -> None:
    """Raise `ParameterError`: True is the positive class of Booleans, and 1 that of numbers."""
    kind = source.type_names().get(target[0])
    if len(target) > 1 or kind is None:  # which is refused later if it is not there
        raise ParameterError(f"positive={shown(positive)} is for one target of strings")
    raise ParameterError(
        f"positive={shown(positive)} is for a target of strings, and {shown(target[0])} has type {kind}, of which "
        f"{'true' if _family(source, target[0]) == 'boolean' else '1'} is the positive class"
    )


def _check_same(known: Labels, labels: Sequence[str], target: str, model: str) -> None:
    if not _are_strings(known):
        raise DataError(
            f"target {shown(target)} has labels such as {shown(labels[0])}, but {model} knows its classes by number; "
            "number the labels in the same way"
        )
    if unknown := [label for label in labels if label not in known]:
        raise DataError(
            f"target {shown(target)} has the label {shown(unknown[0])}, which {model} does not know; its classes are "
            f"{listed(known)}"
        )


def _check_held_out(source: Source, target: str, labels: Sequence[str], name: str) -> None:
    if _family(source, target) != "string":
        raise DataError(
            f"target {shown(target)} has type {source.type_names()[target]} in {shown(name)}, the data to validate on, "
            "but labels in training; give it the same type"
        )
    if unknown := [label for label in source.labels(target, _MAX_LABELS + 1) if label not in labels]:
        raise DataError(
            f"target {shown(target)} has the label {shown(unknown[0])} in {shown(name)}, the data to validate on, "
            f"which no row of training has; there it is one of {listed(labels)}"
        )
