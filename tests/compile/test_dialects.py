"""SQL for each database: it parses to what was meant and fits the limits, or is refused in one sentence.

Databases that don't run here are checked with sqlglot's parser for them, and with the golden files in ``golden``. Those
were read against ``docs/vendors.md``; ``FRAMEBOOST_WRITE_GOLDEN=1`` rewrites them. Limits that only those databases
have are imposed on DuckDB, which then runs the SQL that is laid out for them.
"""

import itertools
import math
import os
import random
import re
import sqlite3
from dataclasses import replace
from functools import cache
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest
from sqlglot import exp

import frameboost as fb
from frameboost.compile.sql import sql_model
from frameboost.dialects import built_in
from frameboost.dialects.built_in import DIALECTS, get_dialect
from frameboost.dialects.dialect import Limits
from frameboost.dialects.duckdb import DUCKDB
from frameboost.errors import ParameterError
from frameboost.schema.types import Feature, FeatureType
from tests.support.cases import cases
from tests.support.models import grown, made
from tests.support.parsed_sql import nesting, parsed
from tests.support.random_models import NAMES, TYPES, frame_of, naive_margins, random_model, random_values, to_duckdb
from tests.support.warehouses import WAREHOUSES, nameable

GOLDEN = Path(__file__).parent / "golden"
CATEGORIES = [*NAMES, "NULL", "nan", "日本", "a", "A", "ﬁ", "\\", "\\'", "'", "''", "\\\n", "\r\n", "\\n", "a]", "%"]
NUMERIC = ("float64", "int32", "boolean")


# --- golden files -----------------------------------------------------------------------------------------------------

PLACE = "it's \"x\\y] `z"
# Where a database can't have that name.
RENAMED = {"bigquery": "it's x&y", "oracle": "it's x\\y] `z"}
PLACES = ("", "A", 'O\'Hare "ORD"', "back\\slash", "end \\\nof line", "ﬁ ")
DAY = 86_400 * 10**6
# Each type, and trees that ask about it: by the number that is put in the place of "f".
ASKED = {
    "x": ("float64", [("x", 0.1, "left", -0.25, 0.375), ("x", math.inf, "right", 0.5, ("x", None, "right", 1.0, -1.0)),
                      ("x", 1e-300, "right", 0.125, ("x", -math.inf, "left", 0.25, 0.75))]),
    "f": ("float32", [("f", float(np.float32(0.1)), "right", 0.5, -0.5)]),
    "n": ("int32", [("n", -7, "right", 0.5, ("n", None, "right", -0.5, 0.25))]),
    "big": ("uint64", [("big", 2**64 - 1, "right", 0.5, -0.5)]),
    "price": ("decimal(12,3)", [("price", -1_005, "left", 0.5, -0.5)]),
    "ok": ("boolean", [("ok", 1, "left", 0.5, -0.5), ("ok", 1, "right", 0.5, -0.5), ("ok", 0, "left", 0.5, -0.5)]),
    "day": ("date", [("day", 19_782, "right", 0.5, -0.5)]),
    "at": ("timestamp[us]", [("at", 19_782 * DAY + 1_500_000, "left", 0.5, -0.5)]),
    "seen": ("timestamptz[us]", [("seen", 19_782 * DAY + 1, "right", 0.5, -0.5)]),
    PLACE: ("string", [(PLACE, {0, 1, 2}, "left", 0.5, ("x", 3.0, "right", (PLACE, {3, 4, 5}, "right", 0.5, 1.5), 2.0)),
                       (PLACE, {1}, "right", 0.5, -0.5)]),
}  # fmt: skip


_LEVEL = ("n", 5, "left", (PLACE, {1, 3}, "right", 0.25, -0.5), (PLACE, {1, 3}, "right", 0.75, 0.25))
SYMMETRIC = ("x", 3.0, "right", _LEVEL, _LEVEL)


def numbered(question, numbers):
    if isinstance(question, float):
        return question
    feature, asked, missing, yes, no = question
    return (numbers[feature], asked, missing, numbered(yes, numbers), numbered(no, numbers))


def golden_features(dialect) -> list[Feature]:
    kinds = {name: FeatureType(type_name) for name, (type_name, _) in ASKED.items()}
    return [
        Feature(name, kind, PLACES if kind.is_categorical else ())
        for name, kind in kinds.items()
        if dialect.type_of(kind) is not None
    ]


def golden_statements(name: str) -> dict[str, str]:
    """Return the SQL of the fixed models, by what it is."""
    dialect = get_dialect(name)
    features = golden_features(dialect)
    numbers = {feature.name: i for i, feature in enumerate(features)}
    trees = [numbered(question, numbers) for name in numbers for question in ASKED[name][1]]
    model = made(features, map(grown, trees))
    several = made(
        features,
        [grown(trees[k], output=k % 3) for k in (0, 2, 3)],
        base=(0.5, 0.0, -0.25),
        objective="multi:softprob",
        num_class=3,
    )
    # Contributions are called what features are called, so that no name of theirs may be one the database has not.
    binary = made(features[:3], [grown(trees[0])], base=(-1.0,), objective="binary:logistic")
    columns = {PLACE: RENAMED[name]} if name in RENAMED else None
    plain = {"dialect": name}
    how = {"dialect": name, "columns": columns}
    database = model.database(name, columns=columns)
    in_stages, simple = several.database(name, columns=columns), binary.database(name)
    statements = {
        "margin, one expression": model.sql("margin", **how),
        "query, of all columns": binary.query("shop.orders", where="1 = 1", **plain),
        "query, of classes": several.query("orders", keep=["id"], output="class", **how),
        "query in stages": several.query("orders", keep=["id"], **how),
        "leaves": several.query("orders", keep=["id"], output="leaf", name="leaf", **how),
    }
    unread = made(features, [*map(grown, trees), grown(numbered(SYMMETRIC, numbers))])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sql_model, "_MIN_UNREAD", 0)
        statements["query that nobody reads"] = unread.query("orders", keep=["id"], output="margin", **how)
    filled = [] if name == "athena" else database.table_statements("shop.trees")
    statements |= {f"trees, statement {i + 1}": statement for i, statement in enumerate(filled)}
    statements |= {
        "query over the table of trees": model.query(
            "orders", keep=["id"], output="margin", form="table", trees="shop.trees", **how
        ),
        "view": simple.create_view_sql("scored", "orders", keep=["id"]),
        "table": simple.create_table_sql("scored", "orders", keep=["id"], where="id > 7", output="class"),
        "table, in stages": in_stages.create_table_sql("scored", "orders", keep=["id"]),
        "update": simple.update_sql("orders", "score"),
        "contributions": simple.explain_query("orders", keep=["id"], approx=True),
        "reasons": in_stages.explain_query("orders", keep=["id"], top=2, output=0, approx=True),
        "a table of reasons by Shapley values": database.explain_table_sql(
            "reasons", "orders", keep=["id"], top=1, sign=1, texts={PLACE: PLACE}, where="id > 7"
        ),
        "drift": database.drift_query("orders", golden_baseline(numbers)),
    }
    return statements


def golden_baseline(names) -> pl.DataFrame:
    rows = [
        ("x", -1, None, None, None, 0.0), ("x", 0, None, "0.1", None, 0.5), ("x", 1, "0.1", None, None, 0.5),
        ("ok", -1, None, None, None, 0.0), ("ok", 0, None, "1", None, 0.5), ("ok", 1, "1", None, None, 0.5),
        (PLACE, -1, None, None, None, 0.25), (PLACE, 0, None, None, '"O\'Hare \\"ORD\\""', 0.5),
        (PLACE, 1, None, None, '""', 0.125), (PLACE, 2, None, None, None, 0.125),
    ]  # fmt: skip
    schema = {"feature": pl.String, "bin": pl.Int32, "lower": pl.String, "upper": pl.String, "category": pl.String,
              "share": pl.Float64}  # fmt: skip
    return pl.DataFrame([row for row in rows if row[0] in names], schema=schema, orient="row")


# The others run here, where queries are held to scores (`test_warehouses`, `test_names`, `test_strings_in_warehouses`).
ELSEWHERE = [name for name in DIALECTS if name not in WAREHOUSES]


@pytest.mark.slow
@cases("name", ELSEWHERE)
def test_sql_is_that_of_the_golden_file(name):
    text = "\n\n".join(f"-- {what}\n{statement};" for what, statement in golden_statements(name).items()) + "\n"
    path = GOLDEN / f"{name}.sql"
    if os.environ.get("FRAMEBOOST_WRITE_GOLDEN") == "1":
        path.write_bytes(text.encode())
    assert text == path.read_bytes().decode()


# --- what is written reads back ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=ELSEWHERE)
def everything(request):
    """A dialect, and a model that asks about columns of all its types, and for each category of a string."""
    dialect, rng = get_dialect(request.param), random.Random(request.param)
    kinds = [kind for kind in map(FeatureType, TYPES) if dialect.type_of(kind) is not None and kind.name != "string"]
    kinds += [FeatureType("string")] * (2 + max(0, len(NAMES) - len(kinds)))
    names = nameable(dialect, NAMES)
    names += [f"column {i}" for i in range(len(kinds) - len(names))]
    rng.shuffle(names)
    random_one = random_model(kinds, names, rng, n_trees=1, depth=3)
    features = [
        replace(feature, categories=tuple(sorted(CATEGORIES))) if feature.type.is_categorical else feature
        for feature in random_one.ensemble.features
    ]
    present = [grown((i, None, "right", 0.5, -0.5)) for i in range(len(features))]
    named = grown((len(features) - 1, set(range(len(CATEGORIES))), "right", 0.5, -0.5))
    return dialect, made(features, [*random_one.ensemble.trees, *present, named])


def identifiers(tree) -> set[str]:
    """Return the quoted names but of collations; without quotes there are aliases and stages, and more."""
    return {
        identifier.this
        for identifier in tree.find_all(exp.Identifier)
        if identifier.args.get("quoted") and not isinstance(identifier.parent, exp.Collate)
    }


def strings(tree) -> set[str]:
    """Return the string literals; those in pieces put together, and those in bytes read."""
    found = {bytes.fromhex(node.this).decode() for node in tree.find_all(exp.HexString)}
    for node in tree.find_all(exp.Literal, exp.National, exp.Add, exp.DPipe):
        if isinstance(node, exp.Add | exp.DPipe):
            parts = [_piece(part) for part in node.flatten()]
            found |= {"".join(parts)} if all(part is not None for part in parts) else set()
        elif isinstance(node, exp.National) or node.is_string:
            found.add(str(node.this))
    return found


def _piece(node) -> str | None:
    if isinstance(node, exp.National) or (isinstance(node, exp.Literal) and node.is_string):
        return str(node.this)
    if isinstance(node, exp.Chr | exp.Anonymous) and node.expressions:
        return chr(int(node.expressions[0].this))
    return None


# What a query has names for besides columns.
COLUMNS_OF_TREES = {
    "id", "named_by", "tree", "node", "output", "feature", "missing", "left", "right", "category", "value",
}  # fmt: skip
OURS = re.compile(r"id|prediction|score|bias|stage_\d+|v_\d+|s|tx|[abdnm]|trees|place|feature_number")


def assert_names(tree, model, more=()) -> None:
    """Check that all features are named, and nothing else, such as what a name would have smuggled in."""
    found = identifiers(tree)
    assert found >= set(model.features)
    others = {name for name in found - set(model.features) - set(more) if not OURS.fullmatch(name)}
    assert not {name for name in others if not name.startswith("threshold_")}


def test_an_expression_reads_back(everything):
    dialect, model = everything
    tree = parsed("SELECT " + model.sql("margin", dialect.name), dialect)
    assert identifiers(tree) == set(model.features)
    assert strings(tree) >= set(CATEGORIES)


@pytest.mark.slow
@cases("form", ["case", "staged", "table"])
def test_a_query_reads_back(everything, form):
    dialect, model = everything
    query = model.query("s.tx", dialect.name, keep=["id"], output="margin", form=form, trees="trees")
    assert_names(parsed(query, dialect), model, COLUMNS_OF_TREES)


def test_statements_about_views_and_tables_read_back(everything):
    dialect, model = everything
    small = model[-len(model.features) - 1 : -1]  # asks only which values are present
    how = {"keep": ["id"], "output": "margin", "form": "staged"}
    database = small.database(dialect.name)
    for write in (database.create_view_sql, database.create_table_sql):
        statement = write("trees", "s.tx", **how)
        tree = parsed(statement, dialect)
        assert isinstance(tree, exp.Select if statement.startswith("WITH") else exp.Create)
        assert_names(tree, small)


def test_an_update_reads_back(everything):
    dialect, model = everything
    update = model.database(dialect.name).update_sql("s.tx", "score")
    if dialect.name == "clickhouse":  # sqlglot does not know ALTER TABLE ... UPDATE
        update = update.replace("ALTER TABLE", "UPDATE", 1).replace("\nUPDATE", "\nSET", 1)
    tree = parsed(update, dialect)
    assert isinstance(tree, exp.Update)
    assert (tree.args.get("where") is not None) == dialect.statements.update_needs_where
    assert_names(tree, model)


@pytest.mark.slow
def test_a_table_of_trees_reads_back(everything):
    dialect, model = everything
    if dialect.name == "athena":
        with pytest.raises(ParameterError, match=r"^athena makes tables of files in S3; .* table_frame"):
            model.database(dialect.name).table_statements("s.trees")
        return
    statements = model.database(dialect.name).table_statements("s.trees")
    trees = [parsed(statement, dialect) for statement in statements]
    assert isinstance(trees[0], exp.Create)
    assert identifiers(trees[0]) >= COLUMNS_OF_TREES
    inserts = [tree for tree in trees if isinstance(tree, exp.Insert)]
    assert len(inserts) == len(statements) - 1 - 2 * (dialect.statements.create_index is not None)
    assert all(identifiers(tree) <= identifiers(trees[0]) | {"DUAL"} for tree in inserts)
    values = [tree.expression for tree in inserts]
    rows = sum(len(v.expressions if isinstance(v, exp.Values) else list(v.find_all(exp.Select))) for v in values)
    named = sum(len(codes or ()) for tree in model.ensemble.trees for codes in tree.categories)
    assert rows == sum(map(len, model.ensemble.trees)) + named
    assert set().union(*map(strings, inserts)) >= set(CATEGORIES)


@pytest.mark.slow
def test_explanations_read_back(everything):
    dialect, model = everything
    assert_names(parsed(model.database(dialect.name).explain_query("s.tx", keep=["id"]), dialect), model)
    reasons = parsed(model.database(dialect.name).explain_query("s.tx", keep=["id"], top=2), dialect)
    more = {f"{name}_{k}" for name in ("reason", "contribution") for k in (1, 2)}
    assert_names(reasons, model, more)
    assert strings(reasons) >= set(model.features)


@pytest.mark.slow
def test_drift_reads_back(everything):
    dialect, model = everything
    rng, last = random.Random(dialect.name), model.ensemble.features[-1]
    values = {
        feature.name: (CATEGORIES if feature is last else random_values(feature.type, 4, rng) * 10)[: len(CATEGORIES)]
        for feature in model.ensemble.features
    }
    baseline = model.database().baseline(frame_of(model, values), bins=60)
    tree = parsed(model.database(dialect.name).drift_query("s.tx", baseline), dialect)
    assert_names(tree, model, {"feature", "bin", "label", "training_share", "share", "psi"})
    assert strings(tree) >= {*CATEGORIES, *model.features}


# --- children ---------------------------------------------------------------------------------------------------------


def test_a_child_dialect_inherits_what_it_does_not_override(monkeypatch):
    child = DIALECTS["trino"].child(
        "starburst",
        names={"longest": 10},
        literals={"double": "DOUBLE '{v}'"},
        types={"int64": "NUMBER", "decimal": None},
        expressions={"longest_list": 2},
        statements={"create_view": "CREATE OR REPLACE VIEW {name} AS {query}"},
        limits={"text": 300},
    )
    assert child.quote("x") == '"x"'
    with pytest.raises(ParameterError, match=r"^the name 'a long name' has 11 characters, .* starburst .* most 10"):
        child.quote("a long name")
    assert (child.number(0.5), DIALECTS["trino"].number(0.5)) == ("DOUBLE '0.5'", "0.5e0")
    assert child.type_of(FeatureType("int64")) == child.type_of(FeatureType("duration[us]")) == "NUMBER"
    assert child.type_of(FeatureType("decimal(9,2)")) is None
    assert child.type_of(FeatureType("float64")) == "DOUBLE"
    assert child.any_of("x", ["1", "2", "3"]) == "x IN (1, 2) OR x IN (3)"
    assert child.sum(["1", "2", "3"]) == DIALECTS["trino"].sum(["1", "2", "3"]) == "(1 + (\n  2 +\n  3))"
    assert (child.limits.text, child.limits.depth, child.parser) == (300, 500, "starburst")
    monkeypatch.setitem(built_in.DIALECTS, "starburst", child)
    model = made([Feature("x", FeatureType("int64"))], [grown((0, 3, "right", -0.5, 0.5))], (1.5,))
    assert model.database("starburst").create_view_sql("v", "t", keep=["x"]) == (
        'CREATE OR REPLACE VIEW "v" AS SELECT "x", (DOUBLE \'1.5\' +\n'
        '  IF("x" < 3, DOUBLE \'-0.5\', DOUBLE \'0.5\')) AS "prediction"\nFROM "t"'
    )


# --- layout -----------------------------------------------------------------------------------------------------------

LONG_NAMES = ("a long name\n   + THEN ", "another name that is as long")
LAID_OUT = {
    "sqlite": """\
(0.5 + (
  CASE WHEN `a` < 3
    THEN CASE WHEN `b` COLLATE BINARY IN ('a long name
   + THEN ', 'another name that is as long')
      THEN 1.0
      ELSE 2.0 END
    ELSE 4.0 END +
  CASE WHEN `a` < 5 THEN 8.0 ELSE 16.0 END)
)
""",
    "duckdb": """\
(0.5e0 + (
  CASE
    WHEN NOT ("a" < 3) OR "a" IS NULL THEN 4.0e0
    WHEN "b"::VARCHAR COLLATE C = 'a long name
   + THEN ' OR "b"::VARCHAR COLLATE C = 'another name that is as long' THEN 1.0e0
    ELSE 2.0e0 END +
  CASE WHEN "a" < 5 THEN 8.0e0 ELSE 16.0e0 END)
)
""",
}


@pytest.mark.parametrize("name", LAID_OUT)
def test_long_trees_of_small_models_have_a_line_for_each_branch(name):
    features = [Feature("a", FeatureType("int32")), Feature("b", FeatureType("string"), LONG_NAMES)]
    long, short = (0, 3, "right", (1, {0, 1}, "right", 1.0, 2.0), 4.0), (0, 5, "right", 8.0, 16.0)
    assert made(features, [grown(long), grown(short)]).sql(dialect=name) == LAID_OUT[name].rstrip()


@pytest.mark.parametrize("name", DIALECTS)
def test_the_layout_adds_blanks_only(name):
    rng = random.Random(name)
    kinds = [FeatureType(each) for each in ("float64", "string", "boolean", "int32")]
    dialect = get_dialect(name)
    model = random_model(kinds, ["a", "b", "c", "d"], rng, n_trees=6, depth=4)
    with pytest.MonkeyPatch.context() as patched:
        texts = []
        for most in (10**9, 0):
            patched.setattr(sql_model, "_MAX_IN_LINES", most)
            texts.append(model.query("t", name, keep=["id"]))
    in_lines, in_one = texts
    assert in_lines.count("\n") > in_one.count("\n")
    assert parsed(in_lines, dialect) == parsed(in_one, dialect)


@pytest.mark.parametrize("name", ["duckdb", "postgres", "bigquery", "snowflake"])
@pytest.mark.parametrize("made_for", ["exposure", "softprob", "class", "calibrated", "quantiles", "log"])
def test_no_line_is_too_long_to_be_shown(name, made_for):
    """Of what is not a tree; those of one split have short lines, but for a list of leaves."""
    rows = pl.DataFrame({"x": range(60)}).with_columns(
        exposure=pl.col("x") % 7 + 0.3,
        count=pl.col("x") % 5,
        text=pl.format("{} of three", pl.col("x") % 3),
        yes=pl.col("x") > 21,
    )
    target, more = {
        "exposure": ("count", {"objective": "count:poisson", "exposure": "exposure"}),
        "softprob": ("text", {}),
        "class": ("yes", {}),
        "calibrated": ("yes", {}),
        "quantiles": ("count", {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.5, 0.9]}),
        "log": ("exposure", {"target_transform": "log1p"}),
    }[made_for]
    model = fb.fit(rows, target, features=["x"], n_estimators=3, max_depth=1, verbose=False, **more)
    model = model.calibrate(rows, "yes") if made_for == "calibrated" else model
    output = "class" if made_for == "class" else "mean"
    text = model.query("a_table", name, keep=["x"] if name == "postgres" else None, output=output)
    assert [line for line in text.splitlines() if len(line) > 120 and "DOUBLE[]" not in line] == []


# --- limits -----------------------------------------------------------------------------------------------------------


def small(monkeypatch, limits=None, **changes):
    """Return DuckDB with limits of its own, or other differences, known as a dialect called small.

    With limits, its CASEs nest as in most databases, and it has no lambdas.
    """
    dialect = DUCKDB.child("small", parser="duckdb", **changes)
    if limits is not None:
        nested = replace(dialect.expressions, case_skips_unmet_whens=False, lambda_=None)
        dialect = replace(dialect, expressions=nested, limits=limits)
    monkeypatch.setitem(built_in.DIALECTS, "small", dialect)
    return dialect


@cache
def over(n_trees: int, depth: int, seed: int = 0, kinds=("float64", "int32", "boolean", "string")) -> fb.Model:
    names = [f"x{i}" for i in range(len(kinds))]
    return random_model([FeatureType(kind) for kind in kinds], names, random.Random(seed), n_trees, depth)


def assert_same_in_duckdb(model, query: str, seed: int = 0) -> None:
    rng = random.Random(seed)
    values = {feature.name: random_values(feature.type, 80, rng) for feature in model.ensemble.features}
    con = duckdb.connect()
    to_duckdb(con, frame_of(model, values), "t")
    rows = sorted(con.execute(query).fetchall())
    assert [row[0] for row in rows] == list(range(80))
    found = np.array([row[1] for row in rows], dtype=np.float64)
    assert found.view(np.int64).tolist() == naive_margins(model, values).view(np.int64).tolist()


def terms_of_selects(dialect, text: str) -> list[int]:
    """Return how many names and values each SELECT of the query has, those in WITH counted by themselves."""
    selects = parsed(text, dialect).find_all(exp.Select)
    return [sum(len(list(item.find_all(exp.Column, exp.Literal))) for item in each.expressions) for each in selects]


@pytest.mark.slow
@cases(
    ("limits", "form"),
    [
        (Limits(), "case"),
        (Limits(text=10**6, depth=500, case_depth=10, columns=100, elements=10**6, terms=10**6), "case"),
        (Limits(depth=20), "staged"),
        (Limits(case_depth=4), "staged"),
        (Limits(terms=1_000), "staged"),
        (Limits(elements=1_000), "table"),
        (Limits(text=8_000), "table"),
        (Limits(columns=5, case_depth=4), "table"),  # a stage has those that are read besides
    ],
)
def test_the_first_form_that_fits_is_taken(monkeypatch, limits, form):
    small(monkeypatch, limits=limits)
    model = over(40, 5)
    query = model.query("t", "small", keep=["position"], output="margin", trees="trees")
    assert form == ("table" if '"trees"' in query else "staged" if query.startswith("WITH") else "case")
    if form != "table":
        assert query == model.query("t", "small", keep=["position"], output="margin", form=form)
        assert_same_in_duckdb(model, query)
        return
    load = r"load the trees with model.database\('small'\).table_statements\('trees'\)"
    advice = load + r" and take query\(..., trees='trees'\)$"
    with pytest.raises(ParameterError, match=r"^the model does not fit into one query of form 'auto': .*" + advice):
        model.query("t", "small", keep=["position"], output="margin")


@pytest.mark.slow
@cases("name", ["clickhouse", "athena", "bigquery", "tsql", "trino"])
def test_queries_fit_into_the_limits_of_real_databases(name):
    dialect, limits = get_dialect(name), get_dialect(name).limits
    forms = set()
    for n_trees, depth in [(5, 3), (6, 10), (700, 7)]:
        # Of so many features hardly a split says what one above has said.
        model = over(n_trees, depth, kinds=("float64", "int32") * 20)
        query = model.query("t", name, keep=["id"], output="margin", trees="trees")
        forms.add(dialect.quote("trees") in query)
        assert limits.text is None or len(query.encode()) <= limits.text
        if limits.case_depth is not None:
            assert nesting(query) <= limits.case_depth
        if limits.elements is not None:
            assert len(list(parsed(query, dialect).find_all(exp.Column, exp.Literal))) <= limits.elements
    assert forms == ({False} if limits.text is None or limits.text > 10**8 else {False, True})


@pytest.mark.parametrize("size", [2_000, 6_000, 15_000, 40_000, 10**6])
def test_no_query_is_longer_than_it_may_be(monkeypatch, size):
    small(monkeypatch, limits=Limits(text=size))
    taken = 0
    for n_trees, trees in itertools.product((1, 5, 20, 80), (None, "trees")):
        try:
            query = over(n_trees, 4).query("t", "small", keep=["position"], trees=trees)
        except ParameterError as error:
            assert f"at most {size:,}" in str(error)
        else:
            taken += 1
            assert len(query.encode()) <= size
    assert taken


def test_explanations_nest_no_deeper_than_they_may(monkeypatch):
    assert (
        5
        <= nesting(over(3, 14, kinds=("float64",)).database("tsql").explain_query("t", keep=["id"], approx=True))
        <= 10
    )
    small(monkeypatch, limits=Limits(case_depth=4))
    with pytest.raises(ParameterError, match=r"its CASEs nest \d+ deep, and in small 4 deep at most; explain a slice"):
        over(3, 9).database("small").explain_query("t", keep=["position"], approx=True)


def test_columns_are_limited(monkeypatch):
    small(monkeypatch, limits=Limits(columns=20))
    model = over(20, 3)
    query = model[:19].query("t", "small", keep=["position"], output="leaf")
    assert len(parsed(query, DUCKDB).expressions) == 20
    with pytest.raises(ParameterError, match=r"21 columns, and a SELECT in small has at most 20$"):
        model.query("t", "small", keep=["position"], output="leaf")


# --- what DuckDB says of what is laid out for others ------------------------------------------------------------------


@pytest.mark.parametrize(("case_depth", "seed"), [(2, 0), (5, 1)])
def test_deep_trees_are_walked_in_stages(monkeypatch, case_depth, seed):
    small(monkeypatch, limits=Limits(case_depth=case_depth))
    model = over(3, 9, seed, ("float64", "int32", "boolean", "string") * 20)
    assert max(max(tree.depths()) for tree in model.ensemble.trees) == 9
    query = model.query("t", "small", keep=["position"], output="margin")
    assert nesting(query) == case_depth
    assert_same_in_duckdb(model, query, seed)


@pytest.mark.slow
def test_missing_zeros_do_not_nest_too_deep():
    model = over(3, 13, kinds=("float64",) * 40)
    features = [replace(feature, zero_is_missing=True) for feature in model.ensemble.features]
    query = made(features, model.ensemble.trees).query("t", "tsql", keep=["id"], output="margin")
    assert nesting(query) <= get_dialect("tsql").limits.case_depth


@pytest.mark.slow
@cases("limits", [Limits(terms=1_700), Limits(terms=1_300, case_depth=3)])
def test_sums_are_in_as_many_stages_as_terms_allow(monkeypatch, limits):
    dialect = small(monkeypatch, limits=limits)
    model = over(60, 4, kinds=("float64", "int32") * 20)
    query = model.query("t", "small", keep=["position"], output="margin")
    counts = terms_of_selects(dialect, query)
    assert len(counts) > 3
    assert max(counts) <= limits.terms
    assert_same_in_duckdb(model, query)


def of_classes(seed: int = 0) -> tuple[fb.Model, pl.DataFrame]:
    model = over(6, 3, seed, NUMERIC)
    trees = [replace(tree, output=i % 3) for i, tree in enumerate(model.ensemble.trees)]
    several = made(model.ensemble.features, trees, base=(0.5, 0.0, -0.5), objective="multi:softprob", num_class=3)
    rng = random.Random(seed)
    return several, frame_of(model, {f.name: random_values(f.type, 100, rng) for f in model.ensemble.features})


def rows_of(frame: pl.DataFrame, query: str) -> np.ndarray:
    con = duckdb.connect()
    to_duckdb(con, frame, "t")
    return np.array(sorted(con.execute(query).fetchall()), dtype=np.float64)[:, 1:]


@pytest.mark.parametrize("changes", [{"lambda_": None}, {"lambda_": None, "array": None, "lookup": None}])
def test_several_outputs_without_lateral_aliases_or_lists(monkeypatch, changes):
    small(monkeypatch, expressions=changes)
    model, frame = of_classes()
    for output in ("mean", "class", "margin", "leaf"):
        found = rows_of(frame, model.query("t", "small", keep=["position"], output=output))
        expected = model.predict(frame, output).to_numpy().reshape(len(frame), -1)
        np.testing.assert_allclose(found, expected, rtol=1e-14 if output == "mean" else 0)
    refused = [("mean", "several values"), ("class", "a value that uses the margin several times")]
    if "array" in changes:
        refused.append(("margin", "several values"))
    else:
        assert model.sql("margin", "small").startswith("[")
    for output, what in refused:
        with pytest.raises(ParameterError, match=f"^the output is {what}, which is not a single expression in small"):
            model.sql(output, "small")


def test_symmetric_trees_without_lists(monkeypatch):
    small(monkeypatch, expressions={"lookup": None})
    level = (1, 7, "left", (2, 1, "right", 0.5, 0.25), (2, 1, "right", -0.5, -0.25))
    features = [Feature(f"x{i}", FeatureType(kind)) for i, kind in enumerate(NUMERIC)]
    model = made(features, [grown((0, 0.5, "right", level, level))])
    assert model.ensemble.trees[0].levels() == [0, 1, 2]
    assert "[" in model.query("t", keep=["position"], output="margin")
    query = model.query("t", "small", keep=["position"], output="margin")
    assert "[" not in query
    assert_same_in_duckdb(model, query)


def test_columns_that_can_not_be_left_out_must_be_named(monkeypatch):
    small(monkeypatch, statements={"except_columns": None, "except_unknown": None})
    model, frame = of_classes()
    with pytest.raises(ParameterError, match=r"several stages, and small can't leave columns of theirs out; name"):
        model.query("t", "small")
    assert rows_of(frame, model.query("t", "small", keep=["position"])).shape == (100, 3)
    kept = model.query("t", keep=None)  # DuckDB itself leaves them out
    con = duckdb.connect()
    to_duckdb(con, frame, "t")
    assert con.sql(kept).columns == ["position", *frame.columns, "prediction_0", "prediction_1", "prediction_2"]


# --- what is refused --------------------------------------------------------------------------------------------------


def test_unknown_dialects_and_forms_are_refused():
    model = over(1, 1)
    for call in (model.sql, lambda **how: model.query("t", **how), model.database):
        for wrong in ("excel", None, 3, ["duckdb"]):
            with pytest.raises(ParameterError, match=r"^dialect must be one of 'duckdb', 'postgres', .*'oracle', not"):
                call(dialect=wrong)
    for how, message in [
        ({"form": "flat"}, "form must be one of 'auto', .*'case', 'lists', 'sorted', 'staged', 'table', not 'flat'"),
        ({"form": "table", "keep": []}, "form='table' needs trees, the name of the table that table_statements fills"),
        ({"form": "table", "trees": "trees"}, "form='table' adds up .*; name the columns to return in keep"),
    ]:
        with pytest.raises(ParameterError, match=f"^{message}"):
            model.query("t", **how)


@cases(
    ("name", "column", "why"),
    [
        ("oracle", 'a"b', "holds '\"'"),
        ("bigquery", "a.b", "holds '.'"),
        ("bigquery", "a\\b", "holds '\\\\'"),
        ("postgres", "a\0b", r"holds '\x00'"),
        ("mysql", "a ", "ends in a blank"),
        ("mariadb", "a ", "ends in a blank"),
        ("mysql", "a😀", "holds '😀'"),
        ("mariadb", "😀", "holds '😀'"),
        ("redshift", "a\nb", r"holds '\n'"),
        ("tsql", "", "is empty"),
        ("duckdb", "", "is empty"),
        ("sqlite", "", "is empty"),
        ("postgres", "ä" * 32, "has 64 bytes, and names in postgres have at most 63"),
        ("oracle", "x" * 129, "has 129 bytes, and names in oracle have at most 128"),
        ("redshift", "x" * 128, "has 128 bytes, and names in redshift have at most 127"),
        ("mysql", "x" * 65, "has 65 characters, and names in mysql have at most 64"),
        ("tsql", "x" * 129, "has 129 characters, and names in tsql have at most 128"),
        ("snowflake", "x" * 256, "has 256 characters, and names in snowflake have at most 255"),
        ("bigquery", "x" * 301, "has 301 characters, and names in bigquery have at most 300"),
    ],
)
def test_names_that_a_database_can_not_have_are_refused(name, column, why):
    model = made([Feature(column, FeatureType("int32"))], [grown((0, 1, "left", 0.5, -0.5))])
    calls = [
        lambda **how: model.sql(dialect=name, **how),
        lambda **how: model.query("t", name, **how),
        lambda **how: model.database(name, **how).table_statements("trees"),
        lambda **how: model.database(name, **how).update_sql("t", "score"),
    ]
    for call in calls:
        with pytest.raises(ParameterError, match=f"^the name .* {re.escape(why)}.*; rename it there$"):
            call()
        call(columns={column: "other"})
    fine = over(1, 1, kinds=("float64",))
    for call in (
        lambda: fine.query("t", name, keep=[column]),
        lambda: fine.query("t", name, name=column),
        lambda: fine.database(name).update_sql("t", column),
    ):
        with pytest.raises(ParameterError, match=f"^the name .* {re.escape(why)}.*; rename it there$"):
            call()


def test_a_name_in_athena_is_one_of_glue():
    assert get_dialect("athena").quote("ä" * 127 + "x") == '"' + "ä" * 127 + 'x"'
    with pytest.raises(ParameterError, match=r"has 256 bytes, and names in athena have at most 255; rename"):
        get_dialect("athena").quote("ä" * 128)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("postgres", "ä" * 31 + "x"), ("postgres", "a\n😀"), ("mysql", " a"), ("mysql", "☃\uffff"), ("tsql", "]" * 128),
        ("redshift", "ä😀 %"),
    ],
)  # fmt: skip
def test_names_that_a_database_can_just_have_are_taken(name, column):
    model = made([Feature(column, FeatureType("int32"))], [grown((0, 1, "left", 0.5, -0.5))])
    assert identifiers(parsed("SELECT " + model.sql(dialect=name), get_dialect(name))) == {column}


@cases("type_name", ["uint128", "uint64", "int128"])
def test_types_that_a_database_has_not_are_refused(type_name):
    model = made([Feature("x", FeatureType(type_name))], [grown((0, 1, "left", 0.5, -0.5))])
    for call in (model.sql, lambda **how: model.query("t", **how), model.database):
        with pytest.raises(ParameterError, match=f"^feature 'x' has type {type_name}, which no column has in sqlite$"):
            call(dialect="sqlite")


def test_mistakes_in_columns_are_refused():
    features = [Feature(name, FeatureType("float64")) for name in ("x0", "x1")]
    model = made(features, [grown((0, 1.0, "left", 0.5, (1, 2.0, "left", 0.5, -0.5)))])
    for columns, message in [
        (["x0"], r"columns must be a dict of feature to column name, or a function of a feature's name, not \['x0'\]"),
        ({"z": "x0"}, "columns names 'z', which is not a feature of the model"),
        ({"x0": 3}, "columns must have the name of a column for feature 'x0', not 3"),
        ({"x0": "X1"}, "features 'X1' and 'x1' differ only in case, which duckdb can't tell apart"),
    ]:
        with pytest.raises(ParameterError, match=f"^{message}$"):
            model.sql(columns=columns)
    text = model.sql(dialect="postgres", columns={"x0": "X1"})
    assert identifiers(parsed(f"SELECT {text}", get_dialect("postgres"))) == {"X1", "x1"}
    with pytest.raises(ParameterError, match=r"^keep must be a list of column names, not the string 'id'$"):
        model.query("t", keep="id")


def test_a_quoted_part_of_a_name_may_hold_dots_and_a_table_be_in_a_schema():
    assert get_dialect("tsql").quote_path('a."b.c"."d""e"') == '[a].[b.c].[d"e]'
    assert get_dialect("bigquery").quote_path("project-1.data.trees") == "`project-1`.`data`.`trees`"
    model = over(1, 1, kinds=("float64",))
    statements = model.database("oracle").table_statements('"my.trees"')
    assert statements[-1] == 'CREATE INDEX "my.trees_id" ON "my.trees" ("id")'
    con = sqlite3.connect(":memory:")
    for statement in model.database("sqlite").table_statements("main.trees"):
        con.execute(statement)


@pytest.mark.parametrize("name", ["tsql", "fabric", "redshift"])
def test_a_threshold_below_the_least_normal_number_is_rounded_up(name):
    """SQL Server reads 5e-324 as 0, so ``x <= 0``, which is ``x < 5e-324``, would leave 0 out; Redshift refuses it."""
    dialect, least = get_dialect(name), 2.0**-1022
    for value, rounded in [
        (5e-324, least), (least - 5e-324, least), (least, least), (-5e-324, 0.0), (5e-324 - least, 0.0),
        (-least, -least), (0.0, 0.0), (1.5 * least, 1.5 * least), (2.0**-149, 2.0**-149),
    ]:  # fmt: skip
        assert dialect.literal(FeatureType("float64"), value) == dialect.number(rounded)
    model = made([Feature("x", FeatureType("float64"))], [grown((0, 5e-324, "left", 0.5, -0.5))])
    statements = [model.sql(dialect=name), *model.database(name).table_statements("trees")]
    assert "324" not in "".join(statements)
    assert sum("2.2250738585072014e-308" in statement for statement in statements) == 2
    rounding = {other for other, dialect in DIALECTS.items() if not dialect.literals.has_subnormals}
    assert rounding == {"tsql", "fabric", "redshift"}
    assert get_dialect("trino").literal(FeatureType("float64"), 5e-324) == "5e-324"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-300, "1e-300"), (1.5e-300, "15e-301"), (-1.7976931348623157e308, "-17976931348623157e292"),
        (5e-324, "5e-324"), (2e125, "2e125"), (-2.25e-126, "-225e-128"),
    ],
)  # fmt: skip
def test_oracle_reads_no_decimal_point_in_a_string(value, text):
    """TO_BINARY_DOUBLE('1.5e-300') is an error where the session's NLS_NUMERIC_CHARACTERS are ``,.``."""
    assert get_dialect("oracle").number(value) == f"TO_BINARY_DOUBLE('{text}')"
    assert float(text) == value
