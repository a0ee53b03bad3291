"""Features whose codes make one number together: so few that a table with a row for each such number is small.

All that features of a group say about trees then takes one lookup in place of one each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from frameboost.compile.sql.feature_codes import FeatureCode

__all__ = ["FeatureGroup", "feature_groups"]

# Numbers of a group of several features. Its table is made by the query, and stays in the processor's cache.
_MOST_NUMBERS = 1024


@dataclass(frozen=True)
class FeatureGroup:
    """The codes of some features, by feature; the first changes fastest in their common number."""

    codes: Mapping[int, FeatureCode]

    @property
    def count(self) -> int:
        """How many numbers there are."""
        return math.prod(code.count for code in self.codes.values())

    @property
    def type_name(self) -> str:
        """Which of our types holds a number, and one more."""
        return "uint16" if self.count < 2**16 else "uint32"

    def strides(self) -> Iterator[tuple[int, FeatureCode, int]]:
        """Yield each feature, its codes, and what one more in its code adds to the number."""
        stride = 1
        for feature, code in self.codes.items():
            yield feature, code, stride
            stride *= code.count


def feature_groups(codes: Mapping[int, FeatureCode]) -> list[FeatureGroup]:
    """Return all features in groups; those of few codes are put together."""
    groups: list[FeatureGroup] = []
    for feature, code in sorted(codes.items(), key=lambda one: one[1].count):
        if groups and groups[-1].count * code.count <= _MOST_NUMBERS:
            groups[-1] = FeatureGroup({**groups[-1].codes, feature: code})
        else:
            groups.append(FeatureGroup({feature: code}))
    return groups
