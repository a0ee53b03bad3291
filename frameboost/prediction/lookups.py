"""The column by which an output looks a number up: found in the data to score, and its type checked."""

from __future__ import annotations

from frameboost.checks.messages import shown
from frameboost.data.sources import Source
from frameboost.errors import DataError
from frameboost.losses.outputs import Lookup

__all__ = ["check_lookup"]

_WORDS = {"string": "strings", "codes": "integers", "boolean": "Booleans"}


def check_lookup(source: Source, lookup: Lookup) -> None:
    """Raise `DataError` if the column is not in the data, or has values of another type than those looked up."""
    if lookup.column not in source.names():
        raise DataError(f"the data lacks column {shown(lookup.column)}, by whose value the model's interval differs")
    kind = source.types()[lookup.column]
    if kind is None or kind.family != lookup.type.family:
        raise DataError(
            f"column {shown(lookup.column)} has type {source.type_names()[lookup.column]}, but the model's interval "
            f"differs by {_WORDS[lookup.type.name]} in it"
        )
