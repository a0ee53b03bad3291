"""The losses that LightGBM has and XGBoost does not: by their definitions, and as LightGBM trains them."""

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.losses.built_in import OTHER_NAMES, get_loss
from frameboost.parameters.parameters import Parameters
from tests.support.cases import cases
from tests.support.objectives import FEATURES, labelled_rows

SLOPE, C = 0.75, 1.5
LOSSES = {
    "reg:huber": lambda y, m: np.where(np.abs(m - y) <= SLOPE, (m - y) ** 2 / 2, SLOPE * (np.abs(m - y) - SLOPE / 2)),
    "reg:fair": lambda y, m: C * np.abs(m - y) - C * C * np.log1p(np.abs(m - y) / C),
    "reg:mape": lambda y, m: np.abs(m - y) / np.maximum(1, np.abs(y)),
}
ONES = ("reg:huber", "reg:mape")  # LightGBM's hessian
OPTIONS = {"huber_slope": SLOPE, "fair_c": C}


@cases("objective", LOSSES)
def test_derivatives_are_those_of_the_definition(objective):
    y, m = (each.ravel() for each in np.meshgrid([-3.5, 0.0, 0.5, 12.25], [-5.3, -1.7, -0.21, 0.13, 1.9, 6.1]))
    loss, step = get_loss(objective, Parameters(**OPTIONS).shaping()), 1e-4
    (of_output,) = loss.outputs
    rows = pl.DataFrame({"label": y, "margin": m}).select(
        g=of_output.gradient.to_polars(), h=of_output.hessian.to_polars()
    )
    above, at, below = (LOSSES[objective](y, m + each) for each in (step, 0.0, -step))
    np.testing.assert_allclose(rows["g"], (above - below) / (2 * step), rtol=1e-5, atol=1e-6)
    bend = np.ones_like(m) if objective in ONES else (above - 2 * at + below) / step**2
    np.testing.assert_allclose(np.broadcast_to(rows["h"], m.shape), bend, rtol=1e-5, atol=1e-5)


# Few distinct values, so that both libraries have the same candidates. LightGBM estimates numbers of rows from H.
SHAPE = {"num_leaves": 8, "learning_rate": 0.3, "lambda_l2": 1.0, "min_data_in_leaf": 1}
THEIRS = {"min_sum_hessian_in_leaf": 0.0, "max_bin": 1000, "min_data_in_bin": 1, "verbose": -1, "num_threads": 1,
          "deterministic": True, "boost_from_average": True}  # fmt: skip


@pytest.fixture(scope="module")
def rows():
    return labelled_rows().select(
        *(pl.col(name).fill_nan(9).round(1) for name in FEATURES), amount=pl.col("amount") * 3, w="w", size="size"
    )


@pytest.mark.parametrize("weight", [None, "w"])
@cases("name, extra", [("huber", {"alpha": SLOPE}), ("fair", {"fair_c": C})])
def test_predictions_and_metrics_are_lightgbms(rows, name, extra, weight):
    lightgbm = pytest.importorskip("lightgbm")
    X, y = rows.select(FEATURES).to_numpy(), rows["amount"].to_numpy()
    data = lightgbm.Dataset(X, y, weight=None if weight is None else rows[weight].to_numpy())
    history: dict = {}
    booster = lightgbm.train(
        SHAPE | THEIRS | extra | {"objective": name, "metric": name}, data, 5, valid_sets=[data],
        callbacks=[lightgbm.record_evaluation(history)],
    )  # fmt: skip
    model = fb.fit(
        rows, "amount", features=FEATURES, weight=weight, objective=name, n_estimators=5, max_bin=1000,
        min_child_weight=0, eval_metric=name, train_metrics=True, **SHAPE, **extra,
    )  # fmt: skip
    np.testing.assert_allclose(model.predict(rows), booster.predict(X), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(model.history[f"train_{name}"], history["training"][name], rtol=1e-4)


@pytest.mark.parametrize("engine", ["numba", "polars", "duckdb"])
def test_leaves_of_mape_are_weighted_medians(rows, engine):
    frame = rows.select("w", x=pl.int_range(pl.len()) % 3, y="amount")
    options = {"objective": "reg:mape", "n_estimators": 1, "learning_rate": 1, "features": ["x"], "engine": engine}
    for weight in (None, "w"):
        model = fb.fit(frame, "y", weight=weight, min_child_weight=0, reg_lambda=0, **options)
        for (_,), group in frame.with_columns(p=model.predict(frame)).group_by("x"):
            y = np.sort(group["y"].to_numpy())
            w = np.ones(len(y)) if weight is None else group.sort("y")["w"].to_numpy()
            w = w / np.maximum(1, np.abs(y))
            median = y[np.searchsorted(np.cumsum(w), w.sum() / 2)]
            # The median of residuals from the start, which is one of all labels.
            np.testing.assert_allclose(group["p"].unique().to_list(), [median], rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@cases("objective", LOSSES)
def test_engines_files_and_sql_agree(rows, objective, tmp_path):
    options = {
        "objective": objective,
        "features": FEATURES,
        "n_estimators": 3,
        "max_depth": 3,
        "weight": "w",
        **OPTIONS,
    }
    model = fb.fit(rows, "amount", **options)
    for engine in ("polars", "duckdb"):
        assert fb.fit(rows, "amount", engine=engine, **options).trees.equals(model.trees)
    model.save(tmp_path / "m.json")
    assert fb.load(tmp_path / "m.json") == model
    np.testing.assert_allclose(model.refit(rows, "amount", weight="w").predict(rows), model.predict(rows), atol=1e-9)
    longer = fb.fit(rows, "amount", init_model=model, **options | {"n_estimators": 1})
    whole = fb.fit(rows, "amount", **options | {"n_estimators": 4})
    np.testing.assert_allclose(longer.predict(rows), whole.predict(rows), atol=1e-9)
    assert rows.select(model.expr()).to_series().equals(model.predict(rows))


def test_names_of_other_libraries(rows):
    shape = {"features": FEATURES, "n_estimators": 2}
    for name, ours in OTHER_NAMES.items():
        if ours is not None and ours.startswith("reg:") and ours not in ("reg:logistic",):
            assert fb.fit(rows, "size", objective=name, **shape).objective == ours
    expected = fb.fit(rows, "size", objective="reg:quantileerror", quantile_alpha=0.9, **shape)
    assert fb.fit(rows, "size", objective="quantile", alpha=0.9, **shape) == expected
    # Of other objectives alpha is XGBoost's: the L1 penalty.
    assert fb.fit(rows, "size", objective="regression", alpha=0.9, **shape).parameters["reg_alpha"] == 0.9
    with pytest.raises(fb.ParameterError, match="objective must be"):
        fb.fit(rows, "size", objective="hubert")
