"""The options of commands, derived from the signatures and docstrings of the public functions that they call.

Name, type, default and help of an option come from the function's parameter (`add_options`). A command lists the
parameters that are options, and what differs on a command line: text instead of Python objects, files instead of
frames. `arguments` passes the options on.
"""

from __future__ import annotations

import argparse
import csv
import inspect
import json
import re
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Literal, NoReturn, TypeAlias

import frameboost
from frameboost.checks.arguments import BY_NAME, column, columns
from frameboost.checks.messages import shown
from frameboost.database.database_model import DatabaseModel
from frameboost.errors import printable
from frameboost.model.model import Model

__all__ = [
    "COLUMNS", "Commands", "Parser", "UsageError", "add_command", "add_options", "arguments", "names", "one_or_several",
    "pairs", "setting", "value",
]  # fmt: skip


class UsageError(Exception):
    """An invalid combination of options."""


class Parser(argparse.ArgumentParser):
    """An argument parser without abbreviated options, whose errors are one line."""

    def __init__(self, prog: str, **more: Any) -> None:
        super().__init__(prog, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **more)

    def error(self, message: str) -> NoReturn:
        """Print the message and exit with code 2."""
        self.exit(2, f"frameboost: {printable(message)} (see {self.prog} --help)\n")


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


def add_command(
    commands: Commands, name: str, help_: str, run: Callable[[argparse.Namespace], None], example: str, notes: str = ""
) -> Parser:
    """Return the parser of a new command; its help ends with notes, unwrapped, and the example."""
    epilog = f"{notes}\n\nexample:\n  {example}" if notes else f"example:\n  {example}"
    parser = commands.add_parser(name, prog=f"frameboost {name}", help=help_, description=f"{help_}.", epilog=epilog)
    parser.set_defaults(run=run, parser=parser)
    return parser


# --- options of a function's parameters -------------------------------------------------------------------------------


def add_options(
    parser: argparse._ActionsContainer, function: Callable[..., Any], *names: str, **differences: Mapping[str, Any]
) -> None:
    """Add an option for each of these parameters of a public function, from its signature and docstring.

    Parameters
    ----------
    parser
        A parser, or a group of its options.
    function
        The function.
    *names
        The parameters that become options unchanged. Switches are False by default.
    **differences
        Overrides by parameter: arguments of ``add_argument``, and ``option`` for the name. The value is stored under
        the parameter's name.

    Examples
    --------
    >>> parser = Parser("frameboost score")
    >>> add_options(parser, Model.predict, "base_margin", output={"option": "--as"})
    >>> parser.parse_args(["--base-margin", "a,b", "--as", "class"])
    Namespace(base_margin=['a', 'b'], output='class')
    """
    signature, hints = inspect.signature(function), typing.get_type_hints(inspect.unwrap(function))
    for name in (*names, *differences):
        default = signature.parameters[name].default
        keywords = _from_hint(name, hints[name])
        if default is inspect.Parameter.empty:
            keywords["required"] = True
        else:
            keywords["default"] = default
        keywords["help"] = _help(function, name)
        keywords |= differences.get(name, {})
        if keywords.get("default") is not None and hints[name] is not bool:
            keywords["help"] += f"; default {keywords['default']}"
        option = keywords.pop("option", f"--{name.replace('_', '-')}")
        parser.add_argument(option, dest=name, **keywords)


def arguments(options: argparse.Namespace, function: Callable[..., Any]) -> dict[str, Any]:
    """Return the arguments of a function from its options, by name; unused options keep the default."""
    known = set(inspect.signature(function).parameters) - {"data"}
    return {name: value for name, value in vars(options).items() if name in known and value is not None}


def _from_hint(name: str, hint: Any) -> dict[str, Any]:
    """Return how to parse an option, from the type of the parameter."""
    if hint is bool:
        return {"action": "store_true"}
    members = [hint, *typing.get_args(hint)]
    origins = [typing.get_origin(member) for member in members]
    if Literal in origins:  # the function itself refuses others, with a suggestion
        words = typing.get_args(members[origins.index(Literal)])
        are_numbers = all(isinstance(word, int) for word in words)
        return {"metavar": "{" + ",".join(map(str, words)) + "}", **({"type": int} if are_numbers else {})}
    check = BY_NAME.get(name)
    if {Sequence, Iterable} & set(origins):
        return {"type": one_or_several, "metavar": "COLUMNS"} if check is columns else dict(COLUMNS)
    if str in members:
        return {"metavar": "COLUMN"} if check in (column, columns) else {}
    if float in members:
        return {"type": float, "metavar": "NUMBER"}
    return {"type": int, "metavar": "INT"} if int in members else {}


def _help(function: Callable[..., Any], name: str) -> str:
    """Return the first sentence of a parameter's documentation, following references to other functions."""
    text = _documented(function).get(name, "")
    reference = re.match(r"As (?:for|in) `(?:frameboost\.)?(?:Model\.)?(\w+)`", text)
    if reference is not None:
        other = reference[1]
        of_others = (getattr(owner, other, None) for owner in (Model, DatabaseModel, frameboost))
        return _help(next(filter(None, of_others)), name)
    sentence = re.split(r"(?<=\.)\s+(?![a-z])", text)[0].removesuffix(".")
    return (sentence[:1].lower() + sentence[1:]).replace("`", "").replace("%", "%%")


@cache
def _documented(function: Callable[..., Any]) -> dict[str, str]:
    """Return the text of each parameter in a function's docstring; nothing under ``python -OO``."""
    _, _, section = (inspect.getdoc(function) or "").partition("Parameters\n----------\n")
    section = re.split(r"^\S.*\n-{3,}$", section, maxsplit=1, flags=re.MULTILINE)[0]
    texts: dict[str, str] = {}
    for head, text in re.findall(r"^(\S.*)\n((?:(?: .*)?\n?)+?)(?=^\S|\Z)", section, re.MULTILINE):
        for name in head.partition(" : ")[0].split(", "):
            texts[name] = " ".join(text.split())
    return texts


# --- values -----------------------------------------------------------------------------------------------------------


def names(text: str) -> list[str]:
    """Return comma-separated names; names with a comma are in double quotes.

    >>> names('id,day'), names('"a,b",c'), names("")
    (['id', 'day'], ['a,b', 'c'], [])
    """
    try:
        return next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error:
        raise argparse.ArgumentTypeError(
            f"must have names with a line break in double quotes, not {shown(text)}"
        ) from None


def one_or_several(text: str) -> str | list[str]:
    """Return a name, or a list of comma-separated names.

    >>> one_or_several("a"), one_or_several("a,b")
    ('a', ['a', 'b'])
    """
    parts = names(text)
    return parts[0] if len(parts) == 1 else parts


COLUMNS: Mapping[str, Any] = {"type": names, "action": "extend", "metavar": "COLUMNS"}
"""An option of several names, which may be repeated."""


def pairs(text: str) -> dict[str, str]:
    """Return a mapping written as ``x=X,y=Y``, or as JSON for any names.

    >>> pairs('x=X,y=Y'), pairs('{"a=b": "c,d"}')
    ({'x': 'X', 'y': 'Y'}, {'a=b': 'c,d'})
    """
    with suppress(ValueError, RecursionError):
        if isinstance(read := json.loads(text), dict) and all(isinstance(other, str) for other in read.values()):
            return read
    mapping = {}
    for item in names(text):
        name, equals, other = item.partition("=")
        if not equals or not name or not other:
            raise argparse.ArgumentTypeError(f"must be like x=X,y=Y, not {shown(text)}")
        mapping[name] = other
    return mapping


def setting(text: str, example: str = "max_depth=3") -> tuple[str, Any]:
    """Return a name and a value written as ``max_depth=3``."""
    name, equals, written = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"must be like {example}, not {shown(text)}")
    return name.strip().replace("-", "_"), value(written.strip())


_NUMBER = r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?"


def value(text: str) -> Any:
    """Parse a value: a number, ``true``, ``none``, JSON, a list ``0.1,0.9``, a mapping ``x=1,y=-1``, or text.

    The parameter itself checks the type.

    >>> value("5"), value("1e-3"), value("none"), value("hist"), value("0.1,0.9"), value("x=1,y=-1"), value('[["x"]]')
    (5, 0.001, None, 'hist', [0.1, 0.9], {'x': 1, 'y': -1}, [['x']])
    >>> value("share=0.2"), value("x=.5,y=1e-3")
    ({'share': 0.2}, {'x': 0.5, 'y': 0.001})
    """
    for read in (int, float, json.loads):
        try:
            return read(text)
        except (ValueError, RecursionError):
            continue
    if text in ("None", "none"):
        return None
    if text in ("True", "False"):
        return text == "True"
    if re.fullmatch(rf".+=\s*{_NUMBER}", text, re.DOTALL):
        return {name: value(number) for name, number in pairs(text).items()}
    return [value(part) for part in text.split(",")] if "," in text else text
