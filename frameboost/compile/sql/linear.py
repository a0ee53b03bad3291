"""The value of a leaf as SQL: a number, or of a linear leaf a constant plus slopes times columns."""

from __future__ import annotations

from collections.abc import Sequence

from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.dialects.dialect import Dialect
from frameboost.trees.tree import LinearTerm, Tree

__all__ = ["TERMS_A_SLOPE", "leaf_sql"]

# Names and values of a term, with the test whether its column is missing.
TERMS_A_SLOPE = 8


def leaf_sql(tree: Tree, leaf: int, columns: Sequence[FeatureColumn], dialect: Dialect) -> str:
    """Return the value of a leaf; all products and sums are exact (see `frameboost.trees.tree`)."""
    value = dialect.number(tree.value[leaf])
    if not tree.linear or (own := tree.linear[leaf]) is None:
        return value
    terms = [_term_sql(term, columns[term.feature], dialect) for term in own.terms if term.slope]
    present = " AND ".join(columns[term.feature].is_present() for term in own.terms)
    return f"CASE WHEN {present} THEN {dialect.sum([dialect.number(own.constant), *terms])} ELSE {value} END"


def _term_sql(term: LinearTerm, column: FeatureColumn, dialect: Dialect) -> str:
    slope, offset, shift, low, high = map(dialect.number, (term.slope, term.offset, term.shift, term.low, term.high))
    u = f"(({dialect.cast(column.name, 'float64')} + {offset}) - {shift})"
    return f"{slope} * {dialect.call('LEAST', [dialect.call('GREATEST', [u, low]), high])}"
