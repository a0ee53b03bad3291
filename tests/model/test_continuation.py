"""Training on from a model is as if training had never stopped; slices and refits are what their rounds are."""

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from tests.support.cases import cases
from tests.support.frames import FEATURES_BY_TYPE, LABELS, every_type
from tests.support.objectives import CASES, FEATURES, labelled_rows

LABELLED = LABELS | {"reg:absoluteerror": "amount", "multi:softprob": "level"}


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return every_type(400, seed=5).with_columns(level=(pl.col("amount").rank() * 3 // 401).cast(pl.Int8))


def structure(model: fb.Model) -> pl.DataFrame:
    return model.trees.drop("gain", "cover", "value")


@pytest.mark.slow
@cases(
    ("objective", "engine"),
    [*((objective, "numba") for objective in LABELLED), ("reg:absoluteerror", "duckdb"), ("multi:softprob", "polars")],
)
def test_two_fits_are_one(frame, objective, engine):
    options = {"objective": objective, "features": list(FEATURES_BY_TYPE)[::6], "weight": "w", "engine": engine}
    options["max_depth"] = 4
    whole = fb.fit(frame, LABELLED[objective], n_estimators=3, **options)
    first = fb.fit(frame, LABELLED[objective], n_estimators=2, **options)
    on = fb.fit(frame, LABELLED[objective], n_estimators=1, init_model=first, **options)
    assert structure(on).equals(structure(whole))
    a, b = (np.array(model.predict(frame).to_list()) for model in (on, whole))
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    assert structure(on[:2]).equals(structure(first))


@cases("drawing", [{"subsample": 0.5}, {"colsample_bynode": 0.3}, {"num_parallel_tree": 3, "subsample": 0.5}])
def test_draws_and_rounds_are_counted_on(frame, drawing):
    options = {"features": ["float64", "int16", "string"], "seed": 3, **drawing}
    whole = fb.fit(frame, "amount", n_estimators=5, valid=frame, **options)
    first = fb.fit(frame, "amount", n_estimators=3, **options)
    numbers: list[int] = []
    on = fb.fit(frame, "amount", n_estimators=2, init_model=first, valid=frame,
                callbacks=[lambda number, _: numbers.append(number)], **options)  # fmt: skip
    assert structure(on).equals(structure(whole))
    assert on.history["round"].to_list() == numbers == [4, 5]
    np.testing.assert_allclose(on.history["valid_rmse"], whole.history["valid_rmse"][3:])


def test_early_stopping_counts_from_the_first_model(frame):
    options = {"features": ["float64"], "max_depth": 2, "learning_rate": 0.9}
    first = fb.fit(frame[:250], "amount", n_estimators=3, **options)
    on = fb.fit(frame[:250], "amount", n_estimators=50, init_model=first, valid=frame[250:], early_stopping_rounds=2,
                **options)  # fmt: skip
    assert on.n_rounds == on.best_iteration > 3
    assert on.history.filter(round=on.best_iteration)["valid_rmse"].item() == on.best_score


@pytest.mark.slow
def test_a_relation_is_trained_on_where_it_is(frame):
    names = ["float64", "int16", "string", "amount"]
    con = duckdb.connect()
    con.register("frame", frame.select(names))
    con.execute("CREATE TABLE flights AS FROM frame")
    first = fb.fit(con.table("flights"), "amount", n_estimators=1)
    on = fb.fit(con.table("flights"), "amount", n_estimators=1, init_model=first, valid='"int16" > 0')
    assert on == fb.fit(frame.select(names), "amount", n_estimators=1, init_model=first, valid="int16 > 0")
    assert con.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(1,)]


def test_new_categories_are_added_to_the_old():
    def rows(letters: str) -> pl.DataFrame:
        return pl.DataFrame({"s": list(letters) * 20, "y": [float(ord(c)) for c in letters] * 20})

    options = {"learning_rate": 1, "reg_lambda": 0, "n_estimators": 1}
    first = fb.fit(rows("bd"), "y", **options)
    on = fb.fit(rows("abc"), "y", init_model=first, **options)
    assert on.trees["categories"].drop_nulls().to_list() != first.trees["categories"].drop_nulls().to_list()
    assert on.predict(rows("abc")).to_list() == rows("abc")["y"].to_list()
    d = pl.DataFrame({"s": ["d"]})
    # The second tree has never seen it: it goes with missing.
    assert on.predict(d).item() == first.predict(d).item() + on[1:].predict(d).item() - on.base_margin


def test_what_does_not_fit_the_model_is_refused(frame):
    small = frame.select("float64", "int16", "amount", "late")
    model = fb.fit(small, "amount", features=["float64", "int16"], n_estimators=1)

    def message(data: pl.DataFrame = small, target: str = "amount", **options) -> str:
        with pytest.raises((fb.ParameterError, fb.DataError)) as error:
            fb.fit(data, target, **{"init_model": model, "n_estimators": 1} | options)
        return str(error.value)

    assert message(init_model="m.json") == "init_model must be a Model, not 'm.json'; read its file with fb.load(path)"
    assert "was trained with objective 'reg:squarederror'" in message(target="late", objective="binary:logistic")
    logs = fb.fit(small, "amount", features=["int16"], target_transform="asinh", n_estimators=1)
    assert message(init_model=logs) == "init_model was trained with target_transform='asinh', not None; pass the same"
    for name, value, objective, default in (
        ("fair_c", 3.0, "reg:fair", "1.0"), ("quantile_alpha", [0.9], "reg:quantileerror", r"[0.5]"),
        ("huber_slope", 2.0, "reg:huber", "1.0"),
    ):  # fmt: skip
        other = fb.fit(small, "amount", features=["int16"], objective=objective, n_estimators=1, **{name: value})
        told = message(init_model=other, objective=objective)
        assert told == f"init_model was trained with {name}={value}, not {default}; pass the same"
    assert "has the features 'float64', 'int16'; continue with the same" in message(features=["int16"])
    assert "num_parallel_tree=1, not 2" in message(num_parallel_tree=2)
    assert "base_margin can't be combined with an init_model that has no offset" in message(base_margin="amount")
    assert "lacks 1 feature of the model: 'int16'" in message(small.drop("int16"))
    assert "has type Int64, but int16 in init_model" in message(small.cast({"int16": pl.Int64}))


@pytest.mark.slow
@cases("case", CASES)
def test_a_model_of_several_learning_rates_has_a_file(case, tmp_path):
    rows = labelled_rows(120)
    options = {"objective": case.objective, "n_estimators": 1, "max_depth": 2} | case.parameters | case.columns
    first = fb.fit(rows, case.label, features=FEATURES, **options)
    on = fb.fit(rows, case.label, init_model=first, learning_rate=0.1, reg_lambda=2, **options)
    on.save(tmp_path / "m.json")
    read = fb.load(tmp_path / "m.json")
    assert read == on and read.predict(rows).equals(on.predict(rows))
    with pytest.raises(fb.ParameterError, match="was continued with another learning rate or penalty"):
        read.refit(rows, case.label)


def test_a_threshold_is_kept_or_set_anew(frame):
    options = {"features": ["float64", "int16"], "n_estimators": 1}
    first = fb.fit(frame, "late", threshold=0.2, **options)
    for threshold, kept in ((None, 0.2), (0.15, 0.15)):
        on = fb.fit(frame, "late", init_model=first, threshold=threshold, **options)
        assert on.parameters["threshold"] == kept
        assert (on.predict(frame, "class") == (on.predict(frame) >= kept)).all()
        assert 0 < on.predict(frame, "class").sum() != (on.predict(frame) >= 0.5).sum()


def test_a_slice_has_its_rounds(frame):
    options = {"objective": "multi:softprob", "features": ["float64", "int16"], "max_depth": 2}
    model = fb.fit(frame, "level", n_estimators=5, num_parallel_tree=2, subsample=0.5, **options)
    assert (model.n_trees, model.n_rounds) == (30, 5)
    assert (model[:2].n_trees, model[1:4].n_rounds, model[-1:].n_rounds) == (12, 3, 1)
    margins = [np.array(part.predict(frame, "margin").to_list()) for part in (model, model[:2], model[2:])]
    np.testing.assert_allclose(margins[0], margins[1] + margins[2] - np.array(model.base_margin), atol=1e-12)
    other = model[1::2]  # the rounds 1 and 3
    alone = [np.array(model[k : k + 1].predict(frame, "margin").to_list()) - model.base_margin for k in (1, 3)]
    found = np.array(other.predict(frame, "margin").to_list())
    np.testing.assert_allclose(found, np.array(model.base_margin) + alone[0] + alone[1], atol=1e-12)
    assert other.n_trees == 12
    for wrong in (slice(3, 3), slice(None, None, -1), slice(None, None, 0), 1):
        with pytest.raises(fb.ParameterError, match=r"slice|sliced"):
            model[wrong]


def test_refit_by_hand():
    frame = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
    model = fb.fit(frame, "y", n_estimators=1, learning_rate=0.5, reg_lambda=0)
    assert model.trees["value"].to_list() == [0.0, -2.0, 2.0]
    others = pl.DataFrame({"x": [1, 1], "y": [10.0, 20.0]})  # none goes right: that leaf keeps its value
    trees = model.refit(others, "y", decay_rate=0.25).trees
    # −G/H = 15 − 4, times the learning rate; three quarters of it and one of the old −2.
    assert trees["value"].to_list()[1:] == [0.75 * (0.5 * 11) + 0.25 * -2, 2.0]
    assert trees["cover"].to_list() == [2.0, 2.0, 0.0]


def test_refit_refuses_what_it_can_not_do(frame):
    model = fb.fit(frame, "amount", features=["float64"], n_estimators=2)
    with pytest.raises(fb.ParameterError, match="decay_rate must be a number from 0 to 1, not 2"):
        model.refit(frame, "amount", decay_rate=2)
    with pytest.raises(fb.DataError, match="'nobody' is not in the data"):
        model.refit(frame, "nobody")
