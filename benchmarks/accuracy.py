"""Compare the errors of libraries' defaults on a folder of real tables, by folds, and the time that they take.

    python benchmarks/accuracy.py FOLDER

The folder has a file NAME.parquet for each table, and an ``index.json``: {NAME: {"target": column, "kind": kind}}, of
kind ``reg``, ``bin``, ``multi`` or ``pois``. Each fold's rows are held out once. Of the others every fifth row is for
early stopping; all libraries get the same rows. What was found is kept in a file, so that only what is new is run.
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
_FIRST = "xgboost"


def main() -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the tables and index.json")
    parser.add_argument("--ways", nargs="+", default=list(LIBRARIES), help="only these libraries")
    parser.add_argument("--ablation", dest="ways", action="store_const", const=list(ABLATION),
                        help="frameboost alone, with one ingredient more each time")  # fmt: skip
    parser.add_argument("--only", nargs="+", help="only these tables")
    parser.add_argument("--half", type=int, choices=(0, 1), help="only half of the tables, drawn by name")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--again", nargs="+", default=[], help="libraries to run anew")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results" / "accuracy.json")
    given = parser.parse_args()
    index = json.loads((given.folder / "index.json").read_text())
    names = [name for name in given.only or index if given.half in (None, zlib.crc32(name.encode()) % 2)]
    known = json.loads(given.results.read_text()) if given.results.exists() else {}
    known = {key: value for key, value in known.items() if key.split("/")[0] not in given.again}
    given.results.parent.mkdir(exist_ok=True)
    for name in names:
        about = index[name]
        for number, rows in enumerate(
            folds(given.folder / f"{name}.parquet", about["target"], about["kind"], given.folds)
        ):
            for way in given.ways:
                key = f"{way}/{name}/{number}of{given.folds}"
                if key not in known:
                    known[key] = measured(way, rows)
                    given.results.write_text(json.dumps(known, indent=0))
    report(found(known, names, given.ways, given.folds), given.ways)


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
    start = time.perf_counter()
    predictions = {**LIBRARIES, **ABLATION}[way](rows)
    taken = time.perf_counter() - start
    error = rows.quality(predictions)
    package = way.replace(",", " ").split()[0]
    return {"error": error, "seconds": taken, "version": version("xgboost-cpu" if package == _FIRST else package)}


def found(known: Mapping[str, Any], names: Sequence[str], ways: Sequence[str], n_folds: int) -> pl.DataFrame:
    """Return a row for each table and library: the mean error and seconds of a fold, and the errors of each."""
    rows = []
    for name in names:
        for way in ways:
            each = [known[f"{way}/{name}/{k}of{n_folds}"] for k in range(n_folds)]
            errors = [one["error"] for one in each]
            rows.append((name, way, float(np.mean(errors)), float(np.mean([one["seconds"] for one in each]))))
    return pl.DataFrame(rows, ["table", "way", "error", "seconds"], orient="row")


def report(results: pl.DataFrame, ways: Sequence[str]) -> None:
    """Print each table's errors relative to the first library's, and how the libraries compare with each other."""
    errors = results.pivot("way", index="table", values="error")
    relative = errors.select("table", *(pl.col(way) / pl.col(ways[0]) for way in ways[1:]))
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True,
                   float_precision=3, tbl_width_chars=200):  # fmt: skip
        print(f"errors relative to {ways[0]}'s\n{relative}")
        print(f"\nall {len(errors)} tables\n{_summary(errors, results, ways)}")
        print(f"\nhow often the library of the row has the smaller error, and the sign test's p\n{_wins(errors, ways)}")


def _summary(errors: pl.DataFrame, results: pl.DataFrame, ways: Sequence[str]) -> pl.DataFrame:
    rows = []
    for way in ways:
        ratios = [math.exp((errors[way].log() - errors[other].log()).mean()) for other in ways]  # type: ignore[operator, arg-type]
        rows.append([way, *ratios, results.filter(way=way)["seconds"].sum()])
    return pl.DataFrame(rows, ["geometric mean", *(f"/ {way}" for way in ways), "seconds a fold"], orient="row")


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
