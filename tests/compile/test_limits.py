"""Limits of databases: a query beyond one is refused or takes another form; limits of views, and limits of the user."""

import datetime as dt
import inspect
import math
import random
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import jinja2
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.compile.sql.forms import _n_elements
from frameboost.dialects.built_in import DIALECTS, get_dialect
from frameboost.errors import TooLargeError
from frameboost.schema.types import Feature, FeatureType
from tests.support.cases import cases
from tests.support.models import grown, made
from tests.support.parsed_sql import nesting
from tests.support.random_models import frame_of, naive_margins, random_values
from tests.support.warehouses import ALL_BUT_SPARK, open_warehouse

KINDS = ("int32", "float64") * 3
# As the vendors' documentation has them (docs/vendors.md), but for what is left for JSON in Athena's.
VIEWS = {"bigquery": 256_000, "snowflake": 95_000, "athena": 230_400}


@cache
def over(n_trees: int, depth: int) -> fb.Model:
    """Return a model of trees in which every leaf is so deep, and each level asks another feature."""
    rng = random.Random(0)

    def question(level: int):
        if level == depth:
            return rng.randrange(-999, 999) / 1024
        threshold = round(rng.uniform(-2, 2), 3) if level % 2 else rng.randrange(-99, 99)
        return (level, threshold, rng.choice(["left", "right"]), question(level + 1), question(level + 1))

    features = [Feature(f"x{i}", FeatureType(kind)) for i, kind in enumerate(KINDS)]
    return made(features, [grown(question(0)) for _ in range(n_trees)])


def test_limits_of_views_are_those_of_the_vendors():
    assert {name: d.limits.view for name, d in DIALECTS.items() if d.limits.view is not None} == {
        **VIEWS, "postgres": 32 * 2**20,
    }  # fmt: skip
    assert get_dialect("databricks").limits.text == 16 * 2**20


# --- views ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", VIEWS)
def test_a_query_that_is_no_view_is_a_table_or_goes_over_a_table_of_trees(name):
    most, text = VIEWS[name], get_dialect(name).limits.text
    model = over({"bigquery": 320, "snowflake": 100, "athena": 275}[name], 5)
    size = len(model.query("t", name, keep=["id"]).encode())
    assert most < size < text
    statement = len('CREATE VIEW "v" AS\n') + size
    with pytest.raises(fb.ParameterError) as error:
        model.database(name).create_view_sql("v", "t", keep=["id"])
    said = str(error.value)
    assert f"{statement:,} bytes, and a view in {name} at most {most:,}; make a table of it with create_t" in said
    assert said.endswith("and take create_view_sql(..., trees='trees')")
    assert ("table_statements('trees')" in said) == (name != "athena")
    assert "trees" not in model.database(name).create_table_sql("w", "t", keep=["id"])
    view = model.database(name).create_view_sql("v", "t", keep=["id"], trees="trees")
    assert get_dialect(name).quote("trees") in view
    assert len(view.encode()) <= most
    raised = model.database(name, limits={"view": text}).create_view_sql("v", "t", keep=["id"])
    assert raised.partition(" AS\n")[2] == model.query("t", name, keep=["id"])


def test_the_text_of_a_view_may_have_just_what_it_takes():
    size = len(over(3, 3).database().create_view_sql("v", "t", keep=["id"]).encode())
    for name in ("view", "text"):
        over(3, 3).database(limits={name: size}).create_view_sql("v", "t", keep=["id"])
        with pytest.raises(fb.ParameterError, match=f"it has {size:,} bytes, and a view .* at most {size - 1:,}; "):
            over(3, 3).database(limits={name: size - 1}).create_view_sql("v", "t", keep=["id"])
    over(3, 3).database(limits={"view": 10**6, "text": size}).create_view_sql("v", "t", keep=["id"])


@pytest.mark.slow
def test_hundreds_of_trees_in_bigquery():
    model = over(520, 6)
    # Not as a table, which takes 1,000,000.
    with pytest.raises(fb.ParameterError, match=r"and a view in bigquery at most 256,000; load the trees with "):
        model.database("bigquery").create_view_sql("v", "t", keep=["id"])
    assert len(model.database("bigquery").create_view_sql("v", "t", keep=["id"], trees="trees").encode()) < 256_000


@pytest.mark.parametrize("form", ["case", "staged"])
def test_the_form_that_is_asked_for_may_not_fit_either(form):
    how = {"keep": ["id"], "form": form}
    with pytest.raises(fb.ParameterError, match=rf"one view of form '{form}': .* at most 2,000; make a table of it "):
        over(20, 4).database("postgres", limits={"view": 2_000}).create_view_sql("v", "t", **how)
    with pytest.raises(fb.ParameterError, match=r"at most 2,000; leave form at 'auto', or use create_view_sql\("):
        over(20, 4).database("postgres", limits={"text": 2_000}).create_view_sql("v", "t", **how)


def test_a_query_over_a_table_of_trees_may_be_too_large_too():
    small, how = over(20, 4).database("athena", limits={"view": 500, "text": 900}), {"keep": ["id"], "trees": "trees"}
    with pytest.raises(fb.ParameterError, match=r"into one view, not even as form='table': .* a view in athena "):
        small.create_view_sql("v", "t", **how)
    with pytest.raises(fb.ParameterError, match=r"one query, not even as form='table': it has [\d,]+ bytes, and a que"):
        small.query("t", **how)


def test_a_view_that_is_too_long_does_not_ask_for_columns_first():
    """Stages, which need them named, would be longer still."""
    with pytest.raises(fb.ParameterError, match="at most 900; make a table of it"):
        over(20, 4).database("redshift", limits={"view": 900}).create_view_sql("v", "t")


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL_BUT_SPARK)
def test_views_and_queries_within_limits_of_ones_own_run(name, tmp_path):
    warehouse, model = open_warehouse(name), over(12, 5)
    rng = random.Random(2)
    values = {f"x{i}": random_values(FeatureType(kind), 60, rng) for i, kind in enumerate(KINDS)}
    values = warehouse.fill_features("t", model, values)
    warehouse.load_trees("trees", model, tmp_path)
    expected = naive_margins(model, values).tolist()
    how = {"keep": ["id"], "output": "margin", "trees": "trees"}
    quote = warehouse.dialect.quote
    for limits, form in (
        ({}, "case"), ({"depth": 20}, "staged"), ({"view": 9_000}, "table"), ({"text": 9_000}, "table"),
        ({"depth": 20, "text": None, "elements": None}, "staged"),
    ):  # fmt: skip
        view = model.database(name, limits=limits).create_view_sql("v", "t", **how)
        if "list_transform" in view:
            assert (name, form) in {("duckdb", "case"), ("duckdb", "staged")}, "the fastest is within the limits"
        else:
            found = "table" if quote("trees") in view else "staged" if "stage_1" in view else "case"
            assert found == form or (name, form, found) == ("duckdb", "case", "staged")  # where that is faster
        warehouse.run(f"DROP VIEW IF EXISTS {quote('v')}")
        warehouse.run(view)
        queries = [f"SELECT * FROM {quote('v')}", model.query("t", name, **how, limits=limits)]
        for query in queries:
            assert [value for _, value in sorted(tuple(row) for row in warehouse.rows(query))] == expected
    warehouse.run(f"DROP VIEW {quote('v')}")


# --- limits of one's own ----------------------------------------------------------------------------------------------


def calls(model: fb.Model, folder: Path, **how):
    """Return what every method does that looks at limits, by its name."""
    rng = random.Random(3)
    frame = frame_of(model, {f.name: random_values(f.type, 50, rng) for f in model.ensemble.features})
    database = model.database(**how)
    watched = database.baseline(frame)
    until = dt.datetime(2026, 3, 1)
    return {
        "sql": lambda: model.sql(**how),
        "query": lambda: model.query("t", keep=["id"], **how),
        "create_view_sql": lambda: database.create_view_sql("v", "t", keep=["id"]),
        "create_table_sql": lambda: database.create_table_sql("w", "t", keep=["id"]),
        "update_sql": lambda: database.update_sql("t", "score"),
        "create_function_sql": lambda: database.create_function_sql("f"),
        "self_test_query": lambda: database.self_test_query("t"),
        "check_columns_query": lambda: database.check_columns_query("t"),
        "evaluate_query": lambda: database.evaluate_query("t", "y"),
        "compare_query": lambda: database.compare_query(model, "t", "y"),
        "monitor_query": lambda: database.monitor_query("t", baseline=watched),
        "append_history_sql": lambda: database.append_history_sql("h", "t", time="at", until=until, target="y"),
        "explain_query": lambda: database.explain_query("t"),
        "explain_view_sql": lambda: database.explain_view_sql("v", "t", approx="auto"),
        "explain_table_sql": lambda: database.explain_table_sql("w", "t", approx=True),
        "drift_query": lambda: database.drift_query("t", watched),
        "to_sql": lambda: database.to_sql(folder / "q.sql", "t"),
        "to_sql, a view": lambda: database.to_sql(folder / "v.sql", "t", statement="view", target="v"),
        "to_sql, a table": lambda: database.to_sql(folder / "w.sql", "t", statement="table", target="w"),
        "to_dbt": lambda: database.to_dbt(folder, "a", "b"),
        "deploy_statements": lambda: database.deploy_statements("v", "t"),
    }


METHODS = list(calls(over(1, 1), Path()))


def test_every_method_that_writes_sql_is_tested_with_limits():
    """But those that write no more than some rows of a table at a time."""
    with_dialect = {
        name for name, method in inspect.getmembers(fb.Model, inspect.isfunction)
        if not name.startswith("_") and "dialect" in inspect.signature(method).parameters
    }  # fmt: skip
    with_dialect.remove("report")  # which says so in place of a query that is too long
    assert with_dialect == {"database", "sql", "query"}
    assert all("limits" in inspect.signature(getattr(fb.Model, name)).parameters for name in with_dialect)
    of_database = {name for name, _ in inspect.getmembers(fb.DatabaseModel, inspect.isfunction) if name[0] != "_"}
    assert of_database - {name.partition(",")[0] for name in METHODS} == {
        "table_statements", "table_frame", "baseline", "rollback_statements", "create_history_sql",
    }  # fmt: skip


@pytest.mark.slow
@cases("method", METHODS)
def test_limits_are_lowered_and_raised(method, tmp_path, monkeypatch):
    model, before = over(8, 4), sorted(tmp_path.iterdir())
    name = "postgres" if method == "check_columns_query" else "spark"  # which has no catalog
    with pytest.raises(fb.ParameterError, match=rf"bytes, and a (query|view) in {name} at most 900"):
        calls(model, tmp_path, dialect=name, limits={"text": 900})[method]()
    assert sorted(tmp_path.iterdir()) == before
    calls(model, tmp_path, dialect=name, limits={"text": 10**6, "depth": 2_000})[method]()
    # The database's own, as small as the model; the last two write a chain of views, others are long for other reasons.
    if not method.startswith(("drift_query", "check_columns", "explain_", "to_dbt", "deploy_statements")):
        small = replace(DIALECTS["clickhouse"], limits=replace(DIALECTS["clickhouse"].limits, elements=900))
        with monkeypatch.context() as patched:
            patched.setitem(DIALECTS, "clickhouse", small)
            with pytest.raises(fb.ParameterError, match="in clickhouse at most 900"):
                calls(model, tmp_path, dialect="clickhouse")[method]()
            calls(model, tmp_path, dialect="clickhouse", limits={"text": None, "elements": 10**6})[method]()


@pytest.mark.slow
@cases("method", METHODS)
def test_what_a_message_advises_is_a_parameter(method, tmp_path):
    """Of the method that it names, which is the one that was called if that has it; or else of the one called."""
    called = getattr(fb.DatabaseModel, method.partition(",")[0])
    name = "postgres" if method == "check_columns_query" else "spark"  # which has no catalog
    with pytest.raises(TooLargeError) as error:
        calls(over(8, 4), tmp_path, dialect=name, limits={"text": 900})[method]()
    message = str(error.value)
    for function, arguments in re.findall(r"(\w+)\(\.\.\.,([^()]*)\)", message):
        for argument in re.findall(r"(\w+)=", arguments):
            assert argument in inspect.signature(getattr(fb.DatabaseModel, function)).parameters
            assert function == called.__name__ or argument not in inspect.signature(called).parameters, message
    for argument in re.findall(r"(\w+)=", re.sub(r"\w+\([^()]*\)", "", message)):
        assert argument in inspect.signature(called).parameters, message


@pytest.mark.parametrize("form", ["case", "staged"])
def test_a_form_that_does_not_fit_names_one_that_may(form):
    database = over(8, 4).database("spark", limits={"text": 900})
    keep = {"keep": ["id"]}
    for method, arguments, how in (
        ("query", ["t"], keep), ("create_view_sql", ["v", "t"], keep), ("create_table_sql", ["w", "t"], keep),
        ("evaluate_query", ["t", "y"], {}), ("self_test_query", ["t"], {}),
    ):  # fmt: skip
        with pytest.raises(TooLargeError, match=rf"use {method}\(\.\.\., form='table', trees='trees'\)"):
            getattr(database, method)(*arguments, form=form, **how)


@cases(
    ("limits", "said"),
    [
        (3, "limits must be a dict of numbers by limit, such as {'text': 2000000}, not 3"),
        (["text"], "limits must be a dict of numbers by limit, such as {'text': 2000000}, not ['text']"),
        ({"txt": 5}, "limits names 'txt', which is not a limit; did you mean 'text'?"),
        ({7: 5}, "limits names 7, which is not a limit; they are 'text', 'view', 'depth', 'case_depth', 'stack', "
                 "'stages', 'views', 'columns', 'elements', 'terms'"),
        ({"text": 0}, "limits must have a positive integer for 'text', or None for no limit, not 0"),
        ({"text": -1}, "limits must have a positive integer for 'text', or None for no limit, not -1"),
        ({"view": True}, "limits must have a positive integer for 'view', or None for no limit, not True"),
        ({"depth": 2.5}, "limits must have a positive integer for 'depth', or None for no limit, not 2.5"),
        ({"depth": "9"}, "limits must have a positive integer for 'depth', or None for no limit, not '9'"),
    ],
)  # fmt: skip
@cases("method", METHODS)
def test_invalid_limits_are_refused(method, limits, said, tmp_path):
    with pytest.raises(fb.ParameterError) as error:
        calls(over(1, 1), tmp_path, limits=limits)[method]()
    assert str(error.value) == said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@cases(
    ("limits", "message"),
    [
        ({"text": 2_000}, r"it has [\d,]+ bytes, and a query in duckdb at most 2,000"),
        ({"elements": 900}, r"it has about [\d,]+ elements, and a query in duckdb at most 900"),
        ({"terms": 600}, r"it has about [\d,]+ names and values, and an expression in duckdb at most 600"),
        ({"case_depth": 4}, "its CASEs nest 6 deep, and in duckdb 4 deep at most"),
        ({"stack": 66}, "it takes about 69 entries of the parser's stack, which has 66 in duckdb"),
        ({"depth": 41}, "it is about 42 levels deep, and an expression in duckdb at most 41"),
    ],
)
def test_every_limit_can_be_given(limits, message):
    model, how = over(40, 5), {"keep": ["id"], "form": "case"}
    model.query("t", **how)
    model.query("t", **how, limits=dict.fromkeys(limits, None))
    with pytest.raises(fb.ParameterError, match=rf"^the model does not fit into one query of form 'case': {message}; "):
        model.query("t", **how, limits=limits)
    with pytest.raises(fb.ParameterError, match=rf"into one expression: {message}; use model.query, which"):
        model.sql(limits=limits)


def test_limits_of_one_call_change_no_dialect():
    before = {name: dialect.limits for name, dialect in DIALECTS.items()}
    given = {"text": 10**6}
    over(2, 2).query("t", "athena", limits=given)
    assert {name: dialect.limits for name, dialect in DIALECTS.items()} == before
    assert given == {"text": 10**6}


# --- dbt --------------------------------------------------------------------------------------------------------------


def rendered(folder: Path, name: str = "a", *, is_incremental: bool = False) -> tuple[dict, str]:
    """Return the configuration of a dbt model, and its SQL over tables named as what it refers to."""
    seen: dict = {}
    environment = jinja2.Environment(autoescape=False)
    environment.globals |= {
        "config": lambda **how: seen.update(how) or "", "ref": lambda name: name, "this": "a",
        "is_incremental": lambda: is_incremental,
    }  # fmt: skip
    text = environment.from_string((folder / "models" / f"{name}.sql").read_text(encoding="utf-8")).render()
    return {key: value for key, value in seen.items() if key != "meta"}, text


def config_of(folder: Path) -> dict:
    configuration, _ = rendered(folder)
    return configuration


@pytest.mark.slow
def test_dbt_makes_a_view_or_else_a_table(tmp_path):
    small, large = over(2, 2), over(100, 5)
    how = {"keep": ["id"], "trained": dt.date(2026, 11, 21)}
    small.database("snowflake").to_dbt(tmp_path, "a", "b", **how)
    assert config_of(tmp_path) == {"materialized": "view"}
    large.database("snowflake").to_dbt(tmp_path, "a", "b", **how)
    assert config_of(tmp_path) == {"materialized": "table"}
    large.database("snowflake", limits={"view": 10**6}).to_dbt(tmp_path, "a", "b", **how)
    assert config_of(tmp_path) == {"materialized": "view"}
    large.database("snowflake").to_dbt(tmp_path, "a", "b", **how, materialized="incremental", unique_key="id")
    assert config_of(tmp_path) == {"materialized": "incremental", "unique_key": '"id"'}
    small.database("snowflake").to_dbt(tmp_path, "a", "b", **how, materialized="table")
    assert config_of(tmp_path) == {"materialized": "table"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL_BUT_SPARK)
@pytest.mark.parametrize("kind", ["view", "table"])
def test_a_chain_of_dbt_models_scores_what_is_too_large_for_one(name, kind, tmp_path):
    warehouse, model = open_warehouse(name), over(50, 5)
    rng = random.Random(2)
    values = {f"x{i}": random_values(FeatureType(type_), 60, rng) for i, type_ in enumerate(KINDS)}
    values = warehouse.fill_features("rows_to_score", model, values)
    most = 20_000
    database = model.database(name, limits={"text": most, "elements": None})
    with pytest.raises(fb.ParameterError, match="at most 20,000"):
        database.query("rows_to_score", keep=["id"])
    how = {"output": "margin", "materialized": kind, "self_test": 0}
    paths = database.to_dbt(tmp_path, "a", "rows_to_score", keep=["id"], **how)
    chain = [path.stem for path in paths if path.parent.name == "models" and path.suffix == ".sql"]
    assert len(chain) > 2
    assert chain == [*(f"a_part_{number}" for number in range(1, len(chain))), "a"]
    for each in reversed(chain):
        warehouse.run(f"DROP {kind.upper()} IF EXISTS {each}")
    for each in chain:
        configuration, text = rendered(tmp_path, each)
        assert configuration == {"materialized": kind}
        assert len(text.encode()) <= most
        warehouse.run(getattr(warehouse.dialect.statements, f"create_{kind}").format(name=each, query=text))
    rows = sorted(tuple(row) for row in warehouse.rows("SELECT * FROM a"))
    assert [row[1] for row in rows] == naive_margins(model, values).tolist()
    described = (tmp_path / "models" / "a.yml").read_text(encoding="utf-8")
    assert all(f'name: "{each}"' in described for each in chain)
    for each in reversed(chain):
        warehouse.run(f"DROP {kind.upper()} {each}")


@pytest.mark.slow
def test_the_vendors_limits_make_chains(tmp_path):
    # Of a view where one is asked for, else of a query; an incremental model goes over views.
    # With a tenth of the trees and of the limits the chain is the same.
    large = over(50, 6)
    for name, kind in (("snowflake", "view"), ("bigquery", "view"), ("athena", None), ("oracle", None),
                       ("trino", "incremental")):  # fmt: skip
        folder, known = tmp_path / name, get_dialect(name).limits
        tenth = {each: most // 10 for each in ("text", "view") if (most := getattr(known, each))}
        limits = replace(known, **tenth)
        how = {"materialized": kind, "unique_key": "id" if kind == "incremental" else None, "self_test": 0}
        paths = large.database(name, limits=tenth).to_dbt(folder, "a", "b", keep=["id"], **how)
        chain = [path.stem for path in paths if path.parent.name == "models" and path.suffix == ".sql"]
        kinds = {each: rendered(folder, each)[0]["materialized"] for each in chain}
        assert len(chain) > 1
        assert kinds.pop("a") == (kind or "table")
        assert set(kinds.values()) == {"view" if kind else "table"}
        sizes = [len(rendered(folder, each)[1].encode()) for each in chain]
        assert max(sizes) <= (limits.text if kind is None else limits.of_view())


@pytest.mark.slow
def test_a_chain_keeps_to_the_other_limits_too(tmp_path):
    large = over(40, 6)
    for name, most in (("clickhouse", 5_000), ("databricks", 3_000)):
        database = large.database(name, limits={"elements": most})
        with pytest.raises(fb.ParameterError):
            database.query("b", keep=["id"])
        paths = database.to_dbt(tmp_path / name, "a", "b", keep=["id"], self_test=0)
        chain = [path.stem for path in paths if path.parent.name == "models" and path.suffix == ".sql"]
        assert len(chain) > 5
        assert max(_n_elements(rendered(tmp_path / name, each)[1], database.dialect) for each in chain) <= most
    # Too many for one tree, and no limit that a chain could keep to.
    for name, limits in (("databricks", {"elements": 100}), ("clickhouse", {"text": None, "elements": 5_000})):
        with pytest.raises(fb.ParameterError, match=r"it has about [\d,]+ elements, and a query in"):
            large.database(name, limits=limits).to_dbt(tmp_path / "none", "a", "b", keep=["id"])
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_a_chain_has_as_many_tables_as_it_takes_but_no_more_views_than_may_be_nested(tmp_path):
    limits = {"text": 12_000, "elements": None, "stages": 3}
    how, model = {"keep": ["id"]}, over(60, 4)
    database = model.database("clickhouse", limits=limits)
    n = sum(path.suffix == ".sql" for path in database.to_dbt(tmp_path / "tables", "a", "b", **how, self_test=0))
    assert n > 3
    for kind, key in (("view", {}), ("incremental", {"unique_key": "id"})):  # whose steps are views
        with pytest.raises(fb.ParameterError, match=rf"would have {n} of them, and one in clickhouse at most 3$"):
            database.to_dbt(tmp_path / kind, "a", "b", **how, materialized=kind, **key)
        assert not (tmp_path / kind).exists()
    with pytest.raises(fb.ParameterError, match=r"into a chain of views: .* at most 3$"):
        database.deploy_statements("v", "b", **how)
    for most in (n - 1, n):
        deployed = model.database("clickhouse", limits={**limits, "views": most})
        if most < n:
            with pytest.raises(fb.ParameterError, match=rf"at most {most}$"):
                deployed.to_dbt(tmp_path / "views", "a", "b", **how, materialized="view")
        else:
            assert len(deployed.to_dbt(tmp_path / "views", "a", "b", **how, materialized="view", self_test=0)) > n


@pytest.fixture(scope="module")
def searched() -> list[fb.Model]:
    """Return models of `fb.auto`: of a number, of three classes, and with slopes in leaves."""
    rng = np.random.default_rng(0)
    x, n = rng.normal(size=300), rng.integers(0, 50, size=300)
    kind = np.where(n > 30, "many", np.where(x > 0, "some", "none"))
    frame = pl.DataFrame({"x": x, "n": n, "on": x > n / 25, "s": rng.choice(["A", "b", "it's", None], 300).tolist()})
    frame = frame.with_columns(y=np.sin(2 * x) * n, kind=pl.Series(kind))
    how = {"features": ["x", "n", "on", "s"], "n_jobs": 1, "early_stopping_rounds": None}
    return [
        fb.auto(frame, "y", quality=2, n_estimators=9, **how),
        fb.auto(frame, "kind", quality=1, n_estimators=6, **how),
        fb.auto(frame, "y", quality=1, n_estimators=2, linear_tree=True, **how),
    ]


@pytest.mark.slow
@cases("name", DIALECTS)
def test_what_auto_has_trained_is_written_within_a_twentieth_of_the_limits(name, searched, tmp_path):
    """Limits of vendors are reached by models that take seconds to write."""
    known = get_dialect(name).limits
    limits = {each: min(getattr(known, each) or 10**9, 1_200_000) // 20 for each in ("text", "view")}
    limits |= {each: most // 20 for each in ("elements", "terms") if (most := getattr(known, each))}
    for number, model in enumerate(searched):
        folder = tmp_path / f"{name} {number}"
        database = model.database(name, limits=limits)
        paths = database.to_dbt(folder, "a", "b", keep=["id"], self_test=0)
        for each in [path.stem for path in paths if path.parent.name == "models" and path.suffix == ".sql"]:
            configuration, text = rendered(folder, each)
            most = limits["text" if configuration["materialized"] == "table" else "view"]
            assert len(text.encode()) <= min(most, limits["text"])
            assert _n_elements(text, database.dialect) <= limits.get("elements", math.inf)
            assert len(set(re.findall(r"\bstage_\d+", text))) <= (known.stages or math.inf)
            assert nesting(text) <= (known.case_depth or math.inf)


@pytest.mark.slow
def test_later_runs_of_a_chain_score_the_rows_that_are_asked_for(tmp_path):
    database = over(150, 5).database("postgres", limits={"text": 60_000})
    database.to_dbt(tmp_path, "a", "b", keep=["id"], materialized="incremental", where="id > 7")
    texts = {each: rendered(tmp_path, each, is_incremental=True)[1] for each in ("a", "a_part_1", "a_part_2")}
    assert {each: "WHERE id > 7" in text for each, text in texts.items()} == {
        "a": True, "a_part_1": False, "a_part_2": False,
    }  # fmt: skip
    assert "WHERE" not in rendered(tmp_path, "a")[1]


@pytest.mark.slow
@cases("how", [{"materialized": "ephemeral"}, {"form": "case"}])
def test_what_can_be_no_chain_is_refused(how, tmp_path):
    with pytest.raises(fb.ParameterError, match="at most 60,000"):
        over(150, 5).database("postgres", limits={"text": 60_000}).to_dbt(
            tmp_path / "dbt", "a", "b", keep=["id"], **how
        )
    assert not (tmp_path / "dbt").exists()


def test_the_header_of_a_dbt_model_counts_towards_the_limit(tmp_path):
    """It is sent to the database, as comments."""
    query = over(3, 3).query("b", keep=["id"])
    over(3, 3).database(limits={"view": len(query.encode()) + 100}).to_dbt(tmp_path, "a", "b", keep=["id"])
    assert config_of(tmp_path) == {"materialized": "table"}


# --- Fabric -----------------------------------------------------------------------------------------------------------


def test_fabric_uses_only_types_that_its_tables_have():
    fabric = get_dialect("fabric")
    types = {name: fabric.type_of(FeatureType(name)) for name in
             ("int8", "uint8", "uint64", "timestamp[ns]", "timestamptz[us]", "string", "duration[us]")}  # fmt: skip
    assert types == {
        "int8": "SMALLINT", "uint8": "SMALLINT", "uint64": "DECIMAL(38, 0)", "timestamp[ns]": "DATETIME2(6)",
        "timestamptz[us]": "DATETIME2(6)", "string": "VARCHAR(8000)", "duration[us]": "BIGINT",
    }  # fmt: skip


def test_fabric_has_six_digits_of_a_second():
    fabric = get_dialect("fabric")
    # 1 ns after 1970 is first seen in the next microsecond.
    assert fabric.literal(FeatureType("timestamp[ns]"), 1) == "CAST('1970-01-01T00:00:00.000001' AS DATETIME2(6))"
    assert fabric.literal(FeatureType("timestamptz[ns]"), 1_000) == "CAST('1970-01-01T00:00:00.000001' AS DATETIME2(6))"
