"""Kernels that are compiled once the work without them would have paid for it."""

import json
import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.engines.memory import engine, trees
from frameboost.runtime import kernel as kernels
from frameboost.runtime.kernel import CompileLater, compile_at_once, kernel


@kernel
def _never_called(x):
    return x


@pytest.fixture(autouse=True)
def _on(monkeypatch):
    monkeypatch.setattr(CompileLater, "is_on", True)


def test_work_is_counted_until_the_kernel_is_worth_compiling_or_is_compiled(monkeypatch):
    later = CompileLater(_never_called, most=10)
    with compile_at_once():
        assert not later.spend(1)
    assert [later.spend(work) for work in (4, 7, 6, 1)] == [True, False, True, False]
    later = CompileLater(_never_called, most=10)
    monkeypatch.setattr(kernels, "is_compiled", lambda kernel: kernel is _never_called)
    assert not later.spend(1)


# Numba says which kernels it compiles: those that no cache has.
_FIRST_FIT = """
import json, sys
from pathlib import Path
import polars as pl
import frameboost as fb
from numba.core import event
compiled = []
class Listener(event.Listener):
    def on_start(self, about):
        function = about.data["dispatcher"].py_func
        if function.__module__.startswith("frameboost"):
            compiled.append(function.__name__)
    def on_end(self, about):
        pass
event.register("numba:compile", Listener())
rows = pl.read_parquet(sys.argv[1])
model = fb.fit(rows, "y", engine=sys.argv[2], n_estimators=int(sys.argv[3]), verbose=False)
Path(sys.argv[4]).write_text(model.to_json())
print(json.dumps(compiled))
"""


def first_fit(folder, engine, n_estimators):
    """Return the kernels that a fit compiles in a process, of those that no earlier one has, and its model file."""
    saved = folder / f"{engine}-{n_estimators}.json"
    arguments = [str(folder / "rows.parquet"), engine, str(n_estimators), str(saved)]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", _FIRST_FIT, *arguments], capture_output=True, text=True, check=True, env=environment
    )
    return json.loads(done.stdout), saved.read_text()


@pytest.mark.slow
def test_a_first_fit_compiles_few_kernels(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    rows = pl.DataFrame(x, schema=["a", "b", "c"]).with_columns(y=pl.Series(x[:, 0] * x[:, 1] > 0.1))
    rows.write_parquet(tmp_path / "rows.parquet")
    compiled, model = first_fit(tmp_path, "numba", 5)
    assert "scan_histograms" in compiled
    assert not {"grow_tree", "compute_gh", "shares_of", "move_pieces", "scan_categories"} & set(compiled)
    assert len(compiled) <= 22, compiled
    with compile_at_once():
        assert fb.fit(rows, "y", n_estimators=5, verbose=False).to_json() == model


def test_a_fit_of_many_trees_is_worth_compiling_for(monkeypatch):
    """One that may stop early counts with all its trees."""
    monkeypatch.setattr(kernels, "is_compiled", lambda _: False)
    monkeypatch.setattr(trees._compiling_later, "_left", trees._compiling_later._left)  # put back afterwards
    used, original = [], engine.TreeKernels
    monkeypatch.setattr(engine, "TreeKernels", lambda *args: used.append(args) or original(*args))
    x = np.random.default_rng(0).normal(size=400)
    rows = pl.DataFrame({"x": x, "y": np.sin(9 * x)})
    for n_trees, is_used in ((5, False), (3000, True)):
        how = {"engine": "numba", "valid": 0.5, "early_stopping_rounds": 1, "learning_rate": 1, "verbose": False}
        fb.fit(rows, "y", n_estimators=n_trees, **how)
        assert bool(used) == is_used
