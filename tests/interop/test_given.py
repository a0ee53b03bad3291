"""What `load` and the ``from_*`` functions refuse, in one sentence that names the function for such a model."""

import bz2
import gzip
import lzma
import pickle
import struct
import zlib

import catboost
import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import frameboost as fb
from frameboost.loading import open_model, read_any_file
from tests.support.cases import cases

READERS = {"xgboost": fb.from_xgboost, "lightgbm": fb.from_lightgbm, "catboost": fb.from_catboost,
           "sklearn": fb.from_sklearn}  # fmt: skip
WANTED = {
    "xgboost": "model must be a Booster or an estimator of XGBoost's, or a file of one, not ",
    "lightgbm": "model must be a Booster or an estimator of LightGBM's, or a file of one, not ",
    "catboost": "model must be a model of CatBoost's, or a JSON file of one, not ",
    "sklearn": "estimator must be a gradient boosting, forest or tree estimator of scikit-learn's, not ",
}
X = np.arange(40.0)[:, None]
Y = (X[:, 0] > 20).astype(float)


@pytest.fixture(scope="module")
def fitted():
    return {
        "xgboost": xgboost.XGBRegressor(n_estimators=1).fit(X, Y),
        "lightgbm": lightgbm.LGBMRegressor(n_estimators=1, verbose=-1).fit(X, Y),
        "catboost": catboost.CatBoostRegressor(iterations=1, verbose=0, allow_writing_files=False).fit(X, Y),
        "sklearn": RandomForestRegressor(n_estimators=1).fit(X, Y),
        "frameboost": fb.fit(pl.DataFrame({"x": X[:, 0], "y": Y}), "y", n_estimators=1),
    }


@pytest.fixture(scope="module")
def files(fitted, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    fitted["xgboost"].save_model(folder / "x.json")
    fitted["xgboost"].save_model(folder / "x.ubj")
    fitted["lightgbm"].booster_.save_model(folder / "l.txt")
    fitted["catboost"].save_model(str(folder / "c.json"), format="json")
    fitted["catboost"].save_model(str(folder / "c.cbm"))
    fitted["frameboost"].save(folder / "f.json")
    (folder / "p.pkl").write_bytes(pickle.dumps(fitted["xgboost"]))
    for form, start in (("utf8", "utf-8-sig"), ("utf16", "utf-16")):
        for kind in ("x", "c", "f"):
            (folder / f"{kind}.{form}").write_bytes((folder / f"{kind}.json").read_text("utf-8").encode(start))
    (folder / "x.gz").write_bytes(gzip.compress((folder / "x.json").read_bytes()))
    return folder


def refused(read, *given, **more) -> str:
    with pytest.raises((fb.ParameterError, fb.ModelFileError)) as caught:
        read(*given, **more)
    text = str(caught.value)
    assert len(text) < 400 and "\n" not in text
    return text


# What is no model at all, and how it is shown.
NOTHINGS = {
    "None": (None, "None"), "number": (5, "5"), "list": ([1], "[1]"), "dict": ({}, "{}"),
    "array": (X, "a numpy.ndarray"), "long": (["x" * 10**6], "['xxxx"),
    "class": (xgboost.XGBRegressor, "the class XGBRegressor"),
    "frame": (pl.DataFrame({"a": [1]}), "a polars.dataframe.frame.DataFrame"),
    "linear": (LinearRegression().fit(X, Y), "a sklearn.linear_model._base.LinearRegression"),
    "pool": (catboost.Pool(X), "a catboost.core.Pool"), "dataset": (lightgbm.Dataset(X), "a lightgbm.basic.Dataset"),
}  # fmt: skip


@pytest.mark.parametrize("library", READERS)
@cases("what", NOTHINGS)
def test_what_is_no_model_is_refused(library, what):
    given, named = NOTHINGS[what]
    text = refused(READERS[library], given)
    assert text == WANTED[library] + named or (what == "long" and text.startswith(WANTED[library] + named))


@pytest.mark.parametrize("library", READERS)
@cases("other", [*READERS, "frameboost"])
def test_another_librarys_model_is_refused_with_the_name_of_its_reader(fitted, library, other):
    if other == library:
        assert isinstance(READERS[library](fitted[other]), fb.Model)
        return
    text = refused(READERS[library], fitted[other])
    assert text.startswith(WANTED[library])
    assert text.endswith(", which is a model already" if other == "frameboost" else f", which from_{other} reads")


@pytest.mark.parametrize("library", READERS)
def test_a_pipeline_is_asked_for_its_last_step(library):
    pipeline = make_pipeline(StandardScaler(), LinearRegression()).fit(X, Y)
    assert refused(READERS[library], pipeline).endswith(
        "; pass its last step, and the columns that the steps before it make"
    )


@pytest.mark.parametrize("model", [xgboost.XGBRegressor(), lightgbm.LGBMRegressor(), catboost.CatBoostRegressor(),
                                   RandomForestRegressor()], ids=lambda model: type(model).__name__)  # fmt: skip
def test_what_is_not_fitted_is_refused(model):
    library = next(name for name in READERS if name in type(model).__module__)
    assert refused(READERS[library], model).startswith(f"the {type(model).__name__} is not fitted")


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "catboost"])
@cases("as_bytes", [False, True])
@cases(("name", "says"), [
    ("x.json", "it is XGBoost's, which from_xgboost reads"), ("x.ubj", "it is XGBoost's, which from_xgboost reads"),
    ("l.txt", "it is LightGBM's, which from_lightgbm reads"), ("c.json", "it is CatBoost's, which from_catboost reads"),
    ("f.json", "it is frameboost's, which load reads"), ("p.pkl", "it is a pickle, which is not opened"),
    ("c.cbm", "it is in CatBoost's binary format; save it with model.save_model(path, format='json')"),
    ("x.gz", "it is compressed by gzip; unpack it first"), ("x.utf16", "it is UTF-16; save it as UTF-8"),
    ("c.utf8", "it starts with a byte order mark; save it as UTF-8 without one"),
])  # fmt: skip
def test_another_kind_of_file_is_named(files, library, as_bytes, name, says):
    given = (files / name).read_bytes() if as_bytes else files / name
    if f"from_{library} reads" in says:
        assert isinstance(READERS[library](given), fb.Model)
    else:
        assert f"the file is not one that from_{library} reads: {says}" in refused(READERS[library], given)


@cases(("name", "says"), [
    ("f.utf8", "it starts with a byte order mark"), ("f.utf16", "it is UTF-16"), ("x.gz", "it is compressed by gzip"),
    ("p.pkl", "it is a pickle, which is not opened"),
])  # fmt: skip
@cases("read", [fb.load, open_model])
def test_load_names_other_forms(files, read, name, says):
    assert says in refused(read, files / name)


# How files of other formats begin, and what is said of them.
OTHERS = {
    "a pickle": pickle.dumps(object(), protocol=0), "it is a pickle": pickle.dumps([1], protocol=1),
    "pickle, which": pickle.dumps({}, protocol=2), "zlib, as joblib": zlib.compress(b"a" * 100),
    "bzip2": bz2.compress(b"a"), "xz": lzma.compress(b"a"), "zip archive": b"PK\x03\x04",
    "HDF5": b"\x89HDF\r\n\x1a\n" + bytes(20), "database of DuckDB": bytes(8) + b"DUCK" + bytes(20),
    "database of SQLite": b"SQLite format 3\0", "a table in a file": b"PAR1\x15", "it is a table": b"ARROW1\0\0",
    "NumPy": b"\x93NUMPY\x01", "PMML": b'<?xml version="1.0"?><PMML version="4.4"/>',
    "ONNX": b"\x08\x08\x12\x08skl2onnx", "it is ONNX": b"\x08\x0a:\xc1\x05",
    "JSON of LightGBM": b'{"name": "tree", "version": "v4"}', "it is empty": b"",
}  # fmt: skip


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "catboost"])
@cases("says", OTHERS)
def test_other_formats_are_named(library, says, tmp_path):
    text = refused(READERS[library], OTHERS[says])
    assert says in text
    (tmp_path / "file").write_bytes(OTHERS[says])
    assert says in refused(fb.load, tmp_path / "file")
    assert says in refused(open_model, tmp_path / "file")


@pytest.mark.parametrize("form", ["text", "json"])
def test_dumps_of_xgboost_are_named(fitted, form, tmp_path):
    fitted["xgboost"].get_booster().dump_model(tmp_path / "dump", dump_format=form)
    for read in (READERS["xgboost"], fb.load, open_model):
        assert "dump_model, which has no objective; save the model with " in refused(read, tmp_path / "dump")


def test_old_binaries_of_xgboost_are_named():
    # base_score, num_feature, num_class, reserved; the lengths and names of the objective and of the booster.
    head = struct.pack("<fIi", 0.5, 1, 0) + bytes(124)
    old = head + struct.pack("<Q", 16) + b"reg:squarederror" + struct.pack("<Q", 6) + b"gbtree" + bytes(200)
    for data in (old, b"binf" + old):
        assert "old binary format; load it" in refused(READERS["xgboost"], data)


@pytest.mark.parametrize("missing", [-999, 0, 0.0, float("inf")])
def test_a_number_that_stands_for_missing_is_refused(missing):
    model = xgboost.XGBRegressor(n_estimators=1, missing=missing).fit(X, Y)
    assert f"takes {missing} for a missing value (missing=)" in refused(READERS["xgboost"], model)
    assert READERS["xgboost"](model.get_booster()).n_trees == 1


def test_a_file_that_was_cut_off_is_refused(files, tmp_path):
    path = tmp_path / "cut.json"
    path.write_bytes((files / "c.json").read_bytes()[:200])
    for categories in (None, dict.fromkeys):
        with pytest.raises(fb.ModelFileError, match="not a CatBoost model saved as JSON"):
            read_any_file(path, categories)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "catboost"])
@cases("given", ["", "\0", "x" * 5000])
def test_a_path_that_can_be_none_is_refused(library, given):
    assert refused(READERS[library], given).startswith("model must be a path, not ")


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "catboost"])
def test_a_file_that_is_not_there_and_a_folder(library, tmp_path):
    with pytest.raises(FileNotFoundError):
        READERS[library](tmp_path / "none")
    with pytest.raises(IsADirectoryError, match=r"is a folder; pass a model file in it$"):
        READERS[library](str(tmp_path))


# --- categories of CatBoost's -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def categorical():
    frame = pd.DataFrame({"town": list("abab") * 10})
    model = catboost.CatBoostRegressor(iterations=1, depth=1, verbose=0, one_hot_max_size=9, allow_writing_files=False)
    return model.fit(frame, np.array([0.0, 1, 0, 1] * 10), cat_features=[0])


TOWN = "the categories of column 'town' must be "


@cases("given, says", [
    *((given, "categories must be a dict of column name to a list of values, not ") for given in
      (5, "town", [1], pl.DataFrame({"town": ["a"]}), pd.DataFrame({"town": ["a"]}), X, {5: ["a"]})),
    *(({"town": values}, f"{TOWN}a list of values, not ") for values in
      (5, "ab", b"ab", {"a": 1}, pl.col("a"), pl.DataFrame({"a": ["a"]}), pl.LazyFrame({"a": ["a"]}),
       pd.DataFrame({"a": ["a"]}))),
    *(({"town": values}, f"{TOWN}all strings or all whole numbers") for values in
      (["a", 1], ["a", ["b"]], [1.5], ["a", float("nan")], [X], ["a", "b", "\ud800"], [10**30])),
])  # fmt: skip
def test_categories_are_lists_of_strings_or_whole_numbers_by_column(categorical, given, says):
    assert refused(fb.from_catboost, categorical, categories=given).startswith(says)


@pytest.mark.parametrize("values", [["b", "a"], pl.Series(["a", "b", "a"]), np.array(["a", "b"]), pd.Series(["a", "b"]),
                                    iter("ab"), {"a", "b"}], ids=lambda given: type(given).__name__)  # fmt: skip
def test_categories_of_every_kind_of_list_are_taken(categorical, values):
    model = fb.from_catboost(categorical, categories={"town": values})
    expected = categorical.predict(pd.DataFrame({"town": ["a", "b"]}))
    assert model.predict(pl.DataFrame({"town": ["a", "b"]})).to_list() == pytest.approx(expected.tolist())
