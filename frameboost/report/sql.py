"""The model as SQL, to copy."""

from __future__ import annotations

from frameboost.errors import ParameterError
from frameboost.report.markup import Section, block_of_code, code, paragraph
from frameboost.report.material import Material

__all__ = ["sql"]

_TABLE = "your_table"
_MAX_CHARACTERS = 1_000_000
_OPEN = 2_000  # characters of a block that is not folded away


def sql(material: Material) -> Section:
    """Return the section: a query, or how to have it where it is too long to copy."""
    title, name = "The SQL", material.dialect.name
    try:
        text = material.model.query(_TABLE, name)
    except ParameterError as error:
        return Section("sql", title, [paragraph(f"The model can't be one query of {name}: {error}.", kind="note")])
    where = paragraph("A query over ", code(_TABLE), f", in the SQL of {name}.")
    if len(text) > _MAX_CHARACTERS:
        how = f'model.query("{_TABLE}", "{name}")'
        size = f"It has {len(text) / 1e6:.1f} million characters, too many for this page; "
        return Section("sql", title, [where, paragraph(size, code(how), " returns it.")])
    summary = f"SELECT … FROM {_TABLE} ({len(text):,} characters)"
    return Section("sql", title, [where, block_of_code(text, summary, is_open=len(text) <= _OPEN)])
