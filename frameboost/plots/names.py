"""Make names and categories safe in charts: as text for Vega, and inside script elements of HTML.

Vega-Lite and Vega put text into expressions and JavaScript objects, not always escaped: a backslash in a title or a
feature named ``constructor`` is an error, and an SVG with a character that XML forbids kills the process. Altair writes
a chart's JSON into script elements unescaped, so that a name could close the element. Users combine, save and show
Altair charts in many ways; all of them use one table of templates in Altair, so JSON is escaped there. Charts, other
people's too, look the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import altair as alt
import polars as pl
from altair.utils.html import TEMPLATES

__all__ = ["drawable", "escape_scripts", "in_script", "with_drawable_text"]

P = ParamSpec("P")
C = TypeVar("C")

# Properties that each object of JavaScript has.
_OF_OBJECTS = frozenset([
    "__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__", "__proto__", "constructor",
    "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString", "valueOf",
])  # fmt: skip
_JOINERS = "\u200c\u200d"  # within words of Persian and Hindi, and emoji
# The page that "View Source" opens has the JSON of the chart as HTML.
_SOURCE_HEADER = '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'">'


# --- text -------------------------------------------------------------------------------------------------------------


def drawable_text(text: str, *, is_title: bool = False) -> str:
    r"""Return a text that is safe in a chart: control characters as pictures, nothing that Vega misreads.

    >>> drawable_text("a\x1b[31m\u202eb"), drawable_text("C:\\x", is_title=True), drawable_text("constructor")
    ('a␛[31m�b', 'C:⧵x', 'constructor\xa0')
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c == "\n" or c in _JOINERS else _picture(c) for c in text)
    if is_title:
        text = text.replace("\n", " ").replace("\\", "⧵")
    return f"{text}\N{NO-BREAK SPACE}" if text in _OF_OBJECTS else text


def _picture(character: str) -> str:
    code = ord(character)
    return " " if character.isspace() else chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else "\ufffd"


def drawable(part: Any, *, is_title: bool = False) -> Any:
    """Apply `drawable_text` to all text in a part of a chart, an Altair object or JSON."""
    if isinstance(part, str):
        return drawable_text(part, is_title=is_title)
    if isinstance(part, list):
        return [drawable(inner, is_title=is_title) for inner in part]
    if isinstance(part, dict):
        return {
            name: drawable(inner, is_title=name == "title" or (is_title and name in ("text", "subtitle")))
            for name, inner in part.items()
        }
    if isinstance(part, pl.DataFrame):
        texts = [column for column in part if column.dtype == pl.String]
        return part.with_columns(_drawable_column(column) for column in texts)
    if isinstance(part, alt.SchemaBase):
        part._kwds.update(drawable(part._kwds, is_title=is_title))
    return part


def _drawable_column(column: pl.Series) -> pl.Series:
    texts = {text: drawable_text(text) for text in column.unique().drop_nulls()}
    changed = {text: drawn for text, drawn in texts.items() if drawn != text}
    return column.replace(list(changed), list(changed.values())) if changed else column


def with_drawable_text(draw: Callable[P, C]) -> Callable[P, C]:
    """Decorate a function so that all text of its chart goes through `drawable_text`."""

    @wraps(draw)
    def call(*args: P.args, **kwargs: P.kwargs) -> C:
        return cast("C", drawable(draw(*args, **kwargs)))

    return call


# --- HTML -------------------------------------------------------------------------------------------------------------


def in_script(json_text: str) -> str:
    r"""Return JSON that is safe inside a script element: no text closes the element or opens a comment.

    >>> print(in_script('{"a": "</script><!--"}'))
    {"a": "\u003c/script>\u003c!--"}
    """
    return json_text.replace("<", "\\u003c")


class _Escaping:
    """An Altair template that escapes the chart."""

    def __init__(self, template: Any) -> None:
        self._template = template

    def render(self, *, spec: str, embed_options: str, **others: Any) -> str:
        """Return the HTML."""
        options = json.dumps({"sourceHeader": _SOURCE_HEADER, **json.loads(embed_options)})
        return str(self._template.render(spec=in_script(spec), embed_options=in_script(options), **others))


def escape_scripts() -> None:
    """Make Altair escape the JSON of charts in HTML; repeated calls do nothing."""
    templates = cast("dict[str, Any]", TEMPLATES)
    for name, template in templates.items():
        if not isinstance(template, _Escaping):
            templates[name] = _Escaping(template)
