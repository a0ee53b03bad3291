"""Compare the errors of libraries' defaults on folders of tables, by folds, and the CPU time that they take.

    python benchmarks/accuracy.py FOLDER [FOLDER ...]

A folder has a file NAME.parquet for each table, and an ``index.json``: {NAME: {"target": column, "kind": kind}}, of
kind ``reg``, ``bin``, ``multi`` or ``pois``, and optionally the "group" that the table is reported with ("noisy" by
default). Each fold's rows are held out once. Of the others every fifth row is for early stopping; all libraries get the
same rows. What was found is kept in a file, so that only what is new is run.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import data
import numpy as np
import polars as pl
from accuracy_libraries import ABLATION, LIBRARIES

KINDS = {"reg": data.REGRESSION, "bin": data.BINARY, "multi": data.CLASSES, "pois": data.POISSON}
_FIRST, _OURS = "xgboost", "frameboost"
_BEST = "best of the others"


def main() -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="the tables and index.json")
    parser.add_argument("--ways", nargs="+", default=list(LIBRARIES), help="only these libraries")
    parser.add_argument("--ablation", dest="ways", action="store_const", const=list(ABLATION),
                        help="frameboost alone, with one ingredient more each time")  # fmt: skip
    parser.add_argument("--only", nargs="+", help="only these tables")
    parser.add_argument("--half", type=int, choices=(0, 1), help="only half of the tables, drawn by name")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--first", type=int, help="hold out only the first so many folds")
    parser.add_argument("--again", nargs="+", default=[], help="libraries to run anew")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results" / "accuracy.json")
    given = parser.parse_args()
    index = {name: {**about, "path": folder / f"{name}.parquet"} for folder in given.folders
             for name, about in json.loads((folder / "index.json").read_text()).items()}  # fmt: skip
    names = [name for name in given.only or index if given.half in (None, zlib.crc32(name.encode()) % 2)]
    known = json.loads(given.results.read_text()) if given.results.exists() else {}
    known = {key: value for key, value in known.items() if key.split("/")[0] not in given.again}
    given.results.parent.mkdir(exist_ok=True)
    keys = [f"{number}of{given.folds}" for number in range(given.first or given.folds)]
    for name in names:
        about = index[name]
        if all(f"{way}/{name}/{key}" in known for way in given.ways for key in keys):
            continue
        for key, rows in zip(keys, folds(about["path"], about["target"], about["kind"], given.folds), strict=False):
            for way in given.ways:
                if f"{way}/{name}/{key}" not in known:
                    known[f"{way}/{name}/{key}"] = measured(way, rows)
                    given.results.write_text(json.dumps(known, indent=0))
    groups = {name: index[name].get("group", "noisy") for name in names}
    report(found(known, groups, given.ways, keys), given.ways)


def folds(path: Path, target: str, kind: str, n_folds: int) -> Iterator[data.Data]:
    """Yield the rows of a table with each fold held out in turn."""
    frame, objective = pl.read_parquet(path), KINDS[kind]
    label = frame[target].rank("dense").cast(pl.Int64) - 1 if kind in ("bin", "multi") else frame[target]
    label = label.cast(pl.Boolean) if kind == "bin" else label if kind == "multi" else label.cast(pl.Float64)
    frame = (
        frame.drop(target)
        .rename({data.LABEL: f"{data.LABEL} of the table"}, strict=False)
        .with_columns(label.alias(data.LABEL))
        .sample(fraction=1, shuffle=True, seed=0)
    )
    place = pl.int_range(pl.len())
    for fold in range(n_folds):
        others = frame.filter(place % n_folds != fold)
        valid = others.filter(place % 5 == 0)
        yield data.Data(others.filter(place % 5 != 0), frame.filter(place % n_folds == fold), objective, valid=valid)


def measured(way: str, rows: data.Data) -> dict[str, Any]:
    """Return the error on the held-out rows and the seconds of training and predicting."""
    start = time.process_time()
    predictions = {**LIBRARIES, **ABLATION}[way](rows)
    taken = time.process_time() - start
    error = rows.quality(predictions)
    package = way.replace(",", " ").split()[0]
    return {"error": error, "seconds": taken, "version": version("xgboost-cpu" if package == _FIRST else package)}


def found(
    known: Mapping[str, Any], groups: Mapping[str, str], ways: Sequence[str], keys: Sequence[str]
) -> pl.DataFrame:
    """Return a row for each table and library: the table's group, and the mean error and CPU seconds of a fold."""
    rows = []
    for name, group in groups.items():
        for way in ways:
            each = [known[f"{way}/{name}/{key}"] for key in keys]
            means = (float(np.mean([one[what] for one in each])) for what in ("error", "seconds"))
            rows.append((group, name, way, *means))
    return pl.DataFrame(rows, ["group", "table", "way", "error", "seconds"], orient="row")


def report(results: pl.DataFrame, ways: Sequence[str]) -> None:
    """Print each table's errors relative to the first library's, and of each group how the libraries compare."""
    errors = results.pivot("way", index=("group", "table"), values="error")
    relative = errors.select("group", "table", *(pl.col(way) / pl.col(ways[0]) for way in ways[1:]))
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True,
                   float_precision=3, tbl_width_chars=200):  # fmt: skip
        print(f"errors relative to {ways[0]}'s\n{relative}")
        for group in errors["group"].unique(maintain_order=True):
            some = errors.filter(group=group)
            print(f"\n{group}: {len(some)} tables\n{_summary(some, results.filter(group=group), ways)}")
            print(f"how often the library of the row has the smaller error, and the sign test's p\n{_wins(some, ways)}")


def _summary(errors: pl.DataFrame, results: pl.DataFrame, ways: Sequence[str]) -> pl.DataFrame:
    others = [way for way in ways if not way.startswith(_OURS)]
    errors = errors.with_columns(pl.min_horizontal(others).alias(_BEST)) if others else errors
    against = [*ways, _BEST] if others else ways
    rows = []
    for way in ways:
        ratios = [math.exp((errors[way].log() - errors[other].log()).mean()) for other in against]  # type: ignore[operator, arg-type]
        rows.append([way, *ratios, results.filter(way=way)["seconds"].sum()])
    return pl.DataFrame(rows, ["geometric mean", *(f"/ {way}" for way in against), "CPU seconds a fold"], orient="row")


def _wins(errors: pl.DataFrame, ways: Sequence[str]) -> pl.DataFrame:
    def cell(way: str, other: str) -> str:
        ahead, behind = ((errors[a] < errors[b]).sum() for a, b in ((way, other), (other, way)))
        return "" if way == other else f"{ahead} : {behind}, {sign_test(ahead, behind):.2f}"

    rows = [[way, *(cell(way, other) for other in ways)] for way in ways]
    return pl.DataFrame(rows, ["", *ways], orient="row")


def sign_test(ahead: int, behind: int) -> float:
    """Return the two-sided probability of a count as uneven as this, if each side were as likely.

    >>> sign_test(9, 1)
    0.021484375
    """
    n, fewer = ahead + behind, min(ahead, behind)
    return min(1.0, 2 * sum(math.comb(n, k) for k in range(fewer + 1)) / 2**n)


if __name__ == "__main__":
    main()
