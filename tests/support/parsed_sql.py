"""SQL as sqlglot reads it, for the databases that don't run here."""

from __future__ import annotations

import itertools
import re

import pytest
import sqlglot
from sqlglot import exp

from frameboost.dialects.dialect import Dialect

__all__ = ["n_statements", "nesting", "parsed"]

# What sqlglot reads wrongly before 30.30.
_MISREAD = ("athena", "fabric", "oracle")


def _is_misread(dialect: Dialect) -> bool:
    """Whether the installed sqlglot can't read the database's SQL."""
    return dialect.name in _MISREAD and tuple(map(int, sqlglot.__version__.split(".")[:2])) < (30, 30)


def parsed(text: str, dialect: Dialect) -> exp.Expression:
    """Return the tree of the text, which is one statement; skip the test where sqlglot can't read it."""
    if _is_misread(dialect):
        pytest.skip(f"sqlglot {sqlglot.__version__} misreads {dialect.name}")
    statements = sqlglot.parse(text, read=dialect.parser)
    assert len(statements) == 1
    assert not isinstance(statements[0], exp.Command)  # what sqlglot calls a statement that it does not understand
    return statements[0]


def n_statements(text: str, dialect: Dialect) -> int:
    """Return how many statements a text has; 1 where sqlglot can't read them."""
    return 1 if _is_misread(dialect) else len(sqlglot.parse(text, read=dialect.parser))


def nesting(text: str) -> int:
    """Return how deep CASE is in CASE."""
    bare = re.sub(r"'(?:[^']|'')*'", "", text)
    steps = [1 if word == "CASE" else -1 for word in re.findall(r"\bCASE\b|\bEND\b", bare)]
    return max(itertools.accumulate(steps), default=0)
