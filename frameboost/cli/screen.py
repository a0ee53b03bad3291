"""Tables and facts on standard output: with rich in a terminal, if installed, otherwise as aligned text."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from frameboost.checks.messages import shortened

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["print_facts", "print_table"]

_LONGEST = 5_000  # characters of a fact or a title
_BAR = 24
_EIGHTHS = " ▏▎▍▌▋▊▉"


def print_facts(facts: Mapping[str, str], title: str = "") -> None:
    """Print names and values, one per line."""
    facts = {shortened(name): shortened(fact, _LONGEST) for name, fact in facts.items()}
    title = shortened(title, _LONGEST)
    if (console := _console()) is not None:
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 2))
        for name, fact in facts.items():
            grid.add_row(Text(name, style="cyan"), Text(fact))
        _with_title(console, grid, title)
        return
    width = max(map(len, facts), default=0)
    lines = [f"{name:<{width}}  {fact}".rstrip() for name, fact in facts.items()]
    print("\n".join([*([title] if title else []), *lines]))


def print_table(frame: pl.DataFrame, title: str = "", bars: str | None = None) -> None:
    """Print a frame, numbers with six digits; a terminal also shows the column ``bars`` as bars."""
    title, header = shortened(title, _LONGEST), [shortened(name) for name in frame.columns]
    rows = list(zip(*([_text(value) for value in column.to_list()] for column in frame), strict=True))
    sides = [">" if column.dtype.is_numeric() else "<" for column in frame]
    if (console := _console()) is not None:
        _print_rich(console, header, rows, sides, title, None if bars is None else frame[bars].to_list())
        return
    widths = [max(map(len, cells)) for cells in zip(header, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        aligned = (f"{cell:{side}{width}}" for cell, side, width in zip(cells, sides, widths, strict=True))
        return "  ".join(aligned).rstrip()

    print("\n".join([*([title] if title else []), line(header), *map(line, rows)]))


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return shortened(str(value))


# --- in a terminal ----------------------------------------------------------------------------------------------------


def _console() -> Console | None:
    """Return rich's console, without colours if NO_COLOR is set; None without rich or a terminal."""
    if not sys.stdout.isatty() or importlib.util.find_spec("rich") is None:
        return None
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False)


def _print_rich(
    console: Console, header: Sequence[str], rows: Sequence[Sequence[str]], sides: Sequence[str], title: str,
    bars: Sequence[float | None] | None,
) -> None:  # fmt: skip
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, side in zip(header, sides, strict=True):
        table.add_column(Text(name), justify="right" if side == ">" else "left", overflow="fold")
    if bars is not None:
        table.add_column("")
    for number, row in enumerate(rows):
        cells = [Text(cell) for cell in row]
        if bars is not None:
            cells.append(_bar(bars[number], bars))
        table.add_row(*cells)
    _with_title(console, table, title)


def _with_title(console: Console, table: Any, title: str) -> None:
    from rich.text import Text

    if title:
        console.print(Text(title, style="bold"))
    console.print(table)


def _bar(value: float | None, values: Sequence[float | None]) -> Any:
    """Return a bar with the length of a value relative to the largest magnitude; negative ones have another colour."""
    from rich.text import Text

    largest = max((abs(v) for v in values if v is not None and math.isfinite(v)), default=0.0)
    if value is None or not math.isfinite(value) or not largest:
        return Text("")
    eighths = round(abs(value) / largest * _BAR * 8)
    return Text("█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip(), style="red" if value < 0 else "blue")
