"""The built site as it is seen: each page on a phone and on a desk, in light and dark; a page of each kind by axe."""

from pathlib import Path

import pytest

from tests.support.browser import CHROMIUM, Browser
from tests.support.shapes import other_shapes, shape

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "site"
AXE = ROOT / ".venv" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium"),
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="needs the site: python -m docs.site"),
]
WIDTHS = (360, 800, 1400)
SWITCH = "document.querySelector('input[data-md-color-scheme]:not(:checked)').click()"
TOO_WIDE = "Math.max(0, document.scrollingElement.scrollWidth - innerWidth)"
# Text that can't be told from what is behind the page, by WCAG's contrast of 4.5; strokes are halos of other text, and
# the two fills are on shapes.
FAINT = """(() => {
    const parts = (colour) => {  // rgb(1, 2, 3), or of a mixture color(srgb 0.1 0.2 0.3 / 0.9)
        const [r, g, b, opacity = 1] = colour.match(/[\\d.]+/g).map(Number);
        return [...[r, g, b].map((part) => colour.startsWith("color(") ? 255 * part : part), opacity];
    };
    const light = (part) => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    const brightness = ([r, g, b]) => 0.05 + 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
    const behind = parts(getComputedStyle(document.body).backgroundColor);
    const contrast = (each) => {
        const style = getComputedStyle(each), isDrawn = each.closest("svg");
        const [r, g, b, opacity] = parts(isDrawn ? style.fill : style.color);
        const share = opacity * (isDrawn ? style.fillOpacity : 1);
        const seen = brightness([r, g, b].map((part, i) => share * part + (1 - share) * behind[i]));
        return Math.max(seen, brightness(behind)) / Math.min(seen, brightness(behind));
    };
    const texts = 'article svg text:not([stroke]):not([fill=white]):not([fill="#010101"]), article p, article td';
    return [...document.querySelectorAll(texts)].filter((each) => each.textContent.trim() && contrast(each) < 4.5)
        .map((each) => `${each.textContent}: ${contrast(each).toFixed(1)}`).slice(0, 5);
})()"""


@pytest.fixture(scope="module")
def browser():
    with Browser() as opened:
        yield opened


def test_each_page_fits_and_logs_nothing(browser):
    found = {}
    # The links of 404.html begin at the root of the server.
    for number, page in enumerate(page for page in sorted(SITE.rglob("*.html")) if page.name != "404.html"):
        browser.log.clear()
        too_wide, faint = [], []
        widths = WIDTHS[:: -1 if number % 2 else 1]  # a page begins with the width at which the one before ended
        for width in widths:
            browser.show(width)
            if width == widths[0]:
                browser.open(page)
            too_wide.append(browser.value(TOO_WIDE))
        for _ in ("light", "dark"):
            faint += browser.value(FAINT)
            browser.value(SWITCH)
        if any(too_wide) or faint:
            found[page.relative_to(SITE).as_posix(), "too wide, faint"] = (too_wide, faint)
        if browser.log:
            found[page.relative_to(SITE).as_posix()] = list(browser.log)
    assert found == {}


# A page of each kind: what is written, listed, drawn, generated, moved and computed.
KINDS = (
    "index",
    "choose",
    "gallery/index",
    "gallery/churn",
    "parameters",
    "reference/evaluation",
    "mathematics",
    "playground",
)


def test_pages_have_their_shape(browser):
    found = {}
    for page in KINDS:
        for dark in (False, True):  # what the visitor prefers, where the page before has switched
            browser.show(WIDTHS[0], dark=dark)
            browser.open(SITE / f"{page}.html")
            for width in WIDTHS:
                browser.show(width, dark=dark)
                found[f"{page} {width} {'dark' if dark else 'light'}"] = shape(browser)
    assert other_shapes(found) == {}


@pytest.mark.parametrize(
    ("page", "width", "broken"),
    [
        ("index", 360, "document.querySelector('link[href*=\"main.\"]').remove()"),  # the theme's stylesheet
        ("gallery/index", 800, "document.querySelector('link[href*=\"site.css\"]').remove()"),
        ("gallery/churn", 360, "document.querySelectorAll('article svg').forEach((chart) => chart.remove())"),
        ("playground", 1400, "document.querySelectorAll('.md-sidebar').forEach((bar) => bar.remove())"),
    ],
)
def test_a_page_that_is_broken_has_another_shape(browser, monkeypatch, page, width, broken):
    monkeypatch.delenv("FRAMEBOOST_WRITE_GOLDEN", raising=False)
    browser.show(width)
    browser.open(SITE / f"{page}.html")
    browser.value(f"{broken}; 1")
    name = f"{page} {width} light"
    assert other_shapes({name: shape(browser)}).keys() == {name}


def test_the_filter_of_parameters_finds_names_of_other_libraries(browser):
    browser.show(800)
    browser.open(SITE / "parameters.html")
    browser.value("document.querySelector('.filter input').value = 'ETA shrink'")
    browser.value("document.querySelector('.filter input').dispatchEvent(new Event('input'))")
    shown = browser.value(
        "[...document.querySelectorAll('h2.group, h3.parameter')].filter((h) => !h.hidden).map((h) => h.id)"
    )
    assert shown == ["group-rounds", "learning_rate"]


def test_the_playground_shows_bars(browser):
    browser.show(800)
    browser.open(SITE / "playground.html")
    widths = "[...document.querySelectorAll('.contributions .bar')].map((bar) => bar.getBoundingClientRect().width)"
    assert max(browser.value(widths)) > 100  # half of the column, for the largest contribution


def test_the_search_finds_parameters_in_a_folder(browser):
    browser.show(1400)
    browser.open(SITE / "index.html")
    found = """new Promise((resolve) => {
        const script = Object.assign(document.createElement("script"), { src: "search.js" });
        script.onload = () => resolve(JSON.stringify(__index).includes("parameters.html#min_child_weight"));
        document.head.append(script);
    })"""
    assert browser.value(found)


@pytest.mark.skipif(not AXE.exists(), reason="needs axe-core: npm install --prefix .venv/axe axe-core@4")
def test_pages_can_be_read_by_everybody(browser):
    # The copy buttons of the theme are landmarks without names; tables of two columns may have no heads.
    left_out = "{'landmark-unique': {enabled: false}, 'empty-table-header': {enabled: false}}"
    found = {}
    for page in KINDS:
        browser.show(800)
        browser.open(SITE / f"{page}.html")
        browser.value(f"{AXE.read_text(encoding='utf-8')}; 1")
        for scheme, how in (("light", f"{{rules: {left_out}}}"), ("dark", "{runOnly: ['color-contrast']}")):
            violations = "r.violations.map((v) => [v.id, v.nodes[0].html.slice(0, 100)])"
            if violated := browser.value(f"axe.run(document, {how}).then((r) => {violations})"):
                found[page, scheme] = violated
            browser.value(SWITCH)
    assert found == {}
