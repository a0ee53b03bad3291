"""The table `docs/xgboost.toml` as data; ``python -m tests.support.compatibility`` writes `docs/xgboost.md` from it."""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["PAGE", "ROOT", "SECTIONS", "STATUSES", "Row", "markdown", "read_rows"]

ROOT = Path(__file__).parents[2]
SOURCE, PAGE = ROOT / "docs" / "xgboost.toml", ROOT / "docs" / "xgboost.md"
STATUSES = ("same", "different", "not there")
SECTIONS = {
    "global": "Global configuration",
    "general": "General parameters",
    "tree": "Parameters of the tree booster",
    "categories": "Parameters for categorical features",
    "dart": "Parameters of DART",
    "linear": "Parameters of the linear booster",
    "task": "Parameters of the learning task",
    "ranking": "Parameters of learning to rank",
    "objectives": "Objectives",
    "metrics": "Metrics",
    "train": "Arguments of `xgboost.train`",
    "cv": "Arguments of `xgboost.cv`",
    "data": "Arguments of `DMatrix` and `QuantileDMatrix`",
    "predict": "Arguments of `Booster.predict` and `inplace_predict`",
    "booster": "Methods and attributes of `Booster`",
    "estimators": "Estimators for scikit-learn",
    "newer": "New in XGBoost 3.3 and 3.4",
}
_INTRODUCTION = """\
# XGBoost, side by side

Every parameter of [XGBoost 3.2](https://xgboost.readthedocs.io/en/release_3.2.0/parameter.html), every objective and
metric, every argument and method of its Python package, with its counterpart here; and the changes of
[3.3 and 3.4](#new-in-xgboost-33-and-34).

- **same**: same meaning and default, perhaps under another name (column "here"). A test compares it with XGBoost's.
- **different**: available, with the difference in the remark.
- **not there**: an error, never ignored. The remark says why, or what to use instead.

{counts}

Trees are XGBoost's node for node if both libraries have the same candidate splits (`tree_method="exact"`, or `hist`
on the same cuts) and nothing is drawn at random. XGBoost sums in float32, so it may break a tie differently. A value
out of [range](parameters.md) is an error here; XGBoost accepts some (`eta=2`). Further differences:
[objectives](objectives.md#differences-from-xgboost), [metrics](metrics.md#differences-from-xgboost),
[ranking](ranking.md#differences-from-xgboost).

`python -m tests.support.compatibility` writes this page from [`xgboost.toml`](xgboost.toml), which also names the tests
of each row."""


@dataclass(frozen=True)
class Row:
    """One feature of XGBoost."""

    section: str
    name: str
    why: str = ""
    status: str = ""
    ours: str = ""
    tests: list[str] = field(default_factory=list)
    refused: dict[str, Any] = field(default_factory=dict)

    @property
    def here(self) -> str:
        """Its name in frameboost."""
        return self.ours or self.name


def read_rows() -> list[Row]:
    """Return all rows, in the order of the page."""
    tables = tomllib.loads(SOURCE.read_text(encoding="utf-8"))
    return [Row(section, name, **entries) for section, rows in tables.items() for name, entries in rows.items()]


def markdown() -> str:
    """Return the text of `docs/xgboost.md`."""
    rows = read_rows()
    parts = [_INTRODUCTION.format(counts=_counts(rows))]
    for section, title in SECTIONS.items():
        parts += [f"## {title}", _table([row for row in rows if row.section == section])]
    return "\n\n".join(parts) + "\n"


def _counts(rows: list[Row]) -> str:
    groups = {"parameters": list(SECTIONS)[:8], "objectives": ["objectives"], "metrics": ["metrics"]}
    groups["arguments and methods in Python"] = list(SECTIONS)[10:16]
    lines = ["| | same | different | not there |", "|---|---|---|---|"]
    for title, sections in groups.items():
        count = Counter(row.status for row in rows if row.section in sections)
        lines.append(f"| {title} | {' | '.join(str(count[status]) for status in STATUSES)} |")
    return "\n".join(lines)


def _table(rows: list[Row]) -> str:
    """Return the rows as a table; those that say the same share a line."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        groups.setdefault((row.status, row.ours, row.why), []).append(f"`{row.name}`")
    lines = ["| XGBoost | | here | remarks |", "|---|---|---|---|"]
    for (status, ours, why), names in groups.items():
        lines.append(f"| {', '.join(names)} | {status} | {f'`{ours}`' if ours else ''} | {why} |")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(markdown(), encoding="utf-8", newline="\n")
