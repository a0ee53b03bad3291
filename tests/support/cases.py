"""A decorator that runs many cases in one test, where `pytest.mark.parametrize` would make a test of each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import pytest

__all__ = ["cases", "some_pairs"]

_LONGEST = 100  # characters of a value in a failure's message


def cases(names: str | Sequence[str], values: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test once for each value; fail at the end with the first failure, naming all values that failed.

    Takes the first two arguments of `pytest.mark.parametrize`. Use it for long lists of seeds, types and wrong values:
    setting up and reporting a test for each would take longer than the cases themselves. All values share one set of
    fixtures. A case may skip itself; the test counts as skipped if all cases are.
    """
    argnames = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    values = list(values)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)
        others = [parameter for name, parameter in signature.parameters.items() if name not in argnames]

        @wraps(test)
        def run_all(*args: Any, **fixtures: Any) -> None:
            failures: list[tuple[str, BaseException]] = []
            skipped: list[BaseException] = []
            for value in values:
                given = dict(zip(argnames, value if len(argnames) > 1 else [value], strict=True))
                try:
                    test(*args, **fixtures, **given)
                except pytest.skip.Exception as reason:
                    skipped.append(reason)
                except (Exception, pytest.fail.Exception) as error:
                    failures.append((", ".join(f"{name}={_short(value)}" for name, value in given.items()), error))
            if failures:
                error = failures[0][1]
                error.add_note(f"{len(failures)} of {len(values)} cases failed, the first of which is shown:")
                for label, failure in failures:
                    error.add_note(f"  {label}: {type(failure).__name__}")
                raise error
            if skipped and len(skipped) == len(values):
                raise skipped[0]

        run_all.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return run_all

    return decorate


def some_pairs(ones: Iterable[Any], others: Iterable[Any], every: int = 2) -> list[tuple[Any, Any]]:
    """Return pairs in which each value meets every second (or third, ...) of the others.

    For values whose effects are tested alone, and that may only rarely go wrong together.
    """
    others = list(others)
    return [(a, b) for i, a in enumerate(ones) for j, b in enumerate(others) if (i + j) % every == 0]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
