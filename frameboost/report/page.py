"""The page of a report: text, tables and charts as HTML.

All text from the data or the model is escaped here, and nowhere else: `escaped` for HTML, `drawable` and `in_script`
for charts. A content security policy in the page forbids loading anything. Vega draws charts as SVG when the page
opens; dark and print styles are CSS over these drawings, without redrawing.
"""

from __future__ import annotations

import datetime as dt
import html
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

import altair as alt
import vl_convert

from frameboost.errors import printable
from frameboost.plots.names import drawable, in_script
from frameboost.version import __version__

__all__ = [
    "Chart", "Panel", "Raw", "Section", "bar", "block_of_code", "code", "escaped", "facts", "folded", "interval",
    "note", "number", "page", "paragraph", "percent", "table",
]  # fmt: skip

_HERE = Path(__file__).parent
_DIGITS = 7  # of numbers in charts: more than a pixel can show

# --- text, tables and charts ------------------------------------------------------------------------------------------

AltairChart = alt.Chart | alt.LayerChart | alt.VConcatChart | alt.HConcatChart


class Raw(str):
    """A text that is HTML already."""

    __slots__ = ()

    def __add__(self, other: str) -> Raw:
        return Raw(f"{self}{escaped(other)}")


@dataclass(frozen=True)
class Chart:
    """A chart of `frameboost.plots` with its name; title and subtitle are placed above and below it."""

    chart: AltairChart
    name: str = ""


class Panel(Raw):
    """HTML that is placed beside charts or other panels if the page is wide enough."""

    __slots__ = ()


@dataclass(frozen=True)
class Section:
    """A section of the page: heading and blocks; consecutive panels and charts share rows."""

    name: str
    title: str
    parts: Sequence[Raw | Chart] = field(default_factory=tuple)


def escaped(text: object) -> Raw:
    """Return text as HTML, without bidirectional marks; HTML (`Raw`) is unchanged.

    >>> escaped('<b> & "c"'), escaped(Raw("<b>"))
    ('&lt;b&gt; &amp; &quot;c&quot;', '<b>')
    """
    return text if isinstance(text, Raw) else Raw(html.escape(printable(str(text))))


def code(text: object) -> Raw:
    """Return a name or a value in the font of code."""
    return Raw(f"<code>{escaped(text)}</code>")


def paragraph(*texts: object, kind: str = "") -> Raw:
    """Return a paragraph of texts, concatenated without spaces."""
    opening = f'<p class="{kind}">' if kind else "<p>"
    return Raw(f"{opening}{''.join(map(escaped, texts))}</p>")


def note(*texts: object) -> Raw:
    """Return a paragraph in small print."""
    return paragraph(*texts, kind="note")


def facts(rows: Sequence[tuple[object, object]], *, kind: str = "") -> Raw:
    """Return names and values as a list of definitions, side by side."""
    items = "".join(f"<div><dt>{escaped(name)}</dt><dd>{escaped(value)}</dd></div>" for name, value in rows)
    return Raw(f'<dl class="facts {kind}">{items}</dl>')


def table(header: Sequence[object], rows: Sequence[Sequence[object]], *, numbers: Sequence[int] = ()) -> Raw:
    """Return a table; ``numbers`` are the columns, from 0, that are aligned to the right."""

    def cell(tag: str, index: int, value: object) -> str:
        kind = ' class="number"' if index in numbers else ""
        return f"<{tag}{kind}>{escaped(value)}</{tag}>"

    head = "".join(cell("th", i, value) for i, value in enumerate(header))
    body = "".join(f"<tr>{''.join(cell('td', i, v) for i, v in enumerate(row))}</tr>" for row in rows)
    return Raw(f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>')


def bar(share: float) -> Raw:
    """Return a bar of a share from 0 to 1 of the width of its cell."""
    width = 100 * min(1.0, max(0.0, share)) if math.isfinite(share) else 0.0
    return Raw(f'<span class="bar"><span style="width:{width:.1f}%"></span></span>')


def folded(summary: str, content: Raw) -> Raw:
    """Return content that is collapsed below its summary."""
    return Raw(f"<details><summary>{escaped(summary)}</summary>{content}</details>")


def block_of_code(text: str, summary: str, *, is_open: bool) -> Raw:
    """Return collapsible code with a copy button."""
    state = " open" if is_open else ""
    return Raw(
        f'<details class="code"{state}><summary>{escaped(summary)}</summary>'
        f'<button type="button" class="copy">Copy</button><pre><code>{html.escape(text)}</code></pre></details>'
    )


def number(value: float | None, digits: int = 4) -> str:
    """Return a number with ``digits`` significant digits.

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


# --- the page ---------------------------------------------------------------------------------------------------------


def page(title: str, subtitle: Raw, sections: Sequence[Section]) -> str:
    """Return the HTML of a report."""
    charts: list[dict[str, Any]] = []
    body = "\n".join(_section(section, charts) for section in sections)
    contents = "".join(f'<a href="#{s.name}">{escaped(s.title)}</a>' for s in sections)
    return Template((_HERE / "page.html").read_text(encoding="utf-8")).substitute(
        title=escaped(title),
        subtitle=subtitle,
        made=escaped(f"{dt.datetime.now():%Y-%m-%d %H:%M}, frameboost {__version__}"),
        contents=contents,
        body=body,
        style=(_HERE / "page.css").read_text(encoding="utf-8"),
        charts=in_script(json.dumps(charts, separators=(",", ":"), allow_nan=False)),
        vega=_vega(),
        script=(_HERE / "page.js").read_text(encoding="utf-8"),
    )


def _section(section: Section, charts: list[dict[str, Any]]) -> str:
    """Return the HTML of a section, and append its charts."""
    blocks, is_row = [], False
    for part in section.parts:
        if is_row != isinstance(part, Chart | Panel):
            is_row = not is_row
            blocks.append('<div class="charts">' if is_row else "</div>")
        if isinstance(part, Chart):
            blocks.append(_figure(part, charts))
        else:
            blocks.append(f'<div class="panel">{part}</div>' if isinstance(part, Panel) else part)
    blocks += ["</div>"] if is_row else []
    return f'<section id="{section.name}"><h2>{escaped(section.title)}</h2>{"".join(blocks)}</section>'


def _figure(part: Chart, charts: list[dict[str, Any]]) -> str:
    specification = _specification(part.chart)
    heading = specification.pop("title")
    charts.append(specification)
    name = f'<div class="name">{escaped(part.name)}</div>'
    title, caption = (escaped(" ".join(heading[key])) for key in ("text", "subtitle"))
    chart = f'<div class="chart" id="chart-{len(charts) - 1}"></div>'
    return f"<figure>{name}<h3>{title}</h3><div>{chart}<figcaption>{caption}</figcaption></div></figure>"


def _specification(chart: Any) -> dict[str, Any]:
    """Return Vega-Lite's JSON of a chart, independent of the user's Altair theme and data transformer."""
    with alt.data_transformers.enable("default", max_rows=None), alt.theme.enable("none"):
        specification: dict[str, Any] = drawable(chart.to_dict(validate=False))
    specification["datasets"] = _rounded(specification.get("datasets", {}))
    return specification


def _rounded(value: Any) -> Any:
    """Return data with few digits, and null for values that JSON lacks, such as the infinite first threshold of ROC."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list) else value


@cache
def _vega() -> str:
    """Return Vega, Vega-Lite and vega-embed as one script."""
    known = vl_convert.get_vegalite_versions()
    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", version if version in known else None)
    # Within JavaScript's strings and regular expressions, where alone these can stand, \x3c is the same character.
    return str(bundle).replace("</script", "\\x3c/script").replace("<!--", "\\x3c!--").replace("<script", "\\x3cscript")
