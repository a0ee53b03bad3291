"""``reg:expectileerror`` as XGBoost 3.3 and newer train it.

Only `.ci/pythons` installs these. Fits are exact: each Python compiles all kernels anew, and `grow_tree` once for rows
with categories, which `tests.test_versions` has, and once for others.
"""

import numpy as np
import polars as pl
import pytest

import frameboost as fb

xgboost = pytest.importorskip("xgboost")

from tests.support.objectives import FEATURES, Case, labelled_rows, matrix, train_xgboost  # noqa: E402, imports xgboost

pytestmark = pytest.mark.skipif(
    tuple(map(int, xgboost.__version__.split(".")[:2])) < (3, 3), reason="XGBoost has expectiles from 3.3 on"
)


@pytest.mark.parametrize("weight", [None, "w"])
def test_trees_scores_and_metrics_are_xgboosts(weight, tmp_path):
    case, rows = Case("reg:expectileerror", "amount", {"expectile_alpha": 0.7}), labelled_rows()
    data = matrix(case, rows, weight)
    booster, history = train_xgboost(case, data, 5, watched=[(data, "train")], max_depth=4)
    model = fb.fit(
        rows, "amount", features=FEATURES, weight=weight, objective=case.objective, **case.parameters, n_estimators=5,
        max_depth=4, tree_method="exact", eval_metric="expectile",
    )  # fmt: skip
    np.testing.assert_allclose(model.predict(rows), booster.predict(data), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(model.history["train_expectile"], history["train"]["expectile"], rtol=1e-5)
    # Both ways through a file.
    read = fb.from_xgboost(booster)
    assert (read.objective, read.parameters["expectile_alpha"]) == ("reg:expectileerror", [0.7])
    given = rows.select(pl.col(name).alias(feature) for name, feature in zip(FEATURES, read.features, strict=True))
    np.testing.assert_allclose(read.predict(given), booster.predict(data), rtol=1e-6, atol=1e-6)
    model.to_xgboost(tmp_path / "m.json")
    back = xgboost.Booster(model_file=tmp_path / "m.json")
    found = back.predict(xgboost.DMatrix(rows.select(FEATURES)))
    np.testing.assert_allclose(found, model.predict(rows), rtol=1e-5, atol=1e-5)


def test_several_expectiles_of_xgboost_are_refused():
    case = Case("reg:expectileerror", "amount", {"expectile_alpha": [0.2, 0.8]})
    booster, _ = train_xgboost(case, matrix(case, labelled_rows()), 2, tree_method="hist")
    with pytest.raises(fb.ParameterError, match=r"^XGBoost's models of 2 expectiles are not read"):
        fb.from_xgboost(booster)


def test_a_file_of_several_expectiles_predicts_alike(tmp_path):
    rows = labelled_rows()
    model = fb.fit(
        rows, "amount", features=FEATURES, weight="w", objective="reg:expectileerror", expectile_alpha=[0.2, 0.5, 0.9],
        n_estimators=4, tree_method="exact",
    )  # fmt: skip
    model.to_xgboost(tmp_path / "m.json")
    booster = xgboost.Booster(model_file=tmp_path / "m.json")
    found = booster.predict(xgboost.DMatrix(rows.select(FEATURES)))
    np.testing.assert_allclose(found, model.predict(rows).to_numpy(), rtol=1e-5, atol=1e-5)
