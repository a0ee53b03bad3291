"""``frameboost plot``: draws a chart of a model to a file of HTML, SVG, PNG or Vega-Lite's JSON."""

from __future__ import annotations

import argparse
import importlib.util
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from frameboost.checks.messages import did_you_mean, listed, shown
from frameboost.cli.arguments import Commands, UsageError, add_command, names, setting
from frameboost.cli.inputs import add_data, read_data
from frameboost.data.opening import open_source
from frameboost.data.rows_to_score import open_rows
from frameboost.data.sources import FrameSource
from frameboost.data.table_files import check_writable, output_path
from frameboost.errors import DataError, FrameboostError, ParameterError
from frameboost.loading import open_model
from frameboost.model.model import Model

__all__ = ["CHARTS", "add_plot"]

CHARTS = (
    "calibration", "confusion", "drift", "gains", "importance", "learning_curves", "lift", "partial_dependence",
    "precision_recall", "residuals", "roc", "shap_dependence", "shap_summary", "threshold_costs", "tree", "waterfall",
)  # fmt: skip
_ENDINGS = {".html": "html", ".svg": "svg", ".png": "png", ".json": "json"}
_EXAMPLE = "frameboost plot partial_dependence model.json flights.parquet --feature dep_delay -o chart.html"


def add_plot(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(commands, "plot", "Draw a chart of a model", _plot, _EXAMPLE)
    add = parser.add_argument
    add("chart", metavar="CHART", choices=CHARTS, help=", ".join(CHARTS))
    add("model", metavar="MODEL",
        help="the model's file; for learning_curves the table that train --history wrote")  # fmt: skip
    add_data(parser, optional=True)
    add("-o", "--out", required=True, metavar="FILE", help=f"the file to write: {', '.join(_ENDINGS)}")
    add("--target", metavar="COLUMN", help="the column that the model predicts")
    add("--weight", metavar="COLUMN", help="the rows' weights")
    add("--feature", type=names, metavar="COLUMN", help="the feature, or two for partial_dependence")
    add("--row", type=int, default=0, metavar="N", help="for waterfall, the row's number from 0; default 0")
    add("--baseline", metavar="DATA", help="for drift, the table that was trained on")
    add("--time", metavar="COLUMN", help="for drift, the column of dates or times")
    add("--set", type=setting, action="append", default=[], metavar="NAME=VALUE", dest="settings",
        help="any other argument of the chart by its name in Python: top=30")  # fmt: skip


def _plot(given: argparse.Namespace) -> None:
    ending = Path(given.out).suffix.lower()
    if ending not in _ENDINGS:
        raise UsageError(f"--out must end in {', '.join(_ENDINGS)}, not {shown(given.out)}")
    check_writable(given.out)
    if importlib.util.find_spec("altair") is None:
        raise FrameboostError("charts need Altair: pip install 'frameboost[plots]'")
    if ending in (".svg", ".png") and importlib.util.find_spec("vl_convert") is None:
        raise FrameboostError(f"{ending} needs vl-convert: pip install vl-convert-python; or write {given.out}.html")
    import frameboost.plots

    draw = getattr(frameboost.plots, given.chart)
    arguments = _arguments(given, draw)
    chart = draw(**arguments)
    with output_path(given.out) as partial:
        chart.save(str(partial), format=_ENDINGS[ending])


def _arguments(given: argparse.Namespace, draw: Callable[..., Any]) -> dict[str, Any]:
    """Return what the chart is drawn of, by the names of its arguments."""
    known = inspect.signature(draw).parameters
    chosen = {"target": given.target, "weight": given.weight, "feature": given.feature, "time": given.time}
    found = {name: value for name, value in chosen.items() if value is not None}
    for name, its_value in given.settings:
        if name in found:
            raise UsageError(f"{name} is given twice")
        found[name] = its_value
    for name in found:
        if name not in known or name in ("model", "data", "row", "baseline"):
            options = [other for other in known if other not in ("model", "data", "row", "baseline")]
            hint = did_you_mean(name, options) or (f"; it takes {listed(options)}" if options else "")
            raise UsageError(f"{given.chart} takes no {name}{hint}")
    if given.chart == "learning_curves":
        return {"model": _history(given)}
    model = open_model(given.model)
    needs_rows = {"data", "row"} & set(known)
    if needs_rows and not given.data:
        raise UsageError(f"{given.chart} needs DATA, the rows to draw it of")
    if not needs_rows and given.data:
        raise UsageError(f"{given.chart} is of the model alone, without DATA")
    for name in ("target", "feature", "time", "baseline"):
        if name in known and found.get(name) is None and getattr(given, name, None) is None:
            raise UsageError(f"{given.chart} needs --{name}")
    if isinstance(found.get("feature"), list) and len(found["feature"]) == 1:
        found["feature"] = found["feature"][0]
    if "data" in known:
        found["data"] = read_data(given)
    if "row" in known:
        found["row"] = _row(model, given)
    if "baseline" in known:
        found["baseline"] = _baseline(model, given.baseline)
    return {"model": model, **found}


def _history(given: argparse.Namespace) -> pl.DataFrame:
    if given.data:
        raise UsageError("learning_curves takes one table, that of train --history")
    source = open_source(given.model)
    frame = source.to_frame(source.names()).collect()
    if "round" not in frame.columns or frame.width < 2:
        raise DataError(f"{given.model} is no history of a fit, which train --history writes: it has no column 'round'")
    return frame


def _row(model: Model, given: argparse.Namespace) -> pl.DataFrame:
    source = open_rows(read_data(given), model.ensemble.read_features)
    wanted = [name for name in source.names() if name in model.ensemble.read_names]
    frame = source.to_frame(wanted).slice(given.row, 1).collect() if given.row >= 0 else pl.DataFrame()
    if frame.is_empty():
        raise ParameterError(f"the data has no row {given.row}; they are numbered from 0")
    return frame


def _baseline(model: Model, path: str) -> pl.DataFrame:
    rows = open_rows(path, model.ensemble.features)
    return model.database().baseline(rows.frame if isinstance(rows, FrameSource) else rows.relation)
