"""Targets on another scale: trees of the transformed labels, and everything else on the scale of the labels."""

import math
import re

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.engines import query_costs
from frameboost.losses.transforms import TRANSFORMS
from tests.support.cases import cases
from tests.support.engines import ENGINES

N = 400
RNG = np.random.default_rng(11)
X = RNG.normal(size=(N, 2))
AMOUNT = np.exp(X[:, 0] + 0.5 * X[:, 1] + RNG.normal(size=N) * 0.7)
ROWS = pl.DataFrame({"x0": X[:, 0], "x1": X[:, 1]}).with_columns(
    amount=AMOUNT, profit=AMOUNT - 2, w=RNG.integers(1, 4, N).astype(float), held=np.arange(N) % 4 == 0,
    years=RNG.uniform(0.5, 2.0, N),
)  # fmt: skip
TARGETS = {"log": "amount", "log1p": "amount", "sqrt": "amount", "asinh": "profit"}
FORWARD = {"log": np.log, "log1p": np.log1p, "sqrt": np.sqrt, "asinh": np.arcsinh}
INVERSE = {
    "log": np.exp, "log1p": np.expm1, "sqrt": lambda z: np.maximum(z, 0) ** 2, "asinh": np.sinh,
}  # fmt: skip
OPTIONS = {"features": ["x0", "x1"], "n_estimators": 6, "max_depth": 3}
NAMES = list(TRANSFORMS)


def by_hand(name: str) -> pl.DataFrame:
    """Return the rows with the target transformed by numpy."""
    return ROWS.with_columns(pl.Series(TARGETS[name], FORWARD[name](ROWS[TARGETS[name]].to_numpy())))


def smeared_by_hand(name: str, margins: np.ndarray, errors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the mean of T⁻¹ over all errors, for each margin (Duan 1983)."""
    each = margins[:, None] + errors[None, :]
    if (
        name == "sqrt"
    ):  # the square, without the part of negative margins and the mean error, which is 0 but for rounding
        return np.maximum(margins, 0) ** 2 + np.average(errors**2, weights=weights)
    return np.average(INVERSE[name](each), axis=1, weights=weights)


# --- trees and links --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@cases("name", NAMES)
def test_trees_are_those_of_the_transformed_labels_and_predictions_their_inverse(name):
    for objective in ("reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror", "reg:expectileerror"):
        options = OPTIONS | {"objective": objective, "weight": "w"}
        model = fb.fit(ROWS, TARGETS[name], target_transform=name, smearing=False, **options)
        expected = fb.fit(by_hand(name), TARGETS[name], **options)
        margins = expected.predict(ROWS).to_numpy()
        np.testing.assert_allclose(model.predict(ROWS, output="margin"), margins, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(model.predict(ROWS), INVERSE[name](margins), rtol=1e-9, atol=1e-12)


@cases("name", NAMES)
def test_a_base_score_is_on_the_scale_of_the_labels(name):
    model = fb.fit(ROWS, TARGETS[name], target_transform=name, smearing=False, base_score=2.0, **OPTIONS)
    assert model.base_margin == pytest.approx(FORWARD[name](2.0), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_has_the_same_model(engine, monkeypatch):
    expected = {name: fb.fit(ROWS, TARGETS[name], target_transform=name, **OPTIONS) for name in NAMES}
    monkeypatch.setattr(query_costs, "MAX_VALUES", 0)
    for name, model in expected.items():
        own = fb.fit(ROWS, TARGETS[name], target_transform=name, engine=engine, **OPTIONS)
        np.testing.assert_allclose(own.predict(ROWS), model.predict(ROWS), rtol=1e-9)
        assert own.parameters["smearing"] == pytest.approx(model.parameters["smearing"], rel=1e-9)
    sharded = fb.fit(ROWS, "amount", target_transform="log1p", engine=engine, shards=2, **OPTIONS)
    np.testing.assert_allclose(sharded.predict(ROWS), expected["log1p"].predict(ROWS), rtol=1e-9)


@pytest.mark.slow
def test_a_fit_in_a_database_has_it_too():
    expected = fb.fit(ROWS, "amount", target_transform="log1p", **OPTIONS)
    with duckdb.connect() as con:
        con.execute("CREATE TABLE rows AS SELECT * FROM ROWS")
        for engine in ("numba", "sql"):
            table = fb.table(con, "rows", dialect="duckdb")
            model = fb.fit(table, "amount", target_transform="log1p", engine=engine, **OPTIONS)
            np.testing.assert_allclose(model.predict(ROWS), expected.predict(ROWS), rtol=1e-9)


@cases("name", NAMES)
def test_polars_sql_and_the_file_have_the_predictions(name, tmp_path):
    model = fb.fit(ROWS, TARGETS[name], target_transform=name, **OPTIONS)
    predictions = model.predict(ROWS)
    np.testing.assert_allclose(ROWS.select(model.expr()).to_series(), predictions, rtol=1e-13)
    scored = duckdb.sql(f"SELECT {model.sql()} AS prediction FROM ROWS").pl()["prediction"]
    np.testing.assert_allclose(scored.sort(), predictions.sort(), rtol=1e-13)
    model.save(tmp_path / "model.json")
    loaded = fb.load(tmp_path / "model.json")
    assert loaded == model
    assert loaded.predict(ROWS).equals(predictions)
    assert f"target_transform: {name}, smeared by" in repr(loaded)


# --- smearing ---------------------------------------------------------------------------------------------------------


@cases("name", NAMES)
def test_predictions_are_means_over_the_errors_of_the_training_rows(name):
    model = fb.fit(ROWS, TARGETS[name], target_transform=name, weight="w", **OPTIONS)
    margins = model.predict(ROWS, output="margin").to_numpy()
    errors = FORWARD[name](ROWS[TARGETS[name]].to_numpy()) - margins
    expected = smeared_by_hand(name, margins, errors, ROWS["w"].to_numpy())
    np.testing.assert_allclose(model.predict(ROWS), expected, rtol=1e-9)


def test_errors_are_of_the_rows_to_validate_on_at_the_best_round():
    options = OPTIONS | {"n_estimators": 200, "learning_rate": 0.5, "early_stopping_rounds": 5, "valid": "held"}
    model = fb.fit(ROWS, "amount", target_transform="log", **options)
    assert 1 < model.n_rounds < 100
    held = ROWS.filter("held")
    errors = np.log(held["amount"].to_numpy()) - model.predict(held, output="margin").to_numpy()
    assert model.parameters["smearing"] == pytest.approx([np.exp(errors).mean()], rel=1e-9)


def test_the_mean_prediction_is_near_the_mean_label_and_without_smearing_near_the_median():
    constant = pl.DataFrame({"x": [0.0] * 4001, "y": np.exp(RNG.normal(size=4001))})
    with pytest.warns(fb.FrameboostWarning, match="no tree has a split"):
        smeared, plain = (
            fb.fit(constant, "y", target_transform="log", smearing=smearing, n_estimators=1)
            for smearing in (None, False)
        )
    assert smeared.predict(constant)[0] == pytest.approx(constant["y"].mean(), rel=1e-9)
    assert plain.predict(constant)[0] == pytest.approx(math.exp(constant["y"].log().mean()), rel=1e-9)


def test_numbers_may_be_given_and_those_of_folds_are_averaged():
    given = fb.fit(ROWS, "amount", target_transform="log", smearing=[1.25], **OPTIONS)
    margins = given.predict(ROWS, output="margin").to_numpy()
    np.testing.assert_allclose(given.predict(ROWS), 1.25 * np.exp(margins), rtol=1e-12)
    mean = fb.fit(
        ROWS.with_columns(fold=pl.int_range(N) % 2), "amount", target_transform="log", folds="fold", **OPTIONS
    )
    parts = []
    for fold in (0, 1):
        rows = ROWS.with_columns(held=pl.int_range(N) % 2 == fold)
        parts.append(fb.fit(rows, "amount", target_transform="log", valid="held", **OPTIONS).parameters["smearing"][0])
    assert mean.parameters["smearing"] == pytest.approx([np.mean(parts)], rel=1e-9)


def test_several_targets_have_errors_of_their_own():
    both = fb.fit(
        ROWS.with_columns(twice=pl.col("amount") ** 2), ["amount", "twice"], target_transform="log", **OPTIONS
    )
    for number, target in enumerate(["amount", "twice"]):
        alone = fb.fit(ROWS.with_columns(twice=pl.col("amount") ** 2), target, target_transform="log", **OPTIONS)
        np.testing.assert_allclose(both.predict(ROWS).arr.get(number), alone.predict(ROWS), rtol=1e-9)


def test_a_model_is_continued_and_refitted_on_the_same_scale():
    options = OPTIONS | {"target_transform": "log", "smearing": False}
    whole = fb.fit(ROWS, "amount", **options | {"n_estimators": 12})
    half = fb.fit(ROWS, "amount", **options)
    continued = fb.fit(ROWS, "amount", init_model=half, **options)
    np.testing.assert_allclose(continued.predict(ROWS), whole.predict(ROWS), rtol=1e-9)
    again = half.refit(ROWS, "amount", decay_rate=0.0)
    np.testing.assert_allclose(again.predict(ROWS), half.predict(ROWS), rtol=1e-9)
    more = fb.fit(ROWS, "amount", init_model=fb.fit(ROWS, "amount", target_transform="log", **OPTIONS),
                  target_transform="log", **OPTIONS)  # fmt: skip
    errors = np.log(AMOUNT) - more.predict(ROWS, output="margin").to_numpy()
    assert more.parameters["smearing"] == pytest.approx([np.exp(errors).mean()], rel=1e-9)


# --- metrics, intervals, quantiles, exposure --------------------------------------------------------------------------


def test_metrics_are_on_the_scale_of_the_labels():
    model = fb.fit(ROWS, "amount", target_transform="log1p", valid="held", eval_metric=["mae", "rmse"],
                   smearing=False, **OPTIONS)  # fmt: skip
    held = ROWS.filter("held")
    off = model.predict(held).to_numpy() - held["amount"].to_numpy()
    assert model.history["valid_mae"][-1] == pytest.approx(np.abs(off).mean(), rel=1e-9)
    evaluated = dict(model.evaluate(held, "amount").metrics.rows())
    assert evaluated["rmse"] == pytest.approx(np.sqrt((off**2).mean()), rel=1e-9)
    with duckdb.connect() as con:
        con.execute("CREATE TABLE held AS SELECT * FROM held")
        in_sql = con.sql(model.database("duckdb").evaluate_query("held", "amount", eval_metric="mae")).pl()
    assert in_sql["value"][0] == pytest.approx(np.abs(off).mean(), rel=1e-9)


@cases("name", NAMES)
def test_intervals_are_those_of_the_transformed_labels_with_both_ends_inverted(name):
    target, rows = TARGETS[name], ROWS.with_columns(target=by_hand(name)[TARGETS[name]])
    model = fb.fit(ROWS, target, target_transform=name, **OPTIONS).conform(ROWS, target, coverage=0.8)
    plain = fb.fit(rows, "target", **OPTIONS).conform(rows, "target", coverage=0.8)
    ends = model.predict(ROWS, output="interval").struct.unnest()
    expected = plain.predict(rows, output="interval").struct.unnest()
    for end in ("lower", "upper"):
        np.testing.assert_allclose(ends[end], INVERSE[name](expected[end].to_numpy()), rtol=1e-9, atol=1e-12)
    label = ROWS[target]
    assert ((ends["lower"] <= label) & (label <= ends["upper"])).mean() >= 0.8
    in_sql = duckdb.sql(model.query("ROWS", keep=[target], output="interval")).pl()
    held = (in_sql[f"{target}"] >= in_sql["prediction_lower"]) & (in_sql[target] <= in_sql["prediction_upper"])
    assert held.mean() >= 0.8


def test_quantiles_are_those_of_the_labels():
    options = OPTIONS | {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.9]}
    model = fb.fit(ROWS, "amount", target_transform="log", **options)
    plain = fb.fit(by_hand("log"), "amount", **options)
    expected = np.exp(plain.predict(ROWS).to_numpy())
    np.testing.assert_allclose(model.predict(ROWS).to_numpy(), expected, rtol=1e-9)
    np.testing.assert_allclose(model.predict(ROWS, output="quantiles").to_numpy(), np.sort(expected), rtol=1e-9)
    ends = model.conform(ROWS, "amount", coverage=0.8).predict(ROWS, output="interval").struct.unnest()
    of_plain = plain.conform(by_hand("log"), "amount", coverage=0.8).predict(ROWS, output="interval").struct.unnest()
    np.testing.assert_allclose(ends.to_numpy(), np.exp(of_plain.to_numpy()), rtol=1e-9)


def test_an_exposure_multiplies_predictions_of_a_logarithm():
    model = fb.fit(ROWS, "amount", target_transform="log", exposure="years", **OPTIONS)
    double = ROWS.with_columns(pl.col("years") * 2)
    np.testing.assert_allclose(model.predict(double), 2 * model.predict(ROWS).to_numpy(), rtol=1e-12)
    by_rate = ROWS.with_columns(amount=(pl.col("amount") / pl.col("years")).log())
    expected = np.exp(fb.fit(by_rate, "amount", **OPTIONS).predict(ROWS).to_numpy()) * ROWS["years"].to_numpy()
    np.testing.assert_allclose(model.predict(ROWS) / model.parameters["smearing"][0], expected, rtol=1e-9)


def test_auto_and_the_estimators_take_it():
    rows = ROWS.select("x0", "x1", "amount")
    model = fb.auto(rows, "amount", target_transform="log", quality=1)
    assert model.ensemble.interval is not None
    assert model.predict(rows, output="interval").struct.field("lower").min() > 0
    X, y = rows.select("x0", "x1"), rows["amount"]
    regressor = fb.FrameBoostRegressor(n_estimators=6, max_depth=3, target_transform="log").fit(X, y)
    expected = fb.fit(rows, "amount", target_transform="log", **OPTIONS)
    np.testing.assert_allclose(regressor.predict(X), expected.predict(rows), rtol=1e-12)


# --- what is refused --------------------------------------------------------------------------------------------------


@cases(("options", "message"), [
    ({"objective": "count:poisson"}, "not for 'count:poisson', which has a link of its own"),
    ({"objective": "binary:logistic"}, "is for objectives that predict the margin, such as 'reg:squarederror'"),
    ({"objective": "multi:softprob"}, "not for 'multi:softprob'"),
    ({"objective": "rank:ndcg"}, "not for 'rank:ndcg'"),
    ({"objective": "dist:normal"}, "not for 'dist:normal'"),
    ({"objective": "reg:squaredlogerror"}, "can't be combined with 'reg:squaredlogerror', which is of logarithms"),
    ({"objective": "reg:mape"}, "can't be combined with 'reg:mape', which is of shares of the label already"),
    ({"objective": lambda label, margin: None}, "is a Python function, which may transform the label itself"),
    ({"objective": "reg:absoluteerror", "smearing": True}, "smearing=True is for 'reg:squarederror', which"),
    ({"smearing": [1.0, 2.0]}, "smearing of target_transform='log' takes 1 numbers, not 2"),
    ({"smearing": "yes"}, "smearing must be True, False, None or a list of finite numbers, not 'yes'"),
    ({"smearing": [math.inf]}, "smearing must be True, False, None or a list of finite numbers"),
    ({"target_transform": "ln"}, "target_transform must be one of 'log', 'log1p', 'sqrt', 'asinh' or None, not 'ln'"),
    ({"target_transform": None, "smearing": True}, "smearing is for target_transform, which is None"),
    ({"scale_pos_weight": 2.0}, "scale_pos_weight is for labels of 0 and 1"),
    ({"checkpoint": "never.written"}, "checkpoint can't be combined with smearing"),
])  # fmt: skip
def test_what_does_not_go_with_a_transform_is_one_sentence(options, message):
    with pytest.raises(fb.ParameterError, match=re.escape(message)):
        fb.fit(ROWS, "amount", **{"target_transform": "log"} | OPTIONS | options)


@cases(("name", "value", "words"), [
    ("log", 0.0, "numbers greater than 0"), ("log1p", -1.0, "numbers greater than -1"),
    ("sqrt", -0.5, "numbers of 0 or more"),
])  # fmt: skip
def test_labels_that_a_transform_is_not_defined_for_are_counted(name, value, words):
    rows = ROWS.with_columns(amount=pl.when(pl.int_range(N) == 3).then(value).otherwise("amount"))
    message = f"target 'amount' holds other values than {words}, for target_transform='{name}' in 1 of 400 rows"
    with pytest.raises(fb.DataError, match=re.escape(message)):
        fb.fit(rows, "amount", target_transform=name, **OPTIONS)


@cases("damage", ["[1.0, 2.0]", "[]", '"x"', "{}"])
def test_damaged_numbers_in_a_file_are_found(damage, tmp_path):
    text = fb.fit(ROWS, "amount", target_transform="log", smearing=[1.5], **OPTIONS).to_json()
    assert '"smearing": [1.5]' in text
    (tmp_path / "model.json").write_text(text.replace('"smearing": [1.5]', f'"smearing": {damage}'))
    with pytest.raises(fb.ModelFileError, match="smearing"):
        fb.load(tmp_path / "model.json")
