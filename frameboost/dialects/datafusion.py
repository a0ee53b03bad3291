"""DataFusion's dialect: close to PostgreSQL's, with Arrow's types and comparisons."""

from __future__ import annotations

from frameboost.dialects.dialect import PLAIN_STAGE, Catalog, wide
from frameboost.dialects.postgres import POSTGRES

__all__ = ["DATAFUSION"]

DATAFUSION = POSTGRES.child(
    "datafusion",
    # Any characters, and any number of them (measured, 55).
    names={"longest": None, "in_bytes": False, "unnameable": ""},
    literals={
        # Strings as in the standard (measured, 55).
        "escapes": {"\0": "' || chr(0) || '"}, "unheld": "",
        # A number with a point or an exponent is Float64 unless parse_float_as_decimal is on. https://docs.rs/datafusion-common/latest/datafusion_common/config/struct.SqlParserOptions.html
        "double": "{v}", "integers": ("{v}", "{v}"),
        # And so is an integer beyond 64 bits (measured, 55).
        "wide_integer": "CAST('{v}' AS NUMERIC(39, 0))", "decimal": "CAST('{v}' AS NUMERIC({p}, {s}))",
        # TIMESTAMP '…' has nanoseconds, so it ends in 2262, and no type has infinity (measured, 55).
        "timestamp": "CAST('{v}' AS TIMESTAMP(6))", "has_endless_dates": False,
        # Without a zone in the type it would be a time of the column's (measured, 55).
        "timestamptz": "arrow_cast('{v}+00:00', 'Timestamp(Microsecond, Some(\"UTC\"))')",
        # Durations are compared as intervals of 64-bit nanoseconds (measured, 55).
        "longest_interval": 2**63 // 1000,
    },
    types={
        # Measured, 55.
        "int8": "TINYINT", "uint8": "TINYINT UNSIGNED", "uint16": "SMALLINT UNSIGNED", "uint32": "INTEGER UNSIGNED",
        # Up to 76 digits (measured, 55).
        **wide("NUMERIC(39, 0)"), "uint64": "BIGINT UNSIGNED",
        # TIMESTAMP has nanoseconds, as above.
        "timestamp": "TIMESTAMP(6)", "timestamptz": "TIMESTAMP(6) WITH TIME ZONE",
    },
    expressions={
        # The positive NaN is the greatest number, and equals itself (measured, 55).
        "is_number": "NOT isnan({x})",
        # The negative one, which 0/0 is on x86, is the least (measured, 55).
        "real": "nanvl({x}, NULL)",
        # Decimals and floats have a decimal in common, which has no NaN (measured, 55).
        "double": "{x} * CAST(1 AS DOUBLE)",
        # Booleans are cast to numbers. A window distinguishes -0.0 from 0.0, GROUP BY does not (measured, 55).
        "number": "CAST({x} AS {t})",
        "part": "CASE WHEN arrow_typeof({x}) LIKE 'Float%' AND CAST({x} AS TEXT) = '-0.0' THEN '0.0' "
        "ELSE CAST({x} AS TEXT) END",
        # Overflow is infinity (measured, 55).
        "exp": "EXP({x})",
        # COLLATE is "not implemented" (measured, 55).
        "text": "{x}", "string": "{x}", "equal_texts": None, "bucket": None, "quantiles": None,
        # https://datafusion.apache.org/user-guide/sql/scalar_functions.html#signum
        "functions": {"SIGN": "SIGNUM"},
        # https://datafusion.apache.org/user-guide/sql/operators.html
        "mod": "({x} % {y})", "xor": "({x} ^ {y})",
    },
    statements={
        # Tables are those of the session. A table of the level takes a quarter of GROUPING SETS' time (measured, 55).
        "scratch_table": "CREATE TABLE {name} AS\n{query}", "histogram": "level_table",
        # Where it is switched on. https://datafusion.apache.org/user-guide/sql/information_schema.html
        "catalog": Catalog(schema="'public'"),
        # Partitions are read side by side (measured, 55).
        "keeps_order": False,
        # MATERIALIZED is not parsed (measured, 55).
        "fenced_stage": PLAIN_STAGE,
        # https://github.com/apache/datafusion/pull/6481
        "except_columns": "* EXCEPT ({v})",
        # "Unsupported logical plan: CreateIndex" (measured, 55).
        "create_index": None,
        # https://datafusion.apache.org/user-guide/sql/ddl.html
        "replace_table": "CREATE OR REPLACE TABLE {name} AS\n{query}", "transaction": None, "create_function": None,
    },
    limits={
        # 45 parentheses or CASEs nest, 49 do not (measured, 55): recursion_limit is 50. https://docs.rs/datafusion-common/latest/datafusion_common/config/struct.SqlParserOptions.html
        "text": None, "view": None, "depth": 45, "stages": 400, "columns": None,
    },
    parser="postgres",
)  # fmt: skip
