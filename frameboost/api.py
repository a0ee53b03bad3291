"""Train a model (`fit`), or tell what a fit would do (`plan`)."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, cast

from frameboost.binning.given_cuts import bins_from_cuts
from frameboost.checks.arguments import checked, when_call_returns
from frameboost.checks.messages import advice, counted, shown
from frameboost.data.fingerprints import hash_of_query
from frameboost.data.sources import LocalSource, Source
from frameboost.database.sql_budget import SqlBudget
from frameboost.engines.choose import open_engine
from frameboost.engines.contract import Engine, EngineRequest, Rows, data_kind
from frameboost.engines.dask.cluster import Dask
from frameboost.engines.spark.cluster import Spark
from frameboost.ensemble.ensemble import Ensemble, Labels
from frameboost.ensemble.metadata import Metadata
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Aggregate
from frameboost.fold_models import mean_of_folds, refuse_with_folds
from frameboost.joins.star_sources import recorded_joins
from frameboost.keywords import PlanOptions, TrainingParameters
from frameboost.losses.built_in import adjusted, get_loss
from frameboost.losses.classes import counted_factors
from frameboost.losses.custom import Objective, name_of_objective, scored_loss
from frameboost.losses.loss import Loss, family_of, multi_target_loss, offset_of
from frameboost.metrics.metric import AnyMetric, Metric, as_function, evaluate, get_metrics, metrics_of, title_of
from frameboost.model.continuation import check_continues, join_ensembles
from frameboost.model.model import Model
from frameboost.model.threshold import ThresholdAtBestRound, check_rule, decided
from frameboost.parameters.parameters import FIT_ALIASES, Parameters, parameter_table, under_our_names
from frameboost.planning import FitPlan, plan_fit, read_once
from frameboost.runtime.interrupts import closed_after, defer_in_callbacks, defer_signals, unwrap_handler_errors
from frameboost.runtime.progress import LOG, announce_compilation, progress
from frameboost.runtime.storage import MemoryBudget
from frameboost.runtime.workers import Workers, require_numba
from frameboost.schema.types import Feature
from frameboost.training.data_checks import (
    check_held_out,
    check_queries,
    check_rows,
    check_upper_bound,
    hint_of_classes,
)
from frameboost.training.evaluation_log import Callback, EvaluationLog
from frameboost.training.smearing import Smearing
from frameboost.trees.tree import TreeColumns, trees_on_grid

if TYPE_CHECKING:
    from frameboost.training.checkpoint import Checkpoint

__all__ = ["fit", "plan", "plan_with", "train_planned"]

_MAX_CLASSES = 10_000


@checked()
def fit(
    data: Any,
    target: str | Sequence[str],
    *,
    objective: str | Objective | Callable[..., Any] | None = None,
    positive: str | None = None,
    features: Any = None,
    exclude: Any = None,
    weight: str | None = None,
    base_margin: str | Sequence[str] | None = None,
    exposure: str | None = None,
    label_upper_bound: str | None = None,
    group: str | None = None,
    valid: Any = None,
    folds: Any = None,
    stratified: bool = False,
    time: str | None = None,
    eval_metric: str | Metric | Callable[..., Any] | Iterable[str | Metric | Callable[..., Any]] | None = None,
    train_metrics: bool = False,
    callbacks: Sequence[Callback] = (),
    init_model: Model | None = None,
    engine: str | Dask | Spark = "auto",
    shards: int | None = None,
    cuts: Mapping[str, Iterable[Any]] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 10,
    max_sql: str | int | None = None,
    verbose: bool | int | None = None,
    **parameters: Unpack[TrainingParameters],
) -> Model:
    """Train a gradient boosted model on a frame or on a table in a database.

    Every engine, every number of threads and every order of the rows give the same model.

    Parameters
    ----------
    data : polars frame, DuckDB relation, pandas, Dask or Spark DataFrame, Arrow or database table, path, list of these
        The training data, one example per row. A DuckDB relation may be a table, a view, a query or files
        (``con.table("flights")``, ``con.sql("...")``, ``con.read_parquet("*.parquet")``); its rows stay in the
        database, and the state of the fit is kept in temporary tables of the connection that are dropped at the end. A
        path names a Parquet, CSV, NDJSON or Arrow file, compressed text (``"2013.csv.gz"``), a glob of files, read in
        the order of their names (``"2013-*.parquet"``), or a table of a DuckDB file (``"flights.duckdb::late"``).
        Several frames or files are concatenated. A Spark DataFrame stays in its executors; a Dask DataFrame is read by
        the workers of ``engine=fb.Dask(client)``. A table of another database (`frameboost.table`) is binned there, and
        only codes are fetched. An Ibis table of the DuckDB backend stays in its database; narwhals frames and PyArrow
        datasets are unwrapped.
    target : str or list of str
        The column to predict: numbers, Booleans, or strings (also Enum and Categorical) as class labels. NULL, NaN and
        infinities are errors. Several numeric or Boolean columns are several targets: every round grows a tree for
        each, and predictions are arrays.
    objective : str, Objective or function, optional
        The loss: XGBoost's name for it (``docs/objectives.md`` lists all), an `Objective`, or a function. A function
        ``f(label, margin)`` or ``f(label, margin, weight)`` over arrays returns gradient and hessian; the prediction is
        then the margin. By default ``'reg:squarederror'`` for numbers, ``'binary:logistic'`` for Booleans and two
        labels, and ``'multi:softprob'`` for more labels.
    positive : str, optional
        The positive class of a binary target, the one that probabilities refer to; by default the second label, in the
        order of the Enum or of the alphabet (``'yes'`` of no and yes).
    features : list of str, polars selector or function, optional
        The columns to predict from; by default all columns without another role. A selector (``cs.numeric()``) selects
        by polars type, in relations too. A function selects the names for which it returns True, like pandas'
        ``usecols``: ``lambda name: name.startswith("x_")``. A list may mix names and selectors. Selectors and functions
        never select a column that has another role. Numbers, decimals, Booleans, dates, timestamps and durations are
        split at a threshold, strings (also Enum and Categorical) by set membership. NULL and NaN are missing; each
        split learns their direction.
    exclude : str, list of str, polars selector or function, optional
        Columns to remove from ``features`` or from its default.
    weight : str, optional
        The column of row weights, 0 or more.
    base_margin : str or list of str, optional
        An offset: columns that are added to the margins, one for each output. The base score is estimated given the
        offset. The model stores the names (`Model.offset`), and scoring reads the columns from the data.
    exposure : str, optional
        For objectives with a log link, such as count:poisson: the column to add to the margins as its logarithm (years
        insured, length of road, hours at risk). Predictions are proportional to it. It must be above 0.
    label_upper_bound : str, optional
        For survival:aft: the column of upper bounds of the times, equal to the target where the time is known, NULL (or
        infinity) where it is right-censored.
    group : str, optional
        For ranking: the column of query ids, numbers, strings or dates, in any order. Weights are then per query. For
        other objectives: the column of groups (customers, say) whose rows stay together where ``folds`` is a number or
        a splitter, or ``valid`` a share or the last rows. It is not a feature.
    valid : float, str, data, or dict of name to data, optional
        Held-out rows for metrics and early stopping. ``0.2`` holds out that share of the rows, or with ``group`` of its
        values, drawn by a hash of row position and ``seed``, the same in every engine. ``"last 20%"`` and ``"last 4
        weeks"`` (hours, days, weeks, months, quarters, years) hold out the last rows by the column ``time``. Otherwise
        a Boolean column of the data, a SQL predicate over its columns that is true for the held-out rows, or separate
        data, of any kind that ``data`` accepts. With several sets, early stopping watches the last. A predicate is
        inserted into queries unchanged: never accept one from users who may not query the data. Volatile functions such
        as ``random()`` are errors.
    folds : int, str, list of pairs or splitter of scikit-learn, optional
        Train one model per fold on the other folds, with early stopping on the held-out one, and return their mean as
        one model that holds all trees. The mean has seen all rows and is usually better than one fit, at that many
        times the cost. A number assigns rows, or with ``group`` whole groups, by a hash of row position and ``seed``;
        a string names a column of fold labels; a splitter or positions are as in `cv`. `Model.out_of_fold` returns the
        out-of-fold predictions. `frameboost.auto` tunes parameters as well.
    stratified : bool, default False
        Whether to stratify a number of ``folds`` by class. (LightGBM's ``cv`` stratifies by default, XGBoost's does
        not.)
    time : str, optional
        For ``valid="last 20%"``: the column of dates, times or numbers to order rows by. Rows of the same time stay
        together, and so do groups. The column is a feature, too, unless ``exclude`` names it.
    eval_metric : str, Metric, function or list of them, optional
        The metrics to evaluate after each round: XGBoost's names, SQL, functions over arrays (scikit-learn's, for
        example), or scikit-learn's scorers, by name or from ``make_scorer`` (``docs/metrics.md``). `Model.history` has
        a column for each. They are evaluated on the held-out rows, or without any on the training rows; by default the
        objective's metric, if rows are held out or ``train_metrics`` is set. Early stopping watches the last metric.
    train_metrics : bool, default False
        Whether to evaluate the metrics on the training rows, as well as on held-out rows if there are any, for learning
        curves. It makes a fit about 6 % slower, with AUC 13 %.
    callbacks : list of functions, optional
        Functions to call after each round with its number, from 1, and a dict of its metrics; training stops if one
        returns True. A fit that resumes from a ``checkpoint`` calls them for new rounds only.
    init_model : Model, optional
        A model to continue from, with the same objective, features and labels: the new model has its trees and those of
        ``n_estimators`` further rounds.
    engine : {'auto', 'numba', 'polars', 'duckdb', 'sql'}, Dask or Spark, default 'auto'
        The engine that computes histograms: compiled kernels (numba), lazy group-bys (polars) or SQL (duckdb).
        ``'auto'`` is duckdb for a relation, ``fb.Spark()`` for a Spark DataFrame, and numba otherwise. ``'sql'`` trains
        inside the database of a `frameboost.table`; only histograms leave it. Otherwise a cluster, ``fb.Dask(client)``,
        or the name of an engine that another package registers (``docs/engines.md``). For up to 524,288 values, or
        4,096 rows, polars and duckdb read the data into memory and use the kernels, as queries would take many times as
        long.
    shards : int, optional
        The number of shards to divide the rows into, each with an engine; sums are merged, and the model is the same.
        Requires ``tree_method='hist'``. For Parquet or Arrow files larger than memory, numba reads one column at a time
        and keeps its arrays in temporary files (``docs/scale.md``).
    cuts : dict, optional
        Bin edges by column, instead of quantiles.
    checkpoint : str or path, optional
        A file that stores the rounds so far. After an interruption the same call resumes from it, and ends with the
        model of an uninterrupted fit; after a finished fit it returns that model, and a larger ``n_estimators`` adds
        rounds. The file is kept; delete it to start over (``docs/guide.md``).
    checkpoint_every : int, default 10
        The number of rounds between two writes of the checkpoint.
    max_sql : str or int, optional
        A limit on the size of the model as SQL: a database (``"snowflake"``), for its limit of a query, or a number of
        bytes of one query in standard SQL (views may have less; ``docs/dialects.md``). The model keeps the first rounds
        that fit; if it drops any, its text reports how many and the loss in the last metric. Not with ``folds``; `auto`
        has ``fits``.
    verbose : bool or int, optional
        Whether to show on standard error a progress bar during a long fit, and a message while kernels are compiled
        (once per machine); by default in terminals and notebooks. Compilation of more than a second is reported in
        logs, too. Numbers from 1 count as True, others as False (LightGBM's ``verbose=-1``). The logger ``frameboost``
        of `logging` receives both at the level INFO.
    **parameters : all other parameters
        Parameters of trees, regularisation, sampling and objectives, by XGBoost's names or aliases
        (``docs/parameters.md``).

    Returns
    -------
    Model
        The trained model. `Model.metadata` records the time, the number of rows, the release, and for a relation the
        hash of the query; `to_json` leaves it out, so that models of the same data are equal.

    Raises
    ------
    ParameterError
        If a parameter is unknown, out of range, or can't be combined with another.
    DataError
        If the data can't be trained on, with the column in the message, or if the checkpoint belongs to other data.
    ModelFileError
        If the checkpoint is damaged, or was written by another release.

    Examples
    --------
    >>> import polars as pl, frameboost as fb
    >>> df = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": [1.0, 1.0, 5.0, 5.0]})
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
    if not FIT_ALIASES.keys().isdisjoint(parameters):
        named = {} if eval_metric is None else {"eval_metric": eval_metric}
        arguments = under_our_names(named | parameters)
        eval_metric = arguments.pop("eval_metric", None)
        parameters = cast("TrainingParameters", arguments)
    if folds is not None:
        refuse_with_folds(locals())
    budget = None if max_sql is None else SqlBudget.of("max_sql", max_sql)
    require_numba("fit")
    with defer_signals():  # numba cannot be imported again after Ctrl-C has interrupted its import
        from frameboost.training.checkpoint import Checkpoint
    eval_metric = read_once(eval_metric)
    saved = None if checkpoint is None else Checkpoint(checkpoint, checkpoint_every)
    planned = plan_fit(
        data, target, objective=objective, positive=positive, features=features, exclude=exclude, weight=weight,
        base_margin=base_margin, exposure=exposure, label_upper_bound=label_upper_bound, group=group, valid=valid,
        folds=folds, stratified=stratified, time=time, eval_metric=eval_metric, init_model=init_model, engine=engine,
        shards=shards, cuts=cuts, parameters=parameters,
    )  # fmt: skip
    if budget is not None:
        budget.check(planned.features)
    if folds is not None:
        model = mean_of_folds(partial(train_planned, eval_metric=eval_metric, verbose=verbose), planned)
    else:
        model = train_planned(
            planned, eval_metric=eval_metric, train_metrics=train_metrics, callbacks=callbacks, checkpoint=saved,
            verbose=verbose,
        )  # fmt: skip
    ensemble = model.ensemble if budget is None else _within(budget, model)
    return Model(replace(ensemble, metadata=replace(model.metadata, query=hash_of_query(data))))


def _within(budget: SqlBudget, model: Model) -> Ensemble:
    """Return the model of the first rounds that fit into a budget of SQL, with the loss in quality as its hint."""
    ensemble, record, n_rounds = model.ensemble, model.ensemble.training, model.n_rounds
    kept = budget.cut(ensemble)
    if kept.n_rounds == n_rounds:
        return ensemble
    cost = ""
    if len(record.history.columns) > 1:
        name = record.history.columns[-1]
        values = record.history[name][[kept.n_rounds - 1, n_rounds - 1]]
        cost = f"; {name} is {values[0]:.6g}, and {values[1]:.6g} after all of them"
    hint = f"{kept.n_rounds:,} of {n_rounds:,} rounds, which fit into {budget.noun}{cost}"
    return replace(kept, training=replace(kept.training, history=record.history, hint=hint))


def train_planned(
    planned: FitPlan, *, eval_metric: Any = None, train_metrics: bool = False,
    callbacks: Sequence[Callback] = (), checkpoint: Checkpoint | None = None, verbose: bool | int | None = None,
) -> Model:  # fmt: skip
    """Train as planned; the other arguments are those of `fit`.

    Raises
    ------
    ParameterError, DataError, ModelFileError
        As `fit`.
    """
    with defer_signals():  # numba cannot be imported again after Ctrl-C has interrupted its import
        from frameboost.training.checkpoint import argument_facts
        from frameboost.training.growths import FitEngines
        from frameboost.training.train import train
    roles, chosen, method, initial = planned.roles, planned.features, planned.method, planned.initial
    functions = [] if eval_metric is None else list(filter(None, map(as_function, metrics_of(eval_metric))))
    for function in functions:
        planned.engine.check_arrays(f"eval_metric {shown(function.name)}")
    if checkpoint is not None:
        _check_resumes(planned)
    in_order = bool(functions) or planned.is_of_function
    with unwrap_handler_errors(), defer_in_callbacks(), ExitStack() as open_engines, announce_compilation(verbose):
        when_call_returns(open_engines.close)
        workers, budget = open_engines.enter_context(closing(Workers(planned.settings.n_jobs))), MemoryBudget()

        def opened(contract: type[Any], rows: Source) -> Engine:
            request = EngineRequest(
                rows, chosen, method.roles(roles, chosen), planned.settings, workers, budget=budget, in_order=in_order,
                name_tables=None if checkpoint is None else checkpoint.name_tables,
            )  # fmt: skip
            over_rows: Engine = open_engine(planned.engine, contract, request)
            return open_engines.enter_context(closed_after(over_rows))

        training = opened(method.contract, planned.source)
        others = {key: opened(method.held_out_contract, part) for key, part in planned.held_out.items()}
        # A class of few rows may be in those alone that were split off.
        of_one_table = [training, *others.values()] if planned.source is not planned.data else [training]
        loss, settings = _loss(planned.objective, planned.settings, of_one_table, roles, planned.labels)
        offset = offset_of(loss, planned.offset)
        _check_loss(loss, settings, chosen, roles, initial)
        metrics = get_metrics(eval_metric, loss, settings.as_dict())
        label_range = check_rows(training, loss, roles, planned.labels)
        # Last, as types of many columns take long to tell.
        may_be_classes = planned.may_be_classes and not loss.classes and label_range == (0, 1)
        hint = hint_of_classes(planned.source, planned.target) if may_be_classes else ""
        evaluated = metrics if planned.held_out or train_metrics or eval_metric is not None else []
        check_queries(training, loss, evaluated, roles, exponential=settings.ndcg_exp_gain)
        for key, other in others.items():
            check_held_out(other, loss, roles, key)
            check_queries(other, loss, evaluated, roles, exponential=settings.ndcg_exp_gain)
        sets = ({"train": training} if train_metrics or not others else {}) | others if evaluated else {}
        log = EvaluationLog(
            sets, metrics, settings.early_stopping_rounds, callbacks, 0 if initial is None else initial.n_rounds,
            settings.min_delta,
        )  # fmt: skip
        given = bins_from_cuts(planned.cuts, chosen, training.count_missing()) if planned.cuts else {}
        if checkpoint is not None:
            open_engines.enter_context(closed_after(checkpoint))
            facts = argument_facts(loss, settings, chosen, roles, log.columns, initial, planned.labels)
            checkpoint.check_arguments(facts, training.count_missing())
        size = f"{counted(training.n_rows, 'row')}, {counted(len(chosen), 'feature')}"
        LOG.info("fit: %s, %s, %s", loss.name, size, planned.engine.name)
        learnt = _learnt(planned, loss, [training, *others.values()][-1], log)
        with progress(settings.n_estimators, lambda: _progress(log, metrics[0], training), verbose=verbose) as on_round:
            offsets = {} if offset is None else offset.in_training(loss.margins)
            engines = FitEngines(training, tuple(others.values()), "weight" in roles, offsets, initial)
            after_round = [on_round, *(each.end_round for each in learnt)]
            ensemble = train(engines, method, loss, settings, given, log, workers, after_round, checkpoint)
        for each in learnt:
            ensemble = each.of(ensemble)
        n_rows = training.n_rows
    ensemble = replace(ensemble, offset=offset, loss=scored_loss(ensemble.loss) if loss.is_of_arrays else ensemble.loss)
    joins = recorded_joins(planned.data, ensemble.read_names)
    ensemble = replace(ensemble, joins=joins, metadata=Metadata.of_training(n_rows))
    model = _model(ensemble if initial is None else join_ensembles(initial, ensemble), planned.labels, log, hint)
    return Model(_decided(model.ensemble, planned)) if planned.chooses_threshold else model


def _learnt(planned: FitPlan, loss: Loss, rows: Rows, log: EvaluationLog) -> list[Smearing | ThresholdAtBestRound]:
    """Return what is learnt besides trees, from the last held-out rows or the training rows."""
    learnt: list[Smearing | ThresholdAtBestRound] = []
    if planned.is_smeared:
        learnt.append(Smearing(loss, rows, log))
    if planned.chooses_threshold:
        check_rule(planned.settings.threshold, rows)
        if not _scores_again(planned):
            learnt.append(ThresholdAtBestRound(planned.settings.threshold, rows, log))
    return learnt


def _scores_again(planned: FitPlan) -> bool:
    """Whether the rows can be scored again after training, which holds for rows in memory and in DuckDB."""
    return data_kind(planned.source) in ("frame", "relation")


def _decided(ensemble: Ensemble, planned: FitPlan) -> Ensemble:
    """Return the ensemble with its threshold; it is chosen here if training did not choose it."""
    if not _scores_again(planned):
        return ensemble
    source = cast("LocalSource", [planned.source, *planned.held_out.values()][-1])
    return decided(ensemble, planned.settings.threshold, source, planned.roles)


def _check_resumes(planned: FitPlan) -> None:
    """Raise `ParameterError` if the fit learns something that a checkpoint does not store."""
    if planned.is_of_function:
        raise ParameterError(
            "checkpoint can't be combined with an objective that is a Python function, as a resumed fit can't verify "
            "that it is the same"
        )
    if planned.chooses_threshold and not _scores_again(planned):
        raise ParameterError(
            f"checkpoint can't be combined with threshold={shown(planned.settings.threshold)} where rows are neither "
            "in memory nor in DuckDB, as it is chosen on the margins of the best round; set a number"
        )
    if planned.is_smeared:
        known = advice("model.parameters['smearing']", "which show prints")
        raise ParameterError(
            "checkpoint can't be combined with smearing, which needs the errors of the best round; set "
            f"smearing=False, or the numbers of the same fit without a checkpoint, {known}"
        )


def _progress(log: EvaluationLog, metric: AnyMetric, training: Rows) -> tuple[str, float]:
    """Return the text of a progress bar: the metric that early stopping watches, or the first on the training rows."""
    if log.n_rounds > log.rounds_before and log.last:
        return list(log.last.items())[-1]
    value = evaluate(metric, training)
    return f"train_{title_of(metric)}", value


def _model(ensemble: Ensemble, labels: Labels, log: EvaluationLog, hint: str) -> Model:
    """Return the model of a trained ensemble, with its leaf values on their grid."""
    base_margins, trees = trees_on_grid(ensemble.base_margins, TreeColumns.of(ensemble.trees))
    ensemble = replace(ensemble, base_margins=base_margins, trees=trees, labels=labels)
    return Model(ensemble, history=log.frame(), best_round=log.best_round, best_score=log.best_score, hint=hint)


# --- checks of what the labels decide ---------------------------------------------------------------------------------


def _loss(
    objective: str | Objective, settings: Parameters, rows: Sequence[Rows], roles: Mapping[str, str], labels: Labels
) -> tuple[Loss, Parameters]:
    """Return the loss and the parameters, with the number of classes filled in.

    ``rows`` are the training rows, followed by others of the same table.
    """
    loss, settings = _unadjusted(objective, settings, rows, roles)
    if settings.class_weight is not None:
        settings = replace(settings, class_weight=counted_factors(settings.class_weight, loss, rows[0], labels))
    return adjusted(loss, settings.as_dict()), settings


def _unadjusted(
    objective: str | Objective, settings: Parameters, rows: Sequence[Rows], roles: Mapping[str, str]
) -> tuple[Loss, Parameters]:
    if "label" not in roles:
        n_targets = sum(role.startswith("label_") for role in roles)
        if family_of(objective) == "multi":
            raise ParameterError(f"objective {shown(name_of_objective(objective))} takes one target, not {n_targets}")
        if isinstance(objective, Objective):
            return objective.loss(n_targets), settings
        return multi_target_loss(get_loss(objective, settings.as_dict()), n_targets), settings
    if family_of(objective) == "multi" and settings.num_class is None:
        label = Aggregate("max", Expression("label", ("label",)))
        largest = max(
            (value for each in rows if (value := each.aggregate({"label": label})["label"]) is not None), default=None
        )
        if largest is not None and _MAX_CLASSES <= largest < math.inf:
            raise DataError(
                f"target {shown(roles['label'])} holds {largest:.15g}, and objective "
                f"{shown(name_of_objective(objective))} has a class for each number from 0 to the largest, at most "
                f"{_MAX_CLASSES:,}; number the classes from 0, or use strings as labels"
            )
        usable = largest is not None and largest >= 1  # which NaN is not
        settings = replace(settings, num_class=int(largest) + 1 if usable and largest is not None else 2)
    if isinstance(objective, Objective):
        return objective.loss(num_class=settings.num_class), settings
    return get_loss(objective, settings.as_dict()), settings


def _check_loss(
    loss: Loss, settings: Parameters, features: Sequence[Feature], roles: Mapping[str, str], initial: Ensemble | None
) -> None:  # fmt: skip
    """Raise `ParameterError` if the loss conflicts with a column, a parameter or the model to continue from."""
    check_upper_bound(loss, roles)
    if loss.renewal and settings.linear_tree:
        raise ParameterError(
            f"linear_tree=True can't be combined with objective {shown(loss.name)}, whose leaves are quantiles and "
            "have no slopes"
        )
    if initial is not None:
        check_continues(initial, loss, settings, features)


@checked(fit)
def plan(data: Any, target: str | Sequence[str], **options: Unpack[PlanOptions]) -> FitPlan:
    """Return the plan of a fit: what `fit` would decide for the same arguments, and why; it prints a line per decision.

    Reads only types and labels, and trains nothing.

    Parameters
    ----------
    data, target
        As for `fit`.
    **options
        All other arguments of `fit`. Those that matter only during training, such as ``eval_metric``, do not change the
        plan. With ``folds`` it is the plan for all rows.

    Returns
    -------
    FitPlan
        Attributes: the objective, the features with their types, the roles of columns, the parameters, the tree method,
        the engine.

    Raises
    ------
    ParameterError, DataError
        As `fit`.

    Examples
    --------
    >>> import polars as pl, frameboost as fb
    >>> df = pl.DataFrame({"x": [1.0, 2.0, 3.0], "town": ["Ulm", "Bonn", "Ulm"], "late": [True, False, True]})
    >>> print(fb.plan(df, "late", max_depth=3))
    target      'late', binary:logistic
    labels      False, True
    features    2: 1 float64, 1 string
    rows        frame
    engine      numba, kernels over columns in memory
    splits      tree_method='hist': between bins, from histograms of G and H
    rounds      100
    parameters  max_depth=3
    """
    if options.get("folds") is not None:
        refuse_with_folds(options)
    return plan_with(data, target, options)[0]


def plan_with(
    data: Any, target: str | Sequence[str], options: Mapping[str, Any]
) -> tuple[FitPlan, Callable[[FitPlan], Model]]:
    """Return the plan of a fit with these arguments of `fit`, and the function that trains it or a plan like it."""
    named, options = inspect.signature(fit).parameters, under_our_names(options)

    def arguments_of(function: Callable[..., object]) -> dict[str, Any]:
        own = [each.name for each in inspect.signature(function).parameters.values() if each.kind is each.KEYWORD_ONLY]
        return {name: options.get(name, named[name].default) for name in own if name != "parameters"}

    parameters = {name: value for name, value in options.items() if name not in named}
    plan = plan_fit(data, target, parameters=parameters, **arguments_of(plan_fit))
    return plan, partial(train_planned, **arguments_of(train_planned))


def _with_parameters(doc: str) -> str:
    """Return the docstring of `fit` with the fields of `Parameters` inserted at its placeholder."""
    before, after = inspect.cleandoc(doc).split("**parameters : all other parameters\n")
    _, results = after.split("\nReturns\n")
    return f"{before}{parameter_table()}\n\nReturns\n{results}"


fit.__doc__ = fit.__doc__ and _with_parameters(fit.__doc__)  # None with python -OO
