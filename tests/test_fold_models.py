"""`fit(folds=...)`: the mean of a model for each fold, worked out here from the folds' own fits."""

import sqlite3
from functools import partial

import duckdb
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from sklearn.model_selection import GroupKFold

import frameboost as fb
from frameboost.data.held_out import fold_parts, held_out_sources
from frameboost.data.opening import open_source
from tests.support.cases import cases
from tests.support.engines import as_relation

OPTIONS = {"features": ["x", "z", "kind"], "n_estimators": 12, "early_stopping_rounds": 2, "max_depth": 2}


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(2, 300))
    kind = rng.choice(["a", "it's", "c", None], 300)
    y = x + z**2 + (kind == "c") + 0.3 * rng.normal(size=300)
    return pl.DataFrame({
        "x": x, "z": z, "kind": pl.Series(kind.tolist(), dtype=pl.String), "who": rng.integers(0, 4, 300), "y": y,
        "label": np.where(y > 2, "high", np.where(y > 0.5, "middle", "low")), "query": rng.integers(0, 30, 300),
        "w": rng.uniform(0.5, 2, 300),
    })  # fmt: skip


def by_hand(frame: pl.DataFrame, folds, target: str = "y", **options) -> np.ndarray:
    """Return the mean of the margins of a fit for each fold, stopped early on it."""
    parts = fold_parts(open_source(frame), folds, None, options.get("seed", 0), options.get("group"))
    models = [fb.fit(part, target, valid=held_out, **OPTIONS | options) for part, held_out in parts]
    return np.mean([model.predict(frame, "margin").to_numpy() for model in models], axis=0)


@pytest.mark.slow
@cases(("folds", "options"), [
    (3, {}), (2, {"seed": 7, "weight": "w"}), ("who", {}),
    (3, {"target": "label"}), (2, {"group": "query", "objective": "rank:pairwise", "target": "who"}),
])  # fmt: skip
def test_the_model_is_the_mean_of_the_folds_models(frame, folds, options):
    model = fb.fit(frame, folds=folds, **OPTIONS | {"target": "y"} | options)
    np.testing.assert_allclose(model.predict(frame, "margin").to_numpy(), by_hand(frame, folds, **options), rtol=1e-6,
                               atol=1e-9)  # fmt: skip
    if options.get("target") == "label":
        assert model.classes == ["high", "low", "middle"]
        assert set(model.predict(frame, "class")) <= {"high", "low", "middle"}


def out_of_fold_by_hand(frame: pl.DataFrame, folds, target: str = "y", **options) -> pl.DataFrame:
    """Return what models of the folds, trained by hand, predict of the rows that they held out, in their order."""
    numbered = frame.with_row_index("position")
    strata = target if options.pop("stratified", False) else None
    parts = fold_parts(open_source(numbered), folds, None, options.get("seed", 0), options.get("group"), strata)
    found = []
    for number, (part, held_out) in enumerate(parts):
        model, rows = fb.fit(part, target, valid=held_out, **OPTIONS | options), held_out.collect()
        found.append(rows.select("position", fold=pl.lit(number, pl.Int32), prediction=model.predict(rows)))
    return pl.concat(found).sort("position").drop("position")


@pytest.mark.slow
@cases(("folds", "options"), [
    (3, {}), ("who", {}), (3, {"target": "label"}), (3, {"target": "label", "stratified": True, "seed": 4}),
    (2, {"group": "query", "objective": "rank:pairwise", "target": "who"}),
    (2, {"base_margin": "z", "weight": "w", "features": ["x"]}),
])  # fmt: skip
def test_rows_are_predicted_by_the_model_that_has_not_seen_them(frame, folds, options):
    options = {"n_estimators": 3} | options
    model = fb.fit(frame, folds=folds, **OPTIONS | {"target": "y"} | options)
    assert_frame_equal(model.out_of_fold, out_of_fold_by_hand(frame, folds, **options), check_exact=True)
    if folds == "who" or "stratified" in options:
        relation = as_relation(frame)
        of_relation = fb.fit(relation, folds=folds, **OPTIONS | {"target": "y"} | options).out_of_fold
        assert_frame_equal(of_relation, model.out_of_fold, check_exact=True)


@pytest.mark.slow
def test_cv_keeps_the_models_of_its_table(frame):
    options = {"features": ["x", "z"], "n_estimators": 30, "learning_rate": 1.0, "early_stopping_rounds": 2}
    validated = fb.cv(frame, "y", folds=3, return_models=True, **options)
    assert_frame_equal(validated.metrics, fb.cv(frame, "y", folds=3, **options), check_exact=True)
    n_rounds = len(validated.metrics)
    assert 0 < n_rounds < 30 and [model.n_rounds for model in validated.models] == [n_rounds] * 3
    found = frame.with_columns(validated.out_of_fold)
    errors = found.group_by("fold").agg(rmse=((pl.col("prediction") - pl.col("y")) ** 2).mean().sqrt())["rmse"]
    assert errors.mean() == pytest.approx(validated.metrics["valid_rmse_mean"][-1])
    for number, model in enumerate(validated.models):
        of_fold = found.filter(fold=number)
        assert model.predict(of_fold).to_list() == of_fold["prediction"].to_list()
    for peer in ("return_cvbooster", "return_estimator"):
        assert fb.cv(frame, "y", folds=3, **{peer: True}, **options).models == validated.models
        assert isinstance(fb.cv(frame, "y", folds=2, n_estimators=1, features=["x"], **{peer: False}), pl.DataFrame)
    with pytest.raises(fb.ParameterError, match="return_models must be True or False, not 1"):
        fb.cv(frame, "y", return_cvbooster=1)


def test_rows_before_the_first_part_have_no_prediction(frame):
    later = fb.cv(frame, "y", folds=3, time="z", features=["x"], n_estimators=1, return_models=True).out_of_fold
    rank = frame["z"].rank("min").cast(pl.Int64) - 1
    parts = (rank * 4 // len(frame)).cast(pl.Int32)
    assert later["fold"].to_list() == [None if part == 0 else part - 1 for part in parts]
    assert later["prediction"].is_null().equals(later["fold"].is_null())


@pytest.mark.slow
def test_groups_and_queries_stay_together_in_cross_validation(frame):
    options = {"exclude": ["y", "label"], "n_estimators": 1}
    ranking, splitter = {"target": "who", "objective": "rank:pairwise"}, GroupKFold(3)
    ways = {
        "cv, groups": fb.cv(frame, "y", folds=3, groups="query", return_models=True, **options),
        "cv, queries": fb.cv(frame, folds=3, group="query", return_models=True, **ranking, **options),
        "cv, group": fb.cv(frame, "y", folds=3, group="query", return_models=True, **options),
        "cv, splitter": fb.cv(frame, "y", folds=splitter, groups="query", return_models=True, **options),
        "fit, numbers": fb.fit(frame, "y", folds=3, group="query", eval_metric="mae", **options),
        "fit, classes": fb.fit(frame, "label", folds=3, group="query", **options | {"exclude": "y"}),
        "fit, splitter": fb.fit(frame, "y", folds=splitter, group="query", **options),
        "fit, relation": fb.fit(as_relation(frame), "y", folds=3, group="query", **options),
        "auto": fb.auto(frame, "y", group="query", quality=2, exclude=["y", "label"]),
        "fit, metric of queries": fb.fit(frame, "who", folds=3, group="query", eval_metric="ndcg", **options),
    }
    for way, validated in ways.items():
        folds = frame.with_columns(validated.out_of_fold).group_by("query").agg(pl.col("fold").n_unique())["fold"]
        assert len(folds) == frame["query"].n_unique() and set(folds) == {1}, way
        model = validated.models[0] if way.startswith("cv") else validated
        assert "query" not in model.features and "x" in model.features, way
    assert ways["fit, relation"] == ways["fit, numbers"]
    assert ways["cv, group"].out_of_fold.equals(ways["cv, groups"].out_of_fold)


def test_a_share_is_of_whole_groups(frame):
    options = {"features": ["x"], "n_estimators": 1}
    model = fb.fit(frame, "y", valid=0.3, group="query", seed=3, **options)
    _, parts = held_out_sources(open_source(frame), 0.3, None, "query", 3)
    held_out = parts["valid"].source.to_frame(["query", "x", "y"]).collect()
    assert (
        0
        < len(held_out)
        < len(frame)
        == held_out["query"].is_in(frame["query"].implode()).sum()
        + len(frame.filter(~pl.col("query").is_in(held_out["query"].implode())))
    )
    error = (model.predict(held_out) - held_out["y"]).pow(2).mean() ** 0.5
    assert model.history.columns == ["round", "valid_rmse"] and model.history["valid_rmse"][0] == pytest.approx(error)


@pytest.mark.slow
@cases("folds", [2, 3, 7])
def test_each_fold_has_its_share_of_each_class(frame, folds):
    options = {"features": ["x"], "n_estimators": 1, "folds": folds, "stratified": True}
    found = frame.with_columns(fb.fit(frame, "label", **options).out_of_fold)
    counts = (
        found.group_by("label", "fold")
        .len()
        .group_by("label")
        .agg(pl.col("len").min().alias("low"), pl.col("len").max())
    )
    assert (counts["len"] - counts["low"] <= 1).all()
    sizes = found.group_by("fold").len()["len"]
    assert sizes.max() - sizes.min() <= 1 and len(sizes) == folds
    other = fb.fit(frame, "label", **options, seed=1).out_of_fold["fold"]
    assert not other.equals(found["fold"])


@cases(("options", "message"), [
    ({}, "stratified needs a number of folds, such as folds=5, and there are none"),
    ({"folds": "who"}, "stratified needs a number of folds, such as folds=5, and column 'who' assigns the rows"),
    ({"folds": 3, "target": "y"}, "stratified is for one target of classes, not for objective 'reg:squarederror'"),
    ({"folds": 3, "group": "who"}, "group can't be combined with stratified=True: rows of one value stay in one fold"),
    ({"folds": 3, "stratified": "label"}, "stratified must be True or False, not 'label'"),
])  # fmt: skip
def test_what_can_not_be_stratified_is_refused(frame, options, message):
    with pytest.raises(fb.ParameterError) as error:
        fb.fit(frame, **{"target": "label", "stratified": True} | options)
    assert str(error.value) == message


def test_cross_validation_and_search_refuse_two_ways_to_deal_rows(frame):
    for function, ways in ((fb.cv, ("time", "groups")), (fb.auto, ("time", "groups"))):
        for way in ways:
            with pytest.raises(fb.ParameterError, match=f"{way} can't be combined with stratified=True"):
                function(frame, "label", stratified=True, **{way: "who"})
    with pytest.raises(fb.ParameterError, match="groups can't be combined with a column of folds"):
        fb.cv(frame, "y", folds="who", groups="query")
    with pytest.raises(fb.ParameterError, match="groups can't be combined with time"):
        fb.cv(frame, "y", time="x", groups="query")


@pytest.mark.slow
def test_rows_of_every_container_are_in_their_order(frame, tmp_path):
    options = {"features": ["x", "z"], "n_estimators": 2}
    expected = fb.fit(frame, "y", folds=3, **options).out_of_fold
    rows = frame.select("x", "z", "y").with_row_index("id")
    rows.write_parquet(tmp_path / "rows.parquet")
    connection = sqlite3.connect(tmp_path / "rows.db")
    connection.execute("CREATE TABLE rows (id INTEGER, x REAL, z REAL, y REAL)")
    connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", rows.select("id", "x", "z", "y").rows()[::-1])
    table = fb.table(connection, "rows", key="id")
    for data in (frame.to_pandas(), [frame[:99], frame[99:]], tmp_path / "rows.parquet", rows.lazy(), table):
        assert_frame_equal(fb.fit(data, "y", folds=3, **options).out_of_fold, expected, check_exact=True)
    connection.close()
    whos = pl.DataFrame({"who": range(4), "size": [1.0, 4.0, 2.0, 3.0]})
    joined = frame.join(whos, on="who", how="left", maintain_order="left")
    of_star, of_join = (
        fb.fit(data, "y", folds=3, features=["x", "size"], n_estimators=2).out_of_fold
        for data in (fb.join(frame, whos, on="who"), joined)
    )
    assert_frame_equal(of_star, of_join, check_exact=True)


@pytest.mark.slow
def test_rows_that_are_drawn_anew_have_no_predictions(frame):
    options = {"features": ["x"], "folds": 2, "n_estimators": 1}
    with duckdb.connect() as con:
        con.register("frame", frame)
        con.execute("CREATE TABLE rows AS FROM frame")
        for query in ("FROM rows USING SAMPLE 100", "FROM rows WHERE random() < 0.5"):
            model = fb.fit(con.sql(query), "y", **options)
            with pytest.raises(
                fb.ParameterError, match="no out-of-fold predictions: the query draws rows or values anew"
            ):
                model.out_of_fold  # noqa: B018
        assert fb.fit(con.table("rows"), "y", **options).out_of_fold.height == len(frame)


@pytest.mark.slow
def test_names_of_the_result_are_names_of_columns(frame):
    names = {"x": "position", "z": "fold", "who": "prediction", "kind": 'it\'s; "fold"'}
    other, options = frame.rename(names), {"n_estimators": 2, "seed": 3}
    for data, hostile in ((frame, other), (as_relation(frame), as_relation(other))):
        expected = fb.fit(data, "y", folds=3, features=list(names), **options).out_of_fold
        found = fb.fit(hostile, "y", folds=3, features=list(names.values()), **options).out_of_fold
        assert_frame_equal(found, expected, check_exact=True)
        validated = fb.cv(hostile, "y", folds=3, features=list(names.values()), **options, return_models=True)
        assert_frame_equal(validated.out_of_fold, expected, check_exact=True)
    searched, hostile = (
        fb.auto(data, "y", quality=1, features=list(used), n_estimators=3)
        for data, used in ((frame, names), (other, names.values()))
    )
    assert_frame_equal(hostile.out_of_fold, searched.out_of_fold, check_exact=True)


@pytest.mark.slow
def test_a_model_without_such_predictions_says_so(frame, tmp_path):
    model = fb.fit(frame, "y", folds=2, **OPTIONS)
    model.save(tmp_path / "m.json")
    late = fb.fit(frame.with_columns(late=pl.col("y") > 1), "late", folds=2, features=["x"], n_estimators=1)
    assert late.out_of_fold.height == 300
    later = frame.with_columns(late=pl.col("y") > 1)
    for other in (
        fb.load(tmp_path / "m.json"),
        fb.fit(frame, "y", n_estimators=1),
        model[:1],
        late.calibrate(later, "late"),
    ):
        with pytest.raises(fb.ParameterError, match=r"no out-of-fold predictions; fit\(folds=5\), auto and cv"):
            _ = other.out_of_fold
    kept = model.conform(frame, "y").with_metadata(name="a")
    assert kept.out_of_fold.equals(model.out_of_fold)
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS FROM frame")
    model = fb.fit(
        con.sql("SELECT any_value(x) AS x, avg(y) AS y, who FROM t GROUP BY ALL"), "y", folds="who", n_estimators=1
    )
    with pytest.raises(
        fb.ParameterError, match="no out-of-fold predictions: the rows of this query have no fixed order"
    ):
        _ = model.out_of_fold


def test_what_does_not_go_with_several_fits_is_refused(frame, tmp_path):
    for name, value in {"valid": frame, "time": "x", "init_model": fb.fit(frame, "y", n_estimators=1),
                        "callbacks": [lambda number, found: None], "checkpoint": tmp_path / "c"}.items():  # fmt: skip
        with pytest.raises(fb.ParameterError, match=f"folds can't be combined with {name}: "):
            fb.fit(frame, "y", folds=3, **{name: value})
    for folds in (1, 2.5, True):
        with pytest.raises(fb.ParameterError, match="folds must be an integer from 2"):
            fb.fit(frame, "y", folds=folds)
    with pytest.raises(fb.DataError, match="column 'nobody', of folds, is not in the data"):
        fb.fit(frame, "y", folds="nobody")
    with pytest.raises(fb.ParameterError, match="auto takes no folds"):
        fb.auto(frame, "y", folds=3)


def test_errors_say_that_they_are_of_the_rows_without_a_fold():
    rows, message = pl.DataFrame({"x": [0.0, 1.0], "y": [1.0, 2.0]}), "without fold [12], the data has 1 row"
    for train in (fb.fit, fb.cv):
        with pytest.raises(fb.DataError, match=f"^{message}"):
            train(rows, "y", folds=2)


ROW = pl.int_range(pl.len())
WRONG = {
    "an infinite target": ({"y": pl.when(ROW == 3).then(float("inf")).otherwise(pl.col("y"))}, {}),
    "a huge target": ({"y": pl.col("y") * 1e200}, {}),
    "a target below 0": ({"y": ROW - 20.0}, {"objective": "count:poisson"}),
    "a class below 0": ({"y": ROW % 3 - 1.0}, {"objective": "multi:softprob"}),
    "weights below 0": ({"w": ROW - 20.0}, {"weight": "w"}),
    "weights of 0": ({"w": ROW * 0.0}, {"weight": "w"}),
    "a missing weight": ({"w": pl.when(ROW != 11).then(1.0)}, {"weight": "w"}),
    "a missing offset": ({"o": pl.when(ROW != 11).then(1.0)}, {"base_margin": "o"}),
    "offsets of another number": ({"o": ROW * 0.0, "y": ROW % 3}, {"base_margin": "o", "objective": "multi:softprob"}),
}


@pytest.mark.slow
@cases("name", [*WRONG])
def test_errors_of_all_rows_are_those_of_one_fit(name):
    columns, options = WRONG[name]
    rows = pl.DataFrame({"x": range(40), "y": [float(i % 7) for i in range(40)]}).with_columns(**columns)
    calls = [fb.fit, partial(fb.fit, folds=4), partial(fb.cv, folds=4), partial(fb.auto, verbose=False)]
    messages = []
    for call in calls:
        with pytest.raises((fb.DataError, fb.ParameterError)) as error:
            call(rows, "y", features=["x"], n_estimators=2, **options)
        messages.append(str(error.value))
    assert messages[1:] == messages[:1] * 3
