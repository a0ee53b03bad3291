"""Cuts weighted by h, from sums of h by fine bins: only where a cut may be are rows grouped by their values.

Say the h of a column's fine bins are 1, 4, 1, 2, and two bins are wanted. The values of the fine bins start at 0, 1, 5
and 6 of 8. The part of a value is the whole part of 2 * start / 8: 0, 0, 1, 1. So the second bin starts at a value of
the second fine bin, whose values have parts from 0 to 1, or at the first value of the third: only the rows of the
second fine bin are grouped by value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from frameboost.binning.bins import Bins, cut_positions, weighted_cuts_of
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.duckdb.binning import Sample, SqlColumn, from_database
from frameboost.expressions.duckdb_sql import physical_sql, render
from frameboost.schema.types import Physical
from frameboost.splits.split import FloatArray

__all__ = ["FINE_BINS", "fine_bins", "undecided_bins", "weighted_cuts"]

# As many keys as a perfect hash table has (see `frameboost.engines.duckdb.histograms`), and one for missing values.
FINE_BINS = 4000


def fine_bins(bins: Bins, column: SqlColumn, sample: Sample, max_bin: int) -> Bins:
    """Return the fine bins of a numeric feature: of about as many rows each, and each but the first starts at a value.

    ``sample`` has values of some rows. Fine bins say where to look for cuts, and change none of them.
    """
    if sample.dtype == object:  # texts have another order
        sample = np.array([from_database(column.type, text) for text in sample], dtype=object)
    values, counts = np.unique(sample, return_counts=True)
    at = cut_positions(np.cumsum(counts) - counts, len(sample), max_bin - bins.has_missing)
    return replace(bins, cuts=tuple(from_database(column.type, cut) for cut in values[at].tolist()))


def weighted_cuts(
    session: DuckDBSession, columns: Mapping[int, SqlColumn], fine: Mapping[int, Bins], sums: Mapping[int, FloatArray],
    max_bin: int, *, rows: str, h: str, highest: Mapping[int, Sequence[float]],
) -> dict[int, Bins]:  # fmt: skip
    """Return the bins of numeric features, by number, with the cuts that `weighted_cuts_of` finds among all values.

    ``rows`` are the tables of values, fine bins and ``h``, joined by position; ``sums`` has h by fine bin. ``highest``
    has the highest value of each fine bin, of features of floats.
    """
    most = {i: max_bin - b.has_missing for i, b in fine.items()}
    asked = {i: undecided_bins(sums[i], most[i]) for i in fine}
    values = {i: _ValuesOfBins.empty() for i in fine}
    for kind in dict.fromkeys(columns[i].type for i in fine):  # a statement for each type, which a column of it has
        features = [i for i in fine if columns[i].type == kind and len(asked[i])]
        if features:
            values |= _read(session, columns, fine, {i: asked[i] for i in features}, rows, h)
    return {i: _bins(b, sums[i], asked[i], values[i], most[i], columns[i], highest.get(i, ())) for i, b in fine.items()}


def undecided_bins(sums: FloatArray, max_bin: int) -> npt.NDArray[np.int64]:
    """Return which fine bins have values of several parts, given h by fine bin, or all bins if each value is a part.

    >>> undecided_bins(np.array([1.0, 4.0, 1.0, 2.0]), 2).tolist()
    [1, 3]
    """
    ends = np.cumsum(sums)
    total = ends[-1]
    if len(sums) <= max_bin:
        return np.arange(len(sums))
    if not total > 0.0:
        return np.empty(0, dtype=np.int64)
    part = np.floor(np.append(0.0, ends) * float(max_bin) / total)
    return np.flatnonzero(np.diff(part))


@dataclass(frozen=True, slots=True)
class _ValuesOfBins:
    """The distinct values in some fine bins of a feature, ascending: the bin of each, its h, and the value."""

    bins: npt.NDArray[np.int64]
    h: FloatArray
    value_at: Callable[[int], object]

    @classmethod
    def empty(cls) -> _ValuesOfBins:
        return cls(np.empty(0, dtype=np.int64), np.empty(0), lambda _: None)


def _read(
    session: DuckDBSession, columns: Mapping[int, SqlColumn], fine: Mapping[int, Bins],
    asked: Mapping[int, npt.NDArray[np.int64]], rows: str, h: str,
) -> dict[int, _ValuesOfBins]:  # fmt: skip
    """Return the values in the bins ``asked`` for of features of one type."""
    statement = "\nUNION ALL\n".join(
        render(
            "sum_by_value", feature=i, bins=_bit_string(numbers, fine[i].largest_code + 1), rows=rows, h=h,
            physical=physical_sql(columns[i].type, "value"),
        )
        for i, numbers in asked.items()
    )  # fmt: skip
    found = session.columns(statement)
    order = np.lexsort((found["place"], found["feature"]))
    features, values = found["feature"][order], found["value"][order]
    read = {}
    for i in asked:
        of_feature = slice(*np.searchsorted(features, [i, i + 1]).tolist())
        own = order[of_feature]
        read[i] = _ValuesOfBins(found["bin"][own].astype(np.int64), found["h"][own], values[of_feature].__getitem__)
    return read


def _bit_string(numbers: Sequence[int] | npt.NDArray[np.int64], size: int) -> str:
    bits = np.full(size, ord("0"), dtype=np.uint8)
    bits[numbers] = ord("1")
    return bits.tobytes().decode()


def _bins(
    fine: Bins, sums: FloatArray, asked: npt.NDArray[np.int64], values: _ValuesOfBins, max_bin: int, column: SqlColumn,
    highest: Sequence[float],
) -> Bins:  # fmt: skip
    """Return the bins, given the values in the bins ``asked`` for; of other bins only the lowest value can be a cut."""
    whole = np.setdiff1d(np.arange(len(sums)), asked)
    bins = np.concatenate([values.bins, whole])
    order = np.argsort(bins, kind="stable")
    weights = np.concatenate([values.h, sums[whole]])[order]
    at = weighted_cuts_of(weights, max_bin)
    n_values = len(values.bins)

    def value(index: int, of_bin: Callable[[int], Physical]) -> Physical:
        return from_database(column.type, values.value_at(index)) if index < n_values else of_bin(int(bins[index]))

    cuts = tuple([value(index, lambda bin_: fine.cuts[bin_ - 1]) for index in order[at].tolist()])
    before = order[at - 1].tolist() if column.type.is_float else []
    return replace(fine, cuts=cuts, below=tuple([value(index, highest.__getitem__) for index in before]))
