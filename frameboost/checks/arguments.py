"""Check the arguments of public functions by name, and close resources when they return.

An argument has the same meaning in every public function: ``weight`` is always a column. So `BY_NAME` has one check for
each name, which the decorator `checked` applies. Decorating a function with an argument that has no check is an error
at import.

Public functions may call each other. Resources that last for the whole call, such as a table of rows that are read
once, are closed when the outermost function returns (`until_call_returns`).
"""

from __future__ import annotations

import inspect
import numbers
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager, ExitStack
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeGuard, TypeVar

import duckdb
import numpy as np
import polars as pl

from frameboost.checks.messages import did_you_mean, listed, shown
from frameboost.errors import ParameterError

__all__ = [
    "BY_NAME", "EXPLAINERS", "Check", "anything", "checked", "column", "columns", "condition_on_rows", "costs",
    "finite_numbers", "flag", "in_call", "instance_of", "is_among", "is_iterable", "is_text", "name_of", "names",
    "not_negative", "number", "once_in_call", "slice_of_rounds", "table", "takes", "until_call_returns",
    "when_call_returns", "whole", "word",
]  # fmt: skip

# PATH_MAX of Linux. The operating system's error for a longer path would have all of it in its message.
_LONGEST_PATH = 4096

P = ParamSpec("P")
R = TypeVar("R")

EXPLAINERS: list[Callable[[BaseException, Iterable[object]], None]] = []
"""Functions of an error of polars and of the arguments, which raise one that says more, such as the name of a file."""

Check = Callable[[str, Any], None]
"""A function of an argument's name and value that raises `ParameterError`."""


# --- kinds of arguments -----------------------------------------------------------------------------------------------


def anything(argument: str, value: object) -> None:
    """Accept any value; the code that reads the argument has a better message."""


def flag(argument: str, value: object) -> None:
    """Require True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ParameterError(f"{argument} must be True or False, not {shown(value)}")


def verbosity(argument: str, value: object) -> None:
    """Require True, False or an integer; integers from 1 on count as True."""
    if not isinstance(value, bool | np.bool_ | numbers.Integral):
        raise ParameterError(f"{argument} must be True or False, or a number, not {shown(value)}")


def costs(argument: str, value: object) -> None:
    """Require the costs of errors by name, numbers of 0 or more."""
    names = ("false_positive", "false_negative")
    if not isinstance(value, Mapping) or not value or not set(value) <= set(names):
        raise ParameterError(f"{argument} must be a dict with costs {' and '.join(names)}, not {shown(value)}")
    for name, cost in value.items():
        not_negative(f"{argument}[{name!r}]", cost)


def name_of(what: str) -> Check:
    """Return a check that requires a name: a non-empty string of valid Unicode."""

    def check(argument: str, value: object) -> None:
        if not isinstance(value, str):
            raise ParameterError(f"{argument} must be {what}, not {shown(value)}")
        if not value:
            raise ParameterError(f"{argument} must be {what}, not an empty string")
        _check_text(argument, value)

    return check


def is_text(value: str) -> bool:
    """Whether a string can be encoded as UTF-8; Python's strings may hold lone surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_iterable(value: object) -> TypeGuard[Iterable[Any]]:
    """Whether a value is iterable; a 0-d numpy array is not, though its type is."""
    return isinstance(value, Iterable) and getattr(value, "ndim", 1) != 0


def is_among(value: object, constants: Collection[object]) -> bool:
    """Whether a value of any type is one of some constants; safe for arrays and frames, with their element-wise ==."""
    plain = value.item() if isinstance(value, np.generic) else value
    return isinstance(plain, str | bool | int | float | None) and plain in constants


def _check_text(argument: str, value: str) -> None:
    if not is_text(value):
        raise ParameterError(f"{argument} holds an unpaired surrogate: {shown(value)}")


def column(argument: str, value: object) -> None:
    """Require the name of a column, which may be empty."""
    if not isinstance(value, str):
        way = _way_of_values(argument, value)
        raise ParameterError(f"{argument} must be a column name, not {shown(value)}{way}")
    _check_text(argument, value)


def _way_of_values(argument: str, value: object) -> str:
    """Return the end of a message for a column passed as values instead of by name."""
    if argument == "target" and (hasattr(value, "__array__") or isinstance(value, list)):
        return (
            "; add the values to the data as a column and pass its name, or pass X and y to an estimator, as in "
            "fb.FrameBoostRegressor().fit(X, y)"
        )
    return "; add the values to the data as a column, and pass its name" if hasattr(value, "__array__") else ""


def columns(argument: str, value: object) -> None:
    """Require a column name, or a list of at least one."""
    if isinstance(value, str):
        column(argument, value)
        return
    if not isinstance(value, list | tuple):
        way = _way_of_values(argument, value)
        raise ParameterError(f"{argument} must be a column name or a list of them, not {shown(value)}{way}")
    if not value:
        raise ParameterError(f"{argument} is an empty list; name at least one column")
    for item in value:
        if argument == "target" and not isinstance(item, str):
            raise ParameterError(f"target must name columns, not {shown(item)}{_way_of_values(argument, value)}")
        column(argument, item)


def names(argument: str, value: object) -> None:
    """Require a list of column names."""
    if isinstance(value, str):
        raise ParameterError(f"{argument} must be a list of column names, not the string {shown(value)}")
    if not isinstance(value, Sequence) or not all(isinstance(item, str) for item in value):
        raise ParameterError(f"{argument} must be a list of column names, not {shown(value)}")
    for item in value:
        _check_text(argument, item)


def names_by_feature(argument: str, value: object) -> None:
    """Require a mapping of names to names, or a function of a name."""
    if not isinstance(value, Mapping) and not callable(value):
        raise ParameterError(
            f"{argument} must be a dict of feature to column name, or a function of a feature's name, not "
            f"{shown(value)}"
        )


def values_by_column(argument: str, value: object) -> None:
    """Require a mapping of column names to values."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ParameterError(f"{argument} must be a dict of column name to a list of values, not {shown(value)}")


def condition(argument: str, value: object) -> None:
    """Require a non-empty condition as SQL; an empty one would select all rows."""
    if not isinstance(value, str) or not value.strip():
        raise ParameterError(f"{argument} must be a condition as SQL, or None for all rows, not {shown(value)}")
    _check_text(argument, value)


def condition_on_rows(argument: str, value: object) -> None:
    """Require a condition as SQL, or as values by feature."""
    if not isinstance(value, Mapping):
        condition(argument, value)
    elif not value:
        raise ParameterError(f"{argument} must be a condition as SQL, values by feature, or None, not {{}}")


def word(*choices: str) -> Check:
    """Return a check that requires one of a few words."""

    def check(argument: str, value: object) -> None:
        if not isinstance(value, str) or value not in choices:
            raise ParameterError(
                f"{argument} must be one of {listed(choices, None)}, not {shown(value)}{did_you_mean(value, choices)}"
            )

    return check


def whole(low: int, high: int | None = None) -> Check:
    """Return a check that requires an integer from ``low`` to ``high``."""
    between = f"of at least {low}" if high is None else f"from {low} to {high}"

    def check(argument: str, value: object) -> None:
        is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        if not is_whole or value < low or (high is not None and value > high):  # type: ignore[operator]
            raise ParameterError(f"{argument} must be an integer {between}, not {shown(value)}")

    return check


def rows(argument: str, value: object) -> None:
    """Require a number of rows, or an open DuckDB connection."""
    if isinstance(value, duckdb.DuckDBPyConnection):
        return
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or not 0 <= int(value) < 2**63:
        raise ParameterError(
            f"{argument} must be an integer from 0 to {2**63 - 1} or a DuckDB connection that has the table, "
            f"not {shown(value)}"
        )


def bytes_or_database(argument: str, value: object) -> None:
    """Require the name of a database or a number of bytes."""
    if not isinstance(value, str) and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise ParameterError(
            f"{argument} must be the name of a database, such as 'snowflake', or a positive number of bytes, "
            f"not {shown(value)}"
        )


def number(low: float, high: float) -> Check:
    """Return a check that requires a number from ``low`` to ``high``."""

    def check(argument: str, value: object) -> None:
        is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not is_number or not low <= value <= high:  # type: ignore[operator]
            raise ParameterError(f"{argument} must be a number from {low:g} to {high:g}, not {shown(value)}")

    return check


def not_negative(argument: str, value: object) -> None:
    """Require a number of 0 or more, finite as float64."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= sys.float_info.max:  # type: ignore[operator]
        raise ParameterError(f"{argument} must be a finite number of at least 0, not {shown(value)}")


def finite_numbers(argument: str, value: object) -> None:
    """Require a list of at least one finite number."""
    has_no_order = isinstance(value, str | bytes | Set | Mapping)
    items = [] if has_no_order or not is_iterable(value) else list(value)
    are_numbers = (isinstance(x, int | float | np.number) and not isinstance(x, bool) for x in items)
    if not items or not all(are_numbers) or not all(abs(x) <= sys.float_info.max for x in items):
        raise ParameterError(f"{argument} must be a list of finite numbers, not {shown(value)}")


def slice_of_rounds(argument: str, value: object) -> None:
    """Require a slice of integers with a positive step."""
    bounds = (value.start, value.stop, value.step) if isinstance(value, slice) else (0.5,)
    are_integers = all(bound is None or isinstance(bound, numbers.Integral) for bound in bounds)
    if not are_integers or (bounds[-1] is not None and bounds[-1] < 1):
        raise ParameterError(f"slice a model by rounds, such as model[:50], not by {shown(value)}")


def functions(argument: str, value: object) -> None:
    """Require a list of functions."""
    if not isinstance(value, Sequence) or not all(map(callable, value)):
        raise ParameterError(f"{argument} must be a list of functions, not {shown(value)}")


def function_of(n: int) -> Check:
    """Return what requires a function of ``n`` arguments."""

    def check(argument: str, value: object) -> None:
        if value is not None and not (callable(value) and takes(value, n)):
            raise ParameterError(f"{argument} must be a function of {n} arguments, not {shown(value)}")

    return check


def takes(function: Callable[..., object], n: int) -> bool:
    """Whether a function can be called with ``n`` arguments; C functions without a signature may be."""
    try:
        inspect.signature(function).bind(*range(n))
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def path(argument: str, value: object) -> None:
    """Require the path of a file or a folder."""
    if not isinstance(value, str | os.PathLike):
        raise ParameterError(f"{argument} must be a path, not {shown(value)}")
    text = os.fspath(value)
    if not isinstance(text, str) or not text or "\0" in text or len(text) > _LONGEST_PATH:
        raise ParameterError(f"{argument} must be a path, not {shown(text)}")
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise ParameterError(f"{argument} must be a path, not {shown(text)}") from error


def threads(argument: str, value: object) -> None:
    """Require a number of threads, or -1 for all cores, as in scikit-learn."""
    is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_whole or (value < 1 and value != -1):  # type: ignore[operator]
        raise ParameterError(f"{argument} must be an integer of at least 1, or -1 for all cores, not {shown(value)}")


def instance_of(kind: type, what: str) -> Check:
    """Return a check that requires an object of a class."""

    def check(argument: str, value: object) -> None:
        if not isinstance(value, kind):
            raise ParameterError(f"{argument} must be {what}, not {shown(value)}")

    return check


# --- the check of each name -------------------------------------------------------------------------------------------

table = name_of("the name of a table")

BY_NAME: Mapping[str, Check] = {
    # data and the roles of its columns
    "data": anything,
    "target": columns,
    "features": anything,  # `chosen_names` has the messages of both, which say why a set won't do
    "exclude": anything,
    "weight": column,
    "base_margin": columns,
    "exposure": column,
    "label_upper_bound": column,
    "group": column,
    "valid": anything,
    "time": column,
    "feature": column,
    # training
    "objective": anything,
    "positive": name_of("a label of the target"),
    "eval_metric": anything,
    "train_metrics": flag,
    "callbacks": functions,
    "fpreproc": function_of(3),
    "init_model": anything,
    "engine": anything,
    "shards": whole(1),
    "cuts": values_by_column,
    "checkpoint": path,
    "checkpoint_every": whole(1),
    "max_sql": bytes_or_database,
    "fits": bytes_or_database,
    "verbose": verbosity,
    "folds": anything,
    "stratified": flag,
    "return_models": flag,
    "groups": column,
    "quality": whole(1, 5),
    "time_limit": number(0.001, 10**9),
    "seed": whole(0, 2**63 - 1),
    "n_jobs": threads,
    "early_stopping_rounds": whole(1),
    "decay_rate": number(0, 1),
    "coverage": number(0, 1),
    # scoring in a database
    # some models have fewer
    "output": name_of("one of 'mean', 'margin', 'class', 'probability', 'quantiles', 'interval', 'leaf'"),
    "dialect": anything,  # `get_dialect` has the message, which lists them
    "columns": names_by_feature,
    "tables": anything,  # `star_tables` has the message, which lists the dimensions
    "limits": anything,  # `get_dialect` has the message, which lists them
    "table": table,
    "keep": names,
    "where": condition,
    "unique_key": columns,
    "name": column,
    "stamp": flag,
    "trees": table,
    "rows": rows,
    # explaining and watching
    "approx": flag,
    "top": anything,  # the query of reasons has the messages, which say how many features there are
    "sign": anything,
    "texts": anything,
    "grid": anything,
    "baseline": anything,
    "labelled": number(0, 1),
    # files
    "path": path,
    "folder": path,
}


def checked(
    passed_to: Callable[..., object] | None = None, /, **checks: Check
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that checks a function's arguments, by ``checks`` or by `BY_NAME`.

    None passes if it is the default. Missing and unknown arguments are left to Python. Keywords that a ``**`` argument
    passes to another function, ``passed_to``, are checked as arguments of that function.

    Examples
    --------
    >>> @checked(rows=whole(1))
    ... def scored(table: str, rows: int, weight: str | None = None) -> str:
    ...     return f"{rows} rows of {table}"
    >>> scored("orders", rows=3)
    '3 rows of orders'
    >>> scored("orders", 0)
    Traceback (most recent call last):
    frameboost.errors.ParameterError: rows must be an integer of at least 1, not 0
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        declared = inspect.signature(function).parameters.values()
        names = {p.name for p in declared} | {"self"}
        others = [] if passed_to is None else inspect.signature(passed_to).parameters.values()
        named = [p for p in (*declared, *(p for p in others if p.name not in names)) if p.name != "self"]
        named = [p for p in named if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        check_of = {p.name: checks.get(p.name) or BY_NAME[p.name] for p in named}
        may_be_none = {p.name for p in named if p.default is None}
        positional = [p.name for p in declared if p.kind is p.POSITIONAL_OR_KEYWORD]

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for name, value in (*zip(positional, args, strict=False), *kwargs.items()):
                if name in check_of and not (value is None and name in may_be_none):
                    check_of[name](name, value)
            if _outermost.get() is not None:
                return function(*args, **kwargs)
            outermost = _Call()
            try:
                _outermost.set(outermost)
                return function(*args, **kwargs)
            except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
                for explain in EXPLAINERS:
                    explain(error, (*args, *kwargs.values()))
                raise
            finally:
                outermost.end()

        return call

    return decorate


# --- what is closed when a call returns -------------------------------------------------------------------------------


class _Call:
    """The resources and cached results, by key, of an outermost public call."""

    __slots__ = ("resources", "results")

    def __init__(self) -> None:
        self.resources: ExitStack | None = None  # made for the first of them: a call may take as long as to make it
        self.results: dict[object, Any] = {}

    def stack(self) -> ExitStack:
        """Return the stack of resources."""
        if self.resources is None:
            self.resources = ExitStack()
        return self.resources

    def end(self) -> None:
        """Close the resources; Ctrl-C may come between any two statements, and even before the first."""
        try:
            _outermost.set(None)
        finally:
            if self.resources is not None:
                try:
                    self.resources.close()
                finally:
                    self.resources.close()


# That of this thread, or of this asynchronous task.
_outermost: ContextVar[_Call | None] = ContextVar("outermost", default=None)


def in_call() -> bool:
    """Whether a public function is running."""
    return _outermost.get() is not None


def until_call_returns(resource: AbstractContextManager[R]) -> R:
    """Enter a context until the outermost public call returns; must be called within one."""
    call = _outermost.get()
    assert call is not None
    return call.stack().enter_context(resource)


def when_call_returns(function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call a function when the outermost public call returns, if there is one.

    Ctrl-C may come between the end of a block and the first statement of its cleanup. What must be cleaned up even then
    is registered here too.
    """
    call = _outermost.get()
    if call is not None:
        call.stack().callback(function, *args, **kwargs)


def once_in_call(key: object, make: Callable[[], R]) -> R:
    """Return the result of ``make``, called once per key in an outermost public call."""
    call = _outermost.get()
    if call is None:
        return make()
    if key not in call.results:
        call.results[key] = make()
    result: R = call.results[key]
    return result
