"""What a round of training costs, in queries and calls of kernels, which no noise changes.

A fit of two more rounds is compared with a fit, so that what is done once a fit is left out.
"""

from collections import Counter

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.data.duckdb_session import DuckDBSession, OwnDatabaseSession
from frameboost.engines import query_costs
from frameboost.engines.duckdb import memory as duckdb_memory
from frameboost.engines.memory import columns, engine, partition, trees
from frameboost.training import splitter, symmetric_splitter

DEPTH = 4


@pytest.fixture
def counts(monkeypatch) -> Counter:
    """Count the statements of DuckDB, the queries of polars and the calls of kernels."""
    counted: Counter[str] = Counter()

    def counting(place, name, kind):
        original = getattr(place, name)

        def call(*args, **kwargs):
            counted[kind] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(place, name, call)

    counting(DuckDBSession, "_run", "statements")
    counting(DuckDBSession, "batches", "statements")
    counting(OwnDatabaseSession, "_run", "statements")
    counting(pl.LazyFrame, "collect", "queries")
    counting(pl, "collect_all", "queries")
    for place, name in (
        (columns, "build_histograms"), (partition, "part_rows"), (partition, "add_by_side"), (splitter, "find_splits"),
        (splitter, "subtract_from_parents"), (trees, "grow_tree"), (partition, "add_grown_leaves"),
        (partition, "add_by_node"), (engine, "add_tree"),
        (symmetric_splitter, "scan_level"),
    ):  # fmt: skip
        counting(place, name, name)
    return counted


def table(n: int = 600) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(rng.normal(size=(n, 5)), schema=list("abcde"))
    return frame.with_columns(y=pl.col("a") * pl.col("b") + pl.Series(rng.normal(size=n)), late=pl.col("c") > 0)


def of_a_round(counts: Counter, data, **how) -> dict[str, float]:
    """Return the counts of a round."""
    seen = []
    for n_rounds in (1, 3):
        counts.clear()
        model = fb.fit(data, "y", **{"n_estimators": n_rounds, "max_depth": DEPTH, "exclude": "late"} | how)
        assert model.n_trees == n_rounds
        seen.append(Counter(counts))
    more = seen[1] - seen[0]
    return {kind: count / 2 for kind, count in more.items()}


IN_MEMORY = dict.fromkeys(["build_histograms", "find_splits", "subtract_from_parents"], DEPTH)
FEW = {"grow_tree": 1, "add_grown_leaves": 1}
# The settings; the calls of a round of few rows, and of more rows.
ROUNDS = {
    "plain": ({}, FEW, IN_MEMORY | {"part_rows": DEPTH - 1, "add_by_side": 1, "add_by_node": 1}),
    # Held-out rows move as those of training do, and metrics take no query.
    "valid": (
        {"valid": "late"}, FEW | {"add_tree": 1},
        IN_MEMORY | {"part_rows": 2 * (DEPTH - 1), "add_by_side": 2, "add_by_node": 2},
    ),
    "subsample": (
        {"subsample": 0.5}, FEW, IN_MEMORY | {"part_rows": DEPTH - 1, "add_by_side": 1, "add_by_node": 1}
    ),
    # Rows move to the last level too, and quantiles are selected there.
    "quantiles": (
        {"objective": "reg:absoluteerror"}, {"grow_tree": 1, "part_rows": 1, "add_by_node": 1},
        IN_MEMORY | {"part_rows": DEPTH, "add_by_node": 1},
    ),
    # Seven splits make eight leaves; the children of the last are not searched. Of the fourteen in two rounds, three
    # are made ahead of their turn, in the call for another. All leaves are of the last splits.
    "symmetric": (
        {"grow_policy": "symmetric", "colsample_bylevel": 0.8}, FEW,
        dict.fromkeys(["build_histograms", "scan_level", "subtract_from_parents"], DEPTH)
        | {"part_rows": DEPTH - 1, "add_by_side": 1},
    ),
    "lossguide": (
        {"grow_policy": "lossguide", "max_leaves": 8, "max_depth": 0}, FEW,
        dict.fromkeys(IN_MEMORY, 5) | {"part_rows": 4, "add_by_side": 0.5, "add_by_node": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROUNDS)
def test_a_round_in_memory(counts, monkeypatch, name):
    how, few, more = ROUNDS[name]
    assert of_a_round(counts, table(), engine="numba", **how) == few
    monkeypatch.setattr(columns, "CODES_PER_TREE", 0)
    assert of_a_round(counts, table(), engine="numba", **how) == more


@pytest.fixture(params=["by group-bys", "by a kernel"])
def by_kernel(request, monkeypatch) -> bool:
    """Have engines of queries add up rows in one of two ways."""
    found = request.param == "by a kernel"
    monkeypatch.setattr(query_costs, "_MAX_THREADS", 1000 if found else 0)
    return found


def test_a_round_in_polars(counts, by_kernel):
    # The largest gradients, the gradients, those of the tree; a query of histograms and one of nodes for each level.
    queries = 3 + (1 if by_kernel else 2) * DEPTH
    assert of_a_round(counts, table(), engine="polars")["queries"] == queries


@pytest.mark.slow
def test_a_round_in_duckdb(counts, monkeypatch, by_kernel):
    con = duckdb.connect()
    con.register("frame", table())
    con.execute("CREATE TABLE t AS FROM frame")
    # The gradients, of margins that are in memory.
    assert of_a_round(counts, con.table("t"))["statements"] == 1
    assert of_a_round(counts, table(), engine="duckdb")["statements"] == 1
    # Where these are not: the largest gradients, the gradients, the table before dropped, g and h read, the leaves.
    monkeypatch.setattr(duckdb_memory, "_BYTES_PER_NUMBER", 1 << 60)
    assert of_a_round(counts, con.table("t"))["statements"] == 5
    # Where ranks are in memory, each tree's cuts and codes follow from them; g and h are summed before.
    assert of_a_round(counts, con.table("t"), tree_method="approx")["statements"] == 6
    # Where nothing is: the largest gradients, the gradients, the table before dropped, their sums, the leaves;
    # histograms of each level, and the nodes of each but one.
    monkeypatch.setattr(duckdb_memory, "_SHARE", 0)
    assert of_a_round(counts, con.table("t"))["statements"] == 5 + 2 * DEPTH - 1


@pytest.mark.slow
def test_a_round_of_few_values(counts, monkeypatch):
    """No engine runs a query for few values: they are read once, and trees are grown as in memory."""
    monkeypatch.setattr(query_costs, "MAX_VALUES", 600 * 5)
    con = duckdb.connect()
    con.register("frame", table())
    assert of_a_round(counts, con.sql("FROM frame")) == FEW
    assert of_a_round(counts, table(), engine="duckdb") == FEW
    assert of_a_round(counts, table(), engine="polars") == FEW
    assert of_a_round(counts, table(601), engine="polars")["queries"] == 3 + DEPTH


@pytest.mark.slow
def test_a_round_of_ranking(counts, monkeypatch):
    """Terms that are the same in every round, and sums of them, are computed once."""
    frame = table().with_columns(query=pl.int_range(pl.len()) // 20)
    frame = frame.with_columns(y=(pl.col("a") * 2).clip(0, 3).round().cast(pl.Int64))
    how = {"objective": "rank:ndcg", "group": "query"}
    # As of other losses, the rows that are paired, and the table of what a kernel makes of them.
    assert of_a_round(counts, frame, engine="duckdb", **how)["statements"] == 7
    # As of other losses, and the rows that are paired; a kernel sums over the pairs.
    monkeypatch.setattr(query_costs, "_MAX_THREADS", 1000)
    assert of_a_round(counts, frame, engine="polars", **how)["queries"] == 4 + DEPTH
    # As of other losses, and the table of pairs.
    monkeypatch.setattr(duckdb_memory, "_SHARE", 0)
    assert of_a_round(counts, frame, engine="duckdb", **how)["statements"] == 6 + 2 * DEPTH - 1
