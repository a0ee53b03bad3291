"""The site of the documentation: its pages, its links, its figures, its charts."""

import re
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

import frameboost as fb
from docs.site.built_links import lost_links
from docs.site.examples import charts_of, draws_charts, store, svg_of
from docs.site.figures import FIGURES, FOLDER
from docs.site.staging import site_pages, staged
from frameboost.parameters.parameters import Parameters
from tests.support.cases import cases

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "docs" / "site" / "zensical.toml").read_text(encoding="utf-8"))
REFERENCE = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "reference").glob("*.md"))
# Blocks of Python that are no doctests, and why.
NOT_DOCTESTS = {
    "docs/how-to/deploying.md": "tests/test_deploying.py runs the service",
    "docs/engines.md": "tests/engines/test_registered.py makes a package of it and trains with it",
    "docs/scale.md": "of Spark: tests/engines/spark has sessions for such calls",
}


def navigation(entries):
    for entry in entries:
        for target in entry.values():
            yield from navigation(target) if isinstance(target, list) else [target]


def test_the_navigation_has_every_page_once():
    assert sorted(navigation(SETTINGS["project"]["nav"])) == sorted(set(site_pages(ROOT).values()))


def test_the_reference_has_every_public_name():
    named = re.findall(r"^::: frameboost\.(\w+)$", REFERENCE, re.MULTILINE)
    estimators = ["FrameBoostClassifier", "FrameBoostRanker", "FrameBoostRegressor"]
    assert sorted(named) == sorted([*set(fb.__all__) - {"__version__"}, *estimators])


def test_python_in_pages_is_run():
    blocks = {}
    for source in site_pages(ROOT):
        text = (ROOT / source).read_text(encoding="utf-8")
        blocks[source] = re.findall(r"^```python\n(?!>>>)", text, re.MULTILINE)
    assert {source: len(found) for source, found in blocks.items() if found} == dict.fromkeys(NOT_DOCTESTS, 1)


@cases("name", sorted(FIGURES))
def test_figures_are_as_drawn(name):
    assert (FOLDER / f"{name}.svg").read_text(encoding="utf-8") == FIGURES[name]()


def test_figures_are_those_of_the_pages():
    pages = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("mathematics.md", "index.md"))
    pages += (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"\bfigures/(\w+)\.svg\)", pages)
    assert sorted(shown) == sorted(FIGURES) == sorted(path.stem for path in FOLDER.iterdir())


@pytest.fixture
def page(tmp_path):
    """Return a function that stages a page of a repository with two pages."""
    (tmp_path / "docs" / "how-to").mkdir(parents=True)
    (tmp_path / "docs" / "gain.md").write_text("# Gain\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n")
    (tmp_path / "setup.py").write_text("")

    def stage(text):
        (tmp_path / "docs" / "how-to" / "polars.md").write_text(text)
        return staged(tmp_path, "docs/how-to/polars.md", site_pages(tmp_path))

    return stage


@cases(
    ("written", "shown"),
    [
        ("[gain](../gain.md#ties)", "[gain](../gain.md#ties)"),
        ("[`CHANGELOG.md`](../../CHANGELOG.md)", "[`CHANGELOG.md`](../changelog.md)"),
        ("[the code](../../setup.py) of", "the code of"),  # no page of the site
        ("[nothing](../nothing.md)", "[nothing](../nothing.md)"),  # which the build refuses
        ("[paper](https://arxiv.org/abs/1603.02754)", "[paper](https://arxiv.org/abs/1603.02754)"),
        ("`[a](../b.md)`", "`[a](../b.md)`"),
        ("```sql\nSELECT $1, '[a](b)', $2\n```", "```sql\nSELECT $1, '[a](b)', $2\n```"),
        ("```python\n>>> 1  # doctest: +SKIP\n1\n\n```", "```pycon\n>>> 1\n1\n```"),
    ],
)
def test_a_page_on_the_site(page, written, shown):
    assert page(written) == shown


def test_links_of_a_built_site(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "index.html").write_text(
        '<h1 id="top">a</h1><a href="#top"></a><a href="#no"></a><a href="sub/page.html#there"></a><a href="sub"></a>'
        '<a href="sub/page.html#gone"></a><a href="https://elsewhere/x"></a><script src="code.js"></script>'
    )
    (tmp_path / "sub" / "page.html").write_text('<p id="there"><a href="../index.html">b</a> <img src="no.svg">')
    assert lost_links(tmp_path) == [
        "index.html: #no", "index.html: sub", "index.html: sub/page.html#gone", "index.html: code.js",
        "sub/page.html: no.svg",
    ]  # fmt: skip


def test_the_gallery_lists_its_pages_each_with_a_chart():
    folder = ROOT / "docs" / "gallery"
    listed = re.findall(
        r"^- \[.+\]\(([\w-]+\.md)\): .*$", (folder / "index.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    pages = sorted(path.name for path in folder.glob("*.md") if path.name != "index.md")
    assert sorted(listed) == pages
    assert [name for name in pages if not draws_charts(folder / name)] == []


@pytest.mark.slow
def test_a_chart_is_shown_behind_the_example_that_makes_it(page, tmp_path):
    pytest.importorskip("vl_convert")
    title = "<script>$1$ [a](b.md) ``` end"  # which is neither HTML nor Markdown
    text = f"""# Page\n\n```python
>>> import altair as alt
>>> chart = alt.Chart(alt.InlineData([{{"x": 1}}])).mark_point().encode(
...     x=alt.X("x:Q", title={title!r}))
>>> 1 + 1
2\n\n```\n"""
    page(text)
    path = tmp_path / "docs" / "how-to" / "polars.md"
    shown = staged(tmp_path, "docs/how-to/polars.md", site_pages(tmp_path), charts_of(path))
    before, figure, after = re.split(r"\n(<figure.*</figure>)\n", shown)
    assert before.endswith("title='<script>$1$ [a](b.md) ``` end'))\n```\n")
    assert ">&lt;script&gt;$1$ [a](b.md) ``` end</text>" in figure
    assert 'fill="currentColor"' in figure
    assert "#010203" not in figure
    assert after == "\n```pycon\n>>> 1 + 1\n2\n```\n"


@pytest.mark.slow
def test_text_follows_light_and_dark_unless_it_is_on_a_shape():
    alt = pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    base = alt.Chart(alt.InlineData([{"x": 1}])).mark_text(text="word")
    shade = alt.condition("datum.x > 2", alt.value("white"), alt.value("black"))
    texts = [re.findall(r'<text[^>]*fill="([^"]*)">word', svg_of(chart))
             for chart in (base, base.mark_text(text="word", color="black"), base.encode(color=shade))]  # fmt: skip
    assert texts == [["currentColor"], ["currentColor"], ["#010101"]]


def test_what_examples_print_is_compared_and_stored(page, tmp_path, capsys):
    page("```python\n>>> 1 + 1\n3\n4\n>>> print('a\\n\\nb')\n>>> 'left out'\n'le...'\n\n```\n")
    path = tmp_path / "docs" / "how-to" / "polars.md"
    with pytest.raises(SystemExit, match="print something else"):
        charts_of(path)
    store(path)
    stored = path.read_text()
    assert (
        stored == "```python\n>>> 1 + 1\n2\n>>> print('a\\n\\nb')\na\n<BLANKLINE>\nb\n>>> 'left out'\n'le...'\n\n```\n"
    )
    assert charts_of(path) == {}


def test_the_reference_has_each_parameter_in_a_group_with_its_names_elsewhere():
    text = staged(ROOT, "docs/parameters.md", site_pages(ROOT))
    headings = re.findall(r"^(##+) (.+?) \{ #.* \.(group|parameter) ", text, re.MULTILINE)
    assert [name for level, name, _ in headings if level == "###"] == [item.name for item in fields(Parameters)]
    assert headings[0] == ("##", "Rounds", "group")
    rate = text.partition("### learning_rate ")[2].partition("###")[0]
    assert "also called `eta`, `shrinkage_rate`\n" in rate


def test_the_reference_of_models_has_their_methods_by_purpose():
    text = staged(ROOT, "docs/reference/model.md", site_pages(ROOT))
    group = text.partition("| **scoring in Python** | |")[2].partition("| **scoring in a database** | |")[0]
    assert re.findall(r"^\| \[`(\w+)`\]\(#frameboost.Model.(\w+)\) \| (\w+)", group, re.MULTILINE) == [
        ("predict", "predict", "Predict"), ("expr", "expr", "Return"),
    ]  # fmt: skip


def test_sections_between_marks_are_tabs(page):
    shown = page("<!-- tabs -->\n### a\n\n```python\n>>> 1\n1\n\n```\n\n### b\n\nc\n<!-- /tabs -->\n\n### d\n")
    assert shown == '=== "a"\n\n    ```pycon\n    >>> 1\n    1\n    ```\n\n=== "b"\n\n    c\n\n\n\n### d\n'
