"""The command ``frameboost``: train, score, inspect a model and write it as SQL, from a shell (``docs/cli.md``).

- `training`: ``train``, ``auto``, ``cv``, and of a model ``refit``, ``calibrate``, ``conform``
- `scoring`: ``score``, ``sql``, ``convert``
- `deployment`: ``tag``, ``prove``, ``deploy``, ``rollback``, ``dbt``, ``register``
- `inspection`: ``show``, ``evaluate``, ``compare``, ``explain``, ``reasons``, ``drift``, ``plot``, ``report``
- `warmup`: ``warmup``
- `options`: options, made of the signatures and docstrings of the functions that commands call
- `files`: tables and models that commands read and write
- `screen`: tables and facts on standard output
- `wording`: messages of Python functions, with parameters as options
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import io
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import duckdb
import polars as pl

from frameboost.checks.arguments import anything, checked
from frameboost.checks.messages import on_command_line
from frameboost.cli.deployment import add_dbt, add_deploy, add_prove, add_register, add_rollback, add_tag
from frameboost.cli.inspection import (
    add_compare,
    add_drift,
    add_evaluate,
    add_explain,
    add_plot,
    add_reasons,
    add_report,
    add_show,
)
from frameboost.cli.options import Commands, Parser, UsageError, add_command
from frameboost.cli.scoring import add_convert, add_score, add_sql
from frameboost.cli.training import add_auto, add_calibrate, add_conform, add_cv, add_refit, add_train
from frameboost.cli.warmup import add_warmup
from frameboost.cli.wording import as_options
from frameboost.data.table_files import name_file
from frameboost.errors import FrameboostError, FrameboostWarning, ParameterError, printable
from frameboost.parameters.parameters import Parameters
from frameboost.version import __version__

__all__ = ["main"]

_EPILOG = """\
Wherever a model is read it may be a file of frameboost, of XGBoost (JSON, UBJSON), of LightGBM (text) or of CatBoost
(JSON); tables are Parquet, CSV, NDJSON and Arrow files, tables of DuckDB files (flights.duckdb::late), and standard
input ('-').

exit codes:
  0    all is done (also where the reader of standard output has gone away)
  1    a file, a model, the data or a parameter's value is not what it should be; one line on stderr says what
  2    the command line is not understood
  130  interrupted (Ctrl-C)
A file that is written is replaced when all of it is there; after an error it is as it was.
"""
_EXPECTED = (
    FrameboostError, OSError, UnicodeError, MemoryError, pl.exceptions.PolarsError, pl.exceptions.PanicException,
    duckdb.Error,
)  # fmt: skip

_COMMANDS = (
    add_train, add_auto, add_cv, add_refit, add_calibrate, add_conform, add_score, add_evaluate, add_compare,
    add_explain, add_reasons, add_drift, add_plot, add_report, add_sql, add_dbt, add_tag, add_prove, add_register,
    add_deploy, add_rollback, add_show, add_convert, add_warmup,
)  # fmt: skip
_SHELLS = ("bash", "zsh", "fish")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code.

    Parameters
    ----------
    arguments
        The command line after ``frameboost``; by default that of the process, which then exits.

    Examples
    --------
    >>> main(["show", "no-such-model.json"])  # which says why on standard error
    1
    """
    with on_command_line():
        code = _code(arguments)
    if arguments is None:
        # A normal exit prints pages on stderr about DuckDB's objects that polars still refers to.
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)
    return code


def _code(arguments: Sequence[str] | None) -> int:
    try:
        _run(arguments)
        sys.stdout.flush()
    except SystemExit as exit_:  # argparse's, after --help and after an error
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        return exit_.code if isinstance(exit_.code, int) else 0
    except UsageError as error:
        return _failed(str(error), 2)
    except KeyboardInterrupt:
        return _failed("interrupted", 130)
    except BrokenPipeError:
        _let_go_of_stdout()
    except RuntimeError as error:
        if str(error) != "Query interrupted":  # DuckDB's, of Ctrl-C while it runs
            raise
        return _failed("interrupted", 130)
    except _EXPECTED as error:
        return _failed(_sentence(error), 1)
    return 0


@checked(arguments=anything)  # so that a table is read once in a command
def _run(arguments: Sequence[str] | None) -> None:
    parser = Parser(
        "frameboost",
        description="Gradient boosting for dataframes and SQL.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"frameboost {__version__}")
    commands: Commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for add in _COMMANDS:
        add(commands)
    _add_completion(commands, parser)
    options, unknown = parser.parse_known_args(arguments)
    chosen = getattr(options, "parser", parser)
    if unknown:
        chosen.error(_unknown(chosen, unknown))
    if chosen is parser:
        parser.print_help()
        return
    try:
        with _warnings_in_a_line(chosen):
            options.run(options)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        name_file(error, [getattr(options, "data", None)])
        raise
    except FrameboostError as error:
        raise FrameboostError(as_options(str(error), chosen)) from error


def _unknown(parser: Parser, words: Sequence[str]) -> str:
    """Return the message for words that a command's parser does not know."""
    option = next((word.partition("=")[0] for word in words if word.startswith("-")), None)
    if option is None:
        return f"too many arguments: {' '.join(words)}"
    known = sorted(set(re.findall(r"--[a-z][-a-z]*", parser.format_help())))
    near = []
    if "--learning-rate" in known:
        try:  # which translates other libraries' names of parameters
            Parameters.from_keywords({option.lstrip("-").replace("-", "_"): None})
        except ParameterError as error:
            named = re.search(r"; (?:here it is called|did you mean) '(\w+)'", str(error))
            near = [f"--{named[1].replace('_', '-')}"] if named else []
    near = [name for name in near if name in known] or difflib.get_close_matches(option, known, n=1)
    return f"unknown option {option}" + (f"; did you mean {near[0]}?" if near else "")


@contextmanager
def _warnings_in_a_line(parser: Parser) -> Iterator[None]:
    """Write each warning of the package once, as one line on standard error; others as Python does.

    ``parser`` is the parser of the command, for the options in messages.
    """
    seen: set[str] = set()

    def write(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if not issubclass(category, FrameboostWarning):
            show(message, category, *rest, **more)
        elif str(message) not in seen:
            seen.add(str(message))
            _say(f"warning: {' '.join(as_options(str(message), parser).split())}")

    with warnings.catch_warnings():
        show = warnings.showwarning
        warnings.showwarning = write
        warnings.simplefilter("always", FrameboostWarning)
        yield


# --- completion -------------------------------------------------------------------------------------------------------


def _add_completion(commands: Commands, whole: Parser) -> None:
    """Add the command ``completion``; ``whole`` is the parser of all commands."""
    example = "frameboost completion bash > frameboost.bash"
    help_ = "Print a script that completes options in a shell"
    parser = add_command(commands, "completion", help_, _print_completion, example)
    parser.add_argument("shell", choices=_SHELLS, help="the shell that reads the script")
    parser.set_defaults(whole=whole)


def _print_completion(options: argparse.Namespace) -> None:
    if importlib.util.find_spec("shtab") is None:
        raise FrameboostError("completion needs shtab: pip install 'frameboost[cli]'")
    import shtab

    commands = next(action for action in options.whole._actions if isinstance(action, argparse._SubParsersAction))
    for parser in commands.choices.values():
        for action in parser._actions:
            if action.metavar in ("MODEL", "OTHER", "DATA", "FILE"):
                action.complete = shtab.FILE
    print(shtab.complete(options.whole, options.shell))


# --- when something goes wrong ----------------------------------------------------------------------------------------


def _failed(sentence: str, code: int) -> int:
    _say(sentence)
    return code


def _say(sentence: str) -> None:
    with suppress(OSError, ValueError):  # stderr may be closed
        sys.stdout.flush()
    with suppress(OSError, ValueError):
        print(f"frameboost: {sentence}", file=sys.stderr)


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return printable(f"{error.filename}: {error.strerror}")
    text = str(error).strip() or type(error).__name__
    return printable(" ".join(text.splitlines()) if isinstance(error, FrameboostError) else text.splitlines()[0])


def _let_go_of_stdout() -> None:
    """Redirect standard output to the null device after a broken pipe, so that Python exits quietly."""
    with suppress(OSError, ValueError, io.UnsupportedOperation):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
