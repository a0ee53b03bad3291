"""The progress bar: shown at a terminal or with ``verbose=True``, otherwise silent."""

import io
import logging
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numba.core import event

import frameboost as fb
from frameboost.engines.memory.partition import number_rows
from frameboost.runtime import progress

ROOT = Path(__file__).parents[2]
DATA = pl.DataFrame({"x": [1, 2, 3, 4] * 5, "y": [0, 0, 1, 5] * 5})


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE_SECONDS", 0.0)


def shown(monkeypatch, stream, **options) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    fb.fit(DATA, "y", n_estimators=30, **options)
    return stream.getvalue()


def test_a_person_at_a_terminal_sees_trees_loss_and_time(impatient, monkeypatch):
    text = shown(monkeypatch, Terminal())
    assert "30" in text
    assert "rmse=" in text
    assert "tree" in text
    assert "<" in text  # tqdm's time passed < time left


@pytest.mark.parametrize(("stream", "verbose", "is_shown"), [
    (io.StringIO, None, False), (io.StringIO, True, True), (Terminal, False, False), (Terminal, True, True),
    (Terminal, -1, False), (Terminal, 0, False), (io.StringIO, 1, True), (io.StringIO, np.True_, True),
])  # fmt: skip
def test_it_is_shown_elsewhere_or_not_as_asked_for(impatient, monkeypatch, stream, verbose, is_shown):
    text = shown(monkeypatch, stream(), verbose=verbose)
    assert ("rmse=" in text) == bool(text) == is_shown


@pytest.mark.parametrize(("verbose", "lines"), [(None, 1), (True, 1), (False, 0), (-1, 0)])
def test_a_log_file_says_what_a_long_compilation_is(monkeypatch, verbose, lines):
    now = [50.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(progress, "_said_of_compiling", set())
    with progress.announce_compilation(verbose):
        for _ in range(4):
            with event.trigger_event("numba:compile", data={"dispatcher": number_rows}):
                pass
            assert sys.stderr.getvalue() == "" or verbose or now[0] >= 51
            now[0] += 0.5
    assert sys.stderr.getvalue() == "frameboost: compiling kernels, once on this machine ...\n" * lines


def test_a_session_says_once_that_it_compiles(monkeypatch, caplog):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(progress, "_said_of_compiling", set())
    with caplog.at_level(logging.INFO, "frameboost"):
        for verbose in (False, True, True):
            with progress.announce_compilation(verbose):
                for _ in range(2):
                    with event.trigger_event("numba:compile", data={"dispatcher": number_rows}):
                        pass
    assert sys.stderr.getvalue().count("compiling kernels") == 1
    assert [record.message for record in caplog.records] == ["compiling kernels, once on this machine"]


def messages_of(caplog, **options):
    caplog.clear()
    with caplog.at_level(options.pop("level", logging.INFO), "frameboost"):
        fb.fit(DATA, "y", n_estimators=3, **options)
    return [record.getMessage() for record in caplog.records if record.name == "frameboost"]


def test_a_log_has_the_beginning_and_the_end_of_a_fit(monkeypatch, caplog):
    model = fb.fit(DATA, "y", n_estimators=3)
    rmse = ((model.predict(DATA) - DATA["y"]) ** 2).mean() ** 0.5
    start, end = messages_of(caplog)
    assert start == "fit: reg:squarederror, 20 rows, 1 feature, numba"
    assert re.fullmatch(rf"fit: 3 trees in \d+\.\d seconds, train_rmse={rmse:.6g}", end)
    monkeypatch.setattr(progress, "_LOG_SECONDS", 0.0)
    assert [text.partition(",")[0] for text in messages_of(caplog, verbose=False)][1:-1] == [
        f"fit: {number} of 3 trees" for number in (1, 2, 3)
    ]
    assert len(messages_of(caplog, folds=2)) == 10
    assert messages_of(caplog, level=logging.WARNING) == []


def test_a_search_logs_its_steps(caplog):
    with caplog.at_level(logging.INFO, "frameboost"):
        fb.auto(pl.concat([DATA] * 3), "y", quality=1, n_estimators=2)
    steps = [record.getMessage() for record in caplog.records if record.getMessage().startswith("auto: ")]
    assert steps == ["auto: symmetric trees, fold 1 of 1", "auto: choosing by held-out rows"]


def test_short_work_shows_nothing(monkeypatch):
    assert "rmse" not in shown(monkeypatch, Terminal())


def test_the_loss_is_not_computed_without_a_progress_bar():
    def evaluate() -> float:
        raise AssertionError

    with progress.progress(3, evaluate, verbose=None) as update:
        for i in range(3):
            update(i + 1)


def test_the_loss_is_computed_once_a_second_at_most(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    calls = []
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with progress.progress(40, lambda: calls.append(1) or ("rmse", 0.5), verbose=True) as update:
        for i in range(40):
            now[0] += 0.125
            update(i + 1)
    assert len(calls) == 5  # 40 trees in 5 seconds


@pytest.mark.slow
def test_the_loss_shown_is_the_training_loss(impatient, monkeypatch):
    seen = set(re.findall(r"rmse=([^\],]+)", shown(monkeypatch, Terminal())))
    model = fb.fit(DATA, "y", n_estimators=30)
    losses = {f"{((model[:k].predict(DATA) - DATA['y']) ** 2).mean() ** 0.5:.6g}" for k in range(1, 31)}
    assert seen
    assert seen <= losses


_FITS = """
import sys, frameboost as fb, polars as pl
from frameboost.engines import query_costs
query_costs.MAX_VALUES = -1  # polars runs queries
data = pl.DataFrame({"x": [1, 2, 3, 4] * 5, "y": [0, 0, 1, 5] * 5})
for verbose, engine in (False, "polars"), (True, "numba"), (True, "numba"), (None, "numba"):
    fb.fit(data, "y", n_estimators=2, engine=engine, verbose=verbose)
    print("fitted", file=sys.stderr)
"""


@pytest.mark.slow
def test_the_first_fit_says_that_kernels_compile(tmp_path):
    # A copy of the package has the kernels that this process has compiled, but for one that the polars engine needs
    # too and one that it does not: to compile all of them again would take half a minute.
    for engine in ("polars", "numba"):
        fb.fit(DATA, "y", n_estimators=2, engine=engine)
    for part in ("frameboost", "sql"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("*.tmp.*"))  # half written
    for missing in ("subtract_from_parents", "add_by_node"):
        for file in tmp_path.rglob(f"*.{missing}.*.nb?"):
            file.unlink()
    outside = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", _FITS], cwd=tmp_path, env=outside | {"PYTHONPATH": str(tmp_path)}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    said = "frameboost: compiling kernels, once on this machine ...\n"
    # The first fit compiles in silence, the second what it needs besides.
    silent, told, known, unwatched, _ = done.stderr.split("fitted\n")
    assert told.count(said) == 1
    assert silent == unwatched == done.stdout == ""
    assert said not in known
    assert any(tmp_path.rglob("*partition.add_by_node.*.nbi"))


def test_the_bar_shows_the_metric_that_early_stopping_watches(impatient, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    rows = pl.DataFrame({"x": [1, 2, 3, 4] * 3, "y": [0.0, 1.0, 4.0, 9.0] * 3, "late": [False, False, True] * 4})
    fb.fit(rows, "y", valid="late", eval_metric=["rmse", "mae"], n_estimators=3)
    assert "valid_mae=" in terminal.getvalue()
