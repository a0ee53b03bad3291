"""The workloads that compare each kind of fit with the plain one of the same engine: what sampling or ranking adds."""

from __future__ import annotations

from functools import partial
from typing import Any

import data
import peers
import polars as pl
from measuring import Comparison, Scale, Target

_VARIANTS: dict[str, tuple[str, float, dict[str, Any]]] = {
    "AUC on held-out rows": (data.BINARY, 1.5, {"eval_metric": "auc"}),
    "rows and columns sampled": (data.BINARY, 1.5, {"subsample": 0.8, "colsample_bytree": 0.8}),
    "quantile leaves": (data.QUANTILE, 1.5, {"quantile_alpha": data.ALPHA}),
    "rank:ndcg": (data.RANKING, 3, {}),
    "approx": (data.BINARY, 3, {"tree_method": "approx"}),
    "leaf by leaf, 31 leaves": (data.BINARY, 1.5, {"grow_policy": "lossguide", "max_leaves": 31, "max_depth": 0}),
}


def of_engine(engine: str, scale: Scale) -> Comparison:
    """Train in one engine in several ways; the first is the plain fit."""
    n_rows, n_trees = scale.rows(200_000, 5_000), scale.trees(10, 2)
    rows = {is_binary: data.workload(n_rows, 10, is_binary=is_binary) for is_binary in (True, False)}
    plain = peers.frameboost(rows[True], n_trees, engine)
    plain.name = f"frameboost {engine}"
    ways = [plain]
    for name, (objective, at_most, settings) in _VARIANTS.items():
        chosen = _rows(rows, objective, held_out="eval_metric" in settings)
        way = peers.frameboost(chosen, n_trees, engine, [Target(at_most, plain.name)], **settings)
        way.name = f"frameboost {engine}, {name}"
        ways.append(way)
    title = f"{n_rows:,} rows × 10, {n_trees} trees beside the plain fit"
    return Comparison(ways, title, "error", rounds=1 if scale.quick else 3)


def _rows(rows: dict[bool, data.Data], objective: str, *, held_out: bool) -> data.Data:
    """Return the rows with the label that the objective needs."""
    plain = rows[objective in (data.BINARY, data.RANKING)]
    if objective == data.RANKING:
        frames = [_queries(frame) for frame in (plain.frame, plain.held_out)]
        return data.Data(*frames, objective, group="query")
    valid = plain.held_out.head(len(plain.frame) // 4) if held_out else None
    return data.Data(plain.frame, plain.held_out, objective, valid=valid)


def _queries(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows in queries of a hundred, with the label as a relevance of 0 or 1."""
    number = (pl.int_range(pl.len()) // 100).alias("query")
    return frame.with_columns(number, pl.col(data.LABEL).cast(pl.Int64))


WORKLOADS = {f"variants-{engine}": partial(of_engine, engine) for engine in ("numba", "polars", "duckdb")}
