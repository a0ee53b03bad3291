"""Columns of a database as narrow as their numbers allow: what is not there need neither be read nor be kept in memory.

Everything is computed with as DOUBLE, and every number is the same as if it had been stored as one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from frameboost.engines.duckdb.session import DuckDBSession
from frameboost.expressions.expression import float_literal
from frameboost.losses.exact_sums import Rounded, Scalar

__all__ = ["NarrowNumber", "narrow_number", "narrow_roles", "narrowest_integer", "read_role"]

# Types of four bytes or fewer, all of whose values DOUBLE has.
_NARROW = ("BOOLEAN", "TINYINT", "UTINYINT", "SMALLINT", "USMALLINT", "INTEGER", "UINTEGER", "FLOAT")
_MOST_STEPS = 2.0**30


@dataclass(frozen=True, slots=True)
class NarrowNumber:
    """A number of every row: the expression that is ``stored``, and the one by which it is ``read`` from its column."""

    stored: str
    read: str


def narrow_number(number: Scalar, column: str, names: Mapping[str, str]) -> NarrowNumber:
    """Return how to store a number under the name ``column``: steps of its grid, if it has one that is coarse enough.

    From 2,097,153 rows on the gradients' grids are, since their sums have to fit 52 bits.
    """
    value = f"CAST({number.to_sql(names)} AS DOUBLE)"
    # Numbers that are not finite, which no step is large enough for, are left for their sums to show.
    if isinstance(number, Rounded) and number.largest <= _MOST_STEPS * number.step < math.inf:
        step = number.step
        return NarrowNumber(
            f"CAST({value} * {float_literal(1 / step)} AS INTEGER)", f"{column} * {float_literal(step)}"
        )
    return NarrowNumber(value, column)


def narrow_roles(session: DuckDBSession, roles: Mapping[str, str], columns: Mapping[str, str]) -> dict[str, str]:
    """Return expressions over the source with the types to store them in.

    Parameters
    ----------
    session
        Where the source is.
    roles
        Role -> expression.
    columns
        Role -> quoted column, of those that are numbers; their expressions are DOUBLE.
    """
    wanted = ", ".join(f"{column} AS {role}" for role, column in columns.items())
    types = dict(session.run(f"SELECT column_name, column_type FROM (DESCRIBE SELECT {wanted} FROM {session.source})"))
    return {role: f"CAST({sql} AS {types[role]})" if types.get(role) in _NARROW else sql for role, sql in roles.items()}


def read_role(role: str) -> str:
    """Return a role's number as DOUBLE; queries, of which only equality counts, as they are."""
    return role if role == "qid" else f"CAST({role} AS DOUBLE)"


def narrowest_integer(largest: int) -> str:
    """Return the type for integers from 0 to ``largest``."""
    return "UTINYINT" if largest < 2**8 else "USMALLINT" if largest < 2**16 else "INTEGER"
