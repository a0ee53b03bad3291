"""Contributions of features to predictions: Shapley values, Saabas' contributions, Shapley interaction values.

They are frames, or an ``Explanation`` for SHAP's plots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.checks.messages import shown
from frameboost.data.opening import open_rows
from frameboost.data.sources import FrameSource, LocalSource
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import ParameterError
from frameboost.runtime.workers import require_numba
from frameboost.schema.types import Feature, FeatureType, column

if TYPE_CHECKING:
    from frameboost.compile.arrays.contributions import Contributions

__all__ = [
    "BIAS", "check_bias", "contribution_frame", "contribution_values", "interaction_frame", "shap_explanation",
]  # fmt: skip

BIAS = "bias"


def contribution_frame(ensemble: Ensemble, data: Any, output: int | str | None, *, approx: bool) -> pl.DataFrame:
    """Return a column for each feature, and the bias, for `frameboost.Model.explain`.

    For several outputs it is a long frame.
    """
    check_bias(ensemble.features)
    source, types, outputs = _read(ensemble, data, output)
    names = [*ensemble.feature_names, BIAS]
    contributions = [_contributions(ensemble, source, types, number, approx=approx) for number in outputs]
    if len(contributions) == 1:
        frame = pl.DataFrame(dict(zip(names, contributions[0].T, strict=True)))
        return frame if ensemble.offset is None else frame.with_columns(pl.col(BIAS).fill_nan(None))
    n_rows, n_outputs, n_values = len(contributions[0]), len(contributions), len(names)
    return pl.DataFrame({
        "row": np.repeat(np.arange(n_rows, dtype=np.uint32), n_outputs * n_values),
        "output": _named(ensemble, outputs).gather(np.tile(np.repeat(np.arange(n_outputs), n_values), n_rows)),
        "feature": pl.Series(names * (n_rows * n_outputs), dtype=pl.String),
        "value": pl.Series(np.stack(contributions, axis=1).ravel(), nan_to_null=ensemble.offset is not None),
    })  # fmt: skip


def contribution_values(
    ensemble: Ensemble, data: Any, output: int | str | None, *, approx: bool
) -> npt.NDArray[np.float64]:
    """Return the contributions of the features to one margin, shape (rows, features)."""
    source, types, [number] = _read(ensemble, data, ensemble.margin_number(output))
    return _contributions(ensemble, source, types, number, approx=approx)[:, :-1]


def interaction_frame(ensemble: Ensemble, data: Any, output: int | str | None) -> pl.DataFrame:
    """Return a row for each row and pair of features, and one for the bias."""
    check_bias(ensemble.features)
    source, types, outputs = _read(ensemble, data, output)
    frames = [_interactions(ensemble, source, types, number) for number in outputs]
    if len(frames) == 1:
        return frames[0]
    return pl.concat(
        part.insert_column(1, _named(ensemble, [number]).new_from_index(0, len(part)))
        for number, part in zip(outputs, frames, strict=True)
    ).sort("row", maintain_order=True)


def _named(ensemble: Ensemble, outputs: list[int]) -> pl.Series:
    """Return the labels of outputs that are labelled classes, or the indices of others."""
    labels = ensemble.output_labels
    return pl.Series("output", [labels[number] for number in outputs] if labels else outputs)


def _contributions(
    ensemble: Ensemble, source: LocalSource, types: Mapping[str, FeatureType], number: int, *, approx: bool
) -> npt.NDArray[np.float64]:
    """Return the contributions of all features to a margin, and its mean, shape (rows, features + 1)."""
    contributions, codes, slopes, added = _compiled(ensemble, source, types, number, on_grid=approx)
    of_arrays = contributions.steps(codes) if approx else contributions.shap(codes)
    names = ensemble.feature_names
    whole = np.zeros((len(codes), len(names) + 1))
    whole[:, [names.index(feature.name) for feature in contributions.arrays.features]] = of_arrays
    whole[:, :-1] += slopes
    whole[:, -1] = contributions.bias + added
    return whole


def _interactions(
    ensemble: Ensemble, source: LocalSource, types: Mapping[str, FeatureType], number: int
) -> pl.DataFrame:
    contributions, codes, slopes, added = _compiled(ensemble, source, types, number)
    names = ensemble.feature_names
    n_rows, n_features = len(codes), len(names)
    used = [names.index(feature.name) for feature in contributions.arrays.features]
    square = np.zeros((n_rows, n_features, n_features))
    square[np.ix_(range(n_rows), used, used)] = contributions.interactions(codes)
    diagonal = np.arange(n_features)
    square[:, diagonal, diagonal] += slopes  # a number's slope is no matter of two features
    values = np.column_stack([square.reshape(n_rows, n_features**2), np.full(n_rows, contributions.bias) + added])
    pairs = pl.DataFrame(
        {"feature": [name for name in names for _ in names] + [BIAS], "other": names * n_features + [BIAS]},
        schema={"feature": pl.String, "other": pl.String},
    )
    rows = pl.DataFrame({"row": np.arange(n_rows, dtype=np.uint32)})
    return rows.join(pairs, how="cross", maintain_order="left_right").with_columns(
        pl.Series("value", values.ravel(), nan_to_null=ensemble.offset is not None)
    )


def _read(
    ensemble: Ensemble, data: Any, output: int | str | None
) -> tuple[LocalSource, Mapping[str, FeatureType], list[int]]:
    """Return the rows, the types of the features, and the indices of the margins to explain."""
    require_numba("explain")
    all_outputs = output is None and ensemble.n_outputs > 1
    outputs = list(range(ensemble.n_outputs)) if all_outputs else [ensemble.margin_number(output)]
    source = open_rows(data, ensemble.read_features)
    types = ensemble.find_in(source)
    if all_outputs or ensemble.offset is not None:  # several passes over the same rows
        source = FrameSource(source.to_frame(ensemble.read_names).collect().lazy())
    return source, types, outputs


def _compiled(
    ensemble: Ensemble, source: LocalSource, types: Mapping[str, FeatureType], number: int, *, on_grid: bool = False
) -> tuple[Contributions, npt.NDArray[np.unsignedinteger], npt.NDArray[np.float64], npt.NDArray[np.float64] | float]:
    """Return compiled trees, rows as codes, the part of slopes, (rows, features), and the offset."""
    from frameboost.compile.arrays.contributions import Contributions
    from frameboost.compile.arrays.flat_trees import TreeArrays

    trees = ensemble.trees_of(number)
    arrays = TreeArrays.compile(trees, ensemble.features)
    base = ensemble.base_margins[number]
    contributions = Contributions.compile(arrays, base, trees, ensemble.features, on_grid=on_grid)
    names = ensemble.feature_names
    codes, numbers = contributions.read(source.to_frame(names), types)
    slopes = np.zeros((len(codes), len(names)))
    if contributions.linear is not None and numbers is not None:
        slopes[:, [names.index(name) for name in contributions.linear.names]] = contributions.slopes(codes, numbers)
    expr = None if ensemble.offset is None else ensemble.offset.exprs()[number]
    if expr is None:
        return contributions, codes, slopes, 0.0
    added = source.to_frame(ensemble.read_names).select(expr.alias("offset").fill_null(float("nan"))).collect()
    return contributions, codes, slopes, added.to_series().to_numpy()


def check_bias(features: Sequence[Feature], *, ignore_case: bool = False) -> None:
    """Raise `ParameterError` if a feature has the name of the bias column."""
    for name in (feature.name for feature in features):
        if name == BIAS or (ignore_case and name.lower() == BIAS):
            raise ParameterError(f"feature {shown(name)} has the name of the bias column; rename it")


def shap_explanation(ensemble: Ensemble, data: Any, output: int | str | None, *, approx: bool) -> Any:
    """Return the contributions of `contribution_frame` as a ``shap.Explanation``.

    The values have the shape (rows, features), or (rows, features, outputs) for several outputs.

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
    all_outputs = output is None and ensemble.n_outputs > 1
    if not all_outputs:
        values = contributions.to_numpy()
    else:
        values = contributions["value"].to_numpy().reshape(len(rows), ensemble.n_outputs, len(names) + 1)
        values = values.transpose(0, 2, 1)
    return Explanation(
        values=values[:, :-1],
        base_values=values[:, -1],
        data=np.column_stack([_as_number(values).to_numpy() for values in rows]),
        display_data=np.array(
            [(v.cast(pl.String) if v.dtype.is_temporal() else v).to_list() for v in rows], dtype=object
        ).T,
        feature_names=names,
        output_names=[str(name) for name in ensemble.output_labels or range(ensemble.n_outputs)]
        if all_outputs
        else None,
    )


def _as_number(values: pl.Series) -> pl.Series:
    """Return a column's values as numbers: dates and times as units since 1970, strings as ranks."""
    if values.dtype.is_temporal():
        return values.to_physical().cast(pl.Float64)
    if values.dtype.is_numeric() or values.dtype == pl.Boolean:
        return values.cast(pl.Float64)
    return values.cast(pl.String).rank("dense").cast(pl.Float64) - 1.0
