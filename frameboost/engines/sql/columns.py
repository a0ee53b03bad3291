"""The feature columns of a database table: cut and coded there, by SELECTs alone.

Cuts are those of `frameboost.binning.bins.cut_positions`, by one query per feature: a window ranks its values, and each
equal part of the ranks returns its lowest and its highest value. A code is a CASE by binary search, or a search
function of the database.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from frameboost.binning.bins import SAMPLE_LIMIT, Bins, sample_condition
from frameboost.checks.messages import counted
from frameboost.data.connections import values_of
from frameboost.data.database_table import DatabaseTable
from frameboost.dialects.columns import DatabaseColumn
from frameboost.dialects.dialect import OutOfRange
from frameboost.schema.types import Feature, FeatureType, Physical, physical_values

__all__ = ["TableColumns"]

_INT64 = FeatureType("int64")
# Features whose missing values a query counts: the columns of a result are limited in each database.
_COUNTED_AT_ONCE = 200
# Features whose quantiles a query returns: each of them sorts a column.
_QUANTILES_AT_ONCE = 8
# Bytes that a query has besides the SQL of codes: for each of them, and at all.
_PER_COLUMN, _ROOM = 200, 8_000


class _Numbers(NamedTuple):
    """The values of a numeric column for its cuts.

    Attributes
    ----------
    kind
        Their type.
    value, rows
        SQL of a value, and the rest of a SELECT of all.
    total
        The number of values.
    n_parts
        The maximum number of parts.
    """

    kind: FeatureType
    value: str
    rows: str
    total: int
    n_parts: int

    @property
    def ranks(self) -> list[int]:
        """The ranks of the lowest value, of the last and first value around each boundary of parts, and of the highest.

        Part k begins at rank ⌈k · total / n_parts⌉.
        """
        starts = [-(-k * self.total // self.n_parts) for k in range(1, self.n_parts)]
        return [0, *(rank for start in starts for rank in (start - 1, start)), self.total - 1]


class TableColumns:
    """The feature columns of a table."""

    def __init__(self, source: DatabaseTable, features: Sequence[Feature]) -> None:
        self.source = source
        self.columns = [DatabaseColumn(f, source.dialect, source.sql(f.name)) for f in features]

    @cached_property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.source.count_rows()

    @cached_property
    def n_missing(self) -> list[int]:
        """The number of missing values of each feature."""
        missing: list[int] = []
        count = self.source.dialect.statements.count[1]
        for first in range(0, len(self.columns), _COUNTED_AT_ONCE):
            part = self.columns[first : first + _COUNTED_AT_ONCE]
            counts = {f"n_{i}": count.format(c=column.is_missing()) for i, column in enumerate(part)}
            read = self.source.rows(counts, dict.fromkeys(counts, _INT64))
            missing += [int(n or 0) for n in read.row(0)]
        return missing

    def code(self, number: int, bins: Bins, name: str | None = None) -> str:
        """Return the SQL of the code of a feature's value; ``name`` is its column elsewhere."""
        column = self.columns[number]
        return _code(column if name is None else replace(column, name=name), bins)

    def in_groups(self, texts: Sequence[str], most_texts: int | None = None) -> list[range]:
        """Return the indices of parts of a query, such as codes of features, in groups that each fit."""
        most = self.source.dialect.limits.text
        starts, size = [0], 0
        for number, text in enumerate(texts):
            size += len(text.encode()) + _PER_COLUMN
            is_too_long = most is not None and size > most - _ROOM
            if number > starts[-1] and (is_too_long or number - starts[-1] == most_texts):
                starts.append(number)
                size = len(text.encode()) + _PER_COLUMN
        return [range(start, stop) for start, stop in zip(starts, [*starts[1:], len(texts)], strict=True)]

    # --- cuts ---------------------------------------------------------------------------------------------------------

    def propose_bins(self, max_bin: int, user_bins: Mapping[int, Bins]) -> list[Bins]:
        """See `HistogramEngine.propose_bins`."""
        kinds = [column.feature.type for column in self.columns]
        are_cut = [not kind.is_categorical and kind.family != "boolean" for kind in kinds]
        numbers = {i: self._numbers(i, max_bin) for i, is_cut in enumerate(are_cut) if is_cut and i not in user_bins}
        quantiles = self._quantiles(numbers)
        bins = []
        for i, column in enumerate(self.columns):
            if i in user_bins:
                bins.append(user_bins[i])
            elif i in numbers:
                with values_of(column.feature.name):
                    lowest, highest = self._parts(numbers[i], quantiles.get(i))
                gaps = np.stack([np.array(highest[:-1]), np.array(lowest[1:])])
                bins.append(Bins.of_gaps(column.feature, gaps, has_missing=self.n_missing[i] > 0))
            else:
                bins.append(self._propose(column, has_missing=self.n_missing[i] > 0))
        return bins

    def _propose(self, column: DatabaseColumn, *, has_missing: bool) -> Bins:
        """Return the bins of categories or of Booleans."""
        feature, kind = column.feature, column.feature.type
        if kind.is_categorical:
            texts = kind.family == "string"
            categories = self.source.distinct_texts(feature.name) if texts else self._distinct(column)
            return Bins(Feature(feature.name, kind, tuple(categories)), has_missing=has_missing)
        lowest, highest = self._sides(column)
        return Bins(feature, (1,) if lowest < highest else (), has_missing)

    def _distinct(self, column: DatabaseColumn) -> list[Physical]:
        """Return the distinct physical values of a column of numbers or times, ascending."""
        kind, dialect, value = column.feature.type.values, self.source.dialect, self.source.alias("value")
        rows = self.source.select({value: self.source.present(column.feature.name)})
        text = f"SELECT DISTINCT {value} FROM ({rows}) {dialect.statements.alias}{dialect.quote('rows')}"
        read = self.source.connection.frame(f"{text} WHERE {value} IS NOT NULL", {"value": kind})
        distinct: list[Physical] = physical_values(read["value"], kind).sort().to_list()
        return distinct

    def _sides(self, column: DatabaseColumn) -> tuple[int, int]:
        """Return the lowest and the highest value of a Boolean column; 0 if there is none."""
        expressions, name = self.source.dialect.expressions, column.name
        is_true, is_false = (test.format(x=name) for test in (expressions.is_true, expressions.is_false))
        number = f"CASE WHEN {is_true} THEN 1 WHEN {is_false} THEN 0 END"
        read = self.source.rows(
            {"lowest": f"MIN({number})", "highest": f"MAX({number})"}, {"lowest": _INT64, "highest": _INT64}
        )
        return read["lowest"][0] or 0, read["highest"][0] or 0

    def _numbers(self, i: int, max_bin: int) -> _Numbers:
        """Return the values for the cuts of a feature."""
        column, n_missing, source = self.columns[i], self.n_missing[i], self.source
        value, present, position = map(source.alias, ("value", "is_present", "position"))
        selected = {value: column.unsigned, present: f"CASE WHEN {column.is_present()} THEN 1 ELSE 0 END"}
        kept, total = f"{present} = 1", self.n_rows - n_missing
        if (sampled := self._sample(position)) is not None:
            selected[position] = source.position
            kept = f"{kept} AND {sampled}"
        statements, quote = source.dialect.statements, source.dialect.quote
        rows = f"FROM ({source.select(selected)}) {statements.alias}{quote('rows')} WHERE {kept}"
        if sampled is not None:
            read = source.connection.frame(f"SELECT {statements.count[0]} AS {quote('n')} {rows}", {"n": _INT64})
            total = int(read["n"][0])
        return _Numbers(column.feature.type, value, rows, total, max_bin - (n_missing > 0))

    def _quantiles(self, numbers: Mapping[int, _Numbers]) -> dict[int, list[Physical]]:
        """Return the values at `_Numbers.ranks` of each feature, ascending, if the database has an aggregate.

        A query covers several features, which PostgreSQL and ClickHouse compute in parallel.
        """
        expressions, quote = self.source.dialect.expressions, self.source.dialect.quote
        if expressions.quantiles is None or expressions.bucket is None:
            return {}
        most = self.source.dialect.limits.text
        by_kind: dict[FeatureType, list[str]] = defaultdict(list)
        for i, (kind, value, rows, total, n_parts) in numbers.items():
            if kind.is_float and total > n_parts:
                fractions = ", ".join(repr((rank + 0.5) / total) for rank in numbers[i].ranks)
                values = expressions.quantiles.format(x=value, v=fractions)
                query = f"SELECT {i} AS {quote('i')}, {values} AS {quote('v')} {rows}"
                if most is None or len(query.encode()) <= most:
                    by_kind[kind].append(query)
        quantiles: dict[int, list[Physical]] = {}
        for kind, queries in by_kind.items():
            for group in self.in_groups(queries, _QUANTILES_AT_ONCE):
                text = "\nUNION ALL\n".join(queries[group.start : group.stop])
                read = self.source.connection.frame(text, {"i": _INT64, "v": kind})
                for (i,), of_feature in read.group_by("i"):
                    quantiles[int(i)] = physical_values(of_feature["v"].sort(), kind).to_list()
        return quantiles

    def _parts(
        self, numbers: _Numbers, quantiles: Sequence[Physical] | None
    ) -> tuple[list[Physical], list[Physical]]:  # fmt: skip
        """Return the lowest and the highest value of each bin of a numeric column, ascending."""
        kind, value, rows, total, max_bin = numbers
        if total < 1:
            return [], []
        source, dialect = self.source, self.source.dialect
        alias, quote = dialect.statements.alias, dialect.quote
        lowest, highest, n = map(quote, ("lowest", "highest", "n"))
        if quantiles is not None and (by_quantiles := self._ends_by_quantiles(numbers, quantiles)) is not None:
            return by_quantiles
        in_order = f"OVER (ORDER BY {value} ASC)"
        ranked = (
            f"SELECT {value}, (RANK() {in_order} - 1) * {max_bin} AS {quote('rank')}, DENSE_RANK() {in_order} AS {n}"
        )
        # Without FLOOR, which not every SQLite has; the quotient is whole in any arithmetic.
        part = f"({quote('rank')} - {dialect.expressions.mod.format(x=quote('rank'), y=total)}) / {total}"
        parts = f"SELECT {value}, {n}, {part} AS {quote('part')} FROM ({ranked} {rows}) {alias}{quote('ranked')}"
        ends = source.connection.frame(
            f"SELECT MIN({value}) AS {lowest}, MAX({value}) AS {highest}, MAX({n}) AS {n} FROM ({parts}) "
            f"{alias}{quote('parts')} GROUP BY {quote('part')}",
            {"lowest": kind, "highest": kind, "n": _INT64},
        )
        if int(ends["n"].to_numpy().max()) <= max_bin:  # each value has a bin
            distinct = source.connection.frame(f"SELECT DISTINCT {value} AS {lowest} {rows}", {"lowest": kind})
            ends = distinct.with_columns(highest="lowest")
        ends = ends.sort("lowest")
        lowest_values, highest_values = (physical_values(ends[name], kind) for name in ("lowest", "highest"))
        return lowest_values.to_list(), highest_values.to_list()

    def _ends_by_quantiles(
        self, numbers: _Numbers, quantiles: Sequence[Physical]
    ) -> tuple[list[Physical], list[Physical]] | None:
        """Return `_parts` from the values at certain ranks, None if many values repeat.

        A part begins with the value at its first rank, if the one before it is smaller, and else with the next larger
        value. In PostgreSQL that takes half of the time of a window.
        """
        kind, value, rows, _, max_bin = numbers
        expressions, number = self.source.dialect.expressions, self.source.dialect.literal
        assert expressions.bucket is not None
        lowest, *at, highest = quantiles
        sides = list(zip(at[::2], at[1::2], strict=True))
        repeated = sorted({before for before, start in sides if before == start})
        literals = [number(kind, each) for each in repeated]
        if len(repeated) > max_bin // 2 or any(isinstance(text, OutOfRange) for text in literals):
            return None
        following = dict(pairwise(repeated))
        if repeated:
            listed = ", ".join(map(str, literals))
            place = expressions.bucket.format(x=value, v=listed, first=literals[0], n=len(literals))
            p, v = self.source.dialect.quote("p"), self.source.dialect.quote("v")
            selected = f"{place} AS {p}, MIN({value}) AS {v}"
            text = f"SELECT {selected} {rows} AND {value} NOT IN ({listed}) GROUP BY {place}"
            read = self.source.connection.frame(text, {"place": _INT64, "v": kind})
            between = zip(read["place"].to_list(), physical_values(read["v"], kind).to_list(), strict=True)
            following |= {repeated[place - 1]: value for place, value in between if place}
        gaps = [(a, b if a != b else following[a]) for a, b in sides if a != b or a in following]
        if len({*at, *following.values()}) <= max_bin:  # each value may have a bin
            return None
        gaps = list(dict.fromkeys(gaps))
        return [lowest, *(start for _, start in gaps)], [*(before for before, _ in gaps), highest]

    def _sample(self, position: str) -> str | None:
        """Return the condition that a row position is in the sample for cuts; None for all rows.

        Raises
        ------
        ParameterError
            If there is no key, so that rows have no positions.
        """
        sample = sample_condition(self.n_rows)
        if sample is None:
            return None
        self.source.check_positions(
            f"the table has {counted(self.n_rows, 'row')}; cuts of more than {SAMPLE_LIMIT:,} come from a sample by "
            "the rows' positions"
        )
        modulus, multiplier, bound = sample
        mod = self.source.dialect.expressions.mod
        return f"{mod.format(x=f'({mod.format(x=position, y=modulus)} * {multiplier})', y=2**32)} < {bound}"


def _code(column: DatabaseColumn, bins: Bins) -> str:
    """Return the SQL of a value's code, the index of its bin."""
    if column.feature.type.is_categorical:
        literals = [column.dialect.literal(column.feature.type, category) for category in bins.feature.categories]
        known = [(i, text) for i, text in enumerate(literals) if not isinstance(text, OutOfRange)]
        # Some databases look up what CASE begins with, and tell 0.0 from -0.0.
        value, test = ("", f"{column.value} = ") if column.feature.type.is_float else (column.value, "")
        whens = [f"WHEN {test}{text} THEN {i}" for i, text in known]
        return f"CASE {value} {' '.join(whens)} ELSE {bins.missing} END" if whens else str(bins.missing)

    def search(low: int, high: int) -> str:
        """Return the code of a value, among these codes."""
        if low == high:
            return str(low)
        middle = (low + high) // 2
        condition = column.is_below(bins.cuts[middle])
        left, right = search(low, middle), search(middle + 1, high)
        return f"CASE WHEN {condition} THEN {left} ELSE {right} END" if condition else left

    template, kind = column.dialect.expressions.bucket, column.feature.type
    literals = [column.dialect.literal(kind, cut) for cut in bins.cuts]
    texts = [text for text in literals if not isinstance(text, OutOfRange)]
    if template is not None and kind.is_float and texts and len(texts) == len(literals):
        code = template.format(x=column.value, v=", ".join(texts), first=texts[0], n=len(texts))
    else:
        code = search(0, len(bins.cuts))
    return f"CASE WHEN {column.is_present()} THEN {code} ELSE {bins.missing} END"
