"""The namespace ``boost`` of polars frames: ``df.boost.fit(...)`` and ``lf.boost.predict(...)``."""

from __future__ import annotations

from typing import Any

import polars as pl

from frameboost.api import fit
from frameboost.checks.arguments import checked, instance_of
from frameboost.losses.outputs import OutputName, ScoreName
from frameboost.model.model import Model

__all__ = ["FrameNamespace", "LazyFrameNamespace"]


@pl.api.register_dataframe_namespace("boost")
class FrameNamespace:
    """Methods of ``df.boost`` for DataFrames, available once frameboost is imported.

    Examples
    --------
    >>> import polars as pl, frameboost as fb
    >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
    >>> model = df.boost.fit(target="y", n_estimators=1, learning_rate=1, reg_lambda=0)
    >>> df.boost.predict(model).columns
    ['x', 'y', 'prediction']
    """

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    @checked(fit)
    def fit(self, target: str, **keywords: Any) -> Model:
        """Train a model on the frame, with the keywords of `frameboost.fit`.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]}).boost.fit(target="y", n_estimators=2)
        Model: reg:squarederror, 2 trees (depth 1, 4 leaves), 1 feature
          x  int64
        """
        return fit(self._frame, target, **keywords)

    @checked(model=instance_of(Model, "a Model"))
    def predict(
        self,
        model: Model,
        output: ScoreName = "mean",
        *,
        name: str = "prediction",
    ) -> pl.DataFrame:
        """Return the frame with a column of predictions (`Model.predict`).

        Parameters
        ----------
        model
            A trained model.
        output
            As in `Model.predict`.
        name
            The name of the column; an existing one is replaced.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = df.boost.fit(target="y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> df.boost.predict(model, name="guess").rows()
        [(1, 0.0, 0.0), (2, 0.0, 0.0), (3, 8.0, 8.0), (4, 8.0, 8.0)]
        """
        return self._frame.with_columns(model.predict(self._frame, output).alias(name))


@pl.api.register_lazyframe_namespace("boost")
class LazyFrameNamespace:
    """Methods of ``lf.boost`` for LazyFrames, available once frameboost is imported.

    Examples
    --------
    >>> import polars as pl, frameboost as fb
    >>> lf = pl.LazyFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
    >>> model = lf.boost.fit(target="y", n_estimators=1, learning_rate=1, reg_lambda=0)
    >>> lf.boost.predict(model).filter(pl.col("prediction") > 1).collect()["x"].to_list()
    [3, 4]
    """

    def __init__(self, frame: pl.LazyFrame) -> None:
        self._frame = frame

    @checked(fit)
    def fit(self, target: str, **keywords: Any) -> Model:
        """Train a model on the rows of the query, with the keywords of `frameboost.fit`.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> lf = pl.LazyFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> lf.filter(pl.col("x") > 1).boost.fit(target="y", engine="polars", n_estimators=2)
        Model: reg:squarederror, 2 trees (depth 1, 4 leaves), 1 feature
          x  int64
        """
        return fit(self._frame, target, **keywords)

    @checked(model=instance_of(Model, "a Model"))
    def predict(
        self,
        model: Model,
        output: OutputName = "mean",
        *,
        name: str = "prediction",
    ) -> pl.LazyFrame:
        """Return the query with a column of predictions (`Model.expr`); nothing is computed yet.

        Parameters
        ----------
        model
            A trained model.
        output
            As in `Model.expr`.
        name
            The name of the column; an existing one is replaced.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> lf = pl.LazyFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = lf.boost.fit(target="y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> lf.boost.predict(model, name="guess").select("guess").collect()["guess"].to_list()
        [0.0, 0.0, 8.0, 8.0]
        """
        return self._frame.with_columns(model.expr(output).alias(name))
