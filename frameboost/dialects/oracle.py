"""Oracle's dialect."""

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
    wide,
)

__all__ = ["ORACLE"]

ORACLE = Dialect(
    name="oracle",
    # No quote inside, and 128 bytes. https://docs.oracle.com/en/database/oracle/oracle-database/19/sqlrf/Database-Object-Names-and-Qualifiers.html
    # SQL*Plus replaces &variables. https://docs.oracle.com/en/database/oracle/oracle-database/19/sqpug/DEFINE.html
    names=Names(unnameable='\0"', longest=128, in_bytes=True, clients="&"),
    literals=Literals(
        # SQL*Plus replaces &variables. https://docs.oracle.com/en/database/oracle/oracle-database/19/sqpug/DEFINE.html
        escapes={"&": "' || CHR(38) || '", "\0": "' || CHR(0) || '"},
        # 19c has no Booleans. https://docs.oracle.com/en/database/oracle/oracle-database/23/sqlrf/Data-Types.html
        booleans=("0", "1"),
        # A number is NUMBER, which has no exponents beyond 125. https://docs.oracle.com/en/database/oracle/oracle-database/19/sqlrf/Literals.html
        double="CAST({v} AS BINARY_DOUBLE)",
        # In a string the decimal point is the session's, so it has none. https://docs.oracle.com/en/database/oracle/oracle-database/19/sqlrf/TO_BINARY_DOUBLE.html
        extreme="TO_BINARY_DOUBLE('{i}')",
        # https://docs.oracle.com/en/database/oracle/oracle-database/19/sqlrf/Literals.html
        infinity=("BINARY_DOUBLE_INFINITY", "-BINARY_DOUBLE_INFINITY"), nan="BINARY_DOUBLE_NAN",
        # NUMBER has 38 digits, a TIMESTAMP 9 of a second. https://docs.oracle.com/en/database/oracle/oracle-database/19/sqlrf/Data-Types.html
        integer_digits=38, digits=9,
    ),
    types=ColumnTypes(
        # https://docs.oracle.com/en/database/oracle/oracle-database/19/sqlrf/Data-Types.html
        columns={
            **dict.fromkeys(SIGNED_INTEGERS, "NUMBER(19)"), **wide("NUMBER(38)"), "float32": "BINARY_FLOAT",
            "float64": "BINARY_DOUBLE", "decimal": "NUMBER({p}, {s})", "boolean": "NUMBER(1)", "date": "DATE",
            "timestamp": "TIMESTAMP(9)", "timestamptz": "TIMESTAMP(9) WITH TIME ZONE", "string": "VARCHAR2(4000)",
        },
    ),
    expressions=Expressions(
        # https://docs.oracle.com/en/database/oracle/oracle-database/19/sqlrf/BITAND.html
        xor="({x} + {y} - 2 * BITAND({x}, {y}))",
        # https://docs.oracle.com/en/database/oracle/oracle-database/19/sqlrf/Floating-Point-Conditions.html
        is_number="{x} IS NOT NAN",
        # Whatever NLS_COMP, NLS_SORT and the collation of the column. https://docs.oracle.com/en/database/oracle/oracle-database/19/sqlrf/COLLATE-Operator.html
        text="{x} COLLATE BINARY",
        # 19c has no Boolean columns. https://docs.oracle.com/en/database/oracle/oracle-database/23/sqlrf/Data-Types.html
        is_true="{x} = 1", is_false="{x} = 0",
        # 1,000 expressions in 19c. https://docs.oracle.com/error-help/db/ora-01795
        longest_list=1000,
        # The format IW is a week from Monday. https://docs.oracle.com/en/database/oracle/oracle-database/19/sqlrf/ROUND-and-TRUNC-Date-Functions.html
        window_start=by_unit("TRUNC({x}, '{unit}')", hour="HH24", day="DD", week="IW", month="MM"),
        # https://docs.oracle.com/en/database/oracle/oracle-database/19/sqlrf/NUMTODSINTERVAL.html
        window_before={
            "hour": "{x} - NUMTODSINTERVAL({n}, 'HOUR')", "day": "{x} - NUMTODSINTERVAL({n}, 'DAY')",
            "week": "{x} - NUMTODSINTERVAL(7 * {n}, 'DAY')", "month": "ADD_MONTHS({x}, -{n})",
        },
    ),
    statements=Statements(
        histogram="grouping_sets", scratch_table=None,
        # https://docs.oracle.com/en/database/oracle/oracle-database/19/refrn/ALL_TAB_COLUMNS.html
        catalog=Catalog("ALL_TAB_COLUMNS", "TABLE_NAME", "OWNER", "SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA')",
                        "COLUMN_NAME", "DATA_TYPE", "COLLATION"),
        # https://docs.oracle.com/en/database/oracle/oracle-database/19/sqlrf/SELECT.html
        star="{table}.*", alias="", insert_row="SELECT {v} FROM DUAL",
        # ROW_NUMBER needs ORDER BY, ROWNUM doesn't. https://docs.oracle.com/en/database/oracle/oracle-database/19/sqlrf/ROW_NUMBER.html
        row_number="ROWNUM",
        # CTEs may be merged. https://docs.oracle.com/en/database/oracle/oracle-database/19/sqlrf/Comments.html
        fenced_stage="{name} AS (\nSELECT /*+ NO_MERGE */ {select}\n)",
        # https://docs.oracle.com/en/database/oracle/oracle-database/19/sqlrf/CREATE-INDEX.html
        create_index=INDEX,
    ),
    # 1,000 columns in a table; text and depth are our own caution. https://docs.oracle.com/en/database/oracle/oracle-database/19/refrn/logical-database-limits.html
    limits=Limits(text=2**20, depth=500, columns=1000),
)  # fmt: skip
