"""Partial dependence on one or two features, and individual conditional expectation.

Partial dependence is the mean prediction over the rows (Friedman 2001, section 8.2), individual conditional expectation
that of each row (Goldstein, Kapelner, Bleich & Pitkin 2015, "Peeking inside the black box", JCGS 24(1)).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.checks.arguments import is_iterable
from frameboost.checks.messages import listed, shown
from frameboost.compile.polars import output_expr
from frameboost.data.opening import open_rows
from frameboost.data.sources import FrameSource
from frameboost.errors import DataError, ParameterError
from frameboost.losses.outputs import Output
from frameboost.prediction.predictor import Predictor
from frameboost.schema.types import Feature, FeatureType, category_column

__all__ = ["individual_dependence", "partial_dependence_frame"]

_GRID_SIZE = 20
# What polars raises for values that a column cannot hold; AttributeError for objects of unknown types.
_UNREADABLE = (TypeError, ValueError, OverflowError, AttributeError, pl.exceptions.PolarsError)
_PREDICTION = "prediction"
# A neutral name, because polars' methods treat a series' name such as ^a.*$ as a pattern of columns.
_VALUES = "values"


def partial_dependence_frame(
    predictor: Predictor, data: Any, features: str | Sequence[str], grid: Any, output: str
) -> pl.DataFrame:
    """Return the mean of an output over the rows at each value of the grid.

    Arguments are those of `frameboost.Model.partial_dependence`.
    """
    ensemble, chosen_output = predictor.ensemble, predictor.ensemble.output(output)
    names = ensemble.feature_names
    chosen = [features] if isinstance(features, str) else list(features)
    if len(chosen) > 2 or len(set(chosen)) < len(chosen):
        raise ParameterError(f"feature must be one of the model's or two different ones, not {shown(features)}")
    for name in chosen:
        if name not in names:
            raise ParameterError(f"feature must be one of the model's, {listed(names)}, not {shown(name)}")
        if name == _PREDICTION:
            raise ParameterError(f"feature {shown(_PREDICTION)} has the name of the column of means; rename it")
    grids = _grids(chosen, grid)
    source = open_rows(data, ensemble.read_features)
    types = ensemble.find_in(source)
    frame = source.to_frame(ensemble.read_names).collect()
    if frame.is_empty():
        raise DataError("the data has no rows to take the mean over")
    axes = []
    for name in chosen:
        column, feature = frame[name].alias(_VALUES), ensemble.features[names.index(name)]
        values = _user_grid(grids[name], column, name) if name in grids else _default_grid(column, feature)
        if values.is_empty():
            raise DataError(f"feature {shown(name)} has no value in any row; pass a grid")
        axes.append(pl.DataFrame({name: values}))
    points = axes[0] if len(axes) == 1 else axes[0].join(axes[1], how="cross", maintain_order="left_right")
    responses = _responses(predictor, frame, types, points, chosen_output)
    means = [np.mean(predictions, axis=0).tolist() for predictions in responses]
    dtype = pl.Float64() if len(chosen_output.values) == 1 else pl.Array(pl.Float64, len(chosen_output.values))
    return points.with_columns(pl.Series(_PREDICTION, means, dtype=dtype))


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
        One or two features of the model. The grid is that of `Model.partial_dependence`, with a missing value if the
        column has one; for two features all pairs.
    output
        ``"mean"`` or ``"margin"``.
    number
        The index of the output; by default all.
    grid_of
        The rows to derive the grid from; by default ``frame``.
    most
        The maximum number of values of a feature; if it has more, those at evenly spaced ranks, or the most frequent
        categories.

    Returns
    -------
    polars.DataFrame
        ``value`` and, for two features, ``other`` (in the columns' types), ``row`` (from 0), ``output`` (from 0),
        ``prediction``.

    Raises
    ------
    DataError
        If there are no rows, or a feature is entirely missing.
    ParameterError
        If the model has no such feature.
    """
    ensemble, chosen_output = predictor.ensemble, predictor.ensemble.output(output)
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
    numbers = range(len(chosen_output.values)) if number is None else [number]
    rows = source.to_frame(ensemble.read_names).collect()
    by_row = (
        predictions.reshape(len(frame), -1) for predictions in _responses(predictor, rows, types, grid, chosen_output)
    )
    cube = np.stack([predictions[:, numbers] for predictions in by_row])
    labels = grid.rename(dict(zip(grid.columns, ("value", "other")[: len(features)], strict=True)))
    numbered = pl.DataFrame({"row": np.arange(len(frame), dtype=np.uint32)})
    outputs = pl.DataFrame({"output": np.array(numbers, dtype=np.uint32)})
    long = labels.join(numbered, how="cross", maintain_order="left_right")
    long = long.join(outputs, how="cross", maintain_order="left_right")
    return long.with_columns(pl.Series("prediction", cube.ravel(), dtype=pl.Float64))


def _grids(features: Sequence[str], grid: Any) -> Mapping[str, Any]:
    """Return the user's values by feature; for two features a dict."""
    if grid is None:
        return {}
    if len(features) == 1 and not isinstance(grid, Mapping):
        return {features[0]: grid}
    if not isinstance(grid, Mapping):
        raise ParameterError(f"grid of two features must be a dict of feature to a list of values, not {shown(grid)}")
    for name in grid:
        if name not in features:
            raise ParameterError(f"grid names {shown(name)}, which is none of {listed(features)}")
    return grid


def _responses(
    predictor: Predictor, frame: pl.DataFrame, types: Mapping[str, FeatureType], grid: pl.DataFrame, output: Output
) -> Iterator[npt.NDArray[np.float64]]:
    """Yield, for each row of the grid, the predictions of all rows with the grid's features set to its values.

    Rows and grid are coded once; each value's code is then written into the feature's column of codes.

    Raises
    ------
    ParameterError
        If the output depends on more than the features and the offset.
    DataError
        If the offset is missing in a row.
    """
    if output.lookup is not None:
        raise ParameterError(f"the interval also depends on column {shown(output.lookup.column)}; use another output")
    if predictor.ensemble.offset is not None:
        predictor.ensemble.offset.check(frame)
    output = replace(output, names=())
    arrays, bases = predictor.arrays, predictor.ensemble.base_margins
    value = output_expr(output, [pl.col(margin) for margin in output.margins])
    if arrays.is_linear:  # numbers are read besides codes
        for row in grid.iter_slices(1):
            constants = [pl.lit(value).first().alias(value.name) for value in row.iter_columns()]
            sums = predictor.with_offset(frame, predictor.sums(frame.lazy().with_columns(constants), types, bases))
            yield pl.DataFrame(dict(zip(output.margins, sums, strict=True))).select(value).to_series().to_numpy()
        return
    codes = arrays.codes(frame.lazy(), types).copy()
    schema = frame.schema.items()
    unset = {other: pl.Series([None] * len(grid), dtype=dtype) for other, dtype in schema}
    grid_codes = arrays.codes(pl.LazyFrame(unset | {name: grid[name] for name in grid.columns}), types)
    indices = [index for index, feature in enumerate(arrays.features) if feature.name in grid.columns]
    predictions: npt.NDArray[np.float64] | None = None
    for at in grid_codes:
        if predictions is None or indices:  # otherwise no tree splits on them
            codes[:, indices] = at[indices]
            sums = predictor.with_offset(frame, arrays.margins(codes, bases))
            margins = pl.DataFrame(dict(zip(output.margins, sums, strict=True)))
            predictions = margins.select(value).to_series().to_numpy()
        yield predictions


def _default_grid(column: pl.Series, feature: Feature) -> pl.Series:
    """Return all categories of a string feature, or up to 20 values of the column at evenly spaced ranks, sorted."""
    if feature.type.is_categorical and feature.categories:  # another library's model lists those that it splits on
        # An Enum column may lack some categories.
        values = category_column(feature).alias(column.name).cast(column.dtype, strict=False)
        return values.drop_nulls()
    present = column.drop_nulls()
    if column.dtype.is_float():
        present = present.drop_nans()
    distinct = present.unique().sort()
    if len(distinct) <= _GRID_SIZE:
        return distinct
    ranks = np.linspace(0, len(present) - 1, _GRID_SIZE).round().astype(np.int64)
    return present.sort().gather(ranks).unique(maintain_order=True)


def _user_grid(grid: Iterable[Any], column: pl.Series, name: str) -> pl.Series:
    if isinstance(grid, str | bytes | Set | Mapping) or not is_iterable(grid):
        raise ParameterError(f"grid must be a list of values, not {shown(grid)}")
    listed = grid.to_list() if isinstance(grid, pl.Series) else list(grid)
    if not listed:
        raise ParameterError("grid is empty; pass at least one value")
    try:
        return pl.Series(column.name, listed, dtype=column.dtype, strict=True)
    except _UNREADABLE as error:
        raise ParameterError(
            f"grid must hold values of column {shown(name)}, which has type {column.dtype}, not {shown(listed)}"
        ) from error


def _axis(frame: pl.DataFrame, name: str, predictor: Predictor, most: int | None) -> pl.Series:
    """Return the values of one feature, with a missing value last if the column has any."""
    column = frame[name].alias("values")
    feature = predictor.ensemble.features[predictor.ensemble.feature_names.index(name)]
    values = _default_grid(column, feature)
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
