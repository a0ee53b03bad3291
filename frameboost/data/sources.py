"""The user's data as a source: a polars frame or a DuckDB relation, with the same methods.

`frameboost.data.opening.open_source` opens the user's data as a source.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, TypeVar

import duckdb
import polars as pl

from frameboost.checks.messages import shown
from frameboost.data.database_table import DatabaseTable
from frameboost.data.plans import plan_of, plan_steps, step_without_order
from frameboost.data.predicates import as_polars, check_repeatable, unusable
from frameboost.data.spark_source import SparkSource
from frameboost.errors import DataError
from frameboost.expressions.duckdb_sql import EXACT_TEXT, IS_NUMBER, is_present, quote_identifier, string_literal
from frameboost.runtime.interrupts import plain_relation, waiting, when_free
from frameboost.schema.types import FeatureType, column

__all__ = [
    "FrameSource",
    "LocalSource",
    "RelationSource",
    "Source",
    "check_numeric",
    "codes_sql",
    "distinct_strings",
    "in_order",
    "read_relation",
    "with_codes_column",
    "with_typed_nulls",
    "with_types_of_nulls",
]


@dataclass(frozen=True)
class FrameSource:
    """A polars LazyFrame as a source.

    Attributes
    ----------
    frame
        The frame.
    parts
        The frames that are concatenated, if the user passed several frames or files.
    part_names
        The names of parts in messages, if any.
    are_files
        Whether the parts only read files (see `scanned_formats`), so that rows can be read by position.
    are_columnar
        Whether the files allow reading single columns: Parquet or Arrow, not CSV.
    categorical
        Columns that were categorical in the original frame with categories that polars lacks: pandas' categories of
        numbers, Arrow dictionaries.
    """

    frame: pl.LazyFrame
    parts: tuple[pl.LazyFrame, ...] = ()
    part_names: tuple[str, ...] = ()
    are_files: bool = False
    are_columnar: bool = False
    categorical: frozenset[str] = frozenset()

    def map(self, function: Callable[[pl.LazyFrame], pl.LazyFrame]) -> FrameSource:
        """Apply a row-wise function to the frame and to each part."""
        return replace(self, frame=function(self.frame), parts=tuple(map(function, self.parts)))

    def fact_rows(self) -> FrameSource:
        """Return the facts of a star, without joins; all rows of other sources."""
        return self

    def count_rows(self) -> int:
        """Return the number of rows."""
        return int(self.fact_rows().frame.select(pl.len()).collect(engine="streaming").item())

    def with_fact_rows(self, rows: LocalSource) -> LocalSource:
        """Return rows of `fact_rows`, joined to the same dimensions."""
        return rows

    def names(self) -> list[str]:
        """Return the column names, in order."""
        return self.frame.collect_schema().names()

    def types(self) -> dict[str, FeatureType | None]:
        """Return each column's type, None for one that can't be a feature."""
        return dict(self._types)

    @cached_property
    def _types(self) -> dict[str, FeatureType | None]:
        schema = self.frame.collect_schema()
        types = {dtype: FeatureType.from_polars(dtype) for dtype in set(schema.dtypes())}  # few, of many columns
        return {name: types[dtype] for name, dtype in schema.items()}

    def type_names(self) -> dict[str, str]:
        """Return the name of each column's type in polars or in the database."""
        return {name: _shortened(str(dtype)) for name, dtype in self.frame.collect_schema().items()}

    def where(self, predicate: str, *, is_column: bool, negated: bool) -> FrameSource:
        """Return the rows where a Boolean column or a SQL predicate is true; if ``negated``, all other rows."""
        try:
            schema = self.frame.collect_schema()
            condition, constants = (column(predicate), {}) if is_column else as_polars(predicate, schema)
            holds = condition.fill_null(False)
            rows = self.map(
                lambda frame: frame.with_columns(**constants).filter(~holds if negated else holds).drop(list(constants))
            )
            rows.frame.collect_schema()
        except pl.exceptions.PolarsError as error:
            raise unusable(predicate, error) from error
        return rows

    def check_repeatable(self, predicate: str | None) -> None:
        """Raise `ParameterError` if a predicate may have another value when a row is read again."""
        if predicate is not None:
            check_repeatable(predicate, f"valid={shown(predicate)}")

    def labels(self, name: str, most: int) -> list[str]:
        """Return at most ``most`` distinct strings of a column, in Enum order or sorted."""
        return in_order(distinct_strings(self.frame, name, most), self.frame.collect_schema()[name])

    def with_codes(self, name: str, labels: Sequence[str]) -> FrameSource:
        """Return the rows with each string of a column replaced by its index among the labels."""
        return self.map(partial(with_codes_column, name=name, labels=tuple(labels)))

    def without_values(self, names: Sequence[str]) -> list[str]:
        """Return the columns that are NULL or NaN in every row."""
        schema = self.frame.collect_schema()
        untyped = [name for name in names if schema[name] == pl.Null]
        typed = [name for name in names if schema[name] != pl.Null]
        if not typed:
            return untyped
        missing = (
            column(n).is_null() | column(n).is_nan() if schema[n].is_float() else column(n).is_null() for n in typed
        )
        are_empty = self.frame.select(condition.all() for condition in missing).collect().row(0)
        return untyped + [name for name, is_empty in zip(typed, are_empty, strict=True) if is_empty]

    def as_null(self, types: Mapping[str, FeatureType]) -> FrameSource:
        """Return the rows with some entirely missing columns as NULL of these types."""
        nulls = [
            pl.when(column(name).is_null()).then(pl.lit(None, kind.to_polars())).alias(name)  # it must name the column
            for name, kind in types.items()
        ]
        return self.map(lambda frame: frame.with_columns(nulls)) if nulls else self

    def to_frame(self, names: Sequence[str]) -> pl.LazyFrame:
        """Return the columns as a lazy frame."""
        return self.frame.select(column(name) for name in names)


@dataclass(frozen=True)
class RelationSource:
    """A DuckDB relation as a source: a table, a view, a query, files.

    Attributes
    ----------
    relation
        The relation.
    is_copy
        Whether it reads a temporary table, which is dropped when the public function returns (see
        `frameboost.data.opening`).
    origin
        The relation that determines the order of the rows, such as the copied one; by default ``relation``.
    is_drawn
        Whether it is a copy as the query draws rows or values at random, so that no other read returns these.
    """

    relation: duckdb.DuckDBPyRelation
    is_copy: bool = False
    origin: duckdb.DuckDBPyRelation | None = None
    is_drawn: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "relation", waiting(self.relation))  # so that all that reads it waits

    def derived(self, relation: duckdb.DuckDBPyRelation) -> RelationSource:
        """Return a source of a relation derived from this one."""
        origin = self.relation if self.origin is None else self.origin
        return RelationSource(relation, self.is_copy, origin, self.is_drawn)

    @property
    def unordered(self) -> str:
        """The step of its plan that does not guarantee the order of rows; empty if there is none."""
        return step_without_order(plan_steps(plan_of(self.relation if self.origin is None else self.origin)))

    @property
    def is_table(self) -> bool:
        """Whether it is a table; a query or a file may take long to read."""
        return self.relation.type == "TABLE_RELATION" or (self.is_copy and self.relation.type == "QUERY_RELATION")

    categorical: ClassVar[frozenset[str]] = frozenset()  # its categories are strings, ENUMs

    def comparable(self) -> RelationSource:
        """Return it with values that compare as in a frame.

        Floats in files are hidden from the files' statistics, which ignore NaN and by which DuckDB folds comparisons
        (duckdb#25521); strings compare by bytes, whatever the collations of columns and connection. Returns the
        relation itself if neither is needed.
        """
        relation, compared = self.relation, {}
        columns = zip(relation.columns, relation.types, strict=True)
        types = [(quote_identifier(name), str(kind)) for name, kind in columns]
        floats = [(name, kind) for name, kind in types if kind in ("FLOAT", "DOUBLE")]
        if floats and _reads_files(relation):
            for name, kind in floats:
                is_number = IS_NUMBER.format(x=name)
                compared[name] = f"CASE WHEN {name} IS NULL OR {is_number} THEN {name} ELSE CAST('NaN' AS {kind}) END"
        strings = [name for name, kind in types if kind == "VARCHAR"]
        if strings and _is_collated(relation, strings):
            compared |= {name: EXACT_TEXT.format(x=name) for name in strings}
        if not compared:
            return self
        return self.derived(
            relation.project(f"* REPLACE ({', '.join(f'{sql} AS {name}' for name, sql in compared.items())})")
        )

    def fact_rows(self) -> RelationSource:
        """See `FrameSource.fact_rows`."""
        return self

    def count_rows(self) -> int:
        """See `FrameSource.count_rows`."""
        return int(self.fact_rows().relation.aggregate("COUNT(*)").fetchall()[0][0])

    def with_fact_rows(self, rows: LocalSource) -> LocalSource:
        """See `FrameSource.with_fact_rows`."""
        return rows

    def names(self) -> list[str]:
        """Return the column names, in order."""
        return list(self.relation.columns)

    def types(self) -> dict[str, FeatureType | None]:
        """Return each column's type, None for one that can't be a feature."""
        types = zip(self.relation.columns, self.relation.types, strict=True)
        return {name: FeatureType.from_duckdb(str(type_)) for name, type_ in types}

    def type_names(self) -> dict[str, str]:
        """Return the name of each column's type in the database."""
        types = zip(self.relation.columns, self.relation.types, strict=True)
        return {name: _shortened(str(type_).strip('"')) for name, type_ in types}  # one type is written "NULL"

    def where(self, predicate: str, *, is_column: bool, negated: bool) -> RelationSource:
        """Return the rows where a Boolean column or a SQL predicate is true; if ``negated``, all other rows."""
        # On a line by itself, as it may end in a comment.
        holds = f"COALESCE(({quote_identifier(predicate) if is_column else predicate}\n), FALSE)"
        try:
            if not (is_column or negated):  # once for both parts
                kind = self.relation.project(f"({predicate}\n) AS holds").types[0]
                if str(kind) != "BOOLEAN":  # DuckDB would cast it to BOOLEAN
                    raise unusable(predicate, ValueError(f"it is {kind}, not BOOLEAN"))
                # DuckDB finds a text that is no date, say, only when it compares a row with it.
                self.relation.limit(1).filter(holds).aggregate("COUNT(*)").fetchall()
            return self.derived(self.relation.filter(f"NOT {holds}" if negated else holds))
        except duckdb.Error as error:
            raise unusable(predicate, error) from error

    def check_repeatable(self, predicate: str | None) -> None:
        """See `FrameSource.check_repeatable`."""

        def run(query: str) -> Sequence[Sequence[Any]]:
            result = self.relation.query(f"frameboost_{secrets.token_hex(6)}", query)
            return result.fetchall() if result is not None else []

        if predicate is not None:
            check_repeatable(predicate, f"valid={shown(predicate)}", run)

    def labels(self, name: str, most: int) -> list[str]:
        """See `FrameSource.labels`."""
        quoted = quote_identifier(name)
        distinct = self.relation.project(quoted).filter(f"{quoted} IS NOT NULL").distinct().limit(most)
        is_enum = self.type_names()[name].startswith("ENUM(")
        rows = (distinct.order(quoted) if is_enum else distinct).fetchall()
        labels = [str(label) for (label,) in rows]
        return labels if is_enum else sorted(labels)

    def with_codes(self, name: str, labels: Sequence[str]) -> RelationSource:
        """See `FrameSource.with_codes`."""
        quoted = quote_identifier(name)
        return self.derived(self.relation.project(f"* REPLACE ({codes_sql(quoted, labels)} AS {quoted})"))

    def without_values(self, names: Sequence[str]) -> list[str]:
        """See `FrameSource.without_values`."""
        type_names, types = self.type_names(), self.types()
        untyped = [name for name in names if type_names[name] == _UNTYPED]
        typed = [name for name in names if type_names[name] != _UNTYPED]
        if not typed:
            return untyped
        counts = []
        for name in typed:
            quoted, kind = quote_identifier(name), types[name]
            counts.append(
                f"COUNT_IF({quoted} IS NOT NULL)" if kind is None else f"COUNT_IF({is_present(kind, quoted)})"
            )
        n_present = self.relation.aggregate(", ".join(counts)).fetchall()[0]
        return untyped + [name for name, n_values in zip(typed, n_present, strict=True) if not n_values]

    def as_null(self, types: Mapping[str, FeatureType]) -> RelationSource:
        """See `FrameSource.as_null`."""
        if not types:
            return self
        nulls = (f"CAST(NULL AS {kind.duckdb_name}) AS {quote_identifier(name)}" for name, kind in types.items())
        return self.derived(self.relation.project(f"* REPLACE ({', '.join(nulls)})"))

    def to_frame(self, names: Sequence[str]) -> pl.LazyFrame:
        """Read the columns into memory; types that polars lacks become ones with the same physical values."""
        types = self.types()
        selected, casts = [], []
        for name in names:
            quoted, kind = quote_identifier(name), types[name]
            if kind is not None and kind.family == "duration":
                selected.append(f"epoch_us({quoted}) AS {quoted}")
                casts.append(column(name).cast(kind.to_polars()))
            elif kind is not None and kind.name in ("int128", "uint128"):
                selected.append(f"CAST({quoted} AS VARCHAR) AS {quoted}")  # through Arrow it would be a decimal(38,0)
                casts.append(column(name).cast(kind.to_polars()))
            elif kind is not None and kind.is_categorical:
                selected.append(f"CAST({quoted} AS VARCHAR) AS {quoted}")
            else:
                selected.append(quoted)
        return read_relation(self.relation.project(", ".join(selected))).lazy().with_columns(casts)


def with_types_of_nulls(
    source: LocalSourceType, training_types: Mapping[str, FeatureType], *, exactly: bool
) -> LocalSourceType:  # fmt: skip
    """Return the rows with entirely missing columns as NULL of the types of training.

    A column of None has no type: it is Null in polars, NULL or INTEGER in DuckDB, and float in pandas. Without
    ``exactly``, a type of the same family is kept.
    """
    types, training_types = source.types(), {name: kind.values for name, kind in training_types.items()}
    other = [
        name
        for name, kind in training_types.items()
        if name in types and types[name] != kind
        and (exactly or (dtype := types[name]) is None or dtype.family != kind.family)
    ]  # fmt: skip
    if not other:
        return source
    return source.as_null({name: training_types[name] for name in source.without_values(other)})


def with_typed_nulls(source: LocalSourceType) -> LocalSourceType:
    """Return the rows with untyped columns of NULL as floats."""
    if other := [name for name, kind in source.types().items() if kind is None]:
        type_names = source.type_names()
        untyped = [name for name in other if type_names[name] in ("Null", _UNTYPED)]
        return source.as_null(dict.fromkeys(untyped, FeatureType("float64")))
    return source


def _reads_files(relation: duckdb.DuckDBPyRelation) -> bool:
    """Whether a relation may read files with column statistics, by its plan."""
    try:
        return re.search("parquet|iceberg|delta|ducklake|lance|vortex", plan_of(relation), re.IGNORECASE) is not None
    except duckdb.Error:  # it can't be read
        return False


def _is_collated(relation: duckdb.DuckDBPyRelation, strings: Sequence[str]) -> bool:
    """Whether quoted string columns may compare otherwise than by bytes."""
    try:
        # DuckDB refuses to compare a column of another collation than this.
        compared = relation.limit(0).filter(" OR ".join(f"{name} = '' COLLATE C" for name in strings))
        [(_, setting)] = compared.aggregate("COUNT(*), current_setting('default_collation')").fetchall()
    except duckdb.Error:
        return True
    return setting.lower() not in ("", "c", "binary", "posix")


def read_relation(relation: duckdb.DuckDBPyRelation) -> pl.DataFrame:
    """Read the rows of a relation through Arrow, without pyarrow, unlike its ``pl()``."""
    # pl.DataFrame caches the type: a "leak" to DuckDB at exit
    return when_free(lambda: pl.from_dataframe(plain_relation(relation), rechunk=False))


_UNTYPED = "NULL"  # DuckDB's type of a literal NULL
LocalSource = FrameSource | RelationSource
LocalSourceType = TypeVar("LocalSourceType", FrameSource, RelationSource, FrameSource | RelationSource)
Source = LocalSource | SparkSource | DatabaseTable


def check_numeric(source: Source, name: str, what: str, where: str = "", *, or_labels: bool = False) -> None:
    """Raise `DataError` if a column is neither numeric nor Boolean, nor, where allowed, strings as labels.

    ``what`` names the column in the message, such as "weight column", and ``where`` its data.
    """
    kind = source.types()[name]
    if kind is None or kind.family not in ("number", "boolean", *(["string"] if or_labels else [])):
        more = ", or strings that are labels of classes" if or_labels else ""
        raise DataError(
            f"{what} {shown(name)} has type {source.type_names()[name]}{where}; it must be numeric or Boolean{more}"
        )


def _shortened(type_name: str) -> str:
    """Return a type's name cut to the length of a message; that of an enum or a struct may be long."""
    return type_name if len(type_name) <= 80 else f"{type_name[:77]}..."


def distinct_strings(frame: pl.LazyFrame, name: str, most: int) -> list[str]:
    """Return at most ``most`` distinct strings of a column, in any order, without NULL."""
    values = frame.select(column(name).cast(pl.String).alias("label")).drop_nulls().unique()
    return values.head(most).collect(engine="streaming")["label"].to_list()


def in_order(labels: Iterable[str], dtype: pl.DataType) -> list[str]:
    """Return labels in Enum order, or sorted.

    >>> in_order(["low", "high"], pl.Enum(["low", "mid", "high"])), in_order(["low", "high"], pl.String())
    (['low', 'high'], ['high', 'low'])
    """
    present = set(labels)
    return [label for label in dtype.categories if label in present] if isinstance(dtype, pl.Enum) else sorted(present)


def with_codes_column(frame: pl.LazyFrame, name: str, labels: Sequence[str]) -> pl.LazyFrame:
    """Return the frame with a column's strings replaced by their indices among the labels.

    >>> with_codes_column(pl.LazyFrame({"y": ["b", None, "a"]}), "y", ["a", "b"]).collect()["y"].to_list()
    [1, None, 0]
    """
    codes = column(name).cast(pl.String).replace_strict(labels, range(len(labels)), default=None, return_dtype=pl.Int16)
    return frame.with_columns(codes.alias(name))


def codes_sql(quoted: str, labels: Sequence[str]) -> str:
    """Return `with_codes_column` for a DuckDB column, as an expression.

    >>> print(codes_sql('"y"', ["a", "it's"]))
    CAST(CASE "y"::VARCHAR COLLATE C WHEN 'a' THEN 0 WHEN 'it''s' THEN 1 END AS SMALLINT)
    """
    whens = " ".join(f"WHEN {string_literal(label)} THEN {code}" for code, label in enumerate(labels))
    return f"CAST(CASE {EXACT_TEXT.format(x=quoted)} {whens} END AS SMALLINT)"
