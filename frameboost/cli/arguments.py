"""Option parsing that the commands share: the parser, value types, and usage errors."""

from __future__ import annotations

import argparse
import csv
import json
import re
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

from frameboost.checks.messages import listed, shown
from frameboost.errors import ParameterError, printable

__all__ = [
    "Commands", "Parser", "UsageError", "add_command", "add_target_and_model", "check_keep",
    "names", "pairs", "setting", "value",
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
    commands: Commands, name: str, help_: str, run: Callable[[argparse.Namespace], None], example: str
) -> Parser:
    """Return the parser of a new command, whose help ends with the example."""
    parser = commands.add_parser(
        name, prog=f"frameboost {name}", help=help_, description=f"{help_}.", epilog=f"example:\n  {example}"
    )
    parser.set_defaults(run=run, parser=parser)
    return parser


def names(text: str) -> list[str]:
    """Return comma-separated names; a name with a comma in it is in double quotes.

    >>> names('id,day'), names('"a,b",c'), names("")
    (['id', 'day'], ['a,b', 'c'], [])
    """
    try:
        return next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error:
        raise argparse.ArgumentTypeError(
            f"must have names with a line break in double quotes, not {shown(text)}"
        ) from None


def pairs(text: str) -> dict[str, str]:
    """Return a mapping written as ``x=X,y=Y``."""
    found = {}
    for item in names(text):
        name, equals, other = item.partition("=")
        if not equals or not name or not other:
            raise argparse.ArgumentTypeError(f"must be like x=X,y=Y, not {shown(text)}")
        found[name] = other
    return found


def setting(text: str, example: str = "max_depth=3") -> tuple[str, Any]:
    """Return a name and a value written as ``max_depth=3``."""
    name, equals, given = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"must be like {example}, not {shown(text)}")
    return name.strip().replace("-", "_"), value(given.strip())


def value(text: str) -> Any:
    """Parse a value: a number, ``true``, ``none``, JSON, a list ``0.1,0.9``, a mapping ``x=1,y=-1``, or text.

    The parameter itself checks the type.

    >>> value("5"), value("1e-3"), value("none"), value("hist"), value("0.1,0.9"), value("x=1,y=-1"), value('[["x"]]')
    (5, 0.001, None, 'hist', [0.1, 0.9], {'x': 1, 'y': -1}, [['x']])
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
    if re.fullmatch(r".+=\s*[-+]?\d+", text, re.DOTALL):
        return {name: value(number) for name, number in pairs(text).items()}
    return [value(part) for part in text.split(",")] if "," in text else text


def check_keep(keep: list[str], known: list[str]) -> None:
    """Raise `ParameterError` if a column to keep is not in the data."""
    for name in keep:
        if name not in known:
            raise ParameterError(f"column {shown(name)} is not in the data, which has {listed(known)}")


def add_target_and_model(parser: Parser) -> None:
    """Add what commands that train have in common: the columns and the model's file."""
    add = parser.add_argument
    add("--target", type=names, required=True, metavar="COLUMN", help="the column to predict, or several")
    add("-o", "--out", required=True, metavar="MODEL",
        help="the model's file: JSON, or binary if it is named .ubj ('-': JSON on standard output)")  # fmt: skip
    add("--features", type=names, action="extend", metavar="COLUMNS",
        help="the columns to predict from, as a,b; by default all that have no other role")  # fmt: skip
    add("--exclude", type=names, action="extend", metavar="COLUMNS", help="columns that are not to be features, as a,b")
