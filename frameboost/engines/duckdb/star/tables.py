"""The tables of a star in a database: the choice of dimensions with separate tables, and copies for a fit.

First a plan is made (`plan_star`): dimensions with few facts per row are joined to the facts. Then the facts and the
other dimensions are copied, with the number of facts of each dimension row (`copy_star`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb

from frameboost.data.duckdb_session import DuckDBSession
from frameboost.data.sources import RelationSource
from frameboost.engines.contract import EngineRequest
from frameboost.engines.duckdb.binning import CountedRows
from frameboost.expressions.duckdb_sql import quote_identifier, render
from frameboost.joins.star_sources import FACTS, Dimension, StarRelation, joined_relation, needed

__all__ = ["BranchTable", "StarPlan", "copy_star", "plan_star"]

# A dimension with fewer facts a row is joined to them: to bin its rows, and to count how often facts refer to them,
# takes as long as to bin the facts.
_MIN_FACTS = 2
_POSITION = "position"


@dataclass(frozen=True)
class Branch:
    """A dimension with its key in the facts or in another dimension, and the dimensions joined to it.

    Attributes
    ----------
    dimension
        The dimension.
    attributes
        The columns that are features, by feature index.
    branches
        The dimensions with keys in this one.
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
        """The indices of the features of this dimension and of those joined to it, in order."""
        return sorted([*self.attributes, *(number for branch in self.branches for number in branch.features)])


@dataclass(frozen=True)
class StarPlan:
    """The tables that a fit reads: each feature is in the facts, or in one branch.

    Attributes
    ----------
    facts
        The facts, joined with dimensions without a separate table.
    n_facts
        Their number.
    branches
        The dimensions with separate tables and keys in ``facts``.
    """

    facts: duckdb.DuckDBPyRelation
    n_facts: int
    branches: tuple[Branch, ...]


def plan_star(request: EngineRequest) -> StarPlan | None:
    """Return the plan for a fit on a star, or None if a separate table does not pay off for any dimension."""
    star = request.source
    assert isinstance(star, StarRelation)
    dimensions = star.dimensions
    features = {f.name: number for number, f in enumerate(request.features)}
    used = needed(dimensions, features)
    n_facts = _count(star.facts)
    is_apart = [each in used and _count(_relation(each)) * _MIN_FACTS <= n_facts for each in dimensions]
    of_facts = set(star.facts.columns)
    joined = {name for name in request.roles.values() if name not in of_facts}
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
    joined -= of_facts
    facts = joined_relation(star.facts, dimensions, joined) if joined else star.facts
    return StarPlan(facts, n_facts, branches)


def _hangs_on_facts(dimension: Dimension, is_apart: Sequence[bool]) -> bool:
    """Whether the key is in the facts, joined with dimensions without a separate table."""
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
    attributes = {features[name]: column for name, column in dimension.columns.items() if name in features}
    return Branch(dimension, attributes, tuple(branch for branch in below if branch.features))


def _relation(dimension: Dimension) -> duckdb.DuckDBPyRelation:
    assert isinstance(dimension.source, RelationSource)
    return dimension.source.relation


def _count(relation: duckdb.DuckDBPyRelation) -> int:
    return int(relation.aggregate("COUNT(*)").fetchall()[0][0])


# --- copies -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BranchTable:
    """The rows of a dimension that facts refer to: ``row_id``, ``facts`` and ``drawn``, and ``value_3``, ...

    Attributes
    ----------
    table
        Its name.
    row
        The column of the facts with the row that each refers to.
    features
        The indices of its features.
    """

    table: str
    row: str
    features: tuple[int, ...]

    def counted_rows(self, session: DuckDBSession) -> CountedRows:
        """Return the rows for proposing cuts."""
        n_rows = session.rows(f"SELECT COUNT(*) FROM {self.table}")[0][0]
        return CountedRows(self.table, n_rows, "source.drawn > 0", "drawn")


def copy_star(
    session: DuckDBSession, plan: StarPlan, features: Mapping[int, str], roles: Mapping[str, str], *, in_order: bool
) -> tuple[CountedRows, list[BranchTable]]:
    """Copy the facts, which become the session's source, and the dimensions; return the tables that cuts come from.

    Parameters
    ----------
    session
        A session over the facts of the plan.
    plan
        The tables.
    features
        The columns of the facts that are features, by index; the copies are ``value_0``, ...
    roles
        Role -> column of the facts; the copies are ``role_label``, ...
    in_order
        Whether the copy is in the order of the facts.
    """
    copies = [_copy_dimension(session, branch) for branch in plan.branches]
    sample = CountedRows.sample_of(plan.n_facts, _POSITION)
    is_numbered = in_order or sample is not None
    read = [
        *features.values(),
        *roles.values(),
        *(left for branch in plan.branches for left in branch.dimension.left_on),
    ]
    with _read_facts(session, list(dict.fromkeys(read)), is_numbered=is_numbered) as (source, names, position):
        columns = [f"source.{names[name]} AS value_{number}" for number, name in features.items()]
        columns += [f"source.{names[name]} AS role_{role}" for role, name in roles.items()]
        columns += [f"COALESCE(branch_{i}.row_id, -1) AS row_{i}" for i in range(len(copies))]
        columns += [f"source.{position} AS {_POSITION}"] if is_numbered else []
        keys = [[names[left] for left in branch.dimension.left_on] for branch in plan.branches]
        facts = session.table("facts")
        session.run(
            render(
                "store_table", table=facts, columns=", ".join(columns), source=source, joins=_joins(copies, keys),
                in_order=f"ORDER BY {_POSITION} ASC" if in_order else "",
            )
        )  # fmt: skip
    session.read_table(facts)
    branches = []
    for i, (branch, copy) in enumerate(zip(plan.branches, copies, strict=True)):
        referenced = session.table("referenced")
        values = ", ".join(f"dimension.value_{number}" for number in branch.features)
        session.run(
            render(
                "count_references", referenced=referenced, facts=facts, row=f"row_{i}", dimension=copy, columns=values,
                sample=sample or "TRUE",
            )
        )  # fmt: skip
        session.drop(copy)
        branches.append(BranchTable(referenced, f"row_{i}", tuple(branch.features)))
    return CountedRows(facts, plan.n_facts, sample or "TRUE"), branches


@contextmanager
def _read_facts(
    session: DuckDBSession, names: Sequence[str], *, is_numbered: bool
) -> Iterator[tuple[str, dict[str, str], str]]:
    """Return a table or query of the facts, its columns for these names, and its column of positions.

    DuckDB reads a view in one thread to number its rows; a copy that keeps their order has row ids.
    """
    quoted = {name: quote_identifier(name) for name in names}
    position = session.column("position")
    if not is_numbered:
        yield session.source, quoted, ""
    elif not session.setting("preserve_insertion_order"):
        yield f"(SELECT *, row_number() OVER () - 1 AS {position} FROM {session.source})", quoted, position
    else:
        copy, renamed = session.table("copy"), {name: f"column_{number}" for number, name in enumerate(names)}
        columns = ", ".join(f"source.{quoted[name]} AS {renamed[name]}" for name in names)
        session.run(render("store_table", table=copy, columns=columns, source=session.source, joins="", in_order=""))
        yield copy, renamed, "rowid"
        session.drop(copy)


def _copy_dimension(session: DuckDBSession, branch: Branch) -> str:
    """Copy a dimension, with the attributes of dimensions joined to it; return the table's name."""
    copies = [_copy_dimension(session, below) for below in branch.branches]
    columns = ["row_number() OVER () - 1 AS row_id"]
    columns += [f"source.{quote_identifier(key)} AS on_{i}" for i, key in enumerate(branch.dimension.right_on)]
    columns += [f"source.{quote_identifier(name)} AS value_{number}" for number, name in branch.attributes.items()]
    for i, below in enumerate(branch.branches):
        columns += [f"branch_{i}.value_{number}" for number in below.features]
    keys = [
        [quote_identifier(branch.dimension.columns[left]) for left in below.dimension.left_on]
        for below in branch.branches
    ]
    table = session.table("dimension")
    session.run_over(
        branch.relation,
        render(
            "store_table", table=table, columns=", ".join(columns), source=session.other, joins=_joins(copies, keys),
            in_order="",
        ),
    )  # fmt: skip
    for copy in copies:
        session.drop(copy)
    return table


def _joins(copies: Sequence[str], keys: Sequence[Sequence[str]]) -> str:
    """Return the joins with copied dimensions, from the key columns of ``source``."""
    return "\n".join(
        f"LEFT JOIN {copy} AS branch_{i} ON "
        + " AND ".join(f"source.{left} = branch_{i}.on_{j}" for j, left in enumerate(names))
        for i, (copy, names) in enumerate(zip(copies, keys, strict=True))
    )
