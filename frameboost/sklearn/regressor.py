"""The regressor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from frameboost.sklearn.estimator import Estimator, documented
from frameboost.sklearn.rows import Rows, role_columns, with_roles
from frameboost.sklearn.tables import read, read_parts
from frameboost.sklearn.targets import FloatArray, check_numbers, check_weights, without_zeros

__all__ = ["FrameBoostRegressor"]


@documented
class FrameBoostRegressor(RegressorMixin, Estimator):
    """A regressor for scikit-learn.

    X may be a polars or pandas frame or an Arrow table, whose columns keep their types (strings are categories, dates
    are dates), anything that scikit-learn takes for an array of numbers, or a sparse matrix of SciPy's, in which an
    entry that is not stored is 0. NULL and NaN are missing values; a column without any value is not split on. A row of
    weight 0 is as if it were not there. y may have several columns, which are predicted as an array.

    Parameters
    ----------
    objective : str, optional
        As for `frameboost.fit`; by default ``'reg:squarederror'``.
    <parameters>

    Attributes
    ----------
    <attributes>

    Examples
    --------
    >>> import polars as pl, frameboost as fb
    >>> X = pl.DataFrame({"carrier": ["AA", "UA", "B6", "UA"] * 25, "delay": range(100)})
    >>> y = X["delay"] - 9 * (X["carrier"] == "UA").cast(int)
    >>> regressor = fb.FrameBoostRegressor(n_estimators=20).fit(X, y)
    >>> regressor.predict(X[:3]).round(1)
    array([ 0.3, -6.6,  2.1])
    >>> round(regressor.score(X, y), 3)
    1.0
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, eval_set: Any = None, sample_weight_eval_set: Any = None
    ) -> FrameBoostRegressor:
        """Train on X and y.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            The features.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            The target: finite numbers. Each of several targets has trees of its own.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows, 0 or more.
        eval_set : list of (X, y), optional
            Rows to validate on, as ``validation_0`` and so on in `evals_result_`; early stopping watches the last.
        sample_weight_eval_set : list of array-like, optional
            Weights of these rows, for each pair; by default 1.
        """
        target = self._target(y)
        frame = read(self, X, reset=True)
        rows = Rows(*without_zeros(frame, target, sample_weight))
        held_out = self._held_out(
            eval_set, self._target, weight=("sample_weight_eval_set", sample_weight_eval_set, check_weights)
        )
        for i, other in enumerate(held_out):
            if other.roles["target"].shape[1:] != target.shape[1:]:
                raise ValueError(f"y of eval_set[{i}] has shape {other.roles['target'].shape}, and y {target.shape}")
        self._train(rows, self._objective("reg:squarederror"), held_out)
        return self

    def _target(self, y: Any, name: str = "y") -> FloatArray:
        return check_numbers(y, self, name, several=True)

    def predict(self, X: Any) -> FloatArray:
        """Return the predictions for X's rows."""
        return self._score(X)

    def conform(self, X: Any, y: Any, *, coverage: float = 0.9) -> FrameBoostRegressor:
        """Learn intervals from rows that the regressor was not trained on, for `predict_interval`.

        ``model_`` is from then on one with intervals (see `Model.conform`, which says what they promise). The
        regressor must be fitted, and ``fit`` forgets them.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            The features.
        y : array-like of shape (n_samples,)
            The target.
        coverage : float, default 0.9
            The share of labels that intervals are to hold.

        Returns
        -------
        FrameBoostRegressor
            The regressor itself.
        """
        check_is_fitted(self)
        rows = Rows(read(self, X, reset=False), {"target": check_numbers(y, self, "y", several=False)})
        check_consistent_length(rows.frame, rows.roles["target"])
        columns = role_columns(rows)
        self.model_ = self.model_.conform(with_roles(rows, columns), columns["target"][0], coverage=coverage)
        return self

    def predict_interval(self, X: Any) -> FloatArray:
        """Return the ends of the intervals of X's rows, an array of shape (n_samples, 2), after `conform`.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> X, y = pl.DataFrame({"x": [1, 2, 3, 4] * 5}), [0.0, 0.0, 8.0, 8.0] * 5
        >>> regressor = fb.FrameBoostRegressor(n_estimators=1, learning_rate=1, reg_lambda=0).fit(X, y)
        >>> regressor.conform(X, [label + 1 for label in y]).predict_interval(X[1:3])
        array([[-1.,  1.],
               [ 7.,  9.]])
        """
        check_is_fitted(self)
        ends = [self.model_.predict(frame, output="interval").struct.unnest() for frame in read_parts(self, X)]
        return pl.concat(ends).to_numpy(writable=True)

    def staged_predict(self, X: Any) -> Iterator[FloatArray]:
        """Yield the predictions for X's rows after the first round, after two, and so on."""
        return self._staged(X)
