"""How many examples hypothesis tries in tests whose examples take long, as fits and statements do."""

from __future__ import annotations

from hypothesis import settings

__all__ = ["examples"]

_BY_DEFAULT = 100  # hypothesis's own number
# For ``pytest --hypothesis-profile=thorough``: eight times as many examples in the tests that ask here, and in those
# that say no number.
settings.register_profile("thorough", max_examples=8 * _BY_DEFAULT)


def examples(number: int) -> int:
    """Return ``max_examples`` of a test: the given number by default, more in the profile ``thorough``.

    Every run draws other examples, so a small number tries many in time.
    """
    return number * settings.default.max_examples // _BY_DEFAULT
