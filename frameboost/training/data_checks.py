"""Check columns, labels, weights and queries before training, and replace class labels by indices.

Strings are replaced before an engine opens: by a polars expression in a frame, by CASE in a database. So engines,
losses and metrics see indices 0, 1, ... of `Ensemble.labels`. Booleans are 0 and 1 everywhere.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

from frameboost.binning.bins import Bins
from frameboost.checks.messages import counted, did_you_mean, listed, shown, warn
from frameboost.data.database_table import DatabaseTable
from frameboost.data.feature_columns import chosen_names
from frameboost.data.held_out import HeldOut
from frameboost.data.opening import open_rows
from frameboost.data.sources import FrameSource, LocalSource, RelationSource, Source, check_numeric
from frameboost.engines.contract import QueryWindow, Rows, linear_role, parts_where
from frameboost.ensemble.ensemble import Ensemble, Labels
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Aggregate, exact_sum, weighted
from frameboost.losses.built_in import label_check
from frameboost.losses.custom import Objective, name_of_objective
from frameboost.losses.loss import EXPOSURE, Loss, Offset, family_of, margin_names
from frameboost.metrics.metric import AnyMetric, Metric, base_name, is_ranking
from frameboost.parameters.parameters import Parameters
from frameboost.schema.types import Feature, FeatureType
from frameboost.trees.linear_leaves import may_have_slope
from frameboost.trees.tree import LEAF, Tree, TreeColumns

__all__ = [
    "TrainingTarget",
    "argument_of",
    "as_categories",
    "check_evaluated",
    "check_heaviest",
    "check_held_out",
    "check_known",
    "check_queries",
    "check_result",
    "check_rows",
    "check_upper_bound",
    "check_weights",
    "count_violations",
    "find_column",
    "find_roles",
    "hint_of_classes",
    "labelled_columns",
    "missing_labels",
    "numbers_of_leaves",
    "open_labelled",
    "pick_features",
    "read_target",
    "with_group",
    "with_label_codes",
]

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
    """Return the column's name, or raise `DataError` if it does not exist or can't have the role."""
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
        If a column does not exist or is not numeric.
    ParameterError
        If a column has two roles, or a name is not a string.
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
    """Open rows with labels, as class indices of the model, and return them with the column of each role.

    ``exactly`` is as for `frameboost.data.opening.open_rows`.

    Raises
    ------
    DataError, ParameterError
        If the rows do not fit the model.
    """
    if isinstance(data, DatabaseTable) and group is not None:
        data.check_apart("group", group)
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
    """Return the argument of `fit` for the column of a role."""
    if role.startswith("label"):
        return "target"
    if role.startswith("base_"):
        return "base_margin"
    return {"upper": "label_upper_bound", "qid": "group"}.get(role, role)


def numbers_of_leaves(features: Sequence[Feature]) -> dict[str, str]:
    """Return the columns that linear leaves may read, by their role in a `LinearEngine`."""
    return {linear_role(number): each.name for number, each in enumerate(features) if may_have_slope(each)}


def pick_features(
    source: Source, features: Any, roles: Mapping[str, str], valid: object = None, exclude: Any = None
) -> tuple[Feature, ...]:
    """Return the features, by default every column without a role, except the one that marks held-out rows.

    Raises
    ------
    DataError
        If a column does not exist, has an unsupported type, or no feature is left.
    ParameterError
        If a column is named twice, or has another role.
    """
    role_of = {column: role for role, column in reversed(list(roles.items()))}
    marks = {valid} if isinstance(valid, str) else set()
    chosen = chosen_names(source, features, exclude, {*role_of, *marks})
    times = Counter(chosen)
    for name in chosen:
        if times[name] > 1:
            raise ParameterError(f"feature {shown(name)} is listed {times[name]} times")
        if name in role_of:
            raise ParameterError(f"feature {shown(name)} is also the {argument_of(role_of[name])}")
        if name in marks:
            raise ParameterError(f"feature {shown(name)} is also the column of held-out rows")
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


def as_categories(features: Sequence[Feature], names: Collection[str]) -> tuple[Feature, ...]:
    """Return the features with some converted to categories; Booleans stay, as they have only two."""
    return tuple(
        replace(each, type=each.type.as_category) if each.name in names and each.type.family != "boolean" else each
        for each in features
    )


def check_upper_bound(loss: Loss, roles: Mapping[str, str]) -> None:
    """Raise `ParameterError` if a loss for censored times lacks the column of upper bounds, or another loss has one."""
    if "upper" in roles and "upper" not in loss.roles:
        raise ParameterError(f"label_upper_bound is for objective 'survival:aft', not for {shown(loss.name)}")
    if "upper" in loss.roles and "upper" not in roles:
        raise ParameterError(
            f"objective {shown(loss.name)} needs label_upper_bound, the column of upper bounds of the times: the "
            "target where it is known, NULL where it is right-censored"
        )


def check_rows(
    rows: Rows, loss: Loss, roles: Mapping[str, str], names: Sequence[str | bool] = ()
) -> tuple[float, float]:
    """Return the smallest and the largest label; raise `DataError` for labels or weights that can't be trained on.

    Constant labels raise a warning. ``names`` are the class labels, for messages. For several targets the range is that
    of the last.
    """
    summary = _checked_summary(rows, loss, roles, "the data", least=2)
    for label in loss.labels:
        lowest, highest = summary[f"{label}_lowest_counted"], summary[f"{label}_highest_counted"]
        if lowest == highest and "upper" not in roles:
            everywhere = summary[f"{label}_lowest"] == summary[f"{label}_highest"]
            where = "" if everywhere else f" wherever weight {shown(roles.get('weight'))} is not 0"
            value = shown(names[int(lowest)]) if names else f"{lowest:g}"
            always = "" if loss.classes == 1 and not names else f" (always {value})"  # the label is known to the caller
            warn(f"target {shown(roles[label])} is constant{always}{where}, so there is nothing to learn")
    return summary[f"{label}_lowest"], summary[f"{label}_highest"]


def check_held_out(rows: Rows, loss: Loss, roles: Mapping[str, str], name: str) -> None:
    """Raise `DataError` if rows can't be evaluated on."""
    what = "the data" if name == "data" else f"{shown(name)}, the held-out data,"
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
    """Return the end of a message with the files or frames of the wrong rows, if the data has several."""

    def is_wrong(results: Mapping[str, float | None], n_rows: int) -> bool:
        try:
            _check_summary({name: value or 0.0 for name, value in results.items()}, n_rows, loss, roles)
        except DataError:
            return True
        return False

    names = parts_where(rows, aggregates, is_wrong)
    return f" (in {', '.join(names[:3])}{f' and {len(names) - 3} more' if names[3:] else ''})" if names else ""


def _check_summary(summary: dict[str, float], n_rows: int, loss: Loss, roles: Mapping[str, str]) -> None:
    """Raise `DataError` if a label, a weight or a margin can't be trained on."""
    for label in loss.labels:
        _check_labels(loss, label, roles[label], summary, n_rows)
    if "weight" in roles:
        missing = int(summary["missing_weights"])
        check_weights(roles["weight"], missing, summary["lightest"], summary["heaviest"], n_rows)
    for role, column in roles.items():
        if wrong := summary.get(f"missing_{role}"):
            offset = Offset("exposure" if role == EXPOSURE else "base_margin", (column,))
            raise DataError(offset.message(column, int(wrong), n_rows))


def missing_labels(target: str, missing: int, n_rows: int) -> DataError:
    """Return the error about rows without a label."""
    if missing == n_rows:
        return DataError(f"target {shown(target)} has no label in any row")
    return DataError(f"target {shown(target)} is NULL or NaN in {missing:,} of {n_rows:,} rows; drop those rows first")


def _check_labels(loss: Loss, label: str, target: str, summary: dict[str, float], n_rows: int) -> None:
    lowest, highest = summary[f"{label}_lowest"], summary[f"{label}_highest"]
    if missing := int(summary[f"{label}_missing"]):
        raise missing_labels(target, missing, n_rows)
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
    """Return the end of the message about labels that do not fit a loss: what to change."""
    if loss.family == "binary" and lowest >= 0 and highest <= 1:
        return "; 'reg:logistic' takes shares from 0 to 1"
    if loss.family == "binary":
        return "; use 0 and 1 instead of other numbers, or strings"
    return "; number them from 0, or use strings as labels" if loss.family == "multi" else ""


def count_violations(rows: Rows, condition: Expression) -> int:
    """Return the number of rows where the condition is not true."""
    return int(rows.aggregate({"wrong": Aggregate("sum", _is_violated(condition))})["wrong"] or 0)


@cache
def _violating(condition: Expression, label: str) -> Expression:
    columns = tuple(dict.fromkeys((*condition.columns, label)))
    return Expression(f"CASE WHEN ({_is_violated(condition).text}) = 1 THEN {label} END", columns)


@cache
def _is_violated(condition: Expression) -> Expression:
    return Expression(f"CASE WHEN {condition.text} THEN 0 ELSE 1 END", condition.columns)


def check_weights(weight: str, missing: int, lightest: float, heaviest: float, n_rows: int) -> None:
    """Raise `DataError` for weights that can't be trained on; ``missing`` is the number of missing ones."""
    if missing:
        raise DataError(
            f"weight {shown(weight)} is NULL or NaN in {missing:,} of {n_rows:,} rows; set a weight in every row"
        )
    if lightest < 0:
        raise DataError(f"weight {shown(weight)} holds negative values (down to {lightest:g}); weights are 0 or more")
    if math.isinf(heaviest):
        raise DataError(f"weight {shown(weight)} holds an infinite value; every weight must be finite")
    if heaviest > _LARGEST:
        raise DataError(f"weight {shown(weight)} holds values beyond {_LARGEST:g}; rescale it")


def check_heaviest(weight: str, heaviest: float, where: str = "") -> None:
    """Raise `DataError` if all weights are 0, or their sum is too small to divide by."""
    if heaviest == 0:
        raise DataError(f"weight {shown(weight)} is 0 in every row{where}; at least one must be positive")
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
        If the column does not exist, or its type is not comparable.
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
            f"group column {shown(group)} has type {source.type_names()[group]}, which can't identify queries; "
            "convert it to an integer or a string"
        )
    return {**roles, "qid": group}


def check_queries(
    rows: Rows, loss: Loss, metrics: Sequence[AnyMetric], roles: Mapping[str, str], *, exponential: bool
) -> None:
    """Raise an error if queries are missing, or labels or weights are unfit for ranking.

    ``exponential`` is ``ndcg_exp_gain``, which limits the range of labels.
    """
    ranking = [metric for metric in metrics if isinstance(metric, Metric) and is_ranking(metric)]
    if "qid" not in roles:
        if "qid" in loss.roles or ranking:
            needs = f"objective {shown(loss.name)}" if "qid" in loss.roles else f"eval_metric {shown(ranking[0].name)}"
            raise ParameterError(f"{needs} needs group, the column of query ids")
        return
    if "qid" not in loss.roles and not ranking:
        raise ParameterError(
            "group is for the rank:* objectives and for the metrics ndcg, map and pre; objective "
            f"{shown(loss.name)} does not use it"
        )
    _check_rows_of_queries(rows, roles)
    for metric in ranking:
        words, condition = label_check("ndcg" if base_name(metric) == "ndcg" else "map", exponential=exponential)
        if condition != loss.label_condition:  # that of the loss has been checked
            _check_ranking_labels(rows, metric, roles["label"], words, condition)


def _check_rows_of_queries(rows: Rows, roles: Mapping[str, str]) -> None:
    if n_missing := count_violations(rows, Expression("qid IS NOT NULL", ("qid",))):
        raise DataError(
            f"group {shown(roles['qid'])} is NULL or NaN in {n_missing:,} of {rows.n_rows:,} rows; set a query "
            "in every row"
        )
    if "weight" not in roles:
        return
    weight = Expression("weight", ("weight",))
    rows.add_columns({"lightest": QueryWindow("min", weight), "heaviest": QueryWindow("max", weight)})
    spread = Expression("heaviest - lightest", ("heaviest", "lightest"))
    if rows.aggregate({"spread": Aggregate("max", spread)})["spread"]:
        raise DataError(
            f"weight {shown(roles['weight'])} differs between rows of one query; in ranking weights are per query, so "
            f"all rows of a query of {shown(roles['qid'])} must have the same"
        )


def _check_ranking_labels(rows: Rows, metric: Metric, target: str, words: str, condition: Expression) -> None:
    if n_wrong := count_violations(rows, condition):
        raise DataError(
            f"target {shown(target)} holds other values than {words} in {n_wrong:,} of {rows.n_rows:,} rows; "
            f"eval_metric {shown(metric.name)} needs those"
        )


# --- labels of classes ------------------------------------------------------------------------------------------------


_REGRESSION, _BINARY, _MULTICLASS = "reg:squarederror", "binary:logistic", "multi:softprob"
_OF_CLASSES = ("binary", "multi")
_MAX_LABELS = 10_000  # as many as `num_class` may be
SourceType = TypeVar("SourceType", bound=Source)


@dataclass(frozen=True)
class TrainingTarget:
    """The objective for a target column, and the rows with numeric labels.

    Attributes
    ----------
    source, held_out
        The training rows and the held-out rows.
    objective
        The user's objective, or the default for the target's type.
    num_class
        The user's number of classes, or the number of labels, if the objective needs it.
    labels
        The labels of the model.
    """

    source: Source
    held_out: dict[str, HeldOut]
    objective: str | Objective
    num_class: int | None
    labels: Labels


def read_target(
    data: Source, source: Source, held_out: Mapping[str, HeldOut], target: str | Sequence[str],
    objective: str | Objective | None, num_class: int | None, initial: Ensemble | None = None,
    positive: str | None = None,
) -> TrainingTarget:  # fmt: skip
    """Return the target with the default objective of its type: classification or regression.

    Parameters
    ----------
    data
        The training rows with those that were split off, whose labels are known too.
    objective, num_class
        The user's, or None for the defaults.
    initial
        The ensemble to continue from; the target must have its labels.
    positive
        The positive class of two labels; by default the second.

    Raises
    ------
    ParameterError
        If the objective, the number of classes or the positive class does not fit the labels.
    DataError
        If the target has no labels, or held-out rows have labels that are unknown from training or from the model.
    """
    names = [target] if isinstance(target, str) else list(target)
    if len(names) == 1 and _family(source, names[0]) == "string":
        return _of_strings(data, source, held_out, names[0], objective, num_class, initial, positive)
    if positive is not None:
        _refuse_positive(source, names, positive)
    for name in names:
        if _family(source, name) == "string":
            raise DataError(
                f"target column {shown(name)} has type {source.type_names()[name]}; several targets must be numeric or "
                "Boolean; train a separate model for a column of labels"
            )
    booleans = [name for name in names if _family(source, name) == "boolean"]
    if objective is None and booleans and len(booleans) < len(names):
        other = next(name for name in names if name not in booleans)
        raise ParameterError(
            f"target {shown(booleans[0])} is Boolean and {shown(other)} is not; set the objective of both, such as "
            f"objective={shown(_REGRESSION)}"
        )
    by_default = _BINARY if booleans else _REGRESSION
    chosen: str | Objective = by_default if objective is None else objective
    labels: Labels = (False, True) if len(booleans) == len(names) and _is_of_classes(chosen) else ()
    if initial is not None:
        check_known(initial.labels, source, names)
        labels = initial.labels
    if labels and num_class not in (None, 2):
        labels = ()
    return TrainingTarget(source, dict(held_out), chosen, num_class, labels)


def _of_strings(
    data: Source, source: Source, held_out: Mapping[str, HeldOut], target: str, objective: str | Objective | None,
    num_class: int | None, initial: Ensemble | None, positive: str | None,
) -> TrainingTarget:  # fmt: skip
    if objective is not None and not _is_of_classes(objective):
        of_classes = f"omit objective, set {shown(_BINARY)} or {shown(_MULTICLASS)}"
        if isinstance(objective, Objective):
            of_classes = "set its link, 'logit' or 'softmax'"
        raise ParameterError(
            f"objective {shown(name_of_objective(objective))} needs numbers, but target {shown(target)} has type "
            f"{source.type_names()[target]}, whose values are labels of classes; {of_classes}, or convert the column "
            "to numbers"
        )
    labels = data.labels(target, _MAX_LABELS + 1)
    if not labels and not _has_rows(source):  # columns of a text file that has only a header are strings
        raise DataError("the data has no rows; training needs at least 2")
    _check_count(labels, target)
    if initial is not None:
        _check_same(initial.labels, labels, target, "init_model")
        labels = [str(label) for label in initial.labels]
    chosen = objective or (_BINARY if len(labels) == 2 and num_class is None else _MULTICLASS)
    if len(labels) == 1 and family_of(chosen) == "binary":
        chosen = _MULTICLASS  # as the second label is not known; `check_rows` warns
    if family_of(chosen) == "binary" and len(labels) > 2:
        raise ParameterError(
            f"objective {shown(name_of_objective(chosen))} is for two classes; target {shown(target)} has "
            f"{len(labels):,}: {listed(labels, 4)}; omit objective, or set {shown(_MULTICLASS)}"
        )
    if positive is not None:
        labels = _with_positive_last(labels, positive, target, chosen, initial)
    if num_class not in (None, len(labels)):
        raise ParameterError(f"num_class is {num_class}, but target {shown(target)} has {len(labels):,} labels")
    for name, part in held_out.items():
        if target in part.source.types():
            _check_held_out(part.source, target, labels, name)
    encoded = {
        name: HeldOut(part.source.with_codes(target, labels) if target in part.source.types() else part.source)
        for name, part in held_out.items()
    }
    n_classes = len(labels) if family_of(chosen) == "multi" else num_class
    return TrainingTarget(source.with_codes(target, labels), encoded, chosen, n_classes, tuple(labels))


def hint_of_classes(source: Source, targets: Sequence[str]) -> str:
    """Hint that an integer target of 0 and 1 may be two classes."""
    kind = source.types().get(targets[0]) if len(targets) == 1 else None
    if kind is None or not kind.is_integer:
        return ""
    return f"target {shown(targets[0])} is 0 or 1: objective={shown(_BINARY)} would predict the probability of 1"


def labelled_columns(ensemble: Ensemble, target: str | Sequence[str]) -> list[Feature]:
    """Return the columns that a model reads, and a string target, which may have another type in text files."""
    is_text = isinstance(target, str) and _are_strings(ensemble.labels)
    return [*ensemble.read_features, *([Feature(str(target), FeatureType("string"))] if is_text else [])]


def with_label_codes(source: SourceType, target: str | Sequence[str], labels: Labels) -> SourceType:
    """Return labelled rows for a trained model, with strings in the target replaced by class indices.

    Raises
    ------
    DataError
        If a label is unknown to the model, or the target is numeric but the model has labels.
    """
    names = [target] if isinstance(target, str) else list(target)
    check_known(labels, source, names)
    for name in names:
        if _family(source, name) == "string" and not _are_strings(labels):
            check_numeric(source, name, "target column")  # raises
    if len(names) > 1 or _family(source, names[0]) != "string":
        return source
    _check_same(labels, source.labels(names[0], _MAX_LABELS + 1), names[0], "the model")
    return source.with_codes(names[0], [str(label) for label in labels])  # type: ignore[return-value]


def check_known(labels: Labels, source: Source, target: Sequence[str]) -> None:
    """Raise `DataError` if a model has labels and the target is numeric, as numbers are ambiguous."""
    family = _family(source, target[0])
    if _are_strings(labels) and family is not None and family != "string":
        raise DataError(
            f"target {shown(target[0])} has type {source.type_names()[target[0]]}, but the model's classes are labels: "
            f"{listed(labels)}"
        )


# --- checks of labels -------------------------------------------------------------------------------------------------


def _family(source: Source, name: object) -> str | None:
    kind = source.types().get(name) if isinstance(name, str) else None
    return None if kind is None else kind.family


def _is_of_classes(objective: str | Objective) -> bool:
    return family_of(objective) in _OF_CLASSES


def _are_strings(labels: Labels) -> bool:
    return any(isinstance(label, str) for label in labels)


def _has_rows(source: Source) -> bool:
    if isinstance(source, FrameSource):
        return not source.frame.head(1).collect().is_empty()
    return not isinstance(source, RelationSource) or bool(source.relation.limit(1).fetchall())


def _check_count(labels: Sequence[str], target: str) -> None:
    if not labels:
        raise DataError(f"target {shown(target)} has no label in any row")
    if len(labels) > _MAX_LABELS:
        raise DataError(
            f"target {shown(target)} has more than {_MAX_LABELS:,} labels, which are too many classes; is it the "
            "column to predict?"
        )


def _with_positive_last(
    labels: list[str], positive: str, target: str, objective: str | Objective, initial: Ensemble | None
) -> list[str]:
    """Return two labels, the positive one second.

    >>> _with_positive_last(["no", "yes"], "no", "bought", "binary:logistic", None)
    ['yes', 'no']
    """
    if positive not in labels:
        raise ParameterError(
            f"positive={shown(positive)} is not a label of target {shown(target)}, which has {listed(labels, 4)}"
            f"{did_you_mean(positive, labels)}"
        )
    if len(labels) == 1:
        return labels
    if family_of(objective) != "binary":
        raise ParameterError(
            f"positive={shown(positive)} is for two classes and an objective such as {shown(_BINARY)}; with "
            f"{shown(name_of_objective(objective))} each of the {len(labels):,} labels has a probability"
        )
    if initial is not None and positive != labels[1]:
        raise ParameterError(
            f"positive={shown(positive)} can't be combined with init_model, whose positive class is {shown(labels[1])}"
        )
    return [label for label in labels if label != positive] + [positive]


def _refuse_positive(source: Source, target: Sequence[str], positive: str) -> None:
    """Raise `ParameterError`: the positive class of Booleans is True, that of numbers 1."""
    kind = source.type_names().get(target[0])
    if len(target) > 1 or kind is None:  # which is refused later if it is not there
        raise ParameterError(f"positive={shown(positive)} is for one target of strings")
    raise ParameterError(
        f"positive={shown(positive)} is for a target of strings, and {shown(target[0])} has type {kind}, of which "
        f"{'true' if _family(source, target[0]) == 'boolean' else '1'} is the positive class"
    )


def _check_same(known: Labels, labels: Sequence[str], target: str, model: str) -> None:
    if not _are_strings(known):
        raise DataError(
            f"target {shown(target)} has labels such as {shown(labels[0])}, but {model} has numbered classes; "
            "number the labels in the same way"
        )
    if unknown := [label for label in labels if label not in known]:
        raise DataError(
            f"target {shown(target)} has the label {shown(unknown[0])}, which {model} does not know; its classes are "
            f"{listed(known)}"
        )


def _check_held_out(source: Source, target: str, labels: Sequence[str], name: str) -> None:
    if _family(source, target) != "string":
        raise DataError(
            f"target {shown(target)} has type {source.type_names()[target]} in {shown(name)}, the held-out data, "
            "but labels in training; cast it to the same type"
        )
    if unknown := [label for label in source.labels(target, _MAX_LABELS + 1) if label not in labels]:
        raise DataError(
            f"target {shown(target)} has the label {shown(unknown[0])} in {shown(name)}, the held-out data, "
            f"which is unknown from training; labels there are {listed(labels)}"
        )


# --- warnings after the last round ------------------------------------------------------------------------------------


# Losses whose steps do not grow with the distance from the label.
_SLOW = ("reg:squaredlogerror", "reg:pseudohubererror")
# How far ln(prediction + 1) is from ln(label + 1) on average where the prediction is out by a factor of seven.
_FAR_IN_LOGARITHMS = 2.0


def check_result(
    rows: Rows, loss: Loss, parameters: Parameters, trees: Sequence[Tree], bins: Sequence[Bins],
    min_gains: Sequence[float],
) -> None:  # fmt: skip
    """Warn about trees without splits, all or those of a target, and about predictions far from the labels.

    Parameters
    ----------
    rows, loss, parameters
        The fit, after its last round.
    trees
        The trees of the model.
    bins
        The bins of the features.
    min_gains
        The minimum gain of a split, for each output.
    """
    if loss.name in _SLOW and not loss.fitted and parameters.base_score is None and _any_is_far(rows, loss):
        return
    columns = TreeColumns.of(trees)
    is_leaf = columns.nodes["feature"] == LEAF
    if is_leaf.all():
        if _is_constant(rows, loss, loss.labels):  # warned of before training
            return
        heaviest = float(columns.nodes["cover"][columns.roots].max())
        why = (
            _without_hessian(rows, loss)
            if heaviest == 0.0
            else _without_gain(parameters, bins, max(min_gains), heaviest, rows.n_rows)
        )
        warn(f"no tree has a split, so all rows have the same prediction: {why}")
    elif len(loss.labels) > 1:
        for output, label in enumerate(loss.labels):
            roots = columns.roots[columns.output == output]
            if is_leaf[roots].all() and not _is_constant(rows, loss, [label]):
                heaviest = float(columns.nodes["cover"][roots].max())
                why = _without_gain(parameters, bins, min_gains[output], heaviest, rows.n_rows)
                warn(f"no tree of target {output + 1} has a split, so all rows have the same prediction of it: {why}")


def _is_constant(rows: Rows, loss: Loss, labels: Sequence[str]) -> bool:
    """Whether all labels with positive weight are equal."""
    ends: dict[str, Aggregate] = {}
    for name in labels:
        counted = Expression(f"CASE WHEN weight > 0 THEN {name} END", (name, "weight"))
        ends |= {f"{function}_{name}": Aggregate(function, counted) for function in ("min", "max")}
    results = rows.aggregate(ends)
    return "upper" not in loss.roles and all(results[f"min_{name}"] == results[f"max_{name}"] for name in labels)


def _without_hessian(rows: Rows, loss: Loss) -> str:
    """Return the reason for all gradients being 0."""
    if "qid" in loss.roles:
        return "no query has two rows with different labels, so there are no pairs to rank"
    if loss.name == "survival:cox":
        last = rows.aggregate({"last": Aggregate("max", Expression("label", ("label",)))})["last"]
        if last is not None and last <= 0:
            return "every row of the target is censored, as negative times say"
    return "the hessians of all rows are 0"


def _without_gain(p: Parameters, bins: Sequence[Bins], min_gain: float, heaviest: float, n_rows: int) -> str:
    """Return the reason for a fit without splits; ``heaviest`` is the largest sum of hessians of a tree."""
    if heaviest < 2 * p.min_child_weight:
        return (
            f"the hessians of all rows (their weights, with squared error) sum to {heaviest:.3g}, and min_child_weight="
            f"{p.min_child_weight:g} requires as much in each child of a split; set a smaller one, or larger weights"
        )
    if n_rows < 2 * p.min_child_samples:
        return (
            f"there are {n_rows} rows, and min_child_samples={p.min_child_samples} asks for as many on each side of a "
            "split; set a smaller one"
        )
    if math.isinf(min_gain):
        return "the squares of gradients and weights are too small for float64; scale the target up"
    if p.tree_method == "hist" and all(each.count + each.has_missing < 2 for each in bins):
        return "no feature has two values"
    bound = f"gamma={p.gamma:g}" if p.gamma > min_gain else f"{min_gain:.3g}"
    penalty = f" with reg_lambda={p.reg_lambda:g}, which is more than the rows weigh ({heaviest:.3g})"
    within = " within the constraints" if p.monotone_constraints or p.interaction_constraints else ""
    return f"no split{within} gains more than {bound}{penalty if p.reg_lambda > heaviest else ''}"


def _any_is_far(rows: Rows, loss: Loss) -> bool:
    by_target = [_is_far(rows, loss.name, *names) for names in zip(loss.labels, loss.margins, strict=True)]
    return any(by_target)


def _is_far(rows: Rows, objective: str, label: str, margin: str) -> bool:
    """Warn if the mean prediction is outside the range of labels, or off by a factor; return whether it is."""
    of_label = Expression(label, (label,))
    ends = rows.aggregate({"low": Aggregate("min", of_label), "high": Aggregate("max", of_label)})
    logarithm = "LN(GREATEST({}, -1 + 1e-6) + 1)"
    distance = Expression(f"{logarithm.format(margin)} - {logarithm.format(label)}", (margin, label))
    terms = {"prediction": Expression(margin, (margin,)), "label": of_label}
    terms |= {"distance": distance} if objective == "reg:squaredlogerror" else {}
    one = Expression("1", ())
    sums = exact_sum(rows, {name: weighted(term) for name, term in {**terms, "weight": one}.items()})
    mean = {name: sums[name] / sums["weight"] for name in terms}
    low, high = ends["low"] or 0.0, ends["high"] or 0.0
    if low <= mean["prediction"] <= high and abs(mean.get("distance", 0.0)) < _FAR_IN_LOGARITHMS:
        return False
    slope = "" if objective == "reg:squaredlogerror" else " and a huber_slope as large as usual errors"
    predicted, known = f"{mean['prediction']:.6g}", f"{mean['label']:.6g}"
    warn(
        f"the mean prediction of the training rows is {predicted}, of the labels {known}: with objective "
        f"{shown(objective)} steps are short where labels are large; set base_score={mean['label']:.3g}{slope}, or "
        "train on smaller labels"
    )
    return True
