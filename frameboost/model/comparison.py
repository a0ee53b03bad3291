"""Compare two models of the same target: what differs, and which is better on the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from frameboost.checks.arguments import checked, instance_of, whole
from frameboost.checks.messages import shortened
from frameboost.errors import printable
from frameboost.evaluation.bootstrap import compare_models
from frameboost.metrics.metric import Metric
from frameboost.model.model import Model, predictor_of

__all__ = ["Comparison", "compare"]

_A_MODEL = instance_of(Model, "a Model, as fb.fit and fb.load return it")


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`; it prints as text.

    Attributes
    ----------
    metrics
        One row per metric that fits both models: ``metric``, ``first``, ``second``, ``difference`` (second minus
        first), and the ends ``low`` and ``high`` of its 95 % interval by a paired bootstrap over the rows. If 0 lies
        outside, the difference is more than sampling noise.
    differences
        One row per difference: ``of`` (``"model"``, ``"feature"``, ``"parameter"``), ``name``, ``first`` and ``second``
        as text, NULL if a model lacks it.
    """

    metrics: pl.DataFrame
    differences: pl.DataFrame

    def __repr__(self) -> str:
        with pl.Config(tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True, tbl_rows=-1):
            return printable(f"{self.metrics}\n{self.differences}")


@checked(first=_A_MODEL, second=_A_MODEL, resamples=whole(0, 100_000))
def compare(
    first: Model, second: Model, data: Any, target: str | Sequence[str], *, weight: str | None = None,
    group: str | None = None, label_upper_bound: str | None = None,
    eval_metric: str | Metric | Iterable[str | Metric] | None = None, resamples: int = 500, seed: int = 0,
) -> Comparison:  # fmt: skip
    """Compare two models: their differences, and metrics on the same rows with intervals of the difference.

    Parameters
    ----------
    first, second
        Two models of the same target.
    data, target, weight, group, label_upper_bound, eval_metric
        As for `Model.evaluate`, with rows that neither model was trained on. They are read into memory.
    resamples
        The number of bootstrap samples of the rows (in rankings of the queries); both models are evaluated on the same
        samples (Efron & Tibshirani, "An Introduction to the Bootstrap", 1993). 0 for no intervals.
    seed
        The seed of the samples.

    Raises
    ------
    DataError, ParameterError
        As `Model.evaluate`; if no metric fits both models.

    Examples
    --------
    >>> import polars as pl, frameboost as fb
    >>> df = pl.DataFrame({"x": [1, 2, 3, 4] * 5, "y": [0.0, 2.0, 8.0, 9.0] * 5})
    >>> first, second = (fb.fit(df, "y", n_estimators=n, learning_rate=0.5, reg_lambda=0) for n in (1, 2))
    >>> comparison = fb.compare(first, second, df, "y", eval_metric="mae")
    >>> comparison.metrics.select("metric", "first", "second", "difference").rows()
    [('mae', 1.875, 0.9375, -0.9375)]
    >>> comparison.differences.filter(of="parameter").rows()
    [('parameter', 'n_estimators', '1', '2')]
    """
    metrics = compare_models(
        predictor_of(first), predictor_of(second), data, target, weight=weight, group=group,
        label_upper_bound=label_upper_bound, eval_metric=eval_metric, resamples=resamples, seed=seed,
    )  # fmt: skip
    parts = [_differences(of, facts(first), facts(second)) for of, facts in _FACTS.items()]
    return Comparison(metrics, pl.concat(parts))


def _facts(model: Model) -> dict[str, str]:
    interval = model.ensemble.interval
    return {
        "objective": model.objective,
        "trees": str(model.n_trees),
        "rounds": str(model.n_rounds),
        "base margin": str(model.base_margin),
        "offset": str(model.offset),
        "classes": ", ".join(map(str, model.classes)),
        "calibrated": "no" if model.ensemble.calibration is None else "yes",
        "interval": "none" if interval is None else f"{100 * interval.coverage:g} %",
    }


def _features(model: Model) -> dict[str, str]:
    return {feature.name: str(feature.type) for feature in model.ensemble.features}


def _parameters(model: Model) -> dict[str, str]:
    return {name: shortened(str(value)) for name, value in model.parameters.items()}


_FACTS: Mapping[str, Callable[[Model], dict[str, str]]] = {
    "model": _facts, "feature": _features, "parameter": _parameters
}  # fmt: skip


def _differences(of: str, first: Mapping[str, str], second: Mapping[str, str]) -> pl.DataFrame:
    names = [name for name in dict.fromkeys([*first, *second]) if first.get(name) != second.get(name)]
    values = {"of": [of] * len(names), "name": names, "first": [first.get(name) for name in names],
              "second": [second.get(name) for name in names]}  # fmt: skip
    return pl.DataFrame(values, schema=dict.fromkeys(values, pl.String))
