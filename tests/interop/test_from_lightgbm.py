"""Imported LightGBM models: the same predictions and leaves as in LightGBM."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

import frameboost as fb
from frameboost.loading import from_lightgbm
from frameboost.model.model import Model
from frameboost.trees.linear_leaves import MAX_TERMS
from tests.interop.agreement import ODD, assert_close, assert_consistent, assert_same_leaves, near, towns
from tests.support.cases import cases, some_pairs

lgb = pytest.importorskip("lightgbm", reason="compares with LightGBM")

QUIET = {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 3, "min_data_per_group": 5, "cat_smooth": 1}


def train(parameters, X, y, rounds=6, categorical="auto", **more):
    return lgb.train(QUIET | parameters, lgb.Dataset(X, y, categorical_feature=categorical, **more), rounds)


def numbers(rng, n=400):
    X = np.c_[
        rng.normal(size=n), rng.choice([0, 1, -1, 2.0], n), rng.choice([np.nan, 0, 1e-36, 1.0, -2], n),
        rng.integers(0, 50, n), rng.normal(size=n) * 1e-35,
    ]  # fmt: skip
    return X, rng.normal(size=n) + X[:, 0] + X[:, 3] % 3


def assert_agrees(booster, model, X, *, probabilities=True):
    frame = pl.DataFrame(X, schema=model.features)
    raw = booster.predict(X, raw_score=True)
    if booster.params.get("boosting") == "rf":  # its raw scores are sums, of which it takes the mean to predict
        raw = raw / (booster.num_trees() // booster.num_model_per_iteration())
    assert_close(model, frame, raw)
    assert_same_leaves(model, frame, booster.predict(X, pred_leaf=True))
    if probabilities:
        np.testing.assert_allclose(model.predict(frame).to_numpy(), booster.predict(X), rtol=1e-11, atol=1e-12)
    assert_consistent(model, frame)


@pytest.mark.slow
@cases("seed", range(5))
def test_rows_on_and_around_thresholds(seed):
    rng = np.random.default_rng(seed)
    X, y = numbers(rng)
    if seed % 2:
        X[rng.random(len(X)) < 0.2, 0] = np.nan
        y = np.nan_to_num(y)
    else:
        y = y - X[:, 0]
    has_codes = seed % 4 > 0
    booster = train(
        {"num_leaves": int(rng.integers(2, 30)), "zero_as_missing": seed % 3 == 0, "use_missing": seed % 5 > 0,
         "extra_trees": seed % 7 == 0},
        X, y, categorical=[3] if has_codes else [],
    )  # fmt: skip
    model = from_lightgbm(booster)
    rows = np.stack([rng.choice(near(model, f, rng), 500) for f in range(5)], axis=1)
    if has_codes:
        assert model.ensemble.features[3].type.name == "codes"
        rows[:, 3] = rng.choice(np.r_[np.arange(-3, 60), np.nan], len(rows))  # unseen ones, negative ones, none
    assert_agrees(booster, model, np.concatenate([rows, X]))


def random_tree(rng, number, kinds, missing):
    """Write a tree with thresholds, directions and sets that training seldom or never gives."""
    n_leaves = int(rng.integers(1, 12))
    left, right, leaves = [], [], [(None, None)]
    for split in range(n_leaves - 1):
        parent, side = leaves.pop(int(rng.integers(len(leaves))))
        if parent is not None:
            side[parent] = split
        left.append(None)
        right.append(None)
        leaves += [(split, left), (split, right)]
    for leaf, (parent, side) in enumerate(leaves):
        if parent is not None:
            side[parent] = ~leaf
    feature = rng.integers(0, len(kinds), n_leaves - 1)
    lines = [f"Tree={number}", f"num_leaves={n_leaves}"]
    thresholds, decisions, words, ends = [], [], [], [0]
    odd = [o for o in ODD if o == o]
    for f in feature:
        if kinds[f] == "codes":
            thresholds.append(str(len(ends) - 1))
            decisions.append(1 + 4 * int(rng.integers(3)))
            words += [str(w) for w in rng.integers(0, 2**32, int(rng.integers(1, 3))) * rng.integers(0, 2)]
            ends.append(len(words))
        else:
            thresholds.append(repr(float(rng.choice([rng.choice(odd), rng.normal(), rng.integers(-2, 3)]))))
            decisions.append(4 * int(missing[f] if missing[f] == 1 else rng.choice([0, 2])) + 2 * int(rng.integers(2)))
    if len(ends) > 1:
        joined = " ".join(map(str, ends))
        lines += [f"num_cat={len(ends) - 1}", f"cat_boundaries={joined}", f"cat_threshold={' '.join(words)}"]
    else:
        lines.append("num_cat=0")
    values = {
        "split_feature": feature, "threshold": thresholds, "decision_type": decisions, "left_child": left,
        "right_child": right, "leaf_value": [repr(float(v)) for v in rng.normal(size=n_leaves)],
    }  # fmt: skip
    lines += [f"{key}={' '.join(map(str, items))}" for key, items in values.items()]
    return "\n".join([*lines, "is_linear=0", "shrinkage=1", "", ""])


def random_text(rng, n_trees=30):
    kinds = ["number"] * 5 + ["codes"] * 2
    missing = rng.choice([0, 1], 5)
    infos = " ".join("[-9:9]" if kind == "number" else "0:1:2:3" for kind in kinds)
    trees = [random_tree(rng, i, kinds, missing) for i in range(n_trees)]
    head = [
        "tree", "version=v4", "num_class=1", "num_tree_per_iteration=1", "label_index=0",
        f"max_feature_idx={len(kinds) - 1}", "objective=regression",
        "feature_names=" + " ".join(f"f{i}" for i in range(len(kinds))), f"feature_infos={infos}",
        "tree_sizes=" + " ".join(str(len(tree)) for tree in trees), "", "",
    ]  # fmt: skip
    return "\n".join(head) + "".join(trees) + "end of trees\n\n"


@pytest.mark.slow
@cases("seed", range(5))
def test_trees_that_training_never_grows(seed):
    rng = np.random.default_rng(seed)
    text = random_text(rng)
    booster, model = lgb.Booster(model_str=text), from_lightgbm(text.encode())
    rows = np.stack([rng.choice(near(model, f, rng), 400) for f in range(7)], axis=1)
    rows[:, 5:] = rng.choice(np.r_[np.arange(-2, 70), np.nan], (len(rows), 2))
    assert_agrees(booster, model, rows)


LABELS = {
    "binary": lambda y: y > 0, "poisson": lambda y: np.floor(np.abs(y)), "gamma": lambda y: np.abs(y) + 0.1,
    "tweedie": np.abs,
    **dict.fromkeys(["cross_entropy", "cross_entropy_lambda"], lambda y: 1 / (1 + np.exp(-y))),
    **dict.fromkeys(["multiclass", "multiclassova", "lambdarank", "rank_xendcg"], lambda y: np.clip(np.floor(y), 0, 2)),
}  # fmt: skip
OBJECTIVES = [*LABELS, "regression", "regression_l1", "huber", "fair", "quantile", "mape"]
OWN = {
    "binary": "binary:logistic", "cross_entropy": "reg:logistic", "poisson": "count:poisson", "gamma": "reg:gamma",
    "tweedie": "reg:tweedie", "multiclass": "multi:softprob", "regression": "reg:squarederror",
    "regression_l1": "reg:absoluteerror", "quantile": "reg:quantileerror",
}  # fmt: skip


@pytest.mark.slow
@cases(
    ("objective", "boosting"),
    # LightGBM has no forests that rank.
    [(o, "gbdt" if "rank" in o and b == "rf" else b) for o, b in some_pairs(OBJECTIVES, ("gbdt", "rf", "dart"))],
)
def test_objectives(objective, boosting):
    rng = np.random.default_rng(3)
    X, y = numbers(rng)
    y = LABELS.get(objective, lambda y: y)(y).astype(float)
    parameters = {"objective": objective, "num_leaves": 7, "boosting": boosting, "bagging_freq": 1,
                  "bagging_fraction": 0.7}  # fmt: skip
    if objective.startswith("multiclass"):
        parameters["num_class"] = 3
    group = {"group": [100] * 4} if "rank" in objective else {}
    booster = train(parameters, X, y, **group)
    model = from_lightgbm(booster)
    assert model.objective == OWN.get(objective, f"lightgbm:{objective}")
    assert_agrees(booster, model, X)
    if objective == "multiclass" or objective == "multiclassova":
        likeliest = booster.predict(X).argmax(axis=1)
        assert np.array_equal(model.predict(pl.DataFrame(X, schema=model.features), "class").to_numpy(), likeliest)


@pytest.mark.filterwarnings("ignore:.*sqrt.*")
@pytest.mark.parametrize(
    "parameters",
    [
        {"objective": "binary", "sigmoid": 2.5},
        {"objective": "multiclassova", "num_class": 3, "sigmoid": 0.3},
        {"objective": "regression", "reg_sqrt": True},
        {"objective": "regression_l1", "reg_sqrt": True},
        {"objective": "quantile", "alpha": 0.2},
        {"objective": "tweedie", "tweedie_variance_power": 1.2},
        {"objective": "binary", "min_gain_to_split": 1e9},  # a tree of one leaf
    ],
    ids=str,
)
def test_parameters_of_objectives(parameters):
    X, y = numbers(np.random.default_rng(5))
    y = LABELS.get(parameters["objective"], lambda y: y)(y).astype(float)
    booster = train(parameters | {"num_leaves": 7}, X, y)
    model = from_lightgbm(booster)
    assert_agrees(booster, model, X)
    if "alpha" in parameters:
        assert model.parameters == {"quantile_alpha": [0.2]}
    assert (model.n_trees == 1) == ("min_gain_to_split" in parameters)


def test_a_loss_of_the_users_own_predicts_margins():
    X, y = numbers(np.random.default_rng(6))
    booster = train({"objective": lambda p, data: (p - data.get_label(), np.ones(len(p)))}, X, y)
    model = from_lightgbm(booster)
    assert model.objective == "lightgbm:custom"
    assert_agrees(booster, model, X)


@pytest.mark.parametrize("seed", range(2))
def test_pandas_categories(seed):
    frame, y = towns(seed, 600)
    booster = train({"num_leaves": 15}, frame, y, rounds=10)
    model = from_lightgbm(booster)
    assert model.features == ["x", "town", "wide_name", "code"]
    assert [feature.type.name for feature in model.ensemble.features] == ["float64", "string", "float64", "codes"]
    test = frame.copy()
    test["town"] = test["town"].astype(object).where(test["town"].notna(), None)
    test.loc[::9, "town"] = "never seen"
    test["code"] = test["code"].astype(int)
    test.loc[::11, "code"] = 12345
    ours = pl.from_pandas(test, nan_to_null=False).rename({"wide name": "wide_name"})
    for name in ("town", "code"):
        known = frame[name].cat.categories
        test[name] = pd.Categorical(test[name].where(test[name].isin(known)), categories=known)
    assert_close(model, ours, booster.predict(test, raw_score=True))
    assert_same_leaves(model, ours, booster.predict(test, pred_leaf=True))
    assert_consistent(model, ours)


def test_estimators_files_and_text_are_the_same_model(tmp_path):
    frame, y = towns(8, 600)
    labels = np.array(["no", "yes", "maybe"])[np.clip(y, 0, 2).astype(int)]
    estimator = lgb.LGBMClassifier(n_estimators=5, verbose=-1, num_leaves=7, n_jobs=1).fit(frame, labels)
    estimator.booster_.save_model(tmp_path / "model.txt")
    model = from_lightgbm(estimator)
    ours = pl.from_pandas(frame.astype({"town": object, "code": int})).rename({"wide name": "wide_name"})
    np.testing.assert_allclose(model.predict(ours).to_numpy(), estimator.predict_proba(frame), rtol=1e-12)
    assert model.predict(ours, "class").to_list() == estimator.predict(frame).tolist()
    numbered = Model(replace(model.ensemble, labels=()))  # the file has no labels
    for given in (estimator.booster_, tmp_path / "model.txt", str(tmp_path / "model.txt"),
                  (tmp_path / "model.txt").read_bytes(), estimator.booster_.model_to_string().encode()):  # fmt: skip
        assert from_lightgbm(given) == numbered
    assert from_lightgbm(estimator.booster_.model_to_string().replace("\n", "\r\n").encode()) == numbered


@pytest.mark.slow
def test_the_best_iteration_counts():
    X, y = numbers(np.random.default_rng(9))
    booster = train({"objective": "multiclass", "num_class": 3}, X, np.clip(np.floor(y), 0, 2))
    booster.best_iteration = 4  # as early stopping sets it
    model = from_lightgbm(booster)
    assert model.n_rounds == 4 < booster.num_trees() // 3
    assert_agrees(booster, model, X)


def test_contributions_and_importances_are_those_of_lightgbm():
    X, y = numbers(np.random.default_rng(11))
    booster = train({"num_leaves": 15}, X, y, categorical=[3])
    model = from_lightgbm(booster)
    ours = model.explain(pl.DataFrame(X, schema=model.features)).to_numpy()
    np.testing.assert_allclose(ours, booster.predict(X, pred_contrib=True), rtol=1e-6, atol=1e-9)
    counted = dict(model.importance("weight").rows())
    assert [counted[name] for name in booster.feature_name()] == booster.feature_importance().tolist()


def test_zeros_that_are_missing_in_some_splits_only():
    text = random_text(np.random.default_rng(0), 1)
    tree = (
        "Tree={}\nnum_leaves=2\nnum_cat=0\nsplit_feature=0\nthreshold={}\ndecision_type={}\nleft_child=-1\nright_child=-2\n"
        "leaf_value=0 1\nis_linear=0\nshrinkage=1\n\n"
    )
    head = text[: text.index("tree_sizes")]

    def model(*splits):
        trees = [tree.format(i, *split) for i, split in enumerate(splits)]
        sizes = " ".join(str(len(t)) for t in trees)
        return head + f"tree_sizes={sizes}\n\n" + "".join(trees) + "end of trees\n"

    rng = np.random.default_rng(1)
    fits = model((0.5, 4), (0.7, 0), (-0.7, 0), (1e-40, 10), (-1e-40, 8), (-1e-36, 0))
    rows = rng.choice([*ODD, 0.6, 0.8, -0.8], (500, 7))
    rows[:, 5:] = 1
    assert_agrees(lgb.Booster(model_str=fits), from_lightgbm(fits.encode()), rows)
    with pytest.raises(fb.ParameterError, match=r"feature 'f0' .* has zeros that are missing in some splits only"):
        from_lightgbm(model((0.5, 4), (0.7, 8)).encode())


def test_what_is_not_supported():
    rng = np.random.default_rng(13)
    wide = rng.normal(size=(500, 9))
    with pytest.raises(fb.ParameterError, match=rf"\(linear_tree\) over [7-9] features, and at most {MAX_TERMS} "):
        from_lightgbm(train({"linear_tree": True, "num_leaves": 30}, wide, wide.sum(axis=1)))
    frame, y = towns(14, 600)
    ordered = frame.assign(code=frame["code"].cat.as_ordered())
    with pytest.raises(fb.ParameterError, match="2 columns of pandas categories and 1 categorical features"):
        from_lightgbm(train({}, ordered, y))
    halves = frame.assign(code=(frame["code"].astype(int) / 2).astype("category"))
    with pytest.raises(fb.ParameterError, match="categories of feature 'code' must be all strings or all whole"):
        from_lightgbm(train({}, halves, y))


def test_columns_that_lightgbm_takes_as_categorical_are_those_of_the_file():
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"n": rng.integers(0, 30, 300), "c": pd.Categorical(rng.choice(["a", "b", "c"], 300))})
    y = 3.0 * (X["c"] == "b") + X["n"] % 5
    lightgbm, made = pytest.importorskip("lightgbm"), {"n_estimators": 3, "num_leaves": 5, "verbose": -1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LightGBM ignores the parameter of the constructor, and writes it to the file
        model = lightgbm.LGBMRegressor(categorical_feature=[0], **made).fit(X, y)
        of_codes = lightgbm.LGBMRegressor(**made).fit(X, y, categorical_feature=["n"])
    read = from_lightgbm(model)
    assert [str(feature.type) for feature in read.ensemble.features] == ["float64", "string"]
    rows = pl.DataFrame({"n": X["n"].to_numpy(), "c": X["c"].to_list()})
    np.testing.assert_allclose(read.predict(rows), model.predict(X), rtol=1e-12)
    with pytest.raises(
        fb.ParameterError, match=r"has a column of pandas categories that is not categorical, as feature 'n'"
    ):
        from_lightgbm(of_codes)


DAMAGE = [
    ("tree\n", "tree?\n", "does not start with the line 'tree'"),
    ("version=v4", "version=v9", 'version "v9"'),
    ("version=v4", "", "version is missing"),
    ("num_leaves=3", "num_leaves=4", "not 3"),
    ("num_leaves=3", "num_leaves=0", "has no leaves"),
    ("Tree=0", "Tree=5", 'calls itself "5"'),
    ("split_feature=0 1", "split_feature=0 7", "split_feature must be whole numbers from 0 to 1"),
    ("threshold=0.5 0", "threshold=nan 0", "threshold must be numbers"),
    ("threshold=0.5 0", "threshold=0.5 3", "lacks a set of categories"),
    ("decision_type=2 1", "decision_type=14 1", "unknown kind of missing"),
    ("decision_type=2 1\n", "", "decision_type is missing"),
    ("left_child=1 -1", "left_child=0 -1", "every leaf and every split"),
    ("leaf_value=1 2 3", "leaf_value=1 2 inf", "finite"),
    ("leaf_value=1 2 3", "leaf_value=1e308 2 1.7e308\nleaf_value=0 0 0", "twice"),
    ("leaf_value=1 2 3", "leaf_value=1 2 3 4", "4 numbers, not 3"),
    ("internal_value=0 0", "internal_value=1e300 0", "inner node's value"),
    ("cat_boundaries=0 1", "cat_boundaries=1 1", "ascending"),
    ("cat_boundaries=0 1", "cat_boundaries=0 2", "cat_threshold has 1 numbers"),
    ("cat_threshold=6", "cat_threshold=-6", "whole numbers"),
    ("feature_names=a b", "feature_names=a a", "same name"),
    ("feature_names=a b", "feature_names=", "no features"),
    ("feature_names=a b", "feature_names=a b c", "disagree"),
    ("objective=regression", "objective=magic", "'magic', which is not supported"),
    ("objective=regression", "objective=multiclass num_class:3", "does not match 1 trees a round"),
    ("objective=regression", "objective=binary sigmoid:-1", "sigmoid must be a number greater than 0, not '-1'"),
    ("num_tree_per_iteration=1", "num_tree_per_iteration=2", "whole rounds"),
    ("pandas_categorical:null", "pandas_categorical:[", "not JSON"),
    ("pandas_categorical:null", "pandas_categorical:{}", "lists"),
    ("pandas_categorical:null", 'pandas_categorical:[["x", "x", "y"]]', "a category twice"),
    ("pandas_categorical:null", 'pandas_categorical:[["x", "y"]]', "'b' has category 2 and the column 2 categories"),
    ("pandas_categorical:null", 'pandas_categorical:[["x", "\\ud800", "y"]]', "strings or all whole"),
    ("pandas_categorical:null", "pandas_categorical:[[true, false, 3]]", "strings or all whole"),
]
SOUND = """tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=1
objective=regression
feature_names=a b
feature_infos=[0:1] 1:2:0

Tree=0
num_leaves=3
num_cat=1
split_feature=0 1
split_gain=2 1
threshold=0.5 0
decision_type=2 1
left_child=1 -1
right_child=-2 -3
leaf_value=1 2 3
internal_value=0 0
cat_boundaries=0 1
cat_threshold=6

end of trees

pandas_categorical:null
"""


@cases(("old", "new", "message"), DAMAGE)
def test_damaged_text(old, new, message):
    assert SOUND.count(old) >= 1
    with pytest.raises(fb.FrameboostError, match=message):
        from_lightgbm(SOUND.replace(old, new, 1).encode())


@pytest.mark.slow
def test_whatever_the_damage_the_error_says_so():
    """Every line left out, cut short or changed is read without another kind of error, or refused."""
    assert from_lightgbm(SOUND.encode()).n_trees == 1
    rng = np.random.default_rng(15)
    lines = SOUND.split("\n")
    texts = ["\n".join(lines[:i] + lines[i + 1 :]) for i in range(len(lines))]
    texts += [SOUND[:i] for i in range(0, len(SOUND), 11)]
    for _ in range(150):
        i = int(rng.integers(len(SOUND)))
        texts.append(SOUND[:i] + rng.choice(list("0123456789-. =\nxe[]{}")) + SOUND[i + int(rng.integers(2)) :])
    for text in texts:
        try:
            model = from_lightgbm(text.encode())
        except fb.FrameboostError as error:
            assert "\n" not in str(error)
        else:
            one = {"codes": 1, "float64": 1.0, "string": "1", "category(boolean)": True}
            frame = pl.DataFrame({f.name: [one[f.type.name]] for f in model.ensemble.features})
            assert model.predict(frame, "margin").is_finite().all()


# LightGBM's names of each objective, by its parameters' documentation.
NAMES = {
    "regression": "regression_l2 l2 mean_squared_error mse l2_root root_mean_squared_error rmse",
    "regression_l1": "l1 mean_absolute_error mae",
    "mape": "mean_absolute_percentage_error",
    "cross_entropy": "xentropy",
    "cross_entropy_lambda": "xentlambda",
    "rank_xendcg": "xendcg xe_ndcg xe_ndcg_mart xendcg_mart",
    "custom": "none null na",
}


@cases(("objective", "name"), [(objective, name) for objective, names in NAMES.items() for name in names.split()])
def test_objectives_have_several_names_in_files(objective, name):
    found, expected = (
        from_lightgbm(SOUND.replace("objective=regression", f"objective={each}", 1).encode())
        for each in (name, objective)
    )
    assert found == expected
    booster = lgb.Booster(model_str=SOUND.replace("objective=regression", f"objective={name}", 1))
    np.testing.assert_allclose(
        booster.predict(np.zeros((1, len(found.features)))),
        found.predict(pl.DataFrame({f.name: [0] for f in found.ensemble.features})).to_numpy(),
    )


@cases("parameters", [
    {}, {"learning_rate": 0.5, "num_leaves": 4}, {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.7},
    {"objective": "multiclass", "num_class": 3},
])  # fmt: skip
def test_linear_leaves(parameters):
    rng = np.random.default_rng(23)
    X = rng.normal(size=(600, 3)) * [1, 1e-3, 1e6] + [0, 5, 5e8]
    X[::9, 0] = np.nan
    y = np.nan_to_num(X[:, 0]) * 2 + X[:, 1] * 1e3 + X[:, 2] / 1e6 - 5500
    y = np.clip(np.round(y), 0, 2) if "num_class" in parameters else y
    booster = train({"linear_tree": True, "num_leaves": 8, **parameters}, X, y)
    # Also rows that lack a number, and some outside of the range of training.
    rows = np.r_[X[:200], np.where(rng.random((200, 3)) < 0.3, np.nan, X[200:400]), X[:100] * [1.3, 1, 1.0005]]
    model = from_lightgbm(booster)
    assert model.ensemble.is_linear
    frame, expected = pl.DataFrame(rows, schema=model.features), booster.predict(rows)
    found = model.predict(frame)
    np.testing.assert_allclose(found.to_numpy(), expected, rtol=0, atol=2e-6 * np.abs(expected).max())
    assert frame.select(prediction=model.expr())["prediction"].to_list() == found.to_list()
    far = frame.with_columns(pl.Series("Column_1", [8.0, -3.0, None, np.nan, np.inf, *[5.0] * (len(frame) - 5)]))
    with pytest.warns(fb.FrameboostWarning, match="^feature 'Column_1' is far outside of its range .* in 2 rows: the"):
        model.predict(far)


def test_the_end_of_trees_may_be_missing_but_no_part_of_a_tree():
    X, y = numbers(np.random.default_rng(21))
    text = train({}, X, y).model_to_string()
    expected, end = from_lightgbm(text.encode()), text.index("end of trees")
    for whole in (text[:end], text.replace("end of trees\n", "")):
        assert from_lightgbm(whole.encode()).ensemble.trees == expected.ensemble.trees
        np.testing.assert_array_equal(lgb.Booster(model_str=whole).predict(X), lgb.Booster(model_str=text).predict(X))
    last = text.rindex("leaf_value=")
    for cut in (text.rindex("Tree="), last, last + 15, end - 20):
        with pytest.raises(fb.ModelFileError, match="damaged LightGBM model"):
            from_lightgbm(text[:cut].encode())


def test_booleans_are_categories():
    rng = np.random.default_rng(22)
    code = rng.integers(-1, 2, 300)
    frame = pd.DataFrame({"c": pd.Categorical.from_codes(code, categories=[False, True]), "x": rng.normal(size=300)})
    booster = train({"min_data_per_group": 1, "cat_smooth": 0}, frame, np.where(code == 1, 5.0, code) + frame["x"])
    model = from_lightgbm(booster)
    assert model.ensemble.features[0].type.name == "category(boolean)"
    for given in (frame, pl.from_pandas(frame)):
        np.testing.assert_allclose(model.predict(given), booster.predict(frame), rtol=1e-12)
