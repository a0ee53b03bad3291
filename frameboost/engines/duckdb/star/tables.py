"""The tables of a star in a database: copies of what a fit needs, and how often the facts refer to each row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.duckdb.binning import CountedRows
from frameboost.engines.duckdb.star.plan import Branch, StarPlan
from frameboost.expressions.duckdb_sql import quote_identifier, render

__all__ = ["BranchTable", "copy_star"]

_POSITION = "position"


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
        The numbers of its features.
    """

    table: str
    row: str
    features: tuple[int, ...]

    def counted_rows(self, session: DuckDBSession) -> CountedRows:
        """Return the rows as cuts are found from them."""
        n_rows = session.rows(f"SELECT COUNT(*) FROM {self.table}")[0][0]
        return CountedRows(self.table, n_rows, "source.drawn > 0", "drawn")


def copy_star(
    session: DuckDBSession, plan: StarPlan, own: Mapping[int, str], roles: Mapping[str, str], *, in_order: bool
) -> tuple[CountedRows, list[BranchTable]]:
    """Copy the facts, which become the session's source, and the dimensions; return what cuts come from.

    Parameters
    ----------
    session
        A session over the facts of the plan.
    plan
        The tables.
    own
        The columns of the facts that are features, by number; the copies are ``value_0``, ...
    roles
        Role -> column of the facts; the copies are ``role_label``, ...
    in_order
        Whether the copy is in the order of the facts.
    """
    copies = [_copy_dimension(session, branch) for branch in plan.branches]
    sample = CountedRows.sample_of(plan.n_facts, _POSITION)
    is_numbered = in_order or sample is not None
    read = [*own.values(), *roles.values(), *(left for branch in plan.branches for left in branch.dimension.left_on)]
    with _read_facts(session, list(dict.fromkeys(read)), is_numbered=is_numbered) as (source, names, position):
        columns = [f"source.{names[name]} AS value_{number}" for number, name in own.items()]
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
    """Return a table or query of the facts, the columns of it that have these names, and that of the positions.

    To number the rows of a view, DuckDB reads it by one thread; the rows of a copy that keeps their order have numbers.
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
    """Copy a dimension, with the attributes of those that are joined to it; return the table's name."""
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
    """Return the joins with copied dimensions, given the columns of ``source`` that are their keys."""
    return "\n".join(
        f"LEFT JOIN {copy} AS branch_{i} ON "
        + " AND ".join(f"source.{left} = branch_{i}.on_{j}" for j, left in enumerate(names))
        for i, (copy, names) in enumerate(zip(copies, keys, strict=True))
    )
