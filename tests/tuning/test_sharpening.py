"""Margins of classes are multiplied by a factor that held-out rows choose: `frameboost.tuning.sharpening`."""

import math
from itertools import chain

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.tuning.recipes import PLANS
from frameboost.tuning.sharpening import sharpness
from tests.support.cases import cases

# Neighbours on the grid of factors differ by 2^(1/8).
NEAREST = 2 ** (1 / 16) + 1e-9


@cases(("right", "wrong", "margin"), [(100, 0, 2.0), (400, 3, 2.5), (50, 10, 0.9), (60, 40, 2.0), (2000, 0, 1.0)])
def test_margins_of_one_size_become_the_log_odds_of_being_right(right, wrong, margin):
    """The share of mistakes is (wrong + 1/2) / (rows + 1/2), and the factor at least 1 and at most 8."""
    labels = np.arange(right + wrong) % 2
    signs = np.where(labels, 1.0, -1.0) * np.where(np.arange(right + wrong) < right, 1, -1)
    exact = min(max(math.log(right / (wrong + 0.5)) / margin, 1.0), 8.0)
    factor = sharpness([margin * signs], labels)
    assert exact / NEAREST <= factor <= exact * NEAREST
    of_each = [3.0 - margin / 2 * signs, 3.0 + margin / 2 * signs]
    assert sharpness(of_each, labels) == factor, "two classes with a margin each are the same"


def test_rows_count_by_their_weights():
    labels, signs = np.ones(50), np.where(np.arange(50) < 45, 1.0, -1.0)
    assert sharpness([signs], labels, np.full(50, 7.0)) == sharpness([signs], labels)
    assert sharpness([signs], labels, (signs > 0) * 1.0) > sharpness([signs], labels) > 1
    assert sharpness([signs], labels, (signs < 0) * 1.0) == 1


def rule(n: int, seed: int) -> pl.DataFrame:
    """Return strings and their class, of three, by a rule."""
    codes = np.random.default_rng(seed).integers(0, 4, (n, 4))
    frame = pl.DataFrame([pl.Series(f"s{k}", [f"v{code}" for code in codes[:, k]]) for k in range(4)])
    classes = np.where(codes[:, 0] == 1, 0, 1 + (codes[:, 1] + codes[:, 2] > 3))
    return frame.with_columns(y=pl.Series(classes).cast(pl.String))


def logloss(model: fb.Model, frame: pl.DataFrame) -> float:
    shares = model.predict(frame).to_numpy()
    return -float(np.log(shares[np.arange(len(frame)), frame["y"].cast(pl.Int64).to_numpy()]).mean())


@pytest.mark.slow
def test_the_model_of_a_rule_is_that_of_all_rows_with_larger_margins():
    frame, others = rule(300, 0), rule(1000, 1)
    options = {"learning_rate": 0.3, "n_estimators": 12, "n_jobs": 1, "verbose": False}
    made = fb.auto(frame, "y", **options)
    (won, n_rounds) = made.leaderboard.select("trial", "rounds").row(0)
    (shape,) = next(recipe.shapes for recipe in chain(*PLANS[3].rivals) if recipe.name == won)
    settings = {**shape, **options, "max_learning_rate": None, "n_estimators": int(n_rounds), "min_child_weight": 1e-3}
    plain = fb.fit(frame, "y", **settings)
    larger, margins = (model.predict(others, output="margin").to_numpy() for model in (made, plain))
    factor = (larger * margins).sum() / (margins**2).sum()
    np.testing.assert_allclose(larger, factor * margins, atol=1e-4)
    assert 1.05 < factor < 8 and logloss(made, others) < logloss(plain, others)
