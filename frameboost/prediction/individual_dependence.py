"""Individual conditional expectation: each row's prediction as a function of one or two features.

Goldstein, Kapelner, Bleich & Pitkin (2015), "Peeking inside the black box", JCGS 24(1). The mean over the rows is the
partial dependence (Friedman 2001, section 8.2).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from frameboost.checks.messages import listed, shown
from frameboost.data.sources import FrameSource
from frameboost.errors import DataError, ParameterError
from frameboost.prediction.partial_dependence import default_grid, responses
from frameboost.prediction.predictor import Predictor

__all__ = ["individual_dependence"]


def individual_dependence(
    predictor: Predictor, frame: pl.DataFrame, features: Sequence[str], output: str, *,
    number: int | None = None, grid_of: pl.DataFrame | None = None, most: int | None = None,
) -> pl.DataFrame:  # fmt: skip
    """Return the prediction of each row with one or two features set to each value of a grid.

    Parameters
    ----------
    predictor
        The model's.
    frame
        The rows, with all columns that the model reads.
    features
        One or two features of the model. Their grid has the values of `Model.partial_dependence` by default, and a
        missing value if the column has one; of two features all pairs.
    output
        ``"mean"`` or ``"margin"``.
    number
        The number of the output, if not all.
    grid_of
        The rows whose values the grid is made of, if not ``frame``.
    most
        The most values of a feature; of more, those at evenly spaced ranks, or the most frequent categories.

    Returns
    -------
    polars.DataFrame
        ``value`` and, of two features, ``other`` (in the columns' types), ``row`` (from 0), ``output`` (from 0),
        ``prediction``.

    Raises
    ------
    DataError
        If there are no rows, or a feature has no value.
    ParameterError
        If the model has no such feature.
    """
    ensemble, wanted = predictor.ensemble, predictor.ensemble.output(output)
    names = ensemble.feature_names
    for name in features:
        if name not in names:
            raise ParameterError(f"feature must be one of the model's, {listed(names)}, not {shown(name)}")
    if frame.is_empty():
        raise DataError("the data has no rows to take the mean over")
    source = FrameSource(frame.lazy())
    types = ensemble.find_in(source)
    axes = [_axis(frame if grid_of is None else grid_of, name, predictor, most) for name in features]
    grid = pl.DataFrame({features[0]: axes[0]})
    if len(features) == 2:
        grid = grid.join(pl.DataFrame({features[1]: axes[1]}), how="cross", maintain_order="left_right")
    numbers = range(len(wanted.values)) if number is None else [number]
    rows = source.to_frame(ensemble.read_names).collect()
    by_row = (found.reshape(len(frame), -1) for found in responses(predictor, rows, types, grid, wanted))
    cube = np.stack([found[:, numbers] for found in by_row])
    labels = grid.rename(dict(zip(grid.columns, ("value", "other")[: len(features)], strict=True)))
    numbered = pl.DataFrame({"row": np.arange(len(frame), dtype=np.uint32)})
    outputs = pl.DataFrame({"output": np.array(numbers, dtype=np.uint32)})
    long = labels.join(numbered, how="cross", maintain_order="left_right")
    long = long.join(outputs, how="cross", maintain_order="left_right")
    return long.with_columns(pl.Series("prediction", cube.ravel(), dtype=pl.Float64))


def _axis(frame: pl.DataFrame, name: str, predictor: Predictor, most: int | None) -> pl.Series:
    """Return the values of one feature, with a missing one last if the column has any."""
    column = frame[name].alias("values")
    feature = predictor.ensemble.features[predictor.ensemble.feature_names.index(name)]
    values = default_grid(column, feature)
    if values.is_empty():
        raise DataError(f"feature {shown(name)} has no value in any row")
    if most is not None and len(values) > most and feature.type.is_categorical:
        known = column.filter(column.is_in(values.implode()))
        counts = known.value_counts(name="rows").sort(["rows", "values"], descending=[True, False])
        frequent = counts["values"].head(most).to_list()
        # Of rows that have only categories which training did not have, some of those of training.
        values = values.filter(values.is_in(frequent)) if frequent else values.head(most)
    elif most is not None and len(values) > most:
        values = values.gather(np.unique(np.linspace(0, len(values) - 1, most).round().astype(np.int64)))
    missing = column.is_null() | column.is_nan() if column.dtype.is_float() else column.is_null()
    return values.extend(pl.Series("values", [None], dtype=values.dtype)) if missing.any() else values
