"""Translate messages of Python functions for the command line: parameters become options, values shell words.

Errors and warnings are written for Python: a command says ``--valid 0.2`` for ``valid=0.2``. Quoted text, the user's
names, labels and values, is unchanged. Advice that differs on the command line has both forms
(`frameboost.checks.messages.advice`).
"""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from collections.abc import Iterator
from typing import Any

__all__ = ["as_options"]

_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
# A parameter and its equals sign, a value of several parts, a text, a word. A quote within a word is an apostrophe.
_TOKEN = re.compile(
    rf"""(?<![\w.$-])(?P<name>[a-z][a-z_]*)=(?!=)|(?P<several>(?<![\w{{])[\[{{](?=['"\]}}\d]))|(?<!\w)(?:{_QUOTED})"""
    r"|(?<![\w.-])(?P<word>[A-Za-z]\w*)"
)
_WORD = re.compile(r"[-+\w.%:/]*[\w%]|\.\.\.")
_PLAIN = {"True": "true", "False": "false", "None": "none", "dict": "mapping"}


def as_options(message: str, parser: argparse.ArgumentParser) -> str:
    """Return a message with its parameters as options of a command.

    Parameters
    ----------
    message
        The text of an error or a warning.
    parser
        The parser of the command. Parameters without an option become ``--param`` or ``--set``, if it has those.

    Examples
    --------
    >>> parser = argparse.ArgumentParser()
    >>> _ = parser.add_argument("--valid"), parser.add_argument("--early-stopping-rounds")
    >>> as_options("early_stopping_rounds needs valid='last 20%', not valid=0.2, of column 'valid=1'", parser)
    "--early-stopping-rounds needs --valid 'last 20%', not --valid 0.2, of column 'valid=1'"
    >>> _ = parser.add_argument("data")
    >>> as_options("no file matches data='*.parquet'", parser)
    "no file matches '*.parquet'"
    """
    options = {action.dest: action for action in parser._actions}
    return "".join(_parts(message, options))


def _parts(message: str, options: dict[str, argparse.Action]) -> Iterator[str]:
    at = 0
    while token := _TOKEN.search(message, at):
        yield message[at : token.start()]
        at = token.end()
        if name := token["name"]:
            end = _end_of_value(message, at)
            yield _option(name, message[at:end], options)
            at = end
        elif token["several"]:
            at = _end_of_value(message, token.start())
            yield _typed(message[token.start() : at])
        elif (word := token["word"]) and "_" in word and word in options and options[word].option_strings:
            yield options[word].option_strings[0]
        else:
            yield _PLAIN.get(token[0], token[0])
    yield message[at:]


def _option(name: str, value: str, options: dict[str, argparse.Action]) -> str:
    """Return a parameter and its value as an option."""
    action = options.get(name)
    if action is None:
        settings = options.get("settings")
        typed = _typed(value)
        return f"{settings.option_strings[0]} {name}={typed}" if settings else f"{name} {typed}".rstrip()
    if not action.option_strings:  # an argument by its place
        return _typed(value)
    option = action.option_strings[0]
    if action.nargs == 0 or isinstance(action, argparse.BooleanOptionalAction):  # a switch
        negative = next((other for other in action.option_strings if other.startswith("--no-")), f"no {option}")
        return negative if value == "False" else option
    return f"{option} {_typed(value)}".rstrip()


def _end_of_value(message: str, start: int) -> int:
    """Return the end of the value that begins here: a string, a list or dict, or a word."""
    if quoted := re.compile(_QUOTED).match(message, start):
        return quoted.end()
    if message[start : start + 1] not in ("[", "{"):
        word = _WORD.match(message, start)
        return word.end() if word else start
    depth, at = 0, start
    while at < len(message):
        if quoted := re.compile(_QUOTED).match(message, at):
            at = quoted.end()
            continue
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(message[at], 0)
        at += 1
        if not depth:
            return at
    return start


def _typed(value: str) -> str:
    """Return a Python literal as a shell word.

    >>> _typed("'last 20%'"), _typed("{'x': 1, 'y': -1}"), _typed("['a', 'b']"), _typed("True"), _typed("0.2")
    ("'last 20%'", 'x=1,y=-1', 'a,b', 'true', '0.2')
    """
    if value in _PLAIN or "\\" in value:  # of escapes it is better to see them
        return _PLAIN.get(value, value)
    try:
        read = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value
    if isinstance(read, dict) and all(not isinstance(part, dict | list) for part in read.values()):
        return shlex.quote(",".join(f"{name}={_text(part)}" for name, part in read.items()))
    if isinstance(read, list) and not any(isinstance(part, dict | list) for part in read):
        return shlex.quote(",".join(map(_text, read)))
    return shlex.quote(value if isinstance(read, dict | list) else _text(read) if isinstance(read, str) else value)


def _text(value: Any) -> str:
    return str(_PLAIN.get(str(value), value) if not isinstance(value, str) else value)
