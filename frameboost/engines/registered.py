"""Engines of other packages, found by entry points of the group ``frameboost.engines``.

The name of the entry point is the name of the engine, and its object an `EngineDescription`. Entry points are looked up
only when ``fit`` is given a name that is not in the table of built-in engines.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from frameboost.checks.messages import listed, reason, shown
from frameboost.engines.description import EngineDescription
from frameboost.errors import ParameterError

__all__ = ["GROUP", "load_registered", "registered_names"]

GROUP = "frameboost.engines"


def registered_names() -> list[str]:
    """Return the names of the registered engines, sorted; none of them is imported."""
    return sorted(entry_points(group=GROUP).names)


def load_registered(name: str) -> EngineDescription:
    """Import a registered engine and return its description.

    Raises
    ------
    ParameterError
        If several packages register the name, or the entry point can't be imported or is no description of an engine of
        that name.
    """
    found = sorted(entry_points(group=GROUP, name=name), key=_package)
    if len(found) > 1:
        packages = listed(_package(entry) for entry in found)
        raise ParameterError(f"engine {shown(name)} is registered by several packages, {packages}; keep one of them")
    (entry,) = found
    where = f"engine {shown(name)} of the package {shown(_package(entry))}"
    try:
        description = entry.load()
    except Exception as error:
        raise ParameterError(
            f"{where} can't be imported from {shown(entry.value)}: {type(error).__name__}: {reason(error)}"
        ) from error
    if not isinstance(description, EngineDescription):
        raise ParameterError(
            f"{where} must register a frameboost.engines.description.EngineDescription, but {shown(entry.value)} is "
            f"{shown(description)}"
        )
    if description.name != name:
        raise ParameterError(f"{where} describes itself as {shown(description.name)}; both names must be the same")
    return description


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.module
