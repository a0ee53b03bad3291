"""Which form a scoring query takes: the first that fits into what the database's documentation says it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from frameboost.compile.bit_vectors import in_bit_vectors
from frameboost.compile.scoring_sql import Scored, as_expressions, expression_depth, in_stages
from frameboost.compile.sql import n_terms
from frameboost.compile.stages import Stages
from frameboost.compile.tree_table import query_over_table
from frameboost.dialects.dialect import Dialect
from frameboost.errors import ParameterError
from frameboost.messages import shown
from frameboost.tree import Tree

__all__ = ["FORMS", "check_size", "excess", "scoring_query"]

FORMS = ("auto", "case", "bitvector", "staged", "table")
# Levels of a parser's tree that a level of ours may be, and what is around it.
_LEVELS, _AROUND = 2, 20


def scoring_query(
    scored: Scored, make_stages: Callable[[], Stages], form: str, trees_table: str | None, name: str, into: str = ""
) -> str:
    """Return the query in that form; ``auto`` takes the first of ``case``, ``staged`` and ``table`` that fits.

    Raises
    ------
    ParameterError
        If the model can't have that form, or none fits: then with the numbers.
    """
    if form == "table" and trees_table is None:
        raise ParameterError("form='table' needs trees, the name of the table that model.table_statements fills")
    reasons = []
    if form == "bitvector" and not scored.dialect.has_bit_vectors:
        raise ParameterError(f"form='bitvector' is SQL of DuckDB's, not of {scored.dialect.name}")
    if form == "bitvector":
        by_words = in_bit_vectors(scored, make_stages(), name, into)
        reason = excess(by_words, [], scored.dialect, in_one=False)
        if not reason:
            return by_words
        reasons.append(reason)
    if form in ("auto", "case"):
        text, reason = _as_case(scored, make_stages(), name, into)
        if text is not None:
            return text
        reasons.append(reason)
    if form in ("auto", "staged"):
        text = in_stages(scored, make_stages(), name, into)
        reason = excess(text, scored.trees, scored.dialect, in_one=False)
        if not reason:
            return text
        reasons.append(reason)
    if trees_table is not None and form in ("auto", "table"):
        text = query_over_table(scored, make_stages(), trees_table, name, into)
        reason = excess(text, [], scored.dialect, in_one=False)
        if not reason:
            return text
        raise ParameterError(f"the model does not fit into one query, not even as form='table': {reason}")
    advice = (
        "load the trees with model.table_statements('trees', ...) and take model.query(..., trees='trees')"
        if form == "auto"
        else "leave form at 'auto', or take form='table'"
    )
    raise ParameterError(f"the model does not fit into one query of form {shown(form)}: {reasons[-1]}; {advice}")


def _as_case(scored: Scored, stages: Stages, name: str, into: str) -> tuple[str | None, str]:
    text = as_expressions(scored, stages, name, into)
    if text is None:
        return None, "the output has a margin in it several times, which takes form='staged'"
    reason = excess(text, scored.trees, scored.dialect, in_one=True)
    return (None if reason else text), reason


def check_size(text: str, trees: Sequence[Sequence[Tree]], dialect: Dialect) -> None:
    """Raise `ParameterError` if an expression is more than the database takes."""
    if reason := excess(text, trees, dialect, in_one=True):
        raise ParameterError(
            f"the model does not fit into one expression: {reason}; take model.query, which knows other forms"
        )


def excess(text: str, trees: Sequence[Sequence[Tree]], dialect: Dialect, *, in_one: bool) -> str:
    """Return what is more than the database takes, with the numbers; nothing if all fits.

    ``in_one``: whether each margin is a single expression, so that what limits one counts.
    """
    limits = dialect.limits
    size = len(text.encode())
    if limits.text is not None and size > limits.text:
        return f"it has {size:,} bytes, and a query in {dialect.name} at most {limits.text:,}"
    every = [tree for of_output in trees for tree in of_output]
    terms = sum(map(n_terms, every))
    if limits.elements is not None and 2 * terms > limits.elements:
        return f"it has about {2 * terms:,} elements, and a query in {dialect.name} at most {limits.elements:,}"
    if not in_one or not every:
        return ""
    if limits.terms is not None and terms > limits.terms:
        return f"it has about {terms:,} names and values, and an expression in {dialect.name} at most {limits.terms:,}"
    deepest = max(max(tree.depths()) for tree in every)
    if limits.case_depth is not None and deepest + 1 > limits.case_depth:
        return f"its trees have {deepest} levels, and CASEs in {dialect.name} nest {limits.case_depth} deep at most"
    depth = _LEVELS * expression_depth(trees) + _AROUND
    if limits.depth is not None and depth > limits.depth:
        return f"it is about {depth} levels deep, and an expression in {dialect.name} at most {limits.depth}"
    return ""
