"""Cross-validation: folds by hash, by a column and by time, the same for a frame and for a relation."""

from functools import wraps

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.api import train_planned
from tests.support.engines import as_relation

OPTIONS = {"features": ["x", "z"], "n_estimators": 2, "max_depth": 2}


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(2, 400))
    return pl.DataFrame({
        "x": x, "z": z, "who": rng.choice(["ann", "bob", "it's", None], 400), "day": rng.permutation(400) // 3,
        "y": x + z**2 + 0.3 * rng.normal(size=400),
    }).with_columns(late=pl.col("y") > 1)  # fmt: skip


@pytest.fixture(scope="module")
def relation(frame) -> duckdb.DuckDBPyRelation:
    return as_relation(frame)


def summary(frame: pl.DataFrame, parts: list[tuple[pl.DataFrame, pl.DataFrame]], target: str = "y", **options):
    fits = [fb.fit(a, target, valid=b, train_metrics=True, **OPTIONS | options).history for a, b in parts]
    names = fits[0].columns[1:]
    return {
        f"{name}_{kind}": [f([fit[name][i] for fit in fits]) for i in range(len(fits[0]))]
        for name in names
        for kind, f in (("mean", np.mean), ("std", lambda v: np.std(v, ddof=1)))
    }


def assert_is(table: pl.DataFrame, expected: dict) -> None:
    assert table.columns == ["round", *expected]
    for name, values in expected.items():
        np.testing.assert_allclose(table[name], values, rtol=1e-12)


@pytest.mark.slow
def test_a_column_says_which_rows_belong_together(frame, relation):
    table = fb.cv(frame, "y", folds="who", **OPTIONS)
    one = OPTIONS | {"n_estimators": 1}
    assert fb.cv(frame, "y", folds="who", **one).equals(fb.cv(relation, "y", folds="who", **one))
    groups = [pl.col("who").eq_missing(name) for name in ("ann", "bob", "it's", None)]
    assert_is(table, summary(frame, [(frame.filter(~g), frame.filter(g)) for g in groups]))


@pytest.mark.slow
def test_time_is_predicted_from_the_past(frame, relation):
    table = fb.cv(frame, "y", folds=3, time="day", **OPTIONS)
    one = OPTIONS | {"n_estimators": 1}
    assert fb.cv(frame, "y", folds=2, time="day", **one).equals(fb.cv(relation, "y", folds=2, time="day", **one))
    before = [sum(other < day for other in frame["day"]) for day in frame["day"]]  # rows of one day stay together
    part = pl.Series([b * 4 // 400 for b in before])
    assert_is(table, summary(frame, [(frame.filter(part < k), frame.filter(part == k)) for k in (1, 2, 3)]))


@pytest.mark.slow
def test_hashed_folds_are_even_and_the_same_everywhere(frame, relation, monkeypatch):
    parts: list[list[int]] = []

    @wraps(train_planned)
    def train(plan, **options):
        parts.append(plan.held_out["valid"].frame.collect()["index"].to_list())
        return train_planned(plan, **options)

    with monkeypatch.context() as patched:
        patched.setattr("frameboost.api.train_planned", train)
        table = fb.cv(frame.with_row_index(), "y", folds=3, **OPTIONS)
    assert sorted(row for part in parts for row in part) == list(range(400))
    assert all(100 < len(part) < 167 for part in parts)
    assert table.equals(fb.cv(relation, "y", folds=3, **OPTIONS))
    assert not table.equals(fb.cv(frame, "y", folds=3, seed=1, **OPTIONS))


@pytest.mark.slow
def test_early_stopping_ends_the_table_at_the_best_mean(frame):
    options = {"folds": 3, "objective": "binary:logistic", "eval_metric": ["logloss", "auc"], "learning_rate": 1.0}
    whole = fb.cv(frame, "late", **OPTIONS | options | {"n_estimators": 30})
    means = whole["valid_auc_mean"].to_list()
    best = 0
    for i, mean in enumerate(means):
        if mean > means[best]:
            best = i
        elif i - best >= 3:
            break
    stopped = fb.cv(frame, "late", early_stopping_rounds=3, **OPTIONS | options | {"n_estimators": 30})
    assert stopped.equals(whole.head(best + 1))
    assert len(stopped) < 30
    none_is_better = fb.cv(frame, "late", early_stopping_rounds=3, min_delta=1.0, **OPTIONS | options)
    assert none_is_better.equals(whole.head(1))


PARTS = [
    (np.arange(399, 99, -1), np.arange(0, 80)),  # in another order, and without some rows
    ([*range(150), *range(250)], list(range(300, 400))),  # some rows twice
]


@pytest.mark.parametrize("form", [list, tuple, iter])
def test_folds_of_positions_are_fits_on_these_rows(frame, form):
    expected = summary(frame, [(frame[a], frame[b]) for a, b in PARTS], "late")
    for data in (frame, frame.lazy(), frame.to_pandas()):
        table = fb.cv(data, "late", folds=form(PARTS), **OPTIONS)
        assert table.columns[1:] == list(expected)
        np.testing.assert_allclose(table.drop("round").to_numpy().T, list(expected.values()), rtol=1e-12)
    fits = [fb.fit(frame[a], "y", **OPTIONS).predict(frame) for a, _ in PARTS]
    mean = fb.fit(frame, "y", folds=form(PARTS), **OPTIONS)
    np.testing.assert_allclose(mean.predict(frame), (fits[0] + fits[1]) / 2, rtol=1e-12)


@pytest.mark.parametrize(("name", "splitter", "target"), [
    ("KFold", {"n_splits": 3, "shuffle": True, "random_state": 1}, "y"),
    ("StratifiedKFold", {"n_splits": 3}, "side"),
    ("GroupKFold", {"n_splits": 4}, "y"),
    ("TimeSeriesSplit", {"n_splits": 2}, "y"),
])  # fmt: skip
def test_folds_of_a_splitter_are_scikit_learns(frame, name, splitter, target):
    splitter = getattr(pytest.importorskip("sklearn.model_selection"), name)(**splitter)
    frame = frame.with_columns(side=pl.when("late").then(pl.lit("l'ate")).otherwise(pl.lit("early")))
    groups = "day" if name == "GroupKFold" else None
    parts = list(splitter.split(frame.select("x"), frame[target], None if groups is None else frame[groups]))
    expected = fb.cv(frame, target, folds=parts, **OPTIONS)
    validated = fb.cv(frame, target, folds=splitter, groups=groups, return_models=True, **OPTIONS)
    assert validated.metrics.equals(expected)
    held_out = pl.concat([pl.DataFrame({"row": b, "fold": k}) for k, (_, b) in enumerate(parts)])
    told = validated.out_of_fold.with_row_index("row").drop_nulls("fold")
    assert dict(told.select("row", "fold").rows()) == dict(held_out.rows())


def test_rows_that_are_held_out_several_times_have_no_one_prediction(frame):
    validated = fb.cv(frame, "y", folds=[PARTS[0], PARTS[0]], return_models=True, **OPTIONS)
    assert len(validated.models) == 2
    with pytest.raises(fb.ParameterError, match="the folds hold out some rows several times"):
        validated.out_of_fold  # noqa: B018


def test_bad_positions_are_refused(frame, relation):
    splitter = pytest.importorskip("sklearn.model_selection").StratifiedKFold(3)

    def message(folds: object, data: object = frame, **options) -> str:
        with pytest.raises((fb.ParameterError, fb.DataError)) as error:
            fb.cv(data, "y", folds=folds, **OPTIONS | options)
        return str(error.value)

    rows = np.arange(9)
    far = message([(rows, rows), (rows, [400])])
    assert far == "fold 2 of folds has position 400; the data has those from 0 to 399"
    assert "fold 1 of folds has position -1; " in message([(rows - 1, rows)])
    for bad in ([], np.array([True] * 400), [0.5], "x", [[1, 2]]):
        assert message([(rows, rows), (bad, rows)]).startswith(
            "fold 2 of folds must have arrays of integers, positions "
        )
    for bad in ([], [1, 2], [(rows, rows, rows)], pl.Series([0, 1]), 1.5, {"a": 1}):
        assert message(bad).startswith("folds must be an integer from 2 to 1,000,000, a column name, a splitter of ")
    assert message(splitter).startswith(
        "folds=StratifiedKFold(n_splits=3, random_state=None, shuffle=False) can't split"
    )
    assert message([(rows, rows)], groups="day").startswith("groups can't be combined with positions of folds; pass ")
    assert message([(rows, rows)], time="day").startswith("time needs a number of folds, such as folds=5, not ")
    assert message(splitter, time="day").startswith("time needs a number of folds, such as folds=5, not ")
    assert message(splitter, stratified=True).startswith("stratified needs a number of folds, such as folds=5, and ")
    for folds in ([(rows, rows)], pytest.importorskip("sklearn.model_selection").KFold(3)):
        assert message(folds, relation).startswith(
            "folds of positions are for rows in memory; for a table in a database"
        )


def test_bad_folds_are_refused(frame):
    def message(data: pl.DataFrame = frame, **options) -> str:
        with pytest.raises((fb.ParameterError, fb.DataError)) as error:
            fb.cv(data, "y", **OPTIONS | options)
        return str(error.value)

    assert message(folds=1).startswith("folds must be an integer from 2 to 1,000,000, a column name, a splitter ")
    assert message(folds="when") == "column 'when', of folds, is not in the data"
    assert message(folds="day", time="day") == "time can't be combined with a column of folds; pass the number of folds"
    assert message(time="when") == "time column 'when' is not in the data"
    assert "'who', of folds, has 1 distinct value; it" in message(frame.filter(who="ann"), folds="who")
    assert message(objective=frame).startswith("objective must be an fb.Objective or one of 'reg:squarederror', ")
    assert message(valid="late") == "cv takes no valid; it trains and validates on parts of the data"


def test_several_targets_are_validated_together(frame):
    frame = frame.with_columns(twice=2 * pl.col("y"))
    table = fb.cv(frame, ["y", "twice"], folds=3, n_estimators=2, features=["x"])
    alone = fb.cv(frame, "y", folds=3, n_estimators=2, features=["x"])
    # Of the one target's errors, and errors twice as large: the root of the mean of e² and 4 e².
    assert table["valid_rmse_mean"].to_list() == pytest.approx((alone["valid_rmse_mean"] * 2.5**0.5).to_list())
    assert fb.cv(frame.select("x", "y", "twice"), ["y", "twice"], folds=2, n_estimators=1).height == 1


def test_fpreproc_makes_the_rows_and_the_arguments_of_each_fold(frame):
    def with_ratio(training, held_out, arguments):
        share = training["late"].mean()
        prepared = [part.with_columns(u=pl.col("x") * pl.col("z")) for part in (training, held_out)]
        assert "day" not in training.columns
        assert arguments["n_estimators"] == OPTIONS["n_estimators"]
        return *prepared, arguments | {"scale_pos_weight": (1 - share) / share, "features": ["x", "u"]}

    days = pl.Series(sorted(set(frame["day"])))
    frame = frame.with_columns(day=(pl.col("day") > days.median()).cast(pl.Int64))
    halves = [frame.filter(day=value) for value in (0, 1)]
    fits = []
    for training, held_out in (halves[::-1], halves):
        share = training["late"].mean()
        first, second = (part.with_columns(u=pl.col("x") * pl.col("z")) for part in (training, held_out))
        shape = OPTIONS | {"features": ["x", "u"], "scale_pos_weight": (1 - share) / share}
        fits.append(fb.fit(first, "late", valid=second, train_metrics=True, **shape))
    validated = fb.cv(frame, "late", folds="day", fpreproc=with_ratio, return_models=True, **OPTIONS)
    means = [np.mean([fit.history[name].to_list() for fit in fits], axis=0) for name in fits[0].history.columns[1:]]
    np.testing.assert_allclose(validated.metrics[:, 1::2].to_numpy().T, means, rtol=1e-12)
    assert list(validated.models) == fits
    with pytest.raises(fb.ParameterError, match="fpreproc may change the rows"):
        validated.out_of_fold  # noqa: B018


def test_fpreproc_that_can_not_be_used_is_refused(frame, relation):
    for data, wrong, message in (
        (frame, 5, r"^fpreproc must be a function of 3 arguments, not 5$"),
        (frame, lambda a, b, c: (a, b), r"^fpreproc must return the rows to train on, those to validate on, and the"),
        (relation, lambda a, b, c: (a, b, c), r"^fpreproc is for rows in memory, such as those of a polars or"),
    ):
        with pytest.raises((fb.ParameterError, fb.DataError), match=message):
            fb.cv(data, "y", folds=2, fpreproc=wrong, **OPTIONS)


def test_callbacks_see_the_means_and_may_end_the_table(frame):
    whole = fb.cv(frame, "y", folds=2, **OPTIONS | {"n_estimators": 4})
    seen, all_seen = [], []
    stopped = fb.cv(
        frame, "y", folds=2, return_models=True, **OPTIONS | {"n_estimators": 4},
        callbacks=[lambda number, row: seen.append((number, row)) or number == 3, lambda *each: all_seen.append(each)],
    )  # fmt: skip
    assert stopped.metrics.equals(whole.head(3))
    assert [model.n_rounds for model in stopped.models] == [3, 3]
    assert seen == all_seen == list(enumerate(whole.drop("round").head(3).to_dicts(), 1))
