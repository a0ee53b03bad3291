"""What `frameboost.auto` tried: how good, how long, and with what weight it is in the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from frameboost.tuning.recipes import Recipe
from frameboost.tuning.trials import Trial

__all__ = ["leaderboard"]


def leaderboard(
    trials: Sequence[Trial], metric: str, values: Mapping[str, float], weights: Mapping[str, float]
) -> pl.DataFrame:
    """Return a row for each trial, those with the largest weight first (`Model.leaderboard`).

    Parameters
    ----------
    trials
        The trials.
    metric
        The name of the metric that decided.
    values, weights
        The mean of the metric over the folds that were held out, and the weight in the model, by the name of the
        recipe; trials that were given up have neither.
    """
    names = [trial.recipe.name for trial in trials]
    found = pl.DataFrame(
        {
            "trial": names,
            metric: [values.get(trial.recipe.name, trial.score(trial.models)) for trial in trials],
            "weight": [weights.get(name, 0.0) for name in names],
            "fits": [len(trial.models) for trial in trials],
            "rounds": [trial.rounds for trial in trials],
            "seconds": [trial.seconds for trial in trials],
            "settings": [_text(trial.recipe) for trial in trials],
        },
        schema_overrides={metric: pl.Float64, "weight": pl.Float64, "seconds": pl.Float64},
    )
    return found.sort("weight", descending=True, maintain_order=True)


def _text(recipe: Recipe) -> str:
    shapes = [", ".join(f"{name}={value!r}" for name, value in shape.items()) for shape in recipe.shapes]
    return " or ".join(shapes)
