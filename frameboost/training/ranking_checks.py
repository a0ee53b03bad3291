"""Checks for ranking: the query column, weights of queries, and labels for ranking metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frameboost.checks.messages import shown
from frameboost.data.sources import Source
from frameboost.engines.contract import Engine, QueryWindow
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Aggregate
from frameboost.losses.built_in import label_check
from frameboost.losses.loss import Loss
from frameboost.metrics.built_in import AnyMetric, base_name, is_ranking
from frameboost.metrics.metric import Metric
from frameboost.training.data_checks import argument_of, count_violations, find_column

__all__ = ["check_queries", "with_group"]

_WEIGHT = Expression("weight", ("weight",))


def with_group(source: Source, roles: Mapping[str, str], group: str | None) -> dict[str, str]:
    """Return the roles, with the query column as ``qid``.

    Raises
    ------
    DataError
        If there is no such column, or it has a type that can't be compared.
    ParameterError
        If it has another role.
    """
    if group is None:
        return dict(roles)
    # Any type that can be a feature will do.
    find_column(source, group, "feature" if group in source.names() else "group")
    for role, column in roles.items():
        if column == group:
            raise ParameterError(f"group {shown(group)} is also the {argument_of(role)}")
    if source.types()[group] is None:
        raise DataError(
            f"group column {shown(group)} has type {source.type_names()[group]}, which can't tell queries apart; "
            "convert it to an integer or a string"
        )
    return {**roles, "qid": group}


def check_queries(
    engine: Engine, loss: Loss, metrics: Sequence[AnyMetric], roles: Mapping[str, str], *, exponential: bool
) -> None:
    """Raise an error if rows lack the queries that they need, or have labels or weights unfit for ranking.

    ``exponential`` is ``ndcg_exp_gain``, on which the range of labels depends.
    """
    ranking = [metric for metric in metrics if isinstance(metric, Metric) and is_ranking(metric)]
    if "qid" not in roles:
        if "qid" in loss.roles or ranking:
            needs = f"objective {shown(loss.name)}" if "qid" in loss.roles else f"eval_metric {shown(ranking[0].name)}"
            raise ParameterError(f"{needs} needs group, the column that tells which query a row belongs to")
        return
    if "qid" not in loss.roles and not ranking:
        raise ParameterError(
            "group is for the rank:* objectives and for the metrics ndcg, map and pre; objective "
            f"{shown(loss.name)} has no use for it"
        )
    _check_rows(engine, roles)
    for metric in ranking:
        words, condition = label_check("ndcg" if base_name(metric) == "ndcg" else "map", exponential=exponential)
        if condition != loss.label_condition:  # the loss's own has been checked
            _check_labels(engine, metric, roles["label"], words, condition)


def _check_rows(engine: Engine, roles: Mapping[str, str]) -> None:
    if n_missing := count_violations(engine, Expression("qid IS NOT NULL", ("qid",))):
        raise DataError(
            f"group {shown(roles['qid'])} is NULL or NaN in {n_missing:,} of {engine.n_rows:,} rows; give every row "
            "its query"
        )
    if "weight" not in roles:
        return
    engine.add_columns({"lightest": QueryWindow("min", _WEIGHT), "heaviest": QueryWindow("max", _WEIGHT)})
    spread = Expression("heaviest - lightest", ("heaviest", "lightest"))
    if engine.aggregate({"spread": Aggregate("max", spread)})["spread"]:
        raise DataError(
            f"weight {shown(roles['weight'])} differs between rows of one query; in ranking a weight is that of a "
            f"whole query, so all rows of a value of {shown(roles['qid'])} must have the same"
        )


def _check_labels(engine: Engine, metric: Metric, target: str, words: str, condition: Expression) -> None:
    if n_wrong := count_violations(engine, condition):
        raise DataError(
            f"target {shown(target)} holds other values than {words} in {n_wrong:,} of {engine.n_rows:,} rows; "
            f"eval_metric {shown(metric.name)} needs those"
        )
