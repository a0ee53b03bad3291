"""Kind of case: calls of public functions with wrong arguments.

A call works, or raises a `FrameboostError` of one sentence. It changes no argument and leaves nothing in the database.
"""

from __future__ import annotations

import contextlib
import copy
import io
import re
import shutil
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl

import frameboost as fb
from tests.fuzz.entry_points import PRELUDE, EntryPoint, entry_points

__all__ = ["MAX_MEGABYTES", "MAX_SECONDS", "Case", "check", "check_call", "every", "generate", "shrink"]

MAX_SECONDS, MAX_MEGABYTES = 30, 1000
_MAX_CHARACTERS = 1000

VALUES = [
    "None", "0", "1", "-1", "2", "0.5", "-0.0", "2**31", "2**63", "-2**63", "2**64", "10**400", "math.nan", "math.inf",
    "-math.inf", "5e-324", "1.7e308", "True", "False", "1j", "...", "NotImplemented", "decimal.Decimal('0.1')",
    "''", "' '", "'\\x00'", "'a\\x00b'", "'\\ud800'", "'x'", "'X'", "'y'", "'s'", "'w'", "'late'", "'t'", "'^x$'",
    "'*'", "'a.b'", "'a.b.c.d.e'", "'\"'", "\"'\"", "'x; DROP TABLE t'", "'SELECT 1'", "'x' * 100_000", "'é' * 300",
    "'\\n' * 50", "'2013-01-01'", "'nan'", "'auto'", "'duckdb'", "'margin'", "'sqlite'", "'reg:squarederror'",
    "b''", "b'x'", "bytearray(b'y')", "memoryview(b'{}')", "[]", "()", "{}", "set()", "[1]", "['x']", "['x', 'x']",
    "['x', None]", "[[]]", "[['x']]", "[None]", "[math.nan]", "[['x'], 's']", "('x', 's')", "{'x'}", "frozenset(['x'])",
    "{'x': 1}", "{'x': [1.0, 2.0]}", "{'x': []}", "{'x': None}", "{'x': 'x'}", "{1: 2}", "{'y': df}", "{'z': [1]}",
    "{'x': '\\ud800'}", "{'s': ['a']}", "{'x': [math.nan]}", "{'x': 5}", "range(3)", "iter(['x'])", "(c for c in 'xs')",
    "map(str, [1])", "slice(None)", "slice(0, 2**70)", "np.array([1, 2])", "np.array(['x'])", "np.array([])",
    "np.array(1.5)", "np.array([[1.0, 2.0]])", "np.float32(0.5)", "np.int8(1)", "np.bool_(True)", "np.str_('x')",
    "np.datetime64('NaT')", "np.array([None, 'x'])", "pl.Series([1, 2])", "pl.Series(['x'])", "pl.Series([])",
    "pl.col('x')", "pl.lit(1)", "pl.DataFrame()", "df", "df.lazy()", "df.clear()", "df.head(1)", "df.select('y')",
    "df.to_pandas()", "df.to_arrow()", "df.to_numpy()", "df.to_dict(as_series=False)", "df.rows()",
    "df.with_columns(x=pl.lit(None))", "df.with_columns(y=pl.lit(None, pl.Int64))", "df.with_columns(x=pl.lit([1]))",
    "df.with_columns(x=pl.lit('a'))", "df.with_columns(y=pl.lit(0.5))", "df.lazy().select('absent')",
    "pd.DataFrame({'x': [1, 'a'], 'y': [0, 1]})", "pd.DataFrame({'x': [10**30, 1], 'y': [0, 1]})",
    "pd.DataFrame([[1, 2], [3, 4]], columns=['y', 'y'])", "pd.Series([1, 2])", "pa.table({'x': [1], 'y': [0]})",
    "con", "con.table('t')", "con.sql('SELECT 1 AS x, 2 AS y')", "con.sql('SELECT * FROM t LIMIT 0')",
    "con.sql('SELECT x, s, 1 // 0 AS y FROM t')", "model", "classes", "fb", "fb.fit", "fb.Model", "fb.Metric",
    "fb.Objective('margin - label')", "fb.Metric('m', 'max(abs(label - prediction))')",
    "int", "object()", "type", "lambda *given: None",
    "lambda *given, **named: 1 / 0", "print",
    "[lambda number, values: True]", "io.BytesIO(b'x')", "pathlib.Path('/proc')", "folder", "folder / 'model.json'",
    "folder / 'absent' / 'm.json'", "str(folder / 'new.json')", "'/dev/null/x'", "dt.date(2013, 1, 1)",
    "dt.timedelta(1)", "dt.datetime(2013, 1, 1)", "ValueError('x')", "[[1, 2], [3]]",
    "[10**400]", "'1e999'", "-5", "10**9",
]  # fmt: skip
_FAILING_QUERIES = ("df.lazy().select('absent')", "1 // 0")
_CALL_ERRORS = re.compile(r"unexpected keyword argument|missing \d+ required|multiple values for|takes \d+ positional"
                          r"|takes no arguments|takes no keyword|required positional")  # fmt: skip
_INTERNAL_ERRORS = re.compile(
    "truth value|has no attribute|not subscriptable|unhashable|not iterable|not callable|unpack"
)
# Valid arguments with which a fit would take years.
_TOO_SLOW = {"n_estimators": ("10**9",)}


@dataclass(frozen=True)
class Case:
    """A call as text: the function, and its arguments by name; ``wrong`` are the names of the replaced arguments."""

    text: str
    arguments: tuple[tuple[str, str], ...]
    wrong: tuple[str, ...]
    is_estimator: bool = False

    def call(self) -> str:
        return f"{self.text}({', '.join(f'{name}={value}' for name, value in self.arguments)})"


def generate(rng: np.random.Generator) -> Case:
    entries = entry_points()
    # fit and cv have many times as many arguments as others, so they are drawn more often.
    sizes = [len(entry.required) + len(entry.optional) + len(entry.keywords) for entry in entries]
    weights = np.sqrt(np.array(sizes) + 1.0)
    entry: EntryPoint = entries[int(rng.choice(len(entries), p=weights / weights.sum()))]
    arguments = dict(entry.required)
    own = list(dict.fromkeys([*arguments, *entry.optional]))
    choices = list(entry.keywords) if entry.keywords and (rng.random() < 0.4 or not own) else own
    count = min(len(choices), 1 if rng.random() < 0.8 else 2)
    wrong = [str(name) for name in rng.choice(choices, size=count, replace=False)] if choices else []
    for name in wrong:
        value = VALUES[int(rng.integers(len(VALUES)))]
        arguments[name] = "0" if value in _TOO_SLOW.get(name, ()) else value
    if rng.random() < 0.02:
        arguments["unknown"] = "1"
    return Case(entry.text, tuple(arguments.items()), tuple(wrong), entry.is_estimator)


def every() -> Iterator[Case]:
    """Yield each call with one wrong argument."""
    for entry in entry_points():
        for name in dict.fromkeys([*dict(entry.required), *entry.optional, *entry.keywords]):
            for value in VALUES:
                if value not in _TOO_SLOW.get(name, ()):
                    arguments = dict(entry.required) | {name: value}
                    yield Case(entry.text, tuple(arguments.items()), (name,), entry.is_estimator)


def check(case: Case) -> None:
    namespace: dict[str, Any] = {}
    exec(PRELUDE, namespace)
    with contextlib.chdir(namespace["folder"]):
        check_call(case, namespace)


def check_call(case: Case, namespace: dict[str, Any]) -> None:
    """Make the call, with the names that `PRELUDE` defines."""
    try:
        given = {name: eval(text, namespace) for name, text in case.arguments}
        before = {name: _snapshot(value) for name, value in given.items()}
        shown = contextlib.redirect_stdout(io.StringIO())
        function = eval(case.text, namespace)
        try:
            with shown:
                _use_result(function(**given))
        except BaseException as error:
            _check_error(error, case)
        for name, value in given.items():
            if not _is_unchanged(before[name], value):
                raise AssertionError(f"argument {name} has been changed: {before[name]!r:.200} to {value!r:.200}")
        left = namespace["con"].execute("SELECT table_name FROM duckdb_tables() WHERE table_name <> 't'").fetchall()
        assert not left, f"left in the database: {left}"
    finally:
        shutil.rmtree(namespace["folder"], ignore_errors=True)


def _use_result(result: Any) -> None:
    """Use a result: a model by its repr, a lazy frame by collecting it."""
    if isinstance(result, fb.Model):
        repr(result)
        assert result.n_trees > 0
    if isinstance(result, pl.LazyFrame):
        result.collect()


def _check_error(error: BaseException, case: Case) -> None:
    if _is_foreign_error(error, case) or (case.is_estimator and _is_sklearn_error(error)):
        return
    message = str(error)
    assert isinstance(error, fb.FrameboostError), f"raises {type(error).__name__}: {message:.500}"
    assert message.strip(), "an empty message"
    assert len(message) <= _MAX_CHARACTERS, f"a message of {len(message):,} characters: {message:.300}..."
    assert message.count("\n") <= 1, f"a message of {message.count(chr(10)) + 1} lines: {message:.300}"
    message.encode("utf-8")


def _is_foreign_error(error: BaseException, case: Case) -> bool:
    """Whether the error comes from the user's functions and queries, from Python, or from the operating system."""
    call = case.call()
    if isinstance(error, ZeroDivisionError) and "1 / 0" in call:
        return True
    if isinstance(error, duckdb.Error | pl.exceptions.PolarsError) and any(text in call for text in _FAILING_QUERIES):
        return True
    if isinstance(error, OSError) and any(word in case.text for word in ("load", "save", "to_", "from_")):
        return True
    if isinstance(error, TypeError) and _CALL_ERRORS.search(str(error)):
        # Python raises it at the call itself, or, where keywords are passed on by **, one call below.
        is_deeper = "/frameboost/" in traceback.extract_tb(error.__traceback__)[-1].filename
        return not is_deeper or "unknown" in dict(case.arguments) or case.text.endswith("_sql")
    return False


def _is_sklearn_error(error: BaseException) -> bool:
    """Whether the error is one that scikit-learn's estimators may raise about X and y."""
    if not isinstance(error, ValueError | TypeError | AttributeError):
        return False
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    ours = [file for file in files if "/frameboost/" in file]
    is_check = "/sklearn/" in files[-1] or "/numpy/" in files[-1] or not ours
    return is_check or ("/frameboost/sklearn/" in ours[-1] and not _INTERNAL_ERRORS.search(str(error)))


def _snapshot(value: Any) -> Any:
    """Return a copy to compare with later, or the value itself if it is immutable or can't be compared."""
    if isinstance(value, pl.DataFrame | pl.Series):
        return value.clone()
    if isinstance(value, pd.DataFrame | pd.Series | np.ndarray | list | dict | set | bytearray):
        try:
            return copy.deepcopy(value)
        except (TypeError, ValueError):  # connections and modules can't be copied
            return copy.copy(value)
    return value


def _is_unchanged(before: Any, after: Any) -> bool:
    if before is after:
        return True
    if isinstance(after, pl.DataFrame | pl.Series | pd.DataFrame | pd.Series):
        return bool(before.equals(after))
    if isinstance(after, np.ndarray):
        return before.shape == after.shape and repr(before.tolist()) == repr(after.tolist())
    return re.sub(r" at 0x\w+", "", repr(before)) == re.sub(r" at 0x\w+", "", repr(after))


def shrink(case: Case) -> Iterator[Case]:
    required = {entry.text: dict(entry.required) for entry in entry_points()}.get(case.text, {})
    for name in case.wrong:
        arguments = dict(case.arguments)
        if len(case.wrong) > 1:
            arguments.pop(name)
            arguments |= {key: value for key, value in required.items() if key not in arguments}
            yield replace(case, arguments=tuple(arguments.items()), wrong=tuple(w for w in case.wrong if w != name))
