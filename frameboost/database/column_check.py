"""The query that compares the columns of a table, from the database's catalog, with those of training.

`frameboost.database.self_test` tests scores in the types of the columns. This query finds causes of wrong scores:
missing columns, numbers stored as text, and collations, on which a user's SQL may depend, though not a model's.
"""

from __future__ import annotations

from collections.abc import Mapping

from frameboost.checks.messages import shown
from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.dialects.dialect import Dialect, in_lines
from frameboost.errors import ParameterError
from frameboost.schema.types import FeatureType

__all__ = ["check_columns_query"]

# Families of types by words in their names, in lower case; the first that a name has decides. A name without one is of
# no known family: an enum of PostgreSQL has a name that the user chose.
_FAMILIES = {
    "string": ("enum", "char", "text", "string", "clob", "utf8"),
    "duration": ("interval",),
    "time": ("timestamp", "date", "time"),
    "boolean": ("bool",),
    "number": ("int", "num", "dec", "real", "float", "double", "long", "serial", "money", "fixed", "bit", "byte"),
}
# Of families that not every database has.
_REPRESENTATIVES = {"boolean": FeatureType("boolean"), "time": FeatureType("timestamp[us]")}
_COLUMNS = ("position", "feature", "column_name", "trained_type", "expected_type", "family")


def check_columns_query(table: str, columns: Mapping[str, FeatureColumn], dialect: Dialect) -> str:
    """Return the SELECT of `DatabaseModel.check_columns_query`, for columns by name.

    Raises
    ------
    ParameterError
        If the database has no catalog to query, or the table's name is not qualified enough for it.
    """
    quote, any_case = dialect.quote, dialect.names.any_case
    rows = [
        [str(position), dialect.string(column.feature.name), dialect.string(name),
         dialect.string(str(column.feature.type)), dialect.string(_expected(column)),
         dialect.string(_family(_expected(column), dialect))]
        for position, (name, column) in enumerate(columns.items(), 1)
    ]  # fmt: skip
    expected = dialect.constant_rows(rows, [quote(name) for name in _COLUMNS])
    alias, e, t = dialect.statements.alias, quote("e"), quote("t")
    name, known_name = f"{t}.{quote('name')}", f"{e}.{quote('column_name')}"
    same = f"LOWER({name}) = LOWER({known_name})" if any_case else f"{name} = {known_name}"
    family, type_ = f"{e}.{quote('family')}", f"LOWER({t}.{quote('type')})"
    has = {kind: " OR ".join(f"{type_} LIKE {dialect.string(f'%{word}%')}" for word in words)
           for kind, words in _FAMILIES.items()}  # fmt: skip
    whens = " ".join(f"WHEN {test} THEN {dialect.string(_held_as(kind, dialect))}" for kind, test in has.items())
    problem = (
        f"CASE WHEN {name} IS NULL THEN {dialect.string('the table has no such column')} "
        f"WHEN {family} <> CASE {whens} ELSE {family} END THEN {dialect.string('another kind of type')} END"
    )
    selected = [
        *(f"{e}.{quote(column)} AS {quote(column)}" for column in _COLUMNS[1:-1]),
        *(f"{t}.{quote(column)} AS {quote(column)}" for column in ("type", "collation")),
        f"{problem} AS {quote('problem')}",
    ]
    return (
        f"SELECT {in_lines(selected)}\nFROM (\n{expected}\n) {alias}{e}\n"
        f"LEFT JOIN (\n{_catalog(table, dialect)}\n) {alias}{t} ON {same}\n"
        f"ORDER BY {e}.{quote('position')} ASC{dialect.statements.joins_to_nulls}"
    )


def _expected(column: FeatureColumn) -> str:
    return str(column.dialect.type_of(column.feature.type))


def _family(type_name: str, dialect: Dialect) -> str:
    """Return the family of types for a type name; the name itself if no keyword matches."""
    return _held_as(_family_of_words(type_name), dialect)


def _family_of_words(type_name: str) -> str:
    lower = type_name.lower()
    return next((kind for kind, words in _FAMILIES.items() if any(word in lower for word in words)), type_name)


def _held_as(family: str, dialect: Dialect) -> str:
    """Return the family that a database uses instead of one: numbers for Booleans, text for times."""
    if family == "boolean" and dialect.expressions.is_true != "{x}":
        return "number"
    type_ = dialect.type_of(_REPRESENTATIVES[family]) if family in _REPRESENTATIVES else None
    return family if type_ is None else _family_of_words(type_)


def _catalog(table: str, dialect: Dialect) -> str:
    """Return the SELECT of the table's columns: ``name``, ``type`` and ``collation``."""
    catalog = dialect.statements.catalog
    if catalog is None:
        raise ParameterError(
            f"{dialect.name} has no catalog that a query can read; look at DESCRIBE TABLE, or use self_test_query"
        )
    *path, name = dialect.parts_of(table)
    if catalog.schema is None and not path:
        raise ParameterError(
            f"table must name its schema, as 'sales.orders', as {dialect.name} has a catalog for each, not "
            f"{shown(table)}"
        )
    above = "".join(f"{dialect.quote(part)}." for part in (path[:-1] if catalog.of_schema else path))
    schema = dialect.string(path[-1]) if path else str(catalog.schema)
    columns = {"name": catalog.name, "type": catalog.type, "collation": catalog.collation}
    selected = ", ".join(f"{value} AS {dialect.quote(column)}" for column, value in columns.items())
    fold = "LOWER({x})" if dialect.names.any_case else "{x}"
    conditions = [(catalog.table, dialect.string(name))]
    if catalog.of_both is not None and len(path) > 1:
        conditions += zip(catalog.of_both, map(dialect.string, path[-2:]), strict=True)
    elif catalog.of_schema:
        conditions.append((catalog.of_schema, schema))
    equal = " AND ".join(f"{fold.format(x=a)} = {fold.format(x=b)}" for a, b in conditions)
    names = {"table": dialect.string(name), "schema": schema, "path": dialect.string(dialect.quote_path(table))}
    source = catalog.source.format(above=above, **names)
    return f"SELECT {selected}\nFROM {source}" + (f"\nWHERE {equal}" if catalog.table else "")
