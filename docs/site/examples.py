"""Pages whose examples draw charts: run their examples, and show each chart where it is made.

An example that assigns ``chart`` is followed by its drawing on the site. ``python -m docs.site.examples PAGE ...``
writes into pages what their examples print now.
"""

from __future__ import annotations

import doctest
import json
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import chdir
from html import escape
from pathlib import Path
from typing import Any

__all__ = ["charts_of", "draws_charts", "names_of", "on_page", "renamed", "store", "svg_of", "with_charts"]

_FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS  # those of the tests
_CHART = re.compile(r"^chart = ", re.MULTILINE)
_IN_SESSION = re.compile(r"^>>> chart = ", re.MULTILINE)
_IDS = re.compile(r'(\bid="|url\(#|href="#)(?:chart\d+-)?')
# What a chart takes from its theme. The colours are stand-ins that no chart has, for the colour of the page's text.
_INK, _FAINT = "#010203", "#020304"
_AXIS = {"labelColor": _INK, "titleColor": _INK, "gridColor": _FAINT, "domainColor": _FAINT, "tickColor": _FAINT}
_THEME: dict[str, Any] = {
    "aria": False, "background": "transparent", "axis": _AXIS,
    "axisY": {"titlePadding": 14},  # the browser's font may be wider than the one that labels are measured in
    "legend": {"labelColor": _INK, "titleColor": _INK},
    "header": {"labelColor": _INK, "titleColor": _INK}, "title": {"color": _INK, "subtitleColor": _INK},
    "view": {"stroke": None},
}  # fmt: skip
_BEHIND = re.compile(r'<(?:rect|path)[^>]*>|<text[^>]* stroke="white"[^>]*>')
_ROLES = re.compile(r' (?:role|aria-roledescription|aria-hidden|aria-label)="[^"]*"')
_GRID = re.compile(r'stroke="(?:#020304|#ddd)"')
_TEXT_COLOUR = re.compile(r'"(?:#010203|#000000|#000|black)"')
_QUIET = re.compile(r'(<text[^>]*) fill="#666(?:666)?"')


def draws_charts(path: Path) -> bool:
    """Return whether a page has an example that draws a chart."""
    return _IN_SESSION.search(path.read_text(encoding="utf-8")) is not None


class _Runner(doctest.DocTestRunner):
    """Runs the examples of a page, keeps what each prints, and the figure of each chart, by the example's line."""

    def __init__(self, *, draw: bool) -> None:
        super().__init__(optionflags=_FLAGS)
        self.draw, self.printed, self.charts = draw, dict[int, str](), dict[int, str]()

    def _keep(self, test: doctest.DocTest, example: doctest.Example, got: str) -> None:
        self.printed[example.lineno] = got
        if self.draw and _CHART.match(example.source):
            svg = renamed(svg_of(test.globs["chart"]), f"chart{len(self.charts)}-")
            about = escape(" ".join(example.source.split()), quote=True)
            self.charts[example.lineno] = f'<figure class="chart" role="img" aria-label="{about}">{svg}</figure>'

    def report_success(self, out: Any, test: doctest.DocTest, example: doctest.Example, got: str) -> None:
        self._keep(test, example, got)

    def report_failure(self, out: Any, test: doctest.DocTest, example: doctest.Example, got: str) -> None:
        self._keep(test, example, got)
        if self.draw:
            super().report_failure(out, test, example, got)


def names_of(path: Path) -> dict[str, Any]:
    """Run the examples of a page; return the names that they leave."""
    return _run(path, draw=False)[0].globs


def _run(path: Path, *, draw: bool) -> tuple[doctest.DocTest, _Runner]:
    text = path.read_text(encoding="utf-8")
    test = doctest.DocTestParser().get_doctest(text, {"__name__": "__main__"}, path.name, str(path), 0)
    runner = _Runner(draw=draw)
    with tempfile.TemporaryDirectory() as folder, chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "XDG_RUNTIME_DIR")  # of the wheel of PostgreSQL, on machines without it
        runner.run(test, clear_globs=False)
    return test, runner


def charts_of(path: Path) -> dict[int, str]:
    """Run the examples of a page; return its charts, as figures, by the line behind the example that makes each.

    Raises
    ------
    SystemExit
        If an example prints something else than the page says.
    """
    test, runner = _run(path, draw=True)
    if runner.failures:
        raise SystemExit(f"{path}: examples print something else; `python -m docs.site.examples {path}` writes it")
    ends = {example.lineno: example.lineno + example.source.count("\n") for example in test.examples}
    return {ends[line]: figure for line, figure in runner.charts.items()}


def store(path: Path) -> None:
    """Write into a page what its examples print; where the page leaves out a part by ``...``, that stays."""
    test, runner = _run(path, draw=False)
    lines, checker = path.read_text(encoding="utf-8").splitlines(), doctest.OutputChecker()
    for example in reversed(test.examples):
        got = runner.printed.get(example.lineno)
        if got is None or example.exc_msg:
            continue
        # What is shown whole is as it is printed, to each blank.
        as_shown = "..." in example.want or got.rstrip() == example.want.rstrip()
        if as_shown and checker.check_output(example.want, got, _FLAGS):
            continue
        first = example.lineno + example.source.count("\n")
        shown = "\n".join(line.rstrip() or "<BLANKLINE>" for line in got.rstrip("\n").split("\n"))
        lines[first : first + example.want.count("\n")] = shown.splitlines()
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def svg_of(chart: Any) -> str:
    """Return a chart as SVG that is part of a page: on any background, in the colour of the page's text."""
    import vl_convert

    # Text that is black or white by a condition is on a coloured shape, and stays as it is.
    found = json.loads(
        json.dumps(chart.to_dict()),
        object_hook=lambda part: (
            part | {"value": "#010101"} if part.get("value") == "black" and "condition" in part else part
        ),
    )
    found["config"] = found.get("config", {}) | _THEME
    return on_page(vl_convert.vegalite_to_svg(found)).replace("\n", " ")


def on_page(svg: str) -> str:
    """Return a drawing with black in the colour of the page's text, and white in that of what lies behind.

    It is one image with a description, so its parts have no roles of their own.
    """
    svg = _QUIET.sub(r'\1 fill="currentColor" fill-opacity="0.8"', _ROLES.sub("", svg))
    svg = _TEXT_COLOUR.sub('"currentColor"', _GRID.sub('stroke="currentColor" stroke-opacity="0.2"', svg))
    # Shapes and halos of text, but not text on a coloured shape.
    return _BEHIND.sub(lambda found: found[0].replace('"white"', '"var(--md-default-bg-color, white)"'), svg)


def renamed(svg: str, prefix: str) -> str:
    """Return a drawing whose parts have names with a prefix, by which they differ from others of the page.

    >>> renamed('<clipPath id="clip0"/><g clip-path="url(#clip0)"/>', "chart1-")
    '<clipPath id="chart1-clip0"/><g clip-path="url(#chart1-clip0)"/>'
    """
    return _IDS.sub(rf"\g<1>{prefix}", svg)


def with_charts(text: str, charts: Mapping[int, str]) -> str:
    r"""Return a page with figures between its examples, each behind the line that ``charts`` has it by.

    >>> with_charts("```python\n>>> chart = 1\n>>> 2\n2\n\n```", {2: "<svg/>"}).split("\n\n")
    ['```python\n>>> chart = 1', '```', '<svg/>', '```python\n>>> 2\n2', '```']
    """
    lines = text.splitlines()
    for line in sorted(charts, reverse=True):
        lines[line:line] = ["", "```", "", charts[line], "", "```python"]
    return "\n".join(lines).replace("```python\n\n```", "").rstrip("\n") + ("\n" if text.endswith("\n") else "")


if __name__ == "__main__":
    os.environ.setdefault("COLUMNS", "120")
    for page in sys.argv[1:]:
        store(Path(page).resolve())
        print(page)
