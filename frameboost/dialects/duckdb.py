"""DuckDB's dialect, the one that training speaks too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from frameboost.dialects.dialect import Dialect, Outside
from frameboost.dialects.limits import Limits
from frameboost.expressions.duckdb_sql import literal
from frameboost.expressions.expression import DUCKDB_WRITER
from frameboost.schema.types import DUCKDB_TYPES, FeatureType, Physical

__all__ = ["DUCKDB"]


@dataclass(frozen=True)
class _DuckDB(Dialect):
    """DuckDB, which has a type for each of ours, and so a literal for every value."""

    def literal(self, kind: FeatureType, value: Physical) -> str | Outside:
        return literal(kind, value)

    def number(self, value: float) -> str:
        return DUCKDB_WRITER.number(value)

    def call(self, function: str, arguments: Sequence[str]) -> str:
        return DUCKDB_WRITER.call(function, arguments)


DUCKDB = _DuckDB(
    name="duckdb",
    parser="duckdb",
    unnameable="",
    infinity=("CAST('Infinity' AS DOUBLE)", "CAST('-Infinity' AS DOUBLE)"),
    is_number="NOT isnan({x})",
    types=DUCKDB_TYPES,
    interval="to_microseconds({v})",
    array="[{v}]",
    element="{x}[1 + {i}]",
    lambda_="list_transform({x}, lambda m: {value})[1]",
    case_skips_unmet_whens=True,
    longest_list=0,  # DuckDB makes a join of every IN, and the joins of all splits take time quadratic in their number
    except_columns="* EXCLUDE ({v})",
    keeps_order=True,
    any_case=True,
    limits=Limits(depth=1000, stages=400),
)  # fmt: skip
