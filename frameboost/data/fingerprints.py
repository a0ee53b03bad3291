"""Hashes of data: of the text of a query, which costs nothing, and of rows, which are read."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

import duckdb
import numpy as np
import polars as pl

from frameboost.data.database_table import DatabaseTable
from frameboost.data.opening import open_source
from frameboost.runtime.interrupts import waiting

__all__ = ["hash_of_query", "hash_of_rows"]

# Names that DuckDB makes up anew for each relation, and those of objects in Python's memory, of which a text says
# nothing.
_MADE_UP = re.compile(r' AS "unnamed_relation_[0-9a-f]+"')
_IN_MEMORY = "__duckdb_source_"
# Types whose values are of one width; others are hashed as texts.
_PLAIN = (
    pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.Float32, pl.Float64,
)  # fmt: skip


def hash_of_query(data: Any) -> str | None:
    """Return the SHA-256 of the text of a relation's query, or of the name or query of a database table.

    None for other data, and for queries without text.

    >>> import duckdb
    >>> con = duckdb.connect()
    >>> hash_of_query(con.sql("SELECT 1 AS x")) == hash_of_query(duckdb.connect().sql("SELECT 1 AS x"))
    True
    """
    if isinstance(data, DatabaseTable):
        return sha256(data.name.encode()).hexdigest()
    if not isinstance(data, duckdb.DuckDBPyRelation):
        return None
    try:
        text = waiting(data).sql_query()
    except duckdb.Error:
        return None
    return None if _IN_MEMORY in text else sha256(_MADE_UP.sub("", text).encode()).hexdigest()


def hash_of_rows(data: Any) -> str:
    """Return the SHA-256 of the names, types and values of all columns that can be features, in row order.

    >>> df = pl.DataFrame({"x": [1, None], "s": ["a", "bc"]})
    >>> hash_of_rows(df) == hash_of_rows(df.lazy()), hash_of_rows(df) == hash_of_rows(df.reverse())
    (True, False)
    """
    source, digest = open_source(data), sha256()
    names = [name for name, kind in source.types().items() if kind is not None]
    for series in source.to_frame(names).collect().rechunk().iter_columns():
        digest.update(repr((series.name, str(series.dtype), len(series))).encode())
        digest.update(np.packbits(series.is_null().to_numpy()).data)
        plain = series.to_physical() if series.dtype.is_temporal() else series
        if plain.dtype in _PLAIN:
            digest.update(plain.fill_null(0).to_numpy().data)
        else:
            texts = series.cast(pl.String).fill_null("")
            digest.update(texts.str.len_bytes().to_numpy().data)
            digest.update(texts.str.join("").item().encode())
    return digest.hexdigest()
