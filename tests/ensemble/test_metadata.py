"""What is known of where a model comes from, and the shares of its rows in bins: in its file, and in other models."""

import datetime as dt
import hashlib
import json
import pickle

import duckdb
import polars as pl
import pytest

import frameboost as fb
from frameboost.ensemble.metadata import Metadata
from tests.support.cases import cases

ROWS = pl.DataFrame({"x": [i % 7 for i in range(60)], "s": [None if i % 9 == 0 else "abc"[i % 3] for i in range(60)]})
ROWS = ROWS.with_columns(y=pl.col("x") * 2.0, k=pl.col("x") % 3, late=pl.col("x") > 3, years=pl.col("x") / 4 + 1)
FEATURES = ["x", "s"]


def fitted(target: str = "y", **options) -> fb.Model:
    return fb.fit(ROWS, target, **{"features": FEATURES, "n_estimators": 3, **options})


@pytest.mark.slow
def test_a_fit_fills_in_when_on_what_and_by_what():
    started = dt.datetime.now(dt.UTC).replace(microsecond=0)
    con = duckdb.connect()
    con.register("arrived", ROWS)
    con.execute("CREATE TABLE t AS FROM arrived")
    query = "SELECT * FROM t WHERE x < 6"
    small = ROWS.filter(pl.col("x") < 6).height
    models = {
        60: [fitted(), fitted(folds=3), fb.auto(ROWS, "y", features=FEATURES, quality=1), fitted().refit(ROWS, "y"),
             fitted(init_model=fitted()), fb.fit(ROWS.lazy(), "y", features=FEATURES, engine="polars", n_estimators=1)],
        ROWS.height - ROWS["late"].sum(): [fitted(valid="late")],
        small: [fb.fit(con.sql(query), "y", features=FEATURES, n_estimators=2, **how)
                for how in ({}, {"folds": 2}, {"engine": "duckdb"})],
    }  # fmt: skip
    for rows, of_rows in models.items():
        for model in of_rows:
            about = model.metadata
            assert (about.rows, about.library, about.name) == (rows, f"frameboost {fb.__version__}", None)
            assert started <= about.trained <= dt.datetime.now(dt.UTC)
            assert about.query == (hashlib.sha256(query.encode()).hexdigest() if rows == small else None)
    assert fb.fit(con.from_arrow(ROWS.to_struct()), "y", features=FEATURES, n_estimators=1).metadata.query is None
    assert '"metadata"' not in models[60][0].to_json()


@pytest.mark.parametrize("name", ["m.json", "m.ubj"])
def test_a_file_has_them(tmp_path, name):
    zero = ROWS.with_columns(b=pl.col("x") == 2, t=pl.lit(dt.datetime(2026, 1, 1)) + pl.duration(days="x"))
    of_types = fb.fit(zero, "y", features=["b", "t", "s", "years"], n_estimators=2)
    for model, rows in (
        (fitted(), ROWS), (fitted("k", objective="multi:softprob"), ROWS), (of_types, zero),
        (fitted(objective="reg:quantileerror", quantile_alpha=[0.1, 0.9]), ROWS),
        (fitted(objective="count:poisson", exposure="years"), ROWS), (fitted(linear_tree=True), ROWS),
    ):  # fmt: skip
        more = model.with_metadata(name='ü "a"', version="3", tags={"b": "", "a": "x"}, data=rows).with_baseline(rows)
        more.save(tmp_path / name)
        read = fb.load(tmp_path / name)
        for same in (read, pickle.loads(pickle.dumps(read))):
            assert (same.metadata, same) == (more.metadata, model)
            assert same.baseline.features.equals(more.baseline.features)
            assert same.baseline.scores.equals(more.baseline.scores)
            assert (same.baseline.rows, same.sha256, same.to_json()) == (60, model.sha256, model.to_json())
        assert 'ü "a", version 3' in repr(read)
    assert model.sha256 == hashlib.sha256(model.to_json().encode()).hexdigest()


def test_the_baseline_has_shares_of_features_and_of_predictions():
    model = fitted("k", objective="multi:softprob")
    baseline = model.with_baseline(ROWS, bins=4).baseline
    assert baseline.features.equals(model.database().baseline(ROWS, 4))
    predicted = model.predict(ROWS)
    for number in range(3):
        of_class = predicted.arr.get(number)
        bins = baseline.scores.filter(pl.col("feature") == f"prediction_{number}")
        assert bins["bin"].to_list() == list(range(-1, bins.height - 1))
        for lower, upper, share in bins[1:].select("lower", "upper", "share").rows():
            inside = pl.lit(True) if lower is None else pl.lit(of_class) >= float(lower)
            inside &= pl.lit(True) if upper is None else pl.lit(of_class) < float(upper)
            assert share == pl.select(inside.mean()).item()
    exposed = fitted(objective="count:poisson", exposure="years").with_baseline(ROWS.with_columns(years=None))
    assert exposed.baseline.scores.filter(pl.col("bin") == -1)["share"].to_list() == [1.0]
    by_default = fb.auto(ROWS, "y", features=FEATURES, quality=1)
    assert by_default.baseline.features.equals(by_default.database().baseline(ROWS))
    query = model.with_baseline(ROWS).database().drift_query("ROWS")
    assert query == model.database().drift_query("ROWS", model.database().baseline(ROWS))
    with pytest.raises(fb.ParameterError, match="the model has no baseline; pass one"):
        model.database().drift_query("t")
    with pytest.raises(fb.DataError, match="no rows"):
        model.with_baseline(ROWS.clear())


def test_models_made_of_it_keep_what_is_true_of_them():
    called = fitted("late").with_metadata(name="a", version="1", tags={"t": "u"}).with_baseline(ROWS)
    number = fitted().with_metadata(name="a", version="1", tags={"t": "u"}).with_baseline(ROWS)
    made = {
        "slice": called[:2], "calibrated": called.calibrate(ROWS, "late"), "conformed": number.conform(ROWS, "y"),
        "refitted": number.refit(ROWS, "y"),
    }  # fmt: skip
    for how, model in made.items():
        assert (model.metadata.name, model.metadata.version, model.metadata.tags) == ("a", None, {"t": "u"}), how
        assert model.metadata.rows == 60
        assert (model.baseline is None) == (how != "conformed"), how
    assert called[:] == called and called[:].metadata == called.metadata
    again = called.with_metadata(version="2")
    assert (again.metadata.name, again.metadata.version, again.metadata.tags) == ("a", "2", {"t": "u"})
    assert called.with_metadata(tags={}).metadata.tags == {}


def test_the_hash_of_rows_is_of_names_types_values_and_order():
    def digest(rows) -> str:
        return fitted().with_metadata(data=rows).metadata.data

    con = duckdb.connect()
    con.register("arrived", ROWS)
    same = [ROWS, ROWS.lazy(), pl.concat([ROWS[:20], ROWS[20:]], rechunk=False), con.sql("FROM arrived")]
    others = [
        ROWS.reverse(), ROWS[1:], ROWS.rename({"x": "z"}), ROWS.with_columns(pl.col("x").cast(pl.Int32)),
        ROWS.with_columns(pl.col("s").fill_null("")), ROWS.with_columns(pl.col("x").replace(0, None)),
        ROWS.with_columns(s=pl.col("s").replace({"a": "ab", "b": ""})), ROWS.select(ROWS.columns[::-1]),
    ]  # fmt: skip
    assert len({digest(rows) for rows in same}) == 1
    assert len({digest(rows) for rows in [ROWS, *others]}) == 1 + len(others)


@cases("arguments, message", [
    ({"name": ""}, "name must be a line of text of 1 to 200 characters, not ''"),
    ({"name": "a\nb"}, "name must be a line of text"), ({"version": 3}, "version must be a line of text .* not 3"),
    ({"version": "\ud800"}, "version must be a line"), ({"tags": ["a"]}, "tags must be a dict"),
    ({"tags": {"a": 1}}, "tags must be lines of text by name.*'a': 1"), ({"tags": {1: "a"}}, "tags must be lines"),
    ({"tags": {str(i): "" for i in range(101)}}, "at most 100 texts"), ({"tags": {"a": "\0"}}, "tags must be lines"),
])  # fmt: skip
def test_texts_are_lines(arguments, message):
    with pytest.raises(fb.ParameterError, match=message):
        fitted().with_metadata(**arguments)


def bins(**changes) -> dict:
    one = {"feature": ["x"], "bin": [0], "lower": [None], "upper": [None], "category": [None], "share": [1.0]}
    return one | changes


SCORES = bins(feature=["prediction"])


@pytest.mark.slow
@cases("line, message", [
    ({"metadata": []}, '"metadata" must be an object'), ({"metadata": {"nam": "a"}}, "nam"),
    ({"metadata": {"name": "a\nb"}}, '"name" must be a line'), ({"metadata": {"rows": 0}}, '"rows" must be a number'),
    ({"metadata": {"rows": True}}, '"rows" must be'), ({"metadata": {"query": "ABC"}}, '"query" must be 64 hex'),
    ({"metadata": {"trained": "2026-11-27"}}, '"trained" must be a time'),
    ({"metadata": {"trained": 5}}, '"trained" must be a time'), ({"metadata": {"library": "${a}"}}, '"library" must'),
    ({"metadata": {"tags": {"a": 1}}}, '"tags" must be an object'), ({"baseline": 1}, '"baseline" must be an object'),
    ({"baseline": {"rows": 1, "features": bins()}}, '"scores" must be an object of lists'),
    ({"baseline": {"rows": -1, "features": bins(), "scores": SCORES}}, '"rows" must be'),
    ({"baseline": {"rows": 1, "features": bins(feature=["z"]), "scores": SCORES}}, "'z', which is not one of the"),
    ({"baseline": {"rows": 1, "features": bins(lower=["a"]), "scores": SCORES}}, "not a value of feature 'x'"),
    ({"baseline": {"rows": 1, "features": bins(bin=[]), "scores": SCORES}}, "columns of the same length"),
    ({"baseline": {"rows": 1, "features": bins(share=["1"]), "scores": SCORES}}, '"share" must be a list of values'),
    ({"baseline": {"rows": 1, "features": bins(bin=[2**40]), "scores": SCORES}}, '"bin" must be a list of values'),
    ({"baseline": {"rows": 1, "features": bins(share=[2.0]), "scores": SCORES}}, "without a share"),
    ({"baseline": {"rows": 1, "features": bins(), "scores": bins()}}, "'x', which is not one of the"),
])  # fmt: skip
def test_files_are_checked(tmp_path, line, message):
    text = fb.fit(ROWS, "y", features=["x"], n_estimators=1).to_json()
    (key, value), path = next(iter(line.items())), tmp_path / "m.json"
    path.write_text(text.replace('"features": [\n', f'"{key}": {json.dumps(value)},\n"features": [\n', 1))
    with pytest.raises(fb.ModelFileError, match=f"damaged model.*{message}"):
        fb.load(path)
    path.write_text(text)
    assert fb.load(path).metadata == Metadata()


def test_a_model_of_another_library_says_so():
    tree = pytest.importorskip("sklearn.tree").DecisionTreeClassifier().fit([[1], [2], [3]], [0, 0, 1])
    read = fb.from_sklearn(tree)
    assert read.metadata == Metadata(library="scikit-learn")
    assert "by scikit-learn" in read._repr_html_()
