"""Spark's dialect, and Databricks', which is Spark's but for a few things."""

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

__all__ = ["DATABRICKS", "SPARK"]

SPARK = Dialect(
    name="spark",
    # Backticks, doubled inside; not case-sensitive. https://spark.apache.org/docs/latest/sql-ref-identifier.html
    # Variables are replaced everywhere (spark.sql.variable.substitute). https://spark.apache.org/docs/latest/configuration.html
    names=Names(quotes=("`", "`"), any_case=True, replaced=("${",)),
    literals=Literals(
        # A backslash is an escape unless spark.sql.parser.escapedStringLiterals, and before 4.0 two quotes are an end
        # and a beginning; so these are no part of a string. https://spark.apache.org/docs/latest/sql-ref-literals.html
        escapes={c: f"' || char({ord(c)}) || '" for c in "'\\\n\r\0"} | {"${": "$' || '{"},
        # As below, of literals.
        text="BINARY({v})",
        # With only a point a literal is DECIMAL. https://spark.apache.org/docs/latest/sql-ref-literals.html
        double="{v}D", integers=("{v}L", "{v}L"),
        # https://spark.apache.org/docs/latest/sql-ref-datatypes.html
        infinity=("DOUBLE('Infinity')", "DOUBLE('-Infinity')"), nan="DOUBLE('NaN')",
        # DECIMAL has at most 38 digits. https://spark.apache.org/docs/latest/sql-ref-datatypes.html
        integer_digits=38, wide_integer="CAST('{v}' AS DECIMAL(38, 0))", decimal="CAST('{v}' AS DECIMAL({p}, {s}))",
        # TIMESTAMP is one with the session's time zone. https://spark.apache.org/docs/latest/sql-ref-datatypes.html
        timestamp="TIMESTAMP_NTZ '{v}'",
    ),
    types=ColumnTypes(
        # https://spark.apache.org/docs/latest/sql-ref-datatypes.html
        columns={
            **SIGNED_INTEGERS, "int8": "TINYINT", "int32": "INT", **wide("DECIMAL(38, 0)"), "float32": "FLOAT",
            "float64": "DOUBLE", "decimal": "DECIMAL({p}, {s})", "boolean": "BOOLEAN", "date": "DATE",
            "timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP", "string": "STRING",
        },
    ),
    expressions=Expressions(
        # NaN is the greatest number. https://spark.apache.org/docs/latest/sql-ref-datatypes.html
        is_number="NOT isnan({x})",
        # Columns, views and literals in them may ignore case, bytes do not; COLLATE is of 4.0. https://spark.apache.org/docs/latest/sql-ref-collation.html
        text="BINARY({x})",
        # The parser takes longer the deeper parentheses nest (measured, 4).
        longest_sum=60,
        # What has a lambda is left to the interpreter (measured, 4). https://spark.apache.org/docs/latest/api/sql/index.html
        uncompiled="aggregate(array({x}), 0D, (zero, value) -> zero)",
        # https://spark.apache.org/docs/latest/api/sql/#if
        branch="IF({c}, {t}, {e})",
        # https://spark.apache.org/docs/latest/api/sql/index.html
        array="array({v})", lookup="array({v})[{i}]", first_index=0,
        # https://spark.apache.org/docs/latest/sql-ref-literals.html
        window_before=by_unit("{x} - INTERVAL {n} {unit}"),
    ),
    # A window needs ORDER BY. https://spark.apache.org/docs/latest/sql-ref-syntax-qry-select-window.html
    statements=Statements(
        # A cached view has the text of those that it was made of (measured, 4.3).
        histogram="unnest", scratch_table=None,
        # Tables are described by DESCRIBE alone. https://spark.apache.org/docs/latest/sql-ref-syntax-aux-describe-table.html
        catalog=None,
        row_number="ROW_NUMBER() OVER (ORDER BY 1)",
        # Of 4.0. https://spark.apache.org/docs/latest/sql-ref-syntax-ddl-create-sql-function.html
        create_function="CREATE {replace}FUNCTION {name}({parameters})\nRETURNS {returns}\nRETURN {value}",
        # SELECTs are a task each, 130 s for 260 rows (measured, 4.3).
        many_rows="SELECT * FROM VALUES\n{rows}",
    ),
    # No numbers in the documentation: our own caution (docs/vendors.md); but spark.sql.view.maxNestedViewDepth.
    limits=Limits(text=16 * 2**20, depth=500, views=100, elements=200_000),
)  # fmt: skip

DATABRICKS = SPARK.child(
    "databricks",
    # Parameters of the editor and of notebooks are replaced everywhere. https://docs.databricks.com/aws/en/sql/user/queries/query-parameters
    names={"replaced": ("${", "{{")},
    literals={"escapes": {**SPARK.literals.escapes, "$": "' || char(36) || '", "{{": "{' || '{"}},
    statements={
        # Of Unity Catalog. https://docs.databricks.com/aws/en/sql/language-manual/information-schema/columns
        "catalog": Catalog(),
        # https://docs.databricks.com/aws/en/sql/language-manual/sql-ref-syntax-qry-star
        "except_columns": "* EXCEPT ({v})",
        # OR REPLACE drops a view's privileges, ALTER keeps them. https://docs.databricks.com/aws/en/sql/language-manual/sql-ref-syntax-ddl-create-view
        "replace_view": ("CREATE VIEW IF NOT EXISTS {name} AS\n{query}", "ALTER VIEW {name} AS\n{query}"),
        # Keeps privileges. https://docs.databricks.com/aws/en/sql/language-manual/sql-ref-syntax-ddl-create-table-using
        "replace_table": "CREATE OR REPLACE TABLE {name} AS\n{query}",
    },
    # Of the statement API, whatever Spark's is taken to be. https://docs.databricks.com/api/workspace/statementexecution/executestatement
    limits={"text": 16 * 2**20},
)
