"""Models that follow each other under one view, in the databases: deployed, gone back from, replaced, stamped."""

import datetime as dt
import re
from functools import cache

import polars as pl
import pytest

import frameboost as fb
from frameboost.dialects.built_in import DIALECTS, get_dialect
from frameboost.schema.types import FeatureType
from tests.support.parsed_sql import n_statements
from tests.support.warehouses import ALL_BUT_SPARK, Warehouse, databases, open_warehouse

ROWS = pl.DataFrame({"x": [i % 7 for i in range(60)], "s": [None if i % 9 == 0 else "abc"[i % 3] for i in range(60)]})
ROWS = ROWS.with_columns(y=pl.col("x") * 2.0, z=pl.col("x") * -1.0)
KEPT = {"keep": ["id"]}


@cache
def old():
    return fb.fit(ROWS, "y", features=["x", "s"], n_estimators=3)


@cache
def new():
    return fb.fit(ROWS, "z", features=["x", "s"], n_estimators=3)


@pytest.fixture(params=ALL_BUT_SPARK)
def warehouse(request):
    yield (opened := filled(request.param))
    drop_views(opened)


def drop_views(warehouse: Warehouse) -> None:
    for view in ("reader", "scored", *(f"scored__{m.sha256[:8]}" for m in (old(), new())), "scored__big"):
        warehouse.run(f"DROP VIEW IF EXISTS {warehouse.dialect.quote(view)}")


def filled(name: str) -> Warehouse:
    warehouse = open_warehouse(name)
    drop_views(warehouse)
    warehouse.fill_features("rows", old(), {"x": ROWS["x"].to_list(), "s": ROWS["s"].to_list()})
    if name == "sqlite":
        warehouse.con.commit()  # what the driver has begun
    return warehouse


def run(warehouse: Warehouse, statements: list[str]) -> None:
    """Run statements, and roll back after an error, as clients do."""
    try:
        for statement in statements:
            warehouse.run(statement)
    except Exception:
        if warehouse.dialect.statements.transaction:
            warehouse.run("ROLLBACK")
        raise


def scores(warehouse: Warehouse, view: str) -> list[float]:
    return [score for _, score in sorted(warehouse.rows(f"SELECT * FROM {warehouse.dialect.quote(view)}"))]


def predicted(model: fb.Model) -> list[float]:
    return model.predict(ROWS).to_list()


@pytest.mark.slow
def test_one_model_follows_another_and_goes_back(warehouse):
    first, second = (model.database(warehouse.name) for model in (old(), new()))
    quote = warehouse.dialect.quote
    for _ in range(2):
        run(warehouse, first.deploy_statements("scored", "rows", **KEPT))
        assert scores(warehouse, "scored") == predicted(old())
    reader = f"SELECT {quote('id')}, {quote('prediction')} FROM {quote('scored')}"
    warehouse.run(f"CREATE VIEW {quote('reader')} AS {reader}")
    run(warehouse, second.deploy_statements("scored", "rows", **KEPT))
    read = "reader" if warehouse.name != "datafusion" else "scored"  # whose views keep the plans of those they read
    assert scores(warehouse, "scored") == scores(warehouse, read) == predicted(new())
    assert scores(warehouse, f"scored__{old().sha256[:8]}") == predicted(old())
    run(warehouse, first.rollback_statements("scored"))
    assert scores(warehouse, "scored") == scores(warehouse, read) == predicted(old())
    for wrong in (
        first.rollback_statements("scored", label="none"),
        second.deploy_statements("scored", "no_table", label="none", **KEPT),
        second.deploy_statements("scored", "rows", label="none", keep=["no_column"]),
    ):
        with pytest.raises(Exception, match=r"(?i)no such|not exist|n't exist|not found|unknown|no field"):
            run(warehouse, wrong)
        assert scores(warehouse, "scored") == predicted(old())


@pytest.mark.slow
def test_a_model_of_several_views_and_one_of_a_table(warehouse):
    quote, name = warehouse.dialect.quote, warehouse.name
    large = fb.fit(ROWS, "y", features=["x", "s"], n_estimators=100)
    database = large.database(name, limits={"view": 4000, "text": 4000})
    statements = database.deploy_statements("scored", "rows", label="big", **KEPT)
    made = [text for text in statements if text.startswith("CREATE")]
    parts = len({part for text in made for part in re.findall(r"scored__big_part_\d+", text)})
    assert parts > 1
    assert max(len(text.encode()) for text in statements) <= 4000
    run(warehouse, statements)
    assert scores(warehouse, "scored") == predicted(large)
    table = quote("scored__at")
    warehouse.run(f"DROP TABLE IF EXISTS {table}" if name != "postgres" else f"DROP TABLE IF EXISTS {table} CASCADE")
    as_table = new().database(name).deploy_statements("scored", "rows", label="at", kind="table", **KEPT)
    run(warehouse, as_table)
    assert scores(warehouse, "scored") == predicted(new())
    run(warehouse, database.rollback_statements("scored", label="big"))
    with pytest.raises(Exception, match=r"(?i)exists"):
        run(warehouse, as_table)
    assert scores(warehouse, "scored") == predicted(large)
    run(warehouse, new().database(name).rollback_statements("scored", label="at"))
    assert scores(warehouse, "scored") == predicted(new())
    for view in ("scored", "scored__big", *(f"scored__big_part_{number}" for number in range(parts, 0, -1))):
        warehouse.run(f"DROP VIEW {quote(view)}")
    warehouse.run(f"DROP TABLE {table}")


def test_scores_are_stamped(warehouse):
    quote, name = warehouse.dialect.quote, warehouse.name
    called = old().with_metadata(version="it's 3")
    started = dt.datetime.now(dt.UTC).replace(microsecond=0, tzinfo=None)
    expected = [(number, score, old().sha256, "it's 3") for number, score in enumerate(predicted(old()))]

    def check(rows: list[tuple], version: str | None) -> None:
        assert [row[:4] for row in sorted(rows)] == [(*row[:3], version) for row in expected]
        for at in {row[4] for row in rows}:
            moment = dt.datetime.fromisoformat(at) if isinstance(at, str) else at
            moment = moment if moment.tzinfo is None else moment.astimezone(dt.UTC).replace(tzinfo=None)
            assert abs((moment - started).total_seconds()) < 300

    database = called.database(name)
    check(warehouse.rows(database.query("rows", stamp=True, **KEPT)), "it's 3")
    check(warehouse.rows(database.query("rows", stamp=True, form="staged", **KEPT)), "it's 3")
    check(warehouse.rows(old().query("rows", name, stamp=True, **KEPT)), None)
    warehouse.run(f"DROP TABLE IF EXISTS {quote('stamped')}")
    warehouse.run(database.create_table_sql("stamped", "rows", stamp=True, **KEPT))
    check(warehouse.rows(f"SELECT * FROM {quote('stamped')}"), "it's 3")
    if warehouse.dialect.statements.replace_table:
        warehouse.run(old().database(name).create_table_sql("stamped", "rows", replace=True, stamp=True, **KEPT))
        check(warehouse.rows(f"SELECT * FROM {quote('stamped')}"), None)
    if name != "sqlite":
        for model in (new(), old()):
            warehouse.run(model.database(name).create_view_sql("scored", "rows", replace=True, **KEPT))
            assert scores(warehouse, "scored") == predicted(model)


def test_the_stamp_is_of_the_file_whatever_columns_are_called():
    model = fb.fit(ROWS, "y", features=["x"], base_margin="z", n_estimators=1)
    for each, margin in ((model, None), (model, "z"), (model, "other"), (old(), "other")):
        database = each.database(base_margin=margin, columns=str.upper)
        assert each.sha256 in database.query("rows", stamp=True)
        assert f"scored__{each.sha256[:8]}" in database.rollback_statements("scored")[1]


@pytest.mark.parametrize("database", databases("duckdb", "postgres", "sqlite", "mariadb"))
def test_an_update_is_stamped(database):
    warehouse = filled(database)
    quote = warehouse.dialect.quote
    called = new().with_metadata(version="3").database(database)
    warehouse.run(f"DROP TABLE IF EXISTS {quote('written')}")
    warehouse.run(f"CREATE TABLE {quote('written')} AS SELECT * FROM {quote('rows')}")
    for column, kind in {"score": "float64", "model_hash": "string", "model_version": "string",
                         "scored_at": "timestamp[us]"}.items():  # fmt: skip
        warehouse.run(
            f"ALTER TABLE {quote('written')} ADD {quote(column)} {warehouse.dialect.type_of(FeatureType(kind))}"
        )
    warehouse.run(called.update_sql("written", "score", stamp=True))
    columns = ", ".join(map(quote, ("id", "score", "model_hash", "model_version")))
    written = sorted(warehouse.rows(f"SELECT {columns} FROM {quote('written')} WHERE {quote('scored_at')} IS NOT NULL"))
    assert written == [(i, score, new().sha256, "3") for i, score in enumerate(predicted(new()))]
    with pytest.raises(fb.ParameterError, match="'scored_at' is written by stamp; set another name"):
        called.update_sql("written", "scored_at", stamp=True)


@pytest.mark.parametrize("database", databases("postgres"))
def test_grants_stay_and_columns_must(database):
    postgres = filled(database)
    postgres.run("DROP ROLE IF EXISTS analyst")
    postgres.run("CREATE ROLE analyst")
    run(postgres, old().database(database).deploy_statements("public.scored", "rows", **KEPT))
    postgres.run("GRANT SELECT ON scored TO analyst")
    run(postgres, new().database(database).deploy_statements("public.scored", "rows", **KEPT))
    postgres.run("SET ROLE analyst")
    try:
        assert scores(postgres, "scored") == predicted(new())
    finally:
        postgres.run("RESET ROLE")
    with pytest.raises(Exception, match="cannot drop columns from view"):
        run(postgres, new().database(database).deploy_statements("scored", "rows", label="none", keep=[]))
    assert postgres.rows("SELECT to_regclass('scored__none')") == [(None,)]
    run(postgres, old().database(database).deploy_statements("scored", "rows", label="more", stamp=True, **KEPT))
    assert [row[2] for row in postgres.rows("SELECT * FROM scored")] == [old().sha256] * ROWS.height
    drop_views(postgres)
    postgres.run("DROP VIEW scored__more; DROP OWNED BY analyst; DROP ROLE analyst")


@pytest.mark.parametrize("database", databases("duckdb", "postgres", "clickhouse", "mariadb", "spark"))
def test_functions_return_the_scores(database):
    warehouse = open_warehouse(database)
    quote, name = warehouse.dialect.quote, "fb_score"
    hostile = {"x": 'x"; --', "s": "it's {value}", "years": "$$ ?"}
    frame = ROWS.with_columns(years=pl.col("x") / 4 + 1, late=pl.col("x") > 3).rename(hostile)
    features = {"features": [hostile["x"], hostile["s"]], "n_estimators": 3}
    labelled = frame.with_columns(late=pl.when(pl.col("late")).then(pl.lit("l'{a}$$")).otherwise(pl.lit("on time")))
    for model, output in (
        (fb.fit(frame, "y", **features), "mean"),
        (fb.fit(frame, "y", exposure=hostile["years"], objective="count:poisson", **features), "mean"),
        (fb.fit(labelled, "late", **features), "class"), (fb.fit(frame, "late", **features), "class"),
    ):  # fmt: skip
        made, read = model.database(database), model.ensemble.read_features
        warehouse.fill_held("rows", {f.name: (f.type, frame[f.name].to_list()) for f in read})
        signature = f"({', '.join(warehouse.dialect.type_of(f.type) for f in read)})" if database == "postgres" else ""
        drop = f"DROP {'MACRO' if database == 'duckdb' else 'FUNCTION'} IF EXISTS {name}{signature}"
        warehouse.run(drop)
        warehouse.run(made.create_function_sql(name, output=output))
        warehouse.run(made.create_function_sql(name, output=output, replace=True))
        called = f"{name}({', '.join(quote(f.name) for f in read)})"
        rows = sorted(warehouse.rows(f"SELECT {quote('id')}, {called} FROM {quote('rows')}"))
        expected = sorted(warehouse.rows(made.query("rows", keep=["id"], output=output)))
        assert [tuple(row) for row in rows] == [tuple(row) for row in expected]
        warehouse.run(drop)


def test_functions_are_sql_of_each_database_or_refused():
    of_classes = fb.fit(ROWS.with_columns(k=pl.col("x") % 3), "k", objective="multi:softprob", n_estimators=1)
    refused = {"sqlite", "datafusion", "redshift", "oracle", "presto", "athena", "fabric"}
    for name in DIALECTS:
        database = old().database(name)
        if name in refused:
            with pytest.raises(fb.ParameterError, match=f"{name} has no scalar functions in SQL"):
                database.create_function_sql("s.score")
            continue
        text = database.create_function_sql("s.score")
        assert n_statements(text, get_dialect(name))
        if name == "mysql":
            with pytest.raises(fb.ParameterError, match="mysql has no statement that replaces a function"):
                database.create_function_sql("score", replace=True)
        else:
            assert re.match(
                "CREATE OR (REPLACE|ALTER) (FUNCTION|MACRO)", database.create_function_sql("f", replace=True)
            )
        if name not in ("duckdb", "clickhouse"):
            with pytest.raises(fb.ParameterError, match=r"has 3 values, and a function in .* returns one"):
                of_classes.database(name).create_function_sql("score")
    assert "(@p1 BIGINT, @p2 NVARCHAR(4000))" in old().database("tsql").create_function_sql("dbo.score")


@pytest.mark.slow
def test_the_statements_are_sql_of_each_database(tmp_path):
    for name in DIALECTS:
        dialect, database = get_dialect(name), new().database(name)
        statements = database.deploy_statements("sales.scored", "rows", stamp=True, **KEPT)
        for statement in [*statements, *database.rollback_statements("sales.scored")]:
            assert n_statements(statement, dialect)
        for make, template in (
            (database.create_view_sql, dialect.statements.replace_view),
            (database.create_table_sql, [dialect.statements.replace_table] * bool(dialect.statements.replace_table)),
        ):
            if len(template) == 1:
                assert re.match("CREATE OR (REPLACE|ALTER) (VIEW|TABLE) ", make("v", "rows", replace=True, **KEPT))
            else:
                with pytest.raises(fb.ParameterError, match=f"{name} has no statement that replaces .* deploy_statem"):
                    make("v", "rows", replace=True, **KEPT)
        path = tmp_path / f"{name}.sql"
        database.to_sql(path, "rows", statement="deploy", target="sales.scored", stamp=True, **KEPT)
        text = path.read_text(encoding="utf-8")
        assert text.startswith("-- A gradient boosted model")
        assert text.endswith(";\nGO\n" if name in ("tsql", "fabric") else ";\n")
        assert all(statement in text for statement in statements)


def test_what_can_not_be_deployed_is_said():
    database = old().database("postgres")
    for wrong, message in (
        ({"label": "a-b"}, "label must be of letters, digits and underscores, not 'a-b'"),
        ({"label": ""}, "label must be of letters"), ({"kind": "seed"}, "kind must be"),
        ({"keep": ["model_hash"], "stamp": True}, "column 'model_hash' twice"),
    ):  # fmt: skip
        with pytest.raises(fb.ParameterError, match=message):
            database.deploy_statements("scored", "rows", **{**KEPT, **wrong})
    with pytest.raises(fb.ParameterError, match="has 64 bytes, and names in postgres have at most 63"):
        database.deploy_statements("s" * 54, "rows", **KEPT)
    with pytest.raises(fb.ParameterError, match="in keep, for a chain of views"):
        old().database("postgres", limits={"view": 500}).deploy_statements("scored", "rows")
