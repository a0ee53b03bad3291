"""The importance of features on rows, and the comparison of two models, held to values worked out here."""

import sqlite3

import duckdb
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import frameboost as fb
from frameboost.dialects.built_in import get_dialect
from frameboost.expressions.draws import draw_key, hash32
from tests.engines.databases.test_tables import connection_of, stored
from tests.support.cases import cases
from tests.support.warehouses import databases, open_warehouse

NAME = 'it\'s "z", a=1'


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(3)
    x, z = rng.normal(size=(2, 240))
    kind = rng.choice(["a", "it's", None], 240)
    y = 3 * x + z**2 + (kind == "a") + rng.normal(size=240) / 4
    return pl.DataFrame({
        "x": x, NAME: z, "kind": pl.Series(kind.tolist(), dtype=pl.String), "one": 1, "y": y, "late": y > 1,
        "label": np.where(y > 2, "high", np.where(y > 0, "middle", "low")), "query": rng.integers(0, 24, 240),
        "grade": np.clip(y, 0, 4).astype(int), "w": rng.uniform(0.5, 2, 240),
    })  # fmt: skip


FEATURES = ["x", NAME, "kind", "one"]


def fitted(frame, target, **options):
    return fb.fit(frame, target, features=FEATURES, n_estimators=6, max_depth=3, **options)


def rmse(model, frame):
    return float(np.sqrt(np.mean((model.predict(frame).to_numpy() - frame["y"].to_numpy()) ** 2)))


def share_of_errors(model, frame):
    return float(np.average(model.predict(frame, "class") != frame["label"], weights=frame["w"]))


def area(model, frame):
    score, late = model.predict(frame).to_numpy(), frame["late"].to_numpy()
    above = score[late][:, None] - score[~late][None, :]
    return -float(np.mean((above > 0) + (above == 0) / 2))  # more is better


def dealt(frame, name, seed, number, repeat):
    """Return the rows with the values of a column in the order of the hashes of their positions."""
    key = draw_key(seed, number, repeat)
    order = sorted(range(len(frame)), key=lambda position: (hash32(position, key), position))
    return frame.with_columns(frame[name].gather(order))


@pytest.mark.slow
@cases(("target", "options", "error"), [
    ("y", {}, rmse), ("label", {"weight": "w", "eval_metric": ["mlogloss", "merror"]}, share_of_errors),
    ("late", {"eval_metric": "auc"}, area),
])  # fmt: skip
def test_permutations_make_the_metric_worse(frame, target, options, error):
    model = fitted(frame, target)
    found = model.importance("permutation", frame, target, repeats=3, seed=7, **options)
    expected = {}
    for number, name in enumerate(FEATURES):
        worse = []
        for repeat in range(3):
            worse.append(error(model, dealt(frame, name, 7, number, repeat)) - error(model, frame))
        expected[name] = (np.mean(worse), np.std(worse, ddof=1))
    assert found["importance"].to_list() == sorted(found["importance"], reverse=True)
    for name, *numbers in found.rows():
        np.testing.assert_allclose(numbers, expected[name], rtol=1e-9, atol=1e-12)
    assert dict(found.select("feature", "importance").rows())["one"] == 0.0
    once = model.importance("permutation", frame, target, repeats=1, seed=7, **options)
    assert once["deviation"].null_count() == len(FEATURES)


@cases(("target", "options"), [("y", {}), ("label", {}), (["y", "grade"], {}), ("y", {"base_margin": "w"})])
def test_shapley_values_are_summed_up(frame, target, options, monkeypatch):
    model = fitted(frame, target, **options)
    found = model.importance("shap", frame)
    explained = model.explain(frame)
    if model.ensemble.n_outputs > 1:
        of_output = explained.filter(pl.col("feature") != "bias").group_by("feature").agg(pl.col("value").abs().sum())
        expected = {name: value / len(frame) for name, value in of_output.rows()}
    else:
        expected = {name: explained[name].abs().mean() for name in FEATURES}
    assert found.columns == ["feature", "importance"]
    for name, value in found.rows():
        assert value == pytest.approx(expected[name], rel=1e-12)
    monkeypatch.setattr("frameboost.evaluation.importance._ROWS_AT_A_TIME", 100)
    assert_frame_equal(model.importance("shap", frame), found, rel_tol=1e-12)


def test_rows_of_a_database_have_the_importance_of_a_frame(frame, tmp_path):
    model = fitted(frame, "y")
    con, other = duckdb.connect(), sqlite3.connect(tmp_path / "t.db")
    con.execute("CREATE TABLE t AS FROM frame")
    frame.write_parquet(tmp_path / "t.parquet")
    columns = [*FEATURES, "y"]
    names = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
    other.execute(f"CREATE TABLE t ({names})")
    other.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(columns))})", frame.select(columns).rows())
    shap, permuted = model.importance("shap", frame), model.importance("permutation", frame, "y", repeats=2)
    for data in (con.table("t"), tmp_path / "t.parquet", fb.table(other, "t")):
        assert_frame_equal(model.importance("shap", data), shap, rel_tol=1e-12)
        if not isinstance(data, fb.data.database_table.DatabaseTable):
            assert_frame_equal(model.importance("permutation", data, "y", repeats=2), permuted, rel_tol=1e-12)
    with pytest.raises(fb.ParameterError, match=r"deals values to rows by their positions.*fb.table\(..., key='id'\)"):
        model.importance("permutation", fb.table(other, "t"), "y")
    other.close()


IN_QUERIES = [
    ("y", {}), ("label", {"weight": "w", "eval_metric": ["mlogloss", "merror"]}), ("late", {"eval_metric": "auc"}),
    ("y", {"weight": "w", "eval_metric": fb.Metric("far", "AVG(CASE WHEN ABS(label - prediction) > 1 THEN 1 END)")}),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", databases("sqlite", "duckdb", "postgres", "mariadb", "clickhouse", "datafusion"))
def test_the_rows_of_a_table_stay_in_the_database(name, frame, monkeypatch):
    database = open_warehouse(name)
    stored(database, "importance", frame)
    table = fb.table(connection_of(database), "importance", key="id")
    monkeypatch.setattr(type(table), "to_frame", None)
    for target, options in IN_QUERIES:
        model = fitted(frame, target)
        shap, permuted = (
            model.importance("shap", frame),
            model.importance("permutation", frame, target, repeats=2, **options),
        )
        assert_frame_equal(model.importance("shap", table), shap, rel_tol=1e-9, abs_tol=1e-12)
        in_queries = model.importance("permutation", table, target, repeats=2, **options)
        assert_frame_equal(in_queries, permuted, rel_tol=1e-9, abs_tol=1e-12)


@pytest.mark.slow
def test_a_table_says_what_a_query_cannot(frame):
    model, grades = fitted(frame, "y", base_margin="w"), fitted(frame, "grade", objective="rank:ndcg", group="query")
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t AS SELECT row_number() OVER () AS id, * FROM frame")
        table, some = (fb.table(con, query, dialect="duckdb", key="id") for query in ("t", "SELECT * FROM t LIMIT 0"))
        options = {"group": "query", "eval_metric": "ndcg"}  # read in the order of the key
        of_ranks = grades.importance("permutation", table, "grade", **options)
        assert_frame_equal(of_ranks, grades.importance("permutation", frame, "grade", **options), rel_tol=1e-12)
        with pytest.raises(fb.DataError, match=r"table .* has no row that counts, so that there is no metric"):
            model.importance("permutation", some, "y")
        with pytest.raises(fb.DataError, match="has no rows"):
            model.importance("shap", some)
        with pytest.raises(fb.DataError, match="target column 'nobody' is not in the data"):
            model.importance("permutation", table, "nobody")
        con.execute("UPDATE t SET y = NULL WHERE id = 3")
        with pytest.raises(fb.DataError, match=r"table 't' has 1 row without a label, or with a label, a weight or"):
            model.importance("permutation", table, "y")
        con.execute("UPDATE t SET id = 4 WHERE id = 3")
        with pytest.raises(fb.DataError, match="key column 'id' has 239 distinct values in 240 rows"):
            model.importance("permutation", table, "y")


def mae(label, prediction):
    return float(np.mean(np.abs(label - prediction)))


@pytest.mark.slow
@pytest.mark.parametrize(("target", "fit", "options"), [
    *((target, {}, options) for target, options in IN_QUERIES), ("y", {"base_margin": "w"}, {"weight": "w"}),
    ("y", {}, {"eval_metric": mae}), ("grade", {"objective": "rank:ndcg", "group": "query"},
                                      {"group": "query", "eval_metric": "ndcg@3"}),
])  # fmt: skip
def test_a_relation_larger_than_memory_is_permuted_by_queries(frame, target, fit, options, monkeypatch):
    model = fitted(frame, target, **fit)
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t AS FROM frame")
        expected = model.importance("permutation", frame, target, repeats=2, **options)
        monkeypatch.setattr("frameboost.evaluation.importance.available_memory", lambda: 0)
        monkeypatch.setattr("frameboost.data.sources.RelationSource.to_frame", None)
        found = model.importance("permutation", con.table("t"), target, repeats=2, **options)
        assert_frame_equal(found, expected, rel_tol=1e-9, abs_tol=1e-12)
        assert con.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [("t",)]


def test_what_is_too_large_for_a_query_is_read(frame, monkeypatch):
    model = fb.fit(frame, "y", features=["x", "kind"], n_estimators=4)
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t AS SELECT row_number() OVER () AS id, * FROM frame")
        table, limit = fb.table(con, "t", dialect="duckdb", key="id"), "frameboost.database.database_model.get_dialect"
        small = get_dialect("duckdb", {"text": 300})
        monkeypatch.setattr(limit, lambda *_: small)
        with pytest.raises(fb.TooLargeError):
            model.database().evaluate_query("t", "y")
        for kind, of_labels in (("shap", {}), ("permutation", {"target": "y", "repeats": 2})):
            expected = model.importance(kind, frame, **of_labels)
            assert_frame_equal(model.importance(kind, table, **of_labels), expected, rel_tol=1e-12)


def test_a_feature_that_has_another_role_keeps_it(frame):
    model = fb.fit(frame, "y", features=["x", "w", "grade"], n_estimators=4)
    weight = frame["w"].to_numpy()

    def error(rows):
        return float(np.average(np.abs(model.predict(rows) - frame["y"].to_numpy()), weights=weight))

    expected = error(dealt(frame, "w", 0, 1, 0)) - error(frame)
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t AS SELECT row_number() OVER () AS id, * FROM frame")
        for data in (frame, fb.table(con, "t", dialect="duckdb", key="id")):
            found = model.importance("permutation", data, "y", weight="w", eval_metric="mae", repeats=1)
            assert dict(found.drop("deviation").rows())["w"] == pytest.approx(expected, rel=1e-9)


def test_queries_are_ranked_anew(frame):
    model = fitted(frame, "grade", objective="rank:ndcg", group="query")
    found = dict(
        model.importance("permutation", frame, "grade", group="query", eval_metric="ndcg").drop("deviation").rows()
    )
    assert found["x"] > found["kind"] and found["x"] > 0.02


@cases(("arguments", "message"), [
    (("split",), r"importance must be one of 'gain', .*'permutation', 'shap', not 'split'"),
    (("permutation",), "importance of permutations needs data and target, the column of the labels"),
    (("shap",), "importance of kind 'shap' needs data, the rows to explain"),
    (("gain", "rows"), "data is for importance of kinds 'permutation' and 'shap', not of 'gain'"),
    (("shap", "rows", "y"), "target is for importance of kind 'permutation', not of 'shap'"),
    (("permutation", "rows", "nobody"), "target column 'nobody' is not in the data"),
    (("permutation", "none", "y"), "no rows"), (("shap", "none"), "the data has no rows"),
])  # fmt: skip
def test_wrong_arguments_are_refused(frame, arguments, message):
    model, rows = fitted(frame, "y"), {"rows": frame, "none": frame.clear()}
    with pytest.raises(fb.FrameboostError, match=message):
        model.importance(*(rows.get(value, value) for value in arguments))
    with pytest.raises(fb.ParameterError, match="repeats must be an integer from 1 to 1000, not 0"):
        model.importance("permutation", frame, "y", repeats=0)


# --- two models -------------------------------------------------------------------------------------------------------


def test_a_comparison_has_metrics_and_what_differs(frame):
    first = fitted(frame, "y")
    second = fb.fit(frame, "y", features=["x", "w"], n_estimators=8, max_depth=3).conform(frame, "y")
    found = fb.compare(first, second, frame, "y", eval_metric=["rmse", "mae"], resamples=100, seed=1)
    errors = {"rmse": rmse, "mae": lambda model, rows: float((model.predict(rows) - rows["y"]).abs().mean())}
    assert found.metrics.columns == ["metric", "first", "second", "difference", "low", "high"]
    for name, one, other, difference, low, high in found.metrics.rows():
        assert (one, other) == pytest.approx((errors[name](first, frame), errors[name](second, frame)))
        assert difference == pytest.approx(other - one) and low < difference < high
    differences = {(of, name): (a, b) for of, name, a, b in found.differences.rows()}
    assert differences["model", "interval"] == ("none", "90 %")
    assert differences["model", "trees"] == ("6", "8") == differences["parameter", "n_estimators"]
    assert differences["feature", NAME] == ("float64", None) and differences["feature", "w"] == (None, "float64")
    assert ("feature", "x") not in differences and ("parameter", "max_depth") not in differences
    assert "rmse" in repr(found) and "n_estimators" in repr(found)
    same = fb.compare(first, first, frame, "y", resamples=0)
    assert same.differences.is_empty() and set(same.metrics["difference"]) == {0.0}
    assert same.metrics["low"].is_nan().all()


def test_models_of_several_targets_are_compared(frame):
    targets = ["y", "grade"]
    first, second = fitted(frame, targets), fitted(frame, targets, multi_strategy="multi_output_tree")
    found = fb.compare(first, second, frame, targets, weight="w", eval_metric="mae", resamples=20).metrics
    for model, value in ((first, found["first"].item()), (second, found["second"].item())):
        wrong = np.abs(model.predict(frame).to_numpy() - frame.select(targets).to_numpy()).mean(axis=1)
        assert value == pytest.approx(np.average(wrong, weights=frame["w"]))
    with pytest.raises(fb.ParameterError, match="the model predicts 2 targets, not 1"):
        fb.compare(first, second, frame, "y")


@cases(("arguments", "message"), [
    ((None, "model", "y"), "first must be a Model, as fb.fit and fb.load return it, not None"),
    (("model", "m.json", "y"), "second must be a Model, as fb.fit and fb.load return it, not 'm.json'"),
    (("model", "model", ["y", "grade"]), "the model predicts 1 target, not 2"),
    (("model", "labels", "y"), "target 'y' has"),
])  # fmt: skip
def test_what_is_no_model_is_not_compared(frame, arguments, message):
    known = {"model": fitted(frame, "y"), "labels": fitted(frame, "label")}
    first, second, target = (known.get(value, value) if isinstance(value, str) else value for value in arguments)
    with pytest.raises(fb.FrameboostError, match=message):
        fb.compare(first, second, frame, target)
