"""``python -m frameboost`` is the command ``frameboost``."""

from __future__ import annotations

import sys

from frameboost.cli import main

if __name__ == "__main__":
    sys.exit(main())
