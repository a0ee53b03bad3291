"""Categories are compared by their characters alone: in columns of any type and collation, and in any mode of SQL."""

import datetime as dt

import polars as pl
import pytest
import sqlalchemy
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy.dialects import mysql, postgresql, sqlite

import frameboost as fb
from frameboost.dialects.built_in import get_dialect
from frameboost.errors import ParameterError
from frameboost.schema.types import Feature, FeatureType
from tests.support.cases import cases
from tests.support.models import grown, made
from tests.support.warehouses import ALL, databases, open_warehouse

STRING = FeatureType("string")
# What ends strings, what is replaced in them, and what collations take for equal.
CATEGORIES = (
    "a", "A", "a ", " a", "á", "a\u0301", "ａ", "", "ß", "ss", "'", "''", "\\", "\\'", "a\\", "\\n", "\n", "\r\n", "\t",
    "${env:FRAMEBOOST_SECRET}", "${spark.app.name}", "$", "{{ x }}", "{% x %}", "$(x)", "&x", "<% x %>", "%s", "%",
    ":x", "?", "--", "/* */", ";", "\nGO\n", "😀", "a\0", "\0",
)  # fmt: skip
SECRET = "'; DROP TABLE rows; --"


def tree_of_each() -> fb.Model:
    """Return a model that gives row i, of category i, the number i; 0.5 to NULL and to all others."""
    codes = sorted(range(len(CATEGORIES)), key=CATEGORIES.__getitem__)
    feature = Feature("c", STRING, tuple(CATEGORIES[code] for code in codes))
    trees = [grown((0, {place}, "right", float(code) - 0.5, 0.0)) for place, code in enumerate(codes)]
    return made([feature], trees, (0.5,))


@pytest.mark.parametrize("database", ALL)
def test_categories_are_what_they_are(database, monkeypatch, tmp_path):
    monkeypatch.setenv("FRAMEBOOST_SECRET", SECRET)
    warehouse, model = open_warehouse(database), tree_of_each()
    values = [c for c in (*CATEGORIES, None, "b", "B") if warehouse.holds(STRING, c)]
    warehouse.fill("strings", {"c": (STRING, values)})
    expected = {i: float(CATEGORIES.index(c)) if c in CATEGORIES else 0.5 for i, c in enumerate(values)}
    query = model.database(database).query("strings", keep=["id"])
    assert dict(warehouse.rows(query)) == expected
    if database != "spark":
        warehouse.load_trees("string_trees", model, tmp_path)
        query = model.database(database).query("strings", keep=["id"], form="table", trees="string_trees")
        assert dict(warehouse.rows(query)) == expected
    rows = pl.DataFrame({"c": [c for c in CATEGORIES if warehouse.holds(STRING, c)]})
    drift = model.database(database).drift_query("strings", model.database(database).baseline(rows, bins=100))
    shares = {row[2]: row[4] for row in warehouse.rows(drift)}
    assert all(shares[c.replace("\0", "\\0")] == 1 / len(values) for c in rows["c"])


# Columns that a plain comparison gets wrong, and what a model of "a" says of "a", "A", "a ", "b" in each.
COLUMNS = [
    ("duckdb", "VARCHAR COLLATE NOCASE", (1, 0, 0, 0)),
    ("duckdb", "VARCHAR COLLATE NOACCENT", (1, 0, 0, 0)),
    ("duckdb", "ENUM ('a', 'A', 'a ', 'b')", (1, 0, 0, 0)),
    ("postgres", "CHAR(5)", (1, 0, 1, 0)),
    ("postgres", "string_enum", (1, 0, 0, 0)),
    ("sqlite", "TEXT COLLATE NOCASE", (1, 0, 0, 0)),
    ("sqlite", "TEXT COLLATE RTRIM", (1, 0, 0, 0)),
    ("clickhouse", "Nullable(Enum8('a' = 1, 'A' = 2, 'a ' = 3, 'b' = 4))", (1, 0, 0, 0)),
    ("clickhouse", "FixedString(4)", (1, 0, 0, 0)),
    ("clickhouse", "LowCardinality(String)", (1, 0, 0, 0)),
    ("spark", "STRING COLLATE UTF8_LCASE", (1, 0, 0, 0)),
    ("mariadb", "VARCHAR(9) COLLATE utf8mb4_general_ci", (1, 0, 0, 0)),
]


@pytest.mark.parametrize(
    "database, kind, expected",
    [pytest.param(*databases(database)[0].values, kind, expected, id=f"{databases(database)[0].id}-{kind[:20]}",
                  marks=databases(database)[0].marks) for database, kind, expected in COLUMNS],
)  # fmt: skip
def test_columns_of_any_type(database, kind, expected):
    warehouse = open_warehouse(database)
    warehouse.run("DROP TABLE IF EXISTS kinds")
    if kind == "string_enum":
        warehouse.run("DROP TYPE IF EXISTS string_enum")
        warehouse.run("CREATE TYPE string_enum AS ENUM ('a', 'A', 'a ', 'b')")
    end = " ENGINE = Memory" if database == "clickhouse" else " USING parquet" if database == "spark" else ""
    warehouse.run(f"CREATE TABLE kinds (id INTEGER, c {kind}){end}")
    warehouse.run("INSERT INTO kinds VALUES (0, 'a'), (1, 'A'), (2, 'a '), (3, 'b')")
    # Another category, that an enum lacks.
    model = made([Feature("c", STRING, ("a", "zz"))], [grown((0, {0, 1}, "right", 1.0, 0.0))], (0.0,))
    query = model.database(database).query("kinds", keep=["id"])
    assert [value for _, value in sorted(warehouse.rows(query))] == list(expected)


@pytest.mark.parametrize("database", databases("spark"))
def test_literals_in_views_of_another_collation(database):
    warehouse = open_warehouse(database)
    warehouse.fill("in_view", {"c": (STRING, ["a", "A", "a ", "b"])})
    model = made([Feature("c", STRING, ("a", "zz"))], [grown((0, {0, 1}, "right", 1.0, 0.0))], (0.0,))
    warehouse.run("DROP VIEW IF EXISTS scored")
    statement = model.database(database).create_view_sql("scored", "in_view", keep=["id"])
    warehouse.run(statement.replace("`scored`", "`scored` DEFAULT COLLATION UTF8_LCASE", 1))
    assert sorted(warehouse.rows("FROM scored")) == [(0, 1.0), (1, 0.0), (2, 0.0), (3, 0.0)]


@pytest.mark.parametrize(
    "database, on, off",
    [
        pytest.param("postgres", "SET standard_conforming_strings = off", "SET standard_conforming_strings = on",
                     id="postgres@server"),
        pytest.param("mariadb", "SET sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES,PIPES_AS_CONCAT'",
                     "SET sql_mode = ''", id="mariadb@server"),
        pytest.param("duckdb", "SET default_collation = 'NOCASE'", "RESET default_collation", id="duckdb"),
        pytest.param("spark", "SET spark.sql.parser.escapedStringLiterals = true",
                     "SET spark.sql.parser.escapedStringLiterals = false", id="spark@server", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_literals_are_proof_against_modes(database, on, off):
    warehouse, model = open_warehouse(database), tree_of_each()
    values = [c for c in CATEGORIES if warehouse.holds(STRING, c)]
    warehouse.fill("modes", {"c": (STRING, values)})
    warehouse.run(on)
    try:
        found = dict(warehouse.rows(model.database(database).query("modes", keep=["id"])))
    finally:
        warehouse.run(off)
    assert found == {i: float(CATEGORIES.index(c)) for i, c in enumerate(values)}


@pytest.mark.parametrize("dialect", ["spark", "databricks"])
def test_names_that_the_database_would_replace_are_refused(dialect):
    model = made([Feature("${env:PATH}", FeatureType("int64"))], [grown((0, 1, "right", 0.0, 1.0))])
    with pytest.raises(ParameterError, match=r"'\$\{env:PATH\}' holds '\$\{', which .* substitutes"):
        model.sql(dialect=dialect)
    assert "`x` < 1" in model.sql(dialect=dialect, columns={"${env:PATH}": "x"})


@cases("dialect, replaced", [("spark", "${"), ("databricks", "${"), ("oracle", "&"), ("tsql", "$("), ("fabric", "$("),
                             ("snowflake", "&")])  # fmt: skip
def test_no_text_holds_what_clients_replace(dialect, replaced):
    assert not any(replaced in get_dialect(dialect).string(category) for category in CATEGORIES)


@pytest.mark.parametrize("dialect, name", [("oracle", "R&D"), ("tsql", "$(cost)"), ("fabric", "a\nGO\nb")])
def test_files_hold_nothing_that_clients_replace(dialect, name, tmp_path):
    model = made([Feature(name, FeatureType("int64"))], [grown((0, 1, "right", 0.0, 1.0))])
    database = model.database(dialect)
    assert name in database.query("rows", keep=["id"])
    with pytest.raises(ParameterError, match=f"which clients of {dialect} replace"):
        database.to_sql(tmp_path / "score.sql", "rows", keep=["id"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("database", databases("postgres", "mariadb"))
@pytest.mark.parametrize("style", ["format", "pyformat"])
def test_percent_signs_beside_parameters_of_a_driver(database, style):
    warehouse = open_warehouse(database)
    values = [c for c in CATEGORIES if warehouse.holds(STRING, c)]
    warehouse.fill("percent", {"c": (STRING, values)})
    written = tree_of_each().database(database, paramstyle=style)
    with warehouse.con.cursor() as cursor:
        cursor.execute(f"{written.query('percent', keep=['id'])} WHERE id >= %s", (0,))
        found = dict(cursor.fetchall())
    assert found == {i: float(CATEGORIES.index(c)) for i, c in enumerate(values)}
    with pytest.raises(ParameterError, match="paramstyle must be one of 'format', 'pyformat', 'sqlalchemy' or None"):
        tree_of_each().database(database, paramstyle="qmark")


@given(st.lists(st.text(":a\\'%$ )", min_size=1), min_size=1, unique=True))
@settings(max_examples=25, deadline=None)
def test_sqlalchemy_runs_what_is_written_for_it(categories):
    model = made([Feature("c", STRING, tuple(sorted(categories)))], [grown((0, {0}, "right", 1.0, 0.0))])
    for name, dialect in (("sqlite", sqlite.dialect()), ("postgres", postgresql.dialect()), ("mysql", mysql.dialect())):
        compiled = sqlalchemy.text(model.database(name, paramstyle="sqlalchemy").sql()).compile(dialect=dialect)
        assert not compiled.params
        sent = str(compiled) if name == "sqlite" else str(compiled).replace("%%", "%")  # as their drivers read it
        assert sent == model.database(name).sql()


def test_times_of_sqlite_have_a_blank_or_a_t():
    warehouse = open_warehouse("sqlite")
    warehouse.run("DROP TABLE IF EXISTS times")
    rows = [f"SELECT {i} AS id, '2020-01-01{t}:00:00' AS t" for i, t in enumerate(["T09", " 09", "T11"])]
    warehouse.run(f"CREATE TABLE times AS {' UNION ALL '.join(rows)} UNION ALL SELECT 3, NULL")
    ten = int(dt.datetime(2020, 1, 1, 10, tzinfo=dt.UTC).timestamp()) * 10**6
    for missing, of_null in (("right", 2.0), ("left", 1.0)):
        model = made([Feature("t", FeatureType("timestamp[us]"))], [grown((0, ten, missing, 1.0, 2.0))], (0.0,))
        query = model.database("sqlite").query("times", keep=["id"])
        assert dict(warehouse.rows(query)) == {0: 1.0, 1: 1.0, 2: 2.0, 3: of_null}
