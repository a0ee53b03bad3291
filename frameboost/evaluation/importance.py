"""The importance of features on rows: by permutation and by Shapley values.

Permutation importance (Breiman, "Random Forests", 2001; Fisher, Rudin & Dominici, "All Models are Wrong, but Many are
Useful", JMLR 2019) permutes the values of a feature among the rows, which keeps their distribution and breaks their
relation to the label. Shapley importance is the mean absolute Shapley value (Lundberg & Lee, NeurIPS 2017).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.data.database_table import DatabaseTable
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.data.opening import open_rows
from frameboost.data.sources import FrameSource, LocalSource, RelationSource
from frameboost.database.importance import TableToScore
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import DataError, TooLargeError
from frameboost.evaluation.metrics_by_group import evaluated_metrics
from frameboost.expressions.draws import draw_key, draw_sql, draws
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.metrics.metric import CurveMetric, Metric, evaluation_metrics, is_ranking, metrics_of
from frameboost.prediction.contributions import contribution_values
from frameboost.prediction.predictor import Predictor
from frameboost.runtime.interrupts import closed_after
from frameboost.runtime.storage import available_memory
from frameboost.schema.types import column, free_name
from frameboost.training.data_checks import find_roles, open_labelled
from frameboost.trees.tree import split_features

__all__ = ["contribution_importance", "permutation_importance"]

Floats = npt.NDArray[np.float64]

_ROWS_AT_A_TIME = 2**18
_BYTES_OF_VALUE = 32  # of a row that is permuted in memory: its columns, a dealt one, margins

_Dealt = tuple[str, int]  # a column to permute, and the key of the draws
_Rows = Callable[[_Dealt | None], LocalSource]


def permutation_importance(
    predictor: Predictor, data: Any, target: str | Sequence[str], *, weight: str | None, group: str | None,
    label_upper_bound: str | None, eval_metric: Any, repeats: int, seed: int,
) -> pl.DataFrame:  # fmt: skip
    """Return ``feature``, ``importance`` and ``deviation`` for `frameboost.Model.importance`."""
    ensemble, numbers = predictor.ensemble, predictor.of_numbers()
    metrics = evaluation_metrics(ensemble.loss, ensemble.parameters, eval_metric)
    metric = metrics[0] if eval_metric is None else metrics[-1]
    deal = partial(_importance_of_deals, ensemble, repeats, seed)
    if isinstance(data, DatabaseTable):
        data.check_positions("importance of permutations deals values to rows by their positions")
        data.check_key()
        if group is None and isinstance(metric, Metric | CurveMetric) and not is_ranking(metric):
            named = {"weight": weight, "label_upper_bound": label_upper_bound}
            _check_columns(ensemble, data, target, named)
            one = metric.name if eval_metric is None else metrics_of(eval_metric)[-1]
            table, sign = TableToScore(ensemble, data), -1.0 if metric.maximize else 1.0
            with suppress(TooLargeError):
                return deal(lambda dealt: sign * table.metric(target, named, one, dealt))
    source, roles = open_labelled(ensemble, data, target, weight, label_upper_bound, group)
    read = list(dict.fromkeys([*ensemble.read_names, *roles.values()]))
    # A feature's column may also have a role, in which it is not permuted.
    copies = {role: free_name(f"{name}_{role}", read) for role, name in roles.items()}
    columns = dict(zip(read, read, strict=True)) | {copies[role]: name for role, name in roles.items()}
    if isinstance(source, RelationSource) and not _fits(source.count_rows() * len(columns)):
        opened = _rows_in_duckdb(source, columns)
    else:
        opened = _rows_in_memory(source, columns)
    with opened as rows:

        def error(dealt: _Dealt | None) -> float:
            evaluated = evaluated_metrics(numbers, rows(dealt), copies, [], [metric], r2=False)
            value = float(evaluated["value"].item())
            return -value if metric.maximize else value  # in this order, as a function says so when it is called

        return deal(error)


def _fits(n_values: int) -> bool:
    """Whether rows can be permuted in memory, which takes a tenth of the time of queries."""
    available = available_memory()
    return available is None or n_values * _BYTES_OF_VALUE <= available


@contextmanager
def _rows_in_memory(source: LocalSource, columns: Mapping[str, str]) -> Iterator[_Rows]:
    """Yield a function that returns columns, named by their new names, with one dealt anew if there is one to deal."""
    frame = source.to_frame(list(dict.fromkeys(columns.values()))).collect()  # once, so that the rows have one order
    frame = frame.select(column(name).alias(alias) for alias, name in columns.items())

    def rows(dealt: _Dealt | None) -> FrameSource:
        if dealt is None:
            return FrameSource(frame.lazy())
        order = np.argsort(draws(np.arange(len(frame)), dealt[1]), kind="stable")
        return FrameSource(frame.with_columns(frame.select(column(dealt[0])).to_series().gather(order)).lazy())

    yield rows


@contextmanager
def _rows_in_duckdb(source: RelationSource, columns: Mapping[str, str]) -> Iterator[_Rows]:
    """As `_rows_in_memory`, of rows that are copied to a temporary table of the connection, which is dropped."""
    session = DuckDBSession(source.relation)
    with closed_after(session):
        table, position = session.table("rows"), session.column("position")
        kept = ", ".join(f"{quote_identifier(name)} AS {quote_identifier(alias)}" for alias, name in columns.items())
        session.run(
            f"CREATE TEMP TABLE {table} AS SELECT {kept}, row_number() OVER () - 1 AS {position} FROM {session.source}"
        )

        def rows(dealt: _Dealt | None) -> RelationSource:
            query = f"FROM {table} SELECT * EXCLUDE ({position}) ORDER BY {position}"
            if dealt is not None:
                value, draw = quote_identifier(dealt[0]), draw_sql(position, dealt[1])
                rank = f"row_number() OVER (ORDER BY {draw} ASC, {position} ASC) - 1"
                query = (
                    f"SELECT {table}.* EXCLUDE ({position}) REPLACE (drawn.{value} AS {value}) FROM {table} "
                    f"JOIN (SELECT {value}, {rank} AS number FROM {table}) drawn ON {position} = number "
                    f"ORDER BY {position}"
                )
            relation = source.relation.query(session.source[1:-1], query)
            assert relation is not None
            return RelationSource(relation)

        yield rows


def _importance_of_deals(
    ensemble: Ensemble, repeats: int, seed: int, error: Callable[[tuple[str, int] | None], float]
) -> pl.DataFrame:
    """Return the importance of features; ``error`` evaluates rows with a column permuted by draws of a key."""
    whole, worse = error(None), np.zeros((len(ensemble.features), repeats))
    for number in _used(ensemble):
        for repeat in range(repeats):
            worse[number, repeat] = error((ensemble.feature_names[number], draw_key(seed, number, repeat))) - whole
    deviations = worse.std(axis=1, ddof=1) if repeats > 1 else np.full(len(worse), np.nan)
    return _frame(ensemble, worse.mean(axis=1), deviation=pl.Series(deviations, nan_to_null=True))


def contribution_importance(predictor: Predictor, data: Any) -> pl.DataFrame:
    """Return ``feature`` and ``importance``: the mean absolute Shapley value, summed over outputs."""
    ensemble = predictor.ensemble
    if isinstance(data, DatabaseTable):
        _check_columns(ensemble, data, [], {})
        with suppress(TooLargeError):
            return _frame(ensemble, TableToScore(ensemble, data).mean_magnitudes())
    source = open_rows(data, ensemble.read_features)
    ensemble.find_in(source)
    frame, sums = source.to_frame(ensemble.read_names).collect(), np.zeros(len(ensemble.features))
    if frame.is_empty():
        raise DataError("the data has no rows")
    for rows in frame.iter_slices(_ROWS_AT_A_TIME):
        for output in range(ensemble.n_outputs):
            sums += np.abs(contribution_values(ensemble, rows, output, approx=False)).sum(axis=0)
    return _frame(ensemble, sums / len(frame))


def _check_columns(
    ensemble: Ensemble, table: DatabaseTable, target: str | Sequence[str], roles: Mapping[str, str | None]
) -> None:
    """Raise an error if a column of a database table is missing, or has a type that the model can't read."""
    ensemble.find_in(table)
    if target:
        find_roles(table, target, roles["weight"], None, roles["label_upper_bound"])


def _used(ensemble: Ensemble) -> list[int]:
    """Return the indices of the features that predictions may depend on."""
    if ensemble.is_linear:
        return list(range(len(ensemble.features)))
    return split_features(ensemble.trees)


def _frame(ensemble: Ensemble, values: Floats, **others: pl.Series) -> pl.DataFrame:
    names = pl.Series("feature", ensemble.feature_names, dtype=pl.String)
    frame = pl.DataFrame({"feature": names, "importance": values, **others})
    return frame.sort("importance", descending=True, maintain_order=True)
