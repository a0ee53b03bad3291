"""Contributions of features to predictions: Shapley values, Saabas' steps, and Shapley interaction values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.checks.messages import shown
from frameboost.data.feature_columns import find_features
from frameboost.data.rows_to_score import open_rows
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import ParameterError
from frameboost.schema.feature import Feature

if TYPE_CHECKING:
    from frameboost.compile.arrays.contributions import Contributions

__all__ = ["BIAS", "check_bias", "contribution_frame", "interaction_frame"]

BIAS = "bias"


def contribution_frame(ensemble: Ensemble, data: Any, output: int | None, *, approx: bool) -> pl.DataFrame:
    """Return a column for each feature, and the bias, as `frameboost.Model.explain` describes them."""
    check_bias(ensemble.features)
    contributions, codes = _compiled(ensemble, data, output)
    found = contributions.steps(codes) if approx else contributions.shap(codes)
    place = {feature.name: i for i, feature in enumerate(contributions.arrays.features)}
    nothing = np.zeros(len(codes))
    columns = {name: found[:, place[name]] if name in place else nothing for name in ensemble.feature_names}
    return pl.DataFrame({**columns, BIAS: np.full(len(codes), contributions.bias)})


def interaction_frame(ensemble: Ensemble, data: Any, output: int | None) -> pl.DataFrame:
    """Return a row for each pair of features of each row of the data, and one for the bias."""
    check_bias(ensemble.features)
    contributions, codes = _compiled(ensemble, data, output)
    names = ensemble.feature_names
    n_rows, n_features = len(codes), len(names)
    used = [names.index(feature.name) for feature in contributions.arrays.features]
    square = np.zeros((n_rows, n_features, n_features))
    square[np.ix_(range(n_rows), used, used)] = contributions.interactions(codes)
    values = np.column_stack([square.reshape(n_rows, n_features**2), np.full(n_rows, contributions.bias)])
    pairs = pl.DataFrame(
        {"feature": [name for name in names for _ in names] + [BIAS], "other": names * n_features + [BIAS]},
        schema={"feature": pl.String, "other": pl.String},
    )
    rows = pl.DataFrame({"row": np.arange(n_rows, dtype=np.uint32)})
    return rows.join(pairs, how="cross", maintain_order="left_right").with_columns(pl.Series("value", values.ravel()))


def _compiled(
    ensemble: Ensemble, data: Any, output: int | None
) -> tuple[Contributions, npt.NDArray[np.unsignedinteger]]:
    """Return the compiled trees of one output, and the data's rows as their codes."""
    from frameboost.compile.arrays.contributions import Contributions  # which needs numba
    from frameboost.compile.arrays.flat_trees import TreeArrays

    number = ensemble.margin_number(output)
    trees = ensemble.trees_of(number)
    arrays = TreeArrays.compile(trees, ensemble.features)
    source = open_rows(data, ensemble.features)
    types = find_features(source, ensemble.features)
    codes = arrays.codes(source.to_frame(ensemble.feature_names), types)
    return Contributions.compile(arrays, ensemble.base_margins[number], trees), codes


def check_bias(features: Sequence[Feature], *, ignore_case: bool = False) -> None:
    """Raise `ParameterError` if a feature has the name of the column of the mean margin."""
    for name in (feature.name for feature in features):
        if name == BIAS or (ignore_case and name.lower() == BIAS):
            raise ParameterError(
                f"a feature is itself named {shown(name)}, which is what the column of the mean margin is called; "
                "rename the feature"
            )
