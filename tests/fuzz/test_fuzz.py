"""Random cases of each kind, for a fixed time: ``FRAMEBOOST_FUZZ_SECONDS`` in all, 6 by default.

Half of the cases have a fixed seed, so that a change is judged by cases that passed before it. The other half have the
date as their seed: each day tries new cases. A failure is reproduced on the same day by running the test again, and
later by its seed, which the message names.
"""

import datetime as dt
import os

import pytest

from tests.fuzz import KINDS
from tests.fuzz.runner import run

SECONDS = float(os.environ.get("FRAMEBOOST_FUZZ_SECONDS", "6"))
FIXED_SEED = 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_random_cases(kind, record_property):
    seeds = [FIXED_SEED, int(f"{dt.datetime.now(dt.UTC):%Y%m%d}")]
    outcome = run(kind, seeds, SECONDS / len(KINDS))
    record_property("fuzz", str(outcome))
    assert outcome.cases > 0
    if outcome.failures:
        pytest.fail("\n".join(map(str, [outcome, *outcome.failures.values()])), pytrace=False)
