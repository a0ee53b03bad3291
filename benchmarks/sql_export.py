"""Compare the size, speed and exactness of ways to export a trained model as SQL, and print one table; see README.md.

A way that fails is marked, with the reason below the table. A row differs if its score is more than 0.00001 off the
prediction of its own library.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from itertools import count
from typing import Any

import duckdb
import numpy as np
import polars as pl

import frameboost as fb

CON = duckdb.connect()
NUMBERS = count()  # for unique names of functions and of tables of trees
ODD_NAMES = ("select", 'a"b', "naïve ☃", "x.y", "it's")
HEADS = ("way", "KB", "export s", "plan s", "total s", "ratio", "diff", "NULL", "NaN", "on FLOAT", "on DOUBLE", "names")
ESTIMATORS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gbr": ("sklearn.ensemble", "GradientBoostingRegressor", {"max_features": 0.3, "random_state": 0}),
    "hgb": ("sklearn.ensemble", "HistGradientBoostingRegressor", {}),
    "forest": ("sklearn.ensemble", "RandomForestRegressor", {"max_features": 0.3, "random_state": 0}),
    "xgb": ("xgboost", "XGBRegressor", {"learning_rate": 0.1, "base_score": 0.5}),  # a base_score that m2cgen can read
    "lgb": ("lightgbm", "LGBMRegressor", {"verbose": -1}),
}


@dataclass
class Table:
    """A table; its columns besides ``id`` are the features."""

    name: str
    frame: pl.DataFrame

    def __post_init__(self) -> None:
        CON.register("arrived", self.frame.with_row_index("id"))
        CON.execute(f"CREATE OR REPLACE TABLE {self.name} AS FROM arrived")


@dataclass
class Way:
    """A way to export, and its models; it returns texts, the last a query whose last column is the score."""

    name: str
    export: Callable[[Any, Table], list[str]]
    model: str
    missing: tuple[str, ...]
    query: str = ""
    cells: dict[str, str] = field(default_factory=dict)


def fit(kind: str, frame: pl.DataFrame, y: np.ndarray, trees: int, depth: int) -> Any:
    size = {"max_iter" if kind == "hgb" else "n_estimators": trees, "max_depth": depth}
    if kind == "own":
        return fb.fit(frame.with_columns(label=pl.Series(y)), "label", **size, learning_rate=0.1, verbose=False)
    module, name, more = ESTIMATORS[kind]
    return getattr(import_module(module), name)(**size, **more).fit(frame, y)


def splits(model: Any) -> Iterable[tuple[str, float]]:
    """Return the column and threshold of each split, as the library stores them."""
    if isinstance(model, fb.Model):
        return model.trees.drop_nulls("threshold").select("feature", "threshold").rows()
    if hasattr(model, "estimators_"):
        trees = [member.tree_ for member in model.estimators_[:, 0]]
        asked = [pair for tree in trees for pair in zip(tree.feature, tree.threshold, strict=True) if pair[0] >= 0]
        return [(model.feature_names_in_[i], threshold) for i, threshold in asked]
    booster = model.booster_ if hasattr(model, "booster_") else model.get_booster()
    names = ["split_feature", "threshold"] if hasattr(model, "booster_") else ["Feature", "Split"]
    return booster.trees_to_dataframe()[names].dropna().itertuples(index=False)


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def number(value: float) -> str:
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def frameboost(model: Any, table: Table, form: str) -> list[str]:
    """Export with frameboost, which reads the other libraries' models; for ``table`` also load the table of trees."""
    if not isinstance(model, fb.Model):
        model = fb.from_xgboost(model) if hasattr(model, "get_booster") else fb.from_sklearn(model)
    if form == "udf":
        function, arguments = f"score_{next(NUMBERS)}", ", ".join(map(quote, table.frame.columns))
        model.register(CON, function, form="udf")
        return [f"SELECT id, {function}({arguments}) FROM {table.name}"]
    trees = f"trees_{next(NUMBERS)}"
    statements = model.database().table_statements(trees) if form == "table" else []
    for statement in statements:
        CON.execute(statement)
    return [*statements, model.query(table.name, keep=["id"], form=form, trees=trees if statements else None)]


def orbital(model: Any, table: Table, separate_trees: bool) -> list[str]:
    from orbital import export_sql, parse_pipeline, types
    from sklearn.pipeline import Pipeline

    kind = types.DoubleColumnType() if pl.Float64 in table.frame.dtypes else types.FloatColumnType()
    pipeline = parse_pipeline(Pipeline([("model", model)]), dict.fromkeys(table.frame.columns, kind))
    return [export_sql(table.name, pipeline, dialect="duckdb", separate_trees=separate_trees)]


def conditions(model: Any) -> tuple[float, list[dict[Any, Any]]]:
    """Return the base score, and each tree by node: the value of a leaf, or the conditions of the two children."""
    trees: dict[int, dict[Any, Any]] = {}
    if hasattr(model, "estimators_"):
        for tree in (member.tree_ for member in model.estimators_[:, 0]):
            found = trees.setdefault(len(trees), {})
            for i, (left, right) in enumerate(zip(tree.children_left, tree.children_right, strict=True)):
                name, at = quote(model.feature_names_in_[tree.feature[i]]), number(tree.threshold[i])
                inner = {left: f"{name} <= {at}", right: f"{name} > {at}"}
                found[i] = inner if left >= 0 else tree.value[i, 0, 0] * model.learning_rate
        return model.init_.constant_[0, 0], list(trees.values())
    for row in model.get_booster().trees_to_dataframe().to_dict("records"):
        name, at = quote(row["Feature"]), number(row["Split"])
        inner = {row["Yes"]: f"{name} < {at}", row["No"]: f"{name} >= {at}"}
        is_leaf, found = row["Feature"] == "Leaf", trees.setdefault(row["Tree"], {})
        if not is_leaf:
            inner[row["Missing"]] = f"({inner[row['Missing']]} OR {name} IS NULL)"
        found[row["ID"] if found else 0] = row["Gain"] if is_leaf else inner
    return model.base_score, list(trees.values())


def tidypredict_style(model: Any, table: Table, flat: bool) -> list[str]:
    """Write trees like R's tidypredict: a WHEN with the whole path for each leaf (up to 1.0), or nested CASE (1.1)."""

    def leaves(tree: dict[Any, Any], at: Any, *path: str) -> str:
        if isinstance(tree[at], dict):
            return " ".join(leaves(tree, follows, *path, asked) for follows, asked in tree[at].items())
        return f"WHEN {' AND '.join(path) or 'TRUE'} THEN {number(tree[at])}"

    def nested(tree: dict[Any, Any], at: Any) -> str:
        if not isinstance(tree[at], dict):
            return number(tree[at])
        (left, asked), (right, _) = tree[at].items()
        return f"CASE WHEN {asked} THEN {nested(tree, left)} ELSE {nested(tree, right)} END"

    start, trees = conditions(model)
    terms = [number(start), *(f"CASE {leaves(tree, 0)} END" if flat else nested(tree, 0) for tree in trees)]
    return [f"SELECT id, {' + '.join(terms)} AS prediction FROM {table.name}"]


def m2cgen(model: Any, table: Table) -> list[str]:
    """Write a Python function, which DuckDB calls for each row, because m2cgen does not write SQL."""
    text, found, function = import_module("m2cgen").export_to_python(model), dict[str, Any](), f"score_{next(NUMBERS)}"
    exec(text, found)
    CON.create_function(function, found["score"], ["DOUBLE[]"], "DOUBLE")
    values = ", ".join(f"COALESCE({quote(name)}, 'NaN')" for name in table.frame.columns)
    return [text, f"SELECT id, {function}([{values}]) FROM {table.name}"]


def ways() -> list[Way]:
    forms = {form: partial(frameboost, form=form) for form in ("case", "staged", "table", "udf")}
    return [
        *(Way(f"frameboost, own model: {form}", how, "own", ("own",)) for form, how in forms.items()),
        *(Way(f"fb.from_sklearn: {form}", how, "gbr", ("hgb", "forest", "xgb")) for form, how in forms.items()),
        Way("orbital", partial(orbital, separate_trees=False), "gbr", ("hgb", "forest")),
        Way("orbital, separate_trees", partial(orbital, separate_trees=True), "gbr", ("hgb", "forest")),
        Way("tidypredict-style, flat (≤ 1.0)", partial(tidypredict_style, flat=True), "gbr", ("xgb",)),
        Way("tidypredict-style, nested (1.1)", partial(tidypredict_style, flat=False), "gbr", ("xgb",)),
        *(Way(f"m2cgen, {kind}: Python", m2cgen, kind, (kind,)) for kind in ("gbr", "lgb", "xgb")),
    ]


class Comparison:
    """The rows, the models, and the reasons of failures."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        rng, n_train = np.random.default_rng(0), chosen.train_rows
        x = rng.standard_normal((n_train + chosen.rows, 28), dtype=np.float32)
        y = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + x[:, 3] ** 2 / 2 + rng.standard_normal(len(x))
        rows = pl.DataFrame(x, schema=[f"x{i}" for i in range(28)])
        gaps = pl.DataFrame(np.where(rng.random(x.shape) < 0.1, np.float32(np.nan), x), schema=rows.columns)
        self.notes, self.y, self.train = dict[str, int](), y[:n_train], rows.head(n_train)
        self.plain = Table("plain", rows.tail(chosen.rows))
        missing, held = gaps.fill_nan(None), min(chosen.rows, 10_000)
        self.gaps = {"NULL": Table("nulls", missing.tail(held)), "NaN": Table("nans", gaps.tail(held))}
        frames = {True: missing.head(n_train), False: self.train}
        self.model = cache(lambda kind, gaps: fit(kind, frames[gaps], self.y, chosen.trees, chosen.depth))

    def attempt(self, compute: Callable[..., str], *arguments: Any) -> str:
        """Return the text, or the number of the note with the reason if computing it fails."""
        try:
            return compute(*arguments)
        except ImportError as error:
            return f"{error.name} not installed"
        except Exception as error:
            root = error.__cause__ or error.__context__ or error
            note = f"{type(root).__name__}: {' '.join(str(root).split())[:120]}"
            return f"fails [{self.notes.setdefault(note, len(self.notes) + 1)}]"

    def measure(self, way: Way) -> None:
        """Fill in all cells except the times of scoring."""
        way.cells |= {"way": way.name, "diff": self.attempt(self._exported, way)}
        for gap, table in self.gaps.items():
            found = (f"{k} {self.attempt(share, way, partial(self.model, k, True), table)}" for k in way.missing)
            way.cells[gap] = ", ".join(found)
        way.cells["on FLOAT"] = self.attempt(self._on_thresholds, way, pl.Float32)
        way.cells["on DOUBLE"] = self.attempt(self._on_thresholds, way, pl.Float64)
        found = (
            [] if way.export is m2cgen else [(name, self.attempt(self._oddly_named, way, name)) for name in ODD_NAMES]
        )
        wrong = ", ".join(f"{name} {text}" for name, text in found if text != "0")
        way.cells["names"] = wrong or ("yes" if found else "by position")

    def _exported(self, way: Way) -> str:
        model, start = self.model(way.model, False), time.perf_counter()
        texts = way.export(model, self.plain)
        way.cells["export s"] = f"{time.perf_counter() - start:.2f}"
        way.cells["KB"] = f"{sum(len(text.encode()) for text in texts) / 1000:.1f}"
        way.cells["plan s"] = f"{min(seconds(f'EXPLAIN {texts[-1]}') for _ in range(3)):.3f}"
        difference = np.abs(scores(texts[-1]) - model.predict(self.plain.frame)).max()
        way.query = texts[-1]
        return f"{difference:.0e}" if difference else "0"

    def _on_thresholds(self, way: Way, kind: type[pl.DataType]) -> str:
        """Score rows on thresholds, exact and rounded to float32, and on the float32 before and after."""
        model, names = self.model(way.model, False), self.plain.frame.columns
        asked = list(splits(model))[: self.plain.frame.height]
        exact = np.array([threshold for _, threshold in asked])
        near = exact.astype(np.float32)
        values = [exact, near, np.nextafter(near, np.float32(-np.inf)), np.nextafter(near, np.float32(np.inf))]
        x = np.tile(self.plain.frame.head(len(asked)).to_numpy().astype(np.float64), (len(values), 1))
        x[np.arange(len(x)), [names.index(name) for name, _ in asked] * len(values)] = np.concatenate(values)
        rows = pl.DataFrame(x, schema=names).cast(kind)
        return share(way, lambda: model, Table("on_thresholds", rows))

    def _oddly_named(self, way: Way, name: str) -> str:
        frame = self.train.select(pl.col("x0").alias(name), "x1").head(2000)
        return share(way, lambda: fit(way.model, frame, self.y[:2000], 3, 3), Table("oddly_named", frame))


def share(way: Way, get_model: Callable[[], Any], table: Table) -> str:
    """Return the share of rows that differ; NULL differs too."""
    model = get_model()
    distance = np.abs(scores(way.export(model, table)[-1]) - np.asarray(model.predict(table.frame)))
    differ = 100 * float(np.mean(~(distance <= 1e-5)))
    return f"{differ:.2g} %" if differ else "0"


def scores(query: str) -> np.ndarray:
    """Return the scores in the order of the table's rows, NaN for NULL."""
    result = CON.sql(query).pl()
    return (result.sort("id") if "id" in result.columns else result).to_series(-1).cast(pl.Float64).to_numpy()


def seconds(query: str) -> float:
    start = time.perf_counter()
    CON.execute(query).fetchnumpy()
    return time.perf_counter() - start


def time_all(tried: list[Way], rounds: int) -> None:
    """Time each way in turn, ``rounds`` times, planning included."""
    runs = [[(way, seconds(way.query)) for way in tried if way.query] for _ in range(rounds)]
    best = [(column[0][0], min(took for _, took in column)) for column in zip(*runs, strict=True)]
    for way, took in best:
        way.cells |= {"total s": f"{took:.3f}", "ratio": f"{took / min(took for _, took in best):.1f}"}


def show(tried: list[Way], notes: dict[str, int]) -> None:
    rows = [HEADS, *([way.cells.get(head, "") for head in HEADS] for way in tried)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(map(str.ljust, row, widths)).rstrip())
    print(*(f"[{i}] {note}" for note, i in notes.items()), sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in {"rows": 100_000, "train-rows": 10_000, "trees": 100, "depth": 4, "rounds": 5}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--quick", action="store_true", help="10,000 rows, 20 trees of depth 3")
    chosen = parser.parse_args()
    if chosen.quick:
        vars(chosen).update({"rows": 10_000, "train_rows": 5_000, "trees": 20, "depth": 3})
    warnings.filterwarnings("ignore", module="(sklearn|skl2onnx|lightgbm|xgboost)")
    comparison, tried = Comparison(chosen), ways()
    for way in tried:
        comparison.measure(way)
    time_all(tried, chosen.rounds)
    print(f"{chosen.rows:,} rows × 28, {chosen.trees} trees of depth {chosen.depth}\n")
    show(tried, comparison.notes)


if __name__ == "__main__":
    main()
