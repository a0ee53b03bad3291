"""Queries that explain predictions inside a database: a contribution for each feature, or reason codes."""

from __future__ import annotations

from collections.abc import Sequence

from frameboost.checks.messages import shown
from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.compile.sql.explain import contribution_trees, contributions_query, reasons_query
from frameboost.compile.sql.size import exceeded_limit
from frameboost.compile.sql.sql_model import OffsetColumn
from frameboost.compile.sql.stages import Stages, TableSource
from frameboost.dialects.dialect import Dialect
from frameboost.errors import ParameterError
from frameboost.prediction.contributions import BIAS, check_bias
from frameboost.trees.tree import Tree

__all__ = ["explanation_query"]


def explanation_query(
    source: TableSource, keep: Sequence[str], top: int | None, base_margin: float, trees: Sequence[Tree],
    columns: Sequence[FeatureColumn], dialect: Dialect, offset: OffsetColumn | None = None,
) -> str:  # fmt: skip
    """Return the SELECT that `DatabaseModel.explain_query` describes, over the trees of one output and its offset."""
    features = [column.feature for column in columns]
    asked = sorted({feature for tree in trees for feature in tree.used_features()})
    read = [*(columns[f].name for f in asked), *([] if offset is None or top is not None else [offset.name])]
    stages = Stages(dialect, source, keep, read, None)
    steps, bias = contribution_trees(len(features), base_margin, trees)
    if top is None:
        check_bias(features, ignore_case=True)
        _check_distinct([*keep, *(feature.name for feature in features), BIAS])
        mean = dialect.number(bias) if offset is None else f"({dialect.number(bias)} + {offset.value})"
        return _fitting(contributions_query(stages, BIAS, mean, steps, columns, dialect), steps, dialect)
    if not isinstance(top, int) or isinstance(top, bool) or not 1 <= top <= len(features):
        raise ParameterError(
            f"top must be an integer from 1 to {len(features)}, the number of features, not {shown(top)}"
        )
    _check_distinct([*keep, *(f"{name}_{k}" for k in range(1, top + 1) for name in ("reason", "contribution"))])
    return _fitting(reasons_query(stages, top, steps, columns, dialect), steps, dialect)


def _fitting(text: str, steps: Sequence[Sequence[Tree]], dialect: Dialect) -> str:
    """Return the query, or raise `ParameterError` if it is larger than the database takes."""
    if reason := exceeded_limit(text, steps, dialect, in_one=True):
        raise ParameterError(f"the explanations do not fit into one query: {reason}; explain a slice of the model")
    return text


def _check_distinct(names: Sequence[str]) -> None:
    lowered = [name.lower() for name in names]
    for name in names:
        if lowered.count(name.lower()) > 1:
            raise ParameterError(f"the query would have column {shown(name)} twice; leave it out of keep")
