"""Calibrated probabilities are scikit-learn's, and the model carries them everywhere."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

import frameboost as fb
from frameboost.model.calibration import calibration_link
from frameboost.training.calibration_kernels import pool_adjacent_violators
from tests.support.cases import cases
from tests.support.examples import examples

FEATURES = ["a", "b"]


@pytest.fixture(scope="module")
def frames() -> tuple[pl.DataFrame, pl.DataFrame]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1600, 2))
    y = rng.random(1600) < expit(2 * x[:, 0] - 1)
    frame = pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y, "w": rng.integers(0, 4, 1600)})
    return frame[:800], frame[800:]


@pytest.fixture(scope="module")
def model(frames) -> fb.Model:
    return fb.fit(frames[0], "y", objective="binary:logistic", features=FEATURES, n_estimators=6)


@cases("weight", [None, "w"])
def test_isotonic_is_scikit_learns(frames, model, weight):
    held_out = frames[1]
    margins = model.predict(held_out, "margin").to_numpy()
    weights = held_out["w"].to_numpy().astype(float) if weight else np.ones(len(held_out))
    theirs = IsotonicRegression(out_of_bounds="clip")
    theirs.fit(margins[weights > 0], held_out["y"].to_numpy()[weights > 0], sample_weight=weights[weights > 0])
    ours = model.calibrate(held_out, "y", method="isotonic", weight=weight)
    np.testing.assert_allclose(ours.predict(held_out), theirs.predict(margins), atol=1e-12)


@cases("weight", [None, "w"])
def test_platt_is_a_logistic_regression_on_his_targets(frames, model, weight):
    held_out = frames[1]
    margins = model.predict(held_out, "margin").to_numpy()
    labels = held_out["y"].to_numpy()
    weights = held_out["w"].to_numpy().astype(float) if weight else np.ones(len(held_out))
    positives, negatives = weights[labels].sum(), weights[~labels].sum()
    # A row of target t is a row of label 1 and weight t and one of label 0 and weight 1 − t.
    target = np.where(labels, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    theirs = LogisticRegression(C=np.inf, tol=1e-12, max_iter=10_000).fit(
        np.tile(margins, 2)[:, None], np.repeat([1, 0], len(labels)),
        sample_weight=np.concatenate([weights * target, weights * (1 - target)]),
    )  # fmt: skip
    ours = model.calibrate(held_out, "y", weight=weight)
    np.testing.assert_allclose(ours.predict(held_out), theirs.predict_proba(margins[:, None])[:, 1], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_calibration_applies_in_every_form_of_the_model(frames, model, method, tmp_path):
    held_out = frames[1]
    ours = model.calibrate(held_out, "y", method=method)
    probabilities = ours.predict(held_out)
    assert ours != model
    assert ours.predict(held_out, "margin").equals(model.predict(held_out, "margin"))
    assert ours.predict(held_out, "class").to_list() == (probabilities > 0.5).cast(pl.Int64).to_list()
    assert held_out.select(ours.expr())["prediction"].equals(probabilities)
    ours.save(tmp_path / "m.json")
    assert fb.load(tmp_path / "m.json") == ours
    assert fb.load(tmp_path / "m.json").predict(held_out).equals(probabilities)
    assert ours[:3].predict(held_out).is_between(0, 1).all()


def test_what_can_not_be_calibrated_is_refused(frames, model):
    held_out = frames[1]

    def message(data: pl.DataFrame = held_out, target: str = "y", of: fb.Model = model, **options) -> str:
        with pytest.raises((fb.ParameterError, fb.DataError)) as error:
            of.calibrate(data, target, **options)
        return str(error.value)

    assert message(method="beta") == "method must be one of 'platt', 'isotonic', not 'beta'"
    assert message(held_out.filter("y")) == "every label to calibrate on is 1; both 0 and 1 must occur"
    assert "other values than 0 and 1 in " in message(target="a")
    assert "column 'z' is not in the data" in message(target="z")
    assert "holds negative values (down to" in message(weight="a")
    squared = fb.fit(frames[0], "a", features=["b"], n_estimators=1)
    needed = "calibrate is for models of two classes with one margin"
    assert message(of=squared) == f"{needed}, not for 'reg:squarederror' with 1"
    softmax = fb.fit(frames[0], "y", features=["b"], objective="multi:softprob", n_estimators=1)
    several = fb.fit(frames[0].with_columns(z=pl.col("a") > 0), ["y", "z"], features=["b"],
                     objective="binary:logistic", n_estimators=1)  # fmt: skip
    for of in (softmax, several):
        assert message(of=of) == f"{needed}, not for {of.objective!r} with 2"


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 4)), min_size=1, max_size=40))
@settings(max_examples=examples(50), deadline=None)
def test_pooled_values_are_the_isotonic_regression(rows):
    values, weights = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    starts, means = pool_adjacent_violators(values, weights)
    expected = IsotonicRegression().fit_transform(np.arange(len(values)), values, sample_weight=weights)
    np.testing.assert_allclose(np.repeat(means, np.diff(starts)), expected, atol=1e-9)


def test_thousands_of_knots_become_few():
    margins = np.arange(5000.0)
    labels = (np.arange(5000) % 7 < np.arange(5000) / 800).astype(float)
    link = calibration_link(margins, labels, np.ones(5000), "isotonic")
    assert link.uses("margin") < 1200
    scored = pl.DataFrame({"margin": margins}).select(link.to_polars()).to_series()
    assert scored.is_sorted()
    assert abs(scored.mean() - labels.mean()) < 0.01
