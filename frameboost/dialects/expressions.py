"""Expressions in a dialect: conditions, sums, functions and lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Expressions", "guarded_exp"]


def guarded_exp(high: str, low: str) -> str:
    """Return the template of EXP where overflow is an error: of an argument that is kept between two literals.

    709.78 and −745.13 are where the range of float64 ends.
    """
    return f"EXP(GREATEST(LEAST({{x}}, {high}), {low}))"


@dataclass(frozen=True)
class Expressions:
    """Templates of expressions; ``{x}`` is a column or another expression.

    Attributes
    ----------
    is_number
        A condition on a float that is true unless it is NULL or NaN; None where there is no NaN.
    is_true, is_false
        A Boolean column as a condition.
    text
        A string column, such that ``=`` with `Literals.text` holds for equal strings only.
    text_is_value
        Whether `text` has the characters of the column, and no more.
    equal_texts
        The condition that two string columns ``{x}`` and ``{y}`` are equal, for which an index on one of them is used;
        None where that of `text` of both is as good.
    real
        A float column, such that ``<`` is not true of NaN, whatever statistics the database has of the column. It may
        be NULL for NaN.
    time, time_with_zone
        A column of timestamps without and with a time zone, such that it compares with literals as these do.
    longest_list
        Values that ``IN`` takes; 0 for none, where a chain of OR is better, None for any number.
    list_is_value
        Whether the list behind ``IN`` is one of the elements of a query (see `Limits.elements`).
    branch
        One of two values, ``{t}`` and ``{e}``, by a condition ``{c}``, the second where it is NULL.
    case_skips_unmet_whens
        Whether CASE is evaluated by vectors of rows, and a WHEN that no row of a vector satisfies is skipped. Then
        scoring is faster where rows that take the same branches stand together (``form="sorted"``).
    longest_sum
        Terms that a sum has without parentheses; None for balanced sums in parentheses.
    uncompiled
        A zero that keeps the database from compiling a query into one piece of code, which takes long where there is
        much of it.
    functions
        Names of functions where they are not the standard's.
    most_arguments
        Arguments that GREATEST and LEAST take; more of them are nested.
    exp
        e to the power of ``{x}``, however large or small.
    array
        A list of the numbers ``{v}``; None where a column holds but one.
    element
        Item number ``{i}``, from 0, of such a list; given where that is a fast way to look a leaf up.
    struct
        A record of the fields ``{v}``, each written as ``'name': value``; None where there is none or it is not used.
    lambda_
        ``{value}``, SQL over ``m``, for the only item of a list; None where a value can't be named in passing.
    """

    is_number: str | None = None
    is_true: str = "{x}"
    is_false: str = "NOT {x}"
    text: str = "{x}"
    text_is_value: bool = True
    equal_texts: str | None = None
    real: str = "{x}"
    time: str = "{x}"
    time_with_zone: str = "{x}"
    longest_list: int | None = None
    list_is_value: bool = False
    branch: str = "CASE WHEN {c} THEN {t} ELSE {e} END"
    case_skips_unmet_whens: bool = False
    longest_sum: int | None = None
    uncompiled: str | None = None
    functions: Mapping[str, str] = field(default_factory=dict)
    # SQLite takes 127 (100 in old versions), Trino 127, SQL Server 254 (docs/vendors.md).
    most_arguments: int = 100
    exp: str = "EXP({x})"
    array: str | None = None
    element: str | None = None
    struct: str | None = None
    lambda_: str | None = None

    def call(self, function: str, arguments: Sequence[str]) -> str:
        """Return a call of one of the functions that expressions have."""
        if function == "EXP":
            return self.exp.format(x=arguments[0])
        name, most = self.functions.get(function, function), self.most_arguments
        while len(arguments) > most:
            parts = [arguments[first : first + most] for first in range(0, len(arguments), most)]
            # SQLite's MAX of one argument is an aggregate.
            arguments = [part[0] if len(part) == 1 else f"{name}({', '.join(part)})" for part in parts]
        return f"{name}({', '.join(arguments)})"

    def any_of(self, value: str, literals: Sequence[str]) -> str:
        """Return the condition that a value is one of the literals, of which there is at least one."""
        if len(literals) == 1 or self.longest_list == 0:
            return " OR ".join(f"{value} = {literal}" for literal in literals)
        size = self.longest_list or len(literals)
        parts = (literals[first : first + size] for first in range(0, len(literals), size))
        return " OR ".join(f"{value} IN ({', '.join(part)})" for part in parts)

    def sum(self, terms: Sequence[str]) -> str:
        """Return a sum of numbers on a grid, whose order does not matter, in parentheses if it has several terms.

        Most parsers give up on a chain of some hundred additions, so it is a balanced tree: four terms are
        ``((a + b) + (c + d))``. Spark's parser takes longer the deeper parentheses nest, and likes a chain that is not
        too long.
        """
        if len(terms) == 1:
            return terms[0]
        if self.longest_sum is not None and len(terms) <= self.longest_sum:
            return "(" + "\n + ".join(terms) + ")"
        middle = len(terms) // 2
        return f"({self.sum(terms[:middle])}\n + {self.sum(terms[middle:])})"

    def total(self, terms: Sequence[str]) -> str:
        """Return the same sum where it stands alone."""
        text = self.sum(terms)
        return text if self.longest_sum is None or len(terms) == 1 else text[1:-1]
