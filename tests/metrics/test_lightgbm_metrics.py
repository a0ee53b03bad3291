"""Metrics by LightGBM's names, as LightGBM measures them."""

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from tests.support.engines import ENGINES, as_relation

lightgbm = pytest.importorskip("lightgbm")

RNG = np.random.default_rng(3)
# Few distinct values, so that some scores are equal.
ROWS = pl.DataFrame(RNG.integers(0, 4, (240, 2)), schema=["Column_0", "Column_1"]).with_columns(
    w=pl.Series(RNG.integers(1, 5, 240) / 4), noise=pl.Series(RNG.normal(size=240)),
).with_columns(y=pl.col("Column_0") + pl.col("noise")).with_columns(
    two=(pl.col("y") > 1).cast(pl.Int64), three=pl.col("y").clip(0, 2.5).floor().cast(pl.Int64)
)  # fmt: skip
NAMES = {
    "y": ("regression", ["l1", "l2", "l2_root"]),
    "two": ("binary", ["binary_logloss", "binary_error", "auc", "average_precision"]),
    "three": ("multiclass", ["multi_logloss", "multi_error", "auc_mu"]),
}


@pytest.fixture(scope="module", params=NAMES)
def measured(request):
    """A target, a model of LightGBM, its metrics and their values."""
    target, (objective, names) = request.param, NAMES[request.param]
    x = ROWS.select("Column_0", "Column_1").to_numpy().astype(float)
    data, found = lightgbm.Dataset(x, ROWS[target].to_numpy(), weight=ROWS["w"].to_numpy()), {}
    options = {"objective": objective, "metric": names, "num_class": 3 if target == "three" else 1, "verbose": -1}
    booster = lightgbm.train(
        options | {"num_threads": 1, "num_leaves": 4}, data, 3, [data],
        callbacks=[lightgbm.record_evaluation(found)],
    )  # fmt: skip
    values = {name: series[-1] for name, series in found["training"].items()}
    if target == "y":
        values["l2_root"] = values.pop("rmse")
    return target, fb.from_lightgbm(booster), values


def test_a_models_metrics_are_lightgbms(measured):
    target, model, values = measured
    names = [name for name in values if name != "average_precision"]  # here it is a score of scikit-learn
    of_model = model.evaluate(ROWS, target, weight="w", eval_metric=names).metrics["value"].to_list()
    assert of_model == pytest.approx([values[name] for name in names], rel=1e-6)
    query = model.database().evaluate_query("ROWS", target, weight="w", eval_metric=names)
    of_query = duckdb.sql(query).pl()["value"].to_list()
    assert of_query == pytest.approx([values[name] for name in names], rel=1e-6)


@pytest.mark.parametrize("engine", ENGINES)
def test_names_are_taken_wherever_metrics_are(engine):
    names, ours = ["multi_logloss", "multi_error", "auc_mu"], ["mlogloss", "merror", "auc_mu"]
    options = {"objective": "multiclass", "features": ["Column_0", "Column_1"], "n_estimators": 2, "metric": names}
    data = as_relation(ROWS) if engine == "duckdb" else ROWS
    model = fb.fit(data, "three", engine=engine, verbosity=-1, **options)
    assert model.history.columns == ["round", *(f"train_{name}" for name in ours)]
    measured = model.evaluate(ROWS, "three", eval_metric=names).metrics
    assert measured["metric"].to_list() == ours
    assert model.history.row(-1)[1:] == pytest.approx(measured["value"].to_list(), rel=1e-12)
    if engine == "numba":
        table = fb.cv(data, "three", folds=2, verbosity=-1, **options)
        assert table.columns[1::2] == [f"{of}_{name}_mean" for of in ("train", "valid") for name in ours]


def test_more_is_better_of_auc_mu():
    options = {"objective": "multiclass", "features": ["Column_0"], "valid": 0.3, "eval_metric": "auc_mu"}
    model = fb.fit(ROWS, "three", n_estimators=20, early_stopping_rounds=3, **options)
    assert model.best_score == model.history["valid_auc_mu"].max()
