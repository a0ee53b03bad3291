"""SQL Server's dialect, and that of Microsoft Fabric."""

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
    wide,
)

__all__ = ["FABRIC", "TSQL"]

_MONDAY = "CAST('1900-01-01' AS DATETIME2(6))"

TSQL = Dialect(
    name="tsql",
    # 128 characters; case is the collation's. https://learn.microsoft.com/en-us/sql/relational-databases/databases/database-identifiers
    # sqlcmd replaces $(variables), and ends a batch at a line of GO. https://learn.microsoft.com/en-us/sql/tools/sqlcmd/sqlcmd-use-scripting-variables
    names=Names(quotes=("[", "]"), longest=128, any_case=True, clients=r"(?im)\$\(|^\s*GO\s*\d*\s*$"),
    literals=Literals(
        # '…' goes through the code page, N'…' doesn't. https://learn.microsoft.com/en-us/sql/t-sql/data-types/constants-transact-sql
        string_prefix="N",
        # A backslash before a line's end takes it away; as a number it stays. https://learn.microsoft.com/en-us/sql/t-sql/language-elements/sql-server-utilities-statements-backslash
        # sqlcmd replaces $(…). https://learn.microsoft.com/en-us/sql/tools/sqlcmd/sqlcmd-use-scripting-variables
        escapes={c: f"' + NCHAR({ord(c)}) + N'" for c in "\n\r\0"} | {"$(": "$' + N'("},
        # No literals of BIT. https://learn.microsoft.com/en-us/sql/t-sql/data-types/bit-transact-sql
        booleans=("CAST(0 AS BIT)", "CAST(1 AS BIT)"),
        # As below, of literals.
        text="CAST({v} AS VARBINARY(8000))",
        # With only a point it is decimal. https://learn.microsoft.com/en-us/sql/t-sql/data-types/constants-transact-sql
        double="{e}",
        # Not in FLOAT's range; a literal is read as 0. https://learn.microsoft.com/en-us/sql/t-sql/data-types/float-and-real-transact-sql
        has_subnormals=False,
        # DECIMAL has 38 digits. https://learn.microsoft.com/en-us/sql/t-sql/data-types/decimal-and-numeric-transact-sql
        integer_digits=38,
        # 7 digits; without the T the session's language has a say. https://learn.microsoft.com/en-us/sql/t-sql/data-types/datetime2-transact-sql
        date="CAST('{v}' AS DATE)", timestamp="CAST('{v}' AS DATETIME2(7))",
        timestamptz="CAST('{v}+00:00' AS DATETIMEOFFSET(7))", time_separator="T", digits=7,
    ),
    types=ColumnTypes(
        # https://learn.microsoft.com/en-us/sql/t-sql/data-types/data-types-transact-sql
        columns={
            **SIGNED_INTEGERS, "uint8": "TINYINT", **wide("DECIMAL(38, 0)"), "float32": "REAL", "float64": "FLOAT",
            "decimal": "DECIMAL({p}, {s})", "boolean": "BIT", "date": "DATE", "timestamp": "DATETIME2(7)",
            "timestamptz": "DATETIMEOFFSET(7)", "string": "NVARCHAR(4000)",
        },
    ),
    expressions=Expressions(
        # https://learn.microsoft.com/en-us/sql/t-sql/language-elements/modulo-transact-sql
        mod="({x} % {y})",
        # BIT is a number, no condition. https://learn.microsoft.com/en-us/sql/t-sql/language-elements/comparison-operators-transact-sql
        is_true="{x} = 1", is_false="{x} = 0",
        # Neither case nor blanks at the end count; of bytes they do. https://learn.microsoft.com/en-us/sql/t-sql/language-elements/string-comparison-assignment
        text="CAST(CAST({x} AS NVARCHAR(4000)) AS VARBINARY(8000))",
        # https://learn.microsoft.com/en-us/sql/t-sql/functions/log-transact-sql
        # COUNT is of 32 bits. https://learn.microsoft.com/en-us/sql/t-sql/functions/count-transact-sql
        functions={"LN": "LOG", "COUNT": "COUNT_BIG"},
        # Overflow is an error. https://learn.microsoft.com/en-us/sql/t-sql/statements/set-arithabort-transact-sql
        exp=guarded_exp("709e0", "-708e0"),
        # CURRENT_TIMESTAMP is a local time. https://learn.microsoft.com/en-us/sql/t-sql/functions/sysutcdatetime-transact-sql
        now="SYSUTCDATETIME()",
        # 1 January 1900 was a Monday. https://learn.microsoft.com/en-us/sql/t-sql/functions/datediff-transact-sql
        window_start={
            **by_unit(f"DATEADD({{unit}}, DATEDIFF({{unit}}, {_MONDAY}, {{x}}), {_MONDAY})"),
            "week": f"DATEADD(day, DATEDIFF(day, {_MONDAY}, {{x}}) / 7 * 7, {_MONDAY})",
        },
        window_before=by_unit("DATEADD({unit}, -{n}, {x})"),
    ),
    statements=Statements(
        # https://learn.microsoft.com/en-us/sql/t-sql/queries/select-group-by-transact-sql
        histogram="grouping_sets", most_sets=32, scratch_table=None,
        # https://learn.microsoft.com/en-us/sql/relational-databases/system-information-schema-views/columns-transact-sql
        catalog=Catalog("{above}INFORMATION_SCHEMA.COLUMNS", "TABLE_NAME", "TABLE_SCHEMA", "SCHEMA_NAME()",
                        "COLUMN_NAME", "DATA_TYPE", "COLLATION_NAME"),
        # COUNT and SUM of integers are int. https://learn.microsoft.com/en-us/sql/t-sql/functions/count-big-transact-sql
        count=("COUNT_BIG(*)", "SUM(CAST(CASE WHEN {c} THEN 1 ELSE 0 END AS BIGINT))"),
        # ORDER BY is required. https://learn.microsoft.com/en-us/sql/t-sql/functions/row-number-transact-sql
        row_number="ROW_NUMBER() OVER (ORDER BY (SELECT NULL))",
        # CTEs are merged, TOP is the usual fence. https://dba.stackexchange.com/questions/221555/what-rules-determine-when-sql-server-use-a-cte-as-an-optimization-fence
        fenced_stage="{name} AS (\nSELECT TOP (9223372036854775807) {select}\n)",
        # https://learn.microsoft.com/en-us/sql/t-sql/statements/create-index-transact-sql
        create_index=INDEX,
        # No CREATE TABLE AS. https://learn.microsoft.com/en-us/sql/t-sql/queries/select-into-clause-transact-sql
        selects_into=True,
        # https://learn.microsoft.com/en-us/sql/t-sql/queries/with-common-table-expression-transact-sql
        insert_before_stages=False,
        # Keeps permissions. https://learn.microsoft.com/en-us/sql/t-sql/statements/create-view-transact-sql
        replace_view=("CREATE OR ALTER VIEW {name} AS\n{query}",),
        # Names of parameters are no quoted names. https://learn.microsoft.com/en-us/sql/t-sql/statements/create-function-transact-sql
        create_function="CREATE {replace}FUNCTION {name}({parameters})\nRETURNS {returns}\nWITH SCHEMABINDING\nAS\n"
        "BEGIN\nRETURN {value}\nEND",
        parameter=("@p{n} {type}", "@p{n}"), replace_function="OR ALTER ",
        # Some errors end a statement only, unless XACT_ABORT. https://learn.microsoft.com/en-us/sql/t-sql/statements/set-xact-abort-transact-sql
        transaction=("SET XACT_ABORT ON; BEGIN TRANSACTION", "COMMIT TRANSACTION"),
        # CREATE VIEW must be the only statement of a batch. https://learn.microsoft.com/en-us/sql/t-sql/language-elements/sql-server-utilities-statements-go
        batch_end="GO",
    ),
    limits=Limits(
        # 65,536 packets of 4 KB; columns of a SELECT. https://learn.microsoft.com/en-us/sql/sql-server/maximum-capacity-specifications-for-sql-server
        text=256 * 2**20, columns=4096,
        # No number in the documentation: our own caution.
        depth=500,
        # https://learn.microsoft.com/en-us/sql/t-sql/language-elements/case-transact-sql
        case_depth=10,
        # https://learn.microsoft.com/en-us/sql/relational-databases/errors-events/mssqlserver-8632-database-engine-error
        terms=65_535,
        # https://learn.microsoft.com/en-us/sql/t-sql/statements/create-view-transact-sql
        views=32,
    ),
)  # fmt: skip

FABRIC = TSQL.child(
    "fabric",
    # https://learn.microsoft.com/en-us/fabric/data-warehouse/tables
    names={"any_case": False},
    literals={
        # Strings are UTF-8, in both collations, so bytes compare as they are. https://learn.microsoft.com/en-us/fabric/data-warehouse/collation
        "string_prefix": "", "escapes": {c: f"' + CHAR({ord(c)}) + '" for c in "\n\r\0"} | {"$(": "$' + '("},
        # No DATETIMEOFFSET, and 6 digits of a second. https://learn.microsoft.com/en-us/fabric/data-warehouse/data-types
        "timestamp": "CAST('{v}' AS DATETIME2(6))", "timestamptz": "CAST('{v}' AS DATETIME2(6))", "digits": 6,
    },
    types={
        # No TINYINT, NVARCHAR or DATETIMEOFFSET. https://learn.microsoft.com/en-us/fabric/data-warehouse/data-types
        "uint8": "SMALLINT", "timestamp": "DATETIME2(6)", "timestamptz": "DATETIME2(6)", "string": "VARCHAR(8000)",
    },
    # https://learn.microsoft.com/en-us/fabric/data-warehouse/collation
    expressions={"text": "CAST({x} AS VARBINARY(8000))", "now": "CAST(SYSUTCDATETIME() AS DATETIME2(6))"},
    # CREATE TABLE AS, and no indexes. https://learn.microsoft.com/en-us/fabric/data-warehouse/tables
    # Tables may be made in a transaction, of views nothing is said. https://learn.microsoft.com/en-us/fabric/data-warehouse/transactions
    statements={"selects_into": False, "create_index": None, "transaction": None, "create_function": None},
    # 1,024 columns in a table; the text is our own caution. https://learn.microsoft.com/en-us/fabric/data-warehouse/tables
    limits={"text": 16 * 2**20, "columns": 1024},
)  # fmt: skip
