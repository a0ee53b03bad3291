"""Dropout (DART): XGBoost's weights where all trees are dropped, one model in all engines, the effect of draws."""

import numpy as np
import polars as pl
import pytest
import xgboost

import frameboost as fb
from frameboost.training.boosting import Progress
from tests.support.cases import cases


def data(n: int = 300) -> tuple[np.ndarray, np.ndarray, pl.DataFrame]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 3)).astype(np.float32)
    y = (2 * x[:, 0] + np.sin(3 * x[:, 1]) + 0.1 * rng.normal(size=n)).astype(np.float32)
    return x, y, pl.DataFrame({f"x{i}": x[:, i] for i in range(3)}).with_columns(y=pl.Series(y.astype(float)))


@cases(("objective", "normalize_type"), [("reg:squarederror", "tree"), ("binary:logistic", "forest")])
def test_where_every_tree_is_dropped_the_weights_are_xgboosts(normalize_type, objective):
    x, y, frame = data()
    if objective == "binary:logistic":
        y = (y > 0).astype(np.float32)
        frame = frame.with_columns(y=pl.Series(y.astype(float)))
    options = {"rate_drop": 1.0, "normalize_type": normalize_type, "max_depth": 3, "learning_rate": 0.4}
    theirs = xgboost.train(
        {"objective": objective, "booster": "dart", "tree_method": "exact", **options}, xgboost.DMatrix(x, y), 6
    )
    options |= {"objective": objective, "booster": "dart", "n_estimators": 6}
    ours = fb.fit(frame, "y", tree_method="exact", **options)
    np.testing.assert_allclose(ours.predict(frame), theirs.predict(xgboost.DMatrix(x)), rtol=2e-5, atol=2e-6)


def test_the_weights_by_hand():
    # One row a leaf and λ = 0: a tree of the residuals, times the learning rate ½. The second round drops the first
    # tree, and so grows it again; each then weighs 1 / (1 + ½), the first times its own 1.
    frame = pl.DataFrame({"x": [0, 1], "y": [-4.0, 4.0]})
    options = {"learning_rate": 0.5, "reg_lambda": 0, "booster": "dart", "rate_drop": 1.0}
    one = fb.fit(frame, "y", n_estimators=1, **options)
    two = fb.fit(frame, "y", n_estimators=2, **options)
    assert one.trees["value"].to_list()[1:] == [-2.0, 2.0]
    np.testing.assert_allclose(two.trees.filter(pl.col("feature").is_null())["value"], [-4 / 3, 4 / 3] * 2)


@pytest.mark.slow
@cases("dropping", [
    {"rate_drop": 0.4, "sample_type": "weighted", "skip_drop": 0.3}, {"one_drop": True, "normalize_type": "forest"},
])  # fmt: skip
def test_draws_decide_and_the_log_measures_what_the_trees_say(dropping):
    _, _, frame = data(150)
    options = {"booster": "dart", "n_estimators": 4, "max_depth": 2, "valid": frame, **dropping}
    first = fb.fit(frame, "y", **options)
    assert first == fb.fit(frame, "y", engine="duckdb", **options)
    last = np.sqrt(np.mean((first.predict(frame) - frame["y"]).to_numpy() ** 2))
    assert first.history["valid_rmse"][-1] == pytest.approx(last, rel=1e-12)  # of margins that were moved to and fro
    assert first != fb.fit(frame, "y", **options | {"seed": 1})
    assert first != fb.fit(frame, "y", n_estimators=4, max_depth=2)


def test_without_drops_dart_is_plain_boosting():
    _, _, frame = data()
    plain = fb.fit(frame, "y", n_estimators=5)
    assert fb.fit(frame, "y", n_estimators=5, booster="dart").trees.equals(plain.trees)
    skipped = fb.fit(frame, "y", n_estimators=5, booster="dart", rate_drop=1.0, skip_drop=1.0)
    assert skipped.trees.equals(plain.trees)


def test_early_stopping_keeps_the_weights_of_the_best_round():
    _, _, frame = data()
    options = {"booster": "dart", "rate_drop": 0.5, "learning_rate": 1.0, "max_depth": 2, "valid": frame[:60]}
    stopped = fb.fit(frame[60:], "y", n_estimators=60, early_stopping_rounds=2, **options)
    best = stopped.best_iteration
    assert best < len(stopped.history)
    assert stopped.trees.equals(fb.fit(frame[60:], "y", n_estimators=best, **options).trees)


def test_the_trees_of_the_best_round_are_weighted_once(monkeypatch):
    # Weighted at each round that is the best so far, they would take the square of the rounds.
    numbers, model_trees = [], Progress.model_trees

    def counted(self, weights):
        trees = model_trees(self, weights)
        numbers.append(len(trees))
        return trees

    monkeypatch.setattr(Progress, "model_trees", counted)
    _, _, frame = data()
    options = {"booster": "dart", "max_depth": 2, "valid": frame, "early_stopping_rounds": 10}
    model = fb.fit(frame, "y", n_estimators=10, **options)
    assert model.best_iteration == 10
    assert numbers == [10]


def test_parameters_of_dropout_are_for_dropout():
    _, _, frame = data(20)
    with pytest.raises(fb.ParameterError, match=r"rate_drop=0.1 is for booster='dart', not for 'gbtree'"):
        fb.fit(frame, "y", rate_drop=0.1)
    with pytest.raises(fb.ParameterError, match="one_drop must be True or False, not 1"):
        fb.fit(frame, "y", booster="dart", one_drop=1)
