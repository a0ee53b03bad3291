"""The model: an ensemble of trees and its training history.

Its methods delegate to `frameboost.prediction` for Python and to `frameboost.database` for SQL.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Unpack, overload

import duckdb
import polars as pl

from frameboost.checks.arguments import (
    anything,
    checked,
    column,
    columns,
    costs,
    flag,
    name_of,
    slice_of_rounds,
    whole,
    word,
)
from frameboost.checks.json_files import to_ubjson
from frameboost.checks.messages import shown
from frameboost.compile.sql.forms import QueryArguments, QueryOptions, with_options
from frameboost.data.fingerprints import hash_of_rows
from frameboost.data.written_files import write_bytes, write_text
from frameboost.database.database_model import ColumnNames, DatabaseModel, database_model
from frameboost.database.drift import model_baseline
from frameboost.database.registration import register
from frameboost.database.star import Tables
from frameboost.ensemble.baseline import Baseline
from frameboost.ensemble.ensemble import Ensemble, TrainingRecord
from frameboost.ensemble.metadata import Metadata, check_tags, check_word
from frameboost.ensemble.model_file import dump_binary, dump_file, dump_model, model_hash
from frameboost.errors import ParameterError
from frameboost.evaluation.evaluation import Evaluation, evaluate_model
from frameboost.evaluation.importance import contribution_importance, permutation_importance
from frameboost.interop.to_xgboost import to_xgboost
from frameboost.losses.outputs import OutputName, ScoreName
from frameboost.metrics.metric import Metric
from frameboost.model.calibration import METHODS, calibrated_ensemble
from frameboost.model.conformal import conformed_ensemble
from frameboost.model.summaries import html_summary, importance_frame, summary, tree_frame
from frameboost.model.threshold import decided
from frameboost.model.tree_drawing import TreeDrawing, check_tree
from frameboost.prediction.contributions import contribution_frame, interaction_frame, shap_explanation
from frameboost.prediction.dependence import partial_dependence_frame
from frameboost.prediction.predictor import Predictor
from frameboost.prediction.reasons import check_no_reasons, reason_frame
from frameboost.runtime.workers import require_numba
from frameboost.training.data_checks import open_labelled

__all__ = ["REPORT_WRITERS", "Model", "out_of_fold_frame", "predictor_of"]

# The function that writes a report. Reports are made of charts, which take models, so they are in a layer above this
# class; `frameboost`, which is above both, sets it.
REPORT_WRITERS: list[Callable[..., None]] = []


class Model:
    """A trained ensemble of trees, returned by `frameboost.fit`, `frameboost.load` and the ``from_...`` functions.

    Models are immutable. Two models are equal if their `to_json` is.

    Parameters
    ----------
    ensemble
        The trees, their loss and their features.
    history
        The metrics of each round. This and the following default to those of ``ensemble.training``.
    best_round, best_score
        The values of `best_iteration` and `best_score`.
    hint
        A last line of the model's text, about its training.
    leaderboard
        What `leaderboard` returns.
    out_of_fold
        The out-of-fold predictions, or the reason why there are none.

    Examples
    --------
    >>> import polars as pl, frameboost as fb
    >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
    >>> model = df.pipe(fb.fit, target="y", n_estimators=2, learning_rate=0.5, reg_lambda=0)
    >>> model
    Model: reg:squarederror, 2 trees (depth 1, 4 leaves), 1 feature
      x  int64
    >>> model.predict(df).to_list()
    [1.0, 1.0, 7.0, 7.0]
    """

    def __init__(
        self,
        ensemble: Ensemble,
        *,
        history: pl.DataFrame | None = None,
        best_round: int | None = None,
        best_score: float | None = None,
        hint: str = "",
        leaderboard: pl.DataFrame | None = None,
        out_of_fold: pl.DataFrame | str | None = None,
    ) -> None:
        fields = {"history": history, "best_round": best_round, "best_score": best_score, "hint": hint or None,
                 "leaderboard": leaderboard, "out_of_fold": out_of_fold}  # fmt: skip
        known: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
        self._ensemble = replace(ensemble, training=TrainingRecord(**known)) if known else ensemble

    @cached_property
    def _predictor(self) -> Predictor:
        return Predictor(self._ensemble)

    # --- what it is ---------------------------------------------------------------------------------------------------

    @property
    def ensemble(self) -> Ensemble:
        """The content of the model file: trees, base margins, features, loss and parameters.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=1).ensemble.trees[0].threshold
        (2, None, None)
        """
        return self._ensemble

    @property
    def objective(self) -> str:
        """The name of the objective.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=3, max_depth=2).objective
        'reg:squarederror'
        """
        return self._ensemble.loss.name

    @property
    def classes(self) -> list[str] | list[bool] | list[int]:
        """The class labels in the order of their probabilities; numbers from 0 if the target was numeric.

        Empty for regressions.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4] * 9, "y": ["red", "green", "blue", "blue"] * 9})
        >>> fb.fit(df, "y", n_estimators=1).classes
        ['blue', 'green', 'red']
        """
        return list(self._ensemble.labels) or list(range(self._ensemble.loss.classes))  # type: ignore[return-value]

    @property
    def parameters(self) -> dict[str, Any]:
        """The training parameters that determine the model, by name.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=3, max_depth=2).parameters["max_depth"]
        2
        """
        return deepcopy(dict(self._ensemble.parameters))

    @property
    def features(self) -> list[str]:
        """The names of the features, in order.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=3, max_depth=2).features
        ['x']
        """
        return self._ensemble.feature_names

    @property
    def base_margin(self) -> float | list[float]:
        """The margin before the first tree; a list for several outputs.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=3, max_depth=2).base_margin
        4.0
        """
        margins = self._ensemble.base_margins
        return margins[0] if len(margins) == 1 else list(margins)

    @property
    def offset(self) -> dict[str, str | list[str]]:
        """The columns that are added to the margins, by argument of `frameboost.fit`; empty without an offset.

        Scoring reads them from the data.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 1, 2, 2], "years": [0.5, 1.0, 1.0, 2.0], "claims": [1, 1, 3, 9]})
        >>> model = fb.fit(df, "claims", exposure="years", objective="count:poisson", max_delta_step=0, n_estimators=99)
        >>> model.offset
        {'exposure': 'years'}
        >>> model.predict({"x": 2, "years": 0.25}).round(2).to_list()
        [1.0]
        """
        return {} if self._ensemble.offset is None else self._ensemble.offset.arguments

    @property
    def n_trees(self) -> int:
        """The number of trees.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=3, max_depth=2).n_trees
        3
        """
        return len(self._ensemble.trees)

    @property
    def n_rounds(self) -> int:
        """The number of boosting rounds, of ``num_parallel_tree`` trees for each output.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3] * 4, "y": [0, 1, 2] * 4})
        >>> model = fb.fit(df, "y", objective="multi:softprob", n_estimators=3)
        >>> model.n_rounds, model.n_trees
        (3, 9)
        """
        return self._ensemble.n_rounds

    @property
    def history(self) -> pl.DataFrame:
        """The metrics by round: ``round`` from 1, then a column for each metric of each set of rows.

        Without metrics if nothing was evaluated, and in a slice of a model.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4] * 2, "y": [0.0, 0.0, 8.0, 8.0] * 2})
        >>> model = fb.fit(df[:4], "y", valid=df[4:], n_estimators=2, learning_rate=0.5, reg_lambda=0)
        >>> model.history.rows(named=True)
        [{'round': 1, 'valid_rmse': 2.0}, {'round': 2, 'valid_rmse': 1.0}]
        """
        return self._ensemble.training.history.clone()

    @property
    def leaderboard(self) -> pl.DataFrame:
        """The trials of `frameboost.auto` by descending weight in the model.

        Columns: ``trial`` (the name of the settings), the metric (the mean over folds, on held-out rows), ``weight``
        (in the mean), ``fits`` (the number of models), ``rounds`` (their mean), ``leaves`` (of all their trees; the
        size of the SQL is proportional to it), ``seconds`` (of all fits by the clock; they run in parallel) and
        ``settings``.
        Empty for a model of `frameboost.fit`.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [i % 4 for i in range(200)]}).with_columns(y=pl.col("x") * 2.0)
        >>> fb.auto(df, "y", quality=1).leaderboard.columns
        ['trial', 'rmse', 'weight', 'fits', 'rounds', 'leaves', 'seconds', 'settings']
        """
        return self._ensemble.training.leaderboard.clone()

    @property
    def out_of_fold(self) -> pl.DataFrame:
        """Out-of-fold predictions: of each training row by a model that was not trained on it, in row order.

        `frameboost.fit` with ``folds`` and `frameboost.auto` compute them; use them for stacking, thresholds and
        residuals. Model files do not store them. `frameboost.cv` with ``return_models`` returns them too.

        Columns: ``fold`` (Int32, from 0) and ``prediction``, with the type of `predict`. Both are NULL for rows that no
        model held out: with ``time`` the earliest rows, and with `frameboost.auto` the rows of folds that it trains no
        model without (quality 1 and 2, the winner of a race, millions of rows, weights of 0).

        Raises
        ------
        ParameterError
            If there are none: the model was trained without folds, loaded from a file or derived from another model, or
            the rows of a query had no fixed order.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [i % 4 for i in range(200)]}).with_columns(y=pl.col("x") * 2.0)
        >>> model = fb.fit(df, "y", folds=4, n_estimators=60)
        >>> df.with_columns(model.out_of_fold).select("y", pl.col("prediction").round(1)).row(3)
        (6.0, 6.0)
        """
        return out_of_fold_frame(self._ensemble.training.out_of_fold)

    @property
    def best_iteration(self) -> int | None:
        """The round, from 1, with the best value of the last metric on the last held-out set; None without one.

        Early stopping drops the trees of later rounds; without it, ``model[:model.best_iteration]`` does. None in a
        slice that does not contain the round.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 1, 2], "y": [0.0, 8.0, 0.0, 8.0], "late": [False, False, True, True]})
        >>> fb.fit(df, "y", valid="late", early_stopping_rounds=2, learning_rate=1, reg_lambda=0).best_iteration
        1
        """
        return self._ensemble.training.best_round

    @property
    def best_score(self) -> float | None:
        """The last metric at `best_iteration`, on the last held-out set.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 1, 2], "y": [0.0, 8.0, 0.0, 8.0], "late": [False, False, True, True]})
        >>> fb.fit(df, "y", valid="late", early_stopping_rounds=2, learning_rate=1, reg_lambda=0).best_score
        0.0
        """
        return self._ensemble.training.best_score

    @property
    def metadata(self) -> Metadata:
        """Name, version, tags, and the time, the number of rows and the release of training.

        `save` stores it on a separate line; `to_json` and `sha256` leave it out, as it differs from run to run.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> model = fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=1)
        >>> model.metadata.rows, model.metadata.library, model.metadata.trained.tzname()
        (2, 'frameboost 0.1.0', 'UTC')
        """
        return replace(self._ensemble.metadata, tags=dict(self._ensemble.metadata.tags))

    @property
    def sha256(self) -> str:
        """The SHA-256 of `to_json`; SQL files and reports contain it.

        Equal models have equal hashes, whatever their `metadata` and `baseline`.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> model = fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=1)
        >>> len(model.sha256), model.with_metadata(name="twins").sha256 == model.sha256
        (64, True)
        """
        return self._digest

    @property
    def baseline(self) -> Baseline | None:
        """The shares of rows in bins of each feature and of the predictions, set by `with_baseline`; None if not set.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> print(fb.fit(df, "y", n_estimators=1).baseline)
        None
        """
        known = self._ensemble.baseline
        return known and replace(known, features=known.features.clone(), scores=known.scores.clone())

    @property
    def trees(self) -> pl.DataFrame:
        """The trees as a frame, one row per node.

        Columns: ``tree`` and ``node`` (indices from 0), ``depth``, ``feature`` (null in a leaf), ``threshold``
        (Float64; values below it go left; dates and times as days or time units since 1970; null for categories and for
        splits on missingness), ``categories`` (those opposite to the missing direction), ``missing`` (the missing
        direction, "left" or "right"), ``left`` and ``right`` (child nodes), ``gain`` (without the paper's ½, as in
        XGBoost), ``cover`` (sum of hessians), ``value`` (the leaf value; in an inner node its value as a leaf),
        ``condition`` (exact SQL, true for the non-missing values that go left). For linear leaves also ``constant`` and
        ``slopes``: the value is the constant plus Σ slope · (x − centre).

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> fb.fit(df, "y", n_estimators=1).trees.select("node", "feature", "threshold", "gain", "condition").rows()
        [(0, 'x', 3.0, 42.666666666666664, '"x" < 3'), (1, None, None, 0.0, None), (2, None, None, 0.0, None)]
        """
        return tree_frame(self._ensemble)

    @checked(number=whole(0), depth=whole(1, 8))
    def tree(self, number: int = 0, *, depth: int = 4) -> TreeDrawing:
        """Draw a tree: SVG in notebooks, text in terminals.

        Rows that fulfil a condition go left (yes); the thick line is the missing direction. The method ``save`` of the
        result writes an SVG file. `frameboost.plots.tree` is the same as an Altair chart.

        Parameters
        ----------
        number
            The index of the tree, from 0, as in `trees`.
        depth
            The number of levels of splits to draw, from 1 to 8; deeper splits are counted.

        Raises
        ------
        ParameterError
            If the model has no such tree.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0).tree(0)
        Tree 0: 2 leaves, 1 feature in splits
          x < 3
            yes: -4
            no or missing: +4
        """
        check_tree(self._ensemble, number)
        return TreeDrawing(self._ensemble, number, depth)

    @checked(kind=anything, repeats=whole(1, 1000))
    def importance(
        self,
        kind: Literal["gain", "total_gain", "weight", "cover", "total_cover", "permutation", "shap"] = "gain",
        data: Any = None,
        target: str | Sequence[str] | None = None,
        *,
        weight: str | None = None,
        group: str | None = None,
        label_upper_bound: str | None = None,
        eval_metric: str | Metric | Iterable[str | Metric] | None = None,
        repeats: int = 5,
        seed: int = 0,
    ) -> pl.DataFrame:
        """Return the importance of each feature in descending order.

        Parameters
        ----------
        kind
            From the trees: ``weight``, the number of splits on the feature; ``total_gain`` and ``total_cover``, the
            sums of their gains and covers; ``gain`` and ``cover``, the means, 0 for a feature without splits. The names
            are XGBoost's; LightGBM's ``gain`` is ``total_gain``, and its ``split`` is ``weight``.

            From rows: ``permutation``, how much the metric gets worse when the values of the feature are permuted, 0 or
            below for an uninformative feature; ``shap``, the mean absolute Shapley value (`explain`), summed over
            outputs.
        data
            For ``permutation`` and ``shap``: rows as for `predict`, for permutations preferably rows that the model was
            not trained on. Rows of a `frameboost.table` stay in the database, except for ranking metrics, Python
            functions and Shapley values of large models, for which no query exists. Permutations of a DuckDB relation
            that does not fit into memory are joins in DuckDB. All other data is read into memory. Shapley values of
            large models are slow; a few thousand rows are enough.
        target, weight, group, label_upper_bound, eval_metric
            For ``permutation``: as for `evaluate`. The default metric is the objective's; of several, the last counts.
        repeats
            The number of permutations of each feature. They are drawn by hashes of row position, so a database table
            needs a ``key``.
        seed
            The seed of the permutations.

        Returns
        -------
        polars.DataFrame
            One row per feature: ``feature`` (String) and ``importance`` (Float64). For permutations the mean, and
            ``deviation`` (Float64), the standard deviation over the repeats, with n − 1.

        Raises
        ------
        ParameterError
            If the kind is unknown, or does not take an argument.
        DataError
            As `evaluate`; if the data has no rows.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "z": [1, 1, 1, 2], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> fb.fit(df, "y", n_estimators=3).importance("weight").rows()
        [('x', 3.0), ('z', 0.0)]
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> model.importance("shap", df).rows()
        [('x', 4.0), ('z', 0.0)]
        >>> model.importance("permutation", df, "y", eval_metric="mae").select("feature", "importance").rows()
        [('x', 4.8), ('z', 0.0)]
        """
        roles = {"weight": weight, "group": group, "label_upper_bound": label_upper_bound, "eval_metric": eval_metric}
        if isinstance(kind, str) and kind == "permutation":
            if data is None or target is None:
                raise ParameterError("importance of permutations needs data and target, the column of the labels")
            return permutation_importance(
                self._predictor, data, target, **roles, repeats=repeats, seed=seed,  # type: ignore[arg-type]
            )  # fmt: skip
        of_rows = isinstance(kind, str) and kind == "shap"
        of_trees = None if of_rows else importance_frame(self._ensemble, kind)
        for name, value in {"target": target, **roles}.items():
            if value is not None:
                raise ParameterError(f"{name} is for importance of kind 'permutation', not of {shown(kind)}")
        if of_trees is None and data is None:
            raise ParameterError("importance of kind 'shap' needs data, the rows to explain")
        if of_trees is not None and data is not None:
            raise ParameterError(f"data is for importance of kinds 'permutation' and 'shap', not of {shown(kind)}")
        return contribution_importance(self._predictor, data) if of_trees is None else of_trees

    # --- scoring in Python --------------------------------------------------------------------------------------------

    @checked()
    def predict(
        self,
        data: Any,
        output: ScoreName = "mean",
        *,
        base_margin: str | Sequence[str] | None = None,
        n_jobs: int | None = None,
    ) -> pl.Series:
        """Predict each row with compiled kernels.

        Parameters
        ----------
        data
            Data of any kind that `frameboost.fit` accepts, a row as a dict, or rows as a list of dicts. Features are
            read by name. Numeric types and time units may differ from training; values are compared exactly. Timestamps
            that are all at midnight, as in pandas, are accepted for dates.
        output
            ``"mean"``: the prediction on the scale of the target (the probability for ``binary:logistic``);
            ``"margin"``: the sum of the leaf values and the base margin; ``"class"``: the most probable class, as a
            label if the target had labels; ``"probability"``: of true or class 1, or of each class if there are more
            than two or they have labels; ``"quantiles"``: for ``reg:quantileerror``, sorted, as those of ``"mean"`` may
            cross; ``"distribution"``: for ``dist:*``, ``mean`` and ``std``; ``"interval"``: the ends of the prediction
            interval (see `conform`); ``"leaf"``: the node index of the leaf in each tree.
        base_margin
            Columns of base margins, one for each output. A model trained with an offset (`offset`) reads its columns
            from the data; pass them here only if their names differ. NULL or NaN in one, or an exposure of 0 or less,
            makes the prediction NULL. In a model trained without an offset, such as one of another library, the columns
            replace `Model.base_margin`.
        n_jobs
            The number of threads of the kernels; None or -1 for all cores available to the process. Set 1 in a server
            with one process per core. It does not change predictions. Polars, which reads files for example, uses
            separate threads (environment variable ``POLARS_MAX_THREADS``).

        Returns
        -------
        polars.Series
            Named ``"prediction"``: Float64; Array(Float64, outputs) for several outputs (classes, quantiles);
            Array(Int32, trees) for leaves; Int64, Boolean or String like the target for classes; a Struct with a field
            for each label for probabilities of labelled classes; a Struct of ``lower`` and ``upper`` for intervals.

        Raises
        ------
        DataError
            If a feature is missing from the data, or has a type that is not comparable with that of training.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [False, False, True, True]})
        >>> model = fb.fit(df, "y", objective="binary:logistic", n_estimators=1, min_child_weight=0)
        >>> model.predict(df).round(3).to_list()
        [0.45, 0.45, 0.55, 0.55]
        >>> model.predict({"x": 4}).round(3).to_list()
        [0.55]
        >>> model.predict(df, output="leaf").to_list()
        [[1], [1], [2], [2]]
        >>> named = df.with_columns(y=pl.Series(["no", "no", "yes", "yes"]))
        >>> model = fb.fit(named, "y", n_estimators=1, min_child_weight=0)
        >>> model.predict(df, output="class").to_list()
        ['no', 'no', 'yes', 'yes']
        >>> model.predict(df, output="probability").struct.field("no").round(2).to_list()
        [0.55, 0.55, 0.45, 0.45]
        """
        return self._predictor.started_from(base_margin).predict(data, output, n_jobs)

    @checked()
    def expr(self, output: OutputName = "mean", *, base_margin: str | Sequence[str] | None = None) -> pl.Expr:
        """Return the model as a polars expression over the features, named ``"prediction"``.

        Columns must have the types of training; ``base_margin`` is as for `predict`.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> df.lazy().with_columns(model.expr()).collect()["prediction"].to_list()
        [0.0, 0.0, 8.0, 8.0]
        """
        return self._predictor.started_from(base_margin).expr(output)

    # --- scoring in a database ----------------------------------------------------------------------------------------

    @checked(paramstyle=anything)
    def database(
        self,
        dialect: str = "duckdb",
        *,
        columns: ColumnNames | None = None,
        base_margin: str | Sequence[str] | None = None,
        limits: Mapping[str, int | None] | None = None,
        tables: Tables | None = None,
        paramstyle: Literal["format", "pyformat", "sqlalchemy"] | None = None,
    ) -> DatabaseModel:
        """Return the model for a database: it writes queries, views, tables, updates, files and monitoring SQL.

        Parameters
        ----------
        dialect
            The database: ``duckdb``, ``postgres``, ``sqlite``, ``clickhouse``, ``spark``, ``databricks``,
            ``snowflake``, ``bigquery``, ``redshift``, ``trino``, ``presto``, ``athena``, ``mysql``, ``mariadb``,
            ``tsql``, ``fabric`` or ``oracle`` (``docs/dialects.md``).
        columns
            Column names that differ from training, by feature or offset column. Or a function from the name in training
            to the name in the database, such as ``str.upper``.
        base_margin
            Columns of base margins, as for `predict`; ``columns`` renames them too.
        limits
            Limits that override the dialect's, such as ``{"text": 2_000_000}`` if an administrator raised one; None is
            no limit. Keys: ``text`` (bytes of a query), ``view`` (bytes of a CREATE VIEW), ``depth``, ``case_depth``,
            ``stack``, ``stages``, ``views``, ``columns``, ``elements`` and ``terms`` (see the table in
            ``docs/dialects.md``).
        tables
            For a model trained on a star (`frameboost.join`): the tables of dimensions that have other names here, by
            dimension. Queries contain the joins and score the facts; with ``"joined"`` they score a table that has all
            columns.
        paramstyle
            The parameter style of a driver that runs the SQL with parameters, to escape ``%`` (psycopg, pymysql:
            ``"format"``, ``"pyformat"``) or ``:x`` (``sqlalchemy.text``: ``"sqlalchemy"``) in names and categories.
            Files (`to_sql`, `to_dbt`) are not escaped.

        Raises
        ------
        ParameterError
            If the names of two features differ only in case and the database ignores case; if the database lacks the
            type of a feature or does not allow its name.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> print(model.database("postgres", columns={"x": "X"}).create_view_sql("scored", "orders", keep=["ID"]))
        CREATE VIEW "scored" AS
        SELECT "ID", (4.0::float8
         + CASE WHEN "X" < 3 THEN -4.0::float8 ELSE 4.0::float8 END) AS "prediction"
        FROM "orders"
        """
        return database_model(self._ensemble, dialect, columns, base_margin, limits, tables, paramstyle)

    def sql(
        self,
        output: OutputName = "mean",
        dialect: str = "duckdb",
        *,
        columns: ColumnNames | None = None,
        base_margin: str | Sequence[str] | None = None,
        limits: Mapping[str, int | None] | None = None,
    ) -> str:
        """Return the model as one scalar SQL expression over the features.

        Columns must have the types of training, or the dialect's equivalents. Strings are compared exactly; in DuckDB
        write a column with a collation, such as NOCASE, as ``carrier COLLATE C``. Several outputs (classes, quantiles)
        are a list, in dialects that have lists.

        Parameters
        ----------
        output
            As in `predict`: ``"mean"``, ``"margin"``, ``"class"``, ``"probability"``, ``"quantiles"``,
            ``"distribution"`` or ``"interval"``.
        dialect, columns, base_margin, limits
            As in `database`.

        Raises
        ------
        ParameterError
            As `database`; if the output needs several expressions, or the model is too large for one (use `query`).

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> print(model.sql())
        (4.0e0
         + CASE WHEN "x" < 3 THEN -4.0e0 ELSE 4.0e0 END)
        >>> print(model.sql(dialect="postgres", columns={"x": "X"}))
        (4.0::float8
         + CASE WHEN "X" < 3 THEN -4.0::float8 ELSE 4.0::float8 END)
        """
        star: Tables | None = "joined" if self._ensemble.joins else None  # the expression is over one table
        database = self.database(dialect, columns=columns, base_margin=base_margin, limits=limits, tables=star)
        return database.sql(output)

    @with_options(QueryOptions)
    def query(
        self,
        table: str,
        dialect: str = "duckdb",
        *,
        columns: ColumnNames | None = None,
        base_margin: str | Sequence[str] | None = None,
        limits: Mapping[str, int | None] | None = None,
        tables: Tables | None = None,
        **options: Unpack[QueryArguments],
    ) -> str:
        """Return a SELECT that scores a table.

        Parameters
        ----------
        table
            The table's name, which may be qualified (``"sales.orders"``).
        dialect, columns, base_margin, limits, tables
            As in `database`.
        keep
            Columns to return beside the prediction; by default all.
        where
            A predicate in the dialect's SQL, inserted unchanged. Or a dict by feature, ``{"region": "EU", "age": (18,
            None)}``: a value, a pair of inclusive bounds with None for no bound, a list of values, or None for missing.
            The query then omits all branches that such rows can't reach.
        output
            As in `sql`, or ``"leaf"``, the node index of the leaf in each tree. Several values become the columns
            ``prediction_0``, ``prediction_1`` and so on, intervals ``prediction_lower`` and ``prediction_upper``.
        name
            The name of the prediction column.
        form
            The form of the query. ``"case"``: one expression per value. ``"staged"``: common table expressions that sum
            trees and reuse values. ``"table"``: a short query of constant size over the table ``trees``. ``"auto"``:
            the first of these within the database's limits, in DuckDB the fastest of ``"case"``, ``"staged"`` and the
            next two, which only DuckDB has. ``"lists"``: nodes as lists, planned 30 times as fast. ``"sorted"``:
            ``"case"`` over rows sorted by the four most used features, twice as fast for a million rows; the result
            keeps the order of the rows. ``"by_key"``, for a star: trees that read a single dimension are scored once
            per row of it and joined as their sum, the others as in ``"auto"``; requires ``keep``.
        trees
            The table filled by `DatabaseModel.table_statements`, for ``form="table"``.
        rows
            The approximate number of rows to score, from which ``form="auto"`` chooses in DuckDB; or a connection, to
            take the planner's estimate. The default assumes a few hundred thousand and excludes ``"sorted"``.
        stamp
            Whether to add columns that identify the model and the time of scoring: ``model_hash`` (`sha256`),
            ``model_version`` (set by `with_metadata`, or NULL) and ``scored_at`` (in a view the time of the query).

        Raises
        ------
        ParameterError
            As `database`; if the form is unknown, or no form is within the limits, with the sizes.

        Examples
        --------
        >>> import duckdb, polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"id": [7, 8], "x": [1, 2], "y": [0.0, 8.0]})
        >>> model = fb.fit(df, "y", features=["x"], n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> con = duckdb.connect()
        >>> con.from_arrow(df.to_struct()).create("orders")
        >>> con.sql(model.query("orders", keep=["id"], where="id > 7")).fetchall()
        [(8, 8.0)]
        """
        database = self.database(dialect, columns=columns, base_margin=base_margin, limits=limits, tables=tables)
        return database.query(table, **options)

    @checked(con=anything, name=anything, form=word("auto", "macro", "udf"), temporary=flag, replace=flag)
    def register(
        self,
        con: duckdb.DuckDBPyConnection,
        name: str,
        *,
        output: OutputName = "mean",
        form: Literal["auto", "macro", "udf"] = "auto",
        temporary: bool = True,
        replace: bool = False,
    ) -> None:
        """Register the model as a function of a DuckDB connection; its parameters are the features, in order.

        Columns of an offset (see `offset`) follow the features.

        Functions created by ``register`` are replaced. Any other function of that name, including DuckDB's built-in
        ones, is an error.

        Parameters
        ----------
        con
            A DuckDB connection.
        name
            The name of the function; a stored macro may have a qualified name, such as ``"sales.score"``.
        output
            As in `sql`.
        form
            ``"macro"``: the model's SQL, callable by every client. ``"udf"``: the compiled kernels of `predict`, called
            by DuckDB with Arrow batches; it avoids query planning, lives as long as the connection, and requires
            pyarrow.
        temporary
            Whether a macro is temporary; otherwise it is stored in the database.
        replace
            Whether to replace a function not created by ``register``: a macro in the same schema, or a temporary macro
            or udf of the connection. Other functions stay, but the new one may shadow them under the unqualified name.
            A udf never replaces a stored macro or a built-in function.

        Raises
        ------
        ParameterError
            As `sql`; if a function of that name may not be replaced, or the name is not allowed; if the connection has
            a pending result; if pyarrow is not installed.

        Examples
        --------
        >>> # needs pyarrow
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> con = duckdb.connect()
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> model.register(con, "score")
        >>> con.sql("SELECT score(1), score(4)").fetchall()
        [(0.0, 8.0)]
        >>> model.register(con, "fast_score", form="udf")
        >>> con.sql("SELECT fast_score(x) FROM range(1, 5) AS r(x)").fetchall()
        [(0.0,), (0.0,), (8.0,), (8.0,)]
        """
        register(self._predictor, con, name, output, form, temporary=temporary, replace=replace)

    # --- explanations -------------------------------------------------------------------------------------------------

    @overload
    def explain(
        self,
        data: Any,
        *,
        approx: bool = False,
        interactions: bool = False,
        output: int | str | None = None,
        form: Literal["frame"] = "frame",
        top: int | None = None,
        sign: Literal[-1, 1] | None = None,
        texts: Mapping[str, str] | None = None,
    ) -> pl.DataFrame: ...

    @overload
    def explain(
        self, data: Any, *, approx: bool = False, output: int | str | None = None, form: Literal["shap"]
    ) -> Any: ...

    @checked(output=anything, interactions=flag, form=word("frame", "shap"))
    def explain(
        self,
        data: Any,
        *,
        approx: bool = False,
        interactions: bool = False,
        output: int | str | None = None,
        form: Literal["frame", "shap"] = "frame",
        top: int | None = None,
        sign: Literal[-1, 1] | None = None,
        texts: Mapping[str, str] | None = None,
    ) -> Any:
        """Return the contribution of each feature to the margin of each row.

        By default Shapley values by path-dependent TreeSHAP (Lundberg, Erion & Lee 2018), equal to XGBoost's
        ``pred_contribs``: features outside a coalition are averaged out by cover (``docs/explain.md``).

        Parameters
        ----------
        data
            As for `predict`.
        approx
            Saabas' contributions instead, as XGBoost's ``approx_contribs``: each split on the path of a row credits its
            feature with the change of the mean. Cheaper, and shorter as SQL (`DatabaseModel.explain_query` writes
            both), but biased towards splits far from the root.
        interactions
            Shapley interaction values instead, one for each pair of features, as XGBoost's ``pred_interactions``. An
            interaction is split equally between (feature, other) and (other, feature). The pair of a feature with
            itself holds its main effect, the Shapley value minus the interactions.
        output
            The output to explain, by index from 0 or class label, if the model has several (classes, quantiles); by
            default all.
        form
            ``"shap"`` for an ``Explanation`` of the package SHAP, for its plots (``pip install 'frameboost[shap]'``);
            its data are the feature values.
        top, sign, texts
            Reason codes instead, the largest contributions of each row: see `DatabaseModel.explain_query`.

        Returns
        -------
        polars.DataFrame, or shap.Explanation
            A Float64 column for each feature, in the model's order, and ``"bias"``, the mean margin weighted by cover
            plus any offset of the row. Each row sums to its margin (up to rounding); features without splits have 0.

            For several outputs: ``row`` (UInt32, from 0), ``output`` (an index, or a class label), ``feature`` (String)
            and ``value`` (Float64); for each row and output the features in order, then ``"bias"``.

            With ``interactions``: ``row`` (UInt32, from 0), ``output`` if there are several, ``feature`` and ``other``
            (String), ``value`` (Float64); for each row all pairs in the model's order, then ``"bias"`` with itself. The
            values of a row sum to its margin, those of a row and feature to its Shapley value.

            With ``top``: ``reason_1`` (String), ``contribution_1`` (Float64), ... up to ``top``.

        Raises
        ------
        DataError
            As `predict`.
        ParameterError
            If a feature is named ``"bias"``; if ``interactions`` is combined with ``approx``, ``form="shap"`` or
            ``top``, or ``form="shap"`` with ``top``; if SHAP is not installed.

        Examples
        --------
        The labels' mean is 4; x moves it by 2 either way, and so does z:

        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [0, 0, 1, 1], "z": [0, 1, 0, 1], "y": [0.0, 4.0, 4.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> model.explain(df).rows()
        [(-2.0, -2.0, 4.0), (-2.0, 2.0, 4.0), (2.0, -2.0, 4.0), (2.0, 2.0, 4.0)]
        >>> model.explain(df.tail(1), interactions=True).rows()
        [(0, 'x', 'x', 2.0), (0, 'x', 'z', 0.0), (0, 'z', 'x', 0.0), (0, 'z', 'z', 2.0), (0, 'bias', 'bias', 4.0)]
        >>> model.explain(df, top=1, sign=-1, texts={"x": "Few items"}).rows()
        [('Few items', -2.0), ('Few items', -2.0), ('z', -2.0), (None, None)]
        """
        check_no_reasons(top, sign, texts)
        if top is not None:
            if interactions or form == "shap":
                other = "interactions" if interactions else "form='shap'"
                raise ParameterError(f"top can't be combined with {other}")
            return reason_frame(self._ensemble, data, output, top, sign, texts, approx=approx)
        if interactions and approx:
            raise ParameterError("approx can't be combined with interactions, which are shares of Shapley values")
        if form == "shap":
            if interactions:
                raise ParameterError(
                    "form='shap' can't be combined with interactions, which SHAP's plots take as arrays"
                )
            return shap_explanation(self._ensemble, data, output, approx=approx)
        if interactions:
            return interaction_frame(self._ensemble, data, output)
        return contribution_frame(self._ensemble, data, output, approx=approx)

    @checked(feature=columns)
    def partial_dependence(
        self,
        data: Any,
        feature: str | Sequence[str],
        *,
        grid: Iterable[Any] | Mapping[str, Iterable[Any]] | None = None,
        output: Literal["mean", "margin"] = "mean",
    ) -> pl.DataFrame:
        """Return the partial dependence on one or two features (Friedman 2001, section 8.2).

        For each value of the grid, the feature is set to it in every row, and the predictions are averaged. For two
        features the grid is the product of their values.

        Parameters
        ----------
        data
            As for `predict`, with at least one row.
        feature
            A feature of the model, or a list of two.
        grid
            Values of the feature, for two a dict by feature; None is missing. By default all categories of a string,
            and otherwise the column's distinct values, or 20 values at evenly spaced ranks if there are more.
        output
            As for `predict`: ``"mean"`` or ``"margin"``.

        Returns
        -------
        polars.DataFrame
            One row per value of the grid: the feature or features, in the column's type, and ``"prediction"``, Float64
            or, for several outputs, Array(Float64, outputs).

        Raises
        ------
        DataError
            As `predict`; if the data has no rows, or without ``grid`` no non-missing value of the feature.
        ParameterError
            If the feature is unknown or named ``"prediction"``, or the column can't hold a value of the grid.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [0, 0, 1, 1], "z": [0, 1, 0, 1], "y": [0.0, 4.0, 4.0, 12.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> model.partial_dependence(df, "x").rows()
        [(0, 2.0), (1, 8.0)]
        >>> model.partial_dependence(df.filter(z=1), "x", grid=[1]).rows()
        [(1, 12.0)]
        >>> model.partial_dependence(df, ["x", "z"], grid={"z": [1]}).rows()
        [(0, 1, 4.0), (1, 1, 12.0)]
        """
        return partial_dependence_frame(self._predictor, data, feature, grid, output)

    # --- how good it is -----------------------------------------------------------------------------------------------

    @checked(by=columns)
    def evaluate(
        self,
        data: Any,
        target: str | Sequence[str],
        *,
        by: str | Sequence[str] | None = None,
        weight: str | None = None,
        group: str | None = None,
        label_upper_bound: str | None = None,
        base_margin: str | Sequence[str] | None = None,
        eval_metric: str | Metric | Callable[..., Any] | Iterable[str | Metric | Callable[..., Any]] | None = None,
    ) -> Evaluation:
        """Evaluate the model on labelled rows: metrics, confusion matrix, curves.

        The rows of a DuckDB relation stay in the database.

        Parameters
        ----------
        data
            As for `predict`.
        target, weight, group, label_upper_bound, base_margin
            As for `frameboost.fit`.
        by
            Columns to group by, NULL as a group: everything is computed per group.
        eval_metric
            The metrics; by default all that fit the objective (``docs/metrics.md``), and R² for predictions of one
            number.

        Returns
        -------
        Evaluation
            ``metrics``, ``confusion``, ``roc``, ``precision_recall`` and ``calibration``, each a frame.

        Raises
        ------
        DataError
            If a column is missing, or labels are invalid for the objective.
        ParameterError
            If a metric does not fit the objective, or a column that the objective needs is not passed.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4] * 5, "late": [False, True, True, True] * 5, "who": ["a", "b"] * 10})
        >>> model = fb.fit(df, "late", features=["x"], objective="binary:logistic", n_estimators=9)
        >>> model.evaluate(df, "late", eval_metric=["auc", "error"]).metrics.rows()
        [('auc', 1.0), ('error', 0.0)]
        >>> model.evaluate(df, "late", by="who", eval_metric="error").metrics.rows()
        [('a', 10, 'error', 0.0), ('b', 10, 'error', 0.0)]
        """
        return evaluate_model(
            self._predictor, data, target, by, weight, group, label_upper_bound, base_margin, eval_metric
        )

    @checked(groups=column, training=anything, title=name_of("a title"), time=column, by=column, costs=costs)
    def report(
        self,
        data: Any,
        path: str | Path,
        target: str | Sequence[str] | None = None,
        *,
        weight: str | None = None,
        group: str | None = None,
        label_upper_bound: str | None = None,
        groups: str | None = None,
        training: Any = None,
        dialect: str = "duckdb",
        title: str | None = None,
        base_margin: str | Sequence[str] | None = None,
        time: str | None = None,
        by: str | None = None,
        costs: Mapping[str, float] | None = None,
    ) -> None:
        """Write a report of the model and its quality on these rows as one self-contained HTML file.

        Contents: quality, also by group and for the worst segments, thresholds with costs, calibration, importance,
        partial dependence, data checks, drift, learning curves, the SQL with its size in each dialect, parameters and
        the model's hash. Requires ``pip install 'frameboost[report]'``.

        Metrics are computed from all rows, where the data is; charts from a sample if there are more than 250,000 rows.
        An existing file is replaced atomically.

        Parameters
        ----------
        data
            As for `predict`; rows that the model was not trained on.
        path
            The file.
        target, weight, group, label_upper_bound, base_margin
            As for `evaluate`. Without ``target`` the report has no measures of quality.
        groups
            A column of group labels, such as a customer id: the bootstrap for the intervals of metrics then draws
            groups instead of rows (in ranking always queries).
        training
            The training rows, of the same kinds as ``data``, to compare features with.
        dialect
            The dialect of the SQL, as in `sql`.
        title
            The title of the page.
        time
            A column of dates or times, or of few values such as a year: adds the metric by period, and with
            ``training`` the drift by period.
        by
            A column to group by: adds metrics for each of its 30 most frequent values.
        costs
            The costs of errors for two classes, such as ``{"false_positive": 1, "false_negative": 5}``; by default 1
            each.

        Raises
        ------
        DataError
            As `evaluate`.
        ParameterError
            As `evaluate`; if the dialect is unknown.
        OSError
            If the file can't be written.

        Examples
        --------
        >>> # needs vl_convert
        >>> import pathlib, tempfile, polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4] * 9, "y": [0.0, 0.0, 8.0, 9.0] * 9})
        >>> model = fb.fit(df, "y", n_estimators=3)
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "report.html"
        >>> model.report(df, path, "y", title="Four numbers")
        >>> "<title>Four numbers</title>" in path.read_text(encoding="utf-8")
        True
        """
        (write_report,) = REPORT_WRITERS
        write_report(
            self, data, path, target=target, weight=weight, group=group, label_upper_bound=label_upper_bound,
            groups=groups, training=training, dialect=dialect, title=title, base_margin=base_margin, time=time,
            by=by, costs=costs,
        )  # fmt: skip

    # --- the same model with more about it ----------------------------------------------------------------------------

    @checked(name=check_word, version=check_word, tags=anything)
    def with_metadata(
        self,
        *,
        name: str | None = None,
        version: str | None = None,
        tags: Mapping[str, str] | None = None,
        data: Any = None,
    ) -> Model:
        """Return the model with a name, a version, tags or a hash of its data; what is not passed is kept.

        The model equals this one and has the same `sha256`. Models derived from it, such as slices, calibrated and
        conformed ones, keep all but the version. Name and version appear in ``repr``, SQL files and reports, and with
        ``stamp=True`` beside each score.

        Parameters
        ----------
        name, version
            One line of text each.
        tags
            Texts by name; they replace all tags.
        data
            The training rows, as for `predict`, to store the SHA-256 of the names, types and values of their columns,
            in order; nested columns are skipped. 200,000 rows of 20 columns take about 60 ms.

        Raises
        ------
        ParameterError
            If a text is empty, too long, or has several lines.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1).with_metadata(name="price", version="3", tags={"team": "sales"})
        >>> model
        Model: reg:squarederror, 1 tree (depth 1, 2 leaves), 1 feature
          price, version 3
          x  int64
        >>> model.metadata.tags
        {'team': 'sales'}
        """
        if tags is not None:
            check_tags(tags)
        digest = None if data is None else hash_of_rows(data)
        fields = {"name": name, "version": version, "tags": None if tags is None else dict(tags), "data": digest}
        known: dict[str, Any] = {key: value for key, value in fields.items() if value is not None}
        return Model(replace(self._ensemble, metadata=replace(self._ensemble.metadata, **known)))

    @checked(bins=whole(2, 100))
    def with_baseline(self, data: Any, bins: int = 10) -> Model:
        """Return the model with the shares of rows in bins of each feature and of the predictions.

        The baseline is stored in the model file; `DatabaseModel.drift_query` compares tables with it. The model equals
        this one and has the same `sha256`. Models derived from it lose the baseline, except by `conform`.

        Parameters
        ----------
        data
            As for `predict`, with the types of training and at least one row: the training rows, or a sample of about
            ten thousand, from which the population stability index is accurate to 0.001.
        bins
            As for `DatabaseModel.baseline`.

        Raises
        ------
        DataError
            As `predict`; if the data has no rows.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0).with_baseline(df, bins=2)
        >>> model.baseline.features.drop("category").rows()
        [('x', -1, None, None, 0.0), ('x', 0, None, '3', 0.5), ('x', 1, '3', None, 0.5)]
        >>> model.baseline.scores.drop("category").rows()[1:]
        [('prediction', 0, None, '4.0', 0.5), ('prediction', 1, '4.0', None, 0.5)]
        """
        return Model(replace(self._ensemble, baseline=model_baseline(self._predictor, data, bins)))

    # --- other models made of this one --------------------------------------------------------------------------------

    @checked(rounds=slice_of_rounds)
    def __getitem__(self, rounds: slice) -> Model:
        numbers = range(self.n_rounds)[rounds]
        if not numbers:
            raise ParameterError(f"the slice has no rounds; the model has {self.n_rounds}")
        return Model(self._ensemble.rounds(numbers.start, numbers.stop, numbers.step))

    @checked(target=column, method=word(*METHODS))
    def calibrate(
        self, data: Any, target: str, *, method: Literal["platt", "isotonic"] = "platt", weight: str | None = None
    ) -> Model:
        """Return the model with probabilities calibrated on rows that it was not trained on.

        The model file, the SQL and the polars expression include the calibration. A ``threshold`` is not adjusted, with
        a warning: choose it after calibrating.

        Parameters
        ----------
        data
            As for `predict`.
        target
            The column of labels, with the labels of training.
        weight
            The column of row weights.
        method
            ``"platt"``: a logistic function of the margin; ``"isotonic"``: isotonic regression. If margins rank the
            rows in reverse, ``"platt"`` warns; for a model with monotone constraints, which that would violate, the
            probability is then constant.

        Raises
        ------
        ParameterError
            If the model is not a classifier of two classes with one margin.
        DataError
            If the labels are not those of the model, or only one label occurs.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4] * 25, "y": [False, False, True, True] * 25})
        >>> model = fb.fit(df, "y", objective="binary:logistic", n_estimators=2)
        >>> model.predict(df[:4]).round(2).to_list()
        [0.27, 0.27, 0.73, 0.73]
        >>> model.calibrate(df, "y", method="isotonic").predict(df[:4]).to_list()
        [0.0, 0.0, 1.0, 1.0]
        """
        return Model(calibrated_ensemble(self._predictor, data, target, weight, method))

    @checked(threshold=anything, data=anything, target=column)
    def with_threshold(
        self, threshold: float | str | Mapping[str, float], data: Any = None, target: str | None = None, *,
        weight: str | None = None,
    ) -> Model:  # fmt: skip
        """Return the model with a classification threshold for the output ``class``, in Python, SQL and ``evaluate``.

        Parameters
        ----------
        threshold
            The probability above which the second of two classes is predicted. Or how to choose it: ``"f1"`` maximises
            F1, ``{"false_positive": 1, "false_negative": 5}`` minimises the cost, ``{"share": 0.1}`` predicts the class
            for that share of the rows, as nearly as possible. The result is a short decimal between two probabilities.
        data
            As for `predict`: the rows to choose it on, which should not be training rows.
        target
            The column of labels, with the labels of training.
        weight
            The column of row weights.

        Raises
        ------
        ParameterError
            If the model has no probability of a second of two classes, or ``data`` is missing.
        DataError
            If a column is missing, or no row has the second class.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4] * 25, "late": [False, False, False, True] * 25})
        >>> model = fb.fit(df, "late", n_estimators=1)
        >>> model.predict(df[:4], output="class").to_list()
        [False, False, False, False]
        >>> costly = model.with_threshold({"false_positive": 1, "false_negative": 5}, df, "late")
        >>> costly.predict(df[:4], output="class").to_list()
        [False, False, False, True]
        >>> costly.parameters["threshold"]
        0.3
        """
        if data is None or target is None:
            return Model(decided(self.ensemble, threshold))
        source, roles = open_labelled(self.ensemble, data, target, weight, None, None)
        return Model(decided(self.ensemble, threshold, source, roles))

    @checked(target=column, groups=column)
    def conform(
        self, data: Any, target: str, *, coverage: float = 0.9, groups: str | None = None,
        base_margin: str | Sequence[str] | None = None,
    ) -> Model:  # fmt: skip
        """Return the model with prediction intervals, fitted to rows that it was not trained on.

        ``predict(data, output="interval")``, the SQL and the polars expression return its ends. If these rows and new
        rows are exchangeable, the interval contains the label of a new row with a probability of at least ``coverage``,
        however good the model is; ``docs/intervals.md`` states what is not guaranteed. Intervals are the prediction ± a
        distance (split conformal); for ``count:poisson``, ``reg:gamma``, ``reg:tweedie`` and ``dist:*`` ± a multiple of
        the standard deviation that the loss implies, clipped to the range of labels; for ``reg:quantileerror`` with
        several quantiles the two outer quantiles, moved by a distance (conformalised quantile regression).

        Models derived from it, such as slices, lose the interval.

        Parameters
        ----------
        data
            As for `predict`.
        target
            The column of the labels.
        coverage
            The probability that an interval contains the label, between 0 and 1.
        groups
            A column of strings, integers or Booleans: each group has its distance (Mondrian conformal), so that the
            coverage holds within it. Missing values, and groups too small for the coverage, use the distance of all
            rows. Intervals then read the column, which need not be a feature.
        base_margin
            As for `predict`.

        Raises
        ------
        ParameterError
            If the model is not a regression of one target, but for classification, ranking or survival.
        DataError
            If a column is missing, or there are too few rows for the coverage: it takes 9 for 0.9, 99 for 0.99.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4] * 5, "y": [0.0, 0.0, 8.0, 8.0] * 5})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> later = df.with_columns(y=pl.col("y") + pl.int_range(20) / 10)
        >>> sure = model.conform(later, "y", coverage=0.8)
        >>> sure
        Model: reg:squarederror, 1 tree (depth 1, 2 leaves), 1 feature
          interval: 80 % coverage, prediction ± 1.6; 20 rows
          x  int64
        >>> sure.predict(df[1:3], output="interval").struct.unnest().rows()
        [(-1.6, 1.6), (6.4, 9.6)]
        """
        predictor = self._predictor.started_from(base_margin)
        interval = conformed_ensemble(predictor, data, target, coverage, groups).interval
        metadata = self._ensemble.metadata.of_another_model()
        return Model(replace(self._ensemble, interval=interval, metadata=metadata))

    @checked()
    def refit(
        self,
        data: Any,
        target: str | Sequence[str],
        *,
        weight: str | None = None,
        label_upper_bound: str | None = None,
        group: str | None = None,
        decay_rate: float = 0.0,
    ) -> Model:
        """Return the model with leaf values refitted to other rows; the splits are kept.

        Works round by round like training, with the same parameters: constraints hold, and refitting to the training
        rows changes nothing (unless trees were grown on samples). The rows are read into memory. A leaf that no row
        reaches keeps its value, within monotone constraints.

        Parameters
        ----------
        data, target, weight, label_upper_bound, group
            As for `frameboost.fit`; the features must have the types of training.
        decay_rate
            The weight of the old leaf value, from 0 to 1, as in LightGBM's ``refit``.

        Raises
        ------
        ParameterError
            If the model is calibrated, is a mean of models, or was trained with ``booster="dart"`` or ``linear_tree``;
            if ``decay_rate`` is out of range.
        DataError
            If the data can't be trained on, or has an unknown label.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> model.refit(df.with_columns(y=pl.col("y") + 1), "y").predict(df).to_list()
        [1.0, 1.0, 9.0, 9.0]
        """
        require_numba("refit")
        from frameboost.training.refit import refitted

        return Model(refitted(self._ensemble, data, target, weight, label_upper_bound, group, float(decay_rate)))

    # --- as a value ---------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        hint = self._ensemble.training.hint
        return summary(self._ensemble) + (f"\n{hint}" if hint else "")

    def _repr_html_(self) -> str:
        return html_summary(
            self._ensemble,
            self.history,
            importance_frame(self._ensemble, "total_gain"),
            self.best_iteration,
            self._ensemble.training.hint,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and (self is other or self._digest == other._digest)

    def __hash__(self) -> int:
        return hash(self._digest)

    @cached_property
    def _digest(self) -> str:
        """The hash, cached because the text of a large model is megabytes."""
        return model_hash(self._ensemble)

    def __getstate__(self) -> dict[str, Any]:
        # A copy or pickle does not contain what is computed anew, such as the predictor's compiled trees.
        return {"_ensemble": self._ensemble}

    # --- files --------------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Return the text of the model file (``docs/model-file.md``); equal models have equal texts.

        It contains all that scoring needs. `save` adds `history`, `best_iteration`, `leaderboard`, `metadata` and
        `baseline`.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> model = fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=1)
        >>> print(model.to_json()[:38])
        {
        "format": "frameboost",
        "version": 1
        """
        return dump_model(self._ensemble)

    @checked()
    def save(self, path: str | Path) -> None:
        """Write the model to a file; an existing file is replaced atomically.

        Names that end in ``.ubj`` select UBJSON, which is several times as fast to write and load; all others select
        JSON, which people and ``diff`` can read. Both store the same model (``docs/model-file.md``).

        Examples
        --------
        >>> import polars as pl, frameboost as fb, tempfile, pathlib
        >>> model = fb.fit(pl.DataFrame({"x": [1, 2, 3], "y": [0, 0, 8]}), "y", n_estimators=1)
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.json"
        >>> model.save(path)
        >>> fb.load(path) == model
        True
        """
        if Path(path).suffix == ".ubj":
            write_bytes(path, dump_binary(self._ensemble))
        else:
            write_text(path, dump_file(self._ensemble))

    @checked()
    def to_xgboost(self, path: str | Path) -> None:
        """Write the model as a file of XGBoost 3: UBJSON if the name ends in ``.ubj``, otherwise JSON.

        XGBoost compares and adds float32 numbers; ``docs/interop.md`` describes the differences. Prediction intervals
        are dropped.

        Raises
        ------
        ParameterError
            If the model has something that XGBoost lacks: an `Objective`, a calibration, an offset, or thresholds that
            are equal as float32.

        Examples
        --------
        >>> # needs xgboost
        >>> import polars as pl, frameboost as fb, tempfile, pathlib, xgboost
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "m.json"
        >>> model.to_xgboost(path)
        >>> xgboost.Booster(model_file=path).inplace_predict(df.select("x").to_numpy()).tolist()
        [0.0, 0.0, 8.0, 8.0]
        """
        text = to_xgboost(self._ensemble)
        if Path(path).suffix == ".ubj":
            write_bytes(path, to_ubjson(json.loads(text)))
        else:
            write_text(path, text)


def out_of_fold_frame(predictions: pl.DataFrame | str) -> pl.DataFrame:
    """Return the frame of `Model.out_of_fold` from predictions, or raise the reason why there are none.

    Raises
    ------
    ParameterError
        If there are no such predictions.
    """
    if isinstance(predictions, str):
        why = f": {predictions}" if predictions else "; fit(folds=5), auto and cv(return_models=True) have them"
        raise ParameterError(f"the model has no out-of-fold predictions{why}")
    return predictions.clone()


def predictor_of(model: Model) -> Predictor:
    """Return the scorer of a model in Python; its trees are compiled once for all charts."""
    return model._predictor
