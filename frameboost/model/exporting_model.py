"""The part of a model that goes elsewhere: SQL files, dbt, other libraries, and the watch over its inputs."""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import polars as pl

from frameboost.checks.arguments import anything, checked, name_of, table, whole, word
from frameboost.checks.messages import shown
from frameboost.compile.sql.conditions import FeatureColumn, find_columns
from frameboost.compile.sql.drift import drift_query
from frameboost.compile.sql.outputs import named
from frameboost.compile.sql.scoring_query import FORMS
from frameboost.compile.sql.size import excess
from frameboost.compile.sql.stages import Stages
from frameboost.data.atomic_files import write_text
from frameboost.dialects.known import get_dialect
from frameboost.ensemble.ensemble import Ensemble
from frameboost.ensemble.model_file import dump_model
from frameboost.errors import ParameterError
from frameboost.interop.xgboost.writer import to_xgboost
from frameboost.model.dbt import check_dbt_names, write_dbt
from frameboost.model.drift import baseline_frame, read_baseline
from frameboost.model.sql_header import header
from frameboost.model.sql_scorer import Form, SqlOutput, SqlScorer

__all__ = ["ExportingModel"]


class ExportingModel(SqlScorer):
    """What `frameboost.Model` inherits: files for other tools."""

    _parameters: dict[str, Any]
    _ensemble: Ensemble

    def _header(
        self, columns: Sequence[FeatureColumn], names: Mapping[str, str] | None, dialect: str, trained: object
    ) -> str:
        text = dump_model(self._ensemble)
        return header(text, self._loss.name, len(self._trees), columns, names or {}, dialect, trained)

    @checked(trained=anything, statement=word("query", "view", "table"), target=table)
    def to_sql(
        self,
        path: str | Path,
        table: str,
        dialect: str = "duckdb",
        *,
        trained: dt.date | str | None = None,
        statement: Literal["query", "view", "table"] = "query",
        target: str | None = None,
        **how: Any,
    ) -> None:
        """Write a SQL file that scores a table, for who has no Python.

        Its head says, as comments, what it is: objective, trees, the columns that it reads with their types, when the
        model was trained, and the SHA-256 of its file (`to_json`).

        Parameters
        ----------
        path
            The file; one of that name is replaced once all is written.
        table, dialect
            As in `query`.
        trained
            When the model was trained, or a line of text that says more.
        statement, target
            ``"query"``: the query. ``"view"`` and ``"table"``: the statement that makes a view or a table named
            ``target`` of it.
        how
            As in `query`.

        Raises
        ------
        ParameterError
            As `query`.

        Examples
        --------
        >>> import polars as pl, frameboost as fb, tempfile, pathlib, datetime
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "score.sql"
        >>> model.to_sql(path, "orders", "postgres", trained=datetime.date(2026, 11, 21), keep=["id"])
        >>> print(path.read_text())  # doctest: +ELLIPSIS
        -- A gradient boosted model: "reg:squarederror", 1 tree, as SQL for postgres.
        -- model    sha256 ...
        -- trained  2026-11-21
        -- reads    column: type in training, column type here
        --          "x": int64, BIGINT
        SELECT "id", (4.0::float8
         + CASE WHEN "x" < 3 THEN -4.0::float8 ELSE 4.0::float8 END) AS "prediction"
        FROM "orders";
        """
        if statement not in ("query", "view", "table") or (statement == "query") != (target is None):
            raise ParameterError(
                "statement must be 'query', or 'view' or 'table' with target, the name of what is made, "
                f"not {shown(statement)} with {shown(target)}"
            )
        if target is None:
            text = self.query(table, dialect, **how)
        else:
            make = self.create_view_sql if statement == "view" else self.create_table_sql
            text = make(target, table, dialect, **how)
        columns = find_columns(self._features, get_dialect(dialect), how.get("columns"))
        write_text(path, f"{self._header(columns, how.get('columns'), dialect, trained)}{text};\n")

    @checked(
        name=anything,
        source=anything,
        form=word(*FORMS),
        trained=anything,
        materialized=name_of("a way to make it"),
    )
    def to_dbt(
        self,
        folder: str | Path,
        name: str,
        source: str,
        dialect: str = "duckdb",
        *,
        keep: Sequence[str] | None = None,
        output: SqlOutput = "mean",
        form: Form = "auto",
        columns: Mapping[str, str] | None = None,
        trained: dt.date | str | None = None,
        materialized: str | None = None,
        limits: Mapping[str, int | None] | None = None,
    ) -> list[Path]:
        """Write the model into a dbt project.

        ``models/<name>.sql`` scores the dbt model ``source``, ``models/<name>.yml`` describes it, and
        ``macros/<name>.sql`` has ``<name>_query(relation)``, the query over any relation, and, where the model is one
        expression, ``<name>()``.

        Parameters
        ----------
        folder
            The project's folder.
        name, source
            The names of the new dbt model and of the one that is scored: letters, digits and underscores.
        dialect, keep, output, form, columns, limits
            As in `query`.
        trained
            As in `to_sql`.
        materialized
            How dbt makes it: ``"view"``, ``"table"``, ``"ephemeral"``, ... By default a view, or a table where the
            query is more than the database takes for a view.

        Returns
        -------
        list of pathlib.Path
            The files that were written; those of these names are replaced.

        Raises
        ------
        ParameterError
            As `query`; if a name is none that dbt takes; if a view is asked for and the query is larger than one.

        Examples
        --------
        >>> import polars as pl, frameboost as fb, tempfile
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> paths = model.to_dbt(tempfile.mkdtemp(), "scored_orders", "orders", keep=["id"])
        >>> [f"{path.parent.name}/{path.name}" for path in paths]
        ['models/scored_orders.sql', 'models/scored_orders.yml', 'macros/scored_orders.sql']
        """
        check_dbt_names(name, source, *([] if materialized is None else [materialized]))
        scored = self._scored(output, dialect, columns, None, limits)
        spoken = scored.dialect
        stand_in = secrets.token_hex(16)  # for the relation, whose name dbt puts in
        query = self._query(scored, stand_in, keep, None, "prediction", form, None)
        try:
            expression = None if output == "leaf" else self.sql(output, dialect, columns=columns, limits=limits)
        except ParameterError:  # several values, or larger than an expression may be: the query does it
            expression = None
        values = named([output] * len(scored.output.values), "prediction")
        described = {column: f"{what} of the model" for column, what in values.items()}
        head = self._header(scored.columns, columns, dialect, trained)
        too_much = excess(head + query, [], spoken, in_one=False, of_view=True)
        if materialized == "view" and too_much:
            raise ParameterError(f"the model does not fit into a view: {too_much}; take materialized='table'")
        kind = materialized or ("table" if too_much else "view")
        return write_dbt(folder, name, source, head, query, spoken.quote(stand_in), expression, described, kind)

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

    # --- drift --------------------------------------------------------------------------------------------------------

    @checked(bins=whole(2, 100))
    def baseline(self, data: Any, bins: int = 10) -> pl.DataFrame:
        """Return how rows, those of training, fall into bins of each feature: what `drift_query` compares with.

        Parameters
        ----------
        data
            As for `predict`, with the types of training and at least one row.
        bins
            At most so many of each feature, from 2 to 100, besides one of missing values: as equal in rows as values
            let them be, or the most frequent categories and one of all others.

        Returns
        -------
        polars.DataFrame
            A row a bin: ``feature``, ``bin`` (-1: missing), ``lower``, ``upper`` and ``category`` (JSON; a value is in
            a bin from ``lower`` to below ``upper``), ``share`` of the rows. To be kept where the model is.

        Raises
        ------
        DataError
            As `predict`; if there are no rows.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> fb.fit(df, "y", n_estimators=1).baseline(df, bins=2).drop("category").rows()
        [('x', -1, None, None, 0.0), ('x', 0, None, '3', 0.5), ('x', 1, '3', None, 0.5)]
        """
        return baseline_frame(data, self._features, bins)

    @checked()
    def drift_query(
        self,
        table: str,
        baseline: pl.DataFrame,
        dialect: str = "duckdb",
        *,
        where: str | None = None,
        columns: Mapping[str, str] | None = None,
        limits: Mapping[str, int | None] | None = None,
    ) -> str:
        """Return a SELECT that says how far a table's rows have come from those of training, feature by feature.

        Its rows are bins: ``feature``, ``bin``, ``label`` (what is in it), ``training_share``, ``share``, and ``psi``,
        the population stability index of the feature (Σ (a − e) ln(a / e) over its bins; above 0.25 much has changed).
        The features that have changed most come first. The table is read once.

        Parameters
        ----------
        table, dialect, where, columns, limits
            As in `query`.
        baseline
            What `baseline` returned, or the rows of some of its features.

        Raises
        ------
        ParameterError
            As `query`; if ``baseline`` is none of this model.

        Examples
        --------
        >>> import duckdb, polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1)
        >>> con = duckdb.connect()
        >>> _ = con.execute("CREATE TABLE today AS SELECT unnest([1, 3, 4, 5]) AS x")
        >>> con.sql(model.drift_query("today", model.baseline(df, bins=2))).select("* REPLACE (round(psi, 3) AS psi)")
        ┌─────────┬───────┬─────────┬────────────────┬────────┬────────┐
        │ feature │  bin  │  label  │ training_share │ share  │  psi   │
        │ varchar │ int32 │ varchar │     double     │ double │ double │
        ├─────────┼───────┼─────────┼────────────────┼────────┼────────┤
        │ x       │    -1 │ missing │            0.0 │    0.0 │  0.275 │
        │ x       │     0 │ below 3 │            0.5 │   0.25 │  0.275 │
        │ x       │     1 │ from 3  │            0.5 │   0.75 │  0.275 │
        └─────────┴───────┴─────────┴────────────────┴────────┴────────┘
        """
        spoken = get_dialect(dialect, limits)
        found = find_columns(self._features, spoken, columns)
        bins = read_baseline(baseline, self._features)
        stages = Stages(spoken, spoken.quote_path(table), [], [found[f].name for f in bins], where)
        text = drift_query(stages, bins, found, spoken)
        if reason := excess(text, [], spoken, in_one=False):
            raise ParameterError(f"the query does not fit: {reason}; give the rows of some features of the baseline")
        return text
