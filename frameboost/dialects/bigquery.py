"""BigQuery's dialect."""

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
    by_unit,
    guarded_exp,
    wide,
)

__all__ = ["BIGQUERY"]

BIGQUERY = Dialect(
    name="bigquery",
    names=Names(
        # Backticks, with the escapes of strings. https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/lexical
        quotes=("`", "`"), escapes={"\\": "\\\\"},
        # 300 characters, except these; names that differ only in case are duplicates. https://docs.cloud.google.com/bigquery/docs/schemas
        unnameable="\0!\"$()*,./;?@[\\]^`{}~\n\r\t", longest=300, any_case=True,
    ),
    literals=Literals(
        # A backslash is an escape; no line ends in '…'. https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/lexical
        # Dataform replaces ${…}. https://docs.cloud.google.com/dataform/docs/javascript-in-dataform
        escapes={**BACKSLASH_ESCAPES, "'": "\\'", "\0": "\\000", "${": "\\x24{"},
        # https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/lexical
        infinity=("CAST('inf' AS FLOAT64)", "CAST('-inf' AS FLOAT64)"), nan="CAST('nan' AS FLOAT64)",
        # https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/data-types
        integers=("{v}", "{v}"),
        # BIGNUMERIC has 38 digits before the point. https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/data-types
        integer_digits=38, wide_integer="BIGNUMERIC '{v}'", decimal="BIGNUMERIC '{v}'",
        # DATETIME has no time zone, TIMESTAMP has. https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/data-types
        timestamp="DATETIME '{v}'",
    ),
    types=ColumnTypes(
        # https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/data-types
        columns={
            **dict.fromkeys(SIGNED_INTEGERS, "INT64"), **wide("BIGNUMERIC"), "float32": "FLOAT64",
            "float64": "FLOAT64", "decimal": "BIGNUMERIC", "boolean": "BOOL", "date": "DATE", "timestamp": "DATETIME",
            "timestamptz": "TIMESTAMP", "string": "STRING",
        },
    ),
    expressions=Expressions(
        # Comparisons with NaN are FALSE. https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/mathematical_functions
        is_number="NOT IS_NAN({x})",
        # Without the collation of the column. https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/string_functions
        text="COLLATE({x}, '')",
        # Overflow is an error. https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/mathematical_functions
        exp=guarded_exp("709.0", "-708.0"),
        # BOOL is cast to INT64 and STRING only. https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/conversion_rules
        number=None,
        # https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/conditional_expressions#if
        branch="IF({c}, {t}, {e})",
        # https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/data-types
        array="[{v}]", lookup="[{v}][OFFSET({i})]", first_index=0,
        # https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/datetime_functions
        window_start=by_unit("DATETIME_TRUNC({x}, {unit})", hour="HOUR", day="DAY", week="ISOWEEK", month="MONTH"),
        window_before=by_unit("DATETIME_SUB({x}, INTERVAL {n} {unit})"),
    ),
    statements=Statements(
        histogram="grouping_sets", scratch_table=None,
        # https://docs.cloud.google.com/bigquery/docs/information-schema-columns
        catalog=Catalog("{above}INFORMATION_SCHEMA.COLUMNS", of_schema="", schema=None, collation="collation_name"),
        # https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/query-syntax
        except_columns="* EXCEPT ({v})",
        # JSON and ARRAY can't be grouped by. https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/data-types
        value_of_group="ANY_VALUE({x})",
        # https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/dml-syntax
        update_needs_where=True,
        # https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/data-definition-language#create_function_statement
        create_function="CREATE {replace}FUNCTION {name}({parameters})\nRETURNS {returns}\nAS (\n{value}\n)",
        # No DDL of permanent tables in a transaction. https://docs.cloud.google.com/bigquery/docs/transactions
        replace_table="CREATE OR REPLACE TABLE {name} AS\n{query}",
    ),
    # 1 MB of query, 256 K characters of view, 15 views in a query, 10,000 columns; depth is our own caution. https://docs.cloud.google.com/bigquery/quotas
    limits=Limits(text=10**6, view=256_000, depth=500, views=15, columns=10_000),
)  # fmt: skip
