"""Contributions as the ``Explanation`` of the package SHAP, which its plots take."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from frameboost.data.rows_to_score import open_rows
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import ParameterError
from frameboost.prediction.contributions import contribution_frame
from frameboost.schema.polars_columns import column

__all__ = ["shap_explanation"]


def shap_explanation(ensemble: Ensemble, data: Any, output: int | str | None, *, approx: bool) -> Any:
    """Return the contributions of `contribution_frame` as a ``shap.Explanation``.

    The values have the shape (rows, features), or (rows, features, outputs) of all outputs of several.

    Raises
    ------
    ParameterError
        If SHAP is not installed.
    """
    try:
        from shap import Explanation
    except ImportError as error:
        raise ParameterError("form='shap' needs the package SHAP: pip install 'frameboost[shap]'") from error
    source, names = open_rows(data, ensemble.read_features), ensemble.feature_names
    ensemble.find_in(source)
    rows = source.to_frame(ensemble.read_names).collect()  # once, as a relation may have another order the next time
    contributions = contribution_frame(ensemble, rows, output, approx=approx)
    rows = rows.select(map(column, names))
    several = output is None and ensemble.n_outputs > 1
    if not several:
        values = contributions.to_numpy()
    else:
        values = contributions["value"].to_numpy().reshape(len(rows), ensemble.n_outputs, len(names) + 1)
        values = values.transpose(0, 2, 1)
    return Explanation(
        values=values[:, :-1],
        base_values=values[:, -1],
        data=np.column_stack([_as_number(column).to_numpy() for column in rows]),
        display_data=np.array([_as_shown(column) for column in rows], dtype=object).T,
        feature_names=names,
        output_names=[str(name) for name in ensemble.output_labels or range(ensemble.n_outputs)] if several else None,
    )


def _as_shown(column: pl.Series) -> list[Any]:
    return (column.cast(pl.String) if column.dtype.is_temporal() else column).to_list()


def _as_number(column: pl.Series) -> pl.Series:
    """Return a column's values as numbers: of dates and times the units since 1970, of strings their places sorted."""
    if column.dtype.is_temporal():
        return column.to_physical().cast(pl.Float64)
    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        return column.cast(pl.Float64)
    return column.cast(pl.String).rank("dense").cast(pl.Float64) - 1.0
