"""The ranker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from sklearn.utils import check_consistent_length

from frameboost.engines.polars.engine import PolarsEngine
from frameboost.metrics.built_in import ranking_metric
from frameboost.metrics.metric import evaluate
from frameboost.sklearn.estimator import Estimator, documented
from frameboost.sklearn.rows import Rows
from frameboost.sklearn.tables import read
from frameboost.sklearn.targets import FloatArray, check_numbers, check_queries

__all__ = ["FrameBoostRanker"]


@documented
class FrameBoostRanker(Estimator):
    """Learning to rank: orders the rows of each query.

    X is as in `FrameBoostRegressor`.

    Parameters
    ----------
    objective : str, optional
        As for `frameboost.fit`; by default ``'rank:ndcg'``.
    <parameters>

    Attributes
    ----------
    <attributes>

    Examples
    --------
    >>> import polars as pl, frameboost as fb
    >>> X = pl.DataFrame({"clicks": [5, 0, 2, 1, 7, 3]})
    >>> ranker = fb.FrameBoostRanker(n_estimators=3, min_child_weight=0)
    >>> ranker.fit(X, y=[2, 0, 1, 0, 2, 1], qid=[1, 1, 1, 2, 2, 2]).predict(X).shape
    (6,)
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "ranker"
        return tags

    def fit(self, X: Any, y: Any, *, qid: Any = None, eval_set: Any = None, eval_qid: Any = None) -> FrameBoostRanker:
        """Train on X and y.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            The features.
        y : array-like of shape (n_samples,)
            Relevance of each row to its query: 0, 1, 2, ...
        qid : array-like of shape (n_samples,), optional
            The query that each row belongs to: numbers or strings, in any order. Without it all are of one query.
        eval_set : list of (X, y), optional
            Rows to validate on, as ``validation_0`` and so on in `evals_result_`; early stopping watches the last.
        eval_qid : list of array-like, optional
            The queries of these rows, for each pair. Without it the rows of a pair are of one query.
        """
        target = check_numbers(y, self)
        frame = read(self, X, reset=True)
        queries = np.zeros(len(frame)) if qid is None else check_queries(qid)
        check_consistent_length(frame, target, queries)
        held_out = self._held_out(
            eval_set, lambda given, name: check_numbers(given, self, name), group=("eval_qid", eval_qid, check_queries)
        )
        self._train(Rows(frame, {"target": target, "group": queries}), self._objective("rank:ndcg"), held_out)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return scores for X's rows: the higher, the earlier in its query."""
        return self._score(X)

    def staged_predict(self, X: Any) -> Iterator[FloatArray]:
        """Yield the scores for X's rows after the first round, after two, and so on."""
        return self._staged(X)

    def score(self, X: Any, y: Any, *, qid: Any = None) -> float:
        """Return the mean NDCG of the queries, as the metric ``ndcg`` of `frameboost.fit` has it.

        Parameters
        ----------
        X : frame or array-like of shape (n_samples, n_features)
            The features.
        y : array-like of shape (n_samples,)
            Relevance of each row to its query.
        qid : array-like of shape (n_samples,), optional
            The query that each row belongs to. Without it all are of one query.
        """
        target, prediction = check_numbers(y, self), self.predict(X)
        numbers = np.zeros(len(prediction)) if qid is None else check_queries(qid)
        check_consistent_length(target, numbers, prediction)
        rows = pl.LazyFrame({"label": target, "qid": numbers, "prediction": prediction})
        engine = PolarsEngine(rows, (), {name: name for name in ("label", "qid", "prediction")})
        metric = ranking_metric("ndcg", self.model_.parameters)
        assert metric is not None
        return evaluate(metric.over(("label", "weight", "prediction", *metric.terms)), engine)
