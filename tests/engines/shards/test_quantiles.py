"""Quantiles of leaves, over all rows and over several shards, are those of numpy."""

from functools import partial

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frameboost.engines.frame import interpolated_quantile, weighted_quantile
from frameboost.engines.shards import quantiles
from frameboost.engines.shards.quantiles import NodeValues, interpolated_quantiles, weighted_quantiles


def parts_of(seed: int, n: int, n_places: int, *columns: str) -> tuple[pl.DataFrame, list[NodeValues]]:
    rng = np.random.default_rng(seed)
    spread = rng.normal(size=n) if seed % 2 else rng.choice([1.0, rng.normal()], n)
    value = rng.choice([0.0, -0.0, 1.5, -3.25, 1e300, -1e-310, 7.0], n, p=[0.1, 0.1, 0.4, 0.1, 0.1, 0.1, 0.1]) * spread
    rows = pl.DataFrame({"node": rng.integers(0, 4, n) * 3, "value": value, "weight": rng.integers(0, 9, n) / 4.0})
    if seed % 3 == 0:
        rows = rows.sort("value")  # so that samples of a shard are no samples of all
    place = rng.integers(0, n_places, n) if seed % 5 else np.sort(rng.integers(0, n_places, n))
    kept = rows.select(columns or rows.columns)
    return rows, [NodeValues(kept.filter(pl.Series(place == number))) for number in range(n_places)]


def asked(parts: list[NodeValues], calls: list[str]) -> tuple:
    def ask(method: str, *given: object) -> list:
        calls.append(method)
        return [getattr(part, method)(*given) for part in parts]

    return partial(ask, "around"), partial(ask, "within")


CASES = given(
    seed=st.integers(0, 2**32 - 1), n=st.integers(1, 400), n_places=st.integers(1, 4), most=st.sampled_from([2, 7, 50]),
    alpha=st.sampled_from([0.01, 0.25, 0.5, 0.77, 0.99]),
)  # fmt: skip


def of_few_values(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(quantiles, "_MAX_VALUES", most)
    monkeypatch.setattr(quantiles, "_PIVOTS", max(2, most // 4))


@pytest.mark.slow
@CASES
@settings(max_examples=40, deadline=None)
def test_unweighted_quantiles_are_interpolated(seed, n, n_places, most, alpha):
    with pytest.MonkeyPatch.context() as monkeypatch:
        of_few_values(monkeypatch, most)
        rows, parts = parts_of(seed, n, n_places, "node", "value")
        found = interpolated_quantiles([part.start() for part in parts], alpha, *asked(parts, []))
    expected = {
        node: np.quantile(values["value"].to_numpy(), alpha, method="weibull")
        for (node,), values in rows.sort("node").group_by("node", maintain_order=True)
    }
    assert list(found) == list(expected)
    for node, value in found.items():
        assert value == pytest.approx(expected[node], rel=1e-12, abs=1e-300)


@pytest.mark.slow
@CASES
@settings(max_examples=40, deadline=None)
def test_weighted_quantiles_are_the_lowest_value_that_reaches_the_share(seed, n, n_places, most, alpha):
    with pytest.MonkeyPatch.context() as monkeypatch:
        of_few_values(monkeypatch, most)
        rows, parts = parts_of(seed, n, n_places)
        found = weighted_quantiles([part.start() for part in parts], alpha, *asked(parts, []))
    for (node,), values in rows.sort("node", "value").group_by("node", maintain_order=True):
        reached = np.cumsum(values["weight"]) >= values["weight"].sum() * alpha
        assert found[node] == values["value"].to_numpy()[np.argmax(reached)]


@pytest.mark.parametrize("values", [
    np.random.default_rng(0).normal(size=200_000),
    np.sort(np.random.default_rng(0).normal(size=200_000)),
    np.random.default_rng(0).choice([0.0, 1.0, 2.5], 200_000, p=[0.4, 0.5, 0.1]),
    np.append(np.zeros(199_000), np.random.default_rng(0).normal(size=1_000)),
], ids=["random", "sorted", "three values", "mostly zero"])  # fmt: skip
def test_many_rows_are_selected_in_three_calls(values):
    parts = [NodeValues(pl.DataFrame({"node": 0, "value": part})) for part in np.array_split(values, 3)]
    calls: list[str] = []
    found = interpolated_quantiles([part.start() for part in parts], 0.3, *asked(parts, calls))
    assert found[0] == pytest.approx(np.quantile(values, 0.3, method="weibull"), rel=1e-12)
    assert len(calls) <= 4  # the start, pivots, the values between, and these two once more at most


@pytest.mark.parametrize("n", [1, 2, 3, 10, 999])
@pytest.mark.parametrize("alpha", [0.001, 0.25, 0.5, 0.9, 0.999])
def test_quantiles_are_numpys(n, alpha):
    rng = np.random.default_rng(n)
    values = rng.normal(size=n).round(1)  # with ties
    assert interpolated_quantile(values, alpha) == pytest.approx(np.quantile(values, alpha, method="weibull"))
    weights = rng.integers(1, 4, n).astype(float)
    expected = np.quantile(values, alpha, method="inverted_cdf", weights=weights)
    assert weighted_quantile(values, weights, alpha) == expected
