"""Scoring in a database: a model as an expression, a query, a view, a table or a function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import duckdb
import polars as pl

from frameboost.checks.arguments import anything, checked, column, name_of, table, word
from frameboost.checks.messages import shown
from frameboost.compile.sql.conditions import find_columns
from frameboost.compile.sql.outputs import named, output_sql
from frameboost.compile.sql.scoring_query import FORMS, Made, scoring_query
from frameboost.compile.sql.size import check_size, excess
from frameboost.compile.sql.sql_model import SqlModel
from frameboost.compile.sql.stages import Stages
from frameboost.compile.sql.tree_table import table_frame, table_statements
from frameboost.data.feature_columns import find_margins
from frameboost.dialects.known import get_dialect
from frameboost.errors import ParameterError
from frameboost.losses.outputs import leaf_output, output_of
from frameboost.model.functions import as_connection, check_options, create_macro, create_udf, place_of
from frameboost.model.scorer import OutputName, Scorer
from frameboost.model.udf import udf_of

__all__ = ["SqlScorer"]

SqlOutput = Literal["mean", "margin", "class", "probability", "leaf"]
Form = Literal["auto", "case", "sorted", "staged", "table"]
_QUERY = Made()


def _check_keep(keep: Sequence[str] | None, predictions: Iterable[str]) -> None:
    """Make sure that all columns of a query have names, each another."""
    if keep is None:
        return
    found: set[str] = set()
    for name in (*keep, *predictions):
        if name in found:
            raise ParameterError(
                f"the query would have column {shown(name)} twice; leave it out of keep, or change name"
            )
        found.add(name)


class SqlScorer(Scorer):
    """The part of `frameboost.Model` that scores in a database.

    Dialects: ``duckdb``, ``postgres``, ``sqlite``, ``clickhouse``, ``spark``, ``databricks``, ``snowflake``,
    ``bigquery``, ``redshift``, ``trino``, ``presto``, ``athena``, ``mysql``, ``mariadb``, ``tsql``, ``fabric``,
    ``oracle``; ``docs/dialects.md`` says what columns they are to have and what was tried where.
    """

    @checked()
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
        dialect
            Whose SQL.
        columns
            The names of columns that are called otherwise than in training, by feature.
        base_margin
            As in `predict`.
        limits
            Numbers in place of those that the dialect is known by, such as ``{"text": 2_000_000}`` where an
            administrator has raised them; None stands for no limit. They are ``text`` and ``view`` (bytes of a query,
            and of a statement that makes a view), ``depth``, ``case_depth``, ``columns``, ``elements`` and ``terms``,
            as in the table of ``docs/dialects.md``.

        Raises
        ------
        ParameterError
            If two features have names that differ only in case, where the dialect can't tell them apart; if a name or
            a type is one that it has not; if the output takes more than one expression, or the model is larger than
            an expression may be: then take `query`.

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
        scored = self._scored(output, dialect, columns, base_margin, limits)
        margins = [scored.margin(k) for k in range(len(scored.bases))]
        text = output_sql(scored.output, margins, scored.dialect)
        check_size(text, scored.trees, scored.dialect)
        return text

    @checked(form=word(*FORMS))
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
            As in `sql`.
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
            ``"case"``: one expression a value. ``"staged"``: common table expressions, which name what is used several
            times. ``"table"``: one short query over the table ``trees``, whatever the size of the model. ``"auto"``:
            the first of these within the database's limits. ``"sorted"``, in DuckDB only: over rows sorted by their
            leaf in the first tree, half the time for a million rows; rows come in any order, so keep a key.
        trees
            The name of the table that the statements of `table_statements` fill.

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
        scored = self._scored(output, dialect, columns, base_margin, limits)
        return self._query(scored, table, keep, where, name, form, trees)

    @checked(scored=anything, form=word(*FORMS), made=anything)
    def _query(
        self, scored: SqlModel, table: str, keep: Sequence[str] | None = None, where: str | None = None,
        name: str = "prediction", form: str = "auto", trees: str | None = None, *, made: Made = _QUERY,
    ) -> str:  # fmt: skip
        _check_keep(keep, named([""] * len(scored.output.values), name))
        read = [*scored.used(), *(base[1] for base in scored.base_columns)]
        source = scored.dialect.quote_path(table)

        def stages() -> Stages:
            return Stages(scored.dialect, source, keep, read, where)

        return scoring_query(scored, stages, form, trees, name, made)

    def _scored(
        self, output: str, dialect: str, columns: Mapping[str, str] | None = None,
        base_margin: str | Sequence[str] | None = None, limits: Mapping[str, int | None] | None = None,
    ) -> SqlModel:  # fmt: skip
        spoken = get_dialect(dialect, limits)
        found = find_columns(self._features, spoken, columns)
        if output == "leaf":
            numbers = [[replace(tree, value=tuple(map(float, range(len(tree)))))] for tree in self._trees]
            return SqlModel(leaf_output(len(numbers)), [0.0] * len(numbers), numbers, found, spoken, is_of_leaves=True)
        wanted = output_of(self._loss, output, self._calibration)
        starts: list[tuple[str, str]] = []
        if base_margin is not None:
            starts = [
                (spoken.cast(spoken.quote(name), "float64"), spoken.quote(name))
                for name in find_margins(None, base_margin, self._loss.n_outputs)
            ]
        bases: Sequence[float | str] = [sql for sql, _ in starts] or self._base_margins
        trees = [self._of_output(k) for k in range(len(bases))]
        return SqlModel(wanted, bases, trees, found, spoken, starts)

    # --- as a view, a table, a column ---------------------------------------------------------------------------------

    @checked(view=name_of("the name of a view"))
    def create_view_sql(self, view: str, table: str, dialect: str = "duckdb", **how: Any) -> str:
        """Return a statement that makes a view of a table with its predictions; ``how`` is as in `query`.

        Some databases take less text for a view than for a query (``docs/dialects.md``).

        Raises
        ------
        ParameterError
            As `query`; if no form of the query fits into a view: then with the numbers.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> print(model.create_view_sql("scored", "orders", keep=["id"]))
        CREATE VIEW "scored" AS
        SELECT "id", (4.0e0
         + CASE WHEN "x" < 3 THEN -4.0e0 ELSE 4.0e0 END) AS "prediction"
        FROM "orders"
        """
        return self._made(Made("view", get_dialect(dialect).quote_path(view)), table, dialect, **how)

    @checked(target=table)
    def create_table_sql(self, target: str, table: str, dialect: str = "duckdb", **how: Any) -> str:
        """Return a statement that makes a table of a table's rows with predictions; ``how`` is as in `query`.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> print(model.create_table_sql("scored", "orders", "tsql", keep=["id"]))
        SELECT [id], (4.0e0
         + CASE WHEN [x] < 3 THEN -4.0e0 ELSE 4.0e0 END) AS [prediction]
        INTO [scored]
        FROM [orders]
        """
        return self._made(Made("table", get_dialect(dialect).quote_path(target)), table, dialect, **how)

    @checked(made=anything)
    def _made(
        self, made: Made, table: str, dialect: str, *, output: str = "mean", columns: Mapping[str, str] | None = None,
        base_margin: str | Sequence[str] | None = None, limits: Mapping[str, int | None] | None = None, **how: Any,
    ) -> str:  # fmt: skip
        return self._query(self._scored(output, dialect, columns, base_margin, limits), table, made=made, **how)

    @checked(column=column)
    def update_sql(
        self,
        table: str,
        column: str,
        dialect: str = "duckdb",
        *,
        where: str | None = None,
        output: OutputName = "mean",
        columns: Mapping[str, str] | None = None,
        limits: Mapping[str, int | None] | None = None,
    ) -> str:
        """Return a statement that writes predictions into a column of the table; the arguments are as in `query`.

        Raises
        ------
        ParameterError
            As `sql`: the model must be one expression.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> print(model.update_sql("orders", "score", where="score IS NULL"))
        UPDATE "orders"
        SET "score" = (4.0e0
         + CASE WHEN "x" < 3 THEN -4.0e0 ELSE 4.0e0 END)
        WHERE score IS NULL
        """
        spoken = get_dialect(dialect, limits)
        condition = where if where is not None or not spoken.statements.update_needs_where else "1 = 1"
        text = spoken.statements.update.format(
            name=spoken.quote_path(table), column=spoken.quote(column),
            value=self.sql(output, dialect, columns=columns, limits=limits),
            where=f"\nWHERE {condition}" if condition else "",
        )  # fmt: skip
        if reason := excess(text, [], spoken, in_one=False):
            raise ParameterError(f"the model does not fit into the statement: {reason}")
        return text

    @checked(name=table)
    def table_statements(
        self, name: str, dialect: str = "duckdb", *, columns: Mapping[str, str] | None = None
    ) -> list[str]:
        """Return the statements that make a table of the trees and fill it, for ``query(..., form="table")``.

        A row a node: ``id``, ``tree``, ``node``, ``output``, ``feature`` (NULL in a leaf), a column of thresholds for
        each type of features (such as ``threshold_float64``), the ids of the nodes that follow, ``left``, ``right`` and
        ``missing``, and ``value``. A category that a node names has a row of its own: ``named_by``, ``category``.

        Examples
        --------
        >>> import duckdb, polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> con = duckdb.connect()
        >>> for statement in model.table_statements("trees"):
        ...     _ = con.execute(statement)
        >>> _ = con.register("orders", df)
        >>> con.sql(model.query("orders", keep=["x"], form="table", trees="trees")).order("x").fetchall()
        [(1, 0.0), (2, 0.0), (3, 8.0), (4, 8.0)]
        """
        spoken = get_dialect(dialect)
        return table_statements(name, self._trees, find_columns(self._features, spoken, columns), spoken)

    def table_frame(self) -> pl.DataFrame:
        """Return the table of trees of `table_statements` as a frame, to be loaded in another way than by INSERT.

        Written to Parquet it is loaded in seconds where many INSERTs take long (Spark, warehouses in a cloud). Types
        that the database lacks are to be converted as ``docs/dialects.md`` says.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> model.table_frame().select("id", "feature", "threshold_int64", "left", "right", "value").rows()
        [(0, 0, 3, 1, 2, None), (1, None, None, 1, 1, -4.0), (2, None, None, 2, 2, 4.0)]
        """
        return table_frame(self._trees, find_columns(self._features, get_dialect("duckdb")))

    # --- as a function ------------------------------------------------------------------------------------------------

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
        check_options(form, temporary, replace)
        arguments = [column.name for column in find_columns(self._features, get_dialect("duckdb"))]
        connection = as_connection(con)
        place = place_of(connection, name, temporary=temporary)
        if form == "udf":
            create_udf(connection, place.name, udf_of(self, connection, output), replace=replace)
        else:
            about = f"output {output}, {self._loss.name}, {len(self._trees):,} trees"
            create_macro(connection, place, arguments, self.sql(output), about, replace=replace)
