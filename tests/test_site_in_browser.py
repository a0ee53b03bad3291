"""The built site as it is seen: each page on a phone, a tablet and a desk, in light and dark."""

from pathlib import Path

import pytest

from tests.support.browser import CHROMIUM, Browser

SITE = Path(__file__).parents[1] / "build" / "site"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium"),
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="needs the site: python -m docs.site"),
]
TOO_WIDE = "Math.max(0, document.scrollingElement.scrollWidth - innerWidth)"
# Text that has the colour of what is behind it; strokes are halos of other text, white is on a shape.
INVISIBLE = """(() => {
    const behind = getComputedStyle(document.body).backgroundColor;
    const colour = (each) => getComputedStyle(each)[each.namespaceURI.endsWith("svg") ? "fill" : "color"];
    return [...document.querySelectorAll("article svg text:not([stroke]):not([fill=white]), article p, article td")]
        .filter((each) => each.textContent.trim() && colour(each) === behind)
        .map((each) => each.textContent).slice(0, 5);
})()"""


@pytest.fixture(scope="module")
def browser():
    with Browser() as opened:
        yield opened


def test_each_page_fits_and_logs_nothing(browser):
    found = {}
    for page in sorted(SITE.rglob("*.html")):
        if page.name == "404.html":  # its links begin at the root of the server
            continue
        browser.log.clear()
        browser.open(page)
        for width, dark in ((1400, False), (800, True), (360, False)):
            browser.show(width, dark=dark)
            wide, hidden = browser.value(TOO_WIDE), browser.value(INVISIBLE)
            if wide or hidden:
                found[page.relative_to(SITE).as_posix(), width, dark] = (wide, hidden)
        if browser.log:
            found[page.relative_to(SITE).as_posix()] = list(browser.log)
    assert found == {}


def test_the_filter_of_parameters_finds_names_of_other_libraries(browser):
    browser.show(800)
    browser.open(SITE / "parameters.html")
    browser.value("document.querySelector('.filter input').value = 'ETA shrink'")
    browser.value("document.querySelector('.filter input').dispatchEvent(new Event('input'))")
    shown = browser.value(
        "[...document.querySelectorAll('h2.group, h3.parameter')].filter((h) => !h.hidden).map((h) => h.id)"
    )
    assert shown == ["group-rounds", "learning_rate"]


def test_the_search_finds_parameters_in_a_folder(browser):
    browser.show(1400)
    browser.open(SITE / "index.html")
    found = """new Promise((resolve) => {
        const script = Object.assign(document.createElement("script"), { src: "search.js" });
        script.onload = () => resolve(JSON.stringify(__index).includes("parameters.html#min_child_weight"));
        document.head.append(script);
    })"""
    assert browser.value(found)
