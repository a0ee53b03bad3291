"""Models that exist already: from a model file, or from another library's model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from frameboost.checks.arguments import checked
from frameboost.ensemble.model_file import read_model
from frameboost.interop.any_file import Categories, read_any_file
from frameboost.interop.catboost.reader import read_catboost
from frameboost.interop.lightgbm.reader import read_lightgbm
from frameboost.interop.sklearn import read_sklearn
from frameboost.interop.xgboost.reader import best_round, read_xgboost
from frameboost.model.model import Model

__all__ = ["from_catboost", "from_lightgbm", "from_sklearn", "from_xgboost", "load", "open_model"]


@checked()
def load(path: str | Path) -> Model:
    """Read a model from a file that `Model.save` has written. Nothing in the file is run, and all of it is checked.

    Raises
    ------
    ModelFileError
        If the file is not a model, or is damaged; the message says where.
    OSError
        If it can't be read.

    Examples
    --------
    >>> import frameboost as fb, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.json"
    >>> _ = path.write_text("{}")
    >>> fb.load(path)
    Traceback (most recent call last):
    frameboost.errors.ModelFileError: not a frameboost model: "format" must be "frameboost", not null
    """
    return Model(read_model(Path(path).read_bytes()))


def open_model(path: str | Path, categories: Categories | None = None) -> Model:
    """Read a model from a file of frameboost, XGBoost, LightGBM or CatBoost, which its content tells apart.

    Parameters
    ----------
    path
        A file of frameboost's, XGBoost's JSON or UBJSON, LightGBM's text, or CatBoost's JSON.
    categories
        For a model of CatBoost's, which keeps only hashes of them: called with the names of the columns that it knows
        as categorical, it returns the values that each had in training.

    Raises
    ------
    ModelFileError
        If it is none of them, or damaged; the message says where.
    ParameterError
        If the model is one that can't be had here.
    OSError
        If the file can't be read.

    Examples
    --------
    >>> import polars as pl, frameboost as fb, tempfile, pathlib
    >>> model = fb.fit(pl.DataFrame({"x": [1, 2, 3], "y": [0, 0, 8]}), "y", n_estimators=1)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.json"
    >>> model.save(path)
    >>> open_model(path) == model
    True
    """
    return Model(read_any_file(path, categories))


def from_xgboost(model: Any) -> Model:
    """Return the model that XGBoost trained.

    Every row ends in the leaf in which XGBoost has it, and the margin is the sum of XGBoost's own leaf values, which
    XGBoost rounds to float32 after each tree; here it is exact. XGBoost need not be installed to read a file.

    The columns of the data that is scored:

    - *Numbers*, of any type, under the booster's ``feature_names``; without names they are ``f0``, ``f1`` and so on.
      XGBoost rounds every number to a float32 before it compares it. Thresholds are moved so that a float64 comes to
      the same side without (``x < 0.5`` becomes ``x < 0.49999998509883881``).
    - *Booleans*, of feature type ``i``, which XGBoost gives to columns of Booleans. (If a split on one makes no sense
      for Booleans, they are numbers.)
    - *Categories*: strings, where the model has their names, as XGBoost 3.1 and later keep them if it is trained on a
      pandas or polars frame (but of a pandas frame XGBoost 3.2 spoils names that are not ASCII: check
      ``Model.trees``). Otherwise the codes, whole numbers, with which XGBoost was trained. A category that is new goes
      where XGBoost sends a code that is new, if it does not refuse the frame. (XGBoost cuts off what a code has behind
      the point; here 1.5 is a category that is new.)
    - *Missing* are NULL and NaN; another value given as ``missing`` to XGBoost must be made NULL.

    Parameters
    ----------
    model
        An ``xgboost.Booster``, an estimator for scikit-learn (``xgboost.XGBClassifier``, ...), the path of a JSON or
        UBJSON file, or what is in such a file as bytes. Of an estimator that stopped early, the trees up to the best
        round, as its ``predict`` has it; otherwise all trees, as `xgboost.Booster.predict` has it.

    Returns
    -------
    frameboost.Model
        With a loss of the same name; where XGBoost trained in a way that frameboost has not, with a loss of that name
        after ``xgboost:`` of which only the link is known (``xgboost:custom`` for an estimator whose objective is a
        function; a booster does not keep that it had one). Gains and covers are XGBoost's; the value of an inner node
        is the mean of the leaves below it, as XGBoost does not keep what it would be as a leaf.

    Raises
    ------
    ModelFileError
        If it is no model of XGBoost, or a damaged one.
    ParameterError
        If the model can't be had here, such as a linear one (``gblinear``), or is not trained yet.
    OSError
        If the file can't be read.

    Examples
    --------
    >>> import numpy as np, polars as pl, xgboost, frameboost as fb
    >>> x = np.array([[1.0], [2.0], [3.0], [4.0]])
    >>> booster = xgboost.train({"eta": 1, "lambda": 0}, xgboost.DMatrix(x, label=[0, 0, 8, 8]), num_boost_round=1)
    >>> model = fb.from_xgboost(booster)
    >>> model
    Model: reg:squarederror, 1 tree (depth 1, 2 leaves), 1 feature
      f0  float64
    >>> model.predict(pl.DataFrame({"f0": [1, 2, 3, None]})).to_list()
    [0.0, 0.0, 8.0, 8.0]
    """
    ensemble = read_xgboost(model)
    round_, score = best_round(model)
    return Model(ensemble, best_round=round_, best_score=score)


def from_lightgbm(model: Any) -> Model:
    """Return a model of LightGBM's as a model of frameboost's that predicts the same.

    Margins differ from LightGBM's by rounding in the last bits only, and every row ends in the same leaves. As with
    ``Booster.predict``, early stopping's best iteration counts where there is one.

    Columns are found by the names that LightGBM knows them by, in which it makes every space an underscore. A column of
    pandas categories is a column of strings (or whole numbers) here. Other categories are whole numbers: LightGBM would
    cut off a fraction, while here 1.5 is a category never seen. The labels of ``LGBMClassifier`` are numbered in the
    order of its ``classes_``. The cover of a node is its number of rows, as in LightGBM's ``pred_contrib``.

    Parameters
    ----------
    model
        A ``lightgbm.Booster``, a fitted estimator such as ``LGBMClassifier``, the path to a model saved as text, or
        that text as bytes.

    Raises
    ------
    ModelFileError
        If the text is damaged, or is no model of LightGBM's.
    ParameterError
        If it is another kind of object, or the model has linear leaves, an objective that is not known, or categories
        that are neither strings nor whole numbers or can't be told apart from other columns'.

    Examples
    --------
    >>> import polars as pl, frameboost as fb
    >>> text = b'''tree
    ... version=v4
    ... num_class=1
    ... num_tree_per_iteration=1
    ... max_feature_idx=0
    ... objective=regression
    ... feature_names=x
    ... feature_infos=[1:4]
    ...
    ... Tree=0
    ... num_leaves=2
    ... split_feature=0
    ... threshold=2.5
    ... decision_type=2
    ... left_child=-1
    ... right_child=-2
    ... leaf_value=0 8
    ...
    ... end of trees
    ... '''
    >>> model = fb.from_lightgbm(text)
    >>> model.predict(pl.DataFrame({"x": [1.0, 2.5, 3.0]})).to_list()
    [0.0, 0.0, 8.0]
    """
    return Model(read_lightgbm(model))


def from_catboost(model: Any, categories: Mapping[str, Iterable[Any]] | None = None) -> Model:
    """Return a model of CatBoost's as a model of frameboost's that predicts the same.

    Every row ends in the same leaves, and margins differ by rounding in the last bits only. Predictions are what
    ``CatBoostClassifier`` gives as probabilities, and CatBoost's ``predict`` of other models. Columns are found by the
    names that CatBoost knows them by, which are ``"0"``, ``"1"`` and so on where it was given none. Classes are
    numbered in the order of ``classes_``.

    A category never seen in training goes where all go that a split does not ask for, and so does NULL: CatBoost, which
    takes no NULL as a category, would take it for a string such as ``"nan"``. A categorical column that no split asks
    about is not among the features, unless ``categories`` has it.

    Parameters
    ----------
    model
        A fitted ``catboost.CatBoost``, ``CatBoostRegressor``, ``CatBoostClassifier`` or ``CatBoostRanker``, the path to
        a model saved as JSON, or that JSON as bytes.
    categories
        For each categorical column that the model splits by, its distinct values in training, strings or whole numbers:
        ``{"carrier": df["carrier"].unique()}``. CatBoost keeps only hashes of them.

    Raises
    ------
    ModelFileError
        If the JSON is damaged, or is no model of CatBoost's.
    ParameterError
        If it is another kind of object or is not fitted, the categories of a column are not given, or lack one that a
        split asks for, or the model has splits on statistics of categories: train with ``one_hot_max_size`` not less
        than the number of categories.

    Examples
    --------
    >>> import polars as pl, frameboost as fb
    >>> model = fb.from_catboost(b'''{
    ...     "model_info": {"params": {"loss_function": {"type": "RMSE", "params": {}}}},
    ...     "features_info": {"categorical_features": [
    ...         {"feature_index": 0, "flat_feature_index": 0, "feature_id": "c"}
    ...     ]},
    ...     "oblivious_trees": [{
    ...         "splits": [{"split_type": "OneHotFeature", "cat_feature_index": 0, "value": -784473192}],
    ...         "leaf_values": [1, 2], "leaf_weights": [3, 4]
    ...     }],
    ...     "scale_and_bias": [1, [0.5]]
    ... }''', categories={"c": ["w", "x"]})
    >>> model.predict(pl.DataFrame({"c": ["w", "x", None]})).to_list()
    [1.5, 2.5, 1.5]
    """
    return Model(read_catboost(model, categories))


def from_sklearn(estimator: Any) -> Model:
    """Return a model of scikit-learn's as a model of frameboost's that predicts the same.

    Every row ends in the same leaves, and margins differ by rounding in the last bits only. Of forests and trees the
    margin is the prediction itself. Columns are found by ``feature_names_in_``; without names they are called ``x0``,
    ``x1`` and so on. A classifier's classes are numbered in the order of its ``classes_``. (Where two classes are
    equally likely to the last bit, the first counts; `GradientBoostingClassifier` takes the second.)

    Parameters
    ----------
    estimator
        A fitted ``GradientBoosting...``, ``HistGradientBoosting...``, ``RandomForest...``, ``ExtraTrees...``,
        ``DecisionTree...`` or ``ExtraTree...``, regressor or classifier.

    Raises
    ------
    ParameterError
        If it is another kind of object, is not fitted, starts from predictions of another model (``init``), predicts
        several columns of classes, or has categories that are neither strings nor whole numbers.

    Examples
    --------
    >>> import polars as pl, frameboost as fb
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> x, y = [[1.0], [2.0], [3.0], [4.0]], [0.0, 0.0, 8.0, 8.0]
    >>> model = fb.from_sklearn(GradientBoostingRegressor(n_estimators=1, learning_rate=1.0).fit(x, y))
    >>> print(model.trees["condition"][0])
    "x0" < 2.50000011920929e0
    >>> model.predict(pl.DataFrame({"x0": [1.0, 2.5, 3.0]})).to_list()
    [0.0, 0.0, 8.0]
    """
    return Model(read_sklearn(estimator))
