"""Weights of classes are weights of rows; thresholds are those of the class, wherever it is asked for."""

import re

import duckdb
import numpy as np
import polars as pl
import pytest
from sklearn.metrics import f1_score
from sklearn.utils.class_weight import compute_sample_weight

import frameboost as fb
from frameboost.engines import query_costs
from frameboost.losses.classes import class_factors
from frameboost.model.threshold import chosen_threshold
from tests.support.cases import cases
from tests.support.engines import ENGINES

N = 600
RNG = np.random.default_rng(4)
X = RNG.normal(size=(N, 2))
SIGNAL = X[:, 0] + RNG.normal(size=N)
ROWS = pl.DataFrame({"x0": X[:, 0], "x1": X[:, 1]}).with_columns(
    late=SIGNAL > 1.2, yes=pl.Series(np.where(SIGNAL > 1.2, "y'es", "n\"o")), one=(SIGNAL > 1.2).astype(int),
    grade=pl.Series(np.array(["a", "b", "c"])[np.digitize(SIGNAL, [-1.0, 1.2])]), w=RNG.integers(1, 4, N).astype(float),
    held=np.arange(N) % 3 == 0, offset=RNG.normal(size=N) / 5,
)  # fmt: skip
OPTIONS = {"features": ["x0", "x1"], "n_estimators": 5, "max_depth": 3}
HELD = ROWS.filter("held")


def factors_of(target: str, class_weight: object) -> pl.Series:
    return pl.Series(compute_sample_weight(class_weight, ROWS[target].to_numpy()))


# --- weights of classes -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@cases(("target", "class_weight"), [
    ("late", "balanced"), ("yes", "balanced"), ("grade", "balanced"), ("late", {True: 4.0}),
    ("yes", {"y'es": 3, 'n"o': 0.5}), ("grade", {"c": 5.0}), ("one", {1: 3.0}), ("one", {1.0: 3.0, 0: 2}),
])  # fmt: skip
def test_factors_are_weights_of_rows(target, class_weight):
    options = OPTIONS | ({"objective": "binary:logistic"} if target == "one" else {})
    factors = factors_of(target, class_weight)
    for weight, offset in ((None, None), ("w", None), ("w", "offset")):
        model = fb.fit(ROWS, target, weight=weight, base_margin=None if target == "grade" else offset,
                       class_weight=class_weight, **options)  # fmt: skip
        by_rows = ROWS.with_columns(sw=factors * (1.0 if weight is None else ROWS["w"]))
        expected = fb.fit(by_rows, target, weight="sw", base_margin=None if target == "grade" else offset, **options)
        np.testing.assert_allclose(model.base_margin, expected.base_margin, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(model.predict(ROWS).to_numpy(), expected.predict(ROWS).to_numpy(), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_counts_by_them(engine, monkeypatch):
    expected = {name: fb.fit(ROWS, name, class_weight="balanced", **OPTIONS) for name in ("late", "grade")}
    monkeypatch.setattr(query_costs, "MAX_VALUES", 0)
    for target, model in expected.items():
        own = fb.fit(ROWS, target, class_weight="balanced", engine=engine, **OPTIONS)
        np.testing.assert_allclose(own.predict(ROWS).to_numpy(), model.predict(ROWS).to_numpy(), rtol=1e-9)
    sharded = fb.fit(ROWS, "late", class_weight="balanced", engine=engine, shards=2, **OPTIONS)
    np.testing.assert_allclose(sharded.predict(ROWS), expected["late"].predict(ROWS), rtol=1e-9)


@pytest.mark.slow
def test_functions_and_the_database_count_by_them():
    def logistic(label, margin, weight):
        p = 1 / (1 + np.exp(-margin))
        return weight * (p - label), weight * np.maximum(p * (1 - p), 1e-16)

    options = OPTIONS | {"base_score": 0.5, "class_weight": "balanced", "weight": "w"}
    expected = fb.fit(ROWS, "yes", **options).predict(ROWS)
    own = fb.fit(ROWS, "yes", objective=fb.Objective(logistic, link="logit"), **options)
    np.testing.assert_allclose(own.predict(ROWS), expected, rtol=1e-9)
    with duckdb.connect() as con:
        con.execute("CREATE TABLE rows AS SELECT * FROM ROWS")
        for engine in ("numba", "sql"):
            model = fb.fit(fb.table(con, "rows", dialect="duckdb"), "yes", engine=engine, **options)
            np.testing.assert_allclose(model.predict(ROWS), expected, rtol=1e-9)


def test_metrics_do_not_count_by_them_and_a_refit_does():
    model = fb.fit(ROWS, "late", class_weight={True: 6.0}, valid="held", eval_metric="logloss", **OPTIONS)
    p, y = model.predict(HELD).to_numpy(), HELD["late"].to_numpy()
    assert model.history["valid_logloss"][-1] == pytest.approx(-np.log(np.where(y, p, 1 - p)).mean(), rel=1e-9)
    whole = fb.fit(ROWS, "late", class_weight={True: 6.0}, **OPTIONS)
    again = whole.refit(ROWS, "late", decay_rate=0.0)
    np.testing.assert_allclose(again.predict(ROWS), whole.predict(ROWS), rtol=1e-9)


@pytest.mark.slow
def test_files_and_folds_keep_the_factors_that_they_have(tmp_path):
    for options in ({}, {"folds": 3}, {"threshold": "f1"}, {"threshold": "f1", "folds": 3}):
        model = fb.fit(ROWS, "yes", class_weight="balanced", **options, **OPTIONS)
        model.save(tmp_path / "model.json")
        loaded = fb.load(tmp_path / "model.json")
        assert loaded == model
        assert loaded.ensemble.loss == model.ensemble.loss
    assert class_factors("balanced", (), [10, 0, 30]) == (2.0, 1.0, 2 / 3)


# --- thresholds -------------------------------------------------------------------------------------------------------


@cases("target", ["late", "yes", "one"])
def test_the_class_is_that_of_the_threshold_everywhere(target):
    options = OPTIONS | ({"objective": "binary:logistic"} if target == "one" else {})
    plain = fb.fit(ROWS, target, **options)
    model = fb.fit(ROWS, target, threshold=0.23, **options)
    assert model.predict(ROWS).equals(plain.predict(ROWS))
    names = {"late": [False, True], "yes": ['n"o', "y'es"], "one": [0, 1]}[target]
    expected = [names[int(p > 0.23)] for p in plain.predict(ROWS)]
    assert 100 < sum(value == names[1] for value in expected) < 500
    assert model.predict(ROWS, output="class").to_list() == expected
    assert ROWS.select(model.expr("class")).to_series().to_list() == expected
    in_sql = duckdb.sql(f"SELECT {model.sql(output='class')} AS c FROM ROWS").pl()["c"].to_list()
    assert sorted(in_sql) == sorted(expected)
    confusion = {(row[0], row[1]): row[2] for row in model.evaluate(ROWS, target).confusion.rows()}
    for actual in names:
        for predicted in names:
            n = sum(a == actual and e == predicted for a, e in zip(ROWS[target], expected, strict=True))
            assert confusion.get((actual, predicted), 0) == n
    evaluated = dict(model.evaluate(ROWS, target, eval_metric=["error", "error@0.6", "accuracy"]).metrics.rows())
    wrong = sum(a != e for a, e in zip(ROWS[target], expected, strict=True)) / N
    assert evaluated["error"] == pytest.approx(wrong) == pytest.approx(1 - evaluated["accuracy"])
    assert evaluated["error@0.6"] < wrong
    changed = plain.with_threshold(0.23)
    assert changed.predict(ROWS, output="class").to_list() == expected
    assert changed.to_json() == model.to_json()


def test_raw_margins_have_the_threshold_of_their_probability():
    model = fb.fit(ROWS, "one", objective="binary:logitraw", threshold=0.2, **OPTIONS)
    p = 1 / (1 + np.exp(-model.predict(ROWS).to_numpy()))
    assert model.predict(ROWS, output="class").to_list() == (p > 0.2).astype(int).tolist()


def test_a_calibrated_model_keeps_the_number():
    model = fb.fit(ROWS, "yes", threshold=0.2, **OPTIONS)
    with pytest.warns(fb.FrameboostWarning, match=r"^the threshold 0\.2 was chosen before calibration"):
        model = model.calibrate(ROWS, "yes")
    expected = ["y'es" if p > 0.2 else 'n"o' for p in model.predict(ROWS)]
    assert model.predict(ROWS, output="class").to_list() == expected


def test_a_threshold_by_f1_is_the_best_there_is():
    model = fb.fit(ROWS, "late", threshold="f1", valid="held", **OPTIONS)
    p, y = model.predict(HELD).to_numpy(), HELD["late"].to_numpy()
    best = max(f1_score(y, p > t) for t in [0.0, *np.unique(p)])
    assert f1_score(y, p > model.parameters["threshold"]) == pytest.approx(best)
    assert 0.1 < model.parameters["threshold"] != 0.5
    assert len(str(model.parameters["threshold"])) < 8


@cases(("false_positive", "false_negative"), [(1.0, 5.0), (10.0, 1.0), (1.0, 0.0), (0.0, 1.0)])
def test_a_threshold_by_cost_is_the_cheapest_there_is(false_positive, false_negative):
    model = fb.fit(ROWS, "late", weight="w", valid="held", **OPTIONS)
    costs = {"false_positive": false_positive, "false_negative": false_negative}
    chosen = model.with_threshold(costs, HELD, "late", weight="w")
    p, y, w = model.predict(HELD).to_numpy(), HELD["late"].to_numpy(), HELD["w"].to_numpy()

    def cost(t: float) -> float:
        taken = p > t
        return float((w * (false_positive * (taken & ~y) + false_negative * (~taken & y))).sum())

    assert cost(chosen.parameters["threshold"]) == pytest.approx(min(cost(t) for t in [0.0, *np.unique(p), 1.0]))
    of_fit = fb.fit(ROWS, "late", weight="w", valid="held", threshold=costs, **OPTIONS)
    assert of_fit.to_json() == chosen.to_json()


def test_a_threshold_by_share_takes_the_nearest_share_of_frames_and_relations():
    model = fb.fit(ROWS, "late", **OPTIONS)
    p = model.predict(ROWS).to_numpy()
    expected = min(abs((p > t).mean() - 0.2) for t in [0.0, *np.unique(p)])
    with duckdb.connect() as con:
        con.execute("CREATE TABLE rows AS SELECT * FROM ROWS")
        for data in (ROWS, con.table("rows")):
            chosen = model.with_threshold({"share": 0.2}, data, "late").parameters["threshold"]
            assert abs((p > chosen).mean() - 0.2) == pytest.approx(expected)
        trained = fb.fit(con.table("rows"), "late", threshold={"share": 0.2}, **OPTIONS)
        assert abs((trained.predict(ROWS) > trained.parameters["threshold"]).mean() - 0.2) == pytest.approx(expected)


@pytest.mark.slow
def test_a_threshold_of_folds_is_the_best_of_the_predictions_out_of_fold():
    model = fb.fit(ROWS, "late", threshold="f1", folds=3, **OPTIONS)
    p, y = model.out_of_fold["prediction"].to_numpy(), ROWS["late"].to_numpy()
    best = max(f1_score(y, p > t) for t in [0.0, *np.unique(p)])
    assert f1_score(y, p > model.parameters["threshold"]) == pytest.approx(best)
    plain = fb.fit(ROWS, "late", folds=3, **OPTIONS)
    assert model.trees.equals(plain.trees)
    assert model.out_of_fold.equals(plain.out_of_fold)
    with duckdb.connect() as con:
        con.execute("CREATE TABLE rows AS SELECT * FROM ROWS")
        of_table = fb.fit(con.table("rows"), "late", threshold="f1", folds=3, **OPTIONS)
        assert of_table.parameters["threshold"] == model.parameters["threshold"]


def test_auto_and_the_classifier_follow_a_threshold():
    rows = ROWS.select("x0", "x1", "yes")
    model = fb.auto(rows, "yes", threshold={"share": 0.3}, class_weight="balanced", quality=1)
    assert abs((model.predict(rows, output="class") == "y'es").mean() - 0.3) < 0.1
    classifier = fb.FrameBoostClassifier(n_estimators=5, threshold=0.2).fit(X, ROWS["yes"])
    expected = np.where(classifier.predict_proba(X)[:, 1] > 0.2, "y'es", 'n"o')
    assert (classifier.predict(X) == expected).all()
    assert (list(classifier.staged_predict(X))[-1] == expected).all()


@cases(("scores", "labels", "rule", "expected"), [
    ([0.2, 0.2], [1.0, 0.0], "f1", 0.1),  # all rows are of the class
    ([0.2, 0.8], [0.0, 0.0], {"false_positive": 1.0, "false_negative": 1.0}, 0.9),  # no row is
    ([1.0, 0.0], [1.0, 0.0], "f1", 0.5),
    ([0.123456, 0.123457], [0.0, 1.0], "f1", 0.1234565),
    ([0.0, 0.0], [0.0, 1.0], "f1", 1e-300),
])  # fmt: skip
def test_a_threshold_lies_between_two_probabilities_in_few_digits(scores, labels, rule, expected):
    rows = pl.DataFrame({"label": labels, "prediction": scores, "weight": [1.0] * len(scores)})
    assert chosen_threshold(rule, rows) == expected


# --- what is refused --------------------------------------------------------------------------------------------------


@cases(("options", "message"), [
    ({"target": "grade", "threshold": 0.3}, "such as 'binary:logistic', not for 'multi:softprob'"),
    ({"target": "x1", "features": ["x0"], "threshold": 0.3}, "not for 'reg:squarederror'"),
    ({"target": "one", "objective": "binary:hinge", "threshold": 0.3}, "not for 'binary:hinge'"),
    ({"target": "x1", "features": ["x0"], "class_weight": "balanced"}, "class_weight is for one target of classes"),
    ({"target": ["late", "held"], "class_weight": "balanced"}, "not for 'binary:logistic' of 2 targets"),
    ({"class_weight": {"maybe": 2.0}}, "class_weight names 'maybe', which is not a label; they are"),
    ({"class_weight": {"y'es": 0.0, 'n"o': 0.0}}, "class_weight is 0 for every label"),
    ({"class_weight": {"y'es": -1.0}}, "class_weight must be a dict of label to a factor of 0 or more"),
    ({"class_weight": "even"}, "class_weight must be a dict of label to a factor of 0 or more, 'balanced' or None"),
    ({"class_weight": [1.0, 2.0, 3.0]}, "class_weight has 3 factors, and there are 2 classes"),
    ({"threshold": 1.0}, "threshold must be a number between 0 and 1, 'f1', costs such as"),
    ({"threshold": "f2"}, "threshold must be a number between 0 and 1"),
    ({"threshold": {"share": 1.0}}, "threshold must be a number between 0 and 1"),
    ({"threshold": {"false_positive": 0, "false_negative": 0}}, "threshold must be a number between 0 and 1"),
    ({"threshold": {"false_positives": 1}}, "threshold must be a number between 0 and 1"),
])  # fmt: skip
def test_what_is_no_weight_or_threshold_is_one_sentence(options, message):
    with pytest.raises(fb.ParameterError, match=re.escape(message)):
        fb.fit(ROWS, **{"target": "yes"} | OPTIONS | options)


def test_what_has_no_threshold_says_so(tmp_path):
    model = fb.fit(ROWS, "late", threshold=0.25, **OPTIONS)
    with pytest.raises(fb.ParameterError, match=r"XGBoost decides at 0.5, and the model at 0.25"):
        model.to_xgboost(tmp_path / "m.json")
    model.with_threshold(0.5).to_xgboost(tmp_path / "m.json")


def test_a_rule_needs_rows(tmp_path):
    model = fb.fit(ROWS, "yes", **OPTIONS)
    with pytest.raises(fb.ParameterError, match="threshold='f1' is chosen on rows with labels; pass data and target"):
        model.with_threshold("f1")
    with duckdb.connect() as con:
        con.execute("CREATE TABLE rows AS SELECT * FROM ROWS")
        with pytest.raises(fb.ParameterError, match="checkpoint can't be combined with threshold='f1' where rows are"):
            fb.fit(fb.table(con, "rows", dialect="duckdb"), "yes", threshold="f1", checkpoint=tmp_path / "c", **OPTIONS)


def test_a_rule_without_rows_of_the_second_class_is_an_error_before_any_work():
    def called(*_):
        raise AssertionError("a round was trained")

    with duckdb.connect() as con:
        con.execute("CREATE TABLE rows AS SELECT *, row_number() OVER () AS id FROM ROWS")
        for data in (ROWS, con.table("rows"), fb.table(con, "rows", dialect="duckdb", key="id")):
            for rule in ("f1", {"share": 0.2}):
                options = OPTIONS | {"threshold": rule, "valid": "NOT late AND held", "callbacks": [called]}
                with pytest.raises(fb.DataError, match="is chosen on rows of both classes, and none of these is of"):
                    fb.fit(data, "late", **options)
    costs = {"false_positive": 1, "false_negative": 5}
    assert fb.fit(ROWS, "late", threshold=costs, valid="NOT late AND held", **OPTIONS).parameters["threshold"] > 0.5


RULES = ["f1", {"false_positive": 1, "false_negative": 5}, {"share": 0.2}]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_finds_the_threshold_of_a_rule(engine):
    with duckdb.connect() as con:
        con.execute("CREATE TABLE rows AS SELECT * FROM ROWS")
        data = con.table("rows") if engine == "duckdb" else ROWS
        for rule, shards in zip(RULES, (None, 2, 3), strict=True):
            options = OPTIONS | {"weight": "w", "valid": "held", "early_stopping_rounds": 2, "threshold": rule}
            options |= {"class_weight": "balanced", "base_margin": "offset"}
            expected = fb.fit(ROWS, "yes", **options).parameters["threshold"]
            sharded = {} if engine == "duckdb" else {"shards": shards}
            assert fb.fit(data, "yes", engine=engine, **sharded, **options).parameters["threshold"] == expected


@pytest.mark.slow
def test_a_rule_is_followed_on_the_rows_of_a_database():
    with duckdb.connect() as con:
        con.execute("CREATE TABLE rows AS SELECT *, row_number() OVER () AS id FROM ROWS")
        table = fb.table(con, "rows", dialect="duckdb", key="id")
        y, w = (HELD["yes"] == "y'es").to_numpy(), HELD["w"].to_numpy()
        options = OPTIONS | {"weight": "w", "valid": "held", "n_estimators": 12, "early_stopping_rounds": 1}
        for engine in ("numba", "sql"):
            f1, cost, share = (fb.fit(table, "yes", engine=engine, threshold=rule, **options) for rule in RULES)
            p = f1.predict(HELD).to_numpy()
            every = [0.0, *np.unique(p)]

            def taken(model, p=p):
                return p > model.parameters["threshold"]

            best = max(f1_score(y, p > t, sample_weight=w) for t in every)
            assert f1_score(y, taken(f1), sample_weight=w) == pytest.approx(best, rel=1e-12)
            least = min(w[(p > t) & ~y].sum() + 5 * w[(p <= t) & y].sum() for t in every)
            assert w[taken(cost) & ~y].sum() + 5 * w[~taken(cost) & y].sum() == least
            nearest = min(abs(w[p > t].sum() / w.sum() - 0.2) for t in every)
            assert abs(w[taken(share)].sum() / w.sum() - 0.2) == pytest.approx(nearest, abs=1e-12)


@cases(("old", "new"), [("0.25", "1.5"), ("0.25", '"f3"'), ("0.25", "[]")])
def test_a_damaged_threshold_in_a_file_is_found(old, new, tmp_path):
    text = fb.fit(ROWS, "yes", threshold=0.25, **OPTIONS).to_json()
    assert f'"threshold": {old}' in text
    (tmp_path / "model.json").write_text(text.replace(f'"threshold": {old}', f'"threshold": {new}', 1))
    with pytest.raises(fb.ModelFileError, match="threshold"):
        fb.load(tmp_path / "model.json")
