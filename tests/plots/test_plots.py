"""The charts: valid by Altair's schema, of few rows, with the numbers of the frames that they draw."""

import datetime as dt
import math
import sys
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from sklearn import metrics as sk

import frameboost as fb
from frameboost import plots
from frameboost.model.tree_drawing import tree_layout
from frameboost.plots.dependence import distribution_frame
from frameboost.plots.inputs import MAX_POINTS, sampled, thinned
from frameboost.plots.shap_values import shap_frame, waterfall_frame
from frameboost.schema.types import FeatureType
from tests.support.cases import cases

RNG = np.random.default_rng(0)
N = 150
ODD = 'a "b".c[0]:Q\\$'  # Altair's shorthand would read a type and a path in it
DATA = pl.DataFrame({
    ODD: [None if i % 9 == 0 else float(v) for i, v in enumerate(RNG.normal(size=N))],
    "text": [None if i % 17 == 0 else f"c{v}" for i, v in enumerate(RNG.integers(0, 6, N))],
    "day": [dt.date(2024, 1, 1) + dt.timedelta(days=i % 90) for i in range(N)],
    "when": [dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=i) for i in range(N)],
    "lasts": [dt.timedelta(minutes=i % 50) for i in range(N)],
    "flag": [None if i % 31 == 0 else i % 3 == 0 for i in range(N)],
    "amount": pl.Series(range(N)).cast(pl.Decimal(10, 2)),
}).with_columns(
    y=pl.col(ODD).fill_null(0) * 2 + (pl.col("text") == "c1").fill_null(False).cast(int) + RNG.normal(size=N),
    weight=pl.Series(RNG.integers(1, 4, N)),
).with_columns(
    two=(pl.col("y") > 0).cast(pl.Int8), three=(pl.col("y") > 0).cast(pl.Int8) + (pl.col("y") > 1.5).cast(pl.Int8),
    held=pl.int_range(N) % 3 == 0,
)  # fmt: skip
FEATURES = [ODD, "text", "day", "when", "lasts", "flag", "amount"]
CURVES = [plots.roc, plots.precision_recall, plots.gains, plots.lift, plots.threshold_costs, plots.calibration]
OBJECTIVES = {"y": "reg:squarederror", "two": "binary:logistic", "three": "multi:softprob"}


@pytest.fixture(scope="module")
def models() -> dict[str, fb.Model]:
    return {
        target: fb.fit(DATA, target, features=FEATURES, valid="held", objective=objective, n_estimators=4, max_depth=3)
        for target, objective in OBJECTIVES.items()
    }


def drawn(chart: Any) -> list[list[dict[str, Any]]]:
    """Return the rows of each data set of a chart, after Altair has checked it against its schema."""
    found = list(chart.to_dict(validate=True)["datasets"].values())
    assert max(map(len, found)) <= MAX_POINTS
    assert sum(map(len, found)) <= 1.1 * MAX_POINTS
    return found


def with_fields(chart: Any, *fields: str) -> list[dict[str, Any]]:
    """Return the rows of the data sets that have these fields."""
    return [row for rows in drawn(chart) for row in rows if rows and set(fields) <= set(rows[0])]


def refused(function: Any, *given: Any, **more: Any) -> str:
    with pytest.raises(fb.FrameboostError) as error:
        function(*given, **more)
    return str(error.value)


def titles(chart: Any) -> set[str]:
    """Return the titles of all axes and legends of a chart."""

    def parts(item: Any) -> Iterator[Any]:
        yield item
        for inner in item.values() if isinstance(item, dict) else item if isinstance(item, list) else ():
            yield from parts(inner)

    named = [it for it in parts({**chart.to_dict(), "datasets": None}) if isinstance(it, dict) and "field" in it]
    return {part["title"] for part in named if isinstance(part.get("title"), str)}


# --- of the model alone -----------------------------------------------------------------------------------------------


def test_learning_curves(models):
    model = models["two"]
    chart = plots.learning_curves(model)
    rows = with_fields(chart, "set", "value")
    assert [r["value"] for r in rows if r["set"] == "valid"] == model.history["valid_logloss"].to_list()
    best = int(model.history["valid_logloss"].arg_min()) + 1
    assert with_fields(chart, "label") == [{"round": best, "label": f"best round: {best}"}]
    assert {"round", "logloss"} <= titles(chart)

    stopped = pl.DataFrame({"round": [1, 2, 3], "valid_auc": [0.5, 0.9, 0.7]})
    assert with_fields(plots.learning_curves(fb.Model(model.ensemble, history=stopped)), "label")[0]["round"] == 2
    given = fb.Model(model.ensemble, history=stopped, best_round=3)
    assert with_fields(plots.learning_curves(given), "label")[0]["round"] == 3
    folds = pl.DataFrame({"round": [1], "train_rmse_mean": [5.0], "train_rmse_std": [2.0]})
    assert with_fields(plots.learning_curves(folds), "low") == [{"set": "train", "round": 1, "low": 3.0, "high": 7.0}]
    long = pl.DataFrame({"round": range(1, 20_001), "train_rmse": [1.0] * 20_000})
    rows = with_fields(plots.learning_curves(fb.Model(model.ensemble, history=long)), "set")
    assert (rows[0]["round"], rows[-1]["round"]) == (1, 20_000)
    assert "the model has no history" in refused(plots.learning_curves, model[:2])
    assert "or a frame that fb.cv returned, not 3" in refused(plots.learning_curves, 3)


@pytest.mark.slow
def test_importance(models):
    for kind in ("gain", "total_gain", "weight", "cover", "total_cover"):
        expected = models["y"].importance(kind).head(4).rows()
        rows = with_fields(plots.importance(models["y"], kind, top=4), "feature")
        assert [(r["feature"], r["importance"]) for r in rows] == expected
    wide = pl.DataFrame({f"x{i}": RNG.integers(0, 9, 50) for i in range(200)})
    model = fb.fit(wide, "x0", n_estimators=2)
    chart = plots.importance(model)
    assert len(with_fields(chart, "feature")) == 20
    assert "mean gain of a split; 20 of 199 features" in titles(chart)
    drawn(plots.shap_summary(model, wide, top=100))
    drawn(plots.waterfall(model, wide[0], top=200))


def test_a_tree_has_its_conditions_values_and_places():
    df = pl.DataFrame({"x": [1, 2, 3, 3, None], "c": ["p", "q", "p", "r", "p"], "y": [0.0, 1.0, 8.0, 12.0, 6.0]})
    model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0, min_child_weight=0, max_depth=2)
    nodes = tree_layout(model.ensemble.trees[0], model.ensemble.features, 4)
    frame = model.trees
    assert nodes.select("node", "depth", "cover").equals(frame.select("node", "depth", "cover"))
    root = nodes.row(0, named=True)
    assert (root["text"], root["condition"], root["parent"], root["y"]) == ("x\n< 3\ncover 5", "x < 3", None, 0)
    assert frame[0, "missing"] == "right"
    by_node = {row["node"]: row for row in nodes.rows(named=True)}
    left, right = by_node[frame[0, "left"]], by_node[frame[0, "right"]]
    assert (left["answer"], left["missing"]) == ("yes", "to the other side")
    assert (right["answer"], right["missing"]) == ("no", "here")
    assert root["x"] == (left["x"] + right["x"]) / 2
    ends = nodes.filter(kind="leaf").sort("x")
    assert ends["x"].to_list() == list(range(len(ends)))
    assert sorted(ends["value"]) == sorted(frame.filter(pl.col("feature").is_null())["value"])
    shown = with_fields(plots.tree(model), "text", "condition", "kind")
    assert {row["text"] for row in shown} == set(nodes["text"])
    cut = tree_layout(model.ensemble.trees[0], model.ensemble.features, 1)
    assert cut["kind"].to_list().count("more") + cut["kind"].to_list().count("leaf") == 2
    assert "number must be that of a tree, from 0 to 0, not 1" in refused(plots.tree, model, 1)


def test_questions_of_all_kinds_of_features(models):
    texts = set()
    for model in models.values():
        drawn(plots.tree(model, 1))
        for tree in model.ensemble.trees:
            texts |= set(tree_layout(tree, model.ensemble.features, 8)["condition"].drop_nulls())
    assert any(text.startswith(f"{ODD} < ") for text in texts)
    assert any(text.startswith("text is ") for text in texts)
    df = pl.DataFrame({"x": [None, None, 1.0, 1.0], "f": [True, False] * 2, "y": [0.0, 1.0, 8.0, 9.0]})
    for feature, target, expected in (("x", "y", "x is present"), ("f", "z", "f is false")):
        rows = df.with_columns(z=pl.col("f").cast(pl.Int8))
        model = fb.fit(rows, target, features=[feature], n_estimators=1, min_child_weight=0)
        assert tree_layout(model.ensemble.trees[0], model.ensemble.features, 8)["condition"][0] == expected


# --- how it responds --------------------------------------------------------------------------------------------------


def test_partial_dependence_is_that_of_the_model(models):
    model = models["y"]
    expected = model.partial_dependence(DATA, ODD)
    chart = plots.partial_dependence(model, DATA, ODD)
    rows = [row for row in with_fields(chart, "value", "prediction") if "label" not in row]
    assert [row["value"] for row in rows] == expected[ODD].to_list()
    assert [row["prediction"] for row in rows] == pytest.approx(expected["prediction"].to_list())
    missing = model.partial_dependence(DATA, ODD, grid=[None])["prediction"][0]
    assert [row["prediction"] for row in with_fields(chart, "label")] == [pytest.approx(missing)]
    assert {ODD.replace("\\", "⧵"), "mean prediction", "rows"} <= titles(chart)
    counts = with_fields(chart, "rows")
    assert sum(row["rows"] for row in counts) == DATA[ODD].count()

    expected = model.partial_dependence(DATA, "text", grid=[*(f"c{i}" for i in range(6)), None]).rows()
    rows = with_fields(plots.partial_dependence(model, DATA, "text"), "value", "prediction")
    of_chart = {None if r["value"] == "(missing)" else r["value"]: r["prediction"] for r in rows}
    assert of_chart == {value: pytest.approx(prediction) for value, prediction in expected}


def test_partial_dependence_on_categories_that_no_row_has():
    rows = pl.DataFrame({"k": [f"k{i % 50}" for i in range(200)], "y": [float(i % 50) for i in range(200)]})
    model = fb.fit(rows, "y", n_estimators=1)
    new = rows.with_columns(pl.col("k").str.replace("k", "new"))
    assert len(with_fields(plots.partial_dependence(model, new, "k"), "value", "prediction")) == 30
    mixed = pl.concat([new, rows[:3]])
    found = with_fields(plots.partial_dependence(model, mixed, "k"), "value", "prediction")
    assert {row["value"] for row in found} == {"k0", "k1", "k2"}


def test_ice_curves_are_predictions_of_changed_rows(models):
    model = models["two"]
    rows = with_fields(plots.partial_dependence(model, DATA[:3], "amount", ice=3), "row")
    assert len(rows) == 9
    for row in rows:
        changed = DATA[row["row"]].with_columns(amount=pl.lit(row["value"]).cast(pl.Decimal(10, 2)))
        assert row["prediction"] == pytest.approx(model.predict(changed)[0])


@pytest.mark.slow
def test_partial_dependence_on_two_features(models):
    model = models["three"]
    chart = plots.partial_dependence(model, DATA, ["text", ODD], number=2)
    cells = with_fields(chart, "other", "prediction")
    present = DATA.drop_nulls(["text", ODD])
    cell = cells[7]
    changed = present.with_columns(pl.lit(cell["value"]).alias("text"), pl.lit(cell["other"]).alias(ODD))
    assert cell["prediction"] == pytest.approx(np.mean(model.predict(changed).to_numpy()[:, 2]))
    assert len(cells) == 6 * 20
    lowest = min(cells, key=lambda c: c["other"])
    assert lowest["other_lower"] == lowest["other"] < lowest["other_upper"]
    drawn(plots.partial_dependence(model, DATA[:50], ["day", "when"], number=0))
    drawn(plots.partial_dependence(models["y"], DATA[:50], ["flag", "lasts"], output="margin"))


@pytest.mark.slow
@cases("feature", FEATURES)
def test_dependence_on_features_of_all_types(models, feature):
    model = models["y"]
    chart = plots.partial_dependence(model, DATA, feature, ice=5)
    expected = model.partial_dependence(DATA, feature).height
    present = {r["value"] for r in with_fields(chart, "prediction") if r["value"] not in (None, "(missing)")}
    assert len(present) == expected
    title = feature.replace("\\", "⧵")  # which Vega would read as an escape
    assert {title + {"lasts": " (seconds)", "when": " (UTC)"}.get(feature, "")} <= titles(chart)
    drawn(plots.shap_dependence(model, DATA, feature, color=feature))


def test_what_does_not_respond_is_refused(models):
    def message(feature: Any, model: str = "y", data: pl.DataFrame = DATA, **more: Any) -> str:
        return refused(plots.partial_dependence, models[model], data, feature, **more)

    assert message("z").startswith("feature must be one of the model's, ")
    assert message(["day", "amounts"]).endswith("not 'amounts'; did you mean 'amount'?")
    for wrong in (["day"] * 2, [], 3, ["day", "text", "flag"]):
        assert message(wrong).startswith("feature must be a feature of the model, or two in a list, not ")
    assert message("day", "three", ice=3) == "ice shows one output; set number, from 0 to 2"
    assert message("day", "three", number=3) == "number must be an integer from 0 to 2, not 3"
    empty = DATA.with_columns(amount=pl.lit(None, dtype=pl.Decimal(10, 2)))
    assert message("amount", data=empty) == "feature 'amount' has no value in any row"
    assert message("day", data=DATA[:0]) == "the data has no rows"
    never = DATA.with_columns(pl.lit(None, dtype=pl.String).alias("text"))
    assert message(["text", "day"], data=never) == "features 'text' and 'day' are never both non-missing"


def test_distributions_count_rows():
    numbers = distribution_frame(pl.Series([0.0, 1.0, 1.0, None, math.nan]), FeatureType("float64"))
    assert numbers["rows"].to_list() == [1, 2]
    assert (numbers["value"][0], numbers["upper"][-1]) == (0.0, 1.0)


# --- SHAP values ------------------------------------------------------------------------------------------------------


def test_shap_values_are_those_of_explain(models):
    model = models["three"]
    long = shap_frame(model, DATA, output=1)
    expected = model.explain(DATA, output=1)
    for (feature,), rows in long.group_by("feature"):
        assert rows["contribution"].to_list() == expected[feature].to_list()
    order = long["feature"].unique(maintain_order=True).to_list()
    assert order == sorted(FEATURES, key=lambda f: -expected[f].abs().mean())
    amounts = long.filter(feature="amount")
    assert (amounts["rank"][0], amounts["rank"][-1], amounts["value"][2]) == (0.0, 1.0, "2")
    assert long.filter(feature="text")["rank"].null_count() == N
    rows = with_fields(plots.shap_summary(model, DATA, output=1, top=3), "feature", "offset")
    assert {row["feature"] for row in rows} == set(order[:3])
    assert all(-1 <= row["offset"] <= 1 for row in rows)
    dots = with_fields(plots.shap_dependence(model, DATA, "day", output=1, color="text"), "contribution")
    assert sorted(row["contribution"] for row in dots) == pytest.approx(sorted(expected["day"]))
    assert "output must be the number of a margin, from 0 to 2, not None" in refused(plots.shap_summary, model, DATA)
    assert "did you mean 'amount'" in refused(plots.shap_dependence, model, DATA, "amounts", output=0)


def test_a_waterfall_leads_from_the_mean_to_the_row(models):
    model = models["y"]
    steps = waterfall_frame(model, DATA[5], top=3)
    found = model.explain(DATA[5])
    assert steps["kind"].to_list() == ["total", *["feature"] * 3, "others", "total"]
    assert steps["end"][0] == pytest.approx(model.predict(DATA[5], "margin")[0])
    assert steps["start"][-1] == found["bias"][0]
    assert steps["start"][1:-1].to_list() == steps["end"][2:].to_list()
    named = steps.filter(kind="feature")["contribution"].abs().to_list()
    assert named == sorted(named, reverse=True)
    assert "4 other features" in steps["step"]
    assert f"{ODD} = {DATA[5, ODD]:.6g}" in waterfall_frame(model, DATA[5])["step"]
    assert "day = 2024-01-06" in waterfall_frame(model, DATA[5])["step"]
    assert f"{ODD} = (missing)" in waterfall_frame(model, DATA[0])["step"]
    assert len(with_fields(plots.waterfall(model, DATA[5]), "step", "text")) >= 9
    assert "row has 150 rows; pass one, such as df[0]" in refused(plots.waterfall, model, DATA)


# --- how good it is ---------------------------------------------------------------------------------------------------


def test_curves_of_two_classes(models):
    model = models["two"]
    scores, labels, weights = model.predict(DATA).to_numpy(), DATA["two"].to_numpy(), DATA["weight"].to_numpy()
    area = sk.roc_auc_score(labels, scores, sample_weight=weights)
    rows = with_fields(plots.roc(model, DATA, "two", weight="weight"), "name", "threshold")
    assert {row["name"] for row in rows} == {f"AUC {area:.4f}"}
    assert (rows[0]["true_positive_rate"], rows[-1]["false_positive_rate"]) == (0.0, 1.0)
    precision = sk.average_precision_score(labels, scores)
    chart = plots.precision_recall(model, DATA, "two")
    assert {row["name"] for row in with_fields(chart, "threshold")} == {f"average precision {precision:.4f}"}
    assert {row["precision"] for row in with_fields(chart, "recall") if "threshold" not in row} == {labels.mean()}
    found = with_fields(plots.threshold_costs(model, DATA, "two", false_negative=5), "label")
    costs = [((scores >= t) & (labels == 0)).mean() + 5 * ((scores < t) & (labels == 1)).mean() for t in scores]
    assert found[0]["cost"] == pytest.approx(min(costs))
    assert plots.threshold_costs(model, DATA, "two", false_negative=0).to_dict()
    for function, last in ((plots.gains, "share_of_positives"), (plots.lift, "lift")):
        assert with_fields(function(model, DATA, "two"), "name", last)[-1][last] == 1.0


def test_curves_of_three_classes(models):
    model = models["three"]
    scores = model.predict(DATA).to_numpy()
    rows = with_fields(plots.roc(model, DATA, "three"), "name")
    areas = [sk.roc_auc_score(DATA["three"] == k, scores[:, k]) for k in range(3)]
    assert [*dict.fromkeys(r["name"] for r in rows)] == [f"class {k}: AUC {area:.4f}" for k, area in enumerate(areas)]
    for function in (plots.precision_recall, plots.gains, plots.lift, plots.calibration):
        assert len({row["name"] for row in with_fields(function(model, DATA, "three"), "name")}) == 3
    cells = with_fields(plots.confusion(model, DATA, "three"), "actual")
    expected = sk.confusion_matrix(DATA["three"], model.predict(DATA, "class"))
    assert [cell["weight"] for cell in cells] == expected.ravel().tolist()


def test_confusion_at_a_threshold(models):
    cells = with_fields(plots.confusion(models["two"], DATA, "two", threshold=0.8), "actual")
    expected = sk.confusion_matrix(DATA["two"], models["two"].predict(DATA) >= 0.8)
    assert [cell["weight"] for cell in cells] == expected.ravel().tolist()
    assert cells[0]["text"] == f"{expected[0, 0]:,}\n{expected[0, 0] / expected[0].sum():.1%}"


def test_calibration_and_residuals_of_a_regression(models):
    chart = plots.calibration(models["y"], DATA, "y", weight="weight")
    assert {"mean prediction", "mean y", "rows"} <= titles(chart)
    curve = with_fields(chart, "mean_label", "weight")
    assert sum(row["weight"] for row in curve) == DATA["weight"].sum()
    bins = with_fields(plots.residuals(models["y"], DATA, "y", bins=4), "p50")
    prediction = models["y"].predict(DATA).to_numpy()
    assert sum(row["weight"] for row in bins) == N
    total = sum(row["mean"] * row["weight"] for row in bins)
    assert total == pytest.approx((DATA["y"].to_numpy() - prediction).sum())


def test_drift_is_a_cell_for_each_feature_and_month(models):
    baseline = models["y"].database().baseline(DATA.filter(pl.col("day").dt.month() == 1))
    cells = with_fields(plots.drift(models["y"], DATA, baseline, "day", top=3), "psi")
    assert [cell["period"] for cell in cells[:3]] == ["2024-01", "2024-02", "2024-03"]
    assert len(cells) == 9
    weekly = with_fields(plots.drift(models["y"], DATA, baseline, "when", every="1d"), "psi")
    assert {cell["period"] for cell in weekly} == {f"2024-01-{day:02}" for day in range(1, N // 24 + 2)}


def test_what_can_not_be_drawn_is_refused(models):
    def message(function: Any, model: str, *given: Any, **more: Any) -> str:
        return refused(function, models[model], DATA, *given, **more)

    for function in (plots.roc, plots.precision_recall, plots.gains, plots.lift, plots.threshold_costs):
        assert "holds other values than 0 and 1" in message(function, "y", "y")
        assert "column 'z' is not in the data" in message(function, "two", "z")
    assert message(plots.threshold_costs, "three", "three").startswith("threshold_costs is for models of one output")
    assert "a finite number of at least 0, not -1" in message(plots.threshold_costs, "two", "two", false_positive=-1)
    assert "objective 'reg:squarederror', which has none" in message(plots.confusion, "y", "y")
    assert "threshold is for two classes" in message(plots.confusion, "three", "three", threshold=0.5)
    assert "not of 'binary:logistic' with 1 output; cal" in message(plots.residuals, "two", "two")
    assert "model must be a frameboost.Model" in refused(plots.roc, "model.json", DATA, "two")
    both = fb.fit(DATA, ["two", "y"], features=["day"], n_estimators=1)
    assert "roc is for models of one target, not of 2" in refused(plots.roc, both, DATA, "two")
    band = fb.fit(DATA, "y", features=["day"], objective="reg:quantileerror", quantile_alpha=[0.1, 0.9], n_estimators=1)
    assert "roc is for models of one output or of classes" in refused(plots.roc, band, DATA, "two")
    for function in (plots.residuals, plots.calibration):
        assert "'reg:quantileerror' with 2 outputs" in refused(function, band, DATA, "y")
    drawn(plots.partial_dependence(band, DATA, "day"))


@pytest.mark.slow
def test_scores_of_models_without_probabilities(models):
    hinge = fb.fit(DATA, "two", features=["day", "text"], objective="binary:hinge", n_estimators=3)
    assert "threshold of the margin" in titles(plots.threshold_costs(hinge, DATA, "two"))
    number = fb.fit(DATA, "two", features=["day", "text"], n_estimators=3)
    assert "threshold of the prediction" in titles(plots.threshold_costs(number, DATA, "two"))
    area = sk.roc_auc_score(DATA["two"], number.predict(DATA))
    assert {row["name"] for row in with_fields(plots.roc(number, DATA, "two"), "name")} == {f"AUC {area:.4f}"}
    assert "contribution to the log-odds" in titles(plots.shap_summary(models["two"], DATA[:9]))
    calibrated = models["two"].calibrate(DATA, "two")
    assert "contribution to the margin" in titles(plots.shap_summary(calibrated, DATA[:9]))
    assert "contribution to the margin of output 1" in titles(plots.shap_summary(models["three"], DATA[:9], output=1))
    assert "contribution to the prediction" in titles(plots.shap_summary(models["y"], DATA[:9]))


def test_outputs_of_classes_have_their_labels():
    named = DATA.with_columns(three=pl.lit("kind ") + pl.col("three").cast(pl.String))
    model = fb.fit(named, "three", features=["day", "text"], n_estimators=2)
    assert "contribution to the margin of kind 2" in titles(plots.shap_summary(model, DATA[:9], output="kind 2"))
    assert "margin of kind 0" in titles(plots.waterfall(model, DATA[:1], output="kind 0"))
    lines = with_fields(plots.partial_dependence(model, DATA, "day"), "output")
    assert {line["output"] for line in lines} == {"kind 0", "kind 1", "kind 2"}
    one = with_fields(plots.partial_dependence(model, DATA, "day", number="kind 1"), "output")
    assert {line["output"] for line in one} == {"kind 1"}
    said = refused(plots.shap_summary, model, DATA[:9], output="x")
    assert "one of the labels 'kind 0', 'kind 1', 'kind 2', not 'x'" in said


# --- sizes and kinds of data ------------------------------------------------------------------------------------------


def test_charts_say_what_they_show_and_quantiles_are_named():
    band = fb.fit(DATA, "y", features=["day"], objective="reg:quantileerror", quantile_alpha=[0.1, 0.9], n_estimators=2)
    chart = plots.partial_dependence(band, DATA, "day")
    outputs = {row["output"] for row in with_fields(chart, "output", "prediction")}
    assert outputs == {"quantile 0.1", "quantile 0.9"}
    assert drawn_title(chart).startswith("day takes the mean prediction of quantile 0.")
    for name, drawn_name in (("day", "day"), ("C:\\x", "C:⧵x")):  # a backslash in a title is an error of Vega's
        model = fb.fit(DATA.rename({"day": name}), "y", features=[name], n_estimators=1)
        title = drawn_title(plots.importance(model, "total_gain"))
        assert title == f"{drawn_name} has the highest gain of all splits, 100 % of it"


def drawn_title(chart: Any) -> str:
    """Return the title of a chart, whose lines are broken."""
    return " ".join(chart.to_dict()["title"]["text"])


@pytest.mark.slow
def test_many_rows_make_small_charts():
    rng = np.random.default_rng(6)
    n = 6_000
    many = pl.DataFrame({"x": rng.normal(size=n), "c": rng.integers(0, 500, n).astype(str), "z": rng.random(n)})
    many = many.with_columns(y=(pl.col("x") > pl.col("z")).cast(pl.Int8))
    model = fb.fit(many, "y", objective="binary:logistic", n_estimators=5)
    for function in CURVES:
        drawn(function(model, many, "y"))
    for feature in ("x", "c", ["x", "c"]):
        drawn(plots.partial_dependence(model, many, feature, ice=0 if isinstance(feature, list) else 200))
    drawn(plots.shap_summary(model, many))
    drawn(plots.shap_dependence(model, many, "c", color="c"))
    drawn(plots.residuals(fb.fit(many, "x", features=["z"], n_estimators=2), many, "x", rows=4_000))


@pytest.mark.slow
def test_one_row_and_constant_predictions_are_drawn():
    df = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": [0, 1, 0, 1]})
    constant = fb.fit(df, "y", objective="binary:logistic", n_estimators=1, gamma=100)
    assert constant.predict(df).n_unique() == 1
    for function in CURVES:
        drawn(function(constant, df, "y"))
    rows = with_fields(plots.roc(constant, df, "y"), "name")
    assert {row["name"] for row in rows} == {"AUC 0.5000"}
    number, one = fb.fit(df, "x", features=["y"], n_estimators=1, gamma=100), df[:1]
    for chart in (
        plots.partial_dependence(constant, df, "x", ice=2), plots.shap_summary(constant, df), plots.tree(constant),
        plots.waterfall(constant, df[0]), plots.confusion(constant, one, "y"), plots.shap_summary(number, one),
        plots.residuals(number, one, "x"), plots.calibration(number, one, "x"),
        plots.shap_dependence(number, one, "y"), plots.partial_dependence(number, one, "y"),
    ):  # fmt: skip
        drawn(chart)
    assert "labels of both classes, 0 and 1" in refused(plots.roc, constant, df[:1], "y")


@pytest.mark.slow
def test_data_may_be_whatever_predict_takes(models, tmp_path):
    few = DATA.select(ODD, "text", "two")
    model = fb.fit(few, "two", objective="binary:logistic", n_estimators=2)
    few.write_parquet(tmp_path / "few.parquet")
    con = duckdb.connect()
    con.execute("CREATE TABLE few AS SELECT * FROM few")
    expected = drawn(plots.roc(model, few, "two"))
    for data in (few.lazy(), tmp_path / "few.parquet", con.table("few")):
        assert drawn(plots.roc(model, data, "two")) == expected
        drawn(plots.partial_dependence(model, data, "text"))


@pytest.mark.slow
def test_names_may_be_those_of_columns_of_charts_and_patterns():
    names = ["^a.*$", "*", "value", "other", "row", "output", "prediction", "", "feature", "contribution"]
    rng = np.random.default_rng(7)
    data = pl.DataFrame({name: rng.integers(0, 4, 60) for name in names} | {"y": rng.normal(size=60)})
    model = fb.fit(data, "y", n_estimators=3)
    for first, second in zip(names[::2], names[1::2], strict=True):
        assert len(with_fields(plots.partial_dependence(model, data, first), "value", "prediction")) == 4
        assert len(with_fields(plots.partial_dependence(model, data, [first, second]), "other")) == 16
        drawn(plots.shap_dependence(model, data, first, color=second))
    assert {row["feature"] for row in with_fields(plots.shap_summary(model, data), "feature")} == set(names)
    drawn(plots.waterfall(model, data[0]))


def test_classes_without_rows_have_no_curve(models):
    few = DATA.filter(pl.col("three") < 2)
    for function in (plots.roc, plots.precision_recall, plots.gains, plots.lift):
        found = {row["name"].partition(":")[0] for row in with_fields(function(models["three"], few, "three"), "name")}
        assert found == {"class 0", "class 1"}
    said = refused(plots.roc, models["three"], DATA.filter(three=0), "three")
    assert "the curve needs labels of both classes, 0 and 1" in said


def test_infinities_are_left_out():
    data = pl.DataFrame({"x": [math.inf, -math.inf, math.nan, *range(17)], "y": [float(i % 5) for i in range(20)]})
    model = fb.fit(data, "y", n_estimators=2)
    rows = with_fields(plots.partial_dependence(model, data, "x"), "value", "prediction")
    assert [row["value"] for row in rows if row["value"] is not None] == list(range(17))
    assert len(with_fields(plots.shap_dependence(model, data, "x"), "value")) == 17


def test_samples_and_thinned_curves_keep_order_and_ends():
    frame = pl.DataFrame({"x": range(1000)})
    few = sampled(frame, 50)["x"]
    assert few.is_sorted() and few.n_unique() == 50
    assert few.equals(sampled(frame, 50)["x"]) and sampled(frame, 1000) is frame
    curve = pl.DataFrame({"x": [0.0] * 500 + [0.5] * 500 + [1.0], "y": [i / 1000 for i in range(1001)]})
    found = thinned(curve, "x", "y", 11)
    assert found.row(0) == (0.0, 0.0) and found.row(-1) == (1.0, 1.0)
    assert len(found) <= 11 and found["y"].is_sorted()
    line = pl.DataFrame({"x": range(100), "y": [0.0] * 100})
    assert thinned(line, "x", "y", 5)["x"].to_list() == [0, 25, 50, 75, 99]


def test_without_altair_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    monkeypatch.delitem(sys.modules, "frameboost.plots")
    monkeypatch.delattr(fb, "plots")
    with pytest.raises(ImportError) as error:
        fb.plots  # noqa: B018
    assert str(error.value) == "frameboost.plots needs Altair: pip install 'frameboost[plots]'"
