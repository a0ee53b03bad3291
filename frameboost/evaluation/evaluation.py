"""The quality of a model on labelled rows: metrics, confusion matrix, curves, also by group (`Model.evaluate`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any

import duckdb
import polars as pl

from frameboost.checks.messages import advice, shown, warn
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.data.sources import FrameSource, LocalSource, RelationSource, read_relation
from frameboost.database.database_model import source_model
from frameboost.ensemble.ensemble import Labels
from frameboost.errors import ParameterError, printable
from frameboost.evaluation.calibration_curve import calibration_curve
from frameboost.evaluation.confusion import confusion_matrix
from frameboost.evaluation.metrics_by_group import evaluated_metrics, group_columns
from frameboost.evaluation.scored_rows import scores_for_ranking
from frameboost.evaluation.threshold_curves import precision_recall_curve, roc_curve
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.metrics.metric import evaluation_metrics, why_not_finite
from frameboost.prediction.predictor import Predictor
from frameboost.runtime.interrupts import closed_after
from frameboost.schema.types import column, free_name
from frameboost.training.data_checks import open_labelled

__all__ = ["Evaluation", "evaluate_model", "score_counts"]


class Evaluation:
    """The quality of a model on labelled rows, returned by `frameboost.Model.evaluate`.

    Metrics are computed at once, all other frames on first access, from counts of rows by label and prediction that are
    taken where the data is. With ``by`` frames begin with the columns of the group.

    Parameters
    ----------
    metrics
        The value of `metrics`.
    counts
        A function that returns the weight of rows by label and by values of an output.
    n_classes
        The number of classes, 0 for a regression.
    scores
        The output to rank rows by for a class.
    by
        The columns of the groups.
    labels
        The class labels by index; empty if classes are numbers.
    intervals
        A function that returns the value of `interval`; None if the model has no intervals.
    """

    def __init__(
        self, metrics: pl.DataFrame, counts: Callable[[str], pl.DataFrame], n_classes: int, scores: str,
        by: Sequence[str] = (), labels: Labels = (), intervals: Callable[[], pl.DataFrame] | None = None,
    ) -> None:  # fmt: skip
        self._measured_intervals = intervals
        self._metrics, self._counts, self._n_classes = metrics, counts, n_classes
        self._scores, self._by, self._labels = scores, list(by), labels

    def __repr__(self) -> str:
        with pl.Config(tbl_hide_dataframe_shape=True, tbl_rows=50):
            return printable(f"Evaluation\n{self._metrics}")

    def _repr_html_(self) -> str:
        return self._metrics._repr_html_()

    @property
    def metrics(self) -> pl.DataFrame:
        """One row per metric: ``metric`` and ``value``; with groups, first their columns and ``rows``.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=0.5, reg_lambda=0)
        >>> model.evaluate(df, "y").metrics.rows()
        [('rmse', 2.0), ('mae', 2.0), ('r2', 0.75)]
        """
        return self._metrics.clone()

    @cached_property
    def interval(self) -> pl.DataFrame:
        """The quality of prediction intervals: ``coverage`` (nominal), ``held`` (empirical) and ``mean_width``.

        ``held`` is the weighted share of rows with the label inside the interval. With groups one row per group, with
        its columns first.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4] * 5, "y": [0.0, 0.0, 8.0, 8.0] * 5})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> later = df.with_columns(y=pl.col("y") + pl.int_range(20) / 4)
        >>> model.conform(later, "y", coverage=0.8).evaluate(later, "y").interval.rows()
        [(0.8, 0.85, 8.0)]
        """
        if self._measured_intervals is None:
            raise ParameterError(
                f"the model has no intervals; {advice('Model.conform', 'frameboost conform')} learns them"
            )
        return self._measured_intervals()

    @cached_property
    def confusion(self) -> pl.DataFrame:
        """The confusion matrix: ``actual``, ``predicted``, ``weight``, and ``share`` within the actual class.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [False, False, True, True]})
        >>> model = fb.fit(df, "y", n_estimators=1, min_child_weight=0)
        >>> model.evaluate(df, "y").confusion.rows()
        [(False, False, 2.0, 1.0), (False, True, 0.0, 0.0), (True, False, 0.0, 0.0), (True, True, 2.0, 1.0)]
        """
        self._require_classes("confusion")
        n_classes, labels = self._n_classes, list(self._labels) or list(range(self._n_classes))
        named = pl.col("actual", "predicted").replace_strict(range(n_classes), labels)
        return self._of_groups(
            self._counts("class"),
            lambda rows: confusion_matrix(rows["label"], rows["score"], n_classes, rows["weight"]).with_columns(named),
        )

    @cached_property
    def roc(self) -> pl.DataFrame:
        """The ROC curve: ``threshold``, ``false_positive_rate`` and ``true_positive_rate``.

        For more than two classes, each against the rest, with a first column ``class``.
        """
        return self._curves("roc", lambda rows: roc_curve(rows["label"], rows["score"], rows["weight"]))

    @cached_property
    def precision_recall(self) -> pl.DataFrame:
        """Precision and recall by ``threshold``; for more than two classes, each against the rest, by ``class``."""
        return self._curves(
            "precision_recall", lambda rows: precision_recall_curve(rows["label"], rows["score"], rows["weight"])
        )

    @cached_property
    def calibration(self) -> pl.DataFrame:
        """The mean label in 10 bins of equal weight by prediction.

        Columns: ``lowest``, ``highest``, ``mean_prediction``, ``mean_label`` and ``weight``; for more than two classes,
        each against the rest, by ``class``.
        """
        return self._curves(
            "calibration",
            lambda rows: calibration_curve(rows["label"], rows["score"], rows["weight"]).drop("standard_error"),
            needs_classes=False,
        )

    def _curves(
        self, name: str, curve: Callable[[pl.DataFrame], pl.DataFrame], *, needs_classes: bool = True
    ) -> pl.DataFrame:
        """Return the curve of each group, and for more than two classes of each class."""
        if needs_classes:
            self._require_classes(name)
        rows = self._counts(self._scores)
        rows = rows.sort("label", *(name for name in rows.columns if name.startswith("score")))
        scores = [name for name in rows.columns if name.startswith("score")]
        if len(scores) > 1 and not self._n_classes:
            raise ParameterError(f"{name} is for models of one output, or of one target of classes")
        if len(scores) == 1:
            return self._of_groups(rows.filter(pl.col("weight") > 0), curve)
        curves = []
        for number, score in enumerate(scores):
            one = rows.with_columns(label=(pl.col("label") == number).cast(pl.Float64), score=pl.col(score))
            label = pl.lit(self._labels[number]) if self._labels else pl.lit(number, pl.Int64)
            named = partial(_of_class, curve, label.alias("class"))
            curves.append(self._of_groups(one.filter(pl.col("weight") > 0), named))
        return pl.concat(curves)

    def _of_groups(self, rows: pl.DataFrame, make: Callable[[pl.DataFrame], pl.DataFrame]) -> pl.DataFrame:
        if not self._by:
            return make(rows)
        groups = [f"group_{i}" for i in range(len(self._by))]
        names = dict(zip(groups, self._by, strict=True))
        parts = rows.sort(groups, maintain_order=True).partition_by(groups, maintain_order=True)
        keyed = [part.head(1).select(groups).rename(names).join(make(part), how="cross") for part in parts]
        return pl.concat(keyed)

    def _require_classes(self, name: str) -> None:
        if not self._n_classes:
            raise ParameterError(f"{name} is for models of one target of classes")


def _of_class(curve: Callable[[pl.DataFrame], pl.DataFrame], name: pl.Expr, rows: pl.DataFrame) -> pl.DataFrame:
    return curve(rows).select(name, pl.all())


def evaluate_model(
    predictor: Predictor, data: Any, target: str | Sequence[str], by: str | Sequence[str] | None, weight: str | None,
    group: str | None, label_upper_bound: str | None, base_margin: str | Sequence[str] | None, eval_metric: Any,
) -> Evaluation:  # fmt: skip
    """Evaluate a model on labelled rows; the arguments are those of `frameboost.Model.evaluate`."""
    ensemble = predictor.ensemble.started_from(base_margin)
    predictor = predictor.started_from(base_margin).of_numbers()
    loss = ensemble.loss
    source, roles = open_labelled(ensemble, data, target, weight, label_upper_bound, group)
    columns = group_columns(source, by)
    metrics = evaluation_metrics(loss, ensemble.parameters, eval_metric)
    table = evaluated_metrics(predictor, source, roles, columns, metrics, r2=eval_metric is None)
    table = _with_labels(table, [name for name in columns if name == target], ensemble.labels)
    for name, value in table.iter_rows() if eval_metric is not None and not columns else ():
        if not math.isfinite(value):
            warn(f"eval_metric {shown(name)} is {value} on the data{why_not_finite(name)}")
    classes = loss.classes if len(loss.labels) == 1 else 0  # of one target, as curves are
    scores = "mean" if loss.n_outputs > 1 and not classes else scores_for_ranking(loss, "evaluate")

    of_target = [f"group_{i}" for i, name in enumerate(columns) if name == target]

    def counts(output: str) -> pl.DataFrame:
        return _with_labels(score_counts(predictor, source, roles, columns, output), of_target, ensemble.labels)

    intervals = None if ensemble.interval is None else partial(_interval_coverage, predictor, source, roles, columns)
    if isinstance(source, RelationSource) and source.is_copy:  # which is gone when these are read
        outputs = {scores: counts(scores)} | ({"class": counts("class")} if classes else {})
        intervals = None if intervals is None else partial(pl.DataFrame.clone, intervals())
        return Evaluation(table, outputs.__getitem__, classes, scores, columns, ensemble.labels, intervals)
    return Evaluation(table, counts, classes, scores, columns, ensemble.labels, intervals)


def _with_labels(frame: pl.DataFrame, columns: Sequence[str], labels: Labels) -> pl.DataFrame:
    """Return a frame with class indices replaced by labels."""
    names = [label for label in labels if isinstance(label, str)]
    if not names:
        return frame
    numbers = list(range(len(names)))
    return frame.with_columns(
        pl.col(column).cast(pl.Int64).replace_strict(numbers, names, return_dtype=pl.String) for column in columns
    )


def score_counts(
    predictor: Predictor, source: LocalSource, roles: Mapping[str, str], by: Sequence[str], output: str
) -> pl.DataFrame:
    """Return the weight of rows by group, label and score."""
    if isinstance(source, FrameSource):
        frame = _scored_frame(predictor, source, roles, by, output)
        return frame.group_by(pl.exclude("weight"), maintain_order=True).agg(pl.col("weight").sum())
    with _scored_relation(predictor, source, roles, by, output) as scored:
        keys = ", ".join(name for name in scored.columns if name != "weight")
        return read_relation(scored.aggregate(f"{keys}, SUM(weight) AS weight", keys))


def _interval_coverage(
    predictor: Predictor, source: LocalSource, roles: Mapping[str, str], by: Sequence[str]
) -> pl.DataFrame:
    """Return ``coverage``, ``held`` and ``mean_width`` of the model's intervals, by group in order if there are any.

    ``held`` is the weighted share of labels inside their intervals.
    """
    interval = predictor.ensemble.interval
    assert interval is not None
    groups = [f"group_{i}" for i in range(len(by))]
    if isinstance(source, FrameSource):
        frame = _scored_frame(predictor, source, roles, by, "interval")
        weight, lower, label, upper = map(pl.col, ("weight", "lower", "label", "upper"))
        sums = [
            weight.sum(),
            (weight * ((lower <= label) & (label <= upper))).sum().alias("held"),
            (weight * (upper - lower)).sum().alias("width"),
        ]
        table = frame.group_by(groups).agg(sums) if by else frame.select(sums)
    else:
        with _scored_relation(predictor, source, roles, by, "interval") as scored:
            held = "SUM(CASE WHEN label BETWEEN lower AND upper THEN weight ELSE 0e0 END) AS held"
            width = "SUM(weight * (upper - lower)) AS width"
            listed = ", ".join([*groups, "SUM(weight) AS weight", held, width])
            table = read_relation(scored.aggregate(listed, ", ".join(groups)))
    shares = [(pl.col(name) / pl.col("weight")).alias(out) for name, out in (("held", "held"), ("width", "mean_width"))]
    named = [pl.col(group).alias(name) for group, name in zip(groups, by, strict=True)]
    in_order = table.sort(groups) if by else table
    return in_order.select(*named, pl.lit(interval.coverage).alias("coverage"), *shares)


# --- rows with an output ----------------------------------------------------------------------------------------------


def _scored_frame(
    predictor: Predictor, source: FrameSource, roles: Mapping[str, str], by: Sequence[str], output: str
) -> pl.DataFrame:
    """Return each row's ``group_0``, ..., ``label``, ``weight``, and ``score``, ``score_0``, ..., or interval."""
    lookup = predictor.ensemble.output(output).lookup
    columns = [*predictor.ensemble.read_names, *roles.values(), *by, *([] if lookup is None else [lookup.column])]
    frame = source.to_frame(list(dict.fromkeys(columns))).collect()
    values = predictor.predict(frame, output)
    scores = [values.alias("score")]
    if isinstance(values.dtype, pl.Array):
        scores = [values.arr.get(k).alias(f"score_{k}") for k in range(values.dtype.size)]
    elif isinstance(values.dtype, pl.Struct):
        scores = values.struct.unnest().get_columns()
    weight = column(roles["weight"]).cast(pl.Float64) if "weight" in roles else pl.lit(1.0)
    groups = [column(name).alias(f"group_{i}") for i, name in enumerate(by)]
    label = column(next(iter(roles.values()))).cast(pl.Float64)
    return frame.select(*groups, label=label, weight=weight).with_columns(scores)


@contextmanager
def _scored_relation(
    predictor: Predictor, source: RelationSource, roles: Mapping[str, str], by: Sequence[str], output: str
) -> Iterator[duckdb.DuckDBPyRelation]:
    """Return the columns of `_scored_frame` as a relation; its rows stay in the database."""
    name = free_name("prediction", source.names())
    with closed_after(DuckDBSession(source.relation)) as session:
        kept = list(dict.fromkeys([*roles.values(), *by]))
        query = source_model(predictor.ensemble).query(
            session.source, keep=kept, output=output, name=name, rows=session.estimated_rows()  # type: ignore[arg-type]
        )  # fmt: skip
        scored = source.relation.query(session.source[1:-1], query)
        assert scored is not None
        scores = [c for c in scored.columns if c == name or c.startswith(f"{name}_")]
        if output == "interval":
            values = {c.removeprefix(f"{name}_"): quote_identifier(c) for c in scores}
        else:
            values = {f"score_{k}" if len(scores) > 1 else "score": quote_identifier(c) for k, c in enumerate(scores)}
        values["label"] = quote_identifier(next(iter(roles.values())))
        values["weight"] = quote_identifier(roles["weight"]) if "weight" in roles else "1e0"
        numbers = [f"CAST({value} AS DOUBLE) AS {name}" for name, value in values.items()]
        groups = [f"{quote_identifier(c)} AS group_{i}" for i, c in enumerate(by)]
        yield scored.project(", ".join([*groups, *numbers]))
