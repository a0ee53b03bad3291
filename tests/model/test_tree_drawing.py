"""Drawings of trees: each node is in it once, names are text, what is missing and deeper is said."""

import re
import xml.etree.ElementTree as ET

import polars as pl
import pytest

import frameboost as fb
from tests.support.hostile import SCRIPT, hostile

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def model() -> fb.Model:
    df = pl.DataFrame({"x": [1, 2, 3, 3, None], "c": ["p", "q", "p", "r", "p"], "y": [0.0, 1.0, 8.0, 12.0, 6.0]})
    return fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0, min_child_weight=0, max_depth=2)


def test_every_node_is_drawn_once_where_no_other_is(model):
    drawn = ET.fromstring(model.tree(0)._repr_svg_())
    boxes = [e for e in drawn.iter(f"{SVG}rect") if e.get("rx")]
    assert len(boxes) == len(model.trees)
    places = [tuple(float(box.get(side)) for side in ("x", "y", "width", "height")) for box in boxes]
    width, height = float(drawn.get("width")), float(drawn.get("height"))
    assert all(x >= 0 and y >= 0 and x + w <= width and y + h <= height for x, y, w, h in places)
    apart = [(a, b) for a in places for b in places if a < b and abs(a[0] - b[0]) < a[2] and abs(a[1] - b[1]) < a[3]]
    assert apart == []
    texts = [e.text for e in drawn.iter(f"{SVG}text")]
    values = model.trees.filter(pl.col("feature").is_null())["value"]
    assert {f"{value:+.4g}" for value in values} <= set(texts)
    thick = [e for e in drawn.iter(f"{SVG}line") if e.get("stroke-width") == "3"]
    assert len(thick) == len(values) - 1  # one of the two ways of each split


def test_the_text_follows_a_row_to_its_leaf(model):
    lines = repr(model.tree(0)).split("\n")
    assert lines[:2] == ["Tree 0: 4 leaves, 2 features in splits", "  x < 3"]
    below = [line for line in lines if re.match(" {4}[yn]", line)]
    assert [line.partition(":")[0] for line in below] == ["    yes", "    no or missing"]


def test_deeper_levels_are_counted_and_outputs_named(model):
    cut = model.tree(0, depth=1)
    leaves = [int(found) for found in re.findall(r"\.\.\. (\d+) leaves", repr(cut))]
    shown = len(re.findall(r": [+-]", repr(cut)))
    assert sum(leaves) + shown == model.trees["feature"].null_count()
    classes = fb.fit(pl.DataFrame({"x": range(9), "k": list("abcabcabc")}), "k", n_estimators=1)
    assert [repr(classes.tree(k)).partition(":")[0] for k in range(3)] == [
        "Tree 0 of a", "Tree 1 of b", "Tree 2 of c",
    ]  # fmt: skip
    with pytest.raises(fb.ParameterError, match="number must be that of a tree, from 0 to 0, not 1"):
        model.tree(1)


def test_names_are_text(tmp_path):
    for model in hostile().models:
        for number in range(model.n_trees):
            tree = model.tree(number, depth=8)
            for text in (tree.svg, tree._repr_html_()):
                assert not [
                    e.tag for e in ET.fromstring(text).iter() if e.tag.rpartition("}")[2] in ("script", "a", "b")
                ]
                assert SCRIPT not in text
    tree.save(tmp_path / "tree.svg")
    assert (tmp_path / "tree.svg").read_text(encoding="utf-8") == tree.svg
