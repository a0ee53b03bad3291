"""Random stars: facts and dimensions as frames, and the joins between them, for tests against the joined table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import numpy as np
import polars as pl

import frameboost as fb
from frameboost.joins.star import Star

__all__ = ["RandomStar", "random_star", "without_joins"]


def without_joins(model: fb.Model) -> str:
    """Return the file of a model, without the tables that its rows are joined to."""
    return fb.Model(replace(model.ensemble, joins=())).to_json()


@dataclass(frozen=True)
class RandomStar:
    """Tables by name, the facts first, and the arguments of each join by the name of the dimension."""

    tables: Mapping[str, pl.DataFrame]
    joins: tuple[tuple[str, dict[str, Any]], ...]

    def of_frames(self, given: Callable[[pl.DataFrame], Any] = pl.DataFrame.lazy) -> Star:
        """Return the star of the frames, each as ``given`` returns it."""
        return self._joined({name: given(frame) for name, frame in self.tables.items()})

    def of_relations(self, con: duckdb.DuckDBPyConnection) -> Star:
        """Return the star of tables of a database, which are created."""
        for name, frame in self.tables.items():
            con.register("given", frame)
            con.execute(f'CREATE OR REPLACE TABLE "{name}" AS FROM given')
            con.unregister("given")
        return self._joined({name: con.table(name) for name in self.tables})

    def by_hand(self) -> pl.DataFrame:
        """Return the left join, row by row, by dicts of Python."""
        rows = self.tables["facts"].to_dicts()
        for name, how in self.joins:
            on, table = how.get("on"), self.tables[name]
            left, right = _listed(on or how["left_on"]), _listed(on or how["right_on"])
            own = [column for column in table.columns if column not in right]
            found = {
                tuple(row[column] for column in right): row for row in table.to_dicts()
                if None not in [row[column] for column in right]
            }  # fmt: skip
            for row in rows:
                other = found.get(tuple(row[column] for column in left), {})
                row.update({how["prefix"] + column: other.get(column) for column in own})
        types = dict(self.tables["facts"].schema)
        for name, how in self.joins:
            types |= {how["prefix"] + column: dtype for column, dtype in self.tables[name].schema.items()}
        columns = list(rows[0]) if rows else list(types)
        return pl.DataFrame(rows, schema={column: types[column] for column in columns})

    def features(self) -> list[str]:
        """Return the columns with any value in the join, without the target: a fit refuses others."""
        joined = self.by_hand().drop("y")
        return [column.name for column in joined if column.null_count() < len(column)]

    def _joined(self, tables: Mapping[str, Any]) -> Star:
        star = tables["facts"]
        for name, how in self.joins:
            star = fb.join(star, tables[name], name=name, **how)
        return star


def _listed(names: str | list[str]) -> list[str]:
    return [names] if isinstance(names, str) else names


def random_star(seed: int, n_rows: int = 300) -> RandomStar:
    """Return a star of one to four dimensions, some of them of others (snowflakes) and some of compound keys.

    Keys are missing, unused and unknown; a dimension may have no rows, and the same table may be joined twice.
    """
    rng = np.random.default_rng(seed)
    facts: dict[str, Any] = {"x": rng.normal(size=n_rows).round(1), "c": rng.choice(["a", "b", "c"], n_rows)}
    tables: dict[str, pl.DataFrame] = {}
    joins: list[tuple[str, dict[str, Any]]] = []
    for number in range(rng.integers(1, 5)):
        name, n_keys = f"d{number}", int(rng.choice([0, 1, 5, 40, 400], p=[0.1, 0.1, 0.3, 0.3, 0.2]))
        kind = rng.choice(["integer", "string", "compound"])
        parent = str(rng.choice(list(tables))) if tables and rng.random() < 0.4 else None
        keys = _keys(rng, kind, n_keys)
        tables[name] = pl.DataFrame(
            {**keys, **_attributes(rng, n_keys)},
            schema_overrides={"s": pl.String, "key": pl.String if kind == "string" else pl.Int32, "part": pl.String},
        )
        left = [f"{name}_{column}" for column in keys]
        n_left = n_rows if parent is None else tables[parent].height
        values = dict(zip(left, _references(rng, kind, n_keys, n_left), strict=True))
        if parent is None:
            facts |= values
        else:
            tables[parent] = tables[parent].with_columns(**{key: pl.Series(v) for key, v in values.items()})
            left = [f"{parent}." + column for column in left]
        joins.append((name, {"left_on": left, "right_on": list(keys), "prefix": f"{name}."}))
        if parent is None and rng.random() < 0.2:  # the same dimension once more, as of origin and destination
            again = [f"again_{column}" for column in left]
            facts |= dict(zip(again, _references(rng, kind, n_keys, n_rows), strict=True))
            joins.append((name, {"left_on": again, "right_on": list(keys), "prefix": f"again {name}."}))
    frame = pl.DataFrame(facts)
    noise = rng.normal(size=n_rows)
    return RandomStar(
        {"facts": frame.with_columns(y=pl.col("x") * 2 + pl.Series(noise).round(2)), **tables}, tuple(joins)
    )


def _keys(rng: np.random.Generator, kind: str, n: int) -> dict[str, pl.Series]:
    numbers = rng.permutation(n)
    if kind == "string":
        return {"key": pl.Series([f"k{i}" for i in numbers], dtype=pl.String)}
    if kind == "integer":
        return {"key": pl.Series(numbers, dtype=pl.Int32)}
    return {
        "key": pl.Series(numbers // 2, dtype=pl.Int32),
        "part": pl.Series(["left" if i % 2 else "right" for i in numbers], dtype=pl.String),
    }


def _references(rng: np.random.Generator, kind: str, n_keys: int, n: int) -> list[pl.Series]:
    numbers = rng.integers(0, max(n_keys + n_keys // 4, 2), n)  # some are unknown
    is_missing = rng.random(n) < 0.1
    if kind == "string":
        return [pl.Series([None if m else f"k{i}" for i, m in zip(numbers, is_missing, strict=True)], dtype=pl.String)]
    if kind == "integer":
        return [pl.Series([None if m else int(i) for i, m in zip(numbers, is_missing, strict=True)], dtype=pl.Int64)]
    return [
        pl.Series([None if m else int(i) // 2 for i, m in zip(numbers, is_missing, strict=True)], dtype=pl.Int64),
        pl.Series(["left" if i % 2 else "right" for i in numbers], dtype=pl.String),
    ]


def _attributes(rng: np.random.Generator, n: int) -> dict[str, pl.Series]:
    numbers = [None if rng.random() < 0.1 else float(v) for v in rng.normal(size=n).round(1)]
    strings = [None if rng.random() < 0.1 else str(v) for v in rng.choice(["u", "v", "w", "z"], n)]
    return {
        "f": pl.Series(numbers, dtype=pl.Float64),
        "s": pl.Series(strings, dtype=pl.String),
        "i": pl.Series(rng.integers(0, 6, n), dtype=pl.Int64),
    }
