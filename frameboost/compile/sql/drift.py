"""The population stability index of each feature as a query: shares of rows by bin, in a table and in training.

PSI = Σ (a − e) ln(a / e) over a feature's bins, a and e the actual and the expected share of rows. A feature below 0.1
has changed little, one above 0.25 much.

Of a table without rows each share is 0, as if all rows were in a bin that training has not: NULL would pass every test
for an index above a threshold. With at most 101 bins the index is then above 4.5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.compile.sql.stages import Stages
from frameboost.dialects.dialect import Dialect
from frameboost.schema.types import Physical

__all__ = ["MISSING", "SMALLEST_SHARE", "WatchedBin", "drift_query"]

# The number of the bin of missing values.
MISSING = -1
# The smallest share of a bin: the logarithm of an empty one would be infinite.
SMALLEST_SHARE = 1e-4


@dataclass(frozen=True)
class WatchedBin:
    """A bin: missing values, a range from ``lower`` to below ``upper``, a category, or all other categories."""

    number: int
    lower: Physical | None
    upper: Physical | None
    category: Physical | None
    share: float


def drift_query(
    stages: Stages, bins: Mapping[int, Sequence[WatchedBin]], columns: Sequence[FeatureColumn], dialect: Dialect
) -> str:
    """Return the query (see `DatabaseModel.drift_query`); the rows are read once."""
    watched_bins = [(f, watched) for f, of_feature in bins.items() for watched in of_feature]
    counts = {"all": dialect.statements.count[0]}
    for place, (f, watched) in enumerate(watched_bins):
        condition = _condition(columns[f], watched, bins[f], dialect)
        counts[str(place)] = dialect.statements.count[1].format(c=condition)
    names = stages.aggregate(counts)
    quote, one, zero = dialect.quote, dialect.number(1.0), dialect.number(0.0)
    described = ("place", "feature_number", "feature", "bin", "label", "training_share")
    rows = [
        [str(place), str(f), dialect.string(columns[f].feature.name), str(watched.number),
         dialect.string(_label(columns[f], watched)), dialect.number(watched.share)]
        for place, (f, watched) in enumerate(watched_bins)
    ]  # fmt: skip
    listed = dialect.constant_rows(rows, [quote(name) for name in described])
    found = " ".join(f"WHEN {place} THEN a.{names[str(place)]}" for place in range(len(watched_bins)))
    share, before = quote("share"), quote("training_share")
    stages.replace(
        f"SELECT {', '.join(f'b.{quote(name)} AS {quote(name)}' for name in described)}, "
        f"COALESCE({one} * CASE b.{quote('place')} {found} END / NULLIF(a.{names['all']}, 0), {zero}) AS {share}\n"
        f"{stages.source('a')}\nCROSS JOIN (\n{listed}\n) {dialect.statements.alias}b",
        [],
    )
    low = dialect.number(SMALLEST_SHARE)
    a, e = (f"CASE WHEN {x} < {low} THEN {low} ELSE {x} END" for x in (share, before))
    index = f"({a} - {e}) * {dialect.call('LN', [f'({a}) / ({e})'])}"
    shown = [quote(name) for name in ("feature", "bin", "label", "training_share", "share")]
    number = quote("feature_number")
    return stages.finish(
        f"SELECT {', '.join(shown)}, SUM({index}) OVER (PARTITION BY {number}) AS {quote('psi')}\n"
        f"{stages.source()}\nORDER BY {quote('psi')} DESC, {number} ASC, {quote('bin')} ASC"
    )


def _condition(column: FeatureColumn, watched: WatchedBin, every: Sequence[WatchedBin], dialect: Dialect) -> str:
    """Return the condition that a row is in the bin."""
    if watched.number == MISSING:
        return column.is_missing()
    if column.feature.type.is_categorical:
        named = [b.category for b in every if b.category is not None]
        if watched.category is not None:
            return column.is_one_of([watched.category])
        others = f"NOT ({column.is_one_of(named)})" if named else ""
        return " AND ".join(filter(None, [column.is_present(), others]))
    return " AND ".join(
        filter(None, [column.is_at_least(watched.lower), column.is_below(watched.upper), column.is_present()])
    )


def _label(column: FeatureColumn, watched: WatchedBin) -> str:
    """Return the label of the bin: what is in it."""
    if watched.number == MISSING:
        return "missing"
    if column.feature.type.is_categorical:
        return "other" if watched.category is None else column.feature.type.shown(watched.category).replace("\0", "\\0")
    lower, upper = (None if v is None else column.feature.type.shown(v) for v in (watched.lower, watched.upper))
    if lower is None and upper is None:
        return "any"
    if lower is None:
        return f"below {upper}"
    return f"from {lower}" if upper is None else f"from {lower} to below {upper}"
