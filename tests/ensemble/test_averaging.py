"""Means of ensembles: their margins are the means of the ensembles' margins, over the categories of all of them."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frameboost as fb
from frameboost.ensemble.averaging import average
from frameboost.model.model import Model
from tests.support.examples import examples

RNG = np.random.default_rng(0)
ROWS = pl.DataFrame({
    "x": RNG.normal(size=300), "s": RNG.choice(["a", "b", "c", "d", None], 300), "y": RNG.integers(0, 3, 300),
})  # fmt: skip
EACH = (pl.col("s") != "a", pl.col("s") != "d", pl.col("x") > 0)  # which lack the first, the last or no category
SHAPE = {"n_estimators": 4, "max_depth": 3}


@pytest.fixture(scope="module")
def models() -> dict[str, list[Model]]:
    return {
        objective: [fb.fit(ROWS.filter(kept), "y", objective=objective, num_class=n, **SHAPE) for kept in EACH]
        for objective, n in (("reg:squarederror", None), ("multi:softprob", 3))
    }


@settings(max_examples=examples(10), deadline=None)
@given(
    objective=st.sampled_from(["reg:squarederror", "multi:softprob"]),
    weights=st.lists(st.floats(0.01, 100.0), min_size=1, max_size=3),
)
def test_margins_are_weighted_means(models, objective, weights):
    parts = models[objective][: len(weights)]
    mean = Model(average([model.ensemble for model in parts], weights))
    margins = [model.predict(ROWS, output="margin").to_numpy() for model in parts]
    expected = np.average(margins, axis=0, weights=weights)
    np.testing.assert_allclose(mean.predict(ROWS, output="margin"), expected, rtol=1e-12, atol=1e-12)


def test_the_mean_is_an_ordinary_model(models):
    mean = Model(average([model.ensemble for model in models["multi:softprob"]], [1, 2, 1]))
    assert mean.n_rounds == 12
    assert mean.ensemble.features[1].categories == ("a", "b", "c", "d")
    names = {"max_depth": 3, "num_class": 3}
    assert {name: mean.parameters[name] for name in names} == names
    assert "learning_rate" not in mean.parameters
    with pytest.raises(fb.ParameterError, match="the model is an average of models or comes from another library"):
        mean.refit(ROWS, "y")


def test_parameters_that_differ_are_left_out(models):
    other = fb.fit(ROWS, "y", n_estimators=2, max_depth=1)
    mean = average([models["reg:squarederror"][0].ensemble, other.ensemble], [1, 1])
    assert "max_depth" not in mean.parameters
    assert mean.parameters["reg_lambda"] == 1.0
