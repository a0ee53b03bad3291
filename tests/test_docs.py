"""The documentation: paths, modules and links in it exist, and its drawing of the layers is that of the package."""

import re
from importlib import import_module
from pathlib import Path

from tests.support.cases import cases
from tests.support.package import MODULES, ROOT

ARCHITECTURE = ROOT / "docs" / "architecture.md"
PAGES = [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "sql" / "README.md", ROOT / "benchmarks" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]  # fmt: skip
_PATH = re.compile(r"`((?:frameboost|tests|sql|docs|benchmarks|examples)/[\w./-]*)`")
_MODULE = re.compile(r"`(frameboost(?:\.\w+)+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@cases("page", PAGES)
def test_paths_that_a_page_names_exist(page):
    named = _PATH.findall(text_of(page))
    assert [path for path in named if not (ROOT / path).exists()] == []
    assert page != ARCHITECTURE or len(named) > 30


@cases("page", PAGES)
def test_links_lead_somewhere(page):
    lost = []
    for link in _LINK.findall(text_of(page)):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    assert lost == []


@cases("page", PAGES)
def test_modules_that_a_page_names_exist(page):
    for name in _MODULE.findall(text_of(page)):
        module, _, member = name.rpartition(".")
        assert name in MODULES or hasattr(import_module(module), member), name


def test_the_algorithm_in_sql_has_all_files():
    named = re.findall(r"`(\w+\.sql)`", text_of(ROOT / "sql" / "README.md"))
    assert set(named) == {path.name for path in (ROOT / "sql").glob("*.sql")}
