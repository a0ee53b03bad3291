"""The settings that `frameboost.auto` tries, and the effort, by ``quality``.

They were chosen on real tables and on synthetic ones with little noise (`benchmarks/accuracy.py`). Symmetric trees win
with few rows or many columns, as all rows determine the splits of a level; leafwise and depthwise trees with local
interactions. A mean gains more from different shapes of trees than from more models of one shape, if these are about as
good.

With little noise other recipes may be far ahead: linear leaves follow smooth functions of numbers and borders between
classes that are no axes, vector leaves share what they learn from numbers between classes, and rules over categories
and codes are best learnt without sampling, and without smoothing, which outweighs the hessians of rows that are almost
certain. They are tried only there, on one fold, and must win. There the missing rows of a fold cost more than a mean of
five models gains, so they are then trained on all rows: errors are 4 to 45 % smaller, of two models or one in place of
five.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

__all__ = ["MAX_VALUES_OF_SLOPES", "PLANS", "Plan", "Recipe", "Settings", "distinct"]

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Recipe:
    """Named settings of `frameboost.fit`, used in turn by fold.

    Attributes
    ----------
    name
        The name in the leaderboard.
    shapes
        The settings; fold k uses entry k modulo their number.
    refits
        How many models are trained on all rows in place of those of the folds, each with another seed; one is enough
        if nothing is drawn.
    ahead
        By what share of the error a rival must be ahead on the first fold; below 0 it may be behind.
    series
        The name of rivals that follow each other, from shallow to deep trees: ``ahead`` is of rivals outside of it.
        Once one is clearly behind the one before, the others are not tried.
    """

    name: str
    shapes: tuple[Settings, ...]
    refits: int = 0
    ahead: float = 0.03
    series: str | None = None

    def of_fold(self, number: int) -> Settings:
        """Return the settings for a fold."""
        return self.shapes[number % len(self.shapes)]

    def with_all(self, settings: Settings) -> Recipe:
        """Return the recipe with settings for all folds."""
        return replace(self, shapes=tuple({**shape, **settings} for shape in self.shapes))

    def with_defaults(self, settings: Settings) -> Recipe:
        """Return the recipe with defaults for missing settings."""
        return replace(self, shapes=tuple({**settings, **shape} for shape in self.shapes))

    def grown_by(self, policy: str) -> Recipe:
        """Return the recipe with one growth policy; shapes of another one take the limits of that policy's trees."""
        limits = {"grow_policy", "max_depth", "max_leaves"}
        shapes = (
            shape
            if shape.get("grow_policy") == policy
            else {**_GROWTHS[policy], **{name: value for name, value in shape.items() if name not in limits}}
            for shape in self.shapes
        )
        return replace(self, shapes=tuple(shapes))

    def has(self, setting: str) -> bool:
        """Whether it has a setting."""
        return any(setting in shape for shape in self.shapes)


@dataclass(frozen=True)
class Plan:
    """The plan for a quality.

    Attributes
    ----------
    recipes
        The recipes to try, the most promising first.
    folds
        The number of folds.
    trained
        The number of folds to hold out for each recipe.
    settings
        The common settings.
    has_few_bins
        Whether few rows have fewer bins.
    leads
        Recipes that are tried first, on the first fold; one takes the place of those before if it is ahead of them. It
        is the only one if it shows little noise there, and a rival otherwise.
    rivals
        Recipes that replace the first one if they are clearly better on the first fold, in groups: the first group with
        such a recipe is the last one to be tried. They are tried only where there is little noise.
    """

    recipes: tuple[Recipe, ...]
    folds: int
    trained: int
    settings: Settings
    has_few_bins: bool = False
    leads: tuple[Recipe, ...] = ()
    rivals: tuple[tuple[Recipe, ...], ...] = ()

    def max_bin_of(self, n_rows: int) -> int | None:
        """Return ``max_bin`` for few rows, where bins take longer to search than to sum; None for the default."""
        return next((bins for most, bins in _BINS_BY_ROWS if n_rows <= most and self.has_few_bins), None)

    def for_size(self, n_values: int) -> Plan:
        """Return the plan for this many values: the more rows, the less another fold adds."""
        most = next((folds for limit, folds in _FOLDS_BY_VALUES if n_values <= limit), 1)
        plan = replace(self, trained=min(self.trained, most))
        return plan if n_values <= MAX_VALUES_OF_SLOPES else plan.without(*_SLOW)

    def with_folds(self, most: int) -> Plan:
        """Return the plan with at most this many folds, and at least two."""
        folds = max(2, min(self.folds, most))
        return replace(self, folds=folds, trained=min(self.trained, folds))

    def without(self, *settings: str) -> Plan:
        """Return the plan without recipes that have one of these settings."""
        return self.each(lambda some: (recipe for recipe in some if not any(map(recipe.has, settings))))

    def without_slopes_of_all(self) -> Plan:
        """Return the plan without linear leaves of all outputs, of which few fit into a limited query."""
        both = {"linear_tree", "multi_strategy"}
        return self.each(lambda some: (recipe for recipe in some if not all(map(recipe.has, both))))

    def with_refits(self) -> Plan:
        """Return the plan with at least one model of all rows for each recipe."""
        return self.each(lambda some: (replace(recipe, refits=max(1, recipe.refits)) for recipe in some))

    def each(self, change: Callable[[Iterable[Recipe]], Iterable[Recipe]]) -> Plan:
        """Return the plan with changed recipes; ``change`` is called with the recipes and each group of rivals."""
        recipes, leads, *rivals = (tuple(change(some)) for some in (self.recipes, self.leads, *self.rivals))
        return replace(self, recipes=recipes, leads=leads, rivals=tuple(rivals))

    def without_leads(self) -> Plan:
        """Return the plan with the leads as rivals like others."""
        return replace(self, leads=(), rivals=(self.leads, *self.rivals)) if self.leads else self


# The maximum number of bins for data of at most so many rows. On 65 tables of up to 20,000 rows 128 instead of 256 take
# 7 % less time, and errors are the same in the geometric mean. On 20 of up to 533 rows 64 instead of 128 take 13 % less
# time, with errors of 0.967, 0.99 without the smallest; on 35 tables more with errors of 0.992.
_BINS_BY_ROWS = ((1 << 9, 64), (1 << 15, 128))
# The number of folds for data of at most this many values.
_FOLDS_BY_VALUES = ((2**22, 10), (2**25, 3))
# The maximum number of values to try options that take several times as long.
MAX_VALUES_OF_SLOPES, _SLOW = 2**22, ("linear_tree", "multi_strategy")
_SYMMETRIC = {"grow_policy": "symmetric", "max_depth": 6}
_LEAFWISE = {"grow_policy": "lossguide", "max_depth": 0, "max_leaves": 16}
_DEPTHWISE = {"grow_policy": "depthwise", "max_depth": 5}
_GROWTHS: Mapping[str, Settings] = {
    "symmetric": _SYMMETRIC, "lossguide": _LEAFWISE, "depthwise": _DEPTHWISE
}  # fmt: skip
_SHALLOW = {"grow_policy": "symmetric", "max_depth": 4}
_ONE = Recipe("symmetric", (_SYMMETRIC,))
_MIXED = Recipe("symmetric and leafwise", (_SYMMETRIC, _LEAFWISE))
_SLOPES = {"grow_policy": "symmetric", "linear_tree": True}
_VECTORS = {**_SHALLOW, "multi_strategy": "multi_output_tree", "reg_lambda": 0.3}
# Rules have no noise that large steps would learn.
_ALL_ROWS = {
    "subsample": 1.0, "colsample_bylevel": 1.0, "cat_smooth": 0.0, "learning_rate": 0.15, "max_learning_rate": 0.5
}  # fmt: skip
# Where a fold of theirs is somewhat worse, they are as good on all rows, in a fraction of the SQL.
_FOR_ALL = (
    Recipe("for all outputs", (_VECTORS,), refits=2, ahead=-0.1),
    Recipe("linear, for all outputs", ({**_VECTORS, "max_depth": 3, "linear_tree": True},), refits=2),
)
# The mean of five gains more where trees are deep: two models of all rows must be further ahead of one of its folds.
_RIVALS = (
    (
        *(
            Recipe(
                f"linear, depth {depth}",
                ({**_SLOPES, "max_depth": depth},),
                refits=2,
                ahead=0.03 if depth <= 3 else 0.15,
                series="linear",
            )
            for depth in range(1, 7)
        ),
        Recipe("all rows, shallow", ({**_SHALLOW, **_ALL_ROWS},), refits=1, ahead=0.08),
        Recipe("all rows", ({**_SYMMETRIC, **_ALL_ROWS},), refits=1, ahead=0.08),
        Recipe("all rows, leafwise", ({**_LEAFWISE, **_ALL_ROWS},), refits=1, ahead=0.08),
    ),
    (Recipe("leafwise", (_LEAFWISE,), refits=2),),
)
_EACH = (_ONE, Recipe("leafwise", (_LEAFWISE,)), Recipe("depthwise", (_DEPTHWISE,)), Recipe("shallow", (_SHALLOW,)))


def _quick(recipes: Iterable[Recipe], steps: Settings) -> tuple[Recipe, ...]:
    """Return the recipes, those of linear leaves with these steps."""
    return tuple(recipe.with_all(steps) if recipe.has("linear_tree") else recipe for recipe in recipes)


def _settings(rates: tuple[float, float], n_estimators: int, patience: int) -> dict[str, Any]:
    """Return settings with a growing learning rate, which saves time at no loss when many rounds are needed."""
    return {
        "learning_rate": rates[0], "max_learning_rate": rates[1], "n_estimators": n_estimators,
        "early_stopping_rounds": patience,
        "subsample": 0.8, "colsample_bylevel": 0.8, "min_child_weight": 1e-3,
    }  # fmt: skip


# Linear leaves are as good with larger steps, in three quarters of the time. For all outputs they may be larger still,
# and rounds fewer: on 60 folds of 37 tables of many classes errors are 0.999, in four fifths of the time.
_LARGER = {"learning_rate": 0.1, "max_learning_rate": 0.35}
_LARGEST = {"learning_rate": 0.15, "max_learning_rate": 0.5, "n_estimators": 600}
_RACE = _quick(_FOR_ALL, _LARGEST), tuple(_quick(group, _LARGER) for group in _RIVALS)
_USUAL = _settings((0.07, 0.25), 1_000, 50)

PLANS: Mapping[int, Plan] = {
    1: Plan((_ONE,), 5, 1, _settings((0.1, 0.1), 1_000, 30), True),
    2: Plan((_MIXED,), 5, 3, _USUAL, True, *_RACE),
    3: Plan((_MIXED,), 5, 5, _USUAL, True, *_RACE),
    4: Plan((*_EACH[:3], *_FOR_ALL, *chain(*_RIVALS)), 5, 5, _settings((0.05, 0.1), 2_000, 50)),
    5: Plan((*_EACH, *_FOR_ALL, *chain(*_RIVALS)), 10, 10, _settings((0.03, 0.05), 5_000, 80)),
}


def distinct(recipes: Iterable[Recipe]) -> list[Recipe]:
    """Return the recipes without duplicates of earlier settings."""
    kept: list[Recipe] = []
    for recipe in recipes:
        if all(recipe.shapes != other.shapes for other in kept):
            kept.append(recipe)
    return kept
