"""Cuts and categories in a database, from one query per column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from frameboost.binning.bins import Bins, sample_condition
from frameboost.binning.value_counts import ValueCounts
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.duckdb.cell_cuts import MIN_ROWS, cell_cuts
from frameboost.engines.duckdb.cells import NUMBERS
from frameboost.expressions.draws import RowPositions
from frameboost.expressions.duckdb_sql import EXACT_TEXT, is_present, physical_sql, render
from frameboost.schema.types import Feature, FeatureType, Physical

__all__ = [
    "MAX_AT_ONCE",
    "CountedRows",
    "Sample",
    "SqlColumn",
    "batches_of",
    "bins_between",
    "count_values",
    "from_database",
    "propose_bins",
    "read_categories",
    "sample_columns",
]

# Sorted values of some rows of a column.
Sample = npt.NDArray[Any]

# Features that a statement counts, copies or codes at once: the memory and the time that its plan takes grow with the
# product of its steps and its columns.
MAX_AT_ONCE = 64

Item = TypeVar("Item")

# Rows to sample, at least, and for each bin.
_MIN_SAMPLED, _SAMPLED_PER_BIN = 2048, 4


def batches_of(items: Sequence[Item]) -> list[Sequence[Item]]:
    """Return a sequence in parts of at most `MAX_AT_ONCE`; no part of an empty one."""
    return [items[start : start + MAX_AT_ONCE] for start in range(0, len(items), MAX_AT_ONCE)]


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """A column of the source: its quoted name, and its type in the database."""

    name: str
    type: FeatureType

    @property
    def sql(self) -> str:
        """The column, as an expression over the source."""
        column = f"source.{self.name}"
        # An ENUM has an order of its own, and a collation may take different strings for equal.
        return EXACT_TEXT.format(x=column) if self.type.name == "string" else column


@dataclass(frozen=True, slots=True)
class CountedRows:
    """The rows that cuts and categories come from.

    Attributes
    ----------
    source
        Their table, view or query.
    n_rows
        How many there are.
    sample
        The condition on ``source`` that cuts look at a row.
    n
        A column that says how many rows of the data a row stands for; by default one.
    read_again
        Whether reading them twice takes no long time.
    """

    source: str
    n_rows: int
    sample: str = "TRUE"
    n: str | None = None
    read_again: bool = True

    @classmethod
    def of_source(cls, session: DuckDBSession, n_rows: int, positions: RowPositions | None = None) -> CountedRows:
        """Return the rows of a session's source, given the number of all rows and the positions of these among them."""
        source, condition = session.source, "TRUE"
        position = session.column("position")
        sample = cls.sample_of(n_rows, position)
        if sample is not None:
            number = (positions or RowPositions()).sql("(row_number() OVER () - 1)")
            source, condition = f"(SELECT *, {number} AS {position} FROM {source})", sample
        return cls(source, n_rows, condition, read_again=session.is_table)

    @staticmethod
    def sample_of(n_rows: int, position: str) -> str | None:
        """Return the condition that cuts look at a row, given its column with the position; None if at all."""
        sample = sample_condition(n_rows)
        if sample is None:
            return None
        modulus, multiplier, bound = sample
        return f"source.{position} % {modulus} * {multiplier} % {2**32} < {bound}"

    def copied(self, session: DuckDBSession, columns: Mapping[int, SqlColumn]) -> tuple[CountedRows, list[SqlColumn]]:
        """Copy columns to a table of their own, where they are ``value_0``, ...; return its rows and columns."""
        table, sampled, n = session.table("values"), "TRUE", None
        read = [f"source.{column.name} AS value_{number}" for number, column in columns.items()]
        if self.sample != "TRUE":
            sampled = "source.is_sampled"
            read.append(f"{self.sample} AS is_sampled")
        if self.n is not None:
            n = "n_rows"
            read.append(f"source.{self.n} AS {n}")
        session.run(f"CREATE TEMP TABLE {table} AS SELECT {', '.join(read)} FROM {self.source} AS source")
        named = [SqlColumn(f"value_{number}", column.type) for number, column in columns.items()]
        return CountedRows(table, self.n_rows, sampled, n), named

    def parts(self, column: SqlColumn) -> dict[str, str]:
        """Return the parts of a statement over the values of a column."""
        return {
            "source": self.source,
            "column": column.sql,
            "n": "" if self.n is None else f", source.{self.n} AS n",
            "is_present": is_present(column.type, column.sql),
            "sample": self.sample,
            "physical": physical_sql(column.type, "value"),
            "highest": physical_sql(column.type, "highest"),
            "count": "COUNT(*)" if self.n is None else "CAST(SUM(n) AS BIGINT)",
            "values": "value" if self.n is None else "value, n",
        }


def propose_bins(
    session: DuckDBSession, rows: CountedRows, feature: Feature, column: SqlColumn, max_bin: int, *, missing: bool,
    sample: Sample,
) -> Bins:  # fmt: skip
    """Return the bins of one column: its categories, or cuts as by `frameboost.binning.bins.cut_positions`.

    ``sample`` has some of its values, ascending. If more of them are distinct than ``max_bin``, rows are counted by
    cells and values read near the cuts, or ranks are computed by a window over all rows; otherwise values are counted
    first, which is slower where most values are distinct.
    """
    if column.type.is_categorical:
        return read_categories(session, feature, column, missing=missing, source=rows.source)
    most = max_bin - missing
    parts = {**rows.parts(column), "max_bin": most}
    is_diverse = len(np.unique(sample)) > most
    if is_diverse and rows.n_rows >= MIN_ROWS and rows.read_again:
        near = cell_cuts(session, column.type, sample, most, parts)
        if near is not None:
            return bins_between(feature, column.type, *near.tolist(), missing=missing)
    found = session.rows(render("propose_cuts_by_rank", **parts)) if is_diverse and rows.n is None else []
    if not found or found[-1][2] <= most:
        found = session.rows(render("propose_cuts", **parts))
    lowest, highest = ([row[side] for row in found] for side in (0, 1))
    return bins_between(feature, column.type, highest[:-1], lowest[1:], missing=missing)


def bins_between(
    feature: Feature, kind: FeatureType, below: Sequence[object], cuts: Sequence[object], *, missing: bool
) -> Bins:
    """Return the bins of a feature from results of `physical_sql`: the cuts, and for each the value before it."""
    starts, before = (tuple([from_database(kind, value) for value in values]) for values in (cuts, below))
    return Bins(feature, starts, missing, before if kind.is_float else ())


def sample_columns(
    session: DuckDBSession, columns: Sequence[SqlColumn], max_bin: int, source: str | None = None
) -> list[Sample]:
    """Return some present values of each column, ascending but for texts of decimals; none of a string column.

    They are of the session's source, unless another table is named.
    """
    values = ", ".join(
        f'{_plain(column)} AS "{i}"' for i, column in enumerate(columns) if not column.type.is_categorical
    )
    if not values:
        return [np.empty(0)] * len(columns)
    n_rows = max(_MIN_SAMPLED, _SAMPLED_PER_BIN * max_bin)
    found = session.columns(render("sample_columns", source=source or session.source, values=values, n_rows=n_rows))
    return [_present(found[str(i)]) if str(i) in found else np.empty(0) for i in range(len(columns))]


def _plain(column: SqlColumn) -> str:
    return column.sql if column.type.name in NUMBERS else physical_sql(column.type, column.sql)


def _present(values: Sample | np.ma.MaskedArray[Any, Any]) -> Sample:
    """Return the values of a column of a result that are neither NULL nor NaN, ascending."""
    present = values.compressed() if isinstance(values, np.ma.MaskedArray) else values
    return np.sort(present[present == present])


def count_values(session: DuckDBSession, column: SqlColumn, n_rows: int, positions: RowPositions) -> ValueCounts:
    """Return `ShardEngine.count_values` of a numeric column, given the positions of its rows among all rows."""
    rows = CountedRows.of_source(session, n_rows, positions)
    found = session.columns(render("count_values", **rows.parts(column)))
    counts = found["n"].astype(np.int64)
    if column.type.is_float:
        dtype = np.float32 if column.type.name == "float32" else np.float64
        return ValueCounts(found["value"].astype(dtype) + dtype(0.0), counts)
    values = [from_database(column.type, value) for value in found["value"].tolist()]
    return ValueCounts(np.array(values, dtype=np.int64 if _fits_64_bits(values) else object), counts)


def _fits_64_bits(values: Sequence[Physical]) -> bool:
    return not values or (values[0] >= -(2**63) and values[-1] < 2**63)  # type: ignore[operator]


def read_categories(
    session: DuckDBSession, feature: Feature, column: SqlColumn, *, missing: bool, source: str | None = None
) -> Bins:
    """Return the bins of a column of categories, of the session's source or of another table."""
    value = column.sql if column.type.name == "string" else physical_sql(column.type, column.sql)
    rows = session.rows(render("categories", source=source or session.source, column=value))
    known = [category for (category,) in rows]
    if column.type.name != "string":
        numbers = [from_database(column.type, category) for category in known]
        known = list({number for number in numbers if number == number})  # NaN is missing, -0.0 is 0.0
    categories = tuple(sorted(known))
    return Bins(Feature(feature.name, feature.type, categories), has_missing=missing)


def from_database(kind: FeatureType, value: object) -> Physical:
    """Return the Python value of a result of `physical_sql`."""
    if kind.is_float:
        return float(value) + 0.0  # type: ignore[arg-type]  # writes -0.0 as 0.0, which is the same value
    if isinstance(value, str):  # a decimal: its digits without the point are the scaled integer
        return int(value.replace(".", ""))
    return int(value)  # type: ignore[call-overload, no-any-return]
