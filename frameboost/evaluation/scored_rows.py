"""Labels, predictions and weights of the rows that a model is evaluated on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.checks.messages import listed, shown
from frameboost.data.opening import open_rows
from frameboost.data.sources import Source
from frameboost.errors import DataError, ParameterError
from frameboost.losses.loss import Loss
from frameboost.prediction.predictor import Predictor
from frameboost.schema.types import column
from frameboost.training.data_checks import (
    check_heaviest,
    check_weights,
    find_column,
    labelled_columns,
    with_label_codes,
)

__all__ = ["ScoredRows", "TwoClasses", "score_rows", "scores_for_ranking"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TwoClasses:
    """One class against the rest.

    Attributes
    ----------
    name
        The class, as text.
    labels
        1 for rows of the class, otherwise 0.
    scores
        Scores, higher for more likely rows.
    weights
        The row weights.
    """

    name: str
    labels: Floats
    scores: Floats
    weights: Floats


@dataclass(frozen=True)
class ScoredRows:
    """Rows with a weight above 0.

    Attributes
    ----------
    labels
        Float64, shape (rows,).
    predictions
        Shape (rows,), or (rows, outputs) for several outputs.
    weights
        Above 0, shape (rows,).
    class_names
        The class labels as text, by index; empty if classes are numbers.
    """

    labels: Floats
    predictions: Floats
    weights: Floats
    class_names: tuple[str, ...] = ()

    def each_class(self, target: str) -> Iterator[TwoClasses]:
        """Yield each class against the rest; for two classes only class 1.

        Raises
        ------
        DataError
            If a label is not a class.
        """
        scores = self.predictions
        n_classes = scores.shape[1] if scores.ndim == 2 else 2
        self.check_classes(n_classes, target)
        for number in range(n_classes) if scores.ndim == 2 else [1]:
            of_class = scores[:, number] if scores.ndim == 2 else scores
            name = self.class_names[number] if self.class_names else str(number)
            yield TwoClasses(name, (self.labels == number).astype(np.float64), of_class, self.weights)

    def check_classes(self, n_classes: int, target: str) -> None:
        """Raise `DataError` if a label is not in 0, 1, ..., ``n_classes`` - 1."""
        wrong = ~np.isin(self.labels, np.arange(n_classes))
        if wrong.any():
            accepted = "0 and 1" if n_classes == 2 else f"the classes 0 to {n_classes - 1}"
            raise DataError(
                f"target {shown(target)} holds other values than {accepted} in {wrong.sum():,} of {len(wrong):,} rows, "
                f"such as {self.labels[wrong][0]:g}"
            )


def score_rows(predictor: Predictor, data: Any, target: str, weight: str | None, output: str) -> ScoredRows:
    """Return labels and predictions of the rows with a weight above 0.

    `ScoredRows` of the same output are returned unchanged, so that callers who need them several times score once.

    Raises
    ------
    DataError
        If a column is missing, no row is left, a label is missing, or a weight is not a number of 0 or more.
    """
    if isinstance(data, ScoredRows):
        return data
    ensemble = predictor.ensemble
    source = with_label_codes(open_rows(data, labelled_columns(ensemble, target)), target, ensemble.labels)
    roles = {"target": target} | ({} if weight is None else {"weight": weight})
    for role, name in roles.items():
        find_column(source, name, role)
    ensemble.find_in(source)
    frame = _read_rows(source, [*ensemble.read_names, *roles.values()])
    if frame.is_empty():
        raise DataError("the data has no rows")
    if ensemble.offset is not None:
        ensemble.offset.check(frame)
    labels = _numbers(frame, target)
    weights = np.ones(len(labels)) if weight is None else _numbers(frame, weight)
    if weight is not None:
        known = weights[~np.isnan(weights)]
        lightest, heaviest = float(known.min(initial=0.0)), float(known.max(initial=0.0))
        check_weights(weight, len(weights) - len(known), lightest, heaviest, len(weights))
        check_heaviest(weight, heaviest)
    counts = weights > 0
    if missing := int((~np.isfinite(labels)).sum()):
        raise DataError(
            f"target {shown(target)} is NULL, NaN or infinite in {missing:,} of {len(labels):,} rows; drop those "
            "rows first"
        )
    predicted = predictor.of_numbers().predict(frame, output)
    predictions = predicted.to_numpy().astype(np.float64)
    if ensemble.loss.classes == 1 and output != "class":
        predictions = predictions[:, None]
    names = tuple(map(str, predictor.ensemble.labels))
    return ScoredRows(labels[counts], predictions[counts], weights[counts], names)


def scores_for_ranking(loss: Loss, what: str) -> str:
    """Return the output to rank rows by for a class: the probability, the prediction or the margin.

    Raises
    ------
    ParameterError
        If the model has several outputs that are not classes; ``what`` needs one score per row.
    """
    if loss.n_predictions > 1 and not loss.has_margin_of_each_class:
        raise ParameterError(
            f"{what} is for models of one output or of classes, not for {shown(loss.name)} with {loss.n_outputs} "
            "outputs"
        )
    if not loss.classes:
        return "mean"
    return "probability" if loss.has_probabilities else "margin"


def _read_rows(source: Source, names: list[str]) -> pl.DataFrame:
    """Read the columns once, so that features, labels and weights have the same row order.

    Raises
    ------
    DataError
        If a column is missing.
    """
    missing = [name for name in names if name not in source.names()]
    if missing:
        raise DataError(f"column {shown(missing[0])} is not in the data, which has {listed(source.names())}")
    return source.to_frame(list(dict.fromkeys(names))).collect()


def _numbers(frame: pl.DataFrame, name: str) -> Floats:
    """Return a numeric or Boolean column as float64, NULL as NaN."""
    return frame.select(column(name).cast(pl.Float64).fill_null(np.nan)).to_series().to_numpy()
