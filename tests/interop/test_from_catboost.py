"""Imported CatBoost models: the same predictions and leaves as in CatBoost."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import frameboost as fb
from frameboost.interop.catboost import category_hash
from frameboost.loading import from_catboost
from tests.interop import agreement
from tests.interop.agreement import TOWNS, assert_close, assert_consistent, assert_same_leaves, rows_near
from tests.support.cases import cases, some_pairs

catboost = pytest.importorskip("catboost", reason="compares with CatBoost")

# CatBoost's own code for scikit-learn's and numpy's older releases.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

GROWTH = ["SymmetricTree", "Depthwise", "Lossguide"]
QUIET = {"verbose": 0, "allow_writing_files": False, "thread_count": 1, "random_seed": 0}


def numbers(seed, missing=True):
    return agreement.numbers(seed, 400, 1e-38, missing)


def train(loss, X, y, *, cat_features=(), **parameters):
    """Return a model trained with ``CatBoost`` itself, whose ``predict`` is told what to predict."""
    given = QUIET | {"iterations": 10, "depth": 4, "one_hot_max_size": 255, "loss_function": loss} | parameters
    return catboost.CatBoost(given).fit(catboost.Pool(X, y, cat_features=list(cat_features)))


def assert_agrees(theirs, model, X, frame=None):
    frame = pl.DataFrame(X, schema=model.features) if frame is None else frame
    assert_close(model, frame, theirs.predict(X, prediction_type="RawFormulaVal"))
    leaves = theirs.calc_leaf_indexes(X)
    assert_same_leaves(model, frame, np.repeat(leaves, model.n_trees // leaves.shape[1], axis=1))
    assert_consistent(model, frame)


@pytest.mark.slow
@cases(("growth", "nan_mode"), some_pairs(GROWTH, ["Min", "Max", "Forbidden"], 3))
def test_rows_on_and_around_borders(growth, nan_mode):
    seed = GROWTH.index(growth)
    X, y = numbers(seed, missing=nan_mode != "Forbidden")
    theirs = train("RMSE", X, y, nan_mode=nan_mode, grow_policy=growth, iterations=5)
    model = from_catboost(theirs)
    assert model.features == ["0", "1", "2", "3", "4"]
    assert_agrees(theirs, model, np.concatenate([rows_near(model, 1500, seed), X]))


@pytest.mark.slow
@cases("seed", range(4))
def test_borders_of_float32(seed, tmp_path):
    """Borders are put where training seldom has them, by way of the JSON, which CatBoost reads too."""
    rng = np.random.default_rng(seed)
    X, y = numbers(seed, missing=False)
    theirs = train("RMSE", X * 10.0 ** rng.integers(-44, 30), y)
    theirs.save_model(str(tmp_path / "model.json"), format="json")
    again = catboost.CatBoost().load_model(str(tmp_path / "model.json"), format="json")
    model = from_catboost(tmp_path / "model.json")
    assert model == from_catboost(theirs)
    assert_agrees(again, model, rows_near(model, 1500, seed))


# What is trained on, and the prediction type that the estimators take.
LOSSES = {
    **dict.fromkeys(["RMSE", "MAE", "Quantile:alpha=0.2", "MultiQuantile:alpha=0.1,0.5,0.9", "Expectile:alpha=0.3",
                     "Huber:delta=1.5", "Lq:q=3"], ("numbers", None)),
    "LogLinQuantile:alpha=0.3": ("positive", None), "MAPE": ("positive", None), "Poisson": ("positive", "Exponent"),
    "Tweedie:variance_power=1.3": ("positive", "Exponent"), "RMSEWithUncertainty": ("numbers", "RMSEWithUncertainty"),
    "MultiRMSE": ("several", None), "Logloss": ("two classes", "Probability"),
    "CrossEntropy": ("shares", "Probability"),
    "Focal:focal_alpha=0.4;focal_gamma=2": ("two classes", "Probability"), "MultiClass": ("classes", "Probability"),
    "MultiClassOneVsAll": ("classes", "Probability"), "MultiLogloss": ("labels", "Probability"),
    "MultiCrossEntropy": ("labels", "Probability"),
}  # fmt: skip
OWN = {
    "RMSE": "reg:squarederror", "MAE": "reg:absoluteerror", "Quantile": "reg:quantileerror", "Poisson": "count:poisson",
    "Tweedie": "reg:tweedie", "Logloss": "binary:logistic", "CrossEntropy": "reg:logistic",
    "MultiClass": "multi:softprob",
}  # fmt: skip


def targets(kind, y):
    return {
        "numbers": y,
        "positive": np.floor(np.abs(y) * 3),
        "several": np.c_[y, y**2, -y],
        "two classes": (y > 0).astype(int),
        "shares": 1 / (1 + np.exp(-y)),
        "classes": np.digitize(y, [-0.5, 0.5]),
        "labels": np.c_[y > 0, y > 1, y < -1].astype(int),
    }[kind]


@pytest.mark.slow
@cases(("loss", "growth"), some_pairs(LOSSES, GROWTH, 4))
def test_losses(loss, growth):
    X, y = numbers(7)
    kind, prediction_type = LOSSES[loss]
    y = targets(kind, y)
    more = {"leaf_estimation_method": "Gradient"} if growth != "SymmetricTree" else {}
    theirs = train(loss, X, y, grow_policy=growth, iterations=3, depth=3, **more)
    model = from_catboost(theirs)
    name = loss.partition(":")[0]
    assert model.objective == OWN.get(name, f"catboost:{name}")
    assert_agrees(theirs, model, X)
    frame = pl.DataFrame(X, schema=model.features)
    if prediction_type is None:
        assert model.predict(frame).equals(model.predict(frame, "margin"))
        return
    predicted = theirs.predict(X, prediction_type=prediction_type)
    predicted = predicted[:, 1] if kind in ("two classes", "shares") else predicted
    np.testing.assert_allclose(model.predict(frame).to_numpy(), predicted, rtol=1e-11)
    if kind in ("two classes", "classes"):
        classes = theirs.predict(X, prediction_type="Class").ravel()
        assert np.array_equal(model.predict(frame, "class").to_numpy(), classes)


def test_parameters_of_losses():
    X, y = numbers(8)
    assert from_catboost(train("Quantile:alpha=0.2", X, y)).parameters == {"quantile_alpha": [0.2]}
    found = from_catboost(train("Tweedie:variance_power=1.3", X, np.abs(y))).parameters
    assert found == {"tweedie_variance_power": 1.3}


def test_estimators_predict_what_their_models_do():
    X, y = numbers(9)
    frame = pd.DataFrame(X, columns=["a", "b", "wide name", "d", "é"])
    ours = pl.DataFrame(X, schema=list(frame.columns))
    regressor = catboost.CatBoostRegressor(**QUIET, iterations=5, loss_function="Poisson").fit(frame, np.abs(y))
    np.testing.assert_allclose(from_catboost(regressor).predict(ours), regressor.predict(frame), rtol=1e-11)
    labels = np.array(["no", "yes", "maybe"])[np.digitize(y, [-0.5, 0.5])]
    classifier = catboost.CatBoostClassifier(**QUIET, iterations=5).fit(frame, labels)
    model = from_catboost(classifier)
    assert model.features == list(frame.columns)
    np.testing.assert_allclose(model.predict(ours).to_numpy(), classifier.predict_proba(frame), rtol=1e-11)
    assert model.predict(ours, "class").to_list() == classifier.predict(frame).ravel().tolist()
    ranker = catboost.CatBoostRanker(**QUIET, iterations=5, loss_function="YetiRank")
    ranker.fit(frame, np.clip(np.floor(y), 0, 3), group_id=np.repeat(range(20), 20))
    model = from_catboost(ranker)
    assert model.objective == "catboost:YetiRank"
    assert_close(model, ours, ranker.predict(frame))


def test_scaled_and_summed_models():
    X, y = numbers(10)
    first, second = train("RMSE", X, y), train("RMSE", X, y * 2, random_seed=1)
    first.set_scale_and_bias(0.3, 5.0)
    assert_agrees(first, from_catboost(first), X)
    both = catboost.sum_models([first, second], weights=[0.5, 2.0])
    assert_agrees(both, from_catboost(both), X)


def towns(seed):
    """Return categories as CatBoost takes them: none is missing, and one column has but one."""
    frame, y = agreement.towns(seed, 600)
    frame["town"] = frame["town"].astype(object).fillna("a")
    return frame.assign(code=frame["code"].astype(int), same="always"), y


@pytest.mark.slow
@cases(("seed", "growth"), list(enumerate(GROWTH)))
def test_categories(seed, growth):
    frame, y = towns(seed)
    theirs = train("RMSE", frame, y, cat_features=["town", "code", "same"], grow_policy=growth)
    given = {"town": frame["town"].unique(), "code": pl.Series(frame["code"])}
    model = from_catboost(theirs, categories=given)
    assert [(f.name, f.type.name) for f in model.ensemble.features] == [
        ("x", "float64"), ("town", "string"), ("wide name", "float64"), ("code", "codes")
    ]  # fmt: skip
    test = frame.copy()
    test.loc[::9, "town"] = "never seen"
    test.loc[::11, "code"] = 12345
    ours = pl.DataFrame({name: test[name].to_list() for name in frame})
    pool = catboost.Pool(test, cat_features=["town", "code", "same"])
    assert_close(model, ours, theirs.predict(pool))
    leaves = theirs.calc_leaf_indexes(pool)
    assert_same_leaves(model, ours, leaves)
    assert_consistent(model, ours)
    nulls = ours.with_columns(town=pl.lit(None, dtype=pl.String))
    unseen = ours.with_columns(town=pl.lit("never seen"))
    assert model.predict(nulls).equals(model.predict(unseen))


def test_hashes_of_categories_of_every_length():
    """CatBoost asks for every one of them, since each has a label of its own."""
    rng = np.random.default_rng(11)
    words = ["", *("".join(map(chr, rng.integers(33, 500, size))) for size in range(1, 90))]
    words += list(map(str, rng.integers(-(10**6), 10**6, 60)))
    frame = pd.DataFrame({"word": pd.Series(words * 4, dtype=object)})
    labels = rng.permutation(len(words)) * 1.0
    theirs = train("RMSE", frame, np.tile(labels, 4), cat_features=["word"], iterations=1000, depth=1, learning_rate=1)
    model = from_catboost(theirs, categories={"word": words})
    asked = {c for tree in model.ensemble.trees for codes in tree.categories for c in codes or ()}
    assert len(asked) > 100
    assert_close(model, pl.DataFrame({"word": words}), theirs.predict(frame[: len(words)]))
    assert category_hash(-17) == category_hash("-17")


def test_what_is_not_supported():
    frame, y = towns(12)
    theirs = train("RMSE", frame, y, cat_features=["town", "code", "same"])
    with pytest.raises(fb.ParameterError, match=r"column 'town' only by their hashes; pass them as categories={'town'"):
        from_catboost(theirs)
    with pytest.raises(
        fb.ParameterError, match=r"splits column 'code' on \d categories that are not among the 2 passed"
    ):
        from_catboost(theirs, categories={"town": TOWNS, "code": [70, 1]})
    with pytest.raises(fb.ParameterError, match="names 'x', which is not a categorical"):
        from_catboost(theirs, categories={"town": TOWNS, "code": [70, -3, 11, 900, 5], "x": ["a"]})
    with pytest.raises(fb.ParameterError, match="one_hot_max_size"):
        two = frame[["x", "town"]]
        from_catboost(train("RMSE", two, y, cat_features=["town"], one_hot_max_size=2), {"town": TOWNS})


SOUND = {
    "model_info": {"params": {"loss_function": {"type": "RMSE", "params": {}}}},
    "features_info": {
        "float_features": [{"feature_index": 0, "flat_feature_index": 0, "feature_id": "x",
                            "nan_value_treatment": "AsFalse"}],
        "categorical_features": [{"feature_index": 0, "flat_feature_index": 1, "feature_id": "c"}],
    },
    "oblivious_trees": [{
        "splits": [{"split_type": "FloatFeature", "float_feature_index": 0, "border": 0.5},
                   {"split_type": "OneHotFeature", "cat_feature_index": 0, "value": category_hash("a")}],
        "leaf_values": [1, 2, 3, 4], "leaf_weights": [1, 1, 2, 0],
    }],
    "scale_and_bias": [1, [0.5]],
}  # fmt: skip
DAMAGE = [
    ('"leaf_values": [1, 2, 3, 4]', '"leaf_values": [1, 2, 3]', "3 leaf values, which do not match 2 splits"),
    ('"leaf_values": [1, 2, 3, 4]', '"leaf_values": [1, 2, 3, 1e999]', "finite"),
    ('"leaf_values": [1, 2, 3, 4]', '"leaf_values": 4', "must be a list"),
    ('"leaf_weights": [1, 1, 2, 0]', '"leaf_weights": [1, 1]', "2 leaf weights, not 4"),
    ('"leaf_weights": [1, 1, 2, 0]', '"leaf_weights": [1e308, 1e308, 1e308, 1e308]', "not finite"),
    ('"border": 0.5', '"border": NaN', "border"),
    ('"border": 0.5', '"border": 1e400', "border"),
    ('"float_feature_index": 0', '"float_feature_index": 3', "a border and a known feature"),
    ('"float_feature_index": 0', '"float_feature_index": "0"', "whole number"),
    ('"cat_feature_index": 0', '"cat_feature_index": 8', "on an unknown feature"),
    ('"split_type": "FloatFeature"', '"split_type": "OnlineCtr"', "one_hot_max_size"),
    ('"split_type": "FloatFeature"', '"split_type": "Text"', 'kind "Text"'),
    ('"AsFalse"', '"AsYouLike"', "AsIs, AsFalse or AsTrue"),
    ('"feature_id": "x"', '"feature_id": "c"', "same name"),
    ('"feature_id": "x"', '"feature_id": 3', "must be text"),
    ('"feature_id": "x"', '"feature_id": "\\ud800"', "must be text"),
    ('"flat_feature_index": 0', '"flat_feature_index": null', "whole number"),
    ('"scale_and_bias": [1, [0.5]]', '"scale_and_bias": [1, [0.5, 0.5]]', "a number and 1 more"),
    ('"scale_and_bias": [1, [0.5]]', '"scale_and_bias": [1e308, [0.5]]', "finite"),
    ('"oblivious_trees"', '"oblivious_forest"', "has no trees"),
    ('"type": "RMSE"', '"type": "MultiClass"', "'MultiClass' does not match 1 outputs"),
    ('"type": "RMSE"', '"type": "Robert\'); DROP"', "loss_function is"),
    ('"type": "RMSE", "params": {}', '"type": "Quantile", "params": {"alpha": "7"}', "'Quantile' has parameters"),
    ('"params": {"loss', '"params": "{", "other": {"loss', "params are not JSON"),
    ("{", "[", "not a CatBoost model"),
]


@cases(("old", "new", "message"), DAMAGE)
def test_damaged_json(old, new, message):
    text = json.dumps(SOUND)
    assert from_catboost(text.encode(), {"c": ["a", "b"]}).n_trees == 1
    assert text.count(old) >= 1
    with pytest.raises(fb.FrameboostError, match=message):
        from_catboost(text.replace(old, new, 1).encode(), {"c": ["a", "b"]})
