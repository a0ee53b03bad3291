"""`Model.evaluate`: metrics, confusion and curves, against scikit-learn, in polars and in DuckDB alike."""

import duckdb
import numpy as np
import polars as pl
import pytest
import sklearn.metrics as theirs

import frameboost as fb
from tests.support.cases import cases
from tests.support.engines import as_relation

RNG = np.random.default_rng(5)
N = 300
FRAME = pl.DataFrame({
    "x": RNG.normal(size=N), "kind": RNG.choice(["a", "b", "c"], N),
    "region": [["north", "south", None][i] for i in RNG.integers(0, 3, N)],
    "w": RNG.integers(1, 4, N) / 2, "query": RNG.integers(0, 30, N),
}).with_columns(
    y=pl.col("x") * 2 + (pl.col("kind") == "a") + pl.Series(RNG.normal(size=N)),
).with_columns(
    late=pl.col("y") > 0.5, grade=(pl.col("y").clip(-2, 3) / 2 + 1).floor().cast(pl.Int64),
    count=pl.col("y").abs().floor(),
)  # fmt: skip
SHAPE = {"features": ["x", "kind"], "n_estimators": 2, "max_depth": 3}


SOURCES = {"frame": FRAME, "relation": as_relation(FRAME)}


def values(evaluation) -> dict[str, float]:
    return dict(evaluation.metrics.select("metric", "value").rows())


@cases("kind", SOURCES)
def test_metrics_of_numbers_are_scikit_learns(kind):
    model = fb.fit(FRAME, "y", weight="w", **SHAPE)
    y, p, w = FRAME["y"], model.predict(FRAME), FRAME["w"]
    found = values(model.evaluate(SOURCES[kind], "y", weight="w"))
    assert list(found) == ["rmse", "mae", "r2"]
    assert found["rmse"] == pytest.approx(theirs.root_mean_squared_error(y, p, sample_weight=w), rel=1e-9)
    assert found["mae"] == pytest.approx(theirs.mean_absolute_error(y, p, sample_weight=w), rel=1e-9)
    assert found["r2"] == pytest.approx(theirs.r2_score(y, p, sample_weight=w), rel=1e-9)


def test_metrics_that_are_asked_for():
    model = fb.fit(FRAME, "y", **SHAPE)
    off = fb.Metric("off", "AVG(CASE WHEN ABS(label - prediction) > 1 THEN 1 ELSE 0 END)")
    share = float(((FRAME["y"] - model.predict(FRAME)).abs() > 1).mean())
    for data in SOURCES.values():
        found = values(model.evaluate(data, "y", eval_metric=["rmse", off]))
        assert list(found) == ["rmse", "off"]
        assert found["off"] == pytest.approx(share, rel=1e-12)


@pytest.mark.slow
@cases("kind", SOURCES)
def test_two_classes_are_scikit_learns(kind):
    model = fb.fit(FRAME, "late", objective="binary:logistic", **SHAPE)
    evaluation = model.evaluate(SOURCES[kind], "late", weight="w")
    y, p, w = FRAME["late"].to_numpy(), model.predict(FRAME).to_numpy(), FRAME["w"].to_numpy()
    found = values(evaluation)
    assert list(found) == ["logloss", "error", "auc", "aucpr"]
    assert found["logloss"] == pytest.approx(theirs.log_loss(y, p, sample_weight=w), rel=1e-9)
    assert found["error"] == pytest.approx(1 - theirs.accuracy_score(y, p > 0.5, sample_weight=w), rel=1e-9)
    assert found["auc"] == pytest.approx(theirs.roc_auc_score(y, p, sample_weight=w), rel=1e-9)
    matrix = theirs.confusion_matrix(y, p > 0.5, sample_weight=w)
    assert evaluation.confusion["weight"].to_list() == pytest.approx(matrix.ravel().tolist())
    false, true, at = theirs.roc_curve(y, p, sample_weight=w, drop_intermediate=False)
    np.testing.assert_allclose(evaluation.roc["false_positive_rate"], false)
    np.testing.assert_allclose(evaluation.roc["true_positive_rate"], true)
    np.testing.assert_allclose(evaluation.roc["threshold"], at, rtol=1e-12)
    precision, recall, at = theirs.precision_recall_curve(y, p, sample_weight=w)
    np.testing.assert_allclose(evaluation.precision_recall["precision"][::-1], precision[:-1])
    np.testing.assert_allclose(evaluation.precision_recall["recall"][::-1], recall[:-1])
    curve = evaluation.calibration
    assert curve["weight"].sum() == pytest.approx(w.sum())
    assert (curve["weight"] * curve["mean_label"]).sum() == pytest.approx((w * y).sum())


@pytest.mark.slow
@cases("kind", SOURCES)
def test_several_classes_are_scikit_learns(kind):
    model = fb.fit(FRAME, "grade", objective="multi:softprob", **SHAPE)
    evaluation = model.evaluate(SOURCES[kind], "grade")
    y, p = FRAME["grade"].to_numpy(), model.predict(FRAME).to_numpy()
    found = values(evaluation)
    assert list(found) == ["mlogloss", "merror", "auc", "aucpr"]
    assert found["mlogloss"] == pytest.approx(theirs.log_loss(y, p), rel=1e-6)
    assert found["merror"] == pytest.approx(1 - theirs.accuracy_score(y, p.argmax(axis=1)))
    average = theirs.roc_auc_score(y, p, multi_class="ovr", average="weighted")
    assert found["auc"] == pytest.approx(average, rel=1e-9)
    matrix = theirs.confusion_matrix(y, p.argmax(axis=1))
    assert evaluation.confusion["weight"].to_list() == matrix.ravel().tolist()
    assert evaluation.roc["class"].unique(maintain_order=True).to_list() == list(range(p.shape[1]))
    false, _, _ = theirs.roc_curve(y == 1, p[:, 1], drop_intermediate=False)
    np.testing.assert_allclose(evaluation.roc.filter(pl.col("class") == 1)["false_positive_rate"], false)


@pytest.mark.slow
@cases("kind", SOURCES)
def test_groups_are_evaluated_each_by_itself(kind):
    model = fb.fit(FRAME, "late", objective="binary:logistic", **SHAPE)
    evaluation = model.evaluate(SOURCES[kind], "late", by="region", weight="w")
    assert evaluation.metrics.columns == ["region", "rows", "metric", "value"]
    assert set(evaluation.metrics["region"]) == {"north", "south", None}
    if kind == "frame":
        two = model.evaluate(FRAME, "late", by=["region", "kind"], eval_metric="error")
        assert two.metrics.height == FRAME.select("region", "kind").n_unique()
    for region in ("north", "south", None):
        part = FRAME.filter(pl.col("region").eq_missing(region))
        alone = model.evaluate(part, "late", weight="w")
        here = pl.col("region").eq_missing(region)
        rows = evaluation.metrics.filter(here)
        assert rows["rows"].unique().to_list() == [len(part)]
        assert dict(rows.select("metric", "value").rows()) == pytest.approx(values(alone), rel=1e-12)
        for name in ("confusion", "roc", "precision_recall", "calibration"):
            mine = getattr(evaluation, name).filter(here).drop("region")
            for column in mine.columns:
                np.testing.assert_allclose(mine[column], getattr(alone, name)[column], rtol=1e-12)


@pytest.mark.slow
@cases(("objective", "target", "options", "expected"), [
    ("count:poisson", "count", {}, ["poisson-nloglik", "rmse", "mae", "r2"]),
    ("binary:hinge", "late", {}, ["error", "auc", "aucpr"]),
    ("reg:quantileerror", "y", {"quantile_alpha": [0.2, 0.8]}, ["quantile"]),
    ("reg:absoluteerror", "y", {}, ["mae", "rmse", "r2"]),
    ("rank:ndcg", "grade", {"group": "query"}, ["ndcg@32", "ndcg@5", "ndcg@10"]),
    ("survival:cox", "count", {}, ["cox-nloglik"]),
])  # fmt: skip
def test_metrics_are_those_of_the_objective_and_of_training(objective, target, options, expected):
    model = fb.fit(FRAME, target, objective=objective, valid=FRAME, **SHAPE, **options)
    more = {name: value for name, value in options.items() if name == "group"}
    for data in SOURCES.values() if objective in ("rank:ndcg", "survival:cox") else (FRAME,):
        found = values(model.evaluate(data, target, **more))
        assert list(found) == expected
        last = model.history[f"valid_{expected[0]}"][-1]
        assert found[expected[0]] == pytest.approx(last, rel=1e-9)


def test_calibrated_models_and_models_of_several_targets():
    model = fb.fit(FRAME, "late", objective="binary:logistic", **SHAPE).calibrate(FRAME, "late", method="isotonic")
    for data in SOURCES.values():
        found = values(model.evaluate(data, "late"))["logloss"]
        assert found == pytest.approx(theirs.log_loss(FRAME["late"], model.predict(FRAME)), rel=1e-6)
    both = fb.fit(FRAME, ["y", "count"], **SHAPE)
    for data in SOURCES.values():
        found = values(both.evaluate(data, ["y", "count"]))
        errors = both.predict(FRAME).to_numpy() - FRAME.select("y", "count").to_numpy()
        assert found == pytest.approx({"rmse": np.sqrt((errors**2).mean()), "mae": abs(errors).mean()}, rel=1e-9)


@pytest.mark.slow
def test_nothing_is_left_in_the_database():
    data = as_relation(FRAME)
    model = fb.fit(FRAME, "late", objective="binary:logistic", **SHAPE)
    before = data.query("v", "SELECT COUNT(*) FROM duckdb_tables()").fetchall()
    model.evaluate(data, "late", by="region").confusion.height  # noqa: B018
    with pytest.raises(fb.DataError, match="holds other values than 0 and 1"):
        model.evaluate(data, "grade", by="region")
    assert data.query("v", "SELECT COUNT(*) FROM duckdb_tables()").fetchall() == before
    views = "SELECT COUNT(*) FROM duckdb_views() WHERE NOT internal AND view_name <> 'v'"
    assert data.query("v", views).fetchall() == [(0,)]


_REFUSED = {
    "target": ({"target": "lat"}, "target column 'lat' is not in the data; did you mean 'late'?"),
    "by": ({"by": "regio"}, "by column 'regio' is not in the data; did you mean 'region'?"),
    "feature": ({"data": FRAME.drop("x")}, "the data lacks 1 feature of the model: 'x'"),
    "metric": ({"eval_metric": "mlogloss"}, "eval_metric 'mlogloss' is for the multi:* objectives"),
    "several targets": ({"target": ["late", "y"]}, "the model predicts 1 target, not 2"),
}


@cases("name", _REFUSED)
def test_what_cannot_be_evaluated_is_refused(name):
    model = fb.fit(FRAME, "late", objective="binary:logistic", **SHAPE)
    given, message = _REFUSED[name]
    with pytest.raises((fb.DataError, fb.ParameterError)) as error:
        model.evaluate(**{"data": FRAME, "target": "late"} | given)
    assert message in str(error.value)


def test_models_of_numbers_have_no_confusion():
    with pytest.raises(fb.ParameterError, match=r"^confusion is for models of one target of classes$"):
        fb.fit(FRAME, "y", **SHAPE).evaluate(FRAME, "y").confusion  # noqa: B018


def test_several_binary_targets_have_the_mean_of_their_metrics():
    frame = FRAME.with_columns(large=pl.col("y") > pl.col("y").median())
    targets = ["late", "large"]
    model = fb.fit(frame, targets, objective="binary:logistic", **SHAPE)
    evaluation = model.evaluate(frame, targets)
    scores = np.array(model.predict(frame).to_list())
    expected = {
        name: np.mean([score(frame[target], scores[:, k]) for k, target in enumerate(targets)])
        for name, score in (("auc", theirs.roc_auc_score), ("logloss", theirs.log_loss))
    }
    found = values(evaluation)
    assert found["auc"] == pytest.approx(expected["auc"], rel=1e-9)
    assert found["logloss"] == pytest.approx(expected["logloss"], rel=1e-9)
    for name in ("roc", "precision_recall", "confusion"):
        with pytest.raises(fb.ParameterError, match=rf"^{name} is for models of one target of classes$"):
            getattr(evaluation, name)
    with pytest.raises(fb.ParameterError, match=r"^calibration is for models of one output, or of one target"):
        evaluation.calibration  # noqa: B018


@pytest.mark.slow
@cases("target", ["size", "late"])
def test_classes_have_their_labels(target):
    x = np.linspace(-2, 2, 60)
    frame = pl.DataFrame({"x": x, "late": x > 0.4}).with_columns(
        size=pl.Series(np.array(["low", "mid", "top"])[np.digitize(x, [-0.5, 0.5])])
    )
    model = fb.fit(frame, target, features=["x"], n_estimators=3)
    names = sorted(set(frame[target]))
    own, con = model.evaluate(frame, target), duckdb.connect()
    con.register("t", frame)
    predicted = model.predict(frame, output="class")
    counts = {(a, p): ((frame[target] == a) & (predicted == p)).sum() for a in names for p in names}
    for found in (own, model.evaluate(con.table("t"), target)) if target == "size" else (own,):
        assert found.metrics["value"].to_list() == pytest.approx(own.metrics["value"].to_list(), rel=1e-12)
        assert {(a, p): weight for a, p, weight, _ in found.confusion.rows()} == counts
    if target == "size":
        assert own.roc["class"].unique(maintain_order=True).to_list() == names
        explained = model.explain(frame[:2])
        assert explained["output"].unique(maintain_order=True).to_list() == names
        alone = [model.explain(frame[:2], output=name)["x"].to_list() for name in names]
        assert explained.filter(pl.col("feature") == "x")["value"].to_list() == np.array(alone).T.ravel().tolist()
        with pytest.raises(fb.DataError, match="has the label 'huge', which the model does not know"):
            model.evaluate(frame.with_columns(size=pl.lit("huge")), target)


LEARNT = pl.DataFrame({"x": [0, 1] * 20, "y": [0.0, 8.0] * 20})
# Predictions are 0 and 8; a distance of 2 holds all but the last two rows, which weigh 3 of 8.
ROWS = pl.DataFrame({
    "x": [0, 0, 1, 1, 0, 1], "y": [0.0, 2.0, 6.0, 9.0, 2.5, 3.0], "w": [1, 1, 1, 2, 1, 2], "g": list("aabbab"),
})  # fmt: skip


@pytest.fixture(scope="module")
def sure() -> fb.Model:
    model = fb.fit(LEARNT, "y", n_estimators=1, learning_rate=1.0, reg_lambda=0.0)
    return model.conform(LEARNT.with_columns(pl.col("y") + 2.0), "y")


@pytest.mark.slow
@cases("data", [ROWS, as_relation(ROWS)])
def test_labels_within_their_intervals_are_counted(sure, data):
    found = sure.evaluate(data, "y").interval
    assert found.columns == ["coverage", "held", "mean_width"]
    assert found.row(0) == pytest.approx((0.9, 4 / 6, 4.0))
    assert sure.evaluate(data, "y", weight="w").interval.row(0) == pytest.approx((0.9, 5 / 8, 4.0))
    assert sure.evaluate(data, "y", by="g").interval.rows() == [
        ("a", 0.9, pytest.approx(2 / 3), 4.0), ("b", 0.9, pytest.approx(2 / 3), 4.0),
    ]  # fmt: skip


def test_widths_by_group_are_their_own():
    model = fb.fit(LEARNT, "y", n_estimators=1, learning_rate=1.0, reg_lambda=0.0)
    of_group = LEARNT.with_columns(g=pl.Series(["a", "a", "b", "b"] * 10))
    shifted = of_group.with_columns(pl.col("y") + pl.when(pl.col("g") == "a").then(1.0).otherwise(3.0))
    found = model.conform(shifted, "y", groups="g").evaluate(as_relation(ROWS), "y", by="g").interval
    assert found.rows() == [("a", 0.9, pytest.approx(1 / 3), 2.0), ("b", 0.9, pytest.approx(2 / 3), 6.0)]


def test_a_model_without_intervals_says_so(sure):
    with pytest.raises(fb.ParameterError, match="the model has no intervals"):
        _ = sure[:1].evaluate(ROWS, "y").interval


@pytest.mark.slow
@pytest.mark.parametrize("where", ["frame", "database"])
@cases("positive", ["a", "b"])
def test_groups_of_the_target_have_its_labels(where, positive):
    rows = pl.DataFrame({"x": [1, 2, 3, 4, 5] * 8, "late": ["a", "b", "b", "a"] * 10}).with_columns(copy="late")
    model = fb.fit(rows, "late", features=["x"], n_estimators=2, positive=positive)
    con = duckdb.connect()
    data = rows if where == "frame" else con.from_arrow(rows.to_struct())
    by_target, by_copy = (model.evaluate(data, "late", by=by) for by in ("late", "copy"))
    for table in ("metrics", "confusion", "calibration"):
        one, two = getattr(by_target, table), getattr(by_copy, table).rename({"copy": "late"})
        assert one.sort(one.columns).equals(two.sort(two.columns)), table
