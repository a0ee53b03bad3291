"""The query by which a database proves its scores: silent where they are right, and not where one thing is wrong."""

import random
import re
import sqlite3

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.cli import main
from frameboost.database.self_test import SelfTest
from frameboost.errors import ParameterError
from frameboost.schema.types import FeatureType
from tests.support.cases import cases
from tests.support.random_models import NAMES, TYPES, random_case, random_model
from tests.support.stars import random_star
from tests.support.warehouses import ALL, ALL_BUT_SPARK, databases, nameable, open_warehouse

N = 600


def rows_of_trips() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    kinds = pl.Series("kind", [["AA", "aa", "it's", None][i % 4] for i in range(N)])
    frame = pl.DataFrame({"x": rng.normal(size=N), "n": rng.integers(0, 9, N), "start": rng.normal(size=N)})
    frame = frame.with_columns(kinds, share=rng.uniform(0.1, 2.0, N))
    is_lower = (pl.col("kind") == "aa").fill_null(value=False)
    return frame.with_columns(y=pl.col("x") + 3.0 * is_lower + 0.1 * pl.col("n"))


FEATURES = {"features": ["kind", "x", "n"], "n_estimators": 5, "max_depth": 3}
FRAME = rows_of_trips()
MODELS = {
    "squared error": lambda: FRAME.pipe(fb.fit, "y", **FEATURES),
    "logistic": lambda: FRAME.with_columns(y=pl.col("y") > 1).pipe(fb.fit, "y", **FEATURES),
    "labels": lambda: FRAME.with_columns(y="It's " + (pl.col("n") // 3).cast(pl.String)).pipe(fb.fit, "y", **FEATURES),
    "offset": lambda: FRAME.pipe(fb.fit, "y", base_margin="start", **FEATURES),
    "exposure": lambda: FRAME.pipe(fb.fit, "n", exposure="share", objective="count:poisson", features=["kind", "x"],
                                   n_estimators=5),
    "quantiles": lambda: FRAME.pipe(fb.fit, "y", objective="reg:quantileerror", quantile_alpha=[0.1, 0.9], **FEATURES),
    "float32": lambda: FRAME.with_columns(pl.col("x").cast(pl.Float32)).pipe(fb.fit, "y", **FEATURES),
    "linear leaves": lambda: FRAME.pipe(fb.fit, "y", linear_tree=True, **FEATURES),
    "intervals": lambda: FRAME.pipe(fb.fit, "y", **FEATURES).conform(FRAME, "y", groups="kind"),
    "no split": lambda: FRAME.pipe(fb.fit, "y", gamma=1e9, **FEATURES),
}  # fmt: skip
OUTPUTS = {"logistic": ["mean", "margin", "class", "leaf"], "labels": ["probability", "class"], "quantiles": ["mean"],
           "intervals": ["interval"]}  # fmt: skip


def types_of(model: fb.Model, output: str) -> dict[str, tuple[FeatureType, list]]:
    groups = model.ensemble.interval.groups if output == "interval" else None
    features = [*model.ensemble.read_features, *([] if groups is None else [groups.feature])]
    return {feature.name: (feature.type, [None]) for feature in features}


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_a_database_that_scores_as_python_returns_no_row(name):
    database = open_warehouse(name)

    # Spark plans each for seconds.
    every = [(kind, output) for kind in MODELS for output in OUTPUTS.get(kind, ["mean", "margin"])]

    @cases("kind, output", [("logistic", "mean")] if name == "spark" else every)
    def proves(kind, output):
        model = MODELS[kind]()
        database.fill("trips", types_of(model, output))
        assert database.rows(model.database(name).self_test_query("trips", output=output, rows=200)) == []

    proves()


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL_BUT_SPARK)
def test_every_type_at_its_thresholds(name):
    database = open_warehouse(name)
    kinds = [kind for kind in map(FeatureType, TYPES) if database.column_type(kind) is not None]

    @cases("kind", kinds)
    def proves(kind):
        model, _, _ = random_case([str(kind)], random.Random(str(kind)), n_trees=6)
        database.fill("t", types_of(model, "margin"))
        query = model.database(name).self_test_query("t", output="margin", rows=200)
        if not kind.precision_and_scale or database.holds(kind, 0):  # SQLite has decimals as float64
            assert database.rows(query) == []
        if kind.is_float and database.dialect.literals.nan is not None:
            assert database.dialect.literals.nan in query

    proves()


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL_BUT_SPARK)
def test_hostile_names_and_a_table_of_trees(name, tmp_path):
    database = open_warehouse(name)
    names = nameable(database.dialect, [name for name in NAMES if name.strip()])[:6]
    kinds = [FeatureType(kind) for kind in ("float64", "string", "int64", "boolean", "string", "float32")]
    model = random_model(kinds[: len(names)], names, random.Random(3), n_trees=5, depth=4)
    database.fill("a 't", types_of(model, "margin"))
    database.load_trees("trees", model, tmp_path)
    for form, trees in (("auto", None), ("table", "trees")):
        query = model.database(name).self_test_query("a 't", output="margin", form=form, trees=trees)
        assert database.rows(query) == [], form


def sabotaged(query: str, rng: random.Random, n: int):
    """Yield queries with one threshold, number, category, operator or direction of the model changed."""
    begin, end = query.index("\n),", query.index("WHERE 1 = 0")), query.rindex("ROW_NUMBER() OVER (ORDER BY")
    numbers = r"(?<![\w.])-?\d+\.\d+(?:e[+-]?\d+)?(?![\w.])|(?<=[<=] )-?\d+\b|(?<=THEN )-?\d{5,}\b"
    what = rf"{numbers}|'(?:[^']|'')*'|>=|<(?!=)|\bAND\b| IS NULL"
    parts = list(re.finditer(what, query[begin:end]))
    for part in rng.sample(parts, min(n, len(parts))):
        text = part[0]
        if text in ("<", ">="):
            new = {"<": "<=", ">=": ">"}[text]
        elif text in ("AND", " IS NULL"):
            new = {"AND": "OR", " IS NULL": " IS NOT NULL"}[text]
        elif text.startswith("'"):
            new = "'ZZ'"
        else:
            new = (
                repr(float(text) * (1 + 1e-7) or 1e-3) if "." in text else str(int(text) + 1 + abs(int(text)) // 10**6)
            )
        start = begin + part.start()
        yield query[:start] + new + query[start + len(text) :], f"{text} -> {new} in {query[start - 60 : start + 60]}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["squared error", "logistic", "labels", "quantiles", "offset", "exposure"])
def test_one_changed_literal_or_side_is_found(kind):
    model = MODELS[kind]()
    con = sqlite3.connect(":memory:")
    con.execute("CREATE TABLE trips (kind TEXT, x REAL, n INTEGER, start REAL, share REAL)")
    query = model.database("sqlite").self_test_query("trips", output="probability" if kind == "labels" else "mean")
    changed = list(sabotaged(query, random.Random(kind), 150))
    assert len(changed) > 50
    assert [what for sql, what in changed if con.execute(sql).fetchall() == []] == []


def test_rows_say_what_was_expected_and_of_which_values():
    con = duckdb.connect()
    con.execute("CREATE TABLE orders (x BIGINT, expected VARCHAR)")
    df = pl.DataFrame({"x": [1, 2, 3, 4], "expected": ["a", "b", "b", "a"], "y": [0.0, 0.0, 8.0, 8.0]})
    model = fb.fit(df, "y", features=["x", "expected"], n_estimators=1, learning_rate=1, reg_lambda=0, max_depth=1)
    query = model.database().self_test_query("orders")
    wrong = con.execute(query.replace('"x" < 3', '"x" <= 3'))
    assert [column[0] for column in wrong.description] == ["row", "expected", "prediction", "x"]
    assert [row[1:] for row in wrong.fetchall()] == [(8.0, 0.0, 3)]


@pytest.mark.parametrize(
    ("columns", "without", "n_least"),
    [
        ("kind TEXT, x REAL, n INTEGER", " COLLATE BINARY", 0),
        ("kind TEXT COLLATE NOCASE, x REAL, n INTEGER", " COLLATE BINARY", 1),
        ("kind TEXT COLLATE NOCASE, x REAL, n INTEGER", "", 0),
        ("kind TEXT, x TEXT, n INTEGER", "", 1),  # numbers kept as text compare as text
    ],
)
def test_literals_have_the_collation_and_the_type_of_the_columns(columns, without, n_least):
    con = sqlite3.connect(":memory:")
    con.execute(f"CREATE TABLE trips ({columns})")
    query = MODELS["squared error"]().database("sqlite").self_test_query("trips")
    differing = con.execute(query.replace(without, "") if without else query).fetchall()
    assert min(len(differing), 1) == n_least


def test_every_target_within_reach_is_met_and_the_first_rows_meet_most():
    model = MODELS["squared error"]()
    columns = model.database().columns
    whole = SelfTest(model.ensemble, columns, 10_000)
    assert whole.n_met == whole.n_targets > 150
    # By hand: each leaf of each tree is reached by some row.
    leaves = model.predict(whole.frame(), output="leaf").to_numpy()
    for number, tree in enumerate(model.ensemble.trees):
        assert set(tree.leaves()) == set(leaves[:, number].tolist())
    few = SelfTest(model.ensemble, columns, 10)
    assert whole.n_met * 10 / len(whole.rows) < few.n_met < whole.n_met


def test_the_query_keeps_to_the_limits_of_the_database():
    model = MODELS["squared error"]()
    size = len(model.database("snowflake").query("trips", keep=["n"]).encode())
    query = model.database("snowflake", limits={"text": size + 8_000}).self_test_query("trips")
    assert size < len(query.encode()) <= size + 8_000
    with pytest.raises(ParameterError, match="does not fit into one query"):
        model.database("snowflake", limits={"text": size // 2}).self_test_query("trips")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 5])
def test_a_star_proves_its_scores_over_the_joined_columns(seed):
    star, con = random_star(seed), duckdb.connect()
    model = star.of_relations(con).pipe(fb.fit, target="y", features=star.features(), n_estimators=5, max_depth=3)
    assert con.execute(model.database().self_test_query("facts")).fetchall() == []


@pytest.mark.parametrize("name", ["duckdb", "sqlite"])
def test_rows_of_the_user_are_tested_in_their_order(name):
    model, database = MODELS["intervals"](), open_warehouse(name)
    database.fill("trips", types_of(model, "interval"))
    rows = FRAME.head(50).with_columns(x=pl.when(pl.col("n") == 3).then(float("nan")).otherwise("x"))
    query = model.database(name).self_test_query("trips", data=rows, output="interval")
    assert database.rows(query) == []
    assert query.count("'it''s'") >= rows["kind"].to_list().count("it's")
    few = model.database(name).self_test_query("trips", data=rows, output="margin", rows=3)
    # Where Python is asked for other rows than the database scores, they differ: the first two have other numbers.
    first, second = (model.database(name).dialect.number(value) for value in rows["x"].to_list()[:2])
    swapped = few.replace(first, "first").replace(second, first).replace("first", second)
    assert {row[0] for row in database.rows(swapped)} <= {1, 2, 3}
    assert database.rows(swapped)
    with pytest.raises(fb.DataError, match="feature 'n' has type"):
        model.database(name).self_test_query("trips", data=rows.with_columns(pl.col("n").cast(pl.String)))


# --- columns of other numbers -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL_BUT_SPARK)
def test_a_feature_of_floats_may_be_a_column_of_decimals(name):
    database, cents = open_warehouse(name), [None, *range(-300, 300, 7)]
    frame = pl.DataFrame({"price": [None if c is None else c / 100 for c in cents]})
    frame = frame.with_columns(y=pl.col("price").fill_null(3.0) * 10)
    model = fb.fit(frame, "y", n_estimators=4, max_depth=4, min_child_weight=0).with_baseline(frame, bins=4)
    database.fill("priced", {"price": (FeatureType("decimal(9,2)"), cents)})
    there = model.database(name)
    assert [score for _, score in sorted(database.rows(there.query("priced", keep=["id"])))] == model.predict(
        frame
    ).to_list()
    assert not database.rows(there.self_test_query("priced"))
    assert max(row[-1] for row in database.rows(there.drift_query("priced"))) < 1e-9
    assert {row[-1] for row in database.rows(there.check_columns_query("priced"))} == {None}
    reasons = [row[1] for row in sorted(database.rows(there.explain_query("priced", keep=["id"])))]
    assert reasons == pytest.approx(model.explain(frame)["price"].to_list(), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", databases("postgres", "mariadb", "duckdb"))
def test_a_column_of_an_enum_is_proved(name):
    database, quote = open_warehouse(name), open_warehouse(name).dialect.quote
    frame = pl.DataFrame({"size": ["small", "large", None] * 8, "y": [0.0, 1.0, 5.0] * 8})
    model = fb.fit(frame, "y", n_estimators=2, min_child_weight=0)
    database.run(f"DROP TABLE IF EXISTS {quote('sized')}")
    database.run("DROP TYPE IF EXISTS sizes" if name != "mariadb" else "DO 0")
    values = "ENUM ('small', 'large')"
    if name != "mariadb":
        database.run(f"CREATE TYPE sizes AS {values}")
    database.run(f"CREATE TABLE {quote('sized')} (size {values if name == 'mariadb' else 'sizes'})")
    assert not database.rows(model.database(name).self_test_query("sized"))
    assert [row[-1] for row in database.rows(model.database(name).check_columns_query("sized"))] == [None]


# --- the columns of the table -----------------------------------------------------------------------------------------

COLUMNS = ["feature", "column_name", "trained_type", "expected_type", "type", "collation", "problem"]
WITH_CATALOG = [name for name in ALL_BUT_SPARK if getattr(name, "values", [name])[0] != "spark"]


@pytest.mark.parametrize("name", WITH_CATALOG)
def test_columns_of_every_type_are_no_problem_and_those_of_another_kind_are(name):
    database = open_warehouse(name)
    kinds = [kind for kind in map(FeatureType, TYPES) if database.column_type(kind) is not None]
    names = [f"c{i}" for i in range(len(kinds))]
    model = random_model(kinds, names, random.Random(1), n_trees=2, depth=2)
    query = model.database(name).check_columns_query("checked")
    database.fill("checked", {name: (kind, [None]) for name, kind in zip(names, kinds, strict=True)})
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in database.rows(query)]
    assert [row["feature"] for row in rows] == names
    assert {row["problem"] for row in rows} == {None}
    # The same names with text for numbers, numbers for text, and without the last column.
    text, number = FeatureType("string"), FeatureType("int64")
    database.fill("checked", {name: (number if kind == text else text, [None])
                              for name, kind in zip(names[:-1], kinds[:-1], strict=True)})  # fmt: skip
    problems = {row[0]: row[-1] for row in database.rows(query)}
    assert problems.pop(names[-1]) == "the table has no such column"
    kept_as_text = {name for name, kind in zip(names, kinds, strict=True) if database.column_type(kind) == "TEXT"}
    strings = {name for name, kind in zip(names, kinds, strict=True) if kind == text}
    wrong = {name for name, problem in problems.items() if problem == "another kind of type"}
    assert wrong == {*problems} - (kept_as_text - strings)
    # A table that is not there has no columns.
    assert len(database.rows(model.database(name).check_columns_query("no such table"))) == len(names)


def problems(model, dialect, rows, table):
    return [row[-1] for row in rows(model.database(dialect).check_columns_query(table))]


@pytest.mark.parametrize("name", databases("postgres"))
def test_the_table_is_the_one_that_postgres_reads_by_the_name(name):
    database, columns = open_warehouse(name), "(x TEXT, y BIGINT)"
    model = random_model(
        [FeatureType("string"), FeatureType("int64")], ["x", "y"], random.Random(1), n_trees=1, depth=1
    )
    statements = [
        "BEGIN", "CREATE SCHEMA app", "SET LOCAL search_path = app, public",
        f"CREATE TABLE public.far {columns}", f"CREATE TABLE near {columns}",
        "CREATE TABLE public.near (x BIGINT, y TEXT)", f"CREATE TEMP TABLE now {columns}",
        "CREATE MATERIALIZED VIEW made AS SELECT * FROM far",
        "CREATE DOMAIN code AS TEXT", "CREATE TABLE coded (x code, y BIGINT)",
    ]  # fmt: skip
    try:
        for statement in statements:
            database.run(statement)
        for table in ("far", "near", "app.near", "now", "made", "coded"):
            assert problems(model, name, database.rows, table) == [None, None], table
        assert problems(model, name, database.rows, "public.near") == ["another kind of type"] * 2
    finally:
        database.run("ROLLBACK")


def test_the_table_is_the_one_that_duckdb_reads_by_the_name():
    model = random_model(
        [FeatureType("string"), FeatureType("int64")], ["x", "y"], random.Random(1), n_trees=1, depth=1
    )
    con = duckdb.connect()
    con.execute("ATTACH ':memory:' AS far; CREATE TABLE near (x VARCHAR, y BIGINT)")
    con.execute("CREATE TABLE far.near (x BIGINT, y VARCHAR); CREATE TABLE far.made AS FROM near")
    con.execute("CREATE SCHEMA far.app; CREATE TABLE far.app.near AS FROM near; CREATE TEMP TABLE now AS FROM near")

    def rows(query):
        return con.execute(query).fetchall()

    for table in ("near", "memory.main.near", "far.made", "far.main.made", "far.app.near", "now"):
        assert problems(model, "duckdb", rows, table) == [None, None], table
    assert problems(model, "duckdb", rows, "far.near") == ["another kind of type"] * 2


def test_types_that_sqlite_knows_by_name_only_hold_texts_and_numbers():
    database = open_warehouse("sqlite")
    kinds = {"at": "timestamp[us]", "day": "date", "open": "boolean", "price": "decimal(9,2)"}
    model = random_model(list(map(FeatureType, kinds.values())), list(kinds), random.Random(1), n_trees=2, depth=2)
    query = model.database("sqlite").check_columns_query("declared")
    for types, wrong in [
        (("DATETIME", "DATE", "BOOLEAN", "NUMERIC(9, 2)"), set()),
        (("INT", "BOOL", "TEXT", "DATE"), {*kinds}),
    ]:
        database.run("DROP TABLE IF EXISTS declared")
        columns = ", ".join(f"{name} {type_}" for name, type_ in zip(kinds, types, strict=True))
        database.run(f"CREATE TABLE declared ({columns})")
        assert {row[0] for row in database.rows(query) if row[-1]} == wrong


@pytest.mark.parametrize("name", WITH_CATALOG)
def test_columns_of_hostile_names_are_known(name):
    database = open_warehouse(name)
    names = nameable(database.dialect, [name for name in NAMES if name.strip()])
    kinds = [FeatureType("int64")] * len(names)
    model = random_model(kinds, names, random.Random(1), n_trees=2, depth=2)
    database.fill("checked", types_of(model, "mean"))
    rows = database.rows(model.database(name).check_columns_query("checked"))
    assert [(row[1], row[-1]) for row in rows] == [(name, None) for name in names]


def test_catalogs_that_need_a_schema_or_are_none():
    model = MODELS["squared error"]()
    with pytest.raises(ParameterError, match=r"must name its schema, as 'sales\.orders'"):
        model.database("bigquery").check_columns_query("orders")
    assert "`p`.`sales`.INFORMATION_SCHEMA" in model.database("bigquery").check_columns_query("p.sales.orders")
    with pytest.raises(ParameterError, match="no catalog"):
        model.database("spark").check_columns_query("orders")


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_proves_a_model_in_a_file(tmp_path, capsys):
    model, path = MODELS["squared error"](), tmp_path / "model.json"
    model.save(path)
    with duckdb.connect(str(tmp_path / "trips.duckdb")) as con:
        con.execute("CREATE TABLE trips (kind VARCHAR, x DOUBLE, n BIGINT)")
        con.execute("CREATE TABLE texts (kind VARCHAR, x DOUBLE, n DATE)")
    con = sqlite3.connect(tmp_path / "trips.sqlite")
    con.execute("CREATE TABLE trips (kind TEXT, x REAL, n INTEGER)")
    con.execute("CREATE TABLE texts (kind TEXT, x TEXT, n INTEGER)")
    con.commit()
    for dialect in ("duckdb", "sqlite"):
        base = ["prove", str(path), "--dialect", dialect, "--run", str(tmp_path / f"trips.{dialect}"), "--table"]
        assert main([*base, "trips"]) == 0
        assert capsys.readouterr().out.endswith("each row of the test scores as expected\n")
        assert main([*base, "texts"]) == 1
        wrong = capsys.readouterr()
        assert wrong.err.startswith("frameboost: ")
    assert "rows scored differently than expected" in wrong.err
    assert "prediction" in wrong.out
    assert main(["prove", str(path), "--dialect", "postgres", "--table", "s.trips", "-o", str(tmp_path / "q.sql")]) == 0
    assert (tmp_path / "q.sql").read_text() == model.database("postgres").self_test_query("s.trips") + "\n"
    assert main(["prove", str(path), "--dialect", "postgres", "--table", "trips", "--run", str(path)]) == 2


def test_columns_that_only_unused_margins_read_are_not_tested():
    """The mean of a normal distribution, whose spread alone depends on the kind."""
    noise = pl.Series(np.random.default_rng(1).normal(size=400))
    frame = pl.DataFrame({"kind": ["a", "b"] * 200, "x": [0.0, 0.0, 1.0, 1.0] * 100})
    frame = frame.with_columns(
        y=pl.col("x") * 5 + pl.lit(noise) * pl.when(pl.col("kind") == "a").then(3).otherwise(0.1)
    )
    model = fb.fit(frame, "y", objective="dist:normal", n_estimators=3, max_depth=1)
    con = duckdb.connect()
    con.register("rows", frame)
    for output in ("mean", "distribution"):
        assert con.execute(model.database().self_test_query("rows", output=output)).fetchall() == []
