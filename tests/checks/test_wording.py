"""What the command line says: no message of the package advises Python, and parameters are said as options."""

import argparse
import ast
import re
from functools import cache

import pytest

import frameboost as fb
from frameboost.checks.messages import advice, on_command_line
from frameboost.cli import _COMMANDS
from frameboost.cli.options import Parser
from frameboost.cli.wording import as_options
from tests.support.cases import cases
from tests.support.package import PACKAGE

# Modules of what no command takes: objects of other libraries, connections, clusters, stars of tables, estimators.
NOT_OF_COMMANDS = (
    "sklearn/", "engines/dask/", "engines/spark/", "data/dask_source.py", "data/spark_source.py", "data/connections.py",
    "data/database_table.py", "data/foreign_tables.py", "data/sparse_matrix.py", "joins/", "interop/sklearn.py",
    "engines/sql/", "engines/memory/database.py", "namespace.py", "database/column_check.py",
    "database/labelled_rows.py", "losses/functions.py",
)  # fmt: skip
# What messages of other modules are about that no command can be given either.
ONLY_IN_PYTHON = re.compile(
    r"Dask|Spark|fb\.table|relation|sparse matrix|X\b.*\by\b|of a row|rows 0 and|of your function|callback|challenger"
    r"|of a star|form='shap'|paramstyle|DuckDB connection|con has a pending result|slice|a dict of columns to functions"
    r"|Python function|arrays of Python|terms must|divides rows of this process"
    r"|fb\.from_|fb\.load|fb\.cv returned|must be a Model|row has|baseline (?:must be|has no rows)|DatabaseModel:"
)
# Words of Python that a person who types commands need not know.
PYTHON = re.compile(
    r"\bfb\.|\bpl\.|\bcon\.|\bdf\.|\bmodel\.\w|\bModel\b|\bDatabaseModel\b|\bTrue\b|\bFalse\b|\bNone\b|\bdict\b"
    r"|\b[a-z]+(?:_[a-z]+)*\([^ )]|\b[a-z_]+=|\w_(?:sql|query|statements)\b"
)
OBJECTS = re.compile(r"\b(?:fb|pl|con|df|model)\.[a-z]|\bDatabaseModel\b|\bModel\.")
# Not of Python: what commands print or take so.
SHELL = re.compile(
    r"\.save_model\(.*|--\S+ \S+=\S*|pip install \S+|'[^']*'|\"[^\"]*\""
    r"|sha256=|\b(?:CASE|CAST|LN|MAX|SUM|COUNT)\("
)


def commands():
    """Return the parser of each command."""
    parser = argparse.ArgumentParser()
    choices = parser.add_subparsers(parser_class=Parser)
    for add in _COMMANDS:
        add(choices)
    return choices.choices


@cache
def parsers():
    return commands()


def statements():
    """Yield the file and the statements of each module, and whether one raises an error or gives a warning."""
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        if not file.startswith(NOT_OF_COMMANDS):
            for node in ast.walk(ast.parse(path.read_text())):
                is_warning = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "warn"
                if isinstance(node, ast.Raise) or is_warning:
                    yield file, node, True
                elif isinstance(node, ast.Assign | ast.AugAssign | ast.Return) and not file.startswith("cli/"):
                    yield file, node, False


def messages(*, of_errors):
    """Yield the file and each text of errors and warnings, or of parts that may be of some; in it is ``'it'``."""
    for file, node, is_message in statements():
        if is_message == of_errors:
            # A dict is written as NAME=VALUE, which looks like an argument.
            said = (re.sub(r"\{'[^{}]*\}", "it", text) for text in texts(node))
            yield from ((file, text) for text in said if not ONLY_IN_PYTHON.search(text))


def texts(node):
    """Yield the texts within a statement, as they are on the command line."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "advice":
        node = node.args[1] if len(node.args) > 1 else None
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else inserted(part.value) for part in node.values)
        yield "".join(parts)
    elif node is not None:
        for child in ast.iter_child_nodes(node):
            yield from texts(child)


def inserted(node):
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "advice":
        return next(texts(node), "")
    return "it" if isinstance(node, ast.Name) else "'it'"


@pytest.mark.slow
def test_no_message_of_a_command_advises_python():
    found = set(messages(of_errors=True))
    assert len(found) > 500
    said = {(file, as_options(text, parser)) for file, text in found for parser in parsers().values()}
    wrong = [f"{file}: {text}" for file, text in sorted(said) if PYTHON.search(SHELL.sub("", text))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_no_part_of_a_message_advises_python():
    found = set(messages(of_errors=False))
    wrong = [f"{file}: {text}" for file, text in sorted(found)
             if text.count(" ") > 1 and OBJECTS.search(SHELL.sub("", text))]  # fmt: skip
    assert not wrong, "\n".join(wrong)


@cases(("message", "expected"), [
    ("early_stopping_rounds needs held-out rows; pass them as valid=..., or folds=5",
     "--early-stopping-rounds needs held-out rows; pass them as --valid ..., or --folds 5"),
    ("valid='last 20%' needs time: time='day'", "--valid 'last 20%' needs time: --time day"),
    ("linear_tree=True goes with linear_tree=False", "--linear-tree goes with --no-linear-tree"),
    ("monotone_constraints must be a dict, such as {'age': 1}, not 3",
     "--monotone-constraints must be a mapping, such as age=1, not 3"),
    ("exclude=['a', 'b c'] leaves no feature of 'valid=1', \"time='x'\"",
     "--exclude 'a,b c' leaves no feature of 'valid=1', \"time='x'\""),
    ("the model's column 'it''s' isn't time='x'", "the model's column 'it''s' isn't --time x"),
    ("valid='\\x1b[31m' is none", "--valid '\\x1b[31m' is none"),
    ("colsample=1, x==2 and y >= 3, e.g. sha256=a", "--param colsample=1, x==2 and y >= 3, e.g. sha256=a"),
    ("cuts=3; engine='sql'.", "--param cuts=3; --engine sql."),
])  # fmt: skip
def test_parameters_are_options(message, expected):
    assert as_options(message, parsers()["train"]) == expected


def test_a_parameter_that_a_command_lacks_is_no_option():
    assert as_options("valid=0.2 and kind='gain' and form='case'", parsers()["show"]) == (
        "valid 0.2 and --importance gain and form case"
    )


def test_advice_is_that_of_python_after_a_command_too():
    with pytest.raises(fb.ParameterError, match=r"fb\.Metric"), on_command_line():
        assert advice("fb.Metric", "a name") == "a name"
        raise fb.ParameterError(advice("a", "fb.Metric"))
    assert advice("fb.Metric", "a name") == "fb.Metric"
