"""Load models from model files and from models of other libraries."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from frameboost.checks.arguments import checked
from frameboost.checks.arguments import path as check_path
from frameboost.checks.json_files import other_form
from frameboost.ensemble.ensemble import Ensemble
from frameboost.ensemble.model_file import FORMAT, read_model
from frameboost.errors import FrameboostError, ModelFileError
from frameboost.interop.catboost import categorical_names, read_catboost
from frameboost.interop.files import library_of_file, read_bytes
from frameboost.interop.lightgbm import read_lightgbm
from frameboost.interop.sklearn import read_sklearn
from frameboost.interop.xgboost import best_round, read_xgboost
from frameboost.model.model import Model

__all__ = [
    "from_catboost", "from_lightgbm", "from_sklearn", "from_xgboost", "load", "open_model", "read_any_file",
]  # fmt: skip

_LIBRARIES = {"xgboost": "XGBoost", "lightgbm": "LightGBM", "catboost": "CatBoost"}
_KNOWN = "it is not a model of frameboost or XGBoost (JSON or UBJSON), LightGBM (text) or CatBoost (JSON)"
# Takes the names of categorical columns; returns the distinct values of each.
Categories = Callable[[list[str]], Mapping[str, Iterable[Any]]]


@checked()
def load(path: str | Path) -> Model:
    """Load a model from a file that `Model.save` wrote. The file is validated; nothing in it is executed.

    Raises
    ------
    ModelFileError
        If the file is not a model, or is damaged; the message contains the path.
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
    data = read_bytes(path)
    library = library_of_file(data)
    if library in _LIBRARIES:
        raise ModelFileError(
            f"not a frameboost model: it looks like one of {_LIBRARIES[library]}, which fb.from_{library}(path) reads"
        )
    return Model(read_model(data))


def open_model(path: str | Path, categories: Categories | None = None) -> Model:
    """Load a model from a file of frameboost, XGBoost, LightGBM or CatBoost; the format is detected from the content.

    Parameters
    ----------
    path
        A frameboost model file, JSON or UBJSON of XGBoost, text of LightGBM, or JSON of CatBoost.
    categories
        For CatBoost models, which store only hashes of categories: a function from the names of the categorical columns
        to the distinct values of each in training.

    Raises
    ------
    ModelFileError
        If the format is unknown or the file is damaged; the message contains the path.
    ParameterError
        If the model uses a feature that frameboost lacks.
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


def read_any_file(path: str | Path, categories: Categories | None = None) -> Ensemble:
    """Read a model from a file of any library (see `open_model`)."""
    check_path("path", path)
    data = read_bytes(path)
    try:
        return _reader(data, categories)(data)
    except FrameboostError as error:
        raise type(error)(f"{path}: {error}") from error


def _reader(data: bytes, categories: Categories | None) -> Callable[[bytes], Ensemble]:
    readers: dict[str, Callable[[bytes], Ensemble]] = {
        "frameboost": read_model,
        "xgboost": read_xgboost,
        "lightgbm": read_lightgbm,
        "catboost": lambda text: read_catboost(text, categories and categories(categorical_names(text))),
    }
    return readers[_writer(data)]


def _writer(data: bytes) -> str:
    """Return the library that wrote a file."""
    if library := library_of_file(data):
        return library
    if what := other_form(data):
        raise ModelFileError(f"not a model that can be read here: {what}")
    return _writer_of_json(data)


def _writer_of_json(text: bytes) -> str:
    try:
        document = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"not a model that can be read here: {_KNOWN}") from error
    if isinstance(document, dict):
        if document.get("format") == FORMAT:
            return "frameboost"
        if "learner" in document:
            return "xgboost"
        if {"oblivious_trees", "features_info", "model_info"} & set(document):
            return "catboost"
        if "tree_info" in document:
            raise ModelFileError(
                "not a model that can be read here: it is LightGBM's JSON dump; save it as text, by its save_model"
            )
    raise ModelFileError(f"not a model that can be read here: {_KNOWN}")


def from_xgboost(model: Any) -> Model:
    """Convert an XGBoost model to a frameboost model with the same predictions.

    Every row reaches the same leaf as in XGBoost. The margin is the exact sum of the leaf values; XGBoost rounds the
    sum to float32 after each tree. Reading a file does not need XGBoost installed.

    Columns of the data to score:

    - *Numbers* of any type, by the booster's ``feature_names``, or ``f0``, ``f1`` and so on if it has none. XGBoost
      rounds numbers to float32 before comparing; thresholds are adjusted so that a float64 goes to the same side
      without rounding (``x < 0.5`` becomes ``x < 0.49999998509883881``).
    - *Booleans* for XGBoost's feature type ``i``. (If a split is impossible for Booleans, the feature is a number.)
    - *Categories*: strings, if the model has their names, as XGBoost 3.1 and later keep them when trained on a pandas
      or polars frame. (From pandas frames XGBoost 3.2 damages names that are not ASCII: check ``Model.trees``.)
      Otherwise the integer codes of training. An unknown category takes the branch of an unknown code in XGBoost, which
      may refuse the frame instead. (XGBoost truncates a code to an integer; here 1.5 is a new category.)
    - *Missing values* are NULL and NaN; if the model was trained with another ``missing``, replace that value by NULL.

    Parameters
    ----------
    model
        An ``xgboost.Booster``, an estimator for scikit-learn (``xgboost.XGBClassifier``, ...), the path of a JSON or
        UBJSON file, or the bytes of such a file. An estimator that stopped early is read up to its best round, like its
        ``predict``; otherwise all trees are read, like `xgboost.Booster.predict`.

    Returns
    -------
    frameboost.Model
        A model with the same objective. If frameboost can't train it, the objective is named ``xgboost:`` and the name
        (``xgboost:custom`` if an estimator has a function; a booster does not record that), and can only score. Gains
        and covers are XGBoost's. The value of an inner node is the mean of the leaves below it, because XGBoost does
        not store it.

    Raises
    ------
    ModelFileError
        If it is not an XGBoost model, or is damaged.
    ParameterError
        If the model uses a feature that frameboost lacks, such as ``gblinear``, or is not trained.
    OSError
        If the file can't be read.

    Examples
    --------
    >>> # needs xgboost
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
    """Convert a LightGBM model to a frameboost model with the same predictions.

    Every row reaches the same leaves; margins differ only in the last bits, by rounding. As in ``Booster.predict``,
    trees after the best iteration of early stopping are dropped.

    Columns are read by LightGBM's feature names, in which spaces are underscores. Pandas categories become strings (or
    integers). Other categories are integers; LightGBM truncates fractions, whereas 1.5 is an unknown category here. The
    labels of an ``LGBMClassifier`` are numbered in the order of its ``classes_``. The cover of a node is its number of
    rows, as in LightGBM's ``pred_contrib``. Linear leaves (``linear_tree``) read numbers rounded to less than a
    millionth of their range in training, and clipped half a range or more outside it.

    Parameters
    ----------
    model
        A ``lightgbm.Booster``, a fitted estimator such as ``LGBMClassifier``, the path of a model saved as text, or its
        text as bytes.

    Raises
    ------
    ModelFileError
        If the text is damaged, or is not a LightGBM model.
    ParameterError
        If the type of the object is not supported, or the model has linear leaves of more than five features, an
        unknown objective, categories other than strings, integers and Booleans, or categories of an unknown column.

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
    """Convert a CatBoost model to a frameboost model with the same predictions.

    Every row reaches the same leaves; margins differ only in the last bits, by rounding. Predictions are the
    probabilities of a ``CatBoostClassifier``, and the result of ``predict`` of other models. Columns are read by
    CatBoost's names, or ``"0"``, ``"1"`` and so on if it had none. Classes are numbered in the order of ``classes_``.

    Unknown categories and NULL go to the side of the categories that a split does not list. (CatBoost has no NULL
    categories; it treats them as a string such as ``"nan"``.) A categorical column without splits is not a feature of
    the model, unless ``categories`` contains it.

    Parameters
    ----------
    model
        A fitted ``catboost.CatBoost``, ``CatBoostRegressor``, ``CatBoostClassifier`` or ``CatBoostRanker``, the path of
        a model saved as JSON, or its JSON as bytes.
    categories
        The distinct values in training, strings or integers, of each categorical column with splits: ``{"carrier":
        df["carrier"].unique()}``. CatBoost stores only their hashes.

    Raises
    ------
    ModelFileError
        If the JSON is damaged, or is not a CatBoost model.
    ParameterError
        If the type of the object is not supported or it is not fitted; if ``categories`` lacks a column, or a category
        that occurs in a split; if the model splits on statistics of categories (train with ``one_hot_max_size`` of at
        least the number of categories).

    Examples
    --------
    >>> # needs clickhouse_cityhash
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
    """Convert a scikit-learn model to a frameboost model with the same predictions.

    Every row reaches the same leaves; margins differ only in the last bits, by rounding. For forests and trees the
    margin is the prediction itself. Columns are read by ``feature_names_in_``, or ``x0``, ``x1`` and so on without
    names. Classes are numbered in the order of ``classes_``. (If two classes are equally likely to the last bit, the
    first is predicted; `GradientBoostingClassifier` predicts the second.)

    Parameters
    ----------
    estimator
        A fitted ``GradientBoosting...``, ``HistGradientBoosting...``, ``RandomForest...``, ``ExtraTrees...``,
        ``DecisionTree...`` or ``ExtraTree...``, regressor or classifier.

    Raises
    ------
    ParameterError
        If the type of the estimator is not supported; if it is not fitted, starts from the predictions of another model
        (``init``), predicts several columns of classes, or has categories other than strings, integers and Booleans.

    Examples
    --------
    >>> # needs sklearn
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
