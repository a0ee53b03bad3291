"""The files in `sql/` are documented, are what the engine runs, and are in the wheel."""

import re
import shutil
import string
import subprocess
import sys
import tomllib
from pathlib import Path

import duckdb
import polars as pl
import pytest
import sqlglot
from sqlglot import exp

import frameboost as fb
from frameboost.engines.duckdb import binning
from frameboost.engines.duckdb import engine as sql
from frameboost.expressions import duckdb_sql
from tests.support.cases import cases

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "sql").glob("*.sql"))

_ENTRY = re.compile(r"-- (?:in: |out:|    ) (?P<names>{\w+}(?:, {\w+})*)")


def header_and_body(path: Path) -> tuple[str, str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    header = [line for line in lines if line.startswith("--")]
    return "\n".join(header), "\n".join(lines[len(header) :])


def parts_of(body: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(body) if name is not None}


@cases("path", FILES)
def test_the_header_says_what_goes_in_and_what_comes_out(path):
    header, body = header_and_body(path)
    lines = header.splitlines()
    assert len(lines[0]) > 20, "it begins with what the statement is for"
    assert [line[:7] for line in lines if line.startswith(("-- in:", "-- out:"))] == ["-- in: ", "-- out:"]
    assert body.startswith("\n"), "a blank line ends the header"


@cases("path", FILES)
def test_every_part_is_documented_and_nothing_else(path):
    header, body = header_and_body(path)
    entries = [match for line in header.splitlines() if (match := _ENTRY.match(line))]
    documented = {name for match in entries for name in re.findall(r"{(\w+)}", match["names"])}
    mentioned = set(re.findall(r"{(\w+)}", header))
    assert parts_of(body) <= mentioned, "what is filled in is explained"
    assert documented <= parts_of(body), "what is explained is filled in"


@pytest.fixture
def rendered(monkeypatch) -> dict[str, str]:
    """Return the statements of a fit that meets all there is: numbers, texts, missing values, weights."""
    statements, original = {}, duckdb_sql.render

    def render(name, **parts):
        text = original(name, **parts)
        assert set(parts) >= parts_of(header_and_body(ROOT / "sql" / f"{name}.sql")[1])
        statements[name] = text
        return text

    for name, module in list(sys.modules.items()):
        if name.startswith("frameboost") and getattr(module, "render", None) is original:
            monkeypatch.setattr(module, "render", render)
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT i AS x, nullif(i % 7, 3) / 2 AS z, 'k' || i % 3 AS s, i % 5 AS y, 1 AS w, "
                "DATE '2020-01-01' - CAST(i % 9 AS INTEGER) AS d "
                "FROM range(50) AS r(i)")  # fmt: skip
    shape = {"n_estimators": 2, "max_depth": 2, "subsample": 0.8, "max_bin": 16}
    fb.fit(con.table("t"), "y", weight="w", objective="reg:absoluteerror", **shape)
    fb.fit(con.table("t"), "y", objective="reg:absoluteerror", **shape)
    fb.fit(con.table("t"), "y", linear_tree=True, **shape)
    fb.fit(
        con.sql("SELECT * REPLACE (y > 2 AS y) FROM t"), "y", objective="binary:logistic", eval_metric="auc", **shape
    )
    queries = con.sql("SELECT *, x % 5 AS query FROM t")
    fb.fit(queries, "y", objective="rank:ndcg", group="query", **shape)
    con.execute("CREATE TABLE d AS SELECT i, i // 3 AS a, -(i // 3) AS b FROM range(3) AS r(i)")  # one key
    fb.fit(fb.join(con.sql("SELECT *, y % 4 AS i FROM t"), con.table("d"), on="i"), "y", **shape)
    monkeypatch.setattr(sql, "MIN_SORTED", 1)
    monkeypatch.setattr(binning, "MIN_ROWS", 0)
    con.execute("CREATE TABLE many AS SELECT i AS x, i % 5 AS y FROM range(20000) AS r(i)")
    fb.fit(con.table("many"), "y", n_estimators=2, max_bin=4)
    fb.fit(con.table("t"), "y", tree_method="approx", **shape)
    con.execute("SET threads = 7")  # more than pay for a kernel: group-bys, and nodes in a table
    fb.fit(con.table("many"), "y", n_estimators=2, max_bin=4)
    fb.fit(queries, "y", objective="rank:ndcg", group="query", **shape)
    for proposal in ("global", "local"):
        fb.fit(con.table("t"), "y", tree_method="approx", proposal=proposal, **shape)
    wide = con.sql(f"SELECT {', '.join(f'x % {i} AS x{i}' for i in range(2, 80))}, y FROM many")  # columns in parts
    fb.fit(wide, "y", engine="duckdb", **shape)
    for objective, metric in (("reg:absoluteerror", "mae"), ("binary:logistic", "auc")):
        rows = con.sql("SELECT * REPLACE (y > 2 AS y) FROM t")
        fb.fit(rows, "y", objective=objective, eval_metric=metric, engine="duckdb", shards=2, **shape)
    return statements


@pytest.mark.slow
def test_the_engine_runs_every_file_and_no_part_is_left_open(rendered):
    assert set(rendered) == {path.stem for path in FILES}
    for name, statement in rendered.items():
        assert "--" not in statement, f"{name}: the header is not sent to the database"
        assert not parts_of(statement), name
        parsed = sqlglot.parse_one(statement, read="duckdb")
        assert isinstance(parsed, exp.Create if statement.startswith("CREATE") else exp.Query), name


def test_braces_in_names_and_values_are_left_alone():
    frame = pl.DataFrame({"{x}": [1, 2, 3, 4], "{0} }{": ["{", "}", "{bins}", "{}"], "y": [1, 2, 3, 4]})
    con = duckdb.connect()
    relation = con.from_arrow(frame.to_arrow())
    options = {"n_estimators": 2, "min_child_weight": 0}
    assert fb.fit(relation, "y", **options) == fb.fit(frame, "y", **options)


# --- in the wheel -----------------------------------------------------------------------------------------------------


def test_the_wheel_carries_the_files():
    with (ROOT / "pyproject.toml").open("rb") as file:
        build = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]
    assert build["wheel"]["packages"] == ["frameboost"]
    assert build["wheel"]["force-include"] == {"sql": "frameboost/sql"}
    assert "sql" in build["sdist"]["include"]


@pytest.mark.slow
def test_an_installed_package_runs_the_files_that_came_with_it(tmp_path):
    # As a wheel lays them out, with a mark to tell them by; beside the package, files that are none of its business.
    ignored = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
    shutil.copytree(ROOT / "frameboost", tmp_path / "frameboost", ignore=ignored)
    shutil.copytree(ROOT / "sql", tmp_path / "frameboost" / "sql")
    shutil.copytree(ROOT / "sql", tmp_path / "sql")
    marked = tmp_path / "frameboost" / "sql" / "gradients.sql"
    marked.write_text(marked.read_text(encoding="utf-8") + "\nLIMIT error('marked')", encoding="utf-8")
    code = """
import duckdb, frameboost as fb
from frameboost.engines import query_costs
query_costs.MAX_VALUES = -1
con = duckdb.connect()
try:
    fb.fit(con.sql("SELECT i AS x, i AS y FROM range(9) AS r(i)"), "y")
except duckdb.Error as error:
    print(fb.__file__, "marked" in str(error))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.stdout == f"{tmp_path / 'frameboost' / '__init__.py'} True\n", done.stderr
