"""The metrics that fit a model, overall and by group, computed where the data is: in a polars frame or in DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import duckdb
import polars as pl

from frameboost.checks.messages import did_you_mean, listed, shown
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.data.sources import FrameSource, LocalSource, RelationSource, read_relation
from frameboost.database.database_model import source_model
from frameboost.engines.choose import rows_of
from frameboost.engines.contract import FixedRows
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.metrics.metric import AnyMetric, define_predictions, evaluate, r_squared
from frameboost.prediction.predictor import Predictor
from frameboost.runtime.interrupts import closed_after
from frameboost.schema.types import free_name
from frameboost.training.data_checks import check_evaluated, check_queries

__all__ = [
    "evaluated_metrics",
    "group_columns",
    "metric_values",
    "scored_columns",
    "store_predictions",
]  # fmt: skip

_MAX_GROUPS = 10_000


def group_columns(source: LocalSource, by: str | Sequence[str] | None) -> list[str]:
    """Return the group columns; check that each can be one."""
    columns = [by] if isinstance(by, str) else list(by or [])
    for name in columns:
        if name not in source.names():
            near = did_you_mean(name, source.names()) or f", which has {listed(source.names())}"
            raise DataError(f"by column {shown(name)} is not in the data{near}")
        if name in ("metric", "value", "rows"):
            raise ParameterError(f"by column {shown(name)} has the name of a column of the result; rename it")
    return columns


def evaluated_metrics(
    predictor: Predictor, source: LocalSource, roles: Mapping[str, str], by: Sequence[str],
    metrics: Sequence[AnyMetric], *, r2: bool,
) -> pl.DataFrame:  # fmt: skip
    """Return one row per group and metric: the columns of ``by``, ``rows``, ``metric`` and ``value``.

    ``r2`` adds the coefficient of determination if it fits.
    """
    ensemble = predictor.ensemble
    opened = (
        _in_duckdb(predictor, source, roles, by)
        if isinstance(source, RelationSource)
        else _in_polars(predictor, source, roles, by)
    )
    tables = []
    with opened as scored:
        for key, rows in scored.groups():
            values = _values(rows, ensemble, roles, metrics, r2=r2)
            table = pl.DataFrame(
                {"rows": [rows.n_rows] * len(values), "metric": list(values), "value": list(values.values())},
                schema={"rows": pl.UInt32, "metric": pl.String, "value": pl.Float64},
            )
            tables.append(table if key is None else key.join(table, how="cross"))
    whole = pl.concat(tables)
    return whole if by else whole.drop("rows")


def _values(
    rows: FixedRows, ensemble: Ensemble, roles: Mapping[str, str], metrics: Sequence[AnyMetric], *, r2: bool
) -> dict[str, float]:
    """Return the metrics of rows with the model's margins."""
    loss = ensemble.loss
    check_evaluated(rows, loss, roles)
    check_queries(rows, loss, metrics, roles, exponential=bool(ensemble.parameters.get("ndcg_exp_gain", True)))
    return metric_values(rows, ensemble, metrics, r2=r2)


def metric_values(rows: FixedRows, ensemble: Ensemble, metrics: Sequence[AnyMetric], *, r2: bool) -> dict[str, float]:
    """Return the metrics of checked rows by name, with ``r2`` also R² if it fits."""
    store_predictions(rows, ensemble)
    values = {metric.name: evaluate(metric, rows) for metric in metrics}
    if r2 and "rmse" in values and len(ensemble.loss.labels) == 1:
        values["r2"] = evaluate(r_squared(), rows)
    return values


def store_predictions(rows: FixedRows, ensemble: Ensemble) -> None:
    """Define the predictions for metrics; after calibration, those of the calibrated link.

    Several predictions are materialised, as every query of a K-class metric would compute all K again.
    """
    loss = ensemble.loss
    if ensemble.calibration is not None:
        loss = replace(loss, links=(ensemble.calibration,), evaluated=None, link_terms=())
    define_predictions(rows, loss)
    if loss.link_terms:
        rows.store_terms()


# --- the rows with their margins --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ScoredFrame:
    """Rows of a frame with named columns for roles, margins and groups."""

    frame: pl.DataFrame
    names: Sequence[str]
    by: Mapping[str, str]

    def groups(self) -> Iterator[tuple[pl.DataFrame | None, FixedRows]]:
        """Yield the values and the rows of each group."""
        if not self.by:
            yield None, rows_of(self.frame, self.names)
            return
        parts = self.frame.sort(list(self.by), maintain_order=True).partition_by(list(self.by), maintain_order=True)
        _check_number(len(parts))
        for part in parts:
            yield part.head(1).select(list(self.by)).rename(dict(self.by)), rows_of(part, self.names)


@contextmanager
def _in_polars(
    predictor: Predictor, source: FrameSource, roles: Mapping[str, str], by: Sequence[str]
) -> Iterator[_ScoredFrame]:
    names = predictor.ensemble.loss.margins
    groups = {f"group_{i}": name for i, name in enumerate(by)}
    yield _ScoredFrame(scored_columns(predictor, source, roles, by), [*roles, *names], groups)


def scored_columns(
    predictor: Predictor, source: FrameSource, roles: Mapping[str, str], by: Sequence[str] = ()
) -> pl.DataFrame:
    """Return a frame with the columns of the roles, the margins, and ``by`` as ``group_0`` ..."""
    read = list(dict.fromkeys([*predictor.ensemble.read_names, *roles.values(), *by]))
    frame = source.to_frame(read).collect()
    if predictor.ensemble.offset is not None:
        predictor.ensemble.offset.check(frame)
    margins = predictor.predict(frame, "margin")
    names = predictor.ensemble.loss.margins
    columns = {role: frame[name] for role, name in roles.items()}
    columns |= {names[0]: margins} if len(names) == 1 else {n: margins.arr.get(k) for k, n in enumerate(names)}
    columns |= {f"group_{i}": frame[name] for i, name in enumerate(by)}
    return pl.DataFrame([values.rename(name) for name, values in columns.items()])


@dataclass(frozen=True)
class _ScoredTable:
    """A temporary table of the user's connection with columns for roles, margins and the group index."""

    relation: duckdb.DuckDBPyRelation
    names: Sequence[str]
    by: Sequence[str]

    def groups(self) -> Iterator[tuple[pl.DataFrame | None, FixedRows]]:
        """Yield the values and the rows of each group."""
        if not self.by:
            with closed_after(rows_of(self.relation, self.names)) as rows:
                yield None, rows
            return
        group = ", ".join(f'"group_{i}"' for i in range(len(self.by)))
        keys = read_relation(self.relation.project(f"number, {group}").distinct().order("number ASC"))
        keys = keys.rename({f"group_{i}": name for i, name in enumerate(self.by)})
        _check_number(len(keys))
        for number in keys["number"]:
            key = keys.filter(pl.col("number") == number).drop("number")
            with closed_after(rows_of(self.relation.filter(f"number = {number}"), self.names)) as rows:
                yield key, rows


@contextmanager
def _in_duckdb(
    predictor: Predictor, source: RelationSource, roles: Mapping[str, str], by: Sequence[str]
) -> Iterator[_ScoredTable]:
    session = DuckDBSession(source.relation)
    with closed_after(session):
        name = free_name("prediction", source.names())
        keep = list(dict.fromkeys([*roles.values(), *by]))
        model = source_model(predictor.ensemble)
        rows = None if "qid" in roles else session.estimated_rows()  # rows of a query stay in their order
        query = model.query(session.source, keep=keep, output="margin", name=name, rows=rows)
        margins = predictor.ensemble.loss.margins
        values = {role: quote_identifier(column) for role, column in roles.items()}
        several = {margin: quote_identifier(f"{name}_{k}") for k, margin in enumerate(margins)}
        values |= {margins[0]: quote_identifier(name)} if len(margins) == 1 else several
        values |= {f"group_{i}": quote_identifier(column) for i, column in enumerate(by)}
        if by:
            values["number"] = f"dense_rank() OVER (ORDER BY {', '.join(map(quote_identifier, by))})"
        if "qid" in roles:  # rows of equal scores are ranked in their order
            values["position"] = "row_number() OVER ()"
        table = session.table("scored")
        selected = ", ".join(f"{sql} AS {quote_identifier(name)}" for name, sql in values.items())
        session.run(f"CREATE TEMP TABLE {table} AS SELECT {selected} FROM ({query})")
        scored = source.relation.query(session.source[1:-1], f"FROM {table}")
        assert scored is not None
        _check_known(scored, predictor.ensemble)
        ordered = ["position"] if "qid" in roles else []
        yield _ScoredTable(scored, [*roles, *margins, *ordered], by)


def _check_known(scored: duckdb.DuckDBPyRelation, ensemble: Ensemble) -> None:
    """Raise `DataError` if a margin is not finite because its offset is not."""
    if ensemble.offset is None:
        return
    for margin, name in zip(ensemble.loss.margins, ensemble.offset.columns, strict=True):
        known = f"COUNT(*) FILTER (COALESCE(isfinite({quote_identifier(margin)}), false))"
        [(n_known, n_rows)] = scored.aggregate(f"{known}, COUNT(*)").fetchall()
        if name is not None and n_known < n_rows:
            raise DataError(ensemble.offset.message(name, n_rows - n_known, n_rows))


def _check_number(n_groups: int) -> None:
    if n_groups > _MAX_GROUPS:
        raise DataError(f"by makes {n_groups:,} groups; pass a column of at most {_MAX_GROUPS:,} values")
