"""Comparisons of several ways to do one thing: run in turn, several times, of which the best run counts."""

from __future__ import annotations

import gc
import importlib.util
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Target:
    """An upper bound for a way: ``at_most`` times the way ``of`` (the best of several), or itself without ``of``.

    It bounds the time, or with ``of_quality`` the value that ``judge`` returns.
    """

    at_most: float
    of: str | tuple[str, ...] | None = None
    of_quality: bool = False


@dataclass
class Way:
    """One way to do it: ``run`` is timed, ``judge`` rates its result.

    ``lacking`` is the reason why it cannot run here. The time is divided by ``per``, such as the number of trees.
    ``wall`` and ``cpu`` are the seconds of each run by both clocks, ``values`` those by the clock that counts.
    """

    name: str
    run: Callable[[], Any] = lambda: None
    judge: Callable[[Any], float] | None = None
    targets: Sequence[Target] = ()
    lacking: str | None = None
    per: float = 1.0
    values: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    quality: float | None = None
    result: Any = None

    @property
    def best(self) -> float | None:
        """The shortest time, None for a way that did not run."""
        return min(self.values, default=None)


@dataclass
class Comparison:
    """Ways to do one thing; the others are compared with the first one.

    Attributes
    ----------
    ways
        The ways, run in turn.
    title
        The sizes, to be printed.
    quality
        The name of what ``judge`` returns; empty if nothing is judged.
    unit
        The unit of the measurement.
    timed
        Whether time is measured; otherwise the value that a run returns.
    rounds
        How often each way runs; None for the number on the command line.
    equal
        Names of ways whose results must be equal.
    by_cpu
        Whether the CPU seconds of all threads of this process count, and not those of the clock on the wall.
    """

    ways: list[Way]
    title: str
    quality: str = ""
    unit: str = "s"
    timed: bool = True
    rounds: int | None = None
    equal: tuple[str, ...] = ()
    by_cpu: bool = False
    failed: bool = field(default=False, init=False)

    def measure(self, rounds: int, say: Callable[[str], None]) -> None:
        """Run all ways in turn, ``rounds`` times, then judge; a way that fails is skipped from then on."""
        for number in range(self.rounds or rounds):
            for way in self.ways:
                if way.lacking is None:
                    say(f"{way.name}, {number + 1} of {self.rounds or rounds}")
                    self._run(way)
        for way in self.ways:
            if way.judge is not None and way.values:
                say(f"{way.name}, {self.quality}")
                way.quality = way.judge(way.result)

    def _run(self, way: Way) -> None:
        way.result = None  # so that two results never exist at once
        gc.collect()
        start, cpu = time.perf_counter(), time.process_time()
        try:
            way.result = way.run()
        except Exception as error:  # the other ways still count
            self.failed |= way.name.startswith("frameboost")
            way.lacking = f"fails: {type(error).__name__}: {' '.join(str(error).split())[:100]}"
            return
        took = time.perf_counter() - start
        way.cpu.append((time.process_time() - cpu) / way.per)
        way.wall.append(took / way.per)
        by_clock = way.cpu[-1] if self.by_cpu else way.wall[-1]
        way.values.append(by_clock if self.timed else way.result / way.per)

    def complaint(self) -> str | None:
        """Return an error message if frameboost fails, or if results differ that must be equal."""
        if self.failed:
            return "frameboost fails"
        results = {way.name: way.result for way in self.ways if way.name in self.equal and way.values}
        first, *others = results or {"": None}
        wrong = [name for name in others if results[name] != results[first]]
        return f"{', '.join(wrong)} should be equal to {first}" if wrong else None


def lacking(*modules: str) -> str | None:
    """Return which of these modules are not installed, None if all are."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return f"{', '.join(missing)} not installed" if missing else None


@dataclass(frozen=True)
class Scale:
    """The sizes of the workloads: full, or small with ``--quick``.

    ``folder`` is for temporary files; ``joinboost`` is an interpreter that has JoinBoost installed, ``tables``
    a folder of real tables (see README.md).
    """

    quick: bool
    folder: str
    rows_factor: float = 1.0
    n_trees: int | None = None
    joinboost: str | None = None
    tables: str | None = None

    def rows(self, full: int, quick: int) -> int:
        """Return the number of rows to use."""
        return max(100, int((quick if self.quick else full) * self.rows_factor))

    def trees(self, full: int = 100, quick: int = 20) -> int:
        """Return the number of trees to train."""
        return self.n_trees or (quick if self.quick else full)
