"""The pages of the repository as those of the site.

The pages are written for GitHub. On the site

- a link to another page of the repository leads to that page's place on the site, and one to source code is text;
- formulas between dollars are MathML, which browsers draw without a script;
- figures are part of the page, so that their colours follow light and dark;
- examples are marked as Python sessions, without the directives of doctest;
- notebooks are pages.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from posixpath import relpath

from docs.site.notebooks import page_of

__all__ = ["site_pages", "stage"]

_ELSEWHERE = {
    "README.md": "index.md", "docs/index.md": "index.md", "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md",
    "sql/README.md": "sql.md", "benchmarks/README.md": "benchmarks.md",
}  # fmt: skip
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")
_FIGURE = re.compile(r"^!\[([^\]]*)\]\(([^)\s]+\.svg)\)$", re.MULTILINE)
_FORMULAS = re.compile(
    r"^\$\$\n(.*?)\n\$\$$|(?<![\\$\w])\$(?![\s$])([^$\n]+?)(?<!\s)\$(?![\w$])", re.DOTALL | re.MULTILINE
)
_BAR = re.compile(r"<mo[^>]*>(?:&#x0007C;|\|)</mo>")  # around a number; set without the space of an operator
_CODE = re.compile(r"^(```.*?^```$)|(``[^`]+``|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
_DIRECTIVE = re.compile(r"  # doctest: [+\w, ]+$", re.MULTILINE)


def site_pages(root: Path) -> dict[str, str]:
    """Return the site's page of each page and notebook of the repository, by their paths in both.

    >>> pages = site_pages(Path(__file__).parents[2])
    >>> pages["docs/gain.md"], pages["CHANGELOG.md"], pages["docs/notebooks/churn.ipynb"]
    ('gain.md', 'changelog.md', 'notebooks/churn.md')
    """
    own = sorted(path.relative_to(root / "docs").as_posix() for path in (root / "docs").rglob("*.md"))
    books = sorted(path.relative_to(root / "docs").as_posix() for path in (root / "docs").rglob("*.ipynb"))
    pages = {f"docs/{path}": path for path in own}
    return pages | {f"docs/{path}": str(Path(path).with_suffix(".md").as_posix()) for path in books} | _ELSEWHERE


def stage(root: Path, folder: Path) -> None:
    """Write the site's pages and settings into a folder."""
    pages = site_pages(root)
    for source, target in pages.items():
        if source == "README.md":  # the front door of the repository; the site's is docs/index.md
            continue
        path = folder / "pages" / target
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(staged(root, source, pages), encoding="utf-8")
        if source.endswith(".ipynb"):
            shutil.copy(root / source, path.parent)
    shutil.copy(root / "docs" / "site" / "site.css", folder / "pages")
    shutil.copy(root / "docs" / "site" / "zensical.toml", folder)


def staged(root: Path, source: str, pages: dict[str, str]) -> str:
    """Return the text of one page of the site, made of a page or notebook of the repository."""
    path = root / source
    text = page_of(path) if path.suffix == ".ipynb" else path.read_text(encoding="utf-8")
    if source == "docs/reference/parameters.md":
        text += _parameter_sections()
    text = _FIGURE.sub(lambda found: _figure(path.parent / found[2], found[1]), text)
    return _outside_code(text, lambda prose: _formulas(_links(prose, source, pages, root)))


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
        if link.endswith(".ipynb") and source.endswith(".ipynb"):  # the notebook itself, beside its page
            return found[0]
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


def _figure(path: Path, about: str) -> str:
    svg = path.read_text(encoding="utf-8").strip()
    return f'<figure class="drawing" role="img" aria-label="{about}">{svg}</figure>'


def _parameter_sections() -> str:
    """Return a section for each training parameter, with a heading that can be linked."""
    from dataclasses import fields
    from typing import get_type_hints

    from frameboost.parameters.parameters import Parameters, values_text

    hints, sections = get_type_hints(Parameters), []
    for field in fields(Parameters):
        about = field.metadata
        symbol = f"; in the paper {about['symbol']}" if about["symbol"] else ""
        engines = "" if about["engines"] == "all" else f"; engines: {about['engines']}"
        values = values_text(field, hints[field.name])
        sections += [
            f"\n## {field.name} {{ #{field.name} data-toc-label='{field.name}' }}\n",
            f"{values}; default `{field.default!r}`{symbol}{engines}\n",
            f"{about['doc']}\n",
        ]
    return "\n".join(sections)
