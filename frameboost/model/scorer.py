"""Scoring in Python: what a model does with rows, by compiled kernels or as a polars expression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from frameboost.checks.arguments import checked
from frameboost.checks.messages import listed, shown
from frameboost.compile.polars import margin_expr, output_expr
from frameboost.data.feature_columns import find_features, find_margins
from frameboost.data.sources import open_source
from frameboost.errors import ParameterError
from frameboost.expressions.expression import Expression
from frameboost.losses.loss import Loss
from frameboost.losses.outputs import OUTPUTS, output_of
from frameboost.runtime.workers import Workers
from frameboost.schema.feature import Feature
from frameboost.schema.polars_columns import column
from frameboost.schema.types import FeatureType
from frameboost.trees.tree import Tree

if TYPE_CHECKING:
    from frameboost.compile.arrays.byte_trees import ByteTrees
    from frameboost.compile.arrays.flat_trees import TreeArrays

__all__ = ["OutputName", "Scorer"]

OutputName = Literal["mean", "margin", "class", "probability"]


class Scorer:
    """The scoring methods of `frameboost.Model`."""

    _loss: Loss
    _features: tuple[Feature, ...]
    _base_margins: tuple[float, ...]
    _trees: tuple[Tree, ...]
    _calibration: Expression | None

    # --- in Python ----------------------------------------------------------------------------------------------------

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
            return self._sums(frame, types, self._base_margins)
        in_order = frame.collect()  # so that codes and columns meet in one order
        sums = self._sums(in_order.lazy(), types, (0.0,) * self._loss.n_outputs)
        # Added up by polars, where the sum with NULL is NULL, as it is in SQL.
        return [in_order[name].cast(pl.Float64) + pl.Series(sum_) for name, sum_ in zip(started, sums, strict=True)]

    def _sums(self, frame: pl.LazyFrame, types: Mapping[str, FeatureType], bases: Sequence[float]) -> list[Any]:
        if self._byte_trees is not None:
            with closing(Workers()) as workers:
                return self._byte_trees.over(types).margins(frame, bases, workers)
        return self._arrays.margins(self._arrays.codes(frame, types), bases)

    def _refuse(self, output: object) -> Any:
        raise ParameterError(f"output must be one of {listed((*OUTPUTS, 'leaf'))}, not {shown(output)}")

    @property
    def _names(self) -> list[str]:
        return [feature.name for feature in self._features]

    @cached_property
    def _arrays(self) -> TreeArrays:
        from frameboost.compile.arrays.flat_trees import TreeArrays  # which needs numba

        return TreeArrays.compile(self._trees, self._features)

    @cached_property
    def _byte_trees(self) -> ByteTrees | None:
        from frameboost.compile.arrays.byte_trees import ByteTrees

        return ByteTrees.compile(self._arrays, len(self._base_margins))

    def _of_output(self, output: int) -> list[Tree]:
        return [tree for tree in self._trees if tree.output == output]

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
        wanted = output_of(self._loss, output, self._calibration)
        margins = self._margin_exprs
        if base_margin is not None:
            bases = [column(name).cast(pl.Float64) for name in self._started(base_margin)]
            margins = [margin_expr(base, self._of_output(k), self._features) for k, base in enumerate(bases)]
        return output_expr(wanted, margins).alias("prediction")

    @cached_property
    def _margin_exprs(self) -> list[pl.Expr]:
        """The margins of each output, which take longer to put together than a few thousand rows to score."""
        return [margin_expr(base, self._of_output(k), self._features) for k, base in enumerate(self._base_margins)]

    def _started(self, base_margin: str | Sequence[str]) -> list[str]:
        return find_margins(None, base_margin, self._loss.n_outputs)
