"""The names that XGBoost and LightGBM have for parameters."""

import re

import numpy as np
import polars as pl
import pytest
import xgboost

import frameboost as fb
from frameboost.cli import main
from frameboost.parameters.parameters import ALIASES, DIFFERENT, Parameters, under_our_names

FRAME = pl.DataFrame({"x": [i % 9 for i in range(90)], "z": [i % 4 for i in range(90)]}).with_columns(
    y=pl.col("x") * 2.0 + pl.col("z")
)


def test_names_are_of_parameters_and_of_nothing_here():
    known = set(Parameters().as_dict())
    assert set(ALIASES.values()) <= known
    assert not (set(ALIASES) | set(DIFFERENT)) & known
    assert not set(ALIASES) & set(DIFFERENT)


def test_a_lightgbm_alias_is_one_of_lightgbms():
    lightgbm = pytest.importorskip("lightgbm")
    groups = lightgbm.basic._ConfigAliases._get_all_param_aliases()
    of_lightgbm = {alias: name for name, aliases in groups.items() for alias in [name, *aliases]}
    theirs = {
        "n_estimators": "num_iterations", "max_leaves": "num_leaves", "reg_lambda": "lambda_l2",
        "n_jobs": "num_threads",
        "reg_alpha": "lambda_l1", "subsample": "bagging_fraction", "colsample_bytree": "feature_fraction",
        "colsample_bynode": "feature_fraction_bynode", "early_stopping_rounds": "early_stopping_round",
        "min_child_weight": "min_sum_hessian_in_leaf", "min_child_samples": "min_data_in_leaf",
        "categorical_features": "categorical_feature",
        "min_delta": "early_stopping_min_delta", "gamma": "min_gain_to_split", "subsample_freq": "bagging_freq",
        "rate_drop": "drop_rate", "lambdarank_num_pair_per_sample": "lambdarank_truncation_level",
        "lambdarank_normalization": "lambdarank_norm",
    }  # fmt: skip
    for alias, ours in ALIASES.items():
        if alias in of_lightgbm and alias not in ("alpha", "lambda"):  # XGBoost's alpha is no parameter of a loss
            assert of_lightgbm[alias] == theirs.get(ours, ours), alias


def test_a_model_is_the_same_by_any_name():
    ours = {
        "learning_rate": 0.2, "n_estimators": 4, "reg_lambda": 2.0, "reg_alpha": 0.1, "gamma": 0.5, "max_leaves": 5,
        "seed": 3, "subsample": 0.8, "colsample_bytree": 0.5, "min_child_weight": 2.0,
    }  # fmt: skip
    for names in (
        ["eta", "num_boost_round", "lambda", "alpha", "min_split_loss", "max_leaves", "random_state"],
        ["shrinkage_rate", "num_iterations", "lambda_l2", "lambda_l1", "gamma", "max_leaves", "random_seed",
         "bagging_fraction", "feature_fraction", "min_sum_hessian_in_leaf"],
        ["eta", "iterations", "l2_leaf_reg"],
    ):  # fmt: skip
        names = names + list(ours)[len(names) :]
        theirs = dict(zip(names, ours.values(), strict=True))
        assert fb.fit(FRAME, "y", **theirs) == fb.fit(FRAME, "y", **ours)
    of_catboost = fb.fit(FRAME, "y", depth=2, rsm=0.5, iterations=2)
    assert of_catboost == fb.fit(FRAME, "y", max_depth=2, colsample_bylevel=0.5, n_estimators=2)
    assert of_catboost != fb.fit(FRAME, "y", n_estimators=2)


def test_num_leaves_grows_leaf_by_leaf_without_a_limit_of_depth_as_lightgbm_does():
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    x = np.exp(rng.normal(size=(3000, 2)) * 2)  # skewed, so that some leaves are deep
    y = x[:, 0] + np.sqrt(x[:, 1])
    named = {"num_leaves": 31, "learning_rate": 0.3, "lambda_l2": 1.0}
    parameters = {"min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 1.0, "verbose": -1, "num_threads": 1}
    booster = lightgbm.train(named | parameters, lightgbm.Dataset(x, y), 3)
    theirs = booster.trees_to_dataframe().filter(["tree_index", "node_depth", "left_child"])
    frame = pl.DataFrame(x, schema=["a", "b"]).with_columns(y=y)
    model = fb.fit(frame, "y", n_estimators=3, **named)
    by_tree = model.trees.group_by("tree", maintain_order=True)
    ours = by_tree.agg(pl.col("feature").is_null().sum(), pl.col("depth").max())
    leaves = theirs["left_child"].isna().groupby(theirs["tree_index"]).sum()
    assert ours["feature"].to_list() == leaves.tolist() == [31] * 3
    assert ours["depth"].min() > 6
    assert theirs.groupby("tree_index")["node_depth"].max().min() > 7  # LightGBM's root has depth 1
    spelled_out = {"max_leaves": 31, "grow_policy": "lossguide", "max_depth": 0}
    assert under_our_names({"max_leaf_nodes": 31}) == spelled_out
    assert under_our_names({"num_leaves": 31, "max_depth": -1}) == spelled_out
    assert under_our_names({"num_leaf": 31, "max_depth": 4}) == spelled_out | {"max_depth": 4}
    assert under_our_names({"max_leaves": 31}) == {"max_leaves": 31}


def test_xgboosts_names_give_xgboosts_predictions():
    named = {"eta": 0.2, "lambda": 3.0, "alpha": 0.2, "min_split_loss": 1.0, "max_depth": 3}
    data = xgboost.DMatrix(FRAME.select("x", "z").to_numpy(), FRAME["y"].to_numpy())
    theirs = xgboost.train(named | {"tree_method": "hist"}, data, num_boost_round=5).predict(data)
    ours = fb.fit(FRAME, "y", num_boost_round=5, **named).predict(FRAME)
    assert ours.to_list() == pytest.approx(theirs.tolist(), rel=1e-5)


def test_cross_validation_knows_the_names():
    expected = fb.cv(FRAME, "y", folds=2, seed=4, n_estimators=9, early_stopping_rounds=2, learning_rate=1.0)
    named = fb.cv(FRAME, "y", folds=2, random_state=4, num_round=9, early_stopping_round=2, eta=1.0)
    assert named.equals(expected)
    with pytest.raises(fb.ParameterError, match=r"^seed=4 and random_state=5 are the same parameter, seed; set only"):
        fb.cv(FRAME, "y", seed=4, random_state=5)


def test_lightgbms_metric_is_the_metric_that_is_measured():
    lightgbm = pytest.importorskip("lightgbm")
    expected = fb.fit(FRAME, "y", n_estimators=2, valid=0.5, eval_metric=["mae", "rmse"])
    for name in ("metric", *lightgbm.basic._ConfigAliases.get("metric") - {"metric"}):
        model = fb.fit(FRAME, "y", n_estimators=2, valid=0.5, verbose=-1, **{name: ["mae", "rmse"]})
        assert model.history.columns == ["round", "valid_mae", "valid_rmse"]
        assert model == expected and model.history.equals(expected.history)
        assert fb.fit(FRAME, "y", n_estimators=1, valid=0.5, **{name: None}).history.columns[-1] == "valid_rmse"
        table = fb.cv(FRAME, "y", folds=2, n_estimators=1, train_metrics=False, **{name: "mae"})
        assert table.columns == ["round", "valid_mae_mean", "valid_mae_std"]
        assert fb.plan(FRAME, "y", **{name: "mae"}).features == fb.plan(FRAME, "y").features
        with pytest.raises(fb.ParameterError, match=f"^eval_metric='rmse' and {name}='mae' are the same parameter, ev"):
            fb.fit(FRAME, "y", eval_metric="rmse", **{name: "mae"})


def test_the_command_line_knows_the_names(tmp_path, capsys):
    FRAME.write_parquet(tmp_path / "t.parquet")
    shared = ["train", str(tmp_path / "t.parquet"), "--target", "y", "--quiet", "-o"]
    assert main([*shared, str(tmp_path / "a.json"), "--eta", "0.2", "--num-boost-round", "3", "--lambda", "2"]) == 0
    expected = fb.fit(FRAME, "y", learning_rate=0.2, n_estimators=3, reg_lambda=2)
    assert fb.load(tmp_path / "a.json") == expected
    assert main([*shared, str(tmp_path / "b.json"), "--eta", "0.2", "--learning-rate", "0.1"]) == 1
    assert "are the same parameter, --learning-rate; set only that" in capsys.readouterr().err


def test_a_parameter_is_given_once():
    for given in ({"eta": 0.1, "learning_rate": 0.1}, {"eta": 0.1, "shrinkage_rate": 0.2}):
        with pytest.raises(
            fb.ParameterError, match=r"^eta=0.1 and \w+=0.[12] are the same parameter, learning_rate; set"
        ):
            fb.fit(FRAME, "y", **given)


def test_values_that_mean_the_default():
    expected = fb.fit(FRAME, "y", n_estimators=2, n_jobs=None)
    assert fb.fit(FRAME, "y", n_estimators=2, random_state=None, nthread=-1) == expected
    assert under_our_names({"n_jobs": -1, "num_threads": None}) == {"n_jobs": None}
    assert under_our_names(dict.fromkeys(Parameters().as_dict()) | {"max_depth": -1}) == {
        "max_depth": 0, **{name: None for name, value in Parameters().as_dict().items() if value is None}
    }  # fmt: skip
    assert under_our_names({"max_leaf_nodes": None}) == {"max_leaves": 0, "grow_policy": "lossguide", "max_depth": 0}


def test_a_base_score_may_be_an_array_of_one():
    of_xgboost = np.array(xgboost.XGBRegressor(n_estimators=1).fit(FRAME.select("x"), FRAME["y"]).intercept_)
    assert of_xgboost.shape == (1,)
    expected = fb.fit(FRAME, "y", n_estimators=2, base_score=float(of_xgboost[0]))
    for given in (of_xgboost, [float(of_xgboost[0])]):
        assert fb.fit(FRAME, "y", n_estimators=2, base_score=given) == expected
    with pytest.raises(fb.ParameterError, match=r"^base_score has 2 numbers, and the objective has 1 output$"):
        fb.fit(FRAME, "y", base_score=[1, 2])


def test_values_of_other_libraries_that_change_nothing_are_taken():
    lightgbm = pytest.importorskip("lightgbm")
    of_lightgbm = lightgbm.LGBMModel().get_params()
    changed = {"learning_rate", "n_estimators", "num_leaves", "min_child_samples", "min_child_weight", "reg_lambda"}
    of_lightgbm = {
        name: of_lightgbm[name] for name in of_lightgbm.keys() - changed - {"objective", "importance_type"}
    } | {"verbosity": -1, "max_depth": 6}
    of_xgboost = {"missing": np.nan, "verbosity": 1, "validate_parameters": True, "device": "cpu"}
    of_xgboost |= {"debug_synchronize": True, "process_type": "default"}
    expected = fb.fit(FRAME, "y", n_estimators=2)
    for theirs in (of_lightgbm, of_xgboost):
        assert len(theirs) > 3
        assert fb.fit(FRAME, "y", n_estimators=2, **theirs) == expected
    for refused in ({"missing": 0.0}, {"device": "cuda"}, {"verbosity": 3}):
        with pytest.raises(fb.ParameterError, match=f"unknown parameter '{next(iter(refused))}'"):
            fb.fit(FRAME, "y", **refused)


def test_what_means_something_else_is_refused():
    for name in DIFFERENT:
        with pytest.raises(fb.ParameterError, match=rf"^unknown parameter '{name}': it [a-z]"):
            fb.fit(FRAME, "y", **{name: 7})  # 1 and 0 may be how it is here anyway
    with pytest.raises(fb.ParameterError, match=r"^bagging_freq=0 never draws rows, and subsample is less than 1"):
        fb.fit(FRAME, "y", bagging_freq=0, subsample=0.5)
    with pytest.raises(
        fb.ParameterError, match=r"^min_split_gain can't be combined with tree_method='exact': it stops at"
    ):
        fb.fit(FRAME, "y", min_split_gain=1, tree_method="exact")


def test_every_parameter_of_lightgbm_is_taken_or_says_what_to_write():
    lightgbm = pytest.importorskip("lightgbm")
    groups = lightgbm.basic._ConfigAliases._get_all_param_aliases()
    names = {alias for name, aliases in groups.items() for alias in [name, *aliases]}
    arguments = {"data", "valid", "train", "test", "weight", "label", "group", "query", "query_id", "objective", "loss"}
    of_objective = {"app", "application", "objective_type", "metric", "metrics", "metric_types", "verbosity", "verbose"}
    unclear = []
    for name in sorted(names - arguments - of_objective - {"device", "device_type", "lambda", "init_score"}):
        try:
            fb.fit(FRAME, "y", **{name: "?"})
        except fb.ParameterError as error:
            if re.match(rf"unknown parameter '{name}'(; (did you mean|the parameters are)|$)", str(error)):
                unclear.append(name)
    assert not unclear


GROWN = {
    "num_leaves": 8,
    "learning_rate": 0.3,
    "min_data_in_leaf": 1,
    "lambda_l2": 1.0,
    "min_sum_hessian_in_leaf": 1e-3,
}
ALL_DROPPED = {"boosting_type": "dart", "drop_rate": 1.0, "skip_drop": 0.0, "uniform_drop": True, "max_drop": -1}


@pytest.mark.parametrize("more", [ALL_DROPPED, ALL_DROPPED | {"xgboost_dart_mode": True}, {"min_split_gain": 40.0}])
def test_lightgbms_dart_and_least_gain_give_its_predictions(more):
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    x = rng.integers(0, 20, (400, 2)).astype(float)
    y = x[:, 0] + np.sin(x[:, 1]) + rng.normal(size=400) * 0.1
    own = {"verbose": -1, "min_data_in_bin": 1, "num_threads": 1, "boost_from_average": False}
    theirs = lightgbm.train(GROWN | more | own, lightgbm.Dataset(x, y), 6).predict(x)
    frame = pl.DataFrame(x, schema=["a", "b"]).with_columns(y=y)
    ours = fb.fit(frame, "y", n_estimators=6, boost_from_average=False, **GROWN, **more)
    np.testing.assert_allclose(ours.predict(frame).to_numpy(), theirs, rtol=1e-6)


def test_lightgbms_dart_has_its_defaults():
    expected = {
        "booster": "dart",
        "rate_drop": 0.1,
        "skip_drop": 0.5,
        "sample_type": "weighted",
        "normalize_type": "dart",
    }
    assert under_our_names({"boosting": "dart"}) == expected
    assert under_our_names({"boosting": "dart", "rate_drop": 0.3, "uniform_drop": False}) == expected | {
        "rate_drop": 0.3
    }


def test_lightgbms_forest_is_a_round_of_trees_whose_mean_counts():
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3000, 4))
    y = x[:, 0] * x[:, 1] + x[:, 2]
    frame = pl.DataFrame(x, schema=list("abcd")).with_columns(y=y)
    drawn = {
        "boosting_type": "rf",
        "bagging_freq": 1,
        "bagging_fraction": 0.6,
        "feature_fraction": 0.75,
        "num_leaves": 31,
    }
    model = fb.fit(frame[:2000], "y", n_estimators=40, min_child_samples=20, reg_lambda=0.0, **drawn)
    assert (model.n_rounds, model.n_trees) == (1, 40)
    spelled_out = {"num_parallel_tree": 40, "n_estimators": 1, "learning_rate": 1.0, "subsample": 0.6}
    leaves = {"colsample_bytree": 0.75, "num_leaves": 31, "min_child_samples": 20, "reg_lambda": 0.0}
    assert model == fb.fit(frame[:2000], "y", **spelled_out, **leaves)
    theirs = lightgbm.train(drawn | {"verbose": -1, "num_threads": 1}, lightgbm.Dataset(x[:2000], y[:2000]), 40)
    both = model.predict(frame[2000:]).to_numpy(), theirs.predict(x[2000:])
    error, of_theirs = (np.mean((predicted - y[2000:]) ** 2) for predicted in both)
    assert error == pytest.approx(of_theirs, rel=0.25) and error < np.var(y) / 3
    regressor = fb.FrameBoostRegressor(n_estimators=7).set_params(boosting_type="random_forest", subsample=0.5)
    chosen = regressor.get_params()
    assert (chosen["num_parallel_tree"], chosen["n_estimators"], chosen["learning_rate"]) == (7, 1, 1.0)


def test_rounds_may_share_a_sample_of_rows():
    rows = pl.DataFrame({"x": np.arange(400) % 40, "y": np.arange(400) % 40 * 1.0})

    def covers(freq):  # the sums of the hessians of the trees' roots: how many rows were drawn
        model = fb.fit(rows, "y", n_estimators=6, max_depth=1, subsample=0.5, bagging_freq=freq)
        return model.trees.filter(pl.col("depth") == 0)["cover"].to_list()

    each, by_three = covers(1), covers(3)
    assert by_three == [each[0]] * 3 + [each[3]] * 3 and len(set(each)) > 3
    shared = fb.fit(rows, "y", n_estimators=3, subsample=0.5, subsample_freq=3, engine="polars")
    assert shared == fb.fit(rows, "y", n_estimators=3, subsample=0.5, bagging_freq=3)
