"""What notebooks show of a model: well-formed HTML without scripts, in which names are text."""

import xml.etree.ElementTree as ET

import polars as pl
import pytest

import frameboost as fb

NAME = "<script>alert('x')</script> & \"b\" $x$"
DATA = pl.DataFrame({
    NAME: [i % 10 for i in range(60)], "text": [f"c{i % 7}" for i in range(60)],
    "held": [i % 3 == 0 for i in range(60)],
    "y": [float(i % 10 > 4) * 8 + i % 7 for i in range(60)],
})  # fmt: skip


@pytest.fixture(scope="module")
def model() -> fb.Model:
    return fb.fit(DATA, "y", features=[NAME, "text"], valid="held", n_estimators=40, early_stopping_rounds=3)


def parsed(model: fb.Model) -> ET.Element:
    return ET.fromstring(model._repr_html_())


def texts(model: fb.Model) -> list[str]:
    return [text.strip() for text in parsed(model).itertext() if text.strip()]


def test_a_model_says_what_it_is(model):
    found = texts(model)
    labels = ["objective", "predicts", "quality", "rounds", "trees", "base margin", "features", "history"]
    assert [text for text in found if text in labels] == labels
    assert found[found.index("objective") + 1] == "reg:squarederror"
    assert found[found.index("predicts") + 1] == "a number"
    best = model.history.row(model.best_iteration - 1, named=True)["valid_rmse"]
    assert found[found.index("quality") + 1] == f"rmse {best:.4g} (valid, round {model.best_iteration})"
    assert found[found.index("rounds") + 1] == f"{model.n_rounds} (best round: {model.best_iteration})"
    assert found[found.index("base margin") + 1] == f"{model.base_margin:.6g}"
    assert found[found.index("features") + 1] == "2 features, by total gain:"
    assert NAME in found and "int64" in found
    assert f"valid rmse {model.history['valid_rmse'][-1]:.6g}" in found


def test_bars_are_shares_of_the_largest_gain(model):
    importance = model.importance("total_gain")
    bars = [e for e in parsed(model).iter("div") if "total gain" in e.get("title", "")]
    expected = (importance["importance"] / importance["importance"][0] * 100).round(0).cast(int).to_list()
    assert [int(bar.get("style").split("width:")[1].removesuffix("px")) for bar in bars] == expected


def test_the_spark_line_has_a_point_for_each_round(model):
    lines = list(parsed(model).iter("polyline"))
    assert len(lines) == 1
    points = [tuple(map(float, point.split(","))) for point in lines[0].get("points").split()]
    values = model.history["valid_rmse"].to_list()
    assert len(points) == len(values)
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    lowest = max(range(len(values)), key=lambda i: points[i][1])  # y grows downwards
    assert values[lowest] - min(values) <= 0.01 * (max(values) - min(values))
    long = pl.DataFrame({"round": range(1, 5001), "train_rmse": [1.0] * 4999 + [float("nan")]})
    many = parsed(fb.Model(model.ensemble, history=long)).find(".//polyline").get("points").split()
    assert len(many) <= 400


def test_names_are_text_and_nothing_is_loaded(model):
    html = model._repr_html_()
    assert "<script" not in html and "src=" not in html and "http" not in html
    assert not any(e.tag == "script" for e in parsed(model).iter())


def test_models_of_all_kinds_are_shown(model):
    assert "history" not in texts(model[:2])
    more = {f"x{i}": pl.lit(i) + pl.col("y") for i in range(12)}
    three = DATA.with_columns(k=pl.int_range(60) % 3, **more)
    classes = fb.fit(three, "k", features=[f"x{i}" for i in range(12)], objective="multi:softprob", n_estimators=2)
    found = texts(classes)
    assert "3 classes, 0 to 2" in found and "and 4 more" in found and "12 features, by total gain:" in found
    constant = fb.fit(DATA, "y", features=["text"], n_estimators=1, gamma=1e9)
    assert "1 tree, 1 leaf" in texts(constant)
    both = fb.fit(three, ["y", "k"], features=["x1"], n_estimators=1)
    assert "2 targets" in texts(both)


def test_classes_are_named_and_quality_needs_validation_rows():
    rows = DATA.with_columns(kind=pl.lit("<b>class ") + (pl.int_range(60) % 10).cast(pl.String))
    many = fb.fit(rows, "kind", features=["y"], n_estimators=1)
    found = texts(many)
    assert "10 classes: " + ", ".join(f"<b>class {k}" for k in range(8)) + " and 2 more" in found
    assert "quality" not in found
    assert "<b>class" not in many._repr_html_()
