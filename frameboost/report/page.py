"""The page around the sections: head, contents, charts as JSON, and Vega's JavaScript, once.

Nothing is loaded from elsewhere: a policy in the page's head forbids it. Charts are drawn by Vega as SVG when the page
opens; the styles of dark pages and of paper are CSS over these drawings, so that neither draws anew.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

import altair as alt
import vl_convert

from frameboost.plots.names import drawable, in_script
from frameboost.report.markup import Chart, Raw, Section, escaped
from frameboost.version import __version__

__all__ = ["page"]

_HERE = Path(__file__).parent
_DIGITS = 7  # of numbers in charts: more than a pixel can show


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
        if isinstance(part, Chart):
            if not is_row:
                blocks.append('<div class="charts">')
            blocks.append(_figure(part, charts))
        elif is_row:
            blocks += ["</div>", part]
        else:
            blocks.append(part)
        is_row = isinstance(part, Chart)
    blocks += ["</div>"] if is_row else []
    return f'<section id="{section.name}"><h2>{escaped(section.title)}</h2>{"".join(blocks)}</section>'


def _figure(part: Chart, charts: list[dict[str, Any]]) -> str:
    charts.append(_specification(part.chart))
    title = f"<h3>{escaped(part.title)}</h3>" if part.title else ""
    caption = f"<figcaption>{escaped(part.caption)}</figcaption>" if part.caption else ""
    return f'<figure>{title}<div class="chart" id="chart-{len(charts) - 1}"></div>{caption}</figure>'


def _specification(chart: Any) -> dict[str, Any]:
    """Return Vega-Lite's JSON of a chart, whatever theme or way of data the user has chosen for Altair."""
    with alt.data_transformers.enable("default", max_rows=None), alt.theme.enable("none"):
        found: dict[str, Any] = drawable(chart.to_dict(validate=False))
    found["datasets"] = _rounded(found.get("datasets", {}))
    return found


def _rounded(value: Any) -> Any:
    """Return data with few digits, and null for what JSON lacks, such as the first threshold of ROC, infinity."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list) else value


@cache
def _vega() -> str:
    """Return Vega, Vega-Lite and vega-embed as one script."""
    known = vl_convert.get_vegalite_versions()
    wanted = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", wanted if wanted in known else None)
    # Within JavaScript's strings and regular expressions, where alone these can stand, \x3c is the same character.
    return str(bundle).replace("</script", "\\x3c/script").replace("<!--", "\\x3c!--").replace("<script", "\\x3cscript")
