"""Names in a dialect: how they are quoted, and which names a database can't have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from frameboost.checks.arguments import is_text
from frameboost.checks.messages import shown
from frameboost.errors import ParameterError
from frameboost.expressions.duckdb_sql import path_parts

__all__ = ["Names"]


@dataclass(frozen=True)
class Names:
    """How names of columns, tables and functions are written.

    Attributes
    ----------
    quotes
        What opens and what closes a quoted name; the closing one is doubled inside.
    escapes
        What is written for a character inside of the quotes, besides the closing quote.
    unnameable
        Characters that no name can hold.
    only_basic_plane
        Whether no name can hold characters beyond U+FFFF, such as emoji.
    longest, in_bytes
        How many characters a name has at most, or how many bytes; None for any number.
    ends_in_blank
        Whether a name may end in a blank.
    any_case
        Whether names that differ only in case are one name, quoted or not.
    replaced
        Sequences of characters that the database replaces in the text of a query, in quoted names as well.
    clients
        A regular expression for what clients of the database that run files replace in them, in quoted names as well.
    lost
        A regular expression for names, in lower case, that a column of a table can have, but not one of a common table
        expression.
    """

    quotes: tuple[str, str] = ('"', '"')
    escapes: Mapping[str, str] = field(default_factory=dict)
    unnameable: str = "\0"
    only_basic_plane: bool = False
    longest: int | None = None
    in_bytes: bool = False
    ends_in_blank: bool = True
    any_case: bool = False
    replaced: tuple[str, ...] = ()
    clients: str | None = None
    lost: str | None = None

    def quote(self, name: str, database: str) -> str:
        """Return a name as a quoted identifier; ``database`` is what messages call the dialect.

        Raises
        ------
        ParameterError
            If the database can't have such a name.
        """
        if not isinstance(name, str):
            raise ParameterError(f"a name must be a string, not {shown(name)}")
        wrong = next((character for character in name if self._is_wrong(character)), None)
        what = f"holds {shown(wrong)}" if wrong is not None else ""
        if replaced := next((sequence for sequence in self.replaced if sequence in name), None):
            raise ParameterError(
                f"the name {shown(name)} holds {shown(replaced)}, from which on {database} replaces text, in quoted "
                "names too; rename it there"
            )
        if not self.ends_in_blank and name.endswith(" "):
            what = "ends in a blank"
        if not name:
            what = "is empty"
        if not is_text(name):
            what = "holds half of a character, a surrogate"
        if what:
            raise ParameterError(f"the name {shown(name)} {what}, which no name in {database} can; rename it there")
        size, unit = (len(name.encode()), "bytes") if self.in_bytes else (len(name), "characters")
        if self.longest is not None and size > self.longest:
            raise ParameterError(
                f"the name {shown(name)} has {size} {unit}, and names in {database} have at most {self.longest}; "
                "rename it there"
            )
        opening, closing = self.quotes
        escapes = {**self.escapes, closing: closing * 2}
        return opening + "".join(escapes.get(character, character) for character in name) + closing

    def _is_wrong(self, character: str) -> bool:
        return character in self.unnameable or (self.only_basic_plane and character > "\uffff")

    @staticmethod
    def parts_of(name: str) -> list[str]:
        """Return the parts of a table name that may be qualified by dots; a part may come in quotes of its own."""
        if not isinstance(name, str):
            raise ParameterError(f"the name of a table must be a string, not {shown(name)}")
        return path_parts(name)
