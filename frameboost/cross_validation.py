"""Cross-validation: for each fold, a fit on the other folds, evaluated on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import polars as pl

from frameboost.api import fit, plan_with
from frameboost.checks.arguments import BY_NAME, checked
from frameboost.errors import ParameterError
from frameboost.fold_models import fold_models, for_several_fits
from frameboost.keywords import CvOptions
from frameboost.metrics.metric import larger_is_better
from frameboost.training.evaluation_log import EarlyStopping

__all__ = ["cv"]


@checked(fit)
def cv(
    data: Any,
    target: str | Sequence[str],
    *,
    folds: int | str = 5,
    time: str | None = None,
    seed: int = 0,
    early_stopping_rounds: int | None = None,
    **options: Unpack[CvOptions],
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
        did not improve (by more than ``min_delta``).
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
    named = {"seed": seed or None, "early_stopping_rounds": early_stopping_rounds}
    arguments = for_several_fits({name: value for name, value in named.items() if value is not None} | options)
    seed, early_stopping_rounds = arguments.pop("seed", 0), arguments.pop("early_stopping_rounds", None)
    for name, value in (("seed", seed), ("early_stopping_rounds", early_stopping_rounds or 1)):
        BY_NAME[name](name, value)  # which may have come by another name
    for name in ("valid", "init_model", "callbacks", "checkpoint"):
        if name in arguments:
            raise ParameterError(f"cv takes no {name}; it trains and validates on parts of the data")
    arguments = {"verbose": False, "train_metrics": True} | arguments | {"folds": folds, "seed": seed}
    planned, train = plan_with(data, target, arguments)
    histories = [model.history for model in fold_models(train, planned, time)]
    table = _summary(histories)
    if early_stopping_rounds is None:
        return table
    return _stopped(table, early_stopping_rounds, planned.settings.min_delta, arguments.get("eval_metric"))


# --- the table --------------------------------------------------------------------------------------------------------


def _summary(histories: list[pl.DataFrame]) -> pl.DataFrame:
    measured = pl.concat(histories)
    names = [name for name in measured.columns if name != "round"]
    means = [
        expr for name in names for expr in (pl.col(name).mean().alias(f"{name}_mean"),
                                            pl.col(name).std().alias(f"{name}_std"))
    ]  # fmt: skip
    return measured.group_by("round").agg(means).sort("round")


def _stopped(table: pl.DataFrame, patience: int, min_delta: float, eval_metric: Any) -> pl.DataFrame:
    name = next(column for column in reversed(table.columns) if column.endswith("_mean"))
    maximize = larger_is_better(name.removeprefix("valid_").removesuffix("_mean"), eval_metric)
    stopping = EarlyStopping(patience, min_delta, maximize)
    any(stopping.is_over(number, score) for number, score in enumerate(table[name], 1))
    return table if stopping.best_round is None else table.head(stopping.best_round)
