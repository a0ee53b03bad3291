"""The settings that `frameboost.auto` tries, and how thoroughly, by ``quality``.

They were chosen on real tables (`benchmarks/accuracy.py`). Symmetric trees are ahead where rows are few or columns are
many, as the splits of a level are chosen from all rows; leafwise and depthwise trees where interactions are local. A
mean of models gains more from models of different shapes than from more models of one. Slopes in leaves follow smooth
relations of numbers: errors of 37 regressions are 1 % smaller, of a tenth of these 3 % to 10 %, in several times the
time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["MAX_VALUES_OF_SLOPES", "PLANS", "Plan", "Recipe", "distinct"]

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Recipe:
    """Settings of `frameboost.fit` under a name: one for each fold in turn.

    Attributes
    ----------
    name
        What the leaderboard calls it.
    shapes
        The settings; fold k has those at k modulo their number.
    """

    name: str
    shapes: tuple[Settings, ...]

    def of_fold(self, number: int) -> Settings:
        """Return the settings for a fold."""
        return self.shapes[number % len(self.shapes)]

    def with_all(self, settings: Settings) -> Recipe:
        """Return the recipe with settings that hold for all folds."""
        return replace(self, shapes=tuple({**shape, **settings} for shape in self.shapes))


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
    max_bin
        The most bins of a feature where rows are few; None for those of `frameboost.fit`.
    """

    recipes: tuple[Recipe, ...]
    folds: int
    trained: int
    settings: Settings
    max_bin: int | None = None

    def max_bin_of(self, n_rows: int) -> int | None:
        """Return `max_bin` where rows are few: there the search in bins takes longer than their sums."""
        return None if n_rows > _FEW_ROWS else self.max_bin

    def for_size(self, n_values: int) -> Plan:
        """Return the plan for so many values: the more rows, the less another fold adds to a model."""
        most = next((folds for limit, folds in _FOLDS_BY_VALUES if n_values <= limit), 1)
        plan = replace(self, trained=min(self.trained, most))
        return plan if n_values <= MAX_VALUES_OF_SLOPES else plan.without_slopes()

    def without_slopes(self) -> Plan:
        """Return the plan without trees whose leaves have slopes."""
        recipes = [recipe for recipe in self.recipes if not any("linear_tree" in shape for shape in recipe.shapes)]
        return replace(self, recipes=tuple(recipes))


# Up to so many rows fits have fewer bins. On 65 tables of up to 20,000 rows 128 in place of 256 take 7 % less time, and
# errors are the same in the geometric mean.
_FEW_ROWS = 1 << 15
# On how many folds to train data of at most so many values.
_FOLDS_BY_VALUES = ((2**22, 10), (2**25, 3))
# Of how many values at most to try slopes, with which fits and predictions take several times as long.
MAX_VALUES_OF_SLOPES = 2**22
_SYMMETRIC = {"grow_policy": "symmetric", "max_depth": 6}
_LEAFWISE = {"grow_policy": "lossguide", "max_depth": 0, "max_leaves": 16}
_DEPTHWISE = {"grow_policy": "depthwise", "max_depth": 5}
_SHALLOW = {"grow_policy": "symmetric", "max_depth": 4}
_ONE = Recipe("symmetric", (_SYMMETRIC,))
_MIXED = Recipe("symmetric and leafwise", (_SYMMETRIC, _LEAFWISE))
_LINEAR = Recipe("linear", ({**_SYMMETRIC, "linear_tree": True}, {**_LEAFWISE, "linear_tree": True}))
_EACH = (_ONE, Recipe("leafwise", (_LEAFWISE,)), Recipe("depthwise", (_DEPTHWISE,)), Recipe("shallow", (_SHALLOW,)))


def _settings(rates: tuple[float, float], n_estimators: int, patience: int) -> dict[str, Any]:
    """Return settings; the learning rate grows, as where many rounds are needed, larger steps save time at no loss."""
    return {
        "learning_rate": rates[0], "max_learning_rate": rates[1], "n_estimators": n_estimators,
        "early_stopping_rounds": patience,
        "subsample": 0.8, "colsample_bylevel": 0.8, "cat_smooth": 10.0,
    }  # fmt: skip


_RATES, _PATIENCE = (0.07, 0.25), 25

PLANS: Mapping[int, Plan] = {
    1: Plan((_ONE,), 5, 1, _settings((0.1, 0.1), 1_000, 30), 128),
    2: Plan((_MIXED,), 5, 3, _settings(_RATES, 1_000, _PATIENCE), 128),
    3: Plan((_MIXED,), 5, 5, _settings(_RATES, 1_000, _PATIENCE), 128),
    4: Plan((*_EACH[:3], _LINEAR), 5, 5, _settings((0.05, 0.1), 2_000, 50)),
    5: Plan((*_EACH, _LINEAR), 10, 10, _settings((0.03, 0.05), 5_000, 80)),
}


def distinct(recipes: Sequence[Recipe]) -> tuple[Recipe, ...]:
    """Return the recipes without those whose settings an earlier one has."""
    kept: list[Recipe] = []
    for recipe in recipes:
        if all(recipe.shapes != other.shapes for other in kept):
            kept.append(recipe)
    return tuple(kept)
