"""Charts and a report in a real browser: each is drawn, the network is left alone, the console stays empty."""

import os
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from tests.support.browser import Browser
from tests.support.hostile import SCRIPT, hostile, hostile_charts

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="needs Chromium: apt-get install chromium")]


class Drawings(HTMLParser):
    """The charts of a page: whether each is said to be drawn, and the shapes of its marks."""

    def __init__(self) -> None:
        super().__init__()
        self.charts: dict[str, tuple[bool, int]] = {}
        self.attributes: dict[str, str | None] = {}
        self.title = ""
        self._chart, self._open, self._marks = "", "", []

    def handle_starttag(self, tag, attrs):
        given, self._open = dict(attrs), tag
        if tag == "html":
            self.attributes = given
        if tag == "div" and (given.get("id") or "").startswith("chart-"):
            self._chart = given["id"]
            self.charts[self._chart] = (given.get("data-drawn") == "yes", 0)
        if tag == "g":
            self._marks.append("role-mark" in (given.get("class") or ""))
        if tag in ("path", "text") and any(self._marks):
            is_drawn, shapes = self.charts[self._chart]
            self.charts[self._chart] = (is_drawn, shapes + 1)

    def handle_endtag(self, tag):
        if tag == "g":
            self._marks.pop()

    def handle_data(self, data):
        if self._open == "title" and not self._chart:
            self.title += data


def opened(page: str, tmp_path, *options: str) -> tuple[Drawings, list[str]]:
    """Return the drawings of a page in the browser, and the lines of its console."""
    path = tmp_path / "report.html"
    path.write_text(page, encoding="utf-8")
    root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    done = subprocess.run(
        [BROWSER, "--headless=new", "--disable-gpu", *root, f"--user-data-dir={tmp_path / 'profile'}",
         "--disable-background-networking", "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND",
         "--enable-logging=stderr", "--virtual-time-budget=20000", *options, "--dump-dom", path.as_uri()],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    found = Drawings()
    found.feed(done.stdout)
    return found, re.findall(r".*CONSOLE.*", done.stderr)


def test_every_chart_is_drawn_and_the_page_asks_nobody(hostile_page, tmp_path):
    # Of a request to elsewhere the console says that the page's policy refuses it, as of this one, and of no other.
    wrong = '<img src="https://example.org/x.png"></body>'
    found, console = opened(hostile_page.replace("</body>", wrong), tmp_path, "--blink-settings=preferredColorScheme=0")
    assert len(console) == 1
    assert "Content Security Policy" in console[0]
    assert "https://example.org/x.png" in console[0]
    assert found.attributes["data-charts"] == "drawn"
    assert found.attributes["data-theme"] == "dark"
    assert len(found.charts) == hostile_page.count('class="chart"') >= 9
    assert {name: marks for name, (is_drawn, marks) in found.charts.items() if not is_drawn or marks == 0} == {}
    assert f"</title>{SCRIPT}" in found.title


def test_no_name_in_a_chart_is_run(tmp_path):
    import vl_convert

    charts = {f"chart-{number}": chart for number, chart in enumerate(hostile_charts().values())}
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").replace("</script", "\\x3c/script")
    parts = [
        re.sub(r'<script type="text/javascript" src="https:[^"]*"></script>', "", chart.to_html(
            fullhtml=False, output_div=name, embed_options={"renderer": "svg"}
        ))
        for name, chart in charts.items()
    ]  # fmt: skip
    parts += [model._repr_html_() for model in hostile().models]
    # Unlike a report's, the page lets scripts run and images load: a title that changes and the console would tell.
    head = f'<!DOCTYPE html><html><head><meta charset="utf-8"><title>quiet</title><script>{bundle}</script></head>'
    found, console = opened(f"{head}<body>{''.join(parts)}</body></html>", tmp_path)
    assert console == []
    assert found.title == "quiet"
    assert found.charts.keys() == charts.keys()
    assert [name for name, (_, marks) in found.charts.items() if marks == 0] == []


def test_the_page_fits_phones_screens_and_paper(hostile_page, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(hostile_page, encoding="utf-8")
    ready = "document.documentElement.dataset.charts ? done() : setTimeout(wait, 50)"
    drawn = f"new Promise(done => (function wait() {{ {ready} }})())"
    with Browser() as browser:
        for width in (360, 800, 1400):
            browser.show(width, dark=True)
            browser.open(path)
            browser.value(drawn)
            assert browser.value("document.documentElement.scrollWidth") <= width
            charts = "Array.from(document.querySelectorAll('.chart svg'), svg => svg.getBoundingClientRect().right)"
            assert max(browser.value(charts)) <= width
        # On paper nothing is dark, whatever the screen is.
        browser.call("Emulation.setEmulatedMedia", media="print")
        assert browser.value("getComputedStyle(document.body).backgroundColor") == "rgba(0, 0, 0, 0)"
        assert browser.value("getComputedStyle(document.querySelector('nav')).display") == "none"
        light = "getComputedStyle(document.querySelector('section')).backgroundColor"
        assert browser.value(light) == "rgb(255, 255, 255)"
    assert browser.log == []
