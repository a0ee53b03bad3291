"""Models from model files and from other libraries' models: `load` and the ``from_...`` functions."""

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
    """Read a model from a file that `Model.save` has written. Nothing in the file is executed; all of it is checked.

    Raises
    ------
    ModelFileError
        If the file is not a model, or is damaged; the message has the path in it.
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
    """Read a model from a file of frameboost, XGBoost, LightGBM or CatBoost, which is recognised by its content.

    Parameters
    ----------
    path
        A file of frameboost's, XGBoost's JSON or UBJSON, LightGBM's text, or CatBoost's JSON.
    categories
        For CatBoost's models, which keep only hashes of categories: a function from the names of the categorical
        columns to the distinct values of each in training.

    Raises
    ------
    ModelFileError
        If it is none of them, or damaged; the message has the path in it.
    ParameterError
        If the model has something that frameboost lacks.
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
    """Return the library that wrote the file."""
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
    """Return a model of XGBoost's as a model of frameboost's that predicts the same.

    Every row ends in the same leaf as in XGBoost. The margin is the exact sum of XGBoost's leaf values; XGBoost itself
    rounds the sum to float32 after each tree. XGBoost need not be installed to read a file.

    The columns of the data that is scored:

    - *Numbers*, of any type, under the booster's ``feature_names``; without names they are ``f0``, ``f1`` and so on.
      XGBoost rounds every number to float32 before it compares. Thresholds are adjusted so that a float64 goes to the
      same side without rounding (``x < 0.5`` becomes ``x < 0.49999998509883881``).
    - *Booleans*, for feature type ``i``, which Boolean columns have in XGBoost. (If a split makes no sense for
      Booleans, the feature is a number.)
    - *Categories*: strings, if the model has their names, as XGBoost 3.1 and later keep them when trained on a pandas
      or polars frame. (From pandas frames XGBoost 3.2 damages names that are not ASCII: check ``Model.trees``.)
      Otherwise the integer codes that XGBoost was trained with. A new category goes where XGBoost sends a new code,
      unless it refuses the frame. (XGBoost truncates a code to an integer; here 1.5 is a new category.)
    - *Missing values* are NULL and NaN; replace another value of XGBoost's parameter ``missing`` by NULL.

    Parameters
    ----------
    model
        An ``xgboost.Booster``, an estimator for scikit-learn (``xgboost.XGBClassifier``, ...), the path of a JSON or
        UBJSON file, or the bytes of such a file. Of an estimator that stopped early, the trees up to the best round are
        read, as its ``predict`` uses them; otherwise all trees, as `xgboost.Booster.predict` uses them.

    Returns
    -------
    frameboost.Model
        With a loss of the same name. If frameboost cannot train the objective, the loss has only its link, and the
        name begins with ``xgboost:`` (``xgboost:custom`` for an estimator whose objective is a function; a booster does
        not say that it had one). Gains and covers are XGBoost's. The value of an inner node is the mean of the leaves
        below it, because XGBoost does not store the node's leaf weight.

    Raises
    ------
    ModelFileError
        If it is not a model of XGBoost's, or is damaged.
    ParameterError
        If the model has something that frameboost lacks, such as ``gblinear``, or is not trained yet.
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
    """Return a model of LightGBM's as a model of frameboost's that predicts the same.

    Every row ends in the same leaves, and margins differ by rounding in the last bits only. As in ``Booster.predict``,
    trees after the best iteration of early stopping are left out.

    Columns are read by LightGBM's feature names, in which every space is an underscore. A column of pandas categories
    is a column of strings (or integers) here. Other categories are integers: LightGBM truncates a fraction, while here
    1.5 is an unknown category. The labels of ``LGBMClassifier`` are numbered in the order of its ``classes_``. The
    cover of a node is its number of rows, as in LightGBM's ``pred_contrib``. Linear leaves (``linear_tree``) read
    numbers rounded to less than a millionth of their range in training, and clipped half a range or more outside of it.

    Parameters
    ----------
    model
        A ``lightgbm.Booster``, a fitted estimator such as ``LGBMClassifier``, the path to a model saved as text, or
        that text as bytes.

    Raises
    ------
    ModelFileError
        If the text is damaged, or is not a model of LightGBM's.
    ParameterError
        If it is another kind of object, or the model has linear leaves of more than five features, an unknown
        objective, or categories that are neither strings, integers nor Booleans, or whose column is not known.

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

    Every row ends in the same leaves, and margins differ by rounding in the last bits only. Predictions are the
    probabilities of ``CatBoostClassifier``, and the result of ``predict`` for other models. Columns are looked up by
    CatBoost's names, which are ``"0"``, ``"1"`` and so on if it had none. Classes are numbered in the order of
    ``classes_``.

    An unknown category goes to the side of the categories that a split does not name, and so does NULL. (CatBoost has
    no NULL categories; it would treat one as a string such as ``"nan"``.) A categorical column without splits is not
    among the features, unless ``categories`` has it.

    Parameters
    ----------
    model
        A fitted ``catboost.CatBoost``, ``CatBoostRegressor``, ``CatBoostClassifier`` or ``CatBoostRanker``, the path to
        a model saved as JSON, or that JSON as bytes.
    categories
        For each categorical column with splits, its distinct values in training, strings or integers:
        ``{"carrier": df["carrier"].unique()}``. CatBoost keeps only their hashes.

    Raises
    ------
    ModelFileError
        If the JSON is damaged, or is not a model of CatBoost's.
    ParameterError
        If it is another kind of object or is not fitted; if the categories of a column are not passed, or lack one that
        a split compares with; if the model has splits on statistics of categories (train with ``one_hot_max_size`` of
        at least the number of categories).

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
    """Return a model of scikit-learn's as a model of frameboost's that predicts the same.

    Every row ends in the same leaves, and margins differ by rounding in the last bits only. For forests and trees the
    margin is the prediction itself. Columns are read by ``feature_names_in_``; without names they are ``x0``, ``x1``
    and so on. A classifier's classes are numbered in the order of its ``classes_``. (Where two classes are
    equally likely to the last bit, the first counts; `GradientBoostingClassifier` takes the second.)

    Parameters
    ----------
    estimator
        A fitted ``GradientBoosting...``, ``HistGradientBoosting...``, ``RandomForest...``, ``ExtraTrees...``,
        ``DecisionTree...`` or ``ExtraTree...``, regressor or classifier.

    Raises
    ------
    ParameterError
        If it is another kind of object, is not fitted, starts from another model's predictions (``init``), predicts
        several columns of classes, or has categories that are neither strings, integers nor Booleans.

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
