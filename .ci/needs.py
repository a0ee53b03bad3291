"""A plugin of pytest for `.ci/core`: which examples need more than the package's dependencies.

An example says so in a comment, ``>>> # needs xgboost``, and is skipped where that is missing. A folder that can't be
imported without an extra must say which.
"""

from __future__ import annotations

import importlib
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from _pytest.doctest import DoctestItem

# Folders whose modules import what only an extra brings, and the sentence that they say without it.
FOLDERS = {"plots": r"pip install 'frameboost\[plots\]'", "report": r"pip install 'frameboost\[report\]'",
           "sklearn": r"pip install 'frameboost\[sklearn\]'", "engines/dask": "", "engines/spark": ""}  # fmt: skip


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the folders of extras."""
    return True if any(collection_path.match(f"frameboost/{folder}") for folder in FOLDERS) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip examples that say what they need."""
    for item in items:
        if isinstance(item, DoctestItem) and item.dtest is not None:
            needs = re.findall(r"^ *>>> # needs (\S+)$", item.dtest.docstring or "", re.MULTILINE)
            missing = [name for name in needs if find_spec(name) is None]
            if missing:
                item.add_marker(pytest.mark.skip(reason=f"needs {', '.join(missing)}"))


def pytest_sessionstart() -> None:
    """Check what the folders of extras say."""
    for folder, sentence in FOLDERS.items():
        if sentence:
            with pytest.raises(ImportError, match=sentence):
                importlib.import_module(f"frameboost.{folder}")
