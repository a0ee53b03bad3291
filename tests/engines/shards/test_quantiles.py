"""Quantiles over several shards are those of numpy over all rows."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frameboost.engines.shards.quantiles import (
    NodeValues,
    interpolated_quantiles,
    number_of,
    value_of,
    weighted_quantiles,
)


def places(seed: int, n: int, n_places: int, *columns: str) -> tuple[pl.DataFrame, list[NodeValues]]:
    rng = np.random.default_rng(seed)
    value = rng.choice([0.0, -0.0, 1.5, -3.25, 1e300, -1e-310, 7.0], n) * rng.choice([1.0, rng.normal()], n)
    rows = pl.DataFrame({"node": rng.integers(0, 4, n) * 3, "value": value, "weight": rng.integers(1, 9, n) / 4.0})
    place = rng.integers(0, n_places, n)
    kept = rows.select(columns or rows.columns)
    return rows, [NodeValues(kept.filter(pl.Series(place == number))) for number in range(n_places)]


CASES = given(
    seed=st.integers(0, 2**32 - 1), n=st.integers(1, 60), n_places=st.integers(1, 4),
    alpha=st.sampled_from([0.01, 0.25, 0.5, 0.77, 0.99]),
)  # fmt: skip


@pytest.mark.slow
@CASES
@settings(max_examples=100, deadline=None)
def test_unweighted_quantiles_are_interpolated(seed, n, n_places, alpha):
    rows, parts = places(seed, n, n_places, "node", "value")
    found = interpolated_quantiles(
        [part.ends() for part in parts], alpha,
        lambda values: [part.weights_up_to(values) for part in parts],
        lambda values: [part.next_values(values) for part in parts],
    )  # fmt: skip
    expected = {
        node: np.quantile(values["value"].to_numpy(), alpha, method="weibull")
        for (node,), values in rows.sort("node").group_by("node", maintain_order=True)
    }
    assert list(found) == list(expected)
    for node, value in found.items():
        assert value == pytest.approx(expected[node], rel=1e-12, abs=1e-300)


@pytest.mark.slow
@CASES
@settings(max_examples=100, deadline=None)
def test_weighted_quantiles_are_the_lowest_value_that_reaches_the_share(seed, n, n_places, alpha):
    rows, parts = places(seed, n, n_places)
    found = weighted_quantiles(
        [part.ends() for part in parts], alpha, lambda values: [part.weights_up_to(values) for part in parts]
    )
    for (node,), values in rows.sort("node", "value").group_by("node", maintain_order=True):
        reached = np.cumsum(values["weight"]) >= values["weight"].sum() * alpha
        assert found[node] == values["value"].to_numpy()[np.argmax(reached)]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_numbers_have_the_order_of_their_values(values):
    values = [value + 0.0 for value in values]
    assert [value_of(number_of(value)) for value in values] == values
    assert sorted(values) == [value_of(number) for number in sorted(map(number_of, values))]
