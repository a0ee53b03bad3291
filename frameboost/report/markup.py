"""Text, tables and charts as HTML; all that comes from the data or the model is escaped here, and nowhere else."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import altair as alt

from frameboost.errors import printable

__all__ = [
    "Chart", "Raw", "Section", "bar", "block_of_code", "code", "escaped", "facts", "interval", "number", "paragraph",
    "percent", "table",
]  # fmt: skip

AltairChart = alt.Chart | alt.LayerChart | alt.VConcatChart | alt.HConcatChart


class Raw(str):
    """A text that is HTML already."""

    __slots__ = ()

    def __add__(self, other: str) -> Raw:
        return Raw(f"{self}{escaped(other)}")


@dataclass(frozen=True)
class Chart:
    """A chart with the sentence below it."""

    chart: AltairChart
    caption: str = ""
    title: str = ""


@dataclass(frozen=True)
class Section:
    """A section of the page: its heading, and blocks of HTML and charts; charts that follow each other share a row."""

    name: str
    title: str
    parts: Sequence[Raw | Chart] = field(default_factory=tuple)


def escaped(text: object) -> Raw:
    """Return a text as HTML, without what would turn the text around it; what is HTML already stays as it is.

    >>> escaped('<b> & "c"'), escaped(Raw("<b>"))
    ('&lt;b&gt; &amp; &quot;c&quot;', '<b>')
    """
    return text if isinstance(text, Raw) else Raw(html.escape(printable(str(text))))


def code(text: object) -> Raw:
    """Return a name or a value in the font of code."""
    return Raw(f"<code>{escaped(text)}</code>")


def paragraph(*texts: object, kind: str = "") -> Raw:
    """Return a paragraph of texts, which follow each other without a space."""
    opening = f'<p class="{kind}">' if kind else "<p>"
    return Raw(f"{opening}{''.join(map(escaped, texts))}</p>")


def facts(rows: Sequence[tuple[object, object]], *, kind: str = "") -> Raw:
    """Return names and values as a list of definitions, side by side."""
    found = "".join(f"<div><dt>{escaped(name)}</dt><dd>{escaped(value)}</dd></div>" for name, value in rows)
    return Raw(f'<dl class="facts {kind}">{found}</dl>')


def table(header: Sequence[object], rows: Sequence[Sequence[object]], *, numbers: Sequence[int] = ()) -> Raw:
    """Return a table; ``numbers`` are the columns, from 0, that are aligned to the right."""

    def cell(tag: str, place: int, value: object) -> str:
        kind = ' class="number"' if place in numbers else ""
        return f"<{tag}{kind}>{escaped(value)}</{tag}>"

    head = "".join(cell("th", place, value) for place, value in enumerate(header))
    body = "".join(f"<tr>{''.join(cell('td', p, v) for p, v in enumerate(row))}</tr>" for row in rows)
    return Raw(f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>')


def bar(share: float) -> Raw:
    """Return a bar of a share from 0 to 1 of the width of its cell."""
    width = 100 * min(1.0, max(0.0, share)) if math.isfinite(share) else 0.0
    return Raw(f'<span class="bar"><span style="width:{width:.1f}%"></span></span>')


def block_of_code(text: str, summary: str, *, is_open: bool) -> Raw:
    """Return code that can be folded away, with a button that copies it."""
    state = " open" if is_open else ""
    return Raw(
        f'<details class="code"{state}><summary>{escaped(summary)}</summary>'
        f'<button type="button" class="copy">Copy</button><pre><code>{html.escape(text)}</code></pre></details>'
    )


def number(value: float | None, digits: int = 4) -> str:
    """Return a number with so many significant digits.

    >>> number(0.123456), number(12345.6), number(1234567.8), number(None), number(float("nan")), number(2.0)
    ('0.1235', '12,346', '1,234,568', '–', '–', '2')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if abs(value) >= 10.0**digits and abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:,.{digits}g}"


def interval(low: float | None, high: float | None) -> str:
    """Return the ends of an interval, with as many decimals as give its width two digits.

    >>> interval(0.98071, 0.98812), interval(1234.5, 1301.2), interval(None, None)
    ('0.9807 to 0.9881', '1,234 to 1,301', '–')
    """
    if low is None or high is None:
        return "–"
    width = high - low
    if not width > 0 or max(abs(low), abs(high)) >= 1e15 or width < 1e-12:
        return f"{number(low)} to {number(high)}"
    decimals = max(0, 1 - math.floor(math.log10(width)))
    return f"{low:,.{decimals}f} to {high:,.{decimals}f}"


def percent(share: float | None) -> str:
    """Return a share as a percentage.

    >>> percent(0.1234), percent(0.00012), percent(None)
    ('12.3 %', '0.012 %', '–')
    """
    if share is None or not math.isfinite(share):
        return "–"
    return f"{100 * share:.1f} %" if abs(share) >= 0.001 or share == 0 else f"{100 * share:.2g} %"
