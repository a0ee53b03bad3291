"""A plan says what the fit then does."""

import polars as pl
import pytest

import frameboost as fb
from tests.support.cases import cases

FRAME = pl.DataFrame({
    "x": [float(i % 7) for i in range(40)], "town": ["Ulm", "Bonn"] * 20, "size": [1, 2, 3, 4, 5] * 8,
    "late": [i % 3 == 0 for i in range(40)], "y": [i % 5 + 0.5 for i in range(40)],
})  # fmt: skip


@cases("options", [
    {"target": "y"}, {"target": "late"}, {"target": "town"}, {"target": ["y", "x"]},
    {"target": "y", "weight": "size", "exclude": "late", "max_depth": 2},
    {"target": "y", "objective": "count:poisson", "exposure": "size"},
    {"target": "y", "valid": 0.2, "features": ["x", "town"], "seed": 3},
    {"target": "late", "tree_method": "approx", "positive": None},
])  # fmt: skip
def test_a_plan_is_what_the_fit_does(options):
    plan = fb.plan(FRAME, **options)
    model = fb.fit(FRAME, n_estimators=2, **options)
    assert [feature.name for feature in plan.features] == model.features
    assert plan.objective == model.objective
    assert list(plan.labels) == list(model.classes)
    assert dict(plan.offset) == {"base_margin": None, "exposure": None} | dict(model.offset)
    shaping = {name: value for name, value in model.parameters.items() if name != "n_estimators"}
    assert shaping.items() <= plan.settings.shaping().items()
    shown = dict(line.split(maxsplit=1) for line in str(plan).splitlines())
    assert shown["engine"].startswith("numba")
    assert plan.objective in shown["target"]


def test_a_plan_follows_the_model_to_continue_from():
    first = fb.fit(FRAME, "y", features=["x"], n_estimators=3)
    plan = fb.plan(FRAME, "y", init_model=first, n_estimators=2)
    assert [feature.name for feature in plan.features] == ["x"]
    assert "after 3 rounds of init_model" in str(plan)


def test_a_plan_of_folds_is_that_of_all_rows():
    plan = fb.plan(FRAME, "y", folds="town", early_stopping_rounds=2)
    assert "town" not in [feature.name for feature in plan.features]
    assert dict(line.split(maxsplit=1) for line in str(plan).splitlines())["folds"] == "'town'"


@pytest.mark.parametrize("options", [{"folds": 3, "valid": 0.2}, {"trees": 3}, {"features": ["absent"]}])
def test_a_plan_refuses_what_a_fit_refuses(options):
    with pytest.raises(fb.FrameboostError):
        fb.plan(FRAME, "y", **options)
