"""The part of a model that explains its predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from frameboost.compile.arrays import TreeArrays
from frameboost.explain import contribution_frame, interaction_frame
from frameboost.objectives import Objective
from frameboost.schema import Feature
from frameboost.tree import Tree

__all__ = ["ExplainingModel"]


class ExplainingModel:
    """What `frameboost.Model` inherits: contributions of features, interactions, partial dependence."""

    _objective: Objective
    _features: tuple[Feature, ...]
    _base_margin: float
    _trees: tuple[Tree, ...]

    if TYPE_CHECKING:

        @property
        def _arrays(self) -> TreeArrays: ...

    def explain(self, data: Any, *, approx: bool = False) -> pl.DataFrame:
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
        return contribution_frame(data, self._features, self._base_margin, self._trees, self._arrays, approx=approx)

    def explain_interactions(self, data: Any) -> pl.DataFrame:
        """Return how much each pair of features adds to the margin of each row.

        The Shapley interaction values of XGBoost's ``pred_interactions``: what two features add together beyond what
        each adds alone is shared equally between (feature, other) and (other, feature); a feature with itself has
        what is left of its Shapley value, its main effect.

        Parameters
        ----------
        data
            As for `predict`.

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
        return interaction_frame(data, self._features, self._base_margin, self._trees, self._arrays)
