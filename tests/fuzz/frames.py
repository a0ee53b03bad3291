"""Kind of case: random frames, parameters, objectives and metrics.

Every engine gives the same model, or the same error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import duckdb
import numpy as np
import polars as pl

import frameboost as fb
from tests.fuzz.columns import Column, as_frame, random_columns, shrink_columns
from tests.fuzz.labels import draw_labels
from tests.fuzz.same_models import ARITHMETIC, difference
from tests.support.random_models import to_duckdb

__all__ = ["MAX_MEGABYTES", "MAX_SECONDS", "Case", "check", "generate", "shrink"]

MAX_SECONDS, MAX_MEGABYTES = 60, 2000
_ENGINES = ("numba", "polars", "duckdb")


@dataclass(frozen=True)
class Case:
    """Columns and the keywords of `fb.fit`; with ``relation`` queries of DuckDB must give the same model too."""

    columns: tuple[Column, ...]
    options: dict
    relation: bool = False


def generate(rng: np.random.Generator) -> Case:
    n_rows = int(rng.choice([1, 2, 3, int(rng.integers(4, 12)), int(rng.integers(12, 40)), int(rng.integers(40, 300))],
                            p=[0.02, 0.04, 0.04, 0.2, 0.3, 0.4]))  # fmt: skip
    features = random_columns(rng, n_rows, 5)
    roles, options = draw_labels(rng, n_rows)
    options["features"] = [column.name for column in features]
    if rng.random() < 0.3:
        roles.append(Column("valid", "boolean", tuple(int(v) for v in rng.random(n_rows) < 0.3)))
        options["valid"] = "valid" if rng.random() < 0.7 or roles[0].type != "float64" else "target > 0"
        if rng.random() < 0.5:
            options["early_stopping_rounds"] = int(rng.integers(1, 4))
            options["min_delta"] = float(rng.choice([0.0, 1e-3]))
    options |= _parameters(rng, features)
    relation = rng.random() < 0.3 and not any("duration[ms]" in c.type or "duration[ns]" in c.type for c in features)
    return Case((*features, *roles), options, relation and _has_same_types(features, roles))


def _has_same_types(features: list[Column], roles: list[Column]) -> bool:
    """Whether features have the same types in DuckDB as in polars, and labels the same order."""
    differ = any(feature.type in ("timestamptz[ms]", "timestamptz[ns]") for feature in features)
    return not differ and not any(role.cast.startswith("pl.Enum") for role in roles)


def _parameters(rng: np.random.Generator, features: list[Column]) -> dict:
    def pick(*values):
        return values[int(rng.integers(len(values)))]

    names = [column.name for column in features]
    numeric = [column.name for column in features if not column.kind.is_categorical]
    groups = [
        lambda: {"max_bin": pick(2, 3, 5, 16, 65_535)},
        lambda: {"learning_rate": pick(1.0, 0.5, 1e-9, 0.1)},
        lambda: {"learning_rate": 0.1, "max_learning_rate": pick(0.1, 0.11, 1.0)},
        lambda: {"max_depth": pick(1, 2, 4, 9)},
        lambda: {"reg_lambda": pick(0.0, 1e-3, 50.0), "reg_alpha": pick(0.0, 0.5, 3.0)},
        lambda: {"gamma": pick(0.1, 3.0)},
        lambda: {"min_child_weight": pick(0.0, 3.0, 1e9)},
        lambda: {"min_child_samples": pick(2, 20, 1_000_000)},
        lambda: {"max_delta_step": pick(0.0, 0.3, 5.0)},
        lambda: {"grow_policy": "lossguide", "max_leaves": pick(0, 2, 5), "max_depth": pick(0, 3)},
        lambda: {"max_leaves": pick(1, 2, 5)},
        lambda: {"grow_policy": "symmetric", "max_depth": pick(1, 3, 5)},
        lambda: {"tree_method": "approx", "proposal": pick("global", "local")},
        lambda: {"tree_method": "exact"},
        lambda: {"subsample": pick(0.2, 0.7), "sampling_method": pick("uniform", "gradient_based")},
        lambda: {pick("colsample_bytree", "colsample_bylevel", "colsample_bynode"): pick(0.01, 0.5)},
        lambda: {"booster": "dart", "rate_drop": pick(0.3, 1.0), "one_drop": pick(True, False),
                 "sample_type": pick("uniform", "weighted"), "normalize_type": pick("tree", "forest")},
        lambda: {"num_parallel_tree": pick(2, 3)},
        lambda: {"max_cat_to_onehot": pick(1, 20), "max_cat_threshold": pick(1, 3), "cat_smooth": pick(0.0, 5.0)},
        lambda: {"monotone_constraints": {name: pick(-1, 0, 1) for name in numeric}} if numeric else {},
        lambda: {"interaction_constraints": [names[:2], names[1:]]},
        lambda: {"categorical_features": names[::2]},
        lambda: {"multi_strategy": "multi_output_tree"},
        lambda: {"linear_tree": True, "linear_lambda": pick(0.0, 10.0)},
        lambda: {"base_score": pick(0.5, 0.0, -3.0, 1e6)},
        lambda: {"scale_pos_weight": pick(0.1, 7.0)},
        lambda: {"target_transform": pick("log", "log1p", "sqrt", "asinh"), "smearing": pick(None, False)},
        lambda: {"class_weight": pick("balanced", {0: 3.0})},
        lambda: {"threshold": pick(0.2, 1e-6, "f1", {"share": 0.3}, {"false_negative": 9.0})},
        lambda: {"seed": pick(7, 2**63 - 1)},
    ]  # fmt: skip
    drawn: dict = {"n_estimators": pick(1, 2, 3, 4), "max_depth": pick(2, 3)}
    for at in rng.choice(len(groups), size=int(rng.integers(0, 5)), replace=False):
        drawn |= groups[at]()
    return drawn


def _relation_of(frame: pl.DataFrame, con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    to_duckdb(con, frame, "t")
    return con.sql("SELECT * EXCLUDE position FROM t ORDER BY position")


def _read_once(frame: pl.DataFrame, con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    """Return a query of the table that has all rows when it is read first, and none afterwards."""
    con.execute("CREATE SEQUENCE readings")
    return con.sql(f"SELECT * EXCLUDE position FROM t WHERE nextval('readings') <= {len(frame)} ORDER BY position")


def outcome_of(data: object, options: dict, engine: str) -> fb.Model | str:
    """Return the model, or the error as text."""
    objective = options.get("objective")
    if isinstance(objective, tuple):
        options = options | {"objective": fb.Objective(*objective)}
    try:
        return fb.fit(data, engine=engine, verbose=False, **options)
    except fb.FrameboostError as error:
        return f"{type(error).__name__}: {error}"


def check(case: Case) -> None:
    frame = as_frame(case.columns)
    before = frame.clone()
    found = {engine: outcome_of(frame, case.options, engine) for engine in engines(case.options)}
    found["one thread"] = outcome_of(frame, case.options | {"n_jobs": 1}, "numba")
    if not _depends_on_row_order(case.options):
        found["shuffled"] = outcome_of(frame.sample(fraction=1, shuffle=True, seed=1), case.options, "numba")
    if case.relation and "duckdb" in found:
        con = duckdb.connect()
        found["relation"] = outcome_of(_relation_of(frame, con), case.options, "duckdb")
        found["query read once"] = outcome_of(_read_once(frame, con), case.options, "duckdb")
        left = con.execute("SELECT table_name FROM duckdb_tables() UNION ALL SELECT view_name FROM duckdb_views() "
                           "WHERE NOT internal").fetchall()  # fmt: skip
        assert left == [("t",)], f"left in the database: {left}"
    assert frame.equals(before), "the frame has been changed"
    objective = case.options.get("objective")
    for engine, other in found.items():
        first = found["numba"]
        if isinstance(first, str) or isinstance(other, str):
            assert first == other, f"numba gives {first!s:.300}\nbut {engine} gives {other!s:.300}"
            continue
        exact = objective in ARITHMETIC or isinstance(objective, tuple)
        different = difference(first, other, exact=exact)
        assert not different, f"numba and {engine} differ: {different}"


def engines(options: dict) -> tuple[str, ...]:
    return ("numba",) if options.get("tree_method") == "exact" else _ENGINES


def _depends_on_row_order(options: dict) -> bool:
    return "subsample" in options or str(options.get("objective")).startswith("rank:")


def shrink(case: Case) -> Iterator[Case]:
    used = {value for value in case.options.values() if isinstance(value, str)} | {"target", "valid"}
    for name in case.options:
        if name not in ("target", "objective", "features", "n_estimators"):
            yield replace(case, options={key: value for key, value in case.options.items() if key != name})
    if case.relation:
        yield replace(case, relation=False)
    for columns in shrink_columns(case.columns, keep=tuple(used)):
        names = [column.name for column in columns]
        left = [name for name in case.options["features"] if name in names]
        if left:
            options = case.options | {"features": left}
            for key in ("monotone_constraints", "interaction_constraints"):
                if len(left) < len(case.options["features"]):
                    options.pop(key, None)
            yield replace(case, columns=tuple(columns), options=options)
