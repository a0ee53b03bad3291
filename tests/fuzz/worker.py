"""The child process that runs cases, and may crash: it writes JSON messages to standard output, one per line.

``{"ready": true}`` once all is imported, ``{"at": 7}`` before case 7, ``{"shrinking": 7}`` and ``{"failed": 7, ...}``
if it fails, ``{"done": 9}`` at the end. It reads tasks from standard input, one per line, until there are no more.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import resource
import sys
import time
import traceback
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

import frameboost as fb
from tests.fuzz import draw_case, kind_module, script

__all__ = ["error_of_check", "work"]

_SHRINKING_SECONDS, _SHRINKING_ATTEMPTS = 20.0, 300
_ROOT = Path(__file__).parents[2]


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _seconds_of_check(kind: ModuleType, case: Any) -> float:
    start = time.perf_counter()
    kind.check(case)
    return time.perf_counter() - start


def error_of_check(kind: ModuleType, case: Any) -> BaseException | None:
    """Return the error that the check of a case raises, or None; too much time or memory is an error too."""
    try:
        before = _peak_megabytes()
        seconds = _seconds_of_check(kind, case)
        took = _peak_megabytes() - before
        if seconds > kind.MAX_SECONDS:  # the first run may have compiled kernels: measure again
            seconds = _seconds_of_check(kind, case)
        assert took < kind.MAX_MEGABYTES, f"took {took:,.0f} MB, more than {kind.MAX_MEGABYTES:,}"
        assert seconds < kind.MAX_SECONDS, f"took {seconds:.1f} s, more than {kind.MAX_SECONDS}"
    except BaseException as error:  # polars' panics and KeyboardInterrupt are no Exception
        return error
    return None


def signature(error: BaseException) -> str:
    """Return a text that is equal for failures of one cause: the error's type, where it was raised, its message.

    Quoted texts and numbers in the message are replaced by ``_``.
    """
    if isinstance(error, AssertionError) and error.__context__ is not None:  # raised by a check about another error
        return f"{str(error).partition(' ')[0]} {signature(error.__context__)}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(str(_ROOT / "frameboost"))]
    where = f" at {Path(frames[-1].filename).relative_to(_ROOT)} in {frames[-1].name}" if frames else ""
    words = re.sub(r"'[^']*'|\"[^\"]*\"|[0-9.+-]+", "_", str(error).partition("\n")[0])[:50]
    return f"{type(error).__name__}{where}: {words}"


def shrunk(kind: ModuleType, case: Any, error: BaseException) -> Any:
    """Return a simpler case with the same signature, by greedy shrinking."""
    target, deadline = signature(error), time.perf_counter() + _SHRINKING_SECONDS
    attempts, progress = 0, True
    while progress:
        progress = False
        for candidate in kind.shrink(case):
            attempts += 1
            if attempts > _SHRINKING_ATTEMPTS or time.perf_counter() > deadline:
                return case
            other = error_of_check(kind, candidate)
            if other is not None and signature(other) == target:
                case, progress = candidate, True
                break
    return case


def work(kind_name: str, seconds: float, seeds: list[int], first: int, count: int | None, out: TextIO) -> None:
    """Run cases from number ``first`` on, alternating between seeds, until time is up or ``count`` have been run."""
    kind = kind_module(kind_name)
    _emit(out, ready=True)
    deadline = time.perf_counter() + seconds
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", fb.FrameboostWarning)  # a sentence of ours, as an error is
    warnings.filterwarnings("ignore", "X does not have valid feature names|A column-vector y was passed", UserWarning)
    reported: set[str] = set()
    at = first
    while (count is None or at < first + count) and (count is not None or time.perf_counter() < deadline):
        seed, number = seeds[at % len(seeds)], at // len(seeds)
        _emit(out, at=at)
        case = draw_case(kind_name, seed, number)
        error = error_of_check(kind, case)
        if error is not None:
            key = signature(error)
            report: dict[str, Any] = {"failed": at, "signature": key}
            if key not in reported:
                reported.add(key)
                _emit(out, shrinking=at)
                small = shrunk(kind, case, error)
                last = error_of_check(kind, small) or error
                lines = "".join(traceback.format_exception(last)).splitlines()
                report["error"] = "\n".join(line[:400] for line in lines[-60:])
                report["script"] = script(kind_name, small)
            _emit(out, **report)
        at += 1
    _emit(out, done=at)


def _emit(out: TextIO, **what: Any) -> None:
    out.write(json.dumps(what) + "\n")
    out.flush()


if __name__ == "__main__":
    faulthandler.enable()
    messages = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # printed output must not mix with the messages
    for line in sys.stdin:
        given = json.loads(line)
        work(given["kind"], given["seconds"], given["seeds"], given["first"], given["count"], messages)
    os._exit(0)  # does not wait for threads that a case left running
