"""A metric as one SQL aggregate over labels, weights and predictions, which an engine evaluates where its rows are."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, cast

from frameboost.checks.arguments import flag, is_iterable
from frameboost.checks.messages import advice, did_you_mean, listed, shown
from frameboost.engines.contract import ArrayRows, Cumulative, QueryWindow, Rows
from frameboost.errors import ParameterError
from frameboost.expressions.expression import Expression, value_of
from frameboost.expressions.grid import Aggregate, Scalar, exact_sum, grid_offset, rounded
from frameboost.losses.built_in import DEFAULT_TRUNCATION, aft_terms, discount, ideal_terms, log_gamma
from frameboost.losses.functions import may_be_called
from frameboost.losses.loss import (
    ArrayFunction,
    Loss,
    OverQuery,
    RankingPairs,
    Ratio,
    RunningSum,
    Term,
    prediction_names,
)
from frameboost.metrics.functions import FunctionMetric, function_metric, is_score_of_sklearn, scorer_of
from frameboost.parameters.parameters import Parameters

__all__ = [
    "METRICS",
    "OTHER_NAMES",
    "RANKING_METRICS",
    "AnyMetric",
    "CurveMetric",
    "FunctionMetric",
    "Metric",
    "as_function",
    "base_name",
    "define_predictions",
    "define_terms",
    "evaluate",
    "evaluation_metrics",
    "get_metrics",
    "is_of_queries",
    "is_ranking",
    "larger_is_better",
    "metrics_of",
    "r_squared",
    "ranking_metric",
    "title_of",
    "why_not_finite",
]


@dataclass(frozen=True)
class Metric:
    """A metric of predictions against labels, written as one SQL aggregate or as a function.

    Parameters
    ----------
    name
        The name in `Model.history` and in messages.
    sql
        The aggregate: ``SUM``, ``AVG``, ``MIN``, ``MAX`` and ``COUNT(*)`` of scalar expressions over ``label``,
        ``weight``, ``margin`` and ``prediction`` (with several outputs ``prediction_0``, ``prediction_1``, ...), and
        arithmetic over them. Or a function over arrays, ``f(label, prediction)`` or ``f(label, prediction, weight)``,
        that returns a number; databases can't evaluate it.
    maximize
        Whether larger values are better.

    Raises
    ------
    ParameterError
        If ``sql`` is not such an aggregate.

    Examples
    --------
    >>> import polars as pl, frameboost as fb
    >>> late = fb.Metric("share more than 2 off", "AVG(CASE WHEN ABS(label - prediction) > 2 THEN 1 ELSE 0 END)")
    >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
    >>> fb.fit(df, "y", n_estimators=3, learning_rate=0.5, reg_lambda=0, eval_metric=late).history.rows()
    [(1, 0.0), (2, 0.0), (3, 0.0)]
    """

    name: str
    sql: str | Callable[..., Any]
    maximize: bool = False
    columns: tuple[str, ...] = field(default=(), repr=False)
    terms: Mapping[str, Term] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ParameterError(f"a metric's name must be a string, not {shown(self.name)}")
        flag("maximize", self.maximize)
        if not isinstance(self.columns, tuple | list) or not all(isinstance(name, str) for name in self.columns):
            raise ParameterError(f"columns must be a list of names, not {shown(self.columns)}")
        if not isinstance(self.terms, Mapping):
            raise ParameterError(f"terms must be a dict of terms by name, not {shown(self.terms)}")
        if not isinstance(self.sql, str):
            if may_be_called(self.sql):
                return
            raise ParameterError(f"a metric's sql must be a string or a function, not {shown(self.sql)}")
        self._split  # noqa: B018  # raises if it is no aggregate
        if self.columns:
            self.parts  # noqa: B018  # raises if a name is unknown

    def over(self, columns: tuple[str, ...]) -> Metric:
        """Return the metric over columns of these names; any other name is an error."""
        return Metric(self.name, self.sql, self.maximize, columns, self.terms)

    @cached_property
    def _split(self) -> tuple[dict[str, tuple[str, str]], Expression]:
        """The aggregates by generated names, each a function and its argument, and the arithmetic over them."""
        from frameboost.expressions.expression import split_aggregates

        assert isinstance(self.sql, str)
        aggregates, outer = split_aggregates(self.sql)
        try:
            whole = Expression(outer, tuple(aggregates))
        except ParameterError as error:
            raise ParameterError(
                f"the metric {shown(self.sql)} is more than arithmetic over SUM, AVG, MIN, MAX and COUNT(*) over all "
                "rows"
            ) from error
        if whole.is_condition:
            raise ParameterError(f"metric {shown(self.name)}, {shown(self.sql)}, is true or false, not a number")
        return aggregates, whole

    @cached_property
    def parts(self) -> tuple[dict[str, tuple[str, Expression]], Expression]:
        """The result of `_split` with parsed arguments, and with a count beside each average."""
        aggregates, outer = self._split
        inside = f"in metric {shown(self.name)}, what is aggregated,"
        parts = {
            name: (function, Expression(text, self.columns).required_number(inside))
            for name, (function, text) in aggregates.items()
        }
        for name, (function, text) in aggregates.items():
            if function == "avg":  # of the values that there are, as in SQL
                present = Expression(f"CASE WHEN ({text}) IS NULL THEN 0 ELSE 1 END", self.columns)
                parts[f"{name}_count"] = ("sum", present)
        return parts, outer

    def evaluate(self, rows: Rows) -> float:
        """Return the metric over the rows at their current margins; its sums are exact."""
        aggregates, outer = self.parts
        plain = {n: Aggregate(f, e) for n, (f, e) in aggregates.items() if f in ("min", "max")}
        sums = {n: e for n, (f, e) in aggregates.items() if f in ("sum", "avg")}
        values = {n: v if v is not None else math.nan for n, v in rows.aggregate(plain).items()} if plain else {}
        values |= exact_sum(rows, sums) if sums else {}
        for name, (function, _) in aggregates.items():
            if function == "count":
                values[name] = float(rows.n_rows)
            elif function == "avg":
                values[name] = values[name] / values[f"{name}_count"] if values[f"{name}_count"] else math.nan
        value = value_of(outer, values)
        return math.nan if value is None else value  # as of a CASE without ELSE


@dataclass(frozen=True)
class CurveMetric:
    """The area under a curve over the rows in descending order of scores; for several classes or targets the mean.

    ``by_share`` weights classes by their numbers of rows, otherwise equally.
    """

    name: str
    area: Expression
    total: Expression
    scores: tuple[tuple[Expression, Expression, Expression], ...]
    maximize: bool = True
    terms: Mapping[str, Term] = field(default_factory=dict)
    by_share: bool = True

    def evaluate(self, rows: Rows) -> float:
        """Return the mean of the areas."""
        weighted_sum, weights = 0.0, 0.0
        for score, positive, negative in self.scores:
            sides = rounded(rows, {"positive": positive, "negative": negative})
            sums = rows.aggregate({name: Aggregate("sum", side) for name, side in sides.items()})
            totals = {f"{name}_total": value or 0.0 for name, value in sums.items()}
            by_score = rows.by_score(score, sides["positive"], sides["negative"])
            area = exact_sum(by_score, {"area": self.area})["area"]
            share = totals["positive_total"] if self.by_share and len(self.scores) > 1 else 1.0
            weighted_sum += share * area / (value_of(self.total, totals) or math.nan)
            weights += share
        return weighted_sum / weights


# --- the rows of an engine: terms as columns, and a metric's value ----------------------------------------------------

# What is summed is put on a grid first, so that the sums are exact.


def define_terms(rows: Rows, terms: Mapping[str, Term]) -> None:
    """Define the terms over the rows at their current margins, on which the grid of a running sum depends."""
    for name, term in terms.items():
        match term:
            case RunningSum():
                value = rounded(rows, {name: term.value})[name]
                rows.add_columns({name: Cumulative(value, term.order, descending=term.descending)})
            case OverQuery():
                rows.add_columns({name: _window(rows, term)})
            case Ratio():
                sums = exact_sum(rows, {"numerator": term.numerator, "denominator": term.denominator})
                rows.add_columns({name: Expression(repr(sums["numerator"] / sums["denominator"]), ())})
            case RankingPairs():
                rows.sum_pairs(term, _pair_offset(rows, term))
            case ArrayFunction():
                over_arrays = cast("ArrayRows", rows)  # as `EngineDescription.has_arrays` says
                read = {column: Expression(column, (column,)) for column in term.reads}
                over_arrays.store_arrays(term.function(over_arrays.computed(read)))
            case _:
                rows.add_columns({name: term})


def _window(rows: Rows, term: OverQuery) -> QueryWindow:
    value: Scalar = term.value
    if term.function in ("sum", "running") and not term.on_grid:
        value = rounded(rows, {"value": term.value})["value"]
    return QueryWindow(term.function, value, term.order)


def _pair_offset(rows: Rows, pairs: RankingPairs) -> float:
    """Return the grid on which sums over all pairs of a query are exact."""
    # The largest rank by label is that by margin, and the same in every round.
    rank = Expression("label_rank", ("label_rank",))
    last = rows.aggregate({"rank": Aggregate("max", rank)})["rank"] or 0.0
    largest = int(last) + 1
    return grid_offset(pairs.bound, 2 * largest * min(largest, pairs.truncation))


def define_predictions(rows: Rows, loss: Loss) -> None:
    """Define the predictions that metrics use: ``prediction``, or ``prediction_0`` and so on."""
    for stage in loss.link_terms:
        rows.add_columns(stage)
    links = loss.evaluated or loss.links
    rows.add_columns(dict(zip(prediction_names(len(links)), links, strict=True)))


def evaluate(metric: AnyMetric, rows: Rows) -> float:
    """Return the metric over the rows at their current margins."""
    define_terms(rows, metric.terms)
    return metric.evaluate(rows)


# --- the metrics by XGBoost's names -----------------------------------------------------------------------------------


AnyMetric = Metric | CurveMetric | FunctionMetric

# No function here may be NULL or is a power, which have no program (see `frameboost.engines.programs`).

_LOG_FACTORIAL = log_gamma("(label + 1)")
_LOG_LOSS = (
    "-(CASE WHEN label = 0 THEN 0 ELSE label * LN(GREATEST(prediction, 1e-16)) END"
    " + CASE WHEN label = 1 THEN 0 ELSE (1 - label) * LN(GREATEST(1 - prediction, 1e-16)) END)"
)


_Z = "((label - margin_0) * EXP(-margin_1))"
_LOG_Z = "((LN(label) - margin_0) * EXP(-margin_1))"
_HALF_LOG_2_PI = repr(math.log(2 * math.pi) / 2)
# name -> −ln of the density or of the probability of a row's label, over the terms of its loss.
_NEGATIVE_LOG_LIKELIHOODS = {
    "normal-nloglik": f"{_Z} * {_Z} / 2 + margin_1 + {_HALF_LOG_2_PI}",
    "lognormal-nloglik": f"{_LOG_Z} * {_LOG_Z} / 2 + margin_1 + LN(label) + {_HALF_LOG_2_PI}",
    "negbinomial-nloglik": (
        f"{log_gamma('shape')} + {_LOG_FACTORIAL} - {log_gamma('(label + shape)')} + shape * LN(1 + alpha * mean)"
        " - label * LN(alpha * mean / (1 + alpha * mean))"
    ),
}


def _mean(row: str) -> str:
    return f"SUM(weight * ({row})) / SUM(weight)"


# name -> the term that is averaged over rows, and the function of the mean; {at} is the number after @ in the name.
_OF_ONE_PREDICTION = {
    "rmse": ("(label - prediction) * (label - prediction)", "SQRT({mean})"),
    "rmsle": ("(LN(label + 1) - LN(prediction + 1)) * (LN(label + 1) - LN(prediction + 1))", "SQRT({mean})"),
    "mae": ("ABS(label - prediction)", "{mean}"),
    "l2": ("(label - prediction) * (label - prediction)", "{mean}"),
    "mape": ("ABS((label - prediction) / label)", "{mean}"),
    "mphe": (
        "{slope} * {slope} * (SQRT(1 + ((label - prediction) / {slope}) * ((label - prediction) / {slope})) - 1)",
        "{mean}",
    ),
    "huber": (
        "CASE WHEN ABS(label - prediction) <= {slope} THEN (label - prediction) * (label - prediction) / 2 "
        "ELSE {slope} * (ABS(label - prediction) - {slope} / 2) END",
        "{mean}",
    ),
    "fair": ("{c} * ABS(label - prediction) - {c} * {c} * LN(1 + ABS(label - prediction) / {c})", "{mean}"),
    "logloss": (_LOG_LOSS, "{mean}"),
    "error": ("CASE WHEN prediction > {at} THEN 1 - label ELSE label END", "{mean}"),
    "poisson-nloglik": (
        f"{_LOG_FACTORIAL} + GREATEST(prediction, 1e-16) - LN(GREATEST(prediction, 1e-16)) * label",
        "{mean}",
    ),
    "gamma-nloglik": ("label / GREATEST(prediction, 1e-6) + LN(GREATEST(prediction, 1e-6))", "{mean}"),
    "gamma-deviance": (
        "LN((prediction + 1e-6) / (label + 1e-6)) + (label + 1e-6) / (prediction + 1e-6) - 1",
        "2 * {mean}",
    ),
    "tweedie-nloglik": (
        "EXP((2 - {at}) * LN(prediction)) / (2 - {at}) - label * EXP((1 - {at}) * LN(prediction)) / (1 - {at})",
        "{mean}",
    ),
}


def _elementwise(name: str, at: float | None, loss: Loss, parameters: Mapping[str, Any]) -> Metric:
    row, of_mean = _OF_ONE_PREDICTION[name]
    slope, c = parameters["huber_slope"], parameters.get("fair_c", 1.0)  # files of older releases have none
    row = row.format(at=loss.threshold if at is None else at, slope=slope, c=c)
    if len(loss.labels) > 1:
        row = _mean_of(zip([row] * len(loss.labels), loss.labels, prediction_names(len(loss.labels)), strict=True))
    return Metric(_named(name, at), of_mean.format(mean=_mean(row)))


def _mean_of(rows: Iterable[tuple[str, str, str]]) -> str:
    """Return the mean of terms, each over its label and its prediction."""
    terms = [
        f"({Expression(row, ('label', 'prediction')).renamed({'label': label, 'prediction': prediction}).text})"
        for row, label, prediction in rows
    ]
    return f"({' + '.join(terms)}) / {len(terms)}" if len(terms) > 1 else terms[0]


# name -> the loss at a level α, {above}; {below} is 1 − α.
_OF_LEVELS = {
    "quantile": (
        "CASE WHEN label >= prediction THEN {above} * (label - prediction) ELSE {below} * (prediction - label) END"
    ),
    "expectile": (
        "CASE WHEN prediction >= label THEN {below} ELSE {above} END * (label - prediction) * (label - prediction)"
    ),
}


def _at_levels(name: str, at: float | None, loss: Loss, parameters: Mapping[str, Any]) -> Metric:
    objective, parameter = f"reg:{name}error", f"{name}_alpha"
    labels, predictions = loss.labels, prediction_names(len(loss.evaluated or loss.links))
    alphas = parameters[parameter]
    if loss.name == objective and loss.renewal:  # the parameters of an averaged model lack the alphas
        alphas = loss.renewal[: len(predictions) // len(labels)]
    if len(alphas) * len(labels) != len(predictions):
        raise ParameterError(
            f"eval_metric {shown(name)} of several {parameter} is for objective {shown(objective)}, which predicts "
            f"them, not for {shown(loss.name)}"
        )
    rows = [_OF_LEVELS[name].format(above=repr(alpha), below=repr(1 - alpha)) for alpha in alphas]
    return Metric(name, _mean(_mean_of(zip(rows * len(labels), labels * len(rows), predictions, strict=True))))


def _mlogloss(name: str, at: float | None, loss: Loss, parameters: Mapping[str, Any]) -> Metric:
    of_label = " ".join(f"WHEN label = {k} THEN {p}" for k, p in enumerate(prediction_names(loss.classes)))
    return Metric(name, _mean(f"-LN(GREATEST(CASE {of_label} ELSE 0 END, 1e-16))"))


def _merror(name: str, at: float | None, loss: Loss, parameters: Mapping[str, Any]) -> Metric:
    names = prediction_names(loss.classes)
    # A tie is predicted as the first class.
    classes = " ".join(f"WHEN {p} >= largest_prediction THEN {k}" for k, p in enumerate(names))
    largest = Expression(f"GREATEST({', '.join(names)})", names)
    return Metric(name, _mean(f"CASE WHEN label = CASE {classes} END THEN 0 ELSE 1 END"),
                  terms={"largest_prediction": largest})  # fmt: skip


_SIDES = tuple(f"{side}{part}" for side in ("positive", "negative") for part in ("", "_above", "_total"))
_ROC = "negative * (positive_above + positive / 2)"
_ROC_TOTAL = "positive_total * negative_total"
_BOTH_SIDES = "CASE WHEN positive_total > 0 AND negative_total > 0 THEN 1 ELSE 0 END"
# Between two points of the curve precision moves by (fp_prev + h (tp − tp_prev)) / tp (Davis & Goadrich 2006); with
# a = 1 + h and b = (fp_prev − h tp_prev) / positives, the area under it is this, in recall.
_A, _B = "(1 + negative / positive)", "((negative_above - negative / positive * positive_above) / positive_total)"
_RECALL, _BEFORE = "((positive_above + positive) / positive_total)", "(positive_above / positive_total)"
_PRECISION_RECALL = (
    "CASE WHEN positive = 0 THEN 0 "
    f"WHEN {_B} = 0 THEN ({_RECALL} - {_BEFORE}) / {_A} "
    f"ELSE ({_RECALL} - {_BEFORE} - {_B} / {_A} * (LN({_A} * {_RECALL} + {_B}) - LN({_A} * {_BEFORE} + {_B}))) / {_A} "
    "END"
)


def _curve(name: str, at: float | None, loss: Loss, parameters: Mapping[str, Any]) -> CurveMetric:
    names = prediction_names(loss.n_outputs)
    # Labels of classes may be shares, as in XGBoost; of other labels the positive ones are one class, as in LightGBM.
    are_shares, several = bool(loss.classes) or loss.name == "reg:logistic", len(loss.labels) > 1
    scores = []
    for k, score in enumerate(names):
        label = loss.labels[k] if several else "label"
        positive = label if are_shares else f"CASE WHEN {label} > 0 THEN 1 ELSE 0 END"
        if len(names) > 1 and not several:
            positive = f"CASE WHEN label = {k} THEN 1 ELSE 0 END"
        row = (score, label, "weight")
        scores.append(
            (Expression(score, row), Expression(f"weight * ({positive})", row),
             Expression(f"weight * (1 - ({positive}))", row))
        )  # fmt: skip
    area, total = (_ROC, _ROC_TOTAL) if name == "auc" else (_PRECISION_RECALL, _BOTH_SIDES)
    curve, whole = Expression(area, _SIDES), Expression(total, _SIDES)
    return CurveMetric(name, curve, whole, tuple(scores), by_share=name == "auc" and not several)


def _auc_mu(name: str, at: float | None, loss: Loss, parameters: Mapping[str, Any]) -> CurveMetric:
    """Return the mean area under the curve over pairs of classes, each ranked by the difference of its two margins.

    It is AUC μ (Kleiman & Page 2019, "AUCμ: a performance metric for multi-class machine learning models"), as in
    LightGBM.
    """
    pairs = combinations(enumerate(loss.margins), 2)
    scores = tuple((Expression(f"{a} - {b}", (a, b)), _weight_of(k), _weight_of(j)) for (k, a), (j, b) in pairs)
    return CurveMetric(name, Expression(_ROC, _SIDES), Expression(_ROC_TOTAL, _SIDES), scores, by_share=False)


def _weight_of(k: int) -> Expression:
    return Expression(f"CASE WHEN label = {k} THEN weight ELSE 0 END", ("label", "weight"))


def _cox(name: str, at: float | None, loss: Loss, parameters: Mapping[str, Any]) -> Metric:
    columns = ("label", "prediction")
    risk = RunningSum(Expression("prediction", columns), Expression("ABS(label)", columns), descending=True)
    events = "SUM(CASE WHEN label > 0 THEN 1 ELSE 0 END)"
    text = f"SUM(CASE WHEN label > 0 THEN LN(risk) - LN(prediction) ELSE 0 END) / {events}"
    return Metric(name, text, terms={"risk": risk})


def _aft(name: str, at: float | None, loss: Loss, parameters: Mapping[str, Any]) -> Metric:
    sigma = parameters["aft_loss_distribution_scale"]
    if name == "interval-regression-accuracy":
        inside = "EXP(margin) >= label AND (upper IS NULL OR EXP(margin) <= upper)"
        return Metric(name, _mean(f"CASE WHEN {inside} THEN 1 ELSE 0 END"), maximize=True)
    row = f"-LN(GREATEST(CASE WHEN label = upper THEN pdf_l / ({sigma!r} * label) ELSE mass END, 1e-12))"
    return Metric(name, _mean(row), terms=dict(aft_terms(parameters["aft_loss_distribution"], sigma)))


def _distribution(name: str, at: float | None, loss: Loss, parameters: Mapping[str, Any]) -> Metric:
    return Metric(name, _mean(_NEGATIVE_LOG_LIKELIHOODS[name]), terms=dict(loss.terms))


OTHER_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("mse", "mean_squared_error"), "l2"),
    **dict.fromkeys(("l1", "mean_absolute_error"), "mae"),
    **dict.fromkeys(("l2_root", "root_mean_squared_error"), "rmse"),
    "gamma": "gamma-nloglik",
    "binary_logloss": "logloss",
    "multi_logloss": "mlogloss",
    "binary_error": "error",
    "multi_error": "merror",
    "mean_average_precision": "map",
}
"""The metric here of each of LightGBM's."""

_ONE_PREDICTION = ("rmse", "mae")
METRICS: dict[str, Callable[[str, float | None, Loss, Mapping[str, Any]], Metric | CurveMetric]] = {
    **dict.fromkeys(_OF_ONE_PREDICTION, _elementwise),
    **dict.fromkeys(_OF_LEVELS, _at_levels),
    "mlogloss": _mlogloss,
    "merror": _merror,
    "auc": _curve,
    "aucpr": _curve,
    "auc_mu": _auc_mu,
    "cox-nloglik": _cox,
    "aft-nloglik": _aft,
    "interval-regression-accuracy": _aft,
    **dict.fromkeys(_NEGATIVE_LOG_LIKELIHOODS, _distribution),
}
_MAXIMISED = ("auc", "aucpr", "auc_mu", "map", "ndcg", "pre")
_TAKES_AT = ("error", "tweedie-nloglik")
_MULTICLASS = ("mlogloss", "merror", "auc_mu")
# name -> the only objective that it is for.
_OF_OBJECTIVE = {
    "cox-nloglik": "survival:cox",
    "aft-nloglik": "survival:aft",
    "interval-regression-accuracy": "survival:aft",
    **{name: f"dist:{name.removesuffix('-nloglik')}" for name in _NEGATIVE_LOG_LIKELIHOODS},
}


_WHY_NOT_FINITE = {
    "mape": "a label there is 0",
    "rmsle": "a label or a prediction there is -1 or less",
    "poisson-nloglik": "a label there is negative",
    "gamma-deviance": "a label or a prediction there is negative",
    "tweedie-nloglik": "a prediction there is 0 or less",
    "auc": "it needs rows of each class",
    "aucpr": "it needs rows of each class",
    "auc_mu": "it needs rows of each class",
    "cox-nloglik": "no row there has an event, which is a positive label",
}


def why_not_finite(name: str) -> str:
    """Return the end of a message that a metric is not finite: the cause, if it has exactly one.

    >>> why_not_finite("tweedie-nloglik@1.5"), why_not_finite("a user's own")
    (', as a prediction there is 0 or less', '')
    """
    cause = _WHY_NOT_FINITE.get(name.partition("@")[0])
    return "" if cause is None else f", as {cause}"


def larger_is_better(name: str, eval_metric: Any = None) -> bool:
    """Whether larger values of a metric are better; ``eval_metric`` is the user's."""
    for item in [] if eval_metric is None else metrics_of(eval_metric):
        metric = as_function(item) or item
        if isinstance(metric, Metric | FunctionMetric) and name in (metric.name, title_of(metric)):
            return metric.maximize
    if name in ("interval-regression-accuracy", "r2") or re.split("[@-]", name)[0] in _MAXIMISED:
        return True
    return not _is_ours(name) and is_score_of_sklearn(name)


def title_of(metric: AnyMetric) -> str:
    """Return the name of a metric in histories; a function may tell it only once called."""
    return metric.title if isinstance(metric, FunctionMetric) else metric.name


def get_metrics(eval_metric: Any, loss: Loss, parameters: Mapping[str, Any]) -> list[AnyMetric]:
    """Return the user's metrics, one or several, by name or as `Metric`; for None the default of the loss.

    Raises
    ------
    ParameterError
        If a metric is unknown, or does not fit the loss.
    """
    if eval_metric is None:
        eval_metric = loss.metric
    metrics = [_metric(item, loss, parameters) for item in metrics_of(eval_metric)]
    names = [metric.name for metric in metrics]
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(f"eval_metric has {shown(name)} {names.count(name)} times")
    return metrics


def evaluation_metrics(loss: Loss, parameters: Mapping[str, Any], wanted: Any) -> list[AnyMetric]:
    """Return the user's metrics, by default all that fit the loss, the loss's default first."""
    known = Parameters().as_dict() | {name: value for name, value in parameters.items() if value is not None}
    if loss.classes and loss.definition is not None:  # of another library: what its classes are scored by
        loss = replace(loss, name="multi:softprob" if loss.has_margin_of_each_class else "binary:logistic")
    if wanted is not None:
        return get_metrics(wanted, loss, known)
    if loss.has_margin_of_each_class:
        names: tuple[str, ...] = ("mlogloss", "merror", "auc", "aucpr")
    elif loss.classes:
        names = (*(["logloss"] if loss.has_probabilities else []), "error", "auc", "aucpr")
    elif "qid" in loss.roles:
        names = (loss.metric, "ndcg@5", "ndcg@10")
    elif loss.family == "survival":
        names = (loss.metric, *(["interval-regression-accuracy"] if "upper" in loss.roles else []))
    else:
        names = (loss.metric, *_ONE_PREDICTION)
    metrics: list[AnyMetric] = []
    for name in dict.fromkeys(names):
        try:
            metrics += get_metrics(name, loss, known)
        except ParameterError:  # which does not fit the loss, such as rmse of several quantiles
            continue
    return metrics


def r_squared() -> Metric:
    """Return the coefficient of determination: 1 − Σ w(y − p)² / Σ w(y − ȳ)²; None if all labels are equal."""
    columns = ("label", "weight", "prediction", "mean_label")
    wrong, spread = (f"SUM(weight * (label - {of}) * (label - {of}))" for of in ("prediction", "mean_label"))
    weight = Expression("weight", columns)
    mean: Term = Ratio(Expression("weight * label", columns), weight)
    text = f"CASE WHEN {spread} > 0 THEN 1 - {wrong} / {spread} END"
    return Metric("r2", text, maximize=True, columns=columns, terms={"mean_label": mean})


def metrics_of(eval_metric: Any) -> list[Any]:
    """Return the user's ``eval_metric``, one or several, as a list, by the names here.

    Raises
    ------
    ParameterError
        If there is none.
    """
    items = (
        [eval_metric]
        if isinstance(eval_metric, str | Metric) or may_be_called(eval_metric) or not is_iterable(eval_metric)
        else list(eval_metric)
    )
    if not items:
        raise ParameterError("eval_metric is an empty list; name at least one metric")
    return [OTHER_NAMES.get(item, item) if isinstance(item, str) else item for item in items]


def _metric(item: Any, loss: Loss, parameters: Mapping[str, Any]) -> AnyMetric:
    n_predictions = len(loss.evaluated or loss.links)
    if (of_arrays := as_function(item)) is not None:
        return replace(of_arrays, loss=loss)
    metric = item if isinstance(item, Metric) else _by_name(item, loss, parameters)
    if isinstance(metric, CurveMetric):
        return metric
    roles = [role for role in loss.roles if role != "qid"]  # qid is no number
    of_row = (*loss.labels, "weight", *roles, *loss.margins)
    return metric.over((*of_row, *prediction_names(n_predictions), *metric.terms))


def _is_ours(name: str) -> bool:
    return name.partition("@")[0].removesuffix("-") in (*METRICS, *RANKING_METRICS)


def as_function(item: Any) -> FunctionMetric | None:
    """Return one of the user's metrics if it is a function or a scorer, or scikit-learn's name of one; else None."""
    if isinstance(item, FunctionMetric):
        return item
    if isinstance(item, Metric):
        return function_metric(item.sql, item.name, maximize=item.maximize) if may_be_called(item.sql) else None
    if isinstance(item, str):
        scorer = None if _is_ours(item) else scorer_of(item)
        return None if scorer is None else function_metric(scorer, item)
    return function_metric(item) if may_be_called(item) else None


def _by_name(item: Any, loss: Loss, parameters: Mapping[str, Any]) -> Metric | CurveMetric:
    name, _, at_text = item.partition("@") if isinstance(item, str) else ("", "", "")
    n_predictions = len(loss.evaluated or loss.links)
    if isinstance(item, str) and n_predictions == 1 and (ranking := ranking_metric(item, parameters)) is not None:
        return ranking
    if name not in METRICS:
        known = (*METRICS, *RANKING_METRICS)
        raise ParameterError(
            f"eval_metric must be {advice('an fb.Metric or ')}one of {listed(known, None)}, not {shown(item)}"
            f"{did_you_mean(item, known)}"
        )
    at = _at(item, name, at_text)
    if name in _MULTICLASS and not loss.has_margin_of_each_class:
        raise ParameterError(f"eval_metric {shown(name)} is for the multi:* objectives, not for {shown(loss.name)}")
    if loss.name != _OF_OBJECTIVE.get(name, loss.name):
        raise ParameterError(
            f"eval_metric {shown(name)} is for objective {shown(_OF_OBJECTIVE[name])}, not for {shown(loss.name)}"
        )
    if name in _OF_ONE_PREDICTION and n_predictions > len(loss.labels):
        raise ParameterError(
            f"eval_metric {shown(name)} is for one prediction a row; {shown(loss.name)} makes {n_predictions}"
        )
    if (
        name in ("auc", "aucpr")
        and not loss.classes
        and (loss.n_outputs > len(loss.labels) or loss.family == "survival")
    ):
        raise ParameterError(
            f"eval_metric {shown(name)} is for classes, or for one prediction a row, not for {shown(loss.name)}"
        )
    return METRICS[name](name, at, loss, parameters)


def _at(item: str, name: str, text: str) -> float | None:
    if not text and "@" not in item:
        if name == "tweedie-nloglik":
            raise ParameterError("eval_metric 'tweedie-nloglik' needs a variance power, such as 'tweedie-nloglik@1.5'")
        return None
    try:
        at = float(text)
    except ValueError:
        at = math.nan
    if not math.isfinite(at):
        raise ParameterError(f"eval_metric {shown(item)}: after the @ comes a number, not {shown(text)}")
    if name not in _TAKES_AT:
        raise ParameterError(f"eval_metric {shown(name)} takes no @, as in {shown(item)}")
    if name == "tweedie-nloglik" and not 1 < at < 2:
        raise ParameterError(f"eval_metric {shown(item)}: the variance power must be greater than 1 and less than 2")
    return at


def _named(name: str, at: float | None) -> str:
    return name if at is None or (name == "error" and at == 0.5) else f"{name}@{at:g}"


# --- ranking ----------------------------------------------------------------------------------------------------------

# Each is one SQL aggregate over windows by query: ``ndcg@5``, ``map@3-``. As in XGBoost 3.2 (``rank_metric.cc``),
# without an @ the first 32 rows of a query count, and a query without relevant rows has the value 1, or 0 if the name
# ends with a minus.

RANKING_METRICS = ("ndcg", "map", "pre")
_NAME = re.compile(r"(ndcg|map|pre)(?:@([1-9][0-9]{0,8}))?(-?)")


def ranking_metric(name: str, parameters: Mapping[str, Any]) -> Metric | None:
    """Return the ranking metric of that name, or None.

    Raises
    ------
    ParameterError
        If @ is not followed by a number of rows.
    """
    if name.partition("@")[0].removesuffix("-") not in RANKING_METRICS:
        return None
    match = _NAME.fullmatch(name)
    if match is None:
        raise ParameterError(
            f"eval_metric {shown(name)}: after the @ comes a number of rows, 1 or more, and then perhaps a minus"
        )
    kind, at, minus = match.groups()
    truncation = int(at or DEFAULT_TRUNCATION)
    terms, row, is_relevant = _ROWS[kind](truncation, exponential=parameters["ndcg_exp_gain"])
    rank = f"{kind}_rank"
    empty = 0 if minus else 1
    gained = f"CASE WHEN {rank} < {truncation} THEN weight * ({row}) ELSE 0 END"
    total = f"CASE WHEN {is_relevant} THEN {gained} WHEN {rank} = 0 THEN weight * {empty} ELSE 0 END"
    of_queries = f"SUM({total}) / SUM(CASE WHEN {rank} = 0 THEN weight ELSE 0 END)"
    every_row: dict[str, Term] = {rank: OverQuery("rank", Expression("prediction", ("prediction",)))}
    return Metric(name, f"LEAST({of_queries}, 1)", maximize=True, terms=every_row | terms)


def base_name(metric: Metric) -> str:
    """Return the name of a ranking metric in `RANKING_METRICS`, without its number of rows."""
    return metric.name.partition("@")[0].removesuffix("-")


def is_of_queries(item: object) -> bool:
    """Whether one of the user's metrics, perhaps a name, is a ranking metric."""
    return item.partition("@")[0].removesuffix("-") in RANKING_METRICS if isinstance(item, str) else is_ranking(item)


def is_ranking(metric: object) -> bool:
    """Whether a metric is a ranking metric, which needs queries."""
    return isinstance(metric, Metric) and any(isinstance(term, OverQuery) for term in metric.terms.values())


def _ndcg(truncation: int, *, exponential: bool) -> tuple[dict[str, Term], str, str]:
    terms = ideal_terms("ndcg_", truncation, exponential=exponential)
    row = f"ndcg_gain / ndcg_best * ({discount('ndcg_rank')}) / ndcg_ideal"
    return terms, row, "ndcg_ideal > 0"


def _mean_average_precision(truncation: int, *, exponential: bool) -> tuple[dict[str, Term], str, str]:
    label, rank = Expression("label", ("label",)), Expression("map_rank", ("map_rank",))
    terms: dict[str, Term] = {
        "map_hits": OverQuery("running", label, rank, on_grid=True),
        "map_relevant": OverQuery("sum", label, on_grid=True),
    }
    return terms, f"label * map_hits / (map_rank + 1) / LEAST(map_relevant, {truncation})", "map_relevant > 0"


def _precision(truncation: int, *, exponential: bool) -> tuple[dict[str, Term], str, str]:
    terms: dict[str, Term] = {"pre_last": OverQuery("max", Expression("pre_rank", ("pre_rank",)))}
    return terms, f"label / LEAST(pre_last + 1, {truncation})", "pre_last >= 0"


_ROWS = {"ndcg": _ndcg, "map": _mean_average_precision, "pre": _precision}
