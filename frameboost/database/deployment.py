"""Deployments of models behind one view: each model has a separate view or table, and the view selects from one.

So dependents and grants of the view survive a new model, and a rollback only makes it select from an earlier one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from frameboost.checks.messages import shown
from frameboost.compile.sql.forms import Destination, ScoringQuery
from frameboost.dialects.dialect import Dialect
from frameboost.errors import ParameterError

__all__ = ["deploy_statements", "path_of", "point_statements", "script"]

_LABEL = re.compile(r"[A-Za-z0-9_]+")
# What the statement that makes a view has besides its name and the query, at most.
_ROOM = 100


def path_of(view: str, label: str, dialect: Dialect, part: int | None = None) -> str:
    """Return the quoted name of a model's view or table, or of a step of it, in the schema of the deployed view.

    Raises
    ------
    ParameterError
        If the label has characters other than letters, digits and underscores, or the name is too long for the
        database.
    """
    if not isinstance(label, str) or not _LABEL.fullmatch(label):
        raise ParameterError(f"label must be of letters, digits and underscores, not {shown(label)}")
    *schema, name = dialect.parts_of(view)
    deployed = f"{name}__{label}" if part is None else f"{name}__{label}_part_{part}"
    return ".".join(map(dialect.quote, [*schema, deployed]))


def deploy_statements(scoring: ScoringQuery, view: str, named: Callable[[int], str]) -> list[str]:
    """Return the statements that create the scores at their destination, and make the view select from them.

    Parameters
    ----------
    scoring
        The query; its destination is the view or the table of this model.
    view
        The deployed view, quoted.
    named
        A function from a step number, from 1, to the quoted name of its view, if one query is too large.

    Raises
    ------
    ParameterError
        If the model does not fit into a chain of views either.
    """
    dialect, destination = scoring.model.dialect, scoring.destination
    query, too_large = scoring.fitting()
    parts: Sequence[str] = []
    if too_large:
        *parts, query = _chain(scoring, named, too_large)
    made = [Destination("view", named(number), replace=True) for number in range(1, len(parts) + 1)]
    statements = [text for each, part in zip(made, parts, strict=True) for text in each.statements(part, dialect)]
    statements += destination.statements(query, dialect)
    return _in_transaction([*statements, *_point(view, destination.name, dialect)], dialect)


def point_statements(view: str, name: str, dialect: Dialect) -> list[str]:
    """Return the statements that make a view select from another view or table; names are quoted."""
    return _in_transaction(_point(view, name, dialect), dialect)


def _point(view: str, name: str, dialect: Dialect) -> list[str]:
    # The first fails where there is no such name or right, before the view is touched: SQLite makes any view.
    query = f"SELECT * FROM {name}"
    return [f"{query}\nWHERE 1 = 0", *Destination("view", view, replace=True).statements(query, dialect)]


def _in_transaction(statements: Sequence[str], dialect: Dialect) -> list[str]:
    if dialect.statements.transaction is None:
        return list(statements)
    begin, commit = dialect.statements.transaction
    return [begin, *statements, commit]


def _chain(scoring: ScoringQuery, named: Callable[[int], str], why: str) -> list[str]:
    """Return queries that fit into views, each over the one before."""
    dialect = scoring.model.dialect
    makes_by_into = bool(scoring.destination.into(dialect))
    most = scoring.most_of_step(None if makes_by_into else dialect.limits.of_view(), why, "views")
    room = most - _ROOM - len(max(scoring.destination.name, named(10**6), key=len).encode())
    limits = replace(dialect.limits, text=room, view=None)
    chain = replace(scoring, destination=Destination()).chain(limits, named, of_views=True)
    return [text for _, text in chain]


def script(statements: Sequence[str], dialect: Dialect) -> str:
    """Return statements as the text of a file.

    Raises
    ------
    ParameterError
        If clients would substitute part of the file when running it.
    """
    clients = dialect.names.clients
    if clients is not None and (replaced := re.search(clients, ";\n".join(statements))):
        raise ParameterError(
            f"the file would hold {shown(replaced[0])}, in a name or in where, which clients of {dialect.name} "
            "replace; rename the column there, or run what query returns"
        )
    end = f"{dialect.statements.batch_end}\n" if dialect.statements.batch_end else ""
    return "".join(f"{statement};\n{end}" for statement in statements)
