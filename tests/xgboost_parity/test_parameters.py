"""Parameters with XGBoost's names have XGBoost's effect: whole models compared, one parameter at a time.

All rows are weighted, so that no two splits into different rows tie. Of random draws only the sizes are compared.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest
import xgboost

import frameboost as fb
from tests.support.cases import cases
from tests.support.compatibility import SECTIONS, read_rows

FEATURES = ["a", "b", "c", "d"]
LOGISTIC = {"objective": "binary:logistic"}
DART = {"booster": "dart", "rate_drop": 1.0}
BINNED = {"tree_method": "hist", "max_bin": 1000}  # which is a bin for each value
ROUNDS = 6

# parameter -> label, what it is set to, what it is set beside. Those of objectives are in `tests.losses.test_losses`.
CASES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "learning_rate": ("amount", 0.11, {}),
    "max_depth": ("amount", 2, {}),
    "max_leaves": ("amount", 5, BINNED),
    "grow_policy": ("amount", "lossguide", {"max_leaves": 6, **BINNED}),
    "min_child_weight": ("late", 4.5, LOGISTIC),
    "gamma": ("amount", 120.0, {}),
    "reg_lambda": ("amount", 7.0, {}),
    "reg_alpha": ("amount", 5.0, {}),
    "max_delta_step": ("amount", 0.75, {}),
    "tree_method": ("late", "hist", {**LOGISTIC, "max_bin": 16}),
    "base_score": ("late", 0.2, LOGISTIC),
    "monotone_constraints": ("amount", {"a": -1, "c": 1}, {}),
    "interaction_constraints": ("amount", [["a", "b"], ["c"]], {}),
    "num_parallel_tree": ("amount", 3, {}),
    "num_class": ("kind", 5, {"objective": "multi:softprob"}),
    # Where every tree is dropped, or the only one, or none, nothing is left to chance.
    "booster": ("amount", "dart", {"rate_drop": 1.0}),
    "rate_drop": ("amount", 1.0, {"booster": "dart"}),
    "normalize_type": ("amount", "forest", DART),
    "one_drop": ("amount", True, {"booster": "dart", "n_estimators": 2}),
    "skip_drop": ("amount", 1.0, DART),
}


@cache
def rows(n: int = 300, seed: int = 0) -> pl.DataFrame:
    """Return rows with labels of several kinds; the features have few values, and some of them are missing."""
    rng = np.random.default_rng(seed)
    x = np.round(rng.normal(size=(n, 4)), 1).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    present = np.nan_to_num(x, nan=0.7)
    signal = present[:, 0] + np.sin(3 * present[:, 1]) * present[:, 2] + np.isnan(x[:, 3]) + rng.normal(size=n) / 2
    labels = {
        "amount": signal * 4,
        "late": signal > 0.4,
        "kind": np.digitize(signal, [-0.5, 1.0]),
        "w": rng.uniform(0.5, 2.0, n),
        "start": rng.normal(size=n),
    }
    columns = {name: np.asarray(values, dtype=np.float32).astype(float) for name, values in labels.items()}
    return pl.DataFrame(x, schema=FEATURES).with_columns(**columns)


def matrix(data: pl.DataFrame, label: str, **more: Any) -> xgboost.DMatrix:
    more = {"weight": data["w"].to_numpy(), "feature_names": FEATURES} | more
    return xgboost.DMatrix(data.select(FEATURES).to_numpy(), data[label].to_numpy(), nthread=1, **more)


def ours(label: str, settings: dict[str, Any], data: pl.DataFrame | None = None, **more: Any) -> fb.Model:
    shape = {"n_estimators": ROUNDS, "max_depth": 3, "tree_method": "exact", "features": FEATURES, "weight": "w"}
    return fb.fit(rows() if data is None else data, label, verbose=False, **shape | settings | more)


def theirs(label: str, settings: dict[str, Any], data: xgboost.DMatrix | None = None, **more: Any):
    shape = {"max_depth": 3, "tree_method": "exact", "nthread": 1, "verbosity": 0} | settings
    n_rounds = shape.pop("n_estimators", ROUNDS)
    return xgboost.train(shape, matrix(rows(), label) if data is None else data, n_rounds, verbose_eval=False, **more)


def assert_same(model: fb.Model, booster: xgboost.Booster, **how: Any) -> np.ndarray:
    """Assert that both predict the same; return what."""
    predicted = booster.predict(matrix(rows(), "amount"), **how)
    np.testing.assert_allclose(model.predict(rows()).to_numpy(), predicted, rtol=1e-5, atol=2e-5)
    return predicted


# --- parameters -------------------------------------------------------------------------------------------------------


def test_parameters_that_are_said_to_be_compared_are():
    compared = "tests/xgboost_parity/test_parameters.py::test_predictions_are_xgboosts"
    sections = list(SECTIONS)[:8]
    assert {row.here for row in read_rows() if row.section in sections and compared in row.tests} == set(CASES)


@pytest.mark.slow
@cases("name", CASES)
def test_predictions_are_xgboosts(name):
    label, value, beside = CASES[name]
    settings = beside | {name: value}
    if name == "num_class":
        settings |= {"base_score": 0.5}  # the logarithm of the share of a class without rows is -∞, or next to it
    if name == "tree_method":
        settings |= {"cuts": xgboosts_cuts(16)}
    predicted = assert_same(ours(label, settings), theirs(label, {k: v for k, v in settings.items() if k != "cuts"}))
    if name == "num_class":
        assert predicted.shape == (rows().height, value)
    elif name == "num_parallel_tree":  # equal trees, as nothing is drawn: their mean is one of them
        model = ours(label, settings)
        assert model.n_trees == value * model.n_rounds
        assert_same(model, theirs(label, beside))
    else:
        without = theirs(label, beside)
        assert not np.allclose(without.predict(matrix(rows(), label)), predicted, rtol=1e-3), "it makes a difference"


def xgboosts_cuts(max_bin: int) -> dict[str, np.ndarray]:
    weight = rows()["w"].to_numpy()
    data = xgboost.QuantileDMatrix(rows().select(FEATURES).to_numpy(), max_bin=max_bin, weight=weight, nthread=1)
    ends, values = data.get_quantile_cut()
    return {name: values[ends[i] + 1 : ends[i + 1] - 1] for i, name in enumerate(FEATURES)}


def test_a_dropped_forest_is_dropped_whole():
    settings = DART | {"num_parallel_tree": 2}
    assert_same(ours("amount", settings), theirs("amount", settings))


# --- what is drawn ----------------------------------------------------------------------------------------------------


def root_covers(booster: xgboost.Booster) -> np.ndarray:
    frame = booster.trees_to_dataframe()
    return frame.loc[frame["Node"] == 0, "Cover"].to_numpy()


def test_subsample_draws_a_share_of_rows_for_each_tree():
    settings = {"subsample": 0.4, "n_estimators": 20, **BINNED}
    covers = ours("amount", settings, weight=None).trees.filter(node=0)["cover"].to_numpy()  # the number of rows
    beside = root_covers(theirs("amount", settings, matrix(rows(), "amount", weight=None)))
    deviation = np.sqrt(0.4 * 0.6 * 300)
    for drawn in (covers, beside):
        assert abs(drawn.mean() - 120) < 5 * deviation / np.sqrt(20)
        assert len(set(drawn)) > 5
    assert not np.array_equal(covers, beside), "they are other rows than XGBoost's"


@pytest.mark.slow
def test_gradient_based_sampling_scales_rows_up_for_those_left_out():
    settings = {"subsample": 0.3, "sampling_method": "gradient_based", "n_estimators": 30, **BINNED}
    total = rows()["w"].sum()
    covers = ours("amount", settings).trees.filter(node=0)["cover"].to_numpy()  # the sum of weights
    beside = root_covers(theirs("amount", settings))
    for drawn in (covers, beside):
        assert drawn.mean() == pytest.approx(total, rel=0.1)
        assert len(set(drawn)) == 30
    assert not np.allclose(covers, beside)


def features_used(trees: pl.DataFrame, *by: str) -> set[int]:
    """Return how many different features trees, levels or nodes have been split on."""
    splits = trees.filter(pl.col("feature").is_not_null())
    return set(splits.group_by("tree", *by).agg(pl.col("feature").n_unique())["feature"])


def xgboosts_trees(booster: xgboost.Booster) -> pl.DataFrame:
    frame = booster.trees_to_dataframe()
    parents = {child: row["ID"] for _, row in frame.iterrows() for child in (row["Yes"], row["No"])}

    def depth(node: str) -> int:
        return 1 + depth(parents[node]) if node in parents else 0

    feature = [None if name == "Leaf" else name for name in frame["Feature"]]
    return pl.DataFrame(
        {"tree": frame["Tree"].to_list(), "feature": feature, "depth": frame["ID"].map(depth).to_list()}
    )


@pytest.mark.parametrize("name, by", [
    ("colsample_bytree", ()), ("colsample_bylevel", ("depth",)), ("colsample_bynode", ())
])  # fmt: skip
def test_columns_are_drawn_by_tree_level_and_node(name, by):
    settings = {name: 0.5, "n_estimators": 30, **BINNED}
    for trees in (ours("amount", settings).trees, xgboosts_trees(theirs("amount", settings))):
        assert set(trees["feature"].drop_nulls()) == set(FEATURES), "each is drawn in some tree"
        counts = features_used(trees, *by)
        # Two of four; nodes draw for themselves, so that a tree has more.
        assert (max(counts) == 2) == (name != "colsample_bynode")
    whole = ours("amount", {"n_estimators": 30, **BINNED}).trees
    assert max(features_used(whole, *by)) > 2


def test_the_seed_decides_what_is_drawn():
    settings = {"subsample": 0.5, "colsample_bynode": 0.5, **BINNED}
    first = ours("amount", settings | {"seed": 1})
    assert first == ours("amount", settings | {"seed": 1})
    assert first.trees["value"].to_list() != ours("amount", settings | {"seed": 2}).trees["value"].to_list()
    again = [theirs("amount", settings | {"seed": seed}).get_dump() for seed in (1, 1, 2)]
    assert (again[0] == again[1], again[0] == again[2]) == (True, False)


def test_dropped_trees_are_drawn_by_the_seed():
    settings = {"booster": "dart", "rate_drop": 0.5, "n_estimators": 12}
    models = [ours("amount", settings | {"sample_type": kind, "seed": 3}) for kind in ("uniform", "weighted")]
    assert len({*models, ours("amount", settings | {"seed": 4}), ours("amount", {"n_estimators": 12})}) == 4
    weighted = [theirs("amount", settings | {"sample_type": kind, "seed": 3}) for kind in ("uniform", "weighted")]
    assert weighted[0].get_dump() != weighted[1].get_dump()


# --- rows and what comes with them ------------------------------------------------------------------------------------


def test_missing_is_null_and_nan_alike():
    nulls = rows().with_columns(pl.col(FEATURES).fill_nan(None))
    assert nulls.select(FEATURES).null_count().sum_horizontal().item() > 50
    assert ours("amount", {}, nulls) == ours("amount", {})


# --- rounds -----------------------------------------------------------------------------------------------------------


def held_out(n: int = 200) -> pl.DataFrame:
    """Return rows with the features of training rows and other labels: thresholds decide alike about these features."""
    rng = np.random.default_rng(9)
    noise, flipped = rng.normal(size=n) * rows()["amount"].std(), pl.Series(rng.random(n) < 0.2)
    return rows()[:n].with_columns(amount=pl.col("amount") + pl.Series(noise), late=pl.col("late").cast(bool) ^ flipped)


@pytest.mark.slow
def test_early_stopping_is_xgboosts_which_counts_rounds_from_zero():
    settings = {"n_estimators": 200, "learning_rate": 0.5, "max_depth": 4}
    model = ours("amount", settings, valid=held_out(), early_stopping_rounds=4)
    booster = theirs("amount", settings, early_stopping_rounds=4, evals=[(matrix(held_out(), "amount"), "valid")])
    assert 2 < model.best_iteration == booster.best_iteration + 1 < 190
    assert model.best_score == pytest.approx(booster.best_score, rel=1e-6)
    # Ours has no more than the trees up to the best round.
    assert model.n_rounds == model.best_iteration == booster.num_boosted_rounds() - 4
    assert_same(model, booster, iteration_range=(0, booster.best_iteration + 1))
    # And where a round must be better by more than a twentieth of what all rounds are.
    delta = (model.history["valid_rmse"][0] - model.best_score) / 20
    for own in (0.0, delta):
        rule = xgboost.callback.EarlyStopping(rounds=4, min_delta=own)
        booster = theirs("amount", settings, callbacks=[rule], evals=[(matrix(held_out(), "amount"), "valid")])
        model = ours("amount", settings, valid=held_out(), early_stopping_rounds=4, min_delta=own)
        assert model.best_iteration == booster.best_iteration + 1


def test_history_is_evals_result():
    evals = [(matrix(rows(), "late"), "train"), (matrix(held_out(), "late"), "valid")]
    metrics, results = ["logloss", "error", "auc"], {}
    theirs("late", LOGISTIC | {"eval_metric": metrics}, evals=evals, evals_result=results)
    history = ours("late", LOGISTIC, valid=held_out(), eval_metric=metrics, train_metrics=True).history
    for part in ("train", "valid"):
        for metric in metrics:
            np.testing.assert_allclose(history[f"{part}_{metric}"], results[part][metric], rtol=1e-5, err_msg=metric)


def test_a_callback_sees_every_round_and_may_stop():
    seen = []

    class Stop(xgboost.callback.TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            return epoch == 2

    booster = theirs("amount", {}, callbacks=[Stop()])
    model = ours("amount", {}, valid=held_out(), callbacks=[lambda number, metrics: seen.append(number) or number == 3])
    assert seen == [1, 2, 3]
    assert model.n_rounds == booster.num_boosted_rounds() == 3
    assert_same(model, booster)


def test_training_goes_on_from_a_model():
    model = ours("amount", {}, init_model=ours("amount", {"n_estimators": 4}))
    assert model.n_rounds == ROUNDS + 4
    assert_same(model, theirs("amount", {}, xgb_model=theirs("amount", {"n_estimators": 4})))


def test_leaves_are_learnt_again():
    other = held_out(250)
    model = ours("amount", {}).refit(other, "amount", weight="w")
    settings = {"process_type": "update", "updater": "refresh", "refresh_leaf": True}
    booster = theirs("amount", settings, matrix(other, "amount"), xgb_model=theirs("amount", {}))
    # On those rows: a leaf that none of them reaches keeps its value here, in XGBoost it becomes 0.
    expected = booster.predict(matrix(other, "amount"))
    np.testing.assert_allclose(model.predict(other), expected, rtol=1e-5, atol=2e-5)


def test_own_objectives_are_xgboosts():
    def cosh(predicted: np.ndarray, data: xgboost.DMatrix) -> tuple[np.ndarray, np.ndarray]:
        tanh, weight = np.tanh(predicted - data.get_label()), data.get_weight()
        return tanh * weight, np.maximum(1 - tanh * tanh, 0.1) * weight

    tanh = "(1 - 2 / (EXP(2 * (margin - label)) + 1))"
    log_cosh = fb.Objective(tanh, hessian=f"GREATEST(1 - {tanh} * {tanh}, 0.1)")
    model = ours("amount", {"base_score": 0.0}, objective=log_cosh)
    booster = theirs("amount", {"base_score": 0.0}, obj=cosh)
    assert_same(model, booster)
    assert_same(ours("amount", {"base_score": 0.0}, objective=cosh), booster)


def test_own_metrics_are_xgboosts():
    def far_off(predicted: np.ndarray, data: xgboost.DMatrix) -> tuple[str, float]:
        return "far_off", float((np.abs(predicted - data.get_label()) * data.get_weight() > 2).mean())

    results: dict = {}
    evals = [(matrix(held_out(), "amount"), "valid")]
    theirs("amount", {"disable_default_eval_metric": 1}, evals=evals, evals_result=results, custom_metric=far_off)
    in_sql = fb.Metric("in_sql", "AVG(CASE WHEN ABS(label - prediction) * weight > 2 THEN 1 ELSE 0 END)")
    history = ours("amount", {}, valid=held_out(), eval_metric=[in_sql, far_off]).history
    for name in ("in_sql", "far_off"):
        np.testing.assert_allclose(history[f"valid_{name}"], results["valid"]["far_off"], rtol=1e-5)


def test_own_metrics_may_be_maximised():
    def near(predicted: np.ndarray, data: xgboost.DMatrix) -> tuple[str, float]:
        return "near", float((np.abs(predicted - data.get_label()) < 2).mean())

    settings = {"n_estimators": 100, "max_depth": 4, "disable_default_eval_metric": 1}
    evals = [(matrix(held_out(), "amount"), "valid")]
    booster = theirs("amount", settings, evals=evals, custom_metric=near, maximize=True, early_stopping_rounds=5)
    del settings["disable_default_eval_metric"]
    metric = fb.Metric("near", "AVG(CASE WHEN ABS(label - prediction) < 2 THEN 1 ELSE 0 END)", maximize=True)
    model = ours("amount", settings, valid=held_out(), eval_metric=metric, early_stopping_rounds=5)
    assert 3 < model.best_iteration == booster.best_iteration + 1 < 95
    assert model.best_score == pytest.approx(booster.best_score)


def test_the_quantile_metric_of_another_objective_is_of_quantile_alpha():
    results: dict[float, list[float]] = {}
    for alpha in (0.5, 0.9):
        evals, found = [(matrix(rows(), "amount"), "train")], {}
        theirs("amount", {"eval_metric": "quantile", "quantile_alpha": alpha}, evals=evals, evals_result=found)
        results[alpha] = found["train"]["quantile"]
        history = ours("amount", {"quantile_alpha": alpha}, eval_metric="quantile").history
        np.testing.assert_allclose(history["train_quantile"], results[alpha], rtol=1e-5)
    assert not np.allclose(results[0.5], results[0.9])


def cross_validated(
    n_rounds: int, *, by_position: bool = False, **more: Any
) -> tuple[pl.DataFrame, dict[str, list[float]]]:
    """Return both libraries' tables for the same three folds.

    Of whole numbers thresholds decide alike about all values, also about those between two values of a fold.
    """
    whole = (pl.col(FEATURES) * 10).round().fill_nan(None).cast(pl.Int32)
    data = rows().with_columns(whole, fold=pl.int_range(300) % 3)
    options = {"n_estimators": n_rounds, "max_depth": 3, "tree_method": "exact", "eval_metric": ["mae", "rmse"]}
    numbers = data["fold"].to_numpy()
    parts = [(np.flatnonzero(numbers != k), np.flatnonzero(numbers == k)) for k in range(3)]
    folds = parts if by_position else "fold"
    table = fb.cv(data, "amount", folds=folds, features=FEATURES, weight="w", **options, **more)
    settings = {"max_depth": 3, "tree_method": "exact", "nthread": 1}
    given = {"folds": parts, "as_pandas": False, "metrics": ["mae", "rmse"], **more}
    return table, xgboost.cv(settings, matrix(data, "amount"), n_rounds, **given)


@pytest.mark.parametrize("by_position", [False, True])
def test_cross_validation_is_xgboosts_on_the_same_folds(by_position):
    table, expected = cross_validated(ROUNDS, by_position=by_position)
    for part, name in (("train", "train"), ("valid", "test")):
        for metric in ("mae", "rmse"):
            np.testing.assert_allclose(table[f"{part}_{metric}_mean"], expected[f"{name}-{metric}-mean"], rtol=1e-5)
            # XGBoost divides by the number of folds, where one less gives the sample's standard deviation.
            spread = np.array(expected[f"{name}-{metric}-std"]) * np.sqrt(3 / 2)
            np.testing.assert_allclose(table[f"{part}_{metric}_std"], spread, rtol=1e-3)


@pytest.mark.slow
def test_cross_validation_stops_as_xgboosts():
    table, expected = cross_validated(40, early_stopping_rounds=3)
    assert 3 < table.height == len(expected["test-rmse-mean"]) < 37
    np.testing.assert_allclose(table["valid_rmse_mean"], expected["test-rmse-mean"], rtol=1e-5)


# --- predictions ------------------------------------------------------------------------------------------------------


def test_a_slice_of_a_model_is_its_range_of_rounds():
    model, booster = ours("amount", {}), theirs("amount", {})
    assert_same(model[:4], booster, iteration_range=(0, 4))
    assert_same(model[2:5], booster[2:5])


def test_leaves_part_rows_as_xgboosts_do():
    leaves = ours("amount", {}).predict(rows(), output="leaf").to_numpy()
    expected = theirs("amount", {}).predict(matrix(rows(), "amount"), pred_leaf=True)
    assert leaves.shape == expected.shape
    for mine, other in zip(leaves.T, expected.T, strict=True):
        assert len(set(zip(mine, other, strict=True))) == len(set(mine)) == len(set(other))


def test_a_class_is_that_of_softmax():
    model = ours("kind", {"objective": "multi:softprob", "num_class": 3})
    expected = theirs("kind", {"objective": "multi:softmax", "num_class": 3}).predict(matrix(rows(), "kind"))
    np.testing.assert_array_equal(model.predict(rows(), output="class"), expected)


def test_estimators_predict_as_xgboosts():
    options = {"n_estimators": 5, "max_depth": 3, "tree_method": "exact"}
    X, y, w = rows().select(FEATURES).to_numpy(), rows()["late"].to_numpy().astype(int), rows()["w"].to_numpy()
    mine = fb.FrameBoostClassifier(**options).fit(X, y, sample_weight=w)
    other = xgboost.XGBClassifier(**options, n_jobs=1).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(mine.predict_proba(X), other.predict_proba(X), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mine.feature_importances_, other.feature_importances_, rtol=1e-3)
    regressors = (fb.FrameBoostRegressor(**options), xgboost.XGBRegressor(**options, n_jobs=1))
    fitted = [each.fit(X, rows()["amount"].to_numpy()).predict(X) for each in regressors]
    np.testing.assert_allclose(fitted[0], fitted[1], rtol=1e-4, atol=1e-5)
