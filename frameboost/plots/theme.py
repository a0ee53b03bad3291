"""Colours, sizes and axes of the charts.

Classes use the colours of Okabe and Ito ("Color Universal Design", 2008), which are safe for colour-blind readers,
ordered so that neighbours differ in lightness; each line also has a dash pattern, for black and white. Amounts use
viridis, which is uniform in lightness.

All of it is set in marks and encodings, not in the configuration, which Altair allows only at the top level: so users
can combine charts (``a | b``) and configure them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, Final, TypeVar, cast

import altair as alt

from frameboost.checks.messages import shortened

__all__ = [
    "AMOUNT", "BLUE", "DIM", "GREY", "HEIGHT", "LIGHT", "MAX_CLASSES", "ORANGE", "WIDTH", "axis", "colour_of",
    "dash_of", "headed", "layered", "name_tip", "number_axis", "number_format", "number_tip", "percentage", "quantity",
    "shown_classes",
]  # fmt: skip

WIDTH, HEIGHT = 480, 300
BLUE, ORANGE, GREY, DIM, LIGHT = "#0072B2", "#E69F00", "#666666", "#999999", "#BBBBBB"
_COLOURS = (BLUE, ORANGE, "#009E73", "#CC79A7", "#000000", "#56B4E9", "#D55E00", "#F0E442")
AMOUNT: Final = "viridis"
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 1], [1, 3], [10, 4], [3, 3, 1, 3])
_LONGEST_LABEL = 260  # pixels
MAX_CLASSES = len(_COLOURS)  # a chart has one line per class


def axis(**more: Any) -> alt.Axis:
    """Return an axis with room for long names of features and categories."""
    return alt.Axis(**({"labelLimit": _LONGEST_LABEL, "titleLimit": WIDTH} | more))


def number_axis(largest: float = 0.0, **more: Any) -> alt.Axis:
    """Return an axis of numbers with labels that do not touch; millions and more have a unit."""
    if largest >= 1e6:
        more = {"format": "~s" if largest < 1e15 else ".2~e"} | more
    return axis(**({"labelOverlap": "greedy", "labelSeparation": 5} | more))


def quantity(channel: type, field: str, title: str | None, *, zero: bool = False, **more: Any) -> Any:
    """Return the encoding of a number by a channel (`altair.X`, `altair.Y`); the axis includes 0 only if ``zero``."""
    shown = {"scale": alt.Scale(zero=zero, nice=True), "axis": number_axis()} | more
    return channel(field=field, type="quantitative", title=title, **shown)


def name_tip(field: str, **more: Any) -> alt.Tooltip:
    """Return a line of a tooltip: a name, a category or another text."""
    return alt.Tooltip(field=field, type="nominal", **more)


def number_tip(field: str, **more: Any) -> alt.Tooltip:
    """Return a line of a tooltip: a number."""
    return alt.Tooltip(field=field, type="quantitative", **more)


Drawn = TypeVar("Drawn", alt.Chart, alt.LayerChart, alt.HConcatChart, alt.VConcatChart)


def headed(chart: Drawn, finding: str, how_to_read: str, *, width: int = WIDTH) -> Drawn:
    """Return the chart with its finding as title, and how to read it as subtitle.

    Lines are broken at about ``width`` pixels.
    """
    heading = alt.TitleParams(
        textwrap.wrap(shortened(finding, 160), width // 7) or [""],
        subtitle=textwrap.wrap(how_to_read, width // 6),
        anchor="start", fontSize=13, fontWeight=600, subtitleFontSize=11, subtitleColor=GREY, subtitlePadding=4,
        offset=10,
    )  # fmt: skip
    return chart.properties(title=heading)


def percentage(share: float) -> str:
    """Return a share in percent, with three significant digits.

    >>> percentage(0.2743), percentage(1.0), percentage(0.00042)
    ('27.4 %', '100 %', '0.042 %')
    """
    return f"{100 * share:.3g} %"


def layered(*charts: alt.Chart, **more: Any) -> alt.LayerChart:
    """Return charts in layers; `altair.layer` may also return a faceted chart of faceted ones."""
    return cast("alt.LayerChart", alt.layer(*charts, **more))


def number_format(largest: float) -> str:
    """Return the format of an axis from 0, with units such as k and M only for large numbers."""
    return "~s" if largest >= 10_000 else ",.4~r"


def colour_of(field: str, names: Sequence[str], title: str | None, **more: Any) -> alt.Color:
    """Return the colour encoding of names, in their order.

    The name ``rest``, for all others together, is grey; further arguments are those of `altair.Color`.
    """
    rest = more.pop("rest", None)
    colours = [DIM if name == rest else _COLOURS[i % len(_COLOURS)] for i, name in enumerate(names)]
    more.setdefault("legend", _legend(names))
    scale = alt.Scale(domain=list(names), range=colours)
    return alt.Color(field=field, type="nominal", title=title, scale=scale, **more)


def _legend(names: Sequence[str]) -> alt.Legend | None:
    """Return a legend below the chart, in as many columns as the names allow; None for a single name."""
    if len(names) < 2:
        return None
    columns = max(1, WIDTH // (7 * max(map(len, names)) + 30))
    return alt.Legend(orient="bottom", columns=columns, labelLimit=_LONGEST_LABEL)


def dash_of(field: str, names: Sequence[str], title: str | None, **more: Any) -> alt.StrokeDash:
    """Return the dash encoding of names, in their order."""
    dashes = [list(_DASHES[i % len(_DASHES)]) for i in range(len(names))]
    more.setdefault("legend", _legend(names))
    scale = alt.Scale(domain=list(names), range=dashes)
    return alt.StrokeDash(field=field, type="nominal", title=title, scale=scale, **more)


def shown_classes(names: Sequence[str]) -> list[str]:
    """Return the classes drawn as lines: the first eight, the number of colours."""
    return list(names[:MAX_CLASSES])
