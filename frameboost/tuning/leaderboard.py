"""What `frameboost.auto` tried: how good, how long, and with what weight it is in the model."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from frameboost.tuning.trials import Trial

__all__ = ["leaderboard"]


def leaderboard(
    trials: Sequence[Trial], metric: str, values: Sequence[float], weights: Sequence[float]
) -> pl.DataFrame:
    """Return a row for each trial in the order of its value, the best first (`Model.leaderboard`).

    Parameters
    ----------
    trials
        The trials.
    metric
        The name of the metric that decided.
    values
        The mean of the metric over the folds that were held out.
    weights
        The weight of each trial in the model.
    """
    found = pl.DataFrame(
        {
            "trial": [trial.recipe.name for trial in trials],
            metric: values,
            "weight": weights,
            "fits": [len(trial.models) for trial in trials],
            "rounds": [trial.rounds for trial in trials],
            "seconds": [trial.seconds for trial in trials],
            "settings": [_text(trial) for trial in trials],
        },
        schema_overrides={metric: pl.Float64, "weight": pl.Float64, "seconds": pl.Float64},
    )
    return found.sort("weight", descending=True, maintain_order=True)


def _text(trial: Trial) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in trial.recipe.settings.items())
