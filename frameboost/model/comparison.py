"""`compare`: how two models of the same target differ, and which is better on the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from frameboost.checks.arguments import checked, column, instance_of, whole
from frameboost.checks.messages import shortened
from frameboost.errors import printable
from frameboost.evaluation.bootstrap import compare_models
from frameboost.metrics.metric import Metric
from frameboost.model.model import Model, predictor_of

__all__ = ["Comparison", "compare"]

_A_MODEL = instance_of(Model, "a Model, as fb.fit and fb.load return it")


@dataclass(frozen=True)
class Comparison:
    """What `compare` returns; printed as text.

    Attributes
    ----------
    metrics
        A row for each metric that both models have: ``metric``, ``first``, ``second``, ``difference`` (second minus
        first), and ``low`` and ``high``, the ends of the interval that has 95 % of the differences in paired draws of
        the rows. If 0 is outside, the difference is more than chance in the choice of the rows.
    differences
        A row for each fact that differs: ``of`` (``"model"``, ``"feature"``, ``"parameter"``), ``name``, ``first`` and
        ``second`` as text, NULL where a model does not have it.
    """

    metrics: pl.DataFrame
    differences: pl.DataFrame

    def __repr__(self) -> str:
        with pl.Config(tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True, tbl_rows=-1):
            return printable(f"{self.metrics}\n{self.differences}")


@checked(first=_A_MODEL, second=_A_MODEL, target=column, resamples=whole(0, 100_000))
def compare(
    first: Model, second: Model, data: Any, target: str, *, weight: str | None = None, group: str | None = None,
    label_upper_bound: str | None = None, eval_metric: str | Metric | Iterable[str | Metric] | None = None,
    resamples: int = 500, seed: int = 0,
) -> Comparison:  # fmt: skip
    """Return how two models differ, and which is better on these rows: metrics with intervals of their differences.

    Parameters
    ----------
    first, second
        Two models of the same target.
    data, target, weight, group, label_upper_bound, eval_metric
        As for `Model.evaluate`: rows that neither was trained on. They are read into memory.
    resamples
        How often the rows (of a ranking the queries) are drawn with replacement, to evaluate both models on the same
        draw (a paired bootstrap; Efron & Tibshirani, "An Introduction to the Bootstrap", 1993); 0 for no intervals.
    seed
        The seed of the draws.

    Raises
    ------
    DataError, ParameterError
        As `Model.evaluate`; if the models have no metric in common.

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
