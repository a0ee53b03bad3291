"""Checkpoints: a fit that is stopped anywhere ends with the bytes of one that is not, and no other file passes."""

import datetime as dt
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from decimal import Decimal
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frameboost as fb
from frameboost.engines.duckdb import engine as duckdb_engine
from frameboost.engines.memory import engine as memory_engine
from frameboost.training.checkpoint import CheckpointFile
from tests.support.cases import cases
from tests.support.examples import examples

ENGINES = ["numba", "polars", "duckdb"]
N_ROUNDS = 6


def rows(n: int = 240) -> pl.DataFrame:
    """Columns of many types with gaps, and a label for every kind of loss."""
    rng = np.random.default_rng(7)
    x, k, s = rng.normal(size=n), rng.integers(0, 30, n), rng.choice(["u", "v", "w", "x", "y"], n)
    signal_ = x + 0.1 * k + (s == "v") + 0.5 * rng.normal(size=n)
    gap = rng.random(n) < 0.1
    epoch = dt.date(2020, 1, 1)
    return pl.DataFrame({
        "x": pl.Series([None if g else v for v, g in zip(x.tolist(), gap, strict=True)]),
        "single": pl.Series(np.where(rng.random(n) < 0.02, np.inf, signal_ + rng.normal(size=n)), dtype=pl.Float32),
        "k": k,
        "s": pl.Series([None if g else v for v, g in zip(s.tolist(), np.roll(gap, 5), strict=True)]),
        "day": [epoch + dt.timedelta(days=int(v)) for v in rng.integers(0, 99, n)],
        "price": pl.Series([Decimal(int(v)) / 100 for v in rng.integers(-500, 500, n)], dtype=pl.Decimal(10, 2)),
        "flag": signal_ > 2,
        "y": signal_,
        "positive": np.exp(signal_ / 4),
        "late": signal_ > signal_.mean(),
        "kind": np.digitize(signal_, [0.5, 2.0]),
        "time": np.where(rng.random(n) < 0.3, -1, 1) * np.exp(signal_ / 4),
        "w": rng.integers(1, 5, n) / 2,
        "query": np.arange(n) // 8,
        "start": rng.normal(size=n) / 10,
        "held": rng.random(n) < 0.25,
    })  # fmt: skip


ROWS = rows()
FEATURES = ["x", "single", "k", "s", "day", "price", "flag"]
MORE = ROWS.with_columns(upper=pl.when(pl.col("flag")).then(pl.col("positive")))
PLAIN = {"features": FEATURES, "target": "y", "max_depth": 3, "n_estimators": N_ROUNDS}


class Killed(Exception):  # noqa: N818
    pass


def dies_in(round_: int):
    def callback(number, metrics):
        if number == round_:
            raise Killed

    return callback


def n_saved(path: Path) -> int:
    return sum(len(batch["rounds"]) for batch in CheckpointFile(path).batches)


def fit(data=MORE, **options) -> fb.Model:
    return fb.fit(data, **PLAIN | options)


def check_same(model: fb.Model, other: fb.Model) -> None:
    assert model.to_json() == other.to_json()
    assert model.history.equals(other.history, null_equal=True)
    assert (model.best_iteration, model.best_score) == (other.best_iteration, other.best_score)


def check_resumes(path: Path, data=MORE, *, before: int = 0, kills=(3,), **options) -> fb.Model:
    """Kill a fit in its last round, or in several, and compare the model with that of an undisturbed fit."""
    options = {"n_estimators": kills[-1]} | options
    whole, called = fit(data, **options), []
    for round_ in kills:
        with pytest.raises(Killed):
            fit(data, checkpoint=path, checkpoint_every=2, callbacks=[dies_in(before + round_)], **options)
        assert n_saved(path) == round_ - 1
    resumed = fit(data, checkpoint=path, callbacks=[lambda number, _: called.append(number)], **options)
    assert called == list(range(before + kills[-1], before + options["n_estimators"] + 1))
    check_same(resumed, whole)
    again = fit(data, checkpoint=path, callbacks=[dies_in(round_) for round_ in range(99)], **options)
    check_same(again, whole)  # it was finished: no callback was called
    return whole


# --- the same model ---------------------------------------------------------------------------------------------------

# Of many leaves nodes are not numbered from level to level, in which a saved tree is repeated.
BEST_FIRST = {"grow_policy": "lossguide", "max_leaves": 14, "max_depth": 0, "min_child_weight": 0}
METHODS = {
    "hist": {},
    "best first": BEST_FIRST,
    "best first in nodes": {"tree_method": "approx", "proposal": "local", "max_bin": 6, **BEST_FIRST},
    "symmetric": {"grow_policy": "symmetric"},
    "approx": {"tree_method": "approx", "max_bin": 8},
    "approx in nodes": {"tree_method": "approx", "proposal": "local", "max_bin": 6},
}
OPTIONS = {
    "sample": {"subsample": 0.5, "colsample_bytree": 0.7, "colsample_bylevel": 0.7, "colsample_bynode": 0.7},
    "gradient-based sample": {"subsample": 0.4, "sampling_method": "gradient_based", "weight": "w"},
    "dart": {"booster": "dart", "rate_drop": 0.4, "one_drop": True, "weight": "w"},
    "weighted dart": {"booster": "dart", "rate_drop": 0.5, "sample_type": "weighted", "normalize_type": "forest",
                      "num_parallel_tree": 2, "subsample": 0.7, "valid": "held"},
    "forest": {"num_parallel_tree": 3, "subsample": 0.5},
    "classes": {"objective": "multi:softprob", "target": "kind", "valid": "held", "eval_metric": ["auc", "mlogloss"]},
    "probability": {"objective": "binary:logistic", "target": "late", "valid": "held", "eval_metric": "aucpr"},
    "quantiles": {"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.9], "valid": "held"},
    "median": {"objective": "reg:absoluteerror", "weight": "w", "subsample": 0.6},
    "targets": {"target": ["y", "positive"]},
    "vector leaves": {"target": ["y", "positive"], "multi_strategy": "multi_output_tree", "subsample": 0.6},
    "slopes": {"linear_tree": True},
    "slopes of vector leaves": {"target": ["y", "positive"], "linear_tree": True,
                                "multi_strategy": "multi_output_tree"},
    "counts": {"objective": "count:poisson", "target": "positive", "base_margin": "start"},
    "hazards": {"objective": "survival:cox", "target": "time", "eval_metric": "cox-nloglik"},
    "times": {"objective": "survival:aft", "target": "positive", "label_upper_bound": "upper", "valid": "held"},
    "ranking": {"objective": "rank:ndcg", "target": "kind", "group": "query", "eval_metric": "ndcg@3"},
    "own": {"objective": fb.Objective("margin - label", "1 + 0 * label"), "valid": "held",
            "eval_metric": fb.Metric("off", "AVG(CASE WHEN ABS(label - prediction) > 1 THEN 1 ELSE 0 END)")},
    "constraints": {"monotone_constraints": {"k": 1}, "interaction_constraints": [["x", "k"], ["s", "day"]]},
    "cuts": {"cuts": {"k": [5, 10], "day": [dt.date(2020, 2, 1)]}},
}  # fmt: skip


FEW = {"features": ["x", "s", "day"], "max_depth": 2}  # for engines in which a round takes long
# Engines differ in how they sample, add leaf values once more, and keep several margins and queries.
WAYS = {
    **{method: ("numba", METHODS[method] | {"valid": "held", "weight": "w"}) for method in METHODS},
    **{name: ("numba", OPTIONS[name]) for name in OPTIONS},
    "symmetric sample": ("numba", METHODS["symmetric"] | OPTIONS["sample"]),
    "approx, weighted dart": ("numba", METHODS["approx"] | OPTIONS["weighted dart"]),
    "approx in nodes, median": ("numba", METHODS["approx in nodes"] | OPTIONS["median"]),
    "polars, approx in nodes": ("polars", METHODS["approx in nodes"] | OPTIONS["sample"] | {"valid": "held"}),
    "polars, weighted dart": ("polars", OPTIONS["weighted dart"]),
    "duckdb, approx": ("duckdb", METHODS["approx"] | {"valid": "held", "weight": "w"} | FEW),
    "duckdb, quantiles": ("duckdb", OPTIONS["quantiles"] | FEW),
}
SLOW = ["best first in nodes", *(name for name in WAYS if name.startswith(("polars", "duckdb")))]


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in WAYS])
def test_every_method_and_option_goes_on(name, tmp_path):
    engine, options = WAYS[name]
    check_resumes(tmp_path / "fit.json", engine=engine, kills=(3, 4) if name in ("hist", "approx") else (3,), **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["weighted dart", "classes"])
def test_exact_goes_on(name, tmp_path):
    whole = check_resumes(tmp_path / "fit.json", tree_method="exact", gamma=0.5, **OPTIONS[name])
    assert whole != fit(tree_method="exact", n_estimators=3, **OPTIONS[name])  # splits were pruned


@pytest.mark.slow
def test_relations_go_on(tmp_path):
    con = duckdb.connect()
    con.register("given", MORE)
    con.execute("CREATE TABLE t AS FROM given")
    check_resumes(tmp_path / "fit.json", con.table("t"), valid="held", **OPTIONS["sample"] | FEW)
    assert con.execute("SELECT count(*) FROM duckdb_tables() WHERE temporary").fetchall() == [(0,)]


@pytest.mark.parametrize("name", ["quantiles", "targets", "median"])
def test_what_continues_a_model_goes_on(name, tmp_path):
    options = {key: value for key, value in OPTIONS[name].items() if key != "subsample"}
    check_resumes(tmp_path / "fit.json", before=3, init_model=fit(**options, n_estimators=3), **options)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "engine"), [("sample", "numba"), ("dart", "numba"), ("median", "duckdb")])
def test_engines_that_sort_rows_go_on(name, engine, tmp_path, monkeypatch):
    # Rows are put in the order of a tree's leaves, of another one after a pause; samples go by the user's order.
    monkeypatch.setattr(memory_engine, "MIN_SORTED", 1)
    monkeypatch.setattr(duckdb_engine, "MIN_SORTED", 1)
    check_resumes(tmp_path / "fit.json", engine=engine, **OPTIONS[name] | FEW)


@pytest.mark.slow
def test_another_engine_goes_on(tmp_path):
    options = {"valid": "held", "weight": "w", "subsample": 0.7, "tree_method": "approx"}
    for engine, number in zip(ENGINES, (1, 2, 3), strict=True):
        model = fit(engine=engine, n_estimators=number, checkpoint=tmp_path / "fit.json", **options)
    check_same(model, fit(n_estimators=3, **options))


def test_other_orders_of_the_rows_go_on_without_samples(tmp_path):
    fit(n_estimators=3, checkpoint=tmp_path / "fit.json")
    check_same(fit(MORE.reverse(), checkpoint=tmp_path / "fit.json"), fit())


@pytest.mark.filterwarnings("ignore:eval_metric")
def test_metrics_that_are_no_numbers_are_kept(tmp_path):
    options = {"eval_metric": [fb.Metric("nothing", "SUM(CASE WHEN label > 1000 THEN 1 ELSE 0 END) / 0"), "rmse"]}
    whole = check_resumes(tmp_path / "fit.json", **options)
    assert whole.history["train_nothing"].is_finite().sum() == 0


# --- when it stops ----------------------------------------------------------------------------------------------------


def test_more_rounds_are_added_and_fewer_are_cut(tmp_path):
    path = tmp_path / "fit.json"
    for number in (4, 9, 9, 2, 5):
        check_same(fit(n_estimators=number, checkpoint=path), fit(n_estimators=number))
    assert n_saved(path) == 9


def overfitted(**options) -> fb.Model:
    return fit(valid="held", learning_rate=0.9, max_depth=5, n_estimators=20, **options)


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"booster": "dart", "rate_drop": 0.3}], ids=["plain", "dart"])
def test_early_stopping_is_that_of_a_fit_without_a_pause(more, tmp_path):
    path = tmp_path / "fit.json"
    stopped = overfitted(early_stopping_rounds=3, **more)
    assert stopped.best_iteration < 15
    for round_ in (stopped.best_iteration, stopped.best_iteration + 2):
        with pytest.raises(Killed):
            overfitted(early_stopping_rounds=3, checkpoint=path, callbacks=[dies_in(round_)], **more)
    check_same(overfitted(early_stopping_rounds=3, checkpoint=path, **more), stopped)
    # Patience is no part of the rounds: more of it goes on, and less is cut, as if it had been so from the start.
    for patience, delta in ((6, 0), (1, 0), (None, 0), (3, 100.0), (6, 0.01)):
        rule = {"early_stopping_rounds": patience, "min_delta": delta}
        check_same(overfitted(checkpoint=path, **rule, **more), overfitted(**rule, **more))


def test_a_fit_that_a_callback_stopped_is_finished_unless_it_is_to_have_more_rounds(tmp_path):
    path, called = tmp_path / "fit.json", []

    def stops(number, metrics):
        called.append(number)
        return number == 3

    first = fit(checkpoint=path, callbacks=[stops])
    check_same(fit(checkpoint=path, callbacks=[stops]), first)
    check_same(fit(checkpoint=path), first)
    assert called == [1, 2, 3]
    assert first.n_rounds == 3
    check_same(fit(checkpoint=path, n_estimators=8), fit(n_estimators=8))


def test_rounds_are_written_when_they_are_due_and_at_the_end(tmp_path):
    path, sizes = tmp_path / "fit.json", []

    def note(number, metrics):
        sizes.append(path.stat().st_size if path.exists() else 0)

    fit(checkpoint=path, checkpoint_every=4, callbacks=[note])
    assert sizes[:4] == [0] * 4
    assert 0 < sizes[4] == sizes[5] < path.stat().st_size
    head, *lines = path.read_text().splitlines()
    assert [len(json.loads(line)["rounds"]) for line in lines] == [4, 2]
    assert json.loads(head)["format"] == "frameboost checkpoint"
    assert [file.name for file in tmp_path.iterdir()] == ["fit.json"]


def test_ctrl_c_keeps_the_rounds_that_are_done(tmp_path):
    path = tmp_path / "fit.json"

    def interrupts(number, metrics):
        if number == 5:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        fit(checkpoint=path, checkpoint_every=100, callbacks=[interrupts])
    assert [len(batch["rounds"]) for batch in CheckpointFile(path).batches] == [4]
    check_same(fit(checkpoint=path), fit())


_SCRIPT = """
import sys
from tests.training.test_checkpoint import MORTAL, fit
model = fit(n_estimators=10**6, checkpoint=sys.argv[1], checkpoint_every=1, **MORTAL)
"""
MORTAL = {"valid": "held", "subsample": 0.6, "booster": "dart", "rate_drop": 0.2}


@pytest.mark.slow
def test_a_fit_that_is_killed_at_random_goes_on_as_if_nothing_had_happened(tmp_path):
    path, draw = tmp_path / "fit.json", random.Random(11)
    process = subprocess.Popen([sys.executable, "-c", _SCRIPT, str(path)], cwd=Path(__file__).parents[2])
    while process.poll() is None and not path.exists():
        time.sleep(0.01)
    time.sleep(draw.uniform(0.0, 0.1))
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert [file.name for file in tmp_path.iterdir()] == ["fit.json"]
    number = n_saved(path) + 3
    check_same(fit(n_estimators=number, checkpoint=path, **MORTAL), fit(n_estimators=number, **MORTAL))


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("written") / "fit.json"
    fit(max_depth=2, n_estimators=4, checkpoint=path, checkpoint_every=2)
    return path.read_bytes()


def batches(path: Path, data: bytes) -> list[object]:
    path.write_bytes(data)
    file = CheckpointFile(path)
    assert (file.fit is None) <= (file.batches == [])
    return file.batches


@pytest.mark.slow
def test_a_file_cut_at_any_byte_goes_on_from_the_last_whole_line(written, tmp_path):
    path, whole = tmp_path / "fit.json", fit(max_depth=2)
    ends = [i + 1 for i, byte in enumerate(written) if byte == ord("\n")]
    assert len(ends) == 3
    for size in range(0, len(written) + 1, 61):
        assert len(batches(path, written[:size])) == max(sum(end <= size for end in ends) - 1, 0)
    for size in (0, 20, *(end + more for end in ends[1:] for more in (-1, 0, 1))):
        path.write_bytes(written[:size])
        check_same(fit(max_depth=2, checkpoint=path), whole)
        assert n_saved(path) == N_ROUNDS


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_a_damaged_file_is_refused_or_shorter(written, tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "damaged.json"
    start = data.draw(st.integers(0, len(written) - 1))
    put = data.draw(st.one_of(st.binary(max_size=3), st.sampled_from([b"\n", b"0", b'"', b"-"])))
    damaged = written[:start] + put + written[start + data.draw(st.integers(0, 3)) :]
    path.write_bytes(written)
    own = CheckpointFile(path).batches
    try:
        found = batches(path, damaged)
    except fb.ModelFileError as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert found == own[: len(found)]


def test_lines_that_are_left_out_or_swapped_are_found(written, tmp_path):
    head, first, second = written.splitlines(keepends=True)
    for lines in ((head, second), (head, second, first), (head, first, first), (first, second), (head, head)):
        with pytest.raises(fb.ModelFileError, match=r"is damaged: line \d does not match|is not a checkpoint"):
            batches(tmp_path / "fit.json", b"".join(lines))


@cache
def checkpoint_of_two_rounds() -> bytes:
    with TemporaryDirectory() as folder:
        fit(max_depth=2, n_estimators=2, valid="held", checkpoint=Path(folder) / "fit.json")
        return (Path(folder) / "fit.json").read_bytes()


def forged(path: Path, change) -> Path:
    """Write a checkpoint whose checksums fit what a function has made of its rounds."""
    path.write_bytes(checkpoint_of_two_rounds())
    file = CheckpointFile(path)
    own, fits = file.batches[0]["rounds"], file.fit
    change(own)
    path.unlink()
    CheckpointFile(path).append(fits, [json.dumps(each) for each in own])
    return path


def test_names_of_tables_in_a_checkpoint_are_only_those_that_a_fit_gives(tmp_path):
    CheckpointFile(tmp_path / "fit.ckpt").append({}, [], "0123456789ab")
    assert CheckpointFile(tmp_path / "fit.ckpt").batches[0]["tables"] == "0123456789ab"
    for number, name in enumerate(["x`; DROP TABLE t", "", "0123456789ab\n", "0123456789a", "other.0123456789ab"]):
        CheckpointFile(tmp_path / f"{number}").append({}, [], name)
        with pytest.raises(fb.ModelFileError, match='is damaged: line 2: "tables" must be 12 hexadecimal digits'):
            CheckpointFile(tmp_path / f"{number}")


FORGERIES = {
    "a bin that is none": (lambda own: own[1]["trees"][0]["threshold"].__setitem__(0, 1.2345), "is not a cut|must be"),
    "a child that is none": (lambda own: own[0]["trees"][0]["left"].__setitem__(0, 99), '"left" must be'),
    "a value that is none": (lambda own: own[0]["trees"][0]["value"].__setitem__(0, "1"), '"value" must be'),
    "no tree": (lambda own: own[1].update(trees=[]), '"trees" must be 1 for each of 1 outputs'),
    "another metric": (lambda own: own[1].update(metrics={"a": 1.0}), '"metrics" must be an object with valid_rmse'),
    "a metric that is none": (lambda own: own[1]["metrics"].update(valid_rmse="x"), '"metrics" must be numbers'),
    "more": (lambda own: own[1].update(code="1"), 'unknown field "code"'),
    "a stop that is none": (lambda own: own[1].update(stopped_at="x"), '"stopped_at" must be a whole number'),
    "a root that no fit has": (lambda own: own[0]["trees"][0]["value"].__setitem__(0, 1e308), "values within ±1e"),
    "a leaf that no fit has": (lambda own: own[0]["trees"][0]["value"].__setitem__(-1, -1e308), "values within ±1e"),
    "no round": (lambda own: own.__setitem__(1, 5), "must be an object"),
}


@pytest.mark.slow
@cases("n_estimators", [2, 4])  # the checkpoint is of a finished fit, or one to go on with
@cases("name", FORGERIES)
def test_a_forged_round_is_refused(name, n_estimators, tmp_path):
    change, sentence = FORGERIES[name]
    path = forged(tmp_path / f"{name} {n_estimators}.json", change)
    with pytest.raises(fb.ModelFileError, match=rf"^checkpoint .* is damaged: round \d: .*({sentence})"):
        fit(max_depth=2, n_estimators=n_estimators, valid="held", checkpoint=path)


# --- other fits -------------------------------------------------------------------------------------------------------

ARGUMENTS = [
    ({"max_depth": 4}, "max_depth is 3 in it, and now 4"),
    ({"seed": 1}, "seed is 0 in it, and now 1"),
    ({"target": "positive"}, "target is ['y'] in it, and now ['positive']"),
    ({"weight": "w"}, "weight is None in it, and now ['w']"),
    ({"features": FEATURES[:-1]}, "features is ['x', 'single', 'k', 's', 'day', 'price', 'flag'] in it"),
    ({"objective": "reg:pseudohubererror"}, "objective is 'reg:squarederror' in it"),
    ({"objective": fb.Objective("margin - label")}, "objective is 'reg:squarederror' in it"),
    ({"eval_metric": "rmse"}, "eval_metric is [] in it, and now ['train_rmse']"),
    ({"valid": "held"}, "eval_metric is [] in it, and now ['valid_rmse']"),
    ({"valid": "held", "train_metrics": True}, "eval_metric is [] in it, and now ['train_rmse', 'valid_rmse']"),
]


def test_a_fit_with_other_arguments_is_refused(tmp_path):
    path = tmp_path / "fit.json"
    fit(n_estimators=2, checkpoint=path)
    for options, sentence in ARGUMENTS:
        with pytest.raises(fb.ParameterError) as caught:
            fit(checkpoint=path, **options)
        assert sentence in str(caught.value)
        assert str(caught.value).startswith(f"checkpoint '{str(path)[:20]}")
        assert str(caught.value).endswith("; pass the same arguments, or another checkpoint")


def test_metrics_in_another_order_or_by_another_definition_are_refused(tmp_path):
    path, own = tmp_path / "fit.json", [fb.Metric("own", f"AVG(label - prediction) * {i}") for i in (1, 2)]
    fit(n_estimators=2, checkpoint=path, eval_metric=["mae", own[0]])
    with pytest.raises(fb.ParameterError, match=r"eval_metric is \['train_mae', 'train_own'\] in it, and now"):
        fit(checkpoint=path, eval_metric=[own[0], "mae"])
    with pytest.raises(fb.ParameterError, match="train_own of SQL of eval_metric is 'AVG"):
        fit(checkpoint=path, eval_metric=["mae", own[1]])


def test_another_model_to_continue_from_is_refused(tmp_path):
    path, one, other = tmp_path / "fit.json", fit(n_estimators=1), fit(n_estimators=1, learning_rate=0.1)
    fit(n_estimators=2, checkpoint=path, init_model=one)
    with pytest.raises(fb.ParameterError, match="to another fit: the init_model differ; pass"):
        fit(checkpoint=path, init_model=other)
    with pytest.raises(fb.ParameterError, match="to another fit: the init_model differ; pass"):
        fit(checkpoint=path)


x = pl.col("x")
COMPLETE = MORE.select((x.is_not_null() & pl.col("s").is_not_null()).arg_true().first()).item()
OTHER_DATA = {
    "fewer rows": (
        MORE.filter(pl.int_range(pl.len()) != COMPLETE),
        "number of training rows is 240 in it, and now 239",
    ),
    "another label": (MORE.with_columns(y=pl.col("y") + 0.001 * (pl.col("k") == 3)), "sum of label of training rows"),
    "another weight": (MORE.with_columns(w=pl.col("w") * 2), "of weight of training rows is 0.5 in it, and now 1.0"),
    "another feature": (MORE.with_columns(x=x * x), "the cuts of feature 'x' differ"),
    "another type": (MORE.with_columns(k=pl.col("k").cast(pl.Int32)), "type of feature 'k' is 'int64' in it"),
    "other categories": (MORE.with_columns(s=pl.col("s").replace("u", "z")), "the categories of feature 's' differ"),
    "more gaps": (MORE.with_columns(x=pl.when(pl.col("k") > 3).then(x)), "missing values of 'x' is "),
    "labels of other rows": (MORE.with_columns(y=pl.col("y").reverse()), "base margins is ["),  # a weighted mean
    "features of other rows": (MORE.with_columns(pl.col(FEATURES).reverse()), "pass the same rows"),
}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_other_data_is_refused(engine, tmp_path):
    path = tmp_path / "fit.json"
    fit(n_estimators=1, checkpoint=path, weight="w", engine=engine)
    for name in OTHER_DATA if engine == "numba" else ("another label", "another feature", "more gaps"):
        data, sentence = OTHER_DATA[name]
        with pytest.raises(fb.DataError, match="belongs to other data: ") as caught:
            fit(data, checkpoint=path, weight="w", engine=engine)
        assert sentence in str(caught.value), name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "method"),
    [*(("numba", name) for name in ("hist", "approx", "approx in nodes")), ("polars", "approx"), ("duckdb", "hist")],
)
def test_values_of_other_rows_are_refused_by_every_method(engine, method, tmp_path):
    path, options = tmp_path / "fit.json", {"engine": engine, **METHODS[method]}
    fit(n_estimators=1, checkpoint=path, **options)
    swapped = MORE.with_columns(pl.col(FEATURES).reverse())
    with pytest.raises(fb.DataError, match="belongs to other data: the trees of its last round differ; pass"):
        fit(swapped, checkpoint=path, **options)


def test_other_rows_to_validate_on_are_refused(tmp_path):
    path, held = tmp_path / "fit.json", MORE.filter("held")
    fit(n_estimators=2, checkpoint=path, valid={"a": held, "b": held})
    with pytest.raises(fb.DataError, match="number of validation rows 2 is"):
        fit(checkpoint=path, valid={"a": held, "b": held[1:]})
    with pytest.raises(fb.DataError, match="the metrics of its last round differ"):
        fit(checkpoint=path, valid={"a": held, "b": held.with_columns(pl.col(FEATURES).reverse())})


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["numba", "duckdb"])
def test_another_order_is_refused_where_it_has_other_samples(engine, tmp_path):
    path = tmp_path / "fit.json"
    fit(n_estimators=1, checkpoint=path, subsample=0.5, engine=engine)
    with pytest.raises(fb.DataError, match=r"the trees of its last round differ; .* \(with subsample"):
        fit(MORE.reverse(), checkpoint=path, subsample=0.5, engine=engine)


def test_another_release_is_refused(written, tmp_path):
    path = tmp_path / "fit.json"
    for there, sentence in (
        ((b'"release": "', b'"release": "9.'), r"is of release \"9\..*\", and this is "),
        ((b'"version": 1', b'"version": 2'), "has version 2; this release reads 1"),
    ):
        path.write_bytes(written.replace(*there, 1))
        with pytest.raises(fb.ModelFileError, match=sentence):
            fit(checkpoint=path)


# --- the place --------------------------------------------------------------------------------------------------------


def test_a_place_that_cannot_be_written_is_refused_before_the_data_is_looked_at(tmp_path, monkeypatch):
    (tmp_path / "model.json").write_text(fit(n_estimators=1).to_json())
    (tmp_path / "text").write_text("SELECT 1\n")
    for name, error, sentence in (
        ("nowhere/fit.json", fb.ParameterError, "can't be written: there is no folder '"),
        (".", fb.ParameterError, "is no file but a folder"),
        ("model.json", fb.ModelFileError, "is not a checkpoint of fit; use another path"),
        ("text", fb.ModelFileError, "is not a checkpoint of fit; use another path"),
    ):
        with pytest.raises(error, match=sentence):
            fb.fit("nothing", "no column", checkpoint=tmp_path / name)
    with pytest.raises(fb.ParameterError, match="is no file but a device"):
        fb.fit("nothing", "no column", checkpoint=os.devnull)
    for wrong, sentence in (
        ({"checkpoint": 5}, "checkpoint must be a path, not 5"),
        ({"checkpoint_every": 0}, "checkpoint_every must be an integer of at least 1, not 0"),
    ):
        with pytest.raises(fb.ParameterError, match=sentence):
            fit(**wrong)
    monkeypatch.setattr(os, "access", lambda *_: False)  # to root nothing is forbidden
    with pytest.raises(fb.ParameterError, match="can't be written: no permission to write to '"):
        fb.fit("nothing", "no column", checkpoint=tmp_path / "fit.json")
    assert {file.name for file in tmp_path.iterdir()} == {"model.json", "text"}


@pytest.mark.parametrize(
    ("meddle", "every"), [(lambda path: fit(checkpoint=path, max_depth=2), 4), (Path.unlink, 2)], ids=["fit", "delete"]
)
def test_a_file_that_another_fit_writes_or_that_is_deleted_is_missed(meddle, every, tmp_path):
    path = tmp_path / "fit.json"
    with pytest.raises(fb.DataError, match="was changed or deleted while the fit ran; use one file for each fit"):
        fit(
            checkpoint=path, checkpoint_every=every, callbacks=[lambda number, _: number == 3 and meddle(path) and None]
        )
    assert path.exists() == (meddle is not Path.unlink)
    check_same(fit(checkpoint=path, max_depth=2), fit(max_depth=2))


def test_a_full_disk_is_told_and_loses_nothing(tmp_path, monkeypatch):
    path, fsync, calls = tmp_path / "fit.json", os.fsync, itertools.count()

    def full(number):
        if next(calls):
            raise OSError(28, "No space left on device")
        fsync(number)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"checkpoint .* can't be written: No space left on device"):
        fit(checkpoint=path, checkpoint_every=2)
    monkeypatch.undo()
    check_same(fit(checkpoint=path), fit())


def test_cross_validation_has_no_checkpoint(tmp_path):
    with pytest.raises(fb.ParameterError, match="cv takes no checkpoint"):
        fb.cv(MORE, "y", features=FEATURES, checkpoint=tmp_path / "fit.json")
