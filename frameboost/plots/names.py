"""Names and categories in charts: as the text that Vega takes, and within the script elements of HTML.

Vega-Lite and Vega put text into expressions and into objects of JavaScript, not always with escapes: a backslash in a
title or a feature named ``constructor`` is an error, and an SVG with a character that XML lacks ends the process.

Altair writes a chart's JSON into script elements as it is, so that a name could end the element. Charts are objects of
Altair, which users combine, save and show in notebooks in many ways. All of these go through one table of templates in
Altair, so that is where JSON is escaped: the drawing stays the same, of other charts too.
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
    r"""Return a text as a chart can hold it: controls as their pictures, without what Vega misreads.

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
    """Return a part of a chart, as Altair's object or as JSON, with all text in it `drawable_text`."""
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
    """Return a decorator's result: the function, of whose chart all text is `drawable_text`."""

    @wraps(draw)
    def call(*args: P.args, **kwargs: P.kwargs) -> C:
        return cast("C", drawable(draw(*args, **kwargs)))

    return call


# --- HTML -------------------------------------------------------------------------------------------------------------


def in_script(json_text: str) -> str:
    r"""Return JSON that is safe within a script element: no text in it ends the element or begins a comment.

    >>> print(in_script('{"a": "</script><!--"}'))
    {"a": "\u003c/script>\u003c!--"}
    """
    return json_text.replace("<", "\\u003c")


class _Escaping:
    """A template of Altair that escapes the chart."""

    def __init__(self, template: Any) -> None:
        self._template = template

    def render(self, *, spec: str, embed_options: str, **others: Any) -> str:
        """Return the HTML."""
        options = json.dumps({"sourceHeader": _SOURCE_HEADER, **json.loads(embed_options)})
        return str(self._template.render(spec=in_script(spec), embed_options=in_script(options), **others))


def escape_scripts() -> None:
    """Make Altair escape the JSON of charts in the HTML that it writes; only the first call does something."""
    templates = cast("dict[str, Any]", TEMPLATES)
    for name, template in templates.items():
        if not isinstance(template, _Escaping):
            templates[name] = _Escaping(template)
