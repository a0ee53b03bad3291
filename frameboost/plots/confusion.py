"""The confusion matrix as a map of colours."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import polars as pl

from frameboost.checks.arguments import checked, column, number
from frameboost.checks.messages import shown
from frameboost.errors import ParameterError
from frameboost.evaluation.confusion import confusion_matrix
from frameboost.evaluation.scored_rows import score_rows
from frameboost.model.model import Model
from frameboost.plots.arguments import a_model, one_target
from frameboost.plots.names import with_drawable_text
from frameboost.plots.theme import axis, layered
from frameboost.prediction.predictor import Predictor

__all__ = ["confusion"]

_MAX_CLASSES = 60  # 3,600 cells
_MAX_NUMBERED = 15


@checked(model=a_model, target=column, threshold=number(0, 1))
@with_drawable_text
def confusion(
    model: Model, data: Any, target: str, *, threshold: float | None = None, weight: str | None = None
) -> alt.LayerChart:
    """Return a chart of how often each class is taken for each class.

    Colours are shares of the rows of the actual class. Numbers, up to 15 classes, are sums of weights (without weights,
    of rows) and the shares.

    Parameters
    ----------
    model
        A model of at most 60 classes.
    data
        As for `frameboost.Model.predict`, with labels.
    target, weight
        The columns of the labels and of weights.
    threshold
        Of two classes: rows of at least this probability are taken for class 1, instead of the most probable class.

    Raises
    ------
    DataError
        As `frameboost.Model.predict`; if a label is no class, or a weight is not a number of 0 or more.
    ParameterError
        If the model has no classes, more than 60, or for a threshold more than two.
    """
    one_target(model, "confusion")
    n_classes = model.ensemble.loss.classes
    if not 2 <= n_classes <= _MAX_CLASSES:
        found = f"{n_classes} classes" if n_classes else f"objective {shown(model.objective)}, which has none"
        raise ParameterError(f"confusion is for models of 2 to {_MAX_CLASSES} classes, not for {found}")
    predictor = Predictor(model.ensemble)
    if threshold is None:
        rows = score_rows(predictor, data, target, weight, "class")
        predicted = rows.predictions
    else:
        if model.ensemble.loss.n_outputs > 1:
            raise ParameterError(f"threshold is for two classes with one output, not for {shown(model.objective)}")
        rows = score_rows(predictor, data, target, weight, "probability")
        predicted = (rows.predictions >= threshold).astype(np.float64)
    rows.check_classes(n_classes, target)
    names = list(rows.class_names) or [str(k) for k in range(n_classes)]
    return _chart(confusion_matrix(rows.labels, predicted, n_classes, rows.weights), names)


def _chart(matrix: pl.DataFrame, names: list[str]) -> alt.LayerChart:
    n_classes = len(names)
    numbered = n_classes <= _MAX_NUMBERED
    texts = [
        f"{weight:,.0f}\n{share:.1%}" if share is not None else f"{weight:,.0f}"
        for weight, share in matrix.select("weight", "share").rows()
    ]
    classes = pl.col("actual", "predicted").replace_strict(range(n_classes), names, return_dtype=pl.String)
    matrix = matrix.with_columns(classes, text=pl.Series(texts))
    side = max(64 if numbered else 12, 240 // n_classes)
    x = alt.X(field="predicted", type="ordinal", title="predicted class", sort=names,
              axis=axis(orient="top", labelAngle=0 if max(map(len, names)) * 8 <= side else -90))  # fmt: skip
    y = alt.Y(field="actual", type="ordinal", title="actual class", sort=names, axis=axis())
    colour = alt.Color(field="share", type="quantitative", title="share of the actual class",
                       scale=alt.Scale(scheme="blues", domain=[0, 1]), legend=alt.Legend(format="%"))  # fmt: skip
    tooltip = [
        alt.Tooltip(field="actual", type="ordinal"), alt.Tooltip(field="predicted", type="ordinal"),
        alt.Tooltip(field="weight", type="quantitative", title="rows (weight)", format=",.6~g"),
        alt.Tooltip(field="share", type="quantitative", format=".2%"),
    ]  # fmt: skip
    base = alt.Chart(matrix, width=side * n_classes, height=side * n_classes)
    layers = [base.mark_rect(stroke="white").encode(x=x, y=y, color=colour, tooltip=tooltip)]
    if numbered:
        shade = alt.condition("datum.share > 0.55", alt.value("white"), alt.value("black"))
        label = alt.Chart(matrix).mark_text(lineBreak="\n", baseline="middle", dy=-6, fontSize=12)
        layers.append(label.encode(x=x, y=y, text=alt.Text(field="text", type="nominal"), color=shade))
    return layered(*layers)
