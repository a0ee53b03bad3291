"""What notebooks show of a model: a small table with bars and a spark line, as HTML without scripts.

Names of features and metrics are data: they are escaped. Colours are those of the surrounding text, so the table is
legible on light and on dark pages. A class keeps MathJax from reading dollars in names as formulas.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

import polars as pl

from frameboost.checks.messages import counted, shortened
from frameboost.ensemble.ensemble import Ensemble
from frameboost.evaluation.history import long_history
from frameboost.model.summaries import interval_text, leaves_text

__all__ = ["html_summary"]

_FEATURES_SHOWN = 8
_OUTPUTS_SHOWN = 4
_WIDTH, _HEIGHT = 220, 36  # pixels of a spark line
_POINTS = 200  # of a spark line
_BLUE = "#3A94D0"  # on white and on black alike
_ORANGE = "#E69F00"


def html_summary(
    ensemble: Ensemble, history: pl.DataFrame, importance: pl.DataFrame, best_round: int | None, hint: str = ""
) -> str:
    """Return the HTML of a model: objective, rounds, base, its most important features, its history.

    Parameters
    ----------
    ensemble
        The model's.
    history
        `frameboost.Model.history`.
    importance
        What `frameboost.Model.importance` returns.
    best_round
        The best round of early stopping.
    hint
        A line about the objective.
    """
    rows = [
        ("objective", _escaped(ensemble.loss.name) + (" (calibrated)" if ensemble.calibration is not None else "")),
        ("predicts", _predicts(ensemble)),
        ("rounds", _rounds(ensemble, best_round)),
        ("trees", f"{counted(len(ensemble.trees), 'tree')}, {leaves_text(ensemble)}"),
        ("base margin", _numbers(ensemble.base_margins)),
        ("features", _features(ensemble, importance)),
    ]
    if ensemble.offset is not None:
        rows.insert(5, ("offset", _escaped(str(ensemble.offset), 200)))
    if (interval := interval_text(ensemble)) is not None:
        rows.insert(2, ("interval", _escaped(interval, 200)))
    if hint:
        rows.insert(1, ("", _escaped(hint, 200)))
    if line := _history(history, best_round):
        rows.append(("history", line))
    cell = "text-align:left;vertical-align:top;padding:2px 10px 2px 0;border:none"
    body = "".join(
        f'<tr style="background:none"><th scope="row" style="{cell};font-weight:600">{name}</th>'
        f'<td style="{cell}">{value}</td></tr>'
        for name, value in rows
    )
    return (
        '<div class="tex2jax_ignore mathjax_ignore" style="color:inherit;background:none">'
        "<strong>frameboost.Model</strong>"
        f'<table style="border-collapse:collapse;border:none;color:inherit;margin:4px 0">{body}</table></div>'
    )


def _escaped(text: str, longest: int = 60) -> str:
    return html.escape(shortened(text, longest))


def _predicts(ensemble: Ensemble) -> str:
    loss = ensemble.loss
    if len(loss.labels) > 1:
        return f"{len(loss.labels)} targets"
    if loss.classes:
        return counted(loss.classes, "class", "classes")
    if loss.is_distribution:
        return "a mean and a standard deviation"
    return "a number" if loss.n_outputs == 1 else f"{loss.n_outputs} numbers"


def _rounds(ensemble: Ensemble, best_round: int | None) -> str:
    return f"{ensemble.n_rounds:,}" + ("" if best_round is None else f" (best round: {best_round:,})")


def _numbers(values: Sequence[float]) -> str:
    text = ", ".join(f"{value:.6g}" for value in values[:_OUTPUTS_SHOWN])
    more = len(values) - _OUTPUTS_SHOWN
    return text if more <= 0 else f"{text} and {more:,} more"


def _features(ensemble: Ensemble, importance: pl.DataFrame) -> str:
    """Return the most important features, each with its type and a bar of its share of the gain."""
    types = {feature.name: feature.type for feature in ensemble.features}
    shares = importance["importance"].to_numpy()
    largest = max((float(share) for share in shares if math.isfinite(share)), default=0.0)
    lines, cell = [], "text-align:left;border:none;padding:0 8px 0 0"
    for name, share in importance.head(_FEATURES_SHOWN).rows():
        width = round(100 * (share / largest)) if largest > 0 and math.isfinite(share) and share > 0 else 0
        lines.append(
            f'<tr style="background:none"><td style="{cell}">{_escaped(name)}</td>'
            f'<td style="{cell};opacity:.7">{_escaped(str(types[name]))}</td>'
            f'<td style="border:none;padding:0;width:104px"><div title="total gain {share:.6g}" '
            f'style="background:{_BLUE};height:9px;width:{width}px"></div></td></tr>'
        )
    more = len(importance) - _FEATURES_SHOWN
    rest = f'<div style="opacity:.7">and {more:,} more</div>' if more > 0 else ""
    table = f'<table style="border-collapse:collapse;border:none;color:inherit;margin:0">{"".join(lines)}</table>'
    return f"{counted(len(ensemble.features), 'feature')}, by total gain:{table}{rest}"


def _history(history: pl.DataFrame, best_round: int | None) -> str:
    """Return spark lines of the last metric, one for each of the last two sets of rows; nothing without a history."""
    long = long_history(history).filter(pl.col("value").is_finite())
    if long.is_empty():
        return ""
    metric = long["metric"][-1]
    drawn = long.filter(metric=metric)
    colours = dict(zip(reversed(drawn["set"].unique(maintain_order=True).to_list()), (_ORANGE, _BLUE), strict=False))
    drawn = drawn.filter(pl.col("set").is_in(list(colours)))
    first, last = min(drawn["round"]), max(drawn["round"])
    low, high = min(drawn["value"]), max(drawn["value"])
    place = drawn.select(
        "set",
        "value",
        x=2 + (_WIDTH - 4) * (pl.col("round") - first) / max(1, last - first),
        y=_HEIGHT - 3 - (_HEIGHT - 6) * (pl.col("value") - low) / ((high - low) or 1.0),
    )
    paths, ends = [], []
    for rows, colour in reversed(colours.items()):
        line = place.filter(set=rows)
        every = line.gather_every(max(1, len(line) // _POINTS))
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in every.select("x", "y").rows())
        paths.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        name = _escaped(f"{rows} {metric}".strip())
        ends.append(f'<span style="color:{colour}">&#9632;</span> {name} {line["value"][-1]:.6g}')
    if best_round is not None and first <= best_round <= last:
        at = f"{2 + (_WIDTH - 4) * (best_round - first) / max(1, last - first):.1f}"
        paths.append(f'<line x1="{at}" x2="{at}" y1="0" y2="{_HEIGHT}" stroke="currentColor" stroke-dasharray="2 2"/>')
    label = f"{_escaped(metric)} over {counted(last - first + 1, 'round')}"
    return (
        f'<svg role="img" aria-label="{label}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" style="display:block">{"".join(paths)}</svg><div>{"; ".join(ends)}</div>'
    )
