"""Exported models, compared with what the installed XGBoost predicts with them."""

import datetime as dt
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost

import frameboost as fb
from frameboost.interop.to_xgboost import to_xgboost
from frameboost.loading import from_xgboost
from frameboost.losses.built_in import LOSSES, get_loss
from frameboost.losses.custom import foreign_loss
from frameboost.parameters.parameters import Parameters
from frameboost.schema.types import Feature, FeatureType
from frameboost.trees.tree import Tree
from tests.interop.agreement import assert_close, assert_same_leaves
from tests.support.cases import cases, some_pairs
from tests.support.models import model_of_parts

N = 300


def booster_of(model):
    booster = xgboost.Booster()
    booster.load_model(bytearray(to_xgboost(model.ensemble), "utf-8"))
    return booster


def data_of(frame, model):
    """Return the rows as XGBoost takes them: strings as Categorical, all else as numbers, such as days."""
    columns = [
        pl.col(f.name).cast(pl.Enum(list(f.categories)), strict=False) if f.type.name == "string"
        else pl.col(f.name).to_physical().cast(pl.Float32, strict=False)
        for f in model.ensemble.features
    ]  # fmt: skip
    return xgboost.DMatrix(frame.select(columns), enable_categorical=True)


# Their prediction is the margin, too.
OF_LIGHTGBM = dict.fromkeys(("reg:huber", "reg:fair", "reg:mape"), "reg:squarederror")


def check(model, frame, data=None):
    """XGBoost predicts alike, and what is read back from it does, too."""
    booster = booster_of(model)
    data = data_of(frame, model) if data is None else data
    margins = booster.predict(data, output_margin=True)
    assert_close(model, frame, margins, single=True)
    assert_same_leaves(model, frame, booster.predict(data, pred_leaf=True))
    back = from_xgboost(booster)
    assert back.objective == OF_LIGHTGBM.get(model.objective, model.objective)
    assert back.features == model.features
    assert back.n_rounds == model.n_rounds
    numbers = frame.with_columns(
        pl.col(f.name).cast(pl.Float32) for f in model.ensemble.features if f.type.name not in ("string", "boolean")
    )
    assert_close(back, numbers, margins, single=True)
    return booster


def random_frame(rng, n=N):
    frame = pl.DataFrame({
        "single": pl.Series(rng.normal(size=n), dtype=pl.Float32),
        "double": np.round(rng.normal(size=n), 1),
        "whole": pl.Series(rng.integers(-50, 50, n), dtype=pl.Int16),
        "yes": rng.random(n) < 0.5,
        "word": rng.choice(["b", "a", "é", "日本", ""], n),
        "day": [dt.date(2020, 1, 1) + dt.timedelta(days=int(d)) for d in rng.integers(0, 999, n)],
    })  # fmt: skip
    return frame.with_columns(pl.when(pl.Series(rng.random(n) > 0.15)).then(pl.col(c)) for c in frame.columns)


def labels(frame, rng):
    x = frame["double"].fill_null(0) + (frame["word"] == "a").fill_null(False).cast(float)
    x += frame["yes"].is_null().cast(float) + frame["single"].fill_null(0)
    return (x + rng.normal(size=len(frame))).to_numpy()


@pytest.mark.slow
@cases("seed", range(10))
def test_random_models(seed):
    rng = np.random.default_rng(seed)
    frame = random_frame(rng).with_columns(pl.col("day").cast(pl.Int32))
    frame = frame.with_columns(y=pl.Series(labels(frame, rng)))
    given = {
        "n_estimators": int(rng.integers(1, 8)), "max_depth": int(rng.integers(1, 6)),
        "learning_rate": float(rng.uniform(0.2, 1)), "num_parallel_tree": int(rng.choice([1, 1, 2])),
        "max_cat_to_onehot": int(rng.choice([1, 100])), "min_child_weight": float(rng.choice([0.0, 3.0])),
        "grow_policy": str(rng.choice(["depthwise", "lossguide", "symmetric"])), "subsample": 0.9,
    }  # fmt: skip
    if seed % 6 == 5:
        given |= {"booster": "dart", "rate_drop": 0.5, "one_drop": True}
    model = fb.fit(frame, "y", **given)
    new = random_frame(rng).with_columns(pl.col("day").cast(pl.Int32))
    check(model, pl.concat([frame.drop("y"), new]))


@pytest.mark.parametrize("tree_method", ["hist", "exact"])
def test_dates_are_days(tree_method):
    rng = np.random.default_rng(0)
    frame = random_frame(rng)
    model = fb.fit(frame.with_columns(y=frame["day"].is_null().cast(float) + pl.Series(labels(frame, rng))), "y",
                   n_estimators=4, tree_method=tree_method)  # fmt: skip
    booster = booster_of(model)
    margins = booster.predict(data_of(frame, model), output_margin=True)
    np.testing.assert_allclose(margins, model.predict(frame, "margin").to_numpy(), atol=1e-5)


@pytest.mark.slow
@cases(
    "objective", [name for name in LOSSES if name != "reg:expectileerror" and name[:5] != "dist:"]
)  # tests/losses/test_expectile.py
def test_all_objectives(objective):
    rng = np.random.default_rng(1)
    frame = random_frame(rng).drop("day")
    y = labels(frame, rng)
    more = {}
    if objective.startswith(("multi", "rank")) and objective != "rank:map":
        y = np.digitize(y, [-0.5, 0.5, 1.5])
    elif objective != "reg:squarederror" and not objective.endswith(("absoluteerror", "quantileerror")):
        y = (y > 0.5).astype(float) + (objective in ("reg:gamma", "survival:aft", "survival:cox"))
    if objective.startswith("rank"):
        more = {"group": "query"}
    if objective == "survival:aft":
        more = {"label_upper_bound": "y"}
    given = {"reg:quantileerror": {"quantile_alpha": [0.1, 0.5]}, "reg:tweedie": {"tweedie_variance_power": 1.2},
             "survival:aft": {"aft_loss_distribution": "extreme", "aft_loss_distribution_scale": 2.0},
             "count:poisson": {"max_delta_step": 0.4}, "rank:ndcg": {"ndcg_exp_gain": False}}  # fmt: skip
    given = given.get(objective, {})
    rows = frame.with_columns(y=pl.Series(y), query=pl.int_range(N) // 10)
    features = frame.columns
    model = fb.fit(rows, "y", objective=objective, features=features, n_estimators=4, max_depth=3, **more, **given)
    booster = check(model, frame)
    predicted = booster.predict(data_of(frame, model))
    np.testing.assert_allclose(predicted, model.predict(frame).to_numpy(), rtol=1e-5, atol=1e-6)
    kept = from_xgboost(booster).parameters
    assert {key: kept[key] for key in given} == given
    # XGBoost can go on from there.
    data = data_of(frame, model)
    data.set_label(y)
    if objective.startswith("rank"):
        data.set_group([10] * (N // 10))
    if objective == "survival:aft":
        data.set_float_info("label_lower_bound", y)
        data.set_float_info("label_upper_bound", y)
    parameters = (
        {"objective": OF_LIGHTGBM.get(objective, objective)}
        | given
        | ({"num_class": 4} if objective.startswith("multi") else {})
    )
    more_trees = xgboost.train(parameters, data, 1, xgb_model=booster)
    assert more_trees.num_boosted_rounds() == 5


def test_several_targets():
    rng = np.random.default_rng(2)
    frame = random_frame(rng).drop("day")
    rows = frame.with_columns(a=pl.Series(labels(frame, rng)), b=pl.Series(rng.normal(size=N)))
    check(fb.fit(rows, ["a", "b"], features=frame.columns, n_estimators=3, num_parallel_tree=2, subsample=0.5), frame)


@pytest.mark.slow
@cases("objective, base", some_pairs(
    ["reg:squarederror", "binary:logistic", "count:poisson", "binary:logitraw"],
    [-40.0, -14.0, -1.7, 1e-9, 0.3, 9.7, 16.0, 40.0], 3,
))  # fmt: skip
def test_base_margins_that_a_base_score_can_not_say(base, objective):
    """A probability next to 1 has no float32, and XGBoost takes none that is within a millionth of it."""
    loss = get_loss(objective, Parameters(max_delta_step=0.7).shaping())
    leaf = Tree((-1,), (None,), (None,), (False,), (-1,), (-1,), (0.0,), (1.0,), (0.5,))
    trees = [leaf, stump(1.5, missing_left=True)]
    model = model_of_parts(loss, {}, [Feature("x", FeatureType("float64"))], [base], trees)
    frame = pl.DataFrame({"x": [1.0, 2.0, None]})
    assert_close(model, frame, booster_of(model).predict(data_of(frame, model), output_margin=True), single=True)


def stump(threshold=None, categories=None, *, missing_left=False, with_missing=False, output=0):
    return Tree((0, -1, -1), (threshold, None, None), (categories, None, None), (missing_left, False, False),
                (1, -1, -1), (2, -1, -1), (1.0, 0.0, 0.0), (2.0, 1.0, 1.0), (0.0, -1.0, 2.0), output,
                (with_missing, False, False))  # fmt: skip


def model_of(feature, trees):
    return model_of_parts(get_loss("reg:squarederror", {"scale_pos_weight": 1.0}), {}, [feature], [0.0], trees)


@cases("dtype", [pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8])
def test_categories_of_integers_keep_their_values(dtype, tmp_path):
    low = 0 if dtype == pl.UInt8 else -3
    values = pl.Series("c", [low, 7, 20, 100, None] * 20, dtype=dtype)
    labels = pl.Series("y", [2.0, 9.0, 1.0, 5.0, 0.0] * 20)
    frame = pl.DataFrame([values, labels])
    model = fb.fit(frame, "y", categorical_features=["c"], n_estimators=3)
    assert model.predict(frame)[:5].n_unique() == 5
    model.to_xgboost(tmp_path / "m.json")
    booster = xgboost.XGBRegressor(enable_categorical=True)
    booster.load_model(tmp_path / "m.json")
    known = values.unique().drop_nulls().to_numpy()
    X = pd.DataFrame({"c": pd.Categorical(frame["c"].to_list(), categories=known)})
    np.testing.assert_allclose(booster.predict(X), model.predict(frame), rtol=1e-6)
    np.testing.assert_allclose(fb.from_xgboost(tmp_path / "m.json").predict(frame), model.predict(frame), rtol=1e-6)
    with pytest.raises(xgboost.core.XGBoostError, match="data type doesn't match"):
        booster.predict(frame.select("c").fill_null(7).to_pandas())
    dates = frame.with_columns(pl.col("c").cast(pl.Int32).cast(pl.Date))
    with pytest.raises(fb.ParameterError, match="feature 'c' has categories of type date, which XGBoost can't hold"):
        fb.fit(dates, "y", categorical_features=["c"], n_estimators=1).to_xgboost(tmp_path / "m.json")


@pytest.mark.slow
@pytest.mark.parametrize("missing_left", [False, True])
@pytest.mark.parametrize("with_missing", [False, True])
def test_categories_and_those_that_are_new(missing_left, with_missing):
    feature = Feature("c", FeatureType("string"), ("a", "b", "c", "d"))
    model = model_of(feature, [stump(None, c, missing_left=missing_left, with_missing=with_missing)
                               for c in [(0,), (1, 3), (0, 1, 2, 3)]])  # fmt: skip
    frame = pl.DataFrame({"c": ["a", "b", "c", "d", None]})
    check(model, frame)
    # As a code, a category that is new is sent where it goes here.
    new = booster_of(model).predict(xgboost.DMatrix(np.array([[4.0], [99.0]]), feature_names=["c"]))
    assert new.tolist() == model.predict(pl.DataFrame({"c": ["e", "zz"]})).to_list()
    codes = model_of(Feature("c", FeatureType("codes"), (2, 5, 700, 16_777_215)), model.ensemble.trees)
    values = np.array([[2.0], [5.0], [700.0], [16_777_215.0], [np.nan], [0.0], [3.0], [1e6]], dtype=np.float32)
    check(codes, pl.DataFrame({"c": values[:, 0]}), xgboost.DMatrix(values, feature_names=["c"]))


@pytest.mark.parametrize("type_name", ["float32", "float64", "int32", "boolean", "date"])
def test_splits_on_whether_there_is_a_value(type_name):
    feature = Feature("x", FeatureType(type_name))
    booster = booster_of(model_of(feature, [stump()]))
    x = np.array([[-3.4028235e38], [0.0], [3.4028235e38], [np.nan]], dtype=np.float32)
    assert booster.predict(xgboost.DMatrix(x, feature_names=["x"])).tolist() == [-1.0, -1.0, -1.0, 2.0]
    infinite = np.array([[np.inf], [-np.inf]])
    assert booster.inplace_predict(infinite, validate_features=False).tolist() == [-1.0, -1.0]


def test_thresholds_of_every_magnitude_are_exact_on_float32():
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2**32, 400, dtype=np.uint64).astype(np.uint32).view(np.float32)
    values = np.unique(np.concatenate([bits[np.isfinite(bits)], np.float32([0.0, 1e-45, -1e-45, 0.1, 3.4028235e38])]))
    above = np.nextafter(values.astype(np.float64), np.inf)  # rounded to float32 they are the values again
    for kind, thresholds in (("float32", values), ("float64", values), ("float32", above[values < values.max()])):
        model = model_of(Feature("x", FeatureType(kind)), [stump(float(v)) for v in thresholds])
        with np.errstate(over="ignore"):
            rows = [values, np.nextafter(values, np.float32(np.inf)), np.nextafter(values, np.float32(-np.inf))]
        x = np.concatenate(rows)
        x = x[np.isfinite(x)]
        leaves = booster_of(model).predict(xgboost.DMatrix(x[:, None], feature_names=["x"]), pred_leaf=True)
        assert (leaves == model.predict(pl.DataFrame({"x": x}), "leaf").to_numpy()).all()


def test_a_value_that_is_a_threshold_stays_on_its_side():
    """Cuts are values of the data: one that float32 rounds down must not go left for it."""
    prices = [round(0.1 * i, 1) for i in range(1, 200)]
    for kind, rows, numbers in [("float64", prices, prices), ("decimal(9,1)", range(1, 200), prices),
                                ("int64", range(2**24 - 100, 2**24), range(2**24 - 100, 2**24))]:  # fmt: skip
        model = model_of(Feature("x", FeatureType(kind)), [stump(v) for v in rows])
        x = np.array(numbers, dtype=np.float64)
        leaves = booster_of(model).predict(xgboost.DMatrix(x[:, None], feature_names=["x"]), pred_leaf=True)
        assert (leaves == np.where(x[:, None] < x[None, :], 1, 2)).all()


def test_imported_models_are_written_as_they_were():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(N, 3))
    X[rng.random((N, 3)) < 0.2] = np.nan
    for given in ({}, {"objective": "binary:logistic"}, {"num_parallel_tree": 2}):
        booster = xgboost.train({"max_depth": 4} | given, xgboost.DMatrix(X, (np.nan_to_num(X)[:, 0] > 0)), 5)
        model = from_xgboost(booster)
        again = booster_of(model)
        assert from_xgboost(again) == model
        rows = xgboost.DMatrix(X, feature_names=model.features)
        assert (again.predict(rows) == booster.predict(xgboost.DMatrix(X))).all()
        theirs = booster.predict(xgboost.DMatrix(X), pred_contribs=True)
        assert (again.predict(rows, pred_contribs=True) == theirs).all()


def test_the_document_is_as_xgboost_writes_it():
    """XGBoost has nothing to add, to leave out or to write otherwise."""
    rng = np.random.default_rng(5)
    frame = random_frame(rng).drop("day").with_columns(y=pl.Series(rng.normal(size=N)))
    model = fb.fit(frame, "y", n_estimators=3, base_score=0.1)
    ours = json.loads(to_xgboost(model.ensemble))
    theirs = json.loads(booster_of(model).save_raw("json"))
    assert ours["learner"].keys() == theirs["learner"].keys()
    for key in ("feature_names", "feature_types", "gradient_booster"):
        assert ours["learner"][key] == theirs["learner"][key]
    assert theirs["learner"]["learner_model_param"]["base_score"] == "[1E-1]"


def test_what_xgboost_has_no_place_for():
    number, tree = Feature("x", FeatureType("float64")), stump(1.0)
    loss = get_loss("reg:squarederror", {"scale_pos_weight": 1.0})
    frame = pl.DataFrame({"x": [1.0, 2.0] * 20, "y": [False, True] * 20})
    calibrated = fb.fit(frame, "y", objective="binary:logistic", n_estimators=1).calibrate(frame, "y")
    own = fb.Objective(gradient="margin - label", hessian="1")
    near = FeatureType("timestamp[us]")
    foreign, zeros = foreign_loss("lightgbm:x", ["margin"]), Feature("x", FeatureType("float64"), zero_is_missing=True)
    for model, says in [
        (model_of_parts(foreign, {}, [number], [0.0], [tree]), "no objective 'lightgbm:x'"),
        (fb.fit(frame, "y", objective=own, n_estimators=1), "no objective"),
        (calibrated, "calibrated"),
        (model_of(zeros, [tree]), "zeros"),
        (model_of(Feature("a[0]", FeatureType("float64")), [tree]), "whose name"),
        (model_of(Feature("c", FeatureType("codes"), (-1, 2)), [stump(None, (0,))]), "codes"),
        (model_of(Feature("c", FeatureType("codes"), (1, 2**24)), [stump(None, (0,))]), "codes"),
        (model_of(Feature("t", near), [stump(10**15), stump(10**15 + 1)]), "the same"),
        (model_of(number, [stump(1.0), stump(1.00000001)]), "the same"),
        (model_of_parts(loss, {}, [number], [1e300], [tree]), "too large"),
    ]:
        with pytest.raises(fb.ParameterError, match=says) as caught:
            to_xgboost(model.ensemble)
        assert "\n" not in str(caught.value)


@cases("case", ["string", "number"])
def test_a_name_that_ends_in_ubj_gets_the_same_as_ubjson(tmp_path, case):
    frame = pl.DataFrame(
        {"x": [1.5, 2, 3, 4, None] * 9, "é": ["a", "b", "é", "b", None] * 9, "y": [0.0, 1, 8, 3, 4] * 9}
    )
    model = fb.fit(frame, "y", features=["x", "é"] if case == "string" else ["x"], n_estimators=3)
    boosters = []
    for name in ("m.ubj", "m.json"):
        model.to_xgboost(tmp_path / name)
        boosters.append(xgboost.Booster(model_file=tmp_path / name))
    assert (tmp_path / "m.ubj").read_bytes()[:2] == b"{L"
    assert boosters[0].save_raw("json") == boosters[1].save_raw("json")
    assert fb.from_xgboost(tmp_path / "m.ubj").trees.equals(fb.from_xgboost(tmp_path / "m.json").trees)
