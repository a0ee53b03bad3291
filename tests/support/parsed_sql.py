"""SQL as sqlglot reads it, for the databases that don't run here."""

from __future__ import annotations

import itertools
import re

import sqlglot

from frameboost.dialects.dialect import Dialect

__all__ = ["is_misread", "n_statements", "nesting"]

# What sqlglot reads wrongly before 30.30.
_MISREAD = ("athena", "fabric", "oracle")


def is_misread(dialect: Dialect) -> bool:
    """Whether the installed sqlglot can't read the database's SQL."""
    return dialect.name in _MISREAD and tuple(map(int, sqlglot.__version__.split(".")[:2])) < (30, 30)


def n_statements(text: str, dialect: Dialect) -> int:
    """Return how many statements a text has; 1 where sqlglot can't read them."""
    return 1 if is_misread(dialect) else len(sqlglot.parse(text, read=dialect.parser))


def nesting(text: str) -> int:
    """Return how deep CASE is in CASE."""
    bare = re.sub(r"'(?:[^']|'')*'", "", text)
    steps = [1 if word == "CASE" else -1 for word in re.findall(r"\bCASE\b|\bEND\b", bare)]
    return max(itertools.accumulate(steps), default=0)
