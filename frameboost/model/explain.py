"""Contributions of features to predictions, and of pairs of them, as frames and as queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.checks.messages import shown
from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.compile.sql.explain import contribution_trees, contributions_query, reasons_query
from frameboost.compile.sql.size import excess
from frameboost.compile.sql.stages import Stages
from frameboost.data.feature_columns import find_features
from frameboost.data.sources import open_source
from frameboost.dialects.dialect import Dialect
from frameboost.errors import ParameterError
from frameboost.schema.feature import Feature
from frameboost.trees.tree import Tree

if TYPE_CHECKING:
    from frameboost.compile.arrays.contributions import Contributions

__all__ = ["contribution_frame", "interaction_frame", "query_for_explanations"]

_BIAS = "bias"


def contribution_frame(
    data: Any, features: Sequence[Feature], base_margin: float, trees: Sequence[Tree], *, approx: bool,
) -> pl.DataFrame:  # fmt: skip
    """Return a column a feature, and the bias (see `Model.explain`)."""
    _refuse_bias(features)
    contributions, codes = _compiled(data, features, base_margin, trees)
    found = contributions.steps(codes) if approx else contributions.shap(codes)
    place = {feature.name: i for i, feature in enumerate(contributions.arrays.features)}
    nothing = np.zeros(len(codes))
    columns = {
        feature.name: found[:, place[feature.name]] if feature.name in place else nothing for feature in features
    }
    return pl.DataFrame({**columns, _BIAS: np.full(len(codes), contributions.bias)})


def interaction_frame(
    data: Any, features: Sequence[Feature], base_margin: float, trees: Sequence[Tree]
) -> pl.DataFrame:
    """Return a row for each pair of features of each row, and one for the bias (see `Model.explain_interactions`)."""
    _refuse_bias(features)
    contributions, codes = _compiled(data, features, base_margin, trees)
    n_rows, n_features = len(codes), len(features)
    names = [feature.name for feature in features]
    used = [names.index(feature.name) for feature in contributions.arrays.features]
    square = np.zeros((n_rows, n_features, n_features))
    square[np.ix_(range(n_rows), used, used)] = contributions.interactions(codes)
    values = np.column_stack([square.reshape(n_rows, n_features**2), np.full(n_rows, contributions.bias)])
    pairs = pl.DataFrame(
        {
            "feature": [name for name in names for _ in names] + [_BIAS],
            "other": names * n_features + [_BIAS],
        },
        schema={"feature": pl.String, "other": pl.String},
    )
    rows = pl.DataFrame({"row": np.arange(n_rows, dtype=np.uint32)})
    return rows.join(pairs, how="cross", maintain_order="left_right").with_columns(pl.Series("value", values.ravel()))


def query_for_explanations(
    table: str, dialect: Dialect, keep: Sequence[str], top: int | None, columns: Sequence[FeatureColumn],
    base_margin: float, trees: Sequence[Tree],
) -> str:  # fmt: skip
    """Return a SELECT (see `Model.explain_query`)."""
    features = [column.feature for column in columns]
    asked = sorted({f for tree in trees for f in tree.feature if f >= 0})
    stages = Stages(dialect, dialect.quote_path(table), keep, [columns[f].name for f in asked], None)
    steps, bias = contribution_trees(len(features), base_margin, trees)
    if top is None:
        _refuse_bias(features, ignore_case=True)
        _refuse_twice([*keep, *(feature.name for feature in features), _BIAS])
        return _fitting(contributions_query(stages, _BIAS, bias, steps, columns, dialect), steps, dialect)
    if not isinstance(top, int) or isinstance(top, bool) or not 1 <= top <= len(features):
        raise ParameterError(
            f"top must be an integer from 1 to {len(features)}, the number of features, not {shown(top)}"
        )
    _refuse_twice([*keep, *(f"{name}_{k}" for k in range(1, top + 1) for name in ("reason", "contribution"))])
    return _fitting(reasons_query(stages, top, steps, columns, dialect), steps, dialect)


def _fitting(text: str, steps: Sequence[Sequence[Tree]], dialect: Dialect) -> str:
    if reason := excess(text, steps, dialect, in_one=True):
        raise ParameterError(f"the explanations do not fit into one query: {reason}; explain a slice of the model")
    return text


def _refuse_twice(names: Sequence[str]) -> None:
    lowered = [name.lower() for name in names]
    for name in names:
        if lowered.count(name.lower()) > 1:
            raise ParameterError(f"the query would have column {shown(name)} twice; leave it out of keep")


def _compiled(
    data: Any, features: Sequence[Feature], base_margin: float, trees: Sequence[Tree]
) -> tuple[Contributions, npt.NDArray[np.unsignedinteger]]:
    from frameboost.compile.arrays.contributions import Contributions
    from frameboost.compile.arrays.flat_trees import (
        TreeArrays,  # which needs numba, as a query of explanations does not
    )

    arrays = TreeArrays.compile(trees, features)
    source = open_source(data)
    types = find_features(source, features)
    codes = arrays.codes(source.to_frame([feature.name for feature in features]), types)
    return Contributions.compile(arrays, base_margin, trees), codes


def _refuse_bias(features: Sequence[Feature], *, ignore_case: bool = False) -> None:
    for name in (feature.name for feature in features):
        if name != _BIAS and not (ignore_case and name.lower() == _BIAS):
            continue
        raise ParameterError(
            f"a feature is itself named {shown(name)}, which is what the column of the mean margin is called; "
            "rename the feature"
        )
