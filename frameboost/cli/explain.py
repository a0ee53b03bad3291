"""``frameboost explain``: prints what moved the predictions, of all rows together or row by row."""

from __future__ import annotations

import argparse

import polars as pl

from frameboost.checks.messages import counted, listed, shown
from frameboost.cli.arguments import Commands, UsageError, add_command, check_keep, names
from frameboost.cli.inputs import add_data, add_output, check_output, read_data
from frameboost.cli.screen import print_table
from frameboost.data.rows_to_score import open_rows
from frameboost.data.table_files import write_table
from frameboost.errors import DataError, ParameterError
from frameboost.loading import open_model
from frameboost.model.model import Model
from frameboost.schema.polars_columns import column

__all__ = ["add_explain"]

_EXAMPLE = "frameboost explain model.json flights.parquet --rows 3 --top 2 --keep id"


def add_explain(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(commands, "explain", "Say what moves a model's predictions", _explain, _EXAMPLE)
    add = parser.add_argument
    add("model", metavar="MODEL", help="the model's file")
    add_data(parser)
    add("--rows", type=int, metavar="N", help="the first N rows one by one, instead of a summary")
    add("--top", type=int, default=10, metavar="N", help="how many features to show; default 10")
    add("--keep", type=names, action="extend", metavar="COLUMNS", help="columns to show beside each row, as id,day")
    add("--output", metavar="CLASS", help="of several outputs the one to explain: its number, or its label")
    add("--approx", action="store_true", help="Saabas' contributions, which are cheaper, instead of Shapley values")
    add("--sample", type=int, default=10_000, metavar="N",
        help="at most so many rows for the summary, evenly from all; default 10000")  # fmt: skip
    add_output(parser, "write the contributions of all rows instead, to a", required=False)


def _explain(given: argparse.Namespace) -> None:
    for name in ("rows", "top", "sample"):
        if getattr(given, name) is not None and getattr(given, name) < 1:
            raise UsageError(f"--{name} must be at least 1")
    if given.out is not None and given.rows is not None:
        raise UsageError("--rows is for the terminal; --out writes all rows")
    if given.keep is not None and given.out is None and given.rows is None:
        raise UsageError("--keep is for --rows and --out; a summary is of all rows together")
    check_output(given)
    model = open_model(given.model)
    output = _output(model, given.output)
    frame = _read(model, given)
    if given.out is not None:
        contributions = model.explain(frame, approx=given.approx, output=output)
        write_table(_beside(frame, contributions, given.keep or []).lazy(), given.out, replace=given.replace)
    elif given.rows is not None:
        _print_rows(model, frame.head(given.rows), given, output)
    else:
        _print_summary(model, frame, given, output)


def _output(model: Model, given: str | None) -> int:
    if given is None and model.ensemble.n_outputs > 1:
        labels = model.classes or range(model.ensemble.n_outputs)
        raise UsageError(f"the model has several outputs; name one by --output: {listed(labels)}")
    known = [str(label) for label in model.ensemble.output_labels]
    if given is not None and given in known:
        return known.index(given)
    return model.ensemble.margin_number(int(given) if given is not None and given.isdecimal() else given)


def _read(model: Model, given: argparse.Namespace) -> pl.DataFrame:
    source = open_rows(read_data(given, given.out), model.ensemble.read_features)
    model.ensemble.find_in(source)
    keep = given.keep or []
    check_keep(keep, source.names())
    lazy = source.to_frame(list(dict.fromkeys([*keep, *model.ensemble.read_names])))
    frame = (lazy if given.rows is None else lazy.head(given.rows)).collect()
    if frame.is_empty():
        raise DataError("the data has no rows")
    return frame


def _beside(frame: pl.DataFrame, contributions: pl.DataFrame, keep: list[str]) -> pl.DataFrame:
    for name in keep:
        if name in contributions.columns:
            raise ParameterError(f"column {shown(name)} is a feature, whose contribution has its name; leave it out")
    return pl.concat([frame.select(map(column, keep)), contributions], how="horizontal") if keep else contributions


def _print_summary(model: Model, frame: pl.DataFrame, given: argparse.Namespace, output: int) -> None:
    """Print the mean magnitude and the mean of each feature's contributions."""
    step = -(-len(frame) // given.sample)
    sample = frame.gather_every(step)
    contributions = model.explain(sample, approx=given.approx, output=output).drop("bias")
    table = pl.DataFrame({
        "feature": contributions.columns,
        "mean magnitude": [contributions[name].abs().mean() for name in contributions.columns],
        "mean": [contributions[name].mean() for name in contributions.columns],
    }).sort("mean magnitude", descending=True, maintain_order=True)  # fmt: skip
    rows = f"{len(sample):,} of {len(frame):,} rows" if step > 1 else counted(len(frame), "row")
    title = f"contributions to the margin{_of_output(model, output)}, of {rows}"
    print_table(table.head(given.top), title, bars="mean magnitude")


def _of_output(model: Model, output: int) -> str:
    """Return which of several outputs is explained, by its label if it has one."""
    if model.ensemble.n_outputs == 1:
        return ""
    labels = model.ensemble.output_labels
    return f" of {shown(labels[output]) if labels else f'output {output}'}"


def _print_rows(model: Model, frame: pl.DataFrame, given: argparse.Namespace, output: int) -> None:
    """Print each row's prediction and the contributions that move it most."""
    contributions = model.explain(frame, approx=given.approx, output=output)
    margins = contributions.sum_horizontal()
    of = _of_output(model, output)
    means = model.predict(frame) if model.ensemble.n_outputs == 1 else None
    for number in range(len(frame)):
        predicted = "" if means is None else f"prediction {means[number]:.6g}, "
        parts, values = contributions.row(number, named=True), frame.row(number, named=True)
        bias = parts.pop("bias")
        most = sorted(parts, key=lambda name: -abs(parts[name]))[: given.top]
        kept = "".join(f", {name} {values[name]}" for name in given.keep or [])
        rest = sum(parts.values()) - sum(parts[name] for name in most)
        named = {name: ("NULL" if values[name] is None else str(values[name]), parts[name]) for name in most}
        lines = {"(mean)": ("", bias)} | named | ({"(others)": ("", rest)} if len(most) < len(parts) else {})
        table = pl.DataFrame({
            "feature": list(lines),
            "value": [value for value, _ in lines.values()],
            "contribution": [part for _, part in lines.values()],
        })  # fmt: skip
        print_table(table, f"row {number}{kept}: {predicted}margin{of} {margins[number]:.6g}", bars="contribution")
        if number + 1 < len(frame):
            print()
