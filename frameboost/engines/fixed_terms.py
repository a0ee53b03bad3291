"""Terms over the rows: which ones expressions use, and those that are computed once a fit.

A term is *fixed*, the same in every round, if it is made of roles and of other fixed terms, such as the ideal order of
a query's rows, by label. Terms that use a margin are not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping

from frameboost.engines.contract import Cumulative, QueryWindow
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Aggregate, Rounded, Scalar

__all__ = ["FixedTerms", "Term", "fixed_key", "kept_aggregates", "names_used", "terms_apart", "used_terms"]

Term = Scalar | Cumulative | QueryWindow


class FixedTerms:
    """Which of the terms that an engine defines are fixed.

    The key of such a term is itself with the keys of the terms that it uses, as terms of other metrics may have equal
    names.

    Parameters
    ----------
    roles
        The names of the columns that never change.
    """

    def __init__(self, roles: Collection[str]) -> None:
        self._roles = frozenset(roles) | {"weight"}
        self._keys: dict[str, Hashable | None] = {}  # of each defined term
        self._aggregates: dict[Hashable, float | None] = {}

    def define(self, name: str, term: Scalar | Cumulative | QueryWindow) -> Hashable | None:
        """Note what a name means from now on; return its key, None if it is not fixed."""
        self._keys.pop(name, None)
        self._keys[name] = self.key(term)
        return self._keys[name]

    def key(self, term: Scalar | Cumulative | QueryWindow) -> Hashable | None:
        """Return what a fixed term, or expression, is recognised by; None if it is not fixed."""
        return fixed_key(term, self._key_of_name)

    def aggregated(
        self,
        aggregates: Mapping[str, Aggregate],
        computed: Callable[[Mapping[str, Aggregate]], dict[str, float | None]],
    ) -> dict[str, float | None]:
        """Return aggregates, those of fixed expressions from before; ``computed`` returns the others."""
        return kept_aggregates(self._aggregates, aggregates, self.key, computed)

    def _key_of_name(self, name: str) -> Hashable | None:
        return self._keys.get(name, name if name in self._roles else None)


def kept_aggregates(
    kept: dict[Hashable, float | None],
    aggregates: Mapping[str, Aggregate],
    key: Callable[[Scalar], Hashable | None],
    computed: Callable[[Mapping[str, Aggregate]], dict[str, float | None]],
) -> dict[str, float | None]:
    """Return aggregates; those in ``kept`` are known, and ``computed`` returns the others.

    Those of fixed expressions, which have a ``key``, are added to ``kept``.
    """
    keys = {name: (each.function, key(each.expression)) for name, each in aggregates.items()}
    new = {name: each for name, each in aggregates.items() if keys[name] not in kept}
    fresh = computed(new) if new else {}
    kept |= {keys[name]: value for name, value in fresh.items() if keys[name][1] is not None}
    return {name: fresh[name] if name in fresh else kept[keys[name]] for name in aggregates}


def fixed_key(
    term: Scalar | Cumulative | QueryWindow, key_of_name: Callable[[str], Hashable | None]
) -> Hashable | None:
    """Return what a fixed term is recognised by, from the key of each column or term, None for one that changes."""
    match term:
        case QueryWindow():
            used = [fixed_key(each, key_of_name) for each in (term.value, term.order) if each is not None]
            return None if None in used else (term, *used)
        case Rounded():
            return None if (key := fixed_key(term.expression, key_of_name)) is None else (term, key)
        case Expression():
            used = [key_of_name(name) for name in term.columns if term.uses(name)]
            return None if None in used else (term, *used)
    return None


def names_used(*terms: Scalar | Cumulative | QueryWindow) -> set[str]:
    """Return the names of the columns and other terms that these use."""
    names: set[str] = set()
    for term in terms:
        match term:
            case QueryWindow() | Cumulative():
                names |= names_used(*(each for each in (term.value, term.order) if each is not None))
            case Rounded():
                names |= names_used(term.expression)
            case Expression():
                names.update(name for name in term.columns if term.uses(name))
            case _:
                raise TypeError(f"{type(term).__name__} is no term")
    return names


def used_terms(terms: Mapping[str, Term], expressions: Iterable[Scalar]) -> dict[str, Term]:
    """Return those of some terms that expressions use, directly or through other terms."""
    used, chosen = names_used(*expressions), {}
    for name, term in reversed(list(terms.items())):  # each may use those before it
        if name in used:
            used |= names_used(term)
            chosen[name] = term
    return dict(reversed(chosen.items()))


def terms_apart(terms: Mapping[str, Term]) -> list[list[str]]:
    """Return the names of terms in groups; no term uses another of its group."""
    apart: list[dict[str, None]] = []
    for name, term in terms.items():
        if not apart or not names_used(term).isdisjoint(apart[-1]):
            apart.append({})
        apart[-1][name] = None
    return [list(group) for group in apart]
