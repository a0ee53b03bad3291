"""The model: trees that predict in Python, become a polars expression, or run as SQL."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import polars as pl

from frameboost.checks.arguments import anything, checked, column, slice_of_rounds, word
from frameboost.checks.messages import shown
from frameboost.data.atomic_files import write_text
from frameboost.ensemble.ensemble import Ensemble
from frameboost.ensemble.model_file import dump_model
from frameboost.errors import ParameterError
from frameboost.model.explaining_model import ExplainingModel
from frameboost.model.exporting_model import ExportingModel
from frameboost.model.inspect import importance_frame, summary, tree_frame
from frameboost.model.labelled import labelled_margins
from frameboost.training.calibration import METHODS, calibrated
from frameboost.trees.leaf_grid import on_leaf_grid

__all__ = ["Model"]

# What is made of the trees when it is first asked for, and goes into no copy or pickle.
_MADE_AGAIN = ("_arrays", "_byte_trees", "_margin_exprs")


class Model(ExportingModel, ExplainingModel):
    """A trained ensemble of trees; made by `frameboost.fit` or `frameboost.load`.

    A model is a value: nothing changes it, and two models are equal where their files would be.

    Examples
    --------
    >>> import polars as pl, frameboost as fb
    >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
    >>> model = df.pipe(fb.fit, target="y", n_estimators=2, learning_rate=0.5, reg_lambda=0)
    >>> model
    Model: reg:squarederror, 2 trees (depth 1, 4 leaves), 1 feature
      x  int64
    >>> model.predict(df).to_list()
    [1.0, 1.0, 7.0, 7.0]
    """

    def __init__(
        self,
        ensemble: Ensemble,
        *,
        history: pl.DataFrame | None = None,
        best_round: int | None = None,
        best_score: float | None = None,
    ) -> None:
        self._ensemble = ensemble
        self._loss, self._features, self._calibration = ensemble.loss, ensemble.features, ensemble.calibration
        self._base_margins, self._trees = ensemble.base_margins, ensemble.trees
        self._parameters = dict(ensemble.parameters)
        self._history = pl.DataFrame(schema={"round": pl.Int64}) if history is None else history
        self._best_round, self._best_score = best_round, best_score

    # --- what it is ---------------------------------------------------------------------------------------------------

    @property
    def ensemble(self) -> Ensemble:
        """The trees as training made them, with their loss and features: what the model's file holds.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=1).ensemble.trees[0].threshold
        (2, None, None)
        """
        return self._ensemble

    @property
    def objective(self) -> str:
        """The name of the loss that the model was trained on.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=3, max_depth=2).objective
        'reg:squarederror'
        """
        return self._loss.name

    @property
    def parameters(self) -> dict[str, Any]:
        """The training parameters that shaped the model, by name.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=3, max_depth=2).parameters["max_depth"]
        2
        """
        return deepcopy(dict(self._parameters))

    @property
    def features(self) -> list[str]:
        """The names of the columns that the model reads, in order.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=3, max_depth=2).features
        ['x']
        """
        return [feature.name for feature in self._features]

    @property
    def base_margin(self) -> float | list[float]:
        """The margin before the first tree; of several outputs a list.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=3, max_depth=2).base_margin
        4.0
        """
        return self._base_margins[0] if len(self._base_margins) == 1 else list(self._base_margins)

    @property
    def n_trees(self) -> int:
        """The number of trees.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=3, max_depth=2).n_trees
        3
        """
        return len(self._trees)

    @property
    def n_rounds(self) -> int:
        """The number of boosting rounds, each of which has a tree for each output (and parallel tree).

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3], "y": [0, 1, 2]})
        >>> model = fb.fit(df, "y", objective="multi:softprob", n_estimators=3)
        >>> model.n_rounds, model.n_trees
        (3, 9)
        """
        return self._ensemble.n_rounds

    @property
    def history(self) -> pl.DataFrame:
        """The metrics of each round: ``round`` from 1, then a column for each set of rows and metric.

        Not part of the model's file, and empty in a model that was loaded or had nothing to evaluate.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4] * 2, "y": [0.0, 0.0, 8.0, 8.0] * 2})
        >>> model = fb.fit(df[:4], "y", valid=df[4:], n_estimators=2, learning_rate=0.5, reg_lambda=0)
        >>> model.history.rows(named=True)
        [{'round': 1, 'train_rmse': 2.0, 'valid_rmse': 2.0}, {'round': 2, 'train_rmse': 1.0, 'valid_rmse': 1.0}]
        """
        return self._history.clone()

    @property
    def best_iteration(self) -> int | None:
        """The round, from 1, at which early stopping found the best score, and after which there are no trees.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 1, 2], "y": [0.0, 8.0, 0.0, 8.0], "late": [False, False, True, True]})
        >>> fb.fit(df, "y", valid="late", early_stopping_rounds=2, learning_rate=1, reg_lambda=0).best_iteration
        1
        """
        return self._best_round

    @property
    def best_score(self) -> float | None:
        """The metric at `best_iteration`, on the rows that early stopping watched.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 1, 2], "y": [0.0, 8.0, 0.0, 8.0], "late": [False, False, True, True]})
        >>> fb.fit(df, "y", valid="late", early_stopping_rounds=2, learning_rate=1, reg_lambda=0).best_score
        0.0
        """
        return self._best_score

    @checked(rounds=slice_of_rounds)
    def __getitem__(self, rounds: slice) -> Model:
        start, stop, _ = rounds.indices(self.n_rounds)
        if stop <= start:
            raise ParameterError(f"the slice has no rounds; the model has {self.n_rounds}")
        return Model(self._ensemble.rounds(start, stop))

    @property
    def trees(self) -> pl.DataFrame:
        """The trees as a frame, a row a node.

        Columns: ``tree`` and ``node`` (numbers from 0), ``depth``, ``feature`` (null in a leaf), ``threshold``
        (Float64: a present value less than it goes left; dates and times as days or units since 1970; null for
        categories and for splits that ask only whether the value is present), ``categories`` (those on the side that
        missing does not go to), ``missing`` ("left" or "right"), ``left`` and ``right`` (child nodes), ``gain``
        (without the paper's ½, as in XGBoost), ``cover`` (sum of hessians), ``value`` (of a leaf; of an inner node
        what it would be as a leaf), ``condition`` (what sends a present value left, exact, as SQL).

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> fb.fit(df, "y", n_estimators=1).trees.select("node", "feature", "threshold", "gain", "condition").rows()
        [(0, 'x', 3.0, 42.666666666666664, '"x" < 3'), (1, None, None, 0.0, None), (2, None, None, 0.0, None)]
        """
        return tree_frame(self._trees, self._features, several=self._loss.n_outputs > 1)

    @checked(kind=anything)
    def importance(
        self, kind: Literal["gain", "total_gain", "weight", "cover", "total_cover"] = "gain"
    ) -> pl.DataFrame:
        """Return how much each feature matters, the most important first.

        Parameters
        ----------
        kind
            ``weight``: the number of splits on it; ``total_gain`` and ``total_cover``: the sum of their gains and
            covers; ``gain`` and ``cover``: the mean, 0 for a feature that is never split on.

        Returns
        -------
        polars.DataFrame
            Columns ``feature`` (String) and ``importance`` (Float64), a row a feature.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "z": [1, 1, 1, 2], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> fb.fit(df, "y", n_estimators=3).importance("weight").rows()
        [('x', 3.0), ('z', 0.0)]
        """
        return importance_frame(self._trees, self._features, kind)

    @checked(target=column, method=word(*METHODS))
    def calibrate(
        self, data: Any, target: str, *, method: Literal["platt", "isotonic"] = "platt", weight: str | None = None
    ) -> Model:
        """Return the model with probabilities that come true on these rows, which it should not have been trained on.

        The calibration is part of the model: of its file, its SQL and its polars expression.

        Parameters
        ----------
        data
            As for `predict`.
        target, weight
            The columns of the labels, 0 and 1, and of weights.
        method
            ``"platt"``: a logistic function of the margin; ``"isotonic"``: any non-decreasing one.

        Raises
        ------
        ParameterError
            If the model is not for two classes, or has more than one margin.
        DataError
            If the labels are not 0 and 1, both.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4] * 25, "y": [False, False, True, True] * 25})
        >>> model = fb.fit(df, "y", objective="binary:logistic", n_estimators=2)
        >>> model.predict(df[:4]).round(2).to_list()
        [0.27, 0.27, 0.73, 0.73]
        >>> model.calibrate(df, "y", method="isotonic").predict(df[:4]).to_list()
        [0.0, 0.0, 1.0, 1.0]
        """
        if self._loss.classes != 2 or self._loss.n_outputs > 1:
            found = f"{shown(self.objective)} with {self._loss.n_outputs}"
            raise ParameterError(f"calibrate is for models of two classes with one margin, not for {found}")
        margins, labels, weights = labelled_margins(self, data, target, weight)
        ensemble = replace(self._ensemble, calibration=calibrated(margins, labels, weights, method))
        return Model(ensemble, history=self._history, best_round=self._best_round, best_score=self._best_score)

    @checked()
    def refit(
        self,
        data: Any,
        target: str | Sequence[str],
        *,
        weight: str | None = None,
        label_upper_bound: str | None = None,
        group: str | None = None,
        decay_rate: float = 0.0,
    ) -> Model:
        """Return the model with leaf values learnt from other rows; what its trees ask stays as it is.

        Round by round as in training, with the parameters of training; the rows are read into memory. A leaf that no
        row reaches keeps its value.

        Parameters
        ----------
        data, target, weight, label_upper_bound, group
            As for `frameboost.fit`; the features must have the types of training.
        decay_rate
            Share of the old value in the new one, from 0 to 1 (LightGBM's ``refit``).

        Raises
        ------
        ParameterError
            If the model is calibrated, was trained with ``booster="dart"``, or ``decay_rate`` is out of range.
        DataError
            If the data can't be trained on.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
        >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
        >>> model.refit(df.with_columns(y=pl.col("y") + 1), "y").predict(df).to_list()
        [1.0, 1.0, 9.0, 9.0]
        """
        why = self._why_not_refit()
        if why is not None:
            raise ParameterError(f"the model {why}, which does not go with refit")
        from frameboost.training.refit import refitted_trees  # which needs numba

        trees = refitted_trees(
            data, target, weight, label_upper_bound, group, float(decay_rate), self._loss, self._parameters,
            self._features, self._base_margins, self._trees,
        )  # fmt: skip
        base_margins, on_grid = on_leaf_grid(self._base_margins, trees)
        return Model(replace(self._ensemble, base_margins=base_margins, trees=on_grid))

    def _why_not_refit(self) -> str | None:
        if self._calibration is not None:
            return "is calibrated"
        if self._parameters.get("booster") == "dart":
            return "has trees weighted by dropout"
        is_own = self._loss.is_trainable and "learning_rate" in self._parameters
        return None if is_own else "comes from another library, whose parameters are not known"

    def __repr__(self) -> str:
        return summary(self.objective, self._trees, self._features)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _MADE_AGAIN}

    # --- files --------------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Return the model file's text: the same text for the same model (see ``docs/model-file.md``).

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> model = fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=1)
        >>> print(model.to_json()[:38])
        {
        "format": "frameboost",
        "version": 1
        """
        return dump_model(self._ensemble)

    @checked()
    def save(self, path: str | Path) -> None:
        """Write the model to a JSON file; a file of that name is replaced once all is written.

        Examples
        --------
        >>> import polars as pl, frameboost as fb, tempfile, pathlib
        >>> model = fb.fit(pl.DataFrame({"x": [1, 2, 3], "y": [0, 0, 8]}), "y", n_estimators=1)
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.json"
        >>> model.save(path)
        >>> fb.load(path) == model
        True
        """
        write_text(path, self.to_json())
