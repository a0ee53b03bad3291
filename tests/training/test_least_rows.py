"""The least number of rows in a leaf, by ``min_child_samples``."""

import itertools

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from tests.support.cases import cases

LEAST = 25
LOCAL = {"tree_method": "approx", "proposal": "local"}
FEATURES = ["x", "z", "few", "many"]


@pytest.fixture(scope="module")
def frame():
    """Rows with missing values, weights that are small, and two columns of categories."""
    rng, n = np.random.default_rng(0), 600
    x, z = rng.integers(0, 30, n), rng.normal(size=n).round(1)
    few, many = rng.choice([*"abc"], n), rng.choice([*"abcdefghijkl"], n)
    margin = 0.2 * x - 3 + z * z + (many < "e") - (few == "a")
    return pl.DataFrame({"x": x, "z": z, "few": few, "many": many}).select(
        pl.when(pl.Series(rng.random(n) > 0.1)).then(pl.col("x")).alias("x"),
        pl.when(pl.Series(rng.random(n) > 0.1)).then(pl.col("z")).alias("z"),
        "few", "many",
        late=pl.Series(rng.random(n) < 1 / (1 + np.exp(-margin))),
        amount=pl.Series(margin.round(2)), other=pl.Series((margin * x).round(2)),
        w=pl.Series(rng.integers(0, 3, n) / 8), one=pl.lit(1.0),
    )  # fmt: skip


# --- a plain twin -----------------------------------------------------------------------------------------------------


def naive_leaves(frame, g, h, rows, depth, least):
    """Return the rows of each leaf of a tree that is grown greedily over all splits, and their weight −G/(H+1)."""

    def score(part):
        G, H = g[part].sum(), h[part].sum()
        return G * G / (H + 1.0)

    best = (1e-6, None, None)
    for name in FEATURES if depth else []:
        values = frame[name]
        missing, present = rows[values.is_null().to_numpy()[rows]], rows[values.is_not_null().to_numpy()[rows]]
        column, sets = values.to_numpy(), []
        if values.dtype == pl.String:
            categories = sorted(set(column[present]))

            parts = {c: present[column[present] == c] for c in categories}
            by_weight = sorted(categories, key=lambda c: (-g[parts[c]].sum() / h[parts[c]].sum(), c))
            # Of more than three categories sorted by weight, those before a cut.
            chosen = [[c] for c in categories] if name == "few" else [by_weight[:k] for k in range(1, len(by_weight))]
            sets = [np.isin(column[present], each) for each in chosen]
        else:
            sets = [column[present] < value for value in sorted(set(column[present]))[1:]]
            sets += [np.ones(len(present), bool)]
        for side, missing_goes in itertools.product(sets, (False, True)):
            left = np.concatenate([present[side], missing[: len(missing) * missing_goes]])
            right = np.setdiff1d(rows, left)
            if min(len(left), len(right)) >= max(least, 1):
                gain = score(left) + score(right) - score(rows)
                if gain > best[0] * (1 + 1e-12):
                    best = gain, left, right
    if best[1] is None:
        return [(rows, -g[rows].sum() / (h[rows].sum() + 1.0))]
    return [leaf for part in best[1:] for leaf in naive_leaves(frame, g, h, np.sort(part), depth - 1, least)]


@pytest.mark.slow
@cases(("least", "more"), [
    (0, {}), (2, {}), (LEAST, {}), (60, {"tree_method": "exact"}), (LEAST, {"tree_method": "approx", "max_bin": 600}),
    (LEAST, {"grow_policy": "lossguide"}), (LEAST, {"engine": "polars"}), (LEAST, {"engine": "duckdb"}),
    (LEAST, LOCAL), (60, LOCAL | {"engine": "polars"}), (LEAST, LOCAL | {"engine": "duckdb"}),
])  # fmt: skip
def test_trees_are_those_of_all_splits_that_leave_enough_rows(frame, least, more):
    probability = frame["late"].mean()
    g, h = probability - frame["late"].cast(float).to_numpy(), np.full(len(frame), probability * (1 - probability))
    options = {"features": FEATURES, "n_estimators": 1, "max_depth": 3, "learning_rate": 1, "min_child_weight": 0}
    options |= {"cat_smooth": 0.0, "base_score": probability, "max_bin": 600, "max_cat_to_onehot": 4}
    model = fb.fit(frame, "late", objective="binary:logistic", min_child_samples=least, **options | more)
    expected = np.full(len(frame), np.log(probability / (1 - probability)))
    leaves = naive_leaves(frame, g, h, np.arange(len(frame)), 3, least)
    for rows, weight in leaves:
        expected[rows] += weight
    assert min(len(rows) for rows, _ in leaves) >= least
    np.testing.assert_allclose(model.predict(frame, "margin"), expected, atol=1e-9)


# --- H counts rows, or rows are counted -------------------------------------------------------------------------------

GROWTHS = [
    {}, {"subsample": 0.6}, {"subsample": 0.5, "sampling_method": "gradient_based"}, {"linear_tree": True},
    {"grow_policy": "lossguide", "max_leaves": 12, "max_depth": 0}, {"grow_policy": "symmetric", "max_depth": 4},
    {"grow_policy": "symmetric", "max_depth": 4, "monotone_constraints": {"x": 1}}, {"tree_method": "exact"},
    {"tree_method": "approx"}, LOCAL, LOCAL | {"subsample": 0.6}, {"max_cat_to_onehot": 20},
    {"monotone_constraints": {"x": 1}, "max_delta_step": 0.5}, {"max_cat_to_onehot": 1}, {"features": ["x", "z"]},
    {"target": ["amount", "other"], "multi_strategy": "multi_output_tree"},
    {"target": ["amount", "other"], "multi_strategy": "multi_output_tree", "max_cat_to_onehot": 1, "subsample": 0.7},
]  # fmt: skip


@pytest.mark.slow
@cases("more", GROWTHS)
def test_weights_of_one_change_no_tree(frame, more):
    # Without weights H is the number of rows, and nothing is counted; with them rows are.
    options = {"target": "amount", "features": FEATURES, "n_estimators": 3, "min_child_samples": LEAST} | more
    assert fb.fit(frame, weight="one", **options).trees.equals(fb.fit(frame, **options).trees)


@pytest.mark.slow
@cases(("engine", "more"), itertools.product(["numba", "polars", "duckdb"], ({}, LOCAL | {"max_bin": 8})))
def test_rows_are_counted_and_not_weights(frame, engine, more):
    options = {"objective": "binary:logistic", "features": FEATURES, "n_estimators": 3, "engine": engine} | more
    options |= {"weight": "w", "min_child_weight": 0, "min_child_samples": LEAST}
    model = fb.fit(frame, "late", **options)
    rows = frame.filter(pl.col("w") > 0)  # a row of weight 0 is as if it were not there
    for number in range(3):
        leaf = rows.select(margin=model[number : number + 1].predict(rows, "margin")).to_series()
        assert leaf.value_counts()["count"].min() >= LEAST
    assert model != fb.fit(frame, "late", **options | {"min_child_samples": 0})


def test_trees_are_lightgbms(frame):
    lightgbm = pytest.importorskip("lightgbm")
    numbers = frame.select(pl.col("x").fill_null(-1), pl.col("z").fill_null(9))
    shape = {"num_leaves": 12, "learning_rate": 0.3, "min_data_in_leaf": LEAST, "lambda_l2": 1.0}
    theirs = shape | {"min_sum_hessian_in_leaf": 0, "max_bin": 1000, "min_data_in_bin": 1, "verbose": -1,
                      "num_threads": 1, "deterministic": True}  # fmt: skip
    booster = lightgbm.train(theirs, lightgbm.Dataset(numbers.to_numpy(), frame["amount"].to_numpy()), 5)
    model = fb.fit(numbers.with_columns(y=frame["amount"]), "y", n_estimators=5, max_bin=1000, **shape)
    np.testing.assert_allclose(model.predict(numbers), booster.predict(numbers.to_numpy()), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@cases(("load", "learning_rate", "most"), [("load_breast_cancer", 0.1, 0.12), ("load_digits", 0.18, 0.09)])
def test_lightgbms_parameters_reach_its_losses(load, learning_rate, most):
    # The rows that LightGBM's tests hold out. With 10 classes its hessians are 10/9 p(1 - p), XGBoost's and ours are
    # 2 p(1 - p): its steps are 1.8 times as long.
    chosen = pytest.importorskip("sklearn.model_selection").train_test_split
    datasets, metrics = pytest.importorskip("sklearn.datasets"), pytest.importorskip("sklearn.metrics")
    X, y = getattr(datasets, load)(return_X_y=True)
    X, held_out, y, labels = chosen(X, y, test_size=0.1, random_state=42)
    shape = {"num_leaves": 31, "reg_lambda": 0, "min_child_weight": 1e-3, "n_estimators": 50}
    losses = []
    for least in (0, 20):
        model = fb.FrameBoostClassifier(min_child_samples=least, learning_rate=learning_rate, **shape)
        losses.append(metrics.log_loss(labels, model.fit(X, y).predict_proba(held_out)))
    assert losses[1] < min(most, losses[0])


# --- what remembers it ------------------------------------------------------------------------------------------------


def test_the_model_says_so_and_a_fit_without_a_split_why(frame, tmp_path):
    model = fb.fit(frame, "late", features=FEATURES, n_estimators=2, min_data_in_leaf=LEAST)
    model.save(tmp_path / "m.json")
    assert fb.load(tmp_path / "m.json").parameters["min_child_samples"] == LEAST
    with pytest.warns(UserWarning, match=r"no tree has a split.*there are 600 rows, and min_child_samples=301 asks"):
        fb.fit(frame, "late", features=FEATURES, n_estimators=1, min_child_samples=301)
    with pytest.raises(fb.ParameterError, match=r"^min_child_samples must be an integer of at least 0"):
        fb.fit(frame, "late", min_child_samples=0.1)


def test_it_goes_on_and_is_refitted(frame):
    shape = {"features": FEATURES, "min_child_samples": LEAST, "learning_rate": 0.3}
    whole = fb.fit(frame, "late", n_estimators=4, **shape)
    half = fb.fit(frame, "late", n_estimators=2, **shape)
    split = ["tree", "node", "feature", "threshold", "categories", "missing"]
    continued = fb.fit(frame, "late", n_estimators=2, init_model=half, **shape)
    assert continued.trees.select(split).equals(whole.trees.select(split))
    refitted = whole.refit(frame, "late", decay_rate=1.0)
    np.testing.assert_allclose(refitted.predict(frame, "margin"), whole.predict(frame, "margin"), atol=1e-9)
