"""A trained ensemble of trees: the content of a model file, and all that scoring needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from frameboost.checks.messages import counted, listed, shortened, shown
from frameboost.data.feature_columns import find_features, find_numbers
from frameboost.data.sources import Source
from frameboost.ensemble.baseline import Baseline
from frameboost.ensemble.metadata import Metadata
from frameboost.errors import ParameterError
from frameboost.expressions.expression import Expression
from frameboost.joins.star_sources import TableJoin
from frameboost.losses.loss import Loss, Offset
from frameboost.losses.outputs import Interval, Output, output_of
from frameboost.schema.types import Feature, FeatureType
from frameboost.trees.tree import Tree, TreeColumns, are_linear, count_leaves

__all__ = ["Ensemble", "Labels", "TrainingRecord"]

# Beyond it are the thresholds before infinities.
_NEXT_TO_INFINITY = 8e307

Labels = tuple[str, ...] | tuple[bool, bool] | tuple[()]


@dataclass(frozen=True, repr=False)
class TrainingRecord:
    """The record of a fit; it does not affect the equality of models.

    Attributes
    ----------
    history
        The metrics by round: ``round``, and a column for each metric; no metrics if nothing was evaluated.
    best_round, best_score
        The round, from 1, with the best last metric, and its value.
    hint
        A last line for the text of the model.
    leaderboard
        The trials of `frameboost.auto`.
    out_of_fold
        Out-of-fold predictions, or the reason why there are none; not stored in files.
    """

    history: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema={"round": pl.Int64}))
    best_round: int | None = None
    best_score: float | None = None
    hint: str = ""
    leaderboard: pl.DataFrame = field(default_factory=pl.DataFrame)
    out_of_fold: pl.DataFrame | str = ""

    def of_rounds(self, start: int, stop: int, n_rounds: int) -> TrainingRecord:
        """Return the record of a slice; one of the first rounds keeps the best round if it contains it."""
        if (start, stop) == (0, n_rounds):
            return self
        if start > 0 or self.best_round is None or self.best_round > stop:
            return self.without_rounds()
        return replace(self.without_rounds(), best_round=self.best_round, best_score=self.best_score)

    def without_rounds(self) -> TrainingRecord:
        """Return the record of a model with changed leaves: without metrics."""
        return TrainingRecord(hint=self.hint, leaderboard=self.leaderboard)


@dataclass(frozen=True, repr=False)
class Ensemble:
    """Trees, the margins that they add to, and the loss that turns margins into predictions.

    Training and importers return one; models, model files and compilers are built from one.

    The trees are in rounds. A round has ``num_parallel_tree`` trees for output 0, then as many for output 1, and so on:
    with two outputs and no parallel trees, tree 5 belongs to round 2 (counted from 0) and output 1.

    Attributes
    ----------
    loss
        The loss, with the links from margins to predictions.
    parameters
        The training parameters that determine the trees, by name; few or none for another library's model.
    features
        The columns, in the order in which `Tree.feature` numbers them.
    base_margins
        The margin before the first tree, for each output.
    trees
        All trees, round by round: a tuple, or an equivalent sequence.
    calibration
        The calibrated link, which replaces that of the loss, as an expression over ``margin``, or None.
    labels
        The class labels, by index: strings, or False and True. None if classes are numbers, and for a regression.
    interval
        The prediction intervals of `frameboost.Model.conform`, or None. They belong to these trees, so derived
        ensembles with other trees have none.
    joins
        The dimensions, if the model was trained on a star (see `frameboost.join`).
    offset
        The offset, or None.
    training
        The record of training, which does not affect predictions.
    metadata
        Name, version, tags, and facts about training.
    baseline
        The baseline, or None.
    in_file
        The ensemble to write to files, if this one reads other columns of base margins (`started_from`).
    """

    loss: Loss
    parameters: Mapping[str, Any]
    features: tuple[Feature, ...]
    base_margins: tuple[float, ...]
    trees: Sequence[Tree]
    calibration: Expression | None = None
    labels: Labels = ()
    interval: Interval | None = None
    joins: tuple[TableJoin, ...] = ()
    offset: Offset | None = None
    training: TrainingRecord = field(default_factory=TrainingRecord, compare=False)
    metadata: Metadata = field(default_factory=Metadata, compare=False)
    baseline: Baseline | None = field(default=None, compare=False)
    in_file: Ensemble | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        trees, features = counted(len(self.trees), "tree"), counted(len(self.features), "feature")
        return f"Ensemble: {shortened(self.loss.name)}, {trees}, {features}"

    @property
    def n_outputs(self) -> int:
        """The number of margins: one, or one for each class, quantile or target."""
        return self.loss.n_outputs

    @property
    def output_labels(self) -> Labels:
        """The label of each margin, if margins belong to labelled classes; otherwise empty."""
        return self.labels if self.loss.has_margin_of_each_class else ()

    @property
    def feature_names(self) -> list[str]:
        """The names of the columns, in order."""
        return [feature.name for feature in self.features]

    @property
    def read_features(self) -> tuple[Feature, ...]:
        """The columns that margins depend on: the features, and those of the offset."""
        if self.offset is None:
            return self.features
        names = self.feature_names
        return (*self.features, *(feature for feature in self.offset.features if feature.name not in names))

    @property
    def read_names(self) -> list[str]:
        """The names of `read_features`."""
        return [feature.name for feature in self.read_features]

    def find_in(self, source: Source) -> dict[str, FeatureType]:
        """Return the types of the features in the data.

        Raises
        ------
        DataError
            If a column of `read_features` is not in the data, or has an incompatible type.
        """
        types = find_features(source, self.features)
        if self.offset is not None:
            find_numbers(source, self.offset.names, self.offset.kind)
        return types

    def started_from(self, base_margin: str | Sequence[str] | None) -> Ensemble:
        """Return the ensemble with other columns of base margins than in training, if any are passed.

        Without an offset in training the columns replace the base margins, as models of other libraries and older files
        do not record base margins given an offset.

        Raises
        ------
        ParameterError
            If the number of columns differs from that of margins, or the offset is an exposure.
        """
        if base_margin is None:
            return self
        columns = (base_margin,) if isinstance(base_margin, str) else tuple(base_margin)
        if len(columns) != self.n_outputs:
            raise ParameterError(
                f"base_margin must name a column for each of {self.n_outputs} margins, not {shown(list(columns))}"
            )
        if self.offset is None:
            zeros, offset = (0.0,) * self.n_outputs, Offset("base_margin", columns)
            return replace(self, base_margins=zeros, offset=offset, in_file=self)
        if self.offset.kind != "base_margin":
            raise ParameterError(
                f"base_margin can't be combined with the {self.offset} of the model, which is read from the data"
            )
        if columns == self.offset.columns:
            return self
        return replace(self, offset=Offset("base_margin", columns), in_file=self)

    @property
    def n_leaves(self) -> int:
        """The number of leaves of all trees."""
        return count_leaves(self.trees)

    @property
    def is_linear(self) -> bool:
        """Whether some leaf is linear."""
        return are_linear(self.trees)

    @property
    def parallel_trees(self) -> int:
        """The number of trees for each output in a round."""
        return int(self.parameters.get("num_parallel_tree", 1))

    @property
    def trees_per_round(self) -> int:
        """The number of trees in a round."""
        return self.n_outputs * self.parallel_trees

    @property
    def n_rounds(self) -> int:
        """The number of boosting rounds."""
        return len(self.trees) // self.trees_per_round

    def needs_float64(self) -> list[str]:
        """Return the float64 features of a model trained here with thresholds too fine for float32.

        Such a threshold is no multiple of the greatest power of ten within a step of float32, so it lies between values
        that are equal as float32 (see `frameboost.binning.bins`); or it equals another threshold as float32. Long
        columns have a few, with few rows nearby: a feature is listed if an eighth of its thresholds are such.
        """
        if "max_bin" not in self.parameters:  # imported from another library, which may compare float32
            return []
        nodes, coarse = TreeColumns.of(self.trees).nodes, []
        for number, feature in enumerate(self.features):
            if feature.type.name == "float64":
                used = np.unique(nodes["threshold"][nodes["feature"] == number])
                used = used[np.abs(used) < _NEXT_TO_INFINITY]
                with np.errstate(over="ignore", invalid="ignore"):
                    single = used.astype(np.float32)
                    exponent = np.floor(np.log10(np.spacing(np.abs(single)).astype(np.float64)))
                power = 10.0 ** np.abs(exponent)  # by which a number is rounded once, within 10^22
                is_coarse = np.where(exponent < 0, np.rint(used * power) / power, np.rint(used / power) * power) == used
                is_duplicate = np.append(False, single[1:] == single[:-1])[: len(used)]
                if 8 * np.count_nonzero(is_duplicate | ~is_coarse) >= max(len(used), 1):
                    coarse.append(feature.name)
        return coarse

    def trees_of(self, output: int) -> list[Tree]:
        """Return the trees that add to one output's margin."""
        return [tree for tree in self.trees if tree.output == output]

    @property
    def depth(self) -> int:
        """The depth of the deepest tree, 0 if there is none."""
        return max(TreeColumns.of(self.trees).depths(), default=0)

    def trees_by_output(self) -> Sequence[Sequence[Tree]]:
        """Return the trees that add to each output's margin, in one pass over all trees."""
        if self.n_outputs == 1:
            return [self.trees]
        trees_of: list[list[Tree]] = [[] for _ in range(self.n_outputs)]
        for tree in self.trees:
            trees_of[tree.output].append(tree)
        return trees_of

    def margin_number(self, output: int | str | None) -> int:
        """Return the index of a margin, from an index or a label; None selects the only one.

        Raises
        ------
        ParameterError
            If there is no such margin, or None is ambiguous.
        """
        if output is None and self.n_outputs == 1:
            return 0
        labels = self.output_labels
        if isinstance(output, str) and output in labels:
            return labels.index(output)
        if not isinstance(output, int) or isinstance(output, bool) or not 0 <= output < self.n_outputs:
            or_label = f" or one of the labels {listed(labels)}" if labels else ""
            raise ParameterError(
                f"output must be the number of a margin, from 0 to {self.n_outputs - 1}{or_label}, not {shown(output)}"
            )
        return output

    def output(self, name: str) -> Output:
        """Return an output by name, as expressions over the margins; raise `ParameterError` if it is unknown."""
        return output_of(self.loss, name, self.calibration, self.labels, self.interval)

    def rounds(self, start: int, stop: int, step: int = 1) -> Ensemble:
        """Return the ensemble of every ``step``-th round from ``start`` to ``stop`` (exclusive), counted from 0."""
        if (start, stop, step) == (0, self.n_rounds, 1) and self.interval is None:
            return self
        n, training = self.trees_per_round, self.training.of_rounds(start, stop, self.n_rounds)
        trees = self.trees[start * n : stop * n]
        if step > 1:
            trees = tuple(tree for first in range(0, len(trees), step * n) for tree in trees[first : first + n])
            training = training.without_rounds()
        return self.changed(trees=trees, interval=None, training=training)

    def changed(self, **fields: Any) -> Ensemble:
        """Return the ensemble with other values of some fields, which change predictions.

        It has no version and no baseline.
        """
        return replace(self, metadata=self.metadata.of_another_model(), baseline=None, **fields)
