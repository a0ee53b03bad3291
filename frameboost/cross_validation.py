"""Cross-validation: for each fold, a fit on the other folds, evaluated on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import polars as pl

from frameboost.api import fit
from frameboost.checks.arguments import BY_NAME, checked
from frameboost.checks.messages import shown
from frameboost.data.column_choice import chosen_names
from frameboost.data.shares import free_name, with_draws
from frameboost.data.sources import FrameSource, LocalSource, open_source
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.draws import draw_key
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.metrics.built_in import larger_is_better
from frameboost.parameters.aliases import under_our_names
from frameboost.schema.polars_columns import column
from frameboost.training.class_labels import read_target

__all__ = ["cv"]

_MOST_FOLDS = 1_000_000
_FOLD = 20  # the purpose of a random key; `frameboost.training.sampling` has others


@checked()
def cv(
    data: Any,
    target: str | Sequence[str],
    *,
    folds: int | str = 5,
    time: str | None = None,
    seed: int = 0,
    early_stopping_rounds: int | None = None,
    **options: Any,
) -> pl.DataFrame:
    """Cross-validate: return metrics by round, averaged over the folds.

    Parameters
    ----------
    data, target
        As for `fit`.
    folds
        The number of folds: rows are assigned by a hash of their position, the same in every engine. Or the name of a
        column, each value of which is a fold, so that rows that belong together (of one customer, say) stay together.
    time
        A column of dates, times or numbers: rows are split in its order into ``folds`` + 1 parts, and each part but the
        first is predicted from those before it.
    seed
        The seed of the folds and of all random draws in training.
    early_stopping_rounds
        Cut the table after the round with the best mean of the last metric on held-out rows, which as many later rounds
        did not improve.
    **options
        All other arguments of `fit`, but not ``valid``, ``init_model``, ``callbacks`` and ``checkpoint``.

    Returns
    -------
    polars.DataFrame
        A row for each round: ``round``, then for each metric ``train_<metric>_mean``, ``train_<metric>_std``,
        ``valid_<metric>_mean`` and ``valid_<metric>_std`` (Float64; the standard deviation is over the fits, with
        n − 1).

    Raises
    ------
    ParameterError, DataError
        As `fit`; if there are fewer than 2 folds, or a fold has no rows.

    Examples
    --------
    >>> import polars as pl, frameboost as fb
    >>> df = pl.DataFrame({"x": [i % 4 for i in range(200)]}).with_columns(y=pl.col("x") * 2.0)
    >>> fb.cv(df, "y", folds=4, n_estimators=2, learning_rate=0.5, reg_lambda=0)["valid_rmse_mean"].round(2).to_list()
    [1.12, 0.56]
    """
    own = {"seed": seed or None, "early_stopping_rounds": early_stopping_rounds}
    options = under_our_names({name: value for name, value in own.items() if value is not None} | options)
    seed, early_stopping_rounds = options.pop("seed", 0), options.pop("early_stopping_rounds", None)
    for name, value in (("seed", seed), ("early_stopping_rounds", early_stopping_rounds or 1)):
        BY_NAME[name](name, value)  # which may have come by another name
    for name in ("valid", "init_model", "callbacks", "checkpoint"):
        if name in options:
            raise ParameterError(f"cv takes no {name}; it trains and validates on parts of the data")
    source = open_source(data)
    features = _features(source, target, folds, options)
    options = {"seed": seed, "verbose": False} | options | {"features": features}
    # The classes are those of all rows: a fold may lack some.
    if (positive := options.pop("positive", None)) is not None:  # the folds' labels are numbers
        BY_NAME["positive"]("positive", positive)
    goal = read_target(source, {}, target, options.get("objective"), options.get("num_class"), None, positive)
    options |= {"objective": goal.objective, "num_class": goal.num_class}
    histories = []
    for training, held_out in _parts(cast("LocalSource", goal.source), folds, time, seed):
        histories.append(fit(training, target, valid=held_out, **options).history)
    table = _summary(histories)
    if early_stopping_rounds is None:
        return table
    return _stopped(table, early_stopping_rounds, options.get("eval_metric"))


def _features(source: LocalSource, target: str | Sequence[str], folds: int | str, options: dict[str, Any]) -> Any:
    """Return the features: by default all columns without a role; the column of folds has one."""
    roles: set[str] = set()
    for given in (folds, target, *map(options.get, ("weight", "group", "label_upper_bound", "base_margin"))):
        several = given if isinstance(given, list | tuple) else [given]
        roles |= {name for name in several if isinstance(name, str)}
    return chosen_names(source, options.get("features"), options.pop("exclude", None), roles)


# --- parts ------------------------------------------------------------------------------------------------------------


def _parts(source: LocalSource, folds: int | str, time: str | None, seed: int) -> Iterator[tuple[Any, Any]]:
    """Yield rows to train on and rows to validate on."""
    if isinstance(folds, str):
        if time is not None:
            raise ParameterError("time does not go with a column of folds; give the number of folds")
        yield from _by_column(source, folds)
        return
    if not isinstance(folds, int) or isinstance(folds, bool) or not 2 <= folds <= _MOST_FOLDS:
        raise ParameterError(f"folds must be an integer from 2 to {_MOST_FOLDS:,} or a column name, not {shown(folds)}")
    yield from _by_time(source, time, folds) if time is not None else _by_hash(source, folds, seed)


def _by_hash(source: LocalSource, folds: int, seed: int) -> Iterator[tuple[Any, Any]]:
    name = free_name("fold", source.names())
    drawn = with_draws(source, draw_key(seed, _FOLD), name)
    if isinstance(drawn, FrameSource):
        dealt = drawn.frame.with_columns((pl.col(name) * folds).floor().cast(pl.Int64))
        for fold in range(folds):
            yield _without(dealt.filter(pl.col(name) != fold), name), _without(dealt.filter(pl.col(name) == fold), name)
        return
    quoted = quote_identifier(name)
    dealt_rows = drawn.relation.project(f"* REPLACE (CAST(FLOOR({quoted} * {folds}) AS BIGINT) AS {quoted})")
    for fold in range(folds):
        parts = (dealt_rows.filter(f"{quoted} {sign} {fold}") for sign in ("<>", "="))
        training, held_out = (part.project(f"* EXCLUDE ({quoted})") for part in parts)
        yield training, held_out


def _by_column(source: LocalSource, name: str) -> Iterator[tuple[Any, Any]]:
    if name not in source.names():
        raise DataError(f"column {shown(name)}, of folds, is not in the data")
    if isinstance(source, FrameSource):
        values = source.frame.select(column(name)).unique().collect().to_series().sort(nulls_last=True)
        _check_count(len(values), name)
        for value in values:
            is_part = column(name).eq_missing(pl.lit(value, dtype=values.dtype))
            yield source.frame.filter(~is_part), source.frame.filter(is_part)
        return
    by, place = quote_identifier(name), quote_identifier(free_name("fold", source.names()))
    ranked = source.relation.project(f"*, dense_rank() OVER (ORDER BY {by} ASC) AS {place}")
    count = ranked.aggregate(f"MAX({place})").fetchall()[0][0] or 0
    _check_count(count, name)
    for number in range(1, count + 1):
        parts = (ranked.filter(f"{place} {sign} {number}") for sign in ("<>", "="))
        training, held_out = (part.project(f"* EXCLUDE ({place})") for part in parts)
        yield training, held_out


def _by_time(source: LocalSource, name: str, folds: int) -> Iterator[tuple[Any, Any]]:
    if name not in source.names():
        raise DataError(f"time column {shown(name)} is not in the data")
    part = free_name("fold", source.names())
    if isinstance(source, FrameSource):
        rank = column(name).rank("min") - 1  # rows of one time stay together
        frame = source.frame.collect()
        if frame[name].null_count():
            raise DataError(f"time column {shown(name)} is NULL in {frame[name].null_count():,} rows")
        parted = frame.lazy().with_columns((rank.cast(pl.Int64) * (folds + 1) // pl.len()).alias(part))
        for fold in range(1, folds + 1):
            yield (_without(parted.filter(pl.col(part) < fold), part),
                   _without(parted.filter(pl.col(part) == fold), part))  # fmt: skip
        return
    quoted, by = quote_identifier(part), quote_identifier(name)
    if missing := source.relation.filter(f"{by} IS NULL").aggregate("COUNT(*)").fetchall()[0][0]:
        raise DataError(f"time column {shown(name)} is NULL in {missing:,} rows")
    rank_text = f"(rank() OVER (ORDER BY {by} ASC) - 1) * {folds + 1} // COUNT(*) OVER ()"
    parted_rows = source.relation.project(f"*, {rank_text} AS {quoted}")
    for fold in range(1, folds + 1):
        parts = (parted_rows.filter(f"{quoted} {sign} {fold}") for sign in ("<", "="))
        training, held_out = (rows.project(f"* EXCLUDE ({quoted})") for rows in parts)
        yield training, held_out


def _without(frame: pl.LazyFrame, name: str) -> pl.LazyFrame:
    return frame.drop(name)


def _check_count(count: int, name: str) -> None:
    if count < 2:
        raise DataError(f"column {shown(name)}, of folds, has {count} distinct value; it must have at least 2")


# --- the table --------------------------------------------------------------------------------------------------------


def _summary(histories: list[pl.DataFrame]) -> pl.DataFrame:
    measured = pl.concat(histories)
    names = [name for name in measured.columns if name != "round"]
    wanted = [
        expr for name in names for expr in (pl.col(name).mean().alias(f"{name}_mean"),
                                            pl.col(name).std().alias(f"{name}_std"))
    ]  # fmt: skip
    return measured.group_by("round").agg(wanted).sort("round")


def _stopped(table: pl.DataFrame, patience: int, wanted: Any) -> pl.DataFrame:
    name = next(column for column in reversed(table.columns) if column.endswith("_mean"))
    scores = table[name].to_list()
    sign = -1.0 if larger_is_better(name.removeprefix("valid_").removesuffix("_mean"), wanted) else 1.0
    best = 0
    for i, score in enumerate(scores):
        if sign * score < sign * scores[best]:
            best = i
        elif i - best >= patience:
            break
    return table.head(best + 1)
