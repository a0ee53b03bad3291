"""Contributions as SHAP's ``Explanation``."""

import sys

import numpy as np
import polars as pl
import pytest

import frameboost as fb


@pytest.fixture(scope="module")
def flights() -> pl.DataFrame:
    delays = [float(i * 37 % 100) for i in range(100)]
    rows = pl.DataFrame({"carrier": ["AA", "UA", "B6", None] * 25, "dep_delay": delays})
    return rows.with_columns(
        day=pl.date(2013, 1, 1) + pl.duration(days=pl.int_range(100) % 7),
        delay=pl.col("dep_delay") - 9 * (pl.col("carrier") == "UA").fill_null(False),
        why=pl.Series(["crew", "snow", "wind", "snow"] * 25),
    )


FEATURES = ["carrier", "dep_delay", "day"]


@pytest.fixture(scope="module")
def model(flights) -> fb.Model:
    return fb.fit(flights, "delay", features=FEATURES, n_estimators=4, max_depth=3)


@pytest.mark.slow
def test_values_are_the_contributions(flights, model):
    pytest.importorskip("shap")
    explanation = model.explain(flights, form="shap")
    contributions = model.explain(flights)
    np.testing.assert_array_equal(explanation.values, contributions.select(FEATURES).to_numpy())
    np.testing.assert_array_equal(explanation.base_values, contributions["bias"].to_numpy())
    np.testing.assert_allclose(explanation.values.sum(axis=1) + explanation.base_values, model.predict(flights))
    assert explanation.feature_names == FEATURES
    # Numbers to colour by (days since 1970, the places of strings), and what to show.
    np.testing.assert_array_equal(
        explanation.data[:4], [[0, 0, 15706], [2, 37, 15707], [1, 74, 15708], [np.nan, 11, 15709]]
    )
    assert explanation.display_data[1].tolist() == ["UA", 37.0, "2013-01-02"]
    saabas = model.explain(flights, approx=True, form="shap")
    np.testing.assert_array_equal(saabas.values[:, 0], model.explain(flights, approx=True)["carrier"].to_numpy())


@pytest.mark.slow
def test_several_outputs_are_the_last_axis(flights):
    pytest.importorskip("shap")
    model = fb.fit(flights, "why", features=FEATURES, n_estimators=2, max_depth=2)
    explanation = model.explain(flights, form="shap")
    assert explanation.values.shape == (100, 3, 3)
    assert explanation.output_names == ["crew", "snow", "wind"]
    for number, label in enumerate(explanation.output_names):
        alone = model.explain(flights, output=label, form="shap")
        np.testing.assert_array_equal(explanation.values[:, :, number], alone.values)
        np.testing.assert_array_equal(explanation.base_values[:, number], alone.base_values)
        np.testing.assert_array_equal(alone.values, model.explain(flights, output=label).select(FEATURES).to_numpy())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # SHAP's own, of matplotlib and of numpy
def test_shap_draws_it(flights, model, monkeypatch):
    pytest.importorskip("shap")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    from shap import plots  # which imports IPython where it is there

    explanation = model.explain(flights, form="shap")
    for draw, what in ((plots.beeswarm, explanation), (plots.bar, explanation), (plots.waterfall, explanation[1]),
                       (plots.scatter, explanation[:, "carrier"]), (plots.heatmap, explanation)):  # fmt: skip
        draw(what, show=False)
        assert pyplot.gcf().axes
        pyplot.close("all")


def test_what_does_not_go_with_it(flights, model, monkeypatch):
    with pytest.raises(fb.ParameterError, match=r"^form='shap' can't be combined with interactions"):
        model.explain(flights, interactions=True, form="shap")
    with pytest.raises(fb.ParameterError, match=r"^form must be one of 'frame', 'shap', not 'SHAP'"):
        model.explain(flights, form="SHAP")
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(fb.ParameterError, match=r"^form='shap' needs the package SHAP: pip install 'frameboost\[sh"):
        model.explain(flights, form="shap")
