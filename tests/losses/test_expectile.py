"""``reg:expectileerror``: by hand and by what defines an expectile."""

import numpy as np
import polars as pl
import pytest

import frameboost as fb

xgboost = pytest.importorskip("xgboost")

from tests.support.objectives import FEATURES, labelled_rows  # noqa: E402, imports xgboost

ROWS = pl.DataFrame({"x": [0, 1, 2], "y": [0.0, 4.0, 8.0]})
PLAIN = {"objective": "reg:expectileerror", "learning_rate": 1, "reg_lambda": 0, "min_child_weight": 0}


def test_one_tree_by_hand():
    # At the mean, 4: G = 0.25 · 4 − 0.75 · 4 = −2 and H = 0.25 + 0.25 + 0.75, so the first margin is 4 + 1.6.
    # There g = 1.4, 0.4, −1.8 and h = 0.25, 0.25, 0.75. The gains G²/H of the two sides are 7.84 + 1.96 for a split
    # before the second row, and 6.48 + 4.32 before the third; the leaves are 5.6 − 1.8 / 0.5 and 5.6 + 1.8 / 0.75.
    model = fb.fit(ROWS, "y", **PLAIN, expectile_alpha=0.75, n_estimators=1, max_depth=1, eval_metric="expectile")
    assert model.base_margin == pytest.approx(5.6)
    assert model.predict(ROWS).to_list() == pytest.approx([2.0, 2.0, 8.0])
    # (0.25 · 2² + 0.75 · 2² + 0) / 3
    assert model.history["train_expectile"].to_list() == pytest.approx([4 / 3])


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["numba", "polars", "duckdb"])
def test_predictions_are_the_expectiles_of_each_group(engine):
    rows = labelled_rows().select(x=pl.int_range(pl.len()) % 3, y="amount", w="w")
    model = fb.fit(rows, "y", weight="w", features=["x"], **PLAIN, expectile_alpha=0.8, n_estimators=30, engine=engine)
    scored = rows.with_columns(e=model.predict(rows))
    assert scored["e"].n_unique() == 3
    # An expectile e balances the residuals: α Σ w (y − e)₊ = (1 − α) Σ w (e − y)₊ (Newey & Powell 1987).
    rest = pl.col("y") - pl.col("e")
    above, below = (pl.col("w") * rest).filter(rest > 0).sum(), (-pl.col("w") * rest).filter(rest <= 0).sum()
    sides = scored.group_by("x").agg(above=above * 0.8, below=below * 0.2)
    np.testing.assert_allclose(sides["above"], sides["below"], rtol=1e-9)


def test_the_expectile_of_a_half_is_the_mean():
    rows = labelled_rows()
    shape = {"features": FEATURES, "n_estimators": 5, "max_depth": 4}
    half = fb.fit(rows, "amount", **PLAIN, **shape)
    whole = fb.fit(rows, "amount", **PLAIN | {"objective": "reg:squarederror"}, **shape)
    np.testing.assert_allclose(half.predict(rows), whole.predict(rows), rtol=1e-12, atol=1e-12)


def test_values_out_of_range_are_refused():
    for alpha in (0, 1, -0.5, [0.9, 0.1], [0.1, 0.1], []):
        with pytest.raises(fb.ParameterError, match=r"^expectile_alpha must be"):
            fb.fit(ROWS, "y", objective="reg:expectileerror", expectile_alpha=alpha)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["numba", "polars", "duckdb"])
def test_several_expectiles_are_those_of_each_alone(engine, tmp_path):
    rows, alphas = labelled_rows(), [0.2, 0.5, 0.9]
    shape = {"features": FEATURES, "weight": "w", "objective": "reg:expectileerror", "n_estimators": 4,
             "eval_metric": "expectile", "engine": engine}  # fmt: skip
    together = fb.fit(rows, "amount", expectile_alpha=alphas, **shape)
    alone = [fb.fit(rows, "amount", expectile_alpha=alpha, **shape) for alpha in alphas]
    assert together.base_margin == [model.base_margin for model in alone]
    predicted = together.predict(rows).to_numpy()
    assert np.array_equal(predicted, np.column_stack([model.predict(rows) for model in alone]))
    of_each = np.mean([model.history["train_expectile"] for model in alone], axis=0)
    np.testing.assert_allclose(together.history["train_expectile"], of_each, rtol=1e-12)
    # XGBoost's several expectiles are no sums of trees: a file for it has another objective, of the same predictions.
    together.to_xgboost(tmp_path / "m.json")
    booster = xgboost.Booster(model_file=tmp_path / "m.json")
    np.testing.assert_allclose(booster.predict(xgboost.DMatrix(rows.select(FEATURES))), predicted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["expectile", "quantile"])
def test_levels_of_several_targets_are_one(name):
    rows = labelled_rows().with_columns(twice=pl.col("amount") * 2)
    shape = {"features": FEATURES, "n_estimators": 2, "eval_metric": name, "objective": f"reg:{name}error"}
    both = fb.fit(rows, ["amount", "twice"], **{f"{name}_alpha": 0.8}, **shape)
    alone = [fb.fit(rows, target, **{f"{name}_alpha": 0.8}, **shape) for target in ("amount", "twice")]
    of_each = np.mean([model.history[f"train_{name}"] for model in alone], axis=0)
    np.testing.assert_allclose(both.history[f"train_{name}"], of_each, rtol=1e-12)
    with pytest.raises(fb.ParameterError, match=r"takes one target, not 2$"):
        fb.fit(rows, ["amount", "twice"], **{f"{name}_alpha": [0.2, 0.8]}, **shape)
