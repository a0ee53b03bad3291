"""The figures of pages: ``python -m docs.site.figures`` draws them into ``docs/figures``.

Colours can be told apart by people who are colour-blind, and are readable on light and on dark. Lines and letters have
the colour of the site's text where the figure is part of a page.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["FIGURES", "FOLDER"]

FOLDER = Path(__file__).parents[1] / "figures"

BLUE, ORANGE, GREEN = "#2f8fd8", "#e07b00", "#1a9e77"
INK, FAINT = "var(--md-default-fg-color,#6e7781)", "var(--md-default-fg-color--lighter,#afb8c1)"


@dataclass
class Drawing:
    """An SVG whose x and y are those of the data; y points up."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: int = 640
    height: int = 260
    margin: int = 44
    parts: list[str] = field(default_factory=list)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the place of a point of the data, in pixels."""
        across = (x - self.x[0]) / (self.x[1] - self.x[0]) * (self.width - 2 * self.margin)
        up = (y - self.y[0]) / (self.y[1] - self.y[0]) * (self.height - 2 * self.margin)
        return round(self.margin + across, 1), round(self.height - self.margin - up, 1)

    def line(
        self, points: Sequence[tuple[float, float]], colour: str = INK, wide: float = 1.5, dashed: str = ""
    ) -> None:
        """Draw a line through points."""
        path = " ".join(f"{x},{y}" for x, y in (self.at(*point) for point in points))
        dash = f' stroke-dasharray="{dashed}"' if dashed else ""
        self.parts.append(
            f'<polyline points="{path}" style="fill:none;stroke:{colour}" stroke-width="{wide}" '
            f'stroke-linejoin="round"{dash}/>'
        )

    def bar(self, x: float, to: float, y: float, colour: str, bottom: float = 0.0) -> None:
        """Draw a filled bar from ``x`` to ``to``."""
        (left, top), (right, base) = self.at(x, max(y, bottom)), self.at(to, min(y, bottom))
        size = f'width="{round(right - left, 1)}" height="{round(base - top, 1)}"'
        self.parts.append(f'<rect x="{left}" y="{top}" {size} style="fill:{colour}" rx="1.5"/>')

    def dot(self, x: float, y: float, colour: str, radius: float = 4) -> None:
        """Draw a dot."""
        across, down = self.at(x, y)
        self.parts.append(f'<circle cx="{across}" cy="{down}" r="{radius}" style="fill:{colour}"/>')

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        anchor: str = "middle",
        colour: str = INK,
        down: float = 0,
        size: int = 13,
    ) -> None:
        """Write words at a point, ``down`` pixels below it."""
        across, place = self.at(x, y)
        if colour != INK:  # with contrast on light and on dark
            colour = f"color-mix(in srgb, {colour} 50%, {INK})"
        self.parts.append(
            f'<text x="{across}" y="{round(place + down, 1)}" text-anchor="{anchor}" font-size="{size}" '
            f'style="fill:{colour}">{words}</text>'
        )

    def svg(self) -> str:
        """Return the file."""
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}"'
        body = "\n".join(self.parts)
        return f'{head} font-family="system-ui, sans-serif">\n{body}\n</svg>\n'


def leaf() -> str:
    """Draw the objective of a leaf over its weight, with and without penalties: G = −6, H = 2."""
    drawing = Drawing(x=(-0.5, 4.5), y=(-10, 3))
    drawing.line([(-0.5, 0), (4.5, 0)], FAINT, 1)
    drawing.line([(0, -10), (0, 3)], FAINT, 1)
    for label, colour, reg_lambda, reg_alpha, high in (
        ("no penalty", BLUE, 0, 0, -4.6), ("λ = 2", ORANGE, 2, 0, -3.3), ("λ = 2, α = 2", GREEN, 2, 2, -2)
    ):  # fmt: skip

        def value(w: float, reg_lambda: float = reg_lambda, reg_alpha: float = reg_alpha) -> float:
            return -6 * w + (2 + reg_lambda) / 2 * w * w + reg_alpha * abs(w)

        weights = [-0.5 + i / 40 for i in range(201)]
        drawing.line([(w, value(w)) for w in weights if value(w) <= 3], colour, 2.2)
        best = (6 - reg_alpha) / (2 + reg_lambda)
        drawing.dot(best, value(best), colour)
        drawing.text(4.5, high, f"{label}: w* = {best:g}", colour=colour, anchor="end")
    drawing.text(4.5, 0, "w", anchor="end", down=-6)
    return drawing.svg()


def missing() -> str:
    """Draw the gain at each cut of a histogram, with missing values on either side; λ = 1."""
    gradients, hessians, lost = [-4, -2, 0, 3], [2, 1, 0, 3], (-1, 1)
    total = (sum(gradients) + lost[0], sum(hessians) + lost[1])

    def score(G: float, H: float) -> float:
        return G * G / (H + 1)

    drawing = Drawing(x=(0.3, 4.7), y=(-1, 11.5))
    drawing.line([(0.3, 0), (4.7, 0)], INK, 1)
    for cut, name in ((1, "behind bin 0"), (2, "behind bin 1"), (4, "behind bin 3")):
        GL, HL = sum(gradients[:cut]), sum(hessians[:cut])
        place = {1: 1, 2: 2.5, 4: 4}[cut]
        for side, colour, (G, H) in ((-0.32, BLUE, (GL, HL)), (0.02, ORANGE, (GL + lost[0], HL + lost[1]))):
            gain = score(G, H) + score(total[0] - G, total[1] - H) - score(*total) if total[1] > H else 0.0
            drawing.bar(place + side, place + side + 0.3, gain, colour)
            drawing.text(place + side + 0.15, max(gain, 0), f"{gain:.2f}", down=-5, colour=colour)
        drawing.text(place, -1, name, down=8)
    drawing.text(0.3, 11.5, "gain", anchor="start", down=4)
    drawing.text(4.7, 11.5, "missing right", anchor="end", colour=BLUE, down=4)
    drawing.text(4.7, 10.3, "missing left", anchor="end", colour=ORANGE, down=4)
    return drawing.svg()


def quantiles() -> str:
    """Draw ranks weighted by the hessian of the logistic loss, and the cuts that divide them evenly."""
    values = [-4 + i / 25 for i in range(201)]
    chances = [1 / (1 + math.exp(-1.5 * x)) for x in values]
    hessians = [p * (1 - p) for p in chances]
    drawing = Drawing(x=(-4, 4), y=(0, 1), height=300)
    drawing.line([(-4, 0), (4, 0)], INK, 1)
    for weights, colour, name, place in (
        ([1.0] * len(values), BLUE, "each row counts 1", (-0.6, 0.5)),
        (hessians, ORANGE, "each row counts h = p(1 − p)", (1.5, 0.5)),
    ):
        below, ranks = 0.0, []
        for weight in weights:
            ranks.append(below / sum(weights))
            below += weight
        drawing.line(list(zip(values, ranks, strict=True)), colour, 2.2)
        cuts = [next(x for x, rank in zip(values, ranks, strict=True) if rank >= part / 8) for part in range(1, 8)]
        high = 0.0 if colour == BLUE else 0.045
        for cut in cuts:
            drawing.line([(cut, high), (cut, high + 0.035)], colour, 2.5)
        drawing.text(*place, name, colour=colour, anchor="end" if colour == BLUE else "start")
    drawing.text(4, 0, "z", anchor="end", down=18)
    drawing.text(-4, 1, "r(z)", anchor="start", down=-6)
    drawing.text(0, 0, "cuts of 8 bins, by either rank", down=34)
    return drawing.svg()


def grid() -> str:
    """Draw three numbers, and the multiples of a step that they are rounded to."""
    drawing = Drawing(x=(0, 8), y=(0, 1), height=150)
    drawing.line([(0, 0.35), (8, 0.35)], INK, 1)
    for step in range(9):
        drawing.line([(step, 0.25), (step, 0.45)], INK, 1)
        drawing.text(step, 0.25, f"{step}s" if step else "0", down=16, size=12)
    for value, colour, name in ((1.3, BLUE, "g₁"), (2.75, ORANGE, "g₂"), (4.45, GREEN, "g₃")):
        drawing.dot(value, 0.75, colour)
        drawing.text(value, 0.75, name, colour=colour, down=-9)
        drawing.line([(value, 0.75), (round(value), 0.4)], colour, 1.5, "3 3")
        drawing.dot(round(value), 0.35, colour, 5)
    drawing.dot(8, 0.35, INK, 5)
    drawing.text(8, 0.45, "sum, in any order", anchor="end", down=-9)
    return drawing.svg()


def categories() -> str:
    """Draw four categories by their weight as leaves, and the gain of each prefix of that order; λ = 0."""
    sums = {"a": (6, 2), "d": (3, 3), "b": (-2, 2), "c": (-6, 3)}
    drawing = Drawing(x=(-3.6, 2.6), y=(0, 32), height=280)
    drawing.line([(-3.6, 0), (2.6, 0)], INK, 1)
    places = {name: -G / H for name, (G, H) in sums.items()}
    for name, place in places.items():
        drawing.dot(place, 0, BLUE, 6)
        drawing.text(place, 0, f"{name}: {place:g}", down=22)
    order = list(sums)
    for count in (1, 2, 3):
        GL, HL = (sum(sums[name][k] for name in order[:count]) for k in (0, 1))
        gain = GL**2 / HL + (1 - GL) ** 2 / (10 - HL) - 1 / 10
        middle = (places[order[count - 1]] + places[order[count]]) / 2
        colour = ORANGE if count == 2 else FAINT
        drawing.line([(middle, 0), (middle, gain)], colour, 3)
        words = f"{{{', '.join(order[:count])}}} | {{{', '.join(order[count:])}}}"
        drawing.text(middle, gain, words, down=-20, colour=ORANGE if count == 2 else INK)
        drawing.text(middle, gain, f"gain {gain:g}", down=-5, colour=ORANGE if count == 2 else INK)
    drawing.text(2.6, 0, "−G/H", anchor="end", down=38)
    return drawing.svg()


def shapley() -> str:
    """Draw a tree of two features, and how its prediction is shared between them."""
    drawing = Drawing(x=(0, 10), y=(0, 4), height=250)
    for start, end, words, side in (
        ((2.5, 3.6), (1.2, 2.2), "x = 0", -0.75), ((2.5, 3.6), (3.8, 2.2), "x = 1", 0.75),
        ((3.8, 2.0), (2.8, 0.6), "z = 0", -0.7), ((3.8, 2.0), (4.8, 0.6), "z = 1", 0.7),
    ):  # fmt: skip
        bold = words in ("x = 1", "z = 1")
        drawing.line([start, end], ORANGE if bold else FAINT, 3 if bold else 1.5)
        drawing.text((start[0] + end[0]) / 2 + side, (start[1] + end[1]) / 2 + 0.1, words, size=12)
    for x, y, words in ((2.5, 3.75, "4 rows"), (1.2, 1.85, "0"), (2.8, 0.25, "0"), (4.8, 0.25, "8")):
        drawing.text(x, y, words, down=4)
    steps = (("bias", 0, 2, FAINT), ("φ of x", 2, 5, BLUE), ("φ of z", 5, 8, GREEN))
    for number, (name, start, end, colour) in enumerate(steps):
        high = 3.2 - number
        drawing.bar(6.3 + start * 0.4, 6.3 + end * 0.4, high + 0.45, colour, high)
        drawing.text(6.2, high + 0.1, name, anchor="end", down=-2)
        drawing.text(6.3 + end * 0.4, high + 0.1, f"+{end - start}" if number else "2", anchor="start", down=-2)
    drawing.line([(6.3, 0.7), (9.5, 0.7)], FAINT, 1)
    drawing.text(9.5, 0.7, "prediction 8", anchor="end", down=16)
    return drawing.svg()


def times() -> str:
    """Draw times of the run in ``benchmarks/README.md`` beside those of other libraries."""
    run = (FOLDER.parents[1] / "benchmarks" / "README.md").read_text(encoding="utf-8")
    drawing = Drawing(x=(0, 100), y=(0, 15), width=440, height=400, margin=6)  # no wider, to be read on a phone
    high = 14.2
    for title, workload, ways in (
        ("train 100 trees on 1,000,000 rows × 28", "train",
         {"frameboost": "frameboost numba", "LightGBM": "lightgbm", "XGBoost": "xgboost hist"}),
        ("score 1,000,000 rows with them in Python", "predict",
         {"frameboost": "frameboost predict", "XGBoost": "xgboost inplace_predict", "LightGBM": "lightgbm predict"}),
        ("score in DuckDB, by trees as SQL", "sql-depth-6",
         {"frameboost": "frameboost sql", "orbital": "orbital"}),
        ("train a tree on 1,000,000 rows in DuckDB", "joinboost",
         {"frameboost": "frameboost duckdb", "JoinBoost": "joinboost"}),
    ):  # fmt: skip
        found = {name: _seconds(run, workload, way) for name, way in ways.items()}
        drawing.text(0, high, title, anchor="start", down=4, size=14)
        for library, seconds in found.items():
            high -= 0.95
            end = 20 + 67 * seconds / max(found.values())
            drawing.bar(20, end, high + 0.3, BLUE if library == "frameboost" else FAINT, high - 0.3)
            drawing.text(18.5, high, library, anchor="end", down=4)
            drawing.text(end + 1, high, f"{seconds:.2g} s", anchor="start", down=4)
        high -= 1.35
    return drawing.svg()


def curves() -> str:
    """Draw how times of the same run grow, with the rows in training and with the depth in scoring."""
    run = (FOLDER.parents[1] / "benchmarks" / "README.md").read_text(encoding="utf-8")
    drawing = Drawing(x=(0, 100), y=(0, 100), width=760, height=360, margin=16)
    panels = (
        ("seconds to train 100 trees, by rows × 28", 0, (2, 75), (2, 5, 10, 20, 50),
         {1e6: "train", 1e7: "train-10m"}, {1e6: "1,000,000", 1e7: "10,000,000"},
         {"frameboost": "frameboost numba", "LightGBM": "lightgbm", "XGBoost": "xgboost hist"}),
        ("seconds to score 200,000 rows, by depth", 52, (0.04, 4), (0.05, 0.1, 0.2, 0.5, 1, 2),
         {depth: f"predict-depth-{depth}" for depth in (7, 8, 10, 14)}, {depth: str(depth) for depth in (7, 8, 10, 14)},
         {"frameboost": "frameboost predict", "XGBoost": "xgboost inplace_predict", "LightGBM": "lightgbm predict"}),
    )  # fmt: skip
    for title, left, (low, high), ticks, workloads, names, ways in panels:
        first, last = min(workloads), max(workloads)

        def across(x: float, left: float = left, first: float = first, last: float = last) -> float:
            return left + 6 + 28 * math.log(x / first) / math.log(last / first)

        def up(seconds: float, low: float = low, high: float = high) -> float:
            return 8 + 80 * math.log(seconds / low) / math.log(high / low)

        drawing.text(left, 96, title, anchor="start", size=14)
        for tick in ticks:
            drawing.line([(across(first), up(tick)), (across(last), up(tick))], FAINT, 0.7)
            drawing.text(left + 4.5, up(tick), f"{tick:g}", anchor="end", down=4, size=12)
        for x, name in names.items():
            drawing.text(across(x), 0, name, size=12)
        for library, colour in (("XGBoost", ORANGE), ("LightGBM", GREEN), ("frameboost", BLUE)):
            points = [(across(x), up(_seconds(run, each, ways[library]))) for x, each in workloads.items()]
            drawing.line(points, colour, 2.4)
            for point in points:
                drawing.dot(*point, colour, 3.5)
            drawing.text(points[-1][0] + 1.2, points[-1][1], library, anchor="start", down=4, colour=colour, size=12)
    return drawing.svg()


def _seconds(run: str, workload: str, way: str) -> float:
    """Return the last time of a way that a printed run has."""
    found = re.findall(rf"^{re.escape(workload)} +{re.escape(way)} +([\d.]+) s ", run, re.MULTILINE)
    return float(found[-1])


FIGURES: dict[str, Callable[[], str]] = {
    "leaf": leaf, "missing": missing, "quantiles": quantiles,
    "grid": grid, "categories": categories, "shapley": shapley, "times": times,
    "curves": curves,
}  # fmt: skip


if __name__ == "__main__":
    for name, draw in FIGURES.items():
        (FOLDER / f"{name}.svg").write_text(draw(), encoding="utf-8")
