"""Scalar SQL expressions: a loss, a metric or a link is written once, and every engine computes it.

An expression is a string such as ``"1 / (1 + EXP(-margin)) - label"``. It is parsed once, and every node of its syntax
tree is checked against the list of functions that all engines compute alike. From the tree it is written as SQL or made
a polars expression. All numbers are float64. Nothing off the list reaches a database: it is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import polars as pl

from frameboost.checks.messages import shown
from frameboost.errors import ParameterError
from frameboost.expressions.sql_writer import DUCKDB_WRITER, SqlWriter, float_literal

if TYPE_CHECKING:
    from frameboost.expressions.syntax import ExpressionTree, Folder

__all__ = ["DUCKDB_WRITER", "Expression", "SqlWriter", "float_literal"]

T = TypeVar("T")


@dataclass(frozen=True)
class Expression:
    """A scalar SQL expression over named columns, parsed and checked.

    Parameters
    ----------
    text
        The expression. Arithmetic, comparisons, ``CASE`` and a handful of functions.
    columns
        The names that it may use.

    Raises
    ------
    ParameterError
        If it is not one SQL expression, or uses another name or a function that not every engine has.

    Examples
    --------
    >>> half = Expression("margin / 2", columns=("margin",))
    >>> half.to_sql({"margin": "(m + 1)"})
    '((m + 1) / 2.0e0)'
    >>> pl.select(half.to_polars({"margin": pl.lit(3.0)})).item()
    1.5
    """

    text: str
    columns: tuple[str, ...] = ("label", "margin", "weight")

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise ParameterError(f"a SQL expression must be a string, not {shown(self.text)}")
        if self.text in self.columns or self.text in ("0", "1"):  # frequent, and nothing to parse
            return
        try:
            self.is_condition  # noqa: B018  # walks the whole tree, and so checks every node
        except RecursionError:
            raise ParameterError(f"the expression {shown(self.text[:40])}... is nested too deeply") from None

    @cached_property
    def _tree(self) -> ExpressionTree:
        from frameboost.expressions.syntax import ExpressionTree  # late: it imports sqlglot, which takes long

        return ExpressionTree(self.text, self.columns)

    def to_sql(self, columns: Mapping[str, str], writer: SqlWriter = DUCKDB_WRITER) -> str:
        """Return the expression as SQL, by default DuckDB's, every name replaced by the SQL given for it."""
        return self._tree.to_sql(columns, writer)

    def to_polars(self, columns: Mapping[str, pl.Expr] | None = None) -> pl.Expr:
        """Return the expression for polars, every name replaced by the expression given (by default its column)."""
        return self._tree.to_polars(columns or {name: pl.col(name) for name in self.columns})

    def fold(self, folder: Folder[T]) -> T:
        """Return the result of folding the syntax tree, from the leaves up (see `syntax.Folder`)."""
        return self._tree.fold(folder)

    def renamed(self, names: Mapping[str, str]) -> Expression:
        """Return the expression with names replaced by those given for them; other names stay."""
        if all(names.get(name, name) == name for name in self.columns):
            return self
        return Expression(self._tree.renamed(names), tuple(names.get(name, name) for name in self.columns))

    @cached_property
    def is_condition(self) -> bool:
        """Whether the expression is Boolean rather than a number."""
        return self._tree.is_condition()

    def required_number(self, what: str) -> Expression:
        """Return the expression, or raise `ParameterError` if it is a condition; ``what`` names it in the message."""
        if self.is_condition:
            raise ParameterError(f"{what} {shown(self.text)} is true or false, not a number")
        return self

    def uses(self, name: str) -> int:
        """Return how often the expression names that column."""
        return self._tree.uses(name)
