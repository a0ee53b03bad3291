"""How long and deep a database's queries may be, and the numbers that a user puts in their place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from frameboost.checks.messages import did_you_mean, listed, shown
from frameboost.errors import ParameterError

__all__ = ["Limits", "with_overrides"]


@dataclass(frozen=True)
class Limits:
    """What a database refuses beyond; None where it has no such limit, or none that a model could reach.

    Attributes
    ----------
    text
        Bytes of a query, or of the statement that it is in.
    view
        Bytes of the statement that makes a view, where that is less than ``text``.
    depth
        Levels of an expression, as its parser counts them.
    case_depth
        CASE within CASE.
    stack
        Entries of the parser's stack.
    stages
        Common table expressions, each of which reads the one before.
    columns
        Columns of a SELECT.
    elements
        Elements of a query as its parser counts them: a name or a value is one, an operator or a call two.
    terms
        Names and values in one expression.
    """

    text: int | None = None
    view: int | None = None
    depth: int | None = None
    case_depth: int | None = None
    stack: int | None = None
    stages: int | None = None
    columns: int | None = None
    elements: int | None = None
    terms: int | None = None

    def of_view(self) -> int | None:
        """Return the bytes that the statement of a view may have."""
        return min((most for most in (self.text, self.view) if most is not None), default=None)


def with_overrides(limits: Limits, given: Mapping[str, int | None] | None) -> Limits:
    """Return limits with a user's numbers in place of those they name.

    Raises
    ------
    ParameterError
        If a name is none of a limit, or what it gives is neither a positive integer nor None.
    """
    if given is None:
        return limits
    if not isinstance(given, Mapping):
        raise ParameterError(
            f"limits must be a dict of numbers by limit, such as {{'text': 2000000}}, not {shown(given)}"
        )
    known = [field.name for field in fields(Limits)]
    for name, most in given.items():
        if name not in known:
            advice = did_you_mean(name, known) or f"; they are {listed(known)}"
            raise ParameterError(f"limits names {shown(name)}, which is no limit{advice}")
        if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
            raise ParameterError(
                f"limits must give {shown(name)} a positive integer, or None for no limit, not {shown(most)}"
            )
    return replace(limits, **given)
