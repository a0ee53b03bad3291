"""How a model was trained: in its file, and in the models that are made of it."""

import math
import pickle
from dataclasses import replace
from functools import cache

import polars as pl
import pytest

import frameboost as fb
from frameboost.ensemble.ensemble import TrainingRecord
from tests.support.cases import cases

ROWS = pl.DataFrame({"x": [i % 7 for i in range(60)], "z": [i * 11 % 13 for i in range(60)]}).with_columns(
    y=(pl.col("x") > 3).cast(pl.Int64), late=pl.col("x") * 5 % 7 > pl.col("z") % 4
)
BOARD = pl.DataFrame({
    "trial": ["a", "b"], "rmse": [1.0, math.inf], "weight": [1.0, 0.0], "fits": [3, 2], "rounds": [4.5, 2.0],
    "leaves": [40, 2**40], "seconds": [0.125, 3.0], "settings": ["max_depth=3", ""],
})  # fmt: skip


@cache
def of_fit():
    return fb.fit(ROWS[:40], "y", features=["x", "z"], valid=ROWS[40:], n_estimators=5, eval_metric=["mae", "rmse"])


def assert_same_record(first: fb.Model, second: fb.Model) -> None:
    assert first.history.equals(second.history)
    assert first.history.schema == second.history.schema
    assert first.leaderboard.equals(second.leaderboard)
    assert (first.best_iteration, repr(first)) == (second.best_iteration, repr(second))
    assert repr(first.best_score) == repr(second.best_score)


@pytest.mark.parametrize("name", ["m.json", "m.ubj"])
def test_a_file_has_the_record(tmp_path, name):
    odd = pl.DataFrame({"round": [1, 2], "valid_mape": [math.inf, math.nan], 'a "metric"': [-math.inf, 0.1]})
    ensemble = replace(of_fit().ensemble, training=TrainingRecord())
    early = fb.fit(ROWS[:40], "late", features=["x"], valid=ROWS[40:], early_stopping_rounds=2, n_estimators=40)
    for model in (
        of_fit(), early, fb.Model(ensemble), fb.Model(ensemble, history=odd, best_round=1, best_score=math.nan),
        fb.Model(ensemble, leaderboard=BOARD, hint="Zürich is a hint"), fb.Model(ensemble, best_round=3),
    ):  # fmt: skip
        model.save(tmp_path / name)
        read = fb.load(tmp_path / name)
        assert read == model
        assert_same_record(read, model)
        assert_same_record(pickle.loads(pickle.dumps(read)), model)
    assert fb.load(tmp_path / name).to_json() == fb.Model(ensemble).to_json()
    assert of_fit().history.columns == ["round", "valid_mae", "valid_rmse"]


def test_models_made_of_it_keep_what_is_true_of_them():
    record = replace(of_fit().ensemble.training, leaderboard=BOARD, best_round=3, best_score=0.5)
    model = fb.Model(replace(of_fit().ensemble, training=record))
    hint = "target 'y' is 0 or 1: objective='binary:logistic' would predict the probability of 1"
    assert repr(model).splitlines()[-1] == hint
    for made, rounds, best in (
        (model[:5], 5, 3), (model[:3], 0, 3), (model[:2], 0, None), (model[1:], 0, None), (model[:4][:3], 0, 3),
        (model.conform(ROWS, "y"), 5, 3), (model.refit(ROWS, "y"), 0, None),
    ):  # fmt: skip
        assert (made.history.height, made.best_iteration) == (rounds, best)
        assert made.history.equals(model.history.head(rounds).select(made.history.columns))
        assert made.best_score == (None if best is None else 0.5)
        assert made.leaderboard.equals(BOARD)
        assert repr(made).splitlines()[-1] == hint
    late = fb.fit(ROWS, "late", features=["x"], n_estimators=2, valid=ROWS)
    assert_same_record(fb.Model(replace(late.calibrate(ROWS, "late").ensemble, calibration=None)), late)


def test_the_hint_is_given_where_it_is_true():
    labels = ROWS.with_columns(
        s=pl.when(pl.col("y") == 1).then(pl.lit("yes")).otherwise(pl.lit("no")), f=pl.col("y") * 1.0
    )
    for target in ("s", "late"):
        for more in ({}, {"folds": 2}):
            assert "would predict" not in repr(fb.fit(labels, target, features=["x"], n_estimators=1, **more))
    for how in ({"objective": "binary:logistic"}, {"objective": "reg:squarederror"}):
        assert "would predict" not in repr(fb.fit(labels, "y", features=["x"], n_estimators=1, **how))
    given = fb.fit(labels, "s", features=["x"], n_estimators=1, positive="no")
    on = fb.fit(labels, "s", init_model=given, n_estimators=1)
    assert "would predict" not in repr(given) + repr(on)
    assert "would predict" in repr(fb.fit(labels, "y", features=["x"], n_estimators=1))


@cases(("training", "message"), [
    ("5", '"training" must be an object, not 5'),
    ('{"best": 1}', 'unknown field "best"'),
    ('{"best_iteration": 0}', '"best_iteration" must be an integer of at least 1, not 0'),
    ('{"best_iteration": 1.5}', '"best_iteration" must be an integer of at least 1'),
    ('{"best_score": "high"}', '"best_score" must be a number, not "high"'),
    ('{"hint": "a\\\\u001b[31m"}', '"hint" must be a line of text'),
    ('{"history": {"round": [1]}}', '"history" must be an object of "round" and of metrics'),
    ('{"history": {"round": [1, 3], "rmse": [1.0, 2.0]}}', '"round" must be ascending numbers from 1'),
    ('{"history": {"round": [1, 2], "rmse": [1.0]}}', '"history" must be columns of the same length'),
    ('{"history": {"round": [1], "rmse": ["1"]}}', '"rmse" must be a list of numbers'),
    ('{"history": {"round": ["1"], "rmse": [1.0]}}', '"round" must be a list of integers'),
    ('{"leaderboard": {"trial": ["a"]}}', '"leaderboard" must be an object of "trial", a metric and the other columns'),
])  # fmt: skip
def test_a_damaged_record_is_refused(tmp_path, training, message):
    path = tmp_path / "m.json"
    of_fit().save(path)
    lines = path.read_text().splitlines()
    [place] = [number for number, line in enumerate(lines) if line.startswith('"training": ')]
    lines[place] = f'"training": {training},'.replace("\\\\", "\\")
    path.write_text("\n".join(lines))
    with pytest.raises(fb.ModelFileError) as error:
        fb.load(path)
    assert message in str(error.value)
