"""The quality of the model by group."""

from __future__ import annotations

import polars as pl

from frameboost.checks.messages import counted, shortened
from frameboost.data.sources import FrameSource
from frameboost.evaluation.metrics_by_group import evaluated_metrics
from frameboost.metrics.metric import larger_is_better
from frameboost.report.material import Material
from frameboost.report.page import Raw, Section, escaped, note, number, paragraph, percent, table
from frameboost.schema.types import column, free_name

__all__ = ["by_group", "quality_by_group"]

_MAX_GROUPS = 30  # of the most rows
_MAX_METRICS = 4
_FEW_ROWS = 30  # metrics of smaller groups are uncertain
_NONE = "(missing)"


def by_group(material: Material) -> Section | None:
    """Return the table of metrics by group, None without a group column."""
    by = material.options.by
    if by is None or material.evaluation is None:
        return None
    frame, n_groups = quality_by_group(material)
    metrics = list(material.values)[:_MAX_METRICS]
    main, whole = metrics[0], material.values[metrics[0]]
    means = [name for name in ("mean_label", "mean_prediction") if name in frame.columns]
    rows = []
    for row in frame.rows(named=True):
        value = row[main]
        is_worse = value is not None and (value < whole if larger_is_better(main) else value > whole)
        few = row["rows"] < _FEW_ROWS
        first = Raw(f'<span class="bad">{number(value)}</span>') if is_worse and not few else number(value)
        rows.append((
            Raw(f"<em>{_NONE}</em>") if row["group"] is None else shortened(row["group"], 60),
            f"{row['rows']:,}", percent(row["rows"] / len(material.rows)), *(number(row[name]) for name in means),
            first, *(number(row[name]) for name in metrics[1:]), "few rows" if few else "",
        ))  # fmt: skip
    of_all = ["" for _ in means]
    rows.append((Raw("<strong>all rows</strong>"), f"{len(material.rows):,}", "100 %", *of_all,
                 *(number(material.values[name]) for name in metrics), ""))  # fmt: skip
    titles = [name.replace("_", " ") for name in means]
    header = (shortened(by, 40), "rows", "share", *titles, *metrics, "")
    text = f"Red: a worse {main} than that of all rows."
    if (more := n_groups - len(frame)) > 0:
        text += f" {counted(more, 'group')} of fewer rows left out."
    if material.of_sample:
        text += f" Groups are {material.of_sample}."
    finding = _finding(frame, main, whole, by)
    numbers = tuple(range(1, 3 + len(means) + len(metrics)))
    return Section("groups", f"How good it is by {shortened(by, 60)}", [
        paragraph(finding), table(header, rows, numbers=numbers), note(text),
    ])  # fmt: skip


def _finding(frame: pl.DataFrame, metric: str, whole: float, by: str) -> Raw:
    """Return the text that names the worst group with enough rows."""
    enough = frame.filter((pl.col("rows") >= _FEW_ROWS) & pl.col(metric).is_finite())
    if enough.is_empty():
        return escaped(f"No value of {shortened(by, 60)} has {_FEW_ROWS} rows; metrics of so few rows are uncertain.")
    sign = -1 if larger_is_better(metric) else 1
    worst = enough.sort(sign * pl.col(metric), descending=True, maintain_order=True).row(0, named=True)
    group = _NONE if worst["group"] is None else shortened(worst["group"], 60)
    return escaped(
        f"{shortened(metric, 40)} is worst where {shortened(by, 60)} is {group}: {number(worst[metric])}, against "
        f"{number(whole)} of all rows."
    )


def quality_by_group(material: Material) -> tuple[pl.DataFrame, int]:
    """Return the metrics of the groups with the most rows, and the number of groups.

    Returns
    -------
    polars.DataFrame
        ``group`` (the value as text, null for missing), ``rows``, the metrics by name, and, if predictions are on the
        scale of the label or probabilities of the second class, ``mean_label`` and ``mean_prediction``.
    """
    rows = material.coded.frame.collect()
    group = free_name("group", rows.columns)
    rows = rows.with_columns(material.rows[material.options.by or ""].cast(pl.String).alias(group))
    weight = material.roles.get("weight")
    rows, is_counted = _with_means(material, rows), None if weight is None else column(weight) > 0
    rows = rows if is_counted is None else rows.filter(is_counted)
    counts = rows.group_by(group).len("rows").sort(["rows", group], descending=[True, False], nulls_last=True)
    rows = rows.join(counts.head(_MAX_GROUPS), on=group, how="semi", nulls_equal=True)
    source = FrameSource(rows.lazy())
    values = evaluated_metrics(
        material.predictor, source, material.roles, [group], material.metrics[:_MAX_METRICS], r2="r2" in material.values
    )
    wide = values.pivot("metric", index=group, values="value", maintain_order=True)
    means = [name for name in _MEANS if name in rows.columns]
    each = pl.repeat(1.0, pl.len()) if weight is None else column(weight).cast(pl.Float64)
    sums = rows.group_by(group).agg((pl.col(name) * each).sum() / each.sum() for name in means)
    frame = counts.join(wide, on=group, how="inner", nulls_equal=True, maintain_order="left")
    frame = frame.join(sums, on=group, how="left", nulls_equal=True, maintain_order="left")
    names = {group: "group"} | {name: name.strip("\0").replace(" ", "_") for name in means}
    return frame.rename(names), len(counts)


_MEANS = ("\0mean label", "\0mean prediction")  # names that no column of the data has


def _with_means(material: Material, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with label and prediction as numbers, if they are on the same scale."""
    loss = material.ensemble.loss
    is_binary = loss.classes == 2 and loss.n_outputs == 1 and loss.has_probabilities
    if not material.one_target or not (is_binary or material.predicts_labels) or "upper" in loss.roles:
        return rows
    predictions = material.predictor.predict(material.rows, "probability" if is_binary else "mean")
    return rows.with_columns(
        column(material.target).cast(pl.Float64).alias(_MEANS[0]), predictions.cast(pl.Float64).alias(_MEANS[1])
    )
