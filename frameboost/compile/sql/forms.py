"""Which form a scoring query takes: the first that fits into what the database's documentation says it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from frameboost.checks.messages import shown
from frameboost.compile.sql.case import n_terms
from frameboost.compile.sql.scoring_query import Scored, as_expressions, expression_depth, in_stages, sort_rows
from frameboost.compile.sql.stages import Stages
from frameboost.compile.sql.tree_table import query_over_table
from frameboost.dialects.dialect import Dialect
from frameboost.errors import ParameterError
from frameboost.trees.tree import Tree

__all__ = ["FORMS", "Made", "check_size", "excess", "scoring_query"]

FORMS = ("auto", "case", "sorted", "staged", "table")
# Levels of a parser's tree that a level of ours may be, and what is around it.
_LEVELS, _AROUND = 2, 20
# Entries of a parser's stack that are taken by CASE … WHEN … THEN, by ``(… +`` and by what is around and in them.
_STACKED_A_CASE, _STACKED_A_SUM, _STACKED_AROUND = 5, 3, 26


@dataclass(frozen=True)
class Made:
    """What becomes of a scoring query: a view or a table of that name, quoted; by default it stays a query."""

    what: Literal["query", "view", "table"] = "query"
    name: str = ""

    def into(self, dialect: Dialect) -> str:
        """Return the clause before FROM that makes a table of the query, where that is how it is done."""
        return f"INTO {self.name}\n" if self.what == "table" and dialect.statements.selects_into else ""

    def statement(self, query: str, dialect: Dialect) -> str:
        """Return the whole statement, of a query that has the clause."""
        if self.what == "query" or self.into(dialect):
            return query
        template = dialect.statements.create_view if self.what == "view" else dialect.statements.create_table
        return template.format(name=self.name, query=query)


def scoring_query(
    scored: Scored, make_stages: Callable[[], Stages], form: str, trees_table: str | None, name: str, made: Made
) -> str:
    """Return the query in that form, as what is made of it.

    ``auto`` takes the first of ``case``, ``staged`` and ``table`` that fits.

    Raises
    ------
    ParameterError
        If the model can't have that form, or none fits: then with the numbers.
    """
    _check_form(form, trees_table, scored.dialect)
    dialect, into = scored.dialect, made.into(scored.dialect)
    is_view, fits_otherwise = made.what == "view", False
    noun = "view" if is_view else "query"
    reason = ""
    for query, trees, in_one in _without_table(scored, make_stages, form, name, into):
        if query is None:
            reason = "the output has a margin in it several times, which takes form='staged'"
            continue
        statement = made.statement(query, dialect)
        reason = excess(statement, trees, dialect, in_one=in_one, of_view=is_view)
        if not reason:
            return statement
        fits_otherwise |= is_view and not excess(statement, trees, dialect, in_one=in_one)
        if _too_long(statement, dialect, of_view=is_view):
            break  # stages are longer still
    if trees_table is not None and form in ("auto", "table"):
        statement = made.statement(query_over_table(scored, make_stages(), trees_table, name, into), dialect)
        reason = excess(statement, [], dialect, in_one=False, of_view=is_view)
        if not reason:
            return statement
        raise ParameterError(f"the model does not fit into one {noun}, not even as form='table': {reason}")
    advice = _advice(form, dialect, made, fits_a_table=fits_otherwise)
    raise ParameterError(f"the model does not fit into one {noun} of form {shown(form)}: {reason}; {advice}")


def _check_form(form: str, trees_table: str | None, dialect: Dialect) -> None:
    if form == "table" and trees_table is None:
        raise ParameterError("form='table' needs trees, the name of the table that model.table_statements fills")
    if form == "sorted" and not dialect.expressions.case_skips_unmet_whens:
        raise ParameterError(f"form='sorted' is faster in DuckDB only, so {dialect.name} has no such form")


def _without_table(
    scored: Scored, make_stages: Callable[[], Stages], form: str, name: str, into: str
) -> Iterator[tuple[str | None, Sequence[Sequence[Tree]], bool]]:
    """Yield the queries that have the trees in them, those trees, and whether each margin is a single expression."""

    def stages() -> Stages:
        return sort_rows(scored, make_stages()) if form == "sorted" else make_stages()

    if form in ("auto", "case", "sorted"):
        yield as_expressions(scored, stages(), name, into), scored.trees, True
    if form in ("auto", "staged", "sorted"):
        yield in_stages(scored, stages(), name, into), scored.trees, False


def _advice(form: str, dialect: Dialect, made: Made, *, fits_a_table: bool) -> str:
    """Return what would work."""
    call = {"query": "model.query", "view": "model.create_view_sql", "table": "model.create_table_sql"}[made.what]
    load = (
        "load model.table_frame() as a table 'trees'"
        if dialect.statements.define_table is None
        else "load the trees with model.table_statements('trees', ...)"
    )
    ways = ["make a table of it with model.create_table_sql"] if fits_a_table else []
    if form == "auto":
        ways.append(f"{load} and take {call}(..., trees='trees')")
    elif not ways:
        ways.append("leave form at 'auto', or take form='table'")
    return ", or ".join(ways)


def check_size(text: str, trees: Sequence[Sequence[Tree]], dialect: Dialect) -> None:
    """Raise `ParameterError` if an expression is more than the database takes."""
    if reason := excess(text, trees, dialect, in_one=True):
        raise ParameterError(
            f"the model does not fit into one expression: {reason}; take model.query, which knows other forms"
        )


def excess(text: str, trees: Sequence[Sequence[Tree]], dialect: Dialect, *, in_one: bool, of_view: bool = False) -> str:
    """Return what is more than the database takes, with the numbers; nothing if all fits.

    ``in_one``: whether each margin is a single expression, so that what limits one counts. ``of_view``: whether the
    text makes a view.
    """
    limits = dialect.limits
    if _too_long(text, dialect, of_view=of_view):
        noun, most = ("view", limits.of_view()) if of_view else ("query", limits.text)
        return f"it has {len(text.encode()):,} bytes, and a {noun} in {dialect.name} at most {most:,}"
    every = [tree for of_output in trees for tree in of_output]
    terms = sum(n_terms(tree, dialect) for tree in every)
    if limits.elements is not None and 2 * terms > limits.elements:
        return f"it has about {2 * terms:,} elements, and a query in {dialect.name} at most {limits.elements:,}"
    if not in_one or not every:
        return ""
    if limits.terms is not None and terms > limits.terms:
        return f"it has about {terms:,} names and values, and an expression in {dialect.name} at most {limits.terms:,}"
    cases, sums = expression_depth(trees, dialect)
    if limits.case_depth is not None and cases + 1 > limits.case_depth:
        return f"its CASEs nest {cases + 1} deep, and in {dialect.name} {limits.case_depth} deep at most"
    depth = _LEVELS * (cases + sums) + _AROUND
    if limits.depth is not None and depth > limits.depth:
        return f"it is about {depth} levels deep, and an expression in {dialect.name} at most {limits.depth}"
    stack = _STACKED_A_CASE * cases + _STACKED_A_SUM * sums + _STACKED_AROUND
    if limits.stack is not None and stack > limits.stack:
        return f"it takes about {stack} entries of the parser's stack, which has {limits.stack} in {dialect.name}"
    return ""


def _too_long(text: str, dialect: Dialect, *, of_view: bool) -> bool:
    most = dialect.limits.of_view() if of_view else dialect.limits.text
    return most is not None and len(text.encode()) > most
