"""Small tables stand for large ones in every other test of the engines."""

from zlib import crc32

import pytest

from frameboost.engines.duckdb import engine as duckdb_engine
from frameboost.engines.polars import histograms as polars_histograms


@pytest.fixture(autouse=True)
def few_rows_or_many(request, monkeypatch):
    """Take the ways of many rows in half of the tests, told by their names."""
    if crc32(request.node.nodeid.encode()) % 2:
        monkeypatch.setattr(duckdb_engine, "MOST_OF_FEW", 0)
        monkeypatch.setattr(polars_histograms, "_MOST_AT_ONCE", 0)
