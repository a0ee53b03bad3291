"""The interface by which expressions are written as SQL, number by number and call by call, and DuckDB's writer.

The writers of other databases are their dialects (see `frameboost.dialects`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

__all__ = ["DUCKDB_WRITER", "SqlWriter", "float_literal"]


def float_literal(value: float) -> str:
    """Return ``value`` as a SQL literal of type DOUBLE that reads back as the same float64.

    >>> float_literal(0.1), float_literal(1e-320), float_literal(float("-inf"))
    ('0.1e0', '1e-320', "CAST('-Infinity' AS DOUBLE)")
    """
    if value in (float("inf"), float("-inf")):
        return f"CAST('{'-' if value < 0 else ''}Infinity' AS DOUBLE)"
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"  # without an exponent it would be a DECIMAL


class SqlWriter(Protocol):
    """Writes numbers and calls in a database's SQL."""

    def number(self, value: float) -> str:
        """Return a literal of type DOUBLE."""

    def call(self, function: str, arguments: Sequence[str]) -> str:
        """Return a call of a function by its standard name."""


class _DuckDBWriter:
    def number(self, value: float) -> str:
        return float_literal(value)

    def call(self, function: str, arguments: Sequence[str]) -> str:
        text = f"{function}({', '.join(arguments)})"
        return f"CAST({text} AS DOUBLE)" if function == "SIGN" else text  # DuckDB's SIGN returns a TINYINT


DUCKDB_WRITER = _DuckDBWriter()
