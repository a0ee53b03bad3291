"""Draws are the same in every engine, uniform and independent; samples are of the size and shape asked for."""

import itertools
import math
from dataclasses import replace

import duckdb
import numpy as np
import polars as pl
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

import frameboost as fb
from frameboost.engines.memory.sampling import hash_of, keep_drawn
from frameboost.expressions.draws import draw_expr, draw_key, draw_sql, hash32
from frameboost.expressions.draws import draws as in_numpy
from frameboost.expressions.expression import Expression
from frameboost.parameters.parameters import Parameters
from frameboost.schema.types import Feature, FeatureType
from frameboost.splits.split import Stats
from frameboost.training.growths import _gradient_bound, sample_rows
from frameboost.training.open_nodes import FeatureSampler, OpenNode
from tests.support.cases import cases
from tests.support.engines import ENGINES, assert_same, open_engine

QUIET = {"verbose": False}
FEATURES = [f"x{i}" for i in range(8)]


def rows(n: int = 400, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 8)).round(2)
    y = (x * [3, -2, 2, 1, 1, 1, 0.5, 0.5]).sum(axis=1) + np.sin(3 * x[:, 0]) + rng.normal(size=n)
    frame = pl.DataFrame({name: x[:, i] for i, name in enumerate(FEATURES)})
    return frame.with_columns(y=pl.Series(y), late=pl.Series(y > 0), w=pl.Series(rng.uniform(0.5, 2, n)))


DATA = rows()


def draws(n: int, key: int) -> np.ndarray:
    return pl.select(draw_expr(pl.int_range(n, dtype=pl.Int64), key)).to_series().to_numpy()


# --- draws ------------------------------------------------------------------------------------------------------------


def test_polars_duckdb_and_python_draw_the_same():
    rng = np.random.default_rng(0)
    positions = [0, 1, 2**31, 2**32 - 1, 2**32, 2**32 + 5, 2**40, *map(int, rng.integers(0, 2**33, 200))]
    con = duckdb.connect()
    con.execute("CREATE TABLE p AS SELECT UNNEST(?::BIGINT[]) AS i", [positions])
    for key in [0, 1, 2**32 - 1, *map(int, rng.integers(0, 2**32, 8))]:
        in_python = [hash32(position % 2**32, key) / 2**32 for position in positions]
        in_polars = pl.DataFrame({"i": positions}).select(draw_expr(pl.col("i"), key)).to_series().to_list()
        in_duckdb = [value for (value,) in con.execute(f"SELECT {draw_sql('i', key)} FROM p").fetchall()]
        assert in_polars == in_python
        assert in_numpy(np.array(positions), key).tolist() == in_python
        assert in_duckdb == in_python
        assert all(0 <= value < 1 for value in in_python)


def test_hashes_tell_all_positions_apart():
    hashed = [hash32(position, 12345) for position in range(20_000)]
    assert len(set(hashed)) == 20_000
    assert all(0 <= value < 2**32 for value in hashed)


def test_draws_are_uniform_and_those_of_two_trees_and_of_neighbours_independent():
    for tree in range(4):
        counts = np.histogram(draws(64_000, draw_key(0, 0, tree)), bins=64, range=(0, 1))[0]
        assert scipy.stats.chisquare(counts).pvalue > 1e-3
    pairs = [draws(64_001, draw_key(3, 0, 2))[at : 64_000 + at] for at in (0, 1)]
    keys = [((0, 0, 0), (0, 0, 1)), ((0, 0, 0), (1, 0, 0)), ((0, 0, 5), (0, 1, 5)), ((7, 0, 99), (7 + 2**32, 0, 99))]
    for one, other in [pairs, *([draws(64_000, draw_key(*path)) for path in both] for both in keys)]:
        together = np.histogram2d(one, other, bins=8, range=[[0, 1], [0, 1]])[0]
        assert scipy.stats.chisquare(together.ravel()).pvalue > 1e-3


def test_keys_differ_with_every_step_of_the_path():
    paths = list(itertools.product(range(4), range(20), range(20)))
    assert len({draw_key(0, *path) for path in paths}) == len(paths)
    assert len({draw_key(seed, 0, 0) for seed in [*range(1000), 2**32, 2**40, 2**63 - 1]}) == 1003


# --- one model --------------------------------------------------------------------------------------------------------

SAMPLED = [
    {"subsample": 0.5},
    {"subsample": 0.3, "sampling_method": "gradient_based"},
    {"subsample": 0.3, "sampling_method": "gradient_based", "reg_lambda": 0.0, "weight": "w"},
    {"colsample_bytree": 0.5, "colsample_bylevel": 0.6, "colsample_bynode": 0.7},
    {"subsample": 0.8, "colsample_bynode": 0.5, "num_parallel_tree": 3, "n_estimators": 1},
]


@pytest.mark.slow
@cases(
    ("parameters", "objective"), [(p, ("reg:squarederror", "binary:logistic")[i % 2]) for i, p in enumerate(SAMPLED)]
)
def test_engines_draw_one_model(objective, parameters):
    target = "y" if objective == "reg:squarederror" else "late"
    options = {"objective": objective, "features": FEATURES, "n_estimators": 2, "max_depth": 3, "seed": 11, **QUIET}
    options |= parameters
    models = [fb.fit(DATA, target, engine=engine, **options) for engine in ("numba", "polars")[: 1 + (target == "y")]]
    con = duckdb.connect()
    con.register("frame", DATA)
    con.execute("SET preserve_insertion_order = false")
    con.execute("CREATE TABLE t AS SELECT * FROM frame")
    models.append(fb.fit(con.table("t"), target, **options))
    assert_same(objective, *models)
    others = [{"seed": 12}, {name: 1.0 for name in parameters if "sample" in name and name != "sampling_method"}]
    assert all(fb.fit(DATA, target, **options | other) != models[0] for other in others)


@pytest.mark.slow
@cases("parameters", SAMPLED)
def test_exact_draws_too(parameters):
    options = {"features": FEATURES, "n_estimators": 2, "max_depth": 3, "tree_method": "exact", **QUIET} | parameters
    model = fb.fit(DATA, "y", **options)
    assert model == fb.fit(DATA, "y", **options)
    assert model != fb.fit(DATA, "y", **options | {"seed": 1})


# --- rows -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@cases("share", [0.1, 0.95])
def test_the_root_covers_the_rows_drawn(share, engine):
    data = rows(3000)
    options = {"features": FEATURES, "subsample": share, "n_estimators": 2, "max_depth": 1, "engine": engine, **QUIET}
    covers = fb.fit(data, "y", seed=5, **options).trees.filter(pl.col("node") == 0)["cover"].to_list()
    drawn = [int((draws(3000, draw_key(5, 0, tree)) < share).sum()) for tree in range(2)]
    assert covers == drawn  # the hessian of the squared error is 1
    assert len(set(drawn)) > 1
    assert all(abs(cover - 3000 * share) < 4 * np.sqrt(3000 * share * (1 - share)) for cover in covers)


def test_a_tree_on_a_sample_is_the_tree_of_those_rows():
    cuts = {name: np.arange(-3, 3, 0.25) for name in FEATURES}
    options = {"features": FEATURES, "cuts": cuts, "base_score": 0.0, "n_estimators": 1, "max_depth": 3, **QUIET}
    sampled = fb.fit(DATA, "y", subsample=0.4, seed=3, **options)
    alone = fb.fit(DATA.filter(pl.Series(draws(len(DATA), draw_key(3, 0, 0)) < 0.4)), "y", **options)
    assert sampled.trees.drop("value", "gain", "cover").equals(alone.trees.drop("value", "gain", "cover"))
    for name in ("value", "gain", "cover"):
        np.testing.assert_allclose(sampled.trees[name], alone.trees[name], rtol=1e-9, atol=1e-12)


def state(engine: str, label, margin, parameters: Parameters):
    """Return an engine whose rows have the gradients g = margin - label and h = 1 + |label| / 10."""
    frame = pl.DataFrame({"x": np.arange(len(label)), "label": label, "m": margin})
    made = open_engine(
        engine, frame, [Feature("x", FeatureType("int64"))],
        {"label": "label", "base_margin": "m"}, parameters,
    )  # fmt: skip
    made.bin_columns(made.propose_bins(256, {}))
    made.start_margins({"margin": Expression("base_margin", ("base_margin",))})
    row = ("label", "margin")
    g, h = Expression("margin - label", row), Expression("1 + ABS(label) / 10", row)
    made.compute_gradients({"g_0": g, "h_0": h}, {})
    return made


SHAPES = {
    "normal": lambda rng: rng.normal(size=2000),
    "heavy tails": lambda rng: rng.standard_cauchy(2000),
    "one giant": lambda rng: np.r_[np.ones(1999), 1e9],
    "steep": lambda rng: 2.0 ** np.linspace(-20, 20, 2000),
    "all alike": lambda rng: np.full(2000, -3.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@cases("shape", SHAPES)
def test_the_expected_sample_size_is_the_requested_one(shape, engine):
    label = SHAPES[shape](np.random.default_rng(1))
    for share, reg_lambda in ((0.1, 1.0), (0.5, 0.5), (0.9, 0.0)) if engine == "numba" else ((0.1, 0.0),):
        parameters = Parameters(subsample=share, sampling_method="gradient_based", reg_lambda=reg_lambda)
        made = state(engine, label, np.zeros(2000), parameters)
        size = np.sqrt(label**2 + reg_lambda * (1 + np.abs(label) / 10) ** 2)
        likely = np.minimum(1, size / _gradient_bound(made, [0], parameters)).sum()
        assert likely == pytest.approx(share * 2000, rel=1e-3)
        made.close()


def test_rows_without_gradient_are_never_taken_and_may_be_too_many():
    label = np.r_[np.ones(100), np.zeros(1900)]
    parameters = Parameters(subsample=0.5, sampling_method="gradient_based", reg_lambda=0.0)
    made = state("polars", label, np.zeros(2000), parameters)
    sample = sample_rows(made, [0], parameters, tree=0)
    assert made.start_tree(0, sample).G == -100  # all hundred are sure to be taken
    nothing = state("polars", np.zeros(9), np.zeros(9), parameters)
    assert nothing.start_tree(0, sample_rows(nothing, [0], parameters, tree=0)).H == 0


@pytest.mark.slow
@cases("shape", ["normal", "heavy tails", "steep"])
def test_gradient_based_samples_are_unbiased(shape):
    rng = np.random.default_rng(2)
    label = SHAPES[shape](rng)
    parameters = Parameters(subsample=0.2, sampling_method="gradient_based", reg_lambda=0.5)
    made = state("numba", label, np.zeros(2000), parameters)
    sample = sample_rows(made, [0], parameters, tree=0)
    sums = [made.start_tree(0, replace(sample, key=draw_key(0, 9, i))) for i in range(200)]
    whole = made.start_tree(0)
    for found, wanted in (([s.G for s in sums], whole.G), ([s.H for s in sums], whole.H)):
        assert abs(np.mean(found) - wanted) < 4 * np.std(found) / np.sqrt(len(found))
        assert np.std(found) > 0


@pytest.mark.parametrize("engine", ENGINES)
def test_the_root_of_a_gradient_based_tree_is_the_scaled_up_sum(engine):
    options = {"subsample": 0.3, "sampling_method": "gradient_based", "reg_lambda": 0.5, "base_score": 0.0}
    model = fb.fit(
        DATA, "y", features=FEATURES, weight="w", seed=4, engine=engine, n_estimators=1, max_depth=1,
        learning_rate=1, **options, **QUIET,
    )  # fmt: skip
    h = DATA["w"].to_numpy()
    g = -DATA["y"].to_numpy() * h
    size = np.sqrt(g * g + 0.5 * h * h)
    low, high = 0.0, size.sum()
    for _ in range(200):  # by bisection
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(1, size / middle).sum() > 0.3 * len(g) else (low, middle)
    p = np.minimum(1, size / high)
    taken = draws(len(g), draw_key(4, 0, 0)) < p
    root = model.trees.row(0, named=True)
    assert root["cover"] == pytest.approx((h / p)[taken].sum(), rel=1e-9)
    assert root["value"] == pytest.approx(-(g / p)[taken].sum() / ((h / p)[taken].sum() + 0.5), rel=1e-9)


# --- features ---------------------------------------------------------------------------------------------------------


@cases("n_features", [1, 2, 3, 7, 10, 50])
@cases("share", [0.01, 0.3, 0.5, 0.8, 0.999])
def test_draws_of_features_are_nested_and_of_the_right_size(share, n_features):
    nodes = [OpenNode(id_, depth, None) for depth, id_ in enumerate([0, 1, 3])] + [OpenNode(2, 1, None)]
    shares = {"colsample_bytree": share, "colsample_bylevel": share, "colsample_bynode": share}

    def allowed(**given):
        sampler = FeatureSampler(n_features, Parameters(**given))
        sampler.start_tree(6)
        return sampler.allowed(nodes)

    sizes = [n_features]
    for _ in shares:
        sizes.append(max(1, int(share * sizes[-1])))
    tree, level, node = (allowed(**dict(list(shares.items())[: i + 1])) for i in range(3))
    for mask, size in zip((tree, level, node), sizes[1:], strict=True):
        assert (mask.sum(axis=1) == size).all()
    assert (tree == tree[0]).all(), "all nodes of a tree have its features"
    assert (level <= tree).all()
    assert (node <= level).all()
    assert (level[1] == level[3]).all(), "two nodes of one level have its features"


@settings(deadline=None, max_examples=50)
@given(
    share=st.sampled_from([0.01, 0.3, 0.8, 0.999, 1.0]) | st.floats(0.001, 1.0),
    allowed=st.lists(st.booleans(), min_size=1, max_size=60).filter(any),
    seed=st.integers(0, 2**64 - 1),
    depth=st.integers(0, 16),
)
def test_the_kernel_draws_the_same_features(share, allowed, seed, depth):
    key = draw_key(seed, 2, 5, depth)
    drawn = np.array(allowed)
    keep_drawn(drawn, share, hash_of(depth + 1, draw_key(seed, 2, 5)))
    numbers = [number for number, is_allowed in enumerate(allowed) if is_allowed]
    by_draw = sorted(numbers, key=lambda number: hash32(number, key))
    assert np.flatnonzero(drawn).tolist() == sorted(by_draw[: max(1, math.floor(share * len(numbers)))])


def test_every_feature_is_drawn_as_often():
    sampler = FeatureSampler(10, Parameters(colsample_bytree=0.3, colsample_bynode=0.7))
    counts = np.zeros(10)
    for tree in range(1000):
        sampler.start_tree(tree)
        counts += sampler.allowed([OpenNode(0, 0, None)])[0]
    assert counts.sum() == 1000 * 2  # ⌊0.7 · 3⌋
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["numba", "duckdb"])
@cases("shares", [(0.5, 1, 1), (1, 0.25, 1), (0.75, 0.7, 0.5)])
def test_trees_split_on_what_was_drawn(shares, engine):
    names = ["colsample_bytree", "colsample_bylevel", "colsample_bynode"]
    given = dict(zip(names, map(float, shares), strict=True))
    options = {"features": FEATURES, "n_estimators": 3, "max_depth": 3, "min_child_weight": 0, "seed": 8, **QUIET}
    model = fb.fit(DATA, "y", engine=engine, **given, **options)
    sampler = FeatureSampler(8, Parameters(seed=8, **given))
    used = set()
    for tree, node, depth, feature in model.trees.select("tree", "node", "depth", "feature").drop_nulls().rows():
        sampler.start_tree(tree)
        allowed = sampler.allowed([OpenNode(node, depth, None)])[0]
        assert allowed[FEATURES.index(feature)], (tree, node, feature)
        used.add((tree, feature))
    assert len({feature for _, feature in used}) > 4, "other trees draw other features"


# --- forests ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_forest_is_the_mean_of_trees_trained_apart(engine):
    cuts = {name: np.arange(-3, 3, 0.25) for name in FEATURES}
    options = {"base_score": 0.5, "n_estimators": 1, "max_depth": 4, "learning_rate": 1.0, **QUIET}
    forest = fb.fit(
        DATA, "y", features=FEATURES, cuts=cuts, num_parallel_tree=5, subsample=0.6, colsample_bytree=0.5, seed=2,
        engine=engine, **options,
    )  # fmt: skip
    assert (forest.n_trees, forest.n_rounds) == (5, 1)
    apart = []
    for tree in range(5):
        drawn = DATA.filter(pl.Series(draws(len(DATA), draw_key(2, 0, tree)) < 0.6))
        key = draw_key(2, 1, tree)
        chosen = sorted(sorted(range(8), key=lambda i: hash32(i, key))[:4])
        names = [FEATURES[i] for i in chosen]
        model = fb.fit(drawn, "y", features=names, cuts={name: cuts[name] for name in names}, **options)
        apart.append(model.predict(DATA).to_numpy())
    np.testing.assert_allclose(forest.predict(DATA), np.mean(apart, axis=0), rtol=1e-9, atol=1e-12)
    assert np.std(apart, axis=0).mean() > 0.1


@pytest.mark.slow
@cases("tree_method", ["hist", "approx"])
def test_rows_that_are_joined_to_categories_keep_their_draws(tree_method):
    # More rows than DuckDB hands to one thread at a time: on the way through its joins they may change their order.
    names = [f"name {i % 97}" for i in range(130_000)]
    frame = pl.DataFrame({"s": names, "x": [i * 7919 % 1000 for i in range(130_000)]})
    frame = frame.with_columns(y=(pl.col("x") * 0.01 + pl.col("s").str.len_chars() + pl.col("x") % 7).cast(pl.Float64))
    options = {"subsample": 0.3, "n_estimators": 1, "max_depth": 2, "tree_method": tree_method}
    assert fb.fit(frame, "y", engine="duckdb", **options) == fb.fit(frame, "y", **options)


def test_features_are_drawn_by_their_weights():
    weights, n_trees = [1.0, 2.0, 5.0, 0.0], 4000
    sampler, drawn = FeatureSampler(4, Parameters(colsample_bytree=0.25), weights), np.zeros(4)
    node = OpenNode(0, 0, Stats(0.0, 1.0))
    for tree in range(n_trees):
        sampler.start_tree(tree)
        drawn += sampler.allowed([node])[0]
    assert drawn.sum() == n_trees, "one of four features each"
    expected = np.array(weights) / 8
    # Within four standard deviations of the share.
    assert (abs(drawn / n_trees - expected) <= 4 * np.sqrt(expected * (1 - expected) / n_trees)).all()


@pytest.mark.slow
def test_weights_of_features_by_name_by_position_and_in_all_engines():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(rng.normal(size=(200, 4)).round(2), schema=["a", "b", "c", "d"])
    frame = frame.with_columns(y=pl.sum_horizontal("a", "b", "c", "d"))
    options = {"n_estimators": 8, "max_depth": 3, "colsample_bynode": 0.5}
    model = fb.fit(frame, "y", feature_weights={"b": 0, "d": 9}, **options)
    assert set(model.trees["feature"].drop_nulls()) == {"a", "c", "d"}
    assert model != fb.fit(frame, "y", **options)
    for more in ({"engine": "polars"}, {"engine": "duckdb"}, {"shards": 2}):
        assert fb.fit(frame, "y", feature_weights={"b": 0, "d": 9}, **options | more).trees.equals(model.trees)
    row = np.array([[1, 0, 1, 9]], dtype=np.float32)
    for weights in ([1, 0, 1, 9], row[0], row, row.T):  # XGBoost's DMatrix takes the latter
        assert fb.fit(frame, "y", feature_weights=weights, **options).trees.equals(model.trees)
    with pytest.raises(fb.ParameterError, match=r"^feature_weights must be a dict of column name to a number"):
        fb.fit(frame, "y", feature_weights=np.ones((2, 2)), **options)
    X = frame.drop("y").with_columns(e=pl.lit(None, pl.Float64)).select("e", "a", "b", "c", "d")
    estimator = fb.FrameBoostRegressor(feature_weights=[5, 1, 0, 1, 9], **options).fit(X, frame["y"])
    assert estimator.model_.trees.equals(model.trees)
    for wrong, message in (
        ([1, 2], "feature_weights has 2 numbers, for 4 features; pass one for each"),
        ({"z": 1}, "feature_weights names 'z', which is not a feature"),
        ([1, -1, 0, 0], "must be a dict of column name to a number of at least 0, .*, not -1"),
        ([0, 0, 0, 0], "one of them positive"),
    ):
        with pytest.raises(fb.ParameterError, match=message):
            fb.fit(frame, "y", feature_weights=wrong)
