"""Checks of columns, labels, weights and queries before training."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from frameboost.checks.messages import counted, did_you_mean, listed, shown, warn
from frameboost.data.feature_columns import chosen_names
from frameboost.data.opening import open_rows
from frameboost.data.sources import LocalSource, Source, check_numeric
from frameboost.engines.contract import QueryWindow, Rows, parts_where
from frameboost.engines.linear_contract import linear_role
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Aggregate
from frameboost.losses.built_in import label_check
from frameboost.losses.loss import Loss, margin_names
from frameboost.losses.offset import EXPOSURE, Offset
from frameboost.metrics.built_in import AnyMetric, base_name, is_ranking
from frameboost.metrics.metric import Metric
from frameboost.schema.types import Feature
from frameboost.training.class_labels import labelled_columns, with_label_codes
from frameboost.trees.tree import may_have_slope

__all__ = [
    "argument_of", "check_evaluated", "check_heaviest", "check_held_out", "check_queries", "check_rows",
    "check_upper_bound", "check_weights", "count_violations", "find_column", "find_roles", "numbers_of_leaves",
    "open_labelled", "pick_features", "with_group",
]  # fmt: skip

# Labels and weights within this bound have finite squares of gradients.
_LARGEST = 1e150
# Sums of weights from here on are exact, and may be divided by.
_SMALLEST = 1e-150


@cache
def _of_weight() -> dict[str, Aggregate]:
    return {
        "missing_weights": Aggregate("sum", Expression("CASE WHEN weight IS NULL THEN 1 ELSE 0 END")),
        "lightest": Aggregate("min", Expression("weight")),
        "heaviest": Aggregate("max", Expression("weight")),
    }


@cache
def _of_label(label: str) -> dict[str, Aggregate]:
    names = (label, "weight")
    counted = Expression(f"CASE WHEN weight > 0 THEN {label} END", names)  # a row of weight 0 has no effect
    return {
        f"{label}_missing": Aggregate("sum", Expression(f"CASE WHEN {label} IS NULL THEN 1 ELSE 0 END", names)),
        f"{label}_lowest": Aggregate("min", Expression(label, names)),
        f"{label}_highest": Aggregate("max", Expression(label, names)),
        f"{label}_lowest_counted": Aggregate("min", counted),
        f"{label}_highest_counted": Aggregate("max", counted),
    }


def find_column(source: Source, name: object, role: str) -> str:
    """Return the column's name, or raise `DataError` if there is no such column or it can't play the role."""
    if not isinstance(name, str):
        raise ParameterError(f"{role} must be a column name, not {shown(name)}")
    names = source.names()
    if name not in names:
        raise DataError(f"{role} column {shown(name)} is not in the data{_nearest(name, names)}")
    if role != "feature":
        check_numeric(source, name, f"{role} column", or_labels=role == "target")
    return name


def find_roles(
    source: Source,
    target: str | Sequence[str],
    weight: str | None,
    base_margin: str | Sequence[str] | None,
    label_upper_bound: str | None,
    exposure: str | None = None,
) -> dict[str, str]:
    """Return the column of each role, ``label`` (or ``label_0``, ...) first.

    Raises
    ------
    DataError
        If a column is not there or not numeric.
    ParameterError
        If one column has two roles, or a name is no string.
    """
    if isinstance(target, list | tuple) and len(target) > 1:
        roles = {f"label_{i}": find_column(source, name, "target") for i, name in enumerate(target)}
    else:
        roles = {"label": find_column(source, target[0] if isinstance(target, list | tuple) else target, "target")}
    if weight is not None:
        roles["weight"] = find_column(source, weight, "weight")
    if label_upper_bound is not None:
        roles["upper"] = find_column(source, label_upper_bound, "label_upper_bound")
    if base_margin is not None:
        several = [base_margin] if isinstance(base_margin, str) else list(base_margin)
        for name, column in zip(margin_names(len(several)), several, strict=True):
            roles[f"base_{name}"] = find_column(source, column, "base_margin")
    if exposure is not None:
        roles[EXPOSURE] = find_column(source, exposure, EXPOSURE)
    columns = list(roles.values())
    for role, column in roles.items():
        first = columns.index(column)
        if list(roles)[first] != role and role != "upper":  # an exact time is both bounds
            raise ParameterError(f"{argument_of(role)} {shown(column)} is also the {argument_of(list(roles)[first])}")
    return roles


def open_labelled(
    ensemble: Ensemble, data: Any, target: str | Sequence[str], weight: str | None, label_upper_bound: str | None,
    group: str | None, *, exactly: bool = False,
) -> tuple[LocalSource, dict[str, str]]:  # fmt: skip
    """Return rows with labels, as the numbers of the model's classes, and the column of each role.

    ``exactly`` is as for `frameboost.data.opening.open_rows`.

    Raises
    ------
    DataError, ParameterError
        If the rows do not go with the model.
    """
    loss, rows = ensemble.loss, open_rows(data, labelled_columns(ensemble, target), exactly=exactly)
    source = with_label_codes(rows, target, ensemble.labels)
    ensemble.find_in(source)
    roles = with_group(source, find_roles(source, target, weight, None, label_upper_bound), group)
    n_targets = sum(role.startswith("label") for role in roles)
    if n_targets != len(loss.labels):
        raise ParameterError(f"the model predicts {counted(len(loss.labels), 'target')}, not {n_targets}")
    check_upper_bound(loss, roles)
    return source, roles


def argument_of(role: str) -> str:
    """Return the argument of `fit` that names the column of a role."""
    if role.startswith("label"):
        return "target"
    if role.startswith("base_"):
        return "base_margin"
    return {"upper": "label_upper_bound", "qid": "group"}.get(role, role)


def numbers_of_leaves(features: Sequence[Feature]) -> dict[str, str]:
    """Return the columns that leaves may have slopes of, by their role in a `LinearEngine`."""
    return {linear_role(number): each.name for number, each in enumerate(features) if may_have_slope(each)}


def pick_features(
    source: Source, features: Any, roles: Mapping[str, str], valid: object = None, exclude: Any = None
) -> tuple[Feature, ...]:
    """Return the features, by default every column without a role, except the one that marks rows to validate on.

    Raises
    ------
    DataError
        If a column is not there, has a type that can't be a feature, or none is left.
    ParameterError
        If a column is named twice, or has another role.
    """
    role_of = {column: role for role, column in reversed(list(roles.items()))}
    marks = {valid} if isinstance(valid, str) else set()
    chosen = chosen_names(source, features, exclude, {*role_of, *marks})
    times = Counter(chosen)
    for name in chosen:
        if times[name] > 1:
            raise ParameterError(f"feature {shown(name)} is given {times[name]} times")
        if name in role_of:
            raise ParameterError(f"feature {shown(name)} is also the {argument_of(role_of[name])}")
        if name in marks:
            raise ParameterError(f"feature {shown(name)} is also the column that tells which rows to validate on")
    types = source.types()
    for name in chosen:
        if types[name] is None:
            raise DataError(
                f"feature {shown(name)} has type {source.type_names()[name]}, which can't be split on; convert it to a "
                "number, decimal, Boolean, date, timestamp, duration or string, or leave it out with "
                f"exclude=[{shown(name)}]"
            )
    return tuple(
        Feature(name, kind.as_category if name in source.categorical else kind)
        for name in chosen
        if (kind := types[name]) is not None
    )


def check_upper_bound(loss: Loss, roles: Mapping[str, str]) -> None:
    """Raise `ParameterError` if a loss of censored times has no column of upper bounds, or another loss has one."""
    if "upper" in roles and "upper" not in loss.roles:
        raise ParameterError(f"label_upper_bound is for objective 'survival:aft', not for {shown(loss.name)}")
    if "upper" in loss.roles and "upper" not in roles:
        raise ParameterError(
            f"objective {shown(loss.name)} needs label_upper_bound, the column of the latest that a time can be: the "
            "target where it is known, NULL where it has not ended"
        )


def check_rows(
    rows: Rows, loss: Loss, roles: Mapping[str, str], names: Sequence[str | bool] = ()
) -> tuple[float, float]:
    """Return the smallest and the largest label; raise `DataError` if labels or weights can't be trained on.

    Constant labels raise a warning. ``names`` are the labels of the classes, for messages. Of several targets
    the range is that of the last.
    """
    summary = _checked_summary(rows, loss, roles, "the data", least=2)
    for label in loss.labels:
        lowest, highest = summary[f"{label}_lowest_counted"], summary[f"{label}_highest_counted"]
        if lowest == highest and "upper" not in roles:
            everywhere = summary[f"{label}_lowest"] == summary[f"{label}_highest"]
            where = "" if everywhere else f" wherever weight {shown(roles.get('weight'))} is not 0"
            value = shown(names[int(lowest)]) if names else f"{lowest:g}"
            always = "" if loss.classes == 1 and not names else f" (always {value})"  # the label is known to the caller
            warn(f"target {shown(roles[label])} is constant{always}{where}; all that there is to learn is that")
    return summary[f"{label}_lowest"], summary[f"{label}_highest"]


def check_held_out(rows: Rows, loss: Loss, roles: Mapping[str, str], name: str) -> None:
    """Raise `DataError` if rows can't be evaluated on."""
    what = "the data" if name == "data" else f"{shown(name)}, the data to validate on,"
    _checked_summary(rows, loss, roles, what, least=1)


def check_evaluated(rows: Rows, loss: Loss, roles: Mapping[str, str]) -> None:
    """Raise `DataError` if a trained model can't be evaluated on the rows."""
    _checked_summary(rows, loss, roles, "the data", least=1)


def _checked_summary(rows: Rows, loss: Loss, roles: Mapping[str, str], data: str, *, least: int) -> dict[str, float]:
    aggregates = _of_weight() | {name: one for label in loss.labels for name, one in _of_label(label).items()}
    if loss.label_condition is not None:
        for label in loss.labels:
            condition = loss.label_condition.renamed({"label": label})
            aggregates[f"{label}_wrong"] = Aggregate("sum", _is_violated(condition))
            aggregates[f"{label}_example"] = Aggregate("min", _violating(condition, label))
    for role in roles:
        if role.startswith("base_") or role == EXPOSURE:
            is_known = Expression(f"{role} - {role} = 0" + f" AND {role} > 0" * (role == EXPOSURE), (role,))
            aggregates[f"missing_{role}"] = Aggregate("sum", _is_violated(is_known))
    summary = {name: value or 0.0 for name, value in rows.aggregate(aggregates).items()}
    n_rows = rows.n_rows
    if n_rows < least:
        has = "no rows" if n_rows == 0 else "1 row"
        raise DataError(f"{data} has {has}; " + ("training needs at least 2" if least == 2 else "it needs at least 1"))
    try:
        _check_summary(summary, n_rows, loss, roles)
    except DataError as error:
        raise DataError(f"{error}{_where_wrong(rows, aggregates, loss, roles)}") from None
    if "weight" in roles:
        where = "" if data == "the data" else f" of {data.removesuffix(',')}"
        check_heaviest(roles["weight"], summary["heaviest"], where)
    return summary


def _where_wrong(rows: Rows, aggregates: Mapping[str, Aggregate], loss: Loss, roles: Mapping[str, str]) -> str:
    """Return the end of a message: the files or frames that the wrong rows are in, if the data has several."""

    def is_wrong(results: Mapping[str, float | None], n_rows: int) -> bool:
        try:
            _check_summary({name: value or 0.0 for name, value in results.items()}, n_rows, loss, roles)
        except DataError:
            return True
        return False

    names = parts_where(rows, aggregates, is_wrong)
    return f" (in {', '.join(names[:3])}{f' and {len(names) - 3} more' if names[3:] else ''})" if names else ""


def _check_summary(summary: dict[str, float], n_rows: int, loss: Loss, roles: Mapping[str, str]) -> None:
    """Raise `DataError` if some row has a label, a weight or a margin that can't be trained on."""
    for label in loss.labels:
        _check_labels(loss, label, roles[label], summary, n_rows)
    if "weight" in roles:
        missing = int(summary["missing_weights"])
        check_weights(roles["weight"], missing, summary["lightest"], summary["heaviest"], n_rows)
    for role, column in roles.items():
        if wrong := summary.get(f"missing_{role}"):
            offset = Offset("exposure" if role == EXPOSURE else "base_margin", (column,))
            raise DataError(offset.message(column, int(wrong), n_rows))


def _check_labels(loss: Loss, label: str, target: str, summary: dict[str, float], n_rows: int) -> None:
    lowest, highest = summary[f"{label}_lowest"], summary[f"{label}_highest"]
    if missing := int(summary[f"{label}_missing"]):
        raise DataError(
            f"target {shown(target)} is NULL or NaN in {missing:,} of {n_rows:,} rows; drop those rows first"
        )
    if math.isinf(lowest) or math.isinf(highest):
        raise DataError(f"target {shown(target)} holds an infinite value; every label must be finite")
    if max(-lowest, highest) > _LARGEST:
        raise DataError(f"target {shown(target)} holds values beyond ±{_LARGEST:g}; rescale it")
    if loss.label_condition is not None and (n_wrong := int(summary[f"{label}_wrong"])):
        raise DataError(
            f"target {shown(target)} holds other values than {loss.label_requirement} in {n_wrong:,} "
            f"of {n_rows:,} rows, such as {summary[f'{label}_example']:.15g}; objective {shown(loss.name)} needs those"
            f"{_way_of_labels(loss, lowest, highest)}"
        )


def _way_of_labels(loss: Loss, lowest: float, highest: float) -> str:
    """Return the end of the message that labels are none of a loss: what takes them."""
    if loss.family == "binary" and lowest >= 0 and highest <= 1:
        return "; 'reg:logistic' takes shares from 0 to 1"
    if loss.family == "binary":
        return "; give 0 and 1 in place of other numbers, or labels as strings"
    return "; number them from 0, or give labels as strings" if loss.family == "multi" else ""


def count_violations(rows: Rows, condition: Expression) -> int:
    """Return the number of rows of which the condition is not true."""
    return int(rows.aggregate({"wrong": Aggregate("sum", _is_violated(condition))})["wrong"] or 0)


@cache
def _violating(condition: Expression, label: str) -> Expression:
    columns = tuple(dict.fromkeys((*condition.columns, label)))
    return Expression(f"CASE WHEN ({_is_violated(condition).text}) = 1 THEN {label} END", columns)


@cache
def _is_violated(condition: Expression) -> Expression:
    return Expression(f"CASE WHEN {condition.text} THEN 0 ELSE 1 END", condition.columns)


def check_weights(weight: str, missing: int, lightest: float, heaviest: float, n_rows: int) -> None:
    """Raise `DataError` if a row has a weight that can't be trained on; ``missing`` is the number of rows without."""
    if missing:
        raise DataError(
            f"weight {shown(weight)} is NULL or NaN in {missing:,} of {n_rows:,} rows; give every row a weight"
        )
    if lightest < 0:
        raise DataError(f"weight {shown(weight)} holds negative values (down to {lightest:g}); weights are 0 or more")
    if math.isinf(heaviest):
        raise DataError(f"weight {shown(weight)} holds an infinite value; every weight must be finite")
    if heaviest > _LARGEST:
        raise DataError(f"weight {shown(weight)} holds values beyond {_LARGEST:g}; rescale it")


def check_heaviest(weight: str, heaviest: float, where: str = "") -> None:
    """Raise `DataError` if weights are 0 in every row, or their sum is too little to divide by."""
    if heaviest == 0:
        raise DataError(f"weight {shown(weight)} is 0 in every row{where}; some row must count")
    if heaviest < _SMALLEST:
        raise DataError(
            f"weight {shown(weight)} is at most {heaviest:g}{where}, too little to divide by; rescale it, so that the "
            f"largest is {_SMALLEST:g} or more"
        )


def _nearest(name: str, names: Sequence[str]) -> str:
    return did_you_mean(name, names) or f", which has {listed(names) or 'no columns'}"


# --- ranking --------------------------------------------------------------------------------------------------------


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
    rows: Rows, loss: Loss, metrics: Sequence[AnyMetric], roles: Mapping[str, str], *, exponential: bool
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
    _check_rows_of_queries(rows, roles)
    for metric in ranking:
        words, condition = label_check("ndcg" if base_name(metric) == "ndcg" else "map", exponential=exponential)
        if condition != loss.label_condition:  # that of the loss has been checked
            _check_ranking_labels(rows, metric, roles["label"], words, condition)


def _check_rows_of_queries(rows: Rows, roles: Mapping[str, str]) -> None:
    if n_missing := count_violations(rows, Expression("qid IS NOT NULL", ("qid",))):
        raise DataError(
            f"group {shown(roles['qid'])} is NULL or NaN in {n_missing:,} of {rows.n_rows:,} rows; give every row "
            "its query"
        )
    if "weight" not in roles:
        return
    weight = Expression("weight", ("weight",))
    rows.add_columns({"lightest": QueryWindow("min", weight), "heaviest": QueryWindow("max", weight)})
    spread = Expression("heaviest - lightest", ("heaviest", "lightest"))
    if rows.aggregate({"spread": Aggregate("max", spread)})["spread"]:
        raise DataError(
            f"weight {shown(roles['weight'])} differs between rows of one query; in ranking a weight is that of a "
            f"whole query, so all rows of a value of {shown(roles['qid'])} must have the same"
        )


def _check_ranking_labels(rows: Rows, metric: Metric, target: str, words: str, condition: Expression) -> None:
    if n_wrong := count_violations(rows, condition):
        raise DataError(
            f"target {shown(target)} holds other values than {words} in {n_wrong:,} of {rows.n_rows:,} rows; "
            f"eval_metric {shown(metric.name)} needs those"
        )
