"""ClickHouse's dialect."""

from __future__ import annotations

from frameboost.dialects.dialect import (
    BACKSLASH_ESCAPES,
    Catalog,
    ColumnTypes,
    Dialect,
    Expressions,
    Limits,
    Literals,
    Names,
    Statements,
    by_unit,
)

__all__ = ["CLICKHOUSE"]

CLICKHOUSE = Dialect(
    name="clickhouse",
    # A backslash is an escape in quoted names too. https://clickhouse.com/docs/sql-reference/syntax
    names=Names(escapes={"\\": "\\\\"}),
    literals=Literals(
        # https://clickhouse.com/docs/sql-reference/syntax
        escapes={**BACKSLASH_ESCAPES, "\0": "\\0"},
        # https://clickhouse.com/docs/sql-reference/data-types/float
        infinity=("toFloat64('inf')", "toFloat64('-inf')"), nan="toFloat64('nan')",
        # A number with more digits is read as a Float64. https://clickhouse.com/docs/sql-reference/syntax
        wide_integer="toInt256('{v}')", decimal="toDecimal256('{v}', {s})",
        # 1900 to 2299; nanoseconds end in 2262. https://clickhouse.com/docs/sql-reference/data-types/datetime64
        date="toDate32('{v}')", timestamp="toDateTime64('{v}', 9, 'UTC')", timestamptz="toDateTime64('{v}', 9, 'UTC')",
        digits=9, years=(1900, 2261),
    ),
    types=ColumnTypes(
        # https://clickhouse.com/docs/sql-reference/data-types
        columns={
            "int8": "Int8", "int16": "Int16", "int32": "Int32", "int64": "Int64", "int128": "Int128", "uint8": "UInt8",
            "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64", "uint128": "UInt128", "codes": "Int64",
            "float32": "Float32", "float64": "Float64", "decimal": "Decimal({p}, {s})", "boolean": "Bool",
            "date": "Date32", "timestamp[ms]": "DateTime64(3, 'UTC')", "timestamp[us]": "DateTime64(6, 'UTC')",
            "timestamp[ns]": "DateTime64(9, 'UTC')", "timestamptz[ms]": "DateTime64(3, 'UTC')",
            "timestamptz[us]": "DateTime64(6, 'UTC')", "timestamptz[ns]": "DateTime64(9, 'UTC')", "string": "String",
        },
        # A type takes no NULL unless it is Nullable. https://clickhouse.com/docs/sql-reference/data-types/nullable
        nullable="Nullable({t})",
        casts={
            "codes": "Nullable(Int64)", "string": "Nullable(String)", "float64": "Nullable(Float64)",
        },
    ),
    expressions=Expressions(
        # https://clickhouse.com/docs/sql-reference/functions/bit-functions
        xor="bitXor({x}, {y})",
        # A fifth of the time of a CASE, and 4 kB for 256 bins, where a query has 256 (measured, 26). https://clickhouse.com/docs/sql-reference/functions/rounding-functions
        bucket="if({x} < {first}, 0, transform(roundDown({x}, [{v}]), [{v}], range(1, {n} + 1), 0))",
        # A third of the time of a window, and a sixteenth of quantilesExact (measured, 26). https://clickhouse.com/docs/sql-reference/functions/array-functions
        quantiles="arrayJoin(arrayMap(f -> (arraySort(groupArray({x})) AS s)[toUInt64(f * length(s)) + 1], [{v}]))",
        # isNaN takes no decimals (measured, 26). https://clickhouse.com/docs/sql-reference/data-types/float
        is_number="{x} <= inf",
        # A list of strings is converted to an Enum, which may lack some (measured, 26). https://clickhouse.com/docs/sql-reference/data-types/enum
        text="toString({x})",
        # GROUP BY distinguishes -0.0 from 0.0, a window does not (measured, 26).
        part="toString({x})",
        # Of a decimal and a float the type in common is a Variant, which compares by types (measured, 26).
        double="{x} * toFloat64(1)",
        # Measured, 26.
        list_is_value=True,
        # As short as can be, for the sake of the limit on text. https://clickhouse.com/docs/sql-reference/functions/conditional-functions
        branch="if({c}, {t}, {e})",
        # Items are counted from 1. https://clickhouse.com/docs/sql-reference/data-types/array
        array="[{v}]", lookup="[{v}][{i}]",
        # https://clickhouse.com/docs/sql-reference/functions/date-time-functions#now64
        now="now64(3, 'UTC')",
        # https://clickhouse.com/docs/sql-reference/operators
        window_before=by_unit("{x} - INTERVAL {n} {unit}"),
    ),
    statements=Statements(
        # By UInt8 and UInt16 an array is indexed, and 28 calls of GROUPING take longer than the sums of 10,000 rows
        # (measured, 26). It has 64 bits; keys of other sets are 0. https://clickhouse.com/docs/sql-reference/aggregate-functions/grouping_function
        histogram="grouping_sets", most_sets=60,
        set_of_row="{first} + {n} - 1 - bitCount(bitShiftLeft(toUInt64(1), {n}) - 2 - GROUPING({v}))",
        key_of_row="arraySum([{v}])",
        scratch_table="CREATE TEMPORARY TABLE {name} ENGINE = Memory AS\n{query}",
        # https://clickhouse.com/docs/operations/system-tables/columns
        catalog=Catalog("system.columns", "table", "database", "currentDatabase()", "name", "type"),
        # SELECTs take 21 s for 260 rows (measured, 26). https://clickhouse.com/docs/sql-reference/functions/array-join
        many_rows="SELECT untuple(t) FROM (SELECT arrayJoin([\n{rows}]) AS t)",
        # https://clickhouse.com/docs/sql-reference/statements/select
        except_columns="* EXCEPT ({v})",
        # Unless STRICT. https://clickhouse.com/docs/sql-reference/statements/select
        except_unknown="* EXCEPT ({v})",
        # Measured, 26; prefer_column_name_to_alias turns it round. https://clickhouse.com/docs/operations/settings/settings
        aliases_hide_columns=True,
        # Measured, 26.
        star_names_tables=True,
        # Otherwise zeros and empty strings. https://clickhouse.com/docs/operations/settings/settings#join_use_nulls
        joins_to_nulls="\nSETTINGS join_use_nulls = 1",
        # A table has an engine. https://clickhouse.com/docs/sql-reference/statements/create/table
        define_table="CREATE TABLE {name} (\n  {columns}\n) ENGINE = MergeTree ORDER BY tuple()",
        create_table="CREATE TABLE {name} ENGINE = MergeTree ORDER BY tuple() AS\n{query}",
        # At once, where the database is Atomic. https://clickhouse.com/docs/sql-reference/statements/create/table
        replace_table="CREATE OR REPLACE TABLE {name} ENGINE = MergeTree ORDER BY tuple() AS\n{query}",
        # Without types, and in no database. https://clickhouse.com/docs/sql-reference/statements/create/function
        create_function="CREATE {replace}FUNCTION {name} AS ({parameters}) -> {value}", parameter=("{name}", "{name}"),
        # A mutation, which needs WHERE. https://clickhouse.com/docs/sql-reference/statements/alter/update
        update="ALTER TABLE {name}\nUPDATE {column} = {value}{where}", update_needs_where=True,
    ),
    limits=Limits(
        # max_query_size and max_parser_depth. https://clickhouse.com/docs/operations/settings/settings
        text=262_144, depth=1000,
        # max_subquery_depth and max_ast_elements. https://clickhouse.com/docs/operations/settings/query-complexity
        stages=100, elements=50_000,
    ),
)  # fmt: skip
