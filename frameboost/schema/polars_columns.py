"""Polars columns by name, and by nothing but the name."""

from __future__ import annotations

import polars as pl
import polars.selectors as cs

__all__ = ["column"]


def column(name: str) -> pl.Expr:
    """Return the column of that name; ``pl.col`` would take ``*`` and ``^...$`` for patterns.

    >>> pl.DataFrame({"*": [1], "x": [2]}).select(column("*")).columns
    ['*']
    """
    is_pattern = name == "*" or (name.startswith("^") and name.endswith("$"))
    return cs.by_name(name).as_expr() if is_pattern else pl.col(name)
