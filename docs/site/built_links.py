"""Links of a built site that lead nowhere: to pages, files or anchors that it does not have."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["lost_links"]


class _Page(HTMLParser):
    """The links and the anchors of a page.

    >>> page = _Page('<h2 id="gain">Gain</h2> <a href="#gain">here</a> <img src="tree.svg">')
    >>> page.anchors, page.links
    ({'gain'}, ['#gain', 'tree.svg'])
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and (name == "id" or (tag == "a" and name == "name")):
                self.anchors.add(value)
            elif value and name in ("href", "src"):
                self.links.append(value)


def lost_links(site: Path) -> list[str]:
    """Return the links within the site that lead nowhere, each as ``page: link``."""
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    lost = []
    for path, page in pages.items():
        if path.name == "404.html":  # its links begin at the root of the server
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists() or (
                parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors
            ):
                lost.append(f"{path.relative_to(site)}: {link}")
    return lost
