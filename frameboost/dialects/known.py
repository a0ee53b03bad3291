"""The dialects that SQL is written in, by name.

What each line rests on is in ``docs/dialects.md`` (rules, and what was tried) and ``docs/vendors.md`` (limits, and what
the vendors' documentation says).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from frameboost.checks.messages import did_you_mean, listed, shown
from frameboost.dialects.dialect import Dialect
from frameboost.dialects.duckdb import DUCKDB
from frameboost.dialects.limits import Limits, replaced
from frameboost.dialects.sqlite import SQLITE
from frameboost.errors import ParameterError

__all__ = ["DIALECTS", "get_dialect"]

_INTEGERS = {
    "int8": "SMALLINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT", "uint8": "SMALLINT",
    "uint16": "INTEGER", "uint32": "BIGINT", "codes": "BIGINT",
}  # fmt: skip


def _wide(type_name: str) -> dict[str, str]:
    return dict.fromkeys(("uint64", "int128", "uint128"), type_name)


# e to the power of what does not overflow or underflow; 709.78 and −745.13 are where float64 ends.
_GUARDED_EXP = "EXP(GREATEST(LEAST({x}, {high}), {low}))"

_POSTGRES = Dialect(
    name="postgres",
    parser="postgres",
    longest_name=63,
    name_in_bytes=True,
    double="{v}::float8",
    infinity=("'Infinity'::float8", "'-Infinity'::float8"),
    is_number="{x} <= 'Infinity'::float8",  # NULL is not true, and NaN is the largest number
    types={
        **_INTEGERS, **_wide("NUMERIC"), "float32": "REAL", "float64": "DOUBLE PRECISION",
        "decimal": "NUMERIC({p}, {s})", "boolean": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMP",
        "timestamptz": "TIMESTAMPTZ", "duration": "INTERVAL", "string": "TEXT",
    },
    timestamptz="TIMESTAMPTZ '{v}+00:00'",
    has_endless_dates=True,
    interval="INTERVAL '{v} microseconds'",
    exp=_GUARDED_EXP.format(x="{x}", high="709::float8", low="-708::float8"),
    create_index="CREATE INDEX {index} ON {name} ({columns})",
    array="ARRAY[{v}]",
    fenced_stage="{name} AS MATERIALIZED (\nSELECT {select}\n)",
    keeps_order=True,
    limits=Limits(text=256 * 2**20, view=32 * 2**20, depth=1000, stages=200, columns=1664),
)  # fmt: skip

_BACKSLASH = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}

_CLICKHOUSE = Dialect(
    name="clickhouse",
    parser="clickhouse",
    escapes=_BACKSLASH,
    name_escapes={"\\": "\\\\"},
    infinity=("toFloat64('inf')", "toFloat64('-inf')"),
    is_number="NOT isNaN({x})",
    types={
        "int8": "Int8", "int16": "Int16", "int32": "Int32", "int64": "Int64", "int128": "Int128", "uint8": "UInt8",
        "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64", "uint128": "UInt128", "codes": "Int64",
        "float32": "Float32", "float64": "Float64", "decimal": "Decimal({p}, {s})", "boolean": "Bool", "date": "Date32",
        "timestamp[ms]": "DateTime64(3, 'UTC')", "timestamp[us]": "DateTime64(6, 'UTC')",
        "timestamp[ns]": "DateTime64(9, 'UTC')", "timestamptz[ms]": "DateTime64(3, 'UTC')",
        "timestamptz[us]": "DateTime64(6, 'UTC')", "timestamptz[ns]": "DateTime64(9, 'UTC')", "string": "String",
    },
    wide_integer="toInt256('{v}')",
    decimal="toDecimal256('{v}', {s})",
    date="toDate32('{v}')",
    timestamp="toDateTime64('{v}', 9, 'UTC')",
    timestamptz="toDateTime64('{v}', 9, 'UTC')",
    digits=9,
    years=(1900, 2261),
    array="[{v}]",
    element="{x}[1 + {i}]",
    branch="if({c}, {t}, {e})",  # as short as can be, for the sake of the limit on text
    except_columns="* EXCEPT ({v})",
    casts={"codes": "Nullable(Int64)", "string": "Nullable(String)"},
    nullable="Nullable({t})",
    define_table="CREATE TABLE {name} (\n  {columns}\n) ENGINE = MergeTree ORDER BY tuple()",
    create_table="CREATE TABLE {name} ENGINE = MergeTree ORDER BY tuple() AS\n{query}",
    update="ALTER TABLE {name}\nUPDATE {column} = {value}{where}",
    update_needs_where=True,
    aliases_hide_columns=True,
    limits=Limits(text=262_144, depth=1000, stages=100, elements=50_000),
)  # fmt: skip

_SPARK = Dialect(
    name="spark",
    parser="spark",
    quotes=("`", "`"),
    escapes={**_BACKSLASH, "'": "\\'"},  # before 4.0 two quotes are an end and a beginning
    double="{v}D",
    infinity=("DOUBLE('Infinity')", "DOUBLE('-Infinity')"),
    is_number="NOT isnan({x})",
    types={
        **_INTEGERS, "int8": "TINYINT", "int32": "INT", **_wide("DECIMAL(38, 0)"), "float32": "FLOAT",
        "float64": "DOUBLE", "decimal": "DECIMAL({p}, {s})", "boolean": "BOOLEAN", "date": "DATE",
        "timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP", "string": "STRING",
    },
    integer_digits=38,
    decimal="CAST('{v}' AS DECIMAL({p}, {s}))",
    wide_integer="CAST('{v}' AS DECIMAL(38, 0))",
    timestamp="TIMESTAMP_NTZ '{v}'",
    array="array({v})",
    longest_sum=60,
    uncompiled="aggregate(array({x}), 0D, (zero, value) -> zero)",  # what has a lambda is left to the interpreter
    row_number="ROW_NUMBER() OVER (ORDER BY 1)",
    any_case=True,
    limits=Limits(text=16 * 2**20, depth=500, elements=200_000),
)  # fmt: skip

_DATABRICKS = replace(
    _SPARK,
    name="databricks",
    parser="databricks",
    except_columns="* EXCEPT ({v})",
    limits=replace(_SPARK.limits, text=16 * 2**20),  # of the statement API, whatever Spark's is taken to be
)

_MYSQL = Dialect(
    name="mysql",
    parser="mysql",
    quotes=("`", "`"),
    escapes={"\\": "\\\\"},
    longest_name=64,
    ends_in_blank=False,
    double="{e}",
    types={
        **_INTEGERS, "int8": "TINYINT", "uint64": "BIGINT UNSIGNED", "int128": "DECIMAL(39, 0)",
        "uint128": "DECIMAL(39, 0)", "float32": "FLOAT", "float64": "DOUBLE", "decimal": "DECIMAL({p}, {s})",
        "boolean": "BOOLEAN", "date": "DATE", "timestamp": "DATETIME(6)", "string": "TEXT",
    },
    casts={"int64": "SIGNED", "codes": "SIGNED", "string": "CHAR"},
    years=(1, 9999),
    is_true="{x} = 1",
    is_false="{x} = 0",
    text="CAST(CONVERT({x} USING utf8mb4) AS BINARY)",
    text_literal="CAST(CONVERT({v} USING utf8mb4) AS BINARY)",
    exp=_GUARDED_EXP.format(x="{x}", high="709e0", low="-708e0"),
    create_index="CREATE INDEX {index} ON {name} ({columns})",
    fenced_stage="{name} AS (\nSELECT {select}\nLIMIT 18446744073709551615\n)",
    keeps_order=True,
    lost_names=r"(?s)\s.*",
    any_case=True,
    limits=Limits(text=16 * 2**20, depth=100, stages=64, columns=4096),
)  # fmt: skip

_BIGQUERY = Dialect(
    name="bigquery",
    parser="bigquery",
    quotes=("`", "`"),
    escapes={**_BACKSLASH, "'": "\\'"},
    name_escapes={"\\": "\\\\"},
    unnameable="\0!\"$()*,./;?@[\\]^`{}~\n\r\t",
    longest_name=300,
    infinity=("CAST('inf' AS FLOAT64)", "CAST('-inf' AS FLOAT64)"),
    is_number="NOT IS_NAN({x})",
    types={
        **dict.fromkeys(_INTEGERS, "INT64"), **_wide("BIGNUMERIC"), "float32": "FLOAT64", "float64": "FLOAT64",
        "decimal": "BIGNUMERIC", "boolean": "BOOL", "date": "DATE", "timestamp": "DATETIME", "timestamptz": "TIMESTAMP",
        "string": "STRING",
    },
    integer_digits=38,
    wide_integer="BIGNUMERIC '{v}'",
    decimal="BIGNUMERIC '{v}'",
    timestamp="DATETIME '{v}'",
    exp=_GUARDED_EXP.format(x="{x}", high="709.0", low="-708.0"),
    array="[{v}]",
    except_columns="* EXCEPT ({v})",
    update_needs_where=True,
    any_case=True,
    limits=Limits(text=10**6, view=256_000, depth=500, columns=10_000),
)  # fmt: skip

_SNOWFLAKE = Dialect(
    name="snowflake",
    parser="snowflake",
    escapes=_BACKSLASH,
    longest_name=255,
    double="'{v}'::FLOAT",
    infinity=("'inf'::FLOAT", "'-inf'::FLOAT"),
    is_number="{x} <= 'inf'::FLOAT",
    types={
        **dict.fromkeys(_INTEGERS, "NUMBER(38, 0)"), **_wide("NUMBER(38, 0)"), "float32": "FLOAT", "float64": "FLOAT",
        "decimal": "NUMBER({p}, {s})", "boolean": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMP_NTZ",
        "timestamptz": "TIMESTAMP_TZ", "string": "VARCHAR",
    },
    integer_digits=38,
    # Without a format the session's settings have a say.
    timestamp="TO_TIMESTAMP_NTZ('{v}', 'YYYY-MM-DD HH24:MI:SS.FF9')",
    timestamptz="TO_TIMESTAMP_TZ('{v} +00:00', 'YYYY-MM-DD HH24:MI:SS.FF9 TZH:TZM')",
    has_whole_fractions=True,
    digits=9,
    exp=_GUARDED_EXP.format(x="{x}", high="709", low="-708"),
    array="ARRAY_CONSTRUCT({v})",
    except_columns="* EXCLUDE ({v})",
    row_number="ROW_NUMBER() OVER (ORDER BY 1)",
    longest_list=16_384,
    limits=Limits(text=10**6, view=95_000, depth=500),
)  # fmt: skip

_REDSHIFT = Dialect(
    name="redshift",
    parser="redshift",
    escapes={"\\": "\\\\"},
    longest_name=127,
    name_in_bytes=True,
    double="'{v}'::float8",
    infinity=("'Infinity'::float8", "'-Infinity'::float8"),
    is_number="{x} <= 'Infinity'::float8",
    types={
        **_INTEGERS, **_wide("NUMERIC(38, 0)"), "float32": "REAL", "float64": "DOUBLE PRECISION",
        "decimal": "NUMERIC({p}, {s})", "boolean": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMP",
        "timestamptz": "TIMESTAMPTZ", "string": "VARCHAR(65535)",
    },
    integer_digits=38,
    timestamptz="TIMESTAMPTZ '{v}+00:00'",
    # Blanks at the end do not count in comparisons; with something behind them they do.
    text="({x} || '.')",
    text_literal="({v} || '.')",
    exp=_GUARDED_EXP.format(x="{x}", high="709::float8", low="-708::float8"),
    any_case=True,
    limits=Limits(text=16 * 10**6, depth=500, columns=1600),
)  # fmt: skip

_TRINO = Dialect(
    name="trino",
    parser="trino",
    double="{e}",
    infinity=("infinity()", "-infinity()"),
    is_number="NOT is_nan({x})",
    types={
        **_INTEGERS, "int8": "TINYINT", **_wide("DECIMAL(38, 0)"), "float32": "REAL", "float64": "DOUBLE",
        "decimal": "DECIMAL({p}, {s})", "boolean": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMP(6)",
        "timestamptz": "TIMESTAMP(6) WITH TIME ZONE", "string": "VARCHAR",
    },
    integer_digits=38,
    wide_integer="DECIMAL '{v}'",
    decimal="DECIMAL '{v}'",
    timestamptz="TIMESTAMP '{v} UTC'",
    array="ARRAY[{v}]",
    any_case=True,
    limits=Limits(text=10**6, depth=500),
)  # fmt: skip

_TSQL = Dialect(
    name="tsql",
    parser="tsql",
    quotes=("[", "]"),
    longest_name=128,
    double="{e}",
    types={
        **_INTEGERS, "uint8": "TINYINT", **_wide("DECIMAL(38, 0)"), "float32": "REAL", "float64": "FLOAT",
        "decimal": "DECIMAL({p}, {s})", "boolean": "BIT", "date": "DATE", "timestamp": "DATETIME2(7)",
        "timestamptz": "DATETIMEOFFSET(7)", "string": "NVARCHAR(4000)",
    },
    integer_digits=38,
    # A backslash at the end of a line takes the line's end with it; as a number it stays.
    escapes={"\n": "' + NCHAR(10) + N'", "\r": "' + NCHAR(13) + N'"},
    date="CAST('{v}' AS DATE)",
    timestamp="CAST('{v}' AS DATETIME2(7))",
    timestamptz="CAST('{v}+00:00' AS DATETIMEOFFSET(7))",
    time_separator="T",  # without it the session's language has a say
    digits=7,
    is_true="{x} = 1",
    is_false="{x} = 0",
    # Neither case nor blanks at the end count in comparisons of strings; of bytes they do.
    text="CAST(CAST({x} AS NVARCHAR(4000)) AS VARBINARY(8000))",
    text_literal="CAST({v} AS VARBINARY(8000))",
    string_prefix="N",
    count=("COUNT_BIG(*)", "SUM(CAST(CASE WHEN {c} THEN 1 ELSE 0 END AS BIGINT))"),
    functions={"LN": "LOG"},
    exp=_GUARDED_EXP.format(x="{x}", high="709e0", low="-708e0"),
    selects_into=True,
    row_number="ROW_NUMBER() OVER (ORDER BY (SELECT NULL))",
    create_index="CREATE INDEX {index} ON {name} ({columns})",
    fenced_stage="{name} AS (\nSELECT TOP (9223372036854775807) {select}\n)",
    any_case=True,
    limits=Limits(text=256 * 2**20, depth=500, case_depth=10, columns=4096, terms=65_535),
)  # fmt: skip

# Strings are UTF-8, in both of its collations, so that their bytes are compared as they stand.
_FABRIC = replace(
    _TSQL,
    name="fabric",
    parser="fabric",
    types={
        **_TSQL.types, "uint8": "SMALLINT", "timestamp": "DATETIME2(6)", "timestamptz": "DATETIME2(6)",
        "string": "VARCHAR(8000)",
    },
    escapes={"\n": "' + CHAR(10) + '", "\r": "' + CHAR(13) + '"},
    timestamp="CAST('{v}' AS DATETIME2(6))",
    timestamptz="CAST('{v}' AS DATETIME2(6))",
    digits=6,
    text="CAST({x} AS VARBINARY(8000))",
    string_prefix="",
    selects_into=False,
    create_index=None,
    any_case=False,
    limits=replace(_TSQL.limits, text=16 * 2**20, columns=1024),
)  # fmt: skip

_ORACLE = Dialect(
    name="oracle",
    parser="oracle",
    unnameable='\0"',
    longest_name=128,
    name_in_bytes=True,
    double="CAST({v} AS BINARY_DOUBLE)",
    extreme="TO_BINARY_DOUBLE('{v}')",
    infinity=("BINARY_DOUBLE_INFINITY", "-BINARY_DOUBLE_INFINITY"),
    is_number="{x} IS NOT NAN",
    types={
        **dict.fromkeys(_INTEGERS, "NUMBER(19)"), **_wide("NUMBER(38)"), "float32": "BINARY_FLOAT",
        "float64": "BINARY_DOUBLE", "decimal": "NUMBER({p}, {s})", "boolean": "NUMBER(1)", "date": "DATE",
        "timestamp": "TIMESTAMP(9)", "timestamptz": "TIMESTAMP(9) WITH TIME ZONE", "string": "VARCHAR2(4000)",
    },
    integer_digits=38,
    digits=9,
    is_true="{x} = 1",
    is_false="{x} = 0",
    star="{table}.*",
    alias="",
    insert_row="SELECT {v} FROM DUAL",
    create_index="CREATE INDEX {index} ON {name} ({columns})",
    row_number="ROWNUM",
    fenced_stage="{name} AS (\nSELECT /*+ NO_MERGE */ {select}\n)",
    longest_list=1000,
    limits=Limits(text=2**20, depth=500, columns=1000),
)  # fmt: skip

# Its times have milliseconds.
_PRESTO = replace(
    _TRINO,
    name="presto",
    parser="presto",
    types={**_TRINO.types, "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMP WITH TIME ZONE"},
    digits=3,
)

# Glue has 409,600 bytes for a view, which is JSON in base64: four bytes for three, and a quarter for what JSON adds.
_ATHENA = replace(
    _TRINO,
    name="athena",
    parser="athena",
    define_table=None,
    limits=replace(_TRINO.limits, text=262_144, view=409_600 * 3 // 4 * 3 // 4),
)

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        DUCKDB,
        _POSTGRES,
        SQLITE,
        _CLICKHOUSE,
        _SPARK,
        _DATABRICKS,
        _SNOWFLAKE,
        _BIGQUERY,
        _REDSHIFT,
        _TRINO,
        _PRESTO,
        _ATHENA,
        _MYSQL,
        replace(_MYSQL, name="mariadb"),
        _TSQL,
        _FABRIC,
        _ORACLE,
    )
}


def get_dialect(name: str, limits: Mapping[str, int | None] | None = None) -> Dialect:
    """Return the dialect of that name, with a user's limits in place of its own where they are given.

    Raises
    ------
    ParameterError
        If there is no such dialect, with a list of them, or no such limit.
    """
    if not isinstance(name, str) or name not in DIALECTS:
        raise ParameterError(
            f"dialect must be one of {listed(DIALECTS, None)}, not {shown(name)}{did_you_mean(name, DIALECTS)}"
        )
    dialect = DIALECTS[name]
    return dialect if limits is None else replace(dialect, limits=replaced(dialect.limits, limits))
