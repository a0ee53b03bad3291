"""The workloads for SQL over 1 to 10 million rows in DuckDB: the form that ``auto`` takes, and every other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import data
import duckdb
import peers
from measuring import Comparison, Scale, Target, Way, lacking

import frameboost as fb

_FORMS = ("case", "lists", "sorted", "staged", "table", "udf")
_SIZES = (1, 1_000, 200_000, 10_000_000)
_TRAINED_ON, _MEGABYTES = 50_000, 40  # longer expressions take minutes to plan
_VISITS = 5e9  # rows times trees times depth beyond which a form would take minutes


@dataclass(frozen=True)
class _Scored:
    """The table of a workload, and a model to score it with in each form."""

    con: duckdb.DuckDBPyConnection
    model: fb.Model
    table: str
    n_rows: int

    def run(self, form: str) -> Any:
        """Write the query, and let DuckDB plan it and score all rows; a function is registered beforehand."""
        return self.con.execute(f"SELECT sum(prediction) FROM ({self.query(form)})").fetchone()[0]

    def query(self, form: str) -> str:
        if form == "udf":
            return f"SELECT score({', '.join(self.model.features)}) AS prediction FROM {self.table}"
        return self.model.query(
            self.table, form=form, keep=[], trees="trees" if form == "table" else None, rows=self.n_rows
        )

    def reason(self, form: str) -> str | None:
        """Return why a form is left out."""
        if form == "udf":
            return lacking("pyarrow")
        query = self.query(form)
        is_planned_at_once = form == "table" or "list_transform" in query
        megabytes = len(query) / 2**20
        takes_minutes = megabytes > _MEGABYTES and not is_planned_at_once
        return f"{megabytes:.0f} MB of SQL take minutes to plan" if takes_minutes else None


def in_duckdb(n_trees: int, depth: int, scale: Scale) -> Comparison:
    """Score tables of several sizes with a model in each form; ``auto`` should choose well."""
    n_trees = scale.trees(n_trees, min(n_trees, 20))
    trained = data.made_up(scale.rows(200_000, 5_000), is_binary=False)
    model = peers.fit(trained.head(_TRAINED_ON), n_trees, data.REGRESSION, max_depth=depth)
    sizes = [n for n in _SIZES if n * n_trees * depth <= _VISITS and (n <= 1_000 or not scale.quick)]
    con = data.database(trained.drop(data.LABEL), "trained")
    for statement in model.database().table_statements("trees"):
        con.execute(statement)
    if lacking("pyarrow") is None:
        model.register(con, "score", form="udf")
        con.execute(
            f"SELECT score({', '.join(model.features)}) FROM trained LIMIT 1"
        ).fetchone()  # compiles the kernels
    ways = [way for n_rows in sizes for way in _of_size(con, model, n_rows)]
    title = f"{n_trees} trees of depth {depth} over {', '.join(f'{n:,}' for n in sizes)} rows, writing the SQL included"
    return Comparison(ways, title, "sum", rounds=1 if scale.quick else 2)


def _of_size(con: duckdb.DuckDBPyConnection, model: fb.Model, n_rows: int) -> list[Way]:
    copies = f"range({(n_rows - 1) // 200_000 + 1})"
    con.execute(f"CREATE TABLE rows_{n_rows} AS SELECT trained.* FROM {copies}, trained LIMIT {n_rows}")
    scored = _Scored(con, model, f"rows_{n_rows}", n_rows)
    ways = [
        Way(f"frameboost {form}, {n_rows:,} row{'s' * (n_rows > 1)}", partial(scored.run, form), _as_it_is,
            lacking=scored.reason(form))
        for form in ("auto", *_FORMS)
    ]  # fmt: skip
    # A function is called in this process, so a query with one is not self-contained.
    ways[0].targets = [Target(1.3, tuple(way.name for way in ways[1:] if " udf," not in way.name))]
    return ways


_as_it_is: Callable[[Any], float] = float

WORKLOADS = {
    f"few-rows-{n_trees}x{depth}": partial(in_duckdb, n_trees, depth)
    for n_trees, depth in ((10, 2), (100, 6), (300, 6), (500, 8), (1_000, 12))
}
