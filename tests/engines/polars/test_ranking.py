"""Sums over pairs by positions, against a loop over each pair."""

import numpy as np
import polars as pl
import pytest

from frameboost.engines.polars import ranking
from frameboost.expressions.ranking_terms import Pairs
from tests.support.naive_kernels import naive_sum_pairs


@pytest.mark.parametrize("levels", [2, 5, 1000])  # runs of a label; more labels than that pays for
@pytest.mark.parametrize("at_once", [1, 50, 1 << 17])
def test_sums_over_pairs(monkeypatch, levels, at_once):
    monkeypatch.setattr(ranking, "_PAIRS_AT_ONCE", at_once)
    rng = np.random.default_rng(levels)
    sizes = [1, 40, 2, 60, 25]
    frame = pl.DataFrame({
        "qid": rng.permutation(np.repeat(np.arange(1, 6), sizes)), "label": rng.integers(0, levels, 128).astype(float),
        "margin": rng.integers(-8, 8, 128) / 4,
    }).with_columns(
        place=(pl.col("margin").rank("ordinal", descending=True) - 1.0).over("qid"),
        highest=pl.col("margin").max().over("qid"), lowest=pl.col("margin").min().over("qid"),
    )  # fmt: skip
    found = ranking.pair_sums(frame.lazy(), Pairs("pairwise", 6, by_difference=True), 2.0**12)
    assert found.columns == ["pair_g", "pair_h", "pair_size"]
    for number in range(1, 6):
        is_own = frame["qid"] == number
        query = frame.filter(is_own)
        expected = naive_sum_pairs(query["label"].to_list(), query["margin"].to_list(), "pairwise", 6,
                                   by_difference=True)  # fmt: skip
        np.testing.assert_allclose(found.filter(is_own).to_numpy(), expected, rtol=1e-9, atol=1e-9)


def test_a_row_is_paired_with_runs_of_other_labels():
    order, runs = ranking._in_order(np.full(8, 3), np.array([1.0, 0, 0, 1, 0, 1, 0, 1]), np.arange(8.0))
    assert order.tolist() == [1, 2, 4, 6, 0, 3, 5, 7]
    (ranges,) = runs.ranges(2)  # the rows 0 and 1
    assert [part.tolist() for part in ranges] == [[0, 4], [5, 0], [3, 4]]
