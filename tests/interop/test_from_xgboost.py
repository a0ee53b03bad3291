"""Imported XGBoost models, compared with XGBoost's predictions and leaves."""

import json
import math
import struct
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost

import frameboost as fb
from frameboost.checks.json_files import read_ubjson
from frameboost.ensemble.model_file import read_model
from frameboost.interop.ensembles import float64_thresholds, nearest_float32
from frameboost.loading import from_xgboost
from tests.interop.agreement import assert_close, assert_consistent, assert_same_leaves
from tests.support.cases import cases, some_pairs

N = 300


def document_of(booster):
    return json.loads(booster.save_raw("json"))


def as_bytes(document):
    return json.dumps(document).encode()


def booster_of(document):
    booster = xgboost.Booster()
    booster.load_model(bytearray(as_bytes(document)))
    return booster


def gbtree(document):
    held = document["learner"]["gradient_booster"]
    return held.get("gbtree", held)["model"]


def check(model, frame, margins, leaves=None):
    assert_close(model, frame, margins, single=True)
    if leaves is not None:
        assert_same_leaves(model, frame, leaves)


def random_numbers(rng, n=N, p=4, *, missing=0.15):
    X = rng.choice([rng.normal(size=(n, p)), rng.integers(-3, 4, (n, p)), np.round(rng.normal(size=(n, p)), 1)])
    X[rng.random((n, p)) < missing] = np.nan
    return X


def frame_of(X, names=None):
    return pl.DataFrame(X, schema=names or [f"f{i}" for i in range(X.shape[1])])


# --- float32 ----------------------------------------------------------------------------------------------------------

ODD = [0.0, -0.0, 1e-45, -1e-45, 1.1754944e-38, -1.1754944e-38, 3.4028235e38, -3.4028235e38, math.inf, -math.inf,
       1.0, 0.99999994, -1.0, 16777216.0, 16777218.0, 0.1, 0.5]  # fmt: skip


def thresholds(rng, n):
    """Return float32 of all exponents, beside odd ones."""
    bits = rng.integers(0, 2**32, n, dtype=np.uint64).astype(np.uint32).view(np.float32)
    with np.errstate(over="ignore"):
        return np.concatenate([bits[~np.isnan(bits)], np.array(ODD, dtype=np.float32)])


def around(t):
    """Return float64 on a threshold, on the midpoints beside it, and one ulp of float64 to either side of each."""
    with np.errstate(over="ignore"):
        t64, below, above = (np.float64(v) for v in (t, np.nextafter(t, np.float32(-np.inf)),
                                                     np.nextafter(t, np.float32(np.inf))))  # fmt: skip
    clipped = [float(np.clip(v, -(2.0**128), 2.0**128)) for v in (below, t64, above)]
    centres = [t64, (clipped[0] + clipped[1]) / 2, (clipped[1] + clipped[2]) / 2, below, above]
    return np.array([v for c in centres for v in (c, np.nextafter(c, -np.inf), np.nextafter(c, np.inf))])


def test_thresholds_part_float64_as_float32_parts_them():
    rng = np.random.default_rng(0)
    given = thresholds(rng, 4_000)
    ours = float64_thresholds(given)
    x = np.stack([around(t) for t in given])
    with np.errstate(over="ignore"):
        assert ((x.astype(np.float32) < given[:, None]) == (x < ours[:, None])).all()
    assert float64_thresholds([np.nan]) == -np.inf


def test_the_nearest_float32_is_the_inverse():
    given = thresholds(np.random.default_rng(1), 1_500)
    for t, moved in zip(given.tolist(), float64_thresholds(given).tolist(), strict=True):
        if not math.isinf(moved):
            assert nearest_float32(Fraction(moved)) == t


def test_xgboost_agrees_on_numbers_around_every_threshold():
    # One tree of one split, whose threshold is put in by hand, for each of many thresholds; rows are around it.
    rng = np.random.default_rng(2)
    X = rng.normal(size=(20, 1))
    document = document_of(xgboost.train({"max_depth": 1}, xgboost.DMatrix(X, X[:, 0]), 1))
    [stump] = gbtree(document)["trees"]
    given = thresholds(rng, 120).tolist()
    trees = [stump | {"id": i, "split_conditions": [t, *stump["split_conditions"][1:]],
                      "default_left": [i % 2, 0, 0]} for i, t in enumerate(given)]  # fmt: skip
    gbtree(document).update(trees=trees, tree_info=[0] * len(trees), iteration_indptr=list(range(len(trees) + 1)))
    gbtree(document)["gbtree_model_param"]["num_trees"] = str(len(trees))
    x = np.concatenate([*map(around, np.float32(given)), [np.nan, 5e-324, -5e-324, 2.0**-150, -(2.0**-150)]])
    with np.errstate(over="ignore"):
        finite = x[np.isnan(x) | np.isfinite(x.astype(np.float32))]  # XGBoost takes no infinity for leaves
    booster, model = booster_of(document), from_xgboost(as_bytes(document))
    leaves = booster.predict(xgboost.DMatrix(finite[:, None]), pred_leaf=True)
    assert (model.predict(frame_of(finite[:, None]), "leaf").to_numpy() == leaves).all()
    # In predictions it does take infinities, and 1e300 is one.
    for odd in (np.inf, -np.inf, 1e300, -1e300, 3.4028235677973366e38, 3.402823567797336e38):
        margin = booster.inplace_predict(np.array([[odd]]), predict_type="margin")[0]
        assert model.predict(frame_of(np.array([[odd]])), "margin")[0] == pytest.approx(margin, rel=1e-5)
    assert_consistent(model, frame_of(np.concatenate([x[::7], [np.inf, -np.inf, np.nan]])[:, None]))


# --- random models ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@cases("seed", range(8))
def test_random_boosters_of_numbers(seed):
    rng = np.random.default_rng(seed)
    X = random_numbers(rng)
    y = np.nan_to_num(X).sum(axis=1) + rng.normal(size=N)
    if seed % 4 == 3:
        y = np.stack([y, -y, np.nan_to_num(X)[:, 0]], axis=1)
    given = {
        "max_depth": int(rng.integers(1, 7)), "eta": float(rng.uniform(0.1, 1)), "seed": seed, "nthread": 1,
        "tree_method": str(rng.choice(["hist", "approx", "exact"])), "gamma": float(rng.choice([0.0, 2.0])),
        "num_parallel_tree": int(rng.choice([1, 1, 3])), "subsample": float(rng.choice([1.0, 0.7])),
        "min_child_weight": float(rng.choice([0.0, 1.0, 5.0])),
    }  # fmt: skip
    if seed % 5 == 0:
        given |= {"booster": "dart", "rate_drop": 0.5, "one_drop": True}
    rounds = int(rng.integers(1, 12))
    booster = xgboost.train(given, xgboost.DMatrix(X, y), rounds)
    rows = np.concatenate([X, random_numbers(rng)])
    model = from_xgboost(booster)
    data = xgboost.DMatrix(rows)
    check(model, frame_of(rows), booster.predict(data, output_margin=True), booster.predict(data, pred_leaf=True))
    assert model.n_rounds == rounds == booster.num_boosted_rounds()
    if seed % 5 == 1:
        assert_consistent(model, frame_of(rows))
    # On the thresholds of the model itself, and on both sides.
    edges = {
        (f, t) for tree in model.ensemble.trees for f, t in zip(tree.feature, tree.threshold, strict=True) if f >= 0
    }
    rows = np.repeat(rows[:1], 3 * len(edges), axis=0)
    for i, (f, t) in enumerate(sorted(edges)):
        rows[3 * i : 3 * i + 3, f] = np.nextafter(t, -np.inf), t, np.nextafter(t, np.inf)
    if edges:
        leaves = booster.predict(xgboost.DMatrix(rows), pred_leaf=True).reshape(len(rows), -1)
        assert_same_leaves(model, frame_of(rows), leaves)


def test_leaves_keep_their_numbers_where_nothing_is_pruned():
    X = random_numbers(np.random.default_rng(0))
    booster = xgboost.train({"max_depth": 5}, xgboost.DMatrix(X, np.nan_to_num(X)[:, 0]), 5)
    leaves = from_xgboost(booster).predict(frame_of(X), "leaf").to_numpy()
    assert (leaves == booster.predict(xgboost.DMatrix(X), pred_leaf=True)).all()


def test_pruned_nodes_are_left_out():
    X = random_numbers(np.random.default_rng(0))
    y = np.nan_to_num(X).sum(axis=1)
    booster = xgboost.train({"max_depth": 6, "tree_method": "exact", "gamma": 20.0}, xgboost.DMatrix(X, y), 3)
    trees = gbtree(document_of(booster))["trees"]
    assert any(int(tree["tree_param"]["num_deleted"]) > 0 for tree in trees)
    model = from_xgboost(booster)
    sizes = [int(t["tree_param"]["num_nodes"]) - int(t["tree_param"]["num_deleted"]) for t in trees]
    assert list(map(len, model.ensemble.trees)) == sizes
    data = xgboost.DMatrix(X)
    check(model, frame_of(X), booster.predict(data, output_margin=True), booster.predict(data, pred_leaf=True))


def test_gains_covers_and_contributions_are_xgboosts():
    X = random_numbers(np.random.default_rng(0))
    booster = xgboost.train({"max_depth": 4}, xgboost.DMatrix(X, np.nan_to_num(X)[:, 0] ** 2), 5)
    model = from_xgboost(booster)
    for kind in ("gain", "total_gain", "weight", "cover", "total_cover"):
        ours = dict(model.importance(kind).rows())
        assert {k: v for k, v in ours.items() if v} == pytest.approx(booster.get_score(importance_type=kind), rel=1e-5)
    theirs = booster.predict(xgboost.DMatrix(X), pred_contribs=True)
    np.testing.assert_allclose(model.explain(frame_of(X)).to_numpy(), theirs, atol=1e-4)


# --- outputs and objectives -------------------------------------------------------------------------------------------

OBJECTIVES = {
    "reg:squarederror": {}, "reg:linear": {}, "reg:squaredlogerror": {}, "reg:logistic": {"scale_pos_weight": 2},
    "reg:pseudohubererror": {"huber_slope": 0.7}, "reg:absoluteerror": {},
    "reg:quantileerror": {"quantile_alpha": [0.1, 0.5, 0.9]}, "binary:logistic": {}, "binary:logitraw": {},
    "binary:hinge": {}, "count:poisson": {"max_delta_step": 0.3}, "reg:gamma": {},
    "reg:tweedie": {"tweedie_variance_power": 1.3}, "multi:softmax": {"num_class": 3},
    "multi:softprob": {"num_class": 4}, "survival:cox": {},
    "survival:aft": {"aft_loss_distribution": "logistic", "aft_loss_distribution_scale": 1.7},
    "rank:pairwise": {}, "rank:ndcg": {"ndcg_exp_gain": False, "lambdarank_num_pair_per_sample": 5},
    "rank:map": {"lambdarank_normalization": False},
}  # fmt: skip


def trained_on(objective, more, rng, **others):
    X = random_numbers(rng)
    y = (np.nan_to_num(X)[:, 0] + rng.normal(size=N) > 0).astype(float)
    if objective.startswith("multi"):
        y += (np.nan_to_num(X)[:, 1] > 0).astype(float)
    data = xgboost.DMatrix(X, y + (objective in ("reg:gamma", "survival:cox")))
    if objective == "survival:aft":
        data.set_float_info("label_lower_bound", y + 1)
        data.set_float_info("label_upper_bound", y + 2)
    if objective.startswith("rank"):
        data.set_group([10] * (N // 10))
    return X, xgboost.train({"objective": objective, "max_depth": 3} | more | others, data, 2)


@pytest.mark.slow  # a model of each
@pytest.mark.filterwarnings("ignore:.*reg.linear is now deprecated.*:UserWarning")
@cases("objective", OBJECTIVES)
def test_all_objectives(objective):
    more = OBJECTIVES[objective]
    X, booster = trained_on(objective, more, np.random.default_rng(0))
    frame, data = frame_of(X), xgboost.DMatrix(X)
    model = from_xgboost(booster)
    check(model, frame, booster.predict(data, output_margin=True), booster.predict(data, pred_leaf=True))
    np.testing.assert_allclose(model.predict(frame).to_numpy(), booster.predict(data), rtol=2e-6, atol=1e-6)
    assert model.objective == objective.replace("linear", "squarederror")
    known = {key: value for key, value in model.parameters.items() if key in more}
    assert known == more
    assert_consistent(model, frame)


@pytest.mark.parametrize(
    ("objective", "more"),
    [("reg:quantileerror", {"quantile_alpha": [0.9, 0.1]}),
     ("rank:ndcg", {"lambdarank_unbiased": True}), ("reg:tweedie", {"tweedie_variance_power": 1.0})],
)  # fmt: skip
def test_what_is_trained_otherwise_is_known_by_its_link(objective, more):
    X, booster = trained_on(objective, more, np.random.default_rng(0))
    model = from_xgboost(booster)
    assert model.objective == f"xgboost:{objective}"
    np.testing.assert_allclose(model.predict(frame_of(X)), booster.predict(xgboost.DMatrix(X)), rtol=2e-6, atol=1e-6)
    assert_consistent(model, frame_of(X))
    with pytest.raises(fb.ParameterError, match="comes from another library"):
        model.refit(frame_of(X).with_columns(y=1.0), "y")


def test_one_expectile_is_read_as_newer_versions_write_it():
    X, booster = trained_on("reg:squarederror", {}, np.random.default_rng(0))
    document = document_of(booster)
    of_expectiles = {"expectile_alpha": "0.3"}
    document["learner"]["objective"] = {"name": "reg:expectileerror", "expectile_loss_param": of_expectiles}
    model = from_xgboost(as_bytes(document))
    assert (model.objective, model.parameters["expectile_alpha"]) == ("reg:expectileerror", [0.3])
    check(model, frame_of(X), booster.predict(xgboost.DMatrix(X)))


def test_a_loss_of_ones_own_is_read_by_its_link():
    X = random_numbers(np.random.default_rng(0))
    y = np.nan_to_num(X)[:, 0]
    estimator = xgboost.XGBRegressor(n_estimators=3, objective=lambda t, p: (p - t, np.ones_like(t))).fit(X, y)
    model = from_xgboost(estimator)
    assert model.objective == "xgboost:custom"
    np.testing.assert_allclose(model.predict(frame_of(X)).to_numpy(), estimator.predict(X), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@cases(
    ("objective", "trees"),
    some_pairs(
        ["reg:squarederror", "binary:logistic", "count:poisson"],
        [("one_output_per_tree", 1), ("one_output_per_tree", 2), ("multi_output_tree", 2), ("multi_output_tree", 1)],
    ),
)
def test_several_targets(objective, trees):
    strategy, parallel = trees
    rng = np.random.default_rng(parallel)
    X = random_numbers(rng)
    Y = (np.nan_to_num(X)[:, :3] + rng.normal(size=(N, 3)) > 0).astype(float)
    given = {"objective": objective, "multi_strategy": strategy, "num_parallel_tree": parallel, "max_depth": 3}
    booster = xgboost.train(given, xgboost.DMatrix(X, Y), 4)
    model, data = from_xgboost(booster), xgboost.DMatrix(X)
    check(model, frame_of(X), booster.predict(data, output_margin=True))
    np.testing.assert_allclose(model.predict(frame_of(X)).to_numpy(), booster.predict(data), rtol=2e-6, atol=1e-6)
    leaves = booster.predict(data, pred_leaf=True).reshape(N, -1)
    if strategy == "multi_output_tree":  # there each tree is one of ours for each output
        leaves = np.concatenate([leaves[:, i : i + parallel] for i in range(0, leaves.shape[1], parallel)
                                 for _ in range(3)], axis=1)  # fmt: skip
    assert_same_leaves(model, frame_of(X), leaves)
    assert model.n_rounds == 4
    total = model.importance("total_gain")["importance"].sum()
    assert total == pytest.approx(sum(sum(t["loss_changes"]) for t in gbtree(document_of(booster))["trees"]), rel=1e-5)
    assert_consistent(model, frame_of(X))


def test_leaves_of_several_values_as_older_versions_write_them():
    X = random_numbers(np.random.default_rng(0))
    given = {"multi_strategy": "multi_output_tree", "max_depth": 3, "learning_rate": 1.0}
    booster = xgboost.train(given, xgboost.DMatrix(X, np.nan_to_num(X)[:, :2]), 2)
    document = document_of(booster)
    for tree in gbtree(document)["trees"]:
        weights = np.array(tree.pop("leaf_weights")).reshape(-1, 2)
        old = np.zeros((len(tree["left_children"]), 2))
        for node, left in enumerate(tree["left_children"]):
            if left == -1:
                old[node] = weights[tree["right_children"][node]]
                tree["right_children"][node] = -1
        tree["base_weights"] = old.ravel().tolist()
        del tree["loss_changes"], tree["sum_hessian"]
    check(from_xgboost(as_bytes(document)), frame_of(X), booster.predict(xgboost.DMatrix(X)))


# --- base scores and old documents ------------------------------------------------------------------------------------


@pytest.mark.slow
@cases(
    ("objective", "score"),
    some_pairs(
        ["reg:squarederror", "reg:logistic", "binary:logistic", "binary:logitraw", "count:poisson", "reg:gamma",
         "reg:tweedie", "survival:cox"],
        ["5E-1", "[5E-1]", "0.25", "[1E-7]", "(9.9999E-1)", "1"],
        3,
    ),
)  # fmt: skip
def test_base_scores(objective, score):
    X, booster = trained_on(objective, {}, np.random.default_rng(0), base_score=0.5)
    document = document_of(booster)
    document["learner"]["learner_model_param"]["base_score"] = score
    theirs = booster_of(document).predict(xgboost.DMatrix(X), output_margin=True)
    check(from_xgboost(as_bytes(document)), frame_of(X), theirs)


def test_a_base_score_for_each_output_and_one_for_all():
    X, booster = trained_on("multi:softprob", {"num_class": 3}, np.random.default_rng(0))
    document = document_of(booster)
    for score in ("[1E0,-2E0,3.5E0]", "[5E-1]", "5E-1"):
        document["learner"]["learner_model_param"]["base_score"] = score
        theirs = booster_of(document).predict(xgboost.DMatrix(X), output_margin=True)
        check(from_xgboost(as_bytes(document)), frame_of(X), theirs)


def test_documents_of_older_versions():
    X, booster = trained_on("binary:logistic", {}, np.random.default_rng(0))
    document = document_of(booster)
    margins = booster.predict(xgboost.DMatrix(X), output_margin=True)
    score = json.loads(document["learner"]["learner_model_param"]["base_score"])[0]
    document["version"] = [1, 0, 0]
    document["learner"]["learner_model_param"] = {"base_score": str(score), "num_class": "0", "num_feature": "4"}
    del document["learner"]["feature_names"], document["learner"]["feature_types"], gbtree(document)["cats"]
    del gbtree(document)["iteration_indptr"]
    gbtree(document)["gbtree_model_param"] = {"num_trees": "2", "size_leaf_vector": "0"}
    for tree in gbtree(document)["trees"]:
        for name in ("split_type", "categories", "categories_nodes", "categories_segments", "categories_sizes"):
            del tree[name]
        tree["tree_param"]["size_leaf_vector"] = "0"
        tree["default_left"] = list(map(bool, tree["default_left"]))
    check(from_xgboost(as_bytes(document)), frame_of(X), margins)


def test_dart_as_newer_versions_write_it():
    X = random_numbers(np.random.default_rng(0))
    given = {"booster": "dart", "rate_drop": 0.5, "one_drop": True}
    booster = xgboost.train(given, xgboost.DMatrix(X, np.nan_to_num(X)[:, 0]), 6)
    document = document_of(booster)
    held = document["learner"]["gradient_booster"]
    assert len(set(held["weight_drop"])) > 1
    model = held["gbtree"]["model"] | {"weight_drop": held["weight_drop"]}
    document["learner"]["gradient_booster"] = {"name": "gbtree", "model": model}
    margins = booster.predict(xgboost.DMatrix(X), output_margin=True)
    check(from_xgboost(as_bytes(document)), frame_of(X), margins)
    assert from_xgboost(as_bytes(document)) == from_xgboost(booster)


# --- columns ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@cases(("seed", "one_hot"), enumerate([1, 100]))
def test_codes_of_categories(seed, one_hot):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 40, N) * 3.0, rng.integers(0, 5, N), rng.normal(size=N)])
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.sin(np.nan_to_num(X)[:, 0]) + (X[:, 1] == 2) + rng.normal(size=N) / 5
    given = {"max_depth": 5, "max_cat_to_onehot": one_hot, "tree_method": ["hist", "approx"][seed % 2]}
    booster = xgboost.train(
        given, xgboost.DMatrix(X, y, feature_types=["c", "c", "q"], enable_categorical=True, missing=np.nan), 4
    )
    model = from_xgboost(booster)
    assert [feature.type.name for feature in model.ensemble.features] == ["codes", "codes", "float64"]
    unseen = [0, 1, 2, 119, 120, 121, 500, 1e6, 2.0**24 - 1, 2.0**24, 2.0**24 + 2, 1e30, -1, -2, -1e30, np.nan, -0.0]
    rows = np.concatenate([X, np.stack(np.meshgrid(unseen, unseen, [0.0, np.nan]), axis=-1).reshape(-1, 3)])
    # Bare numbers, as those of DMatrix are checked when they are categories.
    data = xgboost.DMatrix(rows)
    margins, leaves = booster.predict(data, output_margin=True), booster.predict(data, pred_leaf=True)
    check(model, frame_of(rows), margins, leaves)
    whole = frame_of(X).with_columns(pl.col("f0", "f1").cast(pl.Int32, strict=False))
    assert_consistent(model, whole)
    assert whole["f0"].null_count() < N


@pytest.mark.parametrize("library", [pd, pl])
def test_names_of_categories(library):
    rng = np.random.default_rng(3)
    words = ["zebra", "apple", "", "o'clock", "a b", *(["Ähre", "日本"] if library is pl else ["Aehre", "Z"])]
    frame = pl.DataFrame({
        "c": rng.choice(words, N), "x": rng.normal(size=N), "b": rng.random(N) < 0.5, "n": rng.integers(0, 9, N),
    })  # fmt: skip
    frame = frame.with_columns(
        pl.when(pl.int_range(N) % 11 > 0).then("c"), pl.when(pl.int_range(N) % 7 > 0).then("x"),
    )  # fmt: skip
    y = frame["c"].is_in(["zebra", ""]).fill_null(False).cast(float) + frame["b"].cast(float) * 2 + frame["n"] / 9
    given = frame.with_columns(pl.col("c").cast(pl.Categorical))
    if library is pd:
        given = frame.to_pandas().astype({"c": pd.CategoricalDtype(words[::-1])})
    data = xgboost.DMatrix(given, y.to_numpy(), enable_categorical=True)
    booster = xgboost.train({"max_depth": 5, "max_cat_to_onehot": 3}, data, 5)
    model = from_xgboost(booster)
    assert [f.type.name for f in model.ensemble.features] == ["string", "float64", "boolean", "float64"]
    assert set(model.ensemble.features[0].categories) == set(words)
    check(model, frame, booster.predict(data, output_margin=True), booster.predict(data, pred_leaf=True))
    assert_consistent(model, frame)
    new = frame.with_columns(c=pl.lit("never seen"))
    assert_consistent(model, new)
    # XGBoost refuses a name that is new; as a code it sends it where it sends all that no split names.
    codes = new.with_columns(c=pl.lit(100.0)).cast(pl.Float64).to_numpy()
    bare = xgboost.DMatrix(codes, feature_names=frame.columns)
    check(model, new, booster.predict(bare, output_margin=True), booster.predict(bare, pred_leaf=True))


def test_names_that_xgboost_has_spoilt_are_codes():
    """Of pandas' strings it counts characters where it should count bytes."""
    words = ["é", "日本", "a", "zebra"]
    c = pd.Categorical(np.random.default_rng(0).choice(words, N), categories=words)
    data = xgboost.DMatrix(pd.DataFrame({"c": c}), c.codes**2.0, enable_categorical=True)
    booster = xgboost.train({"max_depth": 3}, data, 3)
    model = from_xgboost(booster)
    assert model.ensemble.features[0].type.name == "codes"
    check(model, pl.DataFrame({"c": c.codes}), booster.predict(data))


def test_names_of_categories_that_are_numbers():
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"c": pd.Categorical(rng.choice([7, -3, 500], N), categories=[500, 7, -3])})
    data = xgboost.DMatrix(frame, (frame["c"] == 7).astype(float), enable_categorical=True)
    booster = xgboost.train({"max_depth": 3}, data, 3)
    model = from_xgboost(booster)
    assert (model.ensemble.features[0].type.name, model.ensemble.features[0].categories) == ("codes", (-3, 7, 500))
    check(model, pl.DataFrame({"c": frame["c"].astype(int).to_numpy()}), booster.predict(data))


@pytest.mark.parametrize("method", ["hist", "exact"])
def test_booleans(method):
    rng = np.random.default_rng(5)
    frame = pl.DataFrame({"b": rng.random(N) < 0.5, "c": rng.random(N) < 0.5})
    frame = frame.with_columns(pl.when(pl.int_range(N) % 5 > 0).then("b"), pl.when(pl.int_range(N) % 3 > 0).then("c"))
    y = (frame["b"].is_null() * 2.0 + frame["c"].fill_null(True)).to_numpy()
    data = xgboost.DMatrix(frame, y)
    booster = xgboost.train({"max_depth": 3, "tree_method": method}, data, 3)
    model = from_xgboost(booster)
    assert [f.type.name for f in model.ensemble.features] == ["boolean"] * 2
    check(model, frame, booster.predict(data), booster.predict(data, pred_leaf=True))
    assert_consistent(model, frame)
    # A user may call any column an indicator.
    X = rng.integers(0, 9, (N, 1)).astype(float)
    X[::5] = np.nan
    odd = xgboost.train({}, xgboost.DMatrix(X, np.nan_to_num(X, nan=4.0)[:, 0], feature_types=["i"]), 3)
    check(from_xgboost(odd), frame_of(X), odd.predict(xgboost.DMatrix(X, feature_types=["i"])))


# --- sources ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_estimators():
    rng = np.random.default_rng(7)
    X = random_numbers(rng)
    y = np.nan_to_num(X)[:, 0] + rng.normal(size=N)
    labels = (y > 0).astype(int) + (y > 1)
    frame = frame_of(X)
    for estimator in (xgboost.XGBRegressor(n_estimators=5), xgboost.XGBRFRegressor(n_estimators=4)):
        np.testing.assert_allclose(from_xgboost(estimator.fit(X, y)).predict(frame), estimator.predict(X), atol=1e-5)
    for target in (labels, labels > 0):
        classifier = xgboost.XGBClassifier(n_estimators=5).fit(X, target)
        model = from_xgboost(classifier)
        assert (model.predict(frame, "class").to_numpy() == classifier.predict(X)).all()
    ranker = xgboost.XGBRanker(n_estimators=5).fit(X, labels, qid=np.arange(N) // 10)
    np.testing.assert_allclose(from_xgboost(ranker).predict(frame).to_numpy(), ranker.predict(X), atol=1e-5)


@pytest.mark.parametrize("more", [{}, {"num_parallel_tree": 2}, {"booster": "dart", "rate_drop": 0.3}])
def test_estimators_that_stopped_early_end_at_the_best_round(more, tmp_path):
    rng = np.random.default_rng(8)
    X = random_numbers(rng)
    y = (np.nan_to_num(X)[:, 0] > 0).astype(int) + (rng.random(N) < 0.3)
    estimator = xgboost.XGBClassifier(n_estimators=200, early_stopping_rounds=3, learning_rate=1.0, **more)
    estimator.fit(X[:200], y[:200], eval_set=[(X[200:], y[200:])], verbose=False)
    model, booster = from_xgboost(estimator), estimator.get_booster()
    assert model.best_iteration == estimator.best_iteration + 1 == model.n_rounds < booster.num_boosted_rounds()
    assert model.best_score == estimator.best_score
    np.testing.assert_allclose(model.predict(frame_of(X)).to_numpy(), estimator.predict_proba(X), rtol=1e-5, atol=1e-6)
    # A booster predicts with all trees, and so does its file.
    estimator.save_model(tmp_path / "model.json")
    for source in (booster, tmp_path / "model.json"):
        all_trees = from_xgboost(source)
        assert all_trees.best_iteration is None
        check(all_trees, frame_of(X), booster.predict(xgboost.DMatrix(X), output_margin=True))


@pytest.mark.parametrize("name", ["model.json", "model.ubj"])
def test_files(name, tmp_path):
    _, booster = trained_on("binary:logistic", {}, np.random.default_rng(0))
    booster.save_model(tmp_path / name)
    expected = from_xgboost(booster)
    assert from_xgboost(tmp_path / name) == from_xgboost(str(tmp_path / name)) == expected
    assert from_xgboost(booster.save_raw(name[6:])) == expected


def test_slices_and_continued_boosters():
    X, booster = trained_on("multi:softprob", {"num_class": 3}, np.random.default_rng(0))
    part = booster[1:2]
    check(from_xgboost(part), frame_of(X), part.predict(xgboost.DMatrix(X), output_margin=True))
    more = xgboost.train({"objective": "multi:softprob", "num_class": 3}, xgboost.DMatrix(X, np.arange(N) % 3), 2,
                         xgb_model=booster)  # fmt: skip
    check(from_xgboost(more), frame_of(X), more.predict(xgboost.DMatrix(X), output_margin=True))


# --- what is refused --------------------------------------------------------------------------------------------------


def refused(source, kind=fb.ModelFileError):
    with pytest.raises(kind) as caught:
        from_xgboost(source)
    text = str(caught.value)
    assert type(caught.value) is kind
    assert text
    assert "\n" not in text
    assert len(text) < 300
    return text


def test_linear_boosters_and_unknown_objectives_are_refused():
    X = random_numbers(np.random.default_rng(0), missing=0)
    linear = xgboost.train({"booster": "gblinear"}, xgboost.DMatrix(X, X[:, 0]), 2)
    assert "gblinear" in refused(linear, fb.ParameterError)
    document = document_of(xgboost.train({}, xgboost.DMatrix(X, X[:, 0]), 2))
    document["learner"]["objective"]["name"] = "reg:unheard"
    assert "reg:unheard" in refused(as_bytes(document), fb.ParameterError)


@cases(
    ("change", "says"),
    [
        (lambda t: t.update(left_children=[0, *t["left_children"][1:]]), "another parent"),
        (lambda t: t.update(left_children=[99, *t["left_children"][1:]]), "not a node"),
        (lambda t: t.update(right_children=t["left_children"]), "another parent"),
        (lambda t: t["right_children"].pop(), '"right_children" must have'),
        (lambda t: t.update(split_indices=[4] * len(t["split_indices"])), "not one of the 4"),
        (lambda t: t.update(split_conditions=[1e39] * len(t["split_conditions"])), "finite"),
        (lambda t: t["tree_param"].update(num_nodes="0"), "entries"),
        (lambda t: t["tree_param"].update(size_leaf_vector="3"), "3 values"),
        (lambda t: t.update(split_type=[1] * len(t["split_type"])), "categories_nodes"),
        (lambda t: t.pop("default_left"), "default_left"),
    ],
)
def test_damaged_trees(change, says):
    _, booster = trained_on("reg:squarederror", {}, np.random.default_rng(0))
    document = document_of(booster)
    change(gbtree(document)["trees"][1])
    text = refused(as_bytes(document))
    assert says in text
    assert "tree 1" in text


def test_missing_rounds_and_trees():
    _, booster = trained_on("multi:softprob", {"num_class": 3}, np.random.default_rng(0))
    document = document_of(booster)
    gbtree(document)["trees"].pop()
    assert "tree_info" in refused(as_bytes(document))
    gbtree(document)["tree_info"].pop()
    assert "whole rounds" in refused(as_bytes(document))
    gbtree(document)["trees"], gbtree(document)["tree_info"] = [], []
    assert "no trees" in refused(as_bytes(document))


def test_damaged_ubjson():
    """No cut and no changed byte leads to anything but a refusal or a sound model."""
    _, booster = trained_on("binary:logistic", {}, np.random.default_rng(0), max_depth=1)
    data = bytes(booster.save_raw("ubj"))
    for end in range(0, len(data), 11):
        refused(data[:end])
    refused(data + b"x")
    rng = np.random.default_rng(0)
    for _ in range(60):
        broken = bytearray(data)
        for at in rng.integers(0, len(data), rng.integers(1, 4)):
            broken[at] = rng.integers(0, 256)
        try:
            model = from_xgboost(bytes(broken))
        except (fb.ModelFileError, fb.ParameterError):
            continue
        assert read_model(model.to_json().encode()).trees == model.ensemble.trees


def test_ubjson():
    assert read_ubjson(b"[" + b"i\x05" + b"TFZ" + b"Si\x02\xc3\xa4" + b"D" + struct.pack(">d", 0.1) + b"]", "no") == [
        5, True, False, None, "ä", 0.1,
    ]  # fmt: skip
    assert read_ubjson(b"{#i\x01i\x01aU\xff", "no") == {"a": 255}
    for bomb in (b"[" * 10_000, b"[$d#L\x7f" + b"\xff" * 7, b"[#l\x7f\xff\xff\xff", b"{L" + b"\xff" * 8, b"[$Z#i\x05",
                 b"Si\x01\xff", b"q", b"{i\x01aTi\x01aT}"):  # fmt: skip
        with pytest.raises(fb.ModelFileError, match="UBJSON"):
            read_ubjson(bomb, "not UBJSON")
