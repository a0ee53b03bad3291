"""The model file: equal models have equal text, and what is no valid model is refused."""

import copy
import json
import pickle
import random
import re
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import joblib
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.ensemble.model_file import read_model
from frameboost.ensemble.tree_file import parse_tree_lines, tree_fields, tree_lines
from frameboost.errors import ModelFileError
from frameboost.loading import open_model
from frameboost.schema.types import Feature, FeatureType
from frameboost.trees.tree import TreeColumns
from tests.support.cases import cases
from tests.support.documents import places, put
from tests.support.frames import FEATURES_BY_TYPE, LABELS, every_type
from tests.support.models import GOLDEN, model_of_parts
from tests.support.random_models import TYPES, lopsided_model, random_model


@pytest.fixture(scope="module")
def models() -> list[fb.Model]:
    frame = every_type(300)
    options = {"features": list(FEATURES_BY_TYPE), "n_estimators": 3, "max_depth": 3}
    return [fb.fit(frame, target, objective=objective, **options) for objective, target in LABELS.items()]


def refused(text: str | bytes) -> str:
    with pytest.raises(fb.ModelFileError) as error:
        read_model(text.encode() if isinstance(text, str) else text)
    return str(error.value)


@cases("name", ["m.json", "m.ubj"])
def test_a_model_comes_back_and_is_written_alike(models, tmp_path, name):
    frame, folder = every_type(200, seed=9), tmp_path / name
    folder.mkdir()
    for model in models:
        model.save(folder / name)
        for read in (fb.load, open_model):
            loaded = read(str(folder / name))
            assert loaded == model
            assert (hash(loaded), repr(loaded), loaded.to_json()) == (hash(model), repr(model), model.to_json())
            assert loaded.predict(frame).equals(model.predict(frame))
            assert loaded.sql() == model.sql()
            assert loaded.trees.equals(model.trees)
        loaded.save(folder / f"again_{name}")
        assert (folder / f"again_{name}").read_bytes() == (folder / name).read_bytes()
    assert sorted(p.name for p in folder.iterdir()) == [f"again_{name}", name]


def test_the_golden_file_loads_and_predicts(tmp_path):
    path = tmp_path / "golden.json"
    path.write_text(GOLDEN, encoding="utf-8")
    model = fb.load(path)
    assert model.to_json() == GOLDEN
    frame = pl.DataFrame({'dep "delay"': [1.0, 1.0, 1.5, None, 0.0], "carrier": ["é", "AA", "é", "é", None]})
    assert model.predict(frame).to_list() == [2.0, 4.5, 5.0, 2.0, 4.5]


def test_models_are_values(models):
    for model in models:
        model.parameters["max_depth"] = 99
        assert model.parameters["max_depth"] == 3
    assert models[0] != models[1]
    assert models[0] != "a model"


@cases("scored", [False, True])
def test_copies_score_alike(models, tmp_path, scored):
    frame = every_type(300)
    for model in models:
        model = copy.deepcopy(model)
        if scored:  # which compiles the trees; that is no part of the model
            model.predict(frame)
        joblib.dump(model, tmp_path / "model.joblib")
        copies = [copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model)),
                  joblib.load(tmp_path / "model.joblib")]  # fmt: skip
        for other in copies:
            assert other == model
            assert hash(other) == hash(model)
            assert other.predict(frame).equals(model.predict(frame))


def test_a_failed_save_leaves_the_old_file(models, tmp_path, monkeypatch):
    path = tmp_path / "m.json"
    models[0].save(path)
    before = path.read_bytes()
    monkeypatch.setattr("frameboost.model.model.dump_file", lambda ensemble: "half\udc00")  # can't be encoded
    with pytest.raises(UnicodeEncodeError):
        models[1].save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_infinite_thresholds_come_back():
    inf = float("inf")
    frame = pl.DataFrame({"x": [-inf, 0.0, 1.0, inf] * 3, "y": [0.0, 1.0, 1.0, 5.0] * 3})
    model = fb.fit(frame, "y", n_estimators=2, cuts={"x": [0.0, inf]})
    assert inf in model.trees["threshold"].to_list()
    parts = read_model(model.to_json().encode())
    assert parts.trees == model.ensemble.trees


# --- damage -----------------------------------------------------------------------------------------------------------


def with_an_orphan() -> str:
    """Return the file with one more leaf, which is no node's child."""
    document = json.loads(GOLDEN)
    for values in document["trees"][0].values():
        values.append(values[-1])
    return json.dumps(document)


@cases(
    ("text", "message"),
    [
        ("", "not a frameboost model: the file is not JSON"),
        (with_an_orphan(), "tree 0, node 5: it has 0 parents, and must have 1"),
        *((text, "not a frameboost model: the file is not JSON") for text in
          ("{", b"\xff\xfe", "\ufeff{}", GOLDEN[:400], "[" * 100_000, "[" + "1" * 5000 + "]", '{"a": "\\ud800"}')),
        ("[]", "not a frameboost model: the file holds no JSON object"),
        ("{}", 'not a frameboost model: "format" must be "frameboost", not null'),
        ('{"format": "frameboost", "format": "x"}', 'damaged model: an object has "format" twice'),
        (GOLDEN.replace('"version": 1', '"version": 2'), "the model file has version 2; this release reads version 1"),
        (GOLDEN.replace('"version": 1', '"version": true'), "the model file has version true; this release"),
        (GOLDEN.replace("4.0,", "NaN,", 1), "damaged model: it holds NaN, and every number must be finite"),
        (GOLDEN.replace("4.0,", "1e999,", 1), 'damaged model: "base_margin" must be a finite number, not'),
        (GOLDEN.replace("reg:squarederror", "reg:cubed"), "damaged model: objective must be an fb.Objective or one of"),
        (GOLDEN.replace('"max_depth": 2', '"max_depth": -2'), "damaged model: max_depth must be an integer"),
        (GOLDEN.replace('"max_depth"', '"max_dept"'), "damaged model: unknown parameter 'max_dept'"),
        (GOLDEN.replace('"float64"', '"float80"'), 'damaged model, feature 0: "type" must be a feature type'),
        (GOLDEN.replace('"carrier"', '"dep \\"delay\\""'), "damaged model: two features have the same name"),
        (GOLDEN.replace('["AA", "é"]', '["é", "AA"]'),
         'damaged model, feature 1: "categories" must be sorted, distinct strings'),
        (GOLDEN.replace("[0,1,-1,", "[0,2,-1,"),
         "damaged model, tree 0, node 1: \"feature\" must be -1 or a feature's"),
        (GOLDEN.replace("[1.5,", '["1.5",'),
         'damaged model, tree 0, node 0: "threshold" must be a value of type float64'),
        (GOLDEN.replace("[1.5,", "[null,"), "damaged model, tree 0, node 0: a split on whether the value is present"),
        (GOLDEN.replace("[1],null", "[2],null"),
         'damaged model, tree 0, node 1: "categories" must be sorted, distinct'),
        (GOLDEN.replace("[1,3,-1", "[0,3,-1"), 'tree 0, node 0: "left" must be a node after it and below 5, not 0'),
        (GOLDEN.replace("[1,3,-1", "[1,5,-1"), 'tree 0, node 1: "left" must be a node after it and below 5, not 5'),
        (GOLDEN.replace("[1,3,-1", "[1,2,-1"), "tree 0, node 2: it has 2 parents, and must have 1"),
        (GOLDEN.replace("[2,4,-1", "[2,3,-1"), "tree 0, node 3: it has 2 parents, and must have 1"),
        (GOLDEN.replace("-2.0,0.5]", "-2.0]"), 'tree 0: "value" has 4 entries, "feature" has 5'),
        (GOLDEN.replace("-2.0,0.5]", "-2.0,1e400]"), 'tree 0, node 4: "value" must be a finite number'),
        (GOLDEN.replace("[true,false,false", "[true,false,true"), "node 2: a leaf has no threshold"),
        (GOLDEN.replace('"trees"', '"bush": 1, "trees"'), 'damaged model: unknown field "bush"'),
    ],
)  # fmt: skip
def test_damage_is_named(text, message):
    assert message in refused(text)


_REPLACEMENTS = [..., None, True, -1, 0, 3, 10**30, 0.5, -1e308, 1e308, "x", "Infinity", [], {}, [0], ["AA"], [[]]]


@pytest.mark.slow
@cases("path", list(places(json.loads(GOLDEN))))
def test_a_changed_field_is_refused_or_gives_a_working_model(path):
    frame = pl.DataFrame({'dep "delay"': [1.0, None, 9.0], "carrier": ["é", "AA", None]})
    refusals = 0
    for replacement in _REPLACEMENTS:
        try:
            parts = read_model(json.dumps(put(json.loads(GOLDEN), path, replacement)).encode())
        except fb.ModelFileError as error:
            refusals += 1
            assert re.match(r"(not a frameboost model|damaged model|the model file has version)", str(error))
            continue
        model = model_of_parts(parts.loss, parts.parameters, parts.features, parts.base_margins, parts.trees,
                         calibration=parts.calibration)  # fmt: skip
        assert repr(model) and model.sql() and len(model.trees)
        assert read_model(model.to_json().encode()) == parts
        if {f.name: f.type.family for f in parts.features} == {'dep "delay"': "number", "carrier": "string"}:
            predicted = model.predict(frame).to_numpy()
            np.testing.assert_array_equal(frame.select(model.expr()).to_series().to_numpy(), predicted)
    assert refusals >= 5


@pytest.mark.parametrize(
    ("path", "error"), [("no/m.json", FileNotFoundError), ("folder", IsADirectoryError), ("f/m", NotADirectoryError)]
)
def test_a_file_that_cannot_be_written_is_named_as_given(models, tmp_path, monkeypatch, path, error):
    """The message has the path that was given, not the temporary one beside it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "f").write_text("a file")
    for write in (models[0].save, lambda to: models[0].database().to_sql(to, "t")):
        with pytest.raises(error, match=re.escape(f": '{path}'") + "$"):
            write(path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["f", "folder"]


def test_a_file_that_is_not_there_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        fb.load(tmp_path / "none.json")


@pytest.mark.parametrize(("start", "reads"), [
    ('{"learner": {}}', "XGBoost, which fb.from_xgboost(path) reads"),
    ("tree\nversion=v4\n", "LightGBM, which fb.from_lightgbm(path) reads"),
    ('{"oblivious_trees": []}', "CatBoost, which fb.from_catboost(path) reads"),
])  # fmt: skip
def test_a_file_of_another_library_is_sent_to_its_reader(start, reads, tmp_path):
    (tmp_path / "m.json").write_text(start)
    with pytest.raises(fb.ModelFileError, match=rf"^not a frameboost model: .* one of {re.escape(reads)}$"):
        fb.load(tmp_path / "m.json")


@pytest.mark.parametrize("change", [
    {"base_margin": [0.0] * 9_999},
    {"objective": {"name": "of:another", "links": ["EXP(margin_0)"] * 9_999, "classes": 0}},
])  # fmt: skip
def test_more_outputs_than_trees_are_refused_before_a_loss_is_made_of_them(change, tmp_path, monkeypatch):
    model = fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 8]}), "y", n_estimators=1)
    path = tmp_path / "model.json"
    path.write_text(json.dumps(json.loads(model.to_json()) | change))
    monkeypatch.setattr("frameboost.ensemble.model_file.multi_target_loss", None)
    monkeypatch.setattr("frameboost.ensemble.model_file.read_foreign_loss", None)
    with pytest.raises(fb.ModelFileError, match=r"^damaged model: its 1 trees are not whole rounds of 9999 outputs$"):
        fb.load(path)


@pytest.mark.slow
def test_lines_of_trees_are_read_as_the_same_json_in_another_form():
    """Lines as they are written are read by columns, other JSON node by node: the same trees, and the same refusals."""
    rng = random.Random(3)
    odd = [None, True, False, -1, 0, 1, 2, 3, 8, 0.5, 0.1, -0.0, 1e300, 5e-324, 2**53 + 1, 2**63, 2**70, 10**5000, "1",
           "Infinity", [], [0], [[0]], [None], {}, {"a": 1}]  # fmt: skip
    outcomes = Counter()
    for number in range(600):
        types = rng.sample([*TYPES, "string", "float64", "float32"], 3)
        model = random_model([FeatureType(name) for name in types], ["a", "b", "c"], rng, n_trees=2, depth=3)
        document = json.loads(model.to_json())
        trees = document.pop("trees")
        if number % 4:
            lists = rng.choice(trees)
            values = lists[rng.choice(list(lists))]
            if rng.random() < 0.1:
                rng.choice([values.pop, values.clear, partial(values.append, rng.choice(odd))])()
            elif rng.random() < 0.2:
                lists[rng.choice(["output", "with_missing", "other", "gain"])] = rng.choice([0, 1, values, [], None])
            else:
                values[rng.randrange(len(values))] = rng.choice([*odd, *values])
        with no_limit_of_digits():
            lines = ",\n".join(json.dumps(tree, separators=(",", ":")) for tree in trees)
        head = model.to_json().partition('"trees": [')[0]
        found, expected = (outcome(f'{head}"trees": [{start}{lines}\n]\n}}\n') for start in ("\n", "\n "))
        assert found == expected, (lines, found, expected)
        outcomes[type(found)] += 1
        outcomes["columns"] += parse_tree_lines(lines.encode()) is not None
    assert min(outcomes.values()) > 150, outcomes


@contextmanager
def no_limit_of_digits():
    """Let Python write integers that it does not read."""
    most = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(most)


def outcome(text: str) -> tuple | str:
    """Return the trees of a file, or why it is refused."""
    try:
        return read_model(text.encode()).trees[:]
    except ModelFileError as error:
        return str(error)


@cases("text", [
    GOLDEN.replace('],\n"trees"', ']\n"trees"'), GOLDEN.replace("}\n]\n}\n", "},\n]\n}\n"), GOLDEN + "]",
    GOLDEN[:-4] + "}\n",
    GOLDEN.replace('"trees": [\n', '"trees": [\n{},\n'), GOLDEN.replace('"features"', '"trees": [],\n"features"'),
    GOLDEN.replace("[8.0,", "[08.0,"), GOLDEN.replace("[8.0,", "[8.,"), GOLDEN.replace("[8.0,", "[+8.0,"),
    GOLDEN.replace("[8.0,", "[8.0 ,,"), GOLDEN.replace("[1,3,", "[1,3.0,"), GOLDEN.replace("[1,3,", "[1,3e0,"),
    GOLDEN.replace("[true,", "[1,"), GOLDEN.replace("[true,", "[tru,"), GOLDEN.replace(",[1],", ",[],"),
    GOLDEN.replace(",[1],", ",[[1]],"), GOLDEN.replace(",[1],", ",[null],"),
    GOLDEN.replace('{"feature"', '{"output":0,"feature"'),
])  # fmt: skip
def test_lines_that_are_nearly_as_written_are_refused(text):
    assert text != GOLDEN
    assert refused(text)


@cases("seed", range(12))
def test_trees_are_written_as_json_writes_them(seed):
    """Numbers of any size, infinities, integers beyond 64 bits, categories, several outputs, slopes."""
    rng = random.Random(seed)
    types = rng.sample([*TYPES, "string", "float64"], 6)
    model = random_model(
        [FeatureType(name) for name in types], list("abcdef"), rng, n_trees=6, depth=4, linear=seed > 10
    )
    if seed % 3 == 1:
        features = [Feature(name, FeatureType("string"), ("u", "v", "w")) for name in "ab"]
        model = lopsided_model(features, rng, n_trees=3, n_splits=20)
    trees = [
        replace(
            tree,
            output=number % 2 if seed % 2 else 0,
            cover=tuple(rng.choice([0.0, 1e-4, 1e16, 3.0, 2.5e-7, 123456789.125, 5e-324, 1e300]) for _ in tree.cover),
            gain=tuple(rng.uniform(-1, 1) * 10 ** rng.randint(-20, 20) for _ in tree.gain),
        )
        for number, tree in enumerate(model.ensemble.trees)
    ]
    for n_outputs in (1, 2):
        expected = [json.loads(json.dumps(tree_fields(tree, n_outputs))) for tree in trees]
        lines = tree_lines(TreeColumns.of(trees), n_outputs).split(",\n")
        assert list(map(repr, map(json.loads, lines))) == list(map(repr, expected))  # 1 is no 1.0
