"""The pages of the repository as those of the site.

The pages are written for GitHub. On the site

- a link to another page of the repository leads to that page's place on the site, and one to source code is text;
- formulas between dollars are MathML, which browsers draw without a script;
- figures are part of the page, so that their colours follow light and dark;
- examples are marked as Python sessions, without the directives of doctest, and charts are shown where they are made;
- the gallery shows a chart of each of its pages;
- parameters have a section each, and a class a table of its members by purpose.
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from posixpath import relpath
from textwrap import indent
from types import MappingProxyType
from typing import get_type_hints

import frameboost as fb
from docs.site.examples import charts_of, draws_charts, names_of, on_page, renamed, with_charts
from docs.site.playground import SCRIPT, playground
from frameboost.parameters.parameters import ALIASES, Parameters, markdown_table, values_text

__all__ = ["site_pages", "stage"]

_ELSEWHERE = {
    "README.md": "index.md", "docs/index.md": "index.md", "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md",
    "sql/README.md": "sql.md", "benchmarks/README.md": "benchmarks.md",
}  # fmt: skip
# What pages have no room for beside them.
_WIDE = {"docs/index.md": "navigation, toc", "docs/gallery/index.md": "toc"}
_CLASSES = {"docs/reference/model.md": fb.Model, "docs/reference/database-model.md": fb.DatabaseModel}
FILTER = Path(__file__).with_name("filter.js")
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")
_FIGURE = re.compile(r"^!\[([^\]]*)\]\(([^)\s]+\.svg)\)$", re.MULTILINE)
_FORMULAS = re.compile(
    r"^\$\$\n(.*?)\n\$\$$|(?<![\\$\w])\$(?![\s$])([^$\n]+?)(?<!\s)\$(?![\w$])", re.DOTALL | re.MULTILINE
)
_TABS = re.compile(r"^<!-- tabs -->\n(.*?)^<!-- /tabs -->$", re.DOTALL | re.MULTILINE)
_PURPOSE = re.compile(r"^    # --- (.+?) -+$|^    def ([a-z]\w*)\(", re.MULTILINE)
# The parameter that each group begins with, in the order of their declaration.
_GROUPS = {
    "n_estimators": "Rounds", "max_depth": "Trees and penalties", "max_bin": "Candidate splits",
    "base_score": "Start and constraints", "categorical_features": "Categories", "linear_tree": "Leaves",
    "subsample": "Sampling", "booster": "DART, forests, the seed", "scale_pos_weight": "Objectives",
    "early_stopping_rounds": "Stopping and threads",
}  # fmt: skip
_CARD = re.compile(r"^- \[(.+?)\]\(([\w-]+)\.md\): (.*)$", re.MULTILINE)
_BAR = re.compile(r"<mo[^>]*>(?:&#x0007C;|\|)</mo>")  # around a number; set without the space of an operator
_CODE = re.compile(r"^(```.*?^```$)|(``[^`]+``|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
_DIRECTIVE = re.compile(r"  # doctest: [+\w, ]+$", re.MULTILINE)


def site_pages(root: Path) -> dict[str, str]:
    """Return the site's page of each page of the repository, by their paths in both.

    >>> pages = site_pages(Path(__file__).parents[2])
    >>> pages["docs/gain.md"], pages["CHANGELOG.md"]
    ('gain.md', 'changelog.md')
    """
    own = sorted(path.relative_to(root / "docs").as_posix() for path in (root / "docs").rglob("*.md"))
    return {f"docs/{path}": path for path in own} | _ELSEWHERE


def stage(root: Path, folder: Path) -> None:
    """Write the site's pages and settings into a folder."""
    pages, charts = site_pages(root), dict[str, list[str]]()
    for source, target in pages.items():
        if source == "README.md":  # the front door of the repository; the site's is docs/index.md
            continue
        path = folder / "pages" / target
        path.parent.mkdir(parents=True, exist_ok=True)
        drawn = charts_of(root / source) if draws_charts(root / source) else {}
        charts[target] = list(drawn.values())
        text = staged(root, source, pages, drawn)
        if source == "docs/playground.md":
            made = names_of(root / source)
            text += f"\n{playground(made['model'], made['rows'])}\n"
        path.write_text(text, encoding="utf-8")
    gallery = folder / "pages" / "gallery" / "index.md"
    gallery.write_text(_with_thumbnails(gallery.read_text(encoding="utf-8"), charts), encoding="utf-8")
    for file in (root / "docs" / "site" / "logo.svg", root / "docs" / "site" / "site.js", SCRIPT, FILTER):
        shutil.copy(file, folder / "pages")
    for name, place in (("site.css", folder / "pages"), ("zensical.toml", folder)):
        text = (root / "docs" / "site" / name).read_text(encoding="utf-8")
        (place / name).write_text(text.replace("{version}", fb.__version__), encoding="utf-8")


def staged(root: Path, source: str, pages: dict[str, str], charts: Mapping[int, str] = MappingProxyType({})) -> str:
    """Return the text of one page of the site, made of a page of the repository.

    ``charts`` are those of its examples (`docs.site.examples.charts_of`).
    """
    path = root / source
    text = path.read_text(encoding="utf-8")
    if source in _WIDE:
        text = f"---\nhide: [{_WIDE[source]}]\n---\n\n{text}"
    if source == "docs/parameters.md":
        text = text.replace(markdown_table(), _parameter_sections())
    if source in _CLASSES:
        head, rest = text.split("\n\n", 1)
        text = f"{head}\n\n{_by_purpose(_CLASSES[source])}\n\n{rest}"
    text = with_charts(text, dict.fromkeys(charts, "\1"))
    text = _FIGURE.sub(lambda found: _figure(path.parent / found[2], found[1]), text)
    text = _outside_code(text, lambda prose: _formulas(_links(prose, source, pages, root)))
    text = _TABS.sub(_tabs, text)
    figures = iter([charts[line] for line in sorted(charts)])  # what is in them is no Markdown
    return re.sub("\1", lambda _: next(figures), text)


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """Change the prose of a page: what is in no block of code and in no code span.

    A link may have a code span as its text, so spans are hidden while the prose is changed.

    >>> _outside_code("a `a` [`a`](a)", lambda prose: prose.replace("a", "b"))
    'b `a` [`a`](b)'
    """
    hidden: list[str] = []

    def hide(found: re.Match[str]) -> str:
        hidden.append(_session(found[1]) if found[1] else found[2])
        return f"\0{len(hidden) - 1}\0"

    changed = change(_CODE.sub(hide, text))
    return re.sub("\0(\\d+)\0", lambda found: hidden[int(found[1])], changed)


def _session(block: str) -> str:
    r"""Return a block of code; an example that is a Python session is marked as one.

    >>> _session("```python\n>>> 1 + 1  # doctest: +ELLIPSIS\n2\n\n```")
    '```pycon\n>>> 1 + 1\n2\n```'
    """
    if not block.startswith("```python\n>>>"):
        return block
    return _DIRECTIVE.sub("", block.replace("```python", "```pycon", 1)).replace("\n\n```", "\n```")


def _links(text: str, source: str, pages: dict[str, str], root: Path) -> str:
    def placed(found: re.Match[str]) -> str:
        words, link = found[1], found[2]
        if "://" in link or link.startswith("#"):
            return found[0]
        path, _, anchor = link.partition("#")
        named = Path(os.path.normpath((root / source).parent / path)).relative_to(root).as_posix()
        target = pages.get(named) or pages.get(f"{named}/README.md")
        if target is None:  # source code; a link to no file stays, for the build to refuse
            return words if (root / named).exists() else found[0]
        here = relpath(target, Path(pages[source]).parent.as_posix())
        return f"[{words}]({here}{'#' + anchor if anchor else ''})"

    return _LINK.sub(placed, text)


def _formulas(text: str) -> str:
    def tight(formula: str) -> str:
        return _BAR.sub('<mo stretchy="false" lspace="0" rspace="0">|</mo>', formula)

    def drawn(found: re.Match[str]) -> str:
        from latex2mathml.converter import convert  # of the extra `docs`; pages without formulas do without

        if found[1]:
            return f'<div class="formula">{tight(convert(found[1].replace(chr(10), " "), display="block"))}</div>'
        return f'<span class="formula">{tight(convert(found[2]))}</span>'  # a line can't begin with `<math`

    return _FORMULAS.sub(drawn, text)


def _tabs(found: re.Match[str]) -> str:
    r"""Return sections as tabs.

    >>> _TABS.sub(_tabs, "<!-- tabs -->\n### a\n\n1\n\n### b\n2\n<!-- /tabs -->").splitlines()
    ['=== "a"', '', '    1', '', '=== "b"', '', '    2', '']
    """
    sections = re.findall(r"^### ([^\n]+)\n\s*(.*?)\s*(?=^### |\Z)", found[1], re.DOTALL | re.MULTILINE)
    return "".join(f'=== "{title}"\n\n{indent(body, "    ")}\n\n' for title, body in sections)


def _by_purpose(kind: type) -> str:
    """Return a table of a class's methods and properties with their first sentences, by purpose.

    Comments in the source of the class name the purposes.
    """
    by_purpose: dict[str, dict[str, str]] = {}
    members: dict[str, str] = {}
    for found in _PURPOSE.finditer(inspect.getsource(kind)):
        purpose, name = found.groups()
        if purpose:
            members = by_purpose.setdefault(purpose, {})
        else:
            members[name] = (inspect.getdoc(getattr(kind, name)) or "").partition("\n\n")[0].replace("\n", " ")
    lines = ["| member | description |", "|---|---|"]
    for purpose, sentences in by_purpose.items():
        lines += [f"| **{purpose}** | |"] if sentences else []
        for name, sentence in sentences.items():
            lines.append(f"| [`{name}`](#frameboost.{kind.__name__}.{name}) | {sentence.replace('|', '&#124;')} |")
    return "\n".join(lines)


def _with_thumbnails(text: str, charts: Mapping[str, Sequence[str]]) -> str:
    r"""Return the page of the gallery with its list as cards, each with the first chart of its page.

    >>> print(_with_thumbnails("# Gallery\n\n- [Churn](churn.md): by `fit`.\n", {"gallery/churn.md": ["<svg/>"]}))
    # Gallery
    <BLANKLINE>
    <div class="gallery">
    <a href="churn.html"><svg/><b>Churn</b> by <code>fit</code>.</a>
    </div>
    """

    def card(found: re.Match[str]) -> str:
        title, page, about = found.groups()
        about = re.sub(r"`([^`]+)`", r"<code>\1</code>", about)  # Markdown in HTML is not rendered
        chart = renamed(charts[f"gallery/{page}.md"][0], f"{page}-")
        return f'<a href="{page}.html">{chart}<b>{title}</b> {about}</a>'

    head, _, entries = text.partition("\n- ")
    return f'{head}\n<div class="gallery">\n{_CARD.sub(card, f"- {entries}")}</div>'


def _figure(path: Path, about: str) -> str:
    svg = on_page(path.read_text(encoding="utf-8").strip())
    return f'<figure class="drawing" role="img" aria-label="{about}">{svg}</figure>'


def _parameter_sections() -> str:
    """Return a section for each training parameter, in groups, with headings that can be linked and a filter."""
    sections = [f'<div class="filter"></div><script src="{FILTER.name}" defer></script>\n']
    hints = get_type_hints(Parameters)
    for field in fields(Parameters):
        if field.name in _GROUPS:
            title = _GROUPS[field.name]
            sections.append(f"## {title} {{ #group-{title.split()[0].lower()} .group }}\n")
        about = field.metadata
        facts = [values_text(field, hints[field.name]), f"default `{field.default!r}`"]
        if about["symbol"]:
            facts.append(f"in the paper {about['symbol']}")
        if about["engines"] != "all":
            facts.append(f"engines: {about['engines']}")
        if others := [f"`{alias}`" for alias, name in ALIASES.items() if name == field.name]:
            facts.append(f"also called {', '.join(others)}")
        heading = f"### {field.name} {{ #{field.name} .parameter data-toc-label='{field.name}' }}"
        sections += [heading, "", f"{about['doc']}\n", f"{'; '.join(facts)}\n{{ .facts }}\n"]
    return "\n".join(sections)
