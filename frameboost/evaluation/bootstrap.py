"""Confidence intervals of metrics by the bootstrap (Efron, "Bootstrap Methods: Another Look at the Jackknife", 1979).

Of n units (rows, or all rows of a customer or of a query) n are drawn with replacement, and the metrics computed of
them; the interval reaches from the quantile 0.025 to 0.975 of many such draws. Units that belong together, such as the
orders of a customer, are drawn together: otherwise the interval is too narrow (Field & Welsh, "Bootstrapping clustered
data", 2007).

Of many rows the draws are of m units, a sample of the n. A metric varies by about 1/√m then, so that deviations from
the metric of the sample are multiplied by √(m/n) (Politis, Romano & Wolf, "Subsampling", 1999).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.engines.polars.engine import PolarsEngine
from frameboost.ensemble.ensemble import Ensemble
from frameboost.evaluation.metrics_by_group import metric_values, store_predictions
from frameboost.metrics.built_in import AnyMetric
from frameboost.metrics.draws import can_be_drawn, of_draws, row_counts
from frameboost.metrics.metric import Metric, define_terms

__all__ = ["metric_intervals"]

_LEVEL = 0.95
_MIN_KNOWN_SHARE = 0.5  # the share of the draws that must have a value

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


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
        What `scored_columns` returns of rows on which the model has been evaluated; of units drawn at random, if not of
        all. Rows of a value of ``group_0``, otherwise of a query in ranking, are drawn together.
    metrics
        The metrics; the coefficient of determination is added where ``values`` has it.
    values
        The metrics of all rows, by name.
    share
        The share of all units that ``scored`` has.
    draws
        How often to draw.
    most_rows
        The most rows to draw from, unless one unit has more.

    Returns
    -------
    polars.DataFrame
        ``metric``, ``low`` and ``high``, which are null of a single unit, and where most draws have no value (as the
        AUC of one class).
    """
    indices = _Places(scored)
    rng = np.random.default_rng(0)
    order = rng.permutation(indices.n_units)
    fit = int(np.searchsorted(np.cumsum(indices.sizes[order]), most_rows, side="right"))
    used = np.sort(order[: max(1, fit)])

    several = [np.arange(len(used)), *rng.integers(len(used), size=(draws, len(used)))]  # first each unit once
    known = [*metrics, *([_r2(scored)] if "r2" in values else [])]
    found = _at_once(ensemble, scored, indices, used, several, [metric for metric in known if can_be_drawn(metric)])
    others = [metric for metric in metrics if metric.name not in found]
    if others:
        each = [metric_values(_engine(scored, indices, used[d]), ensemble, others, r2=False) for d in several]
        found |= {metric.name: np.array([one[metric.name] for one in each]) for metric in others}
    factor = float(np.sqrt(len(used) / indices.n_units * share))
    nothing: tuple[float | None, ...] = (None, None)
    single = indices.n_units == 1
    rows = [(name, *(nothing if single else _interval(values[name], found[name], factor))) for name in values]
    return pl.DataFrame(rows, {"metric": pl.String, "low": pl.Float64, "high": pl.Float64}, orient="row")


def _interval(value: float, found: Floats, factor: float) -> tuple[float | None, ...]:
    """Return the ends of an interval; the first number found is that of the sample, the others are of the draws."""
    of_sample, drawn = found[0], found[1:]
    known = drawn[np.isfinite(drawn)]
    if len(known) < _MIN_KNOWN_SHARE * len(drawn) or not np.isfinite([value, of_sample]).all():
        return None, None
    ends = value + factor * (np.quantile(known, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]) - of_sample)
    return float(ends[0]), float(ends[1])


def _at_once(
    ensemble: Ensemble, scored: pl.DataFrame, indices: _Places, used: Integers, several: Sequence[Integers],
    metrics: Sequence[AnyMetric],
) -> dict[str, Floats]:  # fmt: skip
    """Return each metric of each draw of the units that are used."""
    rows = _engine(scored, indices, used)
    store_predictions(rows, ensemble)
    _, unit = indices.rows(used)
    counts = row_counts(several, unit, len(used))
    found = {}
    for metric in metrics:
        define_terms(rows, metric.terms)
        found[metric.name] = of_draws(metric, rows, counts)
    return found


def _r2(scored: pl.DataFrame) -> Metric:
    """Return the coefficient of determination as sums, of labels less their mean, so that few digits cancel."""
    about = f"(label - ({float(scored['label'].cast(pl.Float64).mean() or 0.0)!r}))"  # type: ignore[arg-type]
    spread = f"SUM(weight * {about} * {about}) - SUM(weight * {about}) * SUM(weight * {about}) / SUM(weight)"
    wrong = "SUM(weight * (label - prediction) * (label - prediction))"
    return Metric("r2", f"1 - {wrong} / ({spread})", columns=("label", "weight", "prediction"))


class _Places:
    """The rows of each unit: ``order[starts[u] : starts[u] + sizes[u]]``."""

    def __init__(self, scored: pl.DataFrame) -> None:
        name = next((name for name in ("group_0", "qid") if name in scored.columns), None)
        units = np.arange(len(scored)) if name is None else _numbered(scored[name])
        self.order = np.argsort(units, kind="stable")
        self.sizes = np.bincount(units)
        self.starts = np.cumsum(self.sizes) - self.sizes
        self.n_units = len(self.sizes)

    def rows(self, drawn: Integers) -> tuple[Integers, Integers]:
        """Return the rows of the units that were drawn, and for each row which draw it is of."""
        sizes = self.sizes[drawn]
        which = np.repeat(np.arange(len(drawn)), sizes)
        within = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self.order[self.starts[drawn][which] + within], which


def _numbered(values: pl.Series) -> Integers:
    """Return 0, 1, ... for the distinct values, NULL among them."""
    distinct = values.unique(maintain_order=True)
    index = pl.DataFrame({"value": distinct, "place": np.arange(len(distinct))})
    found = pl.DataFrame({"value": values}).join(index, "value", "left", nulls_equal=True, maintain_order="left")
    return found["place"].to_numpy()


def _engine(scored: pl.DataFrame, indices: _Places, drawn: Integers) -> PolarsEngine:
    """Return the rows of the units that were drawn; a query that is drawn twice is two queries."""
    rows, which = indices.rows(drawn)
    frame = scored[rows]
    if "qid" in scored.columns:
        frame = frame.with_columns(qid=pl.Series(which * len(scored) + _numbered(frame["qid"])))
    return PolarsEngine(frame.lazy(), (), {name: name for name in frame.columns if name != "group_0"})
