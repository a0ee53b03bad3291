"""Cuts weighted by h from sums by fine bins: those that the definition finds among all values."""

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.binning.bins import weighted_cut_positions
from frameboost.engines.duckdb import approx, binning
from frameboost.engines.duckdb.approx import undecided_bins
from frameboost.engines.duckdb.records import engine
from tests.support.engines import assert_same


def test_values_of_several_parts_are_in_the_bins_asked_for():
    rng = np.random.default_rng(0)
    for max_bin in (2, 5, 30):
        h = rng.integers(0, 4, 200) * rng.integers(0, 2, 200).astype(float)
        before = np.cumsum(h) - h
        starts = np.sort(rng.choice(np.arange(1, 200), 39, replace=False))
        asked = undecided_bins(np.add.reduceat(h, [0, *starts]), max_bin)
        cuts = weighted_cut_positions(before, h.sum(), max_bin)
        bin_of_cut = np.searchsorted(starts, cuts, side="right")
        assert set(bin_of_cut[~np.isin(cuts, starts)]) <= set(asked), "a cut inside a bin"
        assert len(asked) <= max_bin


def test_bins_without_hessian_have_no_cut():
    assert undecided_bins(np.zeros(20), 4).tolist() == []


@pytest.mark.parametrize(("fine", "sampled"), [(3, 400), (11, 400), (11, 30)])
def test_fine_bins_do_not_matter(monkeypatch, fine, sampled):
    monkeypatch.setattr(engine, "_SHARE", 0.0)  # no ranks in memory
    monkeypatch.setattr(approx, "FINE_BINS", fine)
    monkeypatch.setattr(binning, "_MIN_SAMPLED", sampled)
    monkeypatch.setattr(binning, "_SAMPLED_PER_BIN", 0)
    rng = np.random.default_rng(1)
    n = 400
    frame = pl.DataFrame({
        "x": rng.normal(size=n).round(2), "few": rng.integers(0, 4, n), "id": rng.permutation(n),
        "tied": np.where(rng.random(n) < 0.7, 1.5, rng.normal(size=n)), "w": rng.integers(0, 5, n),
    }).with_columns(
        pl.when(pl.col("x") > 0.8).then(None).otherwise(pl.col("id")).alias("null"),
        day=pl.date(2020, 1, 1) + pl.duration(days="id"), price=pl.col("x").cast(pl.Decimal(9, 2)),
        name=pl.col("few").cast(pl.String), y=pl.col("x") * 3 + pl.col("few") + pl.col("id") / 100,
    )  # fmt: skip
    options = {"weight": "w", "tree_method": "approx", "max_bin": 6, "n_estimators": 3, "max_depth": 3}
    models = [fb.fit(frame, "y", engine=name, **options) for name in ("polars", "duckdb")]
    assert_same("reg:squarederror", *models)
