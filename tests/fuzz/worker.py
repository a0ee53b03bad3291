"""The process that runs cases, and may die of one: it tells on standard output, a JSON object a line, what it does."""

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

from tests.fuzz import draw_case, kind_module

__all__ = ["found_in", "work"]

_SHRINKING_SECONDS, _SHRINKING_ATTEMPTS = 20.0, 300
_ROOT = Path(__file__).parents[2]


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _seconds_of_check(kind: ModuleType, case: Any) -> float:
    start = time.perf_counter()
    kind.check(case)
    return time.perf_counter() - start


def found_in(kind: ModuleType, case: Any) -> BaseException | None:
    """Return what the check of a case raises; more memory or time than a case may take is an error too."""
    try:
        before = _peak_megabytes()
        seconds = _seconds_of_check(kind, case)
        took = _peak_megabytes() - before
        if seconds > kind.MOST_SECONDS:  # kernels may have been compiled meanwhile, as they are but once
            seconds = _seconds_of_check(kind, case)
        assert took < kind.MOST_MEGABYTES, f"took {took:,.0f} MB, more than {kind.MOST_MEGABYTES:,}"
        assert seconds < kind.MOST_SECONDS, f"took {seconds:.1f} s, more than {kind.MOST_SECONDS}"
    except BaseException as error:  # polars' panics, and a KeyboardInterrupt where none was to come, are no Exception
        return error
    return None


def signature(error: BaseException) -> str:
    """Return what failures of one cause have in common: the kind of error, where it was raised, the words of it."""
    if isinstance(error, AssertionError) and error.__context__ is not None:  # what a check says of another error
        return f"{str(error).partition(' ')[0]} {signature(error.__context__)}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(str(_ROOT / "frameboost"))]
    where = f" at {Path(frames[-1].filename).relative_to(_ROOT)} in {frames[-1].name}" if frames else ""
    words = re.sub(r"'[^']*'|\"[^\"]*\"|[0-9.+-]+", "_", str(error).partition("\n")[0])[:50]
    return f"{type(error).__name__}{where}: {words}"


def shrunk(kind: ModuleType, case: Any, error: BaseException) -> Any:
    """Return a case with less in it that fails in the same way."""
    wanted, deadline = signature(error), time.perf_counter() + _SHRINKING_SECONDS
    attempts, found = 0, True
    while found:
        found = False
        for candidate in kind.smaller(case):
            attempts += 1
            if attempts > _SHRINKING_ATTEMPTS or time.perf_counter() > deadline:
                return case
            other = found_in(kind, candidate)
            if other is not None and signature(other) == wanted:
                case, found = candidate, True
                break
    return case


def work(kind_name: str, seconds: float, seeds: list[int], first: int, count: int | None, out: TextIO) -> None:
    """Run cases, of the seeds in turn, from the first on, until the time is over or as many have been run."""
    deadline = time.perf_counter() + seconds
    kind = kind_module(kind_name)
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", "X does not have valid feature names|A column-vector y was passed", UserWarning)
    known: set[str] = set()
    at = first
    while (count is None or at < first + count) and (count is not None or time.perf_counter() < deadline):
        seed, number = seeds[at % len(seeds)], at // len(seeds)
        _say(out, at=at)
        case = draw_case(kind_name, seed, number)
        error = found_in(kind, case)
        if error is not None:
            cause = signature(error)
            report: dict[str, Any] = {"failed": at, "signature": cause}
            if cause not in known:
                known.add(cause)
                _say(out, shrinking=at)
                small = shrunk(kind, case, error)
                last = found_in(kind, small) or error
                lines = "".join(traceback.format_exception(last)).splitlines()
                report["error"] = "\n".join(line[:400] for line in lines[-60:])
                report["script"] = kind.script(small)
            _say(out, **report)
        at += 1
    _say(out, done=at)


def _say(out: TextIO, **what: Any) -> None:
    out.write(json.dumps(what) + "\n")
    out.flush()


if __name__ == "__main__":
    faulthandler.enable()
    talk = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the package or a library prints must not come between the lines
    given = json.loads(sys.argv[1])
    work(given["kind"], given["seconds"], given["seeds"], given["first"], given["count"], talk)
    talk.flush()
    os._exit(0)  # threads that a case has left behind are no reason to wait
