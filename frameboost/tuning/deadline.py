"""How much time is left, and whether it is enough for one more fit."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import CancelledError

__all__ = ["Deadline", "Stop"]

# The share of the limit that is kept for joining the models; and seconds for what few rows need too, of a short limit
# this share.
_RESERVE, _SECONDS, _OF_SHORT = 0.05, 0.1, 0.15


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
        self.is_cancelled = False

    def cancel(self) -> None:
        """End fits in other threads at once, without a model."""
        self.is_cancelled = True

    @property
    def left(self) -> float:
        """The seconds for training that are left."""
        if self.seconds is None:
            return float("inf")
        reserve = self.seconds * _RESERVE + min(_SECONDS, self.seconds * _OF_SHORT)
        return self._start + self.seconds - reserve - time.monotonic()

    def took(self, recipe: str, seconds: float) -> None:
        """Take note of how long a fit of a recipe took."""
        self._longest[recipe] = max(seconds, self._longest.get(recipe, 0.0))

    def allows(self, recipe: str) -> bool:
        """Whether one more fit of a recipe is likely to end in time, judged by earlier fits."""
        return self._longest.get(recipe, max(self._longest.values(), default=0.0)) <= self.left


class Stop:
    """A callback of `frameboost.fit` that stops it when the time is over.

    Parameters
    ----------
    deadline
        When that is.
    """

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self.was_asked = False

    def __call__(self, _round: int, _metrics: Mapping[str, float]) -> bool:
        """Return whether the fit should stop after this round; raise `CancelledError` if there shall be no model."""
        if self._deadline.is_cancelled:
            raise CancelledError
        self.was_asked = self._deadline.left <= 0
        return self.was_asked
