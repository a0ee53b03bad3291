"""The model: an ensemble of trees and the history of its training, and what can be done with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import duckdb
import polars as pl

from frameboost.checks.arguments import anything, checked, column, flag, slice_of_rounds, word
from frameboost.data.atomic_files import write_text
from frameboost.database.database_model import DatabaseModel, database_model
from frameboost.database.registration import register
from frameboost.database.scoring_options import Form, SqlOutput
from frameboost.ensemble.ensemble import Ensemble
from frameboost.ensemble.model_file import dump_model
from frameboost.errors import ParameterError
from frameboost.interop.xgboost.writer import to_xgboost
from frameboost.model.calibration import calibrated_ensemble
from frameboost.model.summaries import importance_frame, summary, tree_frame
from frameboost.prediction.contributions import contribution_frame, interaction_frame
from frameboost.prediction.partial_dependence import partial_dependence_frame
from frameboost.prediction.predictor import OutputName, Predictor
from frameboost.training.calibration import METHODS
from frameboost.trees.leaf_grid import on_leaf_grid

__all__ = ["Model"]


class Model:
    """A trained ensemble of trees; made by `frameboost.fit` or `frameboost.load`.

    A model is a value: nothing changes it, and two models are equal where their files would be.

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
    ) -> None:
        self._ensemble = ensemble
        self._history = pl.DataFrame(schema={"round": pl.Int64}) if history is None else history
        self._best_round, self._best_score = best_round, best_score

    @cached_property
    def _predictor(self) -> Predictor:
        return Predictor(self._ensemble)

    # --- what it is ---------------------------------------------------------------------------------------------------

    @property
    def ensemble(self) -> Ensemble:
        """The trees as training made them, with their loss and features: what the model's file holds.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=1).ensemble.trees[0].threshold
        (2, None, None)
        """
        return self._ensemble

    @property
    def objective(self) -> str:
        """The name of the loss that the model was trained on.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=3, max_depth=2).objective
        'reg:squarederror'
        """
        return self._ensemble.loss.name

    @property
    def parameters(self) -> dict[str, Any]:
        """The training parameters that shaped the model, by name.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=3, max_depth=2).parameters["max_depth"]
        2
        """
        return deepcopy(dict(self._ensemble.parameters))

    @property
    def features(self) -> list[str]:
        """The names of the columns that the model reads, in order.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=3, max_depth=2).features
        ['x']
        """
        return self._ensemble.feature_names

    @property
    def base_margin(self) -> float | list[float]:
        """The margin before the first tree; of several outputs a list.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=3, max_depth=2).base_margin
        4.0
        """
        margins = self._ensemble.base_margins
        return margins[0] if len(margins) == 1 else list(margins)

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
        """The number of boosting rounds, each of which has a tree for each output (and parallel tree).

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3], "y": [0, 1, 2]})
        >>> model = fb.fit(df, "y", objective="multi:softprob", n_estimators=3)
        >>> model.n_rounds, model.n_trees
        (3, 9)
        """
        return self._ensemble.n_rounds

    @property
    def history(self) -> pl.DataFrame:
        """The metrics of each round: ``round`` from 1, then a column for each set of rows and metric.

        Not part of the model's file, and empty in a model that was loaded or had nothing to evaluate.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4] * 2, "y": [0.0, 0.0, 8.0, 8.0] * 2})
        >>> model = fb.fit(df[:4], "y", valid=df[4:], n_estimators=2, learning_rate=0.5, reg_lambda=0)
        >>> model.history.rows(named=True)
        [{'round': 1, 'train_rmse': 2.0, 'valid_rmse': 2.0}, {'round': 2, 'train_rmse': 1.0, 'valid_rmse': 1.0}]
        """
        return self._history.clone()

    @property
    def best_iteration(self) -> int | None:
        """The round, from 1, at which early stopping found the best score, and after which there are no trees.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 1, 2], "y": [0.0, 8.0, 0.0, 8.0], "late": [False, False, True, True]})
        >>> fb.fit(df, "y", valid="late", early_stopping_rounds=2, learning_rate=1, reg_lambda=0).best_iteration
        1
        """
        return self._best_round

    @property
    def best_score(self) -> float | None:
        """The metric at `best_iteration`, on the rows that early stopping watched.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 1, 2], "y": [0.0, 8.0, 0.0, 8.0], "late": [False, False, True, True]})
        >>> fb.fit(df, "y", valid="late", early_stopping_rounds=2, learning_rate=1, reg_lambda=0).best_score
        0.0
        """
        return self._best_score

    @property
    def trees(self) -> pl.DataFrame:
        """The trees as a frame, a row a node.

        Columns: ``tree`` and ``node`` (numbers from 0), ``depth``, ``feature`` (null in a leaf), ``threshold``
        (Float64: a present value less than it goes left; dates and times as days or units since 1970; null for
        categories and for splits that ask only whether the value is present), ``categories`` (those on the side that
        missing does not go to), ``missing`` ("left" or "right"), ``left`` and ``right`` (child nodes), ``gain``
        (without the paper's ½, as in XGBoost), ``cover`` (sum of hessians), ``value`` (of a leaf; of an inner node
        what it would be as a leaf), ``condition`` (what sends a present value left, exact, as SQL).

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> fb.fit(df, "y", n_estimators=1).trees.select("node", "feature", "threshold", "gain", "condition").rows()
        [(0, 'x', 3.0, 42.666666666666664, '"x" < 3'), (1, None, None, 0.0, None), (2, None, None, 0.0, None)]
        """
        return tree_frame(self._ensemble)

    @checked(kind=anything)
    def importance(
        self, kind: Literal["gain", "total_gain", "weight", "cover", "total_cover"] = "gain"
    ) -> pl.DataFrame:
        """Return how much each feature matters, the most important first.

        Parameters
        ----------
        kind
            ``weight``: the number of splits on it; ``total_gain`` and ``total_cover``: the sum of their gains and
            covers; ``gain`` and ``cover``: the mean, 0 for a feature that is never split on.

        Returns
        -------
        polars.DataFrame
            Columns ``feature`` (String) and ``importance`` (Float64), a row a feature.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "z": [1, 1, 1, 2], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> fb.fit(df, "y", n_estimators=3).importance("weight").rows()
        [('x', 3.0), ('z', 0.0)]
        """
        return importance_frame(self._ensemble, kind)

    # --- scoring in Python --------------------------------------------------------------------------------------------

    @checked()
    def predict(
        self,
        data: Any,
        output: Literal["mean", "margin", "class", "probability", "leaf"] = "mean",
        *,
        base_margin: str | Sequence[str] | None = None,
    ) -> pl.Series:
        """Predict, with compiled kernels.

        Parameters
        ----------
        data
            Anything that `frameboost.fit` takes. The features are found by name; a number may come in another
            numeric type and a time in another unit than in training, and is compared exactly all the same.
        output
            ``"mean"``: on the scale of the target (for ``binary:logistic`` the probability); ``"margin"``: the sum
            of the trees; ``"class"``: the number of the likeliest class; ``"probability"``: of class 1, or of each of
            more than two classes; ``"leaf"``: for each row the node number of its leaf in each tree.
        base_margin
            Columns of margins to start from, one for each output, instead of the model's own; where one is NULL, so is
            the margin.

        Returns
        -------
        polars.Series
            Named ``"prediction"``: Float64, of several outputs (classes, quantiles) Array(Float64, outputs); Int64 for
            classes; Array(Int32, trees) for leaves.

        Raises
        ------
        DataError
            If a feature is not in the data, or has a type that can't be compared with that in training.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [False, False, True, True]})
        >>> model = fb.fit(df, "y", objective="binary:logistic", n_estimators=1, min_child_weight=0)
        >>> model.predict(df).round(3).to_list()
        [0.45, 0.45, 0.55, 0.55]
        >>> model.predict(df, output="leaf").to_list()
        [[1], [1], [2], [2]]
        """
        return self._predictor.predict(data, output, base_margin)

    @checked()
    def expr(self, output: OutputName = "mean", *, base_margin: str | Sequence[str] | None = None) -> pl.Expr:
        """Return the model as a polars expression over the feature columns, named ``"prediction"``.

        The columns must have the types of training; ``base_margin`` is as in `predict`.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> df.lazy().with_columns(model.expr()).collect()["prediction"].to_list()
        [0.0, 0.0, 8.0, 8.0]
        """
        return self._predictor.expr(output, base_margin)

    # --- scoring in a database ----------------------------------------------------------------------------------------

    @checked()
    def database(
        self,
        dialect: str = "duckdb",
        *,
        columns: Mapping[str, str] | None = None,
        base_margin: str | Sequence[str] | None = None,
        limits: Mapping[str, int | None] | None = None,
    ) -> DatabaseModel:
        """Return the model as one database runs it: queries, views, tables, updates, files, explanations, drift.

        Parameters
        ----------
        dialect
            Whose SQL: ``duckdb``, ``postgres``, ``sqlite``, ``clickhouse``, ``spark``, ``databricks``, ``snowflake``,
            ``bigquery``, ``redshift``, ``trino``, ``presto``, ``athena``, ``mysql``, ``mariadb``, ``tsql``, ``fabric``
            or ``oracle`` (``docs/dialects.md``).
        columns
            The names of columns that are called otherwise than in training, by feature.
        base_margin
            Columns of margins to start from, as in `predict`.
        limits
            Numbers in place of those that the dialect is known by, such as ``{"text": 2_000_000}`` where an
            administrator has raised them; None stands for no limit. They are ``text`` and ``view`` (bytes of a query,
            and of a statement that makes a view), ``depth``, ``case_depth``, ``stack``, ``stages``, ``columns``,
            ``elements`` and ``terms``, as in the table of ``docs/dialects.md``.

        Raises
        ------
        ParameterError
            If two features have names that differ only in case, where the dialect can't tell them apart; if a name or
            a type is one that it has not.

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
        return database_model(self._ensemble, dialect, columns, base_margin, limits)

    def sql(
        self,
        output: OutputName = "mean",
        dialect: str = "duckdb",
        *,
        columns: Mapping[str, str] | None = None,
        base_margin: str | Sequence[str] | None = None,
        limits: Mapping[str, int | None] | None = None,
    ) -> str:
        """Return the model as one scalar SQL expression over the feature columns.

        The columns must have the types of training, or what stands for them in the dialect. Strings are compared
        exactly; in DuckDB score a column with a collation, such as NOCASE, as ``carrier COLLATE C``. Several outputs
        (classes, quantiles) come as a list where the dialect has lists.

        Parameters
        ----------
        output
            As in `predict`: ``"mean"``, ``"margin"``, ``"class"`` or ``"probability"``.
        dialect, columns, base_margin, limits
            As in `database`.

        Raises
        ------
        ParameterError
            As `database`; if the output takes more than one expression, or the model is larger than an expression may
            be: then take `query`.

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
        database = self.database(dialect, columns=columns, base_margin=base_margin, limits=limits)
        return database.sql(output)

    def query(
        self,
        table: str,
        dialect: str = "duckdb",
        *,
        keep: Sequence[str] | None = None,
        where: str | None = None,
        output: SqlOutput = "mean",
        name: str = "prediction",
        form: Form = "auto",
        trees: str | None = None,
        columns: Mapping[str, str] | None = None,
        base_margin: str | Sequence[str] | None = None,
        limits: Mapping[str, int | None] | None = None,
    ) -> str:
        """Return a SELECT that scores a table.

        Parameters
        ----------
        table
            The table's name, which may be qualified (``"sales.orders"``).
        dialect, columns, base_margin, limits
            As in `database`.
        keep
            Columns to return besides the prediction; by default all.
        where
            A condition on the rows, as SQL of the dialect; it is put in as it stands.
        output
            As in `sql`, or ``"leaf"``, the node number of the leaf in each tree. Several values come as columns with
            numbers from 0 behind the name.
        name
            The name of the column with the prediction.
        form
            ``"case"``: one expression a value. ``"staged"``: common table expressions, which add up the trees in
            columns and give names to what outputs use several times. ``"table"``: one short query, whatever the size of
            the model, over the table ``trees``. ``"auto"`` takes the first of these that fits into what the database
            takes. ``"sorted"``, in DuckDB only: the same over rows sorted by their leaf in the first tree, which takes
            half the time for a million rows; rows come in any order, so keep a key.
        trees
            The name of the table that the statements of `DatabaseModel.table_statements` fill.

        Raises
        ------
        ParameterError
            As `sql`; if there is no such form, or none that fits: then with the numbers.

        Examples
        --------
        >>> import duckdb, polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"id": [7, 8], "x": [1, 2], "y": [0.0, 8.0]})
        >>> model = fb.fit(df, "y", features=["x"], n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> con = duckdb.connect()
        >>> _ = con.register("orders", df)
        >>> con.sql(model.query("orders", keep=["id"], where="id > 7")).fetchall()
        [(8, 8.0)]
        """
        database = self.database(dialect, columns=columns, base_margin=base_margin, limits=limits)
        return database.query(table, keep=keep, where=where, output=output, name=name, form=form, trees=trees)

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
        """Make the model a function of a DuckDB connection, with the features as its parameters, in their order.

        It replaces one that ``register`` has made before; any other of the name, DuckDB's own included, it refuses.

        Parameters
        ----------
        con
            A DuckDB connection.
        name
            The function's name; that of a stored one may be qualified, as ``"sales.score"``.
        output
            As in `sql`.
        form
            ``"macro"``, as ``"auto"``: the model's SQL, for every client. ``"udf"``: the compiled kernels of `predict`,
            which DuckDB calls with Arrow batches, and which need no planning, as long as the connection of this
            process lasts (needs pyarrow).
        temporary
            Whether a macro goes with the connection; otherwise it is stored in the database.
        replace
            Whether a function that ``register`` has not made may give way: a macro in the very schema of the new one,
            or a temporary macro or a udf of the connection, is replaced; all others stay, hidden where the bare name
            meant one of them. No udf takes the place of a stored macro or of a function of DuckDB's own.

        Raises
        ------
        ParameterError
            As `sql`; if a function may not give way, or none can be of that name; if a udf lacks pyarrow.

        Examples
        --------
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

    @checked(output=anything, interactions=flag)
    def explain(
        self, data: Any, *, approx: bool = False, interactions: bool = False, output: int | None = None
    ) -> pl.DataFrame:
        """Return how much each feature adds to the margin of each row.

        By default these are Shapley values (path-dependent TreeSHAP; Lundberg, Erion & Lee 2018), the numbers of
        XGBoost's ``pred_contribs``: unknown features are averaged out by cover. ``docs/explain.md`` says more.

        Parameters
        ----------
        data
            As for `predict`.
        approx
            Saabas' contributions instead, as XGBoost's ``approx_contribs``: each split on a row's path adds to its
            feature by how much the mean changes. Cheaper, and what `DatabaseModel.explain_query` computes in a
            database, but it favours splits far from the root over those near it.
        interactions
            How much each pair of features adds instead, the numbers of XGBoost's ``pred_interactions``: what two
            features add together beyond what each adds alone is shared equally between (feature, other) and (other,
            feature); a feature with itself has what is left of its Shapley value, its main effect.
        output
            Of a model with several outputs (classes, quantiles): the number of the one to explain, from 0.

        Returns
        -------
        polars.DataFrame
            Float64: a column a feature, in the model's order, and ``"bias"``, the mean margin weighted by cover. The
            columns of a row add up to its margin (up to rounding); a feature that no tree asks about has 0.

            With ``interactions``: ``row`` (UInt32, from 0), ``feature`` and ``other`` (String), ``value`` (Float64);
            for each row all pairs in the model's order, then ``"bias"`` with itself. The values of a row add up to its
            margin, those of a row and feature to its Shapley value.

        Raises
        ------
        DataError
            As `predict`.
        ParameterError
            If a feature is itself named ``"bias"``; if both ``approx`` and ``interactions`` are asked for.

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
        """
        if interactions and approx:
            raise ParameterError("approx does not go with interactions, which are shares of Shapley values")
        if interactions:
            return interaction_frame(self._ensemble, data, output)
        return contribution_frame(self._ensemble, data, output, approx=approx)

    @checked()
    def partial_dependence(
        self,
        data: Any,
        feature: str,
        *,
        grid: Iterable[Any] | None = None,
        output: Literal["mean", "margin"] = "mean",
    ) -> pl.DataFrame:
        """Return how the mean prediction over the rows depends on one feature (Friedman 2001, section 8.2).

        For each value of the grid the feature is set to it in every row; all rows are scored, and the mean taken.

        Parameters
        ----------
        data
            As for `predict`, with at least one row.
        feature
            One of the model's features.
        grid
            Values of the feature; None among them for a missing one. By default all categories of a string, and of
            any other type the column's distinct values, or from more than 20 of them 20 at evenly spaced ranks.
        output
            As for `predict`: ``"mean"`` or ``"margin"``.

        Returns
        -------
        polars.DataFrame
            A row a value of the grid: the feature, in the column's own type, and ``"prediction"``: Float64, of
            several outputs Array(Float64, outputs).

        Raises
        ------
        DataError
            As `predict`; if the data has no rows, or, without a grid, the feature no value.
        ParameterError
            If the model has no such feature, it is itself named ``"prediction"``, or the grid holds other values than
            the column can.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [0, 0, 1, 1], "z": [0, 1, 0, 1], "y": [0.0, 4.0, 4.0, 12.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> model.partial_dependence(df, "x").rows()
        [(0, 2.0), (1, 8.0)]
        >>> model.partial_dependence(df.filter(z=1), "x", grid=[1]).rows()
        [(1, 12.0)]
        """
        return partial_dependence_frame(self._predictor, data, feature, grid, output)

    # --- other models made of this one --------------------------------------------------------------------------------

    @checked(rounds=slice_of_rounds)
    def __getitem__(self, rounds: slice) -> Model:
        start, stop, _ = rounds.indices(self.n_rounds)
        if stop <= start:
            raise ParameterError(f"the slice has no rounds; the model has {self.n_rounds}")
        return Model(self._ensemble.rounds(start, stop))

    @checked(target=column, method=word(*METHODS))
    def calibrate(
        self, data: Any, target: str, *, method: Literal["platt", "isotonic"] = "platt", weight: str | None = None
    ) -> Model:
        """Return the model with probabilities that come true on these rows, which it should not have been trained on.

        The calibration is part of the model: of its file, its SQL and its polars expression.

        Parameters
        ----------
        data
            As for `predict`.
        target, weight
            The columns of the labels, 0 and 1, and of weights.
        method
            ``"platt"``: a logistic function of the margin; ``"isotonic"``: any non-decreasing one.

        Raises
        ------
        ParameterError
            If the model is not for two classes, or has more than one margin.
        DataError
            If the labels are not 0 and 1, both.

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
        ensemble = calibrated_ensemble(self._predictor, data, target, weight, method)
        return Model(ensemble, history=self._history, best_round=self._best_round, best_score=self._best_score)

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
        """Return the model with leaf values learnt from other rows; what its trees ask stays as it is.

        Round by round as in training, with the parameters of training; the rows are read into memory. A leaf that no
        row reaches keeps its value.

        Parameters
        ----------
        data, target, weight, label_upper_bound, group
            As for `frameboost.fit`; the features must have the types of training.
        decay_rate
            Share of the old value in the new one, from 0 to 1 (LightGBM's ``refit``).

        Raises
        ------
        ParameterError
            If the model is calibrated, was trained with ``booster="dart"``, or ``decay_rate`` is out of range.
        DataError
            If the data can't be trained on.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> model.refit(df.with_columns(y=pl.col("y") + 1), "y").predict(df).to_list()
        [1.0, 1.0, 9.0, 9.0]
        """
        why = _why_not_refit(self._ensemble)
        if why is not None:
            raise ParameterError(f"the model {why}, which does not go with refit")
        from frameboost.training.refit import refitted_trees  # which needs numba

        own = self._ensemble
        trees = refitted_trees(
            data, target, weight, label_upper_bound, group, float(decay_rate), own.loss, own.parameters, own.features,
            own.base_margins, own.trees,
        )  # fmt: skip
        base_margins, on_grid = on_leaf_grid(own.base_margins, trees)
        return Model(replace(own, base_margins=base_margins, trees=on_grid))

    # --- as a value ---------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return summary(self._ensemble)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __getstate__(self) -> dict[str, Any]:
        # What the predictor has compiled goes into no copy or pickle.
        return {name: value for name, value in vars(self).items() if name != "_predictor"}

    # --- files --------------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Return the model file's text: the same text for the same model (see ``docs/model-file.md``).

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
        """Write the model to a JSON file; a file of that name is replaced once all is written.

        Examples
        --------
        >>> import polars as pl, frameboost as fb, tempfile, pathlib
        >>> model = fb.fit(pl.DataFrame({"x": [1, 2, 3], "y": [0, 0, 8]}), "y", n_estimators=1)
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.json"
        >>> model.save(path)
        >>> fb.load(path) == model
        True
        """
        write_text(path, self.to_json())

    @checked()
    def to_xgboost(self, path: str | Path) -> None:
        """Write the model as XGBoost's JSON, which XGBoost 3 loads and predicts alike.

        XGBoost compares float32 numbers, and keeps leaves as such. ``docs/interop.md`` says what that changes.

        Raises
        ------
        ParameterError
            If the model has what XGBoost has not: a loss of one's own, a calibration, thresholds that a float32 can't
            tell apart.

        Examples
        --------
        >>> import polars as pl, frameboost as fb, tempfile, pathlib, xgboost
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "m.json"
        >>> model.to_xgboost(path)
        >>> xgboost.Booster(model_file=path).inplace_predict(df.select("x").to_numpy()).tolist()
        [0.0, 0.0, 8.0, 8.0]
        """
        write_text(path, to_xgboost(self._ensemble))


def _why_not_refit(ensemble: Ensemble) -> str | None:
    """Return what keeps the leaf values from being fitted again, or None."""
    if ensemble.calibration is not None:
        return "is calibrated"
    if ensemble.parameters.get("booster") == "dart":
        return "has trees weighted by dropout"
    is_own = ensemble.loss.is_trainable and "learning_rate" in ensemble.parameters
    return None if is_own else "comes from another library, whose parameters are not known"
