"""``frameboost warmup``: compile kernels in advance, for example in an image, by small fits of each kind."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from frameboost.api import fit
from frameboost.checks.messages import listed, shown
from frameboost.cli.options import Commands, add_command
from frameboost.errors import ParameterError
from frameboost.joins.star import join
from frameboost.model.model import Model

__all__ = ["add_warmup"]

# Few rows take other kernels than many, which are added up in blocks and by several threads.
_FEW, _MANY = 1000, 1 << 20


def _rows(count: int) -> pl.DataFrame:
    """Return rows with a column of each common type, and targets."""
    random = np.random.default_rng(0)
    number = random.normal(size=count)
    return pl.DataFrame({
        "float64": number, "float32": number.astype("f4"), "int64": random.integers(0, 99, count),
        "int32": random.integers(0, 99, count, "i4"), "missing": pl.Series(number).set(pl.Series(number > 1), None),
        "y": number + random.normal(size=count), "late": number > 0, "class": random.integers(0, 3, count),
        "query": np.arange(count) // 10,
    })  # fmt: skip


_NUMBERS = ["float64", "float32", "int64", "int32", "missing"]


def _fit(rows: Any, target: str = "y", **how: Any) -> Model:
    defaults: dict[str, Any] = {"features": _NUMBERS, "n_estimators": 2, "verbose": False}
    return fit(rows, target, **defaults | how)


def _numbers(rows: pl.DataFrame) -> None:
    for target in ("y", "late"):
        _fit(rows, target, valid=0.2, early_stopping_rounds=2).predict(rows)
    deep = _fit(rows, max_depth=10)
    for scored in (rows, rows[:1]):  # which take different kernels
        deep.predict(scored)
    _fit(rows, grow_policy="lossguide", max_leaves=8)


def _strings(rows: pl.DataFrame) -> None:
    texts = [pl.lit(f"{name}_") + (pl.col("int64") % few).cast(pl.String) for name, few in (("few", 3), ("many", 40))]
    with_text = rows.with_columns(text.alias(f"text_{k}") for k, text in enumerate(texts))
    _fit(with_text, features=["float64", "text_0", "text_1"]).predict(with_text)


def _few_values(rows: pl.DataFrame) -> None:
    number = pl.col("int64")
    few = [(number % (2 + k)).alias(f"few_{k}") for k in range(8)]
    mostly_zero = [(number % 20 == k).cast(pl.Int64).alias(f"zero_{k}") for k in range(8)]
    names = [expr.meta.output_name() for expr in (*few, *mostly_zero)]
    _fit(rows.with_columns(*few, *mostly_zero), features=names)


def _vector_leaves(rows: pl.DataFrame) -> None:
    _fit(rows, "class", objective="multi:softprob", multi_strategy="multi_output_tree").predict(rows)


def _stars(rows: pl.DataFrame) -> None:
    keys = pl.DataFrame({"int64": np.arange(99)}).with_columns(
        (pl.col("int64") * k % 7).alias(f"own_{k}") for k in (1, 2, 3)
    )
    _fit(join(rows, keys, on="int64"), features=["float64", "own_1", "own_2", "own_3"])


_FIRST = 20_000  # rows that ranking, exact and approx take, which are slow

_KINDS: dict[str, Callable[[pl.DataFrame], object]] = {
    "numbers": _numbers,
    "strings": _strings,
    "few-values": _few_values,
    "classes": lambda rows: _fit(rows, "class", objective="multi:softprob", n_estimators=1, valid=0.2).predict(rows),
    "sampling": lambda rows: _fit(rows, subsample=0.5, colsample_bynode=0.5),
    "quantiles": lambda rows: _fit(rows, objective="reg:absoluteerror"),
    "constraints": lambda rows: _fit(rows, monotone_constraints={"float64": 1}),
    "symmetric": lambda rows: _fit(rows, grow_policy="symmetric", max_depth=3).predict(rows),
    "linear-leaves": lambda rows: _fit(rows, linear_tree=True).predict(rows),
    "vector-leaves": _vector_leaves,
    "stars": _stars,
    "ranking": lambda rows: _fit(rows[:_FIRST], "class", objective="rank:ndcg", group="query", valid=0.2),
    "exact": lambda rows: _fit(rows[:_FIRST], tree_method="exact", n_estimators=1),
    "approx": lambda rows: _fit(rows[:_FIRST], tree_method="approx", n_estimators=1),
    "engines": lambda rows: [_fit(rows[:_FEW], engine=engine, n_estimators=1) for engine in ("polars", "duckdb")],
    "explain": lambda rows: _fit(rows[:_FEW], n_estimators=1).explain(rows[:_FEW]),
}
"""What is fitted and scored of the rows, by kind."""


def add_warmup(commands: Commands) -> None:
    """Add the command."""
    example = "frameboost warmup numbers strings explain"
    help_ = "Compile kernels ahead of time, once on a machine or in an image"
    parser = add_command(commands, "warmup", help_, _warm_up, example)
    parser.add_argument(
        "kinds", nargs="*", metavar="KIND", help=f"the kernels to compile: {', '.join(_KINDS)}; default all of it"
    )  # fmt: skip


def _warm_up(options: argparse.Namespace) -> None:
    from numba.core import event

    from frameboost.runtime.kernel import compile_at_once

    for kind in options.kinds:
        if kind not in _KINDS:
            raise ParameterError(f"kind {shown(kind)} is not one of {listed(_KINDS)}")
    tables = [_rows(count) for count in (_FEW, _MANY)]
    with compile_at_once(), event.install_recorder("numba:compile") as recorder:  # of what no cache had
        for kind in options.kinds or _KINDS:
            recorder.buffer.clear()
            started = time.perf_counter()
            for rows in tables:
                _KINDS[kind](rows)
            count = sum(compiled.is_start for _, compiled in recorder.buffer)
            print(f"{kind:13} {count:4} compiled {time.perf_counter() - started:6.1f} s", flush=True)
    print(f"kernels are in {_folder()}")


def _folder() -> str:
    """Return the folder of the cache, or one of the package's folders as an example."""
    from frameboost.binning.arrays import bin_values

    return str(bin_values._cache.cache_path)  # type: ignore[attr-defined]
