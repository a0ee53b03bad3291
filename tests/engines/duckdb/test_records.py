"""Facts of a star whose nodes and pairs are in memory: moves and sums, beside numpy's."""

from contextlib import closing

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.binning.bins import Bins, SlotLayout
from frameboost.data.duckdb_session import SHOWN, DuckDBSession
from frameboost.engines.duckdb import engine as sql
from frameboost.engines.duckdb.engine import KeyCodes, TreeGradients
from frameboost.engines.duckdb.records import engine
from frameboost.engines.duckdb.records.engine import HeldWords, RecordNodes, RowGradients, StoredWords, WordLayout
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature, FeatureType
from frameboost.splits.split import Split, Stats
from tests.support.stars import random_star, without_joins

N_FACTS, N_KEYS = 3000, 40
SIDE = Stats(0.0, 1.0)


def bins_of(name: str, n_cuts: int) -> Bins:
    return Bins(Feature(name, FeatureType("float64")), tuple(map(float, range(n_cuts))), has_missing=True)


class Facts:
    """Facts with codes of two own columns, one of them wide, and a key with codes of two attributes."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.bins = [bins_of("a", 7), bins_of("b", 400), bins_of("c", 9), bins_of("d", 3)]
        self.own = [rng.integers(0, each.missing + 1, N_FACTS) for each in self.bins[:2]]
        self.keys = np.sort(rng.integers(0, N_KEYS, N_FACTS))
        self.by_key = np.stack([rng.integers(0, each.missing + 1, N_KEYS) for each in self.bins[2:]], 1)
        self.codes = [*self.own, *self.by_key[self.keys].T]
        self.g, self.h = rng.integers(-9, 9, N_FACTS) / 4, rng.integers(1, 4, N_FACTS) / 2

    def histograms(self, node_of: np.ndarray, nodes: list[int]) -> np.ndarray:
        layout = SlotLayout(self.bins)
        found = np.zeros((len(nodes), layout.n_slots, 2))
        for place, node in enumerate(nodes):
            rows = np.flatnonzero(node_of == node)
            for offset, codes in zip(layout.offsets, self.codes, strict=False):
                np.add.at(found[place], offset + codes[rows], np.stack([self.g, self.h], 1)[rows])
        return found

    def opened(self, con: duckdb.DuckDBPyConnection, *, holds_words: bool, n_threads: int) -> RecordNodes:
        con.register("arrived", pl.DataFrame(
            {"bin_0": self.own[0], "bin_1": self.own[1], "key_0": self.keys, "g": self.g, "h": self.h}
        ))  # fmt: skip
        records = WordLayout({"bin_0": 7, "bin_1": 400, "key_0": N_KEYS - 1})
        con.execute(f"CREATE TABLE bins AS SELECT {', '.join(records.sql())} FROM arrived")
        con.execute("CREATE TABLE pairs AS SELECT g, h FROM arrived")
        dimension = KeyCodes("key_0", (2, 3), self.by_key.astype(np.uint8))
        session = DuckDBSession(con.table("bins"))
        held = HeldWords.read(session, "bins", records.names, N_FACTS)
        return RecordNodes(
            session, "bins", SlotLayout(self.bins), records,
            held if holds_words else StoredWords(session, "bins", records.names), RowGradients(session, N_FACTS),
            [0, 1], [dimension], Workers(n_threads), n_threads,
        )  # fmt: skip


@pytest.mark.parametrize("holds_words", [True, False])
@pytest.mark.parametrize(("n_threads", "fewest_rows"), [(1, 0.0), (3, 1e18)])
def test_facts_are_moved_and_added_up(monkeypatch, holds_words, n_threads, fewest_rows):
    monkeypatch.setattr(engine, "_PART", 70)
    monkeypatch.setattr(sql, "_MIN_ROWS_PER_SUM", fewest_rows)  # sums by key first, or not
    facts, pair = Facts(3), TreeGradients("pairs", "g", "h")
    with duckdb.connect() as con:
        nodes = facts.opened(con, holds_words=holds_words, n_threads=n_threads)
        for tree in range(2):  # the next tree starts with all facts in its root
            rng, node_of, waiting, last = np.random.default_rng(tree), np.zeros(N_FACTS, int), {}, 0
            nodes.restart()
            np.testing.assert_array_equal(nodes.histograms([0], pair, N_FACTS), facts.histograms(node_of, [0]))
            for step in range(24):
                node, feature = int(rng.choice(np.unique(node_of))), int(rng.integers(4))
                own = facts.bins[feature]
                bin_ = int(rng.integers(1, own.missing))
                split = Split(feature, 1.0, SIDE, SIDE, missing_left=step % 2 == 0, bin=bin_)
                codes = facts.codes[feature]
                is_left = (codes < bin_) | ((codes == own.missing) & (step % 2 == 0))
                # Beyond 65,536 a number takes more bytes.
                left, right = (last + 1, last + 2) if step < 20 else (100_000 + 2 * step, 100_001 + 2 * step)
                last = right
                node_of = np.where(node_of == node, np.where(is_left, left, right), node_of)
                waiting[node] = split, left, right
                if step % 3 == 0:  # several at once, of which some split the children of others
                    nodes.move(waiting)
                    waiting.clear()
                    asked = [right, left]
                    found = nodes.histograms(asked, pair, N_FACTS)
                    np.testing.assert_array_equal(found, facts.histograms(node_of, asked))
            nodes.move(waiting)
            assert sorted(nodes.leaves()) == sorted({*np.unique(node_of), *nodes.leaves()})
            table, node_of_number = nodes.table()
            assert node_of_number == {node: node for node in nodes.leaves()}
            assert table == SHOWN
        values = {node: float(node) for node in nodes.leaves()}
        assert nodes.show_values(values) == SHOWN
        session = nodes._session
        found = session.columns(f"SELECT value FROM {SHOWN}")["value"]
        np.testing.assert_array_equal(found, node_of.astype(float))
        session.close()


def test_codes_and_keys_in_words():
    records = WordLayout({"a": 200, "b": 70_000, "c": 9, "d": 70_000, "e": 300})
    fields = {name: (field.word, field.shift, np.dtype(field.dtype).itemsize) for name, field in records.fields.items()}
    assert fields == {"a": (0, 0, 1), "b": (0, 8, 4), "c": (0, 40, 1), "d": (1, 0, 4), "e": (1, 32, 2)}
    largest = {"a": 255, "b": 2**32 - 1, "c": 255, "d": 2**32 - 1, "e": 2**16 - 1}  # no bit goes elsewhere
    columns = ", ".join(f"{value} AS {name}" for name, value in largest.items())
    (row,) = duckdb.sql(f"SELECT {', '.join(records.sql())} FROM (SELECT {columns})").fetchall()
    assert row == (2**48 - 1, 2**48 - 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting",
    ["SET threads = 2", f"CREATE TABLE {SHOWN} (node INTEGER)", "SET python_enable_replacements = false",
     "SET preserve_insertion_order = false", "SET memory_limit = '500MB'"],
)  # fmt: skip
def test_where_nothing_can_be_held_in_memory_or_read_from_it(monkeypatch, setting):
    """Nodes are in a table then (in memory where nothing is set); the model is the same."""
    monkeypatch.setattr("frameboost.engines.duckdb.star.tables._MIN_FACTS", 0)
    star, made = random_star(11), []
    monkeypatch.setattr(
        engine, "RecordNodes", lambda *args, **kwargs: made.append(args) or RecordNodes(*args, **kwargs)
    )
    how = {"n_estimators": 2, "max_depth": 3, "features": star.features()}
    expected = fb.fit(star.by_hand(), "y", engine="numba", **how)
    with duckdb.connect() as con:
        tables = star.of_relations(con)
        con.execute(setting)
        monkeypatch.setattr(engine, "_SHARE", 1e-6 if "memory_limit" in setting else 1 / 8)  # facts are few
        assert without_joins(fb.fit(tables, "y", **how)) == expected.to_json()
    assert bool(made) == (setting == "SET threads = 2")


def test_a_variable_is_shown_as_a_table():
    with duckdb.connect() as con, closing(DuckDBSession(con.sql("SELECT 1 AS one"))) as session:
        assert session.can_show()
        session.show(node=np.array([3, 1], np.uint16), value=np.array([0.5, -0.0]))
        assert session.rows(f"SELECT * FROM {SHOWN}") == [(3, 0.5), (1, 0.0)]
        session.show()
        with pytest.raises(duckdb.Error):
            session.rows(f"SELECT node FROM {SHOWN}")
        con.execute("SET memory_limit = '1GiB'")
        assert session.memory_limit == 2**30
