"""Names, categories and labels are data in each language that they reach: HTML, SVG, Vega, terminals, SQL, files."""

import io
import json
import re
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import polars as pl
import pytest

import frameboost as fb
from frameboost.cli import main
from tests.support.cases import cases
from tests.support.hostile import HOSTILE_NAMES, NOT_SHOWN, SCRIPT, hostile, hostile_charts


class Elements(HTMLParser):
    """The elements of a page, their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.attributes, self.text = [], set(), ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes |= {(name, value) for name, value in attrs if name in ("src", "href") or name.startswith("on")}

    def handle_data(self, data):
        self.text += data


def is_shown(text: str) -> bool:
    """Return whether a terminal prints the text as it is, without a command in it."""
    return not NOT_SHOWN & set(text)


@pytest.mark.slow
def test_a_page_has_the_scripts_of_its_template_and_the_chart():
    harmless = Elements(fb.plots.importance(fb.fit(pl.DataFrame({"x": [1, 2], "y": [0.0, 1]}), "y")).to_html())
    for name, chart in hostile_charts().items():
        text = chart.to_html()
        page = Elements(text)
        assert (page.tags, page.attributes) == (harmless.tags, harmless.attributes), name
        drawn = json.loads(re.search(r"var spec = (.*);\n", text)[1])
        given = chart.to_dict(validate=False)["datasets"]  # JavaScript reads the same JSON
        assert {key: len(rows) for key, rows in drawn["datasets"].items()} == {key: len(given[key]) for key in given}
        assert name != "importance" or SCRIPT in {row["feature"] for rows in drawn["datasets"].values() for row in rows}


@pytest.mark.slow
def test_all_ways_to_html_escape(tmp_path):
    chart = hostile_charts()["importance"]
    chart.save(tmp_path / "chart.html")
    chart.save(tmp_path / "inline.html", inline=True)
    pages = [(tmp_path / name).read_text(encoding="utf-8") for name in ("chart.html", "inline.html")]
    bundle = chart._repr_mimebundle_()
    pages += [(bundle[0] if isinstance(bundle, tuple) else bundle)["text/html"], chart.to_html(fullhtml=False)]
    pages.append(hostile_charts()["side by side"].to_html())
    for page in pages:
        assert SCRIPT not in page
        assert "<!--<script>" not in page
        assert "sourceHeader" in page


def test_a_notebook_shows_names_as_text():
    for model in hostile().models:
        page = Elements(model._repr_html_())
        assert not {"script", "img", "i", "b"} & set(page.tags)
        assert page.attributes == set()
        assert is_shown(page.text)


@pytest.mark.slow
def test_an_svg_is_xml_without_scripts():
    for name in ("tree", "confusion", "titles"):
        chart = hostile_charts()[name]
        file = io.StringIO()
        chart.save(file, format="svg")
        tags = {element.tag.rpartition("}")[2] for element in ET.fromstring(file.getvalue()).iter()}
        assert "text" in tags
        assert not tags & {"script", "foreignObject", "a", "image", "img", "use", "style"}, (name, tags)


def test_what_python_shows():
    of = hostile()
    for model, target in zip(of.models, of.targets, strict=True):
        shown = [model, model.database(), model.ensemble, model.evaluate(of.rows, target)]
        assert all(is_shown(repr(it)) for it in shown)
    star = fb.join(pl.DataFrame({"k": [1], "y": [0.5]}), pl.DataFrame({"k": [1], SCRIPT: [2]}), on="k")
    assert is_shown(repr(star))


@pytest.mark.slow
@pytest.mark.parametrize("in_terminal", [False, True])
def test_what_the_command_line_prints(in_terminal, tmp_path, monkeypatch):
    of = hostile()
    of.rows.write_parquet(tmp_path / "rows.parquet")
    rows, out = str(tmp_path / "rows.parquet"), io.StringIO()
    number, (y, label, labels) = of.models[0], of.targets
    paths = [str(tmp_path / f"{i}\x1b[31m.json") for i in range(3)]
    for path, model in zip(paths, of.models, strict=True):
        model.save(path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")  # without the styles that rich writes itself
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", out)
    out.isatty = lambda: in_terminal
    feature, other = [name for name in number.features if "," not in name][:2]
    commands = [
        ["show", paths[0], "--trees", "2"], ["show", paths[2], "--trees", "3"],
        ["evaluate", paths[2], rows, "--target", labels, "--by", of.time],
        ["explain", paths[0], rows, "--rows", "2", "--keep", of.time],
        ["explain", paths[2], rows, "--output", of.rows[labels][0]],
        ["compare", paths[0], paths[0], rows, "--target", y],
        ["train", rows, "--target", label, "-o", paths[1], "--features", f"{feature},{other}", "--n-estimators", "1"],
    ]  # fmt: skip
    commands = commands if in_terminal else commands[::3]
    assert [main(command) for command in commands] == [0] * len(commands)
    wrong = [
        ["show", paths[0] + "\x1b[0m"], ["evaluate", paths[0], rows, "--target", "\x9bgone"],
        ["evaluate", paths[0], rows, "--target", of.kind], ["plot", "importance", paths[0], "-o", "x\x1b[0m.txt"],
        ["show", paths[0], "--\x1b[31mred"], ["sql", paths[0], "--dialect", "\x1b[31mred", "--table", "t"],
    ]  # fmt: skip
    assert all(main(command) in (1, 2) for command in wrong)
    assert is_shown(out.getvalue())
    assert "\\x1b[31m" in out.getvalue()


@cases("name", [name for name in HOSTILE_NAMES if not name.isprintable()])
def test_errors_show_names(name):
    frame = pl.DataFrame({"x": [1, 2], "y": [0.0, 1.0], name: ["a", "b"]})
    calls = [
        lambda: fb.fit(frame, f"{name}?"), lambda: fb.fit(frame, "y", weight=name), lambda: fb.fit(frame, name, cuts=3),
        lambda: fb.fit(frame, "y", objective=name), lambda: fb.fit(frame, "y", **{name: 3}),
        lambda: fb.fit(frame, "y", eval_metric=name, valid=frame), lambda: fb.fit(frame, "y", valid=f"{name} ="),
        lambda: fb.fit(frame.with_columns(pl.Series(name, [[1], [2]])), "y"),
        lambda: hostile().models[0].predict(frame), lambda: hostile().models[0].database(name),
        lambda: hostile().models[0].database(columns={f"{name}?": name}), lambda: fb.load(f"absent {name}"),
    ]  # fmt: skip
    for number, call in enumerate(calls):
        with pytest.raises((fb.FrameboostError, OSError)) as error:
            call()
            raise AssertionError(f"call {number} raises nothing")
        if isinstance(error.value, fb.FrameboostError):
            assert is_shown(str(error.value)), error.value


def test_names_in_the_header_of_a_sql_file_are_inert(tmp_path):
    names = {f"x{i}": name for i, name in enumerate(HOSTILE_NAMES)}
    frame = pl.DataFrame({name: [0, 1] for name in names} | {"y": [0.0, 1.0]})
    model = fb.fit(frame, "y", n_estimators=1, max_depth=1, min_child_weight=0)
    for dialect in ("duckdb", "postgres"):
        model.database(dialect, columns=names).to_sql(tmp_path / "a.sql", "t", keep=["id"])
        text = (tmp_path / "a.sql").read_text(encoding="utf-8")
        head = text[: text.index("\nSELECT")].split("\n")
        assert len(head) == 4 + len(names)
        assert all(line.startswith("-- ") and line.isprintable() and line.isascii() for line in head)
        assert not re.search(r"[$&;{}%?@'`]|(?<!\w):\w", "\n".join(head))
        assert [json.loads(re.search(r'".*"', line)[0]) for line in head[4:]] == HOSTILE_NAMES
