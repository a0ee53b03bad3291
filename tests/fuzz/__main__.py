"""``python -m tests.fuzz``: runs random cases for a given time, or reproduces one case."""

from __future__ import annotations

import argparse
import secrets
import sys

from tests.fuzz import KINDS
from tests.fuzz.runner import run


def main() -> int:
    """Run the cases that the arguments name; return 1 if a case failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--kind", action="append", choices=KINDS, help="default: all, with equal shares of the time")
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--seed", type=int, help="default: a random one, which is printed")
    parser.add_argument("--case", type=int, help="run this case only")
    given = parser.parse_args()
    seed = secrets.randbelow(2**31) if given.seed is None else given.seed
    kinds = given.kind or KINDS
    seconds = given.minutes * 60 + given.seconds or 60.0
    print(f"seed {seed}", flush=True)
    outcomes = []
    for kind in kinds:
        only = {} if given.case is None else {"first": given.case, "count": 1}
        outcome = run(kind, [seed], seconds / len(kinds), report=lambda failure: print(failure, flush=True), **only)
        outcomes.append(outcome)
        print(outcome, flush=True)
    print("\n".join(["", *map(str, outcomes)]))
    return int(any(outcome.failures for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
