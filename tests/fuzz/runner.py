"""The runner: it runs the cases of a kind in a child process, since a case may crash or hang it."""

from __future__ import annotations

import atexit
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
from tests.fuzz import script as script_of

__all__ = ["Failure", "Outcome", "run"]

_ROOT = Path(__file__).parents[2]
_STARTING_SECONDS, _SHRINKING_SECONDS, _COMPILING_SECONDS = 60, 40, 60


@dataclass
class Failure:
    """A failed case and the script that reproduces it; ``times`` counts the cases with the same signature."""

    kind: str
    seed: int
    case: int
    signature: str
    error: str
    script: str
    times: int = 1

    def __str__(self) -> str:
        others = f" (and {self.times - 1} more cases of this cause)" if self.times > 1 else ""
        return (
            f"--- {self.kind}, seed {self.seed}, case {self.case}: {self.signature}{others}\n{self.error.rstrip()}\n"
            f"--- to reproduce it: python -m tests.fuzz --kind {self.kind} --seed {self.seed} --case {self.case}, or\n"
            f"{self.script.rstrip()}\n"
        )


@dataclass
class Outcome:
    """The number of cases of a kind that were run, and their failures by signature."""

    kind: str
    seeds: list[int]
    cases: int = 0
    seconds: float = 0.0  # spent on them
    failures: dict[str, Failure] = field(default_factory=dict)
    report: Callable[[Failure], object] = lambda failure: None

    def __str__(self) -> str:
        seeds = ", ".join(map(str, self.seeds))
        failed = sum(failure.times for failure in self.failures.values())
        return f"{self.kind}: {self.cases:,} cases (seeds {seeds}), {failed} failed, of {len(self.failures)} causes"


def run(kind: str, seeds: list[int], seconds: float, *, first: int = 0, count: int | None = None,
        report: Callable[[Failure], object] = lambda failure: None) -> Outcome:  # fmt: skip
    """Run cases of a kind for that many seconds, or ``count`` cases from number ``first`` on.

    The time in which a process starts and imports does not count, so there is at least one case on a busy machine, too.
    Cases alternate between the seeds: case 0 of each seed, then case 1 of each seed. ``report`` is called at once with
    each failure that has a new signature.
    """
    outcome, at = Outcome(kind, seeds, report=report), first * len(seeds)
    end = None if count is None else at + count
    while (end is None and outcome.seconds < seconds) or (end is not None and at < end):
        left = seconds - outcome.seconds
        at = _run_process(outcome, {"kind": kind, "seconds": left, "seeds": seeds, "first": at,
                                    "count": None if end is None else end - at})  # fmt: skip
    return outcome


class _Child:
    """A process that runs cases, and what it writes to standard error."""

    def __init__(self) -> None:
        atexit.register(self.end)
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115  # of the process, which outlives a task
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.worker"],
            cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, bufsize=0,
        )  # fmt: skip

    def end(self) -> str:
        """End the process; return the last of what it wrote."""
        atexit.unregister(self.end)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace")[-6000:]
        self.errors.close()
        return text


_idle: list[_Child] = []  # started, and done with their tasks: to start takes as long as the cases


def _run_process(outcome: Outcome, task: dict) -> int:
    """Run cases in a child process until they end, or it crashes or hangs; return the number of the next case."""
    at, timeout, is_starting, started = task["first"], _STARTING_SECONDS, True, time.monotonic()
    child = _idle.pop() if _idle else _Child()
    process, is_done = child.process, False
    assert process.stdin is not None
    try:
        process.stdin.write(f"{json.dumps(task)}\n".encode())
        while (line := _read_line(process, timeout)) is not None:
            message = json.loads(line)
            if "ready" in message:
                started = time.monotonic()
                continue
            if "done" in message:
                is_done = True
                return message["done"]
            if "failed" in message:
                failed, error, script = message["failed"], message.get("error", ""), message.get("script")
                _record_failure(outcome, failed, message["signature"], error, script)
            elif "at" in message:
                outcome.cases += 1
                at, is_starting, timeout = message["at"], False, _timeout(outcome.kind)
            else:
                timeout = _SHRINKING_SECONDS + _timeout(outcome.kind)
        hung = process.poll() is None
        if hung:  # on SIGABRT faulthandler writes the stack of each thread
            process.send_signal(signal.SIGABRT)
        code = process.wait(30)
    finally:
        outcome.seconds += time.monotonic() - started
        if is_done:
            _idle.append(child)
        else:
            text = child.end()
    if is_starting:
        raise RuntimeError(f"the process that runs the cases did not start:\n{text}")
    signature = "the case does not end" if hung else f"the process died (exit code {code})"
    _record_failure(outcome, at, signature, text, None)
    return at + 1


def _timeout(kind: str) -> float:
    """Return the seconds that a case may be silent: twice its limit, since it may run twice, and time to compile."""
    return kind_module(kind).MAX_SECONDS * 2 + _COMPILING_SECONDS


def _read_line(process: subprocess.Popen, timeout: float) -> bytes | None:
    """Return the next line, or None if the process has ended or nothing arrives within the timeout."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(timeout):
            return None
    return process.stdout.readline() or None


def _record_failure(outcome: Outcome, at: int, signature: str, error: str, script: str | None) -> None:
    if signature in outcome.failures:
        outcome.failures[signature].times += 1
        return
    seed, number = outcome.seeds[at % len(outcome.seeds)], at // len(outcome.seeds)
    if script is None:
        try:
            script = script_of(outcome.kind, draw_case(outcome.kind, seed, number))
        except Exception as failed:  # drawing the case fails as well: report that
            script = f"# drawing the case fails: {type(failed).__name__}: {failed}"
    outcome.failures[signature] = Failure(outcome.kind, seed, number, signature, error, script)
    outcome.report(outcome.failures[signature])
