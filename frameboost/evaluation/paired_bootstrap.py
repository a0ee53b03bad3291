"""Two models on the same rows: the metrics of both, and intervals of the differences by a paired bootstrap.

Efron & Tibshirani, "An Introduction to the Bootstrap" (1993), chapters 13 and 8: rows are drawn with replacement, of a
ranking whole queries, and both models are evaluated on the same draw. What the rows have in common, such as a hard
year, is in both metrics and leaves the difference.
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
from frameboost.data.rows_to_score import open_rows
from frameboost.data.sources import FrameSource
from frameboost.engines.polars.engine import PolarsEngine
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import ParameterError
from frameboost.evaluation.metrics_by_group import metrics_of, scored_columns, store_predictions
from frameboost.losses.loss import RunningSum
from frameboost.metrics.built_in import AnyMetric
from frameboost.metrics.draws import adds_up, of_draws, row_counts
from frameboost.metrics.metric import define_terms, evaluate
from frameboost.prediction.predictor import Predictor
from frameboost.schema.polars_columns import column
from frameboost.training.class_labels import labelled_columns, with_label_codes
from frameboost.training.data_checks import check_evaluated, check_upper_bound, find_roles
from frameboost.training.ranking_checks import check_queries, with_group

__all__ = ["compare_models"]

Floats = npt.NDArray[np.float64]
_MAX_RESAMPLES = 100_000
_MAX_CELLS = 1 << 22  # of a matrix of draws and rows


def compare_models(
    first: Predictor, second: Predictor, data: Any, target: str, *, weight: str | None = None,
    group: str | None = None, label_upper_bound: str | None = None, eval_metric: Any = None, resamples: int = 500,
    level: float = 0.95, seed: int = 0,
) -> pl.DataFrame:  # fmt: skip
    """Return the metrics that both models have, and intervals of their differences.

    Parameters
    ----------
    first, second
        Two models of the same target.
    data, target, weight, group, label_upper_bound, eval_metric
        As for `frameboost.Model.evaluate`; the rows are read into memory.
    resamples
        The number of draws; 0 for no intervals.
    level
        The share of the draws whose differences lie in the interval.
    seed
        The seed of the draws.

    Returns
    -------
    polars.DataFrame
        ``metric``, ``first``, ``second``, ``difference`` (second minus first), and ``low`` and ``high``, the quantiles
        of the differences; NaN of a metric that is no mean over rows and no area under a curve.

    Raises
    ------
    DataError, ParameterError
        As `frameboost.Model.evaluate`; if the models have no metric in common.
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
    values = [[evaluate(model.metrics[name], model.engine) for name in names] for model in (one, two)]
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
    """Rows with a model's margins: an engine, the metrics by name, and the number of each row's unit of resampling."""

    engine: PolarsEngine
    metrics: Mapping[str, AnyMetric]
    units: npt.NDArray[np.int64]


def _read(data: Any, target: str, columns: Mapping[str, str | None], *ensembles: Ensemble) -> FrameSource:
    """Return the rows in memory, read once, so that both models have them in one order."""
    features = [feature for ensemble in ensembles for feature in labelled_columns(ensemble, target)]
    source = open_rows(data, features)
    for ensemble in ensembles:
        ensemble.find_in(source)
    wanted = dict.fromkeys([*(feature.name for feature in features), target, *filter(None, columns.values())])
    known = source.names()
    return FrameSource(source.to_frame([name for name in wanted if name in known]).collect().lazy())


def _scored(
    predictor: Predictor, rows: FrameSource, target: str, columns: Mapping[str, str | None], eval_metric: Any
) -> _Scored:
    ensemble = predictor.ensemble
    source = with_label_codes(rows, target, ensemble.labels)
    roles = find_roles(source, target, columns["weight"], None, columns["label_upper_bound"])
    roles = with_group(source, roles, columns["group"])
    check_upper_bound(ensemble.loss, roles)
    metrics = metrics_of(ensemble.loss, ensemble.parameters, eval_metric)
    columns_of_roles = scored_columns(predictor.of_numbers(), source, roles)
    engine = PolarsEngine(columns_of_roles.lazy(), (), {name: name for name in columns_of_roles.columns})
    check_evaluated(engine, ensemble.loss, roles)
    check_queries(engine, ensemble.loss, metrics, roles, exponential=bool(ensemble.parameters.get("ndcg_exp_gain", 1)))
    store_predictions(engine, ensemble)
    units = np.arange(engine.n_rows)
    if "qid" in roles:
        ranks = source.frame.select(column(roles["qid"]).rank("dense")).collect().to_series()
        units = ranks.to_numpy().astype(np.int64) - 1
    return _Scored(engine, {metric.name: metric for metric in metrics}, units)


def _draws(units: npt.NDArray[np.int64], resamples: int, seed: int) -> Iterator[Floats]:
    """Yield how often each row is in some of the draws, a line a draw; rows of one unit are drawn together."""
    random, n_units = np.random.default_rng(seed), int(units.max()) + 1
    several = max(1, _MAX_CELLS // len(units))
    for start in range(0, resamples, several):
        drawn = (random.integers(0, n_units, n_units) for _ in range(min(several, resamples - start)))
        yield row_counts(drawn, units, n_units)


def _metrics_of_draws(model: _Scored, names: Sequence[str], counts: Floats) -> Floats:
    """Return each metric of each draw; ``counts`` has a line a draw. NaN of what rows do not add to one by one."""
    found = np.full((len(counts), len(names)), np.nan)
    for index, name in enumerate(names):
        metric = model.metrics[name]
        if not adds_up(metric) or any(isinstance(term, RunningSum) for term in metric.terms.values()):
            continue
        define_terms(model.engine, metric.terms)
        found[:, index] = of_draws(metric, model.engine, counts)
    return found
