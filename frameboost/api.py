"""`fit`: from data to a model."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from inspect import signature
from typing import Any

from frameboost.binning.given_cuts import bins_from_cuts
from frameboost.checks.arguments import checked, when_call_returns
from frameboost.checks.messages import shown
from frameboost.data.held_out import HeldOut, held_out_sources
from frameboost.data.partitions import open_training_data
from frameboost.data.sources import Source
from frameboost.engines.choose import choose_engine
from frameboost.engines.contract import Engine
from frameboost.engines.dask.cluster import Dask
from frameboost.engines.description import EngineDescription, EngineRequest
from frameboost.engines.spark.cluster import Spark
from frameboost.ensemble.ensemble import Ensemble, Labels
from frameboost.ensemble.tree_columns import TreeColumns, trees_on_grid
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Aggregate
from frameboost.fold_models import mean_of_folds
from frameboost.joins.star_sources import recorded_joins
from frameboost.losses.built_in import LOSSES, get_loss
from frameboost.losses.custom import Objective
from frameboost.losses.loss import Loss, multi_target_loss
from frameboost.losses.offset import offset_of
from frameboost.metrics.built_in import AnyMetric, get_metrics
from frameboost.metrics.metric import Metric, evaluate
from frameboost.model.continuation import check_continues, join_ensembles, with_margins
from frameboost.model.model import Model
from frameboost.parameters.aliases import under_our_names
from frameboost.parameters.parameters import Parameters, parameter_table
from frameboost.runtime.available_memory import MemoryBudget
from frameboost.runtime.cleanup import closed_after
from frameboost.runtime.installed import require_numba
from frameboost.runtime.interrupts import defer_in_callbacks, defer_signals, unwrap_handler_errors
from frameboost.runtime.progress import announce_compilation, progress
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature, FeatureType
from frameboost.training.checkpoint_facts import argument_facts
from frameboost.training.checkpoint_file import CheckpointFile
from frameboost.training.class_labels import TrainingTarget, hint_of_classes, labelled_columns, read_target
from frameboost.training.constraints import Constraints
from frameboost.training.data_checks import check_held_out, check_rows, check_upper_bound, find_roles, pick_features
from frameboost.training.evaluation_log import Callback, EvaluationLog
from frameboost.training.ranking_checks import check_queries, with_group

__all__ = ["check_options", "fit"]

_MAX_CLASSES = 10_000

_Added = Mapping[str, Any]  # the arguments that name an offset, by their names


@checked()
def fit(
    data: Any,
    target: str | Sequence[str],
    *,
    objective: str | Objective | None = None,
    positive: str | None = None,
    features: Any = None,
    exclude: Any = None,
    weight: str | None = None,
    base_margin: str | Sequence[str] | None = None,
    exposure: str | None = None,
    label_upper_bound: str | None = None,
    group: str | None = None,
    valid: Any = None,
    folds: int | str | None = None,
    time: str | None = None,
    eval_metric: str | Metric | Iterable[str | Metric] | None = None,
    train_metrics: bool = False,
    callbacks: Sequence[Callback] = (),
    init_model: Model | None = None,
    engine: str | Dask | Spark = "auto",
    shards: int | None = None,
    cuts: Mapping[str, Iterable[Any]] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 10,
    verbose: bool | None = None,
    **parameters: Any,
) -> Model:
    """Train a gradient boosted model on a frame or on a table in a database."""
    if folds is not None:
        return mean_of_folds(fit, **locals())
    require_numba("fit")
    with defer_signals():  # numba cannot be imported again after Ctrl-C has interrupted its import
        from frameboost.training.checkpoint import Checkpoint
        from frameboost.training.growths import FitEngines
        from frameboost.training.train import train
        from frameboost.training.tree_methods import choose_tree_method
    settings = _settings(objective, valid, parameters)
    method = choose_tree_method(settings)
    method.check_cuts(cuts)
    saved = None if checkpoint is None else Checkpoint(CheckpointFile(checkpoint), checkpoint_every)
    initial, features, added = _continued(init_model, features, {"base_margin": base_margin, "exposure": exposure})
    data = open_training_data(data, types=_known_types(initial, target))
    source, held_out = held_out_sources(data, valid, time, group, settings.seed)
    description = choose_engine(engine, source, method.contract, method.setting, settings.n_jobs, shards)
    margins: dict[str, str] = {}
    if initial is not None:
        held_out = {key: HeldOut(with_margins(part.source, initial)[0]) for key, part in held_out.items()}
        source, names = with_margins(source, initial)
        margins = {f"init_{margin}": name for margin, name in zip(initial.loss.margins, names, strict=True)}
    roles = find_roles(source, target, weight, added["base_margin"], label_upper_bound, added["exposure"])
    roles = with_group(source, roles | margins, group)
    chosen = pick_features(source, features, roles, valid, exclude)
    Constraints.of(settings, chosen)  # raises before any work starts, as the next line does
    bins_from_cuts(cuts or {}, chosen, [0] * len(chosen))
    goal = read_target(source, held_out, target, objective, settings.num_class, initial, positive)
    source, held_out, settings = goal.source, goal.held_out, _for_target(goal, settings)
    parts = {key: part.like(source, chosen, roles, key) for key, part in held_out.items()}
    with unwrap_handler_errors(), defer_in_callbacks(), ExitStack() as open_engines, announce_compilation(verbose):
        when_call_returns(open_engines.close)
        workers, budget = open_engines.enter_context(closing(Workers(settings.n_jobs))), MemoryBudget()

        def opened(open_: Callable[[EngineDescription, EngineRequest], Engine], rows: Source) -> Engine:
            request = EngineRequest(rows, chosen, method.roles(roles, chosen), settings, workers, budget=budget)
            return open_engines.enter_context(closed_after(open_(description, request)))

        training = opened(method.open_training, source)
        loss, settings = _loss(goal.objective, settings, training, roles)
        offset = offset_of(loss, added)
        _check_loss(loss, settings, chosen, roles, initial)
        metrics = get_metrics(eval_metric, loss, settings.as_dict())
        hint = hint_of_classes(source, target, objective, loss, check_rows(training, loss, roles, goal.labels))
        looked_at = metrics if held_out or eval_metric is not None else []
        check_queries(training, loss, looked_at, roles, exponential=settings.ndcg_exp_gain)
        others = {key: opened(method.open_held_out, part) for key, part in parts.items()}
        for key, other in others.items():
            check_held_out(other, loss, roles, key)
            check_queries(other, loss, looked_at, roles, exponential=settings.ndcg_exp_gain)
        watched = ({"train": training} if train_metrics or not others else {}) | others if looked_at else {}
        log = EvaluationLog(watched, metrics, settings.early_stopping_rounds, callbacks, _rounds_of(initial))
        given = bins_from_cuts(cuts, chosen, training.count_missing()) if cuts else {}
        if saved is not None:
            open_engines.enter_context(closed_after(saved))
            facts = argument_facts(loss, settings, chosen, roles, log.columns, initial, goal.labels)
            saved.check_arguments(facts, training.count_missing())
        with progress(settings.n_estimators, lambda: _progress(log, metrics[0], training), verbose=verbose) as on_round:
            offsets = {} if offset is None else offset.in_training(loss.margins)
            engines = FitEngines(training, tuple(others.values()), "weight" in roles, offsets, initial is not None)
            ensemble = train(engines, method, loss, settings, given, log, workers, on_round, saved)
    ensemble = replace(ensemble, offset=offset)
    ensemble = replace(ensemble, joins=recorded_joins(data, ensemble.read_names))
    return _model(ensemble if initial is None else join_ensembles(initial, ensemble), goal.labels, log, hint)


def _known_types(initial: Ensemble | None, target: str | Sequence[str]) -> dict[str, FeatureType]:
    return {} if initial is None else {col.name: col.type for col in labelled_columns(initial, target)}


def _rounds_of(initial: Ensemble | None) -> int:
    return 0 if initial is None else initial.n_rounds


def _progress(log: EvaluationLog, metric: AnyMetric, training: Engine) -> tuple[str, float]:
    """Return what a progress bar shows: the metric that early stopping watches, or the first on the training rows."""
    if log.n_rounds > log.rounds_before and log.last:
        return list(log.last.items())[-1]
    return f"train_{metric.name}", evaluate(metric, training)


def _model(ensemble: Ensemble, labels: Labels, log: EvaluationLog, hint: str) -> Model:
    """Return the model of a trained ensemble, with its leaf values on their grid."""
    base_margins, trees = trees_on_grid(ensemble.base_margins, TreeColumns.of(ensemble.trees))
    ensemble = replace(ensemble, base_margins=base_margins, trees=trees, labels=labels)
    return Model(ensemble, history=log.frame(), best_round=log.best_round, best_score=log.best_score, hint=hint)


# --- checks before any work starts ------------------------------------------------------------------------------------


def _continued(model: object, features: Any, added: _Added) -> tuple[Ensemble | None, Any, _Added]:
    """Return the ensemble of ``init_model`` if there is one, and the features and the offset, by default its own."""
    if model is None:
        return None, features, added
    if not isinstance(model, Model):
        way = "; read its file with fb.load(path)" if isinstance(model, str | os.PathLike) else ""
        raise ParameterError(f"init_model must be a Model, not {shown(model)}{way}")
    own: dict[str, Any] = {**dict.fromkeys(added), **model.offset}
    for name, given in added.items():
        if given is not None and given != own[name] and given != [own[name]]:
            recorded = f"was trained with {model.ensemble.offset}" if model.offset else "has no offset"
            raise ParameterError(
                f"{name} does not go with an init_model that {recorded}: the new trees start from its margins"
            )
    return model.ensemble, model.features if features is None else features, own


def _settings(objective: object, valid: object, keywords: dict[str, Any]) -> Parameters:
    """Return the parameters, checked as far as is possible without a look at the data."""
    settings = Parameters.from_keywords(under_our_names(keywords))
    if settings.early_stopping_rounds is not None and valid is None:
        raise ParameterError("early_stopping_rounds needs rows to validate on; give them as valid=..., or folds=5")
    if objective is None:
        return settings
    if not isinstance(objective, Objective) and (not isinstance(objective, str) or objective not in LOSSES):
        get_loss(objective, {})  # type: ignore[arg-type]  # which says what there is
    return _for_objective(objective, settings)  # type: ignore[arg-type]


def check_options(options: Mapping[str, Any]) -> None:
    """Raise what `fit` would raise of arguments for several fits, by the names here, without a look at the data."""
    own = signature(fit).parameters
    _settings(options.get("objective"), "folds", {name: value for name, value in options.items() if name not in own})


def _for_target(goal: TrainingTarget, settings: Parameters) -> Parameters:
    return _for_objective(goal.objective, replace(settings, num_class=goal.num_class))


def _for_objective(objective: str | Objective, settings: Parameters) -> Parameters:
    """Return the parameters with those defaults that depend on the objective, and checked against it."""
    if settings.max_delta_step is None:
        settings = replace(settings, max_delta_step=0.7 if objective == "count:poisson" else 0.0)
    if not str(objective).startswith("multi:") and settings.num_class is not None:
        raise ParameterError("num_class is for objectives 'multi:softmax' and 'multi:softprob'")
    if isinstance(objective, str) and not objective.startswith("multi:"):
        _check_base_score(get_loss(objective, settings.as_dict()), settings)
    return settings


def _loss(
    objective: str | Objective, settings: Parameters, rows: Engine, roles: Mapping[str, str]
) -> tuple[Loss, Parameters]:
    """Return the loss, and the parameters with the number of classes filled in."""
    if "label" not in roles:
        n_targets = sum(role.startswith("label_") for role in roles)
        if str(objective).startswith("multi:"):
            raise ParameterError(f"objective {shown(objective)} takes one target, not {n_targets}")
        single = objective.loss() if isinstance(objective, Objective) else get_loss(objective, settings.as_dict())
        return multi_target_loss(single, n_targets), settings
    if isinstance(objective, Objective):
        return objective.loss(), settings
    if objective.startswith("multi:") and settings.num_class is None:
        largest = rows.aggregate({"label": Aggregate("max", Expression("label", ("label",)))})["label"]
        if largest is not None and _MAX_CLASSES <= largest < math.inf:
            raise DataError(
                f"target {shown(roles['label'])} holds {largest:.15g}, and objective {shown(objective)} has a class "
                f"for each number from 0 to the largest, at most {_MAX_CLASSES:,}; number the classes from 0, or give "
                "labels as strings"
            )
        usable = largest is not None and largest >= 1  # which NaN is not
        settings = replace(settings, num_class=int(largest) + 1 if usable and largest is not None else 2)
    return get_loss(objective, settings.as_dict()), settings


def _check_base_score(loss: Loss, parameters: Parameters) -> None:
    low, high = loss.score_range
    score = parameters.base_score
    if score is not None and not low < score < high:
        raise ParameterError(
            f"base_score must lie between {low:g} and {high:g} for objective {shown(loss.name)}, not {shown(score)}"
        )


def _check_loss(
    loss: Loss, settings: Parameters, features: Sequence[Feature], roles: Mapping[str, str], initial: Ensemble | None
) -> None:  # fmt: skip
    """Raise `ParameterError` if the loss does not go with a column, a parameter or the model to train on from."""
    check_upper_bound(loss, roles)
    if loss.renewal and settings.monotone_constraints:
        raise ParameterError(
            f"monotone_constraints do not go with objective {shown(loss.name)}, whose leaves are quantiles and keep "
            "to no bounds"
        )
    if loss.renewal and settings.linear_tree:
        raise ParameterError(
            f"linear_tree=True does not go with objective {shown(loss.name)}, whose leaves are quantiles and have no "
            "slopes"
        )
    if initial is not None:
        check_continues(initial, loss, settings, features)


fit.__doc__ = f"""Train a gradient boosted model on a frame or on a table in a database.

Every engine, every number of threads and every order of the rows give the same model.

Parameters
----------
data : polars frame, DuckDB relation, pandas, Dask or Spark DataFrame, Arrow table, path, list of frames or paths
    One example in each row. A DuckDB relation may be a table, a view, a query or files
    (``con.table("flights")``, ``con.sql("...")``, ``con.read_parquet("*.parquet")``); its rows stay in the database.
    The state of the fit is in temporary tables of the connection, which are dropped afterwards. A path is that of a
    Parquet, CSV, NDJSON or Arrow file, of compressed text (``"2013.csv.gz"``), a glob of such files in the order of
    their names (``"2013-*.parquet"``), or a table of a DuckDB file (``"flights.duckdb::late"``). The rows of several
    frames or files follow each other. Those of a Spark DataFrame stay in its executors, and the workers of
    ``engine=fb.Dask(client)`` read those of a Dask DataFrame.
    An Ibis table of the DuckDB backend stays in its database; narwhals frames and PyArrow datasets are taken for what
    they hold.
target : str or list of str
    The column to predict: numbers, Booleans, or strings (Enum and Categorical too) that are labels of classes, without
    NULL, NaN or infinities. Several columns, which must be numeric or Boolean, have trees of their own, one for each in
    a round, and are predicted as an array.
objective : str or Objective, optional
    The loss, by XGBoost's name (``docs/objectives.md`` has them all), or one of your own. By default
    ``'reg:squarederror'`` for numbers, ``'binary:logistic'`` for Booleans and two labels, and ``'multi:softprob'`` for
    more labels.
positive : str, optional
    Of a target of two labels, the one whose probability is predicted; by default the second, in the order of an Enum
    or else in the order of the alphabet (``'yes'`` of no and yes).
features : list of str, polars selector or function, optional
    The columns to predict from; by default all but those that have another role. A selector (``cs.numeric()``) chooses
    by the types that polars gives the columns, those of a relation too. A function chooses the names of which it is
    true, as pandas' ``usecols`` does: ``lambda name: name.startswith("x_")``. A list may hold names and selectors.
    What selectors and functions choose is without the columns that have another role. Numbers, decimals, Booleans,
    dates, timestamps and durations are split at a threshold, strings (Enum and Categorical too) by set membership. NULL
    and NaN are missing values, and each split learns where they go.
exclude : str, list of str, polars selector or function, optional
    The columns to leave out of the default, or of what ``features`` chooses.
weight : str, optional
    A column of row weights, 0 or more.
base_margin : str or list of str, optional
    Columns that are added to the margins, one for each output: an offset. The base score is estimated beside them. The
    model knows their names (`Model.offset`), and all that scores takes them from the data.
exposure : str, optional
    Of an objective with a log link, such as count:poisson, the column whose logarithm is added to the margins: years
    insured, length of road, hours at risk. The prediction is proportional to it. It must be above 0.
label_upper_bound : str, optional
    For survival:aft, the column of the upper bounds of times: equal to the target where the time is known, NULL (or
    infinity) where it is right-censored.
group : str, optional
    For ranking, the column of each row's query: numbers, strings or dates, in any order. Weights are then those of
    queries.
valid : float, str, data, or dict of name to data, optional
    Rows to validate on, which are then not trained on. ``0.2`` is that share of the rows, drawn by a hash of their
    positions and the ``seed``, the same in every engine; with ``group`` of the queries. ``"last 20%"`` and ``"last 4
    weeks"`` are the last rows by the column ``time``. Else a Boolean column of the data or a SQL predicate over its
    columns, true for the rows; or other data, as ``data`` is given. Of several, early stopping uses the last. A
    predicate is inserted into queries unchanged, so do not take it from people who may not query the data. Volatile
    functions such as ``random()`` are refused.
folds : int or str, optional
    Train a model for each of so many folds of the rows, on the other folds, with early stopping on this one, and return
    their mean as one model, with the trees of all: it has seen all rows, and is better than one fit, at so many times
    the cost. Rows are dealt by a hash of their positions and the ``seed``, with ``group`` whole queries. Or a column,
    each value of which is a fold. ``frameboost.auto`` chooses settings as well.
time : str, optional
    For ``valid="last 20%"``, the column of dates, times or numbers that tells which rows are last. Rows of one time
    stay together, and so do queries. It is a feature unless ``exclude`` names it.
eval_metric : str, Metric or list of them, optional
    The metrics of `Model.history`, evaluated after each round on the validation rows, or the training rows if there are
    none; by default the objective's own, and only if there are validation rows. Early stopping uses the last.
train_metrics : bool, default False
    Whether the metrics are evaluated on the training rows too where there are rows to validate on, for learning curves
    of both. A fit takes some 6 % longer then, with AUC 13 %.
callbacks : list of functions, optional
    Called after each round with its number, from 1, and a dict of its metrics; one that returns True stops the fit.
    With a ``checkpoint``, only after the rounds that this call grows.
init_model : Model, optional
    A model with the same objective, features and labels to continue from: the new model has its trees and
    ``n_estimators`` more rounds.
engine : {{'auto', 'numba', 'polars', 'duckdb'}}, Dask or Spark, default 'auto'
    What computes the histograms: compiled kernels, lazy group-bys, or SQL. ``'auto'`` is duckdb for a relation,
    ``fb.Spark()`` for a Spark DataFrame and numba for everything else. Or the name of an engine that another package
    registers (``docs/engines.md``), or a cluster, ``fb.Dask(client)``. Up to 524,288 values, or 4,096 rows, are read
    into memory and trained on by the kernels, whichever of polars and duckdb is asked for: queries would take many
    times as long.
shards : int, optional
    Into how many parts to divide the rows, each with an engine of its own, whose answers are merged: the model is the
    same. Only for ``tree_method='hist'``. Of a path of Parquet or Arrow files whose rows do not fit in memory, numba
    reads one column at a time, and keeps its arrays in temporary files (``docs/scale.md``).
cuts : dict, optional
    The bin edges of some columns, instead of quantiles.
checkpoint : str or path, optional
    A file for the rounds so far. A fit that was killed goes on from there when it is called again with the same data
    and arguments, and ends with the same model as an uninterrupted one; a fit that was finished returns its model.
    More ``n_estimators`` add rounds. The file is kept; delete it to start anew. (``docs/guide.md``)
checkpoint_every : int, default 10
    The number of rounds from one write of the checkpoint to the next.
verbose : bool, optional
    Whether to show a progress bar for a long fit, and a message when kernels are compiled (once on a machine), both on
    standard error; by default in a terminal and in a notebook, and the message also in logs if it takes over a second.
{parameter_table()}

Returns
-------
Model

Raises
------
ParameterError
    If a parameter is unknown, out of range, or does not go with another.
DataError
    If the data can't be trained on; the message names the column. Or if the checkpoint is of other data.
ModelFileError
    If the checkpoint is damaged, or of another release.

Examples
--------
>>> import polars as pl, frameboost as fb
>>> df = pl.DataFrame({{"x": [1.0, 2.0, 3.0, 4.0], "y": [1.0, 1.0, 5.0, 5.0]}})
>>> model = df.pipe(fb.fit, target="y", n_estimators=1, learning_rate=1.0, reg_lambda=0.0)
>>> df.with_columns(model.expr())["prediction"].to_list()
[1.0, 1.0, 5.0, 5.0]
>>> import duckdb
>>> con = duckdb.connect()
>>> _ = con.execute("CREATE TABLE t AS SELECT range::DOUBLE AS x, range > 4 AS late FROM range(10)")
>>> fb.fit(con.table("t"), target="late", objective="binary:logistic", n_estimators=2)
Model: binary:logistic, 2 trees (depth 1, 4 leaves), 1 feature
  x  float64
"""
