"""Slopes of leaves: by hand, by numpy's solver, beside LightGBM, and the same in every engine."""

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import frameboost as fb
from frameboost.engines.duckdb import engine as sql
from frameboost.engines.memory import engine as numba
from frameboost.errors import ParameterError
from frameboost.training.linear_leaves import solve_slopes
from tests.support.cases import cases
from tests.support.examples import examples

ENGINES = ["numba", "polars", "duckdb"]
# One tree of two leaves, whose values are −G/H.
STUMP = {"n_estimators": 1, "max_depth": 1, "learning_rate": 1.0, "reg_lambda": 0.0, "verbose": False,
         "linear_tree": True}  # fmt: skip


def two_lines() -> pl.DataFrame:
    """Return 40 rows: y = 2 x for x from 0 to 19, and y = 200 − x for x from 50 to 69."""
    x = [*range(20), *range(50, 70)]
    return pl.DataFrame({"x": x, "y": [float(2 * v if v < 20 else 200 - v) for v in x]})


@cases("engine", ENGINES)
def test_without_a_penalty_each_leaf_is_its_line(engine):
    frame = two_lines()
    model = fb.fit(frame, "y", engine=engine, linear_lambda=0.0, **STUMP)
    np.testing.assert_allclose(model.predict(frame), frame["y"], atol=1e-8)
    tree = model.ensemble.trees[0]
    assert [leaf.terms[0].slope for leaf in tree.linear_leaves().values()] == pytest.approx([2.0, -1.0], abs=1e-9)
    # Beyond the rows of a leaf its line goes no further.
    beyond = model.predict(pl.DataFrame({"x": [-1000, 30, 10**9]}))
    np.testing.assert_allclose(beyond, [0.0, 38.0, 131.0], atol=1e-8)


@cases("penalty", [5.0, 60.0])
def test_the_penalty_shrinks_slopes_of_features_in_units_of_their_deviation(penalty):
    """With H = 20 rows the slope b of z = (x − 9.5) / deviation solves (20 + μ) b = 20 · 2 · deviation."""
    frame = two_lines()
    model = fb.fit(frame, "y", linear_lambda=penalty, **STUMP)
    shrunk = 20 / (20 + penalty)
    left = 19 + 2 * shrunk * (np.arange(20) - 9.5)
    right = 140.5 - shrunk * (np.arange(20) - 9.5)
    np.testing.assert_allclose(model.predict(frame), [*left, *right], atol=1e-8)


def test_a_row_without_a_number_gets_the_constant():
    frame = pl.concat([two_lines(), pl.DataFrame({"x": [None], "y": [57.0]}, schema={"x": pl.Int64, "y": pl.Float64})])
    model = fb.fit(frame, "y", linear_lambda=0.0, **STUMP)
    node = model.predict(frame, output="leaf").to_list()[-1][0]
    with_it = frame.filter(pl.Series([leaf[0] == node for leaf in model.predict(frame, output="leaf").to_list()]))
    assert model.predict(frame)[-1] == pytest.approx(with_it["y"].mean())
    np.testing.assert_allclose(model.predict(two_lines()), two_lines()["y"], atol=1e-8)


def test_leaves_of_fewer_than_twenty_rows_and_of_one_value_have_no_slopes():
    few = two_lines().head(39)  # 19 rows on the right
    linear = fb.fit(few, "y", **STUMP).ensemble.trees[0].linear_leaves()
    assert list(linear) == [1]
    flat = pl.DataFrame({"x": [0] * 30 + [1] * 30, "y": [0.0, 1.0] * 15 + [50.0, 60.0] * 15})
    assert fb.fit(flat, "y", **STUMP).ensemble.trees[0].linear == ()


def test_strings_have_no_slopes():
    frame = two_lines().with_columns(s=pl.when(pl.col("x") < 20).then(pl.lit("a")).otherwise(pl.lit("b"))).drop("x")
    assert not fb.fit(frame, "y", **STUMP).ensemble.is_linear


def test_the_largest_step_bounds_slopes():
    frame = two_lines()
    model = fb.fit(frame, "y", max_delta_step=3.0, linear_lambda=0.0, base_score=20.0, **STUMP)
    assert np.abs(model.predict(frame).to_numpy() - 20.0).max() <= 3.0 + 1e-9


def test_a_model_shows_its_slopes():
    model = fb.fit(two_lines(), "y", linear_lambda=0.0, **STUMP)
    assert "2 leaves, 2 with slopes" in repr(model)
    assert "2 leaves, 2 with slopes" in model._repr_html_()
    shown = model.trees.filter(pl.col("slopes").is_not_null())
    assert shown["node"].to_list() == [1, 2]
    for row, (slope, start) in zip(shown.iter_rows(named=True), [(2.0, 0.0), (-1.0, 200.0)], strict=True):
        [own] = row["slopes"]
        assert own["feature"] == "x"
        assert own["slope"] == pytest.approx(slope)
        line = model.base_margin + row["constant"] - own["slope"] * own["centre"]
        assert line == pytest.approx(start, abs=1e-7)


def test_each_leaf_is_a_ridge_regression_on_the_features_of_its_path():
    rng = np.random.default_rng(0)
    n = 4000  # leaves have more rows than a kernel reads at once
    frame = pl.DataFrame({f"x{i}": rng.integers(0, 60, n) for i in range(4)} | {"w": rng.integers(1, 4, n) / 2})
    frame = frame.with_columns(y=pl.col("x0") * pl.col("x1") / 30 + pl.col("x2") + pl.Series(rng.normal(size=n)))
    options = {"n_estimators": 1, "max_depth": 3, "learning_rate": 0.5, "reg_lambda": 2.0, "linear_lambda": 7.0}
    model = fb.fit(frame, "y", weight="w", linear_tree=True, verbose=False, **options)
    tree = model.ensemble.trees[0]
    leaf_of = np.array(model.predict(frame, output="leaf").to_list())[:, 0]
    assert len(tree.linear_leaves()) == 8
    predicted, g = model.predict(frame).to_numpy(), (model.base_margin - frame["y"]).to_numpy()
    parent = {child: node for node in range(len(tree)) for child in (tree.left[node], tree.right[node])}
    for leaf, own in tree.linear_leaves().items():
        path, node = [], leaf
        while node in parent and node != 0:
            node = parent[node]
            path.append(tree.feature[node])
        assert [term.feature for term in own.terms] == list(dict.fromkeys(path))
        rows = leaf_of == leaf
        x = np.stack([frame[f"x{term.feature}"].to_numpy()[rows] for term in own.terms], axis=1).astype(float)
        w = frame["w"].to_numpy()[rows]
        mean = (w @ x) / w.sum()
        z = (x - mean) / np.sqrt((w @ (x - mean) ** 2) / w.sum())
        slopes = -np.linalg.solve((z.T * w) @ z + 7.0 * np.eye(len(own.terms)), (z.T * w) @ g[rows])
        constant = -(w @ g[rows]) / (w.sum() + 2.0)
        expected = model.base_margin + 0.5 * (constant + z @ slopes)
        # g is rounded to a grid of some 30 bits, numbers of whole steps are exact
        np.testing.assert_allclose(predicted[rows], expected, atol=1e-4 * frame["y"].std())


def of_many() -> pl.DataFrame:
    """Return 800 rows with ten numbers, the third of which is missing in some rows, and a string."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(800, 10))
    frame = pl.DataFrame({f"x{i}": x[:, i] for i in range(10)}).with_columns(s=pl.Series(rng.choice(list("ab"), 800)))
    y = x[:, :9] @ [3.0, 2.5, 2.4, 2.0, 1.5, 1.2, 1.0, 0.9, 0.8] + x[:, 0] * x[:, 1] + 2.0 * (frame["s"] == "a")
    return frame.with_columns(x2=pl.when(pl.col("x3") < 2).then("x2"), y=pl.Series(y), z=pl.col("x3") - pl.col("x1"))


def added(model: fb.Model, candidates: set[int]) -> None:
    """Check the features of leaves: those of the path, then those of the most gain in earlier rounds."""
    gains = dict.fromkeys(sorted(candidates), 0.0)
    trees, n_outputs = model.ensemble.trees, model.ensemble.loss.n_outputs
    for first in range(0, len(trees), n_outputs):
        round_ = trees[first : first + n_outputs]
        by_gain = [feature for feature in sorted(gains, key=lambda each: -gains[each]) if gains[feature] > 0]
        for tree in round_:
            parent = {child: node for node in range(len(tree)) for child in (tree.left[node], tree.right[node])}
            for leaf, linear in tree.linear_leaves().items():
                path, node = [], leaf
                while (node := parent[node]) != 0:
                    path.append(tree.feature[node])
                path = [each for each in dict.fromkeys([*path, tree.feature[0]]) if each != 10]
                expected = list(dict.fromkeys([*path, *by_gain]))[:6]
                assert [term.feature for term in linear.terms] == expected
            for feature, gain in zip(tree.feature, tree.gain, strict=True):
                if feature in gains:
                    gains[feature] += gain


@pytest.mark.slow
@cases("engine", ENGINES)
def test_leaves_have_slopes_of_the_features_that_earlier_rounds_gained_most_by(engine):
    options = {"n_estimators": 12, "max_depth": 2, "linear_tree": True, "verbose": False, "engine": engine}
    features = [f"x{i}" for i in range(10)] + ["s"]
    model = fb.fit(of_many(), "y", features=features, **options)
    added(model, {0, 1, 3, 4, 5, 6, 7, 8, 9})  # not of x2, which some rows lack, but where it is on the path
    assert max(len(leaf.terms) for leaf in model.ensemble.trees[-1].linear_leaves().values()) == 6
    both = fb.fit(of_many(), ["y", "z"], features=features, **options | {"n_estimators": 3})
    added(both, {0, 1, 3, 4, 5, 6, 7, 8, 9})


def test_a_continued_fit_counts_the_gains_of_the_model():
    options = {"max_depth": 2, "linear_tree": True, "verbose": False, "features": [f"x{i}" for i in range(10)]}
    whole = fb.fit(of_many(), "y", n_estimators=6, **options)
    half = fb.fit(of_many(), "y", n_estimators=3, **options)
    rest = fb.fit(of_many(), "y", n_estimators=3, init_model=half, **options)
    np.testing.assert_allclose(rest.predict(of_many()), whole.predict(of_many()), rtol=1e-9)


def test_leaves_have_no_slopes_that_constraints_of_interactions_forbid():
    sets = [["x0", "x1", "x2"], ["x3", "x4"], ["x5"]]
    features = [f"x{i}" for i in range(6)]
    model = fb.fit(of_many(), "y", features=features, n_estimators=10, max_depth=3, linear_tree=True, verbose=False,
                   interaction_constraints=sets)  # fmt: skip
    of_leaves = [{features[term.feature] for term in leaf.terms}
                 for tree in model.ensemble.trees for leaf in tree.linear_leaves().values()]  # fmt: skip
    assert of_leaves
    assert all(any(each <= set(allowed) for allowed in sets) for each in of_leaves)


def sums_of(g: np.ndarray, h: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return what `LinearEngine.leaf_sums` says of a leaf with these rows, u being (rows, terms)."""
    with_one = np.column_stack([np.ones(len(g)), u])
    return np.vstack([g @ with_one, np.tril((with_one.T * h) @ with_one)])


def solved(g: np.ndarray, h: np.ndarray, u: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the means and slopes of a leaf's terms."""
    means, slopes = np.empty(u.shape[1]), np.empty(u.shape[1])
    solve_slopes(sums_of(g, h, u), u.shape[1], penalty, means, slopes)
    return means, slopes


@given(st.integers(0, 2**32), st.integers(1, 5), st.sampled_from([0.0, 0.1, 30.0]))
@settings(max_examples=30, deadline=None)
def test_slopes_solve_the_equations(seed, n_terms, penalty):
    rng = np.random.default_rng(seed)
    u, g, h = rng.normal(size=(50, n_terms)), rng.normal(size=50), rng.random(50) + 0.1
    mean = h @ u / h.sum()
    deviation = np.sqrt(h @ (u - mean) ** 2 / h.sum())
    z = (u - mean) / deviation
    expected = -np.linalg.solve((z.T * h) @ z + penalty * np.eye(n_terms), z.T @ g) / deviation
    means, slopes = solved(g, h, u, penalty)
    np.testing.assert_allclose(slopes, expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(means, mean, rtol=1e-12)


def test_a_feature_that_another_one_repeats_has_no_slope():
    u = np.arange(30.0)
    _, slopes = solved(-3 * (u - u.mean()), np.ones(30), np.column_stack([u, u]), 0.0)
    np.testing.assert_allclose(slopes, [3.0, 0.0], rtol=1e-9)


def random_rows(rng: np.random.Generator, n: int) -> pl.DataFrame:
    x = rng.normal(size=(n, 3)) * 10.0 ** rng.integers(-3, 6, 3) + rng.choice([0.0, 1e7])
    frame = pl.DataFrame({f"x{i}": x[:, i] for i in range(3)})
    label = x[:, 0] / np.abs(x[:, 0]).max() + (x[:, 1] > x[:, 1].mean()) + rng.normal(size=n) / 5
    return frame.with_columns(
        pl.when(pl.Series(rng.random(n) < 0.1)).then(None).otherwise(pl.col("x1")).alias("x1"),
        pl.when(pl.Series(rng.random(n) < 0.05)).then(pl.lit(rng.choice([np.inf, np.nan]))).otherwise("x2").alias("x2"),
        k=pl.Series(rng.integers(-9, 30, n), dtype=pl.Int16), f=pl.Series(rng.normal(size=n), dtype=pl.Float32),
        s=pl.Series(rng.choice(list("abc"), n)), y=pl.Series(label), late=pl.Series(label > 0.5),
        w=pl.Series(rng.integers(1, 4, n) / 2),
    )  # fmt: skip


SHAPES = [{"max_depth": 3}, {"grow_policy": "symmetric", "max_depth": 3},
          {"grow_policy": "lossguide", "max_depth": 0, "max_leaves": 7}, {"max_depth": 4, "subsample": 0.6},
          {"max_depth": 2, "num_parallel_tree": 2, "colsample_bynode": 0.7},
          {"max_depth": 3, "subsample": 0.5, "sampling_method": "gradient_based"}]  # fmt: skip


@pytest.mark.slow
@given(st.integers(0, 2**32), st.sampled_from(SHAPES), st.booleans())
@settings(max_examples=examples(3), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_engine_gives_the_same_model(monkeypatch, seed, shape, is_weighted):
    for engine in (numba, sql):  # which sort their rows by leaf
        monkeypatch.setattr(engine, "MIN_SORTED", 1)
    rng = np.random.default_rng(seed)
    frame, held_out = random_rows(rng, 250), random_rows(rng, 60)
    options = {"target": "y", "features": ["x0", "x1", "x2", "k", "f", "s"], "linear_tree": True, "n_estimators": 2,
               "learning_rate": 0.5, "verbose": False, "valid": held_out, **shape}  # fmt: skip
    options |= {"weight": "w"} if is_weighted else {}
    models = [fb.fit(frame, engine=engine, **options) for engine in ENGINES]
    models.append(fb.fit(frame, n_jobs=3, **options))
    assert models[0].ensemble.is_linear
    assert len({model.to_json() for model in models}) == 1
    for model in models:
        errors = (held_out["y"] - model.predict(held_out)).to_numpy()
        weights = held_out["w"].to_numpy() if is_weighted else np.ones(len(held_out))
        expected = np.sqrt((weights @ errors**2) / weights.sum())
        assert model.history["valid_rmse"][-1] == pytest.approx(expected, rel=1e-7)


@cases(
    ("options", "message"),
    [
        ({"tree_method": "exact"}, "can't be combined with tree_method='exact'"),
        ({"tree_method": "approx"}, "can't be combined with tree_method='approx'"),
        ({"booster": "dart"}, "can't be combined with booster='dart'"),
        ({"monotone_constraints": {"x": 1}}, "can't be combined with monotone_constraints"),
        ({"objective": "reg:absoluteerror"}, "can't be combined with objective 'reg:absoluteerror'"),
        ({"objective": "reg:quantileerror"}, "can't be combined with objective 'reg:quantileerror'"),
        ({"shards": 2}, "needs one of the engines 'numba', 'polars', 'duckdb', not 'numba in 2 shards'"),
    ],
)
def test_what_does_not_go_with_it_is_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        fb.fit(two_lines(), "y", linear_tree=True, verbose=False, **options)


def test_a_sparse_matrix_is_refused():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(ParameterError, match="can't be combined with a sparse matrix"):
        fb.FrameBoostRegressor(linear_tree=True).fit(sparse.csr_matrix(np.eye(50)), np.arange(50.0))


@pytest.mark.parametrize("engine", ["numba", "polars"])
def test_slopes_shrink_by_a_learning_rate_that_grows(engine):
    x = np.linspace(0, 6, 400)
    frame = pl.DataFrame({"x": x, "y": np.sin(x)})
    how = {"max_depth": 2, "linear_tree": True, "engine": engine}
    grown = fb.fit(frame, "y", learning_rate=0.5, max_learning_rate=1.0, n_estimators=2, **how)
    first = fb.fit(frame, "y", learning_rate=0.5, n_estimators=1, **how)
    # The rate of the second round is 1 % larger than that of the first.
    second = fb.fit(frame, "y", learning_rate=0.505, n_estimators=1, init_model=first, **how)
    assert grown.ensemble.is_linear
    np.testing.assert_allclose(grown.predict(frame), second.predict(frame), atol=1e-6)
