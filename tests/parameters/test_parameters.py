"""Parameters: XGBoost's names, defaults and ranges, and errors that name what is wrong."""

import json
import math
from dataclasses import fields
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import xgboost

import frameboost as fb
from frameboost.cli import options
from frameboost.parameters.parameters import Parameters, markdown_table
from tests.support.cases import cases

DATA = pl.DataFrame({"x": [1, 2, 3, 4] * 5, "y": [0, 0, 1, 5] * 5})


def message(**parameters) -> str:
    with pytest.raises(fb.ParameterError) as error:
        fb.fit(DATA, "y", **parameters)
    return str(error.value)


def test_defaults_are_xgboosts():
    booster = xgboost.train({"tree_method": "hist"}, xgboost.DMatrix(np.zeros((2, 1)), np.zeros(2)), 1)
    config = json.loads(booster.save_config())["learner"]["gradient_booster"]["tree_train_param"]
    theirs = {"learning_rate": "eta", "reg_lambda": "reg_lambda", "reg_alpha": "reg_alpha"}
    ours = Parameters()
    for name in ("learning_rate", "max_depth", "max_leaves", "min_child_weight", "gamma", "reg_lambda", "reg_alpha",
                 "max_delta_step", "max_bin"):  # fmt: skip
        value = next(config[n] for n in (name, theirs.get(name), "min_split_loss") if n in config)
        assert float(np.float32(getattr(ours, name) or 0.0)) == pytest.approx(float(value)), name
    assert config["grow_policy"] == "depthwise" == ours.grow_policy
    assert ours.n_estimators == 100  # XGBRegressor's


@cases(
    ("name", "text"),
    [
        ("n_estimator", "unknown parameter 'n_estimator'; did you mean 'n_estimators'?"),
        ("max_dept", "unknown parameter 'max_dept'; did you mean 'max_depth'?"),
        ("learningrate", "unknown parameter 'learningrate'; did you mean 'learning_rate'?"),
        ("num_bost_round", "unknown parameter 'num_bost_round'; did you mean 'n_estimators'?"),
        ("label", "unknown parameter 'label'; here it is called 'target'"),
        ("evals", "unknown parameter 'evals'; here it is called 'valid'"),
        ("featres", "unknown parameter 'featres'; did you mean 'features'?"),
        ("Max_Depth", "unknown parameter 'Max_Depth'; did you mean 'max_depth'?"),
    ],
)
def test_an_unknown_parameter_suggests_the_nearest(name, text):
    assert message(**{name: 1}) == text


def test_a_name_like_no_other_lists_them_all():
    text = message(zzz=1)
    assert all(item.name in text for item in fields(Parameters))


COUNT = "an integer of at least 1 and at most 1,000,000,000"


@cases(
    ("name", "values", "kind"),
    [
        ("n_estimators", [0, 2.5, True, "9"], COUNT),
        ("learning_rate", [0.0, 1.01, math.nan], "a finite number greater than 0 and at most 1"),
        ("max_depth", [-2, 65], "an integer of at least 0 and at most 64"),
        ("max_leaves", [-1], "an integer of at least 0 and at most 1,000,000,000"),
        ("grow_policy", ["losguide"], "one of 'depthwise', 'lossguide', 'symmetric'"),
        ("tree_method", ["gpu_hist"], "one of 'auto', 'hist', 'approx', 'exact'"),
        *((name, [-0.1, math.inf, [1]], "a finite number of at least 0")
          for name in ("min_child_weight", "gamma", "reg_lambda", "reg_alpha", "max_delta_step", "min_delta")),
        ("max_bin", [1, 65_536], "an integer of at least 2 and at most 65535"),
        ("num_class", [10**9], "an integer of at least 1 and at most 10000"),
        ("num_parallel_tree", [2 * 10**8], "an integer of at least 1 and at most 1,000,000"),
        ("seed", [2**63], f"an integer of at least 0 and at most {2**63 - 1:,}"),
        ("base_score", ["mean", [], [1.0, math.nan], {"a": 1}],
         "a finite number, a list with one for each output, 'zero' or None"),
        ("n_jobs", [0], "an integer of at least 1 and at most 4096"),
    ],
)  # fmt: skip
def test_values_out_of_range_are_refused(name, values, kind):
    nearest = {"grow_policy": "lossguide", "tree_method": "hist"}
    for value in values:
        rest = f"; did you mean {nearest[name]!r}?" if name in nearest else ""
        assert message(**{name: value}) == f"{name} must be {kind}, not {value!r}{rest}"


INTEGERS = [item.name for item in fields(Parameters) if item.type in ("int", "int | None")]


@cases("name", INTEGERS)
@cases("value", [2**63, 10**400, 1e308])
def test_integers_beyond_all_bounds_are_refused(name, value):
    text = message(**{name: value}, **({"objective": "multi:softmax"} if name == "num_class" else {}))
    assert text.startswith(f"{name} must be an integer of at least ") and len(text) < 250


@cases(
    ("name", "value"),
    [
        ("n_estimators", 1), ("n_estimators", np.int64(2)), ("n_estimators", 2.0), ("learning_rate", 1),
        ("learning_rate", np.float32(0.5)), ("max_depth", 0), ("max_depth", 64), ("max_bin", 2), ("max_bin", 65_535),
        ("gamma", 0), ("reg_lambda", 0), ("base_score", -3), ("n_jobs", 1), ("min_child_weight", 0),
        ("max_leaves", 10**9), ("max_cat_to_onehot", 10**9), ("max_cat_threshold", 10**9), ("seed", 2**63 - 1),
    ],
)  # fmt: skip
def test_values_at_the_edge_of_the_range_are_taken(name, value):
    fb.fit(DATA, "y", **{"n_estimators": 1} | {name: value})


def test_exact_refuses_what_it_does_not_honour():
    assert message(tree_method="exact", max_leaves=4) == (
        "max_leaves and grow_policy='lossguide' can't be combined with tree_method='exact'; use 'hist'"
    )
    assert "can't be combined with tree_method='exact'" in message(tree_method="exact", grow_policy="lossguide")
    assert "max_depth=0 (no limit) can't be combined" in message(tree_method="exact", max_depth=0)


def test_documentation_names_every_parameter():
    for item in fields(Parameters):
        assert f"\n{item.name} : " in fb.fit.__doc__
    page = (Path(__file__).parents[2] / "docs" / "parameters.md").read_text(encoding="utf-8")
    assert markdown_table() in page, "docs/parameters.md is not what frameboost.parameters.parameters says"


@cases(("name", "written", "read"), [
    ("threshold", "share=0.2", {"share": 0.2}), ("threshold", "f1", "f1"), ("threshold", "0.3", 0.3),
    ("threshold", "false_positive=.5,false_negative=1e1", {"false_positive": 0.5, "false_negative": 10.0}),
    ("class_weight", "it's late=2.5", {"it's late": 2.5}), ("class_weight", "yes=3,no=0.5", {"yes": 3.0, "no": 0.5}),
    ("feature_weights", "x=0.5", {"x": 0.5}), ("monotone_constraints", "x=-1", {"x": -1}),
])  # fmt: skip
def test_a_mapping_on_the_command_line_is_that_of_python(name, written, read):
    assert getattr(Parameters(**{name: options.value(written)}), name) == read
