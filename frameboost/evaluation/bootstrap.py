"""Confidence intervals of metrics by the bootstrap (Efron, "Bootstrap Methods: Another Look at the Jackknife", 1979).

A bootstrap sample draws n of n units (rows, or all rows of a customer or of a query) with replacement; the interval is
from the quantile 0.025 to 0.975 of the metric over many samples. Dependent rows, such as the orders of a customer, are
drawn together, as otherwise the interval is too narrow (Field & Welsh, "Bootstrapping clustered data", 2007).

With many rows, samples are drawn from a subsample of m of the n units. The deviation of a metric is then about 1/√m, so
it is multiplied by √(m/n) (Politis, Romano & Wolf, "Subsampling", 1999).

Two models are compared by a paired bootstrap (Efron & Tibshirani, "An Introduction to the Bootstrap", 1993, chapters 13
and 8): both are evaluated on the same samples, so that common effects, such as a hard year, cancel in the difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.checks.arguments import whole
from frameboost.checks.messages import shown
from frameboost.data.opening import open_rows
from frameboost.data.sources import FrameSource
from frameboost.engines.choose import rows_of
from frameboost.engines.contract import RowsInMemory
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import ParameterError
from frameboost.evaluation.metrics_by_group import metric_values, scored_columns, store_predictions
from frameboost.losses.loss import RunningSum
from frameboost.metrics.draws import adds_up, can_be_drawn, of_draws, row_counts
from frameboost.metrics.metric import AnyMetric, Metric, define_terms, evaluate, evaluation_metrics
from frameboost.prediction.predictor import Predictor
from frameboost.schema.types import column
from frameboost.training.data_checks import (
    check_evaluated,
    check_queries,
    labelled_columns,
    open_labelled,
)

__all__ = ["compare_models", "metric_intervals"]

_LEVEL = 0.95
_MIN_KNOWN_SHARE = 0.5  # the share of the draws that must have a value

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_MAX_RESAMPLES = 100_000
_MAX_CELLS = 1 << 22  # of a matrix of draws and rows


# --- one model --------------------------------------------------------------------------------------------------------


def metric_intervals(
    ensemble: Ensemble, scored: pl.DataFrame, metrics: Sequence[AnyMetric], *, values: Mapping[str, float],
    share: float = 1.0, draws: int = 200, most_rows: int = 5_000,
) -> pl.DataFrame:  # fmt: skip
    """Return a 95 % confidence interval of each metric.

    Parameters
    ----------
    ensemble
        The model's.
    scored
        The result of `scored_columns` for the evaluated rows, or for randomly drawn units of them. Rows with the same
        ``group_0``, or else the same query in ranking, form a unit.
    metrics
        The metrics; R² is added if ``values`` has it.
    values
        The metrics of all rows, by name.
    share
        The share of all units in ``scored``.
    draws
        The number of samples.
    most_rows
        The maximum number of rows to draw from, unless one unit has more.

    Returns
    -------
    polars.DataFrame
        ``metric``, ``low`` and ``high``, null for a single unit, and if the metric is undefined in most samples (as the
        AUC of one class).
    """
    units = _Units(scored)
    rng = np.random.default_rng(0)
    order = rng.permutation(units.n_units)
    fit = int(np.searchsorted(np.cumsum(units.sizes[order]), most_rows, side="right"))
    used = np.sort(order[: max(1, fit)])

    several = [np.arange(len(used)), *rng.integers(len(used), size=(draws, len(used)))]  # first each unit once
    known = [*metrics, *([_r2(scored)] if "r2" in values else [])]
    of_metric = _at_once(ensemble, scored, units, used, several, known)
    others = [metric for metric in metrics if metric.name not in of_metric]
    if others:
        each = [metric_values(_drawn_rows(scored, units, used[d]), ensemble, others, r2=False) for d in several]
        of_metric |= {metric.name: np.array([one[metric.name] for one in each]) for metric in others}
    factor = float(np.sqrt(len(used) / units.n_units * share))
    nothing: tuple[float | None, ...] = (None, None)
    single = units.n_units == 1
    rows = [(name, *(nothing if single else _interval(values[name], of_metric[name], factor))) for name in values]
    return pl.DataFrame(rows, {"metric": pl.String, "low": pl.Float64, "high": pl.Float64}, orient="row")


def _interval(value: float, metrics: Floats, factor: float) -> tuple[float | None, ...]:
    """Return the ends of an interval; the first metric is that of the data, the others are of the samples."""
    of_sample, drawn = metrics[0], metrics[1:]
    known = drawn[np.isfinite(drawn)]
    if len(known) < _MIN_KNOWN_SHARE * len(drawn) or not np.isfinite([value, of_sample]).all():
        return None, None
    ends = value + factor * (np.quantile(known, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]) - of_sample)
    return float(ends[0]), float(ends[1])


def _at_once(
    ensemble: Ensemble, scored: pl.DataFrame, units: _Units, used: Integers, several: Sequence[Integers],
    metrics: Sequence[AnyMetric],
) -> dict[str, Floats]:  # fmt: skip
    """Return each metric for each sample of the units."""
    rows = _drawn_rows(scored, units, used)
    store_predictions(rows, ensemble)
    _, unit = units.rows(used)
    counts = row_counts(several, unit, len(used))
    of_metric = {}
    for metric in filter(can_be_drawn, metrics):
        define_terms(rows, metric.terms)
        of_metric[metric.name] = of_draws(metric, rows, counts)
    return of_metric


def _r2(scored: pl.DataFrame) -> Metric:
    """Return the coefficient of determination as sums, of centred labels to avoid cancellation."""
    about = f"(label - ({float(scored['label'].cast(pl.Float64).mean() or 0.0)!r}))"  # type: ignore[arg-type]
    spread = f"SUM(weight * {about} * {about}) - SUM(weight * {about}) * SUM(weight * {about}) / SUM(weight)"
    wrong = "SUM(weight * (label - prediction) * (label - prediction))"
    return Metric("r2", f"1 - {wrong} / ({spread})", columns=("label", "weight", "prediction"))


class _Units:
    """The rows of each unit: ``order[starts[u] : starts[u] + sizes[u]]``."""

    def __init__(self, scored: pl.DataFrame) -> None:
        name = next((name for name in ("group_0", "qid") if name in scored.columns), None)
        units = np.arange(len(scored)) if name is None else _numbered(scored[name])
        self.order = np.argsort(units, kind="stable")
        self.sizes = np.bincount(units)
        self.starts = np.cumsum(self.sizes) - self.sizes
        self.n_units = len(self.sizes)

    def rows(self, drawn: Integers) -> tuple[Integers, Integers]:
        """Return the rows of the drawn units, and for each row the index of its sample."""
        sizes = self.sizes[drawn]
        which = np.repeat(np.arange(len(drawn)), sizes)
        within = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self.order[self.starts[drawn][which] + within], which


def _numbered(values: pl.Series) -> Integers:
    """Return indices 0, 1, ... of the distinct values, with NULL as a value."""
    distinct = values.unique(maintain_order=True)
    numbers = pl.DataFrame({"value": distinct, "number": np.arange(len(distinct))})
    numbered = pl.DataFrame({"value": values}).join(numbers, "value", "left", nulls_equal=True, maintain_order="left")
    return numbered["number"].to_numpy()


def _drawn_rows(scored: pl.DataFrame, units: _Units, drawn: Integers) -> RowsInMemory:
    """Return the rows of the drawn units; a query drawn twice counts as two queries."""
    rows, which = units.rows(drawn)
    frame = scored[rows]
    if "qid" in scored.columns:
        frame = frame.with_columns(qid=pl.Series(which * len(scored) + _numbered(frame["qid"])))
    return rows_of(frame, [name for name in frame.columns if name != "group_0"])


# --- two models -------------------------------------------------------------------------------------------------------


def compare_models(
    first: Predictor, second: Predictor, data: Any, target: str | Sequence[str], *, weight: str | None = None,
    group: str | None = None, label_upper_bound: str | None = None, eval_metric: Any = None, resamples: int = 500,
    level: float = 0.95, seed: int = 0,
) -> pl.DataFrame:  # fmt: skip
    """Return the metrics that fit both models, and intervals of their differences.

    Parameters
    ----------
    first, second
        Two models of the same target.
    data, target, weight, group, label_upper_bound, eval_metric
        As for `frameboost.Model.evaluate`; the rows are read into memory.
    resamples
        The number of bootstrap samples; 0 for no intervals.
    level
        The confidence level of the intervals.
    seed
        The seed of the samples.

    Returns
    -------
    polars.DataFrame
        ``metric``, ``first``, ``second``, ``difference`` (second minus first), and ``low`` and ``high``, quantiles of
        the differences; NaN for metrics that are neither a mean over rows nor an area under a curve.

    Raises
    ------
    DataError, ParameterError
        As `frameboost.Model.evaluate`; if no metric fits both models.
    """
    whole(0, _MAX_RESAMPLES)("resamples", resamples)
    columns = {"weight": weight, "group": group, "label_upper_bound": label_upper_bound}
    rows = _read(data, target, columns, first.ensemble, second.ensemble)
    one, two = (_scored(predictor, rows, target, columns, eval_metric) for predictor in (first, second))
    names = [name for name in one.metrics if name in two.metrics]
    if not names:
        raise ParameterError(
            f"the models, of {shown(first.ensemble.loss.name)} and {shown(second.ensemble.loss.name)}, have no metric "
            "in common; name one that both have"
        )
    values = [[evaluate(model.metrics[name], model.rows) for name in names] for model in (one, two)]
    tail = (1.0 - level) / 2.0
    differences = np.empty((0, len(names)))
    for counts in _draws(one.units, resamples, seed):
        first_ones, second_ones = (_metrics_of_draws(model, names, counts) for model in (one, two))
        differences = np.concatenate([differences, second_ones - first_ones])
    bounds = np.full((2, len(names)), np.nan)
    if resamples:
        bounds = np.quantile(differences, (tail, 1.0 - tail), axis=0)
    return pl.DataFrame({
        "metric": names, "first": values[0], "second": values[1],
        "difference": np.array(values[1]) - np.array(values[0]), "low": bounds[0], "high": bounds[1],
    })  # fmt: skip


@dataclass(frozen=True)
class _Scored:
    """Rows with a model's margins, the metrics by name, and the index of each row's unit of resampling."""

    rows: RowsInMemory
    metrics: Mapping[str, AnyMetric]
    units: npt.NDArray[np.int64]


def _read(
    data: Any, target: str | Sequence[str], columns: Mapping[str, str | None], *ensembles: Ensemble
) -> FrameSource:  # fmt: skip
    """Read the rows into memory once, in the same order for both models."""
    features = [feature for ensemble in ensembles for feature in labelled_columns(ensemble, target)]
    source = open_rows(data, features)
    for ensemble in ensembles:
        ensemble.find_in(source)
    targets = [target] if isinstance(target, str) else list(target)
    needed = dict.fromkeys([*(feature.name for feature in features), *targets, *filter(None, columns.values())])
    known = source.names()
    return FrameSource(source.to_frame([name for name in needed if name in known]).collect().lazy())


def _scored(
    predictor: Predictor,
    data: FrameSource,
    target: str | Sequence[str],
    columns: Mapping[str, str | None],
    eval_metric: Any,
) -> _Scored:
    ensemble = predictor.ensemble
    source, roles = open_labelled(
        ensemble, data, target, columns["weight"], columns["label_upper_bound"], columns["group"]
    )
    assert isinstance(source, FrameSource)  # as the data is
    metrics = evaluation_metrics(ensemble.loss, ensemble.parameters, eval_metric)
    columns_of_roles = scored_columns(predictor.of_numbers(), source, roles)
    rows = rows_of(columns_of_roles, columns_of_roles.columns)
    check_evaluated(rows, ensemble.loss, roles)
    check_queries(rows, ensemble.loss, metrics, roles, exponential=bool(ensemble.parameters.get("ndcg_exp_gain", 1)))
    store_predictions(rows, ensemble)
    units = np.arange(rows.n_rows)
    if "qid" in roles:
        ranks = source.frame.select(column(roles["qid"]).rank("dense")).collect().to_series()
        units = ranks.to_numpy().astype(np.int64) - 1
    return _Scored(rows, {metric.name: metric for metric in metrics}, units)


def _draws(units: npt.NDArray[np.int64], resamples: int, seed: int) -> Iterator[Floats]:
    """Yield blocks of samples: how often each row is drawn, (samples, rows); rows of a unit are drawn together."""
    random, n_units = np.random.default_rng(seed), int(units.max()) + 1
    several = max(1, _MAX_CELLS // len(units))
    for start in range(0, resamples, several):
        drawn = (random.integers(0, n_units, n_units) for _ in range(min(several, resamples - start)))
        yield row_counts(drawn, units, n_units)


def _metrics_of_draws(model: _Scored, names: Sequence[str], counts: Floats) -> Floats:
    """Return each metric for each sample, from ``counts`` (samples, rows); NaN if it is not additive over rows."""
    values = np.full((len(counts), len(names)), np.nan)
    for index, name in enumerate(names):
        metric = model.metrics[name]
        if not adds_up(metric) or any(isinstance(term, RunningSum) for term in metric.terms.values()):
            continue
        define_terms(model.rows, metric.terms)
        values[:, index] = of_draws(metric, model.rows, counts)
    return values
