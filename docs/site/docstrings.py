"""Docstrings as the reference shows them: those made at run time, with names and pages as links.

Griffe reads source files. It does not see that `frameboost.fit` and the estimators get the table of parameters when
they are imported.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

import griffe

import frameboost as fb

__all__ = ["Docstrings"]

_PAGE = re.compile(r"``docs/([\w-]+)\.md``")
_NAME = re.compile(r"(?<![`\w])`([A-Za-z_][\w.]*)`(?!`)")


class Docstrings(griffe.Extension):
    """Replace each docstring by that of the imported object, and link the names in it."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Do so for one object, which griffe has just read."""
        if obj.docstring is None or not (obj.is_function or obj.is_class or obj.is_attribute):
            return
        made = getattr(_imported(obj), "__doc__", None)
        if made and not obj.is_attribute:
            obj.docstring.value = inspect.cleandoc(made)
        obj.docstring.value = _linked(obj.docstring.value, obj)


def _imported(obj: griffe.Object) -> object:
    """Return the object itself, or None if it cannot be had by its path."""
    found: object = import_module(obj.module.path)
    for name in obj.path.removeprefix(f"{obj.module.path}.").split("."):
        found = getattr(found, name, None)
    return found


def _linked(text: str, obj: griffe.Object) -> str:
    """Return a docstring with names of public objects and of pages as links; examples stay as they are."""
    lines = []
    for line in text.split("\n"):
        if line.lstrip().startswith((">>>", "...")):
            lines.append(line)
            continue
        line = _PAGE.sub(lambda found: f"[{found[1]}](../{found[1]}.md)", line)
        lines.append(_NAME.sub(lambda found: _link(found, obj), line))
    return "\n".join(lines)


def _link(found: re.Match[str], obj: griffe.Object) -> str:
    name = found[1]
    if (path := _public(name, obj)) is not None:
        return f"[`{name}`][{path}]"
    return found[0]


def _public(name: str, obj: griffe.Object) -> str | None:
    """Return the path in the reference of what a docstring calls by a name, or None if it is not there."""
    first, _, member = name.removeprefix("frameboost.").partition(".")
    shown = {*fb.__all__, "FrameBoostRegressor", "FrameBoostClassifier", "FrameBoostRanker"}
    if first in shown:
        if member and not (hasattr(getattr(fb, first), member) and not member.startswith("_")):
            return None
        return f"frameboost.{first}" + (f".{member}" if member else "")
    owner = obj if obj.is_class else obj.parent
    if owner is not None and owner.name in shown and not member and hasattr(getattr(fb, owner.name), name):
        return f"frameboost.{owner.name}.{name}"
    return None
