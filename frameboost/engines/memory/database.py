"""Columns of a database table that are binned in the database: codes are transferred, never values.

Several codes (`frameboost.engines.sql.columns`) are packed into one integer, so that a row is few integers.

A table has no order, and is read twice: first its roles, to check the fit, then roles and codes. Rows with equal roles
are interchangeable until they have codes, so the second read is put in the order of the first by the roles. If the
roles differ, the table has changed in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from frameboost.binning.arrays import Codes
from frameboost.binning.bins import Bins
from frameboost.checks.messages import shown
from frameboost.data.database_table import DatabaseTable
from frameboost.engines.memory.columns import BinnedColumns
from frameboost.engines.sql.columns import TableColumns
from frameboost.errors import DataError, ParameterError
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature, FeatureType, column

__all__ = ["DatabaseColumns"]

_FLOAT64 = FeatureType("float64")
# Packed codes are below this number. They are added up as floats, which no database has too few bits for.
_MOST_PACKED = 2**52


class _Packed(NamedTuple):
    """Codes of a feature, packed with those of others: the code is ``numbers // factor % size``."""

    numbers: pl.Series
    factor: int
    size: int


class DatabaseColumns:
    """`FeatureColumns` of a table in a database.

    Parameters
    ----------
    source, features, workers
        The rows, the features, and the threads.
    roles
        The names of the role columns that the fit reads.

    Attributes
    ----------
    roles
        These columns, in the order of the rows from then on.
    """

    def __init__(
        self, source: DatabaseTable, features: Sequence[Feature], workers: Workers, roles: Sequence[str]
    ) -> None:
        source.check_key()
        self.source = source
        self.features = features
        self.workers = workers
        self.roles = source.to_frame(list(dict.fromkeys(roles))).collect()
        self._columns = TableColumns(source, features)
        self._columns.n_rows = len(self.roles)
        self._packed: list[_Packed] = []  # of each feature

    def load(self, names: Sequence[str]) -> pl.DataFrame:
        """See `FeatureColumns.load`."""
        return self.roles.select(map(column, dict.fromkeys(names)))

    def values(self, number: int) -> pl.Series:
        """See `FeatureColumns.values`: values stay in the database."""
        raise DataError(
            f"this fit needs the values of feature {shown(self.features[number].name)}, which stay in the database; "
            "pass the rows as a frame"
        )

    def count_missing(self, sample: pl.Series | None) -> list[int]:
        """See `FeatureColumns.count_missing`."""
        return self._columns.n_missing

    def kept_for_cuts(self, number: int) -> None:
        """See `FeatureColumns.kept_for_cuts`: none, as values stay in the database."""

    def propose_bins(self, max_bin: int, user_bins: Mapping[int, Bins]) -> list[Bins]:
        """See `HistogramEngine.propose_bins`."""
        return self._columns.propose_bins(max_bin, user_bins)

    # --- codes --------------------------------------------------------------------------------------------------------

    def bin(self, bins: Sequence[Bins], *, may_sort: bool) -> tuple[BinnedColumns, None]:
        """See `FeatureColumns.bin`."""
        binned = BinnedColumns(bins, len(self.roles))
        binned.fill(self.coder(bins), self.workers)
        return binned, None

    def coder(self, bins: Sequence[Bins]) -> Callable[[int, Bins, Codes], None]:
        """See `FeatureColumns.coder`; reads all codes at once, on this thread."""
        self._packed = self._read_codes(bins)
        return self._write_codes

    def _write_codes(self, number: int, bins: Bins, codes: Codes) -> None:
        numbers, factor, size = self._packed[number]
        codes[:] = (numbers // factor % size).to_numpy()

    def _read_codes(self, bins: Sequence[Bins]) -> list[_Packed]:
        """Return the codes of each feature, in the order of the roles.

        Raises
        ------
        ParameterError
            If they take several queries, and the rows have no stable order.
        """
        codes = [self._columns.code(number, each) for number, each in enumerate(bins)]
        groups = self._columns.in_groups(codes)
        if len(groups) > 1 and self.source.key is None:
            raise ParameterError(
                f"a query of the codes of {len(codes):,} features is larger than {self.source.dialect.name} takes; "
                "set a key that aligns the rows of several queries, fb.table(..., key='id'), or use a "
                "smaller max_bin"
            )
        return [packed for group in groups for packed in self._codes_of(group, codes, bins)]

    def _codes_of(self, group: range, codes: Sequence[str], bins: Sequence[Bins]) -> list[_Packed]:
        """Return the codes of some features, from one query."""
        sizes = [bins[number].count + 1 for number in group]
        packs, literal = _packs(sizes), self.source.dialect.number
        packed = {
            f"frameboost_{i}": " + ".join(f"{literal(float(factor))} * {codes[group[j]]}" for j, factor in pack)
            for i, pack in enumerate(packs)
        }
        columns, types = self.source.selected(self.roles.columns)
        read = self.source.rows(columns | packed, types | dict.fromkeys(packed, _FLOAT64), self.source.in_order)
        order = self._order(read.select(self.roles.columns))
        of_features = []
        for name, pack in zip(packed, packs, strict=True):
            numbers = (read[name] if order is None else read[name].gather(order)).cast(pl.Int64)
            of_features += [_Packed(numbers, factor, sizes[j]) for j, factor in pack]
        return of_features

    def _order(self, roles: pl.DataFrame) -> pl.Series | None:
        """Return the permutation from the rows read with codes to the first rows; None for the identity.

        Raises
        ------
        DataError
            If the rows differ.
        """
        if roles.equals(self.roles):
            return None
        if self.source.key is None and len(roles) == len(self.roles):
            first, second = (rows.with_row_index("frameboost_row").sort(rows.columns) for rows in (self.roles, roles))
            if first.drop("frameboost_row").equals(second.drop("frameboost_row")):
                order = pl.DataFrame({"first": first["frameboost_row"], "second": second["frameboost_row"]})
                return order.sort("first")["second"]
        raise self.source.changed()

    def drop(self) -> None:
        """See `FeatureColumns.drop`."""
        self._packed = []


def _packs(sizes: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Return how codes are packed into integers: for each, the feature indices with the factors of their codes.

    >>> _packs([256, 256, 2])
    [[(0, 1), (1, 256), (2, 65536)]]
    """
    packs: list[list[tuple[int, int]]] = []
    factor = 1
    for number, size in enumerate(sizes):
        if not packs or factor * size > _MOST_PACKED:
            packs.append([])
            factor = 1
        packs[-1].append((number, factor))
        factor *= size
    return packs
