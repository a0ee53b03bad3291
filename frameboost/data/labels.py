"""Labels in a column of strings: the distinct ones, and their numbers in place of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from frameboost.expressions.duckdb_sql import EXACT_TEXT, string_literal
from frameboost.schema.polars_columns import column

__all__ = ["codes_sql", "distinct_strings", "in_order", "with_codes"]


def distinct_strings(frame: pl.LazyFrame, name: str, most: int) -> list[str]:
    """Return at most so many distinct strings of a column, in any order, without NULL."""
    values = frame.select(column(name).cast(pl.String).alias("label")).drop_nulls().unique()
    return values.head(most).collect(engine="streaming")["label"].to_list()


def in_order(labels: Iterable[str], dtype: pl.DataType) -> list[str]:
    """Return labels in the order of their Enum, or sorted.

    >>> in_order(["low", "high"], pl.Enum(["low", "mid", "high"])), in_order(["low", "high"], pl.String())
    (['low', 'high'], ['high', 'low'])
    """
    found = set(labels)
    return [label for label in dtype.categories if label in found] if isinstance(dtype, pl.Enum) else sorted(found)


def with_codes(frame: pl.LazyFrame, name: str, labels: Sequence[str]) -> pl.LazyFrame:
    """Return the frame with the places of a column's strings among the labels in place of them.

    >>> with_codes(pl.LazyFrame({"y": ["b", None, "a"]}), "y", ["a", "b"]).collect()["y"].to_list()
    [1, None, 0]
    """
    codes = column(name).cast(pl.String).replace_strict(labels, range(len(labels)), default=None, return_dtype=pl.Int16)
    return frame.with_columns(codes.alias(name))


def codes_sql(quoted: str, labels: Sequence[str]) -> str:
    """Return the same of a column of DuckDB, as an expression.

    >>> print(codes_sql('"y"', ["a", "it's"]))
    CAST(CASE "y"::VARCHAR COLLATE C WHEN 'a' THEN 0 WHEN 'it''s' THEN 1 END AS SMALLINT)
    """
    whens = " ".join(f"WHEN {string_literal(label)} THEN {code}" for code, label in enumerate(labels))
    return f"CAST(CASE {EXACT_TEXT.format(x=quoted)} {whens} END AS SMALLINT)"
