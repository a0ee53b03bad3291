"""Trees for all outputs (`multi_strategy="multi_output_tree"`): by hand, in every engine, and with other parameters."""

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.engines import query_costs
from frameboost.engines.duckdb import engine as sql
from frameboost.engines.memory import engine as numba
from frameboost.expressions.draws import draw_key, draws
from tests.support.cases import cases

ENGINES = ["numba", "polars", "duckdb"]
VECTOR = {"multi_strategy": "multi_output_tree", "verbose": False}
SPLITS = ("feature", "threshold", "categories", "missing_left", "left", "right")


def flights(n: int = 500, seed: int = 0) -> pl.DataFrame:
    """Return numbers and strings, some of them missing, a class of four and two numeric targets."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=n), rng.integers(0, 6, n)
    frame = pl.DataFrame({
        "a": a, "b": b, "carrier": rng.choice(list("ABCDEFGH"), n), "kind": rng.choice(["x", "y", None], n),
        "w": rng.integers(0, 4, n) / 2, "fold": rng.integers(0, 2, n) > 0,
    })  # fmt: skip
    frame = frame.with_columns(pl.when(pl.col("b") == 4).then(None).otherwise(pl.col("a")).alias("a"))
    late = 2 * pl.col("a").fill_null(1.0) + pl.col("b") + 2 * (pl.col("carrier") < "D")
    return frame.with_columns(
        delay=late, air=pl.col("b") * pl.col("a").fill_null(0.5), cause=late.cast(pl.Int64) % 4
    )  # fmt: skip


FEATURES = ["a", "b", "carrier", "kind"]
CASES = {
    "classes": {"target": "cause", "objective": "multi:softprob"},
    "class": {"target": "cause", "objective": "multi:softmax", "max_cat_to_onehot": 9},
    "weights": {"target": "cause", "objective": "multi:softprob", "weight": "w", "min_child_weight": 4.0},
    "targets": {"target": ["delay", "air"], "grow_policy": "lossguide", "max_leaves": 9, "max_depth": 0},
    "sample": {"target": ["delay", "air"], "subsample": 0.6, "colsample_bynode": 0.7, "num_parallel_tree": 2},
    "by gradient": {"target": ["delay", "air"], "subsample": 0.4, "sampling_method": "gradient_based"},
    "classes by gradient": {"target": "cause", "objective": "multi:softprob", "subsample": 0.5,
                            "sampling_method": "gradient_based", "grow_policy": "symmetric"},
    "quantiles": {"target": "delay", "objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.5, 0.9],
                  "subsample": 0.7},
    "medians": {"target": ["delay", "air"], "objective": "reg:absoluteerror", "weight": "w"},
    "steps": {"target": ["delay", "air"], "max_delta_step": 0.5, "reg_alpha": 0.3, "gamma": 2.0, "max_bin": 16,
              "min_child_samples": 12},
    "levels": {"target": "cause", "objective": "multi:softprob", "grow_policy": "symmetric", "subsample": 0.8,
               "colsample_bylevel": 0.7},
    "levels of counted rows": {"target": ["delay", "air"], "grow_policy": "symmetric", "min_child_samples": 12,
                               "max_delta_step": 0.5},
    "sets": {"target": ["delay", "air"], "interaction_constraints": [["a", "b"], ["carrier", "kind"]]},
    "slopes": {"target": ["delay", "air"], "linear_tree": True, "subsample": 0.7, "weight": "w"},
    "slopes of classes": {"target": "cause", "objective": "multi:softprob", "linear_tree": True, "num_parallel_tree": 2,
                          "grow_policy": "symmetric"},
    "slopes of counted rows": {"target": ["delay", "air"], "linear_tree": True, "min_child_samples": 12,
                               "sampling_method": "gradient_based", "subsample": 0.5, "max_delta_step": 0.5},
}  # fmt: skip


def fitted(data, engine="numba", **options) -> fb.Model:
    options = {"n_estimators": 2, "max_depth": 3, "features": FEATURES} | VECTOR | options
    return fb.fit(data, options.pop("target"), engine=engine, **options)


def test_one_split_for_two_targets_by_hand():
    """Four rows, λ = 0: x < 2 parts (1, 1, 3, 3) and (8, 8, 2, 2) best; the leaves are the means."""
    frame = pl.DataFrame({"x": [0, 1, 2, 3], "z": [0, 1, 0, 1], "u": [1.0, 1, 3, 3], "v": [8.0, 8, 2, 2]})
    model = fb.fit(frame, ["u", "v"], n_estimators=1, max_depth=1, learning_rate=1.0, reg_lambda=0.0, **VECTOR)
    first, second = model.ensemble.trees
    assert all(getattr(first, field) == getattr(second, field) for field in SPLITS)
    assert (first.feature, first.threshold[0], first.output, second.output) == ((0, -1, -1), 2, 0, 1)
    assert (first.value[1:], second.value[1:]) == ((-1.0, 1.0), (3.0, -3.0))  # from the means 2 and 5
    assert (first.gain[0], second.gain[0]) == (4 / 2 + 4 / 2, 36 / 2 + 36 / 2)
    assert first.cover == second.cover == (4.0, 2.0, 2.0)
    assert model.predict(frame).to_list() == [[1, 8], [1, 8], [3, 2], [3, 2]]


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_are_drawn_by_the_gradients_of_all_outputs(engine, monkeypatch):
    monkeypatch.setattr(query_costs, "MAX_VALUES", 0)
    frame = pl.DataFrame(np.random.default_rng(3).normal(size=(300, 3)), schema=["x", "u", "v"])
    options = {"subsample": 0.3, "sampling_method": "gradient_based", "reg_lambda": 0.5, "base_score": 0.0, "seed": 4}
    shape = {"n_estimators": 1, "max_depth": 1, "learning_rate": 1.0, "features": ["x"], "engine": engine}
    model = fb.fit(frame, ["u", "v"], **shape, **options, **VECTOR)
    g = -frame.select("u", "v").to_numpy()
    size = np.sqrt((g * g).sum(axis=1) + 2 * 0.5)  # of two outputs, each with h = 1
    low, high = 0.0, size.sum()
    for _ in range(200):  # by bisection
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(1, size / middle).sum() > 0.3 * 300 else (low, middle)
    p = np.minimum(1, size / high)
    taken = draws(np.arange(300), draw_key(4, 0, 0)) < p
    for tree, of_output in zip(model.ensemble.trees, g.T, strict=True):
        assert tree.cover[0] == pytest.approx((1 / p)[taken].sum(), rel=1e-9)
        expected = -(of_output / p)[taken].sum() / ((1 / p)[taken].sum() + 0.5)
        assert tree.value[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
@cases(("case", "other"), [(case, ENGINES[1 + i % 2]) for i, case in enumerate(CASES)])
def test_every_engine_grows_the_same_trees(case, other, monkeypatch):
    monkeypatch.setattr(query_costs, "MAX_VALUES", 0)
    frame = flights()
    models = [fitted(frame, engine, **CASES[case]) for engine in ("numba", other)]
    K = models[0].ensemble.n_outputs
    for each in models[1:]:
        assert [tree.feature for tree in each.ensemble.trees] == [tree.feature for tree in models[0].ensemble.trees]
        np.testing.assert_allclose(each.trees["value"], models[0].trees["value"], rtol=1e-9, atol=1e-12)
    parallel = models[0].ensemble.parallel_trees
    for round_ in range(models[0].n_rounds):
        trees = models[0].ensemble.rounds(round_, round_ + 1).trees
        for place in range(parallel):
            same = [trees[output * parallel + place] for output in range(K)]
            assert [tree.output for tree in same] == list(range(K))
            assert all(getattr(tree, field) == getattr(same[0], field) for tree in same for field in SPLITS)
            gains = [sum(tree.gain[node] for tree in same) for node in range(len(same[0])) if not same[0].is_leaf(node)]
            assert sum(gains) > 0
            assert min(gains) > 0 or CASES[case].get("grow_policy") == "symmetric"  # where a level gains together


@pytest.mark.slow
def test_rows_in_the_order_of_leaves_and_of_a_relation(monkeypatch):
    frame = flights(1500)
    plain = fitted(frame, **CASES["classes"])
    monkeypatch.setattr(numba, "MIN_SORTED", 100)
    monkeypatch.setattr(sql, "MIN_SORTED", 100)
    monkeypatch.setattr(query_costs, "MAX_VALUES", 0)
    assert fitted(frame, **CASES["classes"]).to_json() == plain.to_json()
    con = duckdb.connect()
    con.register("t", frame.to_arrow())
    model = fitted(con.sql("SELECT * FROM t ORDER BY hash(a)"), "duckdb", **CASES["classes"])
    np.testing.assert_allclose(model.trees["value"], plain.trees["value"], rtol=1e-9)


@pytest.mark.slow
@cases("engine", ENGINES)
def test_held_out_rows_stop_the_fit(engine, monkeypatch):
    monkeypatch.setattr(query_costs, "MAX_VALUES", 0)
    frame = flights().with_columns(pl.col("cause").shuffle(1))
    model = fitted(frame, engine, n_estimators=30, valid="fold", early_stopping_rounds=2, learning_rate=1.0,
                   **CASES["classes"])  # fmt: skip
    assert model.n_rounds < 30
    held_out = frame.filter("fold")
    own = model.predict(held_out).to_numpy()[np.arange(len(held_out)), held_out["cause"]]
    assert -np.log(own).mean() == pytest.approx(model.best_score, rel=1e-9)


def test_a_model_of_one_output_is_that_of_one_output_per_tree():
    frame = flights()
    one, other = (fb.fit(frame, "delay", features=FEATURES, n_estimators=3, multi_strategy=how, verbose=False)
                  for how in ("one_output_per_tree", "multi_output_tree"))  # fmt: skip
    assert one.trees.equals(other.trees)


def test_one_category_and_the_rest_and_sorted_sets():
    """Targets (0, 0), (4, 0), (0, 4) of three categories: the best set is found whichever way it is searched."""
    frame = pl.DataFrame({"c": list("abcd") * 10, "u": [0.0, 4, 0, 4] * 10, "v": [0.0, 0, 4, 4] * 10})
    for onehot in (1, 9):
        model = fb.fit(frame, ["u", "v"], n_estimators=1, max_depth=2 if onehot == 1 else 3, learning_rate=1.0,
                       reg_lambda=0.0, max_cat_to_onehot=onehot, cat_smooth=0.0, **VECTOR)  # fmt: skip
        np.testing.assert_allclose(model.predict(frame).to_numpy(), frame.select("u", "v").to_numpy(), atol=1e-12)


def test_categories_are_sorted_along_the_axis_on_which_their_weights_differ_most():
    """Means (v, −2 v) of eight shuffled categories lie on a line, so the best set is a prefix along it."""
    place = dict(zip("hdbfcage", range(8), strict=True))
    frame = pl.DataFrame({"c": list("abcdefgh") * 30})
    values = frame["c"].replace_strict(place, return_dtype=pl.Float64)
    frame = frame.with_columns(u=values, v=-2 * values)
    model = fb.fit(frame, ["u", "v"], n_estimators=1, max_depth=1, max_cat_to_onehot=1, learning_rate=1.0,
                   reg_lambda=0.0, cat_smooth=0.0, **VECTOR)  # fmt: skip
    lower = {model.predict(pl.DataFrame({"c": [c]})).to_list()[0][0] < 3.5: None for c in "hdbf"}
    assert (list(lower), model.predict(frame.filter(pl.col("c") == "e")).to_list()[0]) == ([True], [5.5, -11.0])


@cases(
    ("options", "message"),
    [
        ({"tree_method": "exact"}, r"multi_output_tree' can't be combined with tree_method='exact'; use 'hist'"),
        ({"tree_method": "approx"}, "can't be combined with tree_method='approx'"),
        ({"booster": "dart"}, "can't be combined with booster='dart'"),
        ({"monotone_constraints": {"a": 1}}, "can't be combined with monotone_constraints, which a split may keep"),
        ({"shards": 2}, "needs one of the engines 'numba', 'polars', 'duckdb', not"),
    ],
)
def test_what_does_not_go_together_is_refused(options, message):
    with pytest.raises(fb.ParameterError, match=message):
        fitted(flights(50), target=["delay", "air"], **options)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["depthwise", "lossguide", "symmetric"])
@pytest.mark.parametrize("engine", ENGINES)
def test_slopes_of_an_output_are_those_of_a_tree_of_its_own_with_the_same_splits(policy, engine):
    """Of targets that are multiples of each other, powers of two, all trees have the same splits."""
    frame = flights().with_columns(pl.col("a").fill_null(0.0), half=pl.col("delay") / 2, less=pl.col("delay") * -4)
    options = {"target": ["delay", "half", "less"], "features": ["a", "b"], "linear_tree": True, "grow_policy": policy}
    options |= {"max_leaves": 6} if policy == "lossguide" else {}
    together = fitted(frame, engine, **options)
    apart = fitted(frame, engine, **options, multi_strategy="one_output_per_tree")
    assert together.ensemble.is_linear
    for one, other in zip(together.ensemble.trees, apart.ensemble.trees, strict=True):
        assert [getattr(one, name) for name in SPLITS] == [getattr(other, name) for name in SPLITS]
        assert one.linear == other.linear


def test_auto_takes_trees_for_all_outputs():
    board = fb.auto(flights(60), "cause", multi_strategy="multi_output_tree", n_estimators=2).leaderboard
    assert board["trial"].to_list() == ["symmetric and leafwise"]


def test_the_split_of_a_level_gains_most_over_its_nodes_and_outputs():
    """Brute force over every feature and threshold of a level, by the formula of the gain."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 5, (60, 3))
    y = np.stack([x[:, 0] * (x[:, 1] > 2), x[:, 1] - x[:, 2] * (x[:, 0] > 1)], axis=1) + rng.normal(size=(60, 2)) / 9
    frame = pl.DataFrame(x, schema=["a", "b", "c"]).with_columns(u=y[:, 0], v=y[:, 1])
    model = fb.fit(frame, ["u", "v"], n_estimators=1, max_depth=2, grow_policy="symmetric", base_score=0.0, **VECTOR)
    nodes, splits = [np.arange(60)], []

    def score(rows):
        return (y[rows].sum(axis=0) ** 2 / (len(rows) + 1)).sum()  # λ = 1

    for _ in range(2):
        gains = {
            (f, t): sum(score(rows[x[rows, f] < t]) + score(rows[x[rows, f] >= t]) - score(rows) for rows in nodes
                        if 0 < (x[rows, f] < t).sum() < len(rows))
            for f in range(3) for t in range(1, 5)
        }  # fmt: skip
        splits.append(max(gains, key=gains.__getitem__))
        f, t = splits[-1]
        nodes = [side for rows in nodes for side in (rows[x[rows, f] < t], rows[x[rows, f] >= t])]
    tree = model.ensemble.trees[0]
    left, right = tree.left[0], tree.right[0]
    assert [(tree.feature[k], tree.threshold[k]) for k in (0, left, right)] == [splits[0], splits[1], splits[1]]
    for rows in nodes:
        expected = 0.3 * y[rows].sum(axis=0) / (len(rows) + 1)
        np.testing.assert_allclose(model.predict(frame[rows]).to_numpy(), np.tile(expected, (len(rows), 1)), rtol=1e-6)


@pytest.mark.slow
def test_sparse_columns_and_one_thread():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({f"s{k}": np.where(rng.random(2000) < 0.02, rng.integers(1, 4, 2000), 0) for k in range(40)})
    frame = frame.with_columns(u=pl.sum_horizontal("s0", "s1") + 0.0, v=pl.col("s2") - pl.col("s3") * 1.0)
    models = [fb.fit(frame, ["u", "v"], engine=engine, n_estimators=2, n_jobs=jobs, **VECTOR)
              for engine, jobs in (("numba", 1), ("numba", 2), ("polars", None))]  # fmt: skip
    assert len({model.to_json() for model in models}) == 1
    assert len(set(models[0].trees["feature"].drop_nulls())) > 2
