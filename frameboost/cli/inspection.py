"""The commands that inspect a model: ``show``, ``evaluate``, ``compare``, ``explain``, ``plot`` and ``report``.

And ``reasons`` and ``drift``, which read rows, or write a query for a database.
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import polars as pl

from frameboost.checks.messages import counted, did_you_mean, listed, shortened, shown
from frameboost.cli.files import (
    add_data,
    add_database,
    add_model,
    add_model_and_data,
    add_table_out,
    check_data,
    check_keep,
    check_table_out,
    open_database,
    read_data,
)
from frameboost.cli.options import (
    COLUMNS,
    Commands,
    Parser,
    UsageError,
    add_command,
    add_options,
    arguments,
    one_or_several,
    pairs,
    setting,
)
from frameboost.cli.screen import print_table
from frameboost.data.opening import open_rows, open_source
from frameboost.data.sources import FrameSource
from frameboost.data.table_files import TableFiles
from frameboost.data.written_files import STDOUT, check_writable, output_path, write_output, write_table
from frameboost.database.database_model import DatabaseModel
from frameboost.ensemble.baseline import Baseline
from frameboost.errors import DataError, FrameboostError, ParameterError, printable
from frameboost.evaluation.drift import drift_frame
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.loading import open_model
from frameboost.model.comparison import compare
from frameboost.model.model import Model
from frameboost.model.summaries import interval_text
from frameboost.parameters.parameters import Parameters
from frameboost.schema.types import FeatureType, column

__all__ = [
    "CHARTS", "add_compare", "add_drift", "add_evaluate", "add_explain", "add_plot", "add_reasons", "add_report",
    "add_show",
]  # fmt: skip


# --- show -------------------------------------------------------------------------------------------------------------

_LONGEST, _ROWS_SHOWN, _REASONS = 100, 10, 3


def add_show(commands: Commands) -> None:
    """Add the command ``show``."""
    example = "frameboost show model.json --trees 1 --importance total_gain"
    parser = add_command(commands, "show", "Describe a model", _show, example)
    add_model(parser)
    parser.add_argument("--trees", type=int, default=0, metavar="N", help="draw the first N trees")
    add_options(parser, Model.importance, kind={"option": "--importance"})


def _show(options: argparse.Namespace) -> None:
    model = open_model(options.model)
    features = _features_by_importance(model, options.kind)
    print(printable(f"{_head(model)}\n\n{_changed_parameters(model)}\n"))
    print_table(features, bars=options.kind)
    for tree in _trees(model, options.trees):
        print(printable(f"\n{tree}"))


def _head(model: Model) -> str:
    base = model.base_margin if isinstance(model.base_margin, list) else [model.base_margin]
    first = repr(model).partition("\n")[0]
    lines = [f"rounds       {model.n_rounds:,}", f"base margin  {', '.join(f'{margin:.6g}' for margin in base)}"]
    if (offset := model.ensemble.offset) is not None:
        lines.append(f"{offset.kind:<11}  {shortened(', '.join(offset.names), _LONGEST)}")
    if (calibration := model.ensemble.calibration) is not None:
        lines.append(f"calibrated   {shortened(calibration.text, _LONGEST)}")
    if (interval := interval_text(model.ensemble)) is not None:
        lines.append(f"interval     {shortened(interval, _LONGEST)}")
    if title := model.metadata.title:
        lines.append(f"called       {shortened(title, _LONGEST)}")
    if training := model.metadata.training:
        lines.append(f"trained      {training}")
    lines += [f"tag          {shortened(f'{name}={text}', _LONGEST)}" for name, text in model.metadata.tags.items()]
    lines.append(f"sha256       {model.sha256}")
    return "\n".join([first, *lines])


def _changed_parameters(model: Model) -> str:
    usual = Parameters().shaping() | {"max_delta_step": 0.0}  # as `fit` fills it in
    changed = {name: value for name, value in model.parameters.items() if value != usual.get(name)}
    if not changed:
        return "parameters: all by default"
    width = max(map(len, changed))
    lines = [f"  {name:<{width}}  {shortened(str(value), _LONGEST)}" for name, value in changed.items()]
    return "\n".join(["parameters other than by default", *lines])


def _features_by_importance(model: Model, kind: Any) -> pl.DataFrame:
    described = {}
    for feature in model.ensemble.features:
        categories = counted(len(feature.categories), "category", "categories")
        described[feature.name] = f"{feature.type}" + (f" ({categories})" if feature.type.is_categorical else "")
    rows = model.importance(kind).rows()
    return pl.DataFrame({
        "feature": [name for name, _ in rows],
        "type": [described[name] for name, _ in rows],
        kind: [amount for _, amount in rows],
    })  # fmt: skip


def _trees(model: Model, count: int) -> Iterator[str]:
    frame = model.trees.filter(pl.col("tree") < count)
    types = {feature.name: feature.type for feature in model.ensemble.features}
    for (number,), rows in frame.group_by("tree", maintain_order=True):
        nodes = rows.rows(named=True)
        output = f" (output {nodes[0]['output']})" if "output" in nodes[0] else ""
        yield "\n".join([f"tree {number}{output}", *_tree_lines(nodes, types)])


def _tree_lines(nodes: list[dict[str, Any]], types: Mapping[str, FeatureType]) -> Iterator[str]:
    stack = [(0, "", 1)]
    while stack:
        number, answer, depth = stack.pop()
        node = nodes[number]
        is_leaf = node["feature"] is None
        yield "  " * depth + answer + (f"{node['value']:.6g}" if is_leaf else f"{_condition(node, types)}?")
        if is_leaf:
            continue
        is_presence_split = node["threshold"] is None and node["categories"] is None
        for word, side in (("no", "right"), ("yes", "left")):  # the last is printed first
            missing = " or missing" if node["missing"] == side and not is_presence_split else ""
            stack.append((node[side], f"{word}{missing}: ", depth + 1))


def _condition(node: Mapping[str, Any], types: Mapping[str, FeatureType]) -> str:
    if types[node["feature"]].is_float and node["threshold"] is not None:  # in SQL it has an exponent
        return shortened(f"{quote_identifier(node['feature'])} < {node['threshold']!r}", _LONGEST)
    return shortened(str(node["condition"]), _LONGEST)


# --- evaluate ---------------------------------------------------------------------------------------------------------

_MAX_CLASSES = 12
_METRICS = {"metavar": "NAMES"}


def add_evaluate(commands: Commands) -> None:
    """Add the command ``evaluate``."""
    example = "frameboost evaluate model.json flights.parquet --target arr_delay --by carrier"
    parser = add_command(commands, "evaluate", "Evaluate a model on labelled rows", _evaluate, example)
    add_model_and_data(parser)
    add_options(parser, Model.evaluate, "target", "weight", "group", "label_upper_bound", "by", eval_metric=_METRICS)
    add_options(parser, Model.predict, "base_margin")
    add_table_out(parser, "write the metrics instead, a row for each group and metric, to a", required=False)


def _evaluate(options: argparse.Namespace) -> None:
    check_table_out(options)
    model = open_model(options.model)
    evaluation = model.evaluate(read_data(options), **arguments(options, Model.evaluate))
    if options.out is not None:
        write_table(evaluation.metrics.lazy(), options.out, replace=options.replace)
        return
    if options.by:
        groups = evaluation.metrics.with_columns(pl.col(options.by).cast(pl.String).fill_null("NULL"))
        print_table(groups.pivot("metric", index=[*options.by, "rows"], values="value"))
        return
    print_table(evaluation.metrics)
    if model.ensemble.interval is not None:
        print()
        print_table(evaluation.interval, "intervals: the share of labels that they promise to hold, and hold")
    if 0 < len(model.classes) <= _MAX_CLASSES:
        print()
        matrix = evaluation.confusion.with_columns(pl.col("actual", "predicted").cast(pl.String))
        matrix = matrix.pivot("predicted", index="actual", values="weight")
        print_table(matrix, "rows by actual class (down) and predicted class (across)")


# --- compare ----------------------------------------------------------------------------------------------------------


def add_compare(commands: Commands) -> None:
    """Add the command ``compare``."""
    example = "frameboost compare model.json other.json flights.parquet --target arr_delay"
    parser = add_command(
        commands, "compare", "Compare two models: how they differ, and which is better", _compare, example
    )
    add_model(parser)
    parser.add_argument("other", metavar="OTHER", help="another model's file, of the same target")
    add_data(parser)
    add_options(parser, Model.evaluate, "target", "weight", "group", "label_upper_bound", eval_metric=_METRICS)
    add_options(parser, compare, "resamples", "seed")


def _compare(options: argparse.Namespace) -> None:
    if not isinstance(options.target, str):
        raise UsageError("compare takes one target")
    first, second = (open_model(path) for path in (options.model, options.other))
    comparison = compare(first, second, read_data(options), **arguments(options, compare))
    what = "of queries" if options.group else "of rows"
    title = f"metrics; low to high: 95 % of the differences in {options.resamples:,} paired draws {what}"
    print_table(comparison.metrics, title)
    for of, title in (("model", "model"), ("feature", "features"), ("parameter", "parameters")):
        differences = comparison.differences.filter(pl.col("of") == of).drop("of").rename({"name": ""})
        print()
        if differences.is_empty():
            print(f"{title}: the same in both")
        else:
            print_table(differences.fill_null("-"), f"{title}, where they differ")


# --- explain ----------------------------------------------------------------------------------------------------------


def add_explain(commands: Commands) -> None:
    """Add the command ``explain``."""
    example = "frameboost explain model.json flights.parquet --rows 3 --top 2 --keep id"
    parser = add_command(commands, "explain", "Explain a model's predictions", _explain, example)
    add = parser.add_argument
    add_model_and_data(parser)
    add("--rows", type=int, metavar="N", help="explain the first N rows one by one, instead of a summary")
    add("--top", type=int, default=10, metavar="N", help="the number of features to show; default 10")
    add("--keep", **COLUMNS, help="columns to show with each row, such as id,day")
    add("--sample", type=int, default=10_000, metavar="N",
        help="the maximum number of rows for the summary, evenly spaced; default 10000")  # fmt: skip
    add_options(
        parser, Model.explain,
        output={"metavar": "CLASS", "help": "the output to explain, by number or label, if there are several"},
        approx={"help": "Saabas' approximation instead of Shapley values; faster"},
    )  # fmt: skip
    add_table_out(parser, "write the contributions of all rows instead, to a", required=False)


def _explain(options: argparse.Namespace) -> None:
    for name in ("rows", "top", "sample"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise UsageError(f"--{name} must be at least 1")
    if options.out is not None and options.rows is not None:
        raise UsageError("--rows is for the terminal; --out writes all rows")
    if options.keep is not None and options.out is None and options.rows is None:
        raise UsageError("--keep is for --rows and --out; a summary is of all rows together")
    check_table_out(options)
    model = open_model(options.model)
    output = _output(model, options.output)
    frame = _read(model, options)
    if options.out is not None:
        contributions = model.explain(frame, approx=options.approx, output=output)
        table = _beside(frame, contributions, options.keep or [])
        write_table(table.lazy(), options.out, replace=options.replace)
    elif options.rows is not None:
        _print_rows(model, frame.head(options.rows), options, output)
    else:
        _print_summary(model, frame, options, output)


def _output(model: Model, name: str | None) -> int:
    """Return the index of the output for a label or an index."""
    if name is None and model.ensemble.n_outputs > 1:
        labels = model.classes or range(model.ensemble.n_outputs)
        raise UsageError(f"the model has several outputs; name one by --output: {listed(labels)}")
    known = [str(label) for label in model.ensemble.output_labels]
    if name is not None and name in known:
        return known.index(name)
    return model.ensemble.margin_number(int(name) if name is not None and name.isdecimal() else name)


def _read(model: Model, options: argparse.Namespace) -> pl.DataFrame:
    source = open_rows(read_data(options), model.ensemble.read_features)
    model.ensemble.find_in(source)
    keep = options.keep or []
    check_keep(keep, source.names())
    lazy = source.to_frame(list(dict.fromkeys([*keep, *model.ensemble.read_names])))
    frame = (lazy if options.rows is None else lazy.head(options.rows)).collect()
    if frame.is_empty():
        raise DataError("the data has no rows")
    return frame


def _beside(frame: pl.DataFrame, contributions: pl.DataFrame, keep: list[str]) -> pl.DataFrame:
    for name in keep:
        if name in contributions.columns:
            raise ParameterError(f"column {shown(name)} is a feature, whose contribution has its name; leave it out")
    return pl.concat([frame.select(map(column, keep)), contributions], how="horizontal") if keep else contributions


def _print_summary(model: Model, frame: pl.DataFrame, options: argparse.Namespace, output: int) -> None:
    """Print the mean absolute and the mean contribution of each feature."""
    step = -(-len(frame) // options.sample)
    sample = frame.gather_every(step)
    contributions = model.explain(sample, approx=options.approx, output=output).drop("bias")
    table = pl.DataFrame({
        "feature": contributions.columns,
        "mean magnitude": [contributions[name].abs().mean() for name in contributions.columns],
        "mean": [contributions[name].mean() for name in contributions.columns],
    }).sort("mean magnitude", descending=True, maintain_order=True)  # fmt: skip
    rows = f"{len(sample):,} of {len(frame):,} rows" if step > 1 else counted(len(frame), "row")
    title = f"contributions to the margin{_of_output(model, output)}, of {rows}"
    print_table(table.head(options.top), title, bars="mean magnitude")


def _of_output(model: Model, output: int) -> str:
    """Return the text that names the explained output, if there are several."""
    if model.ensemble.n_outputs == 1:
        return ""
    labels = model.ensemble.output_labels
    return f" of {shown(labels[output]) if labels else f'output {output}'}"


def _print_rows(model: Model, frame: pl.DataFrame, options: argparse.Namespace, output: int) -> None:
    """Print each row's prediction and its largest contributions."""
    contributions = model.explain(frame, approx=options.approx, output=output)
    margins = contributions.sum_horizontal()
    of_output = _of_output(model, output)
    means = model.predict(frame) if model.ensemble.n_outputs == 1 else None
    for number in range(len(frame)):
        predicted = "" if means is None else f"prediction {means[number]:.6g}, "
        parts, values = contributions.row(number, named=True), frame.row(number, named=True)
        bias = parts.pop("bias")
        most = sorted(parts, key=lambda name: -abs(parts[name]))[: options.top]
        kept_values = "".join(f", {name} {values[name]}" for name in options.keep or [])
        rest = sum(parts.values()) - sum(parts[name] for name in most)
        named = {name: ("NULL" if values[name] is None else str(values[name]), parts[name]) for name in most}
        lines = {"(mean)": ("", bias)} | named | ({"(others)": ("", rest)} if len(most) < len(parts) else {})
        table = pl.DataFrame({
            "feature": list(lines),
            "value": [value for value, _ in lines.values()],
            "contribution": [part for _, part in lines.values()],
        })  # fmt: skip
        title = f"row {number}{kept_values}: {predicted}margin{of_output} {margins[number]:.6g}"
        print_table(table, title, bars="contribution")
        if number + 1 < len(frame):
            print()


# --- reasons, drift: here or in a database ----------------------------------------------------------------------------


def add_reasons(commands: Commands) -> None:
    """Add the command ``reasons``."""
    example = "frameboost reasons late.json flights.parquet --top 2 --keep id -o reasons.parquet"
    help_ = "Write the features that contribute most to each row's prediction, or the query for it"
    parser = add_command(commands, "reasons", help_, _reasons, example)
    _add_here_or_there(parser)
    add_options(
        parser, DatabaseModel.explain_query, "output", "sign",
        top={"type": int, "metavar": "N", "help": "reasons per row; by default 3, at most one per feature"},
        texts={"type": pairs, "metavar": "FEATURE=TEXT,..."},
        keep={**COLUMNS, "default": None, "help": "columns to return with the reasons, such as id,day"},
        trees={"metavar": "TABLE", "help": "the table of trees, for a query"},
    )  # fmt: skip
    parser.add_argument(
        "--approx", action="store_const", const=True, help="Saabas' approximation instead of Shapley values; faster"
    )
    add_table_out(parser, "write the reasons, or the query, to a", required=False)


def _reasons(options: argparse.Namespace) -> None:
    if options.data:
        check_table_out(options)
        _only_there(options, "trees")
    model = _here_or_there(options)
    if options.top is None:
        options.top = min(_REASONS, len(model.features))
    output = None if model.ensemble.n_outputs == 1 else _output(model, options.output)
    if not options.data:
        chosen = arguments(options, DatabaseModel.explain_query) | ({} if output is None else {"output": output})
        query = open_database(options).explain_query(**chosen)
        write_output(options.out or STDOUT, f"{query}\n")
        return
    options.rows = None
    frame = _read(model, options)
    reasons = model.explain(
        frame, top=options.top, sign=options.sign, texts=options.texts, output=output, approx=bool(options.approx)
    )
    if twice := [name for name in options.keep or [] if name in reasons.columns]:
        raise ParameterError(f"keep names {shown(twice[0])}, as a column of the reasons is called; leave it out")
    table = pl.concat([frame.select(map(column, options.keep or [])), reasons], how="horizontal")
    if options.out is not None:
        write_table(table.lazy(), options.out, replace=options.replace)
        return
    more = f", of the first {_ROWS_SHOWN} of {counted(len(table), 'row')}" if len(table) > _ROWS_SHOWN else ""
    print_table(table.head(_ROWS_SHOWN), f"reasons{more}")


def add_drift(commands: Commands) -> None:
    """Add the command ``drift``."""
    example = "frameboost drift named.json flights.parquet"
    help_ = "Measure the drift of rows since training, or write the query for it"
    notes = (
        "psi is the population stability index: below 0.1 a feature has changed little, above 0.25 much. With\n"
        "--fail-above the exit code is 1 if a feature is above that."
    )
    parser = add_command(commands, "drift", help_, _drift, example, notes)
    _add_here_or_there(parser)
    add = parser.add_argument
    add(
        "--baseline",
        metavar="DATA",
        help="the training rows; by default the baseline that tag --baseline stored in the model",
    )
    add("--time", metavar="COLUMN", help="compute an index for each period of this column of dates or times")
    add("--every", default="1mo", metavar="PERIOD", help="the length of a period, such as 1d, 1w, 1mo; default 1mo")
    add("--fail-above", type=float, metavar="NUMBER", help="exit with code 1 if the index of a feature is above this")
    add_table_out(parser, "write the indices, or the query, to a", required=False)


def _drift(options: argparse.Namespace) -> None:
    if options.data:
        check_table_out(options)
    else:
        _only_here(options, "time", "fail_above")
    model = _here_or_there(options)
    baseline = None if options.baseline is None else model.database().baseline(TableFiles((options.baseline,)))
    if not options.data:
        query = open_database(options).drift_query(options.table, baseline, where=options.where)
        write_output(options.out or STDOUT, f"{query}\n")
        return
    indices = drift_frame(model.ensemble, read_data(options), _baseline(model, baseline), options.time, options.every)
    if options.out is not None:
        write_table(indices.lazy(), options.out, replace=options.replace)
    else:
        by = ["period"] if options.time is not None else []
        print_table(indices.sort(*by, "psi", descending=[*[False] * len(by), True], maintain_order=True), bars="psi")
    limit = options.fail_above
    if limit is not None and len(above := indices.filter(pl.col("psi") > limit)):
        names = listed(above["feature"].unique(maintain_order=True))
        raise DataError(f"the rows differ from those of training: psi is above {limit:g} in {names}")


def _baseline(model: Model, baseline: pl.DataFrame | None) -> pl.DataFrame:
    if baseline is None and model.baseline is None:
        raise UsageError("the model has no baseline; pass the training rows as --baseline")
    return baseline if baseline is not None else cast("Baseline", model.baseline).features


def _add_here_or_there(parser: Parser) -> None:
    """Add the arguments of the rows: files, or the table of a database that a query is for."""
    parser.usage = f"{parser.prog} MODEL (DATA ... | --dialect DATABASE --table TABLE) [options]"
    add_model(parser)
    add_data(parser, optional=True)
    add_database(parser)


def _here_or_there(options: argparse.Namespace) -> Model:
    """Return the model, after checking that all options are for rows, or all for a query."""
    if options.data:
        _only_there(options, "columns", "base_margin", "limits", "tables")
        check_data(options)
    elif options.table is None:
        raise UsageError("pass DATA, the rows, or --table, the table of a database that the query is for")
    elif options.format is not None or options.null_values or options.fill_missing:
        raise UsageError("--format, --null-values and --fill-missing are for DATA")
    elif options.replace:
        raise UsageError("--replace is for DATA")
    return open_model(options.model)


def _only_here(options: argparse.Namespace, *names: str) -> None:
    for name in names:
        if getattr(options, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} needs DATA, the rows")


def _only_there(options: argparse.Namespace, *names: str) -> None:
    """Raise `UsageError` for an option of queries if there are rows."""
    strings = {action.dest: action.option_strings[0] for action in options.parser._actions if action.option_strings}
    for name in names:
        if getattr(options, name) is not None:
            raise UsageError(f"{strings[name]} is for a query, without DATA")


# --- plot -------------------------------------------------------------------------------------------------------------

CHARTS = (
    "calibration", "confusion", "drift", "gains", "importance", "learning_curves", "lift", "partial_dependence",
    "precision_recall", "residuals", "roc", "shap_dependence", "shap_summary", "threshold_costs", "tree", "waterfall",
)  # fmt: skip
"""The charts of `frameboost.plots`, which is not imported without need."""

_ENDINGS = {".html": "html", ".svg": "svg", ".png": "png", ".json": "json"}


def add_plot(commands: Commands) -> None:
    """Add the command ``plot``."""
    example = "frameboost plot partial_dependence model.json flights.parquet --feature dep_delay -o chart.html"
    parser = add_command(commands, "plot", "Draw a chart of a model", _plot, example)
    add = parser.add_argument
    add("chart", metavar="CHART", choices=CHARTS, help=", ".join(CHARTS))
    add("model", metavar="MODEL",
        help="the model's file; for learning_curves the table that train --history wrote")  # fmt: skip
    add_data(parser, optional=True)
    add("-o", "--out", required=True, metavar="FILE", help=f"the file to write: {', '.join(_ENDINGS)}")
    add("--target", metavar="COLUMN", help="the column that the model predicts")
    add("--weight", metavar="COLUMN", help="the column of row weights")
    add("--feature", type=one_or_several, metavar="COLUMN", help="the feature, or two for partial_dependence")
    add("--row", type=int, default=0, metavar="N", help="for waterfall, the row index from 0; default 0")
    add("--baseline", metavar="DATA", help="for drift, the training rows")
    add("--time", metavar="COLUMN", help="for drift, the column of dates or times")
    add("--set", type=setting, action="append", default=[], metavar="NAME=VALUE", dest="settings",
        help="any other argument of the chart by its name in Python: top=30")  # fmt: skip


def _plot(options: argparse.Namespace) -> None:
    if options.where is not None and not options.data:
        raise UsageError("--where needs DATA, the rows that it chooses from")
    ending = Path(options.out).suffix.lower()
    if ending not in _ENDINGS:
        raise UsageError(f"--out must end in {', '.join(_ENDINGS)}, not {shown(options.out)}")
    check_writable(options.out)
    if importlib.util.find_spec("altair") is None:
        raise FrameboostError("charts need Altair: pip install 'frameboost[plots]'")
    if ending in (".svg", ".png") and importlib.util.find_spec("vl_convert") is None:
        raise FrameboostError(f"{ending} needs vl-convert: pip install vl-convert-python; or write {options.out}.html")
    import frameboost.plots

    draw = getattr(frameboost.plots, options.chart)
    chart = draw(**_chart_arguments(options, draw))
    with output_path(options.out) as partial:
        chart.save(str(partial), format=_ENDINGS[ending])


def _chart_arguments(options: argparse.Namespace, draw: Callable[..., Any]) -> dict[str, Any]:
    """Return the arguments of the chart, by name."""
    known, reserved = inspect.signature(draw).parameters, ("model", "data", "row", "baseline")
    chosen = {name: getattr(options, name) for name in ("target", "weight", "feature", "time")}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    for name, value in options.settings:
        if name in chosen:
            raise UsageError(f"{name} is set twice")
        chosen[name] = value
    for name in chosen:
        if name not in known or name in reserved:
            others = [other for other in known if other not in reserved]
            hint = did_you_mean(name, others) or (f"; it takes {listed(others)}" if others else "")
            raise UsageError(f"{options.chart} takes no {name}{hint}")
    if options.chart == "learning_curves":
        return {"model": _history(options)}
    model = open_model(options.model)
    needs_rows = {"data", "row"} & set(known)
    if needs_rows and not options.data:
        raise UsageError(f"{options.chart} needs DATA, the rows to draw")
    if not needs_rows and options.data:
        raise UsageError(f"{options.chart} draws the model alone; leave out DATA")
    for name in ("target", "feature", "time", "baseline"):
        if name in known and chosen.get(name) is None and getattr(options, name) is None:
            raise UsageError(f"{options.chart} needs --{name}")
    chosen["model"] = model
    if "data" in known:
        chosen["data"] = read_data(options)
    if "row" in known:
        chosen["row"] = _row(model, options)
    if "baseline" in known:
        rows = open_rows(options.baseline, model.ensemble.features)
        chosen["baseline"] = model.database().baseline(rows.frame if isinstance(rows, FrameSource) else rows.relation)
    return chosen


def _history(options: argparse.Namespace) -> pl.DataFrame:
    if options.data:
        raise UsageError("learning_curves takes one table, that of train --history")
    source = open_source(options.model)
    frame = source.to_frame(source.names()).collect()
    if "round" not in frame.columns or frame.width < 2:
        raise DataError(
            f"{options.model} is not a history of a fit, which train --history writes: it has no column 'round'"
        )
    return frame


def _row(model: Model, options: argparse.Namespace) -> pl.DataFrame:
    source = open_rows(read_data(options), model.ensemble.read_features)
    names = [name for name in source.names() if name in model.ensemble.read_names]
    frame = source.to_frame(names).slice(options.row, 1).collect() if options.row >= 0 else pl.DataFrame()
    if frame.is_empty():
        raise ParameterError(f"the data has no row {options.row}; they are numbered from 0")
    return frame


# --- report -----------------------------------------------------------------------------------------------------------


def add_report(commands: Commands) -> None:
    """Add the command ``report``."""
    example = "frameboost report model.json flights.parquet --target arr_delay -o report.html"
    parser = add_command(commands, "report", "Write a report of a model on rows, as one HTML file", _report, example)
    add_model_and_data(parser)
    parser.add_argument(
        "-o", "--out", required=True, metavar="FILE", help="the HTML file to write ('-': standard output)"
    )
    add_options(
        parser, Model.report, "weight", "group", "label_upper_bound", "groups", "time", "by", "title",
        target={"help": "the column of labels, or several; without it the report has no metrics"},
        training={"metavar": "DATA"},
    )  # fmt: skip
    add_options(parser, Model.predict, "base_margin")
    add_options(parser, Model.database, "dialect")


def _report(options: argparse.Namespace) -> None:
    check_writable(options.out)
    check_data(options)
    try:
        from frameboost.report import ReportOptions, report_html  # late: it needs the extra `report`
    except ImportError as error:
        raise ParameterError(str(error)) from error
    model = open_model(options.model)
    if options.training is not None:
        options.training = TableFiles((options.training,), null_values=tuple(options.null_values))
    write_output(
        options.out, report_html(model, read_data(options), ReportOptions(**arguments(options, ReportOptions)))
    )
