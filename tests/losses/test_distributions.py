"""Distributions: derivatives, metrics and starts are those of scipy's densities; one model in all engines and forms."""

import sqlite3

import duckdb
import numpy as np
import polars as pl
import pytest
from scipy import stats

import frameboost as fb
from frameboost.losses.built_in import FURTHEST, get_loss
from tests.support.cases import cases
from tests.support.losses import as_rows, derivatives
from tests.support.objectives import Case

NAMES = ["normal", "lognormal", "negbinomial"]
SHAPE = {"features": ["x", "z"], "n_estimators": 4, "max_depth": 3, "learning_rate": 0.3}
LABEL = {"normal": "y", "lognormal": "amount", "negbinomial": "count"}


def log_density(name: str, y, first, second):
    """Return scipy's log density at ``y``, of the two margins of the loss."""
    if name == "normal":
        return stats.norm.logpdf(y, first, np.exp(second))
    if name == "lognormal":
        return stats.lognorm.logpdf(y, np.exp(second), scale=np.exp(first))
    mean, alpha = np.exp(first), np.exp(second)
    return stats.nbinom.logpmf(y, 1 / alpha, 1 / (1 + alpha * mean))


def moments(name: str, first, second):
    """Return scipy's mean and standard deviation of labels, of the two margins of the loss."""
    if name == "normal":
        return first, np.exp(second)
    if name == "lognormal":
        found = stats.lognorm(np.exp(second), scale=np.exp(first))
        return found.mean(), found.std()
    mean, alpha = np.exp(first), np.exp(second)
    found = stats.nbinom(1 / alpha, 1 / (1 + alpha * mean))
    return found.mean(), found.std()


def rows(n: int = 1000, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(-1, 1, (2, n))
    noise, spread = rng.normal(size=n), np.exp(z - 0.5)
    mean, alpha = np.exp(1 + x), 0.2 + (z > 0)
    return pl.DataFrame({
        "x": x, "z": z, "y": 300 * (x + spread * noise), "amount": np.exp(x + spread * noise),
        "count": rng.negative_binomial(1 / alpha, 1 / (1 + alpha * mean)).astype(float), "w": rng.uniform(0.5, 2, n),
    })  # fmt: skip


TRAINING, NEW = rows(), rows(seed=1)


def fitted(name: str, **options) -> fb.Model:
    return fb.fit(TRAINING, LABEL[name], objective=f"dist:{name}", **{"verbose": False} | SHAPE | options)


LABELS = {"normal": [-3.5, 0.0, 12.25], "lognormal": [0.125, 1.0, 9.0], "negbinomial": [0.0, 1.0, 7.0, 60.0]}


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
@cases("name", NAMES)
def test_gradients_are_natural_ones_of_the_density(name, engine):
    y, first, second = (a.ravel() for a in np.meshgrid(LABELS[name], [-1.3, 0.2, 1.9], [-0.9, 0.1, 1.2]))
    g, h = derivatives(Case(f"dist:{name}", "label", outputs=2), as_rows(y, first, second), engine)
    step = 1e-5
    by_first = (log_density(name, y, first - step, second) - log_density(name, y, first + step, second)) / (2 * step)
    by_second = (log_density(name, y, first, second - step) - log_density(name, y, first, second + step)) / (2 * step)
    if name == "negbinomial":
        mean, alpha = np.exp(first), np.exp(second)
        np.testing.assert_allclose(g[:, 0], by_first, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(h[:, 0], (mean + y) / (2 * (1 + alpha * mean)), rtol=1e-9)
        np.testing.assert_allclose(g[:, 1], by_second, rtol=1e-6, atol=1e-8)
        share = alpha * mean / (1 + alpha * mean)
        np.testing.assert_allclose(h[:, 1], (share**2 + np.abs(by_second)) / 2, rtol=1e-6)
        return
    np.testing.assert_allclose(g[:, 0], by_first * np.exp(2 * second), rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(h[:, 0], 1)
    np.testing.assert_allclose(g[:, 1], by_second / 2, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(h[:, 1], 1 - by_second / 2, rtol=1e-6)  # 1 + z² over 2, and the gradient is 1 − z²


@cases("name", NAMES)
def test_the_metric_is_the_mean_negative_log_density(name):
    model = fitted(name)
    margins = model.predict(NEW, "margin").to_numpy()
    labels, weights = NEW[LABEL[name]].to_numpy(), NEW["w"].to_numpy()
    expected = -np.average(log_density(name, labels, *margins.T), weights=weights)
    found = model.evaluate(NEW, LABEL[name], weight="w").metrics
    assert found.filter(pl.col("metric") == f"{name}-nloglik")["value"].item() == pytest.approx(expected, rel=1e-9)
    rmse = np.sqrt(np.average((model.predict(NEW).to_numpy() - labels) ** 2, weights=weights))
    assert found.filter(pl.col("metric") == "rmse")["value"].item() == pytest.approx(rmse, rel=1e-12)


@cases("name", NAMES)
def test_the_start_has_the_moments_of_the_labels(name):
    y, w = TRAINING[LABEL[name]].to_numpy(), TRAINING["w"].to_numpy()
    y = np.log(y) if name == "lognormal" else y
    mean = np.average(y, weights=w)
    for base_score, about in ((None, mean), (2.5, np.log(2.5) if name == "lognormal" else 2.5)):
        variance = np.average((y - about) ** 2, weights=w)
        expected = [about, np.log(variance) / 2]
        if name == "negbinomial":
            expected = [np.log(about), np.log((variance - about) / about**2)]
        model = fitted(name, weight="w", n_estimators=1, base_score=base_score)
        assert model.ensemble.base_margins == pytest.approx(expected, rel=1e-9)


@cases("name", NAMES)
def test_mean_and_std_are_those_of_the_distribution(name):
    model = fitted(name)
    margins = model.predict(NEW, "margin").to_numpy()
    found = model.predict(NEW, "distribution").struct.unnest()
    mean, deviation = moments(name, *margins.T)
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-10)
    np.testing.assert_allclose(found["std"], deviation, rtol=1e-10)
    assert model.predict(NEW).equals(found["mean"].alias("prediction"))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_engines_and_forms_agree(name, tmp_path):
    model = fitted(name, engine="numba", n_estimators=2)
    assert fitted(name, engine="duckdb", n_estimators=2).to_json() == model.to_json()
    model.save(tmp_path / "model.json")
    assert fb.load(tmp_path / "model.json").to_json() == model.to_json()
    expected = model.predict(NEW, "distribution").struct.unnest()
    assert NEW.select(model.expr("distribution")).unnest("prediction").equals(expected)
    frame = NEW.select("x", "z").with_row_index("id")
    con = duckdb.connect()
    con.register("frame", frame)
    query = model.query("frame", keep=["id"], output="distribution")
    found = con.sql(query).pl().sort("id")
    assert found.columns == ["id", "prediction_mean", "prediction_std"]
    np.testing.assert_allclose(found.drop("id").to_numpy(), expected.to_numpy(), rtol=1e-14)
    lite = sqlite3.connect(":memory:")
    lite.execute("CREATE TABLE frame (id INTEGER, x REAL, z REAL)")
    lite.executemany("INSERT INTO frame VALUES (?, ?, ?)", frame.rows())
    found = lite.execute(model.query("frame", "sqlite", keep=["id"], output="distribution")).fetchall()
    np.testing.assert_allclose(np.array(sorted(found))[:, 1:], expected.to_numpy(), rtol=1e-14)


@cases("name", NAMES)
def test_what_is_learnt_is_where_labels_scatter(name):
    model = fitted(name, n_estimators=40, learning_rate=0.15)
    held_out = model.evaluate(NEW, LABEL[name]).metrics["value"][0]
    alike = fitted(name, n_estimators=1, learning_rate=1e-9).evaluate(NEW, LABEL[name]).metrics["value"][0]
    x, z = NEW["x"].to_numpy(), NEW["z"].to_numpy()
    true = {"normal": (300 * x, np.log(300) + z - 0.5), "lognormal": (x, z - 0.5),
            "negbinomial": (1 + x, np.log(0.2 + (z > 0)))}[name]  # fmt: skip
    best = -log_density(name, NEW[LABEL[name]].to_numpy(), *true).mean()
    assert best < held_out < best + 0.3 * (alike - best)


def test_outliers_widen_the_spread_by_one_step_only():
    frame = pl.DataFrame({"x": [0.0] * 50 + [1.0] * 50, "y": [0.0, 1.0] * 50}).with_columns(
        y=pl.when(pl.int_range(100) == 99).then(1e9).otherwise("y")
    )
    loss = get_loss("dist:normal", {})
    assert FURTHEST == 100
    found = derivatives(Case("dist:normal", "y", outputs=2), as_rows([1e9, 0.5], [0.5, 0.5], [0.0, 0.0]), "polars")
    assert found[0][:, 1].tolist() == [(1 - 1e4) / 2, 0.5]
    model = fb.fit(frame, "y", objective="dist:normal", n_estimators=3, learning_rate=0.5, base_score=0.5)
    start = model.ensemble.base_margins[1]
    assert np.abs(model.predict(frame, "margin").to_numpy()[:, 1] - start).max() <= 3 * 0.5
    assert loss.n_predictions == 1


@cases(("name", "label", "words"), [("lognormal", 0.0, "greater than 0"), ("negbinomial", -1.0, "of 0 or more")])
def test_labels_outside_the_distribution_are_refused(name, label, words):
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, label]})
    with pytest.raises(fb.DataError, match=words):
        fb.fit(frame, "y", objective=f"dist:{name}")


def test_what_has_no_distribution_says_so():
    plain = fb.fit(TRAINING, "y", **SHAPE)
    with pytest.raises(fb.ParameterError, match="output must be one of 'mean', 'margin', not 'distribution'"):
        plain.predict(NEW, "distribution")
    with pytest.raises(fb.ParameterError, match="'distribution'"):
        fitted("normal").predict(NEW, "quantiles")
    with pytest.raises(fb.ParameterError, match=r"'normal-nloglik' is for objective 'dist:normal', not for 'reg:squ"):
        fb.fit(TRAINING, "y", eval_metric="normal-nloglik", **SHAPE)
    with pytest.raises(fb.ParameterError, match="takes one target, not 2"):
        fb.fit(TRAINING, ["y", "amount"], objective="dist:normal", **SHAPE)
    with pytest.raises(fb.ParameterError, match="dist:normal"):
        fitted("normal").to_xgboost("model.json")


def test_intervals_are_multiples_of_the_rows_own_deviation():
    model = fitted("normal").conform(NEW, "y", coverage=0.8)
    found, known = model.predict(NEW[:5], "interval"), model.predict(NEW[:5], "distribution")
    half = (found.struct.field("upper") - found.struct.field("lower")) / 2
    ratio = half / known.struct.field("std")
    assert ratio.max() == pytest.approx(ratio.min())
    assert "× its standard deviation" in repr(model)
