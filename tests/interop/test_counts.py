"""Model files with any value in any place: sound, or refused in one sentence, in memory bounded by the file's size."""

import itertools
import json
import re
import struct
import tracemalloc

import catboost
import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost

import frameboost as fb
from frameboost.checks.json_files import read_ubjson
from frameboost.ensemble.model_file import read_model
from frameboost.model.model import Model
from tests.support.cases import cases
from tests.support.documents import places, put

LARGEST = 50_000_000  # bytes; the files have less than 20,000
VALUES = (10**8, 10**9, 10**18, 9_999, -1, 1.5, 1e308, None, [], {}, "x" * 5_000, 10**400, True, "", "\ud800", [[]], 7)

RNG = np.random.default_rng(0)
ROWS = 100
X = RNG.normal(size=ROWS)
CODES = RNG.integers(0, 4, ROWS)
TOWNS = np.array(list("abcd"))[CODES]
BINARY, CLASSES = (X + CODES > 1).astype(float), RNG.integers(0, 3, ROWS)
FRAME = pl.DataFrame({"x": X, "town": TOWNS, "binary": BINARY, "class": CLASSES, "number": X + CODES})
PANDAS = pd.DataFrame({"x": X, "town": pd.Categorical(TOWNS)})
QUANTILES = [0.1, 0.9]


def own(target, **parameters):
    model = fb.fit(FRAME, target, features=["x", "town"], n_estimators=1, max_depth=2, **parameters)
    return json.loads(model.to_json())


def by_xgboost(labels, **parameters):
    data = xgboost.DMatrix(PANDAS, label=labels, enable_categorical=True)
    return json.loads(bytes(xgboost.train({"max_depth": 2, **parameters}, data, 1).save_raw("json")))


def by_lightgbm(labels, **parameters):
    grown = {"num_leaves": 4, "max_cat_to_onehot": 1, "min_data_per_group": 1, "cat_smooth": 0, "min_data_in_leaf": 1}
    data = lightgbm.Dataset(PANDAS, labels)
    return lightgbm.train({**grown, "verbose": -1, **parameters}, data, 1).model_to_string()


def by_catboost(labels, tmp_path, **parameters):
    grown = {"iterations": 1, "depth": 2, "verbose": 0, "one_hot_max_size": 9, "allow_writing_files": False}
    model = catboost.CatBoost({**grown, **parameters})
    model.fit(catboost.Pool(pd.DataFrame({"x": X, "town": TOWNS}), labels, cat_features=[1]))
    model.save_model(str(tmp_path / "c.json"), format="json")
    return json.loads((tmp_path / "c.json").read_text("utf-8"))


def in_ubjson(value):
    if isinstance(value, bool) or value is None:
        return {None: b"Z", True: b"T", False: b"F"}[value]
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return b"L" + struct.pack(">q", value)
    if isinstance(value, int | float):
        return b"D" + struct.pack(">d", min(value, 10**300))
    if isinstance(value, str):
        return b"S" + _text(value)
    if isinstance(value, list):
        return b"[" + b"".join(map(in_ubjson, value)) + b"]"
    return b"{" + b"".join(_text(key) + in_ubjson(item) for key, item in value.items()) + b"}"


def _text(value):
    return b"L" + struct.pack(">q", len(value.encode())) + value.encode()


FORMATS = {
    "frameboost": (lambda data: Model(read_model(data)), lambda document: json.dumps(document).encode()),
    "xgboost json": (fb.from_xgboost, lambda document: json.dumps(document).encode()),
    "xgboost ubjson": (fb.from_xgboost, in_ubjson),
    "catboost": (lambda data: fb.from_catboost(data, {"town": list("abcd")}),
                 lambda document: json.dumps(document).encode()),
    "lightgbm": (fb.from_lightgbm, lambda text: text.encode(errors="surrogatepass")),
}  # fmt: skip
SAMPLES = {
    "binary": ("frameboost", lambda _: own("binary", objective="binary:logistic")),
    "classes": ("frameboost", lambda _: own("class", objective="multi:softprob", num_parallel_tree=2)),
    "quantiles": ("frameboost", lambda _: own("number", objective="reg:quantileerror", quantile_alpha=QUANTILES)),
    "targets": ("frameboost", lambda _: own(["number", "binary"])),
    "xgboost": ("xgboost json", lambda _: by_xgboost(BINARY, objective="binary:logistic")),
    "xgboost classes": ("xgboost json", lambda _: by_xgboost(CLASSES, objective="multi:softprob", num_class=3,
                                                             num_parallel_tree=2)),
    "xgboost dart": ("xgboost json", lambda _: by_xgboost(X, booster="dart", rate_drop=0.5)),
    "xgboost targets": ("xgboost json", lambda _: by_xgboost(np.c_[X, BINARY])),
    "xgboost in ubjson": ("xgboost ubjson", lambda _: by_xgboost(BINARY, objective="binary:logistic")),
    "lightgbm": ("lightgbm", lambda _: by_lightgbm(BINARY, objective="binary")),
    "lightgbm classes": ("lightgbm", lambda _: by_lightgbm(CLASSES, objective="multiclass", num_class=3)),
    "catboost": ("catboost", lambda path: by_catboost(BINARY, path, loss_function="Logloss")),
    "catboost classes": ("catboost", lambda path: by_catboost(CLASSES, path, loss_function="MultiClass")),
    "catboost lossguide": ("catboost", lambda path: by_catboost(X, path, grow_policy="Lossguide")),
}  # fmt: skip


def is_number(value):
    return re.fullmatch(r"-?[\d.]+([eE][-+]?\d+)?", value) is not None


def some_values(place):
    """Return two of the values, others at the next place: files have hundreds of places, most of a few kinds."""
    return [VALUES[(5 * place + 4 * k) % len(VALUES)] for k in range(2)]


def changed(document, path, values):
    """Yield the document without one value, and with others in its place; XGBoost writes counts as text."""
    old = document
    for key in path:
        old = old[key]
    for value in (*values, ...):
        yield put(document, path, value)
        if isinstance(old, str) and isinstance(value, int | float):
            yield put(document, path, str(value))


def changed_lines(text):
    """Yield what `changed` does, of LightGBM's text."""
    lines = text.split("\n")
    end = lines.index("end of trees")  # training parameters follow
    for number, line in enumerate(lines[:end]):
        found = re.fullmatch(r"(\[?[\w ]+(?:=|: ))(.*?)(\]?)", line)
        parts = found[2].split(" ") if found else []
        for value in some_values(number) if parts and is_number(parts[0]) else ():
            new = ["" if value is None else str(value), *parts[1:]]
            yield "\n".join([*lines[:number], found[1] + " ".join(new) + found[3], *lines[number + 1 :]])


QUICK = ("binary", "xgboost", "lightgbm", "catboost")  # one of each library is enough while working


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow][name in QUICK :]) for name in SAMPLES])
def test_any_value_in_a_file_is_refused_or_leaves_a_sound_model(name, tmp_path):
    kind, made = SAMPLES[name]
    read, written = FORMATS[kind]
    sound = made(tmp_path)
    if kind == "xgboost ubjson":
        assert read_ubjson(in_ubjson(sound), "not UBJSON") == sound
    read(written(sound))
    if kind == "lightgbm":
        documents = changed_lines(sound)
    else:
        read_places = (path for path in places(sound, most=1) if path[:2] != ("model_info", "params") or not path[2:]
                       or path[2] == "loss_function")  # CatBoost writes all parameters of training  # fmt: skip
        documents = (other for number, path in enumerate(read_places)
                     for other in changed(sound, path, some_values(number)))  # fmt: skip
    # What samples of one library have in common is in the first of them in every place.
    step = 5 if name.startswith("xgboost ") else 3 if name in ("classes", "quantiles", "targets") else 1
    n_refused, documents = 0, itertools.islice(documents, 0, None, step)
    tracemalloc.start()
    try:
        for document in documents:
            data = written(document)
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            try:
                model = read(data)
            except (fb.ModelFileError, fb.ParameterError) as error:
                n_refused += 1
                assert len(str(error)) < 600, str(error)[:600]
                assert "\n" not in str(error)
            else:
                assert read_model(model.to_json().encode()).trees == model.ensemble.trees, str(document)[:2_000]
            assert tracemalloc.get_traced_memory()[1] - before < LARGEST, str(document)[:2_000]
    finally:
        tracemalloc.stop()
    assert n_refused > 16 // step


# --- counts that a file may well have ---------------------------------------------------------------------------------


def test_features_without_names_are_bounded():
    document = by_xgboost(X)
    learner = document["learner"]
    learner["feature_names"], learner["feature_types"] = [], []
    learner["gradient_booster"]["model"].pop("cats", None)
    learner["learner_model_param"]["num_feature"] = "2000000"
    with pytest.raises(fb.ParameterError, match="2,000,000 features without names, and at most 100,000 are supp"):
        fb.from_xgboost(json.dumps(document).encode())
    learner["learner_model_param"]["num_feature"] = "1000"
    assert len(fb.from_xgboost(json.dumps(document).encode()).features) == 1000


@cases("read", [FORMATS["frameboost"][0], fb.from_xgboost, fb.from_catboost, fb.from_lightgbm])
@cases("data", [
    b"[" * 20_000, b'{"trees": ' + b"[" * 20_000, b'{"a":' * 20_000, b"{U" * 20_000, b"{#L\x7f" + b"\xff" * 50,
    b"[" + b"1" * 100_000 + b"]", b"-" * 100_000, b'"' + b"x" * 10**5, b"tree\n" * 20_000, b"tree\n" + b"=" * 100_000,
    json.dumps({f"k{i}": 0 for i in range(9_000)}).encode()[:-1] + b', "k8999": 0}',
    b'{"learner": "\\ud800"}', b'{"format": "frameboost", "version": 1' + b"0" * 4000 + b"}",
    b'{"format": "frameboost", "version": "' + b"\\ud800" * 4000 + b'"}',
])  # fmt: skip
def test_what_is_deep_long_or_double_is_refused(read, data):
    tracemalloc.start()
    try:
        with pytest.raises((fb.ModelFileError, fb.ParameterError)) as caught:
            read(data)
        assert tracemalloc.get_traced_memory()[1] < LARGEST
    finally:
        tracemalloc.stop()
    assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)
    str(caught.value).encode()
