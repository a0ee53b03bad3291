"""`docs/xgboost.toml` is complete and true of XGBoost and frameboost; `docs/xgboost.md` is generated from it."""

from __future__ import annotations

import ast
import inspect
import json
import re
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import sklearn.base
import xgboost

import frameboost as fb
from frameboost.losses.built_in import LOSSES
from frameboost.parameters.parameters import ALIASES, Parameters
from tests.support.cases import cases
from tests.support.compatibility import PAGE, ROOT, SECTIONS, STATUSES, Row, markdown, read_rows

# What `save_config` names that is no parameter: state, or a switch that XGBoost does not document.
INTERNAL = {
    # aliases
    "n_jobs", "random_state", "learning_rate", "min_split_loss", "reg_lambda", "reg_alpha",
    # read off the data, the state of the model, which component it is, the version of the file
    "num_feature", "num_target", "num_trees", "specified_updater", "name", "version",
    # the old name of updater, and whether base_score is estimated, which is so if it is not given
    "updater_seq", "boost_from_average",
    # undocumented: of GPUs, of the distributed version, of exact (how columns are stored and where missing values go,
    # which is learnt here), how bins are stored, of gblinear
    "fail_on_invalid_gpu_id", "debug_synchronize", "opt_dense_col", "default_direction", "sparse_threshold",
    "max_row_perbatch", "tolerance",
}  # fmt: skip
# Parameters whose default is None here, which stands for XGBoost's, or whose default XGBoost's has another spelling of.
DEFAULTS = {
    "max_leaves": "0", "one_drop": "0", "lambdarank_num_pair_per_sample": "4294967295", "lambdarank_normalization": "1",
    "lambdarank_score_normalization": "1", "ndcg_exp_gain": "1",
}  # fmt: skip
PARAMETER_SECTIONS = list(SECTIONS)[:8]
ROWS = read_rows()
DATA = pl.DataFrame({"x": [1, 2, 3, 4] * 5, "y": [0, 0, 1, 5] * 5})
OWN = {item.name for item in fields(Parameters)}
ARGUMENTS = {name for name, p in inspect.signature(fb.fit).parameters.items() if p.kind != p.VAR_KEYWORD}


def of(*sections: str, status: str | None = None) -> list[Row]:
    return [row for row in ROWS if row.section in sections and status in (None, row.status)]


def names(*sections: str) -> set[str]:
    return {row.name for row in of(*sections)}


def test_the_page_is_what_the_source_says():
    written = PAGE.read_text(encoding="utf-8")
    assert written == markdown(), (
        "docs/xgboost.md is not what docs/xgboost.toml says; run python -m tests.support.compatibility"
    )


def test_every_row_of_the_table_is_complete():
    assert {row.section for row in ROWS} == set(SECTIONS)
    for row in ROWS:
        assert row.status in STATUSES, row
        assert row.why or row.status == "same", row
        assert row.tests or row.status == "not there", row
        assert not row.ours or row.status != "not there", row
        assert "|" not in row.why, row


# --- nothing of XGBoost's is left out ---------------------------------------------------------------------------------

X, Y = np.arange(24.0).reshape(8, 3) % 5, np.arange(8) % 2


@cache
def trained(**settings: Any) -> xgboost.Booster:
    data = xgboost.DMatrix(X, Y + 1.0 if settings.get("objective") == "reg:gamma" else Y, nthread=1)
    if settings.get("objective") == "survival:aft":
        data.set_float_info("label_lower_bound", Y + 1.0)
        data.set_float_info("label_upper_bound", Y + 1.0)
    if settings.get("objective", "").startswith("rank:"):
        data.set_group([4, 4])
    return xgboost.train({"nthread": 1, "verbosity": 0} | settings, data, 1)


def leaves(config: Any) -> dict[str, str]:
    """Return what a configuration holds, by its own name: the parameters of all components and their values."""
    found = {}
    for name, value in config.items():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, dict):
                found |= leaves(part)
            else:
                found[name] = str(part)
    return found


@cache
def configured(**settings: Any) -> dict[str, str]:
    return leaves(json.loads(trained(**settings).save_config()))


@cache
def xgboosts_objectives() -> set[str]:
    with pytest.raises(xgboost.core.XGBoostError) as error:
        trained(objective="no such objective")
    return set(re.findall(r"Objective candidate: (\S+)", str(error.value)))


def configurations() -> list[dict[str, Any]]:
    boosters = [{"booster": "gbtree"}, {"booster": "dart"}, {"booster": "gblinear"}, {"tree_method": "exact"},
                {"tree_method": "approx"}]  # fmt: skip
    needed = {"reg:quantileerror": {"quantile_alpha": 0.5}, "multi:softmax": {"num_class": 2},
              "multi:softprob": {"num_class": 2}}  # fmt: skip
    return boosters + [{"objective": name, **needed.get(name, {})} for name in sorted(xgboosts_objectives())]


def test_every_parameter_is_in_the_table():
    known = {name for settings in configurations() for name in configured(**settings)} | set(xgboost.get_config())
    assert len(known) > 60
    assert known - names(*PARAMETER_SECTIONS) == INTERNAL
    # The other way round: nothing in the table is of our making.
    not_configured = {"eval_metric", "verbosity", "top_k"}
    assert names(*PARAMETER_SECTIONS) - known - not_configured == set()


def test_every_objective_is_in_the_table():
    assert len(xgboosts_objectives()) == 20
    assert names("objectives") == xgboosts_objectives()


@pytest.mark.slow
def test_every_metric_is_in_the_table():
    # XGBoost does not list its metrics, so it is asked about every word that ends in its library.
    path = Path(xgboost.__file__).parent / "lib"
    library = next(path.iterdir()).read_bytes()
    words = {match.decode() for match in re.findall(rb"[a-z][a-z-]{2,29}(?=\x00)", library)}
    endings = {word[i:] for word in words for i in range(len(word) - 2) if word[i] != "-"}
    assert names("metrics") <= endings
    data = xgboost.DMatrix(X, Y, nthread=1)

    def is_known(name: str) -> bool:
        booster = xgboost.Booster({"eval_metric": name, "nthread": 1, "verbosity": 0}, [data])
        try:
            booster.eval(data)
        except xgboost.core.XGBoostError as error:
            return "Unknown metric" not in str(error)
        return True

    assert {name for name in endings if is_known(name)} == names("metrics")


def keywords(*functions: Any) -> set[str]:
    return {name for function in functions for name in inspect.signature(function).parameters} - {"self"}


def public(thing: type, *but: type) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")} - {name for other in but for name in dir(other)}


@pytest.mark.parametrize("section, there", [
    ("train", lambda: keywords(xgboost.train)),
    ("cv", lambda: keywords(xgboost.cv)),
    ("data", lambda: keywords(xgboost.DMatrix, xgboost.QuantileDMatrix)),
    ("predict", lambda: keywords(xgboost.Booster.predict, xgboost.Booster.inplace_predict)),
    ("booster", lambda: public(xgboost.Booster)),
], ids=lambda part: part if isinstance(part, str) else "")  # fmt: skip
def test_every_argument_is_in_the_table(section, there):
    assert names(section) == there()


def test_every_argument_of_the_estimators_is_in_the_table():
    estimators = (xgboost.XGBRegressor, xgboost.XGBClassifier, xgboost.XGBRanker)
    known = keywords(xgboost.XGBModel, xgboost.XGBRanker, *(e.fit for e in estimators))
    known |= {name for e in estimators for name in public(e, sklearn.base.BaseEstimator)}
    known -= {name for name in known if re.fullmatch("[gs]et_.*(_request|_routing)", name)}
    # XGBoost's estimators take all its parameters.
    aliases = {"learning_rate", "reg_alpha", "reg_lambda"}
    of_parameters = {name for name in known if name in names(*PARAMETER_SECTIONS) | aliases} - names("estimators")
    assert known - of_parameters == names("estimators")


# --- what is the same or different is there ---------------------------------------------------------------------------


def is_there(name: str) -> bool:
    """Whether there is such a parameter, ``function(argument)`` or attribute of `frameboost`."""
    if name in OWN | ARGUMENTS:
        return True
    match = re.fullmatch(r"([\w.]+?)(?:\((\w+)\)|(\[\.\.\.\]))?", name)
    if match is None:
        return False
    path, argument, index = match.groups()
    thing: Any = fb
    for part in path.split("."):
        if not hasattr(thing, part):
            # An attribute that an estimator has once it is fitted.
            return hasattr(fb.FrameBoostClassifier().fit(DATA[["x"]], DATA["y"]), part)
        thing = getattr(thing, part)
    if argument is None:
        return index is None or hasattr(thing, "__getitem__")
    takes = inspect.signature(thing).parameters
    return argument in takes or (any(p.kind == p.VAR_KEYWORD for p in takes.values()) and argument in OWN | ARGUMENTS)


@cases("row", [row for row in ROWS if row.status in ("same", "different")])
def test_rows_marked_same_or_different_exist_here(row):
    if row.section in ("objectives", "metrics"):
        there = row.here in (LOSSES if row.section == "objectives" else known_metrics())
    elif row.section == "estimators" and not row.ours:
        there = is_there(f"FrameBoostRegressor.{row.name}")
    else:
        there = is_there(row.here) or (row.section == "newer" and row.here in {*LOSSES, *known_metrics()})
    assert there


@cache
def known_metrics() -> set[str]:
    with pytest.raises(fb.ParameterError) as error:
        fb.fit(DATA, "y", valid=DATA, eval_metric="no such metric")
    return set(re.findall(r"'([a-z-]+)'", str(error.value)))


@cases("row", of(*PARAMETER_SECTIONS, status="same"))
def test_what_is_the_same_has_xgboosts_default(row):
    needed = {"lambdarank": "rank:ndcg", "ndcg": "rank:ndcg", "aft": "survival:aft", "tweedie": "reg:tweedie",
              "huber": "reg:pseudohubererror"}  # fmt: skip
    settings = next(({"objective": loss} for start, loss in needed.items() if row.name.startswith(start)), {})
    if row.section == "dart":
        settings = {"booster": "dart"}
    theirs = configured(**settings)[row.name]
    ours = (
        getattr(Parameters(), row.here) if row.here in OWN else inspect.signature(fb.fit).parameters[row.here].default
    )
    if ours is None or isinstance(ours, bool):
        assert DEFAULTS[row.name] == theirs
    elif isinstance(ours, str):
        assert ours == theirs
    else:
        assert float(np.float32(ours)) == pytest.approx(float(theirs))


@cases("row", [row for row in ROWS if row.tests])
def test_the_tests_exist(row):
    assert [test for test in row.tests if not exists(test)] == []


@cache
def functions_in(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def exists(test: str) -> bool:
    file, _, function = test.partition("::")
    return function.startswith("test_") and function in functions_in(file)


# --- what is not there is refused -------------------------------------------------------------------------------------


@cases("row", [row for row in of(*PARAMETER_SECTIONS, "train", "data", status="not there") if row.name not in ALIASES])
def test_what_is_not_there_is_refused(row):
    assert row.name not in OWN | ARGUMENTS
    with pytest.raises(fb.ParameterError, match=f"^unknown parameter '{row.name}'"):
        fb.fit(DATA, "y", **{row.name: 7})  # 1 may be how it is here anyway


@cases("row", [row for row in ROWS if row.refused])
def test_values_that_are_not_there_are_refused(row):
    with pytest.raises(fb.ParameterError, match=next(iter(row.refused))):
        fb.fit(DATA, "y", valid=DATA, **row.refused)


def test_objectives_and_metrics_that_are_not_there_are_refused():
    for row in of("objectives", status="not there"):
        with pytest.raises(fb.ParameterError, match=r"^objective must be"):
            fb.fit(DATA, "y", objective=row.name)
    for row in of("metrics", status="not there"):
        with pytest.raises(fb.ParameterError, match=r"^eval_metric must be"):
            fb.fit(DATA, "y", valid=DATA, eval_metric=row.name)


@cases("row", of("cv", status="not there"))
def test_arguments_of_cv_that_are_not_there_are_refused(row):
    with pytest.raises(fb.ParameterError, match=row.name):
        fb.cv(DATA, "y", folds=2, n_estimators=1, **{row.name: 1})


def test_methods_marked_not_there_do_not_exist():
    predict = keywords(fb.Model.predict)
    assert not predict & {row.name for row in of("predict", status="not there")}
    for row in of("booster", status="not there"):
        assert not hasattr(fb.Model, row.name)
    estimators = (fb.FrameBoostRegressor, fb.FrameBoostClassifier, fb.FrameBoostRanker)
    taken = keywords(*estimators, *(e.fit for e in estimators), *(e.predict for e in estimators))
    taken |= {name for e in estimators for name in dir(e)}
    assert not taken & {row.name for row in of("estimators", status="not there")}
