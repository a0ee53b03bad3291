"""The files in ``sql/``: at the top of the repository in a checkout, inside the package once installed."""

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
    """Return the statement of ``sql/<name>.sql`` with every ``{part}`` filled in, without its header."""
    return _statement(name).format_map(parts)
