"""Several targets: each has trees of its own, as in XGBoost's ``one_output_per_tree``."""

import duckdb
import numpy as np
import polars as pl
import pytest
import xgboost

import frameboost as fb

FEATURES = ["x0", "x1", "x2"]
TARGETS = {"reg:squarederror": ["a", "b"], "binary:logistic": ["c", "d"], "reg:absoluteerror": ["a", "b"]}


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3)).astype(np.float32)
    a, b = 2 * x[:, 0] + np.sin(3 * x[:, 1]), np.abs(x[:, 2]) + 0.1 * rng.normal(size=300)
    a, b = a.astype(np.float32).astype(float), b.astype(np.float32).astype(float)
    return pl.DataFrame({f"x{i}": x[:, i] for i in range(3)}).with_columns(
        pl.Series("a", a), pl.Series("b", b), pl.Series("c", a > 0), pl.Series("d", b > 0.5),
        pl.Series("w", rng.uniform(0.5, 2.0, 300).astype(np.float32)),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("objective", TARGETS)
def test_predictions_and_metrics_are_xgboosts(frame, objective, weight):
    targets, x = TARGETS[objective], frame.select(FEATURES).to_numpy()
    labels = frame.select(targets).cast(pl.Float64).to_numpy()
    matrix = xgboost.DMatrix(x, labels, weight=None if weight is None else frame["w"].to_numpy())
    results: dict = {}
    theirs = xgboost.train(
        {"objective": objective, "max_depth": 3, "tree_method": "hist", "max_bin": 1000}, matrix, 4,
        evals=[(matrix, "train")], evals_result=results, verbose_eval=False,
    )  # fmt: skip
    options = {"objective": objective, "max_depth": 3, "max_bin": 1000, "n_estimators": 4, "weight": weight}
    options |= {"features": FEATURES, "valid": frame}
    model, *others = (fb.fit(frame, targets, engine=engine, **options) for engine in ("numba", "polars", "duckdb"))
    predictions = np.array(model.predict(frame).to_list())
    np.testing.assert_allclose(predictions, theirs.predict(xgboost.DMatrix(x)), rtol=1e-5, atol=1e-6)
    ((name, values),) = results["train"].items()
    np.testing.assert_allclose(model.history[f"valid_{name}"], values, rtol=1e-5)
    for other in others:
        np.testing.assert_allclose(np.array(other.predict(frame).to_list()), predictions, rtol=1e-9)


def test_each_target_has_the_trees_of_a_model_of_its_own(frame):
    both = fb.fit(frame, ["a", "b"], features=FEATURES, n_estimators=3)
    assert both.n_trees == 6
    for k, target in enumerate("ab"):
        alone = fb.fit(frame, target, features=FEATURES, n_estimators=3)
        assert both.predict(frame).arr.get(k).to_list() == pytest.approx(alone.predict(frame).to_list())
        own = both.trees.filter(pl.col("output") == k).drop("tree", "output", "value")
        assert own.equals(alone.trees.drop("tree", "value"))


def test_all_forms_of_the_model_agree(frame, tmp_path):
    model = fb.fit(frame, ["a", "b"], features=FEATURES, n_estimators=3)
    expected = model.predict(frame)
    model.save(tmp_path / "m.json")
    assert fb.load(tmp_path / "m.json") == model
    assert fb.load(tmp_path / "m.json").predict(frame).equals(expected)
    assert frame.select(model.expr())["prediction"].equals(expected)
    con = duckdb.connect()
    con.register("rows", frame)
    assert [list(row) for row in con.sql(model.query("rows", keep=[])).fetchall()] == expected.to_list()


def test_several_targets_are_refused_where_one_is_needed(frame):
    def message(**options) -> str:
        with pytest.raises((fb.ParameterError, fb.DataError)) as error:
            fb.fit(frame, ["a", "b"], features=FEATURES, **options)
        return str(error.value)

    assert message(objective="multi:softprob") == "objective 'multi:softprob' takes one target, not 2"
    assert message(objective="survival:cox") == "objective 'survival:cox' takes one target, not 2"
    assert message(objective="reg:quantileerror", quantile_alpha=[0.1, 0.9]).endswith("takes one target, not 2")
    assert message(eval_metric="auc") == "eval_metric 'auc' is for one target, not for 2"
    assert "target 'b' holds other values than 0 and 1" in message(objective="binary:logistic", n_estimators=1) or (
        "target 'a' holds other values than 0 and 1" in message(objective="binary:logistic")
    )
    with pytest.raises(fb.ParameterError, match="target 'a' is also the target"):
        fb.fit(frame, ["a", "a"], features=FEATURES)
