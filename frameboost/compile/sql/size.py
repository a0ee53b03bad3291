"""The size of a model's SQL beside the limits of a database."""

from __future__ import annotations

import re
from collections.abc import Sequence

from frameboost.compile.sql.case import case_depth, n_terms
from frameboost.dialects.dialect import Dialect
from frameboost.errors import ParameterError
from frameboost.trees.tree import Tree

__all__ = ["check_size", "exceeded_limit", "is_too_long"]

# Levels of a parser's tree for a level of CASE or of a sum, and those around the expression.
_LEVELS, _AROUND = 2, 20
# Entries of a parser's stack for CASE … WHEN … THEN, for ``(… +``, and for what is around and in them.
_STACKED_A_CASE, _STACKED_A_SUM, _STACKED_AROUND = 5, 3, 26
# What a query consists of, in groups by the number of elements.
_STRING = r"'(?:[^'\\]|\\.|'')*'"
_LISTS = re.compile(rf"\bIN \({_STRING}(?:, {_STRING})*\)")
_TOKENS = re.compile(
    rf"""(?P<value>{_STRING}|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`|-?\b\d+(?:\.\d*)?(?:[eE][+-]?\d+)?\w*)"""
    r"|(?P<part>\b(?:WHEN|THEN|ELSE|END|AS|NULL|(?<=IS )NOT)\b)"
    r"|(?P<operator>\b(?:CASE|IS|IN|AND|OR|NOT)\b|\w+(?=\()|<=|>=|<>|[<>=*/%+]|-(?=\s))"
    r"|(?P<name>\w+)",
    re.DOTALL,
)
_ELEMENTS = {"value": 1, "part": 0, "operator": 2, "name": 1}


def check_size(text: str, trees: Sequence[Sequence[Tree]], dialect: Dialect) -> None:
    """Raise `ParameterError` if an expression is more than the database takes."""
    if reason := exceeded_limit(text, trees, dialect, in_one=True):
        raise ParameterError(
            f"the model does not fit into one expression: {reason}; take model.query, which knows other forms"
        )


def exceeded_limit(
    text: str, trees: Sequence[Sequence[Tree]], dialect: Dialect, *, in_one: bool, of_view: bool = False
) -> str:
    """Return what is more than the database takes, with the numbers; nothing if all fits.

    ``in_one``: whether each margin is a single expression, so that what limits one counts. ``of_view``: whether the
    text makes a view.
    """
    limits = dialect.limits
    if is_too_long(text, dialect, of_view=of_view):
        noun, most = ("view", limits.of_view()) if of_view else ("query", limits.text)
        return f"it has {len(text.encode()):,} bytes, and a {noun} in {dialect.name} at most {most:,}"
    every = [tree for of_output in trees for tree in of_output]
    terms = sum(n_terms(tree, dialect) for tree in every)
    if limits.elements is not None and (elements := _n_elements(text, dialect)) > limits.elements:
        return f"it has about {elements:,} elements, and a query in {dialect.name} at most {limits.elements:,}"
    if not in_one or not every:
        return ""
    if limits.terms is not None and terms > limits.terms:
        return f"it has about {terms:,} names and values, and an expression in {dialect.name} at most {limits.terms:,}"
    cases, sums = _expression_depth(trees, dialect)
    if limits.case_depth is not None and cases + 1 > limits.case_depth:
        return f"its CASEs nest {cases + 1} deep, and in {dialect.name} {limits.case_depth} deep at most"
    depth = _LEVELS * (cases + sums) + _AROUND
    if limits.depth is not None and depth > limits.depth:
        return f"it is about {depth} levels deep, and an expression in {dialect.name} at most {limits.depth}"
    stack = _STACKED_A_CASE * cases + _STACKED_A_SUM * sums + _STACKED_AROUND
    if limits.stack is not None and stack > limits.stack:
        return f"it takes about {stack} entries of the parser's stack, which has {limits.stack} in {dialect.name}"
    return ""


def _n_elements(text: str, dialect: Dialect) -> int:
    """Return the elements of a query (see `Limits.elements`).

    >>> from frameboost.dialects.clickhouse import CLICKHOUSE
    >>> _n_elements("if(x >= -3 AND NOT isNaN(x), if(c IN ('a', 'b'), 1.0, 2.0), 3.0)", CLICKHOUSE)
    22
    """
    if dialect.expressions.list_is_value:
        text = _LISTS.sub("IN ''", text)
    return sum(_ELEMENTS[found.lastgroup or ""] for found in _TOKENS.finditer(text))


def is_too_long(text: str, dialect: Dialect, *, of_view: bool) -> bool:
    """Whether the text of a query, or of the statement that makes a view, is longer than the database takes."""
    most = dialect.limits.of_view() if of_view else dialect.limits.text
    return most is not None and len(text.encode()) > most


def _expression_depth(trees: Sequence[Sequence[Tree]], dialect: Dialect) -> tuple[int, int]:
    """Return how deep CASEs nest in the expression of a margin, and the balanced sum over them."""
    deepest = max((case_depth(tree, dialect) for of_output in trees for tree in of_output), default=0)
    return deepest, max(len(of_output) for of_output in trees).bit_length()
