"""MySQL's dialect, and MariaDB's, which is the same SQL."""

from __future__ import annotations

from frameboost.dialects.dialect import (
    INDEX,
    SIGNED_INTEGERS,
    Catalog,
    ColumnTypes,
    Dialect,
    Expressions,
    Limits,
    Literals,
    Names,
    Statements,
    by_unit,
    guarded_exp,
)

__all__ = ["MARIADB", "MYSQL"]

MYSQL = Dialect(
    name="mysql",
    names=Names(
        # Backticks, characters up to U+FFFF, no blank at the end. https://dev.mysql.com/doc/refman/8.0/en/identifiers.html
        quotes=("`", "`"), only_basic_plane=True, ends_in_blank=False,
        # 64 characters. https://dev.mysql.com/doc/refman/8.0/en/identifier-length.html
        longest=64,
        # Column names are not case-sensitive. https://dev.mysql.com/doc/refman/8.0/en/identifier-case-sensitivity.html
        any_case=True,
        # MariaDB drops blanks in front of the names of a CTE's columns (measured, 10.11).
        lost=r"(?s)\s.*",
    ),
    literals=Literals(
        # A backslash is an escape unless NO_BACKSLASH_ESCAPES. https://dev.mysql.com/doc/refman/8.0/en/string-literals.html
        encoded=("\\\0", "CONVERT(x'{v}' USING utf8mb4)"),
        # As below, of literals.
        text="CAST(CONVERT({v} USING utf8mb4) AS BINARY)",
        # As below, of columns.
        timestamptz="TIMESTAMP '{v}'",
        # A row has times of the session's zone. https://dev.mysql.com/doc/refman/8.0/en/datetime.html
        cells={"timestamptz": "CONVERT_TZ({v}, '+00:00', @@session.time_zone)"}, zoned_seconds=(1, 2**31 - 1),
        # With an exponent it is approximate, else exact. https://dev.mysql.com/doc/refman/8.0/en/number-literals.html
        double="{e}",
        # Sums of integers have 64 bits. https://dev.mysql.com/doc/refman/8.0/en/arithmetic-functions.html
        integers=("{v}", "{v}"),
    ),
    types=ColumnTypes(
        # https://dev.mysql.com/doc/refman/8.0/en/data-types.html
        columns={
            **SIGNED_INTEGERS, "int8": "TINYINT", "uint64": "BIGINT UNSIGNED", "int128": "DECIMAL(39, 0)",
            "uint128": "DECIMAL(39, 0)", "float32": "FLOAT", "float64": "DOUBLE", "decimal": "DECIMAL({p}, {s})",
            "boolean": "BOOLEAN", "date": "DATE", "timestamp": "DATETIME(6)", "timestamptz": "TIMESTAMP(6)",
            "string": "TEXT",
        },
        compared={"timestamptz": "DATETIME(6)"},
        # https://dev.mysql.com/doc/refman/8.0/en/cast-functions.html
        exact_string="VARBINARY({n})",
        casts={**dict.fromkeys(SIGNED_INTEGERS, "SIGNED"), "string": "CHAR"},
    ),
    expressions=Expressions(
        # https://dev.mysql.com/doc/refman/8.0/en/flow-control-functions.html#function_if
        branch="IF({c}, {t}, {e})",
        # BOOLEAN is a number. https://dev.mysql.com/doc/refman/8.0/en/numeric-type-syntax.html
        is_true="{x} = 1", is_false="{x} = 0",
        # Collations ignore case, accents or blanks; binary strings compare by bytes. https://dev.mysql.com/doc/refman/8.0/en/case-sensitivity.html
        text="CAST(CONVERT({x} USING utf8mb4) AS BINARY)",
        # CAST gives it the collation of the connection. https://dev.mysql.com/doc/refman/8.0/en/charset-collation-coercibility.html
        as_text="CONCAT({x})",
        # Of other text CAST makes 0, with a warning; a BIT of 0 is a text without digits too. https://dev.mysql.com/doc/refman/8.0/en/type-conversion.html
        number="CASE WHEN CAST({x} AS {t}) = 0 AND CAST({x} AS CHAR) NOT REGEXP '[0-9]' AND HEX({x}) <> '0' THEN 1e300 "
        "ELSE CAST({x} AS {t}) END",
        # A TIMESTAMP compares as a time of the session's zone, where it may come twice; its seconds since 1970 don't. https://dev.mysql.com/doc/refman/8.0/en/date-and-time-functions.html#function_unix-timestamp
        time_with_zone="DATE_ADD(TIMESTAMP '1970-01-01 00:00:00', INTERVAL UNIX_TIMESTAMP({x}) SECOND)",
        # Overflow is an error. https://dev.mysql.com/doc/refman/8.0/en/out-of-range-and-overflow.html
        exp=guarded_exp("709e0", "-708e0"),
        # CURRENT_TIMESTAMP is of the session's zone. https://dev.mysql.com/doc/refman/8.0/en/date-and-time-functions.html
        now="UTC_TIMESTAMP()",
        # https://dev.mysql.com/doc/refman/8.0/en/date-and-time-functions.html
        window_start={
            "hour": "TIMESTAMP(DATE({x})) + INTERVAL HOUR({x}) HOUR", "day": "TIMESTAMP(DATE({x}))",
            "week": "TIMESTAMP(DATE({x})) - INTERVAL WEEKDAY({x}) DAY",
            "month": "TIMESTAMP(DATE({x})) - INTERVAL (DAYOFMONTH({x}) - 1) DAY",
        },
        window_before=by_unit("{x} - INTERVAL {n} {unit}"),
    ),
    statements=Statements(
        # A common table expression is computed once. https://dev.mysql.com/doc/refman/8.0/en/derived-table-optimization.html
        histogram="union",
        # https://dev.mysql.com/doc/refman/8.0/en/temporary-table-problems.html
        reads_scratch_once=True,
        # https://dev.mysql.com/doc/refman/8.0/en/information-schema-columns-table.html
        catalog=Catalog(schema="DATABASE()", type="column_type", collation="collation_name"),
        keeps_order=True,
        # A derived table or CTE with LIMIT is not merged. https://dev.mysql.com/doc/refman/8.0/en/derived-table-optimization.html
        fenced_stage="{name} AS (\nSELECT {select}\nLIMIT 18446744073709551615\n)",
        # https://dev.mysql.com/doc/refman/8.0/en/create-index.html
        create_index=INDEX,
        # No OR REPLACE. https://dev.mysql.com/doc/refman/8.0/en/create-procedure.html
        create_function="CREATE {replace}FUNCTION {name}({parameters})\nRETURNS {returns} DETERMINISTIC NO SQL\n"
        "RETURN {value}",
        replace_function=None,
    ),
    limits=Limits(
        # max_allowed_packet of the mysql client and MariaDB's server. https://dev.mysql.com/doc/refman/8.0/en/server-system-variables.html
        text=16 * 2**20,
        # thread_stack bounds it: MariaDB takes 450 nested CASEs, 600 are too deep (measured, 10.11).
        depth=100,
        # MariaDB's error 4003 (measured, 10.11).
        stages=64,
        # Of a table. https://dev.mysql.com/doc/refman/8.0/en/column-count-limit.html
        columns=4096,
    ),
)  # fmt: skip

MARIADB = MYSQL.child(
    "mariadb",
    parser="mysql",
    expressions={
        # Without an index all pairs of a join are compared, and a comparison of two conversions has none. So the column
        # is compared as well, by its collation, whichever it is, beside what JSON_UNQUOTE returns (measured, 10.11).
        "equal_texts": "JSON_UNQUOTE(JSON_QUOTE(CONVERT({x} USING utf8mb4))) = {y}"
        " AND CAST(CONVERT({x} USING utf8mb4) AS BINARY) = CAST(CONVERT({y} USING utf8mb4) AS BINARY)",
    },
    # https://mariadb.com/docs/server/reference/sql-statements/data-definition/create/create-table
    statements={
        "replace_table": "CREATE OR REPLACE TABLE {name} AS\n{query}",
        # A common table expression is computed for each SELECT that reads it, in 1.6 times the time (measured, 10.11).
        "histogram": "level_table",
        "reads_scratch_once": False,
        # Without an index all pairs of a join are compared; a derived table that is not merged gets one (measured:
        # 0.07 s for 6.0 s, 10.11). https://mariadb.com/kb/en/derived-table-with-key-optimization/
        "joined": "(SELECT * FROM {table} LIMIT 18446744073709551615)",
        # https://mariadb.com/docs/server/reference/sql-statements/data-definition/create/create-function
        "replace_function": "OR REPLACE ",
    },
)
