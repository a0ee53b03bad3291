"""Draw the ratios of a run by path: `python benchmarks/figure.py results/X.json [-o FILE.svg]`.

A point is frameboost's time over that of another library, a stroke the bound for it. Needs the extra ``plots``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
import reporting

_TICKS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100]
_OTHERS = {"XGBoost": "xgboost", "LightGBM": "lightgbm"}


def ratios(results: list[dict[str, Any]]) -> pl.DataFrame:
    """Return frameboost's ratio to each other library, for each workload, and the bound where there is one.

    Of several ways of frameboost's, those with a bound count; of several that count, each is a path of its own.
    """
    found = []
    for name in dict.fromkeys(row["workload"] for row in results):
        rows = [row for row in results if row["workload"] == name and row["best"] is not None]
        ours = [row for row in rows if row["way"].startswith("frameboost")]
        bounded = [row for row in ours if row["targets"]] or ours
        for way in bounded:
            path = name if len(bounded) == 1 else f"{name}: {way['way'].removeprefix('frameboost ')}"
            for library, prefix in _OTHERS.items():
                other = next((row for row in rows if row["way"].startswith(prefix)), None)
                if other is not None and other["best"]:
                    bounds = [target["at_most"] for target in way["targets"] if target["of"] == other["way"]]
                    ratio = way["best"] / other["best"]
                    found.append((path, library, ratio, bounds[0] if bounds else None))
    return pl.DataFrame(found, schema=["path", "library", "ratio", "bound"], orient="row")


def chart(frame: pl.DataFrame) -> alt.LayerChart:
    """Return a chart with a line for each path, on a logarithmic axis."""
    rows = frame.with_columns(met=pl.col("ratio") <= pl.col("bound"))
    y = alt.Y("path:N", sort=frame["path"].unique(maintain_order=True).to_list(), title=None)
    x = alt.X(
        "ratio:Q",
        scale=alt.Scale(type="log"),
        axis=alt.Axis(values=_TICKS, format="~g"),
        title="time of frameboost / time of the other library",
    )
    color = alt.Color("library:N", title=None, scale=alt.Scale(range=["#1f77b4", "#d95f02"]), sort=list(_OTHERS))
    base = alt.Chart(rows)
    points = base.mark_point(size=60, filled=True, opacity=0.9).encode(x=x, y=y, color=color)
    bounds = base.transform_filter("isValid(datum.bound)").mark_tick(thickness=2, size=12).encode(
        x=alt.X("bound:Q"), y=y, color=color
    )  # fmt: skip
    one = alt.Chart(pl.DataFrame({"ratio": [1.0]})).mark_rule(color="#888").encode(x="ratio:Q")
    return (one + bounds + points).properties(width=420, height=alt.Step(16))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="a file that run.py has written")
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parent / "ratios.svg")
    given = parser.parse_args()
    frame = ratios(reporting.read(given.results)["results"])
    chart(frame).save(given.output)
    print(f"{frame['path'].n_unique()} paths in {given.output}")


if __name__ == "__main__":
    main()
