"""PostgreSQL's dialect, and Redshift's, which began as PostgreSQL 8."""

from __future__ import annotations

from frameboost.dialects.dialect import (
    INDEX,
    MATERIALIZED,
    PLAIN_STAGE,
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

__all__ = ["POSTGRES", "REDSHIFT"]

POSTGRES = Dialect(
    name="postgres",
    # 63 bytes. https://www.postgresql.org/docs/current/limits.html
    names=Names(longest=63, in_bytes=True),
    literals=Literals(
        # A backslash is an escape where standard_conforming_strings is off, and E'…' has it as one. https://www.postgresql.org/docs/current/runtime-config-compatible.html
        escapes={"\\": "' || chr(92) || '"},
        # https://www.postgresql.org/docs/current/datatype-character.html
        unheld="\0",
        # A number with a point or an exponent is numeric at first. https://www.postgresql.org/docs/current/sql-syntax-lexical.html
        double="{v}::float8", integers=("{v}", "{v}::int8"),
        # https://www.postgresql.org/docs/current/datatype-numeric.html
        infinity=("'Infinity'::float8", "'-Infinity'::float8"), nan="'NaN'::float8",
        # Dates and timestamps may be infinity. https://www.postgresql.org/docs/current/datatype-datetime.html
        timestamptz="TIMESTAMPTZ '{v}+00:00'",
        has_endless_dates=True,
        interval="INTERVAL '{v} microseconds'",
    ),
    types=ColumnTypes(
        # https://www.postgresql.org/docs/current/datatype.html
        columns={
            **SIGNED_INTEGERS, **wide("NUMERIC"), "float32": "REAL", "float64": "DOUBLE PRECISION",
            "decimal": "NUMERIC({p}, {s})", "boolean": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMP",
            "timestamptz": "TIMESTAMPTZ", "duration": "INTERVAL", "string": "TEXT",
        },
    ),
    expressions=Expressions(
        # NULL is not true, and NaN is the greatest number. https://www.postgresql.org/docs/current/datatype-numeric.html
        is_number="{x} <= 'Infinity'::float8",
        # Overflow is an error (measured, 16). https://www.postgresql.org/docs/current/functions-math.html
        exp=guarded_exp("709::float8", "-708::float8"),
        # Whatever the collation of the column, citext or an enum. https://www.postgresql.org/docs/current/collation.html
        text='{x}::text COLLATE "C"',
        # The database's default collation is deterministic, so it compares by bytes, and most indexes have it.
        equal_texts='{x}::text COLLATE "default" = {y}::text',
        # An enum takes its values only, and a text keeps the collation. https://www.postgresql.org/docs/current/datatype-enum.html
        string="{x}::text",
        # Booleans are cast to integers and text only; the text of a real is short. https://www.postgresql.org/docs/current/datatype-numeric.html
        number="CASE WHEN {x}::text = 'true' THEN 1::float8 WHEN {x}::text = 'false' THEN 0::float8 "
        "WHEN pg_typeof({x}) = 'real'::regtype THEN {x}::text::real::float8 ELSE {x}::text::float8 END",
        # https://www.postgresql.org/docs/current/arrays.html
        array="ARRAY[{v}]", lookup="(ARRAY[{v}])[{i}]",
        # https://www.postgresql.org/docs/current/functions-math.html
        xor="({x} # {y})", bucket="WIDTH_BUCKET({x}, ARRAY[{v}])",
        # https://www.postgresql.org/docs/current/functions-aggregate.html
        quantiles="UNNEST(PERCENTILE_DISC(ARRAY[{v}]) WITHIN GROUP (ORDER BY {x} ASC))",
    ),
    statements=Statements(
        # Of 2 to 16 nodes GROUPING SETS take twice as long as a fenced stage, and of one half as long (measured, 16).
        histogram="sets_of_a_node",
        # information_schema has no materialized views, and a name may be that of a temporary table, or of any schema on
        # the search path. https://www.postgresql.org/docs/current/functions-info.html
        catalog=Catalog(
            "pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid "
            "LEFT JOIN pg_catalog.pg_collation AS c ON c.oid = a.attcollation\nWHERE a.attrelid = to_regclass({path}) "
            "AND a.attnum > 0 AND NOT a.attisdropped AND has_column_privilege(a.attrelid, a.attnum, 'SELECT')",
            table="", of_schema="", name="a.attname", collation="NULLIF(c.collname, 'default')",
            type="CASE WHEN t.typtype = 'e' THEN 'enum ' || t.typname WHEN t.typcategory = 'A' THEN 'ARRAY' "
            "ELSE format_type(COALESCE(NULLIF(t.typbasetype, 0), t.oid), NULL) END",
        ),
        keeps_order=True,
        # A CTE is folded into the query since 12 unless MATERIALIZED. https://www.postgresql.org/docs/current/queries-with.html
        fenced_stage=MATERIALIZED,
        # json, xml and points can't be grouped by. https://www.postgresql.org/docs/current/functions-json.html
        value_of_group="(array_agg({x}) FILTER (WHERE {c}))[1]",
        # https://www.postgresql.org/docs/current/sql-createindex.html
        create_index=INDEX,
        # A replaced view keeps its grants and dependants; columns may be added after the existing ones. https://www.postgresql.org/docs/current/sql-createview.html
        transaction=("BEGIN", "COMMIT"),
        # RETURN is of 14. https://www.postgresql.org/docs/current/sql-createfunction.html
        create_function="CREATE {replace}FUNCTION {name}({parameters})\nRETURNS {returns}\n"
        "LANGUAGE sql IMMUTABLE PARALLEL SAFE\nRETURN {value}",
    ),
    limits=Limits(
        # No number in the documentation: our own caution, of text and depth (docs/vendors.md).
        text=256 * 2**20, view=32 * 2**20, depth=1000,
        # 200 joins of one CTE to the next take 8 s (measured, 16).
        stages=200,
        # https://www.postgresql.org/docs/current/limits.html
        columns=1664,
    ),
)  # fmt: skip

REDSHIFT = POSTGRES.child(
    "redshift",
    names={
        # 127 bytes of printable characters; folded to lower case. https://docs.aws.amazon.com/redshift/latest/dg/r_names.html
        "longest": 127, "unnameable": "".join(map(chr, [*range(32), 127])), "any_case": True,
    },
    literals={
        # QUOTE_LITERAL doubles backslashes. https://docs.aws.amazon.com/redshift/latest/dg/r_QUOTE_LITERAL.html
        "escapes": {"\\": "\\\\"},
        # The type of a literal is not said. https://docs.aws.amazon.com/redshift/latest/dg/r_numeric_literals201.html
        "double": "'{v}'::float8", "integers": None,
        # 2.33125e-315 is "out of range for type double precision". https://gist.github.com/tejasmanohar/936401a48c146e0026c5ccdb16b1ecd7
        "has_subnormals": False,
        # At most 38 digits. https://docs.aws.amazon.com/redshift/latest/dg/r_numeric_computations201.html
        "integer_digits": 38,
        # No infinity is listed, and durations are integers. https://docs.aws.amazon.com/redshift/latest/dg/r_Datetime_types.html
        "has_endless_dates": False, "interval": None,
        # As below, of literals.
        "text": "({v} || '.')",
    },
    types={
        # https://docs.aws.amazon.com/redshift/latest/dg/c_Supported_data_types.html
        **wide("NUMERIC(38, 0)"), "duration": None, "string": "VARCHAR(65535)",
    },
    expressions={
        # Blanks at the end don't count, with something behind them they do. https://docs.aws.amazon.com/redshift/latest/dg/r_Character_types.html
        # A column or a database may ignore case. https://docs.aws.amazon.com/redshift/latest/dg/r_COLLATE.html
        "text": "COLLATE({x} || '.', 'case_sensitive')",
        "text_is_value": False, "equal_texts": None,
        # No cast of Booleans to text is documented. https://docs.aws.amazon.com/redshift/latest/dg/r_Boolean_type.html
        "number": None,
        # No arrays in columns. https://docs.aws.amazon.com/redshift/latest/dg/c_unsupported-postgresql-datatypes.html
        "array": None, "lookup": None, "bucket": None, "quantiles": None,
        # https://docs.aws.amazon.com/redshift/latest/dg/r_DATEADD_function.html
        "window_before": by_unit("DATEADD({unit}, -{n}, {x})"),
        # UTC; CURRENT_TIMESTAMP is of the leader node only. https://docs.aws.amazon.com/redshift/latest/dg/r_GETDATE.html
        "now": "GETDATE()",
    },
    statements={
        "histogram": "grouping_sets",
        # https://docs.aws.amazon.com/redshift/latest/dg/r_CURRENT_SCHEMA.html
        "catalog": Catalog(collation="collation_name"),
        # No keyword against folding a CTE is documented. https://docs.aws.amazon.com/redshift/latest/dg/r_WITH_clause.html
        "fenced_stage": PLAIN_STAGE,
        # No indexes. https://docs.aws.amazon.com/redshift/latest/dg/c_unsupported-postgresql-features.html
        "create_index": None, "keeps_order": False, "value_of_group": None,
        # Parameters are numbers, 32 at most, in a text between dollars. https://docs.aws.amazon.com/redshift/latest/dg/r_CREATE_FUNCTION.html
        "create_function": None,
    },
    limits={
        # 16 MB for one statement. https://docs.aws.amazon.com/redshift/latest/dg/c_redshift-sql.html
        "text": 16 * 10**6, "view": None, "depth": 500, "stages": None,
        # Of a table. https://docs.aws.amazon.com/redshift/latest/dg/r_CREATE_TABLE_NEW.html
        "columns": 1600,
    },
)  # fmt: skip
