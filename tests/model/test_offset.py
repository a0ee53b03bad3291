"""Offsets: columns of base margins and exposures, which a model remembers and every consumer takes from the data."""

import json
import math
import sqlite3
from functools import cache

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.ensemble.model_file import read_model
from tests.support.cases import cases
from tests.support.objectives import CASES, labelled_rows

ENGINES = ("numba", "duckdb")
SHAPE = {"n_estimators": 3, "max_depth": 2, "features": ["x", "z"]}
POISSON = {"objective": "count:poisson", "exposure": "years"}


def policies(n: int = 120) -> pl.DataFrame:
    """Policies of several years, of which each has about 0.3 claims, more where x is large."""
    rng = np.random.default_rng(4)
    x, years = rng.normal(size=n), rng.uniform(0.1, 4.0, size=n)
    claims = rng.poisson(0.3 * years * np.exp(0.7 * x))
    columns = {"id": range(n), "x": x, "z": rng.integers(0, 3, n), "years": years, "claims": claims, "w": x**2}
    return pl.DataFrame(columns).with_columns(
        m=pl.Series(rng.normal(size=n)), y=pl.Series(3 * x + rng.normal(size=n)), late=pl.Series(rng.random(n) < 0.3),
        kind=pl.Series(rng.choice(["a", "b", "c"], n)), m1=pl.Series(rng.normal(size=n)),
        m2=pl.Series(rng.normal(size=n)),
    )  # fmt: skip


ROWS = policies()


@cache
def of_claims():
    return fb.fit(ROWS, "claims", **SHAPE, **POISSON)


# --- the base score beside an offset ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_the_base_score_is_the_constant_that_is_best_beside_the_offset(engine):
    def base(target, **options):
        return fb.fit(ROWS, target, features=["x"], n_estimators=1, engine=engine, **options).base_margin

    w = ROWS["w"]
    expected = np.log((w * ROWS["claims"]).sum() / (w * ROWS["years"]).sum())
    assert base("claims", weight="w", **POISSON) == pytest.approx(expected, rel=1e-12)
    rest = ROWS["y"] - ROWS["m"]
    assert base("y", base_margin="m") == pytest.approx(rest.mean(), rel=1e-12)
    assert base("y", base_margin="m", objective="reg:absoluteerror") == pytest.approx(rest.median(), rel=1e-12)
    assert base("y", base_margin="m", base_score=2.5) == 2.5
    if engine == "duckdb":
        return
    of_size = {"objective": "reg:gamma", "exposure": "years"}
    sizes = ROWS.with_columns(size=pl.col("years") * (pl.col("x") ** 2 + 1))
    found = fb.fit(sizes, "size", features=["x"], n_estimators=1, engine=engine, **of_size).base_margin
    assert found == pytest.approx(np.log((ROWS["x"] ** 2 + 1).mean()), rel=1e-12)
    late = 1 / (1 + np.exp(-(base("late", base_margin="m") + ROWS["m"])))
    assert late.sum() == pytest.approx(ROWS["late"].sum(), rel=1e-12)
    margins = np.array(base("kind", base_margin=["m", "m1", "m2"])) + ROWS.select("m", "m1", "m2").to_numpy()
    shares = np.exp(margins) / np.exp(margins).sum(axis=1, keepdims=True)
    counts = [(ROWS["kind"] == kind).sum() for kind in ("a", "b", "c")]
    np.testing.assert_allclose(shares.sum(axis=0), counts, rtol=1e-9)


def test_claims_are_predicted_in_proportion_to_the_exposure():
    assert of_claims().offset == {"exposure": "years"}
    twice = of_claims().predict(ROWS.with_columns(years=pl.col("years") * 2))
    np.testing.assert_allclose(twice, 2 * of_claims().predict(ROWS), rtol=1e-12)
    of_all = fb.fit(ROWS, "claims", **SHAPE | {"n_estimators": 60}, **POISSON)
    assert of_all.predict(ROWS).sum() == pytest.approx(ROWS["claims"].sum(), rel=0.02)
    logs = ROWS.with_columns(log=pl.col("years").log())
    by_hand = fb.fit(logs, "claims", base_margin="log", objective="count:poisson", **SHAPE)
    np.testing.assert_allclose(by_hand.predict(logs), of_claims().predict(ROWS), rtol=1e-9)


@cases(("options", "message"), [
    ({"exposure": "years"}, "exposure is for objectives with a log link, such as 'count:poisson', not for"),
    ({"exposure": "years", "base_margin": "m", "objective": "reg:gamma"}, "exposure can't be combined with base_mar"),
    ({"exposure": "zero", "objective": "count:poisson"}, "exposure 'zero' is 0, negative, NULL, NaN or infinite in 1"),
    ({"exposure": "gone", "objective": "count:poisson", "engine": "duckdb"}, "exposure 'gone' is 0, negative, NULL, "),
    ({"exposure": "kind", "objective": "count:poisson"}, "exposure column 'kind' has type String; it must be numeric"),
    ({"exposure": "yeers", "objective": "count:poisson"}, "exposure column 'yeers' is not in the data; did you mean"),
    ({"exposure": "x", "features": ["x"], "objective": "count:poisson"}, "feature 'x' is also the exposure"),
    ({"base_margin": "gone"}, "base_margin 'gone' is NULL, NaN or infinite in 2 of 120 rows"),
])  # fmt: skip
def test_what_is_no_offset_is_refused(options, message):
    rows = ROWS.with_columns(
        zero=pl.when(pl.col("id") > 0).then("years").otherwise(0), gone=pl.when(pl.col("id") > 1).then("years")
    )
    with pytest.raises((fb.ParameterError, fb.DataError)) as error:
        fb.fit(rows, "claims", **SHAPE | options)
    assert message in str(error.value)


def test_a_link_of_a_users_own_is_looked_at():
    poisson = fb.Objective("EXP(margin) - label", "EXP(margin)", link="2 * EXP(margin)")
    assert fb.fit(ROWS, "claims", objective=poisson, exposure="years", **SHAPE).offset == {"exposure": "years"}
    squared = fb.Objective("EXP(margin) - label", "EXP(margin)", link="EXP(2 * margin)")
    with pytest.raises(fb.ParameterError, match="exposure is for objectives with a log link"):
        fb.fit(ROWS, "claims", objective=squared, exposure="years", **SHAPE)


# --- every output in every language -----------------------------------------------------------------------------------


@pytest.mark.slow
@cases("case", CASES[::7])
def test_every_form_of_a_score_adds_the_offset(case):
    rows = labelled_rows().with_row_index("id")
    columns = ["m0", "m1", "m2"][: case.outputs]
    how = {"objective": case.objective, "n_estimators": 2, "max_depth": 2, "features": ["x0", "x2"]} | case.parameters
    how |= case.columns
    model = fb.fit(rows, case.label, base_margin=columns, **how)
    margins = np.array(model.predict(rows, "margin").to_list()).reshape(len(rows), -1)
    text = json.loads(model.to_json())
    del text["offset"]
    without = fb.Model(read_model(json.dumps(text).encode()))
    grid = np.array(without.predict(rows, "margin").to_list()).reshape(len(rows), -1)
    np.testing.assert_array_equal(margins, grid + rows.select(columns).to_numpy())
    con = duckdb.connect()
    con.register("t", rows)
    for statement in model.database().table_statements("trees"):
        con.execute(statement)
    for output in ("margin", "mean"):
        expected = model.predict(rows, output)
        assert rows.select(model.expr(output)).to_series().equals(expected)
        for form in ("case", "staged", "lists", "table"):
            trees = "trees" if form == "table" else None
            try:
                query = model.query("t", keep=["id"], output=output, form=form, trees=trees)
            except fb.ParameterError as error:  # an output of several margins is not one expression
                assert form == "case", error
                continue
            found = [list(row[1:]) for row in con.sql(query).order("id").fetchall()]
            wanted = np.array(expected.to_list(), dtype=float).reshape(len(rows), -1)
            np.testing.assert_allclose(np.array(found, dtype=float), wanted, rtol=1e-14 * (output == "mean"))
    for number in range(case.outputs):
        of_output = None if case.outputs == 1 else number
        for approx in (False, True):
            shares = model.explain(rows, output=of_output, approx=approx)
            np.testing.assert_allclose(shares.sum_horizontal(), margins[:, number], atol=1e-9)
            query = model.database().explain_query("t", keep=["id"], output=of_output, approx=approx)
            found = con.sql(query).order("id").pl().drop("id")
            np.testing.assert_allclose(found.to_numpy(), shares.to_numpy(), rtol=0.0, atol=1e-12 * (not approx))


def _assert_scores(found: list[tuple], expected: list[float | None]) -> None:
    assert [row[1] is None for row in found] == [value is None for value in expected]
    pairs = [(row[1], value) for row, value in zip(found, expected, strict=True) if value is not None]
    np.testing.assert_allclose(*zip(*pairs, strict=True), rtol=1e-14)


def test_functions_take_the_columns_of_the_offset_after_the_features():
    con = duckdb.connect()
    con.register("t", ROWS)
    for form in ("macro", "udf"):
        of_claims().register(con, f"claims_{form}", form=form)
        query = f"SELECT id, claims_{form}(x, z, years), claims_{form}(x, z, -years) FROM t ORDER BY id"
        found = con.sql(query).fetchall()
        assert [row[1] for row in found] == pytest.approx(of_claims().predict(ROWS).to_list(), rel=1e-14)
        assert all(row[2] is None for row in found)


def test_where_the_offset_is_no_number_there_is_no_score():
    rows = ROWS.with_columns(
        years=pl.when(pl.col("id") > 3).then(pl.col("years")).otherwise(pl.Series([None, 0.0, -1.0, math.nan] * 30))
    )
    with pytest.warns(UserWarning, match=r"^exposure 'years' is 0 or negative in 2 of 120 rows, whose pred.* are NULL"):
        predicted = of_claims().predict(rows)
    expected = [None] * 4 + of_claims().predict(ROWS)[4:].to_list()
    assert predicted.to_list() == expected
    assert rows.select(of_claims().expr()).to_series().to_list() == expected
    con = duckdb.connect()
    con.register("t", rows)
    for form in ("case", "staged", "lists"):
        found = con.sql(of_claims().query("t", keep=["id"], form=form)).order("id").fetchall()
        _assert_scores(found, expected)
    lite = sqlite3.connect(":memory:")
    lite.execute("CREATE TABLE t (id, x REAL, z, years REAL)")
    lite.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows.select("id", "x", "z", "years").rows())
    found = lite.execute(f"{of_claims().query('t', 'sqlite', keep=['id'])} ORDER BY id").fetchall()
    _assert_scores(found, expected)
    for call in (
        lambda: of_claims().evaluate(rows, "claims"), lambda: of_claims().evaluate(con.table("t"), "claims"),
        lambda: of_claims().refit(rows, "claims"), lambda: of_claims().conform(rows, "claims"),
        lambda: of_claims().partial_dependence(rows, "x"),
    ):  # fmt: skip
        with pytest.raises(fb.DataError, match="exposure 'years' is 0, negative, NULL, NaN or infinite in 4 of 120"):
            call()


@pytest.mark.slow
def test_a_table_without_the_column_is_refused_by_its_name(tmp_path):
    rows = ROWS.drop("years")
    con = duckdb.connect()
    con.register("t", rows)
    for call in (
        lambda: of_claims().predict(rows), lambda: of_claims().predict({"x": 1.0, "z": 2}),
        lambda: of_claims().predict(con.table("t")),
        lambda: of_claims().explain(rows), lambda: of_claims().evaluate(rows, "claims"),
        lambda: of_claims().evaluate(con.table("t"), "claims"), lambda: of_claims().partial_dependence(rows, "x"),
        lambda: of_claims().refit(rows, "claims"), lambda: of_claims().conform(rows, "claims"),
        lambda: of_claims().report(rows, tmp_path / "r.html", "claims"),
        lambda: fb.fit(rows, "claims", init_model=of_claims(), objective="count:poisson"),
    ):  # fmt: skip
        with pytest.raises(fb.DataError, match=r"exposure column 'years' is not in the data"):
            call()
    with pytest.raises(fb.ParameterError, match="base_margin can't be combined with the exposure 'years' of the model"):
        of_claims().predict(ROWS, base_margin="m")


def test_other_names_and_containers_make_no_difference():
    expected = of_claims().predict(ROWS)
    con = duckdb.connect()
    con.register("t", ROWS.rename({"years": "the years"}))
    query = of_claims().query("t", keep=["id"], columns={"years": "the years"})
    assert [row[1] for row in con.sql(query).order("id").fetchall()] == pytest.approx(expected.to_list(), rel=1e-14)
    for rows in (ROWS.lazy(), ROWS.to_pandas(), ROWS.to_arrow(), ROWS.to_dicts(), ROWS.cast({"years": pl.Float32})):
        assert of_claims().predict(rows).to_list() == pytest.approx(expected.to_list(), rel=1e-6)
    of_margin = fb.fit(ROWS, "y", base_margin="m", **SHAPE)
    assert of_margin.predict(ROWS, base_margin="m").equals(of_margin.predict(ROWS))
    other = of_margin.predict(ROWS, base_margin="m1") - ROWS["m1"]
    np.testing.assert_allclose(other, of_margin.predict(ROWS) - ROWS["m"], atol=1e-12)


# --- models made of it ------------------------------------------------------------------------------------------------


def test_a_file_has_the_offset(tmp_path):
    for model in (of_claims(), fb.fit(ROWS, ["y", "claims"], base_margin=["m", "m1"], **SHAPE)):
        for name in ("m.json", "m.ubj"):
            model.save(tmp_path / name)
            read = fb.load(tmp_path / name)
            assert (read, read.offset) == (model, model.offset)
            assert read.predict(ROWS).equals(model.predict(ROWS))
    assert "\n  exposure: years\n" in repr(of_claims())
    of_claims().database("postgres").to_sql(tmp_path / "m.sql", "t", keep=["id"])
    assert '--          "years": float64, DOUBLE PRECISION, the exposure\n' in (tmp_path / "m.sql").read_text()


@cases(("offset", "message"), [
    ("5", 'offset" must be an object with "base_margin" or "exposure", not 5'),
    ('{"exposure": "years", "base_margin": "m"}', 'offset" must be an object with'),
    ('{"exposure": ["years"]}', '"exposure" must be a string, not'),
    ('{"base_margin": ["m", "m1"]}', "base_margin names 2 columns; objective 'count:poisson' has 1 margins"),
    ('{"base_margin": [5]}', '"base_margin" must be a string or a list of strings'),
    ('{"exposure": "x"}', '"exposure" must be no feature of the model, not "x"'),
])  # fmt: skip
def test_a_damaged_offset_is_refused(tmp_path, offset, message):
    text = of_claims().to_json()
    assert '"offset": {"exposure": "years"}' in text
    (tmp_path / "m.json").write_text(text.replace('{"exposure": "years"}', offset))
    with pytest.raises(fb.ModelFileError) as error:
        fb.load(tmp_path / "m.json")
    assert message in str(error.value)


def test_models_made_of_it_keep_it():
    margins = of_claims().predict(ROWS, "margin")
    refitted = of_claims().refit(ROWS, "claims")
    np.testing.assert_allclose(refitted.predict(ROWS, "margin"), margins, rtol=1e-12, atol=1e-12)
    first = fb.fit(ROWS, "claims", **SHAPE | {"n_estimators": 1}, **POISSON)
    on = fb.fit(ROWS, "claims", init_model=first, objective="count:poisson", n_estimators=2, max_depth=2)
    np.testing.assert_allclose(on.predict(ROWS, "margin"), margins, rtol=1e-12, atol=1e-12)
    assert fb.fit(ROWS, "claims", init_model=first, **SHAPE, **POISSON).offset == of_claims().offset
    with pytest.raises(fb.ParameterError, match=r"exposure can't be combined with an init_model .* trained with exp"):
        fb.fit(ROWS, "claims", init_model=first, objective="count:poisson", exposure="w")
    logs = ROWS["years"].log().to_numpy()
    of_rounds = sum(
        of_claims()[k : k + 1].predict(ROWS, "margin").to_numpy() - of_claims().base_margin - logs for k in range(3)
    )
    np.testing.assert_allclose(of_rounds + of_claims().base_margin + logs, margins, atol=1e-12)
    folds = fb.fit(ROWS, "claims", folds=3, **SHAPE, **POISSON)
    assert folds.offset == of_claims().offset
    assert folds.predict(ROWS).sum() == pytest.approx(ROWS["claims"].sum(), rel=0.1)
    for model in (refitted, on, of_claims()[:1], of_claims().conform(ROWS, "claims")):
        assert model.offset == of_claims().offset
    late = fb.fit(ROWS, "late", base_margin="m", **SHAPE)
    calibrated = late.calibrate(ROWS, "late")
    assert calibrated.predict(ROWS).sum() == pytest.approx(ROWS["late"].sum(), abs=1)
    with pytest.raises(fb.ParameterError, match="adds its exposure 'years' to the margins"):
        of_claims().to_xgboost("m.json")
    table = fb.cv(ROWS, "claims", folds=3, **SHAPE, **POISSON)
    assert table["valid_poisson-nloglik_mean"].is_finite().all()


@pytest.mark.slow
def test_auto_takes_an_offset():
    rows = policies(300).select("x", "z", "years", "claims")
    model = fb.auto(rows, "claims", quality=1, n_estimators=4, max_depth=2, **POISSON)
    assert (model.features, model.offset) == (["x", "z"], {"exposure": "years"})
    assert model.predict(rows).sum() == pytest.approx(rows["claims"].sum(), rel=0.1)


def test_partial_dependence_is_of_the_rows_with_their_offsets():
    found = of_claims().partial_dependence(ROWS, "x", grid=[0.0, 1.0])
    for value, mean in found.rows():
        assert mean == pytest.approx(of_claims().predict(ROWS.with_columns(x=value)).mean(), rel=1e-12)


def test_trees_of_dimensions_are_scored_by_key_beside_an_offset():
    zones = pl.DataFrame({"z": [0, 1, 2], "rate": [1.0, 2.0, 4.0]})
    con = duckdb.connect()
    con.register("given", ROWS.select("id", "x", "z", "years", "claims"))
    con.execute("CREATE TABLE facts AS FROM given")
    con.register("given_zones", zones)
    con.execute("CREATE TABLE zones AS FROM given_zones")
    star = fb.join(con.table("facts"), con.table("zones"), on="z", prefix="zones.")
    model = fb.fit(star, "claims", features=["x", "zones.rate"], n_estimators=3, max_depth=1, **POISSON)
    flat = ROWS.join(zones.rename({"rate": "zones.rate"}), on="z", how="left")
    expected = model.predict(flat.sort("id"))
    for form in ("case", "staged", "by_key"):
        found = con.sql(model.query("facts", keep=["id"], form=form)).order("id").fetchall()
        assert [row[1] for row in found] == pytest.approx(expected.to_list(), rel=1e-14)
