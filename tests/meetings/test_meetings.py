"""Every two values of the table meet at least once, and what must hold holds.

``--hypothesis-profile=thorough`` has every three of them meet, which takes hours. ``python -m tests.meetings 17``
carries out one meeting.
"""

from itertools import combinations

import pytest

from tests.meetings.covering import commonest, meetings, to_meet
from tests.meetings.journey import check
from tests.meetings.table import COMMONEST, DATABASES, FACTORS
from tests.support.cases import cases
from tests.support.examples import examples
from tests.support.warehouses import databases

THOROUGH = examples(1) > 1
# Of the meetings of one database, the share that may be refused: what does not go together is said in the table.
MAX_REFUSED = 0.1


@pytest.mark.slow
@pytest.mark.parametrize("database", databases("none", *DATABASES))
def test_values_that_meet(database, tmp_path):
    chosen = [(number, m) for number, m in enumerate(meetings(thorough=THOROUGH)) if m["database"] == database]
    refused = {}

    @cases("number, meeting", chosen)
    def carry_out(number, meeting):
        (tmp_path / str(number)).mkdir()
        if sentence := check(meeting, tmp_path / str(number)):
            refused[number] = sentence

    carry_out()
    assert len(refused) <= MAX_REFUSED * len(chosen), refused


@pytest.mark.slow
@cases("meeting", commonest())
def test_the_commonest_values_meet(meeting, tmp_path):
    assert check(meeting, tmp_path) == ""


@pytest.mark.slow
@cases("strength, factors, chosen", [(2, FACTORS, meetings()), (3, COMMONEST, commonest())])
def test_all_that_go_together_meet(strength, factors, chosen):
    met = {frozenset(some) for meeting in chosen for some in combinations(meeting.items(), strength)}
    assert set(to_meet(factors, strength)) - met == set()
