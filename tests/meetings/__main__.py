"""``python -m tests.meetings``: carries out meetings by their numbers, or all, and says what went wrong."""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

from frameboost.engines import query_costs
from tests.meetings.covering import meetings
from tests.meetings.journey import check


def main() -> int:
    """Run the meetings that the arguments name; return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.meetings", description=__doc__)
    parser.add_argument("number", nargs="*", type=int, help="default: all")
    parser.add_argument("--thorough", action="store_true", help="every three values meet, not every two")
    arguments = parser.parse_args()
    warnings.simplefilter("error")
    query_costs.MAX_VALUES = -1  # small tables are trained on by queries, as large ones are
    chosen, failed = meetings(thorough=arguments.thorough), 0
    for number in arguments.number or range(len(chosen)):
        try:
            outcome = check(chosen[number], Path(tempfile.mkdtemp())) or "passed"
        except Exception:
            failed, outcome = failed + 1, traceback.format_exc()
        print(f"{number} {' · '.join(chosen[number].values())}: {outcome}", flush=True)
    print(f"{failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
