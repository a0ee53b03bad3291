"""A dialect: how a database writes names, literals, types, expressions and statements, and its limits.

It is data: templates with places in braces. `frameboost.compile` puts SQL together of them.

To add a dialect, copy the smallest file here that states a whole one (``oracle.py``), or take the child of a dialect
that is much the same (``trino.py``), and list it in ``built_in.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from frameboost.dialects.column_types import ColumnTypes
from frameboost.dialects.expressions import Expressions
from frameboost.dialects.limits import Limits
from frameboost.dialects.literals import Literals, OutOfRange
from frameboost.dialects.names import Names
from frameboost.dialects.statements import Statements
from frameboost.schema.types import FeatureType, Physical

__all__ = ["Dialect"]


@dataclass(frozen=True)
class Dialect:
    """How a database's SQL is written.

    Attributes
    ----------
    name
        What users call it.
    names, literals, types, expressions, statements, limits
        Its parts; their defaults are standard SQL. `Dialect` repeats the methods of the parts that all SQL is made of.
    parser
        What sqlglot calls it; by default as users do.
    """

    name: str
    names: Names = field(default_factory=Names)
    literals: Literals = field(default_factory=Literals)
    types: ColumnTypes = field(default_factory=ColumnTypes)
    expressions: Expressions = field(default_factory=Expressions)
    statements: Statements = field(default_factory=Statements)
    limits: Limits = field(default_factory=Limits)
    parser: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parser", self.parser or self.name)

    def child(
        self,
        name: str,
        *,
        names: Mapping[str, Any] | None = None,
        literals: Mapping[str, Any] | None = None,
        types: Mapping[str, str | None] | None = None,
        expressions: Mapping[str, Any] | None = None,
        statements: Mapping[str, Any] | None = None,
        limits: Mapping[str, int | None] | None = None,
        parser: str = "",
    ) -> Dialect:
        """Return a dialect that is as this one but for the given fields of each part.

        ``types`` has column types that differ, by feature type; None says that there is none.

        Examples
        --------
        >>> from frameboost.dialects.oracle import ORACLE
        >>> older = ORACLE.child("oracle 12.1", names={"longest": 30}, types={"timestamptz": None})
        >>> older.names.longest, older.names.in_bytes, older.types.columns["date"], "timestamptz" in older.types.columns
        (30, True, 'DATE', False)
        """
        columns = {**self.types.columns, **(types or {})}
        return Dialect(
            name=name,
            names=replace(self.names, **(names or {})),
            literals=replace(self.literals, **(literals or {})),
            types=replace(self.types, columns={kind: known for kind, known in columns.items() if known is not None}),
            expressions=replace(self.expressions, **(expressions or {})),
            statements=replace(self.statements, **(statements or {})),
            limits=replace(self.limits, **(limits or {})),
            parser=parser,
        )

    # --- names --------------------------------------------------------------------------------------------------------

    def quote(self, name: str) -> str:
        """Return a column, table or function name as a quoted identifier.

        Raises
        ------
        ParameterError
            If the database can't have such a name.
        """
        return self.names.quote(name, self.name)

    def quote_path(self, name: str) -> str:
        """Return a table name that may be qualified by dots, each part quoted; a part may come in quotes of its own."""
        return ".".join(map(self.quote, self.parts_of(name)))

    def parts_of(self, name: str) -> list[str]:
        """Return the parts of a table name that may be qualified by dots."""
        return self.names.parts_of(name)

    # --- literals and types -------------------------------------------------------------------------------------------

    def literal(self, kind: FeatureType, value: Physical) -> str | OutOfRange:
        """Return a physical value as a literal that compares exactly with a column of the type."""
        return self.literals.literal(kind.values, value)

    def number(self, value: float) -> str:
        """Return a float64 as a literal of the type that reads back as the same number."""
        return self.literals.number(value)

    def string(self, value: str) -> str:
        """Return a string as a literal."""
        return self.literals.string(value)

    def label(self, value: str | bool) -> str:
        """Return the label of a class as a value of a column."""
        return self.literals.label(value)

    def type_of(self, kind: FeatureType) -> str | None:
        """Return the type of a column that holds a feature, or None if the database has none."""
        return self.types.type_of(kind)

    def cast(self, value: str, type_name: str) -> str:
        """Return a value cast to a feature type."""
        return self.types.cast(value, type_name)

    # --- expressions --------------------------------------------------------------------------------------------------

    def call(self, function: str, arguments: Sequence[str]) -> str:
        """Return a call of one of the functions that expressions have."""
        return self.expressions.call(function, arguments)

    def any_of(self, value: str, literals: Sequence[str]) -> str:
        """Return the condition that a value is one of the literals, of which there is at least one."""
        return self.expressions.any_of(value, literals)

    def sum(self, terms: Sequence[str]) -> str:
        """Return a sum of numbers on a grid, in parentheses if it has several terms."""
        return self.expressions.sum(terms)
