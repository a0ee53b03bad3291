"""Table columns in a dialect's comparisons: missing or not, below a threshold, in a set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from frameboost.dialects.dialect import Dialect, OutOfRange
from frameboost.schema.types import ZERO, Feature, Physical

__all__ = ["NEVER", "DatabaseColumn"]

NEVER = "1 = 0"


@dataclass(frozen=True)
class DatabaseColumn:
    """The column of a feature in a database table.

    Attributes
    ----------
    feature, dialect
        The feature and the SQL dialect.
    name
        The column, quoted.
    text
        A string column that holds `value`, or None.
    coded
        A string column that holds `code`, or None.
    """

    feature: Feature
    dialect: Dialect
    name: str
    text: str | None = None
    coded: str | None = None

    @property
    def value(self) -> str:
        """The column in the form that is compared."""
        if self.feature.type.name == "string":
            return self.text or self.dialect.expressions.text.format(x=self.name)
        if self.feature.type.family == "timestamp":
            return self.dialect.expressions.time.format(x=self.name)
        if self.feature.type.family == "timestamptz":
            return self.dialect.expressions.time_with_zone.format(x=self.name)
        if self.feature.zero_is_missing:
            low, high = (self.dialect.number(sign * ZERO) for sign in (-1, 1))
            return f"(CASE WHEN {self.name} < {low} OR {self.name} > {high} THEN {self.name} END)"
        return self.name

    @property
    def unsigned(self) -> str:
        """The value with 0.0 instead of -0.0.

        Some databases distinguish them in sorting, DISTINCT and lists (ClickHouse, DataFusion). A sum is never -0.0.
        """
        return f"{self.value} + {self.dialect.number(0.0)}" if self.feature.type.values.is_float else self.value

    @property
    def real(self) -> str:
        """The value in a form for which ``<`` is not true of missing values."""
        return self.dialect.expressions.real.format(x=self.value) if self.feature.type.is_float else self.value

    def code(self, used: Iterable[int]) -> str:
        """Return the code of the category, if it is among the used ones, −1 for others, and NULL for NULL."""
        kind, categories = self.feature.type, self.feature.categories
        exact = [code for code in sorted(used) if self.dialect.is_exact(kind, categories[code])]
        literals = {code: self.dialect.literal(kind, categories[code]) for code in exact}
        whens = [f"WHEN {text} THEN {code}" for code, text in literals.items() if not isinstance(text, OutOfRange)]
        other = f"CASE WHEN {self.is_present()} THEN -1 END"
        return f"CASE {self.value} {' '.join(whens)} ELSE {other} END" if whens else other

    def is_present(self) -> str:
        """Return a condition that is true for non-missing values."""
        if self.coded is not None:
            return f"{self.coded} IS NOT NULL"
        value = self.value if self.feature.zero_is_missing else self.name
        return " AND ".join(filter(None, [f"{value} IS NOT NULL", self.is_number(value)]))

    def is_missing(self) -> str:
        """Return a condition that is true for missing values only."""
        if self.coded is not None:
            return f"{self.coded} IS NULL"
        value = self.value if self.feature.zero_is_missing else self.name
        is_number = self.is_number(value)
        return f"{value} IS NULL OR NOT ({is_number})" if is_number else f"{value} IS NULL"

    def is_below(self, threshold: Physical | None) -> str:
        """Return the condition that a non-missing value is below a threshold; empty if every value is."""
        return self._compared("<", threshold, all_if=OutOfRange.ABOVE)

    def is_at_least(self, threshold: Physical | None) -> str:
        """Return the condition that a non-missing value is not below a threshold; empty if none is."""
        return self._compared(">=", threshold, all_if=OutOfRange.BELOW)

    def _compared(self, operator: str, threshold: Physical | None, all_if: OutOfRange) -> str:
        if threshold is None:
            return ""
        kind = self.feature.type
        if kind.family == "boolean":
            holds = self.dialect.expressions.is_false if operator == "<" else self.dialect.expressions.is_true
            return holds.format(x=self.name) if threshold else ("" if operator == ">=" else NEVER)
        literal = self.dialect.literal(kind, threshold)
        if isinstance(literal, OutOfRange):
            return "" if literal is all_if else NEVER
        return f"{self.value} {operator} {literal}"

    def is_number(self, value: str) -> str:
        """Return the condition that a value is not NaN; empty if it can't be.

        Integer codes with missing values may arrive as floats with NaN.
        """
        template, kind = self.dialect.expressions.is_number, self.feature.type
        if template is None or not (kind.is_float or kind.name == "codes"):
            return ""
        return template.format(x=value if kind.is_float else self.dialect.cast(value, "float64"))

    def is_one_of(self, categories: Sequence[Physical]) -> str:
        """Return the condition that a value is one of some categories, of those that the column can hold."""
        kind, expressions = self.feature.type, self.dialect.expressions
        if kind.family == "boolean":
            holds = expressions.is_true if 1 in categories else expressions.is_false
            return f"{self.name} IS NOT NULL" if len(categories) > 1 else holds.format(x=self.name)
        exact = (value for value in categories if self.dialect.is_exact(kind, value))
        literals = [self.dialect.literal(kind, value) for value in exact]
        known = [literal for literal in literals if not isinstance(literal, OutOfRange)]
        return self.dialect.any_of(self.real, known) if known else NEVER
