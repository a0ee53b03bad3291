"""A meeting from its rows to its scores, and what must hold on the way."""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.schema.types import FeatureType
from tests.fuzz.same_models import difference
from tests.meetings.covering import Meeting
from tests.meetings.rows import CONTAINERS, LABELS, feature_names, rows
from tests.meetings.table import GROWTHS, LOSSES, SLOPES, Loss
from tests.support.random_models import to_duckdb
from tests.support.stars import without_joins
from tests.support.warehouses import open_warehouse

__all__ = ["check"]

_SHAPE = {"n_estimators": 3, "learning_rate": 0.5, "max_depth": 3, "min_child_weight": 0.0, "verbose": False}
# Containers whose rows are in another order, by which rows are sampled and folds dealt.
_REORDERED = ("shuffled query",)


@dataclass(frozen=True)
class _Journey:
    """A meeting, its rows as a plain frame, and where it may keep tables and files."""

    meeting: Meeting
    frame: pl.DataFrame
    con: duckdb.DuckDBPyConnection
    folder: Path

    def __getitem__(self, factor: str) -> str:
        return self.meeting[factor]

    @property
    def loss(self) -> Loss:
        return LOSSES[self["loss"]]

    @property
    def target(self) -> Any:
        return LABELS.get(self.loss.label, "y")

    @property
    def features(self) -> list[str]:
        return feature_names(self["columns"])

    @property
    def roles(self) -> dict[str, str]:
        """The columns that a fit and its consumers are told, by argument."""
        names = {"weights": ("weight", "weight"), "offset": ("base_margin", "offset"), "exposure": ("exposure",) * 2}
        return dict([names[self["extra"]]] if self["extra"] in names else [])

    @property
    def weight(self) -> dict[str, str]:
        return {name: column for name, column in self.roles.items() if name == "weight"}

    @property
    def group(self) -> dict[str, str]:
        return {"group": "query"} if self["loss"] == "ranks" else {}

    @property
    def options(self) -> dict[str, Any]:
        """The objective, the shape of the trees and the way they grow."""
        growth = GROWTHS[self["growth"]]
        return {"objective": self.loss.objective, **(self.loss.options or {}), **growth, **_SHAPE}

    @property
    def is_exact(self) -> bool:
        return self.loss.exact and self["maker"] != "auto"

    @property
    def is_of_another_order(self) -> bool:
        """Whether the rows are trained on in another order than the plain frame's, and the model depends on it."""
        depends = self["growth"] == "forest" or self["maker"] in ("folds", "auto") or self["loss"] == "ranks"
        return depends and self["container"] in _REORDERED


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()  # takes as long as a short meeting


def _empty(con: duckdb.DuckDBPyConnection) -> None:
    """Drop what a meeting has made."""
    made = con.execute(
        "SELECT 'VIEW', view_name FROM duckdb_views() WHERE NOT internal UNION ALL "
        "SELECT 'TABLE', table_name FROM duckdb_tables() UNION ALL "
        "SELECT 'SEQUENCE', sequence_name FROM duckdb_sequences() UNION ALL "
        "SELECT 'MACRO', function_name FROM duckdb_functions() WHERE NOT internal AND function_type = 'macro'"
    ).fetchall()
    for kind, name in made:
        con.execute(f'DROP {kind} IF EXISTS "{name}"')


def check(meeting: Meeting, folder: Path) -> str:
    """Carry a meeting out; return ``""``, or the sentences by which it or its readers were refused."""
    try:
        return _check(_Journey(meeting, rows(meeting["columns"], LOSSES[meeting["loss"]].label), _connection(), folder))
    finally:
        _empty(_connection())


def _check(journey: _Journey) -> str:
    frame, columns = journey.frame, journey["columns"]
    try:
        data = CONTAINERS[journey["container"]](frame, columns, journey.con, journey.folder)
        model = _made(journey, data, journey["engine"])
        _check_fit(journey, model)
        after = _AFTERWARDS[journey["afterwards"]](journey, model)
        expected = _margins(after, frame)
    except fb.FrameboostError as refusal:
        return _sentence(refusal)
    assert expected.shape[0] == len(frame) and np.isfinite(expected).all()
    _check_copies(journey, after, frame, expected)
    refused = []
    for factor in ("output", "consumer", "database"):
        try:
            _check_scores(journey, after, expected, journey[factor])
        except fb.FrameboostError as refusal:
            refused.append(f"{journey[factor]}: {_sentence(refusal)}")
    assert frame.equals(rows.__wrapped__(columns, journey.loss.label)), "the user's frame was changed"
    return " ".join(refused)


def _sentence(refusal: fb.FrameboostError) -> str:
    assert 20 < len(str(refusal)) < 2000, refusal
    return str(refusal)


# --- the fit ----------------------------------------------------------------------------------------------------------


def _made(journey: _Journey, data: Any, engine: str) -> fb.Model:
    """Return the model that the meeting makes of the rows."""
    options = journey.options
    if journey["columns"] == "integer categories" and journey["container"] not in ("pandas", "arrow"):
        options["categorical_features"] = journey.features[-1:]  # those two have a type of such columns
    if journey["maker"] == "estimator":
        return _estimated(journey, data, options)
    options |= journey.roles | {"features": journey.features}
    options |= {"shards": 2} if engine == "shards" else {"engine": engine}
    if journey["extra"] == "valid":
        options |= {"valid": "late", "early_stopping_rounds": 2}
    if journey["maker"] == "auto":
        unset = ("max_depth", "learning_rate", "min_child_weight")
        return fb.auto(data, journey.target, quality=1, **{k: v for k, v in options.items() if k not in unset})
    if journey["maker"] == "folds":
        options |= {"folds": 2, "early_stopping_rounds": 2}
    return fb.fit(data, journey.target, **options)


def _estimated(journey: _Journey, data: Any, options: dict[str, Any]) -> fb.Model:
    classifier = "string" in journey.loss.label or journey.loss.label in ("Boolean", "three numbers")
    kind = fb.FrameBoostClassifier if classifier else fb.FrameBoostRegressor
    names = {name: value for name, value in options.items() if value is not None and name != "verbose"}
    engine = {} if journey["engine"] == "auto" else {"engine": journey["engine"]}
    weight = {"sample_weight": journey.frame["weight"].to_numpy()} if journey["extra"] == "weights" else {}
    estimator = kind(**names, **engine).fit(data[journey.features], journey.frame["y"].to_numpy(), **weight)
    return estimator.model_


def _check_fit(journey: _Journey, model: fb.Model) -> None:
    """Hold the model to that of the plain frame by the kernels, and to what is in the rows."""
    if journey.is_of_another_order:
        return
    columns = "strings" if journey["columns"] == "integer categories" else journey["columns"]
    plain = journey.frame
    if columns != journey["columns"]:  # the same categories, as strings of one digit
        plain = plain.with_columns(pl.col("kind").cast(pl.String))
    reference = _made(journey, plain, "numba")
    if columns == journey["columns"] and journey["maker"] != "estimator":
        own, other = (fb.Model(model.ensemble), fb.Model(reference.ensemble))
        if "star" in journey["container"]:
            assert not journey.is_exact or without_joins(own) == without_joins(other)
        else:
            differing = difference(own, other, exact=journey.is_exact)
            assert not differing, f"not the model of the plain frame: {differing[-2000:]}"
    _same(_margins(model, journey.frame), _margins(reference, plain), "the plain frame's model")
    if journey["maker"] in ("folds", "auto"):
        _check_out_of_fold(journey, model, reference)
    if journey["afterwards"] != "slice":
        _check_learnt(journey, model)


def _check_out_of_fold(journey: _Journey, model: fb.Model, reference: fb.Model) -> None:
    """Hold predictions by models that have not seen the rows to those of the plain frame, in the order of the rows."""
    found, expected = model.out_of_fold, reference.out_of_fold
    assert found.height == journey.frame.height and found["fold"].equals(expected["fold"])
    held_out = found["fold"].is_not_null()
    assert held_out.all() if journey["maker"] == "folds" else 0.1 < (held_out.mean() or 0.0) < 0.3
    assert found["prediction"].dtype == model.predict(journey.frame).dtype
    _same(_scored(found["prediction"].filter(held_out)), _scored(expected["prediction"].filter(held_out)), "held out")


def _check_learnt(journey: _Journey, model: fb.Model) -> None:
    """Hold predictions on the training rows to their labels."""
    given = journey.frame
    predictions = _scored(model.predict(given))
    label = journey.loss.label
    is_small = journey["maker"] == "auto"  # it trains on few of these few rows, with small steps
    labels = journey.frame.select(journey.target if isinstance(journey.target, list) else [journey.target])
    if label == "grade":
        assert np.corrcoef(predictions[:, 0], labels["y"].to_numpy())[0, 1] > 0.5
    elif label in ("two strings", "Boolean", "three numbers"):
        right = np.mean([str(a) == str(b) for a, b in zip(model.predict(given, "class"), labels["y"], strict=True)])
        assert right > (0.4 if is_small else 0.75), f"{right:.0%} of the labels are predicted"
    elif journey["loss"] == "quantiles":
        below = (labels["y"].to_numpy()[:, None] < predictions).mean(axis=0)
        assert below[0] < 0.35 and below[2] > 0.65, below
    else:
        values = labels.to_numpy().astype(float)
        errors = np.mean((predictions[:, : values.shape[1]] - values) ** 2) / np.var(values, axis=0).mean()
        assert errors < (1.0 if is_small else 0.85), f"the squared errors are {errors:.0%} of the variance"
    if label == "count" and journey["extra"] != "weights" and journey["maker"] != "folds":
        assert abs(predictions.sum() / journey.frame["y"].sum() - 1) < 0.2
    if journey["growth"] == "monotone" and journey["afterwards"] != "calibrate":
        _check_monotone(journey, model)


def _check_monotone(journey: _Journey, model: fb.Model) -> None:
    low, high = (
        journey.frame.with_columns(price=pl.lit(value).cast(journey.frame["price"].dtype)) for value in (2.0, 9.0)
    )
    lows, highs = (_margins(model, frame) for frame in (low, high))
    assert (lows <= highs).all()


# --- what happens to the model ----------------------------------------------------------------------------------------


def _kept(journey: _Journey, model: fb.Model, other: fb.Model) -> fb.Model:
    """Hold a copy to the original: all that it says of itself."""
    assert other == model
    for name in ("features", "objective", "n_trees", "n_rounds", "parameters", "best_iteration", "best_score"):
        assert getattr(other, name) == getattr(model, name), name
    assert repr(other) == repr(model)
    assert other.history.equals(model.history) or model.history.width == 1  # without metrics
    return other


def _from_file(journey: _Journey, model: fb.Model) -> fb.Model:
    path = journey.folder / ("model.ubj" if journey["engine"] == "polars" else "model.json")
    model.save(path)
    return _kept(journey, model, fb.load(path))


def _sliced(journey: _Journey, model: fb.Model) -> fb.Model:
    sliced = model[: max(1, model.n_rounds // 2)]
    assert sliced.n_rounds == max(1, model.n_rounds // 2)
    return sliced


def _refitted(journey: _Journey, model: fb.Model) -> fb.Model:
    training = journey.frame
    if journey["extra"] == "valid":
        training = training.filter(~pl.col("late"))
    again = model.refit(training, journey.target, **journey.weight, **journey.group)
    if journey["growth"] != "forest" and journey["maker"] == "fit" and not journey.is_of_another_order:
        _same(_margins(again, training), _margins(model, training), "the model refitted to its rows")
    if journey["growth"] == "monotone":
        turned = training.with_columns(price=11 - pl.col("price"))
        _check_monotone(journey, model.refit(turned, journey.target, **journey.group))
    return again


def _calibrated(journey: _Journey, model: fb.Model) -> fb.Model:
    if model.parameters.get("threshold") is None:
        return model.calibrate(journey.frame, journey.target)
    with pytest.warns(fb.FrameboostWarning, match="^the threshold 0.4 was chosen before calibration"):
        return model.calibrate(journey.frame, journey.target)


def _conformed(journey: _Journey, model: fb.Model) -> fb.Model:
    sure = model.conform(journey.frame, journey.target, coverage=0.8)
    ends = sure.predict(journey.frame, output="interval").struct.unnest()
    label = journey.frame["y"]
    assert ((ends["lower"] <= label) & (label <= ends["upper"])).mean() >= 0.8
    return sure


def _continued(journey: _Journey, model: fb.Model) -> fb.Model:
    options = journey.options | {"n_estimators": 2} | journey.weight
    longer = fb.fit(journey.frame, journey.target, init_model=model, **options)
    assert longer.n_rounds == model.n_rounds + 2
    return longer


def _through_xgboost(journey: _Journey, model: fb.Model) -> fb.Model:
    path = journey.folder / "xgboost.json"
    model.to_xgboost(path)
    back = fb.from_xgboost(path)
    ours, theirs = (_margins(m, journey.frame) for m in (model, back))
    np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=1e-4)
    return model


_AFTERWARDS: dict[str, Callable[[_Journey, fb.Model], fb.Model]] = {
    "nothing": lambda journey, model: model,
    "file": _from_file,
    "pickle": lambda journey, model: _kept(journey, model, pickle.loads(pickle.dumps(model))),
    "slice": _sliced,
    "refit": _refitted,
    "calibrate": _calibrated,
    "conform": _conformed,
    "continue": _continued,
    "XGBoost": _through_xgboost,
}


# --- scores -----------------------------------------------------------------------------------------------------------


def _margins(model: fb.Model, frame: pl.DataFrame) -> np.ndarray:
    return _scored(model.predict(frame, output="margin"))


def _scored(column: pl.Series) -> np.ndarray:
    """Return predictions as an array (rows, outputs)."""
    if isinstance(column.dtype, pl.Struct):
        return column.struct.unnest().to_numpy().astype(float)
    values = np.array(column.to_list(), dtype=float)
    return values[:, None] if values.ndim == 1 else values


def _same(one: np.ndarray, other: np.ndarray, what: str, rtol: float = 1e-9) -> None:
    np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-12, err_msg=f"scores are not those of {what}")


def _check_scores(journey: _Journey, model: fb.Model, expected: np.ndarray, reader: str) -> None:
    scored = _READERS[reader](journey, model) if reader in _READERS else _in_database(journey, model, reader)
    if scored is not None:
        is_rounded = journey["growth"] in SLOPES and reader == "explain"
        _same(scored, expected, reader, 1e-6 if is_rounded else 1e-9)


def _check_copies(journey: _Journey, model: fb.Model, frame: pl.DataFrame, expected: np.ndarray) -> None:
    """Hold the model on float32 copies, on a row without a value, and on other offsets, to what must be."""
    if journey["growth"] not in SLOPES:
        # A value that no threshold was chosen by may be one itself, which float32 may round down.
        thresholds = model.trees.filter(pl.col("feature") == "price")["threshold"].cast(pl.Float64, strict=False)
        is_between = ~frame["price"].is_in(thresholds.implode()).fill_null(value=False)
        narrow = frame.with_columns(pl.col("price").cast(pl.Float32)).filter(is_between)
        _same(_margins(model, narrow), expected[is_between.to_numpy()], "float32 copies")
    nothing = pl.DataFrame({name: [None] for name in journey.features})
    roles = {name: frame[name][:1] for name in ("offset", "exposure") if journey["extra"] == name}
    typed = frame[:1].with_columns(pl.lit(None, frame[name].dtype).alias(name) for name in journey.features)
    _same(_margins(model, nothing.with_columns(**roles)), _margins(model, typed), "missing values")
    if journey["extra"] == "offset":
        moved = _margins(model, frame.with_columns(pl.col("offset") + 1))
        np.testing.assert_allclose(moved, expected + 1, rtol=1e-9)
    if journey["extra"] == "exposure":
        moved = _margins(model, frame.with_columns(pl.col("exposure") * 2))
        np.testing.assert_allclose(moved, expected + math.log(2), rtol=1e-9)


def _by_expression(journey: _Journey, model: fb.Model) -> np.ndarray:
    return _scored(journey.frame.select(model.expr("margin")).to_series())


def _database(model: fb.Model, dialect: str = "duckdb") -> fb.DatabaseModel:
    """Return the model for tables that have all columns, those of a star as well."""
    return model.database(dialect, **{"tables": "joined"} if model.ensemble.joins else {})


def _query(journey: _Journey, model: fb.Model, **form: Any) -> np.ndarray:
    """Return what a query over the rows, in a table that ignores case where the meeting is of one, says."""
    CONTAINERS["NOCASE table" if journey["container"] == "NOCASE table" else "relation"](
        journey.frame, journey["columns"], journey.con, journey.folder
    )
    database = _database(model)
    if form.get("form") == "table":
        for statement in database.table_statements("trees"):
            journey.con.execute(statement)
    if form.pop("view", False):
        journey.con.execute(database.create_view_sql("scored", "given_rows", keep=["id"], output="margin", name="m"))
        statement = "SELECT * FROM scored"
    else:
        statement = database.query("given_rows", keep=["id"], output="margin", name="m", **form)
    found = journey.con.execute(f"SELECT * FROM ({statement}) ORDER BY id").fetchnumpy()
    return np.column_stack([values for name, values in found.items() if name != "id"])


def _by_function(journey: _Journey, model: fb.Model, form: str) -> np.ndarray:
    to_duckdb(journey.con, journey.frame, "given_rows")
    model.register(journey.con, "score", output="margin", form=form)
    names = [*model.features, *(name for name in ("offset", "exposure") if journey["extra"] == name)]
    arguments = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
    found = journey.con.execute(f"SELECT score({arguments}) AS m FROM given_rows ORDER BY id").fetchall()
    return _scored(pl.Series([value for (value,) in found]))


def _by_contributions(journey: _Journey, model: fb.Model) -> np.ndarray:
    """Return the sums of contributions, which are the margins."""
    if model.ensemble.n_outputs > 1:
        several = [model.explain(journey.frame, approx=True, output=i) for i in range(model.ensemble.n_outputs)]
        return np.column_stack([one.sum_horizontal().to_numpy() for one in several])
    return model.explain(journey.frame, approx=True).sum_horizontal().to_numpy()[:, None]


def _check_drift(journey: _Journey, model: fb.Model) -> None:
    """The rows of training have not drifted."""
    database = _database(model)
    to_duckdb(journey.con, journey.frame, "given_rows")
    drift = journey.con.sql(database.drift_query("given_rows", database.baseline(journey.frame))).pl()
    assert drift["psi"].is_finite().all() and drift["psi"].max() < 1e-9


def _check_report(journey: _Journey, model: fb.Model) -> None:
    """Rows in a database have the metrics of the frame, which the page shows, with nothing of a name as markup."""
    path, frame = journey.folder / "report.html", journey.frame[:80]
    told = {**journey.weight, **journey.group}
    # Rows of a query with equal margins are ranked by their positions.
    kind = "relation" if journey["loss"] == "ranks" else "shuffled query"
    kind = "NOCASE table" if journey["container"] == "NOCASE table" else kind
    data = CONTAINERS[kind](frame, journey["columns"], journey.con, journey.folder)
    found, expected = (model.evaluate(given, journey.target, **told).metrics for given in (data, frame))
    assert found["metric"].to_list() == expected["metric"].to_list()
    np.testing.assert_allclose(found["value"].to_numpy(), expected["value"].to_numpy(), rtol=1e-6, atol=1e-9)
    with patch("frameboost.report.material._DRAWS", 2):
        model.report(frame, path, journey.target, **told)
    page = path.read_text(encoding="utf-8")
    for name, value in expected.rows():
        assert re.search(rf'<td>{re.escape(name)}</td><td class="number">{value:.4g}<', page), (name, value)
    assert page.count("<script") == page.count("</script") == 4  # the theme, the charts' JSON, Vega, the page's


def _by_dbt(journey: _Journey, model: fb.Model) -> np.ndarray:
    """Return what the dbt model says, rendered by Jinja as dbt does."""
    import jinja2

    paths = _database(model).to_dbt(journey.folder, "scored", "given_rows", keep=["id"], output="margin")
    to_duckdb(journey.con, journey.frame, "given_rows")
    macros = "".join(path.read_text(encoding="utf-8") for path in paths if path.parent.name == "macros")
    text = next(path for path in paths if path.suffix == ".sql" and path.parent.name == "models").read_text("utf-8")
    environment = jinja2.Environment(extensions=["jinja2.ext.do"])
    sql = environment.from_string(macros + text).render(
        ref=lambda name: name, config=lambda **kw: "", is_incremental=lambda: False, this="scored",
        adapter=None, target=None, var=lambda name, default=None: default,
    )  # fmt: skip
    found = journey.con.execute(f"SELECT * FROM ({sql}) ORDER BY id").fetchnumpy()
    return np.column_stack([values for name, values in found.items() if name != "id"])


def _in_database(journey: _Journey, model: fb.Model, dialect: str) -> np.ndarray:
    """Return what a query says in another database, whose table is filled by its own driver."""
    database, frame = open_warehouse(dialect), journey.frame
    columns = {feature.name: (feature.type, _physical(frame[feature.name])) for feature in model.ensemble.features}
    numbers = FeatureType("float64")
    columns |= {name: (numbers, frame[name].to_list()) for name in ("offset", "exposure") if journey["extra"] == name}
    for kind, values in columns.values():
        if not all(database.holds(kind, value) for value in values if value is not None):
            return _margins(model, frame)
    database.fill("given_rows", columns)
    query = _database(model, dialect).query("given_rows", keep=["id"], output="margin", name="m")
    return np.array([row[1:] for row in sorted(database.rows(query))], dtype=float)


def _physical(column: pl.Series) -> list[Any]:
    if isinstance(column.dtype, pl.Decimal):
        return [None if v is None else int(v.scaleb(column.dtype.scale)) for v in column]
    if isinstance(column.dtype, pl.Enum) or column.dtype == pl.Boolean:
        return column.to_list()
    return column.to_physical().to_list()


_READERS: dict[str, Callable[[_Journey, fb.Model], np.ndarray | None]] = {
    "none": lambda journey, model: None,
    "predict": lambda journey, model: _margins(model, journey.frame.lazy()),
    "expr": _by_expression,
    "case": lambda journey, model: _query(journey, model, form="case"),
    "lists": lambda journey, model: _query(journey, model, form="lists"),
    "staged": lambda journey, model: _query(journey, model, form="staged"),
    "table": lambda journey, model: _query(journey, model, form="table", trees="trees"),
    "view": lambda journey, model: _query(journey, model, view=True),
    "macro": lambda journey, model: _by_function(journey, model, "macro"),
    "udf": lambda journey, model: _by_function(journey, model, "udf"),
    "explain": _by_contributions,
    "drift": _check_drift,
    "report": _check_report,
    "dbt": _by_dbt,
}
