"""DuckDB's dialect, which training uses as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from frameboost.dialects.dialect import (
    Catalog,
    ColumnTypes,
    Dialect,
    Expressions,
    Limits,
    Literals,
    Names,
    OutOfRange,
    Statements,
)
from frameboost.expressions.duckdb_sql import EXACT_TEXT, IS_NUMBER, literal
from frameboost.expressions.expression import DUCKDB_WRITER
from frameboost.schema.types import DUCKDB_TYPES, FeatureType, Physical

__all__ = ["DUCKDB"]


@dataclass(frozen=True)
class _DuckDB(Dialect):
    """Literals and functions as in training; DuckDB has a type for each feature type."""

    def literal(self, kind: FeatureType, value: Physical) -> str | OutOfRange:
        return literal(kind.values, value)

    def is_exact(self, kind: FeatureType, value: Physical) -> bool:
        return kind.family in ("timestamp", "timestamptz") or super().is_exact(kind, value)  # also of nanoseconds

    def number(self, value: float) -> str:
        return DUCKDB_WRITER.number(value)

    def call(self, function: str, arguments: Sequence[str]) -> str:
        return DUCKDB_WRITER.call(function, arguments)


DUCKDB = _DuckDB(
    name="duckdb",
    names=Names(
        # Any character but the quote, which is doubled. https://duckdb.org/docs/stable/sql/dialect/keywords_and_identifiers
        unnameable="",
        # Not case-sensitive, quoted or not. https://duckdb.org/docs/stable/sql/dialect/keywords_and_identifiers
        any_case=True,
    ),
    literals=Literals(
        # 'inf' and '-inf' in quotes, in any case. https://duckdb.org/docs/stable/sql/data_types/numeric
        infinity=("CAST('Infinity' AS DOUBLE)", "CAST('-Infinity' AS DOUBLE)"), nan="CAST('NaN' AS DOUBLE)",
        # Floats: without an exponent a number with a point is a DECIMAL.
        integers=("{v}e0", "{v}e0"), short_integer="{v}e0",
        # An INTERVAL, made of microseconds. https://duckdb.org/docs/stable/sql/functions/interval
        interval="to_microseconds({v})",
    ),
    # https://duckdb.org/docs/stable/sql/data_types/overview
    types=ColumnTypes(columns=DUCKDB_TYPES),
    expressions=Expressions(
        # https://duckdb.org/docs/current/sql/functions/bitstring
        xor="xor({x}, {y})",
        # Statistics of files leave NaN out, and comparisons are folded by them. https://github.com/duckdb/duckdb/issues/25521
        is_number=IS_NUMBER,
        # Nor is a comparison folded with what may be NULL besides (measured, 2.0.1).
        real="nullif({x}, 'NaN'::FLOAT)",
        # Whatever the collation of the column. https://duckdb.org/docs/stable/sql/expressions/collations
        text=EXACT_TEXT,
        # Every IN becomes a join (measured, 2.0.0), and the joins of all splits take time quadratic in their number.
        longest_list=0,
        # Measured, 2.0.0 (docs/performance.md).
        case_skips_unmet_whens=True,
        # https://duckdb.org/docs/stable/sql/data_types/list
        array="[{v}]",
        # Items are counted from 1. https://duckdb.org/docs/stable/sql/data_types/list
        lookup="[{v}][{i}]",
        # https://duckdb.org/docs/stable/sql/data_types/struct
        struct="{{{v}}}",
        # https://duckdb.org/docs/stable/sql/functions/lambda
        lambda_="list_transform({x}, lambda m: {value})[1]",
    ),
    statements=Statements(
        # Up to 12 bits, by statistics: perfect_ht_threshold. https://duckdb.org/docs/stable/configuration/overview
        histogram="grouping_sets", most_keys=2**12 - 3,
        # information_schema has the tables of all databases, and those of the schema main of another one are named by
        # the database. https://duckdb.org/docs/stable/sql/meta/duckdb_table_functions
        catalog=Catalog(
            "duckdb_columns()", of_both=("database_name", "schema_name"),
            of_schema="CASE WHEN database_name IN (current_database(), 'temp') THEN schema_name "
            "WHEN schema_name = 'main' THEN database_name END",
        ),
        # https://duckdb.org/docs/stable/sql/expressions/star
        except_columns="* EXCLUDE ({v})",
        # https://duckdb.org/docs/stable/sql/expressions/star
        except_unknown="COLUMNS(lambda c: lower(c) NOT IN ({strings}))",
        # 0.08 s for 260 rows, 3.1 s as SELECTs (measured, 2.0.1).
        many_rows="SELECT * FROM (VALUES\n{rows})",
        # Insertion order is preserved. https://duckdb.org/docs/stable/sql/dialect/order_preservation
        keeps_order=True,
        # https://duckdb.org/docs/stable/sql/statements/create_table
        replace_table="CREATE OR REPLACE TABLE {name} AS\n{query}",
        # Without types. https://duckdb.org/docs/stable/sql/statements/create_macro
        create_function="CREATE {replace}MACRO {name}({parameters}) AS\n{value}", parameter=("{name}", "{name}"),
        # https://duckdb.org/docs/stable/sql/statements/transactions
        transaction=("BEGIN TRANSACTION", "COMMIT"),
    ),
    limits=Limits(
        # max_expression_depth. https://duckdb.org/docs/stable/configuration/overview
        depth=1000,
        # 900 run in 2.0.0, 2,000 are deeper than an expression may be; 400 take 18 s (measured).
        stages=400,
    ),
)  # fmt: skip
