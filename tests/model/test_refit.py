"""What a fit promises holds after refit, slices, means over folds, training on and calibration."""

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from tests.support.cases import cases
from tests.support.objectives import CASES, labelled_rows

CROSSED = pl.DataFrame({"x": [1, 2, 3] * 2, "z": [0] * 3 + [1] * 3, "y": [3.0, 4.0, 6.0, 5.0, 4.0, 3.0]})


def rows(seed: int, n: int = 60) -> pl.DataFrame:
    """Rows of noise, in which nothing rises or falls."""
    rng = np.random.default_rng(seed)
    x = pl.Series(rng.integers(0, 8, n)).set(pl.Series(rng.random(n) < 0.1), None)
    return pl.DataFrame({"x": x, "z": rng.normal(size=n), "c": rng.choice(["a", "b", "c"], n)}).with_columns(
        y=pl.Series(rng.normal(size=n)), late=pl.Series(rng.random(n) < 0.5), m=pl.Series(rng.normal(size=n))
    )


def assert_monotone(model: fb.Model, directions: dict[str, int], output: str = "margin") -> None:
    """Assert that predictions go with each constrained feature, whatever the others are."""
    values = {"x": [*range(8)], "z": np.linspace(-2, 2, 9).tolist()}
    for name, direction in directions.items():
        other = "z" if name == "x" else "x"
        lines = pl.DataFrame(
            [(value, at, c, 0.0) for at in (*values[other][::3], None) for c in "abc" for value in values[name]],
            schema=[name, other, "c", "m"], orient="row",
        ).cast({"x": pl.Int64, "z": pl.Float64})  # fmt: skip
        steps = np.diff(model.predict(lines, output).to_numpy().reshape(-1, len(values[name]))) * direction
        assert (steps >= -1e-12).all(), (name, steps.min())


SHAPES = [
    {"max_depth": 4, "reg_lambda": 0}, {"grow_policy": "lossguide", "max_leaves": 9, "max_depth": 0},
    {"grow_policy": "symmetric", "max_depth": 4, "min_child_weight": 5}, {"tree_method": "exact", "max_depth": 5},
    {"grow_policy": "symmetric", "max_depth": 3, "min_child_weight": 0, "min_child_samples": 25},
    {"max_depth": 3, "max_delta_step": 0.2},
    {"tree_method": "approx", "grow_policy": "lossguide", "max_leaves": 60, "max_depth": 0},
]  # fmt: skip


@pytest.mark.slow
@cases(("seed", "shape"), [*enumerate(SHAPES)])
def test_monotone_constraints_hold_in_all_that_is_made_of_a_fit(seed, shape):
    directions = {"x": 1 - seed % 2 * 2, "z": (-1) ** (seed // 2)}
    target, objective = (("y", "reg:squarederror"), ("late", "binary:logistic"))[seed % 2]
    data, others = rows(seed), rows(seed + 99)[: 10 + 4 * seed]
    how = {"objective": objective, "features": ["x", "z", "c"], "monotone_constraints": directions, "base_margin": "m"}
    how |= {"n_estimators": 4, "min_child_weight": 0} | shape
    model = fb.fit(data, target, **how)
    assert model.trees["feature"].count() > 0
    same = model.refit(data, target)
    np.testing.assert_allclose(same.predict(data, "margin"), model.predict(data, "margin"), atol=1e-9)
    assert_monotone(model, directions)
    for made in (
        model.refit(others, target), model.refit(others, target, decay_rate=0.5), model[1:3],
        fb.fit(data, target, folds=2, **how), fb.fit(others, target, init_model=model, **how),
    ):  # fmt: skip
        assert_monotone(made, directions)
        assert made.parameters["monotone_constraints"] == directions


def test_a_refit_on_the_rows_that_run_against_the_constraint_keeps_it():
    model = fb.fit(CROSSED, "y", monotone_constraints={"x": 1}, n_estimators=1, learning_rate=1, reg_lambda=0)
    assert model.refit(CROSSED, "y") == model
    for falling in (CROSSED.with_columns(y=-pl.col("y")), CROSSED.with_columns(y=-pl.col("x").cast(pl.Float64))):
        predicted = model.refit(falling, "y").predict(CROSSED)
        assert (predicted.diff().gather([1, 2, 4, 5]) >= 0).all()


@pytest.mark.slow
@cases("case", CASES[::3])
def test_a_refit_on_the_same_rows_changes_nothing(case):
    data = labelled_rows().with_columns(carrier=pl.Series(["AA", "it's", None, "UA", "B6"] * 60))
    how = {"objective": case.objective, "n_estimators": 2, "features": ["x0", "x2", "carrier"]} | case.parameters
    margins = ["m0", "m1", "m2"][: case.outputs]
    variants = [{"base_margin": margins, "weight": "w"}, {"grow_policy": "symmetric", "max_depth": 3}]
    if case.outputs > 1:
        variants.append({"multi_strategy": "multi_output_tree", "min_child_weight": 8})
    for more in variants:
        model = fb.fit(data, case.label, **how | case.columns | more)
        again = model.refit(data, case.label, weight=more.get("weight"), **case.columns)
        first, second = (np.array(each.predict(data, "margin").to_list()) for each in (model, again))
        np.testing.assert_allclose(second, first, rtol=1e-9, atol=1e-9, err_msg=str(more))
        assert again.parameters == model.parameters


@cases("more", [{"booster": "dart", "rate_drop": 0.5}, {"linear_tree": True}, {"folds": 2}])
def test_leaves_that_cannot_be_fitted_anew_are_refused(more):
    data = rows(1, 500).with_columns(y=pl.col("z") * 3)
    model = fb.fit(data, "y", features=["x", "z"], n_estimators=3, linear_lambda=0.1, **more)
    with pytest.raises(fb.ParameterError, match=r"^the model can't be refitted: it "):
        model.refit(data, "y")


def test_what_only_some_trees_promise_is_not_promised():
    free = fb.fit(rows(1), "y", features=["x", "z"], n_estimators=2)
    on = fb.fit(rows(1), "y", init_model=free, n_estimators=2, monotone_constraints={"x": 1})
    assert not on.parameters["monotone_constraints"]
    slower = fb.fit(rows(1), "y", init_model=free, n_estimators=2, learning_rate=0.1)
    with pytest.raises(fb.ParameterError, match="was continued with another learning rate"):
        slower.refit(rows(1), "y")
    same = fb.fit(rows(1), "y", init_model=free, n_estimators=2)
    np.testing.assert_allclose(same.refit(rows(1), "y").predict(rows(1)), same.predict(rows(1)), atol=1e-9)


def test_a_calibration_does_not_turn_a_constraint_round():
    data = rows(3, 200).with_columns(late=pl.col("x").fill_null(0) > 3)
    how = {"features": ["x", "z"], "n_estimators": 5}
    wrong = data.with_columns(late=~pl.col("late"))
    constrained = fb.fit(data, "late", monotone_constraints={"x": 1}, **how)
    with pytest.warns(fb.FrameboostWarning, match="in reverse; the probability is the same for all"):
        flat = constrained.calibrate(wrong, "late")
    assert_monotone(flat, {"x": 1}, "mean")
    share = (wrong["late"].sum() + 1) / (len(wrong) + 2)
    assert flat.predict(data).to_list() == pytest.approx([share] * len(data), abs=0.01)
    with pytest.warns(fb.FrameboostWarning, match="rank these rows in reverse"):
        turned = fb.fit(data, "late", **how).calibrate(wrong, "late")
    assert turned.predict(wrong).sum() == pytest.approx(wrong["late"].sum(), rel=0.05)
    assert constrained.calibrate(wrong, "late", method="isotonic").predict(data).n_unique() == 1


@cases(("target", "objective", "again", "roles", "message"), [
    ("life", "survival:aft", "life", {}, "objective 'survival:aft' needs label_upper_bound, the column of upper"),
    ("y", None, "y", {"label_upper_bound": "m"}, "label_upper_bound is for objective 'survival:aft', not for 'reg:squ"),
    ("y", None, "y", {"group": "x"}, "group is for the rank:* objectives"),
    ("y", None, ["y", "m"], {}, "the model predicts 1 target, not 2"),
    (["y", "m"], None, "y", {}, "the model predicts 2 targets, not 1"),
])  # fmt: skip
def test_labels_of_another_kind_than_those_of_the_fit_are_refused(target, objective, again, roles, message):
    data = rows(1).with_columns(life=pl.col("y").exp())
    bound = {"label_upper_bound": "life"} if objective else {}
    model = fb.fit(data, target, objective=objective, features=["z"], n_estimators=1, **bound)
    for call in (model.refit, model.evaluate):
        with pytest.raises(fb.ParameterError) as error:
            call(data, again, **roles)
        assert str(error.value).startswith(message)
