"""`fb.auto`: a mean over folds of the settings that held-out rows chose, the same from every engine."""

import math
import time
from types import SimpleNamespace

import duckdb
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import frameboost as fb
from frameboost.data.held_out import fold_parts
from frameboost.data.opening import open_source
from frameboost.tuning import trials
from frameboost.tuning.blending import blend
from frameboost.tuning.recipes import PLANS
from tests.support.cases import cases
from tests.support.engines import as_relation

QUICK = {"n_estimators": 6, "learning_rate": 0.3, "max_depth": 3}


def rows(n: int = 200, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, n))
    y = x + np.where(z > 0, x, -x) + 0.3 * rng.normal(size=n)
    return pl.DataFrame({
        "x": x, "z": z, "s": pl.Series(rng.choice(["a", "b", "c", None], n).tolist()), "y": y,
        "day": rng.permutation(n) // 2, "who": rng.integers(0, 20, n), "w": rng.integers(1, 4, n),
    })  # fmt: skip


FEATURES = {"features": ["x", "z", "s"]}


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return rows()


@pytest.fixture(scope="module")
def model(frame) -> fb.Model:
    return fb.auto(frame, "y", **FEATURES, **QUICK)


def settings_of(shape, plan) -> dict:
    """Return the settings of a fit of few rows; the learning rate that is given does not grow."""
    bins = {"max_bin": 64} if plan in (PLANS[1], PLANS[2], PLANS[3]) else {}
    settings = {**shape, **plan.settings, **bins, **QUICK}
    return {name: value for name, value in settings.items() if name != "max_learning_rate"}


def fits_of(frame: pl.DataFrame, recipe, plan=PLANS[3], **more) -> list[tuple[fb.Model, pl.DataFrame]]:
    parts = [(a.collect(), b.collect()) for a, b in fold_parts(open_source(frame), 5, None, 0, None)]
    settings = [settings_of(recipe.shapes[k % len(recipe.shapes)], plan) | more for k in range(5)]
    return [(fb.fit(a, "y", valid=b, **FEATURES, **own), b) for (a, b), own in zip(parts, settings, strict=True)]


def mean_of(frame: pl.DataFrame, recipe, fits: list[fb.Model]) -> np.ndarray:
    """Return the mean of the fits' predictions; a recipe with refits has models of all rows in their place."""
    if recipe.refits:
        n_rounds = min(round(np.mean([fit.n_rounds for fit in fits]) * 5 / 4), QUICK["n_estimators"])
        settings = settings_of(recipe.shapes[0], PLANS[4]) | {"n_estimators": n_rounds, "early_stopping_rounds": None}
        fits = [fb.fit(frame, "y", **FEATURES, **settings, seed=seed) for seed in range(recipe.refits)]
    return np.mean([fit.predict(frame).to_numpy() for fit in fits], axis=0)


def rmse(predicted, label) -> float:
    return float(np.sqrt(np.mean((np.asarray(predicted) - np.asarray(label)) ** 2)))


def test_the_model_is_the_mean_of_fits_of_two_shapes_over_folds(frame, model):
    (recipe,) = PLANS[3].recipes
    fits = fits_of(frame, recipe)
    assert [fit.parameters["grow_policy"] for fit, _ in fits] == ["symmetric", "lossguide"] * 2 + ["symmetric"]
    (row,) = model.leaderboard.rows(named=True)
    assert list(row) == ["trial", "rmse", "weight", "fits", "rounds", "leaves", "seconds", "settings"]
    assert row["leaves"] == model.trees["left"].is_null().sum()
    assert row["rmse"] == pytest.approx(np.mean([rmse(fit.predict(held), held["y"]) for fit, held in fits]), rel=1e-9)
    assert (row["weight"], row["fits"]) == (1.0, 5)
    assert row["rounds"] == np.mean([fit.n_rounds for fit, _ in fits])
    expected = np.mean([fit.predict(frame).to_numpy() for fit, _ in fits], axis=0)
    # Leaf values have few digits.
    np.testing.assert_allclose(model.predict(frame), expected, rtol=0, atol=1e-6 * expected.std())


@pytest.mark.slow
def test_rows_are_predicted_by_the_models_that_have_not_seen_them(frame, model):
    (recipe,) = PLANS[3].recipes
    numbered = frame.with_row_index("position")
    held_out = [held.collect() for _, held in fold_parts(open_source(numbered), 5, None, 0, None)]
    parts = [
        rows.select("position", fold=pl.lit(k, pl.Int32), prediction=fit.predict(rows))
        for k, ((fit, _), rows) in enumerate(zip(fits_of(frame, recipe), held_out, strict=True))
    ]
    expected = pl.concat(parts).sort("position").drop("position")
    assert_frame_equal(model.out_of_fold, expected, rel_tol=1e-12)
    of_relation = fb.auto(as_relation(frame), "y", **FEATURES, **QUICK)
    assert_frame_equal(of_relation.out_of_fold, model.out_of_fold, rel_tol=1e-12)


@pytest.mark.slow
def test_the_leaderboard_has_seconds_of_the_clock(frame):
    begun = time.monotonic()
    board = fb.auto(frame, "y", quality=4, **FEATURES, **QUICK).leaderboard
    assert 0 < board["seconds"].sum() <= time.monotonic() - begun  # though fits run side by side


def test_few_rows_have_fewer_bins_unless_they_are_given(frame):
    assert [PLANS[3].max_bin_of(n_rows) for n_rows in (512, 513, 2**15, 2**15 + 1)] == [64, 128, 128, None]
    assert PLANS[4].max_bin_of(300) is None
    coarse = fb.auto(frame, "y", quality=1, features=["x"], n_estimators=1, max_bin=3)
    assert coarse.trees["threshold"].drop_nulls().n_unique() <= 2


@pytest.mark.slow
def test_held_out_rows_weigh_several_settings(frame):
    made = fb.auto(frame, "y", quality=4, **FEATURES, **QUICK)
    weights = dict(made.leaderboard.select("trial", "weight").iter_rows())
    assert sum(weights.values()) == pytest.approx(1.0)
    fits = {recipe.name: fits_of(frame, recipe, PLANS[4]) for recipe in PLANS[4].recipes}
    complete = made.leaderboard.filter((pl.col("fits") == 5) | (pl.col("weight") > 0))
    for row in complete.iter_rows(named=True):
        each = [rmse(fit.predict(held), held["y"]) for fit, held in fits[row["trial"]]]
        assert row["rmse"] == pytest.approx(np.mean(each), rel=1e-9)

    def error(shares: dict[str, float]) -> float:
        return float(np.mean([
            rmse(sum(w * fits[name][k][0].predict(fits[name][k][1]).to_numpy() for name, w in shares.items()),
                 frame_k["y"])
            for k, (_, frame_k) in enumerate(fits["symmetric"])
        ]))  # fmt: skip

    # No setting alone, and no further step of the selection, is better on the held-out rows.
    best = error(weights)
    assert all(best <= error({name: 1.0}) for name in complete["trial"])
    recipes = [recipe for recipe in PLANS[4].recipes if weights.get(recipe.name)]
    expected = sum(weights[one.name] * mean_of(frame, one, [fit for fit, _ in fits[one.name]]) for one in recipes)
    # A slope times a weight is rounded to some 30 bits, so that sums stay exact.
    np.testing.assert_allclose(made.predict(frame), expected, rtol=1e-9, atol=1e-8)


def test_trials_are_added_as_long_as_the_error_falls():
    # The best share of the first is 0.6; of one more trial at a time 1/2 and then 2/3 come nearer, and no further one.
    margins = SimpleNamespace(alone=[1.002, 1.003], error=lambda counts: 1 + 0.005 * abs(counts[0] / sum(counts) - 0.6))
    assert blend(margins) == [2 / 3, 1 / 3]


@pytest.mark.slow
def test_one_thread_gives_the_same_model_and_another_seed_another(frame):
    quick = FEATURES | QUICK | {"n_estimators": 2, "quality": 2}
    model = fb.auto(frame, "y", **quick)
    assert fb.auto(frame.lazy(), "y", n_jobs=1, **quick) == model
    assert fb.auto(frame, "y", seed=1, **quick) != model


@pytest.mark.slow
def test_settings_are_given_up_alike_on_any_number_of_threads():
    rng = np.random.default_rng(2)
    frame = pl.DataFrame({"x": rng.normal(size=250), "z": rng.normal(size=250)})
    frame = frame.with_columns(y=2 * pl.col("x") + pl.col("z").sin())
    options = {"quality": 4, "n_estimators": 8, "learning_rate": 0.3, "verbose": False}
    alone, two, four = (fb.auto(frame, "y", n_jobs=n_jobs, **options) for n_jobs in (1, 2, 4))
    assert alone == two == four
    assert set(alone.leaderboard.filter(weight=0)["fits"]) <= {2, 5}
    for model in (two, four):
        assert_frame_equal(model.leaderboard.drop("seconds"), alone.leaderboard.drop("seconds"))


@pytest.mark.slow
@cases(
    ("target", "objective", "labels"),
    [
        (pl.col("y") > 0, "binary:logistic", [False, True]),
        (pl.col("y").gt(0).cast(pl.Int8), "binary:logistic", [0, 1]),
        (pl.when(pl.col("y") > 0).then(pl.lit("yes")).otherwise(pl.lit("no")), "binary:logistic", ["no", "yes"]),
        (pl.col("y").clip(-1, 1).round().cast(pl.Int8).cast(pl.String), "multi:softprob", ["-1", "0", "1"]),
        (pl.col("y").round().cast(pl.Int32), "reg:squarederror", []),
    ],
)
def test_the_objective_fits_the_target(frame, target, objective, labels):
    made = fb.auto(frame.with_columns(t=target), "t", quality=2, **FEATURES, **QUICK)
    assert (made.objective, made.classes) == (objective, labels)
    if labels:
        best = made.evaluate(frame.with_columns(t=target), "t", eval_metric="auc").metrics["value"][0]
        assert best > 0.8


@pytest.mark.slow
def test_slopes_are_tried_at_higher_qualities():
    rng = np.random.default_rng(2)
    rows = pl.DataFrame({"x": rng.normal(size=250), "z": rng.normal(size=250)})
    rows = rows.with_columns(y=2 * pl.col("x") + pl.col("z").sin(), label=pl.col("x") > 0)
    rows = rows.with_columns(side=(pl.col("x").sign() + (pl.col("z") > 0)).cast(pl.String))
    options = {"quality": 4, "features": ["x", "z"], "n_estimators": 8, "learning_rate": 0.3, "verbose": False}
    made = fb.auto(rows, "y", **options)
    of_linear = pl.col("trial").str.starts_with("linear")
    assert made.leaderboard.filter(of_linear)["weight"].sum() >= 0.5
    assert made.ensemble.is_linear
    sums = made.explain(rows).to_numpy().sum(axis=1)
    np.testing.assert_allclose(sums, made.predict(rows, output="margin"), rtol=0, atol=1e-9)
    options["n_estimators"] = 2
    boards = [fb.auto(rows, target, **options).leaderboard for target in ("label", "side")]
    assert all(board.filter(of_linear)["trial"].n_unique() == n for board, n in zip(boards, (6, 7), strict=True))
    for target, more in (("y", {"monotone_constraints": {"x": 1}}), ("label", {"linear_tree": False})):
        plain = fb.auto(rows, target, **options, **more)
        assert set(plain.leaderboard["trial"]) <= {"symmetric", "leafwise", "depthwise"}
        assert not plain.ensemble.is_linear
    assert not any(recipe.has("linear_tree") for recipe in PLANS[5].for_size(2**22 + 1).recipes)


@pytest.mark.slow
def test_settings_that_are_behind_are_given_up():
    # A symmetric tree of depth 2 has one question a level, and here each side of the first asks another.
    rng = np.random.default_rng(1)
    x = rng.normal(size=(600, 4))
    y = np.where(x[:, 0] > 0, np.where(x[:, 1] > 0, 3.0, -3.0), np.where(x[:, 2] > 0, 3.0, -3.0))
    frame = pl.DataFrame(x).with_columns(y=pl.Series(y))
    board = fb.auto(frame, "y", quality=5, n_estimators=4, learning_rate=0.5, max_depth=2, n_jobs=1).leaderboard
    by_name = {row["trial"]: row for row in board.iter_rows(named=True)}
    assert by_name["shallow"]["fits"] == 2 if "shallow" in by_name else True
    others = [name for name in by_name if name in ("leafwise", "depthwise") or name.startswith("linear")]
    assert sum(by_name[name]["weight"] for name in others) > 0.5


def test_later_rows_are_held_out_by_time(frame):
    made = fb.auto(frame, "y", time="day", quality=1, **FEATURES, **QUICK)
    late = frame.with_columns(before=pl.col("day").rank("min") - 1).select(pl.col("before") >= 0.8 * 200).to_series()
    settings = settings_of(PLANS[1].recipes[0].shapes[0], PLANS[1])
    found = fb.fit(frame.filter(~late), "y", valid=frame.filter(late), **FEATURES, **settings)
    assert made.leaderboard["rmse"][0] == pytest.approx(found.best_score)
    settings |= {"n_estimators": found.n_rounds, "early_stopping_rounds": None}
    again = fb.fit(frame, "y", **FEATURES, **settings).predict(frame)
    np.testing.assert_allclose(made.predict(frame), again, rtol=0, atol=1e-6 * again.std())
    mixed = fb.auto(frame, "y", time="day", **FEATURES, **QUICK).leaderboard
    assert mixed.select("trial", "fits").rows() == [("symmetric and leafwise", 1)]


@pytest.mark.slow
@cases(
    ("options", "growing"),
    [({}, True), ({"learning_rate": 0.3}, False), ({"booster": "dart", "rate_drop": 0.1}, False),
     ({"learning_rate": 0.3, "max_learning_rate": 0.4}, True), ({"learning_rates": [0.3, 0.2, 0.1]}, False)],
)  # fmt: skip
def test_the_learning_rate_grows_unless_it_is_given(frame, options, growing):
    board = fb.auto(frame, "y", features=["x", "z"], n_estimators=3, max_depth=2, **options).leaderboard
    assert ("max_learning_rate=" in board["settings"][0]) == growing
    assert board["fits"].to_list() == [5]


def test_groups_are_held_out_as_a_whole_and_are_no_feature(frame):
    made = fb.auto(frame, "y", groups="who", quality=2, exclude=["day", "w"], **QUICK)
    assert made.features == ["x", "z", "s"]
    parts = list(fold_parts(open_source(frame), 5, None, 0, "who"))[:3]  # quality 2 trains on three of five
    shapes = [PLANS[2].recipes[0].shapes[k % 2] for k in range(3)]
    settings = [settings_of(shape, PLANS[2]) for shape in shapes]
    fits = [fb.fit(a, "y", valid=b, **FEATURES, **own) for (a, b), own in zip(parts, settings, strict=True)]
    assert made.leaderboard["rmse"][0] == pytest.approx(np.mean([fit.best_score for fit in fits]))


@pytest.mark.slow
def test_a_time_limit_ends_the_search(frame):
    start = time.monotonic()
    slow = {"n_estimators": 10**6, "early_stopping_rounds": 10**6, "learning_rate": 1e-4, "max_depth": 3}
    made = fb.auto(frame, "y", time_limit=0.5, **FEATURES, **slow)
    assert time.monotonic() - start < 10  # of a busy machine
    assert made.leaderboard["fits"].to_list() in ([1], [2])
    assert made.n_rounds > 1


def test_a_search_writes_its_checkpoints_as_often_as_a_fit(frame, tmp_path):
    lines = []
    for every in (1, 5):
        folder = tmp_path / str(every)
        fb.auto(frame, "y", quality=1, checkpoint=folder, checkpoint_every=every, n_estimators=5, **FEATURES)
        (saved,) = folder.iterdir()
        lines.append(len(saved.read_bytes().splitlines()))
    assert lines[0] == lines[1] + 4, "a line for each round in place of one for all five"


@pytest.mark.parametrize("below", ["", "search"])
def test_a_checkpoint_that_can_be_no_folder_is_refused(frame, tmp_path, below):
    file = tmp_path / "file"
    file.write_text("kept")
    with pytest.raises(fb.ParameterError, match=r"^checkpoint '.* can't be a folder: "):
        fb.auto(frame, "y", quality=1, checkpoint=file / below, **FEATURES)
    assert file.read_text() == "kept"


@pytest.mark.slow
def test_a_search_goes_on_from_its_checkpoint(frame, model, tmp_path):
    count = 0

    def interrupt(round_: int, metrics: dict[str, float]) -> None:
        nonlocal count
        count += 1
        if count == 20:
            raise KeyboardInterrupt

    before = trials._Stop.__call__
    trials._Stop.__call__ = lambda self, *args: interrupt(*args) or before(self, *args)
    try:
        with pytest.raises(KeyboardInterrupt):
            fb.auto(frame, "y", checkpoint=tmp_path / "search", n_jobs=1, **FEATURES, **QUICK)
    finally:
        trials._Stop.__call__ = before
    saved = sorted(path.name for path in (tmp_path / "search").iterdir())
    assert "symmetric and leafwise-0.3-0.checkpoint" in saved
    assert fb.auto(frame, "y", checkpoint=tmp_path / "search", **FEATURES, **QUICK) == model
    with pytest.raises(fb.ParameterError, match="checkpoint"):
        fb.auto(frame, "y", checkpoint=tmp_path / "search", **FEATURES, **QUICK | {"max_depth": 2})


def test_intervals_are_those_of_margins_on_held_out_rows(frame, model):
    fits = fits_of(frame, PLANS[3].recipes[0])
    scores = [score for fit, held in fits for score in np.abs((held["y"] - fit.predict(held)).to_numpy())]
    expected = sorted(scores)[int(np.ceil(201 * 0.9)) - 1]
    ends = model.predict(frame, output="interval").struct.unnest()
    np.testing.assert_allclose(ends["upper"] - ends["lower"], 2 * expected, rtol=1e-9)


def test_ten_rows_are_enough():
    frame = rows(10)
    made = fb.auto(frame, "y", features=["x"], quality=1, **QUICK)
    assert made.ensemble.interval is None
    assert fb.auto(frame, "y", features=["x"], **QUICK).predict(frame).is_finite().all()


@cases(
    ("options", "message"),
    [
        ({"quality": 6}, "quality must be an integer from 1 to 5, not 6"),
        ({"time_limit": 0}, "time_limit must be a number from 0.001 to 1e"),
        ({"tree_method": "exact"}, "auto trains with tree_method='hist', as 'exact' can't grow all of its trees"),
        ({"coverage": 1}, "coverage must be between 0 and 1"),
        ({"time_limit": 0.001}, "time_limit=0.001 is too short for one fit, whose first round ended .* seconds after"),
        ({"valid": 0.2}, "auto takes no valid; it holds out rows by itself"),
        ({"callbacks": []}, "auto takes no callbacks"),
        ({"groups": "nobody"}, "groups column 'nobody' is not in the data"),
        ({"time": "who", "groups": "who"}, "groups can't be combined with time"),
        ({"max_dept": 3}, "max_dept.*max_depth"),
    ],
)
def test_arguments_that_will_not_do(frame, options, message):
    with pytest.raises(ValueError, match=message):
        fb.auto(frame, "y", **FEATURES, **options)


@pytest.mark.slow
def test_a_loss_and_a_metric_of_the_user(frame):
    objective = fb.Objective(gradient="margin - label", hessian="1", link="margin", metric="rmse")
    off = fb.Metric("off", "AVG(ABS(label - prediction))")
    made = fb.auto(frame, "y", objective=objective, eval_metric=off, quality=2, **FEATURES, **QUICK)
    assert made.leaderboard.columns[1] == "off"
    built_in = fb.auto(frame, "y", eval_metric=off, quality=2, **FEATURES, **QUICK)
    assert built_in.predict(frame).to_list() == pytest.approx(made.predict(frame).to_list())


def test_later_queries_are_held_out_as_a_whole():
    queries = rows(300).with_columns(rank=pl.col("y").rank("ordinal").over("who").clip(0, 4).cast(pl.Int32))
    options = {"group": "who", "objective": "rank:ndcg", "time": "day", "quality": 1}
    assert fb.auto(queries, "rank", **options, **FEATURES, **QUICK).leaderboard["fits"].to_list() == [1]


def trials_of(frame, **options) -> dict[str, tuple[int, float]]:
    """Return the number of fits and the weight of each trial."""
    board = fb.auto(frame, "y", learning_rate=0.3, n_jobs=1, verbose=False, **options).leaderboard
    return {name: (fits, weight) for name, fits, weight in board.select("trial", "fits", "weight").iter_rows()}


@pytest.mark.slow
def test_where_there_is_little_noise_other_trees_may_win_a_race():
    rng = np.random.default_rng(5)
    x = pl.DataFrame(rng.uniform(-1, 1, (300, 3)), schema=["a", "b", "c"])
    mixed = "symmetric and leafwise"
    smooth = x.with_columns(y=2 * pl.col("a") + pl.col("b").sin())
    lost = dict.fromkeys([mixed, "linear, depth 2", "linear, depth 3"], (1, 0.0))  # deeper ones are not tried
    assert trials_of(smooth, n_estimators=40) == {"linear, depth 1": (2, 1.0), **lost}
    assert trials_of(smooth, n_estimators=40, linear_tree=False) == {mixed: (5, 1.0), "leafwise": (1, 0.0)}
    noisy = smooth.with_columns(y=pl.col("y") + rng.normal(size=300))
    assert trials_of(noisy, n_estimators=40) == {mixed: (5, 1.0)}
    classes = x.with_columns(y=(pl.col("a") * 2 + 2).cast(pl.Int64).cast(pl.String))
    of_all = {"for all outputs", "linear, for all outputs"}
    assert trials_of(classes, n_estimators=60) == {"for all outputs": (2, 1.0), "linear, for all outputs": (1, 0.0)}
    sides = (pl.col("a") + pl.col("b") > 0).cast(pl.Int64) + (pl.col("a") - pl.col("c") > 0)
    corner = x.with_columns(y=sides.cast(pl.String))
    assert trials_of(corner, n_estimators=60) == {"linear, for all outputs": (2, 1.0), "for all outputs": (1, 0.0)}
    coin = classes.with_columns(y=pl.Series(rng.integers(0, 3, 300)).cast(pl.String))  # nothing is learnt of it
    assert trials_of(coin, n_estimators=9).keys() == {mixed, *of_all}
    targets = smooth.with_columns(z=pl.col("b") * 2)
    found = fb.auto(targets, ["y", "z"], learning_rate=0.3, n_estimators=40, n_jobs=1, verbose=False)
    assert {mixed, *of_all} <= {*found.leaderboard["trial"]}
    codes = rng.integers(0, 4, (300, 3))
    rule = pl.DataFrame([pl.Series(f"s{k}", [f"v{code}" for code in codes[:, k]]) for k in range(3)])
    rule = rule.with_columns(y=pl.Series((codes[:, 0] + codes[:, 1]) % 3 == 0))
    without_sampling = {"all rows", "all rows, shallow", "all rows, leafwise", mixed}
    assert trials_of(rule, n_estimators=60).keys() == without_sampling
    of_codes = pl.DataFrame(codes, schema=["a", "b", "c"]).with_columns(rule["y"])
    assert trials_of(of_codes, n_estimators=60).keys() >= without_sampling
    assert "all rows" not in trials_of(of_codes.with_columns(d=x["a"]), n_estimators=60)
    score = of_codes.with_columns(y=10.0 * (pl.col("a") == pl.col("b")) * (pl.col("c") > 1) + 3 * pl.col("a"))
    assert trials_of(score, n_estimators=60).keys() >= {"linear, depth 1", *without_sampling}


def stopped_after(errors, to_beat: float, n_estimators: int) -> int | None:
    """Return the round that ends a fit of a race."""
    cannot_win = trials._CannotWin(to_beat, n_estimators)
    return next(
        (r for r, error in enumerate(errors, 1) if cannot_win(r, {"valid_rmse": np.float64(error)}) is True), None
    )


@pytest.mark.parametrize(
    ("to_beat", "expected"),
    [
        (2.0 ** (-125 / 50), None),  # halved every 50 rounds, it is 2^(-125.5 / 50) after half of the rounds past 51
        (2.0 ** (-128 / 50), 51),
        (0.9, None),
        (0.0, None),  # shares of errors of any sign mean nothing
        (-1.0, None),
    ],
)
def test_a_fit_of_a_race_ends_once_its_pace_is_too_slow(to_beat, expected):
    halved = [2.0 ** (-r / 50) for r in range(1, 201)]
    assert stopped_after(halved, to_beat, 200) == expected
    assert stopped_after([math.nan, *halved[1:]], to_beat, 200) == (expected and 52)


def test_the_pace_of_a_fit_of_a_race_is_that_of_its_last_quarter():
    stands = [2.0 ** (-min(r, 300) / 10) for r in range(1, 1_001)]
    assert stopped_after(stands, 2.0**-30.05, 1_000) == 400


def test_a_fit_of_a_race_that_stands_still_behind_ends_and_one_ahead_does_not():
    assert stopped_after([1.0] * 100, 0.99, 1_000) == 51
    assert stopped_after([1.0] * 100, 1.01, 1_000) is None
    assert stopped_after([-1.0] * 100, 0.5, 1_000) is None


@pytest.mark.slow
def test_a_race_has_the_winner_of_one_whose_fits_all_end(monkeypatch):
    x = pl.DataFrame(np.random.default_rng(5).uniform(-1, 1, (300, 3)), schema=["a", "b", "c"])
    curved = x.with_columns(y=(3 * pl.col("a")).sin() + pl.col("b") * pl.col("c"))
    shortened = fb.auto(curved, "y", quality=2, verbose=False)
    monkeypatch.setattr(trials, "_PACE", 10**9)
    whole = fb.auto(curved, "y", quality=2, verbose=False)
    assert shortened.predict(curved).equals(whole.predict(curved))
    rounds = [dict(model.leaderboard.select("trial", "rounds").iter_rows()) for model in (shortened, whole)]
    assert rounds[0].keys() == rounds[1].keys()
    assert all(rounds[0][name] <= rounds[1][name] for name in rounds[0])
    assert sum(rounds[0].values()) < sum(rounds[1].values())


@pytest.mark.slow
def test_no_fit_ends_early_by_a_metric_of_which_larger_values_are_better(monkeypatch):
    x = pl.DataFrame(np.random.default_rng(5).uniform(-1, 1, (300, 3)), schema=["a", "b", "c"])
    sides = (pl.col("a") + pl.col("b") > 0).cast(pl.Int64) + (pl.col("a") - pl.col("c") > 0)
    corner = x.with_columns(y=sides.cast(pl.String))
    options = {"eval_metric": "auc", "early_stopping_rounds": None, "n_estimators": 120, "quality": 2, "verbose": False}
    boards = [fb.auto(corner, "y", **options).leaderboard.drop("seconds")]
    monkeypatch.setattr(trials, "_PACE", 10**9)
    boards.append(fb.auto(corner, "y", **options).leaderboard.drop("seconds"))
    assert_frame_equal(*boards)


@pytest.mark.slow
def test_the_winner_of_a_race_is_trained_on_all_rows():
    """Two models by seed, of as many more rounds as rows, are the mean; only the first fold has been held out."""
    frame = rows(200).with_columns(y=pl.col("x") * 2 + pl.col("z"))
    options = {"features": ["x", "z"], "learning_rate": 0.3, "n_estimators": 80, "early_stopping_rounds": 1}
    made = fb.auto(frame, "y", **options)
    assert made.leaderboard["trial"][0] == "linear, depth 1"
    ((training, held_out), *_) = fold_parts(open_source(frame), 5, None, 0, None)
    plan, recipe = PLANS[3], PLANS[3].rivals[0][0]
    settings = {**plan.settings, **recipe.shapes[0], **options, "max_bin": 64}
    del settings["max_learning_rate"]
    first = fb.fit(training.collect(), "y", valid=held_out.collect(), **settings)
    n_rounds = round(first.n_rounds * 200 / training.collect().height)
    assert first.n_rounds < n_rounds < 80
    settings |= {"n_estimators": n_rounds, "early_stopping_rounds": None}
    each = [fb.fit(frame, "y", **settings, seed=seed).predict(frame).to_numpy() for seed in (0, 1)]
    assert np.abs(each[0] - each[1]).max() > 0
    np.testing.assert_allclose(made.predict(frame), np.mean(each, axis=0), rtol=1e-9, atol=1e-8)
    held = held_out.collect()
    assert made.leaderboard["rmse"][0] == pytest.approx(rmse(first.predict(held), held["y"]), rel=1e-9)
    known = made.out_of_fold.filter(pl.col("fold") == 0)
    np.testing.assert_allclose(known["prediction"], first.predict(held), rtol=1e-9, atol=1e-8)
    assert made.out_of_fold["prediction"].count() == len(held)
    without = fb.auto(frame, "y", **options, subsample=1.0, colsample_bylevel=1.0)
    assert without.leaderboard["fits"][0] == 1, "nothing is drawn, and so a second model would be the same"


@pytest.mark.slow
def test_sparse_data_is_no_reason_to_fail(frame):
    """A column without values, classes of three and of two rows, and groups of one row each."""
    small = frame.head(60).with_columns(nothing=pl.lit(None, pl.Float64), unnamed=pl.lit(None, pl.String))
    few, row = {"n_estimators": 2, "quality": 2, "verbose": False}, pl.int_range(pl.len())
    kinds = pl.when(row < 3).then(pl.lit("rare")).when(row < 30).then(pl.lit("a")).otherwise(pl.lit("b"))
    for target in ("y", kinds, row < 2):
        data = small if isinstance(target, str) else small.with_columns(y=target)
        made = fb.auto(data, "y", features=["x", "nothing", "unnamed"], **few)
        assert len(made.predict(small)) == 60
    grouped = fb.auto(small.with_columns(row=row), "y", groups="row", features=["x"], **few)
    assert grouped.leaderboard["fits"].to_list() == [3]


@pytest.mark.slow
@cases(("quality", "n_rows", "folds"), [(3, 4, 2), (3, 9, 4), (3, 10, 5), (1, 7, 1), (5, 19, 9)])
def test_few_rows_are_assigned_to_fewer_folds(frame, quality, n_rows, folds):
    board = fb.auto(frame.head(n_rows), "y", features=["x"], quality=quality, **QUICK).leaderboard
    assert board["fits"].max() == folds


def test_fewer_groups_than_folds(frame):
    site, quick = pl.int_range(200) % 3, FEATURES | QUICK
    for options in ({"groups": "who"}, {"group": "who", "objective": "rank:ndcg"}):
        data = frame.with_columns(who=site, y=pl.col("y").rank("ordinal").mod(4).cast(pl.Int8))
        held_out = data.with_columns(fb.auto(data, "y", **options, **quick).out_of_fold)
        assert sorted(held_out.select("who", "fold").unique()["fold"]) == [0, 1, 2]


@pytest.mark.slow
def test_groups_of_weight_0_are_not_held_out(frame):
    data = frame.with_columns(who=pl.col("who") % 5).with_columns(w=pl.col("w") * (pl.col("who") != 3))
    quick = FEATURES | QUICK | {"n_estimators": 2, "weight": "w", "groups": "who"}
    for rows_ in (data, as_relation(data)):
        folds = data.with_columns(fb.auto(rows_, "y", **quick).out_of_fold).group_by("who").agg(pl.col("fold").unique())
        assert folds.filter(pl.col("fold").list.first().is_null())["who"].to_list() == [3]


def test_weights_of_one_fold_are_too_few(frame):
    for where in (pl.int_range(200) == 7, pl.col("who") == 3):
        data = frame.with_columns(w=where.cast(pl.Float64))
        with pytest.raises(fb.DataError, match="weight 'w' is not 0 in too few rows: all of these would be held out"):
            fb.auto(data, "y", weight="w", groups="who", **FEATURES)


@pytest.mark.slow
def test_a_target_has_any_name(frame):
    """Such as those of the margins, which weigh settings, and of their folds."""
    quick = QUICK | {"quality": 4, "n_estimators": 3}
    boards = [
        fb.auto(frame.rename({"y": target, "w": weight}), target, weight=weight, **FEATURES, **quick).leaderboard
        for target, weight in (("y", "w"), ("trial_0_0", "margin_0"), ("fold", "trial_1_0"), ("MARGIN_0", "position"))
    ]
    for board in boards[1:]:
        assert_frame_equal(board.drop("seconds"), boards[0].drop("seconds"))


def test_a_rare_number_is_left_in_every_training_part(frame):
    claims = frame.with_columns(y=pl.when(pl.int_range(200) < 2).then(1e3).otherwise(0.0))
    made = fb.auto(claims, "y", **FEATURES, **QUICK)
    assert claims.with_columns(made.out_of_fold).filter(pl.col("y") > 0)["fold"].n_unique() == 2


@pytest.mark.slow
def test_the_last_time_is_held_out_where_it_has_many_rows(frame):
    """Years of a third of the rows each: there are no later rows than those of the last."""
    dated = frame.with_columns(year=2020 + pl.int_range(200) % 3)
    quick = FEATURES | QUICK | {"quality": 1}
    for data in (dated, as_relation(dated)):
        made = fb.auto(data, "y", time="year", **quick)
        assert dated.filter(made.out_of_fold["fold"].is_not_null())["year"].unique().to_list() == [2022]
        with pytest.raises(fb.DataError, match="time column 'year' has one value in all rows"):
            fb.auto(dated.with_columns(year=2020), "y", time="year", **quick)


@pytest.mark.slow
def test_classes_are_weighed_by_their_labels(frame):
    """At the qualities where held-out rows weigh settings, for labels of each type, as for numbers."""
    numbers = (pl.col("x").clip(-1, 1).round() + 1).cast(pl.Int8)
    quick = FEATURES | QUICK | {"quality": 4, "n_estimators": 2}
    plain = fb.auto(frame.with_columns(y=numbers), "y", objective="multi:softprob", **quick)
    errors = plain.leaderboard.drop("seconds")
    names = numbers.replace_strict({0: "'", 1: "b", 2: "no"}, return_dtype=pl.String)
    for labels in (names, names.cast(pl.Categorical), names.cast(pl.Enum(["'", "b", "no"]))):
        made = fb.auto(frame.with_columns(y=labels), "y", **quick)
        assert made.classes == ["'", "b", "no"]
        assert_frame_equal(made.leaderboard.drop("seconds"), errors)


@pytest.mark.slow
@cases(
    ("target", "constant"),
    [(pl.lit(5.0), 5.0), (pl.lit(1e-300) * pl.int_range(200), None), (pl.lit("a"), "a"), (pl.lit(2), 2.0)],
)
def test_a_target_without_room_for_a_search(frame, target, constant):
    with pytest.warns(fb.FrameboostWarning, match="constant|scale the target up"):
        made = fb.auto(frame.with_columns(y=target), "y", **FEATURES, **QUICK)
    classes = made.predict(frame, output="class") if isinstance(constant, str) else made.predict(frame)
    assert constant is None or classes.to_list() == [constant] * 200


@pytest.mark.slow
@cases(
    ("target", "quality", "options"),
    [
        ("y", 4, {"grow_policy": "symmetric"}), ("label", 4, {"grow_policy": "symmetric"}),
        ("y", 3, {"max_depth": 0}), ("y", 4, {"max_depth": 20}), ("y", 3, {"grow_policy": "lossguide"}),
        ("label", 4, {"linear_tree": True}), (["y", "z"], 4, {"linear_tree": True}),
        ("y", 4, {"multi_strategy": "multi_output_tree"}), ("label", 3, {"max_depth": 0, "n_estimators": 60}),
    ],
)  # fmt: skip
def test_what_goes_with_fit_goes_with_every_setting(frame, target, quality, options):
    data = frame.with_columns(label=pl.col("x").sign().cast(pl.Int8).cast(pl.String))
    features = {"features": ["x", "s"] if isinstance(target, list) else ["x", "z", "s"]}
    options = {"n_estimators": 2, "learning_rate": 0.3, **options}
    fb.fit(data, target, **features, **options)
    made = fb.auto(data, target, quality=quality, **features, **options)
    for name, value in options.items():
        assert made.parameters.get(name, value) == value or name == "n_estimators"
    assert made.leaderboard["settings"].is_duplicated().sum() == 0


def test_a_class_of_few_rows_is_held_out_by_as_many_folds(frame):
    """`auc` has a value in each fold, so early stopping and the leaderboard have."""
    rare = frame.with_columns(y=pl.int_range(200) < 5)
    made = fb.auto(rare, "y", eval_metric="auc", **FEATURES, **QUICK)
    held_out = rare.with_columns(made.out_of_fold).filter("y")
    assert sorted(held_out["fold"]) == [0, 1, 2, 3, 4]


def test_data_that_will_not_do(frame):
    with pytest.raises(fb.DataError, match="the data has 3 rows; auto needs at least 4"):
        fb.auto(frame.head(3), "y", **FEATURES)


@pytest.mark.slow
@pytest.mark.parametrize("of", ["frame", "relation"])
def test_labels_are_checked_in_all_rows(frame, of):
    rare = frame.with_columns(y=pl.int_range(200) == 7)
    missing = frame.with_columns(y=pl.when(pl.int_range(200) > 2).then("y"))
    not_a_number = frame.with_columns(y=pl.when(pl.int_range(200) > 1).then("y").otherwise(float("nan")))
    strings = rare.with_columns(y=pl.when("y").then(pl.lit("yes")).otherwise(pl.lit("no")))
    for data, message in (
        (rare, "target 'y' has other values than False in too few rows: all of these would be held out together"),
        (strings, "target 'y' has other values than 'no' in too few rows"),
        (missing, "target 'y' is NULL or NaN in 3 of 200 rows; drop those rows first"),
        (not_a_number, "target 'y' is NULL or NaN in 2 of 200 rows"),
    ):
        with duckdb.connect() as con, pytest.raises(fb.DataError, match=message):
            con.register("data", data)
            fb.auto(data if of == "frame" else con.table("data"), "y", **FEATURES)
