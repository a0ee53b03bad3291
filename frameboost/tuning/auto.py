"""Train a good model by a search over settings and a mean over folds."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Unpack, cast

import polars as pl

from frameboost.api import fit, plan_with
from frameboost.checks.arguments import BY_NAME, checked
from frameboost.checks.messages import counted, reason, shown
from frameboost.data.fingerprints import hash_of_query
from frameboost.data.held_out import LastRows, count_groups, fold_parts
from frameboost.data.opening import open_source
from frameboost.data.sources import FrameSource, LocalSource, RelationSource
from frameboost.database.drift import model_baseline
from frameboost.database.sql_budget import SqlBudget
from frameboost.ensemble.averaging import average
from frameboost.ensemble.ensemble import Ensemble, Labels
from frameboost.ensemble.metadata import Metadata
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.fold_models import OutOfFold, for_several_fits
from frameboost.joins.star_sources import recorded_joins
from frameboost.keywords import AutoOptions
from frameboost.losses.outputs import Interval, has_intervals
from frameboost.metrics.metric import metrics_of
from frameboost.model.conformal import rows_needed
from frameboost.model.model import Model
from frameboost.parameters.parameters import Parameters
from frameboost.planning import FitPlan
from frameboost.prediction.predictor import Predictor
from frameboost.runtime.progress import steps
from frameboost.runtime.workers import available_cores, require_numba
from frameboost.schema.types import column
from frameboost.training.data_checks import missing_labels
from frameboost.trees.linear_leaves import may_have_slope
from frameboost.tuning.blending import HeldOutMargins, blend
from frameboost.tuning.recipes import PLANS, Plan, Recipe, distinct
from frameboost.tuning.trials import MOST_READ, Deadline, Fold, Trial, Trials

__all__ = ["auto"]

_SQUARED, _BINARY, _OF_CLASSES = "reg:squarederror", "binary:logistic", ("multi:softprob", "multi:softmax")
# The numbers of values for concurrent fits: of fewer, fits spend their time in Python, one thread at a time.
_VALUES_AT_ONCE = range(2**14, 2**22 + 1)
_LAST_ROWS = "last 20%"
# The model's baseline is of at most so many rows: an index of drift is uncertain by 0.005, where 0.1 is some drift, and
# predictions of all rows by thousands of trees take a tenth of the search.
_ROWS_OF_BASELINE = 2_000
_CHECKPOINT_EVERY = inspect.signature(fit).parameters["checkpoint_every"].default
# Features have few values if each number of some rows has at most so many, and at least so many rows for each.
_FEW_VALUES, _ROWS_OF_VALUES, _ROWS_OF_ONE = 16, 1_000, 10
# Engines that leaves with slopes and leaves of all outputs go with; and arguments that recipes with a setting
# do not go with.
_WITH_SLOPES = ("auto", "numba", "polars", "duckdb")
_WITHOUT = {
    "linear_tree": {"booster", "monotone_constraints", "shards"},
    "multi_strategy": {"booster", "monotone_constraints", "sampling_method", "shards"},
    "subsample": {"colsample_bylevel", "sampling_method"},
}
# Of these one that is given holds for every recipe; without a maximum the rate does not grow.
_RATES_OF_ROUNDS = {"learning_rate", "max_learning_rate", "learning_rates"}
# The levels that symmetric trees may have.
_LEVELS = range(1, 17)
# Two folds of two rows.
_FEWEST_ROWS = 4
# By how much the learning rate of a model that is too large grows, and up to where.
_RATES, _LARGEST_RATE = (1, 2, 4, 8), 0.5
_ROLES = ("weight", "label_upper_bound")
_REFUSED = {
    "valid": "it holds out rows by itself: by groups=, by time=, or by a hash of their positions",
    "folds": "it deals the rows to folds by itself",
    "callbacks": "it trains many models",
    "init_model": "it starts from no model",
    "train_metrics": "it looks at the rows that it holds out",
    "max_sql": "pass fits, the name of a database",
}


@checked(fit, checkpoint=BY_NAME["folder"])
def auto(
    data: Any,
    target: str | Sequence[str],
    *,
    quality: int = 3,
    time_limit: float | None = None,
    time: str | None = None,
    groups: str | None = None,
    coverage: float = 0.9,
    seed: int = 0,
    fits: str | int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    verbose: bool | int | None = None,
    **options: Unpack[AutoOptions],
) -> Model:
    """Train a good model without choosing settings: search, stop early, and average over folds.

    Rows are assigned to five folds, or fewer if there are fewer than ten rows or five groups. For each fold a model is
    trained on the others, with early stopping on the held-out one; three models have symmetric trees, two leafwise
    trees. On data with little noise, linear leaves, vector leaves or trees without sampling may win a race on the first
    fold, and are then trained on all rows instead. The result is the mean as one ordinary model, which has seen every
    row, and scores, explains and compiles to SQL like any other. Higher ``quality`` trains several settings on every
    fold and weights them by their margins on held-out rows. The same data and arguments give the same model in every
    engine, on any number of threads, unless a time limit ends the search.

    Parameters
    ----------
    data, target
        As for `fit`, except data on a cluster.
    quality : int, default 3
        The effort, from 1 to 5: one fit (1; the smallest model), the mean of three (2) or five fits (3), three settings
        on each of five folds (4), four on ten folds with a smaller learning rate (5).
    time_limit : float, optional
        Seconds after which training stops; the rounds so far make the model.
    time : str, optional
        A column of dates, times or numbers, for models that predict later rows: the last fifth of the rows is held out
        (all rows of the last time, if these are more), and finally the best settings are trained on all rows.
    groups : str, optional
        A column of group labels, such as a customer id: the rows of a group stay in one fold. It is not a feature.
    coverage : float, default 0.9
        The coverage of prediction intervals, ``predict(df, output="interval")``, for regressions of one target. They
        are fitted to the margins on held-out rows (cross-conformal; ``docs/intervals.md``). A coverage of 0.9 needs at
        least 9 rows.
    seed : int, default 0
        The seed of the folds and of all sampling in training.
    fits : str or int, optional
        A limit on the size of the model as one query: a database, such as ``"snowflake"``, or a number of bytes. The
        mean keeps as many models as fit, those with the largest weights, or else the first rounds of one; its text
        reports how many, and the loss on held-out rows. Without ``fits`` a large model is scored by a chain of queries
        in dbt (`DatabaseModel.to_dbt`), or by a table of trees.
    checkpoint : str or path, optional
        A folder that stores the progress. After an interruption the same call resumes the search.
    verbose : bool, optional
        Whether to show each trial on standard error; by default in a terminal and in a notebook.
    **options
        All other arguments of `fit` except ``valid``, ``callbacks`` and ``init_model``; they apply to all trials.

    Returns
    -------
    Model
        The mean. `Model.leaderboard` lists the trials; `Model.baseline` has the shares of about ten thousand rows.

    Raises
    ------
    ParameterError, DataError
        As `fit`; if there are fewer than 4 rows or 2 groups, or the time limit is too short for one round.

    Examples
    --------
    >>> import polars as pl, frameboost as fb
    >>> df = pl.DataFrame({"x": [i % 4 for i in range(200)]}).with_columns(y=pl.col("x") * 2.0)
    >>> model = df.pipe(fb.auto, target="y", quality=2)
    >>> model.predict(df[:4]).round(1).to_list()
    [0.0, 2.0, 4.0, 6.0]
    """
    deadline = Deadline(time_limit)
    for name, value in (("time", time), ("groups", groups)):
        if value is not None and options.get("stratified"):
            raise ParameterError(f"{name} can't be combined with stratified=True: it defines the folds itself")
    if time is not None and groups is not None:
        raise ParameterError("groups can't be combined with time: the held-out rows are the last ones")
    rows_needed(coverage)  # raises before any work starts
    budget = None if fits is None else SqlBudget.of("fits", fits)
    arguments = for_several_fits(options)
    require_numba("auto")
    for name, why in _REFUSED.items():
        if name in arguments:
            raise ParameterError(f"auto takes no {name}; {why}")
    arguments |= {"folds": groups or PLANS[quality].folds, "seed": seed, "verbose": False}
    planned, train = plan_with(data, target, arguments)
    _refuse(planned.settings)
    is_assumed = arguments.get("objective") is None and _is_of_zeros_and_ones(cast("LocalSource", planned.data), target)
    if is_assumed:
        planned, train = plan_with(planned.data, target, arguments | {"objective": _BINARY})
    features, roles = [feature.name for feature in planned.features], {name: arguments.get(name) for name in _ROLES}
    roles["group"] = planned.roles.get("qid")
    if budget is not None:
        budget.check(planned.features)
    out_of_fold = OutOfFold(cast("LocalSource", planned.source))
    rows, columns = out_of_fold.rows, list(dict.fromkeys([*features, *planned.roles.values(), *out_of_fold.columns]))
    n_rows = rows.count_rows()
    if n_rows < _FEWEST_ROWS:
        raise DataError(f"the data has {counted(n_rows, 'row')}; auto needs at least {_FEWEST_ROWS}")
    plan = _plan(quality, arguments, _left_out(planned, arguments, rows, n_rows))
    if not _is_of_classes(planned):
        plan = plan.without_leads()
    groups = groups or planned.groups
    if time is None:
        plan = plan.with_folds(n_rows // 2 if groups is None else count_groups(rows, groups))
    else:
        plan = plan.with_refits()
    # The times of survival may all be the same, as their upper bounds differ.
    judged = list(planned.target) if roles["label_upper_bound"] is None else []
    judged = _check_labels(rows, judged, n_rows)
    plan = plan.for_size(n_rows * len(features))
    if budget is not None:
        plan = plan.without_slopes_of_all()
    if (max_bin := plan.max_bin_of(n_rows)) and "max_bin" not in arguments:
        planned = replace(planned, settings=replace(planned.settings, max_bin=max_bin))
    if time is None:
        label = planned.roles.get("label")
        folds = _folds(rows, plan, groups, seed, columns, label if planned.stratified else None)
        is_uneven = _is_of_classes(planned) and _lacks_classes(folds, judged)
        if groups is None and (is_uneven or _only_in(folds, judged) is not None):
            folds = _folds(rows, plan, None, seed, columns, label)  # of two rows of a label one is left to learn from
    else:
        folds = [_last_fold(rows, time, groups, columns)]
    if (weight := planned.roles.get("weight")) is not None:
        folds = _weighted(folds, weight)
    _check_folds(folds, judged, planned.labels)
    watched = arguments.get("eval_metric")
    metric = None if watched is None else metrics_of(watched)[-1]
    at_once, own_threads = 1, bool(planned.engine.threads_set_by) or arguments.get("shards") is not None
    if not own_threads and n_rows * len(features) in _VALUES_AT_ONCE:
        at_once = max(1, min(arguments.get("n_jobs") or available_cores(), len(folds) - 1))
    n_threads = arguments.get("n_jobs") or available_cores() if at_once > 1 else None
    folder = None if checkpoint is None else Path(checkpoint)
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ParameterError(f"checkpoint {shown(str(folder))} can't be a folder: {reason(error)}") from error
    n_rivals = sum(map(len, (plan.leads, *plan.rivals)))
    with steps(len(plan.recipes) * len(folds) + n_rivals, verbose=verbose) as tell:
        search = Trials(
            folds, rows, planned, train, deadline, metric, at_once=at_once, n_threads=n_threads, checkpoint=folder,
            checkpoint_every=arguments.get("checkpoint_every", _CHECKPOINT_EVERY), tell=tell,
        )  # fmt: skip
        tried, lost = search.run(plan)
        tell("choosing by held-out rows")
        complete = [trial for trial in tried if trial.models.keys() == tried[0].models.keys()]
        known_roles = {name: column_ for name, column_ in roles.items() if column_ is not None}
        margins = HeldOutMargins(folds, complete, target, metric, known_roles, out_of_fold.columns)
        parts, values = _parts(search, complete, margins)
        note, smaller = "", None
        if budget is not None:
            parts, note = _within(
                budget, parts, planned.labels, lambda some: margins.shown_error([*_weights(some, values).values()])
            )
            if not parts:
                best = complete[min(range(len(complete)), key=margins.alone.__getitem__)]
                rates = (1,) if "learning_rate" in arguments else _RATES
                smaller, note = _smaller(budget, search, best, rates, maximize=margins.maximize)
                if smaller.recipe.refits:
                    search.refit(smaller)
                parts = [_Part(budget.cut(smaller.kept[0].ensemble), 1.0, smaller.recipe.name)]
        ensemble, weights = average(*_columns(parts), is_short=True), _weights(parts, values)
        if smaller is None:
            interval = margins.interval(list(weights.values()), coverage)
        else:
            interval = _interval_of(smaller, folds, target, coverage)
        if isinstance(rows, RelationSource) and margins.are_cut:
            out_of_fold.give_up(f"of a relation up to {MOST_READ:,} rows of a fold are read")
        for position in out_of_fold.columns:
            if smaller is None:
                found = margins.predictions(list(weights.values()))
                out_of_fold.add_predictions(found["fold"], found[position], found["prediction"])
            else:
                ((number, model),) = smaller.models.items()
                held_out = next(fold for fold in folds if fold.number == number).rows()
                out_of_fold.add_predictions(number, held_out[position], model.predict(held_out))
    board = _leaderboard(
        [*tried, *lost], list(tried[0].any_model.history.columns)[-1].removeprefix("valid_"), values, weights
    )
    hint = f"target {shown(target)} is 0 or 1, taken for two classes; objective='reg:squarederror' predicts a number"
    joins = recorded_joins(planned.data, ensemble.read_names)
    metadata = replace(Metadata.of_training(n_rows), query=hash_of_query(data))
    ensemble = replace(ensemble, labels=planned.labels, interval=interval, joins=joins, metadata=metadata)
    some = rows.to_frame(ensemble.read_names).gather_every(math.ceil(n_rows / _ROWS_OF_BASELINE))
    ensemble = replace(ensemble, baseline=model_baseline(Predictor(ensemble), some.collect(), 10))
    hint = "\n".join(filter(None, [hint if is_assumed else "", note]))
    return Model(ensemble, leaderboard=board, hint=hint, out_of_fold=out_of_fold.frame())


# --- before the search ------------------------------------------------------------------------------------------------


def _refuse(settings: Parameters) -> None:
    """Raise `ParameterError` if a parameter of `fit` conflicts with a search."""
    if settings.tree_method != "hist":
        raise ParameterError(
            f"auto trains with tree_method='hist', as {shown(settings.tree_method)} can't grow all of its trees"
        )


def _is_of_classes(planned: FitPlan) -> bool:
    return planned.objective in (_BINARY, *_OF_CLASSES)


def _left_out(planned: FitPlan, options: Mapping[str, Any], rows: LocalSource, n_rows: int) -> list[str]:
    """Return the settings that are skipped for this data.

    Linear leaves pay in regressions and classifications where some feature may have a slope, and vector leaves with
    several outputs and some numeric features; training without row sampling where each feature is categorical or has
    few values.
    """
    has_engine = options.get("engine", "auto") in _WITH_SLOPES
    has_slopes = any(map(may_have_slope, planned.features))
    are_categories = all(feature.type.is_categorical for feature in planned.features)
    has_outputs = planned.objective in _OF_CLASSES or len(planned.target) > 1
    suits = {
        "linear_tree": has_engine and has_slopes and planned.objective in (_SQUARED, _BINARY, *_OF_CLASSES),
        "multi_strategy": has_engine and has_outputs and not are_categories,
        "subsample": are_categories or _have_few_values(planned, rows, n_rows),
    }
    used = {name for name, value in options.items() if value is not None and value is not False}
    return [name for name, does in suits.items() if not does or name in options or _WITHOUT[name] & used]


def _have_few_values(planned: FitPlan, rows: LocalSource, n_rows: int) -> bool:
    """Whether no numeric feature has more than `_FEW_VALUES` values in some rows, as codes and ranks have."""
    numbers = [feature.name for feature in planned.features if not feature.type.is_categorical]
    some = rows.to_frame(numbers).gather_every(math.ceil(n_rows / _ROWS_OF_VALUES)).collect()
    return all(values.n_unique() <= min(_FEW_VALUES, len(some) // _ROWS_OF_ONE) for values in some)


def _plan(quality: int, options: Mapping[str, Any], left_out: Iterable[str]) -> Plan:
    """Return the plan with the user's parameters, which hold for every recipe."""
    plan = PLANS[quality].without(*left_out)
    shapes = [shape for recipe in chain(plan.recipes, *plan.rivals) for shape in recipe.shapes]
    chosen = {*plan.settings, *(name for shape in shapes for name in shape)}
    fixed = {name: value for name, value in options.items() if name in chosen}
    policy = options.get("grow_policy") or ("lossguide" if options.get("max_depth", 1) not in _LEVELS else None)
    if not _RATES_OF_ROUNDS.isdisjoint(options) or options.get("booster") == "dart":
        fixed = {"learning_rate": plan.settings["learning_rate"], "max_learning_rate": None, **fixed}

    def completed(recipe: Recipe) -> Recipe:
        grown = recipe if policy is None else recipe.grown_by(policy)
        return grown.with_all(fixed).with_defaults(plan.settings)

    return plan.each(lambda some: distinct(map(completed, some)))


def _folds(
    source: LocalSource, plan: Plan, groups: str | None, seed: int, columns: Sequence[str], strata: str | None
) -> list[Fold]:
    """Return the folds to hold out in turn."""
    parts = fold_parts(source, plan.folds, None, seed, groups, strata)
    return [Fold(k, *part, columns) for k, part in zip(range(plan.trained), parts, strict=False)]


def _last_fold(source: LocalSource, time: str, group: str | None, columns: Sequence[str]) -> Fold:
    """Return the last rows as the only fold; queries stay together."""
    last = LastRows.read(_LAST_ROWS)
    assert last is not None
    training, held_out = last.split(source, time, group, or_last_time=True)
    return Fold(0, training, held_out, columns)


# --- the search, and after it -----------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """A trained model, its weight in the mean, and the name of its trial."""

    ensemble: Ensemble
    weight: float
    trial: str


def _parts(search: Trials, trials: Sequence[Trial], margins: HeldOutMargins) -> tuple[list[_Part], dict[str, float]]:
    """Return the models of the mean, and the metric of each trial by its name."""
    weights, errors = blend(margins), margins.alone
    parts = []
    for trial, weight in zip(trials, weights, strict=True):
        if weight > 0:
            if trial.recipe.refits:
                search.refit(trial)
            parts += [_Part(model.ensemble, weight / len(trial.kept), trial.recipe.name) for model in trial.kept]
    names, sign = [trial.recipe.name for trial in trials], -1.0 if margins.maximize else 1.0
    return parts, {name: sign * error for name, error in zip(names, errors, strict=True)}


def _within(
    budget: SqlBudget, parts: Sequence[_Part], labels: Labels, error: Callable[[Sequence[_Part]], float]
) -> tuple[list[_Part], str]:
    """Return the models whose mean fits into a budget of SQL, empty if none fits, and the text of what that costs.

    ``error`` is the metric on held-out rows, each scored by one model of each trial.
    """
    ordered = sorted(parts, key=lambda part: -part.weight)

    def mean_of(n: int) -> Ensemble:
        return replace(average(*_columns(ordered[:n]), is_short=True), labels=labels)

    n_kept = budget.most(len(ordered), mean_of)
    if n_kept in (0, len(ordered)):
        return ([] if n_kept == 0 else list(parts)), ""
    kept = ordered[:n_kept]
    # Of one trial each row is held out by one of its models, so by fewer of them the error is the same.
    instead = "" if error(kept) == error(parts) else f", and {error(parts):.5g} of all"
    text = f"the mean of {n_kept} of {len(parts)} trained models, as fit into {budget.noun}"
    return kept, f"{text}; the error on held-out rows is {error(kept):.5g}{instead}"


def _smaller(
    budget: SqlBudget, search: Trials, trial: Trial, rates: Sequence[float], *, maximize: bool
) -> tuple[Trial, str]:
    """Return one model of a trial that fits, and what that costs, as text: its first rounds or those of larger steps.

    The learning rate is doubled until all rounds of a model fit, as dropping rounds costs more than larger steps.
    """
    (fold, whole), sign = next(iter(trial.models.items())), -1.0 if maximize else 1.0
    tried: list[tuple[float, Trial]] = []
    for rate in rates:
        steps_ = {name: min(value * rate, _LARGEST_RATE) for name in ("learning_rate", "max_learning_rate")
                  if isinstance(value := trial.recipe.of_fold(fold).get(name), (int, float))}  # fmt: skip
        recipe = replace(trial.recipe.with_all(steps_), refits=min(1, trial.recipe.refits))
        model = whole if rate == 1 else search.model_of(recipe, fold)
        if model is None:
            break
        rounds = budget.rounds(model.ensemble)
        tried.append((sign * _error_after(model, rounds), Trial(recipe, {fold: model[:rounds]})))
        if rounds == model.n_rounds:
            break
    error, best = min(tried, key=lambda each: each[0])
    text = f"one of {len(search.folds)} models, of {best.any_model.n_rounds:,} rounds, as fit into {budget.noun}"
    before = _error_after(whole, whole.n_rounds)
    return best, f"{text}; the error on its held-out rows is {sign * error:.5g}, and {before:.5g} without a budget"


def _error_after(model: Model, n_rounds: int) -> float:
    """Return the metric on held-out rows after a number of rounds."""
    return float(model.history.to_series(-1)[n_rounds - 1])


def _interval_of(trial: Trial, folds: Sequence[Fold], target: str | Sequence[str], coverage: float) -> Interval | None:
    """Return the interval of a trial of one model, by its fold."""
    ((number, model),) = trial.models.items()
    rows = next(fold for fold in folds if fold.number == number).rows()
    if not has_intervals(model.ensemble.loss) or len(rows) < rows_needed(coverage):
        return None
    assert isinstance(target, str)
    return model.conform(rows, target, coverage=coverage).ensemble.interval


def _columns(parts: Sequence[_Part]) -> tuple[list[Ensemble], list[float]]:
    return [part.ensemble for part in parts], [part.weight for part in parts]


def _weights(parts: Sequence[_Part], trials: Iterable[str]) -> dict[str, float]:
    """Return the weight of each trial in the mean of some of its models."""
    total = sum(part.weight for part in parts)
    return {name: sum(part.weight for part in parts if part.trial == name) / total for name in trials}


# --- what the data says before the search -----------------------------------------------------------------------------


def _is_of_zeros_and_ones(source: LocalSource, target: Any) -> bool:
    """Whether an integer target has exactly the values 0 and 1, so that it is most likely binary."""
    kind = source.types().get(target) if isinstance(target, str) else None
    if kind is None or not kind.is_integer:
        return False
    low, high, _ = _range(source, target)
    return (low, high) == (0, 1)


def _check_labels(source: LocalSource, targets: Sequence[str], n_rows: int) -> list[str]:
    """Return the targets that are not constant; raise `DataError` if one has NULL.

    Checked here because a fit would report it for a fold.
    """
    varying = []
    for target in targets:
        lowest, highest, present = _range(source, target)
        if present < n_rows:
            raise missing_labels(target, n_rows - present, n_rows)
        if lowest != highest:
            varying.append(target)
    return varying


def _weighted(folds: list[Fold], weight: str) -> list[Fold]:
    """Return the folds whose held-out rows have weights, as nothing is chosen by rows of weight 0.

    Raises
    ------
    DataError
        If the other rows have none.
    """
    kept = [fold for fold in folds if _range(open_source(fold.held_out), weight)[1] != 0]
    if any(_range(open_source(fold.training), weight)[1] == 0 for fold in kept):
        raise DataError(
            f"weight {shown(weight)} is not 0 in too few rows: all of these would be held out together, and the other "
            "rows would weigh nothing"
        )
    return kept or folds


def _check_folds(folds: Sequence[Fold], targets: Sequence[str], labels: Labels) -> None:
    """Raise `DataError` if a target is constant outside of one fold, so that a fit without it can't learn.

    ``labels`` are the class labels, for messages.
    """
    if (only := _only_in(folds, targets)) is not None:
        target, label = only
        raise DataError(
            f"target {shown(target)} has other values than {_named(label, labels)} in too few rows: all of "
            "these would be held out together, and the other rows would be constant"
        )


def _only_in(folds: Sequence[Fold], targets: Sequence[str]) -> tuple[str, Any] | None:
    """Return a target that is constant outside of one fold, and which label occurs only there, or None."""
    for target in targets:
        for fold in folds:
            lowest, highest, _ = _range(open_source(fold.training), target)
            if lowest == highest:
                return target, lowest
    return None


def _lacks_classes(folds: Sequence[Fold], targets: Sequence[str]) -> bool:
    """Whether the rows of a fold have one class only: `auc` and other metrics have no value there."""
    ranges = (_range(open_source(fold.held_out), target) for fold in folds for target in targets)
    return any(lowest == highest for lowest, highest, _ in ranges)


def _range(source: Any, name: str) -> tuple[Any, Any, int]:
    """Return the smallest and the largest value of a column, and the number of rows with a value."""
    if isinstance(source, FrameSource):
        values = column(name)
        frame = source.to_frame([name])  # of tables that are joined, only those that have it
        values = values.fill_nan(None) if frame.collect_schema()[name].is_float() else values
        low, high, count = frame.select(low=values.min(), high=values.max(), count=values.count()).collect().row(0)
        return low, high, count
    quoted = quote_identifier(name)
    types = source.types()
    present = f"NULLIF({quoted}, 'nan')" if types[name] is not None and types[name].is_float else quoted
    low, high, count = source.relation.aggregate(f"MIN({present}), MAX({present}), COUNT({present})").fetchall()[0]
    return low, high, count


def _named(label: Any, labels: Labels) -> str:
    """Return a label as text for messages; classes are numbered."""
    if labels and not isinstance(label, bool):
        return shown(labels[int(label)])
    return shown(label) if isinstance(label, bool) else f"{float(label):g}"


# --- what was tried, as a frame ---------------------------------------------------------------------------------------


def _leaderboard(
    trials: Sequence[Trial], metric: str, values: Mapping[str, float], weights: Mapping[str, float]
) -> pl.DataFrame:
    """Return one row per trial, by descending weight (`Model.leaderboard`).

    Parameters
    ----------
    trials
        The trials.
    metric
        The name of the metric that ranks trials.
    values, weights
        The mean of the metric over the held-out folds, and the weight in the model, by recipe; abandoned trials have
        neither.
    """
    names = [trial.recipe.name for trial in trials]
    board = pl.DataFrame(
        {
            "trial": names,
            metric: [values.get(trial.recipe.name, trial.score(trial.models)) for trial in trials],
            "weight": [weights.get(name, 0.0) for name in names],
            "fits": [len(trial.kept) for trial in trials],
            "rounds": [trial.rounds for trial in trials],
            "leaves": [trial.leaves for trial in trials],
            "seconds": [trial.seconds for trial in trials],
            "settings": [_text(trial.recipe) for trial in trials],
        },
        schema_overrides={metric: pl.Float64, "weight": pl.Float64, "seconds": pl.Float64},
    )
    return board.sort("weight", descending=True, maintain_order=True)


def _text(recipe: Recipe) -> str:
    known = ([f"{name}={value!r}" for name, value in shape.items() if value is not None] for shape in recipe.shapes)
    return " or ".join(map(", ".join, known))
