"""Scores without numba: of the walk in numpy, and of a process that can't import numba."""

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.compile.arrays import flat_trees, vector_walk
from frameboost.prediction import predictor
from tests.support.cases import cases
from tests.support.random_models import TYPES, naive_leaves, naive_margins, random_case

ROOT = Path(__file__).parents[2]


@pytest.fixture
def without_kernels(monkeypatch):
    monkeypatch.setattr(predictor, "has_numba", lambda: False)
    for name in vector_walk.__all__:
        monkeypatch.setattr(flat_trees, name, getattr(vector_walk, name))


@cases("seed", range(6))
def test_leaves_and_margins_are_those_of_a_plain_walk(without_kernels, seed):
    rng = random.Random(seed)
    model, columns, frame = random_case(rng.choices(TYPES, k=4), rng, depth=seed % 5)
    assert model.predict(frame, "margin").to_list() == list(naive_margins(model, columns))
    assert model.predict(frame, "leaf").to_list() == naive_leaves(model, columns)


def test_rows_of_several_blocks_are_scored(without_kernels, monkeypatch):
    monkeypatch.setattr(vector_walk, "_BLOCK", 7)
    model, columns, frame = random_case(["float64"], random.Random(0), 100, depth=3)
    assert model.predict(frame, "margin").to_list() == list(naive_margins(model, columns))


ROWS = pl.DataFrame({"x": [1.0, 2.0, np.nan, 4.0] * 6, "kind": ["a", "b", None, "a"] * 6, "day": [1, 2, 3] * 8})

SCORES = """
import sys
sys.modules["numba"] = sys.modules["llvmlite"] = None  # an import of them fails
import duckdb, polars as pl, frameboost as fb
from frameboost.cli import main

model, rows = fb.load("model.json"), pl.read_parquet("rows.parquet")
con = duckdb.connect()
con.execute("CREATE TABLE t AS FROM 'rows.parquet'")
model.register(con, "score")
scores = {
    "predict": model.predict(rows),
    "file": model.predict("rows.parquet"),
    "relation": model.predict(con.table("t")),
    "expr": rows.select(model.expr()).to_series(),
    "query": con.sql(model.query("t")).pl()["prediction"],
    "function": con.sql("SELECT score(x, kind, day) AS s FROM t").pl()["s"],
}
assert main(["score", "model.json", "rows.parquet", "-o", "scored.parquet"]) == 0
scores["command line"] = pl.read_parquet("scored.parquet")["prediction"]
pl.DataFrame(scores).write_parquet("scores.parquet")
print(model.evaluate(rows, target="y", eval_metric="mae").metrics["value"].item())
training = (
    lambda: fb.fit(rows, "y"), lambda: fb.fit(rows, "y", folds=2), lambda: fb.plan(rows, "y"), lambda: fb.cv(rows, "y")
)
for call in (*training, lambda: fb.auto(rows, "y"), lambda: model.refit(rows, "y"), lambda: model.explain(rows)):
    try:
        call()
    except fb.ParameterError as error:
        print(error)
"""


@pytest.mark.slow
def test_a_process_without_numba_scores_alike_and_says_what_needs_it(tmp_path):
    rows = ROWS.with_columns(y=pl.col("day") * 10 + pl.col("x").fill_nan(0.0))
    model = fb.fit(rows, "y", n_estimators=3, max_depth=3)
    model.save(tmp_path / "model.json")
    rows.write_parquet(tmp_path / "rows.parquet")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCORES], cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    expected = model.predict(rows)
    for scores in pl.read_parquet(tmp_path / "scores.parquet"):
        assert scores.to_list() == expected.to_list(), scores.name
    error = (expected - rows["y"]).abs().mean()
    measured, *messages = done.stdout.splitlines()
    assert float(measured) == pytest.approx(error)
    needs = "needs numba, which is not installed: pip install numba (without it models load, predict and become SQL)"
    assert messages == [f"{what} {needs}" for what in ("fit", "fit", "fit", "fit", "auto", "refit", "explain")]
