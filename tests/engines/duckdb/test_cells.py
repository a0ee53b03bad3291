"""Cells of equal width over the cuts, where searches for bins start in DuckDB."""

import math

import duckdb
import numpy as np
import polars as pl
import pytest

from frameboost.engines.duckdb.binning import Cells
from frameboost.schema.types import FeatureType
from tests.support.cases import cases

RNG = np.random.default_rng(0)
INF, NAN = math.inf, math.nan


def below_and_steps(kind: str, duckdb_type: str, cuts: list, values: list) -> tuple[list[int], int]:
    """Return how many cuts are in lower cells than each value, as DuckDB finds it, and how many steps are left."""
    cells = Cells.of(FeatureType(kind), cuts)
    con = duckdb.connect()
    con.register("t", pl.DataFrame({"x": pl.Series(values, dtype=FeatureType(kind).to_polars())}).with_row_index("i"))
    assert con.sql("SELECT x FROM t").types == [duckdb_type]
    rows = con.execute(f"SELECT {cells.start('x', f'{list(cells.below)}')} FROM t ORDER BY i").fetchall()
    return [below for (below,) in rows], cells.n_steps


SPREADS = {
    "even": np.arange(255) / 255,
    "normal": np.sort(RNG.normal(size=255)),
    "lognormal": np.exp(np.sort(RNG.normal(size=255)) / 2),
    "far from zero": 1e9 + np.arange(100) * 0.25,
    "tiny": np.arange(1, 200) * 1e-300,
    "large": np.linspace(-1e300, 1e300, 255),
}


@pytest.mark.slow
@cases(
    ("spread", "kind"),
    [*((name, "float64") for name in SPREADS), ("even", "float32"), ("normal", "float32"), ("lognormal", "float32")],
)
def test_a_search_from_its_cell_on_reaches_the_bin_of_every_number(spread, kind):
    cuts = SPREADS[spread].astype(kind)
    around = [np.nextafter(cuts, -INF), cuts, np.nextafter(cuts, INF), np.array([-INF, INF], cuts.dtype)]
    values = np.concatenate([*around, RNG.uniform(cuts[0], cuts[-1], 500).astype(kind)])
    type_name = "FLOAT" if kind == "float32" else "DOUBLE"
    below, n_steps = below_and_steps(kind, type_name, cuts.tolist(), values.tolist())
    assert n_steps < len(cuts).bit_length() - 2
    left = np.searchsorted(cuts, values, side="right") - below
    assert left.min() >= 0
    assert left.max() < 2**n_steps


@pytest.mark.parametrize(("kind", "type_name", "low", "step"), [
    ("int8", "TINYINT", -128, 1), ("int64", "BIGINT", -(2**63), 2**56), ("uint64", "UBIGINT", 2**63, 2**55),
])  # fmt: skip
def test_a_search_from_its_cell_on_reaches_the_bin_of_every_integer(kind, type_name, low, step):
    cuts = [low + step * i for i in range(1, 255)]
    values = [low, *cuts, *(cut - 1 for cut in cuts), low + step * 255]
    below, n_steps = below_and_steps(kind, type_name, cuts, values)
    left = [sum(cut <= value for cut in cuts) - b for value, b in zip(values, below, strict=True)]
    assert min(left) >= 0
    assert max(left) < 2**n_steps


def test_a_missing_value_has_no_cell_and_does_not_fail():
    below, _ = below_and_steps("float64", "DOUBLE", np.arange(100.0).tolist(), [None, NAN, 50.0])
    assert below[0] is None
    assert below[2] == 50
