"""Cuts from counts by cells: those of all values, however these are distributed."""

import duckdb
import numpy as np
import polars as pl
import pytest

from frameboost.binning.bins import cut_positions
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.duckdb import binning
from frameboost.engines.duckdb.binning import CountedRows, SqlColumn, propose_bins, sample_columns
from frameboost.schema.types import Feature, FeatureType

N_ROWS = 3000


def columns(rng: np.random.Generator) -> dict[str, np.ndarray]:
    normal, share = rng.normal(size=N_ROWS), rng.random(N_ROWS)
    return {
        "normal": normal,
        "float32": normal.astype(np.float32),
        "sorted": np.sort(normal),
        "skewed": np.exp(normal * 2),
        "zeros": np.where(share < 0.6, np.where(share < 0.3, 0.0, -0.0), normal),
        "endless": np.where(share < 0.05, -np.inf, np.where(share < 0.1, np.inf, normal)),
        "huge": rng.uniform(-1.7, 1.7, N_ROWS) * 1e308,
        "tiny": np.where(share < 0.5, normal * 1e-300, normal * 1e300),
        "missing": np.where(share < 0.3, np.nan, normal),
        "int16": rng.integers(-30_000, 30_000, N_ROWS).astype(np.int16),
        "tied": rng.integers(0, 60, N_ROWS),
        "int64": rng.integers(2**62, 2**62 + 500, N_ROWS),
        "uint64": rng.integers(0, 2**63, N_ROWS).astype(np.uint64) + np.uint64(2**63),
        "one": np.full(N_ROWS, 7.5),
    }


@pytest.mark.parametrize("max_bin", [2, 9, 30])
def test_cuts_are_those_of_all_values(monkeypatch, max_bin):
    monkeypatch.setattr(binning, "MIN_ROWS", 0)
    monkeypatch.setattr(binning, "_CELLS", 400)  # several values in each
    found_by_cells, cell_cuts = [], binning._cell_cuts

    def counting(*args):
        found_by_cells.append(cell_cuts(*args))
        return found_by_cells[-1]

    monkeypatch.setattr(binning, "_cell_cuts", counting)
    frame = pl.DataFrame(columns(np.random.default_rng(max_bin)))
    con = duckdb.connect()
    con.register("arrived", frame.to_arrow())
    con.execute("CREATE TABLE t AS FROM arrived")
    session = DuckDBSession(con.table("t"), is_table=True)
    kinds = [FeatureType(str(dtype).lower()) for dtype in frame.dtypes]
    asked = [SqlColumn(f'"{name}"', kind) for name, kind in zip(frame.columns, kinds, strict=True)]
    samples = sample_columns(session, asked, max_bin)
    rows = CountedRows.of_source(session, N_ROWS)
    for column, kind, values, sample in zip(asked, kinds, frame, samples, strict=True):
        array = values.to_numpy()
        present, counts = np.unique(array[array == array], return_counts=True)
        missing = bool(np.isnan(array).any()) if kind.is_float else False
        at = cut_positions(np.cumsum(counts) - counts, int(counts.sum()), max_bin - missing)
        found = propose_bins(session, rows, Feature(values.name, kind), column, max_bin, missing=missing, sample=sample)
        assert list(found.cuts) == present[at].tolist(), values.name
        assert list(found.below) == (present[at - 1].tolist() if kind.is_float else []), values.name
    n_calls = len(found_by_cells)
    query = DuckDBSession(con.sql("FROM t"))
    rows = CountedRows.of_source(query, N_ROWS)
    propose_bins(query, rows, Feature("normal", kinds[0]), asked[0], max_bin, missing=False, sample=samples[0])
    assert len(found_by_cells) == n_calls, "a query may take long, and is read once a column"
    by_cells = [cuts for cuts in found_by_cells if cuts is not None]
    assert len(by_cells) >= 6, "or nothing is tested"


def test_cells_of_a_column_without_a_range():
    kind = FeatureType("float64")
    for sample in ([], [1.0] * 100, [-np.inf] * 5 + [0.0] * 5 + [np.inf] * 5):
        assert binning._cell(kind, np.array(sample)) is None
    assert binning._cell(FeatureType("date"), np.arange(100.0)) is None
