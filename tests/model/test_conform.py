"""Prediction intervals of a model: their coverage, their forms, and what they are refused for."""

import math
import random

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.ensemble.averaging import average
from tests.support.cases import cases

FEATURES = ["x", "z"]
ALPHAS = [0.05, 0.25, 0.5, 0.75, 0.95]
SHAPE = {"features": FEATURES, "n_estimators": 6, "max_depth": 3}
OBJECTIVES = {
    **dict.fromkeys(["reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror", "dist:normal"], ("y", {})),
    **dict.fromkeys(["count:poisson", "dist:negbinomial"], ("count", {})),
    **dict.fromkeys(["reg:gamma", "dist:lognormal"], ("amount", {})), "reg:logistic": ("share", {}),
    "reg:quantileerror": ("y", {"quantile_alpha": ALPHAS}), "reg:tweedie": ("count", {"tweedie_variance_power": 1.3}),
}  # fmt: skip


def rows(n: int, seed: int = 0, noise: float = 1.0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, n))
    shop = rng.choice(["a", "it's", "B"], n)
    y = 2 * x + noise * rng.normal(size=n) * np.where(shop == "B", 3.0, 1.0)
    return pl.DataFrame({
        "x": x, "z": z, "shop": pl.Series(shop, dtype=pl.String), "floor": rng.integers(0, 3, n),
        "open": rng.random(n) < 0.3, "y": y, "count": rng.poisson(np.exp(0.5 + x)),
        "amount": rng.gamma(2.0, np.exp(x)) + 1e-9, "share": 1 / (1 + np.exp(-y)),
    })  # fmt: skip


TRAINING, LATER, NEW = rows(800), rows(600, 1), rows(3000, 2)


def fitted(objective: str, **more) -> fb.Model:
    target, parameters = OBJECTIVES[objective]
    return fb.fit(TRAINING, target, objective=objective, **SHAPE | parameters | more)


@pytest.fixture(scope="module")
def model() -> fb.Model:
    return fitted("reg:squarederror")


def ends(model: fb.Model, frame: pl.DataFrame = NEW) -> tuple[np.ndarray, np.ndarray]:
    found = model.predict(frame, output="interval").struct.unnest()
    assert found.columns == ["lower", "upper"]
    return found["lower"].to_numpy(), found["upper"].to_numpy()


def covered(model: fb.Model, target: str = "y", frame: pl.DataFrame = NEW) -> np.ndarray:
    low, high = ends(model, frame)
    return (low <= frame[target].to_numpy()) & (frame[target].to_numpy() <= high)


def kth_smallest(scores: np.ndarray, coverage: float) -> float:
    return float(np.sort(scores)[math.ceil(round((len(scores) + 1) * coverage, 9)) - 1])


# --- what the ends are ------------------------------------------------------------------------------------------------


def test_ends_are_the_prediction_and_a_quantile_of_residuals(model):
    residuals = np.abs(LATER["y"].to_numpy() - model.predict(LATER).to_numpy())
    for coverage in (0.5, 0.9, 0.99):
        low, high = ends(model.conform(LATER, "y", coverage=coverage))
        d, p = kth_smallest(residuals, coverage), model.predict(NEW).to_numpy()
        np.testing.assert_allclose(low, p - d, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(high, p + d, rtol=1e-13, atol=1e-13)


def test_ends_of_counts_grow_with_the_root_of_the_mean_and_stay_above_zero():
    model = fitted("count:poisson")
    mean, later = model.predict(NEW).to_numpy(), model.predict(LATER).to_numpy()
    d = kth_smallest(np.abs(LATER["count"].to_numpy() - later) / np.sqrt(later), 0.8)
    low, high = ends(model.conform(LATER, "count", coverage=0.8))
    np.testing.assert_allclose(low, np.maximum(mean - d * np.sqrt(mean), 0.0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(high, mean + d * np.sqrt(mean), rtol=1e-12)
    assert low.min() == 0.0


def test_shares_stay_between_0_and_1():
    low, high = ends(fitted("reg:logistic").conform(LATER, "share", coverage=0.95))
    assert (low.min(), high.max()) == (0.0, 1.0)


@cases("coverage", [0.5, 0.9])
def test_quantiles_are_moved_by_a_quantile_of_how_far_labels_are_outside(coverage):
    model = fitted("reg:quantileerror")
    first, last = (1, 3) if coverage == 0.5 else (0, 4)

    def pair(frame: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        q = model.predict(frame).to_numpy()[:, [first, last]]
        return q.min(axis=1), q.max(axis=1)

    (low, high), y = pair(LATER), LATER["y"].to_numpy()
    d = kth_smallest(np.maximum(low - y, y - high), coverage)
    expected_low, expected_high = pair(NEW)
    found_low, found_high = ends(model.conform(LATER, "y", coverage=coverage))
    middle = (expected_low + expected_high) / 2
    np.testing.assert_allclose(found_low, np.minimum(expected_low - d, middle), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found_high, np.maximum(expected_high + d, middle), rtol=1e-12, atol=1e-12)


def test_queries_have_only_the_trees_of_the_quantiles_that_are_asked_for():
    model = fitted("reg:quantileerror").conform(LATER, "y")
    of_all, of_two = (model.query("t", keep=["x"], output=output, form="staged") for output in ("mean", "interval"))
    assert len(of_two) < 0.5 * len(of_all)


def test_ends_never_pass_each_other_where_quantiles_are_too_far_apart():
    model = fitted("reg:quantileerror").conform(LATER, "y", coverage=0.02)
    assert model.ensemble.interval is not None
    assert model.ensemble.interval.distance < 0
    low, high = ends(model)
    assert (low <= high).all()
    assert (low == high).any()


# --- coverage ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@cases("objective", sorted(OBJECTIVES.keys() - {"reg:pseudohubererror", "reg:tweedie", "dist:lognormal"}))
def test_new_rows_are_covered_as_promised(objective):
    target = OBJECTIVES[objective][0]
    model = fitted(objective)
    # Of 20 sets of rows to conform on, as the coverage of one has a standard deviation of its own.
    draws = random.Random(0)
    shares = []
    for _ in range(20):
        chosen = rows(99, draws.randrange(10**6))
        shares.append(covered(model.conform(chosen, target, coverage=0.8), target).mean())
    n, k = 99, 80
    deviation = math.sqrt(k * (n + 1 - k) / ((n + 1) ** 2 * (n + 2)))
    # Of counts it may be more, as scores are equal; here by at most the share of the most frequent one.
    upper = 0.06 if target == "count" else 0.0
    error = 4 * deviation / math.sqrt(20) + 0.01  # 3,000 new rows
    assert 0.8 - error < np.mean(shares) < 0.8 + upper + error


def test_a_groups_distance_is_that_of_its_rows_and_others_have_that_of_all(model):
    few = LATER.with_columns(shop=pl.when(pl.int_range(pl.len()) < 5).then(pl.lit("few")).otherwise("shop"))
    sure = model.conform(few, "y", groups="shop")
    scores = few.select("shop", score=(pl.col("y") - model.predict(few)).abs())
    of_all = kth_smallest(scores["score"].to_numpy(), 0.9)
    wanted = {name: kth_smallest(scores.filter(shop=name)["score"].to_numpy(), 0.9) for name in ("a", "B", "it's")}
    frame = NEW[:7].with_columns(shop=pl.Series(["a", "B", "it's", "few", "unseen", None, "A"]))
    low, high = ends(sure, frame)
    expected = [*wanted.values(), *[of_all] * 4]
    np.testing.assert_allclose((high - low) / 2, expected, rtol=1e-12)


# --- quantiles that do not cross --------------------------------------------------------------------------------------


@pytest.mark.slow
@cases("count", [2, 3, 16])
def test_quantiles_are_the_margins_in_order(count):
    alphas = [(k + 1) / (count + 1) for k in range(count)]
    model = fb.fit(TRAINING, "y", objective="reg:quantileerror", quantile_alpha=alphas, features=FEATURES,
                   n_estimators=4, max_depth=5)  # fmt: skip
    raw, found = model.predict(NEW).to_numpy(), model.predict(NEW, "quantiles").to_numpy()
    assert (np.diff(raw, axis=1) < 0).any()
    assert (found == np.sort(raw, axis=1)).all()
    assert (NEW.select(model.expr("quantiles")).to_series().to_numpy() == found).all()
    assert model.predict(NEW[:1], "quantiles").to_list() == found[:1].tolist()
    y = NEW["y"].to_numpy()[:, None]

    def loss(quantiles: np.ndarray) -> float:
        return float(np.maximum(alphas * (y - quantiles), (np.array(alphas) - 1) * (y - quantiles)).mean())

    assert loss(found) < loss(raw)


def test_only_several_quantiles_have_an_order(model):
    with pytest.raises(fb.ParameterError, match="output must be one of 'mean', 'margin', not 'quantiles'"):
        model.predict(NEW, "quantiles")
    one = fb.fit(TRAINING, "y", objective="reg:quantileerror", **SHAPE)
    with pytest.raises(fb.ParameterError, match="not 'quantiles'"):
        one.expr("quantiles")
    assert one.conform(LATER, "y").ensemble.interval.kind == "absolute"


# --- the forms of the model -------------------------------------------------------------------------------------------


@pytest.mark.slow
@cases(("objective", "groups"), [
    ("reg:squarederror", None), ("count:poisson", "open"), ("reg:gamma", "shop"), ("reg:logistic", "floor"),
    ("reg:quantileerror", "shop"), ("dist:normal", None),
])  # fmt: skip
def test_all_forms_have_the_same_ends(objective, groups, tmp_path):
    model = fitted(objective, n_estimators=2).conform(LATER, OBJECTIVES[objective][0], groups=groups)
    frame = NEW[:200].with_columns(
        shop=pl.when(pl.col("x") > 1.5).then(None).when(pl.col("x") > 1).then(pl.lit("b")).otherwise("shop"),
        floor=pl.when(pl.col("z") > 1).then(None).otherwise(pl.col("floor") + 1),
        open=pl.when(pl.col("z") < 0).then("open"),
    ).with_row_index("id")  # fmt: skip
    expected = model.predict(frame, "interval").struct.unnest()
    assert frame.lazy().select(model.expr("interval")).collect().unnest("prediction").equals(expected)
    assert pl.concat(model.predict(frame[i], "interval").struct.unnest() for i in range(6)).equals(expected[:6])
    with duckdb.connect() as con:
        con.register("t", frame)
        for statement in model.database().table_statements("trees"):
            con.execute(statement)
        for form in ("auto", "staged", "lists", "sorted", "table"):
            trees = "trees" if form == "table" else None
            query = model.query("t", keep=["id"], output="interval", form=form, trees=trees)
            found = con.sql(query).order("id").pl().drop("id")
            assert found.columns == ["prediction_lower", "prediction_upper"]
            assert found.rows() == expected.rows()
        read = ", ".join([*FEATURES, *([groups] if groups else [])])
        for form in ("macro", "udf"):
            model.register(con, f"ends_{form}", output="interval", form=form)
            found = con.sql(f"SELECT ends_{form}({read}) AS p FROM t ORDER BY id").pl()
            assert found["p"].struct.unnest().equals(expected)
        assert model.predict(con.sql("FROM t ORDER BY id"), "interval").struct.unnest().equals(expected)
    model.save(tmp_path / "m.ubj")
    loaded = fb.load(tmp_path / "m.ubj")
    assert loaded == model
    assert loaded.ensemble.interval == model.ensemble.interval


def test_the_column_of_groups_may_be_a_feature_and_have_another_name(model, tmp_path):
    of_shops = fb.fit(TRAINING, "y", features=["x", "shop"], n_estimators=5).conform(LATER, "y", groups="shop")
    expected = of_shops.predict(NEW, "interval").struct.unnest().rows()
    con = duckdb.connect()
    con.register("t", NEW.with_row_index("id").rename({"shop": "Shop", "x": "X"}))
    names = {"x": "X", "shop": "Shop"}
    for sure, read in ((of_shops, ["x", "shop"]), (model.conform(LATER, "y", groups="shop"), [*FEATURES, "shop"])):
        expected = sure.predict(NEW, "interval").struct.unnest().rows()
        found = con.sql(sure.query("t", keep=["id"], output="interval", columns=names)).order("id").fetchall()
        assert [row[1:] for row in found] == expected
        sure.register(con, "ends", output="interval")
        assert con.sql(f"SELECT ends({', '.join(names.get(n, n) for n in read)}) FROM t LIMIT 1").fetchall()
        database = sure.database("postgres", columns=names)
        database.to_sql(tmp_path / "score.sql", "t", keep=["id"], output="interval")
        assert '--          "Shop": ' in (tmp_path / "score.sql").read_text()
        assert "prediction_lower" in database.create_view_sql("v", "t", keep=["id"], output="interval")
    with pytest.raises(fb.ParameterError, match="columns names 'shops', which is not a feature of the model"):
        sure.query("t", output="interval", columns={"shops": "x"})


def test_margins_to_start_from_are_taken_and_null_has_no_interval(model):
    started = TRAINING.with_columns(start=pl.col("x") * 2)
    of_rest = fb.fit(started, "y", base_margin="start", **SHAPE)
    later, new = (frame.with_columns(start=pl.col("x") * 2) for frame in (LATER, NEW))
    for groups in (None, "shop"):
        sure = of_rest.conform(later, "y", groups=groups, base_margin="start")
        held = new.with_columns(sure.predict(new, "interval", base_margin="start")).unnest("prediction")
        assert abs(held.select(pl.col("y").is_between("lower", "upper").mean()).item() - 0.9) < 0.04
        gone = new[:50].with_columns(start=pl.when(pl.col("z") > 0).then("start"))
        found = sure.predict(gone, "interval", base_margin="start").struct.unnest()
        assert (found["lower"].is_null() == gone["start"].is_null()).all()
        assert (found["upper"].is_null() == gone["start"].is_null()).all()
        con = duckdb.connect()
        con.register("t", gone.with_row_index("id"))
        query = sure.query("t", keep=["id"], output="interval", base_margin="start")
        assert [row[1:] for row in con.sql(query).order("id").fetchall()] == found.rows()
        assert gone.select(sure.expr("interval", base_margin="start")).unnest("prediction").equals(found)


def test_types_of_groups_that_compare_alike_find_their_distance(model):
    sure = model.conform(LATER, "y", groups="floor")
    expected = ends(sure, NEW[:100])
    for kind in (pl.Int8, pl.UInt64, pl.Float64, pl.Int128):
        found = ends(sure, NEW[:100].with_columns(pl.col("floor").cast(kind)))
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    between = NEW[:2].with_columns(floor=pl.Series([0.5, math.nan]))
    low, high = ends(sure, between)
    np.testing.assert_allclose((high - low) / 2, sure.ensemble.interval.distance, rtol=1e-12)
    by_shop = model.conform(LATER, "y", groups="shop")
    found = ends(by_shop, NEW.with_columns(pl.col("shop").cast(pl.Categorical)))
    assert all(np.array_equal(a, b) for a, b in zip(found, ends(by_shop), strict=True))
    row, groups = {"x": 0.5, "z": 0.5, "shop": "B"}, by_shop.ensemble.interval.groups
    p, d = model.predict(row).item(), groups.numbers[groups.values.index("B")]
    assert by_shop.predict(row, "interval").struct.unnest().rows() == [(p - d, p + d)]


# --- models made of it, and what it says ------------------------------------------------------------------------------


def test_an_interval_is_of_its_trees(model, tmp_path):
    sure = model.conform(LATER, "y")
    assert sure != model
    assert model.ensemble.interval is None
    assert sure.predict(NEW).equals(model.predict(NEW))
    assert sure[:] == model
    assert sure[:3] == model[:3]
    assert sure.refit(LATER, "y") == model.refit(LATER, "y")
    assert fb.fit(TRAINING, "y", init_model=sure, **SHAPE) == fb.fit(TRAINING, "y", init_model=model, **SHAPE)
    assert sure.conform(LATER, "y", coverage=0.5) == model.conform(LATER, "y", coverage=0.5)
    assert average([sure.ensemble, sure.ensemble], [1, 1]).interval is None
    sure.to_xgboost(tmp_path / "m.json")
    assert fb.from_xgboost(tmp_path / "m.json").ensemble.interval is None


def test_a_model_tells_of_its_interval(model):
    sure = model.conform(LATER, "y")
    d = f"{sure.ensemble.interval.distance:.4g}"
    assert repr(sure).splitlines()[1] == f"  interval: 90 % coverage, prediction ± {d}; 600 rows"
    assert f"90 % coverage, prediction ± {d}; 600 rows" in sure._repr_html_()
    shops = model.conform(LATER, "y", groups="shop", coverage=0.5)
    numbers = (*shops.ensemble.interval.groups.numbers, shops.ensemble.interval.distance)
    assert f"50 % coverage, prediction ± {min(numbers):.4g} to {max(numbers):.4g} by shop; 600 rows" in repr(shops)
    moved = fitted("reg:quantileerror").conform(LATER, "y")
    assert "90 % coverage, quantiles 0.05 and 0.95, moved apart by " in repr(moved)
    assert "× EXP(0.5 * margin); 600 rows" in repr(fitted("count:poisson").conform(LATER, "count"))


def test_what_can_not_be_done_is_said(model):
    sure, shops = model.conform(LATER, "y"), model.conform(LATER, "y", groups="shop")

    def message(call) -> str:
        with pytest.raises((fb.ParameterError, fb.DataError)) as error:
            call()
        return str(error.value)

    none = "the model has no prediction interval; make one with model.conform(data, target)"
    for call in (lambda: model.predict(NEW, "interval"), lambda: model.expr("interval"), lambda: model.sql("interval"),
                 lambda: sure[:2].predict(NEW, "interval")):  # fmt: skip
        assert message(call) == none
    likely = fb.fit(TRAINING, "open", **SHAPE)
    assert "has 2 classes" in message(lambda: likely.conform(LATER, "open"))
    assert "'probability', not 'interval'" in message(lambda: likely.predict(NEW, "interval"))
    assert "coverage must be a number from 0 to 1" in message(lambda: model.conform(LATER, "y", coverage=90))
    assert message(lambda: model.conform(LATER, "y", groups="shops")).startswith("groups column 'shops' is not in the")
    assert "it must be of strings, integers or Booleans" in message(lambda: model.conform(LATER, "y", groups="share"))
    assert "target column 'Y' is not in the data" in message(lambda: model.conform(LATER, "Y"))
    assert "takes numbers of 0 or more; target 'y'" in message(lambda: fitted("count:poisson").conform(LATER, "y"))
    assert "the data lacks column 'shop', the groups" in message(lambda: shops.predict(NEW.drop("shop"), "interval"))
    assert "has type Int32, but the" in message(lambda: shops.predict(NEW.with_columns(shop=1), "interval"))
    assert "also depends on column 'shop'" in message(lambda: shops.partial_dependence(NEW[:9], "x", output="interval"))
    assert shops.predict(NEW.drop("shop")).equals(model.predict(NEW))
    found = sure.partial_dependence(NEW[:9], "x", grid=[0.0], output="interval")["prediction"].to_list()
    p = model.partial_dependence(NEW[:9], "x", grid=[0.0])["prediction"].item()
    d = sure.ensemble.interval.distance
    np.testing.assert_allclose(found, [[p - d, p + d]], rtol=1e-12)
