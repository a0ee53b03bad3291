"""The value of an expression for single numbers is polars'."""

import math

import polars as pl

from frameboost.expressions.expression import Expression, value_of
from tests.support.cases import cases

NUMBERS = [0.0, -0.0, 0.1, -3.7, 1e300, math.inf, math.nan]


@cases("text", [
    "SQRT(a / b)", "1 - a / b + 3 * ABS(a - b)", "LEAST(a / b, 1) - GREATEST(a, -b)", "1 / (1 + EXP(-a)) + LN(b)",
    "CASE WHEN a > b THEN a WHEN NOT (a = b OR b <= 0) AND a <> 3 THEN -b ELSE 2 END", "CASE WHEN a >= b THEN 1 END",
    "CASE WHEN a / b IS NULL THEN 1 ELSE EXP(a) + LN(b) + POWER(a, 2) END",
])  # fmt: skip
def test_values_are_those_of_polars(text):
    expression = Expression(text, ("a", "b"))
    for a in NUMBERS:
        for b in NUMBERS:
            expected = pl.select(expression.to_polars({"a": pl.lit(a), "b": pl.lit(b)})).item()
            found = value_of(expression, {"a": a, "b": b})
            assert found == expected or (math.isnan(found) and math.isnan(expected)), (a, b)
