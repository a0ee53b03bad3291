"""Train recipes on folds up to the time limit, and compute margins on their held-out rows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.checks.messages import shown
from frameboost.data.opening import open_source
from frameboost.data.sources import LocalSource, RelationSource, read_relation
from frameboost.ensemble.averaging import scaled
from frameboost.errors import DataError, ParameterError
from frameboost.fold_models import errors_without_fold
from frameboost.losses.loss import Loss
from frameboost.metrics.metric import Metric, as_function, larger_is_better, why_not_finite
from frameboost.model.model import Model
from frameboost.planning import FitPlan
from frameboost.prediction.predictor import Predictor
from frameboost.schema.types import column
from frameboost.tuning.recipes import Plan, Recipe, Settings
from frameboost.tuning.sharpening import sharpness

__all__ = ["MOST_READ", "Deadline", "Fold", "Trial", "Trials", "deciding_metric"]

# Held-out rows of a relation that are read to choose between recipes.
MOST_READ = 2**20
# A trial is given up after so many folds, if its metric is behind by this share.
_JUDGED_BY, _BEHIND = 2, 0.03
# No more of a series is tried after a rival that is behind the one before by this share; deeper trees must be ahead of
# shallower ones by the other.
_CLEARLY, _DEEPER = 0.05, 0.01
# A fit of a race ends once its error would not win although it fell in half of the rounds that are left as in the last
# quarter of those so far, or the last so many, by the same share each. On 110 tables races take 30 % less time and have
# the same winners but for one that is better.
_PACE, _OF_ROUNDS, _OF_ROUNDS_LEFT = 50, 0.25, 0.5
# The metrics of losses whose margins `sharpness` multiplies.
_OF_SHARES = ("logloss", "mlogloss")
# There is little noise if the error of the best round is below this share of the first round's.
_LITTLE = 0.4

Train = Callable[..., Model]
"""Trains a plan, with ``callbacks`` and a ``checkpoint``."""


def deciding_metric(metric: str | Metric | None, loss: Loss) -> tuple[str | Metric, bool]:
    """Return the metric that early stopping watches, and whether larger values are better."""
    metric = metric or loss.metric
    named = as_function(metric) or metric
    return metric, larger_is_better(named if isinstance(named, str) else named.name, metric)


def _threads_of_fits(n_fits: int, at_once: int, n_threads: int | None) -> list[dict[str, int]]:
    """Return ``n_jobs`` of each fit: parallel fits share the threads; the last batch may be smaller.

    >>> _threads_of_fits(5, 2, 2)
    [{'n_jobs': 1}, {'n_jobs': 1}, {'n_jobs': 1}, {'n_jobs': 1}, {'n_jobs': 2}]
    """
    if n_threads is None:
        return [{} for _ in range(n_fits)]
    together = [min(at_once, n_fits - k // at_once * at_once) for k in range(n_fits)]
    return [{"n_jobs": max(1, n_threads // n)} for n in together]


@dataclass(frozen=True, eq=False)
class Fold:
    """A held-out part of the rows.

    Attributes
    ----------
    number
        Its index, from 0.
    training
        The other rows.
    held_out
        Its rows, as a source or a lazy frame; None for a model of all rows.
    columns
        The features, the columns with a role, and the position column, if there is one.
    """

    number: int
    training: Any
    held_out: Any
    columns: Sequence[str]

    def rows(self) -> pl.DataFrame:
        """Return its rows, of a relation the first 1,048,576."""
        source = open_source(self.held_out)
        if isinstance(source, RelationSource):
            return read_relation(source.relation.limit(MOST_READ)).select([column(name) for name in self.columns])
        return source.to_frame(self.columns).collect()


@dataclass
class Trial:
    """A recipe and its fits.

    Attributes
    ----------
    recipe
        The settings.
    models
        The models by the number of the fold that they held out.
    margins
        Their margins on these rows by fold and output, where they decide something.
    whole
        Models of all rows by number, which take the place of those of the folds in the mean.
    seconds
        How long the fits took by the clock; some run side by side.
    """

    recipe: Recipe
    models: dict[int, Model] = field(default_factory=dict)
    margins: dict[int, list[npt.NDArray[np.float64]]] = field(default_factory=dict)
    whole: dict[int, Model] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def any_model(self) -> Model:
        """A model of the trial."""
        return next(iter(self.models.values()))

    def score(self, folds: Iterable[int]) -> float:
        """Return the mean over folds of the metric on held-out rows, at the best rounds; NaN if none has a value.

        A fold without a finite metric in any round is ignored.
        """
        scores = [score for fold in folds if (score := self.models[fold].best_score) is not None]
        return fmean(scores) if scores else math.nan

    @property
    def kept(self) -> list[Model]:
        """The models of the mean."""
        return list((self.whole or self.models).values())

    @property
    def rounds(self) -> float:
        """The mean number of rounds of the models of the mean."""
        return fmean(model.n_rounds for model in self.kept)

    @property
    def leaves(self) -> int:
        """The number of leaves of all trees of the mean, which its SQL is as long as."""
        return sum(model.ensemble.n_leaves for model in self.kept)


class _MustBeFinite:
    """A callback of a fit that ends a search by a metric without a finite value, which would never stop."""

    def __init__(self, patience: int | None) -> None:
        self._patience, self._is_finite = patience, False

    def __call__(self, round_: int, metrics: Mapping[str, float]) -> None:
        """Raise `DataError` if no round has had a finite value for as long as early stopping waits, if it does."""
        if self._patience is None:
            return
        name, value = list(metrics.items())[-1]
        self._is_finite = self._is_finite or math.isfinite(value)
        if not self._is_finite and round_ >= self._patience:
            name = name.removeprefix("valid_")
            raise DataError(
                f"eval_metric {shown(name)} is {value} on that fold after each of {round_} rounds"
                f"{why_not_finite(name)}; settings and rounds can't be chosen by it: set another eval_metric"
            )


class _CannotWin:
    """A callback of a fit that ends one that is unlikely to win a race (`_PACE`).

    Parameters
    ----------
    to_beat
        The error to be below.
    n_estimators
        The maximum number of rounds.
    """

    def __init__(self, to_beat: float, n_estimators: int) -> None:
        self._to_beat, self._n_estimators = to_beat, n_estimators
        self._least = [math.inf]  # after each round of this call: those of a checkpoint call nothing

    def __call__(self, round_: int, metrics: Mapping[str, float]) -> bool:
        """Return whether the fit should stop after this round; shares mean nothing unless errors are positive."""
        *_, error = metrics.values()
        least = min(self._least[-1], float(error))
        self._least.append(least)
        pace = max(_PACE, int(len(self._least) * _OF_ROUNDS))
        if len(self._least) <= 1 + pace or least <= 0.0 or self._to_beat <= 0.0:
            return False
        paces_left = (self._n_estimators - round_) * _OF_ROUNDS_LEFT / pace
        return least * math.pow(least / self._least[-1 - pace], paces_left) > self._to_beat


class Trials:
    """Trains recipes on folds until the time is over.

    Parameters
    ----------
    folds, rows
        The folds that are held out in turn, and all rows.
    plan, train
        The plan of a fit on all rows, and what trains one like it.
    deadline
        When to stop.
    metric
        The metric that early stopping watches, None for that of the objective.
    at_once
        How many fits to run side by side.
    n_threads
        The threads that these share; None to leave it to ``train``.
    checkpoint, checkpoint_every
        A folder for the checkpoints of the fits, or None; and the number of rounds from one write to the next.
    tell
        Called with a line about what is going on.
    """

    def __init__(
        self,
        folds: Sequence[Fold],
        rows: LocalSource,
        plan: FitPlan,
        train: Train,
        deadline: Deadline,
        metric: str | Metric | None,
        *,
        at_once: int,
        n_threads: int | None = None,
        checkpoint: Path | None,
        checkpoint_every: int,
        tell: Callable[[str], None],
    ) -> None:
        self.folds, self._rows, self._plan, self._train = folds, rows, plan, train
        self._deadline, self._metric = deadline, metric
        self._at_once, self._n_threads, self._checkpoint, self._tell = at_once, n_threads, checkpoint, tell
        self._checkpoint_every = checkpoint_every

    def run(self, plan: Plan) -> tuple[list[Trial], list[Trial]]:
        """Return a trial of each recipe that there was time for, and those that lost the race to be the first.

        The first trial has at least one model. A trial is given up once its metric is clearly behind that of another on
        the same folds. A rival that wins against the first recipe on the first fold takes its place, and is trained on
        no other fold.
        """
        first, *others = map(Trial, plan.recipes)
        winner, *losers = self._race(first, plan)
        trials = [winner if winner is not first else self._trial(first, [], self.folds)]
        for trial in others:
            if not self._deadline.allows(trial.recipe.name):
                break
            trials.append(self._trial(trial, trials, self.folds))
        return [trial for trial in trials if trial.models], [trial for trial in losers if trial.models]

    def _race(self, first: Trial, plan: Plan) -> list[Trial]:
        """Return the trials of a recipe, the leads and its rivals on the first fold, the winner first; see `Plan`.

        Without leads or rivals nothing is trained. There is no race by a metric of which larger values are better.
        """
        fold, winner = self.folds[0], 0
        if not plan.leads and not plan.rivals:
            return [first]
        leads = self._race_of_leads(plan.leads, fold)
        if leads and (self._has_little_noise(leads[0]) or not self._deadline.allows(first.recipe.name)):
            return [*leads, first]
        to_beat = math.inf
        if leads and not self._maximizes(leads[0]):
            to_beat = leads[0].score([fold.number]) / (1 - plan.leads[0].ahead)
        self._fit([fold], first, is_needed=not leads, to_beat=to_beat)
        if not first.models:  # the time was over
            return [*leads, first]
        trials = [first, *leads]
        if self._maximizes(first):
            return trials
        least = first.score([fold.number])
        if least > to_beat:
            return [*leads, first]
        errors: dict[str, list[float]] = {first.recipe.name: [least]}  # by series
        for group in plan.rivals if self._has_little_noise(first) else ():
            for rival in group:
                of_series = errors.setdefault(rival.series or rival.name, [])
                is_past = len(of_series) > 1 and of_series[-1] > (1 + _CLEARLY) * of_series[-2]
                if is_past or not self._deadline.allows(rival.name):
                    continue
                least = min(chain.from_iterable(each for each in errors.values() if each is not of_series))
                to_beat = min((1 - rival.ahead) * least, (1 - _DEEPER) * min(of_series, default=math.inf))
                trial = Trial(rival)
                self._fit([fold], trial, to_beat=to_beat)
                error = trial.score([fold.number]) if trial.models else math.inf
                if error < to_beat:
                    winner = len(trials)
                of_series.append(error)
                trials.append(trial)
            if winner:
                break
        return [trials.pop(winner), *trials]

    def _race_of_leads(self, recipes: Sequence[Recipe], fold: Fold) -> list[Trial]:
        """Return the trials of recipes on a fold, the winner first: the last one that is ahead of those before."""
        trials: list[Trial] = []
        for recipe in recipes:
            if trials and not self._deadline.allows(recipe.name):
                break
            trial = Trial(recipe)
            to_beat = (1 - recipe.ahead) * trials[0].score([fold.number]) if trials else math.inf
            self._fit([fold], trial, is_needed=not trials, to_beat=to_beat)
            if trials and not trial.models:  # the time was over
                break
            if trial.score([fold.number]) >= to_beat:
                trials.append(trial)
            else:
                trials.insert(0, trial)
            if self._maximizes(trial):
                break
        return trials

    def _has_little_noise(self, trial: Trial) -> bool:
        """Whether less than `_LITTLE` of the first round's error is left after the best round on the first fold."""
        first_error = float(trial.any_model.history.to_series(-1)[0])
        return not self._maximizes(trial) and 0.0 < trial.score(trial.models) < _LITTLE * first_error

    def _maximizes(self, trial: Trial) -> bool:
        """Whether larger values of the deciding metric are better: functions say so once a model is trained."""
        return deciding_metric(self._metric, trial.any_model.ensemble.loss)[1]

    def _trial(self, trial: Trial, others: Sequence[Trial], folds: Sequence[Fold]) -> Trial:
        missing = [fold for fold in folds if fold.number not in trial.models]
        # It is judged once, by the same folds on any number of threads.
        for some in (missing[:_JUDGED_BY], missing[_JUDGED_BY:]) if others else (missing,):
            if others and self._is_behind(trial, others):
                break
            # All at once, unless the time may end the trial.
            size = len(folds) if self._deadline.seconds is None else self._at_once
            for start in range(0, len(some), size):
                is_needed = not others and not trial.models
                if not is_needed and not self._deadline.allows(trial.recipe.name):
                    return trial
                self._fit(some[start : start + size], trial, is_needed=is_needed)
        return trial

    def _is_behind(self, trial: Trial, others: Sequence[Trial]) -> bool:
        folds = trial.models.keys()
        if len(folds) < _JUDGED_BY:
            return False
        sign = -1.0 if self._maximizes(trial) else 1.0
        best = min((sign * other.score(folds) for other in others if folds <= other.models.keys()), default=None)
        return best is not None and sign * trial.score(folds) > best + _BEHIND * abs(best)

    def _fit(
        self, folds: Sequence[Fold], trial: Trial, settings: Settings = MappingProxyType({}), *,
        is_needed: bool = False, to_beat: float = math.inf,
    ) -> None:  # fmt: skip
        """Train a model for each fold; one that the time limit stopped is kept only where it ``is_needed``.

        ``settings`` are set in addition to those of the recipe; ``to_beat`` is the error that wins a race.
        """
        recipe, begun = trial.recipe, time.monotonic()
        is_whole = folds[0].held_out is None
        part = "all rows" if is_whole else f"fold {folds[0].number + 1} of {len(self.folds)}"
        self._tell(f"{recipe.name} trees, {part}")
        with ThreadPoolExecutor(self._at_once) as pool:
            try:
                threads = _threads_of_fits(len(folds), self._at_once, self._n_threads)
                running = {
                    pool.submit(self._model, recipe, fold, {**settings, **each}, to_beat): fold
                    for fold, each in zip(folds, threads, strict=True)
                }
                margins = {}
                for fit in as_completed(running):
                    model, _, was_stopped = fit.result()
                    if not is_whole and (is_needed or not was_stopped):
                        # After all fits in the queue: a thread computes them while others are still fitting.
                        margins[running[fit]] = pool.submit(self._margins, model, running[fit])
                margins_of = {fold: done.result() for fold, done in margins.items()}
            except BaseException:  # such as Ctrl-C, which reaches this thread alone
                self._deadline.cancel()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        for fit, fold in running.items():
            model, seconds, was_stopped = fit.result()
            self._deadline.took(recipe.name, seconds)
            if is_needed and was_stopped and model.n_rounds == 1 and not trial.models:
                raise ParameterError(
                    f"time_limit={self._deadline.seconds:g} is too short for one fit, whose first round ended "
                    f"{seconds:.2g} seconds after its start"
                )
            if fold in margins_of:
                trial.models[fold.number], trial.margins[fold.number] = model, margins_of[fold]
            elif is_whole and not was_stopped:
                trial.whole[fold.number] = model
        trial.seconds += time.monotonic() - begun

    def _margins(self, model: Model, fold: Fold) -> list[npt.NDArray[np.float64]]:
        """Return the margins of a model on its fold by output."""
        from frameboost.compile.arrays.flat_trees import TreeArrays  # late, as numba comes with it

        ensemble, rows = model.ensemble, fold.rows()
        types, predictor = ensemble.find_in(open_source(rows)), Predictor(ensemble)
        if ensemble.is_linear:
            sums = predictor.sums(rows.lazy(), types, ensemble.base_margins)
        else:  # for one call flat arrays are compiled in the least time
            arrays = TreeArrays.compile(ensemble.trees, ensemble.features)
            sums = list(arrays.margins(arrays.codes(rows.lazy(), types), ensemble.base_margins, in_parallel=False))
        return [np.asarray(margin) for margin in predictor.with_offset(rows, sums)]

    def _model(
        self, recipe: Recipe, fold: Fold, more: Settings, to_beat: float = math.inf
    ) -> tuple[Model, float, bool]:
        """Return a model, how long its fit took, and whether the time limit stopped it."""
        start, stop = time.monotonic(), _Stop(self._deadline)
        is_whole, settings = fold.held_out is None, {**recipe.of_fold(fold.number), **more}
        if is_whole:
            settings["seed"] = self._plan.settings.seed + fold.number
        plan = self._plan.of_part(fold.training, fold.held_out, settings)
        path = saved = None
        if self._checkpoint is not None:
            from frameboost.training.checkpoint import Checkpoint  # late, as numba comes with it

            part = f"all-{fold.number}" if is_whole else fold.number
            path = self._checkpoint / f"{recipe.name}-{plan.settings.learning_rate}-{part}.checkpoint"
            saved = Checkpoint(path, self._checkpoint_every)
        callbacks: list[Any] = [_MustBeFinite(plan.settings.early_stopping_rounds), stop]
        if to_beat < math.inf:
            callbacks.append(_CannotWin(to_beat, plan.settings.n_estimators))
        with nullcontext() if is_whole else errors_without_fold(fold.number, self._train, self._plan):
            model = self._train(plan, callbacks=callbacks, checkpoint=saved)
        if stop.has_stopped and path is not None:
            path.unlink()  # or it would be taken for finished
        return model, time.monotonic() - start, stop.has_stopped

    def model_of(self, recipe: Recipe, fold_number: int) -> Model | None:
        """Return the model of a recipe on one fold; None if there is no time for it."""
        if not self._deadline.allows(recipe.name):
            return None
        fold = next(fold for fold in self.folds if fold.number == fold_number)
        self._tell(f"{recipe.name} trees, larger steps")
        model, _, was_stopped = self._model(recipe, fold, {})
        return None if was_stopped else model

    def refit(self, trial: Trial) -> None:
        """Train models of all rows with the settings of a trial, if there is time.

        They have as many more rounds than early stopping chose as they have more rows, up to ``n_estimators``. Models
        that draw rows or features differ by their seed; one is enough if nothing is drawn. Margins of classes are
        sharpened.
        """
        if not self._deadline.allows(trial.recipe.name):
            return
        rows = fmean(open_source(fold.training).count_rows() for fold in self.folds if fold.number in trial.models)
        rounds = fmean(model.n_rounds for model in trial.models.values()) * self._rows.count_rows() / rows
        n_estimators = min(max(1, round(rounds)), trial.recipe.of_fold(0)["n_estimators"])
        whole = [Fold(number, self._rows, None, ()) for number in range(trial.recipe.refits)]
        self._fit(whole, trial, {"early_stopping_rounds": None, "n_estimators": n_estimators})
        models = list(trial.whole.values())
        if models and all(model.ensemble.trees == models[0].ensemble.trees for model in models):
            models = models[:1]
        factor = self._sharpness(trial) if models else 1.0
        trial.whole = {number: Model(scaled(model.ensemble, factor)) for number, model in enumerate(models)}

    def _sharpness(self, trial: Trial) -> float:
        """Return the factor of the margins of models of all rows; 1 without classes, or if these are weighted."""
        roles, loss = self._plan.roles, trial.any_model.ensemble.loss
        is_weighted = loss.class_weights or self._plan.settings.scale_pos_weight != 1
        if loss.metric not in _OF_SHARES or len(loss.labels) > 1 or is_weighted or trial.any_model.offset:
            return 1.0
        held_out = [fold for fold in self.folds if fold.number in trial.models]
        rows = pl.concat([fold.rows() for fold in held_out])
        of_folds = [trial.margins.get(fold.number) or self._margins(trial.models[fold.number], fold)
                    for fold in held_out]  # fmt: skip
        margins = [np.concatenate(of_output) for of_output in zip(*of_folds, strict=True)]
        numbers = {role: rows[roles[role]].cast(pl.Float64).to_numpy() for role in ("label", "weight") if role in roles}
        return sharpness(margins, numbers["label"], numbers.get("weight"))


# --- the time limit ---------------------------------------------------------------------------------------------------

# The share of the limit that is kept for joining the models; and seconds for what few rows need too, of a short limit
# this share.
_RESERVE, _SECONDS, _OF_SHORT = 0.05, 0.1, 0.15


class Deadline:
    """The time limit of a search; without one there is always time.

    Parameters
    ----------
    seconds
        The limit, from now on, or None.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._start = time.monotonic()
        self._longest: dict[str, float] = {}
        self.is_cancelled = False

    def cancel(self) -> None:
        """End fits in other threads at once, without a model."""
        self.is_cancelled = True

    @property
    def left(self) -> float:
        """The seconds for training that are left."""
        if self.seconds is None:
            return float("inf")
        reserve = self.seconds * _RESERVE + min(_SECONDS, self.seconds * _OF_SHORT)
        return self._start + self.seconds - reserve - time.monotonic()

    def took(self, recipe: str, seconds: float) -> None:
        """Take note of how long a fit of a recipe took."""
        self._longest[recipe] = max(seconds, self._longest.get(recipe, 0.0))

    def allows(self, recipe: str) -> bool:
        """Whether one more fit of a recipe is likely to end in time, judged by earlier fits."""
        return self._longest.get(recipe, max(self._longest.values(), default=0.0)) <= self.left


class _Stop:
    """A callback of a fit that stops it when the time is over.

    Parameters
    ----------
    deadline
        When that is.
    """

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self.has_stopped = False

    def __call__(self, _round: int, _metrics: Mapping[str, float]) -> bool:
        """Return whether the fit should stop after this round; raise `CancelledError` if there shall be no model."""
        if self._deadline.is_cancelled:
            raise CancelledError
        self.has_stopped = self._deadline.left <= 0
        return self.has_stopped
