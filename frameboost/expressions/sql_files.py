"""Statements of the SQL engine, rendered from the files in ``sql/``.

The folder is at the top of the repository in a checkout, and inside the package once it is installed.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

__all__ = ["render"]


@cache
def _statement(name: str) -> str:
    package = Path(__file__).parents[1]
    folder = next(f for f in (package / "sql", package.parent / "sql") if (f / "histograms.sql").is_file())
    lines = (folder / f"{name}.sql").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if line.strip() and not line.startswith("--"))


def render(name: str, **parts: object) -> str:
    """Return the statement in ``sql/<name>.sql``, without its header, with every ``{part}`` replaced."""
    return _statement(name).format_map(parts)
