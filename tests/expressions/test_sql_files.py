"""The files in `sql/` are documented and are in the wheel; `data/test_duckdb_session.py` has fits that run each."""

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

import frameboost as fb
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
    marked = tmp_path / "frameboost" / "sql" / "read_rows.sql"
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
