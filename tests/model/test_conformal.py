"""Distances of intervals are quantiles of scores, and have the coverage that the theory says."""

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frameboost as fb
from frameboost.expressions.expression import Expression
from frameboost.losses.built_in import get_loss
from frameboost.losses.loss import multi_target_loss
from frameboost.losses.outputs import kind_of
from frameboost.model.conformal import (
    MAX_GROUPS,
    chosen_quantiles,
    conformal_distance,
    conformal_interval,
    conformity_scores,
    group_type,
    rows_needed,
)
from frameboost.parameters.parameters import Parameters
from tests.support.cases import cases

PARAMETERS = Parameters().as_dict() | {"max_delta_step": 0.7}
SQUARED = get_loss("reg:squarederror", PARAMETERS)


def quantile_loss(*alphas: float):
    return get_loss("reg:quantileerror", {"quantile_alpha": alphas})


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=60), st.integers(1, 99))
@settings(deadline=None)
def test_the_distance_is_the_smallest_that_enough_scores_do_not_pass(scores, percent):
    # Numpy's "higher" quantile of the scores and one more, infinite: the definition of Lei et al., without its formula.
    wanted = np.quantile(np.array([*scores, math.inf]), percent / 100, method="inverted_cdf")
    coverage = percent / 100
    if math.isinf(wanted):
        assert len(scores) < rows_needed(coverage)
        with pytest.raises(fb.DataError, match="takes at least"):
            conformal_interval(SQUARED, np.array(scores, dtype=float), coverage)
    else:
        assert len(scores) >= rows_needed(coverage)
        assert conformal_distance(np.array(scores, dtype=float), coverage) == wanted


@cases(
    ("coverage", "rows", "place"),
    # 0.55 · 20 and 0.7 · 10 are no integers in floating point.
    [(0.9, 9, 9), (0.9, 19, 18), (0.55, 19, 11), (0.7, 9, 7), (0.95, 39, 38), (0.5, 1, 1), (0.9, 100, 91)],
)
def test_places_that_are_whole_are_not_rounded_up(coverage, rows, place):
    assert conformal_distance(np.arange(1.0, rows + 1), coverage) == place
    assert rows_needed(coverage) <= rows


def test_scores_by_hand():
    labels, margin = np.array([1.0, 4.0, 0.0]), np.array([2.0, 2.0, -1.0])
    assert conformity_scores(SQUARED, [margin], labels, 0.9).tolist() == [1.0, 2.0, 1.0]
    mean = np.exp(margin)
    poisson = conformity_scores(get_loss("count:poisson", PARAMETERS), [margin], labels, 0.9)
    np.testing.assert_allclose(poisson, np.abs(labels - mean) / np.sqrt(mean), rtol=1e-13)
    gamma = conformity_scores(get_loss("reg:gamma", PARAMETERS), [margin], labels + 1, 0.9)
    np.testing.assert_allclose(gamma, np.abs(labels + 1 - mean) / mean, rtol=1e-13)
    tweedie = get_loss("reg:tweedie", PARAMETERS | {"tweedie_variance_power": 1.4})
    found = conformity_scores(tweedie, [margin], labels, 0.9)
    np.testing.assert_allclose(found, np.abs(labels - mean) / mean**0.7, rtol=1e-13)
    share = conformity_scores(get_loss("reg:logistic", PARAMETERS), [margin], np.array([0.0, 1.0, 0.5]), 0.9)
    np.testing.assert_allclose(share, np.abs(np.array([0.0, 1.0, 0.5]) - 1 / (1 + np.exp(-margin))), rtol=1e-13)


def test_scores_of_quantiles_that_cross_are_those_of_their_order():
    low, high, labels = np.array([0.0, 3.0, 0.0]), np.array([2.0, 1.0, 2.0]), np.array([0.5, 4.0, -1.0])
    expected = np.maximum(np.minimum(low, high) - labels, labels - np.maximum(low, high))
    assert conformity_scores(quantile_loss(0.1, 0.9), [low, high], labels, 0.8).tolist() == expected.tolist()
    assert expected.tolist() == [-0.5, 1.0, 1.0]


def test_a_score_is_infinite_where_no_interval_holds_the_label():
    poisson = get_loss("count:poisson", PARAMETERS)
    assert np.isinf(conformity_scores(poisson, [np.array([800.0, 0.0])], np.array([1.0, -2.0]), 0.5)).all()
    scores = np.array([1.0, 2.0, math.inf])
    assert conformal_distance(scores, 0.5) == 2.0
    with pytest.raises(fb.DataError, match="would take infinite intervals"):
        conformal_distance(scores, 0.75)


@cases(
    ("alphas", "coverage", "chosen"),
    [
        ((0.05, 0.95), 0.5, (0, 1)),
        ((0.05, 0.25, 0.5, 0.75, 0.95), 0.9, (0, 4)),
        ((0.05, 0.25, 0.5, 0.75, 0.95), 0.55, (1, 3)),
        ((0.1, 0.5), 0.9, (0, 1)),
        ((0.01, 0.5), 0.01, (0, 1)),  # the median is nearest to both ends
        ((0.2, 0.3, 0.8), 0.5, (0, 2)),  # as near to the one end as to the other: the wider
    ],
)
def test_the_quantiles_nearest_to_the_ends_are_taken(alphas, coverage, chosen):
    assert chosen_quantiles(quantile_loss(*alphas), coverage) == chosen
    assert chosen_quantiles(SQUARED, coverage) == ()


@cases(
    ("values", "kind", "known"),
    [
        (pl.Series("g", [3, 1, 3, 1], dtype=pl.Int8), "codes", (1, 3)),
        (pl.Series("g", [3, 1, 3, 1], dtype=pl.UInt32), "codes", (1, 3)),
        (pl.Series("g", [True, False, True, False]), "boolean", (0, 1)),
        (pl.Series("g", ["z", "é", "z", "é"], dtype=pl.Categorical), "string", ("z", "é")),
        (pl.Series("g", ["y", "x", "y", "x"], dtype=pl.Enum(["y", "x"])), "string", ("x", "y")),
    ],
)
def test_groups_are_strings_integers_or_booleans(values, kind, known):
    interval = conformal_interval(SQUARED, np.arange(4.0), 0.5, values)
    assert interval.groups is not None
    assert (interval.groups.type.name, interval.groups.values) == (kind, known)


def test_what_no_interval_can_be_made_of_is_refused():
    scores = np.arange(20.0)

    def message(scores=scores, coverage=0.9, groups=None, loss=SQUARED) -> str:
        with pytest.raises((fb.ParameterError, fb.DataError)) as error:
            conformal_interval(loss, scores, coverage, groups)
        return str(error.value)

    assert message(coverage=0.99) == (
        "coverage=0.99 takes at least 99 rows to conform on, and there are 20; with fewer rows only infinite "
        "intervals reach it"
    )
    assert "takes at least 1 row " in message(scores[:0], coverage=0.5)
    for coverage in (0.0, 1.0, math.nan):
        assert "coverage must be between 0 and 1" in message(coverage=coverage)
    many = pl.Series("shop", [f"{i // 2}" for i in range(20)])
    assert message(groups=many) == "no value of groups column 'shop' has the 9 rows that coverage=0.9 takes"
    wide = np.zeros(MAX_GROUPS + 1)
    assert "has 1,001 values; pass one with at most 1,000" in message(wide, 0.5, pl.Series("g", range(len(wide))))
    for kind in (pl.Float64(), pl.Date(), pl.UInt64()):
        with pytest.raises(fb.DataError, match="it must be of strings, integers or Booleans"):
            group_type("day", kind)


TWO = replace(SQUARED, outputs=SQUARED.outputs * 2, links=(Expression("margin_0", ("margin_0",)),) * 2)
WITHOUT = {
    "binary:logistic": "has 2 classes", "multi:softprob": "has 3 classes",
    **dict.fromkeys(["survival:aft", "survival:cox"], "is of times, which may be censored"),
    "rank:ndcg": "ranks, and its scores are on no scale of labels",
}  # fmt: skip


@cases(("loss", "reason"), [
    *((get_loss(name, PARAMETERS | {"num_class": 3}), reason) for name, reason in WITHOUT.items()),
    (multi_target_loss(SQUARED, 2), "has 2 targets"), (TWO, "has 2 outputs"),
])  # fmt: skip
def test_losses_without_intervals_say_why(loss, reason):
    with pytest.raises(fb.ParameterError) as error:
        kind_of(loss)
    start = f"prediction intervals are for a regression of one target; the model, of objective {loss.name!r}, "
    assert str(error.value).startswith(start + reason)
