"""A model in a dbt project: its files, what the project has already, and what dbt makes of it all."""

import datetime as dt
import hashlib
import json
import re
import sys
from functools import cache
from pathlib import Path

import duckdb
import jinja2
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.database.dbt_project import WRITTEN, merged
from frameboost.ensemble.metadata import metadata_fields
from frameboost.joins.star import Star
from frameboost.losses.custom import foreign_loss
from frameboost.schema.types import FeatureType
from tests.support.cases import cases
from tests.support.dbt import run_dbt
from tests.support.exported import named, scored, small, table_of, with_categories
from tests.support.hostile import HOSTILE_NAMES
from tests.support.models import model_of_parts
from tests.support.warehouses import databases, open_warehouse

TEMPLATES = [
    "{{ x }}", "{% raw %}", "{# c #}", "{{", "{{{", "{{{{ a }}}}", "{%", "{%-", "{#", "#}", "%}", "}}", "{{-", "{",
    "{ {", "{% endmacro %}", "{% endraw %}", '{{ "{" }}', "{{ ref('a') }}", "# for", "\\{{",
]  # fmt: skip


# --- files, rendered by Jinja -----------------------------------------------------------------------------------------


class Project:
    """As much of dbt as renders a model: config(), ref(), and the macros of the project."""

    def __init__(self, folder: Path, tables: dict[str, str]) -> None:
        self.folder, self.config = folder, {}
        self.environment = jinja2.Environment(undefined=jinja2.StrictUndefined)
        self.environment.globals |= {"config": self._config, "ref": lambda name: tables[name]}
        for path in sorted((folder / "macros").iterdir()):
            module = self.environment.from_string(path.read_bytes().decode()).module
            self.environment.globals |= {k: v for k, v in vars(module).items() if not k.startswith("_")}

    def _config(self, **how: object) -> str:
        self.config = how
        return ""

    def render(self, text: str) -> str:
        return self.environment.from_string(text).render()

    def model(self, name: str) -> str:
        return self.render((self.folder / "models" / f"{name}.sql").read_bytes().decode())

    def test(self, name: str) -> str:
        self.environment.globals["ref"] = lambda name: {"orders": "source_rows"}.get(name, name)
        return self.render((self.folder / "tests" / f"{name}.sql").read_bytes().decode())


@pytest.mark.slow
@pytest.mark.parametrize("form", ["case", "staged"])
@pytest.mark.parametrize("what", ["names", "categories"])
def test_nothing_in_a_model_is_a_template(tmp_path, what, form):
    model, frame = (named if what == "names" else with_categories)(TEMPLATES)
    con = duckdb.connect()
    table_of(con, frame, "source_rows")
    how = {"keep": ["id"], "form": form, "materialized": "table", "trained": "{{ x }}"}
    paths = model.database().to_dbt(tmp_path, "scored", "orders", check=frame, **how)
    written = ["models/scored.sql", "models/scored.yml", "macros/scored.sql", "tests/scored_self_test.sql"]
    assert [path.relative_to(tmp_path).as_posix() for path in paths] == [*written, "tests/scored_check.sql"]
    for test in ("scored_self_test", "scored_check"):
        assert con.execute(Project(tmp_path, {"orders": "source_rows"}).test(test)).fetchall() == []
    project = Project(tmp_path, {"orders": "main.source_rows"})
    expected = model.predict(frame).to_list()
    query = project.model("scored")
    digest = hashlib.sha256(model.to_json().encode()).hexdigest()
    about = {**metadata_fields(model.metadata), "sha256": digest, "trained": "{{ x }}"}
    assert project.config == {"materialized": "table", "meta": {"frameboost": about}}
    assert scored(con, query) == expected
    assert "-- trained  {{ x }}\n" in query
    assert f"sha256 {digest}\n" in query
    by_macro = project.render("{{ scored_query('source_rows') }}")
    assert by_macro == model.query("source_rows", keep=["id"], form=form).replace('"source_rows"', "source_rows")
    assert scored(con, by_macro) == expected
    assert project.render("{{ scored() }}") == model.sql()
    assert scored(con, project.render("SELECT id, {{ scored() }} FROM source_rows")) == expected


@cases("categories", [["a", '"frameboost-scored-relation"', "b"], ["a", "a\nb", "a\r\nb", "a\rb"]])
def test_a_category_like_the_placeholder_of_the_table_and_carriage_returns_stay(tmp_path, categories):
    model, frame = with_categories(categories)
    con = duckdb.connect()
    table_of(con, frame, "source_rows")
    model.database().to_dbt(tmp_path, "scored", "orders", keep=["id"])
    project = Project(tmp_path, {"orders": "main.source_rows"})
    assert scored(con, project.model("scored")) == model.predict(frame).to_list()


def test_models_of_several_values_have_no_expression(tmp_path):
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0] * 5, "y": [0, 1, 2] * 5})
    model = fb.fit(frame, "y", objective="multi:softprob", n_estimators=2)
    con = duckdb.connect()
    table_of(con, frame, "t")
    model.database().to_dbt(tmp_path, "probabilities", "orders", keep=["id"], output="probability")
    model.database().to_dbt(tmp_path, "leaves", "orders", keep=["id"], output="leaf")
    model.database(columns={"x": "x"}).to_dbt(tmp_path, "classes", "orders", keep=["id"], output="class")
    project = Project(tmp_path, {"orders": "t"})
    rows = sorted(con.execute(project.model("probabilities")).fetchall())
    np.testing.assert_allclose([row[1:] for row in rows], model.predict(frame, "probability").to_numpy(), rtol=1e-15)
    rows = sorted(con.execute(project.model("leaves")).fetchall())
    assert [list(row[1:]) for row in rows] == model.predict(frame, "leaf").to_numpy().tolist()
    assert scored(con, project.model("classes")) == model.predict(frame, "class").to_list()
    assert "leaves" not in project.environment.globals
    assert project.render("{{ classes() }}") == model.sql("class")


def test_the_description_line_by_line(tmp_path):
    model, _ = small()
    model.database("postgres").to_dbt(tmp_path, "scored", "orders", trained=dt.date(2026, 11, 21))
    assert (tmp_path / "models" / "scored.yml").read_text().splitlines() == [
        "version: 2",
        "models:",
        '  - name: "scored"',
        '    description: "A gradient boosted model: \\"reg:squarederror\\", 3 trees, as SQL for postgres."',
        "    columns:",
        '      - name: "prediction"',
        "        quote: true",
        '        data_type: "DOUBLE PRECISION"',
        '        description: "mean of the model"',
        "        data_tests:",
        '          - "not_null"',
    ]
    digest = hashlib.sha256(model.to_json().encode()).hexdigest()
    assert (tmp_path / "models" / "scored.sql").read_text().splitlines()[:7] == [
        "{{ config(",
        '    materialized="view",',
        f'    meta={{"frameboost": {{"sha256": "{digest}", "trained": "2026-11-21", "rows": 6, '
        f'"library": "frameboost {fb.__version__}"}}}}',
        ") }}",
        WRITTEN,
        '-- A gradient boosted model: "reg:squarederror", 3 trees, as SQL for postgres.',
        f"-- model    sha256 {digest}",
    ]


def test_the_description_is_no_template_either(tmp_path):
    model, _ = small()
    loss = foreign_loss("{{ 1 + 1 }}", ["margin"])
    ensemble = model.ensemble
    other = model_of_parts(loss, {}, ensemble.features, ensemble.base_margins, ensemble.trees)
    other.database().to_dbt(tmp_path, "scored", "orders")
    text = (tmp_path / "models" / "scored.yml").read_text()
    (about,) = re.findall(r"^    description: (.*)$", text, re.MULTILINE)
    # dbt renders descriptions.
    rendered = jinja2.Template(pytest.importorskip("yaml").safe_load(about)).render()
    assert r'"\u007b\u007b 1 + 1 \u007d\u007d"' in rendered


@pytest.mark.slow
def test_labels_are_columns_that_the_description_quotes_as_dbt_does(tmp_path):
    yaml = pytest.importorskip("yaml")
    labels = [*HOSTILE_NAMES]
    frame = pl.DataFrame({"x": [float(i) for i in range(len(labels))] * 3, "y": labels * 3})
    model = fb.fit(frame, "y", n_estimators=1, max_depth=1)
    con = duckdb.connect()
    table_of(con, frame, "t")
    model.database().to_dbt(tmp_path, "on", "orders", keep=["id"], output="probability")  # ``on`` is true in YAML 1.1
    project = Project(tmp_path, {"orders": "t"})
    con.execute(f"CREATE TABLE scored AS {project.model('on')}")
    model.database().to_dbt(tmp_path, "classes", "orders", keep=["id"], output="class")
    assert scored(con, Project(tmp_path, {"orders": "t"}).model("classes")) == model.predict(frame, "class").to_list()
    (described,) = yaml.safe_load((tmp_path / "models" / "on.yml").read_text(encoding="utf-8"))["models"]
    assert described["name"] == "on"
    assert len(described["columns"]) == len(labels)
    for column, label in zip(described["columns"], model.classes, strict=True):
        assert column["quote"] is True
        name = project.render(column["name"])
        # What the adapters' `quote` does with the column of a test: quotes around it, and nothing within.
        [found] = con.sql(f'SELECT "{name}" FROM scored').columns
        assert found == f"prediction_{label}"


def incremental(folder: Path, **how) -> tuple[Project, fb.Model, pl.DataFrame]:
    model, frame = small()
    model.database().to_dbt(folder, "scored", "orders", materialized="incremental", **how)
    return Project(folder, {"orders": "source_rows"}), model, frame


def test_a_later_run_scores_the_rows_of_the_condition(tmp_path):
    project, model, frame = incremental(tmp_path, keep=["id"], where="id > (SELECT MAX(id) FROM {{ this }})")
    con = duckdb.connect()
    table_of(con, frame, "source_rows")
    project.environment.globals |= {"this": "target", "is_incremental": lambda: False}
    con.execute(f"CREATE TABLE target AS {project.model('scored')}")
    assert project.config.pop("meta") and project.config == {"materialized": "incremental"}
    assert scored(con, "FROM target") == model.predict(frame).to_list()
    project.environment.globals["is_incremental"] = lambda: True
    con.execute("DELETE FROM target WHERE id > 2")
    con.execute(f"INSERT INTO target {project.model('scored')}")
    assert scored(con, "FROM target") == model.predict(frame).to_list()
    assert "WHERE" not in project.render("{{ scored_query('source_rows') }}").partition("FROM source_rows")[2]


@pytest.mark.slow
@cases("key", [name for name in HOSTILE_NAMES if not set(name).isdisjoint("{}%#'\"\\\n")])
def test_a_unique_key_is_quoted_for_jinja_and_sql(key, tmp_path):
    keys = key if HOSTILE_NAMES.index(key) % 4 == 0 else [key, "b"]
    project, *_ = incremental(tmp_path, keep=[key, "b"], unique_key=keys)
    project.environment.globals["is_incremental"] = lambda: False
    project.model("scored")
    quoted = '"' + key.replace('"', '""') + '"'
    assert project.config.pop("meta") and project.config == {
        "materialized": "incremental", "unique_key": quoted if keys is key else [quoted, '"b"'],
    }  # fmt: skip


def test_an_adapter_that_appends_is_told_to_merge(tmp_path):
    model, _ = small()
    for dialect, merges in (("spark", True), ("trino", True), ("athena", True), ("databricks", False)):
        how = {"keep": ["id"], "materialized": "incremental", "unique_key": "id"}
        model.database(dialect).to_dbt(tmp_path, "scored", "orders", **how)
        text = (tmp_path / "models" / "scored.sql").read_text().partition(") }}")[0]
        assert ('incremental_strategy="merge"' in text) == merges


@cases(
    ["how", "sentence"],
    [
        ({"materialized": "incremental"}, r"would append all rows at each run; set .* unique_key='id', or the rows"),
        ({"materialized": "incremental", "unique_key": "no", "keep": ["id"]}, "unique_key has 'no', which keep must"),
        ({"materialized": "incremental", "unique_key": 5}, "unique_key must be a column name"),
        ({"materialized": "incremental", "unique_key": ["a", 5]}, "unique_key must be a column name"),
        ({"materialized": "incremental", "where": 5}, "where must be"),
        ({"unique_key": "id"}, "unique_key and where are of materialized='incremental'"),
        ({"materialized": "table", "where": "x > 1"}, "unique_key and where are of materialized='incremental'"),
        ({"materialized": "snapshot"}, "materialized='snapshot' is not for a dbt model; use 'view'"),
        ({"materialized": "seed"}, "materialized='seed' is not for a dbt model"),
    ],
)
def test_an_incremental_model_says_which_rows(how, sentence, tmp_path):
    model, _ = small()
    with pytest.raises(fb.ParameterError, match=sentence):
        model.database().to_dbt(tmp_path, "a", "b", **how)
    assert list(tmp_path.iterdir()) == []


@cases("name", ["", "a b", "1a", "a-b", "a.b.c", "a.", "é", "a\n", "{{ x }}", "a;b", None, 3])
def test_names_that_dbt_does_not_take(tmp_path, name):
    model, _ = small()
    sentences = {
        "name": f"name must be a valid dbt name, of letters, digits and underscores, not {name!r}",
        "source": "source must be the name of a dbt model, of letters, digits and underscores, or a source and its "
        f"table ('raw.orders'), not {name!r}",
    }
    for argument, sentence in sentences.items():
        with pytest.raises(fb.ParameterError) as error:
            model.database().to_dbt(tmp_path, *(name, "b") if argument == "name" else ("a", name))
        assert str(error.value) == sentence
    if name is not None:
        with pytest.raises(fb.ParameterError):
            model.database().to_dbt(tmp_path, "a", "b", materialized=name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["not", "if", "ref", "config", "none", "true"])
def test_names_that_jinja_and_dbt_have_taken(tmp_path, name):
    model, _ = small()
    with pytest.raises(fb.ParameterError):
        model.database().to_dbt(tmp_path, name, "orders")


def test_a_model_that_cannot_be_written_leaves_no_file(tmp_path):
    model, _ = small()
    with pytest.raises(fb.ParameterError, match="name and source are both 'a', and a dbt model can't read itself"):
        model.database().to_dbt(tmp_path, "a", "a")
    for how in ({"dialect": "klingon"}, {"columns": {"q": "r"}}):
        with pytest.raises(fb.ParameterError):
            model.database(**how)
    with pytest.raises(fb.ParameterError, match="check has rows to test, and self_test=0 writes no tests"):
        model.database().to_dbt(tmp_path, "a", "b", check=small()[1], self_test=0)
    with pytest.raises(fb.DataError, match="check lacks 2 features of the model"):
        model.database().to_dbt(tmp_path, "a", "b", check=pl.DataFrame({"q": [1]}))
    for how in ({"output": "odds"}, {"form": "short"}, {"keep": "id"}):
        with pytest.raises(fb.ParameterError):
            model.database().to_dbt(tmp_path, "a", "b", **how)
    assert list(tmp_path.iterdir()) == []


@cases(
    ["source", "expression"],
    [
        ("orders", 'ref("orders")'),
        ("raw.orders", 'source("raw", "orders")'),
        ('"google-ads"."clicks.of ""today"""', """source("google-ads", 'clicks.of "today"')"""),
        ("raw.{{ x }}", r'source("raw", "" ~ "\u007b\u007b x \u007d\u007d")'),
    ],
)
def test_a_source_is_a_model_or_a_table_of_a_source(source, expression, tmp_path):
    model, _ = small()
    model.database().to_dbt(tmp_path, "a", source)
    assert (tmp_path / "models" / "a.sql").read_text().endswith(f"\nFROM {{{{ {expression} }}}}\n")


# --- types and tests --------------------------------------------------------------------------------------------------


def test_a_contract_has_the_types_of_all_columns(tmp_path):
    model, _ = small()
    database = model.database("bigquery")
    how = {"keep": ["id", "x"], "contract": {"id": "INT64"}}
    database.to_dbt(tmp_path, "scored", "orders", materialized="incremental", unique_key="id", **how)
    text = (tmp_path / "models" / "scored.sql").read_text()
    assert '    contract={"enforced": true},\n    on_schema_change="fail",\n' in text
    described = (tmp_path / "models" / "scored.yml").read_text()
    assert re.findall(r'name: "(\w+)"\n        quote: true\n        data_type: "(\w+)"', described) == [
        ("id", "INT64"), ("x", "INT64"), ("prediction", "FLOAT64"),
    ]  # fmt: skip


@cases(
    ["how", "sentence"],
    [
        ({"contract": True, "keep": ["id"]}, r"contract needs the type of column 'id', .* contract={'id': 'BIGINT'}, "),
        ({"contract": {"id": "INT"}, "keep": ["id"], "stamp": True}, "contract needs the type of column 'scored_at', "),
        ({"contract": True}, "contract needs keep"),
        (
            {"contract": True, "keep": ["x"], "materialized": "ephemeral"},
            "contract is for what dbt makes in the d",
        ),
        ({"contract": {"id": "INT", "no": "INT"}, "keep": ["id"]}, "contract has a type of 'no', which keep does not"),
        ({"contract": {"id": 5}, "keep": ["id"]}, "contract must be True or False, or a dict of the types"),
        ({"contract": "id", "keep": ["id"]}, "contract must be True or False, or a dict of the types"),
        ({"baseline": pl.DataFrame({"a": [1]})}, "baseline must be a frame that DatabaseModel.baseline returned"),
    ],
)
def test_what_a_contract_and_a_test_lack(how, sentence, tmp_path):
    model, _ = small()
    with pytest.raises(fb.ParameterError, match=sentence):
        model.database().to_dbt(tmp_path, "a", "b", **how)
    assert list(tmp_path.iterdir()) == []


def classifier(labels: list, **how) -> fb.Model:
    frame = pl.DataFrame(
        {"x": [float(i % len(labels)) for i in range(60)], "y": [labels[i % len(labels)] for i in range(60)]}
    )
    return fb.fit(frame, "y", n_estimators=2, **how)


@pytest.mark.slow
@cases(
    ["model", "output", "good", "bad"],
    [
        (lambda: classifier(["a", "it's {{ b }}"]), "mean", [0.0, 0.5, 1.0], [-0.1, 1.5, float("nan"), float("inf")]),
        (lambda: classifier(["a", "it's {{ b }}"]), "class", ["a", "it's {{ b }}"], ["", "A", "c"]),
        (lambda: classifier([0, 1, 2], objective="multi:softprob"), "class", [0, 1, 2], [-1, 3]),
        (lambda: classifier([False, True]), "class", [False, True], None),
        (lambda: classifier([0.5, 2.5], objective="reg:gamma"), "mean", [0.0, 1e300], [-1e-300, float("-inf")]),
        (lambda: classifier([0.5, 2.5]), "mean", [-1e300], None),
    ],
)
def test_a_test_returns_predictions_that_the_model_can_not_have(model, output, good, bad, tmp_path):
    paths = model().database().to_dbt(tmp_path, "a", "b", output=output)
    test = tmp_path / "tests" / "a_values.sql"
    assert (test in paths) == test.exists() == (bad is not None)
    if bad is not None:
        text = jinja2.Template(test.read_text()).render(ref=lambda name: name)
        con = duckdb.connect()
        con.register("a", pl.DataFrame({"prediction": [*good, *bad]}, strict=False))
        found = [row[0] for row in con.execute(text).fetchall()]
        assert list(map(str, found)) == list(map(str, bad))


def test_probabilities_of_several_classes_are_shares(tmp_path):
    classifier(["a", "b", 'c"c']).database().to_dbt(tmp_path, "a", "b", output="probability")
    text = jinja2.Template((tmp_path / "tests" / "a_values.sql").read_text()).render(ref=lambda name: name)
    con = duckdb.connect()
    con.execute(
        '''CREATE TABLE a AS SELECT 0 AS prediction_a, 1 AS prediction_b, unnest([0.5, 2]) AS "prediction_c""c"'''
    )
    assert con.execute(text).fetchall() == [(0, 1, 2.0)]


def test_a_test_returns_the_features_that_have_drifted(tmp_path):
    model, frame = small()
    database = model.database()
    database.to_dbt(tmp_path, "a", "b", baseline=database.baseline(frame))
    text = jinja2.Template((tmp_path / "tests" / "a_drift.sql").read_text()).render(ref=lambda name: name)
    con = duckdb.connect()
    table_of(con, frame, "b")
    assert con.execute(text).fetchall() == []
    con.execute("UPDATE b SET x = x + 100")
    found, psi = (
        con.sql(text),
        dict(con.sql(database.drift_query("b", database.baseline(frame))).select("feature, psi").fetchall()),
    )
    assert found.columns == ["feature", "psi"]
    [(feature, value)] = found.fetchall()
    assert feature == "x" and value == pytest.approx(psi["x"], rel=1e-12)
    con.execute("DELETE FROM b")
    assert sorted(feature for feature, _ in con.execute(text).fetchall()) == ["s", "x"]


# --- what the project has already -------------------------------------------------------------------------------------


def shop(folder: Path, **more: str) -> Path:
    """Return the folder of a project whose folders have other names than dbt's default."""
    write(folder, {"dbt_project.yml": "name: shop\nmodel-paths: [transform, extra]\nmacro-paths: ['lib']\n"
                   "test-paths:\n  - checks\n", **more})  # fmt: skip
    return folder


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())


def every_file(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_files_are_where_the_project_has_them_and_where_they_have_been_moved(tmp_path):
    model, _ = small()
    database = classifier(["a", "b"]).database()
    shop(tmp_path)
    paths = database.to_dbt(tmp_path, "scored", "orders")
    written = [path.relative_to(tmp_path).as_posix() for path in paths]
    assert written == ["transform/scored.sql", "transform/scored.yml", "lib/scored.sql", "checks/scored_values.sql",
                       "checks/scored_self_test.sql"]  # fmt: skip
    before = every_file(tmp_path)
    moved = {
        "transform/scored.sql": "extra/marts/scored.sql", "transform/scored.yml": "extra/marts/scored.yaml",
        "lib/scored.sql": "lib/ml/scored.sql", "checks/scored_values.sql": "checks/ml/scored_values.sql",
        "checks/scored_self_test.sql": "checks/scored_self_test.sql",
    }  # fmt: skip
    for path, to in moved.items():
        (tmp_path / to).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).rename(tmp_path / to)
    paths = database.to_dbt(tmp_path, "scored", "orders")
    assert [path.relative_to(tmp_path).as_posix() for path in paths] == list(moved.values())
    assert every_file(tmp_path) == {moved.get(name, name): text for name, text in before.items()}
    # A model without such tests, from which those of the one before go.
    paths = model.database().to_dbt(tmp_path, "scored", "orders", self_test=0)
    assert not any(name.startswith("checks") for name in every_file(tmp_path)) and len(paths) == 3


@pytest.mark.slow
def test_steps_and_macros_that_a_model_has_no_more_are_removed(tmp_path):
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({"x": rng.normal(size=2000), "y": rng.normal(size=2000)})
    large = fb.fit(frame, "y", n_estimators=100)
    small(), shop(tmp_path)

    def names(limits: int) -> set[str]:
        large.database("duckdb", limits={"text": limits}).to_dbt(tmp_path, "scored", "orders", keep=["x"])
        return {name for name in every_file(tmp_path) if name != "dbt_project.yml"}

    long = names(20_000)
    n_steps = sum(name.startswith("transform/scored_part_") and name.endswith(".sql") for name in long)
    assert len(long) > 8 and "lib/scored.sql" not in long
    short = names(60_000)
    assert short < long
    described = (tmp_path / "transform" / "scored.yml").read_text()
    steps = set(re.findall(r'- name: "(scored\w*)"', described))
    assert steps == {Path(name).stem for name in short if name.startswith("transform/")}
    assert {f"checks/{step}_self_test.sql" for step in steps} == {name for name in short if name.startswith("checks/")}
    (tmp_path / "extra" / "marts").mkdir(parents=True)
    (tmp_path / "transform" / "scored.sql").rename(tmp_path / "extra" / "marts" / "scored.sql")
    moved = names(20_000)
    assert {"extra/marts/scored.sql", "transform/scored_part_1.sql", f"extra/marts/scored_part_{n_steps}.sql"} <= moved
    (tmp_path / "extra" / "marts" / "scored.sql").rename(tmp_path / "transform" / "scored.sql")
    tests = {"checks/scored_self_test.sql"}
    assert names(10**6) == {"transform/scored.sql", "transform/scored.yml", "lib/scored.sql", *tests}
    assert "part" not in (tmp_path / "transform" / "scored.yml").read_text()


TAKEN = {
    "transform/old/scored.sql": ("SELECT 1", "a model 'scored' already, in 'transform/old/scored.sql', which to"),
    "extra/Scored.py": ("x = 1", "a model 'Scored' already, in 'extra/Scored.py'"),
    "seeds/scored.csv": ("a,b", "a seed 'scored' already"),
    "snapshots/all.sql": ("{% snapshot scored %}{% endsnapshot %}", "a snapshot 'scored' already, in 'snapshots/all"),
    "lib/all.sql": ("{%- macro scored_query(x) %}{% endmacro %}", "a macro 'scored_query' already, in 'lib/all.sql'"),
    "lib/scored.sql": ("{% macro other() %}{% endmacro %}", "lib/scored.sql is there already, and to_dbt did not wr"),
    "checks/scored_values.sql": ("SELECT 1", "a test 'scored_values' already"),
    "transform/schema.yml": (
        "models:\n- {name: other}\n- name: scored", "schema.yml' describes 'scored' already, and dbt takes one desc",
    ),
    "transform/scored.yml": ("models: scored", "has models that is not a list of entries"),
    "transform/other.yml": ("models: [name: scored", "other.yml can't be read as YAML: while parsing"),
    "dbt_project.yml": ("- name: shop", "dbt_project.yml has no entries by key"),
}  # fmt: skip


@cases("name", sorted(TAKEN))
def test_what_others_wrote_is_not_replaced(name, tmp_path):
    text, sentence = TAKEN[name]
    folder = shop(tmp_path / name, **{name: text})
    before = every_file(folder)
    with pytest.raises(fb.ParameterError, match=re.escape(sentence)):
        classifier(["a", "b"]).database().to_dbt(folder, "scored", "orders")
    assert every_file(folder) == before


@cases("paths", ["model-paths: 5", "model-paths: []", "test-paths: [5]", "macro-paths: [\"{{ env_var('X') }}\"]"])
def test_folders_that_can_not_be_known(paths, tmp_path):
    write(tmp_path, {"dbt_project.yml": f"name: shop\n{paths}\n"})
    with pytest.raises(fb.ParameterError, match=r"dbt_project.yml has \w+-paths that is not a list of folders"):
        small()[0].database().to_dbt(tmp_path, "scored", "orders")


def test_a_folder_within_a_project_is_not_the_project(tmp_path, monkeypatch):
    shop(tmp_path)
    with pytest.raises(fb.ParameterError, match="is within a dbt project; pass its folder, "):
        small()[0].database().to_dbt(tmp_path / "transform", "scored", "orders")
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(fb.ParameterError, match=r"needs PyYAML: pip install 'frameboost\[dbt\]'"):
        small()[0].database().to_dbt(tmp_path, "scored", "orders")
    assert list(every_file(tmp_path)) == ["dbt_project.yml"]
    small()[0].database().to_dbt(tmp_path.parent / "none", "scored", "orders")  # has no YAML to read


# --- descriptions that people have added to ---------------------------------------------------------------------------

ADDED = """# ours to keep: 1
version: 2

models:
- name: "scored"   # of the shop
  description: "A gradient boosted model: \\"multi:softprob\\", 6 trees, as SQL for duckdb."
  config: {tags: ['nightly'], contract: {enforced: false}}
  data_tests:
  - dbt_utils.equal_rowcount:
      arguments:
        compare_model: ref('orders')
  columns:
  - name: id
    description: >
      the key,
      folded
    data_tests: [unique]
  # the labels
  - name: prediction_a
    quote: true
    data_type: REAL
    description: how likely it is that it is an a
    data_tests:
    - not_null:
        config: {severity: warn}
  - name: prediction_gone
    quote: true
    data_type: DOUBLE
    description: probability of the model
    data_tests:
    - "not_null"
  - name: prediction_gone_too
    description: probability of the model
    meta: {owner: me}
- name: scored_part_1
  description: a step of scored
- name: other  # not ours
  columns: []
exposures:
- name: dashboard
  type: dashboard
  owner: {email: me@example.org}
  depends_on: [ref('scored')]   # end
"""
MERGED = ADDED.replace("6 trees", "4 trees").replace("data_type: REAL", 'data_type: "DOUBLE"').replace(
    """  - name: prediction_gone
    quote: true
    data_type: DOUBLE
    description: probability of the model
    data_tests:
    - "not_null"
""", "",
).replace("""- name: scored_part_1
  description: a step of scored
""", "").replace("""    meta: {owner: me}
""", """    meta: {owner: me}
  - name: "prediction_b"
    quote: true
    data_type: "DOUBLE"
    description: "probability of the model"
    data_tests:
    - "not_null"
""")  # fmt: skip


def test_a_description_keeps_what_people_have_added(tmp_path):
    model = classifier(["a", "b"], objective="multi:softprob")
    assert len(model.ensemble.trees) == 4
    shop(tmp_path, **{"transform/scored.yml": ADDED})
    for line_end in ("\n", "\r\n"):
        (tmp_path / "transform" / "scored.yml").write_bytes(ADDED.replace("\n", line_end).encode())
        for _ in range(2):
            model.database().to_dbt(tmp_path, "scored", "orders", output="probability")
            assert (tmp_path / "transform" / "scored.yml").read_bytes().decode().split(line_end) == MERGED.split("\n")


@pytest.mark.slow
def test_a_description_of_ours_that_nobody_has_changed_becomes_the_new_one(tmp_path):
    """And one of other models gets an entry."""
    old = classifier(["a", HOSTILE_NAMES[0], "c", "d: {{ x }}"]).database()
    new = classifier([*HOSTILE_NAMES, "c"]).database("postgres")
    for folder, databases_ in {"one": [old, new], "other": [new]}.items():
        for database in databases_:
            database.to_dbt(tmp_path / folder, "scored", "orders", keep=["id"], output="probability")
    yaml = pytest.importorskip("yaml")
    texts = {each: (tmp_path / each / "models" / "scored.yml").read_text(encoding="utf-8") for each in ("one", "other")}
    read = {each: yaml.safe_load(text) for each, text in texts.items()}
    columns = {each: read[each]["models"][0].pop("columns") for each in read}
    assert read["one"] == read["other"]
    assert sorted(columns["one"], key=repr) == sorted(columns["other"], key=repr)


ENTRY = {"name": "scored", "description": "A gradient boosted model: x", "columns": [{"name": "p", "quote": True}]}


@cases(
    ["text", "expected"],
    [
        ("# soon\n", "# soon\n{new}"),
        ("version: 2\nmodels: # none yet", "version: 2\nmodels:\n{new} # none yet"),
        ("models: []\nversion: 2", "models:\n{new}\nversion: 2"),
        ("seeds: []\n# end", "seeds: []\nmodels:\n{new}\n# end"),
        ("models:\n- name: a\n  docs: {x: [1]}\n\n# end\n", "models:\n- name: a\n  docs: {x: [1]}\n{new}\n\n# end\n"),
        ("models:\n    -   name: scored  # c\n        columns: ~ # none\n        tests: [a]",
         'models:\n    -   name: scored  # c\n        description: "A gradient boosted model: x"\n'
         '        columns:\n          - name: "p"\n            quote: true # none\n        tests: [a]'),
        ("models:\n- name: scored\n  description: |\n    me\n  columns:\n  - x: 1\n    name: p\n    quote: no\n",
         "models:\n- name: scored\n  description: |\n    me\n  columns:\n  - x: 1\n    name: p\n    quote: true\n"),
    ],
)  # fmt: skip
def test_an_entry_is_added_to_the_lines_that_are_there(text, expected):
    yaml = pytest.importorskip("yaml")
    found = merged(Path("x.yml"), text, {"models": [ENTRY]})
    entry = yaml.safe_load(found)["models"]
    assert next(each for each in entry if each["name"] == "scored")["columns"][0]["quote"] is True
    if "{new}" not in expected:
        assert found == expected
    else:
        before, _, after = expected.partition("{new}")
        assert found.startswith(before) and found.endswith(after) and found.count("scored") == 1
    assert merged(Path("x.yml"), found, {"models": [ENTRY]}) == found


@cases("text", ["{models: []}", "models: [{name: scored}]", "models:\n- scored", "models: a", "- a", "a: [",
                "a: 1\n---\nb: 1", "models:\n- name: scored\n  columns: {p: 1}", "a: &b 1\nmodels: [*b]"])  # fmt: skip
def test_a_description_that_is_not_in_lines_is_not_merged(text):
    with pytest.raises(fb.ParameterError, match=r"^x.yml (has|can't be read)"):
        merged(Path("x.yml"), text, {"models": [ENTRY]})


USED = {"name": "delivery", "type": "application", "owner": {"name": "it's {{ shop }}", "email": "a@b.org"},
        "label": 'Dates: "told" {% raw %}', "description": "{{ 1 + 1 }} dates", "url": "https://b.org/#{{ x }}",
        "maturity": "high"}  # fmt: skip
OF_OTHERS = """exposures:
- name: dashboard
  type: dashboard
  owner: {email: me@example.org}
- name: delivery   # ours too
  type: ml
  owner: OWNER
  depends_on: DEPENDS
  tags: [told]
  description: as I say
"""


@cases(
    ["owner", "depends", "expected_owner", "expected"],
    [
        ("{email: a@b.org}", "[ref('a')]", {"email": "a@b.org", "name": "shop"}, ["ref('a')", "ref('scored')"]),
        ("\n    email: old@b.org  # his\n    slack: x", "\n    - ref( \"scored\" )  # c\n    - ref('b')",
         {"email": "a@b.org", "slack": "x", "name": "shop"}, ['ref( "scored" )', "ref('b')"]),
        ("{name: shop, email: a@b.org, slack: x}", "[]", {"name": "shop", "email": "a@b.org", "slack": "x"},
         ["ref('scored')"]),
        ("\n    name: shop\n    email: a@b.org", "\n  - ref('b')", {"name": "shop", "email": "a@b.org"},
         ["ref('b')", "ref('scored')"]),
    ],
)  # fmt: skip
def test_an_exposure_is_merged_with_the_one_that_is_there(owner, depends, expected_owner, expected, tmp_path):
    yaml = pytest.importorskip("yaml")
    text = OF_OTHERS.replace("OWNER", owner).replace("DEPENDS", depends)
    shop(tmp_path / owner, **{"transform/scored.yml": text})
    exposure = {**USED, "owner": {"name": "shop", "email": "a@b.org"}, "label": "Dates", "url": "https://b.org"}
    for _ in range(2):
        small()[0].database().to_dbt(tmp_path / owner, "scored", "orders", exposure=exposure)
        found = (tmp_path / owner / "transform" / "scored.yml").read_text()
        read = {each["name"]: each for each in yaml.safe_load(found)["exposures"]}
        assert read["dashboard"] == {"name": "dashboard", "type": "dashboard", "owner": {"email": "me@example.org"}}
        assert read["delivery"] == {
            "name": "delivery", "type": "application", "owner": expected_owner, "depends_on": expected,
            "tags": ["told"], "description": "as I say", "label": "Dates", "url": "https://b.org", "maturity": "high",
        }  # fmt: skip
        assert all(comment in found for comment in re.findall("#.*", text))
    small()[0].database().to_dbt(tmp_path / owner, "scored", "orders")
    assert (tmp_path / owner / "transform" / "scored.yml").read_text() == found


@cases(
    ["change", "sentence"],
    [
        ({"name": "a b"}, "the name of an exposure must be of letters, digits and underscores, not 'a b'"),
        ({"type": "report"}, "the type of an exposure must be one of 'dashboard', 'notebook', .* not 'report'"),
        ({"maturity": "old"}, "the maturity of an exposure must be one of 'high', 'medium', 'low', not 'old'"),
        ({"owner": "me"}, "the owner of an exposure must have a name, an email or both, as texts, not 'me'"),
        ({"owner": {}}, "the owner of an exposure must have"),
        ({"owner": {"slack": "x"}}, "the owner of an exposure must have"),
        ({"url": 5}, "the url of an exposure must be text, not 5"),
        ({"depends_on": []}, "exposure has 'depends_on'; it may have 'name', 'type', 'owner', "),
        (None, "exposure must be a dict with 'name', 'type' and 'owner', such as"),
    ],
)
def test_an_exposure_has_what_dbt_takes(change, sentence, tmp_path):
    exposure = "dashboard" if change is None else {**USED, **change}
    with pytest.raises(fb.ParameterError, match=sentence):
        small()[0].database().to_dbt(tmp_path, "scored", "orders", exposure=exposure)
    assert list(tmp_path.iterdir()) == []


def test_an_exposure_of_another_description_is_not_ours(tmp_path):
    shop(tmp_path, **{"extra/all.yml": "exposures:\n- name: delivery\n"})
    with pytest.raises(fb.ParameterError, match=r"'extra/all.yml' has an exposure 'delivery' already; choose another"):
        small()[0].database().to_dbt(tmp_path, "scored", "orders", exposure=USED)
    assert len(every_file(tmp_path)) == 2


# --- dbt --------------------------------------------------------------------------------------------------------------

LABELS = ["it's %s", 'a"b', "{{ 1 + 1 }}", "a: 日本", "a\nDROP TABLE t; --", "yes"]
PROJECT = {
    "dbt_project.yml": "name: shop\nprofile: shop\nmodel-paths: [models]\ntest-paths: [checks]\n",
    "models/staging/_sources.yml": "sources:\n  - name: raw\n    schema: \"{{ env_var('RAW') }}\"\n    tables:\n"
    "      - name: orders\n      - name: dear-orders\n      - name: none\n      - name: kinds\n",
    "models/staging/stg_orders.sql": "select * from {{ source('raw', 'orders') }}\n",
    "models/marts/late.sql": "select id, {{ days() }} as days from {{ ref('stg_orders') }}\n",
}


@cache
def shop_models() -> tuple[pl.DataFrame, pl.DataFrame, Star, dict[str, fb.Model]]:
    """Return rows, those of a dimension, both joined, and models."""
    rng, n = np.random.default_rng(3), 300
    rows = pl.DataFrame({
        "kind": (["a", "it's {{ x }}", None, "c"] * n)[:n], "price": rng.normal(size=n), "label": (LABELS * n)[:n],
    })  # fmt: skip
    price, is_a = pl.col("price"), (pl.col("kind") == "a").fill_null(value=False)
    rows = rows.with_columns(days=price * 3 + is_a, is_late=price > 0)
    kinds, features = pl.DataFrame({"kind": ["a", "c"], "size": [1, 2]}), ["kind", "price"]
    star = fb.join(rows, kinds, on="kind", prefix="kind.", name="raw.kinds")
    return rows, kinds, star, {
        "labels": fb.fit(rows, "label", features=features, n_estimators=2).with_baseline(rows),
        "days": fb.fit(rows, "days", features=features, n_estimators=40),
        "late_orders": fb.fit(rows, "is_late", features=features, n_estimators=3).with_baseline(rows),
        "by_kind": fb.fit(star, "days", features=["price", "kind.size"], n_estimators=3),
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("database", databases("duckdb", "postgres"))
def test_dbt_builds_and_tests_the_project_and_generates_its_docs(database, tmp_path):
    rows, kinds, star, models = shop_models()
    how = {"keep": ["id"], "contract": {"id": "BIGINT"}}
    of = {name: model.database(database) for name, model in models.items()}
    shop = tmp_path / "shop"
    write(shop, PROJECT)
    of["labels"].to_dbt(shop, "labels", "raw.orders", output="probability", materialized="table", **how)
    of["labels"].to_dbt(shop, "classes", "stg_orders", output="class", **how)
    of["days"].to_dbt(shop, "days", "stg_orders", keep=["id"], exposure=USED)
    small_steps = models["days"].database(database, limits={"text": 20_000})
    stamped = {"keep": ["id"], "contract": {"id": "BIGINT", "scored_at": "TIMESTAMP WITH TIME ZONE"}, "stamp": True}
    # A column that the model does not read, and the result has not got.
    how_often = {"materialized": "incremental", "unique_key": "id", "where": "label IS NOT NULL"}
    small_steps.to_dbt(shop, "days_in_steps", "stg_orders", check=rows, **how_often, **stamped)
    of["late_orders"].to_dbt(shop, "late_orders", "stg_orders")
    of["late_orders"].to_dbt(shop, "of_dear_orders", "raw.dear-orders", keep=["id", "price"], contract={"id": "BIGINT"})
    of["late_orders"].to_dbt(shop, "of_none", "raw.none", keep=["id"])
    of["by_kind"].to_dbt(shop, "by_kind", "raw.orders", keep=["id"])

    of["days"].to_dbt(shop, "sabotaged", "stg_orders", keep=["id"])
    small_views = models["days"].database(database, limits={"view": 20_000})
    small_views.to_dbt(shop, "sabotaged_steps", "stg_orders", keep=["id"], materialized="view")
    sabotaged = ["sabotaged_self_test", "sabotaged_steps_part_2_self_test"]
    for name in sabotaged:
        proof = shop / "checks" / f"{name}.sql"
        proof.write_text(re.sub(r'(" )<( -?\d)', r"\1<=\2", proof.read_text(), count=1))
    query, environment = load_shop(database, shop, {
        "orders": rows, "dear-orders": rows.with_columns(pl.col("price") + 3), "none": rows.clear(), "kinds": kinds,
    })  # fmt: skip
    commands = ["build", "run --select days_in_steps", "docs generate --no-compile"]
    build, *others = run_dbt(shop, *commands, **environment)
    assert [done["error"] for done in (build, *others)] == [None] * len(commands)
    nodes = build["nodes"]
    assert nodes.pop("exposure.shop.delivery") == ["no-op", "NO-OP"]
    failed = {node: message for node, (status, message) in nodes.items() if status not in ("success", "pass")}
    assert {node: message[:5] for node, message in failed.items()} == {
        "test.shop.of_dear_orders_drift": "Got 1", "test.shop.of_none_drift": "Got 2",
        **{f"test.shop.{name}": failed[f"test.shop.{name}"][:5] for name in sabotaged},
    }  # fmt: skip
    proven = ["labels", "classes", "days", "late_orders", "of_none", "by_kind"]
    steps = ["days_in_steps", *(f"days_in_steps_part_{number}" for number in (1, 2))]
    tests = ["labels_drift", "labels_values", "classes_values", *(f"{name}_self_test" for name in (*proven, *steps))]
    tests += [f"{name}_check" for name in steps]
    written = {f"test.shop.{test}" for test in tests}
    assert {*written, "model.shop.late", "model.shop.days_in_steps_part_1"} <= nodes.keys()
    assert sum(node.startswith("test.shop.not_null_labels") for node in nodes) == len(LABELS)

    def found(model: str) -> np.ndarray:
        table = pl.DataFrame(query(f"SELECT * FROM {model} ORDER BY id"), orient="row")
        return table[:, 1:].to_numpy().squeeze()

    np.testing.assert_allclose(found("labels"), models["labels"].predict(rows, "probability").to_numpy(), rtol=1e-14)
    assert found("classes").tolist() == models["labels"].predict(rows, "class").to_list()
    expected = models["days"].predict(rows).to_list()
    assert found("days").tolist() == found("late").tolist() == expected
    in_steps = query("SELECT prediction, model_hash, scored_at FROM days_in_steps ORDER BY id")
    assert [(score, model) for score, model, _ in in_steps] == [(score, models["days"].sha256) for score in expected]
    assert len({moment for *_, moment in in_steps}) == 1
    assert found("by_kind").tolist() == models["by_kind"].predict(star).to_list()

    manifest = json.loads((shop / "target" / "manifest.json").read_text())
    nodes, used = manifest["nodes"], manifest["exposures"]["exposure.shop.delivery"]
    assert {key: used[key] for key in USED} == USED
    assert used["depends_on"]["nodes"] == ["model.shop.days"]
    scores = nodes["model.shop.labels"]
    assert scores["config"]["contract"]["enforced"] is True
    assert scores["meta"]["frameboost"]["sha256"] == models["labels"].sha256
    assert scores["depends_on"]["nodes"] == ["source.shop.raw.orders"]
    assert scores["description"].startswith("A gradient boosted model")
    catalog = json.loads((shop / "target" / "catalog.json").read_text())["nodes"]["model.shop.labels"]["columns"]
    assert list(catalog) == ["id", *(f"prediction_{label}" for label in models["labels"].classes)]
    assert {column["type"].lower() for column in catalog.values()} == {"bigint", "double", "double precision"} & {
        "bigint", of["labels"].dialect.type_of(FeatureType("float64")).lower(),
    }  # fmt: skip


def load_shop(database: str, shop: Path, tables: dict[str, pl.DataFrame]):
    """Return a function that runs a query in the database of the project, and the environment for dbt.

    The tables have a column ``id``.
    """
    tables = {name: frame.with_row_index("id").cast({"id": pl.Int64}) for name, frame in tables.items()}
    if database == "duckdb":
        path = shop / "shop.duckdb"
        with duckdb.connect(path) as con:
            con.execute("CREATE SCHEMA raw")
            for name, frame in tables.items():
                con.register("arrived", frame)
                con.execute(f'CREATE TABLE raw."{name}" AS FROM arrived')
        profile = {"type": "duckdb", "path": str(path), "schema": "main"}

        def query(sql: str) -> list[tuple]:
            with duckdb.connect(path, read_only=True) as con:
                return con.execute(sql).fetchall()
    else:
        server = open_warehouse("postgres")
        server.run("DROP SCHEMA IF EXISTS raw CASCADE; DROP SCHEMA IF EXISTS dbt CASCADE; CREATE SCHEMA raw")
        types = {pl.Int64: "BIGINT", pl.Float64: "DOUBLE PRECISION", pl.String: "TEXT", pl.Boolean: "BOOLEAN"}
        for name, frame in tables.items():
            columns = ", ".join(f'"{column}" {types[kind.base_type()]}' for column, kind in frame.schema.items())
            server.run(f'CREATE TABLE raw."{name}" ({columns})')
            places = ", ".join(["%s"] * frame.width)
            with server.con.cursor() as cursor:
                cursor.executemany(f'INSERT INTO raw."{name}" VALUES ({places})', frame.rows())
        uri = server.server.get_uri()
        profile = {
            "type": "postgres", "host": uri.partition("host=")[2], "port": 5432, "user": "postgres",
            "password": "", "dbname": "postgres", "schema": "dbt",
        }  # fmt: skip

        def query(sql: str) -> list[tuple]:
            with server.con.transaction():
                server.run("SET LOCAL search_path TO dbt")
                return server.rows(sql)

    write(shop, {"profiles.yml": json.dumps({"shop": {"target": "t", "outputs": {"t": {**profile, "threads": 2}}}})})
    return query, {"RAW": "raw"}
