"""What `frameboost.auto` has to know of the data before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from frameboost.checks.messages import shown
from frameboost.data.opening import open_source
from frameboost.data.sources import FrameSource, LocalSource
from frameboost.ensemble.ensemble import Labels
from frameboost.errors import DataError
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.schema.polars_columns import column

__all__ = ["check_folds", "check_labels", "count_rows", "is_of_zeros_and_ones"]


def count_rows(source: LocalSource) -> int:
    """Return the number of rows."""
    rows = source.own_rows()
    if isinstance(rows, FrameSource):
        return int(rows.frame.select(pl.len()).collect().item())
    return int(rows.relation.aggregate("COUNT(*)").fetchall()[0][0])


def is_of_zeros_and_ones(source: LocalSource, target: Any) -> bool:
    """Whether a target of integers has the values 0 and 1 and no others, so that it is most likely of two classes."""
    kind = source.types().get(target) if isinstance(target, str) else None
    if kind is None or not kind.is_integer:
        return False
    low, high, _ = _range(source, target)
    return (low, high) == (0, 1)


def check_labels(source: LocalSource, targets: Sequence[str], n_rows: int) -> list[str]:
    """Return the targets that are not the same in all rows; raise `DataError` if one is NULL in some row.

    Fits would say so of a fold.
    """
    varying = []
    for target in targets:
        lowest, highest, present = _range(source, target)
        if present < n_rows:
            raise DataError(
                f"target {shown(target)} is NULL or NaN in {n_rows - present:,} of {n_rows:,} rows; drop those rows "
                "first"
            )
        if lowest != highest:
            varying.append(target)
    return varying


def check_folds(trainings: Sequence[Any], targets: Sequence[str], labels: Labels) -> None:
    """Raise `DataError` if a target is the same in all rows but those of one fold, which are held out.

    ``labels`` are those of the classes, for messages.
    """
    for target in targets:
        for rows in trainings:
            lowest, highest, _ = _range(open_source(rows), target)
            if lowest == highest:
                raise DataError(
                    f"target {shown(target)} has other values than {_named(lowest, labels)} in too few rows: all of "
                    "these would be held out together, and there were nothing to learn from the others"
                )


def _range(source: Any, target: str) -> tuple[Any, Any, int]:
    """Return the smallest and the largest label, and the number of rows that have one."""
    if isinstance(source, FrameSource):
        values = column(target)
        frame = source.to_frame([target])  # of tables that are joined, only those that have it
        values = values.fill_nan(None) if frame.collect_schema()[target].is_float() else values
        found = frame.select(low=values.min(), high=values.max(), present=values.count()).collect().row(0)
    else:
        quoted = quote_identifier(target)
        types = source.types()
        present = f"NULLIF({quoted}, 'nan')" if types[target] is not None and types[target].is_float else quoted
        found = source.relation.aggregate(f"MIN({present}), MAX({present}), COUNT({present})").fetchall()[0]
    return found


def _named(label: Any, labels: Labels) -> str:
    """Return a label as messages show it; of classes it is a number."""
    if labels and not isinstance(label, bool):
        return shown(labels[int(label)])
    return shown(label) if isinstance(label, bool) else f"{float(label):g}"
