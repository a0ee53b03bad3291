"""How much time is left, and whether it is enough for one more fit."""

from __future__ import annotations

import time
from collections.abc import Mapping

__all__ = ["Deadline"]

# What is kept for joining the models.
_RESERVE = 0.05


class Deadline:
    """The time limit of a search; without one there is always time.

    Parameters
    ----------
    seconds
        The limit, from now on, or None.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._start = time.monotonic()
        self._longest: dict[str, float] = {}
        self.was_too_short = False

    @property
    def elapsed(self) -> float:
        """The seconds since the start."""
        return time.monotonic() - self._start

    @property
    def is_over(self) -> bool:
        """Whether no more round should start."""
        return self.seconds is not None and self.elapsed > self.seconds * (1 - _RESERVE)

    def took(self, recipe: str, seconds: float) -> None:
        """Take note of how long a fit of a recipe took."""
        self._longest[recipe] = max(seconds, self._longest.get(recipe, 0.0))

    def allows(self, recipe: str) -> bool:
        """Whether one more fit of a recipe is likely to end in time, judged by earlier fits."""
        if self.seconds is None or not self._longest:
            return True
        expected = self._longest.get(recipe, max(self._longest.values()))
        return self.elapsed + expected <= self.seconds * (1 - _RESERVE)

    def stops(self, _round: int, _metrics: Mapping[str, float]) -> bool:
        """Return whether a fit should stop after this round: a callback of `frameboost.fit`."""
        if self.is_over:
            self.was_too_short = True
        return self.is_over
