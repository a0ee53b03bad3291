"""Splits as SQL conditions: columns compared with thresholds or categories, and missing directions.

`frameboost.dialects.dialect.Dialect.literal` writes the thresholds as literals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from frameboost.checks.messages import shown
from frameboost.dialects.columns import NEVER, DatabaseColumn
from frameboost.dialects.dialect import Dialect, OutOfRange
from frameboost.dialects.duckdb import DUCKDB
from frameboost.errors import ParameterError
from frameboost.expressions.duckdb_sql import membership, quote_identifier
from frameboost.losses.outputs import Lookup
from frameboost.schema.types import Feature, FeatureType
from frameboost.trees.tree import Tree

__all__ = ["FeatureColumn", "compare_numbers", "condition_sql", "find_columns", "renamed"]

# Up to which a double holds every integer. So a whole number is below a threshold within it if its double is.
_WHOLE = 2**53


@dataclass(frozen=True)
class FeatureColumn(DatabaseColumn):
    """The column of a feature, and the conditions of splits on it.

    Attributes
    ----------
    filled
        Columns with missing values replaced by the largest and the smallest number (`as_number`), for missing
        directions right and left. Comparisons with these need no test for missing values.
    in_steps
        Columns of `number_in_steps`, by the step.
    """

    filled: tuple[str | None, str | None] = (None, None)
    in_steps: Mapping[float, str] = field(default_factory=dict)

    def number_in_steps(self, step: float, offset: float) -> str:
        """Return how many steps the number is, rounded by an offset (see `frameboost.expressions.grid`).

        It is clipped to ±2^51, as overflow is an error in some databases; of a missing value it may be any number.
        """
        dialect, value = self.dialect, self.dialect.cast(self.name, "float64")
        added, low, high = map(dialect.number, (offset, -(2.0**51) * step, 2.0**51 * step))
        return f"{dialect.clipped(f'(({value} + {added}) - {added})', low, high)} * {dialect.number(1 / step)}"

    def test(self, tree: Tree, node: int) -> tuple[str, bool]:
        """Return the condition of a WHEN, and whether its branch is the left child.

        Missing values take ELSE without a test: ``WHEN x < 3`` with the left child after THEN if they go right, ``WHEN
        x >= 3`` with the right child if they go left. Comparisons with NULL are not true. NaN is the largest number or
        compares false, so ``x < 3`` is not true for it in any database; ``x >= 3`` may be, so `Expressions.is_number`
        is added to it.
        """
        threshold, categories, missing_left = tree.threshold[node], tree.categories[node], tree.missing_left[node]
        if categories is not None:
            if self.coded is not None:
                named = self.dialect.any_of(self.coded, list(map(str, categories)))
            else:
                named = self.is_one_of([self.feature.categories[code] for code in categories])
            return (f"{self.is_missing()} OR {named}" if tree.with_missing[node] else named), tree.named_left(node)
        if threshold is None:
            return self.is_present(), True
        kind = self.feature.type
        if kind.family == "boolean" and threshold == 1:
            holds = self.dialect.expressions.is_true if missing_left else self.dialect.expressions.is_false
            return holds.format(x=self.name), not missing_left
        literal = OutOfRange.BELOW if kind.family == "boolean" else self.dialect.literal(kind, threshold)
        if isinstance(literal, OutOfRange):
            nobody = (literal is OutOfRange.ABOVE) == missing_left
            return (NEVER if nobody else self.is_present()), not missing_left
        filled = self._filled(tree, node)
        if filled or not missing_left:
            return f"{filled or self.real} < {literal}", True
        return " AND ".join(filter(None, [f"{self.value} >= {literal}", self.is_number(self.value)])), False

    def negated(self, condition: str, tree: Tree, node: int) -> str:
        """Return the negation of the condition of `test`; it is true for missing values if that is not."""
        if tree.with_missing[node]:
            return f"NOT ({condition})"
        if filled := self._filled(tree, node):
            return condition.replace(f"{filled} <", f"{filled} >=", 1)
        if self.feature.type.is_float and not tree.missing_left[node]:
            return f"NOT ({condition}) OR {self.real} IS NULL"
        value = self.coded or (self.value if self.feature.zero_is_missing else self.name)
        return f"NOT ({condition}) OR {value} IS NULL"

    def _filled(self, tree: Tree, node: int) -> str | None:
        return self.filled[tree.missing_left[node]] if self.compares_numbers(tree, node) else None

    def compares_numbers(self, tree: Tree, node: int) -> bool:
        """Whether a split may compare `as_number` with its threshold as a double, with the same result."""
        threshold, missing_left, kind = tree.threshold[node], tree.missing_left[node], self.feature.type
        # A tuple, as this runs for each node: to make the union `int | float` takes twice as long.
        if not isinstance(threshold, (int, float)) or not (
            kind.is_float or (kind.is_integer and abs(threshold) < _WHOLE)
        ):
            return False
        return not (missing_left and threshold == -float("inf"))  # as what is missing would be: -inf

    def as_number(self, missing_left: bool, number: str) -> str:
        """Return the value as a non-missing number: ``-inf`` for missing values that go left, NaN for right.

        NaN is larger than all other numbers in DuckDB. ``number`` is the type of these two.
        """
        value = f"CAST({self.value} AS DOUBLE)"
        missing = "-Infinity" if missing_left else "NaN"
        return f"CASE WHEN {self.is_present()} THEN {value} ELSE CAST('{missing}' AS {number}) END"

    def number_of(self, lookup: Lookup) -> str:
        """Return the number of a lookup by the column, as a CASE; NULL and other values take ELSE.

        >>> from frameboost.dialects.built_in import get_dialect
        >>> floors = Lookup("distance", "floor", FeatureType("codes"), (1, 2), (1.5, 2.0), 3.0)
        >>> FeatureColumn(floors.feature, get_dialect("duckdb"), '"floor"').number_of(floors)
        'CASE WHEN "floor" = 1 THEN 1.5e0 WHEN "floor" = 2 THEN 2.0e0 ELSE 3.0e0 END'
        """
        otherwise, expressions = self.dialect.number(lookup.otherwise), self.dialect.expressions
        cases = []
        for number, values in lookup.by_number().items():
            if lookup.type.family == "boolean":
                tests = (expressions.is_true if value else expressions.is_false for value in values)
                condition = " OR ".join(test.format(x=self.name) for test in tests)
            else:
                condition = self.is_one_of(values)
            cases.append(f"WHEN {condition} THEN {self.dialect.number(number)}")
        return f"CASE {' '.join(cases)} ELSE {otherwise} END" if cases else self.dialect.sum([otherwise])


def compare_numbers(
    kinds: Sequence[FeatureType],
    feature: npt.NDArray[np.integer],
    threshold: npt.NDArray[np.float64],
    missing_left: npt.NDArray[np.bool_],
) -> npt.NDArray[np.bool_]:
    """Return for which of many nodes `FeatureColumn.compares_numbers` is true.

    Parameters
    ----------
    kinds
        The types of the features.
    feature, threshold, missing_left
        (nodes,): as in `frameboost.trees.tree.Tree`, with NaN for no threshold; the feature of a leaf is negative.
    """
    is_float = np.array([*(kind.is_float for kind in kinds), False])  # -1, a leaf, is the last one
    is_integer = np.array([*(kind.is_integer for kind in kinds), False])
    holds: npt.NDArray[np.bool_] = is_float[feature] | (is_integer[feature] & (np.abs(threshold) < _WHOLE))
    holds &= ~np.isnan(threshold) & ~(missing_left & (threshold == -np.inf))
    return holds


def renamed(columns: Sequence[FeatureColumn], names: Mapping[str, str]) -> tuple[FeatureColumn, ...]:
    """Return the columns under other names; names are quoted."""
    return tuple(replace(column, name=names.get(column.name, column.name)) for column in columns)


def find_columns(
    features: Sequence[Feature], dialect: Dialect, names: Mapping[str, str] | None = None
) -> tuple[FeatureColumn, ...]:
    """Return the columns of the features; ``names`` are table column names that differ.

    Raises
    ------
    ParameterError
        If the database can't have a name or column type, does not distinguish two names, or ``names`` has an unknown
        feature.
    """
    names = {} if names is None else names
    known = [feature.name for feature in features]
    for name, other in names.items():
        if name not in known:
            raise ParameterError(f"columns names {shown(name)}, which is not a feature of the model")
        if not isinstance(other, str):
            raise ParameterError(
                f"columns must have the name of a column for feature {shown(name)}, not {shown(other)}"
            )
    folded: dict[str, str] = {}
    for feature in features:
        column = names.get(feature.name, feature.name)
        other = folded.setdefault(column.lower() if dialect.names.any_case else column, column)
        if other != column:
            raise ParameterError(
                f"features {shown(other)} and {shown(column)} differ only in case, which {dialect.name} can't tell "
                "apart"
            )
        if dialect.type_of(feature.type) is None:
            raise ParameterError(
                f"feature {shown(feature.name)} has type {feature.type}, which no column has in {dialect.name}"
            )
    return tuple(FeatureColumn(f, dialect, dialect.quote(names.get(f.name, f.name))) for f in features)


def condition_sql(tree: Tree, node: int, features: Sequence[Feature]) -> str:
    """Return the condition under which a non-missing value goes left, for people to read."""
    feature = features[tree.feature[node]]
    column, threshold, categories = quote_identifier(feature.name), tree.threshold[node], tree.categories[node]
    if categories is not None:
        names = [str(DUCKDB.literal(feature.type, feature.categories[code])) for code in categories]
        return f"{'' if tree.named_left(node) else 'NOT '}{membership(column, names)}"
    if threshold is None:
        return f"{column} IS NOT NULL"
    return f"{column} < {DUCKDB.literal(feature.type, threshold)}"
