"""Metrics after each round are the same numbers in every engine, to the last bit."""

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from tests.support.cases import cases

FEATURES = ["x0", "x1", "x2"]


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(7)
    n = 160
    x = np.round(rng.normal(size=(n, 3)), 1)  # many rows have equal scores
    score = x[:, 0] * x[:, 1] + rng.normal(size=n) / 2
    query = rng.permutation(np.repeat(np.arange(20), rng.multinomial(n, np.ones(20) / 20)))
    return pl.DataFrame(x, schema=FEATURES).with_columns(
        query=pl.Series(query), w=pl.Series(rng.random(n) * 3 + 0.1), of_query=pl.Series((rng.random(20) + 0.1)[query]),
        late=pl.Series((score > 0.2) * 1), relevance=pl.Series(np.digitize(score, [-0.5, 0.2, 1.0])),
        amount=pl.Series(score), held_out=pl.Series(query % 3 == 0),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:eval_metric 'nan' is nan")
@cases(
    ("target", "metrics", "more", "engines"),
    [
        ("late", ["auc", "aucpr", "logloss", "error@0.3"], {"weight": "w", "objective": "binary:logistic"},
         ("polars", "duckdb")),
        ("relevance", ["auc", "mlogloss", "merror"], {"weight": "w", "objective": "multi:softprob", "num_class": 4},
         ("polars",)),
        ("amount", ["rmse", "mae", fb.Metric("m", "MAX(ABS(label)) + AVG(CASE WHEN LN(label) > 0 THEN 1 ELSE 0 END)")],
         {}, ("polars",)),  # LN of a negative number is NaN, which is larger than any number
        ("amount", [fb.Metric("nan", "SUM(LN(label))")], {}, ("polars",)),
        ("relevance", ["ndcg@3", "ndcg@5-", "ndcg"], {"weight": "of_query", "objective": "rank:ndcg", "group": "query"},
         ("polars", "duckdb")),
        ("late", ["map@3", "pre@2", "ndcg@4"], {"objective": "rank:map", "group": "query"}, ("polars",)),
        ("relevance", ["ndcg"], {"objective": "rank:pairwise", "group": "query", "ndcg_exp_gain": False}, ("polars",)),
    ],
)  # fmt: skip
def test_the_history_is_that_of_every_other_engine(frame, target, metrics, more, engines):
    rows = {"valid": frame.filter("held_out"), "features": FEATURES, "n_estimators": 2, "max_depth": 2,
            "train_metrics": True}  # fmt: skip
    found = fb.fit(frame.filter(~pl.col("held_out")), target, eval_metric=metrics, engine="numba", **rows, **more)
    assert found.history.width == 1 + 2 * len(metrics)
    for engine in engines:
        other = fb.fit(frame.filter(~pl.col("held_out")), target, eval_metric=metrics, engine=engine, **rows, **more)
        assert found.history.equals(other.history)
        assert found.to_json() == other.to_json()
