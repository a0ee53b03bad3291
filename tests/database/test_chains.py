"""A model in several queries, each over the result of the one before: the scores, and the proof of each query."""

import random
from functools import cache

import duckdb
import jinja2
import numpy as np
import polars as pl
import pytest
from sqlglot import exp

import frameboost as fb
from frameboost.compile.sql.forms import exceeded_limit
from frameboost.database.database_model import DatabaseModel
from frameboost.schema.types import FeatureType
from tests.database.test_self_test import FRAME, sabotaged, types_of
from tests.support.cases import cases
from tests.support.parsed_sql import parsed
from tests.support.random_models import (
    NAMES,
    TYPES,
    naive_leaves,
    naive_margins,
    random_case,
    random_model,
    random_values,
)
from tests.support.stars import random_star
from tests.support.warehouses import ALL_BUT_SPARK, Warehouse, nameable, open_warehouse

FEATURES = {"features": ["kind", "x", "n"], "n_estimators": 40, "max_depth": 3}
CLASSES = FRAME.with_columns(y="It's " + (pl.col("n") // 3).cast(pl.String))
MODELS = {
    "squared error": lambda: FRAME.pipe(fb.fit, "y", **FEATURES),
    "leaves": lambda: FRAME.pipe(fb.fit, "y", **{**FEATURES, "n_estimators": 9, "max_depth": 7}),
    "logistic": lambda: FRAME.with_columns(y=pl.col("y") > 1).pipe(fb.fit, "y", **FEATURES),
    "labels": lambda: CLASSES.pipe(fb.fit, "y", **{**FEATURES, "n_estimators": 15, "max_depth": 4}),
    "offset": lambda: FRAME.pipe(fb.fit, "y", base_margin="start", **FEATURES),
    "exposure": lambda: FRAME.pipe(fb.fit, "n", exposure="share", objective="count:poisson",
                                   **{**FEATURES, "features": ["kind", "x"]}),
    "linear leaves": lambda: FRAME.pipe(fb.fit, "y", linear_tree=True, **FEATURES),
    "intervals": lambda: FRAME.pipe(fb.fit, "y", **FEATURES).conform(FRAME, "y", groups="kind"),
}  # fmt: skip
OUTPUTS = {"leaves": ["leaf"], "logistic": ["mean", "class"], "labels": ["probability", "class"],
           "intervals": ["interval"]}  # fmt: skip
EVERY = [(kind, output) for kind in MODELS for output in OUTPUTS.get(kind, ["mean"])]


@cache
def model_of(kind: str) -> fb.Model:
    return MODELS[kind]()


def chain(folder, database: DatabaseModel, **how) -> tuple[dict[str, str], dict[str, str]]:
    """Return the queries of a chain and its self-tests, by name, over tables of the names that they read."""
    paths = database.to_dbt(folder, "chained", "trips", materialized="view", **how)
    assert not any(path.parent.name == "macros" for path in paths), "the model fits into one query"
    texts = {
        path.stem: jinja2.Template(path.read_text()).render(config=lambda **_: "", ref=database.dialect.quote)
        for path in paths if path.suffix == ".sql" and "values" not in path.stem
    }  # fmt: skip
    proofs = {name: text for name, text in texts.items() if name.endswith(("self_test", "check"))}
    return {name: text for name, text in texts.items() if name not in proofs}, proofs


def in_parts(model: fb.Model, name: str, output: str) -> DatabaseModel:
    """Return the model as a database runs it whose views have a third of the model's query, and a header."""
    size = len(model.database(name).query("trips", keep=["n"], output=output).encode())
    return model.database(name, limits={"view": size // 3 + 2_000, "text": 10**6})


def make_views(database: Warehouse, queries: dict[str, str]) -> None:
    for name, text in queries.items():
        database.run(f"CREATE VIEW {database.dialect.quote(name)} AS {text}")


def drop_views(database: Warehouse) -> None:
    for name in ("chained", *(f"chained_part_{number}" for number in range(12, 0, -1))):
        database.run(f"DROP VIEW IF EXISTS {database.dialect.quote(name)}")


@pytest.fixture
def opened():
    """Return a function that opens a database, in which no views of these tests stay."""
    databases: list[Warehouse] = []

    def open_without_views(name: str) -> Warehouse:
        databases.append(open_warehouse(name))
        return databases[-1]

    yield open_without_views
    for database in databases:
        drop_views(database)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL_BUT_SPARK)
def test_a_chain_scores_as_python_and_proves_itself(name, opened, tmp_path):
    database = opened(name)

    # Others plan such views for seconds.
    @cases("kind, output", EVERY if name in ("duckdb", "sqlite") else [("labels", "class"), ("offset", "mean")])
    def proves(kind, output):
        model = model_of(kind)
        drop_views(database)
        types = types_of(model, output)
        database.fill("trips", {column: (kind, FRAME[column].to_list()) for column, (kind, _) in types.items()})
        how = {"keep": ["x"], "output": output, "self_test": 100, "check": FRAME.head(20)}
        queries, proofs = chain(tmp_path / kind / output, in_parts(model, name, output), **how)
        assert proofs.keys() == {f"{query}_{end}" for query in queries for end in ("self_test", "check")}
        make_views(database, queries)
        assert {proof: found for proof, text in proofs.items() if (found := database.rows(text))} == {}
        rows = sorted(map(list, database.rows(f"SELECT * FROM {database.dialect.quote('chained')}")))
        values = model.predict(FRAME, output).to_list()
        values = [list(v.values()) if isinstance(v, dict) else v if isinstance(v, list) else [v] for v in values]
        expected = sorted([x, *v] for x, v in zip(FRAME["x"].to_list(), values, strict=True))
        if isinstance(expected[0][1], str):
            assert rows == expected
        else:
            np.testing.assert_allclose(np.array(rows, float), np.array(expected, float), rtol=1e-12)

    proves()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["squared error", "labels", "exposure"])
def test_each_query_is_tested_at_its_splits_and_leaves(kind, opened, tmp_path):
    model, database = model_of(kind), opened("sqlite")
    output = "probability" if kind == "labels" else "mean"
    database.fill("trips", types_of(model, output))
    queries, proofs = chain(tmp_path, in_parts(model, "sqlite", output), keep=["x"], output=output)
    make_views(database, queries)
    assert len(proofs) > 1
    for name, text in proofs.items():
        changed = list(sabotaged(text, random.Random(name), 60))
        assert len(changed) > 15
        assert [what for sql, what in changed if database.rows(sql) == []] == [], name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "keep"), [("duckdb", ["id"]), ("duckdb", None), ("mariadb", ["id"])],
    ids=["duckdb", "duckdb, all columns", "mariadb@server"],
)  # fmt: skip
def test_columns_of_hostile_names_are_passed_on(name, keep, opened, tmp_path):
    database, rng = opened(name), random.Random(4)
    names = nameable(database.dialect, [name for name in NAMES if name.strip()])[:6]
    kinds = [FeatureType(kind) for kind in ("float64", "string", "int64", "boolean", "string", "float32")]
    model = random_model(kinds, names, rng, n_trees=40, depth=5)
    columns = {column: random_values(kind, 50, rng) for column, kind in zip(names, kinds, strict=True)}
    held = database.fill_features("trips", model, columns)
    queries, proofs = chain(tmp_path, in_parts(model, name, "margin"), keep=keep, output="margin")
    make_views(database, queries)
    assert {proof: found for proof, text in proofs.items() if (found := database.rows(text))} == {}
    id_, prediction = map(database.dialect.quote, ("id", "prediction"))
    rows = database.rows(f"SELECT {id_}, {prediction} FROM chained ORDER BY {id_}")
    assert [score for _, score in rows] == naive_margins(model, held).ravel().tolist()
    whole = model.database(name).query("trips", keep=keep, output="margin")
    assert len(database.rows("SELECT * FROM chained")[0]) == len(database.rows(whole)[0])


@pytest.mark.slow
@cases("seed", [0, 38, 42, 55])
def test_random_models_have_the_scores_and_the_leaves_of_python(seed, tmp_path):
    """Trees of a few leaves among them, whose numbers are multiples of another number."""
    database, rng = open_warehouse("sqlite"), random.Random(seed)
    kinds = [kind for kind in TYPES if database.column_type(FeatureType(kind)) is not None and "decimal" not in kind]
    model, columns, _ = random_case(rng.sample(kinds, 4), rng, n_trees=16, depth=4, n_rows=40)
    drop_views(database)
    held = database.fill_features("trips", model, columns)
    for output, expected in (("margin", naive_margins(model, held)), ("leaf", naive_leaves(model, held))):
        how = {"keep": ["id"], "output": output}
        queries, proofs = chain(tmp_path / f"{output} {seed}", in_parts(model, "sqlite", output), **how)
        make_views(database, queries)
        assert {proof: found for proof, text in proofs.items() if (found := database.rows(text))} == {}
        rows = [row[1:] for row in sorted(database.rows("SELECT * FROM chained"))]
        assert np.array(rows).tolist() == np.array(expected).reshape(len(rows), -1).tolist()
        drop_views(database)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["auto", "by_key"])
def test_a_chain_over_a_star_reads_the_joined_columns_once(form, tmp_path):
    star, con = random_star(1), duckdb.connect()
    how = {"features": star.features(), "n_estimators": 60, "max_depth": 4, "colsample_bytree": 0.3}
    model = star.of_relations(con).pipe(fb.fit, target="y", **how)
    query = model.database().query("trips", keep=["x"], form=form)
    database = model.database(limits={"view": len(query) // 2, "text": 10**6})
    con.execute("CREATE VIEW trips AS FROM facts")
    queries, proofs = chain(tmp_path, database, keep=["x"], form=form)
    assert len(queries) > 1
    for name, text in queries.items():
        con.execute(f"CREATE VIEW {name} AS {text}")
        assert ("JOIN" in text) == (name == "chained_part_1")
    assert {proof: found for proof, text in proofs.items() if (found := con.execute(text).fetchall())} == {}
    for statement in database.deploy_statements("deployed", "trips", keep=["x"], form=form):
        con.execute(statement)
    expected = sorted(con.execute(query).fetchall())
    assert sorted(con.execute("FROM chained").fetchall()) == sorted(con.execute("FROM deployed").fetchall()) == expected


@pytest.mark.slow
def test_parts_leave_room_for_their_tests(tmp_path):
    model = model_of("squared error")
    size = len(model.database("snowflake").query("trips", keep=["n"]).encode())
    for name, limits in (("snowflake", {"text": size // 2}), ("databricks", {"elements": 2_000})):
        database = model.database(name, limits=limits)
        paths = database.to_dbt(tmp_path / name, "chained", "trips", keep=["n"], check=FRAME)
        texts = {path.stem: path.read_text() for path in paths if path.suffix == ".sql"}
        proofs = {name for name in texts if name.endswith(("self_test", "check"))}
        queries = texts.keys() - proofs
        assert len(queries) > 1
        assert proofs == {f"{query}_{end}" for query in queries for end in ("self_test", "check")}
        for text in texts.values():
            assert not exceeded_limit(text[text.index("-- A ") :], [], database.dialect, in_one=False)


@pytest.mark.slow
def test_a_query_that_leaves_its_test_no_room_becomes_a_chain(tmp_path):
    model = model_of("squared error")
    [whole, *_] = model.database("snowflake").to_dbt(tmp_path / "whole", "one", "trips", keep=["n"])
    database = model.database("snowflake", limits={"text": len(whole.read_bytes())})
    names = {path.stem for path in database.to_dbt(tmp_path / "one", "one", "trips", keep=["n"], self_test=0)}
    assert names == {"one"}
    names = {path.stem for path in database.to_dbt(tmp_path / "two", "one", "trips", keep=["n"])}
    assert {"one_part_1", "one_part_1_self_test", "one_self_test"} <= names
    with pytest.raises(fb.ParameterError, match=r"leaves no room for a row of a self-test: .*; use self_test=0$"):
        database.to_dbt(tmp_path / "case", "one", "trips", keep=["n"], form="case")
    assert not (tmp_path / "case").exists()


@pytest.mark.slow
@pytest.mark.parametrize("columns", [10, 12])
def test_no_query_has_more_columns_than_it_may_have(columns, tmp_path):
    model = random_model([FeatureType("float64")] * 2, ["x", "n"], random.Random(3), 600, 2)
    database = model.database("oracle", limits={"columns": columns})
    paths = database.to_dbt(tmp_path, "one", "trips", keep=["id"], form="staged")
    texts = [
        jinja2.Template(path.read_text()).render(config=lambda **_: "", ref=str, source=str, this="t")
        for path in paths if path.suffix == ".sql" and "macros" not in path.parts
    ]  # fmt: skip
    assert len([path for path in paths if "part" in path.stem and "test" not in path.stem]) > 0
    selects = [select for text in texts for select in parsed(text, database.dialect).find_all(exp.Select)]
    assert columns / 2 < max(len(select.expressions) for select in selects) <= columns
    with pytest.raises(fb.TooLargeError, match=f"would have {columns + 1} columns, and a SELECT in oracle has at most"):
        database.query("t", keep=[f"c{number}" for number in range(columns)])
