"""Metrics, tables and comparisons of models as SQL, beside `Model.evaluate` and curves made in numpy."""

import math
import re
from functools import cache

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.dialects.built_in import DIALECTS
from frameboost.evaluation.bootstrap import compare_models
from frameboost.evaluation.threshold_curves import gains_curve
from frameboost.schema.types import FeatureType
from tests.support.cases import cases
from tests.support.hostile import HOSTILE_NAMES
from tests.support.parsed_sql import n_statements
from tests.support.warehouses import ALL, ALL_BUT_SPARK, WAREHOUSES, databases, nameable, open_warehouse

ABOUT = {"rel": 1e-11, "abs": 1e-11}


@pytest.fixture(params=ALL_BUT_SPARK)
def warehouse(request):
    return open_warehouse(request.param)


@cache
def rows() -> pl.DataFrame:
    rng, n = np.random.default_rng(0), 300
    x, z = rng.normal(size=n).round(1), rng.integers(0, 4, n)
    y = x + z + rng.normal(size=n)
    return pl.DataFrame({
        "x": x, "z": z, "s": rng.choice(["a", "B", "ü"], n), "who": rng.choice(["p", "q", "R"], n),
        "w": rng.integers(0, 4, n) / 2, "y": y, "y2": 2 * y, "above": np.exp(y / 4),
        "count": rng.poisson(np.exp(y / 4)), "late": y > 1, "label": np.where(y > 1, "yes", "it's no"),
        "code": (y > 1).astype(int),
        "kind": np.array(["a", "A", "b\\"])[np.clip(y, 0, 2).astype(int)], "offset": rng.normal(size=n) / 5,
        "until": [None if i % 5 == 0 else float(math.exp(v / 4)) + 0.1 * (i % 2) for i, v in enumerate(y)],
    })  # fmt: skip


# name -> target, arguments of fit, arguments of evaluate
OBJECTIVES: dict[str, tuple[str | list[str], dict, dict]] = {
    "reg:squarederror": ("y", {}, {}),
    "reg:absoluteerror": ("y", {}, {}),
    "reg:squaredlogerror": ("above", {}, {}),
    "reg:quantileerror": ("y", {"quantile_alpha": [0.1, 0.5, 0.9]}, {}),
    "reg:expectileerror": ("y", {}, {}),
    "reg:gamma": ("above", {}, {}),
    "reg:tweedie": ("count", {}, {}),
    "count:poisson": ("count", {"base_margin": "offset"}, {}),
    "dist:normal": ("y", {}, {}),
    "dist:negbinomial": ("count", {}, {}),
    "binary:logistic": ("late", {}, {}),
    "binary:logitraw": ("code", {}, {}),
    "binary:hinge": ("label", {}, {}),
    "multi:softprob": ("kind", {}, {}),
    "survival:cox": ("y", {}, {}),
    "survival:aft": ("above", {"label_upper_bound": "until"}, {"label_upper_bound": "until"}),
    "targets": (["y", "y2"], {"objective": "reg:squarederror"}, {}),
}


@cache
def model_of(objective: str, features: tuple[str, ...] = ("x", "z", "s"), rounds: int = 3) -> fb.Model:
    target, options, _ = OBJECTIVES[objective]
    known = {"objective": objective, "n_estimators": rounds, "max_depth": 3, **options}
    return fb.fit(rows(), target, features=list(features), **known)


@cache
def evaluated(objective: str, by: str | None, weight: str | None):
    target, _, more = OBJECTIVES[objective]
    return model_of(objective).evaluate(rows(), target, by=by, weight=weight, **more)


@cache
def compared(objective: str, weight: str | None) -> dict[str, tuple]:
    pair = (model_of(objective)._predictor, model_of(objective, ("x",), 2)._predictor)
    return {row[0]: row[1:] for row in compare_models(*pair, rows(), OBJECTIVES[objective][0], weight=weight).rows()}


def fill(opened, frame: pl.DataFrame | None = None) -> None:
    frame = rows() if frame is None else frame
    columns = {}
    for name in frame.columns:
        kind = FeatureType.from_polars(frame.schema[name])
        values = frame[name].cast(pl.Int64) if kind.family == "boolean" else frame[name]
        columns[name] = (kind, values.to_list())
    opened.fill("t", columns)


def assert_about(found: list[tuple], expected: list[tuple]) -> None:
    assert len(found) == len(expected)
    for one, two in zip(found, expected, strict=True):
        for a, b in zip(one, two, strict=True):
            if isinstance(b, float) and not math.isfinite(b):
                assert a is None
            elif isinstance(b, float):
                assert float(a) == pytest.approx(b, **ABOUT)
            else:
                assert a == b, (one, two)


# --- metrics ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_metrics_of_every_objective_are_those_of_evaluate(name):
    opened = open_warehouse(name)
    fill(opened)
    some = {"duckdb": [*OBJECTIVES], "postgres": [*OBJECTIVES][::2], "spark": ["survival:cox"]}
    for objective in some.get(name, ["reg:squarederror", "count:poisson", "multi:softprob", "survival:aft"]):
        target, _, more = OBJECTIVES[objective]
        model = model_of(objective)
        for by, weight in [("who", "w"), (None, None)] if objective == "multi:softprob" else [("who", "w")]:
            query = model.database(name).evaluate_query("t", target, by=by, weight=weight, **more)
            found = [tuple(row) for row in opened.rows(query)]
            metrics = evaluated(objective, by, weight).metrics
            if by is None:
                metrics = metrics.select(pl.lit(rows().height).alias("rows"), pl.all())
            expected = [(*row[:-2], 0, 0, *row[-2:]) for row in metrics.rows()]
            key = len(metrics.columns) - 3
            assert_about(sorted(found, key=lambda row: row[:key]), expected)


@pytest.mark.slow
def test_every_metric_by_name_and_of_ones_own(warehouse):
    fill(warehouse)
    aggregates = {"worst": "MAX(ABS(label - prediction))", "mean": "AVG(CASE WHEN label > 1 THEN label END)",
                  "rows": "COUNT(*)", "lowest": "MIN(margin)"}  # fmt: skip
    own = [fb.Metric(name, text) for name, text in aggregates.items()]
    named = {
        "reg:squarederror": ["rmse", "mae", "mape", "mphe", "quantile", "expectile", *own],
        "reg:gamma": ["rmsle", "gamma-nloglik", "gamma-deviance", "tweedie-nloglik@1.5", "poisson-nloglik"],
        "binary:logistic": ["error@0.3", "auc", "aucpr", "logloss", "rmse"],
    }
    for objective, metrics in named.items():
        target, model = OBJECTIVES[objective][0], model_of(objective)
        query = model.database(warehouse.name).evaluate_query("t", target, eval_metric=metrics)
        found = [tuple(row[3:]) for row in warehouse.rows(query)]
        assert_about(found, model.evaluate(rows(), target, eval_metric=metrics).metrics.rows())


@pytest.mark.slow
def test_rows_without_a_label_are_counted_and_wrong_ones_make_no_metric(warehouse):
    holed = rows().with_columns(
        label=pl.when(pl.int_range(pl.len()) % 3 > 0).then("label"),
        place=pl.when(pl.int_range(pl.len()) % 3 > 0).then(pl.lit("known")).otherwise(pl.lit("none yet")),
    )
    model = fb.fit(rows(), "label", features=["x", "z"], n_estimators=2)
    database, n = model.database(warehouse.name), rows().height // 3
    fill(warehouse, holed)
    expected = [(metric, value) for metric, value in model.evaluate(holed.drop_nulls("label"), "label").metrics.rows()]
    unknown = [("none yet", 0, n, 0, name, math.nan) for name, _ in expected]
    found = [tuple(row) for row in warehouse.rows(database.evaluate_query("t", "label", by="place"))]
    assert_about(found, [*(("known", 2 * n, 0, 0, *each) for each in expected), *unknown])
    empty = [tuple(row) for row in warehouse.rows(database.evaluate_query("t", "label", where="1 = 0"))]
    assert empty == [(0, 0, 0, name, None) for name, _ in expected]
    assert warehouse.rows(database.evaluate_query("t", "label", by="place", where="1 = 0")) in ([], ())
    first = pl.int_range(pl.len()) == 0
    offsets = [None, math.nan, math.inf, -math.inf, 1e200]
    for offset in (o for o in offsets if warehouse.holds(FeatureType("float64"), o)):
        fill(warehouse, rows().with_columns(offset=pl.when(first).then(pl.lit(offset)).otherwise("offset")))
        found = warehouse.rows(model_of("count:poisson").database(warehouse.name).evaluate_query("t", "count"))
        assert {tuple(row[:3]) for row in found} == {(rows().height, 0, 1)}
        assert {row[4] for row in found} == {None}
    wrong = [
        {"label": pl.when(first).then(pl.lit("YES")).otherwise("label")},
        {"w": pl.when(first).then(-1.0).otherwise("w")},
        {"w": pl.when(~first).then("w")},
    ]
    for columns in wrong:
        fill(warehouse, rows().with_columns(**columns))
        found = warehouse.rows(database.evaluate_query("t", "label", weight="w"))
        assert {tuple(row[:3]) for row in found} == {(rows().height, 0, 1)}
        assert {row[4] for row in found} == {None}


@pytest.mark.slow
@cases("trained, target", [("late", "code"), ("code", "late"), ("late", "late")])
def test_labels_of_two_classes_are_booleans_or_numbers(warehouse, trained, target):
    model = fb.fit(rows(), trained, features=["x", "z"], objective="binary:logistic", n_estimators=2)
    fill(warehouse)
    found = warehouse.rows(model.database(warehouse.name).evaluate_query("t", target, by="who", weight="w"))
    expected = model.evaluate(rows(), trained, by="who", weight="w").metrics.rows()
    assert_about(sorted(map(tuple, found), key=lambda row: row[0]), [(*row[:2], 0, 0, *row[2:]) for row in expected])


def test_labels_and_weights_of_float32_are_not_their_decimals(warehouse):
    tenths = pl.Series([0.1, 0.2, 0.7] * 100, dtype=pl.Float32)
    frame = rows().with_columns(y=tenths * 3, w=tenths)
    fill(warehouse, frame)
    query = model_of("reg:squarederror").database(warehouse.name).evaluate_query("t", "y", weight="w")
    found = [row[3:] for row in map(tuple, warehouse.rows(query))]
    assert_about(found, model_of("reg:squarederror").evaluate(frame, "y", weight="w").metrics.rows())


@pytest.mark.parametrize("name", databases("mariadb"))
def test_bits_are_labels(name):
    opened = open_warehouse(name)
    fill(opened)
    opened.run("ALTER TABLE t MODIFY late BIT(1)")
    model = model_of("binary:logistic")
    found = [tuple(row) for row in opened.rows(model.database(name).evaluate_query("t", "late"))]
    assert_about(found, [(rows().height, 0, 0, *row) for row in model.evaluate(rows(), "late").metrics.rows()])


@pytest.mark.parametrize("name", databases("sqlite", "mariadb"))
def test_text_that_is_no_number_is_no_label(name):
    opened = open_warehouse(name)
    texts = pl.Series(["1", "0.0", "true", "", "abc", None], dtype=pl.String)
    fill(opened, rows().head(6).with_columns(code=texts, w=pl.Series([1.0, 1, 0, 0, 0, 0])))
    database = model_of("binary:logitraw").database(name)
    found = {tuple(row[:3]) for row in opened.rows(database.evaluate_query("t", "code", eval_metric="error"))}
    assert found == {(5, 1, 3)}


def test_zeros_of_either_sign_are_parts_of_a_window_as_they_are_groups(warehouse):
    zeros = rows().with_columns(part=pl.Series([0.0, -0.0, 1.5] * 100))
    fill(warehouse, zeros)
    query = model_of("binary:logistic").database(warehouse.name).evaluate_query("t", "late", by="part")
    found = {(repr(row[0]), row[4]): row[5] for row in warehouse.rows(query)}
    if ("-0.0", "auc") in found and ("0.0", "auc") in found:  # as two groups
        zeros = zeros.with_columns(part=pl.Series(["0.0", "-0.0", "1.5"] * 100))
    else:
        found = {(part.removeprefix("-"), name): value for (part, name), value in found.items()}
        zeros = zeros.with_columns(part=pl.Series(["0.0", "0.0", "1.5"] * 100))
    expected = {
        (row[0], row[2]): row[3]
        for row in model_of("binary:logistic").evaluate(zeros, "late", by="part").metrics.rows()
    }
    assert found == pytest.approx(expected)


@pytest.mark.slow
def test_classes_without_an_offset_have_no_probability(warehouse):
    offsets = ["offset", "w", "y2"]
    model = fb.fit(rows(), "kind", features=["x", "z"], objective="multi:softprob", base_margin=offsets, n_estimators=2)
    holed = rows().with_columns(pl.when(pl.int_range(pl.len()) % 100 > 0).then(pl.col(offsets)))
    fill(warehouse, holed)
    database = model.database(warehouse.name)
    found = {tuple(row[:3]) for row in warehouse.rows(database.evaluate_query("t", "kind"))}
    assert found == {(rows().height, 0, 3)}
    scored = sorted(map(tuple, warehouse.rows(database.query("t", keep=["id"], form="staged"))))
    predicted = model.predict(holed).to_list()
    assert_about([row[1:] for row in scored], predicted)
    assert predicted.count([None] * 3) == 3


def test_what_is_not_defined_is_null(warehouse):
    fill(warehouse, rows().with_columns(y=pl.when(pl.int_range(pl.len()) == 7).then(0.0).otherwise("y")))
    query = model_of("reg:squarederror").database(warehouse.name).evaluate_query("t", "y", eval_metric=["mape", "rmse"])
    mape, rmse = [row[-1] for row in warehouse.rows(query)]
    assert mape is None
    assert rmse > 0
    one = model_of("binary:logistic").database(warehouse.name)
    condition = {"duckdb": '"late"', "postgres": '"late"', "clickhouse": '"late"', "datafusion": '"late"'}
    where = condition.get(warehouse.name, "`late` = 1")
    values = {row[3]: row[4] for row in warehouse.rows(one.evaluate_query("t", "late", where=where))}
    assert values["auc"] is values["aucpr"] is None
    assert values["logloss"] is not None


@pytest.mark.slow
def test_hostile_names_and_labels(warehouse):
    names = nameable(warehouse.dialect, [name for name in HOSTILE_NAMES if name.strip()])
    labels = [name for name in HOSTILE_NAMES if warehouse.holds(FeatureType("string"), name)][:30]
    rng = np.random.default_rng(3)
    for i in range(0, len(names) - 4, 20):
        feature, target, by, weight, offset = names[i : i + 5]
        if len({name.lower() for name in names[i : i + 5]}) < 5:
            continue
        frame = pl.DataFrame({
            feature: rng.normal(size=60), target: [labels[k % 2 + i % 20] for k in range(60)],
            by: [labels[k % 7] for k in range(60)],
            weight: rng.integers(1, 5, 60).astype(float), offset: rng.normal(size=60),
        })  # fmt: skip
        model = fb.fit(frame, target, features=[feature], base_margin=offset, weight=weight, n_estimators=2)
        fill(warehouse, frame)
        named = {"by": by, "weight": weight, "eval_metric": ["logloss", "auc"]}
        query = model.database(warehouse.name).evaluate_query("t", target, **named)
        found = sorted((tuple(row) for row in warehouse.rows(query)), key=lambda row: (row[0].encode(), row[4]))
        metrics = model.evaluate(frame, target, **named).metrics
        expected = sorted(metrics.rows(), key=lambda row: (row[0].encode(), row[2]))
        assert_about(found, [(*row[:2], 0, 0, *row[2:]) for row in expected])


@pytest.mark.slow
@cases("dialect", [name for name in DIALECTS if name not in WAREHOUSES])
def test_every_dialect_has_each_table(dialect):
    database = model_of("multi:softprob", ("x", "s"), 1).database(dialect)
    kinds = ("metrics", "gain", "confusion")
    queries = [database.evaluate_query("t", "kind", by=["who"], weight="w", kind=kind) for kind in kinds]
    queries.append(database.compare_query(model_of("multi:softprob", ("x",), 1), "t", "kind", by="who"))
    queries.append(model_of("survival:cox", ("x",), 1).database(dialect).evaluate_query("t", "y", by="who"))
    for query in queries:
        assert n_statements(query, DIALECTS[dialect]) == 1
        assert dialect not in ("tsql", "fabric") or not re.search(r"\bCOUNT\(", query)  # of 32 bits there
        assert query.count('FROM "t"') + query.count("FROM `t`") + query.count("FROM [t]") == 1  # scored once


def test_trees_may_be_in_a_table(warehouse, tmp_path):
    model = model_of("multi:softprob")
    fill(warehouse)
    warehouse.load_trees("trees", model, tmp_path)
    query = model.database(warehouse.name).evaluate_query(
        "t", "kind", form="table", trees="trees", eval_metric="mlogloss"
    )
    expected = model.evaluate(rows(), "kind", eval_metric="mlogloss").metrics["value"][0]
    assert [row[-1] for row in warehouse.rows(query)] == [pytest.approx(expected, **ABOUT)]


# --- tables -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@cases("objective", ["binary:hinge", "multi:softprob", "count:poisson"])
def test_calibration_and_confusion_are_those_of_evaluate(warehouse, objective):
    fill(warehouse)
    target, model = OBJECTIVES[objective][0], model_of(objective)
    for by, weight in ((None, None), ("who", "w")):
        whole = evaluated(objective, by, weight)
        query = model.database(warehouse.name).evaluate_query("t", target, by=by, weight=weight, kind="calibration")
        found = sorted(map(tuple, warehouse.rows(query)), key=lambda row: [str(v) for v in row[:-5]] + [row[-5]])
        expected = sorted(whole.calibration.rows(), key=lambda row: [str(v) for v in row[:-5]] + [row[-5]])
        assert_about(found, expected)
        if objective in ("reg:squarederror", "count:poisson"):
            continue
        query = model.database(warehouse.name).evaluate_query("t", target, by=by, weight=weight, kind="confusion")
        found = {tuple(row[:-2]): row[-2:] for row in warehouse.rows(query) if row[-2]}
        expected = {row[:-2]: row[-2:] for row in whole.confusion.rows() if row[-2]}
        assert found.keys() == expected.keys()
        assert all(tuple(found[key]) == pytest.approx(expected[key]) for key in found)


def test_gain_and_thresholds_are_counts_of_the_best_rows(warehouse):
    fill(warehouse)
    model = model_of("binary:logitraw")
    database, scores = model.database(warehouse.name), model.predict(rows(), "probability").to_numpy()
    labels, weights = rows()["code"].to_numpy(), rows()["w"].to_numpy()
    curve = {row[0]: row[1:] for row in gains_curve(labels, scores, weights).rows()}
    found = warehouse.rows(database.evaluate_query("t", "code", weight="w", kind="gain", bins=5))
    assert [row[0] for row in found] == sorted(row[0] for row in found)
    assert len(found) > 2
    for _, threshold, weight, *of_curve in found:
        assert tuple(of_curve) == pytest.approx(curve[threshold])
        assert weight > 0
    assert found[-1][3:] == pytest.approx((1, 1, 1))
    options = {"kind": "thresholds", "thresholds": [0.4, 0.6, 2]}
    found = warehouse.rows(database.evaluate_query("t", "code", weight="w", **options))
    for row, threshold in zip(found, (0.4, 0.6, 2.0), strict=True):
        taken, yes = scores >= threshold, labels == 1
        tp, fp, fn, tn = (
            float(weights[which].sum()) for which in (taken & yes, taken & ~yes, ~taken & yes, ~taken & ~yes)
        )
        precision = tp / (tp + fp) if tp + fp else None
        assert tuple(row) == pytest.approx((threshold, tp, fp, fn, tn, precision, tp / (tp + fn)))


# --- champion and challenger ------------------------------------------------------------------------------------------


@pytest.mark.slow
@cases("objective", ["reg:squarederror", "multi:softprob", "reg:gamma"])
def test_comparisons_are_those_of_paired_rows(warehouse, objective):
    fill(warehouse)
    target = OBJECTIVES[objective][0]
    champion, challenger = model_of(objective), model_of(objective, ("x",), 2)
    for weight in (None, "w"):
        found = warehouse.rows(champion.database(warehouse.name).compare_query(challenger, "t", target, weight=weight))
        of_bootstrap = compared(objective, weight)
        assert len(found) > 1
        for n, _, _, metric, one, two, difference, error, low, high in found:
            a, b, change, bottom, top = of_bootstrap[metric]
            assert (n, one, two, difference) == pytest.approx((rows().height, a, b, change), **ABOUT)
            assert (low + high) / 2 == pytest.approx(difference)
            assert (high - low) / 2 == pytest.approx(1.959963984540054 * error)
            assert high - low == pytest.approx(top - bottom, rel=0.2)


@pytest.mark.slow
def test_models_of_booleans_and_of_numbers_are_compared(warehouse):
    fill(warehouse)
    champion, challenger = model_of("binary:logistic"), model_of("binary:logitraw", ("x",), 2)
    for target in ("late", "code"):
        query = champion.database(warehouse.name).compare_query(challenger, "t", target, eval_metric="error")
        values = [
            model.evaluate(rows(), target, eval_metric="error").metrics["value"][0] for model in (champion, challenger)
        ]
        assert [row[4:6] for row in warehouse.rows(query)] == [pytest.approx(tuple(values))]


@pytest.mark.parametrize("name", databases("postgres"))
def test_a_challenger_has_further_columns_named_as_the_champions_are(name):
    opened = open_warehouse(name)
    fill(opened, rows().rename(str.upper))
    champion, challenger = model_of("reg:squarederror", ("x",)), model_of("reg:squarederror", ("x", "z"))
    for columns in (str.upper, {"x": "X"}):
        other = challenger if callable(columns) else challenger.database("postgres", columns=str.upper)
        query = champion.database("postgres", columns=columns).compare_query(other, "t", "Y", eval_metric="mae")
        values = [
            model.evaluate(rows(), "y", eval_metric="mae").metrics["value"][0] for model in (champion, challenger)
        ]
        assert [row[4:6] for row in opened.rows(query)] == [pytest.approx(tuple(values))]


def test_the_standard_error_is_that_of_a_mean():
    opened = open_warehouse("duckdb")
    fill(opened)
    champion, challenger = model_of("reg:squarederror"), model_of("reg:absoluteerror", ("x",))
    query = champion.database().compare_query(challenger, "t", "y", eval_metric="mae", by="who")
    first, second = ((rows()["y"] - model.predict(rows())).abs() for model in (champion, challenger))
    differences = rows().select("who", change=second - first).group_by("who").agg(
        pl.col("change").mean().alias("mean"), (pl.col("change").std() / pl.len().sqrt()).alias("error")
    ).sort("who")  # fmt: skip
    found = sorted(opened.rows(query))
    assert [(row[0], row[7], row[8]) for row in found] == [
        (who, pytest.approx(mean), pytest.approx(error)) for who, mean, error in differences.rows()
    ]


# --- what is refused --------------------------------------------------------------------------------------------------


@cases("arguments, message", [
    ({"by": "metric"}, "by column 'metric' has the name of another column"),
    ({"by": ["who", "who"]}, "by column 'who' has the name of another column"),
    ({"eval_metric": "ndcg"}, "a query has no metric 'ndcg', .* it has 'rmse', .*'mae'"),
    ({"eval_metric": "nothing"}, "eval_metric must be"),
    ({"kind": "gain"}, "kind='gain' is for models of one target of classes"),
    ({"kind": "metric"}, "kind must be one of .*did you mean 'metrics'"),
    ({"kind": "thresholds", "thresholds": []}, "thresholds must be a list of finite numbers"),
    ({"target": ["y", "y2"]}, "the model predicts 1 target"),
    ({"label_upper_bound": "until"}, "takes no label_upper_bound"),
])  # fmt: skip
def test_what_a_query_has_not_is_said(arguments, message):
    with pytest.raises(fb.ParameterError, match=message):
        model_of("reg:squarederror").database().evaluate_query("t", **{"target": "y", **arguments})


@cases("challenger, arguments, message", [
    ("reg:squarederror", {"eval_metric": "r2"}, "eval_metric 'r2' is a Python function"),
    ("binary:hinge", {}, "different kinds"),
    ("binary:logistic", {}, "can't be compared by"),
    ("survival:cox", {}, "can't be compared by"),
    (None, {}, "challenger must be a model"),
])  # fmt: skip
def test_what_a_comparison_has_not_is_said(challenger, arguments, message):
    other = challenger and model_of(challenger)
    with pytest.raises(fb.ParameterError, match=message):
        model_of("reg:squarederror").database().compare_query(other, "t", "y", **arguments)
