"""The choice of meetings: a covering array of the pairs of values, and of the triples of the commonest ones.

Rows are made one after another (Cohen et al., "The AETG System", IEEE TSE 23(7), 1997): each begins with values that
have not met yet, and takes for every other factor the value that meets most others for the first time; of a few such
rows, in which the factors come in other orders, the one in which most meet is taken. (allpairspy 2.5 was tried: with as
many values that do not go together as here it leaves pairs out.)
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cache
from itertools import combinations, islice, product

from tests.meetings.table import COMMONEST, DEAR, FACTORS, go_together

__all__ = ["Meeting", "commonest", "meetings", "to_meet"]

Meeting = dict[str, str]
_Item = tuple[str, str]  # a factor and its value
_TRIED = 3  # rows, of which one is taken
_PLAIN = {name: values[0] for name, values in FACTORS.items()}


def to_meet(factors: Mapping[str, tuple[str, ...]], strength: int) -> list[frozenset[_Item]]:
    """Return the values that go together, ``strength`` of them at a time."""
    return [
        frozenset(zip(names, values, strict=True))
        for names in combinations(factors, strength)
        for values in product(*(factors[name] for name in names))
        if go_together(dict(zip(names, values, strict=True)))
    ]


def _covering(factors: Mapping[str, tuple[str, ...]], strength: int, plain: Meeting) -> list[Meeting]:
    """Return meetings with all of `to_meet`; other factors have the values of ``plain``."""
    rng = random.Random(1)
    choices = {name: factors.get(name, (value,)) for name, value in plain.items()}
    items = [(name, value) for name, values in choices.items() for value in values]
    apart = {item: {other for other in items if not go_together(dict([item, other]))} for item in items}
    all_of = to_meet(factors, strength)
    missing, rows = set(all_of), []
    for start in all_of:
        if start in missing:
            grown = (_grown(start, choices, apart, missing, strength, rng) for _ in range(50))
            tried = list(islice(filter(None, grown), _TRIED))
            assert tried, f"{sorted(start)} go together, but with no values of the other factors"
            row = max(tried, key=lambda one: len(missing & _sets(one, strength)))
            missing -= _sets(row, strength)
            rows.append({name: row[name] for name in plain})
    return rows


def _sets(row: Meeting, strength: int) -> set[frozenset[_Item]]:
    return {frozenset(some) for some in combinations(row.items(), strength)}


def _grown(
    start: frozenset[_Item], choices: Meeting, apart: Mapping[_Item, set[_Item]], missing: set, strength: int,
    rng: random.Random,
) -> Meeting | None:  # fmt: skip
    """Return a meeting with the values of ``start``, or None if there is no value for a factor in the end."""
    row = dict(start)
    barred = set().union(*(apart[item] for item in start))
    others = [name for name in choices if name not in row]
    rng.shuffle(others)
    for name in others:
        best, value = (-1, False, 0.0), None
        for item in ((name, value) for value in choices[name]):
            if item not in barred:
                new = sum(frozenset([*some, item]) in missing for some in combinations(row.items(), strength - 1))
                if (rank := (new, item[1] not in DEAR, rng.random())) > best:
                    best, value = rank, item[1]
        if value is None:
            return None
        row[name] = value
        barred |= apart[name, value]
    return row


@cache
def meetings(*, thorough: bool = False) -> tuple[Meeting, ...]:
    """Return meetings of every two values that go together; if ``thorough``, of every three."""
    return tuple(_covering(FACTORS, 3 if thorough else 2, _PLAIN))


@cache
def commonest() -> tuple[Meeting, ...]:
    """Return meetings of every three of the commonest values."""
    return tuple(_covering(COMMONEST, 3, _PLAIN))
