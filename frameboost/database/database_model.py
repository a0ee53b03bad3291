"""A model in one database: queries, statements and files, the object that `Model.database` returns."""

from __future__ import annotations

import datetime as dt
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Unpack, get_args

import polars as pl

from frameboost.checks.arguments import (
    Check,
    anything,
    checked,
    column,
    columns,
    condition_on_rows,
    finite_numbers,
    flag,
    name_of,
    table,
    whole,
    word,
)
from frameboost.checks.messages import advice, counted, listed, shortened, shown
from frameboost.compile.sql.conditions import FeatureColumn, find_columns
from frameboost.compile.sql.forms import (
    FORMS,
    Destination,
    Form,
    QueryArguments,
    QueryOptions,
    ScoringQuery,
    check_size,
    chosen_form,
    exceeded_limit,
    with_options,
)
from frameboost.compile.sql.node_lists import list_expression
from frameboost.compile.sql.row_conditions import row_condition
from frameboost.compile.sql.sql_model import OffsetColumn, SqlModel
from frameboost.compile.sql.stages import Stages, TableSource
from frameboost.compile.sql.tree_table import table_frame, table_statements
from frameboost.data.written_files import write_text
from frameboost.database.column_check import check_columns_query
from frameboost.database.comparison import comparison_query
from frameboost.database.dbt_files import (
    DbtColumn,
    DbtModel,
    DbtQuery,
    Materialization,
    check_dbt_names,
    check_exposure,
    relation,
    values_test,
)
from frameboost.database.deployment import deploy_statements, path_of, point_statements, script
from frameboost.database.drift import baseline_frame, drift_query, drift_tests
from frameboost.database.evaluation import KINDS, TENTHS, evaluation_query
from frameboost.database.explanations import (
    Explained,
    ExplanationArguments,
    ExplanationOptions,
    explanation_query,
)
from frameboost.database.files import header
from frameboost.database.labelled_rows import End, LabelledTable
from frameboost.database.monitoring import (
    UNITS,
    History,
    Watch,
    WatchArguments,
    WatchOptions,
    append_statement,
    check_labels,
    check_times,
    create_statement,
    measures_of,
    monitor_query,
)
from frameboost.database.self_test import Names, SelfTest, differing_rows, predictions, rows_of
from frameboost.database.star import StarTables, Tables, star_tables
from frameboost.dialects.built_in import get_dialect
from frameboost.dialects.dialect import Dialect
from frameboost.ensemble.baseline import Baseline, bins_of
from frameboost.ensemble.ensemble import Ensemble
from frameboost.ensemble.metadata import metadata_fields
from frameboost.ensemble.model_file import model_hash
from frameboost.errors import ParameterError, TooLargeError
from frameboost.losses.loss import EXPOSURE
from frameboost.losses.outputs import OutputName, ScoreName, leaf_output
from frameboost.metrics.metric import Metric
from frameboost.schema.types import Feature, FeatureType
from frameboost.trees.linear_leaves import refuse_linear
from frameboost.trees.node_means import leaf_contributions, means_on_grid
from frameboost.trees.tree import Tree

__all__ = ["ColumnNames", "DatabaseModel", "database_model", "read_columns", "source_model"]

_FORM = word(*FORMS)
ColumnNames = Mapping[str, str] | Callable[[str], str]
# A dbt project has no table of the trees.
_DbtForm = Literal["auto", "by_key", "case", "lists", "sorted", "staged"]
_BY: Check = columns
_TABLE: Check = table
EvaluationKind = Literal["metrics", "calibration", "gain", "confusion", "thresholds"]
_WATCHED: dict[str, Check] = {
    "window": word(*UNITS), "until": anything, "by": _BY, "where": condition_on_rows, "measures": anything,
    "last": whole(1, 1000), "form": _FORM,
}  # fmt: skip
_EXPLAINED: dict[str, Check] = {"output": anything, "approx": anything, "where": condition_on_rows, "trees": table}
# The population stability index above which a dbt test fails.
_DRIFTED = 0.25
# The shares of limits that a query of a chain may take, one after the other, so that its self-test has room for rows.
_SHARES_OF_PARTS = (7 / 8, 3 / 4, 1 / 2)
# Of a hash, in the names of deployments.
_DIGITS = 8
# What drivers take for parameters in any text, in strings as well, and how it is escaped. `sqlalchemy.text` takes the
# backslash off each ``\:word`` that no colon follows. So all colons get one, but for those of a cast behind a quote or
# a bracket.
_QUOTE = r"""(?<=[')\]"`]"""
_ESCAPES = {
    "format": ("%", "%%"), "pyformat": ("%", "%%"), "sqlalchemy": (rf"(?!{_QUOTE})::\w)(?!{_QUOTE}:):\w):", r"\\:")
}  # fmt: skip


def database_model(
    ensemble: Ensemble, database: str, columns: ColumnNames | None = None,
    base_margin: str | Sequence[str] | None = None, limits: Mapping[str, int | None] | None = None,
    tables: Tables | None = None, paramstyle: str | None = None,
) -> DatabaseModel:  # fmt: skip
    """Return an ensemble for one database; the arguments are those of `frameboost.Model.database`."""
    if paramstyle is not None and not (isinstance(paramstyle, str) and paramstyle in _ESCAPES):
        raise ParameterError(f"paramstyle must be one of {listed(_ESCAPES)} or None, not {shown(paramstyle)}")
    ensemble = ensemble.started_from(base_margin)
    dialect = get_dialect(database, limits)
    rename = columns if callable(columns) else None
    if tables is not None and not ensemble.joins:
        raise ParameterError("tables is for a model that was trained on a star of tables")
    if callable(columns):
        if ensemble.joins and tables != "joined":
            raise ParameterError("columns must be a dict for a model of a star, unless tables='joined'")
        columns = {name: columns(name) for name in _read_names(ensemble)}
        for name, called in columns.items():
            if not isinstance(called, str):
                raise ParameterError(f"columns must return a column name, not {shown(called)} for {shown(name)}")
        for other, times in Counter(columns.values()).most_common(1):
            if times > 1:
                same = [name for name, called in columns.items() if called == other]
                raise ParameterError(f"columns gives {listed(same)} the same name, {shown(other)}")
    star = star_tables(ensemble, dialect, columns, tables) if ensemble.joins else None
    names = columns if star is None else star.names_in_join
    features = names
    if isinstance(names, Mapping):  # without columns that are no features and are read besides
        besides = {*_read_names(ensemble)} - {*ensemble.feature_names}
        features = {feature: name for feature, name in names.items() if feature not in besides}
    read = find_columns(ensemble.features, dialect, features)
    model = DatabaseModel(ensemble, dialect, read, dict(names or {}), star, paramstyle, rename)
    model._offset_columns()  # raises
    return model


def _read_names(ensemble: Ensemble) -> list[str]:
    """Return the names of all columns that any output reads."""
    lookup = None if ensemble.interval is None else ensemble.interval.groups
    return list(dict.fromkeys([*ensemble.read_names, *([] if lookup is None else [lookup.column])]))


def source_model(ensemble: Ensemble) -> DatabaseModel:
    """Return an ensemble for DuckDB over a source of rows; a star is a table with all columns."""
    tables: Tables | None = "joined" if ensemble.joins else None
    return database_model(ensemble, "duckdb", tables=tables)


@dataclass(frozen=True, eq=False, repr=False)
class DatabaseModel:
    """A model for one database, returned by `frameboost.Model.database`.

    Attributes
    ----------
    ensemble
        The trees, their loss and their features.
    dialect
        The SQL dialect of the database, with its limits.
    columns
        The features as columns of the database's tables.
    column_names
        The column names that differ from the feature's name, by feature.
    star
        The dimensions that queries join, or None.
    paramstyle
        The driver's parameter style, for which SQL is escaped, or None.
    rename
        The function from a feature's name to its column name, or None.

    Examples
    --------
    >>> import polars as pl, frameboost as fb
    >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
    >>> fb.fit(df, "y", n_estimators=1).database("postgres", columns={"x": "X"})
    DatabaseModel: reg:squarederror, 1 tree, for postgres
    """

    ensemble: Ensemble
    dialect: Dialect
    columns: tuple[FeatureColumn, ...]
    column_names: Mapping[str, str]
    star: StarTables | None = None
    paramstyle: str | None = None
    rename: Callable[[str], str] | None = None

    def __repr__(self) -> str:
        trees = counted(len(self.ensemble.trees), "tree")
        return f"DatabaseModel: {shortened(self.ensemble.loss.name)}, {trees}, for {self.dialect.name}"

    # --- scoring ------------------------------------------------------------------------------------------------------

    @checked(form=word("auto", "case", "lists"))
    def sql(self, output: OutputName = "mean", *, form: Literal["auto", "case", "lists"] = "case") -> str:
        """Return the model as one scalar expression over the features; see `frameboost.Model.sql`.

        ``form`` is as in `frameboost.Model.query`; ``"lists"`` works in DuckDB only, where ``"auto"`` may choose it.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> print(fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0).database("sqlite").sql())
        (4.0
         + CASE WHEN `x` < 3 THEN -4.0 ELSE 4.0 END)
        """
        model = self._sql_model(output)
        if chosen_form(model, form, None) != "lists":
            return self._for_driver(self._expression(output))
        return self._for_driver(list_expression(model, model.value))

    @checked(form=_FORM, where=condition_on_rows)
    @with_options(QueryOptions)
    def query(self, table: str, **options: Unpack[QueryArguments]) -> str:
        """Return a SELECT that scores a table; the arguments are those of `frameboost.Model.query`.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> print(model.database("tsql").query("orders", keep=["id"], where="x > 1"))
        SELECT [id], (4.0e0
         + CASE WHEN [x] < 3 THEN -4.0e0 ELSE 4.0e0 END) AS [prediction]
        FROM [orders]
        WHERE x > 1
        """
        return self._for_driver(self._statement(Destination(), table, QueryOptions(**options)))

    @checked(view=name_of("the name of a view"), replace=flag, form=_FORM, where=condition_on_rows)
    @with_options(QueryOptions)
    def create_view_sql(
        self, view: str, table: str, *, replace: bool = False, **options: Unpack[QueryArguments]
    ) -> str:  # fmt: skip
        """Return a CREATE VIEW of a table with predictions; other arguments as in `query`.

        Some databases limit views to less text than queries (``docs/dialects.md``).

        Parameters
        ----------
        view, table
            The names of the view and of the table to score.
        replace
            Whether to replace an existing view, which keeps grants and dependent views. PostgreSQL accepts new columns
            at the end only, and Redshift none.

        Raises
        ------
        ParameterError
            As `query`; if no form of the query fits into a view, with the sizes; with ``replace``, if the database
            needs several statements for it (SQLite, Databricks; use `deploy_statements`).

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> print(model.database().create_view_sql("scored", "orders", keep=["id"]))
        CREATE VIEW "scored" AS
        SELECT "id", (4.0e0
         + CASE WHEN "x" < 3 THEN -4.0e0 ELSE 4.0e0 END) AS "prediction"
        FROM "orders"
        """
        destination = self._view(view, replace=replace)
        return self._for_driver(self._statement(destination, table, QueryOptions(**options)))

    @checked(target=table, replace=flag, form=_FORM, where=condition_on_rows)
    @with_options(QueryOptions)
    def create_table_sql(
        self, target: str, table: str, *, replace: bool = False, **options: Unpack[QueryArguments]
    ) -> str:  # fmt: skip
        """Return a CREATE TABLE of rows with predictions; other arguments as in `query`.

        Parameters
        ----------
        target, table
            The names of the new table and of the table to score.
        replace
            Whether to replace an existing table, in databases with a statement for it.

        Raises
        ------
        ParameterError
            As `query`; with ``replace``, if the database has no statement that replaces a table.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> print(model.database("tsql").create_table_sql("scored", "orders", keep=["id"]))
        SELECT [id], (4.0e0
         + CASE WHEN [x] < 3 THEN -4.0e0 ELSE 4.0e0 END) AS [prediction]
        INTO [scored]
        FROM [orders]
        """
        destination = self._table(target, replace=replace)
        return self._for_driver(self._statement(destination, table, QueryOptions(**options)))

    @checked(column=column)
    def update_sql(
        self, table: str, column: str, *, where: str | None = None, output: OutputName = "mean", stamp: bool = False
    ) -> str:  # fmt: skip
        """Return an UPDATE that writes predictions into a column of the table; other arguments as in `query`.

        ``stamp=True`` also writes the columns ``model_hash``, ``model_version`` and ``scored_at``.

        Raises
        ------
        ParameterError
            As `sql`; the output must be one expression.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> print(model.database().update_sql("orders", "score", where="score IS NULL"))
        UPDATE "orders"
        SET "score" = (4.0e0
         + CASE WHEN "x" < 3 THEN -4.0e0 ELSE 4.0e0 END)
        WHERE score IS NULL
        """
        if self.star is not None:
            others = listed(self.star.table_names)
            raise ParameterError(
                f"{advice('update_sql', '--update')} reads the columns of one table, and the model those of {others} "
                f"too; use {advice('create_table_sql', '--create-table')}, or tables='joined' where the table has "
                "these columns"
            )
        condition = where if where is not None or not self.dialect.statements.update_needs_where else "1 = 1"
        values = {column: self._expression(output), **(self._stamp() if stamp else {})}
        if len(values) < 1 + 3 * stamp:
            raise ParameterError(f"column {shown(column)} is written by stamp; set another name")
        more = [f"{self.dialect.quote(name)} = {value}" for name, value in values.items() if name != column]
        text = self.dialect.statements.update.format(
            name=self.dialect.quote_path(table), column=self.dialect.quote(column),
            value=", ".join([values[column], *more]), where=f"\nWHERE {condition}" if condition else "",
        )  # fmt: skip
        if reason := exceeded_limit(text, [], self.dialect, in_one=False):
            raise TooLargeError(f"the model does not fit into the statement: {reason}")
        return self._for_driver(text)

    @checked(name=table, replace=flag)
    def create_function_sql(self, name: str, *, output: OutputName = "mean", replace: bool = False) -> str:
        """Return a CREATE FUNCTION for the model, with the columns that it reads as parameters.

        Parameters are the features in order, then the columns of an offset, with the types of training. To create a
        function in a DuckDB connection, `frameboost.Model.register` also protects existing functions.

        Parameters
        ----------
        name
            The name of the function, optionally qualified if functions belong to schemas. SQL Server requires the
            schema in calls (``"dbo.score"``).
        output
            As in `sql`, but a single value.
        replace
            Whether to replace a function with that name and those parameters.

        Raises
        ------
        ParameterError
            As `sql`; if the database has no scalar functions in SQL, or none that return several values; for a star, if
            the columns come from several tables.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> print(model.database("bigquery").create_function_sql("sales.score"))
        CREATE FUNCTION `sales`.`score`(`x` INT64)
        RETURNS FLOAT64
        AS (
        (4.0
         + IF(`x` < 3, -4.0, 4.0))
        )
        """
        known, dialect = self.dialect.statements, self.dialect
        if known.create_function is None:
            raise ParameterError(
                f"{dialect.name} has no scalar functions in SQL; use {advice('sql or query', 'the command sql')}"
            )
        if self.star is not None:
            raise ParameterError(
                f"a function reads the columns of one row, and the model those of {listed(self.star.table_names)} too; "
                "use tables='joined'"
            )
        if replace and known.replace_function is None:
            raise ParameterError(f"{dialect.name} has no statement that replaces a function; drop it before")
        of_output = self._sql_model(output).output
        if len(of_output.values) > 1 and "{returns}" in known.create_function:
            raise ParameterError(
                f"output {shown(output)} has {len(of_output.values)} values, and a function in {dialect.name} returns "
                "one; use query"
            )
        read = read_columns(self, output)
        tokens = {column.feature.name: secrets.token_hex(16) for column in read}
        value = self._over_columns(tokens)._expression(output)
        declared, used = known.parameter
        parameters = []
        for number, each in enumerate(read, 1):
            how = {"name": each.name, "n": number, "type": dialect.type_of(each.feature.type)}
            parameters.append(declared.format(**how))
            value = value.replace(dialect.quote(tokens[each.feature.name]), used.format(**how))
        label = next(iter(of_output.labels.values()), None)
        kind = "float64" if not of_output.is_class else "int64" if label is None else "string"
        text = known.create_function.format(
            name=dialect.quote_path(name), parameters=", ".join(parameters), value=value,
            returns=dialect.types.columns["boolean" if isinstance(label, bool) else kind],
            text=dialect.string(value) if "{text}" in known.create_function else "",
            replace=known.replace_function if replace else "",
        )  # fmt: skip
        if reason := exceeded_limit(text, [], dialect, in_one=False):
            raise TooLargeError(f"the model does not fit into a function: {reason}")
        return self._for_driver(text)

    # --- deployments --------------------------------------------------------------------------------------------------

    @checked(
        view=name_of("the name of a view"), label=anything, kind=word("view", "table"), form=_FORM,
        where=condition_on_rows,
    )  # fmt: skip
    @with_options(QueryOptions)
    def deploy_statements(
        self, view: str, table: str, *, label: str | None = None, kind: Literal["view", "table"] = "view",
        **options: Unpack[QueryArguments],
    ) -> list[str]:  # fmt: skip
        """Return statements that deploy the model behind a view; other arguments as in `query`.

        They create a deployment, a view or table ``<view>__<label>`` with the scores of this model, and make ``view``
        select from it. Grants on ``view`` and views over it survive a new model, and `rollback_statements` restores an
        earlier deployment without scoring again. A model too large for one view becomes several, named ``..._part_1``
        and so on. A deployment with the same label is replaced if it is a view, and an error if it is a table.

        The statements form a transaction if the database supports DDL in one (PostgreSQL, Redshift, SQLite, DuckDB, SQL
        Server). Otherwise ``view`` is changed last, so that an earlier error leaves it unchanged. PostgreSQL and
        Redshift change a view only to one that begins with the same columns.

        Parameters
        ----------
        view
            The view that users read, optionally qualified (``"sales.scored"``). It is created if it does not exist.
        table
            The table to score.
        label
            A label for the deployment: letters, digits and underscores; by default the first eight digits of
            `frameboost.Model.sha256`.
        kind
            ``"view"`` computes scores when they are read, ``"table"`` once, when it is deployed.

        Raises
        ------
        ParameterError
            As `query`; if the model does not fit into views, or a name is too long.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> for statement in model.database("postgres").deploy_statements("scored", "orders", label="v3", keep=["id"]):
        ...     print(statement)
        BEGIN
        CREATE OR REPLACE VIEW "scored__v3" AS
        SELECT "id", (4.0::float8
         + CASE WHEN "x" < 3 THEN -4.0::float8 ELSE 4.0::float8 END) AS "prediction"
        FROM "orders"
        SELECT * FROM "scored__v3"
        WHERE 1 = 0
        CREATE OR REPLACE VIEW "scored" AS
        SELECT * FROM "scored__v3"
        COMMIT
        """
        return list(map(self._for_driver, self._deployed(view, table, label, kind, QueryOptions(**options))))

    def _deployed(
        self, view: str, table: str, label: str | None, kind: Literal["view", "table"], options: QueryOptions,
        call: str = "deploy_statements",
    ) -> list[str]:  # fmt: skip
        label = self._label(label)
        destination = Destination(kind, path_of(view, label, self.dialect), replace=kind == "view")
        scoring, named = self._scoring(destination, table, options, call), partial(path_of, view, label, self.dialect)
        return deploy_statements(scoring, self.dialect.quote_path(view), named)

    @checked(view=name_of("the name of a view"), label=anything)
    def rollback_statements(self, view: str, *, label: str | None = None) -> list[str]:
        """Return statements that make a view select from an earlier deployment of this model again.

        They fail, and leave ``view`` unchanged, if the deployment does not exist.

        Parameters
        ----------
        view, label
            As for `deploy_statements`.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> database = fb.fit(df, "y", n_estimators=1).database("snowflake")
        >>> for statement in database.rollback_statements("sales.scored", label="v2"):
        ...     print(statement)
        SELECT * FROM "sales"."scored__v2"
        WHERE 1 = 0
        CREATE OR REPLACE VIEW "sales"."scored" COPY GRANTS AS
        SELECT * FROM "sales"."scored__v2"
        """
        name = path_of(view, self._label(label), self.dialect)
        return list(map(self._for_driver, point_statements(self.dialect.quote_path(view), name, self.dialect)))

    # --- as a table of trees ------------------------------------------------------------------------------------------

    @checked(name=table, reasons=flag)
    def table_statements(self, name: str, *, reasons: bool = False) -> list[str]:
        """Return statements that create and fill a table of the trees, for ``query(..., form="table")``.

        One row per node: ``id``, ``tree``, ``node``, ``output``, ``feature`` (NULL in a leaf), a threshold column for
        each feature type (such as ``threshold_float64``), the child ids ``left``, ``right`` and ``missing``, and
        ``value``. Each category of a split is a separate row: ``named_by``, ``category``. Base margins and offsets are
        part of the query, not of the table.

        Parameters
        ----------
        name
            The table's name, which may be qualified.
        reasons
            Whether to add rows for ``explain_query(..., trees=)``: one for each leaf and feature on its path, with the
            leaf's id in ``explains`` and the contribution as ``value``.

        Examples
        --------
        >>> import duckdb, polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> database = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0).database()
        >>> con = duckdb.connect()
        >>> for statement in database.table_statements("trees"):
        ...     _ = con.execute(statement)
        >>> con.from_arrow(df.to_struct()).create("orders")
        >>> con.sql(database.query("orders", keep=["x"], form="table", trees="trees")).order("x").fetchall()
        [(1, 0.0), (2, 0.0), (3, 8.0), (4, 8.0)]
        """
        refuse_linear("a table of the trees", is_linear=self.ensemble.is_linear)
        contributions = self._leaf_contributions() if reasons else ()
        statements = table_statements(name, self.ensemble.trees, self.columns, self.dialect, contributions)
        return list(map(self._for_driver, statements))

    @checked(reasons=flag)
    def table_frame(self, *, reasons: bool = False) -> pl.DataFrame:
        """Return the table of `table_statements` as a frame, to load it from a file.

        Loading it as Parquet takes seconds if many INSERTs are slow (Spark, cloud warehouses). Convert types that the
        database lacks (``docs/dialects.md``).

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> database = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0).database("spark")
        >>> database.table_frame().select("id", "feature", "threshold_int64", "left", "right", "value").rows()
        [(0, 0, 3, 1, 2, None), (1, None, None, 1, 1, -4.0), (2, None, None, 2, 2, 4.0)]
        """
        refuse_linear("a table of the trees", is_linear=self.ensemble.is_linear)
        contributions = self._leaf_contributions() if reasons else ()
        return table_frame(self.ensemble.trees, self.columns, contributions)

    def _leaf_contributions(self) -> list[dict[int, dict[int, float]]]:
        """Return Saabas' contributions in the leaves of each tree, by node and feature."""
        of_trees: list[dict[int, dict[int, float]]] = [{} for _ in self.ensemble.trees]
        for number, base in enumerate(self.ensemble.base_margins):
            numbers = [i for i, tree in enumerate(self.ensemble.trees) if tree.output == number]
            _, means, _ = means_on_grid(base, [self.ensemble.trees[i] for i in numbers])
            for i, of_tree in zip(numbers, means, strict=True):
                of_trees[i] = leaf_contributions(self.ensemble.trees[i], of_tree)
        return of_trees

    # --- proof --------------------------------------------------------------------------------------------------------

    @checked(table=table, rows=whole(1, 100_000), form=_FORM)
    def self_test_query(
        self, table: str, *, data: Any = None, output: ScoreName = "mean", form: Form = "auto",
        trees: str | None = None, rows: int = 1000,
    ) -> str:  # fmt: skip
        """Return a SELECT that tests whether the database scores like Python: it returns the rows that differ.

        It scores literal rows that cover the splits of all trees: the threshold and its predecessor, NULL, NaN,
        infinities, each category, unknown categories, and known ones in other case or with blanks. They have the types
        and collations of the columns of ``table``; no row of it is read, but the right to read it is required.

        Margins, leaves and classes must be equal to the last bit, outputs with functions such as EXP to twelve digits.
        An empty result means that the test passes. Rows that differ have a number, the expected and the computed
        values, and the columns that the model reads.

        Parameters
        ----------
        table
            The table to score, optionally qualified. For a star the columns of the join are tested.
        data
            Rows to test instead, as for `frameboost.Model.predict`, with the types of training. The first ``rows`` are
            used, without those that have a value that the database can't store.
        output, form, trees
            As in `query`.
        rows
            The maximum number of rows. Fewer are used if they cover all splits and leaves, or if the query would exceed
            a limit of the database.

        Raises
        ------
        ParameterError
            As `query`. Test a model that is too large over a table of its trees, or query by query in dbt (`to_dbt`).

        Examples
        --------
        >>> import duckdb, polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> con, query = duckdb.connect(), model.database().self_test_query("orders")
        >>> _ = con.execute("CREATE TABLE orders (x BIGINT)")
        >>> con.execute(query).fetchall()
        []
        >>> con.sql(query.replace('"x" < 3', '"x" <= 3')).select("expected, prediction, x").fetchall()
        [(8.0, 0.0, 3)]
        """
        options = QueryOptions(output=output, form=form, trees=trees)
        model, source = self._sql_model(output), self._source(table)
        scoring = ScoringQuery(model, source, options, Destination(), call="self_test_query")
        return self._for_driver(self._self_test(scoring, data, rows))

    @checked(table=table)
    def check_columns_query(self, table: str) -> str:
        """Return a SELECT that compares the column types in the database's catalog with those of training.

        One row per column that the model reads: ``feature``, ``column_name``, ``trained_type``, ``expected_type`` (its
        equivalent in the database), ``type`` and ``collation`` in the table, and ``problem``: NULL, or that the column
        is missing or has another kind of type, such as text for numbers. In a table that does not exist or is not
        readable, all columns are missing.

        Raises
        ------
        ParameterError
            If the database has no catalog to query (Spark), or one per schema (BigQuery, Presto, Athena) and ``table``
            is not qualified; if the model was trained on a star; if the query exceeds a limit of the database.

        Examples
        --------
        >>> import duckdb, polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "kind": ["a", "a", "b", "b"], "y": [0.0, 0.0, 8.0, 9.0]})
        >>> con, database = duckdb.connect(), fb.fit(df, "y", n_estimators=1).database()
        >>> _ = con.execute("CREATE TABLE orders (x VARCHAR)")
        >>> con.sql(database.check_columns_query("orders")).select("feature, expected_type, type, problem").fetchall()
        [('x', 'BIGINT', 'VARCHAR', 'another kind of type'), ('kind', 'VARCHAR', None, 'the table has no such column')]
        """
        if self.star is not None:
            raise ParameterError(
                "check_columns_query is of one table, and the model reads those of a star; use self_test_query, or "
                "tables='joined' where one table has all columns"
            )
        text = check_columns_query(table, {self._name_of(c): c for c in read_columns(self, "mean")}, self.dialect)
        if reason := exceeded_limit(text, [], self.dialect, in_one=False):
            raise TooLargeError(f"the columns of the model do not fit into one query: {reason}")
        return self._for_driver(text)

    def _self_test(
        self, scoring: ScoringQuery, data: Any, n_rows: int, *, before: Sequence[Tree] = (), is_last: bool = True,
        argument: str = "data", is_sorted: bool = True, head: str = "",
    ) -> str:  # fmt: skip
        """Return the self-test of a scoring query, with as many rows as fit below a header.

        For a query of a chain, rows contain the margins of the trees ``before`` as literals, and margins are expected
        from all queries but the last. ``argument`` is the name of the data in messages.

        Raises
        ------
        TooLargeError
            If not even one row fits.
        """
        model, output = scoring.model, scoring.options.output
        trees = [tree for of_margin in model.trees for tree in of_margin]
        read = {*model.used(), *model.read_besides}
        columns = [column for column in read_columns(self, output) if column.name in read]
        if data is None:
            test = SelfTest(replace(self.ensemble, trees=trees), columns, n_rows).literal_rows()
        else:
            test = rows_of(data, self.ensemble, columns, n_rows, argument)

        def margins(trees: Sequence[Tree]) -> list[list[Any]]:
            ensemble = replace(self.ensemble, trees=trees, offset=None)
            return predictions(ensemble, test.frame, "leaf" if model.is_of_leaves else "margin")

        started = {k: str(base) for k, base in enumerate(model.bases) if base in model.score_columns}
        known = margins(before) if started else []
        test = test.with_margins({name[1:-1]: [row[k] for row in known] for k, name in started.items()}, self.dialect)
        if is_last:
            values = predictions(self.ensemble, test.frame, output)
        else:
            values = [[row[int(k)] for k in model.output.names] for row in margins([*before, *trees])]
        expected = test.expected(values, self.dialect)
        shown_columns = [*map(self._name_of, columns), *(name[1:-1] for name in started.values())]
        names = Names.beside(shown_columns, len(model.output.values))
        keep, source = [names.row, *names.expected, *shown_columns], scoring.source
        options = replace(scoring.options, keep=keep, where=None, name=names.value)
        while True:
            rows = replace(source, rows=test.sql(expected, names, source.sql, self.dialect))
            end = differing_rows(model, names, is_sorted=is_sorted)
            query = ScoringQuery(model, rows, options, Destination(), end, call=scoring.call)
            text, too_large = query.fitting()
            too_large = too_large or exceeded_limit(head + text, [], self.dialect, in_one=False)
            if not too_large:
                return text
            if len(expected) == 1:
                raise TooLargeError(too_large)
            expected = expected[: len(expected) // 2]

    # --- explanations and drift ---------------------------------------------------------------------------------------

    @checked(**_EXPLAINED)
    @with_options(ExplanationOptions)
    def explain_query(self, table: str, **options: Unpack[ExplanationArguments]) -> str:
        """Return a SELECT that explains the scores of a table's rows inside the database.

        Parameters
        ----------
        table
            The table's name, which may be qualified (``"sales.orders"``).
        keep
            Other columns to return; with ``top``, of types that GROUP BY accepts.
        where
            A predicate on the rows, as for `frameboost.Model.query`.
        output
            As for `frameboost.Model.explain`.
        approx
            False for the Shapley values of `frameboost.Model.explain`, up to rounding (about 1e-15 of the largest);
            their SQL is several times as long as the model's, above all for deep trees, and must be within the
            database's limits. True for Saabas' contributions, equal to ``explain(approx=True)`` to the last bit:
            shorter, but the top feature differs from that of Shapley values in about a fifth of the rows. ``"auto"``,
            the default: Shapley values if their SQL is at most 1 MB and within the limits, else Saabas' contributions
            with a comment that says so.
        top
            The number of reason codes: columns ``reason_1``, ``contribution_1``, ... with the names and contributions
            of the features with the largest absolute contributions; ties are broken by the model's feature order. By
            default a column for each feature, and ``"bias"``.
        sign
            1 for reasons that raise the margin only, -1 for those that lower it; rows with fewer than ``top`` reasons
            have NULL in the rest. By default both.
        texts
            Reason texts by feature, by default the feature's name. Features with the same text are one reason, and
            their contributions are summed.
        trees
            The table filled by ``table_statements(..., reasons=True)``: the query is then short, whatever the size of
            the model, and returns Saabas' contributions.

        Raises
        ------
        ParameterError
            If two columns of the result have the same name (without ``top``, a feature named ``"bias"``); if ``top`` is
            not between 1 and the number of features; if the query exceeds a limit of the database.

        Examples
        --------
        >>> import duckdb, polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"id": [7, 8, 9], "x": [0, 1, 1], "z": [1, 0, 1], "y": [0.0, 6.0, 12.0]})
        >>> model = fb.fit(df, "y", features=["x", "z"], n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> con, database = duckdb.connect(), model.database()
        >>> con.from_arrow(df.to_struct()).create("orders")
        >>> con.sql(database.explain_query("orders")).columns
        ['x', 'z', 'bias']
        >>> con.sql(database.explain_query("orders", keep=["id"], top=1)).fetchall()
        [(7, 'x', -7.0), (8, 'x', 2.5), (9, 'x', 3.5)]
        >>> lower = database.explain_query("orders", keep=["id"], top=1, sign=-1, texts={"x": "Few items"})
        >>> con.sql(lower).fetchall()
        [(7, 'Few items', -7.0), (8, 'z', -2.5), (9, None, None)]
        """
        return self._explanation(Destination(), table, ExplanationOptions(**options))

    @checked(view=name_of("the name of a view"), replace=flag, **_EXPLAINED)
    @with_options(ExplanationOptions)
    def explain_view_sql(
        self, view: str, table: str, *, replace: bool = False, **options: Unpack[ExplanationArguments]
    ) -> str:  # fmt: skip
        """Return a CREATE VIEW of contributions.

        The arguments are those of `explain_query` and of `create_view_sql`.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> print(model.database().explain_view_sql("reasons", "orders", keep=["id"], approx=True))
        CREATE VIEW "reasons" AS
        SELECT "id", (0.0e0
         + CASE WHEN "x" < 3 THEN -4.0e0 ELSE 4.0e0 END) AS "x", 4.0e0 AS "bias"
        FROM "orders"
        """
        return self._explanation(self._view(view, replace=replace), table, ExplanationOptions(**options))

    @checked(target=table, replace=flag, **_EXPLAINED)
    @with_options(ExplanationOptions)
    def explain_table_sql(
        self, target: str, table: str, *, replace: bool = False, **options: Unpack[ExplanationArguments]
    ) -> str:  # fmt: skip
        """Return a CREATE TABLE of contributions.

        The arguments are those of `explain_query` and of `create_table_sql`.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> print(model.database("tsql").explain_table_sql("reasons", "orders", keep=["id"], approx=True))
        SELECT [id], (0.0e0
         + CASE WHEN [x] < 3 THEN -4.0e0 ELSE 4.0e0 END) AS [x], 4.0e0 AS [bias]
        INTO [reasons]
        FROM [orders]
        """
        return self._explanation(self._table(target, replace=replace), table, ExplanationOptions(**options))

    def _view(self, name: str, *, replace: bool) -> Destination:
        """Return a view of that name as the target of a query, created by one statement."""
        if replace and len(self.dialect.statements.replace_view) > 1:
            raise ParameterError(
                f"{self.dialect.name} has no statement that replaces a view and keeps its grants; use "
                f"{advice('deploy_statements, which returns', 'the command deploy, which writes')} several"
            )
        return Destination("view", self.dialect.quote_path(name), replace)

    def _table(self, name: str, *, replace: bool) -> Destination:
        """Return a table of that name as the target of a query, created by one statement."""
        if replace and self.dialect.statements.replace_table is None:
            way = advice("deploy_statements(..., kind='table')", "deploy --kind table")
            raise ParameterError(
                f"{self.dialect.name} has no statement that replaces a table by the rows of a query; drop it first, "
                f"or use {way}, which creates a table for each model"
            )
        return Destination("table", self.dialect.quote_path(name), replace)

    def _explanation(self, destination: Destination, table: str, options: ExplanationOptions) -> str:
        number, offsets = self.ensemble.margin_number(options.output), self._offsets()
        base, trees = self.ensemble.base_margins[number], self.ensemble.trees_of(number)
        numbers = [i for i, tree in enumerate(self.ensemble.trees) if tree.output == number]
        explained = Explained(base, trees, offsets[number] if offsets else None, numbers)
        source = self._source(table, options.keep)
        query = explanation_query(source, explained, self.columns, self.dialect, options, destination)
        return self._for_driver(query)

    @checked(bins=whole(2, 100))
    def baseline(self, data: Any, bins: int = 10) -> pl.DataFrame:
        """Return the shares of training rows in bins of each feature, for `drift_query`.

        Parameters
        ----------
        data
            As for `frameboost.Model.predict`, with the types of training and at least one row.
        bins
            The maximum number of bins of a feature, from 2 to 100, beside the bin of missing values. Bins are
            quantiles, or the most frequent categories and one bin for all others.

        Returns
        -------
        polars.DataFrame
            One row per bin: ``feature``, ``bin`` (-1: missing), ``lower`` (inclusive), ``upper`` (exclusive) and
            ``category`` (all three as JSON), and ``share`` of the rows. Store it with the model.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> fb.fit(df, "y", n_estimators=1).database().baseline(df, bins=2).drop("category").rows()
        [('x', -1, None, None, 0.0), ('x', 0, None, '3', 0.5), ('x', 1, '3', None, 0.5)]
        """
        return baseline_frame(data, self.ensemble.features, bins)

    @checked()
    def drift_query(self, table: str, baseline: pl.DataFrame | None = None, *, where: str | None = None) -> str:
        """Return a SELECT that measures the drift of each feature: how a table's rows differ from training.

        One row per bin: ``feature``, ``bin``, ``label``, ``training_share``, ``share``, and ``psi``, the population
        stability index of the feature: Σ (a − e) ln(a / e) over its bins, with a and e the shares of the table's and of
        the training rows. Below 0.1 little has changed, above 0.25 much. For an empty table each share is 0 and each
        index above 4.5, so that tests of a threshold fail. Features are in descending order of the index. The table is
        scanned once. ``baseline`` is the result of `baseline`, or its rows for some features; by default the model's
        (`frameboost.Model.with_baseline`). ``table`` and ``where`` are as in `query`.

        Raises
        ------
        ParameterError
            If there is no baseline, or it belongs to another model; if the query exceeds a limit of the database.

        Examples
        --------
        >>> import duckdb, polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> con, model = duckdb.connect(), fb.fit(df, "y", n_estimators=1).with_baseline(df, bins=2)
        >>> database = model.database()
        >>> _ = con.execute("CREATE TABLE today AS SELECT unnest([1, 3, 4, 5]) AS x")
        >>> drift = con.sql(database.drift_query("today"))
        >>> drift.select("label, training_share, share, round(psi, 3)").fetchall()
        [('missing', 0.0, 0.0, 0.275), ('below 3', 0.5, 0.25, 0.275), ('from 3', 0.5, 0.75, 0.275)]
        """
        if baseline is None:
            if self.ensemble.baseline is None:
                raise ParameterError(
                    "the model has no baseline; "
                    + advice(
                        "pass one that DatabaseModel.baseline returned, or use the model of "
                        "model.with_baseline(rows of training)",
                        "pass the training rows as --baseline, or store a baseline in the model by frameboost tag",
                    )
                )
            baseline = self.ensemble.baseline.features
        return self._for_driver(drift_query(self._source(table), baseline, where, self.columns, self.dialect))

    # --- evaluation ---------------------------------------------------------------------------------------------------

    @checked(
        by=_BY, where=condition_on_rows, kind=word(*KINDS), bins=whole(2, 1000), thresholds=finite_numbers, form=_FORM
    )
    def evaluate_query(
        self, table: str, target: str | Sequence[str], *, by: str | Sequence[str] | None = None,
        weight: str | None = None, label_upper_bound: str | None = None, where: str | Mapping[str, Any] | None = None,
        eval_metric: str | Metric | Iterable[str | Metric] | None = None, kind: EvaluationKind = "metrics",
        bins: int = 10, thresholds: Sequence[float] = TENTHS, form: Form = "auto", trees: str | None = None,
    ) -> str:  # fmt: skip
        """Return a SELECT that evaluates the model on a table's labelled rows, like `frameboost.Model.evaluate`.

        The rows are scored once, in the database, and only the result leaves it. As a query can't raise an error for a
        bad row, rows without a label are counted and skipped, and metrics are NULL if rows are ``invalid``.

        Parameters
        ----------
        table, where, form, trees
            As in `query`.
        target, weight, label_upper_bound, eval_metric
            As for `frameboost.Model.evaluate`, by column names of the table. Labels are strings, as in training, or
            numbers, or Booleans for numbers (in Snowflake, BigQuery and Redshift only if they were Booleans in
            training). Ranking metrics are not available.
        by
            One or several columns to group by, as the database's GROUP BY does, NULL as a group.
        kind
            The kind of result; each begins with the columns of ``by``.

            - ``"metrics"``: one row per metric: the numbers of labelled ``rows``, of ``unlabelled`` (NULL or NaN) and
              of ``invalid`` ones (a label or weight that is invalid for the objective, an offset that is not finite),
              then ``metric`` and ``value``. Without ``by`` an empty table gives ``rows`` 0 and ``value`` NULL.
            - ``"calibration"``: the mean prediction and the mean label in bins of equal weight by prediction, as in
              `frameboost.Evaluation.calibration`.
            - ``"gain"``, for classes: ``bin`` by descending score, its lowest score (``threshold``) and ``weight``, and
              cumulatively ``share_of_rows``, ``share_of_positives`` and ``lift``, the second divided by the first.
            - ``"confusion"``, for classes: the pairs of `frameboost.Evaluation.confusion` that occur.
            - ``"thresholds"``, for classes: ``threshold``, and with scores from it on as positive, ``true_positives``,
              ``false_positives``, ``false_negatives``, ``true_negatives``, ``precision`` and ``recall``.

            All but the first use valid rows only, with their weights. For more than two classes there is a column
            ``class``, each against the rest, except for the confusion matrix.
        bins
            The maximum number of bins of equal weight; rows with equal scores stay together.
        thresholds
            The thresholds.

        Raises
        ------
        ParameterError
            If a metric does not fit the objective or a query; if the kind does not fit the objective; if a column of
            ``by`` has the name of another column of the result; as `query`.

        Examples
        --------
        >>> import duckdb, polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4] * 5, "late": [False, True, True, True] * 5, "who": ["a", "b"] * 10})
        >>> model = fb.fit(df, "late", features=["x"], objective="binary:logistic", n_estimators=9)
        >>> con, database = duckdb.connect(), model.database()
        >>> con.from_arrow(df.to_struct()).create("orders")
        >>> con.sql(database.evaluate_query("orders", "late", by="who", eval_metric=["auc", "error"])).fetchall()
        [('a', 10, 0, 0, 'auc', 1.0), ('a', 10, 0, 0, 'error', 0.0), ('b', 10, 0, 0, 'auc', None),
         ('b', 10, 0, 0, 'error', 0.0)]
        >>> con.sql(database.evaluate_query("orders", "late", kind="thresholds", thresholds=[0.5])).fetchall()
        [(0.5, 15.0, 0.0, 0.0, 5.0, 1.0, 1.0)]
        """
        labelled = self._labelled(table, target, by, weight, label_upper_bound, where, form, trees)
        return self._for_driver(evaluation_query(labelled, kind, eval_metric, bins, thresholds))

    @checked(challenger=anything, by=_BY, where=condition_on_rows)
    def compare_query(
        self, challenger: Any, table: str, target: str | Sequence[str], *, by: str | Sequence[str] | None = None,
        weight: str | None = None, label_upper_bound: str | None = None, where: str | Mapping[str, Any] | None = None,
        eval_metric: str | Metric | Iterable[str | Metric] | None = None,
    ) -> str:  # fmt: skip
        """Return a SELECT that compares this model, the champion, with a challenger on the same rows of a table.

        Each model scores the rows once. One row per metric (and group): ``rows``, ``unlabelled`` and ``invalid`` as in
        `evaluate_query`, ``metric``, its values ``champion`` and ``challenger``, their ``difference`` (challenger minus
        champion), its ``standard_error``, and the ends ``low`` and ``high`` of its 95 % interval.

        The interval is a normal approximation over paired differences of the losses, which cancel what is hard for both
        models. Smooth functions of means, such as the root of `rmse` and weighted means, use the delta method (Cochran,
        "Sampling Techniques", 1977, chapter 6; van der Vaart, "Asymptotic Statistics", 1998, chapter 3). For dependent
        rows, such as the orders of one customer, the interval is too narrow.

        Parameters
        ----------
        challenger
            A model of the same target, or its `frameboost.Model.database` for this database. A model's features have
            the same column names as this model's, or those that the function ``columns`` returns.
        table, target, by, weight, label_upper_bound, where
            As in `evaluate_query`.
        eval_metric
            Metrics that are means over rows, or roots of them; by default those of both objectives.

        Raises
        ------
        ParameterError
            If a metric does not fit both models or is no mean; if the models have different kinds of labels, or join
            different tables; as `query`.

        Examples
        --------
        >>> import duckdb, polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4] * 5, "y": [0.0, 2.0, 8.0, 9.0] * 5})
        >>> champion, challenger = (fb.fit(df, "y", n_estimators=n, learning_rate=0.5, reg_lambda=0) for n in (1, 2))
        >>> con = duckdb.connect()
        >>> con.from_arrow(df.to_struct()).create("orders")
        >>> query = champion.database().compare_query(challenger, "orders", "y", eval_metric="mae")
        >>> con.sql(query).select("metric, champion, challenger, difference, round(high, 2) AS high").fetchall()
        [('mae', 1.875, 0.9375, -0.9375, -0.85)]
        """
        other = self._in_this_database(challenger)
        mine, theirs = (
            model._labelled(table, target, by, weight, label_upper_bound, where, "auto", None)
            for model in (self, other)
        )
        options = QueryOptions((), output="margin")
        model = other._scoring(Destination(), table, options).model
        read = {*model.used(), *model.read_besides}
        reads = {c.name: other._name_of(c) for c in read_columns(other, "margin") if c.name in read}

        def second(kept: Mapping[str, str], keep: Sequence[str], stages: Stages, end: End) -> str:
            over = model.renamed({column: kept[name] for column, name in reads.items()})
            source = TableSource("", "")
            scoring = ScoringQuery(
                over, source, replace(options, keep=keep), Destination(), end, after=stages, call="evaluate_query"
            )  # fmt: skip
            return scoring.text()

        return self._for_driver(comparison_query(mine, second, list(reads.values()), theirs, eval_metric))

    def _in_this_database(self, model: Any) -> DatabaseModel:
        """Return another model for this database, over the same tables."""
        ensemble = getattr(model, "ensemble", None)
        if not isinstance(ensemble, Ensemble):
            raise ParameterError(f"challenger must be a model, or what its method database returns, not {shown(model)}")
        if not isinstance(model, DatabaseModel):
            tables: Tables | None = "joined" if ensemble.joins and self.star is None else None
            known = {*ensemble.feature_names, *ensemble.read_names}
            listed_names = {name: column for name, column in self.column_names.items() if name in known}
            columns, limits = self.rename or listed_names or None, asdict(self.dialect.limits)
            model = database_model(ensemble, self.dialect.name, columns, limits=limits, tables=tables)
            if self.star is not None and model.star is not None:
                model = replace(model, star=replace(model.star, tables=self.star.tables))
        if model.dialect.name != self.dialect.name:
            raise ParameterError(f"challenger is for {model.dialect.name}, and this model for {self.dialect.name}")
        if model.star is not None and (self.star is None or model.star.joins != self.star.joins):
            raise ParameterError(
                "challenger reads other tables than this model; create a view of the join, and pass tables='joined' "
                "for both"
            )
        assert isinstance(model, DatabaseModel)
        return model

    def _labelled(
        self, table: str, target: str | Sequence[str] | None, by: str | Sequence[str] | None, weight: str | None,
        label_upper_bound: str | None, where: str | Mapping[str, Any] | None, form: Form, trees: str | None,
        also: str = "", call: str = "evaluate_query",
    ) -> LabelledTable:  # fmt: skip
        """Return the labelled rows of a table to evaluate the model on; ``also`` is another predicate on them.

        ``call`` is as in `ScoringQuery`.
        """
        targets = [target] if isinstance(target, str) else list(target or ())
        several = {f"label_{k}": name for k, name in enumerate(targets)}
        roles = {"label": targets[0]} if len(targets) == 1 else several
        more = {"weight": weight, "upper": label_upper_bound}
        if targets:
            roles |= {role: name for role, name in more.items() if name is not None}
        else:
            roles = {}

        def scored(keep: Sequence[str], end: End) -> str:
            options = QueryOptions(list(keep), where=where, output="margin", form=form, trees=trees)
            scoring = self._scoring(Destination(), table, options, call)
            if also:
                # On a line by itself, as a condition may end in a comment.
                condition = f"({scoring.options.where}\n) AND {also}" if scoring.options.where else also
                scoring = replace(scoring, options=replace(scoring.options, where=condition))
            return replace(scoring, end=end).text()

        groups = [by] if isinstance(by, str) else list(by or ())
        return LabelledTable(self.ensemble, self.dialect, scored, roles, groups, self.column_names)

    # --- monitoring ---------------------------------------------------------------------------------------------------

    @checked(**_WATCHED)
    @with_options(WatchOptions)
    def monitor_query(
        self, table: str, *, time: str | None = None, last: int | None = None, **options: Unpack[WatchArguments]
    ) -> str:  # fmt: skip
        """Return a SELECT that monitors the model: measures of a table's rows, by time window and group.

        The rows are scored once. One row per measure: ``window_start`` (with ``time``), the columns of ``by`` as text,
        ``measure``, ``name`` and ``value``:

        - ``rows``: the numbers of rows, by name: ``all``, ``labelled``, and ``invalid`` as in `evaluate_query`
        - ``missing``: by feature, the share of missing values
        - ``unseen``: by categorical feature, the share of categories unknown from training
        - ``drift``: by feature, the population stability index, as in `drift_query`
        - ``score_drift``: the same index of the predictions (name ``prediction``, or ``prediction_0`` and so on)
        - ``coverage``: the share of labels within the model's prediction intervals (name ``interval``)
        - ``metric``: by metric, its value, as in `evaluate_query`

        Without rows, ``rows`` is 0, each index is above 4.5 and the shares of missing and unseen values are 1, so that
        tests of thresholds fail. This holds for an empty table, and with ``last`` for empty windows and groups.

        Parameters
        ----------
        table, where, form, trees
            As in `query`.
        time, window
            A column of dates or timestamps, and the window: ``"hour"``, ``"day"``, ``"week"`` (from Monday) or
            ``"month"``. Timestamps with a time zone are cut in that of the session, or in UTC.
        last, until
            The number of completed windows before ``until``, by default now. Only their rows are read, and each group
            with rows in one of them has all of them. Without ``last``, all windows with rows.
        by
            One or several columns, as in `evaluate_query`.
        target, weight, label_upper_bound, eval_metric
            As in `evaluate_query`; without ``target`` measures that need labels are omitted.
        baseline
            The reference of drift: by default the model's baseline (`frameboost.Model.with_baseline`), without which
            drift is omitted; or a result of `baseline`, which has features only.
        measures
            The measures to return; by default all.
        labelled
            The minimum share of labelled rows; below it ``coverage`` and ``metric`` are NULL.

        Raises
        ------
        ParameterError
            If ``last`` or ``until`` is passed without ``time``, or ``weight``, ``label_upper_bound`` or ``eval_metric``
            without ``target``; if there is nothing to measure; as `evaluate_query`.

        Examples
        --------
        >>> import duckdb, polars as pl, frameboost as fb, datetime as dt
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4] * 5, "y": [0.0, 2.0, 8.0, 9.0] * 5})
        >>> database = fb.fit(df, "y", n_estimators=1).with_baseline(df).database()
        >>> con = duckdb.connect()
        >>> con.from_arrow(df.with_columns(at=dt.date(2026, 3, 2)).to_struct()).create("orders")
        >>> query = database.monitor_query("orders", time="at", last=2, until=dt.datetime(2026, 3, 4), target="y",
        ...                                eval_metric="mae")
        >>> measured = con.sql(query).filter("measure <> 'missing'")
        >>> measured.select("strftime(window_start, '%d'), measure, name, round(value, 3)").fetchall()
        [('02', 'rows', 'all', 20.0), ('02', 'rows', 'labelled', 20.0), ('02', 'rows', 'invalid', 0.0),
         ('02', 'drift', 'x', 0.0), ('02', 'score_drift', 'prediction', 0.0), ('02', 'metric', 'mae', 2.727),
         ('03', 'rows', 'all', 0.0), ('03', 'rows', 'labelled', 0.0), ('03', 'rows', 'invalid', 0.0),
         ('03', 'drift', 'x', 7.821), ('03', 'score_drift', 'prediction', 8.515), ('03', 'metric', 'mae', None)]
        """
        watch = self._watch(table, time, last, WatchOptions(**options), "monitor_query")
        return self._for_driver(monitor_query(watch))

    @checked(history=_TABLE, by=_BY)
    def create_history_sql(self, history: str, *, by: str | Sequence[str] | None = None) -> str:
        """Return a CREATE TABLE for the history that `append_history_sql` appends to.

        Columns: ``model_hash``, ``window_start``, those of ``by``, ``measure``, ``name`` and ``value``.

        Parameters
        ----------
        history
            The table's name, which may be qualified.
        by
            As in `monitor_query`.

        Raises
        ------
        ParameterError
            If the database can't create a table by a statement alone (Athena); if a column of ``by`` has the name of
            another.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> print(fb.fit(df, "y", n_estimators=1).database("snowflake").create_history_sql("watch.orders", by="region"))
        CREATE TABLE "watch"."orders" (
          "model_hash" VARCHAR,
          "window_start" TIMESTAMP_NTZ,
          "region" VARCHAR,
          "measure" VARCHAR,
          "name" VARCHAR,
          "value" FLOAT
        )
        """
        groups = [by] if isinstance(by, str) else list(by or ())
        return self._for_driver(create_statement(self.dialect.quote_path(history), groups, self.dialect))

    @checked(history=_TABLE, **_WATCHED)
    @with_options(WatchOptions)
    def append_history_sql(
        self, history: str, table: str, *, time: str, last: int = 7, **options: Unpack[WatchArguments]
    ) -> str:  # fmt: skip
        """Return an INSERT that appends the measures of the last windows to the history, for a scheduler.

        It appends each window, group, measure and name of this model once, as soon as its value is known; metrics are
        known when enough rows are labelled. It is safe to run repeatedly. Set ``last`` to cover the delay of labels.

        Parameters
        ----------
        history
            The table that `create_history_sql` creates.
        last
            The number of completed windows to compute.
        table, time, window, until, by, target, weight, label_upper_bound, where, baseline, measures, eval_metric
            As in `monitor_query`.
        labelled, form, trees
            As in `monitor_query`.

        Examples
        --------
        >>> import duckdb, polars as pl, frameboost as fb, datetime as dt
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> database = fb.fit(df, "y", n_estimators=1).with_baseline(df).database()
        >>> con = duckdb.connect()
        >>> con.from_arrow(df.with_columns(at=dt.date(2026, 3, 2)).to_struct()).create("orders")
        >>> _ = con.execute(database.create_history_sql("watch"))
        >>> append = database.append_history_sql("watch", "orders", time="at", until=dt.datetime(2026, 3, 3))
        >>> [con.execute(append).fetchall() for _ in range(2)]
        [[(28,)], [(0,)]]
        """
        watch = self._watch(table, time, last, WatchOptions(**options), "append_history_sql")
        to = History(self.dialect.quote_path(history), model_hash(self.ensemble))
        return self._for_driver(append_statement(watch, to))

    def _watch(self, table: str, time: str | None, last: int | None, options: WatchOptions, call: str) -> Watch:
        """Return the monitored measures of a table's rows; ``call`` is as in `ScoringQuery`."""
        check_times(time, last, options.until)
        of_labels = ("weight", "label_upper_bound", "eval_metric")
        check_labels(options.target, {name: getattr(options, name) for name in of_labels})
        bins = self.ensemble.baseline if options.baseline is None else options.baseline
        features, scores = (bins.features, bins.scores) if isinstance(bins, Baseline) else (bins, None)
        if features is not None:
            bins_of(features, self.ensemble.features)  # raises
        interval = self.ensemble.interval
        lookup = None if interval is None or interval.groups is None else interval.groups.feature
        labelled = partial(
            self._labelled, table, options.target, options.by, options.weight, options.label_upper_bound, options.where,
            options.form, options.trees, call=call,
        )  # fmt: skip
        rows = labelled()
        watch = Watch(
            rows, self.columns, None if lookup is None else self._column_beside(lookup), features, scores,
            measures_of(options.measures), rows.metrics(options.eval_metric) if rows.roles else [],
            float(options.labelled), time, options.window, last, options.until,
        )  # fmt: skip
        condition = watch.condition()
        return replace(watch, table=labelled(condition)) if condition else watch

    # --- files --------------------------------------------------------------------------------------------------------

    @checked(
        trained=anything, statement=word("query", "view", "table", "deploy"), target=table, form=_FORM,
        where=condition_on_rows,
    )  # fmt: skip
    @with_options(QueryOptions)
    def to_sql(
        self, path: str | Path, table: str, *, trained: dt.date | str | None = None,
        statement: Literal["query", "view", "table", "deploy"] = "query", target: str | None = None,
        **options: Unpack[QueryArguments],
    ) -> None:  # fmt: skip
        """Write a SQL file that scores a table, for users without Python.

        Comments at its beginning state objective, number of trees, hash (`frameboost.Model.sha256`), metadata
        (`frameboost.Model.metadata`), and the columns that are read, with their types.

        Parameters
        ----------
        path
            The file; an existing one is replaced atomically.
        trained
            The time of training, a date or a line of text; by default from the metadata.
        statement, target
            ``"query"``: the query. ``"view"`` and ``"table"``: the statement that creates the view or table ``target``.
            ``"deploy"``: the statements of `deploy_statements` for the view ``target``.
        table, keep, where, output, name, form, trees, rows, stamp
            As in `query`.

        Examples
        --------
        >>> import polars as pl, frameboost as fb, tempfile, pathlib
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "score.sql"
        >>> model.database("postgres").to_sql(path, "orders", trained="2026-11-21", keep=["id"])
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
        if (statement == "query") != (target is None):
            raise ParameterError(
                "statement must be 'query', or 'view', 'table' or 'deploy' with target, the name of what is made, "
                f"not {shown(statement)} with {shown(target)}"
            )
        query = QueryOptions(**options)
        if statement == "deploy":
            statements = self._deployed(str(target), table, None, "view", query, "to_sql")
        else:
            quoted = "" if target is None else self.dialect.quote_path(target)
            statements = [self._statement(Destination(statement, quoted), table, query, "to_sql")]
        write_text(path, self._header(trained, query.output) + script(statements, self.dialect))

    @checked(
        name=anything, source=anything, form=word(*get_args(_DbtForm)), trained=anything,
        materialized=name_of("a way to make it"), contract=anything, self_test=whole(0, 100_000), check=anything,
        exposure=anything,
    )  # fmt: skip
    def to_dbt(
        self, folder: str | Path, name: str, source: str, *, keep: Sequence[str] | None = None,
        output: ScoreName = "mean", form: _DbtForm = "auto", trained: dt.date | str | None = None,
        materialized: str | None = None, unique_key: str | Sequence[str] | None = None, where: str | None = None,
        contract: bool | Mapping[str, str] = False, baseline: pl.DataFrame | None = None, stamp: bool = False,
        self_test: int = 300, check: Any = None, exposure: Mapping[str, Any] | None = None,
    ) -> list[Path]:  # fmt: skip
        """Write the model into a dbt project; return the paths of the files.

        - ``models/<name>.sql`` scores ``source``. Its ``meta`` has the model's hash (`frameboost.Model.sha256`) and
          metadata.
        - ``models/<name>.yml`` describes it, with the types of predictions and a ``not_null`` test of them.
        - ``macros/<name>.sql`` defines ``<name>_query(relation)``, the query over any relation, and, if the model is
          one expression, ``<name>()``.
        - ``tests/<name>_values.sql``, for bounded predictions, returns those out of bounds, such as probabilities above
          1.
        - ``tests/<name>_self_test.sql`` returns rows that the database scores differently from Python
          (`self_test_query`).
        - ``tests/<name>_check.sql`` does the same for the rows of ``check``.
        - ``tests/<name>_drift.sql`` returns the features of ``source`` that drifted from ``baseline``.

        Files of an earlier `to_dbt` are replaced, even if they were moved within the project, and obsolete ones are
        removed. The description is merged with an existing one: columns, tests, comments and keys that users added are
        kept, and so are descriptions that they edited.

        A model that exceeds the limits of one query becomes a chain of dbt models that ends in ``<name>``:
        ``<name>_part_1`` scores the source with the first trees, ``<name>_part_2`` adds more. A chain has no macros;
        each model in it has a self-test, which starts from the margins of the trees before. In a chain
        ``form="by_key"`` has no effect.

        Parameters
        ----------
        folder
            The folder of the project. Its ``dbt_project.yml``, if any, defines the folders of models, macros and tests;
            reading it takes PyYAML (``pip install 'frameboost[dbt]'``). Without it dbt's default folders are used.
        name
            The name of the new dbt model: letters, digits and underscores.
        source
            The rows to score: a dbt model, ``"stg_orders"``, or a source and its table, ``"raw.orders"``.
        keep, output, form, stamp
            As in `query`.
        trained
            As in `to_sql`.
        materialized
            dbt's materialization: ``"view"``, ``"table"``, ``"ephemeral"``, ``"incremental"``, or one of an adapter. By
            default a view, or a table if the query exceeds the limit of a view. It applies to all models of a chain,
            except that those before an incremental model are views.
        unique_key
            For ``"incremental"``: the key columns; a later run replaces rows that it scores again. An incremental model
            needs this, ``where``, or both.
        where
            For ``"incremental"``: a predicate on the rows that a later run scores, SQL with optional Jinja:
            ``"loaded_at > (SELECT MAX(loaded_at) FROM {{ this }})"``. It may use any column of ``source``; in a T-SQL
            chain only columns of ``keep`` and those that the model reads.
        contract
            Whether dbt enforces the names and types of all columns (``contract: {enforced: true}``). The types of
            predictions and features are the model's; pass a dict for those of other columns in ``keep`` and of
            ``scored_at``: ``{"id": "BIGINT"}``.
        baseline
            The reference of the drift test: a result of `baseline`, by default the model's
            (`frameboost.Model.with_baseline`); without one there is no drift test. It fails for features with a
            population stability index above 0.25, and for all features if ``source`` is empty.
        self_test
            The maximum number of rows of the self-test and of ``check``; 0 for no such tests.
        check
            Real rows to test as well, as ``data`` of `self_test_query`.
        exposure
            A dbt exposure to add to the description: a dict with ``name``, ``type`` (``"dashboard"``, ``"notebook"``,
            ``"analysis"``, ``"ml"`` or ``"application"``) and ``owner`` (``name``, ``email`` or both), optionally
            ``label``, ``description``, ``url`` and ``maturity``. Users' additions to it and an edited description are
            kept.

        Raises
        ------
        ParameterError
            As `query`; if a name is not valid in dbt, or exists in the project in a file that `to_dbt` did not write;
            if a chain is to be ephemeral; if a self-test does not fit, or ``check`` is passed with ``self_test=0``; if
            an incremental model has neither ``unique_key`` nor ``where``, so that each run would append all rows; if a
            contract lacks the type of a column. Nothing is written then.
        DataError
            If ``check`` lacks a column, or its type differs from training.

        Examples
        --------
        >>> import polars as pl, frameboost as fb, tempfile
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> database = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0).database("snowflake")
        >>> paths = database.to_dbt(tempfile.mkdtemp(), "scored_orders", "orders", keep=["id"])
        >>> [path.parent.name for path in paths], paths[-1].name
        (['models', 'models', 'macros', 'tests'], 'scored_orders_self_test.sql')
        """
        check_dbt_names("name", name)
        check_dbt_names("materialized", materialized or "view")
        rows = relation("source", source)
        if source == name:
            raise ParameterError(f"name and source are both {shown(name)}, and a dbt model can't read itself")
        chosen = Materialization.checked(materialized, unique_key, where, keep)
        if exposure is not None:
            check_exposure(exposure)
        if check is not None and not self_test:
            raise ParameterError("check has rows to test, and self_test=0 writes no tests; omit one of them")
        if check is not None:
            rows_of(check, self.ensemble, read_columns(self, output), self_test, "check")  # raises
        if materialized == "ephemeral" and contract is not False:
            raise ParameterError("contract is for what dbt makes in the database, not for materialized='ephemeral'")
        # Placeholders for the relations, which dbt fills in: of the rows, and of the dimensions.
        stand_in = secrets.token_hex(16)
        joined = {secrets.token_hex(16): table for table in (self.star.table_names if self.star else ())}
        refs = {self.dialect.quote(token): relation("tables", table) for token, table in joined.items()}
        star = None if self.star is None else self.star.called({table: name for name, table in joined.items()})
        model = replace(self, star=star)
        condition = f"{secrets.token_hex(16)} IS NULL"  # replaced by the condition on the rows of later runs
        query = DbtQuery("", self.dialect.quote(stand_in), refs, condition)
        options = QueryOptions(keep, where=condition, output=output, form=form, stamp=stamp)
        head = self._header(trained, output)
        scoring = model._scoring(Destination(), stand_in, options)
        text, too_much = scoring.fitting()
        too_much = too_much or exceeded_limit(head + text, [], self.dialect, in_one=False, of_view=True)
        data = {"self_test": None, **({} if check is None else {"check": check})} if self_test else {}
        proofs: dict[str, dict[str, str]] = {}
        same = "auto" if form == "by_key" else form  # which reads other rows
        if text:
            source_of_rows, how = model._source(stand_in), QueryOptions(output=output, form=same)
            whole = ScoringQuery(model._sql_model(output), source_of_rows, how, Destination())
            try:
                proofs[name] = model._proofs([(whole, text)], data, self_test, head)[0]
            except TooLargeError as error:
                text, too_much = "", f"the query leaves no room for a row of a self-test: {error}; use self_test=0"
        if too_much and (not text or materialized == "view"):
            made = chosen or Materialization("table")
            scoring = model._scoring(Destination(), stand_in, replace(options, form=same))
            queries, proofs = model._dbt_chain(name, scoring, query, made, head, too_much, data, self_test)
            expression = None
        else:
            made = chosen or Materialization("table" if too_much else "view")
            queries = {name: replace(query, text=text)}
            try:
                expression = None if output == "leaf" else self._expression(output)
            except ParameterError:  # several values, or too large for one expression: only the query is written
                expression = None
        tests = {}
        if test := values_test(scoring.model, options.name, self.ensemble.loss, output):
            tests[f"{name}_values"] = test, relation("name", name)
        for step, of_step in proofs.items():
            tests |= {f"{step}_{end}": (replace(queries[step], text=text, condition=""), rows)
                      for end, text in of_step.items()}  # fmt: skip
        if baseline is None and self.ensemble.baseline is not None:
            baseline = self.ensemble.baseline.features
        if baseline is not None:
            texts = drift_tests(model._source(stand_in), baseline, self.columns, self.dialect, _DRIFTED)
            ends = ["drift"] if len(texts) == 1 else [f"drift_{number}" for number in range(1, len(texts) + 1)]
            tests |= {
                f"{name}_{end}": (replace(query, text=text, condition=""), rows)
                for end, text in zip(ends, texts, strict=True)
            }
        meta = {"sha256": model_hash(self.ensemble), **metadata_fields(self.ensemble.metadata)}
        if trained is not None:
            meta["trained"] = str(trained)
        columns = self._dbt_columns(scoring.model, options, contract, source)
        has_contract = contract is not False
        written = DbtModel(
            queries, rows, head, expression, columns, made, meta, tests, self.dialect, has_contract, exposure
        )
        return written.write(folder)

    def _dbt_chain(
        self, name: str, scoring: ScoringQuery, query: DbtQuery, made: Materialization, head: str, why: str,
        data: Mapping[str, Any], n_rows: int,
    ) -> tuple[dict[str, DbtQuery], dict[str, dict[str, str]]]:  # fmt: skip
        """Return the queries of the chain of dbt models that scores a table, and their tests, by name.

        ``why`` is the reason for a chain. The input of each query is a placeholder. The predicate on the rows is part
        of the last one.
        """
        limits, token, options = self.dialect.limits, secrets.token_hex(16), scoring.options
        most = limits.text if made.kind == "table" else limits.of_view()
        most = scoring.most_of_step(None if made.kind == "ephemeral" else most, why, "dbt models")
        of_all_rows = replace(scoring, options=replace(options, where=None))
        # The condition may be on any column of the source. Steps with stages can't return all of them everywhere.
        can_have_all = limits.case_depth is None or self.dialect.statements.except_columns is not None
        has_all = made.where is not None and can_have_all
        room = most - len(head.encode())
        for share in _SHARES_OF_PARTS if data else (1.0,):
            others = {"elements": limits.elements, "columns": limits.columns}
            shares = {name: None if most is None else int(most * share) for name, most in others.items()}
            limited = replace(limits, text=int(room * share), view=None, **shares)
            steps = of_all_rows.chain(
                limited, lambda number: self.dialect.quote(f"{token}_{number}"), of_views=made.kind != "table",
                has_all=has_all,
            )  # fmt: skip
            try:
                proofs = self._proofs(steps, data, n_rows, head)
                break
            except TooLargeError as error:
                why = f"a step of the chain leaves no room for a row of its self-test: {error}; use self_test=0"
        else:
            raise TooLargeError(why)
        last, _ = steps[-1]
        last = replace(last, options=replace(last.options, where=query.condition))
        texts = [*(text for _, text in steps[:-1]), last.text()]
        parts = {f"{token}_{number}": f"{name}_part_{number}" for number in range(1, len(steps))}
        refs = {**query.refs, **{self.dialect.quote(called): relation("name", part) for called, part in parts.items()}}
        names = [*parts.values(), name]
        queries = {each: replace(query, text=text, refs=refs) for each, text in zip(names, texts, strict=True)}
        return queries, dict(zip(names, proofs, strict=True))

    def _proofs(
        self, steps: Sequence[tuple[ScoringQuery, str]], data: Mapping[str, Any], n_rows: int, head: str
    ) -> list[dict[str, str]]:
        """Return the self-tests of each query of a chain by name; ``data`` are their rows.

        Raises
        ------
        TooLargeError
            If not even one row fits.
        """
        proofs: list[dict[str, str]] = []
        before: list[Tree] = []
        for number, (scoring, _) in enumerate(steps, 1):
            # Not every database has ORDER BY in the subquery that a test is.
            prove = partial(
                self._self_test, scoring, n_rows=n_rows, before=before, is_last=number == len(steps), is_sorted=False,
                head=head,
            )  # fmt: skip
            proofs.append({end: prove(rows, argument=end) for end, rows in data.items()})
            before = [*before, *(tree for of_margin in scoring.model.trees for tree in of_margin)]
        return proofs

    def _dbt_columns(
        self, model: SqlModel, options: QueryOptions, contract: bool | Mapping[str, str], source: str
    ) -> dict[str, DbtColumn]:
        """Return the described columns: those of the values, and with a contract all others before them.

        Raises
        ------
        ParameterError
            If the contract lacks the type of a column.
        """
        types = contract if isinstance(contract, Mapping) else {}
        if not isinstance(contract, bool | Mapping) or not all(isinstance(t, str) and t for t in types.values()):
            raise ParameterError(
                "contract must be True or False, or a dict of the types of columns in keep, {'id': 'BIGINT'}, not "
                f"{shown(contract)}"
            )
        kept: Mapping[str, str] = {}
        if contract is not False:
            if options.keep is None:
                raise ParameterError("contract needs keep, the columns to return: their names are part of it")
            kept = dict.fromkeys(options.keep, f"column of {source}")
        text, moment = self.dialect.type_of(FeatureType("string")), types.get("scored_at")
        stamps = dict.fromkeys(self._stamp() if options.stamp else (), "stamp of the model")
        if others := [name for name in types if name not in {**kept, **stamps}]:
            raise ParameterError(f"contract has a type of {listed(others)}, which keep does not have")
        read = {column.name: column.feature.type for column in read_columns(self, options.output)}
        columns = {}
        for name, about in {**kept, **stamps}.items():
            quoted = self.dialect.quote(name)
            known = types.get(name) or (self.dialect.type_of(read[quoted]) if quoted in read else None)
            if name in stamps:
                known = moment if name == "scored_at" else text
            if known is None and contract is not False:
                raise ParameterError(
                    f"contract needs the type of column {shown(name)}, which the model does not know: "
                    f"contract={{{shown(name)}: 'BIGINT'}}, with the type that it has in {self.dialect.name}"
                )
            columns[name] = DbtColumn(about, known)
        of_values = "int64" if model.output.is_class else "float64"
        if model.output.labels:
            is_text = all(isinstance(label, str) for label in model.output.labels.values())
            of_values = "string" if is_text else "boolean"
        type_ = self.dialect.type_of(FeatureType(of_values))
        is_filled = self.ensemble.offset is None  # where that is NULL, so is the prediction
        described = DbtColumn(f"{options.output} of the model", type_, is_filled)
        values = dict.fromkeys(model.value_columns(options.name), described)
        return {**{name: columns[name] for name in kept}, **values, **{name: columns[name] for name in stamps}}

    # --- what several of these need -----------------------------------------------------------------------------------

    def _sql_model(self, output: str) -> SqlModel:
        """Return the input of the SQL compilers for one output."""
        if output == "leaf":  # each tree is a separate margin, with node numbers for leaf values
            numbers = [[replace(tree, value=tuple(map(float, range(len(tree)))), linear=())]
                       for tree in self.ensemble.trees]  # fmt: skip
            zeros = [0.0] * len(numbers)
            return SqlModel(leaf_output(len(numbers)), zeros, numbers, self.columns, self.dialect, is_of_leaves=True)
        of_output = self.ensemble.output(output)
        used = of_output.used_margins()
        trees = [of if k in used else [] for k, of in enumerate(self.ensemble.trees_by_output())]
        model = SqlModel(of_output, self.ensemble.base_margins, trees, self.columns, self.dialect, self._offsets())
        if of_output.lookup is None:
            return model
        return model.with_lookup(self._column_beside(of_output.lookup.feature))

    def _over_columns(self, names: Mapping[str, str]) -> DatabaseModel:
        """Return the model over renamed columns; ``names`` covers all columns that it reads."""
        features = {feature.name: names[feature.name] for feature in self.ensemble.features}
        columns = find_columns(self.ensemble.features, self.dialect, features)
        return replace(self, columns=columns, column_names=names)

    def _expression(self, output: str) -> str:
        model = self._sql_model(output).simplified
        text = model.value([model.margin(k) for k in range(len(model.bases))])
        check_size(text, model.trees, self.dialect)
        return text

    def _statement(self, destination: Destination, table: str, options: QueryOptions, call: str = "") -> str:
        return self._scoring(destination, table, options, call).text()

    def _scoring(
        self, destination: Destination, table: str, options: QueryOptions, call: str = ""
    ) -> ScoringQuery:  # fmt: skip
        model, others = self._sql_model(options.output), options.keep or ()
        if isinstance(options.where, Mapping):
            text, known = row_condition(options.where, self.columns)
            model, options = replace(model, known=known), replace(options, where=text or None)
        stamp = self._stamp() if options.stamp else {}
        if options.form != "by_key":
            return ScoringQuery(model, self._source(table, others), options, destination, stamp=stamp, call=call)
        if self.star is None:
            raise ParameterError(
                "form='by_key' scores trees where dimensions are joined, and this query joins none; it is for a model "
                "that was trained on a star of tables, without tables='joined'"
            )
        if options.keep is None:
            raise ParameterError("form='by_key' needs keep, the columns to return besides the prediction")
        model, star = self.star.score_by_key(model)
        source = star.source(self.dialect.quote_path(table), others)
        return ScoringQuery(model, source, replace(options, form="auto"), destination, stamp=stamp, call=call)

    def _stamp(self) -> dict[str, str]:
        """Return the stamp: the columns that identify the model and the time of scoring."""
        version, dialect = self.ensemble.metadata.version, self.dialect
        return {
            "model_hash": dialect.cast(dialect.string(model_hash(self.ensemble)), "string"),
            "model_version": dialect.cast("NULL" if version is None else dialect.string(version), "string"),
            "scored_at": dialect.expressions.now,
        }

    def _label(self, label: str | None) -> str:
        return model_hash(self.ensemble)[:_DIGITS] if label is None else label

    def _source(self, table: str, others: Sequence[str] = ()) -> TableSource:
        """Return what a query reads: the table, joined to the dimensions of features and of ``others``."""
        quoted = self.dialect.quote_path(table)
        return TableSource(quoted, quoted) if self.star is None else self.star.source(quoted, others)

    def _for_driver(self, text: str) -> str:
        """Escape a text so that a driver with parameters runs it unchanged."""
        return text if self.paramstyle is None else re.sub(*_ESCAPES[self.paramstyle], text)

    def _header(self, trained: object, output: str) -> str:
        return header(self.ensemble, read_columns(self, output), self.column_names, self.dialect.name, trained)

    # --- columns ------------------------------------------------------------------------------------------------------

    def _offsets(self) -> list[OffsetColumn | None]:
        """Return the SQL added to each margin; empty without an offset."""
        offset, columns = self.ensemble.offset, self._offset_columns()
        if offset is None:
            return []
        return [
            None if name is None else OffsetColumn(columns[name].name, offset.kind == EXPOSURE, self.dialect)
            for name in offset.columns
        ]

    def _offset_columns(self) -> dict[str, FeatureColumn]:
        """Return the columns of the offset by their names in training."""
        if self.ensemble.offset is None:
            return {}
        return {column.feature.name: column for column in self._columns_beside(self.ensemble.offset.features)}

    def _name_of(self, column: FeatureColumn) -> str:
        """Return the name of a column in the database, unquoted."""
        return self.column_names.get(column.feature.name, column.feature.name)

    def _column_beside(self, feature: Feature) -> FeatureColumn:
        """Return the column of a lookup, possibly that of a feature."""
        return self._columns_beside([feature])[0]

    def _columns_beside(self, features: Sequence[Feature]) -> tuple[FeatureColumn, ...]:
        """Return the columns read beside features, with names distinct for the database."""
        names = {feature.name for feature in features}
        every = [*(feature for feature in self.ensemble.features if feature.name not in names), *features]
        known = {f.name: self.column_names[f.name] for f in every if f.name in self.column_names}
        return find_columns(every, self.dialect, known)[len(every) - len(features) :]


def read_columns(model: DatabaseModel, output: str) -> list[FeatureColumn]:
    """Return the columns that an output reads: all features, the offset, and the column of a lookup.

    Raises
    ------
    ParameterError
        If the output is unknown; if the database can't have such a column, or does not distinguish its name from a
        feature's.
    """
    lookup = None if output == "leaf" else model.ensemble.output(output).lookup
    read = {**model._offset_columns(), **{column.feature.name: column for column in model.columns}}
    if lookup is not None and lookup.column not in read:
        read[lookup.column] = model._column_beside(lookup.feature)
    return [read[name] for name in dict.fromkeys([*model.ensemble.read_names, *read])]
