"""The first bytes of each library's model files."""

from __future__ import annotations

import re

from frameboost.ensemble.model_file import BINARY_START, FORMAT

__all__ = ["library_of_file"]

# For JSON the first key, which spares parsing a large file twice. XGBoost's other forms are UBJSON and its old binary.
_STARTS = (
    ("frameboost", re.compile(re.escape(BINARY_START))),
    ("lightgbm", re.compile(rb"tree[ \t\r]*\n")),
    ("xgboost", re.compile(rb'\s*\{\s*"learner"\s*:|\{[iUIlL#]|binf')),
    ("frameboost", re.compile(rb'\s*\{\s*"format"\s*:\s*"%s"' % FORMAT.encode())),
    ("catboost", re.compile(rb'\s*\{\s*"(?:features_info|model_info|oblivious_trees)"\s*:')),
)


def library_of_file(data: bytes) -> str | None:
    """Return the library whose files start like this; None if no library's do, or if JSON starts with another key."""
    return next((library for library, start in _STARTS if start.match(data)), None)
