"""Means of ensembles: their margins are the means of the ensembles' margins, over the categories of all of them."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frameboost as fb
from frameboost.ensemble.averaging import average
from frameboost.ensemble.model_file import read_model
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


@pytest.mark.parametrize("objective", ["reg:squarederror", "multi:softprob"])
def test_short_leaves_are_on_a_grid_of_what_trees_add_in_the_mean(models, objective):
    parts = [model.ensemble for model in models[objective]]
    exact, short = average(parts, [3, 2, 1]), average(parts, [3, 2, 1], is_short=True)
    for output in range(len(short.base_margins)):
        pairs = [pair for pair in zip(exact.trees, short.trees, strict=True) if pair[0].output == output]
        added = 0.0
        for tree, _ in pairs:
            leaves = list(tree.leaves())
            covers = [tree.cover[leaf] for leaf in leaves]
            added += sum(c * abs(tree.value[leaf]) for c, leaf in zip(covers, leaves, strict=True)) / sum(covers)
        step = 2.0 ** (math.ceil(math.log2(added)) - 26)
        assert all(value % step == 0 for _, tree in pairs for value in tree.value)
        assert short.base_margins[output] % step == 0
        off = [abs(a - b) for tree, other in pairs for a, b in zip(tree.value, other.value, strict=True)]
        assert step / 4 < max(off) <= step / 2
    margins = [Model(each).predict(ROWS, output="margin").to_numpy() for each in (exact, short)]
    np.testing.assert_allclose(margins[1], margins[0], rtol=0, atol=1e-6 * margins[0].std())
    assert Model(read_model(Model(short).to_json().encode())) == Model(short)


def test_the_mean_is_an_ordinary_model(models):
    mean = Model(average([model.ensemble for model in models["multi:softprob"]], [1, 2, 1]))
    assert mean.n_rounds == 12
    assert mean.ensemble.features[1].categories == ("a", "b", "c", "d")
    names = {"max_depth": 3, "num_class": 3}
    assert {name: mean.parameters[name] for name in names} == names
    assert "learning_rate" not in mean.parameters
    with pytest.raises(fb.ParameterError, match="it is an average of models, comes from another library"):
        mean.refit(ROWS, "y")


def test_parameters_that_differ_are_left_out(models):
    other = fb.fit(ROWS, "y", n_estimators=2, max_depth=1)
    mean = average([models["reg:squarederror"][0].ensemble, other.ensemble], [1, 1])
    assert "max_depth" not in mean.parameters
    assert mean.parameters["reg_lambda"] == 1.0
