"""What only imported trees have: category codes, zeros treated as missing, categories sent with missing values.

Expected values come from plain walks through the trees that are built here (`tests.support.random_models`).
"""

import json
import math
import random

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.ensemble.model_file import read_model
from frameboost.losses.built_in import get_loss
from frameboost.losses.custom import foreign_loss
from frameboost.schema.types import Feature, FeatureType
from frameboost.trees.tree import Tree, on_leaf_grid
from tests.support.cases import cases
from tests.support.documents import put
from tests.support.models import model_of_parts
from tests.support.random_models import lopsided_model, naive_leaves, naive_margins, to_duckdb, to_polars
from tests.support.warehouses import ALL_BUT_SPARK, open_warehouse

CODES = [-3, -1, 0, 1, 2, 5, 7, 100, 2**24 + 1, 2**31, 2**53 - 1]
NAMES = ["", "a", "A", "b", "it's", "NULL", "日本"]
ALMOST_ZERO = 1.0000000180025095e-35  # LightGBM's, a float32: itself still missing, the next float64 no more
ZEROS = [0.0, -0.0, 1e-36, -1e-36, ALMOST_ZERO, -ALMOST_ZERO, math.nextafter(ALMOST_ZERO, 1), -2e-35, 1e-30, 5e-324]
FLOATS = [*ZEROS, *ZEROS[:2], 1.0, -1.0, 0.5, -0.25, 2.0**60, -(2.0**60)]
FEATURES = (
    Feature("codes", FeatureType("codes"), tuple(CODES)),
    Feature("zeros", FeatureType("float64"), (), zero_is_missing=True),
    Feature("text", FeatureType("string"), tuple(sorted(NAMES))),
    Feature("small zeros", FeatureType("float32"), (), zero_is_missing=True),
    Feature("plain", FeatureType("float64")),
)
LOSS = get_loss("reg:squarederror", {"scale_pos_weight": 1.0})


@pytest.fixture(params=ALL_BUT_SPARK)
def warehouse(request):
    return open_warehouse(request.param)


def values_of(feature: Feature) -> list:
    if feature.type.name == "codes":
        return [*CODES, 4, -2, 10**9]  # three that no split names
    if feature.type.name == "string":
        return [*NAMES, "unseen", "c"]
    return [float(np.float32(v)) for v in FLOATS] if feature.type.name == "float32" else FLOATS


def random_rows(n: int, rng: random.Random, features=FEATURES, nan: bool = True) -> dict[str, list]:
    def value(feature: Feature):
        odd = [None, math.nan] if nan and feature.type.is_float else [None]
        return rng.choice(odd) if rng.random() < 0.2 else rng.choice(values_of(feature))

    return {feature.name: [value(feature) for _ in range(n)] for feature in features}


def foreign_model(rng: random.Random, n_splits: int = 30, features=FEATURES) -> fb.Model:
    return lopsided_model(list(features), rng, 8, n_splits)


def of_trees(trees, features=FEATURES) -> fb.Model:
    base, trees = on_leaf_grid([0.25], trees)
    return model_of_parts(LOSS, {}, features, base, trees)


def frame_of(rows: dict[str, list], features=FEATURES) -> pl.DataFrame:
    codes = FeatureType("int64")
    return pl.DataFrame(
        [to_polars(codes if f.type.name == "codes" else f.type, rows[f.name], f.name) for f in features]
    )


def in_polars(model: fb.Model, frame: pl.DataFrame) -> list[float]:
    return frame.select(model.expr()).to_series().to_list()


@pytest.mark.slow
@cases("n_splits", [3, 40])
def test_every_form_scores_like_a_plain_walk(n_splits):
    rng = random.Random(n_splits)
    model, rows = foreign_model(rng, n_splits), random_rows(100, rng)
    frame, said = frame_of(rows), naive_margins(model, rows).tolist()
    assert len(set(said)) > 10
    assert model.predict(frame, "leaf").to_numpy().tolist() == naive_leaves(model, rows)
    assert model.predict(frame).to_list() == said
    assert in_polars(model, frame) == said
    con = duckdb.connect()
    to_duckdb(con, frame, "t")
    for statement in model.database().table_statements("trees"):
        con.execute(statement)
    for how in ({"form": "case"}, {"form": "staged"}, {"form": "table", "trees": "trees"}):
        found = sorted(con.execute(model.query("t", keep=["position"], **how)).fetchall())
        assert [row[1] for row in found] == said, how


def test_symmetric_trees():
    """Three levels and more of one question each are looked up by a number."""
    rng = random.Random("symmetric")

    def symmetric(asked: list[int]) -> Tree:
        questions = []
        for number in asked:
            feature = FEATURES[number]
            categories = tuple(sorted(rng.sample(range(len(feature.categories)), 3))) if feature.categories else None
            threshold = None if categories else rng.choice(values_of(feature)) + 0.0
            questions.append((number, threshold, categories, rng.random() < 0.5, bool(categories)))
        inner = 2 ** len(asked) - 1
        nodes = [(*questions[(i + 1).bit_length() - 1], 2 * i + 1, 2 * i + 2) for i in range(inner)]
        nodes += [(-1, None, None, False, False, -1, -1)] * (inner + 1)
        feature, threshold, categories, missing_left, with_missing, left, right = zip(*nodes, strict=True)
        size = len(nodes)
        values = tuple(rng.uniform(-1, 1) for _ in range(size))
        return Tree(feature, threshold, categories, missing_left, left, right, (0.0,) * size, (1.0,) * size, values,
                    with_missing=with_missing)  # fmt: skip

    trees = [symmetric([0, 1, 2]), symmetric([2, 3, 0, 4]), symmetric([1, 3, 1])]
    assert all(tree.levels() for tree in trees)
    model, rows = of_trees(trees), random_rows(100, rng)
    frame, said = frame_of(rows), naive_margins(model, rows).tolist()
    assert model.predict(frame).to_list() == in_polars(model, frame) == said
    con = duckdb.connect()
    to_duckdb(con, frame, "t")
    assert [row[1] for row in sorted(con.execute(model.query("t", keep=["position"])).fetchall())] == said


@pytest.mark.slow
@cases("form", ["case", "staged", "table"])
def test_foreign_trees_score_alike_in_every_database(warehouse, form, tmp_path):
    rng = random.Random(f"databases {form}")
    model = foreign_model(rng)
    rows = random_rows(80, rng)
    held = warehouse.fill_features("t", model, rows)
    if form == "table":
        warehouse.load_trees("trees", model, tmp_path)
    how = {"form": form, "trees": "trees" if form == "table" else None}
    found = sorted(tuple(row) for row in warehouse.rows(model.query("t", warehouse.name, keep=["id"], **how)))
    assert [row[1] for row in found] == naive_margins(model, held).tolist()


def test_reasons_in_duckdb_are_those_of_explain():
    rng = random.Random("reasons")
    model, rows = foreign_model(rng, 15), random_rows(100, rng)
    frame = frame_of(rows)
    con = duckdb.connect()
    to_duckdb(con, frame, "t")
    found = sorted(con.execute(model.database().explain_query("t", keep=["position"], approx=True)).fetchall())
    explained = model.explain(frame, approx=True)
    np.testing.assert_array_equal([row[1:] for row in found], explained.to_numpy())
    np.testing.assert_allclose(np.sum(explained.to_numpy(), axis=1), naive_margins(model, rows), atol=1e-12)
    np.testing.assert_allclose(np.sum(model.explain(frame).to_numpy(), axis=1), naive_margins(model, rows), atol=1e-12)


# --- columns of other types -------------------------------------------------------------------------------------------


@pytest.mark.slow
@cases("dtype", [pl.Int64, pl.Int128, pl.Float64, pl.Float32, pl.Int8, pl.Int32, pl.UInt8, pl.UInt64])
def test_codes_in_columns_of_any_numbers(dtype):
    rng = random.Random("columns")
    feature = FEATURES[:1]
    model = foreign_model(rng, features=feature)
    fitting = [c for c in [*CODES, 4, 9] if pl.Series([c]).cast(dtype, strict=False).cast(pl.Int64).to_list() == [c]]
    rows = {"codes": [*fitting, None] * 3}
    assert len(fitting) > 5
    frame, said = frame_of(rows, feature).cast(dtype), naive_margins(model, rows).tolist()
    assert model.predict(frame).to_list() == said
    assert in_polars(model, frame) == said


@pytest.mark.parametrize("dtype", [pl.Float64, pl.Float32])
def test_floats_that_are_no_codes_are_unnamed_or_missing(dtype):
    rng = random.Random("odd")
    feature = FEATURES[:1]
    model = foreign_model(rng, features=feature)
    odd = [0.5, 1.5, -0.5, math.inf, -math.inf, 1e300 if dtype == pl.Float64 else 1e30, -0.0]
    frame = pl.DataFrame({"codes": pl.Series([*odd, math.nan, None], dtype=dtype)})
    said = naive_margins(model, {"codes": [*odd, None, None]}).tolist()
    assert model.predict(frame).to_list() == said
    assert in_polars(model, frame) == said


@pytest.mark.parametrize("dtype", [pl.Float32, pl.Int64, pl.Int32, pl.UInt8, pl.Int128, pl.Decimal(9, 2)], ids=str)
def test_zeros_in_columns_of_any_numbers(dtype):
    rng = random.Random("zeros")
    feature = FEATURES[1:2]
    model = foreign_model(rng, features=feature)
    values = [0, 1, 2, 100, None]
    frame = pl.DataFrame({"zeros": pl.Series(values).cast(dtype)})
    said = naive_margins(model, {"zeros": values}).tolist()
    assert model.predict(frame).to_list() == said
    if dtype != pl.Decimal(9, 2):  # an expression asks for numbers that may be NaN
        assert in_polars(model, frame) == said


@pytest.mark.parametrize("dtype", [pl.Int8, pl.Int16, pl.Int32, pl.Int64], ids=str)
def test_the_smallest_integer_is_not_zero(dtype):
    tree = Tree((0, -1, -1), (1.5, None, None), (None,) * 3, (False,) * 3, (1, -1, -1), (2, -1, -1), (1.0, 0.0, 0.0),
                (1.0,) * 3, (0.0, 1.0, 2.0))  # fmt: skip
    model = of_trees([tree], FEATURES[1:2])
    column = pl.Series("zeros", [0, 1], dtype=dtype).replace(1, dtype.min())
    frame = column.to_frame()
    assert model.predict(frame).to_list() == in_polars(model, frame) == [2.25, 1.25]


# --- the model file ---------------------------------------------------------------------------------------------------


def test_a_model_comes_back(tmp_path):
    rng = random.Random("file")
    model, rows = foreign_model(rng), random_rows(200, rng)
    model.save(tmp_path / "m.json")
    loaded = fb.load(tmp_path / "m.json")
    assert loaded == model and loaded.to_json() == model.to_json()
    assert loaded.ensemble.features == model.ensemble.features and loaded.ensemble.trees == model.ensemble.trees
    assert loaded.predict(frame_of(rows)).to_list() == naive_margins(model, rows).tolist()
    assert loaded.trees.equals(model.trees)
    document = json.loads(model.to_json())
    assert ["with_missing" in item for item in document["trees"]] == [any(t.with_missing) for t in model.ensemble.trees]
    assert [item.get("zero_is_missing") for item in document["features"]] == [None, True, None, True, None]


DOCUMENT = {
    "format": "frameboost",
    "version": 1,
    "objective": {"name": "other:thing", "links": ["1 / (1 + EXP(-margin))"], "classes": 2},
    "parameters": {},
    "base_margin": 0.0,
    "features": [
        {"name": "c", "type": "codes", "categories": [-1, 3, 7]},
        {"name": "z", "type": "float32", "zero_is_missing": True},
        {"name": "s", "type": "string", "categories": ["a", "b"]},
    ],
    "trees": [
        {
            "feature": [0, 1, -1, -1, 2, -1, -1], "threshold": [None, 0.5, None, None, None, None, None],
            "categories": [[1, 2], None, None, None, [0], None, None],
            "missing_left": [True, False, False, False, False, False, False],
            "left": [1, 2, -1, -1, 5, -1, -1], "right": [4, 3, -1, -1, 6, -1, -1],
            "gain": [1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0], "cover": [4.0, 2.0, 1.0, 1.0, 2.0, 1.0, 1.0],
            "value": [0.0, 0.0, 1.0, 2.0, 0.0, 3.0, 4.0],
            "with_missing": [True, False, False, False, True, False, False],
        }
    ],
}  # fmt: skip


def changed(path: str, value: object) -> bytes:
    return json.dumps(put(DOCUMENT, [int(key) if key.isdigit() else key for key in path.split(".")], value)).encode()


def test_the_document_is_a_model():
    parts = read_model(json.dumps(DOCUMENT).encode())
    model = fb.Model(parts)
    assert json.loads(model.to_json()) == DOCUMENT
    rows = {"c": [3, 7, -1, None, 9, 3], "z": [0.0, 1.0, 0.0, 0.25, 0.0, None], "s": ["a", "b", None, "a", "b", "q"]}
    margins = [
        math.fsum(model.ensemble.trees[0].value[leaf] for leaf in leaves) for leaves in naive_leaves(model, rows)
    ]
    assert margins == [2.0, 2.0, 4.0, 1.0, 3.0, 2.0]
    frame = frame_of(rows, parts.features)
    assert model.predict(frame, "margin").to_list() == margins
    assert model.predict(frame).to_list() == pytest.approx([1 / (1 + math.exp(-m)) for m in margins], rel=1e-15)
    assert model.predict(frame, "class").to_list() == [1] * 6
    assert model.objective == "other:thing"


OBJECTIVE = "damaged model: an objective of another library has "
CODES_WANTED = 'damaged model, feature 0: "categories" must be sorted, distinct integers, not '
ZERO_WANTED = '"zero_is_missing" must be true, on a float feature, or false, not '


@cases(
    ("path", "value", "message"),
    [
        ("objective.name", 3, f"{OBJECTIVE}a name and a list of links"),
        ("objective.name", ..., f"{OBJECTIVE}a name and a list of links"),
        ("objective.links", "margin", f"{OBJECTIVE}a name and a list of links"),
        ("objective.links", [], "damaged model: an objective of 0 links can't have 2 classes"),
        ("objective.links", ["1 +"], "damaged model: "),
        ("objective.links", ["margin; DROP TABLE t"], "damaged model: "),
        ("objective.links", ["margin_0"], "damaged model: "),
        ("objective.links", ["margin_0", "margin_1"], "damaged model: its 1 trees are not whole rounds of 2 outputs"),
        ("objective.classes", 3, "damaged model: an objective of 1 links can't have 3 classes"),
        ("objective.classes", True, f"{OBJECTIVE}a number of classes"),
        ("objective.classes", ..., f"{OBJECTIVE}a number of classes"),
        ("objective.gradient", "1", 'damaged model, objective: unknown field "gradient"'),
        ("features.0.categories", [3, -1], CODES_WANTED),
        ("features.0.categories", [-1, 3, 3], CODES_WANTED),
        ("features.0.categories", [-1, 3, 7.5], CODES_WANTED),
        ("features.0.categories", [-1, 3, True], CODES_WANTED),
        ("features.0.categories", [-1, 3, 2**63], CODES_WANTED),
        ("features.0.categories", ..., 'damaged model, feature 0: "categories" must be a list, not '),
        ("features.0.zero_is_missing", True, 'damaged model, feature 0: unknown field "zero_is_missing"'),
        ("features.2.zero_is_missing", False, 'damaged model, feature 2: unknown field "zero_is_missing"'),
        ("features.1.zero_is_missing", 1, f"damaged model, feature 1: {ZERO_WANTED}1"),
        ("features.1.type", "int32", f"damaged model, feature 1: {ZERO_WANTED}true"),
        ("features.1.categories", [1], 'damaged model, feature 1: unknown field "categories"'),
        ("trees.0.with_missing", True, 'damaged model, tree 0: "with_missing" must be a list, not true'),
        ("trees.0.with_missing", [True], 'damaged model, tree 0: "with_missing" has 1 entries, "feature" has 7'),
        ("trees.0.with_missing.0", 1, 'damaged model, tree 0, node 0: "with_missing" must be true or false, not 1'),
        ("trees.0.with_missing.1", True,
         'damaged model, tree 0, node 1: only a split by categories may have "with_missing"'),
        ("trees.0.threshold.0", 3, 'damaged model, tree 0, node 0: "threshold" must be a value of type codes, not 3'),
        ("trees.0.categories.0", [3], 'tree 0, node 0: "categories" must be sorted, distinct numbers below 3'),
        ("trees.0.categories.0", None, 'tree 0, node 0: "categories" must be a list of category numbers, not null'),
    ],
)  # fmt: skip
def test_damage_is_named(path, value, message):
    with pytest.raises(fb.ModelFileError) as error:
        read_model(changed(path, value))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", [[False] * 7, ...], ids=["all false", "left out"])
def test_with_missing_is_left_out_if_false_everywhere(value):
    parts = read_model(changed("trees.0.with_missing", value))
    assert parts.trees[0].with_missing == (False,) * 7
    model = fb.Model(parts)
    assert "with_missing" not in model.to_json()


def test_losses_of_several_links():
    document = json.loads(json.dumps(DOCUMENT))
    document["objective"] = {"name": "o:v", "links": ["EXP(margin_0)", "margin_1 + margin_0", "2.0"], "classes": 3}
    document["base_margin"] = [0.5, 0.0, 1.0]
    document["trees"] = [document["trees"][0] | {"output": k} for k in range(3)]
    parts = read_model(json.dumps(document).encode())
    model = fb.Model(parts)
    assert read_model(model.to_json().encode()) == parts
    frame = frame_of({"c": [3, None], "z": [0.0, 0.25], "s": ["a", "b"]}, parts.features)
    leaf = np.array([[2.0], [1.0]])
    margins = leaf + np.array([0.5, 0.0, 1.0])
    np.testing.assert_array_equal(model.predict(frame, "margin").to_numpy(), margins)
    said = np.column_stack([np.exp(margins[:, 0]), margins[:, 1] + margins[:, 0], [2.0, 2.0]])
    np.testing.assert_allclose(model.predict(frame, "probability").to_numpy(), said, rtol=1e-15)
    assert model.predict(frame, "class").to_list() == [2, 2]
    con = duckdb.connect()
    to_duckdb(con, frame, "t")
    rows = sorted(con.execute(model.query("t", keep=["position"], output="probability")).fetchall())
    np.testing.assert_allclose([row[1:] for row in rows], said, rtol=1e-14)


# --- nothing is trained on --------------------------------------------------------------------------------------------

ROWS = pl.DataFrame({"c": [3, 7, None, 3], "z": [0.0, 1.0, 2.0, None], "s": ["a", "b", "a", None], "y": [0, 1, 1, 0]})


def own(number: int) -> fb.Model:
    """Return a model with a single feature of the document's, a loss of frameboost's and no parameters."""
    feature = read_model(json.dumps(DOCUMENT).encode()).features[number]
    at, named = (None, (1,)) if feature.type.is_categorical else (0.5, None)
    tree = Tree((0, -1, -1), (at, None, None), (named, None, None),
                (False,) * 3, (1, -1, -1), (2, -1, -1), (1.0, 0.0, 0.0), (2.0, 1.0, 1.0), (0.0, 1.0, 2.0),
                with_missing=(feature.type.name == "string", False, False))  # fmt: skip
    return model_of_parts(LOSS, {}, [feature], (0.0,), [tree])


REFIT = "^the model can't be refitted: it is an average of models, comes from another library, or was continued"


@cases("number", range(3))
def test_foreign_models_are_neither_refitted_nor_continued(number):
    model = own(number)
    rows = ROWS.select(model.features[0], "y").cast({"z": pl.Float32} if number == 1 else {})
    model.predict(rows)
    with pytest.raises(fb.ParameterError, match=REFIT):
        model.refit(rows, "y")
    with pytest.raises((fb.ParameterError, fb.DataError)) as error:
        fb.fit(rows, "y", n_estimators=1, init_model=model)
    assert number or "another library" in str(error.value)
    assert len(str(error.value)) < 200 and "\n" not in str(error.value)


def test_losses_of_other_libraries_are_not_trained_on():
    base, features = own(1).ensemble, [Feature("y2", FeatureType("float64"))]
    model = model_of_parts(foreign_loss("other:thing", ["margin"]), {}, features, base.base_margins, base.trees)
    rows = pl.DataFrame({"y2": [0.0, 1.0, 2.0, 3.0], "y": [0, 1, 1, 0]})
    with pytest.raises(fb.ParameterError, match=REFIT):
        model.refit(rows, "y")
    for objective in ("reg:squarederror", "binary:logistic"):
        with pytest.raises(fb.ParameterError, match=r"^init_model was trained with objective 'other:thing' .*, not "):
            fb.fit(rows, "y", objective=objective, n_estimators=1, init_model=model)
