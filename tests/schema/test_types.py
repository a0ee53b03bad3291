"""The table of column types against DuckDB and polars themselves."""

from __future__ import annotations

import duckdb
import numpy as np
import polars as pl
import pytest

from frameboost.schema.types import DUCKDB_TYPES, TYPE_NAMES, FeatureType

DECIMALS = ("decimal(1,0)", "decimal(18,4)", "decimal(38,38)")
# Types that are read as another one where they are a column's: other libraries' codes, and units that DuckDB lacks.
READ_FROM_POLARS = {"codes": "int64"}
READ_FROM_DUCKDB = {
    "codes": "int64",
    "timestamptz[ms]": "timestamptz[us]",
    "duration[ms]": "duration[us]",
    "duration[ns]": "duration[us]",
}


@pytest.mark.parametrize("name", [*TYPE_NAMES, *DECIMALS])
def test_a_polars_column_is_read_as_the_type_that_it_has(name):
    column = pl.Series([None], dtype=FeatureType(name).to_polars())
    assert str(FeatureType.from_polars(column.dtype)) == READ_FROM_POLARS.get(name, name)


@pytest.mark.parametrize("name", [*TYPE_NAMES, "decimal(18,4)"])
def test_a_duckdb_column_is_read_as_the_type_that_it_has(name):
    sql = "DECIMAL(18, 4)" if name.startswith("decimal") else DUCKDB_TYPES[name]
    (found,) = duckdb.connect().sql(f"SELECT CAST(NULL AS {sql}) AS x").types
    assert str(FeatureType.from_duckdb(str(found))) == READ_FROM_DUCKDB.get(name, name)


@pytest.mark.parametrize("name", [n for n in TYPE_NAMES if "int" in n and n not in ("int128", "uint128")])
def test_the_bounds_of_integers_are_those_of_numpy(name):
    assert FeatureType(name).bounds == (np.iinfo(name).min, np.iinfo(name).max)


@pytest.mark.parametrize("name", [n for n in (*TYPE_NAMES, *DECIMALS) if FeatureType(n).bounds])
def test_the_physical_type_holds_the_bounds(name):
    kind = FeatureType(name)
    if kind.is_categorical:
        return
    lowest, highest = kind.bounds
    assert pl.Series([lowest, highest], dtype=kind.physical_dtype).to_list() == [lowest, highest]


@pytest.mark.parametrize("name", ["", "int7", "decimal(0,0)", "decimal(39,0)", "decimal(3,4)", "timestamp", "time"])
def test_other_names_are_no_types(name):
    with pytest.raises(ValueError, match="is not a feature type"):
        FeatureType(name)


def test_other_columns_have_no_type():
    for dtype in (pl.List(pl.Int8), pl.Time(), pl.Binary(), pl.Null(), pl.Struct({"a": pl.Int8})):
        assert FeatureType.from_polars(dtype) is None
    for type_name in ("BLOB", "TIME", "INTEGER[]", "UUID", "STRUCT(a INTEGER)", "BIT"):
        assert FeatureType.from_duckdb(type_name) is None


def test_enums_and_half_floats_are_read_as_what_holds_their_values():
    for dtype, name in ((pl.Enum(["a"]), "string"), (pl.Categorical(), "string"), (pl.Float16(), "float32")):
        assert str(FeatureType.from_polars(dtype)) == name
    assert str(FeatureType.from_duckdb("ENUM('a', 'b)')")) == "string"
    assert str(FeatureType.from_duckdb("TIMESTAMP_S")) == "timestamp[ms]"
