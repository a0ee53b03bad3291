"""``frameboost completion``: prints a script that completes commands and options in a shell."""

from __future__ import annotations

import argparse
import importlib.util

from frameboost.cli.arguments import Commands, Parser, add_command
from frameboost.errors import FrameboostError

__all__ = ["SHELLS", "add_completion"]

SHELLS = ("bash", "zsh", "fish")
_FILES = ("MODEL", "OTHER", "DATA", "FILE")  # arguments that are completed to paths
_EXAMPLE = "frameboost completion bash > frameboost.bash"


def add_completion(commands: Commands, whole: Parser) -> None:
    """Add the command; ``whole`` is the parser of all commands."""
    parser = add_command(commands, "completion", "Print a script that completes options in a shell", _print, _EXAMPLE)
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads the script")
    parser.set_defaults(whole=whole)


def _print(given: argparse.Namespace) -> None:
    if importlib.util.find_spec("shtab") is None:
        raise FrameboostError("completion needs shtab: pip install 'frameboost[cli]'")
    import shtab

    commands = next(action for action in given.whole._actions if isinstance(action, argparse._SubParsersAction))
    for parser in commands.choices.values():
        for action in parser._actions:
            if action.metavar in _FILES:
                action.complete = shtab.FILE
    print(shtab.complete(given.whole, given.shell))
