"""How good intervals are on labelled rows: the share of labels that they hold, and how wide they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from frameboost.data.duckdb_session import DuckDBSession
from frameboost.data.shares import free_name
from frameboost.data.sources import FrameSource, LocalSource, read_relation
from frameboost.database.database_model import source_model
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.prediction.predictor import Predictor
from frameboost.runtime.cleanup import closed_after
from frameboost.schema.polars_columns import column

__all__ = ["interval_coverage"]


def interval_coverage(
    predictor: Predictor, source: LocalSource, roles: Mapping[str, str], by: Sequence[str]
) -> pl.DataFrame:
    """Return ``coverage``, ``held`` and ``mean_width`` of the model's intervals, for each group in order if there are.

    ``held`` is the share of labels that are within their intervals; rows count by their weights.
    """
    interval = predictor.ensemble.interval
    assert interval is not None
    measured = _in_frame if isinstance(source, FrameSource) else _in_duckdb
    found = measured(predictor, source, roles, by)
    groups = [pl.col(f"group_{k}").alias(name) for k, name in enumerate(by)]
    held, width = (pl.col(name) / pl.col("weight") for name in ("held", "width"))
    coverage = pl.lit(interval.coverage)
    in_order = found.sort(pl.selectors.starts_with("group_")) if by else found
    return in_order.select(*groups, coverage=coverage, held=held, mean_width=width)


def _in_frame(predictor: Predictor, source: LocalSource, roles: Mapping[str, str], by: Sequence[str]) -> pl.DataFrame:
    """Return the sums of weights, of those of rows whose labels are held, and of weighted widths, by group."""
    lookup = predictor.ensemble.output("interval").lookup
    others = [*roles.values(), *by, *([] if lookup is None else [lookup.column])]
    frame = source.to_frame(list(dict.fromkeys([*predictor.ensemble.read_names, *others]))).collect()
    ends = predictor.predict(frame, "interval").struct.unnest()
    weight = column(roles["weight"]).cast(pl.Float64) if "weight" in roles else pl.lit(1.0)
    groups = [column(name).alias(f"group_{k}") for k, name in enumerate(by)]
    label = column(roles["label"]).cast(pl.Float64).alias("label")
    rows = frame.select(label, weight.alias("weight"), *groups).with_columns(ends)
    is_held = (pl.col("lower") <= pl.col("label")) & (pl.col("label") <= pl.col("upper"))
    sums = [
        pl.col("weight").sum(),
        (pl.col("weight") * is_held).sum().alias("held"),
        (pl.col("weight") * (pl.col("upper") - pl.col("lower"))).sum().alias("width"),
    ]
    return rows.group_by(pl.selectors.starts_with("group_")).agg(sums) if by else rows.select(sums)


def _in_duckdb(predictor: Predictor, source: LocalSource, roles: Mapping[str, str], by: Sequence[str]) -> pl.DataFrame:
    """Return the same of a relation: the rows stay in the database."""
    assert not isinstance(source, FrameSource)
    name = free_name("prediction", source.names())
    with closed_after(DuckDBSession(source.relation)) as session:
        model = source_model(predictor.ensemble)
        kept = list(dict.fromkeys([*roles.values(), *by]))
        query = model.query(session.source, keep=kept, output="interval", name=name, rows=session.estimated_rows())
        scored = source.relation.query(session.source[1:-1], query)
        assert scored is not None
        lower, upper = (quote_identifier(f"{name}_{end}") for end in ("lower", "upper"))
        weight = f"CAST({quote_identifier(roles['weight'])} AS DOUBLE)" if "weight" in roles else "1e0"
        label = f"CAST({quote_identifier(roles['label'])} AS DOUBLE)"
        held = f"CASE WHEN {label} BETWEEN {lower} AND {upper} THEN {weight} ELSE 0e0 END"
        groups = [quote_identifier(each) for each in by]
        wanted = [f'{quoted} AS "group_{k}"' for k, quoted in enumerate(groups)]
        wanted += [f"SUM({weight}) AS weight", f"SUM({held}) AS held", f"SUM({weight} * ({upper} - {lower})) AS width"]
        return read_relation(scored.aggregate(", ".join(wanted), ", ".join(groups)))
