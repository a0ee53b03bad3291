"""A limit on the size of a model's SQL in training: how many models of a mean, or rounds, fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from frameboost.checks.messages import did_you_mean, listed, shown
from frameboost.compile.sql.conditions import find_columns
from frameboost.compile.sql.forms import Destination, QueryOptions
from frameboost.database.database_model import database_model
from frameboost.dialects.built_in import DIALECTS, get_dialect
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import ParameterError
from frameboost.schema.types import Feature

__all__ = ["SqlBudget"]

# The part of each limit that is left for names of tables and of columns that a query returns besides.
_ROOM = 1 / 32
# The limits that trees count for.
_OF_TREES = ("text", "elements", "terms")


@dataclass(frozen=True)
class SqlBudget:
    """A limit on the size of a model's SQL: that of one query in a database, or a number of bytes.

    Attributes
    ----------
    argument
        The name of the argument, for messages.
    database, limits
        The database, and limits that override its defaults.
    noun
        The noun for the limit in messages.
    """

    argument: str
    database: str
    limits: Mapping[str, int]
    noun: str

    @classmethod
    def of(cls, argument: str, value: str | int) -> SqlBudget:
        """Return the budget of a database, or of a number of bytes in standard SQL.

        Raises
        ------
        ParameterError
            If the database is unknown.
        """
        if isinstance(value, str) and value not in DIALECTS:
            raise ParameterError(
                f"{argument} must be one of {listed(DIALECTS, None)}, or a number of bytes, not {shown(value)}"
                f"{did_you_mean(value, DIALECTS)}"
            )
        if not isinstance(value, str):
            return cls(argument, "postgres", {"text": int(value)}, f"{value:,} bytes of SQL")
        known = asdict(get_dialect(value).limits)
        limits = {name: int(known[name] * (1 - _ROOM)) for name in _OF_TREES if known[name] is not None}
        return cls(argument, value, limits, f"a query of {value}")

    def check(self, features: Sequence[Feature]) -> None:
        """Raise `ParameterError` if the database can't have columns of these names or types."""
        try:
            find_columns(features, get_dialect(self.database))
        except ParameterError as error:
            raise ParameterError(f"{self.argument}={shown(self.database)}: {error}") from error

    def excess(self, ensemble: Ensemble) -> str:
        """Return the reason why a model does not fit, with the numbers; empty if it does."""
        database = database_model(ensemble, self.database, limits=self.limits)
        return database._scoring(Destination(), "t", QueryOptions(keep=[])).fitting()[1]

    def most(self, n: int, made: Callable[[int], Ensemble]) -> int:
        """Return the largest number from 1 to ``n`` for which the result of ``made`` fits; 0 if none does."""
        if not self.excess(made(n)):
            return n
        low, high = 0, n  # what fits, and what does not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.excess(made(middle)) else (middle, high)
        return low

    def rounds(self, ensemble: Ensemble) -> int:
        """Return how many first rounds fit.

        Raises
        ------
        ParameterError
            If not even the first round fits.
        """
        n_rounds = self.most(ensemble.n_rounds, lambda n: ensemble.rounds(0, n))
        if not n_rounds:
            raise ParameterError(
                f"{self.argument}: not even the trees of one round fit into {self.noun}; grow smaller trees, such as "
                "max_depth=3"
            )
        return n_rounds

    def cut(self, ensemble: Ensemble) -> Ensemble:
        """Return an ensemble with as many first rounds as fit."""
        return ensemble.rounds(0, self.rounds(ensemble))
