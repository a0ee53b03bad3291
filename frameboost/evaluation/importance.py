"""The importance of features on rows: by how much worse predictions get without them, and by contributions.

Permutation importance (Breiman, "Random Forests", 2001; Fisher, Rudin & Dominici, "All Models are Wrong, but Many are
Useful", JMLR 2019): a feature's values are dealt anew to the rows, which leaves their distribution and takes away what
they say about the label. Of Shapley values it is the mean magnitude (Lundberg & Lee, NeurIPS 2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.data.opening import open_rows
from frameboost.data.sources import FrameSource
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import DataError
from frameboost.evaluation.metrics_by_group import evaluated_metrics
from frameboost.metrics.metric import evaluation_metrics
from frameboost.prediction.contributions import contribution_values
from frameboost.prediction.predictor import Predictor
from frameboost.schema.types import column
from frameboost.training.data_checks import open_labelled
from frameboost.trees.tree import LEAF

__all__ = ["contribution_importance", "permutation_importance"]

Floats = npt.NDArray[np.float64]

_ROWS_AT_A_TIME = 2**18


def permutation_importance(
    predictor: Predictor, data: Any, target: str | Sequence[str], *, weight: str | None, group: str | None,
    label_upper_bound: str | None, eval_metric: Any, repeats: int, seed: int,
) -> pl.DataFrame:  # fmt: skip
    """Return ``feature``, ``importance`` and ``deviation``, as `frameboost.Model.importance` describes them."""
    ensemble, numbers = predictor.ensemble, predictor.of_numbers()
    source, roles = open_labelled(ensemble, data, target, weight, label_upper_bound, group)
    metrics = evaluation_metrics(ensemble.loss, ensemble.parameters, eval_metric)
    metric = metrics[0] if eval_metric is None else metrics[-1]
    read = dict.fromkeys([*ensemble.read_names, *roles.values()])
    frame = source.to_frame(list(read)).collect()  # once, so that the rows have one order

    def error(rows: pl.DataFrame) -> float:
        evaluated = evaluated_metrics(numbers, FrameSource(rows.lazy()), roles, [], [metric], r2=False)
        value = float(evaluated["value"].item())
        return -value if metric.maximize else value  # in this order, as a function says so when it is called

    whole, worse = error(frame), np.zeros((len(ensemble.features), repeats))
    for number in _used(ensemble):
        values = frame.select(column(ensemble.feature_names[number])).to_series()
        for repeat in range(repeats):
            order = np.random.default_rng([seed, number, repeat]).permutation(len(frame))
            worse[number, repeat] = error(frame.with_columns(values.gather(order))) - whole
    deviations = worse.std(axis=1, ddof=1) if repeats > 1 else np.full(len(worse), np.nan)
    return _frame(ensemble, worse.mean(axis=1), deviation=pl.Series(deviations, nan_to_null=True))


def contribution_importance(predictor: Predictor, data: Any) -> pl.DataFrame:
    """Return ``feature`` and ``importance``: the mean magnitude of Shapley values, summed over the outputs."""
    ensemble = predictor.ensemble
    source = open_rows(data, ensemble.read_features)
    ensemble.find_in(source)
    frame, sums = source.to_frame(ensemble.read_names).collect(), np.zeros(len(ensemble.features))
    if frame.is_empty():
        raise DataError("the data has no rows")
    for rows in frame.iter_slices(_ROWS_AT_A_TIME):
        for output in range(ensemble.n_outputs):
            sums += np.abs(contribution_values(ensemble, rows, output, approx=False)).sum(axis=0)
    return _frame(ensemble, sums / len(frame))


def _used(ensemble: Ensemble) -> list[int]:
    """Return the numbers of the features by which predictions may differ."""
    if ensemble.is_linear:
        return list(range(len(ensemble.features)))
    return sorted({number for tree in ensemble.trees for number in tree.feature if number != LEAF})


def _frame(ensemble: Ensemble, values: Floats, **others: pl.Series) -> pl.DataFrame:
    names = pl.Series("feature", ensemble.feature_names, dtype=pl.String)
    frame = pl.DataFrame({"feature": names, "importance": values, **others})
    return frame.sort("importance", descending=True, maintain_order=True)
