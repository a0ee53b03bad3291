"""Temporary files that are mapped into the memory of this process."""

import tempfile
from pathlib import Path


def mapped_files() -> int:
    """Return their number, on Linux."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    return sum(tempfile.gettempdir() in line and line.endswith("(deleted)") for line in maps)
