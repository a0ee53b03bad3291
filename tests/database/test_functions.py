"""`register` drops or hides no function of the user's unless told to, and leaves nothing half-made."""

from functools import cache

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from tests.support.cases import cases, some_pairs

SHAPE = {"n_estimators": 1, "learning_rate": 1, "reg_lambda": 0, "min_child_weight": 0}
FRAME = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})


@cache
def fitted():
    return fb.fit(FRAME, "y", **SHAPE)


@cache
def newer():
    return fb.fit(FRAME.with_columns(pl.col("y") + 100), "y", **SHAPE)


# Ways to be a function, the user's value of f(4), and how it is called.
PLACES = {
    "temp.main": "CREATE TEMP MACRO f(x) AS x + 1000",
    "memory.main": "CREATE MACRO f(x) AS x + 1000",
    "memory.s": "CREATE MACRO s.f(x) AS x + 1000",
    "other.main": "CREATE MACRO other.f(x) AS x + 1000",
    "other.s": "CREATE MACRO other.s.f(x) AS x + 1000",
}


@pytest.fixture
def con():
    con = duckdb.connect(config={"threads": 1})
    con.execute("ATTACH ':memory:' AS other; CREATE SCHEMA s; CREATE SCHEMA other.s")
    return con


def functions(con, name="f"):
    """Return where there are functions of a name, and what is known of them."""
    query = (
        "SELECT database_name || '.' || schema_name, function_type, macro_definition FROM duckdb_functions() "
        "WHERE lower(function_name) = lower(?) OR function_name LIKE 'frameboost_%' ORDER BY ALL"
    )
    return con.execute(query, [name]).fetchall()


def value(con, call="f(4)"):
    return con.execute(f"SELECT {call}").fetchall()[0][0]


def refused(con, sentence, name="f", model=None, **how):
    """Hold what `register` refuses to a sentence, and to having changed nothing."""
    before = functions(con, name)
    with pytest.raises(fb.ParameterError) as error:
        (model or fitted()).register(con, name, **how)
    assert str(error.value) == sentence
    assert functions(con, name) == before


NAMES = ["x" * 10_000, "select", "f g", "a\nb", "it's", "'; DROP TABLE t; --", '"a.b"', "日本", "x\0y", " "]
FORMS = {"macro": {}, "udf": {"form": "udf"}, "stored": {"temporary": False}}


# --- the user's own ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("place", ["memory.s", "other.main", "other.s"])
def test_macros_in_other_schemas_stay(con, place, form):
    con.execute(PLACES[place])
    fitted().register(con, "f", **FORMS[form])
    assert (value(con), value(con, f"{place}.f(4)")) == (8.0, 1004)
    newer().register(con, "f", replace=True, **FORMS[form])
    assert (value(con), value(con, f"{place}.f(4)")) == (108.0, 1004)


WHAT = {"macro": "the model's macro", "udf": "the udf", "stored": "the model's macro"}
REPLACES = "which {} would replace; use replace=True if it may, or set another name"
HIDES = "which {} would hide; use replace=True if it may, or set another name"
HIDDEN = "which would hide {}; use replace=True to drop it, or set another name"


@pytest.mark.parametrize("place, form, consequence", [
    ("temp.main", "macro", REPLACES), ("temp.main", "udf", HIDDEN), ("temp.main", "stored", HIDDEN),
    ("memory.main", "macro", HIDES), ("memory.main", "stored", REPLACES),
])  # fmt: skip
def test_existing_macros_are_replaced_or_hidden_only_if_told(con, place, form, consequence):
    con.execute(PLACES[place])
    refused(con, f"a macro 'f' exists in {place}, {consequence.format(WHAT[form])}", **FORMS[form])
    assert value(con) == 1004
    fitted().register(con, "f", replace=True, **FORMS[form])
    assert value(con) == 8.0
    found = {row[0]: row[2] for row in functions(con)}
    # It is gone where the model's stands, or where it would hide it; where the model's hides it, it is still there.
    assert (found.get(place) == "(x + 1000)") == (consequence is HIDES)
    newer().register(con, "f", **FORMS[form])
    assert value(con) == 108.0


@pytest.mark.parametrize("replace", [False, True])
def test_a_stored_macro_is_never_dropped_for_a_udf(con, replace):
    con.execute(PLACES["memory.main"])
    refused(
        con,
        "a macro 'f' exists in memory.main, which would hide a udf; drop it first "
        '(DROP MACRO "memory"."main"."f"), or set another name',
        form="udf", replace=replace,
    )  # fmt: skip
    con.execute("DROP MACRO memory.main.f")
    fitted().register(con, "f", form="udf")
    assert value(con) == 8.0


@pytest.mark.parametrize("form", ["macro", "stored"])
def test_the_search_path_says_what_a_bare_name_means(con, form):
    con.execute(f"{PLACES['memory.s']}; SET search_path = 'main,s'")
    assert value(con) == 1004
    refused(con, f"a macro 'f' exists in memory.s, {HIDES.format(WHAT[form])}", **FORMS[form])
    fitted().register(con, "f", replace=True, **FORMS[form])
    assert (value(con), value(con, "memory.s.f(4)")) == (8.0, 1004)


@pytest.mark.parametrize("form", ["macro", "stored"])
def test_udfs_of_the_user_are_hidden_only_when_told(con, form):
    con.create_function("f", lambda x: x + 1000, ["BIGINT"], "BIGINT")
    refused(con, f"DuckDB has a function 'f', {HIDES.format(WHAT[form])}", **FORMS[form])
    assert value(con) == 1004
    fitted().register(con, "f", replace=True, **FORMS[form])
    assert value(con) == 8.0
    con.execute("DROP MACRO f")
    assert value(con) == 1004


@pytest.mark.slow
def test_udfs_of_the_user_are_replaced_only_when_told(con):
    con.create_function("f", lambda x: x + 1000, ["BIGINT"], "BIGINT")
    refused(con, f"DuckDB has a function 'f', {REPLACES.format('the udf')}", form="udf")
    assert value(con) == 1004
    fitted().register(con, "f", form="udf", replace=True)
    assert value(con) == 8.0
    newer().register(con, "f", form="udf")
    assert value(con) == 108.0
    # One that the user has put in its place is no longer ours.
    con.remove_function("f")
    con.create_function("f", lambda x: x + 1000, ["BIGINT"], "BIGINT")
    refused(con, f"DuckDB has a function 'f', {REPLACES.format('the udf')}", form="udf")


def test_udfs_belong_to_the_connection_that_made_them(con):
    fitted().register(con, "f", form="udf")
    cursor = con.cursor()
    sentence = (
        "the udf 'f' was made by another connection to the database, as a cursor's parent is; replace it there, or "
        "set another name"
    )
    refused(cursor, sentence, form="udf", replace=True)
    assert value(cursor) == 8.0
    newer().register(cursor, "f", replace=True)
    assert (value(cursor), value(con)) == (108.0, 8.0)


@pytest.mark.slow
@cases("name", ["ABS", "row_number", "if"])
def test_functions_of_duckdbs_own(con, name):
    for form in ("macro", "stored"):
        sentence = f"DuckDB has a function {name.lower()!r}, {HIDES.format(WHAT[form])}"
        refused(con, sentence, name, **FORMS[form])
    for replace in (False, True):
        sentence = f"DuckDB has a function {name!r} built in, which no udf can replace; choose another name"
        refused(con, sentence, name, form="udf", replace=replace)
    fitted().register(con, name, replace=True)
    assert value(con, f'"{name}"(4)') == 8.0
    con.execute(f'DROP MACRO "{name}"')
    assert con.execute("SELECT abs(-1), sum(1), date_part('year', DATE '2013-01-01')").fetchall() == [(1, 1, 2013)]


@pytest.mark.parametrize("name", ["+", "<", "exp", "EXP"])
def test_functions_that_the_model_itself_calls(con, name):
    late = fb.fit(
        FRAME.with_columns(pl.col("x").cast(pl.Float64), late=pl.col("y") > 0).drop("y"), "late",
        objective="binary:logistic", **SHAPE,
    )  # fmt: skip
    sentence = f"the model's SQL calls {name!r} itself, so its macro can't have that name; set another name"
    refused(con, sentence, name, late, replace=True)
    late.register(con, "case", replace=True)
    assert value(con, '"case"(4)') == pytest.approx(late.predict(pl.DataFrame({"x": [4.0]})).item())


def test_table_functions_have_names_of_their_own(con):
    con.execute("CREATE MACRO f(x) AS TABLE SELECT x AS y")
    for how in FORMS.values():
        fitted().register(con, "f", **how)
        assert con.execute("SELECT * FROM f(3)").fetchall() == [(3,)]
        assert value(con) == 8.0
        con.execute("DROP MACRO IF EXISTS temp.main.f")


def test_a_name_in_other_letters_than_english_is_another_name(con):
    con.execute('CREATE TEMP MACRO "ä"(x) AS x + 1000')
    fitted().register(con, "Ä")
    assert (value(con, '"ä"(4)'), value(con, '"Ä"(4)')) == (1004, 8.0)


# --- ours -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("second", FORMS)
@pytest.mark.parametrize("first", FORMS)
def test_what_register_has_made_it_replaces(con, first, second):
    fitted().register(con, "f", **FORMS[first])
    assert value(con) == 8.0
    if (first, second) == ("stored", "udf"):
        with pytest.raises(fb.ParameterError, match="which would hide a udf"):
            newer().register(con, "F", **FORMS[second])
        return
    newer().register(con, "F", **FORMS[second])
    assert value(con) == 108.0
    # Of a temporary one over a stored one nothing is left that hides it.
    assert len(functions(con)) == (2 if (first, second) == ("stored", "macro") else 1)
    fitted().register(con, "f", **FORMS[second])
    assert value(con) == 8.0


def test_a_stored_macro_of_register_is_recognised_by_its_comment(tmp_path):
    path = tmp_path / "d.db"
    with duckdb.connect(path) as con:
        fitted().register(con, "f", temporary=False)
    with duckdb.connect(path) as con:
        ((comment,),) = con.execute("SELECT comment FROM duckdb_functions() WHERE function_name = 'f'").fetchall()
        assert comment == "frameboost model: output mean, reg:squarederror, 1 trees"
        newer().register(con, "f", temporary=False)
        assert value(con) == 108.0
        con.execute("CREATE OR REPLACE MACRO f(x) AS x + 1000")
        refused(con, f"a macro 'f' exists in d.main, {REPLACES.format(WHAT['stored'])}", temporary=False)
    with duckdb.connect(path) as con:
        assert value(con) == 1004


def test_a_schema_of_its_own(con):
    con.execute(PLACES["memory.main"])
    fitted().register(con, "s.f", temporary=False)
    fitted().register(con, "OTHER.f", temporary=False)
    fitted().register(con, "other.s.f", temporary=False)
    assert [value(con, f"{call}(4)") for call in ("f", "s.f", "other.f", "other.s.f")] == [1004, 8.0, 8.0, 8.0]
    newer().register(con, "s.f", temporary=False)
    assert value(con, "s.f(4)") == 108.0


# --- transactions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["macro", "stored"])
def test_a_transaction_stays_the_users(con, form):
    fitted().register(con, "f", **FORMS[form])
    con.execute("BEGIN; CREATE TABLE begun AS SELECT 1 AS x")
    newer().register(con, "f", **FORMS[form])
    assert value(con) == 108.0
    con.execute("ROLLBACK")
    assert value(con) == 8.0
    assert con.execute("SHOW TABLES").fetchall() == []


def test_a_udf_that_was_rolled_back(con):
    con.execute("BEGIN")
    fitted().register(con, "f", form="udf")
    con.execute("ROLLBACK")
    con.execute("CREATE TEMP MACRO f(x) AS x + 1000")
    sentence = (
        "a udf 'f' was made in a transaction that was rolled back, and DuckDB keeps its name taken; set another name, "
        "or use another connection"
    )
    refused(con, sentence, form="udf", replace=True)
    assert value(con) == 1004


@pytest.mark.parametrize("form", FORMS)
def test_what_fails_leaves_what_was_there(con, form, monkeypatch):
    fitted().register(con, "f", **FORMS[form])
    wide = fb.fit(pl.DataFrame({"x": [1, 2], "y": [1.0, 2.0]}, schema={"x": pl.UInt128, "y": pl.Float64}), "y", **SHAPE)
    with pytest.raises(fb.ParameterError, match="output"):
        newer().register(con, "f", output="odds", **FORMS[form])
    with pytest.raises(fb.ParameterError, match=r"uint128|read-only"):
        wide.register(con, "f", form="udf", replace=True)
    monkeypatch.setattr(fb.DatabaseModel, "sql", lambda *_, **__: "1 +")
    if form != "udf":
        with pytest.raises(duckdb.ParserException):
            newer().register(con, "f", **FORMS[form])
    assert value(con) == 8.0
    assert len(functions(con)) == 1


# --- names and connections --------------------------------------------------------------------------------------------


@pytest.mark.slow
@cases("name, form", some_pairs(NAMES, FORMS, 3))
def test_names_of_all_kinds(con, name, form):
    fitted().register(con, name, **FORMS[form])
    newer().register(con, name, **FORMS[form])
    assert value(con, f"{name if name[0] == chr(34) else chr(34) + name + chr(34)}(4)") == 108.0


@cases("form", FORMS)
@cases("name", [None, 5, b"f", ["f"]])
def test_a_name_is_a_string(con, name, form):
    with pytest.raises(fb.ParameterError) as error:
        fitted().register(con, name, **FORMS[form])
    assert str(error.value) == f"name must be a string, not {name!r}"


@cases("name, form", some_pairs(["", '""', "a.", ".a", "."], FORMS, 3))
def test_a_name_is_not_empty(con, name, form):
    refused(con, f"name={name!r} has an empty part; name the function", name, **FORMS[form])


def test_names_of_schemas(con):
    for how in (FORMS["macro"], FORMS["udf"]):
        sentence = (
            "name='s.f' names a schema, and a temporary function is in none; put a name with a dot into double quotes, "
            "or use temporary=False"
        )
        refused(con, sentence, "s.f", **how)
    for name in ("nosuch.f", "memory.nosuch.f", "a.b.c.f"):
        sentence = f"name={name!r} is in no schema that the connection knows; create that schema first"
        refused(con, sentence, name, temporary=False)


def test_other_objects_than_connections_are_refused(con):
    closed = duckdb.connect()
    closed.close()
    for other, what in [(None, "None"), ("d.db", "'d.db'"), (5, "5")]:
        with pytest.raises(fb.ParameterError) as error:
            fitted().register(other, "f")
        assert str(error.value) == f"con must be a DuckDB connection, not {what}"
    with pytest.raises(fb.ParameterError, match=r"^con must be a DuckDB connection, not [^\n]{1,80}$"):
        fitted().register(con.sql("SELECT 1"), "f")
    for how in FORMS.values():
        with pytest.raises(fb.ParameterError) as error:
            fitted().register(closed, "f", **how)
        assert str(error.value) == "con is a connection that has been closed; pass an open one"


def test_the_module_stands_for_its_connection():
    fitted().register(duckdb, "of_the_module")
    assert duckdb.sql("SELECT of_the_module(4)").fetchall() == [(8.0,)]
    duckdb.execute("DROP MACRO of_the_module")


def test_a_database_that_may_only_be_read(tmp_path):
    duckdb.connect(tmp_path / "d.db").close()
    with duckdb.connect(tmp_path / "d.db", read_only=True) as con:
        sentence = "nothing can be stored in database 'd', which is read-only; use temporary=True, or another database"
        refused(con, sentence, temporary=False)
        fitted().register(con, "f")
        assert value(con) == 8.0
        con.execute(f"ATTACH '{tmp_path / 'e.db'}' AS other (READ_WRITE)")
        newer().register(con, "other.f", temporary=False)
        assert value(con, "other.f(4)") == 108.0


@pytest.mark.parametrize("option", ["replace", "temporary"])
def test_options_are_yes_or_no(con, option):
    refused(con, f"{option} must be True or False, not 1", **{option: 1})


@cases("form", [pl.DataFrame({"x": [1]}), pl.DataFrame(), np.array(["udf", "udf"]), b"udf", "udd"])
def test_a_form_that_is_no_word_is_refused(con, form):
    with pytest.raises(fb.ParameterError, match=r"^form must be one of 'auto', 'macro', 'udf', not "):
        fitted().register(con, "f", form=form)


def test_a_relation_given_for_a_string_leaves_no_result_unread(con):
    with pytest.raises(fb.ParameterError, match=r"^output must be one of"):
        fitted().register(con, "score", output=con.sql("SELECT 1 AS x"))
    assert con.sql("SELECT 2").fetchall() == [(2,)]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["macro", "udf"])
def test_a_result_that_is_not_read_to_its_end_is_not_dropped(con, form):
    con.execute("SELECT * FROM range(3)")
    assert con.fetchone() == (0,)
    with pytest.raises(fb.errors.ParameterError, match="has a pending result"):
        fitted().register(con, "score", form=form)
    assert con.fetchall() == [(1,), (2,)]
    fitted().register(con, "score", form=form)
    assert con.sql("SELECT count(score(1))").fetchall() == [(1,)]
