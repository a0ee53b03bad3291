"""The inputs of a report's sections: the model, its metrics on all rows, and rows for charts."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from frameboost.checks.messages import did_you_mean, listed, shown
from frameboost.data.feature_columns import find_features
from frameboost.data.held_out import split_by_query_draw
from frameboost.data.opening import open_rows
from frameboost.data.sources import FrameSource, LocalSource, RelationSource
from frameboost.dialects.built_in import get_dialect
from frameboost.dialects.dialect import Dialect
from frameboost.engines.choose import rows_of
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import DataError, ParameterError
from frameboost.evaluation.bootstrap import metric_intervals
from frameboost.evaluation.drift import drift_frame
from frameboost.evaluation.evaluation import Evaluation
from frameboost.evaluation.metrics_by_group import metric_values, scored_columns
from frameboost.evaluation.scored_rows import ScoredRows, score_rows, scores_for_ranking
from frameboost.expressions.draws import draw_key
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.metrics.metric import AnyMetric, evaluation_metrics
from frameboost.model.model import Model, predictor_of
from frameboost.plots.inputs import sampled
from frameboost.prediction.predictor import Predictor
from frameboost.schema.types import column
from frameboost.training.data_checks import find_roles, labelled_columns, with_group, with_label_codes

__all__ = ["Material", "ReportOptions", "gather"]

_MAX_ROWS = 250_000
_DRAWS = 200


@dataclass(frozen=True)
class ReportOptions:
    """The arguments of `frameboost.Model.report` beside the model, the data and the file."""

    target: str | Sequence[str] | None = None
    weight: str | None = None
    group: str | None = None
    label_upper_bound: str | None = None
    groups: str | None = None
    training: Any = None
    dialect: str = "duckdb"
    title: str | None = None
    base_margin: str | Sequence[str] | None = None
    time: str | None = None
    by: str | None = None
    costs: Mapping[str, float] | None = None


@dataclass(frozen=True)
class Material:
    """The inputs of the sections.

    Attributes
    ----------
    model
        The model.
    options
        The other arguments of the report.
    dialect
        The dialect of the SQL.
    rows
        The features and the columns of the roles of all rows, or of a sample if there are many.
    n_rows
        The number of rows in the data.
    evaluation
        The evaluation on all rows; None without labels.
    roles
        The column of each role, such as ``label``; none without labels.
    training_rows
        The rows of ``training``, or None.
    """

    model: Model
    options: ReportOptions
    dialect: Dialect
    rows: pl.DataFrame
    n_rows: int
    evaluation: Evaluation | None
    roles: Mapping[str, str]
    training_rows: LocalSource | None

    @property
    def ensemble(self) -> Ensemble:
        """The model's trees, loss, features and offset."""
        return self._labelled.ensemble

    @property
    def target(self) -> str:
        """The only target."""
        assert self.one_target
        return self.roles["label"]

    @property
    def one_target(self) -> bool:
        """Whether there are labels of exactly one target."""
        return "label" in self.roles

    @property
    def is_ranking(self) -> bool:
        """Whether the model orders the rows of queries."""
        return "qid" in self.ensemble.loss.roles

    @property
    def predicts_labels(self) -> bool:
        """Whether predictions are on the scale of the label: no class, rank or risk."""
        loss = self.ensemble.loss
        odd = self.is_ranking or loss.family == "survival"
        return not odd and not loss.classes and loss.n_predictions == 1

    @cached_property
    def predictor(self) -> Predictor:
        """The scorer of rows, with labels as numbers."""
        return self._labelled.of_numbers()

    @cached_property
    def _labelled(self) -> Predictor:
        return predictor_of(self.model).started_from(self.options.base_margin)

    @cached_property
    def coded(self) -> FrameSource:
        """The rows, with labels as class indices of the model."""
        source = with_label_codes(FrameSource(self.rows.lazy()), self.options.target or [], self.ensemble.labels)
        assert isinstance(source, FrameSource)
        return source

    @cached_property
    def scored(self) -> pl.DataFrame:
        """The columns of the roles and the margins of the rows, and ``groups`` as ``group_0``."""
        groups = [] if self.options.groups is None else [self.options.groups]
        return scored_columns(self.predictor, self.coded, self.roles, groups)

    @cached_property
    def predictions(self) -> ScoredRows:
        """Labels and predictions, for classes probabilities, shared by several charts."""
        return self.predicted(scores_for_ranking(self.ensemble.loss, "a report"))

    def predicted(self, output: str) -> ScoredRows:
        """Return labels and predictions."""
        return score_rows(self._labelled, self.rows, self.target, self.roles.get("weight"), output)

    @property
    def costs(self) -> tuple[float, float]:
        """The cost of a false positive and of a false negative; by default 1 each."""
        costs = self.options.costs or {}
        return costs.get("false_positive", 1.0), costs.get("false_negative", 1.0)

    @cached_property
    def baseline(self) -> pl.DataFrame | None:
        """The bins of the features in training and their shares, None if neither training rows nor the model have them.

        Raises
        ------
        DataError
            If the type of a feature differs from training, so that its bins are unknown.
        """
        if self.training_rows is None:
            return None if self.model.baseline is None else self.model.baseline.features
        return self.model.database().baseline(
            self.training_rows.frame if isinstance(self.training_rows, FrameSource) else self.training_rows.relation
        )

    @cached_property
    def stability(self) -> pl.DataFrame | None:
        """The population stability index of each feature against training, None where `baseline` is.

        Raises
        ------
        DataError
            As `baseline`.
        """
        baseline = self.baseline
        return None if baseline is None else drift_frame(self.ensemble, self.rows, baseline)

    @cached_property
    def metrics(self) -> list[AnyMetric]:
        """The metrics that fit the objective, its default first."""
        return evaluation_metrics(self.ensemble.loss, self.ensemble.parameters, None)

    @cached_property
    def values(self) -> dict[str, float]:
        """The metrics of all rows, by name."""
        return {} if self.evaluation is None else dict(self.evaluation.metrics.select("metric", "value").rows())

    @cached_property
    def intervals(self) -> dict[str, tuple[float | None, float | None]]:
        """The 95 % interval of each metric."""
        intervals = metric_intervals(
            self.ensemble, self.scored, self.metrics, values=self.values, share=len(self.rows) / self.n_rows,
            draws=_DRAWS,
        )  # fmt: skip
        return {name: (low, high) for name, low, high in intervals.rows()}

    @cached_property
    def values_without_trees(self) -> dict[str, float]:
        """The metrics of base margins and offset alone, without an offset those of a constant prediction."""
        if self.is_ranking or self.evaluation is None:
            return {}
        ensemble = self.ensemble
        margins = ensemble.loss.margins
        bases = [pl.repeat(base, len(self.rows), eager=True) for base in ensemble.base_margins]
        with_offset = self.predictor.with_offset(self.rows, bases)
        rows = self.scored.with_columns(each.alias(margin) for each, margin in zip(with_offset, margins, strict=True))
        return metric_values(rows_of(rows, [*self.roles, *margins]), ensemble, self.metrics, r2="r2" in self.values)

    @cached_property
    def with_missing(self) -> frozenset[str]:
        """The features with missing values."""
        missing = [
            (column(name).is_null() | (column(name).is_nan() if self.rows.schema[name].is_float() else False)).any()
            for name in self.ensemble.feature_names
        ]
        has_missing = self.rows.select(each.alias(str(number)) for number, each in enumerate(missing)).row(0)
        return frozenset(name for name, has in zip(self.ensemble.feature_names, has_missing, strict=True) if has)

    @property
    def of_sample(self) -> str:
        """The text about the sample that charts show, if they do not show all rows."""
        if len(self.rows) == self.n_rows:
            return ""
        return f"of a sample of {len(self.rows):,} of the {self.n_rows:,} rows"


def gather(model: Model, data: Any, options: ReportOptions) -> Material:
    """Gather the inputs; metrics are computed where the data is.

    Raises
    ------
    DataError
        If a column is missing, its type differs from training, or there are no rows.
    ParameterError
        If the dialect is unknown, or a column has a role that it can't have.
    """
    dialect = get_dialect(options.dialect)
    ensemble = model.ensemble.started_from(options.base_margin)
    source = open_rows(data, labelled_columns(ensemble, options.target or []))
    ensemble.find_in(source)
    columns = _columns_besides(source, options)
    roles: dict[str, str] = {}
    if options.target is not None:
        roles = with_group(
            source, find_roles(source, options.target, options.weight, None, options.label_upper_bound), options.group
        )
    training = None if options.training is None else open_rows(options.training, ensemble.features, "training")
    if training is not None:
        find_features(training, ensemble.features)
    evaluation = None
    if options.target is not None:
        labelled = source.frame if isinstance(source, FrameSource) else source.relation
        evaluation = model.evaluate(
            labelled, options.target, weight=options.weight, group=options.group,
            label_upper_bound=options.label_upper_bound, base_margin=options.base_margin,
        )  # fmt: skip
    names = list(dict.fromkeys([*ensemble.read_names, *roles.values(), *columns]))
    rows, n_rows = _read(source, names, options.groups or options.group)
    return Material(model, options, dialect, rows, n_rows, evaluation, roles, training)


def _columns_besides(source: LocalSource, options: ReportOptions) -> list[str]:
    """Return the columns to read beside features and labels."""
    if options.target is None:
        names = ("weight", "group", "groups", "by", "costs", "label_upper_bound", "base_margin")
        of_labels = {name: getattr(options, name) for name in names}
        for argument, value in of_labels.items():
            if value is not None:
                raise ParameterError(f"{argument} needs labels; set target, their column")
    columns = []
    for argument, name, parts in (
        ("groups", options.groups, "groups"),
        ("by", options.by, "groups"),
        ("time", options.time, "periods"),
    ):
        if name is None:
            continue
        if name not in source.names():
            near = did_you_mean(name, source.names()) or f", which has {listed(source.names())}"
            raise DataError(f"{argument} column {shown(name)} is not in the data{near}")
        if source.types()[name] is None:
            raise DataError(
                f"{argument} column {shown(name)} has type {source.type_names()[name]}, which can't identify {parts}"
                "; convert it to an integer or a string"
            )
        columns.append(name)
    return columns


def _read(source: LocalSource, names: list[str], units: str | None) -> tuple[pl.DataFrame, int]:
    """Return the columns of all rows, or of a sample of rows or of units, and the number of all rows."""
    if isinstance(source, FrameSource):
        frame = source.to_frame(names).collect()
        n_rows = len(frame)
        source = FrameSource(frame.lazy())
    else:
        n_rows = source.count_rows()
    if not n_rows:
        raise DataError("the data has no rows")
    if n_rows <= _MAX_ROWS:
        return source.to_frame(names).collect(), n_rows
    if units is not None:
        _, drawn = split_by_query_draw(source, units, _MAX_ROWS / n_rows, draw_key(0))
        return drawn.to_frame(names).collect(), n_rows
    if isinstance(source, FrameSource):
        return sampled(source.frame.collect(), _MAX_ROWS), n_rows
    quoted = ", ".join(map(quote_identifier, names))
    sampling = f"USING SAMPLE reservoir({_MAX_ROWS} ROWS) REPEATABLE (0)"
    view = f"frameboost_{secrets.token_hex(6)}"
    sample = source.relation.query(view, f"SELECT {quoted} FROM {view} {sampling}")
    assert sample is not None
    return RelationSource(sample).to_frame(names).collect(), n_rows
