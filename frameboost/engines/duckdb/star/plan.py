"""The plan of a star: which dimensions keep tables of their own, and which are joined to the facts first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import duckdb

from frameboost.data.sources import RelationSource
from frameboost.engines.description import EngineRequest
from frameboost.joins.star_sources import FACTS, Dimension, StarRelation, joined_relation, needed

__all__ = ["Branch", "StarPlan", "plan_star"]

# A dimension with fewer facts a row is joined to them: to bin its rows, and to count how often facts refer to them,
# takes as long as to bin the facts.
_MIN_FACTS = 2


@dataclass(frozen=True)
class Branch:
    """A dimension whose key is in the facts, and what is joined to it in turn; or one that is joined to a dimension.

    Attributes
    ----------
    dimension
        The dimension.
    attributes
        The columns that are features, by the features' numbers.
    branches
        The dimensions whose keys are in this one.
    """

    dimension: Dimension
    attributes: Mapping[int, str]
    branches: tuple[Branch, ...]

    @property
    def relation(self) -> duckdb.DuckDBPyRelation:
        """The rows of the dimension."""
        assert isinstance(self.dimension.source, RelationSource)
        return self.dimension.source.relation

    @property
    def features(self) -> list[int]:
        """The numbers of the features of this dimension and of those joined to it, in order."""
        return sorted([*self.attributes, *(number for branch in self.branches for number in branch.features)])


@dataclass(frozen=True)
class StarPlan:
    """The tables that a fit reads: each feature is in the facts, or in one branch.

    Attributes
    ----------
    facts
        The facts, joined with what has no table of its own.
    n_facts
        Their number.
    branches
        The dimensions with tables of their own, whose keys are in ``facts``.
    """

    facts: duckdb.DuckDBPyRelation
    n_facts: int
    branches: tuple[Branch, ...]


def plan_star(request: EngineRequest) -> StarPlan | None:
    """Return the plan for a fit on a star, or None where no dimension pays for a table of its own."""
    star = request.source
    assert isinstance(star, StarRelation)
    dimensions = star.dimensions
    features = {f.name: number for number, f in enumerate(request.features)}
    used = needed(dimensions, features)
    n_facts = _count(star.facts)
    is_apart = [each in used and _count(_relation(each)) * _MIN_FACTS <= n_facts for each in dimensions]
    own = set(star.facts.columns)
    joined = {name for name in request.roles.values() if name not in own}
    for each, is_own_table in zip(dimensions, is_apart, strict=True):
        if not is_own_table:
            joined.update(features.keys() & each.columns.keys())
        elif _hangs_on_facts(each, is_apart):
            joined.update(each.left_on)
    roots = [
        _branch(number, dimensions, is_apart, features)
        for number, each in enumerate(dimensions)
        if is_apart[number] and _hangs_on_facts(each, is_apart)
    ]
    branches = tuple(branch for branch in roots if branch.features)
    if not branches:
        return None
    joined -= own
    facts = joined_relation(star.facts, dimensions, joined) if joined else star.facts
    return StarPlan(facts, n_facts, branches)


def _hangs_on_facts(dimension: Dimension, is_apart: Sequence[bool]) -> bool:
    """Whether the key is to be found in the facts, as they are joined with dimensions without a table of their own."""
    return dimension.parent is None or dimension.parent == FACTS or not is_apart[dimension.parent]


def _branch(
    number: int, dimensions: Sequence[Dimension], is_apart: Sequence[bool], features: Mapping[str, int]
) -> Branch:
    dimension = dimensions[number]
    below: Iterable[Branch] = (
        _branch(i, dimensions, is_apart, features)
        for i, other in enumerate(dimensions)
        if other.parent == number and is_apart[i]
    )
    attributes = {features[name]: own for name, own in dimension.columns.items() if name in features}
    return Branch(dimension, attributes, tuple(branch for branch in below if branch.features))


def _relation(dimension: Dimension) -> duckdb.DuckDBPyRelation:
    assert isinstance(dimension.source, RelationSource)
    return dimension.source.relation


def _count(relation: duckdb.DuckDBPyRelation) -> int:
    return int(relation.aggregate("COUNT(*)").fetchall()[0][0])
