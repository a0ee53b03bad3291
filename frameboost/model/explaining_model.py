"""The part of a model that explains its predictions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from frameboost.checks.arguments import anything, checked
from frameboost.checks.messages import shown
from frameboost.compile.sql.conditions import find_columns
from frameboost.dialects.known import get_dialect
from frameboost.errors import ParameterError
from frameboost.expressions.expression import Expression
from frameboost.losses.loss import Loss
from frameboost.losses.outputs import output_of
from frameboost.model.explain import contribution_frame, interaction_frame, query_for_explanations
from frameboost.model.partial_dependence import partial_dependence_frame
from frameboost.schema.feature import Feature
from frameboost.trees.tree import Tree

if TYPE_CHECKING:
    from frameboost.compile.arrays.flat_trees import TreeArrays

__all__ = ["ExplainingModel"]


class ExplainingModel:
    """What `frameboost.Model` inherits: contributions of features, interactions, partial dependence."""

    _loss: Loss
    _calibration: Expression | None
    _features: tuple[Feature, ...]
    _base_margins: tuple[float, ...]
    _trees: tuple[Tree, ...]

    if TYPE_CHECKING:

        @property
        def _arrays(self) -> TreeArrays: ...

    def _margin(self, output: int | None) -> tuple[float, list[Tree]]:
        """Return the base and the trees of one output, which need not be named if there is but one."""
        n_outputs = self._loss.n_outputs
        if output is None and n_outputs == 1:
            output = 0
        if not isinstance(output, int) or isinstance(output, bool) or not 0 <= output < n_outputs:
            raise ParameterError(
                f"output must be the number of a margin, from 0 to {n_outputs - 1}, not {shown(output)}"
            )
        return self._base_margins[output], [tree for tree in self._trees if tree.output == output]

    @checked(output=anything)
    def explain(self, data: Any, *, approx: bool = False, output: int | None = None) -> pl.DataFrame:
        """Return how much each feature adds to the margin of each row.

        By default these are Shapley values (path-dependent TreeSHAP; Lundberg, Erion & Lee 2018), the numbers of
        XGBoost's ``pred_contribs``: unknown features are averaged out by cover. ``docs/explain.md`` says more.

        Parameters
        ----------
        data
            As for `predict`.
        approx
            Saabas' contributions instead, as XGBoost's ``approx_contribs``: each split on a row's path adds to its
            feature by how much the mean changes. Cheaper, and what `explain_query` computes in a database, but it
            favours splits far from the root over those near it.
        output
            Of a model with several outputs (classes, quantiles): the number of the one to explain, from 0.

        Returns
        -------
        polars.DataFrame
            Float64: a column a feature, in the model's order, and ``"bias"``, the mean margin weighted by cover. The
            columns of a row add up to its margin (up to rounding); a feature that no tree asks about has 0.

        Raises
        ------
        DataError
            As `predict`.
        ParameterError
            If a feature is itself named ``"bias"``.

        Examples
        --------
        The labels' mean is 4; x moves it by 2 either way, and so does z:

        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [0, 0, 1, 1], "z": [0, 1, 0, 1], "y": [0.0, 4.0, 4.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> model.explain(df).rows()
        [(-2.0, -2.0, 4.0), (-2.0, 2.0, 4.0), (2.0, -2.0, 4.0), (2.0, 2.0, 4.0)]
        """
        base, trees = self._margin(output)
        return contribution_frame(data, self._features, base, trees, approx=approx)

    @checked(output=anything)
    def explain_interactions(self, data: Any, *, output: int | None = None) -> pl.DataFrame:
        """Return how much each pair of features adds to the margin of each row.

        The Shapley interaction values of XGBoost's ``pred_interactions``: what two features add together beyond what
        each adds alone is shared equally between (feature, other) and (other, feature); a feature with itself has
        what is left of its Shapley value, its main effect.

        Parameters
        ----------
        data
            As for `predict`.
        output
            As for `explain`.

        Returns
        -------
        polars.DataFrame
            ``row`` (UInt32, from 0), ``feature`` and ``other`` (String), ``value`` (Float64); for each row all pairs
            in the model's order, then ``"bias"`` with itself. The values of a row add up to its margin, those of a
            row and feature to what `explain` says.

        Raises
        ------
        DataError
            As `predict`.
        ParameterError
            If a feature is itself named ``"bias"``.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [0, 0, 1, 1], "z": [0, 1, 0, 1], "y": [0.0, 0.0, 0.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> model.explain_interactions(df.tail(1)).rows()
        [(0, 'x', 'x', 2.0), (0, 'x', 'z', 1.0), (0, 'z', 'x', 1.0), (0, 'z', 'z', 2.0), (0, 'bias', 'bias', 2.0)]
        """
        base, trees = self._margin(output)
        return interaction_frame(data, self._features, base, trees)

    @checked(top=anything, output=anything)
    def explain_query(
        self,
        table: str,
        dialect: str = "duckdb",
        *,
        keep: Sequence[str] = (),
        top: int | None = None,
        output: int | None = None,
        columns: Mapping[str, str] | None = None,
        limits: Mapping[str, int | None] | None = None,
    ) -> str:
        """Return a SELECT that explains a table's rows inside the database.

        Contributions are those of `explain` with ``approx=True``, to the last bit.

        Parameters
        ----------
        table
            The table's name, which may be qualified (``"sales.orders"``).
        dialect, columns, limits
            As in `sql`.
        keep
            Columns to return besides; with ``top`` of types that can be grouped by.
        top
            If given, reason codes: columns ``reason_1``, ``contribution_1``, ... up to ``top`` name the features with
            the largest contributions either way, and say what they are; of equal ones the first in the model's order
            comes first. By default a column a feature, and ``"bias"``.
        output
            As for `explain`.

        Raises
        ------
        ParameterError
            If two features have names that differ only in case, which DuckDB can't tell apart; if two columns of the
            result would have one name (for contributions of all features, a feature named ``"bias"``); if ``top`` is
            not between 1 and the number of features.

        Examples
        --------
        >>> import duckdb, polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"id": [7, 8, 9], "x": [0, 1, 1], "z": [1, 0, 1], "y": [0.0, 6.0, 12.0]})
        >>> model = fb.fit(df, "y", features=["x", "z"], n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> con = duckdb.connect()
        >>> _ = con.register("orders", df)
        >>> con.sql(model.explain_query("orders")).columns
        ['x', 'z', 'bias']
        >>> con.sql(model.explain_query("orders", keep=["id"], top=1)).fetchall()
        [(7, 'x', -6.0), (8, 'x', 3.0), (9, 'x', 3.0)]
        """
        spoken = get_dialect(dialect, limits)
        base, trees = self._margin(output)
        found = find_columns(self._features, spoken, columns)
        return query_for_explanations(table, spoken, keep, top, found, base, trees)

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
        wanted = output_of(self._loss, output, self._calibration)
        return partial_dependence_frame(data, feature, grid, wanted, self._features, self._base_margins, self._arrays)
