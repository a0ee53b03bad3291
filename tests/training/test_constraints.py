"""Constraints hold: along a column predictions never turn, across sets nothing interacts, and trees are XGBoost's."""

from collections import Counter
from dataclasses import replace

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import frameboost as fb
from frameboost.binning.bins import thresholds_between
from tests.support.cases import cases
from tests.support.examples import examples
from tests.support.models import nested
from tests.support.xgboost_trees import Case, compare_models, quantile_cuts, random_case, share_equal

SQUARED, LOGISTIC = "reg:squarederror", "binary:logistic"
METHODS = pytest.mark.parametrize("tree_method", ["hist", "exact"])


# No `max_leaves` level by level: XGBoost makes splits on presence either way round, and then spends the budget on the
# children in that order.
SHAPES = ({}, {"grow_policy": "lossguide", "max_leaves": 9, "max_depth": 0, "gamma": 0.5})


def constrained_case(seed: int, kinds: str, tree_method: str) -> Case:
    """Return a case with constraints drawn at random; not along x4, whose one value has no order."""
    case = random_case(seed, SHAPES if tree_method == "hist" else ({},))
    rng, options = np.random.default_rng(seed + 999), dict(case.settings)
    if "monotone" in kinds:
        options.pop("reg_alpha", None)  # XGBoost 3.2 leaves α out of the gain where there are constraints
        columns = ("x0", "x1", "x2", "x3", "x5", "x6")
        drawn = rng.choice([-1, 0, 1], 6, p=[0.4, 0.2, 0.4]).tolist()
        options["monotone_constraints"] = dict(zip(columns, drawn, strict=True))
    if "interaction" in kinds:
        sets = [np.flatnonzero(rng.random(7) < 0.4) for _ in range(rng.integers(0, 4))]
        options["interaction_constraints"] = [[f"x{i}" for i in members] for members in sets if len(members)]
    if tree_method == "hist":
        return replace(case, settings=options, cuts=quantile_cuts(case))
    if "max_delta_step" in options:
        options["gamma"] = 0.0  # XGBoost would keep splits that gain float32 noise for what grows below them
    return replace(case, settings=options)


@pytest.mark.slow
@METHODS
def test_random_trees_are_xgboosts(tree_method):
    counts = Counter()
    for seed in range(15):
        kinds = ("monotone", "interaction", "monotone and interaction")[seed % 3]
        counts += compare_models(constrained_case(seed, kinds, tree_method), tree_method)
    assert counts["splits"] > 60
    assert counts["default direction"] > 15
    assert counts["tied"] <= 0.06 * counts["splits"], counts
    assert share_equal(counts) > 0.95, counts


def twin_tree(x, y, w, cuts, p, directions, sets):
    """Return one tree for squared error from base score 0, by the book, in the form of `nested`.

    Every candidate is scored on the rows themselves, and every weight is clipped, with what XGBoost's documentation
    says of constraints and the objective that the penalties make. All labels and weights are dyadic fractions. Without
    cuts the tree is that of `exact`.
    """
    gamma, least = p["gamma"], p["min_child_weight"]

    def sums(rows):
        return (-y[rows] * w[rows]).sum(), w[rows].sum()

    def objective(rows, weight):
        G, H = sums(rows)
        return -(2 * G * weight + (H + p["reg_lambda"]) * weight**2 + 2 * p["reg_alpha"] * abs(weight))

    def weigh(rows, lower, upper):
        G, H = sums(rows)
        best = -np.sign(G) * max(abs(G) - p["reg_alpha"], 0.0) / (H + p["reg_lambda"])
        step = p["max_delta_step"] or np.inf
        return float(np.clip(np.clip(best, -step, step), lower, upper))

    def thresholds(rows, column):
        values = np.unique(column[~np.isnan(column)])
        if cuts is None:
            return [*thresholds_between(values[:-1], values[1:]).tolist(), *([None] if len(values) else [])]
        # Something must lie below a threshold; a histogram doesn't see what weighs nothing.
        seen = column[~np.isnan(column) & (w[rows] > 0)]
        return [*(cut for cut in cuts if (seen < cut).any()), *([None] if len(seen) else [])]

    def best(rows, lower, upper, path):
        """Return gain, feature, threshold, whether missing goes left, and the rows and the weight of each side."""
        own, found = objective(rows, weigh(rows, lower, upper)), None
        partitions = {}  # partition -> gain
        most = 1e-6 if cuts is None else max(1e-6, np.nextafter(gamma, 0.0))
        for feature in range(x.shape[1]):
            if path and feature not in path and not any(path | {feature} <= s for s in sets):
                continue
            column = x[rows, feature]
            for threshold in thresholds(rows, column):
                for missing_left in (False, True):
                    goes = ~np.isnan(column) if threshold is None else column < threshold
                    goes = np.where(np.isnan(column), missing_left, goes)
                    left, right = rows[goes], rows[~goes]
                    lightest = min(w[left].sum(), w[right].sum())
                    if lightest <= 0 or lightest < least:
                        continue
                    a, b = weigh(left, lower, upper), weigh(right, lower, upper)
                    if threshold is not None and directions[feature] * (b - a) < 0:
                        continue
                    gain = objective(left, a) + objective(right, b) - own
                    partitions[frozenset([tuple(left), tuple(right)])] = gain
                    if gain > most + (1e-9 if found else 0.0):  # the first of ties
                        found, most = (gain, feature, threshold, missing_left, left, right, a, b), gain
        if found is not None and sum(abs(gain - found[0]) < 1e-9 for gain in partitions.values()) > 1:
            reject()  # which of different partitions of the same gain is the best one, rounding decides
        return found

    def grow(rows, depth, lower, upper, path):
        H = w[rows].sum()
        found = best(rows, lower, upper, path) if depth < p["max_depth"] else None
        if found is not None:
            gain, feature, threshold, missing_left, left, right, a, b = found
            rises = a <= b if threshold is None else directions[feature] > 0
            middle = (a + b) / 2
            bounds = [(lower, middle), (middle, upper)] if rises else [(middle, upper), (lower, middle)]
            bounds = bounds if directions[feature] else [(lower, upper)] * 2
            below = path | {feature}
            children = [grow(part, depth + 1, *b, below) for part, b in zip((left, right), bounds, strict=True)]
            if gain >= gamma or max(map(len, children)) > 2:  # `exact` prunes from the bottom
                return feature, threshold, "left" if missing_left else "right", gain, H, *children
        return (weigh(rows, lower, upper) if least <= H else 0.0), H

    return grow(np.arange(len(y)), 0, -np.inf, np.inf, frozenset())


def assert_same_tree(ours, expected):
    assert len(ours) == len(expected), (ours, expected)
    if len(ours) == 2:
        assert ours == pytest.approx(expected, rel=1e-12, abs=1e-12)
        return
    assert ours[:3] == expected[:3]
    assert ours[3:5] == pytest.approx(expected[3:5], rel=1e-9, abs=1e-9)
    for child, twin in zip(ours[5:], expected[5:], strict=True):
        assert_same_tree(child, twin)


@pytest.mark.slow
@METHODS
@given(
    seed=st.integers(0, 2**32 - 1), max_depth=st.integers(1, 5), is_free=st.booleans(),
    reg_lambda=st.sampled_from([0.0, 1.0]), reg_alpha=st.sampled_from([0.0, 0.0, 1.5]),
    max_delta_step=st.sampled_from([0.0, 0.0, 1.0]), gamma=st.sampled_from([0.0, 2.0, 9.0]),
    min_child_weight=st.sampled_from([0.0, 1.0, 2.5]),
)  # fmt: skip
@settings(max_examples=examples(40), deadline=None)
def test_trees_are_the_plain_twins(tree_method, seed, is_free, **options):
    rng = np.random.default_rng(seed)
    n = 26
    x = rng.integers(0, rng.choice([4, 14]), size=(n, 4)).astype(float)
    if is_free:
        x[:, 2] = x[:, 0]  # ties all the way
    gone = rng.random((n, 4)) < rng.choice([0.0, 0.2, 0.7])
    gone[0] = False
    x[gone] = np.nan
    y, w = rng.integers(-24, 25, n) / 4, rng.integers(0, 4, n) / 2
    y[:2], w[:2] = [-1.0, 1.0], 1.0  # never constant
    cuts = None if tree_method == "exact" else [1.0, 2.0, 4.5, 4.75, 9.0]
    directions, sets = [0] * 4, [frozenset(range(4))]
    if not is_free:
        directions = rng.integers(-1, 2, 4).tolist()
        sets = [*sets, frozenset({0, 1}), frozenset({1, 2, 3})][rng.integers(0, 2) :][: rng.integers(0, 3)]
    frame = pl.DataFrame(x, schema=list("abcd")).with_columns(y=pl.Series(y), w=pl.Series(w))
    model = fb.fit(
        frame, "y", weight="w", tree_method=tree_method, cuts=cuts and dict.fromkeys("abcd", cuts), n_estimators=1,
        learning_rate=1.0, base_score=0.0, monotone_constraints=dict(zip("abcd", directions, strict=True)),
        interaction_constraints=[["abcd"[i] for i in members] for members in sets], **options,
    )  # fmt: skip
    assert_same_tree(nested(model), twin_tree(x, y, w, cuts, options, directions, sets))


def test_a_bound_is_the_middle_of_the_two_weights():
    # First x: 0 0 | 9 9 of weights 0, 9, so the middle is 4.5. Then z: within the left child 0 of y = -1 and y = 1 are
    # free, but in the right one y = 2 would fall below 4.5.
    frame = pl.DataFrame({"x": [1, 1, 2, 2], "z": [1, 2, 1, 2], "y": [-1.0, 1.0, 2.0, 16.0]})
    options = {"n_estimators": 1, "learning_rate": 1.0, "reg_lambda": 0.0, "min_child_weight": 0.0, "base_score": 0.0}
    assert fb.fit(frame, "y", **options).predict(frame).to_list() == [-1.0, 1.0, 2.0, 16.0]
    model = fb.fit(frame, "y", monotone_constraints={"x": 1}, **options)
    assert model.predict(frame).to_list() == [-1.0, 1.0, 4.5, 16.0]
    # 16²/1 + (2·2·4.5 − 4.5²) − 18²/2 = 256 − 2.25 − 162
    gains = dict(model.trees.filter(pl.col("feature").is_not_null()).select("node", "gain").rows())
    assert gains == {0: 162.0 - 81.0, 1: 2.0, 2: 91.75}


def test_leaves_of_quantiles_are_bounded_by_each_other():
    # x parts -1, 20 from 2, 16, and z the former. The medians left are -1 and 20, of mean 9.5, right is 9: the middle
    # is 9.25, which is above 9 and below 20.
    frame = pl.DataFrame({"x": [1, 1, 2, 2], "z": [1, 2, 1, 2], "y": [-1.0, 20.0, 2.0, 16.0]})
    options = {"n_estimators": 1, "learning_rate": 1.0, "reg_lambda": 0.0, "min_child_weight": 0.0, "base_score": 0.0}
    options["objective"] = "reg:absoluteerror"
    assert fb.fit(frame, "y", **options).predict(frame).to_list() == [-1.0, 20.0, 9.0, 9.0]
    model = fb.fit(frame, "y", monotone_constraints={"x": 1}, **options)
    assert model.predict(frame).to_list() == [-1.0, 9.25, 9.25, 9.25]
    assert model.refit(frame, "y", decay_rate=0.0).predict(frame).to_list() == [-1.0, 9.25, 9.25, 9.25]


GROWTHS = [
    {}, {"grow_policy": "lossguide", "max_leaves": 12}, {"grow_policy": "symmetric", "max_depth": 3},
    {"booster": "dart", "rate_drop": 0.3}, {"tree_method": "approx", "proposal": "local"}, {"tree_method": "exact"},
    {"subsample": 0.7, "min_child_samples": 5},
]  # fmt: skip


@pytest.mark.parametrize("growth", [
    pytest.param(growth, id="_".join(map(str, growth.values())), marks=pytest.mark.slow if growth else ())
    for growth in GROWTHS
])  # fmt: skip
def test_predictions_of_quantiles_never_turn(growth):
    seed = GROWTHS.index(growth)
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, 200)).round(1)
    frame = pl.DataFrame({"a": a, "b": b, "s": rng.choice(list("xyz"), 200), "w": rng.integers(1, 4, 200) * 1.0})
    frame = frame.with_columns(pl.col("a").replace(a[0], None), y=(a + 90 * rng.standard_t(2, 200)).round(2))
    grid = frame.sample(20, seed=seed).drop("a").join(pl.DataFrame({"a": np.linspace(-4, 4, 65)}), how="cross")
    engines = {"exact": [], "approx": ["polars", "duckdb"]}.get(growth.get("tree_method"), ["polars", "duckdb", "sql"])
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t AS SELECT row_number() OVER () AS id, * FROM frame")
        tables = {"duckdb": con.table("t"), "sql": fb.table(con, "t", dialect="duckdb", key="id")}
        for direction, objective in ((1, "reg:absoluteerror"), (-1, "reg:quantileerror"), (1, "reg:mape")):
            options = growth | {"objective": objective, "features": ["a", "b", "s"], "weight": "w", "n_estimators": 3}
            if objective == "reg:quantileerror":
                options["quantile_alpha"] = [0.2, 0.9]

            def turns(model, direction=direction):
                of_rows = model.predict(grid).to_numpy().reshape(20, 65, -1)
                return bool((np.diff(of_rows, axis=1) * direction < 0).any())

            assert turns(fb.fit(frame, "y", **options)) or objective == "reg:mape"
            options["monotone_constraints"] = {"a": direction}
            model = fb.fit(frame, "y", **options)
            assert len(model.trees) > 3 * 2
            assert not turns(model)
            if "booster" not in growth:
                assert not turns(model.refit(frame.sample(90, seed=seed), "y", weight="w"))
            for engine in engines if objective == "reg:quantileerror" else engines[:1]:
                other = fb.fit(tables.get(engine, frame), "y", engine=engine, **options)
                assert other.trees.equals(model.trees)
                assert other.base_margin == model.base_margin


DATA = pl.DataFrame({"x": [1, 2, 3, 4] * 5, "s": ["a", "b"] * 10, "z": [5, 6, 7, 8, 9] * 4, "y": [0, 0, 1, 5] * 5})


@pytest.mark.slow
@METHODS
def test_constraints_that_ask_for_nothing_change_nothing(tree_method):
    free = fb.fit(DATA, "y", tree_method=tree_method)
    for given_ in ({"monotone_constraints": {}}, {"monotone_constraints": {"x": 0, "z": 0}}):
        assert fb.fit(DATA, "y", tree_method=tree_method, **given_) == free
    everything = fb.fit(DATA, "y", tree_method=tree_method, interaction_constraints=[["x", "s", "z"]])
    assert everything.trees.equals(free.trees)


def test_what_means_the_same_is_kept_the_same(tmp_path):
    first = fb.fit(DATA, "y", monotone_constraints={"z": -1, "x": np.int64(1)}, interaction_constraints=[["z", "x"]])
    given_ = {"monotone_constraints": {"x": 1.0, "z": -1}, "interaction_constraints": (("x", "z", "x"), {"z", "x"})}
    assert fb.fit(DATA, "y", **given_).to_json() == first.to_json()
    kept = {"monotone_constraints": {"x": 1, "z": -1}, "interaction_constraints": [["x", "z"]]}
    assert kept.items() <= first.parameters.items()
    first.parameters["interaction_constraints"].append("s")
    assert kept.items() <= first.parameters.items()
    first.save(tmp_path / "model.json")
    assert fb.load(tmp_path / "model.json") == first


DIRECTIONS_NEEDED = (
    r"monotone_constraints must be a dict of column name to -1, 0 or 1, such as {'age': 1}, or a direction for each "
    "column, not "
)
NO_ORDER = "_constraints counts columns, which have no order here; name them, or pass features="
SETS_NEEDED = r"interaction_constraints must be a list of lists of column names, such as \[\['a', 'b'\], .*, not "
ORDERED = {"features": ["x", "z"]}


@pytest.mark.slow
def test_columns_in_an_order_are_named_by_their_position():
    shape = {"n_estimators": 3, "max_depth": 3, "features": ["z", "x", "s"]}  # which is not the order of the data
    for names, positions in (
        ({"monotone_constraints": {"z": 1, "x": -1}},
         [{"monotone_constraints": each} for each in ((1, -1, 0), [1, -1, 0], np.array([1, -1, 0]), "(1,-1,0)",
                                                      "[1, -1, 0]", {0: 1, 1: -1}, {"z": 1, np.int64(1): -1})]),
        ({"interaction_constraints": [["x", "s"], ["z"]]},
         [{"interaction_constraints": each} for each in ([[1, 2], [0]], ({1, "s"}, (0,)), "[[2, 1], [0]]")]),
        ({"interaction_constraints": [["z", "x"], ["z", "s"], ["x", "s"]]}, [{"interaction_cst": "pairwise"}]),
        ({"interaction_constraints": []}, [{"interaction_cst": "no_interactions"}]),
    ):  # fmt: skip
        expected = fb.fit(DATA, "y", **shape, **names)
        assert expected != fb.fit(DATA, "y", **shape)
        for each in positions:
            assert fb.fit(DATA, "y", **shape, **each) == expected, each
            on = fb.fit(DATA, "y", **shape, **names, init_model=expected)
            assert fb.fit(DATA, "y", n_estimators=3, max_depth=3, init_model=expected, **each) == on


@cases(
    ("parameters", "text"),
    [
        ({"monotone_constraints": 1}, DIRECTIONS_NEEDED),
        ({"monotone_constraints": pl.lit(1)}, DIRECTIONS_NEEDED),
        ({"interaction_constraints": pl.LazyFrame({"x": [1]})}, SETS_NEEDED),
        ({"monotone_constraints": "up"}, DIRECTIONS_NEEDED),
        ({"monotone_constraints": (1, -1)}, f"^monotone{NO_ORDER}"),
        ({"monotone_constraints": "(1,-1)"}, f"^monotone{NO_ORDER}"),
        ({"monotone_constraints": {0: 1}}, f"^monotone{NO_ORDER}"),
        ({"monotone_constraints": (1,), **ORDERED}, "has 1 direction for 2 columns; set one for each"),
        ({"monotone_constraints": (1, 2), **ORDERED}, r"monotone_constraints\['z'\] must be -1, 0 or 1, not 2"),
        ({"monotone_constraints": {2: 1}, **ORDERED}, "monotone_constraints names column 2, and there are 2, from 0"),
        ({"monotone_constraints": {-1: 1}, **ORDERED}, "monotone_constraints names column -1, and there are 2, from 0"),
        ({"monotone_constraints": {True: 1}, **ORDERED}, "monotone_constraints must name columns, not True"),
        ({"monotone_constraints": {0: 1, "x": 1}, **ORDERED}, "a column by its name and by its position; list it once"),
        ({"monotone_constraints": {"x": 2}}, r"monotone_constraints\['x'\] must be -1, 0 or 1, not 2"),
        ({"monotone_constraints": {"x": True}}, r"monotone_constraints\['x'\] must be -1, 0 or 1, not True"),
        ({"monotone_constraints": {"x": "up"}}, r"monotone_constraints\['x'\] must be -1, 0 or 1, not 'up'"),
        (
            {"monotone_constraints": {"X": 1}},
            "monotone_constraints names 'X', which is not a feature; did you mean 'x'",
        ),
        ({"monotone_constraints": {"y": 1}}, "monotone_constraints names 'y', which is not a feature"),
        ({"monotone_constraints": {"s": 1}}, "names 's', which holds strings; only columns with an order"),
        ({"interaction_constraints": ["x", "z"]}, SETS_NEEDED),
        ({"interaction_constraints": "all"}, SETS_NEEDED),
        ({"interaction_constraints": "[[0, 1]]"}, f"^interaction{NO_ORDER}"),
        ({"interaction_constraints": "pairwise"}, f"^interaction{NO_ORDER}"),
        (
            {"interaction_constraints": [[2]], **ORDERED},
            "interaction_constraints names column 2, and there are 2, from",
        ),
        ({"interaction_constraints": {"x": ["z"]}}, SETS_NEEDED),
        ({"interaction_constraints": [[0, 1]]}, f"^interaction{NO_ORDER}"),
        ({"interaction_constraints": [[0.5]]}, "interaction_constraints must name columns, not 0.5"),
        ({"interaction_constraints": [["x"], []]}, "holds an empty set; each must name at least one column"),
        ({"interaction_constraints": [["x", "q"]]}, "interaction_constraints names 'q', which is not a feature"),
        ({"interaction_constraint": [["x"]]}, "'interaction_constraint'; did you mean 'interaction_constraints'"),
    ],
)
def test_what_can_not_be_kept_is_refused(parameters, text):
    with pytest.raises(fb.ParameterError, match=text):
        fb.fit(DATA, "y", **parameters)
