"""A recipe trained on folds, and its margins on the rows that each fit held out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from frameboost.data.sources import RelationSource, open_source, read_relation
from frameboost.model.model import Model
from frameboost.schema.polars_columns import column
from frameboost.tuning.deadline import Deadline
from frameboost.tuning.recipes import Recipe

__all__ = ["Fold", "Trial", "Trials"]

# Held-out rows of a relation that are read to choose between recipes.
_MOST_READ = 2**20

Train = Callable[..., Model]
"""`frameboost.fit` with all arguments but the data, ``valid``, ``callbacks``, ``checkpoint`` and the recipe's."""


@dataclass(frozen=True)
class Fold:
    """A part of the rows.

    Attributes
    ----------
    number
        Its number, from 0.
    training
        The other rows.
    held_out
        Its rows: a lazy frame or a relation.
    columns
        The features and the columns with a role.
    """

    number: int
    training: Any
    held_out: Any
    columns: Sequence[str]

    def rows(self) -> pl.DataFrame:
        """Return its rows, of a relation the first 1,048,576."""
        source = open_source(self.held_out)
        if isinstance(source, RelationSource):
            return read_relation(source.relation.limit(_MOST_READ)).select([column(name) for name in self.columns])
        return source.to_frame(self.columns).collect()


@dataclass
class Trial:
    """A recipe and its fits.

    Attributes
    ----------
    number
        Its place among all trials, from 1.
    recipe
        The settings.
    models
        The models by the number of the fold that they held out.
    seconds
        How long the fits took, all together.
    is_complete
        Whether no fit was stopped by the time limit.
    """

    number: int
    recipe: Recipe
    models: dict[int, Model] = field(default_factory=dict)
    seconds: float = 0.0
    is_complete: bool = True

    @property
    def score(self) -> float:
        """The mean over folds of the metric on held-out rows."""
        return sum(model.best_score or 0.0 for model in self.models.values()) / len(self.models)

    @property
    def rounds(self) -> float:
        """The mean number of rounds that early stopping kept."""
        return sum(model.n_rounds for model in self.models.values()) / len(self.models)


class Trials:
    """Trains recipes on folds until the time is over.

    Parameters
    ----------
    folds
        The folds that are held out in turn.
    train
        Trains a model.
    deadline
        When to stop.
    checkpoint
        A folder for the checkpoints of the fits, or None.
    tell
        Called with a line about what is going on.
    """

    def __init__(
        self,
        folds: Sequence[Fold],
        train: Train,
        deadline: Deadline,
        checkpoint: Path | None,
        tell: Callable[[str], None],
    ) -> None:
        self._folds, self._train, self._deadline = folds, train, deadline
        self._checkpoint, self._tell = checkpoint, tell

    def run(self, recipes: Sequence[Recipe]) -> list[Trial]:
        """Return the trials that have a model for each fold, or else the first with those that it has."""
        trials: list[Trial] = []
        for number, recipe in enumerate(recipes, 1):
            trial = self._trial(number, recipe, must_fit=not trials)
            if not trials or (trial.is_complete and len(trial.models) == len(trials[0].models)):
                trials.append(trial)
            if not trial.is_complete:
                break
        return trials

    def _trial(self, number: int, recipe: Recipe, *, must_fit: bool) -> Trial:
        trial = Trial(number, recipe)
        for fold in self._folds:
            if not (must_fit and not trial.models) and not self._deadline.allows(recipe.name):
                trial.is_complete = False
                break
            self._tell(f"{recipe.name} trees, fold {fold.number + 1} of {len(self._folds)}")
            start = time.monotonic()
            model = self._train(
                fold.training, valid=fold.held_out, callbacks=self._callbacks(),
                checkpoint=self._path(recipe, fold), **recipe.settings,
            )  # fmt: skip
            taken = time.monotonic() - start
            trial.seconds += taken
            self._deadline.took(recipe.name, taken)
            if self._deadline.is_over and self._deadline.was_too_short:
                trial.is_complete = False
                if not trial.models:
                    trial.models[fold.number] = model
                break
            trial.models[fold.number] = model
        return trial

    def on_all_rows(self, trial: Trial, rows: Any) -> Model:
        """Return a model trained on all rows with the settings of a trial and its number of rounds.

        If there is no time for it, return the model of the trial.
        """
        (model,) = trial.models.values()
        if not self._deadline.allows(trial.recipe.name):
            return model
        self._tell(f"{trial.recipe.name} trees, all rows")
        settings = {name: value for name, value in trial.recipe.settings.items() if name != "early_stopping_rounds"}
        return self._train(rows, **settings | {"n_estimators": model.n_rounds})

    def _callbacks(self) -> list[Callable[[int, Mapping[str, float]], bool]]:
        return [] if self._deadline.seconds is None else [self._deadline.stops]

    def _path(self, recipe: Recipe, fold: Fold) -> Path | None:
        return None if self._checkpoint is None else self._checkpoint / f"{recipe.name}-{fold.number}.checkpoint"
