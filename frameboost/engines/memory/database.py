"""Columns of a table in a database, which are cut and coded there: the codes of bins come here, never the values.

Cuts are those of `frameboost.binning.bins.cut_positions`, by one query a feature: a window ranks its values, and each
equal part of the ranks returns its lowest and its highest value. Codes are a CASE by binary search, or a function of
the database that searches; several are packed into one integer, so that rows are few numbers.

A table has no order, and is read twice: its roles first, by which the fit is checked, then roles and codes. Rows of
equal roles are alike until they have codes. So the rows that are read later are put in the order of the first ones by
their roles, and where these differ the table has changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from frameboost.binning.arrays import Codes
from frameboost.binning.bins import SAMPLE_LIMIT, Bins, sample_condition
from frameboost.checks.messages import counted, shown
from frameboost.data.database_table import DatabaseTable
from frameboost.dialects.columns import DatabaseColumn
from frameboost.dialects.dialect import OutOfRange
from frameboost.engines.memory.columns import BinnedColumns
from frameboost.errors import DataError, ParameterError
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature, FeatureType, Physical, physical_values

__all__ = ["DatabaseColumns"]

_INT64 = FeatureType("int64")
_FLOAT64 = FeatureType("float64")
# Packed codes are below this number. They are added up as floats, which no database has too few bits for.
_MOST_PACKED = 2**52
# Features whose missing values a query counts: the columns of a result are limited in each database.
_COUNTED_AT_ONCE = 200


class DatabaseColumns:
    """`FeatureColumns` of a table in a database.

    Parameters
    ----------
    source, features, workers
        The rows, the features, and the threads.
    """

    def __init__(self, source: DatabaseTable, features: Sequence[Feature], workers: Workers) -> None:
        self.source = source
        self.features = features
        self.workers = workers
        self._columns = [DatabaseColumn(f, source.dialect, source.sql(f.name)) for f in features]
        self._missing: list[int] | None = None
        self._roles = pl.DataFrame()
        self._codes: list[pl.Series] = []

    def load(self, names: Sequence[str]) -> pl.DataFrame:
        """See `FeatureColumns.load`."""
        self.source.check_key()
        self._roles = self.source.to_frame(list(dict.fromkeys(names))).collect()
        return self._roles

    def values(self, number: int) -> pl.Series:
        """See `FeatureColumns.values`: values stay in the database."""
        raise DataError(
            f"the values of feature {shown(self.features[number].name)} stay in the database, and this fit needs them "
            "here; give the rows as a frame"
        )

    def count_missing(self, sample: pl.Series | None) -> list[int]:
        """See `FeatureColumns.count_missing`."""
        if self._missing is None:
            self._missing = []
            for first in range(0, len(self._columns), _COUNTED_AT_ONCE):
                part = self._columns[first : first + _COUNTED_AT_ONCE]
                count = self.source.dialect.statements.count[1]
                counts = {f"n_{i}": count.format(c=column.is_missing()) for i, column in enumerate(part)}
                read = self.source.rows(counts, dict.fromkeys(counts, _INT64))
                self._missing += [int(n or 0) for n in read.row(0)]
        return self._missing

    def kept_for_cuts(self, number: int) -> None:
        """See `FeatureColumns.kept_for_cuts`: none, as values stay in the database."""

    # --- cuts ---------------------------------------------------------------------------------------------------------

    def propose_bins(self, max_bin: int, given: Mapping[int, Bins]) -> list[Bins]:
        """See `HistogramEngine.propose_bins`."""
        missing = self.count_missing(None)
        return [
            given[i] if i in given else self._propose(column, max_bin, missing[i])
            for i, column in enumerate(self._columns)
        ]

    def _propose(self, column: DatabaseColumn, max_bin: int, n_missing: int) -> Bins:
        feature, kind, has_missing = column.feature, column.feature.type, n_missing > 0
        if kind.is_categorical:
            categories = tuple(self.source.distinct_texts(feature.name))
            return Bins(Feature(feature.name, kind, categories), has_missing=has_missing)
        if kind.family == "boolean":
            lowest, highest = self._sides(column)
            return Bins(feature, (1,) if lowest < highest else (), has_missing)
        lowest_of_parts, highest_of_parts = self._parts(column, max_bin - has_missing, n_missing)
        gaps = np.stack([np.array(highest_of_parts[:-1]), np.array(lowest_of_parts[1:])])
        return Bins.of_gaps(feature, gaps, has_missing=has_missing)

    def _sides(self, column: DatabaseColumn) -> tuple[int, int]:
        """Return the lowest and the highest value of a column of Booleans; 0 if there is none."""
        expressions, name = self.source.dialect.expressions, column.name
        is_true, is_false = (test.format(x=name) for test in (expressions.is_true, expressions.is_false))
        number = f"CASE WHEN {is_true} THEN 1 WHEN {is_false} THEN 0 END"
        read = self.source.rows(
            {"lowest": f"MIN({number})", "highest": f"MAX({number})"}, {"lowest": _INT64, "highest": _INT64}
        )
        return read["lowest"][0] or 0, read["highest"][0] or 0

    def _parts(self, column: DatabaseColumn, max_bin: int, n_missing: int) -> tuple[list[Physical], list[Physical]]:
        """Return the lowest and the highest value of each bin of a numeric column, ascending."""
        total = len(self._roles) - n_missing
        if total < 1:
            return [], []
        source, dialect, kind = self.source, self.source.dialect, column.feature.type
        alias, quote = dialect.statements.alias, dialect.quote
        value, present, position = map(source.alias, ("value", "is_present", "position"))
        lowest, highest, n = map(quote, ("lowest", "highest", "n"))
        selected = {value: column.value, present: f"CASE WHEN {column.is_present()} THEN 1 ELSE 0 END"}
        kept = f"{present} = 1"
        if (sampled := self._sample(position)) is not None:
            selected[position] = f"ROW_NUMBER() OVER ({source.in_order.strip()}) - 1"
            kept = f"{kept} AND {sampled}"
        rows = f"FROM ({source.select(selected)}) {alias}{quote('rows')} WHERE {kept}"
        if sampled is not None:
            read = source.connection.frame(f"SELECT {dialect.statements.count[0]} AS {n} {rows}", {"n": _INT64})
            total = int(read["n"][0])
        if (gaps := self._gaps_by_quantiles(kind, value, rows, total, max_bin)) is not None:
            return gaps
        in_order = f"OVER (ORDER BY {value} ASC)"
        ranked = (
            f"SELECT {value}, (RANK() {in_order} - 1) * {max_bin} AS {quote('rank')}, DENSE_RANK() {in_order} AS {n}"
        )
        # Both numbers are below 2^53, so the quotient has the right whole part.
        part = f"FLOOR({dialect.cast(quote('rank'), 'float64')} / {dialect.number(float(total))})"
        parts = f"SELECT {value}, {n}, {part} AS {quote('part')} FROM ({ranked} {rows}) {alias}{quote('ranked')}"
        ends = source.connection.frame(
            f"SELECT MIN({value}) AS {lowest}, MAX({value}) AS {highest}, MAX({n}) AS {n} FROM ({parts}) "
            f"{alias}{quote('parts')} GROUP BY {quote('part')}",
            {"lowest": kind, "highest": kind, "n": _INT64},
        )
        if int(ends["n"].to_numpy().max()) <= max_bin:  # each value has a bin
            distinct = source.connection.frame(f"SELECT DISTINCT {value} AS {lowest} {rows}", {"lowest": kind})
            ends = distinct.with_columns(highest="lowest")
        sides = [physical_values(ends[side], kind) for side in ("lowest", "highest")]
        order = sides[0].arg_sort()
        first, last = ((side + 0.0 if kind.is_float else side).gather(order).to_list() for side in sides)
        return first, last

    def _gaps_by_quantiles(
        self, kind: FeatureType, value: str, rows: str, total: int, max_bin: int
    ) -> tuple[list[Physical], list[Physical]] | None:
        """Return the same by values at certain ranks, None if the database has no such function, or values repeat.

        Part k begins at rank ⌈k · total / max_bin⌉: with the value there, if the one before it is smaller. In
        PostgreSQL that takes half of the time of a window.
        """
        template = self.source.dialect.expressions.quantiles
        if template is None or total <= max_bin:
            return None
        starts = [-(-k * total // max_bin) for k in range(1, max_bin)]
        ranks = [0, *(rank for start in starts for rank in (start - 1, start)), total - 1]
        fractions = ", ".join(repr((rank + 0.5) / total) for rank in ranks)
        read = self.source.connection.frame(f"SELECT {template.format(x=value, v=fractions)} {rows}", {"value": kind})
        values = physical_values(read["value"], kind).to_list()
        lowest, highest = values[::2], values[1::2]
        repeat = any(before >= start for before, start in zip(highest[:-1], lowest[1:], strict=True))
        return None if repeat else (lowest, highest)

    def _sample(self, position: str) -> str | None:
        """Return the condition that a row at a position is one of those that cuts come from; None if all are.

        Raises
        ------
        ParameterError
            If there is no key by which rows have positions.
        """
        sample = sample_condition(len(self._roles))
        if sample is None:
            return None
        if self.source.key is None:
            raise ParameterError(
                f"the table has {counted(len(self._roles), 'row')}; cuts of more than {SAMPLE_LIMIT:,} come from a "
                "sample by the rows' positions, which those of a database have by a key: fb.table(..., key='id')"
            )
        modulus, multiplier, bound = sample
        return f"MOD(MOD({position}, {modulus}) * {multiplier}, {2**32}) < {bound}"

    # --- codes --------------------------------------------------------------------------------------------------------

    def bin(self, bins: Sequence[Bins], *, may_sort: bool) -> tuple[BinnedColumns, None]:
        """See `FeatureColumns.bin`."""
        self._codes = self._read_codes(bins)
        binned = BinnedColumns(bins, len(self._roles))
        binned.fill(self._write_codes, self.workers)
        return binned, None

    def _write_codes(self, number: int, bins: Bins, codes: Codes) -> None:
        codes[:] = self._codes[number].to_numpy()

    def _read_codes(self, bins: Sequence[Bins]) -> list[pl.Series]:
        """Return the codes of each feature, in the order of the roles."""
        codes = [_code(column, each) for column, each in zip(self._columns, bins, strict=True)]
        sizes = [each.count + 1 for each in bins]
        packs, number_of = _packs(sizes), self.source.dialect.number
        packed = {
            f"frameboost_{i}": " + ".join(f"{number_of(float(factor))} * {codes[j]}" for j, factor in pack)
            for i, pack in enumerate(packs)
        }
        roles = self._roles.columns
        types = self.source.types()
        columns = {name: self.source.sql(name) for name in roles} | packed
        kinds = {name: types[name] or _FLOAT64 for name in roles} | dict.fromkeys(packed, _FLOAT64)
        read = self.source.rows(columns, kinds, self.source.in_order)
        order = self._order(read.select(roles))
        by_number: dict[int, pl.Series] = {}
        for name, pack in zip(packed, packs, strict=True):
            numbers = (read[name] if order is None else read[name].gather(order)).cast(pl.Int64)
            for number, factor in pack:
                by_number[number] = numbers // factor % sizes[number]
        return [by_number[number] for number in range(len(bins))]

    def _order(self, roles: pl.DataFrame) -> pl.Series | None:
        """Return which of the rows that were read with codes is each of the first ones; None if they are in order.

        Raises
        ------
        DataError
            If they are not the same rows.
        """
        if roles.equals(self._roles):
            return None
        if self.source.key is None and len(roles) == len(self._roles):
            first, second = (rows.with_row_index("frameboost_row").sort(rows.columns) for rows in (self._roles, roles))
            if first.drop("frameboost_row").equals(second.drop("frameboost_row")):
                order = pl.DataFrame({"first": first["frameboost_row"], "second": second["frameboost_row"]})
                return order.sort("first")["second"]
        raise DataError(
            f"the rows of {shown(self.source.name)} changed while they were read; train on a copy, or in a transaction "
            "that sees one state of the table"
        )

    def drop(self) -> None:
        """See `FeatureColumns.drop`."""
        self._codes = []


def _packs(sizes: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Return which codes are packed into one integer: the number of each feature with the factor of its code.

    >>> _packs([256, 256, 2])
    [[(0, 1), (1, 256), (2, 65536)]]
    """
    packs: list[list[tuple[int, int]]] = []
    factor = _MOST_PACKED
    for number, size in enumerate(sizes):
        if factor * size > _MOST_PACKED:
            packs.append([])
            factor = 1
        packs[-1].append((number, factor))
        factor *= size
    return packs


def _code(column: DatabaseColumn, bins: Bins) -> str:
    """Return the SQL of a value's code: the number of its bin."""
    if column.feature.type.is_categorical:
        literals = [column.dialect.literal(column.feature.type, category) for category in bins.feature.categories]
        whens = [f"WHEN {text} THEN {i}" for i, text in enumerate(literals) if not isinstance(text, OutOfRange)]
        return f"CASE {column.value} {' '.join(whens)} ELSE {bins.missing} END" if whens else str(bins.missing)

    def search(low: int, high: int) -> str:
        """Return the code of a value whose code is one of these."""
        if low == high:
            return str(low)
        middle = (low + high) // 2
        condition = column.is_below(bins.cuts[middle])
        left, right = search(low, middle), search(middle + 1, high)
        return f"CASE WHEN {condition} THEN {left} ELSE {right} END" if condition else left

    template, kind = column.dialect.expressions.bucket, column.feature.type
    literals = [column.dialect.literal(kind, cut) for cut in bins.cuts]
    texts = [text for text in literals if not isinstance(text, OutOfRange)]
    if template is not None and kind.family != "boolean" and texts and len(texts) == len(literals):
        code = template.format(x=column.value, v=", ".join(texts))
    else:
        code = search(0, len(bins.cuts))
    return f"CASE WHEN {column.is_present()} THEN {code} ELSE {bins.missing} END"
