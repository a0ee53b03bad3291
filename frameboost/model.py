"""The model: trees that predict in Python, become a polars expression, or run as SQL."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import duckdb
import polars as pl

from frameboost.compile.arrays import TreeArrays
from frameboost.compile.polars import margin_expr, prediction_expr
from frameboost.compile.sql import margin_sql, prediction_sql
from frameboost.errors import ParameterError
from frameboost.explaining_model import ExplainingModel
from frameboost.inspect import importance_frame, summary, tree_frame
from frameboost.model_file import ModelParts, dump_model
from frameboost.objectives import Objective
from frameboost.schema import Feature
from frameboost.scoring import find_features
from frameboost.sources import open_source
from frameboost.sql_text import quote_identifier, quote_path
from frameboost.tree import Tree

__all__ = ["Model"]


class Model(ExplainingModel):
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
        objective: Objective,
        parameters: Mapping[str, Any],
        features: Sequence[Feature],
        base_margin: float,
        trees: Sequence[Tree],
    ) -> None:
        self._objective = objective
        self._parameters = dict(parameters)
        self._features = tuple(features)
        self._base_margin = base_margin
        self._trees = tuple(trees)

    # --- what it is ---------------------------------------------------------------------------------------------------

    @property
    def objective(self) -> str:
        """The name of the loss that the model was trained on.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=3, max_depth=2).objective
        'reg:squarederror'
        """
        return self._objective.name

    @property
    def parameters(self) -> dict[str, Any]:
        """The training parameters that shaped the model, by name.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=3, max_depth=2).parameters["max_depth"]
        2
        """
        return dict(self._parameters)

    @property
    def features(self) -> list[str]:
        """The names of the columns that the model reads, in order.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=3, max_depth=2).features
        ['x']
        """
        return [feature.name for feature in self._features]

    @property
    def base_margin(self) -> float:
        """The margin before the first tree.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=3, max_depth=2).base_margin
        4.0
        """
        return self._base_margin

    @property
    def n_trees(self) -> int:
        """The number of trees.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=3, max_depth=2).n_trees
        3
        """
        return len(self._trees)

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
        return tree_frame(self._trees, self._features)

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
        return importance_frame(self._trees, self._features, kind)

    def __repr__(self) -> str:
        return summary(self.objective, self._trees, self._features)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_arrays"}

    # --- scoring in Python --------------------------------------------------------------------------------------------

    def predict(self, data: Any, output: Literal["mean", "margin", "leaf"] = "mean") -> pl.Series:
        """Predict, with compiled kernels.

        Parameters
        ----------
        data
            Anything that `frameboost.fit` takes. The features are found by name; a number may come in another
            numeric type and a time in another unit than in training, and is compared exactly all the same.
        output
            ``"mean"``: on the scale of the target (for ``binary:logistic`` the probability); ``"margin"``: the sum
            of the trees; ``"leaf"``: for each row the node number of its leaf in each tree.

        Returns
        -------
        polars.Series
            Named ``"prediction"``: Float64, or Array(Int32, trees) for leaves.

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
        _check_output(output, ("mean", "margin", "leaf"))
        source = open_source(data)
        types = find_features(source, self._features)
        codes = self._arrays.codes(source.to_frame(self.features), types)
        if output == "leaf":
            return pl.Series("prediction", self._arrays.leaves(codes), dtype=pl.Array(pl.Int32, self.n_trees))
        margins = pl.Series("prediction", self._arrays.margins(codes, self._base_margin))
        if output == "margin":
            return margins
        link = self._objective.link.to_polars({"margin": pl.col("prediction")})
        return margins.to_frame().select(link.alias("prediction")).to_series()

    @cached_property
    def _arrays(self) -> TreeArrays:
        return TreeArrays.compile(self._trees, self._features)

    def expr(self, output: Literal["mean", "margin"] = "mean") -> pl.Expr:
        """Return the model as a polars expression over the feature columns, named ``"prediction"``.

        The columns must have the types of training.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> df.lazy().with_columns(model.expr()).collect()["prediction"].to_list()
        [0.0, 0.0, 8.0, 8.0]
        """
        _check_output(output, ("mean", "margin"))
        parts = (self._base_margin, self._trees, self._features)
        expr = margin_expr(*parts) if output == "margin" else prediction_expr(self._objective.link, *parts)
        return expr.alias("prediction")

    # --- scoring in a database ----------------------------------------------------------------------------------------

    def sql(self, output: Literal["mean", "margin"] = "mean") -> str:
        """Return the model as one scalar SQL expression over the feature columns, for DuckDB.

        The columns must have the types of training. Strings are compared as the column compares them: score a column
        with a collation, such as NOCASE, as ``carrier COLLATE C``.

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
        _check_output(output, ("mean", "margin"))
        self._check_names_in_sql()
        parts = (self._base_margin, self._trees, self._features)
        return margin_sql(*parts) if output == "margin" else prediction_sql(self._objective.link, *parts)

    def _check_names_in_sql(self) -> None:
        folded: dict[str, str] = {}
        for feature in self.features:
            if (other := folded.setdefault(feature.lower(), feature)) != feature:
                raise ParameterError(
                    f"features {other!r} and {feature!r} differ only in case, which SQL can't tell apart"
                )

    def query(
        self,
        table: str,
        *,
        keep: Sequence[str] | None = None,
        output: Literal["mean", "margin"] = "mean",
        name: str = "prediction",
    ) -> str:
        """Return a SELECT that scores a table.

        Parameters
        ----------
        table
            The table's name, which may be qualified (``"sales.orders"``).
        keep
            Columns to return besides the prediction; by default all.
        output
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
        return f"SELECT {kept}{separator}{self.sql(output)} AS {quote_identifier(name)}\nFROM {quote_path(table)}"

    def register(
        self,
        con: duckdb.DuckDBPyConnection,
        name: str,
        *,
        output: Literal["mean", "margin"] = "mean",
        temporary: bool = True,
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
        arguments = ", ".join(map(quote_identifier, self.features))
        kind = "TEMPORARY MACRO" if temporary else "MACRO"
        con.execute(f"CREATE OR REPLACE {kind} {quote_path(name)}({arguments}) AS {self.sql(output)}").fetchall()

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
        return dump_model(ModelParts(self.objective, self._parameters, self._features, self._base_margin, self._trees))

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
        path = Path(path).resolve()  # what a link points to is replaced, not the link
        partial = path.parent / f".{secrets.token_hex(8)}.partial"
        try:
            partial.write_text(self.to_json(), encoding="utf-8", newline="\n")
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def _check_output(output: object, choices: tuple[str, ...]) -> None:
    if output not in choices:
        raise ParameterError(f"output must be one of {', '.join(map(repr, choices))}, not {output!r}")
