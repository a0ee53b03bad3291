"""The query that scores a table: the choice of its form by the database's limits, and the view or table made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from frameboost.checks.messages import shown
from frameboost.compile.sql.costs import chosen_form
from frameboost.compile.sql.forms import as_expressions, fill_missing, in_stages, over_lists, sort_rows
from frameboost.compile.sql.shared_walks import walks_of
from frameboost.compile.sql.size import exceeded_limit, is_too_long
from frameboost.compile.sql.sql_model import SqlModel
from frameboost.compile.sql.stages import Stages
from frameboost.compile.sql.tree_table import query_over_table
from frameboost.dialects.dialect import Dialect
from frameboost.errors import ParameterError
from frameboost.trees.tree import Tree

__all__ = ["FORMS", "Destination", "scoring_query"]

FORMS = ("auto", "by_key", "case", "lists", "sorted", "staged", "table")


@dataclass(frozen=True)
class Destination:
    """Where the result of a scoring query goes: a view or a table of a quoted name, or (by default) to the caller."""

    kind: Literal["query", "view", "table"] = "query"
    name: str = ""

    def into(self, dialect: Dialect) -> str:
        """Return the clause before FROM that makes a table of the query, in databases that have SELECT … INTO."""
        return f"INTO {self.name}\n" if self.kind == "table" and dialect.statements.selects_into else ""

    def statement(self, query: str, dialect: Dialect) -> str:
        """Return the whole statement for a query that has the clause."""
        if self.kind == "query" or self.into(dialect):
            return query
        template = dialect.statements.create_view if self.kind == "view" else dialect.statements.create_table
        return template.format(name=self.name, query=query)


def scoring_query(
    model: SqlModel,
    make_stages: Callable[[], Stages],
    form: str,
    trees_table: str | None,
    name: str,
    destination: Destination,
    rows: int | None = None,
) -> str:
    """Return the query in a form, or the statement that makes a view or a table of it.

    ``auto`` takes the first of ``case``, ``staged`` and ``table`` within the limits of the database; in DuckDB the one
    of ``case``, ``lists`` and ``sorted`` that is fastest for so many rows.

    Raises
    ------
    ParameterError
        If the model can't have that form, or none fits: then with the numbers.
    """
    if form == "table" and trees_table is None:
        raise ParameterError("form='table' needs trees, the name of the table that table_statements fills")
    fastest = chosen_form(model, form, rows)
    dialect, into = model.dialect, destination.into(model.dialect)
    is_view, fits_otherwise = destination.kind == "view", False
    noun = "view" if is_view else "query"
    reason = ""
    for query, trees, in_one in _without_table(model, make_stages, fastest, name, into):
        if query is None:
            reason = "the output has a margin in it several times, which takes form='staged'"
            continue
        statement = destination.statement(query, dialect)
        reason = exceeded_limit(statement, trees, dialect, in_one=in_one, of_view=is_view)
        if not reason:
            return statement
        fits_otherwise |= is_view and not exceeded_limit(statement, trees, dialect, in_one=in_one)
        if is_too_long(statement, dialect, of_view=is_view):
            break  # stages are longer still
    is_linear = any(tree.is_linear for tree in model.every_tree())
    if trees_table is not None and form in ("auto", "table") and not is_linear:
        statement = destination.statement(query_over_table(model, make_stages(), trees_table, name, into), dialect)
        reason = exceeded_limit(statement, [], dialect, in_one=False, of_view=is_view)
        if not reason:
            return statement
        raise ParameterError(f"the model does not fit into one {noun}, not even as form='table': {reason}")
    advice = _advice(form, dialect, destination, fits_a_table=fits_otherwise)
    raise ParameterError(f"the model does not fit into one {noun} of form {shown(form)}: {reason}; {advice}")


def _without_table(
    model: SqlModel, make_stages: Callable[[], Stages], form: str, name: str, into: str
) -> Iterator[tuple[str | None, Sequence[Sequence[Tree]], bool]]:
    """Yield the queries that have the trees in them, the trees, and whether each margin is one expression."""
    stages = make_stages()
    if form == "lists":
        yield over_lists(model, stages, name, into), [], False
    if form == "sorted":
        sort_rows(model, stages)
        yield as_expressions(fill_missing(model, stages), stages, name, into), model.trees, True
        yield in_stages(model, sort_rows(model, make_stages()), name, into), model.trees, False
    staged_first = form == "auto" and stages.can_add and bool(walks_of(model.every_tree(), model.dialect))
    if staged_first:
        yield in_stages(model, make_stages(), name, into), model.trees, False
    if form in ("auto", "case"):
        yield as_expressions(fill_missing(model, stages, integers=False), stages, name, into), model.trees, True
    if form == "staged" or (form == "auto" and not staged_first):
        yield in_stages(model, make_stages(), name, into), model.trees, False


def _advice(form: str, dialect: Dialect, destination: Destination, *, fits_a_table: bool) -> str:
    """Return what the user can do instead."""
    database = f"model.database({dialect.name!r})"
    call = {"query": "query", "view": "create_view_sql", "table": "create_table_sql"}[destination.kind]
    load = (
        f"load {database}.table_frame() as a table 'trees'"
        if dialect.statements.define_table is None
        else f"load the trees with {database}.table_statements('trees')"
    )
    ways = ["make a table of it with create_table_sql"] if fits_a_table else []
    if form == "auto":
        ways.append(f"{load} and take {call}(..., trees='trees')")
    elif not ways:
        ways.append("leave form at 'auto', or take form='table'")
    return ", or ".join(ways)
