"""Scoring: what a model does with rows, by compiled kernels, as a polars expression, or as SQL."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

import duckdb
import polars as pl

from frameboost.compile.arrays import TreeArrays
from frameboost.compile.polars import margin_expr, output_expr
from frameboost.compile.sql import margin_sql, output_sql
from frameboost.errors import ParameterError
from frameboost.expressions import Expression
from frameboost.loss import Loss
from frameboost.outputs import OUTPUTS, output_of
from frameboost.polars_names import column
from frameboost.schema import Feature
from frameboost.scoring import find_features, find_margins
from frameboost.sources import open_source
from frameboost.sql_text import quote_identifier, quote_path
from frameboost.tree import Tree

__all__ = ["OutputName", "Scorer"]

OutputName = Literal["mean", "margin", "class"]


class Scorer:
    """The scoring methods of `frameboost.Model`."""

    _loss: Loss
    _features: tuple[Feature, ...]
    _base_margins: tuple[float, ...]
    _trees: tuple[Tree, ...]
    _calibration: Expression | None

    # --- in Python ----------------------------------------------------------------------------------------------------

    def predict(
        self,
        data: Any,
        output: Literal["mean", "margin", "class", "leaf"] = "mean",
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
            of the trees; ``"class"``: the number of the likeliest class; ``"leaf"``: for each row the node number of
            its leaf in each tree.
        base_margin
            Columns of margins to start from, one for each output, instead of the model's own.

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
        if output == "leaf":
            source = open_source(data)
            codes = self._arrays.codes(source.to_frame(self._names), find_features(source, self._features))
            return pl.Series("prediction", self._arrays.leaves(codes), dtype=pl.Array(pl.Int32, len(self._trees)))
        wanted = output_of(self._loss, output, self._calibration) if output in OUTPUTS else self._refuse(output)
        margins = self._margins(data, base_margin)
        columns = [pl.Series(name, values) for name, values in zip(wanted.margins, margins, strict=True)]
        value = output_expr(wanted, [pl.col(name) for name in wanted.margins])
        return pl.DataFrame(columns).select(value.alias("prediction")).to_series()

    def _margins(self, data: Any, base_margin: str | Sequence[str] | None) -> list[Any]:
        source = open_source(data)
        types = find_features(source, self._features)
        started = find_margins(source, base_margin, self._loss.n_outputs)
        frame = source.to_frame(list(dict.fromkeys([*self._names, *started])))
        if not started:
            return self._arrays.margins(self._arrays.codes(frame, types), self._base_margins)
        in_order = frame.collect()  # so that codes and columns meet in one order
        sums = self._arrays.margins(self._arrays.codes(in_order.lazy(), types), (0.0,) * self._loss.n_outputs)
        given = (in_order[name].cast(pl.Float64).to_numpy() for name in started)
        return [sum_ + start for sum_, start in zip(sums, given, strict=True)]

    def _refuse(self, output: object) -> Any:
        raise ParameterError(f"output must be one of {', '.join(map(repr, (*OUTPUTS, 'leaf')))}, not {output!r}")

    @property
    def _names(self) -> list[str]:
        return [feature.name for feature in self._features]

    @cached_property
    def _arrays(self) -> TreeArrays:
        return TreeArrays.compile(self._trees, self._features)

    def _of_output(self, output: int) -> list[Tree]:
        return [tree for tree in self._trees if tree.output == output]

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
        wanted = output_of(self._loss, output, self._calibration)
        bases: Sequence[float | pl.Expr] = self._base_margins
        if base_margin is not None:
            bases = [column(name).cast(pl.Float64) for name in self._started(base_margin)]
        margins = [margin_expr(base, self._of_output(k), self._features) for k, base in enumerate(bases)]
        return output_expr(wanted, margins).alias("prediction")

    def _started(self, base_margin: str | Sequence[str]) -> list[str]:
        return find_margins(None, base_margin, self._loss.n_outputs)

    # --- in a database ------------------------------------------------------------------------------------------------

    def sql(self, output: OutputName = "mean", *, base_margin: str | Sequence[str] | None = None) -> str:
        """Return the model as one scalar SQL expression over the feature columns, for DuckDB.

        The columns must have the types of training. Strings are compared as the column compares them: score a column
        with a collation, such as NOCASE, as ``carrier COLLATE C``. Several outputs (classes, quantiles) come as a
        list. ``base_margin`` is as in `predict`.

        Raises
        ------
        ParameterError
            If two features have names that differ only in case, which SQL can't tell apart.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> print(fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0).sql())
        (4.0e0
         + CASE WHEN "x" < 3 THEN -4.0e0 ELSE 4.0e0 END)
        """
        wanted = output_of(self._loss, output, self._calibration)
        self._check_names_in_sql()
        bases: Sequence[float | str] = self._base_margins
        if base_margin is not None:
            bases = [f"CAST({quote_identifier(name)} AS DOUBLE)" for name in self._started(base_margin)]
        margins = [margin_sql(base, self._of_output(k), self._features) for k, base in enumerate(bases)]
        return output_sql(wanted, margins)

    def _check_names_in_sql(self) -> None:
        folded: dict[str, str] = {}
        for feature in self._names:
            if (other := folded.setdefault(feature.lower(), feature)) != feature:
                raise ParameterError(
                    f"features {other!r} and {feature!r} differ only in case, which SQL can't tell apart"
                )

    def query(
        self,
        table: str,
        *,
        keep: Sequence[str] | None = None,
        output: OutputName = "mean",
        name: str = "prediction",
        base_margin: str | Sequence[str] | None = None,
    ) -> str:
        """Return a SELECT that scores a table.

        Parameters
        ----------
        table
            The table's name, which may be qualified (``"sales.orders"``).
        keep
            Columns to return besides the prediction; by default all.
        output, base_margin
            As in `sql`.
        name
            The name of the column with the prediction.

        Examples
        --------
        >>> import duckdb, polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"id": [7, 8], "x": [1, 2], "y": [0.0, 8.0]})
        >>> model = fb.fit(df, "y", features=["x"], n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> con = duckdb.connect()
        >>> _ = con.register("orders", df)
        >>> con.sql(model.query("orders", keep=["id"])).fetchall()
        [(7, 0.0), (8, 8.0)]
        """
        if isinstance(keep, str):
            raise ParameterError(f"keep must be a list of column names, not the string {keep!r}")
        kept = "*" if keep is None else ", ".join(map(quote_identifier, keep))
        separator = ", " if kept else ""
        scored = self.sql(output, base_margin=base_margin)
        return f"SELECT {kept}{separator}{scored} AS {quote_identifier(name)}\nFROM {quote_path(table)}"

    def register(
        self, con: duckdb.DuckDBPyConnection, name: str, *, output: OutputName = "mean", temporary: bool = True
    ) -> None:
        """Make the model a SQL function, with the features as its parameters, in their order.

        Parameters
        ----------
        con
            A DuckDB connection.
        name
            The function's name; a function that has been registered under it before is replaced.
        output
            As in `sql`.
        temporary
            Whether it goes with the connection; otherwise it is stored in the database.

        Raises
        ------
        ParameterError
            If two features have names that differ only in case, which SQL can't tell apart.

        Examples
        --------
        >>> import duckdb, polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> con = duckdb.connect()
        >>> fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0).register(con, "score")
        >>> con.sql("SELECT score(1), score(4)").fetchall()
        [(0.0, 8.0)]
        """
        arguments = ", ".join(map(quote_identifier, self._names))
        kind = "TEMPORARY MACRO" if temporary else "MACRO"
        con.execute(f"CREATE OR REPLACE {kind} {quote_path(name)}({arguments}) AS {self.sql(output)}").fetchall()
