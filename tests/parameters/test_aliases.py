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
        "min_delta": "early_stopping_min_delta",
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
    ):  # fmt: skip
        names = names + list(ours)[len(names) :]
        theirs = dict(zip(names, ours.values(), strict=True))
        assert fb.fit(FRAME, "y", **theirs) == fb.fit(FRAME, "y", **ours)


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
    with pytest.raises(fb.ParameterError, match=r"^seed=4 and random_state=5 are one parameter, seed; give it once$"):
        fb.cv(FRAME, "y", seed=4, random_state=5)


def test_the_command_line_knows_the_names(tmp_path, capsys):
    FRAME.write_parquet(tmp_path / "t.parquet")
    shared = ["train", str(tmp_path / "t.parquet"), "--target", "y", "--quiet", "-o"]
    assert main([*shared, str(tmp_path / "a.json"), "--eta", "0.2", "--num-boost-round", "3", "--lambda", "2"]) == 0
    expected = fb.fit(FRAME, "y", learning_rate=0.2, n_estimators=3, reg_lambda=2)
    assert fb.load(tmp_path / "a.json") == expected
    assert main([*shared, str(tmp_path / "b.json"), "--eta", "0.2", "--learning-rate", "0.1"]) == 1
    assert "are one parameter, --learning-rate; give it once" in capsys.readouterr().err


def test_a_parameter_is_given_once():
    for given in ({"eta": 0.1, "learning_rate": 0.1}, {"eta": 0.1, "shrinkage_rate": 0.2}):
        with pytest.raises(fb.ParameterError, match=r"^eta=0.1 and \w+=0.[12] are one parameter, learning_rate; give"):
            fb.fit(FRAME, "y", **given)


def test_values_that_mean_the_default():
    expected = fb.fit(FRAME, "y", n_estimators=2, n_jobs=None)
    assert fb.fit(FRAME, "y", n_estimators=2, random_state=None, nthread=-1) == expected
    assert under_our_names({"n_jobs": -1, "num_threads": None}) == {"n_jobs": None}
    assert under_our_names(dict.fromkeys(Parameters().as_dict()) | {"max_depth": -1}) == {
        "max_depth": 0, **{name: None for name, value in Parameters().as_dict().items() if value is None}
    }  # fmt: skip
    assert under_our_names({"max_leaf_nodes": None}) == {"max_leaves": 0, "grow_policy": "lossguide", "max_depth": 0}


def test_values_of_other_libraries_that_change_nothing_are_taken():
    lightgbm = pytest.importorskip("lightgbm")
    of_lightgbm = lightgbm.LGBMModel().get_params()
    of_lightgbm = {
        name: of_lightgbm[name] for name in of_lightgbm.keys() & DIFFERENT.keys() - {"min_child_samples"}
    } | {"verbosity": -1}
    of_xgboost = {"missing": np.nan, "verbosity": 1, "validate_parameters": True, "device": "cpu"}
    expected = fb.fit(FRAME, "y", n_estimators=2)
    for theirs in (of_lightgbm, of_xgboost):
        assert len(theirs) > 3
        assert fb.fit(FRAME, "y", n_estimators=2, **theirs) == expected
    for refused in ({"missing": 0.0}, {"device": "cuda"}, {"subsample_freq": 0, "subsample": 0.5}, {"verbosity": 3}):
        with pytest.raises(fb.ParameterError, match=f"unknown parameter '{next(iter(refused))}'"):
            fb.fit(FRAME, "y", **refused)


def test_what_means_something_else_is_refused():
    for name in DIFFERENT:
        with pytest.raises(fb.ParameterError, match=rf"^unknown parameter '{name}': it [a-z]"):
            fb.fit(FRAME, "y", **{name: 7})  # 1 and 0 may be how it is here anyway
    with pytest.raises(fb.ParameterError, match=re.escape("draws rows for several trees at once")):
        under_our_names({"bagging_freq": 5})
