"""The settings that `frameboost.auto` tries, and how thoroughly, by ``quality``.

They were chosen on real tables (`benchmarks/accuracy.py`): symmetric trees are ahead where rows are few or columns are
many, as the splits of a level are chosen from all rows; depthwise trees where interactions are local. Which it is
depends on the table, so both are trained and the held-out rows decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["MANY_ROUNDS", "PLANS", "Plan", "Recipe"]


@dataclass(frozen=True)
class Recipe:
    """Settings of `frameboost.fit` under a name."""

    name: str
    settings: Mapping[str, Any]

    def at(self, learning_rate: float) -> Recipe:
        """Return the recipe with another learning rate."""
        return replace(self, settings={**self.settings, "learning_rate": learning_rate})


@dataclass(frozen=True)
class Plan:
    """What a quality does.

    Attributes
    ----------
    recipes
        The recipes to try, the most promising first.
    folds
        Into how many parts the rows are dealt.
    trained
        On how many of the folds each recipe is trained, with the rest of the rows.
    settings
        What all recipes have in common.
    slower
        The learning rate where that of the settings takes few rounds, None for the same.
    """

    recipes: tuple[Recipe, ...]
    folds: int
    trained: int
    settings: Mapping[str, Any]
    slower: float | None = None

    def for_size(self, n_values: int) -> Plan:
        """Return the plan for so many values: the more rows, the less another fold adds to a model."""
        most = next((folds for limit, folds in _FOLDS_BY_VALUES if n_values <= limit), 1)
        return replace(self, trained=min(self.trained, most))


# From so many rounds on, a smaller learning rate is not worth its time.
MANY_ROUNDS = 500
# On how many folds to train data of at most so many values.
_FOLDS_BY_VALUES = ((2**22, 10), (2**25, 3))
_SYMMETRIC = Recipe("symmetric", {"grow_policy": "symmetric", "max_depth": 6})
_DEPTHWISE = Recipe("depthwise", {"grow_policy": "depthwise", "max_depth": 5})
_LEAFWISE = Recipe("leafwise", {"grow_policy": "lossguide", "max_depth": 0, "max_leaves": 16})
_SHALLOW = Recipe("shallow", {"grow_policy": "symmetric", "max_depth": 4})


def _settings(learning_rate: float, n_estimators: int, patience: int) -> dict[str, Any]:
    return {
        "learning_rate": learning_rate, "n_estimators": n_estimators, "early_stopping_rounds": patience,
        "subsample": 0.8, "colsample_bylevel": 0.8, "cat_smooth": 10.0,
    }  # fmt: skip


PLANS: Mapping[int, Plan] = {
    1: Plan((_SYMMETRIC,), 5, 1, _settings(0.1, 1_000, 30)),
    2: Plan((_SYMMETRIC,), 5, 5, _settings(0.1, 1_000, 30)),
    3: Plan((_SYMMETRIC, _DEPTHWISE), 5, 5, _settings(0.1, 2_000, 50), slower=0.05),
    4: Plan((_SYMMETRIC, _DEPTHWISE, _LEAFWISE, _SHALLOW), 5, 5, _settings(0.1, 3_000, 50), slower=0.05),
    5: Plan((_SYMMETRIC, _DEPTHWISE, _LEAFWISE, _SHALLOW), 10, 10, _settings(0.05, 5_000, 80), slower=0.03),
}
