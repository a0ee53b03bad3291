"""Trino's dialect, and those of Presto, from which it was forked, and of Athena, which is built on both."""

from __future__ import annotations

from frameboost.dialects.dialect import (
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

__all__ = ["ATHENA", "PRESTO", "TRINO"]

TRINO = Dialect(
    name="trino",
    # Not case-sensitive. https://trino.io/docs/current/language/reserved.html
    names=Names(any_case=True),
    literals=Literals(
        # https://trino.io/docs/current/functions/string.html
        escapes={"\0": "' || chr(0) || '"},
        # 1.1 is DECIMAL. https://trino.io/docs/current/language/types.html
        double="{e}", integers=("{v}", "BIGINT '{v}'"),
        # https://trino.io/docs/current/functions/math.html
        infinity=("infinity()", "-infinity()"), nan="nan()",
        # At most 38 digits. https://trino.io/docs/current/language/types.html
        integer_digits=38, wide_integer="DECIMAL '{v}'", decimal="DECIMAL '{v}'",
        # https://trino.io/docs/current/language/types.html
        timestamptz="TIMESTAMP '{v} UTC'",
    ),
    types=ColumnTypes(
        # https://trino.io/docs/current/language/types.html
        columns={
            **SIGNED_INTEGERS, "int8": "TINYINT", **wide("DECIMAL(38, 0)"), "float32": "REAL", "float64": "DOUBLE",
            "decimal": "DECIMAL({p}, {s})", "boolean": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMP(6)",
            "timestamptz": "TIMESTAMP(6) WITH TIME ZONE", "string": "VARCHAR",
        },
    ),
    expressions=Expressions(
        # https://trino.io/docs/current/functions/bitwise.html
        xor="BITWISE_XOR({x}, {y})",
        # https://trino.io/docs/current/functions/math.html
        is_number="NOT is_nan({x})",
        # https://trino.io/docs/current/functions/conditional.html#if
        branch="IF({c}, {t}, {e})",
        # https://trino.io/docs/current/functions/array.html
        array="ARRAY[{v}]", lookup="ARRAY[{v}][{i}]",
        # In versions before 446, and in Presto. https://github.com/trinodb/trino/issues/16033
        longest_lookup=254,
        # https://trino.io/docs/current/functions/datetime.html
        window_before=by_unit("DATE_ADD('{unit}', -{n}, {x})"),
        # Hive's tables and Athena's views have no times with a zone. https://trino.io/docs/current/connector/hive.html
        now="CAST(CURRENT_TIMESTAMP AT TIME ZONE 'UTC' AS TIMESTAMP)",
    ),
    statements=Statements(
        histogram="grouping_sets", scratch_table=None,
        # https://trino.io/docs/current/functions/session.html
        catalog=Catalog(schema="current_schema"),
        # Projections are pushed through unions. https://trino.io/docs/current/sql/values.html
        many_rows="SELECT * FROM (VALUES\n{rows})",
        # In Iceberg, Delta Lake and memory. https://trino.io/docs/current/sql/create-table-as.html
        replace_table="CREATE OR REPLACE TABLE {name} AS\n{query}",
        # In Hive and memory. https://trino.io/docs/current/sql/create-function.html
        create_function="CREATE {replace}FUNCTION {name}({parameters})\nRETURNS {returns}\nRETURN {value}",
    ),
    # query.max-length; depth is our own caution. https://trino.io/docs/current/admin/properties-query-management.html
    limits=Limits(text=10**6, depth=500),
)  # fmt: skip

PRESTO = TRINO.child(
    "presto",
    # Times have milliseconds, and without a zone they are the session's. https://prestodb.io/docs/current/language/types.html
    literals={"digits": 3},
    types={"timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMP WITH TIME ZONE"},
    # https://prestodb.io/docs/current/sql/create-table-as.html
    statements={"replace_table": None, "create_function": None, "catalog": Catalog(schema=None)},
)

ATHENA = TRINO.child(
    "athena",
    # 255 bytes in Glue. https://docs.aws.amazon.com/athena/latest/ug/tables-databases-columns-names.html
    names={"longest": 255, "in_bytes": True},
    # A table is made with a path in S3. https://docs.aws.amazon.com/athena/latest/ug/ctas-considerations-limitations.html
    statements={
        "define_table": None,
        "replace_table": None,
        "create_function": None,
        "catalog": Catalog(schema=None),
    },
    limits={
        # https://docs.aws.amazon.com/athena/latest/ug/service-limits.html
        "text": 262_144,
        # Glue's 409,600 bytes are JSON (a quarter more) in base64 (4 bytes for 3). https://docs.aws.amazon.com/glue/latest/webapi/API_TableInput.html
        "view": 409_600 * 3 // 4 * 3 // 4,
    },
)
