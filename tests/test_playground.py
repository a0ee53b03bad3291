"""The playground of the site: its script's numbers are Python's, and names and values are data in its page."""

import json
import shutil
import subprocess

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from docs.site.playground import SCRIPT, data_of, playground
from tests.support.browser import CHROMIUM, Browser
from tests.support.cases import cases
from tests.support.hostile import HOSTILE_NAMES

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="needs node: apt-get install nodejs")
ROWS = pl.DataFrame({
    "small": pl.Series([None if i % 7 == 0 else i * 37 % 101 - 50 for i in range(400)], dtype=pl.Int16),
    "x": pl.Series([float("nan") if i % 11 == 0 else i * 53 % 97 / 7 for i in range(400)], dtype=pl.Float32),
    "flag": [None if i % 13 == 0 else i % 3 == 0 for i in range(400)],
    "kind": [None if i % 5 == 0 else "abcdefgh"[i * 29 % 8] for i in range(400)],
    "__proto__": [("toString", "constructor", "__proto__", "</script>")[i % 4] for i in range(400)],
})  # fmt: skip
SUM = pl.col("small").fill_null(9) + 5 * pl.col("x").fill_nan(3) + 20 * pl.col("kind").is_in(["a", "f"]).fill_null(True)
LABELLED = ROWS.with_columns(number=SUM + 10 * (pl.col("__proto__") == "constructor") * pl.col("flag").fill_null(True))
LABELLED = LABELLED.with_columns(chance=(pl.col("number") > 40).cast(int), count=pl.col("number").clip(0) // 9)


def in_node(model, rows):
    """Return the predictions, margins and contributions of the script."""
    data = data_of(model, rows)
    call = f"""
        const {{ predict, margin, explain }} = require({json.dumps(str(SCRIPT))});
        const {{ model, rows }} = JSON.parse(require("fs").readFileSync(0));
        const all = [predict, margin, explain].map((f) => rows.map((row) => f(model, row)));
        console.log(JSON.stringify(all));
    """
    done = subprocess.run([NODE, "-e", call], input=json.dumps(data), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.slow
@needs_node
@cases(
    ("target", "objective"),
    [("number", "reg:squarederror"), ("chance", "binary:logistic"), ("count", "count:poisson")],
)
def test_scores_and_contributions_are_those_of_python(target, objective):
    model = fb.fit(LABELLED, target, features=ROWS.columns, objective=objective, n_estimators=12, max_depth=3)
    new = pl.DataFrame({"kind": ["never seen"], "x": [1e300]}, schema_overrides={"x": pl.Float32})
    rows = pl.concat([ROWS, new], how="diagonal")
    predicted, margins, contributions = in_node(model, rows)
    assert margins == model.predict(rows, output="margin").to_list()
    np.testing.assert_allclose(predicted, model.predict(rows), rtol=1e-15)
    np.testing.assert_allclose(
        contributions, model.explain(rows).to_numpy(), rtol=0, atol=1e-12 * np.abs(margins).max()
    )


@needs_node
def test_all_hostile_names_and_categories_score_as_in_python():
    rows = pl.DataFrame(
        {name: [i * (k + 3) % 7 for i in range(len(HOSTILE_NAMES))] for k, name in enumerate(HOSTILE_NAMES[:40])}
    )
    rows = rows.with_columns(
        pl.Series("kind", HOSTILE_NAMES), pl.Series("y", [i * 31 % 17 for i in range(len(HOSTILE_NAMES))])
    )
    model = fb.fit(rows, "y", n_estimators=9, max_depth=3, min_child_weight=0, cat_smooth=0)
    assert "kind" in {
        model.features[f] for tree in json.loads(model.to_json())["trees"] for f in tree["feature"] if f >= 0
    }
    assert in_node(model, rows)[1] == model.predict(rows).to_list()


@cases(
    ("arguments", "rows"),
    [
        ({"linear_tree": True}, ROWS),
        ({"objective": "reg:quantileerror", "quantile_alpha": 0.3}, ROWS),
        ({}, ROWS.with_columns(small=pl.lit(2**53 + 1))),
    ],
)
def test_what_the_script_would_score_differently_is_refused(arguments, rows):
    training = rows.with_columns(LABELLED["number"])
    model = fb.fit(training, "number", features=["small", "x"], n_estimators=3, max_depth=3, **arguments)
    with pytest.raises(ValueError, match=r"^(the playground|column 'small' has an integer)"):
        data_of(model, rows)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
def test_a_page_shows_the_scores_of_python_and_runs_no_name(tmp_path):
    script = "</script><script>document.title='ran'</script>"
    image = "<img src=x onerror=\"document.title='ran'\">"
    rows = LABELLED.select(pl.col("small").alias(script), pl.col("kind").replace("a", image).alias(image), "number")
    model = fb.fit(rows, "number", n_estimators=8, max_depth=2)
    shown = rows[1:4]
    (tmp_path / SCRIPT.name).write_bytes(SCRIPT.read_bytes())
    page = tmp_path / "page.html"
    page.write_text(
        f"<!DOCTYPE html><meta charset=utf-8><title>quiet</title>{playground(model, shown)}", encoding="utf-8"
    )
    with Browser() as browser:
        browser.show(800)
        browser.open(page)
        scores = browser.value("[...document.querySelectorAll('tbody td:last-child')].map((cell) => cell.textContent)")
        heads = browser.value("[...document.querySelectorAll('thead th')].map((cell) => cell.textContent)")
        first = browser.value("document.querySelector('.score').textContent")
        browser.value("document.querySelectorAll('tbody tr')[2].click()")
        third = browser.value("document.querySelector('.score').textContent")
        browser.value("document.querySelector('select').value = -1")
        browser.value("document.querySelector('select').dispatchEvent(new Event('input'))")
        missing = browser.value("document.querySelector('.score').textContent")
        assert browser.value("document.title") == "quiet"
        assert browser.value("document.querySelectorAll('.tree .split.taken').length") == 2
        assert browser.log == []
    changed = shown[2].with_columns(pl.lit(None, pl.String).alias(image))
    assert heads == [script, image, "number", "prediction"]
    assert [float(text) for text in scores] == pytest.approx(model.predict(shown).to_list(), rel=1e-3)
    assert [float(text) for text in (first, third, missing)] == pytest.approx(
        [*model.predict(shown).gather([0, 2]), model.predict(changed).item()], rel=1e-3
    )
