"""Several targets, and constant ones. Each of several has trees of its own, as in XGBoost's ``one_output_per_tree``."""

import duckdb
import numpy as np
import polars as pl
import pytest
import xgboost

import frameboost as fb
from frameboost.losses.built_in import LOSSES
from tests.support.cases import cases, some_pairs

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
@cases(("objective", "weight"), some_pairs(TARGETS, [None, "w"]))
def test_predictions_and_metrics_are_xgboosts(frame, objective, weight):
    targets, x = TARGETS[objective], frame.select(FEATURES).to_numpy()
    labels = frame.select(targets).cast(pl.Float64).to_numpy()
    matrix = xgboost.DMatrix(x, labels, weight=None if weight is None else frame["w"].to_numpy())
    results: dict = {}
    theirs = xgboost.train(
        {"objective": objective, "max_depth": 3, "tree_method": "hist", "max_bin": 1000}, matrix, 2,
        evals=[(matrix, "train")], evals_result=results, verbose_eval=False,
    )  # fmt: skip
    options = {"objective": objective, "max_depth": 3, "max_bin": 1000, "n_estimators": 2, "weight": weight}
    options |= {"features": FEATURES, "valid": frame}
    model, other = (fb.fit(frame, targets, engine=engine, **options) for engine in ("numba", "duckdb"))
    predictions = np.array(model.predict(frame).to_list())
    np.testing.assert_allclose(predictions, theirs.predict(xgboost.DMatrix(x)), rtol=1e-5, atol=1e-6)
    ((name, values),) = results["train"].items()
    np.testing.assert_allclose(model.history[f"valid_{name}"], values, rtol=1e-5)
    np.testing.assert_allclose(np.array(other.predict(frame).to_list()), predictions, rtol=1e-9)


OF_A_NUMBER = [name for name in LOSSES if name.startswith(("reg:", "count:"))]


@pytest.mark.slow
@cases("objective", OF_A_NUMBER)
@pytest.mark.filterwarnings("ignore:the mean prediction")
def test_each_of_several_targets_has_the_model_that_it_has_alone(objective):
    rng = np.random.default_rng(4)
    rows = pl.DataFrame({"x": rng.normal(size=80), "a": rng.uniform(0.2, 0.8, 80), "b": rng.uniform(0.1, 0.9, 80)})
    options = {"features": ["x"], "objective": objective, "n_estimators": 2, "max_depth": 2}
    if objective == "reg:quantileerror":
        options["quantile_alpha"] = 0.4
    model = fb.fit(rows, ["a", "b"], **options, eval_metric="mae", valid={"held": rows})
    both = np.array(model.predict(rows).to_list())
    alone = [fb.fit(rows, target, **options, eval_metric="mae", valid={"held": rows}) for target in ("a", "b")]
    np.testing.assert_allclose(both, np.stack([each.predict(rows).to_numpy() for each in alone], axis=1), rtol=1e-9)
    off = [each.history["held_mae"][-1] for each in alone]
    assert model.history["held_mae"][-1] == pytest.approx(np.mean(off))


@pytest.mark.slow
@cases(("objective", "targets"), [("binary:logistic", ["c", "d"]), ("reg:squarederror", ["d", "c", "a"])])
def test_areas_of_several_targets_are_scikit_learns_macro_average(frame, objective, targets):
    metrics = pytest.importorskip("sklearn.metrics")
    options = {"objective": objective, "features": FEATURES, "n_estimators": 2, "max_depth": 2, "weight": "w"}
    options |= {"eval_metric": ["auc", "aucpr"], "train_metrics": True}
    labels = frame.select(targets).cast(pl.Float64).to_numpy() > 0
    for engine in ("numba", "polars", "duckdb"):
        model = fb.fit(frame, targets, engine=engine, **options)
        scores = np.array(model.predict(frame, "margin").to_list())
        expected = metrics.roc_auc_score(labels, scores, average="macro", sample_weight=frame["w"])
        assert model.history["train_auc"][-1] == pytest.approx(expected, rel=1e-9)
        alone = [fb.fit(frame, target, **options).history["train_aucpr"][-1] for target in targets]
        assert model.history["train_aucpr"][-1] == pytest.approx(np.mean(alone), rel=1e-9)
    in_database = model.database().evaluate_query("frame", targets, weight="w", eval_metric=["auc", "aucpr"])
    row = dict(duckdb.sql(in_database).pl().select("metric", "value").rows())
    for name in ("auc", "aucpr"):
        assert row[name] == pytest.approx(model.history[f"train_{name}"][-1], rel=1e-9)


def test_several_targets_are_refused_where_one_is_needed(frame):
    def message(**options) -> str:
        with pytest.raises((fb.ParameterError, fb.DataError)) as error:
            fb.fit(frame, ["a", "b"], features=FEATURES, **options)
        return str(error.value)

    assert message(objective="multi:softprob") == "objective 'multi:softprob' takes one target, not 2"
    assert message(objective="survival:cox") == "objective 'survival:cox' takes one target, not 2"
    assert message(objective="reg:quantileerror", quantile_alpha=[0.1, 0.9]).endswith("takes one target, not 2")
    assert "target 'b' holds other values than 0 and 1" in message(objective="binary:logistic", n_estimators=1) or (
        "target 'a' holds other values than 0 and 1" in message(objective="binary:logistic")
    )
    with pytest.raises(fb.ParameterError, match="target 'a' is also the target"):
        fb.fit(frame, ["a", "a"], features=FEATURES)


CONSTANT = pl.DataFrame({"x": range(24), "w": [2.5] * 24, "q": [i // 4 for i in range(24)]})
# Objectives and labels, and how near the prediction of them is to the label after two rounds.
CONSTANTS = [
    ("reg:squarederror", -3.0, 0), ("reg:squaredlogerror", 5.0, 0), ("reg:pseudohubererror", 5.0, 0),
    ("reg:absoluteerror", 5.0, 0), ("reg:quantileerror", 5.0, 0), ("reg:expectileerror", 5.0, 0),
    ("reg:gamma", 5.0, 1e-12), ("reg:logistic", 0.0, 1.1e-6), ("reg:logistic", 1.0, 1.1e-6),
    ("binary:logistic", 0.0, 1.1e-6), ("binary:logistic", 1.0, 1.1e-6), ("binary:hinge", 0.0, 0),
    ("binary:hinge", 1.0, 0), ("multi:softmax", 2.0, 0), ("count:poisson", 0.0, 1e-15), ("reg:tweedie", 0.0, 1e-15),
    ("dist:negbinomial", 0.0, 1e-15), ("dist:negbinomial", 1e-300, 1e-15), ("dist:normal", 0.0, 0),
    ("dist:lognormal", 5.0, 1e-12),
]  # fmt: skip


@pytest.mark.slow
@cases(
    ("objective", "label", "near", "container"),
    [*((*case, pl.DataFrame) for case in CONSTANTS), *((*case, duckdb.from_arrow) for case in CONSTANTS[::8])],
)
def test_a_constant_label_is_predicted_with_a_warning(objective, label, near, container):
    data = container(CONSTANT.with_columns(y=label))
    weight = None if container is pl.DataFrame else "w"
    with pytest.warns(
        fb.FrameboostWarning, match=rf"^target 'y' is constant \(always {label:g}\), so there is nothing"
    ):
        model = fb.fit(data, "y", objective=objective, features=["x"], weight=weight, n_estimators=2)
    assert model.predict(CONSTANT).to_numpy() == pytest.approx(label, abs=near * max(1.0, label))


@pytest.mark.slow
def test_a_constant_label_of_other_kinds():
    constant = CONSTANT.with_columns(b=False, one=1, y=2.0, z=pl.col("x") * 1.0)
    with pytest.warns(fb.FrameboostWarning, match=r"target 'b' is constant \(always False\)"):
        model = fb.fit(constant, "b", features=["x"], n_estimators=2)
    assert model.predict(constant, output="class").to_list() == [False] * 24
    with pytest.warns(fb.FrameboostWarning, match=r"target 'one' is constant \(always 1\)"):
        model = fb.fit(constant, "one", objective="rank:pairwise", group="q", features=["x"], n_estimators=2)
    assert model.predict(constant).n_unique() == 1
    with pytest.warns(fb.FrameboostWarning, match=r"target 'y' is constant \(always 2\)"):
        model = fb.fit(constant, ["y", "z"], features=["x"], n_estimators=2)
    assert np.array(model.predict(constant).to_list())[:, 0] == pytest.approx(2.0)
    aft = {"label_upper_bound": "y", "objective": "survival:aft"}
    with pytest.warns(fb.FrameboostWarning, match="no tree has a split"):
        same_times = fb.fit(constant, "y", **aft, features=["x"], n_estimators=2)
    assert same_times.predict(constant).n_unique() == 1
    light = constant.with_columns(w=pl.col("x") > 3, y=pl.when(pl.col("x") > 3).then(5.0).otherwise(pl.col("x")))
    with pytest.warns(fb.FrameboostWarning, match=r"constant \(always 5\) wherever weight 'w' is not 0, so"):
        model = fb.fit(light, "y", features=["x"], weight="w", n_estimators=1)
    assert model.predict(light)[20] == 5.0
    with pytest.warns(fb.FrameboostWarning, match=r"target 's' is constant \(always 'a'\)"):
        model = fb.fit(constant.with_columns(s=pl.lit("a")), "s", features=["x"], n_estimators=1)
    assert model.predict(constant, output="class").unique().to_list() == ["a"]


@pytest.mark.slow
def test_a_fold_without_a_class_and_auto_of_a_constant():
    one = CONSTANT.with_columns(late=pl.col("x") == 7, fold=pl.col("x") % 3, y=4.0)
    with pytest.warns(fb.FrameboostWarning, match=r"target 'late' is constant \(always False\)|no tree has a split"):
        model = fb.fit(one, "late", features=["x"], folds="fold", n_estimators=2)
    assert model.predict(one).max() < 0.5
    assert model.classes == [False, True]
    strings = one.with_columns(late=pl.when("late").then(pl.lit("yes")).otherwise(pl.lit("no")))
    with pytest.warns(fb.FrameboostWarning, match=r"target 'late' is constant \(always 0\)|no tree has a split"):
        assert fb.fit(strings, "late", features=["x"], folds="fold", n_estimators=2).classes == ["no", "yes"]
    with pytest.warns(fb.FrameboostWarning, match=r"target 'y' is constant \(always 4\)"):
        found = fb.auto(one, "y", features=["x"], n_estimators=2, quality=1)
    assert found.predict(one).to_list() == [4.0] * 24
