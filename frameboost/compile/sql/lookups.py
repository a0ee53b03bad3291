"""A number that is looked up by a column, as SQL."""

from __future__ import annotations

from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.losses.outputs import Lookup

__all__ = ["lookup_sql"]


def lookup_sql(lookup: Lookup, column: FeatureColumn) -> str:
    """Return a CASE over the column, with a WHEN for each number; NULL and other values take ELSE.

    >>> from frameboost.dialects.built_in import get_dialect
    >>> from frameboost.schema.types import FeatureType
    >>> floors = Lookup("distance", "floor", FeatureType("codes"), (1, 2), (1.5, 2.0), 3.0)
    >>> lookup_sql(floors, FeatureColumn(floors.feature, get_dialect("duckdb"), '"floor"'))
    'CASE WHEN "floor" = 1 THEN 1.5e0 WHEN "floor" = 2 THEN 2.0e0 ELSE 3.0e0 END'
    """
    dialect = column.dialect
    otherwise = dialect.number(lookup.otherwise)
    cases = []
    for number, values in lookup.by_number().items():
        if lookup.type.family == "boolean":
            tests = (dialect.expressions.is_true if value else dialect.expressions.is_false for value in values)
            condition = " OR ".join(test.format(x=column.name) for test in tests)
        else:
            condition = column.is_one_of(values)
        cases.append(f"WHEN {condition} THEN {dialect.number(number)}")
    return f"CASE {' '.join(cases)} ELSE {otherwise} END" if cases else otherwise
