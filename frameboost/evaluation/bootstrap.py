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
from frameboost.evaluation.metrics_by_group import metric_values
from frameboost.metrics.built_in import AnyMetric

__all__ = ["metric_intervals"]

_LEVEL = 0.95
_FEWEST = 0.5  # the share of the draws that must have a value

Integers = npt.NDArray[np.int64]


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
        ``metric``, ``low`` and ``high``, which are null where most draws have no value (as the AUC of one class).
    """
    places = _Places(scored)
    rng = np.random.default_rng(0)
    order = rng.permutation(places.n_units)
    fit = int(np.searchsorted(np.cumsum(places.sizes[order]), most_rows, side="right"))
    used = np.sort(order[: max(1, fit)])

    def computed(drawn: Integers) -> dict[str, float]:
        return metric_values(_engine(scored, places, drawn), ensemble, metrics, r2="r2" in values)

    of_sample = computed(used)
    found = [computed(used[rng.integers(len(used), size=len(used))]) for _ in range(draws)]
    factor = float(np.sqrt(len(used) / places.n_units * share))
    rows = [(name, *_interval(values[name], of_sample[name], [one[name] for one in found], factor)) for name in values]
    return pl.DataFrame(rows, {"metric": pl.String, "low": pl.Float64, "high": pl.Float64}, orient="row")


def _interval(value: float, of_sample: float, found: Sequence[float], factor: float) -> tuple[float | None, ...]:
    known = np.array([other for other in found if np.isfinite(other)])
    if len(known) < _FEWEST * len(found) or not np.isfinite([value, of_sample]).all():
        return None, None
    ends = np.quantile(known, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    # Of all rows these are the quantiles themselves, to the last digit.
    moved = ends if factor == 1.0 and value == of_sample else value + factor * (ends - of_sample)
    return float(moved[0]), float(moved[1])


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
    place = pl.DataFrame({"value": distinct, "place": np.arange(len(distinct))})
    found = pl.DataFrame({"value": values}).join(place, "value", "left", nulls_equal=True, maintain_order="left")
    return found["place"].to_numpy()


def _engine(scored: pl.DataFrame, places: _Places, drawn: Integers) -> PolarsEngine:
    """Return the rows of the units that were drawn; a query that is drawn twice is two queries."""
    rows, which = places.rows(drawn)
    frame = scored[rows]
    if "qid" in scored.columns:
        frame = frame.with_columns(qid=pl.Series(which * len(scored) + _numbered(frame["qid"])))
    return PolarsEngine(frame.lazy(), (), {name: name for name in frame.columns if name != "group_0"})
