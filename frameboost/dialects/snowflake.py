"""Snowflake's dialect."""

from __future__ import annotations

from frameboost.dialects.dialect import (
    BACKSLASH_ESCAPES,
    SIGNED_INTEGERS,
    Catalog,
    ColumnTypes,
    Dialect,
    Expressions,
    Limits,
    Literals,
    Names,
    Statements,
    guarded_exp,
    wide,
)

__all__ = ["SNOWFLAKE"]

SNOWFLAKE = Dialect(
    name="snowflake",
    # 255 characters. https://docs.snowflake.com/en/sql-reference/identifiers-syntax
    names=Names(longest=255),
    literals=Literals(
        # A backslash is an escape. https://docs.snowflake.com/en/sql-reference/data-types-text
        # Its clients replace &variables and <% templates %>. https://docs.snowflake.com/en/developer-guide/snowflake-cli/sql/execute-sql
        escapes={**BACKSLASH_ESCAPES, "\0": "\\x00", "&": "\\x26", "<%": "\\x3C%"},
        # Which literals are FLOAT is not said of all, of a cast there is no doubt. https://docs.snowflake.com/en/sql-reference/data-types-numeric
        double="'{v}'::FLOAT", infinity=("'inf'::FLOAT", "'-inf'::FLOAT"), nan="'NaN'::FLOAT",
        # NUMBER has 38 digits. https://docs.snowflake.com/en/sql-reference/data-types-numeric
        integers=("{v}", "{v}"), integer_digits=38,
        # Without a format the session's settings have a say. https://docs.snowflake.com/en/sql-reference/date-time-input-output
        date="TO_DATE('{v}', 'YYYY-MM-DD')",
        timestamp="TO_TIMESTAMP_NTZ('{v}', 'YYYY-MM-DD HH24:MI:SS.FF9')",
        timestamptz="TO_TIMESTAMP_TZ('{v} +00:00', 'YYYY-MM-DD HH24:MI:SS.FF9 TZH:TZM')",
        has_whole_fractions=True, digits=9,
    ),
    types=ColumnTypes(
        # https://docs.snowflake.com/en/sql-reference/intro-summary-data-types
        columns={
            **dict.fromkeys(SIGNED_INTEGERS, "NUMBER(38, 0)"), **wide("NUMBER(38, 0)"), "float32": "FLOAT",
            "float64": "FLOAT", "decimal": "NUMBER({p}, {s})", "boolean": "BOOLEAN", "date": "DATE",
            "timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP_TZ", "string": "VARCHAR",
        },
    ),
    expressions=Expressions(
        # https://docs.snowflake.com/en/sql-reference/functions/bitxor
        xor="BITXOR({x}, {y})",
        # NaN is the greatest number. https://docs.snowflake.com/en/sql-reference/data-types-numeric
        is_number="{x} <= 'inf'::FLOAT",
        # By Unicode, whatever the collation of the column. https://docs.snowflake.com/en/sql-reference/functions/collate
        text="COLLATE({x}, 'utf8')",
        # Whether FLOAT is among the numbers that Booleans are cast to is not said. https://docs.snowflake.com/en/sql-reference/data-types-logical
        number=None,
        # An error named 16,384 values for years. https://docs.snowflake.com/en/sql-reference/functions/in
        longest_list=16_384,
        # Overflow is not documented, so it is avoided. https://docs.snowflake.com/en/sql-reference/functions/exp
        exp=guarded_exp("709", "-708"),
        # https://docs.snowflake.com/en/sql-reference/functions/iff
        branch="IFF({c}, {t}, {e})",
        # https://docs.snowflake.com/en/sql-reference/functions/array_construct
        array="ARRAY_CONSTRUCT({v})", lookup="ARRAY_CONSTRUCT({v})[{i}]::FLOAT", first_index=0,
    ),
    statements=Statements(
        # https://docs.snowflake.com/en/sql-reference/constructs/group-by-grouping-sets
        histogram="grouping_sets", most_sets=128,
        # https://docs.snowflake.com/en/sql-reference/info-schema/columns
        catalog=Catalog(collation="collation_name"),
        # https://docs.snowflake.com/en/sql-reference/sql/select
        except_columns="* EXCLUDE ({v})",
        # ORDER BY is not optional. https://docs.snowflake.com/en/sql-reference/functions/row_number
        row_number="ROW_NUMBER() OVER (ORDER BY 1)",
        # VALUES takes constants, and few functions of them. https://docs.snowflake.com/en/sql-reference/constructs/values
        insert_row="SELECT {v}",
        # https://docs.snowflake.com/en/sql-reference/sql/create-view
        replace_view=("CREATE OR REPLACE VIEW {name} COPY GRANTS AS\n{query}",),
        # https://docs.snowflake.com/en/sql-reference/sql/create-function
        create_function="CREATE {replace}FUNCTION {name}({parameters})\nRETURNS {returns}\nIMMUTABLE\nAS {text}",
        # https://docs.snowflake.com/en/sql-reference/sql/create-table
        replace_table="CREATE OR REPLACE TABLE {name} COPY GRANTS AS\n{query}",
    ),
    limits=Limits(
        # 1 MB recommended. https://docs.snowflake.com/en/user-guide/query-size-limits
        text=10**6,
        # 95 KB. https://docs.snowflake.com/en/sql-reference/sql/create-view
        view=95_000,
        # No number in the documentation: our own caution.
        depth=500,
    ),
)  # fmt: skip
