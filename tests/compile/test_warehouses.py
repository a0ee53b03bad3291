"""Bit-identical scores of a model in every installed database."""

import random
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.compile.sql import sql_model
from frameboost.schema.types import Feature, FeatureType
from frameboost.trees.tree import on_leaf_grid
from tests.support.cases import cases
from tests.support.linear_models import drawn
from tests.support.models import grown, made, model_of_parts
from tests.support.random_models import NAMES, TYPES, bits, naive_margins, random_case, random_model, random_values
from tests.support.warehouses import ALL, ALL_BUT_SPARK, Warehouse, nameable, open_warehouse

FORMS = ["case", "lists", "sorted", "staged", "table"]
N_ROWS = 60


@pytest.fixture(params=ALL)
def warehouse(request) -> Warehouse:
    return open_warehouse(request.param)


@pytest.fixture(params=ALL_BUT_SPARK)
def fast_warehouse(request) -> Warehouse:
    return open_warehouse(request.param)


def assert_same(warehouse: Warehouse, model, columns, form="auto") -> None:
    values = warehouse.fill_features("t", model, columns)
    trees = None
    if form == "table":
        trees = "trees"
        Warehouse.load_trees(warehouse, trees, model, Path())  # by statements, also in Spark
    query = model.query("t", warehouse.name, keep=["id"], output="margin", form=form, trees=trees)
    rows = sorted(warehouse.rows(query))
    assert [row[0] for row in rows] == list(range(len(next(iter(values.values())))))
    assert bits([row[1] for row in rows]) == bits(naive_margins(model, values))


def only_where_it_is_known(warehouse: Warehouse, form: str) -> None:
    if form in ("lists", "sorted") and warehouse.name != "duckdb":
        pytest.skip(f"{warehouse.name} has no such form")


def usable(warehouse: Warehouse) -> list[FeatureType]:
    """Return the types that the database has columns for, and whose values it holds."""
    kinds = map(FeatureType, [*TYPES, "decimal(15,3)"])
    held = [kind for kind in kinds if warehouse.column_type(kind) is not None]
    return [kind for kind in held if not kind.precision_and_scale or warehouse.holds(kind, 0)]


@pytest.mark.slow
def test_every_type_on_all_its_odd_values(fast_warehouse):
    assert len(usable(fast_warehouse)) > 15

    @cases("kind", usable(fast_warehouse))
    def score_alike(kind):
        model, columns, _ = random_case([str(kind)], random.Random(str(kind)), n_trees=6)
        assert_same(fast_warehouse, model, columns)

    score_alike()


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_all_types_side_by_side_under_hostile_names(warehouse, form):
    only_where_it_is_known(warehouse, form)
    rng = random.Random(f"{warehouse.name} {form}")
    kinds = usable(warehouse)
    names = nameable(warehouse.dialect, [name for name in NAMES if name.strip()])
    names = [name if i < len(names) else f"{names[0]} {i}" for i, name in enumerate((names * 3)[: len(kinds)])]
    n_trees = 1 if warehouse.name == "spark" else 8  # which plans 12 for half a minute
    model = random_model(kinds, names, rng, n_trees=n_trees, depth=5)
    columns = {name: random_values(kind, 50, rng) for kind, name in zip(kinds, names, strict=True)}
    assert_same(warehouse, model, columns, form)


def test_sums_of_integers_at_the_ends_of_32_bits(fast_warehouse, monkeypatch):
    monkeypatch.setattr(sql_model, "_MIN_UNREAD", 0)
    half = 2.0**29  # looked up, in databases that have lists
    halves = [[-half if x < 4 else half for x in xs] for xs in ((0, 1), (2, 3), (4, 5), (6, 7))]
    levels = [(0, 2, "left", *pair) for pair in halves]
    looked_up = (0, 4, "right", (0, 6, "left", *levels[:2]), (0, 6, "left", *levels[2:]))
    for largest in (2**31 - 1, 2**31):
        rest = float(largest - 2**29 - 1)
        trees = [grown((0, 4, "right", -rest, rest)), grown(looked_up)]
        model = made([Feature("x", FeatureType("int32"))], trees, base=(1.0,))
        assert model.predict(pl.DataFrame({"x": [3, 4]})).to_list() == [2.0 - largest, largest]
        assert_same(fast_warehouse, model, {"x": [*range(8), None]})


@pytest.mark.parametrize("least", [2_000, 0], ids=["read", "unread"])
def test_linear_leaves_on_odd_values(fast_warehouse, least, monkeypatch):
    monkeypatch.setattr(sql_model, "_MIN_UNREAD", least)
    kinds = [name for name in ("float32", "int8", "int64", "string") if FeatureType(name) in usable(fast_warehouse)]
    for seed in (1, 2):
        model, columns = drawn(seed, kinds)
        assert model.ensemble.is_linear
        assert_same(fast_warehouse, model, columns)


@cache
def model_of_all_outputs(objective: str, **parameters) -> tuple[fb.Model, pl.DataFrame]:
    rng = np.random.default_rng(3)
    places = pl.Series(rng.choice(["a", "A", "it's", None], size=N_ROWS).tolist(), dtype=pl.String)
    frame = pl.DataFrame({"id": range(N_ROWS), "x": rng.normal(size=N_ROWS), "place": places})
    is_a = (pl.col("place") == "A").fill_null(value=False)
    frame = frame.with_columns(y=(pl.col("x") > 0.3).cast(pl.Int64) + is_a.cast(pl.Int64))
    if objective == "binary:logistic":
        frame = frame.with_columns(pl.col("y").clip(0, 1))
    return fb.fit(frame, "y", objective=objective, features=["x", "place"], n_estimators=3, max_depth=3,
                  min_child_weight=0, **parameters), frame  # fmt: skip


def fill(warehouse: Warehouse, frame: pl.DataFrame) -> None:
    types = {"x": "float64", "start": "float64", "score": "float64", "place": "string"}
    columns = {name: (FeatureType(types[name]), frame[name].to_list()) for name in frame.columns if name in types}
    warehouse.fill("t", columns)


def outcome(warehouse: Warehouse, query: str) -> np.ndarray:
    rows = sorted(tuple(row) for row in warehouse.rows(query))
    assert [row[0] for row in rows] == list(range(len(rows)))
    return np.array([[float(value) for value in row[1:]] for row in rows])


def predicted(model: fb.Model, frame: pl.DataFrame, output: str) -> np.ndarray:
    values = model.predict(frame, output).to_numpy().astype(float)
    return values.reshape(len(frame), -1)


# With names and integers as well, as SQL has them that nobody reads.
@pytest.mark.parametrize("least", [2_000, 0], ids=["read", "unread"])
@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
def test_every_output_of_several_classes(warehouse, strategy, least, monkeypatch):
    monkeypatch.setattr(sql_model, "_MIN_UNREAD", least)
    model, frame = model_of_all_outputs("multi:softprob", multi_strategy=strategy)
    fill(warehouse, frame)
    for output in ("margin", "class", "leaf"):
        found = outcome(warehouse, model.query("t", warehouse.name, keep=["id"], output=output))
        assert (found == predicted(model, frame, output)).all()
    for output in ("mean", "probability"):
        found = outcome(warehouse, model.query("t", warehouse.name, keep=["id"], output=output))
        np.testing.assert_allclose(found, predicted(model, frame, output), rtol=1e-14)


@pytest.mark.parametrize("least", [2_000, 0], ids=["read", "unread"])
def test_every_output_of_two_classes_and_a_calibrated_one(warehouse, least, monkeypatch):
    monkeypatch.setattr(sql_model, "_MIN_UNREAD", least)
    model, frame = model_of_all_outputs("binary:logistic")
    fill(warehouse, frame)
    calibrated = [model.calibrate(frame, "y", method=method) for method in ("platt", "isotonic")]
    for each in (model, *calibrated):
        found = outcome(warehouse, each.query("t", warehouse.name, keep=["id"], output="class"))
        assert (found == predicted(each, frame, "class")).all()
        found = outcome(warehouse, each.query("t", warehouse.name, keep=["id"]))
        np.testing.assert_allclose(found, predicted(each, frame, "mean"), rtol=1e-14)


@cases("margin", [-800.0, -745.0, -709.5, 709.0, 710.0, 800.0])
def test_probabilities_at_the_ends_of_float64(fast_warehouse, margin):
    model, frame = model_of_all_outputs("binary:logistic", base_score=0.5)
    base, trees = on_leaf_grid([margin], model.ensemble.trees)
    far = model_of_parts(model.ensemble.loss, model.parameters, model.ensemble.features, base, trees)
    fill(fast_warehouse, frame)
    found = outcome(fast_warehouse, far.query("t", fast_warehouse.name, keep=["id"]))
    # Where e to the power of the margin would overflow, what is left of it is below 1e-307.
    np.testing.assert_allclose(found, predicted(far, frame, "mean"), rtol=1e-13, atol=1e-307)


def test_views_tables_and_updates(warehouse):
    model, frame = model_of_all_outputs("reg:squarederror")
    expected = predicted(model, frame, "mean")
    fill(warehouse, frame.with_columns(score=pl.lit(None, pl.Float64)))
    quote = warehouse.dialect.quote
    database = model.database(warehouse.name)
    for name, statement in (("v", database.create_view_sql), ("w", database.create_table_sql)):
        kind = {"v": "VIEW", "w": "TABLE"}[name]
        warehouse.run(f"DROP {kind} IF EXISTS {quote(name)}")
        warehouse.run(statement(name, "t", keep=["id"]))
        assert (outcome(warehouse, f"SELECT * FROM {quote(name)}") == expected).all()
        warehouse.run(f"DROP {kind} {quote(name)}")
    if warehouse.name in ("spark", "datafusion"):
        return  # where tables in Parquet can't be updated, and UPDATE loses common subexpressions (55)
    warehouse.run(model.database(warehouse.name).update_sql("t", "score"))
    assert (outcome(warehouse, f"SELECT {quote('id')}, {quote('score')} FROM {quote('t')}") == expected).all()


def test_rows_are_chosen_and_columns_may_have_other_names(warehouse):
    model, frame = model_of_all_outputs("reg:squarederror")
    columns = {
        "X 2": (FeatureType("float64"), frame["x"].to_list()),
        "Ort": (FeatureType("string"), frame["place"].to_list()),
    }
    warehouse.fill("t", columns)
    query = model.query("t", warehouse.name, keep=["id"], columns={"x": "X 2", "place": "Ort"},
                        where=f"{warehouse.dialect.quote('id')} < 20")  # fmt: skip
    assert (outcome(warehouse, query) == predicted(model, frame[:20], "mean")).all()


@pytest.mark.parametrize("objective", ["multi:softprob", "binary:logistic"])
def test_outputs_over_a_table_of_trees(fast_warehouse, tmp_path, objective):
    model, frame = model_of_all_outputs(objective)
    fill(fast_warehouse, frame)
    fast_warehouse.load_trees("trees", model, tmp_path)
    for output in ("leaf", "mean", "class"):
        query = model.query("t", fast_warehouse.name, keep=["id"], output=output, form="table", trees="trees")
        np.testing.assert_allclose(outcome(fast_warehouse, query), predicted(model, frame, output), rtol=1e-14)


@pytest.mark.slow
@cases("form", FORMS)
def test_margins_start_from_a_column_and_nothing_is_predicted_where_it_is_null(fast_warehouse, tmp_path, form):
    """LEAST and GREATEST pass over NULL in PostgreSQL, CASE takes ELSE, and ClickHouse's CAST raises an error."""
    only_where_it_is_known(fast_warehouse, form)
    outputs_of = {"binary:logistic": ("margin", "mean", "class", "probability"), "count:poisson": ("mean",)}
    for objective, outputs in outputs_of.items():
        model, frame = model_of_all_outputs(objective)
        frame = frame.with_columns(start=pl.when(pl.col("id") % 3 > 0).then(pl.col("id") / 800))
        fill(fast_warehouse, frame)
        fast_warehouse.load_trees("trees", model, tmp_path)
        margins = model.predict(frame, "margin").to_numpy() - model.base_margin + frame["start"].to_numpy()
        for output in outputs:
            query = model.query("t", fast_warehouse.name, keep=["id"], base_margin="start", output=output, form=form,
                                trees="trees" if form == "table" else None)  # fmt: skip
            found = [row[1] for row in sorted(fast_warehouse.rows(query))]
            assert [value is None for value in found] == [k % 3 == 0 for k in range(len(frame))]
            if output == "margin":
                assert found == model.predict(frame, output, base_margin="start").to_list()
                continue
            means = np.exp(margins) if objective == "count:poisson" else 1 / (1 + np.exp(-margins))
            expected = (margins > 0) if output == "class" else means
            known = [value for value in found if value is not None]
            np.testing.assert_allclose(known, expected[~np.isnan(margins)], rtol=1e-12)


@cases("form", FORMS)
def test_trees_of_a_single_leaf(fast_warehouse, tmp_path, form):
    only_where_it_is_known(fast_warehouse, form)
    # The margin of the second is a negative number, and its mean 1 / (1 + EXP(-margin)): two signs begin a comment.
    for objective, base_score in (("reg:squarederror", 0.5), ("binary:logistic", 0.2)):
        model, frame = model_of_all_outputs(objective, gamma=1e9, base_score=base_score)
        assert len(model.trees) == model.n_trees
        fill(fast_warehouse, frame)
        fast_warehouse.load_trees("trees", model, tmp_path)
        trees = "trees" if form == "table" else None
        query = model.query("t", fast_warehouse.name, keep=["id"], form=form, trees=trees)
        np.testing.assert_allclose(outcome(fast_warehouse, query), predicted(model, frame, "mean"), rtol=1e-15)


def test_all_columns_are_kept_where_none_is_named(warehouse):
    model, frame = model_of_all_outputs("reg:squarederror")
    fill(warehouse, frame)
    rows = warehouse.rows(model.query("t", warehouse.name))
    if warehouse.name == "sqlite":  # where of two columns of one name the first is meant
        rows = [(*row[1:], row[0]) for row in rows]
    rows = sorted(rows, key=lambda row: row[0])
    assert [row[:3] for row in rows] == frame.select("id", "x", "place").rows()
    assert [row[3] for row in rows] == model.predict(frame).to_list()
