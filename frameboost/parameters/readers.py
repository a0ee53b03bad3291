"""Readers of parameters that are no scalars: each checks a value and returns it in its normal form.

Whether the data has the columns that constraints name is checked in `frameboost.training.constraints`.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping

from frameboost.checks.arguments import is_iterable
from frameboost.checks.messages import shown
from frameboost.errors import ParameterError
from frameboost.parameters.fields import as_number

__all__ = ["interaction_sets", "monotone_directions", "quantiles"]


def monotone_directions(value: object) -> dict[str, int] | None:
    """Return the directions other than 0 by column name, sorted by name; None if there are none.

    Raises
    ------
    ParameterError
        If ``value`` is no dict of column name to -1, 0 or 1.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ParameterError(
            "monotone_constraints must be a dict of column name to -1, 0 or 1, such as {'age': 1}, "
            f"not {shown(value)}"
        )
    directions = {}
    for name, direction in value.items():
        if not isinstance(name, str):
            raise ParameterError(f"monotone_constraints must name columns, not {shown(name)}")
        is_number = isinstance(direction, numbers.Real) and not isinstance(direction, bool)
        if not is_number or direction not in (-1, 0, 1):
            raise ParameterError(f"monotone_constraints[{shown(name)}] must be -1, 0 or 1, not {shown(direction)}")
        if direction:
            directions[str(name)] = int(direction)
    return dict(sorted(directions.items())) or None


def interaction_sets(value: object) -> list[list[str]] | None:
    """Return the sets sorted, without duplicates; with an empty list every column is alone on its path.

    Raises
    ------
    ParameterError
        If ``value`` is no list of lists of column names.
    """
    if value is None:
        return None
    sets = set()
    for members in _members(value, value):
        names = set()
        for name in _members(value, members):
            if not isinstance(name, str):
                raise ParameterError(f"interaction_constraints must name columns, not {shown(name)}")
            names.add(str(name))
        if not names:
            raise ParameterError("interaction_constraints holds an empty set; each must name at least one column")
        sets.add(tuple(sorted(names)))
    return [list(names) for names in sorted(sets)]


def quantiles(value: object) -> tuple[float, ...]:
    """Return the quantiles of ``quantile_alpha``, one or several."""
    given = list(value) if is_iterable(value) and not isinstance(value, str | bytes) else [value]
    alphas = [as_number(alpha, float) for alpha in given]
    inside = [float(alpha) for alpha in alphas if alpha is not None and 0 < alpha < 1]
    if not given or len(inside) < len(given) or inside != sorted(set(inside)):
        raise ParameterError(
            f"quantile_alpha must be a number between 0 and 1, or several in ascending order, not {shown(value)}"
        )
    return tuple(inside)


def _members(given: object, value: object) -> list[object]:
    """Return the items of a list, tuple or set within ``given``."""
    if isinstance(value, str | bytes | Mapping) or not is_iterable(value):
        raise _no_sets(given)
    return list(value)


def _no_sets(value: object) -> ParameterError:
    return ParameterError(
        "interaction_constraints must be a list of lists of column names, such as [['a', 'b'], ['c', 'd']], "
        f"not {shown(value)}"
    )
