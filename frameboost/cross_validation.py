"""Cross-validate: fit on all folds but one, evaluate on that one, for each fold."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Unpack, cast, overload

import polars as pl

from frameboost.api import fit, plan_with
from frameboost.checks.arguments import BY_NAME, checked
from frameboost.checks.messages import shown
from frameboost.data.held_out import is_splitter
from frameboost.data.opening import open_source
from frameboost.data.sources import FrameSource, LocalSource
from frameboost.errors import DataError, ParameterError
from frameboost.fold_models import OutOfFold, fold_models, for_several_fits
from frameboost.keywords import CvOptions
from frameboost.metrics.metric import larger_is_better
from frameboost.model.model import Model, out_of_fold_frame
from frameboost.planning import FitPlan
from frameboost.training.evaluation_log import Callback, EarlyStopping

__all__ = ["CrossValidation", "cv"]

Preprocessing = Callable[[pl.DataFrame, pl.DataFrame, dict[str, Any]], tuple[Any, Any, Mapping[str, Any]]]

_PEERS = ("return_cvbooster", "return_estimator")  # names of LightGBM and of scikit-learn


@dataclass(frozen=True)
class CrossValidation:
    """The result of `cv` with ``return_models=True``.

    Attributes
    ----------
    metrics
        The metrics by round, averaged over the folds: the result of `cv` without ``return_models``.
    models
        The model of each fold, trained on the other folds; each has as many rounds as ``metrics`` has rows.

    Examples
    --------
    >>> import polars as pl, frameboost as fb
    >>> df = pl.DataFrame({"x": [i % 4 for i in range(200)]}).with_columns(y=pl.col("x") * 2.0)
    >>> validated = fb.cv(df, "y", folds=4, n_estimators=60, return_models=True)
    >>> [model.n_rounds for model in validated.models]
    [60, 60, 60, 60]
    >>> df.with_columns(validated.out_of_fold).select("y", pl.col("prediction").round(1)).row(3)
    (6.0, 6.0)
    """

    metrics: pl.DataFrame
    models: tuple[Model, ...]
    _out_of_fold: pl.DataFrame | str

    @property
    def out_of_fold(self) -> pl.DataFrame:
        """The out-of-fold predictions: of each row by the model that was not trained on it, as `Model.out_of_fold`."""
        return out_of_fold_frame(self._out_of_fold)


@overload
def cv(
    data: Any,
    target: str | Sequence[str],
    *,
    folds: Any = 5,
    time: str | None = None,
    groups: str | None = None,
    seed: int = 0,
    early_stopping_rounds: int | None = None,
    return_models: Literal[False] = False,
    callbacks: Sequence[Callback] = (),
    fpreproc: Preprocessing | None = None,
    **options: Unpack[CvOptions],
) -> pl.DataFrame: ...


@overload
def cv(
    data: Any,
    target: str | Sequence[str],
    *,
    folds: Any = 5,
    time: str | None = None,
    groups: str | None = None,
    seed: int = 0,
    early_stopping_rounds: int | None = None,
    return_models: Literal[True],
    callbacks: Sequence[Callback] = (),
    fpreproc: Preprocessing | None = None,
    **options: Unpack[CvOptions],
) -> CrossValidation: ...


@checked(fit)
def cv(
    data: Any,
    target: str | Sequence[str],
    *,
    folds: Any = 5,
    time: str | None = None,
    groups: str | None = None,
    seed: int = 0,
    early_stopping_rounds: int | None = None,
    return_models: bool = False,
    callbacks: Sequence[Callback] = (),
    fpreproc: Preprocessing | None = None,
    **options: Unpack[CvOptions],
) -> pl.DataFrame | CrossValidation:
    """Cross-validate: return metrics by round, averaged over the folds.

    Parameters
    ----------
    data, target
        As for `fit`.
    folds
        The number of folds; rows are assigned by a hash of row position, the same in every engine. Or the name of a
        column of fold labels, which keeps related rows together (those of one customer, for example). For data in
        memory also a scikit-learn splitter, or for each fold a pair of integer arrays as in XGBoost and LightGBM: the
        positions of the training rows and of the held-out rows.
    time
        A column of dates, times or numbers. Rows are cut in its order into ``folds`` + 1 parts; each part except the
        first is held out from a fit on the parts before it.
    groups
        A column of group labels: the rows of a group are assigned to the same fold. By default ``group``. With a
        splitter, its groups. The column is not a feature.
    seed
        The seed of the folds and of all sampling in training.
    early_stopping_rounds
        Stop when the mean of the last metric on held-out rows has not improved (by more than ``min_delta``) for this
        many rounds; the result ends with the best round.
    return_models
        Whether to return the models of the folds and their out-of-fold predictions as well (LightGBM's
        ``return_cvbooster``, scikit-learn's ``return_estimator``).
    **options
        All other arguments of `fit` except ``valid``, ``init_model``, ``callbacks`` and ``checkpoint``.

    Returns
    -------
    polars.DataFrame
        One row per round: ``round``, then for each metric ``train_<metric>_mean``, ``train_<metric>_std``,
        ``valid_<metric>_mean`` and ``valid_<metric>_std`` (Float64; standard deviations over the folds, with n − 1).
        With ``return_models`` a `CrossValidation`.

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
    peers = [cast("dict[str, Any]", options).pop(name) for name in _PEERS if name in options]
    for wanted in peers:
        BY_NAME["return_models"]("return_models", wanted)
    return_models = return_models or any(peers)
    named = {"seed": seed or None, "early_stopping_rounds": early_stopping_rounds}
    arguments = for_several_fits({name: value for name, value in named.items() if value is not None} | options)
    seed, early_stopping_rounds = arguments.pop("seed", 0), arguments.pop("early_stopping_rounds", None)
    for name, value in (("seed", seed), ("early_stopping_rounds", early_stopping_rounds or 1)):
        BY_NAME[name](name, value)  # which may have come by another name
    for name in ("valid", "init_model", "checkpoint"):
        if name in arguments:
            raise ParameterError(f"cv takes no {name}; it trains and validates on parts of the data")
    arguments = {"verbose": False, "train_metrics": True} | arguments | {"folds": folds, "seed": seed}
    for name, value in (("time", time), ("groups", groups)):
        if value is not None and arguments.get("stratified"):
            raise ParameterError(f"{name} can't be combined with stratified=True: it defines the folds itself")
    if groups is not None and not isinstance(folds, int) and not is_splitter(folds):
        what = "a column" if isinstance(folds, str) else "positions"
        raise ParameterError(
            f"groups can't be combined with {what} of folds; pass the number of folds, not {shown(folds)}"
        )
    if time is not None and not isinstance(folds, int | str):
        raise ParameterError(f"time needs a number of folds, such as folds=5, not {shown(folds)}")
    if time is not None and groups is not None:
        raise ParameterError("groups can't be combined with time, by which the rows are split")
    # As a column of folds, the groups are no feature.
    planned, train = plan_with(data, target, arguments | ({} if groups is None else {"folds": groups}))
    planned = replace(planned, folds=folds)
    out_of_fold = OutOfFold(cast("LocalSource", planned.source)) if return_models else None
    plan_of_part = None
    if fpreproc is not None:
        if not isinstance(planned.data, FrameSource):
            raise DataError("fpreproc is for rows in memory, such as those of a polars or pandas frame")
        planned = replace(planned, source=planned.data)
        told_by = {name for name in (folds, groups) if isinstance(name, str)} - {arguments.get("group")}
        plan_of_part = partial(_preprocessed, fpreproc, target, arguments, told_by)
        if out_of_fold is not None:
            out_of_fold.give_up("fpreproc may change the rows")
    elif out_of_fold is not None:
        planned = replace(planned, source=out_of_fold.rows)
    histories, folds_of_models = [], []
    for fold in fold_models(train, planned, time, groups, plan_of_part):
        histories.append(fold.model.history)
        if out_of_fold is not None:
            folds_of_models.append(fold)
    table = _summary(histories)
    if early_stopping_rounds is not None:
        table = _stopped(table, early_stopping_rounds, planned.settings.min_delta, arguments.get("eval_metric"))
    for number, row in enumerate(table.drop("round").iter_rows(named=True) if callbacks else (), 1):
        stops = [callback(number, row) is True for callback in callbacks]
        if any(stops):
            table = table.head(number)
            break
    if out_of_fold is None:
        return table
    kept = [fold._replace(model=fold.model[: len(table)]) for fold in folds_of_models]
    for fold in kept:
        out_of_fold.add(fold)
    return CrossValidation(table, tuple(fold.model for fold in kept), out_of_fold.frame())


def _preprocessed(
    fpreproc: Preprocessing, target: str | Sequence[str], arguments: Mapping[str, Any], told_by: Collection[str],
    training: Any, held_out: Any,
) -> FitPlan:  # fmt: skip
    """Return the plan of a fold of what ``fpreproc`` makes of its rows and of the arguments of `fit`.

    The columns that tell the folds, ``told_by``, are no features, and not among its rows.
    """
    rows = [cast("FrameSource", open_source(part)).frame.drop(told_by).collect() for part in (training, held_out)]
    of_fit = {name: value for name, value in arguments.items() if name not in ("folds", "stratified")}
    returned = fpreproc(rows[0], rows[1], of_fit)
    if not isinstance(returned, tuple | list) or len(returned) != 3 or not isinstance(returned[2], Mapping):
        raise ParameterError(
            "fpreproc must return the rows to train on, those to validate on, and the dict of arguments, not "
            f"{shown(returned)}"
        )
    return plan_with(returned[0], target, {**returned[2], "valid": returned[1]})[0]


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
