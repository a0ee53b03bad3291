"""Kind of case: random models, scored in every way.

Margins have the same bits everywhere, a file gives the model back, and contributions add up to the margin.
"""

from __future__ import annotations

import os
import pickle
import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import fsum
from pathlib import Path

import duckdb
import numpy as np
import polars as pl

import frameboost as fb
from frameboost.ensemble.model_file import read_model
from frameboost.trees.tree import Tree
from tests.fuzz import frames
from tests.fuzz.columns import Column, as_frame, random_columns, shrink_columns
from tests.support.models import model_of_parts
from tests.support.random_models import naive_leaves, random_model, to_duckdb
from tests.support.warehouses import Warehouse, open_warehouse

__all__ = ["MAX_MEGABYTES", "MAX_SECONDS", "Case", "check", "generate", "shrink"]

MAX_SECONDS, MAX_MEGABYTES = 60, 2000
# Databases besides DuckDB. The others in tests/support/warehouses.py take seconds to start.
_WAREHOUSES = os.environ.get("FRAMEBOOST_FUZZ_WAREHOUSES", "sqlite").split(",")


@dataclass(frozen=True)
class Case:
    """The text of a model file, and rows to score."""

    model: str
    columns: tuple[Column, ...]


def generate(rng: np.random.Generator) -> Case:
    if rng.random() < 0.3:
        trained = _trained(rng)
        if trained is not None:
            return trained
    columns = random_columns(rng, int(rng.choice([1, 7, 40, 300])), 5)
    python = random.Random(int(rng.integers(2**62)))
    kinds, names = [column.kind for column in columns], [column.name for column in columns]
    n_trees, depth = int(rng.integers(1, 12)), int(rng.integers(0, 7))
    model = random_model(kinds, names, python, n_trees, depth)
    trees = [replace(tree, cover=_covers(tree)) for tree in model.ensemble.trees]
    model = model_of_parts(model.ensemble.loss, {}, model.ensemble.features, model.ensemble.base_margins, trees)
    return Case(model.to_json(), tuple(columns))


def _covers(tree: Tree) -> tuple[float, ...]:
    """Return the number of leaves below each node as covers: they add up, as those of training do."""
    covers = [1.0] * len(tree)
    for node in reversed(range(len(tree))):
        if not tree.is_leaf(node):
            covers[node] = covers[tree.left[node]] + covers[tree.right[node]]
    return tuple(covers)


def _trained(rng: np.random.Generator) -> Case | None:
    drawn = frames.generate(rng)
    used = [*drawn.options["features"], drawn.options.get("base_margin")]
    columns = tuple(column for column in drawn.columns if column.name in used)
    model = frames.outcome_of(as_frame(drawn.columns), drawn.options, "numba")
    return None if isinstance(model, str) else Case(model.to_json(), columns)


def bits(values: Sequence, n_outputs: int) -> list[list[int]]:
    """Return the bits of margins as int64, a list for each row."""
    rows = [value if isinstance(value, list | tuple) else [value] for value in values]
    return np.array(rows, dtype=np.float64).reshape(len(rows), n_outputs).view(np.int64).tolist()


def expected_margins(model: fb.Model, columns: Sequence[Column]) -> list[list[float]]:
    """Return the margins by a plain walk through the trees: exact sums, rounded once."""
    values = {column.name: list(column.values) for column in columns}
    margins = []
    for leaves in naive_leaves(model, values):
        of_row = [[base] for base in model.ensemble.base_margins]
        for tree, leaf in zip(model.ensemble.trees, leaves, strict=True):
            of_row[tree.output].append(tree.value[leaf])
        margins.append([fsum(parts) for parts in of_row])
    for name in _offsets(model):
        margins = [[margin + offset for margin in of_row] for of_row, offset in zip(margins, values[name], strict=True)]
    return margins


def _offsets(model: fb.Model) -> list[str]:
    return model.ensemble.offset.names if model.ensemble.offset else []


def model_of(text: str) -> fb.Model:
    return fb.Model(read_model(text.encode()))


def duckdb_margins(model: fb.Model, frame: pl.DataFrame, columns: Sequence[Column]) -> dict[str, list]:
    """Return the margins of every way to compute them in DuckDB, by its name."""
    con, found = duckdb.connect(), {}
    to_duckdb(con, frame, "t")
    for i, statement in enumerate(model.database().table_statements("trees")):
        con.execute(statement)
        assert i or con.execute("SELECT count(*) FROM trees")
    rows = lambda query: [list(row[1:]) for row in sorted(con.execute(query).fetchall())]  # noqa: E731
    arguments = [*model.features, *_offsets(model)]
    names = ", ".join('"' + name.replace('"', '""') + '"' for name in arguments)
    found["sql"] = _unpacked(rows(f"SELECT position, {model.sql('margin')} FROM t"))
    for form in ("auto", "case", "lists", "sorted", "staged", "table"):
        trees = "trees" if form == "table" else None
        found[f"query, {form}"] = rows(model.query("t", keep=["position"], output="margin", form=form, trees=trees))
    has_udf = not any(column.kind.family == "duration" or column.type == "uint128" for column in columns)
    for form in ("macro", "udf") if has_udf else ("macro",):
        model.register(con, f"by {form}", output="margin", form=form)
        found[form] = _unpacked(rows(f'SELECT position, "by {form}"({names}) FROM t'))
    found["predict, of a relation"] = model.predict(con.sql("FROM t ORDER BY position"), "margin").to_list()
    left = con.execute("SELECT table_name FROM duckdb_tables() WHERE table_name NOT IN ('t', 'trees')").fetchall()
    assert not left, f"left in the database: {left}"
    return found


def _unpacked(rows: list[list]) -> list:
    return [row[0] for row in rows]


def warehouse_margins(name: str, model: fb.Model, columns: Sequence[Column]) -> dict[str, tuple[list, list]]:
    """Return the margins from another database and the expected ones, by form; nothing if it lacks a type.

    Values that the database can't store become NULL, and column names that it does not allow are replaced.
    """
    warehouse = open_warehouse(name)
    if any(warehouse.column_type(c.kind) is None or not warehouse.holds(c.kind, 0 if c.kind.bounds else None)
           for c in columns):  # fmt: skip
        return {}
    held = [replace(c, values=tuple(v if v is None or warehouse.holds(c.kind, v) else None for v in c.values))
            for c in columns]  # fmt: skip
    names = {c.name: c.name if _can_name(c.name, warehouse) else f"column {i}" for i, c in enumerate(columns)}
    warehouse.fill("t", {names[column.name]: (column.kind, list(column.values)) for column in held})
    warehouse.run(f"DROP TABLE IF EXISTS {warehouse.dialect.quote('trees')}")
    renamed = {feature: names[feature] for feature in model.features}
    for statement in model.database(name, columns=renamed).table_statements("trees"):
        warehouse.run(statement)
    found, expected = {}, expected_margins(model, held)
    for form in ("case", "staged", "table"):
        options = {"form": form, "trees": "trees" if form == "table" else None, "columns": renamed}
        try:
            query = model.query("t", name, keep=["id"], output="margin", **options)
        except fb.ParameterError as error:  # the query exceeds a limit of the database
            assert form == "case" and "does not fit" in str(error), error
            continue
        found[f"{name}, {form}"] = [list(row[1:]) for row in sorted(warehouse.rows(query))], expected
    return found


def _can_name(name: str, warehouse: Warehouse) -> bool:
    dialect = warehouse.dialect
    return not set(name) & set(dialect.names.unnameable) and (dialect.names.ends_in_blank or name == name.strip())


def check(case: Case) -> None:
    model, frame = model_of(case.model), as_frame(case.columns)
    before, n_outputs = frame.clone(), len(model.ensemble.base_margins)
    margins = expected_margins(model, case.columns)
    expected = bits(margins, n_outputs)
    found = {"predict": model.predict(frame, "margin").to_list()}
    found["expr"] = frame.select(model.expr("margin")).to_series().to_list()
    found["expr, lazy"] = frame.lazy().select(model.expr("margin")).collect(engine="streaming").to_series().to_list()
    found |= duckdb_margins(model, frame, case.columns)
    for way, values in found.items():
        assert bits(values, n_outputs) == expected, f"{way}: {values} is not {margins}"
    for name in filter(None, _WAREHOUSES):
        for way, (values, wanted) in warehouse_margins(name, model, case.columns).items():
            assert bits(values, n_outputs) == bits(wanted, n_outputs), f"{way}: {values} is not {wanted}"
    leaves = model.predict(frame, "leaf").to_list()
    values = {column.name: list(column.values) for column in case.columns}
    assert leaves == naive_leaves(model, values), "other leaves"
    _check_predictions(model, frame)
    _check_file(model)
    _check_explanations(model, frame, margins)
    assert frame.equals(before), "the frame has been changed"


def _check_predictions(model: fb.Model, frame: pl.DataFrame) -> None:
    """Check that predictions, which may use exp, agree but for the last bits of exp."""
    con = duckdb.connect()
    to_duckdb(con, frame, "t")
    rows = sorted(con.execute(model.query("t", keep=["position"])).fetchall())
    found = {
        "predict": model.predict(frame).to_list(),
        "expr": frame.select(model.expr()).to_series().to_list(),
        "query": [list(row[1:]) for row in rows],
    }
    first, *others = (np.array(values, dtype=np.float64).reshape(len(frame), -1) for values in found.values())
    for way, other in zip(list(found)[1:], others, strict=True):
        close = np.isclose(other, first, rtol=1e-14, atol=0.0, equal_nan=True)
        assert close.all(), f"{way}: {other[~close]} is not {first[~close]}"


def _check_file(model: fb.Model) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("model.json", "model.ubj"):
            path = Path(folder) / name
            model.save(path)
            assert fb.load(path) == model, "the loaded model differs from the saved one"
            assert list(Path(folder).iterdir()) == [path], "other files were left behind"
            path.unlink()
    assert pickle.loads(pickle.dumps(model)) == model, "the unpickled model differs from the original"


def _check_explanations(model: fb.Model, frame: pl.DataFrame, margins: list[list[float]]) -> None:
    if "bias" in model.features:
        return
    con = duckdb.connect()
    to_duckdb(con, frame, "t")
    for output, margin in enumerate(np.array(margins).T):
        size = 1e-9 * (
            1
            + sum(max(map(abs, tree.value)) for tree in model.ensemble.trees)
            + abs(model.ensemble.base_margins[output])
        )
        for approx in (False, True):
            given = model.explain(frame, approx=approx, output=output)
            sums = given.to_numpy().sum(axis=1)
            assert np.allclose(sums, margin, rtol=1e-9, atol=size), f"{approx=}: {sums} is not {margin}"
        query = model.database().explain_query("t", keep=["position"], output=output, approx=True)
        rows = [row[1:] for row in sorted(con.execute(query).fetchall())]
        assert rows == given.rows(), f"explain_query gives {rows}, explain {given.rows()}"


def shrink(case: Case) -> Iterator[Case]:
    model = model_of(case.model)
    for columns in shrink_columns(case.columns, keep=model.features):
        yield replace(case, columns=tuple(columns))
    if model.n_rounds > 1:
        half = model.n_rounds // 2
        for rounds in (slice(0, half), slice(half, None), slice(1, None), slice(0, -1)):
            yield replace(case, model=model[rounds].to_json())
