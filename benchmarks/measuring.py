"""What is compared: ways to do one thing, run in turn, the best of several runs counting."""

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
    """What is wanted of a way: no more than ``at_most`` times the way ``of``, or than ``at_most`` if there is none.

    ``of_quality`` says that what is held to it is what the run is judged by, not its time.
    """

    at_most: float
    of: str | None = None
    of_quality: bool = False


@dataclass
class Way:
    """One way to do it: ``run`` is timed, ``judge`` says how good its result is.

    ``lacking`` is why it can't run here; ``per`` is what the time is divided by, as trees for the time of one.
    """

    name: str
    run: Callable[[], Any] = lambda: None
    judge: Callable[[Any], float] | None = None
    targets: Sequence[Target] = ()
    lacking: str | None = None
    per: float = 1.0
    values: list[float] = field(default_factory=list)
    quality: float | None = None
    result: Any = None

    @property
    def best(self) -> float | None:
        """The shortest time, None for a way that did not run."""
        return min(self.values, default=None)


@dataclass
class Comparison:
    """Ways to do one thing, the first of them what the others are compared with.

    Attributes
    ----------
    ways
        What is run in turn.
    title
        The sizes, for a person.
    quality
        What ``judge`` returns, by its name; none if nothing is judged.
    unit
        Of what is measured.
    timed
        Whether that is time; else it is what a run returns.
    rounds
        How often each runs; None for what the command line says.
    equal
        Ways that must have the same result.
    """

    ways: list[Way]
    title: str
    quality: str = ""
    unit: str = "s"
    timed: bool = True
    rounds: int | None = None
    equal: tuple[str, ...] = ()
    failed: bool = field(default=False, init=False)

    def measure(self, rounds: int, say: Callable[[str], None]) -> None:
        """Run all ways in turn, ``rounds`` times over, then judge; a way that fails is left out from then on."""
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
        way.result = None  # so that two of them are never there at once
        gc.collect()
        start = time.perf_counter()
        try:
            way.result = way.run()
        except Exception as error:  # which is no reason to lose the rest
            self.failed |= way.name.startswith("frameboost")
            way.lacking = f"fails: {type(error).__name__}: {' '.join(str(error).split())[:100]}"
            return
        way.values.append((time.perf_counter() - start if self.timed else way.result) / way.per)

    def complaint(self) -> str | None:
        """Return what is wrong with frameboost: that it fails, or that results differ that must be equal."""
        if self.failed:
            return "frameboost fails"
        results = {way.name: way.result for way in self.ways if way.name in self.equal and way.values}
        first, *others = results or {"": None}
        wrong = [name for name in others if results[name] != results[first]]
        return f"{', '.join(wrong)} should be equal to {first}" if wrong else None


def lacking(*modules: str) -> str | None:
    """Return why what needs these modules can't run, None if all are installed."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return f"{', '.join(missing)} not installed" if missing else None


@dataclass(frozen=True)
class Scale:
    """How much of everything: of full-size rows and trees, or the little of ``--quick``.

    ``folder`` is for files that are thrown away afterwards; ``joinboost`` is an interpreter that has JoinBoost.
    """

    quick: bool
    folder: str
    rows_factor: float = 1.0
    n_trees: int | None = None
    joinboost: str | None = None

    def rows(self, full: int, quick: int) -> int:
        """Return how many rows to take."""
        return max(100, int((quick if self.quick else full) * self.rows_factor))

    def trees(self, full: int = 100, quick: int = 20) -> int:
        """Return how many trees to train."""
        return self.n_trees or (quick if self.quick else full)
