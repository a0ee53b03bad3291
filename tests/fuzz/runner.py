"""Runs the cases of a kind in a process of their own, since a case may kill it or never end."""

from __future__ import annotations

import json
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz import draw_case, kind_module

__all__ = ["Failure", "Outcome", "run"]

_ROOT = Path(__file__).parents[2]
_STARTING_SECONDS, _SHRINKING_SECONDS, _COMPILING_SECONDS = 60, 40, 60


@dataclass
class Failure:
    """A case that failed, with the script that repeats it; ``times`` counts the cases that failed alike."""

    kind: str
    seed: int
    case: int
    signature: str
    error: str
    script: str
    times: int = 1

    def __str__(self) -> str:
        alike = f" (and {self.times - 1} more cases alike)" if self.times > 1 else ""
        return (
            f"--- {self.kind}, seed {self.seed}, case {self.case}: {self.signature}{alike}\n{self.error.rstrip()}\n"
            f"--- to repeat it: python -m tests.fuzz --kind {self.kind} --seed {self.seed} --case {self.case}, or\n"
            f"{self.script.rstrip()}\n"
        )


@dataclass
class Outcome:
    """What the cases of a kind came to."""

    kind: str
    seeds: list[int]
    cases: int = 0
    failures: dict[str, Failure] = field(default_factory=dict)
    tell: Callable[[Failure], object] = lambda failure: None

    def __str__(self) -> str:
        seeds = ", ".join(map(str, self.seeds))
        failed = sum(failure.times for failure in self.failures.values())
        return f"{self.kind}: {self.cases:,} cases (seeds {seeds}), {failed} failed, of {len(self.failures)} causes"


def run(kind: str, seeds: list[int], seconds: float, *, first: int = 0, count: int | None = None,
        tell: Callable[[Failure], object] = lambda failure: None) -> Outcome:  # fmt: skip
    """Run cases of a kind, of the seeds in turn, for so many seconds, or just ``count`` of them from ``first`` on.

    Each failure that is not like one before is told at once.
    """
    outcome, deadline, at = Outcome(kind, seeds, tell=tell), time.monotonic() + seconds, first * len(seeds)
    end = None if count is None else at + count
    while (end is None and time.monotonic() < deadline) or (end is not None and at < end):
        left = deadline - time.monotonic()
        at = _one_process(outcome, {"kind": kind, "seconds": left, "seeds": seeds, "first": at,
                                    "count": None if end is None else end - at})  # fmt: skip
    return outcome


def _one_process(outcome: Outcome, task: dict) -> int:
    """Run cases until the process ends, on its own or of a case; return the number of the first that was not run."""
    at, patience, fresh = task["first"], _STARTING_SECONDS, True
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.worker", json.dumps(task)],
            cwd=_ROOT, stdout=subprocess.PIPE, stderr=errors, bufsize=0,
        )  # fmt: skip
        try:
            while (line := _read(process, patience)) is not None:
                said = json.loads(line)
                if "done" in said:
                    return said["done"]
                if "failed" in said:
                    _note(outcome, said["failed"], said["signature"], said.get("error", ""), said.get("script"))
                elif "at" in said:
                    outcome.cases += 1
                    at, fresh, patience = said["at"], False, _patience(outcome.kind)
                else:
                    patience = _SHRINKING_SECONDS + _patience(outcome.kind)
            hung = process.poll() is None
            if hung:  # faulthandler writes where each thread is
                process.send_signal(signal.SIGABRT)
            code = process.wait(30)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        errors.seek(0)
        text = errors.read().decode(errors="replace")[-6000:]
    if fresh:
        raise RuntimeError(f"the process that runs the cases did not start:\n{text}")
    _note(outcome, at, "the case does not end" if hung else f"the process died (exit code {code})", text, None)
    return at + 1


def _patience(kind: str) -> float:
    """Return how long a case may be silent: twice what it may take, and kernels may have to be compiled for it."""
    return kind_module(kind).MOST_SECONDS * 2 + _COMPILING_SECONDS


def _read(process: subprocess.Popen, patience: float) -> bytes | None:
    """Return the next line, or None if the process has ended or has said nothing for so long."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(patience):
            return None
    return process.stdout.readline() or None


def _note(outcome: Outcome, at: int, signature: str, error: str, script: str | None) -> None:
    if signature in outcome.failures:
        outcome.failures[signature].times += 1
        return
    seed, number = outcome.seeds[at % len(outcome.seeds)], at // len(outcome.seeds)
    if script is None:
        try:
            script = kind_module(outcome.kind).script(draw_case(outcome.kind, seed, number))
        except Exception as failed:  # what the case is drawn with fails too: that is the failure
            script = f"# drawing the case fails: {type(failed).__name__}: {failed}"
    outcome.failures[signature] = Failure(outcome.kind, seed, number, signature, error, script)
    outcome.tell(outcome.failures[signature])
